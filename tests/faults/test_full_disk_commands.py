"""Commands on a full disk: each ends in one line, and leaves what was there."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import contextlib, io, json, os, resource, signal, sys
from pathlib import Path
from evalkit.cli import main

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails as on a full disk
judge = ("judge=simulated/good", "dataset.path=pairs.jsonl", "tracking=none", "scoring.bootstrap=20")
pair = '{"id": "%d", "prompt": "p", "response_a": "x", "response_b": "y", "label": "%s"}\\n'
Path("pairs.jsonl").write_text("".join(pair % (n, "AB"[n % 2]) for n in range(12)))
Path("labels.csv").write_text("id,annotator,label\\n" + "".join("%d,me,B\\n" % n for n in range(12)))
Path("judged.csv").write_text("id,prompt,response_a,response_b,winner,label\\na,p,x,y,A,A\\nb,q,x,y,B,A\\n")
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    assert main(["run", *judge, "hydra.run.dir=run"]) == 0
    assert main(["run", *judge, "swap=none", "hydra.run.dir=other"]) == 0
    assert main(["watch", *judge, "--output", "watched"]) == 0
before = {str(p): p.read_bytes() for f in ("run", "watched") for p in Path(f).rglob("*") if p.is_file()}
commands = [
    ["check", "judged.csv", "--output", "checked"],
    ["watch", *judge, "--output", "watched"],
    ["audit", *judge, "probe=padding", "--output", "audited"],
    ["score", "run", "scoring.seed=9"],
    ["export", "run", "--to", "csv"],
    ["export", "run", "--to", "judge", "--output", "judge"],
    ["label", "run", "labels.csv"],
    ["align", "run", "tune=[threshold]"],
    ["compare", "run", "other", "bootstrap=20", "--output", "compared"],
]
for limit in (100, 20_000):
    for words in commands:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            error = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
                status = main(words)
            left = [str(path) for path in Path().rglob("*.tmp")]
            row = [limit, words[0], int(status), error.getvalue().splitlines()[-1:], left]
            os.write(1, json.dumps(row).encode() + b"\\n")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, words
after = {name: Path(name).read_bytes() for name in before}
os.write(1, json.dumps([name for name in before if before[name] != after[name]]).encode() + b"\\n")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
def test_each_command_on_a_full_disk_is_one_line_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # it would be cut off, and kept
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *rows, changed = map(json.loads, done.stdout.splitlines())
    assert len(rows) == 18
    for limit, command, status, said, left in rows:
        small = command in ("export", "align") and limit == 20_000
        written = small and status == 0
        assert written or status == 1, (command, limit, said)
        assert written or "free" in said[0] or "cannot be written" in said[0], said
        assert left == []
    assert [name for name in changed if not name.startswith("watched/.")] == []
