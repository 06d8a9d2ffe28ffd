"""Labels of test that no file shows but one, and the split by cluster."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from evalkit.core.splits import Split, is_labeled, without_labels
from evalkit.core.types import Case, ChecklistItem, Response
from evalkit.runs import read_run
from evalkit.workflows.holdout import read_held_out, read_split
from tests.support.command_line import call_main

WORDS = (
    *("judge=simulated/good", "dataset=file", "dataset.path=cases.jsonl", "tracking=none"),
    "scoring.bootstrap=20",
)


def write_cases(labels: dict[int, str], n: int = 30) -> None:
    rows = [
        {
            "id": f"c{k}",
            "prompt": f"question {k // 2}",
            "response_a": f"one {k}",
            "response_b": f"two {k}",
            **({"label": labels.get(k, "AB"[k % 2])} if k < 24 else {}),
        }
        for k in range(n)
    ]
    Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def contents(folder: Path) -> dict[str, str]:
    """Return the files of a run without what differs between two runs: times, ids and versions."""
    changing = r'"(run_id|started|ended|latency|judging|sending|scoring|seconds|at|stored|sent)": *("[^"]*"|[\d.e-]+|\w+)'  # noqa: E501
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("holdout.jsonl", "manifest.json", "report.html"):
            found[path.name] = re.sub(changing, "", path.read_text())
    return found


def test_held_out_labels_change_nothing_but_their_own_file(here, capfd):
    write_cases({})
    call_main(capfd, "run", *WORDS, "dataset.holdout=0.3", "hydra.run.dir=one")
    held = {int(case.id[1:]): "AB"[case.label == "A"] for case in read_held_out(Path("one"))}
    assert len(held) == 8  # 4 of 12 labeled prompts, of two cases each
    write_cases(held)
    out = call_main(
        capfd,
        "run",
        *WORDS,
        "dataset.holdout=0.3",
        "hydra.run.dir=two",
        "store.mode=read_only",
        "-v",
    ).out
    assert {int(case.id[1:]): case.label for case in read_held_out(Path("two"))} == held
    one, two = contents(Path("one")), contents(Path("two"))
    assert (
        one.keys()
        == two.keys()
        >= {"metrics.json", "verdicts.jsonl", "cases.jsonl", "findings.md", "split.json"}
    )
    assert {name for name in one if one[name] != two[name]} <= {"config.yaml", "metrics.json"}
    assert (
        json.loads(Path("one/metrics.json").read_text())["metrics"]
        == json.loads(Path("two/metrics.json").read_text())["metrics"]
    )
    assert "note: labels held out for evalkit align: 8 cases" in out
    run = read_run(Path("two"))
    assert sum(map(is_labeled, run.cases)) == 16
    assert run.metrics["agreement/accuracy"].n == 16
    call_main(capfd, "reproduce", "two")
    call_main(capfd, "reproduce", "two", "dataset.path=cases.jsonl")


def test_each_cluster_is_on_one_side_and_each_side_has_its_share():
    cases = [Case(f"c{k}", "", (Response("a"),), label="A" if k < 60 else None) for k in range(90)]
    clusters = [k // 3 for k in range(90)]

    def split(data: str = "d", seed: int = 0, some: list[Case] = cases) -> Split:
        return Split.of(some, clusters, data=data, by="prompt", seed=seed, share=0.3)

    found = split()
    side = {case: name for name in ("train", "dev", "test") for case in found.ids(name)}
    assert len(side) == 90
    assert all(len({side[f"c{3 * k + i}"] for i in range(3)}) == 1 for k in range(30))
    assert Counter(side[f"c{3 * k}"] for k in range(20)) == {"train": 7, "dev": 7, "test": 6}
    assert Counter(side[f"c{3 * k}"] for k in range(20, 30)) == {"train": 4, "dev": 3, "test": 3}
    assert split() == found
    assert split(seed=1).test != found.test != split(data="e").test
    assert split(some=[replace(case, label="B" if case.label else None) for case in cases]) == found


def test_a_case_without_labels_has_none():
    labeled = Case(
        "c",
        "",
        (Response("a", grade=3.0), Response("b", class_name="good")),
        label="A",
        labels={"ann": "A"},
        checklist=(ChecklistItem("1", "is it?", labels={"ann": ("met",)}),),
    )
    each = [
        replace(labeled, responses=labeled.responses[:1], label=None, labels={}, checklist=()),
        replace(labeled, responses=labeled.responses[1:], label=None, labels={}, checklist=()),
        replace(labeled, responses=(), labels={}, checklist=()),
        replace(labeled, responses=(), label=None, checklist=()),
        replace(labeled, responses=(), label=None, labels={}),
    ]
    assert all(map(is_labeled, each))
    assert not is_labeled(without_labels(labeled))
    assert [one.text for one in without_labels(labeled).responses] == ["a", "b"]


@pytest.mark.parametrize(("words", "message"), [
    (["dataset.holdout=1"], "dataset.holdout.share: input should be less than 1"),
    (["dataset.holdout=half"], "dataset.holdout.share: input should be a valid number"),
    (["dataset.holdout={share: 0.2, sed: 1}"],
     "dataset.holdout.sed: no such key; did you mean 'seed'?"),
    (["dataset.holdout=0.3", "dataset.limit=2"],
     "dataset.holdout: train, dev and test need a labeled case each, and there are 2"),
    (["dataset.holdout=0.3", "dataset.benchmark=llmbar"],
     "dataset: holdout does not work with a benchmark"),
])  # fmt: skip
def test_a_wrong_holdout_is_one_line(words, message, here, capfd):
    write_cases({})
    assert message in call_main(capfd, "run", *WORDS, *words, "hydra.run.dir=one", status=1).line()
    assert not Path("one").exists()


def test_a_run_with_held_out_labels_takes_no_others(here, capfd):
    write_cases({})
    call_main(capfd, "run", *WORDS, "dataset.holdout=0.3", "hydra.run.dir=one")
    Path("labels.csv").write_text("id,annotator,label\nc25,ann,A\n")
    before = Path("one/cases.jsonl").read_text()
    for words in (["labels.csv"], ["--page"]):
        assert (
            "labels of test are held out"
            in call_main(capfd, "label", "one", *words, status=1).line()
        )
    assert Path("one/cases.jsonl").read_text() == before


def test_the_same_run_again_keeps_the_openings(here, capfd):
    write_cases({})
    words = ("run", *WORDS, "dataset.holdout=0.3", "hydra.run.dir=one")
    call_main(capfd, *words)
    split = json.loads(Path("one/split.json").read_text())
    Path("one/split.json").write_text(json.dumps(split | {"opened": ["2026-01-01"]}))
    call_main(capfd, *words)
    found = read_split(Path("one"))
    assert found.opened == ("2026-01-01",)
    assert "test labels opened once by evalkit align" in Path("one/report.html").read_text()
    Path("one/split.json").write_text("{}")
    assert "split.json: the file is damaged" in call_main(capfd, "score", "one", status=1).line()
