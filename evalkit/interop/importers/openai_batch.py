"""Import the output file of an OpenAI batch: completions by `custom_id`, for the cases
of a dataset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any

from evalkit.core.display import relative
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.types import Case, Completion, Judgment, Unit, Usage
from evalkit.core.values import Json, frozen
from evalkit.interop.layouts.judgment_files import Peek, number, require, rows_of, text
from evalkit.interop.layouts.records import ImportedJudgments, Importer, Options

SHAPES = (
    r"(?P<case>.+)",
    r"(?P<case>.+)[-_:|/](?P<order>ab|ba)",
    r"(?P<case>.+)[-_:|/](?P<order>ab|ba)[-_:|/]s?(?P<sample>\d+)",
    r"(?P<case>.+)[-_:|/]r(?P<response>\d+)",
    r"(?P<case>.+)[-_:|/]r(?P<response>\d+)[-_:|/]s?(?P<sample>\d+)",
    r"(?P<case>.+)[-_:|/]s?(?P<sample>\d+)",
)
"""The default patterns of ids; the first one that matches a case is used."""


def _sniff(start: Peek) -> bool:
    """Return whether the first row of a file is one of a batch's output."""
    return start.has("custom_id") and ("response" in start.row or "error" in start.row)


def read_texts(path: Path, options: Options) -> ImportedJudgments:
    """Return a judgment for each response of a batch; its text is not yet read.

    Raises:
        ConfigError: If there are no cases, or the pattern of ids is invalid.
        DatasetError: If an id matches no case.
    """
    return read_batch(path, options, "openai_batch", lambda row: row)


def read_batch(
    path: Path, options: Options, name: str, as_completion: Callable[[Json], Json]
) -> ImportedJudgments:
    """Return a judgment for each response of a batch of any provider.

    Args:
        path: The file.
        options: The user's options, with the cases.
        name: The format, for errors.
        as_completion: Returns a row in OpenAI's layout.

    Raises:
        ConfigError: If there are no cases, or the pattern of ids is invalid.
        DatasetError: If an id matches no case.
    """
    cases = {case.id: case for case in options.cases}
    if not cases:
        command = f"evalkit import {name} {quote(str(relative(path)))}"
        raise ConfigError(
            "has a model's answers and no verdicts",
            where=str(path),
            remedy=f"read them with their cases: {command} dataset=file dataset.path=CASES",
        )
    patterns = _compile_patterns(options.custom_id)
    judgments = []
    taken = set()
    repeated = 0
    for location, written in rows_of(path):
        row = as_completion(written)
        custom_id = str(require(row, "custom_id", location))
        request = _read_id(custom_id, cases, patterns, location)
        for judgment in _judgments_of_row(row, request, options):
            # An id that is answered again, or has several choices, is asked for more samples.
            sample = next(
                sample
                for sample in count(judgment.sample)
                if (request.case_id, request.order, sample) not in taken
            )
            repeated += sample != judgment.sample
            taken.add((request.case_id, request.order, sample))
            judgments.append(replace(judgment, sample=sample))
    answered = {judgment.case_id for judgment in judgments}
    absent = len(cases) - len(answered)
    notes = []
    if absent:
        notes.append(f"cases without a response in the batch: {absent} of {len(cases)}")
    if repeated:
        notes.append(f"additional answers to one request, read as samples: {repeated}")
    kept = tuple(case for case in options.cases if case.id in answered)
    return ImportedJudgments(kept, tuple(judgments), {}, tuple(notes), unread=True)


def _compile_patterns(custom_id: str | None) -> list[re.Pattern[str]]:
    """Return the patterns of ids: the user's `--custom-id`, or `SHAPES` if it is not set.

    Raises:
        ConfigError: If it is not a regular expression, or has no group for the case.
    """
    expressions = [custom_id] if custom_id else SHAPES
    try:
        patterns = [re.compile(expression) for expression in expressions]
    except re.error as bad:
        raise ConfigError(
            f"is not a regular expression ({bad})",
            where=f"--custom-id {custom_id}",
            remedy="fix it",
        ) from None
    if any("case" not in pattern.groupindex for pattern in patterns):
        raise ConfigError(
            "has no group 'case'",
            where=f"--custom-id {custom_id}",
            remedy="put (?P<case>…) around the id",
        )
    return patterns


@frozen
class _Request:
    """What an id says about its request: the case, the order of its responses, and the sample."""

    case_id: str
    order: Unit
    sample: int


