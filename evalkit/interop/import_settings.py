"""What an imported file says about the judge, its scale and its rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

from evalkit.core.scale import fold_class
from evalkit.core.types import (
    Judgment,
)
from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.records import (
    ParsedFile,
)
from evalkit.interop.verdict_words import OPPOSITES

CRITERION = "quality"
NO_SCALE = "the file does not state the scale of its scores"
GUESSED = NO_SCALE + ": assumed {:g} to {:g}; set rubric.min and rubric.max"
NAMED = "the classes are those in the file"


def describe_settings(
    parsed: ParsedFile, judgments: Sequence[Judgment]
) -> tuple[JsonObject, list[str]]:
    """Return the config settings of the judgments, and notes on assumptions."""
    pointwise = len(judgments[0].unit) == 1
    judges = list(dict.fromkeys(judgment.judge for judgment in judgments))
    samples = 1 + max(judgment.sample for judgment in judgments)
    named: dict[str, None] = {}
    for judgment in judgments:
        named |= dict.fromkeys(judgment.criteria)
    # Judgments without criteria are on one.
    criteria = {name: _criterion(parsed, name) for name in named or (CRITERION,)}
    weighted = any(judgment.weighted is not None for judgment in judgments)
    settings: JsonObject = {
        "judge": _judge(judges, weighted),
        "mode": {"name": "pointwise" if pointwise else "pairwise", "samples": samples},
        "criteria": criteria,
        "swap": {"policy": "none" if pointwise else _policy(judgments)},
    }
    if any(judgment.items for judgment in judgments):
        settings["mode"]["name"] = "checklist"
        settings["rubric"] = {"min": 0, "max": 1, "step": 0.01, "levels": {}}
        if parsed.rule:
            settings["scoring"] = {"checklist": parsed.rule}
        return settings, []
    if parsed.output is not None:
        settings["output"] = dict(parsed.output)
    if not pointwise:
        return settings, []
    if parsed.rubric:
        return settings | {"rubric": dict(parsed.rubric)}, []
    class_names = [judgment.class_name for judgment in judgments]
    names = [name for name in class_names if name is not None]
    if names:
        labels = [
            class_name
            for record in parsed.records
            for class_name in (*record.classes.values(), record.shown[0].class_name)
        ]
        spelled: dict[str, str] = {}
        for class_name in (*names, *labels):
            if class_name is not None:
                spelled.setdefault(fold_class(class_name), class_name)
        if len(spelled) == 1:
            # A file with one class only: its opposite is the other one.
            opposite = OPPOSITES.get(names[0].casefold())
            if opposite:
                spelled[opposite] = opposite
        settings["rubric"] = {
            "classes": dict.fromkeys(spelled.values(), ""),
            "levels": {},
        }
        listed = ", ".join(spelled.values())
        note = f"{NAMED}: {listed}; set rubric for their meanings or the abstention"
        return settings, [note]
    values = [value for judgment in judgments for value in judgment.criteria.values()]
    scale = parsed.scale or guessed_scale(values)
    low, high, step = scale
    settings["rubric"] = {"min": low, "max": high, "step": step, "levels": {}}
    if parsed.scale:
        return settings, []
    return settings, [GUESSED.format(low, high)]


def _criterion(parsed: ParsedFile, name: str) -> JsonObject:
    criterion: JsonObject = {"description": parsed.criteria.get(name, "")}
    if name in parsed.weights:
        criterion["weight"] = parsed.weights[name]
    return criterion


def _judge(names: Sequence[str], weighted: bool) -> Json:
    # The temperature is unknown.
    output = {}
    if weighted:
        output["logprobs"] = "fallback"
    judges = []
    for name in names:
        judge: JsonObject = {"name": _plain(name), "model": name, "temperature": None}
        judges.append(judge | output)
    if len(judges) == 1:
        return judges[0]
    return {"name": "panel", "model": None, "judges": judges}


def _plain(name: str) -> str:
    return " ".join(name.split()) or "judge"


def _policy(judgments: Sequence[Judgment]) -> str:
    """Return `both` if a pair was judged in both orders, `none` if all are in the case's order, otherwise `random`."""
    orders: dict[tuple[Any, ...], set[bool]] = {}
    for judgment in judgments:
        pair = (judgment.judge, judgment.case_id, judgment.unit)
        in_case_order = judgment.shown == judgment.unit
        orders.setdefault(pair, set()).add(in_case_order)
    if any(len(orders_of_pair) > 1 for orders_of_pair in orders.values()):
        return "both"
    if any(False in orders_of_pair for orders_of_pair in orders.values()):
        return "random"
    return "none"


def guessed_scale(values: Sequence[float]) -> tuple[float, float, float]:
    """Guess the scale (min, max, step) of scores: 0-1, 1-5, 0-10, 1-10, 0-100, or one that contains them."""
    low = min(values, default=1.0)
    high = max(values, default=5.0)
    step = 0.001
    if all(float(value).is_integer() for value in values):
        step = 1.0
    for bottom, top in ((0, 1), (1, 5), (1, 10), (0, 10), (0, 100)):
        if bottom <= low and high <= top:
            return float(bottom), float(top), step
    return float(floor(low)), float(-floor(-high)), step
