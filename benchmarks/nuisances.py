"""Nuisances: how often a decision is right where data is not ideal, and how often it is
silent where it is.

    uv run python benchmarks/nuisances.py [--runs 200] [--sizes 40 150 600 5000] [--only WORD ...]

It prints the tables of benchmarks/decisions.md: each nuisance with a good, a useless and a
leaning judge of pairs, scores, classes and checklist items, and the power of clean judges. All
cases have the same columns, most of which mean nothing, so that slices are searched. Sizes of 1,000
or more have a quarter of the runs. `decisions.py` has the judges without nuisances.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from evalkit.config import RunConfig
from evalkit.core.checklists import read_items
from evalkit.core.types import Case, Judgment, Response
from evalkit.report.findings import conclusion
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import Decision
from evalkit.scoring.pipeline import score_run

Kind: TypeAlias = Literal["pairs", "scores", "classes", "items"]
Quality: TypeAlias = Literal["good", "useless", "leaning"]
Numbers: TypeAlias = NDArray[np.float64]

KINDS: Final[tuple[Kind, ...]] = ("pairs", "scores", "classes", "items")
QUALITIES: Final[tuple[Quality, ...]] = ("good", "useless", "leaning")
RESAMPLES: Final = 400
SIZES: Final = (40, 150, 600, 5000)
RUNS: Final = 200
LARGE: Final = 1000
"""Sizes from here on have a quarter of the runs."""
SLICE: Final = 100
"""A slice of so many units must not be trusted beyond what it allows."""
PER_CASE: Final = 3
"""The items of a checklist."""
SHARE: Final = 0.05
"""The share of false trust, and of power lost to slices, that is accepted."""
STRENGTH: Final[Mapping[str, int]] = {
    "none": 0,
    "unknown": 0,
    "order": 1,
    "rates_corrected": 2,
    "rates": 3,
    "single": 4,
}
"""Uses, weakest first; a decision is false trust if its use is stronger than the truth allows."""
ALLOWED: Final[Mapping[Quality, str]] = {
    "good": "single",
    "useless": "none",
    "leaning": "rates_corrected",
}


def settings(kind: Kind, **sections: Any) -> RunConfig:
    """Return the config of a simulated run of a kind."""
    single = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
    by_kind: dict[Kind, dict[str, Any]] = {
        "pairs": {},
        "scores": single,
        "classes": {**single, "rubric": {"classes": {"pass": "good", "fail": "bad"}}},
        "items": {
            "mode": {"name": "checklist"},
            "swap": {"policy": "none"},
            "rubric": {"min": 0, "max": 1, "step": 0.01},
        },
    }
    base = {
        "judge": {"model": "m"},
        "criteria": [{"name": "quality"}],
        "scoring": {"bootstrap": RESAMPLES},
    }
    return RunConfig.model_validate({**base, **by_kind[kind], **sections})


@dataclass
class Draft:
    """Units before they are cases.

    Attributes:
        kind: what is judged.
        rng: the source of chance.
        truth: (units,) the true answer: 1 or 0, or a grade from 1 to 5.
        verdict: (units,) the judge's answer; NaN if it is missing.
        second: (units,) its answer in the other order, or in another sample; `None` if it is asked
            once.
        label: (units,) the answer that annotators give.
        prompt: (units,) the prompt of each unit.
        words: (units,) the length of the text.
        columns: the metadata by column.
        sections: further sections of the config.
    """

    kind: Kind
    rng: np.random.Generator
    truth: Numbers
    verdict: Numbers
    label: Numbers
    prompt: NDArray[np.int64]
    words: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    second: Numbers | None = None
    sections: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """The number of units."""
        return len(self.truth)

    def by_case(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values that are the same for all items of a checklist."""
        if self.kind != "items":
            return values
        return np.asarray(np.repeat(values[::PER_CASE], PER_CASE)[: self.n])


Change: TypeAlias = Callable[[Draft], None]


