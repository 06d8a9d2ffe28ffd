"""Write docs/reference/commands.md, config.md and files.md from the parser, the config
models and the record types.

Run `python docs/generate_reference.py`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel

from evalkit.cli.parser import COMMANDS, config_groups, default_note, subparsers
from evalkit.config import JudgeConfig, RunConfig
from evalkit.config.align import AlignConfig
from evalkit.core.types import (
    Case,
    Completion,
    Judgment,
    Metric,
    Orders,
    Response,
    Verdict,
    WeightedJudgment,
)

REFERENCE = Path(__file__).parent / "reference"
NOTE = (
    "<!-- Written by docs/generate_reference.py from {}. Edit that, not this page. -->"
)
SWITCHES = ("help", "allow_code")
EXAMPLES = {
    "judge": "judge=gpt-4o-mini judge.temperature=0.7",
    "mode": "mode=pointwise mode.samples=3",
    "criteria": '"criteria=[general,safety]" criteria.accuracy.weight=0.7',
    "rubric": "rubric=likert10",
    "swap": "swap=third_pass",
    "tie": "tie.threshold=0.25",
    "prompt": "prompt=zh",
    "output": "output=bracket",
    "dataset": "dataset=file dataset.path=pairs.jsonl dataset.limit=100",
    "scoring": "scoring.cluster=topic scoring.bootstrap=5000",
    "probe": "probe=[order,padding]",
    "gate": "'gate={agreement/accuracy: \">= 0.8\"}'",
    "store": "store.url=answers.sqlite",
    "runner": "runner.budget_usd=2.5 runner.concurrency=32",
    "tracking": "tracking.experiment=judges",
    "objective": "objective=agreement/accuracy",
}
"""An example of each section, as overrides of `evalkit run`."""


RUN_FILES = {
    "config.yaml": "The complete config. `evalkit run FOLDER/config.yaml` repeats the run.",
    "manifest.json": (
        "Versions, hashes, judges, dataset, times, notes and the MLflow run id; written last, so a"
        " folder without it is not a finished run."
    ),
    "cases.jsonl": "One case per line, as judged.",
    "judgments.jsonl": "One judgment per line: each completion after parsing, with its text.",
    "verdicts.jsonl": (
        "One verdict per line: each pair or response, aggregated over orders, samples and judges."
    ),
    "metrics.json": (
        "All metrics with intervals and bounds, the decision about the judge, the calls and tokens,"
        " and the cost in US dollars."
    ),
    "findings.md": ("The findings of the report, the decision first."),
    "report.html": "The report.",
    "figures/*.svg": "The figures of the report.",
    "images/*": (
        "The pictures of the cases, named by the SHA-256 of their bytes; `.url` for one that the"
        " provider fetches."
    ),
    "prompts.json": (
        "The text of each template in use, by its name in the manifest's `prompt_hashes`."
    ),
}
"""The files that every run writes; `prompts.json` is missing where judgments were imported."""
DETAIL_FILES = {
    "confusion.json": "How often each label met each verdict. Needs labels.",
    "frontier.json": "Ties and accuracy at each tie threshold.",
    "conflicts.json": "The cycles of each case (A > B > C > A), overall and by criterion.",
    "reliability.json": "Accuracy by stated confidence. Needs labels and confidences.",
    "ranking.json": (
        "The ranking of the systems that wrote the responses. Needs the systems' names."
    ),
    "jnd.json": "The just-noticeable difference of margins.",
    "corrected.json": "Win rates and mean scores corrected by the labeled cases.",
    "cascade.json": (
        "The thresholds of a cascade, the labels behind them, and how many verdicts each judge"
        " gives."
    ),
    "panel.json": (
        "Every subset of a panel's judges, the cheapest first: accuracy, $ per case, and the one to"
        " use."
    ),
    "sequence.json": "The intervals of the metric of `runner.stop` by the number of clusters.",
    "slices.json": (
        "Metrics by slice with intervals, the value of the rest, tests, and shrunk estimates."
    ),
    "causes.json": (
        "Why answers cannot be used: status, kind, reason and count of each cause, with an example. "
        "Needs an unusable answer."
    ),
    "annotators.json": (
        "Agreement of the judge and of each annotator with the others. Needs several annotators."
    ),
}
"""The files that scoring writes if the run has data for them."""
COMMAND_FILES = {
    "datasheet.html": (
        "What the judge falls for, what it withstands, and on what that rests (`evalkit audit`)."
    ),
    "datasheet.md": "The same as Markdown.",
    "datasheet.json": "The same as JSON, each sentence in English and Chinese.",
    "effects.jsonl": "The effect of each probe on each case (`evalkit audit`).",
    "probe_cases.jsonl": (
        "The edited cases (`evalkit audit`). An id is the case's id, `#probe:` and the probe's"
        " name."
    ),
    "probe_judgments.jsonl": "The judgments of the edited cases (`evalkit audit`).",
    "unstored-answers.jsonl": (
        "The answers that the store did not take, because its server or disk was away; the error"
        " says how to add them (`evalkit store import`)."
    ),
    "gate.json": "The gate's rules and their results (a run with `gate`).",
    "gate.xml": "The same as JUnit XML.",
    "gate.md": "The same as Markdown.",
    "reproduction.json": (
        "Whether the run was reproduced, and each metric that differs (`evalkit reproduce`)."
    ),
    "judgments.csv": "One judgment per row (`evalkit export`).",
    "judgments.parquet": (
        "The same as Parquet (`evalkit export`, or `runner.judgments=parquet` in its place)."
    ),
    "judgments-table.parquet": (
        "What `evalkit export --to parquet` writes in a run whose own judgments are Parquet."
    ),
    "alpaca_eval.json": "Annotations in AlpacaEval's format (`evalkit export`).",
    "mt_bench.jsonl": "Judgments in MT-bench's format (`evalkit export`).",
    "argilla.json": "Tasks for Argilla (`evalkit export`).",
    "label_studio.json": "Tasks for Label Studio (`evalkit export`).",
    "label-sample.json": (
        "The cases sampled for labeling, with probabilities (`evalkit export --n`, `evalkit"
        " label`)."
    ),
    "split.json": (
        "The cases of train, dev and test, the hash of the data, and when test labels were opened "
        "(`evalkit align`, or a run with `dataset.holdout`)."
    ),
    "holdout.jsonl": (
        "The cases of test with their labels, which no other file has (`dataset.holdout`)."
    ),
    "alignments.json": "The result of each `evalkit align`.",
    "labels-NAME.jsonl": (
        "The labels of one annotator, in the order in which they were given "
        "(`evalkit label --page`). No command deletes it."
    ),
}
"""The files that other commands add to a run folder."""
SWEEP_FILES = {
    "sweep.json": (
        "The config hashes of the jobs, with the sweep's start and end. It resumes the sweep."
    ),
    "multirun.yaml": "Hydra's record of the sweep.",
    "leaderboard.csv": (
        "One job per row, best first, with intervals, and its `decision` with the `reason`."
    ),
    "leaderboard.json": (
        "The same, with each pair of jobs compared, and `choices`: for each dataset the `job` to"
        " use (or none), the `reason` (`luck`: the highest may be useful by luck only), `rivals` that may"
        " be better, `labels_needed` to decide, and"
        " the sentence as `text`."
    ),
    "cases.csv": (
        "What each job decided about each case, with the label, the cases on which they differ first."
    ),
    "cases.html": (
        "The same as a page, with texts, reasons and labels: filters show where jobs or orders"
        " disagree, and who is wrong."
    ),
    "report.html": "The leaderboard as a page, with links to the reports of the jobs.",
    "datasheet.html": (
        "Of audits: the judges compared probe by probe; also as `datasheet.md` and"
        " `datasheet.json`."
    ),
    "0/, 1/, …": "The run folder of each job.",
}
"""The files of a sweep's folder."""
WATCH_FILES = {
    "watch.json": (
        "The baselines, each with its units, labels and clusters, and its looks: the `key` of its"
        " stored answers, whether it is `complete`, its answers, the models and fingerprints that"
        " the provider reported, and the `facts` after it."
    ),
    "watch.html": "The history of the looks as a page.",
    "looks/001/, looks/002/, …": "The run folder of each look.",
}
"""The files of the folder of `evalkit watch`."""
RECORDS: dict[str, tuple[type, ...]] = {
    "cases.jsonl": (Case, Response),
    "judgments.jsonl": (Judgment, Completion, WeightedJudgment),
    "verdicts.jsonl": (Verdict, Orders),
    "metrics.json": (Metric,),
}
"""The classes whose fields are the keys of a file; after the first one, those inside it."""


