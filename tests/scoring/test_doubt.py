"""Doubts of the decision that few judges raise, each by the metrics that raise it."""

from dataclasses import replace

import numpy as np
import pytest

from evalkit.core.scale import Scale
from evalkit.core.translation import in_every_language
from evalkit.core.types import Metric
from evalkit.report.findings.decisions import sentence
from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.decision import Decision, decide
from evalkit.scoring.decision.evidence import (
    CLASSES,
    NO_SCALE,
    PAIRS,
    SAME_TOOL,
    SCORES,
    labels_against,
    order_effect_is_small,
)
from evalkit.scoring.decision.leans import Leans, RateLean, leans_of
from evalkit.scoring.decision.limits import gaps_and_biases
from evalkit.scoring.leaderboard import Leaderboard, Standing
from evalkit.scoring.pipeline import score_run


def named(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


KAPPA = Metric("agreement/kappa", 0.8, 0.7, 0.9, n=400)
LEAN = Metric("decision/lean/a", 0.0, -0.01, 0.01, n=400)
IDENTICAL = "labels/identical"
ORDER = Metric("position/first_rate", 0.5, 0.48, 0.52, n=400)
TRUSTED = Decision("single", "substantial", "response", metric=Metric("agreement/spearman", 0.9))


def limits(kind, decision: Decision, *metrics: Metric) -> set[str]:
    labeled = [
        Metric("agreement/accuracy", 0.95, 0.9, 0.99, n=400),
        Metric("agreement/spearman", 0.9, 0.85, 0.95, n=400),
    ]
    found = gaps_and_biases(kind, named(*labeled, *metrics), decision, Leans((), ()), 0.95)
    return {limit.kind for limit in found}


def test_labels_against_a_constant_class():
    rate = Metric("decision/label_rate/class/pass", 0.9, n=20)
    metrics = named(rate, Metric("class/balanced_accuracy", 0.5))
    assert labels_against(metrics, "pass") == 2


@pytest.mark.parametrize(("high", "small"), [(0.52, True), (0.8, False)])
def test_a_random_order_shows_a_small_effect(high, small):
    assert (
        order_effect_is_small(named(Metric("position/first_rate", 0.5, 0.48, high, 400))) is small
    )


def test_a_lean_without_an_interval_excludes_nothing():
    assert RateLean("", Metric("decision/lean/a", 0.1, n=9), 0.05, None).reach == 1


@pytest.mark.parametrize(
    ("low", "high", "kind"), [(0.95, 0.99, "follows_length"), (-0.99, -0.95, "follows_brevity")]
)
def test_scores_that_follow_length_are_named(low, high, kind):
    length = Metric("decision/length", (low + high) / 2, low, high, n=200)
    assert [limit.kind for limit in leans_of(SCORES, named(length), 0.95).limits] == [kind]


@pytest.mark.parametrize(("note", "kind"), [(None, "identical"), ("model", "model_labels")])
def test_the_source_of_the_labels_is_a_limit(note, kind):
    assert kind in limits(PAIRS, TRUSTED, Metric(IDENTICAL, 1.0, n=50, note=note))


@pytest.mark.parametrize("note", ["annotators", "rules"])
def test_labels_of_people_and_rules_are_no_limit(note):
    shown = limits(PAIRS, TRUSTED, Metric(IDENTICAL, 1.0, n=50, note=note))
    assert not shown & {"identical", "model_labels"}


@pytest.mark.parametrize(
    ("slope", "spread", "kind"),
    [((0.4, 0.5), (0.4, 0.5), "compressed"), ((1.6, 1.9), (1.6, 1.9), "expanded")],
)
def test_scales_that_differ_are_named(slope, spread, kind):
    scale = [
        Metric("agreement/slope", sum(slope) / 2, *slope, n=200),
        Metric("agreement/spread", sum(spread) / 2, *spread, n=200),
    ]
    assert kind in limits(SCORES, TRUSTED, *scale)


def test_a_constant_verdict_is_a_limit_while_the_rest_is_undecided():
    undecided = Decision("unknown", "undecided", "response")
    constant = Metric("class/pass/rate", 1.0, 0.97, 1.0, n=200)
    balanced = Metric("class/balanced_accuracy", 0.5, 0.5, 0.5, n=200)
    assert "constant" in limits(CLASSES, undecided, constant, balanced)


def test_scores_without_a_scale_say_so():
    slope = Metric("agreement/slope", None, n=200, note=NO_SCALE)
    assert "no_scale" in limits(SCORES, TRUSTED, slope)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(-0.4, "fewer_ties"), (0.4, "more_ties"), (0.04, None), (0.06, None)],
)
def test_a_rate_of_ties_that_is_not_that_of_the_labels_is_a_limit(value, kind):
    ties = Metric("decision/ties", value, value - 0.07, value + 0.07, n=200)
    many = Metric("tie_rate", 0.5, 0.45, 0.55, n=200)
    shown = limits(PAIRS, TRUSTED, ties, many) & {"fewer_ties", "more_ties", "ties"}
    assert shown == ({kind} if kind else set())


