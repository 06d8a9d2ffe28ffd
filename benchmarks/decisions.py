"""Decisions: how often they are right, for simulated judges of known quality.

    uv run python benchmarks/decisions.py [RUNS] [SIZES...]

It prints the tables of benchmarks/decisions.md. Each judge is useless, useful, leaning or
unknowable by construction:
useless below the floor, leaning by 10 points or more. One process; 200 runs of a size take some
minutes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.checklists import read_items
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.scoring.decision import Decision, decide
from evalkit.scoring.pipeline import score_run

Truth = Literal["useful", "useless", "leaning", "unknowable"]
Run = tuple[RunConfig, list[Case], list[Judgment]]
RESAMPLES = 400
SIZES = (30, 100, 300)
LARGE = 300
"""From this size on a useful judge must be trusted."""


def settings(**sections: object) -> RunConfig:
    """Return the config of a simulated run."""
    base = {
        "judge": {"model": "m"},
        "criteria": [{"name": "quality"}],
        "scoring": {"bootstrap": RESAMPLES},
    }
    return RunConfig.model_validate({**base, **sections})


SINGLE = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
BOTH = settings()
ONE = settings(swap={"policy": "none"})
SCORES = settings(**SINGLE)
YES_NO = settings(**SINGLE, rubric={"classes": {"yes": "good", "no": "bad"}})
THREE = settings(
    **SINGLE, rubric={"classes": {"safe": "safe", "rude": "rude", "fatal": "fatal"}}
)
ITEMS = settings(
    mode={"name": "checklist"},
    swap={"policy": "none"},
    rubric={"min": 0, "max": 1, "step": 0.01},
)


@dataclass(frozen=True)
class Judge:
    """A simulated judge: `make` returns a run of n labeled units."""

    name: str
    truth: Truth
    make: Callable[[np.random.Generator, int], Run]
    limit: str = ""
    """The kind of limit that must be named at `LARGE`."""


def pairs(
    verdict: Callable[[np.random.Generator, float, bool, int], float | None],
    config: RunConfig = BOTH,
    share: float = 0.5,
    follows_length: float = 0.5,
) -> Callable[[np.random.Generator, int], Run]:
    """Return runs of pairs: `verdict` gets the label (1 for A, -1 for B), whether A is
    longer, and the order shown.
    """

    def make(rng: np.random.Generator, n: int) -> Run:
        cases = []
        judgments = []
        for number in range(n):
            longer = bool(rng.random() < 0.5)
            label = 1.0 if rng.random() < share else -1.0
            if follows_length != 0.5:
                label = (1.0 if longer else -1.0) * (
                    1 if rng.random() < follows_length else -1
                )
            texts = ("long " * 9, "short") if longer else ("short", "long " * 9)
            responses = (Response(texts[0], "system-1"), Response(texts[1], "system-2"))
            cases.append(
                Case(f"c{number}", "?", responses, label="A" if label > 0 else "B")
            )
            state = np.random.default_rng(rng.integers(2**32))
            seed = int(state.integers(2**32))
            for order, shown in enumerate(
                ((0, 1), (1, 0)) if config.swap.policy == "both" else ((0, 1),)
            ):
                value = verdict(np.random.default_rng(seed), label, longer, order)
                status = "unparseable" if value is None else "ok"
                judgments.append(
                    Judgment(f"c{number}", (0, 1), shown, 0, "m", status, value=value)
                )
        return config, cases, judgments

    return make


def right(accuracy: float) -> Callable[[np.random.Generator, float, bool, int], float]:
    """Return a judge that is right with a probability, the same in both orders."""
    return lambda rng, label, longer, order: (
        label if rng.random() < accuracy else -label
    )


def _flipping(rate: float) -> Callable[[np.random.Generator, float, bool, int], float]:
    """Return a judge that gives a coin's verdict in each order with a probability."""

    def verdict(
        rng: np.random.Generator, label: float, longer: bool, order: int
    ) -> float:
        coins = rng.random(4)
        return label if coins[order] >= rate else float(np.sign(coins[2 + order] - 0.5))

    return verdict


def _missing_where_wrong(
    rng: np.random.Generator, label: float, longer: bool, order: int
) -> float | None:
    return label if rng.random() < 0.5 else None


def _missing_at_random(
    rng: np.random.Generator, label: float, longer: bool, order: int
) -> float | None:
    value = label if rng.random() < 0.95 else -label
    return value if rng.random() < 0.95 else None


