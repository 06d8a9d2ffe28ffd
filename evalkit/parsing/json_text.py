"""The JSON object in a judge's text, by three rungs: the text itself, an object inside it, a repaired one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

from evalkit.parsing.thinking import drop_thinking
from evalkit.parsing.unreadable import UnreadableError

JsonRung: TypeAlias = Literal["json", "embedded", "repaired"]

# Repair is quadratic on some inputs; an answer is a few thousand characters, and has a few names.
_REPAIRABLE, _NAMES = 100_000, 64
_OPENED = re.compile(r"\{\s*[\"'“‘]")


@dataclass(frozen=True, slots=True)
class _Found:
    """An object in a text: what it holds, the rung that read it, and where in which text it ends."""

    value: dict[str, Any]
    rung: JsonRung
    text: str = ""
    end: int = 0

    @property
    def after(self) -> str:
        """The text after it."""
        return self.text[self.end :]


def read_json(
    text: str,
    *,
    keys: Collection[str] = (),
    cut_off: bool = False,
    sources: Sequence[str] = (),
    names: Collection[str] = (),
) -> tuple[dict[str, Any], JsonRung]:
    """Return the JSON object a text holds, and the rung that read it.

    Args:
        text: the judge's text.
        keys: what the object must have to be taken for the answer when there is more than one object.
        cut_off: whether the text is known to end early; nothing is repaired then, since 1 may be the start of 10.
        sources: the texts under judgment; an object that one of them holds is a quotation and never the answer.
        names: every name that the answer may use; where a source uses one as JSON does, the answer is read strictly:
            nothing is repaired, nothing may stand after it, and no other name may be in it.

    Raises:
        UnreadableError: if there is no object, or several different ones that could be the answer.
    """
    foreign = [one for source in sources if all(key in source for key in ("{", *keys)) for one in _foreign(source)]
    found = _find(text, keys, foreign, cut_off=cut_off)
    if names and any(_uses(source, names) for source in sources):
        _strictly(found, names)
    return found.value, found.rung


def _find(text: str, keys: Collection[str], foreign: list[dict[str, Any]], *, cut_off: bool) -> _Found:
    whole = _decoded(text)
    if isinstance(whole, dict):
        if whole in foreign:
            raise _quotation()
        return _Found(whole, "json")
    answer = drop_thinking(text)
    if not answer.strip():
        raise UnreadableError(
            "empty", "the answer is empty" if not text.strip() else "there is only thinking and no answer"
        )
    everything = _objects(answer)
    own = [one for one in everything if one.value not in foreign]
    if chosen := _choose(own, keys):
        return chosen
    if len(own) < len(everything):
        raise _quotation()
    repaired = None if cut_off else _repaired(answer)
    if repaired and all(key in repaired for key in keys) and repaired not in foreign:
        return _Found(repaired, "repaired")
    if own and not cut_off:
        return own[-1]
    raise UnreadableError("no_answer", "there is no complete JSON object in the answer")


def _choose(objects: list[_Found], keys: Collection[str]) -> _Found | None:
    complete = [one for one in objects if all(key in one.value for key in keys)]
    if any(one.value != complete[0].value for one in complete):
        raise UnreadableError("ambiguous", f"there are {len(complete)} different JSON objects: give one")
    if complete and _closes_what_it_did_not_open(complete[0].after):
        raise UnreadableError("ambiguous", "after the JSON object stands more of it: escape what you quote")
    return complete[-1] if complete else None


def _closes_what_it_did_not_open(rest: str) -> bool:
    """Say whether a text has a closing brace too many: an unescaped quotation has ended an object before its end."""
    depth = 0
    for brace in re.findall(r"[{}]", rest):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return True
    return False


def _quotation() -> UnreadableError:
    return UnreadableError("no_answer", "its JSON object is copied from a text under judgment: give one of your own")


def _foreign(source: str) -> list[dict[str, Any]]:
    try:
        return [one.value for one in _objects(source, nested=True)]
    except UnreadableError:
        return []


def _uses(source: str, names: Collection[str]) -> bool:
    spelt = "|".join(re.escape(name) for name in names)
    return re.search(rf"[\"']\s*(?:{spelt})\\*[\"']\s*:", source) is not None


def _strictly(found: _Found, names: Collection[str]) -> None:
    if found.rung == "repaired" or found.after.strip(" \t\r\n`"):
        raise UnreadableError("ambiguous", "the JSON object must be whole and the last thing in the answer")
    if unknown := [name for name in _keys(found.value) if name not in names]:
        raise UnreadableError("ambiguous", f"'{unknown[0][:60]}' is not a name in the form asked for")


def _objects(text: str, *, nested: bool = False) -> list[_Found]:
    """Return the outermost JSON objects that stand in a text, in order.

    Where an object begins that cannot be read to its end, what follows may stand inside one of its strings, so nothing
    after that is returned, unless `nested` objects are wanted too.
    """
    found: list[_Found] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            if _OPENED.match(text, at) and not nested:
                break
            end = at + 1
        else:
            found.append(_Found(value, "embedded", text, end))
        at = text.find("{", end)
    return found


def _repaired(text: str) -> dict[str, Any] | None:
    body = re.sub(r"\s*`*\s*\Z", "", text[max(text.find("{"), 0) :])
    if "{" not in body or len(body) > _REPAIRABLE or re.search(r"[\d.+-]\Z", body):
        return None
    from json_repair import repair_json

    try:
        value = repair_json(body, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value and _accounts_for(value, body) else None


def _accounts_for(value: dict[str, Any], body: str) -> bool:
    """Say whether each name is in `value` as often as in `body`: else a repair may have read one out of a string."""
    counts = Counter(_keys(value))
    if len(counts) > _NAMES:
        return False
    quotes = "[\"'“”‘’]"
    return all(
        len(re.findall(rf"(?:{quotes}|[{{,]\s*){re.escape(name)}\\*{quotes}?\s*[:：]", body)) == count
        for name, count in counts.items()
    )


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part)


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text.strip().removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made and made[key] != value:
            raise UnreadableError("ambiguous", f"'{key[:60]}' is given twice, differently")
        made[key] = value
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
