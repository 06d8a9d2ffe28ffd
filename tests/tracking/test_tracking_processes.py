import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evalkit.tracking.connection import one_at_a_time

JOB = """
import importlib.util, os, sys
from pathlib import Path
from evalkit.config import TrackingConfig
from evalkit.tracking import make_tracker

spec = importlib.util.spec_from_file_location("builder", sys.argv[1])
builder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(builder)
folder, job = Path(sys.argv[2]), sys.argv[3]
sweep = {"id": "s1", "job": int(job), "name": "study", "overrides": [f"job={job}"]}
result = builder.build(folder / job, run_id=job, sweep=sweep)
os.chdir(folder)
tracker = make_tracker(TrackingConfig(traces=4))
assert "mlflow" not in sys.modules
print(tracker.record(result), "litellm" in sys.modules)
"""


@pytest.mark.slow
def test_jobs_of_a_sweep_in_several_processes_share_a_new_store_and_one_parent(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    command = [sys.executable, "-c", JOB, str(Path(__file__).parent / "conftest.py"), str(tmp_path)]
    jobs = [
        subprocess.Popen(
            [*command, str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for job in range(2)
    ]
    said = [job.communicate(timeout=120) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    assert [error for _, error in said] == [
        "",
        "",
    ]  # neither MLflow nor its migrations say anything
    ids, imported_litellm = zip(*(out.split() for out, _ in said), strict=True)
    assert set(imported_litellm) == {"False"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_family(tmp_path, set(ids))


def _check_family(folder: Path, ids: set[str]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("evalkit")
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert len(runs) == 3
    assert [run.info.run_name for run in parents] == ["study"]
    assert {run.info.run_id for run in runs} == ids | {parents[0].info.run_id}
    assert {run.data.tags.get("mlflow.parentRunId") for run in runs} == {
        None,
        parents[0].info.run_id,
    }


def test_one_at_a_time_excludes_others_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    inside, most = [], []

    def work(number: int) -> None:
        with one_at_a_time("name"), one_at_a_time("another"):
            inside.append(number)
            time.sleep(0)  # lets another thread run, if it may
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(400)))
    assert set(most) == {1}
    assert list(tmp_path.iterdir()) == []
