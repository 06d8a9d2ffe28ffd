"""Questions to decision models, which answer with a probability for each given choice
and write no text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from evalkit.config import RunConfig
from evalkit.core.scale import Classes, Scale
from evalkit.core.types import (
    AnswerFormat,
    Case,
    ChecklistItem,
    Completion,
    ItemAnswer,
    JudgeRequest,
    Judgment,
    Message,
    Response,
    WeightedJudgment,
)
from evalkit.core.values import Json, JsonObject
from evalkit.evaluators.base import SHARED, Reading, conclude
from evalkit.evaluators.checklist import Checklist
from evalkit.evaluators.logprobs import margins, swap_distribution
from evalkit.evaluators.pairwise import Pairwise
from evalkit.evaluators.parsing import UnreadableError
from evalkit.evaluators.pointwise import SingleResponse
from evalkit.evaluators.prompting import Prompts, neutralize
from evalkit.evaluators.prompting.templates import PrefilledTemplate

OVERALL = "overall"
"""The key of the question about a whole response or pair."""
READ_BY = "probabilities"
_MOST_LEVELS = 10
"""The most levels of a question about a scale; a finer scale is a question with choices."""
_ITEM_ANSWERS: tuple[ItemAnswer, ...] = ("met", "not_met", "cannot_assess")
_ROUNDING = 0.02
"""How far the sum of rounded probabilities may be from 1."""
_EQUAL = 0.005
"""Rounded probabilities closer than this may be equal, so that either is the choice."""


def _question(
    kind: str, description: str, options: Sequence[tuple[JsonObject, str]]
) -> JsonObject:
    """Return the JSON schema of the answer to a question, whose options each have a
    meaning or none.
    """
    described = [
        {**option, "description": meaning} if meaning else option
        for option, meaning in options
    ]
    return {"type": kind, "description": description, "oneOf": described}


def _format(questions: Mapping[str, Json]) -> AnswerFormat:
    schema = {
        "type": "object",
        "properties": dict(questions),
        "required": list(questions),
        "additionalProperties": False,
    }
    return AnswerFormat("decision", schema)


def _distribution(answer: object, values: Sequence[str]) -> list[float]:
    """Return the probability of each value, in the order of `values`; they sum to 1.

    Args:
        answer: The choice, `None` without one, and the probabilities by value; anything but a
            mapping is a missing answer.
        values: The values that the question offers.

    Raises:
        UnreadableError: If there is no answer, another value is probable, the probabilities do
            not sum to 1, or the stated choice is not the most probable value.
    """
    if not isinstance(answer, Mapping):
        raise UnreadableError("no_answer", "a question has no answer")
    shares: Mapping[str, float] = answer["probabilities"]
    for name, share in shares.items():
        if name not in values and share > 0:
            raise UnreadableError("invalid", f"'{name[:60]}' is not one of the choices")
    # In the order of `values`; a missing choice has probability 0.
    probabilities = [shares.get(value, 0.0) for value in values]
    total = sum(probabilities)
    if abs(total - 1) > _ROUNDING:
        raise UnreadableError(
            "invalid", f"the probabilities of the choices sum to {total:.3g}, not to 1"
        )
    choice = answer["choice"]
    if choice is not None:
        if choice not in values:
            raise UnreadableError(
                "invalid", f"'{choice[:60]}' is not one of the choices"
            )
        best = max(range(len(values)), key=probabilities.__getitem__)
        if probabilities[best] - probabilities[values.index(choice)] > _EQUAL:
            raise UnreadableError(
                "invalid",
                f"the choice is {choice}, and the most probable is {values[best]}",
            )
    # Rounded probabilities do not sum to exactly 1.
    return [share / total for share in probabilities]


def _chosen(
    answer: object, values: Sequence[str], probabilities: Sequence[float]
) -> int:
    """Return the index of the choice: as stated, or else the most probable value."""
    stated = answer["choice"] if isinstance(answer, Mapping) else None
    if stated in values:
        return values.index(stated)
    return max(range(len(values)), key=probabilities.__getitem__)


class _Decider:
    """What the evaluators for decision models share: the texts of material and
    questions, and the reading.
    """

    _config: RunConfig
    _prompts: Prompts

    def _material(self, names: Sequence[str]) -> PrefilledTemplate:
        """Return the template of the material, which shows `names`."""
        placeholders = ("response", "response_a", "response_b")
        empty = dict.fromkeys((name for name in placeholders if name not in names), "")
        return self._prompts.partial("decision", names, **empty)

    def _instructions(self, kind: str, **variables: object) -> str:
        """Return the text of a question."""
        settings: JsonObject = {
            "criteria": [],
            "ordered": False,
            "abstain": "",
            "tie_allowed": False,
            **variables,
        }
        return self._prompts.instruction("decision_question", kind=kind, **settings)

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the judgment in a completion."""
        return conclude(
            request, completion, partial(self._read, request, completion), None
        )

    def _read(self, request: JudgeRequest, completion: Completion) -> Reading:
        raise NotImplementedError


