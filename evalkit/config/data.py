"""The config groups `dataset` (the source of the cases, and how rows become cases) and
`gate`, with defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from evalkit.config.kinds import Program, ReadPath, Text
from evalkit.config.section_base import Section
from evalkit.config.sections import PluginSection, Spelling
from evalkit.config.table_reading import TableReading


class SampleConfig(Section):
    """Which rows to sample: `n` of them, or a `fraction`."""

    n: Annotated[int, Field(gt=0)] | None = None
    """Number of rows."""
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the rows."""
    seed: int = 0
    """Seed of the sample."""
    stratify: Text | None = None
    """Column whose values keep their shares in the sample."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        # Both or neither: the size of the sample would be unclear.
        if (self.n is None) == (self.fraction is None):
            raise ValueError(
                "set either n or fraction: for example 'dataset.sample={n: 100, seed: 1}'"
            )
        return self


class JoinConfig(Section):
    """Rows of another file that are added to each row with the same values."""

    path: ReadPath
    """The file to join."""
    format: Program | None = None
    """Its format; by default detected from its name."""
    by: Text | tuple[Text, ...]
    """Column or columns of the dataset to match."""
    key: Text | tuple[Text, ...] | None = None
    """The same columns in the joined file, if they have other names."""
    add: Literal["columns", "responses", "labels"] = "columns"
    """What to add: the one matching row as an object (`columns`), or each matching row as a
    response or a label."""
    text: Text = "text"
    """Column of a response's text."""
    model: Text | None = None
    """Column of a response's model; by default the name of the file."""
    label: Text = "label"
    """Column of a label."""
    annotator: Text | None = None
    """Column of the annotator's name."""
    reading: TableReading | ReadPath | None = None
    """How the labels are read, as `evalkit check` read another file: the file that it saves with
    `--save`, or its content. A word that the reading does not know is an error."""

    @model_validator(mode="after")
    def _reading_of_labels(self) -> Self:
        if self.reading is not None and self.add != "labels":
            raise ValueError(
                "reading says what labels mean: set add=labels, or remove reading"
            )
        return self

    @model_validator(mode="after")
    def _same_count(self) -> Self:
        # Columns are matched by position.
        if len(self.theirs) != len(self.ours):
            raise ValueError(
                "by and key have different numbers of columns: list one column in key for each"
                " in by"
            )
        return self

    @property
    def ours(self) -> tuple[str, ...]:
        """The columns of the dataset's rows."""
        if isinstance(self.by, str):
            return (self.by,)
        return self.by

    @property
    def theirs(self) -> tuple[str, ...]:
        """The columns of the joined file."""
        key = self.ours if self.key is None else self.key
        if isinstance(key, str):
            return (key,)
        return key


class SplitConfig(Section):
    """Rows for choosing a configuration (`dev`) and rows for the final figures (`test`)."""

    use: Literal["dev", "test", "all"] = "all"
    """Which side to judge."""
    column: Text | None = None
    """Column with `dev` or `test`; rows with another value are on neither side."""
    fractions: (
        dict[Literal["dev", "test"], Annotated[float, Field(gt=0, lt=1)]] | None
    ) = None
    """Shares of the sides; a hash of the group decides, so a row keeps its side when the file
    grows."""
    seed: int = 0
    """Seed of the hash."""
    by: Text = "prompt"
    """Column of the group that stays on one side: `prompt` or another column."""
    hub: Text | None = None
    """Split of a Hugging Face dataset to read before this one is applied."""

    @model_validator(mode="after")
    def _check_one_rule(self) -> Self:
        """Check that one rule decides the sides: a column, or shares that add up to 1."""
        if self.column is not None and self.fractions is not None:
            raise ValueError("set either column or fractions")
        if self.fractions is not None and (
            len(self.fractions) < 2 or abs(sum(self.fractions.values()) - 1) > 1e-9
        ):
            raise ValueError(
                "fractions needs shares of dev and test that add up to 1: {dev: 0.5, test: 0.5}"
            )
        # Without a rule for the sides, the other side would silently be judged, too.
        if self.column is None and self.fractions is None and self.use != "all":
            raise ValueError(
                "needs column or fractions: for example 'dataset.split={column: split, use: dev}'"
            )
        return self


class HoldoutConfig(Section):
    """Labels that no report shows until `evalkit align` proves a better judge with
    them; a number is the `share`.
    """

    share: Annotated[float, Field(gt=0, lt=1)]
    """Share of the clusters of cases whose labels are held out."""
    seed: int = 0
    """Seed of the split."""

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return value
        return {"share": value}


