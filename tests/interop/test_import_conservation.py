"""What a file holds is kept or counted: verdicts, labels, systems, texts; and nothing goes to the wrong pair."""

import json
from collections import Counter
from copy import deepcopy
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.config import DatasetConfig
from evalkit.datasets import load_cases
from evalkit.interop.import_cases import DISPUTED, DIVIDED
from evalkit.interop.import_file import import_judgments as brought
from evalkit.interop.layouts.records import Options
from evalkit.labels.label_files import read_labels
from evalkit.scoring.columns import NONE, all_pairs
from tests.support.import_layouts import CASES, HALLUQA, JUDGEBENCH, LLMBAR, QLORA, SHAPES

SYSTEMS = ("alpha", "beta", "gamma")
OA = "ratings-gpt4/oa/a-oa-generations-vs-b-oa-generations-gpt-4-reviewer-threeclass.jsonl"


def table(questions: int) -> list[dict[str, Any]]:
    """Return a judge's verdict and a label on every pair of three systems, both orders, the labels all different."""
    labels = dict(zip(combinations(SYSTEMS, 2), ("TIE", "B", "A"), strict=True))
    return [
        {
            "id": str(question),
            "prompt": f"Question {question}?",
            "model_a": first,
            "model_b": second,
            "response_a": f"{first} on {question}",
            "response_b": f"{second} on {question}",
            "winner": "A",
            "order": order,
            "label": labels[first, second],
        }
        for question, (first, second), order in product(range(questions), labels, ("ab", "ba"))
    ]


def test_labels_of_questions_with_three_responses_are_kept_each_with_its_pair(bring, write):
    ran = bring("generic", str(write("m.jsonl", table(20))))
    assert ran.metrics["agreement/accuracy"]["n"] == 60
    labels = {
        (row["case_id"], tuple(row["unit"])): row["label"] for row in ran.rows("verdicts.jsonl")
    }
    assert Counter(labels.values()) == {"TIE": 20, "B": 20, "A": 20}
    assert [labels["0", pair] for pair in ((0, 1), (0, 2), (1, 2))] == ["TIE", "B", "A"]


def test_labels_of_pairs_beside_peoples_are_told_apart(bring, write):
    rows = [{**row, "ann": "A", "bob": "A"} for row in table(2)]
    ran = bring(
        "generic", str(write("m.jsonl", rows)), "--fields", "label.ann=ann", "label.bob=bob"
    )
    assert "each pair is a separate case" in ran.out
    labels = {case["id"]: case["label"] for case in ran.rows("cases.jsonl")}
    assert [labels[f"0: {a} / {b}"] for a, b in combinations(SYSTEMS, 2)] == ["TIE", "B", "A"]
    assert all(case["labels"] == {"ann": "A", "bob": "A"} for case in ran.rows("cases.jsonl"))


def test_rows_that_label_one_pair_differently_are_counted(bring, write):
    rows = table(1)
    rows[1]["label"] = "A"
    ran = bring("generic", str(write("m.jsonl", rows)))
    assert f"note: {DISPUTED}: 1" in ran.out
    assert f"{DISPUTED}: 1" in ran.json("manifest.json")["notes"]
    assert ran.metrics["agreement/accuracy"]["n"] == 2


def test_responses_without_a_model_are_told_apart_by_their_texts(bring, write):
    texts = [("one", "two"), ("one", "three"), ("two", "three")]
    rows = [
        {"id": "q", "response_a": a, "response_b": b, "winner": "A", "label": label}
        for (a, b), label in zip(texts, "ABA", strict=True)
    ]
    ran = bring("generic", str(write("m.jsonl", rows)))
    (case,) = ran.rows("cases.jsonl")
    assert [one["text"] for one in case["responses"]] == ["one", "two", "three"]
    assert [row["label"] for row in ran.rows("verdicts.jsonl")] == ["A", "B", "A"]


def test_pairs_of_long_texts_have_short_names(bring, write):
    texts = [("a" * 500 + str(n), "b" * 500 + str(n)) for n in range(2)]
    rows = [
        {"id": "q", "response_a": a, "response_b": b, "winner": "A", "label": "B"} for a, b in texts
    ]
    ran = bring("generic", str(write("m.jsonl", rows)))
    names = [case["id"] for case in ran.rows("cases.jsonl")]
    assert len(set(names)) == 2
    assert max(map(len, names)) < 100
    assert [case["label"] for case in ran.rows("cases.jsonl")] == ["B", "B"]


