"""A refusal names what is too few: labels, answers, clusters, differences of scores, or judges."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalkit.core.splits import clusters_named, without_labels
from evalkit.core.types import Case, Judgment, Response
from evalkit.workflows.holdout import split_cases
from tests.alignment.conftest import NAMES, pair, passes, write
from tests.alignment.test_search import PANEL, config_of
from tests.support.command_line import call_main
from tests.support.thorough import some_of

pytestmark = pytest.mark.usefixtures("here")

POINTWISE = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
KINDS: dict[str, dict[str, Any]] = {
    "pair": {},
    "response": {**POINTWISE, "judge": PANEL, "rubric": {"classes": {"good": "", "bad": ""}}},
    "score": {**POINTWISE},
}
TUNE = {"pair": "threshold", "response": "vote", "score": "weights"}
REMEDIES = {
    "labels": "; label ",
    "clusters": "all have labels: add",
    "answers": "run it again for missing answers",
    "differences": "align needs labels and scores that differ",
}


def rows(kind: str, n: int) -> tuple[list[Case], list[Judgment]]:
    """Labeled cases, and judges that are right about half of them."""
    if kind == "pair":
        cases = [pair(k, "AB"[k % 2]) for k in range(n)]
        return cases, [one for k in range(n) for one in passes(k, (1.0, 0.3)[k % 2])]
    if kind == "response":
        cases = [
            Case(f"c{k}", f"q{k}", (Response("a", class_name=("good", "bad")[k % 2]),))
            for k in range(n)
        ]
        names = [(judge, "good") for judge in ("j0", "j1", "j2")]
        return cases, [
            Judgment(c.id, (0,), (0,), 0, j, "ok", class_name=name)
            for c in cases
            for j, name in names
        ]
    cases = [Case(f"c{k}", f"q{k}", (Response("a", grade=float(k % 5 + 1)),)) for k in range(n)]
    values = [dict(zip(NAMES, (float(k % 4 + 1), float(k % 3 + 1)), strict=True)) for k in range(n)]
    return cases, [
        Judgment(f"c{k}", (0,), (0,), 0, "m", "ok", criteria=one) for k, one in enumerate(values)
    ]


def make(
    kind: str,
    n: int,
    *,
    labeled: Callable[[int], bool] = lambda _: True,
    answered: Callable[[int], bool] = lambda _: True,
    clusters: int | None = None,
) -> None:
    cases, judgments = rows(kind, n)
    cases = [case if labeled(k) else without_labels(case) for k, case in enumerate(cases)]
    if clusters is not None:
        places = [
            {"conversation": f"v{k % clusters}", "turn": k, "turns": n, "position": k}
            for k in range(n)
        ]
        cases = [replace(case, metadata=place) for case, place in zip(cases, places, strict=True)]
    lost: dict[str, Any] = {"status": "failed", "value": None, "criteria": {}, "class_name": None}
    kept = [one if answered(int(one.case_id[1:])) else replace(one, **lost) for one in judgments]
    write(Path("run"), cases, kept, **KINDS[kind])


def refused(capfd, kind: str, short: str, *texts: str) -> None:
    words = ("align", "run", f"tune={TUNE[kind]}")
    for command in (words, ("plan", *words)) if kind == "pair" else (words,):
        line = call_main(capfd, *command, status=1).line()
        assert [name for name, remedy in REMEDIES.items() if remedy in line] == [short]
        assert all(text in line for text in texts), line
    assert not Path("run/split.json").exists()


@pytest.mark.parametrize("kind", some_of(KINDS, 3))
def test_too_few_of_each_kind_are_named(kind, capfd):
    unit = "response" if kind == "score" else kind
    make(kind, 30, labeled=lambda k: k < 2)
    refused(capfd, kind, "labels", "need a labeled case each, and there are 2; label more cases")
    make(kind, 30, labeled=lambda k: k % 7 < 2, clusters=7)
    refused(
        capfd,
        kind,
        "labels",
        "need a labeled conversation each, and there are 2; label cases of more conversat",
    )
    make(kind, 2)
    refused(
        capfd,
        kind,
        "clusters",
        "need a labeled case each, and there are 2; all have labels: add more cases",
    )
    make(kind, 30, clusters=2)
    refused(
        capfd, kind, "clusters", "and there are 2; all have labels: add cases of more conversations"
    )
    make(kind, 30, answered=lambda _: False)
    refused(capfd, kind, "answers", f"run: 30 {unit}s have a label, and none has a usable answer")
    make(kind, 30, labeled=lambda k: k < 10, answered=lambda k: k >= 10)
    refused(capfd, kind, "answers", f"run: 10 {unit}s have a label, and none has a usable answer")
    for side in ("train", "dev", "test") if kind == "pair" else ("dev",):
        cases, _ = rows(kind, 30)
        ids = split_cases(config_of(**KINDS[kind]), cases, share=0.3, seed=0).ids(side)  # type: ignore[arg-type]
        make(kind, 30, answered=lambda k: f"c{k}" not in ids)  # noqa: B023
        refused(
            capfd,
            kind,
            "answers",
            f"run, {side}: {len(ids)} {unit}s have a label, and none has a usable answer",
        )
    make(kind, 60)
    call_main(capfd, "align", "run", f"tune={TUNE[kind]}")


def test_labels_of_something_else_are_named(capfd):
    cases, judgments = rows("response", 30)
    other = [replace(without_labels(case), labels={"ann": "A"}) for case in cases]
    write(Path("run"), other, judgments, **KINDS["response"])
    for words in (("align", "run"), ("plan", "align", "run")):
        line = call_main(capfd, *words, status=1).line()
        assert (
            line
            == "run: no response that the judge decides has a label; label cases: evalkit label"
        )


def test_equal_scores_are_named(capfd):
    cases, judgments = rows("score", 30)
    equal = [replace(one, criteria=dict.fromkeys(NAMES, 3.0)) for one in judgments]
    write(Path("run"), cases, equal, **POINTWISE)
    refused(
        capfd,
        "score",
        "differences",
        "agreement/spearman has no value on 30 labeled responses: scores or grades",
    )


def test_settings_that_make_all_scores_of_a_side_equal_are_named(capfd):
    """The run's weights ignore the criterion that varies on dev; on train both vary."""
    cases, _ = rows("score", 60)
    split = split_cases(config_of(**POINTWISE), cases, share=0.3, seed=0)
    judgments = []
    for k, case in enumerate(cases):
        grade = case.responses[0].grade or 0.0
        own = 3.0 if case.id in split.dev else float(k % 4 + 1)
        values = {"accuracy": own, "tone": grade}
        judgments.append(Judgment(case.id, (0,), (0,), 0, "m", "ok", criteria=values))
    settings = {"scoring": {"bootstrap": 50, "weights": {"accuracy": 1, "tone": 0}}, **POINTWISE}
    judge = {"model": "openai/m", "price": {"input": 1, "output": 1}, "max_tokens": 9}
    write(Path("run"), cases, judgments, judge=judge, **settings)
    line = call_main(capfd, "align", "run", "tune=weights", status=1).line()
    assert line.startswith(
        "run, dev, the run's own settings: agreement/spearman has no value on 21 labeled responses"
    )
    assert '"opened": []' in Path("run/split.json").read_text()
    model = (
        "align.model=openai/x",
        "align.model.price={input: 1, output: 1}",
        "align.model.max_tokens=9",
    )
    words = ("tune=criteria", *model, "align.budget_usd=1")
    line = call_main(capfd, "align", "run", *words, status=1).line()
    assert line.startswith(
        "tune=[criteria]: agreement/spearman has no value on dev; align needs labels and scores"
    )


