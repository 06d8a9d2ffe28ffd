"""Choose settings on dev, prove them once on test labels, and keep the run's own if
nothing can be shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import yaml

from evalkit.alignment.calls import Asking
from evalkit.alignment.criteria import (
    Proposal,
    Proposals,
    check_criteria,
    read_criteria,
    write_proposals,
)
from evalkit.alignment.examples import EXAMPLES as SHOWN
from evalkit.alignment.examples import check_examples, example_sets, system_prompt
from evalkit.alignment.gepa_optimizer import GepaOptimizer
from evalkit.alignment.prompts import TEMPLATE, Instruction, PromptOptimizer, Trials
from evalkit.alignment.proof import (
    AFTER,
    BEFORE,
    Labels,
    Outcome,
    Proof,
    difference_of,
    outcome_of,
    prove,
)
from evalkit.alignment.search import (
    Candidate,
    Side,
    candidates,
    chance_corrected,
    depends_on_others,
    plain,
)
from evalkit.config import RunConfig
from evalkit.config.align import CALLS, CRITERIA, PROMPT, AlignConfig, Knob
from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.errors import ConfigError
from evalkit.core.resources import project
from evalkit.core.splits import Split
from evalkit.core.types import Metric
from evalkit.evaluators.prompting.templates import SUFFIX
from evalkit.judges.litellm_transport import check_provider
from evalkit.judges.pricing import is_bounded
from evalkit.runs import layout, write_files
from evalkit.runs.manifest import escaped
from evalkit.runs.read import read_record
from evalkit.runs.records import encode_pretty, metric_values
from evalkit.runs.results import RunResult, Spent
from evalkit.scoring.decision import (
    SCORES,
    USES,
    decide,
)
from evalkit.scoring.pipeline import score_run
from evalkit.workflows.holdout import (
    open_test,
    store_split,
)
from evalkit.workflows.rescoring import rescore

PRESETS: Final = Path("conf") / "method"
_ROUNDING = 1e-12
"""Two values that differ by less are equal."""
_HEAD = "# @package _global_\n# From `evalkit align`: {}\n"


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of an alignment.

    Attributes:
        outcome: `improved` on test labels; `unproved` or `worse` there; `unpaid` if the budget did
            not pay for test, or ended the search before any were better on dev; `none` is better on
            dev; criteria are `proposed` to edit and prove; or the goal is `reached` on dev by the
            run's own settings.
        metric: the metric of agreement.
        split: the split, with the openings so far.
        tried: the number of combinations of settings that were compared on dev.
        settings: the chosen settings; empty for the run's own.
        obstacles: settings to tune that cannot change anything in this run, and why.
        dev: the settings on dev; `None` if none were chosen.
        test: the settings on test; `None` if its labels stayed closed.
        optimism: by how much the gain on dev exceeds that on test.
        seconds: how long the search took.
        calls: the calls that were made.
        cost_usd: their cost.
        prompt: the chosen prompt, the part that is the same for all cases; empty if it is the run's
            own.
        diff: its difference from the run's own.
        preset: the file that was written, or with the criteria that were proved.
        template: the file of the prompt that was written, if it is a template.
        proposals: the proposed criteria or checklist items, if some were proposed.
    """

    outcome: Outcome
    metric: str
    split: Split
    tried: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    obstacles: Mapping[Knob, str] = field(default_factory=dict)
    dev: Proof | None = None
    test: Proof | None = None
    optimism: Metric | None = None
    seconds: float = 0.0
    calls: int = 0
    cost_usd: float = 0.0
    prompt: str = ""
    diff: str = ""
    preset: Path | None = None
    template: Path | None = None
    proposals: Sequence[Proposal] = ()


