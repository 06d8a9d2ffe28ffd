"""A validated judge as a value: called with texts, it returns a verdict and what is
known about the judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from math import ceil
from pathlib import Path
from typing import Any, Final, Literal, Self
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from evalkit.config import DatasetConfig, RunConfig
from evalkit.config.problems import config_error
from evalkit.core.errors import ConfigError, EvalkitError, did_you_mean
from evalkit.core.plain_errors import awaits_plainly, check_type, raises_plainly
from evalkit.core.planners import Planners
from evalkit.core.plugins import allowing_code
from evalkit.core.turns import UNIT_KEYS
from evalkit.core.types import Case, Judgment, Verdict, Winner
from evalkit.core.values import frozen
from evalkit.datasets.case_reader import CaseReader
from evalkit.datasets.field_mapping import Columns
from evalkit.datasets.images import Album, reading_images
from evalkit.datasets.turns import last_unit
from evalkit.engine.event_loop import run_async
from evalkit.evaluators.json_answers import rationale
from evalkit.guard.known_hosts import trusting
from evalkit.guard.policy import check, from_judge_folder, origin_of
from evalkit.judges.images import check_images
from evalkit.runs.results import Spent
from evalkit.serving.folder import LOADER, JudgeFolder, read_judge
from evalkit.serving.sessions import JudgingSession
from evalkit.serving.trust import Trust
from evalkit.workflows.materials import build_evaluator

FIELDS: Final = (
    "id", "prompt", "response", "response_a", "response_b", "responses", "context", "reference",
    "checklist", "metadata",
)  # fmt: skip
SETTINGS: Final = ("store", "runner")
"""The sections that a caller may set: they do not change a verdict."""
_NEEDED: Final = {
    "pairwise": "prompt, response_a and response_b",
    "pointwise": "prompt and response",
    "listwise": "prompt and responses",
    "checklist": "prompt, response and checklist",
}
JUDGED: Final = ("criteria", "rubric", "swap", "tie")
"""The sections that a tool's arguments may change."""


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """A judge's verdict on one case.

    Attributes:
        status: `missing` if there is no verdict; no other value then stands for it.
        winner: The winner of a pair.
        score: The score of a response.
        class_name: The class of a response.
        reason: The source of the verdict, as in `Verdict`; `abstained` if the judge decides nothing
            on this case.
        decided_by: The judge of a cascade that decided; `None` for another judge, or without a
            verdict.
        explanation: The judge's own words, if there are any.
        criteria: The margin or score by criterion.
        verdicts: Every verdict on the case: of each response, pair and checklist item.
        cost_usd: The cost of answers that were not in the store; `None` if it is unknown.
        stored: Whether every answer came from the store.
        error: Why the verdict is missing.
        error_kind: The kind of the failed call, if one failed.
        trust: What is known about the judge, and warnings about this case.
    """

    status: Literal["ok", "missing"]
    winner: Winner | None
    score: float | None
    class_name: str | None
    reason: str
    decided_by: str | None
    explanation: str | None
    criteria: Mapping[str, float]
    verdicts: tuple[Verdict, ...]
    cost_usd: float | None
    stored: bool
    error: str | None
    error_kind: str | None
    trust: Trust

    @property
    def value(self) -> Winner | float | str | None:
        """The winner, score or class; `None` if it is missing."""
        return self.winner or (self.class_name if self.score is None else self.score)

    def json(self) -> dict[str, Any]:
        """Return the verdict as a JSON value."""
        content: dict[str, Any] = _json_value(self)
        return content


@frozen
class QuestionSize:
    """How large a question is.

    Attributes:
        calls: The number of calls, before any further ones that answers may need.
        questions: As how many questions it counts: its pairs, responses or items.
    """

    calls: int
    questions: int


