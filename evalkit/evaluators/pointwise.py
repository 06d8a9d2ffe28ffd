"""Judge one response per request: a score on each criterion, one class, or the reward
of a model that has no prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NoReturn

from jinja2 import TemplateError

from evalkit.config import Example, RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Classes, Scale
from evalkit.core.types import (
    AnswerFormat,
    Case,
    Completion,
    JudgeRequest,
    Judgment,
    Message,
    Response,
)
from evalkit.core.values import Json, JsonObject
from evalkit.evaluators.base import (
    SHARED,
    Reading,
    TemplateEvaluator,
    check_responses,
    conclude,
    filling,
    read_object,
    shared_variables,
    shown_example,
)
from evalkit.evaluators.json_answers import (
    ClassAnswer,
    PointwiseAnswer,
    by_criterion,
    class_format,
    pointwise_format,
)
from evalkit.evaluators.logprobs import Weighing, paths, scores_of
from evalkit.evaluators.parsing import (
    AnswerTask,
    UnreadableError,
    check_fields,
    check_words,
    read_class,
    read_score,
)
from evalkit.evaluators.prompting import Prompts, marked_texts, neutralize
from evalkit.evaluators.prompting.templates import PrefilledTemplate

_TEXTS = (*SHARED, "response")


class SingleResponse(TemplateEvaluator):
    """Every response of a case on its own, each `mode.samples` times."""

    weighs = True

    def _prepare(
        self, answer: AnswerFormat, weighing: Weighing, variables: Json
    ) -> None:
        """Take the format of a JSON answer, and fill the template with everything that
        does not depend on the case.

        Raises:
            PromptError: If the template cannot be found, parsed or filled.
        """
        self._answer = answer if self._structured else self._format.answer
        self._weighing = weighing
        self._prompt = self._prompts.partial(
            self._template, _TEXTS, **self._with_instruction(variables)
        )
        case = Case("rehearsal", "text", (Response("text"),))
        self._check_templates(
            [case], [filling(self._prompt, _TEXTS)], ("original_prompt", "response")
        )

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for every response and sample.

        Raises:
            DatasetError: If the case has no response.
        """
        check_responses(case, 1)
        return list(self._requests(case))

    def _requests(self, case: Case) -> Iterator[JudgeRequest]:
        """Yield a request for each response and sample of a case, the samples of one response
        together.
        """
        shared = shared_variables(case)
        for index, response in enumerate(case.responses):
            messages = self._prompt.fill(**shared, response=neutralize(response.text))
            for sample in range(self._config.mode.samples):
                yield JudgeRequest(
                    case.id,
                    # One response has one order.
                    unit=(index,),
                    shown=(index,),
                    messages=messages,
                    answer=self._answer,
                    sample=sample,
                )

    def _examples(self) -> Sequence[Example]:
        rubric = self._config.rubric
        if rubric.examples_path is not None:
            problem = f"'{rubric.examples_path}' has not been read"
            raise ConfigError(
                problem, where="rubric.examples_path", remedy="call with_examples first"
            )
        return rubric.examples


