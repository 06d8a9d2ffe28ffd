"""Samples of cases to label, as `--n` of `evalkit export` and `evalkit label` take them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.core.display import counted
from evalkit.runs.results import RunResult

if TYPE_CHECKING:
    from evalkit.labels.sample import LabelSample


TASK_COUNT = 50


def choose_next(result: RunResult, arguments: Namespace) -> LabelSample:
    """Return the labels to give next, and print what they are expected to show."""
    from evalkit.labels.next_labels import next_labels

    next_sample = next_labels(result, arguments.next, arguments.seed)
    if (cases := len({case for case, _ in next_sample.sample.units})) < arguments.next:
        print(
            f"note: the run has {counted(cases, 'case')} without a label, not"
            f" {arguments.next:,}: all are sampled"
        )
    print(
        f"{counted(next_sample.labels, 'label')} will be about as precise as"
        f" {next_sample.effective:,.0f} at random"
    )
    if (
        (metric := next_sample.metric) is not None
        and metric.low is not None
        and metric.high is not None
    ):
        print(
            f"expected width of {metric.name}: {next_sample.width:.3f}, now"
            f" {metric.high - metric.low:.3f}; with labels at random {next_sample.at_random:.3f}"
        )
    return next_sample.sample


def record_sample(folder: Path, sample: LabelSample) -> None:
    """Store in the run folder how cases were sampled, so that metrics weight their labels."""
    from evalkit.runs.layout import LABEL_SAMPLE
    from evalkit.runs.write import write_files

    write_files(folder, {LABEL_SAMPLE: sample.content()})
