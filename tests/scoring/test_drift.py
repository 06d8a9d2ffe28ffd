"""What changed between two runs, flips against noise, the decision by a margin, and looks at the same cases."""

import json
from dataclasses import fields, replace
from itertools import combinations, permutations, product
from math import exp
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import beta, t

from evalkit.core.errors import ConfigError
from evalkit.core.splits import is_labeled, without_labels
from evalkit.core.translation import in_every_language
from evalkit.core.types import (
    Case,
    ChecklistItem,
    Completion,
    ItemVerdict,
    Judgment,
    Metric,
    Response,
    Verdict,
)
from evalkit.report.findings.drift import findings
from evalkit.scoring import drift as module
from evalkit.scoring.drift import Drift
from evalkit.scoring.labels import labels_for
from evalkit.scoring.looks import (
    BASELINE,
    WINDOW,
    Baseline,
    Look,
    LookFacts,
    answers_of,
    as_numbers,
    change_evidence,
    look_facts,
)
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.stats.paired import tango
from evalkit.scoring.stats.share_intervals import clopper_pearson
from tests.scoring.drift_runs import SETTINGS, measured, pairs, right_in, scores, truth
from tests.support.thorough import examples, some_of

LABELS = truth(200)
GOOD = right_in(LABELS, 0.9, 1)


def test_flips_are_counted_in_both_directions_and_with_ties():
    before, after = ["A", "A", "B", "TIE", "B", None], ["A", "B", "B", "A", None, "A"]
    found = measured(pairs(before, ["A"] * 6), pairs(after, ["A"] * 6))
    assert (found.flips.value, found.flips.n, found.flips.missing) == (0.5, 4, 2)
    assert found.reversals.value == 0.25
    assert found.lost == 1
    assert (found.noise, found.beyond) == (None, None)


def test_noise_is_that_of_samples_and_flips_beyond_it_are_half_a_squared_distance():
    generator = np.random.default_rng(3)
    shares = [generator.dirichlet([1, 1, 1], 120) for _ in range(2)]
    given = [
        [tuple(generator.choice(["A", "TIE", "B"], 4, p=share)) for share in own] for own in shares
    ]
    labels = truth(120)
    runs = [pairs(one, labels, mode={"name": "pairwise", "samples": 4}) for one in given]
    found = measured(*runs)
    across = np.mean([[a != b for a, b in product(*both)] for both in zip(*given, strict=True)])
    within = np.mean([[a != b for a, b in combinations(one, 2)] for own in given for one in own])
    assert found.flips.value == pytest.approx(across)
    assert found.noise.value == pytest.approx(within)
    assert found.beyond.value == pytest.approx(across - within)
    distance = ((shares[0] - shares[1]) ** 2).sum(axis=1).mean() / 2
    assert found.beyond.low < distance < found.beyond.high
    assert found.noisy is False


def test_the_noise_of_one_run_with_samples_is_used():
    twice = [(one, one) if k % 4 else (one, "TIE") for k, one in enumerate(GOOD)]
    found = measured(
        pairs(GOOD, LABELS), pairs(twice, LABELS, mode={"name": "pairwise", "samples": 2})
    )
    assert found.noise.value == pytest.approx(0.25)
    assert found.flips.value == pytest.approx(0.125)
    assert found.noisy is True


@pytest.mark.slow
def test_no_flips_beyond_noise_are_claimed_more_often_than_nominal(monkeypatch, thorough):
    monkeypatch.setattr(
        "tests.scoring.drift_runs.SETTINGS", SETTINGS.model_copy(update={"bootstrap": 100})
    )
    claimed = 0
    for seed in range(24 if thorough else 8):
        generator = np.random.default_rng(seed)
        share = generator.random(40)
        drawn = np.where(generator.random((2, 40, 2)) < share[:, None], "A", "B")
        given = [[tuple(map(str, one)) for one in own] for own in drawn]
        runs = [pairs(own, ["A"] * 40, mode={"name": "pairwise", "samples": 2}) for own in given]
        claimed += measured(*runs).noisy is False
    assert claimed <= (3 if thorough else 1)


