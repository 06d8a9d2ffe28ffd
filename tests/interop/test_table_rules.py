"""Rules of reading tables, each by small tables with known roles and known agreement."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.interop.tables import long_tables
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.questions import OpenTableError
from evalkit.interop.tables.reading import choices_of, reading_of
from evalkit.interop.tables.table import read_table
from evalkit.interop.tables.words import known_words
from tests.support.table_cells import Cells, columns_of_role, read_cells

ROWS = 60


def _words(words: Sequence[Any], seed: int, like: Sequence[Any] | None = None) -> list[Any]:
    """Return random words, or those of `like` with a fifth changed."""
    rng = random.Random(seed)
    given = like or [None] * ROWS
    return [rng.choice(words) if word is None or rng.random() < 0.2 else word for word in given]


FLAGS = ("pass", "fail")
WINNERS = {"pass": "A", "fail": "B"}
OPPOSITE = {"pass": "fail", "fail": "pass"}
LABEL = _words(FLAGS, 1)
JUDGE = _words(FLAGS, 2, LABEL)
OTHERS = [_words(FLAGS, seed, LABEL) for seed in (3, 4, 5)]
BY_CRITERION = {f"ai_{name}": OTHERS[n] for n, name in enumerate("xyz")} | {
    f"md_{name}": _words(FLAGS, 30 + n, OTHERS[n]) for n, name in enumerate("xyz")
}
KINDS = [_words("xyz", 26), _words("xyz", 27)]
BOTH = list(zip(JUDGE, LABEL, strict=True))
GRADE = _words((1, 2, 3, 4, 5), 6)
SCORE = _words((1, 2, 3, 4, 5), 7, GRADE)
IDS = [f"c{i}" for i in range(ROWS)]
TEXTS = [f"the text of case {i}" for i in range(ROWS)]
SIDES = {"response_a": [f"{t} a" for t in TEXTS], "response_b": [f"{t} b" for t in TEXTS]}


def _as(words: Mapping[Any, Any], values: Sequence[Any]) -> list[Any]:
    return [words[value] for value in values]


def _check_raters(row: Cells | tuple[Cells, str]) -> None:
    """Check a table's judges and labels: those after its cells, or the columns judge and human."""
    cells, raters = row if isinstance(row, tuple) else (row, "judge => human")
    judges, labels = (side.split(" | ") if side else [] for side in raters.split(" => "))
    table = read_cells({name: cell for name, cell in {"id": IDS, **cells}.items() if cell})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (judges, labels)


def _majority(columns: Sequence[Sequence[str]]) -> list[str]:
    return [max(set(row), key=row.count) for row in zip(*columns, strict=True)]


LANGUAGES: Mapping[str, tuple[str, str, str, str]] = {
    "italian": ("giudice", "umano", "corretto", "errato"),
    "portuguese": ("avaliacao_modelo", "avaliacao_humana", "sim", "não"),
    "russian": ("оценка_модели", "оценка_эксперта", "да", "нет"),
    "korean": ("모델평가", "사람평가", "합격", "불합격"),
    "dutch": ("rechter", "mens", "goed", "fout"),
    "polish": ("sędzia", "ekspert", "tak", "nie"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_and_words_of_other_languages_are_known(language):
    judge, human, good, bad = LANGUAGES[language]
    words = {"pass": good, "fail": bad}
    table = read_cells({"id": IDS, judge: _as(words, JUDGE), human: _as(words, LABEL)})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == ([judge], [human])


SUMS: Mapping[str, Cells | tuple[Cells, str]] = {
    "majority of judges": (
        {**{f"judge_{i}": OTHERS[i] for i in range(3)}, "majority": _majority(OTHERS)},
        "judge_0 | judge_1 | judge_2 => ",
    ),
    "final verdict of judges": (
        {**{f"judge_{i}": OTHERS[i] for i in range(3)}, "final_verdict": _majority(OTHERS)}
        | {"human": LABEL},
        "judge_0 | judge_1 | judge_2 => human",
    ),
    "mean of annotators": (
        {f"expert_{i}": _words((1, 2, 3, 4, 5), i, GRADE) for i in range(3)}
        | {
            "expert_mean": [
                round(sum(row) / 3, 2)
                for row in zip(*(_words((1, 2, 3, 4, 5), i, GRADE) for i in range(3)), strict=True)
            ],
            "llm_score": SCORE,
        },
        "llm_score => expert_0 | expert_1 | expert_2",
    ),
    "the verdict of a jury": (
        {f"jury.votes.{name}": OTHERS[n] for n, name in enumerate(("gpt-4o", "claude", "gemini"))}
        | {"jury.final": _majority(OTHERS), "human": LABEL},
        "jury.votes.gpt-4o | jury.votes.claude | jury.votes.gemini => human",
    ),
    "two annotators of three agree": (
        {"annotators.1": LABEL, "annotators.2": OTHERS[0], "annotators.3": LABEL}
        | {"gold_label": LABEL, "llm": JUDGE},
        "llm => annotators.1 | annotators.2 | annotators.3",
    ),
    "a human like the others": (
        {**{f"judge_{i}": OTHERS[i] for i in range(3)}, "human": _majority(OTHERS)},
        "judge_0 | judge_1 | judge_2 => human",
    ),
}


NO_RATERS: Mapping[str, Cells] = {
    "demographics": {"annotator_gender": _words(("f", "m"), 8), "annotator_age": GRADE},
    "ids of people": {"human_id": _words((1, 2, 3), 9)},
    "comments": {"judge_comment": _words(("good", "bad"), 10), "human_comment": [*TEXTS]},
    "readability": {"readability": [i / 7 for i in range(ROWS)]},
    "agreement": {
        "match": [a == b for a, b in zip(JUDGE, LABEL, strict=True)],
        "human_agreement": _words((0.67, 1.0), 18),
        "Coincide": _words(("Sí", "No"), 19),
    },
    "differences": {"judge_minus_human": _words((-1, 0, 1), 38), "delta": _words((-1, 0, 1), 39)},
    "units": {"judge (s)": [i / 9 for i in range(ROWS)], "judge ($)": [i / 7 for i in range(ROWS)]},
    "counted votes": {"human_yes_votes": _words((0, 1, 2, 3), 20)},
    "numbers of people": {
        "n_annotators": _words((5, 6, 7), 24),
        "annotators": _words((5, 6, 7), 25),
        "user": [f"user_{i % 7}" for i in range(ROWS)],
        "student": [100 + i for i in range(ROWS)],
        "doc": [f"d{i % 9}" for i in range(ROWS)],
    },
    "a prompt in all rows": {"annotations.harm.prompt_text": ["p"] * ROWS},
    "sources": {"gold_source": _words(("wiki", "web"), 21), "judge_version": ["v1"] * ROWS},
    "names of models": {"evaluation_model": ["gpt-4.1"] * ROWS},
}


@pytest.mark.parametrize("name", NO_RATERS)
def test_what_is_about_raters_or_computed_is_no_rater(name):
    table = read_cells({"id": IDS, "judge": JUDGE, "human": LABEL, **NO_RATERS[name]})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["judge"],
        ["human"],
    )


def test_a_copy_of_the_label_in_other_words_is_no_criterion_and_no_key():
    copy = _as({"pass": "good", "fail": "bad"}, LABEL)
    table = read_cells({"id": IDS, "judge": JUDGE, "human": LABEL, "class-name": copy})
    assert columns_of_role(table, "criterion") == []
    other = read_cells({"id": IDS, "judge": JUDGE, "human": LABEL, "class-name": KINDS[0]})
    assert columns_of_role(other, "criterion") == ["class-name"]
    twice = [f"c{i // 2}" for i in range(ROWS)]
    with pytest.raises(OpenTableError, match="what is a row"):
        read_cells({"id": twice, "judge": JUDGE, "human": LABEL, "category": copy})


def test_right_classes_of_predictions_are_labels():
    table = read_cells({"text": TEXTS, "y_true": LABEL, "y_pred": JUDGE})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["y_pred"],
        ["y_true"],
    )


def test_kinds_of_tasks_are_no_prompts():
    kinds = _words(("code", "chat"), 54)
    table = read_cells({"id": IDS, "task": kinds, "judge": JUDGE, "human": LABEL})
    assert columns_of_role(table, "prompt") == []
    texts = [f"Write {kind}." for kind in kinds]
    table = read_cells({"id": IDS, "task": texts, "judge": JUDGE, "human": LABEL})
    assert columns_of_role(table, "prompt") == ["task"]


def test_plus_and_minus_are_verdicts():
    words = {"pass": "+", "fail": "-"}
    table = read_cells({"id": IDS, "judge": _as(words, JUDGE), "human": _as(words, LABEL)})
    assert table.values["judge"].keys() == {"+", "-"}


def test_the_lower_rank_wins():
    ranks = {"pass": (1, 2), "fail": (2, 1)}
    cells = {
        f"{who}_rank_{side + 1}": [ranks[word][side] for word in words]
        for who, words in (("judge", JUDGE), ("human", LABEL))
        for side in (0, 1)
    }
    table = read_cells({"id": IDS, **SIDES, **cells})
    first = table.parsed.records[0]
    assert table.unit == "pair"
    assert first.said.value == (1.0 if JUDGE[0] == "pass" else -1.0)


