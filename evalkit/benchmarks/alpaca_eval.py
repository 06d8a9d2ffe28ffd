"""AlpacaEval (Dubois et al. 2024, COLM, arXiv 2404.04475): models' outputs compared
with a baseline's.

An annotation has two outputs for an instruction and a preference from 1 (the first) to 2 (the
second).
"""

from __future__ import annotations

import csv
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from evalkit.benchmarks.shared.baseline import (
    NO_MODEL,
    Answers,
    contests,
    find_baseline,
)
from evalkit.benchmarks.shared.benchmark import (
    FACTS,
    Benchmark,
    Source,
    benchmark,
    published_rows,
)
from evalkit.benchmarks.shared.scoring_rules import View, mean
from evalkit.core.display import relative
from evalkit.core.errors import DatasetError
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.datasets.located_rows import Placed, Row
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    located_rows,
    number,
    sibling_file,
    with_columns,
)
from evalkit.interop.layouts.layouts import Cells, Field, cells_of, records_of
from evalkit.interop.layouts.rater_names import is_persons
from evalkit.interop.layouts.records import (
    UNORDERED,
    NumberedNames,
    Options,
    ParsedFile,
)
from evalkit.scoring.stats.arrays import FUZZ, Bools, Floats, Ints, divide
from evalkit.scoring.stats.logistic import expit
from evalkit.scoring.stats.statistic import Measures, Statistic
from evalkit.scoring.verdicts.pairs import over_orders

GAMED: Final = "df_gamed.csv"
"""The published file on the gamed baselines, in tatsu-lab/alpaca_eval on Hugging Face."""

DIFFICULTY: Final = "instruction_difficulty.csv"

_TRUTH: Final = {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
    "1.0": True,
    "0.0": False,
}

RAW = (
    "AlpacaEval's length-controlled win rate needs all its instructions and its df_gamed.csv next"
    " to the outputs; length/controlled_win_rate is a different metric that its leaderboard does"
    " not have"
)

CALIBRATION = "calibration"
"""The metadata key for an instruction's number and rows of df_gamed.csv."""

UNBOUNDED = "missing verdicts are omitted, without bounds"

# The weight of a row of a gamed baseline; a row of the model has 1.
_GAMED_WEIGHT = 0.2 / 2

_FOLDS = 5

# Inverse penalties, as in scikit-learn's grid.
_STRENGTHS = np.logspace(-4, 4, 10)

_SEED = 123

# Keeps logarithms finite.
_LEAST = 1e-15

_DRAW = 0.0

