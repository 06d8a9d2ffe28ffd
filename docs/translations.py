"""Collect the texts of reports into evalkit/locale/*/LC_MESSAGES/evalkit.po, and
compile it to evalkit.mo.

Run `python docs/translations.py` after a text has changed, translate what is new in the .po file if
you can, and run it again. A text without a translation is shown in English.
"""

from __future__ import annotations

import ast
import sys
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from evalkit.core.benchmark_discovery import own_benchmarks
from evalkit.report.texts import NOTES, all_texts
from evalkit.scoring.catalog import HEADINGS, SHORT_TITLES, full_catalog

FUNCTIONS = ("gettext", "ngettext", "pgettext")
NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)  # the same file from the same texts
ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "evalkit" / "locale").glob("*/LC_MESSAGES/evalkit.po"))
HEADER = """# Texts of evalkit's reports. docs/translations.py collects them and compiles this file.
msgid ""
msgstr ""
"Language: {language}\\n"
"Plural-Forms: {plural_forms}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


def template() -> Catalog:
    """Return the texts of the code, report/*/*.toml, notes, headings and titles of
    metrics, and benchmarks.
    """
    found = Catalog(project="evalkit")
    for path in sorted((ROOT / "evalkit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in FUNCTIONS
            ):
                texts = [
                    one.value
                    for one in node.args
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                ]
                _add(found, node.func.id, texts)
    for text in (*all_texts(), *NOTES, *HEADINGS.values()):
        found.add(
            text.message if text.plural is None else (text.message, text.plural),
            context=text.context,
        )
    for title in SHORT_TITLES.values():
        found.add(title, context="column")
    for row in full_catalog().rows:
        found.add(row.title)
    for benchmark in own_benchmarks().values():
        words, substitute = (
            getattr(benchmark, "words", {}),
            getattr(benchmark, "substitute", None),
        )
        for text in (*words.values(), *(substitute or ())[1:]):
            found.add(text.message)
    return found


def _add(found: Catalog, function: str, texts: list[str]) -> None:
    if function == "pgettext" and len(texts) == 2:
        found.add(texts[1], context=texts[0])
    elif function == "ngettext" and len(texts) == 2:
        found.add((texts[0], texts[1]))
    elif function == "gettext" and len(texts) == 1:
        found.add(texts[0])


def updated(path: Path) -> Catalog:
    """Return a file of translations with the texts there are now, in their order."""
    with path.open("rb") as file:
        old = read_po(file, locale=path.parts[-3], domain="evalkit")
    new = Catalog(
        locale=old.locale,
        domain="evalkit",
        project="evalkit",
        creation_date=NO_DATE,
        revision_date=NO_DATE,
    )
    new.fuzzy = False
    for message in template():
        if message.id:
            known = old.get(message.id, message.context)
            new.add(
                message.id, known.string if known else None, context=message.context
            )
    return new


def as_po(catalog: Catalog) -> bytes:
    """Return a catalog as the text of a .po file."""
    written = BytesIO()
    write_po(written, catalog, width=120, no_location=True, omit_header=True)
    header = HEADER.format(language=catalog.locale, plural_forms=catalog.plural_forms)
    return header.encode() + written.getvalue()


def as_mo(catalog: Catalog) -> bytes:
    """Return a catalog as gettext reads it."""
    written = BytesIO()
    write_mo(written, catalog)
    return written.getvalue()


def untranslated(catalog: Catalog) -> list[str]:
    """Return the texts without a translation, in the singular or in the plural."""
    texts = [
        (
            message.id,
            [message.string] if isinstance(message.string, str) else message.string,
        )
        for message in catalog
    ]
    return [str(name) for name, strings in texts if name and not all(strings or [""])]


if __name__ == "__main__":
    for path in FILES:
        catalog = updated(path)
        path.write_bytes(as_po(catalog))
        path.with_suffix(".mo").write_bytes(as_mo(catalog))
        lines = [f"{path.parts[-3]}: {len(catalog)} texts", *untranslated(catalog)]
        sys.stdout.write("\n  without translation: ".join(lines) + "\n")
