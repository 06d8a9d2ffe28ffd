"""`evalkit check` on tables in which only people judged."""

from __future__ import annotations

import json
import random
import re
import shlex
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from evalkit.cli import main

ROWS = 40
KINDS = {
    "flag": ("pass", "fail"),
    "class": ("billing", "shipping", "other"),
    "pair": ("A", "B", "tie"),
    "number": (1, 2, 3, 4, 5),
}


def _labels(kind: str, annotators: int) -> list[list[Any]]:
    chance = random.Random(kind)
    words = KINDS[kind]
    truth = [chance.choice(words) for _ in range(ROWS)]
    return [
        [word if chance.random() < 0.75 else chance.choice(words) for word in truth]
        for _ in range(annotators)
    ]


def _texts(kind: str) -> dict[str, list[str]]:
    names = ("response_a", "response_b") if kind == "pair" else ("response",)
    return {name: [f"{name} number {i}, some text" for i in range(ROWS)] for name in names}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["wide", "long", "names"])
def test_annotators_alone(kind, shape, here, capsys):
    labels = dict(zip(("annotator_1", "annotator_2", "annotator_3"), _labels(kind, 3), strict=True))
    if shape == "names":
        labels = dict(zip(("maria", "jon", "wei"), labels.values(), strict=True))
    cells = {"id": [f"c{i}" for i in range(ROWS)], **_texts(kind), **labels}
    table = pd.DataFrame(cells)
    if shape == "long":
        rest = [name for name in table if name not in labels]
        table = table.melt(rest, list(labels), var_name="annotator", value_name="label")
    table.to_csv("t.csv", index=False)
    status = main(["check", "t.csv"])
    printed = capsys.readouterr().out
    # The names of people may also be those of judges, which is a question with this answer.
    assert status == 1
    if shape == "names":
        [answer] = re.findall(r"evalkit (check t.csv --judge NONE .*)", printed)
        assert main(shlex.split(answer)) == 0
    else:
        assert "No judge: 3 annotators" in printed
        assert main(["check", "t.csv", "--judge", "NONE"]) == 0
    answered = capsys.readouterr().out
    assert "No judge: 3 annotators" in answered
    assert main(["check", "t.csv", "--judge", "NONE", "--json", *_named(labels, shape)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["units"], result["labels"]) == (ROWS, 3 * ROWS)
    assert [pair["units"] for pair in result["pairs"]] == [ROWS] * 3
    found = [pair["metric"]["value"] for pair in result["pairs"]]
    if kind == "number":
        oracle = [spearmanr(*both).statistic for both in combinations(labels.values(), 2)]
    else:
        oracle = [cohen_kappa_score(*both) for both in combinations(labels.values(), 2)]
    assert found == pytest.approx(oracle, abs=1e-9)
    equal = [
        sum(map(str.__eq__, map(str, a), map(str, b))) for a, b in combinations(labels.values(), 2)
    ]
    assert [pair["equal"] for pair in result["pairs"]] == equal


def _named(labels: dict[str, list[Any]], shape: str) -> list[str]:
    if shape == "long":
        return []
    return [word for name in labels for word in ("--label", name)]


def test_the_texts_of_annotators_alone_are_in_the_language_of_the_terminal(
    here, capsys, monkeypatch
):
    labels = dict(zip(("annotator_1", "annotator_2"), _labels("flag", 2), strict=True))
    prompts = [f"prompt {i}, with text" for i in range(ROWS)]
    pd.DataFrame({"prompt": prompts, **_texts("flag"), **labels}).to_csv("t.csv", index=False)
    monkeypatch.setenv("EVALKIT_LANGUAGE", "zh")
    assert main(["check", "t.csv", "--judge", "NONE"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("没有裁判：2 位标注者")
    assert "下一步：evalkit run mode=pointwise dataset=file dataset.path=t.csv" in printed


def test_one_annotator_alone_has_nobody_to_agree_with(here, capsys):
    pd.DataFrame({"text": _texts("flag")["response"], "human": _labels("flag", 1)[0]}).to_csv(
        "t.csv", index=False
    )
    assert main(["check", "t.csv", "--judge", "NONE"]) == 1
    assert "fewer than two annotators" in capsys.readouterr().err
    assert main(["check", "t.csv"]) == 1
    printed = capsys.readouterr()
    assert "No judge" not in printed.out
    assert "no column with a judge's verdicts" in printed.err
