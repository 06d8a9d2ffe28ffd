"""Import promptfoo results: each test's output with its assertions; the model-graded
ones are the judgments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.core.hashing import canonical_json
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.compression import inner_suffix
from evalkit.interop.layouts.criteria import BAD, GOOD
from evalkit.interop.layouts.judgment_files import Peek, load_object, number, rows_of
from evalkit.interop.layouts.layouts import Field
from evalkit.interop.layouts.logs import Part, read_log
from evalkit.interop.layouts.rater_names import is_persons
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_BY_MODEL = (
    "rubric",
    "g-eval",
    "model-graded",
    "factuality",
    "closedqa",
    "relevance",
    "faithfulness",
    "recall",
    "llm",
)
_UNNAMED = "promptfoo"
"""The judge of assertions that name no grader."""
_HUMAN = "human"
"""The type of a rating that a person gave in the web page, and the name of that annotator."""
_UNJUDGED = "No assertions"
_PLAIN = str | int | float
_FAULT = 2
"""The `failureReason` of a test that could not run; 1 is a failed assertion."""

_OUTPUT = frozenset({"gradingResult", "promptIdx", "testCase", "vars", "namedScores"})
"""Keys of an output, of which one is in all versions."""

Row = Json


def _sniff(start: Peek) -> bool:
    results = start.top.get("results")
    outputs = results.get("results") if isinstance(results, Mapping) else None
    return _are_outputs(outputs) or start.has("gradingResult", "response")


def _are_outputs(value: Any) -> bool:
    """Return whether a list has outputs of tests, and not the rows of another tool."""
    if not isinstance(value, list) or not value:
        return False
    keys = {key for row in value[:1] if isinstance(row, Mapping) for key in row}
    return not keys.isdisjoint(_OUTPUT)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each output and grader, with the assertions that it graded as criteria.

    A grader is the provider of an assertion, of its test or of the config. Ratings by people are
    labels. A repeated test is one case: its answers are responses to the same prompt.
    """
    # JSON lines have rows only; one object has the config too.
    lines = inner_suffix(path) == "jsonl"
    whole = {} if lines else load_object(path)
    if lines:
        results = [row for _, row in rows_of(path)]
    else:
        results = list(whole["results"]["results"])
    # Rows are in the order in which their tests finished, which differs from run to run.
    rows = sorted((row for row in results if isinstance(row, Mapping)), key=_place)
    models = _names_of_models(rows)
    tests = _tests(rows)
    fields: dict[str, Field] = {
        "id": lambda row: tests[id(row)],
        "prompt": lambda row: _prompt(row).get("raw"),
        "model": lambda row: models[_provider(row), row.get("promptIdx")],
        "response": "response.output",
        "metadata": lambda row: {
            key: value
            for key, value in _variables(row).items()
            if isinstance(value, _PLAIN) and not is_persons(key)
        },
        "failure": _failure,
        "labels": _ratings,
    }
    default = _provided(whole.get("config"), "defaultTest") or _UNNAMED
    malformed = [row for row in results if not isinstance(row, Mapping)]
    parsed = read_log(
        path,
        [*rows, *malformed],
        fields,
        lambda row: _graded_assertions(row, default),
        options,
        _UNNAMED,
    )
    # Tests that are equal but for their number.
    # Rows of early versions have no number.
    numbers = {row["testIdx"] for row in rows if row.get("testIdx") is not None}
    repeated = len(numbers) - len(set(tests.values()))
    if repeated > 0:
        notes = [
            f"tests that repeat another one, read as more answers to it: {repeated}"
        ]
    else:
        notes = []
    return replace(parsed, notes=(*parsed.notes, *notes))


def _place(row: Row) -> tuple[int, int]:
    """Return the position of a row in the config: its test and its prompt, 0 where they
    are not numbered.
    """
    # Rows without numbers keep their order: the sort is stable.
    test, prompt = (row.get(key) for key in ("testIdx", "promptIdx"))
    return test if isinstance(test, int) else 0, prompt if isinstance(
        prompt, int
    ) else 0


def _variables(row: Row) -> Row:
    return row.get("vars") or {}


def _prompt(row: Row) -> Row:
    """Return the prompt of an output: its text as `raw`, and its label if it has one."""
    prompt = row.get("prompt") or {}
    if isinstance(prompt, Mapping):
        return prompt
    return {"raw": prompt}


def _failure(row: Row) -> str | None:
    error = row.get("error")
    if not row.get("gradingResult"):
        return str(error or "not graded")
    # The error can also report a failed assertion.
    if error and row.get("failureReason") in (None, _FAULT):
        return str(error)
    return None


