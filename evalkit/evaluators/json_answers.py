"""Models and schemas of a judge's JSON answers.

The models are lenient for text and strict for decisions: nothing is clamped or filled in. The
schemas put every reason before its score or winner, and use only what strict structured output
accepts: all properties required, no others allowed, no string limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from evalkit.core.patterns import lazy_pattern
from evalkit.core.scale import Scale
from evalkit.core.types import AnswerFormat, Ranking, Winner
from evalkit.core.values import Json, JsonObject
from evalkit.evaluators.parsing import UnreadableError, read_verdict
from evalkit.evaluators.parsing.plain_text import to_half_width
from evalkit.evaluators.prompting import neutralize


def _listed(value: object) -> object:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    return value


def _winner(value: object) -> Winner:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    try:
        return read_verdict(value if isinstance(value, str) else repr(value))
    except UnreadableError as error:
        raise ValueError(error.reason) from None


_STATED = lazy_pattern(
    r"(?P<number>\d{1,3}(?:[.,]\d{1,6})?|\.\d{1,6})\s*"
    r"(?:(?P<percent>%|percent)|(?:/|out of)\s*(?P<base>100|10|5|1))?\.?"
)
_PERCENT_FROM = 10.0
"""A larger number can only be a percentage; one between 1 and it could be out of 5 or of 10."""


def read_confidence(value: object) -> float | None:
    """Return a stated confidence from 0 to 1; `None` if it is missing or ambiguous.

    The verdict does not depend on it, so that a confidence in words costs the confidence only.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    stated = _STATED.fullmatch(to_half_width(str(value)).strip())
    if stated is None:
        return None
    # Models write 85%, 8/10, 85 and 0.85. Without a sign, 5 is ambiguous and stays unknown.
    number = float(stated["number"].replace(",", "."))
    if stated["percent"]:
        number /= 100
    elif stated["base"]:
        number /= float(stated["base"])
    elif number > _PERCENT_FROM:
        number /= 100
    if number <= 1:
        return number
    return None


def _listed_entries(value: object) -> object:
    """Return entries by criterion as a list of them; anything else is unchanged."""
    if isinstance(value, Mapping) and value:
        parts = answer_entries(value)
        if len(parts) == len(value):
            return parts
        if all(isinstance(part, str | int | float) for part in value.values()):
            # Nothing but the decision of each criterion; a part ignores the other's field.
            return [
                {"criterion": name, "winner": part, "score": part}
                for name, part in value.items()
            ]
    return value


_Entries = BeforeValidator(_listed_entries)


def _letters(name: str) -> str:
    """Return what is left of the name of a field that was written in another case."""
    return re.sub(r"[\s_-]+", "", name).casefold()


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
ReadWinner = Annotated[Winner, BeforeValidator(_winner)]
Confidence = Annotated[float | None, BeforeValidator(read_confidence)]


class AnswerPart(BaseModel):
    """Base of the parts of an answer: camelCase in JSON, unknown keys ignored."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        coerce_numbers_to_str=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _in_any_case(cls, answer: Any) -> Any:
        """Return the answer with the names of this part, which models write in other cases."""
        names = cls._names()
        # Most answers have every name as it was asked for.
        if not isinstance(answer, Mapping) or names.keys() >= answer.keys():
            return answer
        return {
            names.get(name) or names.get(_letters(str(name)), name): part
            for name, part in answer.items()
        }

    @classmethod
    @cache
    def _names(cls) -> Mapping[str, str]:
        """Return the name in JSON of each spelling of a field's name."""
        names: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            alias = field.alias or name
            names |= {_letters(alias): alias, name: name, alias: alias}
        return names

    @classmethod
    def read(cls, answer: Json) -> Self:
        """Validate the answer.

        Raises:
            UnreadableError: If a field is missing or invalid; names the fields.
        """
        try:
            return cls.model_validate(answer)
        except ValidationError as error:
            raise UnreadableError("invalid", _problems(error)) from None

    def dump(self) -> JsonObject:
        """Return the answer as JSON values."""
        return self.model_dump(mode="json", by_alias=True)


