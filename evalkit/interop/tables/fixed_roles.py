"""Roles of columns that are no verdicts: ids, texts, systems, orders, repeats, criteria
and the names of raters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from evalkit.config.table_reading import TableReading
from evalkit.core.display import one_line
from evalkit.core.values import frozen
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.questions import Role
from evalkit.interop.tables.words import (
    begins,
    fold,
    is_first_name,
    is_model,
    matches,
    tokens,
    word_group,
    words_in,
)

_SIDES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("a", "1", "left", "first", "chosen", "甲", "左"), "a"),
    **dict.fromkeys(("b", "2", "right", "second", "rejected", "乙", "右"), "b"),
}
_THIRD: Final = word_group("third_side")
"""Words for a third response, next to which the first two are no pair."""
_NAMED_PAIRS: Final = (("chosen", "rejected"), ("winner_response", "loser_response"))
_MOST_SHARED: Final = 20
_TRUE: Final = (("y", "true"), ("true",), ("true", "class"))
"""Names of the right classes in tables of predictions."""
PATH: Final = re.compile(r"(?<=\w)\.(?=\w)")
_ADDRESS: Final = re.compile(r"[^@\s]+@[^@\s]+\.\w+")
_RIGHT: Final = word_group("right_or_wrong")
_IDS: Final = word_group("id_word")
_MESSAGES: Final = word_group("message")
_SPEAKERS: Final = word_group("speaker")
_KINDS_OF_TASKS: Final = word_group("kind_of_task")
_RANKS: Final = word_group("rank")
_CONVERSATIONS: Final = word_group("conversation")
_LONGEST_ID: Final = 40
_MACHINES: Final = word_group("machine")
_PARTS_OF_UNITS: Final = word_group("part_of_unit")
_RATINGS: Final = word_group("single_rating")
_ESTIMATED: Final = word_group("estimated")
_SHORT: Final = word_group("short_for_annotator")
_PAIR: Final = 2
_ROLES_OF_PEOPLE: Final = words_in("role_of_people")
"""What people do, and machines may do, too."""
_OF_OTHERS: Final = ("measured", "computed", "doubt", "demographic")
"""Groups of names of columns that may go together with verdicts and are none."""
NO_LABELS: Final = "NONE"
"""The word for no labels in `--label NONE`."""
NO_JUDGES: Final = "NONE"
"""The word for no judges in `--judge NONE`."""
_ROLES_OF_OPTIONS: Final = ("id", "prompt", "order", "sample")
_BEFORE: Final = "history"
PAIR_ROLES: Final = ("response_a", "response_b", "model_a", "model_b")


@frozen
class Choices:
    """The user's choices, which overrule names and values.

    `words` maps verdict words to their meanings, `columns` roles to columns, and `keys` are columns
    that tell units apart.
    """

    judges: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    only: bool = False
    """Whether the judges and labels are exactly these."""
    unlabeled: bool = False
    """Whether the user said that there are no labels."""
    reading: TableReading | None = None
    """The reading that says what the verdicts are."""
    answers: bool = False
    """Whether rows are answers to judge, so that they need no verdicts."""

    def on_one_line(self) -> Choices:
        """Return the choices with names of columns and words as a table has them: each
        on one line.
        """
        return replace(
            self,
            judges=tuple(map(one_line, self.judges)),
            labels=tuple(map(one_line, self.labels)),
            columns={role: one_line(name) for role, name in self.columns.items()},
            words={one_line(word): value for word, value in self.words.items()},
            keys=tuple(map(one_line, self.keys)),
        )

    def named_columns(self) -> set[str]:
        """Return the names of columns that the choices have."""
        return {*self.judges, *self.labels, *self.keys, *self.columns.values()}

    def without_judges(self) -> Choices:
        """Return the choices of a table in which only people judged."""
        return replace(self, judges=(), only=bool(self.labels), answers=True)

    def with_options(self, options: Sequence[str]) -> Choices:
        """Return the choices with options of the command line, each with its value."""
        values: dict[str, list[str]] = {}
        for option, value in zip(options[::2], options[1::2], strict=True):
            values.setdefault(option, []).append(value)
        words = {}
        for pair in values.get("--map", ()):
            # A word may contain `=`, and its meaning never does.
            word, _, meaning = pair.rpartition("=")
            words[word] = meaning
        columns = {
            role: names[-1]
            for role in _ROLES_OF_OPTIONS
            if (names := values.get(f"--{role}"))
        }
        responses = values.get("--response", ())
        sides = ("response",) if len(responses) == 1 else ("response_a", "response_b")
        # Not strict: there may be no response, one, or two.
        columns |= dict(zip(sides, responses, strict=False))
        return replace(
            self,
            judges=_added(self.judges, values.get("--judge", ())),
            labels=_added(self.labels, values.get("--label", ())),
            columns={**self.columns, **columns},
            words={**self.words, **words},
            keys=_added(self.keys, values.get("--key", ())),
        )


def _added(names: Sequence[str], more_names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more_names)))


def strength(name: str) -> tuple[str, int]:
    """Return whose verdicts a column has by its name, `label` or `judge`, and how
    clearly it says so: 4 to 0.
    """
    # A column that compares verdicts is a result, not a verdict.
    if says_agreement(name):
        return "", 0
    # In order of clearness: the first rule that fits counts.
    # `GPT-4o - Human`: people judged what the model wrote.
    if is_model(name) and matches(" ".join(tokens(name)[-1:]), "human"):
        return "label", 3
    if is_model(name):
        return "judge", 4
    if _is_machine_in_role(name):
        return "judge", 3
    if matches(name, "human") or _is_numbered_annotator(name):
        return "label", 4
    # The last part of a path names whose vote it is, as in `votes.anna` or `votes.anna.score`.
    path = PATH.split(name)
    last_part = path[-1]
    if len(path) > 1 and matches(last_part, "part"):
        last_part = path[-2]
    if is_first_name(last_part) and len(tokens(last_part)) <= 3:
        return "label", 3
    if _ADDRESS.fullmatch(name.strip()):
        return "label", 3
    if matches(name, "judge"):
        return "judge", 3
    # `expected` and `target` are labels, though no person is named.
    if matches(name, "wanted"):
        return "label", 2
    if matches(name, "verdict"):
        return "judge", 2
    if matches(name, "label") or tokens(name) in _TRUE:
        return "label", 2
    if matches(name, "value") or begins(name, "criteria"):
        return "judge", 1
    return "", 0


def strength_of_column(column: TypedColumn) -> tuple[str, int]:
    """Return whose verdicts a column has, as `strength` does; levels of agreement with a
    statement are verdicts, and `agrees: yes` compares some.
    """
    if (
        column.kind == "ordered"
        and len(column.words) > 2
        and says_agreement(column.name)
    ):
        words = [part for part in tokens(column.name) if not matches(part, "agreement")]
        return strength(" ".join(words))
    return strength(column.name)


def _is_machine_in_role(name: str) -> bool:
    """Return whether a name says that a machine does what people do, such as `AI质检`."""
    parts = tokens(name)
    machine = any(part in _MACHINES for part in parts) or any(
        word in part for part in parts for word in _MACHINES if not word.isascii()
    )
    roles = [part for part in parts if part in _ROLES_OF_PEOPLE]
    # `estimated_annotation`, and not `estimated_cost`.
    machine = machine or (bool(roles) and not _ESTIMATED.isdisjoint(parts))
    left = "".join(part for part in parts if part not in _MACHINES | _ESTIMATED)
    for role in _ROLES_OF_PEOPLE:
        left = left.replace(role, " ")
    # Nothing else in the name says that it is a person.
    return machine and not matches(left, "human")


def _is_numbered_annotator(name: str) -> bool:
    """Return whether a name is a short word for annotators and a number, such as `ann_1`."""
    words = tokens(name)
    return len(words) == _PAIR and words[0] in _SHORT and words[1].isdigit()


def says_agreement(name: str) -> bool:
    """Return whether a name says that a column compares verdicts: whether they are
    equal, or a judge is right.
    """
    about_verdicts = matches(name, "judge") and matches(name, "verdict")
    # `judge_verdict_correct` compares a verdict with a label; `correct` alone is a
    # verdict.
    # RAGAS asks people whether they accept what a metric says.
    accepts = PATH.split(name)[-1] == "is_accepted" and "." in name
    return (
        accepts
        or matches(name, "agreement")
        or (about_verdicts and not _RIGHT.isdisjoint(tokens(name)))
    )


def names_no_verdict(name: str) -> bool:
    """Return whether a column may go together with verdicts and, by its name, has none: a
    measure, a score of a program, a doubt, what someone is, or a comparison of verdicts.
    """
    if says_agreement(name):
        return True
    return any(matches(name, group) for group in _OF_OTHERS)


def shares_words(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether most words of a column are also those of another column, as
    verdicts of two raters are.
    """
    column = typed[name]
    # Raters of one scale use the same words; texts and systems share few.
    words = {fold(word) for word in column.words}
    if not words or len(words) > _MOST_SHARED:
        return False
    for name_of_other, values in typed.items():
        if (
            name_of_other == name
            or len(values.words) > _MOST_SHARED
            or not values.words
        ):
            continue
        # model_a and model_b share words and are no verdicts.
        if matches(name_of_other, "system") and matches(name, "system"):
            continue
        shared = words & {fold(word) for word in values.words}
        if 2 * len(shared) > len(words) and len(shared) > 1:
            return True
    return False


