"""Ratings, ranks and win rates of systems, and the pairs and scores that rankings imply."""

from dataclasses import replace
from itertools import combinations

import choix
import evalica
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize
from scipy.stats import rankdata
from statsmodels.stats.multitest import multipletests

from evalkit.config import ScoringConfig
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Judgment, Ranking, Response
from evalkit.scoring.judgments import read_judgments
from evalkit.scoring.metrics.ranking import (
    Games,
    Standing,
    at_equal_length,
    elo,
    elo_over_orders,
    rank_systems,
    standing,
)
from evalkit.scoring.pipeline import score_run, verdicts_of
from evalkit.scoring.rankings import implied, is_list, scores_of
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.davidson import fit
from tests.support.thorough import examples


def tables(generator, size, games=30, ties=True):
    strength = generator.normal(size=size)
    wins, tied = np.zeros((size, size)), np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1, size):
            weights = [
                np.exp(strength[i]),
                np.exp(strength[j]),
                np.exp((strength[i] + strength[j]) / 2) * ties,
            ]
            first, second, both = generator.multinomial(games, np.array(weights) / sum(weights))
            wins[i, j], wins[j, i], tied[i, j] = first, second, both
            tied[j, i] = both
    return wins, tied


def likelihood(at, wins, ties):
    ratings, log_v = at[:-1], at[-1]
    total = 0.0
    for i in range(len(wins)):
        for j in range(i + 1, len(wins)):
            terms = [ratings[i], ratings[j], log_v + (ratings[i] + ratings[j]) / 2]
            norm = np.logaddexp.reduce(terms)
            total += sum(
                c * (t - norm)
                for c, t in zip((wins[i, j], wins[j, i], ties[i, j]), terms, strict=True)
            )
    return total


@pytest.mark.parametrize("seed", range(4))
def test_ratings_equal_a_general_optimiser(seed):
    wins, ties = tables(np.random.default_rng(seed), 3 + seed % 3)
    found = minimize(
        lambda at: -likelihood(at, wins, ties), np.zeros(len(wins) + 1), tol=1e-12, method="BFGS"
    )
    ratings, log_v = fit(wins[None], ties[None])
    expected = found.x[:-1] - found.x[:-1].mean()
    assert ratings[0] == pytest.approx(expected, abs=1e-4)
    assert log_v[0] == pytest.approx(found.x[-1], abs=1e-4)
    assert likelihood([*ratings[0], log_v[0]], wins, ties) >= -found.fun - 1e-9


@pytest.mark.slow
@examples(8)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_without_ties_ratings_equal_choix_and_evalica(seed, size):
    wins, ties = tables(np.random.default_rng(seed), size, games=40, ties=False)
    (ratings,), (log_v,) = fit(wins[None], ties[None])
    if np.isnan(ratings).any():
        return
    assert log_v == -np.inf
    data = [(i, j) for i in range(size) for j in range(size) for _ in range(int(wins[i, j]))]
    assert ratings == pytest.approx(choix.opt_pairwise(size, data), abs=1e-4)
    names = [str(k) for k in range(size)]
    found = evalica.bradley_terry(
        [names[i] for i, _ in data],
        [names[j] for _, j in data],
        [evalica.Winner.X] * len(data),
        tolerance=1e-14,
        limit=100_000,
    )
    logs = np.log(found.scores.loc[names].to_numpy())
    assert ratings == pytest.approx(logs - logs.mean(), abs=1e-3)


def test_rows_are_fitted_each_on_its_own():
    rows = [tables(np.random.default_rng(seed), 4) for seed in range(6)]
    rows[2] = (rows[2][0], np.zeros((4, 4)))
    wins, ties = (np.stack(part) for part in zip(*rows, strict=True))
    together, log_v = fit(wins, ties)
    for k in range(6):
        alone, own = fit(wins[k : k + 1], ties[k : k + 1])
        assert together[k] == pytest.approx(alone[0], abs=1e-8)
        assert log_v[k] == pytest.approx(own[0], abs=1e-8)


