"""RunConfig: all settings of one run, the constraints between its groups, and errors in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, reduce
from math import isfinite
from pathlib import Path
from typing import Any, Literal, Self, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from evalkit.config.data import DatasetConfig, GateConfig, parse_label_map
from evalkit.config.kinds import Text
from evalkit.config.rubric import Criteria, RubricConfig
from evalkit.config.sections import (
    CHECKLIST,
    JudgeConfig,
    Levels,
    ModeConfig,
    OutputConfig,
    ProbeConfig,
    PromptConfig,
    RunnerConfig,
    ScoringConfig,
    Section,
    StoreConfig,
    SwapConfig,
    TieConfig,
)
from evalkit.config.tracking import TrackingConfig
from evalkit.core.bounded_files import check_yaml, read_yaml
from evalkit.core.display import relative
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.hashing import digest
from evalkit.core.redaction import remedy_for, secrets_of
from evalkit.core.regular_files import read_text
from evalkit.core.resources import shipped
from evalkit.core.scale import Scale

_CHINESE = re.compile("[\u3400-\u9fff]")


@cache
def _shipped_levels() -> tuple[Levels, ...]:
    """Return the levels of every shipped rubric."""
    files = sorted((shipped("conf") / "rubric").glob("*.yaml"))
    rubrics = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    return tuple(rubric["levels"] for rubric in rubrics if rubric.get("levels"))


def refuse_cascade(config: RunConfig, remedy: str) -> None:
    """Refuse a cascade without thresholds where cases are judged one by one, or a part of them.

    Raises:
        ConfigError: If labels would choose the thresholds of a cascade.
    """
    if config.judge.calibrates:
        problem = "labels choose the thresholds of a cascade, which needs the answers to all cases"
        raise ConfigError(problem, where="judge.vote=cascade", remedy=remedy)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


DECIDED_MODES = ("pointwise", "pairwise")
"""The modes whose questions have choices that a decision model can weigh."""
MOST_CHOICES = 255
"""The most choices of a question to a decision model."""
NOT_MEASURED = ("store", "runner", "tracking", "objective", "gate")
"""The sections that do not change a run's numbers."""