def test_named_objects_in_lists_are_columns():
    scores = [
        [{"name": "judge", "value": one}, {"name": "human", "value": other}]
        for one, other in zip(SCORE, GRADE, strict=True)
    ]
    table = read_cells({"id": IDS, "scores": scores})
    assert columns_of_role(table, "judge") == ["scores.judge.value"]
    assert columns_of_role(table, "label") == ["scores.human.value"]


def test_known_words_are_listed_once_and_in_small_letters():
    for group, words in known_words()["words"].items():
        assert len({*words}) == len(words), group
        assert [word.casefold() for word in words] == words, group


def test_statistics_below_a_mean_are_no_cases():
    cells = {
        "item": [*IDS, "Average", "n"],
        "judge": [*SCORE, 3.1, ROWS],
        "human": [*GRADE, 3, ROWS],
    }
    assert len(read_cells(cells).parsed.records) == ROWS
    marked = {"item": [*IDS, "Averages"], "checks": [*JUDGE, "57.1% ✔"]}
    assert len(read_cells({**marked, "seconds": [*GRADE, "17.6ms"]}).parsed.records) == ROWS
    # Without a mean, `n` is a case.
    alone = {name: [*column[:ROWS], column[-1]] for name, column in cells.items()}
    assert len(read_cells(alone).parsed.records) == ROWS + 1


def test_numbers_of_users_are_no_labels_next_to_their_scores():
    cells = {"user": [1000 + n % 7 for n in range(ROWS)], "llm_score": SCORE, "user_score": GRADE}
    assert columns_of_role(read_cells({"id": IDS, **cells}), "label") == ["user_score"]


LISTS = {
    "who judged": ("by", "ok", {"llm": JUDGE, "human": LABEL}),
    "names of raters": ("worker", "ok", {"gpt-4o": JUDGE, "anna": LABEL}),
    "a criterion and who judged it": ("by", "name", {"llm": JUDGE, "human": LABEL}),
}


@pytest.mark.parametrize("name", LISTS)
def test_objects_in_lists_are_named_by_who_judged(name):
    rater, about, verdicts = LISTS[name]
    lists = [
        [
            {rater: who, about: "tone", "verdict": word}
            for who, word in zip(verdicts, words, strict=True)
        ]
        for words in zip(*verdicts.values(), strict=True)
    ]
    # A case that nobody judged yet.
    lists[7] = []
    table = read_cells({"id": IDS, "evals": lists})
    assert [len(columns_of_role(table, role)) for role in ("judge", "label")] == [1, 1]
    assert len(table.parsed.records) == ROWS


def test_a_list_may_have_two_verdicts_of_one_person():
    lists = [
        [{"who": "gpt-4o", "value": word}, *[{"who": "maria", "value": label}] * times]
        for word, label, times in zip(JUDGE, LABEL, [1, 2] * (ROWS // 2), strict=True)
    ]
    table = read_cells({"id": IDS, "verdicts": lists})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["gpt-4o"],
        ["maria"],
    )
    assert {one.question for one in table.parsed.records} == {*IDS}


def test_rows_of_measures_are_left_out():
    names = ["judge", "human", "tokens"] * ROWS
    values = [cell for row in zip(SCORE, GRADE, range(100, 160), strict=True) for cell in row]
    ids = [name for name in IDS for _ in range(3)]
    table = read_cells({"id": ids, "variable": names, "value": values})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["judge"],
        ["human"],
    )
    assert any(
        "rows with measures in 'variable' (tokens), not read: 60" in note for note in table.warnings
    )


def test_raters_are_named_with_their_kind():
    kinds = ["model", "human", "human"] * ROWS
    names = ["gpt-4o", "h1", "h2"] * ROWS
    values = [cell for row in zip(SCORE, GRADE, GRADE[::-1], strict=True) for cell in row]
    ids = [name for name in IDS for _ in range(3)]
    table = read_cells({"id": ids, "rater_type": kinds, "rater_id": names, "rating": values})
    assert columns_of_role(table, "judge") == ["model gpt-4o"]
    assert columns_of_role(table, "label") == ["human h1", "human h2"]


def test_a_rater_in_rows_that_is_not_used_is_no_slice():
    names = ["gpt-4o", "bob", "zed"] * ROWS
    values = [cell for row in zip(SCORE, GRADE, GRADE[::-1], strict=True) for cell in row]
    ids = [name for name in IDS for _ in range(3)]
    table = read_cells({"id": ids, "rater": names, "rating": values})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["gpt-4o"],
        ["bob"],
    )
    assert all("zed" not in record.metadata for record in table.parsed.records)


def test_turns_with_verdicts_are_rows():
    turns = [
        [{"text": text, "judge": word, "human": label} for word, label in (pair, pair[::-1])]
        for text, pair in zip(TEXTS, zip(JUDGE, LABEL, strict=True), strict=True)
    ]
    table = read_cells({"id": IDS, "turns": turns})
    records = table.parsed.records
    assert [one.question for one in records[:3]] == ["c0/1", "c0/2", "c1/1"]
    assert [one.said.class_name for one in records[::2]] == JUDGE
    # Verdicts on the whole conversation are read, and not repeated for each turn.
    whole = read_cells({"id": IDS, "judge": JUDGE, "human": LABEL, "turns": turns})
    assert len(whole.parsed.records) == ROWS


def test_stated_winners_are_read_from_texts():
    sides = _words(("A", "B", "C"), 11)
    human = ["tie" if side == "C" else side for side in sides]
    stated = [f"Both are fine {i}. Final: [[{side}]]" for i, side in enumerate(sides)]
    table = read_cells({"id": IDS, **SIDES, "human": human, "judge": stated})
    values = {record.said.value for record in table.parsed.records}
    assert (table.unit, values) == ("pair", {1.0, -1.0, 0.0})


