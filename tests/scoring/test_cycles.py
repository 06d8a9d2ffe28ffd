"""Cycles, their chance level, edge rules, what to reverse, cycles by criterion, and intransitive ties."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from evalkit.scoring.metrics import reversals
from evalkit.scoring.metrics.preference_graphs import in_cycle, matrices
from evalkit.scoring.metrics.reversals import fewest_reversals, shortest_cycles
from evalkit.scoring.metrics.transitivity import (
    chance_rate,
    chance_rate_both_ways,
    cyclic_shares,
    cyclic_triads,
    enumerate_shares,
    simulate_shares,
    weak_violation,
)
from evalkit.scoring.pipeline import score_run
from tests.support.thorough import examples


def outcomes(most: int):
    pairs = st.integers(3, most).map(lambda n: n * (n - 1) // 2)
    return pairs.flatmap(lambda k: st.lists(st.sampled_from([1, 0, -1]), min_size=k, max_size=k))


def backward(wins, order):
    return sum(int(wins[order[b], order[a]]) for a, b in combinations(range(len(order)), 2))


@given(outcomes(7))
def test_cycles_equal_scipy_and_counting(found):
    wins, tied = matrices(np.array([found], dtype=np.int8))
    n = wins.shape[-1]
    _, component = connected_components(wins[0], directed=True, connection="strong")
    sizes = np.bincount(component)
    assert in_cycle(wins)[0].tolist() == (sizes[component] > 1).tolist()
    circles = sum(
        any(wins[0][a, b] and wins[0][b, c] and wins[0][c, a] for a, b, c in permutations(three))
        for three in combinations(range(n), 3)
    )
    assert cyclic_triads(wins)[0] == circles
    weak = any(
        tied[0][a, b] and tied[0][b, c] and wins[0][a, c] for a, b, c in permutations(range(n), 3)
    )
    assert weak_violation(wins, tied)[0] == weak


@pytest.mark.parametrize(
    ("tie_rate", "percent"), [(0, 62.5), (0.1, 51.0), (0.281, 30.8), (0.5, 11.9), (1, 0)]
)
def test_chance_among_four(tie_rate, percent):
    assert round(100 * float(chance_rate(4, np.array(tie_rate))), 1) == percent


def test_chance_among_three_and_without_ties_among_many():
    assert float(chance_rate(3, np.array(0.0))) == pytest.approx(2 / 8)
    assert float(chance_rate(3, np.array(0.2))) == pytest.approx(2 / 8 * 0.8**3)
    assert float(chance_rate(5, np.array(0.0))) == pytest.approx(1 - 120 / 2**10)


def test_simulated_chance_equals_enumerated():
    np.testing.assert_allclose(simulate_shares(4), enumerate_shares(4), atol=0.012)
    assert cyclic_shares(6) is cyclic_shares(6)
    assert np.array_equal(simulate_shares(6), simulate_shares(6))


@given(outcomes(6))
def test_reversals_are_the_fewest_and_leave_no_cycle(found):
    wins, _ = matrices(np.array([found], dtype=np.int8))
    (result,) = fewest_reversals(wins, np.zeros(wins.shape))
    fewest = min(backward(wins[0], order) for order in permutations(range(wins.shape[-1])))
    assert len(result.wins) == fewest
    assert result.exact
    mended = wins.copy()
    for winner, loser in result.wins:
        assert wins[0, winner, loser]
        mended[0, winner, loser], mended[0, loser, winner] = False, True
    assert not in_cycle(mended).any()


def test_among_equally_few_the_least_sure_verdict_is_reversed():
    wins = np.zeros((3, 3), dtype=bool)
    wins[[0, 1, 2], [1, 2, 0]] = True
    for weakest in [(0, 1), (1, 2), (2, 0)]:
        margins = np.ones((1, 3, 3))
        margins[0, weakest[0], weakest[1]] = margins[0, weakest[1], weakest[0]] = 0.2
        assert fewest_reversals(wins[None], margins)[0].wins == (weakest,)


def test_a_large_knot_is_reversed_in_few_and_says_that_it_may_not_be_the_fewest(monkeypatch):
    n = 14
    wins = np.triu(np.ones((n, n), dtype=bool), 1)
    for winner, loser in [(13, 0), (9, 4)]:
        wins[winner, loser], wins[loser, winner] = True, False
    (result,) = fewest_reversals(wins[None], np.zeros((1, n, n)))
    assert (result.wins, result.exact) == (((9, 4), (13, 0)), False)
    monkeypatch.setattr(reversals, "MAX_EXACT_KNOT", 14)
    monkeypatch.setattr(reversals, "CHUNK", 1)
    (sure,) = fewest_reversals(wins[None], np.zeros((1, n, n)))
    assert (sure.wins, sure.exact) == (result.wins, True)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_moving_leaves_no_cycle_in_a_random_tournament(seed):
    generator = np.random.default_rng(seed)
    wins = np.triu(generator.random((13, 13)) < 0.5, 1)
    wins |= np.triu(~wins, 1).T
    (result,) = fewest_reversals(wins[None], np.zeros((1, 13, 13)))
    mended = wins.copy()
    for winner, loser in result.wins:
        mended[winner, loser], mended[loser, winner] = False, True
    assert not in_cycle(mended[None]).any()


@given(outcomes(5))
def test_every_cycle_is_listed(found):
    wins = matrices(np.array([found], dtype=np.int8))[0][0]
    n = len(wins)
    every = {
        path
        for length in range(3, n + 1)
        for path in permutations(range(n), length)
        if path[0] == min(path)
        and all(wins[a, b] for a, b in zip(path, path[1:] + path[:1], strict=True))
    }
    listed = shortest_cycles(wins, 1000)
    assert set(listed) == every
    assert len(listed) == len(every)
    assert [len(cycle) for cycle in listed] == sorted(len(cycle) for cycle in listed)


def play(configure, make_case, judged, games, n=4, **sections):
    """Each game maps a pair to the margins of its two passes, or of one."""
    sections = {"swap": {"resolve": "net_vote"}, **sections}
    cases = [make_case(str(k), "abcdefgh"[:n]) for k in range(len(games))]
    judgments = [
        judged(str(k), pair, margin, swapped=bool(order))
        for k, game in enumerate(games)
        for pair, margins in game.items()
        for order, margin in enumerate(margins)
    ]
    return score_run(configure(**sections), cases, judgments)


def circle(n=3):
    game = {(i, j): (1, 1) for i in range(n) for j in range(i + 1, n)}
    return {**game, (0, n - 1): (-1, -1)}


def test_more_cycles_than_are_listed(configure, make_case, judged, monkeypatch):
    monkeypatch.setattr(reversals, "MAX_CYCLES", 2)
    details = play(configure, make_case, judged, [circle(5)], 5).details["conflicts"]
    (entry,) = details["cases"]
    assert entry["case_id"] == "0"
    assert entry["responses"] == [0, 1, 2, 3, 4]
    assert entry["models"] == [None] * 5
    assert (len(entry["cycles"]), entry["more_cycles"]) == (2, True)
    assert entry["reverse"] == [[4, 0]]
    assert details["edges"] == "verdict"


RULED = {
    # pair: own order, swapped order
    (0, 1): (1, 1),
    (1, 2): (1, 0),
    (0, 2): (-1, -1),
}


@pytest.mark.parametrize(("rule", "rate", "triads", "reversals"), [
    ("verdict", 1, 1, 1),
    ("net", 1, 1, 1),
    ("both", 0, 0, 0),
    ("single", 1, 1, 1),
    ("ties", 1, 1, 1),
])  # fmt: skip
def test_edge_rules(configure, make_case, judged, rule, rate, triads, reversals):
    metrics = play(
        configure, make_case, judged, [RULED], 3, scoring={"conflict_edges": rule}
    ).metrics
    found = [metrics[f"conflict/{name}"].value for name in ("rate", "triads", "reversals")]
    assert found == [rate, triads, reversals]


def test_a_missing_pass_is_missing_for_the_rules_that_need_it(configure, make_case, judged):
    game = {**RULED, (0, 1): (1, None)}
    for rule, n in [("net", 0), ("both", 0), ("single", 1)]:
        metrics = play(
            configure, make_case, judged, [game], 3, scoring={"conflict_edges": rule}
        ).metrics
        assert (metrics["conflict/rate"].n, metrics["conflict/rate"].missing) == (n, 1 - n)


def test_rules_on_orders_take_the_one_order_there_is(configure, make_case, judged):
    cases = [make_case("c", "abc")]
    judgments = [
        judged("c", pair, value, swapped=pair == (1, 2)) for pair, (value, _) in RULED.items()
    ]
    config = configure(swap={"policy": "random"}, scoring={"conflict_edges": "net"})
    assert score_run(config, cases, judgments).metrics["conflict/rate"].value == 1


def test_ties_as_edges_both_ways(configure, make_case, judged, pointwise):
    tied = {(0, 1): (0, 0), (1, 2): (1, 1), (0, 2): (1, 1)}
    whole = dict.fromkeys(tied, (0, 0))
    ladder = dict.fromkeys(tied, (1, 1))
    config = {"scoring": {"conflict_edges": "ties"}}
    metrics = play(configure, make_case, judged, [tied, whole, ladder], 3, **config).metrics
    assert metrics["conflict/rate"].value == pytest.approx(2 / 3)
    assert metrics["conflict/nodes"].value == 2 + 3
    assert metrics["conflict/triads"].value == 1
    assert "every tie is a cycle" in metrics["conflict/rate"].note
    assert metrics["conflict/chance_rate"].value == pytest.approx(1 - (5 / 9) ** 3 * 6 / 8)
    scores = [judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([1, 2, 2])]
    implied = score_run(pointwise(**config), [make_case("c", "abc")], scores).metrics
    assert (implied["conflict/rate"].value, implied["conflict/nodes"].value) == (1, 2)
    assert "conflict/reversals" not in implied


@pytest.mark.parametrize(("n", "ties"), [(3, 0.0), (4, 0.3), (5, 0.1)])
def test_chance_both_ways_equals_simulation(n, ties):
    generator = np.random.default_rng(1)
    pairs = n * (n - 1) // 2
    drawn = generator.random((20_000, pairs))
    winners = np.where(drawn < ties, 0, np.where(drawn < ties + (1 - ties) / 2, 1, -1)).astype(
        np.int8
    )
    wins, tied = matrices(winners)
    assert float(chance_rate_both_ways(n, np.array(ties))) == pytest.approx(
        in_cycle(wins | tied).any(axis=1).mean(), abs=0.012
    )


@pytest.mark.slow
@examples(10)
@given(st.integers(3, 7), st.integers(0, 10**6))
def test_zeta_is_one_less_the_share_of_the_most_triads(configure, make_case, judged, n, seed):
    generator = np.random.default_rng(seed)
    pairs = list(combinations(range(n), 2))
    game = {pair: ((1, 1) if generator.random() < 0.5 else (-1, -1)) for pair in pairs}
    metrics = play(configure, make_case, judged, [game], n, scoring={"bootstrap": 0}).metrics
    wins = [0] * n
    for (i, j), (margin, _) in game.items():
        wins[i if margin > 0 else j] += 1
    triads = n * (n - 1) * (n - 2) / 6 - sum(a * (a - 1) / 2 for a in wins)
    most = (n**3 - n) / 24 if n % 2 else (n**3 - 4 * n) / 24
    assert metrics["conflict/zeta"].value == pytest.approx(1 - triads / most)
    assert metrics["conflict/triads"].value == triads


def test_zeta_leaves_ties_out_and_says_so(configure, make_case, judged):
    tied = {**circle(), (0, 1): (0, 0)}
    zeta = play(configure, make_case, judged, [circle(), tied], 3).metrics["conflict/zeta"]
    assert (zeta.value, zeta.n) == (0, 1)
    assert "1 with a tie are omitted" in zeta.note
    none = play(configure, make_case, judged, [tied], 3).metrics["conflict/zeta"]
    assert none.value is None
    assert "every case has a tie" in none.note


TWO = [{"name": "accuracy"}, {"name": "clarity, style"}, {"name": "depth"}]


def test_criteria_that_are_transitive_can_make_a_cycle_together(configure, make_case, judged):
    orders = {"accuracy": (0, 1, 2), "clarity, style": (1, 2, 0), "depth": (2, 0, 1)}
    case, pairs = make_case("c", "abc"), [(0, 1), (0, 2), (1, 2)]
    judgments = [
        judged(
            "c",
            (i, j),
            criteria={
                name: 1.0 if order.index(i) < order.index(j) else -1.0
                for name, order in orders.items()
            },
        )
        for i, j in pairs
    ]
    config = configure(criteria=TWO, swap={"policy": "none"}, scoring={"aggregate": "criteria"})
    scores = score_run(config, [case, make_case("d", "abc")], judgments)
    assert scores.metrics["conflict/rate"].value == 1
    paradox = scores.metrics["conflict/condorcet"]
    assert (paradox.value, paradox.n, paradox.missing) == (1, 1, 1)
    assert (paradox.worst_low, paradox.worst_high) == (0.5, 1)
    assert scores.metrics["conflict/rate/clarity, style"].value == 0
    assert scores.details["conflicts"]["criteria"] == {name: [] for name in orders}


def test_a_cycle_in_one_criterion_is_listed(configure, make_case, judged):
    margins = {(0, 1): 1, (1, 2): 1, (0, 2): -1}
    judgments = [
        judged("c", pair, 1.0, criteria={"accuracy": m, "depth": 1.0})
        for pair, m in margins.items()
    ]
    config = configure(criteria=[TWO[0], TWO[2]], swap={"policy": "none"})
    scores = score_run(config, [make_case("c", "abc")], judgments)
    assert scores.details["conflicts"]["criteria"] == {"accuracy": ["c"], "depth": []}


CIRCLE = {(0, 1): 1, (1, 2): 1, (0, 2): -1, (0, 3): 1, (1, 3): 1, (2, 3): 1}
LADDER = dict.fromkeys(CIRCLE, 1)


def alone(configure, make_case, judged, games):
    """Score games of four in one order: each maps a pair to its margin."""
    passes = [{pair: (margin,) for pair, margin in game.items()} for game in games]
    return play(configure, make_case, judged, passes, swap={"policy": "none"}).metrics


def test_a_case_with_a_missing_verdict_is_left_out_and_bounded(configure, make_case, judged):
    broken = {**CIRCLE, (2, 3): None}
    metrics = alone(configure, make_case, judged, [CIRCLE, LADDER, broken])
    rate = metrics["conflict/rate"]
    assert (rate.value, rate.n, rate.missing) == (0.5, 2, 1)
    assert (rate.worst_low, rate.worst_high) == pytest.approx((1 / 3, 2 / 3))
    nodes = metrics["conflict/nodes"]
    assert (nodes.value, nodes.missing, nodes.worst_low, nodes.worst_high) == (3, 4, 3, 7)


def test_chance_follows_the_tie_rate_and_the_sizes(configure, make_case, judged):
    cases = [make_case("four", "abcd"), make_case("three", "abc"), make_case("two", "ab")]
    judgments = [judged("four", pair, margin) for pair, margin in {**LADDER, (0, 3): 0}.items()]
    judgments += [
        judged("three", pair, margin) for pair, margin in {(0, 1): 1, (0, 2): 0, (1, 2): 1}.items()
    ]
    judgments += [judged("two", (0, 1), 0)]
    metrics = score_run(configure(swap={"policy": "none"}), cases, judgments).metrics
    expected = (float(chance_rate(4, np.array(2 / 9))) + float(chance_rate(3, np.array(2 / 9)))) / 2
    assert metrics["conflict/chance_rate"].value == pytest.approx(expected)
    assert metrics["conflict/rate"].n == 2
    assert "3, 4 responses at a tie rate of 0.222" in metrics["conflict/chance_rate"].note


def test_no_case_to_look_at_and_no_win_to_look_for(configure, make_case, judged, passes):
    metrics = score_run(configure(), [make_case("c")], passes("c", 1, 1)).metrics
    for name in ("rate", "nodes", "triads", "chance_rate", "ratio", "weak_rate"):
        assert metrics[f"conflict/{name}"].value is None
        assert "no case has at least three responses" in metrics[f"conflict/{name}"].note
    tied = alone(configure, make_case, judged, [dict.fromkeys(CIRCLE, 0)] * 2)
    assert tied["conflict/rate"].value == 0
    assert tied["conflict/ratio"].value is None
    assert "random outcomes would make no cycle" in tied["conflict/ratio"].note


def test_scores_cannot_make_a_cycle_but_a_threshold_breaks_transitivity(
    pointwise, make_case, judged
):
    judgments = [
        judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([1, 2, 3])
    ]
    metrics = score_run(pointwise(tie={"threshold": 1}), [make_case("c", "abc")], judgments).metrics
    for name in ("rate", "nodes", "triads"):
        metric = metrics[f"conflict/{name}"]
        assert (metric.value, metric.low, metric.high, metric.worst_high) == (0, 0, 0, 0)
        assert "0 by construction" in metric.note
    assert metrics["conflict/weak_rate"].value == 1
    assert "conflict/ratio" not in metrics
    lost = score_run(pointwise(), [make_case("c", "abc")], judgments[:2]).metrics
    assert (lost["conflict/rate"].value, lost["conflict/rate"].missing) == (None, 1)
