"""Docstrings: what they name is there, and each belongs to what stands above it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {
    path.relative_to(ROOT): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "evalkit").rglob("*.py"))
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _section(docstring: str, title: str) -> list[str]:
    """Return the names that a section of a docstring describes."""
    match = re.search(rf"^{title}:\n((?: {{4}}.*\n?|\n)*)", docstring, re.MULTILINE)
    if match is None:
        return []
    return re.findall(r"^ {4}\*{0,2}(\w+):", match[1], re.MULTILINE)


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for path, module in MODULES.items():
        for node in ast.walk(module):
            if isinstance(node, FUNCTIONS):
                docstring = ast.get_docstring(node) or ""
                yield f"{path}:{node.lineno}", node, docstring


def _names() -> set[str]:
    """Return the names of classes that modules define or import."""
    names = {*dir(builtins)}
    for module in MODULES.values():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_each_error_of_a_docstring_is_a_class():
    # Two of other libraries, which no module imports by name.
    names = _names() | {"CancelledError", "OperationalError"}
    unknown = [
        f"{location} {name}"
        for location, _, docstring in _functions()
        for name in _section(docstring, "Raises")
        if name not in names
    ]
    assert unknown == []


def test_each_argument_of_a_docstring_is_a_parameter():
    unknown = []
    for location, function, docstring in _functions():
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        parameters = {parameter.arg for parameter in every}
        names = _section(docstring, "Args")
        unknown += [f"{location} {name}" for name in names if name not in parameters]
    assert unknown == []


def _is_text(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def test_each_text_below_a_name_is_its_only_one():
    """Two in a row are one that moved away from its name."""
    stray = []
    for path, module in MODULES.items():
        bodies = [module.body]
        bodies += [node.body for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
        bodies += [node.body for node in ast.walk(module) if isinstance(node, FUNCTIONS)]
        for body in bodies:
            for before, node in pairwise(body):
                has_name = isinstance(before, (ast.Assign, ast.AnnAssign))
                if _is_text(node) and not has_name:
                    stray.append(f"{path}:{node.lineno}")
    assert stray == []
