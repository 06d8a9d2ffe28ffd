"""The verdicts of raters by row: a word may depend on what its row compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.core.errors import DatasetError
from evalkit.interop.layouts.layouts import is_swapped
from evalkit.interop.tables.pair_verdicts import POSITIONS, SYSTEM
from evalkit.interop.tables.parts import Parts
from evalkit.interop.tables.rater_levels import Space
from evalkit.interop.tables.words import fold


def systems_of(parts: Parts, by_role: Mapping[str, str]) -> list[str]:
    """Return the names of the systems that wrote two responses: the values of two
    columns, or their names.

    A system that is on both sides is named twice.
    """
    names: list[str] = []
    for side in "ab":
        column = by_role.get(f"model_{side}")
        if column is not None:
            names += parts.typed[column].counts
        # Without names of systems, a verdict may name the column of the response.
        elif f"response_{side}" in by_role:
            names.append(by_role[f"response_{side}"])
    return names


def verdicts_by_row(
    parts: Parts, space: Space, by_role: Mapping[str, str]
) -> dict[str, list[Any]]:
    """Return the verdict of each rater in each row; `None` if it has none."""
    verdicts = {}
    for name, values in space.values.items():
        texts = parts.typed[name].texts
        verdicts[name] = [None if text is None else values.get(text) for text in texts]
        if space.by_row:
            _name_winners(verdicts[name], texts, parts, by_role)
        # Words such as `first` depend on what was shown first in their row.
        if not set(POSITIONS).isdisjoint(values.values()):
            order = parts.columns.cells[by_role["order"]]
            verdicts[name] = [
                _at_position(verdict, order_of_row, location)
                for verdict, order_of_row, location in zip(
                    verdicts[name], order, parts.columns.places, strict=True
                )
            ]
    return verdicts


def _at_position(verdict: Any, order: Any, location: str) -> Any:
    """Return the response that was shown first or second, if a verdict names it so."""
    if verdict not in POSITIONS:
        return verdict
    sides = "BA" if is_swapped(order, location) else "AB"
    return sides[POSITIONS.index(verdict)]


def _name_winners(
    verdicts: list[Any],
    texts: Sequence[str | None],
    parts: Parts,
    by_role: Mapping[str, str],
) -> None:
    """Replace the names of systems by the side on which they are in the row.

    Raises:
        DatasetError: If a row names a system that it does not have.
    """
    sides = {}
    for letter in "ab":
        column = by_role.get(f"model_{letter}")
        response = by_role.get(f"response_{letter}", "")
        # (rows,) the name of the system on each side, the same in all rows if the column is it.
        systems: Sequence[str | None] = [response] * len(texts)
        if column is not None:
            systems = parts.typed[column].texts
        sides[letter.upper()] = systems
    for row, verdict in enumerate(verdicts):
        # Which side a word that names a system is on varies by row.
        if verdict != SYSTEM:
            continue
        # Both sides may have one system, or neither: then the winner is unknown.
        word = fold(texts[row] or "")
        names = {side: systems[row] or "" for side, systems in sides.items()}
        winners = [side for side, name in names.items() if fold(name) == word]
        if len(winners) != 1:
            problem = f"names the winner '{texts[row]}', which is not one of the row's two systems"
            remedy = "fix the row, or name the systems' columns model_a and model_b"
            raise DatasetError(problem, where=parts.columns.places[row], remedy=remedy)
        verdicts[row] = winners[0]
