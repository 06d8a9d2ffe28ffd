"""The vote by Dawid and Skene's model: against a slow obvious version, published software, and planted judges."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalkit.config import RunConfig
from evalkit.core.annotations import INCLUSION
from evalkit.scoring.metrics import refits
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats import dawid_skene
from evalkit.scoring.stats.dawid_skene import VotePatterns, true_codes
from tests.support.panels import panel_of
from tests.support.thorough import examples, some_of


def slow(votes, codes, rounds=1000):
    """Expectation maximization, one unit and one judge at a time; votes (judges, units) are codes or -1."""
    judges, units = len(votes), len(votes[0])
    cast = [[votes[j][u] for j in range(judges) if votes[j][u] >= 0] for u in range(units)]
    chances = [[own.count(c) / len(own) if own else 0.0 for c in range(codes)] for own in cast]
    for _ in range(rounds):
        total = sum(sum(chances[u]) for u in range(units))
        prior = [sum(chances[u][c] for u in range(units)) / total for c in range(codes)]
        errors = [[[0.0] * codes for _ in range(codes)] for _ in range(judges)]
        for j in range(judges):
            for true in range(codes):
                for u in range(units):
                    if votes[j][u] >= 0:
                        errors[j][true][votes[j][u]] += chances[u][true]
                mass = sum(errors[j][true])
                errors[j][true] = [one / mass if mass else 0.0 for one in errors[j][true]]
        after = []
        for u in range(units):
            logs = []
            for true in range(codes):
                terms = [errors[j][true][votes[j][u]] for j in range(judges) if votes[j][u] >= 0]
                logs.append(sum(np.log(max(one, 1e-10)) for one in (prior[true], *terms)))
            odds = [np.exp(one - max(logs)) for one in logs]
            after.append([one / sum(odds) if cast[u] else 0.0 for one in odds])
        moved = max(
            abs(a - b)
            for x, y in zip(after, chances, strict=True)
            for a, b in zip(x, y, strict=True)
        )
        chances = after
        if moved < 1e-6:
            break
    return np.array(chances).T


def planted(seed, n, codes, accuracy, lost=0.1):
    """Judges that are right at random; otherwise they choose any code."""
    g = np.random.default_rng(seed)
    truth = g.integers(0, codes, n)
    votes = np.array(
        [np.where(g.random(n) < one, truth, g.integers(0, codes, n)) for one in accuracy]
    )
    votes[g.random(votes.shape) < lost] = -1
    return truth, votes


def fit(votes, codes):
    return true_codes(np.asarray(votes)[None] == np.arange(codes)[:, None, None])


@examples(8)
@given(st.integers(0, 10_000), st.integers(3, 5), st.integers(2, 4))
def test_probabilities_are_those_of_the_slow_version(seed, judges, codes):
    _, votes = planted(seed, 25, codes, [0.8, 0.7, 0.6, 0.5, 0.9][:judges])
    found, expected = fit(votes, codes), slow(votes.tolist(), codes)
    assert found.max(axis=0) == pytest.approx(expected.max(axis=0), abs=1e-3)
    assert found == pytest.approx(expected, abs=1e-3)


# fmt: off
COUNTS = [21, 4, 3, 5, 2, 3, 1, 6, 4, 1, 3, 7, 2, 6, 5, 27]
CROWD_KIT = [0.005551, 0.136516, 0.140854, 0.822805, 0.171517, 0.854304, 0.858767, 0.994227,
             0.098358, 0.755483, 0.76213, 0.9891, 0.801817, 0.991349, 0.991655, 0.999703]
# fmt: on


def test_probabilities_are_those_of_crowd_kit():
    """Every pattern of four judges, so many times: DawidSkene(n_iter=1000, tol=1e-12) of crowd-kit 1.4.2."""
    votes = np.repeat(list(product(range(2), repeat=4)), COUNTS, axis=0).T
    first = np.cumsum([0, *COUNTS[:-1]])
    assert fit(votes, 2)[1][first] == pytest.approx(CROWD_KIT, abs=1e-5)


def test_units_without_votes_have_no_probabilities_and_do_not_count():
    votes = np.array([[0, 1, -1, 1], [0, 1, -1, 0], [1, 1, -1, 1]])
    assert fit(votes, 2)[:, 2].tolist() == [0.0, 0.0]
    assert fit(votes, 2)[:, [0, 1, 3]] == pytest.approx(fit(votes[:, [0, 1, 3]], 2))


def run_of(votes, labels, mode="pairwise", metadata=None, judge=None, **settings):
    """Score a panel's votes (judges × cases): winners of pairs or classes, `None` if missing."""
    rubric = {"abstain": "unsure"} if mode == "classes" else {}
    judge = {"vote": "dawid_skene", **(judge or {})}
    return score_run(
        *panel_of(votes, labels, mode, metadata=metadata, judge=judge, rubric=rubric, **settings)
    )


NAMES = ["A", "TIE", "B", None]


def named(truth, votes):
    return [[NAMES[one] for one in row] for row in votes], [NAMES[one] for one in truth]


def test_the_verdict_is_the_most_probable_code():
    truth, votes = planted(1, 50, 3, (0.9, 0.5, 0.5, 0.6))
    given, labels = named(truth, votes)
    chances, quorum = slow(votes.tolist(), 3), (votes >= 0).sum(axis=0) >= 2
    expected = [
        NAMES[code] if enough else None
        for code, enough in zip(chances.argmax(axis=0), quorum, strict=True)
    ]
    assert [
        one.winner for one in run_of(given, labels, scoring={"bootstrap": 0}).verdicts
    ] == expected
    assert [
        one.class_name
        for one in run_of(given, labels, "classes", scoring={"bootstrap": 0}).verdicts
    ] == expected


