"""Labels that are held out from a run until they prove a better judge: the split, its
files, and their openings.

It uses the clusters of `scoring`, the hash of `datasets` and the files of `runs`; `api` and
`alignment` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.splits import (
    FEWEST,
    Split,
    clusters_named,
    is_labeled,
    remedy_for_few,
    without_labels,
)
from evalkit.core.types import Case
from evalkit.datasets import Dataset
from evalkit.datasets.load import fingerprint
from evalkit.runs import layout, write_files
from evalkit.runs.read import read_record, read_records
from evalkit.runs.records import encode_line, encode_pretty
from evalkit.scoring.stats.clusters import Clusters


class HeldOut(NamedTuple):
    """The data of a run without the labels of its test side, and what was held out.

    Attributes:
        dataset: The data; the cases of the test side have no labels.
        split: The sides of the cases; `None` if nothing is held out.
        cases: The labeled cases of the test side, with their labels.
    """

    dataset: Dataset
    split: Split | None
    cases: Sequence[Case]


def hold_out(
    config: RunConfig,
    dataset: Dataset,
    container: Callable[[Iterable[Case]], Sequence[Case]],
) -> HeldOut:
    """Take the labels of the test side out of the data, until they prove a better judge.

    Args:
        config: the run's config; without `dataset.holdout`, the data are unchanged.
        dataset: the data.
        container: makes a sequence of the cases.

    Raises:
        ConfigError: if too few clusters have labels.
    """
    rule = config.dataset.holdout
    if rule is None:
        return HeldOut(dataset, None, ())
    split = split_cases(
        config, dataset.cases, share=rule.share, seed=rule.seed, held_out=True
    )
    test = split.ids("test")
    held = tuple(case for case in dataset.cases if case.id in test and is_labeled(case))
    # The labels leave the cases here, so no later step of the run can see them.
    cases = container(
        without_labels(case) if case.id in test else case for case in dataset.cases
    )
    note = f"labels held out for evalkit align: {len(held)} cases"
    changed = replace(
        dataset,
        cases=cases,
        # Of the cases without labels, since these are what the run has.
        fingerprint=fingerprint(cases),
        notes=(*dataset.notes, note),
    )
    return HeldOut(changed, split, held)


def split_cases(
    config: RunConfig,
    cases: Sequence[Case],
    *,
    share: float,
    seed: int,
    held_out: bool = False,
) -> Split:
    """Return the split of cases by their clusters.

    Args:
        config: the run's config.
        cases: its cases, with all labels.
        share: the share of test.
        seed: the seed of the split.
        held_out: whether the labels of test are kept out of the run.

    Raises:
        ConfigError: if too few clusters have labels.
    """
    clusters = Clusters.of(config, cases)
    # case -> its cluster
    number = clusters.of_rows(np.arange(len(cases)))
    # number[i] is the cluster of case i; so this counts clusters with a labeled case.
    labeled = len(set(number[[is_labeled(case) for case in cases]].tolist()))
    if labeled < FEWEST:
        problem = (
            f"train, dev and test need a labeled {clusters_named(clusters.by, 1)} each, and there"
            f" are {labeled}"
        )
        remedy = remedy_for_few(clusters.by, all_labeled=labeled == clusters.count)
        raise ConfigError(
            problem,
            where="dataset.holdout" if held_out else "evalkit align",
            remedy=remedy,
        )
    # Without labels, which a run with held-out labels does not have.
    data = fingerprint(map(without_labels, cases))
    return Split.of(
        cases,
        number.tolist(),
        data=data,
        by=clusters.by,
        seed=seed,
        share=share,
        held_out=held_out,
    )


def with_openings(split: Split, folder: Path) -> Split:
    """Return a split with the openings of the same split in a folder, if it is there."""
    with suppress(ConfigError):
        before = read_split(folder)
        # Same sides, same data: a second run must not reset how often the labels were seen.
        if before is not None and replace(before, opened=()) == split:
            return before
    return split


def split_files(split: Split, held: Sequence[Case]) -> dict[str, str]:
    """Return the files of a split and its held-out cases."""
    return {
        layout.SPLIT: encode_pretty(split).decode(),
        layout.HOLDOUT: b"".join(map(encode_line, held)).decode(),
    }


def read_split(folder: Path) -> Split | None:
    """Return the split of the run in a folder, `None` if it has none.

    Raises:
        ConfigError: if the file is damaged.
    """
    path = folder.absolute() / layout.SPLIT
    if not path.is_file():
        return None
    split: Split = read_record(path, Split)
    return split


def read_held_out(folder: Path) -> Sequence[Case]:
    """Return the held-out cases of the run in a folder, with their labels.

    Raises:
        ConfigError: if the file is missing or damaged.
    """
    return read_records(folder.absolute() / layout.HOLDOUT, Case)


def store_split(folder: Path, split: Split) -> None:
    """Write the split of a run to its folder.

    Raises:
        ConfigError: if it cannot be written.
    """
    write_files(folder, {layout.SPLIT: encode_pretty(split)})


def open_test(folder: Path, split: Split) -> Split:
    """Record in a run folder that the labels of test are opened now, before they are used.

    Raises:
        ConfigError: if it cannot be written.
    """
    opened = replace(split, opened=(*split.opened, datetime.now(UTC).isoformat()))
    store_split(folder, opened)
    return opened
