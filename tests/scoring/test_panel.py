"""Panels: votes on verdicts and scores, against slow obvious versions, and what is said of the judges beside them."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from statistics import mean, median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Judgment, Response, Verdict
from evalkit.scoring.columns import all_pairs
from evalkit.scoring.judgments import read_judgments
from evalkit.scoring.pipeline import (
    Scores,
    score_run,
    score_without_intervals,
    verdict_statistics,
    verdicts_of,
)
from evalkit.scoring.stats.statistic import Statistic
from evalkit.scoring.verdict_rules import resolve_comparisons
from tests.support.thorough import examples

NAMES = ("x", "y", "z")
PAIR = (Response("a"), Response("bb"))


def panel(*names: str, **settings: Any) -> RunConfig:
    judge = {
        "judges": [{"name": name, "model": "m"} for name in names or NAMES],
        **settings.pop("judge", {}),
    }
    scoring = {"bootstrap": 100, **settings.pop("scoring", {})}
    return RunConfig(
        judge=judge,
        **{"criteria": [{"name": "quality"}], "swap": {"policy": "none"}, **settings},
        scoring=scoring,
    )


def judged(judge: str, value: float | None, case: str = "c", unit=(0, 1), **more: Any) -> Judgment:
    status = "failed" if value is None and not more.get("criteria") else "ok"
    return Judgment(case, unit, more.pop("shown", unit), 0, judge, status, value, **more)


def verdict_of(config: RunConfig, judgments: Sequence[Judgment]) -> Verdict:
    (verdict,) = verdicts_of(config, [Case("c", "q", PAIR)], judgments)
    return verdict


def votes_on(config: RunConfig, values: Sequence[float | None], **more: Any) -> Verdict:
    judgments = [judged(name, value, **more) for name, value in zip(NAMES, values, strict=False)]
    return verdict_of(config, judgments)


@given(
    st.lists(st.sampled_from([1.0, 0.5, 0.2, 0.0, -0.2, -1.0, None]), min_size=3, max_size=3),
    st.sampled_from(["majority", "mean", "median", "weighted"]),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.25]),
)
def test_votes_are_what_the_obvious_way_of_counting_gives(values, how, quorum, threshold):
    weights = {"x": 3.0, "y": 1.0, "z": 0.5}
    config = panel(
        judge={"vote": how, "quorum": quorum, "weights": weights},
        tie={"threshold": threshold},
        scoring={"bootstrap": 0},
    )
    verdict = votes_on(config, values)
    cast = [
        (value, weights[name])
        for name, value in zip(NAMES, values, strict=True)
        if value is not None
    ]
    if len(cast) < quorum:
        assert (verdict.winner, verdict.margin, verdict.reason) == (None, None, "missing")
        return

    def winner(margin: float) -> str:
        return "TIE" if abs(margin) <= threshold + 1e-9 else "A" if margin > 0 else "B"

    if how == "majority":
        counts = Counter(winner(value) for value, _ in cast).most_common()
        expected = "TIE" if len(counts) > 1 and counts[0][1] == counts[1][1] else counts[0][0]
    else:
        numbers = [value for value, _ in cast]
        total = {
            "mean": lambda: mean(numbers),
            "median": lambda: median(numbers),
            "weighted": lambda: sum(v * w for v, w in cast) / sum(w for _, w in cast),
        }[how]()
        assert verdict.margin == pytest.approx(total)
        expected = winner(total)
    assert verdict.winner == expected


def test_half_of_the_judges_are_the_quorum_unless_said():
    assert votes_on(panel("x", "y"), (1, None)).winner == "A"
    assert votes_on(panel("x", "y", judge={"quorum": 2}), (1, None)).winner is None
    assert votes_on(panel(judge={"quorum": 1}), (None, None, -1)).winner == "B"


def test_a_judge_without_any_judgment_counts_for_the_quorum():
    case = Case("c", "q", PAIR)
    assert verdicts_of(panel(), [case], [judged("x", 1.0)])[0].winner is None
    scores = score_run(panel(), [case], [judged("x", 1.0), judged("y", 1.0)])
    assert scores.verdicts[0].winner == "A"


def test_a_judge_of_weight_0_has_no_vote():
    weighted = {"vote": "weighted", "weights": {"x": 0, "y": 0}, "quorum": 1}
    assert votes_on(panel(judge=weighted), (1, 1, -1)).winner == "B"
    assert votes_on(panel(judge=weighted), (1, 1, None)).winner is None


def test_a_judges_own_disagreement_between_orders_is_a_tie_of_its_own():
    config = panel(swap={"policy": "both"})
    both = [
        judged(name, value, shown=shown)
        for name, (first, second) in zip(NAMES, ((1, -1), (1, -1), (1, 1)), strict=True)
        for shown, value in (((0, 1), first), ((1, 0), second))
    ]
    scores = score_run(config, [Case("c", "q", PAIR)], both)
    (verdict,) = scores.verdicts
    assert (verdict.winner, verdict.reason) == ("TIE", "swap_disagreement")
    assert (verdict.orders.first, verdict.orders.second, verdict.orders.consistent) == (
        "A",
        "B",
        False,
    )
    assert scores.metrics["tie_rate/swap_disagreement"].value == 1.0
    assert scores.metrics["tie_rate/split"].value == 0.0
    assert scores.metrics["judge/z/position/consistency"].value == 1.0
    # Their margins of 0 count in a mean.
    verdict = verdict_of(panel(swap={"policy": "both"}, judge={"vote": "mean"}), both)
    assert (verdict.winner, verdict.margin) == ("A", pytest.approx(1 / 3))


@given(st.lists(st.tuples(*[st.sampled_from([1.0, 0.0, -1.0, None])] * 2), min_size=3, max_size=3))
@pytest.mark.parametrize("vote", ["majority", "mean", "median"])
def test_orders_disagree_only_where_the_votes_on_them_do(vote, values):
    both = [
        judged(name, value, shown=shown)
        for name, pair in zip(NAMES, values, strict=True)
        for shown, value in zip(((0, 1), (1, 0)), pair, strict=True)
    ]
    config = panel(swap={"policy": "both"}, judge={"vote": vote})
    verdict = verdict_of(config, both)
    if verdict.reason == "swap_disagreement":
        assert verdict.orders.consistent is False


def test_a_tie_by_vote_is_a_split_although_each_judges_orders_differ():
    config = panel(swap={"policy": "both"})
    both = [
        judged(name, value, shown=shown)
        for name, (first, second) in zip(NAMES, ((1, -1), (-1, 1), (1, 1)), strict=True)
        for shown, value in (((0, 1), first), ((1, 0), second))
    ]
    verdict = verdict_of(config, both)
    assert (verdict.winner, verdict.reason) == ("TIE", "split")
    assert (verdict.orders.first, verdict.orders.second, verdict.orders.consistent) == (
        "A",
        "A",
        True,
    )


@pytest.mark.parametrize(("vote", "values", "reason"), [
    ("majority", (0.0, 0.0, 0.0), "forced"),
    ("majority", (1.0, 1.0, 0.0), "judged"),
    ("mean", (0.4, 0.4, 0.4), "judged"),
    ("mean", (0.0, 0.0, 0.0), "forced"),
])  # fmt: skip
def test_a_winner_that_no_judge_chose_is_forced(vote, values, reason):
    config = panel(
        judge={"vote": vote}, tie={"allow": False, "threshold": 0.3 if vote == "mean" else 0.0}
    )
    verdict = votes_on(config, values)
    assert (verdict.winner in ("A", "B"), verdict.reason) == (True, reason)


def test_a_mean_is_judged_although_its_judges_alone_would_be_forced():
    config = panel(judge={"vote": "mean"}, tie={"allow": False, "min_confidence": 0.5})
    judgments = [
        judged(n, v, confidence=c)
        for n, v, c in zip(NAMES, (1, -0.2, -0.2), (0.4, 0.1, 0.1), strict=True)
    ]
    verdict = verdict_of(config, judgments)
    assert (verdict.winner, verdict.reason) == ("A", "judged")


def test_the_confidence_is_the_mean_probability_of_the_outcome():
    judgments = [
        judged(n, v, confidence=c)
        for n, v, c in zip(NAMES, (1, 1, -1), (0.9, 0.6, 0.7), strict=True)
    ]
    verdict = verdict_of(panel(), judgments)
    assert verdict.confidence == pytest.approx((0.9 + 0.6 + 0.3) / 3)
    judgments[1] = judged("y", 0.0, confidence=0.8)
    verdict = verdict_of(panel(), judgments)
    assert (verdict.reason, verdict.confidence) == ("split", pytest.approx((0.5 + 0.8 + 0.5) / 3))
    assert votes_on(panel(), (1, 1, 1)).confidence is None


def test_splits_are_settled_where_ties_are_forbidden():
    config = panel(tie={"allow": False})
    verdict = votes_on(config, (1, -0.2, None))
    assert (verdict.winner, verdict.reason) == ("A", "forced")
    assert votes_on(config, (0.2, -1, None)).winner == "B"
    assert votes_on(config, (1, -1, None)).winner in ("A", "B")


def cases_of(count: int, **more: Any) -> list[Case]:
    return [Case(str(k), "q", PAIR, **more) for k in range(count)]


def run_panel(
    rows: Sequence[Sequence[float | None]], config: RunConfig | None = None, **case: Any
) -> Scores:
    cases = cases_of(len(rows), **case)
    judgments = [
        judged(name, value, case=str(k))
        for k, row in enumerate(rows)
        for name, value in zip(NAMES, row, strict=True)
    ]
    return score_run(config or panel(), cases, judgments)


def nominal(rows: Sequence[Sequence[float | None]]) -> float | None:
    """Krippendorff's alpha by going through every pair of values of every unit, and every pair of values at all."""
    units = [[v for v in row if v is not None] for row in rows]
    units = [unit for unit in units if len(unit) > 1]
    values = [v for unit in units for v in unit]
    n = len(values)
    observed = (
        sum(sum(a != b for a, b in combinations(u, 2)) * 2 / (len(u) - 1) for u in units) / n
        if n
        else 0
    )
    expected = sum(a != b for a, b in combinations(values, 2)) * 2 / (n * (n - 1)) if n > 1 else 0
    return 1 - observed / expected if expected else None