def is_named(name: str) -> bool:
    """Return whether a column's name says whose verdicts it has."""
    return strength(name)[1] > 1


def fixed_roles(typed: Mapping[str, TypedColumn], choices: Choices) -> list[Role]:
    """Return the roles of columns other than verdicts."""
    roles = [
        Role(column, role, "set by an option")
        for role, column in choices.columns.items()
    ]
    taken = {*choices.columns.values(), *choices.judges, *choices.labels}
    # The user's roles win over names.
    filled = {role.role for role in roles}
    for role in _pair_roles(typed, taken):
        if role.role not in filled:
            roles.append(role)
            taken.add(role.column)
    filled |= {role.role for role in roles}
    # A table of pairs has no single response or system.
    compares = {"response_a", "response_b"} <= filled
    # In this order: a column that an earlier role took is not offered to a later one.
    for name, finder in (
        ("id", _ids),
        ("order", _orders),
        ("sample", _samples),
        ("text", _reasons),
        ("reference", _references),
        ("context", _contexts),
        ("prompt", _prompts),
        ("response", _responses),
        ("model", _systems),
    ):
        if name in filled or (compares and name in ("response", "model")):
            continue
        column = next((column for column in finder(typed) if column not in taken), None)
        if column is not None:
            roles.append(Role(column, name, "name"))
            taken.add(column)
    return roles