def test_a_models_texts_to_one_question_are_responses_of_their_own(bring, write):
    rows = [
        {"id": "q", "model": "m", "response": text, "score": score, "grade": grade}
        for text, score, grade in [("bad", 1, 1), ("good", 5, 4), ("good", 4, 4)]
    ]
    ran = bring("generic", str(write("m.jsonl", rows)))
    (case,) = ran.rows("cases.jsonl")
    assert [(one["text"], one["model"], one["grade"]) for one in case["responses"]] == [
        ("bad", "m", 1),
        ("good", "m", 4),
    ]
    assert [value["quality"] for _, _, value in ran.values] == [1, 5, 4]
    assert "different texts: each text is a separate response: 1" in ran.out


@pytest.mark.parametrize(("rows", "words", "said"), [
    ([{"id": "1", "prompt": "a"}, {"id": "1", "prompt": "b"}], (), "id '1' is already used"),
    ([{"score": 3}], (), "m.jsonl:1: has both scores and winners; map one of them"),
    ([{"margin": -0.5}], (), "winner A and margin -0.5 disagree"),
    ([{"points": 3}], ("--fields", "grade=points"), "grade=points: rows of this kind do not"),
])  # fmt: skip
def test_rows_that_cannot_be_kept_whole_are_refused(bring, write, rows, words, said):
    path = write(
        "m.jsonl", [{"response_a": "x", "response_b": "y", "winner": "A", **row} for row in rows]
    )
    assert said in bring("generic", str(path), *words, status=1).err


def test_peoples_grades_of_single_responses_are_kept(bring, write):
    rows = [
        {"id": "1", "response": text, "score": 3, "ann": grade}
        for text, grade in [("x", 2), ("y", None), ("z", 5)]
    ]
    path = write("m.jsonl", rows)
    ran = bring("generic", str(path), "--fields", "label.ann=ann")
    assert ran.rows("cases.jsonl")[0]["labels"] == {"ann": [2.0, None, 5.0]}
    assert (
        "'good' is not a grade"
        in bring("generic", str(write("m.jsonl", [{**rows[0], "grade": "good"}])), status=1).err
    )


def test_a_named_column_decides_between_scores_and_winners(bring, write):
    rows = [
        {"id": "1", "response_a": "x", "response_b": "y", "best": "B", "score": 3, "winner": "A"}
    ]
    path = str(write("m.jsonl", rows))
    assert bring("generic", path, "--fields", "winner=best").values == [("1", [0, 1], -1.0)]
    assert bring("generic", path, "--scores").values == [("1", [0], {"quality": 3.0})]


def test_each_file_of_halluqa_is_a_system(bring, write):
    questions = [
        {"question_id": n, "Question": "?", "Category": "knowledge", "Best Answer1": "好"}
        for n in range(3)
    ]
    write("all/HalluQA.json", questions)
    for number in range(24):
        verdicts = [{**row, "is_hallucination": str(number % 2 == 0)} for row in HALLUQA]
        write(f"all/model{number}_output_qa_prompt.json", verdicts)
    ran = bring("halluqa", "all")
    (case, *_) = ran.rows("cases.jsonl")
    assert len({one["model"] for one in case["responses"]}) == 24
    assert ran.metrics["halluqa/non_hallucination_rate/model3"]["value"] == 1.0
    assert ran.metrics["halluqa/non_hallucination_rate/model4"]["value"] == 0.0
    assert "samples: 1" in (ran.folder / "config.yaml").read_text("utf-8")


def test_llmbars_rule_on_scores_is_its_rule_on_the_winners_made_of_them(bring, write):
    rows = [
        {
            **LLMBAR[0],
            "results": [
                {
                    "score_1": [str(one)],
                    "score_2": [str(two)],
                    "swap = False": {"winner": "1" if one >= two else "2"},
                    "swap = True": {"winner": "1" if one > two else "2"},
                }
            ],
        }
        for one, two in [(5, 3), (4, 4), (2, 2), (1, 6)]
    ]
    path = str(write("GPT-4/Rating/result.json", rows))
    names = ("llmbar/mean_accuracy", "llmbar/agreement_rate")
    winners, scores = bring("llmbar", path).metrics, bring("llmbar", path, "--scores").metrics
    assert (
        [scores[name]["value"] for name in names]
        == [winners[name]["value"] for name in names]
        == [0.5, 0.5]
    )


