"""Cases from Python and from Hugging Face data sets on disk, a run of a frame, and a plan of a stream."""

import json
import sys
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from evalkit.cli import main
from evalkit.config import DatasetConfig
from evalkit.core.errors import ConfigError
from evalkit.datasets import Dataset, load_cases
from tests.support import fake_provider

ROWS: list[dict[str, Any]] = [
    {"id": "1", "prompt": "P", "response_a": "x", "response_b": "y", "label": "A", "n": 1,
     "cost": 0.5},
    {"id": "2", "prompt": "Q", "response_a": "x", "response_b": "z", "label": None, "n": None,
     "cost": None},
]  # fmt: skip


def load(frame: Any, **settings: Any) -> Dataset:
    return load_cases(DatasetConfig(**settings), mode="pairwise", frame=frame)


@pytest.fixture
def right(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return load_cases(DatasetConfig(path=str(path)), mode="pairwise")


@pytest.mark.parametrize("frame", [
    ROWS,
    pyarrow.Table.from_pylist(ROWS),
    polars.DataFrame(ROWS),
    pandas.DataFrame(ROWS, dtype=object),
    pandas.DataFrame(ROWS).convert_dtypes(),
], ids=["mappings", "arrow", "polars", "pandas", "nullable"])  # fmt: skip
def test_each_kind_of_frame_gives_the_cases_of_the_file(frame, right):
    dataset = load(frame)
    assert dataset.fingerprint == right.fingerprint
    assert dataset.source == "frame"
    assert [note.replace("frame:row ", "") for note in dataset.notes] == [
        "cases without a label: 1 of 2"
    ]


def test_what_pandas_holds_becomes_plain(right):
    frame = pandas.DataFrame(
        {
            "prompt": ["p"],
            "response_a": [3],
            "response_b": [True],
            "when": [pandas.Timestamp("2026-01-02")],
            "gone": [pandas.NaT],
            "vector": [np.array([1, 2])],
            7: [np.float32(0.5)],
        }
    )
    dataset = load(frame)
    assert [response.text for response in dataset.cases[0].responses] == ["3", "true"]
    assert dataset.cases[0].metadata == {
        "when": "2026-01-02T00:00:00",
        "gone": None,
        "vector": [1, 2],
        "7": 0.5,
    }
    assert "numbers and booleans read as text: 2 (first: frame:row 1)" in dataset.notes
    many = pandas.DataFrame([{**ROWS[0], "id": str(i)} for i in range(5000)])
    assert [case.id for case in load(many, sample={"n": 3, "seed": 1}).cases] == [
        case.id for case in load(many.to_dict("records"), sample={"n": 3, "seed": 1}).cases
    ]


@pytest.mark.parametrize(("frame", "said"), [
    ("text", "frame: cases of type str cannot be read; use a frame"),
    ((row for row in ROWS), "frame: cases of type generator cannot be read"),
    ([1], "frame:row 1: the row is of type int, not a mapping"),
    (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "frame: two columns are named 'a'"),
    (pandas.DataFrame({"prompt": ["p"]}), "frame:row 1: no column 'response'"),
    ([], "frame: the file has no rows"),
])  # fmt: skip
def test_what_is_no_frame_is_one_line(frame, said):
    with pytest.raises(ConfigError) as caught:
        load(frame)
    assert str(caught.value).startswith(said)


# Hugging Face


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("hub")
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HOME", str(folder / "home"))
        import datasets

        datasets.disable_progress_bars()
        plain = datasets.Dataset.from_list(ROWS)
        plain.save_to_disk(str(folder / "one"))
        datasets.DatasetDict({"train": plain, "test": plain.select([1])}).save_to_disk(
            str(folder / "two")
        )
        (folder / "files").mkdir()
        (folder / "files" / "test.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8"
        )
        yield folder


@pytest.mark.slow
def test_a_data_set_saved_to_disk(hub, right):
    def read(name: str, **settings: Any) -> Dataset:
        return load_cases(DatasetConfig(path=str(hub / name), **settings), mode="pairwise")

    assert read("one", format="hf").fingerprint == read("one").fingerprint == right.fingerprint
    assert [case.id for case in read("two", split="test").cases] == ["2"]
    assert read("files", format="hf", split="test").fingerprint == right.fingerprint
    for settings, said in (
        ({}, "dataset.split: not set, and the dataset has several splits; choose from test, train"),
        ({"split": "tset"}, "dataset.split: no split 'tset'; did you mean 'test'?"),
    ):
        with pytest.raises(ConfigError) as caught:
            read("two", **settings)
        assert str(caught.value) == said


def test_a_name_that_cannot_be_loaded_or_no_library(hub, monkeypatch):
    config = DatasetConfig(path="nobody/nothing", format="hf")
    with pytest.raises(ConfigError, match=r"^nobody/nothing: cannot be loaded \("):
        load_cases(config, mode="pairwise")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        ConfigError,
        match=r"needs the library datasets; install it: pip install 'evalkit-judge\[hf\]'",
    ):
        load_cases(config, mode="pairwise")


# A run of a frame, and plans


def test_a_frame_is_run_and_the_config_does_not_claim_another_data_set(provider, tmp_path):
    from evalkit import load_config, run

    provider.rule = lambda _: fake_provider.said("[[A]]")
    judge = [
        "judge=openai_compatible",
        "judge.model=openai/m",
        f"judge.api_base={provider.api_base}",
    ]
    judge.append("judge.transport=direct")
    config = load_config(overrides=[*judge, "output=bracket", "tracking=none", "swap=none"])
    result = run(config, tmp_path / "run", cases=polars.DataFrame(ROWS))
    assert [verdict.winner for verdict in result.verdicts] == ["A", "A"]
    assert result.manifest["dataset"]["source"] == "frame"
    assert result.config.dataset.path is None
    assert (tmp_path / "run" / "cases.jsonl").read_text(encoding="utf-8").count("\n") == 2


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["plan", "judge=gpt-4o-mini", *words]) == 0
    return capsys.readouterr().out.splitlines()[1:]


def test_a_plan_counts_the_same_whether_it_holds_hashes_or_not(tmp_path, monkeypatch, capsys):
    from evalkit.core import spool

    rows = [{**ROWS[0], "id": str(i), "prompt": f"P{i % 20}"} for i in range(40)]
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["dataset=file", f"dataset.path={path}", "swap=none,both", "-m"]
    held = planned(capsys, *words)
    # A job's name may go on over several lines; its numbers, seven with the price, stand in one of
    # them.
    counts = [
        line.split()[-7:-4]
        for line in held
        if line.split()[-1:] and line.split()[-1].startswith("$")
    ]
    assert counts == [["40", "0", "20"], ["80", "0", "40"], ["120", "0", "40"]]
    monkeypatch.setattr(spool, "_HELD", 4)
    assert planned(capsys, *words) == held
