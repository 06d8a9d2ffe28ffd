"""The findings of a sweep: first which configuration to use and why, then the numbers
and names behind that.

The leaderboard chooses, by the decision about each judge; nothing here decides again. That two
configurations do not differ significantly does not make them equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from evalkit.core.display import dollars, interval, percent
from evalkit.core.translation import (
    LANGUAGES,
    Message,
    Text,
    gettext,
    joined,
    ngettext,
    pgettext,
    translator,
)
from evalkit.report.findings.decisions import (
    UNITS,
    USES,
    evidence,
    label_count,
    limit_text,
    reason_text,
    tone,
)
from evalkit.report.findings.finding import Finding, Tone, finding
from evalkit.report.findings.weak_slices import places_text
from evalkit.report.texts import metric_title
from evalkit.scoring.decision import (
    FIRST,
    LENGTH,
    Reason,
    Use,
    known,
    one_order,
    side,
)
from evalkit.scoring.decision import USES as BY_STRENGTH
from evalkit.scoring.leaderboard import (
    ACCURACY,
    CONSISTENCY,
    CONTRADICTION,
    COST,
    Choice,
    Leaderboard,
    Standing,
)
from evalkit.scoring.stats.selection import as_highest

NAMED = 4
"""The most configurations that a sentence names."""
MANY_MISSING = 0.05
"""A configuration has many missing answers from this share on."""


_MORE_LABELS: Final = gettext(
    "Do not choose yet: no configuration is shown to be useful; {more} more labeled {units} would"
    " probably decide about {name}."
)
_UNDECIDED: Final[Mapping[Reason, Text]] = {
    "missing": gettext("Do not choose yet: fix the missing answers of {name} first."),
    "one_class": gettext(
        "Do not choose yet: all labels are of one class; add labels of another."
    ),
    "picked": gettext(
        "Do not choose yet: the labels were picked; first label cases sampled at random."
    ),
    "no_labels": gettext(
        "Label {more} {units} first: without labels, nothing shows which configuration to use."
    ),
}


def contest_findings(
    board: Leaderboard, names: Mapping[str, str], datasets: Mapping[str, str]
) -> list[Finding]:
    """Return the findings on a leaderboard, most important first, dataset by dataset.

    `names` has the name of each configuration by job; `datasets` the name of each dataset by
    fingerprint.
    """
    findings = []
    for choice in board.choices:
        # Rows of one dataset; jobs with the same verdicts are folded into one row.
        rows = [row for row in board.folded if row.dataset == choice.dataset]
        # Only rows with letters of significance were compared with each other.
        ranked = [row for row in rows if row.letters is not None]
        named = dataset_name(board, choice, datasets)
        findings += choice_findings(board, choice, names, named)
        if board.by is not None and ranked:
            findings += [
                _of(finding, named)
                for finding in _group(board, board.by, ranked, choice, names)
            ]
    return findings


def dataset_name(
    board: Leaderboard, choice: Choice, datasets: Mapping[str, str]
) -> str:
    """Return the name of a choice's dataset if the leaderboard has several, otherwise
    an empty text.
    """
    several = any(row.dataset != choice.dataset for row in board.rows)
    # A leaderboard of one dataset needs no names of datasets.
    if several:
        return datasets.get(choice.dataset) or choice.dataset[:12]
    return ""


def choice_findings(
    board: Leaderboard,
    choice: Choice,
    names: Mapping[str, str],
    dataset: str = "",
    most: int = NAMED,
) -> list[Finding]:
    """Return which configuration of a dataset to use and why, then which not to trust,
    and where answers are missing.

    Args:
        board: The leaderboard.
        choice: Its choice for the dataset.
        names: The name of each configuration by job.
        dataset: The name of the dataset, if the leaderboard has several.
        most: The most configurations to name.
    """
    name = board.by or "leaderboard"
    # The tone of the choice is that of the chosen judge's decision.
    first: Tone = "warn" if choice.job is None else tone(choice.job.decision)
    if choice.reason == "none":
        first = "bad"
    if choice.job is not None and _use(choice, choice.job) != choice.job.decision.use:
        first = "warn"
    findings = [finding(name, first, choice_text(board, choice, names))]
    findings += [finding(name, "warn", text) for text in _limits(choice, names)]
    rows = [row for row in board.folded if row.dataset == choice.dataset]
    # Each note: its tone, its text, and the reason or share by job.
    notes: list[tuple[Tone, Text, dict[str, Message]]] = [
        (
            "bad",
            gettext("Do not trust {n} of {all}: {names}."),
            {
                row.job: reason_text(row.decision)
                for row in rows
                if row.decision.use == "none"
            },
        ),
        (
            "warn",
            gettext("Not decided about {n} of {all}: {names}."),
            {
                row.job: reason_text(row.decision)
                for row in rows
                # No labels at all is said once, in the choice, and not again for each job.
                if row.decision.use == "unknown" and row.decision.reason != "no_labels"
            },
        ),
        (
            "bad",
            gettext(
                "Many answers are missing in {n} of {all}, and no metric counts them: {names}."
            ),
            {
                row.job: f"{100 * share:.0f}%"
                # The largest share of missing answers first.
                for row in sorted(rows, key=lambda row: -_missing_share(row, name))
                if (share := _missing_share(row, name)) >= MANY_MISSING
            },
        ),
    ]
    for colour, text, jobs in notes:
        listed = [
            gettext("{name} ({share})", name=names[job], share=note)
            for job, note in jobs.items()
        ]
        if listed:
            text = text.fill(n=len(listed), all=len(rows), names=_listed(listed, most))
            findings.append(finding(name, colour, text))
    return [_of(finding, dataset) for finding in findings]


def _of(finding: Finding, dataset: str) -> Finding:
    if not dataset:
        return finding
    # A finding is text in each language already, so the name is added in each.
    texts = zip(LANGUAGES, (finding.text, finding.text_zh), strict=True)
    named = [
        gettext("{dataset}: {text}", dataset=dataset, text=text).render(
            translator(language)
        )
        for language, text in texts
    ]
    return Finding(finding.metric, finding.tone, *named)


def choice_text(board: Leaderboard, choice: Choice, names: Mapping[str, str]) -> Text:
    """Return in one sentence which configuration of a dataset to use, and why."""
    job = choice.job
    # All rows, also those that are folded: the number of others counts jobs.
    rows = [row for row in board.rows if row.dataset == choice.dataset]
    if choice.reason == "luck":
        return gettext(
            "Do not choose yet: {name} seems useful ({evidence}), but as the highest of {count} it"
            " may be so by luck; add labels.",
            name=names[choice.top.job],
            evidence=evidence(choice.top.decision),
            count=_rivals_of(board, rows) + 1,
        )
    if job is None:
        return _no_job(choice, rows, names)
    use = _use(choice, job)
    text = gettext("Use {name} ({use}): {why}").fill(
        name=names[job.job],
        use=USES[use],
        why=_why(board, choice, job, _rivals_of(board, rows), names),
    )
    cost = known(job.metrics, COST)
    if cost is not None:
        cost_per_case = dollars(cost.value or 0.0)
        text = gettext("{finding}; {each} per case.", finding=text, each=cost_per_case)
    else:
        text = gettext("{finding}.", finding=text)
    if use != job.decision.use:
        return gettext(
            "{finding} By itself it would be good for {use}, but not as the highest of {count}.",
            finding=text,
            use=USES[job.decision.use],
            count=_rivals_of(board, rows) + 1,
        )
    folded = [row for row in board.folded if row.dataset == choice.dataset]
    other = _good_for_more(job, folded)
    if other is None:
        return text
    return gettext(
        "{finding} For {use}, use {other}: {name} is not shown to be good for them.",
        finding=text,
        use=USES[other.decision.use],
        other=names[other.job],
        name=names[job.job],
    )


def _use(choice: Choice, job: Standing) -> Use:
    """Return what the chosen job can be used for: of one that is the highest, or the only useful
    one, what remains if luck is allowed for.
    """
    if choice.reason == "cheaper" or job.use_as_highest is None:
        return job.decision.use
    return job.use_as_highest


def _good_for_more(job: Standing, rows: Sequence[Standing]) -> Standing | None:
    """Return the job that can be used for most, if for more than the chosen one; of
    several, the one of highest rank.
    """
    most = max(rows, key=lambda row: BY_STRENGTH.index(row.decision.use))
    if BY_STRENGTH.index(most.decision.use) > BY_STRENGTH.index(job.decision.use):
        return most
    return None


def _limits(choice: Choice, names: Mapping[str, str]) -> Iterator[Text]:
    """Yield the limits of the chosen job's decision as one sentence."""
    job = choice.job
    if job is None:
        return
    texts = [limit_text(limit, job.decision) for limit in job.decision.limits]
    if job.decision.where:
        texts.insert(0, places_text(job.decision))
    if texts:
        limits = joined(texts)
        yield gettext("Limits of {name}: {limits}.", name=names[job.job], limits=limits)


