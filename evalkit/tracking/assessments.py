"""What was said of one judgment: by the judge, by evalkit's rules, and by people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from evalkit.choices import choice_of, grades_of
from evalkit.types import Case, Judgment, Verdict

if TYPE_CHECKING:
    from mlflow.entities import Assessment

QUESTIONS = {2: "better response", 1: "grade"}
"""The name of people's feedback on pairs, and on single responses."""


def assess(judgment: Judgment, verdict: Verdict | None, case: Case | None, judge: str) -> list[Assessment]:
    """Return a feedback for each criterion and for the whole, the verdict, what people said and what was expected."""
    return [*_by_judge(judgment, judge), *_by_rules(verdict), *_by_people(verdict, case)]


def _by_judge(judgment: Judgment, judge: str) -> list[Assessment]:
    from mlflow.entities import AssessmentSource, Feedback

    source = AssessmentSource("LLM_JUDGE", judgment.judge or judge)
    found: list[Assessment] = [
        Feedback(name=name, value=value, source=source, rationale=rationale(judgment.answer, name))
        for name, value in judgment.criteria.items()
    ]
    if judgment.error is not None:
        found.append(Feedback(name="judgment", error=f"{judgment.status}: {judgment.error}", source=source))
    elif judgment.value is not None:
        words = rationale(judgment.answer)
        found.append(Feedback(name="judgment", value=judgment.value, source=source, rationale=words))
    return found


def _by_rules(verdict: Verdict | None) -> list[Assessment]:
    from mlflow.entities import AssessmentSource, Feedback

    if verdict is None:
        return []
    outcome = verdict.score if verdict.winner is None else verdict.winner
    value = "none" if outcome is None else outcome
    return [Feedback(name="verdict", value=value, source=AssessmentSource("CODE", "evalkit"), rationale=verdict.reason)]


def _by_people(verdict: Verdict | None, case: Case | None) -> list[Assessment]:
    """Return each person's label as their feedback, and the label that the judge is held to as what was expected."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    label = label_of(verdict, case)
    said = dict(_said(verdict, case)) or ({} if label is None else {"label": label})
    name = QUESTIONS[1 if verdict is not None and len(verdict.unit) == 1 else 2]
    found: list[Assessment] = [
        Feedback(name=name, value=value, source=AssessmentSource("HUMAN", person)) for person, value in said.items()
    ]
    return found if label is None else [*found, Expectation("label", label, source=AssessmentSource("HUMAN", "label"))]


def _said(verdict: Verdict | None, case: Case | None) -> Iterator[tuple[str, str | float]]:
    """Yield each person's name with what they said of a unit: a choice of its pair, or the grade of its response."""
    if verdict is None or case is None:
        return
    for person, label in case.labels.items():
        if (choice := choice_of(label, verdict.unit)) is not None:
            yield person, choice
        elif len(verdict.unit) == 1 and (grades := grades_of(label)) and (grade := grades[verdict.unit[0]]) is not None:
            yield person, grade


def label_of(verdict: Verdict | None, case: Case | None) -> str | float | None:
    """Return people's label of a unit: the verdict's, or the grade of the one response it is about."""
    if verdict is None or verdict.label is not None or case is None:
        return verdict.label if verdict else None
    return case.responses[verdict.unit[0]].grade if len(verdict.unit) == 1 else None


def rationale(answer: Mapping[str, Any] | None, criterion: str | None = None) -> str | None:
    """Return the judge's words for a criterion, or for the whole, wherever its answer keeps them."""
    if answer is None:
        return None
    if criterion is None:
        return _words(answer.get("result")) or _words(answer)
    entries = [entry for part in ("comparison", "scores") for entry in _entries(answer.get(part))]
    return next((_words(entry) for entry in entries if entry.get("criterion") == criterion), None)


def _entries(part: Any) -> list[Mapping[str, Any]]:
    if isinstance(part, Mapping):
        return [{"criterion": name, **entry} for name, entry in part.items() if isinstance(entry, Mapping)]
    return [entry for entry in part if isinstance(entry, Mapping)] if isinstance(part, list | tuple) else []


def _words(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return None
    texts = (entry.get(key) for key in ("reasoning", "justification", "overallReasoning", "summary"))
    return next((text for text in texts if isinstance(text, str) and text), None)
