"""Rank all responses of a case in one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from string import ascii_uppercase

from evalkit.config import RunConfig
from evalkit.core.errors import DatasetError
from evalkit.core.hashing import text_digest
from evalkit.core.types import (
    Case,
    Completion,
    JudgeRequest,
    Message,
    Ranking,
    Response,
    Unit,
)
from evalkit.core.values import JsonObject
from evalkit.evaluators.base import (
    Reading,
    TemplateEvaluator,
    check_responses,
    read_object,
    shared_variables,
)
from evalkit.evaluators.json_answers import (
    CriterionRanking,
    ListwiseAnswer,
    by_criterion,
    listwise_format,
    read_ranking,
    write_ranking,
)
from evalkit.evaluators.parsing import AnswerTask, check_words
from evalkit.evaluators.prompting import Prompts, marked_texts, neutralize


class Listwise(TemplateEvaluator):
    """All responses of a case at once, in the orders of `swap.policy`, each `mode.samples` times.

    Policy `none` uses the order of the case, `random` a shuffled order, and `both` a shuffled order
    and its reverse, so that each pair is shown in both orders. Shuffles depend only on the case and
    the sample.

    Raises:
        ConfigError: If the output format does not support rankings.
        PromptError: If the template cannot be found, parsed or filled.
    """

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        super().__init__(
            config,
            prompts,
            "listwise",
            AnswerTask("ranking", tie_allowed=config.tie.allow),
        )
        self._tie_allowed = config.tie.allow
        self._known: dict[str, JsonObject] = {}
        case = Case("rehearsal", "text", (Response("A"), Response("B")))
        self._check_templates([case], [self._probe], ("original_prompt", "responses"))

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for every order and sample.

        Raises:
            DatasetError: If the case has fewer than two responses, or more than 26.
        """
        check_responses(case, 2)
        if len(case.responses) > len(ascii_uppercase):
            raise DatasetError(
                f"it has {len(case.responses)} responses, and a list can have at most"
                f" {len(ascii_uppercase)}",
                where=f"case '{case.id}'",
                remedy="set mode=pairwise or mode=pointwise",
            )
        return [
            self._order_request(case, order, sample)
            for sample in range(self._config.mode.samples)
            for order in self._orders_of_sample(case, sample)
        ]

    def _orders_of_sample(self, case: Case, sample: int) -> Iterator[Unit]:
        """Yield the orders in which a sample shows the responses, as `swap.policy` says."""
        unit = tuple(range(len(case.responses)))
        policy = self._config.swap.policy
        if policy == "none":
            yield unit
        elif policy == "both":
            yield from (
                _shuffled(case, unit, sample),
                _shuffled(case, unit, sample)[::-1],
            )
        else:
            # Samples alternate, so that each order of a pair is equally frequent.
            order = _shuffled(case, unit, sample // 2)
            yield order[::-1] if sample % 2 else order

    def _order_request(self, case: Case, order: Unit, sample: int) -> JudgeRequest:
        """Return the request that shows the responses of a case in an order."""
        labels = ascii_uppercase[: len(order)]
        fixed = self._fixed(labels)
        # Position in the prompt -> text; labels are by position, too.
        texts = [neutralize(case.responses[index].text) for index in order]
        responses = [
            {"label": label, "text": text}
            for label, text in zip(labels, texts, strict=True)
        ]
        messages = self._prompts.render(
            self._template,
            **{**shared_variables(case), **fixed, "responses": responses},
        )
        answer = listwise_format(self._shown_names, labels)
        # `unit` is sorted, so that all orders of a case are one unit.
        return JudgeRequest(
            case.id, tuple(sorted(order)), order, messages, answer, sample
        )

    def _fixed(self, labels: str) -> JsonObject:
        """Return the placeholders that depend only on the number of responses."""
        if labels not in self._known:
            variables = {
                "criteria": self._shown_criteria(),
                "tie_allowed": self._tie_allowed,
                "responses": [{"label": label} for label in labels],
            }
            self._known[labels] = self._with_instruction(variables)
        return self._known[labels]

    def _probe(self, texts: Mapping[str, str]) -> Sequence[Message]:
        """Return the messages for a case with the texts of these placeholders."""
        case = Case(
            "rehearsal",
            texts["original_prompt"],
            (Response(texts["responses"]), Response("B")),
        )
        return self._order_request(case, (0, 1), 0).messages

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the rankings of a JSON answer, in indices of the responses of the case."""
        answer_fields, rung = read_object(request, completion, ("comparison", "result"))
        answer = ListwiseAnswer.read(answer_fields)
        compared = by_criterion(answer.comparison, self._names, "comparison")
        ranking = self._read_ranking_field(
            answer.result.ranking, request, "result.ranking"
        )
        sources = partial(marked_texts, request.messages)
        read = partial(self._read_ranking_field, request=request, field="result")
        check_words(completion.text, sources, read, ranking)
        # Groups of indices of the case's responses, no longer positions in the prompt.
        rankings = {
            name: self._read_ranking_field(part.ranking, request, name)
            for name, part in compared.items()
        }
        return Reading(
            read_by=rung,
            confidence=answer.result.confidence,
            ranking=ranking,
            rankings=rankings,
            answer=_with_letters_of_case(answer, request.shown, ranking, rankings),
        )

    def _read_ranking_field(
        self, value: object, request: JudgeRequest, field: str
    ) -> Ranking:
        """Return a ranking as groups of indices of responses, best first.

        Raises:
            UnreadableError: If it is no ranking of these responses, or has a forbidden tie.
        """
        labels = ascii_uppercase[: len(request.shown)]
        # If the judge insists on a tie when it is asked again, `tie.allow` decides it.
        groups = read_ranking(
            value, labels, field, tie_allowed=self._tie_allowed or request.turn > 0
        )
        return tuple(
            # position in the prompt -> index of the response
            tuple(sorted(request.shown[position] for position in group))
            for group in groups
        )


def _shuffled(case: Case, unit: Unit, shuffle: int) -> Unit:
    # The order is part of the content key, so it uses a hash: a random generator could differ
    # between Python versions.
    return tuple(
        sorted(unit, key=lambda index: text_digest(f"{case.id}\0{shuffle}\0{index}"))
    )


def _with_letters_of_case(
    answer: ListwiseAnswer, order: Unit, ranking: Ranking, rankings: dict[str, Ranking]
) -> JsonObject:
    """Return the answer with the responses' letters in the case instead of those shown."""
    # letter in the prompt -> letter in the case
    letters = {
        letter: ascii_uppercase[index]
        for letter, index in zip(ascii_uppercase, order, strict=False)
    }
    reasons = by_criterion(answer.comparison, list(rankings), "comparison")
    reviews = [
        review.model_copy(
            update={"response": letters.get(review.response, review.response)}
        )
        for review in answer.analysis
    ]
    return ListwiseAnswer(
        analysis=tuple(sorted(reviews, key=lambda review: review.response)),
        comparison=tuple(
            CriterionRanking(
                criterion=name,
                reasoning=reasons[name].reasoning,
                ranking=write_ranking(groups, ascii_uppercase),
            )
            for name, groups in rankings.items()
        ),
        result=answer.result.model_copy(
            update={"ranking": write_ranking(ranking, ascii_uppercase)}
        ),
    ).dump()
