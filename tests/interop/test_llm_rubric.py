"""LLM-Rubric's tables: probabilities of answers, and annotators' answers in another table of the folder."""

from __future__ import annotations

import pytest

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
def folder(write):
    write("tables/gpt_real_evaluations.tsv", JUDGED)
    return write("tables/human_judges.tsv", ANNOTATED).parent


def test_scores_are_expectations_or_the_most_likely_answers(folder, bring):
    ran = bring("llm_rubric", str(folder))
    found = ran.metrics["agreement/rmse"]
    assert found["value"] == pytest.approx((((3.0 - 4) ** 2 + (1.8 - 2) ** 2) / 2) ** 0.5)
    # The answer without a probability could be 3, its grade, or 1, which is farthest from it.
    assert (found["n"], found["missing"]) == (2, 1)
    # No judge is asked, so the prompt's examples do not matter.
    assert "rubric.examples" not in ran.out
    assert found["worst_low"] == pytest.approx((1.04 / 3) ** 0.5)
    assert found["worst_high"] == pytest.approx((5.04 / 3) ** 0.5)
    plain = bring("llm_rubric", str(folder), "scoring.weighted=false").metrics
    assert plain["agreement/rmse"]["value"] == pytest.approx(0.5**0.5)


def test_another_question_is_chosen_and_0_is_no_answer(folder, bring):
    found = bring("llm_rubric", str(folder), "--dimension", "Q1").metrics["agreement/rmse"]
    assert (found["value"], found["n"]) == (2.0, 1)


def test_mistakes_are_one_line(folder, bring):
    assert "no such question" in bring("llm_rubric", str(folder), "--dimension", "Q9", status=1).err
    (folder / "gpt_real_evaluations.tsv").write_text(JUDGED.replace("0.4", "much"))
    assert "a probability is not a number" in bring("llm_rubric", str(folder), status=1).err
