"""What a sweep found, in words: which configuration is best, which are indistinguishable, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalkit.report.finding import Finding, dollars, interval, percent, side
from evalkit.report.wording import Words, metric_words
from evalkit.scoring.leaderboard import CONSISTENCY, COST, SPEARMAN, Leaderboard, Standing
from evalkit.types import Metric

KAPPA, FIRST = "agreement/kappa", "position/first_rate"
NAMED = 4
"""So many configurations are named where more are meant."""


def contest_findings(board: Leaderboard, names: Mapping[str, str], datasets: Mapping[str, str]) -> list[Finding]:
    """Return what a leaderboard says, most important first, dataset by dataset.

    `names` are what configurations go by, by job; `datasets` those of the data, by fingerprint.
    """
    if board.by is None:
        text = "Nothing to rank by: no configuration has labels to agree with, or two orders to agree between."
        return [Finding("leaderboard", "warn", text, "无从排名：没有可比较的标注，也没有两种顺序可供比较。")]
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
    return Finding(finding.metric, finding.tone, f"{dataset}: {finding.text}", f"{dataset}：{finding.text_zh}")


def _group(board: Leaderboard, by: str, rows: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    ranked = [row for row in rows if row.letters is not None]
    if not ranked:
        return
    like = _like_best(board, ranked)
    yield from _best(board, by, ranked, like, names)
    yield from _cheap(ranked[0], like, names)
    yield from _chance(ranked, names)
    if by != CONSISTENCY:
        yield from _consistency(ranked, names)
    yield from _places(ranked)


def _like_best(board: Leaderboard, ranked: Sequence[Standing]) -> list[Standing]:
    """Return the configurations that the tests do not tell apart from the highest."""
    alpha = 1 - board.confidence
    apart = {frozenset((c.first, c.second)) for c in board.contrasts if c.p_holm is not None and c.p_holm <= alpha}
    return [row for row in ranked[1:] if frozenset((ranked[0].job, row.job)) not in apart]


def _listed(rows: Sequence[Standing], names: Mapping[str, str]) -> Words:
    shown = [names[row.job] for row in rows[:NAMED]]
    more = len(rows) - len(shown)
    joined = "; ".join(shown) + (f" and {more} more" if more else "")
    return joined, "；".join(shown) + (f" 等 {len(rows)} 个" if more else "")


def _best(
    board: Leaderboard, by: str, ranked: Sequence[Standing], like: Sequence[Standing], names: Mapping[str, str]
) -> Iterator[Finding]:
    what, what_zh = metric_words(by)
    what = what if by == SPEARMAN else what.lower()
    name, seen = names[ranked[0].job], interval(ranked[0].metrics[by])
    level = f"{100 * (1 - board.confidence):g} %"
    if len(ranked) == 1:
        yield Finding(by, "info", f"{name}: {what} {seen}.", f"{name}：{what_zh} {seen}。")
        return
    if not like:
        text = f"{name} is best by {what}: {seen}, told apart from every other."
        text_zh = f"按{what_zh}，{name} 最高：{seen}，与其余各配置均可区分。"
        yield Finding(by, "good", text, text_zh)
    elif len(like) == len(ranked) - 1:
        text = f"No configuration is clearly best by {what}: {name} is highest with {seen}, and "
        text += "the other" if len(like) == 1 else f"none of the {len(like)} others"
        text += f" {'cannot' if len(like) == 1 else 'can'} be told apart from it (Holm, {level})."
        text_zh = f"没有明显最好的配置：按{what_zh}，{name} 最高（{seen}），"
        text_zh += f"但与其余 {len(like)} 个均无法区分（Holm，{level}）。"
        yield Finding(by, "warn", text, text_zh)
    else:
        others, others_zh = _listed(like, names)
        text = f"{name} is highest by {what}, {seen}, but cannot be told apart from {len(like)} of "
        text += f"{len(ranked) - 1} others (Holm, {level}): {others}."
        text_zh = f"按{what_zh}，{name} 最高（{seen}），但与其余 {len(ranked) - 1} 个中的 {len(like)} 个无法区分"
        text_zh += f"（Holm，{level}）：{others_zh}。"
        yield Finding(by, "info", text, text_zh)


def _chance(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known = [row for row in ranked if (metric := row.metrics.get(KAPPA)) and metric.low is not None]
    lost = [row for row in known if side(row.metrics[KAPPA], 0.0) != "above"]
    if not lost:
        return
    listed, listed_zh = _listed(lost, names)
    yield Finding(
        KAPPA,
        "bad",
        f"Not shown to be better than chance, by kappa: {len(lost)} of {len(known)}: {listed}.",
        f"按 κ 未能表明优于随机：{len(known)} 个中的 {len(lost)} 个：{listed_zh}。",
    )


def _cheap(best: Standing, like: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    prices = [(price, row) for row in like if (price := _price(row)) is not None]
    own = _price(best)
    if not own or not prices:
        return
    price, cheapest = min(prices, key=lambda one: one[0])
    if price > 0.95 * own:
        return
    share = f"{100 * price / own:.0f} %"
    yield Finding(
        COST,
        "good",
        f"{names[cheapest.job]} cannot be told apart from it and costs {share} of that: {dollars(price)} a case.",
        f"{names[cheapest.job]} 与其无法区分，费用仅为其 {share}：每样本 {dollars(price)}。",
    )


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
        yield Finding(
            CONSISTENCY,
            "info",
            f"All keep their verdict in {top} of pairs when the order is swapped.",
            f"交换顺序后，各配置均有 {top} 的比较结论不变。",
        )
        return
    yield Finding(
        CONSISTENCY,
        "info",
        f"When the order is swapped, {names[high.job]} keeps its verdict in {top} of pairs, "
        f"{names[low.job]} in {worst}.",
        f"交换顺序后，{names[high.job]} 有 {top} 的比较结论不变，{names[low.job]} 为 {worst}。",
    )


def _places(ranked: Sequence[Standing]) -> Iterator[Finding]:
    known: list[Metric] = [m for row in ranked if (m := row.metrics.get(FIRST)) and m.low is not None]
    first, second = (sum(side(metric, 0.5) == where for metric in known) for where in ("above", "below"))
    if first and not second:
        yield Finding(
            FIRST,
            "warn",
            f"{first} of {len(known)} configurations clearly prefer the answer shown first, none the second.",
            f"{len(known)} 个配置中有 {first} 个明显偏好先出现的回答，没有偏好后出现的。",
        )
    elif second:
        yield Finding(
            FIRST,
            "warn",
            f"Of {len(known)} configurations {first} clearly prefer the answer shown first, {second} the second.",
            f"{len(known)} 个配置中，{first} 个明显偏好先出现的回答，{second} 个明显偏好后出现的回答。",
        )
