"""Constructed drift: a reader who sees only the findings draws the right conclusion in each situation."""

from dataclasses import replace

import numpy as np
import pytest

from evalkit.core.annotations import INCLUSION, UNKNOWN
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Completion, Response
from evalkit.report.findings.drift import findings
from evalkit.report.watch_page import watch_findings
from evalkit.scoring.drift import Drift
from evalkit.scoring.looks import Baseline, Look, LookFacts
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
    chosen = set(
        np.random.default_rng(seed)
        .permutation(len(verdicts))[: round(share * len(verdicts))]
        .tolist()
    )
    return ["TIE" if k in chosen else one for k, one in enumerate(verdicts)]


def answered(run, every=1):
    cases = (replace(c, responses=(Response("new"), c.responses[1])) for c in run.cases[::every])
    new = {case.id: case for case in cases}
    return replace(run, cases=tuple(new.get(case.id, case) for case in run.cases))


def sampled(share: float, seed: int) -> list[tuple[str, ...]]:
    generator = np.random.default_rng(seed)
    return [
        tuple(one if generator.random() < share else "AB"[one == "A"] for _ in range(3))
        for one in LABELS
    ]


NEW, PROMPT = {"judge": {"model": "new"}}, {"criteria": [{"name": "quality", "description": "new"}]}
BARE, GRADES = [None] * 400, np.random.default_rng(1).integers(2, 5, 300).astype(float).tolist()
WORSE = right_in(LABELS, 0.6, 2)
NOISE, COIN = (np.random.default_rng(seed).permutation(LABELS).tolist() for seed in (5, 2))
HALF = tied(LABELS, 0.5, 9)
LOST = [None if k % 5 == 0 else one for k, one in enumerate(GOOD)]
MANY = [
    {"name": "quality", "description": "new", "levels": {str(k): f"level {k}" for k in range(1, 6)}}
]


def same(**sections) -> Drift:
    """Return the drift to a run with the same verdicts and other settings."""
    return measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS, **sections))


def only_ties() -> Drift:
    after = [
        "TIE" if one == "A" and label == "TIE" else one
        for one, label in zip(GOOD, HALF, strict=True)
    ]
    return measured(pairs(GOOD, HALF), pairs(after, HALF, **NEW))


def balanced_ties() -> Drift:
    ties = [k for k, label in enumerate(HALF) if label == "TIE"]
    wins = [k for k, label in enumerate(HALF) if label != "TIE" and GOOD[k] == label]
    swapped = {*ties[:60], *wins[:60]}
    after = ["TIE" if k in swapped else one for k, one in enumerate(GOOD)]
    return measured(pairs(GOOD, HALF), pairs(after, HALF), margin=0.1)


def other_data() -> Drift:
    run = pairs(GOOD, LABELS)
    cases = [
        replace(case, prompt="new") if k % 4 == 0 else case
        for k, case in enumerate(run.cases[:300])
    ]
    later = replace(
        run, cases=(*cases, Case("new", "x", run.cases[0].responses)), judgments=run.judgments[:300]
    )
    return measured(run, later)


def picked() -> Drift:
    def labeled(run):
        kept = (
            replace(case, metadata={INCLUSION: UNKNOWN}) if k < 200 else replace(case, label=None)
            for k, case in enumerate(run.cases)
        )
        return replace(run, cases=tuple(kept))

    return measured(labeled(pairs(GOOD, LABELS)), labeled(pairs(right_in(LABELS, 0.8, 3), LABELS)))


def renamed() -> Drift:
    before, after = (
        replace(
            run,
            judgments=tuple(
                replace(one, completion=Completion("A", model=model)) for one in run.judgments
            ),
        )
        for run, model in ((pairs(GOOD, LABELS), "m-1"), (pairs(GOOD, LABELS), "m-2"))
    )
    return measured(before, after)


def other_samples(share: float) -> Drift:
    first = 0.8 if share == 0.8 else 0.9
    return measured(
        pairs(sampled(first, 1), LABELS, **SAMPLES), pairs(sampled(share, 2), LABELS, **SAMPLES)
    )


