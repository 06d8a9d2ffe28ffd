"""Few-shot examples from labeled cases of train."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

from evalkit.config import Example, RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import digest
from evalkit.core.types import Case, Response
from evalkit.runs.read import read_templates
from evalkit.runs.results import RunResult
from evalkit.workflows.materials import build_evaluator

EXAMPLES = "rubric.examples"


def example_sets(
    config: RunConfig, train: Sequence[Case], *, sets: int, size: int, seed: int
) -> list[list[Example]]:
    """Return sets of examples, each of responses or pairs with different labels in turn.

    The order is by hash. The justification of a response is what the rubric says about its class or
    score; a pair has none. Winners are response A and B in turn, whatever their order in the data,
    so that no position is the better one.

    Args:
        config: the run's config.
        train: the labeled cases to choose from.
        sets: the number of sets.
        size: the number of examples in a set.
        seed: the seed of the order.
    """
    examples = [*_labeled_examples(config, train)]

    def example_set(number: int) -> list[Example]:
        def by_hash(row: tuple[Case, Example]) -> str:
            case, example = row
            return digest([seed, number, case.id, example.response])

        ordered = [example for _, example in sorted(examples, key=by_hash)]
        chosen = _in_turn(ordered)[:size]
        # Sets begin with A or B in turn, so that no position wins more often.
        return _with_alternating_winners(chosen, number)

    return [example_set(number) for number in range(sets)]


def _labeled_examples(
    config: RunConfig, cases: Sequence[Case]
) -> Iterator[tuple[Case, Example]]:
    """Yield the labeled pairs or responses as examples, each with its case."""
    for case in cases:
        if config.mode.name == "pairwise":
            examples = [_pair_example(config, case)]
        else:
            examples = [
                _graded_example(config, case, response) for response in case.responses
            ]
        for example in examples:
            if example is not None:
                yield case, example


def _in_turn(examples: Sequence[Example]) -> list[Example]:
    """Return the first example with each label, then the second with each, and so on."""
    # label -> how many examples with it come before
    earlier: Counter[object] = Counter()
    ranks = []
    for example in examples:
        label = example.winner or example.class_name or example.score
        ranks.append(earlier[label])
        earlier[label] += 1
    # Stable: examples of one rank keep their order.
    order = sorted(range(len(examples)), key=ranks.__getitem__)
    return [examples[index] for index in order]


def _with_alternating_winners(examples: Sequence[Example], first: int) -> list[Example]:
    """Return pairs with response A and B as winners in turn, beginning with A if
    `first` is even.
    """
    position = count(first)
    return [
        _won_by("AB"[next(position) % 2], example)
        if example.winner in ("A", "B")
        else example
        for example in examples
    ]


def _pair_example(config: RunConfig, case: Case) -> Example | None:
    """Return a labeled pair as an example; `None` for other cases, and for ties that
    the judge may not choose.
    """
    if (
        len(case.responses) != 2
        or case.label is None
        or (case.label == "TIE" and not config.tie.allow)
    ):
        return None
    first, second = (response.text for response in case.responses)
    return Example(
        response=first,
        response_b=second,
        justification="",
        prompt=case.prompt,
        winner=case.label,
    )


def _won_by(winner: str, example: Example) -> Example:
    """Return the example of a pair in the order in which a response is the winner."""
    if example.winner == winner:
        return example
    swapped = {
        "response": example.response_b,
        "response_b": example.response,
        "winner": winner,
    }
    return example.model_copy(update=swapped)


def _graded_example(
    config: RunConfig, case: Case, response: Response
) -> Example | None:
    """Return a labeled response as an example, `None` if its label is not one of the rubric."""
    rubric = config.rubric
    grade = response.grade
    if response.class_name in rubric.classes:
        name = response.class_name
        why = rubric.classes[name] or name
        return Example(
            response=response.text,
            justification=why,
            prompt=case.prompt,
            class_name=name,
        )
    if grade is None or rubric.classes or not rubric.scale.contains(grade):
        return None
    why = rubric.levels.get(grade) or rubric.scale.text(grade)
    return Example(
        response=response.text, justification=why, prompt=case.prompt, score=grade
    )


def system_prompt(result: RunResult, config: RunConfig, case: Case) -> str:
    """Return the part of a prompt that is the same for all cases.

    Raises:
        ConfigError: if a template cannot be used.
    """
    return str(
        build_evaluator(config, read_templates(result))
        .plan(case)[0]
        .messages[0]["content"]
    )


def check_examples(result: RunResult) -> None:
    """Check that a run's prompts show examples.

    Raises:
        ConfigError: if not.
    """
    config = result.config
    pairs = config.mode.name == "pairwise" and config.prompt.source is None
    if (
        not (pairs or config.mode.name == "pointwise")
        or config.rubric.real
        or config.judge.rewards
    ):
        remedy = (
            "tune other settings, or judge single responses or pairs (mode=pointwise,"
            " mode=pairwise)"
        )
        raise ConfigError(
            "prompts of this mode show no examples",
            where=f"mode={config.mode.name}",
            remedy=remedy,
        )
    if pairs:  # its template must show them
        example = Example(
            response="text", response_b="text", justification="", winner="A"
        )
        build_evaluator(config.with_({EXAMPLES: (example,)}), read_templates(result))
