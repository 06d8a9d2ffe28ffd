"""Warnings about a table's data: copies, conflicts, and few labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from evalkit.interop.layouts.layouts import Unit
from evalkit.interop.tables.parts import Parts, judge_columns
from evalkit.interop.tables.rater_levels import Space

_FEW: Final = 20
_MOST_RARE: Final = 2
"""With more rare classes, one line counts them."""

_NEAR_EMPTY: Final = 0.1


def table_warnings(
    parts: Parts, verdicts: Mapping[str, Sequence[Any]], space: Space
) -> Iterator[str]:
    """Yield what a reader should know about a table before the result is used."""
    rows = len(parts.columns)
    for name, column in parts.typed.items():
        if column.total < _NEAR_EMPTY * rows:
            yield f"column '{name}' is nearly empty ({column.total} of {rows} cells)"
    for name, missing in space.missing.items():
        counts: Counter[str] = Counter()
        # Causes are counted in cells and not in levels.
        for level, cause in missing.items():
            counts[cause] += parts.typed[name].counts[level]
        listed = ", ".join(f"{cause}: {count}" for cause, count in counts.most_common())
        if listed:
            yield f"cells of '{name}' without a verdict, by cause: {listed}"
    for label in parts.raters.labels:
        for judge in judge_columns(parts.raters):
            pairs = zip(verdicts[judge], verdicts[label], strict=True)
            both = [pair for pair in pairs if None not in pair]
            equal = sum(verdict == right for verdict, right in both)
            if len(both) > 1 and equal == len(both):
                yield (
                    f"columns '{judge}' and '{label}' are identical: the labels may be copies of"
                    " the judge's verdicts"
                )
            elif both and space.unit == "response" and space.scale is not None:
                share = equal / len(both)
                yield (
                    f"scores of '{judge}' that equal the label '{label}': {equal} of {len(both)}"
                    f" ({share:.4f})"
                )
        yield from _label_warnings(parts, label, verdicts[label], space.unit)
        if space.by_row:
            yield from _kappas_by_name(parts, label)
    if space.rubric.get("real") and parts.raters.labels:
        yield from _thresholds(parts, verdicts)


def _kappas_by_name(parts: Parts, label: str) -> Iterator[str]:
    """Yield Cohen's kappa over the names of the winners, next to that over the sides."""
    labels = parts.typed[label].texts
    for judge in judge_columns(parts.raters):
        texts = zip(parts.typed[judge].texts, labels, strict=True)
        pairs = [
            (verdict, label_text)
            for verdict, label_text in texts
            if verdict and label_text
        ]
        judged = Counter(verdict for verdict, _ in pairs)
        labeled = Counter(label_text for _, label_text in pairs)
        count = max(1, len(pairs))
        # Equal names by chance, from the shares of each.
        chance = sum(judged[name] * labeled[name] for name in judged) / count**2
        if chance < 1 and pairs:
            share = sum(verdict == label_text for verdict, label_text in pairs) / count
            kappa = (share - chance) / (1 - chance)
            yield f"kappa of '{judge}' and '{label}' over the names of the winners: {kappa:.4f}"


def _label_warnings(
    parts: Parts, label: str, values: Sequence[Any], unit: Unit
) -> Iterator[str]:
    counts = Counter(value for value in values if value is not None)
    rare = {value: count for value, count in counts.items() if count < _FEW}
    if unit == "response":
        rare = {}
    if len(rare) > _MOST_RARE:
        yield (
            f"'{label}' has fewer than {_FEW} labels of {len(rare)} classes;"
            f" below {_FEW}, rates of a class are uncertain"
        )
        rare = {}
    for value, count in sorted(rare.items(), key=str):
        yield (
            f"'{label}' has only {count} labels '{value}'; below {_FEW}, rates of a class are"
            " uncertain"
        )
    by_role = parts.by_role()
    # With the responses, as one question has several.
    within = ("response", "model", "response_a", "response_b")
    names = [*parts.keys.unit, *(by_role[role] for role in within if role in by_role)]
    if not parts.keys.unit:
        return
    labels_of_text: dict[tuple[str | None, ...], set[Any]] = {}
    keys = zip(*(parts.typed[name].texts for name in dict.fromkeys(names)), strict=True)
    for key, value in zip(keys, values, strict=True):
        if value is not None:
            labels_of_text.setdefault(key, set()).add(value)
    if conflicts := sum(len(labels) > 1 for labels in labels_of_text.values()):
        yield f"cases with two different labels in '{label}': {conflicts}"


def _thresholds(parts: Parts, verdicts: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Yield, for each judge of scores and labels of two classes, the score that
    separates them best.
    """
    for label in parts.raters.labels:
        grades = {value for value in verdicts[label] if value is not None}
        # A threshold separates two classes only.
        if len(grades) != 2:
            continue
        high = max(grades)
        for judge in judge_columns(parts.raters):
            pairs = [
                (score, grade == high)
                for score, grade in zip(verdicts[judge], verdicts[label], strict=True)
                if score is not None and grade is not None
            ]
            scores = sorted({score for score, _ in pairs})
            if len(scores) < 3:
                continue
            # For each score, the rows that a threshold there puts on the right side.
            right = {
                score: sum((number >= score) == upper for number, upper in pairs)
                for score in scores
            }
            best = max(scores, key=lambda score: right[score])
            yield (
                f"a threshold to choose: '{judge}' from {best:g} up equals the higher label in"
                f" {right[best]} of {len(pairs)} rows, on these rows"
            )
