"""Encode the frozen values as JSON or Parquet and decode them exactly, and write tables
for spreadsheets.

Judges' texts may contain unpaired surrogates, which UTF-8 cannot encode. pydantic refuses them;
`json` keeps them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import Any, Final, cast, get_args, get_type_hints

from evalkit.core.deduplication import Statement, shared_of
from evalkit.core.errors import did_you_mean
from evalkit.core.json_encoders import quick_encoder
from evalkit.core.regular_files import check_regular
from evalkit.core.resources import optional
from evalkit.core.types import Judgment, Metric
from evalkit.core.values import Json, JsonObject

Decoder = Callable[[Any], Any]

NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class MalformedError(ValueError):
    """A JSON value does not have the expected type; `str()` names the key and the
    mismatch, `keys` its place.
    """

    def __init__(
        self, problem: str, path: str = "", keys: Sequence[str | int] = ()
    ) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.keys = keys


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


@cache
def _reader(cls: Any) -> Callable[[Any], Any] | None:
    """Return how to read the fields of a dataclass as a dict; `None` for another type."""
    if not is_dataclass(cls):
        return None
    parts = ", ".join(f"{name!r}: value.{name}" for name in _names(cast(Any, cls)))
    # Written out, a fifth of the time that each attribute by its name would take.
    read: Callable[[Any], Any] = eval(f"lambda value: {{{parts}}}")
    return read


def _plain(value: Any) -> Any:
    """Return a value of another type as one that JSON has, as text if it is unknown."""
    if (read := _reader(cast(Any, type(value)))) is not None:
        return read(value)
    if isinstance(value, Mapping):
        return dict(value)
    # A set has another order in each process; sorted, a file is the same each time.
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    # NumPy scalars, without importing NumPy; any other value in a case is kept as text.
    if hasattr(value, "item"):
        return value.item()
    return str(value)


def _encoder(*, allow_nan: bool) -> Callable[[Any], str]:
    return quick_encoder(
        json.JSONEncoder(
            ensure_ascii=False,
            allow_nan=allow_nan,
            default=_plain,
            check_circular=False,
        )
    )


_encode_strict = _encoder(allow_nan=False)
_encode_loose = _encoder(allow_nan=True)


_text = json.encoder.encode_basestring


@cache
def _writer(cls: Any) -> Callable[[Any], str] | None:
    """Return how to write a dataclass as JSON; `None` for another type."""
    if not is_dataclass(cls):
        return None
    names = _names(cast(Any, cls))
    parts = ", ".join(f'"{name}": {{write(value.{name})}}' for name in names)
    # Written out, as in `_reader`: two thirds of the time that a template for the fields takes.
    write: Callable[[Any], str] = eval(
        f"lambda value: f'{{{{{parts}}}}}'", {"write": _strict}
    )
    return write


def _strict(value: Any) -> str:
    """Return a value as strict JSON: the same as `_encode_strict` in a third of the time.

    Raises:
        ValueError: If the value contains NaN or an infinity.
    """
    kind = type(value)
    if kind is str:
        return _text(value)
    if value is None:
        return "null"
    if kind is tuple:
        items = ", ".join(map(_strict, value))
        return f"[{items}]"
    write = _writer(cast(Any, kind))
    return _encode_strict(value) if write is None else write(value)


def encode_line(value: Any) -> bytes:
    """Return a value as one line of strict JSON in UTF-8; NaN and infinities become texts."""
    return _one_line(_without_nan(value))


def _without_nan(value: Any) -> str:
    try:
        return _strict(value)
    except ValueError:
        # Rare, so only then a second pass: strict JSON has no NaN.
        return _encode_strict(json.loads(_encode_loose(value), parse_constant=str))


def encode_lines(
    values: Iterable[Statement], encode: Callable[[Any], str] | None = None
) -> Iterator[bytes]:
    """Yield each value as `encode_line` does; what is said of several cases is encoded once.

    Args:
        values: Judgments or verdicts.
        encode: Returns the JSON of a value; by default, with NaN and infinities as texts.
    """
    encode = encode or _without_nan
    shared = shared_of(values)
    if shared is None:
        for value in values:
            yield _one_line(encode(value))
        return
    times = Counter(shared.indices)
    # {statement: its JSON after the case}; what is said once is not kept, for it may be long.
    ends: dict[int, str] = {}
    for case_id, index in zip(shared.case_ids, shared.indices, strict=True):
        statement = shared.statements[index]
        if times[index] == 1:
            yield _one_line(encode(statement))
            continue
        if index not in ends:
            ends[index] = encode(statement).removeprefix(_begin(statement.case_id))
        yield _one_line(_begin(case_id) + ends[index])


def _begin(case_id: str) -> str:
    """Return the beginning of the JSON of a judgment or verdict, whose first field is its case."""
    return '{"case_id": ' + _text(case_id)


def finite_lines(values: Iterable[Statement]) -> Iterator[bytes]:
    """Yield each value as `encode_finite` does.

    Raises:
        ValueError: If a value contains NaN or an infinity.
    """
    return encode_lines(values, _strict)


def encode_finite(value: Any) -> bytes:
    """Return a value as one line of strict JSON in UTF-8.

    Raises:
        ValueError: If the value contains NaN or an infinity.
    """
    return _one_line(_strict(value))


def encode_pretty(value: Any) -> bytes:
    """Return a value as indented strict JSON in UTF-8.

    Raises:
        ValueError: If the value contains NaN or an infinity.
    """
    show = partial(json.dumps, indent=2, allow_nan=False, default=_plain)
    try:
        return (show(value, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (show(value, ensure_ascii=True) + "\n").encode()


def _one_line(text: str) -> bytes:
    # Some readers also split lines at NEL, LS and PS, which JSON does not escape; escape all of
    # such a line.
    if text.isascii() or len(text.splitlines()) == 1:
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:
            pass
    return json.dumps(json.loads(text)).encode() + b"\n"


@cache
def decoder(hint: Any) -> Decoder:
    """Return a function that decodes a JSON value to a type, or raises `MalformedError`.

    It is pydantic's validator with a strict version of the type's schema: a text is not a number,
    and unknown keys are errors. It takes the values of `json`, not bytes, because pydantic's JSON
    parser refuses unpaired surrogates.
    """
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator, ValidationError

    validate = SchemaValidator(
        _make_strict(TypeAdapter(hint).core_schema)
    ).validate_python

    def decode(value: Any) -> Any:
        try:
            return validate(value)
        except ValidationError as bad:
            raise _describe_malformed(bad.errors(include_url=False), hint) from None

    return decode


def _make_strict(schema: Any) -> Any:
    """Make a pydantic schema strict: convert only integers and `NOT_FINITE` to numbers,
    and lists to tuples.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_make_strict(part) for part in schema)
    if not isinstance(schema, dict) or schema.get("type") == "literal":
        return schema
    # `encode_line` writes NaN and infinities as these three texts; no other text is a number.
    if schema.get("type") == "float":
        text = {
            "type": "chain",
            "steps": [
                {"type": "literal", "expected": sorted(NOT_FINITE)},
                {"type": "float"},
            ],
        }
        choices = [({**schema, "strict": True}, _CHOICE), (text, _CHOICE)]
        return {"type": "union", "mode": "left_to_right", "choices": choices}
    strict = {key: _make_strict(part) for key, part in schema.items()}
    match schema.get("type"):
        case "str" | "int" | "bool":
            # Else pydantic would read "1" as a number and 1 as true.
            strict["strict"] = True
        case "dataclass-args":
            strict["extra_behavior"] = "forbid"
        case "union":
            strict |= {
                "mode": "left_to_right",
                "choices": [(part, _CHOICE) for part in strict["choices"]],
            }
    return strict


