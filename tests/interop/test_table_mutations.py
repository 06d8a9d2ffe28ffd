"""Damaged tables: what is concluded stays the same, or a question, an error or another visible reading says why not."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from evalkit.core.errors import ConfigError
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.judgment_files import rows_of
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.table import Table, read_table
from tests.support.thorough import some_of

Rows = list[dict[str, Any]]
Raters = Mapping[str, str]
"""The judge and the label of a table, by role."""

NAMES: Final = (
    *("langsmith.csv", "dimension_long.csv", "criterion_rows.csv", "pair_num3.csv", "n11.csv"),
    *("pair_AB_eq.csv", "phoenix.csv", "families.csv", "percent_vs_frac.csv", "german.csv"),
    *("human_stars.csv", "slash.csv", "japanese.csv", "ls_csv.csv", "multilist.jsonl"),
    *("c_partial3.csv", "c_goodokbad.csv", "ordinal_agree.csv", "passfail_vs_15.csv"),
    *("pair_both_us.csv", "pair_bothwords.csv", "pair_gtlt.csv", "simpleqa_abc.csv"),
    *("kaggle_onehot.csv", "chosen_rejected.jsonl", "helpsteer_pref.jsonl", "excel_errors.csv"),
    *("judge_errors.csv", "nans2.csv", "jsoncell2.csv", "flag_and_score.csv", "arena_names.csv"),
    *("first_name_label.csv", "source_and_slice.csv", "two_scales.csv", "arena_bothbad.csv"),
    *("nolabel_latency.csv", "nolabel_flag.csv", "nolabel_turns.csv", "pair_num3_nolabel.csv"),
    *("deepeval.csv", "ragas.csv", "labels_latency.csv", "trailing_cols.csv"),
)


def _some(rows: Rows, share: float) -> list[int]:
    return random.Random(len(rows)).sample(range(len(rows)), max(1, int(share * len(rows))))


def _without(role: str) -> Callable[[Rows, Raters], Rows]:
    return lambda rows, raters: [
        {name: cell for name, cell in row.items() if name != raters[role]} for row in rows
    ]


def _renamed(role: str, name: str) -> Callable[[Rows, Raters], Rows]:
    return lambda rows, raters: [
        {name if column == raters[role] else column: cell for column, cell in row.items()}
        for row in rows
    ]


def _replaced(role: str, word: Any, share: float) -> Callable[[Rows, Raters], Rows]:
    def change(rows: Rows, raters: Raters) -> Rows:
        chosen = set(_some(rows, share))
        return [
            {**row, raters[role]: word} if index in chosen else row
            for index, row in enumerate(rows)
        ]

    return change


def _mapped(role: str, change: Callable[[str], str]) -> Callable[[Rows, Raters], Rows]:
    def apply(rows: Rows, raters: Raters) -> Rows:
        column = raters[role]
        return [
            {**row, column: change(cell) if isinstance(cell := row.get(column), str) else cell}
            for row in rows
        ]

    return apply


def _added(name: str, cells: Callable[[int], Any]) -> Callable[[Rows, Raters], Rows]:
    return lambda rows, _: [{**row, name: cells(index)} for index, row in enumerate(rows)]


def _shuffled(rows: Rows, _: Raters) -> Rows:
    return random.Random(3).sample(rows, len(rows))


def _doubled(rows: Rows, _: Raters) -> Rows:
    return [*rows, *(rows[index] for index in sorted(_some(rows, 0.1)))]


SAME: Mapping[str, Callable[[Rows, Raters], Rows]] = {
    "rows shuffled": _shuffled,
    "columns reversed": lambda rows, _: [dict(reversed(row.items())) for row in rows],
    "some rows twice": _doubled,
    "judge in upper case": _mapped("judge", str.upper),
    "label padded": _mapped("label", lambda cell: f" {cell} "),
    "an empty column": _added("Unnamed: 9", lambda _: None),
    "latency": _added("latency_ms", lambda index: 100 + 7 * index % 931),
    "a flag": _added("is_cached", lambda index: index % 3 == 0),
    "notes": _added("remarks", lambda index: f"seen by team {index}"),
    "a version": _added("prompt_version", lambda _: "v2"),
    "years": _added("year", lambda index: 2020 + index % 5),
}
"""Changes after which the same is concluded, or a question or an error is printed."""
VISIBLE: Mapping[str, Callable[[Rows, Raters], Rows]] = {
    "no label": _without("label"),
    "no judge": _without("judge"),
    "label renamed": _renamed("label", "column_7"),
    "judge renamed": _renamed("judge", "field_3"),
    "words in the judge": _replaced("judge", "abc", 0.05),
    "numbers in the judge": _replaced("judge", "37.25", 0.05),
    "words in the label": _replaced("label", "see comment", 0.05),
    "errors in the judge": _replaced("judge", "Error code: 500", 0.2),
    "labels lost": _replaced("label", None, 0.3),
    "half of the rows": lambda rows, _: rows[: len(rows) // 2],
}
"""Changes after which a rater may be missing, but no other column may be a label."""
TEXTS: Mapping[str, Callable[[Rows], bytes]] = {
    "semicolons": lambda rows: _csv(rows, ";").encode(),
    "tabs": lambda rows: _csv(rows, "\t").encode(),
    "a mark at the beginning": lambda rows: _csv(rows, ",").encode("utf-8-sig"),
    "UTF-16": lambda rows: _csv(rows, ",").encode("utf-16"),
    "a title": lambda rows: f"Review of the third quarter\n\n{_csv(rows, ',')}".encode(),
    "empty rows": lambda rows: _csv(rows, ",").replace("\n", "\n\n", 3).encode() + b"\n\n",
}
"""Files from which the same is concluded, or a question or an error is printed."""


def _csv(rows: Rows, delimiter: str) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _read(rows: Sequence[dict[str, Any]]) -> Table | None:
    """Return a table; `None` for a question or an error."""
    placed = [(f"t:{index + 2}", row) for index, row in enumerate(rows)]
    try:
        return read_table(placed, "t.csv", Choices())
    except ConfigError:
        return None


def _labels(table: Table) -> set[str]:
    return {role.column for role in table.roles if role.role == "label"}


def _concluded(table: Table) -> Counter[Any]:
    """Return how often each judge gave each verdict next to the labels of all annotators."""
    found: Counter[Any] = Counter()
    for record in table.parsed.records:
        labels = {**record.labels, **record.grades, **record.classes}
        own = record.better or record.shown[0].class_name or record.shown[0].grade
        given = (str(own).casefold(), *sorted(map(_plain, labels.items())))
        for said in (record.said, *record.others):
            scores = tuple(sorted(said.scores.items()))
            judge = "criteria" if len(scores) > 1 else said.judge
            found[judge, said.value, _plain(said.class_name), scores, given] += 1
    return found


def _plain(value: Any) -> str:
    return str(value).casefold()


def _first(table: Table, rows: Rows) -> dict[str, str]:
    """Return the first judge and the first label that are columns of the rows; any column if there is none."""
    found = {}
    for role in ("judge", "label"):
        names = [one.column for one in table.roles if one.role == role]
        names += [one.column for one in table.roles if one.role == "criterion's score"]
        names = [name for name in names if name in rows[0]]
        found[role] = (names or [next(iter(rows[0]))])[0]
    return found


def _faults(path: Path, folder: Path) -> list[str]:
    rows = [row for _, row in rows_of(path)]
    table = _read(rows)
    if table is None:
        return []
    concluded = _concluded(table)
    raters = _first(table, rows)
    faults = []
    for name, change in SAME.items():
        again = _read(change(rows, raters))
        if again is None or set(again.warnings) - set(table.warnings):
            continue
        if _concluded(again) != concluded:
            faults.append(f"{name}: another conclusion")
    for name, change in VISIBLE.items():
        again = _read(change(rows, raters))
        new = set() if again is None else _labels(again) - _labels(table) - {"column_7"}
        if new:
            faults.append(f"{name}: new labels {new}")
    if all(not isinstance(cell, list | dict) for row in rows for cell in row.values()):
        base = _read_text(_csv(rows, ",").encode(), folder)
        for name, write in TEXTS.items():
            again = _read_text(write(rows), folder)
            if base and again is not None and _concluded(again) != _concluded(base):
                faults.append(f"{name}: another conclusion")
    return faults


def _read_text(content: bytes, folder: Path) -> Table | None:
    path = folder / "t.csv"
    path.write_bytes(content)
    try:
        return _read([row for _, row in rows_of(path)])
    except ConfigError:
        return None


@pytest.mark.shared
@pytest.mark.parametrize("name", some_of(NAMES, 8))
def test_no_conclusion_of_a_damaged_table_changes_silently(name, shared, tmp_path):
    path = shared / "tables" / name
    assert recognize_format(path) is None or name.endswith(".jsonl")
    assert _faults(path, tmp_path) == []
