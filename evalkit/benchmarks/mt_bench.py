"""MT-Bench (Zheng et al. 2023, NeurIPS, arXiv 2306.05685): human votes on pairs of
models, and judges' scores.

FastChat publishes judgments as single scores from 1 to 10, or as comparisons of two models in both
orders.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from evalkit.benchmarks.shared.benchmark import (
    Benchmark,
    Source,
    benchmark,
    choice,
    listed,
    published_rows,
)
from evalkit.benchmarks.shared.scoring_rules import View, by_name, mean, with_all
from evalkit.core.annotations import choice_for
from evalkit.core.display import relative, slug
from evalkit.core.errors import DatasetError
from evalkit.core.scale import Scale
from evalkit.core.types import Annotation
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.located_rows import Placed, Row
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    Peek,
    answers_in,
    grouped,
    located_rows,
    number,
    pair_in,
    question_in,
    reference_in,
    sibling_file,
    turns_text,
)
from evalkit.interop.layouts.layouts import Cells, decided, records_of
from evalkit.interop.layouts.rater_names import is_persons
from evalkit.interop.layouts.records import UNORDERED, Options, ParsedFile
from evalkit.scoring.columns import CODES, NONE, TIE, A
from evalkit.scoring.stats.arrays import Bools, Codes
from evalkit.scoring.stats.statistic import Measures, Statistic

NAME: Final = "mt_bench"

PEOPLE: Final = ("expert", "author")
"""The name prefixes of human voters in MT-Bench; other judges are models."""

USERS: Final = ("user", "arena_user")
"""The name prefixes of voters in files of LMArena, which have the same columns."""

_VOTES: Final = {
    "model_a": "A",
    "model_b": "B",
    "tie": "TIE",
    "tie (inconsistent)": "TIE",
}

# The winner with the models in the other order.
_TURNED: Final = {"A": "B", "B": "A", "TIE": "TIE"}

EXPERTS = "expert"

NO_VOTES = "no pair with a verdict has such a vote"

NO_SCORE = "no response in it has a readable score"

NO_VERDICT = "no pair in it has a verdict"

Pair: TypeAlias = tuple[str, int, str, str]
"""A question, its turn, and two models sorted by name."""

_VOTES_FILES = ("human_judgments.jsonl", "human_judgments.json", "human.jsonl")

# The columns of the model shown first and of the one shown second: game 1 has the order of the row,
# game 2 the opposite one.
_GAMES = (("g1", "model_1", "model_2"), ("g2", "model_2", "model_1"))

_HUGGING_FACE: Final = (
    "question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b",
    "turn",
)  # fmt: skip


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each question, turn and pair of models with human votes, with all votes."""
    rows = list(published_rows(benchmark, source))
    # The file of people's votes may have models' judgments too.
    votes = [row for row in rows if str(row["judge"]).startswith(PEOPLE)]
    if len(votes) < len(rows):
        source.left_out["models' judgments among human votes"] += len(rows) - len(votes)
    if not votes:
        raise DatasetError(
            "has no human votes",
            where=str(source.path),
            remedy="use the file of human votes, human-….parquet",
        )
    for group in grouped(votes, _pair):
        yield group[0].place, {**_pair_case(group[0]), "labels": _votes(group)}


def _pair(row: LocatedRow, sides: tuple[str, str] = ("model_a", "model_b")) -> Pair:
    # Sorted by name, so that both orders of two models are one pair.
    first, second = sorted(str(row[side]) for side in sides)
    return str(row["question_id"]), int(row.get("turn", 1)), first, second


def _turned(row: LocatedRow) -> bool:
    """Return whether a row's models are not sorted by name."""
    return str(row["model_a"]) > str(row["model_b"])


def _votes(rows: Sequence[LocatedRow]) -> dict[str, str | None]:
    """Return the votes on a pair by voter, with models sorted by name; additional votes
    of one voter are numbered.
    """
    votes: dict[str, str | None] = {}
    for row in rows:
        voter = _judge_name(row["judge"])
        # One voter may have voted on a pair more than once, under names such as expert_1#2.
        again = sum(name.partition("#")[0] == voter for name in votes)
        votes[f"{voter}#{again + 1}" if again else voter] = _winner(row)
    return votes


