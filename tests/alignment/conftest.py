"""Finished runs in folders: of margins and labels, or of a judge on loopback."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.runs import read_run, write_run
from evalkit.runs.results import RunResult
from evalkit.scoring.pipeline import score_run
from evalkit.workflows.holdout import read_split
from tests.support.command_line import BRIEF, call_main
from tests.support.fake_provider import Provider, Reply

NAMES = ("accuracy", "tone")


def write(
    folder: Path, cases: Sequence[Case], judgments: Sequence[Judgment], **sections: Any
) -> RunResult:
    """Write a run folder, and read it."""
    settings = {
        "judge": {"model": "openai/m", "name": "m"},
        "criteria": dict.fromkeys(NAMES, ""),
        "dataset": {"path": "pairs.jsonl"},
        "scoring": {"bootstrap": 50},
        **sections,
    }
    config = RunConfig.model_validate(settings)
    scores = score_run(config, cases, judgments)
    dataset = {"name": "pairs", "source": "pairs.jsonl", "fingerprint": "f", "rows": len(cases)}
    manifest = {"run_id": folder.name, "judge": "m", "mode": config.mode.name, "dataset": dataset}
    write_run(
        folder, RunResult(None, config, manifest, cases, judgments, scores.verdicts, scores.metrics)
    )
    return read_run(folder)


def pair(number: int, label: str | None, prompt: str = "") -> Case:
    return Case(
        f"c{number}",
        prompt or f"question {number}",
        (Response("one"), Response("two")),
        label=label,  # type: ignore[arg-type]
    )


def passes(
    number: int, value: float, judge: str = "m", sample: int = 0, **criteria: float
) -> list[Judgment]:
    """Return both orders of a pair, which agree."""
    return [
        Judgment(f"c{number}", (0, 1), shown, sample, judge, "ok", value, criteria=criteria)
        for shown in ((0, 1), (1, 0))
    ]


@pytest.fixture
def ties(tmp_path):
    """Write a run whose labels are ties where its margin is at most 0.4, or with `noise`, at random."""

    def make(
        name: str = "run", n: int = 120, *, noise: bool = False, seed: int = 0, **sections: Any
    ) -> Path:
        generator = np.random.default_rng(seed)
        margins = generator.uniform(-1, 1, n).round(3)
        labels = ["TIE" if abs(m) <= 0.4 else "A" if m > 0 else "B" for m in margins]
        if noise:
            labels = generator.choice(["A", "B", "TIE"], n).tolist()
        cases = [pair(k, label) for k, label in enumerate(labels)]
        judgments = [one for k, margin in enumerate(margins.tolist()) for one in passes(k, margin)]
        write(tmp_path / name, cases, judgments, **sections)
        return tmp_path / name

    return make


@pytest.fixture
def provider(module_provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    module_provider.requests.clear()
    return module_provider


@pytest.fixture
def run(finished, provider, here, capfd):
    """Run a judge on loopback in the test's folder, with labels held out; a run of the same rule is made once."""

    def make(
        rule: Callable[[dict[str, Any]], Reply], rows: Sequence[dict[str, Any]], *words: str
    ) -> None:
        def judge() -> None:
            Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            server = (
                "judge=openai_compatible",
                f"judge.api_base={provider.api_base}",
                "judge.transport=direct",
            )
            price = ("judge.price={input: 1, output: 0}", "judge.max_tokens=1", "criteria=overall")
            data = ("dataset=file", "dataset.path=cases.jsonl", "dataset.holdout=0.3", *BRIEF)
            call_main(capfd, "run", *server, *price, *data, "--output", "run", *words)

        provider.rule = rule
        finished(json.dumps([rule.__qualname__, rows, words]), judge)
        provider.requests.clear()

    return make


def sides() -> dict[str, int]:
    """Return the number of cases on each side of the run's split."""
    split = read_split(Path("run"))
    assert split is not None
    return {name: len(split.ids(name)) for name in ("train", "dev", "test")}


def recorded() -> list[dict[str, Any]]:
    """Return what is recorded about the alignments of the run."""
    alignments: list[dict[str, Any]] = json.loads(Path("run/alignments.json").read_text())[
        "alignments"
    ]
    return alignments


def prompts_of(*names: str) -> set[str]:
    """Return the first lines of the prompts of some sides."""
    split = read_split(Path("run"))
    assert split is not None
    return {f"question {id_[1:]}" for name in names for id_ in split.ids(name)}  # type: ignore[arg-type]


def lines_sent(provider: Provider, message: int, model: str | None = None) -> set[str]:
    """Return the lines of a message of all requests."""
    sent = [
        body["messages"][message]["content"]
        for body in provider.requests
        if model in (None, body["model"])
    ]
    return {line for text in sent for line in text.splitlines()}
