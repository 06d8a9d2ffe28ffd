from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from evalkit.store.sqlite import SqliteStore

HOLDER = """
import sys
from pathlib import Path
from evalkit.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
print([store.claim(key) for key in sys.argv[2:]], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


def holder(path: Path, *keys: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDER, str(path), *keys]
    return subprocess.Popen(words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_closing_one_store_keeps_the_claims_of_another_in_the_same_process(path):
    with holder(path, "theirs") as other:
        assert other.stdout.readline() == "[True]\n"
        one, two = SqliteStore(path), SqliteStore(path)
        assert one.claim("a")
        assert two.claim("b")
        assert not one.claim("theirs")
        two.close()
        with holder(path, "a", "b") as third:
            assert third.stdout.readline() == "[False, True]\n"
            third.stdin.close()
        other.stdin.close()
    assert one.claim("theirs")
    one.close()


def test_a_killed_processs_claims_are_free_at_once(path):
    store = SqliteStore(path)
    with holder(path, "a") as other:
        assert other.stdout.readline() == "[True]\n"
        assert not store.claim("a")
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert store.claim("a")
        other.stdin.close()
    store.close()


def test_claims_cost_no_write_and_are_the_owners_own(path):
    store = SqliteStore(path)
    for n in range(100):
        assert store.claim(str(n))
    file = Path(f"{path}-claims")
    assert (file.stat().st_size, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)
    store.close()
