"""The findings and the page of a watch: its looks, and whether the judge has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from evalkit.core.display import dollars, fixed, points
from evalkit.core.translation import Message, gettext, joined, ngettext
from evalkit.report.counts import Finding, finding
from evalkit.report.figures.drawing import Axis, Figure, canvas, line, node, text
from evalkit.report.page import render
from evalkit.report.texts import FIGURES, LABELS, WATCH, Words
from evalkit.scoring.looks import BASELINE, FALSE_ALARMS, Baseline, Look
from evalkit.types import Metric

WIDTH, HEIGHT, MOST = 740.0, 300.0, 60
"""The size of the figures, and the most looks that they show."""
REPORTED: Final = {"models": gettext("model"), "fingerprints": gettext("fingerprint")}


def watch_findings(baseline: Baseline) -> list[Finding]:
    """Return what is known after the last look, the conclusion first."""
    looks, last = baseline.complete, baseline.looks[-1]
    found = [] if last.complete else [_incomplete(last)]
    found += [_conclusion(baseline, looks)]
    if looks and (facts := looks[-1].facts) is not None:
        if facts.excess is not None and facts.noise is not None and facts.flips is not None:
            parts = {"flips": _share(facts.flips), "noise": _share(facts.noise), "excess": points(facts.excess)}
            what = gettext(
                "In the last look alone, {flips}% of the answers differ from those of the first two, which differ from "
                "each other in {noise}%: {excess} points more.",
                **parts,
            )
            found.append(finding("watch/excess_flips", "info", what))
        if facts.change is not None and facts.agreement is not None:
            what = gettext(
                "Agreement with the labels: {agreement}% in the last look, {change} points against the first two.",
                agreement=_share(facts.agreement),
                change=points(facts.change),
            )
            found.append(finding("watch/agreement_change", "info", what))
    return [*found, *_providers(baseline, looks)]


def _conclusion(baseline: Baseline, looks: Sequence[Look]) -> Finding:
    later = len(looks) - BASELINE
    if (first := baseline.changed) is not None:
        what: Message = gettext(
            "The judge has changed: look {look} shows that its answers differ from the earlier ones by more than its "
            "own noise (evidence {evidence}, and {limit} suffices). Validate it again; --reset then starts from a new "
            "baseline.",
            look=first.number,
            evidence=_evidence(first),
            limit=_LIMIT,
        )
        return finding("watch/evidence", "bad", what)
    if later < 1:
        what = gettext(
            "{n} of the {baseline} looks of the baseline are complete: nothing is compared yet. Take the next look by "
            "the same command.",
            n=len(looks),
            baseline=BASELINE,
        )
        return finding("watch/evidence", "info", what)
    what = ngettext(
        "No change of the judge was found in the look after the first two (evidence {evidence}; {limit} would "
        "suffice). This does not show that there is none.",
        "No change of the judge was found in {n} looks after the first two (evidence {evidence}; {limit} would "
        "suffice). This does not show that there is none.",
        later,
        evidence=_evidence(looks[-1]),
        limit=_LIMIT,
    )
    return finding("watch/evidence", "good", what)


_LIMIT: Final = f"{1 / FALSE_ALARMS:g}"


def _evidence(look: Look) -> str:
    size = look.facts.evidence if look.facts is not None else 1.0
    return f"{size:.2g}" if size < 100 else f"{min(size, 1e6):,.0f}"


def _share(value: float) -> str:
    return fixed(100 * value, 1)


def _incomplete(look: Look) -> Finding:
    what = gettext(
        "Look {look} is not complete ({why}) and decides nothing: run the same command again to take the rest.",
        look=look.number,
        why=look.why or gettext("interrupted"),
    )
    return finding("watch/looks", "warn", what)


def _providers(baseline: Baseline, looks: Sequence[Look]) -> Iterator[Finding]:
    """Yield a finding for each judge whose reported model or fingerprint is another one than in the first look."""
    for attribute, kind in REPORTED.items():
        for judge, before in (getattr(looks[0], attribute) if looks else {}).items():
            now = getattr(looks[-1], attribute).get(judge, ())
            if not now or {*now} & {*before}:
                continue
            since = next(one.number for one in looks if not {*getattr(one, attribute).get(judge, ())} & {*before})
            what = gettext(
                "The provider reports another {kind} for {judge} since look {look}: {now} instead of {before}.",
                kind=kind,
                judge=judge,
                look=since,
                now=joined(now),
                before=joined(before),
            )
            same = gettext("{report} Its answers have not changed noticeably.", report=what)
            yield finding(f"watch/{attribute}", "warn", what if baseline.changed else same)


def render_watch(baselines: Sequence[Baseline]) -> str:
    """Return one self-contained HTML page on a watch."""
    baseline = baselines[-1]
    values = {
        "title": baseline.judge,
        "start": "en",
        "level": f"{100 * (1 - FALSE_ALARMS):g}%",
        "facts": _facts(baseline),
        "findings": watch_findings(baseline),
        "words": WATCH,
        "figures": [figure for figure in _figures(baseline.complete) if figure is not None],
        "rows": [row for one in reversed(baselines) for row in _rows(one, one is baseline)],
    }
    return render("watch.html.j2", values, data={})


def _facts(baseline: Baseline) -> list[tuple[str, Words]]:
    looks = baseline.looks
    facts = [("looks", f"{len(baseline.complete):,}"), ("cases", f"{baseline.cases:,}")]
    facts += [("since", looks[0].started[:16].replace("T", " ") + " UTC")] if looks else []
    costs = [look.cost_usd for look in looks]
    facts += [] if None in costs else [("spent", dollars(sum(cost or 0.0 for cost in costs)))]
    return [(name, (value, value)) for name, value in facts]


def _rows(baseline: Baseline, current: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for each look, the newest first."""
    for place, look in reversed([*enumerate(baseline.looks)]):
        facts = look.facts
        yield {
            "look": look,
            "started": look.started[:16].replace("T", " "),
            "folder": f"looks/{look.number:03}/report.html" if look.complete else None,
            "state": WATCH[_state(look, place, current)],
            "flips": "" if facts is None or facts.flips is None else f"{_share(facts.flips)}%",
            "excess": "" if facts is None or facts.excess is None else points(facts.excess),
            "agreement": "" if facts is None or facts.agreement is None else f"{_share(facts.agreement)}%",
            "change": "" if facts is None or facts.change is None else points(facts.change),
            "evidence": _evidence(look) if facts is not None and place >= BASELINE else "",
            "models": _names(look.models),
            "fingerprints": _names(look.fingerprints),
            "cost": "" if look.cost_usd is None else dollars(look.cost_usd),
        }


