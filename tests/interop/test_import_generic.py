"""Tables with columns, spellings and orders by option; columns that group cases; tables of probabilities of answers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalkit import load_config
from evalkit.cli import main
from evalkit.datasets import load_cases
from evalkit.evaluators.factory import make_evaluator
from evalkit.runs import read_run

ROWS = [
    {
        "q": "1",
        "ask": "Why?",
        "ours": "because",
        "theirs": "no",
        "better": better,
        "first": first,
        "who": who,
        "gold": gold,
    }
    for better, first, who, gold in [
        ("ours", "ab", "j1", "ours"),
        ("theirs", "ba", "j1", "ours"),
        ("same", "ab", "j2", "ours"),
        ("-1", "ba", "j2", "ours"),
    ]
]
FIELDS = [
    *("id=q", "prompt=ask", "response_a=ours", "response_b=theirs", "winner=better", "order=first"),
    "judge=who",
]
FIELDS.append("label=gold")
MAPS = ("--map", "ours=A", "--map", "theirs=B", "--map", "same=TIE")


def test_pairs(bring, write):
    ran = bring("generic", str(write("mine.jsonl", ROWS)), "--fields", *FIELDS, *MAPS)
    assert ran.values == [
        ("1", [0, 1], 1.0),
        ("1", [1, 0], -1.0),
        ("1", [0, 1], 0.0),
        ("1", [1, 0], "unparseable"),
    ]
    (case,) = ran.rows("cases.jsonl")
    assert (case["label"], [one["text"] for one in case["responses"]]) == ("A", ["because", "no"])
    assert ran.metrics["judge/j1/position/consistency"]["value"] == 0
    assert ran.metrics["judge/j2/position/consistency"]["missing"] == 1


@pytest.mark.parametrize("column", ["judge", "label", "sample", "order"])
def test_a_column_that_is_mapped_to_a_verdict_has_no_other_role(bring, write, column):
    rows = [
        {"id": str(index), column: "yes" if index % 2 else "no", "gold": "yes"}
        for index in range(6)
    ]
    ran = bring(
        "generic", str(write("mine.jsonl", rows)), "--fields", f"class={column}", "label=gold"
    )
    assert "agreement/accuracy" in ran.metrics
    assert ran.metrics["agreement/accuracy"]["value"] == 0.5
    assert not any(name.startswith("judge/") for name in ran.metrics)


def test_a_csv_of_scores_by_criterion(bring, write):
    text = "model,answer,style,truth,people\nm1,good,4,5,3.5\nm2,bad,2,,1\n"
    path = write("mine.csv", text)
    words = ("response=answer", "score.style=style", "score.truth=truth", "grade=people")
    ran = bring("generic", str(path), "--judge", "me", "--fields", *words)
    assert [value for _, _, value in ran.values] == [{"style": 4.0, "truth": 5.0}, "unparseable"]
    assert "assumed 1 to 5" in ran.out
    config = (ran.folder / "config.yaml").read_text("utf-8")
    assert "\n  style:\n" in config
    assert "name: me" in config


def test_texts_alone_are_read_where_the_output_is_told(bring, write):
    rows = [{"id": "1", "text": "I prefer [[B]]", "order": order} for order in ("ab", "ba")]
    path = str(write("m.jsonl", rows))
    ran = bring("generic", path, "output=bracket")
    assert ran.values == [("1", [0, 1], -1.0), ("1", [1, 0], 1.0)]
    assert "without a verdict" not in ran.out + ran.err
    assert "the file has texts but no verdicts; name their" in bring("generic", path, status=1).err
    rows = [
        {"question_id": 1, "text": "Why?", "instruction": "Say.", "output": "x", "generator": "m"}
    ]
    wrong = bring("generic", str(write("n.jsonl", rows)), status=1)
    assert wrong.err.rstrip().endswith(
        "and looks like AlpacaEval outputs; use dataset=alpaca_eval in evalkit run"
    )


def test_margins_and_only(bring, write):
    rows = [
        {"id": str(n), "m": m, "kind": kind}
        for n, (m, kind) in enumerate([(0.5, "x"), (-0.25, "y")])
    ]
    path = str(write("m.jsonl", rows))
    ran = bring("generic", path, "--fields", "margin=m", "metadata.kind=kind", "--only", "kind=y")
    assert ran.values == [("1", [0, 1], -0.25)]
    wrong = bring(
        "generic", path, "--fields", "margin=m", "metadata.kind=kind", "--only", "kind=z", status=1
    )
    assert "--only kind=z: no such case; choose from x, y" in wrong.err


@pytest.mark.parametrize(("words", "said"), [
    (("--fields", "winner=beter"), "did you mean 'better'?"),
    (("--fields", "winner=better"), "'ours' is not a winner; map it: --map ours=A"),
    ((), "name the columns: --fields winner=COLUMN, score=COLUMN or class=COLUMN"),
    (("--fields", "winner=better", "order=who", *MAPS), "'j1' is not an order; write ab"),
    (("--complete", "--fields", "winner=nothing"), "no row has the column 'nothing', mapped"),
    (("--only",), "evalkit import: --only: needs a value"),
    (("winner",), "winner: is not an override"),
    (("--fields", "winner=better", *MAPS, "scoring.bootstraps=1"), "scoring.bootstraps"),
    (("--fields", "winner=better", *MAPS, "tie.threshold=2"), "tie.threshold"),
])  # fmt: skip
def test_mistakes_are_one_line_and_write_nothing(bring, write, words, said):
    path = str(write("mine.jsonl", ROWS))
    ran = bring("generic", path, *words, status=1)
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not ran.folder.exists()


def test_the_same_cases_can_be_judged_again(bring, write):
    """The config of an imported run names its own cases as the dataset."""
    from evalkit.compose import load_config
    from evalkit.datasets import load_cases

    rows = [{"id": "1", "response": "x", "model": "m", "score": 3, "grade": 2, "prompt": "p"}]
    ran = bring("generic", str(write("m.jsonl", rows)))
    config = load_config(str(ran.folder / "config.yaml"))
    (case,) = load_cases(config.dataset, mode="pointwise").cases
    assert (case.id, case.prompt, case.responses[0].text, case.responses[0].grade) == (
        *("1", "p", "x", 2.0),
    )


@pytest.mark.parametrize(
    ("column", "value", "scale"),
    [("confidence", 85, "0 to 1"), ("margin", 5, "-1 to 1"), ("margin", -1.5, "-1 to 1")],
)
def test_a_number_on_another_scale_is_refused(write, monkeypatch, capsys, column, value, scale):
    rows = [
        {"id": "1", "response_a": "x", "response_b": "y", "winner": None, "margin": 0.5,
         "confidence": 0.5},
    ]  # fmt: skip
    path = write("m.jsonl", [*rows, {**rows[0], "id": "2", column: value}])
    monkeypatch.chdir(path.parent)
    assert main(["import", "generic", str(path), "tracking=none", "hydra.run.dir=run"]) == 1
    said = f"m.jsonl:2: {column} {value:g} is out of range; write it from {scale}"
    assert said in capsys.readouterr().err
    assert not (path.parent / "run").exists()


def test_scores_must_be_on_the_scale_that_they_are_said_to_be_on(bring, write, capsys):
    path = write("m.csv", "id,response,score\n1,x,50\n2,y,3.5\n")
    fields = ("--fields", "score=score")
    assert (
        main(
            [
                "import",
                "generic",
                str(path),
                *fields,
                "rubric=likert5",
                "tracking=none",
                "hydra.run.dir=run",
            ]
        )
        == 1
    )
    assert "case '1': a score of 50 by 'quality' is not on the scale 1" in capsys.readouterr().err
    assert "assumed 0 to 100" in bring("generic", str(path), *fields).out
    assert (
        "does not say on what scale"
        not in bring("generic", str(path), *fields, "rubric=percent100").out
    )


def test_a_response_has_the_text_that_a_later_row_gives_it(bring, write):
    rows = [
        {"id": "1", "model_a": "m", "model_b": "n", "winner": "A", "judge": judge}
        for judge in ("j", "k")
    ]
    rows[1] |= {"response_a": "said later", "response_b": "also"}
    ran = bring("generic", str(write("m.jsonl", rows)))
    (case,) = ran.rows("cases.jsonl")
    assert [one["text"] for one in case["responses"]] == ["said later", "also"]


@pytest.mark.parametrize(("words", "noted"), [
    ([], True),
    (["rubric.step=0.5"], True),
    (["rubric.min=1", "rubric.max=5"], False),
    (["rubric={min: 1, max: 5}"], False),
    (["rubric=likert5"], False),
    (["rubric.max=10"], False),
])  # fmt: skip
def test_a_scale_on_the_command_line_is_not_noted_as_assumed(bring, write, words, noted):
    rows = [f"{number},p{number},r,{1 + number % 5}\n" for number in range(5)]
    path = write("scores.csv", "".join(["id,prompt,response,score\n", *rows]))
    assert (
        "does not state the scale of its scores" in bring("generic", str(path), *words).out
    ) is noted


QUIET = ("tracking=none", "scoring.bootstrap=0", "hydra.run.dir=run", "--overwrite")
TAGS = ["Creative Writing", "Math & Data", "Coding/Debugging"]


def scores(folder: Path, count: int) -> Path:
    rows = [
        {"session_id": f"w{n}", "score": f"{1 + n % 10}", "model_test": "m", "model_output": "x"}
        for n in range(count)
    ]
    path = folder / "model.json"
    path.write_text(json.dumps(rows))
    return path


def tasks(ids: list[str], **more: Any) -> str:
    rows = [
        {
            "session_id": name,
            "conversation_input": [{"role": "user", "content": f"Write {n}."}],
            "checklist": ["Is it written?"],
            "primary_tag": TAGS[n % 3],
            "secondary_tags": [TAGS[(n + 1) % 3], TAGS[n % 3]],
            **more,
        }
        for n, name in enumerate(ids)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def counts(column: str) -> dict[str, int]:
    """Return the cases of each slice of the run."""
    metrics = json.loads(Path("run/metrics.json").read_text())["metrics"]
    start = f"slice/{column}/"
    return {name.split("/")[2]: one["n"] for name, one in metrics.items() if name.startswith(start)}


@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_scores_have_the_tags_of_the_tasks_in_their_folder(here, whole):
    folder = here / "published"
    folder.mkdir()
    path = scores(folder, 60)
    (folder / "tasks.jsonl").write_text(tasks([f"w{n}" for n in range(50)]))
    assert main(["import", "wildbench", str(folder if whole else path), *QUIET]) == 0
    cases = {case.id: case.metadata.get("tags") for case in read_run(here / "run").cases}
    assert len(cases) == 60
    assert cases["w0"] == ["Creative Writing", "Math & Data"]
    assert cases["w1"] == ["Math & Data", "Coding/Debugging"]
    assert cases["w59"] is None


def test_tags_in_the_rows_themselves_are_kept(here):
    row = {
        "session_id": "w1",
        "score": "7",
        "model_test": "m",
        "model_output": "x",
        "primary_tag": "Math",
    }
    (here / "model.json").write_text(json.dumps([row]))
    assert main(["import", "wildbench", "model.json", *QUIET]) == 0
    assert read_run(here / "run").cases[0].metadata["tags"] == ["Math"]


@pytest.mark.parametrize(
    "text", ['{"todo": 1}\n', "not json\n", "", '{"session_id": "w1"}\n'], ids=repr
)
def test_another_file_of_this_name_is_not_read(here, text):
    scores(here, 3)
    (here / "tasks.jsonl").write_text(text)
    assert main(["import", "wildbench", "model.json", *QUIET]) == 0
    assert all("tags" not in case.metadata for case in read_run(here / "run").cases)


def test_tags_of_tasks_are_metadata_and_change_no_request(here):
    keys = []
    for text in (
        tasks(["a", "b", "c"], response="x"),
        tasks(["a", "b", "c"], response="x", primary_tag=None),
    ):
        Path("tasks.jsonl").write_text(text)
        config = load_config(
            overrides=[
                "dataset=wildbench",
                "dataset.path=tasks.jsonl",
                "mode=pointwise",
                "rubric=likert10",
            ]
        )
        cases = load_cases(config.dataset, mode=config.mode.name).cases
        keys.append([one.messages for case in cases for one in make_evaluator(config).plan(case)])
    assert keys[0] == keys[1]
    assert cases[0].metadata["tags"] == ["Math & Data", "Creative Writing"]


@pytest.mark.shared
def test_llm_rubric_by_annotator(here, shared):
    settings = (*QUIET, "scoring.bootstrap=100", "scoring.slices=[annotator,dialogue_system]")
    assert main(["import", "llm_rubric", str(shared / "data/llm_rubric"), *settings]) == 0
    cases = read_run(here / "run").cases
    expected = Counter(name for case in cases for name in case.metadata.get("annotator", ()))
    assert counts("annotator") == expected
    assert sum(counts("dialogue_system").values()) == len(cases) == 223
    rows = json.loads(Path("run/slices.json").read_text())
    assert {row["column"] for row in rows} == {"annotator", "dialogue_system"}
    assert all((row["estimate"] is None) == (row["n"] < 10) for row in rows)
    assert "slice" in Path("run/findings.md").read_text()


JUDGED = """text_id\tcriterion\tsample_llm\tanswer1_prob\tanswer2_prob\tanswer3_prob\tanswer4_prob
a\tQ0\t4\t0.1\t0.2\t0.3\t0.4
a\tQ1\t1\t1\t0\t0\t0
b\tQ0\t1\t0.5\t0.3\t0.1\t0.1
c\tQ0\t1\t0\t0\t0\t0
"""
ANNOTATED = """dialogue_system\ttext_id\tQ1\tQ0\tannotator_id
0\ta\t3\t4\t22
0\tb\t0\t2\t7
1\tc\t1\t3\t7
"""


@pytest.fixture
def folder(write):
    write("tables/gpt_real_evaluations.tsv", JUDGED)
    return write("tables/human_judges.tsv", ANNOTATED).parent


def test_scores_are_expectations_or_the_most_likely_answers(folder, bring):
    ran = bring("llm_rubric", str(folder))
    found = ran.metrics["agreement/rmse"]
    assert found["value"] == pytest.approx((((3.0 - 4) ** 2 + (1.8 - 2) ** 2) / 2) ** 0.5)
    # The answer without a probability could be 3, its grade, or 1, which is farthest from it.
    assert (found["n"], found["missing"]) == (2, 1)
    # No judge is asked, so the prompt's examples do not matter.
    assert "rubric.examples" not in ran.out
    assert found["worst_low"] == pytest.approx((1.04 / 3) ** 0.5)
    assert found["worst_high"] == pytest.approx((5.04 / 3) ** 0.5)
    plain = bring("llm_rubric", str(folder), "scoring.weighted=false").metrics
    assert plain["agreement/rmse"]["value"] == pytest.approx(0.5**0.5)


def test_another_question_is_chosen_and_0_is_no_answer(folder, bring):
    found = bring("llm_rubric", str(folder), "--dimension", "Q1").metrics["agreement/rmse"]
    assert (found["value"], found["n"]) == (2.0, 1)


def test_mistakes_are_one_line(folder, bring):
    assert "no such question" in bring("llm_rubric", str(folder), "--dimension", "Q9", status=1).err
    (folder / "gpt_real_evaluations.tsv").write_text(JUDGED.replace("0.4", "much"))
    assert "a probability is not a number" in bring("llm_rubric", str(folder), status=1).err