@pytest.mark.parametrize("wins", [
    [[0, 5, 5], [0, 0, 3], [0, 2, 0]],  # the first never lost
    [[0, 2, 0], [2, 0, 0], [0, 0, 0]],  # the third never played
    [[0, 0, 0], [0, 0, 0], [0, 0, 0]],  # nobody won
])  # fmt: skip
def test_what_has_no_finite_estimate_has_none(wins):
    ratings, log_v = fit(np.array([wins], dtype=float), np.zeros((1, 3, 3)))
    assert np.isnan(ratings).all()
    assert np.isnan(log_v).all()


def test_ties_alone_do_not_make_a_rating_finite():
    wins, ties = np.array([[[0.0, 5.0], [0.0, 0.0]]]), np.array([[[0.0, 3.0], [3.0, 0.0]]])
    assert np.isnan(fit(wins, ties)[0]).all()


def test_win_rate_copeland_and_rank():
    wins = np.array([[[0, 3, 1], [1, 0, 2], [1, 1, 0.0]]])
    ties = np.array([[[0, 2, 0], [2, 0, 0], [0, 0, 0.0]]])
    found = standing(wins, ties)
    assert found.win_rate[0] == pytest.approx([5 / 8, 4 / 9, 2 / 5])
    assert found.copeland[0].tolist() == [1, 0, -1]
    assert found.rank[0].tolist() == [1, 2, 3]
    even = standing(np.array([[[0, 2], [2, 0.0]]]), np.zeros((1, 2, 2)))
    assert even.rank[0].tolist() == [1, 1]
    assert even.rating[0] == pytest.approx([0, 0])


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_elo_equals_evalica(seed):
    generator = np.random.default_rng(seed)
    i = generator.integers(0, 4, 60)
    j = (i + generator.integers(1, 4, 60)) % 4
    score = generator.choice([0.0, 0.5, 1.0], 60)
    winners = {0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw, 1.0: evalica.Winner.X}
    names = np.array(["a", "b", "c", "d"])
    found = evalica.elo(
        names[i].tolist(), names[j].tolist(), [winners[s] for s in score], initial=0.0, k=16.0
    )
    mine = elo(4, i[None], j[None], score[None])[0]
    expected = np.array([found.scores.get(name, 0.0) for name in names])
    assert mine == pytest.approx(expected, abs=1e-8)


def test_a_system_without_a_game_has_no_number():
    """As in a resample that drew none of its cases: 0 would be the score of one that won as often as it lost."""
    wins = np.zeros((1, 3, 3))
    wins[0, 0, 1] = 2.0
    found = standing(wins, np.zeros((1, 3, 3)))
    assert found.copeland[0].tolist() == pytest.approx([1, -1, np.nan], nan_ok=True)
    assert found.win_rate[0].tolist() == pytest.approx([1, 0, np.nan], nan_ok=True)


def league(strengths, cases, seed=0, ties=0.8, length=0.0):
    """Return cases with a response of each system, and a winner for each pair: (cases, judgments by function)."""
    generator = np.random.default_rng(seed)
    names = [f"system {k}" for k in range(len(strengths))]
    rows, games = [], []
    for k in range(cases):
        lengths = generator.integers(10, 400, len(names))
        responses = tuple(
            Response("x" * int(n), name) for n, name in zip(lengths, names, strict=True)
        )
        rows.append(Case(str(k), "question", responses))
        for i in range(len(names)):
            for j in range(i + 1, len(names)):
                lead = (
                    strengths[i]
                    - strengths[j]
                    + length * (np.log1p(lengths[i]) - np.log1p(lengths[j]))
                )
                weights = np.array([np.exp(lead / 2), ties, np.exp(-lead / 2)])
                games.append(
                    (str(k), (i, j), float(generator.choice([1, 0, -1], p=weights / weights.sum())))
                )
    return rows, games


def play(configure, judged, rows, games, **scoring):
    config = configure(swap={"policy": "none"}, scoring=scoring)
    return score_run(config, rows, [judged(*game) for game in games])


