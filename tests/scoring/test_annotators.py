"""Several the annotators' labels: their agreement, their ceiling, and the alternative annotator test."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.coefficients import Confusion, alpha_of_numbers
from evalkit.scoring.stats.statistic import Tally

# The example of Krippendorff 2011, section C: four observers, twelve units, some values missing.
EXAMPLE = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def nominal_alpha(counts, tally):
    (alpha,) = Confusion.among(counts, tally).coefficients("x", "annotators", n=1)
    return alpha.observed()


def test_alpha_of_the_published_example():
    tally = Tally(np.arange(12), 12)
    counts = np.array(
        [[sum(row[u] == value for row in EXAMPLE) for value in range(1, 6)] for u in range(12)],
        dtype=float,
    )
    assert nominal_alpha(counts, tally) == pytest.approx(0.743, abs=5e-4)
    given_ = [(u, row[u]) for row in EXAMPLE for u in range(12) if row[u] is not None]
    unit, value = (np.array(column) for column in zip(*given_, strict=True))
    interval = alpha_of_numbers("x", value.astype(float), unit, tally, n=1)
    assert interval.observed() == pytest.approx(0.849, abs=5e-4)


UNITS = st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=6)


@given(UNITS)
def test_alpha_equals_the_obvious_version(units):
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    tally = Tally(np.arange(len(units)), len(units))
    counts = np.array([[unit.count(c) for c in range(3)] for unit in units], dtype=float).reshape(
        -1, 3
    )
    unit = np.repeat(np.arange(len(units)), [len(u) for u in units])
    found = {
        "nominal": nominal_alpha(counts, tally),
        "interval": alpha_of_numbers(
            "x", np.array(values, dtype=float), unit, tally, n=1
        ).observed(),
    }
    for name, distance in (
        ("nominal", lambda a, b: float(a != b)),
        ("interval", lambda a, b: float((a - b) ** 2)),
    ):
        n = len(values)
        seen = sum(distance(a, b) / (len(unit) - 1) for unit in units for a in unit for b in unit)
        expected = sum(distance(a, b) for a in values for b in values) / (n - 1) if n else 0
        if expected:
            assert found[name] == pytest.approx(1 - seen / expected, abs=1e-9)
        else:
            assert np.isnan(found[name])


def pairs(make_case, judged, people, verdicts):
    """Return cases with people's choices (a mapping each) and single-order judgments."""
    cases = [replace(make_case(str(k)), labels=labels) for k, labels in enumerate(people)]
    value = {"A": 1.0, "TIE": 0.0, "B": -1.0, None: None}
    return cases, [judged(str(k), (0, 1), value[verdict]) for k, verdict in enumerate(verdicts)]


def run(configure, cases, judgments, **scoring):
    return score_run(configure(swap={"policy": "none"}, scoring=scoring), cases, judgments)


CHOICE = st.sampled_from(["A", "TIE", "B"])
NAMES = ["ann", "bo", "cy", "di"]
ROWS = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(NAMES), CHOICE), CHOICE | st.none()),
    min_size=1,
    max_size=6,
)


@given(ROWS)
def test_the_ceiling_and_the_judge_are_held_against_the_same_others(
    configure, make_case, judged, rows
):
    people, verdicts = zip(*rows, strict=True)
    metrics = run(configure, *pairs(make_case, judged, people, verdicts), bootstrap=0).metrics
    own, judge, lost = [], [], 0
    for labels, verdict in rows:
        for name, label in labels.items():
            most = Counter(other for person, other in labels.items() if person != name).most_common(
                2
            )
            if not most or (len(most) == 2 and most[0][1] == most[1][1]):
                continue
            own.append((label == most[0][0], verdict is not None))
            if verdict is None:
                lost += 1
            else:
                judge.append(verdict == most[0][0])
    if not any(people):
        assert not [name for name in metrics if name.startswith("human/")]
        return
    ceiling, found, gap = (metrics[f"human/{name}"] for name in ("ceiling", "judge", "gap"))
    assert (ceiling.n, found.n, found.missing) == (len(own), len(judge), lost)
    assert ceiling.value == (pytest.approx(np.mean([hit for hit, _ in own])) if own else None)
    assert found.value == (pytest.approx(np.mean(judge)) if judge else None)
    if judge:
        compared = np.mean([hit for hit, read in own if read])
        assert gap.value == pytest.approx(np.mean(judge) - compared, abs=1e-9)


