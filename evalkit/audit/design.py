"""The design of an audit: edited cases are judged together with the cases, and compared
with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalkit.audit.datasheet import Audit, check_audit, earlier_reviews, split
from evalkit.audit.plan import AuditPlan, probes_of
from evalkit.audit.questions import AuditQuestions
from evalkit.audit.rewriting import (
    NO_REVIEWS,
    Rewriter,
    note_missing,
    paraphrases,
    with_reviews,
)
from evalkit.config import RunConfig
from evalkit.core.protocols import Evaluator
from evalkit.core.types import Case, Judgment, Metric
from evalkit.core.values import JsonObject
from evalkit.engine.progress import JudgingResult
from evalkit.engine.run_design import Ask, Design, EarlierStep, Questions, Reviews
from evalkit.engine.runner_kinds import runner_kind
from evalkit.judges import describe_rewriter, make_judges
from evalkit.judges.factory import REWRITER
from evalkit.judges.setup import keys_below
from evalkit.runs.results import RunResult


class AuditDesign(Design):
    """A run whose cases are also judged as each probe edits them."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._reviews = NO_REVIEWS
        self._plan: AuditPlan | None = None
        self._answers: Sequence[Judgment] = ()
        self._audit: Audit | None = None

    def check(self, cases: Iterable[Case]) -> None:
        """Check that the probes, the rewriter and the ids can be used.

        Raises:
            ConfigError: If one of them cannot.
        """
        check_audit(self.config, cases)

    def questions(self) -> Questions:
        """Return the original and the edited cases.

        Raises:
            ConfigError: If a probe cannot be used.
        """
        return AuditQuestions(self.config, probes_of(self.config))

    def remember(self, folder: Path) -> None:
        """Read annotators' reviews of paraphrases, which must survive a second run."""
        self._reviews = earlier_reviews(folder)

    async def judge(
        self, cases: Sequence[Case], evaluator: Evaluator, folder: Path, ask: Ask
    ) -> JudgingResult:
        """Return the judgments of original and edited cases, once the rewriter has
        written its texts.
        """
        config = self.config
        # Step 1: paraphrases must exist before they can be judged.
        first: JudgingResult | None = None
        rewritten: Sequence[Judgment] = ()
        if (step := self.questions().earlier_step()) is not None:
            first = await _rewrite(step, cases, ask)
            rewritten = first.judgments
        # Step 2: original and edited cases are judged in one run of the engine.
        plan = AuditPlan.of(config, cases, evaluator, folder, paraphrases(rewritten))
        self._plan = plan
        if first is not None and first.interrupted:
            return replace(first, whole=None)
        judged = await ask(config, plan.cases, plan.evaluator, chosen_on=cases)
        if first is None:
            return judged
        self.notes += note_missing(first.judgments)
        return judged.after(first)

    def of_cases(
        self, judgments: Sequence[Judgment], folder: Path
    ) -> Sequence[Judgment]:
        """Return the judgments of the original cases; those of the edited ones count in
        the audit only.
        """
        assert self._plan is not None
        original, self._answers = split(self._plan, judgments, folder)
        return original

    def facts(self) -> JsonObject:
        """Return the rewriter and its templates, if there is one."""
        described = describe_rewriter(self.config)
        if described is None:
            return {}
        hashes = Rewriter(self.config).prompt_hashes
        return {"rewriter": {**described, "prompt_hashes": hashes}}

    def score(
        self, cases: Sequence[Case], judgments: Sequence[Judgment]
    ) -> Mapping[str, Metric]:
        """Return the metrics of the audit."""
        assert self._plan is not None
        edits = self._plan.edits()
        if self._reviews:
            edits = with_reviews(edits, self._reviews)
        self._audit = Audit.of(self.config, cases, judgments, edits, self._answers)
        return self._audit.metrics

    def rescore(
        self, result: RunResult, reviews: Reviews | None = None
    ) -> Mapping[str, Metric]:
        """Return the metrics of the audit in a run folder; nothing if the run has none.

        Raises:
            ConfigError: If a file of the audit is missing or damaged.
        """
        self._audit = Audit.read(self.config, result, reviews or NO_REVIEWS)
        if self._audit is None:
            return {}
        return self._audit.metrics

    def files(self, result: RunResult) -> Mapping[str, str]:
        """Return the datasheet, the edited cases, their judgments and their effects."""
        if self._audit is None:
            return {}
        return self._audit.files(result)


async def _rewrite(step: EarlierStep, cases: Sequence[Case], ask: Ask) -> JudgingResult:
    """Have the rewriter write the paraphrases, one by one if it cannot be batched."""
    config = step.config
    kind = runner_kind(config)
    if any(map(kind.reason_against, make_judges(config.judge, config.runner))):
        config = config.with_({"runner.kind": "online"})
    with keys_below(REWRITER):
        return await ask(config, cases, step.evaluator)