def _state(look: Look, place: int, current: bool) -> str:
    if not look.complete:
        return "incomplete"
    if not current:
        return "earlier"
    return "baseline" if place < BASELINE else "changed" if look.facts and look.facts.changed else "same"


def _names(found: Mapping[str, Sequence[str]]) -> str:
    several = len(found) > 1
    return "; ".join(f"{judge}: {', '.join(names)}" if several else ", ".join(names) for judge, names in found.items())


def _figures(looks: Sequence[Look]) -> Iterator[Figure | None]:
    later = [look for look in looks if look.facts is not None][BASELINE:][-MOST:]
    yield _over_looks("watch_flips", {look.number: look.facts.excess for look in later if look.facts})
    yield _over_looks("watch_agreement", {look.number: look.facts.change for look in later if look.facts})


def _over_looks(name: str, metrics: Mapping[int, Metric | None]) -> Figure | None:
    """Return differences from the first two looks with their intervals, by look; `None` if there are none."""
    known = {number: one for number, one in metrics.items() if one is not None and one.low is not None}
    if not known:
        return None
    low, high = min(one.low or 0.0 for one in known.values()), max(one.high or 0.0 for one in known.values())
    y = Axis(min(low, 0.0), max(high, 0.0), HEIGHT - 44, 30.0)
    step = (WIDTH - 64) / len(known)
    elements: list[Markup] = []
    for at, label in y.ticks():
        value = f"{100 * float(label.replace(',', '')):g}"
        elements += [line(52.0, at, WIDTH - 12, at, "grid"), text(46.0, at + 4, value, "tick end")]
    elements += [line(52.0, y(0.0), WIDTH - 12, y(0.0), "chance"), text(52.0, 18.0, LABELS["points"], "axis start")]
    every = -(-len(known) // 20)
    for place, (number, one) in enumerate(known.items()):
        at = 52 + step * (place + 0.5)
        bar = line(at, y(one.low or 0.0), at, y(one.high or 0.0), "whisker")
        dot = node("circle", class_="dot", cx=at, cy=y(one.value or 0.0), r=4)
        elements.append(node("g", node("title", f"{number}: {points(one)}"), bar, dot))
        elements += [text(at, HEIGHT - 28, f"{number}", "tick")] if place % every == 0 else []
    elements.append(text(WIDTH / 2 + 16, HEIGHT - 8, LABELS["look"], "axis"))
    title, caption = FIGURES[name]
    return Figure(name, title, canvas(WIDTH, HEIGHT, *elements, label=title), caption, wide=True)
