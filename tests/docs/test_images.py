"""The images of the docs: they are not made without a font for Chinese, and every image that a page shows exists."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("programs", "fault"),
    [
        ({}, "Chromium is not installed"),
        ({"chromium": ""}, "no font has Chinese characters: apt-get install fontconfig fonts-noto-cjk"),
        ({"chromium": "", "fc-list": ""}, "no font has Chinese characters"),
    ],
)
def test_images_need_chromium_and_a_font_with_chinese(tmp_path, monkeypatch, programs, fault):
    tool = runpy.run_path(str(ROOT / "docs" / "generate_images.py"))
    for name, output in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{output}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=fault):
        tool["write_images"](tmp_path / "images")
    assert not (tmp_path / "images").exists()


def test_the_images_of_the_pages_are_those_that_are_made():
    tool = runpy.run_path(str(ROOT / "docs" / "generate_images.py"))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/([\w-]+)\.png", page.read_text("utf-8"))}
    assert shown == {name for name, *_ in tool["RUNS"]} == {path.stem for path in (ROOT / "docs/images").glob("*.png")}