def test_qloras_reviews_on_open_assistants_questions(bring, write):
    reviews = [
        {
            **{key: value for key, value in row.items() if key != "question_id"},
            "message_id": message,
        }
        for row, message in product(QLORA, ("m-1", "m-2"))
    ]
    write(
        "prompts/oa_questions.jsonl",
        [{"question_id": m, "message_id": m, "text": f"Ask {m}"} for m in ("m-1", "m-2")],
    )
    for system in "ab":
        more = "A chat between a curious human and an artificial intelligence assistant. ### Human: More?"
        said = {"prompt": "A chat …", "generation": f"{system} says{system * 3}{more}"}
        answers = [{"message_id": message, "input": "?", **said} for message in ("m-1", "m-2")]
        write(f"generations/oa/{system}-oa-generations.jsonl", answers)
    write(OA, reviews)
    ran = bring("qlora", "ratings-gpt4/oa")
    assert [(case, value) for case, _, value in ran.values] == [
        ("m-1", 1.0), ("m-1", "unparseable"), ("m-2", 1.0), ("m-2", "unparseable")
    ]  # fmt: skip
    case = ran.rows("cases.jsonl")[0]
    assert case["prompt"] == "Ask m-1"
    assert [(one["model"], one["text"]) for one in case["responses"]] == [
        ("a-oa-generations", "a saysaaa"),
        ("b-oa-generations", "b saysbbb"),
    ]


def test_qloras_reviews_with_two_scores(bring, write):
    scores = ([9.0, 8.0], [7, 7], [-1, -1], [5.0, 8.5])
    rows = [
        {**QLORA[0], "review_id": n, "question_id": n, "score": score}
        for n, score in enumerate(scores)
    ]
    ran = bring("qlora", str(write("13b-vicuna-vs-gpt-3.5-gpt4-reviewer.jsonl", rows)))
    assert [value for _, _, value in ran.values] == [1.0, 0.0, "unparseable", -1.0]
    assert "winners derived from two scores: 4" in ran.out
    assert {row["judge"] for row in ran.rows("judgments.jsonl")} == {"gpt4"}


def test_systems_that_wrote_one_text_keep_their_reviews(bring, write):
    """The id of an answer may be made of its text, so that two systems share it."""
    for first, second, ids, score in [
        ("a", "b", "xy", 1),
        ("a", "c", "xz", 1),
        ("d", "b", "xy", 2),
        ("d", "c", "xz", 2),
    ]:
        row = {**QLORA[0], "answer1_id": ids[0], "answer2_id": ids[1], "score": score}
        write(f"pairwise/{first}-vs-{second}-gpt-4-reviewer.jsonl", [row])
    ran = bring("qlora", "pairwise")
    models = [{one["model"] for one in case["responses"]} for case in ran.rows("cases.jsonl")]
    assert models == [{"a", "b"}, {"a", "c"}, {"b", "d"}, {"c", "d"}]


def test_texts_that_are_not_there_are_not_identical_answers(bring, write):
    rows = [{"id": str(n), "model_a": "m", "model_b": "n", "winner": "A"} for n in range(4)]
    rows[0] |= {"response_a": "same", "response_b": "same"}
    rows[1] |= {"response_a": "long", "response_b": ""}
    ran = bring("generic", str(write("m.jsonl", rows)))
    assert ran.metrics["position/identical_preference"]["n"] == 1
    assert ran.metrics["length/longer_rate"]["n"] == 0
    assert ran.metrics["length/slope"]["n"] == 1
    assert "responses without a text: 5 of 8" in ran.out
    assert any(
        "responses without a text: 5 of 8" in note for note in ran.json("manifest.json")["notes"]
    )


