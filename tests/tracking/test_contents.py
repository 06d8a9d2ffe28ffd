from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evalkit.config import PromptConfig
from evalkit.scoring.catalog import LEADERBOARD_COLUMNS, full_catalog
from evalkit.tracking import contents
from evalkit.types import Metric


def test_params_are_flat_and_hide_passwords(make_result, tmp_path):
    result = make_result(tmp_path)
    # A config with such a URL or key is refused; a tracker hides them all the same.
    secret = {"api_base": "http://u:pw@127.0.0.1:1/v1", "params": {"api_key": "sk-1", "top_p": 0.5}}
    judge = result.config.judge.model_copy(update=secret)
    params = contents.params(replace(result, config=result.config.model_copy(update={"judge": judge})))
    assert params["judge.temperature"] == "0.0"
    assert params["criteria.accuracy.weight"] == "1.0"
    assert params["objective"] == '["tie_rate","cost_usd"]'
    assert params["judge.api_base"] == "http://127.0.0.1:1/v1"
    assert params["judge.params.api_key"] == "(hidden)"
    assert params["judge.params.top_p"] == "0.5"
    assert "judge.max_tokens" not in params
    assert "rubric.levels" not in params


def test_a_long_param_is_cut_to_what_mlflow_takes(make_result, tmp_path):
    result = make_result(tmp_path)
    config = result.config.model_copy(update={"prompt": PromptConfig(template="x" * 7_000)})
    assert len(contents.params(replace(result, config=config))["prompt.template"]) == contents.MAX_PARAM


def test_metrics_carry_intervals_and_leave_missing_values_out(make_result, tmp_path):
    metrics = contents.metrics(make_result(tmp_path), every=True)
    assert metrics["agreement/accuracy"] == 0.75
    assert (metrics["agreement/accuracy/low"], metrics["agreement/accuracy/high"]) == (0.5, 0.9)
    assert "position/consistency" in metrics
    assert "position/consistency/low" not in metrics
    assert not [name for name in metrics if name.startswith("agreement/kappa")]
    assert (metrics["calls/sent"], metrics["tokens/prompt"], metrics["cost_usd"]) == (16, 1600, 0.25)


def test_the_main_metrics_are_at_most_40_and_in_the_order_of_the_leaderboard(make_result, tmp_path):
    names = [row.name for row in full_catalog().rows if not row.placeholders and row.scope == "run"]
    many = {name: Metric(name, 0.5, 0.4, 0.6, n=9) for name in names}
    metrics = contents.metrics(replace(make_result(tmp_path), metrics=many))
    assert len(metrics) <= 40
    shown = [name for name in LEADERBOARD_COLUMNS if name in metrics]
    assert shown[:2] == ["agreement/accuracy", "agreement/accuracy_per_order"]
    assert list(metrics)[-3:] == ["calls/sent", "calls/failed", "cost_usd"]
    assert len(contents.metrics(replace(make_result(tmp_path), metrics=many), every=True)) > 3 * len(names)


def test_an_unknown_cost_is_not_a_cost_of_0(make_result, tmp_path):
    assert "cost_usd" not in contents.metrics(replace(make_result(tmp_path), cost_usd=None))


def test_a_tag_is_the_decision_and_one_more_for_each_judge_of_a_panel(make_result, tmp_path):
    def metrics(prefix: str, low: float, high: float) -> dict[str, Metric]:
        names = {"agreement/accuracy": 0.9, "agreement/kappa": (low + high) / 2}
        return {prefix + name: Metric(prefix + name, value, low, high, 200) for name, value in names.items()}

    both = metrics("", 0.3, 0.5) | metrics("judge/one/", -0.1, 0.1) | metrics("judge/two/", 0.1, 0.7)
    tags = contents.tags(replace(make_result(tmp_path), metrics=both), {})
    assert {name: tags[name] for name in tags if name.endswith("decision")} == {
        "decision": "rates_corrected",
        "judge/one/decision": "none",
        "judge/two/decision": "unknown",
    }


@pytest.mark.parametrize(
    ("sweep", "chosen", "name"),
    [
        (None, None, "pairwise-m-01234567"),
        (None, "mine", "mine"),
        ({"id": "s", "overrides": ["swap=both", "judge=m"]}, "mine", "swap=both, judge=m"),
        ({"id": "s", "overrides": []}, None, "pairwise-m-01234567"),
    ],
)
def test_run_name(make_result, tmp_path, sweep, chosen, name):
    assert contents.run_name(make_result(tmp_path, sweep=sweep), chosen) == name


def test_tables_start_with_what_identifies_a_row_and_drop_empty_columns(make_result, tmp_path):
    table = contents.verdict_table(make_result(tmp_path))
    assert table["columns"][:2] == ["item", "winner"]
    assert "score" not in table["columns"]
    assert table["data"][0][:2] == ["c0 AB", "A"]
    assert table["data"][1][1] is None
    items = [row[0] for row in contents.judgment_table(make_result(tmp_path))["data"]]
    assert len(items) == len(set(items)) == 16


def test_a_table_is_capped_and_says_so(make_result, tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "MAX_ROWS", 10)
    result = make_result(tmp_path)
    tables = {"judgments": contents.judgment_table(result), "verdicts": contents.verdict_table(result)}
    assert [len(table["data"]) for table in tables.values()] == [10, 8]
    said = contents.table_note(tables, result)
    assert said == "tables hold the first 10 of 16 judgments; the .jsonl files have all rows"


def test_a_table_of_long_texts_holds_fewer_rows(make_result, tmp_path, monkeypatch):
    result = make_result(tmp_path)
    cases = tuple(replace(case, prompt="x" * 3_000) for case in result.cases)
    monkeypatch.setattr(contents, "MAX_TABLE", 10_000)
    assert len(contents.verdict_table(replace(result, cases=cases))["data"]) == 3
    monkeypatch.setattr(contents, "MAX_TABLE", 1)
    assert len(contents.verdict_table(result)["data"]) == 1


def test_a_table_without_rows_is_a_table(make_result, tmp_path):
    table = contents.verdict_table(replace(make_result(tmp_path), verdicts=()))
    assert json.loads(json.dumps(table)) == {"columns": [], "data": []}
