"""MT-Bench (Zheng et al. 2023, NeurIPS, arXiv 2306.05685): human votes on pairs of models, and judges' scores.

FastChat publishes judgments as single scores from 1 to 10, or as comparisons of two models in both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.benchmarks.benchmark import (
    Benchmark,
    Importer,
    Source,
    benchmark_files,
    checked_rows,
    choice,
    listed,
    shape,
    share_row,
)
from evalkit.benchmarks.judgment_files import Peek, answers_in, number, question_in, reference_in, require, sibling_file
from evalkit.benchmarks.judgment_files import rows_of as judged_rows
from evalkit.benchmarks.records import TIE as TIED
from evalkit.benchmarks.records import UNORDERED, Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.benchmarks.scoring_rules import View, mean, slug
from evalkit.core.annotations import choice_for
from evalkit.core.scale import Scale
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.datasets.named import Placed
from evalkit.errors import DatasetError
from evalkit.scoring.catalog import MetricSpec
from evalkit.scoring.catalog.spec import PAIRS, SCORES
from evalkit.scoring.columns import CODES, NONE, TIE, A
from evalkit.scoring.stats.arrays import Bools, Bounds, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.types import Annotation, Metric

NAME: Final = "mt_bench"

PEOPLE: Final = ("expert", "author")
"""The name prefixes of human voters in MT-Bench; other judges are models."""

_VOTES: Final = {"model_a": "A", "model_b": "B", "tie": "TIE", "tie (inconsistent)": "TIE"}

_TURNED: Final = {"A": "B", "B": "A", "TIE": "TIE"}

EXPERTS = "expert"

NO_VOTES = "no pair with a verdict has such a vote"

NO_SCORE = "no response in it has a readable score"

NO_VERDICT = "no pair in it has a verdict"

VotesByPair: TypeAlias = dict[tuple[str | int, ...], dict[str, str]]

_VOTES_FILES = ("human_judgments.jsonl", "human_judgments.json", "human.jsonl")

_GAMES = (("g1", ("model_1", "model_2")), ("g2", ("model_2", "model_1")))


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each question, turn and pair of models with human votes, with all votes."""
    cases: dict[tuple[str, int, str, str], tuple[str, Row]] = {}
    for file in benchmark_files(benchmark, source):
        for place, row in checked_rows(benchmark, file):
            judge = str(row["judge"])
            if not judge.startswith(PEOPLE):
                source.left_out["models' judgments among human votes"] += 1
                continue
            _add_vote(cases, row, judge, place)
    if not cases:
        raise DatasetError(
            "has no human votes", where=str(source.path), remedy="use the file of human votes, human-….parquet"
        )
    yield from cases.values()


def _add_vote(cases: dict[tuple[str, int, str, str], tuple[str, Row]], row: Row, judge: str, place: str) -> None:
    key, first, second = _key(row)
    if key not in cases:
        cases[key] = place, _pair(key, row, first, second, place)
    votes = cases[key][1]["labels"]
    voter = judge if judge not in votes else f"{judge}#{sum(name.partition('#')[0] == judge for name in votes) + 1}"
    votes[voter] = _winner(row, first, place)


def _key(row: Row) -> tuple[tuple[str, int, str, str], str, str]:
    """Return a row's pair, with its models sorted by name, and their sides."""
    first, second = ("b", "a") if str(row["model_a"]) > str(row["model_b"]) else ("a", "b")
    models = str(row[f"model_{first}"]), str(row[f"model_{second}"])
    return (str(row["question_id"]), int(row["turn"]), *models), first, second


def _winner(row: Row, first: str, place: str) -> str | None:
    vote = choice(row["winner"], _VOTES, place)
    return _TURNED[vote] if first == "b" and vote else vote


def pair_of(row: Row, place: str) -> Row:
    """Return the two responses in a row of MT-Bench, and the `winner`."""
    key, first, second = _key(row)
    return {**_pair(key, row, first, second, place), "winner": _winner(row, first, place)}


def _pair(key: tuple[str, int, str, str], row: Row, first: str, second: str, place: str) -> Row:
    question, turn, model_a, model_b = key
    asked = _turns_of(row[f"conversation_{first}"], "user", turn, place)
    return {
        "id": f"{question}/{turn}/{model_a}/{model_b}",
        "prompt": asked,
        "response_a": _turns_of(row[f"conversation_{first}"], "assistant", turn, place),
        "response_b": _turns_of(row[f"conversation_{second}"], "assistant", turn, place),
        "model_a": model_a,
        "model_b": model_b,
        "labels": {},
        "question_id": row["question_id"],
        "turn": turn,
    }


