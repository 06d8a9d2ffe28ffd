"""What sways the judge beyond position, and how it compares with annotators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalkit.core.display import interval, percent
from evalkit.report.metric_names import PARTS, TITLES, Words
from evalkit.report.sentences import Finding, Metrics, Tone, known, side
from evalkit.types import Metric


def bias_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield what is clear of length at equal label, the order apart from noise, the own family, and people."""
    for find in (_length_at_label, _order, _identical, _own_family, _people):
        yield from find(metrics)


def _points(metric: Metric) -> str:
    """Return a difference of rates with its interval, in percentage points."""
    value, low, high = (None if x is None else 100 * x for x in (metric.value, metric.low, metric.high))
    return interval(Metric(metric.name, value, low, high), 0)


def length_at_label(metrics: Metrics) -> Metric | None:
    """Return the slope of verdicts on length at equal label, `None` where the labels do not determine it."""
    slope = known(metrics, "length/slope_at_label")
    return None if slope is None or side(slope, 0.0) == "unknown" else slope


def _length_at_label(metrics: Metrics) -> Iterator[Finding]:
    slope = length_at_label(metrics)
    if slope is None:
        return
    where, seen = side(slope, 0.0), interval(slope)
    if where == "unclear":
        text = "No clear lean to longer or shorter answers at equal label"
        text_zh = "标注相同时，未见对较长或较短回答的明显偏向"
    else:
        liked, liked_zh = ("longer", "较长") if where == "above" else ("shorter", "较短")
        text = f"Leans to the {liked} answer beyond what the labels account for"
        text_zh = f"在标注相同的情况下仍偏向{liked_zh}的回答"
    yield Finding(
        slope.name,
        "info" if where == "unclear" else "warn",
        f"{text}: {seen} in log odds per standard deviation of length.",
        f"{text_zh}：长度每增一个标准差，对数几率变化 {seen}。",
    )


def _order(metrics: Metrics) -> Iterator[Finding]:
    effect, repeat = known(metrics, "position/order_effect"), known(metrics, "position/repeat_consistency")
    if effect is None or repeat is None or side(effect, 0.0) == "unknown":
        return
    swayed = side(effect, 0.0) == "above"
    points = _points(effect)
    said = f"costs {points} points more" if swayed else f"has no clear effect beyond that ({points} points)"
    said_zh = f"另使一致率降低 {points} 个百分点" if swayed else f"未见明显的额外影响（{points} 个百分点）"
    yield Finding(
        effect.name,
        "warn" if swayed else "info",
        f"Asked twice in one order it repeats itself in {percent(repeat)} of pairs; swapping the order {said}.",
        f"同一顺序重复评判，{percent(repeat)} 结论相同；交换顺序{said_zh}。",
    )


def _identical(metrics: Metrics) -> Iterator[Finding]:
    if (rate := known(metrics, "position/identical_preference")) is not None and rate.value:
        yield Finding(
            rate.name,
            "bad",
            f"Prefers one of two identical answers in {percent(rate)} of {rate.n:,} comparisons.",
            f"面对两个完全相同的回答，在 {rate.n:,} 次比较中有 {percent(rate)} 仍分出胜负。",
        )


def _own_family(metrics: Metrics) -> Iterator[Finding]:
    preference = known(metrics, "self/preference")
    if preference is None or (where := side(preference, 0.0)) == "unknown":
        return
    tone: Tone = "info" if where == "unclear" else "warn"
    said = {"above": "Favors", "below": "Disfavors", "unclear": "No clear preference for"}[where]
    said_zh = {"above": "偏好", "below": "不利于", "unclear": "未见明显偏好"}[where]
    yield Finding(
        preference.name,
        tone,
        f"{said} answers of its own model family at equal label: {_points(preference)} points.",
        f"相同标注下{said_zh}同族模型的回答：{_points(preference)} 个百分点。",
    )


