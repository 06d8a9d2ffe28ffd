"""What a judge's JSON must hold. Prose is read leniently, decisions strictly: nothing is clamped or filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from evalkit.parsing import UnreadableError, read_winner
from evalkit.prompting import neutralise
from evalkit.types import Winner


def _listed(value: object) -> object:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def _winner(value: object) -> Winner:
    try:
        return read_winner(value if isinstance(value, str) else repr(value))
    except UnreadableError as error:
        raise ValueError(error.reason) from None


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("true and false are not numbers")
    return value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Decision = Annotated[Winner, BeforeValidator(_winner)]
Confidence = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]


class Part(BaseModel):
    """Base of an answer's parts: camelCase in JSON, further keys ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, coerce_numbers_to_str=True
    )

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """Return the answer checked.

        Raises:
            UnreadableError: if something is missing or impossible; names the fields.
        """
        try:
            return cls.model_validate(answer)
        except ValidationError as error:
            raise UnreadableError("invalid", _faults(error)) from None

    def dump(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.model_dump(mode="json", by_alias=True)


class Sides(Part):
    """What is good and what is bad in one response."""

    strengths: Texts = ()
    weaknesses: Texts = ()


class Analysis(Part):
    """Each response by itself."""

    response_a: Sides = Sides()
    response_b: Sides = Sides()


class Compared(Part):
    """Both responses on one criterion."""

    criterion: str
    a_assessment: str = ""
    b_assessment: str = ""
    reasoning: str
    winner: Decision


class Result(Part):
    """The decision."""

    reasoning: str
    differentiators: Texts = ()
    winner: Decision
    confidence: Confidence


class PairwiseAnswer(Part):
    """A comparison of two responses."""

    analysis: Analysis = Analysis()
    comparison: tuple[Compared, ...]
    result: Result

    def swapped(self) -> PairwiseAnswer:
        """Return the same answer with A and B exchanged in every field that names a side; prose stays as written."""
        return PairwiseAnswer(
            analysis=Analysis(response_a=self.analysis.response_b, response_b=self.analysis.response_a),
            comparison=tuple(
                one.model_copy(
                    update={
                        "a_assessment": one.b_assessment,
                        "b_assessment": one.a_assessment,
                        "winner": other_side(one.winner),
                    }
                )
                for one in self.comparison
            ),
            result=self.result.model_copy(update={"winner": other_side(self.result.winner)}),
        )


class Scored(Part):
    """One response on one criterion; the score is read against the scale later."""

    criterion: str
    justification: str
    examples: Texts = ()
    score: Any


class Summary(Part):
    """One response as a whole."""

    strengths: Texts = ()
    weaknesses: Texts = ()
    suggestions: Texts = ()


class PointwiseAnswer(Part):
    """A score for one response on each criterion."""

    scores: tuple[Scored, ...]
    summary: Summary = Summary()


class _OnCriterion(Protocol):
    @property
    def criterion(self) -> str: ...


C = TypeVar("C", bound=_OnCriterion)


def other_side(winner: Winner) -> Winner:
    """Return the winner as seen with A and B exchanged."""
    return "B" if winner == "A" else "A" if winner == "B" else "TIE"


def by_criterion(parts: Sequence[C], names: Sequence[str], field: str) -> dict[str, C]:
    """Return the one part for each of `names`, in their order; names match exactly, else trimmed and in any case.

    Raises:
        UnreadableError: if a criterion is missing, is there twice, or is none of `names`.
    """
    # A judge copies a name as prompts show it.
    folded = {_folded(spelling): name for name in names for spelling in (neutralise(name), name)}
    found: dict[str, C] = {}
    for part in parts:
        name = part.criterion if part.criterion in names else folded.get(_folded(part.criterion))
        if name is None:
            raise UnreadableError(
                "invalid", f"{field}: '{part.criterion[:60]}' is not among the criteria {', '.join(names)}"
            )
        if name in found:
            raise UnreadableError("invalid", f"{field}: criterion '{name}' is there twice")
        found[name] = part
    if missing := [name for name in names if name not in found]:
        raise UnreadableError("invalid", f"{field}: criterion '{missing[0]}' is missing")
    return {name: found[name] for name in names}


def _folded(name: str) -> str:
    return " ".join(name.strip(" \t\n*_`\"':：").casefold().split())


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False)
    shown = [f"{'.'.join(str(part) for part in one['loc'])}: {_said(one['msg'], one['input'])}" for one in faults[:3]]
    return "; ".join(shown) + (f"; and {len(faults) - 3} more" if len(faults) > 3 else "")


def _said(message: str, given: object) -> str:
    if message.startswith("Value error, "):
        return message.removeprefix("Value error, ")
    value = f" (it is {given!r})" if isinstance(given, int | float | str) and len(str(given)) <= 40 else ""
    return message[:1].lower() + message[1:] + value