def _graded_assertions(row: Row, default: str) -> Iterator[Part]:
    """Yield the assertions of an output, other than ratings by people."""
    # The grader of the test, or else that of the config.
    default = _provided(row, "testCase") or default
    for part in _assertions(row):
        assertion = _assertion(part)
        kind = _kind(part)
        if kind == _HUMAN:
            continue
        reason = str(part.get("reason") or "")
        value = assertion.get("value")
        # The grader failed, so that its score is no verdict.
        if (part.get("metadata") or {}).get("graderError"):
            failure = reason or "failed"
        else:
            failure = ""
        score = None if failure else number(part.get("score"))
        # `not-` turns an assertion around, and its grader is still a model.
        is_judge = any(word in kind.removeprefix("not-") for word in _BY_MODEL)
        yield Part(
            str(assertion.get("metric") or kind),
            score,
            # An assertion of code is named by its type.
            (_name(assertion.get("provider")) or default) if is_judge else kind,
            is_judge,
            None if score is None else reason,
            failure=failure,
            description=value if isinstance(value, str) else "",
        )


def _ratings(row: Row) -> JsonObject:
    """Return people's ratings of an output, and their verdicts in variables named after them."""
    ratings: JsonObject = {
        kind: part.get("score")
        for part in _assertions(row)
        if (kind := _kind(part)) == _HUMAN
    }
    # Variables win over the metadata of the test, which may repeat them.
    for name, value in {**_test_metadata(row), **_variables(row)}.items():
        if is_persons(name):
            ratings[name] = _graded(value)
    return ratings


def _test_metadata(row: Row) -> Row:
    """Return the metadata of the row's test, without what the tool adds to them."""
    test = row.get("testCase")
    metadata = test.get("metadata") if isinstance(test, Mapping) else None
    if isinstance(metadata, Mapping):
        return metadata
    return {}


def _graded(value: Any) -> Any:
    """Return the score of a person's verdict: words that say good or bad are 1 and 0."""
    word = str(value).strip().casefold()
    if word in GOOD:
        return 1
    if word in BAD:
        return 0
    return value


def _assertions(row: Row) -> list[Row]:
    """Return the results of the assertions of a row; empty if nothing was asserted."""
    grading = row.get("gradingResult") or {}
    parts = [
        part
        for part in grading.get("componentResults") or []
        if isinstance(part, Mapping)
    ]
    if (
        parts
        or number(grading.get("score")) is None
        or grading.get("reason") in (None, _UNJUDGED)
    ):
        return parts
    return [grading]  # a single assertion, as in early versions


def _assertion(part: Row) -> Row:
    assertion = part.get("assertion")
    if isinstance(assertion, Mapping):
        return assertion
    return {}


def _kind(part: Row) -> str:
    return str(_assertion(part).get("type") or "score")


def _provided(value: Any, key: str) -> str:
    """Return the name of the grader in the options of a test, below a key."""
    for name in (key, "options", "provider"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return _name(value)


def _name(provider: Any) -> str:
    """Return the name of a provider: an id, an object with one, or providers by kind of
    which one is for texts.
    """
    if isinstance(provider, Mapping):
        return _name(provider.get("id") or provider.get("text"))
    return str(provider or "")


def _tests(rows: Sequence[Row]) -> dict[int, Any]:
    """Return the number of each row's test, which is that of its first repetition, or
    its variables.
    """
    first: dict[Any, Any] = {}
    tests = {}
    for row in rows:
        number = row.get("testIdx")
        variables = _variables(row)
        if number is None:
            number = json.dumps(variables, ensure_ascii=False)
        # A repeated test has the same variables and settings under another number.
        elif variables and row.get("testCase"):
            number = first.setdefault(
                canonical_json([variables, row["testCase"]]), number
            )
        tests[id(row)] = number
    return tests


def _provider(row: Row) -> str:
    provider = row.get("provider") or {}
    return str(
        provider.get("label") or provider.get("id")
        if isinstance(provider, Mapping)
        else provider
    )


def _names_of_models(rows: Sequence[Row]) -> dict[tuple[str, Any], str]:
    """Return a name for each provider and prompt.

    The prompt is included if a provider has several.
    """
    # Prompts of one provider are systems of their own.
    prompts: dict[str, dict[Any, str]] = {}
    for row in rows:
        label = str(_prompt(row).get("label") or "")
        prompts.setdefault(_provider(row), {}).setdefault(row.get("promptIdx"), label)
    names = {}
    for provider, labels in prompts.items():
        # Labels name prompts only if each prompt has one of its own.
        labeled = len(set(labels.values())) == len(labels) and all(labels.values())
        for index, label in labels.items():
            if len(labels) > 1:
                part = f", {label if labeled else f'prompt {index}'}"
            else:
                part = ""
            names[provider, index] = provider + part
    return names


IMPORTER = Importer(
    "promptfoo",
    "promptfoo's results, --output results.json",
    _sniff,
    _read_records,
    is_log=True,
)
