"""Exports of other tools: recognized by content, with the right verdicts and labels; damaged ones are one line."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from shlex import split
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.compose import load_config
from evalkit.core.errors import EvalkitError
from evalkit.core.types import Case, Response
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.records import Options
from evalkit.workflows.materials import stream_cases
from tests.support.exports import (
    BOTH,
    GRADES,
    HUMAN,
    JUDGE,
    SCORES,
    SHAPES,
    N,
    annotation,
    choice,
    format_of,
    langfuse_score,
    task,
    texts_of,
)

POLARITY = {
    **dict.fromkeys(("pass", "true", "1", 1.0, "yes", "A"), True),
    **dict.fromkeys(("fail", "false", "0", 0.0, "no", "B"), False),
}
CASES = [(name, suffix) for name in SHAPES for suffix in texts_of(SHAPES[name])]


def written(tmp_path: Path, name: str, suffix: str) -> Path:
    path = tmp_path / f"export{suffix}"
    path.write_text(texts_of(SHAPES[name])[suffix], encoding="utf-8")
    return path


def read(path: Path, tool: str, options: Options = Options()) -> Any:  # noqa: B008
    return import_judgments(tool, path, options)


def verdicts(found: Any) -> list[Any]:
    values = []
    for judgment in found.judgments:
        assert judgment.status == "ok", judgment
        word = judgment.class_name
        if judgment.value is not None:
            word = "A" if judgment.value > 0 else "B"
        values.append(judgment.criteria["quality"] if word is None else word)
    return values


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_an_export_has_its_judge_and_its_labels(name, suffix, tmp_path):
    path = written(tmp_path, name, suffix)
    tool = format_of(name)
    assert recognize_format(path) == tool
    found = read(path, tool)
    labels = [next(iter(case.labels.values()))[0] for case in found.cases]
    judged = verdicts(found)
    assert len(found.cases) == len(judged) == N
    if "rat" in name.removeprefix(tool) or tool == "judge_bench":
        assert judged == [float(score) for score in SCORES]
        assert labels == [float(grade) for grade in GRADES]
    elif name.endswith("vertex pairs"):  # the response is B
        assert [POLARITY[value] for value in judged] == [word == "fail" for word in JUDGE]
        assert [POLARITY[label] for label in labels] == [word == "fail" for word in HUMAN]
    else:
        assert [POLARITY[value] for value in judged] == [word == "pass" for word in JUDGE]
        assert [POLARITY[label] for label in labels] == [word == "pass" for word in HUMAN]


WITH_SEVERAL = {
    "label_studio predictions": {"1@example.com", "2@example.com"},
    "prodigy two annotators": {"ann", "bob"},
    "label_studio in data": {"annotator 1", "annotator 2"},
}


@pytest.mark.parametrize("name", WITH_SEVERAL)
def test_each_annotator_is_named(name, tmp_path):
    found = read(written(tmp_path, name, ".json"), format_of(name))
    assert {person for case in found.cases for person in case.labels} == WITH_SEVERAL[name]


OMITTED = {
    "label_studio cancelled": "annotations that were cancelled or skipped, omitted: 12",
    "prodigy choice": "tasks with the answer 'ignore', omitted: 3",
    "argilla 1": "responses that are drafts or discarded, omitted: 12",
    "argilla 2 flat": "responses that are drafts or discarded, omitted: 12",
    "braintrust flags": "spans that are no answers, omitted: 12",
    "opik sdk": "read as those of judges because no score is of online scoring: 12",
}


@pytest.mark.parametrize("name", OMITTED)
def test_what_is_not_used_is_counted(name, tmp_path):
    notes = read(written(tmp_path, name, ".json"), format_of(name)).notes
    assert any(OMITTED[name] in note for note in notes)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


VALUES: tuple[Any, ...] = (
    *(None, "two", 3, 10**400, -1.5, True, [], {}, [None], {"x": "y"}, "\x00", [["a"]]),
    *(float("nan"), "x" * 5000, [[[]]], "\ud800", {"": None}, ...),
)


def damaged(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = deepcopy(content)
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return copy


def complaint(path: Path, tool: str, options: Options = Options()) -> str:  # noqa: B008
    """Return the error that a file raises; empty if it is read."""
    try:
        read(path, tool, options)
    except EvalkitError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", SHAPES)
def test_a_damaged_export_is_read_or_one_line(name, tmp_path, thorough):
    content = SHAPES[name]
    tool = format_of(name)
    path = tmp_path / "export.json"
    every = [*places(content)]
    random = Random(name)
    for _ in range(60 if thorough else 12):
        place = random.choice(every)
        value = random.choice(VALUES)
        path.write_text(json.dumps(damaged(content, place, value)), encoding="utf-8")
        for options in (Options(), Options(answers=True)):
            fault = complaint(path, tool, options)
            assert "\n" not in fault, (place, value)
            assert len(fault) < 900
    whole = json.dumps(content)
    for part in ("", "{}", "[]", "null", "[3]", whole[: len(whole) // 2], whole * 2):
        path.write_text(part, encoding="utf-8")
        fault = complaint(path, tool)
        assert fault
        assert "\n" not in fault


FEEDBACK = {
    "source": "web",
    "instruction": "What is 1?",
    "completions": [
        {
            "model": model,
            "response": f"{model} says",
            "annotations": {
                aspect: {"Rating": rating, "Rationale": "because"}
                for aspect, rating in (("helpfulness", str(stars)), ("honesty", "N/A"))
            },
        }
        for model, stars in (("m1", 5), ("m2", 2))
    ],
}


def test_ultrafeedback_has_criteria_and_no_labels(tmp_path):
    path = tmp_path / "feedback.jsonl"
    path.write_text(f"{json.dumps(FEEDBACK)}\n" * 3, encoding="utf-8")
    assert recognize_format(path) == "ultrafeedback"
    found = read(path, "ultrafeedback")
    assert [response.model for response in found.cases[0].responses] == ["m1", "m2"]
    assert not any(case.labels for case in found.cases)
    assert len(found.judgments) == 6


ANSWER = {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "[[A]]"}]}
BATCHES = {
    "bedrock_batch": [
        {
            "recordId": "1",
            "modelOutput": {
                "output": {"message": {"content": [{"text": "[[A]]"}]}},
                "stopReason": "end_turn",
            },
        },
        {
            "recordId": "2",
            "error": {"errorCode": 429, "errorMessage": "x", "message": "overloaded"},
        },
    ],
    "anthropic_batch": [
        {
            "custom_id": "1",
            "result": {
                "type": "succeeded",
                "message": {**ANSWER, "model": "c", "stop_reason": "end_turn", "usage": {}},
            },
        },
        {
            "custom_id": "2",
            "result": {
                "type": "errored",
                "error": {"type": "error", "error": {"type": "x", "message": "overloaded"}},
            },
        },
    ],
    "gemini_batch": [
        {
            "key": "1",
            "response": {
                "candidates": [{"content": {"parts": [{"text": "[[A]]"}]}, "finishReason": "STOP"}],
                "modelVersion": "g",
            },
        },
        {"key": "2", "error": {"message": "overloaded"}},
    ],
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_has_answers_for_cases_and_says_so_without_them(name, tmp_path):
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in BATCHES[name]), encoding="utf-8")
    assert recognize_format(path) == name
    fault = complaint(path, name)
    assert "has a model's answers and no verdicts" in fault
    assert f"evalkit import {name}" in fault
    cases = tuple(
        Case(id=id_, prompt="p", responses=(Response("a"), Response("b"))) for id_ in ("1", "2")
    )
    first, second = read(path, name, Options(cases=cases)).judgments
    assert first.completion.text == "[[A]]"
    assert (second.status, second.error) == ("failed", "overloaded")


ASKED = {
    "two criteria": [
        langfuse_score(i, source, said, name=name)
        for i, judge, human in BOTH
        for name in ("quality", "tone")
        for source, said in (("EVAL", judge), ("ANNOTATION", human))
    ],
    "one other name": [
        langfuse_score(i, source, said, name=name)
        for i, judge, human in BOTH
        for source, said, name in (("API", judge, "cost"), ("ANNOTATION", human, "quality"))
    ],
    "other names": [
        langfuse_score(i, source, said, name=name)
        for i, judge, human in BOTH
        for source, said, name in (
            ("EVAL", judge, "correctness"),
            ("EVAL", human, "helpfulness"),
            ("ANNOTATION", human, "quality"),
        )
    ],
}


@pytest.mark.parametrize("name", ASKED)
def test_an_open_criterion_is_asked_for_with_commands_that_run(name, tmp_path):
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(ASKED[name]), encoding="utf-8")
    fault = complaint(path, "langfuse")
    commands = [
        part
        for part in fault.split("; ")
        for part in [part.removeprefix("choose one: ")]
        if part.startswith("evalkit check")
    ]
    assert len(commands) == (1 if name == "one other name" else 2)
    for command in commands:
        words = split(command)
        label, judge = (words[words.index(option) + 1] for option in ("--label", "--judge"))
        found = read(path, "langfuse", Options(dimension=label, judge=judge))
        assert len(found.judgments) == N


def test_import_asks_with_commands_that_import(here, capsys):
    Path("scores.json").write_text(json.dumps(ASKED["two criteria"]), encoding="utf-8")
    assert main(["import", "langfuse", "scores.json"]) == 1
    asked = capsys.readouterr().err.partition("choose one: ")[2]
    commands = [split(command) for command in asked.split("; ")]
    assert [command[:3] for command in commands] == [["evalkit", "import", "langfuse"]] * 2
    for number, command in enumerate(commands):
        settings = [f"hydra.run.dir=run{number}", "tracking=none", "scoring.bootstrap=0"]
        assert main([*command[1:], *settings]) == 0


def test_a_file_without_a_judge_names_the_command_that_has_its_answers_judged(tmp_path):
    rows = [{**one, "suggestions": {}} for one in SHAPES["argilla 2"]]
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    fault = complaint(path, "argilla")
    assert "has labels and not a judge's verdicts" in fault
    assert f"evalkit run mode=pointwise dataset.path={path}" in fault
    words = split(fault.partition("evalkit run ")[2])
    assert len([*stream_cases(load_config(overrides=words))]) == N


def test_votes_without_a_judge_name_the_command_that_has_the_pairs_judged(tmp_path):
    rows = [{**row} for row in SHAPES["lmarena 140k"]]
    for row in rows:
        del row["llm_verdict"]
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    words = split(complaint(path, "lmarena").partition("evalkit run ")[2])
    cases = [*stream_cases(load_config(overrides=words))]
    assert [case.labels["votes"] for case in cases] == ["A" if h == "pass" else "B" for h in HUMAN]


TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
OF_PEOPLE: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "transcripts": (
        "preferences",
        [
            {
                "chosen": f"\n\nHuman: q{i}\n\nAssistant: yes{i}",
                "rejected": f"\n\nHuman: q{i}\n\nAssistant: no{i}",
            }
            for i in range(N)
        ],
        "AB",
    ),
    "conversations": ("preferences",
     [{"chosen": TALK, "rejected": TALK[:1] + TALK, "source": "x"} for _ in range(N)], "AB"),
    "attributes": (
        "helpsteer2",
        [
            {"prompt": f"q{i}", "response": "a", "helpfulness": 4, "correctness": i % 5}
            | {"coherence": 4, "complexity": 1, "verbosity": 1}
            for i in range(N)
        ],
        "",
    ),
    "strengths": (
        "helpsteer3",
        [
            {"prompt": f"q{i}", "response_1": "x", "response_2": "y"}
            | {"preference_strength": [-2, 3][i % 2]}
            for i in range(N)
        ],
        "AB",
    ),
    "votes of readers": (
        "published_pairs",
        [
            {"post_id": f"p{i}", "history": f"q{i}", "human_ref_A": "x", "human_ref_B": "y"}
            | {"labels": [1, 0][i % 2], "score_A": 9, "score_B": 3, "score_ratio": 3.0}
            for i in range(N)
        ],
        "AB",
    ),
    "signs of scores": (
        "published_pairs",
        [
            {"question": {"id": f"q{i}", "full_text": f"q{i}"}, "quotes_0": {}, "quotes_1": {}}
            | {"answer_0": "x", "answer_1": "y", "score_0": s, "score_1": -s}
            for i in range(N)
            for s in [[0.5, -1.0][i % 2]]
        ],
        "AB",
    ),
    "the number of a summary": (
        "published_pairs",
        [
            {"info": {"id": f"i{i}", "post": f"q{i}"}, "worker": "w", "choice": i % 2}
            | {"summaries": [{"text": "x", "policy": "p"}, {"text": "y", "policy": "ref"}]}
            for i in range(N)
        ],
        "AB",
    ),
    "one right answer of several": (
        "published_pairs",
        [
            {"id": f"{i}", "prompt": f"q{i}", "chosen": ["x"], "rejected": ["y", "z"]}
            | {"num_correct": 1, "num_incorrect": 2, "models": ["a", "b", "c"]}
            for i in range(N // 2)
        ],
        "AB",
    ),
    "better and safer": (
        "published_pairs",
        [
            {"prompt": f"q{i}", "response_0": "x", "response_1": "y"}
            | {"better_response_id": i % 2, "safer_response_id": 1 - i % 2}
            | {"is_response_0_safe": True, "response_0_severity_level": 0}
            for i in range(N)
        ],
        "AB",
    ),
    "ranks of replies": (
        "oasst",
        [
            {"message_id": f"{i}{reply}", "parent_id": f"{i}" if reply else None}
            | {"message_tree_id": f"{i}", "text": f"{reply} of {i}"}
            | {"role": "assistant" if reply else "prompter"}
            | {"rank": {"x": 0, "y": 1}.get(reply), "labels": {"name": ["spam"], "value": [0.0]}}
            for i in range(N)
            for reply in ("", "x", "y", "z")
        ],
        "AB",
    ),
    "trees of replies": (
        "oasst",
        [
            {"message_tree_id": f"{i}", "tree_state": "ready_for_export"}
            | {
                "prompt": {"message_id": f"{i}", "text": f"q{i}", "role": "prompter"}
                | {
                    "replies": [
                        {"message_id": f"{i}{rank}", "text": "x", "role": "assistant", "rank": rank}
                        | {
                            "replies": [
                                {"message_id": f"{i}{rank}n", "role": "prompter", "text": "n"}
                            ]
                        }
                        for rank in (0, 1)
                    ]
                }
            }
            for i in range(N)
        ],
        "AB",
    ),
    "ratings of steps": (
        "prm800k",
        [
            {"labeler": "anna", "question": {"problem": f"q{i}", "ground_truth_answer": "4"}}
            | {
                "label": {
                    "finish_reason": "solution",
                    "steps": [
                        {"completions": [{"text": "a", "rating": 1}, {"text": "b", "rating": -1}]}
                        | {"human_completion": None, "chosen_completion": 0},
                    ],
                }
            }
            for i in range(N // 2)
        ],
        ((1.0,), (-1.0,)),
    ),
    "voters": (
        "mt_bench",
        [
            {"question_id": i, "model_a": "x", "model_b": "y", "judge": f"{kind}_{i}", "turn": 1}
            | {"winner": ["model_a", "model_b"][i % 2]}
            | {"conversation_a": TALK, "conversation_b": TALK}
            for i in range(N)
            for kind in ("author", "expert")
        ],
        "",
    ),
    "numbered people": (
        "alpaca_eval",
        [
            {"instruction": f"q{i}", "output_1": "x", "output_2": "y"}
            | {"annotator_index": 3, "preference": 1 + i % 2}
            for i in range(N)
        ],
        "",
    ),
}  # fmt: skip
"""By name: the format, rows of people without a judge, and the labels of even and odd rows."""


@pytest.mark.parametrize("name", OF_PEOPLE)
def test_people_without_a_judge_name_the_command_that_has_their_answers_judged(name, tmp_path):
    tool, rows, sides = OF_PEOPLE[name]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert recognize_format(path) == tool
    fault = complaint(path, tool)
    assert "has labels and not a judge's verdicts" in fault
    words = split(fault.partition("evalkit run ")[2])
    cases = [*stream_cases(load_config(overrides=words))]
    assert len(cases) == N
    if sides:
        labels = [next(iter(case.labels.values())) for case in cases]
        assert labels == [sides[i % 2] for i in range(N)]
    if name == "better and safer":
        assert [case.metadata["safer"] for case in cases] == ["BA"[i % 2] for i in range(N)]
    if name == "transcripts":
        assert cases[1].prompt == "\n\nHuman: q1\n\nAssistant:"
        assert [response.text for response in cases[1].responses] == ["no1", "yes1"]


@pytest.mark.parametrize("row", [
    {"fields": {"q": "x"}, "responses": [{"by": "anna", "score": 3}]},
    {"fields": {"q": "x"}, "suggestions": [{"text": "try again"}]},
    {"prompt": "q", "chosen": "x", "rejected": "y", "gpt_margin": 1},
    {"chosen": ["x"], "rejected": ["y", "z"]},
    {"prompt": "q", "response": "a", "helpfulness": 4, "correctness": 3},
], ids=str)  # fmt: skip
def test_keys_of_a_format_with_other_contents_are_a_table(row, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(row)}\n" * 3, encoding="utf-8")
    assert recognize_format(path) is None


def test_criteria_in_the_data_are_those_of_the_annotators(tmp_path):
    rows = [
        task(
            i,
            [
                {
                    **annotation(i, 1, human),
                    "result": [choice(human), {**choice(judge), "from_name": "tone"}],
                }
            ],
            {"gpt_quality": judge, "gpt_tone": judge},
        )
        for i, judge, human in BOTH
    ]
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    fault = complaint(path, "label_studio")
    assert fault.count("evalkit check") == 2
    found = read(path, "label_studio", Options(dimension="tone", judge="tone"))
    assert {one.judge for one in found.judgments} == {"gpt_tone"}
    assert [case.labels["annotator 1"][0] for case in found.cases] == JUDGE


MIXED = {
    "words and scores": ([["fail", "pass"][score > 2] for score in GRADES], SCORES),
    "two scales": (GRADES, [20 * score for score in SCORES]),
}


@pytest.mark.parametrize("name", MIXED)
def test_scores_on_another_scale_are_compared_by_order_only(name, tmp_path):
    people, judge = MIXED[name]
    rows = [
        {
            **SHAPES["argilla 2"][i],
            "suggestions": {"quality": {"value": judge[i], "agent": "gpt-x"}},
            "responses": {"quality": [{"value": people[i], "user_id": "u1"}]},
        }
        for i in range(N)
    ]
    path = tmp_path / "scales.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read(path, "argilla")
    assert found.settings["rubric"] == {"real": True}
    assert any("only their order is compared" in note for note in found.notes)
    expected = [{"pass": 1.0, "fail": 0.0}.get(value, value) for value in people]
    assert [case.labels["u1"][0] for case in found.cases] == expected


def test_criteria_of_different_scales_are_not_averaged(tmp_path):
    scores = [
        langfuse_score(i, "EVAL", "", name=name, value=value, stringValue=None, dataType="NUMERIC")
        for i in range(N)
        for name, value in (("helpfulness", SCORES[i]), ("relevance", GRADES[i]), ("cost", 40 * i))
    ]
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(scores), encoding="utf-8")
    fault = complaint(path, "langfuse")
    assert fault.count("evalkit check") == 3
    assert len(read(path, "langfuse", Options(judge="helpfulness")).judgments) == N
    path.write_text(json.dumps([one for one in scores if one["name"] != "cost"]), encoding="utf-8")
    found = read(path, "langfuse")
    assert found.judgments[0].criteria == {"helpfulness": SCORES[0], "relevance": GRADES[0]}


def test_a_judge_of_users_is_not_a_person_and_a_reference_not_a_judge(tmp_path):
    rows = [
        {"key": key, "run_id": f"r{i}", "value": said, "feedback_source": {"type": kind}}
        for i, judge, human in BOTH
        for kind, key, said in (
            ("model", "user_frustration", judge),
            ("app", "human user frustration", human),
        )
    ]
    path = tmp_path / "feedback.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read(path, "langsmith")
    assert [one.class_name for one in found.judgments] == JUDGE
    tasks = [
        task(i, [annotation(i, 1, human)], {"expected": human, "gpt": judge})
        for i, judge, human in BOTH
    ]
    path.write_text(json.dumps(tasks), encoding="utf-8")
    found = read(path, "label_studio")
    assert {one.judge for one in found.judgments} == {"gpt"}


def preferred(i: int, chosen: float, rejected: float) -> dict[str, Any]:
    talk = [{"role": "user", "content": f"What is {i}?"}]
    return {
        "prompt": f"What is {i}?",
        "prompt_id": f"p{i}",
        "chosen": [*talk, {"role": "assistant", "content": f"It is {i}."}],
        "rejected": [*talk, {"role": "assistant", "content": "Who knows."}],
        "score_chosen": chosen,
        "score_rejected": rejected,
    }


def test_scores_of_chosen_and_rejected_responses_are_a_judge_of_the_pair(tmp_path):
    path = tmp_path / "preferences.jsonl"
    rows = [preferred(i, 8.0 if judge == "pass" else 2.0, 5.0) for i, judge, _ in BOTH]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert recognize_format(path) == "preferences"
    found = read(path, "preferences")
    label = {case.id: 1.0 if case.labels["chosen"] == "A" else -1.0 for case in found.cases}
    assert [one.value == label[one.case_id] for one in found.judgments] == [
        judge == "pass" for judge in JUDGE
    ]
    assert {case.labels["chosen"] for case in found.cases} == {"A", "B"}


def test_scores_that_chose_the_response_are_no_evidence(tmp_path):
    path = tmp_path / "preferences.jsonl"
    rows = [preferred(i, 8.0, 5.0) for i in range(N)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert "has labels and not a judge's verdicts" in complaint(path, "preferences")
    assert len(read(path, "preferences", Options(judge="score_chosen")).judgments) == N
    rows = [
        {**row, "judge": "chosen" if said == "pass" else "rejected"}
        for row, said in zip(rows, JUDGE, strict=True)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    found = read(path, "preferences")
    assert {one.judge for one in found.judgments} == {"judge"}
    assert any("it may have been chosen by them: score_chosen" in note for note in found.notes)


@pytest.mark.parametrize("name", ["prodigy choice", "label_studio in data", "score_columns azure"])
def test_verdicts_in_the_data_are_not_metadata(name, tmp_path):
    found = read(written(tmp_path, name, ".json"), format_of(name))
    values = {value for case in found.cases for value in map(str, case.metadata.values())}
    assert values.isdisjoint({"pass", "fail"})


def test_people_are_no_judges_of_alpaca_evals_pairs(tmp_path):
    path = tmp_path / "annotations.json"
    pair = {"output_1": "x", "output_2": "y"}
    rows = [
        {"instruction": f"q{i}", **pair, "annotator": name, "preference": 1 + (said == "fail")}
        for i, judge, human in BOTH
        for name, said in (("human_0", human), ("gpt4", judge))
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read(path, "alpaca_eval")
    assert {judgment.judge for judgment in found.judgments} == {"gpt4"}
    assert [POLARITY[case.labels["human_0"][0]] for case in found.cases] == [
        word == "pass" for word in HUMAN
    ]
    path.write_text(json.dumps(rows[::2]), encoding="utf-8")
    assert "has labels and not a judge's verdicts" in complaint(path, "alpaca_eval")
    found = read(path, "alpaca_eval", Options(judge="human_0"))
    assert len(found.judgments) == N


def test_raters_who_share_no_word_are_not_compared(tmp_path):
    path = tmp_path / "scores.json"
    rows = [
        langfuse_score(i, source, f"{source} {said}")
        for i, *both in BOTH
        for source, said in zip(("EVAL", "ANNOTATION"), both, strict=True)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    problem = complaint(path, "langfuse")
    assert "the judge's words are not the annotators'" in problem
    # The first of the printed commands has the meaning of each word.
    words = split(problem.partition("choose one: ")[2].partition(";")[0])
    meanings = [word.split("=", 1) for word in words if "=" in word]
    found = read(path, "langfuse", Options(winners=dict(meanings)))
    assert {judgment.class_name for judgment in found.judgments} == {
        f"ANNOTATION {word}" for word in ("pass", "fail")
    }
    with pytest.raises(EvalkitError, match=r"no rater in .* says this"):
        read(path, "langfuse", Options(winners={"absent": "pass"}))


@pytest.mark.parametrize("frame", ["prompt response\n0 q a", {"prompt": ["q"], "response": []}])
def test_a_frame_of_vertex_that_is_no_table_is_named(frame, tmp_path):
    path = tmp_path / "result.json"
    export = {**SHAPES["vertex ratings of a frame"]}
    export["evaluation_dataset"] = [{"eval_dataset_df": frame}]
    path.write_text(json.dumps(export), encoding="utf-8")
    notes = read(path, "vertex").notes
    assert any("the data frame of the dataset, not read: " in note for note in notes)


def test_rows_of_people_among_mt_benchs_judgments_are_labels(tmp_path):
    path = tmp_path / "judgments.jsonl"
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows = [
        {
            "question_id": i,
            "model_a": "x",
            "model_b": "y",
            "judge": name,
            "winner": "model_a" if said == "pass" else "model_b",
            "conversation_a": talk,
            "conversation_b": talk,
            "turn": 1,
        }
        for i, judge, human in BOTH
        for name, said in (("gpt4_pair", judge), ("expert_1", human))
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    found = read(path, "mt_bench")
    assert {judgment.judge for judgment in found.judgments} == {"gpt4_pair"}
    assert [case.labels["expert_1"][0] for case in found.cases] == [
        "A" if word == "pass" else "B" for word in HUMAN
    ]


def test_what_people_chose_is_the_label_of_chosen_and_rejected_responses(tmp_path):
    path = tmp_path / "pairs.json"
    side = {"pass": "chosen", "fail": "rejected"}
    rows = [
        {
            "prompt": f"q{i}",
            "chosen": "x",
            "rejected": "y",
            "gpt": side[judge],
            "human": side[human],
        }
        for i, judge, human in BOTH
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read(path, "preferences")
    assert {person for case in found.cases for person in case.labels} == {"human"}
    assert {judgment.judge for judgment in found.judgments} == {"gpt"}


def test_label_studios_table_has_the_result_before_its_annotator(tmp_path):
    path = tmp_path / "export.csv"
    lines = ["text,llm_judge,id,verdict,annotator,annotation_id,created_at,lead_time"]
    lines += [
        f"t{i},{judge},{i},{said},{person},{i}{person},2026,3.1"
        for i, judge, human in BOTH
        for person, said in ((1, human), (2, "pass"))
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert recognize_format(path) == "label_studio"
    found = read(path, "label_studio")
    assert verdicts(found) == JUDGE
    assert [case.labels["annotator 1"][0] for case in found.cases] == HUMAN
    # Numbers like those of people are offered as the judge, and not taken.
    path.write_text("\n".join(lines).replace("llm_judge", "machine"), encoding="utf-8")
    assert verdicts(read(path, "label_studio")) == JUDGE
    numbered = "\n".join(lines).replace("llm_judge", "machine")
    numbered = numbered.replace("pass", "1").replace("fail", "0")
    path.write_text(numbered, encoding="utf-8")
    error = complaint(path, "label_studio")
    assert f"or name a judge: evalkit check {path.name} --judge machine" in error.replace(
        str(tmp_path) + "/", ""
    )


def test_a_judge_of_lmarenas_votes_may_name_the_winners_model(tmp_path):
    path = tmp_path / "votes.json"
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows = [
        {
            "model_a": "m",
            "model_b": f"n{i}",
            "winner": "model_a" if human == "pass" else "model_b",
            "gpt-4": "m" if judge == "pass" else f"n{i}",
            "conversation_a": talk,
            "conversation_b": talk,
            "language": "English",
        }
        for i, judge, human in BOTH
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read(path, "lmarena")
    assert {judgment.judge for judgment in found.judgments} == {"gpt-4"}
    assert verdicts(found) == ["A" if word == "pass" else "B" for word in JUDGE]


def test_metrics_of_code_are_no_judges(tmp_path):
    path = tmp_path / "calls.json"
    rows = [
        {
            "op_name": "Evaluation.predict_and_score",
            "inputs": {"example": {"human_label": human}},
            "output": {"output": "x", "scores": {"judge": judge, "exact_match": judge}},
        }
        for _, judge, human in BOTH
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read(path, "weave")
    assert {judgment.judge for judgment in found.judgments} == {"judge"}


def test_a_choice_that_is_none_of_a_graders_is_missing(tmp_path):
    events = [{"spec": {"completion_fns": ["m"], "base_eval": "joke"}}]
    for i in range(N):
        choice = ("Yes", "No", "__invalid__")[i % 3]
        data = {"choice": choice, "invalid_choice": choice == "__invalid__", "score": 0.0}
        events.append({"sample_id": f"s{i}", "event_id": i, "type": "metrics", "data": data})
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    found = read(path, "openai_evals")
    assert set(found.settings["rubric"]["classes"]) == {"Yes", "No"}
    statuses = [judgment.status for judgment in found.judgments]
    assert statuses == [("ok", "ok", "failed")[i % 3] for i in range(N)]


def test_equal_ranks_are_ties_and_a_single_reply_is_counted(tmp_path):
    def message(name, parent, rank):
        role = "prompter" if parent is None else "assistant"
        cells = {"message_id": name, "parent_id": parent, "role": role, "rank": rank}
        return {**cells, "message_tree_id": "t", "text": name}

    rows = [message("p", None, None), message("q", None, None), message("q1", "q", 0)]
    rows += [message(name, "p", rank) for name, rank in (("a", 0), ("b", 0), ("c", 1), ("d", None))]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    found = read(path, "oasst", Options(answers=True))
    labels = {case.id: next(iter(case.labels.values())) for case in found.cases}
    assert labels == {"a/b": "TIE", "c/a": "B", "b/c": "A"}
    assert found.notes[0] == "replies without a rank, or without another ranked one: 2"


def test_an_evaluator_of_a_frame_that_failed_is_missing(tmp_path):
    rows = []
    for i in range(N):
        score = {"name": "ok", "score": 1.0, "label": "pass", "kind": "llm"}
        details = {"status": "COMPLETED", "exceptions": []}
        if i % 3 == 0:
            score = None
            details = {"status": "FAILED", "exceptions": ["RateLimitError('slow down')"]}
        rows.append({"output": f"It is {i}.", "ok_score": score, "ok_execution_details": details})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    found = read(path, "phoenix")
    assert len(found.cases) == N
    statuses = [judgment.status for judgment in found.judgments]
    assert statuses == ["ok" if i % 3 else "failed" for i in range(N)]
    assert "slow down" in found.judgments[0].error
