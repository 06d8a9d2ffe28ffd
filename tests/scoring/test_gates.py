"""Rules on metrics: held, failed or undecided, and why."""

from dataclasses import replace

import pytest
from pydantic import ValidationError
from scipy.stats import norm
from statsmodels.stats.proportion import proportion_confint

from evalkit.config import GateConfig, LeadRule
from evalkit.core.errors import ConfigError
from evalkit.core.types import Metric
from evalkit.scoring.decision import USES, Decision
from evalkit.scoring.gate_rules import judge_decision, judge_metrics, less_is_better
from evalkit.scoring.labels import POWER

METRICS = {
    one.name: one
    for one in (
        Metric("agreement/kappa", 0.7, 0.6, 0.8, 50, 2, worst_low=0.5, worst_high=0.75),
        Metric("agreement/pearson", None, n=0, missing=3, note="no labels"),
        Metric("conflict/nodes", 4.0, n=12),
    )
}


def ruled(rule: object, metric: str = "agreement/kappa", **settings: str) -> list[str]:
    gate = GateConfig.model_validate({metric: rule, **settings})
    return [ruling.state for ruling in judge_metrics(gate, METRICS)]


@pytest.mark.parametrize(("rule", "state"), [
    (">= 0.6", "held"),
    ("> 0.6", "undecided"),
    (">= 0.65", "undecided"),
    (">= 0.8", "undecided"),
    ("> 0.8", "failed"),
    ("<= 0.8", "held"),
    ("< 0.6", "failed"),
    ("<= .7", "undecided"),
    ({"value": ">= 0.65", "by": "value"}, "held"),
    ({"value": "> 0.7", "by": "value"}, "failed"),
    ({"low": ">= 0.6"}, "held"),
    ({"low": ">= 0.61"}, "failed"),
    ({"high": "< 8e-1"}, "failed"),
    ({"worst_low": ">=0.5"}, "held"),
    ({"worst_high": ">= 0.76"}, "failed"),
])  # fmt: skip
def test_the_interval_decides_a_rule_on_a_metric_and_any_other_number_by_itself(rule, state):
    assert ruled(rule) == [state]


def test_each_bound_is_a_rule_of_its_own():
    assert ruled({"value": ">= 0.5, <= 0.75", "low": "> 0.9"}) == ["held", "undecided", "failed"]
    assert ruled(">= 0.65", by="value") == ["held"]


@pytest.mark.parametrize(("metric", "rule", "why"), [
    ("agreement/pearson", ">= 0.5", "it has no value (no labels)"),
    ("agreement/pearson", {"low": ">= 0.5"}, "it has no value (no labels)"),
    ("conflict/nodes", {"low": ">= 3"}, "it has no low (none was requested)"),
    ("conflict/nodes", "<= 5",
     "4 has no interval (none was requested); `by: value` decides by the value alone"),
])  # fmt: skip
def test_what_is_not_there_is_undecided_and_says_why(metric, rule, why):
    [ruling] = judge_metrics(GateConfig.model_validate({metric: rule}), METRICS)
    assert (ruling.state, ruling.why) == ("undecided", why)


@pytest.mark.parametrize(("right", "limit"), [(176, 0.91), (176, 0.85), (120, 0.65)])
def test_an_undecided_rule_about_labels_says_how_many_more_would_decide(right, limit):
    low, high = proportion_confint(right, 200, method="wilson")
    metric = Metric("agreement/accuracy", share := right / 200, low, high, 200)
    rules = GateConfig.model_validate(
        {"agreement/accuracy": f">= {limit}", "position/consistency": f">= {limit}"}
    )
    ruling, other = judge_metrics(
        rules, {one.name: one for one in (metric, replace(metric, name="position/consistency"))}
    )
    z = norm.ppf(0.975) + norm.ppf(POWER)
    total = z**2 * share * (1 - share) / (share - limit) ** 2
    assert ruling.labels_needed == pytest.approx(total - 200, rel=0.15)
    assert f"about {ruling.labels_needed:,} more labels would probably decide" in ruling.why
    assert (other.state, other.labels_needed) == ("undecided", None)


