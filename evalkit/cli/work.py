"""`evalkit work`: judge one shard of a study's cases into the store."""

from __future__ import annotations

import socket
from argparse import Namespace
from pathlib import Path
from signal import SIGINT

from evalkit.cli.console import log, log_handler, log_style, reported
from evalkit.cli.hydra_runner import Job, study_jobs
from evalkit.cli.parser import study_words
from evalkit.cli.progress import ProgressDisplay
from evalkit.cli.run import failure_lines
from evalkit.config import RunConfig
from evalkit.core.display import dollars
from evalkit.core.errors import ConfigError, EvalkitError, ExitStatus, Signaled
from evalkit.engine.progress import JudgingResult
from evalkit.engine.shards import Shard, check_budget
from evalkit.runs.results import Spent
from evalkit.workflows.run import judge_shard


def main(arguments: Namespace) -> int:
    """Judge the shard, of every job of a sweep; an error names the shard and the host."""
    shard = Shard.of(arguments.shard)
    prefix = f"shard {shard} on {socket.gethostname()}"
    statuses: list[int] = [ExitStatus.DONE]
    with reported(statuses, EvalkitError, f"{prefix}: "):
        spent = Spent()
        statuses += [
            _judge_shard(config, shard, prefix, spent)
            for config in _shared_configs(arguments)
        ]
    return max(statuses)


def _shared_configs(arguments: Namespace) -> list[RunConfig]:
    """Return the config of each job.

    Raises:
        ConfigError: if a job would not keep the answers for the others, or has a budget that shards
            cannot share.
    """
    configs = [
        # All configs are checked before the first shard is judged.
        config
        for _, config in study_jobs(study_words(arguments), arguments.multirun)
    ]
    for config in configs:
        if config.store.mode not in ("read_write", "refresh"):
            problem = f"with '{config.store.mode}' the answers would be lost"
            raise ConfigError(
                problem, where="store.mode", remedy="set store.mode=read_write"
            )
        check_budget(config)
    return configs


def _judge_shard(config: RunConfig, shard: Shard, prefix: str, spent: Spent) -> int:
    """Judge a shard of the cases, print its calls, and return the exit status.

    Raises:
        Signaled: if the user stops it; received answers are stored.
    """
    with (
        ProgressDisplay(Job(config, Path(), None), f"shard {shard} · ") as display,
        log_handler(),
    ):
        judged = judge_shard(config, shard, display.update, spent)
    calls = judged.calls
    answers = sum(judgment.status != "failed" for judgment in judged.judgments)
    if judged.interrupted:
        text = f"{prefix}: interrupted: {judged.answers:,} answers are stored; start it again"
        raise Signaled(judged.signal or SIGINT, text)
    for line in failure_lines(judged.judgments):
        log("failure", line)
    if log_style() != "quiet":
        cost = "" if not judged.cost_usd else f", {dollars(judged.cost_usd)}"
        print(
            f"{prefix}: {answers:,} of {calls.planned:,} requests answered, {calls.sent:,}"
            f" sent{cost}",
            flush=True,
        )
    if lacking := _lacking(config, judged):
        log("error", f"{prefix}: {lacking}")
        return ExitStatus.TOO_MANY_FAILURES
    return ExitStatus.DONE


def _lacking(config: RunConfig, judged: JudgingResult) -> str | None:
    highest = config.runner.max_failure_rate
    calls = judged.calls
    if judged.stopped is None and calls.failed > highest * calls.planned:
        return (
            f"{calls.failed:,} requests failed, more than runner.max_failure_rate={highest:.1%}"
            " allows"
        )
    return judged.stopped
