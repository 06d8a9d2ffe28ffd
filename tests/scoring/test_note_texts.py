"""Notes of metrics: each part of a note in the code is in the catalog of notes, and found again with its arguments."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from evalkit.core.translation import in_every_language
from evalkit.report.texts import NOTES, note_text

ROOT = Path(__file__).parents[2] / "evalkit"
FOLDERS = ("scoring", "benchmarks", "engine", "serving")
FILES = sorted(chain.from_iterable((ROOT / name).rglob("*.py") for name in FOLDERS))
NOTED = (
    *(*FOLDERS[:2], "config", "datasets", "interop", "audit", "runs"),
    *("workflows/holdout.py", "workflows/import_run.py", "workflows/run.py"),
)
"""Modules that write the notes of a run, its data and its import."""
REASONS = ("BudgetReached", "self.sender.give_up")
"""Calls with a reason why requests were not sent."""
COUNTED = re.compile(r": \{\}( of \{\}| \(first: \{\}\))?$")
"""The end of a note that counts what its beginning names; each has a pattern of its own."""
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
            parts = [
                one.value if isinstance(one, ast.Constant) else known(one, scopes, seen)
                for one in values
            ]
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
        case (
            ast.Name(id=name)
            | ast.Call(func=ast.Name(id=name))
            | ast.Attribute(value=ast.Name(id="self"), attr=name)
        ):
            if name not in seen:
                for value in scopes.get(name, []):
                    yield from texts_in(value, scopes, seen | {name})
        case ast.Starred(value=value):
            yield from texts_in(value, scopes, seen)


def known(node: ast.AST, scopes: dict[str, list[ast.AST]], seen: frozenset[str]) -> str:
    """Return the text of an argument that is one of the module's constants, otherwise the mark of an argument."""
    name = (
        node.value.id
        if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name)
        else ""
    )
    found = (
        list(texts_in(node.value, scopes, seen))
        if isinstance(node, ast.FormattedValue) and name.isupper()
        else []
    )
    return found[0] if found else ARGUMENT


def name_of(node: ast.expr) -> str:
    """Return a name with its attributes as it is written, which `ast.unparse` takes long for."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{name_of(value)}.{attr}"
        case ast.Subscript():
            return ast.unparse(node)
    return ""


def notes_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each note of a metric in a module, with a mark for each argument."""
    nodes, scopes = parsed(path)
    for node in nodes:
        if isinstance(node, ast.Call) and name_of(node.func) in REASONS:
            yield from ((node.lineno, text) for text in texts_in(node.args[0], scopes))
        kept = "why" if path.name == "watch.py" else "self._stopped"
        if isinstance(node, ast.Assign) and name_of(node.targets[0]) == kept:
            yield from ((node.lineno, text) for text in texts_in(node.value, scopes))
        if isinstance(node, ast.Call) and name_of(node.func) not in ("Benchmark", "ParsedFile"):
            for keyword in node.keywords:
                if keyword.arg in ("note", "why"):
                    yield from ((node.lineno, text) for text in texts_in(keyword.value, scopes))