def test_ratings_that_no_resample_changes_have_an_interval(configure, judged):
    """One win each way and ties: in every case both systems did equally well."""
    widths = []
    for n in (5, 50):
        rows = [
            Case(str(k), "question", (Response("a", "x"), Response("b", "y"), Response("c", "x")))
            for k in range(n)
        ]
        games = [
            (str(k), unit, value)
            for k in range(n)
            for unit, value in (((0, 1), 1.0), ((1, 2), 1.0))
        ]
        metric = play(configure, judged, rows, games).metrics["ranking/rating/x"]
        assert metric.value == pytest.approx(0)
        assert metric.low == pytest.approx(-metric.high)
        widths.append(metric.high - metric.low)
    assert widths[0] > 3 * widths[1] > 0


def test_sides_do_not_matter(configure, judged):
    rows, games = league([1.0, 0.0], 30)
    turned = [Case(c.id, c.prompt, c.responses[::-1]) if k % 2 else c for k, c in enumerate(rows)]
    other = [(name, unit, -value if int(name) % 2 else value) for name, unit, value in games]
    one, two = (
        play(configure, judged, *pair).details["ranking"]
        for pair in ((rows, games), (turned, other))
    )
    assert one == two


def test_a_system_that_never_lost_is_ranked_but_not_rated(configure, judged):
    rows, _ = league([0, 0], 10)
    scores = play(configure, judged, rows, [(str(k), (0, 1), 1.0) for k in range(10)])
    metric = scores.metrics["ranking/rating/system 0"]
    assert metric.value is None
    assert "no finite estimate" in metric.note
    assert scores.metrics["ranking/separated"].value is None
    assert [row["system"] for row in scores.details["ranking"]["systems"]] == [
        "system 0",
        "system 1",
    ]
    assert scores.details["ranking"]["systems"][0]["win_rate"]["value"] == 1
    assert scores.details["ranking"]["systems"][0]["rank"]["value"] is None


def test_a_rating_that_many_resamples_do_not_determine_has_no_interval(configure, judged):
    rows, _ = league([0, 0], 10)
    games = [(str(k), (0, 1), -1.0 if k == 0 else 1.0) for k in range(10)]
    scores = play(configure, judged, rows, games)
    metric = scores.metrics["ranking/rating/system 0"]
    assert metric.value > 0
    assert (metric.low, metric.high) == (None, None)
    assert "not defined in" in metric.note
    assert "too few resamples" in scores.metrics["ranking/separated"].note
    assert scores.details["ranking"]["systems"][0]["rank"]["low"] is None
    assert "no value" not in str(scores.details)


def test_unknown_systems_and_pairs_of_one_system_are_no_games(configure, judged, make_case):
    rows = [
        Case(
            "0",
            "q",
            (
                Response("a", "x"),
                Response("b"),
                Response("c", "x"),
                Response("d", "y"),
                Response("e", "y"),
            ),
        ),
        Case("1", "q", (Response("a", "x"), Response("d", "y"))),
        Case("2", "q", (Response("a", "z"), Response("d"))),
    ]
    units = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    games = [("0", unit, 1.0) for unit in units] + [("1", (0, 1), None), ("2", (0, 1), 1.0)]
    ranking = play(configure, judged, rows, games).details["ranking"]
    assert ranking["games"] == 4
    assert ranking["missing"] == 1
    assert {row["system"] for row in ranking["systems"]} == {"x", "y"}
    bare = play(configure, judged, [make_case("c")], [("c", (0, 1), 1.0)])
    assert "ranking" not in bare.details
    assert not [name for name in bare.metrics if name.startswith("ranking")]


def test_many_systems_are_in_the_file_and_not_among_the_metrics(configure, judged, monkeypatch):
    monkeypatch.setattr("evalkit.scoring.metrics.ranking.MAX_SYSTEMS", 2)
    scores = play(configure, judged, *league([1, 0, -1], 2), bootstrap=5)
    assert len(scores.details["ranking"]["systems"]) == 3
    assert [name for name in scores.metrics if name.startswith("ranking")] == ["ranking/separated"]


