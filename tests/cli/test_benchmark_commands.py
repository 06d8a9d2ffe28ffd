"""Named benchmarks on the command line: whose they are is said, and their own metric is in the run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command_line import BRIEF, Done, fake, shown
from tests.support.fake_provider import Provider, Reply, said, serving

FILES = Path(__file__).parents[1] / "benchmarks" / "files"
LLMBAR = ["dataset=llmbar", f"dataset.path={FILES / 'llmbar'}", "output=bracket"]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with serving() as provider:
        yield provider


def test_a_benchmark_run_tells_licence_citation_and_its_own_metric(call: Callable[..., Done], provider: Provider):
    provider.rule = lambda body: said("[[A]]")
    done = call("run", *LLMBAR, *fake(provider), "judge.transport=direct", *BRIEF, "hydra.run.dir=run")
    note = "note: LLMBar: license MIT; cite Zeng et al. 2024, ICLR, arXiv 2310.07641"
    assert [line.startswith(note) for line in done.out.splitlines()].count(True) == 1
    assert any(line.startswith("llmbar/mean_accuracy ") for line in done.out.splitlines())
    metrics = json.loads(Path("run/metrics.json").read_text())["metrics"]
    assert metrics["llmbar/mean_accuracy"]["value"] == 0.5  # the first shown always wins: right in one order of each
    assert next(iter(metrics)) == "llmbar/mean_accuracy"
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["dataset"]["benchmark"]["licence"] == "MIT"
    call("score", "run", "swap.resolve=mean")
    assert json.loads(Path("run/metrics.json").read_text())["metrics"]["llmbar/mean_accuracy"]["value"] == 0.5


def test_a_plan_says_once_whose_benchmark_it_is(call: Callable[..., Done], provider: Provider):
    done = call("plan", "-m", *LLMBAR, *fake(provider), "swap=both,none")
    assert done.err.count("LLMBar: license MIT") == 1
    assert done.out.count("swap=") == 2


def test_arena_hard_weighs_much_better_as_its_judge_says(call: Callable[..., Done], provider: Provider):
    def rule(body: dict[str, object]) -> Reply:
        """The model is much better where it stands first, and a little worse where it stands second."""
        return said("[[A>>B]]" if shown(body)[0].startswith("small-7b") else "[[A>B]]")

    provider.rule = rule
    words = ["dataset=arena_hard", f"dataset.path={FILES / 'arena_hard'}", "output=bracket_graded"]
    call("run", *words, *fake(provider), "judge.transport=direct", *BRIEF, "hydra.run.dir=run")
    metrics = json.loads(Path("run/metrics.json").read_text())["metrics"]
    assert metrics["arena_hard/score"]["value"] == pytest.approx(3 / 4)


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


def test_imported_annotations_of_alpaca_eval_keep_its_direction(call: Callable[..., Done], tmp_path: Path):
    rows = [
        {
            "instruction": f"Task {n}",
            "output_1": "of the baseline",
            "generator_1": "gpt4_1106_preview",
            "output_2": "of the model" * (n + 1),
            "generator_2": "small-7b",
            "annotator": "weighted",
            "preference": preference,
        }
        for n, preference in enumerate([1.9, 1.2, 2.0, 1.5])
    ]
    (tmp_path / "annotations.json").write_text(json.dumps(rows))
    found = _imported(call, "alpaca_eval", tmp_path / "annotations.json")
    assert found["win_rate"]["value"] == pytest.approx((0.9 + 0.2 + 1.0 + 0.5) / 4)
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["dataset"]["benchmark"]["licence"] == "CC BY-NC 4.0"


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


def test_a_benchmark_given_to_import_is_told_by_its_name(call: Callable[..., Done]):
    line = call("import", "judgebench", str(FILES / "mt_bench" / "human.jsonl"), status=1).line()
    assert line.endswith(
        "does not look like judgebench; it has no judge's verdicts and looks like MT-Bench "
        "judgments; use dataset=mt_bench in evalkit run"
    )