def _describe_malformed(errors: Sequence[Any], hint: Any) -> MalformedError:
    """Return pydantic's errors about one value as one error, with the path of keys.

    Args:
        errors: The errors, at least one; that of an unknown key is reported, else the first one.
        hint: The type that the value should have.
    """
    # A misspelled key is also a missing one: report the unknown key.
    error = next(
        (fault for fault in errors if fault["type"] == "unexpected_keyword_argument"),
        errors[0],
    )
    kind = error["type"]
    location = [part for part in error["loc"] if part != _CHOICE]
    # A missing key has no line of its own, so the record that lacks it is named.
    keys = location[:-1] if kind == "missing" else location
    # the keys and indices of the record or value that the problem is about
    subject = location
    if kind == "unexpected_keyword_argument":
        *subject, key = location
        known = _names(_record_at(hint, subject))
        problem = f"unknown key '{key}', {did_you_mean(key, known)}"
    elif kind == "missing" and isinstance(location[-1], str):
        *subject, key = location
        problem = f"key '{key}' is missing"
    else:
        problem = _describe_mismatch(error)
    path = ".".join(part for part in subject if isinstance(part, str))
    return MalformedError(problem, path, keys)


def _describe_mismatch(error: Any) -> str:
    """Return what one of pydantic's errors expected, and the value that was there instead."""
    kind = error["type"]
    expected = _EXPECTED.get(kind, "a list of a different length")
    if kind == "literal_error":
        # pydantic writes `'a', 'b' or 'c'`.
        choices = str(error["ctx"]["expected"])
        expected = "one of " + choices.replace("'", "").replace(" or ", ", ")
    received = json.dumps(error["input"])
    # A long value would hide the rest of the message, so its type is named.
    if len(received) > _LONGEST_RECEIVED:
        received = _NAMES.get(type(error["input"]), "a number")
    return f"expected {expected}, got {received}"


