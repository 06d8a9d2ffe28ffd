"""Encode for Hydra what its grammar refuses: criteria on the command line, and words
that are not ASCII.

An override that changes or deletes a criterion passes through Hydra under a key that spells the
name in ASCII, and is merged afterwards. So names can be in any script, keys that no file sets can
be set, and unknown names are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from evalkit.config import criteria_by_name
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.values import mapping_of

_WORD: Final = re.compile(
    r"(?P<sign>\+\+|\+|~)?criteria\.(?P<name>[^=]+?)"
    r"(?P<field>\.(?:description|weight|levels(?:\.[^=.]+)?))?"
    r"(?:=(?P<value>.*))?",
    re.DOTALL,
)
_INLINE: Final = re.compile(
    r"(?P<sign>\+\+|\+)?criteria=(?P<value>[{\[].*[{:].*|\{\s*\})", re.DOTALL
)
_INLINE_RUBRIC: Final = re.compile(r"rubric=(?P<value>\{.*\})", re.DOTALL)
_MERGED: Final = re.compile(
    r"(?P<group>method|mode|judge|swap|rubric|output|dataset)=\[(?P<options>[^\[\]]+,[^\[\]]+)\]"
)
_JUDGE: Final = re.compile(
    r"(?:probe\.rewriter|swap\.arbiter)(?:=(?P<name>(?!null$)[\w/.,-]+)|\.[\w.]+=.*)"
    r"|(?:judge\.price|runner\.stop)\.\w+=.*",
    re.ASCII | re.DOTALL,
)
_JUDGES: Final = re.compile(
    r"judge\.judges=\[(?P<names>[\w/.-]+(?:\s*,\s*[\w/.-]+)*)\]", re.ASCII
)
NAMED: Final = "named"
"""Key of `judge` with the options that `judge.judges` names, until they are put in its place."""
_PLAIN: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_PATH: Final = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*", re.ASCII)
_SPELLED: Final = re.compile(
    r"(?:\+\+)?criteria\._(?:(set|add)_(\w+)|(del)_(\w+)=true)", re.ASCII
)
_KEY: Final = re.compile(r"_(set|add|del)_(\w+)", re.ASCII)
_SIGN: Final = {"set": "", "add": "+", "del": "~"}
INLINE: Final = (
    "write 'criteria={NAME: {description: \"TEXT\", weight: 0.5}}', or a file"
    " conf/criteria/NAME.yaml"
)


def for_hydra(words: Sequence[str], *, sweep: bool = False) -> list[str]:
    """Return the words of a command in a form that Hydra can parse.

    Changed are overrides of criteria, and texts in other scripts.

    In a sweep, a list of options of a group is one job per option. `probe.rewriter` and
    `swap.arbiter`, which no file sets, are an option of the group `judge`, or have its keys; nor
    does a file set `judge.price` or `runner.stop`. Names in `judge.judges` are options of this
    group, too.

    Raises:
        ConfigError: if inline criteria cannot be parsed, or a single run has several options of a
            group.
    """
    # The defaults list has this group, so `+` would choose a second option.
    normalized = [re.sub(r"^\+experiment=", "experiment=", word) for word in words]
    every = [override for word in normalized for override in _as_judges(word)]
    return [
        in_ascii(new)
        for word in every
        for new in _words_for_hydra(_merged_as_choices(_as_judge(word), sweep))
    ]


def _as_judges(word: str) -> list[str]:
    """Return `judge.judges=[NAME,NAME]` as one option of the group `judge` for each name."""
    if (match := _JUDGES.fullmatch(word)) is None:
        return [word]
    names = [name.strip() for name in match["names"].split(",")]
    return [
        # Emptied first, so that the panel has the named judges only.
        "judge.judges=[]",
        *(f"+judge@judge.{NAMED}.n{at}={name}" for at, name in enumerate(names)),
    ]


def with_named_judges(judge: Any) -> Any:
    """Return a judge's composed values with the named judges in the place of its own."""
    if not isinstance(judge, Mapping):
        return judge
    settings = {key: value for key, value in judge.items() if key != NAMED}
    if NAMED in judge:
        return {**settings, "judges": [*judge[NAMED].values()]}
    return settings