def games_with_length(effect, cases=400, seed=0, ties=0.8, strengths=(0.5, 0.0, -0.5)):
    rows, played = league(strengths, cases, seed, ties, effect)
    size = len(strengths)
    case = np.array([int(name) for name, _, _ in played])
    i, j = (np.array([unit[k] for _, unit, _ in played]) for k in (0, 1))
    texts = np.array([[np.log1p(len(r.text)) for r in row.responses] for row in rows])
    winner = np.array([value for *_, value in played]).astype(np.int8)
    longer = texts[case, i] - texts[case, j]
    pairs, turn = np.arange(len(i)), np.ones(len(i), np.int8)
    return Games(
        tuple(map(str, range(size))),
        case,
        i,
        j,
        winner,
        longer,
        pairs,
        turn,
        Clusters.each(cases),
        0,
    )


@pytest.mark.parametrize("effect", [0.8, 0.0, -0.5])
def test_a_planted_effect_of_length_is_found_and_taken_out(effect):
    games = games_with_length(effect)
    found = at_equal_length(games)
    planted = effect * np.std(games.log_ratio)
    assert abs(found.effect - planted) < 3 * found.effect_error
    assert found.ratings == pytest.approx([0.5, 0.0, -0.5], abs=0.35)
    assert (np.abs(found.ratings - [0.5, 0.0, -0.5]) < 3.5 * found.errors).all()


def test_ratings_at_equal_length_equal_statsmodels():
    statsmodels = pytest.importorskip("statsmodels.api")
    games = games_with_length(0.6, cases=80, ties=0.0)
    found = at_equal_length(games)
    design = np.zeros((len(games), 3))
    for column in (1, 2):
        design[:, column - 1] = (games.i == column).astype(float) - (games.j == column)
    design[:, 2] = games.log_ratio / np.std(games.log_ratio)
    model = statsmodels.Logit((games.winner == 1).astype(float), design)
    fitted = model.fit(
        disp=0, cov_type="cluster", cov_kwds={"groups": games.cluster, "use_correction": False}
    )
    ratings = np.array([0.0, *fitted.params[:2]])
    assert found.ratings == pytest.approx(ratings - ratings.mean(), abs=1e-6)
    assert found.effect == pytest.approx(fitted.params[2], abs=1e-6)
    assert found.effect_error == pytest.approx(fitted.bse[2], rel=1e-6)


def test_length_that_cannot_be_told_apart_is_not_estimated(configure, judged):
    games = games_with_length(0.0, cases=20)
    assert at_equal_length(replace(games, log_ratio=games.log_ratio * 0)) is None
    # Every system always has its own length: its rating and the effect are one.
    own = np.array([3.0, 2.0, 1.0])
    assert at_equal_length(replace(games, log_ratio=own[games.i] - own[games.j])) is None
    sure = np.sign(games.log_ratio).astype(np.int8)
    assert at_equal_length(replace(games, winner=sure)) is None
    rows, played = league([0, 0], 10)
    level = [
        Case(row.id, row.prompt, tuple(Response("x", r.model) for r in row.responses))
        for row in rows
    ]
    assert (
        "not determined"
        in play(configure, judged, level, played).details["ranking"]["at_equal_length"]["note"]
    )


def test_long_runs_of_games_are_cut_for_elo(monkeypatch):
    from evalkit.scoring.metrics import ranking as module

    games = games_with_length(0.0, cases=50)
    whole = elo_over_orders(games, resampled=False, seed=1, orders=20)
    monkeypatch.setattr(module, "WORK", 20 * 40)
    part = elo_over_orders(games, resampled=True, seed=1, orders=20)
    assert np.abs(part).max() < np.abs(whole).max()
    assert whole.sum(axis=1) == pytest.approx(np.zeros(20), abs=1e-9)


def test_a_fit_that_does_not_settle_in_time_is_none(monkeypatch):
    from evalkit.scoring.stats import davidson

    wins, ties = tables(np.random.default_rng(1), 4)
    monkeypatch.setattr(davidson, "_STEPS", 1)
    assert np.isnan(fit(wins[None], ties[None])[0]).all()
    assert at_equal_length(games_with_length(0.5, cases=30)) is None


