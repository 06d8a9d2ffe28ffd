"""What an imported file says about the judge, its scale and its rules."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import Any

from evalkit.core.deduplication import by_case, statements_of
from evalkit.core.scale import fold_class
from evalkit.core.types import Judgment
from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.records import ParsedFile
from evalkit.interop.verdict_words import OPPOSITES

CRITERION = "quality"
NO_SCALE = "the file does not state the scale of its scores"
GUESSED = NO_SCALE + ": assumed {:g} to {:g}; set rubric.min and rubric.max"
USUAL_SCALES = (
    (0.0, 1.0),
    (1.0, 5.0),
    (1.0, 10.0),
    (0.0, 10.0),
    (0.0, 100.0),
)
"""The usual scales of scores, the first that contains all scores is meant."""
NAMED = "the classes are those in the file"


def describe_settings(
    parsed: ParsedFile, judgments: Sequence[Judgment]
) -> tuple[JsonObject, list[str]]:
    """Return the config settings of the judgments, and notes on assumptions."""
    # All but the orders of pairs depends on what is said of any case.
    statements = statements_of(judgments)
    # Judgments of one response have a score or a class, those of two a winner.
    pointwise = len(statements[0].unit) == 1
    judges = list(dict.fromkeys(judgment.judge for judgment in statements))
    samples = 1 + max(judgment.sample for judgment in statements)
    named: dict[str, None] = {}
    for judgment in statements:
        # Most judgments of a large file have no criteria, or those of the one before.
        if not named.keys() >= judgment.criteria.keys():
            named |= dict.fromkeys(judgment.criteria)
    # Judgments without criteria are on one.
    names_of_criteria = named or (CRITERION,)
    criteria = {name: _criterion(parsed, name) for name in names_of_criteria}
    weighted = any(judgment.weighted is not None for judgment in statements)
    mode = "pointwise" if pointwise else "pairwise"
    settings: JsonObject = {
        "judge": _judge_settings(judges, weighted),
        "mode": {"name": mode, "samples": samples},
        "criteria": criteria,
        "swap": {"policy": "none" if pointwise else _swap_policy(judgments)},
    }
    has_items = any(judgment.items for judgment in statements)
    if has_items:
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
    class_names = [judgment.class_name for judgment in statements]
    verdicts = [name for name in class_names if name is not None]
    if verdicts:
        classes = _classes(parsed, verdicts)
        settings["rubric"] = {"classes": dict.fromkeys(classes, ""), "levels": {}}
        listed = ", ".join(classes)
        note = f"{NAMED}: {listed}; set rubric for their meanings or the abstention"
        return settings, [note]
    values = [value for judgment in statements for value in judgment.criteria.values()]
    scale = parsed.scale or guessed_scale(values)
    low, high, step = scale
    settings["rubric"] = {"min": low, "max": high, "step": step, "levels": {}}
    if parsed.scale:
        return settings, []
    return settings, [GUESSED.format(low, high)]


def _classes(parsed: ParsedFile, verdicts: Sequence[str]) -> list[str]:
    """Return the classes of verdicts and labels, each in its first spelling."""
    labels: list[str | None] = []
    for record in parsed.records:
        labels += record.classes.values()
        labels.append(record.shown[0].class_name)
    # A class as it is compared -> its first spelling.
    spelled: dict[str, str] = {}
    for class_name in (*verdicts, *labels):
        if class_name is not None:
            spelled.setdefault(fold_class(class_name), class_name)
    if len(spelled) == 1:
        # A file with one class only: its opposite is the other one.
        opposite = OPPOSITES.get(verdicts[0].casefold())
        if opposite:
            spelled[opposite] = opposite
    return list(spelled.values())


def _criterion(parsed: ParsedFile, name: str) -> JsonObject:
    criterion: JsonObject = {"description": parsed.criteria.get(name, "")}
    if name in parsed.weights:
        criterion["weight"] = parsed.weights[name]
    return criterion


def _judge_settings(names: Sequence[str], weighted: bool) -> Json:
    """Return the `judge` section for the judges of a file: one, or a panel of all."""
    # The temperature is unknown.
    output = {}
    if weighted:
        output["logprobs"] = "fallback"
    judges = []
    for name in names:
        judge: JsonObject = {
            "name": _plain(name),
            "model": name,
            "temperature": None,
            **output,
        }
        judges.append(judge)
    if len(judges) == 1:
        return judges[0]
    return {"name": "panel", "model": None, "judges": judges}


def _plain(name: str) -> str:
    return " ".join(name.split()) or "judge"


def _swap_policy(judgments: Sequence[Judgment]) -> str:
    """Return the policy that explains the orders of the judgments.

    It is `both` if a pair was judged in both orders, `none` if all are in the case's order, and
    otherwise `random`.
    """
    # A judge's pair -> whether it was judged in the case's order.
    orders: dict[tuple[Any, ...], set[bool]] = {}
    for case_id, judgment in by_case(judgments):
        pair = (judgment.judge, case_id, judgment.unit)
        in_case_order = judgment.shown == judgment.unit
        orders.setdefault(pair, set()).add(in_case_order)
    orders_of_pairs = list(orders.values())
    if {True, False} in orders_of_pairs:
        return "both"
    if {False} in orders_of_pairs:
        return "random"
    return "none"


def guessed_scale(values: Sequence[float]) -> tuple[float, float, float]:
    """Guess the scale of scores: 0-1, 1-5, 1-10, 0-10, 0-100, or one that contains them.

    Returns:
        The lowest and the highest score, and the step.
    """
    low = min(values, default=1.0)
    high = max(values, default=5.0)
    step = 0.001
    if all(float(value).is_integer() for value in values):
        step = 1.0
    for bottom, top in USUAL_SCALES:
        if bottom <= low and high <= top:
            return bottom, top, step
    bottom = float(floor(low))
    top = float(ceil(high))
    return bottom, top, step
