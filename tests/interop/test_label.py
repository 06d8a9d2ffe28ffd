"""People's labels into a finished run: from CSV, Argilla and Label Studio, annotators apart, a run scored again."""

import csv
import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.config import DatasetConfig
from evalkit.core.annotations import INCLUSION
from evalkit.core.errors import DatasetError
from evalkit.core.types import Orders
from evalkit.datasets import load_cases
from evalkit.labels.sample import allocate, disagreement_kind, sample_for_labeling
from evalkit.runs import read_run


def pair(number: int, winners: tuple[str, str], **more: Any) -> list[dict[str, Any]]:
    base = {
        "id": f"c{number}",
        "prompt": f"q{number}",
        "response_a": "x",
        "response_b": "yy",
        "judge": "j",
        **more,
    }
    return [
        {**base, "winner": winner, "order": order}
        for winner, order in zip(winners, ("ab", "ba"), strict=True)
    ]


@pytest.fixture
def ran(once):
    """Twelve pairs: the judge says A in 0-3, B in 4-7, and changes its mind in 8-11."""
    rows = [row for n in range(12) for row in pair(n, [("A", "A"), ("B", "B"), ("A", "B")][n // 4])]
    return once("pairs", rows)


def label(ran, *words: str) -> int:
    return main(["label", str(ran.folder), *words])


def test_labels_of_two_people(ran, write, capsys):
    lines = ["id,annotator,label"]
    lines += [f"c{n},ann,{'A' if n < 4 else 'B'}" for n in range(8)]
    lines += [f"c{n},bob,{'A' if n < 6 else 'B'}" for n in range(8)]
    write("labels.csv", "\n".join(lines) + "\n")
    assert label(ran, "labels.csv") == 0
    assert "labels: 16 by 2 annotators (ann 8, bob 8)" in capsys.readouterr().out
    cases = {row["id"]: row for row in ran.rows("cases.jsonl")}
    assert cases["c5"]["labels"] == {"ann": "B", "bob": "A"}
    assert cases["c5"]["label"] is None
    assert cases["c0"]["label"] == "A"
    # Agreed: c0-c3 and c6, c7, on all of which the judge is right; the ceiling is 6 of 8 for each
    # of the two.
    assert ran.metrics["agreement/accuracy"]["value"] == 1
    assert ran.metrics["agreement/accuracy"]["n"] == 6
    assert ran.metrics["human/ceiling"]["value"] == 0.75
    assert ran.metrics["corrected/win_rate/a"]["n"] == 6
    assert ran.json("manifest.json")["labels"][0]["annotators"] == {"ann": 8, "bob": 8}
    split = "cases without a label because annotators are evenly split: "
    assert f"{split}2" in ran.json("manifest.json")["notes"]
    write("more.csv", "id,annotator,label\nc4,eve,A\n")
    assert label(ran, "more.csv") == 0
    assert f"{split}1" in ran.json("manifest.json")["notes"]


def test_a_later_label_of_one_person_stands_in_place_of_the_former(ran, write):
    write("one.csv", "case_id,annotator,label\nc0,ann,A\n")
    write("two.csv", "case_id,annotator,label\nc0,ann,B\nc1,bob,tie\n")
    assert label(ran, "one.csv") == label(ran, "two.csv") == 0
    cases = {row["id"]: row for row in ran.rows("cases.jsonl")}
    assert (cases["c0"]["labels"], cases["c1"]["labels"]) == ({"ann": "B"}, {"bob": "TIE"})
    assert len(ran.json("manifest.json")["labels"]) == 2


def test_a_label_of_the_data_set_stays_however_often_people_label(bring, write):
    ran = bring("generic", str(write("p.jsonl", pair(0, ("A", "A"), label="A"))))
    write("l.csv", "id,annotator,label\nc0,ann,B\n")
    write("m.csv", "id,annotator,label\nc0,bob,B\n")
    for file in ("l.csv", "l.csv", "m.csv"):
        assert label(ran, file) == 0
    (case,) = ran.rows("cases.jsonl")
    assert (case["label"], case["labels"]) == ("A", {"ann": "B", "bob": "B"})
    assert ran.metrics["agreement/accuracy"]["value"] == 1


GRADES = [("1", "ann", 5, 0), ("1", "ann", 1, 1), ("1", "bob", 3, 0)]


@pytest.mark.parametrize("layout", ["g.csv", "g.jsonl"])
def test_grades(bring, write, layout):
    rows = [
        {"id": "1", "prompt": "p", "response": text, "model": text, "score": s}
        for text, s in [("a", 4), ("b", 2)]
    ]
    ran = bring("generic", str(write("s.jsonl", rows)))
    columns = ("id", "annotator", "grade", "response_index")
    grades = [dict(zip(columns, row, strict=True)) for row in GRADES]
    text = "\n".join(",".join(map(str, row)) for row in [columns, *GRADES])
    write(layout, text if layout.endswith("csv") else grades)
    assert label(ran, layout) == 0
    (case,) = ran.rows("cases.jsonl")
    assert case["labels"] == {"ann": [5.0, 1.0], "bob": [3.0, None]}
    assert [one["grade"] for one in case["responses"]] == [4.0, 1.0]


def exported(ran, layout: str) -> list[dict[str, Any]]:
    assert main(["export", str(ran.folder), "--to", layout]) == 0
    return json.loads((ran.folder / f"{layout}.json").read_text("utf-8"))


def better(shown: str) -> str:
    """What a person says who holds the case's first response for the better one."""
    return "A" if shown == "0,1" else "B"


@pytest.mark.parametrize(("content", "said"), [
    ("id,annotator,label\nc99,ann,A\n", "l.csv:2: the run has no case 'c99'"),
    ("id,annotator,label\nc0,ann,Z\n", "l.csv:2: 'Z' is not a winner"),
    ("id,label\nc0,A\n", "l.csv:2: the label has no annotator"),
    ("annotator,label\nann,A\n", "the label has no case"),
    ("id,annotator,label\nc0,ann,4\n", "l.csv:2, case 'c0': the grade 4 does not name one of"),
    ("id,annotator,label,shown\nc0,ann,A,first\n", "'first' is not an order of responses"),
    ("id,annotator,label\n", "has no labels"),
])  # fmt: skip
def test_mistakes_are_one_line_and_change_nothing(ran, write, capsys, content, said):
    before = (ran.folder / "cases.jsonl").read_bytes()
    write("l.csv", content)
    capsys.readouterr()
    assert label(ran, "l.csv") == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line
    assert (ran.folder / "cases.jsonl").read_bytes() == before


@pytest.mark.parametrize(("words", "said"), [
    (("--to", "paper"), "--to paper: labels cannot be requested there"),
    (("--to", "mlflow", "--annotators", "ann,ann"), "--annotators: needs different names"),
    (("absent.csv",), "absent.csv: no such file"),
    (("--from", "mlflow", "tracking.uri=sqlite:///no.db"), "no.db: no such store"),
])  # fmt: skip
def test_words_that_do_not_fit_the_run(ran, capsys, words, said):
    capsys.readouterr()
    assert label(ran, *words) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


@pytest.fixture
def many(once):
    """120 pairs: the judge says A in 0-59, B in 60-107, and changes its mind in 108-119."""
    rows = [
        row
        for n in range(120)
        for row in pair(n, ("A", "A") if n < 60 else ("B", "B") if n < 108 else ("A", "B"))
    ]
    return once("many", rows)


def names_of(sample) -> set[str]:
    return {name for name, _ in sample.units}


def test_what_teaches_most_is_sampled_more_often_and_verdicts_are_balanced(many):
    result = read_run(many.folder)
    sample = sample_for_labeling(result, 24)
    assert sample.strata == {
        "flip, verdict TIE": (12, 5),
        "plain, verdict A": (60, 10),
        "plain, verdict B": (48, 9),
    }
    assert len(sample.units) == 24
    for name, probability in sample.probabilities.items():
        number = int(name[1:])
        assert probability == (10 / 60 if number < 60 else 9 / 48 if number < 108 else 5 / 12)
    assert names_of(sample) == names_of(sample_for_labeling(result, 24))
    assert names_of(sample) != names_of(sample_for_labeling(result, 24, seed=1))
    assert names_of(sample) < names_of(sample_for_labeling(result, 40))
    assert set(sample_for_labeling(result, 8).strata) == {"flip", "plain"}
    assert sample_for_labeling(result, 2).strata == {"all": (120, 2)}
    assert names_of(sample_for_labeling(result, 1000)) == {f"c{n}" for n in range(120)}


def test_probabilities_are_the_frequencies_over_seeds(many):
    """400 samples: each case is in as many of them as its probability says, within 5 standard errors."""
    result, counts, chances = read_run(many.folder), Counter(), {}
    for seed in range(400):
        sample = sample_for_labeling(result, 24, seed)
        counts.update(names_of(sample))
        chances |= sample.probabilities
    assert len(chances) == 120
    for name, chance in chances.items():
        assert abs(counts[name] / 400 - chance) < 5 * (chance * (1 - chance) / 400) ** 0.5


@pytest.mark.parametrize(
    "sizes", [{"a": 1}, {"a": 100, "b": 1, "c": 7}, {"a": 5, "b": 5}, {"a": 1, "b": 1}]
)
def test_every_stratum_is_sampled_and_a_larger_sample_extends_a_smaller_one(sizes):
    before = None
    for wanted in range(len(sizes), sum(sizes.values()) + 3):
        counts = allocate(sizes, wanted)
        assert sum(counts.values()) == min(wanted, sum(sizes.values()))
        assert all(1 <= counts[name] <= size for name, size in sizes.items())
        assert before is None or all(counts[name] >= before[name] for name in sizes)
        before = counts


def test_labeled_cases_are_not_sampled_again(many, write):
    write("l.csv", "id,annotator,label\n" + "".join(f"c{n},ann,A\n" for n in range(20)))
    label(many, "l.csv")
    sample = sample_for_labeling(read_run(many.folder), 1000)
    assert names_of(sample) == {f"c{n}" for n in range(20, 120)} == set(sample.probabilities)
    write("rest.csv", "id,annotator,label\n" + "".join(f"c{n},bob,A\n" for n in range(20, 120)))
    label(many, "rest.csv")
    assert (
        len(sample_for_labeling(read_run(many.folder), 1000).units) == 120
    )  # another annotator can label all


def truth(number: int) -> str:
    """Return the label of a pair: the judge is right in 3 of 4 plain pairs."""
    return ("A" if number < 60 else "B") if number % 4 else "TIE"


def returned(many, write, layout: str, keep: bool = True) -> None:
    """Write the exported tasks with a label, as a labeling tool returns them; without `keep`, as older versions did."""
    tasks = json.loads((many.folder / f"{layout}.json").read_text())
    for task in tasks:
        known = task["metadata" if layout == "argilla" else "data"]
        if not keep:
            del known[INCLUSION]
        choice = truth(int(known["case_id"][1:]))
        choice = {"A": "B", "B": "A"}.get(choice, choice) if known["shown"] == "1,0" else choice
        if layout == "argilla":
            task["responses"] = {"better": [{"value": choice, "user_id": "ann"}]}
        else:
            result = [{"from_name": "better", "value": {"choices": [choice]}}]
            task["annotations"] = [{"completed_by": "ann", "result": result}]
    write(f"{layout}.json", tasks)


@pytest.mark.parametrize("layout", ["argilla", "label_studio"])
@pytest.mark.parametrize("recorded", [True, False])
def test_labels_of_sampled_cases_are_weighted(many, write, capsys, layout, recorded):
    """The probability comes from the run folder, or else from the file that was labeled."""
    assert main(["export", str(many.folder), "--to", layout, "--n", "24"]) == 0
    file = many.folder / "label-sample.json"
    chances = json.loads(file.read_text())["probabilities"]
    returned(many, write, layout, keep=not recorded)
    if not recorded:
        file.unlink()
    assert label(many, f"{layout}.json", "-v") == 0
    cases = {row["id"]: row["metadata"] for row in many.rows("cases.jsonl")}
    assert {name: one[INCLUSION] for name, one in cases.items() if INCLUSION in one} == chances
    right = sum(1 / p for name, p in chances.items() if int(name[1:]) < 108 and int(name[1:]) % 4)
    right += sum(
        1 / p for name, p in chances.items() if int(name[1:]) >= 108 and not int(name[1:]) % 4
    )
    accuracy = many.metrics["agreement/accuracy"]
    assert accuracy["value"] == pytest.approx(right / 120)
    assert accuracy["n"] == 24
    assert many.metrics["labels/effective"]["value"] < 24
    told = capsys.readouterr().out
    assert "The 24 labeled cases were sampled, informative ones more often. Comparisons" in told


def test_labels_of_a_queue_without_probabilities_are_not_about_the_data_set(many, write, capsys):
    assert main(["export", str(many.folder), "--to", "argilla", "--n", "24"]) == 0
    (many.folder / "label-sample.json").unlink()
    returned(many, write, "argilla", keep=False)
    assert label(many, "argilla.json") == 0
    assert many.metrics["labels/picked"]["value"] == 1.0
    told = capsys.readouterr().out
    assert "100% of the 24 labeled cases were picked for labeling with unknown" in told
    assert "not about the data set" in told
    # A sample of the other cases says what their labels would be: then all labels count.
    assert main(["export", str(many.folder), "--to", "argilla", "--n", "24"]) == 0
    returned(many, write, "argilla")
    assert label(many, "argilla.json") == 0
    assert "labels/picked" not in many.metrics
    assert many.metrics["agreement/accuracy"]["n"] == 48


def test_more_labels_extend_a_sample(many, write):
    assert main(["export", str(many.folder), "--to", "argilla", "--n", "24"]) == 0
    returned(many, write, "argilla")
    label(many, "argilla.json")
    first = {row["id"] for row in many.rows("cases.jsonl") if row["labels"]}
    sample = sample_for_labeling(read_run(many.folder), 24)
    assert not names_of(sample) & first
    assert first | names_of(sample) == set(sample.probabilities)
    assert sum(cases for cases, _ in sample.strata.values()) == 120
    other = sample_for_labeling(
        read_run(many.folder), 24, seed=1
    )  # another order: the first sample is certain
    assert not set(other.probabilities) & first
    assert sum(cases for cases, _ in other.strata.values()) == 96


def test_all_tasks_are_certain_and_an_invalid_probability_changes_nothing(many, write, capsys):
    assert main(["export", str(many.folder), "--to", "argilla"]) == 0
    assert not (many.folder / "label-sample.json").exists()
    tasks = json.loads((many.folder / "argilla.json").read_text())
    assert {task["metadata"][INCLUSION] for task in tasks} == {1.0}
    write("labels.csv", f"id,annotator,label,{INCLUSION}\nc1,ann,A,often\n")
    before = (many.folder / "cases.jsonl").read_bytes()
    assert label(many, "labels.csv") == 1
    assert "case 'c1': 'often' is not the probability" in capsys.readouterr().err
    assert (many.folder / "cases.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "content", ["", "[]", '{"probabilities": {"c1": "x"}}', '{"probabilities": 3}']
)
def test_a_damaged_sample_is_one_line(many, write, capsys, content):
    (many.folder / "label-sample.json").write_text(content)
    write("labels.csv", "id,annotator,label\nc1,ann,A\n")
    assert label(many, "labels.csv") == 1
    assert "label-sample.json: is not a sample of cases" in capsys.readouterr().err


def test_kinds(ran):
    verdict = read_run(ran.folder).verdicts[0]
    assert disagreement_kind(replace(verdict, votes={"a": "A", "b": "B"}), 0.0) == "disagreement"
    assert disagreement_kind(replace(verdict, orders=Orders("A", "B", False)), 0.0) == "flip"
    assert disagreement_kind(replace(verdict, margin=0.3), 0.0) == "near"
    assert disagreement_kind(replace(verdict, margin=-0.8), 0.5) == "near"
    assert disagreement_kind(replace(verdict, margin=1.0), 0.0) == "plain"


MODELS = ("m1", "m2", "m3")


@pytest.fixture
def three(bring, write):
    """One question with three responses, of which the judge puts the first above the second above the third."""
    rows = [
        {"id": "q", "prompt": "p", "response_a": one, "response_b": two, "model_a": one, "model_b": two,
         "winner": winner, "order": order, "judge": "j"}
        for k, one in enumerate(MODELS) for two in MODELS[k + 1:] for winner, order in (("A", "ab"), ("A", "ba"))
    ]  # fmt: skip
    return bring("generic", str(write("three.jsonl", rows)))


def test_every_pair_that_was_judged_is_offered_and_labelled(three, write, capsys):
    assert [len(case["responses"]) for case in three.rows("cases.jsonl")] == [3]
    tasks = exported(three, "argilla")
    assert sorted("".join(sorted(one["metadata"]["shown"])) for one in tasks) == [
        ",01",
        ",02",
        ",12",
    ]
    assert len(sample_for_labeling(read_run(three.folder), 9).units) == 3
    for (
        task
    ) in tasks:  # ann thinks as the judge does, bob the other way round but for the first two
        shown = task["metadata"]["shown"]
        mine = "A" if shown[0] < shown[2] else "B"
        other = mine if sorted(shown) == [",", "0", "1"] else {"A": "B", "B": "A"}[mine]
        task["responses"] = {
            "better": [{"value": mine, "user_id": "ann"}, {"value": other, "user_id": "bob"}]
        }
    write("records.json", tasks)
    assert label(three, "records.json") == 0
    (case,) = three.rows("cases.jsonl")
    assert case["labels"] == {
        "ann": {"0,1": "A", "0,2": "A", "1,2": "A"},
        "bob": {"0,1": "A", "0,2": "B", "1,2": "B"},
    }
    assert case["label"] == "A"
    verdicts = {tuple(row["unit"]): row["label"] for row in three.rows("verdicts.jsonl")}
    assert verdicts == {(0, 1): "A", (0, 2): None, (1, 2): None}  # the others are evenly split
    assert three.metrics["agreement/accuracy"]["n"] == 1
    assert (three.metrics["human/ceiling"]["value"], three.metrics["human/ceiling"]["n"]) == (
        pytest.approx(1 / 3),
        6,
    )
    write("more.csv", 'id,annotator,label,shown\nq,cid,B,"2,0"\nq,cid,TIE,"1,2"\n')
    assert label(three, "more.csv") == 0
    assert {tuple(row["unit"]): row["label"] for row in three.rows("verdicts.jsonl")}[0, 2] == "A"
    assert (
        three.metrics["agreement/accuracy"]["value"],
        three.metrics["agreement/accuracy"]["n"],
    ) == (1, 2)
    assert main(["export", str(three.folder), "--to", "csv"]) == 0
    with (three.folder / "judgments.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    said = {
        (row["model_a"], row["model_b"]): (row["label.ann"], row["label.bob"], row["label.cid"])
        for row in rows
    }
    assert said[MODELS[:2]] == ("A", "A", "")
    assert said[MODELS[1:]] == ("A", "B", "TIE")
    # What was labelled is read again as a data set, pairs and all.
    config = DatasetConfig(path=str(three.folder / "cases.jsonl"), format="jsonl")
    assert load_cases(config, mode="pairwise").cases[0].labels["cid"] == {"0,2": "A", "1,2": "TIE"}
    capsys.readouterr()
    write("wrong.csv", 'id,annotator,label,shown\nq,cid,A,"0,3"\n')
    assert label(three, "wrong.csv") == 1
    assert "a label of responses [0, 3] does not apply; use one or two" in capsys.readouterr().err


@pytest.mark.parametrize(("labels", "said"), [
    ({"ann": {"0,7": "A"}}, "label '0,7' is not a pair of 2 responses"),
    ({"ann": {"1,0": "A"}}, "label '1,0' is not a pair of 2 responses; name pairs by two"),
    ({"ann": {"0,1": 3}}, "label 3 is not A, B or TIE"),
])  # fmt: skip
def test_labels_by_pair_that_are_none(write, labels, said):
    row = {"id": "1", "prompt": "p", "response_a": "x", "response_b": "y", "labels": labels}
    with pytest.raises(DatasetError, match=re.escape(said)):
        load_cases(DatasetConfig(path=str(write("d.jsonl", [row]))), mode="pairwise")


def test_of_one_persons_labels_in_one_file_the_last_counts_and_that_is_said(ran, write, capsys):
    write("labels.csv", "id,annotator,label\nc0,ann,A\nc1,ann,A\nc0,ann,B\n")
    assert label(ran, "labels.csv") == 0
    said = capsys.readouterr().out
    assert "labels: 2 by 1 annotator (ann 2)\nnote: 1 older label omitted: an annotator's" in said
    assert {row["id"]: row["labels"] for row in ran.rows("cases.jsonl") if row["labels"]}["c0"] == {
        "ann": "B"
    }


@pytest.fixture
def checked(here):
    """Return the folder of a run by checklist, one case with three items and one with two, without labels."""
    rows = [
        {"id": "q1", "prompt": "p", "response": "r",
         "checklist": [{"id": "light", "criterion": "x"}, "y", "z"]},
        {"id": "q2", "prompt": "p2", "response": "r2", "checklist": ["x", "y"]},
    ]  # fmt: skip
    (here / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [
        *("run", "mode=checklist", "judge=simulated/good", "dataset=file"),
        "dataset.path=cases.jsonl",
    ]
    words += ["tracking=none", "store.mode=off", "hydra.run.dir=run"]
    assert main(words) == 0
    return here / "run"


def test_labels_of_checklist_items(checked, tmp_path, capsys):
    lines = [
        "id,annotator,item,label",
        "q1,ann,light,met",
        "q1,bob,light,true",
        "q1,ann,#2,not_met",
        "q2,ann,#1,1",
    ]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    assert main(["label", str(checked), "labels.csv"]) == 0
    out = capsys.readouterr().out
    assert "labels: 4 by 2 annotators (ann 3, bob 1)" in out
    assert "Agreement with " in out
    first, second = map(json.loads, (checked / "cases.jsonl").read_text().splitlines())
    assert [item["labels"] for item in first["checklist"]] == [
        {"ann": ["met"], "bob": ["met"]},
        {"ann": ["not_met"]},
        {},
    ]
    assert second["checklist"][0]["labels"] == {"ann": ["met"]}
    assert (
        json.loads((checked / "metrics.json").read_text())["metrics"]["checklist/accuracy"]["n"]
        == 3
    )


@pytest.mark.parametrize(("row", "message"), [
    ("q1,ann,,met", "'met' is a label of a checklist item; name the item in a column item"),
    ("q1,ann,,A", "'A' is a label of a pair, and the case has one response; write its grade"),
    ("q1,ann,ligth,met", "'ligth' is not an item that a judge answers; did you mean 'light'?"),
    ("q1,ann,light,so so", "item 'light': 'so so' is not a label; write met, not_met"),
    ("q9,ann,light,met", "the run has no case 'q9'"),
])  # fmt: skip
def test_a_wrong_label_of_an_item_leaves_the_run_as_it_was(checked, tmp_path, capsys, row, message):
    before = {file.name: file.read_bytes() for file in checked.iterdir() if file.is_file()}
    (tmp_path / "labels.csv").write_text(f"id,annotator,item,label\n{row}\n")
    assert main(["label", str(checked), "labels.csv"]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("evalkit: labels.csv:2")
    assert message in error
    assert {file.name: file.read_bytes() for file in checked.iterdir() if file.is_file()} == before


def test_labels_of_classes_bring_the_note_on_missing_labels_up_to_date(here, capsys):
    rows = [
        {"id": f"{n}", "prompt": f"p{n}", "response": "r", "label": "pass" if n == 1 else None}
        for n in range(3)
    ]
    (here / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["run", "mode=pointwise", "rubric=pass_fail", "judge=simulated/good", "dataset=file"]
    words += ["dataset.path=cases.jsonl", "tracking=none", "store.mode=off", "hydra.run.dir=run"]
    assert main(words) == 0
    (here / "bad.csv").write_text("id,annotator,class\n0,ann,maybe\n")
    assert main(["label", "run", "bad.csv"]) == 1
    # `evalkit label` takes no dataset.label_map.
    assert "'maybe' is not one of the classes pass" in capsys.readouterr().err.replace('"', "'")
    for name, note in (("0", True), ("2", False)):
        (here / "labels.csv").write_text(f"id,annotator,class\n{name},ann,fail\n")
        assert main(["label", "run", "labels.csv"]) == 0
        assert ("note: cases without a label: 1 of 3" in capsys.readouterr().out) == note
        assert (
            any("without a label" in one for one in read_run(here / "run").manifest["notes"])
            == note
        )
