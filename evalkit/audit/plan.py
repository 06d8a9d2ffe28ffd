"""From cases to edited cases: what an audit asks besides the run itself.

An edited case is a case, so the engine, the store and budgets treat it as any other. Its id is the
case's id, `#probe:` and the probe's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from evalkit.audit.probes import (
    PARAPHRASE,
    REPEAT,
    SINGLE,
    Place,
    Probe,
    find_probe,
    language_of,
    side_of,
)
from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError, PluginError
from evalkit.core.planners import planner_for
from evalkit.core.plugins import third_party_errors
from evalkit.core.protocols import Evaluator, FollowUpEvaluator
from evalkit.core.resources import project
from evalkit.core.spool import Spool
from evalkit.core.types import (
    AnswerFormat,
    Case,
    Completion,
    JudgeRequest,
    Judgment,
    Message,
)
from evalkit.core.values import frozen
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.prompting import marked_texts

SEPARATOR = "#probe:"
NONE: Final[Mapping[str, str]] = MappingProxyType({})


def probes_of(config: RunConfig) -> tuple[Probe, ...]:
    """Return the probes of a config that make sense for its mode; the unedited repeat
    is always the first.

    Raises:
        ConfigError: If there is no such probe, none makes sense for the mode, or it needs a
            rewriter.
        PluginError: If another package's probe cannot be used.
    """
    if PARAPHRASE in config.probe.probes and config.probe.rewriter is None:
        problem, remedy = (
            "needs a model that writes the paraphrases",
            "set probe.rewriter, such as gpt-4o-mini",
        )
        raise ConfigError(problem, where=f"probe.probes.{PARAPHRASE}", remedy=remedy)
    # Without the repeat, the judge's own noise would count as an effect.
    named = [find_probe(name) for name in dict.fromkeys([REPEAT, *config.probe.probes])]
    fit = tuple(
        probe
        for probe in named
        if config.mode.name in probe.modes and not _impossible(probe, config)
    )
    if len(fit) < 2 and len(named) > 1:
        raise ConfigError(
            f"no probe makes sense for mode {config.mode.name}",
            where="probe",
            remedy="choose others",
        )
    return fit


def _impossible(probe: Probe, config: RunConfig) -> bool:
    """Return whether a run's settings leave no right answer, or hide the edit."""
    if probe.expects == "tie" and not config.tie.allow:
        return True
    if probe.relabel is not None and (
        config.judge.weighs or config.mode.name != "pairwise"
    ):
        return True
    # One criterion in reverse order is the same prompt.
    return probe.reword is not None and probe.reword(config).hash() == config.hash()


def edited(
    case: Case, probe: Probe, config: RunConfig, paraphrase: str | None = None
) -> Case | None:
    """Return a case as a probe edits it; `None` if it cannot be edited.

    A pair is the case's first two responses. In mode pointwise, an edited case has the edited
    response only.

    Args:
        case: The case.
        probe: The probe.
        config: The run's config.
        paraphrase: The rewriter's paraphrase of the case's response, if there is one.

    Raises:
        PluginError: If a probe's own code fails.
    """
    before, side = trimmed(case, probe, config)
    if before is None:
        return None
    language = language_of(before.responses[side].text + case.prompt)
    target = Place(
        side, language, config, config.probe.probes.get(probe.name, {}), paraphrase
    )
    problem = f"'{probe.name}' fails on case {case.id}"
    remedy = "fix the plug-in, or leave the probe out"
    with third_party_errors(PluginError, problem, where="probe", remedy=remedy):
        edited_case = probe.edit(before, target)
    # an equal case would ask the same again, unless the prompt differs or to repeat
    if edited_case is None or (
        probe.reword is None
        and probe.relabel is None
        and probe.name != REPEAT
        and edited_case == before
    ):
        return None
    # labels are about the unedited responses, so the edited case has none
    metadata = {"probe": probe.name, "case": case.id, "side": side}
    return replace(
        edited_case,
        id=f"{case.id}{SEPARATOR}{probe.name}",
        label=None,
        labels={},
        metadata=metadata,
    )


def unit_of(case: Case, probe: Probe, config: RunConfig) -> tuple[int, ...]:
    """Return the unit of the original case that an edited one is compared with."""
    if config.mode.name not in SINGLE:
        return (0, 1)
    side = side_of(case, worse=probe.worse)
    return (1 - side if probe.expects == "loses" and len(case.responses) > 1 else side,)