@pytest.mark.slow
@examples(10)
@given(
    st.lists(
        st.lists(st.sampled_from([1.0, 0.0, -1.0, None]), min_size=3, max_size=3),
        min_size=1,
        max_size=12,
    )
)
def test_alpha_between_judges_is_krippendorffs(rows):
    metrics = run_panel(rows, panel(scoring={"bootstrap": 0})).metrics
    expected = nominal(rows)
    alpha = metrics["panel/alpha"]
    assert alpha.value == (None if expected is None else pytest.approx(expected))
    assert alpha.missing == sum(value is None for row in rows for value in row)
    several = [[v for v in row if v is not None] for row in rows]
    several = [row for row in several if len(row) > 1]
    unanimous = metrics["panel/unanimous"]
    assert unanimous.n == len(several)
    if several:
        assert unanimous.value == pytest.approx(
            sum(len(set(row)) == 1 for row in several) / len(several)
        )


def scored(rows: Sequence[Sequence[float | None]], **judge: Any) -> Scores:
    config = panel(mode={"name": "pointwise"}, judge=judge)
    case = Case("c", "q", tuple(Response(str(k), grade=float(k)) for k in range(len(rows))))
    judgments = [
        judged(name, None, unit=(index,), criteria={} if value is None else {"quality": value})
        for index, row in enumerate(rows)
        for name, value in zip(NAMES, row, strict=True)
    ]
    return score_run(config, [case], judgments)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "expected"), [
    ("mean", [3.0, 4.5, None]),
    ("median", [4, 4.5, None]),
    ("majority", [4, 4.5, None]),
    ("weighted", [3.4, 4.75, None]),
])  # fmt: skip
def test_scores_are_averaged_or_their_median_is_taken(how, expected):
    found = scored([(4, 1, 4), (5, 4, None), (2, None, None)], vote=how, weights={"x": 3})
    assert [verdict.score for verdict in found.verdicts[:3]] == [
        e if e is None else pytest.approx(e) for e in expected
    ]
    assert found.verdicts[0].votes == {"x": 4, "y": 1, "z": 4}
    assert found.verdicts[2].votes == {"x": 2, "y": None, "z": None}
    assert found.verdicts[3].unit == (0, 1)
    assert found.verdicts[3].winner == "B"
    assert found.metrics["conflict/rate"].value is None or found.metrics["conflict/rate"].value == 0