Meaning = Annotated[
    Literal["A", "B", "TIE"] | Annotated[float, Field(allow_inf_nan=False)] | Text,
    Field(union_mode="left_to_right"),
]
_ENTRY = re.compile(r"\s*(.+?)\s*=\s*(A|B|TIE|[-+.\deE]+)\s*(?:,|$)", re.S)
_CLASS_ENTRY = re.compile(r"\s*(.+?)\s*=\s*([^,=]*[^,=\s])\s*(?:,|$)", re.S)


def parse_label_map(value: object) -> object:
    """Parse a label map in text form, such as `A>B=A, B>A=B`.

    A label may contain commas and equals signs.

    Raises:
        ValueError: If a text has another form, or maps a label twice.
    """
    if isinstance(value, Mapping):  # YAML reads an unquoted true as a boolean
        return {
            str(key).lower() if isinstance(key, bool) else key: meaning
            for key, meaning in value.items()
        }
    if not isinstance(value, str):
        return value
    try:
        # First as winners and grades, so that `A>B=A` is not read as a class.
        return _parse_entries(value, _ENTRY)
    except ValueError as problem:
        try:
            return _parse_entries(value, _CLASS_ENTRY)
        except ValueError:
            # The first error explains the usual form.
            raise problem from None


LabelMap = Annotated[dict[Spelling, Meaning], BeforeValidator(parse_label_map)]


def _parse_entries(value: str, form: re.Pattern[str]) -> dict[str, str]:
    """Return the labels in a text of entries such as `A>B=A`, by the words that mean them.

    Raises:
        ValueError: If a part is not an entry, or a word has two meanings.
    """
    labels: dict[str, str] = {}
    position = 0
    # Entries follow each other without a gap: what does not match is an error and is not skipped.
    while position < len(value.rstrip(", ")):
        entry = form.match(value, position)
        if entry is None:
            raise ValueError(
                'is not a list of LABEL=A, LABEL=B or LABEL=TIE: for example "A>B=A, B>A=B,'
                ' same=TIE"'
            )
        if labels.setdefault(entry[1], entry[2]) != entry[2]:
            raise ValueError(
                f"'{entry[1]}' is mapped to both {labels[entry[1]]} and {entry[2]}: keep one of"
                " them"
            )
        position = entry.end()
    return labels


_WITHOUT_READING = ("fields", "label_map", "benchmark", "join")
"""Other settings of how rows become cases."""