def simulated(make_case, judged, skill, n=120, people=5, seed=2):
    """Return people right at 0.8 and a judge right at `skill`, on binary items."""
    generator = np.random.default_rng(seed)
    truth = generator.random(n) < 0.5

    def said(accuracy):
        return [
            "A" if t == hit else "B"
            for t, hit in zip(truth, generator.random(n) < accuracy, strict=True)
        ]

    columns = {f"p{k}": said(0.8) for k in range(people)}
    labels = [{name: column[k] for name, column in columns.items()} for k in range(n)]
    return *pairs(make_case, judged, labels, said(skill)), labels


def reference(labels, verdicts, epsilon):
    """The test as the paper writes it: annotator by annotator, item by item."""
    p, advantages = [], []
    for person in sorted({name for label in labels for name in label}):
        wins, losses = [], []
        for label, verdict in zip(labels, verdicts, strict=True):
            others = [value for name, value in label.items() if name != person]
            if person in label and others and verdict is not None:
                judge, own = (
                    np.mean([o == verdict for o in others]),
                    np.mean([o == label[person] for o in others]),
                )
                wins.append(float(judge >= own))
                losses.append(float(own >= judge))
        p.append(stats.ttest_1samp(np.array(losses) - wins, epsilon, alternative="less").pvalue)
        advantages.append(np.mean(wins))
    return multipletests(p, alpha=0.05, method="fdr_by")[0].mean(), np.mean(advantages), p


@pytest.mark.parametrize(("skill", "epsilon"), [(0.95, 0.2), (0.8, 0.2), (0.72, 0.1), (0.5, 0.2)])
def test_the_alternative_annotator_test_equals_the_paper_item_by_item(
    configure, make_case, judged, skill, epsilon
):
    cases, judgments, labels = simulated(make_case, judged, skill)
    verdicts = ["A" if j.value == 1 else "B" for j in judgments]
    rate, advantage, p = reference(labels, verdicts, epsilon)
    scores = run(configure, cases, judgments, alt_test_epsilon=epsilon)
    assert scores.metrics["human/alt_test"].value == pytest.approx(rate)
    assert scores.metrics["human/advantage"].value == pytest.approx(advantage)
    assert [row["p"] for row in scores.details["annotators"]] == pytest.approx(p, abs=1e-9)


def test_too_few_people_or_cases(configure, make_case, judged):
    cases, judgments, _ = simulated(make_case, judged, 0.9, n=29)
    scores = run(configure, cases, judgments)
    for name in ("human/alt_test", "human/advantage"):
        assert scores.metrics[name].value is None
        assert "fewer than 3 annotators labeled 30 judged cases" in scores.metrics[name].note
    assert {(row["p"], row["note"]) for row in scores.details["annotators"]} == {
        (None, "fewer than 30 cases: not tested")
    }
    alone = [replace(case, labels={"p0": case.labels["p0"]}) for case in cases]
    lonely = run(configure, alone, judgments)
    assert lonely.metrics["human/alpha"].note == "no item was labeled by two annotators"
    assert lonely.details["annotators"][0]["advantage"] is None


def test_a_judge_just_like_every_person_has_no_spread(configure, make_case, judged):
    labels = [dict.fromkeys("xyz", "A") for _ in range(40)]
    metrics = run(configure, *pairs(make_case, judged, labels, ["A"] * 40)).metrics
    assert metrics["human/alt_test"].value == 1
    assert metrics["human/alpha"].note == "all labels are equal"
    opposite = run(configure, *pairs(make_case, judged, labels, ["B"] * 40)).metrics
    assert opposite["human/alt_test"].value == 0


def graded(people, scores):
    """Return cases of single responses with people's grades, and pointwise judgments."""
    cases = [
        Case(str(k), "q", (Response("r"),), labels={name: (grade,) for name, grade in row.items()})
        for k, row in enumerate(people)
    ]
    return cases, [
        Judgment(str(k), (0,), (0,), 0, "m", "ok" if s is not None else "failed", s)
        for k, s in enumerate(scores)
    ]


def test_grades_by_correlation_and_distance(pointwise):
    generator = np.random.default_rng(4)
    truth = generator.normal(3, 1, 80)
    people = [{f"p{k}": float(t + generator.normal(0, 0.5)) for k in range(4)} for t in truth]
    scores = [float(t + generator.normal(0, 0.3)) for t in truth]
    scored = score_run(pointwise(), *graded(people, scores))
    own, rest, judge, p = [], [], [], []
    for name in sorted(people[0]):
        wins, losses = [], []
        for row, score in zip(people, scores, strict=True):
            others = [grade for person, grade in row.items() if person != name]
            own.append(row[name])
            rest.append(np.mean(others))
            judge.append(score)
            near, far = (-np.sqrt(np.mean((np.array(others) - x) ** 2)) for x in (score, row[name]))
            wins.append(float(near >= far))
            losses.append(float(far >= near))
        p.append(stats.ttest_1samp(np.array(losses) - wins, 0.2, alternative="less").pvalue)
    metrics = scored.metrics
    assert metrics["human/ceiling"].value == pytest.approx(stats.pearsonr(own, rest).statistic)
    assert metrics["human/judge"].value == pytest.approx(stats.pearsonr(judge, rest).statistic)
    assert metrics["human/gap"].low > 0
    assert [row["p"] for row in scored.details["annotators"]] == pytest.approx(p, abs=1e-9)
    assert "Pearson" in metrics["human/ceiling"].note


