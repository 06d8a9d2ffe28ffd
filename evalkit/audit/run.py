"""The steps of an audit within a run: split the judgments, score the probes, and write their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalkit.audit.datasheet import datasheet, datasheet_files, effect_lines
from evalkit.audit.metrics import Outcome, audit_metrics
from evalkit.audit.plan import SEPARATOR, AuditPlan, check_id, probes_of
from evalkit.audit.probes import Probe
from evalkit.audit.rewriting import NO_REVIEWS, Reviews, Rewriter, is_rejected, key_of, reviews_of, with_reviews
from evalkit.config import RunConfig
from evalkit.core.spool import Spool
from evalkit.results import RunResult
from evalkit.runs.layout import EFFECTS, PROBE_CASES, PROBE_JUDGMENTS
from evalkit.runs.read import read_edits, read_probes
from evalkit.runs.records import encode_line
from evalkit.types import Case, Judgment, Metric


def is_audit(config: RunConfig) -> bool:
    """Return whether a run plants biases."""
    return bool(config.probe.probes)


def check_audit(config: RunConfig, cases: Iterable[Case]) -> None:
    """Check before anything is paid that an audit's probes, rewriter and ids can be used.

    Raises:
        ConfigError: If one of them cannot.
    """
    probes_of(config)
    if config.probe.rewriter is not None:
        Rewriter(config)
    for case in cases:
        check_id(case)


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit that is judged: its probes, edited cases and their judgments, its metrics and outcomes."""

    probes: tuple[Probe, ...]
    cases: Sequence[Case]
    judgments: Sequence[Judgment]
    metrics: dict[str, Metric]
    outcomes: list[Outcome]

    @classmethod
    def of(
        cls,
        config: RunConfig,
        cases: Sequence[Case],
        judgments: Sequence[Judgment],
        edits: Sequence[Case],
        answers: Sequence[Judgment],
    ) -> Audit:
        """Return the metrics of an audit; paraphrases that annotators reject are not in them.

        Args:
            config: The run's config.
            cases: The original cases.
            judgments: Their judgments.
            edits: The edited cases.
            answers: The judgments of the edited cases.
        """
        probes = probes_of(config)
        rejected = {edit.id for edit in edits if is_rejected(edit)}
        kept = [edit for edit in edits if edit.id not in rejected]
        counted = [answer for answer in answers if answer.case_id not in rejected]
        metrics, outcomes = audit_metrics(config, cases, probes, [*cases, *kept], [*judgments, *counted])
        return cls(probes, edits, answers, metrics, outcomes)

    @classmethod
    def read(cls, config: RunConfig, result: RunResult, reviews: Reviews = NO_REVIEWS) -> Audit | None:
        """Return the audit of a finished run under other scoring settings; `None` if the run is not an audit.

        Args:
            config: The config with the new settings.
            result: The finished run.
            reviews: Annotators' new reviews of paraphrases.

        Raises:
            ConfigError: If a file of the audit is missing or damaged.
        """
        if not is_audit(config) or result.folder is None:
            return None
        edits, answers = read_probes(Path(result.folder))
        return cls.of(config, result.cases, result.judgments, with_reviews(edits, reviews), answers)

    def files(self, result: RunResult) -> dict[str, str]:
        """Return the audit's files in the run folder, by name; `result` has all metrics."""
        sheet = datasheet(result, self.outcomes, self.cases)
        return {
            PROBE_CASES: _lines(self.cases),
            PROBE_JUDGMENTS: _lines(self.judgments),
            EFFECTS: effect_lines(result.cases, self.outcomes),
            **datasheet_files(sheet, result),
        }


def _lines(values: Iterable[object]) -> str:
    return "".join(encode_line(value).decode("utf-8", "surrogatepass") for value in values)


def earlier_reviews(folder: Path) -> Reviews:
    """Return the reviews of paraphrases in the folder of an audit that is run again; empty for another folder.

    Raises:
        ConfigError: If the file with the edited cases is damaged.
    """
    edits = read_edits(folder) if (folder / PROBE_CASES).is_file() else ()
    return {key_of(edit): reviews_of(edit) for edit in edits if reviews_of(edit)}


def split(
    plan: AuditPlan, judgments: Iterable[Judgment], folder: Path
) -> tuple[Sequence[Judgment], Sequence[Judgment]]:
    """Return the judgments of the original cases, and those of the edited cases."""
    original, edited = Spool[Judgment](folder=folder), Spool[Judgment](folder=folder)
    for judgment in judgments:
        if SEPARATOR in judgment.case_id:
            edited.append(plan.evaluator.original(judgment))
        else:
            original.append(judgment)
    return original, edited
