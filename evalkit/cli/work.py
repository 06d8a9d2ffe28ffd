"""`evalkit work`: judge one shard of a study's cases, and do nothing else."""

from __future__ import annotations

import socket
from argparse import Namespace
from pathlib import Path
from signal import SIGINT

from evalkit.api import judge_shard
from evalkit.cli.console import log, log_handler, log_style
from evalkit.cli.hydra_runner import Job, is_sweep, split_study
from evalkit.cli.parser import check_overrides, study_words
from evalkit.cli.progress import ProgressDisplay
from evalkit.cli.run import failure_lines
from evalkit.config import RunConfig
from evalkit.core.display import dollars
from evalkit.engine import JudgingResult
from evalkit.errors import ConfigError, EvalkitError, ExitStatus, Signaled
from evalkit.hydra_app import DEFAULT, load_jobs
from evalkit.results import Spent
from evalkit.workers import Shard, check_budget


def main(arguments: Namespace) -> int:
    """Judge the shard, of every job of a sweep; an error names the shard and the host."""
    shard = Shard.of(arguments.shard)
    place = f"shard {shard} on {socket.gethostname()}"
    try:
        return max([_judge(config, shard, place, spent) for config, spent in _jobs(arguments)], default=0)
    except EvalkitError as error:
        log("error", f"{place}: {error}")
        return int(error.status)


def _jobs(arguments: Namespace) -> list[tuple[RunConfig, Spent]]:
    study, overrides = split_study(study_words(arguments))
    check_overrides(overrides)
    sweep = arguments.multirun or is_sweep(study, overrides)
    spent = Spent()
    jobs = [config for _, config in load_jobs(str(study) if study else DEFAULT, overrides, sweep=sweep)]
    for config in jobs:
        if config.store.mode not in ("read_write", "refresh"):
            what = f"with '{config.store.mode}' the answers would be lost"
            raise ConfigError(what, where="store.mode", remedy="set store.mode=read_write")
        check_budget(config)
    return [(config, spent) for config in jobs]


def _judge(config: RunConfig, shard: Shard, place: str, spent: Spent) -> int:
    with ProgressDisplay(Job(config, Path(), None), f"shard {shard} · ") as display, log_handler():
        judged = judge_shard(config, shard, display.update, spent)
    calls = judged.calls
    answers = sum(one.status != "failed" for one in judged.judgments)
    if judged.interrupted:
        text = f"{place}: interrupted: {judged.answers:,} answers are stored; start it again"
        raise Signaled(judged.signal or SIGINT, text)
    for line in failure_lines(judged.judgments):
        log("failure", line)
    if log_style() != "quiet":
        cost = "" if not judged.cost_usd else f", {dollars(judged.cost_usd)}"
        print(f"{place}: {answers:,} of {calls.planned:,} requests answered, {calls.sent:,} sent{cost}", flush=True)
    if lacking := _lacking(config, judged):
        log("error", f"{place}: {lacking}")
        return int(ExitStatus.TOO_MANY_FAILURES)
    return int(ExitStatus.DONE)


def _lacking(config: RunConfig, judged: JudgingResult) -> str | None:
    highest, calls = config.runner.max_failure_rate, judged.calls
    if judged.stopped is None and calls.failed > highest * calls.planned:
        return f"{calls.failed:,} requests failed, more than runner.max_failure_rate={highest:.1%} allows"
    return judged.stopped
