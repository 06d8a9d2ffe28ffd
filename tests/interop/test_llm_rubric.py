"""LLM-Rubric's tables: probabilities of answers, and annotators' answers in another table of the folder."""

from __future__ import annotations

import json

import pytest

from evalkit.cli import main

JUDGED = """text_id\tcriterion\tsample_llm\tanswer1_prob\tanswer2_prob\tanswer3_prob\tanswer4_prob
a\tQ0\t4\t0.1\t0.2\t0.3\t0.4
a\tQ1\t1\t1\t0\t0\t0
b\tQ0\t1\t0.5\t0.3\t0.1\t0.1
c\tQ0\t1\t0\t0\t0\t0
"""
ANNOTATED = """dialogue_system\ttext_id\tQ1\tQ0\tannotator_id
0\ta\t3\t4\t22
0\tb\t0\t2\t7
1\tc\t1\t3\t7
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "gpt_real_evaluations.tsv").write_text(JUDGED)
    (tmp_path / "tables" / "human_judges.tsv").write_text(ANNOTATED)
    return tmp_path / "tables"


def imported(folder, *words):
    quiet = ["tracking=none", "scoring.bootstrap=0", "hydra.run.dir=run", "--overwrite"]
    assert main(["import", "llm_rubric", str(folder), *words, *quiet]) == 0
    return json.loads((folder.parent / "run" / "metrics.json").read_text())["metrics"]


def test_scores_are_expectations_or_the_most_likely_answers(folder, capsys):
    found = imported(folder)["agreement/rmse"]
    assert found["value"] == pytest.approx((((3.0 - 4) ** 2 + (1.8 - 2) ** 2) / 2) ** 0.5)
    # The answer without a probability could be 3, its grade, or 1, which is farthest from it.
    assert (found["n"], found["missing"]) == (2, 1)
    # No judge is asked, so the prompt's examples do not matter.
    assert "rubric.examples" not in capsys.readouterr().out
    assert found["worst_low"] == pytest.approx((1.04 / 3) ** 0.5)
    assert found["worst_high"] == pytest.approx((5.04 / 3) ** 0.5)
    found = imported(folder, "scoring.weighted=false")
    assert found["agreement/rmse"]["value"] == pytest.approx(0.5**0.5)


def test_another_question_is_chosen_and_0_is_no_answer(folder):
    found = imported(folder, "--dimension", "Q1")["agreement/rmse"]
    assert (found["value"], found["n"]) == (2.0, 1)


def test_mistakes_are_one_line(folder, capsys):
    assert main(["import", "llm_rubric", str(folder), "--dimension", "Q9", "tracking=none"]) == 1
    assert "no such question" in capsys.readouterr().err
    (folder / "gpt_real_evaluations.tsv").write_text(JUDGED.replace("0.4", "much"))
    assert main(["import", "llm_rubric", str(folder), "tracking=none"]) == 1
    assert "a probability is not a number" in capsys.readouterr().err