def _pair_roles(typed: Mapping[str, TypedColumn], taken: set[str]) -> Iterator[Role]:
    """Yield the columns of two responses, and of the two systems that wrote them."""
    folded = {name.casefold(): name for name in typed}
    named = [
        (folded[first], folded[second])
        for first, second in _NAMED_PAIRS
        if first in folded and second in folded
    ]
    # {group: {base name: {side: column}}}.
    sides: dict[str, dict[tuple[str, ...], dict[str, str]]] = {}
    used = {
        name: column
        for name, column in typed.items()
        if name not in taken and column.kind != "empty"
    }
    from_zero = _numbered_from_zero(used)
    of_three = _of_three(used)
    for name, column in used.items():
        sided = [pair for pair in _sided(name) if pair[0] not in of_three]
        # response_0 and response_1 are sides, unless a response_2 follows.
        for base in from_zero:
            sided = [
                (base, side)
                for side, part in (("a", "0"), ("b", "1"))
                if tokens(name) == (*base, part)
            ] or sided
        # The first column of a side counts.
        for base, side in sided:
            group = _side_group(base, column)
            if group:
                sides.setdefault(group, {}).setdefault(base, {}).setdefault(side, name)
    for group, role in (("response", "response"), ("system", "model")):
        pairs = [
            (columns["a"], columns["b"])
            for columns in sides.get(group, {}).values()
            # Both sides, or it is no pair: `response_1` alone is one response.
            if len(columns) == 2
        ]
        # chosen and rejected are surer than columns with a side in their name.
        if group == "response" and named:
            pairs = named
        if pairs:
            first, second = pairs[0]
            yield Role(first, f"{role}_a", "name")
            yield Role(second, f"{role}_b", "name")