class Pointwise(SingleResponse):
    """Scores of every response on each criterion.

    Raises:
        ConfigError: If the output format does not support scores, or gives one score for several
            criteria.
        PromptError: If the template cannot be found, parsed or filled.
    """

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._scale = Scale.of(config.rubric)
        super().__init__(
            config, prompts, "pointwise", AnswerTask("score", scale=self._scale)
        )
        if len(self._names) > 1 and not self._structured:
            raise ConfigError(
                f"it gives one score, and there are {len(self._names)} criteria",
                where=f"output.format '{config.output.format}'",
                remedy="use one criterion (criteria=overall), or set output=json",
            )
        weighing = Weighing(
            config, scores_of(self._scale) if config.judge.weighs else {}
        )
        self._prepare(
            pointwise_format(self._shown_names, self._scale),
            weighing,
            self._variables(),
        )

    def _variables(self) -> JsonObject:
        """Return what the template shows that is the same for all cases."""
        all_levels = [criterion.levels for criterion in self._config.criteria.values()]
        criteria = [
            {**criterion, "levels": self._levels(levels)}
            for criterion, levels in zip(
                self._shown_criteria(), all_levels, strict=True
            )
        ]
        # If each criterion describes its levels, those of the rubric are not needed.
        rubric_levels = {} if all(all_levels) else self._config.rubric.levels
        return {
            "criteria": criteria,
            "scale": self._scale.words(),
            "levels": self._levels(rubric_levels),
            "examples": [self._example(example) for example in self._examples()],
        }

    def _levels(self, levels: Mapping[float, str]) -> list[dict[str, str]]:
        return self._scale.described(
            {value: neutralize(text) for value, text in levels.items()}
        )

    def _example(self, example: Example) -> JsonObject:
        # An example with one score for the whole response has no criterion.
        score_by_name: dict[str, float] = (
            example.scores if example.score is None else {"": example.score}
        )
        scores = [
            {"criterion": neutralize(name), "score": self._scale.text(score)}
            for name, score in score_by_name.items()
        ]
        return {**shown_example(example), "scores": scores}

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the score of each criterion in a JSON answer.

        Raises:
            UnreadableError: If a criterion has no score, or one that is not on its scale.
        """
        answer_fields, rung = read_object(request, completion, ("scores",))
        answer = PointwiseAnswer.read(answer_fields)
        scored = by_criterion(answer.scores, self._names, "scores")
        scores = {name: self._score(name, part.score) for name, part in scored.items()}
        # Names as in the config, not as the judge spelled them: reports look them up.
        named = tuple(
            part.model_copy(update={"criterion": name, "score": scores[name]})
            for name, part in scored.items()
        )
        weighted = self._weighing(
            request,
            completion,
            answer_fields,
            # From the answer as it was written: the paths are looked up in its text.
            paths("scores", answer.scores, scored, "score"),
        )
        answer = answer.model_copy(update={"scores": named})
        return Reading(
            read_by=rung, criteria=scores, answer=answer.dump(), weighted=weighted
        )

    def _score(self, name: str, value: object) -> float:
        try:
            return read_score(value, self._scale)
        except UnreadableError as fault:
            raise UnreadableError(
                fault.kind, f"score of {name}: {fault.reason}"
            ) from None

    def _read_text(self, request: JudgeRequest, completion: Completion) -> Reading:
        score = float(self._format.read(self._reply(request, completion)))
        name = self._config.output.format
        return Reading(
            read_by=name, criteria={self._names[0]: score}, answer={"score": score}
        )


class PointwiseClass(SingleResponse):
    """The class of every response, by all criteria together.

    Raises:
        ConfigError: If the output format does not support classes.
        PromptError: If the template cannot be found, parsed or filled.
    """

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._classes = Classes.of(config.rubric)
        super().__init__(
            config,
            prompts,
            "pointwise_class",
            AnswerTask("class", classes=self._classes),
        )
        weighing = Weighing.of_classes(config, self._classes)
        self._prepare(class_format(self._classes.answers), weighing, self._variables())

    def _variables(self) -> JsonObject:
        """Return what the template shows that is the same for all cases."""
        classes = self._classes
        return {
            "criteria": self._shown_criteria(),
            "classes": [
                {"name": name, "meaning": neutralize(text)}
                for name, text in classes.meanings.items()
            ],
            "abstain": classes.abstain or "",
            "ordered": classes.ordered,
            "examples": [
                {**shown_example(example), "class": example.class_name}
                for example in self._examples()
            ],
        }

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the class in a JSON answer.

        Raises:
            UnreadableError: If it is not one of the rubric's, or the judge's words name another
                one.
        """
        answer_fields, rung = read_object(request, completion, ("class",))
        answer = ClassAnswer.read(answer_fields)
        read = partial(read_class, classes=self._classes)
        name = read(answer.class_name)
        sources = partial(marked_texts, request.messages)
        check_words(completion.text, sources, read, name)
        check_fields(answer_fields, read, name)
        weighted = self._weighing.of_class(
            request, completion, answer_fields, ("class",)
        )
        answer = answer.model_copy(update={"class_name": name})
        return Reading(
            read_by=rung, class_name=name, answer=answer.dump(), weighted=weighted
        )

    def _read_text(self, request: JudgeRequest, completion: Completion) -> Reading:
        name = str(self._format.read(self._reply(request, completion)))
        return Reading(
            read_by=self._config.output.format, class_name=name, answer={"class": name}
        )


class Rewards(SingleResponse):
    """A score, any number, or with `rubric.classes` the class of every response.

    A request holds the conversation: the context and the prompt of the case as a user's message,
    and the response as the assistant's. With `judge.template` it holds one text, as the template
    renders them.

    Raises:
        PromptError: If the template cannot be found, parsed or filled.
    """

    weighs = False

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._config, self._prompts, self._answer = config, prompts, None
        self._prompt = PrefilledTemplate(self._messages, in_pieces=False)
        self.plan(Case("rehearsal", "text", (Response("text"),), context="text"))

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the judgment in a completion."""
        return conclude(
            request, completion, partial(self._read_reward, completion.text), None
        )

    def _messages(self, texts: Mapping[str, str]) -> tuple[Message, ...]:
        """Return the conversation to reward: messages, or a text by the model's template."""
        question = "\n\n".join(
            filter(None, (texts["context"], texts["original_prompt"]))
        )
        spoken: tuple[Message, ...] = (
            {"role": "user", "content": question},
            {"role": "assistant", "content": texts["response"]},
        )
        if (path := self._config.judge.members[0].template) is None:
            return spoken
        # The server adds the special tokens around a text.
        unused = {
            "bos_token": "",
            "eos_token": "",
            "add_generation_prompt": False,
            "tools": None,
        }
        # With a slash it is a file; a bare name would be looked for among the templates.
        path = path if "/" in path else f"./{path}"
        [filled] = self._prompts.render(
            path, messages=spoken, raise_exception=_raise, **unused
        )
        return ({"role": "text", "content": filled["content"]},)

    def _read_reward(self, text: str) -> Reading:
        """Return the class of a classifier, or the reward as the score of the criterion.

        Raises:
            UnreadableError: If the answer is neither.
        """
        try:
            answer = json.loads(text)
            # One number for each class, or one reward.
            values = [float(number) for number in answer["values"]]
            label = answer["label"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UnreadableError(
                "invalid", "the answer is not that of a reward model or classifier"
            ) from None
        if self._config.rubric.classes:
            name = read_class(
                self._config.output.map.get(label, label),
                Classes.of(self._config.rubric),
            )
            return Reading(read_by="label", class_name=name, answer={"class": name})
        if len(values) != 1:
            problem = f"the model answers with {len(values)} values where one reward is expected"
            raise UnreadableError(
                "invalid", f"{problem}; for its labels, set rubric.classes"
            )
        return Reading(
            read_by="reward",
            criteria=dict.fromkeys(self._config.criteria, values[0]),
            answer=answer,
        )


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
