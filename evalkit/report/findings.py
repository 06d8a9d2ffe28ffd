"""What a run found, in words: pure functions from metrics to sentences, for the report and the terminal alike.

A sentence takes a side only where the interval does: a judge whose interval holds the value of chance is "not shown to
be better" than it, whatever the point says. What was not found is never said to be absent or equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalkit.core.display import estimate, interval, percent
from evalkit.report.agreement_findings import agreement
from evalkit.report.diagnostics import (
    benchmark_finding,
    bias_findings,
    correction_findings,
    length_at_label,
    ranking_findings,
    simulated,
)
from evalkit.report.sentences import Finding, Metrics, Tone, known, side
from evalkit.runs.layout import simulated_judges
from evalkit.scoring.chance_level import FIRST as FIRST_RATE
from evalkit.scoring.chance_level import one_order
from evalkit.scoring.verdicts.aggregate import WEIGHED
from evalkit.types import Metric, RunResult

RELIABLE_ALPHA = 0.8  # Krippendorff (2004), Hum. Commun. Res. 30, 411-433
FAR_OFF = 0.1  # of a confidence, on average
CONSISTENT = ("pointwise", "listwise")  # of one score, or one ranking, no cycle can follow: that none did says nothing
PAIRS = ("decided pairs", "对分出胜负的回答")
PASSES = ("decided passes, each a pair in one order", "次分出胜负的评判（每对每种顺序各一次）")
MANY_TIES, MANY_MISSING = 0.5, 0.2
"""From these shares on, ties or missing answers are reported first: they explain every other number."""
CAUSES = {
    "swap_disagreement": ("because the two orders disagree", "因为两种顺序结论不一致"),
    "judged": ("because the judge calls them ties", "因为裁判判为平局"),
    "equal_scores": ("because the two scores are equal", "因为两个分数相同"),
    "threshold": ("because of tie.threshold or tie.min_confidence", "因为 tie.threshold 或 tie.min_confidence"),
    "split": ("because votes or samples cancel out", "因为投票或重复评判相互抵消"),
}
FIRST = ("the answer shown first", "先出现的回答")
SECOND = ("the answer shown second", "后出现的回答")
MISSING = {"unparseable": "无法解析", "refused": "拒绝回答", "failed": "调用失败", "budget": "因预算未发出"}


def findings_of(result: RunResult, further: Mapping[str, Any] | None = None) -> list[Finding]:
    """Return what a run found, after a warning if a judge of it is simulated; `further` as for `findings`."""
    found = findings(result.metrics, str(result.manifest.get("mode") or ""), further)
    return [*simulated(simulated_judges(result.manifest)), *found]


def findings(metrics: Metrics, mode: str, further: Mapping[str, Any] | None = None) -> list[Finding]:
    """Return what the metrics of a run say, most important first.

    `further` holds what the run folder's further JSON files do, by name: with it the ranking is told by its systems.
    """
    found = [finding for find in _FINDERS for finding in find(metrics, mode)]
    ties, missing = known(metrics, "tie_rate"), known(metrics, "agreement/accuracy")
    lost = missing.missing / (missing.n + missing.missing) if missing is not None and missing.missing else 0.0
    first = ["tie_rate"] if ties is not None and (ties.value or 0) >= MANY_TIES else []
    first += ["missing/"] if lost >= MANY_MISSING else []
    found.sort(key=lambda one: not one.metric.startswith(tuple(first)) if first else False)
    return [*found, *ranking_findings(metrics, (further or {}).get("ranking") or {}), *correction_findings(metrics)]


def _lead(metric: Metric) -> str:
    """Return by how many points one of two outcomes leads, from its share: 0.56 against 0.44 is 12 points."""
    points = [None if x is None else abs(200 * x - 100) for x in (metric.value, metric.low, metric.high)]
    value, *ends = points
    low, high = sorted(end for end in ends if end is not None) if None not in ends else (None, None)
    return estimate(value, low, high, "{:.0f}".format)


def _missing(metrics: Metrics, _: str) -> Iterator[Finding]:
    rates = {kind: m for kind in MISSING if (m := known(metrics, f"missing/{kind}")) is not None and m.n}
    if not rates:
        return
    counts = {kind: round((m.value or 0) * m.n) for kind, m in rates.items()}
    total, n = sum(counts.values()), max(m.n for m in rates.values())
    if not total:
        yield Finding("missing/failed", "good", f"None of {n:,} answers is missing.", f"{n:,} 个回答无一缺失。")
        return
    why = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    why_zh = "，".join(f"{MISSING[kind]} {count:,}" for kind, count in counts.items() if count)
    kind = max(counts, key=lambda kind: counts[kind])
    share = f"{100 * total / n:.1f}%"
    yield Finding(
        f"missing/{kind}",
        "bad" if total > 0.05 * n else "warn",
        f"{total:,} of {n:,} answers {'is' if total == 1 else 'are'} missing ({share}): {why}. "
        "No value counts them; each metric has worst-case bounds.",
        f"{n:,} 个回答中缺失 {total:,} 个（{share}）：{why_zh}。各指标均不计入，并附最坏情形的界限。",
    )


def _position(metrics: Metrics, _: str) -> Iterator[Finding]:
    consistency = known(metrics, "position/consistency")
    if (first := known(metrics, FIRST_RATE)) is not None:
        always = consistency is not None and consistency.value == 1 and first.value == 0.5
        if one_order(metrics):
            yield _confounded(first)
        elif not always:  # each such pair gives one pass to either position: all there is to say follows
            yield _preference(first, FIRST, SECOND, PASSES)
    if consistency is not None:
        yield _consistency(consistency, known(metrics, "tie_rate/judged"))


def _consistency(consistency: Metric, judged: Metric | None) -> Finding:
    high = consistency.low is not None and consistency.low >= 0.8
    tied = judged is not None and (judged.value or 0) >= MANY_TIES
    text = f"Keeps its verdict in {percent(consistency)} of {consistency.n:,} pairs when the order is swapped"
    text_zh = f"交换顺序后，{consistency.n:,} 对中有 {percent(consistency)} 结论不变"
    if tied:
        text, text_zh = f"{text}, but most of these verdicts are ties", f"{text_zh}，但其中多为平局"
    return Finding(consistency.name, "good" if high and not tied else "warn", f"{text}.", f"{text_zh}。")


def _confounded(first: Metric) -> Finding:
    return Finding(
        first.name,
        "info",
        f"{FIRST[0].capitalize()} wins {percent(first)} of {first.n:,} decided pairs; each pair was shown in one order "
        "only, so position and quality cannot be separated.",
        f"{FIRST[1]}在 {first.n:,} 对分出胜负的回答中占 {percent(first)}；"
        "每对只以一种顺序呈现，无法区分位置与质量的影响。",
    )


def _length(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how often the longer answer wins, which is no preference by itself: it may be the better one."""
    longer = known(metrics, "length/longer_rate")
    if longer is None or length_at_label(metrics) is not None or longer.n < 2:
        return
    labeled = known(metrics, "agreement/accuracy") is not None
    why = "the labels do not determine" if labeled else "without labels, this does not show"
    why_zh = "标注不足以判断" if labeled else "没有标注，无法判断"
    clear = side(longer, 0.5) in ("above", "below")
    yield Finding(
        longer.name,
        "warn" if clear else "info",
        f"The longer answer wins {percent(longer)} of {longer.n:,} decided pairs; {why} whether that is a "
        "preference for length.",
        f"较长的回答在 {longer.n:,} 对分出胜负的回答中占 {percent(longer)}；{why_zh}这是否为对长度的偏好。",
    )


