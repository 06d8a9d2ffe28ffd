"""Score one response per request on each criterion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalkit.config import Example, RunConfig
from evalkit.core.scale import Scale
from evalkit.errors import ConfigError
from evalkit.evaluators.answer_schemas import pointwise_format
from evalkit.evaluators.answers import PointwiseAnswer, by_criterion
from evalkit.evaluators.base import SHARED, TemplateEvaluator, check_responses, shared_variables
from evalkit.evaluators.logprobs import Weighing, paths, scores_of
from evalkit.evaluators.output_formats import AnswerTask
from evalkit.evaluators.reading import Reading, conclude, is_cut_off, read_object
from evalkit.parsing import UnreadableError, read_score
from evalkit.prompting import Prompts, marked_texts, neutralize
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Response

_TEXTS = (*SHARED, "response")


class Pointwise(TemplateEvaluator):
    """Every response of a case, each `mode.samples` times.

    Raises:
        ConfigError: If the output format does not support scores, or gives one score for several criteria.
        PromptError: If the template cannot be found, parsed or filled.
    """

    weighs = True

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        self._scale = Scale.of(config.rubric)
        super().__init__(config, prompts, "pointwise", AnswerTask("score", scale=self._scale))
        self._structured = self._format.structured
        self._answer = pointwise_format(self._shown_names, self._scale) if self._structured else self._format.answer
        self._weighing = Weighing(config, scores_of(self._scale) if config.judge.weighs else {})
        self._check_single()
        self._prompt = prompts.partial(self._template, _TEXTS, **self._constants())
        self._check_templates()

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for every response and sample.

        Raises:
            DatasetError: If the case has no response.
        """
        check_responses(case, 1)
        return list(self._requests(case))

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the scores in a completion, or a retry request if its JSON is unusable."""
        read = self._read_json if self._structured else self._read_text
        retry = self._prompts.retry if self._structured else None
        return conclude(request, completion, lambda: read(request, completion), retry)

    def _requests(self, case: Case) -> Iterator[JudgeRequest]:
        shared = shared_variables(case)
        for index, response in enumerate(case.responses):
            messages = self._prompt.fill(**shared, response=neutralize(response.text))
            for sample in range(self._config.mode.samples):
                yield JudgeRequest(case.id, (index,), (index,), messages, self._answer, sample)

    def _constants(self) -> dict[str, Any]:
        rubric, scale = self._config.rubric, self._scale
        if rubric.examples_path is not None:
            what = f"'{rubric.examples_path}' has not been read"
            raise ConfigError(what, where="rubric.examples_path", remedy="call with_examples first")
        common = any(not one.levels for one in self._config.criteria.values())
        variables = {
            "criteria": self._criteria(),
            "scale": scale.words(),
            "levels": self._levels(rubric.levels) if common else [],
            "examples": [self._example(one) for one in rubric.examples],
        }
        return self._with_instruction(variables)

    def _levels(self, levels: Mapping[float, str]) -> list[dict[str, str]]:
        return self._scale.described({value: neutralize(text) for value, text in levels.items()})

    def _example(self, example: Example) -> dict[str, Any]:
        # An example with one score for the whole response has no criterion.
        shown: dict[str, float] = example.scores if example.score is None else {"": example.score}
        return {
            "task": neutralize(example.prompt or ""),
            "response": neutralize(example.response),
            "justification": neutralize(example.justification),
            "scores": [
                {"criterion": neutralize(name), "score": self._scale.text(score)} for name, score in shown.items()
            ],
        }

    def _criteria(self) -> list[dict[str, Any]]:
        levels = [self._levels(one.levels) for one in self._config.criteria.values()]
        return [{**shown, "levels": own} for shown, own in zip(self._shown_criteria(), levels, strict=True)]

    def _check_single(self) -> None:
        if self._structured:
            return
        if len(self._names) > 1:
            raise ConfigError(
                f"it gives one score, and there are {len(self._names)} criteria",
                where=f"output.format '{self._config.output.format}'",
                remedy="use one criterion (criteria=overall), or set output=json",
            )

    def _check_templates(self) -> None:
        """Fill every template once with and once without the optional parts, to report errors before any request."""
        for optional in (None, "text"):
            self.plan(Case("rehearsal", "text", (Response("text"),), context=optional, reference=optional))
        empty = dict.fromkeys(_TEXTS, "")
        self._check_placeholders(
            lambda texts: self._prompt.fill(**{**empty, **texts}),
            ("original_prompt", "response"),
        )
        if self._structured:
            self._prompts.retry("text")

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        found, rung = read_object(request, completion, ("scores",))
        answer = PointwiseAnswer.read(found)
        scored = by_criterion(answer.scores, self._names, "scores")
        scores = {name: self._score(name, one.score) for name, one in scored.items()}
        named = tuple(one.model_copy(update={"criterion": name, "score": scores[name]}) for name, one in scored.items())
        weighted = self._weighing(request, completion, found, paths("scores", answer.scores, scored, "score"))
        answer = answer.model_copy(update={"scores": named})
        return Reading(read_by=rung, criteria=scores, answer=answer.dump(), weighted=weighted)

    def _score(self, name: str, value: object) -> float:
        try:
            return read_score(value, self._scale)
        except UnreadableError as fault:
            raise UnreadableError(fault.kind, f"score of {name}: {fault.reason}") from None

    def _read_text(self, request: JudgeRequest, completion: Completion) -> Reading:
        sources = marked_texts(request.messages)
        score = self._format.score(completion.text, cut_off=is_cut_off(completion), sources=sources)
        name = self._config.output.format
        return Reading(read_by=name, criteria={self._names[0]: score}, answer={"score": score})