def _winner(row: LocatedRow) -> str | None:
    vote = choice(row["winner"], _VOTES, row.place)
    # The vote names a side of the row, whose models may be in the other order.
    if vote and _turned(row):
        return _TURNED[vote]
    return vote


def _pair_case(row: LocatedRow) -> Row:
    """Return the two responses in a row, the models sorted by name."""
    question, turn, model_a, model_b = _pair(row)
    # The conversation of the model that sorts first is response A.
    first, second = "ba" if _turned(row) else "ab"
    return {
        "id": f"{question}/{turn}/{model_a}/{model_b}",
        "prompt": _turns_of(row[f"conversation_{first}"], "user", turn, row.place),
        "response_a": _turns_of(
            row[f"conversation_{first}"], "assistant", turn, row.place
        ),
        "response_b": _turns_of(
            row[f"conversation_{second}"], "assistant", turn, row.place
        ),
        "model_a": model_a,
        "model_b": model_b,
        "question_id": row["question_id"],
        "turn": turn,
    }


def _turns_of(messages: Any, role: str, turns: int, location: str) -> str:
    """Return one side's first turns: a single text, or several with numbers."""
    texts = [
        str(message["content"])
        for message in listed(messages, "conversation", location)
        if message["role"] == role
    ]
    if len(texts) < turns:
        raise DatasetError(
            f"turn {turns} has no message of the {role}",
            where=location,
            remedy="fix the row",
        )
    # Turn 2 is judged with turn 1 before it.
    return turns_text(texts[:turns])


def _rule(view: View) -> Measures:
    """Return `mt_bench/agreement` and `mt_bench/agreement_without_ties`, overall and by
    turn, and human agreement.

    The share of human votes, each with equal weight, that equal the judge's verdict: with ties
    (their setup S1), and only votes and verdicts that are not ties (S2). For a pair in both orders,
    different verdicts are a tie. `mt_bench/human_agreement` is the same for any two human votes on
    one pair (Zheng et al. 2023, arXiv 2306.05685, section 4.2, and `compute_agreement.py`). As
    there, only experts' votes count if there are any.

    `mt_bench/score/MODEL`, also by turn, is a model's mean score; `mt_bench/win_rate/MODEL` its
    share of wins over all pairs with this model, a tie counting half (`show_result.py`, there
    `win_rate_adjusted`).
    """
    verdict = _verdicts(view)
    measures = Measures()
    turns = with_all(
        len(view.cases),
        by_name([f"turn{turn}" if turn else "" for turn in view.of_cases("turn")]),
    )
    for suffix, rows in turns.items():
        for name, ties in (("agreement", True), ("agreement_without_ties", False)):
            # Votes are on cases of two responses, so the first pair of each case is its pair.
            measures += _agreement(
                view, view.of_first(verdict, NONE), rows, f"{name}{suffix}", ties=ties
            )
    if view.outcome.passes is not None:
        return [*measures, *win_rates(view, "mt_bench/win_rate", verdict)]
    return [*measures, *mean_scores(view, "mt_bench/score", turns)]


def _verdicts(view: View) -> Codes:
    """Return each pair's verdict; a tie if the orders differ."""
    passes = view.passes
    # Columns 0 and -1: the same if there is only one order, which then always agrees.
    agreed = np.where(passes[:, 0] == passes[:, -1], passes[:, 0], TIE)
    # One unreadable order leaves the pair without a verdict.
    return np.where((passes == NONE).any(axis=1), NONE, agreed).astype(np.int8)


def _choices(labels: Mapping[str, Annotation]) -> list[int]:
    """Return the votes on a case: those of experts, if there are any."""
    chosen = {
        name: CODES[vote]
        for name, label in labels.items()
        if (vote := choice_for(label)) is not None
    }
    experts = [vote for name, vote in chosen.items() if name.startswith(EXPERTS)]
    return experts or list(chosen.values())


