"""Find the roles of a table's columns from names (English and Chinese), values and cardinality.

`read_table` turns rows into records. A name such as human, label, gold or annotator makes a label;
model, judge, verdict or score makes a judge. If both stay open, `AmbiguousTableError` lists both
readings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from functools import cache, partial
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from evalkit.datasets.formats import Placed
from evalkit.datasets.labels import normalize_label
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.foreign_files.judgment_files import is_infinite, number, text
from evalkit.foreign_files.layouts import Unit, judgment_of, record_of
from evalkit.foreign_files.records import (
    NONE,
    NOTHING,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
)
from evalkit.interop.verdict_words import (
    LONGEST_WORD,
    POLARITY,
    SENTINEL,
    WINNERS,
    verdicts_among,
    word_of,
)
from evalkit.values import Json, JsonObject, frozen

Rows: TypeAlias = Sequence[Placed]
Rater: TypeAlias = Literal["judge", "label"]

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": (
        "id",
        "uid",
        "key",
        "index",
        "idx",
        "case",
        "item",
        "编号",
        "样本",
        "序号",
        "题号",
    ),
    "prompt": (
        "prompt",
        "question",
        "input",
        "query",
        "instruction",
        "task",
        "问题",
        "提示",
        "指令",
        "题目",
    ),
    "response": (
        "response",
        "answer",
        "output",
        "completion",
        "reply",
        "generation",
        "回答",
        "回复",
        "答案",
        "输出",
    ),
    "model": ("model", "system", "模型", "系统"),
    "order": ("order", "shown", "position", "swapped", "顺序", "次序"),
    "sample": ("sample", "repeat", "trial", "attempt", "重复", "轮次"),
    "rater": (
        "rater",
        "annotator",
        "judge",
        "grader",
        "evaluator",
        "reviewer",
        "source",
        "评审",
        "裁判",
        "标注者",
        "评分者",
    ),
    "text": (
        "reason",
        "rationale",
        "explanation",
        "comment",
        "feedback",
        "理由",
        "解释",
    ),
    "reference": ("reference", "参考"),
}
_STRENGTH: Final[Mapping[Rater, tuple[tuple[int, tuple[str, ...]], ...]]] = {
    "label": (
        (
            3,
            (
                "human",
                "gold",
                "annotator",
                "expert",
                "truth",
                "crowd",
                "majority",
                "manual",
                "人工",
                "专家",
                "真值",
                "人类",
            ),
        ),
        (2, ("label", "labels", "标注", "标签", "target", "expected")),
    ),
    "judge": (
        (
            3,
            ("judge", "model", "llm", "auto", "grader", "裁判", "模型", "机器", "自动"),
        ),
        (
            3,
            (
                "gpt",
                "claude",
                "gemini",
                "llama",
                "qwen",
                "mistral",
                "deepseek",
                "haiku",
                "sonnet",
                "prometheus",
            ),
        ),
        (2, ("verdict", "prediction", "predicted", "pred", "判定", "裁决")),
        (1, ("score", "winner", "评分", "得分", "分数")),
    ),
}
_SUFFIX: Final = {
    "a": "a",
    "1": "a",
    "left": "a",
    "甲": "a",
    "b": "b",
    "2": "b",
    "right": "b",
    "乙": "b",
}
_OF_JUDGMENTS: Final = frozenset({"text", "order", "sample", "model_a", "model_b"})
"""Roles of columns that say more of a row's judgments than its verdicts do."""
_WORDS: Final = {**POLARITY, **WINNERS}
_NAMER: Final = "judge's name"
_MOST_CLASSES: Final = 12
_SAMPLED: Final = 1000
"""The number of distinct values from which the kind of a column is found."""
_LONGEST_CELL: Final = 1_000_000
_NEAR_EMPTY: Final = 0.1
_FEW: Final = 20


@frozen
class Role:
    """The role of a column, and why it has it."""

    column: str
    role: str
    why: str


@frozen
class Choices:
    """The user's choices, which overrule names and values; `words` maps verdict words to their meanings."""

    judges: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


@frozen
class Table:
    """A table as records, with the roles of its columns and warnings about its data."""

    parsed: ParsedFile
    roles: tuple[Role, ...]
    warnings: tuple[str, ...]


