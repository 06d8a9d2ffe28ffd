"""The settings of a run, frozen and validated."""

from evalkit.config.data import (
    DatasetConfig,
    GateConfig,
    JoinConfig,
    LeadRule,
    MetricRule,
    SampleConfig,
    SplitConfig,
)
from evalkit.config.rubric import Criterion, Example, RubricConfig, criteria_by_name
from evalkit.config.run_config import NOT_MEASURED, RunConfig, defaults, refuse_cascade
from evalkit.config.section_base import Section
from evalkit.config.sections import (
    CHECKLIST,
    DECISIONS,
    SCORED_MODES,
    SIMULATED,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    Price,
    ProbeConfig,
    PromptConfig,
    RunnerConfig,
    ScoringConfig,
    SourceConfig,
    StoreConfig,
    SwapConfig,
    TieConfig,
)
from evalkit.config.tracking import TrackingConfig

__all__ = [
    "CHECKLIST",
    "DECISIONS",
    "NOT_MEASURED",
    "SCORED_MODES",
    "SIMULATED",
    "Criterion",
    "DatasetConfig",
    "Example",
    "GateConfig",
    "JoinConfig",
    "JudgeConfig",
    "LeadRule",
    "MetricRule",
    "ModeConfig",
    "OutputConfig",
    "Price",
    "ProbeConfig",
    "PromptConfig",
    "RubricConfig",
    "RunConfig",
    "RunnerConfig",
    "SampleConfig",
    "ScoringConfig",
    "Section",
    "SourceConfig",
    "SplitConfig",
    "StoreConfig",
    "SwapConfig",
    "TieConfig",
    "TrackingConfig",
    "criteria_by_name",
    "defaults",
    "refuse_cascade",
]
