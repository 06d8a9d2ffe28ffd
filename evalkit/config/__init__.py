"""The settings of a run, frozen and validated."""

from evalkit.config.data import DatasetConfig, JoinConfig, SampleConfig, SplitConfig
from evalkit.config.gate import GateConfig, LeadRule, MetricRule
from evalkit.config.run_config import NOT_MEASURED, RunConfig, defaults
from evalkit.config.sections import (
    SIMULATED,
    Criterion,
    Example,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    Price,
    PromptConfig,
    RubricConfig,
    RunnerConfig,
    ScoringConfig,
    Section,
    StoreConfig,
    SwapConfig,
    TieConfig,
    TrackingConfig,
    criteria_by_name,
)

__all__ = [
    "NOT_MEASURED",
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
    "PromptConfig",
    "RubricConfig",
    "RunConfig",
    "RunnerConfig",
    "SampleConfig",
    "ScoringConfig",
    "Section",
    "SplitConfig",
    "StoreConfig",
    "SwapConfig",
    "TieConfig",
    "TrackingConfig",
    "criteria_by_name",
    "defaults",
]
