"""Code has air: few tokens a line, no function of several pages, one statement for one idea."""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "",  # the modules of no package
    *sorted(path.parent.name for path in (ROOT / "evalkit").glob("*/__init__.py")),
]
TOKENS_PER_LINE = 9.5
SMALLEST = 300  # tokens of a module whose mean says something
LINES_OF_FUNCTION = 80
LINES_OF_MODULE = 700
WITHOUT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


@cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    source = path.read_text("utf-8")
    return source, ast.parse(source)


def modules(package: str) -> list[Path]:
    folder = ROOT / "evalkit" / package
    return sorted(folder.rglob("*.py") if package else folder.glob("*.py"))


def is_text(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, of a module, function or value."""
    return isinstance(statement, ast.Expr) and isinstance(
        getattr(statement.value, "value", None), str
    )


def lines_without_code(tree: ast.Module) -> set[int]:
    """Return the lines of docstrings and imports."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if is_text(statement) or isinstance(statement, ast.Import | ast.ImportFrom):
                lines |= {*range(statement.lineno, statement.end_lineno + 1)}
    return lines


def tokens_per_line(source: str, tree: ast.Module) -> float:
    """Return the tokens of a line of code; 0 for a module with little code."""
    skipped = lines_without_code(tree)
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in WITHOUT_CODE and token.start[0] not in skipped
    ]
    if len(tokens) < SMALLEST:
        return 0.0
    lines = {
        number
        for number, line in enumerate(source.splitlines(), 1)
        if number not in skipped and line.strip() and not line.strip().startswith("#")
    }
    return len(tokens) / len(lines)


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the name of each function and its lines without the docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            first = node.body[0]
            if is_text(first):
                length -= first.end_lineno - first.lineno + 1
            yield node.name, length


def has_packed_assignment(tree: ast.Module) -> bool:
    """Return whether a statement assigns several computed values to several names."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Tuple)
            and isinstance(node.targets[0], ast.Tuple)
            and not all(isinstance(value, ast.Name | ast.Constant) for value in node.value.elts)
        ):
            return True
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_lines_have_few_tokens(package):
    dense = {
        str(path.relative_to(ROOT)): round(density, 2)
        for path in modules(package)
        if (density := tokens_per_line(*parsed(path))) > TOKENS_PER_LINE
    }
    assert not dense, f"name intermediate values; at most {TOKENS_PER_LINE} tokens a line"


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_and_modules_are_short(package):
    long = {}
    for path in modules(package):
        source, tree = parsed(path)
        name = str(path.relative_to(ROOT))
        if len(source.splitlines()) > LINES_OF_MODULE:
            long[name] = len(source.splitlines())
        for function, length in functions(tree):
            if length > LINES_OF_FUNCTION:
                long[name, function] = length
    assert not long, "make each step a function"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_statement_assigns_one_value(package):
    names = [path for path in modules(package) if has_packed_assignment(parsed(path)[1])]
    assert not names, "one statement, one idea"


def test_what_is_counted():
    dense = "f(a, b, c)\n" * 100
    assert tokens_per_line(dense, ast.parse(dense)) == 8
    documented = f'"""Text\nof lines."""\nimport os\n{dense}'
    assert tokens_per_line(documented, ast.parse(documented)) == 8
    few = "f(a, b, c)\n" * 10
    assert tokens_per_line(few, ast.parse(few)) == 0
    short = 'def f():\n    """Text\n    of lines."""\n    return 1\n'
    assert [*functions(ast.parse(short))] == [("f", 2)]
    assert has_packed_assignment(ast.parse("a, b = f(), 1"))
    assert not has_packed_assignment(ast.parse("a, b = b, a"))
