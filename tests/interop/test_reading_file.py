"""The reading of a table as a config: for check, run, import and label, the same reading."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalkit.cli import main
from evalkit.config.table_reading import load_reading
from evalkit.core.errors import ConfigError
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.judgment_files import rows_of
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.reading import check_same, choices_of, reading_of, table_source
from evalkit.interop.tables.table import Table, read_table
from tests.support.thorough import some_of

QUICK = ["tracking=none", "scoring.bootstrap=100"]
NAMES = (
    *("n11.csv", "pair_AB_eq.csv", "phoenix.csv", "families.csv", "jsoncell2.csv"),
    *("criterion_rows.csv", "german.csv", "judge_errors.csv", "kaggle_onehot.csv"),
    *("passfail_vs_15.csv", "two_scales.csv", "arena_names.csv", "multilist.jsonl"),
)


def _rows(count: int = 40) -> list[dict[str, Any]]:
    return [
        {
            "ticket": f"{i:04d}",
            "question": f"how does part {i} work?",
            "answer": f"it turns {i} times",
            "tokens": 100 + i,
            "reviewer": ("ok", "not ok", "n/a")[i % 3],
            "llm": ("ok", "not ok")[i // 2 % 2],
        }
        for i in range(count)
    ]


def _write(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def saved(here, capsys):
    """A table, and the reading that `check` saved."""
    _write("t.csv", _rows())
    assert main(["check", "t.csv", "--save", "r.yaml", "--output", "one", *QUICK]) == 0
    capsys.readouterr()
    return load_reading(Path("r.yaml"))


def _cases(run: str) -> list[dict[str, Any]]:
    lines = Path(run, "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_reading_is_a_config_that_judges_the_next_table(saved, capsys):
    later = [{key: row[key] for key in row if key != "llm"} for row in _rows(20)]
    _write("next.csv", later)
    judged = ["judge=simulated/good", "hydra.run.dir=two", *QUICK]
    assert main(["run", "r.yaml", "dataset.path=next.csv", *judged]) == 0
    cases = _cases("two")
    assert [case["id"] for case in cases[:2]] == ["0000", "0001"]
    classes = [case["responses"][0].get("class_name") for case in cases]
    assert classes == [("ok", "not ok", None)[i % 3] for i in range(20)]
    composed = yaml.safe_load(Path("two/config.yaml").read_text(encoding="utf-8"))
    assert composed["dataset"]["reading"]["columns"]["reviewer"]["role"] == "label"
    assert composed["rubric"]["classes"].keys() == {"ok", "not ok"}


def test_import_and_check_read_alike_and_a_named_reading_is_the_option(saved, capsys):
    for command in (["import", "generic"], ["check"]):
        for index, option in enumerate((["--reading", "r.yaml"], ["dataset.reading=r.yaml"])):
            folder = f"{command[0]}{index}"
            assert main([*command, "t.csv", *option, "--output", folder, *QUICK]) == 0
            metrics = [Path(run, "metrics.json").read_text() for run in ("one", folder)]
            assert metrics[0] == metrics[1]
    assert main(["import", "generic", "t.csv", "--output", "plain", *QUICK]) == 0
    assert "read as reviewer: label, llm: judge" in Path("plain/manifest.json").read_text()


def test_an_open_table_is_not_imported(here, capsys):
    rows = [{"id": i, "human_score": i % 5, "rouge": i / 60, "bleu": i % 7} for i in range(60)]
    _write("t.csv", rows)
    assert main(["import", "generic", "t.csv", "--output", "run", *QUICK]) == 1
    assert "evalkit check t.csv --save reading.yaml" in capsys.readouterr().err
    assert not Path("run").exists()


def test_labels_are_read_as_in_the_reading(saved, capsys):
    plain = [{**row, "reviewer": ""} for row in _rows()]
    _write("plain.csv", [{key: row[key] for key in row if key != "tokens"} for row in plain])
    assert main(["check", "plain.csv", "--judge", "llm", "--output", "run", *QUICK]) == 0
    _write("votes.csv", [{key: row[key] for key in row if key != "llm"} for row in _rows()])
    capsys.readouterr()
    assert main(["label", "run", "votes.csv", "--reading", "r.yaml"]) == 0
    assert "labels: 27 by 1 annotator" in capsys.readouterr().out


CHANGED: Mapping[str, tuple[dict[str, Any], str]] = {
    "no column": ({"reviewer": None}, "has no column 'reviewer'"),
    "words": ({"reviewer": "maybe"}, "'maybe'"),
    "numbers": ({"reviewer": "0.3"}, "'0.3'"),
}


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_changed_column_is_an_error(name, command, saved, capsys):
    change, message = CHANGED[name]
    rows = [{**row, **change} for row in _rows()]
    if change["reviewer"] is None:
        for row in rows:
            del row["reviewer"]
    _write("u.csv", rows)
    words = {
        "check": ["check", "u.csv", "--reading", "r.yaml", "--output", "two"],
        "run": ["run", "r.yaml", "dataset.path=u.csv", "judge=simulated/good", "hydra.run.dir=two"],
    }
    assert main([*words[command], *QUICK]) == 1
    assert message in capsys.readouterr().err
    assert not Path("two/metrics.json").exists()


@pytest.mark.parametrize(("overrides", "message"), [
    (["dataset.fields.label=reviewer"], "reading says how the table is read, and fields too"),
    (["mode=pairwise"], "set mode=pointwise"),
    (["rubric=likert5"], "set 'rubric.classes={"),
])  # fmt: skip
def test_settings_that_contradict_a_reading_are_errors(overrides, message, saved, capsys):
    words = ["dataset=file", "dataset.path=t.csv", "dataset.reading=r.yaml", "mode=pointwise"]
    assert main(["run", *words, "judge=simulated/good", *overrides, *QUICK]) == 1
    assert message in capsys.readouterr().err


def test_words_with_a_dollar_are_no_interpolations(here, capsys):
    word = "${x}"
    rows = [{**row, "reviewer": (word, "not ok")[i % 2]} for i, row in enumerate(_rows())]
    _write("t.csv", rows)
    mapped = ["--map", f"{word}=ok", "--save", "r.yaml", "--output", "one"]
    assert main(["check", "t.csv", *mapped, *QUICK]) == 0
    reading = load_reading(Path("r.yaml"))
    assert reading.map == {word: "ok"}
    assert reading.columns["reviewer"].values == {word: "pass", "not ok": "fail"}
    judged = ["judge=simulated/good", "hydra.run.dir=two", *QUICK]
    assert main(["run", "r.yaml", "dataset.path=t.csv", *judged]) == 0


def _content(table: Table) -> list[Any]:
    return [
        (one.question, one.said, one.others, one.better, one.labels, one.grades, one.classes)
        for one in table.parsed.records
    ]


@pytest.mark.shared
@pytest.mark.parametrize("name", some_of(NAMES, 6))
def test_a_table_is_read_alike_by_its_own_reading(name, shared, tmp_path):
    path = shared / "tables" / name
    assert recognize_format(path) is None
    rows = list(rows_of(path))
    table = read_table(rows, name, Choices())
    file = tmp_path / "r.yaml"
    file.write_text(reading_of(table).yaml({}), encoding="utf-8")
    reading = load_reading(file)
    again = read_table(rows, name, choices_of(reading))
    check_same(reading, again, name)
    assert _content(again) == _content(table)
    assert again.settings == table.settings
    assert len(list(table_source([path], name, reading).rows())) > 0


@pytest.mark.parametrize("text", ["", "columns: 3", "dataset: {reading: {unit: x}}", "- 1", "a: ["])
def test_a_file_that_is_no_reading_is_an_error_of_one_line(text, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="is not the reading of a table"):
        load_reading(path)