def align(
    result: RunResult,
    folder: Path,
    settings: AlignConfig,
    tell: Callable[[str], None] = lambda _: None,
) -> Alignment:
    """Tune a run on train and dev labels, and prove the chosen settings on test labels.

    Calls are made for `examples`, `prompt` and `criteria` only. The labels of test are opened only
    if some settings are better on dev, and that is recorded first, in the run folder and its
    report.

    Args:
        result: the run.
        folder: its folder, which gets the split and the result.
        settings: what to tune.
        tell: called with the progress of calls.

    Raises:
        ConfigError: if the run has too few labels, nothing can be tuned, or a file cannot be read
            or written.
        Signaled: if the user stopped it during calls; received answers are stored.
    """
    begun = time.perf_counter()
    # The order of steps: check everything, record the split, search on dev, and only then open
    # test.
    labels = Labels.of(result, folder, settings)
    asking = None
    if settings.budget_usd is not None and settings.tune[0] in CALLS:
        check_calls(labels, settings)
        asking = Asking(result, settings.budget_usd, settings.model)
        if (
            labels.kind is not SCORES and labels.provable() is None
        ):  # of scores, it depends on those of dev
            tell(f"test has too few labels to prove a gain; {labels.remedy()}")
    obstacles = labels.obstacles(settings.tune)
    # Recorded before the search: a second attempt with another split could use test labels for
    # the choice.
    store_split(folder, labels.split)
    if asking is not None and CRITERIA in settings.tune and settings.criteria is None:
        alignment = _propose_criteria(labels, settings, asking, tell)
        return _finished(alignment, folder, settings, asking, begun)
    search = _Search(labels, settings, asking, tell)
    chosen, dev, reached = search.choose(
        [knob for knob in settings.tune if knob not in obstacles]
    )
    alignment = Alignment(
        "none", labels.metric, labels.split, search.tried, chosen.settings, obstacles
    )
    if chosen.settings:
        alignment = replace(
            _add_prompt(alignment, result, chosen),
            dev=prove(labels, chosen, search.dev, dev, side="dev"),
        )
        # Answers for test come before its labels are opened: a run without money must not use
        # them up.
        test = labels.side("test", labeled=asking is not None)
        answered = search.answered(chosen, test)
        if answered is None:
            alignment = replace(alignment, outcome="unpaid")
        else:
            alignment = _prove_on_test(labels, alignment, chosen, test, answered)
    # The run's own settings stay.
    elif reached or search.unpaid:
        alignment = replace(alignment, outcome="reached" if reached else "unpaid")
    if alignment.outcome == "improved":
        if settings.criteria is None:
            alignment = write_preset(
                alignment, settings.name, result.config.prompt.language
            )
        else:
            alignment = replace(alignment, preset=Path(settings.criteria))
    return _finished(alignment, folder, settings, asking, begun)


def _finished(
    alignment: Alignment,
    folder: Path,
    settings: AlignConfig,
    asking: Asking | None,
    begun: float,
) -> Alignment:
    """Add what was spent, record the result in the run folder, and return it.

    Args:
        alignment: The result.
        folder: The run folder.
        settings: What was tuned, and how.
        asking: The calls of the search; `None` if it only read stored answers.
        begun: When it began, by `time.perf_counter`.
    """
    spent = Spent() if asking is None else asking.spent
    seconds = round(time.perf_counter() - begun, 2)
    finished = replace(
        alignment, calls=spent.calls, cost_usd=spent.usd, seconds=seconds
    )
    _append_record(folder, finished, settings)
    return finished


def check_calls(labels: Labels, settings: AlignConfig) -> None:
    """Check that a run's judge can be called for what is tuned, before anything is paid.

    Raises:
        ConfigError: if not.
    """
    if labels.result.manifest.get("imported"):
        where = f"tune=[{settings.tune[0]}]"
        raise ConfigError("the run was imported, and has no judge to call", where=where)
    judges = [
        (
            labels.result.config.judge,
            "judge",
            " and run it again: a run keeps its judge",
        )
    ]
    judges += (
        [(settings.model, "align.model", "")] if settings.model is not None else []
    )
    for judge, *_ in judges:
        check_provider(judge)
    if PROMPT in settings.tune:
        Instruction.of(labels.result)
        GepaOptimizer()
    elif CRITERIA in settings.tune:
        check_criteria(labels.result, labels.kind)
        if settings.criteria is not None:
            read_criteria(labels.result.config, Path(settings.criteria))
    else:
        check_examples(labels.result)
    for judge, key, again in judges:
        if not is_bounded(judge):
            problem = f"the most that a call of {judge.label} can cost is unknown"
            remedy = f"set {key}.price and "
            raise ConfigError(
                problem,
                where="align.budget_usd",
                remedy=f"{remedy}{key}.max_tokens{again}",
            )