def run_notes_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each note of a run in a module: counted, added to a list, passed or returned."""
    nodes, scopes = parsed(path)
    found: list[ast.expr | None] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            if re.search(r"(tally|_by_file)\.add$|(notes|extra)\.append$", name_of(node.func)):
                found += node.args[:1]
            found += [keyword.value for keyword in node.keywords if keyword.arg == "notes"]
        elif isinstance(node, ast.FunctionDef) and "note" in node.name:
            inside = [*ast.walk(node)]
            found += [one.value for one in inside if isinstance(one, ast.Yield | ast.Return)]
            found += [
                one.args[0]
                for one in inside
                if isinstance(one, ast.Call) and name_of(one.func) == "found.append"
            ]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if re.fullmatch(r"notes?|extra|notes\[.*|tally\[.*|.*left_out\[.*", name_of(target)):
                found.append(node.value)
                if isinstance(target, ast.Subscript):
                    found.append(target.slice)
    for value in found:
        yield from (
            (value.lineno, text) for text in texts_in(value, scopes) if " " in text.strip(" :;")
        )


@cache
def parsed(path: Path) -> tuple[list[ast.AST], dict[str, list[ast.AST]]]:
    """Return the nodes of a module, and what its names and functions can be."""
    nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
    scopes: dict[str, list[ast.AST]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    scopes.setdefault(target.id, []).append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=True):
                        scopes.setdefault(getattr(name, "id", ""), []).append(value)
        elif isinstance(node, ast.FunctionDef):
            values = [
                one.value
                for one in ast.walk(node)
                if isinstance(one, ast.Return) and one.value is not None
            ]
            scopes.setdefault(node.name, []).extend(values)
    return nodes, scopes


@pytest.mark.slow
def test_every_note_in_the_code_is_in_the_catalog():
    assert unknown((path, *note) for path in FILES for note in notes_in(path)) == [], ADD


@pytest.mark.slow
def test_every_note_of_a_run_is_in_the_catalog():
    files = [
        path
        for name in NOTED
        for path in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))
    ]
    assert len(files) > 100
    assert unknown((path, *note) for path in sorted(files) for note in run_notes_in(path)) == [], (
        ADD
    )


ADD = "add these to evalkit/report/notes.txt, and their translations"


def unknown(notes: Iterable[tuple[Path, int, str]]) -> list[str]:
    """Return the parts of notes that have no translation, with their place."""
    found, own = (
        [],
        {known for known in TEMPLATES if not COUNTED.fullmatch(known.removeprefix("{}"))},
    )
    for path, line, text in notes:
        for part in filter(None, text.split("; ")):
            template = re.sub(r"\{:?[^}]*\}", "{}", part.replace(ARGUMENT, "{}"))
            forms = {
                template,
                COUNTED.sub("", template),
                template.removesuffix(": "),
                f"{template}, omitted",
            }
            if not (
                forms & own
                or any(fits(form, known) or fits(known, form) for form in forms for known in own)
            ):
                found.append(f"{path.relative_to(ROOT)}:{line}: {template}")
    return found


@cache
def pattern(known: str) -> re.Pattern[str]:
    return re.compile(re.escape(known).replace(r"\{\}", r"[^;]*"))


def fits(template: str, known: str) -> bool:
    return pattern(known).fullmatch(template) is not None


def test_every_note_of_the_catalog_is_in_the_code():
    code = "\n".join(path.read_text("utf-8") for path in sorted(ROOT.rglob("*.py")))
    longest = {known: max(known.split("{}"), key=len).strip(" ',(:") for known in TEMPLATES}
    # The first or last words of some are arguments in the code, such as "one {unit}: no interval".
    assert [
        known for known, part in longest.items() if part[-12:] not in code and part[:12] not in code
    ] == []


def test_each_note_is_found_with_its_arguments_in_both_languages():
    for text in NOTES:
        _assert_translated(text.message)


def _assert_translated(text: str) -> None:
    names = re.findall(r"\{(\w+)\}", text)
    words = {
        "units": "cases",
        "state": "invalidated",
        "what": "pairs",
    }
    values = {name: words.get(name, f"{k}7") for k, name in enumerate(names, 1)}
    english, chinese = in_every_language(note_text(text.format(**values)))
    assert english == text.format(**values), text
    assert re.search(r"[\u4e00-\u9fff]", chinese), text
    assert all((value in chinese) == (name not in words) for name, value in values.items()), text
    assert not re.search(r"[\u4e00-\u9fff，：；（）] [\u4e00-\u9fff，：；（）]", chinese), (
        f"no spaces between Chinese words: {chinese}"
    )


def test_several_parts_are_translated_one_by_one_and_unknown_ones_stay():
    note = "no response has a score; a remark of a plug-in; no label is 'cases'; "
    english, chinese = in_every_language(note_text(note))
    assert english == note.removesuffix("; ")
    assert chinese == "没有回答有分数；a remark of a plug-in；没有标注为“cases”"
    assert in_every_language(note_text("")) == ("", "")


def test_counts_and_places_of_what_a_note_names():
    same = in_every_language(
        note_text("cases with two identical responses: 3 (first: data.jsonl:7)")
    )[1]
    assert same == "两个回答完全相同的样本：3（首见于 data.jsonl:7）"
    dropped = in_every_language(note_text("rows dropped by dataset.filter: 1,204 of 4,000"))[1]
    assert dropped == "被 dataset.filter 舍弃的行：4,000 中的 1,204"
    assert in_every_language(note_text("a plug-in: counts"))[1] == "a plug-in: counts"


def test_the_rule_for_criteria_that_cancel_out_is_in_chinese():
    note = "scoring.aggregate=auto: verdicts are the weighted mean of the winners by criterion (accuracy 0.5)"
    _, chinese = in_every_language(
        note_text(f"{note}; where they cancel out, the judge's overall winner")
    )
    assert chinese.endswith("（accuracy 0.5）；相互抵消时取裁判给出的总体胜者")


def test_a_note_of_any_length_is_read_at_once():
    note = "1 labels and " * 40_000
    assert in_every_language(note_text(note)) == (note, note)
