"""What no sentence of a run may say, whatever was judged: few cases, gaps, no labels, panels and clusters."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.decisions import JUDGES
from evalkit.config import JudgeConfig
from evalkit.core.display import interval, percent, points
from evalkit.report.findings import findings
from evalkit.report.findings.biases import _lead
from evalkit.report.findings.decisions import _complement, headline
from evalkit.scoring.decision import (
    FEW,
    FLOOR,
    MARGIN,
    SUBSTANTIAL,
    beyond_chance,
    decide,
    labels_at_hand,
)
from evalkit.scoring.pipeline import score_run
from tests.support.thorough import some_of

LOST = {
    "status": "unparseable",
    "value": None,
    "criteria": {},
    "class_name": None,
    "items": {},
    "error": "?",
}


def losing(lost):
    """Return how a run loses the answers to some cases, by their number."""

    def without(run):
        config, cases, judgments = run
        numbers = {case.id: number for number, case in enumerate(cases)}
        return (
            config,
            cases,
            [replace(one, **LOST) if lost(numbers[one.case_id]) else one for one in judgments],
        )

    return without


def unlabeled(run):
    config, cases, judgments = run
    bare = [
        replace(
            case,
            label=None,
            responses=tuple(replace(one, grade=None, class_name=None) for one in case.responses),
            checklist=tuple(replace(item, labels={}) for item in case.checklist),
        )
        for case in cases
    ]
    return config, bare, judgments


def panel(run):
    """Return the run of three judges that answer alike, of which one answers every second case."""
    config, cases, judgments = run
    judges = JudgeConfig(judges=[{"name": name, "model": name} for name in "xyz"])
    second = losing(lambda number: bool(number % 2))((config, cases, judgments))[2]
    each = [replace(one, judge=name) for name in "xy" for one in judgments]
    return (
        config.with_({"judge": judges}),
        cases,
        [*each, *(replace(one, judge="z") for one in second)],
    )


def clustered(run):
    config, cases, judgments = run
    return (
        config,
        [replace(case, prompt=f"q{number // 4}") for number, case in enumerate(cases)],
        judgments,
    )


CHANGES = {
    "as they are": lambda run: run,
    "unlabeled": unlabeled,
    "half missing": losing(lambda number: number % 2 == 0),
    "all missing": losing(lambda number: True),
    "panel": panel,
    "clusters": clustered,
}
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
UNITS = "annotator|answer|case|checklist item|cluster|item|judge|label|pair|passe|response|score|system|verdict"
NAMES = re.compile(
    r"\b(Spearman|system-\d|TIE|yes|no|safe|rude|fatal|judge|target|mode|samples|scoring|swap"
    r"|dataset\.label_source)\b"
)


def wrong_numbers(metrics, found):
    """Yield numbers that the Chinese sentence lacks, and estimates that are no metric's."""
    english, chinese = (Counter(NUMBER.findall(text)) for text in (found.text, found.text_zh))
    lacking, more = english - chinese, chinese - english
    if lacking or (more and "nly" not in found.text):  # "only" is English for one
        yield f"{lacking} {more}"
    known = [*metrics.values(), *map(_complement, metrics.values())]
    shown = {
        text.rstrip("%").replace("%", "")
        for one in known
        for text in (
            interval(one),
            interval(one, 1),
            interval(one, 0),
            percent(one),
            points(one, absolute=True),
        )
    }
    shown |= {points(one) for one in known} | {_lead(one) for one in known if one.value is not None}
    for estimate in re.findall(r"-?\d[\d.]*%? \[[^\]]*\]", found.text):
        if estimate.replace("%", "") not in shown:
            yield estimate


def wrong_words(found):
    text = found.text
    if singular := re.search(rf"(?<![\d.,])1 (?:[a-z]+ )?(?:{UNITS})s\b", text):
        yield singular[0]
    if re.search(r"[{}]|\bnan\b|None\b(?! of)|(?<![\d\w]) - |-0(\.0+)?(?![.\d])|\(n = 0\)", text):
        yield "a placeholder, or nothing"
    if re.search("[a-zA-Z]{3}", NAMES.sub("", found.text_zh)) or not found.text_zh.endswith("。"):
        yield found.text_zh
    if re.search(r"\bequal\b", text) and not re.search(
        r"scores are equal|at equal label|labels are equal", text
    ):
        yield "equal"


