"""Intervals: how often they hold the truth, for simulated judges of whom everything is known.

    uv run python benchmarks/coverage.py [SIMULATIONS] [PARTS...]

It prints the tables of benchmarks/coverage.md. The remarks there are written by hand: replace
tables, not the file.

Two judges are made up, one of pairs and one of scores, with a preference for what is shown first,
one for length, noise between samples, overconfidence and systems of different strength planted in
them. The truth of each metric is what a run of 100,000 cases comes to; an interval covers if it
holds it. Judges that choose classes give the right one with known probabilities, abstain and fail;
one class may be rare. Named parts (pairs, scores, clusters, tests, small, classes, audits,
checklists, slopes) are done alone. One process, a few minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.scoring.compare import compare_runs
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run

SIMULATIONS, CASES, TRUTH, RESAMPLES = 1000, 200, 100_000, 600
SYSTEMS = {"strong": 0.8, "middling": 0.2, "weak": -1.0}
Run = tuple[list[Case], list[Judgment]]

PAIRS = {
    "agreement": "accuracy accuracy_per_order accuracy_both_orders kappa kappa_weighted ac1",
    "position": "first_rate consistency",
    "length": "longer_rate",
    "win_rate": "a",
    "calibration": "brier ece",
    "samples": "flip_rate",
    "corrected": "win_rate/a tie_rate",
    "jnd": "noise labels",
    "ranking": "rating/strong rating/middling rating/weak win_rate/strong",
}
SCORES = {
    "score": "mean",
    "agreement": "accuracy pearson spearman kendall pearson_within spearman_within kendall_within",
    "samples": "spread",
    "corrected": "score_mean",
    "jnd": "noise",
    "ranking": "rating/strong",
}
BIASED = {
    "conflict/weak_rate": "one or two cases of a run have it: too few for any interval to be exact",
}


@dataclass(frozen=True)
class Judge:
    """One simulated judge: its settings, how to make a run of so many cases, and the
    metrics looked at.
    """

    name: str
    config: RunConfig
    make: Callable[[np.random.Generator, int], Run]
    metrics: dict[str, str]

    def names(self) -> list[str]:
        biased = list(BIASED) if self.name == "pairs" else []
        named = [
            f"{group}/{name}"
            for group, names in self.metrics.items()
            for name in names.split()
        ]
        return ["tie_rate", *named, *biased]


def _cases(
    generator: np.random.Generator, count: int
) -> tuple[list[Case], np.ndarray, np.ndarray]:
    """Return cases of three systems' responses, their true qualities and the
    standardised log-lengths.
    """
    quality = generator.normal(size=(count, 3)) * 0.8 + np.array(list(SYSTEMS.values()))
    length = generator.normal(size=(count, 3))
    characters = np.maximum(1, np.round(np.exp(4 + 0.4 * length))).astype(int)
    labelled = generator.random(count) < 0.5
    grade = np.clip(
        np.round(quality * 1.2 + 3 + 0.4 * generator.normal(size=quality.shape)), 1, 5
    )
    cases = [
        Case(
            str(k),
            "question",
            tuple(
                Response("x" * int(n), name, float(g) if labelled[k] else None)
                for n, name, g in zip(characters[k], SYSTEMS, grade[k], strict=True)
            ),
        )
        for k in range(count)
    ]
    return cases, quality, length


def pairs(generator: np.random.Generator, count: int) -> Run:
    cases, quality, length = _cases(generator, count)
    judgments = []
    for i, j in combinations(range(3), 2):
        lead = (
            quality[:, i]
            - quality[:, j]
            + 0.3 * (length[:, i] - length[:, j])
            + 0.5 * generator.normal(size=count)
        )
        for order, sign in enumerate((1, -1)):
            for sample in (0, 1):
                felt = lead + 0.35 * sign + 0.6 * generator.normal(size=count)
                value = np.where(np.abs(felt) < 0.15, 0.0, np.tanh(felt))
                confidence = 1 / (1 + np.exp(-2.2 * np.abs(felt)))
                shown = ((i, j), (j, i))[order]
                judgments += [
                    Judgment(str(k), (i, j), shown, sample, "judge", "ok", v, c)
                    for k, (v, c) in enumerate(
                        zip(value.tolist(), confidence.tolist(), strict=True)
                    )
                ]
    return cases, judgments


def scores(generator: np.random.Generator, count: int) -> Run:
    cases, quality, length = _cases(generator, count)
    judgments = []
    for i in range(3):
        for sample in (0, 1):
            felt = {
                name: (
                    quality[:, i] * 1.1
                    + 3.4
                    + lift
                    + 0.2 * length[:, i]
                    + 0.5 * generator.normal(size=count)
                )
                for name, lift in (("substance", -0.3), ("style", 0.3))
            }
            given = {
                name: np.clip(np.round(values * 2) / 2, 1, 5).tolist()
                for name, values in felt.items()
            }
            judgments += [
                Judgment(
                    str(k),
                    (i,),
                    (i,),
                    sample,
                    "judge",
                    "ok",
                    criteria={name: row[k] for name, row in given.items()},
                )
                for k in range(count)
            ]
    return cases, judgments


def judges(resamples: int = RESAMPLES) -> list[Judge]:
    shared = {"judge": {"model": "judge"}, "scoring": {"bootstrap": resamples}}
    pairwise = shared | {
        "mode": {"samples": 2},
        "swap": {"resolve": "mean"},
        "tie": {"threshold": 0.1},
    }
    pointwise = shared | {
        "mode": {"name": "pointwise", "samples": 2},
        "swap": {"policy": "none"},
    }
    one = [{"name": "quality"}]
    two = [{"name": "substance"}, {"name": "style"}]
    rubric = {"min": 1, "max": 5, "step": 0.5}
    return [
        Judge(
            "pairs",
            RunConfig.model_validate(pairwise | {"criteria": one}),
            pairs,
            PAIRS,
        ),
        Judge(
            "scores",
            RunConfig.model_validate(pointwise | {"criteria": two, "rubric": rubric}),
            scores,
            SCORES,
        ),
    ]


def truth(judge: Judge, cases: int = TRUTH) -> dict[str, float]:
    once = judge.config.model_copy(
        update={"scoring": judge.config.scoring.model_copy(update={"bootstrap": 0})}
    )
    metrics = score_run(once, *judge.make(np.random.default_rng(12345), cases)).metrics
    return {
        name: float(metrics[name].value or 0.0)
        for name in judge.names()
        if name in metrics
    }


def covers(metric: Metric, value: float) -> bool | None:
    """Say whether a metric's interval holds the truth, none where it has no interval."""
    return (
        None
        if metric.low is None or metric.high is None
        else metric.low <= value <= metric.high
    )


