"""`evalkit docs`: the guides and the reference of this version, as pages on this machine."""

from __future__ import annotations

import json
import re
import shutil
import webbrowser
from argparse import Namespace
from html import escape
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from platformdirs import user_cache_path

from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.resources import own_version, shipped

FIRST: Final = "index"
WORDS: Final = "words.js"
"""The words of all pages: one file, because a page that is opened as a file cannot fetch others."""
SECTIONS: Final = (
    "",
    "start",
    "guides",
    "concepts",
    "reference",
    "zh",
    "contributing",
    "decisions",
)
"""The folders of pages, in the order of the list on each page."""
OMITTED: Final = ("changelog", "reference/python")
"""Pages that only the site can show, because they are generated when it is built."""
_GENERATED: Final = re.compile(r"(?m)^(:::|--8<--).*$")
_TERM: Final = re.compile(r"(?m)^(\S.*)\n:   (.+)$")
_PAGE_LINK: Final = re.compile(r'href="([^":#]+)\.(?:md|ipynb)(#[^"]*)?"')
_HEADING: Final = re.compile(r"<h([1-4])>(.*?)</h\1>")
_STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0; font: 16px/1.6 system-ui, "Noto Sans CJK SC", sans-serif; display: flex; }
nav { width: 17rem; flex: none; padding: 1rem; font-size: .85rem; height: 100vh;
  box-sizing: border-box; overflow: auto; position: sticky; top: 0; background: #8881; }
nav b { display: block; margin-top: .8rem; }
nav a { display: block; color: inherit; text-decoration: none; padding: .1rem .4rem; }
nav a[hidden] { display: none; }
nav a.here { background: #8883; border-radius: 4px; }
nav input { width: 100%; box-sizing: border-box; font: inherit; }
main { max-width: 52rem; padding: 1rem 2rem 4rem; min-width: 0; }
pre { overflow: auto; padding: .8rem; background: #8882; border-radius: 4px; }
code { font-size: .88em; }
table { border-collapse: collapse; display: block; overflow: auto; }
td, th { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
dl { margin: .8rem 0; }
img { max-width: 100%; }
@media (max-width: 700px) {
  body { display: block; }
  nav { width: auto; height: auto; max-height: 40vh; position: static; }
  main { padding: 1rem; }
}
"""
_FILTER: Final = """
const box = document.querySelector("nav input");
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/);
  for (const link of document.querySelectorAll("nav a")) {
    const text = (link.textContent + " " + evalkitWords[link.dataset.page]).toLowerCase();
    link.hidden = !words.every((word) => text.includes(word));
  }
});
"""


def main(arguments: Namespace) -> int:
    """Write the pages, open one in the browser, and print where it is.

    Raises:
        ConfigError: if there is no such page, or the folder cannot be written.
    """
    pages = _pages()
    page = _find_page(arguments.page, pages)
    folder: Path = arguments.output or _cache_folder()
    with file_errors("cannot be written"):
        _write_pages(pages, folder)
    target = folder / f"{page}.html"
    print(target)
    if not arguments.no_browser:
        webbrowser.open(target.resolve().as_uri())
    return 0


def _cache_folder() -> Path:
    return user_cache_path("evalkit") / "docs" / str(own_version())


def _pages() -> dict[str, str]:
    """Return the Markdown text of each page by its path without a suffix."""
    root = shipped("docs")
    pages: dict[str, str] = {}
    for section in SECTIONS:
        for file in sorted((root / section).glob("*.md")):
            name = file.relative_to(root).with_suffix("").as_posix()
            if name not in OMITTED:
                pages[name] = file.read_text("utf-8")
    return pages


def _find_page(words: str | None, pages: dict[str, str]) -> str:
    """Return the path of the page that a user names by its path or by the last part of it; the
    first page without a name.

    Args:
        words: What the user wrote, with or without `.md`.
        pages: The pages by path.

    Raises:
        ConfigError: if no page has this name.
    """
    if words is None:
        return FIRST
    wanted_name = words.removesuffix(".md").strip("/")
    names = [
        name
        for name in pages
        if wanted_name in (name, name.rpartition("/")[2])
        # A translation is named by its path only.
        and (name == wanted_name or not name.startswith("zh/"))
    ]
    if not names:
        last_parts = [name.rpartition("/")[2] for name in pages]
        remedy = did_you_mean(wanted_name, last_parts)
        raise ConfigError("no such page", where=words, remedy=remedy)
    return names[0]


def _write_pages(pages: dict[str, str], folder: Path) -> None:
    """Write each page as HTML, with links to the others, and copy their images."""
    titles = {name: _title(name, text) for name, text in pages.items()}
    markdown = MarkdownIt("commonmark").enable("table")
    for name, text in pages.items():
        # Pages are opened as files, so every link is relative.
        depth = name.count("/")
        # Lines that only the site's builder understands are dropped.
        body = markdown.render(_with_terms(_GENERATED.sub("", text), markdown))
        body = _HEADING.sub(_with_anchor, _PAGE_LINK.sub(_page_link, body))
        html = (
            f'<!doctype html><html lang="{"zh" if name.startswith("zh/") else "en"}">'
            '<meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(titles[name])} - evalkit</title><style>{_STYLE}</style>"
            f"<nav>{_navigation(titles, name, '../' * depth)}</nav><main>{body}</main>"
            f'<script src="{"../" * depth}{WORDS}"></script><script>{_FILTER}</script></html>'
        )
        write_file(folder / f"{name}.html", [html.encode()])
    words = {name: _words(text) for name, text in pages.items()}
    script = f"const evalkitWords = {json.dumps(words, ensure_ascii=False)};"
    write_file(folder / WORDS, [script.encode()])
    shutil.copytree(shipped("docs") / "images", folder / "images", dirs_exist_ok=True)


def _title(name: str, text: str) -> str:
    heading = re.search(r"(?m)^# (.+)$", text)
    if heading is None:
        return name
    return heading[1].replace("`", "")


def _words(text: str) -> str:
    """Return the different words of a page, for the search."""
    return " ".join(sorted(set(re.findall(r"[\w./=-]+", text.lower()))))


def _with_terms(text: str, markdown: MarkdownIt) -> str:
    """Return a text whose terms, each with its meaning after a colon on the next line, are HTML."""

    def with_meaning(match: re.Match[str]) -> str:
        term, meaning = map(markdown.renderInline, match.groups())
        return f"<dl><dt>{term}</dt><dd>{meaning}</dd></dl>"

    return _TERM.sub(with_meaning, text)


def _navigation(titles: dict[str, str], current: str, to_root: str) -> str:
    """Return the links to all pages by section, as seen from the current one."""
    parts = ['<input type="search" placeholder="Find a page" aria-label="Find a page">']
    section = ""
    for name, title in titles.items():
        page_section = name.rpartition("/")[0]
        if page_section != section:
            section = page_section
            parts.append(f"<b>{escape(section)}</b>")
        marker = ' class="here"' if name == current else ""
        parts.append(
            f'<a{marker} href="{to_root}{name}.html" data-page="{name}">{escape(title)}</a>'
        )
    return "".join(parts)


def _with_anchor(match: re.Match[str]) -> str:
    level, title = match.groups()
    words = re.sub(r"<[^>]+>|[^\w\s-]", "", title).strip().lower()
    anchor = re.sub(r"[\s-]+", "-", words)
    return f'<h{level} id="{anchor}">{title}</h{level}>'


def _page_link(match: re.Match[str]) -> str:
    return f'href="{match[1]}.html{match[2] or ""}"'
