"""LLMBar (Zeng et al. 2024, ICLR, arXiv 2310.07641): pairs in which one output follows
the instruction.

Judgments are published as SET/evaluators/JUDGE/STRATEGY/result.json. A row has the pair, the gold
label, and the texts and winners of both orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from evalkit.benchmarks.shared.benchmark import benchmark, choice, one_of, row_by_row
from evalkit.benchmarks.shared.scoring_rules import (
    ONE_ORDER,
    View,
    blend,
    labeled_rates,
    nothing,
    without,
)
from evalkit.core.errors import ConfigError
from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    Peek,
    located_rows,
    number,
)
from evalkit.interop.layouts.layouts import Cells, Field, decided, records_of
from evalkit.interop.layouts.records import Options, ParsedFile, Record
from evalkit.scoring.columns import NONE, TIE, A, B
from evalkit.scoring.stats.statistic import Measures, Statistic

NAME: Final = "llmbar"
SETS: Final = ("natural", "neighbor", "gptinst", "gptout", "manual")

RESULTS, EVALUATORS = "result.json", "evaluators"

# Keys of the published results: whether the outputs were swapped.
ORDERS = ("swap = False", "swap = True")

PATTERN = r"Output \((?P<winner>[ab])\)"

_SIDES = {"a": "A", "b": "B"}


_CASE: Final[Mapping[str, Field]] = {
    # The number of a row in its set is all that identifies it.
    "id": lambda row: f"{_folder(row)}/{row.number}",
    "prompt": "input",
    "response_a": "output_1",
    "response_b": "output_2",
    "label": one_of("label", {"1": "A", "2": "B"}),
    "subset": lambda row: _folder(row),
}


def _folder(row: LocatedRow) -> str:
    return row.file.resolve().parent.name.lower()


def _rule(view: View) -> Measures:
    """Return `llmbar/mean_accuracy` and `llmbar/agreement_rate` for all sets, the
    adversarial ones and each.

    Accuracy is the mean over both orders; agreement is the share of pairs in which both orders
    choose the same output. Averages are over sets with equal weight (Zeng et al. 2024, arXiv
    2310.07641, section 4, the table of main results). They count an unreadable answer as wrong,
    which is `worst_low` here. Cases without a set are one set. Scores have the same winner in both
    orders, except equal scores, for which they choose the output shown first.
    """
    subsets = view.subsets() or {"": np.ones(len(view.cases), dtype=bool)}
    scored = view.outcome.scores is not None and not view.outcome.listed
    passes = np.stack(
        # A tie of scores is given to the output that each order shows first: A, then B.
        [
            np.where(view.passes[:, 0] == TIE, side, view.passes[:, 0])
            for side in (A, B)
        ],
        axis=1,
    )
    # Only single scores have such ties; comparisons name a winner.
    passes = passes if scored else view.passes
    read = (passes != NONE).all(axis=1)
    same = passes[:, 0] == passes[:, -1]
    orders = dict[str, list[Statistic]]()
    # Both tables by set: the accuracy of each order, and the agreement of orders.
    agreed = dict[str, Statistic]()
    for name, cases in subsets.items():
        rows = cases[view.pairs.case]
        # [0] is the metric over all cases, [1] that of this set.
        orders[name] = [
            labeled_rates(
                view, name, winners == view.pairs.label, winners != NONE, {"": cases}
            )[1]
            # One array of winners for each order.
            for winners in passes.T
        ]
        why = "no pair was read in both orders"
        agreed[name] = view.tally.rate(
            name, same, rows & read, rows & view.lost(read), why=why
        )
    measures: Measures = []
    for group, names in _groups(tuple(subsets)).items():
        # The sets of the paper, of which the run may have only some.
        published = {"": SETS, "/adversarial": SETS[1:]}.get(group, ())
        if names != [""]:
            note = without(published, names)
        else:
            note = "the cases have no set: read as one set"
        # Both orders of each set have equal weight.
        accuracy = [order for name in names for order in orders[name]]
        together = [agreed[name] for name in names]
        measures.append(blend(f"llmbar/mean_accuracy{group}", accuracy, note=note))
        name = f"llmbar/agreement_rate{group}"
        measures.append(
            blend(name, together, note=note)
            if view.both or scored
            else nothing(name, ONE_ORDER)
        )
    return measures


def _groups(names: tuple[str, ...]) -> dict[str, list[str]]:
    # All sets but Natural are adversarial.
    adversarial = [name for name in names if name not in ("natural", "")]
    groups = {"": list(names), **({"/adversarial": adversarial} if adversarial else {})}
    # The empty name is all sets together.
    return groups | {f"/{name}": [name] for name in names if name}


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows are LLMBar results."""
    return (
        RESULTS in start.names
        or start.has("output_1", "output_2", "results")
        or bool(_published(start.path))
    )


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return two records for each row, one per order, or with `--scores` one for each rated output.

    For a folder, its result.json is read, or all sets below it: each evaluator is a judge, or only
    `options.judge`.

    Raises:
        ConfigError: If `options.judge` or `--scores` selects no result.
    """
    evaluators = _result_files(path, options)
    rows = [
        row
        for judge, files in evaluators.items()
        for file in files
        for row in _judged_by(judge, file)
    ]
    ratings = [row for row in rows if "score_1" in _results(row)]
    # `--scores` reads ratings only.
    if options.scores and not (rows := ratings):
        raise ConfigError(
            "has winners but no scores", where=str(path), remedy="remove --scores"
        )
    # Some strategies judge one order only; without any, both are missing.
    orders = [
        order for order in ORDERS if any(_results(row).get(order) for row in rows)
    ] or ORDERS
    if options.scores:
        digits = {"format": "regex", "pattern": r"(?P<score>\d+)", "take": "first"}
        records = records_of(rows, _score_records, "response", options)
        return ParsedFile(
            records, digits, scale=(0.0, 9.0, 1.0), benchmark=NAME, below=True
        )
    records = records_of(
        rows, lambda row: _winner_records(row, orders), "pair", options
    )
    notes = (
        ("winners derived from two scores: ties were decided by order",)
        if ratings
        else ()
    )
    first = next(file for files in evaluators.values() for file in files)
    # The folder is named after the strategy, such as CoT or Vanilla.
    strategy = first.parent.name if first.name == RESULTS else first.stem
    # Texts of one strategy can be read again by its pattern.
    output = None if ratings or len(evaluators) > 1 else _output(records, strategy)
    return ParsedFile(records, output, benchmark=NAME, notes=notes, below=True)


def _published(folder: Path) -> dict[str, list[Path]]:
    """Return the results below a folder, by evaluator: JUDGE/STRATEGY."""
    by_evaluator: dict[str, list[Path]] = {}
    for file in (
        sorted(folder.glob(f"**/{EVALUATORS}/*/*/{RESULTS}")) if folder.is_dir() else ()
    ):
        # JUDGE/STRATEGY from the path .../JUDGE/STRATEGY/result.json.
        by_evaluator.setdefault("/".join(file.parts[-3:-1]), []).append(file)
    return by_evaluator


def _result_files(path: Path, options: Options) -> dict[str, list[Path]]:
    """Return the results to read, by the name of the judge."""
    if not path.is_dir() or (path / RESULTS).is_file():
        file = path / RESULTS if path.is_dir() else path
        return {
            options.judge
            # The folder above the strategy is named after the judge.
            or (file.parent.parent.name if file.name == RESULTS else file.stem): [file]
        }
    published = _published(path)
    if options.judge in published:
        return {options.judge: published[options.judge]}
    if len(published) == 1:
        ((evaluator, files),) = published.items()
        return {options.judge or evaluator.partition("/")[0]: files}
    if options.judge is not None:
        remedy = f"select one: --judge {' or '.join(published)}"
        raise ConfigError(
            f"has no evaluator '{options.judge}'", where=str(path), remedy=remedy
        )
    return published


def _set_of(file: Path) -> str | None:
    """Return the set of a result, by its published folder."""
    parts = file.resolve().parts
    # SET/evaluators/JUDGE/STRATEGY/result.json: the set is the fifth part from the end.
    if len(parts) > 4 and parts[-4] == EVALUATORS:
        return parts[-5].lower()
    return None


def _output(records: Sequence[Record], strategy: str) -> Json:
    texts = [record.said.text or "" for record in records]
    concluding = sum("is better" in text for text in texts)
    # Strategies with reasoning end with a sentence, the others with the output's name only.
    reasoned = strategy.startswith("CoT") or concluding > len(texts) / 2
    return {
        "format": "regex",
        "pattern": PATTERN + " is better" * reasoned,
        "map": _SIDES,
    }


def _results(row: LocatedRow) -> Json:
    results = row["results"]
    last: Json = results[-1] if results else {}
    return last


def _judged_by(judge: str, file: Path) -> Iterator[LocatedRow]:
    for row in located_rows(file):
        row["judge"] = judge
        yield row


def _asked(row: LocatedRow) -> JsonObject:
    of_set = _set_of(row.file)
    fields = {
        "prompt": row.get("input", ""),
        "judge": row["judge"],
        "metadata": {"subset": of_set} if of_set else {},
    }
    # Numbers from 1, as in the ids of the dataset's cases.
    return {"id": f"{of_set}/{row.number + 1}" if of_set else row.number, **fields}


def _winner_records(row: LocatedRow, orders: Sequence[str]) -> Iterator[Cells]:
    """Yield a record for each order in which the judge compared the two outputs."""
    outputs = {"response_a": row["output_1"], "response_b": row["output_2"]}
    label = choice(row.get("label"), {"1": "A", "2": "B"}, row.place)
    for order in orders:
        entry = _results(row).get(order) or {}
        yield {
            **_asked(row),
            **outputs,
            "label": label,
            "order": "ab" if order == ORDERS[0] else "ba",
            "text": (entry.get("completion") or [None])[0],
            **decided("winner", entry.get("winner"), {"1": 1.0, "2": -1.0}),
        }


def _score_records(row: LocatedRow) -> Iterator[Cells]:
    """Yield a record for the score of each output."""
    better = choice(row.get("label"), {"1": "1", "2": "2"}, row.place)
    # One record for each of the two outputs.
    for key in "12":
        text = str((_results(row).get(f"score_{key}") or [""])[0])
        # A score is rated alone, so the label becomes a grade of each output: 1 or 0.
        yield {
            **_asked(row),
            "key": key,
            "response": row.need(f"output_{key}"),
            "grade": None if better is None else float(key == better),
            "text": text,
            "score": number(text.strip()),
            "error": text,
        }


BENCHMARKS: Final = (
    benchmark(
        "llmbar",
        read=row_by_row(_CASE),
        rule=_rule,
        sniff=_sniff,
        judgments=_read_judgments,
    ),
)