def test_the_difference_is_at_least_as_wide_as_the_score_interval():
    wrong = next(k for k, (one, label) in enumerate(zip(GOOD, LABELS, strict=True)) if one != label)
    other = [LABELS[k] if k == wrong else "TIE" if k < 3 else one for k, one in enumerate(GOOD)]
    difference = measured(pairs(GOOD, LABELS), pairs(other, LABELS)).agreement[2]
    only = [
        sum(a != label and b == label for a, b, label in zip(one, two, LABELS, strict=True))
        for one, two in ((GOOD, other), (other, GOOD))
    ]
    n, (up, down) = len(LABELS), only

    def score(delta: float) -> float:
        b = (2 * n - up + down) * delta - up - down
        share = ((b * b + 8 * n * down * delta * (1 - delta)) ** 0.5 - b) / (4 * n)
        return (up - down - n * delta) / (n * (2 * share + delta * (1 - delta))) ** 0.5

    ends = [brentq(lambda x, z=z: score(x) - z, -0.2, 0.2) for z in (1.959964, -1.959964)]
    assert difference.value == pytest.approx((up - down) / n)
    assert difference.low == pytest.approx(ends[0], abs=1e-4)
    assert difference.high == pytest.approx(ends[1], abs=1e-4)


def state_of(low, high, flips=(0.2, 0.3), margin=0.05, reason="moderate", n=10, **more):
    """Return the state for an interval of the difference and one of the flips."""
    agreement = (
        ()
        if low is None
        else (Metric("a", 0.5), Metric("a", 0.5), Metric("agreement/accuracy", 0, low, high, n))
    )
    flipped = None if flips is None else Metric("between/flips", flips[0], *flips, n=100)
    values = {
        "state": "unknown",
        "reason": "",
        "margin": margin,
        "tolerance": 0.2,
        "changes": None,
        "cases": 100,
    }
    values |= {"separable": True, "before": SimpleNamespace(reason=reason), "after": None}
    pairs_of = {
        "agreement/accuracy": Metric("agreement/accuracy", 0.5, n=9),
        "position/consistency": Metric("p", 1.0),
    }
    drift = Drift(**values, metrics=pairs_of, agreement=agreement, flips=flipped, **more)
    return module._drift_state(drift)


@pytest.mark.parametrize(("given", "state"), [
    ({"low": -0.2, "high": -0.06}, ("worse", "agreement")),
    ({"low": -0.2, "high": -0.06, "n": 9}, ("unknown", "agreement")),
    ({"low": -0.01, "high": 0.01, "n": 9}, ("unknown", "agreement")),
    (
        {"low": -0.2, "high": -0.05},
        ("unknown", "agreement"),
    ),  # at the margin, a loss is not more than it
    ({"low": -0.05, "high": 0.05, "flips": (0.05, 0.3)}, ("same", "agreement")),
    ({"low": -0.05, "high": 0.05, "flips": (0.06, 0.3)}, ("not_worse", "agreement")),
    ({"low": -0.05, "high": 0.06, "flips": (0.0, 0.3)}, ("not_worse", "agreement")),
    ({"low": -0.051, "high": 0.05}, ("unknown", "agreement")),
    ({"low": -0.3, "high": 0.3, "flips": (0.0, 0.05)}, ("same", "flips")),
    ({"low": -0.3, "high": 0.3, "flips": (0.0, 0.051)}, ("unknown", "agreement")),
    ({"low": None, "high": None}, ("unknown", "no_labels")),
    ({"low": None, "high": None, "flips": (0.0, 0.04)}, ("same", "flips")),
    ({"low": None, "high": None, "flips": None}, ("unknown", "no_labels")),
    ({"low": -0.01, "high": 0.01, "flips": (0.0, 0.01), "lost": 5}, ("same", "flips")),
    ({"low": -0.01, "high": 0.01, "flips": (0.0, 0.01), "lost": 6}, ("unknown", "missing")),
    ({"low": -0.01, "high": 0.01, "reason": "chance"}, ("unknown", "chance")),
    ({"low": 0.01, "high": 0.4, "reason": "chance"}, ("not_worse", "agreement")),
    ({"low": 0.01, "high": 0.4, "reason": "picked"}, ("unknown", "picked")),
    ({"low": -0.3, "high": -0.2, "reason": "chance"}, ("worse", "agreement")),
    ({"low": 0.0, "high": 0.0, "flips": (0.0, 0.0), "margin": 0.0}, ("same", "flips")),
    ({"low": -0.01, "high": 0.01, "beyond": Metric("between/beyond_noise", 0.0, -0.1, 0.1)},
     ("same", "agreement")),
    ({"low": -0.01, "high": 0.01, "beyond": Metric("between/beyond_noise", 0.1, 0.01, 0.1)},
     ("not_worse", "agreement")),
])  # fmt: skip
def test_the_state_by_whole_intervals(given, state):
    assert state_of(**given) == state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labeled", "margin"), some_of([(0.3, 0.025), (1.0, 0.025), (0.0, 0.05)], 3, rows=True)
)
def test_a_judge_that_lost_the_margin_is_not_the_same(labeled, margin):
    same = 0
    for seed in range(5):
        generator = np.random.default_rng(seed)
        labels = truth(200, seed)
        lost = generator.random(200) < margin
        kept = [
            ("B" if label == "A" else "A") if loses else label
            for label, loses in zip(labels, lost, strict=True)
        ]
        shown = [label if generator.random() < labeled else None for label in labels]
        same += measured(pairs(labels, shown), pairs(kept, shown), margin=margin).state == "same"
    assert same <= 1