def trimmed(case: Case, probe: Probe, config: RunConfig) -> tuple[Case | None, int]:
    """Return a case with the responses that a probe compares, and the index of the one to edit.

    The case is `None` if it has too few responses.
    """
    if (
        config.mode.name in SINGLE and probe.name == REPEAT
    ):  # any of the responses may be compared with
        return case, 0
    if config.mode.name in SINGLE:
        (index,) = unit_of(case, probe, config)
        return (
            replace(case, responses=(case.responses[index],))
            if case.responses
            else None
        ), 0
    if len(case.responses) < 2:
        return None, 0
    kept = case.responses[:2] if config.mode.name == "pairwise" else case.responses
    return replace(case, responses=kept), side_of(case, worse=probe.worse)


@frozen
class AuditPlan:
    """What an audit asks: each case as it is, then repeated, then edited by each probe.

    Attributes:
        config: The run's config.
        probes: The probes; the first is the unedited repeat.
        cases: All cases, in the order in which they are judged.
        evaluator: Plans their requests and reads the answers.
    """

    config: RunConfig
    probes: tuple[Probe, ...]
    cases: Sequence[Case]
    evaluator: ProbedEvaluator

    @classmethod
    def of(
        cls,
        config: RunConfig,
        cases: Iterable[Case],
        evaluator: Evaluator,
        folder: Path | None = None,
        paraphrases: Mapping[str, str] = NONE,
    ) -> AuditPlan:
        """Return the plan of an audit; many cases wait in a file in or above `folder`.

        Args:
            config: The run's config.
            cases: The cases.
            evaluator: Plans their requests and reads the answers.
            folder: Where many cases wait in a file.
            paraphrases: The rewriter's paraphrases, by the case's id.

        Raises:
            ConfigError: If a probe cannot be used, or a case's id is one that an edited case would
                have.
        """
        probes = probes_of(config)
        everything = (
            case for base in cases for case in expand(base, probes, config, paraphrases)
        )
        plan = Spool[Case](everything, folder=folder)
        return cls(config, probes, plan, ProbedEvaluator(config, evaluator, probes))

    def edits(self) -> Sequence[Case]:
        """Return the edited cases, repeats included."""
        return [case for case in self.cases if SEPARATOR in case.id]


def expand(
    case: Case,
    probes: Iterable[Probe],
    config: RunConfig,
    paraphrases: Mapping[str, str] = NONE,
) -> Iterator[Case]:
    """Yield a case, and the case as each probe edits it; `paraphrases` are those of the
    rewriter, by the case's id.

    Raises:
        ConfigError: If its id is one that an edited case would have.
    """
    check_id(case)
    yield case
    text = paraphrases.get(case.id)
    yield from (
        edited_case
        for probe in probes
        if (edited_case := edited(case, probe, config, text)) is not None
    )


def check_id(case: Case) -> None:
    """Check that a case's id is not one that an edited case would have.

    Raises:
        ConfigError: If it is.
    """
    if SEPARATOR in case.id:
        raise ConfigError(
            f"the id contains '{SEPARATOR}'",
            where=f"case {case.id}",
            remedy="rename the case",
        )


