import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evalkit.core.errors import StoreError
from evalkit.core.types import Completion
from evalkit.store.sqlite import SqliteStore

WRITE = """
import resource, sys
from pathlib import Path
from evalkit.core.errors import StoreError
from evalkit.store.sqlite import SqliteStore
from evalkit.core.types import Completion
store = SqliteStore(Path(sys.argv[1]))
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
for n in range(2000):
    try:
        store.put_many([(f"new-{n}", "m", Completion("y" * 1000))])
    except StoreError as error:
        print("refused", error, flush=True)
        break
    print(f"new-{n}", flush=True)
"""


def fill(path: Path, *words: str) -> tuple[list[str], str]:
    """Write until it is refused; return what was acknowledged, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE, str(path), *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    *acknowledged, last = done.stdout.splitlines()
    assert last.startswith("refused ")
    return acknowledged, last.removeprefix("refused ")


def with_some(path: Path) -> dict[str, Completion]:
    store = SqliteStore(path)
    kept = {f"old-{n}": Completion(f"x{n}") for n in range(50)}
    for key, completion in kept.items():
        store.put_many([(key, "m", completion)])
    store.close()
    return kept


def check(path: Path, kept: dict[str, Completion], acknowledged: list[str], said: str) -> None:
    assert said.startswith(f"{path}: ")
    assert "free disk space" in said
    store = SqliteStore(path)
    assert store.get_many([*kept]) == kept
    assert set(store.get_many(acknowledged)) == set(acknowledged)
    store.put_many([("after", "m", Completion("works again"))])
    store.close()


def test_a_file_that_may_not_grow_loses_nothing(tmp_path):
    path = tmp_path / "s.sqlite"
    kept = with_some(path)
    acknowledged, said = fill(path, str(300_000))
    assert acknowledged
    check(path, kept, acknowledged, said)


@pytest.fixture
def mounted(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_loses_nothing(mounted):
    path = mounted / "s.sqlite"
    kept = with_some(path)
    (mounted / "ballast").write_bytes(bytes(100_000))
    acknowledged, said = fill(path)
    assert acknowledged
    (mounted / "ballast").unlink()
    check(path, kept, acknowledged, said)


def test_a_read_only_file_system_is_said_to_be_one(mounted):
    path = mounted / "s.sqlite"
    kept = with_some(path)
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    for place in (path, mounted / "new.sqlite"):
        with pytest.raises(StoreError) as error:
            SqliteStore(place)
        assert str(error.value).startswith(f"{place}: ")
        assert "read-only" in str(error.value).lower()
        assert "\n" not in str(error.value)
    reading = SqliteStore(path, read_only=True)
    assert reading.get_many([*kept]) == kept
    reading.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match=r"store\.url"):
        SqliteStore(tmp_path / "file" / "s.sqlite")
    assert (tmp_path / "file").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
