"""The checks of a judge, of a benchmark and of a probe."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from evalkit.audit.plan import edited as edited_case
from evalkit.audit.probes import find_probe
from evalkit.config import (
    Criterion,
    DatasetConfig,
    JudgeConfig,
    ModeConfig,
    RunConfig,
    RunnerConfig,
    SwapConfig,
)
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.errors import (
    CallError,
    DatasetError,
    EvalkitError,
    JudgeSetupError,
    PluginError,
)
from evalkit.core.protocols import Benchmark, Judge
from evalkit.core.types import Case, JudgeRequest, Judgment
from evalkit.datasets import load_cases
from evalkit.datasets.named_benchmarks import (
    recognize_benchmark,
    recognize_benchmark_row,
)
from evalkit.judges import make_judges
from evalkit.judges.completions import sane
from evalkit.scoring.catalog import Catalog
from evalkit.scoring.pipeline import score_run
from evalkit.testing.evaluators import CASES

_REQUEST = JudgeRequest(
    "pair",
    (0, 1),
    (0, 1),
    ({"role": "user", "content": "Which is better, A or B? A: yes B: no"},),
)
_CONCURRENT = 4


def check_judge(config: JudgeConfig) -> None:
    """Check that a judge or a transport satisfies the assumptions of the engine.

    It must answer one request and several concurrent ones, each with a completion that a store and
    a sum can hold. It must raise only evalkit's errors, and closing it twice must work. The check
    makes real calls: use a test server.

    Args:
        config: The judge's config, such as `JudgeConfig(model="x/y", transport="NAME")`.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if problems := list(dict.fromkeys(asyncio.run(_judge_faults(config)))):
        raise AssertionError("\n".join(problems))


async def _judge_faults(config: JudgeConfig) -> list[str]:
    """Return what is wrong with a judge's answers, alone and in parallel, and with closing it."""
    (judge,) = make_judges(config, RunnerConfig())
    try:
        if (prepare := getattr(judge, "prepare", None)) is not None:
            await prepare()
        problems = await _call_faults(judge, _REQUEST)
        concurrent = await asyncio.gather(
            *(
                _call_faults(judge, replace(_REQUEST, sample=k))
                for k in range(_CONCURRENT)
            )
        )
        problems += [
            f"with {_CONCURRENT} concurrent requests: {fault}"
            for faults_ in concurrent
            for fault in faults_
        ]
    except JudgeSetupError as error:
        problems = [f"no call can succeed: {error}"]
    for number in ("first", "second"):
        try:
            await judge.close()
        except Exception as error:  # a plug-in's own code may fail in any way
            problems.append(
                f"the {number} close fails with {type(error).__name__}: {error}"
            )
    return problems


async def _call_faults(judge: Judge, request: JudgeRequest) -> list[str]:
    """Return what is wrong with the answer of a judge to a simple request, or with its error."""
    try:
        completion = await judge.complete(request)
    except CallError as error:
        return [f"it does not answer a simple request: {error}"]
    except EvalkitError:
        raise
    except Exception as error:  # a plug-in's own code may fail in any way
        return [
            f"complete raises {type(error).__name__} ({error}):"
            " raise evalkit.core.errors.CallError for a failed call"
        ]
    if sane(completion) == completion:
        problems = []
    else:
        problems = ["its completion has text or numbers that a file cannot hold"]
    if not completion.text and completion.refusal is None:
        problems.append("it answers a simple request with an empty text and no refusal")
    if completion.cost_usd is not None and completion.cost_usd < 0:
        problems.append(f"a call costs ${completion.cost_usd}")
    return problems


_PLAIN = {"id": "1", "prompt": "p", "response_a": "a", "response_b": "b"}
_VALUES = (1.0, -1.0, 0.0)


