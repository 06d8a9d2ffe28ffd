"""The parser of every command: one table of commands, from which help, shell completion and the reference come."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evalkit.cli.arguments import WIDTH, Parser, UsageError, is_override, natural, one_of, pair, port, positive
from evalkit.core.resources import shipped
from evalkit.errors import ConfigError, did_you_mean
from evalkit.plugins import ALLOW_FLAG

DOCS: Final = "Reference: docs/reference/commands.md (commands) and docs/reference/config.md (configuration keys)."
STATUS: Final = """\
Exit status: 0 success, 1 invalid configuration or data, 2 too many failed calls or out of budget,
3 run not tracked, 4 failed gate or failed reproduction, 128 + signal if interrupted (130 by Ctrl-C)."""
LAYOUTS: Final = ("csv", "parquet", "alpaca_eval", "mt_bench", "argilla", "label_studio", "paraphrases")
"""What `evalkit export` writes."""
SCHEMAS: Final = ("openai", "anthropic", "mcp", "json-schema")
"""What `evalkit tools` prints."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its summary, the function that runs it, its arguments, an example and more to know.

    `run` is `module:function`, imported only if the command is chosen. `add` adds the arguments to a parser. `more`
    returns text for the end of the help.
    """

    summary: str
    run: str
    add: Callable[[Parser], None]
    example: str
    more: Callable[[], str] = str

    def parser(self, name: str) -> Parser:
        """Return the command's parser."""
        parser = Parser(
            prog=f"evalkit {name}",
            description=f"{self.summary[0].upper()}{self.summary[1:]}.",
            add_help=False,
            closing=lambda: "\n\n".join(filter(None, (self.more(), f"Example:\n  {self.example}", DOCS))),
        )
        self.add(parser)
        parser.set_defaults(command=name, run=self.run, quiet=False, json_logs=False)
        # MLflow's own short option for the host is -h.
        flags = ("--help",) if "-h" in parser._option_string_actions else ("-h", "--help")
        parser.add_argument(*flags, action="help", help="print this help")
        parser.add_argument(
            ALLOW_FLAG,
            action="store_true",
            help="let configs name code, which is imported and run, and set any option of workers",
        )
        return parser


def _study(parser: Parser) -> None:
    parser.add_argument("study", nargs="?", metavar="STUDY", help="a study: a YAML file, or a name in experiments/")
    _overrides(parser, "Hydra overrides: group=option, key.path=value, +key=value, ~key")


def _overrides(parser: Parser, text: str) -> None:
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help=text)


def _run_folder(parser: Parser, text: str = "a run folder") -> None:
    parser.add_argument("run_folder", metavar="RUN", help=text)


def _output(parser: Parser, text: str, metavar: str = "FOLDER") -> None:
    parser.add_argument("--output", type=Path, metavar=metavar, help=text)


def _add_run(parser: Parser) -> None:
    _study(parser)
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep: run every combination of listed values")
    _output(parser, "where to write the run or sweep; the same as hydra.run.dir=FOLDER or hydra.sweep.dir=FOLDER")
    parser.add_argument("--overwrite", action="store_true", help="replace another run in the output folder")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.add_argument("--json-logs", action="store_true", help="write progress and errors to stderr as JSON lines")
    parser.add_argument(
        "-c", "--cfg", type=one_of("job", "hydra", "all"), metavar="job|hydra|all", help="print the config; run nothing"
    )
    parser.add_argument("-p", "--package", metavar="PACKAGE", help="with --cfg: print only this part of the config")
    parser.add_argument("--resolve", action="store_true", help="with --cfg: print values instead of interpolations")
    parser.add_argument(
        "-i", "--info", nargs="?", const="all", metavar="WHAT", help="print what Hydra composes and from where"
    )
    parser.add_argument("--hydra-help", action="store_true", help="print Hydra's own help")


def _add_audit(parser: Parser) -> None:
    _add_run(parser)
    parser.add_argument("--probes", action="store_true", help="list the probes, each with what it plants; run nothing")