def test_alpha_of_scores_is_on_an_interval_scale():
    rows = [(4, 1, 4), (5, 4, None), (2, None, None), (1, 1, 2)]
    units = [[v for v in row if v is not None] for row in rows[:2] + rows[3:]]
    values = [v for unit in units for v in unit]
    n = len(values)
    observed = (
        sum(sum((a - b) ** 2 for a, b in combinations(u, 2)) * 2 / (len(u) - 1) for u in units) / n
    )
    expected = sum((a - b) ** 2 for a, b in combinations(values, 2)) * 2 / (n * (n - 1))
    found = scored(rows)
    assert found.metrics["panel/alpha"].value == pytest.approx(1 - observed / expected)
    assert "tie_rate/split" not in found.metrics


def test_a_panel_of_lists_votes_on_pairs_and_on_scores():
    config = panel(mode={"name": "listwise"}, judge={"vote": "majority"})
    case = Case("c", "q", tuple(Response(str(k)) for k in range(3)))
    # Each judge is consistent; their majority runs in a circle (Condorcet).
    cycle = (((0,), (1,), (2,)), ((1,), (2,), (0,)), ((2,), (0,), (1,)))
    judgments = [
        judged(n, None, unit=(0, 1, 2), ranking=r) for n, r in zip(NAMES, cycle, strict=True)
    ]
    scores = score_run(config, [case], judgments)
    assert [verdict.winner for verdict in scores.verdicts[3:]] == ["A", "B", "A"]
    assert scores.metrics["conflict/rate"].value == 1.0
    assert scores.metrics["judge/x/conflict/rate"].value == 0.0
    assert [verdict.score for verdict in scores.verdicts[:3]] == [0.5, 0.5, 0.5]


