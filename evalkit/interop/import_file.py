"""Import a file of judgments: cases, judgments, and the settings that describe them.

`to_cases` groups records into cases and judgments, and counts omissions and assumptions in notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.image_files import LARGEST
from evalkit.core.types import (
    Case,
    Judgment,
)
from evalkit.datasets.file_parts import file_of
from evalkit.datasets.formats import reader_for
from evalkit.datasets.images import Album, reading_images
from evalkit.interop.import_cases import to_cases
from evalkit.interop.import_settings import describe_settings
from evalkit.interop.importer_discovery import (
    DAMAGE,
    GENERIC,
    UNKNOWN,
    describe_formats,
    format_names,
    importer,
    is_format,
)
from evalkit.interop.layouts.judgment_files import Peek, peek
from evalkit.interop.layouts.layouts import more_than_text
from evalkit.interop.layouts.records import (
    HeardWords,
    ImportedJudgments,
    Importer,
    Options,
    ParsedFile,
    require_heard,
)

_MOST_PICTURES = 10_000
LOST = "judgments without a usable verdict: {} of {}"
UNREAD = "files in subfolders, not read: {}"


def import_judgments(
    name: str, path: Path, options: Options, *others: Path
) -> ImportedJudgments:
    """Import files, or folders of files, in a format.

    Args:
        name: The format.
        path: The file or folder.
        options: The user's options.
        others: Files or folders that are read as one with the first.

    Raises:
        ConfigError: If there is no such format, or it does not support an option.
        DatasetError: If a file is not in this format; the message names the format it looks like.
    """
    # Nothing is judged, so pictures that cannot be read are only named.
    files = (path, *others)
    album = Album(most=_MOST_PICTURES, largest=LARGEST, files=files, lenient=True)
    imports = importer(name)
    parsed = {}
    with reading_images(album):
        for imported_file in files:
            album.begin(f"{imported_file}:1")
            content = _read_imported(imports, imported_file, options)
            # In a batch, ids are those of one dataset's cases.
            if isinstance(content, ImportedJudgments):
                return replace(content, format=name)
            parsed[imported_file] = content
        return imported(joined(parsed), name, path)


def _read_imported(
    imports: Importer, path: Path, options: Options
) -> ParsedFile | ImportedJudgments:
    """Return the content of a file that is in the importer's format."""
    if not file_of(path).exists():
        raise DatasetError(
            "no such file", where=str(path), remedy="use the file with the judgments"
        )
    start = peek(path)
    if not is_format(imports, start):
        remedy = describe_formats(start)
        if remedy == UNKNOWN and path.suffix.lower() in (".csv", ".tsv", ".jsonl"):
            # This raises a more specific error if the file cannot be read.
            next(iter(reader_for(None, path)(path)), None)
        problem = (
            "has no readable rows"
            if remedy == UNKNOWN
            else f"does not look like {imports.name}"
        )
        raise DatasetError(problem, where=str(path), remedy=remedy)
    try:
        return read_format(imports, path, options)
    except ConfigError as bad:
        raise _with_remedy(bad, imports.name, start, options) from None


def read_format(
    imports: Importer, path: Path, options: Options
) -> ParsedFile | ImportedJudgments:
    """Return the content of a file in the importer's format.

    Raises:
        DatasetError: If it is damaged, or has nothing to read.
    """
    heard = HeardWords(options.winners)
    try:
        content = imports.read(path, replace(options, winners=heard))
        # A table's words need not occur in each of several files.
        if imports.name != GENERIC:
            require_heard(path, heard, heard.heard)
        if imports.is_log and isinstance(content, ParsedFile):
            return replace(
                content, notes=(*content.notes, *more_than_text(content.records))
            )
        return content
    except DAMAGE as bad:
        problem = (
            f"is damaged, or written by a version that evalkit does not know ({type(bad).__name__}:"
            f" {str(bad)[:100]})"
        )
        raise DatasetError(
            " ".join(problem.split()), where=str(path), remedy="write it again"
        ) from None


def joined(files: Mapping[Path, ParsedFile]) -> ParsedFile:
    """Return the records of several files as those of one.

    A task with a checklist is a case of its file.

    Raises:
        DatasetError: If the files differ in the scale of scores, or in how texts are read.
    """
    (where, first), *other_files = files.items()
    if not other_files:
        return first
    for name in ("scale", "output", "unread", "rule"):
        if any(
            getattr(parsed, name) != getattr(first, name) for _, parsed in other_files
        ):
            raise DatasetError(
                f"the files differ in their {name}",
                where=str(where),
                remedy="read them one at a time",
            )
    records = [
        replace(record, question=f"{path.name}/{record.question}")
        if record.checklist
        else record
        for path, content in files.items()
        for record in content.records
    ]
    contents = files.values()
    return replace(
        first,
        records=records,
        criteria={
            name: text
            for content in contents
            for name, text in content.criteria.items()
        },
        weights={
            name: weight
            for content in contents
            for name, weight in content.weights.items()
        },
        notes=tuple(
            dict.fromkeys(note for content in contents for note in content.notes)
        ),
    )


def imported(parsed: ParsedFile, name: str, path: Path) -> ImportedJudgments:
    """Return the cases, judgments and settings of a file's records.

    Raises:
        DatasetError: If it has no judgments, or judgments of two kinds.
    """
    if not parsed.records:
        raise DatasetError(
            "has no judgments", where=str(path), remedy="use another file"
        )
    if len({len(record.shown) for record in parsed.records}) > 1:
        problem = "has both scores of single responses and winners of pairs"
        raise DatasetError(
            problem, where=str(path), remedy="import each kind separately"
        )
    cases, judgments, notes = to_cases(parsed, name)
    settings, guessed = describe_settings(parsed, judgments)
    if parsed.benchmark is not None:
        settings["dataset"] = {"benchmark": parsed.benchmark}
    lost = sum(judgment.status != "ok" for _, judgment in judgments.by_case())
    extra = [LOST.format(lost, len(judgments))] if lost and not parsed.unread else []
    if (
        path.is_dir()
        and not parsed.below
        and (below := sum(1 for _ in path.glob("*/**/*.json*")))
    ):
        extra.append(UNREAD.format(below))
    all_notes = (*parsed.notes, *notes, *guessed, *extra)
    return ImportedJudgments(
        tuple(cases),
        judgments,
        settings,
        all_notes,
        unread=parsed.unread,
        format=name,
    )


def _with_remedy(
    bad: ConfigError, name: str, start: Peek, options: Options
) -> ConfigError:
    """Return the error, with a better remedy if a file of a known format was imported
    as generic.
    """
    if name != GENERIC or options.fields or (remedy := format_names(start)) is None:
        return bad
    return type(bad)(bad.what, where=bad.where, remedy=remedy)


def complete_only(
    cases: Sequence[Case], judgments: Sequence[Judgment]
) -> tuple[list[Case], list[Judgment]]:
    """Return the cases with only readable judgments, and their judgments."""
    broken = {judgment.case_id for judgment in judgments if not judgment.readable}
    kept = [case for case in cases if case.id not in broken]
    return kept, [judgment for judgment in judgments if judgment.case_id not in broken]