def _agreement(
    view: View, verdict: Codes, rows: Bools, name: str, *, ties: bool
) -> list[Statistic]:
    """Return the agreement of the judge with each vote, and of each two votes on a case."""
    cases = [
        (case, _choices(view.cases[case].labels))
        for case in np.flatnonzero(rows).tolist()
    ]
    # shape (votes, 2): the case and the vote
    votes = np.array(
        [(case, vote) for case, case_votes in cases for vote in case_votes],
        dtype=np.int64,
    ).reshape(-1, 2)
    # the case, and two votes on it
    pairs = [
        (case, *two)
        for case, case_votes in cases
        for two in combinations(case_votes, 2)
    ]
    # (votes,) each: the vote's case and its winner; without ties if they do not count.
    case, vote = votes[ties | (votes[:, 1] != TIE)].T
    # (votes,) the judge's verdict on the case of each vote.
    judge = verdict[case]
    read = verdict[case] != NONE
    # (vote pairs,) each: the case and two votes on it.
    both, first, second = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    counted = (first != TIE) & (second != TIE) | ties
    by_vote, by_pair = (view.tally.of(indices) for indices in (case, both))
    # The judge's own ties are omitted too in the setting without ties.
    among = read & (ties | (judge != TIE))
    return [
        by_vote.rate(
            f"mt_bench/{name}",
            vote == judge,
            among,
            ~read & view.whole[case],
            why=NO_VOTES,
        ),
        by_pair.rate(f"mt_bench/human_{name}", first == second, counted, why=NO_VOTES),
    ]


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
    has_score = np.isfinite(scored.raw)
    scale = Scale.of(view.config.rubric)
    # The bounds of a missing score are the ends of the scale.
    ends = (scale.min, scale.max)
    tally = view.tally.of(scored.case)
    measures = []
    for model, model_rows in by_name(list(view.systems)).items():
        for end, cases in parts.items():
            # (responses,) the rows of this model in these cases.
            rows = model_rows & cases[scored.case]
            used = rows & has_score
            lost = rows & ~has_score
            score = f"{name}/{slug(model)}{end}"
            measures.append(
                tally.mean(
                    score, scored.raw, used, lost, span=ends, limits=ends, why=NO_SCORE
                )
            )
    return measures


