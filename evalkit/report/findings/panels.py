"""Findings on panels and cascades: how their judges agree, which are enough, and who decides."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import dollars, interval, percent, points
from evalkit.core.translation import gettext, joined, pgettext
from evalkit.decision import Metrics, judges_of, known
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.metrics.panels import ALIKE, DISAGREEMENT, ERRORS, GIVEN, NO_LABEL, REST, VOTES
from evalkit.scoring.metrics.subsets import ACCURACY, LEAD

RELIABLE_ALPHA = 0.8  # Krippendorff (2004), Hum. Commun. Res. 30, 411-433


def panel_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how the judges of a panel agree, and whether they err on the same units."""
    if (alpha := known(metrics, "panel/alpha")) is not None:
        text = gettext(
            "The judges of the panel agree with an alpha of {alpha}; firm conclusions need 0.8.", alpha=interval(alpha)
        )
        relied = alpha.low is not None and alpha.low >= RELIABLE_ALPHA
        yield finding("panel/alpha", "good" if relied else "warn", text)
    yield from _effective_votes(metrics)


def _effective_votes(metrics: Metrics) -> Iterator[Finding]:
    errors, votes = known(metrics, ERRORS), known(metrics, VOTES)
    if errors is None or votes is None or errors.low is None or votes.low is None:
        yield from _without_errors(metrics)
        return
    judges = len(judges_of(metrics))
    text = gettext(
        "The judges are not shown to err on the same units (correlation of errors {errors}, {n:,} labels): {judges} "
        "judges count as {votes} independent votes."
    )
    if errors.low > 0:
        text = gettext(
            "The judges err on the same units (correlation of errors {errors}, {n:,} labels): {judges} judges count as "
            "{votes} independent votes."
        )
    elif votes.low < (1 + judges) / 2:
        text = gettext(
            "{n:,} labels are too few to show whether the judges err on the same units (correlation of errors "
            "{errors}): {judges} judges count as {votes} independent votes."
        )
    text = text.fill(errors=interval(errors), n=errors.n, judges=judges, votes=interval(votes, 1))
    yield finding(VOTES, "warn" if errors.low > 0 else "info", text)


def _without_errors(metrics: Metrics) -> Iterator[Finding]:
    """Yield that effective votes are unknown: no judge errs on some units only, or nothing has a label."""
    votes, apart = metrics.get(VOTES), known(metrics, DISAGREEMENT)
    if votes is not None and votes.note == ALIKE:
        text = gettext(
            "Whether the judges err on the same units is open: none is right on some of the {n:,} labels and wrong on "
            "others."
        )
        yield finding(votes, "info", text)
    if votes is None or votes.note != NO_LABEL:
        return
    text = gettext("Without labels, it is unknown whether the judges err on the same units.")
    if apart is not None:
        text = gettext(
            "{finding} Correlation of their disagreement with the other judges: {value}, which errors of the others "
            "raise.",
            finding=text,
            value=interval(apart),
        )
    yield finding(VOTES, "info", text)


def subset_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield which judges of a panel are enough."""
    table = run.details.get("panel") or {}
    accuracy, lead = known(metrics, ACCURACY), known(metrics, LEAD)
    if accuracy is None or lead is None or lead.low is None or not table:
        return
    chosen = next(row for row in table["subsets"] if row["chosen"])
    whole = max(table["subsets"], key=lambda row: len(row["judges"]))
    facts = {"judges": len(whole["judges"]), "margin": f"{100 * table['margin']:g}", "n": accuracy.n}
    enough = lead.low >= -table["margin"]
    if chosen is whole:
        text = gettext(
            "On {n:,} labels, no smaller panel is within {margin} points of the accuracy of the best one, which has "
            "all {judges} judges."
        )
        yield finding(LEAD, "info", text.fill(**facts))
        return
    if enough:
        text = gettext("{names} can replace all {judges} judges: at most {margin} points less accurate.")
    else:
        text = gettext("It is open whether {names} can replace all {judges} judges within {margin} points of accuracy.")
    text = gettext(
        "{finding} Accuracy {accuracy} on {n:,} labels, a lead of {lead} points over all judges, each for a subset "
        "chosen on other labels.",
        finding=text.fill(names=joined(chosen["judges"], pgettext("names", ", ")), **facts),
        accuracy=percent(accuracy),
        n=accuracy.n,
        lead=points(lead),
    )
    if chosen["cost_usd"] is not None and whole["cost_usd"]:
        cost, full = dollars(chosen["cost_usd"]), dollars(whole["cost_usd"])
        text = gettext("{finding} Cost per case: {cost} instead of {full}.", finding=text, cost=cost, full=full)
    yield finding(LEAD, "good" if enough else "info", text)


def cascade_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
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