class RunConfig(Section):
    """All settings of one run."""

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

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, value: Any) -> Any:
        """Upgrade a config from when criteria were a list, keeping its behavior.

        Pointwise prompts showed weights, and a pair's margin was the overall winner unless
        `scoring.weights` were set.
        """
        prompt = value.get("prompt") if isinstance(value, Mapping) else None
        if (
            not isinstance(prompt, Mapping)
            or "language" not in prompt
            or "show_weights" in prompt
        ):
            return value
        if not isinstance(value.get("criteria"), list | tuple):
            return value
        mode = value.get("mode")
        scoring = value.get("scoring")
        upgraded = {
            **value,
            "prompt": {
                **prompt,
                "show_weights": isinstance(mode, Mapping)
                and mode.get("name") == "pointwise",
            },
        }
        if isinstance(scoring, Mapping) and scoring.get("aggregate") == "auto":
            upgraded["scoring"] = {
                **scoring,
                "aggregate": "criteria" if scoring.get("weights") else "overall",
            }
        return upgraded

    @model_validator(mode="before")
    @classmethod
    def _label_map_of_classes(cls, values: Any) -> Any:
        """Read a label map in text form here if its meanings are classes, which the error names."""
        rubric, dataset = (
            values.get(name) if isinstance(values, Mapping) else None
            for name in ("rubric", "dataset")
        )
        if not isinstance(rubric, Mapping) or not isinstance(dataset, Mapping):
            return values
        text = dataset.get("label_map")
        classes = rubric.get("classes")
        if isinstance(classes, str):
            with suppress(ValueError):
                classes = json.loads(classes)
        if isinstance(text, str) and isinstance(classes, Mapping) and len(classes) > 1:
            try:
                parse_label_map(text)
            except ValueError:
                names = [str(name) for name in classes]
                raise ValueError(
                    "dataset.label_map: is not a list of LABEL=CLASS, where a class is"
                    f" {_listed(names)}: for example 'good={names[0]}, bad={names[-1]}'"
                ) from None
        return values

    @model_validator(mode="after")
    def _rules(self) -> Self:
        # A config is written to the run folder and to MLflow, and is shown in the report.
        for key, secret in secrets_of(self.dump()):
            raise ValueError(f"{key}: {secret}: {remedy_for(key)}")
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> list[str]:
        problems = self._meaning_problems() + self._reward_problems()
        problems += self._decision_problems()
        if self.dataset.fit and not all(judge.context for judge in self.judge.members):
            problems.append(
                "dataset.fit: needs the judge's context length in tokens: set judge.context"
            )
        names = list(self.criteria)
        problems += self._unknown_in_examples(names)
        if not names:
            problems.append("criteria: there are none: set at least one criterion")
        if unknown := sorted(set(self.scoring.weights) - set(names)):
            problems.append(
                f"scoring.weights.{unknown[0]}: no such criterion: choose from {', '.join(names)}"
            )
        if names and not sum(self.raw_weights().values()):
            problems.append(
                "criteria: every weight is 0: give at least one criterion a weight above 0"
            )
        if self.mode.scores and self.swap.policy != "none":
            problems.append(
                f"swap.policy: '{self.swap.policy}' needs two responses, but mode {self.mode.name}"
                " shows one: set swap=none"
            )
        if self.mode.name == CHECKLIST and (self.rubric.min, self.rubric.max) != (0, 1):
            problems.append(
                "rubric: a checklist's score is from 0 to 1: set rubric=share"
            )
        if self.rubric.real and self.scoring.normalize == "minmax":
            problems.append(
                "scoring.normalize: minmax needs a scale with ends: set zscore, rank or none"
            )
        if (
            self.scoring.normalize in ("none", "minmax")
            and self.tie.threshold > self.margin_span()
        ):
            problems.append(
                f"tie.threshold: {self.tie.threshold:g} is larger than the largest possible"
                f" difference ({self.margin_span():g}): choose a smaller threshold"
            )
        if self.output.format == "regex" and not self.output.pattern:
            group = "'class'" if self.rubric.classes else "'winner' or 'score'"
            problems.append(
                "output.pattern: is required by output.format=regex: set a pattern with a group"
                f" {group}"
            )
        problems += self._class_problems() if self.rubric.classes else self._off_scale()
        problems += self._call_problems() + (
            self._cascade_problems() if self.judge.cascades else []
        )
        return problems + ([] if self.runner.stop is None else self._stop_problems())

    def _reward_problems(self) -> list[str]:
        """Return the settings that do not apply to reward models and classifiers."""
        if not self.judge.rewards:
            return []
        reason = f"reads text, and judge.endpoint={self.judge.members[0].endpoint}"
        problems = []
        if self.mode.name != "pointwise":
            problems.append(
                f"mode.name: '{self.mode.name}' {reason} judges one response: set mode=pointwise"
            )
        if self.mode.commit_first:
            problems.append(
                f"mode.commit_first: it {reason} answers no tasks: set it to false"
            )
        if not (self.rubric.real or self.rubric.classes):
            problems.append(
                f"rubric: a scale {reason} answers with numbers or labels: set rubric=real, or"
                " rubric.classes"
            )
        if len(self.criteria) > 1:
            problems.append(
                f"criteria: there are {len(self.criteria)}, and a reward model has one: set"
                " criteria=overall"
            )
        return problems

    def _decision_problems(self) -> list[str]:
        """Return the settings that do not apply to decision models."""
        arbiter = self.swap.arbiter
        if arbiter is not None and arbiter.decides != self.judge.decides:
            return [
                "swap.arbiter: a decision model and another judge cannot share a question"
            ]
        if not self.judge.decides:
            return []
        reason = (
            f"judge.endpoint={self.judge.members[0].endpoint} answers questions with"
        )
        problems = []
        if self.mode.name not in DECIDED_MODES:
            problems.append(
                f"mode.name: {reason} choices, and mode {self.mode.name} has none: set mode to"
                f" {' or '.join(DECIDED_MODES)}"
            )
        if self.mode.commit_first:
            problems.append(f"mode.commit_first: {reason} no text: set it to false")
        if not self.output.structured:
            problems.append(f"output.format: {reason} no text: set output=json")
        if self.prompt.template is not None:
            problems.append(
                f"prompt.template: {reason} choices that come from criteria and rubric: remove it"
            )
        if self.rubric.examples or self.rubric.examples_path:
            problems.append(f"rubric.examples: {reason} no examples: remove them")
        if self.rubric.real:
            problems.append(
                f"rubric.real: {reason} choices: set rubric.min and rubric.max"
            )
        elif not self.rubric.classes and len(Scale.of(self.rubric)) > MOST_CHOICES:
            problems.append(
                f"rubric: {reason} at most {MOST_CHOICES} choices: choose a larger rubric.step"
            )
        return problems

    def _cascade_problems(self) -> list[str]:
        """Return the settings with which a cascade cannot tell how sure a judge is, or whom to ask next."""
        problems = list[str]()
        pairs = self.mode.name == "pairwise"
        if not pairs and not self.rubric.classes:
            problems.append(
                "judge.vote: a cascade decides pairs or classes: set mode=pairwise, or"
                " rubric.classes"
            )
        if self.judge.last == "answer":
            before = self.judge.members[:-1]
        else:
            before = self.judge.members
        sure = self.mode.samples > 1 or (pairs and self.swap.policy == "both")
        if not sure and (
            mute := [judge.label for judge in before if not judge.probabilities]
        ):
            also = ", or swap=both" if pairs else ""
            problems.append(
                f"judge.vote: nothing shows how sure {mute[0]} is: set its logprobs, or"
                f" mode.samples above 1{also}"
            )
        if self.runner.kind in ("slurm", "ray") and self.judge.thresholds is None:
            problems.append(
                "runner.kind: workers have a part of the cases, and the thresholds of a cascade"
                " need all: set online, or judge.thresholds as in cascade.json of a run with labels"
            )
        return problems

    def _stop_problems(self) -> list[str]:
        """Return the settings with which a run cannot stop at complete clusters, each with its own verdicts."""
        problems = {
            f"{self.runner.kind} asks before it has answers: set runner=online": (
                self.runner.kind != "online"
            ),
            "a cascade asks one judge about all cases before the next: choose one judge": (
                self.judge.cascades
            ),
            "judge.vote=dawid_skene needs all votes: set judge.vote=majority": (
                self.judge.vote == "dawid_skene"
            ),
            "scoring.normalize needs all scores: set minmax or none": (
                self.scoring.normalize in ("zscore", "rank")
            ),
            "scoring.length_control needs all scores: set it to false": self.scoring.length_control,
            "rubric=real has no ends, so no mean has a known range: use a scale with ends": (
                self.rubric.real
            ),
            "an audit compares all its cases: audit without it": bool(
                self.probe.probes
            ),
            "dataset.holdout holds out labels of all cases: set one of them": (
                self.dataset.holdout is not None
            ),
        }
        return [
            f"runner.stop: {problem}"
            for problem, applies in problems.items()
            if applies
        ]

    def _class_problems(self) -> list[str]:
        """Return the settings that do not apply to classes."""
        problems = list[str]()
        vote = self.judge.vote
        for i, example in enumerate(self.rubric.examples):
            if example.class_name not in self.rubric.classes:
                if example.class_name is not None:
                    answer = f"class '{example.class_name}'"
                else:
                    answer = "a score"
                problems.append(
                    f"rubric.examples.{i}: it has {answer}, and the rubric has classes: set"
                    f" class_name to one of {', '.join(self.rubric.classes)}"
                )
        if self.scoring.weights:
            problems.append(
                "scoring.weights: the judge chooses one class by all criteria, without weights:"
                " remove it"
            )
        if self.judge.judges is not None and vote in ("mean", "median"):
            problems.append(
                f"judge.vote: classes have no {vote}: set judge.vote=majority, weighted or"
                " dawid_skene"
            )
        if self.scoring.normalize != "none":
            problems.append(
                "scoring.normalize: classes have no scale to normalize: remove it"
            )
        for name, criterion in self.criteria.items():
            if criterion.levels:
                problems.append(
                    f"criteria.{name}.levels: levels are for scores, and the rubric has classes:"
                    " remove them"
                )
        return problems

    def _meaning_problems(self) -> list[str]:
        """Return the texts in `dataset.label_map` and `output.map` that mean nothing in this run."""
        classes = self.rubric.named_classes
        problems = []
        meanings = ["A", "B", "TIE"] if classes is None else [*classes.answers]
        also = ", or a grade" if classes is None else ""
        for label, meaning in self.dataset.label_map.items():
            numeric = isinstance(meaning, float | int)
            value = f"{meaning:g}" if isinstance(meaning, float | int) else meaning
            if meaning in meanings or (
                numeric if classes is None else classes.find(value) is not None
            ):
                continue
            problems.append(
                f"dataset.label_map.{label}: '{value}' is not {_listed(meanings)}{also}:"
                " write one of"
                " them"
            )
        winners = (
            "A",
            "B",
            "TIE",
        )  # those of conf/output/regex.yaml, which do not apply to classes
        for text, meaning in self.output.map.items():
            if meaning not in meanings and meaning not in winners:
                problems.append(
                    f"output.map.{text}: '{meaning}' is not {_listed(meanings)}: write one of them"
                )
        return problems

    def _call_problems(self) -> list[str]:
        """Return the problems with log-probabilities, criteria and the arbiter."""
        problems = []
        arbiter = self.swap.arbiter
        if (
            self.judge.weighs or (arbiter is not None and arbiter.weighs)
        ) and not self.output.structured:
            problems.append(
                "judge.logprobs: decisions are located in JSON, but output.format is "
                f"'{self.output.format}': set output=json, or judge.logprobs=false"
            )
        if (
            self.scoring.aggregate in ("criteria", "criteria_first")
            and self.mode.name == "pairwise"
            and not self.output.structured
        ):
            problems.append(
                f"scoring.aggregate: output.format '{self.output.format}' has no winners by"
                " criterion: set output=json, or scoring.aggregate=auto"
            )
        if (
            self.judge.vote == "dawid_skene"
            and self.mode.scores
            and not self.rubric.classes
        ):
            problems.append(
                "judge.vote: dawid_skene is for pairs and classes, not for scores: set"
                " judge.vote=majority"
            )
        if arbiter is not None and arbiter.label in [
            member.label for member in self.judge.members
        ]:
            problems.append(
                f"swap.arbiter: '{arbiter.label}' is also the judge's name: set a different name"
            )
        return problems

    def _unknown_in_examples(self, names: Sequence[str]) -> list[str]:
        if self.mode.name != "pointwise":
            ties = [
                i
                for i, example in enumerate(self.rubric.examples)
                if example.winner == "TIE" and not self.tie.allow
            ]
            return [
                f"rubric.examples.{i}.winner: ties are not allowed: set tie=allow, or remove it"
                for i in ties
            ]
        pairs = [
            i
            for i, example in enumerate(self.rubric.examples)
            if example.winner is not None
        ]
        return [
            f"rubric.examples.{i}: it is a pair: set mode=pairwise, or remove it"
            for i in pairs
        ] + [
            f"rubric.examples.{i}.scores: there is no criterion '{name}': choose from"
            f" {', '.join(names)}, or use examples for these criteria"
            for i, example in enumerate(self.rubric.examples)
            for name in example.scores
            if name not in names
        ]

    def _off_scale(self) -> list[str]:
        written = [("rubric.levels", [*self.rubric.levels])]
        for i, example in enumerate(self.rubric.examples):
            written += [
                (f"rubric.examples.{i}.{key}", [score])
                for key, score in example.scored()
            ]
        written += [
            (f"criteria.{name}.levels", [*criterion.levels])
            for name, criterion in self.criteria.items()
        ]
        scale = self.rubric.scale
        unscored = [
            f"rubric.examples.{i}: it has a class, and the rubric has a scale: set score or scores"
            for i, example in enumerate(self.rubric.examples)
            if example.class_name is not None
        ]
        return unscored + [
            f"{key}: {value:g} is not on the scale {scale.name()}: choose one of its values, or"
            " change the rubric"
            for key, values in written
            for value in values
            if not scale.contains(value)
        ]

    def margin_span(self) -> float:
        """Return the largest possible difference between two responses, in the units of `tie.threshold`."""
        by_score = self.mode.scores and self.scoring.normalize != "minmax"
        if by_score:
            return self.rubric.scale.span
        return 1.0

    def raw_weights(self) -> dict[str, float]:
        """Return the weight of each criterion as written; `scoring.weights` overrides `criteria`."""
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

    def notes(self, *, judged: bool = True) -> list[str]:
        """Return notes for the user on how this config was interpreted.

        Args:
            judged: Whether a judge is asked with this config; an import needs no notes on the
                prompt.
        """
        notes = []
        total = sum(self.raw_weights().values())
        if abs(total - 1) > 1e-9:
            shares = ", ".join(
                f"{name} {weight:.3g}" for name, weight in self.weights().items()
            )
            sums = f"sum to {total:.4g}" if isfinite(total) else "are too large to sum"
            notes.append(f"criteria weights {sums} and were normalized: {shares}")
        own_weights = {
            name: criterion.weight
            for name, criterion in self.criteria.items()
            if "weight" in criterion.model_fields_set
        }
        if unused := [
            name
            for name, weight in own_weights.items()
            if self.scoring.weights.get(name, weight) != weight
        ]:
            notes.append(
                "scoring.weights overrides criteria.NAME.weight, which has no effect:"
                f" {', '.join(unused)}"
            )
        cold = [
            member.label for member in self.judge.members if member.temperature == 0
        ]
        if cold and self.mode.samples > 1:
            notes.append(
                f"mode.samples is {self.mode.samples}, but judge.temperature is 0"
                f" ({', '.join(cold)}): samples differ only by the provider's nondeterminism; set"
                " judge.temperature above 0"
            )
        third = self.swap.policy == "both" and self.swap.resolve == "third_pass"
        if cold and third and self.swap.arbiter is None:
            notes.append(
                "swap.resolve is third_pass without an arbiter, but judge.temperature is 0"
                f" ({', '.join(cold)}): the third judgment mostly repeats one of the first two; set"
                " swap.arbiter, or judge.temperature above 0"
            )
        if self.scoring.checklist != "points" and self.mode.name != CHECKLIST:
            notes.append(f"scoring.checklist has no effect with mode={self.mode.name}")
        if (writer := self.probe.rewriter) is not None and writer.model in [
            judge.model for judge in self.judge.members
        ]:
            notes.append(
                "probe.rewriter is also the judge's model: a shift toward its paraphrases can be a"
                " preference for its own words; set another model"
            )
        prompt = [*self._language_notes()] if judged else []
        if self.rubric.classes or self.rubric.real:
            return [*notes, *prompt]
        ends = (self.rubric.min, self.rubric.max)
        levels = [float(value) for value in self.rubric.levels]
        if levels and self.mode.name == "pointwise" and not set(ends) <= set(levels):
            notes.append(
                f"rubric.levels describe {min(levels):g} to {max(levels):g}, but the scale is"
                f" {ends[0]:g} to {ends[1]:g}: start from rubric=own for a custom scale, or"
                " describe both ends"
            )
        notes += (
            self._calibration_notes()
            if judged and self.mode.name == "pointwise"
            else ()
        )
        return [*notes, *prompt]

    def _language_notes(self) -> Iterator[str]:
        """Yield notes on texts of a Chinese prompt that are in another language."""
        if self.prompt.language != "zh":
            return
        shows_criteria = self.mode.name != CHECKLIST
        if shows_criteria and not _CHINESE.search(
            " ".join(
                f"{name} {criterion.description}"
                for name, criterion in self.criteria.items()
            )
        ):
            yield (
                "prompt.language is zh, but the criteria are not in Chinese: set for example"
                " criteria=general_zh"
            )
        if self.rubric.classes and not _CHINESE.search(
            " ".join(self.rubric.classes.values())
        ):
            yield (
                "prompt.language is zh, but rubric.classes are not in Chinese: set for example"
                " rubric=pass_fail_zh"
            )
        if self.mode.name == "pointwise":
            levels = " ".join(self.rubric.levels.values())
        else:
            levels = ""
        if levels and not _CHINESE.search(levels):
            yield (
                "prompt.language is zh, but rubric.levels are not in Chinese: set for example"
                " rubric=likert5_zh"
            )

    def _calibration_notes(self) -> Iterator[str]:
        """Yield notes on missing calibration examples."""
        rubric = self.rubric
        if not rubric.examples:
            if (
                rubric.levels in _shipped_levels()
            ):  # of a custom rubric, its author decides
                yield (
                    "rubric.examples is empty, so no level has a calibration example: set"
                    " rubric.examples or rubric.examples_path, or use rubric=likert5_examples with"
                    " criteria=general"
                )
            return
        shown_levels = {
            score for example in rubric.examples for _, score in example.scored()
        }
        if bare := [
            rubric.scale.text(level)
            for level in rubric.calibrated_levels()
            if level not in shown_levels
        ]:
            yield (
                f"rubric.examples: no example has level{'s' if len(bare) > 1 else ''}"
                f" {', '.join(bare)}"
            )
        scored = {name for example in rubric.examples for name in example.scores}
        unscored = [name for name in self.criteria if name not in scored]
        if scored and unscored:
            yield f"rubric.examples: no example has a score for {', '.join(unscored)}"
        if any(not example.prompt for example in rubric.examples):
            yield (
                "rubric.examples: some examples have no prompt, so the judge does not see the task"
                " that they answer"
            )

    def dump(self) -> dict[str, Any]:
        """Return the resolved config as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    def hash(self) -> str:
        """Return the hash of everything that can change the run's numbers.

        It does not depend on where and how fast the run executes, and on its gate. It depends on
        the order of criteria, because judges see it.
        """
        dumped = self.dump()
        dumped["criteria"] = [
            {"name": name, **criterion}
            for name, criterion in dumped["criteria"].items()
        ]
        for section in NOT_MEASURED:
            dumped.pop(section)
        if (
            not self.probe.probes
        ):  # a run without probes is the same run as before there were any
            dumped.pop("probe")
        elif self.probe.rewriter is None:  # likewise
            dumped["probe"].pop("rewriter")
        if (
            self.runner.stop is not None
        ):  # it decides which cases are judged; `largest` follows from them
            dumped["stop"] = self.runner.stop.model_copy(
                update={"largest": None}
            ).model_dump(mode="json")
        return digest(_without_later_keys(dumped))


_LATER_KEYS = {
    "endpoint": "chat",
    "template": None,
    "context": None,
    "real": False,
    "fit": None,
    "source": None,
    "look": None,
    "holdout": None,
    "target": 0.9,
    "delta": 0.1,
    "last": "abstain",
    "calibration": 0.5,
    "response_b": None,
    "winner": None,
    "thresholds": None,
    "images": "send",
    "max_images": 20,
    "max_image_bytes": 5_000_000,
    "vision": None,
}
"""Keys that runs of version 0.2 did not have, with the values that mean the same."""


def _without_later_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_later_keys(element) for element in value]
    if not isinstance(value, Mapping):
        return value
    # a later key counts only if it differs from its default, so that older configs keep
    # their hashes
    return {
        key: _without_later_keys(part)
        for key, part in value.items()
        if key not in _LATER_KEYS
        or part != _LATER_KEYS[key]
        or (key == "template" and "language" in value)
    }


def defaults() -> Mapping[str, Any]:
    """Return every key with its default as JSON values; `judge.model` has none, because an option must set it."""
    sections = {
        name: field.default.model_dump(mode="json", by_alias=True)
        for name, field in RunConfig.model_fields.items()
        if isinstance(field.default, Section)
    }
    judge = JudgeConfig.model_construct().model_dump(mode="json", by_alias=True)
    return {
        "judge": judge,
        "criteria": None,
        **sections,
        "objective": RunConfig.model_fields["objective"].default,
    }


_ASKS = "Input should be "
_TYPE = re.compile(
    r"(str|int|float|bool|constrained-\w+|(literal|dict|list|tuple|nullable|function-[a-z]+)\W.*)$",
    re.S,
)


def locate(key: Sequence[str | int], files: Sequence[Path], value: Any = None) -> str:
    """Return `file:line` of a key path in the first of `files` that sets it, or an empty string.

    Args:
        key: The key path.
        files: The config files, in order of precedence.
        value: If this is a scalar or a list, only files that set the key to it count. Other files
            may set the key, too, or the command line sets it.
    """
    for file in files:
        try:
            text = read_text(file)
            check_yaml(text)
            root = yaml.compose(text)
        except (OSError, yaml.YAMLError, ValueError, RecursionError):
            continue
        if (
            [file.parent.name] == list(key)
            and isinstance(root, yaml.SequenceNode)
            and _has_value(root, value)
        ):
            return f"{relative(file)}:1"
        # the file of an option has the keys below the name of its group
        for path in (list(key), list(key[1:]) if file.parent.name == key[0] else None):
            if (
                path
                and (entry := _line(root, path)) is not None
                and _has_value(entry[1], value)
            ):
                return f"{relative(file)}:{entry[0]}"
    return ""


def _option(group: str, section: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return the option file that sets most keys of an invalid section, and no other value; empty if there is none."""
    agreeing: dict[str, int] = {}
    for file in [file for file in files if file.parent.name == group]:
        with suppress(OSError, ValueError):
            values = read_yaml(read_text(file))
            # `defaults` is a list of Hydra's, not a setting
            option_values = {
                key: part
                for key, part in (values if isinstance(values, dict) else {}).items()
                if key != "defaults"
            }
            if option_values and all(
                section.get(key) == part for key, part in option_values.items()
            ):
                agreeing[str(relative(file))] = len(option_values)
    return max(agreeing, key=lambda file: agreeing[file], default="")


