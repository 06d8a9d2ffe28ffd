"""The progress of a run: a live line on a terminal, or an occasional line elsewhere."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console

from evalkit.cli.console import is_verbose, log, log_style
from evalkit.cli.hydra_runner import Job
from evalkit.cli.language import ENGLISH, Speaker, speaker
from evalkit.core.display import dollars
from evalkit.core.translation import Message, gettext, joined
from evalkit.engine.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

EVERY = 10.0
REDRAWN = 0.1
TOO_EARLY = 20
RECENT = 30.0
FAST = 100
"""Answers per second of which no fraction is shown."""


class Rate:
    """Received answers per second over the last 30 seconds, without stored ones."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])

    def see(self, progress: Progress) -> None:
        """Record the progress of a run."""
        # Pairs of the time and the number of answers; stored ones come at once and say nothing
        # about the judge.
        self._seen.append((progress.elapsed, max(0, progress.done - progress.stored)))
        # At least two entries stay: a rate needs both ends.
        while len(self._seen) > 2 and self._seen[1][0] < progress.elapsed - RECENT:
            self._seen.popleft()

    def now(self) -> float | None:
        """Return the rate, or `None` if it is not known yet."""
        before, had = self._seen[0]
        after, has = self._seen[-1]
        if has > had and after > before:
            return (has - had) / (after - before)
        return None


def describe(
    progress: Progress, rate: float | None = None, say: Speaker = ENGLISH
) -> str:
    """Return the progress in words; numbers that are 0 or unknown are omitted, except what is
    stored and sent.

    Args:
        progress: The counts so far.
        rate: The answers per second; `None` if it is not known yet.
        say: Translates the words.
    """
    parts: list[Message] = [
        gettext("{n} stored", n=progress.stored),
        gettext("{n} sent", n=progress.sent),
    ]
    if rate is not None:
        per_second = f"{rate:,.0f}" if rate >= FAST else f"{rate:.3g}"
        parts.append(gettext("{rate}/s", rate=per_second))
    for count, text in (
        (progress.retried, gettext("{n} retried")),
        (progress.throttled, gettext("{n} throttled")),
        (progress.failed, gettext("{n} failed")),
    ):
        if count:
            parts.append(text.fill(n=count))
    tokens = progress.prompt_tokens + progress.completion_tokens
    if tokens:
        parts.append(gettext("{n} tokens", n=f"{tokens:,}"))
    if progress.cost_usd is not None:
        parts.append(dollars(progress.cost_usd))
    if progress.budget_left is not None:
        parts.append(gettext("{cost} left", cost=dollars(progress.budget_left)))
    if progress.waiting:
        parts.append(progress.waiting)
    return say(joined(parts))


def seconds_left(progress: Progress, rate: float | None) -> float | None:
    """Estimate how long a run still takes; `None` if it is too early."""
    if (
        not progress.total
        or not progress.sent
        or progress.done >= progress.total
        or rate is None
    ):
        return None
    # The first answers also wait for imports, connections and the loading of models.
    if progress.done * TOO_EARLY < progress.total:
        return None
    return (progress.total - progress.done) / rate


def as_time(seconds: float | None) -> str:
    """Format a duration, or return nothing if it is unknown."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


class ProgressDisplay:
    """Show one job's progress on standard error, unless `--quiet` is set."""

    def __init__(self, job: Job, part: str = "") -> None:
        self._say = speaker(job.config)
        self._title = f"{part}{job.config.mode.name} · {job.config.judge.label}"
        self._console = Console(stderr=True)
        self._live = self._console.is_terminal and not log_style()
        # A job of a sweep has a line of its own when it is finished.
        self._ends_silently = job.sweep is not None and not (
            log_style() or is_verbose()
        )
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._printed = 0.0
        self._waiting = ""
        self._rate = Rate()

    def __enter__(self) -> Self:
        """Show a bar in a terminal; in a log, lines are printed from time to time."""
        if self._live:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[words]}"),
                TextColumn("{task.fields[left]}"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(self._title, total=None, words="", left="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the display."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def update(self, progress: Progress) -> None:
        """Show the progress; its time starts again with each step of a run."""
        # Time ran backwards: another step of the run has begun, and its rate is another one.
        if progress.elapsed < self._printed:
            self._printed = 0.0
            self._rate = Rate()
        finished = progress.total is not None and progress.done >= progress.total
        soon = REDRAWN if self._live else EVERY
        # A new reason to wait is shown at once, or a run would seem to hang.
        if progress.waiting and progress.waiting != self._waiting:
            soon = REDRAWN
        if not finished and progress.elapsed - self._printed < soon:
            return
        self._waiting = progress.waiting
        self._printed = progress.elapsed
        self._rate.see(progress)
        rate = self._rate.now()
        seconds = seconds_left(progress, rate)
        if self._bar and self._task is not None:
            words = describe(progress, rate, self._say)
            self._bar.update(
                self._task,
                completed=progress.done,
                total=progress.total,
                words=words,
                left=as_time(seconds),
            )
        elif not self._live and not (finished and self._ends_silently):
            self._print_line(progress, rate, seconds)

    def _print_line(
        self, progress: Progress, rate: float | None, seconds: float | None
    ) -> None:
        """Log a line of progress, with its facts for JSON logs."""
        words = (
            f"{self._title}: {progress.done}/{progress.total or '?'} "
            f"({describe(progress, rate, self._say)})"
        )
        if seconds is not None:
            left = gettext(", about {time} left", time=as_time(seconds))
            words += self._say(left)
        facts = {**asdict(progress), "rate": rate, "seconds_left": seconds}
        log("progress", words, job=self._title, **facts)
