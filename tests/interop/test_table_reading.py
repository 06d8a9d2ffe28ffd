"""The reading of tables: generated tables with known truth, shared tables, questions, and the reading as a file."""

from __future__ import annotations

import csv
import importlib.util
import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.core.ids import id_text
from evalkit.datasets.formats import reader_for
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.questions import OpenTableError, command
from evalkit.interop.tables.table import Table, read_table
from evalkit.interop.tables.words import is_model
from tests.support.tables import Sample, sample
from tests.support.thorough import some_of

BATCH = 100


def _read(path: Path, choices: Choices = Choices()) -> Table:  # noqa: B008 - it is frozen
    return read_table(list(reader_for(None, path)(path)), path.name, choices)


def _verdicts(table: Table) -> dict[str, list[tuple[Any, Any]]]:
    """Return each judge's verdicts with the label."""
    found: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    for record in table.parsed.records:
        for said in (record.said, *record.others):
            found[said.judge].append((_value(said), _label(record)))
    return found


def _value(said: Any) -> Any:
    if said.class_name is not None:
        return said.class_name
    return next(iter(said.scores.values()), said.value)


def _label(record: Any) -> Any:
    if len(record.shown) == 2:
        better = record.better or next(iter(record.labels.values()), None)
        sides = {record.shown[0].key: 1, record.shown[1].key: -1, "TIE": 0, None: None}
        return sides[better]
    label = record.shown[0].class_name or record.shown[0].grade
    given = [*record.classes.values(), *record.grades.values()]
    return label if label is not None else next(iter(given), None)


def _counts(pairs: Sequence[tuple[Any, Any]]) -> list[int]:
    """Return how often each combination of a verdict and a label occurs, without the words."""
    both = [pair for pair in pairs if None not in pair]
    return sorted(Counter((str(one), str(other)) for one, other in both).values())


def _wrong(table: Table, truth: Sample) -> str:
    """Return what is wrong about a table's reading; empty if nothing is."""
    labels = sum(role.role == "label" for role in table.roles)
    if labels != truth.labels and not (truth.labels == 1 and labels == 1):
        return f"{labels} labels"
    found = _verdicts(table)
    if len(found) != len(truth.judges):
        return f"judges {list(found)}"
    if truth.labels != 1:
        return ""
    for judge, pairs in truth.judges.items():
        read = found.get(judge, next(iter(found.values())))
        if _counts(read) != _counts(pairs):
            return f"the verdicts of {judge}"
    return ""


@pytest.mark.parametrize("first", some_of(range(0, 1000, BATCH), 10))
def test_generated_tables_are_read_right_or_asked_about(first, tmp_path):
    wrong = []
    asked = 0
    for seed in range(first, first + BATCH):
        made = sample(seed)
        path = tmp_path / "t.csv"
        path.write_text(made.text, encoding="utf-8")
        try:
            fault = _wrong(_read(path), made)
        except OpenTableError:
            asked += 1
            continue
        if fault:
            wrong.append((made.made, fault))
    assert wrong == []
    assert asked <= 0.15 * BATCH


