"""How far a judge agrees with the labels, in words: better than chance or not, and what its accuracy is made of."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval
from evalkit.report.diagnostics import label_words
from evalkit.report.metric_names import Words
from evalkit.report.sentences import Finding, Metrics, Tone, known, side
from evalkit.scoring.chance_level import (
    ACCURACY,
    CORRELATIONS,
    DECIDED,
    KAPPA,
    PER_ORDER,
    ChanceTest,
    against_chance,
    one_order,
)
from evalkit.types import Metric

SUBSTANTIAL_KAPPA = 0.6  # Landis and Koch (1977), table 2: from here on agreement is "substantial"
SUBSTANTIAL_ACCURACY = 0.8  # the same where A and B are as frequent and kappa is not defined
GOOD = 0.75
"""An interval that holds both chance and this accuracy (or half of a coefficient's range) says too little to tell."""


def agreement(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield what accuracy and correlation say, or why nothing can be said."""
    accuracy = known(metrics, ACCURACY)
    correlation = next((m for name in CORRELATIONS if (m := known(metrics, name))), None)
    if accuracy is not None and (test := against_chance(metrics)) is not None:
        yield _accuracy(metrics, accuracy, test)
    if correlation is not None:
        name = correlation.name.partition("/")[2].capitalize()
        test = ChanceTest(side(correlation, 0.0), correlation, 0.0)
        strong = correlation.low is not None and correlation.low >= SUBSTANTIAL_KAPPA
        numbers = f"{name} {interval(correlation)}"
        yield _finding(metrics, correlation, test, strong, (numbers, numbers))
    if accuracy is None and correlation is None:
        yield _nothing(metrics)


def _nothing(metrics: Metrics) -> Finding:
    found = [metrics[name] for name in (ACCURACY, *CORRELATIONS) if name in metrics]
    labels, labels_zh = label_words(metrics)
    unknown, unknown_zh = f"how far it agrees with {labels} is not known", f"与{labels_zh}的一致程度未知"
    distinct = known(metrics, "score/distinct")
    if any(metric.n for metric in found) and distinct is not None and distinct.value == 1:
        text = f"Not shown to be better than chance: all {distinct.n:,} scores are equal and cannot follow the labels."
        return Finding(ACCURACY, "bad", text, f"未能表明优于随机：全部 {distinct.n:,} 个分数都相同，无法反映标注。")
    if any(metric.n for metric in found):
        text, text_zh = "Labels are all equal, so scores cannot be correlated with them", "标注全部相同，无法计算相关"
    elif any(metric.missing for metric in found):
        text, text_zh = "No answer that has a label could be used", "有标注的回答均无法使用"
    else:
        text, text_zh = "No labels to compare with", "没有可比较的标注"
        return Finding(
            ACCURACY, "info", f"{text}: how far it can be trusted is not known.", f"{text_zh}：可信程度未知。"
        )
    return Finding(ACCURACY, "bad", f"{text}: {unknown}.", f"{text_zh}：{unknown_zh}。")


def _accuracy(metrics: Metrics, accuracy: Metric, test: ChanceTest) -> Finding:
    kappa = known(metrics, KAPPA)
    if kappa is None or kappa.low is None:  # not defined, or the same in every resample
        strong = accuracy.low is not None and accuracy.low >= SUBSTANTIAL_ACCURACY
    else:
        strong = kappa.low >= SUBSTANTIAL_KAPPA
    strong = strong and (accuracy.worst_low is None or not accuracy.missing or accuracy.worst_low > 0.5)
    return _finding(metrics, accuracy, test, strong, _numbers(metrics, accuracy, test))


def _numbers(metrics: Metrics, accuracy: Metric, test: ChanceTest) -> Words:
    """Return accuracy, what it is made of where there are ties, its bounds where answers are missing, and kappa."""
    ties, per_order, decided = (known(metrics, name) for name in ("tie_rate", PER_ORDER, DECIDED))
    parts = [(f"accuracy {interval(accuracy)}", f"准确率 {interval(accuracy)}")]
    if ties is not None and ties.value:
        parts[0] = (
            f"{parts[0][0]} (a tie is wrong unless the label is one)",
            f"{parts[0][1]}（除非标注为平局，平局计为错误）",
        )
        if per_order is not None:
            parts.append((f"{interval(per_order)} in a single order", f"单一顺序下 {interval(per_order)}"))
        if decided is not None:
            n = f"{decided.n:,}"
            pairs = "the one decided pair" if decided.n == 1 else f"the {n} decided pairs"
            parts.append((f"{interval(decided)} among {pairs}", f"在 {n} 对分出胜负的回答中 {interval(decided)}"))
        elif DECIDED in metrics:
            parts.append(("no labeled pair is decided", "没有标注的回答对分出胜负"))
    parts += _missing(accuracy)
    parts += _kappa(metrics, test)
    return ", ".join(part[0] for part in parts), "，".join(part[1] for part in parts)


def _missing(accuracy: Metric) -> list[Words]:
    if not accuracy.missing or accuracy.worst_low is None or accuracy.worst_high is None:
        return []
    ends, every = f"{accuracy.worst_low:.2f}", accuracy.n + accuracy.missing
    most = f"{accuracy.worst_high:.2f}"
    text = f"{ends} to {most} over all {every:,} pairs, {accuracy.missing:,} without a verdict"
    return [(text, f"计入无结论的 {accuracy.missing:,} 对（共 {every:,} 对）则为 {ends} 至 {most}")]


def _kappa(metrics: Metrics, test: ChanceTest) -> list[Words]:
    kappa = metrics.get(KAPPA)
    if kappa is None:
        return []
    if kappa.value is None:
        if not kappa.n:
            return []
        why = (kappa.note or "").partition(":")[0]
        because = f" ({why})" if why else ""
        return [(f"kappa not defined{because}", "κ 无定义（标注或结论只有一类）")]
    seen = interval(kappa)
    if test.side == "above" and test.metric is not kappa and side(kappa, 0.0) == "unclear":
        text = f"kappa {seen}, which does not show more than always giving the most frequent label"
        return [(text, f"κ {seen}，未能表明优于总是给出最常见的标注")]
    return [(f"kappa {seen}", f"κ {seen}")]


def _finding(metrics: Metrics, metric: Metric, test: ChanceTest, strong: bool, numbers: Words) -> Finding:
    labels, labels_zh = label_words(metrics)
    said, said_zh = numbers
    agrees = "Its scores agree" if metric.name in CORRELATIONS else "Agrees"
    tone: Tone = "bad"
    if test.side == "above":
        tone = "good" if strong else "warn"
        how, how_zh = ("far better", "远好于") if strong else ("better", "好于")
        text, text_zh = f"{agrees} with {labels} {how} than chance", f"与{labels_zh}的一致程度{how_zh}随机"
    elif test.side == "below":
        text, text_zh = f"{agrees} with {labels} less than chance would", f"与{labels_zh}的一致程度低于随机"
    elif test.side == "unknown" and one_order(metrics):
        tone = "warn"
        text = "Each pair was shown in one order and has the same label, so agreement may come from position alone"
        text_zh = "每对只以一种顺序呈现且标注相同，一致可能仅来自位置"
    elif test.side == "unknown" or _wide(test):
        decided = test.metric is not None and test.metric.name == DECIDED
        what, what_zh = ("decided pairs", "分出胜负的回答对") if decided else ("cases", "样本")
        tone, n = "warn", metric.n if test.metric is None else test.metric.n
        text = f"Too few {what} to tell whether it is better than chance (n = {n:,})"
        text_zh = f"{what_zh}太少（n = {n:,}），无法判断是否优于随机"
    elif one_order(metrics):
        text, text_zh = (
            "Not shown to be better than guessing with the same shares of verdicts",
            "未能表明优于按相同比例猜测",
        )
    else:
        text, text_zh = "Not shown to be better than chance", "未能表明优于随机"
    return Finding(metric.name, tone, f"{text}: {said}.", f"{text_zh}：{said_zh}。")


def _wide(test: ChanceTest) -> bool:
    metric = test.metric
    if metric is None or metric.low is None or metric.high is None:
        return False
    return metric.high >= (GOOD if test.chance else 2 * GOOD - 1)
