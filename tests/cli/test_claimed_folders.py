"""Commands at once: each run has its own folder, and a named folder has one command at a time."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evalkit.core.claims import claim_file, claim_folder
from tests.support.command_line import fake


def command(words: Sequence[str]) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "evalkit", *words]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


SETTINGS = ("judge=simulated/good", "tracking=none", "store=off", "scoring.bootstrap=50")


def test_runs_with_different_settings_have_a_folder_each(here):
    now = "hydra.run.dir=outputs/2026-11-27/10-00-00"  # the same second for all
    study = f"defaults: [config]\nhydra: {{run: {{dir: {now.partition('=')[2]}}}}}\n"
    Path("study.yaml").write_text(study, "utf-8")
    runs = [command(["run", "study.yaml", *SETTINGS, f"dataset.limit={n}"]) for n in (1, 2)]
    outputs = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    folders = sorted(path.name for path in Path("outputs/2026-11-27").iterdir())
    assert folders == ["10-00-00", "10-00-00-2"]
    counts = [
        len((Path("outputs/2026-11-27") / name / "cases.jsonl").read_bytes().splitlines())
        for name in folders
    ]
    assert sorted(counts) == [1, 2]


# The command, and the folder or file that it writes; {run} is a finished run.
COMMANDS = [
    (["run", "judge=simulated/good", "--output", "run"], "run"),
    (["run", "-m", "judge=simulated/good,simulated/length_biased", "--output", "sweep"], "sweep"),
    (["audit", "judge=simulated/good", "--output", "audit"], "audit"),
    (["score", "run", "tie.threshold=0.1"], "run"),
    (["track", "run"], "run"),
    (["label", "run", "labels.csv"], "run"),
    (["align", "run", "tune=[threshold]"], "run"),
    (["check", "table.csv", "--output", "checked"], "checked"),
    (["import", "generic", "table.csv", "--output", "imported"], "imported"),
    (["export", "run", "--to", "csv", "--output", "out.csv"], "out.csv"),
    (["export", "run", "--to", "judge", "--output", "judge"], "judge"),
    (["reproduce", "run", "--output", "."], "reproduction.json"),
    (["init", "project"], "project"),
]


@pytest.mark.parametrize(("words", "target"), COMMANDS, ids=lambda value: str(value)[:30])
def test_a_second_command_says_who_has_its_target(finished, call, words, target):
    finished("run", lambda: call("run", *SETTINGS, "hydra.run.dir=run"))
    Path("table.csv").write_text("id,winner,label\n1,A,A\n2,B,A\n", "utf-8")
    Path("labels.csv").write_text("case_id,annotator,label\n", "utf-8")
    before = sorted(map(str, Path().rglob("*")))
    # Another thread, as another process: tests/core/test_claims.py has claims of processes.
    with ThreadPoolExecutor(1) as other:
        claimed = claim_file if "." in target else claim_folder
        claim = other.submit(claimed, Path(target)).result()
        done = call(*words, status=1)
        other.submit(claim.release).result()
    who = rf"in use by process {os.getpid()} on {re.escape(socket.gethostname())} since "
    assert re.search(rf"{re.escape(target)}: {who}", done.err), done.err
    assert sorted(map(str, Path().rglob("*"))) == before


def test_nothing_is_paid_before_the_folder_is_claimed(call, provider):
    Path("run").mkdir()
    Path("run/.claim").write_text('{"pid": 7, "host": "elsewhere", "started": "2026-11-27"}')
    done = call("run", *fake(provider), "hydra.run.dir=run", status=1)
    assert "on elsewhere since 2026-11-27" in done.line()
    assert provider.requests == []