def simulate(
    judge: Judge, true: dict[str, float], simulations: int, cases: int = CASES
) -> dict[str, list[bool | None]]:
    """Return for each metric whether its interval covered the truth, simulation by simulation."""
    found: dict[str, list[bool | None]] = {name: [] for name in true}
    for seed in range(simulations):
        scoring = judge.config.scoring.model_copy(update={"seed": seed})
        run = judge.make(np.random.default_rng([7, seed]), cases)
        metrics = score_run(
            judge.config.model_copy(update={"scoring": scoring}), *run
        ).metrics
        for name, value in true.items():
            found[name].append(covers(metrics[name], value))
    return found


def table(true: dict[str, float], found: dict[str, list[bool | None]]) -> list[str]:
    lines = ["| metric | truth | covered | of |", "| --- | --- | --- | --- |"]
    for name, hits in found.items():
        there = [hit for hit in hits if hit is not None]
        rate = f"{100 * np.mean(there):.1f} %" if there else "–"
        lines.append(
            f"| {name}{' *' if name in BIASED else ''} | {true[name]:.4f} | {rate} | {len(there)} |"
        )
    return lines


CLUSTERS, SIZE = 40, 5
CLUSTERED = [
    "tie_rate",
    "win_rate/a",
    "agreement/accuracy",
    "agreement/kappa",
    "position/consistency",
]
CLUSTERED += [
    "position/first_rate",
    "corrected/win_rate/a",
    "calibration/ece",
    "ranking/rating/strong",
    "ranking/win_rate/strong",
    "jnd/labels",
]
TESTED = ("agreement/accuracy", "tie_rate", "position/consistency")
SMALL = {
    "pairs": ["calibration/ece"],
    "scores": [f"agreement/{r}_within" for r in ("pearson", "spearman", "kendall")],
}
PARTS = (
    "pairs",
    "scores",
    "small",
    "clusters",
    "tests",
    "classes",
    "audits",
    "checklists",
    "slopes",
)


@dataclass(frozen=True)
class Planted:
    """A judge that chooses classes: how frequent each class is, and how often it gives
    each class to each.

    `labeled` is the share of labeled cases, and `size` the number of cases with one prompt; half of
    these have the same class, and what the judge gets wrong about them is partly the same.
    """

    shares: tuple[float, ...]
    errors: tuple[tuple[float, ...], ...]
    cases: int
    labeled: float = 1.0
    size: int = 1


