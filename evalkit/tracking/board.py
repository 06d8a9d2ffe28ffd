"""A sweep's leaderboard at its parent run: the files as they are, and as a table of MLflow's pages."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.runs.spreadsheet import unescaped

if TYPE_CHECKING:
    from mlflow import MlflowClient

PARENT = "mlflow.parentRunId"
_TABLE = "tables/leaderboard.json"


def attach(client: MlflowClient, child: str, files: Sequence[Path]) -> str | None:
    """Log files with the parent of the run `child`, a CSV as a table too; return the parent's id, if any."""
    parent = client.get_run(child).data.tags.get(PARENT)
    if parent is None:
        return None
    for file in files:
        client.log_artifact(parent, str(file))
    for file in files:
        if file.suffix == ".csv":
            client.log_text(parent, table_of(file), _TABLE)
            client.set_tag(parent, "mlflow.loggedArtifacts", json.dumps([{"path": _TABLE, "type": "table"}]))
    return str(parent)


def table_of(file: Path) -> str:
    """Return a CSV as JSON in the layout that MLflow's table view reads, numbers as numbers."""
    with file.open(encoding="utf-8", newline="") as lines:
        columns, *rows = csv.reader(lines)
    data = [[_value(column, text) for column, text in zip(columns, row, strict=True)] for row in rows]
    return json.dumps({"columns": columns, "data": data}, ensure_ascii=False)


def _value(column: str, text: str) -> str | float | None:
    if "/" not in column and column not in ("rank", "tie_rate"):
        return str(unescaped(text))
    try:
        return float(text) if text else None
    except ValueError:
        return text
