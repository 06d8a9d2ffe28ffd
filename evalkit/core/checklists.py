"""Checklists: reading items as written in data or configs, and the order in which
prerequisites decide them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, cast

from evalkit.core.errors import did_you_mean
from evalkit.core.types import ChecklistItem, ItemAnswer
from evalkit.core.values import Json

KEYS: Final = frozenset(
    {
        "id",
        "criterion",
        "points",
        "weight",
        "required",
        "after",
        "tags",
        "parts",
        "label",
        "labels",
    }
)
MAX_ITEMS, MAX_DEPTH, MAX_TAGS = 5000, 50, 50
_MOST_LISTED = 5
"""The most items of a cycle that a message names."""
_LARGEST_NUMBER = 1e9
CONSENSUS = ""
"""The annotator of a `label`, which does not name one."""
_ANSWERS: Mapping[object, ItemAnswer | None] = {
    None: None,
    True: "met",
    False: "not_met",
    "met": "met",
    "not_met": "not_met",
    "not met": "not_met",
    "cannot_assess": "cannot_assess",
    "cannot assess": "cannot_assess",
    "true": "met",
    "false": "not_met",
    "1": "met",
    "0": "not_met",
}
Node: TypeAlias = tuple[Literal["gate", "item"], str]
"""Whether an item's prerequisites are met, or whether the item is met."""