def _turns_of(messages: Any, role: str, turns: int, place: str) -> str:
    """Return one side's first turns: a single text, or several with numbers."""
    texts = [str(message["content"]) for message in listed(messages, "conversation", place) if message["role"] == role]
    if len(texts) < turns:
        raise DatasetError(f"turn {turns} has no message of the {role}", where=place, remedy="fix the row")
    if turns == 1:
        return texts[0]
    return "\n\n".join(f"[Turn {number}]\n{text}" for number, text in enumerate(texts[:turns], 1))


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `mt_bench/agreement` and `mt_bench/agreement_without_ties`, overall and by turn, and human agreement.

    The share of human votes, each with equal weight, that equal the judge's verdict: with ties (their setup S1), and
    only votes and verdicts that are not ties (S2). For a pair in both orders, different verdicts are a tie.
    `mt_bench/human_agreement` is the same for any two human votes on one pair (Zheng et al. 2023,
    arXiv 2306.05685, section 4.2, and `compute_agreement.py`). As there, only experts' votes count if there are any.

    `mt_bench/score/MODEL`, also by turn, is a model's mean score; `mt_bench/win_rate/MODEL` its share of wins over all
    pairs with this model, a tie counting half (`show_result.py`, there `win_rate_adjusted`).
    """
    verdict, turns = _verdicts(view), _turn_cases(view)
    found: list[Statistic | Metric] = []
    for suffix, rows in turns.items():
        for ties, name in ((True, "agreement"), (False, "agreement_without_ties")):
            found.append(_judge_agreement(view, f"mt_bench/{name}{suffix}", _of_cases(view, verdict), rows, ties=ties))
            found.append(_human_agreement(view, f"mt_bench/human_{name}{suffix}", rows, ties=ties))
    if view.outcome.passes is not None:
        return [*found, *win_rates(view, "mt_bench/win_rate", verdict)]
    return [*found, *mean_scores(view, "mt_bench/score", turns)]


def _turn_cases(view: View) -> dict[str, Bools]:
    turns = np.array([str(turn or "") for turn in view.of_cases("turn")], dtype=object)
    every = {"": np.ones(len(turns), dtype=bool)}
    return every | {f"/turn{turn}": np.asarray(turns == turn) for turn in sorted(set(turns.tolist()) - {""})}


def _verdicts(view: View) -> Codes:
    """Return each pair's verdict; a tie if the orders differ."""
    passes = view.passes
    agreed = np.where(passes[:, 0] == passes[:, -1], passes[:, 0], TIE)
    return np.where((passes == NONE).any(axis=1), NONE, agreed).astype(np.int8)


def _of_cases(view: View, winner: Codes) -> Codes:
    """Return the verdict on each case's first pair."""
    out = np.full(len(view.cases), NONE, dtype=np.int8)
    first = (view.pairs.i == 0) & (view.pairs.j == 1)
    out[view.pairs.case[first]] = winner[first]
    return out


def _votes(labels: Mapping[str, Annotation]) -> list[int]:
    given = {name: CODES[vote] for name, label in labels.items() if (vote := choice_for(label)) is not None}
    experts = [vote for name, vote in given.items() if name.startswith(EXPERTS)]
    return experts or list(given.values())


def _judge_agreement(view: View, name: str, verdict: Codes, rows: Bools, *, ties: bool) -> Statistic:
    def count(case: int) -> tuple[float, float, float]:
        votes = [vote for vote in _votes(view.cases[case].labels) if ties or vote != TIE]
        if verdict[case] == NONE:
            return 0, 0, len(votes)
        if not ties and verdict[case] == TIE:
            return 0, 0, 0
        return sum(vote == verdict[case] for vote in votes), len(votes), 0

    return _share(name, view, rows, count)


def _human_agreement(view: View, name: str, rows: Bools, *, ties: bool) -> Statistic:
    def count(case: int) -> tuple[float, float, float]:
        votes = [vote for vote in _votes(view.cases[case].labels) if ties or vote != TIE]
        pairs = list(combinations(votes, 2))
        return sum(one == other for one, other in pairs), len(pairs), 0

    return _share(name, view, rows, count)


def _share(name: str, view: View, rows: Bools, count: Callable[[int], tuple[float, float, float]]) -> Statistic:
    columns: Floats = np.zeros((len(view.cases), 3))
    for case in np.flatnonzero(rows).tolist():
        columns[case] = count(case)
    hits, n, lost = (float(total) for total in columns.sum(axis=0))
    every = n + lost
    return Statistic(
        name,
        columns[:, :2],
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=int(n),
        missing=int(lost),
        worst=(hits / every, (hits + lost) / every) if every else (None, None),
        proportion=True,
        why=NO_VOTES,
    )


