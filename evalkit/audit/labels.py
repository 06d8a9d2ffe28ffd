"""Show a pair under other names than A and B, and read the answer back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalkit.prompting import marked_texts
from evalkit.protocols import Evaluator
from evalkit.types import AnswerFormat, Case, Completion, JudgeRequest, Judgment, Message

_NAME = re.compile(r"(?<![A-Za-z'’])[AB](?![A-Za-z'’]|(?-i: [a-z]))|(?<=[Rr]esponse )[AB](?![A-Za-z])")


class Relabeled:
    """An evaluator whose prompts call the two responses by other names; texts under judgment stay as they are."""

    def __init__(self, evaluator: Evaluator, names: tuple[str, str]) -> None:
        self._evaluator = evaluator
        self._names = dict(zip("AB", names, strict=True))
        back = {name: letter for letter, name in self._names.items()}
        self._back = {f'"{name}"': f'"{letter}"' for name, letter in back.items()}
        for before, after in (("[[", "]]"), ("Response ", ""), ("回答 ", ""), ("回答", "")):
            self._back |= {f"{before}{name}{after}": f"{before}{letter}{after}" for name, letter in back.items()}
        self._known: list[tuple[AnswerFormat, AnswerFormat]] = []

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests, under other names."""
        return [self._renamed(request) for request in self._evaluator.plan(case)]

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the judgment in a completion whose names are read back."""
        text = completion.text
        for name, letter in self._back.items():
            text = text.replace(name, letter)
        return self._evaluator.read(request, replace(completion, text=text))

    def _renamed(self, request: JudgeRequest) -> JudgeRequest:
        texts = sorted({text for text in marked_texts(request.messages) if text.strip()}, key=len, reverse=True)
        messages = tuple(self._message(message, texts) for message in request.messages)
        answer = None if request.answer is None else self._answer(request.answer)
        return replace(request, messages=messages, answer=answer)

    def _message(self, message: Message, texts: Sequence[str]) -> Message:
        parts = (
            re.split("(" + "|".join(map(re.escape, texts)) + ")", message["content"]) if texts else [message["content"]]
        )
        shown = [
            part if index % 2 else _NAME.sub(lambda m: self._names[m[0]], part) for index, part in enumerate(parts)
        ]
        return {"role": message["role"], "content": "".join(shown)}

    def _answer(self, answer: AnswerFormat) -> AnswerFormat:
        for old, new in self._known:
            if old is answer:
                return new
        self._known.append((answer, replace(answer, schema=self._schema(answer.schema))))
        return self._known[-1][1]

    def _schema(self, schema: Any) -> Any:
        if isinstance(schema, Mapping):
            return {
                key: [self._names.get(value, value) for value in part] if key == "enum" else self._schema(part)
                for key, part in schema.items()
            }
        return schema
