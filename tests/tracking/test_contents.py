"""What is recorded: params, metrics, tables, templates, data sets, and the sample of traces."""

import hashlib
import json
from dataclasses import replace

import pytest
from mlflow import MlflowClient
from mlflow.tracking._tracking_service.utils import _use_tracking_uri

from evalkit.config import DatasetConfig, PromptConfig, TrackingConfig
from evalkit.core.errors import DatasetError
from evalkit.core.types import Case, Metric, Response, Verdict
from evalkit.datasets import Dataset, load_cases
from evalkit.evaluators.json_answers import rationale
from evalkit.scoring.catalog import LEADERBOARD_COLUMNS, full_catalog
from evalkit.tracking import contents, dataset_fetchers
from evalkit.tracking.mlflow_tracker import (
    HASH,
    LINKED,
    NOTE,
    MlflowTracker,
    prompt_tags,
    registered_name,
)
from evalkit.tracking.traces import choose, label_of


def test_params_are_flat_and_hide_passwords(make_result, tmp_path):
    result = make_result(tmp_path)
    # A config with such a URL or key is refused; a tracker hides them all the same.
    secret = {"api_base": "http://u:pw@127.0.0.1:1/v1", "params": {"api_key": "sk-1", "top_p": 0.5}}
    judge = result.config.judge.model_copy(update=secret)
    params = contents.params(
        replace(result, config=result.config.model_copy(update={"judge": judge}))
    )
    assert params["judge.temperature"] == "0.0"
    assert params["criteria.accuracy.weight"] == "1.0"
    assert params["objective"] == '["tie_rate","cost_usd"]'
    assert params["judge.api_base"] == "http://127.0.0.1:1/v1"
    assert params["judge.params.api_key"] == "(hidden)"
    assert params["judge.params.top_p"] == "0.5"
    assert "judge.max_tokens" not in params
    assert "rubric.levels" not in params


def test_params_are_those_that_apply_and_the_swept_ones_come_first(make_result, tmp_path):
    sweep = {"overrides": ["runner.concurrency=16", "+tie.min_confidence=0"]}
    params = list(contents.params(make_result(tmp_path, sweep=sweep)))
    assert params[:2] == ["tie.min_confidence", "runner.concurrency"]
    assert {"judge.model", "swap.policy", "criteria.accuracy.weight"} <= {*params}
    # Of panels, cascades, scales and stores there is nothing; config.yaml has the defaults.
    other_settings = ("judge.vote", "judge.delta", "rubric.", "store.", "tracking.", "runner.p")
    assert not [key for key in params if key.startswith(other_settings)]
    assert len(params) <= 20


def test_a_long_param_is_cut_to_what_mlflow_takes(make_result, tmp_path):
    result = make_result(tmp_path)
    config = result.config.model_copy(update={"prompt": PromptConfig(template="x" * 7_000)})
    assert (
        len(contents.params(replace(result, config=config))["prompt.template"])
        == contents.MAX_PARAM
    )


def test_metrics_carry_intervals_and_leave_missing_values_out(make_result, tmp_path):
    metrics = contents.metrics(make_result(tmp_path), every=True)
    assert metrics["agreement/accuracy"] == 0.75
    assert (metrics["agreement/accuracy/low"], metrics["agreement/accuracy/high"]) == (0.5, 0.9)
    assert "position/consistency" in metrics
    assert "position/consistency/low" not in metrics
    assert not [name for name in metrics if name.startswith("agreement/kappa")]
    assert (metrics["calls/sent"], metrics["tokens/prompt"], metrics["cost_usd"]) == (
        *(16, 1600, 0.25),
    )


def test_the_main_metrics_are_at_most_45_and_in_the_order_of_the_leaderboard(make_result, tmp_path):
    names = [row.name for row in full_catalog().rows if not row.placeholders and row.scope == "run"]
    many = {name: Metric(name, 0.5, 0.4, 0.6, n=9) for name in names}
    metrics = contents.metrics(replace(make_result(tmp_path), metrics=many))
    assert len(metrics) <= 45
    # In a column of ten characters the first names are told apart.
    first = [name[:10] for name in list(metrics)[: contents.SHORT]]
    assert len({*first}) == contents.SHORT
    assert first[0] == "accuracy"
    assert all(metrics[name] == 0.5 for name in first if name in metrics)
    shown = [name for name in LEADERBOARD_COLUMNS if name in metrics]
    assert shown[:2] == ["agreement/accuracy", "agreement/accuracy_per_order"]
    assert list(metrics)[-3:] == ["calls/sent", "calls/failed", "cost_usd"]
    assert len(
        contents.metrics(replace(make_result(tmp_path), metrics=many), every=True)
    ) > 3 * len(names)


def test_an_unknown_cost_is_not_a_cost_of_0(make_result, tmp_path):
    assert "cost_usd" not in contents.metrics(replace(make_result(tmp_path), cost_usd=None))


