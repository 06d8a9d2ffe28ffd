"""Counts over a run's cases for the figures: passes, lengths, scores and the cost of answers."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalkit.core.types import Case, Judgment, Verdict, Winner

RATIOS = (1.1, 1.5, 2.0, 3.0)
"""Upper ends of the classes of length ratios (longer to shorter response); the last class has no
end."""


@dataclass(slots=True)
class LengthClass:
    """Pairs of one class of length ratios: `decided` in `clusters` clusters, `longer`
    of them won by the longer.
    """

    longer: int = 0
    decided: int = 0
    clusters: int = 0


@dataclass(slots=True)
class Spending:
    """Tokens, cost and latencies (in seconds) of one judge's answers when they were
    requested, stored ones included.
    """

    answers: int = 0
    stored: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    latencies: array[float] = field(default_factory=lambda: array("d"))

    def latency(self, share: float) -> float | None:
        """Return a quantile of the latencies, or `None` if there are none."""
        ordered = sorted(self.latencies)
        if ordered:
            # The value at this share of the sorted latencies, without interpolation.
            return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        return None


@dataclass(slots=True)
class RunCounts:
    """Counts over the cases of a run, added one by one.

    `passes` counts pairs by the winners of the first and the second order (`None` if missing).
    `scores` and `grades` count responses by score and by annotators' grade. `cluster` maps case ids
    to clusters; other cases are their own clusters.
    """

    passes: Counter[tuple[Winner | None, Winner | None]] = field(
        default_factory=Counter
    )
    lengths: list[LengthClass] = field(
        # One class more than there are ends: the last one is open.
        default_factory=lambda: [LengthClass() for _ in range(len(RATIOS) + 1)]
    )
    scores: Counter[float] = field(default_factory=Counter)
    grades: Counter[float] = field(default_factory=Counter)
    judges: dict[str, Spending] = field(default_factory=dict)
    cluster: Mapping[str, int] = field(default_factory=dict)
    # (length class, cluster): a cluster counts once in each class
    _counted: set[tuple[int, int]] = field(default_factory=set)

    def add(
        self, case: Case, verdicts: Sequence[Verdict], judgments: Sequence[Judgment]
    ) -> None:
        """Add a case."""
        # Classes of this case: its cluster counts once in each.
        touched: set[int] = set()
        for verdict in verdicts:
            if verdict.orders is not None:
                self.passes[verdict.orders.first, verdict.orders.second] += 1
            if len(verdict.unit) == 2:
                touched |= self._count_length(case, verdict)
            elif verdict.score is not None and len(verdict.unit) == 1:
                self.scores[verdict.score] += 1
        if touched:
            self._count_cluster(case, touched)
        for response in case.responses:
            if response.grade is not None:
                self.grades[response.grade] += 1
        for judgment in judgments:
            self._count_spending(judgment)

    def _count_cluster(self, case: Case, touched: set[int]) -> None:
        """Count the cluster of a case once in each class of lengths."""
        cluster = self.cluster.get(case.id)
        for ratio_class in touched:
            # A case that is its own cluster counts always.
            if cluster is None or (ratio_class, cluster) not in self._counted:
                self.lengths[ratio_class].clusters += 1
            if cluster is not None:
                self._counted.add((ratio_class, cluster))

    def _count_length(self, case: Case, verdict: Verdict) -> set[int]:
        """Count a won pair by the ratio of its lengths; return its class, empty without one."""
        if verdict.winner not in ("A", "B"):
            return set()
        # The lengths of both responses in characters.
        first, second = (len(case.responses[k].text) for k in verdict.unit)
        # Equal lengths have no longer response, and an empty one has no ratio.
        if first == second or not min(first, second):
            return set()
        ratio = max(first, second) / min(first, second)
        # The first class whose upper end holds the ratio.
        ratio_class = next(
            (k for k, end in enumerate(RATIOS) if ratio <= end), len(RATIOS)
        )
        self.lengths[ratio_class].decided += 1
        # A is the first response of the unit: True if the longer one won.
        self.lengths[ratio_class].longer += (first > second) == (verdict.winner == "A")
        return {ratio_class}

    def _count_spending(self, judgment: Judgment) -> None:
        """Add a judgment's answers, tokens and cost to those of its judge."""
        # A third judgment is paid to its arbiter.
        payer = judgment.arbiter or judgment.judge
        spent = self.judges.get(payer)
        if spent is None:
            spent = self.judges[payer] = Spending()
        completion = judgment.completion
        if completion is None:
            return
        spent.answers += 1
        spent.stored += judgment.stored
        spent.prompt_tokens += completion.usage.prompt_tokens or 0
        spent.completion_tokens += completion.usage.completion_tokens or 0
        spent.unpriced += completion.cost_usd is None
        spent.cost_usd += completion.cost_usd or 0.0
        # 0 is unknown, as for answers of a batch.
        if completion.latency > 0:
            spent.latencies.append(completion.latency)
