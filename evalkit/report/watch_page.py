"""The findings and the page of a watch: its looks, and whether the judge has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from evalkit.core.display import dollars, estimate, fixed, points
from evalkit.core.translation import Message, gettext, joined, ngettext
from evalkit.core.types import Metric
from evalkit.report.figures.drawing import Figure
from evalkit.report.figures.forest import Row, bounds, forest_figure
from evalkit.report.findings.finding import Finding, finding
from evalkit.report.page import render
from evalkit.report.texts import FIGURES, WATCH, note_text, note_words
from evalkit.scoring.looks import BASELINE, FALSE_ALARMS, Baseline, Look

MOST: Final = 60
"""The most looks that a figure shows."""
REPORTED: Final = {"models": gettext("model"), "fingerprints": gettext("fingerprint")}


def watch_findings(baseline: Baseline) -> list[Finding]:
    """Return what is known after the last look, the conclusion first."""
    # Looks with all answers; only these are compared.
    looks = baseline.complete
    last = baseline.looks[-1]
    findings = [] if last.complete else [_incomplete(last)]
    findings += [_conclusion(baseline, looks)]
    # Scores are compared by distance, other verdicts by whether they are equal.
    scores = bool(looks) and any(
        isinstance(answer, int | float) for answer in looks[-1].answers
    )
    # The first looks have no facts: they are what later ones are compared with.
    if looks and (facts := looks[-1].facts) is not None:
        if (
            facts.excess is not None
            and facts.noise is not None
            and facts.flips is not None
        ):
            parts = {
                "flips": _share(facts.flips),
                "noise": _share(facts.noise),
                "excess": points(facts.excess),
            }
            text = gettext(
                "In the last look alone, {flips} of the answers differ from those of the first two,"
                " which differ from each other in {noise}: a difference of {excess} points.",
                **parts,
            )
            if scores:
                text = gettext(
                    "In the last look alone, scores are {flips} of the scale away from those of the"
                    " first two on average, which are {noise} away from each other: a difference of"
                    " {excess} points.",
                    **parts,
                )
            findings.append(finding("watch/excess_flips", "info", text))
        if facts.change is not None and facts.agreement is not None:
            values = {
                "agreement": _share(facts.agreement),
                "change": points(facts.change),
            }
            text = gettext(
                "Agreement with the labels: {agreement} in the last look, a difference of {change}"
                " points from the first two.",
                **values,
            )
            if scores:
                text = gettext(
                    "Agreement with the labels (1 minus the distance of scores as a share of the"
                    " scale): {agreement} in the last look, a difference of {change} points from"
                    " the first two.",
                    **values,
                )
            findings.append(finding("watch/agreement_change", "info", text))
    return [*findings, *_changed_models(baseline, looks)]


def _conclusion(baseline: Baseline, looks: Sequence[Look]) -> Finding:
    """Return whether the judge has changed, or that too few looks are complete to say so."""
    # Looks after those of the baseline.
    later = len(looks) - BASELINE
    if (first := baseline.changed) is not None:
        text: Message = gettext(
            "The judge has changed: look {look} shows that its answers differ from the earlier ones"
            " by more than its own noise (evidence {evidence}, and {limit} suffices). Validate it"
            " again; --reset then starts from a new baseline.",
            look=first.number,
            evidence=_evidence(first),
            limit=_LIMIT,
        )
        return finding("watch/evidence", "bad", text)
    if later < 1:
        text = gettext(
            "Complete looks of the baseline: {n} of {baseline}. Nothing is compared yet. Take the"
            " next look by the same command.",
            n=len(looks),
            baseline=BASELINE,
        )
        return finding("watch/evidence", "info", text)
    text = ngettext(
        "No change of the judge was found in the look after the first two (evidence {evidence};"
        " {limit} would suffice). This does not show that there is none.",
        "No change of the judge was found in {n} looks after the first two (evidence {evidence};"
        " {limit} would suffice). This does not show that there is none.",
        later,
        evidence=_evidence(looks[-1]),
        limit=_LIMIT,
    )
    return finding("watch/evidence", "good", text)


_LIMIT: Final = f"{1 / FALSE_ALARMS:g}"


def _evidence(look: Look) -> str:
    # An e-value: a look without facts has the evidence of no data, 1.
    size = look.facts.evidence if look.facts is not None else 1.0
    if size < 100:
        return f"{size:.2g}"
    if size <= 1e6:
        return f"{size:,.0f}"
    return ">1,000,000"


def _share(metric: Metric) -> str:
    return estimate(
        metric.value, metric.low, metric.high, lambda value: fixed(100 * value, 1), "%"
    )


def _incomplete(look: Look) -> Finding:
    text = gettext(
        "Look {look} is not complete ({why}) and decides nothing: run the same command again to"
        " take the rest.",
        look=look.number,
        why=note_text(look.why or "interrupted"),
    )
    return finding("watch/looks", "warn", text)


def _changed_models(baseline: Baseline, looks: Sequence[Look]) -> Iterator[Finding]:
    """Yield a finding for each judge with another reported model or fingerprint than in
    the first look.
    """
    if not looks:
        return
    first_look, *_ = looks
    *_, last_look = looks
    # Answers are compared from the first look after the baseline on.
    answers_are_same = len(looks) > BASELINE and baseline.changed is None
    for attribute, kind in REPORTED.items():
        for judge, before in getattr(first_look, attribute).items():
            now = getattr(last_look, attribute).get(judge, ())
            # A provider that reports nothing now shows no change.
            if not now or not set(now).isdisjoint(before):
                continue
            text: Message = gettext(
                "The provider reports another {kind} for {judge} since look {look}: {now} instead"
                " of {before}.",
                kind=kind,
                judge=judge,
                look=_first_changed_look(looks, attribute, judge),
                now=joined(now),
                before=joined(before),
            )
            if answers_are_same:
                text = gettext(
                    "{report} Its answers have not changed noticeably.", report=text
                )
            yield finding(f"watch/{attribute}", "warn", text)


def _first_changed_look(looks: Sequence[Look], attribute: str, judge: str) -> int:
    """Return the number of the look since which a judge's reports differ from the first look's.

    A look without a report says nothing, and is passed over.
    """
    before = {*getattr(looks[0], attribute)[judge]}
    first_changed = looks[-1].number
    # From the last look back to the one that still agrees with the first.
    for look in reversed(looks):
        reported = {*getattr(look, attribute).get(judge, ())}
        if reported & before:
            break
        if reported:
            first_changed = look.number
    return first_changed


def render_watch(baselines: Sequence[Baseline]) -> str:
    """Return one self-contained HTML page on a watch."""
    # The last baseline is the current one.
    baseline = baselines[-1]
    later = [
        (look, look.facts)
        # The most recent looks, without those of the baseline.
        for look in baseline.complete[BASELINE:][-MOST:]
        if look.facts is not None
    ]
    figures = [
        _figure("watch_flips", [(look, facts.excess) for look, facts in later]),
        _figure("watch_agreement", [(look, facts.change) for look, facts in later]),
    ]
    values = {
        "title": baseline.judge,
        "start": "en",
        "level": f"{100 * (1 - FALSE_ALARMS):g}%",
        "facts": [
            (name, (f"{n:,}",) * 2)
            for name, n in (
                ("looks", len(baseline.complete)),
                ("cases", baseline.cases),
            )
        ],
        "findings": watch_findings(baseline),
        "words": WATCH,
        "figures": [figure for figure in figures if figure is not None],
        "baselines": [*reversed(baselines)],
        "first": BASELINE,
        "shown": {
            "share": _share,
            "points": points,
            "dollars": dollars,
            "evidence": _evidence,
            "why": note_words,
        },
    }
    return render("watch.html.j2", values, data={})


def _figure(
    name: str, differences: Sequence[tuple[Look, Metric | None]]
) -> Figure | None:
    """Return differences from the first two looks with their intervals, by look; `None`
    if there are none.
    """
    rows = [
        Row((f"{look.number} · {look.started[:10]}",) * 2, metric, 0.0)
        for look, metric in differences
        if metric is not None
    ]
    if rows:
        return forest_figure(name, FIGURES[name], rows, *bounds(rows))
    return None
