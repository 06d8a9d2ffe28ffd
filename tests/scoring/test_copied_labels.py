"""An annotator whose labels depend on the judge's verdicts, and annotators who are just good."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from evalkit import load_config
from evalkit.core.checklists import read_items
from evalkit.core.types import Case, Judgment, Response
from evalkit.report.findings.decisions import sentence
from evalkit.report.texts import in_every_language
from evalkit.scoring.decision import decide
from evalkit.scoring.metrics import copied_labels
from evalkit.scoring.metrics.copied_labels import BEYOND_OTHERS, FAR_MORE
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.bootstrap import measure

N = 400
CLASSES = {"fail": "bad", "pass": "good"}


def flipped(generator, values, error):
    return np.where(generator.random(len(values)) < error, 1 - values, values)


def labeled(errors, judge, copied=0.0):
    """Return verdicts, and labels by annotator, of errors of so much; the first copies."""
    generator = np.random.default_rng(3)
    truth = generator.integers(0, 2, N)
    verdicts = flipped(generator, truth, judge)
    labels = [flipped(generator, truth, error) for error in errors]
    copies = generator.random(N) < copied
    labels[0] = np.where(copies, verdicts, labels[0])
    return verdicts, np.array(labels)


def run_of(pointwise, verdicts, labels, *, alone, **dataset):
    """Score a run in which all annotators label each response, or one of them in turn."""
    names = [*CLASSES]
    cases = []
    judgments = []
    for number, verdict in enumerate(verdicts):
        given = {f"a{k}": (names[label],) for k, label in enumerate(labels[:, number])}
        label = names[int(labels[:, number].sum() * 2 > len(labels))]
        metadata = {}
        if alone:
            rater = f"a{number % len(labels)}"
            (label,) = given[rater]
            metadata = {"annotator_name": rater}
        responses = (Response(f"answer {number}", class_name=label),)
        case = Case(str(number), f"question {number}", responses, metadata=metadata)
        cases.append(case if alone else replace(case, labels=given))
        judgments.append(Judgment(str(number), (0,), (0,), 0, "m", "ok", class_name=names[verdict]))
    config = pointwise(rubric={"classes": CLASSES}, dataset=dataset)
    return score_run(config, cases, judgments).metrics


@pytest.mark.parametrize(("alone", "errors", "judge", "copied", "source", "named"), [
    (False, (0.05, 0.05, 0.05), 0.2, 1.0, None, "a0"),
    (False, (0.05, 0.05, 0.05), 0.2, 0.8, None, "a0"),
    (False, (0.05, 0.05, 0.05), 0.2, 1.0, "annotators", None),
    (False, (0.05, 0.05, 0.05), 0.05, 0.0, None, None),
    # an accurate judge and an accurate annotator
    (False, (0.0, 0.2, 0.2), 0.02, 0.0, None, None),
    (True, (0.0, 0.0, 0.0), 0.25, 1.0, None, "a0"),
    (True, (0.0, 0.0, 0.0), 0.25, 1.0, "annotators", None),
    (True, (0.02, 0.1, 0.1), 0.03, 0.0, None, None),
])  # fmt: skip
def test_an_annotator_who_copies_the_judge_is_named(
    pointwise, alone, errors, judge, copied, source, named
):
    dataset = {"label_source": source} if source else {}
    metrics = run_of(pointwise, *labeled(errors, judge, copied), alone=alone, **dataset)
    found = metrics.get("labels/copied")
    assert (found and found.note) == named
    decision = decide(metrics, 0.95)
    assert (decision.reason == "copied_labels") == (named is not None)
    if named:
        assert decision.use == "unknown"
        english, chinese = in_every_language(sentence(decision, metrics))
        assert english.startswith("Check the labels of a0 before you decide")
        assert chinese.startswith("请先核查 a0 的标注再做决定")


def correlation(pairs):
    """Agreement beyond chance of pairs of classes, pair by pair: phi, as there are two classes."""
    x, y = np.array(pairs).T
    return np.corrcoef(x, y)[0, 1]


@pytest.mark.parametrize("alone", [False, True])
def test_the_excess_equals_the_obvious_version(pointwise, monkeypatch, alone):
    verdicts, labels = labeled((0.1, 0.15, 0.2, 0.05), 0.1, 1.0)
    seen = []

    def measured(statistics, scoring, clusters):
        seen.append((statistics[0], scoring.confidence))
        return measure(statistics, scoring, clusters)

    monkeypatch.setattr(copied_labels, "measure", measured)
    run_of(pointwise, verdicts, labels, alone=alone)
    statistic, confidence = seen[0]
    mine, *others = labels
    if alone:
        turns = np.arange(N) % 4
        rest = labels[turns, np.arange(N)]
        with_rest = correlation(
            [(v, r) for v, r, t in zip(verdicts, rest, turns, strict=True) if t]
        )
        expected = 1 - with_rest - FAR_MORE
        assert confidence == 0.95
    else:
        with_others = correlation(
            [(v, x) for o in others for v, x in zip(verdicts, o, strict=True)]
        )
        of_annotator = correlation([(m, x) for o in others for m, x in zip(mine, o, strict=True)])
        among = correlation(
            [pair for a, b in permutations(others, 2) for pair in zip(a, b, strict=True)]
        )
        expected = (1 - BEYOND_OTHERS) * among - with_others * of_annotator
        assert confidence == pytest.approx(1 - 0.05 / 4)
    assert statistic.observed() == pytest.approx(expected)


def graded_run(pointwise, scores, grades, rater):
    """Score a run of one score a case, each graded by the annotator that a column names."""
    numbers = range(len(scores))
    responses = [Response("answer", grade=grade) for grade in grades]
    cases = [
        Case(str(k), "question", (responses[k],), metadata={"reviewer_id": rater[k]})
        for k in numbers
    ]
    judgments = [
        Judgment(str(k), (0,), (0,), 0, "m", "ok", criteria={"quality": float(scores[k])})
        for k in numbers
    ]
    return score_run(pointwise(), cases, judgments).metrics


@pytest.mark.parametrize(("copies", "named"), [(True, "7"), (False, None)])
def test_an_annotator_who_copies_scores_is_named(pointwise, copies, named):
    generator = np.random.default_rng(5)
    scores = generator.integers(1, 6, N)
    grades = generator.permutation(scores).astype(float)
    rater = [(7, 8)[number % 2] for number in range(N)]
    if copies:
        grades = np.where(np.array(rater) == 7, scores, grades)
    found = graded_run(pointwise, scores, grades, rater).get("labels/copied")
    assert (found and found.note) == named


def test_one_whose_labels_never_equal_the_verdict_copies_nothing(pointwise):
    metrics = run_of(pointwise, *labeled((1.0, 0.1, 0.1), 0.0), alone=True)
    assert "labels/copied" not in metrics


def test_one_with_few_labels_is_not_asked_about(pointwise):
    verdicts, labels = labeled((0.1, 0.1, 0.1), 0.2, 1.0)
    metrics = run_of(pointwise, verdicts[:15], labels[:, :15], alone=False)
    assert "labels/copied" not in metrics
    rater = ["b"] * 390 + ["a"] * 10
    scores = [1.0, 2.0, 3.0, 4.0] * 100
    assert "labels/copied" not in graded_run(pointwise, scores, scores, rater)
    assert "labels/copied" not in graded_run(pointwise, scores, [None] * N, rater)


def test_labels_of_items_are_no_labels_of_the_score_of_a_checklist():
    config = load_config(overrides=["mode=checklist", "judge=gpt-4o", "scoring.bootstrap=200"])
    items = read_items([{"id": "light", "criterion": "Names light"}], responses=1)
    given = dict.fromkeys("abc", ("4",))
    cases = [
        Case(str(k), "question", (Response("text"),), checklist=items, labels=given)
        for k in range(30)
    ]
    judgments = [
        Judgment(str(k), (0,), (0,), 0, "m", "ok", items={"light": "met"}) for k in range(30)
    ]
    assert "labels/copied" not in score_run(config, cases, judgments).metrics
