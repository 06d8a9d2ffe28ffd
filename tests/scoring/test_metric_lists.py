"""A metric is a function whose parameters are values of the run, and a row of the catalog."""

import inspect
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np

from evalkit.scoring import metrics, pipeline, score_run
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.metrics.classes import class_statistics
from evalkit.scoring.metrics.metric_registry import EACH, RUN
from evalkit.scoring.metrics.panels import class_panel_statistics
from evalkit.scoring.run_metrics import EXTRAS, computed
from evalkit.scoring.stats import coefficients
from evalkit.scoring.stats.bootstrap import Tally

LISTED = (*EACH, *EXTRAS, *RUN)


def test_a_new_metric_needs_no_line_outside_its_function_and_its_row(monkeypatch, configure, make_case, passes):
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


def test_a_function_is_called_where_all_it_needs_is_known():
    def one(items, weights=None):
        return [Tally.each(1).rate("one", items, items, None if weights is None else weights > 0)]

    def none(items, classes):
        raise AssertionError

    some = np.array([True])
    found, tables = computed((one, none), {"items": some, "classes": None})
    assert ([statistic.name for statistic in found], tables) == (["one"], {})
    assert found[0].missing == 0
    assert computed((one,), {"items": some, "weights": np.ones(1)})[0][0].missing == 1


def test_no_function_of_metrics_is_forgotten():
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


def test_a_new_coefficient_in_one_place_appears_for_pairs_classes_and_annotators(
    monkeypatch, configure, make_case, passes
):
    raters = ("pairs", "classes", "items", "annotators", "panel")
    new = coefficients.Coefficient(coefficients.accuracy, lambda unread: (0.0, 1.0), raters)
    monkeypatch.setitem(coefficients.COEFFICIENTS, "observed", new)
    labels = {"ann": "A", "ben": "A", "cat": "B"}
    cases = [replace(make_case(name, label=label), labels=labels) for name, label in (("a", "A"), ("b", "B"))]
    scored = score_run(configure(), cases, [*passes("a", 1.0, 1.0), *passes("b", 1.0, 1.0)]).metrics
    pairs = scored["agreement/observed"]
    assert (pairs.value, pairs.n, pairs.worst_low, pairs.worst_high) == (0.5, 2, 0.0, 1.0)
    assert scored["human/observed"].value == round(1 / 3, 12)  # of three pairs of annotators, one agrees
    assert scored["human/observed"].worst_low is None

    n, zeros = 4, np.zeros(4, dtype=np.int64)
    each = [
        ClassColumns(("good", "bad"), False, 0, np.arange(n), zeros, n, np.array(verdicts), np.array([0, 0, 1, 1]))
        for verdicts in ([0, 1, 1, 1], [0, 0, 1, 1])
    ]
    found = {one.name: one for one in class_statistics(each[0])}
    assert found["agreement/observed"].observed() == 0.75
    (votes,) = (one for one in class_panel_statistics(each[1], each) if one.name == "panel/observed")
    assert votes.observed() == 0.75