def _has_value(node: yaml.Node, value: Any) -> bool:
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
        text = yaml.serialize(node)
        return "${" in text or bool(yaml.safe_load(text) == value)
    if (
        not isinstance(value, str | int | float)
        or not isinstance(node, yaml.ScalarNode)
        or "${" in node.value
    ):
        return True
    written = yaml.safe_load(yaml.serialize(node))
    return bool(written == value) or str(written) == str(
        value
    )  # nan is not equal to nan


def _line(
    node: yaml.Node | None, path: Sequence[str | int]
) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of a key path; an entry of a list may be addressed by its name."""
    line = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            entry = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if entry is None:
                return None
            line = entry[0].start_mark.line + 1
            node = entry[1]
        elif (
            isinstance(node, yaml.SequenceNode)
            and isinstance(part, int)
            and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode):
            node = next(
                (element for element in node.value if _name_of(element) == part), None
            )
            line = node.start_mark.line + 1 if node else None
        else:
            return None
    if line is None or node is None:
        return None
    return (line, node)


def _name_of(node: yaml.Node) -> str | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value.value for key, value in pairs if key.value == "name"), None)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a type names, as of a field: `list[Model] | None` has one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from models_in(inner)


def _sections() -> frozenset[str]:
    """Return the names of the classes of all sections of RunConfig."""
    sections: set[type[BaseModel]] = set()
    todo: list[type[BaseModel]] = [RunConfig]
    while todo:
        for field in todo.pop().model_fields.values():
            new = {*models_in(field.annotation)} - sections
            sections |= new
            todo += new
    return frozenset(section.__name__ for section in sections)


_SECTIONS = _sections()


def config_error(error: ValidationError, files: Sequence[Path]) -> ConfigError:
    """Return the first problem that pydantic found, with the file and line that set the value, if a file did."""
    first, loc = _most_telling(error.errors(include_url=False))
    key = ".".join(str(part) for part in loc)
    message = re.sub(r"^(Value|Assertion) error, ", "", first["msg"])
    if not loc and (named := re.match(r"([a-z_]+(?:\.[\w ]+)*): ", message)):
        loc = [int(part) if part.isdigit() else part for part in named[1].split(".")]
        key = named[1]
        message = message[named.end() :]
    location = locate(loc, files, first.get("input")) if loc else ""
    if (
        len(loc) == 1
        and not location
        and isinstance(section := first.get("input"), Mapping)
    ):
        location = _option(str(loc[0]), section, files)
    if (
        loc[:1] == ["gate"] and len(loc) > 1
    ):  # a rule may be a text instead of a mapping
        location = location or locate(loc[:-1], files)
    where = f"{location}: {key}" if location else key
    if first["type"] == "extra_forbidden":
        return no_such("key", where, str(loc[-1]), known_keys(loc[:-1]))
    if first["type"] == "missing":
        in_list = any(isinstance(part, int) for part in loc)
        return ConfigError(
            "is not set", where=where, remedy="add it" if in_list else f"give {key}=…"
        )
    if first["type"] in ("dict_type", "model_type"):
        message = "is not a mapping: write {name: value, ...}"
    if first["type"] in ("tuple_type", "list_type"):
        message = "is not a list: write [A, B]"
    problem, _, remedy = message.partition(": ")
    value = first.get("input")
    if isinstance(value, str | int | float | bool) and loc:
        received = f" (got {value!r})"
    else:
        received = ""
    if problem[1:2].islower():
        problem = problem[:1].lower() + problem[1:]
    return ConfigError(problem + received, where=where, remedy=remedy)


def _most_telling(errors: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the problem to report, and its key path without the types that pydantic tried for the value.

    If a value can have several types, there is a problem for each. The one of the type that the
    value was meant to have is reported: that of the section for a mapping, a limit that a number
    breaks, and otherwise what each type asks for.
    """
    first = errors[0]
    # a key path names each type that pydantic tried, at the same position
    position = next((n for n, part in enumerate(first["loc"]) if _is_type(part)), None)
    if position is None:
        return first, list(first["loc"])
    tried = [
        problem
        for problem in errors
        if problem["loc"][:position] == first["loc"][:position]
        and len(problem["loc"]) > position
    ]
    inside = [
        problem
        for problem in tried
        if _is_section(problem["loc"][position])
        and problem["type"] not in ("dict_type", "model_type")
    ]
    limits = [
        problem
        for problem in tried
        if not re.search(r"_(type|error|parsing|from_float)$", problem["type"])
    ]
    chosen = (inside or limits or tried)[0]
    if not inside and not (chosen in limits and chosen["type"] != "literal_error"):
        expectations = list(
            dict.fromkeys(
                re.sub(r"(, unable| or instance).*", "", problem["msg"])
                for problem in tried
            )
        )
        if all(expected.startswith(_ASKS) for expected in expectations):
            plain = {
                "a valid dictionary": "a mapping",
                "a valid integer": "an integer",
                "a valid ": "a ",
            }
            expectations = [
                reduce(
                    lambda text, old: text.replace(old, plain[old]),
                    plain,
                    expected[len(_ASKS) :],
                )
                for expected in expectations
            ]
            chosen = {
                **chosen,
                "type": "union",
                "msg": _ASKS + ", or ".join(expectations),
            }
    return chosen, [
        part
        for n, part in enumerate(chosen["loc"])
        if n < position or not _is_type(part)
    ]