def test_flips_have_an_exact_interval_by_cluster():
    labels = truth(200)
    changed = ["TIE" if k < 5 else label for k, label in enumerate(labels)]
    flips = measured(pairs(labels, labels), pairs(changed, labels)).flips
    exact = beta.ppf([0.025, 0.975], [5, 6], [196, 195])
    assert (flips.value, flips.low, flips.high) == pytest.approx((0.025, *exact), abs=1e-6)
    assert clopper_pearson(0.0, 10, 0.95) == pytest.approx((0.0, 1 - 0.025 ** (1 / 10)))
    assert clopper_pearson(1.0, 10, 0.95) == pytest.approx((0.025 ** (1 / 10), 1.0))


def test_scores_that_moved_are_not_the_same():
    grades = np.random.default_rng(1).integers(2, 6, 200).astype(float).tolist()
    lower = measured(scores(grades, grades), scores([one - 1 for one in grades], grades))
    assert (lower.state, lower.share, lower.shift.value) == ("not_worse", False, -1.0)
    assert lower.agreement[0].name == "agreement/spearman"
    nearly = [one - (k % 10 == 0) for k, one in enumerate(grades)]
    assert measured(scores(grades, grades), scores(nearly, grades), margin=0.1).state == "same"


def test_labels_needed_fall_with_the_margin_and_grow_with_flips():
    other = right_in(LABELS, 0.89, 2)
    wide, narrow = (
        measured(pairs(GOOD, LABELS), pairs(other, LABELS), margin) for margin in (0.04, 0.02)
    )
    assert wide.state == narrow.state == "unknown"
    assert wide.labels_needed < narrow.labels_needed
    bare = [None] * 200
    few = [("TIE" if k % 5 == 0 else one) for k, one in enumerate(GOOD)]
    many = [("TIE" if k % 2 == 0 else one) for k, one in enumerate(GOOD)]
    small, large = (
        measured(pairs(GOOD, bare), pairs(one, bare)).labels_needed for one in (few, many)
    )
    normal = (1.96 + 0.8416) ** 2 / 0.05**2
    assert small == pytest.approx(normal * 0.2, rel=0.05)
    assert large == pytest.approx(normal * 0.5, rel=0.05)
    assert measured(pairs(GOOD, bare), pairs(few, bare), margin=0.0).labels_needed is None


def difference(worse: int, better: int, n: int) -> Metric:
    """Return the difference in accuracy with the interval of a drift, of Tango and of Student."""
    value = (better - worse) / n
    reach = t.ppf(0.975, n - 1) * np.sqrt(max(0.0, (worse + better) / n - value**2) / (n - 1))
    low, high = tango(better, worse, n, 0.95)
    return Metric("agreement/accuracy", value, min(low, value - reach), max(high, value + reach), n)


def decided(metric: Metric, margin: float) -> bool:
    return metric.low >= -margin or metric.high < -margin


RATES = [(0.05, 0.05), (0.2, 0.05), (0.1, 0.0), (0.2, 0.2), (0.3, 0.1), (0.02, 0.02)]


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 50, 100])
def test_the_promised_labels_decide_in_about_the_promised_share_of_cases(n):
    generator, margin = np.random.default_rng(n), 0.05
    as_estimated, more_of_the_same = [], []
    for rates in RATES:
        for _ in range(40):
            worse, better, _ = generator.multinomial(n, [*rates, 1 - sum(rates)])
            found = difference(worse, better, n)
            if decided(found, margin) or (more := labels_for(found, -margin, 0.95)) is None:
                continue
            whole = generator.multinomial(
                n + more, [worse / n, better / n, 1 - (worse + better) / n]
            )
            as_estimated.append(decided(difference(*whole[:2], n + more), margin))
            others = generator.multinomial(more, [*rates, 1 - sum(rates)])
            more_of_the_same.append(
                decided(difference(worse + others[0], better + others[1], n + more), margin)
            )
    assert len(as_estimated) > 100
    assert 0.75 <= np.mean(as_estimated) <= 0.95
    assert 0.75 <= np.mean(more_of_the_same) <= 0.97