def _people(metrics: Metrics) -> Iterator[Finding]:
    gap, ceiling, judge = (known(metrics, f"human/{name}") for name in ("gap", "ceiling", "judge"))
    if gap is None or ceiling is None or judge is None or (where := side(gap, 0.0)) == "unknown":
        return
    tone: Tone = {"above": "good", "below": "bad"}.get(where, "info")  # type: ignore[assignment]
    numbers = f"{interval(judge)} against {interval(ceiling)}"
    numbers_zh = f"{interval(judge)} 对 {interval(ceiling)}"
    labels = f"{gap.n:,} labels of items that several annotators labeled"
    labels_zh = f"{gap.n:,} 条来自多人标注条目的标注"
    if where == "unclear":
        text = (
            f"On {labels}, it is open whether the judge agrees with the other annotators as well as an annotator does"
        )
        text_zh = f"在 {labels_zh}上，裁判与其他标注者的一致程度是否不低于一名标注者，尚无定论"
    else:
        how, how_zh = ("better", "高于") if where == "above" else ("less well", "低于")
        text = f"On {labels}, the judge agrees with the other annotators {how} than an annotator does"
        text_zh = f"在 {labels_zh}上，裁判与其他标注者的一致程度{how_zh}一名标注者"
    difference, difference_zh = f"difference {interval(gap)}", f"差值 {interval(gap)}"
    yield Finding(gap.name, tone, f"{text}: {numbers}, {difference}.", f"{text_zh}：{numbers_zh}，{difference_zh}。")


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


def ranking_findings(metrics: Metrics, ranking: Mapping[str, Any]) -> Iterator[Finding]:
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


def correction_findings(metrics: Metrics) -> Iterator[Finding]:
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


KNOWN_BY = {
    "llmbar": "mean_accuracy",
    "judgebench": "net_vote_accuracy",
    "rewardbench": "score",
    "rewardbench2": "score",
    "rm_bench": "average",
    "mt_bench": "agreement",
    "pandalm": "accuracy",
    "alpaca_eval": "length_controlled_win_rate",
    "arena_hard": "score",
    "auto_j": "agreement",
    "faireval": "accuracy",
    "halluqa": "non_hallucination_rate_strict",
    "prometheus": "pearson",
    "summeval": "overall/summary/spearman",
    "topical_chat": "overall/spearman",
    "helpsteer": "preference_accuracy",
}
"""The metric that each benchmark is known by."""
INSTEAD = {
    "alpaca_eval": (
        "win_rate",
        (
            " It is the raw one: the length-controlled one needs AlpacaEval's df_gamed.csv and all its instructions;"
            " the win rate at equal length among this run's metrics is not the leaderboard's.",
            "这是原始胜率：长度控制胜率需要 AlpacaEval 的 df_gamed.csv 及其全部指令；"
            "本次运行的等长胜率与其排行榜不可比。",
        ),
    )
}
"""What there is where a run cannot have that metric, and what to say of it."""


def benchmark_finding(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield the number that the run's benchmark is known by, with its interval."""
    for name, rest in KNOWN_BY.items():
        metric, said = known(metrics, f"{name}/{rest}"), ("", "")
        if metric is None and name in INSTEAD:
            rest, said = INSTEAD[name]
            metric = known(metrics, f"{name}/{rest}")
        if metric is not None:
            parts = [PARTS[part] for part in rest.split("/")]
            english, chinese = ", ".join(part[0] for part in parts), "，".join(part[1] for part in parts)
            number = f"{interval(metric)} (n = {metric.n:,})"
            yield Finding(
                metric.name,
                "info",
                f"By {TITLES[name]}'s own rule: {english} {number}.{said[0]}",
                f"按 {TITLES[name]} 自身的规则：{chinese} {number}。{said[1]}",
            )


OF_PEOPLE = ("mt_bench", "pandalm", "auto_j", "faireval", "summeval", "topical_chat", "helpsteer")
"""Benchmarks whose labels annotators gave; the labels of others are keys, or another model's."""


def label_words(metrics: Metrics) -> Words:
    """Return whose labels a run's are: people's only where annotators are named or the benchmark says so."""
    groups = {name.partition("/")[0] for name in metrics}
    if groups & set(OF_PEOPLE) or ("human" in groups and not groups & set(KNOWN_BY)):
        return "people's labels", "人工标注"
    return "the labels", "标注"