def win_rates(view: View, name: str, verdict: Codes) -> list[Statistic]:
    """Return each model's share of won pairs; a tie counts half.

    Args:
        view: The run.
        name: The prefix of the metrics' names.
        verdict: Each pair's winner, in the order of `view.pairs`.
    """
    pairs = view.pairs
    # case -> the index of its first response
    offset = np.cumsum([0, *(len(case.responses) for case in view.cases)])
    # The offset of the case plus the side's index is the row of the response in `systems`.
    first, second = (
        view.systems[offset[pairs.case] + side] for side in (pairs.i, pairs.j)
    )
    # each pair twice, once for each of its models
    models = np.concatenate([first, second])
    opponents = np.concatenate([second, first])
    # 1 if A won, 0 if B won.
    won = np.where(verdict == TIE, 0.5, verdict == A)
    # The same pairs for the second model, whose credit is the rest.
    credit = np.concatenate([won, 1 - won])
    # (2 * pairs,) as `models`.
    has_verdict = np.tile(verdict != NONE, 2)
    lost = np.tile(view.lost(verdict != NONE), 2)
    tally = view.tally.of(np.tile(pairs.case, 2))
    measures = []
    for model, model_rows in by_name(list(models)).items():
        # A model compared with itself wins half by definition.
        rows = model_rows & (models != opponents)
        measures.append(
            mean(
                f"{name}/{slug(model)}",
                tally,
                credit,
                rows & has_verdict,
                rows & lost,
                why=NO_VERDICT,
            )
        )
    return measures


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows are judgments of one answer or of a pair; votes with
    a time are LMArena's.
    """
    # LMArena's votes have the same columns and a time.
    is_vote = "tstamp" in start.row
    return (
        _is_pair(start.row)
        or (_is_joined(start.row) and not is_vote)
        or start.has("question_id", "model", "judgment", "score")
    )


def _is_pair(row: Json) -> bool:
    return all(
        key in row
        for key in ("question_id", "model_1", "model_2", "g1_winner", "g2_winner")
    )


def _is_joined(row: Json) -> bool:
    """Return whether a row is a judge's verdict over both orders, in the format of
    human votes on Hugging Face.
    """
    if not all(key in row for key in _HUGGING_FACE):
        return False
    # Files of users' votes are LMArena's. Rows of other people may be the first.
    return not _judge_name(row.get("judge")).startswith(USERS)


def _is_voter(row: Json) -> bool:
    voter = _judge_name(row.get("judge"))
    return voter.startswith((*PEOPLE, *USERS)) or is_persons(voter)


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each score, or two for each pair; each turn of a question is a case.

    If human votes are next to the file (human_judgments.jsonl, or human-….parquet as on Hugging
    Face), each pair of models is a case with its votes.

    Raises:
        DatasetError: If the file has both kinds.
    """
    rows = list(located_rows(path))
    kinds = _categories(path)
    if rows and _is_joined(rows[0]):
        voted = [row for row in rows if _is_voter(row) and row.get("winner") in _VOTES]
        by_pair = {_pair(group[0]): _votes(group) for group in grouped(voted, _pair)}
        by_models = [row for row in rows if not _is_voter(row)]
        if not by_models:
            quoted_path = shlex.quote(str(relative(path)))
            command = (
                f"evalkit run mode=pairwise dataset={NAME} dataset.path={quoted_path}"
            )
            raise DatasetError(
                "has labels and not a judge's verdicts",
                where=str(path),
                remedy=f"have its answers judged: {command}",
            )
        return ParsedFile(
            records_of(by_models, lambda row: _joined(row, by_pair), "pair", options),
            benchmark=NAME,
            notes=(UNORDERED,),
        )
    # Votes are keyed by pair: (question, turn, models by name).
    votes, notes = _human_votes(path)
    if len({_is_pair(row) for row in rows}) > 1:
        raise DatasetError(
            "has both single scores and pairs",
            where=str(path),
            remedy="import each file separately",
        )
    if rows and _is_pair(rows[0]):
        records = records_of(
            rows, lambda row: _game_records(row, kinds, votes), "pair", options
        )
        # Votes on other pairs would be labels without a verdict.
        judged = {_pair(row, ("model_1", "model_2")) for row in rows}
        unjudged = sum(
            len(group) for pair, group in votes.items() if pair not in judged
        )
        notes += _omitted("human votes on pairs that were not judged", unjudged)
        return ParsedFile(
            records, {"format": "bracket"}, benchmark=NAME, notes=tuple(notes)
        )
    records = records_of(
        rows, lambda row: _score_records(row, kinds), "response", options
    )
    scores = [value for record in records for value in record.said.scores.values()]
    # Scores are integers, unless a judge gave decimals.
    step = 1.0 if all(score.is_integer() for score in scores) else 0.1
    return ParsedFile(
        records, {"format": "rating"}, scale=(1.0, 10.0, step), benchmark=NAME
    )


def _judge_name(judge: Any) -> str:
    # FastChat writes a judge as [model, prompt], of which the model is the name.
    return str((judge[0] if isinstance(judge, list) and judge else judge) or "")


def _omitted(kind: str, count: int) -> list[str]:
    if count:
        return [f"{kind}, omitted: {count}"]
    return []


def _turn_fields(row: LocatedRow, kinds: Json) -> JsonObject:
    """Return what records of one turn of a question share: its id, its facts and the judge."""
    name = str(row["question_id"])
    turn = row.get("turn", 1)
    metadata = {"question_id": name, "turn": turn}
    if name in kinds:
        metadata["category"] = kinds[name]
    return {
        # The first turn is the question itself, so that files of one turn keep its name.
        "id": name if turn == 1 else f"{name} turn {turn}",
        "metadata": metadata,
        "judge": _judge_name(row.get("judge")),
    }


