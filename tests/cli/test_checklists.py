"""Checklists from the command line: data or config to scores, asked in three ways, scored again without calls."""

import csv
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from evalkit.compose import load_config
from evalkit.config import DatasetConfig
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.datasets import load_cases
from tests.support.command_line import Done

Call = Callable[..., Done]
RUBRICS = [
    {"id": "light", "criterion": "Names light", "points": 5, "tags": ["facts"], "label": True},
    {"id": "sugar", "criterion": "Names sugar", "points": 3, "after": ["light"], "label": False},
    {"id": "rude", "criterion": "Is rude", "points": -4, "label": False},
]
BASE = (
    *("run", "mode=checklist", "judge=simulated/good", "tracking=none", "scoring.bootstrap=50"),
    "dataset=file",
)


@pytest.fixture
def run(call, tmp_path):
    write(tmp_path, [row(n) for n in range(30)])

    def go(name: str, *more: str, status: int = 0) -> Done:
        data = [
            "dataset.path=cases.jsonl",
            "dataset.fields.checklist=rubrics",
            f"hydra.run.dir={name}",
        ]
        return call(*BASE, *data, *more, status=status)

    return go


def row(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"q{number}",
        "prompt": f"Explain {number}",
        "response": f"It is {number}",
        "rubrics": RUBRICS,
        **more,
    }


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))


def metrics(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "metrics.json").read_text())["metrics"])


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(("output", "prompt"), [("json", "zh"), ("bracket", "en")])
def test_asked_in_three_ways(run, tmp_path, output, prompt):
    keys: list[set[str]] = []
    for ask, requests in (("each", 90), ("together", 30), ("2", 60)):
        run(
            ask,
            f"mode.ask={ask}",
            f"output={output}",
            f"prompt={prompt}",
            "judge.params={accuracy: 1}",
        )
        judgments = lines(tmp_path / ask / "judgments.jsonl")
        assert len(judgments) == requests
        keys.append({key for judgment in judgments for key in judgment["keys"]})
        found = metrics(tmp_path / ask)
        assert found["checklist/missing"]["value"] == 0.0
        assert found["score/mean"]["n"] == 30
    assert not keys[0] & keys[1]
    # A chunk of one item is asked as each item is.
    assert len(keys[0] & keys[2]) == 30


def test_scored_again_without_calls(run, call, tmp_path):
    run("out")
    values = {}
    for rule in ("points", "weighted", "share", "required"):
        call("score", "out", f"scoring.checklist={rule}")
        assert json.loads((tmp_path / "out" / "metrics.json").read_text())["calls"]["sent"] == 90
        values[rule] = metrics(tmp_path / "out")["score/mean"]["value"]
        assert ("score/unclipped" in metrics(tmp_path / "out")) == (rule == "points")
    assert values["weighted"] == values["share"]
    assert len({*values.values()}) == 3


def test_planted_accuracy_and_missing_items_are_found(run, tmp_path):
    run("out", "mode.ask=together", "judge.params={accuracy: 1, missing: 0.3}")
    judgments = lines(tmp_path / "out" / "judgments.jsonl")
    again = [judgment for judgment in judgments if len(judgment["items"]) < 3]
    assert again
    assert all(judgment["arbiter"] is None for judgment in again)
    found = metrics(tmp_path / "out")
    assert 0 < found["checklist/missing"]["value"] < 0.2
    assert found["score/mean"]["missing"] > 0
    assert found["score/mean"]["worst_low"] < found["score/mean"]["worst_high"]


def test_halo_is_found_by_comparing_runs(run, call, tmp_path):
    run("alone", "mode.ask=each")
    for name, halo in (("plain", 0), ("led", 0.8)):
        run(name, "mode.ask=together", f"judge.params={{halo: {halo}}}")
        call("compare", name, "alone", "--output", f"{name}.out", status=0)
    found = {}
    for name in ("plain", "led"):
        between = json.loads((tmp_path / f"{name}.out" / "comparison.json").read_text())["between"]
        found[name] = next(one for one in between if one["metric"] == "checklist/halo")
    assert found["plain"]["low"] < 0 < found["plain"]["high"]
    assert found["led"]["low"] > 0


def test_items_of_all_cases(run, tmp_path):
    write(tmp_path, [row(n) for n in range(5)])
    run("out", "mode.checklist=[Is polite, {criterion: Is short, required: true}]")
    verdict = lines(tmp_path / "out" / "verdicts.jsonl")[0]
    assert [item["id"] for item in verdict["items"]] == ["1", "2", "light", "sugar", "rude"]
    assert "checklist/met_rate/item/1" in metrics(tmp_path / "out")


