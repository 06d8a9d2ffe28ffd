"""Runs `evalkit import` in an empty folder, and reads what it wrote."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main


@dataclass
class Ran:
    """A command's end: its status, what it said, and the run it wrote."""

    folder: Path
    status: int
    out: str
    err: str

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    def json(self, name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / name).read_text("utf-8"))
        return loaded

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        return self.json("metrics.json")["metrics"]

    @property
    def values(self) -> list[tuple[str, list[int], Any]]:
        """Each judgment's case, order shown and value: a margin, scores, or the status of one that is missing."""
        return [
            (
                row["case_id"],
                row["shown"],
                row["value"]
                if row["value"] is not None
                else row["criteria"] or row["items"] or row["status"],
            )
            for row in self.rows("judgments.jsonl")
        ]


@pytest.fixture
def bring(here, capsys):
    def run(name: str, path: str, *words: str, status: int = 0) -> Ran:
        capsys.readouterr()
        ended = main(
            [
                "import",
                name,
                path,
                "hydra.run.dir=run",
                "--overwrite",
                "tracking=none",
                "scoring.bootstrap=0",
                *words,
            ]
        )
        out, err = capsys.readouterr()
        assert ended == status, err + out
        return Ran(here / "run", ended, out, err)

    return run


@pytest.fixture(scope="module")
def runs():
    """The runs that a module's tests share, by name."""
    return {}


@pytest.fixture
def once(runs, bring, write, tmp_path_factory, tmp_path):
    """Imports rows once for a module; each test has a copy of the run."""

    def copied(name: str, rows: Any) -> Ran:
        if name not in runs:
            ran = bring("generic", str(write(f"{name}.jsonl", rows)))
            runs[name] = Path(shutil.move(ran.folder, tmp_path_factory.mktemp(name)))
        return Ran(Path(shutil.copytree(runs[name], tmp_path / "run")), 0, "", "")

    return copied


@pytest.fixture
def write(tmp_path):
    """Writes a file: rows as JSON lines, anything else as JSON."""

    def put(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = name.endswith(".jsonl")
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(
            "".join(f"{json.dumps(row)}\n" for row in content) if lines else text, "utf-8"
        )
        return path

    return put
