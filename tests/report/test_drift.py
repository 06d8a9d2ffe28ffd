"""Constructed drift: a reader who sees only the findings draws the right conclusion in each situation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalkit.core.annotations import INCLUSION, UNKNOWN
from evalkit.core.translation import in_every_language
from evalkit.report.findings.drift import findings
from evalkit.scoring.drift import Drift
from evalkit.types import Case, Completion, Response
from tests.scoring.drift_runs import measured, pairs, right_in, scores, truth

LABELS = truth(400)
GOOD = right_in(LABELS, 0.85, 1)
SAMPLES = {"mode": {"name": "pairwise", "samples": 3}}


def read(drift: Drift) -> list[str]:
    """Return the findings in English; each has a translation."""
    texts = [in_every_language(text) for text in findings(drift)]
    assert all(english != chinese for english, chinese in texts)
    return [english for english, _ in texts]


def tied(verdicts: list[str], share: float, seed: int) -> list[str]:
    chosen = set(np.random.default_rng(seed).permutation(len(verdicts))[: round(share * len(verdicts))].tolist())
    return ["TIE" if k in chosen else one for k, one in enumerate(verdicts)]


def answered(run, every=1):
    cases = (replace(c, responses=(Response("new"), c.responses[1])) for c in run.cases[::every])
    new = {case.id: case for case in cases}
    return replace(run, cases=tuple(new.get(case.id, case) for case in run.cases))


def sampled(share: float, seed: int) -> list[tuple[str, ...]]:
    generator = np.random.default_rng(seed)
    return [tuple(one if generator.random() < share else "AB"[one == "A"] for _ in range(3)) for one in LABELS]


def test_no_difference():
    first, *rest = read(measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS)))
    assert first.startswith("Same: verdicts changed in 0% [0, 1] of 400 pairs, within the margin of 5 points")
    assert rest[0] == "Nothing changed in the judge's settings, the prompt, the data or the answers."
    assert not any("noise" in one for one in rest)


def test_a_judge_that_changed_only_its_ties():
    labels = tied(LABELS, 0.5, 9)
    after = ["TIE" if one == "A" and label == "TIE" else one for one, label in zip(GOOD, labels, strict=True)]
    first, *rest = read(measured(pairs(GOOD, labels), pairs(after, labels, judge={"model": "new"})))
    assert first.startswith("Better: right in 4")
    assert any(one.endswith("of 400 pairs with the same answers, all of them to or from a tie.") for one in rest)
    assert "The judge changed: judge.model m → new." in rest


def test_ties_that_neither_gain_nor_lose():
    labels = tied(LABELS, 0.5, 9)
    ties = [k for k, label in enumerate(labels) if label == "TIE"]
    wins = [k for k, label in enumerate(labels) if label != "TIE" and GOOD[k] == label]
    swapped = {*ties[:60], *wins[:60]}
    after = ["TIE" if k in swapped else one for k, one in enumerate(GOOD)]
    found = measured(pairs(GOOD, labels), pairs(after, labels), margin=0.1)
    first, *rest = read(found)
    assert first.startswith("Different but not worse: right in 4")
    assert "A loss of more than 10 points is excluded (drift.margin)." in first
    assert any("Verdicts changed in 30%" in one and "all of them to or from a tie" in one for one in rest)


def test_a_worse_judge():
    first, *rest = read(measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.6, 2), LABELS, judge={"model": "new"})))
    assert first.startswith("Worse: right in 85% before and 60% after on 400 labeled pairs, a difference of -25 [")
    assert first.endswith("The loss is more than the margin of 5 points (drift.margin).")
    assert rest[0] == "The judge changed: judge.model m → new."
    assert not any("Nothing changed" in one or "Several" in one for one in rest)


def test_too_few_labels_to_say():
    found = measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.84, 2), LABELS, judge={"model": "new"}))
    first = read(found)[0]
    assert first.startswith("Not enough to say whether the judge is worse by more than 5 points (drift.margin): right")
    assert f"Label about {found.labels_needed:,} more pairs: so many would probably decide" in first


@pytest.mark.parametrize("margin", [0.02, 0.05, 0.09])
@pytest.mark.parametrize("labeled", [0, 60, 400])
def test_more_labels_than_the_runs_have_cases_for_are_not_the_only_advice(margin, labeled):
    known = [one if k < labeled else None for k, one in enumerate(LABELS)]
    after = [("TIE" if k % 12 == 0 else one) for k, one in enumerate(GOOD)]
    found = measured(pairs(GOOD, known), pairs(after, known, judge={"model": "new"}), margin)
    needed = found.labels_needed
    said = "The runs share only 400 pairs, too few for so many labels" in " ".join(read(found))
    assert said == (needed is not None and needed + labeled > 400)


def test_three_cases():
    first, *rest = read(measured(pairs(GOOD[:3], LABELS[:3]), pairs(GOOD[:3], LABELS[:3])))
    assert first.startswith("Not enough to say")
    assert first.endswith("Label more pairs; how many would decide cannot be told from these.")
    assert not any(one.startswith("The judge after") for one in rest)


def test_answers_that_changed_with_the_judge():
    other = pairs(right_in(LABELS, 0.6, 2), LABELS, judge={"model": "new"})
    first, *rest = read(measured(pairs(GOOD, LABELS), answered(other)))
    assert first.startswith("Worse:")
    assert rest[0].startswith("Several parts changed together (the judge, the answers), so this comparison does not")
    assert any("400 of 400 shared cases, so a difference may come from the answers" in one for one in rest)
    assert not any(one.startswith("Verdicts changed") for one in rest)


def test_some_answers_that_changed():
    first, *rest = read(measured(pairs(GOOD, LABELS), answered(pairs(GOOD, LABELS), every=4)))
    assert first.startswith("Same: verdicts changed in 0% [0, 1] of 300 pairs")
    assert rest[0] == "The system's answers changed in 100 of 400 shared cases; these cases were omitted."


def test_a_prompt_that_changed():
    sections = {"criteria": [{"name": "quality", "description": "new"}]}
    manifest = {"prompt_hashes": {"pairwise": "2"}}
    first, *rest = read(
        measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.97, 2), LABELS, **sections), manifest=manifest)
    )
    assert first.startswith("Better: right in 85% before and 97% after")
    assert rest[0] == "The prompt, criteria or scale changed: criteria.quality.description, prompt.pairwise."


def test_a_prompt_that_changed_with_the_judge():
    sections = {"criteria": [{"name": "quality", "description": "new"}], "judge": {"model": "new"}}
    rest = read(measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS, **sections)))[1:]
    assert rest[0].startswith("Several parts changed together (the judge, the prompt)")


def test_data_that_changed():
    run = pairs(GOOD, LABELS)
    cases = [replace(case, prompt="new") if k % 4 == 0 else case for k, case in enumerate(run.cases[:300])]
    later = replace(run, cases=(*cases, Case("new", "x", run.cases[0].responses)), judgments=run.judgments[:300])
    first, *rest = read(measured(run, later))
    assert "of 225 pairs" in first
    assert rest[0] == "The prompts of 75 of 300 shared cases changed; these cases were omitted."
    assert rest[1] == "100 cases are only in the run before and 1 only in the run after; they were omitted."


def test_labels_that_changed():
    rest = read(measured(pairs(GOOD, LABELS), pairs(GOOD, GOOD)))[1:]
    assert rest[0] == "The labels of 60 cases changed; the labels of the run after count for both."


def test_no_labels_and_the_same_verdicts():
    bare = [None] * 400
    assert read(measured(pairs(GOOD, bare), pairs(GOOD, bare)))[0].startswith("Same: verdicts changed in 0%")


def test_no_labels_and_other_verdicts():
    bare = [None] * 400
    found = measured(pairs(GOOD, bare), pairs(right_in(LABELS, 0.8, 3), bare))
    first, *rest = read(found)
    assert first.startswith("Not enough to say whether the verdicts got worse: too few pairs in the comparison have a")
    assert f"Label about {found.labels_needed:,} pairs (the runs share 400)" in first
    assert not any(one.startswith("The judge after") for one in rest)


def test_no_labels_and_other_scores():
    grades = [float(k % 4 + 1) for k in range(100)]
    found = measured(scores(grades, [None] * 100), scores(grades[1:] + grades[:1], [None] * 100))
    assert read(found)[0].endswith("too few responses in the comparison have a label. Label some of them first.")


def test_labels_of_noise():
    noise = np.random.default_rng(5).permutation(LABELS).tolist()
    first = read(measured(pairs(GOOD, noise), pairs(right_in(LABELS, 0.8, 3), noise)))[0]
    assert first.startswith(
        "Not enough to say: before, the judge was not shown to agree with the labels beyond chance ("
    )
    assert "Check the labels" in first


def test_picked_labels():
    def picked(run):
        kept = (
            replace(case, metadata={INCLUSION: UNKNOWN}) if k < 200 else replace(case, label=None)
            for k, case in enumerate(run.cases)
        )
        return replace(run, cases=tuple(kept))

    first = read(measured(picked(pairs(GOOD, LABELS)), picked(pairs(right_in(LABELS, 0.8, 3), LABELS))))[0]
    assert first.startswith("Not enough to say: the labels were picked with unknown probabilities")


def test_a_settings_change():
    rest = read(measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS, tie={"threshold": 0.2})))[1:]
    assert rest[0] == "Settings of swaps, ties or scoring changed: tie.threshold 0.0 → 0.2."


def test_answers_that_are_missing():
    lost = [None if k % 5 == 0 else one for k, one in enumerate(GOOD)]
    first = read(measured(pairs(GOOD, LABELS), pairs(lost, LABELS)))[0]
    assert first == "Not enough to say: 80 pairs have a verdict before and none after. Fix the missing answers first."


def test_flips_that_are_the_judges_own_noise():
    first, *rest = read(measured(pairs(sampled(0.8, 1), LABELS, **SAMPLES), pairs(sampled(0.8, 2), LABELS, **SAMPLES)))
    assert not first.startswith(("Worse", "Different"))
    assert rest[0] == "Nothing changed in the judge's settings, the prompt, the data or the answers."
    assert any(one.endswith("the changes are not shown to be more than its own noise.") for one in rest)


def test_a_model_that_changed_behind_its_name():
    first, *rest = read(measured(pairs(sampled(0.9, 1), LABELS, **SAMPLES), pairs(sampled(0.6, 2), LABELS, **SAMPLES)))
    assert first.startswith("Worse:")
    assert rest[0].endswith("so the model behind the judge's name has probably changed.")
    assert any("points more than its own noise." in one for one in rest)


def test_a_model_that_the_provider_names_otherwise():
    def by(run, model):
        given = (replace(one, completion=Completion("A", model=model)) for one in run.judgments)
        return replace(run, judgments=tuple(given))

    rest = read(measured(by(pairs(GOOD, LABELS), "m-1"), by(pairs(GOOD, LABELS), "m-2")))[1:]
    assert rest[0] == "The judge changed: judge.reported_model m-1 → m-2."


def test_flips_without_a_change_or_samples():
    rest = read(measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.85, 4), LABELS)))[1:]
    assert "Changed verdicts are the judge's own noise, or the model behind its name has changed." in rest[1]
    assert "How much of that is the judge's own noise is unknown: judge with mode.samples=2 to measure it." in rest


@pytest.mark.parametrize(("by", "word"), [(-1.0, "lower"), (1.0, "higher")])
def test_scores_that_moved_and_rank_as_before(by, word):
    grades = np.random.default_rng(1).integers(2, 5, 300).astype(float).tolist()
    first, *rest = read(measured(scores(grades, grades), scores([one + by for one in grades], grades)))
    assert first.startswith(
        "Different but not worse: Spearman correlation with the labels of 300 responses 1.00 before"
    )
    assert any(one.startswith(f"Scores are {word} by 1.00 [0.9") for one in rest)


def test_a_useless_judge_that_stays_so():
    coin = np.random.default_rng(2).permutation(LABELS).tolist()
    rest = read(measured(pairs(coin, LABELS), pairs(coin, LABELS)))[1:]
    assert rest[-1].startswith("The judge after: Do not trust this judge")


def test_an_imported_run():
    rest = read(measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS), manifest={"imported": {"source": "x"}}))[1:]
    assert rest[0] == "A run was imported, so it is not known whether the prompt changed."


def test_many_settings_are_cut():
    criteria = [{"name": "quality", "description": "new", "levels": {str(k): f"level {k}" for k in range(1, 6)}}]
    rest = read(measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS, criteria=criteria)))[1:]
    assert rest[0].count("criteria.quality.") == 4
    assert rest[0].endswith(", ….")