@pytest.mark.parametrize(
    ("rubrics", "more", "said"),
    [
        (
            [],
            (),
            "cases.jsonl:2: the case has no checklist items; add items, set mode.checklist, or remove the case",
        ),
        (
            [{"criterion": "x", "points": "5"}],
            (),
            "cases.jsonl:2: item 1: points is not a number; write a number",
        ),
        (
            ["x"],
            ("rubric=likert5",),
            "rubric: a checklist's score is from 0 to 1; set rubric=share",
        ),
        (["x"], ("output=rating",), "output.format: mode checklist cannot read 'rating'"),
        (
            ["x"],
            ("mode.checklist=[{criterion: x, points: -1}]",),
            "mode.checklist: no item has positive points",
        ),
        (["x"], ("dataset.fields.checklist=rubric",), "no column 'rubric' for checklist"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, rubrics, more, said):
    write(tmp_path, [row(1), row(2, rubrics=rubrics)])
    done = run("out", *more, status=1)
    assert said in done.line()
    assert not (tmp_path / "out" / "metrics.json").exists()


def tree(depth: int) -> dict[str, Any]:
    item: dict[str, Any] = {"criterion": "It is short"}
    for _ in range(depth - 1):
        item = {"criterion": "It is good", "parts": [item]}
    return item


def table(path: Path, rubrics: list[Any]) -> None:
    """Write two rows, of which the second has these rubrics, in the format of the file's suffix."""
    rows = [row(1), row(2, rubrics=rubrics)]
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows({**one, "rubrics": json.dumps(one["rubrics"])} for one in rows)
    elif path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]")
    else:
        path.write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize("depth", [51, 3000])
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_a_deep_tree_is_one_line(call, run, tmp_path, suffix, depth):
    inner = json.dumps(tree(50))
    text = f"[{inner}]"
    for _ in range(depth - 50):
        inner = f'{{"criterion": "It is good", "parts": [{inner}]}}'
    table(file := tmp_path / f"cases.{suffix}", [tree(50)])
    config = DatasetConfig(path=file.name, fields={"checklist": "rubrics"})
    assert len(load_cases(config, mode="checklist").cases) == 2
    quoted = (lambda one: one.replace('"', '""')) if suffix == "csv" else (lambda one: one)
    file.write_text(file.read_text().replace(quoted(text), quoted(f"[{inner}]")))
    with pytest.raises(DatasetError) as error:
        load_cases(config, mode="checklist")
    lines = [str(error.value)]
    if depth in (51, 3000):  # a command is nearer to the limit of recursion
        lines.append(run("out", f"dataset.path={file.name}", status=1).line())
    for line in lines:
        assert line.startswith(f"cases.{suffix}:{2 if suffix == 'jsonl' else 3}: ")
        assert "\n" not in line
        assert re.search("nested|flatten|is not a JSON list", line)


@pytest.mark.parametrize("depth", [51, 3000])
@pytest.mark.parametrize(
    "file", ["study.yaml", "experiments/deep.yaml", "conf/mode/deep.yaml", "config.yaml"]
)
def test_a_deep_tree_in_a_config_is_one_line(run, call, tmp_path, file, depth):
    inner = '{"criterion": "It is good", "parts": [' * depth + '"x"' + "]}" * depth
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = f"name: checklist\nchecklist: [{inner}]\n"
    study = "defaults: [config, _self_]\nmode:\n  " + mode.replace("\n", "\n  ").rstrip()
    path.write_text(mode if "conf/" in file else study)
    words = ["mode=deep"] if "conf/" in file else [file]
    line = call("run", *words, "judge=simulated/good", "tracking=none", status=1).line()
    assert re.match(
        rf"{file}:\d: nested deeper than 60 levels; flatten it, or move a checklist to the", line
    )
    if words == [file]:
        with pytest.raises(ConfigError, match=r"nested deeper than 60 levels"):
            load_config(str(path))


@pytest.mark.parametrize(
    "lines",
    [
        "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}' if n else 'x'] * 9)}]\n" for n in range(7)),
        "judge: &again {params: *again}\n",
    ],
    ids=["copies of copies", "an alias of itself"],
)
def test_aliases_that_grow_without_bound_are_one_line(call, tmp_path, lines):
    (tmp_path / "study.yaml").write_text(lines)
    line = call("run", "study.yaml", "tracking=none", status=1).line()
    assert re.match(
        r"study.yaml:\d: has more than 100,000 values when its aliases \(\*NAME\) are written out; ",
        line,
    )
    with pytest.raises(ConfigError, match="has more than 100,000 values"):
        load_config(str(tmp_path / "study.yaml"))


def test_a_config_may_have_aliases(call, tmp_path):
    (tmp_path / "study.yaml").write_text("judge: {model: &model simulated/good, name: *model}\n")
    assert "name: simulated/good" in call("run", "study.yaml", "--cfg", "job").out


