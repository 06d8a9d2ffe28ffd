"""Questions about labels that may be none: flags about a review, and versions of one label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import strength
from evalkit.interop.tables.questions import Answer, OpenTableError, named_options
from evalkit.interop.tables.rater_questions import MOST_ANSWERS, check_agreement
from evalkit.interop.tables.rater_roles import MAY_BE_VERDICT, Raters
from evalkit.interop.tables.words import tokens, word_group

_CHECKED: Final = word_group("checked")
"""Last words of names that say that someone looked at a verdict, or found it right."""
_VERSIONS: Final = word_group("version")
_NUMBERED_VERSIONS: Final = word_group("numbered_version")


def check_labels(raters: Raters, typed: Mapping[str, TypedColumn], where: str) -> None:
    """Drop flags about a review next to labels, and ask what is open about the labels.

    Raises:
        OpenTableError: If a flag may be about a review, labels may be versions of one, or a
            column says whether someone agrees with a judge.
    """
    _check_reviews(raters, typed, where)
    _check_versions(raters, where)
    check_agreement(raters.judges, raters.labels, typed, where)


def _check_reviews(
    raters: Raters, typed: Mapping[str, TypedColumn], where: str
) -> None:
    judged = {part for judge in raters.judges for part in tokens(judge)}
    reviews = [
        name
        for name in raters.labels
        if _CHECKED.intersection(tokens(name)[-1:])
        # `judge_verified` makes `human_verified` a verdict.
        and tokens(name)[-1] not in judged
        and typed[name].share(typed[name].flags) == 1
    ]
    if not reviews:
        return
    others = [name for name in raters.labels if name not in reviews]
    # Next to people's labels, a column `label` is a tool's own word; next to flags, it is not.
    if not others:
        others = [
            name
            for name, why in raters.unused.items()
            if why == MAY_BE_VERDICT and strength(name) == ("label", 2)
        ]
    if others:
        for name in reviews:
            del raters.labels[name]
            raters.unused[name] = "may tell if someone checked the verdict"
        for name in others:
            raters.labels.setdefault(name, "name")
            raters.unused.pop(name, None)
        return
    if not raters.judges:
        return
    name = reviews[0]
    judges = named_options("--judge", raters.judges)
    answers = [
        Answer("there are no labels", (*judges, "--label", "NONE")),
        Answer("a person's own verdicts", (*judges, "--label", name)),
    ]
    problem = (
        f"'{name}' may mark the verdicts that someone checked, or have that person's own"
        " verdicts: which is it?"
    )
    raise OpenTableError(problem, where, answers)


def _check_versions(raters: Raters, where: str) -> None:
    """Ask which labels count if some differ only in their version, as `label_v1` and `label_v2`."""
    by_base: dict[tuple[str, ...], list[str]] = {}
    for name in raters.labels:
        by_base.setdefault(without_version(name), []).append(name)
    versions = [
        names
        for base, names in by_base.items()
        if len(names) > 1 and any(tokens(name) != base for name in names)
    ]
    # `human_before` and `gpt_before` are about one version of a response.
    judged = {without_version(judge) for judge in raters.judges}
    if not versions or len(judged) < len(raters.judges):
        return
    names = versions[0]
    others = [name for name in raters.labels if name not in names]
    judges = named_options("--judge", raters.judges)
    answers = [
        Answer(
            f"'{name}' counts", (*judges, *named_options("--label", [*others, name]))
        )
        for name in names[-MOST_ANSWERS:]
    ]
    every = named_options("--label", raters.labels)
    answers.append(Answer("they are of several people", (*judges, *every)))
    columns = ", ".join(f"'{name}'" for name in names)
    problem = f"{columns} may be versions of one label: which one counts?"
    raise OpenTableError(problem, where, answers)


def without_version(name: str) -> tuple[str, ...]:
    """Return the words of a name without its version: `label` of `label_v2` and `old_label`."""
    words: list[str] = []
    for part in tokens(name):
        if part in _VERSIONS:
            continue
        # `v2` and `round 2`, and not the 2 of `annotator_2`.
        if part.isdigit() and words and words[-1] in _NUMBERED_VERSIONS:
            words.pop()
            continue
        words.append(part)
    return tuple(words)
