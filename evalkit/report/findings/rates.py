"""Findings on verdicts and scores: missing ones, ties, criteria that disagree, and
distinct scores.
"""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import percent
from evalkit.core.translation import gettext, joined, ngettext
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.decision import (
    CONSTANT_AFTER,
    PROMPTS_SEEN,
    Metrics,
    known,
    one_order,
)
from evalkit.scoring.verdicts.pairs import WEIGHED

MANY_TIES, MANY_MISSING = 0.5, 0.2
"""At and above these shares, ties or missing answers come first: they explain every other
number."""


CAUSES = {
    "swap_disagreement": gettext("because the two orders disagree"),
    "judged": gettext("because the judge calls them ties"),
    "equal_scores": gettext("because the two scores are equal"),
    "threshold": gettext("because of tie.threshold or tie.min_confidence"),
    "split": gettext("because votes or samples cancel out"),
    "criteria_cancel": gettext(
        "because the weighted criteria cancel out, which scoring.aggregate=overall avoids"
    ),
}


MISSING = {
    "unparseable": gettext("{n:,} unparseable"),
    "refused": gettext("{n:,} refused"),
    "failed": gettext("{n:,} failed"),
    "budget": gettext("{n:,} over the budget"),
}


def prompt_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how much of the prompts that a server cut the judge saw."""
    cut = known(metrics, "prompts/cut")
    share_seen = known(metrics, PROMPTS_SEEN)
    if cut is None or share_seen is None or share_seen.value is None:
        return
    text = gettext(
        "The server cut the prompt in {cut} of {n:,} answers: there the judge saw about {seen} of"
        " it. Raise the server's context (with Ollama: judge.params.num_ctx), or set dataset.fit.",
        cut=percent(cut),
        n=cut.n,
        seen=f"{share_seen.value:.0%}",
    )
    yield finding(PROMPTS_SEEN, "bad", text)


def missing_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how many answers are missing, and most often why."""
    # {cause: its rate}; rates without any answer are no causes.
    rates = {
        kind: m
        for kind in MISSING
        if (m := known(metrics, f"missing/{kind}")) is not None and m.n
    }
    if not rates:
        return
    # Rates and counts have the same denominator, so that counts add up.
    counts = {kind: round((m.value or 0) * m.n) for kind, m in rates.items()}
    total = sum(counts.values())
    n = max(m.n for m in rates.values())
    if not total:
        text = ngettext(
            "The only answer is not missing.", "None of {n:,} answers is missing.", n
        )
        yield finding("missing/failed", "good", text)
        return
    # The finding links to the metric of the most frequent cause.
    kind = max(counts, key=lambda kind: counts[kind])
    text = ngettext(
        "{n:,} of {all:,} answers is missing ({share}): {why}. Metrics exclude them and have"
        " worst-case bounds.",
        "{n:,} of {all:,} answers are missing ({share}): {why}. Metrics exclude them and have"
        " worst-case bounds.",
        total,
        all=n,
        share=f"{100 * total / n:.1f}%",
        why=joined(
            MISSING[kind].fill(n=count) for kind, count in counts.items() if count
        ),
    )
    yield finding(f"missing/{kind}", "bad" if total > 0.05 * n else "warn", text)


def tie_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how many pairs are ties and why, and whether all verdicts are the same."""
    if (rate := known(metrics, "tie_rate")) is None:
        return
    parts = {
        name: m
        for name in CAUSES
        if (m := known(metrics, f"tie_rate/{name}")) is not None
    }
    # The most frequent cause, named only if it explains most ties.
    main = max(parts, key=lambda name: parts[name].value or 0, default="")
    main_share = parts[main].value or 0 if main else 0
    text = gettext("{rate} of pairs are ties.")
    if main_share > 0.5 * (rate.value or 0):
        text = gettext("{rate} of pairs are ties, most of them {because} ({part}).")
        # All ties have one cause: no share is needed. 1e-9 absorbs rounding.
        if main_share > (rate.value or 0) - 1e-9:
            text = gettext("{rate} of pairs are ties {because}.")
        text = text.fill(because=CAUSES[main], part=percent(parts[main]))
    # Many ties, or ties that are contradictions between the orders, are bad news.
    bad = (rate.value or 0) >= MANY_TIES or (
        main == "swap_disagreement" and main_share > 0.5 * (rate.value or 0)
    )
    if main == "equal_scores" and has_two_scores(
        metrics
    ):  # then many pairs are equal under any judge
        bad = False
    yield finding(rate, "warn" if bad else "info", text)
    yield from _one_winner(metrics)


def _one_winner(metrics: Metrics) -> Iterator[Finding]:
    """Yield that all verdicts are the same; if all labels are of one class too, they
    may be right.
    """
    kappa = metrics.get("agreement/kappa")
    # With one order, the winner may be the position. Without kappa, all labels may be
    # of one class.
    if one_order(metrics) or (kappa is not None and kappa.value is None and kappa.n):
        return
    for name, winner in (("win_rate/a", "A"), ("win_rate/b", "B")):
        wins = known(metrics, name)
        if wins is not None and wins.value == 1 and wins.n > 2:
            yield finding(
                wins, "warn", gettext("All {n:,} verdicts are {winner}.", winner=winner)
            )


def aggregate_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how often the judge's overall winner is not that of the weighted criteria."""
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value:
        return
    weighed = WEIGHED in (rate.note or "")
    if weighed:
        text = gettext(
            "Verdicts follow the weighted criteria; in {rate} of judgments, the judge's overall"
            " winner is a different one."
        )
    else:
        text = gettext(
            "Verdicts follow the judge's overall winner; in {rate} of judgments, the weighted"
            " criteria have a different winner."
        )
    yield finding(rate, "info", text)


def score_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how many different scores the judge uses."""
    # A single score cannot vary.
    if (distinct := known(metrics, "score/distinct")) is not None and distinct.n != 1:
        # Two scores are few on a scale of more; one is few on any.
        few = distinct.n >= CONSTANT_AFTER and (distinct.value or 0) <= (
            1 if has_two_scores(metrics) else 2
        )
        if distinct.value == 1:
            text = gettext("All {n:,} scores are equal", n=distinct.n)
        else:
            text = gettext(
                "Uses {count} different scores", count=f"{distinct.value:.0f}"
            )
        if few:
            end = gettext("{finding}, so it hardly separates responses.")
        else:
            end = gettext("{finding}.")
        yield finding(
            "score/distinct", "bad" if few else "info", end.fill(finding=text)
        )


def has_two_scores(metrics: Metrics) -> bool:
    """Return whether the rubric's scale has only two scores."""
    distinct = metrics.get("score/distinct")
    return distinct is not None and (distinct.note or "").startswith("of the 2 ")
