"""Findings on cascades: who decides, and what that saves."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import dollars, interval, percent
from evalkit.core.translation import gettext, joined
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.decision import Metrics, known
from evalkit.scoring.metrics.panels import GIVEN, REST


def cascade_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield who decides in a cascade, the agreement behind its guarantee, and what it saves."""
    start = "cascade/share/"
    shares = [
        (name, share)
        for name in metrics
        if name.startswith(start) and (share := known(metrics, name)) is not None
    ]
    abstained = known(metrics, "cascade/abstained")
    accuracy = known(metrics, "cascade/accuracy")
    if not shares or abstained is None:
        return
    parts = joined(
        f"{name.removeprefix(start)} {percent(share)}" for name, share in shares
    )
    text = gettext(
        "The judges of the cascade decide in turn: {shares} of {n:,} pairs or responses. It"
        " abstains in {abstained}.",
        shares=parts,
        abstained=percent(abstained),
    )
    if abstained.value == 1:
        text = gettext(
            "The cascade abstains in {n:,} of {n:,} pairs or responses: no judge is sure enough."
            " More labels, a lower judge.target or better judges let it decide."
        )
    yield finding(abstained, "bad" if abstained.value == 1 else "info", text)
    for name, share in shares:
        # The last judge may answer what no judge is sure enough about.
        if REST in (share.note or "") and share.value:
            judge = name.removeprefix(start)
            yield finding(
                share,
                "info",
                gettext(
                    "{judge} answers {rate} of {n:,} without the guarantee.",
                    judge=judge,
                ),
            )
    if accuracy is not None:
        text = gettext(
            "Where a judge is sure enough, {rate} of {n:,} agree with labels that chose no"
            " threshold."
        )
        # Thresholds of the config may have been chosen on these labels.
        if any(GIVEN in (share.note or "") for _, share in shares):
            text = gettext(
                "Where a judge is sure enough, {rate} of {n:,} agree with labels; this is too high"
                " if these labels chose judge.thresholds."
            )
        yield finding(accuracy, "info", text)
    ratio = known(metrics, "cascade/cost_ratio")
    cost = known(metrics, "cost/per_case")
    if ratio is not None and cost is not None and ratio.value and cost.value:
        text = gettext(
            "A case costs {cost}, {ratio} times as much as with the last judge alone ({alone}).",
            cost=dollars(cost.value),
            ratio=interval(ratio),
            # The ratio is the cost of the cascade divided by that of its last judge.
            alone=dollars(cost.value / ratio.value),
        )
        yield finding(ratio.name, "info", text)
