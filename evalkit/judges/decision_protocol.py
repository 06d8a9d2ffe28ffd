"""The two protocols of decision models, as LiteLLM has them: questions with given
choices, and probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from evalkit.core.errors import CallError
from evalkit.core.types import Usage
from evalkit.core.values import Json, JsonObject
from evalkit.judges.responses import Answer, bad_response

QUESTIONS = "questions"
_ERROR_WITHOUT_ANSWERS = "the answer has no answers to questions; check judge.endpoint"


def asked_questions(call: Json) -> Mapping[str, Json]:
    """Return the questions of a call by key: the properties of the schema of its answer."""
    schema = call["response_format"]["json_schema"]["schema"]
    questions: Mapping[str, Json] = schema["properties"]
    return questions


def request_fields(endpoint: str, call: Json) -> JsonObject:
    """Return the material and the questions of a call in the words of a protocol.

    A question with texts is a choice, one with numbers has levels, and a boolean is yes or no.

    Args:
        endpoint: `systemone` or `decisions`.
        call: The arguments of OpenAI's chat completions, with a JSON schema.
    """
    # These models take one text, so the messages' roles are lost.
    material = "\n\n".join(message["content"] for message in call["messages"])
    questions = asked_questions(call)
    if endpoint == "systemone":
        return {
            "state": material,
            QUESTIONS: {
                key: _systemone_question(question)
                for key, question in questions.items()
            },
        }
    return {
        "input": material,
        QUESTIONS: [
            _openai_question(key, question) for key, question in questions.items()
        ],
    }


def _systemone_question(question: Json) -> JsonObject:
    """Return one property of an answer's schema as a question of `/systemone`.

    A boolean becomes a probability of yes (the endpoint's word is `noul`), a number becomes a
    score with the titles of its values as criteria, and anything else becomes a choice.
    """
    instructions = question["description"]
    options = question.get("oneOf", ())
    if question["type"] == "boolean":
        return {"type": "noul", "instructions": instructions}
    if question["type"] == "number":
        levels = [
            _joined(option["title"], option.get("description")) for option in options
        ]
        return {"type": "score", "instructions": instructions, "criteria": levels}
    return {
        "type": "choice",
        "instructions": instructions,
        "criteria": {option["const"]: option.get("description") for option in options},
    }


def _joined(label: str, description: str | None) -> str:
    if description:
        return f"{label}: {description}"
    return label


def _openai_question(key: str, question: Json) -> JsonObject:
    fields: JsonObject = {"name": key, "instructions": question["description"]}
    options = question.get("oneOf", ())
    if question["type"] == "boolean":
        return {"type": "predicate", **fields}
    if question["type"] == "number":
        levels = [_described("label", option["title"], option) for option in options]
        return {"type": "score", **fields, "levels": levels}
    choices = [_described("value", option["const"], option) for option in options]
    return {"type": "choice", **fields, "choices": choices}


def _described(name: str, label: str, option: Json) -> JsonObject:
    described: JsonObject = {name: label}
    if option.get("description"):
        described["description"] = option["description"]
    return described


def decided(parsed: Any, call: Json) -> Answer:
    """Return the probabilities of each question's choices, as the JSON text of an answer.

    The text has an object by question: `choice`, the one that the model names, and
    `probabilities`. A question that the model refuses is absent.

    Args:
        parsed: The parsed answer, in either protocol.
        call: The call with the questions.

    Raises:
        CallError: Of kind `bad_response`, if it has no answers, or one has no probabilities.
    """
    answers = parsed.get("answers") if isinstance(parsed, Mapping) else None
    by_key = _by_key(answers)
    decisions: JsonObject = {}
    refused = False
    # By the questions asked: answers to others are ignored.
    for key, question in asked_questions(call).items():
        answer = by_key.get(key)
        if not isinstance(answer, Mapping) or answer.get("type") == "refusal":
            # A refusal is an answer; a question without any is not.
            refused = refused or isinstance(answer, Mapping)
            continue
        decisions[key] = _decision(answer, question)
    # Nothing to read, and asking again would give the same.
    if not decisions and not refused:
        raise bad_response(_ERROR_WITHOUT_ANSWERS, retryable=False)
    model = parsed.get("model")
    return Answer(
        json.dumps(decisions, ensure_ascii=False),
        model=model if isinstance(model, str) else None,
        finish_reason="stop" if decisions else "refusal",
        usage=_usage(parsed.get("usage")),
    )


def _by_key(answers: object) -> Mapping[str, Any]:
    if isinstance(answers, Mapping):
        return answers
    if isinstance(answers, Sequence) and not isinstance(answers, str):
        named = [answer for answer in answers if isinstance(answer, Mapping)]
        keys = [answer.get("name") for answer in named]
        # Two answers to one question: neither can be taken.
        if len(set(keys)) == len(keys):
            return dict(zip(map(str, keys), named, strict=True))
    raise bad_response(_ERROR_WITHOUT_ANSWERS, retryable=False)


def _decision(answer: Json, question: Json) -> JsonObject:
    """Return the choice for one question, `None` without one, and the probability of each value.

    Args:
        answer: The endpoint's answer to the question.
        question: The property of the answer's schema that was asked about.

    Raises:
        CallError: Of kind `bad_response`, if there is no probability or one is not a number.
    """
    if question["type"] == "boolean":
        # The two protocols name the probability of yes differently.
        likely = answer.get("noul", answer.get("probability"))
        probability = _probability(likely)
        shares = {"true": probability, "false": 1 - probability}
        return {"choice": None, "probabilities": shares}
    shares = {
        str(value): _probability(share)
        for value, share in _pairs(answer.get("probabilities"))
    }
    if not shares:
        raise _without_probabilities()
    choice = answer.get("choice")
    return {
        "choice": choice if isinstance(choice, str) else None,
        "probabilities": shares,
    }


def _pairs(probabilities: object) -> Iterable[tuple[object, object]]:
    if isinstance(probabilities, Mapping):
        return probabilities.items()
    if not isinstance(probabilities, Sequence) or isinstance(probabilities, str):
        return ()
    return [
        (entry.get("value"), entry.get("probability"))
        for entry in probabilities
        if isinstance(entry, Mapping)
    ]


def _probability(share: object) -> float:
    """Return a probability.

    Raises:
        CallError: If it is anything else; the nearest probability is never taken.
    """
    if isinstance(share, int | float) and not isinstance(share, bool):
        probability = float(share)
        if isfinite(probability) and 0 <= probability <= 1:
            return probability
    raise _without_probabilities()


def _without_probabilities() -> CallError:
    return bad_response(
        "the answer has no probabilities of the choices from 0 to 1", retryable=False
    )


def _usage(usage: object) -> Usage:
    if not isinstance(usage, Mapping):
        return Usage()
    read = usage.get("input_tokens")
    written = usage.get("output_tokens")
    # Wrong counts are worse than unknown ones: a cost would be made of them.
    if type(read) is not int or type(written) is not int or read <= 0 or written < 0:
        return Usage()
    return Usage(read, written)