def check_probe(name: str, *, cases: Sequence[Case] = CASES) -> None:
    """Check the probe with a name: that it edits, and always in the same way, what it says.

    Args:
        name: The name of the probe, as in `probe.probes.NAME`.
        cases: Cases to edit; at least one must be edited.

    Raises:
        AssertionError: If it is not sound; the message lists everything wrong.
    """
    probe = find_probe(name)
    broken = []
    changed = 0
    if not probe.what or not probe.assumes:
        broken.append("`what` or `assumes` is empty")
    for mode in [
        name for name in probe.modes if name != "checklist"
    ]:  # edited as in mode pointwise
        swap = SwapConfig(policy="none")
        run = RunConfig(
            judge=JudgeConfig(model="any"),
            criteria={"a": Criterion()},
            mode=ModeConfig(name=mode),
            swap=swap,
        )
        for case in cases:
            # An edit must not change its original, which is judged too.
            before = deepcopy(case)
            # The number of responses that a case of each mode keeps; 2 for pairs.
            kept = {"pointwise": 1, "listwise": len(case.responses)}
            # Twice: a rerun must make the same edits, or none of the stored answers would be
            # found.
            first = edited_case(case, probe, run, "A paraphrase.")
            second = edited_case(case, probe, run, "A paraphrase.")
            if first != second:
                broken.append(
                    f"mode {mode}, case {case.id}: two edits differ: use no random numbers"
                )
            if case != before:
                broken.append(
                    f"mode {mode}, case {case.id}: the edit changes the original: return a new case"
                )
            if first is not None and len(first.responses) != kept.get(mode, 2):
                broken.append(
                    f"mode {mode}, case {case.id}: the number of responses changes"
                )
            changed += first is not None
    if not changed:
        broken.append("no case is edited")
    assert not broken, f"probe {name}:\n" + "\n".join(broken)


