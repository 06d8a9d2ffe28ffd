"""The reward or the class of every response, by a model that reads the conversation instead of a prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from jinja2 import TemplateError

from evalkit.config import RunConfig
from evalkit.core.scale import Classes
from evalkit.evaluators.base import Reading, check_responses, conclude
from evalkit.parsing import UnreadableError, read_class
from evalkit.prompting import Prompts, neutralize
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Message, Response


class Rewards:
    """A score, any number, or with `rubric.classes` the class of every response.

    A request holds the conversation: the context and the prompt of the case as a user's message, and the response as
    the assistant's. With `judge.template` it holds one text, as the template renders them.

    Raises:
        PromptError: If the template cannot be found, parsed or filled.
    """

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._config, self._prompts = config, prompts
        template = config.judge.members[0].template
        self._template = template and (template if "/" in template else f"./{template}")
        self._classes = Classes.of(config.rubric) if config.rubric.classes else None
        (self._criterion,) = config.criteria
        self.plan(Case("rehearsal", "text", (Response("text"),), context="text"))

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for every response and sample.

        Raises:
            DatasetError: If the case has no response.
        """
        check_responses(case, 1)
        samples, asked = range(self._config.mode.samples), neutralize(case.prompt)
        if case.context and not case.context.isspace():
            asked = f"{neutralize(case.context)}\n\n{asked}"
        shown = [self._messages(asked, neutralize(response.text)) for response in case.responses]
        return [
            JudgeRequest(case.id, (index,), (index,), messages, None, sample)
            for index, messages in enumerate(shown)
            for sample in samples
        ]

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the judgment in a completion."""
        return conclude(request, completion, partial(self._read, completion.text), None)

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """The SHA-256 of the template, if there is one."""
        return self._prompts.hashes()

    @property
    def prompt_texts(self) -> dict[str, str]:
        """The text of the template, if there is one."""
        return self._prompts.texts()

    def _messages(self, asked: str, answered: str) -> tuple[Message, ...]:
        spoken: tuple[Message, ...] = (
            {"role": "user", "content": asked},
            {"role": "assistant", "content": answered},
        )
        if self._template is None:
            return spoken
        # The server adds the special tokens around a text.
        unused = {"bos_token": "", "eos_token": "", "add_generation_prompt": False, "tools": None}
        filled = self._prompts.render(self._template, messages=spoken, raise_exception=_raise, **unused)
        return ({"role": "text", "content": filled[-1]["content"]},)

    def _read(self, text: str) -> Reading:
        try:
            found = json.loads(text)
            values, label = [float(one) for one in found["values"]], found["label"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UnreadableError("invalid", "the answer is not that of a reward model or classifier") from None
        if self._classes is not None:
            name = read_class(self._config.output.map.get(label, label), self._classes)
            return Reading(read_by="label", class_name=name, answer={"class": name})
        if len(values) != 1:
            what = f"the model answers with {len(values)} values where one reward is expected"
            raise UnreadableError("invalid", f"{what}; for its labels, set rubric.classes")
        return Reading(read_by="reward", criteria={self._criterion: values[0]}, answer={"score": values[0]})


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
