"""The sections of a run's config, and what follows from several of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalkit.config.data import DatasetConfig, GateConfig
from evalkit.config.kinds import Text
from evalkit.config.rubric import Criteria, RubricConfig
from evalkit.config.section_base import Section
from evalkit.config.sections import (
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    ProbeConfig,
    PromptConfig,
    RunnerConfig,
    ScoringConfig,
    StoreConfig,
    SwapConfig,
    TieConfig,
)
from evalkit.config.tracking import TrackingConfig


class RunSections(Section):
    """The settings of one run, section by section; what they may be together is checked
    elsewhere.
    """

    judge: JudgeConfig
    """The judge, or a panel of judges."""
    mode: ModeConfig = ModeConfig()
    """How responses are shown to the judge."""
    criteria: Criteria = Field(default_factory=dict)
    """What to judge by: each criterion by name."""
    rubric: RubricConfig = RubricConfig()
    """The scale of scores."""
    swap: SwapConfig = SwapConfig()
    """Whether pairs are shown in both orders."""
    tie: TieConfig = TieConfig()
    """When two responses count as equal."""
    prompt: PromptConfig = PromptConfig()
    """Which prompt template is used."""
    output: OutputConfig = OutputConfig()
    """How the answer is formatted and parsed."""
    dataset: DatasetConfig = DatasetConfig()
    """Which cases are judged."""
    scoring: ScoringConfig = ScoringConfig()
    """How judgments become metrics."""
    probe: ProbeConfig = ProbeConfig()
    """Which biases are planted in the cases, to see whether the judge falls for them."""
    gate: GateConfig = GateConfig()
    """What the run must achieve; else the exit status is 4."""
    store: StoreConfig = StoreConfig()
    """Where answers are stored."""
    runner: RunnerConfig = RunnerConfig()
    """How requests are sent."""
    tracking: TrackingConfig = TrackingConfig()
    """Where the run is recorded."""
    objective: Text | tuple[Text, ...] | None = None
    """The metric, or several, that a sweeper such as Optuna optimizes."""

    @property
    def judges(self) -> tuple[JudgeConfig, ...]:
        """Every judge that may be asked: the members of the panel, and the arbiter last."""
        if self.swap.arbiter is None:
            return self.judge.members
        return (*self.judge.members, self.swap.arbiter)

    def margin_span(self) -> float:
        """Return the largest possible difference between two responses, in the units of
        `tie.threshold`.
        """
        by_score = self.mode.scores and self.scoring.normalize != "minmax"
        if by_score:
            return self.rubric.scale.span
        return 1.0

    def raw_weights(self) -> dict[str, float]:
        """Return the weight of each criterion as written; `scoring.weights` overrides
        `criteria`.
        """
        return {
            name: self.scoring.weights.get(name, criterion.weight)
            for name, criterion in self.criteria.items()
        }

    def weights(self) -> dict[str, float]:
        """Return the weight of each criterion, normalized to sum to 1."""
        raw = self.raw_weights()
        largest = max(raw.values(), default=0.0)
        shares = {
            name: weight / largest for name, weight in raw.items()
        }  # the sum of weights near 1e308 would overflow
        total = sum(shares.values())
        return {name: share / total for name, share in shares.items()}

    def weighs_criteria(self) -> bool:
        """Return whether the criteria's own weights differ."""
        return len({criterion.weight for criterion in self.criteria.values()}) > 1

    def aggregate(
        self, *, by_criterion: bool = True
    ) -> Literal["overall", "criteria", "criteria_first"]:
        """Return how a pair's margin is computed.

        `auto` means `criteria_first` if there are winners by criterion and the effective weights
        differ, and else `overall`.
        """
        aggregation = self.scoring.aggregate
        if aggregation != "auto":
            return aggregation
        if by_criterion and len({*self.raw_weights().values()}) > 1:
            return "criteria_first"
        return "overall"