def commands_page() -> str:
    """Return the page of all commands with their arguments and options."""
    parts = ["# Commands", NOTE.format("evalkit/cli/parser.py")]
    parts.append(
        "Every command also has `--help`, `--trust HOST` and `--allow-code`: it lets configs name"
        " code and set any option of workers. Arguments of several commands are explained first;"
        " `options` are those in a command's own table."
    )
    parts.append("[Exit codes](exit-codes.md) are those of all commands.")
    parsers = {name: command.parser() for name, command in COMMANDS.items()}
    shared = _shared_rows(parsers.values())
    parts += ["## Arguments of several commands", "\n\n".join(shared)]
    for name, command in COMMANDS.items():
        parser = parsers[name]
        parts += [
            f"## evalkit {name}",
            f"{_sentence(command.summary)}",
            *_arguments(parser, shared),
        ]
        for action, part in (subparsers(parser) or {}).items():
            parts += [
                f"### evalkit {name} {action}",
                str(part.description),
                *_arguments(part, shared),
            ]
        parts.append(f"```text\n{command.example}\n```")
    return "\n\n".join(parts) + "\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _shared_rows(parsers: Iterable[argparse.ArgumentParser]) -> list[str]:
    """Return a row for each argument of several commands, with its most frequent meaning."""
    rows = Counter(
        row
        for parser in parsers
        for each in (parser, *(subparsers(parser) or {}).values())
        for row in _rows(each)
    )
    most: dict[str, str] = {}
    for row, count in rows.most_common():
        if count > 1:
            name = row.partition("\n")[0]
            most.setdefault(name, row)
    return list(most.values())