@pytest.mark.parametrize("n", [2, 3, 10, 29])
def test_few_labels_promise_no_number(n):
    for worse in range(n + 1):
        for better in range(n - worse + 1):
            assert labels_for(difference(worse, better, n), -0.05, 0.95) is None
    labels = [one if k < n else None for k, one in enumerate(LABELS)]
    after = [("TIE" if k % 3 == 0 else one) for k, one in enumerate(GOOD)]
    found = measured(pairs(GOOD, labels), pairs(after, labels))
    assert found.labels_needed is None or found.reason == "no_labels"
    assert measured(pairs(GOOD[:n], [None] * n), pairs(after[:n], [None] * n)).labels_needed is None


def with_responses(run, texts, every=1):
    cases = [
        replace(case, responses=tuple(map(Response, texts))) if k % every == 0 else case
        for k, case in enumerate(run.cases)
    ]
    return replace(run, cases=tuple(cases))


@pytest.mark.slow
def test_only_cases_with_the_same_prompts_and_answers_are_compared():
    run = pairs(GOOD, LABELS)
    answered = with_responses(run, ["new", "two"], every=4)
    found = measured(run, answered)
    assert (found.changes.answers, found.cases, found.separable, found.flips.n) == (
        50,
        150,
        True,
        150,
    )
    spaced = with_responses(run, ["\n\none", "two "])
    assert measured(run, spaced).changes.answers == 0
    cases = [
        replace(case, context="new") if k % 2 else case for k, case in enumerate(run.cases[:100])
    ]
    asked = replace(
        run, cases=(*cases, replace(run.cases[100], id="new")), judgments=run.judgments[:100]
    )
    found = measured(run, asked)
    assert (found.changes.data, found.changes.shared, found.cases) == (50, 100, 50)
    assert (found.changes.only_before, found.changes.only_after) == (100, 1)
    assert found.changes.parts == ["data"]


def test_checklists_are_data():
    run = pairs(GOOD, LABELS)
    items = replace(
        run, cases=tuple(replace(case, checklist=(ChecklistItem("1", "x"),)) for case in run.cases)
    )
    with pytest.raises(ConfigError, match="share no case with the same prompt"):
        measured(run, items)


def test_a_run_without_any_answer():
    run = pairs(GOOD, LABELS)
    found = measured(run, replace(run, judgments=()))
    assert (found.state, found.flips) == ("unknown", None)


def test_other_answers_are_compared_by_their_own_labels():
    run = pairs(GOOD, LABELS)
    found = measured(run, with_responses(pairs(right_in(LABELS, 0.6, 2), LABELS), ["x", "y"]))
    assert (found.state, found.separable, found.flips) == ("worse", False, None)
    assert found.agreement[2].value == pytest.approx(-0.3)
    most = measured(run, with_responses(run, ["x", "y"], every=2))
    assert (most.separable, most.cases, most.changes.answers) == (True, 100, 100)
    with pytest.raises(ConfigError, match="same prompt"):
        measured(run, with_responses(run, ["x", "y", "z"]))
    with pytest.raises(ConfigError, match="the runs share no case;"):
        measured(run, replace(run, cases=(replace(run.cases[0], id="x"),), judgments=()))


@pytest.mark.slow
@pytest.mark.parametrize(("sections", "part", "name"), [
    ({"judge": {"model": "other"}}, "judge", "judge.model"),
    ({"judge": {"model": "m", "temperature": 1.0}}, "judge", "judge.temperature"),
    ({"criteria": [{"name": "quality", "description": "new"}]}, "prompt",
     "criteria.quality.description"),
    ({"criteria": [{"name": "quality", "weight": 2}]}, "prompt", "criteria.quality.weight"),
    ({"rubric": {"max": 7}}, "prompt", "rubric.max"),
    ({"prompt": {"language": "zh"}}, "prompt", "prompt.language"),
    ({"tie": {"threshold": 0.2}}, "scoring", "tie.threshold"),
    ({"tie": {"allow": False}}, "scoring", "tie.allow"),
    ({"scoring": {"combine": "median"}}, "scoring", "scoring.combine"),
])  # fmt: skip
def test_a_setting_belongs_to_a_part(sections, part, name):
    found = measured(
        pairs(GOOD[:20], LABELS[:20]), pairs(GOOD[:20], LABELS[:20], **sections)
    ).changes
    assert [(one.part, one.name) for one in found.settings] == [(part, name)]
    assert found.parts == [part]


def test_settings_that_change_no_verdict_are_no_change():
    quiet = {
        "judge": {"model": "m", "rpm": 3, "name": "new", "look": "2"},
        "scoring": {"bootstrap": 10},
        "runner": {"retries": 1},
    }
    run = pairs(GOOD[:20], LABELS[:20], **quiet)
    run = replace(run, judgments=tuple(replace(one, judge="new") for one in run.judgments))
    assert not measured(pairs(GOOD[:20], LABELS[:20]), run).changes.parts