def _propose_criteria(
    labels: Labels, settings: AlignConfig, asking: Asking, tell: Callable[[str], None]
) -> Alignment:
    """Have criteria proposed and tried on dev, and write those that were kept; test
    labels stay closed.
    """
    train, dev = (labels.side(name, labeled=True) for name in ("train", "dev"))
    search = Proposals(
        result=labels.result,
        kind=labels.kind,
        metric=labels.metric,
        asking=asking,
        settings=settings,
        train=train,
        dev=dev,
        tell=tell,
    )
    chosen = search.search()
    tried = search.tried
    outcome: Outcome = "proposed" if chosen.settings else "none"
    if search.unpaid:
        outcome = "unpaid"
    alignment = Alignment(
        outcome, labels.metric, labels.split, len(tried), proposals=tried
    )
    if outcome != "proposed":
        return alignment
    kept = sum(proposal.result == "kept" for proposal in tried)
    path = write_proposals(labels.result.config, chosen, settings.name, kept)
    return replace(alignment, settings=chosen.settings, preset=path)


def _prove_on_test(
    labels: Labels, alignment: Alignment, chosen: Candidate, before: Side, after: Side
) -> Alignment:
    """Open the labels of test, compare the chosen settings with the run's own, and return the
    result with its outcome.

    The settings must be better on dev. Test labels of one class cannot prove anything, so they
    are not opened.

    Args:
        labels: The run, and the sides of its labels.
        alignment: The result so far, with the gain on dev.
        chosen: The settings that were chosen on dev.
        before: The answers on test under the run's own settings.
        after: The answers on test under the chosen ones.
    """
    assert alignment.dev is not None, "they are better on dev"
    result = labels.result
    if labels.is_one_class("test"):
        return replace(alignment, outcome="unproved")
    # Counted before the comparison is made: a look that fails afterwards is a look, too.
    split = open_test(labels.folder, labels.split)
    test = prove(labels, chosen, before, after, side="test")
    if (
        test.difference.detectable is not None
    ):  # by its error, which is too small with few labels
        least = labels.provable()
        largest = None if least is None else max(least, test.difference.detectable)
        test = replace(test, difference=replace(test.difference, detectable=largest))
    rescore(
        result.config, result, labels.folder
    )  # the report says how often the labels were opened
    outcome = outcome_of(test, result.config.scoring.confidence)
    return replace(
        alignment,
        outcome=outcome,
        split=split,
        test=test,
        optimism=difference_of(alignment.dev.gain, test.gain),
    )


class _Best(NamedTuple):
    """The best candidate, its answers on dev, and whether it reaches the goal."""

    candidate: Candidate
    dev: Side
    reached: bool