class DatasetConfig(PluginSection):
    """Which cases are judged, and how rows become cases."""

    named: ClassVar[str] = "format"

    path: ReadPath | list[ReadPath] | None = None
    """File, folder, glob, `-` (stdin), `evalkit:…`, `mlflow:…`, `runs:/…`, the name of a Hugging
    Face dataset, another tool's log, `mlflow-traces:EXPERIMENT`, or several logs, whose answers to
    the same sample are one case."""
    format: Program | None = None
    """Format of the file, `cases` for a run's `cases.jsonl`, or the name of a plug-in's format; by
    default detected."""
    benchmark: Text | None = None
    """Published benchmark: its files are read as its authors publish them, and its own metrics are
    added."""
    baseline: Text | None = None
    """Model that the benchmark's other models are compared with."""
    subset: Text | None = None
    """Subset of a Hugging Face dataset."""
    split: Text | SplitConfig | None = None
    """Split of a Hugging Face dataset by name, or a division into `dev` and `test`:
    `{column: split, use: dev}` or `{fractions: {dev: 0.5, test: 0.5}, use: dev}`."""
    holdout: HoldoutConfig | None = None
    """Share of the labels to hold out from every report, such as 0.3, for `evalkit align`."""
    revision: Text | None = None
    """Revision of a Hugging Face dataset."""
    fields: dict[str, Text] = {}  # noqa: RUF012 - pydantic copies it
    """Maps evalkit's fields to columns, paths in columns, or Jinja templates of columns."""
    reading: TableReading | ReadPath | None = None
    """How a table is read, as `evalkit check` did: the file that it saves with `--save`, or its
    content. A column that changed is an error."""
    label_map: LabelMap = {}  # noqa: RUF012
    """Maps labels to A, B, TIE, a grade or a class: a mapping, or text such as `A>B=A, B>A=B`."""
    label_source: Literal["annotators", "rules", "model", "judge"] | None = None
    """Where the labels come from: `annotators`, `rules` (a program or an answer key), `model`
    (another model), or `judge` (the judged tool itself, so that they show nothing)."""
    join: dict[str, JoinConfig] = {}  # noqa: RUF012
    """Files whose rows are added to each row, by name."""
    filter: Text | None = None
    """Jinja expression; rows for which it is false are omitted."""
    sample: SampleConfig | None = None
    """Sample of the rows, after `filter`."""
    shuffle_seed: int | None = None
    """Shuffle the rows with this seed, after `sample`."""
    limit: Annotated[int, Field(gt=0)] | None = None
    """Use only this many rows, after `shuffle_seed`."""
    max_chars: Annotated[int, Field(gt=0)] | None = None
    """Keep only the beginning and end of longer texts."""
    fit: Literal["ends"] | None = None
    """With `ends`: keep only the beginning and end of a case's longest texts, as much as fits in
    `judge.context`; in numbered turns, of the longest results of tools first. By default a request
    that does not fit is a failure.
    """
    images: Literal["send", "omit"] = "send"
    """What to do with pictures in messages: `send` them to the judge, which must have vision, or
    `omit` them, which limits every conclusion."""
    max_images: Annotated[int, Field(gt=0, le=100)] = 20
    """Most pictures of a case."""
    max_image_bytes: Annotated[int, Field(gt=0, le=20_000_000)] = 5_000_000
    """Largest picture, in bytes."""
    nulls: Literal["refuse", "empty", "leave_out"] = "refuse"
    """What to do with a row whose prompt or response is null: refuse it, read it as empty text, or
    omit it."""
    unit: Literal["conversation", "turn", "step"] = "conversation"
    """What a verdict is about: a `conversation`, each `turn` (an agent's reply to a message of a
    user, with its calls), or each `step` (one message of an agent, with the results of its calls).
    """
    after: bool = False
    """With `unit` turn or step: show the judge also what follows the judged turn or step."""

    @model_validator(mode="after")
    def _after_a_unit(self) -> Self:
        if self.after and self.unit == "conversation":
            raise ValueError(
                "after needs parts of a conversation: set dataset.unit=turn or dataset.unit=step"
            )
        return self

    @property
    def has_turns(self) -> bool:
        """Whether the texts of cases are numbered turns of conversations."""
        # Messages of a case are numbered as turns, also if whole conversations are judged.
        mapped = any(name.partition("_")[0] == "messages" for name in self.fields)
        return self.unit != "conversation" or mapped

    @model_validator(mode="after")
    def _one_reading(self) -> Self:
        # Two descriptions of the same columns could contradict each other.
        other_keys = [key for key in _WITHOUT_READING if getattr(self, key)]
        if self.reading is not None and other_keys:
            raise ValueError(
                f"reading says how the table is read, and {other_keys[0]} too: set one of them"
            )
        return self

    @model_validator(mode="after")
    def _plain_labels(self) -> Self:
        if self.holdout is not None and self.benchmark is not None:
            raise ValueError(
                "holdout does not work with a benchmark, whose rule may read labels in other"
                " columns: set split instead"
            )
        return self

    @property
    def hub_split(self) -> str | None:
        """The split of a Hugging Face dataset."""
        if isinstance(self.split, SplitConfig):
            return self.split.hub
        return self.split

    @property
    def division(self) -> SplitConfig | None:
        """The division into `dev` and `test`, if one is set."""
        split = self.split
        if isinstance(split, SplitConfig) and (split.column or split.fractions):
            return split
        return None


BOUND = re.compile(
    r"(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)", re.IGNORECASE
)
NUMBERS = ("value", "low", "high", "worst_low", "worst_high")


def _bounds(text: str) -> str:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not BOUND.fullmatch(part):
            raise ValueError(
                "is not a bound: write '>= 0.9', '<= 0.1' or both, as '>= 0.4, <= 0.6'"
            )
    return ", ".join(parts)


Bounds = Annotated[Text, AfterValidator(_bounds)]


class MetricRule(Section):
    """Bounds of one metric: on its value, its interval or its worst-case bounds."""

    value: Bounds | None = None
    """Bounds on the value, such as `>= 0.9`."""
    low: Bounds | None = None
    """Bounds on the lower end of the interval."""
    high: Bounds | None = None
    """Bounds on the upper end of the interval."""
    worst_low: Bounds | None = None
    """Bounds on the value if every missing answer had lowered it."""
    worst_high: Bounds | None = None
    """Bounds on the value if every missing answer had raised it."""
    by: Literal["interval", "value"] | None = None
    """Decide a bound on `value` by the whole interval, or by the value alone; by default as in
    `gate.by`."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Return a rule as a mapping; a text alone is a bound on the value.

        Raises:
            ValueError: If it is neither, or has an unknown key.
        """
        if isinstance(value, str):
            # The short form: a bound on the value.
            return {"value": value}
        if not isinstance(value, Mapping):
            raise ValueError("is not a rule: write '>= 0.9', or {low: '>= 0.6'}")
        if unknown := sorted(set(map(str, value)) - set(cls.model_fields)):
            raise ValueError(
                f"has the unknown key '{unknown[0]}': choose from {', '.join(cls.model_fields)}"
            )
        return value

    @model_validator(mode="after")
    def _something(self) -> MetricRule:
        if not self.bounds():
            raise ValueError("has no bound: write '>= 0.9', or {low: '>= 0.6'}")
        return self

    def bounds(self) -> list[tuple[str, str, float]]:
        """Return each bound as (field, sign, limit)."""
        texts = [(name, getattr(self, name)) for name in NUMBERS]
        return [
            (name, sign, float(limit))
            for name, text in texts
            if text is not None
            # A text may have two bounds.
            for sign, limit in BOUND.findall(text)
        ]