def _rivals_of(board: Leaderboard, rows: Sequence[Standing]) -> int:
    """Return how many other configurations there are, twins counted once."""
    # Folded jobs have the same verdicts as another one, and are not rivals.
    jobs = {row.job for row in board.folded}
    # Without the chosen job itself.
    return sum(row.job in jobs for row in rows) - 1


def _why(
    board: Leaderboard,
    choice: Choice,
    job: Standing,
    rivals: int,
    names: Mapping[str, str],
) -> Text:
    """Return why a job is chosen."""
    if choice.reason == "only":
        return gettext(
            "the only one shown to be useful; {evidence}",
            evidence=evidence(job.decision),
        )
    # The metric that the jobs are ranked by.
    by = board.by or ""
    count = rivals + 1
    highest = as_highest(choice.top.metrics[by], count, board.confidence)
    value: Text | str = interval(highest)
    if highest != choice.top.metrics[by]:
        value = gettext("{value} as the highest of {count}", value=value, count=count)
    values = {"what": _measure(by), "value": value}
    if choice.reason == "best":
        text = gettext(
            "best by {what}, {value}; every other is significantly worse or not to be trusted"
        )
        return text.fill(**values)
    if choice.reason == "highest":
        text = gettext(
            "highest by {what}, {value}, of those shown to be useful; {n} of {all} others may be"
            " better"
        )
        if rivals == 1:
            text = gettext(
                "highest by {what}, {value}, of those shown to be useful; the other may be better"
            )
        return text.fill(**values, n=len(choice.rivals), all=rivals)
    # The reason is cost: the chosen job and the best one both have a price.
    price, top = (row.metrics[COST].value or 0.0 for row in (job, choice.top))
    text = gettext(
        "{share} of the cost of {top} ({what} {value}), not worse by more than {margin}: {behind}"
    )
    # The paired difference from the best job, with its interval.
    behind = "-" if job.behind is None else interval(job.behind, 3)
    share = f"{100 * price / top:.2g}%"
    margin = f"{board.margin:g}"
    name = names[choice.top.job]
    return text.fill(**values, share=share, top=name, margin=margin, behind=behind)


