"""Conclusions about data that is not ideal: what a reader of the printed sentence learns, in both languages."""

import json
import re

import numpy as np
import pytest

from tests.support.situations import Rows, classes, judged, pairs, scores, sides, some

OTHER = {"pass": "fail", "fail": "pass"}


def no_answer_to_fails() -> Rows:
    """Return 300 verdicts, right in 99%, where 60% of the fails have no answer."""
    rng = np.random.default_rng(0)
    labels = ["fail"] * 120 + ["pass"] * 180
    answers = [label if rng.random() < 0.99 else OTHER[label] for label in labels]
    answers[:72] = [""] * 72
    return classes(labels, answers)


def split_answers() -> Rows:
    rng = np.random.default_rng(1)
    labels = [str(label) for label in rng.choice(["pass", "fail"], 300)]
    first = [label if rng.random() < 0.98 else OTHER[label] for label in labels]
    second = [OTHER[answer] if k < 69 else answer for k, answer in enumerate(first)]
    return classes(labels, first, second)


def scored(low: float, slope: float, noise: float) -> Rows:
    rng = np.random.default_rng(2)
    grades = [float(grade) for grade in rng.integers(1, 6, 300)]
    given = [round(low + slope * (g - 1) + float(rng.normal(0, noise)), 1) for g in grades]
    return scores(grades, given)


def rare() -> Rows:
    rng = np.random.default_rng(3)
    labels = ["fail"] * 40 + ["pass"] * 1960
    return classes(labels, [x if rng.random() < 0.95 else OTHER[x] for x in labels])


def one_order() -> Rows:
    labels = sides(300)
    return pairs(labels, judged(labels, some(300, 0.95)))


CLASSES = ("rubric.classes={pass: good, fail: bad}",)
SCALE = ("rubric.min=1", "rubric.max=5", "rubric.step=0.1")
SITUATIONS = {
    "missing by label": (
        no_answer_to_fails,
        CLASSES,
        r"only for rates .* corrected by labels.* of 300 labeled.* by 1\d \[.* have no verdict",
        "没有结论",
    ),
    "split": (
        split_answers,
        CLASSES,
        r"of 300 labeled responses, .*69 of 300 .* are split",
        "票数相持",
    ),
    "compressed": (
        lambda: scored(2.1, 0.45, 0.4),
        SCALE,
        r"to order responses .* not to grade them.*compressed \(slope 0\.4",
        "给回答排序",
    ),
    "two scales": (
        lambda: scored(0, 25, 4),
        (),
        r"to order responses, not to grade them.*labels go from 1 to 5",
        "给回答排序",
    ),
    "rare": (rare, CLASSES, r"corrected by labels.*'fail' more often .* its rate is 2%", "校正"),
    "constant": (
        lambda: classes(["pass"] * 135 + ["fail"] * 15, ["pass"] * 150),
        CLASSES,
        "Do not trust this judge: all 150 verdicts are pass",
        "不要信任",
    ),
    "one order": (one_order, (), r"for rates .*nobody knows whether the order matters", "顺序"),
    "identical": (
        lambda: classes(["pass", "fail"] * 30, ["pass", "fail"] * 30),
        CLASSES,
        r"the judge's own word\? Answer with dataset\.label_source",
        "label",
    ),
    "two labels": (lambda: pairs(["A", "B"], ["A", "A"]), (), r"2 labels are too few", "太少"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_data_that_is_not_ideal(call, tmp_path, name):
    rows, words, english, chinese = SITUATIONS[name]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows())
    (tmp_path / "judged.jsonl").write_text(lines, "utf-8")
    fast = ("tracking=none", "scoring.bootstrap=200", "prompt=zh", "hydra.run.dir=run")
    done = call("import", "generic", "judged.jsonl", *fast, *words)
    first = next(line for line in done.out.splitlines() if re.match(r"\s*[✓✗!•] ", line))
    assert re.search(english, first), first
    assert not re.search(r"\d more pairs", first) or name != "two labels"
    sentence = (tmp_path / "run" / "findings.md").read_text("utf-8").splitlines()[0]
    assert re.search(chinese, sentence), sentence