def test_the_rate_of_ties_is_compared_with_that_of_labels_that_are_ties(
    configure, make_case, passes
):
    labels = ["A", "B", "TIE", "TIE"] * 10
    cases = [make_case(f"c{number}", label=label) for number, label in enumerate(labels)]
    judgments = [one for case in cases for one in passes(case.id, 1, 1)]
    metric = score_run(configure(), cases, judgments).metrics["decision/ties"]
    assert (metric.value, metric.n) == (-0.5, 40)
    named_winners = [replace(case, label="A") for case in cases]
    assert "decision/ties" not in score_run(configure(), named_winners, judgments).metrics


@pytest.mark.parametrize(("systems", "reason"), [
    (("new", "old"), "one_class"),
    (("new", None), "lean_unclear"),
    (None, "lean_unclear"),
])  # fmt: skip
def test_labels_of_one_side_show_nothing_if_it_is_always_the_same_system(
    configure, make_case, passes, systems, reason
):
    cases = []
    judgments = []
    for number in range(40):
        case = make_case(f"c{number}", label="A")
        # Without names of systems, or with sides that change places.
        names = systems or [("new", "old"), ("old", "new")][number % 2]
        texts = zip(case.responses, names, strict=True)
        responses = tuple(replace(text, model=name) for text, name in texts)
        cases.append(replace(case, responses=responses))
        judgments += passes(case.id, *((1, 1) if number % 20 else (-1, -1)))
    decision = decide(score_run(configure(), cases, judgments).metrics, 0.95)
    assert decision.reason == reason
    assert decision.trusted is (reason != "one_class")


@pytest.mark.parametrize(
    ("longest", "reason"), [(0.99, "leans"), (0.95, "stratum"), (0.8, "stratum")]
)
def test_a_judge_that_always_takes_the_longer_response_is_named_as_such(longest, reason):
    note = '{"column": "longer_response"}'
    metrics = [
        Metric("agreement/accuracy", 0.9, 0.87, 0.93, n=400),
        Metric("decision/within", 0.0, -0.1, 0.1, n=400, note=note),
        Metric("decision/lean/longer", 0.2, 0.15, 0.25, n=400),
        Metric("length/longer_rate", longest, longest - 0.03, longest + 0.03, n=400),
    ]
    assert decide(named(KAPPA, LEAN, ORDER, *metrics), 0.95).reason == reason


def test_labels_that_are_the_judges_word_decide_nothing():
    own_word = Metric(IDENTICAL, 1.0, n=400, note="judge")
    decision = decide(named(KAPPA, LEAN, ORDER, own_word), 0.95)
    assert (decision.use, decision.reason) == ("unknown", "label_source")


def test_a_number_of_labels_may_have_no_range():
    unclear = Metric("agreement/kappa", 0.3, -0.1, 0.7, n=40)
    needed = Metric("decision/labels_needed", 70.0, n=40)
    decision = decide(named(unclear, LEAN, ORDER, needed), 0.95)
    assert (decision.labels_needed, decision.labels_range) == (70, None)


