"""Rules between the sections of a run's config: each problem names its key and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evalkit.config.run_sections import RunSections
from evalkit.config.sections import (
    CHECKLIST,
)
from evalkit.core.scale import Scale

DECIDED_MODES = ("pointwise", "pairwise", "checklist")
"""The modes whose questions have choices that a decision model can weigh."""
MOST_CHOICES = 255
"""The most choices of a question to a decision model."""


def problems_of(config: RunSections) -> list[str]:
    """Return what is wrong between the sections of a config, each as `KEY: problem: remedy`.

    All rules are applied, in order, and the first problem is reported. They need several sections
    at once; what concerns one section is checked there.
    """
    return [problem for rule in _RULES for problem in rule(config)]


def _context_problems(config: RunSections) -> list[str]:
    has_context = all(judge.context for judge in config.judge.members)
    if not config.dataset.fit or has_context:
        return []
    return [
        "dataset.fit: needs the judge's context length in tokens: set judge.context"
    ]


def _criteria_problems(config: RunSections) -> list[str]:
    """Return the problems with criteria: unknown ones, none, or only zero weights."""
    names = list(config.criteria)
    problems = [*_misfits_in_examples(config, names)]
    if not names:
        problems.append("criteria: there are none: set at least one criterion")
    unknown = sorted(set(config.scoring.weights) - set(names))
    if unknown:
        choices = ", ".join(names)
        problems.append(
            f"scoring.weights.{unknown[0]}: no such criterion: choose from {choices}"
        )
    # Weights are normalized to a sum of 1, which zeros do not have.
    total = sum(config.raw_weights().values())
    if names and not total:
        problems.append(
            "criteria: every weight is 0: give at least one criterion a weight above 0"
        )
    return problems


def _mode_problems(config: RunSections) -> list[str]:
    """Return the problems of a mode with the order of responses and the scale."""
    problems = []
    if config.mode.scores and config.swap.policy != "none":
        problems.append(
            f"swap.policy: '{config.swap.policy}' needs two responses, but mode {config.mode.name}"
            " shows one: set swap=none"
        )
    ends = (config.rubric.min, config.rubric.max)
    if config.mode.name == CHECKLIST and ends != (0, 1):
        problems.append("rubric: a checklist's score is from 0 to 1: set rubric=share")
    return problems


def _difference_problems(config: RunSections) -> list[str]:
    """Return the problems with the scale and the threshold of differences between scores."""
    problems = []
    if config.rubric.real and config.scoring.normalize == "minmax":
        problems.append(
            "scoring.normalize: minmax needs a scale with ends: set zscore, rank or none"
        )
    # After other normalizations, the largest difference depends on the data.
    is_bounded = config.scoring.normalize in ("none", "minmax")
    if is_bounded and config.tie.threshold > config.margin_span():
        problems.append(
            f"tie.threshold: {config.tie.threshold:g} is larger than the largest possible"
            f" difference ({config.margin_span():g}): choose a smaller threshold"
        )
    return problems


def _pattern_problems(config: RunSections) -> list[str]:
    if config.output.format != "regex" or config.output.pattern:
        return []
    group = "'class'" if config.rubric.classes else "'winner' or 'score'"
    return [
        "output.pattern: is required by output.format=regex: set a pattern with a group"
        f" {group}"
    ]


def _scale_problems(config: RunSections) -> list[str]:
    if config.rubric.classes:
        return _class_problems(config)
    return _off_scale(config)


def _reward_problems(config: RunSections) -> list[str]:
    """Return the settings that do not apply to reward models and classifiers."""
    rewards = [judge for judge in config.judges if judge.rewards]
    # The rest applies to this kind of judge only.
    if not rewards:
        return []
    reason = f"reads text, and judge.endpoint={rewards[0].endpoint}"
    problems = []
    if config.mode.name != "pointwise":
        problems.append(
            f"mode.name: '{config.mode.name}' {reason} judges one response: set mode=pointwise"
        )
    # In a panel, it is for the judges that write.
    if config.mode.commit_first and not config.judge.writes:
        problems.append(
            f"mode.commit_first: it {reason} answers no tasks: set it to false"
        )
    if not (config.rubric.real or config.rubric.classes):
        problems.append(
            f"rubric: a scale {reason} answers with numbers or labels: set rubric=real, or"
            " rubric.classes"
        )
    writers = [judge.label for judge in config.judges if judge.writes]
    if config.rubric.real and writers:
        problems.append(
            f"rubric.real: {writers[0]} answers in words, which needs a scale: give it its own"
            " run, as a sweep does"
        )
    if len(config.criteria) > 1:
        problems.append(
            f"criteria: there are {len(config.criteria)}, and a reward model has one: set"
            " criteria=overall"
        )
    return problems


def _decision_problems(config: RunSections) -> list[str]:
    """Return the settings that do not apply to decision models."""
    deciders = [judge for judge in config.judges if judge.decides]
    if not deciders:
        return []
    reason = f"judge.endpoint={deciders[0].endpoint} answers questions with"
    problems = []
    if config.mode.name not in DECIDED_MODES:
        problems.append(
            f"mode.name: {reason} choices, and mode {config.mode.name} has none: set mode to"
            f" {', '.join(DECIDED_MODES[:-1])} or {DECIDED_MODES[-1]}"
        )
    if config.rubric.real:
        problems.append(f"rubric.real: {reason} choices: set rubric.min and rubric.max")
    elif not config.rubric.classes and len(Scale.of(config.rubric)) > MOST_CHOICES:
        problems.append(
            f"rubric: {reason} at most {MOST_CHOICES} choices: choose a larger rubric.step"
        )
    # In a panel, what concerns texts is for the judges that write them.
    if not any(judge.writes for judge in config.judges):
        problems += _unused_by_deciders(config, reason)
    return problems


def _unused_by_deciders(config: RunSections, reason: str) -> list[str]:
    """Return the settings that concern texts, which decision models do not write."""
    problems = []
    if config.mode.commit_first:
        problems.append(f"mode.commit_first: {reason} no text: set it to false")
    if not config.output.structured:
        problems.append(f"output.format: {reason} no text: set output=json")
    if config.prompt.template is not None:
        problems.append(
            f"prompt.template: {reason} choices that come from criteria and rubric: remove it"
        )
    if config.rubric.examples or config.rubric.examples_path:
        problems.append(f"rubric.examples: {reason} no examples: remove them")
    return problems


def _settings_of_cascade(config: RunSections) -> list[str]:
    if not config.judge.cascades:
        return []
    return _cascade_problems(config)


def _settings_of_stop(config: RunSections) -> list[str]:
    if config.runner.stop is None:
        return []
    return _stop_problems(config)


def _cascade_problems(config: RunSections) -> list[str]:
    """Return the settings with which a cascade cannot work.

    It must know how sure a judge is, and whom to ask next.
    """
    problems = list[str]()
    pairs = config.mode.name == "pairwise"
    if not pairs and not config.rubric.classes:
        problems.append(
            "judge.vote: a cascade decides pairs or classes: set mode=pairwise, or"
            " rubric.classes"
        )
    # A last judge that always answers needs no measure of how sure it is.
    if config.judge.last == "answer":
        before = config.judge.members[:-1]
    else:
        before = config.judge.members
    # Agreement between samples or orders shows how sure a judge is, even without probabilities.
    sure = config.mode.samples > 1 or (pairs and config.swap.policy == "both")
    if not sure and (
        mute := [judge.label for judge in before if not judge.probabilities]
    ):
        also = ", or swap=both" if pairs else ""
        problems.append(
            f"judge.vote: nothing shows how sure {mute[0]} is: set its logprobs, or"
            f" mode.samples above 1{also}"
        )
    if config.runner.kind in ("slurm", "ray") and config.judge.thresholds is None:
        problems.append(
            "runner.kind: workers have a part of the cases, and the thresholds of a cascade"
            " need all: set online, or judge.thresholds as in cascade.json of a run with labels"
        )
    return problems


def _stop_problems(config: RunSections) -> list[str]:
    """Return the settings with which a run cannot stop.

    It stops at complete clusters, each with its own verdicts.
    """
    # What the user should do -> whether the problem is there.
    problems = {
        f"{config.runner.kind} asks before it has answers: set runner=online": (
            config.runner.kind != "online"
        ),
        "a cascade asks one judge about all cases before the next: choose one judge": (
            config.judge.cascades
        ),
        "judge.vote=dawid_skene needs all votes: set judge.vote=majority": (
            config.judge.vote == "dawid_skene"
        ),
        "scoring.normalize needs all scores: set minmax or none": (
            config.scoring.normalize in ("zscore", "rank")
        ),
        "scoring.length_control needs all scores: set it to false": config.scoring.length_control,
        "rubric=real has no ends, so no mean has a known range: use a scale with ends": (
            config.rubric.real
        ),
        "an audit compares all its cases: audit without it": bool(config.probe.probes),
        "dataset.holdout holds out labels of all cases: set one of them": (
            config.dataset.holdout is not None
        ),
    }
    return [
        f"runner.stop: {problem}" for problem, applies in problems.items() if applies
    ]


def _class_problems(config: RunSections) -> list[str]:
    """Return the settings that do not apply to classes."""
    problems = list[str]()
    vote = config.judge.vote
    for i, example in enumerate(config.rubric.examples):
        if example.class_name not in config.rubric.classes:
            if example.class_name is not None:
                answer = f"class '{example.class_name}'"
            else:
                answer = "a score"
            problems.append(
                f"rubric.examples.{i}: it has {answer}, and the rubric has classes: set"
                f" class_name to one of {', '.join(config.rubric.classes)}"
            )
    if config.scoring.weights:
        problems.append(
            "scoring.weights: the judge chooses one class by all criteria, without weights:"
            " remove it"
        )
    if config.judge.judges is not None and vote in ("mean", "median"):
        problems.append(
            f"judge.vote: classes have no {vote}: set judge.vote=majority, weighted or"
            " dawid_skene"
        )
    if config.scoring.normalize != "none":
        problems.append(
            "scoring.normalize: classes have no scale to normalize: remove it"
        )
    for name, criterion in config.criteria.items():
        if criterion.levels:
            problems.append(
                f"criteria.{name}.levels: levels are for scores, and the rubric has classes:"
                " remove them"
            )
    return problems


def _meaning_problems(config: RunSections) -> list[str]:
    """Return the texts in `dataset.label_map` and `output.map` that mean nothing in this run."""
    classes = config.rubric.named_classes
    problems = []
    meanings = ["A", "B", "TIE"] if classes is None else [*classes.answers]
    also = ", or a grade" if classes is None else ""
    for label, meaning in config.dataset.label_map.items():
        # Without classes, a label may mean a grade; its scale is checked with the data.
        numeric = isinstance(meaning, float | int)
        value = f"{meaning:g}" if isinstance(meaning, float | int) else meaning
        if meaning in meanings or (
            numeric if classes is None else classes.find(value) is not None
        ):
            continue
        problems.append(
            f"dataset.label_map.{label}: '{value}' is not {listed(meanings)}{also}:"
            " write one of"
            " them"
        )
    # Those of conf/output/regex.yaml, which do not apply to classes.
    winners = ("A", "B", "TIE")
    for text, meaning in config.output.map.items():
        if meaning not in meanings and meaning not in winners:
            problems.append(
                f"output.map.{text}: '{meaning}' is not {listed(meanings)}: write one of them"
            )
    return problems


def _call_problems(config: RunSections) -> list[str]:
    """Return the problems with log-probabilities, criteria and the arbiter."""
    problems = []
    arbiter = config.swap.arbiter
    if any(judge.logprobs for judge in config.judges) and not config.output.structured:
        problems.append(
            "judge.logprobs: decisions are located in JSON, but output.format is "
            f"'{config.output.format}': set output=json, or judge.logprobs=false"
        )
    if (
        config.scoring.aggregate in ("criteria", "criteria_first")
        and config.mode.name == "pairwise"
        and not config.output.structured
    ):
        problems.append(
            f"scoring.aggregate: output.format '{config.output.format}' has no winners by"
            " criterion: set output=json, or scoring.aggregate=auto"
        )
    if (
        config.judge.vote == "dawid_skene"
        and config.mode.scores
        and not config.rubric.classes
    ):
        problems.append(
            "judge.vote: dawid_skene is for pairs and classes, not for scores: set"
            " judge.vote=majority"
        )
    if arbiter is not None and arbiter.label in [
        member.label for member in config.judge.members
    ]:
        problems.append(
            f"swap.arbiter: '{arbiter.label}' is also the judge's name: set a different name"
        )
    return problems


def _misfits_in_examples(config: RunSections, names: Sequence[str]) -> list[str]:
    """Return what does not fit the mode or the criteria in the examples of a rubric."""
    if config.mode.name != "pointwise":
        ties = [
            i
            for i, example in enumerate(config.rubric.examples)
            if example.winner == "TIE" and not config.tie.allow
        ]
        return [
            f"rubric.examples.{i}.winner: ties are not allowed: set tie=allow, or remove it"
            for i in ties
        ]
    pairs = [
        i
        for i, example in enumerate(config.rubric.examples)
        if example.winner is not None
    ]
    return [
        f"rubric.examples.{i}: it is a pair: set mode=pairwise, or remove it"
        for i in pairs
    ] + [
        f"rubric.examples.{i}.scores: there is no criterion '{name}': choose from"
        f" {', '.join(names)}, or use examples for these criteria"
        for i, example in enumerate(config.rubric.examples)
        for name in example.scores
        if name not in names
    ]


def _off_scale(config: RunSections) -> list[str]:
    """Return the levels and scores that are not on the scale, by the keys that set them."""
    written = [("rubric.levels", [*config.rubric.levels])]
    for i, example in enumerate(config.rubric.examples):
        written += [
            (f"rubric.examples.{i}.{key}", [score]) for key, score in example.scored()
        ]
    written += [
        (f"criteria.{name}.levels", [*criterion.levels])
        for name, criterion in config.criteria.items()
    ]
    # Each value with the key that set it, so that the message names the key.
    scale = config.rubric.scale
    unscored = [
        f"rubric.examples.{i}: it has a class, and the rubric has a scale: set score or scores"
        for i, example in enumerate(config.rubric.examples)
        if example.class_name is not None
    ]
    return unscored + [
        f"{key}: {value:g} is not on the scale {scale.name()}: choose one of its values, or"
        " change the rubric"
        for key, values in written
        for value in values
        if not scale.contains(value)
    ]


def listed(names: Sequence[str]) -> str:
    """Return names as a list with `or` before the last."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


_RULES: Final = (
    _meaning_problems,
    _reward_problems,
    _decision_problems,
    _context_problems,
    _criteria_problems,
    _mode_problems,
    _difference_problems,
    _pattern_problems,
    _scale_problems,
    _call_problems,
    _settings_of_cascade,
    _settings_of_stop,
)
