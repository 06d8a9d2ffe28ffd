"""The benchmark of a server under load, for some seconds: what it counts holds on a busy machine, too."""

import re
import subprocess
import sys

import pytest

from tests.support.command_line import ROOT


@pytest.mark.slow
def test_under_load_no_paid_answer_is_lost_and_the_budget_holds(tmp_path, thorough):
    size = (
        ("--seconds", "8", "--clients", "60") if thorough else ("--seconds", "2", "--clients", "12")
    )
    words = (*size, "--latency", "0.05", "--stop", "1")
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "serving_load.py"), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (\d+) \| (\d+) \| (\d+) \|$", done.stdout, re.M)
    assert [row[0] for row in rows] == ["every size", "with a budget", "stopped"], done.stdout
    for name, statuses, answered, stored, unanswered in rows:
        assert int(answered) - int(stored) - int(unanswered) <= 0, name
        assert not re.search(r"\b500:", statuses), statuses
    assert "answers were lost" not in done.stdout
    assert "calls of a budget" not in done.stdout
    asked = re.search(r"^/health in time in [\d.]+% of (\d+),", done.stdout, re.M)
    assert int(asked[1]) > 0
    if thorough:  # how fast it is depends on the machine, and the benchmark alone judges it
        assert "memory grew" not in done.stdout
