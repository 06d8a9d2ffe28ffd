"""Criteria and checklist items that a model proposes from mistakes on train; each is
kept if it helps on dev.

A proposal is a name and one line of plain text. It is tried alone on dev, which had no part in it,
against the run's own criteria. Those that help beyond the number tried are then added one after
another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from unicodedata import normalize

import yaml
from pydantic import ValidationError

from evalkit.alignment.calls import Asking, plain_text
from evalkit.alignment.mistakes import shown_cases
from evalkit.alignment.search import Candidate, Side, agreement, plain
from evalkit.config import CHECKLIST, Criterion, RunConfig
from evalkit.config.align import AlignConfig
from evalkit.config.problems import config_error
from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.errors import ConfigError
from evalkit.core.regular_files import read_file
from evalkit.core.values import Json, frozen
from evalkit.evaluators.parsing import UnreadableError, read_json
from evalkit.runs import manifest
from evalkit.runs.read import read_templates
from evalkit.runs.results import RunResult
from evalkit.scoring.compare import Difference, compare_runs
from evalkit.scoring.decision import ITEMS, SOME_MISSING, VerdictKind
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.stats.paired import holm
from evalkit.workflows.materials import build_evaluator

Result: TypeAlias = Literal["kept", "duplicate", "useless", "unusable", "covered"]
CRITERIA, ITEMS_KEY, WRITE = "criteria", "mode.checklist", "align_criteria"
FOLDERS: Final = {False: Path("conf") / "criteria", True: Path("conf") / "method"}
"""Where proposals are written: criteria, or checklist items."""
MOST_CHARACTERS, MOST_NAME, RESAMPLES = 300, 40, 2000
_RESERVED: Final = frozenset(
    {"criteria", "defaults", "hydra", "overall", "description", "weight", "levels"}
)
"""Names that mean something else in a file of criteria or in an answer."""
_FORBIDDEN: Final = {
    sign: f"'{sign}', and plain text is needed"
    for sign in ("{{", "{%", "{#", "${", "<", "[[")
}
_INTERPOLATION = re.compile(rb"(?<!\\)\$\{")
_HEAD: Final = """\
# Proposed by `evalkit align`: {}
# Edit it, then prove it on test labels: \
evalkit align RUN tune=criteria align.criteria={} align.budget_usd=…
"""


@frozen
class Proposal:
    """A proposed criterion or checklist item, and what was found on dev.

    Attributes:
        name: its name, safe in files, metrics and overrides.
        text: what it asks, one line.
        result: `kept`; a `duplicate` by its text or its answers; `useless`, because no gain beyond
            the number tried is shown; `unusable`, because answers can no longer be read; or
            `covered` by those kept before it.
        of: the criterion that it duplicates.
        gain: the agreement with it minus that without, on dev; `None` if it was not tried.
        p: the p-value of the gain, adjusted for the number tried.
    """

    name: str
    text: str
    result: Result = "useless"
    of: str = ""
    gain: Difference | None = None
    p: float | None = None


@dataclass
class Proposals:
    """The search for criteria.

    Attributes:
        result: the run.
        kind: what the labels are about.
        metric: the metric of agreement.
        asking: the calls.
        settings: how many to propose, from how many cases.
        train: the labeled cases of train, with the run's answers.
        dev: the same of dev.
        tell: called with the progress.
        tried: the proposals, with what was found.
        unpaid: whether the budget ended the search.
    """

    result: RunResult
    kind: VerdictKind
    metric: str
    asking: Asking
    settings: AlignConfig
    train: Side
    dev: Side
    tell: Callable[[str], None]
    tried: list[Proposal] = field(default_factory=list)
    unpaid: bool = False

    def search(self) -> Candidate:
        """Return the settings with the proposals that were kept; the run's own if there are none.

        Raises:
            ConfigError: if the model's answer has no proposal, or agreement on dev has no value.
            AnswersError: if too many calls fail.
            Signaled: if the user stopped it; received answers are stored.
        """
        config = self.result.config
        if agreement(config, self.kind, self.dev) == -1:
            remedy = "align needs labels and scores that differ"
            raise ConfigError(
                f"{self.metric} has no value on dev",
                where="tune=[criteria]",
                remedy=remedy,
            )
        # Step 1: have criteria proposed from mistakes on train. Dev has had no part in them.
        distinct = self._propose_new()
        sides: dict[str, Side] = {}
        # Step 2: answers on dev with each proposal alone, so that gains do not depend on their
        # order.
        for number, proposal in enumerate(distinct, 1):
            side = self._answered(with_proposals(config, [proposal]))
            if side is None:
                return Candidate({}, 0.0)
            self.tell(
                f"proposal {number} of {len(distinct)} was tried on dev: {proposal.name}"
            )
            sides[proposal.name] = side
        # Step 3: fewer tests give each of them more power, so duplicates are not tested.
        compared = [self._duplicate(proposal, sides) for proposal in distinct]
        tried = self._test_proposals(
            [proposal for proposal in compared if proposal.result != "duplicate"], sides
        )
        self.tried += [
            *tried,
            *(proposal for proposal in compared if proposal.result == "duplicate"),
        ]
        # Step 4: those that help alone may say the same, so each must add to those before it.
        return self._join_kept(
            [proposal for proposal in tried if proposal.result == "kept"],
            sides,
            len(tried),
        )

    def _propose_new(self) -> list[Proposal]:
        """Return what the model proposes, without what the run has.

        Empty if the judge agrees with all labels of train, or the budget did not pay for the
        answer. A proposal with the text of another one is only noted, in `tried`.

        Raises:
            ConfigError: If the model's answer cannot be read.
        """
        config = self.result.config
        described = shown_cases(config, self.kind, self.train)
        cases = [case for case in described if case["agreed"] < 1][
            : self.settings.cases
        ]
        if not cases:
            self.tell(
                "the judge agrees with all labels of train, so there is nothing to propose from"
            )
            return []
        criteria = own_criteria(config)
        # Names of criteria are also names of metrics, and must be unique.
        taken = {
            *criteria,
            *(item.id for case in self.result.cases for item in case.checklist),
        }
        prompt = self.asking.prompt(
            WRITE,
            criteria=criteria,
            cases=cases,
            most=self.settings.proposals,
            characters=MOST_CHARACTERS,
            checklist=config.mode.name == CHECKLIST,
        )
        answers = self.asking.write(
            [prompt], lambda text: read_json(text, keys=(CRITERIA,))[0]
        )
        if answers is None:
            self.unpaid = True
            return []
        answer = answers[0].answer
        if answer is None:
            remedy = "choose another align.model"
            why = (answers[0].error or "")[:200]
            raise ConfigError(
                f"proposed nothing: {why}", where="align.model", remedy=remedy
            )
        proposals = []
        # normalized text -> the criterion or proposal that has it
        names_by_text = {
            _normalized(text or name): name for name, text in criteria.items()
        }
        for proposal in read_proposals(
            answer, taken, self.settings.proposals, self.tell
        ):
            if (
                of := names_by_text.setdefault(
                    _normalized(proposal.text), proposal.name
                )
            ) == proposal.name:
                proposals.append(proposal)
            else:
                self.tried.append(replace(proposal, result="duplicate", of=of))
        return proposals

    def _answered(self, candidate: Candidate) -> Side | None:
        """Return dev with the answers under a candidate, `None` if the budget does not
        pay for it.
        """
        side = self.asking.answer(candidate, self.dev, reserve=0)
        self.unpaid = side is None
        return side

    def _duplicate(self, proposal: Proposal, sides: Mapping[str, Side]) -> Proposal:
        """Return a proposal, as a duplicate if its answers always equal those on an
        earlier one or one of the run.
        """
        # `sides` is in the order in which proposals were tried
        earlier = {
            name: side
            for name, side in sides.items()
            if [*sides].index(name) < [*sides].index(proposal.name)
        }
        if values := values_of(sides[proposal.name], proposal.name):
            alternatives = {
                name: values_of(sides[proposal.name], name)
                for name in own_criteria(self.result.config)
            }
            alternatives |= {
                name: values_of(side, name) for name, side in earlier.items()
            }
        # The answers have no values by criterion: whole verdicts are compared instead.
        elif (values := values_of(sides[proposal.name])) == values_of(self.dev):
            return proposal  # it changes nothing, as the next one may
        else:
            alternatives = {name: values_of(side) for name, side in earlier.items()}
        of = next((name for name, same in alternatives.items() if same == values), "")
        if of:
            return replace(proposal, result="duplicate", of=of)
        return proposal

    def _test_proposals(
        self, distinct: Sequence[Proposal], sides: Mapping[str, Side]
    ) -> list[Proposal]:
        """Return the proposals with their gains, adjusted for their number (Holm), and
        whether each is kept.
        """
        baseline = Candidate({}, 0.0)
        gains = [
            self._gain_on_dev(
                baseline,
                self.dev,
                with_proposals(self.result.config, [proposal]),
                sides[proposal.name],
            )
            for proposal in distinct
        ]
        # In the order of `distinct`; a proposal without a gain has no test.
        adjusted = holm([None if gain is None else gain.p for gain in gains])
        tested = []
        for proposal, gain, p in zip(distinct, gains, adjusted, strict=True):
            result: Result = "kept" if self._shown(gain, p) else "useless"
            # A longer prompt may make answers unreadable; agreement of the rest would then
            # mislead.
            if sides[proposal.name].usable < self.dev.usable - SOME_MISSING:
                result = "unusable"
            tested.append(replace(proposal, gain=gain, p=p, result=result))
        return tested

    def _join_kept(
        self, kept: Sequence[Proposal], sides: Mapping[str, Side], tried: int
    ) -> Candidate:
        """Add the kept ones to each other, largest gain first, if each adds to those before it."""
        if not kept:
            return Candidate({}, 0.0)
        # Largest gain first.
        first, *weaker = sorted(
            kept,
            key=lambda proposal: (
                -(0.0 if proposal.gain is None else proposal.gain.metric.value or 0.0)
            ),
        )
        chosen = [first]
        config = self.result.config
        side = sides[first.name]
        for proposal in weaker:
            before = with_proposals(config, chosen)
            after = with_proposals(config, [*chosen, proposal])
            answered = self._answered(after)
            if answered is None:
                return Candidate({}, 0.0)
            gain = self._gain_on_dev(before, side, after, answered)
            # Bonferroni, for all proposals that were tried
            if self._shown(
                gain, None if gain is None or gain.p is None else gain.p * tried
            ):
                chosen = [*chosen, proposal]
                side = answered
            else:
                index = self.tried.index(proposal)
                self.tried[index] = replace(proposal, result="covered")
        return with_proposals(config, chosen)

    def _gain_on_dev(
        self, before: Candidate, before_side: Side, after: Candidate, side: Side
    ) -> Difference | None:
        """Return the paired difference on dev, `None` if the answers have no agreement."""
        config = self.result.config
        if agreement(after.of(config), self.kind, side) == -1:
            return None
        entries = [
            RunEntry("after", after.of(config), side.cases, side.judgments),
            RunEntry(
                "before", before.of(config), before_side.cases, before_side.judgments
            ),
        ]
        scoring = config.scoring.with_(
            {"bootstrap": max(config.scoring.bootstrap, RESAMPLES)}
        )
        return compare_runs(entries, scoring, [self.metric]).difference(self.metric)

    def _shown(self, gain: Difference | None, p: float | None) -> bool:
        """Return whether a gain is shown by its interval and by the adjusted p-value."""
        if gain is None or gain.metric.low is None or p is None:
            return False
        return gain.metric.low > 0 and p <= 1 - self.result.config.scoring.confidence


def own_criteria(config: RunConfig) -> dict[str, str]:
    """Return the criteria, or the checklist items of all cases, with their texts."""
    if config.mode.name == CHECKLIST:
        return {item.id: item.criterion for item in config.mode.items}
    return {name: criterion.description for name, criterion in config.criteria.items()}


def with_proposals(config: RunConfig, proposals: Sequence[Proposal]) -> Candidate:
    """Return the run's criteria or checklist with proposals after them; a criterion has
    the mean weight.
    """
    if config.mode.name == CHECKLIST:
        items = tuple(
            {"id": proposal.name, "criterion": proposal.text} for proposal in proposals
        )
        return Candidate({ITEMS_KEY: (*config.mode.checklist, *items)}, 0.0)
    raw = config.raw_weights().values()
    # With the mean weight, a new criterion counts as much as an average one.
    mean = round(sum(raw) / len(raw), 6)
    weight = {} if mean == 1 else {"weight": mean}
    added = {
        proposal.name: Criterion.model_validate(
            {"description": proposal.text, **weight}
        )
        for proposal in proposals
    }
    return Candidate({CRITERIA: {**config.criteria, **added}}, 0.0)


def values_of(side: Side, name: str | None = None) -> dict[tuple[Any, ...], object]:
    """Return the answers by what was asked: the case, unit, order, sample and judge.

    Args:
        side: The judgments.
        name: A criterion or item, whose values are returned instead of whole answers; the result
            is empty if no answer has one.
    """
    values: dict[tuple[Any, ...], object] = {}
    for judgment in side.judgments:
        # what was asked: two sides compare answers to the same requests
        key = (
            judgment.case_id,
            judgment.unit,
            judgment.shown,
            judgment.sample,
            judgment.judge,
        )
        whole = (judgment.status, judgment.value, judgment.class_name, judgment.ranking)
        values[key] = (
            whole
            if name is None
            else judgment.items.get(name, judgment.criteria.get(name))
        )
    # All `None`: the answers do not have this criterion at all.
    if any(value is not None for value in values.values()):
        return values
    return {}


def read_proposals(
    answer: Json, taken: Collection[str], most: int, tell: Callable[[str], None]
) -> Iterator[Proposal]:
    """Yield the proposals in a model's answer, at most `most`; `tell` is called with
    why one cannot be used.

    Raises:
        ConfigError: if the answer has no list of them.
    """
    listed = answer.get(CRITERIA)
    if not isinstance(listed, list) or not listed:
        raise ConfigError(
            "its answer has no list of criteria",
            where="align.model",
            remedy="choose another align.model",
        )
    names = set(taken)
    for position, proposed in enumerate(listed[:most], 1):
        try:
            if isinstance(proposed, Mapping):
                entry = proposed
            else:
                entry = {"description": proposed}
            text = checked_text(entry.get("description"))
        except UnreadableError as error:
            tell(f"proposal {position} is not used: {error}")
            continue
        name = safe_name(entry.get("name"), position, names)
        # Later proposals must not get the same name.
        names.add(name)
        yield Proposal(name, text)
    if len(listed) > most:
        tell(
            f"{len(listed) - most} more proposals are not used: align.proposals is {most}"
        )


def checked_text(value: object) -> str:
    """Return the text of a proposal in one line.

    Raises:
        UnreadableError: if it is more than plain text, or too long.
    """
    if not isinstance(value, str) or not (text := " ".join(value.split())):
        raise UnreadableError("invalid", "it has no text")
    return plain_text(text, MOST_CHARACTERS, _FORBIDDEN)


def safe_name(value: object, position: int, taken: Collection[str]) -> str:
    """Return a name of letters, digits and underscores that no other criterion has."""
    folded = normalize("NFKC", value if isinstance(value, str) else "").casefold()
    name = re.sub(r"\W+", "_", folded).strip("_")[:MOST_NAME].strip("_")
    if not name or not name[0].isalpha() or name in _RESERVED:
        name = f"criterion_{name}" if name else f"criterion_{position}"
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _normalized(text: str) -> str:
    return re.sub(r"[\W_]+", "", normalize("NFKC", text).casefold())


def write_proposals(
    config: RunConfig, candidate: Candidate, name: str, kept: int
) -> Path:
    """Write criteria to a new file in `conf/criteria`, or checklist items to one in
    `conf/method`; return its path.

    Raises:
        ConfigError: if it cannot be written.
    """
    items = config.mode.name == CHECKLIST
    number = 1
    path = FOLDERS[items] / f"{name}.yaml"
    while path.exists():
        number += 1
        path = FOLDERS[items] / f"{name}-{number}.yaml"
    # The candidate changes exactly one key.
    [value] = plain(candidate.settings).values()
    head = "# @package _global_\n" if items else ""
    head += _HEAD.format(
        f"the last {kept} are new" if kept > 1 else "the last one is new", path
    )
    body = manifest.escaped({"mode": {"checklist": value}} if items else value)
    text = head + yaml.safe_dump(body, sort_keys=False, allow_unicode=True)
    with file_errors("cannot be written", path, "choose another folder"):
        write_file(path, [text.encode()])
    return path


def read_criteria(config: RunConfig, path: Path) -> Candidate:
    """Return the settings with the criteria or checklist items in a file.

    Raises:
        ConfigError: if it cannot be read, is not such a file, or has what the run has.
    """
    remedy = "write it as `evalkit align RUN tune=criteria` does"
    if (
        path.exists() and not path.is_file()
    ):  # such as a pipe, which would be waited for
        raise ConfigError("is not a file", where=str(path), remedy=remedy)
    try:
        with file_errors(
            "cannot be read", path, "set align.criteria to a file of criteria"
        ):
            content = read_file(path)
        if _INTERPOLATION.search(content):
            raise ValueError(
                "has `${`, and a text that it stands for later is not the one that is proved"
            )
        parsed = manifest.load(content)
    except ValueError as error:
        raise ConfigError(str(error), where=str(path), remedy=remedy) from None
    items = config.mode.name == CHECKLIST
    if items and isinstance(parsed.get("mode"), dict):
        value = parsed.get("mode", {}).get("checklist")
    else:
        value = parsed
    # Checked as a part of the whole config, with all rules between sections.
    whole = config.model_dump(mode="json")
    if items:
        changed = {"mode": {**whole["mode"], "checklist": value}}
    else:
        changed = {CRITERIA: value}
    try:
        changed_config = RunConfig.model_validate({**whole, **changed})
    except ValidationError as error:
        wrong = config_error(error, [])
        raise ConfigError(
            f"{wrong.where}: {wrong.what}",
            where=str(path),
            remedy=wrong.remedy or remedy,
        ) from None
    names = (*changed_config.criteria, *(item.id for item in changed_config.mode.items))
    if (
        odd := next((name for name in names if not name.isprintable()), None)
    ) is not None:
        raise ConfigError(
            f"the name '{odd[:200]}' has control characters",
            where=str(path),
            remedy="rename it",
        )
    if (
        changed_config.criteria == config.criteria
        and changed_config.mode.checklist == config.mode.checklist
    ):
        raise ConfigError(
            "has the run's own criteria",
            where=str(path),
            remedy="change them, or keep the judge",
        )
    return Candidate(
        {ITEMS_KEY: changed_config.mode.checklist}
        if items
        else {CRITERIA: changed_config.criteria},
        0.0,
    )


def check_criteria(result: RunResult, kind: VerdictKind) -> None:
    """Check that a run's prompts show criteria, and its labels can show what they add.

    Raises:
        ConfigError: if not.
    """
    config = result.config
    where = "tune=[criteria]"
    if config.judge.cascades:
        raise ConfigError(
            "the labels choose the thresholds of a cascade",
            where=where,
            remedy="align its judges",
        )
    if kind is ITEMS:
        problem = "the labels are of checklist items, and a proposed item has none"
        raise ConfigError(
            problem, where=where, remedy="label whole responses with grades"
        )
    if config.judge.rewards:
        raise ConfigError(
            "a reward model reads no criteria",
            where=where,
            remedy="tune other settings",
        )
    added = with_proposals(config, [Proposal("proposal", "proposal")]).of(config)
    build_evaluator(
        added, read_templates(result)
    )  # its template may name each criterion
