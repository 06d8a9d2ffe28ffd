"""The prompts that judgments answer, rendered again, and shown only where they are what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from evalkit.errors import EvalkitError
from evalkit.protocols import Evaluator, Following
from evalkit.recall import Recall
from evalkit.types import Case, JudgeRequest, JudgeSpec, Judgment, Message

_PROMPT = 4_000  # characters kept, on average

Asked: TypeAlias = Callable[[Case, Sequence[Judgment]], Mapping[str, tuple[Message, ...]]]
"""Returns the messages behind a case's judgments by content key, as many as can be rendered again."""


def asking(evaluator: Evaluator, specs: Sequence[JudgeSpec], arbiter: JudgeSpec | None = None) -> Asked:
    """Return what renders a case's prompts again.

    A content key is a hash of all that was sent: a prompt whose key a judgment rests on is the one that was sent, and
    one that came out otherwise, since a template or the case has changed, has another. Not rendered again are asks that
    hang on an answer that the run does not keep: those made once more, and those with a judge's own answer in them.
    """
    from evalkit.engine.asking import key_of  # the engine knows templates, which findings alone do without

    by_name = {spec.name: spec for spec in specs}

    def requests(case: Case, judgments: Sequence[Judgment]) -> Iterator[tuple[JudgeSpec, JudgeRequest]]:
        asked = {judgment.judge for judgment in judgments}
        for request in evaluator.plan(case):
            for name in asked & by_name.keys():
                yield by_name[name], request
        if any(judgment.arbiter is not None for judgment in judgments) and isinstance(evaluator, Following):
            for name, passes in _passes(judgments):
                if name in by_name:
                    for request in evaluator.follow(case, passes):
                        yield arbiter or by_name[name], request

    def asked(case: Case, judgments: Sequence[Judgment]) -> dict[str, tuple[Message, ...]]:
        wanted = {key for judgment in judgments for key in judgment.keys}
        if not wanted:
            return {}
        try:
            keyed = [(key_of(spec, request), request.messages) for spec, request in requests(case, judgments)]
        except EvalkitError:
            return {}
        return {key: messages for key, messages in keyed if key in wanted}

    return asked


def asked_again(recall: Recall, judgments: Sequence[Judgment], asked: Asked) -> Asked:
    """Return what renders a case's prompts again, unless that was done for a report on these very judgments before."""
    room = _PROMPT * len(judgments)
    known = recall.of(judgments, "asked", dict[str, Mapping[str, tuple[Message, ...]]], lambda _: room)
    left = room - sum(map(_characters, known.values()))

    def again(case: Case, judgments: Sequence[Judgment]) -> Mapping[str, tuple[Message, ...]]:
        nonlocal left
        if case.id in known:
            return known[case.id]
        found = asked(case, judgments)
        left -= _characters(found)
        if left >= 0:
            known[case.id] = found
        return found

    return again


def _characters(found: Mapping[str, tuple[Message, ...]]) -> int:
    return sum(len(message["content"]) for messages in found.values() for message in messages)


def _passes(judgments: Sequence[Judgment]) -> Iterator[tuple[str, list[Judgment]]]:
    """Yield each judge's judgments of each unit that a third one may have followed."""
    first = sorted((one for one in judgments if one.arbiter is None), key=lambda one: (one.judge, one.unit))
    for (name, _), group in groupby(first, key=lambda one: (one.judge, one.unit)):
        yield name, list(group)
