"""Conclusions about data that is not ideal: what a reader of the printed sentence learns, in both languages."""

import json
import re

import numpy as np
import pytest

from tests.support.situations import Rows, classes, judged, pairs, scores, sides, some

OTHER = {"pass": "fail", "fail": "pass"}
TASKS = ["code", "prose"]


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


def one_missing() -> Rows:
    """Return 277 verdicts, of which one is missing."""
    rng = np.random.default_rng(0)
    labels = [str(label) for label in rng.choice(["pass", "fail"], 277)]
    answers = [label if rng.random() < 0.97 else OTHER[label] for label in labels]
    return classes(labels, ["", *answers[1:]])


def bad_slice() -> Rows:
    """Return 800 verdicts, right in 97%, and a coin's on the 196 German ones."""
    rng = np.random.default_rng(0)
    labels = [str(label) for label in rng.choice(["pass", "fail"], 800)]
    languages = ["de"] * 196 + ["en", "fr"] * 302
    right = np.where(np.array(languages) == "de", 0.5, 0.97)
    answers = [
        label if rng.random() < share else OTHER[label]
        for label, share in zip(labels, right, strict=True)
    ]
    rows = classes(labels, answers)
    return [{**row, "language": one} for row, one in zip(rows, languages, strict=True)]


def stratum() -> Rows:
    """Return the most frequent label of each task as its verdict."""
    rng = np.random.default_rng(0)
    tasks = ["code", "chat"] * 200
    labels = ["pass" if (rng.random() < 0.85) == (task == "code") else "fail" for task in tasks]
    answers = ["pass" if task == "code" else "fail" for task in tasks]
    rows = classes(labels, answers)
    return [{**row, "task": task} for row, task in zip(rows, tasks, strict=True)]


def by_length() -> Rows:
    """Return scores that are the length of the response."""
    rng = np.random.default_rng(0)
    words = rng.integers(5, 200, 300)
    grades = np.clip(np.round(words / 40 + rng.normal(0, 1, 300)), 1, 5)
    rows = scores([float(one) for one in grades], [round(1 + n / 50, 1) for n in words.tolist()])
    return [{**row, "response": "w " * n} for row, n in zip(rows, words.tolist(), strict=True)]


def half_of_a_class() -> Rows:
    """Return verdicts that find 48 of 100 fails: the interval spans a half."""
    answers = ["fail"] * 48 + ["pass"] * 52 + ["pass"] * 295 + ["fail"] * 5
    return classes(["fail"] * 100 + ["pass"] * 300, answers)


def few_prompts() -> Rows:
    """Return 10 prompts of 40 responses, of which every verdict is right."""
    labels = [str(label) for label in np.random.default_rng(0).choice(["pass", "fail"], 400)]
    rows = classes(labels, labels)
    return [{**row, "prompt": f"Question {n % 10}?"} for n, row in enumerate(rows)]


def split_panel() -> Rows:
    """Return a good and a bad judge, who contradict each other in a third of the cases."""
    rng = np.random.default_rng(0)
    labels = [str(label) for label in rng.choice(["pass", "fail"], 300)]
    rows: Rows = []
    for name, share in (("judge_a", 0.94), ("judge_b", 0.68)):
        answers = [label if rng.random() < share else OTHER[label] for label in labels]
        rows += [{**row, "judge": name} for row in classes(labels, answers)]
    return rows


def annotated() -> Rows:
    """Return a judge of 90% next to three annotators of 97%."""
    rng = np.random.default_rng(3)
    truth = sides(300)

    def said(share: float) -> list[str]:
        return [side if rng.random() < share else {"A": "B", "B": "A"}[side] for side in truth]

    rows = pairs([None] * 300, said(0.9), said(0.9))
    labels = [said(0.97) for _ in range(3)]
    return [
        {**row, **{f"label.{k}": labels[k][int(row["id"][1:])] for k in range(3)}} for row in rows
    ]


def wrong_in(labels: list[str], share_right: np.ndarray, seed: int) -> list[str]:
    """Return verdicts that are right with these probabilities, otherwise any of the other classes."""
    rng = np.random.default_rng(seed)
    names = sorted(set(labels))
    return [
        label if rng.random() < share else str(rng.choice([x for x in names if x != label]))
        for label, share in zip(labels, share_right, strict=True)
    ]


def no_answer_to_one_of_three() -> Rows:
    """Return 300 verdicts of three classes, right in 98%, where 60% of the bad ones have no answer."""
    labels = ["bad"] * 120 + ["good", "fair"] * 90
    answers = wrong_in(labels, np.full(300, 0.98), 1)
    answers[:72] = [""] * 72
    return classes(labels, answers)


def no_answer_to_low_grades() -> Rows:
    """Return 300 scores where 60% of the responses with the lowest grades have none."""
    grades = [1.0] * 60 + [2.0] * 60 + [3.0, 4.0, 5.0] * 60
    rows = scores(grades, grades)
    return [{**row, "score": ""} if n % 5 < 3 and n < 120 else row for n, row in enumerate(rows)]


def no_winner_where_a_is_better() -> Rows:
    labels = ["A"] * 150 + ["B"] * 150
    winners = wrong_in(labels, np.full(300, 0.98), 2)
    winners[:90] = ["none"] * 90
    return pairs(labels, winners, winners)


