"""Findings on rates and means that are corrected by labels."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval, percent
from evalkit.core.translation import gettext, pgettext
from evalkit.core.types import Metric
from evalkit.report.findings.finding import (
    Finding,
    RunFacts,
    Tone,
    class_names,
    finding,
    has_classes,
)
from evalkit.scoring.decision import Metrics, known, labels, side
from evalkit.scoring.metrics.corrections import RANDOM

RATES = {
    "win_rate/a": gettext("Response A wins"),
    "win_rate/b": gettext("Response B wins"),
    "tie_rate": pgettext("finding", "Ties"),
}


def corrections(metrics: Metrics, _: RunFacts | None = None) -> Iterator[Finding]:
    """Yield the rates of a run, or of one of its judges, that are corrected by labels."""
    yield from (_of_classes if has_classes(metrics) else _of_rates)(metrics)


def corrected_rates(metrics: Metrics) -> Iterator[tuple[str, Metric, Metric]]:
    """Yield each rate that labels correct: its key in `RATES` or its class, and the
    rate as judged and corrected.

    Labels of picked cases correct none, because they do not show a rate over all cases.
    """
    if known(metrics, "labels/picked") is not None:
        return
    # (key, rate as judged, corrected rate): pairs first, then classes.
    names = [(name, name, f"corrected/{name}") for name in RATES]
    names += [
        (name, f"class/{name}/rate", f"corrected/prediction_powered/{name}")
        for name in class_names(metrics)
    ]
    for name, rate, better in names:
        judged = known(metrics, rate)
        right = known(metrics, better)
        if (
            judged is not None
            and right is not None
            and right.low is not None
            # Only corrections that need a random sample of labels, and say so in their note.
            and RANDOM in (right.note or "")
        ):
            yield name, judged, right


def is_determined(right: Metric) -> bool:
    """Return whether labels determine a corrected rate at all: its interval excludes some rate."""
    # An interval from 0 to 1 excludes no rate.
    return right.low is None or right.high is None or right.low > 0 or right.high < 1


def _of_rates(metrics: Metrics) -> Iterator[Finding]:
    """Yield the judge's rates corrected by the labeled cases, if other cases have no label."""
    for name, judged, right in corrected_rates(metrics):
        off = _beyond(judged, right)
        text = {
            "above": gettext(
                "{what}: {judged} as judged, {corrected} corrected by {n:,} labels; the judge gives"
                " this verdict too often."
            ),
            "below": gettext(
                "{what}: {judged} as judged, {corrected} corrected by {n:,} labels; the judge gives"
                " this verdict too rarely."
            ),
            None: gettext(
                "{what}: {judged} as judged, {corrected} corrected by {n:,} labels."
            ),
        }[off]
        text = text.fill(
            what=RATES[name], judged=percent(judged), corrected=percent(right)
        )
        yield finding(right, "warn" if off else "info", text)


def _beyond(judged: Metric, right: Metric) -> str | None:
    """Return on which side of the corrected interval the judge's rate is; `None` if it
    is inside or labels are few.
    """
    if judged.value is None:
        return None
    # The corrected interval above the judge's rate means that this rate is too low.
    return {"below": "above", "above": "below"}.get(side(right, judged.value))


def _of_classes(metrics: Metrics) -> Iterator[Finding]:
    """Yield each class's rate corrected by labels, if other responses have none, with
    Youden's J.
    """
    for name, judged, right in corrected_rates(metrics):
        if not is_determined(right):
            text = gettext(
                "'{name}': {judged} as judged; {n:,} labels do not determine the correct rate."
                " Label more."
            )
            yield finding(right, "warn", text.fill(name=name, judged=percent(judged)))
            continue
        text = gettext(
            "'{name}': {judged} as judged, {corrected} corrected by {n:,} labels"
        )
        text = text.fill(
            name=name, judged=percent(judged), corrected=percent(right), n=labels(right)
        )
        if (errors := known(metrics, f"corrected/rate/{name}")) is not None:
            # Two corrections of one rate: by the labeled rest, and by the rates of errors.
            text = gettext(
                "{finding}, {rate} corrected for the errors on them",
                finding=text,
                rate=percent(errors),
            )
        else:
            text = gettext(
                "{finding}; the errors on them do not determine a correction",
                finding=text,
            )
        if (youden := known(metrics, f"class/{name}/youden_j")) is not None:
            text = gettext(
                "{finding} (Youden's J {youden})", finding=text, youden=interval(youden)
            )
        tone: Tone = "warn" if _beyond(judged, right) else "info"
        yield finding(right.name, tone, gettext("{finding}.", finding=text))