@dataclass(frozen=True)
class Nuisance:
    """One way in which data is not ideal.

    Attributes:
        name: its name in the tables.
        labels: changes the truth before it is judged.
        answers: changes answers, labels or texts afterwards.
        allows: the strongest use that the truth allows, where it is not that of the quality.
        kinds: what it can be about.
        slice_share: the share of a slice in which the judge is useless.
        limits: the beginnings of limits, without any of which trust is false.
        judge: the judge, by quality, where it is another one.
    """

    name: str
    labels: Change = lambda draft: None
    answers: Change = lambda draft: None
    allows: Mapping[Quality, str] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = KINDS
    slice_share: float = 0.0
    limits: tuple[str, ...] = ()
    judge: Mapping[Quality, Change] = field(default_factory=dict)


def draft_of(kind: Kind, n: int, rng: np.random.Generator) -> Draft:
    """Return balanced units whose metadata mean nothing."""
    truth = rng.integers(0, 2, n).astype(float)
    if kind == "scores":
        truth = rng.integers(1, 6, n).astype(float)
    draft = Draft(
        kind,
        rng,
        truth,
        truth.copy(),
        truth.copy(),
        np.arange(n),
        np.exp(rng.normal(3.0, 0.6, n)).astype(np.int64) + 1,
        {},
    )
    choices: dict[str, list[Any]] = {
        "language": ["en", "fr", "es"],
        "task": ["code", "chat", "math", "essay"],
        "source": ["web", "app"],
    }
    for name, values in choices.items():
        draft.columns[name] = rng.choice(values, n)
    draft.columns["difficulty"] = rng.random(n).round(3)
    for name, column in draft.columns.items():
        draft.columns[name] = draft.by_case(column)
    draft.words = draft.by_case(draft.words)
    return draft


def judged(draft: Draft, quality: Quality) -> None:
    """Add the answers of a judge of a quality."""
    rng = draft.rng
    truth = draft.truth
    if draft.kind == "scores":
        noise = rng.normal(0, 0.4, draft.n)
        answers = {
            "good": np.round(truth + noise),
            "useless": rng.integers(1, 6, draft.n),
            "leaning": np.round(truth + 1 + noise / 2),
        }[quality]
        draft.verdict = np.clip(answers, 1, 5).astype(float)
        return
    wrong = rng.random(draft.n)
    lenient = np.where(truth == 0, wrong < 0.5, truth)
    answers = {
        "good": np.where(wrong < 0.05, 1 - truth, truth),
        "useless": rng.integers(0, 2, draft.n),
        "leaning": lenient,
    }[quality]
    draft.verdict = answers.astype(float)


def rare(share: float) -> Change:
    """Return labels one of whose classes is rare."""

    def change(draft: Draft) -> None:
        draft.truth = (draft.rng.random(draft.n) >= share).astype(float)

    return change


def _rare_good(draft: Draft) -> None:
    """Find 95% of a rare class and name it elsewhere in a thousandth."""
    luck = draft.rng.random(draft.n)
    wrong = np.where(draft.truth == 0, luck < 0.05, luck < 0.001)
    draft.verdict = np.where(wrong, 1 - draft.truth, draft.truth)


def _rare_leaning(draft: Draft) -> None:
    """Find 95% of a rare class and name it elsewhere in a twentieth."""
    wrong = draft.rng.random(draft.n) < 0.05
    draft.verdict = np.where(wrong, 1 - draft.truth, draft.truth)


def _constant(draft: Draft) -> None:
    draft.verdict = np.ones(draft.n)


RARE: Final[Mapping[Quality, Change]] = {
    "good": _rare_good,
    "useless": _constant,
    "leaning": _rare_leaning,
}


def _lose(draft: Draft, candidates: NDArray[np.bool_]) -> None:
    """Remove 60% of the answers of some units."""
    lost = candidates & (draft.rng.random(draft.n) < 0.6)
    draft.verdict = np.where(lost, np.nan, draft.verdict)