def _no_job(choice: Choice, rows: Sequence[Standing], names: Mapping[str, str]) -> Text:
    """Return why no job is chosen, and what would decide."""
    # Here the decision about the best job says what is missing.
    decision = choice.top.decision
    name = names[choice.top.job]
    if choice.reason == "none":
        return gettext("Use none of these configurations: no judge is to be trusted.")
    if choice.reason == "unranked":
        text = gettext(
            "{n} configurations are shown to be useful, but no metric ranks them: {names}."
        )
        # Jobs that are trusted, but have no metric in common that ranks them.
        usable = [row for row in rows if row.decision.trusted]
        return text.fill(n=len(usable), names=_names(usable, names))
    return _UNDECIDED.get(decision.reason, _MORE_LABELS).fill(
        more=label_count(decision.labels_needed),
        units=UNITS[decision.unit],
        name=name,
    )


def _listed(names: Sequence[Message], most: int = NAMED) -> Message:
    """Return the first of some names, and the number of the others."""
    first_names = joined(names[:most], gettext("; "))
    unnamed = len(names) - most
    if unnamed > 0:
        return gettext(
            "{names} and {more} more", names=first_names, more=unnamed, all=len(names)
        )
    return first_names


def _names(rows: Sequence[Standing], names: Mapping[str, str]) -> Message:
    return _listed([names[row.job] for row in rows])


def _group(
    board: Leaderboard,
    by: str,
    ranked: Sequence[Standing],
    choice: Choice,
    names: Mapping[str, str],
) -> Iterator[Finding]:
    yield from _cheap(board, choice, names)
    if by == CONSISTENCY:
        text = gettext(
            "No pair is labeled, so the ranking is by consistency alone: a consistent judge can"
            " still be wrong."
        )
        yield finding(by, "warn", text)
    else:
        yield from _consistency(ranked, names)
    yield from _places(ranked, names)
    yield from _lengths(ranked, names)
    yield from _contradictions(board, ranked, names)


def _missing_share(row: Standing, by: str) -> float:
    """Return the share of units without a usable answer among those that a
    configuration is ranked by.
    """
    # The metric that ranks the job counts the units without an answer.
    metric = row.metrics.get(by)
    if metric is not None and metric.missing:
        return metric.missing / (metric.n + metric.missing)
    return 0.0


def _measure(by: str) -> Text | str:
    """Return the name of a metric within a sentence."""
    within = {
        ACCURACY: pgettext("within a sentence", "accuracy"),
        CONSISTENCY: pgettext("within a sentence", "same verdict in both orders"),
    }
    return within.get(by) or metric_title(by)