def _shard(text: str) -> str:
    """Return a text that names a shard, such as 3/20."""
    from evalkit.workers import Shard

    try:
        return str(Shard.of(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_work(parser: Parser) -> None:
    _study(parser)
    parser.add_argument(
        "--shard",
        type=_shard,
        required=True,
        metavar="N/COUNT",
        help="which part of the cases: 3/20 is the third of 20",
    )
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep: judge every combination of listed values")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.add_argument("--json-logs", action="store_true", help="write progress and errors to stderr as JSON lines")


def _add_plan(parser: Parser) -> None:
    _study(parser)
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep: plan every combination of listed values")
    parser.add_argument(
        "--pilot",
        type=positive,
        metavar="N",
        help="send N random requests per judge, at their price, and base the estimates on the answers; the run reuses "
        "them from the store",
    )


def _add_demo(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("evalkit-demo"),
        metavar="FOLDER",
        help="where to write everything, MLflow's store included: a new or empty folder, or that of an earlier demo "
        "(default: evalkit-demo)",
    )


def _add_score(parser: Parser) -> None:
    _run_folder(parser, "a run folder; its metrics and report are rewritten, its judgments are not")
    _overrides(
        parser,
        "scoring.*, criteria.NAME.weight, swap.resolve, tie.threshold, tie.min_confidence, judge.vote, judge.quorum, "
        "judge.weights, gate",
    )


def _add_compare(parser: Parser) -> None:
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="two or more run folders or MLflow run ids; and settings as KEY=VALUE: metrics=[…] to test (all tests "
        "together are adjusted by Holm's method), confidence, bootstrap, seed and cluster as in scoring, and "
        "tracking.uri to find MLflow run ids",
    )
    _output(parser, "where to write comparison.json and comparison.csv; the same as folder=FOLDER (no option: here)")


def _add_reproduce(parser: Parser) -> None:
    _run_folder(parser, "a run folder, a sweep folder (every job) or an MLflow run id; it is not changed")
    _overrides(
        parser,
        "locations only: dataset.path and store.url (read the cases or answers there, not in the run folder), "
        "judge.api_base, tracking.uri",
    )
    _output(parser, "write every difference to reproduction.json in this folder; the same as folder=FOLDER")


def _add_track(parser: Parser) -> None:
    _run_folder(parser, "a run folder; a run that is already recorded is not recorded again")
    _overrides(parser, "tracking.*")


def _add_import(parser: Parser) -> None:
    parser.add_argument("format", metavar="FORMAT", help="one of the formats listed below")
    parser.add_argument("path", metavar="PATH", help="the file or folder to read")
    _overrides(
        parser,
        "as for `evalkit run`: scoring.*, swap.resolve, tie.*, rubric.*, output, gate, tracking, hydra.run.dir",
    )
    parser.add_argument(
        "--fields",
        nargs="*",
        action="extend",
        metavar="NAME=COLUMN",
        help="which column holds what (generic): id, prompt, response_a, response_b, winner, order; response, score, "
        "score.CRITERION, class; judge, sample, text, label, label.ANNOTATOR, metadata.KEY",
    )
    parser.add_argument(
        "--map",
        type=pair,
        action="append",
        default=[],
        metavar="WORD=WINNER",
        help="what a word means: A, B, TIE, a class or NONE (generic)",
    )
    parser.add_argument("--judge", metavar="NAME", help="the judge's name, if the file does not give it")
    parser.add_argument("--scores", action="store_true", help="use the scores of a file with both scores and winners")
    parser.add_argument("--dimension", metavar="NAME", help="which of several graded dimensions to read (unieval)")
    parser.add_argument(
        "--only",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="import only cases with this metadata value",
    )
    parser.add_argument(
        "--complete", action="store_true", help="import only cases all of whose judgments could be read"
    )
    parser.add_argument(
        "--reread",
        action="store_true",
        help="use the verdicts that evalkit parses from the texts, not those in the file",
    )
    parser.add_argument(
        "--custom-id",
        metavar="REGEX",
        help="how to read a batch's ids: groups case, order (ab or ba), response, sample (openai_batch)",
    )
    _output(parser, "where to write the run; the same as hydra.run.dir=FOLDER")
    parser.add_argument("--overwrite", action="store_true", help="replace another run in the output folder")


def _import_formats() -> str:
    from evalkit.interop import formats

    return "Formats:\n" + "\n".join(f"  {name:<14}{text}" for name, text in formats().items())


def _add_export(parser: Parser) -> None:
    _run_folder(parser)
    parser.add_argument(
        "--to",
        required=True,
        type=one_of(*LAYOUTS),
        metavar="LAYOUT",
        help="csv or parquet: one row per judgment; alpaca_eval or mt_bench: as those tools write; argilla or "
        "label_studio: labeling tasks, without judge and verdict; paraphrases: those of an audit, to review",
    )
    _output(parser, "the file to write (no option: a file in the run folder)", "FILE")
    parser.add_argument(
        "--n", type=natural, metavar="N", help="only about N tasks, informative ones more often (argilla, label_studio)"
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of the order in which annotators see responses"
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="csv: write texts unchanged; without it, a text that a spreadsheet would run (=…) gets a ' in front",
    )


def _add_label(parser: Parser) -> None:
    _run_folder(parser, "a run folder; it is scored again with the labels")
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="a table with columns id, annotator and label (and item, for a checklist), an export of Argilla or Label "
        "Studio, or the labeled table of `evalkit export --to paraphrases`",
    )
    _overrides(parser, "tracking.*")
    parser.add_argument("--to", metavar="mlflow", help="send informative items to a review queue for each annotator")
    parser.add_argument("--from", dest="source", metavar="mlflow", help="read the labels that annotators gave there")
    parser.add_argument("--n", type=positive, default=50, metavar="N", help="about how many items to label")
    parser.add_argument("--annotators", default="human", metavar="ANN,BOB", help="who labels")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the order of items")


