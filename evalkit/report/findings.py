"""The findings of a run: pure functions from metrics to sentences, for the report and the terminal.

A sentence takes a side only if the interval does: a judge whose interval includes chance is "not shown to be better",
whatever the point estimate. A difference that was not found is never called absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from evalkit.core.display import dollars, estimate, interval, percent
from evalkit.core.translation import Text, gettext, joined, ngettext
from evalkit.decision import FIRST as FIRST_RATE
from evalkit.decision import one_order
from evalkit.judges.setup import LOCAL
from evalkit.report.agreement_findings import (
    agreement,
    checklist_findings,
    class_agreement,
    class_corrections,
    has_classes,
    transport_findings,
    turn_findings,
)
from evalkit.report.counts import Finding, Metrics, Tone, finding, known, side
from evalkit.report.decisions import headline
from evalkit.report.diagnostics import (
    benchmark_finding,
    bias_findings,
    correction_findings,
    length_at_label,
    ranking_findings,
    simulated,
    slice_findings,
)
from evalkit.report.panel_findings import panel_findings, subset_findings
from evalkit.report.texts import metric_title
from evalkit.results import RunResult
from evalkit.runs.layout import simulated_judges
from evalkit.scoring.metrics.cascades import GIVEN, REST
from evalkit.scoring.stopping import is_settled
from evalkit.scoring.verdicts.pairs import WEIGHED
from evalkit.types import Metric
from evalkit.values import Json

FAR_OFF = 0.1  # of a confidence, on average
CONSISTENT = (
    "pointwise",
    "checklist",
    "listwise",
)  # one score or one ranking cannot have a cycle, so that there is none means nothing
MANY_TIES, MANY_MISSING = 0.5, 0.2
"""At and above these shares, ties or missing answers come first: they explain every other number."""
CAUSES = {
    "swap_disagreement": gettext("because the two orders disagree"),
    "judged": gettext("because the judge calls them ties"),
    "equal_scores": gettext("because the two scores are equal"),
    "threshold": gettext("because of tie.threshold or tie.min_confidence"),
    "split": gettext("because votes or samples cancel out"),
    "criteria_cancel": gettext("because the weighted criteria cancel out, which scoring.aggregate=overall avoids"),
}
MISSING = {
    "unparseable": gettext("{n:,} unparseable"),
    "refused": gettext("{n:,} refused"),
    "failed": gettext("{n:,} failed"),
    "budget": gettext("{n:,} over the budget"),
}


TABLES: Final = ("panel", "ranking", "slices", "transport")
"""The tables of a run that findings name systems, judges and slices from."""


def findings_of(result: RunResult, details: Json | None = None) -> list[Finding]:
    """Return the findings of a run, its conclusion first; `details` is as for `findings`."""
    mode, positive = str(result.manifest.get("mode") or ""), result.config.rubric.positive
    rows = (details or {}).get("slices") or ()
    sliced = slice_findings(result.metrics, rows, result.config.scoring.confidence)
    return [*conclusion(result), *_stop(result), *findings(result.metrics, mode, details, positive=positive), *sliced]


def _stop(result: RunResult) -> Iterator[Finding]:
    """Yield whether a run stopped because its metric is known, and what was not needed."""
    stop, asked = result.config.runner.stop, result.manifest.get("not_needed")
    metric = None if stop is None else known(result.metrics, stop.metric)
    if stop is None or asked is None or metric is None or metric.low is None or metric.high is None:
        return
    title, clusters = metric_title(metric.name), result.manifest["clusters"]["count"]
    facts = {"title": title, "value": interval(metric), "clusters": clusters, "width": stop.width}
    settled = is_settled(result.config, result.metrics)
    if settled:
        text = gettext(
            "Settled: “{title}” is {value} after {clusters:,} clusters in random order, at most {width:g} wide. "
            "This holds at any stopping time.",
            **facts,
        )
        rest = ngettext("{n:,} other case was not needed.", "{n:,} other cases were not needed.", asked["cases"])
    else:
        text = gettext(
            "Not settled: “{title}” is {value} after {clusters:,} clusters in random order, more than {width:g} "
            "wide. This holds at any stopping time.",
            **facts,
        )
        rest = ngettext(
            "{n:,} other case is not part of the run.", "{n:,} other cases are not part of the run.", asked["cases"]
        )
    text = gettext("{text} {rest}", text=text, rest=rest) if asked["cases"] else text
    yield finding(metric.name, "good" if settled else "warn", text)


def conclusion(result: RunResult) -> list[Finding]:
    """Return what to do with the judge of a run, or a warning that it is simulated.

    The embedded judge has no such advice: it is there to try evalkit out.
    """
    warnings = list(simulated(simulated_judges(result.manifest)))
    embedded = any(str(one.get("model") or "").startswith(LOCAL) for one in result.manifest.get("judges") or ())
    return warnings or ([] if embedded else [headline(result.metrics, result.config.scoring.confidence)])


def findings(metrics: Metrics, mode: str, details: Json | None = None, *, positive: str | None = None) -> list[Finding]:
    """Return the findings on the metrics of a run, most important first.

    Args:
        metrics: The metrics of the run.
        mode: Its mode.
        details: The content of the run folder's detail files, by name: with it, the ranking names its systems.
        positive: The positive class, if there is one.
    """
    classes = has_classes(metrics)
    finders = (partial(class_agreement, positive=positive), *_CLASS_FINDERS) if classes else _FINDERS
    found = [finding for find in finders for finding in find(metrics, mode)]
    ties, missing = known(metrics, "tie_rate"), known(metrics, "agreement/accuracy")
    lost = missing.missing / (missing.n + missing.missing) if missing is not None and missing.missing else 0.0
    many = ties is not None and (ties.value or 0) >= MANY_TIES and not _has_two_scores(metrics)
    first = ["tie_rate"] if many else []
    first += ["missing/"] if lost >= MANY_MISSING else []
    found.sort(key=lambda one: not one.metric.startswith(tuple(first)) if first else False)
    tables = details or {}
    found += [
        *subset_findings(metrics, tables.get("panel") or {}),
        *transport_findings(metrics, tables.get("transport") or {}),
    ]
    return [*found, *ranking_findings(metrics, tables.get("ranking") or {}), *corrections(metrics)]


def corrections(metrics: Metrics) -> list[Finding]:
    """Return the findings on rates of a run, or of one of its judges, that are corrected by labels."""
    if known(metrics, "labels/picked") is not None:  # labels of picked cases cannot correct a rate over all cases
        return []
    return [*(class_corrections if has_classes(metrics) else correction_findings)(metrics)]


def _lead(metric: Metric) -> str:
    """Return the lead of one of two outcomes in points, from its share: 0.56 against 0.44 is 12 points."""
    points = [None if x is None else abs(200 * x - 100) for x in (metric.value, metric.low, metric.high)]
    value, *ends = points
    low, high = sorted(end for end in ends if end is not None) if None not in ends else (None, None)
    return estimate(value, low, high, "{:.0f}".format)


def _missing(metrics: Metrics, _: str) -> Iterator[Finding]:
    rates = {kind: m for kind in MISSING if (m := known(metrics, f"missing/{kind}")) is not None and m.n}
    if not rates:
        return
    counts = {kind: round((m.value or 0) * m.n) for kind, m in rates.items()}
    total, n = sum(counts.values()), max(m.n for m in rates.values())
    if not total:
        text = ngettext("The only answer is not missing.", "None of {n:,} answers is missing.", n)
        yield finding("missing/failed", "good", text)
        return
    kind = max(counts, key=lambda kind: counts[kind])
    text = ngettext(
        "{n:,} of {all:,} answers is missing ({share}): {why}. Metrics exclude them and have worst-case bounds.",
        "{n:,} of {all:,} answers are missing ({share}): {why}. Metrics exclude them and have worst-case bounds.",
        total,
        all=n,
        share=f"{100 * total / n:.1f}%",
        why=joined(MISSING[kind].fill(n=count) for kind, count in counts.items() if count),
    )
    yield finding(f"missing/{kind}", "bad" if total > 0.05 * n else "warn", text)


def _position(metrics: Metrics, _: str) -> Iterator[Finding]:
    consistency = known(metrics, "position/consistency")
    if (first := known(metrics, FIRST_RATE)) is not None:
        always = consistency is not None and consistency.value == 1 and first.value == 0.5
        if one_order(metrics):
            yield _confounded(first)
        elif not always:  # then each pair favors each position once, and consistency says all there is
            yield _preference(first)
    if consistency is not None:
        yield _consistency(consistency, known(metrics, "tie_rate/judged"))


def _consistency(consistency: Metric, judged: Metric | None) -> Finding:
    high = consistency.low is not None and consistency.low >= 0.8
    tied = judged is not None and (judged.value or 0) >= MANY_TIES
    text = (
        ngettext(
            "Keeps its verdict when the order of the only pair is swapped, but the verdict is a tie.",
            "Keeps its verdict in {rate} of {n:,} pairs when the order is swapped, but most of these verdicts are "
            "ties.",
            consistency.n,
        )
        if tied
        else ngettext(
            "Keeps its verdict in {rate} of {n:,} pair when the order is swapped.",
            "Keeps its verdict in {rate} of {n:,} pairs when the order is swapped.",
            consistency.n,
        )
    )
    return finding(consistency, "good" if high and not tied else "warn", text)


def _confounded(first: Metric) -> Finding:
    text = ngettext(
        "Only {n:,} pair is decided, and it was shown in one order only: position and quality cannot be separated.",
        "The answer shown first wins {rate} of {n:,} decided pairs; each pair was shown in one order only, so "
        "position and quality cannot be separated.",
        first.n,
    )
    return finding(first, "info", text)


def _length(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how often the longer answer wins; that alone is not a preference, because it may be better."""
    longer = known(metrics, "length/longer_rate")
    if longer is None or length_at_label(metrics) is not None or longer.n < 2:
        return
    labeled = known(metrics, "agreement/accuracy") is not None
    text = (
        gettext(
            "The longer answer wins {rate} of {n:,} decided pairs; the labels do not show whether that is a "
            "preference for length."
        )
        if labeled
        else gettext(
            "The longer answer wins {rate} of {n:,} decided pairs; without labels, this does not show whether that "
            "is a preference for length."
        )
    )
    clear = side(longer, 0.5) in ("above", "below")
    yield finding(longer, "warn" if clear else "info", text)