TWO = ((0.9, 0.1), (0.15, 0.85))
THREE = ((0.85, 0.1, 0.05), (0.1, 0.8, 0.1), (0.1, 0.15, 0.75))
CLASSES = {
    "two classes, 30 %": Planted((0.7, 0.3), TWO, 50),
    "two, one rare (5 %)": Planted((0.95, 0.05), TWO, 50),
    "the same, a better judge": Planted((0.95, 0.05), ((0.98, 0.02), (0.1, 0.9)), 50),
    "three, one rare (5 %)": Planted((0.6, 0.35, 0.05), THREE, 50),
    "two, one rare, half labeled": Planted((0.95, 0.05), TWO, 200, labeled=0.5),
    "two, prompts of 5": Planted((0.7, 0.3), TWO, 200, labeled=0.5, size=5),
}
LETTERS = ("common", "other", "third")


def classes(planted: Planted) -> Judge:
    """Return a judge whose last class is the rare one; it abstains in 5 % of the cases
    and fails in 5 %.
    """
    k = len(planted.shares)
    names = (*LETTERS[: k - 1], "rare")
    config = {
        "judge": {"model": "judge"},
        "mode": {"name": "pointwise"},
        "swap": {"policy": "none"},
        "criteria": [{"name": "quality"}],
        "rubric": {
            "classes": dict.fromkeys(names, "meaning"),
            "ordered": k > 2,
            "positive": "rare",
            "abstain": "unsure",
            "levels": {},
        },
        "scoring": {"bootstrap": RESAMPLES},
    }

    def make(generator: np.random.Generator, count: int) -> Run:
        true = generator.choice(k, size=count, p=planted.shares)
        felt = generator.random(count)
        if planted.size > 1:
            prompts = count // planted.size
            same = np.repeat(
                generator.choice(k, size=prompts, p=planted.shares), planted.size
            )
            true = np.where(generator.random(count) < 0.5, same, true)
            felt = np.where(
                generator.random(count) < 0.4,
                np.repeat(generator.random(prompts), planted.size),
                felt,
            )
        ends = np.array(planted.errors)[true].cumsum(axis=1)
        said = (felt[:, None] > ends).sum(axis=1).clip(0, k - 1)
        lost = generator.random(count)
        labeled = generator.random(count) < planted.labeled
        cases = []
        judgments = []
        for i in range(count):
            label = names[true[i]] if labeled[i] else None
            prompt = f"question {i // planted.size}"
            cases.append(Case(str(i), prompt, (Response("x", None, class_name=label),)))
            if lost[i] < 0.05:
                judgments.append(Judgment(str(i), (0,), (0,), 0, "judge", "failed"))
            else:
                name = "unsure" if lost[i] < 0.1 else names[said[i]]
                judgments.append(
                    Judgment(str(i), (0,), (0,), 0, "judge", "ok", class_name=name)
                )
        return cases, judgments

    ends = "balanced_accuracy macro_f1 mcc tpr tnr youden_j abstained"
    metrics = {
        "class/rare": "rate precision recall f1",
        "class": ends,
        "agreement": (
            "accuracy kappa scott_pi ac1 alpha"
            + (" kappa_weighted kappa_quadratic" if k > 2 else "")
        ),
        "corrected": "rate/rare prediction_powered/rare",
    }
    return Judge("classes", RunConfig.model_validate(config), make, metrics)


def class_coverage(
    simulations: int,
) -> dict[str, dict[str, tuple[float, list[bool | None]]]]:
    """Return by metric and kind of judge the truth, and whether each interval held it."""
    found: dict[str, dict[str, tuple[float, list[bool | None]]]] = {}
    for kind, planted in CLASSES.items():
        judge = classes(planted)
        true = {
            name: value for name, value in truth(judge).items() if name != "tie_rate"
        }
        for name, hits in simulate(judge, true, simulations, planted.cases).items():
            found.setdefault(name, {})[kind] = (true[name], hits)
    return found