def _add_store(parser: Parser) -> None:
    parts: dict[str, tuple[str, Callable[[Parser], None]]] = {
        "stats": ("count the answers of each model and what they cost", lambda _: None),
        "prune": ("delete old or damaged answers", _add_age),
        "export": ("write all answers to a file", lambda part: _add_file(part, "the JSONL file to write")),
        "import": (
            "add the answers in a file",
            lambda part: _add_file(part, "a file from `evalkit store export`"),
        ),
        "copy": ("add the answers of one store to another", _add_stores),
    }
    for name, part in zip(parts, _add_actions(parser, parts), strict=True):
        if name != "copy":
            _overrides(part, "store.url=FILE: use this store instead of the configured one")


def _add_actions(parser: Parser, parts: Mapping[str, tuple[str, Callable[[Parser], None]]]) -> list[Parser]:
    """Add the parser of each action, and return them."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", parser_class=Parser)
    added = []
    for name, (summary, add) in parts.items():
        part = actions.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=DOCS, allow_abbrev=False
        )
        add(part)
        added.append(part)
    return added


def _add_stores(parser: Parser) -> None:
    parser.add_argument("source", metavar="FROM", help="file or URL of the store to read")
    parser.add_argument("target", metavar="TO", help="file or URL of the store to add to; it is created when missing")
    parser.set_defaults(overrides=[])


def _add_age(parser: Parser) -> None:
    parser.add_argument("--older-than", metavar="AGE", help="hours (12h), days (30d) or weeks (4w)")
    parser.add_argument("--damaged", action="store_true", help="delete the answers that cannot be read")


def _add_file(parser: Parser, text: str) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=text)


def _add_batch(parser: Parser) -> None:
    _add_actions(
        parser,
        {
            "write": ("write the requests that are not stored yet to a file", _add_batch_write),
            "read": ("store the answers in a batch's output and error files", _add_batch_read),
        },
    )


def _add_batch_write(parser: Parser) -> None:
    _study(parser)
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="the JSONL file to write, after the overrides; several files are numbered: FILE-1, FILE-2",
    )
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep: write the requests of every combination")
    parser.add_argument("--model", metavar="NAME", help="the model's name in the requests, instead of the provider's")
    parser.add_argument(
        "--max-requests", type=positive, default=50_000, metavar="N", help="the most requests in one file"
    )
    parser.add_argument("--max-megabytes", type=positive, default=200, metavar="N", help="the largest file")


def _add_batch_read(parser: Parser) -> None:
    parser.add_argument("file", nargs="+", metavar="FILE", help="an output or error file of a batch, in any order")
    _overrides(parser, "store.url=FILE: store the answers here, not where they were written for")
    parser.add_argument(
        "--requests",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="accept only answers to this file of requests (no option: to those written in the folders of the answers "
        "and in the current folder)",
    )


def _add_ui(parser: Parser) -> None:
    _study(parser)
    parser.add_argument("-h", "--host", default="127.0.0.1", metavar="HOST", help="where MLflow listens")
    parser.add_argument("-p", "--port", type=port, default=5000, metavar="PORT", help="its port")
    parser.add_argument("-w", "--workers", type=positive, default=1, metavar="N", help="how many worker processes")


def _add_tools(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        type=one_of(*SCHEMAS),
        default="json-schema",
        metavar="FORMAT",
        help="openai or anthropic: the `tools` of a request; mcp: the result of tools/list; json-schema: input and "
        "output of each tool",
    )


def _add_init(parser: Parser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the project folder; existing files are kept")


def _run_groups() -> str:
    """Return the config groups with their options, and the exit status."""
    from evalkit.hydra_app import user_folders
    from evalkit.plugins import CONF, folders

    rows = "\n".join(
        textwrap.fill(f"{group}: {', '.join(options)}", WIDTH, initial_indent="  ", subsequent_indent="    ")
        for group, options in config_groups([*folders(CONF), *user_folders()]).items()
    )
    return f"Config groups (group=option):\n{rows}\n\nEvery key with its value: evalkit run --cfg job\n\n{STATUS}"


def config_groups(more: Sequence[Path] = ()) -> dict[str, list[str]]:
    """Return the options of each config group: evalkit's own, and those in `more` folders."""
    found: dict[str, set[str]] = {}
    for folder in (shipped("conf"), *more):
        for file in folder.rglob("*.yaml"):
            if file.parent != folder:
                found.setdefault(file.parent.relative_to(folder).as_posix(), set()).add(file.stem)
    return {group: sorted(options) for group, options in sorted(found.items())}


