"""What a golden run wrote, as texts that do not depend on time, place and version."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any
from zlib import crc32

from evalkit.report.findings import findings_of
from evalkit.runs.read import read_run
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import SHORT_TITLES
from evalkit.tracking import contents

_LONG, _LINE = 60, 120
_EMPTY: tuple[Any, ...] = (None, [], {}, "")
METRIC = ("value", "low", "high", "worst_low", "worst_high", "n", "missing", "note")
_VOLATILE = (
    "run_id",
    "evalkit",
    "python",
    "packages",
    "git_commit",
    "config_hash",
    "started",
    "ended",
    "timing",
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z|[+-]\d\d:\d\d)?")
_VERSION = re.compile(r"((?:python|evalkit): )\d[\w.]*")
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "button",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "h1",
        "h2",
        "h3",
        "h4",
    }
    | {
        "header",
        "label",
        "li",
        "main",
        "nav",
        "ol",
        "option",
        "p",
        "section",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
    }
    | {"text", "th", "thead", "title", "tr", "ul"}
)
_BESIDE = frozenset(("td", "th", "dd"))


def texts_of(folder: Path, outputs: list[str], *, page_data: bool, brief: bool) -> dict[str, str]:
    """Return the golden texts of the runs in a folder: `json` for values, `md` for texts."""
    values: dict[str, Any] = {}
    words = [part for output in outputs for part in (output.rstrip(), "")]
    runs = sorted(
        path.parent
        for path in folder.rglob("manifest.json")
        if "v0.2.0" not in path.relative_to(folder).parts
    )
    hidden: dict[str, str] = {str(folder): "<folder>"}
    for path in runs:
        name = path.relative_to(folder).as_posix()
        result = read_run(path)
        hidden |= _identities(result)
        first = path == runs[0]
        values[name] = _values(path, result, first=first, whole=page_data and first)
        words += [f"# {name}", "", *_words(path, result, first=first, brief=brief), ""]
    inside = {path for run in runs for path in run.rglob("*")}
    others = (path for path in sorted(folder.rglob("*")) if path.is_file() and path not in inside)
    for path in (
        path
        for path in others
        if path.relative_to(folder).parts[0] not in ("files", "imports", "v0.2.0")
    ):
        name = path.relative_to(folder).as_posix()
        words += [f"# {name}", "", *_file(path), ""]
    return {
        "json": _plain(_dump(values), hidden) + "\n",
        "md": _plain("\n".join(words), hidden).rstrip() + "\n",
    }


def _identities(result: RunResult) -> dict[str, str]:
    """Return what names this run and its version alone, with what it is replaced by."""
    manifest = result.manifest
    config = str(manifest["config_hash"])
    return {str(manifest["run_id"]): "<run>", config: "<config>", config[:8]: "<config>"}


def _plain(text: str, hidden: Mapping[str, str]) -> str:
    for value, name in hidden.items():
        text = text.replace(value, name)
    return _VERSION.sub(r"\1<version>", _TIME.sub("<time>", text))


def _values(path: Path, result: RunResult, *, first: bool, whole: bool) -> dict[str, Any]:
    """Return the values of a run; the notes of the first run's metrics are on its page."""
    metrics = json.loads((path / "metrics.json").read_bytes())
    manifest = json.loads((path / "manifest.json").read_bytes())
    details = sorted(
        file for file in path.glob("*.json") if file.stem not in ("metrics", "manifest")
    )
    lines = sorted(path.glob("*.jsonl"))
    keys = METRIC[:-1] if first else METRIC
    return {
        **{name: value for name, value in metrics.items() if name != "metrics"},
        "metrics": {
            name: [metric.get(key) for key in keys] for name, metric in metrics["metrics"].items()
        },
        "manifest": {
            name: _short(value) for name, value in manifest.items() if name not in _VOLATILE
        },
        "mlflow": _mlflow(result, whole=whole),
        **{file.name: _detail(file) for file in details},
        **{file.name: _rows(file, whole=first or file.stem == "verdicts") for file in lines},
        **({"page": _short(_page_data(path / "report.html"))} if whole else {}),
    }