def _record_at(hint: Any, loc: Sequence[str | int]) -> Any:
    """Return the dataclass at a path in a value of type `hint`; `None` if no dataclass is there.

    Args:
        hint: A dataclass, or a type with dataclasses as its arguments, such as `list[Case]`.
        loc: The keys and indices; indices are skipped.
    """
    if not is_dataclass(hint):
        return next(
            (
                inner
                for part in get_args(hint)
                if (inner := _record_at(part, loc)) is not None
            ),
            None,
        )
    keys = [part for part in loc if isinstance(part, str)]
    if keys:
        return _record_at(get_type_hints(hint)[keys[0]], keys[1:])
    return hint


_LONGEST_RECEIVED = 40
"""The most characters of a wrong value that a message shows."""
_CHOICE = "|"  # pydantic adds this to the path of a type with several choices
_NAMES = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    dict: "an object",
    list: "a list",
}
_EXPECTED = {
    "string_type": _NAMES[str],
    "bool_type": _NAMES[bool],
    "int_type": _NAMES[int],
    "float_type": "a number",
    "dict_type": _NAMES[dict],
    "dataclass_type": _NAMES[dict],
    "tuple_type": _NAMES[list],
}


def metric_values(metric: Metric) -> JsonObject:
    """Return a metric's fields as in metrics.json, without its name."""
    return {
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "n": metric.n,
        "missing": metric.missing,
        "worst_low": metric.worst_low,
        "worst_high": metric.worst_high,
        "note": metric.note,
    }