def test_a_deep_tree_in_an_override_is_one_line(run, call):
    for depth in (60, 120, 300):
        inner = "{criterion: x, parts: [" * depth + "x" + "]}" * depth
        done = call("plan", *BASE[1:], f"mode.checklist=[{inner}]", status=1)
        assert "nested deeper than" in done.line() or "cannot be read as an override" in done.line()


@pytest.mark.parametrize("key", ["points", "weight"])
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
def test_a_number_that_is_nan_is_refused_in_json_and_absent_in_tables(
    run, call, tmp_path, suffix, key
):
    nan = float("nan")
    items = [
        {"criterion": "x", key: nan},
        {"criterion": "y", key: 1.0, "parts": [{"criterion": "z", key: nan}]},
    ]
    table(tmp_path / f"cases.{suffix}", items)
    data = [f"dataset.path=cases.{suffix}", "dataset.fields.checklist=rubrics", "hydra.run.dir=out"]
    if suffix in ("jsonl", "json"):
        line = 2 if suffix == "jsonl" else 3
        said = call(*BASE, *data, status=1).line()
        assert (
            said
            == f"cases.{suffix}:{line}: item 1: {key} is not a number; write a number from -1e9 to 1e9"
        )
        return
    place = "cases.csv:3" if suffix == "csv" else "cases.parquet:row 2"
    call(*BASE, *data)
    notes = json.loads((tmp_path / "out/manifest.json").read_text())["notes"]
    assert f"checklist items whose {key} are NaN, read as absent: 2 (first: {place})" in "\n".join(
        map(str, notes)
    )


def test_nan_in_other_fields_of_json_is_absent(run, call, tmp_path):
    write(
        tmp_path,
        [
            row(1),
            {
                **row(2),
                "context": float("nan"),
                "points": float("nan"),
                "more": {"x": float("nan")},
            },
        ],
    )
    run("out")
    [_, case] = lines(tmp_path / "out/cases.jsonl")
    assert case["metadata"] == {"points": None, "more": {"x": None}}


def test_plan_counts_requests(run, call):
    data = ["dataset.path=cases.jsonl", "dataset.fields.checklist=rubrics"]
    assert "90" in call("plan", *BASE[1:], *data).out
    assert "30" in call("plan", *BASE[1:], *data, "mode.ask=together").out


def test_the_report_shows_a_case_as_its_checklist(run, tmp_path):
    done = run("out", "judge.params={accuracy: 0.95}")
    assert "Agreement with the labels: accuracy " in done.out
    page = (tmp_path / "out" / "report.html").read_text()
    shown = page[page.index('"items":[') :][:400]
    for text in (
        *('"criterion":"Names light"', '"points":5.0', '"answer":', '"explanation":'),
        '"label":"met"',
    ):
        assert text in shown
    found = metrics(tmp_path / "out")
    assert found["checklist/accuracy"]["n"] == 90
    assert {"checklist/kappa", "checklist/tpr", "checklist/tnr"} <= found.keys()


@pytest.mark.usefixtures("mlflow_store")
def test_mlflow_has_one_assessment_per_item(run, tmp_path):
    write(tmp_path, [row(1)])
    run(
        "out",
        f"tracking.uri=sqlite:///{tmp_path}/mlflow.db",
        "tracking=mlflow",
        "mode.ask=together",
    )
    with sqlite3.connect(tmp_path / "mlflow.db") as base:
        rows = base.execute("select name, source_type, rationale from assessments").fetchall()
    by_judge = {name: rationale for name, source, rationale in rows if source == "LLM_JUDGE"}
    assert by_judge.keys() == {"light", "sugar", "rude"}
    assert all(by_judge.values())
    assert {name for name, source, _ in rows if source == "HUMAN"} == {"light", "sugar", "rude"}


def test_a_sweep_ranks_judges_by_their_agreement_on_items(run, tmp_path):
    write(
        tmp_path,
        [row(n, rubrics=[{"criterion": f"Item {n}", "label": n % 2 == 0}]) for n in range(20)],
    )
    done = run("sweep", "-m", "judge.params.accuracy=0.6,1.0", "hydra.sweep.dir=sweep")
    assert "checklist/accuracy" in done.out or "Agreement with annotators on items" in done.out


@pytest.mark.local
@pytest.mark.thorough
@pytest.mark.parametrize("prompt", ["en", "zh"])
def test_the_embedded_judge_answers_each_item(run, tmp_path, prompt):
    write(tmp_path, [row(1)])
    run("out", "judge=smollm2", f"prompt={prompt}", "mode.ask=together")
    assert metrics(tmp_path / "out")["checklist/missing"]["value"] == 0.0
