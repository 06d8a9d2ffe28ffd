"""The reward or the class of every response, by a model that reads the conversation instead of a prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import NoReturn

from jinja2 import TemplateError

from evalkit.config import RunConfig
from evalkit.core.scale import Classes
from evalkit.evaluators.base import Reading, conclude
from evalkit.evaluators.pointwise import SingleResponse
from evalkit.parsing import UnreadableError, read_class
from evalkit.prompting import Prompts
from evalkit.prompting.templates import PartialTemplate
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Message, Response


class Rewards(SingleResponse):
    """A score, any number, or with `rubric.classes` the class of every response.

    A request holds the conversation: the context and the prompt of the case as a user's message, and the response as
    the assistant's. With `judge.template` it holds one text, as the template renders them.

    Raises:
        PromptError: If the template cannot be found, parsed or filled.
    """

    weighs = False

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._config, self._prompts, self._answer = config, prompts, None
        self._prompt = PartialTemplate(self._messages, in_pieces=False)
        self.plan(Case("rehearsal", "text", (Response("text"),), context="text"))

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the judgment in a completion."""
        return conclude(request, completion, partial(self._read, completion.text), None)

    def _messages(self, texts: Mapping[str, str]) -> tuple[Message, ...]:
        asked = "\n\n".join(filter(None, (texts["context"], texts["original_prompt"])))
        spoken: tuple[Message, ...] = (
            {"role": "user", "content": asked},
            {"role": "assistant", "content": texts["response"]},
        )
        if (path := self._config.judge.members[0].template) is None:
            return spoken
        # The server adds the special tokens around a text.
        unused = {"bos_token": "", "eos_token": "", "add_generation_prompt": False, "tools": None}
        path = path if "/" in path else f"./{path}"
        [filled] = self._prompts.render(path, messages=spoken, raise_exception=_raise, **unused)
        return ({"role": "text", "content": filled["content"]},)

    def _read(self, text: str) -> Reading:
        try:
            found = json.loads(text)
            values, label = [float(one) for one in found["values"]], found["label"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UnreadableError("invalid", "the answer is not that of a reward model or classifier") from None
        if self._config.rubric.classes:
            name = read_class(self._config.output.map.get(label, label), Classes.of(self._config.rubric))
            return Reading(read_by="label", class_name=name, answer={"class": name})
        if len(values) != 1:
            what = f"the model answers with {len(values)} values where one reward is expected"
            raise UnreadableError("invalid", f"{what}; for its labels, set rubric.classes")
        return Reading(read_by="reward", criteria=dict.fromkeys(self._config.criteria, values[0]), answer=found)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