# A metric, its n and its value by scikit-learn or SciPy for shared tables; none: a question.
# Those whose cells a few lines can read are in test_table_figures.
SHARED: Mapping[str, tuple[str, int, float | None] | None] = {
    "nolabel_latency.csv": ("agreement/kappa", 0, None),
    "nolabel_flag.csv": ("agreement/kappa", 0, None),
    "nolabel_turns.csv": ("agreement/kappa", 0, None),
    "labels_latency.csv": None,
    "pair_num3_nolabel.csv": ("agreement/kappa", 0, None),
    "families.csv": ("judge/gpt-4o/agreement/kappa", 60, 0.766),
    "japanese.csv": ("agreement/kappa", 60, 0.766),
    "ls_csv.csv": ("agreement/kappa", 60, 0.798),
    "multilist.jsonl": ("agreement/kappa", 40, 0.000),
    "kaggle_onehot.csv": ("agreement/kappa", 60, 0.691),
    "chosen_rejected.jsonl": ("agreement/accuracy", 60, 0.850),
    "trailing_cols.csv": ("agreement/kappa", 60, 0.766),
    "trailing_rows.csv": ("agreement/kappa", 60, 0.766),
    "title_row.csv": ("agreement/kappa", 60, 0.766),
    "jsoncell2.csv": ("agreement/accuracy", 80, 0.8625),
    "source_and_slice.csv": ("agreement/kappa", 400, 0.761),
    "wrapped_data.json": ("agreement/kappa", 30, 0.0),
    "pandas_to_json.json": ("agreement/kappa", 30, 0.0),
    "azure_results.json": ("agreement/accuracy", 40, 0.325),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", some_of(SHARED, 5))
def test_shared_tables_have_the_right_figures(name, shared, here, capsys):
    expected = SHARED[name]
    path = str(shared / "tables" / name)
    status = main(["check", path, "--output", "run", "--json", "scoring.bootstrap=100"])
    output = capsys.readouterr().out
    if expected is None:
        assert status == 1
        assert "Question: " in output
        return
    assert status == 0
    metric, count, value = expected
    found = json.loads(output)["metrics"][metric]
    assert found["n"] == count
    assert found["value"] == (None if value is None else pytest.approx(value, abs=6e-4))


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _cycle(words: Sequence[Any], index: int, step: int = 1) -> Any:
    return words[index // step % len(words)]


OPEN: Mapping[str, tuple[Any, str]] = {
    "fault": (
        lambda i: {
            "id": i,
            "human_correct": _cycle(("yes", "no"), i),
            "judge_hallucination": _cycle(("no", "yes", "yes"), i),
        },
        "about a fault",
    ),
    "criteria": (
        lambda i: {
            "id": i,
            "human_helpfulness": _cycle((1, 2, 3), i),
            "judge_faithfulness": _cycle((1, 2, 3), i, 2),
        },
        "different criteria",
    ),
    "copy": (lambda i: {"id": i, "human": _cycle(("a", "b"), i), "judge": _cycle(("a", "b"), i)},
             "identical in all 60 rows"),
    "index": (
        lambda i: {
            "id": i // 3,
            "k": i % 3,
            "human": _cycle(("pass", "fail"), i, 3),
            "judge": _cycle(("pass", "fail"), i),
        },
        "units, or repeats",
    ),
    "pair_numbers": (
        lambda i: {
            "id": i,
            "response_a": f"x {i}",
            "response_b": f"y {i}",
            "human": i % 2,
            "judge": i // 3 % 2,
        },
        "which number is which winner",
    ),
    "third_word": (
        lambda i: {
            "id": i,
            "human": _cycle(("pass", "fail"), i),
            "judge": _cycle(("pass", "fail", "fail", "pass", "unsure"), i),
        },
        "'unsure' (12)",
    ),
    "no_judge": (lambda i: {"id": i, "human_score": i % 5, "rouge": i / 60, "bleu": i % 7 / 7},
                 "no column is named as a judge"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_every_answer_to_a_question_is_a_command_that_runs(name, here, capsys):
    row, question = OPEN[name]
    _write(Path("t.csv"), [row(index) for index in range(60)])
    assert main(["check", "t.csv"]) == 1
    output = capsys.readouterr().out
    asked = next(line for line in output.splitlines() if line.startswith("Question: "))
    assert question in asked
    lines = [line.strip() for line in output.splitlines()]
    commands = [line for line in lines if line.startswith("evalkit check")]
    assert len(commands) > 1
    for index, line in enumerate(commands):
        words = shlex.split(line)[1:]
        assert main([*words, "--output", f"o{index}", "scoring.bootstrap=100"]) == 0, line


@pytest.mark.parametrize(("typed", "status"), [("1", 0), ("9", 1), ("", 1)])
def test_a_question_is_asked_at_a_terminal(typed, status, here, capsys, monkeypatch):
    row, _ = OPEN["no_judge"]
    _write(Path("t.csv"), [row(index) for index in range(60)])
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: typed)
    assert main(["check", "t.csv", "--output", "run", "scoring.bootstrap=100"]) == status
    assert Path("run").exists() is (status == 0)


def test_scores_and_labels_on_two_scales_are_compared_by_order(here, capsys):
    labels = [1 + index % 5 for index in range(200)]
    rows = [{"id": i, "human": label, "judge_score": 20 * label} for i, label in enumerate(labels)]
    _write(Path("t.csv"), rows)
    assert main(["check", "t.csv", "--output", "run", "--json", "scoring.bootstrap=100"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["metrics"]["agreement/spearman"]["value"] == 1
    assert "of the scale" not in content["conclusion"][0]


@pytest.mark.parametrize(
    ("low", "high", "top", "is_shared"),
    [(3, 4, 5, True), (4, 5, 5, True), (60, 95, 100, True), (1, 3, 5, False), (2, 3, 5, False)],
)
def test_scores_that_leave_the_lower_half_out_share_the_scale(low, high, top, is_shared):
    bottom = 1 if top == 5 else 0
    rows = [
        {
            "id": i,
            "human": bottom + i % (top + 1 - bottom),
            "judge_score": low + i % (high + 1 - low),
        }
        for i in range(210)
    ]
    placed = [(f"row {row['id']}", row) for row in rows]
    table = read_table(placed, "t.csv", Choices())
    assert bool(table.space.rubric.get("real")) is not is_shared


@pytest.mark.parametrize(("name", "values", "used"), [
    ("confidence", [0.9, 0.6, 1], [0.9, 0.6, 1]),
    ("judge_confidence", ["90%", "60%", None], [0.9, 0.6, None]),
    ("verdict confidence score", [90, 60, 100], [0.9, 0.6, 1]),
    ("置信度", [0.9, 0.6, 0.7], [0.9, 0.6, 0.7]),
    ("confidence", [0.9, 0.1, 0.2], None),
    ("confidence", [5, 3, 4], None),
    ("confidence", ["high", "low", "high"], None),
    ("confidence", [-1, 0.5, 0.6], None),
    ("annotator_confidence", [0.9, 0.6, 1], None),
    ("retrieval_confidence", [0.9, 0.6, 1], None),
    ("prob", [0.9, 0.6, 1], None),
])  # fmt: skip
def test_a_confidence_next_to_a_verdict_is_that_of_the_judge(name, values, used):
    words = ("pass", "fail")
    rows = [
        {"id": i, "verdict": words[i % 2], "label": words[i * i % 3 % 2], name: values[i % 3]}
        for i in range(90)
    ]
    table = read_table([(f"row {row['id']}", row) for row in rows], "t.csv", Choices())
    read = [record.said.confidence for record in table.parsed.records[:3]]
    assert read == (used or [None] * 3)
    assert ("confidence" in {role.role for role in table.roles}) is (used is not None)
    both = [row | {"verdict_b": row["label"], "human": row["label"]} for row in rows]
    choices = Choices(judges=("verdict", "verdict_b"), labels=("label",))
    several = read_table([(f"row {row['id']}", row) for row in both], "t.csv", choices)
    assert several.parsed.records[0].said.confidence is None


def test_a_command_maps_one_of_two_scales_to_the_other(here, capsys):
    labels = [1 + index % 5 for index in range(200)]
    rows = [
        {"id": i, "human": label, "judge_score": max(0, 25 * (label - 1) - i % 3)}
        for i, label in enumerate(labels)
    ]
    _write(Path("t.csv"), rows)
    fast = "scoring.bootstrap=100"
    assert main(["check", "t.csv", "--output", "run", "--overwrite", fast]) == 0
    printed = capsys.readouterr().out
    line = next(x for x in printed.splitlines() if "give each level its value" in x)
    given = shlex.split(line[line.index("evalkit check") :])[1:]
    assert main([*given, fast]) == 0
    mapped = capsys.readouterr().out
    assert "different scales" not in mapped
    assert "to order responses" not in mapped.splitlines()[0]


def test_commands_are_quoted_for_posix_shells_and_powershell():
    words = ["evalkit", "check", "a b.csv", "--map", "it's=pass", "--map", "$x=fail"]
    assert command(words) == """evalkit check 'a b.csv' --map "it's=pass" --map '$x=fail'"""


def test_a_saved_reading_reads_the_next_table_and_refuses_a_changed_one(here, capsys):
    rows = [
        {
            "id": i,
            "prompt": f"p {i}",
            "human": _cycle(("x", "y"), i),
            "judge": _cycle(("x", "y"), i, 2),
            "tokens": i,
        }
        for i in range(40)
    ]
    _write(Path("t.csv"), rows)
    assert main(["check", "t.csv", "--save", "r.yaml", "--output", "one"]) == 0
    assert Path("r.yaml").read_text() == Path("one/reading.yaml").read_text()
    read = ["--reading", "r.yaml", "--output"]
    assert main(["check", "t.csv", *read, "two"]) == 0
    metrics = [Path(run, "metrics.json").read_text() for run in ("one", "two")]
    assert metrics[0] == metrics[1]
    capsys.readouterr()
    _write(Path("renamed.csv"), [{**row, "judge_2": row["judge"]} for row in rows])
    for changed, message in (
        ([{"id": row["id"], "human": row["human"]} for row in rows], "no column"),
        ([{**row, "judge": row["id"] / 7} for row in rows], "was flag"),
    ):
        if "was" in message:
            changed = [{**row, "human": row["id"] / 7} for row in changed]
        _write(Path("u.csv"), changed)
        assert main(["check", "u.csv", *read, "three"]) == 1
        assert not Path("three").exists()
    Path("bad.yaml").write_text("columns: 3\n")
    assert main(["check", "t.csv", "--reading", "bad.yaml"]) == 1
    assert "is not the reading of a table" in capsys.readouterr().err


def test_models_of_litellm_are_known_and_columns_of_tables_are_not():
    package = importlib.util.find_spec("litellm")
    assert package.origin is not None
    path = Path(package.origin).with_name("model_prices_and_context_window_backup.json")
    entries = json.loads(path.read_text(encoding="utf-8"))
    names = {
        name.rpartition("/")[2] for name, entry in entries.items() if entry.get("mode") == "chat"
    }
    known = sum(is_model(name) for name in names)
    assert known >= 0.95 * len(names)
    columns = "id question answer human judge score latency_s tokens source language rating topic"
    assert not [name for name in columns.split() if is_model(name)]


@pytest.mark.parametrize(("value", "other", "same"), [
    (1, "1", True),
    (1.0, "1", True),
    ("1.0", 1, True),
    ("01", 1, False),
    ("1e0", 1, False),
    (" 1", 1, False),
    (1234567890123456001, "1234567890123456001", True),
    ("1234567890123456001", "1234567890123456002", False),
    (1234567890123456001, 1234567890123456002, False),
])  # fmt: skip
def test_ids_are_compared_as_texts(value, other, same):
    assert (id_text(value) == id_text(other)) is same


LEFTOVERS = {
    "title": "Review of Q3,,\n,,\nid,human,judge\n{rows}",
    "comment": "# version=1, written by x,\nid,human,judge\n{rows}",
    "sep": "sep=;\nid;human;judge\n{semicolons}",
    "columns": "id,human,judge,,\n{blanks}",
    "empty_rows": "id,human,judge\n,,\n{rows}\n,,\n,,",
    "pipes": "id|human|judge\n{pipes}",
    "markdown": "| id | human | judge |\n|---|---|---|\n{pipes}",
    "R": '"id" "human" "judge"\n{numbered}',
    "sums of groups": "id,human,judge\n{rows}\n3 Total,4,5\n7 Count,4,5\nGrand Total,9,9",
}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_what_spreadsheets_leave_is_not_read(name, tmp_path):
    rows = [f"{i},{'pass' if i % 2 else 'fail'},{'pass' if i % 3 else 'fail'}" for i in range(12)]
    forms = {
        "rows": "\n".join(rows),
        "semicolons": "\n".join(rows).replace(",", ";"),
        "blanks": "\n".join(f"{row},," for row in rows),
        "pipes": "\n".join(rows).replace(",", "|"),
        "numbered": "\n".join(f'"{n}" ' + row.replace(",", " ") for n, row in enumerate(rows, 1)),
    }
    path = tmp_path / ("t.txt" if name == "R" else "t.csv")
    path.write_text(LEFTOVERS[name].format(**forms), encoding="utf-8")
    table = _read(path)
    assert {role.column: role.role for role in table.roles} == {
        "id": "id",
        "human": "label",
        "judge": "judge",
    }
    assert len(table.parsed.records) == 12
