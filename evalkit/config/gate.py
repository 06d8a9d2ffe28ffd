"""The gate: the bounds that a run's metrics must satisfy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from evalkit.config.sections import Section

BOUND = re.compile(r"(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)", re.IGNORECASE)
NUMBERS = ("value", "low", "high", "worst_low", "worst_high")


def _bounds(text: str) -> str:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not BOUND.fullmatch(part):
            raise ValueError("is not a bound: write '>= 0.9', '<= 0.1' or both, as '>= 0.4, <= 0.6'")
    return ", ".join(parts)


Bounds = Annotated[str, AfterValidator(_bounds)]


class MetricRule(Section):
    """Bounds of one metric: on its value, its interval or its worst-case bounds."""

    value: Bounds | None = None
    """Bounds on the value, such as `>= 0.9`."""
    low: Bounds | None = None
    """Bounds on the lower end of the interval."""
    high: Bounds | None = None
    """Bounds on the upper end of the interval."""
    worst_low: Bounds | None = None
    """Bounds on the value if every missing answer had lowered it."""
    worst_high: Bounds | None = None
    """Bounds on the value if every missing answer had raised it."""
    by: Literal["interval", "value"] | None = None
    """Decide a bound on `value` by the whole interval, or by the value alone; by default as in `gate.by`."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"value": value}
        if not isinstance(value, Mapping):
            raise ValueError("is not a rule: write '>= 0.9', or {low: '>= 0.6'}")
        if unknown := sorted(set(map(str, value)) - set(cls.model_fields)):
            raise ValueError(f"has the unknown key '{unknown[0]}': choose from {', '.join(cls.model_fields)}")
        return value

    @model_validator(mode="after")
    def _something(self) -> MetricRule:
        if not self.bounds():
            raise ValueError("has no bound: write '>= 0.9', or {low: '>= 0.6'}")
        return self

    def bounds(self) -> list[tuple[str, str, float]]:
        """Return each bound as (field, sign, limit)."""
        texts = [(name, getattr(self, name)) for name in NUMBERS]
        return [
            (name, sign, float(limit))
            for name, text in texts
            if text is not None
            for sign, limit in BOUND.findall(text)
        ]


class LeadRule(Section):
    """A metric must be no worse than in another run, on the cases that both have."""

    run: str
    """Run folder or MLflow run id of the other run."""
    metric: str = "agreement/accuracy"
    """The metric to compare."""
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How much worse it may be."""
    better: Literal["higher", "lower"] | None = None
    """Which direction is better, if evalkit does not know the metric."""


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, Mapping | LeadRule) else value


class GateConfig(Section):
    """The goals of a run; each additional key is the name of a metric, and its value is the metric's rule."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())
    __pydantic_extra__: dict[str, MetricRule]

    by: Literal["interval", "value"] = "interval"
    """Decide bounds by the whole interval, or by the value alone."""
    undecided: Literal["pass", "fail", "exit_5"] = "pass"
    """Whether a rule that the interval leaves open passes, fails, or makes the exit status 5."""
    decision: Literal["rates_corrected", "rates", "single"] | None = None
    """What the judge must at least be good for: `rates` over many, corrected by labels or not, or `single` verdicts."""
    no_worse_than: Annotated[tuple[LeadRule, ...] | None, BeforeValidator(_as_tuple)] = None
    """Comparisons with other runs: one rule or a list."""

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        for key in value if isinstance(value, Mapping) else ():
            if key not in cls.model_fields and (near := get_close_matches(str(key), cls.model_fields, 1, cutoff=0.8)):
                raise ValueError(f"has the unknown key '{key}': did you mean '{near[0]}'?")
        return value

    @property
    def rules(self) -> dict[str, MetricRule]:
        """The rules by metric name."""
        return dict(self.__pydantic_extra__ or {})

    @property
    def leads(self) -> tuple[LeadRule, ...]:
        """The rules that compare with another run."""
        return self.no_worse_than or ()

    def __bool__(self) -> bool:
        """Return whether there is any rule."""
        return bool(self.rules or self.leads or self.decision)