def _answers(completion: Completion) -> Mapping[str, Json]:
    """Return the answers by question, as the transport writes them.

    Raises:
        UnreadableError: If they are not such answers.
    """
    try:
        answers = json.loads(completion.text)
    except (ValueError, RecursionError):
        answers = None
    fine = isinstance(answers, dict) and all(
        isinstance(answer, dict)
        and set(answer) == {"choice", "probabilities"}
        and isinstance(answer["choice"], str | None)
        and isinstance(answer["probabilities"], dict)
        and all(
            isinstance(share, int | float) and 0 <= share <= 1
            for share in answer["probabilities"].values()
        )
        for answer in answers.values()
    )
    if not fine:
        raise UnreadableError("invalid", "the answer is not that of a decision model")
    decided: Mapping[str, Json] = answers
    return decided


class ClassDecision(_Decider, SingleResponse):
    """The class of every response, with the probability of each class.

    Raises:
        PromptError: If a template cannot be found, parsed or filled.
    """

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._config, self._prompts = config, prompts
        self._classes = Classes.of(config.rubric)
        self._prompt = self._material((*SHARED, "response"))
        meanings = self._classes.meanings
        options: list[tuple[JsonObject, str]] = [
            ({"const": name}, neutralize(meanings.get(name, "")))
            for name in self._classes.answers
        ]
        text = self._instructions(
            "class",
            criteria=self._shown_criteria(),
            ordered=self._classes.ordered,
            abstain=self._classes.abstain or "",
        )
        self._answer = _format({OVERALL: _question("string", text, options)})
        self.plan(Case("rehearsal", "text", (Response("text"),), context="text"))

    def _read(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the class that the model states, or else the most probable one."""
        del request
        answer = _answers(completion).get(OVERALL)
        names = self._classes.answers
        probabilities = _distribution(answer, names)
        chosen = _chosen(answer, names, probabilities)
        return Reading(
            read_by=READ_BY,
            class_name=names[chosen],
            answer={"class": names[chosen], "confidence": probabilities[chosen]},
            weighted=WeightedJudgment(
                classes=dict(zip(names, probabilities, strict=True))
            ),
        )


class ScoreDecision(_Decider, SingleResponse):
    """A score of every response on each criterion, with the probability of each level.

    Raises:
        PromptError: If a template cannot be found, parsed or filled.
    """

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._config, self._prompts = config, prompts
        self._scale = Scale.of(config.rubric)
        self._prompt = self._material((*SHARED, "response"))
        self._keys = _criterion_keys(config)
        self._levels = len(self._scale) <= _MOST_LEVELS
        questions = {}
        for name, criterion in zip(
            config.criteria, self._shown_criteria(), strict=True
        ):
            text = self._instructions("score", criteria=[criterion])
            questions[self._keys[name]] = self._scale_question(name, text)
        self._answer = _format(questions)
        self.plan(Case("rehearsal", "text", (Response("text"),), context="text"))

    def _scale_question(self, name: str, text: str) -> JsonObject:
        """Return the question for a criterion, whose choices are the values of the scale."""
        meanings = self._config.criteria[name].levels or self._config.rubric.levels
        options: list[tuple[JsonObject, str]] = []
        for value in self._scale.values():
            label = self._scale.text(value)
            option: JsonObject = {"const": label}
            if self._levels:
                # A question about levels has numbers, one about choices has texts.
                option = {"const": value, "title": label}
            options.append((option, neutralize(meanings.get(value, ""))))
        return _question("number" if self._levels else "string", text, options)

    def _read(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the score of each criterion, with the expected score as its weighted one."""
        del request
        answers = _answers(completion)
        values = self._scale.values()
        labels = [self._scale.text(value) for value in values]
        if self._levels:  # the protocols number the levels
            labels = [str(index) for index in range(len(values))]
        scores: dict[str, float] = {}
        expected: dict[str, float] = {}
        confidence: dict[str, float] = {}
        for name, key in self._keys.items():
            answer = answers.get(key)
            probabilities = _distribution(answer, labels)
            chosen = _chosen(answer, labels, probabilities)
            scores[name] = values[chosen]
            confidence[name] = probabilities[chosen]
            # The mean of the scale's values, weighted by their probabilities.
            expected[name] = sum(map(float.__mul__, values, probabilities))
        return Reading(
            read_by=READ_BY,
            criteria=scores,
            answer={"scores": scores, "confidence": confidence},
            weighted=WeightedJudgment(criteria=expected),
        )


class ItemDecisions(_Decider, Checklist):
    """The answer to each item of a case's checklist, with the probability of each answer.

    One request has as many questions as `mode.ask` says.

    Raises:
        PromptError: If a template cannot be found, parsed or filled.
    """

    weighs = True

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._config = config
        self._prompts = prompts
        self._shown = self._material((*SHARED, "response"))
        rehearsal = Case("rehearsal", "text", (Response("text"),), context="text")
        self.plan(replace(rehearsal, checklist=(ChecklistItem("1", "text"),)))

    def _render_questions(
        self, variables: Mapping[str, str], questions: Sequence[str]
    ) -> tuple[tuple[Message, ...], AnswerFormat | None]:
        """Return the messages with the material, and a question for each item."""
        options: list[tuple[JsonObject, str]] = [
            ({"const": answer}, "") for answer in _ITEM_ANSWERS
        ]
        asked = {
            key: _question("string", self._text(item), options)
            for key, item in _item_keys(questions).items()
        }
        return self._shown.fill(**variables), _format(asked)

    def _text(self, item: str) -> str:
        return self._prompts.instruction("decision_item", item=item)

    def _read(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the answer to each item; `None` for an item without a readable one.

        Raises:
            UnreadableError: If no item has a readable answer.
        """
        answers = _answers(completion)
        items: dict[str, ItemAnswer | None] = {}
        entries: list[JsonObject] = []
        fault: UnreadableError | None = None
        for key, name in _item_keys(request.items).items():
            items[name] = None
            try:
                probabilities = _distribution(answers.get(key), _ITEM_ANSWERS)
            except UnreadableError as error:
                # The answers to other questions may be readable.
                fault = error
                continue
            chosen = _chosen(answers.get(key), _ITEM_ANSWERS, probabilities)
            items[name] = _ITEM_ANSWERS[chosen]
            entries.append(
                {
                    "item": name,
                    "reason": "",
                    "answer": _ITEM_ANSWERS[chosen],
                    "confidence": probabilities[chosen],
                }
            )
        if fault is not None and not entries:
            raise fault
        return Reading(
            read_by=READ_BY,
            items=items,
            answer={"items": entries},
            # Answers to items are no numbers, so there is no value to weigh.
            weighted=WeightedJudgment(),
        )


class PairDecision(_Decider, Pairwise):
    """The better response of every pair in each order of `swap.policy`, with the
    probability of each winner.

    With several criteria there is one question about each, and one about the whole.

    Raises:
        PromptError: If a template cannot be found, parsed or filled.
    """

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._config, self._prompts = config, prompts
        self._names = list(config.criteria)
        self._winners = ("A", "B", "TIE") if config.tie.allow else ("A", "B")
        self._prompt = self._material((*SHARED, "response_a", "response_b"))
        shown_criteria = self._shown_criteria()
        self._keys = _criterion_keys(config) if len(shown_criteria) > 1 else {}
        about = {OVERALL: shown_criteria}
        # Not strict: with one criterion there are no keys, since the whole is that criterion.
        for key, criterion in zip(self._keys.values(), shown_criteria, strict=False):
            about[key] = [criterion]
        options: list[tuple[JsonObject, str]] = [
            ({"const": winner}, "") for winner in self._winners
        ]
        self._answer = _format(
            {
                key: _question("string", self._text(criteria), options)
                for key, criteria in about.items()
            }
        )
        pair = (Response("A"), Response("B"))
        self.plan(Case("rehearsal", "text", pair, context="text"))

    def _text(self, criteria: Sequence[Mapping[str, str]]) -> str:
        return self._instructions(
            "pair", criteria=criteria, tie_allowed=self._config.tie.allow
        )

    def _read(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the winner as a margin in the order of the unit, whatever the order shown."""
        answers = _answers(completion)
        margin_of = margins(tie_allowed=True)
        winners: dict[str, str] = {}
        expected: dict[str, float] = {}
        confidence: dict[str, float] = {}
        for key in chain((OVERALL,), self._keys.values()):
            probabilities = _distribution(answers.get(key), self._winners)
            chosen = _chosen(answers.get(key), self._winners, probabilities)
            winners[key] = self._winners[chosen]
            confidence[key] = probabilities[chosen]
            expected[key] = sum(
                margin_of[winner] * share
                for winner, share in zip(self._winners, probabilities, strict=True)
            )
        # A single criterion is the whole.
        keys = self._keys or dict.fromkeys(self._names, OVERALL)
        # The requested order may be the reverse of the unit's.
        sign = 1.0 if request.shown == request.unit else -1.0
        weighted = WeightedJudgment(
            value=expected[OVERALL],
            criteria={name: expected[key] for name, key in keys.items()},
        )
        if sign < 0:
            weighted = swap_distribution(weighted)
        value = sign * margin_of[winners[OVERALL]]
        return Reading(
            read_by=READ_BY,
            value=value,
            confidence=confidence[OVERALL],
            criteria={
                name: sign * margin_of[winners[key]] for name, key in keys.items()
            },
            answer={"winner": _winner(value), "confidence": confidence[OVERALL]},
            weighted=weighted,
        )


def _item_keys(items: Sequence[str]) -> dict[str, str]:
    """Return the ids or texts of items by the keys of the questions about them, which
    depend only on their order.
    """
    return {f"item_{number}": name for number, name in enumerate(items, 1)}


def _winner(value: float) -> str:
    """Return the winner of a margin, in the case's order."""
    if value == 0:
        return "TIE"
    if value > 0:
        return "A"
    return "B"


def _criterion_keys(config: RunConfig) -> dict[str, str]:
    """Return the key of the question about each criterion, which does not depend on its name."""
    return {
        name: f"criterion_{number}" for number, name in enumerate(config.criteria, 1)
    }
