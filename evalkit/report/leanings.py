"""What sways the judge beyond place and length won, and how it does beside people: said only where it is clear."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.report.finding import Finding, Metrics, Tone, interval, known, percent, side
from evalkit.types import Metric


def leanings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield what is clear of length at equal label, the order apart from noise, the own family, and people."""
    for find in (_length_at_label, _order, _identical, _own_family, _people):
        yield from find(metrics)


def _points(metric: Metric) -> str:
    """Return a difference of rates with its interval, in percentage points."""
    value, low, high = (None if x is None else 100 * x for x in (metric.value, metric.low, metric.high))
    return interval(Metric(metric.name, value, low, high), 0)


def _length_at_label(metrics: Metrics) -> Iterator[Finding]:
    slope = known(metrics, "length/slope_at_label")
    if slope is None or (where := side(slope, 0.0)) not in ("above", "below"):
        return
    liked, liked_zh = ("longer", "较长") if where == "above" else ("shorter", "较短")
    yield Finding(
        slope.name,
        "warn",
        f"Leans to the {liked} answer beyond what people's choices account for: {interval(slope)} in log odds for a "
        "standard deviation of length.",
        f"在人工标注相同的情况下仍偏向{liked_zh}的回答：长度每增一个标准差，对数几率变化 {interval(slope)}。",
    )


def _order(metrics: Metrics) -> Iterator[Finding]:
    effect, repeat = known(metrics, "position/order_effect"), known(metrics, "position/repeat_consistency")
    if effect is None or repeat is None or side(effect, 0.0) == "unknown":
        return
    swayed = side(effect, 0.0) == "above"
    said = f"costs {_points(effect)} points more" if swayed else "adds nothing clear to that"
    said_zh = f"另使一致率降低 {_points(effect)} 个百分点" if swayed else "未见额外影响"
    yield Finding(
        effect.name,
        "warn" if swayed else "good",
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
    said = {"above": "Favours", "below": "Disfavours", "unclear": "No clear preference for"}[where]
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
    said = {"above": "better than", "below": "less well than", "unclear": "about as well as"}[where]
    said_zh = {"above": "高于", "below": "低于", "unclear": "相当于"}[where]
    yield Finding(
        gap.name,
        "bad" if where == "below" else "good",
        f"Agrees with people {said} they do with one another: {interval(judge)} against {interval(ceiling)}.",
        f"与人的一致程度{said_zh}人与人之间：{interval(judge)} 对 {interval(ceiling)}。",
    )
