"""The definition of a benchmark: reader, scoring rule, license, citation, and importer
of judgments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, TypeAlias

from evalkit.benchmarks.shared.scoring_rules import NEEDS_CHECKLIST, View, nothing
from evalkit.config import RunConfig
from evalkit.core.benchmark_discovery import benchmark_facts
from evalkit.core.checklists import ChecklistError, read_items
from evalkit.core.errors import DatasetError
from evalkit.core.translation import Text
from evalkit.core.types import Case, ChecklistItem, Metric
from evalkit.core.values import frozen
from evalkit.datasets.located_rows import Placed, Row
from evalkit.datasets.named_benchmarks import ForeignError, files_in, first_row, rows_of
from evalkit.interop.layouts.judgment_files import LocatedRow, Peek, load_object, peek
from evalkit.interop.layouts.layouts import Field, value_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile
from evalkit.scoring.catalog import MetricSpec, metric_row
from evalkit.scoring.columns import VerdictColumns
from evalkit.scoring.stats.statistic import Measures, Statistic
from evalkit.scoring.verdicts.checklists import ItemColumns

Shape: TypeAlias = frozenset[str]
Rule: TypeAlias = Callable[[View], Sequence[Statistic | Metric]]
ItemRule: TypeAlias = Callable[[ItemColumns], Sequence[Statistic | Metric]]


def shape(*columns: str) -> Shape:
    """Return a shape: the columns that distinguish one kind of row."""
    return frozenset(columns)


@frozen
class Source:
    """The source of a benchmark: `path` is a file or folder; `baseline` is the model to
    compare with.

    `left_out` counts omitted items by kind; it is complete before the first row.
    """

    path: Path
    baseline: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)


@frozen
class Benchmark:
    """A published benchmark.

    Attributes:
        name: The value of `dataset.benchmark`, and the prefix of its metrics.
        title: Its full name.
        kind: A description of its rows, as in "looks like {kind}".
        license: Its license, or a note that none is stated.
        citation: The reference to cite.
        homepage: Its web page.
        expects: The required value of `dataset.path`.
        shapes: Sets of columns; a row with all columns of one set belongs to the benchmark.
        read: Yields canonical rows with their locations.
        rule: Returns its metrics by the authors' rule, from cases, metadata and verdicts; it reads
            no files.
        holds: Returns whether a folder is this benchmark, if single rows do not show it.
        files: A glob for the files to read in a folder.
        item_rule: Returns its metrics from checklist items, in mode `checklist`; they replace those
            of `rule`.
        cluster: The metadata key for resampling, unless `scoring.cluster` is set.
        importer: The importer of published judgments.
        metrics: The rows of its metrics in the catalog.
        values: The values of placeholders in names of metrics that have the same ones in every run.
        extra_values: Values of placeholders in addition to those in the cases, such as models and
            subsets.
        words: What values of placeholders are called in reports, if not by themselves.
        short_title: Its name before the titles of its metrics, unless `title` is.
        main_metric: The name of its main metric, which is a finding of each run.
        substitute: The name of the metric to report if a run cannot have the main one, and a
            caveat.
        settings: The settings of a run that it needs, such as `mode=pointwise`, if those of pairs
            do not fit.
        human_labels: Whether its labels are from annotators; others have answer keys, or labels
            from a model.
    """

    name: str
    title: str
    kind: str
    license: str
    citation: str
    homepage: str
    expects: str
    shapes: tuple[Shape, ...]
    read: Callable[[Benchmark, Source], Iterator[Placed]]
    rule: Rule
    holds: Callable[[Path], bool] | None = None
    files: str = "*"
    item_rule: ItemRule | None = None
    cluster: str | None = None
    importer: Importer | None = None
    metrics: tuple[MetricSpec, ...] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    extra_values: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    words: Mapping[str, Text | str] = field(default_factory=dict, hash=False)
    short_title: str = ""
    main_metric: str = ""
    substitute: tuple[str, Text | str] | None = None
    settings: str = ""
    human_labels: bool = False

    def looks_like(self, row: Row) -> bool:
        """Return whether a row belongs to this benchmark, by its columns."""
        # A row may have more columns than the shape.
        return any(columns <= row.keys() for columns in self.shapes)

    def is_folder(self, folder: Path) -> bool:
        """Return whether a folder belongs to this benchmark, by its files."""
        return self.holds is not None and self.holds(folder)

    def rows(
        self, path: Path, baseline: str | None, left_out: Counter[str]
    ) -> Iterator[Placed]:
        """Yield the canonical rows of a file or folder with their locations, and count
        omitted items.

        Raises:
            ForeignError: If it does not belong to the benchmark.
        """
        return self.read(self, Source(path, baseline, left_out))

    def statistics(
        self, config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
    ) -> Measures:
        """Return its metrics of a run, by the authors' rule."""
        return [*self.rule(View(config, cases, verdicts))]

    @property
    def note(self) -> str:
        """The note on the data's license and citation."""
        return f"{self.title}: license {self.license}; cite {self.citation} ({self.homepage})"

    def described(self) -> dict[str, str]:
        """Return its entry in the manifest."""
        return {
            "name": self.name,
            "title": self.title,
            "licence": self.license,
            "citation": self.citation,
            "homepage": self.homepage,
        }


