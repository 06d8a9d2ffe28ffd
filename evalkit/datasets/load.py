"""From a dataset's description to its cases: one at a time, or all of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.core.hash_set import HashSet
from evalkit.core.hash_set import count_repeats as repeated_hashes
from evalkit.core.spool import ReorderedSequence, Spool
from evalkit.datasets.case_reader import CaseReader
from evalkit.datasets.compression import bare_name
from evalkit.datasets.formats import Row
from evalkit.datasets.joins import build_joins, join_rows
from evalkit.datasets.named import recognize_benchmark
from evalkit.datasets.sampling import Choice
from evalkit.datasets.sources import Fetch, Source, open_source
from evalkit.datasets.text import Tally
from evalkit.errors import DatasetError
from evalkit.plugins import find_benchmark
from evalkit.types import Case

_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
"""As `canonical_json`, with the encoder made once: there is one call for each case."""


class Fingerprint:
    """The SHA-256 of cases' content, one after the other."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def through(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Yield cases, and take each into the hash."""
        update = self._sha.update
        for case in cases:
            update((_ENCODE(_content(case)) + "\n").encode("utf-8", "surrogatepass"))
            yield case

    def hexdigest(self) -> str:
        """Return the hash of the cases so far, in hex."""
        return self._sha.hexdigest()


def fingerprint(cases: Iterable[Case]) -> str:
    """Return the SHA-256, in hex, of the cases' content: one line of canonical JSON for each, in order."""
    sha = Fingerprint()
    for _ in sha.through(cases):
        pass
    return sha.hexdigest()


def _content(case: Case) -> dict[str, Any]:
    content = {
        "id": case.id,
        "prompt": case.prompt,
        "context": case.context,
        "reference": case.reference,
        "responses": [[r.text, r.model, r.grade] for r in case.responses],
        "label": case.label,
        "metadata": dict(case.metadata),
    }
    # A new key would change the fingerprint of every dataset that does not have it.
    return {**content, "labels": dict(case.labels)} if case.labels else content


HELD = 2**14


class Ids:
    """The ids of the cases read so far.

    The last few thousand are held with their places. Of those before there are hashes, compared once all are read.
    """

    def __init__(self) -> None:
        self._recent: dict[str, str] = {}
        self._before = HashSet()

    def add(self, id_: str, place: str) -> None:
        """Take the next id.

        Raises:
            DatasetError: if it is one of the last few thousand.
        """
        if id_ in self._recent:
            raise duplicate_id_error(id_, self._recent[id_], place)
        self._recent[id_] = place
        if len(self._recent) >= HELD:
            self._forget()

    def suspects(self) -> set[int]:
        """Return the hashes that occur more than once among all ids: nearly always none, and then no id is repeated."""
        if not len(self._before):
            return set()
        self._forget()
        return repeated_hashes(self._before)

    def _forget(self) -> None:
        self._before.extend([hash(id_) for id_ in self._recent])
        self._recent.clear()


def find_duplicate_id(ids: Iterable[tuple[str, str]], suspects: set[int]) -> DatasetError | None:
    """Return the complaint of the first id, of (id, place), that stands twice, of those with `suspects` for hashes."""
    seen: dict[str, str] = {}
    for id_, place in ids:
        if hash(id_) not in suspects:
            continue
        if id_ in seen:
            return duplicate_id_error(id_, seen[id_], place)
        seen[id_] = place
    return None


def duplicate_id_error(id_: str, before: str, place: str) -> DatasetError:
    """Return the complaint that an id stands in two places."""
    file, _, first = before.rpartition(":")
    first = first if first.startswith("row") else f"line {first}"
    if file != place.rpartition(":")[0]:
        first = before
    return DatasetError(f"id '{id_}' is already that of {first}", where=place, remedy="make ids unique")


_UNLIKE = re.compile(r"no column |not [A-Z]|the file is not one JSON array|.* is (a list|an object), not a text")
Told = Callable[[Path], str | None]
"""Says what a file holds, and what to do with it; none if it does not know."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Cases to judge.

    `fingerprint` is the SHA-256 of their content, in order; `notes` say what was read with an assumption. `benchmark`
    says whose they are, with license and citation, if they are a named benchmark's.
    """

    cases: Sequence[Case]
    fingerprint: str
    source: str
    notes: tuple[str, ...] = ()
    benchmark: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """What the data set is called for short: its file without suffixes; of a pattern, the folder it stands in."""
        parts = [part for part in Path(self.source).parts if not has_magic(part)]
        return bare_name(Path(parts[-1])) if parts else "files"


