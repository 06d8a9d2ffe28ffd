"""Read a template from the file of its authors, word for word, and convert it to Jinja."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter

from evalkit.config import SourceConfig
from evalkit.core.errors import PromptError, did_you_mean
from evalkit.core.regular_files import read_text


def foreign_template(path: Path, source: SourceConfig) -> str:
    """Return the Jinja template that fills a third-party template with the same text as
    its authors' code.

    A Python file is parsed and never run: texts and f-strings that are assigned to names are
    templates of `str.format`. Any other file is one such template, which has an empty name.

    Args:
        path: The file of the authors.
        source: Which texts of the file to use, and under which conditions; its URL is in errors.

    Raises:
        PromptError: If the file cannot be read, or has no such text.
    """
    where = f"prompt.template '{path}'"
    remedy = f"get it from {source.url}"
    try:
        text = read_text(path)
        texts = _texts(ast.parse(text)) if path.suffix == ".py" else {"": [text]}
        jinja = []
        for names in (*source.when.values(), source.text):
            parts = [
                "".join(_jinja_parts(texts, source.fields, name)) for name in names
            ]
            # The line break between texts is a value, so that no setting of Jinja trims it.
            jinja.append("{{ '\\n' }}".join(parts))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise PromptError(
            f"cannot be read ({error})", where=where, remedy=remedy
        ) from None
    except LookupError as error:
        remedy = f"{did_you_mean(str(error.args[0]), texts)}; {remedy}"
        raise PromptError(
            f"has no text named '{error.args[0]}'", where=where, remedy=remedy
        ) from None
    # One text for each field of `when`, in order, and the last one without any of them.
    *alternatives, otherwise = jinja
    branches = [
        f"{{% if {field} %}}{alternative}{{% else %}}"
        for field, alternative in zip(source.when, alternatives, strict=True)
    ]
    return "".join([*branches, otherwise, *["{% endif %}"] * len(branches)])


def _texts(tree: ast.AST) -> dict[str, list[str]]:
    """Return the texts assigned to each name, in order; the name of an f-string's value
    is its placeholder.
    """
    texts: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        text = _literal_text(node.value)
        if text is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = ast.unparse(target)
        texts.setdefault(name, []).append(text)
    return texts


def _literal_text(value: ast.expr | None) -> str | None:
    """Return the text of a literal, with the placeholders of an f-string; `None` for other code."""
    if isinstance(value, ast.JoinedStr):
        # The same text without its f, so with its placeholders.
        return str(ast.literal_eval(ast.unparse(value)[1:]))
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "strip"
    ):
        return (_literal_text(value.func.value) or "").strip() or None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return None


def _jinja_parts(
    texts: Mapping[str, Sequence[str]],
    fields: Mapping[str, str],
    name: str,
    within: tuple[str, ...] = (),
) -> Iterator[str]:
    """Yield the parts of a text as Jinja: literals and placeholders, texts within it resolved.

    Args:
        texts: All texts of the file, by name; several of a name are `name[0]`, `name[1]`, ….
        fields: The names of placeholders here, by their names in the file.
        name: The text to convert.
        within: The names of the texts around it: one that contains itself would never end.

    Raises:
        LookupError: If there is no such text, or it contains itself.
    """
    bare, _, number = name.rstrip("]").partition("[")
    index = int(number or 0)
    if name in within or bare not in texts or index >= len(texts[bare]):
        raise LookupError(name)
    for literal, field, _, _ in Formatter().parse(texts[bare][index]):
        if literal:
            yield f"{{{{ {literal!a} }}}}"
        value = fields.get(field or "", field)
        if value is None:
            continue
        if value.partition("[")[0] in texts:
            yield from _jinja_parts(texts, fields, value, (*within, name))
        else:
            yield f"{{{{ {value} }}}}"