FACTS: Final = benchmark_facts()


def benchmark(
    name: str,
    *,
    sniff: Callable[[Peek], bool] | None = None,
    judgments: Callable[[Path, Options], ParsedFile] | None = None,
    **code: Any,
) -> Benchmark:
    """Return the benchmark with an entry in the `.toml` file next to its module.

    Args:
        name: Its name.
        sniff: Returns whether a file with this beginning may have published judgments.
        judgments: Reads published judgments.
        code: Its other attributes: `read`, `rule` unless it has an `item_rule`, and those that are
            not in its entry.
    """
    # The entry in the catalog, without the parts that are not attributes.
    facts = {"kind": FACTS[name]["title"], **FACTS[name]}
    source = facts.pop("source")
    published = facts.pop("importer", {})
    _ = facts.pop("tables", {})
    facts["shapes"] = tuple(map(frozenset, facts.get("shapes", ())))
    facts["words"] = {
        value: Text(word) for value, word in facts.get("words", {}).items()
    }
    facts["metrics"] = tuple(
        metric_row(f"{name}/{metric}", {"source": source, **row})
        # Metrics have the source of the benchmark unless they name their own.
        for metric, row in facts["metrics"].items()
    )
    if "item_rule" in code:  # in other modes than checklist
        facts["rule"] = lambda _: [
            nothing(row.name, NEEDS_CHECKLIST) for row in facts["metrics"]
        ]
    if "substitute" in facts:
        facts["substitute"] = facts["substitute"][0], Text(facts["substitute"][1])
    if sniff is not None and judgments is not None:
        # The importer has the name of the benchmark unless the entry has another.
        facts["importer"] = Importer(
            **{"name": name, **published}, sniff=sniff, read=judgments
        )
    # Attributes in code win over those of the entry.
    return Benchmark(name, **{**facts, **code})


def foreign_row(benchmark: Benchmark, row: Row, location: str) -> ForeignError:
    """Return the error for a row of another kind; it names a missing column."""
    # The shape with the fewest missing columns; equal ones by name, so that errors are stable.
    nearest = min(
        benchmark.shapes,
        key=lambda columns: (len(columns - row.keys()), sorted(columns)),
    )
    missing = sorted(nearest - row.keys())
    return ForeignError(
        benchmark, f"the row has no '{missing[0] if missing else '?'}'", row, location
    )


def benchmark_files(benchmark: Benchmark, source: Source, *shapes: Shape) -> list[Path]:
    """Return the file, or the files in a folder whose first row has one of `shapes`
    (default: the benchmark's).

    Raises:
        DatasetError: If a folder has no such file.
    """
    if not source.path.is_dir():
        return [source.path]
    accepted = shapes or benchmark.shapes
    # Only first rows are read here: a folder may have large files of other kinds.
    first_rows = [(file, first_row(file)) for file in files_in(source.path)]
    named = [
        (file, row)
        for file, row in first_rows
        if row is not None and fnmatch(file.name, benchmark.files)
    ]
    files = [
        file
        for file, row in named
        if any(columns <= row.keys() for columns in accepted)
    ]
    if not files:
        # The first row of any file shows what the folder holds instead.
        row = next((row for _, row in first_rows if row is not None), None)
        raise ForeignError(
            benchmark, "the folder has no such file", row, str(source.path)
        )
    return files