def test_a_tag_is_the_decision_and_one_more_for_each_judge_of_a_panel(make_result, tmp_path):
    def metrics(prefix: str, low: float, high: float) -> dict[str, Metric]:
        names = {"agreement/accuracy": 0.9, "agreement/kappa": (low + high) / 2}
        return {
            prefix + name: Metric(prefix + name, value, low, high, 200)
            for name, value in names.items()
        }

    both = (
        metrics("", 0.3, 0.5) | metrics("judge/one/", -0.1, 0.1) | metrics("judge/two/", 0.1, 0.7)
    )
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
    tables = {
        "judgments": contents.judgment_table(result),
        "verdicts": contents.verdict_table(result),
    }
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


FIELDS = {
    "prompt": "inputs.question",
    "response": "outputs.answer",
    "reference": "expectations.expected",
}
PAIR = {"id": "1", "prompt": "Q", "response_a": "x", "response_b": "y", "label": "A"}


def load(uri: str, path: str, mode: str = "pairwise", **settings: object) -> Dataset:
    fetch = dataset_fetchers(TrackingConfig(uri=uri))
    return load_cases(DatasetConfig(path=path, **settings), mode=mode, fetch=fetch)


def complaint(uri: str, path: str) -> str:
    with pytest.raises(DatasetError) as caught:
        load(uri, path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_evaluation_data_set_by_name_and_by_id(store):
    client = MlflowClient(tracking_uri=store)
    records = [
        {
            "inputs": {"question": f"Q{i}"},
            "outputs": {"answer": f"A{i}"},
            "expectations": {"expected": f"E{i}"},
            "tags": {"n": str(i)},
        }
        for i in range(3)
    ]
    with _use_tracking_uri(store):
        made = client.create_dataset(name="quiz", experiment_id=["0"])
        made.merge_records(records)
        client.create_dataset(name="empty", experiment_id=["0"])
    by_name = load(store, "mlflow:quiz", "pointwise", fields=FIELDS)
    by_id = load(store, f"mlflow:{made.dataset_id}", "pointwise", fields=FIELDS)
    assert by_name.fingerprint == by_id.fingerprint
    found = sorted(
        (c.prompt, c.responses[0].text, c.reference, c.metadata["tags"]["n"]) for c in by_name.cases
    )
    assert found == [(f"Q{i}", f"A{i}", f"E{i}", str(i)) for i in range(3)]
    assert all(case.id.startswith("dr-") for case in by_name.cases)
    assert by_name.source == "mlflow:quiz"
    assert "mlflow:quzi: no such dataset in sqlite:" in complaint(store, "mlflow:quzi")
    assert complaint(store, "mlflow:empty").startswith("mlflow:empty: the dataset has no records")
    assert "cannot be fetched" in complaint(store, "mlflow:d-0123456789abcdef0123456789abcdef")


def test_a_file_and_a_folder_that_a_run_logged(store, tmp_path):
    client = MlflowClient(tracking_uri=store)
    experiment = client.create_experiment(
        "data", artifact_location=(tmp_path / "artifacts").as_uri()
    )
    run = client.create_run(experiment).info.run_id
    for name, rows in (("a", [PAIR]), ("b", [{**PAIR, "id": "2"}])):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        client.log_artifact(run, str(path), "data")
    one = load(store, f"runs:/{run}/data/a.jsonl")
    assert [case.id for case in one.cases] == ["1"]
    assert one.source == f"runs:/{run}/data/a.jsonl"
    assert [case.id for case in load(store, f"runs:/{run}/data").cases] == ["1", "2"]
    (tmp_path / "bad.jsonl").write_text("{", encoding="utf-8")
    client.log_artifact(run, str(tmp_path / "bad.jsonl"))
    assert complaint(store, f"runs:/{run}/bad.jsonl").startswith(
        f"runs:/{run}/bad.jsonl:1: the row is not JSON"
    )
    assert "names a run but none of its files" in complaint(store, f"runs:/{run}")
    assert "cannot be fetched" in complaint(store, f"runs:/{run}/nothing.jsonl")


def test_no_store_is_made_by_looking_for_one(tmp_path):
    uri = f"sqlite:///{tmp_path / 'none.db'}"
    assert (
        complaint(uri, "mlflow:quiz")
        == f"mlflow:quiz: there is no tracking store at {uri}; set tracking.uri"
    )
    assert not (tmp_path / "none.db").exists()


NAME = "evalkit.en.pairwise"


def record(uri: str, result, experiment: str = "evalkit"):
    from mlflow import MlflowClient

    run = MlflowTracker(uri, TrackingConfig(traces=0, experiment=experiment)).record(result)
    return MlflowClient(uri, uri).get_run(run)


def linked(run) -> list[dict[str, str]]:
    return json.loads(run.data.tags[LINKED])


def test_a_template_is_one_version_whoever_asks_with_it_and_a_changed_one_is_another(
    store, make_result, tmp_path
):
    from mlflow import MlflowClient

    runs = [
        record(store, make_result(tmp_path / "a", run_id="a")),
        record(store, make_result(tmp_path / "b", run_id="b"), "another study"),
        record(
            store,
            make_result(
                tmp_path / "c", run_id="c", prompts={"en/pairwise.md.j2": "Which? {{ a }}"}
            ),
        ),
        record(store, make_result(tmp_path / "d", run_id="d")),
    ]
    assert [linked(run) for run in runs] == [
        [{"name": NAME, "version": version}] for version in ("1", "1", "2", "1")
    ]
    client = MlflowClient(store, store)
    first, second = (client.get_prompt_version(NAME, version) for version in (1, 2))
    assert first.template.startswith("Which is better?\n{{ response_a }}")
    assert [version.tags[HASH] for version in (first, second)] == [
        hashlib.sha256(version.template.encode()).hexdigest() for version in (first, second)
    ]
    assert second.template == "Which? {{ a }}"
    for run in runs[:2]:
        assert [
            prompt.name
            for prompt in client.search_prompts(f"experiment_id = '{run.info.experiment_id}'")
        ] == [NAME]


def test_a_name_that_is_taken_by_a_model_loses_no_run(store, make_result, tmp_path):
    from mlflow import MlflowClient

    client = MlflowClient(store, store)
    client.create_registered_model(NAME)
    run = record(store, make_result(tmp_path / "run"))
    assert run.info.status == "FINISHED"
    assert LINKED not in run.data.tags
    assert run.data.tags[NOTE].startswith("not registered: ")


def test_a_server_without_prompts_loses_no_run(make_result, tmp_path):
    from mlflow.exceptions import MlflowException

    class Old:
        tracking_uri = "http://127.0.0.1:1"

        def get_prompt(self, name: str) -> None:
            return None

        def create_prompt(self, *_: object) -> None:
            raise MlflowException("API request failed with error code 404\n", error_code=404)

    said = prompt_tags(Old(), "1", make_result(tmp_path / "run"))
    assert said == {NOTE: "not registered: API request failed with error code 404"}


def test_only_texts_that_the_run_was_made_with_are_registered(store, make_result, tmp_path):
    result = make_result(tmp_path / "run")
    texts = {"en/pairwise.md.j2": "another text", "zh/pairwise.md.j2": "哪个更好？"}
    (tmp_path / "run" / "prompts.json").write_text(json.dumps(texts), "utf-8")
    assert prompt_tags(None, "1", result) == {}
    (tmp_path / "run" / "prompts.json").unlink()
    assert prompt_tags(None, "1", result) == {}


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("en/pairwise.md.j2", NAME),
        ("mine_2.j2", "evalkit.mine_2"),
        ("zh/成对.md.j2", "evalkit.zh.--"),
        ("my prompt.j2", "evalkit.my-prompt-"),
    ],
)
def test_a_prompt_goes_by_its_template(template, name):
    from mlflow.prompt.constants import PROMPT_NAME_RULE

    assert registered_name(template).startswith(name)
    assert PROMPT_NAME_RULE.match(registered_name(template))
    assert registered_name("zh/成对.md.j2") != registered_name("zh/单个.md.j2")


