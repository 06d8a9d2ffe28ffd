"""`evalkit watch`: take a look at a judge, and report whether it has changed."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from signal import SIGINT
from typing import Final

from evalkit.cli.console import log, log_handler, log_style, plain_console
from evalkit.cli.hydra_runner import Job, is_sweep, study_jobs
from evalkit.cli.parser import UsageError, study_words
from evalkit.cli.progress import ProgressDisplay
from evalkit.cli.run import interruption
from evalkit.compose import find_study
from evalkit.compose.studies import study_names
from evalkit.config import RunConfig
from evalkit.core.display import counted, dollars, relative
from evalkit.core.errors import ConfigError, ExitStatus, Signaled
from evalkit.core.redaction import redact, secret_in
from evalkit.core.resources import project, shipped
from evalkit.core.values import frozen
from evalkit.guard.policy import from_judge_folder
from evalkit.report.watch_page import watch_findings
from evalkit.runs.layout import CONFIG, MANIFEST
from evalkit.scoring.looks import Baseline
from evalkit.serving.folder import JUDGE, read_judge
from evalkit.serving.watch import (
    FILE,
    PAGE,
    look_config,
    next_look,
    read_watch,
    take_look,
)
from evalkit.workflows.run import RunInterruption

FOLDER: Final = Path("watch")


@frozen
class Watched:
    """What a command watches: the config, the texts of the templates if they are not
    the installed ones, a folder.
    """

    config: RunConfig
    templates: Mapping[str, str] | None
    folder: Path

    @staticmethod
    def of(words: Sequence[str], trusted: Sequence[str] | None = None) -> Watched:
        """Return what a judge or study with overrides describes.

        Args:
            words: the words of the command.
            trusted: addresses of servers that a judge from a folder may be called at; `None` if it
                is not called.

        Raises:
            ConfigError: if it is a sweep, or the judge, the study or an override cannot be used.
        """
        named = [word for word in words[:1] if "=" not in word or Path(word).exists()]
        source = Path(named[0]) if named else None
        templates = None
        if source is not None and source.is_dir():
            is_run = (source / MANIFEST).exists() or not (source / JUDGE).exists()
            judge = read_judge(source)
            # The recorded texts, not the installed templates: another version would ask in other
            # words, and the judge would seem to have changed.
            templates = judge.templates
            chosen = judge.config.judge.thresholds
            # The thresholds of a cascade are those of the run: a look does not choose others.
            if is_run and chosen is not None:
                fixed = [f"judge.thresholds={json.dumps(chosen)}"]
            else:
                fixed = []
            file = source / (CONFIG if is_run else JUDGE)
            job_words = [str(file), *fixed, *words[1:]]
        else:
            job_words = list(words)
            study = find_study(named[0]) if named else None
            if named and study is None and not Path(named[0]).exists():
                raise _unknown_name_error(named[0])
            if is_sweep(study, words[len(named) :]):
                raise ConfigError(
                    "a sweep cannot be watched",
                    where=words[0],
                    remedy="watch one of its judges",
                )
        recorded = (
            # A folder may come from someone else: its addresses get no key unless they are
            # trusted.
            nullcontext() if templates is None else from_judge_folder(trusted or ())
        )
        with recorded:
            [(_, config)] = study_jobs(job_words)
        if source is None:
            name = config.judge.label
        else:
            name = source.resolve().name.removesuffix(".yaml")
        return Watched(config, templates, FOLDER / name.replace("/", "_"))

    def planned(self) -> RunConfig:
        """Return the config of the look to take, of which an interrupted one has some answers."""
        # An interrupted look has a key of its own, under which its answers are found.
        baselines = read_watch(self.folder)
        return look_config(
            self.config, next_look(baselines[-1] if baselines else None).key
        )


def _unknown_name_error(name: str) -> ConfigError:
    """Return the error for a name that is nothing to watch, with what is called almost the same."""
    path = Path(name)
    judges = [
        folder / "conf" / "judge" for folder in (project(), shipped("conf").parent)
    ]
    names = {
        *study_names(),
        *(
            f"judge={preset.relative_to(top).with_suffix('')}"
            for top in judges
            for preset in top.rglob("*.yaml")
        ),
    }
    with suppress(OSError):
        for folder in path.parent.iterdir():
            names |= (
                {str(path.with_name(folder.name))}
                if (folder / MANIFEST).exists() or (folder / JUDGE).exists()
                else set()
            )
    close = get_close_matches(name, names, n=1)
    kinds = "name the folder of a run or of an exported judge, a study, or judge=NAME"
    remedy = f"did you mean '{close[0]}'?" if close else kinds
    return ConfigError("no such run, judge or study", where=name, remedy=remedy)


def main(arguments: Namespace) -> int:
    """Take a look, print what is known, and return 4 if the judge has changed.

    Raises:
        ConfigError: if the judge, the cases or the folder cannot be used.
    """
    words = study_words(arguments)
    if not words:
        raise UsageError("watch", "needs a judge or a study")
    watched = Watched.of(words, arguments.api_base or ())
    folder = arguments.output or watched.folder
    config = watched.config
    if (secret := secret_in(str(folder))) is not None:
        raise ConfigError(
            secret, where="the folder's name", remedy="choose another --output"
        )
    for note in config.notes():
        log("note", note)
    with ProgressDisplay(Job(config, folder, None)) as display, log_handler():
        try:
            baseline = take_look(
                folder,
                config,
                watched.templates,
                reset=arguments.reset,
                observe=display.update,
            )
        except RunInterruption as stop:
            display.close()
            raise Signaled(
                stop.judged.signal or SIGINT, interruption(config, stop.judged)
            ) from None
    status = STATUS.get(baseline.state, ExitStatus.DONE)
    findings = watch_findings(baseline)
    if arguments.json:
        print(json.dumps(_watch_json(baseline, folder), ensure_ascii=False))
    elif log_style() != "quiet":
        last = baseline.looks[-1]
        cost = "" if last.cost_usd is None else f", {dollars(last.cost_usd)}"
        console = plain_console()
        console.print(
            f"look {last.number} at {baseline.judge}: {counted(baseline.cases, 'case')},"
            f" {counted(last.sent, 'call')}{cost}"
        )
        for finding in findings:
            console.print(f"  • {redact(finding.text)}")
        console.print(f"page: {relative(folder / PAGE)}")
    if status == ExitStatus.GATE_FAILED and log_style():
        log("error", findings[0].text)
    return int(status)


STATUS: Final = {
    "incomplete": ExitStatus.TOO_MANY_FAILURES,
    "changed": ExitStatus.GATE_FAILED,
}
"""The exit status by the state after the last look; 0 for others."""


def _watch_json(baseline: Baseline, folder: Path) -> dict[str, object]:
    """Return the JSON of the command: what watch.json has about each look, without its answers."""
    findings = watch_findings(baseline)
    looks = [
        {name: value for name, value in asdict(look).items() if name != "answers"}
        for look in baseline.looks
    ]
    return {
        "state": baseline.state,
        "judge": baseline.judge,
        "cases": baseline.cases,
        "changed_at": baseline.changed.number if baseline.changed else None,
        "looks": looks,
        "findings": [finding.text for finding in findings],
        "findings_zh": [finding.text_zh for finding in findings],
        "paths": {
            "folder": str(folder),
            "page": str(folder / PAGE),
            "watch": str(folder / FILE),
        },
    }
