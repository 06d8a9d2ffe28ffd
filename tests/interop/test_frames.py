"""A run's tables as data frames: nothing is lost or invented, and cases can be judged again."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

import evalkit
from evalkit.errors import ConfigError
from evalkit.interop.exporters import column

PAIR = {"prompt": "Q?", "response_a": "yes", "response_b": "no", "model_a": "m", "label": "A", "kind": 1}
LIST = {"prompt": "Q?", "responses": [{"text": "a", "model": "m"}, {"text": "b"}, {"text": "c \ud800"}]}
GRADED = {"prompt": "Q?", "response": "yes", "label": 4, "labels": {"ann": 4, "bob": 3}, "tags": ["x", 1]}
RUNS = {
    "pairs": ([], [{**PAIR, "id": "1"}, {**PAIR, "id": "2", "label": None, "kind": "two"}]),
    "lists": (["mode=listwise"], [{**LIST, "id": "1"}]),
    "scores": (["mode=pointwise"], [{**GRADED, "id": "1"}, {"id": "2", "prompt": "?", "response": "no"}]),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    words = ["judge=simulated/good", "tracking=none", "scoring.bootstrap=0", "store.mode=off"]
    return {
        name: evalkit.run(
            evalkit.load_config(overrides=[*words, *mode]), tmp_path_factory.mktemp("runs") / name, cases=cases
        )
        for name, (mode, cases) in RUNS.items()
    }


@pytest.mark.parametrize("name", RUNS)
def test_cases_can_be_judged_again(runs: dict[str, Any], name: str, tmp_path: Any) -> None:
    run = runs[name]
    for frame in (run.to_pandas("cases"), run.to_polars("cases")):
        again = evalkit.run(run.config, tmp_path / type(frame).__module__, cases=frame)
        kept = [replace(case, metadata={}) for case in again.cases]
        known = [replace(case, metadata={}) for case in run.cases]
        if name == "lists":  # an unpaired surrogate cannot be in a frame
            assert [len(case.responses) for case in kept] == [3]
        else:
            assert kept == known


@pytest.mark.parametrize("table", ["cases", "judgments", "verdicts", "metrics"])
def test_both_libraries_have_the_same_table(runs: dict[str, Any], table: str) -> None:
    for run in runs.values():
        pandas, polars = run.to_pandas(table), run.to_polars(table)
        assert list(pandas.columns) == polars.columns
        rows = [{name: None if value != value else value for name, value in row.items()} for row in polars.to_dicts()]
        assert pandas.astype(object).where(pandas.notna(), None).to_dict("records") == rows
        assert len(pandas) == len(getattr(run, table))


def test_a_missing_verdict_has_no_value(runs: dict[str, Any]) -> None:
    run = runs["scores"]
    first, *rest = run.verdicts
    frame = replace(run, verdicts=(replace(first, score=None, reason="missing"), *rest)).to_polars()
    assert frame["score"].to_list() == [None, *(one.score for one in rest)]
    assert frame["reason"][0] == "missing"
    metrics = run.to_pandas("metrics").set_index("metric")
    assert {name for name, one in run.metrics.items() if one.value is None} == set(metrics[metrics.value.isna()].index)


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ([1, None, 2], [1, None, 2]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, None], [True, None]),
        ([True, 1], ["True", "1"]),
        ([2**70, 1], [str(2**70), "1"]),
        (["a", 1], ["a", "1"]),
        ([None], [None]),
    ],
)
def test_a_column_has_one_type(values: list[Any], same: list[Any]) -> None:
    assert [(type(one), one) for one in column(values)] == [(type(one), one) for one in same]


def test_mistakes_are_one_line(runs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no table 'verdict'; did you mean 'verdicts'"):
        runs["pairs"].to_pandas("verdict")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match="pip install polars"):
        runs["pairs"].to_polars()
