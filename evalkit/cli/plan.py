"""`evalkit plan`: what a run or sweep would request and which answers are stored, or
how many labels a run needs.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import field, replace
from functools import partial, reduce
from pathlib import Path
from signal import SIGINT
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.markup import escape

from evalkit.cli.audit import AUDIT, audit_words
from evalkit.cli.console import log, plain_console, text_table
from evalkit.cli.finished_run import apply_settings
from evalkit.cli.hydra_runner import study_jobs
from evalkit.cli.parser import UsageError, study_words
from evalkit.config import JudgeConfig, RunConfig, TrackingConfig
from evalkit.core.display import counted, dollars, interval
from evalkit.core.errors import ConfigError, ExitStatus, Signaled
from evalkit.core.protocols import Evaluator, Store
from evalkit.core.spool import HashSet
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Completion, JudgeSpec
from evalkit.core.values import frozen
from evalkit.engine.estimates import (
    Length,
    Origin,
    Part,
    estimate_length,
    minutes,
    sent_after,
    total,
)
from evalkit.engine.event_loop import run_async
from evalkit.engine.plan import PilotSample, Plan, SubsetEvaluator
from evalkit.engine.plan import plan as plan_requests
from evalkit.engine.progress import JudgingResult, Spend, add
from evalkit.engine.run_design import Questions
from evalkit.judges import spec_of
from evalkit.judges.litellm_transport import check_provider
from evalkit.report.findings.decisions import label_count, sentence
from evalkit.scoring.decision import Metrics, kind_of, known
from evalkit.scoring.labels import labels_for_width
from evalkit.scoring.slices import check_slices
from evalkit.scoring.stats.clusters import Clusters, check_column
from evalkit.scoring.stats.sequences import clusters_needed, width_of
from evalkit.scoring.verdicts.cascade import check_labels
from evalkit.store import backend_of, open_url, store_url
from evalkit.tracking import find_run
from evalkit.workflows.asking import ask_judges
from evalkit.workflows.design_registry import design_of
from evalkit.workflows.gating import (
    GATE,
    apply_gate,
    check_gate,
    check_leads,
    check_rules,
)
from evalkit.workflows.materials import build_evaluator, stream_cases
from evalkit.workflows.stopping import first_clusters, span_of_stop, with_stop


@frozen
class PlannedJob:
    """A job with its overrides, config and evaluator. Each iteration reads its cases again.

    `questions` are the cases that are asked about because of one of the data. `cases` are planned
    instead of those of the data.
    """

    name: Sequence[str]
    config: RunConfig
    evaluator: Evaluator
    questions: Questions = field(default_factory=Questions)
    cases: Sequence[Case] | None = None

    @staticmethod
    def of(
        name: Sequence[str],
        config: RunConfig,
        templates: Mapping[str, str] | None = None,
    ) -> PlannedJob:
        """Return a job whose prompts were rendered once as a check, by templates that
        may not be the installed ones.

        Raises:
            ConfigError: if a template or a plug-in cannot be used.
        """
        evaluator = build_evaluator(config, templates)
        questions = design_of(config).questions()
        return PlannedJob(name, config, questions.evaluator(evaluator), questions)

    def __iter__(self) -> Iterator[Case]:
        """Yield the cases that are asked about.

        Raises:
            ConfigError: if the dataset cannot be used.
        """
        for case in stream_cases(self.config) if self.cases is None else self.cases:
            yield from self.questions.expand(case)

    def parts(self) -> Iterator[PlannedJob]:
        """Yield the parts that are listed separately: of an audit, what each probe adds."""
        for label, questions in self.questions.parts():
            name = [*self.name, *([label] if label else ())]
            yield replace(self, name=name, questions=questions)


def planned_jobs(arguments: Namespace) -> list[PlannedJob]:
    """Return the jobs of a command with a study, overrides and `-m`, after checking their gates.

    Raises:
        ConfigError: if a config or a gate is invalid.
    """
    words = study_words(arguments)
    if words[:1] == [WATCH]:
        from evalkit.cli.watch import Watched  # imports what serves judges

        watched = Watched.of(words[1:], getattr(arguments, "api_base", None) or None)
        if (folder := getattr(arguments, "output", None)) is not None:
            watched = replace(watched, folder=folder)
        jobs = [PlannedJob.of((), watched.planned(), watched.templates)]
    else:
        loaded = study_jobs(
            audit_words(words[1:]) if words[:1] == [AUDIT] else words,
            arguments.multirun,
        )
        jobs = [PlannedJob.of(name, config) for name, config in loaded]
    for job in jobs:
        # The checks that a run makes, so that what a plan accepts can be run.
        for judge in filter(
            None, (job.config.judge, job.config.swap.arbiter, job.config.probe.rewriter)
        ):
            check_provider(judge)
        check_column(job.config.scoring.cluster, job)
        check_slices(job.config.scoring.slices, job)
        check_labels(job.config, job)
        if job.config.runner.stop is not None:
            with_stop(job.config, [*job])
        check_gate(job.config, job)
    return jobs


ALIGN = "align"
"""The word after `evalkit plan` that plans an alignment."""
FLAG = "--pilot"
SUGGESTED = 20


@frozen
class PilotResult:
    """The result of a pilot for one judge of a job: the number of sampled requests, and
    their judgments.
    """

    sampled: int
    judged: JudgingResult


def check_stores(jobs: Sequence[PlannedJob]) -> None:
    """Refuse a pilot whose answers the run could not reuse.

    Raises:
        ConfigError: if a job's store does not both write and read answers.
    """
    for job in jobs:
        if (mode := job.config.store.mode) != "read_write":
            problem = (
                f"with '{mode}', the run would pay again for the requests of the pilot"
            )
            remedy = f"set store.mode=read_write, or omit {FLAG}"
            raise ConfigError(problem, where="store.mode", remedy=remedy)


def pilot(job: PlannedJob, count: int) -> Iterator[PilotResult]:
    """Send `count` requests of the run to each judge of a job, and yield a result for each judge.

    Raises:
        ConfigError: if the config is invalid.
        JudgeSetupError: if a judge cannot be called.
        StoreError: if answers cannot be stored.
        Signaled: if the user stops it (a `KeyboardInterrupt`); received answers are stored.
    """
    from evalkit.cli.run import failure_lines  # imports everything that a run needs

    for judge, spec in zip(
        job.config.judge.members, spec_of(job.config.judge), strict=True
    ):
        sample = _sample_requests(job, spec, count)
        log(
            "note",
            f"pilot: {counted(len(sample.calls), 'request')} to {spec.name}, unless stored",
        )
        judged = _ask_sampled(job, judge, sample)
        for line in failure_lines(judged.judgments):
            log("failure", line)
        yield PilotResult(len(sample.calls), judged)


def _sample_requests(job: PlannedJob, spec: JudgeSpec, count: int) -> PilotSample:
    """Return `count` random requests of a job to one judge; all of them if there are fewer."""
    sample = PilotSample(count)
    # The plan fills the sample. Without a store, stored requests are sampled like all others.
    plan_requests(job, job.evaluator, [spec], store=None, sample=sample)
    return sample


def _ask_sampled(
    job: PlannedJob, judge: JudgeConfig, sample: PilotSample
) -> JudgingResult:
    """Send the sampled requests to a judge, and return the judgments.

    Raises:
        Signaled: if the user stops it (a `KeyboardInterrupt`).
    """
    # Only this judge, without third judgments: follow-ups cannot be sampled in advance.
    # Answers are wanted now, so never as a batch.
    config = job.config.with_(
        {
            "judge": judge,
            "swap.resolve": "tie",
            "swap.arbiter": None,
            "runner.kind": "online",
        }
    )
    evaluator = SubsetEvaluator(job.evaluator, sample)
    judged = run_async(ask_judges(config, sample.cases, evaluator))
    if judged.interrupted:
        raise Signaled(
            judged.signal or SIGINT, "interrupted; received answers are stored"
        )
    return judged


def describe_pilot(pilots: Sequence[PilotResult]) -> str:
    """Return one line on what pilots cost."""
    sampled = sum(pilot.sampled for pilot in pilots)
    spend = reduce(add, (pilot.judged.spend for pilot in pilots), Spend())
    sent = spend.calls.sent
    failed = spend.calls.failed
    price = _price(spend.cost_usd)
    stored = "; stored for the run" if sent > failed else ""
    return (
        f"pilot: {counted(sampled, 'random request')}, {counted(sent, 'call')}"
        f" sent{f', {failed:,} failed' if failed else ''}, {spend.prompt_tokens:,} prompt and"
        f" {spend.completion_tokens:,} answer tokens, {price}{stored}"
    )


WATCH = "watch"
"""The word after `evalkit plan` that plans a look of a watch."""
WIDE = 200  # files and pipes have no width that limits a table


@frozen
class JobPlan:
    """A job with its overrides, and the requests of each judge: all, and without those
    of earlier jobs.
    """

    name: Sequence[str]
    config: RunConfig
    parts: Sequence[Part]
    fresh: Sequence[Part]


def main(arguments: Namespace) -> int:
    """Print each job's requests, stored answers, and tokens to pay for; nothing is called or
    written. Return the exit status.

    With `--pilot N`, N requests of each judge are sent and stored, and the estimates rest on
    their answers; the status is an error if all of them fail. With `--labels RUN`, only the
    labels that a finished run needs are planned.

    Raises:
        UsageError: If options do not fit together.
    """
    if arguments.labels is not None:
        return plan_labels(arguments)
    words = study_words(arguments)
    for flag in ("output", "api-base"):
        if getattr(arguments, flag.replace("-", "_")) and words[:1] != [WATCH]:
            raise UsageError("plan", f"--{flag} needs watch")
    if words[:1] == [WATCH]:  # each look has its own answers
        for flag in ("multirun", "pilot"):
            if getattr(arguments, flag):
                raise UsageError("plan", f"watch cannot be used with --{flag}")
    if words[:1] == [ALIGN]:
        from evalkit.cli.align import plan as plan_alignment

        return plan_alignment(words[1:])
    jobs = planned_jobs(arguments)
    pilots = []
    if arguments.pilot:
        check_stores(jobs)
        pilots = [result for job in jobs for result in pilot(job, arguments.pilot)]
    noted: set[str] = set()
    planned: list[JobPlan] = []
    for job in (part for whole in jobs for part in whole.parts()):
        # Within a job, judges may share requests, and across jobs, too; each is counted once.
        parts = sent_after(plan_job(job, noted))
        # a request that an earlier job sends is not sent again
        earlier = [
            part for plan in planned if _shares(plan, job) for part in plan.parts
        ]
        planned.append(JobPlan(job.name, job.config, parts, sent_after(parts, earlier)))
    print_plans(planned)
    first: list[Part] = []
    for name, whole in zip(_differing([job.name for job in jobs]), jobs, strict=True):
        # `first` grows job by job, so that a request of several jobs is priced once.
        first += print_stop(whole, f"{name}: " if name else "", first, noted)
    if pilots:
        print(describe_pilot(pilots))
    # All failed: the run would fail, too, so a script must not go on to it.
    hopeless = any(
        pilot_result.sampled
        and pilot_result.judged.calls.failed == pilot_result.judged.calls.planned
        for pilot_result in pilots
    )
    return int(ExitStatus.TOO_MANY_FAILURES if hopeless else ExitStatus.DONE)


def _shares(earlier: JobPlan, job: PlannedJob) -> bool:
    """Return whether a job finds the answers of an earlier one in its store."""
    first = earlier.config.store
    second = job.config.store
    # The earlier job must write its answers, and this one must read them.
    if first.mode in ("off", "read_only") or second.mode == "off":
        return False
    return store_url(first.url) == store_url(second.url)


def plan_job(job: PlannedJob, noted: set[str]) -> list[Part]:
    """Return the requests of each judge of a job, those of an earlier step first.

    Args:
        job: The job.
        noted: The notes on benchmarks that were logged; that of this job is added.
    """
    config = job.config
    benchmark = stream_cases(job.config).benchmark
    url = store_url(config.store.url)
    mode = config.store.mode
    # A plan writes nothing, and opening a missing SQLite store would create a file.
    reads = mode == "read_only" or (
        mode in ("read_write", "retry") and backend_of(url).exists(url)
    )
    parts = []
    with (
        closing(open_url(url, read_only=mode == "read_only"))
        if reads
        else nullcontext() as store
    ):
        if (step := job.questions.earlier_step()) is not None:
            # Texts come from a model. Those that are not stored yet are replaced by others of the
            # same length, so that lengths are right.
            questions = job.questions.expecting(stream_cases(config), store)
            job = replace(job, questions=questions)
            # Its answers are estimated to be as long as the responses.
            judge = step.config.judge
            planned = _requests(
                config, stream_cases(config), step.evaluator, spec_of(judge), store
            )
            parts.append(_part(config, judge, planned, list, step.setting))
        for judge, spec in zip(
            config.judge.members, spec_of(config.judge), strict=True
        ):
            planned = _requests(config, job, job.evaluator, [spec], store)
            parts.append(
                _part(
                    config,
                    judge,
                    planned,
                    list if store is None else partial(store.recent, spec.model),
                )
            )
    if benchmark is not None and benchmark.note not in noted:
        noted.add(benchmark.note)
        log("note", benchmark.note)
    later = ", ".join(judge.label for judge in config.judge.in_turn[1:])
    if later:
        log(
            "note",
            f"requests to {later} are at most these: for the cases that are not decided before",
        )
    return parts


def _requests(
    config: RunConfig,
    cases: Iterable[Case],
    evaluator: Evaluator,
    specs: Sequence[JudgeSpec],
    store: Store | None,
) -> Plan:
    """Return the requests of a job's judges, as `store.mode` lets them be sent."""
    mode = config.store.mode
    planned = plan_requests(cases, evaluator, specs, store, again=mode == "retry")
    if mode == "read_only":
        return replace(planned, to_send=HashSet()).after(())
    return planned


