"""A row of a benchmark or an import without one of its keys: no reader fails on it, and what is missing has a place."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.config import DatasetConfig
from evalkit.core.benchmark_discovery import own_benchmark_names
from evalkit.core.errors import EvalkitError
from evalkit.datasets import load_cases
from evalkit.interop.import_file import import_judgments
from evalkit.interop.layouts.judgment_files import LocatedRow
from evalkit.interop.layouts.records import Options
from tests.interop.test_damaged_logs import REMOVED, damaged, fields, save
from tests.support.import_layouts import CASES, SHAPES

FILES = Path(__file__).parents[1] / "benchmarks" / "files"
TEXTS = (".json", ".jsonl")
PUBLISHED = [
    path.relative_to(FILES).as_posix()
    for path in sorted(FILES.rglob("*"))
    if path.suffix in TEXTS and path.relative_to(FILES).parts[0] in own_benchmark_names()
]


def complaints(file: Path, load: Callable[[], object]) -> list[tuple[Any, str]]:
    """Return what is said about a file for each key that one of its rows may lack."""
    text = file.read_text("utf-8")
    try:
        content = json.loads(text)
    except ValueError:  # one row on each line
        content = [json.loads(line) for line in text.splitlines()]
    said = []
    for path in fields(content):
        if isinstance(path[-1], str):
            save(file, damaged(content, path, REMOVED))
            try:
                load()
            except EvalkitError as bad:
                said.append((path, str(bad)))
    for path, line in said:
        assert "Error" not in line, path
        if "there is no '" in line:
            assert re.match(rf"\S*{re.escape(file.name)}:(row )?[0-9]+: there is no '", line), (
                path,
                line,
            )
    return said


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_benchmark_names_the_key_and_the_row(tmp_path, name):
    benchmark = name.partition("/")[0]
    folder = Path(shutil.copytree(FILES / benchmark, tmp_path / benchmark))
    said = None
    for where in (folder, tmp_path / name):
        for mode in ("pairwise", "pointwise", "checklist"):
            if where == folder and said is not None:  # the rows are the same for each mode
                break

            def load(where: Path = where, mode: str = mode) -> object:
                return load_cases(DatasetConfig(benchmark=benchmark, path=str(where)), mode=mode)

            shutil.copy(FILES / name, tmp_path / name)
            try:
                load()
            except EvalkitError:  # it has no cases for this mode, or is only read with its folder
                continue
            said = [*(said or ()), *complaints(tmp_path / name, load)]
    assert said or (said is None and name.startswith(("halluqa", "healthbench")))


@pytest.mark.parametrize("name", SHAPES)
def test_an_import_names_the_key_and_the_row(tmp_path, name):
    file, content = SHAPES[name]
    path, cases = tmp_path / file, tmp_path / "cases.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, content)
    save(cases, CASES)
    options = Options(
        cases=tuple(load_cases(DatasetConfig(path=str(cases)), mode="pairwise").cases)
    )
    complaints(path, lambda: import_judgments(name, path, options))


def test_an_object_in_a_file_of_one_object_has_its_line(tmp_path):
    tree = {
        "id": "a", "requirements": "{", "weight": 1, "score": 1, "task_category": None,
        "sub_tasks": [{"id": "b", "weight": 1, "score": 0, "sub_tasks": [], "task_category": None}],
    }  # fmt: skip
    path = tmp_path / "paper.json"
    path.write_text(json.dumps(tree, indent=1), "utf-8")
    line = (
        next(n for n, text in enumerate(path.read_text("utf-8").splitlines(), 1) if '"b"' in text)
        - 1
    )
    with pytest.raises(
        EvalkitError, match=f"paper.json:{line}: there is no 'requirements', only id, weight"
    ):
        import_judgments("paperbench", path, Options())


def test_objects_in_a_row_have_its_place():
    row = LocatedRow({"turns": [{"role": "user"}], "score": 1}, "votes.jsonl:7")
    for missing in (lambda: row["id"], lambda: row["turns"][0]["content"]):
        with pytest.raises(EvalkitError, match=r"votes.jsonl:7: there is no '(id|content)', only"):
            missing()
    assert row.get("id") is None
    assert row == {"turns": [{"role": "user"}], "score": 1}
