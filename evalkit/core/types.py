"""The frozen values that pass between stages.

    Case                    datasets/case_reader.py, from a row of a file
    JudgeRequest            Evaluator.plan, with prompts
    Completion | Failure    engine/sender.py, judges/model_judge.py and a transport
    Judgment                Evaluator.read; evaluators/base.py ends it
    Verdict                 scoring/verdicts/, from the judgments of both orders and all samples
    Metric                  scoring/metrics/, with its interval from scoring/stats/bootstrap.py

Then come the decision about the judge (`scoring/decision/rules.py`), its sentences
(`report/findings/decisions.py`) and the tracker (`tracking/recording.py`).

This module does no IO and knows no provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias, TypedDict

from evalkit.core.values import frozen

__all__ = [
    "Annotation",
    "AnswerFormat",
    "Case",
    "ChecklistItem",
    "Completion",
    "Failure",
    "ItemAnswer",
    "ItemReason",
    "ItemVerdict",
    "JudgeRequest",
    "JudgeSpec",
    "Judgment",
    "Message",
    "Metric",
    "Orders",
    "Ranking",
    "Reason",
    "Response",
    "Rung",
    "Status",
    "StoreDescription",
    "StoredCompletion",
    "TokenLogprob",
    "Unit",
    "Usage",
    "Verdict",
    "WeightedJudgment",
    "Winner",
]

Winner: TypeAlias = Literal["A", "B", "TIE"]
Status: TypeAlias = Literal["ok", "repaired", "unparseable", "refused", "failed"]
Reason: TypeAlias = Literal[
    "judged",
    "threshold",
    "swap_disagreement",
    "forced",
    "missing",
    "split",
    "equal_scores",
    "abstained",
    "criteria_cancel",
]
ItemAnswer: TypeAlias = Literal["met", "not_met", "cannot_assess"]
ItemReason: TypeAlias = Literal[
    "judged", "prerequisite", "undetermined", "split", "missing"
]
Rung: TypeAlias = Literal["json_schema", "tool", "json_object", "text"]
Unit: TypeAlias = tuple[int, ...]
Annotation: TypeAlias = (
    Winner | tuple[float | None, ...] | tuple[str | None, ...] | Mapping[str, Winner]
)
"""One annotator's label: a choice between the first two responses, a grade or a class per response,
or choices by pair.
"""
Ranking: TypeAlias = tuple[tuple[int, ...], ...]
"""Indices of responses in groups of equals, best group first; omitted responses are in no group."""


class Message(TypedDict):
    """One chat message."""

    role: str
    content: str


@frozen
class Response:
    """One text to judge.

    Attributes:
        text: The text.
        model: The system that wrote it; `None` if unknown.
        grade: The annotators' grade, in the units of their scale; `None` if there is none.
        class_name: The annotators' class; `None` if there is none.
    """

    text: str
    model: str | None = None
    grade: float | None = None
    class_name: str | None = None


@frozen
class ChecklistItem:
    """One requirement of a case, or a group of requirements: an item that others name
    as their `parent`.

    Attributes:
        id: The item's id, unique in its case.
        criterion: What the judge checks.
        points: The points of a met item; negative for something that a response must not do.
        weight: The weight among the parts of the same parent.
        required: Whether the rule `required` needs it.
        after: The ids of the items that must be met first.
        tags: The tags that metrics are grouped by.
        parent: The id of the group that it is a part of.
        labels: The answers of each annotator, one for each response of the case.
        numbered: Whether the id is only the item's number in its case.
    """

    id: str
    criterion: str
    points: float = 1.0
    weight: float = 1.0
    required: bool = False
    after: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    parent: str | None = None
    labels: Mapping[str, tuple[ItemAnswer | None, ...]] = field(default_factory=dict)
    numbered: bool = False


@frozen
class Case:
    """What a judge judges: a prompt and its responses. Most data sets have a row for each.

    Attributes:
        id: The case's id, unique in its dataset.
        prompt: The prompt that the responses answer.
        responses: The responses to judge; `grade` is the annotators' grade of a response,
            `class_name` their class.
        context: Text that the judge sees in addition to the prompt.
        reference: A reference answer.
        label: The annotators' choice between the first two responses: `A`, `B` or `TIE`.
        metadata: All other fields of the row.
        labels: The label of each annotator: a choice between the first two responses, a grade or a
            class per response, or choices by pair (`0,2`); see `evalkit.core.annotations`.
        checklist: The items of the case's checklist, each group before its parts.
    """

    id: str
    prompt: str
    responses: tuple[Response, ...]
    context: str | None = None
    reference: str | None = None
    label: Winner | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Annotation] = field(default_factory=dict)
    checklist: tuple[ChecklistItem, ...] = ()


@frozen
class AnswerFormat:
    """The requested structured answer: a name and a JSON schema, whose order of
    properties is that of the answer.
    """

    name: str
    schema: Mapping[str, Any]


@frozen
class JudgeRequest:
    """One call to a judge, as an evaluator's `plan` returns it.

    Attributes:
        case_id: The case's id.
        unit: The indices of the responses to judge, ascending.
        shown: The same indices in the order shown; (1, 0) shows the case's second response first.
        messages: The messages to send.
        answer: The format of the answer; `None` for free text.
        sample: The index of the sample.
        turn: 0 for a first request, 1 for a repeated one.
        judge: The judge's name.
        then: The request that needs this one's answer, complete except for that answer.
        shared: Whether all samples share the answer of sample 0.
        third: Whether this is the third judgment of a pair whose two orders disagree.
        max_tokens: A limit for this call only, set by a budget. It is not in the content key,
            because an answer that it cuts off is not stored.
        items: The ids of the checklist items to judge, in the order shown.
    """

    case_id: str
    unit: Unit
    shown: Unit
    messages: tuple[Message, ...]
    answer: AnswerFormat | None = None
    sample: int = 0
    turn: int = 0
    judge: str = ""
    then: JudgeRequest | None = None
    shared: bool = False
    third: bool = False
    max_tokens: int | None = None
    items: tuple[str, ...] = ()


@frozen
class JudgeSpec:
    """A judge's identity: everything about it that enters the content key, and its name
    in this run.

    With `merged`, the system text is sent in the first user message; `longest_string` bounds the
    strings of the requested schema. The content key is that of what is sent.
    """

    name: str
    model: str
    api_base: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    look: str | None = None
    merged: bool = False
    longest_string: int | None = None


@frozen
class TokenLogprob:
    """One generated token with its log-probability (in nats) and the most likely
    alternatives at its position.

    `raw` has the token's bytes if they differ from the UTF-8 encoding of its text: a token may be
    part of a character.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    raw: tuple[int, ...] | None = None