class CaseStream:
    """The cases of a dataset, one at a time and in the order of the file, in memory that does not grow with them.

    To be iterated once; `notes`, `rows` and `order` are there after the last case.

    Args:
        config: the dataset group.
        source: where its rows come from.
        mode: what the cases are for.
        base: a folder to search for joined files after the current one.
        told: says of a file that holds no cases what it holds instead, if it knows.
    """

    def __init__(
        self, config: DatasetConfig, source: Source, *, mode: str, base: Path | None = None, told: Told | None = None
    ) -> None:
        self.source = source.name
        self.benchmark = None if config.benchmark is None else find_benchmark(config.benchmark)
        self._config, self._mode, self._rows = config, mode, source.rows
        self._files, self._tally, self._told = source.files, Tally(), told
        self._left_out = source.left_out
        self._joins = build_joins(config.join, base, self._tally)
        self._reader = CaseReader(config, mode, self._joins, self._tally)
        self._choice = Choice(config)
        self._ids = Ids()
        self._labelled = self.rows = 0

    def __iter__(self) -> Iterator[Case]:
        """Yield the cases.

        Raises:
            DatasetError: if a row is none; that an id stands twice is said after the last case at the latest.
        """
        try:
            yield from self._each()
        except DatasetError as bad:
            raise self._recognised(bad) from None

    def _each(self) -> Iterator[Case]:
        any_row, read, add = False, self._reader.read, self._ids.add
        for number, place, row in self._choice.choose(self._all):
            any_row = True
            case = read(row, number, place)
            if case is None:
                continue
            add(case.id, place)
            self.rows += 1
            if case.label is not None or any(response.grade is not None for response in case.responses):
                self._labelled += 1
            yield case
        if not self.rows:
            what = "every row was left out" if any_row else "the file holds no rows"
            raise DatasetError(what, where=self.source, remedy="name a file with at least one case")
        self._finish()

    @property
    def order(self) -> Sequence[int] | None:
        """The shuffled order, as places among the cases yielded; none if they are not to be shuffled."""
        return self._choice.order if self.rows else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read with an assumption, each with its count."""
        missing = self.rows - self._labelled
        unlabelled = (f"cases without a label: {missing} of {self.rows}",) if 0 < missing < self.rows else ()
        files = tuple(note for join in self._joins for note in join.notes())
        whose = () if self.benchmark is None else (self.benchmark.note,)
        lost = tuple(f"{what}, left out: {count}" for what, count in self._left_out.items())
        return (*whose, *lost, *self._choice.notes(), *files, *self._tally.notes(), *unlabelled)

    def _all(self) -> Iterator[tuple[str, Row]]:
        rows = iter(self._rows())
        return join_rows(rows, self._joins) if self._joins else rows

    def _recognised(self, bad: DatasetError) -> DatasetError:
        """Return the error with a better remedy, if there are no cases since the file is of another kind."""
        if self.rows or self._config.fields or not self._files or not _UNLIKE.match(bad.what):
            return bad
        path = self._files[0]
        if (known := recognize_benchmark(path)) is None:
            hint = self._told(path) if self._told else None
        else:
            hint = f"it {known.hint}" if self.benchmark is None else None
        return bad if hint is None else DatasetError(bad.what, where=bad.where, remedy=hint)

    def _finish(self) -> None:
        self._reader.columns.check_seen(self.source)
        if self._config.limit is None:
            for join in self._joins:
                join.count_rest()
        if suspects := self._ids.suspects():
            id_of, choose = CaseReader(self._config, self._mode).id_of, Choice(self._config).choose
            ids = ((id_of(row, number, place), place) for number, place, row in choose(self._all))
            if complaint := find_duplicate_id(ids, suspects):
                raise complaint


def iter_cases(
    config: DatasetConfig,
    *,
    mode: str,
    base: Path | None = None,
    frame: Any = None,
    fetch: Mapping[str, Fetch] | None = None,
    told: Told | None = None,
) -> CaseStream:
    """Return the cases a config describes, to be read one at a time; see `load_cases`."""
    source = open_source(config, base=base, frame=frame, fetch=fetch)
    return CaseStream(config, source, mode=mode, base=base, told=told)


def load_cases(
    config: DatasetConfig,
    *,
    mode: str,
    base: Path | None = None,
    frame: Any = None,
    fetch: Mapping[str, Fetch] | None = None,
    told: Told | None = None,
    hold: Callable[[Iterable[Case]], Sequence[Case]] = Spool,
) -> Dataset:
    """Read the cases a config describes, for a mode of judging.

    Args:
        config: the dataset group.
        mode: what the cases are for; all modes but `pointwise` need two responses.
        base: a folder to search for files after the current one.
        frame: rows from Python, in place of `dataset.path`: a pandas or polars frame, an Arrow table, or mappings.
        fetch: what fetches paths of the form `scheme:…`, by scheme.
        told: says of a file that holds no cases what it holds instead, if it knows.
        hold: makes a sequence of the cases that are read; by default one that keeps many of them in a file.

    Raises:
        ConfigError: if the description is wrong.
        DatasetError: if the file, or a row of it, cannot be read as cases; the message names file and line.
    """
    stream = iter_cases(config, mode=mode, base=base, frame=frame, fetch=fetch, told=told)
    sha = Fingerprint()
    cases = hold(sha.through(stream))
    found = sha.hexdigest()
    if stream.order is not None:
        cases = ReorderedSequence(cases, stream.order)
        found = fingerprint(cases)
    described = stream.benchmark.described() if stream.benchmark else None
    return Dataset(cases, found, stream.source, stream.notes, described)