@pytest.mark.slow
def test_stored_answers_of_the_run_before_are_counted():
    def answered(seconds, stored):
        run = pairs(GOOD[:20], LABELS[:20])
        made = (
            replace(
                one,
                keys=(str(k),),
                stored=stored and k > 4,
                completion=Completion("A", latency=seconds + k),
            )
            for k, one in enumerate(run.judgments)
        )
        return replace(run, judgments=tuple(made))

    def counts(*runs):
        return [(found.copied, found.asked) for found in [measured(*runs).changes]]

    assert counts(answered(0.5, False), answered(0.5, True)) == [(15, 20)]
    assert counts(answered(0.5, False), answered(0.25, True)) == [(0, 20)]
    assert counts(answered(0.5, False), answered(0.5, False)) == [(0, 20)]
    assert counts(pairs(GOOD[:20], LABELS[:20]), pairs(GOOD[:20], LABELS[:20])) == [(0, 0)]
    shown = [
        in_every_language(one)[0]
        for one in findings(measured(answered(0.5, False), answered(0.5, True)))
    ]
    assert any(
        "15 of 20 answers of the run after are stored ones of the run before" in one
        for one in shown
    )


def test_templates_and_models_are_compared_by_hash_and_by_the_name_that_answered():
    run = pairs(GOOD[:20], LABELS[:20])
    hashes = measured(run, run, manifest={"prompt_hashes": {"pairwise": "2"}}).changes.settings
    assert [(one.part, one.name, one.before, one.after) for one in hashes] == [
        ("prompt", "prompt.pairwise", "1", "2")
    ]
    assert not measured(run, run, manifest={"imported": {}, "prompt_hashes": {}}).changes.settings
    imported = measured(
        run, run, manifest={"imported": {"source": "x"}, "prompt_hashes": {}}
    ).changes
    assert (imported.unknown, imported.settings) == (True, ())
    known = [{"judges": [{"name": "m", "model": f"m@sha256:{one}"}]} for one in "12"]
    found = module.measure_drift(
        replace(run, name="a"), replace(run, name="b"), known, SETTINGS, 0.05
    )
    assert [one.after for one in found.changes.settings] == ["m@sha256:2"]

    def answered(model: str):
        given = tuple(
            replace(one, completion=Completion("A", model=model)) for one in run.judgments
        )
        return replace(run, judgments=given)

    [setting] = measured(answered("m-1"), answered("m-2")).changes.settings
    assert (setting.part, setting.name, setting.before, setting.after) == (
        "judge",
        "judge.reported_model",
        "m-1",
        "m-2",
    )
    assert not measured(run, answered("m-2")).changes.settings


def test_an_abstention_is_a_verdict_and_classes_are_compared(configure):
    config = configure(
        mode={"name": "pointwise"}, swap={"policy": "none"},
        rubric={"classes": {"pass": "", "fail": ""}, "abstain": "unsure"},
    )  # fmt: skip

    def run(given):
        cases = tuple(
            Case(str(k), f"q{k}", (Response("x", class_name="pass"),)) for k in range(len(given))
        )
        judgments = tuple(
            Judgment(str(k), (0,), (0,), 0, "m", "ok" if one else "unparseable", class_name=one)
            for k, one in enumerate(given)
        )
        return RunEntry("run", config, cases, judgments)

    found = measured(
        run(["pass", "pass", "unsure", "fail"]), run(["pass", "unsure", "unsure", None])
    )
    assert (found.flips.value, found.flips.n, found.lost, found.reversals) == (
        pytest.approx(1 / 3),
        3,
        1,
        None,
    )


def test_checklist_items_are_the_units_of_checklists(configure):
    config = configure(
        mode={"name": "checklist"},
        swap={"policy": "none"},
        rubric={"min": 0, "max": 1, "step": 0.01},
    )
    items = tuple(ChecklistItem(name, name, labels={"ann": ("met",)}) for name in ("one", "two"))

    def run(answers):
        cases = tuple(
            Case(str(k), f"q{k}", (Response("x"),), checklist=items) for k in range(len(answers))
        )
        judgments = tuple(
            Judgment(
                str(k),
                (0,),
                (0,),
                0,
                "m",
                "ok",
                items=dict(zip(("one", "two"), given, strict=True)),
            )
            for k, given in enumerate(answers)
        )
        return RunEntry("run", config, cases, judgments)

    before, after = [("met", "met")] * 20, [("met", "not_met"), *[("met", "met")] * 19]
    found = measured(run(before), run(after))
    assert (found.after.unit, found.flips.value, found.flips.n) == (
        "item",
        pytest.approx(1 / 40),
        40,
    )
    assert found.agreement[2].value == pytest.approx(-1 / 40)