COMMANDS: Final = {
    "run": Command(
        "judge and score a dataset, write the run folder and record the run in MLflow",
        "evalkit.cli.run:main",
        _add_run,
        "evalkit run judge=gpt-4o-mini dataset=file dataset.path=mine.jsonl",
        _run_groups,
    ),
    "demo": Command(
        "find the planted faults of three simulated judges, in seconds, without a model or a key",
        "evalkit.cli.demo:main",
        _add_demo,
        "evalkit demo",
    ),
    "audit": Command(
        "plant known biases in the cases, and see which of them the judge falls for",
        "evalkit.cli.audit:main",
        _add_audit,
        "evalkit audit judge=gpt-4o-mini probe=[order,padding,master_key]",
        lambda: (
            "Takes the overrides of `evalkit run`; without probe=…, probe=standard. The run folder gets a datasheet:\n"
            "datasheet.html, datasheet.md and datasheet.json. `evalkit plan audit …` shows what each probe would cost."
        ),
    ),
    "work": Command(
        "judge one shard of a study's cases into the store; `evalkit run` then scores what is stored",
        "evalkit.cli.work:main",
        _add_work,
        "evalkit work experiments/judge_sweep.yaml --shard 3/20",
        lambda: (
            "Start one process per shard, on one machine or many, on one store. One that ends early is started again."
        ),
    ),
    "plan": Command(
        "show what a run or sweep would request and cost, without calling anything",
        "evalkit.cli.plan:main",
        _add_plan,
        "evalkit plan judge=gpt-4o-mini --pilot 20",
        lambda: (
            "`evalkit plan audit …` plans an audit, with a row for each probe.\n"
            "Tokens, minutes and cost are estimates; the line below the table says what they rest on. The total\n"
            "counts a request that several jobs share once."
        ),
    ),
    "batch": Command(
        "write requests to files for batch APIs and offline nodes, and store the answers",
        "evalkit.cli.batch:main",
        _add_batch,
        "evalkit batch write judge=gpt-4o-mini requests.jsonl",
    ),
    "score": Command(
        "score a finished run again with other settings or another gate, without calling a judge",
        "evalkit.cli.finished_run:score",
        _add_score,
        "evalkit score runs/first tie.threshold=0.5 swap.resolve=mean",
    ),
    "compare": Command(
        "compare runs on the cases they share: differences, tests and the smallest detectable effect",
        "evalkit.cli.compare:main",
        _add_compare,
        "evalkit compare runs/small runs/large",
    ),
    "reproduce": Command(
        "run again from stored answers, compare every metric, and explain any difference",
        "evalkit.cli.reproduce:main",
        _add_reproduce,
        "evalkit reproduce runs/first",
    ),
    "track": Command(
        "record a finished run in MLflow",
        "evalkit.cli.finished_run:track",
        _add_track,
        "evalkit track runs/first tracking.uri=sqlite:///mlflow.db",
    ),
    "import": Command(
        "turn judgments made with another tool into a run folder",
        "evalkit.cli.interop:import_",
        _add_import,
        "evalkit import generic judged.csv --fields winner=better --map ours=A --map theirs=B",
        _import_formats,
    ),
    "export": Command(
        "write a run's judgments to a file for another tool",
        "evalkit.cli.interop:export",
        _add_export,
        "evalkit export runs/first --to csv --output judgments.csv",
    ),
    "label": Command(
        "add human labels to a finished run, or ask for labels in MLflow",
        "evalkit.cli.interop:label",
        _add_label,
        "evalkit label runs/first labels.csv",
    ),
    "store": Command(
        "manage stored answers: stats, prune, export, import, copy",
        "evalkit.cli.store:main",
        _add_store,
        "evalkit store prune --older-than 30d",
    ),
    "ui": Command(
        "open MLflow on the configured tracking store",
        "evalkit.cli.ui:main",
        _add_ui,
        "evalkit ui --port 5001",
    ),
    "tools": Command(
        "print the schemas of the agent tools pairwise_compare and direct_score",
        "evalkit.cli.listings:tools",
        _add_tools,
        "evalkit tools --format mcp",
        lambda: "In Python: evalkit.tools.tool_schemas(FORMAT).",
    ),
    "plugins": Command(
        "list what other packages add, and from where",
        "evalkit.cli.listings:plugins",
        lambda _: None,
        "evalkit plugins",
    ),
    "doctor": Command(
        "check versions, keys, endpoints and folders before a run, at no cost",
        "evalkit.cli.doctor:main",
        _study,
        "evalkit doctor judge=gpt-4o-mini",
    ),
    "init": Command(
        "create a project: conf/, prompts/, experiments/ and a sample dataset",
        "evalkit.cli.project:init",
        _add_init,
        "evalkit init my-project",
    ),
}
"""Every command, in the order of the help."""

