"""Load the cases of a dataset, one at a time or all at once."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from glob import has_magic
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.errors import DatasetError
from evalkit.core.hashing import canonical_json, text_json
from evalkit.core.image_files import FOLDER, IMAGES
from evalkit.core.images import lacks_images
from evalkit.core.scale import Classes
from evalkit.core.spool import HashSet, ReorderedSequence, Spool
from evalkit.core.spool import count_repeats as repeated_hashes
from evalkit.core.types import Case, ChecklistItem, Response
from evalkit.core.values import frozen
from evalkit.datasets.case_reader import CaseReader
from evalkit.datasets.compression import bare_name
from evalkit.datasets.field_mapping import Columns
from evalkit.datasets.formats import RECORDED
from evalkit.datasets.images import Album, Check, named_only, reading_images
from evalkit.datasets.joins import build_joins, join_rows
from evalkit.datasets.labels import has_label, unlabeled_note
from evalkit.datasets.located_rows import Placed, Row
from evalkit.datasets.named_benchmarks import recognize_benchmark
from evalkit.datasets.sampling import Choice, Division
from evalkit.datasets.sources import (
    CASE,
    Fetch,
    Logs,
    Tables,
    named_files,
    open_source,
)
from evalkit.datasets.text import NoteCounts
from evalkit.datasets.turns import Conversations


class Fingerprint:
    """The incremental SHA-256 of the content of cases."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def through(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Yield cases and add each to the hash."""
        update = self._sha.update
        for case in cases:
            update(_fingerprinted(case))
            yield case

    def hexdigest(self) -> str:
        """Return the hash of the cases so far, in hex."""
        return self._sha.hexdigest()


def fingerprint(cases: Iterable[Case]) -> str:
    """Return the SHA-256, in hex, of the cases as lines of canonical JSON, in order."""
    sha = Fingerprint()
    for _ in sha.through(cases):
        pass
    return sha.hexdigest()


def _fingerprinted(case: Case) -> bytes:
    """Return all that the fingerprint of a dataset depends on, as a line of canonical JSON."""
    # Without them no key: a new key would change the fingerprint of every older dataset.
    checklist = b""
    if case.checklist:
        items = [asdict(item) for item in case.checklist]
        checklist = b'"checklist":%b,' % canonical_json(items)
    labels = b""
    if case.labels:
        labels = b'"labels":%b,' % canonical_json(dict(case.labels))
    metadata = b"{}"
    if case.metadata:
        metadata = canonical_json(dict(case.metadata))
    # Keys in their order. Written out, because a dataset has a million of these lines.
    return (
        b'{%b"context":%b,"id":%b,"label":%b,%b"metadata":%b,"prompt":%b,"reference":%b,'
        b'"responses":[%b]}\n'
    ) % (
        checklist,
        _optional(case.context),
        text_json(case.id),
        _optional(case.label),
        labels,
        metadata,
        text_json(case.prompt),
        _optional(case.reference),
        b",".join(map(_fingerprinted_response, case.responses)),
    )


def _fingerprinted_response(response: Response) -> bytes:
    """Return what the fingerprint says of a response; a class only if there is one, as above."""
    grade = b"null"
    if response.grade is not None:
        grade = canonical_json(response.grade)
    content = [text_json(response.text), _optional(response.model), grade]
    if response.class_name is not None:
        content.append(text_json(response.class_name))
    return b"[%b]" % b",".join(content)


def _optional(text: str | None) -> bytes:
    if text is None:
        return b"null"
    return text_json(text)


HELD = 2**14


class Ids:
    """The ids of the cases read so far.

    The most recent ones are in memory with their locations. Older ones are hashes, which are
    compared at the end.
    """

    def __init__(self) -> None:
        self._recent: dict[str, str] = {}
        self._before = HashSet()

    def add(self, id_: str, location: str) -> None:
        """Add the next id.

        Raises:
            DatasetError: If it is among the most recent ones.
        """
        if id_ in self._recent:
            raise duplicate_id_error(id_, self._recent[id_], location)
        self._recent[id_] = location
        if len(self._recent) >= HELD:
            self._forget()

    def suspects(self) -> set[int]:
        """Return the hashes that are duplicated among all ids; empty if no id is duplicated."""
        if not len(self._before):
            return set()
        self._forget()
        return repeated_hashes(self._before)

    def _forget(self) -> None:
        self._before.extend([hash(id_) for id_ in self._recent])
        self._recent.clear()


