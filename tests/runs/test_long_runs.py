"""Whole runs whose cases, judgments and verdicts are not held: the files are the same, and nothing else is left."""

import gc
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from evalkit.config import RunConfig
from evalkit.core import spool
from evalkit.core.types import Case, Judgment, Verdict
from evalkit.runs import layout, read_run
from evalkit.workflows.rescoring import rescore
from evalkit.workflows.run import judge_and_score

LONG = 240


def benchmark():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "memory.py"
    spec = spec_from_file_location("memory_benchmark", path)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Cases of which every answer is stored, and how to configure a run on so many of them."""
    folder, memory = tmp_path_factory.mktemp("long"), benchmark()
    memory.fill(folder, LONG)

    def configure(limit: int = LONG, **runner) -> RunConfig:
        config = memory.config(folder, LONG).dump()
        config["dataset"]["limit"] = limit
        config["scoring"]["bootstrap"] = 50
        return RunConfig.model_validate(config | {"runner": runner})

    return configure


@pytest.fixture
def written(monkeypatch):
    """Nothing is held that can be in a file."""
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)


@pytest.fixture
def count_alive():
    """Count the objects that are alive and were made since: other tests of the process hold some, too."""

    def alive() -> list[object]:
        gc.collect()
        return [one for one in gc.get_objects() if type(one) in (Case, Judgment, Verdict)]

    before = alive()
    known = set(map(id, before))
    yield lambda: sum(id(one) not in known for one in alive())
    before.clear()


def contents(folder: Path) -> dict[str, bytes]:
    names = (layout.CASES, layout.JUDGMENTS, layout.VERDICTS, layout.METRICS)
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.slow
def test_the_files_are_the_same_whatever_is_held_and_how_many_are_asked_at_once(
    stored, monkeypatch, tmp_path
):
    judge_and_score(stored(), tmp_path / "held")
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)
    for concurrency in (1, 24):
        judge_and_score(stored(concurrency=concurrency), tmp_path / str(concurrency))
        assert contents(tmp_path / str(concurrency)) == contents(tmp_path / "held")
    names = [
        line.split(b'"', 4)[3].decode()
        for line in contents(tmp_path / "1")[layout.JUDGMENTS].splitlines()
    ]
    assert names == [f"case-{k}" for k in range(LONG) for _ in range(2)]


@pytest.mark.slow
def test_a_result_can_be_gone_through_again_and_again(stored, written, tmp_path):
    result = judge_and_score(stored(), tmp_path / "run")
    assert (len(result.cases), len(result.judgments), len(result.verdicts)) == (
        LONG,
        2 * LONG,
        LONG,
    )
    assert (
        result.judgments[-1].case_id
        == result.cases[LONG - 1].id
        == list(result.verdicts)[-1].case_id
    )
    again = read_run(tmp_path / "run")
    assert (again.cases, again.judgments, again.verdicts) == (
        *(result.cases, result.judgments, result.verdicts),
    )
    assert again.judgments != result.judgments[1:]
    scored = rescore(stored(), result, tmp_path / "again")
    assert scored.verdicts == result.verdicts
    assert scored.metrics == result.metrics


@pytest.mark.thorough
@pytest.mark.slow
def test_few_objects_are_alive_while_it_goes_on_and_after(stored, written, count_alive, tmp_path):
    alive, files = [], []

    def look(progress) -> None:
        if progress.done % 100 == 0:
            alive.append(count_alive())
            files.extend(path for path in tmp_path.rglob("*"))

    result = judge_and_score(stored(), tmp_path / "run", observe=look)
    assert len(alive) == 4
    assert 0 < max(alive) < LONG
    assert files == []
    assert count_alive() < 20
    assert len(result.judgments) == 2 * LONG
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_an_interrupted_run_leaves_nothing(stored, written, tmp_path):
    class EnoughError(Exception):
        pass

    def stop(progress) -> None:
        if progress.done == 100:
            raise EnoughError

    with pytest.raises(EnoughError):
        judge_and_score(stored(), tmp_path / "runs" / "run", observe=stop)
    assert list(tmp_path.iterdir()) == []