CLAIMS = (
    "Prefers ",
    "Favors ",
    "Disfavors ",
    "The judges err on ",
    "Different from ",
    "Agreement with labels is ",
)
LEVELS = {"position/first_rate": 0.5, "panel/effective_votes": None}


def wrong_claim(metrics, found):
    """Return whether a sentence takes a side that its interval does not take, or takes one from few units."""
    if not found.text.startswith(CLAIMS):
        return False
    name = "panel/error_correlation" if found.metric == "panel/effective_votes" else found.metric
    metric, level = metrics[name], LEVELS.get(name, 0.0)
    return metric.n < FEW or metric.low is None or (metric.low <= level <= metric.high)


def wrong_limits(decision):
    gaps = ("few_labels", "rare_class", "one_class", "one_order", "missing", "ties", "abstains")
    for limit in decision.limits:
        one = limit.metric
        if limit.kind.startswith(gaps):
            continue
        beyond = (
            abs(one.value) >= MARGIN - 1e-9 and one.low * one.high > 0
            if limit.kind.startswith("lean")
            else True
        )
        if one.n < FEW or not beyond:
            yield limit.kind
        if limit.kind.startswith("shown") and (limit.kind == "shown_first") != (one.low > 0.5):
            yield limit.kind
        if limit.kind in ("longer", "shorter") and (limit.kind == "longer") != (one.low > 0):
            yield limit.kind
        if limit.kind.endswith("disagree") and not (one.low <= 0 <= one.high < 1):
            yield limit.kind


def wrong_decision(decision, labels, text):
    agreement = None if decision.metric is None else beyond_chance(decision.metric)
    if decision.use in ("single", "rates", "rates_corrected"):
        assert agreement is not None
        if (
            labels < FEW
            or agreement.low <= FLOOR
            or (decision.use == "single" and agreement.low < SUBSTANTIAL)
        ):
            yield "trust"
    elif text.startswith("Trust"):
        yield "trust"
    if decision.use == "none" and decision.reason != "constant":
        if agreement.n < FEW or agreement.high >= FLOOR:
            yield "do not trust"
        if ("hardly more" in text) != (agreement.low > 0) or (
            "less than chance" in text and agreement.high >= -FLOOR
        ):
            yield "the degree of agreement"
    more = re.search(r"^Label (?:about |more than )?(\d[\d,]*|some)", text)
    if more and (more[1] == "some" or int(more[1].replace(",", "")) < 1):
        yield "the number of labels"
    if labels < FEW and decision.use != "unknown" and not decision.reason.endswith("disagree"):
        yield "decided"


def wrong_metrics(metrics):
    """Yield metrics outside their interval, and intervals of no width: other cases would differ."""
    for name, one in metrics.items():
        if one.value is not None and one.low is not None:
            # all judges are as far as it goes, and one label is the fewest that can be missing
            at_limit = name.startswith("panel/effective_votes") or (
                name == "decision/labels_needed" and one.value == 1
            )
            if not one.low <= one.value <= one.high or (one.low == one.high and not at_limit):
                yield f"{name} {one.value} [{one.low}, {one.high}]"


@pytest.mark.parametrize("judge", some_of(JUDGES[::4], 8), ids=lambda judge: judge.name)
def test_what_no_sentence_may_say(judge):
    wrong = []
    for n in (1, 5, 30):
        run = judge.make(np.random.default_rng(n), n)
        for change, changed in CHANGES.items():
            config, cases, judgments = changed(run)
            metrics = score_run(config.with_({"scoring.bootstrap": 60}), cases, judgments).metrics
            decision, first = decide(metrics, 0.95), headline(metrics)
            sentences = [first, *findings(metrics, config.mode.name)]
            faults = [*wrong_metrics(metrics), *wrong_limits(decision)]
            faults += ["tone"] * (
                first.tone == "good" and (decision.use != "single" or bool(decision.limits))
            )
            faults += wrong_decision(decision, labels_at_hand(metrics), first.text)
            for one in sentences:
                faults += [
                    f"{fault} in: {one.text}"
                    for fault in (*wrong_numbers(metrics, one), *wrong_words(one))
                ]
                faults += [f"claim: {one.text}"] * wrong_claim(metrics, one)
            faults += [
                f"twice: {text}"
                for text, times in Counter(one.text for one in sentences).items()
                if times > 1
            ]
            wrong += [f"{n} {change}: {fault}" for fault in faults]
    assert not wrong
