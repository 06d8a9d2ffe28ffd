"""What scoring holds in less memory gives the same numbers."""

import numpy as np
import pytest

from evalkit.core.images import OMITTED, lacking_images, lacks_images
from evalkit.core.types import Case, Completion, Judgment, Response
from evalkit.scoring.judgments import read_judgments
from evalkit.scoring.search import family, missing
from evalkit.scoring.stats import clusters
from evalkit.scoring.stats.statistic import Table


@pytest.mark.parametrize("block", [7, 10_000])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_rows_counted_by_level_sum_to_their_values(monkeypatch, levels, block):
    monkeypatch.setattr(family, "_BLOCK", block)
    generator = np.random.default_rng(levels)
    members = generator.random((5, 60)) < 0.4
    indices = generator.integers(0, levels, size=(8, 60)).astype(np.uint8)
    values = generator.normal(size=levels)
    slow = [[values[row[inside]].sum() for row in indices] for inside in members]
    assert family._sums_of_levels(members, indices, values) == pytest.approx(np.array(slow))
    assert family._sums(members, values[indices].T) == pytest.approx(np.array(slow))


def test_a_label_with_many_residuals_is_permuted_by_their_values():
    generator = np.random.default_rng(1)
    scores = generator.integers(0, 9, size=80) / 8
    outcomes = family.Outcomes(
        case=np.arange(80),
        stratum=np.zeros(80, dtype=np.int64),
        side=np.arange(80) % 2,
        units=np.ones(80),
        wrong=scores,
        answer=scores,
        counted=False,
    )
    members = generator.random((80, 3)) < 0.5
    tested = family._hypotheses(outcomes, members.T, np.ones(3, dtype=bool))
    blocks, variance = family._permuted(outcomes, tested, 400, np.random.default_rng(2))
    totals = np.concatenate(blocks, axis=1)
    assert totals.shape == (3, 400)
    assert totals.var(axis=1) == pytest.approx(variance, rel=0.3)


@pytest.mark.parametrize("block", [1, 50, 10_000])
def test_units_of_slices_are_the_same_in_blocks(monkeypatch, block):
    monkeypatch.setattr(missing, "_BLOCK", block)
    generator = np.random.default_rng(3)
    members = generator.random((101, 4)) < 0.3
    units = generator.integers(0, 3, size=101).astype(np.float64)
    assert missing._units_in(members, units).tolist() == (units @ members).tolist()


def test_equal_columns_of_tables_are_one_array():
    first = Table.of([np.array([0.0, 1.0, 2.0]), np.array([0.5, 1.0, np.nan])])
    second = Table.of([np.array([0.5, 1.0, np.nan]), np.array([0.0, 1.0, 2.0])])
    assert first.columns[0] is second.columns[1]
    assert first.columns[1] is second.columns[0]
    # The same bytes as another type are another column.
    number = np.array([2.5])
    its_bytes = np.frombuffer(number.tobytes(), dtype=np.uint8)
    held = Table.of([number])
    assert held.columns[0].tolist() == [2.5]
    assert Table.of([its_bytes.astype(np.float64)]).columns[0].tolist() == its_bytes.tolist()


def test_what_no_judgment_has_takes_the_memory_of_one_number():
    cases = [Case(f"c{number}", "", (Response("a"), Response("b"))) for number in range(6)]
    judgments = [
        Judgment(case.id, (0, 1), (0, 1), 0, judge, "ok", value=1.0)
        for case in cases
        for judge in ("m", "n")
    ]
    columns = read_judgments(cases, judgments, ())
    assert columns.cost.strides == (0,)
    chosen = columns.where(columns.case > 2)
    assert len(chosen) == 6
    assert np.isnan(chosen.cost).all()
    assert chosen.cost.strides == (0,)
    assert chosen.value.tolist() == [1.0] * 6
    priced = [Judgment(*_fields(judgments[0]), completion=Completion("", cost_usd=0.5))]
    columns = read_judgments(cases, [*priced, *judgments[1:]], ())
    assert np.nansum(columns.cost) == 0.5
    assert columns.where(columns.case == 0).cost[0] == 0.5


def _fields(judgment):
    return (judgment.case_id, (0, 1), (0, 1), 0, judgment.judge, "ok")


def test_the_folds_of_needed_cases_are_those_of_all():
    cases = [Case(f"c{number}", "", ()) for number in range(50)]
    needed = np.arange(50) % 3 == 0
    alone = clusters.Clusters(50, 50, None)
    every = alone.folds(cases)
    assert alone.folds(cases, needed).tolist() == np.where(needed, every, 0).tolist()
    numbers = np.arange(50) // 2
    pairs = clusters.Clusters(50, 25, numbers)
    assert pairs.folds(cases, needed).tolist() == pairs.folds(cases).tolist()


def test_cases_without_their_pictures_are_found_in_any_text():
    texts = ["", "a", f"see {OMITTED}", OMITTED[:-1], OMITTED[1:]]
    cases = [
        Case(f"{prompt}{context}{answer}", prompt, (Response("b"), Response(answer)), context)
        for prompt in texts
        for context in (None, *texts)
        for answer in texts
    ]
    cases *= 7
    assert lacking_images(cases) == [*filter(lacks_images, cases)]
    assert lacking_images([]) == []