def _read_id(
    custom_id: str,
    cases: Mapping[str, Case],
    patterns: list[re.Pattern[str]],
    location: str,
) -> _Request:
    """Return what an id says, by the first pattern that finds a case in it.

    Raises:
        DatasetError: If no pattern finds a case, or the case has no such response.
    """
    for match in (pattern.fullmatch(custom_id) for pattern in patterns):
        if match is not None and match["case"] in cases:
            case = cases[match["case"]]
            # A pattern of the user's need not have these groups.
            groups = match.groupdict()
            order = _order(custom_id, groups, case, location)
            return _Request(case.id, order, int(groups.get("sample") or 0))
    raise DatasetError(
        f"custom_id '{custom_id}' matches no case",
        where=location,
        remedy="set the pattern of ids: --custom-id '(?P<case>.+)-…'",
    )


def _order(
    custom_id: str, groups: Mapping[str, str | None], case: Case, location: str
) -> Unit:
    """Return the response that an id names, or else the two of a comparison in the order shown.

    Raises:
        DatasetError: If the case has no such response.
    """
    size = len(case.responses)
    # A case of one response needs no number of it.
    if groups.get("response") is not None or size == 1:
        response = int(groups.get("response") or 0)
        if response < size:
            return (response,)
        problem = (
            f"custom_id '{custom_id}' names response {response}, but case '{case.id}'"
            f" has {size}"
        )
        raise DatasetError(
            problem,
            where=location,
            remedy="count responses from 0, or use the right cases",
        )
    # Without an order, responses were shown as in the dataset.
    return (1, 0) if groups.get("order") in ("ba", "b", "1") else (0, 1)


def _judgments_of_row(
    row: Json, request: _Request, options: Options
) -> Iterator[Judgment]:
    """Yield a judgment for each choice of a row's completion; a failed one if there is none.

    The text of a choice is not read here: the import reads it with the prompts of its mode.
    """
    response = row.get("response") or {}
    body = response.get("body") if isinstance(response, Mapping) else None
    if not isinstance(body, Mapping):
        body = {}
    failed = Judgment(
        request.case_id,
        tuple(sorted(request.order)),
        request.order,
        request.sample,
        options.judge or str(body.get("model") or "judge"),
        "failed",
    )
    # Of the request, such as one that has expired, or of the model.
    error = row.get("error") or body.get("error")
    completions = [] if error else list(_completions(body))
    if not completions:
        message = _error_message(error) or "no completion"
        yield replace(failed, error=message, error_kind="bad_response")
    for completion in completions:
        yield replace(
            failed,
            status="unparseable",
            error="not read yet",
            error_kind="no_answer",
            completion=completion,
        )


def _error_message(error: Any) -> str:
    """Return the text of an error, which is an object with a message or the text alone."""
    return text(error.get("message") if isinstance(error, Mapping) else error)


def _completions(body: Json) -> Iterator[Completion]:
    """Yield the completion of each choice; the usage is of all, so the first one has it."""
    usage = _usage(body.get("usage"))
    for answer_text, finish_reason, refusal in _choices(body):
        yield Completion(
            answer_text, body.get("model"), finish_reason, usage, refusal=refusal
        )
        usage = Usage()


def _choices(body: Json) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield text, finish reason and refusal of each choice of a chat completion or response."""
    for choice in body.get("choices") or ():
        message = choice.get("message") or {}
        yield (
            text(message.get("content")),
            choice.get("finish_reason"),
            message.get("refusal"),
        )
    # The responses API has parts in its output instead of choices.
    parts = [
        part
        for item in body.get("output") or ()
        if item.get("type") == "message"
        for part in item["content"]
    ]
    if parts:
        answer_text = "".join(str(part.get("text", "")) for part in parts)
        finish = "length" if body.get("status") == "incomplete" else "stop"
        refusals = (part["refusal"] for part in parts if part.get("refusal"))
        yield answer_text, finish, next(refusals, None)


def _usage(usage: Any) -> Usage:
    """Return the tokens of a completion; `None` for a number that is not reported."""
    if not isinstance(usage, Mapping):
        return Usage()
    counts = [number(usage.get(name, usage.get(alias))) for name, alias in _COUNTS]
    prompt_tokens, completion_tokens = (
        None if tokens is None else int(tokens) for tokens in counts
    )
    return Usage(prompt_tokens, completion_tokens)


_COUNTS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


IMPORTER = Importer(
    "openai_batch",
    "the output file of an OpenAI batch for the cases in dataset.path",
    _sniff,
    read_texts,
    needs_cases=True,
)