def checked_rows(benchmark: Benchmark, file: Path, *shapes: Shape) -> Iterator[Placed]:
    """Yield the rows of a file, which must have one of `shapes` (default: the benchmark's).

    Raises:
        DatasetError: If a row does not.
    """
    accepted = shapes or benchmark.shapes
    for location, row in rows_of(file):
        if not any(columns <= row.keys() for columns in accepted):
            raise foreign_row(benchmark, row, location)
        yield location, row


def json_objects(benchmark: Benchmark, source: Source) -> Iterator[LocatedRow]:
    """Yield the JSON object in each file, which must have one of the benchmark's shapes.

    Raises:
        DatasetError: If a file does not.
    """
    for file in files_in(source.path):
        try:
            content = load_object(file)
        # A file that is not one object is reported as a row of another kind.
        except DatasetError:
            content = {}
        if not benchmark.looks_like(content):
            raise foreign_row(benchmark, content or first_row(file) or {}, str(file))
        yield LocatedRow(content, str(file), file=file)


def published_rows(
    benchmark: Benchmark, source: Source, *shapes: Shape
) -> Iterator[LocatedRow]:
    """Yield the rows of all files, which must have one of `shapes` (default: the
    benchmark's), with their numbers.

    Raises:
        DatasetError: If a row does not, or a folder has no such file.
    """
    for file in benchmark_files(benchmark, source, *shapes):
        # Numbers begin again in each file.
        for number, (location, row) in enumerate(
            checked_rows(benchmark, file, *shapes), 1
        ):
            yield LocatedRow(row, location, number, file)


def holds_object(*keys: str) -> Callable[[Path], bool]:
    """Return a function that returns whether a folder's files are JSON objects with these keys."""
    return lambda folder: peek(folder).top.keys() >= set(keys)


def checklist_of(items: Any, location: str) -> tuple[ChecklistItem, ...]:
    """Return the items of a published checklist.

    Raises:
        DatasetError: If they are not valid.
    """
    try:
        return read_items(items)
    except ChecklistError as bad:
        raise DatasetError(bad.what, where=location, remedy=bad.remedy) from None


RowLocation: TypeAlias = LocatedRow
"""The second argument of a function that converts a row: its location as text, its file, and its
number (from 1)."""


def row_by_row(
    convert: Mapping[str, Field] | Callable[[Row, RowLocation], Row],
) -> Callable[[Benchmark, Source], Iterator[Placed]]:
    """Return a reader for a benchmark whose rows are cases.

    Args:
        convert: The fields of a case, each a column, a path, or a function of the row; or a
            function that returns the case of a row.
    """

    def read(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
        for row in published_rows(benchmark, source):
            if isinstance(convert, Mapping):
                yield (
                    row.place,
                    {name: value_of(row, field) for name, field in convert.items()},
                )
            else:
                yield row.place, convert(row, row)

    return read


def answers_of(row: Row) -> Row:
    """Return the columns of the answers to judge that a user added to a published row."""
    return {key: row[key] for key in ("response", "responses", "model") if key in row}


def one_of(
    column: str, meanings: Mapping[str, str]
) -> Callable[[LocatedRow], str | None]:
    """Return a field for a published label: the meaning of the value in a column; see `choice`."""
    return lambda row: choice(row[column], meanings, row.place)


def choice(value: Any, meanings: Mapping[str, str], location: str) -> str | None:
    """Return the label of a published value; `None` for null.

    Raises:
        DatasetError: If the benchmark has no such value.
    """
    if value is None:
        return None
    text = str(value).strip()
    # A label may have become a float in a table with missing values.
    text = text.removesuffix(".0")
    if text not in meanings:
        accepted = ", ".join(meanings)
        raise DatasetError(
            f"label '{text:.40}' is not one of {accepted}",
            where=location,
            remedy="fix the row",
        )
    return meanings[text]


def listed(value: Any, column: str, location: str) -> list[Any]:
    """Return the list in a column.

    Raises:
        DatasetError: If it is not a list.
    """
    if not isinstance(value, list) or not value:
        raise DatasetError(
            f"'{column}' is not a list of texts", where=location, remedy="fix the row"
        )
    return value