class ResponseAnalysis(AnswerPart):
    """Strengths and weaknesses of one response."""

    strengths: Texts = ()
    weaknesses: Texts = ()


class Analysis(AnswerPart):
    """The analysis of each response on its own."""

    response_a: ResponseAnalysis = ResponseAnalysis()
    response_b: ResponseAnalysis = ResponseAnalysis()


class ComparedCriterion(AnswerPart):
    """The comparison of both responses on one criterion."""

    criterion: str
    a_assessment: str = ""
    b_assessment: str = ""
    reasoning: str = ""
    winner: ReadWinner


class Result(AnswerPart):
    """The overall decision."""

    reasoning: str = ""
    differentiators: Texts = ()
    winner: ReadWinner
    confidence: Confidence = None


class PairwiseAnswer(AnswerPart):
    """A comparison of two responses."""

    analysis: Analysis = Analysis()
    comparison: Annotated[tuple[ComparedCriterion, ...], _Entries]
    result: Result

    def swapped(self) -> PairwiseAnswer:
        """Return the answer with A and B exchanged in every field, but not within texts."""
        return PairwiseAnswer(
            analysis=Analysis(
                response_a=self.analysis.response_b, response_b=self.analysis.response_a
            ),
            comparison=tuple(
                part.model_copy(
                    update={
                        "a_assessment": part.b_assessment,
                        "b_assessment": part.a_assessment,
                        "winner": other_side(part.winner),
                    }
                )
                for part in self.comparison
            ),
            result=self.result.model_copy(
                update={"winner": other_side(self.result.winner)}
            ),
        )


class ScoredCriterion(AnswerPart):
    """The score of one response on one criterion; validated against the scale later."""

    criterion: str
    justification: str = ""
    examples: Texts = ()
    score: Any


class Summary(AnswerPart):
    """The summary of one response."""

    strengths: Texts = ()
    weaknesses: Texts = ()
    suggestions: Texts = ()


class PointwiseAnswer(AnswerPart):
    """Scores of one response on each criterion."""

    scores: Annotated[tuple[ScoredCriterion, ...], _Entries]
    summary: Summary = Summary()


class ClassAnswer(AnswerPart):
    """The class of one response; matched with the rubric's classes later."""

    reasoning: str = ""
    quotes: Texts = ()
    class_name: Any = Field(alias="class")


class _HasCriterion(Protocol):
    @property
    def criterion(self) -> str: ...


C = TypeVar("C", bound=_HasCriterion)


def other_side(winner: Winner) -> Winner:
    """Return the winner with A and B exchanged."""
    if winner == "A":
        return "B"
    if winner == "B":
        return "A"
    return "TIE"


def by_criterion(parts: Sequence[C], names: Sequence[str], field: str) -> dict[str, C]:
    """Return the part for each of `names`, in order; names match exactly, or else trimmed and in
    any case.

    Args:
        parts: The parts of the answer, each with its `criterion`.
        names: The criteria of the config.
        field: The field of the answer that has the parts, for errors.

    Raises:
        UnreadableError: If a criterion is missing, duplicated, or not one of `names`.
    """
    # A judge copies a name as the prompt shows it.
    # folded spelling -> the criteria that it can mean
    folded: dict[str, set[str]] = {}
    for criterion in names:
        for spelling in (neutralize(criterion), criterion):
            folded.setdefault(_folded(spelling), set()).add(criterion)
    parts_by_name: dict[str, C] = {}
    for part in parts:
        name: str | None = (
            part.criterion
            if part.criterion in names
            # A spelling that two criteria share names neither.
            else _only(folded.get(_folded(part.criterion), set()))
        )
        if name is None:
            raise UnreadableError(
                "invalid",
                f"{field}: '{part.criterion[:60]}' is not among the criteria {', '.join(names)}",
            )
        if name in parts_by_name:
            raise UnreadableError(
                "invalid", f"{field}: criterion '{name}' is duplicated"
            )
        parts_by_name[name] = part
    if missing := [name for name in names if name not in parts_by_name]:
        raise UnreadableError(
            "invalid", f"{field}: criterion '{missing[0]}' is missing"
        )
    # In the order of the config, whatever the order of the answer.
    return {name: parts_by_name[name] for name in names}