class ChecklistError(ValueError):
    """A checklist is invalid: what is wrong, and what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.what, self.remedy = problem, remedy
        super().__init__(f"{problem}: {remedy}")


def read_items(
    value: Any,
    *,
    responses: int = 1,
    shared: Sequence[ChecklistItem] = (),
    prefix: str = "#",
    unused: Callable[[str], None] | None = None,
) -> tuple[ChecklistItem, ...]:
    """Return the items of a checklist, each group before its parts.

    Items that all cases share come before those of the case.

    An item is a text, or a mapping with the keys `KEYS`. Items without an id are numbered.

    Args:
        value: A list of items.
        responses: The number of responses of the case, each of which a label may have.
        shared: The items that all cases share.
        prefix: What precedes the number of an item without an id.
        unused: Called with each unknown key; by default an unknown key is an error.

    Raises:
        ChecklistError: If it is not a list of items, an id is duplicated, a prerequisite is unknown
            or depends on itself, or no item has positive points.
    """
    if not isinstance(value, list | tuple):
        raise ChecklistError("the checklist is not a list", "write a list of items")
    items = [*shared]
    # Iterative, because hostile data may be nested deeper than the interpreter's stack.
    todo: list[tuple[Any, str, str | None, int]] = [
        (entry, str(number), None, 1)
        for number, entry in reversed([*enumerate(value, 1)])
    ]
    while todo:
        # `number` is the position as the user counts it, such as 2.1 for the first part of item
        # 2.
        entry, number, parent, depth = todo.pop()
        if len(items) >= MAX_ITEMS:
            raise ChecklistError(
                f"the checklist has more than {MAX_ITEMS:,} items", "split the case"
            )
        if depth > MAX_DEPTH:
            raise ChecklistError(
                f"item {_shown(number)}: parts are nested deeper than {MAX_DEPTH}",
                "flatten them",
            )
        item, parts = _parse_item(entry, prefix + number, parent, responses, unused)
        items.append(item)
        todo += [
            (part, f"{number}.{k}", item.id, depth + 1)
            # reversed: `todo` is read from its end
            for k, part in reversed([*enumerate(parts, 1)])
        ]
    if not items:
        raise ChecklistError(
            "the case has no checklist items",
            "add items, set mode.checklist, or remove the case",
        )
    _check_items(items)
    return tuple(items)


def _shown(number: str) -> str:
    if len(number) <= 40:
        return number
    return f"{number[:40]}…"


def _parse_item(
    value: Any,
    number: str,
    parent: str | None,
    responses: int,
    unused: Callable[[str], None] | None,
) -> tuple[ChecklistItem, Sequence[Any]]:
    """Return an item of a checklist, and its parts, which are not yet read.

    Args:
        value: A text, or a mapping with the keys `KEYS`.
        number: Its position, such as `#2.1`; the id of an item without one.
        parent: The id of the item that it is a part of; `None` at the top.
        responses: The number of responses, for its labels.
        unused: Counts an unknown key; `None` if it is an error.

    Raises:
        ChecklistError: If a value is not what its key needs.
    """
    where = f"item {_shown(number.removeprefix('#'))}"
    if isinstance(value, str):
        value = {"criterion": value}
    if not isinstance(value, Mapping):
        raise ChecklistError(
            f"{where} is neither a text nor a mapping", "write {criterion: TEXT}"
        )
    _check_keys(value, where, unused)
    criterion = value.get("criterion")
    if not isinstance(criterion, str) or not criterion.strip():
        raise ChecklistError(
            f"{where} has no criterion", "write what to check as a text"
        )
    id_ = _parse_id(value.get("id"), where)
    required = value.get("required")
    if required not in (None, True, False):
        raise ChecklistError(
            f"{where}: required is neither true nor false", "write true or false"
        )
    parts = value.get("parts")
    if parts is None:
        parts = ()
    if not isinstance(parts, list | tuple):
        raise ChecklistError(f"{where}: parts is not a list", "write a list of items")
    tags = _parse_texts(value.get("tags"), f"{where}: tags")
    if len(tags) > MAX_TAGS:
        raise ChecklistError(f"{where} has more than {MAX_TAGS} tags", "remove some")
    weight = _parse_number(value.get("weight"), f"{where}: weight")
    if weight < 0:
        raise ChecklistError(
            f"{where}: weight is negative", "write 0 or more; points may be negative"
        )
    item = ChecklistItem(
        id=number if id_ is None else id_,
        criterion=criterion,
        points=_parse_number(value.get("points"), f"{where}: points"),
        weight=weight,
        required=bool(required),
        after=_parse_texts(value.get("after"), f"{where}: after"),
        tags=tuple(dict.fromkeys(tags)),
        parent=parent,
        labels=_parse_labels(value, responses, where),
        numbered=id_ is None,
    )
    return item, parts


def _check_keys(
    value: Mapping[Any, Any], where: str, unused: Callable[[str], None] | None
) -> None:
    """Check that an item has only known keys; `unused` counts others, if it is not `None`.

    Raises:
        ChecklistError: If an unknown key is an error.
    """
    for key in value:
        if key in KEYS:
            continue
        # In data, an unknown key is counted; in a config, it is an error, probably a misspelling.
        if unused is None:
            raise ChecklistError(
                f"{where} has no key '{key}'", did_you_mean(str(key), sorted(KEYS))
            )
        unused(str(key))


def _parse_id(value: Any, where: str) -> str | None:
    """Return the id of an item; `None` if it has none.

    Raises:
        ChecklistError: If it is not a text or an integer.
    """
    if value is None:
        return None
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    if not is_id or not str(value).strip():
        raise ChecklistError(f"{where}: its id is not a text", "write a short text")
    return str(value).strip()


def _parse_number(value: Any, subject: str) -> float:
    """Return a number; 1 if it is not set.

    Raises:
        ChecklistError: If it is not a number from -1e9 to 1e9.
    """
    if value is None:
        return 1.0
    # Sums of larger numbers could overflow.
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) <= _LARGEST_NUMBER
        or not isfinite(value)
    ):
        raise ChecklistError(
            f"{subject} is not a number", "write a number from -1e9 to 1e9"
        )
    return float(value)


def _parse_texts(value: Any, subject: str) -> tuple[str, ...]:
    """Return a list of texts, or one text or number alone.

    Raises:
        ChecklistError: If it is something else.
    """
    if value is None:
        return ()
    listed = (value,) if isinstance(value, str | int) else value
    good = isinstance(listed, list | tuple) and all(
        isinstance(entry, str | int) and not isinstance(entry, bool) for entry in listed
    )
    if not good:
        raise ChecklistError(
            f"{subject} is not a list of texts", "write a list of texts"
        )
    return tuple(str(entry).strip() for entry in listed)


def _parse_labels(
    value: Json, responses: int, where: str
) -> dict[str, tuple[ItemAnswer | None, ...]]:
    """Return the answers of each annotator to an item, one for each response; `None` for a
    response without an answer.

    Args:
        value: The item, as written: `label` is the consensus, and `labels` has those of
            annotators by name.
        responses: The number of responses of the case.
        where: The item, as the beginning of an error.

    Raises:
        ChecklistError: If the labels are not a mapping, or an answer is not readable.
    """
    named = value.get("labels")
    if named is not None and not isinstance(named, Mapping):
        raise ChecklistError(
            f"{where}: labels is not a mapping", "write {ANNOTATOR: met}"
        )
    by_annotator = {CONSENSUS: value["label"]} if value.get("label") is not None else {}
    by_annotator |= {
        str(name): annotation for name, annotation in (named or {}).items()
    }
    return {
        name: _answers(annotation, responses, where)
        for name, annotation in by_annotator.items()
    }


def _answers(value: Any, responses: int, where: str) -> tuple[ItemAnswer | None, ...]:
    listed = value if isinstance(value, list | tuple) else [value]
    if len(listed) != responses:
        problem = f"{where} has {len(listed)} label(s) for {responses} responses"
        raise ChecklistError(problem, "write one label for each response")
    return tuple(read_answer(label, where) for label in listed)


def is_item_answer(text: str) -> bool:
    """Return whether a text is the name of an answer to an item, such as "met"."""
    spelt = text.strip().casefold()
    return _ANSWERS.get(spelt) == spelt.replace(" ", "_")


def read_answer(value: Any, where: str) -> ItemAnswer | None:
    """Return an annotator's answer to an item; `None` if there is none.

    Raises:
        ChecklistError: If the value is not an answer.
    """
    spelt = value.strip().casefold() if isinstance(value, str) else value
    if not isinstance(spelt, str | bool | int | float | None) or spelt not in _ANSWERS:
        problem = f"{where}: '{str(value)[:40]}' is not a label"
        raise ChecklistError(problem, "write met, not_met, cannot_assess or null")
    return _ANSWERS[spelt]


def _check_items(items: Sequence[ChecklistItem]) -> None:
    """Check that ids are unique, that items do not depend on each other, and that points exist.

    Raises:
        ChecklistError: If not; also if an item comes after one that does not exist.
    """
    ids: set[str] = set()
    for item in items:
        if item.id in ids:
            raise ChecklistError(
                f"two items have the id '{item.id:.60}'", "make ids unique"
            )
        ids.add(item.id)
    for item in items:
        if unknown := [name for name in item.after if name not in ids]:
            choices = sorted(ids)[:100]
            raise ChecklistError(
                f"item '{item.id:.60}' comes after '{unknown[0]:.60}', which is not an item",
                did_you_mean(unknown[0], choices),
            )
    try:
        decision_order(items)
    except CycleError as error:
        # The sorter names the nodes of the cycle in its second argument, the first one twice.
        cycle = list(dict.fromkeys(name for _, name in cast(list[Node], error.args[1])))
        listed = " → ".join(
            f"'{name:.40}'" for name in [*cycle[:_MOST_LISTED], cycle[0]]
        )
        raise ChecklistError(
            f"items depend on each other in a cycle: {listed}",
            "remove one of these from after",
        ) from None
    if not any(item.points > 0 for item in leaves(items)):
        raise ChecklistError(
            "no item has positive points", "give at least one item positive points"
        )


def leaves(items: Sequence[ChecklistItem]) -> list[ChecklistItem]:
    """Return the items without parts, which are those that a judge answers."""
    groups = {item.parent for item in items}
    return [item for item in items if item.id not in groups]


def parts_of(items: Sequence[ChecklistItem]) -> dict[str | None, list[ChecklistItem]]:
    """Return the parts of each group by its id; those of `None` are at the top."""
    parts: dict[str | None, list[ChecklistItem]] = {None: []}
    for item in items:
        parts.setdefault(item.parent, []).append(item)
    return parts


def decision_order(items: Sequence[ChecklistItem]) -> list[Node]:
    """Return what must be decided, each after what it depends on.

    An item depends on its gate. A gate depends on the gate of its group and on the items in
    `after`; a group of items also depends on its parts.

    Raises:
        CycleError: If something depends on itself.
    """
    graph: dict[Node, list[Node]] = {}
    for item in items:
        gate: Node = ("gate", item.id)
        above: list[Node] = [] if item.parent is None else [("gate", item.parent)]
        # Each item has two nodes: whether it may be judged at all, and whether it is met.
        graph[gate] = [*above, *(("item", name) for name in item.after)]
        graph.setdefault(("item", item.id), []).append(gate)
        if item.parent is not None:
            # A group is decided after its parts.
            graph.setdefault(("item", item.parent), []).append(("item", item.id))
    return [*TopologicalSorter(graph).static_order()]


def inherited(
    items: Sequence[ChecklistItem],
) -> Iterator[tuple[ChecklistItem, tuple[str, ...], tuple[str, ...], bool]]:
    """Yield each leaf, which is an item without parts, with what it has of its groups.

    That is the groups' criteria, outermost first, its tags after theirs, and whether it or one of
    them is required.
    """
    groups = {item.parent for item in items}
    # group -> the criteria and tags of it and the groups around it, and whether it is
    # required
    by_group: dict[str | None, tuple[tuple[str, ...], tuple[str, ...], bool]] = {
        None: ((), (), False)
    }
    for item in items:
        # Groups come before their parts, so the parent is there.
        criteria, tags, required = by_group[item.parent]
        tags = tuple(dict.fromkeys((*tags, *item.tags)))
        required = required or item.required
        if item.id in groups:
            by_group[item.id] = ((*criteria, item.criterion), tags, required)
        else:
            yield item, criteria, tags, required
