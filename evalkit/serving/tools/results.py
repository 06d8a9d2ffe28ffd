"""Convert judgments to the tools' results: numbers from the run's own scoring, texts
from an answer that agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Judgment, Verdict, Winner
from evalkit.core.values import Json
from evalkit.evaluators.parsing import drop_thinking
from evalkit.scoring.pipeline import verdicts_of
from evalkit.serving.tools.models import (
    CriterionComparison,
    CriterionScore,
    Differentiators,
    DirectMetadata,
    DirectScoreResult,
    PairwiseCompareResult,
    PairwiseMetadata,
    PositionConsistency,
    Summary,
)

_OWN_ORDER = (0, 1)
ABSTAINS: Final = "the cascade abstains: no judge is sure enough"


class _Answer(NamedTuple):
    """A usable answer and its full text."""

    content: Json
    text: str


def compared(
    settings: RunConfig,
    case: Case,
    judgments: Sequence[Judgment],
    verdict: Verdict,
    elapsed: float,
) -> PairwiseCompareResult:
    """Return the result of a comparison.

    Texts come from the judgment whose choice is that of the verdict; without one there are none.
    Without a winner there is an error.

    Args:
        settings: The config of the question.
        case: The case.
        judgments: The judgments on it, of both orders if both were asked.
        verdict: The verdict on them.
        elapsed: How long it took, in milliseconds.
    """
    both = settings.swap.policy == "both"
    structured = settings.output.structured
    # The judge's words call the responses A and B as the caller does only if A was shown first.
    answers = list(_answers(judgments, _OWN_ORDER))
    orders = verdict.orders
    best = _fitting(answers, _choice, verdict)
    analysis = best.content.get("analysis", {}) if best else {}
    stated = any(judgment.confidence is not None for judgment in judgments)
    comparison = differentiators = reasoning = consistency = error = None
    if structured:
        comparison = _criterion_rows(settings, case, judgments, answers)
        differentiators = Differentiators(
            a_advantages=analysis.get("responseA", {}).get("strengths", []),
            b_advantages=analysis.get("responseB", {}).get("strengths", []),
        )
    if best:
        words = _reasoning(best, structured=structured)
        reasoning = _reasoning_with_note(best, _choice, words, verdict)
    if both and orders:
        consistency = PositionConsistency(
            first_pass_winner=orders.first,
            second_pass_winner=orders.second,
            consistent=orders.consistent,
        )
    if not verdict.winner:
        is_abstention = verdict.reason == "abstained"
        error = ABSTAINS if is_abstention else _why(judgments)
    return PairwiseCompareResult(
        success=verdict.winner is not None,
        winner=verdict.winner,
        confidence=verdict.confidence if stated else None,
        reason=verdict.reason,
        comparison=comparison,
        overall_reasoning=reasoning,
        differentiators=differentiators,
        position_consistency=consistency,
        metadata=PairwiseMetadata(evaluation_time_ms=elapsed, positions_swapped=both),
        error=error,
    )


def scored(
    settings: RunConfig,
    case: Case,
    judgments: Sequence[Judgment],
    verdict: Verdict,
    elapsed: float,
) -> DirectScoreResult:
    """Return the result of scoring one response.

    `overall_score` weights all criteria equally, `weighted_score` by the config. Texts come from
    the judgment whose mean is nearest. Without a score there is an error.

    Args:
        settings: The config of the question.
        case: The case.
        judgments: The judgments on it.
        verdict: The verdict on them.
        elapsed: How long it took, in milliseconds.
    """
    names = list(settings.criteria)
    structured = settings.output.structured
    success = verdict.score is not None
    answers = list(_answers(judgments, (0,)))
    if success:
        # Scored again with other weights, by the same rules, so that both scores rest on the same
        # answers.
        equal = _weighted(settings, case, judgments, dict.fromkeys(names, 1.0)).score
    else:
        equal = None
    best = _nearest(answers, _mean, equal)
    summary = best.content.get("summary") if best and structured else None
    return DirectScoreResult(
        success=success,
        scores=(
            [
                _criterion_score(settings, case, judgments, answers, name)
                for name in names
            ]
            if success
            else []
        ),
        overall_score=equal,
        weighted_score=verdict.score,
        summary=(
            Summary(**{key: summary.get(key, []) for key in Summary.model_fields})
            if summary and success
            else None
        ),
        metadata=DirectMetadata(
            evaluation_time_ms=elapsed,
            criteria_count=len(names),
            rubric_scale=Scale.of(settings.rubric).name(),
        ),
        error=None if success else _why(judgments),
    )


def _answers(
    judgments: Sequence[Judgment], order: tuple[int, ...]
) -> Iterator[_Answer]:
    for judgment in judgments:
        if judgment.answer and judgment.shown == order:
            yield _Answer(
                judgment.answer,
                drop_thinking(judgment.completion.text).strip()
                if judgment.completion
                else "",
            )


def _weighted(
    settings: RunConfig,
    case: Case,
    judgments: Sequence[Judgment],
    weights: Mapping[str, float],
) -> Verdict:
    """Return the verdict for other weights of the criteria, with the rules of the
    overall result.
    """
    scoring = settings.scoring.model_copy(
        update={"weights": dict(weights), "aggregate": "criteria", "bootstrap": 0}
    )
    config = settings.model_copy(update={"scoring": scoring})
    return verdicts_of(config, [case], judgments)[0]


def _on_criterion(
    settings: RunConfig, case: Case, judgments: Sequence[Judgment], name: str
) -> Verdict:
    """Return the verdict on one criterion, with the rules of the overall result."""
    if any(name in judgment.criteria for judgment in judgments):
        # Without the other criteria, the time for all of them is not quadratic.
        criteria = {name: settings.criteria[name]}
        settings = settings.model_copy(update={"criteria": criteria})
    # Weight 1 for this criterion and 0 for the others: the overall verdict is then that on the
    # criterion.
    weights = {criterion: float(criterion == name) for criterion in settings.criteria}
    return _weighted(settings, case, judgments, weights)


def _criterion_rows(
    settings: RunConfig,
    case: Case,
    judgments: Sequence[Judgment],
    answers: Sequence[_Answer],
) -> list[CriterionComparison]:
    """Return the comparison on each criterion, in the order of the config; empty without readable
    answers.

    Args:
        settings: The config of the question.
        case: The case.
        judgments: The judgments on it.
        answers: The readable answers that saw the responses in the caller's order.
    """
    if not answers:
        return []
    # A third judgment is requested if the overall winners differ; without it, criteria that differ
    # are ties.
    resolved = settings
    if settings.swap.resolve == "third_pass" and not any(
        judgment.arbiter for judgment in judgments
    ):
        swap = settings.swap.model_copy(update={"resolve": "tie"})
        resolved = settings.model_copy(update={"swap": swap})
    return [
        _criterion_row(_on_criterion(resolved, case, judgments, name), answers, name)
        for name in settings.criteria
    ]


def _criterion_row(
    verdict: Verdict, answers: Sequence[_Answer], name: str
) -> CriterionComparison:
    """Return the verdict on a criterion, with the words of an answer that agrees with it."""

    def choice(answer: _Answer) -> Winner | None:
        winner: Winner | None = _on(answer, "comparison", name).get("winner")
        return winner

    # Words from an answer that agrees with the result: reasons for A under a verdict for B would
    # mislead.
    best = _fitting(answers, choice, verdict)
    row = _on(best, "comparison", name) if best else {}
    reasoning = ""
    if best:
        reasoning = _reasoning_with_note(
            best, choice, row.get("reasoning", ""), verdict
        )
    return CriterionComparison(
        criterion=name,
        winner=verdict.winner,
        reasoning=reasoning,
        a_strength=row.get("aAssessment", ""),
        b_strength=row.get("bAssessment", ""),
    )


def _criterion_score(
    settings: RunConfig,
    case: Case,
    judgments: Sequence[Judgment],
    answers: Sequence[_Answer],
    name: str,
) -> CriterionScore:
    """Return the score on a criterion, with the words of the answer that is nearest to it.

    The response must have a weighted score; then it has one on each criterion.

    Args:
        settings: The config of the question.
        case: The case.
        judgments: The judgments on it.
        answers: The readable answers.
        name: The criterion.
    """
    structured = settings.output.structured
    score = _on_criterion(settings, case, judgments, name).score
    assert score is not None  # the weighted score exists, and uses the same answers
    best = _nearest(
        answers,
        lambda answer: _on(answer, "scores", name).get(
            "score", answer.content.get("score")
        ),
        score,
    )
    row = _on(best, "scores", name) if best else {}
    justification = row.get("justification", "")
    examples = row.get("examples", [])
    if not structured:
        # Plain text has no parts: all of it is the justification.
        justification = best.text if best else ""
        examples = None
    return CriterionScore(
        criterion=name,
        score=score,
        max_score=settings.rubric.max,
        justification=justification,
        examples=examples,
    )


def _on(answer: _Answer, part: str, name: str) -> Json:
    rows: Sequence[Json] = answer.content.get(part, ())
    return next((row for row in rows if row["criterion"] == name), {})


def _choice(answer: _Answer) -> Winner | None:
    winner: Winner | None = answer.content.get("result", answer.content).get("winner")
    return winner


def _reasoning(answer: _Answer, *, structured: bool) -> str:
    if structured:
        return str(answer.content.get("result", {}).get("reasoning", ""))
    return answer.text


def _mean(answer: _Answer) -> float | None:
    scores = [row["score"] for row in answer.content.get("scores", ())]
    return sum(scores) / len(scores) if scores else answer.content.get("score")


def _fitting(
    answers: Sequence[_Answer],
    choice: Callable[[_Answer], Winner | None],
    verdict: Verdict,
) -> _Answer | None:
    """Return an answer with the choice of the first order, else of the verdict, else
    the first answer.
    """
    preferred = [verdict.orders.first if verdict.orders else None, verdict.winner]
    agreeing = (
        answer
        for winner in preferred
        if winner
        for answer in answers
        if choice(answer) == winner
    )
    return next(agreeing, next(iter(answers), None))


def _nearest(
    answers: Sequence[_Answer],
    score: Callable[[_Answer], float | None],
    aggregated: float | None,
) -> _Answer | None:
    """Return the first answer with the score nearest to the aggregated score `aggregated`."""
    distances = [
        (abs(value - (aggregated or 0.0)), answer)
        for answer in answers
        if (value := score(answer)) is not None
    ]
    if distances:
        return min(distances, key=lambda pair: pair[0])[1]
    return next(iter(answers), None)


def _reasoning_with_note(
    answer: _Answer,
    choice: Callable[[_Answer], Winner | None],
    reasoning: str,
    verdict: Verdict,
) -> str:
    """Return an answer's reasoning, with a note in brackets if the result differs from
    its choice.
    """
    notes = []
    orders = verdict.orders
    stated = choice(answer)
    if orders and orders.consistent is False:
        notes.append(
            f"Shown in the other order, the judge's choice was {orders.second}, not {orders.first}."
        )
    if verdict.winner and verdict.reason == "forced":
        notes.append(
            f"This was a tie; {verdict.winner} was chosen because ties are not allowed."
        )
    elif verdict.winner and verdict.reason == "threshold":
        notes.append(
            "The difference or the confidence is below the configured threshold, so this is a tie."
        )
    elif verdict.winner and stated and stated != verdict.winner and not notes:
        notes.append(
            f"This answer chose {stated}; over all answers the result is {verdict.winner}."
        )
    return " ".join(
        [*([reasoning] if reasoning else []), *(f"[{note}]" for note in notes)]
    )


def _why(judgments: Sequence[Judgment]) -> str:
    reasons = [
        f"{judgment.status}: {judgment.error}"
        for judgment in judgments
        if not judgment.readable
    ]
    # Both orders often fail for the same reason, which is then named once.
    different = dict.fromkeys(reasons)
    return "; ".join(different) or "the judge gave no usable answer"
