"""`evalkit import FORMAT PATH`: judgments made elsewhere become a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evalkit.cli.hydra_runner import OVERWRITE, check_words
from evalkit.cli.usage import USAGE
from evalkit.errors import ConfigError, did_you_mean
from evalkit.types import RunResult

FLAGS = ("--scores", "--complete", "--reread", OVERWRITE)
VALUED = ("--judge", "--dimension", "--custom-id", "--only", "--map")
FIELDS = "--fields"
FOLDER = "hydra.run.dir"
BATCH = "openai_batch"
SHOWN = 5


@dataclass(slots=True)
class ImportArguments:
    """What a command's words ask for."""

    format: str = ""
    path: Path = field(default_factory=Path)
    fields: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    only: dict[str, str] = field(default_factory=dict)
    winners: dict[str, str] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    folder: Path | None = None


def main(words: Sequence[str]) -> int:
    """Read a file of judgments, score them, write the run folder, record the run and print the summary."""
    from evalkit.interop import formats

    known = formats()
    if not words or words[0] in ("-h", "--help"):
        print(_usage(known))
        return 0 if words else 1
    asked = parse(words)
    if asked.format not in known:
        remedy = did_you_mean(asked.format, known)
        raise ConfigError("no such format", where=f"evalkit import {asked.format}", remedy=remedy)
    return _import(asked)


def _usage(formats: Any) -> str:
    rows = "\n".join(f"  {name:<14}{text}" for name, text in formats.items())
    return (
        f"usage: {USAGE['import']}\n\n{rows}\n\n"
        "  --fields NAME=COLUMN …   which columns hold what (generic): id, prompt, response_a, response_b, winner,\n"
        "                           order; response, score, score.CRITERION; judge, sample, text, label, label.PERSON\n"
        "  --judge NAME             the judge's name, where the file does not say it\n"
        "  --scores                 the scores, where a file has both scores and winners\n"
        "  --dimension NAME         which of several dimensions people graded (unieval)\n"
        "  --map SPELLING=WINNER    what a file's own word for a winner means: A, B, TIE or NONE (generic)\n"
        "  --only KEY=VALUE         only cases whose metadata say so\n"
        "  --complete               only cases all of whose judgments could be read\n"
        "  --reread                 count what evalkit reads in the judges' texts, not what the file says\n"
        "  --overwrite              replace another run that hydra.run.dir holds\n"
        "  --custom-id PATTERN      a batch's ids: groups case, order (ab or ba), response, sample\n\n"
        "Overrides are those of `evalkit run`: scoring.*, swap.resolve=…, tie.*, rubric.*, output=…, gate=…,\n"
        "tracking=none, hydra.run.dir=FOLDER for where the run is written."
    )


def parse(words: Sequence[str]) -> ImportArguments:
    """Return what the words ask for.

    Raises:
        ConfigError: naming the first word that is not understood.
    """
    # A file's name may hold what an override does: JudgeBench's do.
    positional = [word for word in words[:2] if not word.startswith("-") and ("=" not in word or Path(word).exists())]
    if len(positional) != 2:
        raise ConfigError("needs a format and a file", where="evalkit import", remedy=USAGE["import"])
    asked = ImportArguments(format=positional[0], path=Path(positional[1]).expanduser())
    rest = iter(words[2:])
    mapping = False
    for word in rest:
        key, equals, value = word.partition("=")
        if word in FLAGS or word == FIELDS:
            mapping = word == FIELDS
            asked.flags |= {word} - {FIELDS}
        elif key in VALUED:
            _set_value(asked, key, value if equals else next(rest, ""))
        elif mapping and equals and _is_field(key):
            asked.fields[key] = value
        else:
            _set_override(asked, word)
    check_words(asked.overrides, flags=())
    return asked


def _is_field(key: str) -> bool:
    from evalkit.interop.importers.generic import FIELDS as KNOWN

    return key in KNOWN or key.startswith(("score.", "label.", "metadata."))


def _set_value(asked: ImportArguments, key: str, value: str) -> None:
    if not value:
        raise ConfigError("needs a value", where=key, remedy=USAGE["import"])
    if key not in ("--only", "--map"):
        asked.values[key] = value
        return
    name, equals, wanted = value.rpartition("=")
    if not equals:
        raise ConfigError("is not KEY=VALUE", where=f"{key} {value}", remedy=USAGE["import"])
    (asked.only if key == "--only" else asked.winners)[name] = wanted


def _set_override(asked: ImportArguments, word: str) -> None:
    if word.startswith(f"{FOLDER}="):
        asked.folder = Path(word.partition("=")[2])
    elif word.startswith("dataset.fields."):
        key, _, value = word.removeprefix("dataset.fields.").partition("=")
        asked.fields[key] = value
    else:
        asked.overrides.append(word)


