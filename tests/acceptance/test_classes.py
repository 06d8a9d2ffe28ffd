"""Classes from the command line: run, plan, score, compare, import, export and label."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ENGLISH = [
    {"id": f"c{n}", "prompt": f"Question {n}?", "response": f"answer {n}", "label": label}
    for n, label in enumerate(["pass", "FAIL", 1, True, "通过", "fail"] * 5)
]
MAP = "dataset.label_map='1=pass, true=pass, 通过=pass'"
RUN = [
    *("mode=pointwise", "dataset=file", "dataset.path=traces.jsonl", "tracking=none"),
    "scoring.bootstrap=50",
]


@pytest.fixture
def traces(tmp_path):
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ENGLISH), "utf-8")
    return path


def rows(folder: str, name: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in Path(folder, f"{name}.jsonl").read_text("utf-8").splitlines()
    ]


def test_a_run_of_pass_and_fail(call, traces):
    words = [*RUN, "rubric=pass_fail", "judge=simulated/good", MAP]
    assert "30" in call("plan", *words).out
    call("run", *words, "hydra.run.dir=one")
    verdicts = rows("one", "verdicts")
    assert {one["class_name"] for one in verdicts} == {"pass", "fail"}
    assert Counter(one["label"] for one in verdicts) == {"pass": 20, "fail": 10}
    assert {one["reason"] for one in verdicts} == {"judged"}
    page = Path("one/report.html").read_text("utf-8")
    assert '"class":"pass"' in page.replace(": ", ":")
    assert '"class_label":"fail"' in page.replace(": ", ":")
    call("score", "one", "scoring.seed=3")
    assert rows("one", "verdicts") == verdicts
    call("run", *words, "hydra.run.dir=two", "output=bracket")
    call("compare", "one", "two")
    assert [one["class_name"] for one in rows("two", "verdicts")] == [
        one["class_name"] for one in verdicts
    ]
    call("export", "one", "--to", "csv", "--output", "one.csv")
    with Path("one.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["class"] for row in table] == [one["class_name"] for one in verdicts]
    assert {row["label"] for row in table} == {"pass", "fail"}
    call("import", "generic", "one.csv", "rubric=pass_fail", "tracking=none", "--output", "three")
    again = rows("three", "verdicts")
    assert [(one["class_name"], one["label"]) for one in again] == [
        (one["class_name"], one["label"]) for one in verdicts
    ]


def test_classes_on_the_command_line_with_samples_and_abstentions(call, traces):
    rubric = (
        "rubric={classes: {comply: does what was asked, refuse: declines, partial: does some of it}, "
        "positive: refuse, abstain: cannot_assess}"
    )
    labels = (
        "dataset.label_map='1=comply,true=comply,通过=partial,pass=comply,FAIL=refuse,fail=refuse'"
    )
    judge = [
        "judge=simulated/abstaining",
        "judge.params.strength=0.5",
        "judge.temperature=1",
        "mode.samples=2",
    ]
    call("run", *RUN, rubric, labels, *judge, "hydra.run.dir=one")
    reasons = Counter(one["reason"] for one in rows("one", "verdicts"))
    assert set(reasons) == {"judged", "split", "abstained"}
    assert all(
        (one["class_name"] is None) == (one["reason"] != "judged")
        for one in rows("one", "verdicts")
    )
    said = {one["class_name"] for one in rows("one", "judgments")}
    assert said == {"comply", "refuse", "partial", "cannot_assess"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["rubric=pass_fail", "rubric.positive=pas"],
            "positive is 'pas', which is not a class; did you mean 'pass'",
        ),
        (
            ["rubric.classes={a: x, b: y}"],
            "it has both classes and levels; a rubric has either a scale or classes",
        ),
        (["rubric={classes: {a: x, b: y}, abstain: a}"], "give the abstention its own name"),
        (
            ["rubric=pass_fail", "dataset.label_map='1=pas'"],
            "dataset.label_map.1: 'pas' is not pass or fail",
        ),
        (
            ["rubric=pass_fail"],
            "traces.jsonl:3: label 1 is not one of the classes pass, fail; map it, for example",
        ),
    ],
)
def test_a_wrong_setting_is_one_line(call, traces, words, said):
    assert said in call("run", *RUN, "judge=simulated/good", *words, status=1).line()
    assert not Path("outputs").exists()


def test_labels_of_annotators(call, traces):
    call(
        "run",
        *RUN,
        "rubric=yes_no",
        "judge=simulated/good",
        f"{MAP[:-1]}, pass=yes, fail=no, FAIL=no'".replace("=pass", "=yes"),
        "hydra.run.dir=one",
    )
    Path("labels.csv").write_text(
        "id,annotator,class\nc0,ann,No\nc1,ann,1\nc2,ann,cannot_tell\nc0,bob,yes\n", "utf-8"
    )
    said = call("label", "one", "labels.csv").out
    assert "labels: 3 by 2 annotators (ann 2, bob 1)" in said
    assert "rows without a label, omitted: 1" in said
    cases = rows("one", "cases")
    assert cases[0]["labels"] == {"ann": ["no"], "bob": ["yes"]}
    assert cases[1]["labels"] == {"ann": ["yes"]}
    Path("wrong.csv").write_text("id,annotator,class\nc0,ann,maybe\n", "utf-8")
    assert (
        'wrong.csv:2: label "maybe" is not one of the classes yes, no'
        in call("label", "one", "wrong.csv", status=1).err
    )
    assert rows("one", "cases") == cases


def test_a_file_of_classes_is_imported(call, tmp_path):
    lines = [
        "id,prompt,response,verdict,label,label.ann",
        "1,p,a,PASS,pass,fail",
        "2,q,b,fail,pass,",
        "3,r,c,unsure,fail,",
    ]
    (tmp_path / "judged.csv").write_text("\n".join([*lines, "4,s,d,,fail,"]) + "\n", "utf-8")
    words = ["import", "generic", "judged.csv", "--fields", "class=verdict", "tracking=none"]
    said = call(*words, "--output", "guessed").out
    assert "the classes are those in the file: PASS, fail, unsure" in said
    rubric = "rubric={classes: {pass: is right, fail: is wrong}, abstain: unsure, positive: pass}"
    said = call(*words, rubric, "--output", "named").out
    assert "the classes are those in the file" not in said
    found = [(one["class_name"], one["reason"], one["label"]) for one in rows("named", "verdicts")]
    assert found == [
        ("pass", "judged", "pass"),
        ("fail", "judged", "pass"),
        (None, "abstained", "fail"),
        (None, "missing", "fail"),
    ]
    assert rows("named", "cases")[0]["labels"] == {"ann": ["fail"]}
    assert (
        '"unsure" is not one of the classes'
        in call(*words, "rubric=pass_fail", "--output", "x", status=1).err
    )
    assert not Path("x").exists()
    said = call("export", "named", "--to", "mt_bench", status=1).err
    assert "the run has classes, and MT-bench's judgments have scores; use --to csv" in said