def _preference(rate: Metric) -> Finding:
    where = side(rate, 0.5)
    text = {
        "unknown": ngettext(
            "Only {n:,} pass (a pair in one order) is decided: too few to show a preference for a position.",
            "The answer shown first wins {rate} of {n:,} decided passes (a pair in one order): too few to show a "
            "preference.",
            rate.n,
        ),
        "unclear": gettext(
            "No clear preference for the answer shown first: it wins {rate} of {n:,} decided passes (a pair in one "
            "order)."
        ),
        "above": gettext(
            "Prefers the answer shown first by {lead} points: the answer shown first wins {rate} of {n:,} decided "
            "passes (a pair in one order)."
        ),
        "below": gettext(
            "Prefers the answer shown second by {lead} points: the answer shown first wins {rate} of {n:,} decided "
            "passes (a pair in one order)."
        ),
    }[where]
    return finding(rate, "warn" if where in ("above", "below") else "info", text.fill(lead=_lead(rate)))


def _ties(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (rate := known(metrics, "tie_rate")) is None:
        return
    parts = {name: m for name in CAUSES if (m := known(metrics, f"tie_rate/{name}")) is not None}
    main = max(parts, key=lambda name: parts[name].value or 0, default="")
    made = parts[main].value or 0 if main else 0
    text = gettext("{rate} of pairs are ties.")
    if made > 0.5 * (rate.value or 0):
        text = gettext("{rate} of pairs are ties, most of them {because} ({part}).")
        if made > (rate.value or 0) - 1e-9:
            text = gettext("{rate} of pairs are ties {because}.")
        text = text.fill(because=CAUSES[main], part=percent(parts[main]))
    bad = (rate.value or 0) >= MANY_TIES or (main == "swap_disagreement" and made > 0.5 * (rate.value or 0))
    if main == "equal_scores" and _has_two_scores(metrics):  # then many pairs are equal under any judge
        bad = False
    yield finding(rate, "warn" if bad else "info", text)
    yield from _one_winner(metrics)


def _one_winner(metrics: Metrics) -> Iterator[Finding]:
    """Yield that all verdicts are the same; if all labels are of one class too, they may be right."""
    kappa = metrics.get("agreement/kappa")
    if one_order(metrics) or (kappa is not None and kappa.value is None and kappa.n):
        return
    for name, winner in (("win_rate/a", "A"), ("win_rate/b", "B")):
        wins = known(metrics, name)
        if wins is not None and wins.value == 1 and wins.n > 2:
            yield finding(wins, "warn", gettext("All {n:,} verdicts are {winner}.", winner=winner))


def _aggregate(metrics: Metrics, _: str) -> Iterator[Finding]:
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value:
        return
    weighed = WEIGHED in (rate.note or "")
    text = (
        gettext(
            "Verdicts follow the weighted criteria; in {rate} of judgments, the judge's overall winner is a different "
            "one."
        )
        if weighed
        else gettext(
            "Verdicts follow the judge's overall winner; in {rate} of judgments, the weighted criteria have a "
            "different winner."
        )
    )
    yield finding(rate, "info", text)


def _conflicts(metrics: Metrics, mode: str) -> Iterator[Finding]:
    rate = known(metrics, "conflict/rate")
    if rate is not None and (rate.value or mode not in CONSISTENT):
        yield _cycles(rate, known(metrics, "conflict/chance_rate"), known(metrics, "conflict/ratio"))
    if (weak := known(metrics, "conflict/weak_rate")) is not None and weak.value:
        text = gettext("Ties are not transitive (A = B, B = C, but A > C) in {rate} of cases.")
        yield finding(weak, "info", text)


def _cycles(rate: Metric, chance: Metric | None, ratio: Metric | None) -> Finding:
    """Return how often verdicts are cyclic, and whether that differs from random verdicts."""
    tone: Tone = "warn" if rate.value else "info"
    if rate.value:
        text = (
            gettext("Contradicts itself (A > B > C > A) in {rate} of {n:,} cases")
            if rate.n
            else gettext("Contradicts itself (A > B > C > A) in {rate} of cases")
        )
    else:
        text = (
            gettext("No contradiction (A > B > C > A) was found: {rate} of {n:,} cases")
            if rate.n
            else gettext("No contradiction (A > B > C > A) was found: {rate} of cases")
        )
    text = text.fill(rate=percent(rate), n=rate.n)
    if chance is None or chance.value is None:
        return finding("conflict/rate", tone, gettext("{finding}.", finding=text))
    where = side(ratio, 1.0) if ratio is not None and ratio.low is not None else side(rate, chance.value)
    expected: Text | str = f"{100 * chance.value:.0f}%"
    if where != "unknown" and ratio is not None and ratio.low is not None:
        expected = gettext("{rate}; ratio {ratio}", rate=expected, ratio=interval(ratio))
    chance_text = {
        "below": gettext("fewer than random verdicts would have ({expected})"),
        "above": gettext("more than random verdicts would have ({expected})"),
        "unclear": gettext("not shown to differ from random verdicts ({expected})"),
        "unknown": gettext("random verdicts would have {expected}"),
    }[where]
    tone = "good" if where == "below" and not rate.value else tone
    text = gettext("{finding}; {chance}.", finding=text, chance=chance_text.fill(expected=expected))
    return finding("conflict/rate", tone, text)


def _scores(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (distinct := known(metrics, "score/distinct")) is not None and distinct.n != 1:
        few = distinct.n > 2 and (distinct.value or 0) <= (1 if _has_two_scores(metrics) else 2)
        if distinct.value == 1:
            text = gettext("All {n:,} scores are equal", n=distinct.n)
        else:
            text = gettext("Uses {count} different scores", count=f"{distinct.value:.0f}")
        end = gettext("{finding}, so it hardly separates responses.") if few else gettext("{finding}.")
        yield finding("score/distinct", "bad" if few else "info", end.fill(finding=text))


def _has_two_scores(metrics: Metrics) -> bool:
    """Return whether the rubric's scale has only two scores."""
    distinct = metrics.get("score/distinct")
    return distinct is not None and (distinct.note or "").startswith("of the 2 ")


def _calibration(metrics: Metrics, _: str) -> Iterator[Finding]:
    ece = known(metrics, "calibration/ece")
    if ece is not None and ece.low is not None:  # one or two cases would show nothing
        value, low, high = (None if x is None else 100 * x for x in (ece.value, ece.low, ece.high))
        points = Metric(ece.name, value, low, high)
        text = gettext(
            "Its confidence differs from its accuracy by {points} points on average", points=interval(points, 0)
        )
        if ece.low == 0 and (ece.high or 0) > FAR_OFF:
            text = gettext(
                "It is unknown whether its confidence is reliable (n = {n:,}): it differs from its accuracy by 0 to "
                "{high:.0f} points on average",
                n=ece.n,
                high=high,
            )
        yield finding("calibration/ece", "warn" if ece.low > FAR_OFF else "info", _turned(metrics).fill(finding=text))


def _turned(metrics: Metrics) -> Text:
    """Return how confidence counts if it was stated for another winner than the weighted one."""
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value or WEIGHED not in (rate.note or ""):
        return gettext("{finding}.")
    return gettext(
        "{finding}; where the overall winner is not the weighted one, a confidence c counts as 1 - c (0.5 if either "
        "is a tie)."
    )


def _cascade(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield who decides in a cascade, the agreement behind its guarantee, and what it saves."""
    start = "cascade/share/"
    shares = [(name, one) for name in metrics if name.startswith(start) and (one := known(metrics, name)) is not None]
    abstained, accuracy = known(metrics, "cascade/abstained"), known(metrics, "cascade/accuracy")
    if not shares or abstained is None:
        return
    parts = joined(f"{name.removeprefix(start)} {percent(one)}" for name, one in shares)
    text = gettext(
        "The judges of the cascade decide in turn: {shares} of {n:,} pairs or responses. It abstains in {abstained}.",
        shares=parts,
        abstained=percent(abstained),
    )
    if abstained.value == 1:
        text = gettext(
            "The cascade abstains in all {n:,} pairs or responses: no judge is sure enough. More labels, a lower "
            "judge.target or better judges let it decide."
        )
    yield finding(abstained, "bad" if abstained.value == 1 else "info", text)
    for name, one in shares:
        if REST in (one.note or "") and one.value:
            judge = name.removeprefix(start)
            yield finding(one, "info", gettext("{judge} answers {rate} of {n:,} without the guarantee.", judge=judge))
    if accuracy is not None:
        text = gettext("Where a judge is sure enough, {rate} of {n:,} agree with labels that chose no threshold.")
        if any(GIVEN in (one.note or "") for _, one in shares):
            text = gettext(
                "Where a judge is sure enough, {rate} of {n:,} agree with labels; this is too high if these labels "
                "chose judge.thresholds."
            )
        yield finding(accuracy, "info", text)
    ratio, cost = known(metrics, "cascade/cost_ratio"), known(metrics, "cost/per_case")
    if ratio is not None and cost is not None and ratio.value and cost.value:
        text = gettext(
            "A case costs {cost}, {ratio} times as much as with the last judge alone ({alone}).",
            cost=dollars(cost.value),
            ratio=interval(ratio),
            alone=dollars(cost.value / ratio.value),
        )
        yield finding(ratio.name, "info", text)


def _label_sample(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how the labeled cases were chosen, if not at random with equal probabilities."""
    if (picked := known(metrics, "labels/picked")) is not None:
        text = gettext(
            "{rate} of the {n:,} labeled cases were picked for labeling with unknown probabilities: comparisons with "
            "labels are about the labeled cases, not about the data set."
        )
        yield finding(picked, "bad", text)
    elif (effective := known(metrics, "labels/effective")) is not None:
        text = gettext(
            "The {n:,} labeled cases were sampled, informative ones more often. Comparisons with labels are weighted, "
            "so they are about all cases, as precise as {random:.0f} labels at random.",
            random=effective.value,
        )
        yield finding(effective, "info", text)


_FINDERS: tuple[Callable[[Metrics, str], Iterator[Finding]], ...] = (
    _label_sample,
    _cascade,
    agreement,
    benchmark_finding,
    checklist_findings,
    _missing,
    _position,
    _ties,
    _aggregate,
    _length,
    bias_findings,
    _conflicts,
    _scores,
    _calibration,
    panel_findings,
    turn_findings,
)
_CLASS_FINDERS = (
    _label_sample,
    _cascade,
    benchmark_finding,
    _missing,
    bias_findings,
    _calibration,
    panel_findings,
    turn_findings,
)
"""The findings of a run whose judge chooses classes, after those on their agreement with labels."""