def _import(asked: ImportArguments) -> int:
    from evalkit.hydra_app import load_settings
    from evalkit.import_run import import_run
    from evalkit.interop import import_judgments

    if asked.format == BATCH:
        brought, config = _batch(asked)
    else:
        brought = _chosen(asked, import_judgments(asked.format, asked.path, _options(asked)))
        config = load_settings(dict(brought.settings), asked.overrides)
    folder = asked.folder or _folder(config)
    if not any(word.startswith("dataset.path=") for word in asked.overrides):
        path = {"path": str(folder.absolute() / "cases.jsonl"), "format": "jsonl"}
        config = config.model_copy(update={"dataset": config.dataset.model_copy(update=path)})
    told = "output" in brought.settings or any(word.startswith("output") for word in asked.overrides)
    if brought.unread and not told and asked.format != BATCH:
        raise _silent(asked)
    take = brought.unread or "--reread" in asked.flags
    adopted = import_run(
        config,
        brought,
        folder,
        source=str(asked.path),
        read=told or brought.unread,
        take=take,
        overwrite=OVERWRITE in asked.flags,
    )
    return _tell(config, adopted, compared=not brought.unread)


def _silent(asked: ImportArguments) -> ConfigError:
    from evalkit.benchmarks.judgment_files import peek
    from evalkit.interop.import_file import format_names

    remedy = "say how they are read: output=NAME; or map the verdicts: --fields winner=COLUMN, or score=COLUMN"
    remedy = (None if asked.fields else format_names(peek(asked.path))) or remedy
    return ConfigError("there are texts, and no verdicts", where=str(asked.path), remedy=remedy)


def _batch(asked: ImportArguments) -> tuple[Any, Any]:
    """Return what a batch's file holds, and the config that its texts are read by: that of a run over its cases."""
    from evalkit.config import JudgeConfig
    from evalkit.core.resources import project
    from evalkit.datasets import load_cases
    from evalkit.hydra_app import load_config
    from evalkit.interop import import_judgments

    if not any(word.startswith("dataset") for word in asked.overrides):
        remedy = "name the cases that it is of: dataset=file dataset.path=FILE"
        raise ConfigError("a batch holds answers alone", where=str(asked.path), remedy=remedy)
    config = load_config(overrides=asked.overrides)
    named = any(word.startswith("judge") for word in asked.overrides)
    cases = tuple(load_cases(config.dataset, mode=config.mode.name, base=project()).cases)
    judge = config.judge.label if named else None
    options = _options(asked)
    options = replace(options, cases=cases, judge=options.judge or judge)
    brought = _chosen(asked, import_judgments(asked.format, asked.path, options))
    if not named:
        model = brought.judgments[0].judge
        config = config.model_copy(update={"judge": JudgeConfig(name=model, model=model, temperature=None)})
    return brought, config


def _folder(config: Any) -> Path:
    from evalkit.api import default_folder

    return default_folder(config)


def _options(asked: ImportArguments) -> Any:
    from evalkit.interop import Options

    value = asked.values.get
    return Options(
        fields=asked.fields,
        dimension=value("--dimension"),
        scores="--scores" in asked.flags,
        judge=value("--judge"),
        custom_id=value("--custom-id"),
        winners=asked.winners,
    )


def _chosen(asked: ImportArguments, brought: Any) -> Any:
    """Return the cases that were asked for, with their judgments."""
    from evalkit.interop.to_cases import complete_only

    cases, judgments, notes = list(brought.cases), list(brought.judgments), list(brought.notes)
    for key, wanted in asked.only.items():
        known = sorted({str(case.metadata.get(key)) for case in cases if key in case.metadata})
        cases = [case for case in cases if str(case.metadata.get(key)) == wanted]
        if not cases:
            raise ConfigError("no such case", where=f"--only {key}={wanted}", remedy=did_you_mean(wanted, known[:20]))
    names = {case.id for case in cases}
    judgments = [one for one in judgments if one.case_id in names]
    if "--complete" in asked.flags:
        before = len(cases)
        cases, judgments = complete_only(cases, judgments)
        notes.append(f"cases left out, since not all their judgments could be read: {before - len(cases)} of {before}")
        if not cases:
            raise ConfigError("no case has all its judgments", where="--complete", remedy="leave it out")
    return replace(brought, cases=tuple(cases), judgments=tuple(judgments), notes=tuple(notes))


def _tell(config: Any, adopted: Any, *, compared: bool) -> int:
    from evalkit.api import track
    from evalkit.cli.console import log
    from evalkit.cli.run_folders import print_gate
    from evalkit.cli.summary import print_summary
    from evalkit.errors import ExitStatus, TrackingError

    status, result = ExitStatus.DONE, adopted.result
    try:
        result = track(config, result)
    except TrackingError as error:
        log("error", str(error))
        status = ExitStatus.NOT_TRACKED
    print_summary(result)
    if adopted.texts and compared:
        _tell_differences(adopted, result)
    return max(int(status), print_gate(result))


def _tell_differences(adopted: Any, result: RunResult) -> None:
    count = len(adopted.differs)
    where = f", all in {Path(result.folder or '') / 'differences.jsonl'}" if count else ""
    print(f"texts read again: {adopted.texts}; {count} say something else than the file{where}")
    for difference in adopted.differs[:SHOWN]:
        print(f"  {difference.line()}")