def test_json_has_everything_but_the_metrics():
    found = measured(
        pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.6, 2), LABELS, judge={"model": "x"})
    ).json()
    assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(found))
    assert (found["state"], found["changed"], found["cases"]) == ("worse", ["judge"], 200)
    assert found["agreement"]["difference"]["value"] == pytest.approx(-0.3)
    assert found["before"]["use"] == "rates_corrected"  # one order of each pair
    assert measured(pairs(GOOD, [None] * 200), pairs(GOOD, [None] * 200)).json()["agreement"] == {}


def test_without_resamples_only_counts_have_intervals(monkeypatch):
    monkeypatch.setattr(
        "tests.scoring.drift_runs.SETTINGS", SETTINGS.model_copy(update={"bootstrap": 0})
    )
    grades = [float(k % 4 + 1) for k in range(60)]
    found = measured(scores(grades, grades), scores(grades[1:] + grades[:1], grades))
    assert (found.agreement, found.state, found.reason) == ((), "unknown", "no_labels")
    assert measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.5, 2), LABELS)).state == "worse"


def test_a_case_without_its_labels():
    item = ChecklistItem("1", "x", labels={"ann": ("met",)})
    responses = (Response("one", grade=3.0), Response("two", class_name="pass"))
    case = replace(
        pairs(["A"], ["A"]).cases[0], labels={"ann": "A"}, responses=responses, checklist=(item,)
    )
    assert is_labeled(case)
    bare = without_labels(case)
    assert not is_labeled(bare)
    assert [one.text for one in bare.responses] == ["one", "two"]


def test_agreement_is_better_if_the_interval_lies_above_none():
    assert measured(pairs(right_in(LABELS, 0.6, 2), LABELS), pairs(GOOD, LABELS)).better
    assert not measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS)).better
    assert not measured(pairs(GOOD, [None] * 200), pairs(GOOD, [None] * 200)).better


@examples(8)
@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 0.3, 1.0, 10.0]), min_size=4, max_size=4),
        min_size=1,
        max_size=2,
    ),
    st.booleans(),
)
def test_the_evidence_has_mean_1_over_all_orders_of_the_looks_of_each_cluster(cases, together):
    """Given the answers of a case without their order, all orders are equally likely if nothing has changed."""
    looks, cases = len(cases[0]), np.array(cases).T
    cluster = np.zeros(len(cases[0]), dtype=np.int64) if together else np.arange(len(cases[0]))
    orders = [[*order] for order in permutations(range(looks))]
    every = (
        [[order] * len(cluster) for order in orders]
        if together
        else product(orders, repeat=len(cluster))
    )
    sizes = [
        exp(
            change_evidence(
                np.stack([cases[order, k] for k, order in enumerate(chosen)], axis=1), cluster
            )
        )
        for chosen in every
    ]
    decided = looks - BASELINE
    # The weights of the windows add up to 1 only over infinitely many looks.
    assert np.mean(sizes) * decided * (decided + 1) == pytest.approx(1 / 2 + 1 / 6)


def slow_evidence(cases, cluster):
    """Return the evidence by its definition, without arrays."""

    def apart(c, i, j):
        units = [case for case, own in zip(cases, cluster, strict=True) if own == c]
        return sum(min(1.0, abs(one[i] - one[j])) for one in units) / len(units)

    def score(c, j, t, last):
        odd = sum(apart(c, i, j) for i in range(t + 1) if i != j) / t
        later = [apart(c, j, k) for k in range(t + 1, last + 1)]
        return odd - (sum(later) / len(later) if later else 0.0)

    last = len(cases[0]) - 1
    total = 0.0
    for tilt in (1, 3, 9):
        size = 1.0
        for w, moment in enumerate(range(last, max(1, last - WINDOW), -1), 1):
            for c in set(cluster):
                scores = [exp(tilt * score(c, j, moment, last)) for j in range(moment + 1)]
                size *= scores[moment] / (sum(scores) / (moment + 1))
            total += size / (w * (w + 1)) / 3
    return total / ((last - 1) * last)


@given(st.integers(3, 7), st.data())
def test_the_evidence_is_that_of_its_definition(looks, data):
    cluster = data.draw(
        st.lists(st.integers(0, 2), min_size=3, max_size=5).filter(lambda c: {*c} == {0, 1, 2})
    )
    answer = st.sampled_from([0.0, 0.25, 1.0, 10.0])
    cases = [data.draw(st.lists(answer, min_size=looks, max_size=looks)) for _ in cluster]
    found = exp(change_evidence(np.array(cases).T, np.array(cluster)))
    assert found == pytest.approx(slow_evidence(cases, cluster))