# Texts that a spreadsheet takes for a formula; one that already starts with ' gets another, so that
# it can be undone.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_ESCAPED = re.compile("'+[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def as_csv(columns: Sequence[str], rows: Iterable[Json], *, raw: bool = False) -> str:
    """Return rows as CSV; a missing value is an empty cell.

    Args:
        columns: The names of the columns.
        rows: The rows, as values by column.
        raw: Whether to write texts unchanged, instead of adding a `'` before those that a
            spreadsheet would execute.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for cells in chain(
        [columns], ([row.get(column) for column in columns] for row in rows)
    ):
        # The names of columns too: they may come from the data.
        writer.writerow(cells if raw else [escaped(cell) for cell in cells])
    return out.getvalue()


def escaped(value: Any) -> Any:
    """Return a cell's value, with a `'` before a text that a spreadsheet would execute;
    numbers are unchanged.
    """
    if (
        isinstance(value, str)
        and _FORMULA.match(value)
        and not _NUMBER.fullmatch(value)
    ):
        return f"'{value}"
    return value


def unescaped(value: Any) -> Any:
    """Undo `escaped`."""
    if not isinstance(value, str) or not value.startswith("'"):
        return value
    if _ESCAPED.match(value):
        return value[1:]
    return value


_WHERE: Final = "runner.judgments=parquet"

ROWS: Final = 4096
LINE: Final = "line"
"""The column of the rows that columns cannot hold, such as texts with unpaired surrogates: each as
a line of JSON."""
_TYPES: Final = {
    **dict.fromkeys(
        ("case_id", "judge", "status", "read_by", "error", "error_kind", "arbiter"),
        "string",
    ),
    **dict.fromkeys(("value", "confidence"), "float64"),
    "sample": "int64",
    "stored": "bool_",
}
_FIELDS: Final = tuple(field.name for field in fields(Judgment))


def encode_judgments(judgments: Iterable[Judgment]) -> Iterator[bytes]:
    """Yield the content of a Parquet file in chunks.

    Raises:
        ConfigError: If pyarrow is not installed.
    """
    arrow, parquet = (optional(name, _WHERE) for name in ("pyarrow", "pyarrow.parquet"))
    kinds = [(name, getattr(arrow, _TYPES.get(name, "string"))()) for name in _FIELDS]
    schema = arrow.schema([*kinds, (LINE, arrow.string())])
    sink = _Sink()
    remaining = iter(judgments)
    with parquet.ParquetWriter(
        arrow.PythonFile(sink, "w"), schema, compression="zstd"
    ) as writer:
        while some := [_parquet_row(judgment) for judgment in islice(remaining, ROWS)]:
            writer.write_table(arrow.Table.from_pylist(some, schema))
            yield from sink.taken()
    yield from sink.taken()


def read_rows(path: Path) -> Iterator[Any]:
    """Yield each row of a file of `encode_judgments` as `json` would read its line.

    Raises:
        ConfigError: If pyarrow is not installed.
        OSError: If the file cannot be read.
        ValueError: If it is damaged.
    """
    check_regular(path)
    with optional("pyarrow.parquet", _WHERE).ParquetFile(path) as file:
        # In batches, so that a file larger than the memory can be read.
        for batch in file.iter_batches(ROWS):
            for row in batch.to_pylist():
                line = row.pop(LINE, None)
                yield (
                    json.loads(line)
                    if line
                    else {
                        name: cell if name in _TYPES else json.loads(cell)
                        for name, cell in row.items()
                    }
                )


def _parquet_row(judgment: Judgment) -> JsonObject:
    """Return a judgment as a row of Parquet, or as a line of JSON if the columns cannot hold it.

    They cannot hold numbers that are not finite, and unpaired surrogates.
    """
    row = {name: getattr(judgment, name) for name in _FIELDS}
    try:
        if not all(
            isfinite(number or 0.0) for number in (judgment.value, judgment.confidence)
        ):
            raise ValueError
        for name in _TYPES:
            if isinstance(row[name], str):
                # Raises for an unpaired surrogate, which Arrow's texts in UTF-8 cannot have.
                row[name].encode()
    except ValueError:
        # what the columns cannot hold is kept as a line of JSON
        return {LINE: _json(judgment)}
    return {
        name: value if name in _TYPES else _json(value) for name, value in row.items()
    }


def _json(value: Any) -> str:
    return encode_line(value).decode().rstrip("\n")


class _Sink:
    """A file that is only written, whose content is taken as it comes."""

    # pyarrow reads this attribute of a file.
    closed = False

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._written = 0

    def write(self, chunk: Any) -> int:
        """Take a chunk."""
        self._chunks.append(bytes(chunk))
        self._written += len(self._chunks[-1])
        return len(self._chunks[-1])

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: what is written is taken by `taken`."""

    def taken(self) -> Sequence[bytes]:
        """Return the chunks since the last time."""
        chunks = self._chunks
        self._chunks = []
        return chunks
