"""LLMBar (Zeng et al. 2024, ICLR, arXiv 2310.07641): pairs in which one output follows the instruction.

Judgments are published as SET/evaluators/JUDGE/STRATEGY/result.json. A row has the pair, the gold label, and the texts
and winners of both orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.benchmark import Benchmark, Importer, RowLocation, choice, row_by_row, shape, share_row
from evalkit.benchmarks.judgment_files import Peek, number, require
from evalkit.benchmarks.judgment_files import rows_of as judged_rows
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.benchmarks.scoring_rules import ONE_ORDER, UNREAD, View, blend, nothing
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.errors import ConfigError
from evalkit.scoring.columns import NONE, TIE, A, B
from evalkit.scoring.stats.arrays import Bools, Codes
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Metric

NAME: Final = "llmbar"
SETS: Final = ("natural", "neighbor", "gptinst", "gptout", "manual")

RESULTS, EVALUATORS = "result.json", "evaluators"

ORDERS = ("swap = False", "swap = True")

PATTERN = r"Output \((?P<winner>[ab])\)"

_SIDES = {"a": "A", "b": "B"}


def _read_case(row: Row, at: RowLocation) -> Row:
    subset = at.file.resolve().parent.name.lower()
    return {
        "id": f"{subset}/{at.number}",
        "prompt": row["input"],
        "response_a": row["output_1"],
        "response_b": row["output_2"],
        "label": choice(row["label"], {"1": "A", "2": "B"}, at.place),
        "subset": subset,
    }


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `llmbar/mean_accuracy` and `llmbar/agreement_rate` for all sets, the adversarial ones and each.

    Accuracy is the mean over both orders; agreement is the share of pairs in which both orders choose the same output.
    Averages are over sets with equal weight (Zeng et al. 2024, arXiv 2310.07641, section 4, the table of main results).
    They count an unreadable answer as wrong, which is `worst_low` here. Cases without a set are one set.
    Scores have the same winner in both orders, except equal scores, for which they choose the output shown first.
    """
    named = view.subsets()
    subsets = named or {"": np.ones(len(view.cases), dtype=bool)}
    scored = view.outcome.scores is not None and not view.outcome.listed
    passes = np.stack([np.where(view.passes[:, 0] == TIE, one, view.passes[:, 0]) for one in (A, B)], axis=1)
    passes = passes if scored else view.passes
    accuracy = {name: _order_rates(view, passes, cases[view.pairs.case]) for name, cases in subsets.items()}
    agreement = {name: _agreed(view, passes, f"llmbar/agreement_rate/{name}", subsets[name]) for name in subsets}
    found: list[Statistic | Metric] = []
    for group, names in _groups(tuple(named)).items() if named else (("", [""]),):
        note = _missing_sets(group, names) if named else "the cases have no set: read as one set"
        orders = [order for name in names for order in accuracy[name]]
        found.append(blend(f"llmbar/mean_accuracy{group}", orders, note=note, why="no case has a subset"))
        together = [agreement[name] for name in names]
        found.append(
            blend(f"llmbar/agreement_rate{group}", together, note=note, why="no case has a subset")
            if view.both or scored
            else nothing(f"llmbar/agreement_rate{group}", ONE_ORDER)
        )
    return found


def _groups(names: tuple[str, ...]) -> dict[str, list[str]]:
    adversarial = [name for name in names if name != "natural"]
    groups = {"": list(names), **({"/adversarial": adversarial} if adversarial else {})}
    return groups | {f"/{name}": [name] for name in names}


def _missing_sets(group: str, names: Sequence[str]) -> str | None:
    """Return a note on the published sets missing from an average."""
    wanted = {"": SETS, "/adversarial": SETS[1:]}.get(group, ())
    missing_sets = [name for name in wanted if name not in names]
    return f"without {', '.join(missing_sets)}" if missing_sets else None


