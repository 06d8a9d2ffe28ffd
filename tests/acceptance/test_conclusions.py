"""The printed conclusions about judges of known quality: what a reader learns, in both languages, and what is not said.

Each situation goes through the commands that users type. The terminal is in English; with
`prompt=zh`, findings.md is in Chinese.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from benchmarks.decisions import JUDGES, SCORED, Run
from evalkit.core.types import Metric
from evalkit.scoring.decision import decide, labels_at_hand
from evalkit.scoring.pipeline import score_run
from tests.support.command_line import Done, fake
from tests.support.fake_provider import Provider, Reply, said
from tests.support.situations import OTHER, Rows, classes, judged, pairs, scores, sides, some
from tests.support.thorough import some_of

Call = Callable[..., Done]
FAST = ("tracking=none", "scoring.bootstrap=200")
USELESS, TRUST, ANY_TRUST = (
    *("Do not trust this judge", "Trust this judge for single verdicts", r"^\W*Trust "),
)
LABEL_MORE = r"Label (about|some)"
GRADES = [float(k % 5 + 1) for k in range(1000)]
YES = {"A": "yes", "B": "no"}


@dataclass(frozen=True)
class Situation:
    """Rows, and patterns of what the printed conclusion says, never says, and says in Chinese.

    `words` are for the command. The terminal says nothing of `anywhere`, not even after the
    conclusion.
    """

    name: str
    rows: Callable[[], Rows]
    says: tuple[str, ...]
    never: tuple[str, ...] = ()
    chinese: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    anywhere: tuple[str, ...] = ()


def longer(n: int, follows: float, share: float = 1.0) -> Rows:
    """Return pairs by a judge that takes the longer response in a share of them; labels follow it in another."""
    long = sides(n)
    verdicts = judged(long, some(n, share, 3))
    return pairs(judged(long, some(n, follows, 4)), verdicts, verdicts, longer=long)


def two_wrong(n: int, wrong: int) -> Rows:
    """Return pairs by a judge that is wrong in a few, where the longer response is the worse one."""
    labels, long = sides(n), sides(n, 0.5, 12)
    mistakes = [k for k in range(n) if labels[k] != long[k]][:wrong]
    verdicts = judged(labels, [k not in mistakes for k in range(n)])
    return pairs(labels, verdicts, verdicts, longer=long)


def leaning(n: int) -> Rows:
    labels = sides(n, 0.49)
    verdicts = [
        "A" if label == "A" or extra else "B"
        for label, extra in zip(labels, some(n, 0.57, 9), strict=True)
    ]
    return pairs(labels, verdicts, verdicts, model_a="new", model_b="old")


def too_high(n: int) -> Rows:
    random = Random(5)
    grades = [float(random.choice([2, 3, 3, 4])) for _ in range(n)]
    return scores(grades, [min(5.0, grade + random.choice([1, 1, 2])) for grade in grades])


def annotated(n: int) -> Rows:
    """Return pairs with three annotators; the judge is right in 85%, measured by the majority."""
    labels = sides(n)
    verdicts = judged(labels, some(n, 0.85, 4))
    rows = pairs([None] * n, verdicts, verdicts)
    for row in rows:
        number = int(row["id"][1:])
        label = labels[number]
        row |= {
            "ann": label,
            "bob": label if number % 9 else OTHER[label],
            "cat": label if number % 7 else OTHER[label],
        }
    return rows


def coins(n: int, samples: int) -> Rows:
    random = Random(7)
    labels = [YES[label] for label in sides(n)]
    return classes(
        labels, *([random.choice(["yes", "no"]) for _ in labels] for _ in range(samples))
    )


def says_a(n: int) -> Rows:
    """Return pairs by a judge that says A in 93%; 30% of the labels are A."""
    labels = sides(n, 0.3)
    verdicts = [
        "A" if label == "A" or one else "B"
        for label, one in zip(labels, some(n, 0.9, 3), strict=True)
    ]
    return pairs(labels, verdicts, verdicts)


def coin_swaps(n: int) -> Rows:
    first = sides(n, 0.5, 6)
    return pairs([None] * n, first, judged(first, some(n, 0.53, 7)))


def right(n: int, share: float) -> Rows:
    labels = sides(n)
    verdicts = judged(labels, some(n, share))
    return pairs(labels, verdicts, verdicts)


def fatal(n: int, missed: int) -> Rows:
    labels = ["fatal"] * missed + ["safe", "rude"] * ((n - missed) // 2)
    return classes(labels, ["rude" if label == "fatal" else label for label in labels])


def few(n: int) -> Rows:
    labels = list("ABAB" * 3)[:n]
    return pairs(labels, labels, labels)


SITUATIONS = (
    Situation(
        "perfect scores",
        lambda: scores(GRADES, GRADES),
        (
            r"Trust its scores, also of single responses like these: Spearman 1\.00 \[0\.9\d, 1\.00\] with 1,000 labels",  # noqa: E501
        ),
        (LABEL_MORE, "too few"),
        ("可以信任它的评分",),
    ),
    Situation(
        "always the longer",
        lambda: longer(200, 0.5),
        (
            USELESS,
            "no more than by chance",
            r"it takes the longer response in 100% \[98, 100\] of pairs",
        ),
        ("labels are not reversed",),
        ("选择较长的回答",),
        anywhere=("do not show whether that is a preference for length",),
    ),
    Situation(
        "leans to a system",
        lambda: leaning(500),
        (
            "Trust this judge only for rates over many pairs, corrected by labels",
            r"favors new by 2\d \[2\d, 3\d\] points",
        ),
        (r"averages over many", TRUST),
        ("经标注校正", "偏向 new"),
    ),
    Situation(
        "scores too high",
        lambda: too_high(500),
        (
            "to order responses and, corrected by labels, for averages, not to grade them",
            r"higher than the labels by 3\d \[\d+, \d+\]% of",
        ),
        (),
        ("经标注校正", "偏高"),
    ),
    Situation(
        "four labels, all right",
        lambda: few(4),
        (r"Label more pairs before you decide: 4 labels are too few",),
        (r"about -", r"\d+ more"),
        ("4 个标注太少",),
    ),
    Situation(
        "three annotators",
        lambda: annotated(100),
        (
            r"Trust this judge only for rates over many pairs, corrected by labels",
            r"the labels show the rates of A and B only within \d+ points",
            r"right in \d\d% \[\d+, \d+\] of 100 labeled pairs",
        ),
        ("without labels",),
        ("100 个有标注的回答对",),
        words=("--fields", "label.ann=ann", "label.bob=bob", "label.cat=cat"),
    ),
    Situation(
        "samples that disagree",
        lambda: coins(200, 2),
        (USELESS, "asked the same question again, it contradicts itself", "Labels would not help"),
        ("[Mm]issing", LABEL_MORE),
        ("自相矛盾",),
    ),
    Situation(
        "says A in 93%",
        lambda: says_a(400),
        (
            USELESS,
            "hardly more than by chance",
            r"kappa 0\.0\d",
            r"favor A by 6\d \[\d+, \d+\] points",
        ),
        ("reversed", "less than chance"),
        ("几乎不高于随机", "偏向 A"),
    ),
    Situation(
        "a coin in each order",
        lambda: coin_swaps(400),
        (
            USELESS,
            r"swapping the order changes its verdict in 47% \[\d+, \d+\] of 400 pairs",
            "Labels would not help",
        ),
        (LABEL_MORE,),
        ("无济于事",),
    ),
    Situation(
        "0.695",
        lambda: right(200, 0.695),
        (r"right in 70% \[63, 76\]",),
        (),
        ("70%",),
        anywhere=(r"0\.69 ",),
    ),
    Situation(
        "a given scale",
        lambda: scores(GRADES[:60], GRADES[:60]),
        ("Trust its scores",),
        (),
        ("可以信任",),
        words=("rubric.min=1", "rubric.max=5"),
        anywhere=("does not state the scale",),
    ),
    Situation(
        "one fatal label",
        lambda: fatal(301, 1),
        (r"[Aa]lso, only 1 label is 'fatal', and it missed it",),
        (r"\b1 labels",),
        ("只有 1 个标注为“fatal”",),
    ),
    Situation(
        "labels follow length",
        lambda: longer(300, 0.8),
        (
            "only for rates over many pairs, corrected",
            r"takes the longer response in 100% \[99, 100\] .* right only where",
        ),
        (),
        ("选择较长的回答",),
    ),
    Situation(
        "two wrong of 200",
        lambda: two_wrong(200, 2),
        (
            r"Trust this judge for single verdicts .* right in 99% \[9\d, 100\] of 200 labeled pairs, kappa [^;]*\.$",
        ),
        (),
        (r"99%",),
        anywhere=("[Pp]refers longer",),
    ),
    Situation(
        "two classes, one label each",
        lambda: classes(["yes", "no"], ["yes", "yes"]),
        ("2 labels are too few",),
        (),
        ("2 个标注太少",),
        words=("rubric.positive=yes",),
        anywhere=("Of 1 responses", "of 1 others", "positive class"),
    ),
    Situation(
        "consistent by construction",
        lambda: pairs([None] * 30, sides(30), sides(30)),
        (r"Label about \d+ pairs first",),
        (),
        ("请先标注",),
        anywhere=("shown first wins", "preference for the answer shown first"),
    ),
)


@pytest.fixture(autouse=True)
def _in_english(monkeypatch):
    """The terminal in English, although the reports are in Chinese."""
    monkeypatch.setenv("EVALKIT_LANGUAGE", "en")


@pytest.fixture
def brought(call, tmp_path):
    """Imports rows; returns the conclusion, all the terminal says, and findings.md in Chinese."""

    def bring(rows: Rows, *words: str) -> tuple[str, str, str]:
        (tmp_path / "judged.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows), "utf-8"
        )
        done = call(
            "import",
            "generic",
            "judged.jsonl",
            *FAST,
            "prompt=zh",
            "hydra.run.dir=run",
            "--overwrite",
            *words,
        )
        return conclusion(done), done.out + done.err, chinese(tmp_path / "run")

    return bring


def conclusion(done: Done) -> str:
    """Return the first finding that a command printed."""
    return next(line.strip()[2:] for line in done.out.splitlines() if re.match(r"\s*[✓✗!•] ", line))


NOT_CHINESE = (
    r"alt-test|fatal|[Ss]pearman|dataset\.label\\?_source|swap\.policy=both|rubric\.\w+"
    r"|scoring\.alt\\?_test\\?_epsilon|item(?= 为 )|\w+\\?_length"
)
"""Names and settings that a Chinese sentence may contain."""


def chinese(folder: Path) -> str:
    text = (folder / "findings.md").read_text("utf-8")
    assert not re.search(r"[a-z]{4,}", re.sub(NOT_CHINESE, "", text)), text
    return text


def check(first: str, everything: str, zh: str, situation: Situation) -> None:
    for pattern in situation.says:
        assert re.search(pattern, first), first
    for pattern in situation.never:
        assert not re.search(pattern, first), first
    for pattern in situation.anywhere:
        assert not re.search(pattern, everything), everything
    for pattern in situation.chinese:
        assert re.search(pattern, zh.splitlines()[0]), zh


@pytest.mark.slow
@pytest.mark.parametrize("situation", some_of(SITUATIONS, 2), ids=lambda situation: situation.name)
def test_imported_verdicts(brought, situation):
    check(*brought(situation.rows(), *situation.words), situation)


ITEMS = some(300, 0.6)
MISSES = [label or k % 5 > 1 for k, label in enumerate(ITEMS)]
CHECKLISTS = (
    Situation(
        "all labels met",
        lambda: items([True] * 240, some(240, 0.93)),
        (
            "Add labels of another class first: all 240 labels are the same",
            r"same answer in 93% \[\d+, \d+\]",
        ),
        ("without labels",),
        ("其他类别的标注",),
    ),
    Situation(
        "finds 40% of what is not met",
        lambda: items(ITEMS, MISSES),
        (
            "corrected by labels",
            r"met 2\d \[\d+, \d+\] points more often",
        ),
        (TRUST, r"finds only 4\d%"),
        ("经标注校正",),
    ),
    Situation(
        "reversed items",
        lambda: items(ITEMS, [label == (k % 11 == 0) for k, label in enumerate(ITEMS)]),
        (USELESS, "less than chance", "check that the labels are not reversed"),
        (r"judge yet\b",),
        ("低于随机",),
    ),
)


def items(labels: Sequence[bool], answers: Sequence[bool] | None = None) -> Rows:
    """Return cases with five checklist items each, whose criteria say what the judge answers."""
    listed = [
        {
            "id": f"i{k % 5}",
            "criterion": f"item {k}: {'met' if given else 'not_met'}",
            "label": label,
        }
        for k, (label, given) in enumerate(zip(labels, answers or labels, strict=True))
    ]
    return [
        {
            "id": f"c{k}",
            "prompt": f"Question {k}?",
            "response": f"Answer {k}.",
            "rubrics": listed[k : k + 5],
        }
        for k in range(0, len(labels), 5)
    ]


def answers_items(body: Mapping[str, Any]) -> Reply:
    """Answer each item as its criterion says."""
    given = re.findall(r"item \d+: (met|not_met)$", asked(body), re.MULTILINE)
    return said(
        json.dumps(
            {
                "items": [
                    {"item": k, "reason": "so", "answer": one} for k, one in enumerate(given, 1)
                ]
            }
        )
    )


def asked(body: Mapping[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


@pytest.fixture
def run(call, tmp_path, provider, monkeypatch):
    """Runs a judge of the test's own over rows."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    def start(rows: Rows, *words: str) -> Done:
        (tmp_path / "cases.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows), "utf-8"
        )
        data = ["dataset=file", "dataset.path=cases.jsonl", "judge.transport=direct"]
        return call("run", *fake(provider), *data, *FAST, *words)

    return start


