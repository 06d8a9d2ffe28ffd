"""The resolved config as YAML that reads as plain values here and composes as a primary config elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

HEAD = "# The resolved config of this run: `evalkit run` on this file runs it again.\n"
DEFAULTS = ["schema", "runtime", "_self_"]

# A text such as 1e3 is a number to some YAML readers and not to others, and a bare NEL, LS or PS is a line break to
# them: in double quotes it is a text to all of them.
_QUOTED = re.compile("^[-+.\\d]|[\x85\u2028\u2029\ufeff]")
_INTERPOLATION = re.compile(r"(\\*)\$\{")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the overridden method's own name
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _QUOTED.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(config: Mapping[str, Any]) -> bytes:
    """Return a config of JSON values as YAML with a Hydra defaults list, `${` escaped so that it stays a text."""
    body = {"defaults": DEFAULTS, **escaped(config)}
    text: str = yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return (HEAD + text).encode()


def escaped(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same config with `${` escaped, so that it stays a text where it is composed."""
    plain: dict[str, Any] = _texts(config, _escaped)
    return plain


def load(content: bytes) -> dict[str, Any]:
    """Return the config that `dump` wrote.

    Raises:
        ValueError: if it is not such a file; the message is one line, with the line where known.
    """
    try:
        config = yaml.safe_load(content.decode())
    except yaml.MarkedYAMLError as bad:
        line = f"line {bad.problem_mark.line + 1}: " if bad.problem_mark else ""
        raise ValueError(f"{line}{bad.problem or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError) as bad:
        raise ValueError(" ".join(str(bad).split())) from None
    if not isinstance(config, dict):
        raise ValueError("holds no mapping")
    config.pop("defaults", None)
    plain: dict[str, Any] = _texts(config, _unescaped)
    return plain


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _texts(part, change) for key, part in value.items()}
    return [_texts(part, change) for part in value] if isinstance(value, list | tuple) else value


def _escaped(text: str) -> str:
    return _INTERPOLATION.sub(lambda found: found[1] * 2 + "\\${", text)


def _unescaped(text: str) -> str:
    return _INTERPOLATION.sub(lambda found: found[1][: len(found[1]) // 2] + "${", text)