def _arguments(parser: argparse.ArgumentParser, shared: Sequence[str]) -> Iterator[str]:
    rows = [row for row in _rows(parser) if row not in shared]
    words = [parser.prog]
    optional = ""
    for action, row in zip(_actions(parser), _rows(parser), strict=True):
        if action.option_strings and not action.required and row in rows:
            optional = "[options]"
        elif action.dest != "trust":
            words.append(_usage(action))
    yield f"```text\n{' '.join(words)} {optional}".rstrip() + "\n```"
    yield from rows


def _defined(term: str, meaning: str) -> str:
    """Return an entry of a definition list."""
    return f"{term}\n:   {' '.join(meaning.split())}"


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [one for one in parser._actions if one.dest not in (*SWITCHES, "action")]


def _rows(parser: argparse.ArgumentParser) -> list[str]:
    return [
        _defined(f"`{_name(one)}`", str(one.help) + default_note(one) % vars(one))
        for one in _actions(parser)
    ]


def _name(action: argparse.Action) -> str:
    values = "" if action.nargs == 0 else f" {action.metavar}"
    return ", ".join(f"{flag}{values}" for flag in action.option_strings) or str(
        action.metavar
    )


def _usage(action: argparse.Action) -> str:
    word = action.option_strings[-1] if action.option_strings else ""
    value = (
        ""
        if action.nargs == 0
        else f"{action.metavar}{' …' if action.nargs in ('*', '+') else ''}"
    )
    text = f"{word} {value}".strip()
    required = action.required if action.option_strings else action.nargs in (None, "+")
    return text if required else f"[{text}]"


