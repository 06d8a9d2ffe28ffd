"""The findings of a sweep: which configuration is best, which may be as good, and which is worth its cost.

That two configurations do not differ significantly does not make them equal: a cheaper one is recommended only if it
is shown to be better than chance and not worse by more than `scoring.margin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalkit.core.display import dollars, interval, percent
from evalkit.core.translation import LANGUAGES, Message, Text, gettext, joined, ngettext, pgettext, translator
from evalkit.report.counts import Finding, finding, side
from evalkit.report.metric_names import metric_title
from evalkit.scoring.leaderboard import (
    ACCURACY,
    CONSISTENCY,
    CONTRADICTION,
    COST,
    Leaderboard,
    Standing,
    clearly_cheaper,
)
from evalkit.types import Metric

FIRST, LENGTH = "position/first_rate", "length/slope_at_label"
NAMED = 4
"""The most configurations that a sentence names."""
MANY_MISSING = 0.05
"""A configuration has many missing answers from this share on."""


def contest_findings(board: Leaderboard, names: Mapping[str, str], datasets: Mapping[str, str]) -> list[Finding]:
    """Return the findings on a leaderboard, most important first, dataset by dataset.

    `names` has the name of each configuration by job; `datasets` the name of each dataset by fingerprint.
    """
    if board.by is None:
        text = gettext("Nothing to rank by: no configuration has labels, or pairs in both orders.")
        return [finding("leaderboard", "warn", text)]
    groups = {name: [row for row in board.rows if row.dataset == name] for name in _unique(board)}
    found = []
    for dataset, rows in groups.items():
        named = datasets.get(dataset) or dataset[:12] if len(groups) > 1 else ""
        found += [_of(finding, named) for finding in _group(board, board.by, rows, names)]
    return found


def _unique(board: Leaderboard) -> list[str]:
    return list(dict.fromkeys(row.dataset for row in board.rows))


def _of(finding: Finding, dataset: str) -> Finding:
    if not dataset:
        return finding
    texts = zip(LANGUAGES, (finding.text, finding.text_zh), strict=True)
    english, chinese = (
        gettext("{dataset}: {text}", dataset=dataset, text=text).render(translator(language))
        for language, text in texts
    )
    return Finding(finding.metric, finding.tone, english, chinese)


def _group(board: Leaderboard, by: str, rows: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    ranked = [row for row in rows if row.letters is not None]
    if not ranked:
        return
    like = _like_best(board, ranked)
    if all(row.useful is False for row in ranked):
        text = gettext(
            "No configuration is shown to be better than chance: this sweep gives no reason to choose any of them."
        )
        yield finding(by, "bad", text)
    yield from _best(board, by, ranked, like, names)
    yield from _missing(by, ranked, names)
    yield from _cheap(board, ranked, names)
    yield from _chance(by, ranked, names)
    if by == CONSISTENCY:
        text = gettext(
            "No pair is labeled, so the ranking is by consistency alone: a consistent judge can still be wrong."
        )
        yield finding(by, "warn", text)
    else:
        yield from _consistency(ranked, names)
    yield from _places(ranked, names)
    yield from _lengths(ranked, names)
    yield from _contradictions(board, ranked, names)


def _like_best(board: Leaderboard, ranked: Sequence[Standing]) -> list[Standing]:
    """Return the configurations that do not differ significantly from the highest."""
    alpha = 1 - board.confidence
    apart = {frozenset((c.first, c.second)) for c in board.contrasts if c.p_holm is not None and c.p_holm <= alpha}
    return [row for row in ranked[1:] if frozenset((ranked[0].job, row.job)) not in apart]


def _listed(rows: Sequence[Standing], names: Mapping[str, str]) -> Message:
    shown = joined((names[row.job] for row in rows[:NAMED]), gettext("; "))
    more = len(rows) - NAMED
    return gettext("{names} and {more} more", names=shown, more=more, all=len(rows)) if more > 0 else shown


def _best(
    board: Leaderboard, by: str, ranked: Sequence[Standing], like: Sequence[Standing], names: Mapping[str, str]
) -> Iterator[Finding]:
    name, seen = names[ranked[0].job], interval(ranked[0].metrics[by])
    values = {"name": name, "value": seen, "level": f"{100 * (1 - board.confidence):g}%", "what": _measure(by)}
    sure = ranked[0].useful is not False and not missing_share(ranked[0], by) >= MANY_MISSING
    if len(ranked) == 1:
        yield finding(by, "info", gettext("{name}: {what} {value}.").fill(**values))
        return
    others = len(ranked) - 1
    if not like:
        text = (
            gettext("{name} is best by {what}: {value}; the other is significantly worse (Holm, {level}).")
            if others == 1
            else gettext("{name} is best by {what}: {value}; every other is significantly worse (Holm, {level}).")
        )
        yield finding(by, "good" if sure else "warn", text.fill(**values))
    elif len(like) == others:
        text = ngettext(
            "No configuration is shown to be best by {what}: {name} is highest with {value}, and the other does not "
            "differ significantly from it (Holm, {level}). That does not show that they are equal.",
            "No configuration is shown to be best by {what}: {name} is highest with {value}, and none of the {n} "
            "others differs significantly from it (Holm, {level}). That does not show that they are equal.",
            others,
        )
        yield finding(by, "warn", text.fill(**values))
    else:
        text = ngettext(
            "{name} is highest by {what}, {value}; {n} of {all} others does not differ significantly from it but may "
            "still be worse (Holm, {level}): {names}.",
            "{name} is highest by {what}, {value}; {n} of {all} others do not differ significantly from it but may "
            "still be worse (Holm, {level}): {names}.",
            len(like),
        )
        yield finding(by, "info", text.fill(**values, all=others, names=_listed(like, names)))


def missing_share(row: Standing, by: str) -> float:
    """Return the share of units without a usable answer among those that a configuration is ranked by."""
    metric = row.metrics.get(by)
    return metric.missing / (metric.n + metric.missing) if metric is not None and metric.missing else 0.0


def _missing(by: str, ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    """Yield which configurations have many missing answers, most first: they are not in the numbers."""
    lacking = sorted(
        (row for row in ranked if missing_share(row, by) >= MANY_MISSING), key=lambda row: -missing_share(row, by)
    )
    if not lacking:
        return
    shares = [
        gettext("{name} ({share})", name=names[row.job], share=f"{100 * missing_share(row, by):.0f}%")
        for row in lacking[:NAMED]
    ]
    listed: Message = joined(shares, gettext("; "))
    if len(lacking) > NAMED:
        listed = gettext("{names} and {more} more", names=listed, more=len(lacking) - NAMED, all=len(lacking))
    text = ngettext(
        "Many answers are missing in {n} of {all} configurations: {names}. Missing answers do not count in its "
        "{what}: fix them before you choose.",
        "Many answers are missing in {n} of {all} configurations: {names}. Missing answers do not count in their "
        "{what}: fix them before you choose.",
        len(lacking),
        all=len(ranked),
        names=listed,
        what=_measure(by),
    )
    yield finding(by, "bad", text)


def _measure(by: str) -> Text | str:
    """Return the name of a metric within a sentence."""
    within = {
        ACCURACY: pgettext("within a sentence", "accuracy (agreement with labels)"),
        CONSISTENCY: pgettext("within a sentence", "same verdict in both orders"),
    }
    return within.get(by) or metric_title(by)


def _chance(by: str, ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known = [row for row in ranked if row.useful is not None]
    open_ = [row for row in known if row.decision.use == "unknown"]
    worse = [row for row in known if row.decision.use == "none"]
    if open_:
        text = gettext("Not shown to be better than chance: {n} of {all}: {names}.")
        text = text.fill(n=len(open_), all=len(known), names=_listed(open_, names))
        yield finding(by, "bad", text)
    if worse:
        text = gettext("Worse than chance: {n} of {all}: {names}. Check that the labels are not reversed.")
        yield finding(by, "bad", text.fill(n=len(worse), all=len(known), names=_listed(worse, names)))


def _cheap(board: Leaderboard, ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    best, cost = ranked[0], ranked[0].metrics.get(COST)
    own = _price(best)
    if not best.useful or not own:
        return
    cheaper = [row for row in ranked[1:] if row.useful and clearly_cheaper(row.metrics.get(COST), cost)]
    sound = [(price, row) for row in cheaper if row.non_inferior and (price := _price(row)) is not None]
    margin, top = f"{board.margin:g}", names[best.job]
    if sound:
        price, row = min(sound, key=lambda one: one[0])
        name, share, each = names[row.job], f"{100 * price / own:.0f}%", dollars(price)
        behind = interval(row.behind, 3) if row.behind else "-"
        text = gettext(
            "{name} costs {share} of what {top} costs ({each} per case), is better than chance, and is not worse by "
            "more than {margin}: difference {behind}."
        )
        text = text.fill(name=name, share=share, top=top, each=each, margin=margin, behind=behind)
        yield finding(COST, "good", text)
    elif cheaper:
        text = ngettext(
            "One cheaper configuration is better than chance, but it is not shown to be within {margin} of {top}: "
            "more cases could tell.",
            "{n} cheaper configurations are better than chance, but none is shown to be within {margin} of {top}: "
            "more cases could tell.",
            len(cheaper),
            margin=margin,
            top=top,
        )
        yield finding(COST, "info", text)


def _price(row: Standing) -> float | None:
    metric = row.metrics.get(COST)
    return metric.value if metric else None


def _consistency(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known = [
        (metric.value, row) for row in ranked if (metric := row.metrics.get(CONSISTENCY)) and metric.value is not None
    ]
    if len(known) < 2:
        return
    (_, low), (_, high) = min(known, key=lambda one: one[0]), max(known, key=lambda one: one[0])
    worst, top = percent(low.metrics[CONSISTENCY]), percent(high.metrics[CONSISTENCY])
    if worst == top:
        text = gettext("All keep their verdict in {rate} of pairs when the order is swapped.", rate=top)
        yield finding(CONSISTENCY, "info", text)
        return
    text = gettext(
        "When the order is swapped, {highest} keeps its verdict in {top} of pairs, {lowest} in {worst}.",
        highest=names[high.job],
        top=top,
        lowest=names[low.job],
        worst=worst,
    )
    yield finding(CONSISTENCY, "info", text)


def _contradictions(board: Leaderboard, ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    """Yield how often scores contradict comparisons by the same judge."""
    jobs = {row.job for row in ranked}
    known = [one for one in board.contradictions if one.scores in jobs and one.metrics[CONTRADICTION].value is not None]
    if not known:
        return
    rates = [
        gettext(
            "{scores} versus {comparisons}: {rate}",
            scores=names[one.scores],
            comparisons=names[one.comparisons],
            rate=percent(one.metrics[CONTRADICTION]),
        )
        for one in known[:NAMED]
    ]
    text = gettext(
        "Share of pairs, decided by both, in which scores contradict comparisons: {rates}.",
        rates=joined(rates, gettext("; ")),
    )
    yield finding(CONTRADICTION, "info", text)


def _places(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known, measured = _known(ranked, FIRST), _measured(ranked, FIRST)
    swayed = [row for row, metric in known if side(metric, 0.5) == "above"]
    first, second = len(swayed), sum(side(metric, 0.5) == "below" for _, metric in known)
    if first and not second:
        text = ngettext(
            "{n} of {all} configurations clearly prefers the answer shown first, none the second: {names}.",
            "{n} of {all} configurations clearly prefer the answer shown first, none the second: {names}.",
            first,
            all=measured,
            names=_listed(swayed, names),
        )
        yield finding(FIRST, "warn", text)
    elif second:
        text = gettext("Of {all} configurations, {first} clearly prefer the answer shown first, {second} the second.")
        yield finding(FIRST, "warn", text.fill(all=measured, first=first, second=second))


def _lengths(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known = _known(ranked, LENGTH)
    if swayed := [row for row, metric in known if side(metric, 0.0) == "above"]:
        text = ngettext(
            "{n} of {all} configurations prefers longer answers beyond what the labels explain: {names}.",
            "{n} of {all} configurations prefer longer answers beyond what the labels explain: {names}.",
            len(swayed),
            all=_measured(ranked, LENGTH),
            names=_listed(swayed, names),
        )
        yield finding(LENGTH, "warn", text)


def _measured(ranked: Sequence[Standing], name: str) -> int:
    """Return how many configurations have a value of a metric, with or without an interval."""
    return sum(metric.value is not None for row in ranked if (metric := row.metrics.get(name)) is not None)


def _known(ranked: Sequence[Standing], name: str) -> list[tuple[Standing, Metric]]:
    """Return the configurations whose metric has an interval, with it."""
    return [(row, metric) for row in ranked if (metric := row.metrics.get(name)) and metric.low is not None]