def name_alone(name: str, *, _parent_: Mapping[str, Any]) -> str | None:
    """Return the name of a judge; `None` if a panel replaces it, which does not inherit
    its name.
    """
    # `NAMED` is there while judges are named and not yet put in place.
    if _parent_.get("judges") or _parent_.get(NAMED):
        return None
    return name


def _as_judge(word: str) -> str:
    match = _JUDGE.fullmatch(word)
    if match is None:
        return word
    if match["name"]:
        return f"+judge@{word}"
    return f"++{word}"


def _merged_as_choices(word: str, sweep: bool) -> str:
    """Return a word with several options of a group as Hydra's list of choices; others as they are.

    Raises:
        ConfigError: If it is not a sweep, where only one can be chosen.
    """
    merged = _MERGED.fullmatch(word)
    if merged is None:
        return word
    choices = f"{merged['group']}={merged['options'].replace(' ', '')}"
    # Hydra would take the last option of a list, without an error
    if not sweep:
        remedy = f"choose one, or write {choices} -m to run a job for each"
        raise ConfigError(
            "the last of these would silently replace the others",
            where=word,
            remedy=remedy,
        )
    return choices


def as_written(text: str) -> str:
    """Return a text with the names of criteria, and texts in any script, as the user wrote them."""

    def named(match: re.Match[str]) -> str:
        action = match[1] or match[3]
        name = match[2] or match[4]
        return f"{_SIGN[action]}criteria.{decoded(name)}"

    return as_typed(_SPELLED.sub(named, text))


def put_in_place(values: Any) -> Any:
    """Return composed criteria with the encoded entries merged into the criteria of their names.

    Values without encoded entries, and anything but a mapping, are returned unchanged.

    Raises:
        ConfigError: if a criterion to change or delete does not exist.
    """
    # nothing is encoded
    if not isinstance(values, Mapping) or not any(
        _KEY.fullmatch(str(key)) for key in values
    ):
        return values
    criteria = criteria_by_name(
        {key: value for key, value in values.items() if not _KEY.fullmatch(str(key))}
    )
    for key, value in values.items():
        if (spelled := _KEY.fullmatch(str(key))) is None:
            continue
        action = spelled[1]
        name = decoded(spelled[2])
        # Hydra accepted the spelled key, so evalkit checks what Hydra would have checked.
        if action != "add" and name not in criteria:
            raise no_such_criterion(name, list(criteria), addable=action == "set")
        if action == "del":
            del criteria[name]
        elif isinstance(value, Mapping):
            before = criteria.get(name)
            criteria[name] = {
                **mapping_of(before),
                **value,
            }
        else:
            criteria[name] = value
    return criteria


def as_composed(text: str) -> str:
    """Return a config that Hydra printed, with encoded keys decoded and encoded criteria merged."""
    composed = with_decoded_keys(yaml.safe_load(text))
    if not isinstance(composed, dict):
        return text
    if "criteria" in composed:
        composed["criteria"] = put_in_place(composed["criteria"])
    return OmegaConf.to_yaml(OmegaConf.create(composed))


def no_such_criterion(
    name: str, names: Sequence[str], *, addable: bool = True
) -> ConfigError:
    """Return the error for an unknown criterion."""
    remedy = did_you_mean(name, names)
    if addable:
        remedy = (
            f"{remedy.removesuffix('?')}, or add one: +criteria.{name}.description=TEXT"
        )
    return ConfigError("no such criterion", where=f"criteria.{name}", remedy=remedy)


def _words_for_hydra(word: str) -> Iterator[str]:
    """Yield the words that Hydra reads for one about criteria or a rubric; others as they are."""
    # From the most specific form to the most general one; anything else is left to Hydra.
    if rubric := _INLINE_RUBRIC.fullmatch(word):
        yield from _rubric_from_inline(word, rubric["value"])
        return
    if inline := _INLINE.fullmatch(word):
        yield from _words_of_inline(word, inline["value"], added=bool(inline["sign"]))
        return
    match = _WORD.fullmatch(word)
    if match is None or not (match["value"] is not None or match["sign"] == "~"):
        yield word
        return
    sign = match["sign"] or ""
    name = match["name"]
    field = match["field"] or ""
    value = "" if match["value"] is None else f"={_as_text(match['value'], field)}"
    plain = _PLAIN.fullmatch(name)
    if sign == "~" and not value:
        yield (
            word if _KEY.fullmatch(name) else f"++criteria.{encoded('del', name)}=true"
        )
    elif (
        _KEY.fullmatch(name)
        or (plain and sign)
        or (not plain and not field and _PATH.fullmatch(name))
    ):
        yield f"{sign}criteria.{name}{field}{value}"
    else:
        yield f"++criteria.{encoded('add' if sign else 'set', name)}{field}{value}"