def _part(
    config: RunConfig,
    judge: JudgeConfig,
    planned: Plan,
    recent: Callable[[], Sequence[Completion]],
    key: str = "judge",
) -> Part:
    length = estimate_length(planned, recent, judge.max_tokens)
    return Part(judge, planned, length, config.runner.kind == "batch", key)


def print_plans(jobs: Sequence[JobPlan]) -> None:
    """Print the table of planned jobs.

    In its total, a request that several jobs share counts once.
    """
    # One time for each job, in the order of `jobs`; `total` is unknown if one of them is.
    times = [minutes(job.fresh, job.config.runner) for job in jobs]
    several = len(jobs) > 1
    timed = any(times)

    def cells(
        jobs: Sequence[JobPlan], sent: Sequence[Part], time: float | None
    ) -> list[str]:
        """Return the cells of some jobs, of which the parts in `sent` are paid for."""
        plans = [part.plan for job in jobs for part in job.parts]
        counts = [
            sum(plan.requests for plan in plans),
            sum(plan.stored for plan in plans),
            _unique(sent),
        ]
        if several:
            # Requests that earlier jobs send.
            counts.append(sum(_unique(job.parts) - _unique(job.fresh) for job in jobs))
        counts.append(sum(part.plan.prompt_tokens for part in sent))
        counts.append(round(sum(part.answer_tokens for part in sent)))
        values = [f"{count:,}" for count in counts]
        if timed:
            values.append("unknown" if time is None else f"{time:.1f}")
        cost = total(part.cost for part in sent)
        values.append(_price(cost) if cost is None else f"${cost:.4f}")
        return values

    shared = ("shared",) if several else ()
    takes = ("minutes, about",) if timed else ()
    abouts = ("prompt tokens, about", "answer tokens, about", *takes, "cost, about")
    # The columns here and the cells above are in the same order, and have the same optional ones.
    table = text_table(("job",), ("requests", "stored", "to send", *shared, *abouts))
    for name, job in zip(_differing([job.name for job in jobs]), jobs, strict=True):
        table.add_row(
            escape(name) or "the run",
            *cells([job], job.parts, minutes(job.parts, job.config.runner)),
        )
    fresh = [part for job in jobs for part in job.fresh]
    if several:
        table.add_row(
            "all, shared requests once", *cells(jobs, fresh, total(times)), style="bold"
        )
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    console.print(table)
    for line in (*_length_lines(fresh), *_unpriced(fresh)):
        console.print(line)