@pytest.mark.parametrize(("name", "remedy"), [
    ("agreement/kapa", "did you mean 'agreement/kappa'?"),
    ("judge/b/agreement/kapa", "did you mean 'agreement/kappa'?"),
    ("variance/case", "removed: evalkit 0.2 was the last version with it"),
])  # fmt: skip
def test_a_name_that_only_the_run_could_tell_to_be_wrong_fails(name, remedy):
    [ruling] = judge_metrics(GateConfig.model_validate({name: ">= 0"}), METRICS)
    assert ruling.state == "failed"
    assert ruling.why == f"no such metric in this run; {remedy}"


@pytest.mark.parametrize(("given", "said"), [
    ({"a": "0.9"}, "is not a bound"),
    ({"a": {"lo": ">= 1"}}, "has the unknown key 'lo'"),
    ({"a": {}}, "has no bound"),
    ({"a": 0.9}, "is not a rule"),
    ({"no_worse_than": {"metric": "tie_rate"}}, "Field required"),
    ({"no_worse_than": {"run": "r", "margin": -1}}, "greater than or equal to 0"),
    ({"undecided": "maybe"}, "'pass', 'fail' or 'exit_5'"),
])  # fmt: skip
def test_a_rule_that_cannot_be_read_is_said(given, said):
    with pytest.raises(ValidationError, match=said):
        GateConfig.model_validate(given)


def test_a_gate_comes_back_from_its_own_values():
    gate = GateConfig.model_validate(
        {"a": ">= 1, < 2", "no_worse_than": {"run": "r"}, "undecided": "fail"}
    )
    assert GateConfig.model_validate(gate.model_dump(mode="json")) == gate
    assert gate
    assert not GateConfig()


@pytest.mark.parametrize(("metric", "less"), [
    ("agreement/kappa", False),
    ("agreement/error", True),
    ("tie_rate/judged", True),
    ("judge/openai/x/tie_rate", True),
    ("judge/x/agreement/accuracy", False),
])  # fmt: skip
def test_it_is_known_whether_less_is_better(metric, less):
    assert less_is_better(LeadRule(run="r", metric=metric)) is less


def test_or_it_has_to_be_said():
    with pytest.raises(ConfigError, match="write better: higher"):
        less_is_better(LeadRule(run="r", metric="win_rate/a"))
    assert not less_is_better(LeadRule(run="r", metric="win_rate/a", better="higher"))


@pytest.mark.parametrize(("order", "use", "state"), [
    (True, "order", "held"),
    (True, "rates_corrected", "held"),
    (None, "single", "undecided"),
    (False, "rates", "failed"),
])  # fmt: skip
def test_a_gate_on_order_reads_the_field_of_that_name(order, use, state):
    decision = Decision(use, "moderate", "response", order=order)
    assert judge_decision("order", decision, "Why.").state == state


@pytest.mark.parametrize("wanted", USES[3:])
@pytest.mark.parametrize(
    ("use", "possible"), [(use, best) for k, use in enumerate(USES) for best in USES[k:]]
)
def test_a_decision_is_held_if_good_enough_and_undecided_while_it_may_be(use, possible, wanted):
    decision = Decision(
        use, "undecided", "pair", METRICS["agreement/kappa"], labels_needed=40, possible=possible
    )
    ruling = judge_decision(wanted, decision, "A sentence.")
    ranks = [USES.index(name) for name in (use, possible, wanted)]
    expected = "held" if ranks[0] >= ranks[2] else "undecided" if ranks[1] >= ranks[2] else "failed"
    assert (ruling.metric, ruling.rule, ruling.state) == ("decision", f">= {wanted}", expected)
    assert (ruling.value, ruling.low, ruling.high, ruling.n, ruling.missing) == (
        0.7,
        0.6,
        0.8,
        50,
        2,
    )
    assert ruling.labels_needed == 40
    assert (f"do not exclude {possible}" in ruling.why) == (expected == "undecided")
    assert ruling.why.startswith(use)
    assert ruling.why.endswith(": A sentence.")


def test_a_decision_without_labels_is_undecided():
    ruling = judge_decision("rates", Decision("unknown", "no_labels", "pair"), "Label first.")
    assert (ruling.metric, ruling.state, ruling.value, ruling.n) == (
        "decision",
        "undecided",
        None,
        0,
    )