def _preference(rate: Metric, high: tuple[str, str], low: tuple[str, str], of: tuple[str, str] = PAIRS) -> Finding:
    where = side(rate, 0.5)
    if where == "unknown":
        return Finding(
            rate.name,
            "info",
            f"{high[0].capitalize()} wins {percent(rate)} of {rate.n:,} {of[0]}: too few to show a preference.",
            f"{high[1]}在 {rate.n:,} {of[1]}中占 {percent(rate)}；数量太少，无法判断是否存在偏好。",
        )
    if where == "unclear":
        return Finding(
            rate.name,
            "info",
            f"No clear preference for {high[0]}: it wins {percent(rate)} of {rate.n:,} {of[0]}.",
            f"未见对{high[1]}的明显偏好：在 {rate.n:,} {of[1]}中占 {percent(rate)}。",
        )
    liked = high if where == "above" else low
    share = percent(rate)
    return Finding(
        rate.name,
        "warn",
        f"Prefers {liked[0]} by {_lead(rate)} points: {high[0]} wins {share} of {rate.n:,} {of[0]}.",
        f"偏好{liked[1]}，领先 {_lead(rate)} 个百分点：在 {rate.n:,} {of[1]}中，{high[1]}占 {share}。",
    )


def _ties(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (rate := known(metrics, "tie_rate")) is None:
        return
    parts = {name: m for name in CAUSES if (m := known(metrics, f"tie_rate/{name}")) is not None}
    main = max(parts, key=lambda name: parts[name].value or 0, default="")
    made = parts[main].value or 0 if main else 0
    text, text_zh = f"{percent(rate)} of pairs are ties", f"{percent(rate)} 的回答对为平局"
    if made > 0.5 * (rate.value or 0):
        why, why_zh = CAUSES[main]
        whole = made > (rate.value or 0) - 1e-9
        text += f", {'' if whole else 'most of them '}{why}" if not whole else f" {why}"
        text_zh += f"，{'' if whole else '多数是'}{why_zh}"
        if not whole:
            text, text_zh = f"{text} ({percent(parts[main])})", f"{text_zh}（{percent(parts[main])}）"
    bad = (rate.value or 0) >= MANY_TIES or (main == "swap_disagreement" and made > 0.5 * (rate.value or 0))
    yield Finding("tie_rate", "warn" if bad else "info", f"{text}.", f"{text_zh}。")
    yield from _one_winner(metrics)


def _one_winner(metrics: Metrics) -> Iterator[Finding]:
    """Yield that all verdicts are one winner; where all labels are of one class they may be right."""
    kappa = metrics.get("agreement/kappa")
    if one_order(metrics) or (kappa is not None and kappa.value is None and kappa.n):
        return
    for name, winner in (("win_rate/a", "A"), ("win_rate/b", "B")):
        wins = known(metrics, name)
        if wins is not None and wins.value == 1 and wins.n > 2:
            text, text_zh = f"Every one of {wins.n:,} verdicts is {winner}", f"全部 {wins.n:,} 个结论都是 {winner}"
            yield Finding(name, "warn", f"{text}.", f"{text_zh}。")


def _aggregate(metrics: Metrics, _: str) -> Iterator[Finding]:
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value:
        return
    weighed = WEIGHED in (rate.note or "")
    used, used_zh = (
        ("the weighted winners by criterion", "各准则胜者的加权结果") if weighed else ("the overall winner", "总体胜者")
    )
    yield Finding(
        rate.name,
        "info",
        f"Verdicts follow {used}; in {percent(rate)} of judgments the overall winner is not the one that the weighted "
        "criteria come to.",
        f"判定采用{used_zh}；在 {percent(rate)} 的评判中，总体胜者与按准则加权的结果不同。",
    )


def _conflicts(metrics: Metrics, mode: str) -> Iterator[Finding]:
    rate = known(metrics, "conflict/rate")
    if rate is not None and (rate.value or mode not in CONSISTENT):
        yield _cycles(rate, known(metrics, "conflict/chance_rate"), known(metrics, "conflict/ratio"))
    if (weak := known(metrics, "conflict/weak_rate")) is not None and weak.value:
        yield Finding(
            "conflict/weak_rate",
            "info",
            f"Ties do not carry over (A = B, B = C, but A > C) in {percent(weak)} of cases.",
            f"{percent(weak)} 的样本平局不传递（A = B，B = C，但 A > C）。",
        )


def _cycles(rate: Metric, chance: Metric | None, ratio: Metric | None) -> Finding:
    """Return how often verdicts run in a circle, and whether that differs from random verdicts."""
    text, text_zh = f"Contradicts itself (A > B > C > A) in {percent(rate)}", f"{percent(rate)} "
    tone: Tone = "warn"
    if not rate.value:
        text, text_zh = (
            f"No contradiction (A > B > C > A) was found: {percent(rate)}",
            f"未发现自相矛盾：{percent(rate)} ",
        )
        tone = "info"
    text += f" of {rate.n:,} cases" if rate.n else " of cases"
    text_zh += f"的样本（共 {rate.n:,} 个）" if rate.n else "的样本"
    text_zh += "" if not rate.value else "自相矛盾（A > B > C > A）"
    if chance is not None and chance.value is not None:
        where = side(ratio, 1.0) if ratio is not None and ratio.low is not None else side(rate, chance.value)
        expected = f"{100 * chance.value:.0f}%"
        times = f"; ratio {interval(ratio)}" if ratio is not None and ratio.low is not None else ""
        times_zh = f"；比值 {interval(ratio)}" if times and ratio is not None else ""
        said = {
            "below": f"fewer than random verdicts would have ({expected}{times})",
            "above": f"more than random verdicts would have ({expected}{times})",
            "unclear": f"not shown to differ from random verdicts ({expected}{times})",
            "unknown": f"random verdicts would have {expected}",
        }[where]
        said_zh = {
            "below": f"少于随机判定（{expected}{times_zh}）",
            "above": f"多于随机判定（{expected}{times_zh}）",
            "unclear": f"未能表明与随机判定不同（{expected}{times_zh}）",
            "unknown": f"随机判定为 {expected}",
        }[where]
        text, text_zh = f"{text}; {said}", f"{text_zh}；{said_zh}"
        tone = "good" if where == "below" and not rate.value else tone
    return Finding("conflict/rate", tone, f"{text}.", f"{text_zh}。")


def _scores(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (distinct := known(metrics, "score/distinct")) is not None:
        count = f"{distinct.value:.0f}"
        if distinct.value == 1:
            text, text_zh = f"All {distinct.n:,} scores are equal", f"全部 {distinct.n:,} 个分数都相同"
        else:
            text, text_zh = f"Uses {count} different scores", f"共使用 {count} 种不同分值"
        few = (distinct.value or 0) <= 2 and distinct.n > 2 and not (distinct.note or "").startswith("of the 2 ")
        text += ", so it hardly separates responses" if few else ""
        text_zh += "，几乎不能区分回答" if few else ""
        yield Finding("score/distinct", "bad" if few else "info", f"{text}.", f"{text_zh}。")


def _calibration(metrics: Metrics, _: str) -> Iterator[Finding]:
    ece = known(metrics, "calibration/ece")
    if ece is not None and ece.low is not None:  # from a case or two it would say nothing
        value, low, high = (None if x is None else 100 * x for x in (ece.value, ece.low, ece.high))
        points = Metric(ece.name, value, low, high)
        text, text_zh = (
            f"Its confidence is off by {interval(points, 0)} points",
            f"其置信度平均偏差 {interval(points, 0)} 个百分点",
        )
        if ece.low == 0 and (ece.high or 0) > FAR_OFF:
            text = f"Whether its confidence can be relied on is not known (n = {ece.n:,}): "
            text += f"it is off by 0 to {high:.0f} points"
            text_zh = f"置信度是否可信尚不能判断（n = {ece.n:,}）：平均偏差在 0 到 {high:.0f} 个百分点之间"
        turned, turned_zh = _turned(metrics)
        yield Finding(
            "calibration/ece",
            "warn" if ece.low > FAR_OFF else "info",
            f"{text} on average{turned}.",
            f"{text_zh}{turned_zh}。",
        )


def _turned(metrics: Metrics) -> tuple[str, str]:
    """Return how a confidence counts that was stated in another winner than the weighted one, if any was."""
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value or WEIGHED not in (rate.note or ""):
        return "", ""
    return (
        "; where the overall winner is not the weighted one, a confidence c counts as 1 - c (0.5 if either is a tie)",
        "；总体胜者与加权结果不同时，置信度 c 按 1 - c 计（其中一方为平局时按 0.5 计）",
    )


def _panel(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (alpha := known(metrics, "panel/alpha")) is not None:
        text = f"Its judges agree among themselves with an alpha of {interval(alpha)}; conclusions need 0.8."
        text_zh = f"评委之间的一致程度 α 为 {interval(alpha)}；可靠结论需达 0.8。"
        relied = alpha.low is not None and alpha.low >= RELIABLE_ALPHA
        yield Finding("panel/alpha", "good" if relied else "warn", text, text_zh)


_FINDERS: tuple[Callable[[Metrics, str], Iterator[Finding]], ...] = (
    agreement,
    benchmark_finding,
    _missing,
    _position,
    _ties,
    _aggregate,
    _length,
    bias_findings,
    _conflicts,
    _scores,
    _calibration,
    _panel,
)
