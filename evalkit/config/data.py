"""The config group `dataset`, with its defaults: where cases come from, and how rows become cases."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from evalkit.config.sections import PluginSection, Section, Spelling


class SampleConfig(Section):
    """Which rows to draw: `n` of them or a `fraction`; with `stratify`, of each value of a column its share."""

    n: Annotated[int, Field(gt=0)] | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int = 0
    stratify: str | None = None

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.n is None) == (self.fraction is None):
            raise ValueError("give either n or fraction: for example 'dataset.sample={n: 100, seed: 1}'")
        return self


class JoinConfig(Section):
    """Rows of further files, added to each row that has the same values in the columns `by` (there called `key`).

    `columns` adds the one matching row as an object under the join's name; `responses` adds each matching row as a
    response, its `text` and `model` as `dataset.fields` names columns, the model by the file's name where a row has
    none; `labels` adds each as a `label`, of the person named in `annotator`, or as the grade of `model`'s response.
    """

    path: str
    format: str | None = None
    by: str | tuple[str, ...]
    key: str | tuple[str, ...] | None = None
    add: Literal["columns", "responses", "labels"] = "columns"
    text: str = "text"
    model: str | None = None
    label: str = "label"
    annotator: str | None = None

    @model_validator(mode="after")
    def _same_count(self) -> Self:
        if len(self.theirs) != len(self.ours):
            raise ValueError("by and key name different numbers of columns: give one of key for each of by")
        return self

    @property
    def ours(self) -> tuple[str, ...]:
        """The columns of the data set's rows."""
        return (self.by,) if isinstance(self.by, str) else self.by

    @property
    def theirs(self) -> tuple[str, ...]:
        """The columns of the file that is joined."""
        key = self.ours if self.key is None else self.key
        return (key,) if isinstance(key, str) else key


Meaning = Literal["A", "B", "TIE"] | Annotated[float, Field(allow_inf_nan=False)]
_ENTRY = re.compile(r"\s*(.+?)\s*=\s*(A|B|TIE|[-+.\deE]+)\s*(?:,|$)", re.S)


def _written_map(given: object) -> object:
    """Read the text form of a label map, `A>B=A, B>A=B`; a label may hold commas and equals signs."""
    if not isinstance(given, str):
        return given
    found: dict[str, str] = {}
    place = 0
    while place < len(given.rstrip(", ")):
        entry = _ENTRY.match(given, place)
        if entry is None:
            raise ValueError('is not a list of LABEL=A, LABEL=B or LABEL=TIE: for example "A>B=A, B>A=B, same=TIE"')
        if found.setdefault(entry[1], entry[2]) != entry[2]:
            raise ValueError(f"'{entry[1]}' is mapped twice: to {found[entry[1]]} and to {entry[2]}: keep one")
        place = entry.end()
    return found


class DatasetConfig(PluginSection):
    """Which cases, from where, and how rows become cases.

    `path` is a file, a pattern, a folder, `-`, `evalkit:…`, `mlflow:…`, `runs:/…`, or what a Hugging Face data set goes
    by, of which `subset`, `split` and `revision` tell the part. `fields` maps canonical field to column, to a path in
    one, or to a Jinja template of columns; `label_map` other spellings of labels to A, B, TIE or a grade, as a mapping
    or as text (`A>B=A, B>A=B`). `join` adds rows of
    further files; then come `filter` (a Jinja expression), `sample`, `shuffle_seed` and `limit`, in this order.
    Of texts longer than `max_chars` the beginning and the end are kept. `nulls` says what becomes of a row whose prompt
    or response is null. `benchmark` names a published one: its files are read as its authors publish them, unless
    `format` says otherwise, and its own metrics are added; `baseline` is the model that its others are compared with.
    """

    named: ClassVar[str] = "format"

    path: str | None = None
    format: str | None = None
    benchmark: str | None = None
    baseline: str | None = None
    subset: str | None = None
    split: str | None = None
    revision: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    label_map: Annotated[dict[Spelling, Meaning], BeforeValidator(_written_map)] = {}  # noqa: RUF012
    join: dict[str, JoinConfig] = {}  # noqa: RUF012
    filter: str | None = None
    sample: SampleConfig | None = None
    shuffle_seed: int | None = None
    limit: Annotated[int, Field(gt=0)] | None = None
    max_chars: Annotated[int, Field(gt=0)] | None = None
    nulls: Literal["refuse", "empty", "leave_out"] = "refuse"