class ProbedEvaluator:
    """Plans and reads the requests of edited cases, each as the original evaluator does
    under the case's own id.
    """

    weighs = True

    def __init__(
        self, config: RunConfig, evaluator: Evaluator, probes: Iterable[Probe]
    ) -> None:
        self._base = evaluator
        third = config.swap.policy == "both" and config.swap.resolve == "third_pass"
        # How many sample numbers the run itself can use; those of a repeat follow, and are new
        # requests.
        self._samples = config.mode.samples * (2 if third else 1)
        self._others: Mapping[str, Evaluator] = {
            probe.name: _prompted(probe, config, evaluator)
            for probe in probes
            if probe.reword or probe.relabel
        }
        self.prompt_hashes = getattr(evaluator, "prompt_hashes", {})
        self.prompt_texts = getattr(evaluator, "prompt_texts", {})

    def for_judge(self, judge: str) -> Evaluator:
        """Return what plans the requests of edited cases to a judge."""
        base = planner_for(self._base, judge)
        if base is self._base:
            return self
        planner = copy(self)
        planner._base = base
        planner._others = {
            name: planner_for(evaluator, judge)
            for name, evaluator in self._others.items()
        }
        return planner

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests of a case; a repeat has the sample numbers that follow
        the run's own.
        """
        name, probe = _parts(case.id)
        # Under the case's own id: orders and texts that are chosen by its hash must be those of
        # the original.
        requests = self._of(probe).plan(replace(case, id=name))
        return [self._renamed(request, case.id, probe) for request in requests]

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the judgment in a completion, or one more request."""
        return self._of(_parts(request.case_id)[1]).read(request, completion)

    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return the follow-up requests of a case, if the mode has any."""
        name, probe = _parts(case.id)
        evaluator = self._of(probe)
        if not isinstance(evaluator, FollowUpEvaluator):
            return ()
        requests = evaluator.follow(replace(case, id=name), judgments)
        return [self._renamed(request, case.id, probe) for request in requests]

    def original(self, judgment: Judgment) -> Judgment:
        """Return a judgment with its sample number as in the run itself."""
        if _parts(judgment.case_id)[1] != REPEAT:
            return judgment
        return replace(judgment, sample=judgment.sample - self._samples)

    def _of(self, probe: str) -> Evaluator:
        return self._others.get(probe, self._base)

    def _renamed(self, request: JudgeRequest, case_id: str, probe: str) -> JudgeRequest:
        sample = request.sample + (self._samples if probe == REPEAT else 0)
        if request.then is None:
            then = None
        else:
            then = self._renamed(request.then, case_id, probe)
        return replace(request, case_id=case_id, sample=sample, then=then)


def _prompted(probe: Probe, config: RunConfig, evaluator: Evaluator) -> Evaluator:
    if probe.relabel is not None:
        return Relabeled(evaluator, probe.relabel)
    assert probe.reword is not None
    return make_evaluator(probe.reword(config), prompt_folders=[project() / "prompts"])


def _parts(case_id: str) -> tuple[str, str]:
    name, _, probe = case_id.partition(SEPARATOR)
    return name, probe


_NAME = re.compile(
    r"(?<![A-Za-z'’])[AB](?![A-Za-z'’]|(?-i: [a-z]))|(?<=[Rr]esponse )[AB](?![A-Za-z])"
)


class Relabeled:
    """An evaluator whose prompts call the two responses by other names; texts under
    judgment stay as they are.
    """

    def __init__(self, evaluator: Evaluator, names: tuple[str, str]) -> None:
        self._evaluator = evaluator
        self._names = dict(zip("AB", names, strict=True))
        back = {name: letter for letter, name in self._names.items()}
        self._back = {f'"{name}"': f'"{letter}"' for name, letter in back.items()}
        for before, after in (
            ("[[", "]]"),
            ("Response ", ""),
            ("回答 ", ""),
            ("回答", ""),
        ):
            # Only in the forms in which a judge states a verdict, so that a name in its reasoning
            # stays.
            self._back |= {
                f"{before}{name}{after}": f"{before}{letter}{after}"
                for name, letter in back.items()
            }
        self._known: list[tuple[AnswerFormat, AnswerFormat]] = []

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests, under other names."""
        return [self._renamed(request) for request in self._evaluator.plan(case)]

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the judgment in a completion whose names are read back."""
        text = completion.text
        for name, letter in self._back.items():
            text = text.replace(name, letter)
        return self._evaluator.read(request, replace(completion, text=text))

    def _renamed(self, request: JudgeRequest) -> JudgeRequest:
        # Longest first: one text may contain another one.
        texts = sorted(
            {text for text in marked_texts(request.messages) if text.strip()},
            key=len,
            reverse=True,
        )
        messages = tuple(
            self._relabel_message(message, texts) for message in request.messages
        )
        answer = None if request.answer is None else self._answer(request.answer)
        return replace(request, messages=messages, answer=answer)

    def _relabel_message(self, message: Message, texts: Sequence[str]) -> Message:
        """Return a message with other names of responses, except in the judged texts."""
        if texts:
            parts = re.split(
                "(" + "|".join(map(re.escape, texts)) + ")", message["content"]
            )
        else:
            parts = [message["content"]]
        renamed = [
            # `re.split` with a group: texts under judgment are at odd indexes, and stay as they
            # are.
            part if index % 2 else _NAME.sub(lambda m: self._names[m[0]], part)
            for index, part in enumerate(parts)
        ]
        return {"role": message["role"], "content": "".join(renamed)}

    def _answer(self, answer: AnswerFormat) -> AnswerFormat:
        # By identity: the same format comes with every request.
        for old, new in self._known:
            if old is answer:
                return new
        self._known.append(
            (answer, replace(answer, schema=self._schema(answer.schema)))
        )
        return self._known[-1][1]

    def _schema(self, schema: Any) -> Any:
        if isinstance(schema, Mapping):
            return {
                key: (
                    [self._names.get(value, value) for value in part]
                    if key == "enum"
                    else self._schema(part)
                )
                for key, part in schema.items()
            }
        return schema