def test_pairs_of_systems_are_told_apart_by_holm(monkeypatch):
    games = games_with_length(0.0, cases=40, strengths=(0.9, 0.5, 0.0, -0.1))
    generator = np.random.default_rng(0)
    ratings = np.vstack(
        [[60.0, 25.0, -30.0, -55.0], generator.normal([60, 25, -30, -55], 12, size=(500, 4))]
    )
    nothing = np.zeros(501)
    made = Standing(ratings, nothing, ratings, ratings)
    monkeypatch.setattr("evalkit.scoring.metrics.ranking.resampled_standing", lambda *_: made)
    metrics, details = rank_systems(games, ScoringConfig(bootstrap=100))
    n = len(np.unique(games.cluster))
    i, j = np.triu_indices(4, 1)
    error = (ratings[1:, i] - ratings[1:, j]).std(axis=0) * (n / (n - 1)) ** 0.5
    plain = 2 * stats.t.sf(np.abs(ratings[0, i] - ratings[0, j]) / error, n - 1)
    adjusted = multipletests(plain, 0.05, "holm")[1]
    assert (plain <= 0.05).sum() > (adjusted <= 0.05).sum()
    assert metrics[-1].value == pytest.approx((adjusted <= 0.05).mean())
    rows = {row["system"]: row["p_holm_of_first"] for row in details["systems"]}
    assert [rows[games.names[k]] for k in (1, 2, 3)] == pytest.approx(adjusted[:3])


CASE = Case(
    "c",
    "q",
    tuple(Response(text, grade=grade) for text, grade in zip("abcd", (4, 3, 2, 1), strict=True)),
)


def listed(
    ranking: Ranking | None, shown: tuple[int, ...] = (0, 1, 2, 3), sample: int = 0, **more
) -> Judgment:
    status = "ok" if ranking is not None else "unparseable"
    return Judgment(
        more.pop("case", "c"),
        tuple(sorted(shown)),
        shown,
        sample,
        "m",
        status,
        **{"ranking": ranking} | more,
    )


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    """Some of n responses, in groups, in any order."""
    places = draw(st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=2, max_size=7))
    levels = sorted({place for place in places if place is not None})
    return tuple(tuple(i for i, place in enumerate(places) if place == level) for level in levels)


@given(rankings())
def test_scores_are_mid_ranks(ranking):
    ranked = sorted(index for group in ranking for index in group)
    scores = scores_of(ranking)
    if len(ranked) < 2:
        assert scores == {}
        return
    level = {index: place for place, group in enumerate(ranking) for index in group}
    ranks = rankdata([level[index] for index in ranked])
    assert [scores[index] for index in ranked] == pytest.approx(1 - (ranks - 1) / (len(ranked) - 1))


@given(rankings())
def test_a_pair_is_won_by_the_higher_place_and_missing_where_one_was_left_out(ranking):
    n = max((index for group in ranking for index in group), default=1) + 2
    level = {index: place for place, group in enumerate(ranking) for index in group}
    pairs = implied(listed(ranking, tuple(range(n))), 2, 0)
    assert [pair.unit for pair in pairs] == list(combinations(range(n), 2))
    for pair in pairs:
        i, j = pair.unit
        if i in level and j in level:
            assert np.sign(pair.value) == np.sign(level[j] - level[i])
            assert abs(pair.value) <= 1
        else:
            assert pair.value is None


def test_each_pair_is_shown_as_the_list_had_it():
    pairs = {
        pair.unit: pair.shown for pair in implied(listed(((0, 1, 2, 3),), shown=(2, 0, 3, 1)), 2, 0)
    }
    assert pairs == {
        (0, 1): (0, 1),
        (0, 2): (2, 0),
        (0, 3): (0, 3),
        (1, 2): (2, 1),
        (1, 3): (3, 1),
        (2, 3): (2, 3),
    }


def test_a_pair_judgment_passes_through():
    pair = Judgment("c", (0, 1), (1, 0), 0, "m", "ok", 1.0)
    judgments = read_judgments([CASE], [pair, listed(((0,), (1,), (2,), (3,)))], ["quality"])
    assert not is_list(pair)
    assert (len(judgments.asked), len(judgments.of_units(2)), len(judgments.of_units(1))) == (
        2,
        1 + 6,
        4,
    )
    assert not len(read_judgments([CASE], [pair], ["quality"]).of_units(1))