def test_the_frontier_of_a_majority_moves_each_judges_threshold():
    config = panel()
    cases = cases_of(1, label="A")
    judgments = [judged(n, v, case="0") for n, v in zip(NAMES, (0.2, 0.2, -1.0), strict=True)]
    points = {point.threshold: point for point in score_run(config, cases, judgments).frontier}
    assert sorted(points) == [0.0, 0.2, 1.0]
    assert [points[t].accuracy for t in (0.0, 0.2, 1.0)] == [1.0, 0.0, 0.0]
    assert points[0.2].tie_rate == 1.0
    averaged = score_run(panel(judge={"vote": "mean"}), cases, judgments).frontier
    assert [point.threshold for point in averaged] == [0.0, pytest.approx(0.2)]


def test_judges_that_metrics_cannot_tell_apart_are_refused():
    config = panel("a b", "a/b")
    with pytest.raises(
        ConfigError,
        match=r"judge\.judges: the metrics of judges a b and a/b would have the same names",
    ):
        score_run(config, cases_of(1), [judged("a b", 1.0, case="0"), judged("a/b", 1.0, case="0")])


def test_judges_that_the_config_does_not_know_are_a_panel_all_the_same(configure):
    config = configure(swap={"policy": "none"})
    scores = score_run(
        config, cases_of(1), [judged("p", 1.0, case="0"), judged("q", 1.0, case="0")]
    )
    assert scores.verdicts[0].votes == {"p": "A", "q": "A"}


def test_the_order_of_judgments_does_not_matter():
    rows = [(1, -1, None), (0, 1, 1), (1, 1, 1)]
    cases = cases_of(3, label="A")
    judgments = [
        judged(n, v, case=str(k))
        for k, row in enumerate(rows)
        for n, v in zip(NAMES, row, strict=True)
    ]
    assert score_run(panel(), cases, judgments) == score_run(panel(), cases, judgments[::-1])


def test_judgments_of_several_judges_are_not_resolved_as_those_of_one():
    cases = [Case("c", "q", PAIR), Case("d", "q", PAIR)]
    judgments = read_judgments(cases, [judged("x", 1.0), judged("y", 1.0, "d")], ("quality",))
    with pytest.raises(
        ConfigError, match="expected the judgments of one judge, found several: x, y"
    ):
        resolve_comparisons(panel(), cases, judgments, all_pairs(cases))


def test_statistics_of_verdicts_are_part_of_those_of_the_run():
    votes = zip(
        range(6), (1.0, -1.0, 0.0, 1.0, -1.0, None), (1.0, 1.0, 0.0, -1.0, -1.0, 1.0), strict=True
    )
    judgments = [
        judged(name, v, case=str(k)) for k, *row in votes for name, v in zip("xy", row, strict=True)
    ]
    run = panel("x", "y"), cases_of(6, label="A"), judgments
    whole = {one.name: one for one in score_without_intervals(*run).measures}
    part = {one.name: one for one in verdict_statistics(*run)}
    assert {
        "tie_rate",
        "panel/alpha",
        "judge/x/agreement/accuracy",
        "judge/y/win_rate/a",
    } <= part.keys()
    assert not {name for name in part if "corrected/" in name or "ranking/" in name}
    for name, one in part.items():
        if isinstance(one, Statistic):
            assert one.observed() == pytest.approx(whole[name].observed(), nan_ok=True), name