def _detail(file: Path) -> Any:
    value = json.loads(file.read_bytes())
    if isinstance(value, dict):
        value = {name: inner for name, inner in value.items() if name not in _VOLATILE}
    return _short(value)


def _rows(file: Path, *, whole: bool) -> Any:
    """Return the rows of a file; of an audit and of a shipped data set only their number and a checksum."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for row in rows:
        if completion := row.get("completion"):
            row["completion"] = completion["text"]
        row.pop("answer", None)  # what the completion's text says
        row.pop("keys", None)  # a stored answer that is not read would be missing
    known = file.stem == "cases" and "metadata" in rows[0] and "flaw" in rows[0]["metadata"]
    if known or not whole or file.stem in ("probe_cases", "probe_judgments", "effects"):
        return f"{len(rows)} rows, {_digest(rows)}"
    return _short(rows)


def _mlflow(result: RunResult, *, whole: bool) -> dict[str, Any]:
    """Return the names that MLflow shows, with the texts of tags; of a few runs also all params."""
    tables = {
        "judgments": contents.judgment_table(result),
        "verdicts": contents.verdict_table(result),
    }
    params = contents.params(result)
    short = {*SHORT_TITLES.values()}
    volatile = (
        *("evalkit.run_id", "evalkit.version", "evalkit.config_hash", "evalkit.git_commit"),
        "mlflow.user",
    )
    return {
        "run_name": contents.run_name(result, None),
        "metrics": [
            name
            for name in contents.metrics(result)
            # Short names repeat the values of others.
            if name not in short and not name.endswith(("/low", "/high"))
        ],
        "all metrics": _digest(sorted({*contents.metrics(result, every=True)} - short)),
        "tags": {
            name: text for name, text in contents.tags(result, {}).items() if name not in volatile
        },
        "tables": {name: table["columns"] for name, table in tables.items()},
        "params": params if whole else _digest(sorted(params)),
        "note": table_note if (table_note := contents.table_note(tables, result)) else None,
    }


def _words(path: Path, result: RunResult, *, first: bool, brief: bool) -> Iterator[str]:
    """Return the findings of a run in both languages; of the first run also its pages."""
    found = findings_of(
        result, {file.stem: json.loads(file.read_bytes()) for file in path.glob("*.json")}
    )
    for row in found:
        yield f"- {row.tone} {row.metric}: {row.text}"
        yield f"  {row.text_zh}"
    if not first:
        return
    for name in ("findings.md", "datasheet.md"):
        if (file := path / name).is_file() and not brief:
            yield from ("", f"## {name}", "", file.read_text("utf-8").rstrip())
    for name in ("report.html", "datasheet.html"):
        if (file := path / name).is_file():
            yield from (
                "",
                f"## {name}",
                "",
                *(_cut(line, _LINE) if brief else line for line in _page_text(file)),
            )
    figures = (
        sorted(file.name for file in (path / "figures").glob("*.svg"))
        if (path / "figures").is_dir()
        else ()
    )
    yield from ("", f"figures: {', '.join(figures)}")


def _file(path: Path) -> Iterator[str]:
    """Return a file outside of run folders, such as an export or a leaderboard, as lines."""
    content = path.read_bytes()
    if path.suffix == ".html":
        yield from _page_text(path)
    elif content.startswith(b"PAR1"):
        import pyarrow.parquet as parquet

        table = parquet.read_table(path)
        yield f"{table.num_rows} rows of {', '.join(table.column_names)}: {_digest(table.to_pylist())}"
    elif path.suffix == ".csv":
        yield from (_line(_short(row)) for row in csv.reader(StringIO(content.decode())))
    elif path.suffix in (".yaml", ".store"):
        yield "(not compared)"
    elif path.suffix == ".jsonl":
        yield from (_line(_short(json.loads(line))) for line in content.decode().splitlines())
    elif content.startswith((b"{", b"[")):
        yield _dump(_short(json.loads(content)), depth=2)
    else:
        yield content.decode().rstrip()


class _Page(HTMLParser):
    """Reads the visible text of a page: a line for each block, and `/` between English and Chinese."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self.data: dict[str, str] = {}
        self._inside: str | None = None
        self._pre: list[str] | None = None
        self._drawing = 0
        self._drawn: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("script", "style"):
            self._inside = str(named.get("id") or tag)
        elif tag == "pre":
            self._pre = []
        elif tag in _BLOCKS:
            self._break(beside=tag in _BESIDE)
            self._drawing = len(self.lines) if tag == "svg" else self._drawing
        elif "zh" in (named.get("class") or "").split():
            self.lines[-1] += " / "

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = None
        elif tag == "pre" and self._pre is not None:
            # The config and the manifest are in files of their own.
            self.lines += [f"({len(''.join(self._pre).splitlines())} preformatted lines)", ""]
            self._pre = None
        elif tag in _BLOCKS:
            self._break(beside=tag in _BESIDE)
        if tag == "svg":
            # Texts that the figure before has, too, such as the ticks of an axis, are omitted.
            drawn = self.lines[self._drawing :]
            self.lines[self._drawing :] = [line for line in drawn if line not in self._drawn] + [""]
            self._drawn = set(drawn)

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.data[self._inside] = self.data.get(self._inside, "") + data
        elif self._pre is not None:
            self._pre.append(data)
        else:
            self.lines[-1] += data

    def _break(self, *, beside: bool) -> None:
        if beside and self.lines[-1].strip():
            self.lines[-1] += " | "
        elif not beside:
            self.lines.append("")


