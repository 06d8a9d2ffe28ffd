"""The frozen values that pass between stages.

Case → JudgeRequest → Completion | Failure → Judgment → Verdict → Metric. Nothing here does IO or knows a provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from evalkit.config import RunConfig

__all__ = [
    "Annotation",
    "AnswerFormat",
    "Calls",
    "Case",
    "Completion",
    "Failure",
    "JudgeRequest",
    "JudgeSpec",
    "Judgment",
    "Message",
    "Metric",
    "Orders",
    "Ranking",
    "Reason",
    "Response",
    "RunResult",
    "Rung",
    "Spent",
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
Reason: TypeAlias = Literal["judged", "threshold", "swap_disagreement", "forced", "missing", "split", "equal_scores"]
Rung: TypeAlias = Literal["json_schema", "tool", "json_object", "text"]
Unit: TypeAlias = tuple[int, ...]
Annotation: TypeAlias = Winner | tuple[float | None, ...] | Mapping[str, Winner]
"""One person's label: a choice between the first two responses, or a grade for each response."""
Ranking: TypeAlias = tuple[tuple[int, ...], ...]
"""Indices of responses in groups of equals, the best group first; a response that was left out stands in none."""


class Message(TypedDict):
    """One chat message, as sent."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Response:
    """One text to be judged.

    `grade` is what people gave this response, in the units of their own scale; none if nobody graded it.
    """

    text: str
    model: str | None = None
    grade: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One dataset row. `label` is people's choice between the first two responses; grades stand on the responses.

    `labels` holds what single people said, by their name: a choice between the first two responses, a grade for each
    response, or choices by pair (`0,2`); see `evalkit.core.annotations`.
    """

    id: str
    prompt: str
    responses: tuple[Response, ...]
    context: str | None = None
    reference: str | None = None
    label: Winner | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Annotation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The structured answer asked for: a name and a JSON schema whose property order is the order to be written in."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One call to a judge, as an evaluator describes it.

    `unit` holds the indices of the responses in question, ascending; `shown` the same indices in the order shown, so
    (1, 0) means that the case's second response was shown first. `turn` is 0 for a first ask, 1 for a re-ask. `then` is
    the ask that this one prepares for, complete but for this one's answer; `shared` says that all samples share one
    answer, that of sample 0. `third` marks the third judgment of a pair whose two passes disagree.
    `max_tokens` is a limit of this call alone, set by a budget; it is not in the content key, since an answer that it
    cuts is not kept.
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


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """What identifies a judge: everything of it that enters the content key, and its name in this run."""

    name: str
    model: str
    api_base: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token, its log-probability (nats) and the most likely alternatives at its place.

    `raw` holds its bytes where these are not its text's UTF-8: a token may be a part of a character.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    raw: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, as the provider counted them; none where it did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What came back from one call. `rung` is the response format it was finally sent with; latency in seconds."""

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


@dataclass(frozen=True, slots=True)
class StoredCompletion:
    """A completion in a store, under its content key; `created` in seconds since 1970, `model` as judges name it."""

    key: str
    model: str
    created: float
    completion: Completion


@dataclass(frozen=True, slots=True)
class StoreDescription:
    """Where a store is (without passwords), its schema's version, and its size in bytes if that is known."""

    location: str
    version: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that did not come back with an answer; `kind` is a `CallError` kind or `budget`."""

    kind: str
    message: str
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class WeightedJudgment:
    """What a judgment says when each decision is weighted by its probability: expectations in place of single values.

    `value` and `criteria` are in the units of the judgment's own. `mass` is the least share of probability that was
    seen on values of the scale, before it was scaled to 1; `open` the largest share of what was seen whose last digits
    were not, and that was shared out evenly.
    """

    value: float | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    mass: float = 1.0
    open: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgment:
    """One completion read.

    `value` is already un-swapped. Pairwise: a margin in [-1, 1], positive when the unit's first response is better.
    Pointwise: none here, since the weighted score is a matter of scoring; `criteria` holds scores in scale units.
    `criteria` maps criterion name to a margin or a score. Of more than two responses at once there is a `ranking` of
    the unit instead of a value, and `rankings` by criterion. `answer` is the parsed answer, un-swapped, as the judge
    structured it. `read_by` names the parsing rung that read it. `keys` are the content keys of the completions that
    it rests on, the last one being the one read; `earlier` holds the completions of the keys before that (of every key,
    if there is no `completion`). `error` is why there is no value. `weighted` is there where the
    judge's log-probabilities were asked for and came. `arbiter` names who gave it if it is the third judgment of a pair
    whose two passes, by `judge`, disagree.
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
    earlier: tuple[Completion, ...] = ()


@dataclass(frozen=True, slots=True)
class Orders:
    """What each pass said, un-swapped: the unit's own order, the swapped order, and whether both gave one winner.

    `third` is what the third judgment said where the two disagreed and there was one.
    """

    first: Winner | None
    second: Winner | None
    consistent: bool | None
    third: Winner | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One unit resolved over orders and samples: a winner for a pair, a score for one response.

    It is `incomplete` where it rests on one order of two, the other being missing.
    Of reason `split` is a tie that nobody said: a panel's, whose judges' `votes`, by name, have no winner in common, or
    one judge's whose samples cancel out. `equal_scores` is a tie of two responses that were scored one by one.
    """

    case_id: str
    unit: Unit
    winner: Winner | None
    score: float | None
    reason: Reason
    margin: float | None = None
    confidence: float | None = None
    label: Winner | float | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    orders: Orders | None = None
    judge: str = ""
    votes: Mapping[str, Winner | float | None] = field(default_factory=dict)
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """One number with its uncertainty; `n` counts what it rests on, `missing` what it had to leave out.

    `low` and `high` bound the sampling error (cases resampled), `worst_low` and `worst_high` are the value if every
    missing answer had gone against, respectively for, it. `note` says why there is no value, or what to know of it.
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


@dataclass(slots=True)
class Spent:
    """What was spent under one budget so far; the jobs of a sweep may share it."""

    calls: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one run: planned = stored + sent + never made; `retried` counts further attempts, `failed` requests."""

    planned: int = 0
    stored: int = 0
    sent: int = 0
    retried: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished run, as its folder holds it.

    Cases, judgments and verdicts may be too many to be held: go through them one by one, and ask for none twice.
    """

    folder: str | None
    config: RunConfig
    manifest: Mapping[str, Any]
    cases: Sequence[Case]
    judgments: Sequence[Judgment]
    verdicts: Sequence[Verdict]
    metrics: Mapping[str, Metric]
    calls: Calls = Calls()
    tokens: Mapping[str, int] = field(default_factory=dict)
    cost_usd: float | None = None