def test_a_stratum_is_no_reason_for_a_judge_that_is_not_useful_anyway():
    open_agreement = Metric("agreement/kappa", 0.4, 0.1, 0.7, n=400)
    within = Metric("decision/within", 0.0, -0.1, 0.1, n=400)
    right = Metric("agreement/accuracy", 0.9, 0.87, 0.93, n=400)
    assert decide(named(open_agreement, right, LEAN, ORDER, within), 0.95).reason == "undecided"
    assert decide(named(KAPPA, right, LEAN, ORDER, within), 0.95).reason == "stratum"


def test_a_concordance_alone_is_no_grade():
    agreement = [
        Metric("agreement/spearman", 0.95, 0.93, 0.97, n=400),
        Metric("agreement/kappa_quadratic", 0.95, 0.93, 0.97, n=400),
        Metric("decision/lean/score", 0.0, -0.01, 0.01, n=400),
    ]
    assert decide(named(*agreement), 0.95).use != "single"


def scores(raw, grade) -> ScoreColumns:
    n = len(raw)
    zeros = np.zeros(n)
    return ScoreColumns(
        np.arange(n), zeros.astype(int), np.array(raw), np.array(raw), zeros, np.array(grade),
        np.arange(n),
    )  # fmt: skip


LEVELS = np.arange(40) % 5


@pytest.mark.parametrize(("raw", "grade", "differ"), [
    (20.0 * (LEVELS + 1), LEVELS + 1.0, True),
    (20.0 * LEVELS, np.full(40, 3.0), False),
    (20.0 * LEVELS, 20.0 * LEVELS, False),
])  # fmt: skip
def test_units_of_grades_and_scores(raw, grade, differ):
    why = scores(raw, grade).off_scale(Scale(0.0, 100.0, 1.0))
    assert bool(why) is differ


def test_the_twins_of_a_row_are_its_group():
    rows = [Standing(1, job, job, "d", {}, decide({}, 0.95)) for job in "abc"]
    board = Leaderboard(None, (), 0.95, tuple(rows), twins=(("a", "c"),))
    assert [row.job for row in board.folded] == ["a", "b"]
    assert [board.twins_of(row) for row in rows] == [("a", "c"), (), ("a", "c")]


def test_an_annotator_with_the_name_of_the_judge_is_the_judge(configure, make_case, passes):
    cases = []
    judgments = []
    for number in range(40):
        winner = "A" if number % 2 else "B"
        case = make_case(f"c{number}", label=winner)
        cases.append(replace(case, labels={"Judge M": winner}))
        margin = 1 if winner == "A" else -1
        judgments += passes(case.id, margin, margin)
    config = configure(judge={"model": "openai/x", "name": "judge-m"})
    metric = score_run(config, cases, judgments).metrics["labels/identical"]
    assert (metric.value, metric.note) == (1.0, SAME_TOOL)


@pytest.mark.parametrize(("follows", "english", "chinese"), [
    (False, "the annotators disagree on 30 of 120 cases", "30 个的标注者意见不一"),
    (True, "Settle the labels that annotators disagree on", "请先解决标注者之间有分歧的标注"),
])  # fmt: skip
def test_cases_that_annotators_disagree_on(configure, make_case, passes, follows, english, chinese):
    """Bert disagrees on every fourth case; if `follows`, that is where the judge says B."""
    cases = []
    judgments = []
    for number in range(120):
        is_disputed = number % 4 == 0
        winner = "AB"[number % 3 == 0]
        if follows:
            winner = "B" if is_disputed or number % 8 == 1 else "A"
        labels = {"anna": "A", "bert": "B"} if is_disputed else {"anna": winner, "bert": winner}
        case = make_case(f"c{number}", label=None if is_disputed else winner)
        cases.append(replace(case, labels=labels))
        margin = 1 if winner == "A" else -1
        judgments += passes(case.id, margin, margin)
    metrics = score_run(configure(), cases, judgments).metrics
    disputed = metrics["labels/disputed"]
    assert (disputed.value, disputed.n) == (0.25, 120)
    texts = in_every_language(sentence(decide(metrics, 0.95), metrics))
    assert english in texts[0]
    assert chinese in texts[1]
    graded = [
        replace(case, responses=tuple(replace(one, grade=1.0) for one in case.responses))
        for case in cases
    ]
    assert "labels/disputed" not in score_run(configure(), graded, judgments).metrics
