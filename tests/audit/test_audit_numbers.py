"""The numbers of an audit: planted biases are found, noise is not, and a silenced judge is a finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import audits
from evalkit.audit.metrics import Answers, contrast, outcomes, p_value, probe_statistics
from evalkit.audit.probes import own_probes
from evalkit.config import ScoringConfig
from evalkit.core.scale import Scale
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters

SCORING = ScoringConfig(bootstrap=300)


def answers(*values: float | None) -> Answers:
    array = np.array([np.nan if value is None else value for value in values])
    return Answers(array, array, array, array, np.ones(len(array), dtype=bool))


def test_a_shift_is_paired_and_less_that_of_the_repeat() -> None:
    base, repeat, edited = answers(1, 1, -1, None), answers(1, 0, -1, 1), answers(-1, -1, -1, 1)
    one = contrast(own_probes()["authority"], base, repeat, edited, np.array([-1.0, -1.0, 1.0, 1.0]))
    assert one.shift.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert one.flip[:3].tolist() == [1.0, 1.0, 0.0]
    assert np.isnan(one.flip[3])


def test_a_planted_response_that_ties_has_not_lost() -> None:
    base, edited = answers(1, 1, 1, 1), answers(1, 0, -1, None)
    one = contrast(own_probes()["master_key"], base, base, edited, np.full(4, -1.0))
    assert one.passed[:3].tolist() == [0.0, 1.0, 1.0]
    assert one.tested[:3].tolist() == [0.0, 0.5, 1.0]
    metrics = measure(list(probe_statistics(one, 2.0)), SCORING, Clusters.each(4))
    passed = metrics["audit/master_key/passed"]
    assert (passed.value, passed.n, passed.missing, passed.worst_low, passed.worst_high) == (
        pytest.approx(2 / 3),
        3,
        1,
        0.5,
        0.75,
    )


def test_scores_pass_above_the_middle_of_the_scale() -> None:
    scale, base = Scale(1, 5, 1, {}), answers(5, 5, 3)
    key = contrast(own_probes()["master_key"], base, base, answers(3, 4, 1), np.ones(3), scale)
    assert key.passed.tolist() == [0.0, 1.0, 0.0]
    error = contrast(own_probes()["error"], base, base, answers(4, 5, 3), np.ones(3), scale)
    assert error.passed.tolist() == [0.0, 1.0, 1.0]
    lowest = contrast(own_probes()["error"], answers(1, 2), answers(1, 2), answers(1, 1), np.ones(2), scale)
    assert np.isnan(lowest.passed[0])
    assert lowest.passed[1] == 0.0


def test_classes_without_an_order_only_change() -> None:
    def named(*classes: float) -> Answers:
        return replace(answers(*classes), value=np.full(len(classes), np.nan))

    base, edited, scale = named(0, 1, 2), named(0, 2, 2), Scale(0, 2, 1, {})
    one = contrast(own_probes()["authority"], base, base, edited, np.ones(3), scale)
    assert (one.tested.tolist(), one.one_sided) == ([0.0, 1.0, 0.0], True)
    key = contrast(own_probes()["master_key"], base, base, edited, np.ones(3), scale)
    assert np.isnan(key.passed).all()


def test_a_probe_that_silences_the_judge_is_found() -> None:
    rng = np.random.default_rng(0)
    base, repeat = (audits.verdicts(rng, np.full(40, 1.0)) for _ in range(2))
    silent = answers(*[None] * 30, *[1.0] * 10)
    one = contrast(own_probes()["injection"], base, repeat, silent, np.full(40, -1.0))
    [found] = outcomes([one], SCORING, Clusters.each(40), 1.0, 2.0)
    assert found.silenced
    assert not found.found


def test_few_cases_show_nothing_and_say_so() -> None:
    base, edited = answers(*[1.0] * 4), answers(*[-1.0] * 4)
    one = contrast(own_probes()["authority"], base, base, edited, np.full(4, -1.0))
    [found] = outcomes([one], SCORING, Clusters.each(4), 1.0, 2.0)
    assert (found.found, found.detectable) == (False, None)


def test_cases_of_a_cluster_count_once() -> None:
    values = np.ones(12)
    together = Clusters.by_key([1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3], "group")
    assert p_value(values, Clusters.each(12), one_sided=True) == pytest.approx(2**-12)
    assert p_value(values, together, one_sided=True) == pytest.approx(2**-3)
    many = p_value(np.ones(600), Clusters.each(600), one_sided=True)
    assert many is not None
    assert many < 1e-100


def test_planted_biases_are_recovered_and_noise_is_not_reported() -> None:
    rate, _ = audits.false_findings(60, lost=0.05)
    assert rate <= 0.1
    rows = {row.split(" ")[1]: row.split("|") for row in audits.coverage(40)}
    for row in rows.values():
        assert float(row[3]) == pytest.approx(float(row[2]), abs=0.05)
    assert float(rows["audit/authority/shift"][6].strip(" %")) > 80
