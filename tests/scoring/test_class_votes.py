"""Class verdicts: how samples and judges vote, and what is missing, split or an abstention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evalkit.config import RunConfig
from evalkit.core.scale import Classes
from evalkit.errors import ConfigError
from evalkit.scoring import score_run, verdicts_of
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.judgments import ABSTAINED, MISSING, SPLIT, read_judgments
from evalkit.scoring.verdicts.classes import elect, labeled_responses, vote_samples
from evalkit.types import Case, Judgment, Metric, Response, Verdict, WeightedJudgment

RUBRIC = {"classes": {"pass": "", "fail": "", "other": ""}, "abstain": "unsure", "positive": "fail"}
CASE = Case("c", "q", (Response("a", class_name="pass"), Response("b")), labels={"ann": ("pass", None)})


def config(*judges: str, **more: Any) -> RunConfig:
    panel = {"judges": [{"model": name, "name": name} for name in judges], "name": "panel", **more}
    return RunConfig.model_validate(
        {
            "judge": panel if judges else {"model": "m"},
            "criteria": {"quality": ""},
            "mode": {"name": "pointwise"},
            "swap": {"policy": "none"},
            "rubric": RUBRIC,
            "scoring": {"bootstrap": 50},
        }
    )


def judged(said: str | None, sample: int = 0, judge: str = "m", unit: int = 0, **more: Any) -> Judgment:
    status = "unparseable" if said is None else "ok"
    return Judgment("c", (unit,), (unit,), sample, judge, status, class_name=said, **more)


def classes_of(made: RunConfig, judgments: Sequence[Judgment]) -> ClassColumns:
    classes = Classes.of(made.rubric)
    columns = read_judgments([CASE], judgments, ["quality"], classes)
    return vote_samples(labeled_responses(classes, [CASE]), [CASE], columns)


def verdict(judgments: Sequence[Judgment], made: RunConfig | None = None) -> Verdict:
    return verdicts_of(made or config(), [CASE], judgments)[0]


@pytest.mark.parametrize(
    ("samples", "name", "reason"),
    [
        (["pass"], "pass", "judged"),
        ([None], None, "missing"),
        (["unsure"], None, "abstained"),
        (["unsure", "unsure", "unsure"], None, "abstained"),
        (["unsure", None], None, "abstained"),
        (["pass", "pass", "fail"], "pass", "judged"),
        (["other", "fail", "other"], "other", "judged"),
        (["pass", "fail"], None, "split"),
        (["fail", "pass"], None, "split"),
        (["pass", "fail", "other"], None, "split"),
        (["pass", "unsure"], None, "split"),
        (["pass", "pass", "unsure"], "pass", "judged"),
        (["unsure", "unsure", "fail"], None, "abstained"),
        (["pass", None, None], "pass", "judged"),
        (["pass", "pass", "fail", "other"], "pass", "judged"),
        (["pass", "pass", "fail", "fail", "other"], None, "split"),
    ],
)
def test_samples_vote_and_a_tie_for_the_first_place_is_a_split(
    samples: list[str | None], name: str | None, reason: str
) -> None:
    found = verdict([judged(said, number) for number, said in enumerate(samples)])
    assert (found.class_name, found.reason, found.label) == (name, reason, "pass")
    assert (found.winner, found.score) == (None, None)
    again = verdict([judged(said, number) for number, said in enumerate(reversed(samples))])
    assert (again.class_name, again.reason) == (name, reason)


@pytest.mark.parametrize(
    ("votes", "name", "reason"),
    [
        ({"x": "pass", "y": "pass", "z": "fail"}, "pass", "judged"),
        ({"x": "unsure", "y": "unsure", "z": "unsure"}, None, "abstained"),
        ({"x": "pass", "y": "fail", "z": None}, None, "split"),
        ({"x": "pass", "y": None, "z": None}, None, "missing"),  # below the quorum of two
        ({"x": "pass", "y": "unsure", "z": None}, None, "split"),
    ],
)
def test_judges_of_a_panel_vote(votes: dict[str, str | None], name: str | None, reason: str) -> None:
    found = verdict([judged(said, judge=judge) for judge, said in votes.items()], config("x", "y", "z"))
    assert (found.class_name, found.reason, found.judge) == (name, reason, "panel")
    assert dict(found.votes) == votes


def test_weights_of_judges_count_as_votes() -> None:
    said = [judged("pass", judge="x"), judged("fail", judge="y"), judged("fail", judge="z")]
    weighted = config("x", "y", "z", vote="weighted", weights={"x": 3})
    assert verdict(said, weighted).class_name == "pass"
    even = config("x", "y", "z", vote="weighted", weights={"x": 2})
    assert verdict(said, even).reason == "split"


def test_a_judge_whose_samples_are_split_has_no_vote() -> None:
    said = [judged("pass", 0, "x"), judged("fail", 1, "x"), judged("fail", 0, "y"), judged("fail", 1, "y")]
    found = verdict(said, config("x", "y"))
    assert (found.class_name, dict(found.votes)) == ("fail", {"x": None, "y": "fail"})


def test_every_response_has_a_row_with_its_label_and_those_of_annotators() -> None:
    made = config()
    found = classes_of(made, [judged("fail"), judged("unsure", unit=1)])
    assert found.names == ("pass", "fail", "other")
    assert (found.positive, found.ordered, found.cases, found.abstain) == (1, False, 1, "unsure")
    assert (found.verdicts.tolist(), found.labels.tolist()) == ([1, ABSTAINED], [0, MISSING])
    assert found.annotators["ann"].tolist() == [0, MISSING]
    assert found.probabilities is None


def test_probabilities_are_those_of_the_classes_averaged_over_samples() -> None:
    def chances(**given: float) -> WeightedJudgment:
        return WeightedJudgment(classes={"pass": 0.0, "fail": 0.0, "other": 0.0, "unsure": 0.0, **given})

    said = [
        judged("pass", 0, weighted=chances(**{"pass": 0.4, "fail": 0.1, "unsure": 0.5})),
        judged("pass", 1, weighted=chances(**{"pass": 0.6, "fail": 0.4})),
        judged("unsure", unit=1, weighted=chances(unsure=1.0)),
    ]
    made = config()
    found = classes_of(made, said).probabilities
    assert found is not None
    np.testing.assert_allclose(found, [[0.7, 0.3, 0.0], [np.nan] * 3])
    assert verdict(said).confidence == pytest.approx(0.7)


def test_random_votes_agree_with_counting() -> None:
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 4, (500, 4)).astype(float)
    for row, winner in zip(counts, elect(counts), strict=True):
        first = [place for place, count in enumerate(row) if count == row.max() and count > 0]
        expected = MISSING if not first else SPLIT if len(first) > 1 else ABSTAINED if first[0] == 3 else first[0]
        assert winner == expected


def test_a_panel_of_split_judges_is_split_and_one_without_answers_is_missing() -> None:
    split = [judged(said, sample, judge) for judge in "xy" for sample, said in enumerate(("pass", "fail"))]
    assert verdict(split, config("x", "y")).reason == "split"
    unread = [judged(None, sample, judge) for judge in "xy" for sample in range(2)]
    assert verdict(unread, config("x", "y")).reason == "missing"


def repeated(answers: Sequence[Sequence[str | None]], **more: Any) -> dict[str, Metric]:
    """Return the metrics of cases that are all labeled 'pass' or, every other one, 'fail'."""
    made = config(**more)
    made = made.model_copy(update={"mode": made.mode.model_copy(update={"samples": len(answers[0])})})
    cases = [Case(f"c{n}", "", (Response("a", class_name=("pass", "fail")[n % 2]),)) for n in range(len(answers))]
    judgments = [
        replace(judged(said, sample), case_id=case.id)
        for case, row in zip(cases, answers, strict=True)
        for sample, said in enumerate(row)
    ]
    return dict(score_run(made, cases, judgments).metrics)


@pytest.mark.parametrize("samples", [2, 4])
def test_samples_that_contradict_each_other_are_not_missing(samples: int) -> None:
    """A coin for each sample: half of two samples are split; agreement beyond chance is 0, and nothing is missing."""
    coins = np.random.default_rng(samples).integers(0, 2, (200, samples))
    found = repeated([[("pass", "fail")[coin] for coin in row] for row in coins])
    split = float((2 * coins.sum(axis=1) == samples).mean())
    assert found["class/split"].value == split
    assert found["agreement/accuracy"].missing == found["class/split"].missing == 0
    assert found["agreement/accuracy"].n == 200 - round(200 * split)
    assert f"{200 - round(200 * split)} of 200 answers name a class" in str(found["agreement/accuracy"].note)
    assert found["samples/flip_rate"].value == pytest.approx(0.5, abs=0.05)
    alpha = found["samples/alpha"]
    assert alpha.low is not None
    assert alpha.high is not None
    assert alpha.low < 0 < alpha.high


def test_agreement_of_samples_is_corrected_for_chance() -> None:
    """A judge that says one class in 97% of its answers, at random, agrees with itself in 94% of them by chance."""
    rare = np.random.default_rng(1).random((2000, 2)) < 0.03
    found = repeated([[("pass", "fail")[int(one)] for one in row] for row in rare])
    assert found["samples/flip_rate"].value == pytest.approx(0.06, abs=0.01)
    assert found["samples/alpha"].value == pytest.approx(0.0, abs=0.06)


def test_missing_samples_are_missing_and_an_abstention_is_an_answer() -> None:
    found = repeated([["pass", "pass"], ["unsure", "fail"], ["pass", None], [None, None]])
    assert (found["samples/flip_rate"].value, found["samples/flip_rate"].n) == (0.5, 2)
    assert found["samples/alpha"].missing == found["samples/unanimous"].missing == 2
    assert (found["class/split"].n, found["class/split"].missing) == (3, 1)
    assert found["agreement/accuracy"].missing == 1


def test_samples_of_each_judge_of_a_panel_are_compared() -> None:
    made = config("x", "y")
    made = made.model_copy(update={"mode": made.mode.model_copy(update={"samples": 2})})
    said = [judged(answer, sample, judge) for judge in "xy" for sample, answer in enumerate(("pass", "fail"))]
    metrics = score_run(made, [CASE], said).metrics
    assert metrics["judge/x/samples/flip_rate"].value == metrics["class/split"].value == 1.0
    assert "samples/flip_rate" not in metrics


@pytest.mark.parametrize(
    ("judgment", "said"),
    [
        (judged("passed"), "it was judged 'passed', which is not among pass, fail, other, unsure"),
        (Judgment("c", (0,), (0,), 0, "m", "ok", criteria={"quality": 3.0}), "it was not judged by class"),
    ],
)
def test_a_judgment_of_another_rubric_is_refused(judgment: Judgment, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        score_run(config(), [CASE], [judgment])


def test_a_label_of_another_rubric_is_refused() -> None:
    case = Case("c", "q", (Response("a", class_name="passed"),))
    with pytest.raises(ConfigError, match="case 'c': the label 'passed' is not one of the classes pass, fail, other"):
        score_run(config(), [case], [])


def test_a_class_is_not_scored_on_a_scale() -> None:
    scale = config().model_copy(update={"rubric": RunConfig.model_fields["rubric"].default})
    with pytest.raises(ConfigError, match="it was judged by class, and the rubric is a scale"):
        score_run(scale, [CASE], [judged("pass")])
