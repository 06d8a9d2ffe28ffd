"""Compare two responses in one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TypeAlias

from evalkit.config import Example, RunConfig
from evalkit.core.errors import PromptError
from evalkit.core.hashing import text_digest
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Response, Unit
from evalkit.core.values import JsonObject
from evalkit.evaluators.base import (
    SHARED,
    Reading,
    TemplateEvaluator,
    check_responses,
    filling,
    read_object,
    shared_variables,
    shown_example,
)
from evalkit.evaluators.json_answers import (
    PairwiseAnswer,
    by_criterion,
    pairwise_format,
)
from evalkit.evaluators.logprobs import Weighing, margins, paths, swap_distribution
from evalkit.evaluators.parsing import (
    MARGINS,
    AnswerTask,
    UnreadableError,
    check_fields,
    check_words,
    read_verdict,
)
from evalkit.evaluators.prompting import Prompts, marked_texts, neutralize

CLOSE = 1e-9
"""A margin closer than this to 0 is a tie."""
_TEXTS = (*SHARED, "response_a", "response_b")
_Safe: TypeAlias = tuple[Mapping[str, str], Sequence[str]]


def disagree(judgments: Sequence[Judgment], names: Sequence[str] = ()) -> bool:
    """Return whether the two orders of a pair have different winners.

    False if an order has no judgment.

    With `names`, also return true if they differ on any of these criteria, since some weights would
    make them disagree.
    """
    if any(_differ_on(name, judgments) for name in names):
        return True
    read = [judgment for judgment in judgments if judgment.value is not None]
    # Do not average stated margins with expectations.
    stated = any(judgment.weighted is None for judgment in read)
    margins = []
    for judgment in read:
        if stated or judgment.weighted is None:
            margin = judgment.value
        else:
            margin = judgment.weighted.value
        margins.append((judgment, margin or 0.0))
    means = _means_by_order(margins)
    if means is None:
        return False
    own, reverse = means
    return _sign(own) != _sign(reverse)


def _differ_on(name: str, judgments: Sequence[Judgment]) -> bool:
    """Return whether the two orders of a pair have different margins on a criterion."""
    margins = [
        (judgment, judgment.criteria[name])
        for judgment in judgments
        if name in judgment.criteria
    ]
    means = _means_by_order(margins)
    if means is None:
        return False
    own, reverse = means
    return abs(own - reverse) > CLOSE


def _means_by_order(
    margins: Sequence[tuple[Judgment, float]],
) -> tuple[float, float] | None:
    """Return the mean margins of the judgments in the unit's own order and in the reverse one;
    `None` if an order has no judgment. All margins are in the unit's order.
    """
    own: list[float] = []
    reverse: list[float] = []
    for judgment, margin in margins:
        was_swapped = judgment.shown != judgment.unit
        (reverse if was_swapped else own).append(margin)
    if not own or not reverse:
        return None
    return sum(own) / len(own), sum(reverse) / len(reverse)


def _sign(margin: float) -> int:
    """Return 1 or -1, or 0 for a margin so close to 0 that it is a tie."""
    return (margin > CLOSE) - (margin < -CLOSE)


def _random_order(case: Case, unit: Unit, sample: int) -> Unit:
    # The samples of a pair alternate, so that each order is equally frequent.
    number = int(text_digest(f"{case.id}\0{unit}")[:8], 16) + sample
    if number % 2:
        return unit[::-1]
    return unit


def _safe(case: Case) -> _Safe:
    return shared_variables(case), [
        neutralize(response.text) for response in case.responses
    ]


class Pairwise(TemplateEvaluator):
    """All pairs of a case's responses, each in the orders of `swap.policy`, each
    `mode.samples` times.

    Raises:
        ConfigError: If the output format does not support pairs, or its pattern has no group
            `winner`.
        PromptError: If the template cannot be found, parsed or filled.
    """

    weighs = True

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        examples = [
            self._example(example)
            for example in config.rubric.examples
            if example.winner is not None
        ]
        template = "pairwise_examples" if examples else None
        super().__init__(
            config,
            prompts,
            "pairwise",
            AnswerTask("winner", tie_allowed=config.tie.allow),
            template,
        )
        if examples and not prompts.uses(self._template, "examples"):
            where = prompts.place(self._template)
            remedy = "show {{ examples }} in it, or remove rubric.examples"
            raise PromptError(
                "has no placeholder 'examples'", where=where, remedy=remedy
            )
        self._tie_allowed = config.tie.allow
        self._answer = self._format.answer
        if self._structured:
            self._answer = pairwise_format(
                self._shown_names, tie_allowed=self._tie_allowed
            )
        self._weighing = Weighing(config, margins(tie_allowed=self._tie_allowed))
        self._weighing_ties = Weighing(config, margins(tie_allowed=True))
        constants = {
            "criteria": self._shown_criteria(),
            "tie_allowed": self._tie_allowed,
            "examples": examples,
        }
        self._prompt = prompts.partial(
            self._template, _TEXTS, **self._with_instruction(constants)
        )
        case = Case("rehearsal", "text", (Response("A"), Response("B")))
        needed = ("original_prompt", "response_a", "response_b")
        self._check_templates([case], [filling(self._prompt, _TEXTS)], needed)

    @staticmethod
    def _example(example: Example) -> JsonObject:
        return {
            **shown_example(example),
            "other": neutralize(example.response_b or ""),
            "winner": example.winner,
        }

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for every pair, order and sample.

        Raises:
            DatasetError: If the case has fewer than two responses.
        """
        check_responses(case, 2)
        safe = _safe(case)
        return [
            self._request(case, unit, order, sample, safe)
            for unit, order, sample in self._orders_and_samples(case)
        ]

    @property
    def most_further(self) -> int:
        """How many third requests a pair can need."""
        swap = self._config.swap
        third = swap.policy == "both" and swap.resolve == "third_pass"
        if third:
            return self._config.mode.samples
        return 0

    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return a third request for each sample if `swap.resolve=third_pass` and the
        orders of a pair disagree.

        Its order is random by case and sample. For the same judge, sample numbers continue, so that
        answers are new.
        """
        swap = self._config.swap
        samples = self._config.mode.samples
        names = self._names if self._config.weighs_criteria() else ()
        if (
            swap.policy != "both"
            or swap.resolve != "third_pass"
            or not disagree(judgments, names)
        ):
            return ()
        # The same judge would repeat its stored answer for a sample number that it has had.
        first = 0 if swap.arbiter is not None else samples
        unit = judgments[0].unit
        safe = _safe(case)
        requests = (
            self._request(case, unit, _random_order(case, unit, sample), sample, safe)
            for sample in range(first, first + samples)
        )
        return [replace(request, third=True) for request in requests]

    def _orders_and_samples(self, case: Case) -> Iterator[tuple[Unit, Unit, int]]:
        # The order of requests: by pair, then sample, then order. Both orders of a pair are next
        # to each other, so that a unit is complete soon.
        for unit in combinations(range(len(case.responses)), 2):
            for sample in range(self._config.mode.samples):
                for order in self._orders(case, unit, sample):
                    yield unit, order, sample

    def _orders(self, case: Case, unit: Unit, sample: int) -> tuple[Unit, ...]:
        policy = self._config.swap.policy
        if policy == "both":
            return unit, unit[::-1]
        return (_random_order(case, unit, sample) if policy == "random" else unit,)

    def _request(
        self, case: Case, unit: Unit, order: Unit, sample: int, safe: _Safe
    ) -> JudgeRequest:
        shared, responses = safe
        first, second = (responses[index] for index in order)
        messages = self._prompt.fill(**shared, response_a=first, response_b=second)
        return JudgeRequest(case.id, unit, order, messages, self._answer, sample)

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the margins of a JSON answer, in the order of the unit.

        A margin is above 0 if the first response of the unit is better, and below 0 if the second
        one is.

        Raises:
            UnreadableError: If it has no winner, or a tie that is not allowed.
        """
        answer_fields, rung = read_object(request, completion, ("comparison", "result"))
        answer = PairwiseAnswer.read(answer_fields)
        sources = partial(marked_texts, request.messages)
        check_words(
            completion.text,
            sources,
            read_verdict,
            answer.result.winner,
            winner=answer.result.winner,
        )
        check_fields(answer_fields, read_verdict, answer.result.winner)
        compared = by_criterion(answer.comparison, self._names, "comparison")
        decisions = paths("comparison", answer.comparison, compared, "winner")
        winners = {
            "result": answer.result.winner,
            **{name: part.winner for name, part in compared.items()},
        }
        tied = [field for field, winner in winners.items() if winner == "TIE"]
        # The judge is asked again once. If it insists on a tie, `tie.allow` decides it.
        if tied and not self._tie_allowed and request.turn == 0:
            raise UnreadableError(
                "invalid", f"{tied[0]}: TIE is not allowed: choose A or B"
            )
        weighing = self._weighing_ties if tied else self._weighing
        # Names as in the config, not as the judge spelled them: reports look them up.
        named = tuple(
            part.model_copy(update={"criterion": name})
            for name, part in compared.items()
        )
        answer = answer.model_copy(update={"comparison": named})
        weighted = weighing(
            request, completion, answer_fields, decisions, ("result", "winner")
        )
        unswapped = answer
        # The judge saw the pair reversed: everything is turned back to the case's order.
        if request.shown != request.unit:
            unswapped = answer.swapped()
            weighted = weighted and swap_distribution(weighted)
        return Reading(
            read_by=rung,
            value=MARGINS[unswapped.result.winner],
            confidence=unswapped.result.confidence,
            criteria={
                part.criterion: MARGINS[part.winner] for part in unswapped.comparison
            },
            answer=unswapped.dump(),
            weighted=weighted,
        )

    def _read_text(self, request: JudgeRequest, completion: Completion) -> Reading:
        margin = float(self._format.read(self._reply(request, completion)))
        value = margin if request.shown == request.unit else -margin
        winner = "TIE"
        if value > 0:
            winner = "A"
        elif value < 0:
            winner = "B"
        return Reading(
            read_by=self._config.output.format, value=value, answer={"winner": winner}
        )