def mean_scores(view: View, name: str, parts: Mapping[str, Bools]) -> list[Statistic]:
    """Return each model's mean score in scale units, over all responses with a readable score.

    Args:
        view: The run.
        name: The prefix of the metrics' names.
        parts: The cases of each part, by the suffix of its metrics' names.
    """
    scored = view.outcome.scores
    if scored is None:
        return []
    models = np.array([one.model or "" for case in view.cases for one in case.responses], dtype=object)
    there, scale = np.isfinite(scored.raw), Scale.of(view.config.rubric)
    found = []
    for model, own in _by_model(models).items():
        for end, cases in parts.items():
            rows = own & cases[scored.case]
            used, lost = rows & there, int((rows & ~there).sum())
            tally = Tally(scored.case[used], len(view.cases))
            total, n = float(scored.raw[used].sum()), int(used.sum())
            found.append(
                Statistic(
                    f"{name}{model}{end}",
                    np.stack([tally(scored.raw[used]), tally(np.ones(n))], axis=1),
                    lambda totals: divide(totals[:, 0], totals[:, 1]),
                    n=n,
                    missing=lost,
                    worst=_bounds(total, n, lost, scale),
                    limits=(scale.min, scale.max),
                    why=NO_SCORE,
                )
            )
    return found


def _bounds(total: float, n: int, lost: int, scale: Scale) -> Bounds:
    every = n + lost
    return ((total + lost * scale.min) / every, (total + lost * scale.max) / every) if every else (None, None)


def win_rates(view: View, name: str, verdict: Codes) -> list[Statistic]:
    """Return each model's share of won pairs; a tie counts half.

    Args:
        view: The run.
        name: The prefix of the metrics' names.
        verdict: Each pair's winner, in the order of `view.pairs`.
    """
    pairs = view.pairs
    sides = [
        np.array([view.cases[case].responses[k].model or "" for case, k in zip(pairs.case, side, strict=True)], object)
        for side in (pairs.i, pairs.j)
    ]
    models, other = np.concatenate(sides), np.concatenate(sides[::-1])
    won = np.where(verdict == TIE, 0.5, verdict == A)
    credit, there = np.concatenate([won, 1 - won]), np.tile(verdict != NONE, 2)
    tally = Tally(np.tile(pairs.case, 2), len(view.cases))
    found = []
    for model, own in _by_model(models).items():
        rows = own & (models != other)
        found.append(mean(f"{name}{model}", tally, credit, rows & there, rows & ~there, why=NO_VERDICT))
    return found


