"""A metric is a function whose parameters are values of the run, and a row of the catalog."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np

from evalkit.scoring import metrics, pipeline, score_run
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.metrics.metric_registry import EACH, RUN
from evalkit.scoring.run_metrics import EXTRAS, computed
from evalkit.scoring.stats.bootstrap import Tally

LISTED = (*EACH, *EXTRAS, *RUN)


def test_a_new_metric_needs_no_line_outside_its_function_and_its_row(monkeypatch, configure, make_case, passes) -> None:
    def sure_statistics(verdicts):
        sure = verdicts.confidence > 0.9
        return [verdicts.tally.rate("tie_rate/sure", sure, verdicts.present, verdicts.missing)], {"sure": {"rows": 1}}

    def class_count_statistics(classes):
        raise AssertionError("a run without classes has no metric of classes")

    monkeypatch.setattr(pipeline, "EACH", (*EACH, sure_statistics, class_count_statistics))
    cases = [make_case("a", label="A"), make_case("b", label="B")]
    scored = score_run(configure(), cases, [*passes("a", 1.0, 1.0), *passes("b", 1.0, 1.0)])
    assert scored.metrics["tie_rate/sure"].n == 2
    assert scored.details["sure"] == {"rows": 1}


def test_a_function_is_called_where_all_it_needs_is_known() -> None:
    def one(items, weights=None):
        return [Tally.each(1).rate("one", items, items, None if weights is None else weights > 0)]

    def none(items, classes):
        raise AssertionError

    some = np.array([True])
    found, tables = computed((one, none), {"items": some, "classes": None})
    assert ([statistic.name for statistic in found], tables) == (["one"], {})
    assert found[0].missing == 0
    assert computed((one,), {"items": some, "weights": np.ones(1)})[0][0].missing == 1


def test_no_function_of_metrics_is_forgotten() -> None:
    known = {name for function in LISTED for name in inspect.signature(function).parameters}
    for module in iter_modules([str(Path(metrics.__file__).parent)]):
        for name, function in inspect.getmembers(
            import_module(f"{metrics.__name__}.{module.name}"), inspect.isfunction
        ):
            own = function.__module__.endswith(f".{module.name}") and name.endswith(("_statistics", "_results"))
            if own and {*inspect.signature(function).parameters} <= known:
                assert function in LISTED, f"{name} is in no list of evalkit/scoring/metrics/metric_registry.py"
    assert len({*LISTED}) == len(LISTED)
    assert CATALOG.spec("agreement/kappa") is not None