def find_duplicate_id(
    ids: Iterable[tuple[str, str]], suspects: set[int]
) -> DatasetError | None:
    """Return the error for the first duplicate id among (id, location) whose hashes are
    in `suspects`.
    """
    locations: dict[str, str] = {}
    for id_, location in ids:
        if hash(id_) not in suspects:
            continue
        if id_ in locations:
            return duplicate_id_error(id_, locations[id_], location)
        locations[id_] = location
    return None


def duplicate_id_error(id_: str, before: str, location: str) -> DatasetError:
    """Return the error for a duplicate id."""
    file, _, first = before.rpartition(":")
    first = first if first.startswith("row") else f"line {first}"
    if file != location.rpartition(":")[0]:
        first = before
    return DatasetError(
        f"id '{id_}' is already used in {first}",
        where=location,
        remedy="make ids unique",
    )


_UNLIKE = re.compile(
    r"no column |not [A-Z]|the file is not one JSON array|is one JSON object and no table|"
    r".* is (a list|an object), not a text"
)
Decode = Callable[[Row], Case]
Describe = Callable[[Path], str | None]
"""Returns what a file contains and what to do with it; `None` if unknown."""


CUT_TO_FIT = (
    "cases shortened to fit judge.context, keeping the beginning and the end of texts"
)
_MOST_OF_LOG = 10_000
"""The most pictures of a log; the limit of a case holds, too."""
PICTURES = "cases with pictures, which the judge sees"
LACKS_IMAGES = "cases with pictures, which the judge does not see (dataset.images=omit)"
UNMAPPED = "column '{}' is metadata: if it has the labels, set dataset.fields.label={}"
CUT_RESULTS = (
    "cases shortened to fit judge.context, "
    "the longest results of tools first, then other texts"
)


@frozen
class Dataset:
    """Cases to judge.

    `fingerprint` is the SHA-256 of their content, in order. `notes` list assumptions. `benchmark`
    has the source, license and citation of a named benchmark.
    """

    cases: Sequence[Case]
    fingerprint: str
    source: str
    notes: tuple[str, ...] = ()
    benchmark: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """The short name: the file without suffixes; for a glob, its folder."""
        parts = [part for part in Path(self.source).parts if not has_magic(part)]
        if parts:
            return bare_name(Path(parts[-1]))
        return "files"


