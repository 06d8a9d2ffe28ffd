"""RunConfig: everything one run is made of, with the rules that hold between its groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evalkit.config.data import DatasetConfig
from evalkit.config.gate import GateConfig
from evalkit.config.sections import (
    Criteria,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    PromptConfig,
    RubricConfig,
    RunnerConfig,
    ScoringConfig,
    Section,
    StoreConfig,
    SwapConfig,
    TieConfig,
    TrackingConfig,
)
from evalkit.core.hashing import digest
from evalkit.core.redaction import remedy_for, secrets_of

_CHINESE = re.compile("[\u3400-\u9fff]")

NOT_MEASURED = ("store", "runner", "tracking", "objective", "gate")
"""The sections that change none of a run's numbers."""


class RunConfig(Section):
    """Everything one run is made of."""

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
    gate: GateConfig = GateConfig()
    """What the run must achieve; else the exit status is 4."""
    store: StoreConfig = StoreConfig()
    """Where answers are stored."""
    runner: RunnerConfig = RunnerConfig()
    """How requests are sent."""
    tracking: TrackingConfig = TrackingConfig()
    """Where the run is recorded."""
    objective: str | tuple[str, ...] | None = None
    """The metric, or several, that a sweeper such as Optuna optimizes."""

    @model_validator(mode="before")
    @classmethod
    def _of_old_runs(cls, given: Any) -> Any:
        """Let a run folder's config of the time when criteria were a list say what was done then.

        Prompts for scores showed weights, and a pair's margin was the overall winner unless `scoring.weights` were set.
        """
        prompt = given.get("prompt") if isinstance(given, Mapping) else None
        if not isinstance(prompt, Mapping) or "language" not in prompt or "show_weights" in prompt:
            return given
        if not isinstance(given.get("criteria"), list | tuple):
            return given
        mode, scoring = given.get("mode"), given.get("scoring")
        found = {
            **given,
            "prompt": {**prompt, "show_weights": isinstance(mode, Mapping) and mode.get("name") == "pointwise"},
        }
        if isinstance(scoring, Mapping) and scoring.get("aggregate") == "auto":
            found["scoring"] = {**scoring, "aggregate": "criteria" if scoring.get("weights") else "overall"}
        return found

    @model_validator(mode="after")
    def _rules(self) -> Self:
        # A config is written to the run folder and to MLflow, and is shown.
        for key, what in secrets_of(self.dump()):
            raise ValueError(f"{key}: {what}: {remedy_for(key)}")
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> list[str]:
        found: list[str] = []
        names = list(self.criteria)
        found += self._unknown_in_examples(names)
        if not names:
            found.append("criteria: there is none: name at least one criterion")
        if unknown := sorted(set(self.scoring.weights) - set(names)):
            found.append(f"scoring.weights.{unknown[0]}: no such criterion: choose from {', '.join(names)}")
        if names and not sum(self.raw_weights().values()):
            found.append("criteria: every weight is 0: give at least one criterion a weight above 0")
        if self.mode.name == "pointwise" and self.swap.policy != "none":
            found.append(
                f"swap.policy: '{self.swap.policy}' needs two responses, and mode pointwise shows one: set swap=none"
            )
        if self.scoring.normalize in ("none", "minmax") and self.tie.threshold > self.margin_span():
            found.append(
                f"tie.threshold: {self.tie.threshold:g} is larger than the largest possible difference "
                f"({self.margin_span():g}): set it below that"
            )
        if self.output.format == "regex" and not self.output.pattern:
            found.append(
                "output.pattern: not set, and output.format is regex: give a pattern with a group 'winner' or 'score'"
            )
        return found + self._off_scale() + self._unasked()

    def _unasked(self) -> list[str]:
        """Return what is wrong with how often, and of whom, something is asked."""
        found, arbiter = [], self.swap.arbiter
        if (self.judge.weighs or (arbiter is not None and arbiter.weighs)) and self.output.format != "json":
            found.append(
                f"judge.logprobs: decisions are found by their place in JSON, and output.format is "
                f"'{self.output.format}': set output=json, or judge.logprobs=false"
            )
        if (
            self.scoring.aggregate == "criteria"
            and self.mode.name == "pairwise"
            and self.output.format in ("bracket", "rating", "regex")
        ):
            found.append(
                f"scoring.aggregate: output.format '{self.output.format}' gives no winners by criterion: set "
                "output=json, or scoring.aggregate=auto"
            )
        if arbiter is not None and arbiter.label in [member.label for member in self.judge.members]:
            found.append(f"swap.arbiter: '{arbiter.label}' is the judge's name too: give it a name of its own")
        return found

    def _unknown_in_examples(self, names: Sequence[str]) -> list[str]:
        if self.mode.name != "pointwise":
            return []
        return [
            f"rubric.examples.{i}.scores: no criterion is named '{name}': choose from {', '.join(names)}, or use "
            "examples that fit these criteria"
            for i, example in enumerate(self.rubric.examples)
            for name in example.scores
            if name not in names
        ]

    def _off_scale(self) -> list[str]:
        written = [("rubric.levels", [*self.rubric.levels])]
        for i, example in enumerate(self.rubric.examples):
            written += [(f"rubric.examples.{i}.{key}", [score]) for key, score in example.scored()]
        written += [(f"criteria.{name}.levels", [*one.levels]) for name, one in self.criteria.items()]
        scale = self.rubric.scale
        return [
            f"{key}: {value:g} is not on the scale {scale.name()}: give one of its values, or change the rubric"
            for key, values in written
            for value in values
            if not scale.contains(value)
        ]

    def margin_span(self) -> float:
        """Return the largest difference two responses can have, in the units of `tie.threshold`."""
        by_score = self.mode.name == "pointwise" and self.scoring.normalize != "minmax"
        return self.rubric.scale.span if by_score else 1.0

    def raw_weights(self) -> dict[str, float]:
        """Return the weight of each criterion as written, `scoring.weights` before `criteria`."""
        return {name: self.scoring.weights.get(name, one.weight) for name, one in self.criteria.items()}

    def weights(self) -> dict[str, float]:
        """Return the weight of each criterion, normalised to sum to 1."""
        raw = self.raw_weights()
        largest = max(raw.values(), default=0.0)
        shares = {name: weight / largest for name, weight in raw.items()}  # a sum of weights near 1e308 would overflow
        total = sum(shares.values())
        return {name: share / total for name, share in shares.items()}

    def weighs_criteria(self) -> bool:
        """Say whether the criteria's own weights differ."""
        return len({one.weight for one in self.criteria.values()}) > 1

    def aggregate(self, *, by_criterion: bool = True) -> Literal["overall", "criteria"]:
        """Return what a pair's margin is made of: `auto` weighs winners by criterion where effective weights differ.

        Without winners by criterion it takes the overall winner, whatever the weights.
        """
        how = self.scoring.aggregate
        if how != "auto":
            return how
        return "criteria" if by_criterion and len({*self.raw_weights().values()}) > 1 else "overall"

    def notes(self) -> list[str]:
        """Return what the user should know of how this config was understood."""
        found, total = [], sum(self.raw_weights().values())
        if abs(total - 1) > 1e-9:
            shares = ", ".join(f"{name} {weight:.3g}" for name, weight in self.weights().items())
            sums = f"sum to {total:.4g}" if isfinite(total) else "are too large to be summed"
            found.append(f"criteria weights {sums} and were normalised: {shares}")
        cold = [member.label for member in self.judge.members if member.temperature == 0]
        if cold and self.mode.samples > 1:
            found.append(
                f"mode.samples is {self.mode.samples}, and judge.temperature is 0 ({', '.join(cold)}): samples differ "
                "by no more than what the provider leaves to chance; set judge.temperature above 0"
            )
        third = self.swap.policy == "both" and self.swap.resolve == "third_pass"
        if cold and third and self.swap.arbiter is None:
            found.append(
                f"swap.resolve is third_pass, without an arbiter, and judge.temperature is 0 ({', '.join(cold)}): the "
                "third judgment mostly repeats one of the two; set swap.arbiter, or judge.temperature above 0"
            )
        ends, told = (self.rubric.min, self.rubric.max), [float(value) for value in self.rubric.levels]
        if told and self.mode.name == "pointwise" and not set(ends) <= set(told):
            found.append(
                f"rubric.levels say what {min(told):g} to {max(told):g} mean, and the scale is {ends[0]:g} to "
                f"{ends[1]:g}: start from rubric=own for a scale of your own, or give both ends a level"
            )
        found += self._calibration_notes() if self.mode.name == "pointwise" else ()
        return [*found, *self._language_notes()]

    def _language_notes(self) -> Iterator[str]:
        """Yield which texts of a Chinese prompt are in another language."""
        if self.prompt.language != "zh":
            return
        if not _CHINESE.search(" ".join(f"{name} {one.description}" for name, one in self.criteria.items())):
            yield "prompt.language is zh and the criteria are not in Chinese: set for example criteria=general_zh"
        levels = " ".join(self.rubric.levels.values()) if self.mode.name == "pointwise" else ""
        if levels and not _CHINESE.search(levels):
            yield "prompt.language is zh and rubric.levels are not in Chinese: set for example rubric=likert5_zh"

    def _calibration_notes(self) -> Iterator[str]:
        """Yield what the calibration examples do not cover."""
        rubric = self.rubric
        if not rubric.examples:
            yield (
                "rubric.examples is empty, so no level has a calibration example: set rubric.examples or "
                "rubric.examples_path, or with criteria=general rubric=likert5_examples"
            )
            return
        shown = {score for example in rubric.examples for _, score in example.scored()}
        if bare := [rubric.scale.text(level) for level in rubric.calibrated_levels() if level not in shown]:
            yield f"rubric.examples: no example at level{'s' if len(bare) > 1 else ''} {', '.join(bare)}"
        scored = {name for example in rubric.examples for name in example.scores}
        unscored = [name for name in self.criteria if name not in scored]
        if scored and unscored:
            yield f"rubric.examples: no example has a score for {', '.join(unscored)}"
        if any(not example.prompt for example in rubric.examples):
            yield "rubric.examples: some examples have no prompt, so the judge cannot see which task they answer"

    def dump(self) -> dict[str, Any]:
        """Return the resolved config as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    def hash(self) -> str:
        """Return the hash of everything that can change the run's numbers.

        Where and how fast it runs, and what it must come to, is not in it. The order of criteria is: judges see it.
        """
        dumped = self.dump()
        dumped["criteria"] = [{"name": name, **one} for name, one in dumped["criteria"].items()]
        for section in NOT_MEASURED:
            dumped.pop(section)
        return digest(dumped)


def defaults() -> Mapping[str, Any]:
    """Return every key with its default as JSON values; `judge.model` is left for an option to set."""
    sections = {
        name: field.default.model_dump(mode="json", by_alias=True)
        for name, field in RunConfig.model_fields.items()
        if isinstance(field.default, Section)
    }
    judge = JudgeConfig.model_construct().model_dump(mode="json", by_alias=True)
    return {"judge": judge, "criteria": None, **sections, "objective": RunConfig.model_fields["objective"].default}
