"""Metrics of class verdicts: rates, agreement with labels, corrected rates, and the confusion matrix."""

from __future__ import annotations

from typing import Any

from evalkit.config import RunConfig
from evalkit.scoring.columns.classes import ClassColumns
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Metric


def class_statistics(config: RunConfig, columns: ClassColumns) -> list[Statistic | Metric]:
    """Return the metrics of one judge's or a panel's class verdicts that its verdicts and labels determine.

    Args:
        config: the run's config.
        columns: the class verdicts.
    """
    del config, columns
    return []


def class_extras(
    config: RunConfig, columns: ClassColumns, clusters: Clusters
) -> tuple[list[Statistic | Metric], dict[str, Any]]:
    """Return the metrics of annotators and corrections, and tables by the name of their file in the run folder.

    Args:
        config: the run's config.
        columns: the class verdicts of the judge or the panel.
        clusters: the clusters of the cases.
    """
    del config, columns, clusters
    return [], {}