@pytest.mark.slow
@pytest.mark.parametrize("situation", CHECKLISTS, ids=lambda situation: situation.name)
def test_checklists(run, provider, tmp_path, situation):
    provider.rule = answers_items
    words = ("mode=checklist", "mode.ask=together", "dataset.fields.checklist=rubrics", "prompt=zh")
    done = run(situation.rows(), *words, "hydra.run.dir=run")
    check(conclusion(done), done.out, chinese(tmp_path / "run"), situation)


SCORERS = {
    "perfect": lambda k: k % 5 + 1,
    "coin": lambda k: k * 7919 % 101 % 5 + 1,
    "same": lambda k: 4,
}


def scores_answers(body: Mapping[str, Any]) -> Reply:
    """Score as the judge of that name does."""
    found = re.search(r"Answer (\d+)$", asked(body), re.MULTILINE)
    given = {
        "criterion": "overall quality",
        "justification": "so",
        "score": SCORERS[body["model"]](int(found[1])),
    }
    return said(json.dumps({"scores": [{**given, "examples": []}], "summary": {}}))


def sweep(run: Call, provider: Provider, *models: str) -> Done:
    provider.rule = scores_answers
    rows = [
        {"id": f"c{k}", "prompt": f"Q{k}?", "response": f"Answer {k}", "label": k % 5 + 1}
        for k in range(200)
    ]
    names = ",".join(f"openai/{model}" for model in models)
    words = (
        "mode=pointwise",
        "criteria=overall",
        f"judge.model={names}",
        f"hydra.sweep.dir={len(models)}",
    )
    return run(rows, *words, "-m")


