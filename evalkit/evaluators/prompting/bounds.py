"""A Jinja sandbox with bounds: a template from a file can neither loop without end nor
build texts without end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from itertools import chain
from typing import Any

from jinja2 import nodes, pass_eval_context
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_STEPS = 250_000
"""Rounds of loops within one rendering; a call counts as 20, and 100 characters that an expression
makes as one."""
LONGEST = 20_000_000
"""Characters of a message, and characters or elements of any value that an expression makes."""
_PER_CALL, _PER_STEP, _BITS = 20, 100, 100_000
_WIDE = re.compile(r"%[^A-Za-z%]*(?:\d{7}|\*)|\{[^{}]*(?:\d{7}|\{)")
"""A width of seven digits, or one that is a value, in a format."""
_PADDED = frozenset(
    {
        "center",
        "ljust",
        "rjust",
        "zfill",
        "expandtabs",
        "indent",
        "tojson",
        "batch",
        "slice",
    }
)
_SUBSTITUTED = frozenset({"replace", "translate", "wordwrap"})
_FORMATTED = frozenset({"format", "format_map", "%"})
_steps: ContextVar[list[int] | None] = ContextVar(
    "evalkit_template_steps", default=None
)


class BoundError(SecurityError):
    """A template exceeds a bound."""


@contextmanager
def bounded() -> Iterator[None]:
    """Count the steps of one rendering within the block."""
    token = _steps.set([0])
    try:
        yield
    finally:
        _steps.reset(token)


def _spend(steps: int) -> None:
    spent = _steps.get()
    if spent is not None:
        spent[0] += steps
        if spent[0] > MOST_STEPS:
            raise BoundError(f"its loops and calls take more than {MOST_STEPS:,} steps")


def joined(parts: Iterable[Any]) -> str:
    """Return the parts of a text, joined.

    Raises:
        BoundError: If it is too long.
    """
    texts = []
    size = 0
    for part in parts:
        texts.append(str(part))
        size += len(texts[-1])
        # A template is a generator; raised in it, the error has the line of the template.
        if size > LONGEST and isinstance(parts, Generator):
            parts.throw(BoundError(f"its text has more than {LONGEST:,} characters"))
        _check(size)
    return "".join(texts)


@pass_eval_context
def _join(
    context: Any, value: Iterable[Any], d: str = "", attribute: str | int | None = None
) -> str:
    """Join as Jinja's filter of this name does, with a bound on the length of the text.

    Args:
        context: Jinja's context, which knows how to look up `attribute`.
        value: The parts.
        d: The text between two parts.
        attribute: The attribute of each part that is joined; `None` for the part itself.

    Raises:
        BoundError: If the text gets too long.
    """
    if attribute is None:
        items = value
    else:
        items = map(make_attrgetter(context.environment, attribute), value)
    return str(
        _made(
            joined(
                part
                for index, item in enumerate(items)
                for part in ((d, item) if index else (item,))
            )
        )
    )


def _check(size: int) -> None:
    if size > LONGEST:
        raise BoundError(
            f"it makes a text or list of more than {LONGEST:,} characters or elements"
        )


def _check_bits(bits: int) -> None:
    if bits > _BITS:
        raise BoundError(f"it makes a number of more than {_BITS:,} bits")


def _made(value: Any) -> Any:
    """Return a value that an expression made, if it is not too large."""
    if isinstance(value, int) and not isinstance(value, bool):
        _check_bits(value.bit_length())
    elif isinstance(value, str | bytes | list | tuple | dict):
        _check(len(value))
        _spend(1 + len(value) // _PER_STEP)
    return value


def _items(value: Iterable[Any]) -> list[Any]:
    """Return what a loop goes through; each element is a step."""
    items = []
    for item in value:
        _spend(1)
        items.append(item)
    return items


def _check_size(name: str, values: list[Any]) -> None:
    """Check the size of what a call will make, before it does.

    Args:
        name: The name of the filter, method or function.
        values: What it is applied to, then its arguments.

    Raises:
        BoundError: If the result could be too large.
    """
    # Sizes are estimated before the call, because afterwards the memory is already used.
    sizes = [_size(value) for value in values]
    number = max((abs(value) for value in values if isinstance(value, int)), default=0)
    _check(number * max(1, *sizes) if name in _PADDED else number)
    if name in _SUBSTITUTED:
        _check(max(sizes) * max(sizes[1:], default=0))
    elif name in ("join", "sum"):
        _check((sizes[0] + 1) * max(sizes) if name == "join" else max(sizes))
    elif name in _FORMATTED and isinstance(values[0], str):
        if _WIDE.search(values[0]):
            raise BoundError(
                "it formats a value with a width of more than 999,999, or with one that is a value"
            )
        _check(
            len(values[0]) * max(sizes[1:], default=0)
            if len(values[0]) > _PER_STEP
            else max(sizes)
        )


def _size(value: Any) -> int:
    """Return the characters or elements of a value, and of the values in it."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(
            _size(part)
            for part in chain(value.keys(), value.values())
            if isinstance(part, Sized)
        ) + len(value)
    if isinstance(value, list | tuple):
        return sum(len(part) for part in value if isinstance(part, Sized)) + len(value)
    return 0


