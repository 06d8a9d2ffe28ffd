"""Cases from MLflow: its evaluation data sets, and files that a run logged, from a real store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.tracking._tracking_service.utils import _use_tracking_uri

from evalkit.config import DatasetConfig, TrackingConfig
from evalkit.datasets import Dataset, load_cases
from evalkit.errors import DatasetError
from evalkit.tracking import dataset_fetchers

FIELDS = {"prompt": "inputs.question", "response": "outputs.answer", "reference": "expectations.expected"}
PAIR = {"id": "1", "prompt": "Q", "response_a": "x", "response_b": "y", "label": "A"}


def load(uri: str, path: str, mode: str = "pairwise", **settings: object) -> Dataset:
    fetch = dataset_fetchers(TrackingConfig(uri=uri))
    return load_cases(DatasetConfig(path=path, **settings), mode=mode, fetch=fetch)


def complaint(uri: str, path: str) -> str:
    with pytest.raises(DatasetError) as caught:
        load(uri, path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_evaluation_data_set_by_name_and_by_id(store: str) -> None:
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
    found = sorted((c.prompt, c.responses[0].text, c.reference, c.metadata["tags"]["n"]) for c in by_name.cases)
    assert found == [(f"Q{i}", f"A{i}", f"E{i}", str(i)) for i in range(3)]
    assert all(case.id.startswith("dr-") for case in by_name.cases)
    assert by_name.source == "mlflow:quiz"
    assert "mlflow:quzi: no such dataset in sqlite:" in complaint(store, "mlflow:quzi")
    assert complaint(store, "mlflow:empty").startswith("mlflow:empty: the dataset has no records")
    assert "cannot be fetched" in complaint(store, "mlflow:d-0123456789abcdef0123456789abcdef")


def test_a_file_and_a_folder_that_a_run_logged(store: str, tmp_path: Path) -> None:
    client = MlflowClient(tracking_uri=store)
    experiment = client.create_experiment("data", artifact_location=(tmp_path / "artifacts").as_uri())
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
    assert complaint(store, f"runs:/{run}/bad.jsonl").startswith(f"runs:/{run}/bad.jsonl:1: the row is not JSON")
    assert "names a run but none of its files" in complaint(store, f"runs:/{run}")
    assert "cannot be fetched" in complaint(store, f"runs:/{run}/nothing.jsonl")


def test_no_store_is_made_by_looking_for_one(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'none.db'}"
    assert complaint(uri, "mlflow:quiz") == f"mlflow:quiz: there is no tracking store at {uri}; set tracking.uri"
    assert not (tmp_path / "none.db").exists()
