"""The findings on drift between two runs, in English and Chinese."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from evalkit.core.display import fixed, interval, percent, points, shorten
from evalkit.core.translation import Message, Text, gettext, joined
from evalkit.core.types import Metric
from evalkit.core.values import JsonObject
from evalkit.report.findings.decisions import (
    UNITS,
    counted,
    evidence,
    label_count,
    sentence,
)
from evalkit.report.texts import metric_measure, texts
from evalkit.scoring.decision import side
from evalkit.scoring.drift import Drift

MOST: Final = 4
"""At most this many settings are named."""
_TEXTS = texts("drift")
_PARTS = texts("drift_parts")


def findings(drift: Drift) -> list[Message]:
    """Return what a comparison shows: the conclusion first, then what changed, and how
    many verdicts did.
    """
    return [
        _conclusion(drift),
        *_few_shared(drift),
        *_changes(drift),
        *_verdicts(drift),
    ]


def _few_shared(drift: Drift) -> Iterator[Text]:
    """Yield that labels of all units that the runs share would probably be too few."""
    labeled = drift.agreement[2].n if drift.agreement else 0
    shared = 0 if drift.flips is None else drift.flips.n + drift.flips.missing
    if drift.labels_needed is not None and 0 < shared < labeled + drift.labels_needed:
        yield _TEXTS["few_shared"].fill(n=shared, units=UNITS[drift.after.unit])


def _conclusion(drift: Drift) -> Text:
    unit = drift.after.unit
    flips = drift.flips
    share = drift.share
    margin = (
        gettext("{points} points", points=f"{100 * drift.margin:g}")
        if share
        else f"{drift.margin:g}"
    )
    values: JsonObject = {
        "margin": margin,
        "lost": drift.lost,
        "more": label_count(drift.labels_needed),
    }
    values |= {"n": 0 if flips is None else flips.n + flips.missing}
    units = counted(unit, drift.lost if drift.reason == "missing" else None)
    values |= {"units": units, "evidence": _evidence(drift) if drift.agreement else ""}
    if drift.state == "same" and flips is not None and drift.reason == "flips":
        return _TEXTS["same_flips"].fill(
            **values | {"flips": percent(flips), "n": flips.n, "units": UNITS[unit]}
        )
    if drift.state == "unknown":
        if drift.reason == "no_labels" and drift.labels_needed is None:
            return _TEXTS["labels_first"].fill(units=UNITS[unit])
        if drift.reason == "agreement" and drift.labels_needed is None:
            return _TEXTS["agreement_unknown"].fill(**values | {"units": UNITS[unit]})
        has_text = drift.reason in _TEXTS
        return replace(
            _TEXTS[drift.reason if has_text else "blind"], count=drift.lost
        ).fill(**values if has_text else values | {"evidence": evidence(drift.before)})
    key = {"same": "same_agreement"}.get(drift.state, drift.state)
    if drift.state == "not_worse" and drift.changed:
        key = "different"
    if drift.state == "not_worse" and drift.better:
        key = "better"
    return _TEXTS[key].fill(**values)


def _evidence(drift: Drift) -> Text:
    """Return the agreement before and after in words."""
    before, after, difference = drift.agreement
    values: JsonObject = {
        "n": difference.n,
        "units": counted(drift.after.unit, difference.n),
    }
    if drift.share:
        text = gettext(
            "right in {before} before and {after} after on {n:,} labeled {units}, a difference of"
            " {difference} points"
        )
        return text.fill(
            before=_share(before),
            after=_share(after),
            difference=points(difference),
            **values,
        )
    text = gettext(
        "{name} with the labels of {n:,} {units} {before} before and {after} after, a difference of"
        " {difference}"
    )
    ends = {
        "before": fixed(before.value or 0.0, 2),
        "after": fixed(after.value or 0.0, 2),
    }
    return text.fill(
        name=metric_measure(before.name),
        difference=interval(difference),
        **ends,
        **values,
    )


def _share(metric: Metric) -> str:
    return percent(Metric(metric.name, metric.value))


def _changes(drift: Drift) -> Iterator[Message]:
    """Yield what changed, part by part."""
    changes = drift.changes
    parts = drift.changes.parts
    if not parts and not changes.unknown:
        flipped = drift.flips is not None and bool(drift.flips.value)
        yield _TEXTS[
            (
                {None: "nothing", True: "identical", False: "silent"}[drift.noisy]
                if flipped
                else "identical"
            )
        ]
    mixed = [
        part
        for part in parts
        if part in _PARTS and (part != "answers" or not drift.separable)
    ]
    if len(mixed) > 1:
        yield _TEXTS["several"].fill(parts=joined([_PARTS[part] for part in mixed]))
    for part in ("judge", "prompt", "scoring"):
        if changed := [setting for setting in changes.settings if setting.part == part]:
            named = [
                (
                    setting.name
                    if part == "prompt"
                    else f"{setting.name} {_value(setting.before)} → {_value(setting.after)}"
                )
                for setting in changed[:MOST]
            ]
            yield _TEXTS[part].fill(
                details=joined([*named, *(["…"] if len(changed) > MOST else [])])
            )
    counts = {
        "copied": 0 if changes.settings else changes.copied,
        "answers" if drift.separable else "other_answers": changes.answers,
        "data": changes.data,
        "cases": changes.only_before + changes.only_after,
        "labels": changes.labels,
        "unknown": changes.unknown,
    }
    values = {"before": changes.only_before, "after": changes.only_after}
    values |= {"asked": changes.asked, "shared": changes.shared}
    yield from (_TEXTS[key].fill(n=n, **values) for key, n in counts.items() if n)


def _value(value: Any) -> str:
    return shorten("–" if value is None else str(value), 40)


def _verdicts(drift: Drift) -> Iterator[Message]:
    """Yield how many verdicts changed, how many of these are noise, how scores moved,
    and the decision after.
    """
    flips = drift.flips
    reversals = drift.reversals
    if flips is not None and flips.value is not None:
        kind: Text | str = ""
        if flips.value and reversals is not None:
            kind = _TEXTS["reversals" if reversals.value else "only_ties"].fill(
                reversals=percent(reversals)
            )
        units = counted(drift.after.unit, flips.n)
        key = "flips" if drift.noise is None else "sample_flips"
        yield _TEXTS[key].fill(flips=percent(flips), n=flips.n, units=units, kind=kind)
        if drift.noise is not None and drift.beyond is not None:
            key = "noise" if drift.noisy else "beyond"
            yield _TEXTS[key].fill(
                noise=percent(drift.noise), beyond=points(drift.beyond)
            )
        elif flips.value:
            yield _TEXTS["no_noise"]
    shift = None if drift.share else drift.shift
    if shift is not None and (above := side(shift, 0.0)) in ("above", "below"):
        yield _TEXTS["higher" if above == "above" else "lower"].fill(
            shift=_absolute(shift)
        )
    if drift.agreement and drift.after.use != "unknown":
        yield _TEXTS["after"].fill(decision=sentence(drift.after, drift.metrics))


def _absolute(metric: Metric) -> str:
    low, high = sorted(abs(end or 0.0) for end in (metric.low, metric.high))
    return interval(Metric(metric.name, abs(metric.value or 0.0), low, high))