def test_every_kind_is_chosen_before_any_twice(make_result, tmp_path):
    result = make_result(tmp_path, cases=40)
    assert [j.case_id for j in choose(result, 8)] == [
        *("c1", "c1", "c2", "c2", "c3", "c3", "c0", "c0"),
    ]
    assert choose(result, 8) == choose(result, 8)


def test_no_more_than_there_are_and_none_when_none_is_wanted(make_result, tmp_path):
    result = make_result(tmp_path, cases=4)
    assert len(choose(result, 100)) == 8
    assert choose(result, 0) == []


def test_judgments_without_a_verdict_are_not_lost(make_result, tmp_path):
    result = replace(make_result(tmp_path, cases=4), verdicts=())
    assert len(choose(result, 100)) == 8


def test_rationale_reads_both_answer_shapes():
    pair = {
        "comparison": [{"criterion": "x", "reasoning": "because"}],
        "result": {"reasoning": "overall"},
    }
    assert (rationale(pair, "x"), rationale(pair, "y"), rationale(pair)) == (
        *("because", None, "overall"),
    )
    single = {"scores": {"x": {"score": 3, "justification": "fair"}}}
    assert rationale(single, "x") == "fair"
    assert rationale(None) is None
    assert rationale({"scores": "none"}, "x") is None


def test_the_label_of_a_single_response_is_its_grade():
    verdict = Verdict("c", (1,), None, 3.0, "judged")
    case = Case("c", "?", (Response("a"), Response("b", grade=4.5)))
    assert label_of(verdict, case) == 4.5
    assert label_of(replace(verdict, label=2.0), case) == 2.0
    assert label_of(replace(verdict, unit=(0, 1)), case) is None
