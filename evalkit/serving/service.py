"""A judge in service: its questions, with limits on time and rate, and what a client
gets if there is no answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalkit.core.admission import Refusal
from evalkit.core.errors import EvalkitError
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case
from evalkit.core.values import Json, JsonObject
from evalkit.scoring.decision import Use
from evalkit.serving.bounds import THREADS, Bounds
from evalkit.serving.judge import Judge, QuestionSize, failure_of, of_unit
from evalkit.serving.rating import NO_SCALE, WANTED, AdaptedJudge
from evalkit.serving.served_tools import served_tools
from evalkit.serving.side_threads import aside
from evalkit.serving.tools import DirectScoreInput, PairwiseCompareInput, Tool
from evalkit.serving.tools.models import ToolModel, ToolTrust
from evalkit.serving.tools.results import compared, scored
from evalkit.serving.tools.settings import direct_settings, pairwise_settings
from evalkit.serving.trust import Trust

T = TypeVar("T")
_LOG: Final = logging.getLogger(__name__)
VARIANTS: Final = 16
"""The number of other criteria and rubrics that stay prepared."""
_FIELDS: Final = {
    "prompt", "context", "response", "response_a", "response_b", "metadata",
}  # fmt: skip
"""The arguments of a tool that are a case, not settings."""
SHORT: Final = 20_000
"""A case of so few characters is read sooner than a thread would begin to read it."""
STOP_SECONDS: Final = 0.8
"""How long calls in flight may take after a stop, unless `--grace` allows more."""
_CLOSE_SECONDS: Final = 0.5
_STATUSES: Final = {
    "budget": 429,
    "too_long": 413,
    "content_filter": 422,
    "bad_request": 422,
}
"""The status of a failed question; clients repeat a 503, which helps only if another try can
succeed."""
NO_JSON: Final = "the body is not valid JSON"
JudgingInput: TypeAlias = PairwiseCompareInput | DirectScoreInput
Answer: TypeAlias = str | list[Any]
MESSAGES: Final = (
    " For a judge of turns or steps, it can be a list of messages with role and content, or"
    " tool_calls; the last turn or step is judged. For a judge with vision, it can be a list of"
    " content parts as OpenAI has them, with pictures as data URLs."
)


class CaseInput(BaseModel):
    """A case in the fields of a data set: a prompt with one response, two, or several."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = Field(
        None, description="A name of the case, which the result repeats."
    )
    prompt: Answer | None = Field(
        None,
        description=(
            "The task that the responses answer, exactly as the responding models received it;"
            " messages can hold it instead."
        ),
    )
    response: Answer | None = Field(
        None, description="The response, for a judge of single responses." + MESSAGES
    )
    response_a: Answer | None = Field(
        None, description="The first response, for a judge of pairs." + MESSAGES
    )
    response_b: Answer | None = Field(
        None, description="The second response, for a judge of pairs." + MESSAGES
    )
    responses: list[Answer] | None = Field(
        None, description="The responses, for a judge of pairs or lists."
    )
    context: str | None = Field(
        None,
        description="Background that the judge needs, such as retrieved documents.",
    )
    reference: str | None = Field(None, description="A reference answer.")
    checklist: list[str | JsonObject] | None = Field(
        None, description="The requirements, for a checklist judge."
    )
    metadata: JsonObject | None = Field(
        None,
        description=(
            "Values of columns of the validation's data, such as a language: the judge may not be"
            " trusted for some of them."
        ),
    )


class OutputInput(BaseModel):
    """An output to judge, as promptfoo sends it to a webhook."""

    output: Any = Field(
        description="The output: a text, or an object that names responses."
    )
    context: JsonObject = Field(
        description=(
            "The prompt as `prompt`, and as `vars` an object that can name context, reference and"
            " response_b."
        )
    )