def _differing(names: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of jobs without the overrides that all of them have."""
    same = set.intersection(*map(set, names)) if len(names) > 1 else set()
    return [" ".join(word for word in name if word not in same) for name in names]


def print_stop(
    job: PlannedJob, name: str, before: Sequence[Part], noted: set[str]
) -> Sequence[Part]:
    """Print how many clusters a job that stops takes, what they cost, and whether the
    data have so many.

    Args:
        job: the job.
        name: the beginning of the line, if there are several jobs.
        before: the requests of earlier jobs that stop.
        noted: the notes that were logged.

    Returns:
        the requests of its first clusters.
    """
    if (stop := job.config.runner.stop) is None:
        return ()
    cases = [*job]
    confidence = job.config.scoring.confidence
    clusters = Clusters.of(job.config, cases).count
    span = span_of_stop(job.config, cases)
    # A width is relative to the distance of the metric's lowest and highest value.
    needed = clusters_needed(stop.width / span, confidence)
    opening = f"{name}runner.stop: {stop.metric} to a width of {stop.width:g}"
    # With a share of 0, the metric is at an end of its range: the fewest clusters with which a
    # run can stop.
    few = clusters_needed(stop.width / span, confidence, 0.0)
    opening += (
        f" takes about {needed:,} clusters if it is near the middle of its range, and {few:,} or"
        " more at an end"
    )
    if needed < clusters:
        first = replace(job, cases=first_clusters(job.config, cases, needed))
        # a request that an earlier job sends is paid for once
        parts = sent_after(plan_job(first, noted), before)
        price = _price(total(part.cost for part in parts))
        print(
            f"{opening}; of {clusters:,} here: about {_unique(parts):,} requests to send, {price}"
        )
        return parts
    width = span * width_of(clusters, confidence)
    print(
        f"{opening}; the {clusters:,} here may be too few: near the middle, its width would be"
        f" {width:.2g}"
    )
    return ()


def _unique(parts: Sequence[Part]) -> int:
    return sum(part.plan.unique for part in parts)


def _price(cost: float | None) -> str:
    if cost is None:
        return "price unknown"
    return dollars(cost)


ORIGINS: Final[Mapping[Origin, str]] = {
    "own": "from {} stored for the same prompts",
    "alike": "from {} stored of the same judge and format",
    "assumed": "assumed",
}
"""The words for the origins of an estimated length, with a number of answers."""


def _length_lines(parts: Sequence[Part]) -> Iterator[str]:
    """Yield a line on the basis of the estimated lengths, with a part for each origin."""
    bases = []
    for origin, words in ORIGINS.items():
        lengths = [
            part.length
            for part in parts
            if part.plan.unique and part.length.origin == origin
        ]
        if lengths:
            low, high = (
                f"{round(end(length.tokens for length in lengths)):,}"
                for end in (min, max)
            )
            count = f"{max(length.answers for length in lengths):,}"
            bases.append(
                f"{low if low == high else f'{low} to {high}'} tokens"
                f" {words.format(count)}{_around(lengths)}"
            )
    if bases:
        yield (
            f"length of answers: {'; '.join(bases)}. Repeated requests and third judgments are"
            " additional"
        )
    if any(part.plan.unique and part.length.origin == "assumed" for part in parts):
        yield f"{FLAG} {SUGGESTED} measures it for the price of {SUGGESTED} requests per judge"


def _around(lengths: Sequence[Length]) -> str:
    """Return the half-width of the 95% interval: in tokens, or as a share if there are
    several; empty if unknown.
    """
    if any(length.within is None for length in lengths):
        return ""
    if len(lengths) == 1:
        return f" (± {lengths[0].within:.0f})"
    worst = max(
        (length.within or 0.0) / length.tokens if length.tokens else 0.0
        for length in lengths
    )
    return f" (± {worst:.0%} at most)"


def _unpriced(parts: Sequence[Part]) -> Iterator[str]:
    if names := sorted({part.judge.label for part in parts if part.cost is None}):
        key = next(part.key for part in parts if part.cost is None)
        example = f"'{key}.price={{input: 0.15, output: 0.6}}'"
        of = "batch price" if any(part.batch for part in parts) else "price"
        yield (
            f"{of} unknown: {', '.join(names)}; set it in $ per million tokens, for example"
            f" {example}"
        )


def plan_labels(arguments: Namespace) -> int:
    """Print how many more labels a finished run needs; nothing is called or written.

    Raises:
        ConfigError: if there is no such run, or a setting is not of its gate.
        TrackingError: if it must be fetched and the store cannot be reached.
    """
    for flag in ("multirun", "pilot"):
        if getattr(arguments, flag):
            raise UsageError("plan", f"--labels cannot be used with --{flag}")
    # Inside the block, since the files of a fetched run are removed at its end.
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        result = find_run(
            arguments.labels, TrackingConfig(), folder=Path.cwd(), scratch=Path(scratch)
        )
        config = apply_settings(result, study_words(arguments), (GATE,))
        check_rules(config, result)
        check_leads(config, result.cases)
        gate = apply_gate(config, replace(result, config=config))[0].manifest.get(GATE)
    console = plain_console()
    console.print(in_every_language(sentence(result.decision, result.metrics))[0])
    _print_widths(result.metrics, arguments.width, config.scoring.confidence)
    for rule in (gate or {}).get("rules", ()):
        labels_needed = rule["labels_needed"]
        if labels_needed:
            hint = f", {_labels(labels_needed)} more labels would probably decide"
        else:
            hint = ""
        console.print(f"gate: {rule['metric']} {rule['rule']}: {rule['state']}{hint}")
    return ExitStatus.DONE


def _print_widths(metrics: Metrics, width: float, confidence: float) -> None:
    """Print how many more labels each share and agreement needs for an interval of a width."""
    kind = kind_of(metrics)
    table = text_table(
        ("metric", "now"), ("labels", f"more labels for a width of {width:g}")
    )
    for name in (kind.share, *kind.agreement):
        if name is not None and (metric := known(metrics, name)) is not None:
            labels_needed = labels_for_width(metric, width, confidence)
            table.add_row(
                name,
                interval(metric),
                f"{metric.n:,}",
                "–" if labels_needed is None else _labels(labels_needed),
            )
    if table.row_count:
        plain_console().print(table)


def _labels(count: int) -> str:
    if count:
        return in_every_language(label_count(count))[0]
    return "0"
