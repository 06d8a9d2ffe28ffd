"""A job of a sweep writes the files that it writes as a run of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Done, fake, pair, shown
from tests.support.fake_provider import Provider, Reply, said

Call = Callable[..., Done]
OWN = {"run_id", "started", "ended", "timing", "sweep"}
"""What the manifest says of one run alone."""


def uneven(body: Mapping[str, Any]) -> Reply:
    """A judge that is right, or likes what stands first, or says nothing."""
    first = shown(body)[0]
    number = int(first.split()[1])
    right = "A" if first.startswith("good") else "B"
    return said(f"because <{number}> & [[{right}]]" if number % 3 else "[[A]]" if number % 2 else "who knows")


@pytest.fixture
def run(call: Call, provider: Provider, tmp_path: Path) -> Call:
    """Runs a judge on twelve pairs."""
    provider.rule = uneven
    rows = (json.dumps(pair(n, label="AB"[n % 2])) for n in range(12))
    (tmp_path / "cases.jsonl").write_text("\n".join(rows))
    data = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=100", "tracking=none"]
    return lambda *more, status=0: call("run", *fake(provider), "judge.transport=direct", *data, *more, status=status)


def content(folder: Path) -> dict[str, bytes]:
    """A run folder's files, but for what is its own."""
    manifest = json.loads((folder / "manifest.json").read_text())
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name in OWN:
        shown = json.dumps({name: manifest[name]}, indent=2, ensure_ascii=False)[2:-2]
        for text in (shown, shown.replace('"', "&#34;")):
            found = {file: data.replace(text.encode(), b"") for file, data in found.items()}
    page = re.sub(rb"<dd>.{16} UTC</dd>|\d{4}-\d\d-\d\d \d\d:\d\d UTC", b"", found["report.html"])
    return found | {"report.html": page}


@pytest.mark.slow
def test_a_job_of_a_sweep_writes_what_it_writes_alone(run: Call, tmp_path: Path, provider: Provider) -> None:
    words = ["swap.resolve=tie,third_pass", "tie.threshold=0.6"]
    run("hydra.sweep.dir=asked", *words, "-m")
    asked = len(provider.requests)
    done = run("hydra.sweep.dir=stored", *words, "-m")
    for number, resolve in enumerate(("tie", "third_pass")):
        folder = tmp_path / "alone" / str(number)
        alone = run(f"hydra.run.dir={folder}", f"swap.resolve={resolve}", "tie.threshold=0.6")
        assert content(tmp_path / "stored" / str(number)) == content(folder)
        assert alone.err in done.err
    assert len(provider.requests) == asked
