"""Import people's choices between two responses as data sets publish them: Stanford Human
Preferences, WebGPT comparisons, comparisons of summaries, RewardBench 2 and PKU-SafeRLHF.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, frozen
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import PERSON, assessment
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_CRITERION: Final = "preference"
_PEOPLE: Final = "annotators"
_VOTES: Final[Mapping[float | None, str]] = {1: "A", 0: "B"}
"""By the label of a pair: 1 if readers prefer the first response."""
_CHOICES: Final[Mapping[float | None, str]] = {0: "A", 1: "B"}
"""By the position of the chosen response."""


@frozen
class _Pair:
    """Two responses to a prompt, and which people prefer: A, B or TIE; `None` if it is unknown.

    `safer` is the response that people call safer, if the data set asks that, too.
    """

    prompt: Any
    responses: tuple[Any, Any]
    winner: str | None
    id: Any = None
    safer: str | None = None


@frozen
class _DataSet:
    """How a data set is published.

    `columns` are those of its rows, of which `signs` are always there. Another column could be a
    judge's, so that rows with one are read as a table.
    """

    signs: frozenset[str]
    columns: frozenset[str]
    pairs: Callable[[Json], Iterator[_Pair]]


def _shp(row: Json) -> Iterator[_Pair]:
    winner = _VOTES.get(number(row["labels"]))
    responses = (row["human_ref_A"], row["human_ref_B"])
    yield _Pair(row.get("history"), responses, winner)


def _webgpt(row: Json) -> Iterator[_Pair]:
    question = row.get("question")
    prompt = question.get("full_text") if isinstance(question, Mapping) else question
    first = number(row["score_0"])
    second = number(row["score_1"])
    winner = None
    if first is not None and second is not None:
        winner = _winner(first - second)
    yield _Pair(prompt, (row["answer_0"], row["answer_1"]), winner)


def _winner(difference: float) -> str:
    if difference == 0:
        return "TIE"
    if difference > 0:
        return "A"
    return "B"


def _summaries(row: Json) -> Iterator[_Pair]:
    first, second = row["summaries"]
    info = row["info"]
    winner = _CHOICES.get(number(row["choice"]))
    prompt = info.get("post") or info.get("article")
    yield _Pair(prompt, (first.get("text"), second.get("text")), winner)


def _reward_bench_2(row: Json) -> Iterator[_Pair]:
    # The right answers come first in the file, and may be several: one is compared.
    right = row["chosen"][0]
    for position, wrong in enumerate(row["rejected"]):
        pair_id = f"{row['id']}/{position + 1}"
        # Every second pair is turned around, or A would win each time.
        if position % 2:
            yield _Pair(row.get("prompt"), (wrong, right), "B", pair_id)
        else:
            yield _Pair(row.get("prompt"), (right, wrong), "A", pair_id)


def _safe_rlhf(row: Json) -> Iterator[_Pair]:
    responses = (row["response_0"], row["response_1"])
    winner = _CHOICES.get(number(row["better_response_id"]))
    safer = _CHOICES.get(number(row["safer_response_id"]))
    yield _Pair(row.get("prompt"), responses, winner, safer=safer)


_DATA_SETS: Final = (
    _DataSet(
        frozenset({"human_ref_A", "human_ref_B", "labels"}),
        frozenset(
            {
                *("post_id", "domain", "upvote_ratio", "history", "score_A", "score_B"),
                *("c_root_id_A", "c_root_id_B", "created_at_utc_A", "created_at_utc_B"),
                *("seconds_difference", "score_ratio"),
            }
        ),
        _shp,
    ),
    _DataSet(
        frozenset({"question", "answer_0", "answer_1", "score_0", "score_1"}),
        frozenset({"quotes_0", "quotes_1", "tokens_0", "tokens_1"}),
        _webgpt,
    ),
    _DataSet(
        frozenset({"info", "summaries", "choice"}),
        frozenset({"worker", "batch", "split", "extra"}),
        _summaries,
    ),
    _DataSet(
        frozenset({"id", "chosen", "rejected", "num_correct", "num_incorrect"}),
        frozenset(
            {
                *("prompt", "total_completions", "models", "subset"),
                "additional_metadata",
            }
        ),
        _reward_bench_2,
    ),
    _DataSet(
        frozenset(
            {
                *("prompt", "response_0", "response_1"),
                *("better_response_id", "safer_response_id"),
            }
        ),
        frozenset(
            {
                "prompt_source",
                *(
                    f"{start}response_{side}{end}"
                    for side in (0, 1)
                    for start, end in (
                        *(("", "_source"), ("is_", "_safe"), ("", "_sha256")),
                        *(("", "_severity_level"), ("", "_harm_category")),
                    )
                ),
            }
        ),
        _safe_rlhf,
    ),
)


def _sniff(start: Peek) -> bool:
    return _data_set_of(start.row) is not None


def _data_set_of(row: Json) -> _DataSet | None:
    """Return the data set that a row is of; `None` if it is of none, or has more columns."""
    names = {*map(str, row)}
    for data_set in _DATA_SETS:
        known = data_set.signs | data_set.columns
        if data_set.signs <= names <= known and _has_types(row):
            return data_set
    return None


def _has_types(row: Json) -> bool:
    """Return whether lists and objects are where the data sets have some."""
    lists = [row[name] for name in ("chosen", "rejected", "summaries") if name in row]
    if not all(isinstance(value, list) and value for value in lists):
        return False
    summaries = row.get("summaries", [{}, {}])
    objects = [*summaries, row.get("info", {})]
    return len(summaries) == 2 and all(isinstance(value, Mapping) for value in objects)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each pair, with people's choice as the label."""
    rows = [row for _, row in rows_of(path)]
    units: list[Assessed] = []
    for row in rows:
        data_set = _data_set_of(row) or _data_set_of(rows[0])
        # A row of another form has no pair that could be read, and is damaged.
        if data_set is not None:
            for pair in data_set.pairs(row):
                units.append(_unit(pair, len(units)))
    return read_assessed(path, units, options)


def _unit(pair: _Pair, index: int) -> Assessed:
    first, second = pair.responses
    cells: JsonObject = {
        "id": str(index if pair.id is None else pair.id),
        "prompt": text(pair.prompt),
        "response_a": text(first),
        "response_b": text(second),
    }
    if pair.safer is not None:
        cells["metadata"] = {"safer": pair.safer}
    return Assessed(cells, (assessment(_CRITERION, _PEOPLE, PERSON, pair.winner),))


IMPORTER: Final = Importer(
    "published_pairs",
    "SHP, WebGPT, summaries, RewardBench 2, PKU-SafeRLHF: people's choices of two",
    _sniff,
    _read_records,
    is_log=True,
)
