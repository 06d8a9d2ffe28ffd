"""Omitted pictures and prompts that were cut: counted, and limits of the decision."""

from dataclasses import replace

import pytest

from evalkit.core.images import OMITTED
from evalkit.scoring.decision import decide
from evalkit.scoring.pipeline import score_run


def test_omitted_pictures_and_cut_prompts_are_metrics_and_limits(configure, make_case, passes):
    cases = [make_case(f"c{k}", label="A") for k in range(40)]
    cases[0] = replace(cases[0], prompt=f"What is this? {OMITTED}")
    judgments = [judgment for case in cases for judgment in passes(case.id, 1.0, -1.0)]
    judgments[:20] = [replace(judgment, seen=0.25) for judgment in judgments[:20]]
    metrics = score_run(configure(scoring={"bootstrap": 20}), cases, judgments).metrics
    assert metrics["pictures/omitted"].value == pytest.approx(1 / 40)
    assert metrics["prompts/cut"].value == 0.25
    assert metrics["prompts/seen"].value == 0.25
    assert {"pictures", "cut"} <= {limit.kind for limit in decide(metrics, 0.95).limits}


def test_a_run_that_saw_everything_has_no_such_metric(configure, make_case, passes):
    metrics = score_run(configure(), [make_case("c", label="A")], passes("c", 1.0, -1.0)).metrics
    assert not {"pictures/omitted", "prompts/cut", "prompts/seen"} & {*metrics}
