"""A judge's verdicts on the outputs of tasks, as other frameworks need them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_jsonable_python

from evalkit.core.errors import ConfigError, EvalkitError, did_you_mean
from evalkit.core.types import Winner
from evalkit.core.values import JsonObject, frozen
from evalkit.engine.event_loop import run_async
from evalkit.interop.layouts.judgment_files import subject, text
from evalkit.serving.judge import Judge, JudgeVerdict, load_judge

SHARES: Final = {"A": 1.0, "TIE": 0.5, "B": 0.0}
ASKED: Final = ("prompt", "context", "reference", "checklist")
ANSWERED: Final = ("response", "response_a", "response_b", "responses")
WANTED: Final = (*ASKED[1:], "response_b")
_TEXTS: Final = (*ASKED[:3], *ANSWERED[:3])
NO_SCALE: Final = "a reward has no scale, so it is not a number from 0 to 1"
JUDGE: Final = "judge"
"""The name of a score in another framework, unless its user names it."""


@frozen
class Rating:
    """A judge's verdict as other frameworks need it.

    Attributes:
        value: The winner, score or class; `None` if there is none.
        share: The value from 0 to 1: a score's position on its scale; 1 if the first response wins,
            0.5 for a tie, 0 if the second wins; 1 or 0 for a class that passes or not. `None` if
            there is none, or for a reward.
        rationale: The judge's own words, or the source of the verdict.
        error: Why there is no value.
        metadata: What is known about the judge and this verdict, as texts by name.
    """

    value: float | str | None = None
    share: float | None = None
    rationale: str | None = None
    error: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class AdaptedJudge:
    """A judge that rates the input, output and expected output of a task.

    Args:
        judge: A judge, or the folder of one.
        passing: The classes that pass, for frameworks that need a number from a judge of classes.
        **options: The options of `load_judge`.

    Raises:
        ConfigError: If the judge cannot be loaded, or a passing class is not one of its classes.
    """

    def __init__(
        self, judge: Judge | str | Path, passing: Collection[str] = (), **options: Any
    ) -> None:
        self.judge = judge if isinstance(judge, Judge) else load_judge(judge, **options)
        self.passing = frozenset(passing)
        classes = self.judge.config.rubric.classes
        if unknown := sorted(self.passing - classes.keys()):
            problem = f"'{unknown[0]}' is not a class of the judge"
            raise ConfigError(
                problem, where="passing", remedy=did_you_mean(unknown[0], classes)
            )

    @property
    def label(self) -> str:
        """The name of the judge."""
        return self.judge.config.judge.label

    def fields(
        self,
        inputs: Any,
        output: Any,
        expected: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> JsonObject:
        """Return the fields of a case.

        The input is the prompt, and the output is the response. The expected output is the
        reference, or, for a judge of pairs, the second response. Each can be an object with some of
        these fields instead: an input or an expected output can also name a context and a
        checklist, and an output several responses. Metadata has the values of columns by which the
        validation found slices.
        """
        # Frameworks pass objects of their own, such as pydantic models.
        inputs = to_jsonable_python(inputs, fallback=str)
        output = to_jsonable_python(output, fallback=str)
        expected = to_jsonable_python(expected, fallback=str)
        pairs = self.judge.config.mode.name == "pairwise"
        input_fields = _fields_in(inputs, ASKED)
        output_fields = _fields_in(output, ANSWERED)
        # `response_b`, the last of WANTED, is for pairs only.
        expected_fields = _fields_in(expected, WANTED if pairs else WANTED[:-1])
        # Without a prompt among the fields, it is the rest of the input, or all of it.
        if "prompt" not in input_fields:
            prompt = inputs
            if input_fields:
                prompt = {
                    name: value
                    for name, value in inputs.items()
                    if name not in input_fields
                }
            input_fields["prompt"] = prompt
        if not output_fields and output is not None:
            output_fields = {"response_a" if pairs else "response": output}
        if not expected_fields and expected is not None:
            expected_fields = {"response_b" if pairs else "reference": expected}
        # the input wins if several parts name a field
        case = output_fields | expected_fields | input_fields
        columns = _columns(metadata)
        if columns:
            case["metadata"] = columns
        return case | {
            name: text(subject(case[name])) for name in _TEXTS if name in case
        }

    async def rate(
        self,
        inputs: Any,
        output: Any,
        expected: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Rating:
        """Judge an output; errors are in the rating."""
        try:
            fields = self.fields(inputs, output, expected, metadata)
            # Errors become ratings: one bad row must not end the caller's evaluation.
            return self._rate_verdict(await self.judge.once(**fields))
        except EvalkitError as error:
            return Rating(error=str(error))

    def rate_sync(
        self,
        inputs: Any,
        output: Any,
        expected: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Rating:
        """Judge an output and wait for the rating."""
        return run_async(self.rate(inputs, output, expected, metadata))

    def _rate_verdict(self, verdict: JudgeVerdict) -> Rating:
        """Return a verdict as a rating, with an error if it has no value."""
        facts = {
            "use": verdict.trust.use,
            "trust": verdict.trust.sentence,
            "reason": verdict.reason,
        }
        if verdict.trust.warnings:
            facts["warnings"] = " ".join(
                warning.text for warning in verdict.trust.warnings
            )
        facts |= {
            f"criteria.{name}": f"{value:g}" for name, value in verdict.criteria.items()
        }
        metadata = {f"evalkit.{name}": text for name, text in facts.items()}
        if verdict.value is None:
            error = verdict.error or f"the judge gave no verdict ({verdict.reason})"
            return Rating(error=error, metadata=metadata, rationale=verdict.explanation)
        share = self.share(verdict.winner, verdict.score, verdict.class_name)
        return Rating(
            verdict.value, share, verdict.explanation or verdict.reason, None, metadata
        )

    def share(
        self, winner: Winner | None, score: float | None, class_name: str | None
    ) -> float | None:
        """Return a verdict as a number from 0 to 1, as in `Rating`; `None` if it has none.

        A choice between two responses, a score and a class are tried in this order. A score has
        no share if the rubric has no highest one. A class has one if the classes that pass are
        known.
        """
        if winner is not None:
            return SHARES[winner]
        if score is not None:
            rubric = self.judge.config.rubric
            # Any number is a score, so there is no highest one to divide by.
            if rubric.real:
                return None
            return (score - rubric.min) / (rubric.max - rubric.min)
        if self.passing:
            return float(class_name in self.passing)
        return None


def _columns(metadata: Mapping[str, Any] | None) -> JsonObject:
    """Return the columns of a framework's metadata that have plain values, or lists of them."""
    plain = (str, int, float, bool)
    return {
        str(name): value
        for name, value in (metadata or {}).items()
        if isinstance(value, plain)
        or (isinstance(value, list) and all(isinstance(part, plain) for part in value))
    }


def needed_share(rating: Rating) -> float:
    """Return the rating from 0 to 1.

    Raises:
        EvalkitError: If there is no verdict, no class is declared as passing, or the verdict is a
            reward.
    """
    if rating.error is not None:
        raise EvalkitError(rating.error)
    if rating.share is None and not isinstance(rating.value, str):
        raise ConfigError(NO_SCALE, remedy="use a judge of pairs, scores or classes")
    if rating.share is None:
        raise ConfigError(
            "a judge of classes has no number",
            where="passing",
            remedy="name the classes that pass",
        )
    return rating.share


def _fields_in(value: Any, names: Collection[str]) -> JsonObject:
    """Return the fields of a case that an object names; empty for any other value."""
    if not isinstance(value, Mapping):
        return {}
    return {
        name: part for name, part in value.items() if name in names and part is not None
    }
