"""Names from data in names of metrics, notes and findings: no invisible character, and no two names become one."""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import load_config
from evalkit.config import RunConfig
from evalkit.core.checklists import read_items
from evalkit.core.display import visible_names
from evalkit.core.types import Case, Judgment, Response
from evalkit.report.findings import findings
from evalkit.report.findings.slices import slice_findings
from evalkit.scoring.pipeline import Scores, score_run
from evalkit.scoring.slices import slice_name, slices_of

PAIRWISE = {
    "judge": {"model": "m"},
    "criteria": [{"name": "quality"}],
    "scoring": {"bootstrap": 50},
}
HOSTILE = "\x1b[31mred two\r\nlines \u202etsil nul\x00 bell\x07 mid\u2028dle zero\u200bwidth \x9b2J"


def is_visible(text: str) -> bool:
    return not {unicodedata.category(char) for char in text} & {
        "Cc",
        "Cf",
        "Cn",
        "Co",
        "Cs",
        "Zl",
        "Zp",
    }


def agreed(label: str, right: bool) -> float:
    return (1.0 if label == "A" else -1.0) * (1 if right else -1)


def of_systems(name: str) -> Scores:
    """Pairs of systems with labels: a ranking, and leans to a system."""
    cases, judgments = [], []
    for n in range(40):
        models = (name, "plain") if n % 2 else ("plain", name)
        responses = (Response("a", model=models[0]), Response("b", model=models[1]))
        cases.append(Case(f"c{n}", f"q{n}", responses, label="AB"[n // 2 % 2]))
        judgments.append(
            Judgment(f"c{n}", (0, 1), (0, 1), 0, "m", "ok", agreed("AB"[n // 2 % 2], n % 5 != 0))
        )
    return score_run(RunConfig(**PAIRWISE, swap={"policy": "none"}), cases, judgments)


def of_slices(name: str) -> Scores:
    """Slices with such a column and such values."""
    cases, judgments, column = (
        [],
        [],
        f"col{name}".replace("\n", ""),
    )  # a config refuses line breaks
    for n in range(60):
        made = Case(f"c{n}", f"q{n}", (Response("a"), Response("b")), label="AB"[n % 2])
        cases.append(replace(made, metadata={column: [name, "fine", "good"][n % 3]}))
        judgments.append(
            Judgment(f"c{n}", (0, 1), (0, 1), 0, "m", "ok", agreed("AB"[n % 2], n % 3 > 0))
        )
    scoring = {"bootstrap": 200, "slices": [column]}
    return score_run(
        RunConfig(**{**PAIRWISE, "scoring": scoring}, swap={"policy": "none"}), cases, judgments
    )


def of_criteria(name: str) -> Scores:
    """Criteria of lists, which may contradict each other."""
    name = name.replace("\n", "")  # a config refuses line breaks
    criteria = [{"name": name}, {"name": "other"}]
    cases = [Case(f"c{n}", f"q{n}", tuple(map(Response, "abc")), label="A") for n in range(12)]
    judgments = [
        Judgment(one.id, unit, unit, 0, "m", "ok", 1.0, criteria={name: 1.0, "other": -1.0})
        for one in cases
        for unit in ((0, 1), (0, 2), (1, 2))
    ]
    return score_run(
        RunConfig(**{**PAIRWISE, "criteria": criteria}, swap={"policy": "none"}), cases, judgments
    )


def of_checklists(name: str) -> Scores:
    """Items of checklists with such ids and tags."""
    items = read_items(
        [{"id": name, "criterion": "x", "tags": [name]}, {"id": "b", "criterion": "y"}], responses=1
    )
    cases = [Case(f"c{n}", f"q{n}", (Response("a"),), checklist=items) for n in range(12)]
    judgments = [
        Judgment(one.id, (0,), (0,), 0, "m", "ok", items={name: "met", "b": "not_met"})
        for one in cases
    ]
    return score_run(
        load_config("config", ["mode=checklist", "scoring.bootstrap=50"]), cases, judgments
    )


def of_panels(name: str) -> Scores:
    """Judges with such names."""
    name = name.replace("\n", "")  # a config refuses line breaks
    judges = [{"model": "m", "name": one} for one in (f"a{name}", f"b{name}", f"c{name}")]
    cases = [
        Case(f"c{n}", f"q{n}", (Response("a"), Response("b")), label="AB"[n % 2]) for n in range(40)
    ]
    judgments = [
        Judgment(one.id, (0, 1), (0, 1), 0, judge["name"], "ok", agreed(one.label, (n + k) % 4 > 0))
        for n, one in enumerate(cases)
        for k, judge in enumerate(judges)
    ]
    return score_run(
        RunConfig(**{**PAIRWISE, "judge": {"judges": judges}}, swap={"policy": "none"}),
        cases,
        judgments,
    )


FAMILIES: Mapping[str, tuple[Callable[[str], Scores], str]] = {
    "systems": (of_systems, "ranking/rating/"),
    "leans": (of_systems, "decision/lean/system/"),
    "slices": (of_slices, "slice/"),
    "criteria": (of_criteria, "conflict/rate/"),
    "checklists": (of_checklists, "checklist/met_rate/item/"),
    "panels": (of_panels, "judge/"),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_name_of_a_metric_and_no_finding_has_an_invisible_character(family):
    build, start = FAMILIES[family]
    scores = build(HOSTILE)
    mode = "pairwise" if family != "checklists" else "pointwise"
    assert any(metric.startswith(start) for metric in scores.metrics)
    texts: list[str] = [
        *scores.metrics,
        *(one.note or "" for one in scores.metrics.values()),
        *scores.notes,
    ]
    rows: list[dict[str, Any]] = scores.details.get("slices", [])
    for one in (
        *findings(scores.metrics, mode, scores.details),
        *slice_findings(scores.metrics, rows, 0.95),
    ):
        texts += [one.metric, one.text, one.text_zh]
    assert [text for text in texts if not is_visible(text)] == []


@pytest.mark.slow
def test_names_without_invisible_characters_are_kept():
    for name in ("openai/gpt-4o (new)", "Ünïcode 中文 模型", "a=b", "x_1b_"):
        assert {f"ranking/rating/{name}", f"ranking/win_rate/{name}"} <= set(
            of_systems(name).metrics
        )


@pytest.mark.slow
@given(st.lists(st.text(), unique=True))
def test_no_two_names_become_one(names):
    found = visible_names(names)
    assert list(found) == names
    assert len({*found.values()}) == len(names)
    assert all(
        is_visible(shown) and (shown != name) != is_visible(name) for name, shown in found.items()
    )


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, unique=True))
def test_no_two_slices_become_one(values):
    cases = [
        Case(str(n), "", (Response("a"),), metadata={"c": value}) for n, value in enumerate(values)
    ]
    slices = slices_of("c", cases)
    assert slices.members.sum(axis=0).tolist() == [1] * len(values)
    assert len({slice_name("c", value, "tie_rate") for value in slices.values}) == len(values)
    assert all(map(is_visible, slices.values))


def test_values_with_parts_are_json_and_blank_ones_are_quoted():
    values = [{"é": True}, [["a", None]], " ", "plain"]
    cases = [Case(f"c{n}", "q", (), metadata={"kind": value}) for n, value in enumerate(values)]
    assert {*slices_of("kind", cases).values} == {'{"é": true}', '["a", null]', " ", "plain"}
    blank = of_slices(" ")
    texts = [one.text for one in slice_findings(blank.metrics, blank.details["slices"], 0.95)]
    assert any("col  “ ”, " in text for text in texts), texts


def test_the_codes_of_slices_are_distinct():
    cases = [
        Case(str(n), "", (Response("a"),), metadata={"c": value})
        for n, value in enumerate(["a=b", "a_3d_b"])
    ]
    assert slices_of("c", cases).values == ("a_3d_b_2", "a_3d_b")
