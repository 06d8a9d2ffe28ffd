"""What sways the judge beyond position, and how it compares with annotators."""

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