def test_an_instruction_that_stands_twice_has_outputs_of_its_own_each_time(bring, write):
    annotation = {"instruction": "Hi.", "generator_1": "base", "generator_2": "m", "annotator": "j"}
    rows = [
        {**annotation, "output_1": f"b{n}", "output_2": f"m{n}", "preference": preference}
        for n, preference in enumerate((1.0, 2.0))
    ]
    ran = bring("alpaca_eval", str(write("annotations.json", rows)))
    assert ran.values == [("1", [0, 1], 1.0), ("2", [0, 1], -1.0)]
    assert [[one["text"] for one in case["responses"]] for case in ran.rows("cases.jsonl")] == [
        ["b0", "m0"],
        ["b1", "m1"],
    ]


def test_a_folder_of_reward_models_is_a_panel_of_them(bring, write):
    for name, results in (("one", [1, 1, 1]), ("two", [0, 0, 1])):
        write(
            f"eval-set-scores/{name}.json",
            {**SHAPES["reward_bench"][1], "model": name, "results": results},
        )
    ran = bring("reward_bench", "eval-set-scores")
    values = Counter((row["judge"], row["value"]) for row in ran.rows("judgments.jsonl"))
    assert values == {("one", 1.0): 3, ("two", -1.0): 2, ("two", 1.0): 1}


def test_each_file_of_judgebench_is_a_judge(bring, write):
    rows = [{**row, "judgments": [{"decision": "A>B"}] * 2} for row in JUDGEBENCH]
    for name, model in (("vanilla", "gpt-4o"), ("arena_hard", "gpt-4o"), ("arena_hard", "o1")):
        file = f"outputs/dataset=judgebench,judge_name={name},judge_model={model}.jsonl"
        write(file, [{**row, "judge_name": name} for row in rows])
    ran = bring("judgebench", "outputs")
    judges = Counter(row["judge"] for row in ran.rows("judgments.jsonl"))
    assert judges == {"gpt-4o vanilla": 4, "gpt-4o arena_hard": 4, "o1 arena_hard": 4}
    assert {row["sample"] for row in ran.rows("judgments.jsonl")} == {0}


def test_mt_benchs_judgments_as_on_hugging_face(bring, write):
    said = {
        f"conversation_{side}": [
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": f"By {side}"},
        ]
        for side in "ab"
    }
    row = {
        "question_id": 81,
        "model_a": "vicuna",
        "model_b": "alpaca",
        "judge": ["gpt-4", "pair-v2"],
        "turn": 1,
        **said,
    }
    winners = ("model_a", "tie (inconsistent)", "model_b", None)
    rows = [{**row, "question_id": 81 + n, "winner": winner} for n, winner in enumerate(winners)]
    ran = bring("mt_bench", str(write("gpt4_pair.jsonl", rows)))
    assert [value for _, _, value in ran.values] == [-1.0, 0.0, 1.0, "unparseable"]
    assert [(one["model"], one["text"]) for one in ran.rows("cases.jsonl")[0]["responses"]] == [
        ("alpaca", "By b"),
        ("vicuna", "By a"),
    ]


def test_files_in_folders_below_are_counted(bring, write):
    write("all/one.jsonl", table(1))
    write("all/more/two.jsonl", table(1))
    assert "files in subfolders, not read: 1" in bring("generic", "all").out


BETTER = {"from_name": "better", "value": {"choices": ["A"]}}


def test_labels_that_are_not_taken_are_counted(write):
    left_out: Counter[str] = Counter()
    rows = [{"id": "1", "annotator": "ann", "label": label} for label in ("A", "", None)]
    argilla = {
        "fields": {},
        "metadata": {"case_id": "1", "shown": "0,1"},
        "responses": {
            "better": [
                {"value": "A", "user_id": "u", "status": "submitted"},
                {"value": "B", "user_id": "v", "status": "draft"},
                {"value": "B", "user_id": "w", "status": "discarded"},
            ],
            "comment": [{"value": "Nice", "user_id": "u"}],
        },
    }
    studio = {
        "data": {"case_id": "1", "shown": "0,1"},
        "annotations": [
            {"completed_by": 7, "result": [BETTER]},
            {"completed_by": {"id": 1, "email": "ann@x.org"}, "result": [BETTER]},
            {"completed_by": 8, "result": [{"from_name": "tone", "value": {"choices": ["A"]}}]},
            {"completed_by": 9, "was_cancelled": True, "result": []},
        ],
    }
    argilla["responses"]["better"].append({"value": None})
    studio["annotations"].append({"completed_by": 6, "result": [{"value": {}}]})
    path = write("labels.jsonl", [*rows, argilla, studio])
    assert [label.annotator for label in read_labels(path, left_out)] == [
        *("ann", "u", "7", "ann@x.org"),
    ]
    assert sorted(left_out.values()) == [2, 3, 4]


