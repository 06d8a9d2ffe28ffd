"""Few-shot examples from labeled cases of train."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.alignment.calls import templates_of
from evalkit.api import build_evaluator
from evalkit.config import Example, RunConfig
from evalkit.core.hashing import digest
from evalkit.errors import ConfigError
from evalkit.results import RunResult
from evalkit.types import Case, Response

EXAMPLES = "rubric.examples"


def example_sets(config: RunConfig, train: Sequence[Case], *, sets: int, size: int, seed: int) -> list[list[Example]]:
    """Return sets of examples, each of responses with different labels in turn, in an order by hash.

    The justification of an example is what the rubric says about its class or score.

    Args:
        config: the run's config.
        train: the labeled cases to choose from.
        sets: the number of sets.
        size: the number of examples in a set.
        seed: the seed of the order.
    """
    labeled = [(case, one) for case in train for one in case.responses]
    shown = [(case, one, example) for case, one in labeled if (example := _example(config, case, one)) is not None]
    found = []
    for number in range(sets):
        ordered = sorted(shown, key=lambda row: digest([seed, number, row[0].id, row[1].text]))
        rank: dict[object, int] = {}
        turns = []
        for place, (_, one, example) in enumerate(ordered):
            label = one.class_name if one.class_name is not None else one.grade
            rank[label] = rank.get(label, -1) + 1
            turns.append((rank[label], place, example))
        found.append([example for *_, example in sorted(turns, key=lambda turn: turn[:2])[:size]])
    return found


def _example(config: RunConfig, case: Case, response: Response) -> Example | None:
    rubric, grade = config.rubric, response.grade
    if response.class_name in rubric.classes:
        name = response.class_name
        why = rubric.classes[name] or name
        return Example(response=response.text, justification=why, prompt=case.prompt, class_name=name)
    if grade is None or rubric.classes or not rubric.scale.contains(grade):
        return None
    why = rubric.levels.get(grade) or rubric.scale.text(grade)
    return Example(response=response.text, justification=why, prompt=case.prompt, score=grade)


def system_prompt(result: RunResult, config: RunConfig, case: Case) -> str:
    """Return the part of a prompt that is the same for all cases.

    Raises:
        ConfigError: if a template cannot be used.
    """
    return str(build_evaluator(config, templates_of(result)).plan(case)[0].messages[0]["content"])


def check_examples(result: RunResult) -> None:
    """Check that a run's prompts show examples, and its judge can be called.

    Raises:
        ConfigError: if not.
    """
    config = result.config
    if result.manifest.get("imported"):
        raise ConfigError("the run was imported, and has no judge to call", where="tune=[examples]")
    if config.mode.name != "pointwise" or config.rubric.real or config.judge.rewards:
        remedy = "tune other settings, or judge single responses (mode=pointwise)"
        raise ConfigError("prompts of this mode show no examples", where=f"mode={config.mode.name}", remedy=remedy)