def _by_model(models: NDArray[np.object_]) -> dict[str, Bools]:
    return {f"/{slug(name)}": np.asarray(models == name) for name in sorted(set(models.tolist()) - {""})}


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows are judgments of one answer or of a pair."""
    return _is_pair(start.row) or _is_joined(start.row) or start.has("question_id", "model", "judgment", "score")


def _is_pair(row: Mapping[str, Any]) -> bool:
    return all(key in row for key in ("question_id", "model_1", "model_2", "g1_winner", "g2_winner"))


def _is_joined(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a judge's verdict over both orders, in the format of human votes on Hugging Face."""
    columns = ("question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "turn")
    return all(key in row for key in columns) and not _named(row["judge"]).startswith(PEOPLE)


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each score, or two for each pair; each turn of a question is a case.

    If human votes are next to the file (human_judgments.jsonl, or human-….parquet as on Hugging Face), each pair of
    models is a case with its votes.

    Raises:
        DatasetError: If the file has both kinds.
    """
    rows, kinds = list(judged_rows(path)), _categories(path)
    if rows and _is_joined(rows[0][1]):
        return ParsedFile(
            [_joined_record(row, place, options) for place, row in rows], benchmark=NAME, notes=(UNORDERED,)
        )
    votes, notes = _people_votes(path)
    if len({_is_pair(row) for _, row in rows}) > 1:
        raise DatasetError("has both single scores and pairs", where=str(path), remedy="import each file separately")
    if rows and _is_pair(rows[0][1]):
        records = [record for place, row in rows for record in _pair_records(row, place, options, kinds, votes)]
        judged = {_pair_key(row, place) for place, row in rows}
        if others := sum(len(own) for key, own in votes.items() if key not in judged):
            notes.append(f"human votes on pairs that were not judged, omitted: {others}")
        return ParsedFile(records, {"format": "bracket"}, benchmark=NAME, notes=tuple(notes))
    records = [_score_record(row, place, options, kinds) for place, row in rows]
    scores = [value for record in records for value in record.said.scores.values()]
    step = 1.0 if all(score.is_integer() for score in scores) else 0.1
    return ParsedFile(records, {"format": "rating"}, scale=(1.0, 10.0, step), benchmark=NAME)


def _judge_of(row: Mapping[str, Any], options: Options) -> str:
    return options.judge or _named(row.get("judge")) or "judge"


def _named(judge: Any) -> str:
    return str((judge[0] if isinstance(judge, list) and judge else judge) or "")


def _turn_case(row: Mapping[str, Any], place: str, kinds: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name, turn = str(require(row, "question_id", place)), row.get("turn", 1)
    metadata = {"question_id": name, "turn": turn} | ({"category": kinds[name]} if name in kinds else {})
    return (name if turn == 1 else f"{name} turn {turn}"), metadata


def _score_record(row: Mapping[str, Any], place: str, options: Options, kinds: Mapping[str, Any]) -> Record:
    name, metadata = _turn_case(row, place, kinds)
    prompt, judge, text = str(row.get("user_prompt", "")), _judge_of(row, options), row.get("judgment")
    score, model = number(require(row, "score", place)), str(require(row, "model", place))
    said = (
        RecordedJudgment(judge, scores={"quality": score}, text=text)
        if score is not None and score >= 1
        else missing_record(judge, f"score is {row['score']}", text=text)
    )
    answer = Answer(model, answers_in(prompt).get("", ""), model)
    return Record(name, question_in(prompt), (answer,), said, reference=reference_in(prompt), metadata=metadata)


def _pair_records(
    row: Mapping[str, Any], place: str, options: Options, kinds: Mapping[str, Any], votes: VotesByPair
) -> Iterator[Record]:
    name, metadata = _turn_case(row, place, kinds)
    models = sorted((str(row["model_1"]), str(row["model_2"])))
    own = votes.get(_pair_key(row, place), {})
    if votes:  # human votes are kept for a case's two responses
        name = f"{name}: {' / '.join(models)}"
    for game, order in _GAMES:
        prompt, winner = str(row.get(f"{game}_user_prompt", "")), row.get(f"{game}_winner")
        texts, text = answers_in(prompt), row.get(f"{game}_judgment")
        judge = _judge_of(row, options)
        values = {order[0]: 1.0, order[1]: -1.0, "tie": 0.0}
        said = (
            RecordedJudgment(judge, value=values[winner], text=text)
            if winner in values
            else missing_record(judge, f"{game}_winner is {winner}", text=text)
        )
        first, second = (
            Answer(str(row[side]), texts.get(letter, ""), str(row[side]))
            for side, letter in zip(order, "AB", strict=True)
        )
        reference = reference_in(prompt)
        yield Record(
            name, question_in(prompt), (first, second), said, reference=reference, metadata=metadata, labels=own
        )


def _pair_key(row: Mapping[str, Any], place: str) -> tuple[str | int, ...]:
    """Return the question, turn and models of a pair, to find its human votes."""
    models = sorted((str(row["model_1"]), str(row["model_2"])))
    return str(require(row, "question_id", place)), int(row.get("turn", 1)), *models


def _joined_record(row: Mapping[str, Any], place: str, options: Options) -> Record:
    case = pair_of(dict(row), place)
    first, second = (Answer(case[f"model_{side}"], case[f"response_{side}"], case[f"model_{side}"]) for side in "ab")
    values = {"A": 1.0, "B": -1.0, "TIE": 0.0}
    judge, winner = _judge_of(row, options), case["winner"]
    said = (
        RecordedJudgment(judge, value=values[winner]) if winner else missing_record(judge, f"winner is {row['winner']}")
    )
    metadata = {key: case[key] for key in ("question_id", "turn")}
    return Record(case["id"], case["prompt"], (first, second), said, metadata=metadata)


def _people_votes(path: Path) -> tuple[VotesByPair, list[str]]:
    """Return human votes by question, turn and models, if there is a file of them, and notes on omissions."""
    file = sibling_file(path, *_VOTES_FILES) or next(iter(sorted(path.parent.glob("human-*.parquet"))), None)
    found: VotesByPair = {}
    void = machines = 0
    for place, row in () if file is None else judged_rows(file):
        models = str(require(row, "model_a", place)), str(require(row, "model_b", place))
        winners = {"model_a": models[0], "model_b": models[1], "tie": TIED, "tie (inconsistent)": TIED}
        voter, winner = _named(row.get("judge")), winners.get(str(row.get("winner")))
        if not voter.startswith(PEOPLE):
            machines += 1
        elif winner is None:
            void += 1
        else:
            own = found.setdefault(
                (str(require(row, "question_id", place)), int(row.get("turn", 1)), *sorted(models)), {}
            )
            again = sum(name.partition("#")[0] == voter for name in own)
            own[f"{voter}#{again + 1}" if again else voter] = winner
    notes = [f"human votes without a winner, omitted: {void}"] if void else []
    return found, [*notes, f"models' judgments among human votes, omitted: {machines}"] if machines else notes


def _categories(path: Path) -> dict[str, Any]:
    file = sibling_file(path, "question.jsonl")
    return {} if file is None else {str(row.get("question_id")): row.get("category") for _, row in judged_rows(file)}


_SOURCE = "Zheng et al. 2023, arXiv 2306.05685, section 4.2"
_METRICS: Final = (
    share_row(
        "mt_bench/agreement",
        "agreement with annotators",
        "Share of the annotators' votes that equal the judge's verdict.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "mt_bench/human_agreement",
        "agreement among annotators",
        "Share of pairs of annotators' votes on the same responses that agree.",
        _SOURCE,
        headline=True,
        better=None,
    ),
    share_row(
        "mt_bench/agreement_without_ties",
        "agreement with annotators, without ties",
        "Share of the annotators' votes that equal the judge's verdict, among votes and verdicts that are not ties.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "mt_bench/human_agreement_without_ties",
        "agreement among annotators, without ties",
        "Share of pairs of annotators' votes on the same responses that agree, without ties.",
        _SOURCE,
        headline=True,
        better=None,
    ),
    share_row(
        "mt_bench/agreement/{turn}",
        "agreement with annotators, {turn}",
        "Share of the annotators' votes in one turn that equal the judge's verdict.",
        _SOURCE,
    ),
    share_row(
        "mt_bench/human_agreement/{turn}",
        "agreement among annotators, {turn}",
        "Share of pairs of annotators' votes on the same responses that agree, in one turn.",
        _SOURCE,
        better=None,
    ),
    share_row(
        "mt_bench/agreement_without_ties/{turn}",
        "agreement with annotators, without ties, {turn}",
        "Share of the annotators' votes in one turn that equal the judge's verdict, among votes and verdicts that "
        "are not ties.",
        _SOURCE,
    ),
    share_row(
        "mt_bench/human_agreement_without_ties/{turn}",
        "agreement among annotators, without ties, {turn}",
        "Share of pairs of annotators' votes on the same responses that agree, in one turn, without ties.",
        _SOURCE,
        better=None,
    ),
    share_row(
        "mt_bench/win_rate/{model}",
        "win rate, {model}",
        "Share of a model's pairs that it wins, a tie counting as half.",
        _SOURCE,
        headline=True,
        modes=PAIRS,
        better=None,
    ),
    MetricSpec(
        "mt_bench/score/{model}",
        "score, {model}",
        "Mean score of a model over all turns.",
        unit="units of the scale",
        low=None,
        high=None,
        headline=True,
        source=_SOURCE,
        modes=SCORES,
    ),
    MetricSpec(
        "mt_bench/score/{model}/{turn}",
        "score, {model}, {turn}",
        "Mean score of a model in one turn.",
        unit="units of the scale",
        low=None,
        high=None,
        source=_SOURCE,
        modes=SCORES,
    ),
)


MT_BENCH: Final = Benchmark(
    "mt_bench",
    "MT-Bench human judgments",
    kind="MT-Bench judgments",
    license="CC BY 4.0",
    citation="Zheng et al. 2023, NeurIPS, arXiv 2306.05685",
    homepage="https://huggingface.co/datasets/lmsys/mt_bench_human_judgments",
    expects="the file of human votes of lmsys/mt_bench_human_judgments, as Parquet or JSONL",
    shapes=(shape("question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "turn"),),
    read=_read_cases,
    rule=_rule,
    cluster="question_id",
    importer=Importer(
        "mt_bench",
        "FastChat's MT-bench: model_judgment/JUDGE_single.jsonl, JUDGE_pair.jsonl, or gpt4_pair-….parquet",
        _sniff,
        _read_judgments,
    ),
    metrics=_METRICS,
    values={"turn": ("turn1", "turn2")},
    words={
        "turn1": gettext("first turn"),
        "turn2": gettext("second turn"),
    },
    short_title="MT-Bench",
    main_metric="mt_bench/agreement",
    human_labels=True,
)

BENCHMARKS: Final = (MT_BENCH,)