def simulated(generator, looks, noise, cases=30):
    """Return answers of cases that differ in how often their answers flip by themselves."""
    flips = generator.random((looks, cases)) < noise(generator, cases)
    return np.where(flips, 10.0, 20.0)


NOISE = {
    "none": lambda generator, cases: np.zeros(cases),
    "by case": lambda generator, cases: generator.beta(0.3, 2, cases) / 2,
    "much": lambda generator, cases: np.full(cases, 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISE)
def test_a_judge_that_has_not_changed_raises_no_alarm(name):
    generator, alarms = np.random.default_rng(11), 0
    for _ in range(10):
        values = simulated(generator, 12, NOISE[name])
        alarms += any(
            change_evidence(values[:t], np.arange(30)) >= np.log(20) for t in range(3, 13)
        )
    assert alarms <= 1


def test_a_changed_judge_raises_an_alarm_and_a_repeated_look_of_the_old_one_does_not():
    generator = np.random.default_rng(4)
    values = simulated(generator, 8, NOISE["by case"], cases=100)
    values[5:, :25] = 30.0 - values[5:, :25]
    before, after = (
        look_facts(values[:t], np.full((t, 100), np.nan), np.arange(100)) for t in (5, 6)
    )
    assert not before.changed
    assert after.changed
    assert after.excess.low > 0
    assert before.excess.low <= 0 <= before.excess.high
    assert after.change is None
    assert after.agreement is None


def test_one_permanently_flipped_answer_of_a_judge_without_noise_is_found_in_time():
    values = np.full((60, 40), 10.0)
    values[30:, 0] = 20.0
    assert change_evidence(values[:2], np.arange(40)) == 0
    assert change_evidence(values[:31], np.arange(40)) < np.log(20)
    assert change_evidence(values, np.arange(40)) >= np.log(20)


def test_copies_of_a_case_are_one_cluster_and_add_no_evidence():
    values = np.full((3, 30), 10.0)
    values[2, :6] = 20.0
    assert change_evidence(values, np.arange(30)) >= np.log(20)
    together = np.array([0] * 6 + [*range(1, 25)])
    assert change_evidence(values, together) < np.log(20)


def test_a_failed_request_takes_its_case_out_of_its_look_only():
    values = np.full((4, 30), 10.0)
    values[3, :8] = 20.0
    whole = change_evidence(values, np.arange(30))
    values[1, 0] = values[3, 1] = np.nan
    some = change_evidence(values, np.arange(30))
    assert np.log(20) < some < whole
    values[:3] = np.nan
    assert change_evidence(values, np.arange(30)) == pytest.approx(np.log((1 / 2 + 1 / 6) / 6))


def test_flips_noise_and_agreement():
    a, b = 10.0, 20.0
    values = np.array([[a, a, a, a], [a, a, a, b], [b, a, b, np.nan]])
    right = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, np.nan, np.nan]], dtype=float)
    first, second, third = (look_facts(values[:t], right[:t], np.arange(4)) for t in (1, 2, 3))
    assert (first.flips, first.noise, first.agreement.value, first.evidence) == (
        None,
        None,
        0.75,
        1,
    )
    assert (second.flips.value, second.noise.value, second.agreement.value, second.excess) == (
        0.25,
        0.25,
        1,
        None,
    )
    assert (third.flips.value, third.noise.value, third.agreement.value) == (
        round(2 / 3, 12),
        0,
        0.5,
    )
    assert (third.flips.n, third.flips.missing, third.agreement.n) == (3, 1, 2)
    assert (third.excess.value, third.excess.n, third.excess.missing) == (round(2 / 3, 12), 3, 1)
    assert (third.change.value, third.change.n, third.change.missing) == (-0.5, 2, 2)
    assert third.excess.low < third.excess.value < third.excess.high
    assert not third.changed


@pytest.mark.parametrize("looks", [1, 2, 3, 9])
@pytest.mark.parametrize("clusters", [1, 5, 60])
@pytest.mark.parametrize("noise", [0.0, 0.2, 1.0])
def test_every_number_of_a_look_has_an_interval_around_it(looks, clusters, noise):
    generator = np.random.default_rng(3)
    values = np.where(generator.random((looks, 60)) < noise / 2, 20.0, 10.0)
    values[generator.random(values.shape) < 0.1] = np.nan
    facts = look_facts(
        values, np.where(np.isnan(values), np.nan, values == 10), np.arange(60) % clusters
    )
    metrics = [one for one in astuple_of(facts) if isinstance(one, Metric)]
    assert len(metrics) == {1: 1, 2: 3}.get(looks, 5)
    assert all(one.low <= one.value <= one.high and one.low < one.high for one in metrics)
    assert len({one.name for one in metrics}) == len(metrics)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "size"), [(0.05, 1), (0.3, 1), (0.3, 4), (0.9, 2)])