def usual(column: str, values: list[str], right: float) -> Rows:
    """Return verdicts that are the usual label of a column's value, as the labels are in a share."""
    rng = np.random.default_rng(4)
    usual_label = ["pass" if value < "m" else "fail" for value in values]
    labels = [x if rng.random() < right else OTHER[x] for x in usual_label]
    rows = classes(labels, usual_label)
    return [{**row, column: value} for row, value in zip(rows, values, strict=True)]


def labels_of_fails() -> Rows:
    """Return 400 verdicts, of which all fails have a label, and a tenth of the others."""
    rng = np.random.default_rng(13)
    labels = [str(label) for label in rng.choice(["pass", "pass", "pass", "fail"], 400)]
    rows = classes(labels, wrong_in(labels, np.full(400, 0.95), 14))
    return [
        row if row["class"] == "fail" or rng.random() < 0.1 else {**row, "label": None}
        for row in rows
    ]


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
    "one missing": (one_missing, CLASSES, r"^(?!.*anywhere).*Trust this judge", "信任|可信"),
    "a bad slice": (bad_slice, CLASSES, r"but not where language is de: kappa", "language"),
    "only the stratum": (stratum, CLASSES, r"Do not trust this judge: it only knows task", "task"),
    "by length": (by_length, SCALE, r"follow the length of responses", "长度"),
    "half of a class": (half_of_a_class, CLASSES, r"^(?!.*finds only).*Trust", "校正"),
    "constant pairs": (
        lambda: pairs(sides(150, 0.6), ["A"] * 150),
        (),
        r"Do not trust this judge: all 150 verdicts are A",
        "不要信任",
    ),
    "few prompts": (few_prompts, CLASSES, r"of new prompts: the labels are of 10 clusters", "聚类"),
    "two labels": (lambda: pairs(["A", "B"], ["A", "A"]), (), r"2 labels are too few", "太少"),
}
THREE = ("rubric.classes={good: good, fair: fair, bad: bad}",)
LIKERT = ("rubric.min=1", "rubric.max=5", "rubric.step=1")
ONLY_KNOWS = r"^(?!.*Trust).*(only knows|may only know) {}\b"
SITUATIONS |= {
    "only the task, few labels": (
        lambda: usual("task", TASKS * 20, 0.95),
        CLASSES,
        ONLY_KNOWS.format("task"),
        "task",
    ),
    "only the system": (
        lambda: usual("model", ["gpt", "qwen"] * 100, 0.9),
        CLASSES,
        ONLY_KNOWS.format("model"),
        "model",
    ),
}
OF_THE_SAME_KINDS = {
    "missing by label, three classes": (
        no_answer_to_one_of_three,
        THREE,
        r"corrected by labels.*of 300 labeled.*'bad' less often",
        "没有结论",
    ),
    "missing by label, pairs": (
        no_winner_where_a_is_better,
        (),
        r"^(?!.*single verdicts).*(favor B by|Fix the missing answers)",
        "没有结论|缺失",
    ),
    "missing by grade": (
        no_answer_to_low_grades,
        LIKERT,
        r"^(?!.*single ones).*(higher than the labels|Fix the missing answers)",
        "没有结论|缺失",
    ),
    "labels by verdict": (
        labels_of_fails,
        CLASSES,
        r"^(?!.*Trust).*Label cases sampled at random.*by \d\d \[.*not chosen at random",
        "不是随机抽取的",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*SITUATIONS, *(pytest.param(name, marks=pytest.mark.thorough) for name in OF_THE_SAME_KINDS)],
)
def test_data_that_is_not_ideal(call, tmp_path, monkeypatch, name):
    monkeypatch.setenv("EVALKIT_LANGUAGE", "en")
    rows, words, english, chinese = (SITUATIONS | OF_THE_SAME_KINDS)[name]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows())
    (tmp_path / "judged.jsonl").write_text(lines, "utf-8")
    fast = ("tracking=none", "scoring.bootstrap=200", "prompt=zh", "hydra.run.dir=run")
    done = call("import", "generic", "judged.jsonl", *fast, *words)
    first = next(line for line in done.out.splitlines() if re.match(r"\s*[✓✗!•] ", line))
    assert re.search(english, first), first
    assert not re.search(r"\d more pairs", first) or name != "two labels"
    sentence = (tmp_path / "run" / "findings.md").read_text("utf-8").splitlines()[0]
    assert re.search(chinese, sentence), sentence


FURTHER = {
    "a split panel": (
        split_panel,
        CLASSES,
        (r"of 300 labeled responses are split", r"judge_a can replace all 2 .* of 300 labels"),
    ),
    "annotators": (
        annotated,
        (),
        (
            r"less well than an annotator does",
            r"replace 3 of 3 annotators\. The test .* by 0\.2 .*still agree less well",
        ),
    ),
    "one annotator": (half_of_a_class, CLASSES, (r"a second one on 50 of these cases",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FURTHER)
def test_findings_do_not_contradict_each_other(call, tmp_path, name):
    rows, words, patterns = FURTHER[name]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows())
    (tmp_path / "judged.jsonl").write_text(lines, "utf-8")
    fast = ("tracking=none", "scoring.bootstrap=200", "hydra.run.dir=run")
    call("import", "generic", "judged.jsonl", *fast, *words)
    found = (tmp_path / "run" / "findings.md").read_text("utf-8").replace("\\", "")
    for pattern in patterns:
        assert re.search(pattern, found), found
