"""RunConfig: all settings of one run, upgraded, checked and hashed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from math import isfinite
from typing import Any, Self

import yaml
from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator

from evalkit.config.data import parse_label_map
from evalkit.config.rules import listed, problems_of
from evalkit.config.run_sections import RunSections
from evalkit.config.section_base import Section, without_addresses
from evalkit.config.sections import (
    CHECKLIST,
    JudgeConfig,
    Levels,
)
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import digest
from evalkit.core.patterns import lazy_pattern
from evalkit.core.redaction import remedy_for, secrets_of
from evalkit.core.resources import shipped

_CHINESE = lazy_pattern("[\u3400-\u9fff]")


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


NOT_MEASURED = ("store", "runner", "tracking", "objective", "gate")
"""The sections that do not change a run's numbers."""


class RunConfig(RunSections):
    """All settings of one run."""

    @model_validator(mode="wrap")
    @classmethod
    def _without_links(
        cls, value: Any, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        """Validate, and raise errors without the addresses of pydantic's documentation."""
        try:
            return handler(value)
        except ValidationError as error:
            raise without_addresses(error) from None

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, value: Any) -> Any:
        """Upgrade a config from when criteria were a list, keeping its behavior.

        Pointwise prompts showed weights, and a pair's margin was the overall winner unless
        `scoring.weights` were set.
        """
        if not isinstance(value, Mapping):
            return value
        # Old configs are recognized by what they lack; a new one must never be changed here.
        prompt = value.get("prompt")
        if not isinstance(prompt, Mapping):
            return value
        if "language" not in prompt or "show_weights" in prompt:
            return value
        if not isinstance(value.get("criteria"), list | tuple):
            return value
        mode = value.get("mode")
        is_pointwise = isinstance(mode, Mapping) and mode.get("name") == "pointwise"
        upgraded = {**value, "prompt": {**prompt, "show_weights": is_pointwise}}
        scoring = value.get("scoring")
        if isinstance(scoring, Mapping) and scoring.get("aggregate") == "auto":
            aggregate = "criteria" if scoring.get("weights") else "overall"
            upgraded["scoring"] = {**scoring, "aggregate": aggregate}
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
                    f" {listed(names)}: for example 'good={names[0]}, bad={names[-1]}'"
                ) from None
        return values

    @model_validator(mode="after")
    def _rules(self) -> Self:
        # A config is written to the run folder and to MLflow, and is shown in the report.
        # Before the rules, whose messages may quote values.
        for key, secret in secrets_of(self.dump()):
            raise ValueError(f"{key}: {secret}: {remedy_for(key)}")
        for problem in problems_of(self):
            raise ValueError(problem)
        return self

    def notes(self, *, judged: bool = True) -> list[str]:
        """Return notes for the user on how this config was interpreted.

        Args:
            judged: Whether a judge is asked with this config; an import needs no notes on the
                prompt.
        """
        notes = [*self._weight_notes(), *self._sample_notes(), *self._unused_notes()]
        has_levels = not self.rubric.classes and not self.rubric.real
        if has_levels and self.mode.name == "pointwise":
            notes += self._level_notes()
            if judged:
                notes += self._calibration_notes()
        if judged:
            notes += self._language_notes()
        return notes

    def _weight_notes(self) -> Iterator[str]:
        """Yield notes on weights that are normalized or overridden."""
        total = sum(self.raw_weights().values())
        if abs(total - 1) > 1e-9:
            shares = ", ".join(
                f"{name} {weight:.3g}" for name, weight in self.weights().items()
            )
            sums = f"sum to {total:.4g}" if isfinite(total) else "are too large to sum"
            yield f"criteria weights {sums} and were normalized: {shares}"
        # Only weights that the user has set: a default that is overridden needs no note.
        own_weights = {
            name: criterion.weight
            for name, criterion in self.criteria.items()
            if "weight" in criterion.model_fields_set
        }
        unused = [
            name
            for name, weight in own_weights.items()
            if self.scoring.weights.get(name, weight) != weight
        ]
        if unused:
            yield (
                "scoring.weights overrides criteria.NAME.weight, which has no effect:"
                f" {', '.join(unused)}"
            )

    def _sample_notes(self) -> Iterator[str]:
        """Yield notes on repeated judgments at temperature 0.

        A provider mostly repeats itself there.
        """
        cold = [
            member.label for member in self.judge.members if member.temperature == 0
        ]
        if not cold:
            return
        if self.mode.samples > 1:
            yield (
                f"mode.samples is {self.mode.samples}, but judge.temperature is 0"
                f" ({', '.join(cold)}): samples differ only by the provider's nondeterminism; set"
                " judge.temperature above 0"
            )
        has_third = self.swap.policy == "both" and self.swap.resolve == "third_pass"
        if has_third and self.swap.arbiter is None:
            yield (
                "swap.resolve is third_pass without an arbiter, but judge.temperature is 0"
                f" ({', '.join(cold)}): the third judgment mostly repeats one of the first two; set"
                " swap.arbiter, or judge.temperature above 0"
            )

    def _unused_notes(self) -> Iterator[str]:
        """Yield notes on settings that have no effect, or that favor the judge."""
        if self.scoring.checklist != "points" and self.mode.name != CHECKLIST:
            yield f"scoring.checklist has no effect with mode={self.mode.name}"
        models = [judge.model for judge in self.judge.members]
        writer = self.probe.rewriter
        if writer is not None and writer.model in models:
            yield (
                "probe.rewriter is also the judge's model: a shift toward its paraphrases can be a"
                " preference for its own words; set another model"
            )

    def _level_notes(self) -> Iterator[str]:
        """Yield a note if the levels do not describe both ends of the scale."""
        low = self.rubric.min
        high = self.rubric.max
        levels = [float(value) for value in self.rubric.levels]
        if levels and not {low, high} <= set(levels):
            yield (
                f"rubric.levels describe {min(levels):g} to {max(levels):g}, but the scale is"
                f" {low:g} to {high:g}: start from rubric=own for a custom scale, or"
                " describe both ends"
            )

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
            # Of a custom rubric, its author decides.
            if rubric.levels in _shipped_levels():
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
        # As a list, because `digest` sorts the keys of a mapping, and their order matters here.
        dumped["criteria"] = [
            {"name": name, **criterion}
            for name, criterion in dumped["criteria"].items()
        ]
        for section in NOT_MEASURED:
            dumped.pop(section)
        # A run without probes, or without a rewriter, is the same run as before there were any.
        if not self.probe.probes:
            dumped.pop("probe")
        elif self.probe.rewriter is None:
            dumped["probe"].pop("rewriter")
        # A stop decides which cases are judged; its `largest` follows from them.
        if self.runner.stop is not None:
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
    """Return settings without newer keys that have their defaults: their hashes stay the same."""
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
        # `prompt.template` is older than `judge.template`, and has always been part of the hash.
        or (key == "template" and "language" in value)
    }


def defaults() -> Mapping[str, Any]:
    """Return every key with its default as JSON values; `judge.model` has none, because
    an option must set it.
    """
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