def _score_records(row: LocatedRow, kinds: Json) -> Iterator[Cells]:
    """Yield the record of one answer with its score."""
    prompt = str(row.get("user_prompt", ""))
    score = number(row["score"])
    yield {
        **_turn_fields(row, kinds),
        "prompt": question_in(prompt),
        "reference": reference_in(prompt),
        "response": answers_in(prompt).get("", ""),
        "model": row["model"],
        "text": row.get("judgment"),
        # -1 is FastChat's value for an answer without a score.
        "score": score if score is not None and score >= 1 else None,
        "error": f"score is {row['score']}",
    }


def _game_records(
    row: LocatedRow, kinds: Json, votes: Mapping[Pair, Mapping[str, str | None]]
) -> Iterator[Cells]:
    """Yield two records for a row of two models: the judge's game in each order of their answers.

    Args:
        row: the row, with both games.
        kinds: the category of each question.
        votes: human votes by pair and voter, empty if there is no file of them.
    """
    turn = _turn_fields(row, kinds)
    pair = _pair(row, ("model_1", "model_2"))
    _, _, model_a, model_b = pair
    # Human votes are kept for a case's two responses. Without votes, all models' responses to a
    # question are one case.
    if votes:
        turn = {**turn, "id": f"{turn['id']}: {model_a} / {model_b}"}
    labels = _label_cells(votes.get(pair, {}), model_a, model_b)
    # Both games show the prompt in their own order, so texts are read from each.
    for game, shown_first, shown_second in _GAMES:
        prompt = str(row.get(f"{game}_user_prompt", ""))
        models = [str(row[shown_first]), str(row[shown_second])]
        # The margin is positive for the response shown first.
        margins = {shown_first: 1.0, shown_second: -1.0, "tie": 0.0}
        yield {
            **turn,
            **pair_in(prompt, models),
            "reference": reference_in(prompt),
            "text": row.get(f"{game}_judgment"),
            **labels,
            **decided(f"{game}_winner", row.get(f"{game}_winner"), margins),
        }


def _label_cells(
    votes: Mapping[str, str | None], model_a: str, model_b: str
) -> dict[str, str]:
    """Return votes by side as labels, which name the model; a vote without a winner is none."""
    model_of = {"A": model_a, "B": model_b, "TIE": "TIE"}
    return {f"label.{voter}": model_of[side] for voter, side in votes.items() if side}


def _joined(
    row: LocatedRow, votes: Mapping[Pair, Mapping[str, str | None]]
) -> Iterator[Cells]:
    case = _pair_case(row)
    labels = votes.get(_pair(row), {})
    metadata = {key: case[key] for key in ("question_id", "turn")}
    yield {
        **case,
        "metadata": metadata,
        "judge": _judge_name(row["judge"]),
        **_label_cells(labels, case["model_a"], case["model_b"]),
        **decided("winner", _winner(row)),
    }


def _human_votes(path: Path) -> tuple[dict[Pair, dict[str, str | None]], list[str]]:
    """Return human votes by pair, if there is a file of them, and notes on omissions."""
    file = sibling_file(path, *_VOTES_FILES) or next(
        iter(sorted(path.parent.glob("human-*.parquet"))), None
    )
    rows = [] if file is None else list(located_rows(file))
    people = [row for row in rows if _judge_name(row.get("judge")).startswith(PEOPLE)]
    # A winner that is none of these cannot be compared.
    votes = [row for row in people if str(row.get("winner")) in _VOTES]
    notes = _omitted("human votes without a winner", len(people) - len(votes))
    notes += _omitted("models' judgments among human votes", len(rows) - len(people))
    return {_pair(group[0]): _votes(group) for group in grouped(votes, _pair)}, notes


def _categories(path: Path) -> JsonObject:
    file = sibling_file(path, "question.jsonl")
    if file is None:
        return {}
    return {
        str(row.get("question_id")): row.get("category") for row in located_rows(file)
    }


BENCHMARKS: Final = (
    benchmark(
        "mt_bench",
        read=_read_cases,
        rule=_rule,
        sniff=_sniff,
        judgments=_read_judgments,
    ),
)