def _page_text(file: Path) -> Iterator[str]:
    page = _Page()
    page.feed(file.read_text("utf-8"))
    for line in page.lines:
        if text := re.sub(
            r"( \|)+$", "", re.sub(r"(\| )+\|", "|", re.sub(r"\s+", " ", line).strip())
        ).strip(" |/"):
            yield text


def _page_data(file: Path) -> dict[str, Any]:
    page = _Page()
    page.feed(file.read_text("utf-8"))
    return {name: json.loads(page.data[name]) for name in ("words", "data")}


def _short(value: Any) -> Any:
    """Return a value without unset fields, its long texts cut to their beginning and a checksum."""
    if isinstance(value, Mapping):
        return {name: _short(inner) for name, inner in value.items() if inner not in _EMPTY}
    if isinstance(value, list | tuple):
        return (
            _table(value)
            if len(value) > 2 and all(isinstance(row, Mapping) for row in value)
            else [*map(_short, value)]
        )
    return _cut(value, _LONG) if isinstance(value, str) else value


def _cut(text: str, longest: int) -> str:
    return (
        text
        if len(text) <= longest
        else f"{text[: longest // 2]}… ({len(text)} characters, {_checksum(text)})"
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return rows as lists of values, after the names of the columns that have any."""
    columns = sorted({name for row in rows for name, value in row.items() if value not in _EMPTY})
    return [columns, *([_short(row.get(name)) for name in columns] for row in rows)]


def _checksum(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _digest(value: Any) -> str:
    """Return a checksum of a value, without the last digits of its numbers."""
    return _checksum(json.dumps(_rounded(value), sort_keys=True))


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items() if inner not in _EMPTY}
    if isinstance(value, list):
        return [*map(_rounded, value)]
    return round(value, 9) + 0.0 if isinstance(value, float) else value


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _dump(value: Any, depth: int = 3, indent: str = "") -> str:
    """Return JSON with a line for each value at a depth: a metric, a case, a param."""
    if not depth or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    inner = f"{indent} "
    if isinstance(value, dict):
        rows = [
            f"{inner}{_line(name)}: {_dump(value[name], depth - 1, inner)}"
            for name in sorted(value)
        ]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    return (
        "[\n"
        + ",\n".join(f"{inner}{_dump(row, depth - 1, inner)}" for row in value)
        + f"\n{indent}]"
    )