def _lose_by_label(draft: Draft) -> None:
    _lose(draft, draft.label <= (2 if draft.kind == "scores" else 0))


def _lose_by_slice(draft: Draft) -> None:
    _lose(draft, draft.columns["language"] == "fr")


def _lose_by_length(draft: Draft) -> None:
    _lose(draft, draft.words > np.quantile(draft.words, 0.75))


def _split(draft: Draft) -> None:
    """Give 25% of the units two contradicting answers."""
    contrary = draft.rng.random(draft.n) < 0.25
    draft.second = np.where(contrary, 1 - draft.verdict, draft.verdict)


def useless_slice(share: float) -> Change:
    """Return answers that are a coin's in a slice."""

    def change(draft: Draft) -> None:
        count = int(np.ceil(draft.n / PER_CASE)) if draft.kind == "items" else draft.n
        inside = draft.rng.random(count) < share
        if draft.kind == "items":
            inside = np.repeat(inside, PER_CASE)[: draft.n]
        # In most other slices, too, there are such units.
        draft.columns["language"] = np.where(inside, "de", draft.columns["language"])
        low, high = (1, 6) if draft.kind == "scores" else (0, 2)
        coins = draft.rng.integers(low, high, draft.n)
        draft.verdict = np.where(inside, coins, draft.verdict)

    return change


def _strata(draft: Draft) -> None:
    """Give two tasks labels that are mostly good in one and mostly bad in the other."""
    first = draft.by_case(draft.rng.random(draft.n) < 0.5)
    draft.columns["task"] = np.where(first, "code", "chat")
    mostly = draft.rng.random(draft.n) < 0.9
    draft.truth = np.where(mostly == first, 1.0, 0.0)
    if draft.kind == "scores":
        levels = draft.rng.integers(0, 2, draft.n)
        draft.truth = np.where(draft.truth > 0, 4 + levels, 1 + levels).astype(float)


def _majority(draft: Draft) -> None:
    first = draft.columns["task"] == "code"
    low, high = (1.0, 4.0) if draft.kind == "scores" else (0.0, 1.0)
    draft.verdict = np.where(first, high, low)


def stretched(slope: float, shift: float = 0.0) -> Change:
    """Return scores around the middle of the scale with another spread or level."""

    def change(draft: Draft) -> None:
        draft.verdict = np.clip(3 + slope * (draft.verdict - 3) + shift, 1, 5)
        draft.sections["rubric"] = {"min": 1, "max": 5, "step": 0.05}

    return change


def _other_units(draft: Draft) -> None:
    """Give scores from 0 to 100 for labels from 1 to 5."""
    noise = draft.rng.normal(0, 4, draft.n)
    draft.verdict = np.clip(np.round((draft.verdict - 1) * 25 + noise), 0, 100)
    draft.sections["rubric"] = {"min": 0, "max": 100, "step": 1}


def _prompts(draft: Draft) -> None:
    """Give ten prompts whose units share a third of their labels."""
    draft.prompt = draft.by_case(draft.rng.integers(0, 10, draft.n))
    low, high = (1, 6) if draft.kind == "scores" else (0, 2)
    common = draft.rng.integers(low, high, 10)[draft.prompt]
    share = draft.rng.random(draft.n) < 1 / 3
    draft.truth = np.where(share, common, draft.truth).astype(float)


def _wrong_labels(draft: Draft) -> None:
    """Get 15% of the labels wrong."""
    wrong = draft.rng.random(draft.n) < 0.15
    if draft.kind == "scores":
        random = draft.rng.integers(1, 6, draft.n)
        draft.label = np.where(wrong, random, draft.label).astype(float)
        return
    draft.label = np.where(wrong, 1 - draft.label, draft.label)


def _copied_labels(draft: Draft) -> None:
    draft.label = draft.verdict.copy()


