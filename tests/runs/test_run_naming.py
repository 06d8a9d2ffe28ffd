"""Two runs of one second do not share a folder."""

from __future__ import annotations

from pathlib import Path

from evalkit.runs import unused_folder


def test_a_folder_with_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "10-00-00-pairwise-x"
    assert unused_folder(folder) == folder
    folder.mkdir()
    assert unused_folder(folder) == folder
    (folder / "manifest.json").write_text("{}")
    (second := tmp_path / "10-00-00-pairwise-x-2").mkdir()
    assert unused_folder(folder) == second
    (second / "manifest.json").write_text("{}")
    assert unused_folder(folder) == tmp_path / "10-00-00-pairwise-x-3"
