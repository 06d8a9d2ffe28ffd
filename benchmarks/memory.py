"""Memory of a whole run by its number of cases: pairs in both orders, answers from a
store, intervals by default.

    uv run python benchmarks/memory.py [--cases 20000 200000] [--profile]

For each size a process of its own writes the data and fills the store, and another runs
`evalkit.workflows.run.run` with `store.mode=read_only` and tracking off, everything
else at its default. What counts is how far its highest resident memory lies above that
of the same process after a run of 20 cases, which loads all there is to load.
`--profile` prints the largest holders at the end of each stage instead (tracemalloc:
many times slower, use few cases).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from evalkit.config import RunConfig
from evalkit.core.planners import Planners
from evalkit.core.types import Completion, Usage
from evalkit.engine.requests import PlannedCalls
from evalkit.judges import spec_of
from evalkit.store.sqlite import SqliteStore
from evalkit.workflows.materials import load_materials
from evalkit.workflows.run import judge_and_score

MIB = 2**20
LIMIT = 400
FEW = 20
MODELS = ("alpha", "beta", "gamma", "delta")
CRITERIA = ("accuracy", "clarity", "completeness")
WORDS = (
    "the",
    "answer",
    "names",
    "what",
    "was",
    "asked",
    "for",
    "and",
    "leaves",
    "out",
    "all",
    "that",
    "nobody",
    "needs",
)


def config(folder: Path, cases: int) -> RunConfig:
    return RunConfig.model_validate(
        {
            "judge": {"model": "openai/loopback"},
            "criteria": [{"name": name} for name in CRITERIA],
            "dataset": {"path": str(folder / f"{cases}.jsonl")},
            "store": {
                "url": f"sqlite:///{folder / f'{cases}.db'}",
                "mode": "read_only",
            },
            "tracking": {"enabled": False},
        }
    )


def rows(cases: int) -> Iterator[str]:
    """Yield labelled pairs of texts of 300 to 900 characters by four models, each different."""
    draw = random.Random(0)

    def text(words: int) -> str:
        return " ".join(draw.choices(WORDS, k=words))

    for number in range(cases):
        one, two = draw.sample(MODELS, 2)
        yield json.dumps(
            {
                "id": f"case-{number}",
                "prompt": text(40),
                "response_a": text(draw.randint(60, 180)),
                "response_b": text(draw.randint(60, 180)),
                "model_a": one,
                "model_b": two,
                "label": draw.choice("AB"),
                "topic": draw.choice(WORDS),
            }
        )


def answer(draw: random.Random, shown_as: str) -> Completion:
    """Return what a judge says that is right two times of three."""
    winner = shown_as if draw.random() < 2 / 3 else draw.choice(("A", "B", "TIE"))
    said = "It is the more exact of the two, and says nothing that is not so."
    sides = {"strengths": [said], "weaknesses": [said]}
    compared = [
        {
            "criterion": name,
            "aAssessment": said,
            "bAssessment": said,
            "reasoning": said,
            "winner": winner,
        }
        for name in CRITERIA
    ]
    result = {
        "reasoning": said,
        "differentiators": [said],
        "winner": winner,
        "confidence": draw.choice((0.6, 0.8, 0.9)),
    }
    text = json.dumps(
        {
            "analysis": {"responseA": sides, "responseB": sides},
            "comparison": compared,
            "result": result,
        }
    )
    return Completion(
        text, "loopback", "stop", Usage(600, 300), 0.001, 1.0, rung="json_schema"
    )


def fill(folder: Path, cases: int) -> None:
    with (folder / f"{cases}.jsonl").open("w") as file:
        file.writelines(f"{row}\n" for row in rows(cases))
    settings = config(folder, cases)
    materials = load_materials(settings)
    draw = random.Random(1)
    store = SqliteStore(folder / f"{cases}.db")
    specs = spec_of(settings.judge)
    planners = Planners(materials.evaluator, [spec.name for spec in specs])
    asks = PlannedCalls(materials.dataset.cases, planners, specs, None)
    while batch := asks.batch():
        shown = [
            (
                "A" if ask.group.case.label == "A" else "B",
                ask.request.shown == ask.request.unit,
            )
            for ask in batch
        ]
        store.put_many(
            [
                (
                    ask.key,
                    "openai/loopback",
                    answer(draw, label if straight else "AB".replace(label, "")),
                )
                for ask, (label, straight) in zip(batch, shown, strict=True)
            ]
        )
    store.close()


def peak() -> float:
    """Return the highest resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path, cases: int, *, profile: bool) -> dict[str, float]:
    judge_and_score(config(folder, FEW), folder / "warm")
    before = peak()
    began = time.process_time()
    if profile:
        import tracemalloc

        tracemalloc.start(12)
    result = judge_and_score(config(folder, cases), folder / "run")
    found = {
        "imports": before,
        "peak": peak(),
        "seconds": time.process_time() - began,
        "metrics": len(result.metrics),
    }
    assert (len(result.cases), len(result.judgments), len(result.verdicts)) == (
        cases,
        2 * cases,
        cases,
    )
    assert not result.calls.sent
    if profile:
        now, highest = tracemalloc.get_traced_memory()
        found |= {"traced": now / MIB, "traced_peak": highest / MIB}
        for line in tracemalloc.take_snapshot().statistics("lineno")[:25]:
            print(line, file=sys.stderr)
    return found


def in_a_process(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stderr.write(done.stderr)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--stage", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        stage = given.stage[0]
        folder = Path(given.stage[1])
        if stage == "fill":
            for cases in (FEW, *given.cases):
                fill(folder, cases)
        else:
            print(json.dumps(measure(folder, given.cases[0], profile=given.profile)))
        return 0
    highest = 0.0
    for cases in given.cases:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            in_a_process("--stage", "fill", folder, "--cases", str(cases))
            more = ["--profile"] if given.profile else []
            found = json.loads(
                in_a_process("--stage", "run", folder, "--cases", str(cases), *more)
            )
        above = found["peak"] - found["imports"]
        highest = max(highest, above)
        rest = "".join(
            f", {name} {value:.0f}"
            for name, value in found.items()
            if name not in ("peak", "imports")
        )
        print(
            f"{cases:>9,} cases: {above:6.0f} MiB above the {found['imports']:.0f} MiB of"
            f" imports{rest}",
            flush=True,
        )
    print(f"{'passed' if highest <= LIMIT else 'FAILED'}: at most {LIMIT} MiB")
    return int(highest > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