def test_the_interval_of_flips_covers_the_rate_of_the_population_of_clusters(rate, size):
    generator, covered = np.random.default_rng(8), 0
    cluster = np.repeat(np.arange(40), size)
    for _ in range(100):
        of_cluster = np.repeat(generator.beta(2 * rate, 2 - 2 * rate, 40), size)
        values = np.array(
            [
                np.full(40 * size, 10.0),
                np.where(generator.random(40 * size) < of_cluster, 20.0, 10.0),
            ]
        )
        flips = look_facts(values, np.full(values.shape, np.nan), cluster).flips
        covered += flips.low <= rate <= flips.high
    assert covered >= 95


def astuple_of(facts):
    return [getattr(facts, one.name) for one in fields(facts)]


def test_a_change_is_that_of_the_first_complete_look_that_shows_it():
    facts = [LookFacts(None, None, None, None, None, size) for size in (1.0, 1.0, 19.9, 20.0, 30.0)]
    looks = [Look(f"k{k}", k, "", complete=k != 4, facts=one) for k, one in enumerate(facts, 1)]
    baseline = Baseline("j", "c", "f", {}, 9, looks=(*looks, Look("new", 6, "")))
    assert [one.number for one in baseline.complete] == [1, 2, 3, 5]
    assert baseline.changed is looks[4]
    assert replace(baseline, looks=tuple(looks[:3])).changed is None
    states = [replace(baseline, looks=baseline.looks[: k + 1]).state for k in range(6)]
    assert states == ["baseline", "baseline", "same", "incomplete", "changed", "incomplete"]


def judged(case, unit, status="ok"):
    return Judgment(case, unit, unit, 0, "j", status)


def test_answers_of_pairs_without_the_winners_that_scores_imply():
    pairs = [
        Verdict("a", (0, 1), "A", None, "judged", label="B"),
        Verdict("b", (0, 1), None, None, "missing"),
        Verdict("c", (0, 1), None, None, "missing"),
        Verdict("a", (0,), None, 0.7, "judged"),
    ]
    status = {"a": "ok", "b": "refused", "c": "failed"}
    found = answers_of(pairs, [judged(case, (0, 1), one) for case, one in status.items()])
    assert found == {
        ("a", (0, 1), ""): ("A", "B"),
        ("b", (0, 1), ""): ("missing", None),
        ("c", (0, 1), ""): (None, None),
    }
    scores = answers_of(pairs, [judged("a", (0,)), judged("a", (1,))])
    assert scores == {("a", (0,), ""): (0.7, None)}


def test_answers_of_classes_and_checklists():
    items = (ItemVerdict("x", "met", "judged", label="not_met"), ItemVerdict("y", None, "missing"))
    verdicts = [
        Verdict("a", (0,), None, None, "judged", class_name="good", label="bad"),
        Verdict("b", (0,), None, None, "abstained"),
        Verdict("c", (0,), None, 0.5, "judged", items=items),
    ]
    assert answers_of(verdicts, [judged(case, (0,)) for case in "abc"]) == {
        ("a", (0,), ""): ("good", "bad"),
        ("b", (0,), ""): ("abstained", None),
        ("c", (0,), "x"): ("met", "not_met"),
        ("c", (0,), "y"): ("missing", None),
    }


def test_distances_and_how_right_answers_are():
    looks = [["A", 2.0, "missing", None, 5.0], ["TIE", 4.0, "B", 1.0, "missing"]]
    values, right = as_numbers(looks, ["A", 3.0, "B", 2.0, "A"], 4.0)
    apart = np.minimum(1, np.abs(values[0] - values[1]))
    assert apart[:3].tolist() == [1, 0.5, 1]
    assert np.isnan(apart[3])
    assert apart[4] == 1
    assert right[0].tolist()[:2] == [1, 0.75]
    assert right[1].tolist()[:4] == [0, 0.75, 1, 0.75]
    assert np.isnan(right[0, 2:]).all()
    assert np.isnan(right[1, 4])
    values, right = as_numbers([[0.1], [0.2]], [0.1], float("inf"))
    assert np.abs(values[0] - values[1]) >= 1
    assert right.ravel().tolist() == [1, 0]