def _filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)  # also copies whether Jinja passes the environment or the context
    def checked(*args: Any, **named: Any) -> Any:
        passed = args[1:] if hasattr(function, "jinja_pass_arg") else args
        _check_size(name, [*passed, *named.values()])
        return _made(function(*args, **named))

    return checked


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with bounds on loops, calls, operators, filters and output; see `bounded`."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})
    concat = staticmethod(joined)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # It makes long random texts.
        del self.globals["lipsum"]
        self.filters = {
            name: _filter(name, function) for name, function in self.filters.items()
        }
        self.filters |= {"join": _join, "bounded items": _items, "bounded value": _made}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator, if it is not too large."""
        if operator == "*":
            count, value = (left, right) if isinstance(left, int) else (right, left)
            if isinstance(count, int) and isinstance(value, int):
                _check_bits(count.bit_length() + value.bit_length())
            elif isinstance(count, int) and isinstance(value, Sized):
                _check(count * len(value))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() * abs(right))
        elif operator == "%" and isinstance(left, str):
            _check_size(operator, [left, right])
        return _made(super().call_binop(context, operator, left, right))

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a call, if it is not too large; each call is a step."""
        _spend(_PER_CALL)
        # `loop(...)` is recursion over more items: they are counted, too.
        if isinstance(obj, LoopContext):
            args = tuple(map(_items, args))
        owner = getattr(
            getattr(obj, "__wrapped__", obj), "__self__", None
        )  # Jinja wraps the method format
        if isinstance(owner, str | bytes | int):
            _check_size(
                obj.__name__,
                [owner if not isinstance(owner, int) else "", *args, *kwargs.values()],
            )
        return _made(super().call(context, obj, *args, **kwargs))

    def _generate(self, source: nodes.Template, *args: Any, **settings: Any) -> str:
        # The syntax tree is changed before it is compiled: every loop goes through a counter.
        for loop in source.find_all(nodes.For):
            loop.iter = nodes.Filter(
                loop.iter, "bounded items", [], [], None, None, lineno=loop.lineno
            )
        _replace_concats(source)
        source.set_environment(self)
        return super()._generate(source, *args, **settings)


def _replace_concats(node: nodes.Node) -> None:
    """Check the text that each `~` makes."""
    for field, value in node.iter_fields():
        if isinstance(value, list):
            setattr(node, field, [_checked(element) for element in value])
        else:
            setattr(node, field, _checked(value))


def _checked(value: Any) -> Any:
    if isinstance(value, nodes.Node):
        _replace_concats(value)
        if isinstance(value, nodes.Concat):
            return nodes.Filter(
                value, "bounded value", [], [], None, None, lineno=value.lineno
            )
    return value