@dataclass
class _Search:
    """The comparison of candidates on dev.

    Attributes:
        labels: the labels.
        settings: what to tune.
        asking: the judge, if candidates need its calls.
        tell: called with the progress of calls.
        tried: the number of candidates that were compared.
        unpaid: whether the budget ended the search.
    """

    labels: Labels
    settings: AlignConfig
    asking: Asking | None
    tell: Callable[[str], None]
    tried: int = 0
    unpaid: bool = False

    @cached_property
    def dev(self) -> Side:
        """The cases of dev; those with labels, if answers are paid for."""
        return self.labels.side("dev", labeled=self.asking is not None)

    @cached_property
    def whole(self) -> bool:
        """Whether cases without labels count, because verdicts depend on them."""
        return self.asking is None and depends_on_others(
            self.labels.result.config, self.settings.tune
        )

    def answered(
        self, candidate: Candidate, side: Side, *, reserve: int | None = None
    ) -> Side | None:
        """Return a side with the answers under a candidate, `None` if the budget did
        not pay for all of them.
        """
        if self.asking is None or not candidate.settings:
            return side
        return self.asking.answer(candidate, side, reserve=reserve)

    def choose(self, tune: Sequence[Knob]) -> _Best:
        """Return the candidate that is best on dev.

        The first of several equally good ones is returned: it changes least. With a goal, it is the
        first that reaches it. The search ends early, and `unpaid` is set, if the budget would not
        pay for test.

        Args:
            tune: The settings to search; the first is named in the progress.
        """
        labels = self.labels
        goal = self.settings.goal
        config = labels.result.config
        kind = labels.kind
        best = Candidate({}, 0.0)
        most = -np.inf
        answers = self.dev
        for candidate in self._candidates_on_train(tune):
            # `reserve`: the answers of test must be paid for as well, or the search would end
            # without a proof.
            side = candidate.dev or self.answered(
                candidate, self.dev, reserve=labels.clusters("test")
            )
            if side is None:
                self.unpaid = True
                break
            self.tried += 1
            changed = candidate.of(config)
            # The first that reaches the goal: it changes least, since candidates come in this
            # order.
            if goal is not None and _reaches(changed, side, goal):
                return _Best(candidate, side, reached=True)
            value = chance_corrected(
                changed, kind, side if self.whole else side.labeled()
            )
            if self.asking is not None and candidate.dev is None:
                number = {PROMPT: self.settings.prompts, CRITERIA: 1}.get(
                    tune[0], self.settings.sets
                )
                self.tell(
                    f"{tune[0]} {self.tried - 1} of {number}: agreement {value:.3f} on dev"
                )
            # of equally good candidates the first stays, also with rounding errors
            if value > most + _ROUNDING:
                best, most, answers = candidate, value, side
        return _Best(best, answers, reached=False)

    def _candidates_on_train(self, tune: Sequence[Knob]) -> Iterator[Candidate]:
        """Yield what to try, fitted on train: settings, prompts, criteria or examples."""
        labels = self.labels
        settings = self.settings
        config = labels.result.config
        train = labels.side("train", labeled=not self.whole)
        if self.asking is None:
            yield from candidates(config, labels.kind, train, tune)
            return
        # The run's own settings come first, so that they win against equally good ones.
        yield Candidate({}, 0.0)
        if PROMPT in tune:
            yield from self._written_prompts(train)
            return
        if settings.criteria is not None:
            yield read_criteria(config, Path(settings.criteria))
            return
        sets = example_sets(
            config,
            train.cases,
            sets=settings.sets,
            size=settings.examples,
            seed=labels.split.seed,
        )
        yield from (Candidate({SHOWN: tuple(examples)}, 0.0) for examples in sets)

    def _written_prompts(self, train: Side) -> Iterator[Candidate]:
        """Yield the prompts that were written and tried on all of dev.

        `asking` must be set. Afterwards `unpaid` says whether the budget ended the search.
        """
        assert self.asking is not None, "the budget was checked"
        labels = self.labels
        settings = self.settings
        goal = settings.goal
        trials = Trials(
            result=labels.result,
            kind=labels.kind,
            asking=self.asking,
            instruction=Instruction.of(labels.result),
            train=train,
            dev=self.dev,
            reserve=labels.clusters("test"),
            prompts=settings.prompts,
            size=settings.cases,
            seed=labels.split.seed,
            name=settings.name,
            tell=self.tell,
            enough=lambda config, side: (
                goal is not None and _reaches(config, side, goal)
            ),
        )
        optimizer: PromptOptimizer = GepaOptimizer()
        optimizer.optimize(trials)
        yield from trials.candidates.values()
        self.unpaid = trials.unpaid


def _add_prompt(
    alignment: Alignment, result: RunResult, chosen: Candidate
) -> Alignment:
    """Add the chosen prompt, and its difference from the run's own; settings without a prompt
    change nothing.
    """
    if SHOWN in chosen.settings:
        configs = (result.config, chosen.of(result.config))
        before, after = (
            system_prompt(result, config, result.cases[0]) for config in configs
        )
    elif TEMPLATE in chosen.settings:
        instruction = Instruction.of(result)
        before = instruction.template(instruction.text)
        [after] = chosen.templates.values()
    else:
        return alignment
    diff = "\n".join(
        unified_diff(
            before.splitlines(), after.splitlines(), BEFORE, AFTER, lineterm=""
        )
    )
    return replace(alignment, prompt=after, diff=diff)


