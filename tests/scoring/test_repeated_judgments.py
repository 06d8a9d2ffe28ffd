"""Judgments that say the same of several cases are read once, and have a row for each."""

from dataclasses import fields

import numpy as np
import pytest

from evalkit.core.scale import Classes
from evalkit.scoring.judgments import read_judgments
from evalkit.types import Case, Judgment, Response

CASES = [Case(f"c{number}", "prompt", (Response("text"),)) for number in range(40)]
UNIT = (0,)


def judgments(*, as_classes: bool, apart: bool) -> list[Judgment]:
    """Return judgments of two judges; `apart` gives each case its own confidence."""
    made = []
    for number, case in enumerate(CASES):
        for judge in ("b", "a"):
            value = None if number % 7 == 0 else float(number % 5)
            made.append(
                Judgment(
                    case.id,
                    UNIT,
                    UNIT,
                    number % 2,
                    judge,
                    "failed" if value is None else "ok",
                    None if as_classes else value,
                    0.5 + 1e-9 * number if apart else 0.5,
                    {} if as_classes or value is None else {"overall": value},
                    class_name=("x", "y")[number % 2] if as_classes and value is not None else None,
                    error_kind="budget" if value is None and number % 2 else None,
                )
            )
    return made


@pytest.mark.parametrize("classes", [None, Classes({"x": "", "y": ""})])
def test_repeated_judgments_have_the_columns_of_separate_ones(classes):
    names = ["overall"] if classes is None else []
    short, apart = (
        read_judgments(
            CASES, judgments(as_classes=classes is not None, apart=apart), names, classes
        )
        for apart in (False, True)
    )
    assert len(short.case) == 2 * len(CASES)
    assert len({*apart.confidence.tolist()}) == len(CASES)
    for column in fields(short):
        if column.name != "confidence":
            one, other = getattr(short, column.name), getattr(apart, column.name)
            np.testing.assert_array_equal(one, other, column.name)
