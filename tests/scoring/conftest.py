"""Short ways to write configs, cases and judgments."""

import gc
from collections.abc import Sequence
from typing import Any

import pytest

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Response


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect():
    """statsmodels collects garbage at each call of `multipletests`, over all that a long session has imported."""
    gc.freeze()


def _configure(**sections: Any) -> RunConfig:
    sections = {"judge": {"model": "m"}, "criteria": [{"name": "quality"}], **sections}
    sections["scoring"] = {"bootstrap": 200, **sections.get("scoring", {})}
    return RunConfig(**sections)


def _pointwise(**sections: Any) -> RunConfig:
    return _configure(mode={"name": "pointwise"}, swap={"policy": "none"}, **sections)


def _case(
    name: str,
    texts: Sequence[str] = ("a", "b"),
    label: Any = None,
    grades: Sequence[float | None] | None = None,
) -> Case:
    given = grades or [None] * len(texts)
    responses = tuple(Response(text, grade=grade) for text, grade in zip(texts, given, strict=True))
    return Case(name, "question", responses, label=label)


def _judged(
    case: str,
    unit: tuple[int, ...],
    value: float | None = None,
    *,
    swapped: bool = False,
    sample: int = 0,
    **more: Any,
) -> Judgment:
    """Make a judgment; without a value and criteria it is unparseable."""
    shown = unit[::-1] if swapped else unit
    lost = value is None and not more.get("criteria")
    more = {"status": "unparseable" if lost else "ok", "judge": "m", **more}
    return Judgment(case, unit, shown, sample, value=value, **more)


@pytest.fixture(scope="session")
def configure():
    return _configure


@pytest.fixture(scope="session")
def pointwise():
    return _pointwise


@pytest.fixture(scope="session")
def make_case():
    return _case


@pytest.fixture(scope="session")
def judged():
    return _judged


@pytest.fixture(scope="session")
def passes(judged):
    """Both passes of a pair: margins, un-swapped, none for one that could not be read."""

    def both(
        case: str,
        first: float | None,
        second: float | None,
        unit: tuple[int, int] = (0, 1),
        **confidence: Any,
    ):
        one, two = confidence.get("confidence", (None, None))
        return [
            judged(case, unit, first, confidence=one if first is not None else None),
            judged(
                case, unit, second, swapped=True, confidence=two if second is not None else None
            ),
        ]

    return both
