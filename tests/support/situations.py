"""Judgments with a known truth, as rows of files that `evalkit import generic` reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, repeat
from random import Random
from typing import Any

Row = dict[str, Any]
Rows = list[Row]
LONG, SHORT = "because the reasons are many and all of them are good " * 3, "because of this"
OTHER = {"A": "B", "B": "A"}
NAMES = {True: "A", False: "B"}


def some(n: int, share: float, seed: int = 1) -> list[bool]:
    """Return n values in random order, of which exactly this share is true."""
    values = [k < round(share * n) for k in range(n)]
    Random(seed).shuffle(values)
    return values


def sides(n: int, share: float = 0.5, seed: int = 2) -> list[str]:
    """Return n labels in random order, of which exactly this share is A."""
    return [NAMES[one] for one in some(n, share, seed)]


def judged(labels: Iterable[str], right: Iterable[bool]) -> list[str]:
    """Return the verdicts of a judge that is right where it says."""
    return [label if good else OTHER[label] for label, good in zip(labels, right, strict=True)]


def pairs(
    labels: Sequence[str | None],
    first: Sequence[str],
    second: Sequence[str] | None = None,
    longer: Sequence[str] = (),
    **more: Any,
) -> Rows:
    """Return rows of pairs, with the winners if A is shown first, and if B is, unless each pair was shown once."""
    rows: Rows = []
    for number, label, *winners, long in zip(
        count(), labels, first, second or repeat(""), longer or repeat("")
    ):
        case = {"id": f"c{number}", "prompt": f"Question {number}?", **more}
        case |= {
            f"response_{side.lower()}": LONG if side == long else f"{SHORT}, {side}"
            for side in "AB"
        }
        case |= {} if label is None else {"label": label}
        rows += [
            {**case, "winner": winner, "order": order}
            for winner, order in zip(winners, ("ab", "ba"), strict=True)
            if winner
        ]
    return rows


def scores(grades: Sequence[float], given: Sequence[float], **more: Any) -> Rows:
    """Return rows of graded and scored responses."""
    return [
        {
            "id": f"c{n}",
            "prompt": f"Question {n}?",
            "response": f"Answer {n}",
            "grade": grade,
            "score": score,
            **more,
        }
        for n, (grade, score) in enumerate(zip(grades, given, strict=True))
    ]


def classes(labels: Sequence[str], *samples: Sequence[str]) -> Rows:
    """Return rows of labeled and classed responses, one for each sample."""
    return [
        {"id": f"c{n}", "prompt": f"Question {n}?", "response": f"Answer {n}", "label": label}
        | {"class": given[n], "sample": sample}
        for n, label in enumerate(labels)
        for sample, given in enumerate(samples)
    ]
