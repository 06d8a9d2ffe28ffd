"""Notes of metrics: each part of a note in the code is in the catalog of notes, and found again with its arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from evalkit.core.translation import in_every_language
from evalkit.report.texts import NOTES, note_text

ROOT = Path(__file__).parents[2] / "evalkit"
FOLDERS = ("scoring", "benchmarks", "engine", "batch", "serving")
FILES = sorted(chain.from_iterable((ROOT / name).rglob("*.py") for name in FOLDERS))
REASONS = ("BudgetReached", "self.sender.give_up")
"""Calls with a reason why requests were not sent."""
TEMPLATES = {re.sub(r"\{\w+\}", "{}", text.message) for text in NOTES}
ARGUMENT = "\x00"


def texts_in(
    node: ast.AST | None, scopes: dict[str, list[ast.AST]], seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield the texts that an expression can be, through names and functions of its module."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            parts = [one.value if isinstance(one, ast.Constant) else known(one, scopes, seen) for one in values]
            yield "".join(map(str, parts))
        case ast.IfExp(body=body, orelse=orelse):
            yield from chain(texts_in(body, scopes, seen), texts_in(orelse, scopes, seen))
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            for value in values:
                yield from texts_in(value, scopes, seen)
        case ast.BinOp(left=left, right=right):
            yield from chain(texts_in(left, scopes, seen), texts_in(right, scopes, seen))
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            for text in texts_in(value, scopes, seen):
                yield text.replace("{}", ARGUMENT)
        case ast.Call(func=ast.Attribute(attr="join"), args=[argument]):
            yield from texts_in(argument, scopes, seen)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            if name not in seen:
                for value in scopes.get(name, []):
                    yield from texts_in(value, scopes, seen | {name})
        case ast.Starred(value=value):
            yield from texts_in(value, scopes, seen)


def known(node: ast.AST, scopes: dict[str, list[ast.AST]], seen: frozenset[str]) -> str:
    """Return the text of an argument that is one of the module's constants, otherwise the mark of an argument."""
    name = node.value.id if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name) else ""
    found = list(texts_in(node.value, scopes, seen)) if isinstance(node, ast.FormattedValue) and name.isupper() else []
    return found[0] if found else ARGUMENT


def notes_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each note of a metric in a module, with a mark for each argument."""
    tree = ast.parse(path.read_text("utf-8"))
    scopes: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    scopes.setdefault(target.id, []).append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=True):
                        scopes.setdefault(getattr(name, "id", ""), []).append(value)
        elif isinstance(node, ast.FunctionDef):
            values = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
            scopes.setdefault(node.name, []).extend(values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in REASONS:
            yield from ((node.lineno, text) for text in texts_in(node.args[0], scopes))
        kept = "why" if path.name == "watch.py" else "self._stopped"
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == kept:
            yield from ((node.lineno, text) for text in texts_in(node.value, scopes))
        if isinstance(node, ast.Call) and ast.unparse(node.func) not in ("Benchmark", "ParsedFile"):
            for keyword in node.keywords:
                if keyword.arg in ("note", "why"):
                    yield from ((node.lineno, text) for text in texts_in(keyword.value, scopes))


def test_every_note_in_the_code_is_in_the_catalog() -> None:
    missing = []
    for path in FILES:
        for line, text in notes_in(path):
            for part in filter(None, text.split("; ")):
                template = part.replace(ARGUMENT, "{}")
                if not any(fits(template, known) or fits(known, template) for known in TEMPLATES):
                    missing.append(f"{path.relative_to(ROOT)}:{line}: {template}")
    assert missing == [], "add these to evalkit/report/texts.py"


@cache
def pattern(known: str) -> re.Pattern[str]:
    return re.compile(re.escape(known).replace(r"\{\}", r"[^;]*"))


def fits(template: str, known: str) -> bool:
    return pattern(known).fullmatch(template) is not None


def test_every_note_of_the_catalog_is_in_the_code() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py")) if path.name != "notes.py"]
    constants = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    code = "\n".join(text for text in constants if isinstance(text, str))
    longest = {known: max(known.split("{}"), key=len).strip(" ',(:") for known in TEMPLATES}
    # The first words of some are arguments in the code, such as "one {unit}: no interval".
    assert [known for known, part in longest.items() if part[-12:] not in code] == []


@pytest.mark.parametrize("text", [text.message for text in NOTES])
def test_a_note_is_found_with_its_arguments_in_both_languages(text: str) -> None:
    names = re.findall(r"\{(\w+)\}", text)
    words = {"units": "cases", "effect": "cases × orders", "facet": "order"}
    values = {name: words.get(name, f"{k}7") for k, name in enumerate(names, 1)}
    english, chinese = in_every_language(note_text(text.format(**values)))
    assert english == text.format(**values)
    assert re.search(r"[\u4e00-\u9fff]", chinese)
    assert all((value in chinese) == (name not in words) for name, value in values.items())


def test_several_parts_are_translated_one_by_one_and_unknown_ones_stay() -> None:
    note = "no response has a score; a remark of a plug-in; no label is 'cases'; "
    english, chinese = in_every_language(note_text(note))
    assert english == note.removesuffix("; ")
    assert chinese == "没有回答有分数；a remark of a plug-in；没有标注为“cases”"
    assert in_every_language(note_text("")) == ("", "")


def test_the_rule_for_criteria_that_cancel_out_is_in_chinese() -> None:
    note = "scoring.aggregate=auto: verdicts are the weighted mean of the winners by criterion (accuracy 0.5)"
    _, chinese = in_every_language(note_text(f"{note}; where they cancel out, the judge's overall winner"))
    assert chinese.endswith("（accuracy 0.5）；相互抵消时取裁判给出的总体胜者")


def test_a_note_of_any_length_is_read_at_once() -> None:
    note = "1 labels and " * 40_000
    assert in_every_language(note_text(note)) == (note, note)
