"""Read files of other projects with one-line errors, and peek into them to detect their format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import repeat
from math import isfinite
from pathlib import Path
from typing import Any

from evalkit.core.bounded_files import read_yaml
from evalkit.core.errors import DatasetError
from evalkit.core.patterns import lazy_pattern
from evalkit.core.regular_files import read_text
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.datasets.compression import (
    compression_of,
    inner_suffix,
    open_bytes,
    reading,
)
from evalkit.datasets.file_parts import file_of
from evalkit.datasets.formats import read_columns, reader_for
from evalkit.datasets.json_arrays import reason
from evalkit.datasets.json_tables import rows_in
from evalkit.datasets.located_rows import Placed
from evalkit.datasets.table_rows import TableRows
from evalkit.datasets.text import (
    are_calls,
    as_messages,
    conversation_text,
    is_conversation,
    part_text,
)
from evalkit.runs.records import unescaped

# Bytes that are read to detect a format; files of a folder that are tried for it.
_PEEK = 4_000_000
_TRIED = 5
_TABLES = ("csv", "tsv")
_YAML = ("yaml", "yml")
# The most bytes of one JSON value: for detection, and to be imported.
_WHOLE, _LARGEST = 64_000_000, 2_000_000_000


@frozen
class Peek:
    """The beginning of a file or folder: its first `row` if it has rows, and its `top`
    keys if it is an object.
    """

    path: Path
    row: Json = field(default_factory=dict)
    top: Json = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    def has(self, *keys: str) -> bool:
        """Return whether the first row has all these keys."""
        return all(key in self.row for key in keys)


def with_columns(*keys: str) -> Callable[[Peek], bool]:
    """Return a function that returns whether a file's first row has all these keys."""
    return lambda start: start.has(*keys)


def peek(path: Path) -> Peek:
    """Return the beginning of a file; only its name if it cannot be read."""
    if path.is_dir():
        return _peek_folder(path)
    try:
        return _peek_file(path)
    except (OSError, ValueError, DatasetError, RecursionError):
        return Peek(path)


def _peek_folder(folder: Path) -> Peek:
    """Return what a folder begins with: its names, and the first row or object of a file."""
    names = frozenset(child.name for child in folder.iterdir())
    files = sorted(
        child
        for child in folder.iterdir()
        if inner_suffix(child) in ("jsonl", "json", "csv")
    )
    # The first of them with rows or an object shows the format of the folder.
    peeks = map(peek, files[:_TRIED])
    first = next((start for start in peeks if start.row or start.top), Peek(folder))
    return Peek(folder, first.row, first.top, names)


def _peek_file(path: Path) -> Peek:
    """Return what a file begins with: its first row, or the object that is the whole file."""
    if inner_suffix(path) in ("csv", "tsv", "parquet", "xlsx", "arrow", "feather"):
        # These have a header, so that one row shows all columns.
        return Peek(path, next((row for _, row in reader_for(None, path)(path)), {}))
    if inner_suffix(path) in _YAML:
        top = _mapping(load_json(path))
        return Peek(path, _first_row(path, top), top)
    with reading(path), open_bytes(path) as file:
        start = file.read(_PEEK).decode("utf-8-sig", "ignore").lstrip()
    # A JSON array: its first item, which may be all that the beginning holds.
    if start.startswith("["):
        return Peek(path, _mapping(_first(start[1:].lstrip())))
    # One object in the first line is a row if there are more lines, or the suffix says so.
    line, _, following = start.partition("\n")
    row = _object(line)
    if row and (following.strip() or inner_suffix(path) == "jsonl"):
        return Peek(path, row)
    # Otherwise the whole file is one object, perhaps over several lines.
    top = row
    if not top and file_of(path).stat().st_size <= _WHOLE:
        top = _mapping(json.loads(_whole(path, _WHOLE)))
    return Peek(path, _first_row(path, top), top)


def _first_row(path: Path, top: Json) -> Json:
    """Return the first row of a table in one object; empty if it is no table."""
    try:
        return next(rows_in(top, str(path)), {})
    except DatasetError:
        return {}