class Judge:
    """A judge with the configuration that was validated.

    Calls share its store, its limits and its budget.

    Args:
        folder: The judge.
        settings: The values of `store` and `runner` to change.
        allow_code: Let its config name classes by dotted paths, which are imported and run.

    Raises:
        ConfigError: If a setting, a template or a plug-in cannot be used.
    """

    def __init__(
        self,
        folder: JudgeFolder,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        allow_code: bool = False,
    ) -> None:
        self.config = self._validated = _with_settings(folder.config, settings or {})
        self.validation = folder.validation
        self._templates = folder.templates
        self._allow_code = allow_code
        self.spent = Spent()
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = (
            WeakKeyDictionary()
        )
        self._stopped: str | None = None
        self._planners: Planners | None = None
        self._reading = DatasetConfig()  # questions have the fields of a plain data set
        self._columns: Columns | None = None

    @property
    def trust(self) -> Trust:
        """What is known about the judge."""
        return Trust(self.validation.use, self.validation.sentence)

    def _repr_html_(self) -> str:
        """Return what is known about the judge for a notebook."""
        # Only notebooks need them, and they load the pages of sweeps and comparisons.
        from evalkit.report.notebook import judge_html
        from evalkit.report.page import level_of

        validation = self.validation
        return judge_html(
            validation.title,
            validation.use,
            validation.sentence,
            validation.metrics.values(),
            level_of(self.config),
        )

    @property
    def changed(self) -> list[str]:
        """The sections of the config that differ from the validated ones."""
        return [
            name
            for name in JUDGED
            if getattr(self.config, name) != getattr(self._validated, name)
        ]

    def with_config(self, config: RunConfig) -> Judge:
        """Return a judge with another config, whose answers have a warning; it shares
        the budget of this one.
        """
        # A shallow copy shares the budget and the validation; sessions and planners depend
        # on the config.
        judge = copy(self)
        judge.config = config
        judge._planners = None
        judge._sessions = WeakKeyDictionary()
        if judge.changed:
            return judge
        return self

    @awaits_plainly
    async def __call__(self, **fields: Any) -> JudgeVerdict:
        """Judge one case.

        Args:
            **fields: The fields of a case: `prompt`; `response`, `response_a` and `response_b`, or
                `responses`; `context`, `reference`, `checklist`, `id`. For a judge of turns or
                steps, a response can be a list of messages, of which the last turn or step is
                judged; a prompt comes before them, and can be omitted. `metadata` has the values of
                columns, such as a language, by which the validation found slices.

        Raises:
            DatasetError: If they are not a case for this judge.
            JudgeSetupError: If the judge cannot be called.
            StoreError: If the store fails.
        """
        (verdict,) = await self.batch([fields])
        return verdict

    @raises_plainly
    def sync(self, **fields: Any) -> JudgeVerdict:
        """Judge one case and wait for its verdict; the arguments and errors are those of a call."""
        return run_async(self.once(**fields))

    async def once(self, **fields: Any) -> JudgeVerdict:
        """Judge one case, and close the connections if no other call uses them; the
        arguments are those of a call.
        """
        try:
            return await self(**fields)
        finally:
            shared = self._sessions.get(asyncio.get_running_loop())
            if shared is not None and not shared.users:
                await self.close()

    @awaits_plainly
    async def batch(self, cases: Iterable[Mapping[str, Any]]) -> list[JudgeVerdict]:
        """Judge cases, each a mapping of the fields of a call; the errors are those of a call."""
        return await self.verdicts(
            [self.case(fields, str(number)) for number, fields in enumerate(cases, 1)]
        )

    async def verdicts(self, read: Sequence[Case]) -> list[JudgeVerdict]:
        """Return the judge's verdict on each case, in their order; cases may have equal ids.

        The errors are those of a call.
        """
        # Ids of callers may repeat; scoring needs each once.
        # Metadata only says in which slice a case is.
        numbered = [
            replace(case, id=str(number), metadata=of_unit(case))
            for number, case in enumerate(read)
        ]
        judgments, verdicts = await self.judged(numbered)
        # number of the case -> its judgments and its verdicts
        by_case: dict[str, tuple[list[Judgment], list[Verdict]]] = {
            case.id: ([], []) for case in numbered
        }
        for judgment in judgments:
            by_case[judgment.case_id][0].append(judgment)
        for verdict in verdicts:
            by_case[verdict.case_id][1].append(verdict)
        return [
            self._judge_verdict(case, *by_case[str(number)])
            for number, case in enumerate(read)
        ]

    def size_of(self, case: Case) -> QuestionSize:
        """Return how large the question about a case is; nothing is sent.

        Raises:
            EvalkitError: If it is not a case for this judge.
        """
        if self._planners is None:
            with allowing_code(self._allow_code):
                evaluator = build_evaluator(self.config, self._templates)
            # A cascade asks its first judge about all, and the others only if needed.
            first = self.config.judge.in_turn[0].members
            self._planners = Planners(evaluator, [judge.label for judge in first])
        bare = replace(case, metadata=of_unit(case))
        planned_by_judge = self._planners.plan(bare)
        calls = sum(len(planned) for planned in planned_by_judge)
        planned = len(planned_by_judge[0])
        orders = 1
        if self.config.mode.name == "pairwise" and self.config.swap.policy == "both":
            orders = 2
        # A pair or a response counts once, with all its orders, samples and judges.
        for_each = orders * self.config.mode.samples
        return QuestionSize(calls, max(1, ceil(planned / for_each)))

    def stop(self, why: str) -> None:
        """Send nothing more: answers on their way are stored, and all other verdicts
        are missing.
        """
        self._stopped = why
        for shared in self._sessions.values():
            shared.session.stop(why)

    @property
    def unanswered(self) -> int:
        """The number of calls that were sent and have no answer yet."""
        return sum(shared.session.unanswered for shared in self._sessions.values())

    async def written(self) -> None:
        """Wait until each answer that has arrived is stored."""
        shared = self._sessions.get(asyncio.get_running_loop())
        if shared is not None:
            await shared.session.written()

    async def close(self) -> None:
        """Close the connections of this event loop."""
        # Connections belong to the event loop in which they were opened.
        shared = self._sessions.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            shared.over = True
            await shared.leave()

    async def __aenter__(self) -> Self:
        """Return the judge; its connections are closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    def case(self, fields: Mapping[str, Any], number: str = "1") -> Case:
        """Return the case in the fields of a call.

        Args:
            fields: The fields by name; those that are `None` are missing.
            number: The case's id, unless the fields have one.

        Raises:
            ConfigError: If a field is unknown, or there is no response.
            DatasetError: If they are not a case for this judge.
        """
        if unknown := [name for name in fields if name not in FIELDS]:
            raise ConfigError(
                f"unknown field '{unknown[0]}'",
                where="case",
                remedy=did_you_mean(unknown[0], FIELDS),
            )
        row = {name: value for name, value in fields.items() if value is not None}
        metadata = _metadata(row.pop("metadata", {}))
        if not any(name.startswith("response") for name in row):
            remedy = "pass response, response_a and response_b, or responses"
            raise ConfigError("has no response", where="case", remedy=remedy)
        # A new reader for each case, because readers count what they find; where the fields are
        # is the same for all.
        mode = self.config.mode
        classes = self.config.rubric.named_classes
        call = _NEEDED.get(mode.name, "prompt and responses")
        reader = CaseReader(
            self._reading,
            mode.name,
            items=mode.items,
            classes=classes,
            call=call,
            rendered=self.config.dataset.has_turns,
            columns=self._columns,
        )
        self._columns = reader.columns
        row = {"id": number, **row}
        data = self.config.dataset
        album = Album(
            omit=data.images == "omit",
            most=data.max_images,
            largest=data.max_image_bytes,
            check=partial(check_images, self.config),
            passing=True,
        )
        album.begin("case")
        with reading_images(album):
            unit = last_unit(row, data, mode.name) if data.has_turns else row
            case = reader.read(unit, 1, "case")
        assert case is not None  # only dataset.on_error omits a row
        case = replace(case, metadata={**case.metadata, **metadata})
        if unit is not row:
            return replace(case, id=str(row["id"]))
        return case

    async def judged(
        self, cases: Sequence[Case]
    ) -> tuple[Sequence[Judgment], Sequence[Verdict]]:
        """Return the judgments and verdicts on cases with different ids, in any order; the errors
        are those of a call.

        Raises:
            EvalkitError: If the judge was stopped.
        """
        loop = asyncio.get_running_loop()
        # A session that stopped on another call's error is replaced, and this question is asked
        # again; stored answers are not paid for twice.
        while True:
            if self._stopped is not None:
                raise EvalkitError(self._stopped)
            # Another call may have replaced or stopped the session during an `await`, so it is
            # looked up in each turn.
            shared = self._sessions.get(loop)
            if shared is None or shared.session.stopped:
                with allowing_code(self._allow_code):
                    session = JudgingSession(self.config, self._templates, self.spent)
                if shared is not None:
                    shared.over = True
                shared = self._sessions[loop] = _Shared(session)
            shared.users += 1
            try:
                judged = await shared.session.judge(cases)
                # An error in another call ends the session before this one is complete.
                if not shared.session.stopped or shared.session.complete(
                    cases, judged[0]
                ):
                    return judged
            finally:
                shared.users -= 1
                await shared.leave()

    def _judge_verdict(
        self, case: Case, judgments: Sequence[Judgment], verdicts: Sequence[Verdict]
    ) -> JudgeVerdict:
        """Return what callers get on a case: the main verdict, its reason, cost and trust.

        Args:
            case: the case.
            judgments: all judgments on it.
            verdicts: its verdicts; one on two responses comes before one on single ones.
        """
        main = _main_verdict(case, verdicts)
        missing = (
            main.winner is None
            and main.score is None
            and main.class_name is None
            and main.reason != "abstained"
        )
        error, error_kind = failure_of(judgments) if missing else (None, None)
        # Stored answers cost this caller nothing.
        paid = [judgment for judgment in judgments if not judgment.stored]
        explanations = (rationale(judgment.answer) for judgment in judgments)
        return JudgeVerdict(
            status="missing" if missing else "ok",
            winner=main.winner,
            score=main.score,
            class_name=main.class_name,
            reason=main.reason,
            decided_by=main.decided_by,
            # The first one that is not empty.
            explanation=next(filter(None, explanations), None),
            criteria=main.criteria,
            verdicts=tuple(replace(verdict, case_id=case.id) for verdict in verdicts),
            cost_usd=_cost_of(paid),
            stored=not paid,
            error=error,
            error_kind=error_kind,
            trust=self.trust_in(case, judgments),
        )

    def trust_in(self, case: Case, judgments: Sequence[Judgment]) -> Trust:
        """Return what the validation says about the answers on one case."""
        unseen = self.config.criteria.keys() - self._validated.criteria.keys()
        return self.validation.trust(case, judgments, sorted(unseen), self.changed)


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""The types of values that are JSON as they are."""