PAIRS = (
    Judge("pairs: perfect", "useful", pairs(right(1.0))),
    Judge("pairs: right in 90%", "useful", pairs(right(0.9))),
    Judge("pairs: right in 75%", "useful", pairs(right(0.75))),
    Judge("pairs: right in 95%, one order", "useful", pairs(right(0.95), ONE)),
    Judge("pairs: right in 90%, labels 80% A", "useful", pairs(right(0.9), share=0.8)),
    Judge("pairs: a fifth of the orders by coin", "useful", pairs(_flipping(0.2))),
    Judge("pairs: 5% missing at random", "useful", pairs(_missing_at_random)),
    Judge("pairs: right in 55%", "useless", pairs(right(0.55))),
    Judge("pairs: coin", "useless", pairs(right(0.5))),
    Judge("pairs: coin in each order", "useless", pairs(_flipping(1.0))),
    Judge("pairs: reversed", "useless", pairs(right(0.05))),
    Judge("pairs: always A", "useless", pairs(lambda *_: 1.0), "lean_system"),
    Judge("pairs: always a tie", "useless", pairs(lambda *_: 0.0)),
    Judge(
        "pairs: 97% A, labels 90% A",
        "useless",
        pairs(lambda r, *_: 1.0 if r.random() < 0.97 else -1.0, ONE, 0.9),
    ),
    Judge(
        "pairs: 93% A, labels 30% A",
        "useless",
        pairs(lambda r, *_: 1.0 if r.random() < 0.93 else -1.0, BOTH, 0.3),
        "lean_system",
    ),
    Judge(
        "pairs: first shown",
        "useless",
        pairs(lambda r, label, longer, order: 1.0 - 2 * order),
        "shown_first",
    ),
    Judge(
        "pairs: first shown in 90%",
        "useless",
        pairs(
            lambda r, label, longer, order: (
                (1.0 - 2 * order) * (1 if r.random(2)[order] < 0.9 else -1)
            )
        ),
        "shown_first",
    ),
    Judge(
        "pairs: always the longer",
        "useless",
        pairs(lambda r, label, longer, order: 1.0 if longer else -1.0),
        "always_longer",
    ),
    Judge(
        "pairs: favors a system by 25 points",
        "leaning",
        pairs(lambda r, label, *_: 1.0 if label > 0 or r.random() < 0.5 else -1.0),
        "lean_system",
    ),
    Judge(
        "pairs: always the longer, labels in 80%",
        "leaning",
        pairs(
            lambda r, label, longer, order: 1.0 if longer else -1.0, follows_length=0.8
        ),
        "always_longer",
    ),
    Judge("pairs: missing where wrong", "unknowable", pairs(_missing_where_wrong)),
    Judge("pairs: all labels A, one order", "unknowable", pairs(right(0.9), ONE, 1.0)),
)


def scores(
    score: Callable[[np.random.Generator, float], Sequence[float | None]],
    config: RunConfig = SCORES,
) -> Callable[[np.random.Generator, int], Run]:
    """Return runs of scores from 1 to 5: `score` gets the grade and returns a score for
    each sample.
    """

    def make(rng: np.random.Generator, n: int) -> Run:
        cases = []
        judgments = []
        for number in range(n):
            grade = float(rng.integers(1, 6))
            cases.append(Case(f"c{number}", "?", (Response("text", grade=grade),)))
            for sample, value in enumerate(score(rng, grade)):
                criteria = (
                    {}
                    if value is None
                    else {"quality": float(np.clip(round(value), 1, 5))}
                )
                status = "unparseable" if value is None else "ok"
                judgments.append(
                    Judgment(
                        f"c{number}", (0,), (0,), sample, "m", status, criteria=criteria
                    )
                )
        return config, cases, judgments

    return make


SAMPLED = settings(**{**SINGLE, "mode": {"name": "pointwise", "samples": 3}})
SCORED = (
    Judge("scores: perfect", "useful", scores(lambda r, g: [g])),
    Judge(
        "scores: noise of 0.7", "useful", scores(lambda r, g: [g + r.normal(0, 0.7)])
    ),
    Judge(
        "scores: noise of 1.5", "useful", scores(lambda r, g: [g + r.normal(0, 1.5)])
    ),
    Judge(
        "scores: three noisy samples",
        "useful",
        scores(lambda r, g: g + r.normal(0, 1, 3), SAMPLED),
    ),
    Judge("scores: random", "useless", scores(lambda r, g: [r.integers(1, 6)])),
    Judge(
        "scores: correlation of 0.05",
        "useless",
        scores(lambda r, g: [g if r.random() < 0.05 else r.integers(1, 6)]),
    ),
    Judge("scores: reversed", "useless", scores(lambda r, g: [6 - g])),
    Judge("scores: constant", "useless", scores(lambda r, g: [4])),
    Judge(
        "scores: three random samples",
        "useless",
        scores(lambda r, g: r.integers(1, 6, 3), SAMPLED),
    ),
    Judge("scores: 1 too high", "leaning", scores(lambda r, g: [g + 1]), "lean_score"),
)