def _reaches(config: RunConfig, side: Side, goal: str) -> bool:
    metrics = score_run(config, side.cases, side.judgments).metrics
    return USES.index(decide(metrics, config.scoring.confidence).use) >= USES.index(
        goal
    )


def write_preset(alignment: Alignment, name: str, language: str) -> Alignment:
    """Write the chosen settings to a new file in `conf/method`, and a template to one in
    `prompts`; return the alignment with their paths.

    A name that is taken gets a number. The improvement must be proved on test.

    Args:
        alignment: The result.
        name: The name of the files, without their endings.
        language: The language of the prompts, which names their folder.

    Raises:
        ConfigError: if they cannot be written.
    """
    prompts = (Path() if project() == Path.cwd() else project()) / "prompts" / language
    # A name is free only if neither of its two files exists.
    for number in count(1):
        stem = name if number == 1 else f"{name}-{number}"
        path = PRESETS / f"{stem}.yaml"
        prompt = prompts / f"{stem}{SUFFIX}"
        if not path.exists() and not prompt.exists():
            break
    if TEMPLATE in alignment.settings:
        alignment = replace(
            alignment, settings={**alignment.settings, TEMPLATE: stem}, template=prompt
        )
        with file_errors("cannot be written", prompt, "choose another folder"):
            write_file(prompt, [alignment.prompt.encode()])
    values: dict[str, Any] = {}
    for key, value in plain(alignment.settings).items():
        group, _, option = key.partition(".")
        values.setdefault(group, {})[option] = value
    assert alignment.test is not None, "an improvement was proved"
    gain = alignment.test.gain
    comment = (
        f"{alignment.metric} {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] on {gain.n} test"
        " labels"
    )
    text = _HEAD.format(comment) + yaml.safe_dump(
        escaped(values), sort_keys=False, allow_unicode=True
    )
    try:
        with file_errors("cannot be written", path, "choose another folder"):
            write_file(path, [text.encode()])
    except ConfigError:
        if alignment.template is not None:
            # A template without its preset would be found by its name, and used.
            alignment.template.unlink()
        raise
    return replace(alignment, preset=path)


def _append_record(folder: Path, alignment: Alignment, settings: AlignConfig) -> None:
    """Append the result to the run's alignments; the file is rewritten as a whole.

    Raises:
        ConfigError: If the file is damaged or cannot be written.
    """
    path = folder.absolute() / layout.ALIGNMENTS
    if path.is_file():
        before = read_record(path, dict[str, list[dict[str, Any]]]).get(
            "alignments", []
        )
    else:
        before = []
    optimism = None
    if alignment.optimism is not None:
        optimism = metric_values(alignment.optimism)
    now = {
        "settings": settings.model_dump(mode="json"),
        "outcome": alignment.outcome,
        "metric": alignment.metric,
        "tried": alignment.tried,
        "chosen": plain(alignment.settings),
        "dev": _json(alignment.dev),
        "test": _json(alignment.test),
        "optimism": optimism,
        "opened": len(alignment.split.opened),
        "calls": alignment.calls,
        "cost_usd": alignment.cost_usd,
        "seconds": alignment.seconds,
        "diff": alignment.diff,
        "preset": None if alignment.preset is None else str(alignment.preset),
        "template": None if alignment.template is None else str(alignment.template),
        "proposals": [_proposal(proposal) for proposal in alignment.proposals],
    }
    write_files(
        folder, {layout.ALIGNMENTS: encode_pretty({"alignments": [*before, now]})}
    )


def _proposal(proposal: Proposal) -> dict[str, Any]:
    gain = None if proposal.gain is None else metric_values(proposal.gain.metric)
    return {
        "name": proposal.name,
        "text": proposal.text,
        "result": proposal.result,
        "of": proposal.of,
        "gain": gain,
        "p": proposal.p,
    }


def _json(proof: Proof | None) -> dict[str, Any] | None:
    if proof is None:
        return None
    return {
        "before": metric_values(proof.before),
        "after": metric_values(proof.after),
        "difference": metric_values(proof.gain),
        "p": proof.difference.p,
        "decisions": [decision.json() for decision in proof.decisions],
    }
