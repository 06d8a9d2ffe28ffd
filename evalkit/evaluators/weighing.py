"""Weighing a judgment's decisions by their probabilities, where the judge's log-probabilities were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from evalkit.config import RunConfig
from evalkit.errors import JudgeSetupError
from evalkit.evaluators.probabilities import Distribution, Tokens
from evalkit.parsing import UnreadableError
from evalkit.parsing.places import Path, places
from evalkit.scales import Scale
from evalkit.types import Completion, JudgeRequest, Weighted

Wanted: TypeAlias = bool | Literal["fallback"]


def margins(*, tie_allowed: bool) -> dict[str, float]:
    """Return the ways of writing a winner, and its margin as shown: the expectation of these is P(A) - P(B)."""
    found = {"A": 1.0, "a": 1.0, "B": -1.0, "b": -1.0}
    return found | {"TIE": 0.0, "Tie": 0.0, "tie": 0.0} if tie_allowed else found


def paths(field: str, parts: Sequence[object], chosen: Mapping[str, object], decision: str) -> dict[str, Path]:
    """Return where the decision of each of the `chosen` parts stands in an answer that has the `parts` in a field."""
    places = {id(part): place for place, part in enumerate(parts)}
    return {name: (field, places[id(part)], decision) for name, part in chosen.items()}


def turned_round(weighted: Weighted) -> Weighted:
    """Return the margins of a pair as seen with its responses exchanged."""
    value = None if weighted.value is None else -weighted.value
    return replace(weighted, value=value, criteria={name: -margin for name, margin in weighted.criteria.items()})


def scores_of(scale: Scale) -> dict[str, float]:
    """Return the ways of writing each value of a scale as a JSON number, and the value."""
    return {spelt: value for value in scale.values() for spelt in _spelt(scale.text(value))}


def _spelt(text: str) -> set[str]:
    return {text, text.rstrip("0").rstrip(".")} if "." in text else {text, f"{text}.0"}


class Weighing:
    """Weighs the decisions in completions, as `judge.logprobs` of each judge of a run wants it."""

    def __init__(self, config: RunConfig, values: Mapping[str, float]) -> None:
        judges = [*config.judge.members, *([config.swap.arbiter] if config.swap.arbiter else [])]
        self._wanted: dict[str, Wanted] = {judge.label: judge.logprobs for judge in judges}
        self._values = values

    def __call__(
        self,
        request: JudgeRequest,
        completion: Completion,
        answer: Mapping[str, Any],
        criteria: Mapping[str, Path],
        overall: Path | None = None,
    ) -> Weighted | None:
        """Return the expectations of an answer's decisions, or none if they are not wanted, or cannot be had.

        Args:
            request: what was asked.
            completion: what came back.
            answer: the JSON object in it.
            criteria: where in the answer the decision on each criterion stands.
            overall: where the overall decision stands, if there is one.

        Raises:
            JudgeSetupError: if log-probabilities are a must, and none came.
            UnreadableError: if they are a must, and do not tell of a decision.
        """
        wanted = self._wanted.get(request.judge, False)
        if not wanted:
            return None
        if wanted == "fallback" and completion.logprobs is None:
            return None
        if completion.logprobs is None:
            raise _none_came(request, completion)
        found = self._found(completion, answer, [*criteria.values(), *([overall] if overall else [])])
        if found is None:
            if wanted == "fallback":
                return None
            raise UnreadableError("logprobs", "the tokens with log-probabilities do not spell the decisions")
        return Weighted(
            value=found[overall].expectation if overall else None,
            criteria={name: found[path].expectation for name, path in criteria.items()},
            mass=min(1.0, *(one.mass for one in found.values())),
            open=max(one.open / one.mass for one in found.values()),
        )

    def _found(
        self, completion: Completion, answer: Mapping[str, Any], paths: list[Path]
    ) -> dict[Path, Distribution] | None:
        spans, tokens = places(completion.text, answer), Tokens(completion.text, completion.logprobs or ())
        found: dict[Path, Distribution] = {}
        for path in paths:
            one = tokens.distribution(*spans[path], self._values) if path in spans else None
            if one is None:
                return None
            found[path] = one
        return found


def _none_came(request: JudgeRequest, completion: Completion) -> JudgeSetupError:
    return JudgeSetupError(
        f"judge {request.judge} answers without log-probabilities (sent as {completion.rung})",
        where="judge.logprobs",
        remedy="set it to false, or to fallback to do without where there are none",
    )