@pytest.mark.slow
def test_a_sweep_says_once_which_judge_to_use_or_that_none_is_useful(run, provider):
    out = " ".join(sweep(run, provider, "perfect", "coin", "same").out.split())
    last = out.rpartition("leaderboard: ")[2]
    assert re.search(
        r"! Use judge.model=openai/perfect \(.*\): the only one shown to be useful; Spearman 1\.00 \[|"
        r"✓ Use judge.model=openai/perfect \(single verdicts\): .*Spearman 1\.00 \[",
        last,
    )
    untrusted = re.findall(r"Do not trust 2 of 3: (.*?\))\. ", out)
    assert len(untrusted) == 1
    assert "openai/perfect" not in untrusted[0]
    assert {"coin", "same"} == set(re.findall(r"openai/(\w+)", untrusted[0]))
    assert "better than chance" not in out
    assert not re.search(r"\d of 3 jobs", out)
    out = " ".join(sweep(run, provider, "coin", "same").out.split())
    assert "✗ Use none of these configurations: no judge is to be trusted." in out


def picked_labels(call: Call, folder: Path, *, known: bool) -> tuple[str, dict[str, Any]]:
    """Label 50 of 600 pairs that `export --n` picks; return what is printed, and the accuracy.

    The judge is right in 70% of all pairs, but in half of those whose orders disagree. These are
    picked more often.
    """
    labels, first = sides(600), judged(sides(600), some(600, 0.7))
    (folder / "judged.jsonl").write_text(
        "".join(
            f"{json.dumps(row)}\n"
            for row in pairs([None] * 600, first, judged(first, some(600, 0.8, 5)))
        ),
        "utf-8",
    )
    call("import", "generic", "judged.jsonl", *FAST, "hydra.run.dir=run")
    call("export", "run", "--to", "argilla", "--n", "50")
    tasks = json.loads((folder / "run" / "argilla.json").read_text("utf-8"))
    for task in tasks:
        about = task["metadata"]
        label = labels[int(about["case_id"][1:])]
        value = OTHER[label] if about["shown"] == "1,0" else label
        task["responses"] = {"better": [{"value": value, "user_id": "ann"}]}
        if not known:
            del about["inclusion_probability"]
    (folder / "labels.json").write_text(json.dumps(tasks), "utf-8")
    if not known:
        (folder / "run" / "label-sample.json").unlink()
    out = call("label", "run", "labels.json", "-v").out
    metrics: dict[str, Any] = json.loads((folder / "run" / "metrics.json").read_text("utf-8"))[
        "metrics"
    ]
    return out, metrics


