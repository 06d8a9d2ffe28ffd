"""A sweep's folder: which one is resumed, and which one is not overwritten."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from evalkit.core.claims import claim_folder
from evalkit.core.errors import ConfigError
from evalkit.workflows import sweeps

HASHES = ["a" * 64, "b" * 64]


def job(folder: Path, config_hash: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"config_hash": config_hash, "ended": "2026-11-20T10:00:00+00:00"}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    (folder / "report.html").write_text("<p>", "utf-8")
    return folder


def state(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / sweeps.NAME).read_text("utf-8"))
    return content


@contextmanager
def claim_elsewhere(folder: Path) -> Iterator[None]:
    """Have another thread claim a folder within the block."""
    with ThreadPoolExecutor(1) as thread:
        claim = thread.submit(claim_folder, folder).result()
        yield
        thread.submit(claim.release).result()


def resumed(root: Path, hashes: list[str]) -> Path | None:
    claimed = sweeps.claim_interrupted(root, hashes)
    if claimed is None:
        return None
    claimed[1].release()
    return claimed[0]


def test_the_newest_unfinished_sweep_of_the_same_jobs_is_resumed(tmp_path):
    old, new = tmp_path / "2026-11-20" / "10-00-00", tmp_path / "2026-11-20" / "11-00-00"
    for folder in (old, new):
        folder.mkdir(parents=True)
        sweeps.begin(folder, HASHES)
    with claim_elsewhere(new):
        assert resumed(tmp_path, HASHES) == old, "a sweep that runs is not resumed by another"
    assert resumed(tmp_path, HASHES) == new
    assert resumed(tmp_path, HASHES[:1]) is None
    started = state(new)["started"]
    sweeps.begin(new, HASHES)
    sweeps.end(new)
    assert state(new)["started"] == started
    assert resumed(tmp_path, HASHES) == old
    (old / sweeps.NAME).write_text("{", "utf-8")
    assert resumed(tmp_path, HASHES) is None


def test_finished_jobs_of_the_same_sweep_stay(tmp_path):
    job(tmp_path / "0", HASHES[0])
    job(tmp_path / "1", HASHES[1])
    sweeps.check_free(tmp_path, HASHES)
    sweeps.check_free(tmp_path, None)
    assert list(sweeps.runs(tmp_path)) == ["0", "1"]


@pytest.mark.parametrize("hashes", [HASHES[::-1], HASHES[:1]])
def test_another_sweep_is_only_replaced_if_the_user_asks(tmp_path, hashes):
    job(tmp_path / "1", HASHES[1])
    named = job(tmp_path / "judge=x", hashes[0])  # a folder that is not named by a number
    with pytest.raises(
        ConfigError, match=r"contains another sweep \(job 1\); choose another folder .* --overwrite"
    ):
        sweeps.check_free(tmp_path, hashes)
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    (tmp_path / "leaderboard.json").write_text("{}", "utf-8")
    sweeps.check_free(tmp_path, hashes, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["judge=x", "notes.txt"]
    assert (named / "report.html").exists()
    sweeps.check_free(tmp_path, None, overwrite=True)
    assert not (named / "manifest.json").exists()


def test_a_run_folder_is_no_place_for_a_sweep(tmp_path):
    job(tmp_path, HASHES[0])
    with pytest.raises(
        ConfigError, match=r"contains a run; choose another folder with hydra\.sweep\.dir"
    ):
        sweeps.check_free(tmp_path, HASHES)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(ConfigError, match=r"choose another folder with hydra\.sweep\.dir"):
        sweeps.begin(tmp_path / "file", HASHES)