_NUMBERED = lazy_pattern(r"\A(?:\(?\d{1,2}[.):、]|[-•*])\s*(?=\D)")


def _folded(name: str) -> str:
    """Return what is left of a name that was numbered, quoted, or joined by
    underscores, in any case.
    """
    plain = to_half_width(name).strip(" \t\n*_`\"':.[]").casefold()
    unnumbered = _NUMBERED.sub("", plain)
    return "".join(re.split(r"[\s_\-]+", unnumbered))


def _only(names: set[str]) -> str | None:
    if len(names) == 1:
        return next(iter(names))
    return None


def _problems(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False)
    texts = [
        f"{'.'.join(str(part) for part in fault['loc'])}: {_message(fault['msg'], fault['input'])}"
        # Three faults are enough to repair an answer; a long list would fill the next prompt.
        for fault in faults[:3]
    ]
    return "; ".join(texts) + (
        f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    )


def _message(message: str, got: object) -> str:
    if message.startswith("Value error, "):
        return message.removeprefix("Value error, ")
    if isinstance(got, int | float | str) and len(str(got)) <= 40:
        value = f" (got {got!r})"
    else:
        value = ""
    return message[:1].lower() + message[1:] + value


_LABEL = lazy_pattern(
    r"\A(?:(?:(?:THE )?(?:RESPONSE|ASSISTANT|ANSWER|OUTPUT)|响应|回答|回复|答案)["
    r" _]?)?\(?(?P<letter>[A-Z])\)?\Z"
)


class ResponseReview(AnswerPart):
    """Strengths and weaknesses of one of several responses."""

    response: str
    strengths: Texts = ()
    weaknesses: Texts = ()


class CriterionRanking(AnswerPart):
    """The ranking of all responses on one criterion."""

    criterion: str
    reasoning: str = ""
    ranking: Any


class RankingResult(AnswerPart):
    """The overall decision."""

    reasoning: str = ""
    ranking: Any
    confidence: Confidence = None


class ListwiseAnswer(AnswerPart):
    """A ranking of several responses."""

    analysis: tuple[ResponseReview, ...] = ()
    comparison: tuple[CriterionRanking, ...]
    result: RankingResult


def read_ranking(
    value: object, labels: Sequence[str], field: str, *, tie_allowed: bool
) -> Ranking:
    """Return a ranking as groups of indices into `labels`, the best first.

    Three forms are read: entries `{"response": "A", "rank": 1}`, in which equal ranks are ties;
    labels from best to worst; and groups of labels from best to worst. Labels may be missing, but
    at least two are required.

    Args:
        value: The ranking in the answer.
        labels: The labels of the responses.
        field: The name of the field, for error messages.
        tie_allowed: Whether responses may share a rank.

    Raises:
        UnreadableError: If it has none of these forms, a label is unknown or duplicated, or a tie
            is not allowed.
    """
    try:
        groups = _ranked_groups(value, labels)
    except UnreadableError as fault:
        raise UnreadableError(fault.kind, f"{field}: {fault.reason}") from None
    # Groups hold indices into `labels`, that is, positions in the prompt.
    ranked = [index for group in groups for index in group]
    if repeated := sorted({index for index in ranked if ranked.count(index) > 1}):
        raise UnreadableError(
            "invalid", f"{field}: response {labels[repeated[0]]} is ranked twice"
        )
    # One response in a ranking says nothing about the others.
    if len(ranked) < 2:
        raise UnreadableError(
            "invalid",
            f"{field}: it ranks only {len(ranked)} of the responses {', '.join(labels)}",
        )
    if not tie_allowed and len(groups) < len(ranked):
        raise UnreadableError(
            "invalid",
            f"{field}: ties are not allowed: give each response a different rank",
        )
    return groups


def write_ranking(ranking: Ranking, names: Sequence[str]) -> list[JsonObject]:
    """Return a ranking as entries with a name and a rank; 1 is the best, and tied
    responses share a rank.
    """
    entries = []
    rank = 1
    for group in ranking:
        entries += [{"response": names[index], "rank": rank} for index in group]
        # Standard competition ranking: two firsts are followed by a third.
        rank += len(group)
    return entries