def _order_rates(view: View, passes: Codes, rows: Bools) -> list[Statistic]:
    """Return the accuracy of each order over labeled rows."""
    wanted = rows & view.labeled
    return [
        view.tally.rate("order", one == view.pairs.label, wanted & (one != NONE), wanted & (one == NONE), why=UNREAD)
        for one in passes.T
    ]


def _agreed(view: View, passes: Codes, name: str, cases: Bools) -> Statistic:
    rows = cases[view.pairs.case]
    read = (passes != NONE).all(axis=1)
    same = passes[:, 0] == passes[:, -1]
    return view.tally.rate(name, same, rows & read, rows & ~read, why="no pair was read in both orders")


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows are LLMBar results."""
    return RESULTS in start.names or start.has("output_1", "output_2", "results") or bool(_published(start.path))


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return two records for each row, one per order, or with `--scores` one for each rated output.

    For a folder, its result.json is read, or all sets below it: each evaluator is a judge, or only `options.judge`.

    Raises:
        ConfigError: If `options.judge` or `--scores` selects no result.
    """
    evaluators = _result_files(path, options)
    files = [(judge, file) for judge, of_judge in evaluators.items() for file in of_judge]
    strategy = files[0][1].parent.name if files[0][1].name == RESULTS else files[0][1].stem
    placed = [
        (judge, file, index, place, row)
        for judge, file in files
        for index, (place, row) in enumerate(judged_rows(file))
    ]
    ratings = [one for one in placed if "score_1" in _results(one[-1], one[-2])]
    if options.scores and not (placed := ratings):
        raise ConfigError("has winners but no scores", where=str(path), remedy="remove --scores")
    judged = [order for order in ORDERS if any(_results(row, place).get(order) for *_, place, row in placed)] or ORDERS
    records = [
        replace(record, question=f"{of_set}/{index + 1}", metadata={"subset": of_set}) if of_set else record
        for judge, file, index, place, row in placed
        for of_set in [_set_of(file)]
        for record in (_score_records if options.scores else _winner_records)(row, index, place, judge, judged)
    ]
    if options.scores:
        digits = {"format": "regex", "pattern": r"(?P<score>\d+)", "take": "first"}
        return ParsedFile(records, digits, scale=(0.0, 9.0, 1.0), benchmark=NAME, below=True)
    notes = ("winners derived from two scores: ties were decided by order",) if ratings else ()
    output = None if ratings or len(evaluators) > 1 else _output(records, strategy)
    return ParsedFile(records, output, benchmark=NAME, notes=notes, below=True)


def _published(folder: Path) -> dict[str, list[Path]]:
    """Return the results below a folder, by evaluator: JUDGE/STRATEGY."""
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.glob(f"**/{EVALUATORS}/*/*/{RESULTS}")) if folder.is_dir() else ():
        found.setdefault("/".join(file.parts[-3:-1]), []).append(file)
    return found


def _result_files(path: Path, options: Options) -> dict[str, list[Path]]:
    """Return the results to read, by the name of the judge."""
    if not path.is_dir() or (path / RESULTS).is_file():
        file = path / RESULTS if path.is_dir() else path
        return {options.judge or (file.parent.parent.name if file.name == RESULTS else file.stem): [file]}
    published = _published(path)
    if options.judge in published:
        return {options.judge: published[options.judge]}
    if len(published) == 1:
        ((evaluator, files),) = published.items()
        return {options.judge or evaluator.partition("/")[0]: files}
    if options.judge is not None:
        remedy = f"select one: --judge {' or '.join(published)}"
        raise ConfigError(f"has no evaluator '{options.judge}'", where=str(path), remedy=remedy)
    return published


def _set_of(file: Path) -> str | None:
    """Return the set of a result, by its published folder."""
    parts = file.resolve().parts
    return parts[-5].lower() if len(parts) > 4 and parts[-4] == EVALUATORS else None


def _output(records: Sequence[Record], strategy: str) -> Mapping[str, Any]:
    texts = [record.said.text or "" for record in records]
    concluding = sum("is better" in text for text in texts)
    reasoned = strategy.startswith("CoT") or concluding > len(texts) / 2
    return {"format": "regex", "pattern": PATTERN + " is better" * reasoned, "map": _SIDES}