@pytest.mark.slow
def test_labels_of_sampled_cases_are_about_all_cases(call, tmp_path):
    out, metrics = picked_labels(call, tmp_path, known=True)
    assert (
        "were sampled, informative ones more often. Comparisons with labels are weighted, so they are about all"
        in out
    )
    per_order = metrics["agreement/accuracy_per_order"]
    assert per_order["low"] <= 0.66 <= per_order["high"]


@pytest.mark.slow
def test_labels_of_picked_cases_are_said_not_to_be_about_the_data_set(call, tmp_path):
    out, _ = picked_labels(call, tmp_path, known=False)
    assert re.search(
        r"! Label cases sampled at random before you decide: these labels were picked with unknown",
        out,
    )
    assert not re.search(ANY_TRUST + "|" + USELESS, out, re.MULTILINE)


def repeated(run: Run, times: int) -> Mapping[str, Metric]:
    """Return the metrics of a run whose cases are there several times: the same estimates from more labels."""
    config, cases, judgments = run
    many = [replace(case, id=f"{case.id}-{k}") for k in range(times) for case in cases]
    again = [replace(one, case_id=f"{one.case_id}-{k}") for k in range(times) for one in judgments]
    return score_run(config, many, again).metrics


@pytest.mark.parametrize("judge", some_of(JUDGES, 14), ids=lambda judge: judge.name)
def test_labels_at_hand_and_needed_do_not_grow_at_the_same_estimate(judge):
    for n in (20,) if judge in SCORED else (3, 10):
        few, totals = judge.make(np.random.default_rng(n), n), []
        for times in (1, 3, 10):
            metrics = repeated(few, times)
            decision = decide(metrics, 0.95)
            if decision.use == "unknown" and decision.labels_needed is not None:
                totals.append(labels_at_hand(metrics) + decision.labels_needed)
        assert all(total <= BY_CHANCE * min(totals[:k]) for k, total in enumerate(totals) if k), (
            totals
        )


BY_CHANCE = 1.6
"""Intervals come from 400 resamples, so near the floor the numbers of labels differ by so much."""