class _Columns:
    """The columns of a table, in order, with the distinct values of each."""

    def __init__(self, rows: Rows, named: Sequence[str] = ()) -> None:
        self.rows = rows
        self.names = list(dict.fromkeys(name for _, row in rows for name in row))
        self._texts: dict[str, Counter[str]] = {}
        self._values: dict[str, Counter[str]] = {}
        raters = [
            name
            for name in self.names
            if name in named or any(_evidence(name, one) for one in _STRENGTH)
        ]
        self._verdicts = verdicts_among(
            word for name in raters for word in self.texts(name)
        )

    def texts(self, name: str) -> Counter[str]:
        """Return the texts of a column, with their counts."""
        if name not in self._texts:
            cells = (row.get(name) for _, row in self.rows)
            self._texts[name] = Counter(
                cell if isinstance(cell, str) else normalize_label(cell)
                for cell in cells
                if cell is not None
            )
        return self._texts[name]

    def verdicts(self, name: str) -> frozenset[str]:
        """Return the words for no verdict that are verdicts in a column."""
        return self._verdicts | verdicts_among(self.texts(name))

    def values(self, name: str) -> Counter[str]:
        """Return the normalized values of a column, without those that state that there is none, with their counts."""
        if name not in self._values:
            values = Counter[str]()
            verdicts = self.verdicts(name)
            for cell, count in self.texts(name).items():
                if not _states_nothing(cell, verdicts):
                    values[
                        cell if len(cell) > LONGEST_WORD else normalize_label(cell)
                    ] += count
            self._values[name] = values
        return self._values[name]


class AmbiguousTableError(ConfigError):
    """A table that can be read in several ways, each a list of options; `heading` introduces their commands."""

    def __init__(
        self, what: str, where: str, readings: Sequence[Sequence[str]], heading: str
    ) -> None:
        super().__init__(what, where=where)
        self.readings = readings
        self.heading = heading


def read_table(rows: Rows, where: str, choices: Choices) -> Table:
    """Return the records of a table.

    Args:
        rows: Its rows with their locations.
        where: Its name.
        choices: The user's choices.

    Raises:
        AmbiguousTableError: If two readings are equally likely.
        DatasetError: If it has too few rows, no verdicts, or words that are no verdicts.
    """
    if len(rows) < 2:
        what = (
            "has no rows"
            if not rows
            else "has only one row, which shows nothing about a judge"
        )
        raise DatasetError(
            what, where=where, remedy="use a table with one row for each verdict"
        )
    for place, row in rows:
        for name, cell in row.items():
            if isinstance(cell, str) and len(cell) > _LONGEST_CELL:
                what = f"column '{name[:60]}' has a cell with {len(cell):,} characters"
                raise DatasetError(
                    what, where=place, remedy=f"shorten it to {_LONGEST_CELL:,}"
                )
    named = (*choices.judges, *choices.labels)
    columns = _Columns(rows, named)
    names = columns.names
    rater = _rater_column(columns, names)
    for name in (*choices.columns.values(), *(() if rater else named)):
        if name not in names:
            raise ConfigError(
                f"has no column '{name}'", where=where, remedy=did_you_mean(name, names)
            )
    roles = _fixed_roles(columns, choices)
    warnings = [
        f"column '{name}' is nearly empty ({filled} of {len(rows)} cells)"
        for name in names
        if (filled := columns.values(name).total()) < _NEAR_EMPTY * len(rows)
    ]
    if rater and (value := _value_column(columns, roles, rater)):
        rows, raters = _widened(rows, roles, rater, value)
        columns = _Columns(rows, raters)
        roles = [one for one in roles if one.column not in (rater, value)]
        roles += [
            Role(rater, "rater", f"{len(raters)} names"),
            Role(value, "value", "the rater's verdict"),
        ]
        candidates = raters
    else:
        taken = {one.column for one in roles}
        candidates = [
            name
            for name in names
            if name in named or (name not in taken and _is_verdict(columns, name))
        ]
        if namer := _namer_column(
            columns, [name for name in names if name not in taken], candidates
        ):
            roles.append(Role(namer, _NAMER, "names the judge of each row"))
            candidates = [name for name in candidates if name != namer]
    judges, labels = _raters(rows, where, candidates, choices)
    roles += [
        Role(name, role, why)
        for role, names in (("judge", judges), ("label", labels))
        for name, why in names.items()
    ]
    known = {one.column for one in roles}
    roles += [
        Role(name, "metadata", "kept for slices") for name in names if name not in known
    ]
    unused = (name for name in candidates if name not in names and name not in known)
    roles += [
        Role(name, "unused", "a judge or an annotator? name it: --judge or --label")
        for name in unused
    ]
    unit, convert, from_texts = _kind(
        columns, list(judges), list(labels), where, roles, choices
    )
    verdicts = {
        name: [convert(row.get(name)) for _, row in rows] for name in (*judges, *labels)
    }
    if from_texts:
        warnings.append(
            f"verdicts read from the beginning or end of a text: {from_texts}"
        )
    warnings += _warnings(rows, verdicts, judges, labels, roles, unit)
    records = list(_records(rows, verdicts, roles, list(judges), list(labels), unit))
    position = {name: index for index, name in enumerate(names)}
    ordered = sorted(roles, key=lambda one: position.get(one.column, len(names)))
    return Table(ParsedFile(records), tuple(ordered), tuple(warnings))


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and (not cell or cell.isspace()))