def test_no_verdict_is_forced_that_a_judge_gave_or_that_nobody_gave():
    """A judge that is always wrong makes a winner probable that another vote is not for: it is judged, not forced."""
    truth, votes = planted(2, 300, 2, (0.95, 0.95, 0.0), lost=0.0)
    votes[2] = 1 - truth
    given = [[["A", "B"][one] for one in row] for row in votes]
    scores = run_of(given, [["A", "B"][one] for one in truth])
    assert {one.reason for one in scores.verdicts} == {"judged"}
    assert scores.metrics["agreement/accuracy"].value > 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "weighted"),
    some_of(
        [("pairwise", True), ("classes", False), ("pairwise", False), ("classes", True)],
        2,
        rows=True,
    ),
)
def test_each_resample_is_the_run_of_its_cases(mode, weighted, monkeypatch):
    """The statistics of a resample, with the vote fitted again, are those of scoring the resampled cases."""
    truth, votes = planted(3, 40, 3, (0.7, 0.4, 0.4))
    given, labels = named(truth, votes)
    if mode == "classes":
        given[1][:4] = ["unsure"] * 4
    labels[30:] = [None] * 10
    chance = [0.25 if n % 2 else 0.5 for n in range(40)]
    metadata = [{INCLUSION: chance[n]} if weighted and n < 30 else {} for n in range(40)]
    seen = {}
    original = refits.FittedVote.statistics

    def kept(self, found, weights):
        seen["made"] = original(self, found, weights)
        return seen["made"]

    monkeypatch.setattr(refits.FittedVote, "statistics", kept)
    metrics = run_of(given, labels, mode, metadata, scoring={"bootstrap": 20}).metrics
    made = {one.name: one for one in seen["made"] if one.name != "agreement/alpha" or not weighted}
    assert {"agreement/accuracy", "agreement/kappa"} <= set(made)
    g = np.random.default_rng(9)
    for _ in range(2):
        chosen = g.integers(0, 40, 40)
        again = run_of(
            [[row[n] for n in chosen] for row in given],
            [labels[n] for n in chosen],
            mode,
            [metadata[n] for n in chosen],
            scoring={"bootstrap": 0},
        ).metrics
        counts = np.bincount(chosen, minlength=40)[None].astype(float)
        totals = made["agreement/kappa"].table.totals(
            counts
        )  # of one table, so that the vote is fitted once
        for name, one in made.items():
            value = one.value(totals)[0]
            assert again[name].value == (None if np.isnan(value) else pytest.approx(value)), name
    for name, one in made.items():
        value = one.observed()
        assert metrics[name].value == (None if np.isnan(value) else pytest.approx(value)), name


@pytest.mark.slow
def test_the_interval_holds_both_the_vote_as_fitted_and_fitted_again(monkeypatch):
    truth, votes = planted(3, 40, 3, (0.6, 0.4, 0.4))
    given, labels = named(truth, votes)
    wide = run_of(given, labels).metrics["agreement/accuracy"]
    monkeypatch.setattr(refits, "MOST", 0)
    narrow = run_of(given, labels).metrics["agreement/accuracy"]
    assert wide.value == narrow.value
    assert wide.low <= narrow.low < narrow.high <= wide.high
    assert (wide.low, wide.high) != (narrow.low, narrow.high)


def test_ties_that_are_not_allowed_are_decided_and_the_vote_is_not_fitted_again():
    truth, votes = planted(4, 40, 3, (0.7, 0.4, 0.4))
    given, labels = named(truth, votes)
    scores = run_of(given, labels, tie={"allow": False})
    assert scores.metrics["tie_rate"].value == 0.0
    assert scores.metrics["agreement/accuracy"].low is not None


@pytest.mark.parametrize(
    ("judges", "settings", "message"),
    [
        (
            2,
            {},
            "vote is dawid_skene, which needs three judges, but there are 2: add judges, or set vote=majority",
        ),
        (
            3,
            {"mode": {"name": "pointwise"}},
            "judge.vote: dawid_skene is for pairs and classes, not for scores: set judge.vote=majority",
        ),
    ],
)
def test_two_judges_and_scores_are_refused(judges, settings, message):
    judge = {
        "judges": [{"name": f"j{k}", "model": "m"} for k in range(judges)],
        "vote": "dawid_skene",
    }
    with pytest.raises(ValidationError, match=message):
        RunConfig(judge=judge, criteria=[{"name": "quality"}], swap={"policy": "none"}, **settings)


@pytest.mark.parametrize("rounds", [dawid_skene.ROUNDS, 2])
def test_rows_that_converge_late_do_not_hold_up_or_change_the_others(monkeypatch, rounds):
    monkeypatch.setattr(dawid_skene, "ROUNDS", rounds)
    _, votes = planted(6, 60, 3, (0.7, 0.5, 0.4))
    patterns = VotePatterns.read(votes[None] == np.arange(3)[:, None, None])
    counts = np.random.default_rng(0).integers(0, 4, (5, patterns.hot.shape[2])).astype(float)
    together = patterns.fit(counts)
    for row, found in zip(counts, together, strict=True):
        assert patterns.fit(row[None])[0] == pytest.approx(found)
