"""Load the materials of a run: its cases, and the evaluator that plans and reads requests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.config import RunConfig
from evalkit.config.table_reading import TableReading
from evalkit.core.errors import DatasetError
from evalkit.core.optional_features import load_feature
from evalkit.core.planners import Planners
from evalkit.core.protocols import Evaluator
from evalkit.core.resources import project
from evalkit.core.splits import Split
from evalkit.core.spool import Spool
from evalkit.core.tokens import fit_ends, image_tokens, message_tokens
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.datasets import RECORDED, CaseStream, Dataset, Fetch, Source, load_cases
from evalkit.evaluators.factory import make_evaluator
from evalkit.judges.images import check_images
from evalkit.runs.records import decoder
from evalkit.scoring.verdicts.panel import check_names
from evalkit.tracking import TRACES, dataset_fetchers, fetch_traces, tracking_uri
from evalkit.workflows.holdout import hold_out
from evalkit.workflows.stopping import in_random_order

# By name: only some datasets need what reads other tools' files.
_TABLES = "evalkit.interop.tables.reading"
_LOGS = "evalkit.interop.answers"
_FORMATS = "evalkit.interop.importer_discovery"


@frozen
class Materials:
    """The cases and the evaluator of a config, before judging; and the labels that
    `dataset.holdout` holds out.
    """

    dataset: Dataset
    evaluator: Evaluator
    split: Split | None = None
    held_out: Sequence[Case] = ()


def load_materials(
    config: RunConfig,
    folder: Path | None = None,
    cases: Any = None,
    templates: Mapping[str, str] | None = None,
) -> Materials:
    """Load the cases and build the evaluator.

    Args:
        config: the config of the run.
        folder: many cases are kept in a temporary file in or above this folder.
        cases: rows to use instead of `dataset.path`.
        templates: the texts of the templates, if they are not the installed ones.

    Raises:
        ConfigError: if the dataset, a template or a plug-in cannot be used.
    """
    evaluator = build_evaluator(config, templates)
    container = partial(Spool[Case], folder=folder or Path.cwd())
    dataset = load_cases(
        config.dataset, frame=cases, container=container, **_reading_options(config)
    )
    dataset, split, held = hold_out(config, dataset, container)
    dataset = replace(dataset, cases=in_random_order(config, dataset.cases, container))
    return Materials(dataset, evaluator, split, held)


def stream_cases(config: RunConfig) -> CaseStream:
    """Return the cases as a stream, for consumers that need each case once.

    Raises:
        ConfigError: if the dataset cannot be used.
    """
    return CaseStream(config.dataset, **_reading_options(config))


def _reading_options(config: RunConfig) -> dict[str, Any]:
    """Return the options of `load_cases` that follow from a config, by the name of the
    argument.
    """
    return {
        "mode": config.mode.name,
        "base": project(),
        "fetch": _fetchers(config),
        "logs": partial(_logs, config=config),
        "tables": partial(_tables, config=config),
        "describe": _describe,
        "items": config.mode.items,
        "classes": config.rubric.named_classes,
        "fit": _shortener(config),
        "sees": partial(check_images, config),
        # Cases that a run recorded are read exactly, without the rules for rows of users.
        "decode": decoder(Case) if config.dataset.format == RECORDED else None,
    }


def _shortener(config: RunConfig) -> Callable[[Case], Case] | None:
    """Return what shortens cases until every request takes at most three quarters of a judge's
    context without the answer; `None` unless `dataset.fit` is set.

    The judge with the smallest context counts. Tokens are estimated.
    """
    if config.dataset.fit is None:
        return None
    names = (judge.label for judge in config.judge.members)
    planners = Planners(build_evaluator(config), names)
    smallest = min(
        (judge.context or 0) - (judge.max_tokens or 0) for judge in config.judge.members
    )
    # A quarter is left for errors of the estimate.
    most_tokens = 3 * smallest // 4

    def fits(case: Case) -> bool:
        """Return whether every request about a case fits."""
        return all(
            message_tokens(request.messages) + image_tokens(request.messages)
            <= most_tokens
            for planned in planners.plan(case)
            for request in planned
        )

    return partial(fit_ends, fits=fits)


def build_evaluator(
    config: RunConfig, templates: Mapping[str, str] | None = None
) -> Evaluator:
    """Return the evaluator that a config describes.

    Args:
        config: the config.
        templates: the texts of its templates, if they are not the installed ones.

    Raises:
        ConfigError: if a template, a plug-in or a judge's name cannot be used.
    """
    check_names(
        [judge.label for judge in config.judge.members]
    )  # scoring would fail too, but after everything is paid
    return make_evaluator(
        config, prompt_folders=[project() / "prompts"], recorded=templates
    )


def _fetchers(config: RunConfig) -> Mapping[str, Fetch]:
    """Return what fetches a dataset by the scheme of its path, such as `traces:`."""

    def traces(named: str, _format: str | None) -> Source:
        """Return the answers in traces of an experiment as rows.

        Args:
            named: The experiment, as in `dataset.path`.
            _format: The format in the config, which traces do not need.

        Raises:
            DatasetError: If the traces have no answers.
        """
        with tempfile.TemporaryDirectory(prefix="evalkit-") as folder:
            file = Path(folder) / "traces.jsonl"
            fetch_traces(
                tracking_uri(config.tracking), named.removeprefix(TRACES), file
            )
            source = _logs([file], named, config=config)
        if source is None:
            raise DatasetError(
                "the traces have no answers",
                where=named,
                remedy="name another experiment",
            )
        # The temporary file is gone by then, so the source must not name it.
        return replace(source, files=())

    return {**dataset_fetchers(config.tracking), TRACES.removesuffix(":"): traces}


def _logs(paths: Sequence[Path], name: str, *, config: RunConfig) -> Source | None:
    logs = load_feature(_LOGS, "dataset.path")
    turns = config.dataset.has_turns
    source: Source | None = logs.log_source(
        paths, name, classes=config.rubric.named_classes is not None, turns=turns
    )
    return source


def _tables(
    paths: Sequence[Path], name: str, reading: TableReading, *, config: RunConfig
) -> Source:
    tables = load_feature(_TABLES, "dataset.reading")
    tables.check_unit(reading, config)
    source: Source = tables.table_source(paths, name, reading)
    return source


def _describe(path: Path) -> str | None:
    remedy: str | None = load_feature(_FORMATS, "dataset.path").describe_file(path)
    return remedy