@pytest.mark.parametrize(("n", "sections", "remedy"), [
    (24, {}, "clusters"),
    (24, {"labeled": lambda k: k < 20}, "labels"),
    (120, {"answered": lambda k: k % 5 == 0}, "answers"),
    (120, {"clusters": 12}, "clusters"),
])  # fmt: skip
def test_a_plan_says_what_would_prove_more(n, sections, remedy, capfd):
    make("pair", n, **sections)
    out = call_main(capfd, "plan", "align", "run", "tune=threshold").out
    assert "can prove no gain" in out
    assert [name for name, text in REMEDIES.items() if text in out] == [remedy]
    assert ("with usable answers: train" in out) is (remedy == "answers")
    if "clusters" in sections:
        assert "labeled conversations: train 4, dev 4, test 4" in out
        assert "add cases of more conversations" in out


@pytest.mark.parametrize(
    ("judges", "why"), [(1, "there is one judge"), (2, "2 judges have no other vote")]
)
def test_too_few_judges_are_named(judges, why, capfd):
    cases, judgments = rows("response", 30)
    panel = {**PANEL, "judges": PANEL["judges"][:judges]}
    kept = [one for one in judgments if one.judge < f"j{judges}"]
    write(Path("run"), cases, kept, **{**KINDS["response"], "judge": panel})
    line = call_main(capfd, "align", "run", "tune=vote", status=1).line()
    assert f"nothing can be tuned (vote: {why}" in line
    assert not any(remedy in line for remedy in REMEDIES.values())


def test_clusters_are_named_by_their_column():
    named = [
        clusters_named(by, n) for by in ("id", "prompt", "conversation", "topic") for n in (1, 2)
    ]
    assert named[:4] == ["case", "cases", "prompt", "prompts"]
    assert named[4:] == ["conversation", "conversations", "value of topic", "values of topic"]