def _as_text(value: str, field: str) -> str:
    """Return a description as one quoted text, unless Hydra parses it as a text or as a
    sweep without spaces.
    """
    if field == ".weight" or value[:1] in ("'", '"', "{"):
        return value
    try:
        OverridesParser.create().parse_override(f"key={value}")
    except HydraException:
        return _hydra(value)
    if ", " in value or "${" in value:
        return _hydra(value)
    return value


def _named_settings(part: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Return names with settings of a mapping: of one criterion with a `name`, or of several."""
    if "name" in part:
        settings = {key: value for key, value in part.items() if key != "name"}
        return [(str(part["name"]), settings)]
    return [(str(name), settings) for name, settings in part.items()]


def _words_of_inline(word: str, text: str, *, added: bool) -> Iterator[str]:
    """Yield the words for criteria in YAML: texts and settings by name, or names of files.

    `added`: they are added to the criteria of the study, instead of replacing them.

    Raises:
        ConfigError: If they cannot be read, or a name is repeated.
    """
    try:
        criteria = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(
            "cannot be read as criteria", where=word, remedy=INLINE
        ) from None
    # A list may mix names of files and criteria.
    parts = criteria if isinstance(criteria, list) else [criteria]
    files = [part for part in parts if isinstance(part, str)]
    yield from [] if added else [f"criteria=[{','.join(files)}]"]
    entries = []
    for part in parts:
        if isinstance(part, Mapping):
            entries += _named_settings(part)
        elif not isinstance(part, str):
            raise ConfigError("cannot be read as criteria", where=word, remedy=INLINE)
    # In a mapping, YAML would keep the last of two equal names without a word.
    names = [name for name, _ in entries]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"'{repeated[0]}' is named twice",
            where="criteria",
            remedy="give each its own name",
        )
    for name, settings in entries:
        key = name if _PLAIN.fullmatch(name) else encoded("add", name)
        yield f"++criteria.{key}={_hydra(settings)}"


def _rubric_from_inline(word: str, text: str) -> Iterator[str]:
    """Yield the words of a rubric given inline: an empty rubric, then each of its settings.

    Args:
        word: The whole override, for the error.
        text: Its value, in YAML.

    Raises:
        ConfigError: If it is not YAML.
    """
    try:
        rubric = yaml.safe_load(text)
        # the same values, all as texts
        texts = yaml.load(text, yaml.BaseLoader)
    except yaml.YAMLError:
        remedy = (
            "write 'rubric={classes: {NAME: MEANING, NAME: MEANING}}', or a file"
            " conf/rubric/NAME.yaml"
        )
        raise ConfigError(
            "cannot be read as a rubric", where=word, remedy=remedy
        ) from None
    yield "rubric=own"
    for key, value in rubric.items():
        written = texts[key]
        if key == "classes":
            # Names that YAML or Hydra would read as something else stay texts.
            classes = json.dumps(written, ensure_ascii=False)
            yield f"rubric.classes={_hydra(classes)}"
        elif value is not None and isinstance(written, str):
            yield f"rubric.{key}={_hydra(written)}"
        else:
            yield f"rubric.{key}={_hydra(value)}"


def _hydra(value: Any) -> str:
    """Return a plain value in the grammar of Hydra's overrides; an interpolation in a text is
    escaped.
    """
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{key}: {_hydra(part)}" for key, part in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_hydra(part) for part in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return str(value)
    return quoted(str(value)).replace("${", "\\${")


_ENCODED: Final = re.compile(r"_key_(\w+)", re.ASCII)
_PIECE: Final = re.compile(
    # Quoted texts and brackets are kept.
    r"""(?P<kept>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[\]{}(),])"""
    # Interpolations, escaped characters and other text; then anything.
    r"""|(?:\$\{[^}]*\}|\\.|[^\\\[\]{}(),'"])+|.""",
    re.DOTALL,
)
_CHOICE: Final = re.compile(r"choice\(([^()]*)\)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\\()\[\]{}:=, \t])")
_QUOTED: Final = re.compile(r"(?<=[=,\[(])'([^\s,:=(){}\[\]\"'\\$]*)'")


