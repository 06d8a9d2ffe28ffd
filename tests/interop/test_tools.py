"""Logs that the tools wrote, compared with what the tool's own reader finds: every answer, verdict, text and label."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.compose import load_config
from evalkit.core.types import Case
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.records import Options
from evalkit.workflows.materials import stream_cases
from tests.interop.logs.write import VERSIONS

ROOT = Path(__file__).parents[2]
LOGS = Path(__file__).parent / "logs"


def written(tool: str, folder: Path) -> Path:
    """Write logs with a tool, in an environment that has only the tool, so that none conflicts with evalkit."""
    python = [sys.executable]
    if packages := [word for package in VERSIONS[tool] for word in ("--with", package)]:
        python = ["uv", "run", "--quiet", "--isolated", "--no-project", *packages, "python"]
        if shutil.which("uv") is None or run(*python, "-c", "").returncode:
            pytest.skip("cannot be installed")
    if tool == "promptfoo" and shutil.which("promptfoo") is None:
        pytest.skip("needs promptfoo on the path")
    done = run(*python, "-m", "tests.interop.logs.write", tool, str(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("tool", VERSIONS)
def test_committed_logs_have_the_values_of_their_tools(tool):
    compare(LOGS / tool)


@pytest.mark.tools
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("tool", VERSIONS)
def test_new_logs_have_the_values_of_their_tools(tool, tmp_path):
    """Pinned tools would write what is committed; MLflow's current traces are read in test_conversation_logs, too."""
    compare(written(tool, tmp_path / tool))


def compare(folder: Path) -> None:
    values = json.loads((folder / "values.json").read_text("utf-8"))
    assert values
    for log, rows in values.items():
        path = folder / log
        config = load_config(overrides=[*answers(path), "dataset.images=omit"])
        cases = {name(case.id): case for case in stream_cases(config)}
        check_answers(cases, rows)
        for criterion in sorted(
            {one for row in rows for given in row["judges"].values() for one in given or ()}
        ):
            check_verdicts(path, rows, criterion)


def answers(path: Path) -> Sequence[str]:
    classes = (
        ["rubric=own", 'rubric.classes={yes: "", no: ""}'] if path.name == "traces.jsonl" else []
    )
    return ["mode=pointwise", f"dataset.path={path}", *classes]


def name(id_: str) -> str:
    """Return the id of a case without the name that DeepEval gives it."""
    return id_.partition(" ")[0] if "test_case" in id_ else id_


def check_answers(cases: dict[str, Case], rows: Sequence[dict[str, Any]]) -> None:
    written = [row for row in rows if row["answer"]]
    assert set(cases) == {row["id"] for row in written}
    assert sum(len(case.responses) for case in cases.values()) == len(
        {(row["id"], row["answer"]) for row in written}
    )
    for row in written:
        case = cases[row["id"]]
        texts = [one.text for one in case.responses]
        if not row["prompt"].startswith(
            "Add"
        ):  # of two prompts for one test, the first is the case's
            assert case.prompt.removesuffix("\n[image omitted]") == row["prompt"]
        assert (case.reference, case.responses[texts.index(row["answer"])].model) == (
            row["reference"],
            row["model"],
        )
        assert row["metadata"].items() <= case.metadata.items()
        assert case.context == row.get("context")
        labels = {
            person: given[texts.index(row["answer"])] for person, given in case.labels.items()
        }
        assert {person: label for person, label in labels.items() if label is not None} == row[
            "labels"
        ]


def check_verdicts(path: Path, rows: Sequence[dict[str, Any]], criterion: str) -> None:
    """Compare what each judge says by one criterion; those of MLflow have to be selected."""
    format_ = recognize_format(path)
    assert format_
    found = import_judgments(
        format_, path, Options(dimension=criterion if format_ == "mlflow_traces" else None)
    )
    read, expected = Counter[Any](), Counter[Any]()
    judges = {
        judge
        for row in rows
        for judge, given in row["judges"].items()
        if criterion in (given or ())
    }
    texts = {case.id: [one.text for one in case.responses] for case in found.cases}
    for one in found.judgments:
        if one.judge in judges:
            value = one.class_name or one.criteria.get(criterion, one.criteria.get("quality"))
            reason = one.completion.text if one.completion and one.status == "ok" else None
            read[name(one.case_id), texts[one.case_id][one.unit[0]], one.judge, value, reason] += 1
    for row in rows:
        for judge in judges & row["judges"].keys():
            value = (row["judges"][judge] or {}).get(criterion)
            reason = (row["reasons"].get(judge) or {}).get(criterion) if value is not None else None
            expected[row["id"], row["answer"] or "", judge, value, reason] += 1
    assert read == expected