class CaseStream:
    """The cases of a dataset, one at a time in the order of the file, with constant memory.

    Iterate only once; `notes`, `rows` and `order` are available after the last case.

    Args:
        config: The dataset settings.
        mode: The mode of the run; all modes except `pointwise` and `checklist` need two responses.
        base: A folder to search for files after the current one.
        frame: Rows from Python instead of `dataset.path`: a pandas or polars frame, an Arrow table,
            or mappings.
        fetch: Functions that fetch paths of the form `scheme:…`, by scheme.
        logs: Reads the answers in other tools' logs.
        tables: Reads tables as `dataset.reading` says.
        describe: Describes a file that has no cases, if it knows its content.
        items: The checklist items of all cases.
        classes: The classes of the rubric, which labels name; `None` if labels are choices and
            grades.
        decode: Decodes a row of a run's `cases.jsonl`, for `dataset.format=cases`.
        fit: Shortens a case that does not fit the judge's context, and returns any other unchanged.
        sees: Raises if no judge can see a picture, or one at a URL; called before the first one.

    Raises:
        ConfigError: If the settings are invalid, or the source does not exist.
    """

    def __init__(
        self,
        config: DatasetConfig,
        *,
        mode: str,
        base: Path | None = None,
        frame: Any = None,
        fetch: Mapping[str, Fetch] | None = None,
        logs: Logs | None = None,
        tables: Tables | None = None,
        describe: Describe | None = None,
        items: tuple[ChecklistItem, ...] = (),
        classes: Classes | None = None,
        decode: Decode | None = None,
        fit: Callable[[Case], Case] | None = None,
        sees: Check | None = None,
    ) -> None:
        album = partial(
            Album,
            omit=config.images == "omit",
            largest=config.max_image_bytes,
            check=sees,
        )
        # Logs are read here, all samples at once; other rows one by one.
        log = album(most=_MOST_OF_LOG, files=named_files(config, base))
        log.begin(str(config.path))
        with reading_images(log):
            source = open_source(
                config, base=base, frame=frame, fetch=fetch, logs=logs, tables=tables
            )
        self._album = album(most=config.max_images, files=source.files)
        if config.format == RECORDED:
            for file in source.files:
                IMAGES.add_folder(file.parent / FOLDER)
        self.source = source.name
        self.benchmark = (
            None if config.benchmark is None else find_benchmark(config.benchmark)
        )
        self._config = config
        self._mode = mode
        self._rows = source.rows
        self._files = source.files
        self._tally = NoteCounts()
        self._describe = describe
        self._left_out = source.left_out
        self._given = source.notes
        self._joins = build_joins(config.join, base, self._tally)
        divided = config.has_turns and config.format != RECORDED
        self._turns = (
            Conversations(config, mode, self._joins, self._tally) if divided else None
        )
        if self._turns is None:
            self._reader = CaseReader(
                config,
                mode,
                self._joins,
                self._tally,
                items,
                classes,
                rendered=source.rendered,
            )
        else:
            # divided rows have evalkit's columns, and texts that are already shortened
            read = config.model_copy(update={"fields": {}, "max_chars": None})
            self._reader = CaseReader(
                read, mode, (), self._tally, items, classes, rendered=True
            )
        self._decode = decode if config.format == RECORDED else None
        if config.reading is not None:
            self._decode = itemgetter(CASE)
        self._choice = Choice(config, self._division())
        self._fit = fit
        self._sizes = array("q")
        self._ids = Ids()
        self._labeled = self.rows = 0

    def __iter__(self) -> Iterator[Case]:
        """Yield the cases.

        Raises:
            DatasetError: If a row is not a case; duplicate ids are reported after the last case at
                the latest.
        """
        try:
            yield from self._read_cases()
        except DatasetError as bad:
            raise self._with_hint(bad) from None

    def _read_cases(self) -> Iterator[Case]:
        """Yield the cases of the chosen rows, shortened if they must fit a context window.

        Raises:
            DatasetError: If there is no case, or a row cannot be read.
        """
        any_row = False
        add = self._ids.add
        shuffled = self._config.shuffle_seed is not None
        for number, location, row in self._choice.choose(self._all):
            any_row = True
            before = self.rows
            for case in self._with_images(row, number, location):
                add(case.id, location)
                if self._fit is not None and (shorter := self._fit(case)) is not case:
                    self._tally.add(
                        CUT_TO_FIT if self._turns is None else CUT_RESULTS, location
                    )
                    case = shorter
                self.rows += 1
                if has_label(case):
                    self._labeled += 1
                yield case
            if shuffled:
                # cases of each row: rows are shuffled, and a row can be several cases
                self._sizes.append(self.rows - before)
        if not self.rows:
            problem = "every row was dropped" if any_row else "the file has no rows"
            raise DatasetError(
                problem, where=self.source, remedy="use a file with at least one case"
            )
        self._check_end()

    def _with_images(self, row: Row, number: int, location: str) -> Iterator[Case]:
        """Yield the cases of a row, whose pictures are read into the album."""
        self._album.begin(location)
        with reading_images(self._album):
            cases = iter(self._cases(row, number, location))
        while True:
            # A generator shares the context of its consumer, so it is restored at each step.
            with reading_images(self._album):
                case = next(cases, None)
            if case is None:
                break
            image_count = self._album.check_count(case)
            if image_count or lacks_images(case):
                self._tally.add(PICTURES if image_count else LACKS_IMAGES, location)
                case = replace(case, metadata=named_only(dict(case.metadata)))
            yield case

    def _cases(self, row: Row, number: int, location: str) -> Iterable[Case]:
        """Return the cases of a row: no case if it is dropped, several if it is a
        conversation that is divided.
        """
        if self._decode is not None:
            return (self._album.recorded(self._recorded(self._decode, row, location)),)
        if self._turns is not None:
            parts = self._turns.rows(row, number, location)
            return filter(
                None, (self._reader.read(part, number, location) for part in parts)
            )
        case = self._reader.read(row, number, location)
        if case is None:
            return ()
        return (case,)

    def _recorded(self, decode: Decode, row: Row, location: str) -> Case:
        try:
            return decode(row)
        except ValueError as bad:
            raise DatasetError(
                str(bad), where=location, remedy="restore the file of the run"
            ) from None

    @property
    def order(self) -> Sequence[int] | None:
        """The shuffled order, as indices of the yielded cases; `None` if they are not shuffled."""
        order = self._choice.order if self.rows else None
        if order is None or len(self._sizes) == self.rows:
            return order
        # row -> the index of its first case
        starts = [0, *accumulate(self._sizes)]
        return array(
            "q", (case for row in order for case in range(starts[row], starts[row + 1]))
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes on assumptions and on what is omitted, each with its count; complete once all
        rows are read.
        """
        missing = self.rows - self._labeled
        unlabeled = unlabeled_note(missing, self.rows)
        if not self._labeled and self.benchmark is None:
            unlabeled = tuple(
                UNMAPPED.format(column, column)
                for column in self._reader.columns.label_columns()
            )
        files = tuple(note for join in self._joins for note in join.notes())
        benchmark_note = () if self.benchmark is None else (self.benchmark.note,)
        lost = tuple(
            f"{kind}, omitted: {count}" for kind, count in self._left_out.items()
        )
        return (
            *benchmark_note,
            *self._given,
            *lost,
            *self._choice.notes(),
            *files,
            *self._tally.notes(),
            *unlabeled,
        )

    def _division(self) -> Division | None:
        rule = self._config.division
        if rule is None:
            return None
        if self._turns is None:
            fields = self._config.fields
        else:
            fields = {"prompt": self._turns.columns.column("response")}
        return Division(rule, Columns(fields, frozenset(self._config.join)))

    def _all(self) -> Iterator[Placed]:
        rows = iter(self._rows())
        if self._joins:
            return join_rows(rows, self._joins)
        return rows

    def _with_hint(self, bad: DatasetError) -> DatasetError:
        """Return the error, with a better remedy if the file is of another kind."""
        if (
            self.rows
            or self._config.fields
            or not self._files
            or not _UNLIKE.match(bad.what)
        ):
            return bad
        path = self._files[0]
        if (recognized := recognize_benchmark(path)) is None:
            hint = self._describe(path) if self._describe else None
        else:
            hint = f"it {recognized.hint}" if self.benchmark is None else None
        if hint is None:
            return bad
        return DatasetError(bad.what, where=bad.where, remedy=hint)

    def _check_end(self) -> None:
        """Check what shows only after the last row: unseen columns, unused joins, repeated ids.

        Raises:
            DatasetError: If a mapped column is in no row, or two cases have the same id.
        """
        if self._decode is None:
            reader = self._reader if self._turns is None else self._turns
            reader.columns.check_seen(self.source)
        # With a limit, the rows that a join is for may not have been read.
        if self._config.limit is None:
            for join in self._joins:
                join.count_rest()
        # Ids are kept as hashes, so equal ones are only suspects until all are read again.
        suspects = self._ids.suspects()
        if suspects and (error := find_duplicate_id(self._all_ids(), suspects)):
            raise error

    def _all_ids(self) -> Iterator[tuple[str, str]]:
        """Yield the id of each case and its location, without counting notes again."""
        id_of = CaseReader(self._config, self._mode).id_of
        if self._turns is None:
            turns = None
        else:
            turns = Conversations(self._config, self._mode, (), NoteCounts())
        for number, location, row in Choice(self._config, self._division()).choose(
            self._all
        ):
            if turns is None:
                yield id_of(row, number, location), location
            else:
                yield from (
                    (part["id"], location) for part in turns.rows(row, number, location)
                )


def load_cases(
    config: DatasetConfig,
    *,
    container: Callable[[Iterable[Case]], Sequence[Case]] = Spool,
    **reading: Any,
) -> Dataset:
    """Load the cases of a config.

    Args:
        config: The dataset settings.
        container: Makes a sequence of the cases; by default one that keeps many of them in a file.
        reading: The other arguments of `CaseStream`, such as `mode`.

    Raises:
        ConfigError: If the settings are invalid.
        DatasetError: If a file or a row cannot be read as cases; the message names file and line.
    """
    stream = CaseStream(config, **reading)
    sha = Fingerprint()
    cases = container(sha.through(stream))
    digest = sha.hexdigest()
    if stream.order is not None:
        cases = ReorderedSequence(cases, stream.order)
        digest = fingerprint(cases)
    described = stream.benchmark.described() if stream.benchmark else None
    return Dataset(cases, digest, stream.source, stream.notes, described)