@cache
def _fields_of(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass; `None` for another type."""
    if not is_dataclass(kind):
        return None
    return tuple(part.name for part in fields(kind))


def _json_value(value: Any) -> Any:
    """Return a verdict, or a part of it, as a JSON value.

    It takes a quarter of the time of `dataclasses.asdict`, which copies each text and number.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    names = _fields_of(kind)
    if names is not None:
        return {name: _json_value(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: _json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(part) for part in value]
    return value


def _metadata(value: Any) -> dict[str, Any]:
    """Return the metadata of a case.

    Raises:
        ConfigError: if it is not a mapping of columns to plain values or lists of them.
    """
    plain = (str, int, float, bool, type(None))
    correct = isinstance(value, Mapping) and all(
        isinstance(name, str)
        and all(
            isinstance(part, plain)
            for part in (cell if isinstance(cell, list | tuple) else [cell])
        )
        for name, cell in value.items()
    )
    if not correct:
        remedy = 'pass columns with their values, such as {"language": "de"}'
        raise ConfigError(
            "is not a mapping of columns", where="metadata", remedy=remedy
        )
    return dict(value)


def of_unit(case: Case) -> dict[str, Any]:
    """Return the metadata of a turn or step that its judging depends on."""
    return {name: case.metadata[name] for name in UNIT_KEYS if name in case.metadata}


def failure_of(judgments: Sequence[Judgment]) -> tuple[str | None, str | None]:
    """Return why a value is missing, and the kind of the failed call if one failed."""
    faults = [judgment for judgment in judgments if judgment.error]
    first = max(faults, key=lambda judgment: judgment.status == "failed", default=None)
    if first is None:
        return None, None
    return first.error, first.error_kind if first.status == "failed" else None


class _Shared:
    """A session that calls of one event loop share; it is closed once it is over and unused."""

    def __init__(self, session: JudgingSession) -> None:
        self.session, self.users, self.over = session, 0, False

    async def leave(self) -> None:
        if (
            not self.users
            and (self.over or self.session.stopped)
            and not self.session.closed
        ):
            await self.session.close()


@raises_plainly
def load_judge(
    path: str | Path,
    *,
    api_base: str | Sequence[str] | None = None,
    store: Mapping[str, Any] | None = None,
    runner: Mapping[str, Any] | None = None,
    allow_code: bool = False,
    trust: Sequence[str] = (),
) -> Judge:
    """Load the judge in a folder of `evalkit export --to judge`, or of a finished run.

    Args:
        path: The folder, or the address of a registered judge, such as `models:/NAME@champion`.
        api_base: The address of the judge's server, or of each judge of a panel. It must be
            repeated because it gets your key, unless it is the provider's own.
        store: Settings of the store, such as `{"url": "judge.db"}`.
        runner: Limits, such as `{"budget_usd": 5, "concurrency": 16}`.
        allow_code: Let its config name classes by dotted paths, which are imported and run.
        trust: Hosts that it may call with your key, as `--trust HOST`.

    Raises:
        ConfigError: If the folder has no judge, its files were changed, or it names a server that
            is not repeated.
    """
    check_type("path", path, str | Path, "write load_judge('JUDGE_FOLDER')")
    if str(path).startswith("models:/"):
        # Importing MLflow takes seconds.
        from evalkit.tracking.registry import fetch_judge

        path = fetch_judge(str(path), LOADER)
    folder = read_judge(Path(path))
    addresses = [api_base] if isinstance(api_base, str) else api_base or ()
    # A folder may come from someone else: its addresses get no key unless the caller names them.
    with trusting(trust), from_judge_folder(addresses):
        check(folder.config, origin_of(Path(path)))
    return Judge(
        folder, {"store": store or {}, "runner": runner or {}}, allow_code=allow_code
    )


def _with_settings(
    config: RunConfig, settings: Mapping[str, Mapping[str, Any]]
) -> RunConfig:
    values = config.dump()
    for section in SETTINGS:
        values[section] |= settings.get(section, {})
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise config_error(error, []) from None


def _main_verdict(case: Case, verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on the first unit; of a list, which has scores too, that on
    its first pair.
    """
    first, *_ = verdicts
    if len(case.responses) > 1 and len(first.unit) == 1:
        pairs = (verdict for verdict in verdicts if len(verdict.unit) == 2)
        return next(pairs, first)
    return first


def _cost_of(judgments: Sequence[Judgment]) -> float | None:
    """Return what the answers of judgments cost, `None` if a price is not known."""
    costs = [
        completion.cost_usd
        for judgment in judgments
        for completion in (*judgment.earlier, judgment.completion)
        if completion is not None
    ]
    if any(cost is None for cost in costs):
        return None
    return sum(filter(None, costs))