def _is_type(part: object) -> bool:
    """Return whether a part of pydantic's path is a type that it tried instead of a key."""
    return isinstance(part, str) and (
        _is_section(part) or _TYPE.match(part) is not None
    )


def _is_section(part: object) -> bool:
    return part in _SECTIONS or (
        isinstance(part, str) and re.sub(r".*, (\w+)\]$", r"\1", part) in _SECTIONS
    )


def known_keys(path: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed under a key path of RunConfig."""
    model: type[BaseModel] | None = RunConfig
    named = False  # whether the last key is a name from the user, like an entry of a mapping
    for part in path:
        if isinstance(part, int) or named:
            named = False
            continue
        field = model.model_fields.get(part) if model else None
        named = field is not None and get_origin(field.annotation) is dict
        model = next(models_in(field.annotation), None) if field else None
    if model:
        return list(model.model_fields)
    return []


def no_such(kind: str, where: str, name: str, names: Sequence[str]) -> ConfigError:
    """Return the error for a name that is not one of the `names` names."""
    if name in names:  # it exists, but not in this form
        items = where.rpartition(".")[0]
        if items:
            remedy = f"set the whole list: '{items}=[{{{name}: VALUE}}]'"
        else:
            remedy = f"write {name}.KEY=VALUE"
        return ConfigError("cannot be set in this way", where=where, remedy=remedy)
    return ConfigError(f"no such {kind}", where=where, remedy=did_you_mean(name, names))
