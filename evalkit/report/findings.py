"""What a run found, in words: pure functions from metrics to sentences, for the report and the terminal alike.

A sentence takes a side only where the interval does: an interval that holds the value of chance is "not
distinguishable from" it, whatever the point says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalkit.report.benchmarks import benchmark_finding
from evalkit.report.finding import Finding, Metrics, Side, Tone, interval, known, percent, side
from evalkit.report.leanings import leanings
from evalkit.report.standings import corrections, standings
from evalkit.types import Metric

SUBSTANTIAL_KAPPA = 0.6  # Landis and Koch (1977), table 2: from here on agreement is "substantial"
RELIABLE_ALPHA = 0.8  # Krippendorff (2004), Hum. Commun. Res. 30, 411-433
CONSISTENT = ("pointwise", "listwise")  # of one score, or one ranking, no cycle can follow: that none did says nothing
CORRELATIONS = ("agreement/spearman", "agreement/kendall", "agreement/pearson")
PAIRS = ("decided comparisons", "次分出胜负的比较")
PASSES = ("decided passes, each a pair in one order", "次分出胜负的评判（每对每种顺序各一次）")
FIRST = ("the answer shown first", "先出现的回答")
SECOND = ("the answer shown second", "后出现的回答")
MISSING = {"unparseable": "无法解析", "refused": "拒绝回答", "failed": "调用失败", "budget": "因预算未发出"}


def findings(metrics: Metrics, mode: str, further: Mapping[str, Any] | None = None) -> list[Finding]:
    """Return what the metrics of a run say, most important first.

    `further` holds what the run folder's further JSON files do, by name: with it the ranking is told by its systems.
    """
    found = [finding for find in _FINDERS for finding in find(metrics, mode)]
    return [*found, *standings(metrics, (further or {}).get("ranking") or {}), *corrections(metrics)]


def _lead(metric: Metric) -> str:
    """Return by how many points one of two outcomes leads, from its share: 0.56 against 0.44 is 12 points."""
    points = [None if x is None else abs(200 * x - 100) for x in (metric.value, metric.low, metric.high)]
    value, *ends = points
    if any(end is None for end in ends):
        return f"{value:.0f}"
    low, high = sorted(end for end in ends if end is not None)
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"


def _agreement(metrics: Metrics, mode: str) -> Iterator[Finding]:
    accuracy, kappa = known(metrics, "agreement/accuracy"), known(metrics, "agreement/kappa")
    correlation = next((m for name in CORRELATIONS if (m := known(metrics, name))), None)
    if accuracy is not None and (kappa or mode != "pointwise" or correlation is None):
        yield _accuracy(accuracy, kappa)
    if correlation is not None:
        yield _correlation(correlation)
    if accuracy is None and correlation is None:
        lost = [metrics[name] for name in ("agreement/accuracy", *CORRELATIONS) if name in metrics]
        if any(metric.missing for metric in lost):
            yield Finding(
                "agreement/accuracy",
                "bad",
                "No answer that has a label could be used: how far it agrees with people is not known.",
                "有标注的回答均无法使用：与人的一致程度未知。",
            )
            return
        yield Finding(
            "agreement/accuracy",
            "info",
            "No labels to compare with: how far it agrees with people is not known.",
            "没有可比较的标注：与人的一致程度未知。",
        )


def _accuracy(accuracy: Metric, kappa: Metric | None) -> Finding:
    where = _accuracy_side(accuracy, kappa)
    extra = f", kappa {interval(kappa)}" if kappa is not None else ""
    extra_zh = f"，κ {interval(kappa)}" if kappa is not None else ""
    strong = kappa is not None and kappa.low is not None and kappa.low >= SUBSTANTIAL_KAPPA
    numbers, numbers_zh = f"accuracy {interval(accuracy)}{extra}", f"准确率 {interval(accuracy)}{extra_zh}"
    return _against_chance("agreement/accuracy", where, strong, numbers, numbers_zh)


def _accuracy_side(accuracy: Metric, kappa: Metric | None) -> Side:
    # Kappa knows the chance level of these labels and of ties; 0.5 is that of a choice between two.
    if kappa is None or (kappa.low is None and kappa.value):
        return side(accuracy, 0.5)
    return side(kappa, 0.0) if kappa.low is not None else "unclear"


def _correlation(metric: Metric) -> Finding:
    strong = metric.low is not None and metric.low >= SUBSTANTIAL_KAPPA
    name = metric.name.partition("/")[2].capitalize()
    return _against_chance(
        metric.name, side(metric, 0.0), strong, f"{name} {interval(metric)}", f"{name} {interval(metric)}"
    )


def _against_chance(metric: str, where: Side, strong: bool, numbers: str, numbers_zh: str) -> Finding:
    if where == "unclear":
        return Finding(
            metric, "bad", f"Not distinguishable from chance: {numbers}.", f"与随机猜测无法区分：{numbers_zh}。"
        )
    if where == "unknown":
        return Finding(
            metric,
            "warn",
            f"No interval, so whether this is better than chance is not known: {numbers}.",
            f"没有区间，无法判断是否优于随机：{numbers_zh}。",
        )
    if where == "below":
        return Finding(
            metric, "bad", f"Agrees with people less than chance would: {numbers}.", f"一致程度低于随机：{numbers_zh}。"
        )
    tone: Tone = "good" if strong else "warn"
    how, how_zh = ("well above", "明显高于") if strong else ("above", "高于")
    return Finding(
        metric, tone, f"Agrees with people {how} chance: {numbers}.", f"与人的一致程度{how_zh}随机：{numbers_zh}。"
    )


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
    share = f"{100 * total / n:.1f} %"
    yield Finding(
        f"missing/{kind}",
        "bad" if total > 0.05 * n else "warn",
        f"{total:,} of {n:,} answers {'is' if total == 1 else 'are'} missing ({share}): {why}. "
        "No value counts them; the worst case stands beside each.",
        f"{n:,} 个回答中缺失 {total:,} 个（{share}）：{why_zh}。各指标均不计入，最坏情形另列。",
    )


def _position(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (first := known(metrics, "position/first_rate")) is not None:
        one_order = "one order" in (first.note or "")
        yield _confounded(first) if one_order else _preference(first, FIRST, SECOND, PASSES)
    if (consistency := known(metrics, "position/consistency")) is not None:
        high = consistency.low is not None and consistency.low >= 0.8
        yield Finding(
            "position/consistency",
            "good" if high else "warn",
            f"Keeps its verdict in {percent(consistency)} of pairs when the order is swapped.",
            f"交换顺序后，{percent(consistency)} 的比较结论不变。",
        )


def _confounded(first: Metric) -> Finding:
    return Finding(
        first.name,
        "info",
        f"{FIRST[0].capitalize()} wins {percent(first)} of {first.n:,} decided comparisons; with each pair in one "
        "order only, place and quality cannot be told apart.",
        f"{FIRST[1]}在 {first.n:,} 次分出胜负的比较中占 {percent(first)}；每对回答只以一种顺序呈现，"
        "位置与质量无法区分。",
    )


def _length(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (longer := known(metrics, "length/longer_rate")) is not None:
        yield _preference(longer, ("the longer answer", "较长的回答"), ("the shorter answer", "较短的回答"))


def _preference(rate: Metric, high: tuple[str, str], low: tuple[str, str], of: tuple[str, str] = PAIRS) -> Finding:
    where = side(rate, 0.5)
    if rate.n == 1:
        did, did_zh = ("wins", "胜出") if rate.value == 1 else ("loses", "落败")
        return Finding(
            rate.name,
            "info",
            f"{high[0].capitalize()} {did} the only comparison that was decided, which says nothing of a preference.",
            f"仅有一次比较分出胜负，{high[1]}{did_zh}；无法判断是否存在偏好。",
        )
    if where == "unknown":
        return Finding(
            rate.name,
            "info",
            f"{high[0].capitalize()} wins {percent(rate)} of {rate.n:,} {of[0]}; without an interval that "
            "says nothing of a preference.",
            f"{high[1]}在 {rate.n:,} {of[1]}中占 {percent(rate)}；没有区间，无法判断是否存在偏好。",
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
    made = known(metrics, "tie_rate/swap_disagreement")
    mostly = made is not None and (made.value or 0) > 0.5 * (rate.value or 0)
    text, text_zh = f"Ties in {percent(rate)} of comparisons", f"{percent(rate)} 的比较为平局"
    if mostly and made is not None:
        text += f", most of them because the two orders disagree ({percent(made)})"
        text_zh += f"，多数源于两种顺序结论不一致（{percent(made)}）"
    yield Finding("tie_rate", "warn" if mostly else "info", f"{text}.", f"{text_zh}。")


def _conflicts(metrics: Metrics, mode: str) -> Iterator[Finding]:
    rate, ratio = known(metrics, "conflict/rate"), known(metrics, "conflict/ratio")
    if rate is not None and (rate.value or mode not in CONSISTENT):
        text, text_zh = (
            f"Contradicts itself (A > B > C > A) in {percent(rate)} of cases",
            f"{percent(rate)} 的样本自相矛盾（A > B > C > A）",
        )
        if ratio is not None:
            text += f", {interval(ratio)} times what chance would give"
            text_zh += f"，为随机情况的 {interval(ratio)} 倍"
        yield Finding("conflict/rate", "warn" if rate.value else "good", f"{text}.", f"{text_zh}。")
    if (weak := known(metrics, "conflict/weak_rate")) is not None and weak.value:
        yield Finding(
            "conflict/weak_rate",
            "info",
            f"Ties do not carry over (A = B, B = C, but A > C) in {percent(weak)} of cases.",
            f"{percent(weak)} 的样本平局不传递（A = B，B = C，但 A > C）。",
        )


def _scores(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (distinct := known(metrics, "score/distinct")) is not None:
        few = (distinct.value or 0) <= 2
        yield Finding(
            "score/distinct",
            "bad" if few else "info",
            f"Uses {distinct.value:.0f} different scores{': it hardly tells answers apart' if few else ''}.",
            f"共使用 {distinct.value:.0f} 种不同分值{'：几乎不能区分回答' if few else ''}。",
        )


def _calibration(metrics: Metrics, _: str) -> Iterator[Finding]:
    ece = known(metrics, "calibration/ece")
    if ece is not None and ece.low is not None:  # from a case or two it would say nothing
        value, low, high = (None if x is None else 100 * x for x in (ece.value, ece.low, ece.high))
        points = Metric(ece.name, value, low, high)
        off = ece.low is not None and ece.low > 0.1
        yield Finding(
            "calibration/ece",
            "warn" if off else "info",
            f"Its confidence is off by {interval(points, 0)} points on average.",
            f"其置信度平均偏差 {interval(points, 0)} 个百分点。",
        )


def _panel(metrics: Metrics, _: str) -> Iterator[Finding]:
    if (alpha := known(metrics, "panel/alpha")) is not None:
        text = f"Its judges agree among themselves with an alpha of {interval(alpha)}; conclusions need 0.8."
        text_zh = f"评委之间的一致程度 α 为 {interval(alpha)}；可靠结论需达 0.8。"
        relied = alpha.low is not None and alpha.low >= RELIABLE_ALPHA
        yield Finding("panel/alpha", "good" if relied else "warn", text, text_zh)


_FINDERS: tuple[Callable[[Metrics, str], Iterator[Finding]], ...] = (
    _agreement,
    benchmark_finding,
    _missing,
    _position,
    _ties,
    _length,
    leanings,
    _conflicts,
    _scores,
    _calibration,
    _panel,
)
