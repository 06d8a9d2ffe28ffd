"""Import the output file of an OpenAI batch: completions by `custom_id`, for the cases of a dataset."""

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
from evalkit.core.values import Json
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
    patterns = _patterns(options.custom_id)
    judgments = []
    taken = set()
    repeated = 0
    for location, written in rows_of(path):
        row = as_completion(written)
        placed = _placed(
            str(require(row, "custom_id", location)), cases, patterns, location
        )
        for judgment in _of_row(row, placed, options):
            # The next free sample of this case and order.
            samples = (
                number
                for number in count(judgment.sample)
                if (placed[0], placed[1], number) not in taken
            )
            sample = next(samples)
            repeated += sample != judgment.sample
            taken.add((placed[0], placed[1], sample))
            judgments.append(replace(judgment, sample=sample))
    used = {judgment.case_id for judgment in judgments}
    absent = len(cases) - len(used)
    if absent:
        notes = [f"cases without a response in the batch: {absent} of {len(cases)}"]
    else:
        notes = []
    notes += (
        [f"additional answers to one request, read as samples: {repeated}"]
        if repeated
        else []
    )
    kept = tuple(case for case in options.cases if case.id in used)
    return ImportedJudgments(kept, tuple(judgments), {}, tuple(notes), unread=True)


def _patterns(custom_id: str | None) -> list[re.Pattern[str]]:
    try:
        patterns = [
            re.compile(expression)
            for expression in ([custom_id] if custom_id else SHAPES)
        ]
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


def _placed(
    name: str, cases: Mapping[str, Case], patterns: list[re.Pattern[str]], location: str
) -> tuple[str, Unit, int]:
    for match in (pattern.fullmatch(name) for pattern in patterns):
        if match is not None and match["case"] in cases:
            parts = match.groupdict()
            size = len(cases[match["case"]].responses)
            # A case of one response needs no number of it.
            if parts.get("response") is not None or size == 1:
                order: Unit = (int(parts.get("response") or 0),)
                if order[0] >= size:
                    problem = (
                        f"custom_id '{name}' names response {order[0]}, but case '{match['case']}'"
                        f" has {size}"
                    )
                    raise DatasetError(
                        problem,
                        where=location,
                        remedy="count responses from 0, or use the right cases",
                    )
            else:
                order = (1, 0) if parts.get("order") in ("ba", "b", "1") else (0, 1)
            return match["case"], order, int(parts.get("sample") or 0)
    raise DatasetError(
        f"custom_id '{name}' matches no case",
        where=location,
        remedy="set the pattern of ids: --custom-id '(?P<case>.+)-…'",
    )


def _of_row(
    row: Json, placed: tuple[str, Unit, int], options: Options
) -> Iterator[Judgment]:
    """Yield a judgment for each choice of a row's completion; a failed one if there is none."""
    case, order, sample = placed
    response = row.get("response") or {}
    body = response.get("body") if isinstance(response, Mapping) else None
    body = body if isinstance(body, Mapping) else {}
    fault = row.get("error") or body.get("error")
    judge = options.judge or str(body.get("model") or "judge")
    blank = Judgment(case, tuple(sorted(order)), order, sample, judge, "failed")
    choices = [] if fault else list(_texts(body))
    if not choices:
        error = (
            text(fault.get("message") if isinstance(fault, Mapping) else fault)
            or "no completion"
        )
        yield replace(blank, error=error, error_kind="bad_response")
    # The tokens are of all choices, so only the first one counts them.
    for number_, (words, finish, refusal) in enumerate(choices):
        used = (
            _usage(body.get("usage")) if number_ == 0 else Usage()
        )  # the total of all choices
        completion = Completion(words, body.get("model"), finish, used, refusal=refusal)
        yield replace(
            blank,
            status="unparseable",
            error="not read yet",
            error_kind="no_answer",
            completion=completion,
        )


def _texts(body: Json) -> Iterator[tuple[str, str | None, str | None]]:
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
        yield (
            answer_text,
            finish,
            next((part["refusal"] for part in parts if part.get("refusal")), None),
        )


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, Mapping):
        return Usage()
    counts = [number(usage.get(name, usage.get(alias))) for name, alias in _COUNTS]
    prompt_tokens, written = (None if count is None else int(count) for count in counts)
    return Usage(prompt_tokens, written)


_COUNTS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


IMPORTER = Importer(
    "openai_batch",
    "the output file of an OpenAI batch for the cases in dataset.path",
    _sniff,
    read_texts,
    needs_cases=True,
)