def _doubled(content: Any) -> Any:
    """Return the content of a file with every verdict in it twice."""
    if isinstance(content, list):
        return content + deepcopy(content)
    return {
        key: _doubled(value)
        if isinstance(value, list) or (key == "results" and isinstance(value, dict))
        else value
        for key, value in content.items()
    }


SLOTS = {
    "arena_hard": lambda rows: sum(len(row["games"]) for row in rows),
    "judgebench": lambda rows: sum(len(row["judgments"]) for row in rows),
    "llmbar": lambda rows: 2 * len(rows),
    "icescore": lambda rows: sum(key.startswith("gpt-") for row in rows for key in row),
    "prometheus": lambda rows: sum(len(row["gpt4_score"]) for row in rows),
    "reward_bench": lambda whole: len(whole["results"]),
    "inspect": lambda whole: sum("scores" in one for one in whole["samples"]),
    "promptfoo": lambda whole: len(whole["results"]["results"]),
    "deepeval": lambda whole: sum(bool(one["metricsData"]) for one in whole["testCases"]),
    "pydantic_evals": lambda whole: 2 * len(whole["cases"] + whole["failures"]),
}
"""How many verdicts a file holds, where that is not one for each row."""
CHECKLISTS = ("devai", "paperbench")
EMPTIED = {
    "arena_hard": "games",
    "judgebench": "judgments",
    "prometheus": "gpt4_score",
    "llmbar": "results",
}
"""The list of a row's verdicts; an empty one is a verdict that is missing."""


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in CHECKLISTS])
def test_every_verdict_of_a_file_is_a_judgment_also_if_it_is_there_twice(write, name):
    file, content = SHAPES[name]
    content = _doubled(content)
    asked = load_cases(DatasetConfig(path=str(write("cases.jsonl", CASES))), mode="pairwise").cases
    found = brought(
        name, write(file, content), Options(cases=asked if name == "openai_batch" else ())
    )
    assert len(found.judgments) == SLOTS.get(name, len)(content)
    places = [(one.case_id, *one.shown, one.sample, one.judge) for one in found.judgments]
    assert len(set(places)) == len(places)
    assert sum(len(case.responses) for case in found.cases) <= 2 * len(found.judgments)


@pytest.mark.parametrize("name", EMPTIED)
def test_a_row_without_a_verdict_is_a_judgment_that_is_missing(write, name):
    file, content = SHAPES[name]
    empty = {**content[0], EMPTIED[name]: []}
    for key in ("uid", "pair_id"):
        if key in empty:
            empty[key] = "another"
    found = brought(name, write(file, [*content, empty]), Options()).judgments
    assert len(found) > SLOTS[name](content)
    assert found[-1].status != "ok"


def test_an_unknown_label_is_refused(bring, write):
    wrong = [{**JUDGEBENCH[0], "label": "A>>B"}]
    assert "label 'A>>B' is not" in bring("judgebench", str(write("j.jsonl", wrong)), status=1).err
    wrong = [{**LLMBAR[0], "label": 3}]
    assert (
        "label '3' is not one of 1, 2"
        in bring("llmbar", str(write("J/S/result.json", wrong)), status=1).err
    )


WINNERS = st.sampled_from(["A", "B", "tie", None])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "question": st.integers(0, 2),
            "pair": st.permutations(range(4)).map(lambda order: tuple(order[:2])),
            "winner": WINNERS,
            "label": WINNERS,
            "ann": WINNERS,
            "order": st.sampled_from(["ab", "ba"]),
        }
    ),
    min_size=1,
    max_size=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, named=st.booleans(), people=st.booleans())
