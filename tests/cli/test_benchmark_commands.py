"""Named benchmarks on the command line: whose they are is said, and their own metric is in the run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command_line import BRIEF, Done, fake
from tests.support.fake_provider import Provider, serving

FILES = Path(__file__).parents[1] / "benchmarks" / "files"
LLMBAR = ["dataset=llmbar", f"dataset.path={FILES / 'llmbar'}", "output=bracket"]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with serving() as provider:
        yield provider


def test_a_plan_says_once_whose_benchmark_it_is(call: Callable[..., Done], provider: Provider):
    done = call("plan", "-m", *LLMBAR, *fake(provider), "swap=both,none")
    assert done.err.count("LLMBar: license MIT") == 1
    assert done.out.count("swap=") == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["dataset=halluqa", f"dataset.path={FILES / 'mt_bench'}"],
            "it looks like MT-Bench judgments; use dataset=mt_bench",
        ),
        (["dataset=llmbar"], "dataset.path: not set; set it to a dataset.json of LLMBar"),
        (["dataset=sample", "dataset.benchmark=lmbar"], "did you mean 'llmbar'?"),
    ],
)
def test_what_is_wrong_is_one_line(call: Callable[..., Done], words: list[str], line: str):
    assert line in call("plan", *words, status=1).line()


def _imported(call: Callable[..., Done], name: str, path: object) -> dict[str, dict[str, float]]:
    call("import", name, str(path), *BRIEF, "hydra.run.dir=run")
    metrics = json.loads(Path("run/metrics.json").read_text())["metrics"]
    return {key.removeprefix(f"{name}/"): one for key, one in metrics.items() if key.startswith(f"{name}/")}


def test_imported_games_of_arena_hard_keep_their_strength(call: Callable[..., Done], tmp_path: Path):
    games = [("B>>A", "A>B"), ("A=B", "B>A"), ("A>>B", "A>>B")]  # the baseline is shown first in the first game
    rows = [
        {"uid": f"u{n}", "category": "hard_prompt", "judge": "j", "model": "mine", "games": [{"score": s} for s in two]}
        for n, two in enumerate(games)
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = _imported(call, "arena_hard", tmp_path / "mine.jsonl")
    # Credits and weights: 1 of 3, 1 of 1; 1/2 of 1, 0 of 1; 0 of 3, 1 of 3.
    assert found["score"]["value"] == pytest.approx((3 + 1 + 0.5 + 0 + 0 + 3) / 12)