def test_responses_that_an_annotator_did_not_grade_are_omitted(pointwise, make_case, judged):
    generator = np.random.default_rng(5)
    cases, judgments = [], []
    for k, (first, second) in enumerate(generator.normal(3, 1, (40, 2))):
        labels = {
            "ann": (first, None),
            "bo": (first + generator.normal(0, 0.5), second),
            "cy": (None, second - 0.1),
        }
        cases.append(replace(make_case(str(k)), labels=labels))
        judgments += [judged(str(k), (0,), first), judged(str(k), (1,), second)]
    ceiling = score_run(pointwise(), cases, judgments).metrics["human/ceiling"]
    rows = [list(case.labels.values()) for case in cases]
    own = [grade for ann, bo, cy in rows for grade in (ann[0], bo[0], bo[1], cy[1])]
    rest = [grade for ann, bo, cy in rows for grade in (bo[0], ann[0], cy[1], bo[1])]
    assert ceiling.n == 160
    assert ceiling.value == pytest.approx(stats.pearsonr(own, rest).statistic)


def test_grades_become_choices_where_pairs_are_judged(configure, make_case, judged):
    case = replace(
        make_case("c", "abc"), labels={"ann": (3.0, 1.0, None), "bo": (2.0, 1.0, 1.0), "cy": "A"}
    )
    judgments = [judged("c", unit, 1.0) for unit in ((0, 1), (0, 2), (1, 2))]
    metrics = run(configure, [case], judgments).metrics
    # (0, 1): A from three people; (0, 2) and (1, 2) from one each.
    assert (metrics["human/ceiling"].value, metrics["human/ceiling"].n) == (1, 3)
    assert metrics["human/judge"].value == 1


def test_choices_meet_the_comparisons_that_scores_imply(pointwise, make_case, judged):
    cases = [replace(make_case(str(k)), labels={"ann": "A", "bo": "A"}) for k in range(3)]
    judgments = [
        judged(str(k), (r,), value)
        for k in range(3)
        for r, value in enumerate((4.0, 2.0 if k else 5.0))
    ]
    metrics = score_run(pointwise(), cases, judgments).metrics
    assert metrics["human/judge"].value == pytest.approx(2 / 3)


@pytest.mark.slow
@pytest.mark.shared
def test_graders_of_icescore(shared, pointwise):
    rows = json.loads(
        (shared / "data" / "icescore" / "conala_no_step_no_ref_gpt35.json").read_text()
    )
    cases, judgments = [], []
    systems = sorted(key.removeprefix("grade-") for key in rows[0] if key.startswith("grade-"))
    for number, row in enumerate(rows):
        grades = [row[f"grade-{system}"] for system in systems]
        names = sorted({name for grade in grades for name in grade})
        labels = {
            name: tuple(None if name not in g else float(g[name]) for g in grades) for name in names
        }
        cases.append(
            Case(str(number), "q", tuple(Response("", system) for system in systems), labels=labels)
        )
        for place, system in enumerate(systems):
            said = str(row[f"gpt3.5-{system}"]).strip()
            value = float(said) if said.isdigit() and 0 <= int(said) <= 4 else None
            status = "ok" if value is not None else "unparseable"
            judgments.append(Judgment(str(number), (place,), (place,), 0, "gpt-3.5", status, value))
    scored = score_run(pointwise(rubric={"min": 0, "max": 4}), cases, judgments)
    metrics, values = (
        scored.metrics,
        [grade for row in rows for s in systems for grade in [list(row[f"grade-{s}"].values())]],
    )
    pool = [g for grades in values if len(grades) > 1 for g in grades]
    seen = sum(
        (a - b) ** 2 / (len(g) - 1) for g in values if len(g) > 1 for a in g for b in g
    ) / len(pool)
    expected = 2 * np.var(pool, ddof=1)
    assert metrics["human/alpha"].value == pytest.approx(1 - seen / expected, abs=1e-9)
    assert metrics["human/alpha"].low < metrics["human/alpha"].value < metrics["human/alpha"].high
    assert metrics["human/judge"].high < metrics["human/ceiling"].low
    assert metrics["human/alt_test"].n >= 10