def _numbered_from_zero(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the names of columns numbered 0 and 1, without the numbers."""
    parts = {tokens(name) for name in names}
    return [
        name[:-1]
        for name in parts
        if name[-1:] == ("0",)
        and (*name[:-1], "1") in parts
        and (*name[:-1], "2") not in parts
        and len(name) > 1
    ]


def _of_three(names: Iterable[str]) -> set[tuple[str, ...]]:
    """Return the names of columns with a third side, without the side."""
    bases = set()
    for name in names:
        parts = tokens(name)
        if len(parts) > 1 and parts[-1] in _THIRD:
            bases.add(parts[:-1])
    return bases


def sided_pairs(
    typed: Mapping[str, TypedColumn], taken: set[str]
) -> list[tuple[str, str]]:
    """Return the pairs of columns of scores whose names differ only in the side, such as
    `score_a` and `score_b`.
    """
    return [
        pair
        for base, pair in _columns_by_side(typed, taken)
        if matches(base, "value") or is_rank(base)
    ]


def sided_raters(
    typed: Mapping[str, TypedColumn], taken: set[str]
) -> list[tuple[str, str]]:
    """Return the pairs of columns that are named after a rater and a side, such as
    `judge_a` and `judge_b`.
    """
    return [
        pair
        for base, pair in _columns_by_side(typed, taken)
        if strength(base)[1] > 2 and not (matches(base, "value") or is_rank(base))
    ]


def _columns_by_side(
    typed: Mapping[str, TypedColumn], taken: set[str]
) -> list[tuple[str, tuple[str, str]]]:
    """Return the names without the side of two columns for both sides, and the columns."""
    columns_by_base: dict[tuple[str, ...], dict[str, str]] = {}
    of_three = _of_three(typed)
    for name in typed:
        if name in taken:
            continue
        for base, side in _sided(name):
            if base not in of_three:
                columns_by_base.setdefault(base, {}).setdefault(side, name)
    return [
        (" ".join(base), (names["a"], names["b"]))
        for base, names in columns_by_base.items()
        if len(names) == 2
    ]


def is_rank(name: str) -> bool:
    """Return whether a column has ranks, of which the lowest is the best."""
    return not _RANKS.isdisjoint(tokens(name))


def _sided(name: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the words of a name without the one that names a side, and the side."""
    parts = tokens(name)
    for position, part in enumerate(parts):
        # A side alone, as a column `a`, names nothing.
        if part in _SIDES and len(parts) > 1:
            yield parts[:position] + parts[position + 1 :], _SIDES[part]
        # Chinese names have no space before the side: 回答甲.
        elif len(part) > 1 and not part.isascii() and part[-1] in _SIDES:
            yield (
                (*parts[:position], part[:-1], *parts[position + 1 :]),
                _SIDES[part[-1]],
            )


def _side_group(base: Sequence[str], column: TypedColumn) -> str:
    base_name = " ".join(base)
    # Sided scores and verdicts are raters' columns.
    if any(
        matches(base_name, group) for group in ("value", "human", "label", "verdict")
    ):
        return ""
    texts = column.kind in ("text", "list", "id", "stated") or len(base) <= 1
    systems = matches(base_name, "system") and len(base) <= 2
    if (
        matches(base_name, "response")
        and texts
        and not (systems and matches(base_name, "value"))
    ):
        return "system" if systems and not matches(base[-1], "response") else "response"
    return "system" if systems else ""


def _ids(typed: Mapping[str, TypedColumn]) -> list[str]:
    ranked = []
    for name, column in typed.items():
        if not (matches(name, "id") or _names_conversations(name, typed)):
            continue
        if len(column.counts) < 2:
            continue
        if matches(name, "rater") or is_named(name):
            continue
        # The number of one of two responses, as in `better_response_id`.
        parts = _PARTS_OF_UNITS.intersection(tokens(name))
        if parts and column.kind == "flag":
            continue
        # `rubric_item` with a few words names a criterion.
        if matches(name, "criterion") and column.kind == "class":
            continue
        # What was judged, before each time that someone judged it; a bare `id` before
        # `case_id`, and unique columns before repeated ones.
        length = len(tokens(name))
        of_rating = sum(part in _RATINGS for part in tokens(name))
        # The number of a turn is one within its conversation.
        of_turn = bool(parts) and any(
            _names_conversations(twin, typed) for twin in typed
        )
        rank = (of_turn, of_rating, length > 1, not column.is_unique)
        ranked.append((rank, name))
    ids = [name for _, name in sorted(ranked, key=lambda pair: pair[0])]
    return [name for name in ids if typed[name].kind not in ("time", "list")]


def _names_conversations(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a column such as `dialog` names conversations, next to the numbers of
    their turns, as `utterance_idx`.
    """
    if len(tokens(name)) != 1 or tokens(name)[0] not in _CONVERSATIONS:
        return False
    # Names, and not the conversations themselves.
    if max(map(len, typed[name].counts), default=0) > _LONGEST_ID:
        return False
    for twin, column in typed.items():
        words = tokens(twin)
        if twin == name or _PARTS_OF_UNITS.isdisjoint(words):
            continue
        # `turn_id`, or `turn` with numbers.
        is_number = len(words) == 1 and column.is_numeric
        if is_number or not _IDS.isdisjoint(words):
            return True
    return False


def _orders(typed: Mapping[str, TypedColumn]) -> list[str]:
    # The spellings that is_swapped reads; another word would fail there.
    order_words = {"ab", "ba", "a", "b", "true", "false", "0", "1"}
    names = []
    for name, column in typed.items():
        words = {text.strip().casefold() for text in column.counts}
        # A and B in `judge_first_order` are winners.
        wins = is_named(name) and words <= {"a", "b"}
        if words and words <= order_words and matches(name, "order") and not wins:
            names.append(name)
    return names


def _samples(typed: Mapping[str, TypedColumn]) -> list[str]:
    return [
        name
        for name, column in typed.items()
        # A unique column counts rows, and a constant one repeats nothing.
        if matches(name, "repeat")
        and not is_named(name)
        and len(column.counts) > 1
        and not column.is_unique
        and column.kind in ("number", "flag", "class", "id")
    ]


def _texts_named(typed: Mapping[str, TypedColumn], group: str) -> list[str]:
    """Return the columns whose name is of a group of texts; a verdict only if raters are named."""
    # Whose verdicts there are, by columns with a clear name.
    rated = {
        role
        for name, column in typed.items()
        if column.may_be_verdict
        for role, clear in [strength(name)]
        if clear > 1
    }
    names = []
    for name, column in typed.items():
        if not _names_texts(name, group) or not column.counts or column.kind == "time":
            continue
        # A column with an exact name and few values is a text only if both raters are clear.
        exact = len(tokens(name)) == 1
        if column.may_be_verdict and not (exact and rated == {"judge", "label"}):
            continue
        if is_named(name) and column.kind == "stated":
            continue
        # Exact names first, then names without a rater, and texts before codes.
        is_code = column.kind == "id"
        names.append(((not exact, is_named(name), is_code), name))
    return [name for _, name in sorted(names, key=lambda pair: pair[0])]


def _names_texts(name: str, group: str) -> bool:
    """Return whether a column's name is of a group of texts, and not of their ids."""
    parts = tokens(name)
    # `conversation_id` has no conversations.
    if len(parts) > 1 and parts[-1] in _IDS:
        return False
    # `conversation_history` is what was before the response.
    if parts[-1:] == (_BEFORE,) and group == "response":
        return False
    # What a user writes is a prompt, and what an assistant writes is a response.
    if not _MESSAGES.isdisjoint(parts) and not _SPEAKERS.isdisjoint(parts):
        return group == "response"
    return matches(name, group)


def _reasons(typed: Mapping[str, TypedColumn]) -> list[str]:
    """Return the columns with a judge's reasons."""
    return [
        name
        for name, column in typed.items()
        if matches(name, "text")
        and column.kind in ("text", "id", "class")
        and strength(name)[0] != "label"
    ]


def _references(typed: Mapping[str, TypedColumn]) -> list[str]:
    return _texts_named(typed, "reference")


def _contexts(typed: Mapping[str, TypedColumn]) -> list[str]:
    return _texts_named(typed, "context")


def _prompts(typed: Mapping[str, TypedColumn]) -> list[str]:
    names = _texts_named(typed, "prompt")
    return [name for name in names if not _is_kind_of_task(name, typed[name])]


def _is_kind_of_task(name: str, column: TypedColumn) -> bool:
    """Return whether a column such as `task` has few single words, which are kinds of
    tasks and not prompts.
    """
    kinds = not _KINDS_OF_TASKS.isdisjoint(tokens(name)) and column.kind == "class"
    # `coding` or `math` in a column `task`.
    return kinds and all(len(word.split()) == 1 for word in column.words)


def _responses(typed: Mapping[str, TypedColumn]) -> list[str]:
    names = _texts_named(typed, "response")
    of_three = _of_three(typed)
    # One of three responses is not the response that is judged.
    return [
        name
        for name in names
        if not matches(name, "reference") and tokens(name)[:-1] not in of_three
    ]


def _systems(typed: Mapping[str, TypedColumn]) -> list[str]:
    """Return the columns that name the system which wrote a response."""
    return [
        name
        for name, column in typed.items()
        if matches(name, "system")
        and len(tokens(name)) <= 2
        and not matches(name, "rater")
        and not matches(PATH.split(name)[-1], "prompt")
        and not matches(name, "measured")
        and not is_model(name)
        and _may_name_systems(column)
        and not column.is_unique
        and not shares_words(name, typed)
    ]


def _may_name_systems(column: TypedColumn) -> bool:
    """Return whether the values of a column may be names; one name in all rows may be any word."""
    if column.is_numeric:
        return False
    names = column.kind in ("class", "text", "id", "pair", "ordered")
    return names or len(column.counts) == 1
