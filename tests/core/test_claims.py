"""Claims of folders and files: one process has a target, and a claim that was left is taken over."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from evalkit.core.claims import NAME, claim_file, claim_folder, claim_unused
from evalkit.core.errors import ConfigError

CHILD = """
import sys
from pathlib import Path
from evalkit.core.claims import InUseError, claim_folder, claim_unused
print("ready", flush=True)
sys.stdin.readline()
target = Path(sys.argv[2])
try:
    if sys.argv[1] == "unused":
        folder, claim = claim_unused(target, lambda path: (path / "manifest.json").exists())
    else:
        folder, claim = target, claim_folder(target)
except InUseError as error:
    print("refused", error, flush=True)
else:
    print(folder, flush=True)
    sys.stdin.readline()
    (folder / "manifest.json").write_text("{}")
    claim.release()
"""


def started(kind: str, target: Path, count: int) -> list[subprocess.Popen[str]]:
    """Return processes that claim a target at once."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, kind, str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    for child in children:
        assert line(child) == "ready"
    go_on(children)
    return children


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def go_on(children: Sequence[subprocess.Popen[str]]) -> None:
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()


def ended(children: Sequence[subprocess.Popen[str]]) -> None:
    for child in children:
        child.communicate()
        assert child.returncode == 0


@pytest.mark.parametrize("left", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_twenty_processes_have_twenty_folders(tmp_path, left):
    target = tmp_path / "outputs" / "2026-11-27" / "10-00-00-pairwise-x"
    if left:  # a process was killed in this folder
        killed = started("unused", target, 1)
        assert line(killed[0]) == str(target)
        killed[0].kill()
        killed[0].communicate()
        assert (target / NAME).exists()
    children = started("unused", target, 20)
    folders = {line(child) for child in children}
    go_on(children)
    ended(children)
    suffixes = ["", *(f"-{number}" for number in range(2, 21))]
    assert folders == {f"{target}{suffix}" for suffix in suffixes}
    assert [path.name for path in target.parent.rglob(".claim*")] == []


@pytest.mark.parametrize("left", [False, True])
def test_one_of_ten_processes_has_a_named_folder_and_the_others_say_who_has_it(tmp_path, left):
    target = tmp_path / "run"
    if left:
        killed = started("named", target, 1)
        assert line(killed[0]) == str(target)
        killed[0].kill()
        killed[0].communicate()
    children = started("named", target, 10)
    lines = {child: line(child) for child in children}
    [winner] = [child for child, text in lines.items() if text == str(target)]
    pattern = (
        rf"refused {re.escape(str(target))}: in use by process {winner.pid} on"
        rf" {re.escape(socket.gethostname())} since 20\d\d-.*; wait until it has ended"
    )
    refused = [text for child, text in lines.items() if child is not winner]
    assert len(refused) == 9
    assert all(re.fullmatch(pattern, text) for text in refused)
    go_on([winner])  # the refused ones have ended, or are about to
    ended(children)


def written(folder: Path, **owner: object) -> Path:
    folder.mkdir()
    path = folder / NAME
    path.write_text(json.dumps(owner), "utf-8")
    return path


def test_a_claim_of_another_machine_is_removed_by_hand(tmp_path):
    path = written(tmp_path / "run", pid=1, host="elsewhere\x1b[31m", started="2026-11-27")
    with pytest.raises(ConfigError) as caught:
        claim_folder(tmp_path / "run", "choose another folder")
    text = str(caught.value)
    assert "in use by process 1 on elsewhere_1b_[31m since 2026-11-27; wait" in text
    assert f"or remove {path} if it is gone, or choose another folder" in text
    path.unlink()
    claim_folder(tmp_path / "run").release()
    assert (tmp_path / "run").exists()  # it was there before


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 9000, '{"pid": "x", "host": 3}'])
def test_a_damaged_claim_is_one_line(tmp_path, content):
    (tmp_path / NAME).write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=r"in use by process .* since \?; wait .* remove"):
        claim_folder(tmp_path)


def test_claims_of_one_thread_are_nested_and_other_threads_are_refused(tmp_path):
    target = tmp_path / "new" / "run"
    refused: list[str] = []

    def attempt() -> None:
        try:
            claim_folder(target).release()
        except ConfigError as error:
            refused.append(str(error))

    def in_a_thread() -> int:
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        return len(refused)

    with claim_folder(target) as outer:
        with claim_folder(target.parent / "run"):
            assert in_a_thread() == 1
        assert in_a_thread() == 2
        assert f"in use by process {os.getpid()}" in refused[0]
        outer.release()
        outer.release()  # a second release changes nothing
        assert in_a_thread() == 2
    assert not target.parent.exists()  # created for the claim, and empty


def test_a_file_has_one_claim_by_any_name(tmp_path):
    file = tmp_path / "labels.csv"
    (tmp_path / "link.csv").symlink_to(file)
    children = started("named", tmp_path / "folder", 1)
    with claim_file(file):
        assert (tmp_path / ".labels.csv.claim").exists()
        with claim_file(tmp_path / "link.csv"):
            pass
        assert (tmp_path / ".labels.csv.claim").exists()
    assert not (tmp_path / ".labels.csv.claim").exists()
    go_on(children)
    ended(children)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(ConfigError, match=r"cannot be written \(.*\); choose another"):
        claim_folder(tmp_path / "file" / "run", "choose another folder")


def test_file_systems_without_hard_links_or_locks_have_claims(tmp_path, monkeypatch):
    def unsupported(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", unsupported)
    monkeypatch.setattr("fcntl.flock", unsupported)
    live = written(tmp_path / "run", pid=os.getppid(), host=socket.gethostname())
    folder, claim = claim_unused(live.parent, lambda path: (path / "manifest.json").exists())
    assert folder == tmp_path / "run-2"
    claim.release()
    path = written(tmp_path / "old", pid=2**22 + 1, host=socket.gethostname())
    with claim_folder(tmp_path / "old"):
        assert json.loads(path.read_bytes())["pid"] == os.getpid()