def clustered(
    generator: np.random.Generator, clusters: int, judges: int = 1
) -> tuple[list[Case], list[list[Judgment]]]:
    """Return cases in clusters of `SIZE`, one prompt each, and the judgments of judges
    that are alike.

    How far one response is ahead belongs to the prompt in good part, and so does what each judge
    gets wrong about it.
    """
    count = clusters * SIZE

    def by_prompt(size: float) -> np.ndarray:
        return np.asarray(np.repeat(size * generator.normal(size=clusters), SIZE))

    lead = by_prompt(1.0) + 0.5 * generator.normal(size=count)
    label = np.where(lead + 0.3 * generator.normal(size=count) > 0, "A", "B")
    responses = (Response("x" * 30, "strong"), Response("y" * 20, "weak"))
    cases = [
        Case(
            str(k),
            f"question {k // SIZE}",
            responses,
            label=("A" if label[k] == "A" else "B") if k % 4 else None,
        )
        for k in range(count)
    ]
    several = []
    for _ in range(judges):
        seen = lead + by_prompt(0.9)
        judgments = []
        for sign, shown in ((1, (0, 1)), (-1, (1, 0))):
            felt = seen + 0.25 * sign + 0.4 * generator.normal(size=count)
            value = np.where(np.abs(felt) < 0.15, 0.0, np.tanh(felt)).tolist()
            confidence = (1 / (1 + np.exp(-1.6 * np.abs(felt)))).tolist()
            judgments += [
                Judgment(
                    str(k), (0, 1), shown, 0, "judge", "ok", value[k], confidence[k]
                )
                for k in range(count)
            ]
        several.append(judgments)
    return cases, several


