"""The embedded judge, aligned from the command line in both languages."""

import json
import re
from pathlib import Path

import pytest

from tests.support.command_line import BRIEF, call_main

TEXTS = {
    "en": ("Name a prime number below {n}.", "2 is prime.", "4 is prime."),
    "zh": ("说出一个小于 {n} 的质数。", "2 是质数。", "4 是质数。"),
}


@pytest.mark.local
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_embedded_judge_is_aligned(language, here, capfd):
    prompt, *responses = TEXTS[language]
    rows = [
        {
            "id": k,
            "prompt": prompt.format(n=k + 5),
            "response": responses[k % 2],
            "label": ("pass", "fail")[k % 2],
        }
        for k in range(10)
    ]
    Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    how = [
        f"prompt={language}", "mode=pointwise", "criteria=overall", "rubric=pass_fail",
        "judge.max_tokens=60",
    ]  # fmt: skip
    if language == "zh":
        how[3:4] = ["rubric=pass_fail_zh", "dataset.label_map={pass: 通过, fail: 不通过}"]
    data = ("dataset=file", "dataset.path=cases.jsonl", "dataset.holdout=0.3")
    call_main(capfd, "run", "judge=smollm2", *how, *data, *BRIEF, "--output", "run")
    model = ("align.model=local/smollm2-135m-instruct", "align.model.max_tokens=60")
    words = (
        "align", "run", "tune=prompt", *model, "align.prompts=1", "align.cases=1",
        "align.budget_usd=0",
    )  # fmt: skip
    done = call_main(capfd, *words)
    assert re.search("prompt 1 of 1( is not used)?: ", done.err)
    before = json.loads(Path("run/alignments.json").read_text())["alignments"][0]
    assert before["cost_usd"] == 0
    assert before["calls"] > 0
    again = call_main(capfd, *words)
    assert json.loads(Path("run/alignments.json").read_text())["alignments"][1]["calls"] == 0, (
        again.out
    )