def _whole(path: Path, limit: int) -> bytes:
    """Return the uncompressed bytes of a file, at most a limit, so that a small file
    cannot fill the memory.
    """
    with reading(path), open_bytes(path) as file:
        # One byte more than allowed shows that the file is too large.
        content = file.read(limit + 1)
    if len(content) > limit:
        raise DatasetError(
            "is too large for one JSON value",
            where=str(path),
            remedy="split it, or use JSONL",
        )
    return content


def _first(text: str) -> Any:
    if text and not text.startswith("]"):
        return json.JSONDecoder().raw_decode(text)[0]
    return {}


def _object(line: str) -> JsonObject:
    try:
        return _mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> JsonObject:
    if isinstance(value, dict):
        return value
    return {}


def load_json(path: Path) -> Any:
    """Return the value in a JSON file, or in a YAML file by its suffix.

    Raises:
        DatasetError: If it cannot be read, or is neither.
    """
    try:
        # A small compressed file may hold a large text, so its limit is lower.
        limit = _LARGEST if compression_of(path) is None else _LARGEST // 4
        if inner_suffix(path) in _YAML:
            return read_yaml(_whole(path, _WHOLE).decode("utf-8-sig"))
        return json.loads(_whole(path, limit).decode("utf-8-sig"))
    except OSError as bad:
        raise _unreadable(path, bad) from None
    except json.JSONDecodeError as bad:
        problem = f"not JSON ({reason(bad)})"
        raise DatasetError(
            problem, where=f"{path}:{bad.lineno}", remedy="fix the file"
        ) from None
    except (ValueError, RecursionError) as bad:
        raise DatasetError(
            f"not JSON or YAML ({bad})"
            if inner_suffix(path) in _YAML
            else f"not JSON ({bad})",
            where=str(path),
            remedy="fix the file",
        ) from None


def load_object(path: Path) -> JsonObject:
    """Return the object in a JSON file.

    Raises:
        DatasetError: If it cannot be read, or is not an object.
    """
    value = load_json(path)
    if not isinstance(value, dict):
        raise DatasetError(
            "is not one JSON object",
            where=str(path),
            remedy="use another file or format",
        )
    return value