SAME_PARTS = "Nothing changed in the judge's settings, the prompt, the data or the answers."
MODEL = "The judge changed: judge.model m → new."


@pytest.mark.parametrize(
    ("drift", "first", "others", "absent"),
    [
        (same, "Same: verdicts changed in 0% [0, 1] of 400 pairs, within the margin of 5 points", [SAME_PARTS],
         ["noise"]),
        (only_ties, "Better: right in 4", [MODEL, "of 400 pairs with the same answers, all of them to or from a tie."],
         []),
        (balanced_ties, "Different but not worse: right in 4",
         ["A loss of more than 10 points is excluded (drift.margin).", "Verdicts changed in 30%",
          "all of them to or from a tie"], []),
        (lambda: measured(pairs(GOOD, LABELS), pairs(WORSE, LABELS, **NEW)),
         "Worse: right in 85% before and 60% after on 400 labeled pairs, a difference of -25 [",
         ["The loss is more than the margin of 5 points (drift.margin).", MODEL], ["Nothing changed", "Several"]),
        (lambda: measured(pairs(GOOD[:3], LABELS[:3]), pairs(GOOD[:3], LABELS[:3])), "Not enough to say",
         ["Label more pairs; how many would decide cannot be told from these."], ["The judge after"]),
        (lambda: measured(pairs(GOOD, LABELS), answered(pairs(WORSE, LABELS, **NEW))), "Worse:",
         ["Several parts changed together (the judge, the answers), so this comparison does not",
          "400 of 400 shared cases, so a difference may come from the answers"], ["Verdicts changed"]),
        (lambda: measured(pairs(GOOD, LABELS), answered(pairs(GOOD, LABELS), every=4)),
         "Same: verdicts changed in 0% [0, 1] of 300 pairs",
         ["The system's answers changed in 100 of 400 shared cases; these cases were omitted."], []),
        (lambda: measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.97, 2), LABELS, **PROMPT),
                          manifest={"prompt_hashes": {"pairwise": "2"}}),
         "Better: right in 85% before and 97% after",
         ["The prompt, criteria or scale changed: criteria.quality.description, prompt.pairwise."], []),
        (lambda: same(**PROMPT, **NEW), "Same", ["Several parts changed together (the judge, the prompt)"], []),
        (other_data, "Same", ["of 225 pairs",
         "The prompts of 75 of 300 shared cases changed; these cases were omitted.",
         "Omitted, because only one run has them: 100 cases of the run before and 1 of the run after."], []),
        (lambda: measured(pairs(GOOD, LABELS), pairs(GOOD, GOOD)), "Same",
         ["The labels of 60 cases changed; the labels of the run after count for both."], []),
        (lambda: measured(pairs(GOOD, BARE), pairs(GOOD, BARE)), "Same: verdicts changed in 0%", [], []),
        (lambda: measured(scores(GRADES[:100], BARE[:100]), scores(GRADES[1:101], BARE[:100])), "Not enough to say",
         ["too few responses in the comparison have a label. Label some of them first."], []),
        (lambda: measured(pairs(GOOD, NOISE), pairs(right_in(LABELS, 0.8, 3), NOISE)),
         "Not enough to say: before, the judge was not shown to agree with the labels beyond chance (",
         ["Check the labels"], []),
        (picked, "Not enough to say: the labels were picked with unknown probabilities", [], []),
        (lambda: same(tie={"threshold": 0.2}), "Same",
         ["Settings of swaps, ties or scoring changed: tie.threshold 0.0 → 0.2."], []),
        (lambda: measured(pairs(GOOD, LABELS), pairs(LOST, LABELS)),
         "Not enough to say: 80 pairs have a verdict before and none after. Fix the missing answers first.", [], []),
        (lambda: other_samples(0.8), "", [SAME_PARTS, "the changes are not shown to be more than its own noise."],
         ["Worse", "Different"]),
        (lambda: other_samples(0.6), "Worse:", ["so the model behind the judge's name has probably changed.",
         "points more than its own noise."], []),
        (renamed, "Same", ["The judge changed: judge.reported_model m-1 → m-2."], []),
        (lambda: measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.85, 4), LABELS)), "",
         ["Changed verdicts are the judge's own noise, or the model behind its name has changed.",
          "How much of that is the judge's own noise is unknown: judge with mode.samples=2 to measure it."], []),
        *((lambda by=by: measured(scores(GRADES, GRADES), scores([one + by for one in GRADES], GRADES)),
           "Different but not worse: Spearman correlation with the labels of 300 responses 1.00 before",
           [f"Scores are {word} by 1.00 [0.9"], []) for by, word in ((-1.0, "lower"), (1.0, "higher"))),
        (lambda: measured(pairs(COIN, LABELS), pairs(COIN, LABELS)), "", ["The judge after: Do not trust this judge"],
         []),
        (lambda: measured(pairs(GOOD, LABELS), pairs(GOOD, LABELS), manifest={"imported": {"source": "x"}}), "Same",
         ["A run was imported, so it is not known whether the prompt changed."], []),
    ],
)  # fmt: skip
def test_the_findings_fit_what_changed(drift, first, others, absent):
    texts = read(drift())
    assert texts[0].startswith(first)
    for part in others:
        assert part in " ".join(texts)
    assert not [
        one for one in texts for start in absent if one.startswith(start) or f" {start}" in one
    ]