def _duplicates(draft: Draft) -> None:
    """Repeat each unit four times."""
    group = 4 * (PER_CASE if draft.kind == "items" else 1)
    width = PER_CASE if draft.kind == "items" else 1
    index = np.arange(draft.n)
    source = np.minimum(index // group * group + index % width, draft.n - 1)
    draft.truth = draft.truth[source]
    draft.verdict = draft.verdict[source]
    draft.label = draft.label[source]
    draft.prompt = draft.prompt[source]
    draft.words = draft.words[source]
    draft.columns = {name: column[source] for name, column in draft.columns.items()}


def _one_order(draft: Draft) -> None:
    draft.sections["swap"] = {"policy": "none"}


BINARY: Final[tuple[Kind, ...]] = ("pairs", "classes", "items")
NOTHING: Final[Mapping[Quality, str]] = dict.fromkeys(QUALITIES, "unknown")
ONLY_ORDER: Final[Mapping[Quality, str]] = {
    "good": "order",
    "useless": "none",
    "leaning": "order",
}
BIASED: Final[Mapping[Quality, str]] = {
    "good": "rates_corrected",
    "useless": "none",
    "leaning": "rates_corrected",
}
CLEAN: Final = Nuisance("none")
NUISANCES: Final = (
    CLEAN,
    Nuisance("60% of one label missing", answers=_lose_by_label, allows=BIASED),
    Nuisance("60% of one slice missing", answers=_lose_by_slice),
    Nuisance("60% of long texts missing", answers=_lose_by_length),
    Nuisance(
        "25% split answers",
        answers=_split,
        kinds=("pairs", "classes"),
        limits=("split", "ties"),
    ),
    Nuisance("a useless slice of 5%", answers=useless_slice(0.05), slice_share=0.05),
    Nuisance("a useless slice of 10%", answers=useless_slice(0.1), slice_share=0.1),
    Nuisance("a useless slice of 25%", answers=useless_slice(0.25), slice_share=0.25),
    Nuisance("labels follow the task", _strata, judge={"useless": _majority}),
    Nuisance(
        "scores compressed to slope 0.45",
        answers=stretched(0.45),
        allows={"good": "rates"},
        kinds=("scores",),
    ),
    Nuisance(
        "scores expanded to slope 2",
        answers=stretched(2.0),
        allows={"good": "rates"},
        kinds=("scores",),
    ),
    Nuisance(
        "scores shifted by 1",
        answers=stretched(1.0, 1.0),
        allows=BIASED,
        kinds=("scores",),
    ),
    Nuisance(
        "scores from 0 to 100",
        answers=_other_units,
        allows=ONLY_ORDER,
        kinds=("scores",),
    ),
    Nuisance("a class of 5%", rare(0.05), kinds=BINARY, judge=RARE),
    Nuisance("a class of 2%", rare(0.02), kinds=BINARY, judge=RARE),
    Nuisance("ten prompts", _prompts),
    Nuisance("15% of labels wrong", answers=_wrong_labels),
    # Such labels cannot be distinguished from those of a perfect judge, so trust is false unless it names
    # the doubt.
    Nuisance(
        "labels that copy the judge",
        answers=_copied_labels,
        allows=dict.fromkeys(QUALITIES, "single"),
        limits=("identical",),
    ),
    Nuisance("each unit four times", answers=_duplicates),
    Nuisance(
        "one order only", answers=_one_order, allows={"good": "rates"}, kinds=("pairs",)
    ),
)


def run_of(
    kind: Kind, quality: Quality, nuisance: Nuisance, n: int, seed: int
) -> tuple[Draft, RunResult]:
    """Return a simulated run as it would be read from its folder."""
    rng = np.random.default_rng([n, seed])
    draft = draft_of(kind, n, rng)
    nuisance.labels(draft)
    if quality in nuisance.judge:
        nuisance.judge[quality](draft)
    else:
        judged(draft, quality)
    draft.label = draft.truth.copy()
    nuisance.answers(draft)
    config = settings(kind, **draft.sections)
    if draft.second is not None and kind == "classes":
        config = config.with_({"mode.samples": 2})
    cases, judgments = WRITERS[kind](draft, config)
    scored = score_run(config, cases, judgments)
    result = RunResult(
        None, config, {}, cases, judgments, scored.verdicts, scored.metrics
    )
    return draft, result


def _metadata(draft: Draft, unit: int) -> dict[str, Any]:
    return {name: column[unit].item() for name, column in draft.columns.items()}


def _text(draft: Draft, unit: int, name: str) -> str:
    return f"{name} {unit} " + "word " * int(draft.words[unit])


def _pairs(draft: Draft, config: RunConfig) -> tuple[list[Case], list[Judgment]]:
    cases = []
    judgments = []
    shown_orders = ((0, 1), (1, 0)) if config.swap.policy == "both" else ((0, 1),)
    # Either response may be the longer one: the text's length is that of the first in half.
    longer = draft.rng.random(draft.n) < 0.5
    for unit in range(draft.n):
        texts = [
            _text(draft, unit, "one"),
            "two " * max(1, int(draft.words[unit]) // 2),
        ]
        if longer[unit]:
            texts.reverse()
        label: Literal["A", "B"] = "A" if draft.label[unit] else "B"
        case = Case(
            f"c{unit}",
            f"question {draft.prompt[unit]}",
            (Response(texts[0], "first"), Response(texts[1], "second")),
            label=label,
            metadata=_metadata(draft, unit),
        )
        cases.append(case)
        answers = [draft.verdict, draft.verdict]
        if draft.second is not None:
            answers[1] = draft.second
        for shown, answer in zip(shown_orders, answers, strict=False):
            value = None if np.isnan(answer[unit]) else 2 * float(answer[unit]) - 1
            status: Any = "ok" if value is not None else "unparseable"
            judgments.append(
                Judgment(case.id, (0, 1), shown, 0, "m", status, value=value)
            )
    return cases, judgments


def _single(draft: Draft, config: RunConfig) -> tuple[list[Case], list[Judgment]]:
    cases = []
    judgments = []
    names = ("fail", "pass")
    scores = draft.kind == "scores"
    for unit in range(draft.n):
        text = _text(draft, unit, "answer")
        label = draft.label[unit]
        response = (
            Response(text, grade=float(label))
            if scores
            else Response(text, class_name=names[int(label)])
        )
        case = Case(
            f"c{unit}",
            f"question {draft.prompt[unit]}",
            (response,),
            metadata=_metadata(draft, unit),
        )
        cases.append(case)
        samples = [draft.verdict]
        if draft.second is not None:
            samples.append(draft.second)
        for sample, answers in enumerate(samples):
            answer = answers[unit]
            facts: dict[str, Any] = {}
            if not np.isnan(answer):
                facts = (
                    {"criteria": {"quality": float(answer)}}
                    if scores
                    else {"class_name": names[int(answer)]}
                )
            status: Any = "ok" if facts else "unparseable"
            judgments.append(
                Judgment(case.id, (0,), (0,), sample, "m", status, **facts)
            )
    return cases, judgments


def _checklists(draft: Draft, config: RunConfig) -> tuple[list[Case], list[Judgment]]:
    cases = []
    judgments = []
    for first in range(0, draft.n, PER_CASE):
        units = range(first, min(first + PER_CASE, draft.n))
        listed = [
            {
                "id": str(unit - first),
                "criterion": "x",
                "label": bool(draft.label[unit]),
            }
            for unit in units
        ]
        case = Case(
            f"c{first}",
            f"question {draft.prompt[first]}",
            (Response(_text(draft, first, "answer")),),
            checklist=read_items(listed),
            metadata=_metadata(draft, first),
        )
        cases.append(case)
        answers: dict[str, Any] = {
            str(unit - first): "met" if draft.verdict[unit] else "not_met"
            for unit in units
            if not np.isnan(draft.verdict[unit])
        }
        judgments.append(Judgment(case.id, (0,), (0,), 0, "m", "ok", items=answers))
    return cases, judgments


WRITERS: Final = {
    "pairs": _pairs,
    "scores": _single,
    "classes": _single,
    "items": _checklists,
}


def allowed(quality: Quality, nuisance: Nuisance) -> str:
    """Return the strongest use that the truth allows outside a useless slice."""
    return nuisance.allows.get(quality, ALLOWED[quality])


def excludes(decision: Decision, value: str) -> bool:
    """Return whether a decision says that it does not hold in a slice."""
    places = getattr(decision, "where", None) or ()
    return value in str(places)


def errors(
    quality: Quality, nuisance: Nuisance, draft: Draft, decision: Decision
) -> Iterator[str]:
    """Yield what is wrong with a decision about a judge of whom everything is known."""
    strength = STRENGTH[decision.use]
    kinds = [limit.kind for limit in decision.limits]
    named = not nuisance.limits or any(
        kind.startswith(nuisance.limits) for kind in kinds
    )
    too_strong = strength > STRENGTH[allowed(quality, nuisance)]
    if too_strong or (decision.trusted and not named):
        yield "false trust"
    elif nuisance.slice_share and decision.trusted:
        inside = int((draft.columns["language"] == "de").sum())
        if inside >= SLICE and not excludes(decision, "de"):
            yield "false trust"
    if quality == "good" and nuisance is CLEAN and decision.use == "none":
        yield "false none"
    useless = ("chance", "reversed", "constant", "hardly_better")
    order = getattr(decision, "order", None)
    if (decision.trusted and decision.reason in useless) or (
        str(decision.use) == "order" and order is False
    ):
        yield "contradiction"


@dataclass(frozen=True)
class Cell:
    """One nuisance with one judge at one size."""

    kind: Kind
    quality: Quality
    nuisance: int
    n: int
    runs: int


@dataclass(frozen=True)
class Found:
    """What the runs of a cell come to: errors, uses, a sentence that is false trust,
    and seconds.
    """

    cell: Cell
    errors: Counter[str]
    uses: Counter[str]
    sliced: int
    example: str
    seconds: float


def measure(cell: Cell) -> Found:
    """Return the errors of a cell."""
    nuisance = NUISANCES[cell.nuisance]
    begun = time.process_time()
    counted: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    sliced = 0
    example = ""
    for seed in range(cell.runs):
        draft, result = run_of(cell.kind, cell.quality, nuisance, cell.n, seed)
        decision = result.decision
        wrong = [*errors(cell.quality, nuisance, draft, decision)]
        counted.update(wrong)
        uses[decision.use] += 1
        sliced += bool(getattr(decision, "where", None))
        if wrong and not example:
            example = " ".join(sentence.text for sentence in conclusion(result))
    seconds = time.process_time() - begun
    return Found(cell, counted, uses, sliced, example, seconds)


def cells(runs: int, sizes: Sequence[int], words: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells of the grid whose names have all the words."""
    for index, nuisance in enumerate(NUISANCES):
        for kind in nuisance.kinds:
            for quality in QUALITIES:
                name = f"{nuisance.name} {kind} {quality}"
                if not all(word in name for word in words):
                    continue
                for n in sizes:
                    yield Cell(
                        kind,
                        quality,
                        index,
                        n,
                        runs if n < LARGE else max(1, runs // 4),
                    )


def is_exceeded(count: int, runs: int) -> bool:
    """Return whether the 99% interval of a share lies above what is accepted."""
    return bool(binomtest(count, runs).proportion_ci(0.99).low > SHARE)


def grid(found: Sequence[Found]) -> Iterator[str]:
    """Yield the table of false trust: a row for each nuisance and kind, a column for
    each judge and size.
    """
    sizes = sorted({one.cell.n for one in found})
    columns = [(quality, n) for quality in QUALITIES for n in sizes]
    heads = [f"{quality}, {n:,}" for quality, n in columns]
    yield f"| nuisance | kind | {' | '.join(heads)} |"
    yield "| --- | --- " + "| ---: " * len(heads) + "|"
    by_cell = {
        (one.cell.nuisance, one.cell.kind, one.cell.quality, one.cell.n): one
        for one in found
    }
    for index, kind in dict.fromkeys(
        (one.cell.nuisance, one.cell.kind) for one in found
    ):
        values = []
        for quality, n in columns:
            one = by_cell.get((index, kind, quality, n))
            if one is None:
                values.append("–")
                continue
            count = one.errors["false trust"]
            mark = "**" if is_exceeded(count, one.cell.runs) else ""
            values.append(f"{mark}{100 * count / one.cell.runs:.1f}%{mark}")
        yield f"| {NUISANCES[index].name} | {kind} | {' | '.join(values)} |"


@dataclass(frozen=True)
class Power:
    """A clean judge, and the use that it must get in most runs."""

    kind: Kind
    accuracy: float
    use: str


POWERS: Final = (
    *(Power(kind, 0.95, "single") for kind in KINDS),
    *(Power(kind, 0.9, "rates") for kind in KINDS),
)


def power(row: Power, n: int, runs: int) -> tuple[int, int, int]:
    """Return in how many runs a clean judge has the use or a stronger one, has `none`,
    and lost a use to a slice.
    """

    def judge(draft: Draft) -> None:
        wrong = draft.rng.random(draft.n) >= row.accuracy
        if draft.kind == "scores":
            step = draft.rng.choice([-1, 1], draft.n)
            # A wrong score is the next one, on the other side at an end of the scale.
            step = np.where(draft.truth == 1, 1, np.where(draft.truth == 5, -1, step))
            draft.verdict = draft.truth + wrong * step
            return
        draft.verdict = np.where(wrong, 1 - draft.truth, draft.truth)

    nuisance = Nuisance("power", judge={"good": judge})
    enough = 0
    useless = 0
    sliced = 0
    for seed in range(runs):
        _, result = run_of(row.kind, "good", nuisance, n, seed)
        decision = result.decision
        enough += STRENGTH[decision.use] >= STRENGTH[row.use]
        useless += decision.use == "none"
        sliced += bool(getattr(decision, "where", None))
    return enough, useless, sliced


def powers(runs: int, n: int = 600) -> Iterator[str]:
    """Yield the table of power."""
    yield f"| kind | accuracy | use at {n} labels | has it | `none` | lost a use to a slice |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    for row in POWERS:
        counts = power(row, n, runs)
        shares = " | ".join(f"{100 * count / runs:.1f}%" for count in counts)
        yield f"| {row.kind} | {row.accuracy} | `{row.use}` | {shares} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the grid, the power, and the first sentence of each cell with false trust."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--only", nargs="*", default=[], help="words of a cell's name")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--power", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(arguments)
    begun = time.perf_counter()
    every = [*cells(options.runs, options.sizes, options.only)]
    # The largest cells first, so that no worker waits for one at the end.
    queue = sorted(every, key=lambda cell: -cell.n * cell.runs)
    with ProcessPoolExecutor(options.workers) as pool:
        measured = dict(zip(queue, pool.map(measure, queue), strict=True))
    found = [measured[cell] for cell in every]
    for line in grid(found):
        print(line, flush=True)
    print()
    for one in found:
        if not sum(one.errors.values()):
            continue
        cell = one.cell
        mark = "!" if is_exceeded(one.errors["false trust"], cell.runs) else " "
        name = f"{NUISANCES[cell.nuisance].name}; {cell.kind}; {cell.quality}; {cell.n}"
        print(f"{mark} {name}: {dict(one.errors)} of {cell.runs}, {dict(one.uses)}")
        print(f"    {one.example}")
    if options.power:
        print()
        for line in powers(options.runs):
            print(line, flush=True)
    print()
    by_size: dict[int, list[float]] = {}
    for one in found:
        by_size.setdefault(one.cell.n, []).append(one.seconds / one.cell.runs)
    for n, costs in sorted(by_size.items()):
        print(f"{n}: {1000 * float(np.mean(costs)):.0f} ms of a processor a run")
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