def classes(
    answer: Callable[[np.random.Generator, str], Sequence[str | None]],
    shares: Mapping[str, float],
    config: RunConfig = YES_NO,
) -> Callable[[np.random.Generator, int], Run]:
    """Return runs of classes: `answer` gets the label and returns a class for each sample."""

    def make(rng: np.random.Generator, n: int) -> Run:
        cases = []
        judgments = []
        for number in range(n):
            label = str(rng.choice([*shares], p=[*shares.values()]))
            cases.append(Case(f"c{number}", "?", (Response("text", class_name=label),)))
            for sample, name in enumerate(answer(rng, label)):
                status = "unparseable" if name is None else "ok"
                judgments.append(
                    Judgment(
                        f"c{number}", (0,), (0,), sample, "m", status, class_name=name
                    )
                )
        return config, cases, judgments

    return make


EVEN = {"yes": 0.5, "no": 0.5}
RARE = {"safe": 0.6, "rude": 0.38, "fatal": 0.02}
OTHER = {"yes": "no", "no": "yes"}
ASKED_FOUR = settings(
    **{**SINGLE, "mode": {"name": "pointwise", "samples": 4}},
    rubric={"classes": {"yes": "", "no": ""}},
)
CLASSES = (
    Judge("classes: perfect", "useful", classes(lambda r, c: [c], EVEN)),
    Judge(
        "classes: right in 90%",
        "useful",
        classes(lambda r, c: [c if r.random() < 0.9 else OTHER[c]], EVEN),
    ),
    Judge(
        "classes: a rare class missed",
        "useful",
        classes(lambda r, c: ["rude" if c == "fatal" else c], RARE, THREE),
    ),
    Judge(
        "classes: coin",
        "useless",
        classes(lambda r, c: [str(r.choice(["yes", "no"]))], EVEN),
    ),
    Judge("classes: reversed", "useless", classes(lambda r, c: [OTHER[c]], EVEN)),
    Judge(
        "classes: always yes, labels 90% yes",
        "useless",
        classes(lambda r, c: ["yes"], {"yes": 0.9, "no": 0.1}),
    ),
    Judge(
        "classes: four samples by coin",
        "useless",
        classes(lambda r, c: r.choice(["yes", "no"], 4), EVEN, ASKED_FOUR),
    ),
    Judge(
        "classes: calls half of no yes",
        "leaning",
        classes(lambda r, c: ["yes" if c == "yes" or r.random() < 0.5 else "no"], EVEN),
        "lean_class",
    ),
    Judge(
        "classes: all labels yes",
        "unknowable",
        classes(lambda r, c: ["yes"], {"yes": 1.0, "no": 0.0}),
    ),
)


