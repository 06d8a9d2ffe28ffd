"""A run's templates in MLflow: one version for each content, and never a reason to lose a run."""

from __future__ import annotations

import hashlib
import json

import pytest

from evalkit.config import TrackingConfig
from evalkit.tracking.mlflow_tracker import HASH, LINKED, NOTE, MlflowTracker, prompt_tags, registered_name

NAME = "evalkit.en.pairwise"


def record(uri: str, result, experiment: str = "evalkit"):
    from mlflow import MlflowClient

    run = MlflowTracker(uri, TrackingConfig(traces=0, experiment=experiment)).record(result)
    return MlflowClient(uri, uri).get_run(run)


def linked(run) -> list[dict[str, str]]:
    return json.loads(run.data.tags[LINKED])


def test_a_template_is_one_version_whoever_asks_with_it_and_a_changed_one_is_another(store, make_result, tmp_path):
    from mlflow import MlflowClient

    runs = [
        record(store, make_result(tmp_path / "a", run_id="a")),
        record(store, make_result(tmp_path / "b", run_id="b"), "another study"),
        record(store, make_result(tmp_path / "c", run_id="c", prompts={"en/pairwise.md.j2": "Which? {{ a }}"})),
        record(store, make_result(tmp_path / "d", run_id="d")),
    ]
    assert [linked(run) for run in runs] == [[{"name": NAME, "version": version}] for version in ("1", "1", "2", "1")]
    client = MlflowClient(store, store)
    first, second = (client.get_prompt_version(NAME, version) for version in (1, 2))
    assert first.template.startswith("Which is better?\n{{ response_a }}")
    assert [version.tags[HASH] for version in (first, second)] == [
        hashlib.sha256(version.template.encode()).hexdigest() for version in (first, second)
    ]
    assert second.template == "Which? {{ a }}"
    for run in runs[:2]:
        assert [prompt.name for prompt in client.search_prompts(f"experiment_id = '{run.info.experiment_id}'")] == [
            NAME
        ]


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