def in_ascii(word: str) -> str:
    """Return an override that Hydra can parse.

    It is changed if only characters other than ASCII keep Hydra from parsing it.
    """
    key, equals, value = word.partition("=")
    if word.isascii() or not equals or word.startswith("-"):
        return word
    key = ".".join(
        part if part.isascii() else encoded("key", part) for part in key.split(".")
    )
    if _parses(value):
        return f"{key}={value}"
    choice = _CHOICE.fullmatch(value)  # Hydra's sweeper would remove the quotes in it
    parts = value
    if choice:
        parts = choice[1]
    quoted_value = _with_quoted_parts(parts)
    if not _parses(quoted_value):
        quoted_value = quoted(value)
    return f"{key}={quoted_value}"


def as_typed(text: str) -> str:
    """Return a text with the keys and plain values of overrides as the user typed them."""
    plain = _QUOTED.sub(_unquoted, text)
    return _ENCODED.sub(lambda match: decoded(match[1]), plain)


def _unquoted(match: re.Match[str]) -> str:
    """Return what is between quotes if it is not ASCII, otherwise the text with its quotes."""
    if match[1].isascii():
        return match[0]
    return match[1]


def with_decoded_keys(values: Any) -> Any:
    """Return composed values with the keys that were spelled in ASCII."""
    if isinstance(values, Mapping):
        return {_key(key): with_decoded_keys(value) for key, value in values.items()}
    if isinstance(values, list):
        return [with_decoded_keys(value) for value in values]
    return values


def _key(key: Any) -> Any:
    if not isinstance(key, str):
        return key
    spelled = _ENCODED.fullmatch(key)
    if spelled is None:
        return key
    return decoded(spelled[1])


def encoded(action: str, name: str) -> str:
    """Return a key for a name: ASCII letters and digits unchanged, other UTF-8 bytes as
    `_` and two hex digits.
    """
    spelled = "".join(map(_spelled_byte, name.encode()))
    return f"_{action}_{spelled}"


def _spelled_byte(byte: int) -> str:
    if byte < 128 and chr(byte).isalnum():
        return chr(byte)
    return f"_{byte:02x}"


def decoded(spelled: str) -> str:
    """Return the name that `encoded` spelled."""
    return re.sub(
        rb"_([0-9a-f]{2})",
        lambda match: bytes.fromhex(match[1].decode()),
        spelled.encode(),
    ).decode()


def quoted(text: str) -> str:
    """Return a text in Hydra's quotes; interpolations in it stay."""
    # Hydra reads backslashes before a quote in pairs.
    escaped = re.sub(r"(\\*)'", lambda match: match[1] * 2 + "\\'", text)
    # backslashes before a closing quote must be doubled, too
    trailing = len(escaped) - len(escaped.rstrip("\\"))
    return f"'{escaped}{chr(92) * trailing}'"


def _parses(value: str) -> bool:
    try:
        OverridesParser.create().parse_override(f"key={value}")
    except HydraException:
        return False
    return True


def _with_quoted_parts(value: str) -> str:
    """Quote each text with other characters than ASCII.

    Texts in lists, mappings, functions and sweeps, too.
    """
    parts = []
    # the brackets around a piece, innermost last
    inside = [""]
    last = ""
    for piece in _PIECE.finditer(value):
        text = piece[0]
        if piece["kept"] is None:
            # A key of a mapping follows its brace or a comma; Hydra cannot quote keys.
            in_key = inside[-1] == "{" and last in ("{", ",")
            text = _as_pair(text) if in_key and ":" in text else _ascii_text(text)
        elif text in ("[", "{", "("):
            inside.append(text)
        elif text in ("]", "}", ")"):
            inside = inside[:-1] or [""]
        last = text
        parts.append(text)
    return "".join(parts)


def _as_pair(text: str) -> str:
    key, _, value = text.partition(":")
    spelled = key if key.isascii() else encoded("key", _ESCAPED.sub(r"\1", key.strip()))
    return f"{spelled}:{_ascii_text(value)}"


def _ascii_text(text: str) -> str:
    content = text.strip()
    if text.isascii():
        return text
    return text.replace(content, quoted(_ESCAPED.sub(r"\1", content)))