_UNNAMED: Final = "annotator"
_JUDGE_IT: Final = (
    "have its answers judged: evalkit run mode=pairwise dataset=file dataset.path={path}"
    " dataset.fields.prompt=instruction dataset.fields.response_a=output_1"
    " dataset.fields.response_b=output_2"
)
"""The remedy for a file of people's annotations."""


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield every model's outputs with the baseline's, joined by instruction."""
    answers: Answers = {}
    occurrences: Counter[tuple[str, str]] = Counter()
    for row in published_rows(benchmark, source):
        model = str(row["generator"])
        instruction = str(row["instruction"])
        # A duplicate instruction is joined with its first and its second answer.
        answers.setdefault(model, {})[
            f"{occurrences[model, instruction]}:{instruction}"
        ] = row
        occurrences[model, instruction] += 1
    baseline = find_baseline(
        answers, source, FACTS["alpaca_eval"]["tables"]["baselines"]
    )
    # An instruction's number is its position among the baseline's outputs.
    numbers = {
        instruction: number for number, instruction in enumerate(answers[baseline])
    }
    difficulty = _difficulties(source.path)
    calibration = calibrations(_beside(source.path, GAMED))
    models = [model for model in answers if model != baseline]
    for model in models:
        # Counts before the first row, which must be complete then.
        if absent := len(numbers.keys() - answers[model].keys()):
            source.left_out[f"instructions that {model} has no output for"] = absent
    for model in models:
        for instruction, row in answers[model].items():
            if instruction not in numbers:
                problem = (
                    f"{baseline} has no output for this instruction:"
                    f" {row['instruction']!s:.40}"
                )
                raise DatasetError(
                    problem,
                    where=row.place,
                    remedy="use the same set of instructions for both",
                )
            number = numbers[instruction]
            published = {
                "instruction_difficulty": difficulty.get(number),
                "calibration": calibration.get(number),
            }
            yield (
                row.place,
                {
                    "id": f"{model}/{number}" if len(models) > 1 else str(number),
                    "prompt": row["instruction"],
                    "response_a": row["output"],
                    "response_b": answers[baseline][instruction]["output"],
                    "model_a": model,
                    "model_b": baseline,
                    "baseline": baseline,
                    "subset": row.get("dataset"),
                    **{
                        name: value
                        for name, value in published.items()
                        if value is not None
                    },
                },
            )


def _difficulties(path: Path) -> dict[int, float]:
    """Return the published difficulty of each instruction by number, if the file is in
    the folder.
    """
    file = _beside(path, DIFFICULTY)
    rows = _table(file)
    try:
        return {
            int(row.get("index") or row[""]): float(row["instruction_difficulty"])
            for row in rows
        }
    except (KeyError, ValueError) as bad:
        raise DatasetError(
            f"not a table of index and instruction_difficulty ({bad})", where=str(file)
        ) from None


def calibrations(file: Path) -> dict[int, Row]:
    """Return the calibration data of each instruction for AlpacaEval's length control,
    by number, if available.

    It has the instruction's difficulty and its rows of df_gamed.csv: each row's number, the
    preference (null if missing), the scaled difference in length, the difficulty, and 1 if its
    model is not a gamed baseline.

    Raises:
        DatasetError: If df_gamed.csv is another table.
    """
    rows = _table(file)
    by_instruction = dict[int, Row]()
    try:
        for index, row in enumerate(rows):
            number = int(float(row["index"]))
            difficulty = float(row["instruction_difficulty"])
            entry = by_instruction.setdefault(
                number,
                {
                    "index": number,
                    "difficulty": difficulty,
                    "rows": len(rows),
                    "gamed": [],
                },
            )
            preference = float(row["preference"]) if row["preference"] else None
            plain = float(_TRUTH[row["not_gamed_baseline"].strip().lower()])
            entry["gamed"].append(
                [index, preference, float(row["std_delta_len"]), difficulty, plain]
            )
    except (AttributeError, KeyError, TypeError, ValueError) as bad:
        problem = f"not AlpacaEval's table of gamed baselines ({bad})"
        raise DatasetError(
            problem, where=str(file), remedy="use df_gamed.csv of tatsu-lab/alpaca_eval"
        ) from None
    return by_instruction


def _beside(path: Path, name: str) -> Path:
    if path.is_dir():
        return path / name
    return path.with_name(name)


def _table(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _rule(view: View) -> Measures:
    """Return `alpaca_eval/win_rate` and `alpaca_eval/length_controlled_win_rate`, by
    model if there are several.

    The win rate is the mean preference for the model's output over the baseline's, a tie being a
    half; with log-probabilities the preference is the probability of the model's token (Li et al.
    2023; Dubois et al. 2024, arXiv 2404.04475, section 2). Both orders have equal weight;
    AlpacaEval samples one order per instruction. The length-controlled rate requires df_gamed.csv
    and every instruction.
    """
    margin, turns, models = contests(view)
    # (cases,) from 0 to 1: the mean of both orders, or the only one.
    credit = (1 + (over_orders(margin) if margin.shape[1] == 2 else margin[:, 0])) / 2
    has_credit = np.isfinite(credit)
    # (cases,) characters by which the baseline's output is longer; 0 if there is no contest.
    longer = np.zeros(len(view.cases))
    for case in np.flatnonzero(turns).tolist():
        first, second = (
            len(response.text) for response in view.cases[case].responses[:2]
        )
        # 1 if the model's response is the first, -1 if it is the second
        longer[case] = turns[case] * (second - first)
    measures: Measures = []
    # `rows` are the cases of one model.
    for end, rows in models.items():
        used = rows & has_credit
        lost = rows & ~has_credit
        controlled = length_controlled(
            f"alpaca_eval/length_controlled_win_rate{end}",
            view.cases,
            rows,
            longer,
            credit,
            missing=int(lost.sum()),
        )
        note = RAW if controlled is None else None
        raw = mean(
            f"alpaca_eval/win_rate{end}",
            view.cases_tally,
            np.nan_to_num(credit),
            used,
            lost,
            note=note,
            why=NO_MODEL,
        )
        measures += [raw] if controlled is None else [raw, controlled]
    return measures


@frozen
class _Data:
    """The regression's rows: the gamed baselines' first, then the model's own in the
    order of instructions.

    `case` is the case of each of the model's rows; `read` is whether it has a preference. `y` is
    NaN for a gamed row without a preference. `difficulty` is by the model's rows.
    """

    x: Floats
    y: Floats
    weight: Floats
    case: Ints
    difficulty: Floats

    @property
    def gamed(self) -> int:
        """The number of rows of gamed baselines."""
        return len(self.y) - len(self.case)


def length_controlled(
    name: str,
    cases: Sequence[Case],
    rows: Bools,
    longer: Floats,
    credit: Floats,
    *,
    missing: int,
) -> Statistic | None:
    """Return the length-controlled win rate of one model; `None` if the authors'
    procedure cannot be followed.

    The interval resamples instructions: each resample is one Newton step, at the selected penalty,
    from the full fit. The rows of the gamed baselines are fixed data of the benchmark.

    Args:
        name: The metric's name.
        cases: All cases.
        rows: Which cases are the model's.
        longer: The excess length of the baseline's output in characters, by case.
        credit: The preference for the model in [0, 1], by case; NaN if missing.
        missing: The number of the model's cases without a preference.
    """
    data = _regression_rows(cases, rows, longer, credit)
    if data is None:
        return None
    fitted = _fit_by_folds(data)
    return Statistic(
        name,
        np.ones((len(cases), 1)),
        lambda weights: _resampled_win_rates(data, fitted, weights[:, data.case]),
        int(np.isfinite(data.y[data.gamed :]).sum()),
        missing,
        proportion=True,
        weighted=True,
        note=UNBOUNDED if missing else None,
        covered=rows & np.isfinite(credit),
    )


def _regression_rows(
    cases: Sequence[Case], rows: Bools, longer: Floats, credit: Floats
) -> _Data | None:
    """Return the rows of the regression; `None` unless every instruction of the
    benchmark has its calibration.
    """
    calibrated = [
        (cases[index].metadata.get(CALIBRATION), index)
        for index in np.flatnonzero(rows).tolist()
    ]
    # One case for each instruction: the calibration's number orders them.
    by_index = {
        int(calibration["index"]): (calibration, index)
        for calibration, index in calibrated
        if isinstance(calibration, dict)
    }
    ordered = [calibration for _, (calibration, _) in sorted(by_index.items())]
    gamed = sorted(row for calibration in ordered for row in calibration["gamed"])
    # All instructions of the benchmark are needed, with all rows of the gamed baselines.
    if not ordered or len(ordered) < len(calibrated) or len(gamed) < ordered[0]["rows"]:
        return None
    case = np.array(
        [index for _, (_, index) in sorted(by_index.items())], dtype=np.int64
    )
    # Lengths are scaled by the standard deviation over the model's instructions.
    spread = float(longer[case].std(ddof=1)) if len(case) > 1 else 0.0
    if spread <= FUZZ or not np.isfinite(credit[case]).any():
        return None
    # columns: preference, scaled difference in length, difficulty, 1 if not gamed
    table = np.array([row[1:] for row in gamed], dtype=np.float64)
    difficulty = np.array(
        [calibration["difficulty"] for calibration in ordered], dtype=np.float64
    )
    model_rows = np.stack(
        [np.tanh(longer[case] / spread), difficulty, np.ones(len(case))], axis=1
    )
    # columns: tanh of the scaled difference in length, difficulty, 1 if not gamed
    x = np.concatenate(
        [np.stack([np.tanh(table[:, 1]), table[:, 2], table[:, 3]], axis=1), model_rows]
    )
    y = np.concatenate([table[:, 0], credit[case]])
    weight = np.where(x[:, 2] > 0, 1.0, _GAMED_WEIGHT)
    return _Data(x, y, weight, case, difficulty)


def _fit_by_folds(data: _Data) -> Floats:
    """Return the coefficients at the penalty selected by five-fold cross-validation, as
    in scikit-learn.

    A preference p counts as two outcomes: 1 with weight p and 0 with weight 1 - p. Folds consist of
    rows; the best penalty has the highest mean likelihood of held-out rows.
    """
    from sklearn.model_selection import GroupKFold

    read = np.isfinite(data.y)
    x = data.x[read]
    y = data.y[read]
    weight = data.weight[read]
    # each row as outcome 1 and as outcome 0; both are in the same fold
    twice = np.concatenate([x, x])
    outcome = np.repeat([1, 0], len(y))
    share = np.concatenate([y, 1 - y])
    weights = np.concatenate([weight, weight])
    scores = []
    for kept, held_out in GroupKFold(_FOLDS).split(
        twice, outcome, np.tile(np.arange(len(y)), 2)
    ):
        # Coefficients at each strength, fitted on the other folds.
        path = _coefficient_path(
            twice[kept], outcome[kept], (share * weights)[kept], _STRENGTHS
        )
        # The preference that each held-out row should have: p for outcome 1, 1 - p for outcome 0.
        truth = np.where(outcome == 1, share, 1 - share)[held_out]
        scores.append(
            [
                _likelihood(truth, expit(twice[held_out] @ b), weights[held_out])
                for b in path
            ]
        )
    # (folds, strengths) to the strength with the highest mean.
    best = _STRENGTHS[int(np.mean(scores, axis=0).argmax())]
    return _coefficient_path(twice, outcome, share * weights, np.array([best]))[0]


def _coefficient_path(
    x: Floats, outcome: Ints, weights: Floats, strengths: Floats
) -> list[Floats]:
    """Return the coefficients for each strength, using the solver's random numbers in sequence."""
    from sklearn.linear_model import LogisticRegression

    chance = np.random.RandomState(_SEED)
    return [
        np.asarray(
            LogisticRegression(
                l1_ratio=1.0,
                solver="liblinear",
                fit_intercept=False,
                C=strength,
                random_state=chance,
            )
            .fit(x, outcome, sample_weight=weights)
            .coef_[0],
            dtype=np.float64,
        )
        for strength in strengths
    ]


