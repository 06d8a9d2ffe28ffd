"""What changed between two runs, flips against noise, and the decision by a margin."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import t

from evalkit.core.splits import is_labeled, without_labels
from evalkit.core.translation import in_every_language
from evalkit.errors import ConfigError
from evalkit.report.findings.drift import findings
from evalkit.scoring import drift as module
from evalkit.scoring.compare import RunEntry
from evalkit.scoring.drift import Drift
from evalkit.scoring.labels import labels_for
from evalkit.scoring.stats.paired import tango
from evalkit.types import Case, ChecklistItem, Completion, Judgment, Metric, Response
from tests.scoring.drift_runs import SETTINGS, measured, pairs, right_in, scores, truth

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
    given = [[tuple(generator.choice(["A", "TIE", "B"], 4, p=share)) for share in own] for own in shares]
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
    found = measured(pairs(GOOD, LABELS), pairs(twice, LABELS, mode={"name": "pairwise", "samples": 2}))
    assert found.noise.value == pytest.approx(0.25)
    assert found.flips.value == pytest.approx(0.125)
    assert found.noisy is True


def test_no_flips_beyond_noise_are_claimed_more_often_than_nominal(monkeypatch, thorough):
    monkeypatch.setattr("tests.scoring.drift_runs.SETTINGS", SETTINGS.model_copy(update={"bootstrap": 100}))
    claimed = 0
    for seed in range(60 if thorough else 25):
        generator = np.random.default_rng(seed)
        share = generator.random(40)
        drawn = np.where(generator.random((2, 40, 2)) < share[:, None], "A", "B")
        given = [[tuple(map(str, one)) for one in own] for own in drawn]
        runs = [pairs(own, ["A"] * 40, mode={"name": "pairwise", "samples": 2}) for own in given]
        claimed += measured(*runs).noisy is False
    assert claimed <= (6 if thorough else 3)


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


def state_of(low, high, flips=(0.2, 0.3), margin=0.05, reason="moderate", **more):
    """Return the state for an interval of the difference and one of the flips."""
    agreement = (
        () if low is None else (Metric("a", 0.5), Metric("a", 0.5), Metric("agreement/accuracy", 0, low, high, 9))
    )
    flipped = None if flips is None else Metric("between/flips", flips[0], *flips, n=100)
    values = {"state": "unknown", "reason": "", "margin": margin, "tolerance": 0.2, "changes": None, "cases": 100}
    values |= {"separable": True, "before": SimpleNamespace(reason=reason), "after": None}
    pairs_of = {"agreement/accuracy": Metric("agreement/accuracy", 0.5, n=9), "position/consistency": Metric("p", 1.0)}
    drift = Drift(**values, metrics=pairs_of, agreement=agreement, flips=flipped, **more)
    return module._state(drift)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({"low": -0.2, "high": -0.06}, ("worse", "agreement")),
        ({"low": -0.2, "high": -0.05}, ("unknown", "agreement")),  # at the margin, a loss is not more than it
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
        ({"low": -0.01, "high": 0.01, "beyond": Metric("between/beyond_noise", 0.0, -0.1, 0.1)}, ("same", "agreement")),
        (
            {"low": -0.01, "high": 0.01, "beyond": Metric("between/beyond_noise", 0.1, 0.01, 0.1)},
            ("not_worse", "agreement"),
        ),
    ],
)
def test_the_state_by_whole_intervals(given, state):
    assert state_of(**given) == state


def test_scores_that_moved_are_not_the_same():
    grades = np.random.default_rng(1).integers(2, 6, 200).astype(float).tolist()
    lower = measured(scores(grades, grades), scores([one - 1 for one in grades], grades))
    assert (lower.state, lower.share, lower.shift.value) == ("not_worse", False, -1.0)
    assert lower.agreement[0].name == "agreement/spearman"
    nearly = [one - (k % 10 == 0) for k, one in enumerate(grades)]
    assert measured(scores(grades, grades), scores(nearly, grades), margin=0.1).state == "same"


def test_labels_needed_fall_with_the_margin_and_grow_with_flips():
    other = right_in(LABELS, 0.89, 2)
    wide, narrow = (measured(pairs(GOOD, LABELS), pairs(other, LABELS), margin) for margin in (0.04, 0.02))
    assert wide.state == narrow.state == "unknown"
    assert wide.labels_needed < narrow.labels_needed
    bare = [None] * 200
    few = [("TIE" if k % 5 == 0 else one) for k, one in enumerate(GOOD)]
    many = [("TIE" if k % 2 == 0 else one) for k, one in enumerate(GOOD)]
    small, large = (measured(pairs(GOOD, bare), pairs(one, bare)).labels_needed for one in (few, many))
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


@pytest.mark.parametrize("n", [30, 50, 100])
def test_the_promised_labels_decide_in_about_the_promised_share_of_cases(n):
    generator, margin = np.random.default_rng(n), 0.05
    as_estimated, more_of_the_same = [], []
    for rates in RATES:
        for _ in range(60):
            worse, better, _ = generator.multinomial(n, [*rates, 1 - sum(rates)])
            found = difference(worse, better, n)
            if decided(found, margin) or (more := labels_for(found, -margin, 0.95)) is None:
                continue
            whole = generator.multinomial(n + more, [worse / n, better / n, 1 - (worse + better) / n])
            as_estimated.append(decided(difference(*whole[:2], n + more), margin))
            others = generator.multinomial(more, [*rates, 1 - sum(rates)])
            more_of_the_same.append(decided(difference(worse + others[0], better + others[1], n + more), margin))
    assert len(as_estimated) > 150
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


def test_only_cases_with_the_same_prompts_and_answers_are_compared():
    run = pairs(GOOD, LABELS)
    answered = with_responses(run, ["new", "two"], every=4)
    found = measured(run, answered)
    assert (found.changes.answers, found.cases, found.separable, found.flips.n) == (50, 150, True, 150)
    spaced = with_responses(run, ["\n\none", "two "])
    assert measured(run, spaced).changes.answers == 0
    cases = [replace(case, context="new") if k % 2 else case for k, case in enumerate(run.cases[:100])]
    asked = replace(run, cases=(*cases, replace(run.cases[100], id="new")), judgments=run.judgments[:100])
    found = measured(run, asked)
    assert (found.changes.data, found.changes.shared, found.cases) == (50, 100, 50)
    assert (found.changes.only_before, found.changes.only_after) == (100, 1)
    assert found.changes.parts == ["data"]


def test_checklists_are_data():
    run = pairs(GOOD, LABELS)
    items = replace(run, cases=tuple(replace(case, checklist=(ChecklistItem("1", "x"),)) for case in run.cases))
    with pytest.raises(ConfigError, match="share no case with the same prompt"):
        measured(run, items)


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


def test_the_newer_labels_count_for_both_runs():
    run, other = pairs(GOOD, LABELS), pairs(GOOD, GOOD)
    found = measured(run, other)
    assert found.changes.labels == sum(a != b for a, b in zip(LABELS, GOOD, strict=True))
    assert [one.value for one in found.agreement[:2]] == [1.0, 1.0]
    found = measured(run, pairs(GOOD, [None] * 200))
    assert (found.changes.labels, found.agreement[0].n) == (0, 200)


@pytest.mark.parametrize(
    ("sections", "part", "name"),
    [
        ({"judge": {"model": "other"}}, "judge", "judge.model"),
        ({"judge": {"model": "m", "temperature": 1.0}}, "judge", "judge.temperature"),
        ({"criteria": [{"name": "quality", "description": "new"}]}, "prompt", "criteria.quality.description"),
        ({"criteria": [{"name": "quality", "weight": 2}]}, "prompt", "criteria.quality.weight"),
        ({"rubric": {"max": 7}}, "prompt", "rubric.max"),
        ({"prompt": {"language": "zh"}}, "prompt", "prompt.language"),
        ({"tie": {"threshold": 0.2}}, "scoring", "tie.threshold"),
        ({"tie": {"allow": False}}, "scoring", "tie.allow"),
        ({"scoring": {"combine": "median"}}, "scoring", "scoring.combine"),
    ],
)
def test_a_setting_belongs_to_a_part(sections, part, name):
    found = measured(pairs(GOOD[:20], LABELS[:20]), pairs(GOOD[:20], LABELS[:20], **sections)).changes
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


def test_stored_answers_of_the_run_before_are_counted():
    def answered(seconds, stored):
        run = pairs(GOOD[:20], LABELS[:20])
        made = (
            replace(one, keys=(str(k),), stored=stored and k > 4, completion=Completion("A", latency=seconds + k))
            for k, one in enumerate(run.judgments)
        )
        return replace(run, judgments=tuple(made))

    def counts(*runs):
        return [(found.copied, found.asked) for found in [measured(*runs).changes]]

    assert counts(answered(0.5, False), answered(0.5, True)) == [(15, 20)]
    assert counts(answered(0.5, False), answered(0.25, True)) == [(0, 20)]
    assert counts(answered(0.5, False), answered(0.5, False)) == [(0, 20)]
    assert counts(pairs(GOOD[:20], LABELS[:20]), pairs(GOOD[:20], LABELS[:20])) == [(0, 0)]
    shown = [in_every_language(one)[0] for one in findings(measured(answered(0.5, False), answered(0.5, True)))]
    assert any("15 of 20 answers of the run after are stored ones of the run before" in one for one in shown)


def test_templates_and_models_are_compared_by_hash_and_by_the_name_that_answered():
    run = pairs(GOOD[:20], LABELS[:20])
    hashes = measured(run, run, manifest={"prompt_hashes": {"pairwise": "2"}}).changes.settings
    assert [(one.part, one.name, one.before, one.after) for one in hashes] == [("prompt", "prompt.pairwise", "1", "2")]
    assert not measured(run, run, manifest={"imported": {}, "prompt_hashes": {}}).changes.settings
    imported = measured(run, run, manifest={"imported": {"source": "x"}, "prompt_hashes": {}}).changes
    assert (imported.unknown, imported.settings) == (True, ())
    known = [{"judges": [{"name": "m", "model": f"m@sha256:{one}"}]} for one in "12"]
    found = module.measure_drift(replace(run, name="a"), replace(run, name="b"), known, SETTINGS, 0.05)
    assert [one.after for one in found.changes.settings] == ["m@sha256:2"]

    def answered(model: str):
        given = tuple(replace(one, completion=Completion("A", model=model)) for one in run.judgments)
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
        cases = tuple(Case(str(k), f"q{k}", (Response("x", class_name="pass"),)) for k in range(len(given)))
        judgments = tuple(
            Judgment(str(k), (0,), (0,), 0, "m", "ok" if one else "unparseable", class_name=one)
            for k, one in enumerate(given)
        )
        return RunEntry("run", config, cases, judgments)

    found = measured(run(["pass", "pass", "unsure", "fail"]), run(["pass", "unsure", "unsure", None]))
    assert (found.flips.value, found.flips.n, found.lost, found.reversals) == (pytest.approx(1 / 3), 3, 1, None)


def test_checklist_items_are_the_units_of_checklists(configure):
    config = configure(mode={"name": "checklist"}, swap={"policy": "none"}, rubric={"min": 0, "max": 1, "step": 0.01})
    items = tuple(ChecklistItem(name, name, labels={"ann": ("met",)}) for name in ("one", "two"))

    def run(answers):
        cases = tuple(Case(str(k), f"q{k}", (Response("x"),), checklist=items) for k in range(len(answers)))
        judgments = tuple(
            Judgment(str(k), (0,), (0,), 0, "m", "ok", items=dict(zip(("one", "two"), given, strict=True)))
            for k, given in enumerate(answers)
        )
        return RunEntry("run", config, cases, judgments)

    before, after = [("met", "met")] * 20, [("met", "not_met"), *[("met", "met")] * 19]
    found = measured(run(before), run(after))
    assert (found.after.unit, found.flips.value, found.flips.n) == ("item", pytest.approx(1 / 40), 40)
    assert found.agreement[2].value == pytest.approx(-1 / 40)


def test_json_has_everything_but_the_metrics():
    found = measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.6, 2), LABELS, judge={"model": "x"})).json()
    assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(found))
    assert (found["state"], found["changed"], found["cases"]) == ("worse", ["judge"], 200)
    assert found["agreement"]["difference"]["value"] == pytest.approx(-0.3)
    assert found["before"]["use"] == "single"
    assert measured(pairs(GOOD, [None] * 200), pairs(GOOD, [None] * 200)).json()["agreement"] == {}


def test_without_resamples_only_counts_have_intervals(monkeypatch):
    monkeypatch.setattr("tests.scoring.drift_runs.SETTINGS", SETTINGS.model_copy(update={"bootstrap": 0}))
    grades = [float(k % 4 + 1) for k in range(60)]
    found = measured(scores(grades, grades), scores(grades[1:] + grades[:1], grades))
    assert (found.agreement, found.state, found.reason) == ((), "unknown", "no_labels")
    assert measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.5, 2), LABELS)).state == "worse"


def test_a_case_without_its_labels():
    item = ChecklistItem("1", "x", labels={"ann": ("met",)})
    responses = (Response("one", grade=3.0), Response("two", class_name="pass"))
    case = replace(pairs(["A"], ["A"]).cases[0], labels={"ann": "A"}, responses=responses, checklist=(item,))
    assert is_labeled(case)
    bare = without_labels(case)
    assert not is_labeled(bare)
    assert [one.text for one in bare.responses] == ["one", "two"]


def test_agreement_is_better_if_the_interval_lies_above_none():
    assert measured(pairs(right_in(LABELS, 0.6, 2), LABELS), pairs(GOOD, LABELS)).better
    assert not measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS)).better
    assert not measured(pairs(GOOD, [None] * 200), pairs(GOOD, [None] * 200)).better


def test_a_run_without_any_answer():
    run = pairs(GOOD, LABELS)
    found = measured(run, replace(run, judgments=()))
    assert (found.state, found.flips) == ("unknown", None)
