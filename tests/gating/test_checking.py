"""Which names of a gate are refused before anything is asked."""

from __future__ import annotations

import pytest

from evalkit.api import build_evaluator
from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.gating import check_gate
from evalkit.types import Case, Response

CASES = [Case("c", "?", (Response("a"), Response("b")), label="A")]


def panel(metric: str) -> RunConfig:
    judges = [{"model": "openai/one"}, {"model": "openai/two", "name": "my judge"}]
    return RunConfig(
        judge={"name": "panel", "model": None, "judges": judges},
        criteria=[{"name": "q"}],
        gate={metric: {"value": "<= 1"}},
    )


@pytest.mark.parametrize("metric", ["judge/one/tie_rate", "judge/my_judge/tie_rate", "tie_rate", "tie_rate/split"])
def test_a_panels_metrics_go_by_the_names_that_they_have(metric: str) -> None:
    check_gate(panel(metric), CASES)


@pytest.mark.parametrize("metric", ["judge/my judge/tie_rate", "judge/three/tie_rate"])
def test_a_judge_that_no_metric_is_called_by_is_refused(metric: str) -> None:
    with pytest.raises(ConfigError, match=r"no such judge; choose from one, my_judge$"):
        check_gate(panel(metric), CASES)


def test_judges_whose_metrics_would_go_by_one_name_are_refused_before_anything_is_asked() -> None:
    alike = [{"model": "openai/one", "name": "my judge"}, {"model": "openai/two", "name": "my_judge"}]
    config = RunConfig(judge={"name": "p", "model": None, "judges": alike}, criteria=[{"name": "q"}])
    with pytest.raises(ConfigError, match=r"the metrics of judges my judge and my_judge would have the same names"):
        build_evaluator(config)
