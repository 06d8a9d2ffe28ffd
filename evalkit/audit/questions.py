"""The cases that an audit asks about, for a plan and for batches that are written to files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice

from evalkit.audit.plan import ProbedEvaluator, expand
from evalkit.audit.probes import PARAPHRASE, Probe
from evalkit.audit.rewriting import Rewriter, original_of, paraphrases, rewriting
from evalkit.config import RunConfig
from evalkit.core.planners import Planners
from evalkit.core.protocols import Evaluator, Store
from evalkit.core.types import Case, Judgment
from evalkit.core.values import frozen
from evalkit.engine.requests import PlannedCalls
from evalkit.engine.run_design import EarlierStep, Questions
from evalkit.judges import spec_of


@frozen
class AuditQuestions(Questions):
    """Each case, and the case as each probe edits it.

    Attributes:
        config: The run's config.
        probes: The probes.
        original: Whether the unedited cases are asked about, too.
        paraphrases: Those of `probe.rewriter`, by the case's id.
    """

    config: RunConfig
    probes: Sequence[Probe]
    original: bool = True
    paraphrases: Mapping[str, str] = field(default_factory=dict)

    def evaluator(self, evaluator: Evaluator) -> Evaluator:
        """Return what plans the requests of original and edited cases."""
        return ProbedEvaluator(self.config, evaluator, self.probes)

    def expand(self, case: Case) -> Iterator[Case]:
        """Yield the case, unless only edited ones are wanted, and the case as each
        probe edits it.
        """
        versions = expand(case, self.probes, self.config, self.paraphrases)
        # Index 0 is the original case, and the edited ones follow it.
        return islice(versions, 0 if self.original else 1, None)

    def parts(self) -> Sequence[tuple[str, Questions]]:
        """Return the questions without probes, and what each probe adds."""
        bare = replace(self, probes=())
        added = [
            (
                f"probe={probe.name}",
                replace(self, probes=(probe,), original=False),
            )
            for probe in self.probes
        ]
        return [("no probe", bare), *added]

    def earlier_step(self) -> EarlierStep | None:
        """Return the requests for paraphrases, if a probe needs them."""
        if all(probe.name != PARAPHRASE for probe in self.probes):
            return None
        step = rewriting(self.config)
        return EarlierStep("probe.rewriter", step, Rewriter(self.config))

    def after(self, judgments: Iterable[Judgment]) -> Questions:
        """Return the questions with the paraphrases that were written."""
        return replace(self, paraphrases=paraphrases(judgments))

    def expecting(self, cases: Iterable[Case], store: Store | None) -> Questions:
        """Return the questions with stored paraphrases; the others are texts of the
        original's length.
        """
        step = self.earlier_step()
        if step is None:
            return self
        expected = dict[str, str]()
        specs = spec_of(step.config.judge)
        planners = Planners(step.evaluator, (spec.name for spec in specs))
        calls = PlannedCalls(cases, planners, specs, store)
        while batch := calls.batch():
            for call in batch:
                case = call.group.case
                # The mark makes the text differ from the original: equal texts would be one
                # request.
                expected[case.id] = f"{original_of(case, self.config)}…"
                if call.stored is None:
                    continue
                read = step.evaluator.read(call.request, call.stored)
                if isinstance(read, Judgment):
                    # A stored answer without a paraphrase: its case has no edited one.
                    expected.pop(case.id)
                    expected |= paraphrases([read])
        return replace(self, paraphrases=expected)