def config_page() -> str:
    """Return the page of all config keys with type, default and meaning."""
    parts = ["# Config keys", NOTE.format("the models in evalkit/config")]
    parts.append(
        "Set a key on the command line (`evalkit run judge.temperature=0.7`), or in a study or in a"
        " file of `conf/`. `evalkit run --cfg job` prints every key with its value. A group has"
        " ready options, such as `swap=both`; additional options are files in `conf/GROUP/`. A key has"
        " its type and its default in parentheses, or a default that shows the type; without a"
        " default it is `null`."
    )
    groups = config_groups()
    meanings = field_meanings(RunConfig)
    for name, field in RunConfig.model_fields.items():
        parts += [f"## {name}", meanings[name]]
        if options := groups.get(name):
            parts.append(f"Options: {', '.join(f'`{option}`' for option in options)}.")
        if model := _model(field.annotation):
            prefix = f"{name}.NAME." if name == "criteria" else f"{name}."
            parts.append(_table(model, prefix))
            parts += _nested(model, prefix, {JudgeConfig, model})
        parts.append(f"```text\nevalkit run {EXAMPLES[name]}\n```")
    parts += [
        "## evalkit align",
        f"{inspect.getdoc(AlignConfig)} These are settings of this command only; `tune` has no prefix.",
    ]
    parts.append(_table(AlignConfig, "align.").replace("`align.tune`", "`tune`"))
    parts.append(
        "```text\nevalkit align runs/first tune=prompt align.model=openai/gpt-4o"
        " align.budget_usd=5\n```"
    )
    return "\n\n".join(parts) + "\n"


def _nested(
    model: type[BaseModel], prefix: str, known: set[type[BaseModel]]
) -> Iterator[str]:
    """Yield a table for each model inside a section, such as `dataset.join`."""
    fields = [
        (name, _model(field.annotation)) for name, field in model.model_fields.items()
    ]
    extra = inspect.get_annotations(model, eval_str=True).get("__pydantic_extra__")
    for name, inner in [*fields, ("METRIC", _model(extra))]:
        if inner is not None and inner not in known:
            known.add(inner)
            yield f"### {prefix}{name}"
            yield inspect.cleandoc(str(inner.__doc__))
            yield _table(inner, "")


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the model in a type, such as that in `tuple[Model, ...] | None`."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next(
        (found for part in get_args(annotation) if (found := _model(part))), None
    )


def _table(model: type[BaseModel], prefix: str) -> str:
    meanings = field_meanings(model)
    entries = []
    for name, field in model.model_fields.items():
        default = (
            "required"
            if field.is_required()
            else f"`{_default(field.get_default(call_default_factory=True))}`"
        )
        facts = [_type(model, name), default]
        if default == "`null`":
            facts = [facts[0].replace(" or null", "")]
        elif (facts[0], default) in EVIDENT:
            facts = [default]
        term = f"`{prefix}{name}` ({'; '.join(facts)})"
        entries.append(_defined(term, meanings.get(name, "")))
    return "\n\n".join(entries)


EVIDENT = {("boolean", "`true`"), ("boolean", "`false`"), ("mapping", "`{}`")}
"""Types that the default shows, each with that default."""


def _default(value: Any) -> str:
    if isinstance(value, tuple):
        value = list(value)
    return (
        yaml.safe_dump(value, default_flow_style=True)
        .removesuffix("\n")
        .removesuffix("\n...")
    )


def _type(model: type[BaseModel], name: str) -> str:
    """Return a key's type in the words of YAML."""
    schema = model.model_json_schema()
    properties = (
        schema.get("properties") or schema["$defs"][model.__name__]["properties"]
    )
    return _schema_type(properties[name])