def items(
    answer: Callable[[np.random.Generator, bool], bool], share: float = 0.6
) -> Callable[[np.random.Generator, int], Run]:
    """Return runs of checklists with three items a case: `answer` gets whether the label is met."""

    def make(rng: np.random.Generator, n: int) -> Run:
        cases = []
        judgments = []
        for number in range(-(-n // 3)):
            truth = [bool(rng.random() < share) for _ in range(3)]
            listed = [
                {"id": str(k), "criterion": "x", "label": met}
                for k, met in enumerate(truth)
            ]
            cases.append(
                Case(
                    f"c{number}", "?", (Response("text"),), checklist=read_items(listed)
                )
            )
            answers = {
                str(k): "met" if answer(rng, met) else "not_met"
                for k, met in enumerate(truth)
            }
            judgments.append(
                Judgment(f"c{number}", (0,), (0,), 0, "m", "ok", items=answers)
            )  # type: ignore[arg-type]
        return ITEMS, cases, judgments

    return make


CHECKLISTS = (
    Judge("items: perfect", "useful", items(lambda r, met: met)),
    Judge(
        "items: right in 90%", "useful", items(lambda r, met: met == (r.random() < 0.9))
    ),
    Judge("items: coin", "useless", items(lambda r, met: bool(r.random() < 0.5))),
    Judge("items: reversed", "useless", items(lambda r, met: not met)),
    Judge("items: always met", "useless", items(lambda r, met: True), "lean_met"),
    Judge(
        "items: finds 40% of what is not met",
        "leaning",
        items(lambda r, met: met or r.random() < 0.6),
        "missed",
    ),
    Judge("items: all labels met", "unknowable", items(lambda r, met: True, 1.0)),
)
JUDGES = (*PAIRS, *SCORED, *CLASSES, *CHECKLISTS)


def metrics_of_run(judge: Judge, n: int, seed: int) -> Mapping[str, Metric]:
    """Return the metrics of one simulated run."""
    config, cases, judgments = judge.make(np.random.default_rng(seed), n)
    return score_run(config, cases, judgments).metrics


def errors(judge: Judge, decision: Decision, n: int) -> Iterator[str]:
    """Yield what is wrong with a decision about a judge whose quality is known."""
    if judge.truth in ("useless", "unknowable") and decision.trusted:
        yield "false trust"
    if judge.truth == "leaning" and decision.use in ("rates", "single"):
        yield "false trust"
    if judge.truth in ("useful", "leaning") and decision.use == "none":
        yield "false none"
    if judge.truth == "useful" and n >= LARGE and decision.use == "unknown":
        yield "undecided"
    if (
        judge.limit
        and n >= LARGE
        and judge.limit not in {limit.kind for limit in decision.limits}
    ):
        yield "bias not named"


def labels_that_decide(
    accuracy: float, n: int, runs: int, share: float = 0.5
) -> tuple[int | None, list[float]]:
    """Return the labels needed of a table with exactly this accuracy, and how often so
    many, and twice, decide.

    The table has n labeled pairs. If the truth is its accuracy, 80% of the runs with the labels at
    hand and those needed
    should decide.
    """
    labels = [1.0 if k < round(share * n) else -1.0 for k in range(n)]
    wrong = {*range(0, n, max(1, round(1 / (1 - accuracy))))} if accuracy < 1 else set()
    exact = iter([-label if k in wrong else label for k, label in enumerate(labels)])
    given = iter(labels)
    cases = [
        Case(
            f"c{k}",
            "?",
            (Response("a"), Response("b")),
            label="A" if next(given) > 0 else "B",
        )
        for k in range(n)
    ]
    judgments = [
        Judgment(f"c{k}", (0, 1), (0, 1), 0, "m", "ok", value=next(exact))
        for k in range(n)
    ]
    metrics = score_run(ONE, cases, judgments).metrics
    needed = decide(metrics, 0.95).labels_needed
    truth = 1 - len(wrong) / n
    if needed is None or needed > 20_000:
        return needed, []
    judge = Judge("", "useful", pairs(right(truth), ONE, share))
    decided = []
    for times in (1, 2):
        uses = [
            decide(metrics_of_run(judge, n + times * needed, seed), 0.95).use
            for seed in range(runs)
        ]
        decided.append(1 - uses.count("unknown") / runs)
    return needed, decided


def main(runs: int, sizes: Sequence[int]) -> None:
    """Print the share of wrong decisions by judge and size, and how often the labels
    needed decide.
    """
    kinds = ("false trust", "false none", "undecided", "bias not named")
    print(f"| judge | truth | n | {' | '.join(kinds)} |\n| --- | --- {'| ---: ' * 5}|")
    for judge in JUDGES:
        for n in sizes:
            found: Counter[str] = Counter()
            for seed in range(runs):
                found.update(
                    errors(judge, decide(metrics_of_run(judge, n, seed), 0.95), n)
                )
            shares = [f"{100 * found[kind] / runs:.1f}%" for kind in kinds]
            print(
                f"| {judge.name} | {judge.truth} | {n} | {' | '.join(shares)} |",
                flush=True,
            )
    print(
        "\n| accuracy | labels at hand | needed | decide with these | with twice as many |\n"
        + "| ---: " * 5
        + "|"
    )
    for accuracy, n in LABELS:
        needed, decided = labels_that_decide(accuracy, n, runs)
        print(
            f"| {accuracy} | {n} | {needed} |"
            f" {' | '.join(f'{100 * one:.0f}%' for one in decided)} |",
            flush=True,
        )


LABELS = ((0.5, 20), (0.5, 60), (0.67, 20), (0.75, 20), (0.8, 12), (0.9, 10), (1.0, 4))


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 200,
        [int(size) for size in sys.argv[2:]] or SIZES,
    )
