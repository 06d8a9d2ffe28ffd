"""What a sweep found, in words: which configuration is best, which may be as good, and which is worth its cost.

That two configurations do not differ significantly does not make them equal: a cheaper one is recommended only where it
is shown to be better than chance and no further behind than `scoring.margin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalkit.core.display import dollars, interval, percent
from evalkit.report.metric_names import Words, metric_words
from evalkit.report.sentences import Finding, side
from evalkit.scoring.leaderboard import (
    CONSISTENCY,
    CONTRADICTION,
    COST,
    SPEARMAN,
    Leaderboard,
    Standing,
    clearly_cheaper,
)
from evalkit.types import Metric

FIRST, LENGTH = "position/first_rate", "length/slope_at_label"
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
    if all(row.chance in ("unclear", "below") for row in ranked):
        text = "No configuration is shown to be better than chance: this sweep is no reason to choose any of them."
        yield Finding(by, "bad", text, "没有任何配置被证明优于随机：本次扫描不足以支持选用其中任何一个。")
    yield from _best(board, by, ranked, like, names)
    yield from _cheap(board, ranked, names)
    yield from _chance(by, ranked, names)
    if by == CONSISTENCY:
        text = "No pair is labeled, so the ranking is by consistency alone: a consistent judge can still be wrong."
        yield Finding(by, "warn", text, "没有标注，仅按一致性排名：结论一致的裁判仍可能判断错误。")
    else:
        yield from _consistency(ranked, names)
    yield from _places(ranked, names)
    yield from _lengths(ranked, names)
    yield from _contradictions(board, ranked, names)


def _like_best(board: Leaderboard, ranked: Sequence[Standing]) -> list[Standing]:
    """Return the configurations that do not differ significantly from the highest."""
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
    level = f"{100 * (1 - board.confidence):g}%"
    sure = ranked[0].chance in (None, "above")
    if len(ranked) == 1:
        yield Finding(by, "info", f"{name}: {what} {seen}.", f"{name}：{what_zh} {seen}。")
        return
    others = len(ranked) - 1
    if not like:
        rest, rest_zh = ("the other is", "另一个配置") if others == 1 else ("every other is", "其余各配置均")
        text = f"{name} is best by {what}: {seen}; {rest} significantly worse (Holm, {level})."
        text_zh = f"按{what_zh}，{name} 最高：{seen}；{rest_zh}显著更低（Holm，{level}）。"
        yield Finding(by, "good" if sure else "warn", text, text_zh)
    elif len(like) == others:
        rest = "the other does not differ" if others == 1 else f"none of the {others} others differs"
        text = (
            f"No configuration is shown to be best by {what}: {name} is highest with {seen}, and {rest} significantly "
        )
        text += f"from it (Holm, {level}). That does not show that they are equal."
        text_zh = f"没有配置被证明最好：按{what_zh}，{name} 最高（{seen}），"
        text_zh += f"其余 {others} 个与其差异均不显著（Holm，{level}），但这不表示它们相同。"
        yield Finding(by, "warn", text, text_zh)
    else:
        listed, listed_zh = _listed(like, names)
        verb = "does" if len(like) == 1 else "do"
        text = f"{name} is highest by {what}, {seen}; {len(like)} of {others} others {verb} not differ significantly "
        text += f"from it but may still be worse (Holm, {level}): {listed}."
        text_zh = f"按{what_zh}，{name} 最高（{seen}）；其余 {others} 个中有 {len(like)} 个与其差异不显著，但仍可能更差"
        text_zh += f"（Holm，{level}）：{listed_zh}。"
        yield Finding(by, "info", text, text_zh)


def _chance(by: str, ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known = [row for row in ranked if row.chance is not None]
    open_ = [row for row in known if row.chance in ("unclear", "unknown")]
    worse = [row for row in known if row.chance == "below"]
    if open_:
        listed, listed_zh = _listed(open_, names)
        text = f"Not shown to be better than chance: {len(open_)} of {len(known)}: {listed}."
        text_zh = f"未能表明优于随机：{len(known)} 个中的 {len(open_)} 个：{listed_zh}。"
        yield Finding(by, "bad", text, text_zh)
    if worse:
        listed, listed_zh = _listed(worse, names)
        text = f"Worse than chance: {len(worse)} of {len(known)}: {listed}. Check what the labels mean."
        text_zh = f"低于随机：{len(known)} 个中的 {len(worse)} 个：{listed_zh}。请检查标注的含义。"
        yield Finding(by, "bad", text, text_zh)


def _cheap(board: Leaderboard, ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    best, cost = ranked[0], ranked[0].metrics.get(COST)
    own = _price(best)
    if best.chance != "above" or not own:
        return
    cheaper = [row for row in ranked[1:] if row.chance == "above" and clearly_cheaper(row.metrics.get(COST), cost)]
    sound = [(price, row) for row in cheaper if row.non_inferior and (price := _price(row)) is not None]
    margin, top = f"{board.margin:g}", names[best.job]
    if sound:
        price, row = min(sound, key=lambda one: one[0])
        name, share, each = names[row.job], f"{100 * price / own:.0f}%", dollars(price)
        behind = interval(row.behind, 3) if row.behind else "-"
        text = (
            f"{name} costs {share} of what {top} costs ({each} per case), is better than chance and not worse by more"
        )
        text_zh = f"{name} 的费用仅为 {top} 的 {share}（每样本 {each}），优于随机，且不会低出 {margin} 以上"
        text, text_zh = f"{text} than {margin}: difference {behind}.", f"{text_zh}：差值 {behind}。"
        yield Finding(COST, "good", text, text_zh)
    elif cheaper:
        one = len(cheaper) == 1
        text = "One cheaper configuration is" if one else f"{len(cheaper)} cheaper configurations are"
        text += f" better than chance, but {'it is not' if one else 'none is'} shown to be within {margin} of {top}: "
        text_zh = f"有 {len(cheaper)} 个更便宜的配置优于随机，但均未能表明与 {top} 相差不超过 {margin}："
        yield Finding(COST, "info", f"{text}more cases could decide.", f"{text_zh}需要更多样本。")


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


def _contradictions(board: Leaderboard, ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    """Yield how often scores say the opposite of comparisons by the same judge."""
    jobs = {row.job for row in ranked}
    known = [one for one in board.contradictions if one.scores in jobs and one.metrics[CONTRADICTION].value is not None]
    if not known:
        return
    said = [(names[one.scores], names[one.comparisons], percent(one.metrics[CONTRADICTION])) for one in known[:NAMED]]
    listed = "; ".join(f"{one} against {two} {rate}" for one, two, rate in said)
    listed_zh = "；".join(f"{one} 与 {two}：{rate}" for one, two, rate in said)
    yield Finding(
        CONTRADICTION,
        "info",
        f"Scores say the opposite of comparisons in so many of the pairs that both decide: {listed}.",
        f"在评分与比较均分出胜负的样本对中，两者结论相反的比例：{listed_zh}。",
    )


def _places(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known = _known(ranked, FIRST)
    swayed = [row for row, metric in known if side(metric, 0.5) == "above"]
    first, second = len(swayed), sum(side(metric, 0.5) == "below" for _, metric in known)
    if first and not second:
        s, (listed, listed_zh) = "s" if first == 1 else "", _listed(swayed, names)
        yield Finding(
            FIRST,
            "warn",
            f"{first} of {len(known)} configurations clearly prefer{s} the answer shown first, none the second: "
            f"{listed}.",
            f"{len(known)} 个配置中有 {first} 个明显偏好先出现的回答，没有偏好后出现的：{listed_zh}。",
        )
    elif second:
        yield Finding(
            FIRST,
            "warn",
            f"Of {len(known)} configurations {first} clearly prefer the answer shown first, {second} the second.",
            f"{len(known)} 个配置中，{first} 个明显偏好先出现的回答，{second} 个明显偏好后出现的回答。",
        )


def _lengths(ranked: Sequence[Standing], names: Mapping[str, str]) -> Iterator[Finding]:
    known = _known(ranked, LENGTH)
    if swayed := [row for row, metric in known if side(metric, 0.0) == "above"]:
        listed, listed_zh = _listed(swayed, names)
        count, lean = f"{len(swayed)} of {len(known)} configurations", "leans" if len(swayed) == 1 else "lean"
        yield Finding(
            LENGTH,
            "warn",
            f"{count} {lean} to the longer answer beyond what the labels account for: {listed}.",
            f"{len(known)} 个配置中有 {len(swayed)} 个在标注相同的情况下仍偏向较长的回答：{listed_zh}。",
        )


def _known(ranked: Sequence[Standing], name: str) -> list[tuple[Standing, Metric]]:
    """Return the configurations whose metric has an interval, with it."""
    return [(row, metric) for row in ranked if (metric := row.metrics.get(name)) and metric.low is not None]
