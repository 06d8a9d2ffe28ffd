"""Few-shot examples from labeled cases of train, and the calls that judge a side with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGINT

from evalkit.alignment.search import Side
from evalkit.api import ask_judges, build_evaluator
from evalkit.config import Example, RunConfig
from evalkit.core.hashing import digest
from evalkit.core.splits import without_labels
from evalkit.engine.event_loop import run_async
from evalkit.engine.judging import NEVER_SENT
from evalkit.errors import ConfigError, EvalkitError, ExitStatus, Signaled
from evalkit.results import RunResult, Spent
from evalkit.runs import layout
from evalkit.runs.read import read_record
from evalkit.types import Case, Judgment, Response

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


class AnswersError(EvalkitError):
    """Too many calls failed to compare prompts; answers that were received are stored."""

    status = ExitStatus.TOO_MANY_FAILURES


@dataclass
class Asking:
    """Judges sides with other prompts within a budget; stored answers cost nothing.

    Attributes:
        result: the run, whose templates are used.
        budget_usd: the most to spend.
        spent: what was spent.
        last: the cost of a case the last time that all of a side was judged.
    """

    result: RunResult
    budget_usd: float
    spent: Spent = field(default_factory=Spent)
    last: float = 0.0

    def covers(self, cases: int) -> bool:
        """Return whether the rest of the budget probably pays for so many cases."""
        return self.spent.usd + self.last * cases <= self.budget_usd

    def answer(self, config: RunConfig, side: Side) -> Side | None:
        """Return a side with the answers under a config, `None` if the budget did not pay for all of them.

        Raises:
            ConfigError: if a template or a judge cannot be used.
            AnswersError: if more calls fail than `runner.max_failure_rate` allows.
            Signaled: if the user stopped it; received answers are stored.
        """
        changes = {"runner.budget_usd": self.budget_usd, "runner.budget_calls": None, "runner.budget_scope": "run"}
        own = config.with_({**changes, "runner.kind": "online", "store.mode": "read_write"})
        before, cases = self.spent.usd, [*map(without_labels, side.cases)]
        judged = run_async(ask_judges(own, cases, build_evaluator(own, templates_of(self.result)), spent=self.spent))
        if judged.interrupted:
            raise Signaled(judged.signal or SIGINT, "interrupted: received answers are stored; run it again to resume")
        failed = [one for one in judged.judgments if one.status == "failed" and one.error_kind not in NEVER_SENT]
        if len(failed) > config.runner.max_failure_rate * len(judged.judgments):
            what = f"{len(failed)} of {len(judged.judgments)} calls failed, for example: {failed[0].error}"
            raise AnswersError(f"{what}; run it again to resume")
        if judged.stopped is not None:
            return None
        self.last = max(self.last, (self.spent.usd - before) / max(len(cases), 1))
        return replace(side, judgments=list[Judgment](judged.judgments))


def templates_of(result: RunResult) -> dict[str, str] | None:
    """Return the texts of a run's templates, `None` if its folder does not have them.

    Raises:
        ConfigError: if the file is damaged.
    """
    path = Path(result.folder or "") / layout.PROMPTS
    return read_record(path, dict[str, str]) if result.folder and path.is_file() else None


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
