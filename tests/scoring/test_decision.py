"""The decision: what follows from which intervals, in which order."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.decisions import JUDGES, LARGE, errors, metrics_of_run
from evalkit.core.types import Metric
from evalkit.scoring.decision import (
    FLOOR,
    MARGIN,
    SUBSTANTIAL,
    USES,
    Decision,
    decide,
    decide_for_judges,
    judges_of,
    kind_of,
    metrics_of,
)
from evalkit.scoring.decision.limits import labels_by_verdict
from tests.support.thorough import some_of


def metrics(**values) -> dict[str, Metric]:
    """Return metrics from (value, low, high, n, missing, worst_low, worst_high), `__` for `/` in names."""
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return {
        name: Metric(name, *value) if isinstance(value, tuple) else value
        for name, value in named.items()
    }


def pairs(
    kappa: tuple[float | None, ...], lean: tuple[float, ...] = (0.0, -0.02, 0.02), **more
) -> dict[str, Metric]:
    n = int(kappa[3] or 0) if len(kappa) > 3 else 400
    values = {
        "position__consistency": (0.9, 0.85, 0.95, n),
        "agreement__accuracy": (0.8, 0.7, 0.9, n),
    }
    return metrics(
        **{**values, "agreement__kappa": (*kappa[:3], n), "decision__lean__a": (*lean, n), **more}
    )


def use_of(values: dict[str, Metric]) -> tuple[str, str]:
    decision = decide(values, 0.95)
    return decision.use, decision.reason


@pytest.mark.parametrize(("kappa", "expected"), [
    ((0.8, 0.7, 0.9), ("single", "substantial")),
    ((0.8, 0.59, 0.9), ("rates", "moderate")),
    ((0.4, 0.21, 0.6), ("rates", "moderate")),
    ((0.4, 0.2, 0.6), ("unknown", "undecided")),
    ((0.0, -0.3, 0.3), ("unknown", "undecided")),
    ((-0.3, -0.7, 0.2), ("unknown", "undecided")),
    ((0.1, 0.05, 0.19), ("none", "hardly_better")),
    ((0.1, 0.0, 0.19), ("none", "chance")),
    ((-0.1, -0.15, -0.05), ("none", "chance")),
    ((-0.4, -0.6, -0.2), ("none", "chance")),
    ((-0.4, -0.6, -0.21), ("none", "reversed")),
    ((0.4, None, None), ("unknown", "few_labels")),
    ((None, None, None), ("unknown", "one_class")),
    ((None, None, None, 9), ("unknown", "few_labels")),
])  # fmt: skip
def test_the_whole_interval_of_the_agreement_decides(kappa, expected):
    assert use_of(pairs(kappa)) == expected


@pytest.mark.parametrize(("lean", "expected"), [
    ((0.0, -0.049, 0.049), ("single", "substantial")),
    ((0.0, -0.051, 0.049), ("rates_corrected", "lean_unclear")),
    ((0.2, 0.15, 0.25), ("rates_corrected", "leans")),
    ((-0.2, -0.25, -0.15), ("rates_corrected", "leans")),
    ((0.12, -0.01, 0.25), ("rates_corrected", "lean_unclear")),
    ((0.04, 0.02, 0.06), ("rates_corrected", "lean_unclear")),
    ((0.06, 0.04, 0.08), ("rates_corrected", "leans")),
])  # fmt: skip
def test_a_lean_is_corrected_by_labels(lean, expected):
    decision = decide(pairs((0.8, 0.7, 0.9), lean), 0.95)
    assert (decision.use, decision.reason) == expected
    named = {"leans": ["lean_a"], "lean_unclear": ["margin"]}
    assert [limit.kind for limit in decision.limits] == named.get(decision.reason, [])


@pytest.mark.parametrize("kappa", [(0.0, -0.1, 0.1), (0.3, 0.1, 0.5), (-0.5, -0.6, -0.4)])
def test_a_lean_is_named_whatever_the_decision(kappa):
    assert [limit.kind for limit in decide(pairs(kappa, (0.3, 0.2, 0.4)), 0.95).limits] == [
        "lean_a"
    ]


def test_leans_of_many_systems_are_held_against_their_number():
    systems = {f"decision__lean__system/s{k}": (0.12, 0.01, 0.23, 50) for k in range(8)}
    assert [
        one.kind
        for one in decide(
            pairs((0.8, 0.7, 0.9), decision__lean__longer=(0.2, 0.1, 0.3, 50)), 0.95
        ).limits
    ] == ["lean_longer"]
    assert decide(pairs((0.8, 0.7, 0.9), **systems), 0.95).limits == ()
    one = {"decision__lean__system/s0": (0.12, 0.01, 0.23, 50)}
    assert [limit.subject for limit in decide(pairs((0.8, 0.7, 0.9), **one), 0.95).limits] == ["s0"]


def test_a_system_that_is_always_first_is_named_instead_of_its_side():
    both = pairs(
        (0.8, 0.7, 0.9), (0.3, 0.2, 0.4), **{"decision__lean__system/x": (0.3, 0.2, 0.4, 400)}
    )
    assert [(limit.kind, limit.subject) for limit in decide(both, 0.95).limits] == [
        ("lean_system", "x")
    ]


@pytest.mark.parametrize(
    ("agreement", "expected"),
    [((0.1, 0.0, 0.19), "orders_disagree"), ((0.1, 0.0, 0.21), "substantial")],
)
def test_a_judge_that_contradicts_itself_is_not_asked_for_labels(agreement, expected):
    order = {"decision__order_agreement": (*agreement, 90)}
    assert decide(pairs((0.8, 0.7, 0.9), **order), 0.95).reason == expected
    alone = metrics(position__consistency=(0.5, 0.4, 0.6), **order)
    assert decide(alone, 0.95).reason == (
        expected if expected == "orders_disagree" else "no_labels"
    )
    samples = {"samples__alpha": (*agreement, 90)}
    assert decide(pairs((0.8, 0.7, 0.9), **samples), 0.95).reason == expected.replace(
        "orders", "samples"
    )


def test_labels_of_one_class_that_the_judge_gives_do_not_make_it_contradict_itself():
    values = pairs((None, None, None), decision__order_agreement=(0.0, -0.1, 0.1, 400))
    assert use_of(values) == ("unknown", "one_class")
    wrong = values | metrics(agreement__accuracy=(0.3, 0.2, 0.4, 400))
    assert use_of(wrong) == ("none", "orders_disagree")


def test_labels_of_one_side_decide_if_pairs_were_shown_in_both_orders():
    values = pairs((None, None, None), agreement__accuracy_decided=(0.9, 0.85, 0.94, 380))
    decision = decide(values, 0.95)
    assert (decision.use, decision.metric) == ("single", values["agreement/accuracy_decided"])
    assert [limit.kind for limit in decision.limits] == ["one_class"]
    weak = values | metrics(agreement__accuracy_decided=(0.55, 0.51, 0.59, 380))
    assert use_of(weak) == ("none", "hardly_better")
    order = Metric(
        "position/first_rate",
        0.9,
        0.8,
        1.0,
        400,
        note="every pair in one order: position and quality",
    )
    assert use_of(values | {order.name: order}) == ("unknown", "one_class")


@pytest.mark.parametrize(("missing", "bounds", "expected"), [
    (10, (0.75, 0.82), ("single", "substantial")),
    (100, (0.4, 0.9), ("rates", "moderate")),
    (100, (0.25, 0.9), ("unknown", "missing")),
    (400, (0.75, 0.82), ("unknown", "missing")),
    (10, (None, None), ("single", "substantial")),
    (100, (None, None), ("unknown", "missing")),
])  # fmt: skip
def test_missing_answers_that_could_change_the_decision_come_first(missing, bounds, expected):
    kappa = Metric("agreement/kappa", 0.8, 0.7, 0.9, 400, missing, *bounds)
    accuracy = Metric("agreement/accuracy", 0.9, 0.85, 0.95, 400, missing, 0.5, 0.95)
    assert use_of(pairs((0.8, 0.7, 0.9)) | {kappa.name: kappa, accuracy.name: accuracy}) == expected
    useless = replace(kappa, value=0.0, low=-0.1, high=0.1)
    assert (
        decide(
            pairs((0.8, 0.7, 0.9)) | {kappa.name: useless, accuracy.name: accuracy}, 0.95
        ).trusted
        is False
    )


def test_without_labels_missing_answers_and_contradictions_still_count():
    assert use_of(metrics(position__consistency=(0.9, 0.8, 1.0))) == ("unknown", "no_labels")
    lost = metrics(missing__failed=(0.3, 0.2, 0.4, 50), missing__refused=(0.3, 0.2, 0.4, 50))
    assert use_of(lost) == ("unknown", "missing")


def test_constant_judges_are_named_by_their_verdict():
    flat = pairs((0.0, -0.05, 0.05), win_rate__a=(1.0, 0.99, 1.0, 400))
    assert use_of(flat) == ("none", "constant")
    scores = metrics(
        agreement__spearman=Metric("agreement/spearman", None, n=50),
        score__distinct=(1.0, None, None, 50),
    )
    assert use_of(scores) == ("none", "constant")
    few = scores | metrics(score__distinct=(1.0, None, None, 5))
    assert use_of(few) == ("unknown", "few_labels")
    equal = scores | metrics(score__distinct=(4.0, None, None, 50))
    assert use_of(equal) == ("unknown", "one_class")


def test_gaps_in_the_evidence_are_limits_of_trust():
    kappa, few = (0.8, 0.7, 0.9), (0.8, 0.7, 0.9, 20)
    cases = {
        "few_labels": pairs(few),
        "ties": pairs(kappa, tie_rate=(0.3, 0.2, 0.4, 400)),
        "shown_first": pairs(kappa, position__first_rate=(0.6, 0.55, 0.65, 800)),
        "shown_second": pairs(kappa, position__first_rate=(0.4, 0.35, 0.45, 800)),
        "longer": pairs(kappa, length__slope_at_label=(1.0, 0.5, 1.5, 400)),
        "shorter": pairs(kappa, length__slope_at_label=(-1.0, -1.5, -0.5, 400)),
        "own_family": pairs(kappa, self__preference=(0.2, 0.1, 0.3, 400)),
        "rare_class": pairs(kappa, class__x__recall=(0.5, 0.1, 0.9, 3)),
        "rare_class_missed": pairs(kappa, class__x__recall=(0.0, 0.0, 0.7, 3)),
        "missed": pairs(kappa, class__x__recall=(0.3, 0.2, 0.49, 30)),
        "abstains": pairs(kappa, class__abstained=(0.3, 0.2, 0.4, 400)),
    }
    for kind, values in cases.items():
        assert [limit.kind for limit in decide(values, 0.95).limits] == [kind]
    assert decide(cases["missed"], 0.95).use == "rates"
    counted = Metric("agreement/accuracy", 0.8, 0.7, 0.9, 360, 40, 0.7, 0.85)
    assert [
        limit.kind for limit in decide(pairs(kappa) | {counted.name: counted}, 0.95).limits
    ] == ["missing"]
    order = Metric(
        "position/first_rate",
        0.5,
        0.4,
        0.6,
        400,
        note="every pair in one order: position and quality",
    )
    assert [limit.kind for limit in decide(pairs(kappa) | {order.name: order}, 0.95).limits] == [
        "one_order"
    ]


def test_a_judge_that_always_takes_the_longer_response_is_said_to():
    values = pairs(
        (0.5, 0.4, 0.6),
        decision__lean__longer=(0.2, 0.15, 0.25, 400),
        length__longer_rate=(1.0, 0.99, 1.0, 400),
    )
    assert [limit.kind for limit in decide(values, 0.95).limits] == ["always_longer"]
    for column, use in (("longer_response", "rates_corrected"), ("topic", "unknown")):
        note = json.dumps({"column": column, "label": False})
        follows = Metric("decision/follows", 0.98, n=400, note=note)
        # The limit says it better than that it may follow which response is longer.
        assert decide({**values, follows.name: follows}, 0.95).use == use


@pytest.mark.parametrize(("values", "unit"), [
    ({"class/balanced_accuracy": None}, "response"),
    ({"checklist/met_rate": None}, "item"),
    ({"checklist/met_rate": None, "agreement/spearman": 9}, "response"),
    ({"agreement/spearman": 9}, "response"),
    ({"agreement/spearman": 9, "agreement/accuracy": 9, "position/consistency": 9}, "pair"),
    ({"agreement/spearman": 9, "agreement/accuracy": 9}, "response"),
    ({"agreement/spearman": 0, "agreement/accuracy": 9}, "pair"),
    ({}, "pair"),
])  # fmt: skip
def test_the_unit_follows_from_the_labels(values, unit):
    assert kind_of({name: Metric(name, 0.5, n=n or 0) for name, n in values.items()}).unit == unit


def test_each_judge_of_a_panel_has_its_own_decision():
    alone = {"a/b": pairs((0.8, 0.7, 0.9)), "coin": pairs((0.0, -0.1, 0.1))}
    own = {
        f"judge/{judge}/{name}": one
        for judge, metrics in alone.items()
        for name, one in metrics.items()
    }
    panel = {name: replace(metric, name=name) for name, metric in own.items()}
    assert judges_of(panel | alone["coin"]) == ["a/b", "coin"]
    for judge, metrics in alone.items():
        assert (
            decide(metrics_of(panel, judge), 0.95)
            == decide_for_judges(panel, 0.95)[judge]
            == decide(metrics, 0.95)
        )
    assert [decide(metrics, 0.95).use for metrics in alone.values()] == ["single", "none"]
    assert decide(panel, 0.95).reason == "no_labels"
    assert decide_for_judges(alone["coin"], 0.95) == {}


@pytest.mark.parametrize("name", ["decision/order_agreement", "samples/alpha"])
def test_a_judge_that_is_not_shown_to_agree_with_itself_is_said_to(name):
    unclear = {name: Metric(name, 0.1, -0.05, 0.25, 90)}
    reason = "orders_disagree" if "order" in name else "samples_disagree"
    assert [
        limit.kind
        for limit in decide(unclear | metrics(position__consistency=(0.6, 0.5, 0.7)), 0.95).limits
    ] == [reason]
    for clear in (
        (0.3, 0.05, 0.5, 90),
        (1.0, -0.04, 1.0, 10),
    ):  # an interval up to perfect agreement shows nothing
        values = metrics(position__consistency=(0.6, 0.5, 0.7)) | {name: Metric(name, *clear)}
        assert decide(values, 0.95).limits == ()


def test_a_decision_without_evidence_has_none_as_json():
    assert Decision("none", "missing", "pair").json()["evidence"] is None


INTERVAL = st.tuples(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))


@given(INTERVAL, INTERVAL, st.integers(2, 50), st.integers(0, 60), st.booleans())
def test_no_decision_leaves_none_as_labels_are_added(kappa, lean, times, missing, contradicts):
    """At equal estimates, intervals shrink around the estimate as the number of labels grows."""

    def grown(scale: float) -> Decision:
        values = {}
        for name, (value, below, above) in {
            "agreement/kappa": kappa,
            "decision/lean/a": lean,
        }.items():
            low, high = value - below * (value + 1) / scale, value + above * (1 - value) / scale
            n = int(40 * scale)
            bounds = (max(-1, value - missing / 100), min(1, value + missing / 100))
            values[name] = Metric(name, value, low, high, n, int(n * missing / 100), *bounds)
        if contradicts:
            values["decision/order_agreement"] = Metric("x", 0.0, -0.1 / scale, 0.3 / scale, 40)
        values["position/consistency"] = Metric("x", 0.9)
        values["agreement/accuracy"] = Metric(
            "agreement/accuracy", 0.7, 0.6, 0.8, *(values["agreement/kappa"].n, 0)
        )
        return decide(values, 0.95)

    fewer, more = grown(1.0), grown(float(times))
    assert fewer.use != "none" or more.use == "none"
    assert USES.index(more.use) <= USES.index(fewer.possible)
    if more.use == "single":
        assert kappa[0] >= SUBSTANTIAL
        assert abs(lean[0]) <= MARGIN
    if more.trusted:
        assert kappa[0] > FLOOR


@pytest.mark.parametrize("judge", some_of(JUDGES, 4), ids=lambda judge: judge.name)
def test_simulated_judges_are_decided_rightly(judge):
    for n, seed in ((LARGE, 0), (40, 1), (8, 2), (3, 3), (1, 4)):
        decision = decide(metrics_of_run(judge, n, seed), 0.95)
        assert list(errors(judge, decision, n)) == []
        assert decision.use != "unknown" or decision.labels_needed != 0


@pytest.mark.parametrize("kappa", [(1.0, 0.7, 1.0), (0.0, -0.1, 0.1), (-1.0, -1.0, -1.0)])
def test_fewer_than_ten_labels_or_pairs_decide_nothing(kappa):
    accuracy = {"agreement__accuracy": (0.9, 0.8, 1.0, 9)}
    assert use_of(pairs((*kappa, 9), **accuracy)) == ("unknown", "few_labels")
    order = {"decision__order_agreement": (0.0, -0.1, 0.1, 9)}
    assert decide(pairs((0.8, 0.7, 0.9), **order), 0.95).reason == "substantial"
    biases = {"position__first_rate": (1.0, 0.66, 1.0), "decision__lean__longer": (0.9, 0.7, 1.0)}
    for n, named in ((9, []), (10, ["lean_longer", "shown_first"])):
        values = pairs((0.8, 0.7, 0.9), **{name: (*one, n) for name, one in biases.items()})
        assert [limit.kind for limit in decide(values, 0.95).limits] == named


@pytest.mark.parametrize(("gap", "weighted", "reason"), [
    ((0.3, 0.2, 0.4, 100), {}, "picked"),
    ((-0.3, -0.4, -0.15, 100), {}, "picked"),
    ((0.3, 0.11, 0.4, 100), {}, "substantial"),
    ((0.3, 0.09, 0.4, 100), {}, "substantial"),
    ((0.3, None, None, 100), {}, "substantial"),
    ((0.3, 0.2, 0.4, 100), {"labels__effective": (80.0, None, None, 100)}, "substantial"),
])  # fmt: skip
def test_labels_that_depend_on_the_verdict_are_picked(gap, weighted, reason):
    values = pairs((0.8, 0.7, 0.9), decision__labeled_gap=gap, **weighted)
    decision = decide(values, 0.95)
    assert decision.reason == reason
    assert ("labeled_gap" in [limit.kind for limit in decision.limits]) == (reason == "picked")


@pytest.mark.parametrize(("classes", "is_picked"), [(1, True), (2, True), (3, False), (9, False)])
def test_the_gap_that_differs_most_is_one_of_those_of_all_verdicts(classes, is_picked):
    gap = Metric("decision/labeled_gap", 0.3, 0.11, 0.4, 100)
    leans = [Metric(f"decision/lean/class/{code}", 0.0) for code in range(classes)]
    of_items = [] if classes > 1 else [Metric("checklist/kappa", 0.8)]
    metrics = {metric.name: metric for metric in (gap, *of_items, *leans[classes == 1 :])}
    assert (labels_by_verdict(metrics, 0.95) is not None) is is_picked