def _likelihood(truth: Floats, predicted: Floats, weights: Floats) -> float:
    p = np.clip(predicted, _LEAST, 1 - _LEAST)
    return float(np.mean((truth * np.log(p) + (1 - truth) * np.log(1 - p)) * weights))


def _resampled_win_rates(data: _Data, fitted: Floats, counts: Floats) -> Floats:
    """Return the win rate of each resample; `counts` is the frequency of each of the
    model's rows in it.

    Coefficients that the penalty sets to 0 remain 0. With all counts equal to 1, the result is that
    of the fit.
    """
    # (rows,) the fitted preference of each row.
    p = expit(data.x @ fitted)
    free = np.flatnonzero(fitted)
    read = np.isfinite(data.y)
    # (rows,) the factors of each row in the gradient and in the information; 0 if missing.
    residual = np.where(read, data.weight * (data.y - p), 0.0)
    spread = np.where(read, data.weight * p * (1 - p), 0.0)
    x = data.x[:, free]
    # shape (rows, free, free): each row's part of the information matrix
    products = x[:, :, None] * x[:, None, :] * spread[:, None, None]
    model_rows = slice(data.gamed, None)
    # shape (resamples, free): how far the gradient moves from that of the fit
    score = (counts - 1.0) @ (x[model_rows] * residual[model_rows, None])
    # shape (resamples, free, free)
    information = products[: data.gamed].sum(axis=0) + np.tensordot(
        counts, products[model_rows], axes=(1, 0)
    )
    # A determinant is compared with the size of the matrix, so that units do not matter.
    scale = np.abs(information).max(axis=(1, 2), initial=0.0)
    sound = np.abs(np.linalg.det(information)) > FUZZ * np.maximum(scale, FUZZ) ** len(
        free
    )
    # a resample with a singular matrix has no step, and no rate
    b = np.full((len(counts), len(fitted)), np.nan)
    b[sound] = fitted
    b[np.ix_(sound, free)] += np.linalg.solve(
        information[sound], score[sound][:, :, None]
    )[:, :, 0]
    # the predicted preference without the term of length, shape (resamples, rows)
    at_one_length = expit(b[:, 2:] + b[:, 1:2] * data.difficulty)
    return divide((counts * at_one_length).sum(axis=1), counts.sum(axis=1))


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each annotation; its margin is the weighted preference
    relative to an even one.

    Annotations by people are labels of the pair.
    """
    rows = list(located_rows(path))
    annotators = dict.fromkeys(map(_annotator_of, rows))
    # The user's judge is the only one, whatever the annotators are named.
    people: set[str] = set()
    if not options.judge:
        people = {*filter(_is_person, annotators)}
    if people and people == {*annotators}:
        raise DatasetError(
            "has labels and not a judge's verdicts",
            where=str(path),
            remedy=_JUDGE_IT.format(path=shlex.quote(str(relative(path)))),
        )
    # {(instruction, first output, second output): cells of labels by annotator}
    labels: dict[tuple[str, ...], Cells] = {}
    for row in rows:
        annotator = _annotator_of(row)
        if annotator in people and (margin := _margin(row)) is not None:
            label = {f"label.{annotator}": _winner(margin)}
            pair = _pair_of(row)
            labels[pair] = {**labels.get(pair, {}), **label}
    gamed = sibling_file(path, GAMED)
    calibration = {} if gamed is None else calibrations(gamed)
    numbers = NumberedNames()
    indices = Counter[tuple[str, str]]()
    output_pairs = dict[tuple[str, ...], list[tuple[str, str]]]()

    def cells(row: LocatedRow) -> Iterator[Cells]:
        """Yield an annotation as a record, numbered as AlpacaEval numbers instructions."""
        if _annotator_of(row) in people:
            return
        instruction, first, second = _pair_of(row)
        outputs = (first, second)
        # A duplicate instruction with different outputs counts as two questions.
        pairs = output_pairs.setdefault(
            (instruction, str(row.get("generator_1")), str(row.get("generator_2"))), []
        )
        if outputs not in pairs:
            pairs.append(outputs)
        # An instruction's number is its index among one model's annotations, as in AlpacaEval.
        judge = options.judge or _annotator_of(row)
        model = str(row.get("generator_2"))
        metadata = {key: row.get(key) for key in ("dataset", "datasplit")}
        metadata |= {
            "calibration": calibration.get(indices[judge, model]),
            "baseline": row.get("generator_1"),
        }
        indices[judge, model] += 1
        yield {
            **cells_of(row, _ANNOTATION),
            **labels.get(_pair_of(row), {}),
            "id": numbers[f"{pairs.index(outputs)}:{instruction}"],
            "judge": judge,
            "metadata": {key: value for key, value in metadata.items() if value},
        }

    records = records_of(rows, cells, "pair", options)
    notes = [UNORDERED]
    judged = {_pair_of(row) for row in rows if _annotator_of(row) not in people}
    unjudged = len(labels.keys() - judged)
    if unjudged:
        notes.append(f"labeled pairs that no judge judged, omitted: {unjudged}")
    return ParsedFile(records, benchmark="alpaca_eval", notes=tuple(notes))


def _is_person(annotator: str) -> bool:
    """Return whether an annotator is a person: by name, or a number as in AlpacaFarm;
    one without a name is a judge.
    """
    return annotator.isdecimal() or (annotator != _UNNAMED and is_persons(annotator))


def _annotator_of(row: Row) -> str:
    # AlpacaFarm numbers people.
    annotator = row.get("annotator", row.get("annotator_index"))
    return _UNNAMED if annotator in (None, "") else str(annotator)


def _pair_of(row: LocatedRow) -> tuple[str, str, str]:
    """Return what identifies an annotated pair: its instruction and both outputs."""
    return str(row["instruction"]), str(row["output_1"]), str(row["output_2"])


def _winner(margin: float) -> str:
    if margin == 0:
        return "TIE"
    return "A" if margin > 0 else "B"


def _margin(row: Row) -> float | None:
    """Return the margin of a preference from 1 to 2, or 0 for a draw."""
    preference = number(row.get("preference"))
    if preference == _DRAW:
        return 0.0
    if preference is not None and 1 <= preference <= 2:
        # 1 is the first output and 2 the second: 1, 0 or -1 for a clear, even or opposite
        # preference.
        return 3 - 2 * preference
    return None


def _completion_text(row: Row) -> str | None:
    """Return the text of a completion, of a chat completion's choice, or the arguments
    of a function call.
    """
    raw = row.get("raw_completion")
    if isinstance(raw, Mapping):
        message = raw.get("message")
        if isinstance(message, Mapping):
            content = message.get("content")
        else:
            content = raw.get("text")
        if content or isinstance(message, Mapping):
            raw = content
        else:
            raw = json.dumps(raw, ensure_ascii=False)
    if isinstance(raw, str) and raw:
        return raw
    return None


_ANNOTATION: Final[Mapping[str, Field]] = {
    "prompt": "instruction",
    "response_a": "output_1",
    "response_b": "output_2",
    "model_a": "generator_1",
    "model_b": "generator_2",
    "key_a": ("generator_1", lambda _: "1"),
    "key_b": ("generator_2", lambda _: "2"),
    "margin": _margin,
    "text": _completion_text,
    "error": lambda row: f"preference is {row.get('preference')}",
}

BENCHMARKS: Final = (
    benchmark(
        "alpaca_eval",
        read=_read_cases,
        rule=_rule,
        sniff=with_columns("instruction", "output_1", "output_2", "preference"),
        judgments=_read_judgments,
    ),
)
