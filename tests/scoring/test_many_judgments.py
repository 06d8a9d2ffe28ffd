"""Scoring in memory that does not grow with what judges wrote, and not with cases times resamples."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from evalkit.core.spool import LazySequence
from evalkit.scoring import score_run
from evalkit.scoring.stats import clusters
from evalkit.scoring.stats.bootstrap import Statistic, Table, resample, totals_of
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Case, Completion, Judgment, Response
from tests.support.counted_text import CountedText, most_texts


class Made(LazySequence[Judgment]):
    """Two judgments for each case, made when asked for."""

    def __init__(self, cases: int) -> None:
        self.cases = cases

    def __len__(self) -> int:
        return 2 * self.cases

    def _make(self, place: int) -> Judgment:
        case, order = divmod(place, 2)
        value = float((case * 7 + order) % 3 - 1)
        shown = ((0, 1), (1, 0))[order]
        return Judgment(
            f"c{case}",
            (0, 1),
            shown,
            0,
            "m",
            "ok",
            value,
            0.8,
            {"quality": value},
            completion=Completion(CountedText(place)),
        )


def test_no_completion_is_held(configure):
    cases = [Case(f"c{k}", "q", (Response("a"), Response("bb")), label="A") for k in range(500)]
    config = configure(scoring={"bootstrap": 20})
    with most_texts() as held:
        verdicts = score_run(config, cases, Made(500)).verdicts
    assert len(verdicts) == 500
    assert held[0] < 1000 / 4, f"{held[0]} of 1,000 answers at once"


def test_resamples_are_not_held_side_by_side(monkeypatch):
    cases, resamples = 3_000, 400
    monkeypatch.setattr(clusters, "CHUNK", 2**17)
    statistic = Statistic("x", np.ones((cases, 2)), lambda totals: totals[:, 0] / totals[:, 1], n=cases)
    held, peak, drawn = {}, 0, 0
    draw = Clusters.draw

    def noted(self, *settings):
        nonlocal peak, drawn
        for rows, weights in draw(self, *settings):
            held[id(weights)] = weights.nbytes
            weakref.finalize(weights, held.pop, id(weights))
            peak, drawn = max(peak, sum(held.values())), drawn + len(weights)
            yield rows, weights

    class Settings:
        bootstrap, seed = resamples, 0

    monkeypatch.setattr(Clusters, "draw", noted)
    resample([statistic], Settings(), Clusters.each(cases))
    assert drawn == resamples
    assert peak < 8 * cases * resamples / 4, f"{peak} bytes"


def test_whole_small_numbers_are_bytes_and_nothing_is_lost():
    columns = np.array([[0, 255, 256, 0.5, -1, np.nan], [3, 0, 0, 1, 0, 0]])
    table = Table.of(columns)
    assert [column.dtype.itemsize for column in table.columns] == [1, 1, 8, 8, 8, 8]
    assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(table.columns, columns.T, strict=True))
    assert Table.of(table) is table


@pytest.mark.parametrize("cases", [7, 300_000])
def test_totals_are_those_of_all_columns_at_once(cases):
    columns = np.random.default_rng(0).integers(0, 9, (cases, 9)).astype(float)
    weights = next(Clusters.each(cases).draw(3, 0))[1]
    assert totals_of(Table.of(columns).columns, weights) == pytest.approx(weights @ columns)