RATERS: Mapping[str, Cells | tuple[Cells, str]] = {
    "a grader that is a model": (
        {"grader_model_score": SCORE, "grader_human_score": GRADE},
        "grader_model_score => grader_human_score",
    ),
    "names in lists": {"judge": JUDGE, "human": [[{"name": word}] for word in LABEL]},
    "votes in a text": (
        {"judge": JUDGE, "crowd": ["|".join(votes) for votes in zip(*OTHERS, strict=True)]},
        "judge => crowd.1 | crowd.2 | crowd.3",
    ),
    "ages of annotators": {
        "judge": JUDGE,
        "annotator_age": _words(range(20, 60), 99),
        "human": LABEL,
    },
    "workers of a platform": (
        {"id": None, "hit": [f"h{i // 2}" for i in range(ROWS)], "worker": ["w1", "w2", "w3"] * 20}
        | {"label": LABEL, "llama_label": [JUDGE[i // 2] for i in range(ROWS)]},
        "llama_label => worker w1 | worker w2 | worker w3",
    ),
    "lists next to a list of names": (
        {"graders": [["gpt-4o", "human"], ["human", "gpt-4o"]] * (ROWS // 2)}
        | {"verdicts": [[j, h] if i % 2 == 0 else [h, j] for i, (j, h) in enumerate(BOTH)]},
        "verdicts.gpt-4o => verdicts.human",
    ),
    "names and values in lists": (
        {"scores": [[["llm", j], ["human", h]] for j, h in BOTH]},
        "scores.llm => scores.human",
    ),
    "a call that was repeated": (
        {
            "attempts": [
                [{"error": "timeout"}] * (i % 3) + [{"verdict": j}] for i, j in enumerate(JUDGE)
            ]
        }
        | {"human": LABEL},
        "attempts.verdict => human",
    ),
    "a column for each class": (
        {f"pred_{c}": [int(j == c) for j in KINDS[1]] for c in "xyz"}
        | {f"human_{c}": [int(j == c) for j in KINDS[0]] for c in "xyz"},
        "pred_* => human_*",
    ),
    "categories below the verdict": (
        {"guard": [{"pass": "safe", "fail": f"unsafe\nS{i % 5}"}[j] for i, j in enumerate(JUDGE)]}
        | {"human": _as({"pass": "safe", "fail": "unsafe"}, LABEL)},
        "guard => human",
    ),
    "the token of a verdict": (
        {"verdict_token": JUDGE, "human": LABEL},
        "verdict_token => human",
    ),
    "objects as Python shows them": (
        {"judge": [f"Result(verdict=<V.{j.upper()}: 0>, why='a (b)')" for j in JUDGE]}
        | {"human": LABEL},
        "judge.verdict => human",
    ),
    "raters in rows": (
        {"id": None, "who": ["gpt-4o", "human"]}
        | {f"case {i}": list(pair) for i, pair in enumerate(BOTH)},
        "gpt-4o => human",
    ),
    "in a path named feedback": (
        {"feedback.correctness": JUDGE, "feedback.user_score": LABEL},
        "feedback.correctness => feedback.user_score",
    ),
    "a metric": (
        {"scores.hallucination_metric": _words((0, 1), 22)}
        | {"scores.human_hallucination": _words((0, 1), 23)},
        "scores.hallucination_metric => scores.human_hallucination",
    ),
    "a human twin": (
        {"score": [i / 99 for i in range(ROWS)], "success": JUDGE, "human_success": LABEL},
        "success => human_success",
    ),
    "expected": (
        {"expected_verdict": LABEL, "actual_verdict": JUDGE},
        "actual_verdict => expected_verdict",
    ),
    "levels": (
        {
            "teacher_level": _words(("A1", "B1", "C1"), 24),
            "gpt_level": _words(("A1", "B1", "C1"), 25),
        },
        "gpt_level => teacher_level",
    ),
    "resolved": (
        {"rater_1": LABEL, "rater_2": OTHERS[0], "final_label": LABEL, "gpt-4o_label": JUDGE},
        "gpt-4o_label => final_label",
    ),
    "experts in lists": (
        {"gpt4_tone": SCORE, "expert_annotations": [[{"tone": x}, {"tone": x}] for x in GRADE]},
        "gpt4_tone => expert_annotations.1.tone | expert_annotations.2.tone",
    ),
    "names in a path": (
        {"votes": [{"anna": x, "ben": x, "carl": y} for x, y in zip(LABEL, OTHERS[0], strict=True)]}
        | {"judge": JUDGE},
        "judge => votes.anna | votes.ben | votes.carl",
    ),
    "a reviewer in a path": (
        {"human": [{"reviewer": "kim", "verdict": x} for x in LABEL], "judge": JUDGE},
        "judge => human.verdict",
    ),
    "addresses": (
        {"kim@acme.com": LABEL, "x1@acme.com": OTHERS[0], "gpt-4o": JUDGE},
        "gpt-4o => kim@acme.com | x1@acme.com",
    ),
    "sentiment": (
        {"human_sentiment": _words((-1, 0, 1), 48), "judge_sentiment": _words((-1, 0, 1), 49)},
        "judge_sentiment => human_sentiment",
    ),
    "numbers in reasons": (
        {"gpt_score": SCORE, "human_score": GRADE, "human_reason": ["5 stars"] * ROWS},
        "gpt_score => human_score",
    ),
    "a word and a binary of scores": (
        {"judge_score": SCORE, "judge_binary": [int(score > 3) for score in SCORE]}
        | {"human_score": GRADE, "human_binary": [int(grade > 3) for grade in GRADE]},
        "judge_binary => human_binary",
    ),
    "an average of two judges": (
        {"judge_1": SCORE, "judge_2": _words((1, 2, 3), 36), "human": GRADE}
        | {
            "judge_avg": [
                (first + second) / 2
                for first, second in zip(SCORE, _words((1, 2, 3), 36), strict=True)
            ]
        },
        "judge_1 | judge_2 => human",
    ),
    "many classes": (
        {
            f"{who}_intent": _words([f"intent {i}" for i in range(15)], seed)
            for who, seed in (("gpt", 46), ("human", 47))
        },
        "gpt_intent => human_intent",
    ),
    "units by values": (
        {"id": None, "key_of_row": [f"s{i // 2}" for i in range(ROWS)]}
        | {"source": ["human", "llm"] * (ROWS // 2), "verdict": JUDGE},
        "llm => human",
    ),
    "kinds and names of raters": (
        {
            "id": [f"s{i // 2}" for i in range(ROWS)],
            "evaluator_type": ["human", "llm"] * (ROWS // 2),
        }
        | {"evaluator": ["kim@x.com", "gpt-4.1"] * (ROWS // 2), "score": _words((0, 1), 37)},
        "llm => human",
    ),
    "answers next to verdicts": (
        {
            "gold_answer": _words(("Paris", "Rome"), 51),
            "model_answer": _words(("Paris", "Rome"), 52),
        }
        | {"judge": JUDGE, "human": LABEL}
    ),
    "most votes": (
        {"judge": JUDGE}
        | {f"human_votes.{word}": [3 * (x == word) for x in LABEL] for word in FLAGS},
        "judge => human_votes_*",
    ),
    "a metric and the same one by people": (
        {"id": [f"s{i // 2}" for i in range(ROWS)], "value": JUDGE}
        | {"name": ["Tone", "Human Tone"] * (ROWS // 2)},
        "Tone => Human Tone",
    ),
    "melted by pandas": (
        {"id": [f"s{i // 2}" for i in range(ROWS)], "value": JUDGE}
        | {"variable": ["judge", "human"] * (ROWS // 2)}
    ),
    "first names and a model": (
        {"id": [f"s{i // 2}" for i in range(ROWS)], "grade": JUDGE}
        | {"who": ["Marta", "gpt-5-mini"] * (ROWS // 2), "is_cached": ["yes", "no", "no"] * 20},
        "gpt-5-mini => Marta",
    ),
    "kinds next to ids of raters": (
        {"doc": [f"s{i // 2}" for i in range(ROWS)], "rater_id": ["u7", "m1"] * (ROWS // 2)}
        | {"rater_type": ["human", "model"] * (ROWS // 2), "score": SCORE, "id": None},
        "model => human",
    ),
    "a text and what was read from it": (
        {"judge_raw": [f"It has flaws. Final grade: {score}" for score in SCORE]}
        | {"judge_parsed": SCORE, "human": GRADE},
        "judge_parsed => human",
    ),
    "a probability of a prediction": (
        {"pred": JUDGE, "pred_proba": [0.5 + i / 200 for i in range(ROWS)], "label": LABEL},
        "pred => label",
    ),
    "prefers the model": (
        {
            f"{who}_prefers_model": _words((True, False), i)
            for i, who in ((60, "human"), (61, "judge"))
        },
        "judge_prefers_model => human_prefers_model",
    ),
    "a list of one object": (
        {"judge": [[{"verdict": word, "why": "so"}] for word in JUDGE], "human": LABEL},
        "judge.verdict => human",
    ),
    "the most points": (
        {"max_points": _words((4, 5), 53), "judge_score": SCORE, "human_score": GRADE},
        "judge_score => human_score",
    ),
    "a repeated header": {
        "judge": ["judge", *JUDGE[1:]],
        "human": ["human", *LABEL[1:]],
        "id": ["id", *IDS[1:]],
    },
    "a class next to its confidence": (
        {"expected_intent": _words(("faq", "order", "agent"), 91)}
        | {"matched_intent": _words(("faq", "order", "agent"), 92)}
        | {"score": [i / 99 for i in range(ROWS)]},
        "matched_intent => expected_intent",
    ),
    "grades in French": (
        {"Note IA": SCORE, "Note correcteur": GRADE, "reviewer_id": _words((1, 2, 3), 98)},
        "Note IA => Note correcteur",
    ),
    "an arrow at a word": {"judge": [f"=> {x}" for x in JUDGE], "human": LABEL},
    "a machine in a role": (
        {"AI质检结果": JUDGE, "人工质检结果": LABEL},
        "AI质检结果 => 人工质检结果",
    ),
    "numbers of the better response": (
        {**SIDES, "safer_response_id": _words((0, 1), 12)}
        | {"judge_better_response_id": _as({"pass": "A", "fail": "B"}, JUDGE)}
        | {"human_better_response_id": _as({"pass": "A", "fail": "B"}, LABEL)},
        "judge_better_response_id => human_better_response_id",
    ),
    "what a machine estimates": (
        {"estimated_annotation": JUDGE, "annotation": LABEL},
        "estimated_annotation => annotation",
    ),
    "evaluators with a name within": (
        {
            "logs": [
                [
                    {"evaluator": {"name": "Right", "version": 2}, "value": judge},
                    {"evaluator": {"name": "Human right", "version": 1}, "value": label},
                ]
                for judge, label in BOTH
            ]
        },
        "logs.Right.value => logs.Human right.value",
    ),
    "statistics of named scores": (
        {
            "stats": [
                [
                    {"name": {"name": name, "split": "test"}, "count": 2, "sum": 2 * score}
                    for name, score in (("wild_score", judge), ("human_score", label))
                ]
                for judge, label in zip(SCORE, GRADE, strict=True)
            ]
        },
        "stats.wild_score.mean => stats.human_score.mean",
    ),
    "winners with how sure they are": (
        {**SIDES, "human": _words(("Response 1", "Response 2"), 84)}
        | {
            "judge": [
                f"{x} (confidence: {40 + i}%)"
                for i, x in enumerate(_words(("Response 1", "Response 2"), 85))
            ]
        }
    ),
    "what users are": {"judge": JUDGE, "human": LABEL, "user_tier": _words(("free", "pro"), 80)},
    "one grader": (
        {"Grader": ["Kim"] * ROWS, "AutoQA: tone": JUDGE, "Human: tone": LABEL},
        "AutoQA: tone => Human: tone",
    ),
    "a word and its probability": (
        {"judge": [{"label": x, "p": i / 99} for i, x in enumerate(JUDGE)], "human": LABEL},
        "judge.label => human",
    ),
    "votes of all": (
        {
            "human": LABEL,
            "judge_votes_pass": _words((0, 1, 3), 81),
            "judge_votes_total": [3] * ROWS,
        },
        "judge_votes_* => human",
    ),
    "letters with two marks": ({"mô hình": JUDGE, "người": LABEL}, "mô hình => người"),
    "who does what": (
        {"radiologist": LABEL, "copilot_review": JUDGE, "deletions": list(range(ROWS))},
        "copilot_review => radiologist",
    ),
    "what a label is like": (
        {"judge": JUDGE, "label": LABEL, "is_label_issue": _words((True, False), 77)}
        | {"label_quality": [i / 99 for i in range(ROWS)]},
        "judge => label",
    ),
    "the name of an index": {
        "id": None,
        "metric": ["case", *IDS[1:]],
        "judge": [None, *SCORE[1:]],
        "human": [None, *GRADE[1:]],
    },
    "raters in rows with their kind": (
        {"id": None, "rater": ["gpt-4o", "expert panel"], "type": ["model", "human"]}
        | {f"item {i}": [SCORE[i], GRADE[i]] for i in range(ROWS)},
        "gpt-4o => expert panel",
    ),
    "a row with the most points": {
        "id": ["Points possible", *IDS[1:]],
        "judge": SCORE,
        "human": GRADE,
    },
    "sums between rows": {
        "id": [*range(20), "average", *range(21, ROWS)],
        "judge": SCORE,
        "human": GRADE,
    },
    "words and objects": (
        {"judge": [{"verdict": x, "why": "so"} if i % 3 else x for i, x in enumerate(JUDGE)]}
        | {"human": LABEL}
    ),
    "lists within lists": (
        {"judge": JUDGE}
        | {"labels": [[{"choices": [{"name": "tone", "answer": {"value": x}}]}] for x in LABEL]},
        "judge => labels.choices.tone.answer.value",
    ),
    "ids of people in lists": (
        {"grader_met": JUDGE, "labels": [[x, x] for x in LABEL], "doctor_ids": [["A", "B"]] * ROWS},
        "grader_met => labels.1 | labels.2",
    ),
    "a list of names": (
        {"id": [f"s{i // 2}" for i in range(ROWS)], "winner": _words(("model_a", "model_b"), 70)}
        | {"judge": ["expert_1", "['gpt-4', 'pair']"] * (ROWS // 2)}
        | {"model_a": ["m1"] * ROWS, "model_b": ["m2"] * ROWS, "conversation_a": TEXTS},
        "['gpt-4', 'pair'] => expert_1",
    ),
    "a system next to the model of a prompt": (
        {"system_prompt": _words(("s", "t"), 77), "model_name": _words(("gpt-4", "claude-v1"), 78)}
        | {"response": TEXTS, "human_score": GRADE, "gpt4_score": SCORE},
        "gpt4_score => human_score",
    ),
    "two ids": (
        {"id": None, "qid": [f"q{i // 6}" for i in range(ROWS)]}
        | {"docid": [f"d{i % 6}" for i in range(ROWS)], "judge": SCORE, "human": GRADE}
    ),
    "OK and NG": (
        {"LLM判定": _as({"pass": "OK", "fail": "NG"}, JUDGE)}
        | {"担当者判定": _as({"pass": "OK", "fail": "NG"}, LABEL)},
        "LLM判定 => 担当者判定",
    ),
    "texts that people and models were shown": (
        {"judge": JUDGE, "human": LABEL, "user_prompt": _as({"pass": "y", "fail": "n"}, LABEL)}
        | {"retrieved_contexts": [["x", "y"]] * ROWS}
    ),
    "a judge of one turn": (
        {"judge_score_turn_1": JUDGE, "human": LABEL},
        "judge_score_turn_1 => human",
    ),
    "initials of reviewers": (
        {"bot_grader": _as({"pass": "Solved", "fail": "Escalated"}, JUDGE)}
        | {"qa_outcome": _as({"pass": "Solved", "fail": "Escalated"}, LABEL)}
        | {"reviewer": _words(("JS", "MK", "AL"), 15)},
        "bot_grader => qa_outcome",
    ),
}


@pytest.mark.parametrize("name", [*SUMS, *RATERS])
def test_raters_are_found_by_names_and_values(name):
    """Among them, a column that sums up raters is no rater."""
    _check_raters({**SUMS, **RATERS}[name])


LEVELS: Mapping[str, Sequence[Any]] = {
    "plus and minus": ("--", "-", "0", "+", "++"),
    "grades": ("A", "A-", "B+", "B"),
    "parts of yes": ("Yes", "No", "Yes, partially"),
    "correct with a remark": ("Correct", "Correct (minor issue)", "Incorrect"),
    "none is the lowest": ("none", "minor", "major"),
    "traffic lights": ("🟢", "🔴"),
}


@pytest.mark.parametrize("name", LEVELS)
def test_words_that_differ_are_classes_that_differ(name):
    words = LEVELS[name]
    table = read_cells({"id": IDS, "judge": _words(words, 26), "human": _words(words, 27)})
    assert len(set(table.values["judge"].values())) == len(words)


def test_two_spellings_of_a_rank_are_one_level():
    judge = _words(("Disagree", "Neutral", "Agree"), 58)
    human = _as({"Disagree": "Disagree", "Neutral": "Undecided", "Agree": "Agree"}, judge)
    table = read_cells({"id": IDS, "judge": judge, "human": [*human[1:], "Agree"]})
    assert table.space.rubric["ordered"] is True
    assert {*table.values["human"].values()} == {"Disagree", "Neutral", "Agree"}


def test_winners_name_systems_before_sides():
    """The names m1 and m2 would be sides, if they were no systems."""
    names = ("m1", "m2", "m3")
    first = [names[i % 3] for i in range(ROWS)]
    second = [names[(i + 1) % 3] for i in range(ROWS)]
    winners = [pair[i % 2] for i, pair in enumerate(zip(first, second, strict=True))]
    table = read_cells(
        {"id": IDS, "model_a": first, "model_b": second, "judge": winners}
        | {"human": [second[0], *winners[1:]]}
    )
    assert [record.said.value for record in table.parsed.records][:4] == [1.0, -1.0, 1.0, -1.0]


def test_forms_of_one_word_are_one_class():
    tones = {"pass": "👍🏽", "fail": "👎🏿"}
    plain = {"pass": "👍", "fail": "👎"}
    table = read_cells({"id": IDS, "judge": _as(tones, JUDGE), "human": _as(plain, LABEL)})
    assert {*table.values["judge"].values()} == {*table.values["human"].values()}


SIDED = (
    ("Antwort 1 besser", "Antwort 2 besser", "gleich gut"),
    ("A更好", "B更好", "差不多"),
    ("A gana", "B gana", "empate"),
    ("1", "2", "tie"),
)


@pytest.mark.parametrize("words", SIDED)
def test_words_that_differ_in_the_side_are_winners(words):
    table = read_cells({"id": IDS, **SIDES, "judge": _words(words, 28), "human": _words(words, 29)})
    assert table.values["judge"] == dict(zip(words, ("A", "B", "TIE"), strict=True))


@pytest.mark.parametrize("form", ["{}.", '"{}"', "**{}**", "  {}!"])
def test_marks_around_a_word_are_no_part_of_a_class(form):
    table = read_cells({"id": IDS, "judge": [form.format(word) for word in JUDGE], "human": LABEL})
    assert {*table.values["judge"].values()} == set(FLAGS)


def test_ok_between_bad_and_good_is_no_good():
    words = {"schlecht": "bad", "mittel": "ok", "gut": "good"}
    human = _words([*words], 51)
    table = read_cells({"id": IDS, "judge": _as(words, human)[::-1], "human": human})
    assert table.values["judge"] == {"bad": 1.0, "ok": 2.0, "good": 3.0}


def test_minus_one_and_one_are_two_classes():
    table = read_cells({"id": IDS, "judge": _words((-1, 1), 52), "human": _words((-1, 1), 53)})
    assert table.unit == "class"


NUMBERS = (
    *("{} = wrong", "{} von 5 Sternen", "[[{}]]", "<score>{}</score>", "It is fine. [RESULT] {}"),
    *("\\boxed{{{}}}", "'{}", "~{}"),
)


@pytest.mark.parametrize("form", NUMBERS)
def test_marked_numbers_are_scores(form):
    table = read_cells(
        {"id": IDS, "judge": [form.format(score) for score in SCORE], "human": GRADE}
    )
    given = [next(iter(record.said.scores.values())) for record in table.parsed.records]
    assert (table.unit, given) == ("response", SCORE)


DATES = ("05. Jan", "1. Mai", "5月1日", "2 févr. 2026", "12-Okt", "03 Dic")


@pytest.mark.parametrize("date", DATES)
def test_a_date_in_any_language_is_no_number(date):
    table = read_cells({"id": IDS, "judge": [date, *SCORE[1:]], "human": GRADE})
    assert table.space.missing["judge"] == {date: "dates where numbers were"}


def test_a_verdict_may_name_what_was_shown_first():
    cells = {name: [text for text in texts for _ in "ab"] for name, texts in SIDES.items()}
    cells |= {"id": [name for name in IDS for _ in "ab"], "swapped": [False, True] * ROWS}
    judge = ["first", "second"] * ROWS  # A, whichever is shown first
    human = [side for side in _words(("A", "B"), 30) for _ in "ab"]
    choices = Choices(words={"judge_winner:first": "FIRST", "judge_winner:second": "SECOND"})
    with pytest.raises(OpenTableError, match="what do they name"):
        read_cells({**cells, "judge_winner": judge, "human_winner": human})
    table = read_cells({**cells, "judge_winner": judge, "human_winner": human}, choices)
    by_order = {one.said.value for one in table.parsed.records}
    assert by_order == {1.0, -1.0}


def test_minus_one_and_one_are_mapped_apart():
    cells = {**SIDES, "judge": _words((-1, 1), 31), "human": _words((-1, 1), 32)}
    table = read_cells({"id": IDS, **cells}, Choices(words={"1": "B", "-1": "A"}))
    assert table.values["judge"] == {"1": "B", "-1": "A"}


def test_no_labels_may_be_said_without_a_judge():
    table = read_cells({"id": IDS, "judge": JUDGE, "human": LABEL}, Choices(labels=("NONE",)))
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (["judge"], [])


ASKED: Mapping[str, tuple[Cells, str]] = {
    "criteria on two scales in rows": (
        {"id": [f"c{i // 2}" for i in range(ROWS)], "metric": ["ok", "quality"] * (ROWS // 2)}
        | {
            name: [0 if i % by else 1 if i % 2 == 0 else 5 for i in range(ROWS)]
            for name, by in (("judge", 3), ("human", 5))
        },
        "have different scales",
    ),
    "scores of code": (
        {"name": ["Levenshtein"] * ROWS, "score": SCORE, "human_score": GRADE},
        "'score' has scores of Levenshtein, which is code: are they a judge's?",
    ),
    "a verdict about everything": (
        {
            f"{name}_{rater}": OTHERS[n + m]
            for n, name in enumerate(("tone", "overall"))
            for m, rater in enumerate(("llm", "human"))
        },
        "has verdicts by criterion (tone, overall)",
    ),
    "labels that name no winner": (
        {
            "response_a": [f"x{i}" for i in range(ROWS)],
            "response_b": [f"y{i}" for i in range(ROWS)],
            "judge": [f"I compare. Final verdict: [[{'ABC'[i % 3]}]]" for i in range(ROWS)],
            "gold_subject": [("math", "law", "code")[i % 3] for i in range(ROWS)],
            "gold_topic": [("sums", "tort", "loops")[i % 3] for i in range(ROWS)],
        },
        "each row has two responses, and 'gold_subject' ('math'), 'gold_topic' ('sums') name",
    ),
    "criteria on two scales": (
        {
            "tone_llm": SCORE,
            "tone_human": GRADE,
            "depth_llm": [10 * score for score in SCORE],
            "depth_human": [10 * grade for grade in GRADE],
        },
        "has verdicts by criterion (tone, depth)",
    ),
    "a mark that nobody knows": (
        {
            name: ["checked" if word == "pass" else None for word in words]
            for name, words in (("judge", JUDGE), ("human", LABEL))
        },
        "what does an empty cell mean",
    ),
    "labels of a merge": (
        {"label_left": LABEL, "label_right": JUDGE, "_merge": ["both"] * ROWS},
        "'label_left', 'label_right' leave open which is the judge",
    ),
    "a constant column": (
        {"iter": [0] * ROWS, "nist_rel": GRADE, "umbrela_rel": SCORE},
        "of 'nist_rel', 'umbrela_rel' leave open which is the judge",
    ),
    "scores of somebody": (
        {"Tone (model)": SCORE, "Tone (me)": GRADE},
        "'Tone (me)' has values like those of the judge",
    ),
    "words of somebody": (
        {"gpt4_verdict": JUDGE, "disposition": _as({"pass": "close", "fail": "escalate"}, LABEL)},
        "'disposition' has values like those of the judge",
    ),
    "numbers about people": (
        {"llm_score": SCORE, "reviewer_shift": _words((1, 2, 3), 97), "reviewer_score": GRADE},
        "the numbers in 'reviewer_shift' have nothing to do with any other verdicts",
    ),
    "another column than the label": (
        {"llm_score": SCORE, "staff_room": _words((7, 8, 9), 98), "final": GRADE},
        "and 'final' goes together with one of them",
    ),
    "criteria of a judge and of nobody": (
        {"gpt_tone": SCORE, "gpt_depth": SCORE[::-1], "tone": GRADE, "depth": GRADE[::-1]},
        "are named after the criteria of 'gpt_tone': whose are they?",
    ),
    "feedback that has flags": (
        {
            "judge_ok": _as({"pass": "1", "fail": "0"}, JUDGE),
            "feedback": _as({"pass": "Positive", "fail": "Negative"}, LABEL),
        },
        "whose are they?",
    ),
    "flags in other words": (
        {
            "judge_ok": _as({"pass": "1", "fail": "0"}, JUDGE),
            "feedback.rating": _as({"pass": "true", "fail": "false"}, LABEL),
        },
        "whose are they?",
    ),
    "a rank and a score": (
        {"judge_score": SCORE, "human_rank": [6 - grade for grade in GRADE]},
        "point in opposite directions",
    ),
    "a fault and a merit": (
        {"judge": JUDGE, "human": _as({"pass": "bad", "fail": "good"}, LABEL)},
        "point in opposite directions",
    ),
    "corrections": (
        {"judge": JUDGE}
        | {
            "human_override": [
                OPPOSITE[word] if i % 6 == 0 else None for i, word in enumerate(JUDGE)
            ]
        },
        "are they corrections",
    ),
    "agrees with the judge": (
        {
            "judge_verdict": JUDGE,
            "human_agrees": [a == b for a, b in zip(JUDGE, LABEL, strict=True)],
        },
        "tell where someone agrees with a verdict",
    ),
    "the words of the judge": ({"AI check": JUDGE, "QA status": LABEL}, "whose are they"),
    "the name of the judge": (
        {"contains_pii": _words(("yes", "no"), 40), "gpt_contains_pii": _words(("yes", "no"), 41)},
        "whose are they",
    ),
    "one more annotator": (
        {"Anna": LABEL, "Zork": OTHERS[0], "judge": JUDGE},
        "is it of another annotator",
    ),
    "1 and 2 for pass and fail": (
        {"human": _as({"pass": 1, "fail": 2}, LABEL), "judge": JUDGE},
        "point in opposite directions",
    ),
    "scores of two responses": (
        {"responses": [[f"a {i}", f"b {i}"] for i in range(ROWS)], "human_best": _words((0, 1), 50)}
        | {"judge_scores": [[score, 3] for score in SCORE]},
        "which number is which winner",
    ),
    "a code": (
        {"human_score": [99 if i % 9 == 0 else x for i, x in enumerate(GRADE)], "judge": SCORE},
        "does it stand for no verdict",
    ),
    "numbers of cases": (
        {"id": None, "judge": [*FLAGS, *FLAGS], "human": ["pass", "pass", "fail", "fail"]}
        | {"n": [40, 9, 6, 45]},
        "for as many cases as 'n' says",
    ),
    "numbers of preferences": (
        {"gpt_pref": _words(("A", "B"), 86)}
        | {f"n_prefer_{side}": _words((0, 1, 3), seed) for side, seed in (("a", 87), ("b", 88))},
        "whose are they",
    ),
    "classes of a classifier": (
        {"y_true": _words((0, 1, 2), 89), "y_pred": _words((0, 1, 2), 90)},
        "numbers of classes",
    ),
    "failed among classes": (
        {
            f"passed_by_{who}": _words(("failed", "solved", "unsure"), seed)
            for who, seed in (("gpt", 93), ("human", 94))
        },
        "have 'failed' next to classes",
    ),
    "classes of the judge": (
        {"Agent category": _words(("bug", "bill", "help"), 95)}
        | {"AI category": _words(("bug", "bill", "help"), 96)},
        "whose are they",
    ),
    "a repeated name": ({"verdict": JUDGE, "verdict.1": LABEL}, "leave open which is the judge"),
    "a grader": ({"AutoQA: tone": JUDGE, "Grader: tone": LABEL}, "whose are they"),
    "lists on both sides": (
        {
            "judge_ranking": [[1, 2, 3] if x == "pass" else [2, 1, 3] for x in JUDGE],
            "human_ranking": [[1, 2, 3] if x == "pass" else [3, 1, 2] for x in LABEL],
        },
        "has verdicts by criterion (1, 2, 3)",
    ),
    "flags of users": (
        {"judge_score": SCORE, "feedback_rating": _words((True, False), 82)},
        "whose are they",
    ),
    "judges without names": (
        {f"j{i}": OTHERS[i] for i in range(3)} | {"majority": _majority(OTHERS), "gold": LABEL},
        "has labels ('gold'), and no column is named as a judge",
    ),
    "an answer that a person accepts": (
        {"tone": [{"metric_output": x, "is_accepted": i % 3 > 0} for i, x in enumerate(JUDGE)]},
        "tell where someone agrees with a verdict",
    ),
    "a remark at a verdict": (
        {"judge": JUDGE, "human": [f"{x} (see mail)" if i < 6 else x for i, x in enumerate(LABEL)]},
        "that are no known verdicts",
    ),
    "none among classes": (
        {
            who: _words(("billing", "refund", "None"), seed)
            for seed, who in ((78, "gpt_topic"), (79, "human_topic"))
        },
        "have 'None' next to classes",
    ),
    "codes of classes": (
        {f"{who}_code": _words((101, 102, 103), i) for i, who in ((71, "gpt"), (72, "human"))},
        "numbers of classes",
    ),
    "a preference as a share": (
        {**SIDES, "judge": [i / ROWS for i in range(ROWS)], "human": _words(("A", "B"), 73)},
        "which one do high numbers prefer",
    ),
    "a list of labels": (
        {"judge_ok": JUDGE, "labels": [[{"start": i}, {"start": 2}] for i in range(ROWS)]},
        "has lists, which are not one verdict",
    ),
    "a text next to the only scores": (
        {"orig_score": GRADE, "output": [f"It has flaws. [RESULT] {score}" for score in SCORE]},
        "leave open which is the judge",
    ),
    "numbers of options": (
        {"judge_best": _words((0, 1, 2), 42), "human_best": _words((0, 1, 2), 43)},
        "numbers of options",
    ),
    "a probability": (
        {"judge_prob_pass": [i / ROWS for i in range(ROWS)], "human": LABEL},
        "no column is named as a judge",
    ),
    "columns that never differ": (
        {"first": ["good"] * ROWS, "outcome": LABEL, "other": GRADE, "second": ["bad"] * ROWS},
        "is it 'outcome', 'other'?",
    ),
    "only ok": (
        {"judge": JUDGE, "human": ["ok" if word == "pass" else None for word in LABEL]},
        "what does an empty cell mean",
    ),
    "a fault": ({"judge": JUDGE, "has_error": LABEL}, "whose are they"),
    "who was asked": (
        {"judge": JUDGE, "human_reviewed": ["yes"] * ROWS, "quality": LABEL},
        "whose are they",
    ),
    "a part and the whole": (
        {"judge_fluency": SCORE, "human_overall": GRADE},
        "named after different criteria",
    ),
    "one word in all rows": (
        {"judge": JUDGE, "human_ok": ["yes"] * ROWS, "quality": LABEL},
        "in all rows: is it the label",
    ),
    "a copy in other words": (
        {"judge": JUDGE, "human": _as({"pass": "yes", "fail": "no"}, JUDGE)},
        "a copy is no evidence of agreement",
    ),
    "the number of the choice": (
        {"responses": [[f"a {i}", f"b {i}"] for i in range(ROWS)]}
        | {
            f"{who}_choice_index": _words((0, 1), seed)
            for who, seed in (("gpt", 54), ("human", 55))
        },
        "which number is which winner",
    ),
    "systems named after sides": (
        {"model_a": ["Model A", "Model B"] * (ROWS // 2)}
        | {"model_b": ["Model B", "Model A"] * (ROWS // 2)}
        | {
            "judge": _words(("Model A", "Model B"), 56),
            "human": _words(("Model A", "Model B"), 57),
        },
        "names of systems and of sides",
    ),
    "one named judge": ({"LLM_verdict": JUDGE, "QA_verdict": LABEL}, "whose are they"),
    "labels of one prompt": (
        {"id": [f"p{i % 6}" for i in range(ROWS)], "judge": JUDGE, "human": LABEL},
        "what is a row",
    ),
    "marks": (
        {"judge": ["x" if word == "pass" else None for word in JUDGE], "human": LABEL},
        "what does an empty cell mean",
    ),
    "responses from zero": (
        {f"response_{i}": SIDES[f"response_{'ab'[i]}"] for i in (0, 1)}
        | {"judge_preferred": _words((0, 1), 12), "human_preferred": _words((0, 1), 13)},
        "which number is which winner",
    ),
    "named after a word": (
        {"guard": ["safe" if word == "pass" else "unsafe" for word in JUDGE]}
        | {"llm_verdict": ["safe" if word == "pass" else "unsafe" for word in JUDGE]}
        | {"is_safe": [word == "pass" for word in LABEL]},
        "whose are they",
    ),
    "names or verdicts": (
        {"judge": _words(("alpha", "beta"), 14), "human": LABEL},
        "no column is named as a judge: is it 'judge'",
    ),
    "chosen by the scores": (
        {
            "chosen": SIDES["response_a"],
            "rejected": SIDES["response_b"],
            "score_chosen": [score + 5 for score in SCORE],
            "score_rejected": GRADE,
        },
        "was the choice made from it",
    ),
    "criteria of another name": (
        BY_CRITERION,
        "'md_x', 'md_y', 'md_z' are named after the criteria of 'ai_x'",
    ),
    "runs of one judge": (
        {f"judge_run{n}": OTHERS[n] for n in (0, 1, 2)} | {"human": LABEL},
        "'judge_run0', 'judge_run1', 'judge_run2' may be runs of one judge",
    ),
    "a model with numbers": (
        {f"gpt-4o_{n}": OTHERS[n - 1] for n in (1, 2, 3)} | {"human": LABEL},
        "'gpt-4o_1', 'gpt-4o_2', 'gpt-4o_3' may be runs of one judge",
    ),
    "runs in a list": (
        {"judge_runs": [list(row) for row in zip(*OTHERS, strict=True)], "human": LABEL},
        "'judge_runs.1', 'judge_runs.2', 'judge_runs.3' may be runs of one judge",
    ),
    "runs in objects": (
        {
            "calls": [
                [{"run": n, "verdict": word} for n, word in enumerate(row)]
                for row in zip(*OTHERS, strict=True)
            ],
            "human": LABEL,
        },
        "may be runs of one judge",
    ),
    "numbered judges of a pair": (
        {**SIDES, "judge_1": _as(WINNERS, JUDGE), "judge_2": _as(WINNERS, OTHERS[0])}
        | {"human": _as(WINNERS, LABEL)},
        "name the responses, or what was shown first and second",
    ),
    "scores of both responses": (
        {**SIDES, "judge_a": SCORE, "judge_b": GRADE, "human_a": GRADE, "human_b": SCORE},
        "'judge_a', 'judge_b', 'human_a', 'human_b' have scores: whose are they?",
    ),
    "criteria under one path next to other scores": (
        {"scores.tone": GRADE, "scores.style": GRADE[::-1], "scores.facts": _words(range(5), 79)}
        | {"all_responses": [[f"{n}", f"{6 - n}"] for n in SCORE]},
        "are scores of one rater by criterion, and 'all_responses.1' may be another's",
    ),
    "criteria without a judge": (
        {"eval.scores.tone": SCORE, "eval.scores.facts": GRADE}
        | {"human.scores.tone": GRADE, "human.scores.facts": SCORE},
        "is it 'eval.scores.tone', 'eval.scores.facts'?",
    ),
    "both orders of a pair": (
        {
            **SIDES,
            "verdict_ab": _as(WINNERS, JUDGE),
            "verdict_ba": _as(WINNERS, OTHERS[0]),
            "human": _as(WINNERS, LABEL),
        },
        "name the responses, or what was shown first and second",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_open_is_asked(name):
    cells, question = ASKED[name]
    with pytest.raises(OpenTableError) as asked:
        read_cells({name: cell for name, cell in {"id": IDS, **cells}.items() if cell})
    assert question in asked.value.what
    single = ("no column is named", "for as many cases", "not one verdict", "which is code")
    single += ("two responses, and",)
    assert len(asked.value.answers) > 1 or any(part in question for part in single)


def test_scores_under_one_path_may_be_said_to_be_criteria_of_a_judge():
    cells, _ = ASKED["criteria under one path next to other scores"]
    with pytest.raises(OpenTableError) as asked:
        read_cells({"id": IDS, **cells})
    labels, *_, criteria = (Choices().with_options(one.options) for one in asked.value.answers)
    assert columns_of_role(read_cells({"id": IDS, **cells}, labels), "label") == ["scores.tone"]
    scores = columns_of_role(read_cells({"id": IDS, **cells}, criteria), "criterion's score")
    assert scores == ["scores.tone", "scores.style", "scores.facts"]
    # Another criterion of the labels' rater is no judge.
    with pytest.raises(OpenTableError, match="is it 'all_responses"):
        read_cells({"id": IDS, **cells}, Choices(labels=("scores.tone",)))


def test_runs_in_columns_are_repeats_of_one_judge():
    cells = {"id": IDS, **{f"judge_run{n}": OTHERS[n] for n in (0, 1, 2)}, "human": LABEL}
    cells["judge_majority"] = _majority(OTHERS)
    table = read_cells(cells, Choices(keys=("RUN",)))
    assert (columns_of_role(table, "judge"), columns_of_role(table, "sample")) == (
        ["judge"],
        ["run"],
    )
    words = [one.said.class_name for one in table.parsed.records]
    assert words == [word for row in zip(*OTHERS, strict=True) for word in row]
    again = read_cells(cells, choices_of(reading_of(table)))
    assert [one.said for one in again.parsed.records] == [one.said for one in table.parsed.records]
    with pytest.raises(DatasetError, match="'gpt' has no verdicts by run"):
        read_cells({**cells, "gpt": JUDGE}, Choices(keys=("RUN",)))
    for word in ("RUN", "ORDER"):
        with pytest.raises(DatasetError, match=f"leave out --key {word}"):
            read_cells({"id": IDS, "judge": JUDGE, "human": LABEL}, Choices(keys=(word,)))


NAMED_BY_WHO: Mapping[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "levels of raters": (("AI triage level", SCORE), ("Nurse triage level", GRADE)),
    "what programs compute, too": (("sentiment_gpt", JUDGE), ("sentiment_manual", LABEL)),
    "scores of a metric": (("pointwiseMetricResult.score", SCORE), ("humanRating", GRADE)),
}


@pytest.mark.parametrize("name", NAMED_BY_WHO)
def test_a_name_with_who_judged_is_a_rater(name):
    (judge, verdicts), (label, labels) = NAMED_BY_WHO[name]
    table = read_cells({"id": IDS, judge: verdicts, label: labels})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == ([judge], [label])


ORDERS = [
    ("verdict_ab", "verdict_ba"),
    ("verdict_1", "verdict_2"),
    ("judge_first_order", "judge_second_order"),
    ("g1_winner", "g2_winner"),
    ("judge_order1", "judge_order2"),
    ("winner_original", "winner_swapped"),
    ("gpt4_winner", "gpt4_winner_flipped"),
    ("裁判 正序", "裁判 逆序"),
]


@pytest.mark.parametrize("names", ORDERS)
def test_both_orders_in_columns_are_verdicts_of_one_judge(names):
    first = _as(WINNERS, JUDGE)
    second = _as(WINNERS, OTHERS[0])
    cells = {"id": IDS, **SIDES, **dict(zip(names, (first, second), strict=True))}
    cells["human"] = _as(WINNERS, LABEL)
    with pytest.raises(OpenTableError) as asked:
        read_cells(cells)
    same, shown, apart = [_choices_of_answer(one.options) for one in asked.value.answers]
    values = {"A": 1.0, "B": -1.0}
    opposite = {"A": -1.0, "B": 1.0}
    # Verdicts are recorded as shown: a name of the same response is turned in the second order.
    for choices, meaning in ((same, opposite), (shown, values)):
        records = read_cells(cells, choices).parsed.records
        assert [one.said.value for one in records[::2]] == _as(values, first)
        assert [one.said.value for one in records[1::2]] == _as(meaning, second)
    assert columns_of_role(read_cells(cells, apart), "judge") == [*names]


def _choices_of_answer(options: Sequence[str]) -> Choices:
    """Return the choices that the options of a printed command make."""
    said: dict[str, list[str]] = {"--key": [], "--map": [], "--judge": []}
    for option, word in zip(options[::2], options[1::2], strict=True):
        said[option].append(word)
    words = dict(word.split("=") for word in said["--map"])
    return Choices(judges=tuple(said["--judge"]), keys=tuple(said["--key"]), words=words)


def test_winners_that_are_systems_need_no_question_about_orders():
    systems = {"pass": "gpt-4o", "fail": "claude-3"}
    cells = {"id": IDS, "model_a": ["gpt-4o"] * ROWS, "model_b": ["claude-3"] * ROWS}
    cells |= {"winner_ab": _as(systems, JUDGE), "winner_ba": _as(systems, OTHERS[0])}
    table = read_cells({**cells, "human_winner": _as(systems, LABEL)})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "order")) == (
        ["winner"],
        ["order"],
    )


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("**Verdict:** {}\n\n**Reason:** {text}", FLAGS),
        ("Tone: 1, as {text}\nOverall: {}", (2, 3, 4)),
        ("{text}.\nScore: {}/5", (1, 2, 3)),
        ("{} percent", (20, 40, 60)),
    ],
)
def test_a_line_may_name_the_verdict(form, words):
    label = _words(words, 1)
    judge = _words(words, 2, label)
    texts = [form.format(word, text=text) for word, text in zip(judge, TEXTS, strict=True)]
    table = read_cells({"id": IDS, "judge": texts, "human": label})
    assert len({*table.values["judge"].values()}) == len(words)
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["judge"],
        ["human"],
    )


GRADES = {
    "grades": (("A", "B", "C", "D", "F"), "judge", True),
    "signs": (("A+", "A", "B-", "C"), "judge", True),
    "a name": (("A", "B", "C", "D"), "ai_grade", True),
    "options": (("A", "B", "C", "D"), "judge", False),
    "kinds": (("A", "B", "C", "D", "E", "F"), "judge", False),
    "three letters": (("A", "B", "C"), "ai_grade", False),
}


@pytest.mark.parametrize("name", GRADES)
def test_letters_are_grades_if_they_must_be(name):
    words, judge, ordered = GRADES[name]
    label = _words(words, 1)
    columns = {
        judge: _words(words, 2, label),
        judge.replace("judge", "label").replace("ai", "human"): label,
    }
    table = read_cells({"id": IDS, **columns})
    assert table.settings.get("rubric", {}).get("ordered", False) is ordered


def test_criteria_of_named_columns_become_rows():
    cells = BY_CRITERION
    judges = ("ai_x", "ai_y", "ai_z")
    labels = ("md_x", "md_y", "md_z")
    keys = ("CRITERION",)
    table = read_cells({"id": IDS, **cells}, Choices(judges=judges, labels=labels, keys=keys))
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (["ai"], ["md"])
    for more in ({"judges": ("ai_x",), "labels": ("md_y",)}, {"judges": ("ai_x",)}):
        with pytest.raises(DatasetError, match="no column of each criterion for each rater"):
            read_cells({"id": IDS, **cells}, Choices(keys=keys, **more))
    plain = {"id": IDS, "judge": JUDGE, "human": LABEL}
    with pytest.raises(DatasetError, match="leave out --key CRITERION"):
        read_cells(plain, Choices(keys=keys))
    with pytest.raises(ConfigError, match="has no column 'ids'; did you mean 'id'"):
        read_cells(plain, Choices(keys=("ids",)))


def test_numbers_beyond_a_bound_are_mapped():
    cells = {**SIDES, "p": [i / ROWS for i in range(ROWS)], "human": _words(("A", "B"), 73)}
    words = {"p:>0.5": "A", "<0.5": "B", "p:0.50": "TIE"}
    table = read_cells({"id": IDS, **cells}, Choices(judges=("p",), labels=("human",), words=words))
    winners = [*table.values["p"].values()]
    assert [winners.count(side) for side in ("A", "B", "TIE")] == [29, 30, 1]
    again = read_cells({"id": IDS, **cells}, choices_of(reading_of(table)))
    assert again.values["p"] == table.values["p"]
    shares = {"id": IDS, "judge": [i / ROWS for i in range(ROWS)], "human": LABEL}
    with pytest.raises(DatasetError, match="different words"):
        read_cells(shares, Choices(words={"<2": "B"}))


NAMED = ("very poor", "poor", "fair", "good", "very good")


NUMERALS = {
    "roman": ("I", "II", "III", "IV", "V"),
    "chinese": ("一", "二", "三", "四", "五"),
    "circled": ("①", "②", "③", "④", "⑤"),
    "halves": ("1", "1½", "2", "2½", "3¼"),
    "with a margin": ("1.0 ± 0.3", "2.0 ± 0.3", "3.0 ±0.2", "4 +/- 1", "5.0 ± 0.3"),
}


@pytest.mark.parametrize("name", NUMERALS)
def test_numerals_are_scores(name):
    column = TypedColumn("judge", [NUMERALS[name][score - 1] for score in SCORE])
    assert column.is_numeric
    levels = [1, 1.5, 2, 2.5, 3.25] if name == "halves" else [1, 2, 3, 4, 5]
    assert column.distinct_numbers == levels


FORMS_OF_NUMBERS = (
    *("{}", "-{}", "+{}.5", ".{}", "'{}", "~{}", ' "{}" ', "{}e3", "[[{}]]", "{},5", "1,00{}"),
    *("{} ± 0.2", "Score: {}", "LEVEL {}", "note = {}", "{} - good", "{} pts", "{} %", "{}/5"),
    *("{} out of 10", "{} stars", "{}★", "评分 {}", "{}½"),
)


@pytest.mark.parametrize("form", FORMS_OF_NUMBERS)
def test_each_form_of_a_number_is_tried(form):
    column = TypedColumn("judge", [form.format(level) for level in SCORE])
    assert len(column.distinct_numbers) == 5
    assert column.is_numeric


def test_numbers_in_quotes_are_numbers():
    column = TypedColumn("judge", [f'"{level}"' for level in _words((-1, 0, 1), 97)])
    assert column.distinct_numbers == [-1, 0, 1]


def test_rows_without_a_column_are_refused():
    with pytest.raises(DatasetError, match="rows without any column"):
        read_table([("t:1", {}), ("t:2", {})], "t.csv", Choices())


def test_how_sure_a_verdict_is_makes_no_class_of_it():
    sure = ("high confidence", "not certain", "0.85", "70 %")
    judge = [f"{word} ({sure[i % 4]})" for i, word in enumerate(JUDGE)]
    table = read_cells({"id": IDS, "judge": judge, "human": LABEL})
    assert {*table.values["judge"].values()} == {*FLAGS}


@pytest.mark.parametrize("form", ["{} {}", "{}. {}", "{} - {}", "({}) {}", "{1} ({0})", "{1}: {0}"])
def test_numbers_with_words_are_scores(form):
    cells = {
        name: [form.format(level, NAMED[level - 1]) for level in levels]
        for name, levels in (("judge", SCORE), ("human", GRADE))
    }
    table = read_cells({"id": IDS, **cells})
    assert table.unit == "response"
    assert {*table.values["judge"].values()} == {1.0, 2.0, 3.0, 4.0, 5.0}


@pytest.mark.parametrize(
    "words", [("gpt 1", "llama 2", "qwen 3"), ("1 error", "2 errors", "3 errors")]
)
def test_other_words_with_numbers_are_no_scores(words):
    column = TypedColumn("judge", _words(words, 74))
    assert not column.numbers


def test_words_that_begin_alike_are_offered_first():
    short = {"entailment": "e", "neutral": "n", "contradiction": "c"}
    label = _words([*short], 75)
    with pytest.raises(OpenTableError) as asked:
        read_cells({"id": IDS, "gpt": [short[x] for x in _words([*short], 76)], "label": label})
    first, *_ = asked.value.answers
    assert {*first.options} - {"--map"} == {f"{word}={short[word]}" for word in short}
    assert len(asked.value.answers) == 6


REFUSED: Mapping[str, tuple[Cells, str]] = {
    "systems in rows": (
        {f"q{n}": _words((0, 1), n) for n in range(15)},
        "'q0' to 'q14' seem to be cases",
    ),
    "dates for scores": (
        {"judge": SCORE, "human": [f"2026-05-0{grade}" for grade in GRADE]},
        "'human' has dates where verdicts were",
    ),
    "several classes": (
        {
            "judge": _words(("tone;fact", "fact", "tone", "fact;tone"), 15),
            "human": _words(("tone;fact", "fact", "tone"), 16),
        },
        "several classes in a cell",
    ),
    "a list that contains a class": (
        {"judge": _words(("a", "a;b"), 33), "human": _words(("a", "a;b"), 34)},
        "several classes in a cell",
    ),
    "a mark for each of several checks": (
        {"checks": _words(("✔✗", "✗✔", "✔✔", "✗✗"), 46)},
        "several classes in a cell",
    ),
    "an error in each row": (
        {"error": [f"ConnectionError('{n}')" for n in range(ROWS)], "reviewer_grade": LABEL}
        | {"fallbacks": [0] * ROWS},
        "has an error in 'error' in each row",
    ),
    "rankings": (
        {name: _words(("A>B>C", "B>A>C"), seed) for name, seed in (("judge", 44), ("human", 45))},
        "rankings",
    ),
    "rows of people without units": (
        {"id": None, "text": TEXTS, "rater": ["human", "gpt-4o"] * (ROWS // 2), "verdict": JUDGE},
        "no column says which rows are about the same",
    ),
    "rows of a judge and of people about other cases": (
        {"rater": ["human", "gpt-4o"] * (ROWS // 2), "verdict": JUDGE},
        "no case in 'id' has verdicts of both",
    ),
    "two columns of rows of people": (
        {"id": [f"s{i // 2}" for i in range(ROWS)], "rater": ["human", "gpt-4o"] * (ROWS // 2)}
        | {"foo": JUDGE, "bar": _words(FLAGS, 62)},
        "several columns may be their verdicts",
    ),
    "no header": (
        {"id": None, "c7": IDS, "pass": JUDGE, "fail": LABEL},
        "has no names of columns: 'pass', 'fail'",
    ),
    "a confusion matrix": (
        {"id": None, "judge/human": ["pass", "fail"], "pass": [40, 9], "fail": [6, 45]},
        "each column is a word of",
    ),
    "dates for verdicts": (
        {"LLM": [f"2026-0{1 + i % 5}-05" for i in range(ROWS)]},
        "column 'LLM' has dates where verdicts were",
    ),
    "figures of judges": (
        {"id": None, "judge": [f"gpt-{i}" for i in range(9)]}
        | {"accuracy": [0.7 + i / 99 for i in range(9)], "kappa": [0.4 + i / 99 for i in range(9)]},
        "has results of judges ('accuracy', 'kappa')",
    ),
    "ranks of three": (
        {"responses": [[f"a {i}", f"b {i}"] for i in range(ROWS)], "judge": [3] * ROWS},
        "names no winner",
    ),
    "numbers of pairs": (
        {**SIDES, "judge": [i + 100.5 for i in range(ROWS)], "human": _words(("A", "B"), 17)},
        "no winners of pairs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_verdict_is_refused_without_a_list_of_maps(name):
    cells, message = REFUSED[name]
    with pytest.raises(DatasetError) as refused:
        read_cells({name: cell for name, cell in {"id": IDS, **cells}.items() if cell})
    assert message in refused.value.what
    assert len(str(refused.value)) < 400


def test_the_label_that_the_user_names_is_what_each_worker_of_a_row_says():
    rows = [(unit, worker) for unit in range(ROWS) for worker in range(3)]
    cells = {
        "HITId": [f"h{unit}" for unit, _ in rows],
        "AssignmentId": [f"a{unit}-{worker}" for unit, worker in rows],
        "WorkerId": [f"W{(unit + worker) % 5}" for unit, worker in rows],
        "Input.gpt4_verdict": [JUDGE[unit] for unit, _ in rows],
        "Answer.verdict.label": [LABEL[unit] for unit, _ in rows],
    }
    chosen = Choices(judges=("Input.gpt4_verdict",), labels=("Answer.verdict.label",))
    table = read_cells(cells, chosen)
    assert len(table.parsed.records) == ROWS
    assert [role.column for role in table.roles if role.role == "label"] == [
        f"WorkerId W{worker}" for worker in range(5)
    ]


def test_a_question_about_criteria_offers_the_judge_of_the_labels_criterion():
    cells = {
        "Correctness (GPT-4o)": SCORE,
        "Completeness (GPT-4o)": _words((1, 2, 3, 4, 5), 71),
        "Correctness (human)": GRADE,
    }
    with pytest.raises(OpenTableError, match="named after different criteria") as asked:
        read_cells({"id": IDS, **cells})
    judge, label = "Correctness (GPT-4o)", "Correctness (human)"
    assert asked.value.answers[0].options == ("--judge", judge, "--label", label)


ASKED_OF = [[{"role": "user", "content": text}] for text in TEXTS]
UNJUDGED: Mapping[str, tuple[Cells, str]] = {
    "answers": ({"input": TEXTS, "actual_output": TEXTS[::-1]}, "actual_output"),
    "answers with people's labels": (
        {"prompt": TEXTS, "response": TEXTS[::-1], "meta": [{"human_score": n} for n in GRADE]},
        "response",
    ),
    "answers with labels of several people": (
        {"input": TEXTS, "output": TEXTS[::-1], "annotator1": LABEL, "annotator2": JUDGE},
        "output",
    ),
    "a name that needs quotes": (
        {"What's asked (prompt)": TEXTS, "The response": TEXTS[::-1]},
        "'The response'",
    ),
    "pairs after messages": (
        {"context": ASKED_OF, "response1": TEXTS, "response2": TEXTS[::-1]},
        "response1",
    ),
}


@pytest.mark.parametrize("name", UNJUDGED)
def test_answers_without_verdicts_name_the_command_that_has_them_judged(name, here, capsys):
    cells, response = UNJUDGED[name]
    rows = [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]
    Path("t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(DatasetError, match="have it judged: evalkit run mode=") as refused:
        read_table([(f"t:{i}", row) for i, row in enumerate(rows)], "t.jsonl", Choices())
    remedy = refused.value.remedy.partition("evalkit run ")[2]
    words = shlex.split(remedy.partition("; or name the judge's column")[0])
    assert any(word.startswith("dataset.fields.res") and word.endswith(response) for word in words)
    assert main(["plan", *words, "tracking=none"]) == 0
    planned = capsys.readouterr().out
    assert re.search(r"the run +(\d+)", planned)[1] in (f"{ROWS}", f"{2 * ROWS}")


def test_answers_that_no_column_has_are_not_offered_to_a_judge():
    with pytest.raises(DatasetError) as refused:
        read_cells({"id": IDS, "prompt": TEXTS, "human": LABEL})
    assert refused.value.remedy.startswith("name the judge's column: --judge COLUMN")


def test_an_empty_cell_is_mapped():
    cells = {"judge": ["x" if word == "pass" else None for word in JUDGE], "human": LABEL}
    choices = Choices(words={"x": "pass", "EMPTY": "fail"})
    table = read_cells({"id": IDS, **cells}, choices)
    assert table.values["judge"] == {"x": "pass", "EMPTY": "fail"}


def test_columns_by_rater_and_criterion_are_rows_by_criterion():
    cells = {
        "judge_tone": SCORE,
        "human_tone": GRADE,
        "judge_accuracy": GRADE,
        "human_accuracy": GRADE[::-1],
    }
    table = read_cells({"id": IDS, **cells})
    assert table.warnings[0].endswith("alone: --judge judge_tone --label human_tone")
    assert read_cells({"id": IDS, **cells}, Choices(keys=("CRITERION",))).parsed == table.parsed
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["judge"],
        ["human"],
    )
    assert table.settings["scoring"] == {"slices": ["criterion"], "cluster": "id"}
    records = table.parsed.records
    assert [one.question for one in records[:2]] == ["c0/tone", "c0/accuracy"]
    pairs = [(next(iter(one.said.scores.values())), one.shown[0].grade) for one in records]
    assert pairs[::2] == list(zip(SCORE, GRADE, strict=True))
    assert pairs[1::2] == list(zip(GRADE, GRADE[::-1], strict=True))
    reading = reading_of(table)
    again = read_cells({"id": IDS, **cells}, choices_of(reading))
    assert [one.said for one in again.parsed.records] == [one.said for one in records]
    answers = {name: column for name, column in cells.items() if "human" in name}
    unjudged = read_cells({"id": IDS, **answers}, choices_of(reading, answers=True))
    assert [one.shown for one in unjudged.parsed.records] == [one.shown for one in records]
    with pytest.raises(DatasetError, match="has no column 'human_tone'"):
        read_cells({"id": IDS, "note": TEXTS}, choices_of(reading, answers=True))


@pytest.mark.parametrize(("column", "source"), [("gpt4_label", "model"), ("human_label", None)])
def test_labels_of_a_model_are_said_to_be_its(column, source):
    verdicts = ["pass", "fail", "pass"] * 10
    judge = [*verdicts[1:], "pass"]
    choices = Choices(judges=("judge",), labels=(column,), only=True)
    table = read_cells({"id": [*range(30)], column: verdicts, "judge": judge}, choices)
    assert table.settings.get("dataset", {}).get("label_source") == source


def test_texts_in_every_row_are_not_read_as_names(monkeypatch):
    read: list[str] = []
    strength = long_tables.strength
    monkeypatch.setattr(
        long_tables, "strength", lambda name: (read.append(name), strength(name))[1]
    )
    read_cells({"id": IDS, "question": TEXTS, "human": LABEL, "gpt": JUDGE})
    assert not {*IDS, *TEXTS} & {*read}


def test_a_table_without_any_verdict_is_one_line_if_its_annotators_are_wanted():
    texts = [f"a long text about number {i} that says no more" for i in range(ROWS)]
    cells = {"id": IDS, "question": texts, "response": texts[::-1], "judgement": texts}
    with pytest.raises(DatasetError, match="no column with verdicts of people"):
        read_cells(cells, Choices().without_judges())