class LeadRule(Section):
    """A metric must be no worse than in another run, on the cases that both have."""

    run: ReadPath
    """Run folder or MLflow run id of the other run."""
    metric: Text = "agreement/accuracy"
    """The metric to compare."""
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How much worse it may be."""
    better: Literal["higher", "lower"] | None = None
    """Which direction is better, if evalkit does not know the metric."""


def _as_tuple(value: Any) -> Any:
    if isinstance(value, Mapping | LeadRule):
        return (value,)
    return value


def _as_choice(value: Any) -> Any:
    """Return what a column may be, written as a value, a list, or `not` of these, as
    lists of texts.
    """
    choice = value if isinstance(value, Mapping) else {"in": value}
    if not choice or set(choice) - {"in", "not"}:
        raise ValueError("is not a choice of values: write [en, fr], or {not: [de]}")
    return {
        str(key): [
            str(part) for part in (values if isinstance(values, list) else [values])
        ]
        for key, values in choice.items()
    }


def _as_choices(value: Any) -> Any:
    """Return a mapping that is written as a text: the command line has no other way to
    quote the name of a column.
    """
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return value


Choice = Annotated[
    dict[Literal["in", "not"], list[Spelling]], BeforeValidator(_as_choice)
]
"""Values of a column: those in a list, or all but those in a list."""


class GateConfig(Section):
    """The goals of a run; each additional key is the name of a metric, and its value is
    the metric's rule.
    """

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())
    __pydantic_extra__: dict[str, MetricRule]

    by: Literal["interval", "value"] = "interval"
    """Decide bounds by the whole interval, or by the value alone."""
    undecided: Literal["pass", "fail", "exit_5"] = "pass"
    """Whether a rule that the interval leaves open passes, fails, or makes the exit status 5."""
    decision: Literal["order", "rates_corrected", "rates", "single"] | None = None
    """What the judge must at least be good for: `rates` over many, corrected by labels or not, or
    `single` verdicts."""
    where: Annotated[dict[str, Choice], BeforeValidator(_as_choices)] = {}  # noqa: RUF012
    """Cases that the gate is limited to, by column: `{language: [en, fr]}`, or all others with
    `{language: {not: [de]}}`; bins are named as in the decision, such as `812..2300`, and two
    columns as `{"language × channel": {not: ["de / web"]}}`. Every rule is then about these cases
    alone.
    """
    no_worse_than: Annotated[
        tuple[LeadRule, ...] | None, BeforeValidator(_as_tuple)
    ] = None
    """Comparisons with other runs: one rule or a list."""

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        """Check that no metric has a name so close to a setting that it is likely a misspelled one.

        Raises:
            ValueError: If one has.
        """
        for key in value if isinstance(value, Mapping) else ():
            # Any other key is the name of a metric, so a misspelled setting would silently become
            # a rule.
            if key not in cls.model_fields and (
                near := get_close_matches(str(key), cls.model_fields, 1, cutoff=0.8)
            ):
                raise ValueError(
                    f"has the unknown key '{key}': did you mean '{near[0]}'?"
                )
        return value

    @model_validator(mode="after")
    def _limits_a_rule(self) -> Self:
        if self.where and not self:
            raise ValueError(
                "where has nothing to limit: add a rule, such as decision: rates"
            )
        return self

    @property
    def rules(self) -> dict[str, MetricRule]:
        """The rules by metric name."""
        return dict(self.__pydantic_extra__ or {})

    @property
    def leads(self) -> tuple[LeadRule, ...]:
        """The rules that compare with another run."""
        return self.no_worse_than or ()

    def __bool__(self) -> bool:
        """Return whether there is any rule."""
        return bool(self.rules or self.leads or self.decision)