EXAMPLES: Final = """\
Examples:
  evalkit demo                                     what evalkit finds, on judges with known faults
  evalkit run                                      judge the sample dataset with the embedded model
  evalkit run judge=gpt-4o-mini dataset=file dataset.path=mine.jsonl
  evalkit run judge=gpt-4o,gpt-4o-mini swap=both,none -m       a sweep
  evalkit run experiments/ties_and_conflicts.yaml              a study in one file
  evalkit run --cfg job                            print the composed config with every key
  evalkit audit judge=gpt-4o-mini dataset=file dataset.path=mine.jsonl
  evalkit plan judge=gpt-4o-mini --pilot 20        estimate the cost from 20 requests

Overrides are Hydra's: GROUP=OPTION, key.path=value, -m to sweep.
Tab completion: eval "$(evalkit -sc install=bash)\""""


def root_parser() -> Parser:
    """Return the parser of `evalkit` itself: its help lists the commands."""
    parser = Parser(
        prog="evalkit",
        usage="evalkit COMMAND [...]; evalkit COMMAND --help",
        description="evalkit: which LLM judge configuration to trust, and how far.",
        epilog=f"{EXAMPLES}\n{STATUS}\n\n{DOCS}",
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    parser.add_argument(ALLOW_FLAG, action="store_true", help="the same as after the command")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary, add_help=False)
    return parser


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read a command line that begins with a command's name.

    Raises:
        ConfigError: if there is no such command, or it cannot read the rest.
    """
    name, *rest = words
    if name not in COMMANDS:
        raise ConfigError("no such command", where=name, remedy=did_you_mean(name, COMMANDS))
    parser = COMMANDS[name].parser(name)
    if (actions := subparsers(parser)) is None:
        return parser.read(rest)
    # argparse cannot mix overrides and options of a parser that has parsers of its own.
    if rest and rest[0] in actions:
        found = actions[rest[0]].read(rest[1:])
        return argparse.Namespace(**{**vars(parser.parse_args([])), **vars(found), "action": rest[0]})
    if rest and not rest[0].startswith("-"):
        raise UsageError(name, f"no such action '{rest[0]}'", did_you_mean(rest[0], actions))
    parser.parse_args(rest)
    raise UsageError(name, f"needs an action: {', '.join(actions)}")


def subparsers(parser: argparse.ArgumentParser) -> dict[str, Parser] | None:
    """Return the parsers of a command's actions by name, or `None` if it has no actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a command, each by every spelling."""
    yield from parser._option_string_actions


def study_words(arguments: argparse.Namespace) -> list[str]:
    """Return the positional words of a command with a study: the study, if any, and the overrides."""
    return ([arguments.study] if arguments.study is not None else []) + list(arguments.overrides)


def check_overrides(words: Sequence[str]) -> None:
    """Check that each word is an override and holds no secret, as overrides are kept with a run.

    Raises:
        ConfigError: naming the first word that is not, or does.
    """
    from evalkit.core.redaction import remedy_for, secret_in

    for word in words:
        key, _, value = word.partition("=")
        if (found := secret_in(value)) is not None:
            raise ConfigError(found, where=key, remedy=remedy_for(key.lstrip("+")))
    for word in words:
        if not is_override(word):
            raise ConfigError("is not an override", where=word, remedy="write key=value; a study's file comes first")