def test_generic_keeps_or_counts_every_verdict_and_label(tmp_path, rows, named, people):
    table = []
    for row in rows:
        texts = {
            f"response_{side}": f"{row['question']} {index}"
            for side, index in zip("ab", row["pair"], strict=True)
        }
        models = (
            {f"model_{side}": f"m{index}" for side, index in zip("ab", row["pair"], strict=True)}
            if named
            else {}
        )
        cells = {name: row[name] for name in ("winner", "label", "order")} | (
            {"ann": row["ann"]} if people else {}
        )
        table.append({"id": f"q{row['question']}", **texts, **models, **cells})
    path = tmp_path / "m.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in table), "utf-8")
    found = brought("generic", path, Options(fields={"label.ann": "ann"} if people else {}))
    assert len(found.judgments) == len(rows)

    cases = {case.id: case for case in found.cases}
    seen = Counter(
        (
            cases[j.case_id].responses[j.shown[0]].text,
            cases[j.case_id].responses[j.shown[1]].text,
            _first(j),
        )
        for j in found.judgments
    )
    assert seen == Counter(_expected(row) for row in rows)
    assert len({(j.case_id, j.shown, j.sample) for j in found.judgments}) == len(rows)

    pairs, wanted = all_pairs(found.cases), _labels(rows, "label")
    kept = {}
    for place in range(len(pairs)):
        case = found.cases[int(pairs.case[place])]
        i, j = (case.responses[int(index)].text for index in (pairs.i[place], pairs.j[place]))
        if pairs.label[place] != NONE:
            kept[frozenset((i, j))] = {1: i, -1: j, 0: "tie"}[int(pairs.label[place])]
    counted = (note.rpartition(": ") for note in found.notes)
    notes = Counter({what: int(number) for what, _, number in counted if number.isdigit()})
    agreed = {pair: next(iter(said)) for pair, said in wanted.items() if len(said) == 1}
    assert {pair: said for pair, said in kept.items() if pair in wanted} == agreed
    assert notes[DISPUTED] == sum(len(said) > 1 for said in wanted.values())
    assert notes[DIVIDED] == (
        sum(len(said) > 1 for said in _labels(rows, "ann").values()) if people else 0
    )


def _text(row: dict[str, Any], side: int) -> str:
    return f"{row['question']} {row['pair'][side]}"


def _expected(row: dict[str, Any]) -> tuple[str, str, float | None]:
    first, second = (0, 1) if row["order"] == "ab" else (1, 0)
    value = {"A": 1.0, "B": -1.0, "tie": 0.0, None: None}[row["winner"]]
    return (
        _text(row, first),
        _text(row, second),
        value if value is None or first == 0 else -value + 0.0,
    )


def _first(judgment: Any) -> float | None:
    """Return a judgment's margin in favour of the response shown first."""
    if judgment.value is None or judgment.shown == judgment.unit:
        return judgment.value
    return -judgment.value + 0.0


def _labels(rows: list[dict[str, Any]], name: str) -> dict[frozenset[str], set[str]]:
    found: dict[frozenset[str], set[str]] = {}
    for row in rows:
        if row[name] is not None:
            winner = {"A": _text(row, 0), "B": _text(row, 1), "tie": "tie"}[row[name]]
            found.setdefault(frozenset((_text(row, 0), _text(row, 1))), set()).add(winner)
    return found


def test_what_a_benchmarks_reader_leaves_out_is_counted(write, tmp_path):
    outputs = {"gpt4_turbo": ("One.", "Two.", "Three."), "small": ("Two.",)}
    for model, instructions in outputs.items():
        rows = [
            {"instruction": one, "output": f"{model}: {one}", "generator": model}
            for one in instructions
        ]
        write(f"alpaca/{model}.json", rows)
    notes = load_cases(
        DatasetConfig(benchmark="alpaca_eval", path=str(tmp_path / "alpaca")), mode="pairwise"
    ).notes
    assert "instructions that small has no output for, omitted: 2" in notes
    questions = [{"uid": uid, "category": "math", "prompt": "?"} for uid in ("u1", "u2")]
    write("arena/question.jsonl", questions)
    for model, uids in {"o3-mini-2025-01-31": ("u1", "u2"), "mine": ("u2", "u9")}.items():
        answers = [
            {"uid": uid, "model": model, "messages": [{"role": "assistant", "content": model}]}
            for uid in uids
        ]
        write(f"arena/model_answer/{model}.jsonl", answers)
    notes = load_cases(
        DatasetConfig(benchmark="arena_hard", path=str(tmp_path / "arena")), mode="pairwise"
    ).notes
    assert "questions that mine has no answer to, omitted: 1" in notes
    assert "answers of mine to no question of the file, omitted: 1" in notes
