"""Read the JSON object in a judge's text: the whole text, an embedded object, or a repaired one."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NoReturn, TypeAlias

from evalkit.core.patterns import lazy_pattern
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.evaluators.parsing.plain_text import (
    UnreadableError,
    drop_thinking,
    spells_letters,
    unescape,
)

JsonRung: TypeAlias = Literal["json", "embedded", "repaired"]

# Repair is quadratic in length and depth. Answers have a few thousand characters, a few levels and
# a few names.
_REPAIRABLE, _DEEPEST, _NAMES = 50_000, 24, 64
# Limits of the search for objects in a text: steps per character, failures, objects and leaves.
_LOOKS, _FAILS, _OBJECTS, _LEAVES = 32, 200, 200, 200
_QUOTE = "[\"'“”‘’]"
_BARE = lazy_pattern(r"[-+.\w]+(?=[],}])")
"""Scalars other than strings in a flat text."""
_BEGIN = lazy_pattern(r"\{(?=\s*[\"}])")
_BEGIN_OR_BROKEN = re.compile(r"\{(?=\s*[\"'“‘}])")


@frozen
class _Found:
    """An object in a text: its value, the parsing step that read it, and its end in the text."""

    value: JsonObject
    rung: JsonRung
    text: str = ""
    end: int = 0

    @property
    def after(self) -> str:
        """The text after the object."""
        return self.text[self.end :]


def read_json(
    text: str,
    *,
    keys: Collection[str] = (),
    cut_off: bool = False,
    sources: Sequence[str] = (),
    schema: Json | None = None,
) -> tuple[JsonObject, JsonRung]:
    """Return the JSON object in a text, and the parsing step that read it.

    Args:
        text: The judge's text.
        keys: The keys that identify the answer if there are several objects.
        cut_off: Whether the text is truncated; if so, nothing is repaired, since 1 may be the start
            of 10.
        sources: The texts under judgment; an object from one of them is a quotation and never the
            answer.
        schema: The requested schema. If a source uses one of its names as JSON does, with any
            escapes, the answer is read strictly: it is not repaired, must be at the end, and must
            have each name once and where the schema has it.

    Raises:
        UnreadableError: If there is no object, or several different ones could be the answer.
    """
    try:
        return _read_answer(text, keys, cut_off, sources, schema)
    # Whoever wrote the text chose its nesting: it must cost one answer, not the run.
    except RecursionError:
        raise UnreadableError("no_answer", "the answer is nested too deeply") from None


def _read_answer(
    text: str,
    keys: Collection[str],
    cut_off: bool,
    sources: Sequence[str],
    schema: Json | None,
) -> tuple[JsonObject, JsonRung]:
    """Return the object that is the answer in a text, and its rung: the parsing step that read it.

    Args:
        text: The answer of a judge.
        keys: The keys that the object must have.
        cut_off: Whether the answer ended at the limit of tokens.
        sources: The texts under judgment, which the answer may quote.
        schema: The schema of the request; `None` if it had none.

    Raises:
        UnreadableError: If there is no object, or it is not certain which one is the answer.
    """
    # Escaped letters would evade the comparisons with the sources below.
    if spells_letters(text):
        raise UnreadableError(
            "ambiguous",
            "plain letters are written as escape sequences: write them directly",
        )
    quoted = _Sources(sources, keys)
    json_object = _find_object(text, keys, quoted, cut_off=cut_off)
    names = property_names(schema or {})
    # A text under judgment that uses the schema's names may try to be read as the answer.
    if names and any(_uses(source, names) for source in quoted.texts):
        _check_strictly(json_object, schema or {})
    return json_object.value, json_object.rung


def property_names(schema: Json) -> frozenset[str]:
    """Return the names of all properties in a schema, at any depth."""
    names = set[str]()
    parts = [schema]
    while parts:
        part = parts.pop()
        properties = part.get("properties", {})
        names.update(properties)
        parts += properties.values()
        if items := part.get("items"):
            parts.append(items)
    return frozenset(names)


def _find_object(
    text: str, keys: Collection[str], quoted: _Sources, *, cut_off: bool
) -> _Found:
    """Return the object that is the answer: the whole text, an object within it, or a repaired one.

    Raises:
        UnreadableError: If there is none, or there are several.
    """
    # an answer that is only JSON needs no search
    whole = _decoded(text)
    if isinstance(whole, dict):
        if quoted.contain(whole):
            raise _quotation()
        return _unwrap(_Found(whole, "json", text, len(text)), keys)
    answer = drop_thinking(text, quoted.sources)
    if not answer.strip():
        if text.strip():
            problem = "the output contains only thinking and no answer"
        else:
            problem = "the answer is empty"
        raise UnreadableError("empty", problem)
    everything = _find_objects(answer)
    if len(everything) > _OBJECTS:
        raise UnreadableError(
            "ambiguous", f"there are {len(everything)} JSON objects: write only one"
        )
    # Quotations of the material are never the answer, even if nothing else is there.
    own_objects = [
        _unwrap(candidate, keys)
        for candidate in everything
        if not quoted.contain(candidate.value)
    ]
    if chosen := _choose_answer(own_objects, keys):
        return chosen
    if len(own_objects) < len(everything):
        raise _quotation()
    # Repair comes last: it guesses, and a valid object elsewhere in the text is certain.
    repaired = None if cut_off else _with_half_width(answer, keys) or _repair(answer)
    if (
        repaired
        and all(key in repaired for key in keys)
        and not quoted.contain(repaired)
    ):
        return _Found(repaired, "repaired")
    if own_objects and not cut_off:
        return own_objects[-1]
    raise UnreadableError("no_answer", "there is no complete JSON object in the answer")


def _unwrap(candidate: _Found, keys: Collection[str]) -> _Found:
    """Return the only object within another one, if it has all keys and the other has none.

    Models wrap an answer as `{"evaluation": {…}}`, in a list of one, or as the arguments of a tool
    call.

    Without `keys`, and for any other object, the candidate itself is returned.
    """
    folded_keys = {_folded(key) for key in keys}
    outer = candidate.value
    parts = [
        part[0] if isinstance(part, list) and len(part) == 1 else part
        for part in outer.values()
    ]
    inner = [part for part in parts if isinstance(part, dict)]
    lists = [part for part in parts if isinstance(part, list)]
    if lists or len(inner) != 1 or folded_keys & {_folded(name) for name in outer}:
        return candidate
    value = inner[0]
    if folded_keys and folded_keys <= {_folded(name) for name in value}:
        return replace(candidate, value=value, rung="repaired")
    return candidate


def _choose_answer(objects: list[_Found], keys: Collection[str]) -> _Found | None:
    """Return the last object that has all keys; `None` if no object has.

    Raises:
        UnreadableError: If several have and differ, or the object ends too early.
    """
    folded_keys = {_folded(key) for key in keys}
    complete = [
        candidate
        for candidate in objects
        if folded_keys <= {_folded(name) for name in candidate.value}
    ]
    # Equal objects are one answer that was repeated; different ones leave the choice open.
    if any(candidate.value != complete[0].value for candidate in complete):
        raise UnreadableError(
            "ambiguous",
            f"there are {len(complete)} different JSON objects: write only one",
        )
    if complete and _has_unmatched_brace(complete[0].after):
        raise UnreadableError(
            "ambiguous",
            "the JSON object ends too early: escape quotation marks inside strings",
        )
    if complete:
        return complete[-1]
    return None


def _has_unmatched_brace(remainder: str) -> bool:
    """Return whether a text has an unmatched closing brace: an unescaped quotation
    ended an object too early.
    """
    depth = 0
    for brace in re.findall(r"[{}]", remainder):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return True
    return False


def _quotation() -> UnreadableError:
    return UnreadableError(
        "no_answer",
        "the JSON object is copied from the material to judge: write your own",
    )


class _Sources:
    """The texts under judgment, also unescaped, and the JSON objects in them."""

    def __init__(self, sources: Sequence[str], keys: Collection[str]) -> None:
        self.sources = sources
        self.texts = tuple(
            {spelling for source in sources for spelling in (source, unescape(source))}
        )
        # A winner or a class is read in any case, so a copy of it can have another case.
        self._folded = tuple({text.casefold() for text in self.texts})
        # A quick test first: most texts have no brace and no such key.
        candidates = [
            text for text in self.texts if all(key in text for key in ("{", *keys))
        ]
        self._find_objects = [
            quoted_object
            for text in candidates
            for quoted_object in _foreign(text, keys)
        ][:_OBJECTS]

    def contain(self, value: JsonObject) -> bool:
        """Return whether an object is copied: a source contains the object or all of its values."""
        if value in self._find_objects:
            return True
        # Compared by values, because a copy may have other keys, another order or other spaces.
        leaves = set(islice(_leaves(value), _LEAVES))
        return bool(leaves) and any(
            all(_is_in(text, leaf) for leaf in leaves) for text in self._folded
        )


def _leaves(value: object) -> Iterator[str | float]:
    """Yield the texts and numbers in a value at any depth; empty ones say nothing."""
    values = [value]
    while values:
        part = values.pop()
        if isinstance(part, dict):
            values += reversed(part.values())
        elif isinstance(part, list):
            values += reversed(part)
        elif part is None or part == "":
            continue
        else:
            yield part if isinstance(part, str | int | float) else str(part)


def _is_in(text: str, leaf: str | float) -> bool:
    """Return whether a casefolded text contains a value in its JSON form, in any case."""
    if isinstance(leaf, str):
        return (
            f'"{leaf.casefold()}"' in text or f'"{unescape(leaf).casefold()}"' in text
        )
    return (
        re.search(rf"[:,\[]\s*{re.escape(json.dumps(leaf).casefold())}\s*[,}}\]]", text)
        is not None
    )


def _foreign(source: str, keys: Collection[str]) -> list[JsonObject]:
    try:
        values = [candidate.value for candidate in _find_objects(source, nested=True)]
    except (UnreadableError, RecursionError):
        # `contain` still compares the leaves with the texts.
        return []
    return [value for value in values if all(key in value for key in keys)]


def _uses(source: str, names: frozenset[str]) -> bool:
    """Return whether a text uses one of some names as JSON does."""
    return _name_in_use(names).search(source) is not None


# A run has one schema, and a served judge one for each client's criteria.
@lru_cache(maxsize=64)
def _name_in_use(names: frozenset[str]) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(name) for name in sorted(names))
    return re.compile(
        rf"[\"'`“”‘’]\s*(?:{alternatives})\\*[\"'`“”‘’]\s*[:：=]", re.IGNORECASE
    )


def _check_strictly(json_object: _Found, schema: Json) -> None:
    """Check that an object is the end of the answer, and has only fields of the schema, each once.

    Raises:
        UnreadableError: If not; then it may be made of the texts under judgment.
    """
    if json_object.rung == "repaired" or json_object.after.strip(" \t\r\n`"):
        raise UnreadableError(
            "ambiguous", "the JSON object must be complete and at the end of the answer"
        )
    if (wrong := _out_of_place(json_object.value, schema)) is not None:
        raise UnreadableError(
            "ambiguous", f"'{wrong[:60]}' is not an expected field here"
        )
    if (again := _repeated_name(json_object.text, json_object.end)) is not None:
        raise UnreadableError("ambiguous", f"'{again[:60]}' is duplicated")


def _out_of_place(value: object, schema: Json) -> str | None:
    """Return a name that is not in the schema at its position: a quotation may have
    ended the object around it.
    """
    if isinstance(value, list):
        names = (_out_of_place(part, schema.get("items", {})) for part in value)
        return next((name for name in names if name is not None), None)
    properties = schema.get("properties", {})
    for name, part in value.items() if isinstance(value, dict) else ():
        if name not in properties:
            return str(name)
        if (wrong := _out_of_place(part, properties[name])) is not None:
            return wrong
    return None


def _repeated_name(text: str, end: int) -> str | None:
    """Return a name that is duplicated in the object that ends at `end`, even with equal values;
    `None` if each name is unique.

    Objects within the object count, too.
    """
    repeated: list[str] = []

    def note_repeated(members: list[tuple[str, Any]]) -> JsonObject:
        counts = Counter(name for name, _ in members)
        repeated.extend(name for name, count in counts.items() if count > 1)
        return dict(members)

    decoder = json.JSONDecoder(object_pairs_hook=note_repeated)
    # Objects are decoded one after the other until the one that ends at `end`.
    at = text.find("{")
    while at >= 0:
        repeated.clear()
        try:
            _, stop = decoder.raw_decode(text, at)
        except ValueError:
            stop = at + 1
        if stop == end or (stop > end and not text[end:stop].strip()):
            break
        at = text.find("{", stop)
    if repeated:
        return repeated[0]
    return None


def _find_objects(text: str, *, nested: bool = False) -> list[_Found]:
    """Return the outermost JSON objects in a text, in order.

    After an object that cannot be read to its end, the text may be inside one of its strings. So
    nothing after it is returned, unless `nested` objects are requested too.

    Raises:
        UnreadableError: If too much of the text was read in vain.
    """
    objects: list[_Found] = []
    # bounds on the characters read in vain and on failed attempts, so that no text
    # takes quadratic time
    looks = _LOOKS * len(text)
    fails = _FAILS
    end = 0
    while begun := (_BEGIN if nested else _BEGIN_OR_BROKEN).search(text, end):
        at = begun.start()
        try:
            value, end = _DECODER.raw_decode(text, at)
        except ValueError as error:
            if not nested:
                break
            # Look for the next object one character later, and pay for what was read in vain.
            end = at + 1
            looks = looks - (getattr(error, "pos", at) - at)
            fails = fails - 1
            if looks < 0 or fails < 0:
                raise UnreadableError("no_answer", "the JSON is incomplete") from None
        else:
            objects.append(_Found(value, "embedded", text, end))
    return objects


_PUNCTUATION = str.maketrans("｛｝［］：，＂％", '{}[]:,"%')
_PERCENT = lazy_pattern(r"\d{1,3}(?:\.\d{1,6})? ?%")


def _with_half_width(text: str, keys: Collection[str]) -> JsonObject | None:
    """Return the only object in a text with full-width punctuation or bare percentages.

    Strings stay as they are. `None` if there is no such object.
    """
    if not any(character in text for character in "｛｝［］：，＂％%"):
        return None
    pieces: list[str] = []
    end = 0
    for string in re.finditer(r'"(?:[^"\\\n]|\\.)*"|＂[^＂"\n]*＂', text):
        pieces.append(_plain(text[end : string.start()]))
        quoted = string[0]
        # Strings in full-width quotes become JSON strings; their content stays as it is.
        if quoted[0] == "＂":
            quoted = json.dumps(quoted[1:-1], ensure_ascii=False)
        pieces.append(quoted)
        end = string.end()
    pieces.append(_plain(text[end:]))
    json_object = _choose_answer(_find_objects("".join(pieces)), keys)
    if json_object is None:
        return None
    return json_object.value


def _plain(between: str) -> str:
    """Return what is between strings with half-width punctuation, and percentages as strings."""
    return _PERCENT.sub(r'"\g<0>"', between.translate(_PUNCTUATION))


def _repair(text: str) -> JsonObject | None:
    """Return the object of a text with small faults in its JSON; `None` if repair would guess."""
    body = text[max(text.find("{"), 0) :].rstrip().rstrip("`").rstrip()
    # Checked before repair, whose time grows with the square of length and depth.
    if "{" not in body or len(body) > _REPAIRABLE or _is_deep(body):
        return None
    # Few answers need a repair.
    from json_repair import repair_json

    try:
        value = repair_json(body, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and value and _accounts_for(value, body):
        return value
    return None


def _is_deep(text: str) -> bool:
    """Return whether brackets, including those in strings, are nested more deeply than
    in any answer.
    """
    depth = 0
    for bracket in re.finditer(r"[\[\](){}]", text):
        depth += 1 if bracket[0] in "[({" else -1
        if depth > _DEEPEST:
            return True
    return False


def _accounts_for(value: JsonObject, body: str) -> bool:
    """Return whether each name is as frequent in `value` as in `body`, and each of its
    values is complete there.

    Repair may take a name from a string, and completes a value that was truncated.
    """
    members = defaultdict[str, list[Any]](list)
    text = _flat(body)
    for name, part in _members_of(value):
        members[_flat(name)].append(part)
    if len(members) > _NAMES:
        return False
    for name, parts in members.items():
        # starts[i] is the index in `text` where the i-th value of this name begins.
        starts = [
            match.end()
            for match in re.finditer(
                rf"(?:{_QUOTE}|[{{,]){re.escape(name)}{_QUOTE}?[:：]", text
            )
        ]
        if len(starts) != len(parts) or any(
            _end_of_value(part, text, at) < 0
            for part, at in zip(parts, starts, strict=True)
        ):
            return False
    return True


def _flat(text: str) -> str:
    """Return a text without white space and backslashes, so that a decoded string
    equals its source.
    """
    return "".join(unescape(re.sub(r"\\+[nrtbf]", "", text)).replace("\\", "").split())


def _end_of_value(value: object, text: str, at: int) -> int:
    """Return the end of a value that begins at `at` in a flat text; -1 if it is not complete."""
    if isinstance(value, dict) or (
        isinstance(value, list) and all(isinstance(part, dict) for part in value)
    ):
        return at  # each member is looked up by its name
    if isinstance(value, list):
        for part in value:
            # One character for the bracket or the comma before each item.
            at = (
                -1
                if at < 0 or isinstance(part, dict)
                else _end_of_value(part, text, at + 1)
            )
        return at + (at >= 0 and text.startswith("]", at))
    if not isinstance(value, str):
        written = _BARE.match(text, at)
        if written:
            return written.end()
        return -1
    quotes = re.match(_QUOTE, text[at : at + 1]) is not None
    end = at + quotes + len(_flat(value))
    complete = text[at + quotes : end] == _flat(value) and re.match(
        _QUOTE if quotes else "[],}]", text[end : end + 1]
    )
    if complete:
        return end + quotes
    return -1


def _members_of(value: object) -> Iterator[tuple[str, Any]]:
    """Yield each name with its value, at any depth, in the order of the text.

    Raises:
        UnreadableError: If two names of an object contradict each other.
    """
    if isinstance(value, dict):
        _no_duplicates([*value.items()])
        for key, part in value.items():
            yield key, part
            yield from _members_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from _members_of(part)


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text.strip().removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> JsonObject:
    by_name: JsonObject = {}
    for key, value in pairs:
        # `{"winner": "A", "winner": "B"}` is valid JSON, and Python would silently take the last
        # one.
        if by_name.setdefault(_folded(key), value) != value:
            raise UnreadableError(
                "ambiguous", f"'{key[:60]}' is duplicated with different values"
            )
    return dict(pairs)


def _folded(name: str) -> str:
    """Return what is left of a name that was written in another case, as `snake_case`,
    or with escapes.
    """
    return unescape(name).strip().replace("_", "").casefold()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_no_constant
)


Path: TypeAlias = tuple[str | int, ...]
Span: TypeAlias = tuple[int, int]

_VALUE_DECODER = json.JSONDecoder()
_SCALAR = re.compile(r"[^\s,\]}]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TRIES = 200
_SPACE = re.compile(r"[ \t\n\r]*")


def places(text: str, answer: Json) -> dict[Path, Span]:
    """Return the span [start, end) of each string, number and constant of a JSON object, by path.

    The span of a string excludes its quotes. The object is the last one in `text` that equals
    `answer`; the result is empty if `text` has no such object as valid JSON.
    """
    spans: dict[Path, Span] = {}
    end = 0
    try:
        # Later objects overwrite earlier spans, so the last equal object counts.
        for _ in range(_TRIES):
            if (begun := _BEGIN.search(text, end)) is None:
                break
            at = begun.start()
            try:
                value, end = _VALUE_DECODER.raw_decode(text, at)
            except ValueError:
                end = at + 1
            else:
                if value == answer:
                    _walk(text, at, (), spans)
    except RecursionError:
        return {}
    return spans


def _walk(text: str, at: int, path: Path, spans: dict[Path, Span]) -> int:
    """Collect the spans in the valid JSON value that starts at `at`, and return its end."""
    if text[at] == "{":
        return _members(text, at, path, spans)
    if text[at] == "[":
        return _items(text, at, path, spans)
    quotes = int(text[at] == '"')
    end = _past(_STRING if quotes else _SCALAR, text, at)
    # `quotes` is 1 for a string and 0 for a number.
    spans[path] = (at + quotes, end - quotes)
    return end


def _members(text: str, at: int, path: Path, spans: dict[Path, Span]) -> int:
    at = _past_space(text, at + 1)
    while text[at] != "}":
        at = _past_comma(text, at)
        end = _past(_STRING, text, at)
        key = _VALUE_DECODER.decode(text[at:end])
        at = _past_space(text, _past_space(text, end) + 1)
        at = _past_space(text, _walk(text, at, (*path, key), spans))
    return at + 1


def _items(text: str, at: int, path: Path, spans: dict[Path, Span]) -> int:
    at = _past_space(text, at + 1)
    index = 0
    while text[at] != "]":
        at = _past_space(
            text, _walk(text, _past_comma(text, at), (*path, index), spans)
        )
        index += 1
    return at + 1


def _past_comma(text: str, at: int) -> int:
    if text[at] == ",":
        return _past_space(text, at + 1)
    return at


def _past_space(text: str, at: int) -> int:
    return _past(_SPACE, text, at)


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, "the value was decoded as valid JSON"
    return match.end()