@frozen
class Usage:
    """Tokens of one call as counted by the provider; `None` if it did not report them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@frozen
class Completion:
    """The result of one call.

    Attributes:
        text: The text of the answer.
        model: The model as the provider names it.
        finish_reason: Why the provider ended the answer.
        usage: The tokens of the prompt and of the answer.
        cost_usd: The cost in US dollars; `None` if the price is unknown.
        latency: The duration in seconds.
        attempts: The number of attempts.
        rung: The response format of the final request.
        reasoning: The reasoning that the provider returned apart from the answer.
        refusal: The provider's text of a refusal.
        logprobs: The generated tokens with their log-probabilities, if requested.
        fingerprint: The provider's name for the configuration that answered (`system_fingerprint`).
    """

    text: str
    model: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    latency: float = 0.0
    attempts: int = 1
    rung: Rung = "text"
    reasoning: str | None = None
    refusal: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    fingerprint: str | None = None


@frozen
class StoredCompletion:
    """A completion in a store with its content key; `created` in seconds since 1970,
    `model` as in a `JudgeSpec`.
    """

    key: str
    model: str
    created: float
    completion: Completion


@frozen
class StoreDescription:
    """A store's location (without passwords), the version of its schema, and its size
    in bytes if known.
    """

    location: str
    version: int
    size: int | None


@frozen
class Failure:
    """A call without an answer; `kind` is that of a `CallError`, or `budget`,
    `not_stored` or `stopped`.
    """

    kind: str
    message: str
    attempts: int = 1


@frozen
class WeightedJudgment:
    """The expected values of a judgment, with each decision weighted by its probability.

    Attributes:
        value: The expected value, in the units of the judgment's value.
        criteria: The expected value by criterion.
        mass: The smallest share of probability that was observed on values of the scale, before
            normalization to 1.
        open: The largest share of the observed probability whose last digits were not observed, and
            which was distributed evenly.
        classes: The probability of each class, and of the abstention, that was observed; they sum
            to 1.
    """

    value: float | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    mass: float = 1.0
    open: float = 0.0
    classes: Mapping[str, float] = field(default_factory=dict)


@frozen
class Judgment:
    """What one request came to: a value, or why there is none.

    Attributes:
        case_id: The case's id.
        unit: The indices of the judged responses, ascending.
        shown: The same indices in the order shown.
        sample: The index of the sample.
        judge: The judge's name.
        status: Whether and how the completion could be read.
        value: Pairwise, a margin in [-1, 1], un-swapped: positive if the unit's first response is
            better. Pointwise, `None`, because scoring weights the criteria.
        confidence: The judge's confidence, in [0, 1].
        criteria: A margin or a score, in scale units, by criterion.
        answer: The parsed answer, un-swapped, as the judge structured it.
        read_by: The parsing rung that read the answer.
        error: Why there is no value.
        error_kind: The kind of the failed call.
        keys: The content keys of the completions that it depends on; the last one was parsed.
        completion: The completion that was parsed.
        stored: Whether all of its answers came from the store.
        ranking: The ranking of more than two responses, instead of a value.
        rankings: The rankings by criterion.
        weighted: The expected values, if log-probabilities were requested and returned.
        arbiter: The judge of a third judgment, for a pair on which the two orders, judged by
            `judge`, disagree.
        class_name: The class of a single response, or the abstention (`rubric.abstain`), instead of
            scores.
        earlier: The completions of the keys before the last one, or of all keys without a
            `completion`.
        items: The answer to each requested checklist item, by id; `None` if it is missing.
        seen: The share of the prompt that the judge saw, if the server cut it.
    """

    case_id: str
    unit: Unit
    shown: Unit
    sample: int
    judge: str
    status: Status
    value: float | None = None
    confidence: float | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    answer: Mapping[str, Any] | None = None
    read_by: str | None = None
    error: str | None = None
    error_kind: str | None = None
    keys: tuple[str, ...] = ()
    completion: Completion | None = None
    stored: bool = False
    ranking: Ranking | None = None
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    weighted: WeightedJudgment | None = None
    arbiter: str | None = None
    class_name: str | None = None
    earlier: tuple[Completion, ...] = ()
    items: Mapping[str, ItemAnswer | None] = field(default_factory=dict)
    seen: float | None = None

    @property
    def readable(self) -> bool:
        """Whether the answer could be read."""
        return self.status in ("ok", "repaired")


@frozen
class Orders:
    """The winner in each order, un-swapped, and whether both agree.

    Attributes:
        first: The winner in the unit's own order.
        second: The winner in the swapped order.
        consistent: Whether both orders have the same winner; `None` if one is missing.
        third: The winner of the third judgment, if the orders disagree and there is one.
    """

    first: Winner | None
    second: Winner | None
    consistent: bool | None
    third: Winner | None = None


@frozen
class ItemVerdict:
    """One checklist item of one response, with its samples combined.

    Attributes:
        id: The item's id.
        answer: The answer that counts; `None` if it is missing.
        reason: Its source. `prerequisite` is a not_met that follows from an item in `after` that is
            not met; `undetermined` is a missing answer because it is not known whether such an item
            is met.
        judged: The judge's own answer, whatever its prerequisites.
        explanation: The judge's reason.
        label: The annotators' answer.
    """

    id: str
    answer: ItemAnswer | None
    reason: ItemReason
    judged: ItemAnswer | None = None
    explanation: str = ""
    label: ItemAnswer | None = None


@frozen
class Verdict:
    """One unit, aggregated over orders and samples: a winner for a pair, a score or a
    class for a single response.

    Attributes:
        case_id: The case's id.
        unit: The indices of the responses, ascending.
        winner: The winner of a pair; `None` if it is missing.
        score: The score of a single response; `None` if it is missing.
        reason: The source of the winner. `split` is a tie that no judge chose: the `votes` of a
            panel have no common winner, or the samples of one judge cancel out. `criteria_cancel`
            is a tie because the weighted winners by criterion cancel out. `equal_scores` is a tie
            of two separately scored responses. For a class, `split` is a vote that no class won,
            and `abstained` is the judge's answer that it cannot tell.
        margin: The margin of the unit's first response, in [-1, 1].
        confidence: The confidence, in [0, 1].
        label: The annotators' choice, grade or class.
        criteria: The margin or score by criterion.
        orders: The winner in each order.
        judge: The judge's name.
        votes: The winner, score or class of each judge of a panel, by name; an abstention by the
            name of that answer.
        incomplete: Whether one of the two orders is missing.
        items: The checklist items of a single response.
        class_name: The class of a single response; `None` if it is missing, or the judge abstained.
        decided_by: The judge of a cascade that decided; `None` if it abstains, the verdict is
            missing, or there is no cascade.
    """

    case_id: str
    unit: Unit
    winner: Winner | None
    score: float | None
    reason: Reason
    margin: float | None = None
    confidence: float | None = None
    label: Winner | float | str | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    orders: Orders | None = None
    judge: str = ""
    votes: Mapping[str, Winner | float | str | None] = field(default_factory=dict)
    incomplete: bool = False
    items: tuple[ItemVerdict, ...] = ()
    class_name: str | None = None
    decided_by: str | None = None


@frozen
class Metric:
    """One number with its uncertainty.

    Attributes:
        name: The metric's name.
        value: The value; `None` if there is none.
        low: The lower end of the interval of the sampling error, from resampling cases.
        high: The upper end of that interval.
        n: The number of observations.
        missing: The number of missing observations.
        worst_low: The value if every missing answer had lowered it.
        worst_high: The value if every missing answer had raised it.
        note: Why there is no value, or a caveat about it.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    missing: int = 0
    worst_low: float | None = None
    worst_high: float | None = None
    note: str | None = None