def of_clusters(cluster: str, resamples: int = RESAMPLES) -> Judge:
    """Return a judge of clustered pairs whose intervals resample `cluster`."""
    config = {
        "judge": {"model": "judge"},
        "swap": {"resolve": "mean"},
        "tie": {"threshold": 0.1},
        "criteria": [{"name": "quality"}],
        "scoring": {"bootstrap": resamples, "cluster": cluster},
    }

    def make(generator: np.random.Generator, count: int) -> Run:
        cases, (judgments,) = clustered(generator, count // SIZE)
        return cases, judgments

    return Judge("clusters", RunConfig.model_validate(config), make, {})


def cluster_coverage(
    simulations: int, resamples: int = RESAMPLES
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Return the truth of metrics, and the share of intervals over clusters, and over
    cases, that hold it.
    """
    judge = of_clusters("prompt", 0)
    metrics = score_run(
        judge.config, *judge.make(np.random.default_rng(12345), TRUTH)
    ).metrics
    true = {name: float(metrics[name].value or 0.0) for name in CLUSTERED}
    found = [
        simulate(of_clusters(cluster, resamples), true, simulations, CLUSTERS * SIZE)
        for cluster in ("prompt", "id")
    ]
    return true, [{name: _share(hits) for name, hits in one.items()} for one in found]


def _share(hits: list[bool | None]) -> float:
    return float(np.mean([hit for hit in hits if hit is not None]))


def false_findings(
    simulations: int, clusters: int, resamples: int = 400
) -> dict[str, list[float]]:
    """Return how often tests at 0.05 tell apart two judges that are alike: over
    clusters, and over cases.
    """
    found: dict[str, list[float]] = {name: [] for name in TESTED}
    for cluster in ("prompt", "id"):
        config = of_clusters(cluster, resamples).config
        hits = dict.fromkeys(TESTED, 0)
        for seed in range(simulations):
            cases, judged = clustered(
                np.random.default_rng([3, seed]), clusters, judges=2
            )
            entrants = [
                RunEntry(str(k), config, cases, one) for k, one in enumerate(judged)
            ]
            compared = compare_runs(
                entrants, config.scoring.model_copy(update={"seed": seed}), TESTED
            )
            for one in compared.differences:
                hits[one.metric.name] = hits.get(one.metric.name, 0) + (
                    one.p is not None and one.p <= 0.05
                )
        for name in TESTED:
            found[name].append(hits[name] / simulations)
    return found


def small_coverage(
    simulations: int, sizes: tuple[int, ...] = (20, 50, 100, 200)
) -> dict[str, tuple[float, list[float]]]:
    """Return of metrics that few cases are hard on the truth, and the share of
    intervals that hold it by size.
    """
    found = {}
    for judge in judges(RESAMPLES):
        every = truth(judge)
        true = {name: every[name] for name in SMALL[judge.name]}
        by_size = [simulate(judge, true, simulations, size) for size in sizes]
        found |= {
            name: (true[name], [_share(one[name]) for one in by_size]) for name in true
        }
    return found


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    parts = [word for word in sys.argv[1:] if not word.isdigit()] or list(PARTS)
    simulations = numbers[0] if numbers else SIMULATIONS
    words = " ".join(["uv run python benchmarks/coverage.py", *sys.argv[1:]])
    print("# How often 95 % intervals hold the truth\n")
    print(
        f"Written on {time.strftime('%Y-%m-%d')} by `{words}`, which says what is planted.\n"
    )
    outside: list[str] = []
    for judge in judges():
        if judge.name in parts:
            outside += _of_judge(judge, simulations)
    if "small" in parts:
        _of_few(simulations)
    if "clusters" in parts:
        _of_clusters(simulations)
    if "tests" in parts:
        _of_tests(simulations)
    if "classes" in parts:
        _of_classes(simulations)
    if "audits" in parts:
        import audits  # beside this file, which tests load by its path

        audits.main(simulations)
    if "checklists" in parts:
        import checklists

        checklists.main(simulations)
    if "slopes" in parts:
        import slopes

        slopes.main(simulations)
    print("\n".join(f"\\* {name}: {why}." for name, why in BIASED.items()))
    print("\nOutside 93-97 %, with 200 cases: " + (", ".join(outside) or "none") + ".")
    return 0


def _of_judge(judge: Judge, simulations: int) -> list[str]:
    started = time.process_time()
    true = truth(judge)
    found = simulate(judge, true, simulations)
    print(f"## {judge.name.capitalize()}\n")
    print(
        f"{simulations:,} simulated runs of {CASES} cases × 3 systems, {RESAMPLES} resamples of the"
        " cases; half of the cases have labels.\n"
    )
    print("\n".join(table(true, found)))
    print(f"\n{time.process_time() - started:.0f} s of one processor.\n")
    rates = {name: _share(hits) for name, hits in found.items() if name not in BIASED}
    return [
        f"{judge.name}: {name} {100 * rate:.1f} %"
        for name, rate in rates.items()
        if not 0.93 <= rate <= 0.97
    ]


def _of_few(simulations: int) -> None:
    print(
        f"## Few cases\n\n{simulations:,} runs of each size; half of the cases have labels.\n"
    )
    print(
        "| metric | truth | 20 cases | 50 | 100 | 200 |\n| --- | --- | --- | --- | --- | --- |"
    )
    for name, (value, rates) in small_coverage(simulations).items():
        print(
            f"| {name} | {value:.4f} | "
            + " | ".join(f"{100 * rate:.1f} %" for rate in rates)
            + " |"
        )
    print()


def _of_clusters(simulations: int) -> None:
    print(
        f"## Clusters\n\n{simulations:,} runs of {CLUSTERS} prompts with {SIZE} cases each,"
        f" {RESAMPLES} resamples.\n"
    )
    print(
        "| metric | truth | covered, clusters resampled | covered, cases resampled |\n| --- | --- |"
        " --- | --- |"
    )
    true, (by_cluster, by_case) = cluster_coverage(simulations)
    for name, value in true.items():
        print(
            f"| {name} | {value:.4f} | {100 * by_cluster[name]:.1f} % |"
            f" {100 * by_case[name]:.1f} % |"
        )
    print()


def _of_classes(simulations: int) -> None:
    print("## Classes\n")
    print(
        f"{simulations:,} runs of each kind of judge, of 50 cases, and of 200 in the last two. It"
        " abstains in 5 % of the cases and fails in 5 %. In brackets the share of runs that have"
        " an interval, where not all have one.\n"
    )
    print(
        "| metric | "
        + " | ".join(CLASSES)
        + " |\n"
        + "| --- " * (len(CLASSES) + 1)
        + "|"
    )
    low = []
    high = []
    for name, by_kind in class_coverage(simulations).items():
        cells = []
        for kind in CLASSES:
            _, hits = by_kind.get(kind, (0.0, []))
            there = [hit for hit in hits if hit is not None]
            if not there:
                cells.append("–")
                continue
            rate = float(np.mean(there))
            seen = len(there) / len(hits)
            cells.append(
                f"{100 * rate:.1f} %"
                + (f" ({100 * seen:.0f} %)" if seen < 0.995 else "")
            )
            low += [f"{name} ({kind})"] if rate < 0.93 else []
            high += [f"{name} ({kind})"] if rate > 0.97 else []
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(
        "\nBelow 93 %: "
        + (", ".join(low) or "none")
        + ".\n\nAbove 97 %: "
        + (", ".join(high) or "none")
        + ".\n"
    )


def _of_tests(simulations: int) -> None:
    print("## Tests of two judges that are alike\n")
    print(
        f"How often a test at 0.05 tells them apart, {simulations:,} times, with {SIZE} cases to a"
        " prompt.\n"
    )
    print(
        "| metric | prompts | over clusters | over cases |\n| --- | --- | --- | --- |"
    )
    for clusters in (12, CLUSTERS):
        for name, (by_cluster, by_case) in false_findings(
            simulations, clusters
        ).items():
            print(
                f"| {name} | {clusters} | {100 * by_cluster:.1f} % | {100 * by_case:.1f} % |"
            )
    print()


if __name__ == "__main__":
    raise SystemExit(main())
