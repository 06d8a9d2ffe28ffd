"""`evalkit plan --labels RUN`: how many more labels give an interval of a width, or decide a gate."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from evalkit.cli.console import plain_console, text_table
from evalkit.cli.finished_run import apply_settings
from evalkit.cli.parser import UsageError, study_words
from evalkit.config import TrackingConfig
from evalkit.core.display import interval
from evalkit.core.translation import in_every_language
from evalkit.decision import Metrics, kind_of, known
from evalkit.errors import ExitStatus
from evalkit.gating import GATE, apply_gate, check_rules
from evalkit.report.findings.decisions import label_count, sentence
from evalkit.scoring.labels import labels_for_width
from evalkit.tracking import find_run


def plan_labels(arguments: Namespace) -> int:
    """Print how many more labels a finished run needs; nothing is called or written.

    Raises:
        ConfigError: if there is no such run, or a setting is not of its gate.
        TrackingError: if it must be fetched and the store cannot be reached.
    """
    for flag in ("multirun", "pilot"):
        if getattr(arguments, flag):
            raise UsageError("plan", f"--labels cannot be used with --{flag}")
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        result = find_run(arguments.labels, TrackingConfig(), folder=Path.cwd(), scratch=Path(scratch))
        config = apply_settings(result, study_words(arguments), (GATE,))
        check_rules(config, result)
        gate = apply_gate(config, replace(result, config=config))[0].manifest.get(GATE)
    console = plain_console()
    console.print(in_every_language(sentence(result.decision, result.metrics))[0])
    _print_widths(result.metrics, arguments.width, config.scoring.confidence)
    for rule in (gate or {}).get("rules", ()):
        more = rule["labels_needed"]
        hint = f", {_count(more)} more labels would probably decide" if more else ""
        console.print(f"gate: {rule['metric']} {rule['rule']}: {rule['state']}{hint}")
    return ExitStatus.DONE


def _print_widths(metrics: Metrics, width: float, confidence: float) -> None:
    kind = kind_of(metrics)
    table = text_table(("metric", "now"), ("labels", f"more labels for a width of {width:g}"))
    for name in (kind.share, *kind.agreement):
        if name is not None and (metric := known(metrics, name)) is not None:
            more = labels_for_width(metric, width, confidence)
            table.add_row(name, interval(metric), f"{metric.n:,}", "–" if more is None else _count(more))
    if table.row_count:
        plain_console().print(table)


def _count(more: int) -> str:
    return in_every_language(label_count(more))[0] if more else "0"
