"""Labels of single people survive a run folder."""

from __future__ import annotations

from pathlib import Path

from evalkit.config import RunConfig
from evalkit.results import RunResult
from evalkit.runs import read_run, write_run
from evalkit.types import Case, Response


def test_choices_and_grades_come_back(tmp_path: Path) -> None:
    responses = (Response("a"), Response("b"))
    case = Case("c", "q", responses, labels={"ann": "A", "bo": (1.0, None)})
    write_run(tmp_path, RunResult(None, RunConfig(judge={"model": "m"}, criteria={"q": {}}), {}, (case,), (), (), {}))
    assert read_run(tmp_path).cases == (case,)
