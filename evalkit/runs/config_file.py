"""Write the resolved config as YAML that reads as plain values and composes as a primary config."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

HEAD = "# The resolved config of this run. Repeat the run with `evalkit run` on this file.\n"
DEFAULTS = ["schema", "runtime", "_self_"]

# Some YAML readers take a text such as 1e3 for a number, and an unescaped NEL, LS or PS for a line break. In double
# quotes it is a text for all of them.
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
    """Return a config of JSON values as YAML with a Hydra defaults list; `${` is escaped so that it stays text."""
    body = {"defaults": DEFAULTS, **escaped(config)}
    text: str = yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return (HEAD + text).encode()


def escaped(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with `${` escaped, so that it stays text when it is composed."""
    plain: dict[str, Any] = _texts(config, _escaped)
    return plain


def load(content: bytes) -> dict[str, Any]:
    """Return a config that was written by `dump`.

    Raises:
        ValueError: If the file is not such a config; the message is one line, with the line number if known.
    """
    try:
        config = yaml.safe_load(content.decode())
    except yaml.MarkedYAMLError as bad:
        line = f"line {bad.problem_mark.line + 1}: " if bad.problem_mark else ""
        raise ValueError(f"{line}{bad.problem or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError) as bad:
        raise ValueError(" ".join(str(bad).split())) from None
    if not isinstance(config, dict):
        raise ValueError("not a mapping")
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