def _ranked_groups(value: object, labels: Sequence[str]) -> Ranking:
    """Return a ranking, best first, as groups of indices of `labels`; a group is a tie.

    A judge may write ranks by label, a text such as `B > A = C`, a list of objects with ranks, or a
    list of labels and of lists of labels.

    Args:
        value: The ranking in the judge's JSON.
        labels: The labels of the responses, in the order in which they were shown.

    Raises:
        UnreadableError: If it is none of these, or has unknown labels or ranks.
    """
    entries = _as_entries(value)
    if not isinstance(entries, list) or not entries:
        raise UnreadableError("invalid", "expected a list of responses")
    if all(isinstance(entry, Mapping) for entry in entries):
        # Sorted by rank, then by index; ranks need not be consecutive.
        ranked = sorted(
            (_read_rank(entry), _label_index(entry.get("response"), labels))
            for entry in entries
        )
        return tuple(
            tuple(index for _, index in group)
            for _, group in groupby(ranked, key=lambda pair: pair[0])
        )
    groups = [entry if isinstance(entry, list) else [entry] for entry in entries]
    return tuple(
        tuple(sorted(_label_index(label, labels) for label in group))
        for group in groups
        if group
    )


def _as_entries(value: object) -> object:
    """Return ranks by label, or a text such as `B > A = C`, as a list of entries; any other value
    as it is.
    """
    if isinstance(value, Mapping):
        return [{"response": label, "rank": rank} for label, rank in value.items()]
    if isinstance(value, str) and ">" in value:
        groups = [group.split("=") for group in value.split(">")]
        return [[label.strip() for label in group] for group in groups]
    return value


_RANK = lazy_pattern(r"#?(?P<number>\d{1,9})(?:st|nd|rd|th)?", re.I)


def _read_rank(entry: Json) -> int:
    """Return the rank of an entry, from 1.

    Raises:
        UnreadableError: If it is not a positive integer.
    """
    rank = entry.get("rank")
    if isinstance(rank, str) and (spelt := _RANK.fullmatch(rank.strip())) is not None:
        rank = int(spelt["number"])
    if (
        isinstance(rank, bool)
        or not isinstance(rank, int | float)
        # A rank of 1.5 is no position. The test is also true for NaN.
        or rank != rank // 1
        or rank < 1
    ):
        raise UnreadableError(
            "invalid",
            f"'{str(rank)[:60]}' is not a rank: write an integer, where 1 is the best",
        )
    return int(rank)


def _label_index(label: object, labels: Sequence[str]) -> int:
    spelt = to_half_width(str(label)).strip().strip("\"'`*.。").strip().upper()
    match = _LABEL.match(spelt)
    if not isinstance(label, str) or match is None or match["letter"] not in labels:
        raise UnreadableError(
            "invalid",
            f"'{str(label)[:60]}' is not one of the responses {', '.join(labels)}",
        )
    return labels.index(match["letter"])


_TEXT = {"type": "string"}
_MOST_NUMBERS = 100  # providers limit how many values an enum has
_CONFIDENCE = {"type": "number", "minimum": 0, "maximum": 1}


def pairwise_format(criteria: Sequence[str], *, tie_allowed: bool) -> AnswerFormat:
    """Return the answer format for a comparison of two responses.

    It has the strengths and weaknesses of each response, a winner for each criterion, and the
    winner overall; each reason comes before its decision.
    """
    winner = {
        "type": "string",
        "enum": ["A", "B", "TIE"] if tie_allowed else ["A", "B"],
    }
    sides = _object(strengths=_texts(), weaknesses=_texts())
    compared = _object(
        criterion=_one_of(criteria),
        aAssessment=_TEXT,
        bAssessment=_TEXT,
        reasoning=_TEXT,
        winner=winner,
    )
    return AnswerFormat(
        "pairwise_comparison",
        _object(
            analysis=_object(responseA=sides, responseB=sides),
            comparison=_one_each(compared, criteria),
            result=_object(
                reasoning=_TEXT,
                differentiators=_texts(),
                winner=winner,
                confidence=_CONFIDENCE,
            ),
        ),
    )


