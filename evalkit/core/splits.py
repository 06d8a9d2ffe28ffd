"""The split of cases into train, dev and test by cluster, and cases without their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from evalkit.core.hashing import digest
from evalkit.core.types import Case
from evalkit.core.values import frozen

Side: TypeAlias = Literal["train", "dev", "test"]
FEWEST: Final = 3
"""Fewer clusters with labels cannot be split: each side needs one."""


def is_labeled(case: Case) -> bool:
    """Return whether a case has any label: its own, one of a response, an annotator's,
    or one of an item.
    """
    if case.label is not None or case.labels:
        return True
    for (
        response
    ) in case.responses:  # no generators: every metric asks this of every case
        if response.grade is not None or response.class_name is not None:
            return True
    return bool(case.checklist) and any(item.labels for item in case.checklist)


def without_labels(case: Case) -> Case:
    """Return a case without any label."""
    return replace(
        case,
        label=None,
        labels={},
        responses=tuple(
            replace(response, grade=None, class_name=None)
            for response in case.responses
        ),
        checklist=tuple(replace(item, labels={}) for item in case.checklist),
    )


def clusters_named(by: str, n: int = 2) -> str:
    """Return what clusters by a column are, in words: cases, prompts, conversations, or
    values of another column.
    """
    names = {"id": "case", "prompt": "prompt", "conversation": "conversation"}
    if by in names:
        return names[by] if n == 1 else f"{names[by]}s"
    return f"value of {by}" if n == 1 else f"values of {by}"


def remedy_for_few(by: str, *, all_labeled: bool) -> str:
    """Return what to do if too few clusters have labels: label others, or add some if
    there are no others.
    """
    addition = "more cases" if by == "id" else f"cases of more {clusters_named(by)}"
    if all_labeled:
        return f"all have labels: add {addition}"
    return f"label {addition}"


@frozen
class Split:
    """The side of each case: `train` and `dev` choose settings, `test` proves them.

    Attributes:
        data: the hash of the cases without their labels, so that the sides do not depend on labels'
            values.
        by: the column that defines the clusters.
        seed: the seed.
        share: the share of the clusters in test.
        held_out: whether the labels of test were kept out of the run from the start.
        train: the ids of its cases.
        dev: the ids of its cases.
        test: the ids of its cases.
        opened: when the labels of test were used, in ISO 8601.
    """

    data: str
    by: str
    seed: int
    share: float
    held_out: bool
    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...]
    opened: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        cases: Sequence[Case],
        cluster: Sequence[int],
        *,
        data: str,
        by: str,
        seed: int,
        share: float,
        held_out: bool = False,
    ) -> Split:
        """Return the split of cases: clusters in the order of a hash of data, seed and first case.

        Clusters with labels and those without are split apart, so each side has its share of the
        labels: `share` in test, and half of the rest in train.

        Args:
            cases: the cases.
            cluster: the cluster of each case.
            data: the hash of the cases without their labels.
            by: the column that defines the clusters.
            seed: the seed.
            share: the share of test.
            held_out: whether the labels of test are kept out of the run.
        """
        # All by the number of the cluster: the id of its first case, and whether any case has a
        # label.
        first: dict[int, str] = {}
        labeled: dict[int, bool] = {}
        for case, number in zip(cases, cluster, strict=True):
            first.setdefault(number, case.id)
            labeled[number] = labeled.get(number, False) or is_labeled(case)
        side: dict[int, Side] = {}
        for with_labels in (True, False):
            # Each side gets its share of the labeled clusters, and of the others.
            some = [number for number, has in labeled.items() if has is with_labels]
            some.sort(key=lambda number: digest([data, seed, first[number]]))
            # Ranks below `proving` are test, those below `fitting` train, the rest dev.
            proving = max(1, round(share * len(some)))
            fitting = proving + (len(some) - proving + 1) // 2
            for rank, number in enumerate(some):
                if rank < proving:
                    side[number] = "test"
                elif rank < fitting:
                    side[number] = "train"
                else:
                    side[number] = "dev"
        ids: dict[Side, list[str]] = {"train": [], "dev": [], "test": []}
        for case, number in zip(cases, cluster, strict=True):
            ids[side[number]].append(case.id)
        return cls(
            data,
            by,
            seed,
            share,
            held_out,
            *map(tuple, (ids["train"], ids["dev"], ids["test"])),
        )

    def ids(self, side: Side) -> frozenset[str]:
        """Return the ids of the cases of a side."""
        return frozenset(
            {"train": self.train, "dev": self.dev, "test": self.test}[side]
        )