def _states_nothing(cell: str, verdicts: Set[str]) -> bool:
    """Return whether a cell states that there is no verdict; whether `SENTINEL` does depends on the table."""
    if len(cell) > LONGEST_WORD:
        return cell.isspace()
    word = cell.strip().casefold()
    if word in NOTHING:
        return word not in verdicts and word != SENTINEL
    return is_infinite(word)


def _words(name: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return re.findall(r"[a-z]+|\d+|[\u4e00-\u9fff]+", spaced.casefold())


def _matches(name: str, nouns: Sequence[str]) -> bool:
    words = _words(name)
    return any(
        noun in words if noun.isascii() else any(noun in word for word in words)
        for noun in nouns
    )


def _evidence(name: str, rater: Rater) -> int:
    return max(
        (strength for strength, nouns in _STRENGTH[rater] if _matches(name, nouns)),
        default=0,
    )


def _fixed_roles(columns: _Columns, choices: Choices) -> list[Role]:
    """Return the roles of columns other than verdicts."""
    roles = [
        Role(column, role, "set by an option")
        for role, column in choices.columns.items()
    ]
    taken = {*choices.columns.values(), *choices.judges, *choices.labels}
    filled = {one.role for one in roles}

    def add(name: str, role: str, why: str) -> None:
        if role not in filled:
            roles.append(Role(name, role, why))
            taken.add(name)
            filled.add(role)

    for name in columns.names:
        words = _words(name)
        side = (
            _SUFFIX.get(
                words[-1][-1:] if words and not words[-1].isascii() else words[-1]
            )
            if words
            else None
        )
        for role in ("response", "model"):
            exact = len(words) == 2 and side in words
            if (
                side
                and name not in taken
                and _matches(name, _NAMES[role])
                and (exact or not _has_words(columns, name))
            ):
                add(name, f"{role}_{side}", "name")
    if not {"response_a", "response_b"} <= filled:
        for one in [
            one
            for one in roles
            if one.why == "name" and one.role.startswith("response_")
        ]:
            roles.remove(one)
            taken.discard(one.column)
            filled.discard(one.role)
    # An answer may begin with a verdict word, unless it is the only column with verdicts.
    rated = [
        any(
            _evidence(name, rater) and _is_verdict(columns, name)
            for name in columns.names
        )
        for rater in ("judge", "label")
    ]
    is_verdict = _has_words if rated[0] else partial(_is_verdict, classes=False)
    for role in (
        "id",
        "prompt",
        "order",
        "sample",
        "text",
        "reference",
        "response",
        "model",
    ):
        for name in columns.names:
            if name in taken or not _matches(name, _NAMES[role]):
                continue
            if role == "id" and len(columns.values(name)) < 2:
                continue
            named = any(
                _evidence(name, rater) > 1 + (role == "model")
                for rater in ("judge", "label")
            )
            plain = role in ("text", "model") and not _is_verdict(
                columns, name, classes=role != "model"
            )
            if role != "order" and named and not plain:
                continue
            exact = (
                all(rated) and len(_words(name)) == 1 and role in ("prompt", "response")
            )
            if (
                not exact
                and role in ("prompt", "response", "text", "reference", "model")
                and is_verdict(columns, name)
            ):
                continue
            add(name, role, "name")
    return roles


def _has_words(columns: _Columns, name: str) -> bool:
    """Return whether most cells of a column are a number or a verdict word and nothing else."""
    values = columns.values(name)
    known = _WORDS
    words = sum(
        count
        for value, count in values.items()
        if len(value) <= LONGEST_WORD
        and (value.casefold() in known or number(value) is not None)
    )
    return words >= 0.8 * values.total()


def _is_verdict(columns: _Columns, name: str, *, classes: bool = True) -> bool:
    """Return whether the values of a column can be verdicts; `classes` counts any few words too."""
    values = columns.values(name)
    if not values:
        return False
    numbers = sum(count for value, count in values.items() if number(value) is not None)
    if numbers == values.total():
        ids = (
            len(values) == len(columns.rows)
            and all(value.isdigit() for value in values)
            and len(columns.rows) > _MOST_CLASSES
        )
        return not ids
    rated = any(_evidence(name, rater) for rater in _STRENGTH)
    if rated and numbers >= 0.8 * values.total():
        return True
    known = {**_WORDS, SENTINEL: NONE}
    some = list(islice(values.items(), _SAMPLED))
    if sum(count for value, count in some if word_of(value, known)) >= 0.8 * sum(
        count for _, count in some
    ):
        return True
    few = (
        len(values) <= min(_MOST_CLASSES, max(2, len(columns.rows) // 2))
        and max(map(len, values)) <= LONGEST_WORD
    )
    return classes and few and rated


def _namer_column(
    columns: _Columns, names: Sequence[str], verdicts: Sequence[str]
) -> str | None:
    """Return the column that names the judge of each row, if exactly one other column has a judge's verdicts."""
    namer = _rater_column(columns, names, least=1)
    others = [name for name in verdicts if name != namer]
    if (
        namer is None
        or sum(_evidence(name, "judge") > _evidence(name, "label") for name in others)
        != 1
    ):
        return None
    return (
        namer
        if all(
            columns.values(name).keys().isdisjoint(columns.values(namer))
            for name in others
        )
        else None
    )


def _rater_column(
    columns: _Columns, names: Sequence[str], least: int = 2
) -> str | None:
    """Return the column of a long table that names who gave the verdict."""
    for name in names:
        values = columns.values(name) if _matches(name, _NAMES["rater"]) else {}
        if not least <= len(values) <= len(columns.rows) // 2:
            continue
        if all(
            number(value) is None and not word_of(value, _WORDS) for value in values
        ):
            return name
    return None


def _value_column(columns: _Columns, roles: Sequence[Role], rater: str) -> str | None:
    taken = {rater, *(one.column for one in roles)}
    values = [
        name
        for name in columns.names
        if name not in taken and _is_verdict(columns, name)
    ]
    ids = [one.column for one in roles if one.role == "id"]
    return (
        values[0]
        if len(values) == 1 and ids and len(columns.values(ids[0])) < len(columns.rows)
        else None
    )


def _widened(
    rows: Rows, roles: Sequence[Role], rater: str, value: str
) -> tuple[Rows, list[str]]:
    """Return a wide table: a row for each case and repeat, with a column for each rater."""
    keys = [
        one.column for one in roles if one.role in ("id", "order", "response", "model")
    ]
    wide: dict[tuple[Any, ...], Placed] = {}
    raters: dict[str, None] = {}
    for place, row in rows:
        if _is_empty(name := row.get(rater)):
            continue
        raters[str(name)] = None
        key = tuple(str(row.get(column)) for column in keys)
        repeat = 0
        while (
            str(name)
            in wide.setdefault(
                (*key, repeat), (place, {k: v for k, v in row.items() if k != value})
            )[1]
        ):
            repeat += 1
        wide[(*key, repeat)][1][str(name)] = row.get(value)
    return list(wide.values()), list(raters)


def _raters(
    rows: Rows, where: str, candidates: Sequence[str], choices: Choices
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the judges and the labels, each with the reason."""
    judges = dict.fromkeys(choices.judges, "set by --judge")
    labels = dict.fromkeys(choices.labels, "set by --label")
    unclear = []
    for name in candidates:
        if name in judges or name in labels:
            continue
        judge = _evidence(name, "judge")
        label = _evidence(name, "label")
        if (
            judge == label
            or (choices.judges and judge > label)
            or (choices.labels and label > judge)
        ):
            if judge == label:
                unclear.append(name)
        else:
            (judges if judge > label else labels)[name] = "name"
    if unclear and not judges and not labels and len(unclear) > 1:
        names = ", ".join(f"'{name}'" for name in unclear)
        what = f"the names and values of {names} leave open which is the judge"
        readings = [_options(unclear, unclear[-1]), _options(unclear, unclear[0])]
        raise AmbiguousTableError(
            what,
            where,
            readings,
            "Two readings are equally likely; use the command for yours",
        )
    if unclear and not judges:
        judges = dict.fromkeys(
            unclear,
            "values; the other column is the label" if labels else "the only verdicts",
        )
    elif unclear and not labels:
        labels = dict.fromkeys(unclear, "values; the other column is the judge")
    if not judges:
        names = ", ".join(list(rows[0][1])[:8])
        raise DatasetError(
            "has no column with a judge's verdicts",
            where=where,
            remedy=f"name it: --judge COLUMN; the columns are {names}",
        )
    if not choices.judges and not choices.labels:
        _check_one_criterion(judges, labels, where)
    return judges, labels


def _check_one_criterion(
    judges: Iterable[str], labels: Iterable[str], where: str
) -> None:
    """Raise an error if the columns are judges and people by criterion, such as gpt_safety and human_safety.

    Raises:
        AmbiguousTableError: If so, with a reading for each criterion.
    """
    nouns = [
        noun for pairs in _STRENGTH.values() for _, strong in pairs for noun in strong
    ]

    def by_criterion(names: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in names:
            words = tuple(
                word
                for word in _words(name)
                if word not in nouns and not word.isdigit()
            )
            groups.setdefault(words, []).append(name)
        return groups

    judged = by_criterion(judges)
    labeled = by_criterion(labels)
    if len(judged) < 2 or set(judged) != set(labeled) or () in judged:
        return
    readings = [
        [
            *(word for name in names for word in ("--judge", name)),
            *(word for name in labeled[key] for word in ("--label", name)),
        ]
        for key, names in judged.items()
    ]
    what = f"has verdicts by criterion ({', '.join(' '.join(key) for key in judged)})"
    raise AmbiguousTableError(what, where, readings, "Check one criterion at a time")


def _options(columns: Sequence[str], label: str) -> list[str]:
    judges = [word for name in columns if name != label for word in ("--judge", name)]
    return [*judges, "--label", label]


def _converter(
    meanings: Mapping[str, str], unit: Unit, verdicts: Set[str]
) -> Callable[[Any], Any]:
    """Return the reading of a verdict's cell: its meaning, or `None` if it is empty or a text that states none."""

    @cache
    def read(word: str) -> Any:
        known = word_of(word, meanings)
        return (
            None
            if known == NONE
            else known or (number(word) if unit == "response" else None)
        )

    @cache
    def read_text(cell: str) -> Any:
        return None if _states_nothing(cell, verdicts) else read(normalize_label(cell))

    def convert(cell: Any) -> Any:
        return (
            None
            if cell is None
            else read_text(cell if isinstance(cell, str) else normalize_label(cell))
        )

    return convert


def _kind(
    columns: _Columns,
    judges: Sequence[str],
    labels: Sequence[str],
    where: str,
    roles: Sequence[Role],
    choices: Choices,
) -> tuple[Unit, Callable[[Any], Any], int]:
    """Return what is judged, the reading of its verdicts, and how many are read from texts.

    Raises:
        DatasetError: If some words are no verdicts.
    """
    mapped = {word.casefold(): meaning for word, meaning in choices.words.items()}
    counts = {name: columns.values(name) for name in (*judges, *labels)}
    verdicts = frozenset[str]().union(*(columns.verdicts(name) for name in counts))
    values = sum(counts.values(), Counter[str]())
    numeric = {value: found for value in values if (found := number(value)) is not None}
    below_zero = any(
        found < 0 and value != SENTINEL for value, found in numeric.items()
    )
    if not below_zero and not any(SENTINEL in counts[label] for label in labels):
        mapped = {SENTINEL: NONE, **mapped}
    by_role = {one.role: one.column for one in roles}
    systems: dict[str, str] = {}
    for side in "ab":
        if column := by_role.get(f"model_{side}") or by_role.get(f"response_{side}"):
            names = (
                columns.values(column) if f"model_{side}" in by_role else {column: 1}
            )
            systems |= (
                {name.casefold(): side.upper() for name in names}
                if len(names) == 1
                else {}
            )
    if compared := {"response_a", "response_b"} <= by_role.keys():
        systems = {"1": "A", "2": "B", **systems} if "0" not in values else systems
    readings: tuple[tuple[Unit, Mapping[str, str]], ...] = (
        ("class", {**POLARITY, **mapped}),
        ("pair", {**WINNERS, **systems, **mapped}),
    )
    shares = []
    for unit, known in readings:
        unread = Counter(
            {
                value: count
                for value, count in values.items()
                if not word_of(value, known)
            }
        )
        shares.append((values.total() - unread.total(), unit, known, unread))
        if unread.total() <= 0.2 * values.total() and all(
            len(value) > LONGEST_WORD for value in unread
        ):
            same = (
                len(
                    {
                        frozenset(value.casefold() for value in counter)
                        for counter in counts.values()
                    }
                )
                == 1
            )
            plain = (
                unit == "class"
                and same
                and all(value.casefold() in known for value in values)
            )
            if plain and not choices.words:
                return (
                    unit,
                    _converter(
                        {value.casefold(): value for value in values} | mapped,
                        unit,
                        verdicts,
                    ),
                    0,
                )
            texts = sum(
                count
                for value, count in values.items()
                if value.casefold() not in known
            )
            return unit, _converter(known, unit, verdicts), texts - unread.total()
    nothing = {word: meaning for word, meaning in mapped.items() if meaning == NONE}
    words = Counter(
        {
            v: n
            for v, n in values.items()
            if v not in numeric and v.casefold() not in nothing
        }
    )
    if not words and not compared:
        return "response", _converter(nothing, "response", verdicts), 0
    seen: dict[str, int] = {}
    for counter in counts.values():
        for value in {value.casefold() for value in counter}:
            seen[value] = seen.get(value, 0) + 1
    shared = len(counts) == 1 or any(count > 1 for count in seen.values())
    few_read = max(share[0] for share in shares) < 0.5 * values.total()
    if not numeric and shared and few_read and len(seen) <= _MOST_CLASSES:
        classes = {normalize_label(value).casefold(): value for value in values}
        return "class", _converter(classes | mapped, "class", verdicts), 0
    _, unit, _, unknown = (
        shares[1] if compared and numeric else max(shares, key=lambda share: share[0])
    )
    what = "known verdicts"
    meaning = "A (or B, TIE, NONE)" if unit == "pair" else "pass (or fail, NONE)"
    if words.total() < 0.5 * values.total() and few_read and not compared:
        unknown, what, meaning = words, "numbers", NONE
    listed = ", ".join(
        f"'{value[:40]}' ({count})" for value, count in unknown.most_common(6)
    )
    remedy = f"write --map {next(iter(unknown))[:40]!r}={meaning}"
    raise DatasetError(
        f"has {len(unknown)} words that are no {what}: {listed}",
        where=where,
        remedy=remedy,
    )


def _warnings(
    rows: Rows,
    verdicts: Mapping[str, Sequence[Any]],
    judges: Mapping[str, str],
    labels: Mapping[str, str],
    roles: Sequence[Role],
    unit: Unit,
) -> Iterator[str]:
    for label in labels:
        for judge in judges:
            both = [
                pair
                for pair in zip(verdicts[judge], verdicts[label], strict=True)
                if None not in pair
            ]
            if len(both) > 1 and all(given == right for given, right in both):
                yield (
                    f"columns '{judge}' and '{label}' are identical: the labels may be copies of"
                    " the judge's verdicts"
                )
        counts = Counter(value for value in verdicts[label] if value is not None)
        for value, count in (
            sorted(counts.items(), key=str) if unit != "response" else ()
        ):
            if count < _FEW:
                yield (
                    f"'{label}' has only {count} labels '{value}'; below {_FEW}, rates of a class"
                    " are uncertain"
                )
        keys = [
            one.column
            for one in roles
            if one.role in ("id", "response", "response_a", "response_b", "model")
        ]
        has_id = any(one.role == "id" for one in roles)
        given = dict[tuple[str, ...], set[Any]]()
        for (_, row), value in zip(rows, verdicts[label], strict=True):
            if value is not None and has_id:
                given.setdefault(tuple(str(row.get(key)) for key in keys), set()).add(
                    value
                )
        if conflicts := sum(len(values) > 1 for values in given.values()):
            yield f"cases with two different labels in '{label}': {conflicts}"


def _records(
    rows: Rows,
    verdicts: Mapping[str, Sequence[Any]],
    roles: Sequence[Role],
    judges: Sequence[str],
    labels: Sequence[str],
    unit: Unit,
) -> Iterator[Record]:
    """Yield a record for each row, with the verdict of each judge that it has."""
    plain = {
        one.role: one.column
        for one in roles
        if one.role not in ("judge", "label", "metadata", "rater", "value")
    }
    if unit == "pair":
        plain = {
            role: column
            for role, column in plain.items()
            if role not in ("response", "model")
        }
    else:
        sides = ("order", "response_a", "response_b", "model_a", "model_b")
        plain = {role: column for role, column in plain.items() if role not in sides}
    metadata = [one.column for one in roles if one.role == "metadata"]
    namer = plain.pop(_NAMER, None)
    verdict = {"pair": "winner", "class": "class", "response": "score"}[unit]
    prompts: dict[str, str] = {}
    words = {
        word for given in verdicts.values() for word in given if isinstance(word, str)
    }
    options = (
        Options(winners={word: word for word in words})
        if unit == "class"
        else Options()
    )
    read = _judgment_reader(unit, options)
    for index, (place, row) in enumerate(rows):
        cells: JsonObject = {
            role: row.get(column)
            for role, column in plain.items()
            if not _is_empty(row.get(column))
        }
        cells["id"] = str(cells.get("id", text(cells.get("prompt")) or index + 1))
        if prompts.setdefault(cells["id"], text(cells.get("prompt"))) != text(
            cells.get("prompt")
        ):
            raise DatasetError(
                f"id '{cells['id'][:60]}' is already used for another prompt",
                where=place,
                remedy="use a unique id for each question, or name its column: --id COLUMN",
            )
        cells["metadata"] = {
            name: row[name] for name in metadata if not _is_empty(row.get(name))
        }
        for name in labels:
            cells["label" if len(labels) == 1 else f"label.{name}"] = verdicts[name][
                index
            ]
        given = []
        for name in judges:
            if name in row:
                cells["judge"] = (
                    "judge" if name in ("winner", "score", "class") else name
                )
                if namer and not _is_empty(row.get(namer)):
                    cells["judge"] = str(row[namer])
                cells[verdict] = verdicts[name][index]
                given.append(read(cells, place))
        if given:
            yield record_of(cells, place, unit, options, said=given)


def _judgment_reader(
    unit: Unit, options: Options
) -> Callable[[Json, str], RecordedJudgment]:
    """Return the reading of a judge's verdict; equal ones of rows that say nothing else of it are one object."""
    known: dict[tuple[Any, ...], RecordedJudgment] = {}

    def read(cells: Json, place: str) -> RecordedJudgment:
        if not _OF_JUDGMENTS.isdisjoint(cells):
            return judgment_of(cells, unit, place, options)
        verdict = tuple(
            [cells.get(name) for name in ("judge", "winner", "class", "score")]
        )
        if verdict not in known:
            known[verdict] = judgment_of(cells, unit, place, options)
        return known[verdict]

    return read