def check_benchmark(name: str, path: str | Path, *, mode: str = "pairwise") -> None:
    """Check that a benchmark satisfies the assumptions of loading and scoring.

    Its files must be read the same way each time, and recognized. Other files must be refused with
    one line. Its rule must return metrics under the benchmark's name for complete, partial and
    missing judgments, with values inside their intervals; a metric without data must not have a
    value. If it has rows in `metrics`, each metric must have one.

    Args:
        name: The benchmark's name: the entry point of an installed package, or one of evalkit's
            own.
        path: A file or folder of the benchmark; a few cases are enough.
        mode: A mode that can judge its cases.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if problems := list(dict.fromkeys(_benchmark_faults(name, Path(path), mode))):
        raise AssertionError("\n".join(problems))


def _benchmark_faults(name: str, path: Path, mode: str) -> Iterator[str]:
    """Yield what is wrong with a benchmark: its name, its facts, its rows, and its metrics."""
    benchmark = find_benchmark(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield (
            f"the name '{name}' must be lowercase letters, digits and _, because it is the prefix"
            " of metric names"
        )
    described = benchmark.described()
    for key in ("name", "title", "licence", "citation", "homepage"):
        if not described.get(key):
            yield f"described() has no {key}"
    yield from (
        f"{key} is empty"
        for key in ("kind", "expects", "note")
        if not getattr(benchmark, key)
    )
    config = DatasetConfig(path=str(path), benchmark=name)
    dataset = load_cases(config, mode=mode)
    if load_cases(config, mode=mode).fingerprint != dataset.fingerprint:
        yield "its rows differ when they are read again"
    yield from _recognition_faults(benchmark, path, mode)
    yield from _row_faults(benchmark)
    run = RunConfig(
        judge=JudgeConfig(model="test/judge"),
        criteria=[{"name": "quality"}],
        mode={"name": mode},
        swap={"policy": "none" if mode == "pointwise" else "both"},
        dataset=config,
        # Few resamples: the intervals need only be in order.
        scoring={"bootstrap": 20},
    )
    judgments = list(_judgments_of(dataset.cases, pointwise=mode == "pointwise"))
    for state, subset in _states_of_run(judgments).items():
        yield from (
            f"{state}: {fault}"
            for fault in _metric_faults(run, dataset.cases, subset, name)
        )


def _states_of_run(judgments: Sequence[Judgment]) -> dict[str, Sequence[Judgment]]:
    """Return the judgments of a finished run, of one with half of its answers, and of none."""
    missing = [
        replace(judgment, status="failed", value=None, criteria={}, error="failed")
        for judgment in judgments
    ]
    # Every second judgment is missing.
    half = [
        judgment if index % 2 else missing[index]
        for index, judgment in enumerate(judgments)
    ]
    return {"judged": judgments, "half judged": half, "not judged": missing}


def _row_faults(benchmark: Benchmark) -> Iterator[str]:
    """Yield what is wrong with the rows of its metrics, and with the metrics that its
    findings name.
    """
    name = benchmark.name
    catalog = Catalog(benchmark.metrics)
    for row in catalog.rows:
        if row.group != name:
            yield f"the row '{row.name}' in metrics is not named '{name}/…'"
    substitute = getattr(benchmark, "substitute", None) or ("",)
    for key, metric in (
        ("main_metric", getattr(benchmark, "main_metric", "")),
        ("substitute", substitute[0]),
    ):
        if metric and catalog.find(metric) is None:
            yield f"{key} '{metric}' has no row in metrics"


def _recognition_faults(benchmark: Benchmark, path: Path, mode: str) -> Iterator[str]:
    """Yield whether a benchmark recognizes its own rows, and only these."""
    recognition = recognize_benchmark(path)
    if recognition is None or recognition.name != benchmark.name:
        yield (
            f"{path} is recognized as {recognition.name if recognition else 'nothing'}"
            " instead: see `shapes`,"
            " `holds`"
        )
    if benchmark.looks_like(_PLAIN):
        yield "it recognizes any row with a pair as its own"
    with TemporaryDirectory() as folder:
        # A file of another dataset, and a folder with it.
        other_file = Path(folder, "other.jsonl")
        other_file.write_text(json.dumps(_PLAIN) + "\n", "utf-8")
        for path_ in (other_file, Path(folder)):
            try:
                load_cases(
                    DatasetConfig(path=str(path_), benchmark=benchmark.name), mode=mode
                )
            except DatasetError:
                continue
            except PluginError as error:
                yield f"a file of another dataset: {error.what}; raise DatasetError"
                continue
            yield "it reads a file of another dataset instead of raising DatasetError"
    if (
        recognized := recognize_benchmark_row(_PLAIN)
    ) is not None and recognized.name == benchmark.name:
        yield "plain rows are recognized as its own"


def _judgments_of(cases: Sequence[Case], *, pointwise: bool) -> Iterator[Judgment]:
    """Yield a judgment of every response, or of every pair in both orders.

    Their values vary between cases.
    """
    for number, case in enumerate(cases):
        indices = range(len(case.responses))
        if pointwise:
            for k in indices:
                score = 1.0 + (number + k) % 5
                yield Judgment(
                    case.id, (k,), (k,), 0, "judge", "ok", criteria={"quality": score}
                )
            continue
        for index, pair in enumerate(combinations(indices, 2)):
            # All three outcomes occur, so that no metric is trivial.
            value = _VALUES[(number + index) % len(_VALUES)]
            yield from (
                Judgment(case.id, pair, order, 0, "judge", "ok", value=value)
                # The same value in both orders: margins are in the order of the case.
                for order in (pair, pair[::-1])
            )


def _metric_faults(
    run: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment], name: str
) -> Iterator[str]:
    """Yield what is wrong with the metrics that the rule of a benchmark adds to a run."""
    # What the rule adds are the metrics that a run without it does not have.
    plain = run.with_({"dataset.benchmark": None})
    plain_metrics = score_run(plain, cases, judgments).metrics
    metrics = score_run(run, cases, judgments).metrics
    rule_metrics = [
        metric for key, metric in metrics.items() if key not in plain_metrics
    ]
    if not rule_metrics:
        yield "the rule returns no metric"
    catalog = Catalog(find_benchmark(name).metrics)
    for metric in rule_metrics:
        if not metric.name.startswith(f"{name}/"):
            yield f"the metric '{metric.name}' is not named '{name}/…'"
        elif catalog.rows and catalog.find(metric.name) is None:
            yield f"'{metric.name}' has no row in metrics"
        if metric.value is not None and not metric.n:
            yield (
                f"'{metric.name}' is {metric.value} without data: a missing answer is never a score"
            )
        if metric.value is None and not metric.note:
            yield f"'{metric.name}' has no value, and no note that explains why"
        bounds = [
            bound
            for bound in (metric.low, metric.value, metric.high)
            if bound is not None
        ]
        # Without an interval, there is nothing to compare.
        if len(bounds) == 3 and bounds != sorted(bounds):
            yield f"'{metric.name}' is {metric.value}, outside its interval"
