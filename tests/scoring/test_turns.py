"""Turns and steps of conversations: each metric by a slow, obvious version, and what the findings say of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import RunConfig
from evalkit.core.annotations import INCLUSION
from evalkit.core.types import Case, ChecklistItem, Judgment, Metric, Response
from evalkit.report.findings.finding import RunFacts
from evalkit.report.findings.turns import turn_findings
from evalkit.scoring.columns import NO_SCALE
from evalkit.scoring.labels import ONLY_LABELED
from evalkit.scoring.metrics.turns import (
    EARLY,
    EXACT,
    LATE,
    NEAR,
    NO_CONVERSATION,
    NO_OUTCOME,
    NO_POSITIVE,
    NONE,
    NONE_FAILED,
    ONE_PLACE,
    OUTCOME,
    RECOVERED,
    SLOPE,
    UNLABELED,
)
from evalkit.scoring.pipeline import score_run
from tests.support.thorough import examples

CLASSES = {"classes": {"pass": "", "unsure": "", "fail": ""}, "positive": "pass"}
SHARE = {"min": 0, "max": 1, "step": 0.01}
FAILURES = (EXACT, NEAR, NONE, OUTCOME, RECOVERED)
ITEMS = ("must", "may")


def run_of(conversations, mode="classes", judges=1, **settings):
    """Score conversations: lists of (verdict, label) of each part, or of (verdicts of judges, label)."""
    cases, judgments = [], []
    for c, parts in enumerate(conversations):
        for k, part in enumerate(parts, 1):
            if part is None:  # not among the cases
                continue
            verdict, label = part
            name, metadata = f"c{c} #{k}", {"conversation": f"c{c}", "turn": k, "turns": len(parts)}
            metadata["position"] = k / len(parts)
            unit = (0, 1) if mode == "pairs" else (0,)
            checklist = ()
            if mode == "checklist":
                answers = dict(zip(ITEMS, label or (None, None), strict=True))
                checklist = tuple(
                    ChecklistItem(
                        one, one, required=one == "must", labels={"label": (answers[one],)}
                    )
                    for one in ITEMS
                )
            responses = {
                "classes": (Response("a", class_name=label if mode == "classes" else None),),
                "scores": (Response("a", grade=label if mode == "scores" else None),),
                "pairs": (Response("a"), Response("b")),
                "checklist": (Response("a"),),
            }[mode]
            own = settings.get("metadata", {}).get(c, {})
            case = Case(name, f"q{name}", responses, checklist=checklist, metadata=metadata | own)
            if mode == "pairs":
                case = Case(name, f"q{name}", responses, label=label, metadata=metadata | own)
            cases.append(case)
            for j in range(judges):
                given = verdict if judges == 1 else verdict[j]
                values = {
                    "classes": {"class_name": given},
                    "scores": {"value": given},
                    "pairs": {"value": {"A": 1.0, "B": -1.0, "TIE": 0.0}.get(given)},
                    "checklist": {
                        "items": dict(zip(ITEMS, given, strict=True))
                        if isinstance(given, tuple)
                        else {}
                    },
                }[mode]
                status = "failed" if given is None else "ok"
                answer = {} if given is None else values
                judgments.append(Judgment(name, unit, unit, 0, f"j{j}", status, **answer))
    rubric = settings.get("rubric", {"classes": CLASSES, "checklist": SHARE}.get(mode, {}))
    config = RunConfig(
        judge={"name": "j0", "model": "m"}
        if judges == 1
        else {"name": "panel", "judges": [{"name": f"j{j}", "model": "m"} for j in range(judges)]},
        mode={"name": {"pairs": "pairwise", "checklist": "checklist"}.get(mode, "pointwise")},
        swap={"policy": "none"},
        rubric=rubric,
        criteria=[{"name": "quality"}],
        scoring={"bootstrap": settings.get("bootstrap", 0), "cluster": "conversation"},
    )
    return score_run(config, cases, judgments).metrics


def first_failure(passed):
    """The number of the first failure: 0 if none fails, `None` if something before it is not known."""
    for number, one in enumerate(passed, 1):
        if one is None:
            return None
        if not one:
            return number
    return 0


def rate(hits):
    known = [hit for hit in hits if hit is not None]
    return (sum(known) / len(known) if known else None, len(known), len(hits) - len(known))


def obvious(conversations, passes):
    """Each metric of failures as (value, n, missing)."""
    hits = {name: [] for name in FAILURES}
    for parts in (parts for parts in conversations if any(parts)):
        judged, labeled = (
            [None if p is None else passes(p[side]) for p in parts] for side in (0, 1)
        )
        first, truth = first_failure(judged), first_failure(labeled)
        if truth is not None:
            hits[NONE].append(truth == 0)
            hits[EXACT].append(None if first is None else first == truth)
            near = (
                None
                if first is None
                else first == truth or (0 not in (first, truth) and abs(first - truth) == 1)
            )
            hits[NEAR].append(near)
        if len(parts) > 1:
            *before, last = judged
            process = False if False in before else None if None in before else True
            lost = process is None or last is None
            hits[OUTCOME].append(None if lost else process == last)
            if process is not True:
                hits[RECOVERED].append(None if lost else last)
    return {name: rate(found) for name, found in hits.items()}


def agreement(conversations, agree):
    """Agreement in both halves, and the slope by least squares with a dummy variable for each conversation."""
    halves, rows = {EARLY: [], LATE: []}, []
    for c, parts in enumerate(conversations):
        for number, part in enumerate(parts, 1):
            if part is None or part[1] is None:
                continue
            value = None if part[0] is None else agree(*part)
            if 2 * number != len(parts) + 1:
                halves[EARLY if number <= len(parts) / 2 else LATE].append(value)
            if value is not None and len(parts) > 1:
                rows.append((c, (number - 1) / (len(parts) - 1), value))
    counts = {c: sum(row[0] == c for row in rows) for c, _, _ in rows}
    rows = [row for row in rows if counts[row[0]] > 1]
    found = {name: rate(values) for name, values in halves.items()}
    if not rows:
        return found, None
    numbers, x, y = zip(*rows, strict=True)
    dummies = np.array([[float(n == c) for c in set(numbers)] for n in numbers])
    return found, np.linalg.lstsq(np.column_stack([x, dummies]), np.array(y), rcond=None)[0][0]


def check(metrics, expected):
    for name, (value, n, missing) in expected.items():
        assert (metrics[name].n, metrics[name].missing) == (n, missing), name
        assert metrics[name].value == (None if value is None else pytest.approx(value)), name


def conversations_of(verdicts, labels=None):
    part = st.one_of(
        st.none(), st.tuples(*[st.one_of(st.none(), one) for one in (verdicts, labels or verdicts)])
    )
    return st.lists(st.lists(part, min_size=1, max_size=5), min_size=1, max_size=5).filter(
        lambda all_: any(part is not None for parts in all_ for part in parts)
    )


KINDS = {
    "classes": (st.sampled_from(["pass", "unsure", "fail"]), lambda name: name == "pass",
                lambda one, two: one == two),
    "scores": (st.integers(1, 5).map(float), lambda score: score >= 3,
               lambda one, two: 1 - abs(one - two) / 4),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mode", KINDS)
@examples(8)
@given(st.data())
def test_classes_and_scores(mode, data):
    values, passes, agree = KINDS[mode]
    conversations = data.draw(conversations_of(values))
    metrics = run_of(conversations, mode)
    check(metrics, obvious(conversations, lambda value: None if value is None else passes(value)))
    halves, slope = agreement(conversations, agree)
    check(metrics, halves)
    assert metrics[SLOPE].value == (None if slope is None else pytest.approx(slope, abs=1e-9))


@pytest.mark.slow
@examples(8)
@given(conversations_of(st.tuples(*[st.sampled_from(["met", "not_met", "cannot_assess"])] * 2)))
def test_checklists(conversations):
    metrics = run_of(conversations, "checklist")
    states = {"met": True, "not_met": False}
    check(
        metrics,
        obvious(conversations, lambda items: None if items is None else states.get(items[0])),
    )


@examples(8)
@given(conversations_of(st.sampled_from(["A", "B", "TIE"])))
def test_pairs_have_no_failures(conversations):
    metrics = run_of(conversations, "pairs")
    check(metrics, agreement(conversations, lambda verdict, label: verdict == label)[0])
    assert not metrics.keys() & {*FAILURES}


def test_an_abstention_is_not_a_failure():
    rubric = CLASSES | {"abstain": "cannot tell"}
    metrics = run_of([[("cannot tell", "pass"), ("pass", "pass")]], rubric=rubric)
    assert (metrics[EXACT].value, metrics[EXACT].missing) == (None, 1)


def test_without_numbers_of_turns_there_are_no_such_metrics():
    plain = {0: {"turn": "1"}, 1: {"turn": True}, 2: {"turns": 0}, 3: {"turns": 10**30}}
    part = [("pass", "pass")]
    assert not any(name.startswith("turns/") for name in run_of([part] * 4, metadata=plain))
    mixed = run_of([part, [*part, *part]], metadata={0: {"turn": None}})
    assert mixed[EARLY].n == mixed[LATE].n == 1
    assert mixed[NONE].n == 1


def test_two_cases_with_one_number_are_not_two_turns():
    part = ("pass", "pass")
    metrics = run_of([[part, part], [part, part]], metadata={1: {"conversation": "c0"}})
    assert (metrics[EXACT].n, metrics[EXACT].missing, metrics[NONE].n) == (0, 0, 0)
    assert (metrics[OUTCOME].n, metrics[OUTCOME].missing) == (0, 1)


def test_reasons_without_a_value():
    no_positive = run_of([[("pass", "pass")] * 2], rubric={"classes": CLASSES["classes"]})
    assert {no_positive[name].note for name in FAILURES} == {NO_POSITIVE}
    unlabeled = run_of([[("pass", None)] * 2])
    assert unlabeled[EARLY].note == unlabeled[SLOPE].note == UNLABELED
    assert unlabeled[EXACT].note == NO_CONVERSATION
    assert unlabeled[OUTCOME].value == 1.0
    assert unlabeled[RECOVERED].note == NONE_FAILED
    single = run_of([[("pass", "pass")]])
    assert single[OUTCOME].note == single[RECOVERED].note == NO_OUTCOME
    assert single[SLOPE].note == ONE_PLACE
    off = run_of([[(4.0, 40.0)] * 2], "scores")
    assert off[EARLY].note == "grades are not on the judge's scale, 1-5"
    assert off[OUTCOME].note == "all 1 agree" or off[OUTCOME].value == 1.0
    assert off[EXACT].value is None
    real = run_of([[(4.0, 40.0)] * 2], "scores", rubric={"real": True})
    assert {real[name].note for name in (EARLY, *FAILURES)} == {NO_SCALE}


def test_intervals_resample_conversations():
    g = np.random.default_rng(5)
    conversations = []
    for _ in range(60):
        right = g.random(10) < np.linspace(0.95, 0.45, 10)
        conversations.append([("pass" if one else "fail", "pass") for one in right])
    metrics = run_of(conversations, bootstrap=800)
    slope = metrics[SLOPE]
    assert slope.low < slope.value < slope.high < 0
    right = np.array([[verdict == label for verdict, label in parts] for parts in conversations])
    x = (
        np.linspace(0, 1, 10) - 0.5
    )  # of conversations of one length, the slope is the mean of their slopes
    slopes = right @ x / (x @ x)
    assert slope.value == pytest.approx(slopes.mean())
    low, high = np.quantile(slopes[g.integers(0, 60, (2000, 60))].mean(axis=1), [0.025, 0.975])
    assert (slope.low, slope.high) == (pytest.approx(low, abs=0.03), pytest.approx(high, abs=0.03))
    same = run_of([[("pass", "pass")] * 4] * 8, bootstrap=100)[SLOPE]
    assert same.low < same.value == 0 < same.high


def test_each_judge_of_a_panel_has_them():
    part = (("pass", "pass", "fail"), "pass")
    metrics = run_of([[part, part], [part, (("fail", "fail", "pass"), "fail")]], judges=3)
    assert metrics[EXACT].value == metrics["judge/j0/turns/first_failure_exact"].value == 1.0
    assert metrics["judge/j2/turns/first_failure_exact"].value == 0.0
    both = ("met", "met")
    lists = run_of([[((both, both, ("not_met", "met")), both)] * 2], "checklist", judges=3)
    assert (lists[EXACT].value, lists["judge/j2/turns/first_failure_exact"].value) == (1.0, 0.0)


def test_labels_sampled_with_unequal_probabilities():
    shares = {0: {INCLUSION: 0.5}, 1: {INCLUSION: 0.25}}
    p, wrong, unlabeled = ("pass", "pass"), ("fail", "pass"), ("pass", None)
    metrics = run_of([[p, p], [wrong, wrong], [unlabeled, unlabeled]], metadata=shares)
    assert metrics[EARLY].value == pytest.approx(1 / 3)
    assert ONLY_LABELED in metrics[EXACT].note
    assert ONLY_LABELED in metrics[SLOPE].note


def metric(name, value, low, high, n=20):
    return Metric(name, value, low, high, n)


def texts_of(*metrics):
    return {
        one.metric: (one.tone, str(one.text))
        for one in turn_findings(
            {m.name: m for m in metrics}, RunFacts("pointwise", None, {}, 0.95)
        )
    }


@pytest.mark.parametrize(("ends", "tone", "words"), [
    ((-0.3, -0.1), "warn", "lower late in conversations: 90% [80, 95] in the first half"),
    ((0.1, 0.3), "info", "higher late"),
    ((-0.1, 0.3), "info", "No clear change"),
])  # fmt: skip
def test_findings_on_positions(ends, tone, words):
    halves = metric(EARLY, 0.9, 0.8, 0.95), metric(LATE, 0.7, 0.6, 0.8)
    found = texts_of(*halves, metric(SLOPE, sum(ends) / 2, *ends))
    assert found[SLOPE][0] == tone
    assert words in found[SLOPE][1]
    assert ("may also be" in found[SLOPE][1]) == (ends[0] * ends[1] > 0)
    assert texts_of(*halves, metric(SLOPE, 0.0, None, None)) == {}
    scores = texts_of(
        *halves, metric(SLOPE, sum(ends) / 2, *ends), metric("score/mean", 3.0, 2.0, 4.0)
    )
    assert scores[SLOPE][1].endswith("which chance alone can make high.")
    assert "chance" not in found[SLOPE][1]


def test_findings_on_failures():
    given = [metric(EXACT, 0.8, 0.6, 0.9), metric(NEAR, 0.9, 0.7, 1.0)]
    better = texts_of(*given, metric(NONE, 0.4, 0.3, 0.5), metric(RECOVERED, 0.25, 0.1, 0.5, 8))
    assert better[EXACT] == (
        "good",
        "In 80% [60, 90] of 20 conversations, the first turn or step that fails is the labeled one, or none fails by "
        "either; within one turn or step in 90% [70, 100]. A judge that passes everything would be right in "
        "40% [30, 50] of 20 labeled ones.",
    )
    assert better[RECOVERED][1].startswith(
        "Of 8 conversations in which a turn or step before the last fails"
    )
    assert texts_of(*given, metric(NONE, 0.7, 0.5, 0.8))[EXACT][0] == "info"