class Rate:
    """At most so many requests in a minute, which may come at once; `None` for no limit."""

    def __init__(
        self, per_minute: int | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._now = per_minute, now
        self._left = float(per_minute or 0)
        self._at = now()

    def take(self, count: int = 1) -> None:
        """Count one request, or a large one as several.

        Raises:
            Refusal: If there were too many.
        """
        if self._most is None:
            return
        # It would wait forever: the bucket never holds so many.
        if count > self._most:
            raise Refusal(
                422,
                f"the question counts as {count:,}, and the server answers {self._most:,} in a"
                " minute; send fewer responses or items",
            )
        now = self._now()
        # A bucket that fills evenly and holds one minute's requests.
        self._left = min(
            float(self._most), self._left + (now - self._at) * self._most / 60
        )
        self._at = now
        if self._left < count:
            seconds = int((count - self._left) * 60 / self._most) + 1
            wait = {"Retry-After": str(seconds)}
            raise Refusal(
                429,
                f"more than {self._most} requests in a minute; try again later",
                wait,
            )
        self._left -= count


class Service:
    """A judge that clients ask.

    Args:
        judge: The judge.
        strict: Whether to refuse criteria, rubrics and orders other than the validated ones.
        seconds: The most seconds until a client gets an answer.
        rate: The most questions in a minute.
        require: What the judge must be good for; cases in slices in which it is not, or may not be,
            are refused.
        bounds: The largest question.
        grace: How many seconds calls in flight may take after a stop.

    Attributes:
        grace: How many seconds calls in flight may take after a stop.
        tools: The tools for verdicts of this judge's kind, by name.
        counts: How often something happened, or for how many seconds, by its name and labels.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        strict: bool = False,
        seconds: float = 300.0,
        rate: int | None = None,
        require: Use | None = None,
        bounds: Bounds | None = None,
        grace: float = STOP_SECONDS,
    ) -> None:
        """Hold the judge and its limits; nothing is asked yet."""
        self._judge = judge
        self._require = require
        self._strict = strict
        self._seconds = seconds
        self._rate = Rate(rate)
        self._bounds = bounds or Bounds()
        self.grace = grace
        self._threads = asyncio.Semaphore(THREADS)
        self.tools = served_tools(judge.config)
        self.counts: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.stopping = False
        self._hurry = asyncio.Event()
        self._variants: OrderedDict[str, Judge] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def active(self) -> int:
        """The number of questions in progress, also of clients that no longer wait."""
        return len(self._tasks)

    def trust(self) -> Json:
        """Return what is known about the judge, as in its `trust.json`."""
        content: Json = self._judge.validation.content
        return content

    async def judge(self, fields: CaseInput) -> JsonObject:
        """Return the verdict on a case.

        Raises:
            Refusal: If it is not a case for this judge, or there is no answer.
        """
        self._bounds.check_responses(fields.responses)
        self._bounds.check_items("checklist items", fields.checklist)
        self._bounds.check_items("columns of metadata", fields.metadata)
        # Bounds are checked before the case is read, which may decode pictures.
        values = fields.model_dump(exclude_none=True)
        case, size = await self._read(self._judge, values)
        (verdict,) = await self._answer_in_time(case, size, self._judge.verdicts)
        self._count(verdict.status, verdict.trust)
        _raise_if_failed(verdict.error, verdict.error_kind)
        return verdict.json()

    async def assess(
        self, question: OutputInput, threshold: float, passing: Sequence[str]
    ) -> JsonObject:
        """Return whether an output passes, its score from 0 to 1 and the reason.

        Args:
            question: The output of a task, with the variables of its prompt.
            threshold: The lowest score that passes.
            passing: The classes that pass.

        Raises:
            Refusal: As `judge`; with status 422 if the question cannot be scored, and 503 if the
                judge gave no verdict.
        """
        variables = question.context.get("vars") or {}
        expected = {name: variables[name] for name in WANTED if name in variables}
        try:
            adapted = AdaptedJudge(self._judge, passing)
            inputs = {**variables, "prompt": question.context.get("prompt")}
            case = CaseInput.model_validate(
                adapted.fields(inputs, question.output, expected or None, variables)
            )
        except EvalkitError as error:
            raise Refusal(422, str(error)) from None
        except ValidationError as error:
            raise Refusal(422, problem(error.errors())) from None
        verdict = await self.judge(case)
        share = adapted.share(
            verdict["winner"], verdict["score"], verdict["class_name"]
        )
        if share is None and verdict["score"] is not None:
            raise Refusal(422, NO_SCALE)
        if share is None:
            if verdict["class_name"] is None:
                reason = verdict["reason"]
            else:
                reason = "name the classes that pass: ?passing=NAME"
            raise Refusal(
                503 if verdict["class_name"] is None else 422, f"no score: {reason}"
            )
        return {
            "pass": share >= threshold,
            "score": share,
            "reason": verdict["explanation"] or verdict["reason"],
        }

    async def use(self, tool: Tool, arguments: JudgingInput) -> ToolModel:
        """Return the result of a tool.

        Raises:
            Refusal: If the judge cannot honor the arguments, or there is no answer.
        """
        self._bounds.check_criteria(arguments.criteria, self._judge.config.criteria)
        self._bounds.check_items("columns of metadata", arguments.metadata)
        rubric = getattr(arguments, "rubric", None)
        if rubric is not None:
            self._bounds.check_items("examples", rubric.examples)
        judge = await self._variant_for(arguments)
        started = time.perf_counter()
        fields = arguments.model_dump(include=_FIELDS, exclude_none=True)
        case, size = await self._read(judge, fields)
        # Metadata only says in which slice the case is.
        bare = replace(case, metadata=of_unit(case))
        judgments, verdicts = await self._answer_in_time(bare, size, judge.judged)
        make: Any = (
            compared if issubclass(tool.arguments, PairwiseCompareInput) else scored
        )
        elapsed = (time.perf_counter() - started) * 1000
        result = await self._aside(
            make, judge.config, bare, judgments, verdicts[0], elapsed
        )
        trust = judge.trust_in(case, judgments)
        self._count("ok" if result.success else "missing", trust)
        if not result.success:
            _raise_if_failed(*failure_of(judgments))
        with_trust: ToolModel = result.model_copy(
            update={"trust": ToolTrust.model_validate(trust, from_attributes=True)}
        )
        return with_trust

    async def _read(
        self, judge: Judge, fields: JsonObject
    ) -> tuple[Case, QuestionSize]:
        """Return the case in the fields of a question, and how large the question is.

        Raises:
            Refusal: If it is not a case for this judge, or in a slice that `require` excludes.
        """

        def read() -> tuple[Case, QuestionSize]:
            case = judge.case(fields)
            self._check_slices(case)
            return case, judge.size_of(case)

        try:
            # Other settings may have many criteria, and so long prompts for short texts.
            if judge is self._judge and _is_short(fields):
                return read()
            return await self._aside(read)
        except EvalkitError as error:
            raise Refusal(422, str(error)) from None

    async def _aside(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return what a function returns; it runs outside the event loop, and only some
        at a time.
        """
        async with self._threads:
            return await aside(work, *arguments)

    def _check_slices(self, case: Case) -> None:
        """Refuse a case for which the judge is not shown to be good enough."""
        if self._require is None:
            return
        slices = self._judge.validation.slices
        for kind, text in slices.warnings(case, self._require):
            english, _ = in_every_language(text)
            raise Refusal(422, f"--require {self._require}: {kind}: {english}")

    async def stop(self) -> None:
        """Let calls in flight finish, for some seconds at most, and close the judge;
        nothing more is sent.

        Each answer that has arrived is stored. Calls that are open after `grace` are counted in the
        log.
        """
        self.stopping = True
        judges = [self._judge, *self._variants.values()]
        for judge in judges:
            # Nothing new is sent, but calls in flight are paid for: their answers are waited for
            # and stored.
            judge.stop("the server is stopping")
        if self._tasks:
            calls = asyncio.ensure_future(asyncio.wait(self._tasks, timeout=self.grace))
            hurry = asyncio.ensure_future(self._hurry.wait())
            # A second signal sets `hurry`.
            await asyncio.wait([calls, hurry], return_when=asyncio.FIRST_COMPLETED)
            calls.cancel()
            hurry.cancel()
        unanswered = sum(judge.unanswered for judge in judges)
        if unanswered:
            _LOG.warning(
                "%s calls were sent and are unanswered after %g s; the provider may bill them",
                unanswered,
                self.grace,
            )
        # Answers that have arrived are paid for: the store gets the time that it needs.
        await asyncio.gather(*(judge.written() for judge in judges))
        closing = [self._start(judge.close()) for judge in judges]
        await asyncio.wait(closing, timeout=_CLOSE_SECONDS)

    def hurry(self) -> None:
        """Let a stop wait no longer for calls in flight, only for the store."""
        self._hurry.set()

    async def _variant_for(self, arguments: JudgingInput) -> Judge:
        """Return the judge with the settings of a request; the most recent ones stay open.

        Raises:
            Refusal: if the settings are invalid, or forbidden by `--strict`.
        """
        key = repr(arguments.model_dump(exclude=_FIELDS, exclude_unset=True))
        # Popped and put back at the end: the order of the dictionary is that of the last use.
        judge = self._variants.pop(key, None)
        if judge is None:
            try:
                config = await self._aside(_config_of_request, self._judge, arguments)
                judge = self._judge.with_config(config)
            except EvalkitError as error:
                raise Refusal(422, str(error)) from None
            # Another client may have prepared the same meanwhile.
            judge = self._variants.pop(key, judge)
        self._variants[key] = judge
        if self._strict and judge.changed:
            raise Refusal(
                422,
                f"--strict: the validation had other settings of {', '.join(judge.changed)}",
            )
        if len(self._variants) > VARIANTS:
            _, oldest = self._variants.popitem(last=False)
            # A variant without changes is the validated judge itself, which must stay open.
            if oldest is not self._judge:
                self._start(oldest.close())
        return judge

    async def _answer_in_time(
        self,
        case: Case,
        size: QuestionSize,
        question: Callable[[Sequence[Case]], Coroutine[Any, Any, T]],
    ) -> T:
        """Return an answer in time; a question that is asked is answered and stored, even if
        nobody waits for it.

        Args:
            case: The case.
            size: How large the question is.
            question: Asks the judge about a list of cases.

        Raises:
            Refusal: With status 503 if the server stops, the time is over or the judge fails; or
                if a limit is reached.
        """
        if self.stopping:
            raise Refusal(503, "the server is stopping")
        if size.questions > 1:  # whatever the validated judge needs for one is fine
            self._bounds.check_calls(size.calls)
        # Counted only now: a question that is refused for its size costs nothing.
        self._rate.take(size.questions)
        # A task of its own: a client that gives up does not cancel a call that is already paid
        # for.
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._start(_answer(answer, question([case])))
        try:
            async with asyncio.timeout(self._seconds) as deadline:
                return await answer
        except TimeoutError:
            if not deadline.expired():
                raise
            raise Refusal(
                503,
                f"no answer within {self._seconds:g} s; it will be stored, so repeat the request"
                " later",
            ) from None
        except EvalkitError as error:
            raise Refusal(503, str(error)) from None

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        # asyncio keeps only a weak reference to a task: one that nobody holds may be collected.
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved, so that asyncio does not warn

    def _count(self, status: str, trust: Trust) -> None:
        self.counts["verdicts_total", f'status="{status}"'] += 1
        for warning in trust.warnings:
            self.counts["trust_warnings_total", f'kind="{warning.kind}"'] += 1

    def metrics(self) -> str:
        """Return the counts in Prometheus' text format."""
        spent = self._judge.spent
        rows = {
            **self.counts,
            ("calls_total", ""): spent.calls,
            ("cost_usd_total", ""): spent.usd,
            ("questions_in_progress", ""): self.active,
        }
        lines: list[str] = []
        for (name, labels), value in sorted(rows.items()):
            kind = f"# TYPE evalkit_{name} {'counter' if name.endswith('_total') else 'gauge'}"
            lines += [] if kind in lines else [kind]
            lines.append(f"evalkit_{name}{labels and f'{{{labels}}}'} {value}")
        return "\n".join([*lines, ""])


async def _answer(answer: asyncio.Future[T], question: Coroutine[Any, Any, T]) -> None:
    """Give a question's answer, or its error, to a future that may be canceled.

    Whoever waits for it continues in the next step of the event loop; after the end of a task it
    is the step after that.
    """
    try:
        result = await question
    except Exception as error:
        if not answer.done():
            answer.set_exception(error)
    except BaseException:
        answer.cancel()
        raise
    else:
        if not answer.done():
            answer.set_result(result)


def _config_of_request(judge: Judge, arguments: Any) -> Any:
    """Return the judge's config with a tool's arguments; criteria that are the
    validated ones keep what is known.

    Raises:
        ConfigError: If the arguments contradict the judge.
    """
    config = judge.config
    judged_criteria = judge.config.criteria
    if isinstance(arguments, PairwiseCompareInput):
        settings = pairwise_settings(arguments, config, ())
        update: dict[str, Any] = {"swap": settings.swap, "tie": settings.tie}
    else:
        settings = direct_settings(arguments, config, ())
        update = {"rubric": settings.rubric}
    criteria = dict(settings.criteria)
    for criterion in arguments.criteria:
        if isinstance(criterion, str):
            name = criterion
            values = {}
        else:
            name = criterion.name
            values = criterion.model_dump(exclude_unset=True)
        # A client may repeat a criterion by its name only; that is the validated criterion, not
        # another one.
        unchanged = (
            value in ("", getattr(judged_criteria.get(name), key, ""))
            for key, value in values.items()
            if key != "name"
        )
        if name in judged_criteria and all(unchanged):
            criteria[name] = judged_criteria[name]
    # The same object if they are equal, so that nothing counts as changed.
    is_same = criteria == judged_criteria
    update["criteria"] = judged_criteria if is_same else criteria
    return config.model_copy(update=update)


def _is_short(fields: JsonObject) -> bool:
    """Return whether a case is a few short texts, and values of metadata."""
    values = [*fields.values()]
    metadata = fields.get("metadata")
    if metadata is not None:
        values.remove(metadata)
        values += metadata.values()
    texts = [value for value in values if isinstance(value, str)]
    plain = (str, int, float, bool, type(None))
    if not all(isinstance(value, plain) for value in values):
        return False
    return sum(map(len, texts)) <= SHORT


def problem(errors: Sequence[Any]) -> str:
    """Return the first problem that pydantic found in a request, in one line."""
    if errors[0]["type"] == "json_invalid":
        return NO_JSON
    where = ".".join(str(part) for part in errors[0]["loc"] if part != "body")
    if where:
        return f"{where[:100]}: {errors[0]['msg']}"
    return str(errors[0]["msg"])


def _raise_if_failed(error: str | None, kind: str | None) -> None:
    """Refuse a question that no judge answered; an answer without a usable verdict is an answer."""
    if kind is not None:
        raise Refusal(_STATUSES.get(kind, 503), f"{kind}: {error}")