def _schema_type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_schema_type(one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items") or {}
        return f"list of {_schema_type(items)}" if items.get("type") else "list"
    names = {
        "string": "text",
        "integer": "integer",
        "number": "number",
        "boolean": "boolean",
        "null": "null",
    }
    bounds = [
        f"{sign} {schema[key]:g}"
        for key, sign in (
            ("exclusiveMinimum", ">"),
            ("minimum", "≥"),
            ("exclusiveMaximum", "<"),
            ("maximum", "≤"),
        )
        if key in schema
    ]
    return " ".join([names.get(str(kind), "mapping"), ", ".join(bounds)]).strip()


def field_meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring under each field of a model and of the models that it extends."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            tree = ast.parse(inspect.getsource(sys.modules[base.__module__]))
            body = next(
                node.body
                for node in tree.body
                if isinstance(node, ast.ClassDef) and node.name == base.__name__
            )
            for field, after in pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                    found[ast.unparse(field.target)] = inspect.cleandoc(
                        ast.literal_eval(after.value)
                    )
    return {name: re.sub(r"\s+", " ", text) for name, text in found.items()}


def files_page() -> str:
    """Return the page of the files of run and sweep folders, with the fields of their records."""
    parts = [
        "# Run folder",
        NOTE.format("docs/generate_reference.py and evalkit/core/types.py"),
    ]
    parts.append(
        "A run writes everything to one folder. It is complete: every command that takes a run"
        " works on the folder alone, without the store, MLflow or a model. JSON is strict UTF-8, a"
        " missing value is `null`, and lines of `.jsonl` files are in the order of the cases."
    )
    for title, files in (
        ("Every run", RUN_FILES),
        ("Details of scoring", DETAIL_FILES),
        ("Added by commands", COMMAND_FILES),
        ("Sweep folder", SWEEP_FILES),
        ("Watch folder", WATCH_FILES),
    ):
        parts += [f"## {title}", *_entries(files)]
    parts.append(
        "A detail file is written only if the run has data for it; the manifest's `files` lists"
        " those written."
    )
    parts += [
        "## Fields of records",
        "The keys of a record are the fields of a class of the"
        " [Python API](python.md#values-between-stages), which explains them:",
    ]
    lines = []
    for file, types in RECORDS.items():
        first, *inner = (f"`{record.__name__}`" for record in types)
        inside = f", with {' and '.join(inner)} inside" if inner else ""
        lines.append(f"- `{file}`: {first}{inside}.")
    parts.append("\n".join(lines))
    parts += ["## Fields of metrics.json", METRICS_JSON, *_entries(DECISION)]
    return "\n\n".join(parts) + "\n"


def _entries(meanings: dict[str, str]) -> list[str]:
    return [_defined(f"`{name}`", meaning) for name, meaning in meanings.items()]


METRICS_JSON = (
    "`metrics` holds each metric by its name, without the field `name`. Next to it are `calls`"
    " (requests planned, from the store, sent, retried and failed), `tokens` and"
    " `cost_usd`.\n\n`decision` is what may be concluded about the judge. With a panel, `decisions`"
    " has the same of each judge, by the name that it has in metrics."
)
DECISION = {
    "use": (
        "What the judge is good for: `single` verdicts, `rates` over many, `rates_corrected` by"
        " labels, `order` only, `none`, or `unknown`."
    ),
    "reason": "Why, as one word.",
    "unit": "What a verdict is about: a `pair`, `response` or `item`.",
    "evidence": (
        "The metric that decided, with its interval and `n`; `null` without labels."
    ),
    "limits": (
        "What limits trust: the `kind`, its `subject`, and the metric that shows it."
    ),
    "labels_needed": (
        "How many more labels would probably decide; only if `use` is `unknown`."
    ),
    "labels_range": "The least and the most that it could take.",
    "where": "The slices in which the judge cannot be used for `use`.",
    "order": (
        "Whether scores put responses in the order of the labels; `null` if unknown."
    ),
    "possible": "The strongest use that the intervals do not exclude.",
}
"""The keys of the decision in metrics.json."""


PAGES = {"commands.md": commands_page, "config.md": config_page, "files.md": files_page}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (REFERENCE / page).write_text(write(), "utf-8")