def rows_of(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of a file, or of all files in a folder sorted by name, with their locations.

    Raises:
        DatasetError: If it does not exist, cannot be read, or has values other than rows.
    """
    if not file_of(path).exists():
        raise DatasetError("no such file", where=str(path), remedy="check the path")
    # Files of a folder, sorted, so that rows have the same order on every machine.
    files = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    if not files:
        raise DatasetError(
            "the folder has no .jsonl or .json file",
            where=str(path),
            remedy="use another folder",
        )
    for file in files:
        try:
            rows = reader_for(None, file)(file)
            # Spreadsheets export cells with an apostrophe before = or +, which is removed.
            yield from (
                ((location, _as_exported(row)) for location, row in rows)
                if inner_suffix(file) in _TABLES
                else rows
            )
        except OSError as bad:
            raise _unreadable(file, bad) from None


def table_rows(path: Path) -> Sequence[Placed]:
    """Return the rows of a table; those of a delimited file by column. See `rows_of`."""
    if path.is_dir():
        return [*rows_of(path)]
    try:
        table = read_columns(path)
    except OSError as bad:
        raise _unreadable(path, bad) from None
    if table is None:
        return [*rows_of(path)]
    columns = {
        unescaped(name): _unescaped_cells(cells)
        for name, cells in table.columns.items()
    }
    return TableRows(columns, table.locations)


def _unescaped_cells(cells: list[str]) -> list[str]:
    if any(map(str.startswith, cells, repeat("'"))):
        return [unescaped(cell) for cell in cells]
    return cells


def _as_exported(row: JsonObject) -> JsonObject:
    # Hardly any row has an apostrophe, and a call for each cell takes longer than this look.
    if not (any(map(_is_marked, row)) or any(map(_is_marked, row.values()))):
        return row
    return {unescaped(name): unescaped(value) for name, value in row.items()}


def _is_marked(value: Any) -> bool:
    return isinstance(value, str) and value[:1] == "'"


class LocatedRow(dict[str, Any]):
    """A row, or an object in it, with its location, its file, and its number there or
    in the import.

    A missing key raises a `DatasetError` that names it and the location; see `require`.
    """

    def __init__(
        self, row: Json, location: str, number: int = 0, file: Path | None = None
    ) -> None:
        super().__init__(row)
        self.place, self.number = location, number
        self.file = file or Path(location.rpartition(":")[0])
        # Nested objects report a missing key with the same location.
        for key, value in row.items():
            if isinstance(value, dict | list):
                self[key] = self._located(value)

    def __missing__(self, key: str) -> Any:
        return require(self, key, self.place)

    def _located(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._located(part) for part in value]
        if isinstance(value, dict):
            return LocatedRow(value, self.place, self.number, self.file)
        return value

    def need(self, key: str) -> Any:
        """Return the value of a key; see `require`."""
        return self[key]


def located_rows(path: Path) -> Iterator[LocatedRow]:
    """Yield the rows of a file or folder with their locations, numbered from 0; see `rows_of`."""
    for index, (location, row) in enumerate(rows_of(path)):
        yield LocatedRow(row, location, index)


def grouped(
    rows: Iterable[LocatedRow], key: Callable[[LocatedRow], Any]
) -> list[list[LocatedRow]]:
    """Return the rows of each key together, in order of first occurrence; they are held
    in memory.
    """
    groups: dict[Any, list[LocatedRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def require(row: Json, key: str, location: str) -> Any:
    """Return the value of a key in a row.

    Raises:
        DatasetError: If it has no such key.
    """
    if key not in row:
        names = ", ".join(map(str, list(row)[:8]))
        problem = f"there is no '{key}', only {names or 'nothing'}"
        where = location + _line_in(row, Path(location))
        raise DatasetError(problem, where=where, remedy="use another format")
    return row[key]


def _line_in(row: Json, path: Path) -> str:
    """Return `:` and the line of an object in a small JSON file; empty if the path is
    no file, or does not have it.
    """
    decoder = json.JSONDecoder()
    with suppress(OSError, ValueError, RecursionError):
        small = path.suffix == ".json" and path.stat().st_size <= _PEEK
        content = read_text(path, "utf-8-sig") if small else ""
        for start in (match.start() for match in re.finditer(r"\{", content)):
            with suppress(ValueError):  # a bracket in a text
                if decoder.raw_decode(content, start)[0] == row:
                    # The line is one more than the number of line breaks before the object.
                    return f":{content.count(chr(10), 0, start) + 1}"
    return ""


def sibling_file(path: Path, *names: str) -> Path | None:
    """Return the first of `names` in the folder of `path`, or in one of the three
    folders above it.
    """
    here = path if path.is_dir() else path.parent
    # The folder of the file, then the three above it.
    folders = [here, *list(here.resolve().parents)[:3]]
    return next(
        (
            folder / name
            for folder in folders
            for name in names
            if (folder / name).exists()
        ),
        None,
    )


def text(value: Any) -> str:
    """Return a value as text: a conversation rendered, the items of a list on separate
    lines, other content named.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if is_conversation(value):
        return conversation_text(value)
    # Calls of tools are rendered as in a conversation.
    if are_calls(value):
        return conversation_text(as_messages("assistant", value))
    if isinstance(value, list):
        return "\n\n".join(_message(part) for part in value)
    if isinstance(value, dict) and isinstance(value.get("content"), str | list):
        return text(value["content"])
    return json.dumps(value, ensure_ascii=False)


def subject(value: Any) -> Any:
    """Return what the input or output of a task has: a completion's message, messages,
    or an object's only value.
    """
    if isinstance(value, Mapping):
        choices = value.get("choices")
        # A completion of an API: the message of its first choice.
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            return subject(choices[0].get("message"))
        if "messages" in value or len(value) == 1:
            return subject(value.get("messages", next(iter(value.values()))))
    return value


def spoken(value: Any) -> Any:
    """Return a prompt that is the JSON of a conversation as its messages, and any other
    value unchanged.
    """
    # Only a list of objects may be a conversation, so that other prompts are not parsed.
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        try:
            messages = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if is_conversation(messages):
            return messages
        return value
    return value


def _message(part: Any) -> str:
    if isinstance(part, dict) and (
        isinstance(part.get("text"), str) or isinstance(part.get("type"), str)
    ):
        return part_text(part)
    return text(part)


def number(value: Any) -> float | None:
    """Return a finite number; `None` for anything else. Booleans are 1 and 0."""
    if value is None:
        return None
    try:
        # True and False are 1 and 0, and not texts.
        if isinstance(value, bool | int | float):
            parsed = float(value)
        else:
            parsed = float(str(value))
    except (ValueError, OverflowError):
        return None
    # NaN differs from itself.
    if parsed == parsed and abs(parsed) != float("inf"):
        return parsed
    return None


def is_infinite(word: str) -> bool:
    """Return whether a word is a number that is not finite, such as `inf` or `1e999`."""
    # Hardly any word begins as a number, or as `inf` or `nan`.
    if word[:1].isalpha() and word[0] not in "iInN":
        return False
    try:
        return not isfinite(float(word))
    except ValueError:
        return False


def _unreadable(path: Path, bad: OSError) -> DatasetError:
    return DatasetError(
        f"cannot be read ({bad.strerror or bad})",
        where=str(path),
        remedy="check the file",
    )


# FastChat writes "[The Start of Assistant A's Answer]", others "<|The Start of ...|>".
_ANSWER = lazy_pattern(
    r"(?:\[|<\|)The Start of (?:the )?(?:Assistant|Model)(?: (?P<side>[AB]))?['’]s "
    r"(?P<kind>Answer|Conversation with User)(?:\]|\|>)\s*(?P<text>.*?)\s*(?:\[|<\|)The End of ",
    re.DOTALL,
)
_QUESTION = lazy_pattern(
    r"(?:\[(?:User )?Question\]|<\|User Prompt\|>)\s*(?P<text>.*?)\s*(?=\[The Start|<\|The )",
    re.DOTALL,
)
_REFERENCE = lazy_pattern(
    r"(?:\[|<\|)The Start of Reference Answer(?:\]|\|>)\s*(?P<text>.*?)\s*(?:\[|<\|)The End of ",
    re.DOTALL,
)
_TURN = lazy_pattern(
    r"^### (?P<who>User|Assistant(?: [AB])?|Reference answer):[ \t]*\n", re.MULTILINE
)


def answers_in(prompt: str) -> dict[str, str]:
    """Return the answers in a judge's prompt by side: `A` and `B`, or one with an empty name.

    For a conversation, they are the assistant's turns.
    """
    answers = {
        # Without a side, the only answer has an empty name.
        match["side"] or "": _said(match["text"], "Assistant")
        for match in _ANSWER.finditer(prompt)
    }
    # FastChat names the only assistant of a conversation A.
    if set(answers) == {"A"}:
        return {"": answers["A"]}
    return answers


def question_in(prompt: str) -> str:
    """Return the question in a judge's prompt, or the user's turns of a conversation;
    empty if there is none.
    """
    if match := _QUESTION.search(prompt):
        return match["text"]
    match = _ANSWER.search(prompt)
    # Prompts on conversations have the question in the user's turns.
    if match and match["kind"] != "Answer":
        return _said(match["text"], "User")
    return ""


def reference_in(prompt: str) -> str | None:
    """Return the reference answer in a judge's prompt; `None` if there is none."""
    match = _REFERENCE.search(prompt)
    if match:
        return _said(match["text"], "Reference answer") or None
    return None


def pair_in(prompt: str, models: Sequence[str]) -> dict[str, str]:
    """Return the cells of the question and the two answers in a judge's prompt, by the
    models in order.
    """
    texts = answers_in(prompt)
    answers = {f"response_{side}": texts.get(side.upper(), "") for side in "ab"}
    return {
        "prompt": question_in(prompt),
        "model_a": models[0],
        "model_b": models[1],
        **answers,
    }


def _said(text: str, speaker: str) -> str:
    """Return one side's turns in a conversation: a single text, or several with
    numbers; a plain text unchanged.
    """
    # Split by the headings of turns: [before, name, text, name, text, ...].
    parts = _TURN.split(text)
    if len(parts) == 1:
        return text
    return turns_text(
        [
            part.strip()
            # Names are at the odd positions, and the text of each follows it.
            for name, part in zip(parts[1::2], parts[2::2], strict=True)
            if name.startswith(speaker)
        ]
    )


def turns_text(turns: Sequence[str]) -> str:
    """Return one side's turns as a text: a single one, or several with numbers."""
    if len(turns) == 1:
        return turns[0]
    return "\n\n".join(
        f"[Turn {number}]\n{text}" for number, text in enumerate(turns, 1)
    )