def test_too_few_labels_to_say():
    found = measured(pairs(GOOD, LABELS), pairs(right_in(LABELS, 0.84, 2), LABELS, **NEW))
    first = read(found)[0]
    assert first.startswith(
        "Not enough to say whether the judge is worse by more than 5 points (drift.margin): right"
    )
    assert f"Label about {found.labels_needed:,} more pairs: so many would probably decide" in first


def test_no_labels_and_other_verdicts():
    found = measured(pairs(GOOD, BARE), pairs(right_in(LABELS, 0.8, 3), BARE))
    first, *rest = read(found)
    assert first.startswith(
        "Not enough to say whether the verdicts got worse: too few pairs in the comparison have a"
    )
    assert f"Label about {found.labels_needed:,} pairs (the runs share 400)" in first
    assert not any(one.startswith("The judge after") for one in rest)


@pytest.mark.parametrize("margin", [0.02, 0.09])
@pytest.mark.parametrize("labeled", [0, 60, 400])
def test_more_labels_than_the_runs_have_cases_for_are_not_the_only_advice(margin, labeled):
    known = [one if k < labeled else None for k, one in enumerate(LABELS)]
    after = [("TIE" if k % 12 == 0 else one) for k, one in enumerate(GOOD)]
    found = measured(pairs(GOOD, known), pairs(after, known, **NEW), margin)
    needed = found.labels_needed
    said = "The runs share only 400 pairs, too few for so many labels" in " ".join(read(found))
    assert said == (needed is not None and needed + labeled > 400)


def test_many_settings_are_cut():
    rest = read(same(criteria=MANY))[1:]
    assert rest[0].count("criteria.quality.") == 4
    assert rest[0].endswith(", ….")


@pytest.mark.parametrize(("models", "said"), [
    (["m1", "m2"], "since look 2: m2 instead of m1."),
    (["m1", "m1", "m2"], "since look 3: m2 instead of m1. Its answers have not changed"),
    (["m1", "m1", "", "m2", "m1", "", "m3", "", "m4"], "since look 7: m4 instead of m1."),
    (["m1", "m1", "m2", "m1"], None),
    (["m1", "m1", "m2", ""], None),
])  # fmt: skip
def test_a_watch_says_since_when_another_model_is_reported(models, said):
    facts = LookFacts(None, None, None, None, None, 1.0)
    looks = [
        Look(f"k{n}", n, "", complete=True, models={"j": (name,) if name else ()}, facts=facts)
        for n, name in enumerate(models, 1)
    ]
    found = watch_findings(Baseline("j", "c", "f", {}, 9, looks=tuple(looks)))
    texts = [one.text for one in found if one.metric == "watch/models"]
    assert len(texts) == (said is not None)
    assert all(said in text for text in texts)
    if len(models) == 2:
        assert not any("not changed" in text for text in texts)
