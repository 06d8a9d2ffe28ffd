"""Which judges are simulated, which system is ahead, and what labels make of the judge's rates, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalkit.report.finding import Finding, Metrics, known, percent
from evalkit.types import Metric

RATES = {
    "win_rate/a": ("Response A wins", "A 获胜"),
    "win_rate/b": ("Response B wins", "B 获胜"),
    "tie_rate": ("Ties", "平局"),
}
NAMED = 5
"""So many systems are named where several may be the best."""


def simulated(judges: Sequence[str]) -> Iterator[Finding]:
    """Yield that judges are simulated, by name."""
    if judges:
        names, one = ", ".join(judges), len(judges) == 1
        whose = "its" if one else "their"
        text = f"Simulated judge{'' if one else 's'}: {names}. No model judged; {whose} behavior is planted."
        text_zh = f"模拟裁判：{'、'.join(judges)}。没有模型参与评判；其行为是预先设定的。"
        yield Finding("judge", "warn", text, text_zh)


def standings(metrics: Metrics, ranking: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield who ranks first, where that is certain, and how many pairs of systems are told apart."""
    systems: Sequence[Mapping[str, Any]] = ranking.get("systems") or ()
    separated = known(metrics, "ranking/separated")
    if separated is None:
        return
    apart = f"{round((separated.value or 0) * separated.n):,}"
    told, told_zh = (
        f"{apart} of {separated.n:,} pairs of systems are told apart.",
        f"{separated.n:,} 对系统中有 {apart} 对可以区分。",
    )
    first, first_zh = _first(systems, 1 - float(ranking.get("confidence") or 0.95))
    yield Finding(
        separated.name,
        "info" if separated.value else "warn",
        f"{first}{told}"[:1].upper() + f"{first}{told}"[1:],
        f"{first_zh}{told_zh}",
    )


def _like_first(system: Mapping[str, Any], alpha: float) -> bool:
    """Say whether a system is not told apart from the first, by a test that all pairs share."""
    p = system.get("p_holm_of_first")
    return p is not None and p > alpha


def _first(systems: Sequence[Mapping[str, Any]], alpha: float) -> tuple[str, str]:
    ranked = [one for one in systems if one["rank"]["value"] is not None and one["rank"].get("low") is not None]
    if len(ranked) < 2:
        return "", ""
    best = [str(one["system"]) for one in ranked if one["rank"]["low"] <= 1 or _like_first(one, alpha)]
    if len(best) == 1:
        return f"By its verdicts {best[0]} ranks first; ", f"按其结论，{best[0]} 排名第一；"
    names = ", ".join(best[:NAMED]) + (f" and {len(best) - NAMED} more" if len(best) > NAMED else "")
    names_zh = "、".join(best[:NAMED]) + (f" 等 {len(best)} 个" if len(best) > NAMED else "")
    return f"First place is open between {names}; ", f"第一名在 {names_zh} 之间未定；"


def corrections(metrics: Metrics) -> Iterator[Finding]:
    """Yield what a labelled part makes of the judge's rates, where others are without label."""
    for name, (what, what_zh) in RATES.items():
        judged, right = known(metrics, name), known(metrics, f"corrected/{name}")
        if judged is None or right is None or right.low is None or "beside" not in (right.note or ""):
            continue
        off = _beyond(judged, right)
        said = "too often" if off == "above" else "too rarely"
        said_zh = "过于频繁" if off == "above" else "过少"
        yield Finding(
            right.name,
            "warn" if off else "info",
            f"{what}: {percent(judged)} as judged, {percent(right)} corrected by {right.n:,} labels"
            f"{f'; it says so {said}' if off else ''}.",
            f"{what_zh}：裁判给出 {percent(judged)}，按 {right.n:,} 个标注修正后为 {percent(right)}"
            f"{f'；裁判作此判定{said_zh}' if off else ''}。",
        )


def _beyond(judged: Metric, right: Metric) -> str | None:
    """Say on which side of the corrected interval the judge's rate lies; none where it is inside."""
    if judged.value is None or right.low is None or right.high is None or right.low <= judged.value <= right.high:
        return None
    return "above" if judged.value > right.high else "below"
