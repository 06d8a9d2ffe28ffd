"""Class verdicts: how samples and judges vote, and what is missing, split or an abstention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns.classes import ABSTAINED, MISSING
from evalkit.scoring.columns.judgments import read_judgments
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.verdicts.classes import class_verdicts, elect
from evalkit.types import Case, Judgment, Response, Verdict, WeightedJudgment

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


def verdict(judgments: Sequence[Judgment], made: RunConfig | None = None) -> Verdict:
    return score_run(made or config(), [CASE], judgments).verdicts[0]


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
    columns = read_judgments([CASE], [judged("fail"), judged("unsure", unit=1)], ["quality"], made.rubric.named_classes)
    found = class_verdicts(made, [CASE], columns, ["m"], ["m"])[0].columns
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
    columns = read_judgments([CASE], said, ["quality"], made.rubric.named_classes)
    found = class_verdicts(made, [CASE], columns, ["m"], ["m"])[0].columns.probabilities
    assert found is not None
    np.testing.assert_allclose(found, [[0.7, 0.3, 0.0], [np.nan] * 3])
    assert verdict(said).confidence == pytest.approx(0.7)


def test_random_votes_agree_with_counting() -> None:
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 4, (500, 4)).astype(float)
    winners, split = elect(counts)
    for row, winner, tied in zip(counts, winners, split, strict=True):
        first = [place for place, count in enumerate(row) if count == row.max() and count > 0]
        expected = MISSING if len(first) != 1 else ABSTAINED if first[0] == 3 else first[0]
        assert (winner, tied) == (expected, len(first) > 1)


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
