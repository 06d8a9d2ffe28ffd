"""Read YAML and JSON from elsewhere: a small file may describe a value that never ends.

Each door reads with these functions, which refuse what is nested too deeply, refers to itself, or
grows without bound when its aliases are written out.
"""

from __future__ import annotations

import json
import re
from math import inf
from typing import Any

import yaml

DEEPEST = 60
"""Levels of a value: OmegaConf needs several of Python's frames for each."""
LARGEST = 100_000
"""Values of a text with aliases: each alias is a copy, and copies of copies grow without bound."""
FLATTEN = "flatten it, or move a checklist to the dataset"
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


class UnboundedError(ValueError):
    """A text describes a value without bounds.

    Args:
        problem: What is wrong.
        line: The line, if it is known.
        remedy: What to do.
    """

    def __init__(self, problem: str, line: int | None, remedy: str) -> None:
        self.what, self.line, self.remedy = problem, line, remedy
        location = "" if line is None else f"line {line}: "
        super().__init__(f"{location}{problem}")


def check_yaml(text: str) -> None:
    """Check that the value of a YAML text has bounds, without making it.

    Other faults are not reported.

    Raises:
        UnboundedError: If it is nested too deeply, or too large with its aliases.
    """
    sizes = [0.0]  # of the collections around an event
    names: list[str | None] = [None]  # their anchors
    anchors = dict[str, float]()  # the size of what an alias repeats
    try:
        for event in yaml.parse(text, Loader=_Parser):
            line = event.start_mark.line + 1 if event.start_mark else None
            name = getattr(event, "anchor", None)
            size = 0.0
            if isinstance(event, yaml.CollectionStartEvent):
                sizes.append(0)
                names.append(name)
                if len(sizes) - 1 > DEEPEST:
                    raise UnboundedError(
                        f"nested deeper than {DEEPEST} levels", line, FLATTEN
                    )
                continue
            if isinstance(event, yaml.AliasEvent):
                # An alias within its own anchor never ends.
                size = anchors.get(str(event.anchor), inf)
            elif isinstance(event, yaml.CollectionEndEvent):
                # The collection is complete: its size counts in the one around it.
                size = sizes.pop()
                name = names.pop()
            elif isinstance(event, yaml.ScalarEvent):
                size = 1
            if name is not None and not isinstance(event, yaml.AliasEvent):
                # What an alias of this name will repeat.
                anchors[name] = size
            sizes[-1] += size
            if sizes[-1] > LARGEST and anchors:
                problem = (
                    f"has more than {LARGEST:,} values when its aliases (*NAME) are written"
                    " out"
                )
                raise UnboundedError(problem, line, "write less with aliases")
    except RecursionError:
        raise UnboundedError(
            f"nested deeper than {DEEPEST} levels", None, FLATTEN
        ) from None
    except yaml.YAMLError:
        return  # reported when the text is read


_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser of libyaml, where PyYAML has it: it takes a tenth of the time."""


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    Raises:
        UnboundedError: If the value has no bounds.
        ValueError: If it is not YAML; the message is one line, with the line number if known.
    """
    check_yaml(text)
    try:
        return yaml.load(text, Loader=_Parser)
    except yaml.MarkedYAMLError as bad:
        line = f"line {bad.problem_mark.line + 1}: " if bad.problem_mark else ""
        raise ValueError(f"{line}{bad.problem or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as bad:
        raise ValueError(" ".join(str(bad).split())) from None


def read_json(content: bytes | str, deepest: int = DEEPEST) -> Any:
    """Return the value of a JSON text.

    Raises:
        UnboundedError: If it is nested too deeply.
        ValueError: If it is not JSON.
    """
    if isinstance(content, str):
        whole = content.encode("utf-8", "surrogateescape")
    else:
        whole = content
    # Most texts have few brackets, and need no look at each.
    if whole.count(b"[") + whole.count(b"{") > deepest:
        depth = 0
        for bracket in _BRACKETS.finditer(whole):
            first = bracket[0][:1]
            if first in b"[{":
                depth += 1
            elif first in b"]}":
                depth -= 1
            if depth > deepest:
                raise UnboundedError(
                    f"nested deeper than {deepest} levels", None, FLATTEN
                )
    try:
        return json.loads(content)
    except RecursionError:
        raise UnboundedError("nested too deeply", None, FLATTEN) from None
