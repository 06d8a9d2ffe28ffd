"""Shapes of tables: columns by system, merged cells, marks of raters, responses named as winners."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.core.errors import EvalkitError
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.records import Options
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.questions import OpenTableError
from tests.support.table_cells import columns_of_role, read_cells
from tests.support.thorough import some_of

N = 36
TEXTS = [f"Here is text {i}, with some words of its own." for i in range(N)]
SCORES = [1 + (5 * i // 3 + i) % 5 for i in range(N)]
NEAR = [min(5, score + (i % 4 == 0)) for i, score in enumerate(SCORES)]
FLAGS = [i % 3 > 0 for i in range(N)]
OTHER_FLAGS = [flag != (i % 7 == 0) for i, flag in enumerate(FLAGS)]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


SYSTEMS = [("gpt-4o-mini", "claude-haiku-4"), ("exp-a", "exp-b"), ("ours", "llama-3-8b")]
WHATS = [
    ("outputs.answer", "correctness", "human_correctness"),
    ("response", "judge", "human"),
    ("output", "llm_verdict", "expert_verdict"),
]
FORMS = [
    *("{what} ({system})", "{what} [{system}]"),
    *("{system}: {what}", "{system} - {what}", "{what} / {system}"),
]


@pytest.mark.parametrize(
    ("systems", "whats", "form"), some_of([*product(SYSTEMS, WHATS, FORMS)], 12, rows=True)
)
def test_columns_by_system_are_rows_by_system(systems, whats, form):
    if "(" not in form and "[" not in form:
        # Without brackets, only the name of a model is that of a system.
        systems = SYSTEMS[0]
    response, judge, person = whats
    cells: dict[str, list[Any]] = {"id": [f"c{i}" for i in range(N)], "question": TEXTS}
    for shift, system in enumerate(systems):
        flags = (FLAGS, OTHER_FLAGS) if shift else (OTHER_FLAGS, FLAGS)
        for what, column in (
            (response, [f"{text} By {system}." for text in TEXTS]),
            (judge, flags[0]),
            (person, flags[1]),
        ):
            cells[form.format(what=what, system=system)] = column
    table = read_cells(cells)
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == ([judge], [person])
    assert columns_of_role(table, "model") == ["system"]
    assert len(table.parsed.records) == 2 * N
    assert f"read as a row for each system: {', '.join(systems)}" in table.warnings


def test_a_winner_among_systems_keeps_their_columns():
    systems = ("nova", "titan")
    cells: dict[str, list[Any]] = {"question": TEXTS}
    for system in systems:
        cells[f"answer ({system})"] = [f"{text} {system}" for text in TEXTS]
        cells[f"score ({system})"] = SCORES
    cells["human_winner"] = [systems[flag] for flag in FLAGS]
    cells["judge_winner"] = [systems[flag] for flag in OTHER_FLAGS]
    table = read_cells(cells)
    assert table.unit == "pair" or columns_of_role(table, "model") != ["system"]


@pytest.mark.parametrize("count", ["run", "trial", "重复", "seed"])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("labeled", [1.0, 0.7])
def test_cells_merged_over_repeats_are_filled(count, start, labeled):
    cells: dict[str, list[Any]] = {
        name: [] for name in ("item", "question", count, "judge", "human")
    }
    for i in range(N):
        for run in range(3):
            is_first = run == 0
            verdict = FLAGS[i] != ((i + run) % 5 == 0)
            has_label = is_first and i < labeled * N
            cells["item"].append(f"i{i}" if is_first else None)
            cells["question"].append(TEXTS[i] if is_first else None)
            cells[count].append(start + run)
            cells["judge"].append("good" if verdict else "bad")
            cells["human"].append(("good" if FLAGS[i] else "bad") if has_label else None)
    table = read_cells(cells)
    assert columns_of_role(table, "sample") == [count]
    records = [*table.parsed.records]
    assert len({record.question for record in records}) == N
    labeled_ids = {record.question for record in records if record.shown[0].class_name}
    assert len(labeled_ids) == sum(i < labeled * N for i in range(N))


def test_labels_of_first_runs_stay_where_the_case_is_named():
    runs = [1, 2, 3] * N
    ids = [f"i{i}" for i in range(N) for _ in range(3)]
    judged = ["good" if OTHER_FLAGS[i] else "bad" for i in range(N) for _ in range(3)]
    people = [
        ("good" if FLAGS[i] else "bad") if run == 0 else None for i in range(N) for run in range(3)
    ]
    table = read_cells({"id": ids, "run": runs, "judge": judged, "human": people})
    assert not any("merged" in note for note in table.warnings)


@pytest.mark.parametrize("marks", [("h", "j"), ("hum", "llm"), ("m", "k"), ("ta", "ai")])
@pytest.mark.parametrize("form", ["{criterion}_{mark}", "{criterion} {mark}", "{mark}_{criterion}"])
@pytest.mark.parametrize("criteria", [("accuracy", "tone"), ("tone", "clarity", "style")])
def test_two_marks_at_each_criterion_are_asked_about_or_known(marks, form, criteria):
    cells: dict[str, list[Any]] = {"id": [f"c{i}" for i in range(N)], "text": TEXTS}
    for criterion in criteria:
        for mark, scores in zip(marks, (SCORES, NEAR), strict=True):
            cells[form.format(criterion=criterion, mark=mark)] = scores
    try:
        table = read_cells(cells)
    except OpenTableError as asked:
        [options] = [
            options
            for options in asked.answers
            if options.options[:2] == ("--judge", form.format(criterion=criteria[0], mark=marks[1]))
            and "NONE" not in options.options
            and "CRITERION" in options.options
        ]
        table = read_cells(cells, Choices().with_options(options.options))
    assert len(table.parsed.records) == N * len(criteria)
    assert [len(columns_of_role(table, role)) for role in ("judge", "label")] == [1, 1]


@pytest.mark.parametrize(
    "writers", [("Nova", "Titan"), ("Alpha Model", "Beta Model"), ("旧版", "新版")]
)
@pytest.mark.parametrize("tie", ["Both", "tie", None])
def test_texts_named_as_winners_are_the_responses(writers, tie):
    words = [*writers, tie] if tie else [*writers]
    people = [words[i % len(words)] for i in range(N)]
    judged = [words[(i + (i % 5 == 0)) % len(words)] for i in range(N)]
    answers = [[f"{text} {writer}" for text in TEXTS] for writer in writers]
    cells = {"question": [f"{i}, what is it?" for i in range(N)]}
    cells |= dict(zip(writers, answers, strict=True))
    cells |= {"human_pref": people, "judge_pref": judged}
    table = read_cells(cells)
    assert table.unit == "pair"
    assert (columns_of_role(table, "response_a"), columns_of_role(table, "response_b")) == (
        [writers[0]],
        [writers[1]],
    )


@pytest.mark.parametrize("name", ["orig_score", "score", "points_score"])
@pytest.mark.parametrize(
    "text", ["It is fine. [RESULT] {}", "Good work.\nScore: {}", "Rating: {}/5 overall"]
)
def test_scores_next_to_texts_that_state_some_are_asked_about(name, text):
    judged = [text.format(score) for score in NEAR]
    cells = {"instruction": TEXTS, "response": TEXTS[::-1], "llm_output": judged, name: SCORES}
    with pytest.raises(OpenTableError, match=name):
        read_cells(cells)


@pytest.mark.parametrize(
    "paths", [("feedback.rating", "metrics.Answer Quality"), ("a.tone", "b.style")]
)
def test_scores_below_two_paths_are_not_criteria_of_one_judge(paths):
    cells = {"id": [f"c{i}" for i in range(N)], "output": TEXTS}
    with pytest.raises(OpenTableError) as asked:
        read_cells({**cells, paths[0]: SCORES, paths[1]: NEAR})
    assert ["--judge", paths[1], "--label", paths[0]] in asked.value.readings


@pytest.mark.parametrize("column", ["user", "meta.user", "properties.user"])
def test_one_name_in_all_rows_is_no_label(column):
    cells = {"output": TEXTS, column: ["u1"] * N, "score": SCORES}
    table = read_cells(cells)
    assert columns_of_role(table, "label") == []


@pytest.mark.parametrize("ties", [0, 5])
@pytest.mark.parametrize("form", ["list", "columns"])
def test_scores_by_which_responses_were_chosen_are_no_judge(
    ties, form, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = []
    for i in range(N):
        answers = [f"first {i}", f"second {i}"]
        scores = [3.0, 3.0] if i < ties else [9.0, 2.0] if i % 2 else [1.0, 8.0]
        best = scores.index(max(scores))
        row: dict[str, Any] = {
            "input": TEXTS[i],
            "chosen": answers[best],
            "rejected": answers[1 - best],
        }
        if form == "list":
            row |= {"generations": answers, "rating": scores, "order": ["chosen", "rejected"]}
        else:
            row |= {"rating_chosen": scores[best], "rating_rejected": scores[1 - best]}
        rows.append(row)
    path = jsonl(tmp_path / "t.jsonl", rows)
    assert recognize_format(path) == "preferences"
    assert main(["check", str(path)]) == 1
    shown = capsys.readouterr()
    assert "by which the responses may have been chosen" in shown.err
    # A judge that sometimes prefers the rejected response did not choose.
    rows[-1]["chosen"], rows[-1]["rejected"] = rows[-1]["rejected"], rows[-1]["chosen"]
    if form == "columns":
        scores = [rows[-1]["rating_rejected"], rows[-1]["rating_chosen"]]
        rows[-1] |= dict(zip(("rating_chosen", "rating_rejected"), scores, strict=True))
    found = import_judgments("preferences", jsonl(path, rows), Options())
    right = sum(
        judgment.value == {"A": 1, "B": -1}[found.cases[index].labels["chosen"]]
        for index, judgment in enumerate(found.judgments)
    )
    assert right == N - ties - 1


@pytest.mark.parametrize("size", [2, 3])
def test_lists_of_chosen_and_rejected_responses_are_pairs_by_position(size, tmp_path):
    rows = [
        {"id": f"c{i}", "prompt": TEXTS[i]}
        | {side: [f"{side} {i} {k}" for k in range(size)] for side in ("chosen", "rejected")}
        | {"score_chosen": [float((i + k) % 4) for k in range(size)]}
        | {"score_rejected": [1.5] * size}
        for i in range(N)
    ]
    found = import_judgments("preferences", jsonl(tmp_path / "t.jsonl", rows), Options())
    assert len(found.judgments) == N * size
    right = sum(
        judgment.value == {"A": 1, "B": -1}[case.labels["chosen"]]
        for case, judgment in zip(found.cases, found.judgments, strict=True)
    )
    assert right == sum((i + k) % 4 > 1.5 for i in range(N) for k in range(size))


ITEMS = {
    "words": (["correct", "incorrect"], lambda i: {"label": ["incorrect", "correct"][FLAGS[i]]}),
    "flags": (["pass", "fail"], lambda i: {"label": ["fail", "pass"][FLAGS[i]]}),
}


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("other", ["scores", "constant", "words"])
def test_labels_are_compared_with_the_grader_that_has_their_words(kind, other, tmp_path):
    words, verdict = ITEMS[kind]
    others = {
        "scores": lambda i: {"score": NEAR[i] / 5 + 0.01},
        "constant": lambda i: {"label": words[0], "score": 1.0},
        "words": lambda i: {"label": ["deep", "flat"][OTHER_FLAGS[i]]},
    }
    rows = [
        {
            "id": f"o{i}",
            "datasource_item_id": i,
            "datasource_item": {"question": TEXTS[i], "human_label": words[not OTHER_FLAGS[i]]},
            "results": [
                {"name": "Main", "type": "label_model", "sample": {"model": "m"}, **verdict(i)},
                {
                    "name": "Other",
                    "type": "score_model",
                    "sample": {"model": "m"},
                    **others[other](i),
                },
            ],
            "sample": {"model": "gpt-x", "output": [{"role": "assistant", "content": TEXTS[i]}]},
        }
        for i in range(N)
    ]
    found = import_judgments("openai_evals", jsonl(tmp_path / "t.jsonl", rows), Options())
    assert {name for name in found.notes if name.startswith("read as judges")} == {
        "read as judges: m (Main)"
    }
    assert sum(FLAGS[i] == OTHER_FLAGS[i] for i in range(N)) == sum(
        judgment.class_name == next(iter(case.labels.values()))[0]
        for case, judgment in zip(found.cases, found.judgments, strict=True)
    )


def test_two_graders_with_the_words_of_the_labels_are_a_question(tmp_path):
    rows = [
        {"datasource_item_id": i, "datasource_item": {"q": TEXTS[i], "human_label": "pass"}}
        | {
            "results": [
                {"name": name, "type": "label_model", "sample": {"model": "m"}, "label": label}
                for name, label in (
                    ("Main", ["fail", "pass"][FLAGS[i]]),
                    ("Other", ["fail", "pass"][OTHER_FLAGS[i]]),
                )
            ]
        }
        for i in range(N)
    ]
    rows[0]["datasource_item"]["human_label"] = "fail"
    with pytest.raises(EvalkitError, match="--judge Other"):
        import_judgments("openai_evals", jsonl(tmp_path / "t.jsonl", rows), Options())


@pytest.mark.parametrize("part", ["quality_result", "passed", "result"])
@pytest.mark.parametrize("person", ["inputs.expert_verdict", "inputs.human_label"])
def test_the_parts_of_a_grader_of_azure_are_one_judge(part, person, tmp_path):
    rows = [
        {"inputs.query": TEXTS[i], "inputs.response": TEXTS[-i]}
        | {person: ["fail", "pass"][OTHER_FLAGS[i]], "outputs.quality.score": NEAR[i] * 1.0}
        | {f"outputs.quality.{part}": ["fail", "pass"][FLAGS[i]], "outputs.quality.sample": "x"}
        | {"outputs.quality.threshold": 3}
        for i in range(N)
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"rows": rows, "metrics": {}}), encoding="utf-8")
    found = import_judgments("score_columns", path, Options())
    assert len(found.judgments) == N
    assert all(case.labels for case in found.cases)


@pytest.mark.parametrize(
    ("label", "judge"), [("human_correct", "correctness"), ("human_helpful", "helpfulness")]
)
def test_forms_of_one_word_are_one_criterion(label, judge, tmp_path):
    rows = [
        {"request": TEXTS[i], "response": TEXTS[-i], f"{judge}/value": ["no", "yes"][FLAGS[i]]}
        | {"depth/value": ["yes", "no"][FLAGS[i]], f"{label}/value": ["no", "yes"][OTHER_FLAGS[i]]}
        | {"expected_response/value": TEXTS[i]}
        for i in range(N)
    ]
    found = import_judgments("score_columns", jsonl(tmp_path / "t.jsonl", rows), Options())
    assert f"read as judges: {judge}" in found.notes


@pytest.mark.parametrize("name", ["feedback", "comment", "explanation", "score", "result_label"])
@pytest.mark.parametrize("words", [("NO", "YES"), (0.0, 1.0), ("bad", "good")])
def test_what_a_judge_says_of_its_verdict_is_no_topic(name, words):
    cells = {"response": TEXTS, "passing": FLAGS, "human_passing": OTHER_FLAGS}
    table = read_cells({**cells, name: [words[flag] for flag in FLAGS]})
    assert columns_of_role(table, "judge") == ["passing"]
    record = next(iter(table.parsed.records))
    assert name not in record.metadata


def test_a_topic_that_decides_the_verdict_is_kept():
    cells = {"response": TEXTS, "passing": FLAGS, "human_passing": OTHER_FLAGS}
    table = read_cells({**cells, "topic": [("cars", "boats")[flag] for flag in FLAGS]})
    assert "topic" in next(iter(table.parsed.records)).metadata


@pytest.mark.parametrize("topic", ["similarity", "sentiment", "tone"])
@pytest.mark.parametrize("other", ["coherence", "fluency"])
@pytest.mark.parametrize("paths", [("inputs.", "outputs."), ("", "")])
def test_labels_are_compared_with_the_judge_of_their_criterion(topic, other, paths):
    first, second = paths
    cells = {"response": TEXTS, f"{first}human_{topic}": SCORES}
    cells |= {f"{second}gpt_{other}": SCORES[::-1], f"{second}gpt_{topic}": NEAR}
    table = read_cells(cells)
    assert columns_of_role(table, "judge") == [f"{second}gpt_{topic}"]
    [why] = [role.why for role in table.roles if role.column == f"{second}gpt_{other}"]
    assert why == "about another criterion than the labels"


@pytest.mark.parametrize("bottom", [5, 10, 20])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("form", ["{}/{}", "{} / {}", "{}/{},0"])
def test_fractions_of_one_denominator_have_one_scale(bottom, steps, form):
    judged = [min(bottom, max(0, score - (i % 5) / steps)) for i, score in enumerate(NEAR)]
    written = [form.format(f"{value:g}".replace(".", ","), bottom) for value in judged]
    people = [form.format(score, bottom) for score in SCORES]
    table = read_cells({"response": TEXTS, "judge": written, "human": people})
    assert table.space.scale is not None
    assert table.space.scale[1] == bottom
    assert not any("different scales" in note for note in table.warnings)


@pytest.mark.parametrize("worst", [-25, -10, -3])
def test_penalties_are_compared_by_order(worst):
    penalties = [-(i % (1 - worst)) for i in range(N)]
    scores = [100 + 3 * penalty for penalty in penalties]
    table = read_cells({"response": TEXTS, "llm_score": scores, "mqm_human": penalties})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["llm_score"],
        ["mqm_human"],
    )
    assert table.space.rubric == {"real": True}


def test_a_history_is_no_response():
    cells = {"question": TEXTS, "conversation_history": [[] for _ in range(N)]}
    cells |= {"agent_answer": TEXTS[::-1], "judge": FLAGS, "human": OTHER_FLAGS}
    assert columns_of_role(read_cells(cells), "response") == ["agent_answer"]


SCALES = {"helpfulness": (1, 5), "correct": (0, 1), "score": (0, 100)}


@pytest.mark.parametrize("column", ["metric", "criterion", "维度"])
@pytest.mark.parametrize("names", [("helpfulness", "correct"), ("correct", "score")])
def test_criteria_of_different_scales_are_read_one_at_a_time(column, names):
    cells: dict[str, list[Any]] = {"id": [], column: [], "judge_score": [], "human_score": []}
    for name in names:
        low, high = SCALES[name]
        cells["id"] += [f"c{i}" for i in range(N)]
        cells[column] += [name] * N
        cells["judge_score"] += [low + (high - low) * (i % 3) / 2 for i in range(N)]
        cells["human_score"] += [
            low + (high - low) * ((i + (i % 5 == 0)) % 3) / 2 for i in range(N)
        ]
    if "correct" in names:
        cells["judge_score"] = [float(round(score)) for score in cells["judge_score"]]
        cells["human_score"] = [float(round(score)) for score in cells["human_score"]]
    with pytest.raises(OpenTableError, match="have different scales") as asked:
        read_cells(cells)
    assert asked.value.readings == [["--key", f"{column}={name}"] for name in names]
    for name, answer in zip(names, asked.value.readings, strict=True):
        table = read_cells(cells, Choices().with_options(answer))
        assert len(table.parsed.records) == N
        assert f"rows in which '{column}' is '{name}': {N} of {2 * N}" in table.warnings


def test_a_value_that_no_row_has_is_an_error():
    cells = {"id": TEXTS, "metric": ["tone"] * N, "judge": FLAGS, "human": OTHER_FLAGS}
    with pytest.raises(EvalkitError, match="did you mean 'tone'"):
        read_cells(cells, Choices(keys=("metric=tonne",)))


@pytest.mark.parametrize("form", ["{model} - Human", "{model} human", "{model}_human"])
@pytest.mark.parametrize("model", ["GPT-4o", "claude-3-opus", "gemini-pro"])
def test_what_people_said_of_a_model_is_a_label(form, model):
    cells = {"output": TEXTS, form.format(model=model): FLAGS, "llm_judge": OTHER_FLAGS}
    table = read_cells(cells)
    assert columns_of_role(table, "label") == [form.format(model=model)]


@pytest.mark.parametrize("name", ["conv", "dialog", "会话"])
@pytest.mark.parametrize("turn", ["turn", "turn_id"])
def test_numbered_turns_are_units_of_their_conversation(name, turn):
    cells = {name: [f"c{i // 3}" for i in range(N)], turn: [1 + i % 3 for i in range(N)]}
    cells |= {"user": TEXTS, "assistant": TEXTS[::-1], "human": SCORES, "judge": NEAR}
    table = read_cells(cells)
    assert table.settings["scoring"]["cluster"] == name


@pytest.mark.parametrize("mean", ["mean", "avg", "score"])
def test_the_number_of_ratings_is_no_label(mean):
    cells = {"id": TEXTS, "judge_overall": NEAR, f"annotator_overall_{mean}": SCORES}
    table = read_cells({**cells, "annotator_overall_n": [2 + i % 4 for i in range(N)]})
    assert columns_of_role(table, "label") == [f"annotator_overall_{mean}"]