def pointwise_format(criteria: Sequence[str], scale: Scale) -> AnswerFormat:
    """Return the answer format for scores of one response."""
    scored = _object(
        criterion=_one_of(criteria),
        justification=_TEXT,
        examples=_texts(),
        score=scale.schema(),
    )
    summary = _object(strengths=_texts(), weaknesses=_texts(), suggestions=_texts())
    return AnswerFormat(
        "direct_score", _object(scores=_one_each(scored, criteria), summary=summary)
    )


def class_format(answers: Sequence[str]) -> AnswerFormat:
    """Return the answer format for the class of one response; `answers` are the classes
    and the abstention.
    """
    return AnswerFormat(
        "classification",
        _object(**{"reasoning": _TEXT, "quotes": _texts(), "class": _one_of(answers)}),
    )


def listwise_format(criteria: Sequence[str], labels: Sequence[str]) -> AnswerFormat:
    """Return the answer format for a ranking of several responses, shown under `labels`."""
    viewed = _object(response=_one_of(labels), strengths=_texts(), weaknesses=_texts())
    rank = {"type": "integer", "minimum": 1, "maximum": len(labels)}
    ranking = _one_each(_object(response=_one_of(labels), rank=rank), labels)
    compared = _object(criterion=_one_of(criteria), reasoning=_TEXT, ranking=ranking)
    return AnswerFormat(
        "listwise_ranking",
        _object(
            analysis=_one_each(viewed, labels),
            comparison=_one_each(compared, criteria),
            result=_object(reasoning=_TEXT, ranking=ranking, confidence=_CONFIDENCE),
        ),
    )


def item_format(count: int | None) -> AnswerFormat:
    """Return the answer format for one checklist item, or for items numbered from 1 to `count`."""
    answer = _one_of(("met", "not_met", "cannot_assess"))
    if count is None:
        return AnswerFormat("checklist_item", _object(reason=_TEXT, answer=answer))
    number: JsonObject = {"type": "integer", "minimum": 1, "maximum": count}
    if count <= _MOST_NUMBERS:
        number = {"type": "integer", "enum": list(range(1, count + 1))}
    numbered = _object(item=number, reason=_TEXT, answer=answer)
    items = {"type": "array", "items": numbered, "minItems": count, "maxItems": count}
    return AnswerFormat("checklist", _object(items=items))


def _object(**properties: Any) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        # Strict structured output accepts no optional property.
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(names: Sequence[str]) -> JsonObject:
    return {"type": "string", "enum": list(names)}


def _one_each(item: JsonObject, names: Sequence[str]) -> JsonObject:
    return {
        "type": "array",
        "items": item,
        "minItems": len(names),
        "maxItems": len(names),
    }


def _texts() -> JsonObject:
    return {"type": "array", "items": _TEXT, "maxItems": 3}


def rationale(answer: Json | None, criterion: str | None = None) -> str | None:
    """Return the judge's reasoning on a criterion, from any of the answer formats.

    Without a criterion, the overall reasoning, or else that on each; `None` if there is none.
    """
    if answer is None:
        return None
    entries = [
        entry
        for part in ("comparison", "scores")
        for entry in answer_entries(answer.get(part))
    ]
    if criterion is None:
        reasons = [
            f"{entry.get('criterion')}: {words}"
            for entry in entries
            if (words := _words(entry))
        ]
        return (
            _words(answer.get("result")) or _words(answer) or "\n".join(reasons) or None
        )
    return next(
        (_words(entry) for entry in entries if entry.get("criterion") == criterion),
        None,
    )


def answer_entries(part: Any) -> list[Json]:
    """Return the entries of a part of an answer, which may be a list, or a mapping by criterion."""
    if isinstance(part, Mapping):
        return [
            {"criterion": name, **entry}
            for name, entry in part.items()
            if isinstance(entry, Mapping)
        ]
    if isinstance(part, list | tuple):
        return [entry for entry in part if isinstance(entry, Mapping)]
    return []


def _words(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return None
    texts = (
        entry.get(key)
        # The names of the reason in the different answer formats.
        for key in ("reasoning", "justification", "overallReasoning", "summary")
    )
    return next((text for text in texts if isinstance(text, str) and text), None)