def test_two_responses_ranked_are_a_win_of_the_whole_margin():
    (pair,) = implied(listed(((1,), (0,)), (0, 1)), 2, 0)
    assert pair.value == -1.0


def test_verdicts_on_responses_and_on_pairs(configure):
    config = configure(mode={"name": "listwise"})
    both = [
        listed(((0,), (1, 2), (3,)), confidence=0.8),
        listed(((0,), (2,), (1,)), (3, 2, 1, 0), confidence=0.6),
    ]
    of = {verdict.unit: verdict for verdict in verdicts_of(config, [CASE], both)}
    # The one list that has the last response has it last; where it was left out it is not.
    assert [of[k,].score for k in range(4)] == pytest.approx([1.0, 0.25, 0.5, 0.0])
    assert (of[0, 1].winner, of[0, 1].confidence, of[0, 1].margin) == ("A", 0.7, 0.75)
    assert (of[1, 2].reason, of[0, 3].reason) == ("swap_disagreement", "missing")
    claim = score_run(config, [CASE], both).metrics["calibration/claim"]
    assert claim.value is None or 0 < claim.value <= 1


def test_a_list_that_cannot_be_read_is_missing_for_each_of_its_pairs(configure):
    config = configure(mode={"name": "listwise"})
    scores = score_run(
        config, [CASE], [listed(((0,), (1,), (2,), (3,))), listed(None, (3, 2, 1, 0))]
    )
    pairs = [verdict for verdict in scores.verdicts if len(verdict.unit) == 2]
    assert {verdict.reason for verdict in pairs} == {"missing"}
    assert scores.metrics["agreement/accuracy"].missing == 6
    assert scores.metrics["missing/unparseable"].value == 0.5
    assert [verdict.score for verdict in scores.verdicts[:4]] == pytest.approx(
        [1, 2 / 3, 1 / 3, 0], abs=1e-9
    )


def test_rankings_by_criterion_are_weighted_into_margins_and_scores(configure):
    criteria = [{"name": "x", "weight": 3}, {"name": "y", "weight": 1}]
    by = {"x": ((1,), (0,), (2,)), "y": ((0,), (1, 2))}
    case = Case("c", "q", CASE.responses[:3])
    judgment = listed(((2,), (1,), (0,)), (0, 1, 2), rankings=by)
    for chosen, margin, score in (
        ({"aggregate": "overall"}, -0.5, 0.0),
        ({"weights": {"x": 1, "y": 1}}, -0.5, 0.0),
        ({}, 0.75 * -0.5 + 0.25 * 0.75, 0.75 * 0.5 + 0.25 * 1),
        ({"aggregate": "criteria", "weights": {"x": 1, "y": 1}}, 0.5 * -0.5 + 0.5 * 0.75, 0.75),
    ):
        config = configure(
            mode={"name": "listwise"}, criteria=criteria, swap={"policy": "none"}, scoring=chosen
        )
        of = {verdict.unit: verdict for verdict in verdicts_of(config, [case], [judgment])}
        assert of[0, 1].margin == pytest.approx(margin)
        assert of[0,].score == pytest.approx(score)
        assert of[0, 1].criteria == pytest.approx({"x": -0.5, "y": 0.75})
        assert of[0,].criteria == pytest.approx({"x": 0.5, "y": 1.0})


def test_samples_are_averaged(configure):
    case = Case("c", "q", CASE.responses[:3])
    judgments = [listed(((0,), (1,), (2,)), (0, 1, 2), 0), listed(((1,), (0,), (2,)), (2, 1, 0), 1)]
    config = configure(mode={"name": "listwise"}, swap={"policy": "random"})
    of = {verdict.unit: verdict for verdict in verdicts_of(config, [case], judgments)}
    assert of[0,].score == pytest.approx(0.75)
    assert of[2,].score == 0.0


def test_single_responses_and_lists_do_not_mix(configure):
    single = Judgment("c", (0,), (0,), 0, "m", "ok", 1.0)
    with pytest.raises(
        ConfigError, match="judgments of 1 and 4 responses cannot be scored together"
    ):
        score_run(configure(mode={"name": "listwise"}), [CASE], [single, listed(((0, 1, 2, 3),))])
