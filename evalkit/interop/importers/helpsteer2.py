"""Import HelpSteer and HelpSteer2: people's ratings of one response by attribute are labels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import PERSON, assessment
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_ATTRIBUTES: Final = (
    *("helpfulness", "correctness", "coherence", "complexity", "verbosity"),
)
_ANNOTATORS: Final = "annotators"


def _sniff(start: Peek) -> bool:
    """Return whether rows have the published columns and no others: one could be a judge's."""
    return {*map(str, start.row)} == {"prompt", "response", *_ATTRIBUTES}


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each response, with the ratings of its attributes."""
    units = [
        Assessed(
            {
                "id": str(index),
                "prompt": text(row.get("prompt")),
                "response": text(row.get("response")),
            },
            tuple(
                assessment(name, _ANNOTATORS, PERSON, number(row.get(name)))
                for name in _ATTRIBUTES
            ),
        )
        for index, (_, row) in enumerate(rows_of(path))
    ]
    return read_assessed(path, units, options)


IMPORTER: Final = Importer(
    "helpsteer2",
    "HelpSteer2: people's ratings of responses by attribute",
    _sniff,
    _read_records,
    is_log=True,
)