def _results(row: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    results = require(row, "results", place)
    last: Mapping[str, Any] = results[-1] if results else {}
    return last


def _answers(row: Mapping[str, Any], place: str) -> tuple[Answer, Answer]:
    return Answer("1", str(require(row, "output_1", place))), Answer("2", str(require(row, "output_2", place)))


def _winner_records(
    row: Mapping[str, Any], index: int, place: str, judge: str, orders: Sequence[str]
) -> Iterator[Record]:
    one, two = _answers(row, place)
    better, last = _gold(row, place), _results(row, place)
    for order in orders:
        entry = last.get(order) or {}
        shown = (one, two) if order == ORDERS[0] else (two, one)
        text = (entry.get("completion") or [None])[0]
        winner = str(entry.get("winner"))
        if winner in ("1", "2"):
            said = RecordedJudgment(judge, value=1.0 if winner == shown[0].key else -1.0, text=text)
        else:
            said = missing_record(judge, f"winner is {winner}", text=text)
        yield Record(str(index), str(row.get("input", "")), shown, said, better)


def _gold(row: Mapping[str, Any], place: str) -> str | None:
    return choice(row.get("label"), {"1": "1", "2": "2"}, place)


def _score_records(row: Mapping[str, Any], index: int, place: str, judge: str, _: Sequence[str]) -> Iterator[Record]:
    better, last = _gold(row, place), _results(row, place)
    for answer in _answers(row, place):
        text = str((last.get(f"score_{answer.key}") or [""])[0])
        score = number(text.strip())
        said = (
            RecordedJudgment(judge, scores={"quality": score}, text=text)
            if score is not None
            else missing_record(judge, text, text=text)
        )
        grade = None if better is None else float(answer.key == better)
        shown = (Answer(answer.key, answer.text, None, grade),)
        yield Record(str(index), str(row.get("input", "")), shown, said)


_SOURCE = "Zeng et al. 2024, arXiv 2310.07641, section 4"
_ORDERS = "Mean accuracy of the two orders, averaged over sets"
_SAME = "Share of pairs for which both orders name the same output, averaged over sets"
_METRICS: Final = (
    share_row(
        "llmbar/mean_accuracy",
        "mean accuracy of the orders",
        f"{_ORDERS}.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "llmbar/agreement_rate",
        "same verdict in both orders",
        f"{_SAME}.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "llmbar/mean_accuracy/{set}",
        "mean accuracy of the orders, {set}",
        f"{_ORDERS}; for one set, or for the adversarial sets.",
        _SOURCE,
    ),
    share_row(
        "llmbar/agreement_rate/{set}",
        "same verdict in both orders, {set}",
        f"{_SAME}; for one set, or for the adversarial sets.",
        _SOURCE,
    ),
)


LLMBAR: Final = Benchmark(
    "llmbar",
    "LLMBar",
    kind="LLMBar pairs",
    license="MIT",
    citation="Zeng et al. 2024, ICLR, arXiv 2310.07641",
    homepage="https://github.com/princeton-nlp/LLMBar",
    expects="a dataset.json of LLMBar, or the folder Dataset/LLMBar with its subsets",
    shapes=(shape("input", "output_1", "output_2", "label"),),
    read=row_by_row(_read_case),
    files="dataset.json*",
    rule=_rule,
    importer=Importer(
        "llmbar",
        "LLMBar's result.json, or the folder of its sets; --judge GPT-4/CoT selects one",
        _sniff,
        _read_judgments,
    ),
    metrics=_METRICS,
    extra_values={"set": ("adversarial",)},
    words={
        "adversarial": gettext("adversarial sets"),
        "natural": gettext("natural"),
        "neighbor": gettext("neighbor"),
        "gptinst": gettext("GPTInst"),
        "gptout": gettext("GPTOut"),
        "manual": gettext("manual"),
    },
    main_metric="llmbar/mean_accuracy",
)

BENCHMARKS: Final = (LLMBAR,)