def _cheap(
    board: Leaderboard, choice: Choice, names: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield how many cheaper configurations are useful but may be worse by more than the margin."""
    # A cheaper job that was chosen is in the main finding.
    if choice.cheaper and choice.reason != "cheaper":
        text = ngettext(
            "One cheaper configuration is useful, but it is not shown to be within {margin} of"
            " {top}: more cases could tell.",
            "{n} cheaper configurations are useful, but none is shown to be within {margin} of"
            " {top}: more cases could tell.",
            len(choice.cheaper),
            margin=f"{board.margin:g}",
            top=names[choice.top.job],
        )
        yield finding(COST, "info", text)


def _consistency(
    ranked: Sequence[Standing], names: Mapping[str, str]
) -> Iterator[Finding]:
    # Only rows with a rate in both orders.
    rows = [row for row in ranked if known(row.metrics, CONSISTENCY) is not None]
    if len(rows) < 2:
        return

    def rate(row: Standing) -> float:
        return row.metrics[CONSISTENCY].value or 0.0

    low = min(rows, key=rate)
    high = max(rows, key=rate)
    # Compared as printed: a difference that rounding hides is no difference to name.
    worst = percent(low.metrics[CONSISTENCY])
    top = percent(high.metrics[CONSISTENCY])
    if worst == top:
        text = gettext(
            "All keep their verdict in {rate} of pairs when the order is swapped.",
            rate=top,
        )
        yield finding(CONSISTENCY, "info", text)
        return
    text = gettext(
        "When the order is swapped, {highest} keeps its verdict in {top} of pairs, {lowest} in"
        " {worst}.",
        highest=names[high.job],
        top=top,
        lowest=names[low.job],
        worst=worst,
    )
    yield finding(CONSISTENCY, "info", text)


def _contradictions(
    board: Leaderboard, ranked: Sequence[Standing], names: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield how often scores contradict comparisons by the same judge."""
    jobs = {row.job for row in ranked}
    decided = [
        # The job with scores is one of this dataset's, and some pairs are decided by
        # both.
        contradiction
        for contradiction in board.contradictions
        if contradiction.scores in jobs and known(contradiction.metrics, CONTRADICTION)
    ]
    if not decided:
        return
    rates = [
        gettext(
            "{scores} versus {comparisons}: {rate}",
            scores=names[contradiction.scores],
            comparisons=names[contradiction.comparisons],
            rate=percent(contradiction.metrics[CONTRADICTION]),
        )
        for contradiction in decided[:NAMED]
    ]
    text = gettext(
        "Share of pairs, decided by both, in which scores contradict comparisons: {rates}.",
        rates=joined(rates, gettext("; ")),
    )
    yield finding(CONTRADICTION, "info", text)


def _places(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    # The rate of the first answer is 0.5 without a bias of position.
    measured, swayed, unswayed = _by_side(ranked, FIRST, 0.5)
    first = len(swayed)
    second = len(unswayed)
    if first and not second:
        text = ngettext(
            "{n} of {all} configurations clearly prefers the answer shown first, none the second:"
            " {names}.",
            "{n} of {all} configurations clearly prefer the answer shown first, none the second:"
            " {names}.",
            first,
            all=measured,
            names=_names(swayed, names),
        )
        yield finding(FIRST, "warn", text)
    elif second:
        text = gettext(
            "Clear preferences of {all} configurations: {first} for the answer shown first,"
            " {second} for the second."
        )
        yield finding(
            FIRST, "warn", text.fill(all=measured, first=first, second=second)
        )


def _lengths(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    # The effect of length is 0 without a bias.
    measured, swayed, _ = _by_side(ranked, LENGTH, 0.0)
    if swayed:
        text = ngettext(
            "{n} of {all} configurations prefers longer answers beyond what the labels explain:"
            " {names}.",
            "{n} of {all} configurations prefer longer answers beyond what the labels explain:"
            " {names}.",
            len(swayed),
            all=measured,
            names=_names(swayed, names),
        )
        yield finding(LENGTH, "warn", text)


def _by_side(
    ranked: Sequence[Standing], name: str, level: float
) -> tuple[int, list[Standing], list[Standing]]:
    """Return how many configurations show a side of a metric, and those whose interval
    is above and below a level.
    """
    metrics = [
        (row, metric)
        for row in ranked
        if (metric := known(row.metrics, name)) is not None
        # With one order, a bias for a position cannot be separated from quality.
        and not (name == FIRST and one_order(row.metrics))
    ]
    # By the interval: a job whose interval includes the level is in neither list.
    above, below = (
        [row for row, metric in metrics if side(metric, level) == end]
        for end in ("above", "below")
    )
    return len(metrics), above, below
