"""Features are rooms: without their folders, the core judges, checks and scores as before."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    "alignment",
    "audit",
    "benchmarks",
    "engine/batch",
    "engine/workers",
    "interop/importers",
    "serving",
)
TABLE = "id,judge,human\n" + "".join(
    f"{row},{('pass', 'fail')[row % 3 == 0]},{('pass', 'fail')[row % 4 == 0]}\n"
    for row in range(24)
)
CORE = """
from evalkit.cli import main
study = ["run", "judge=simulated/good", "tracking=none", "hydra.run.dir=run"]
assert main(study) == 0
assert main(["score", "run", "scoring.confidence=0.9"]) == 0
assert main(["check", "table.csv", "--judge", "judge", "--label", "human"]) == 0
"""
WITH_ROOMS = {
    "alignment": "['align', 'run']",
    "audit": "['audit', *study[1:3], 'hydra.run.dir=audited']",
    "engine/batch": "[*study[:3], 'runner=batch', 'hydra.run.dir=batched']",
    "serving": "['serve', 'judge']",
}
"""A command that needs the room."""


def without(rooms, folder: Path) -> subprocess.CompletedProcess[str]:
    """Use a copy of the package without some of its folders."""
    for name in ("evalkit", "conf", "prompts", "experiments"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for room in rooms:
        shutil.rmtree(folder / "evalkit" / room)
    work = folder / "work"
    work.mkdir()
    (work / "table.csv").write_text(TABLE)
    refused = [f"assert main({WITH_ROOMS[room]}) == 1\n" for room in rooms if room in WITH_ROOMS]
    return subprocess.run(
        [sys.executable, "-c", CORE + "".join(refused)],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "rooms",
    [
        pytest.param(ROOMS, id="all"),
        *(pytest.param([room], id=room, marks=pytest.mark.thorough) for room in ROOMS),
    ],
)
def test_the_core_works_without_rooms_and_names_a_missing_one(tmp_path, rooms):
    done = without(rooms, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    refusals = [line for line in done.stderr.splitlines() if "this installation has no" in line]
    for room in WITH_ROOMS:
        module = "evalkit." + room.replace("/", ".")
        assert any(module in line for line in refusals) == (room in rooms)
