"""HELM's scenario states, results of openevals, and ranked answers: who judged, and what."""

import json
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.core.errors import EvalkitError
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.records import Options

N = 24
SCORES = [1 + (i * 7) % 10 for i in range(N)]
FLAGS = [i % 3 > 0 for i in range(N)]


def written(tmp_path: Path, content: Any, suffix: str = ".json") -> Path:
    path = tmp_path / f"log{suffix}"
    if suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content), encoding="utf-8")
    else:
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


def state(i: int, name: str, annotation: Any, **extra: Any) -> dict[str, Any]:
    references = [
        {"output": {"text": f"not {i}"}, "tags": []},
        {"output": {"text": f"{i}"}, "tags": ["correct"]},
    ]
    instance = {"id": f"id{i}", "input": {"text": f"What is {i}?"}, "references": references}
    return {
        "instance": {**instance, "split": "test", "extra_data": extra},
        "train_trial_index": 0,
        "request": {"model": "acme/model-1", "prompt": f"What is {i}?"},
        "result": {"success": True, "completions": [{"text": f"It is {i}."}]},
        "annotations": {name: annotation},
    }


ANNOTATIONS = {
    "score": (
        lambda i: {"prompt_text": "p", "strengths": "s", "weaknesses": "w", "score": SCORES[i]},
        {"bench"},
    ),
    "models": (
        lambda i: {
            "prompt_text": "p",
            "gpt_score": SCORES[i],
            "gpt_reasoning": "r",
            "llama_score": SCORES[-i],
            "llama_reasoning": "r",
        },
        {"gpt", "llama"},
    ),
    "jury": (
        lambda i: {
            "prompt_text": "p",
            "claude": {
                "accuracy": {"score": SCORES[i], "explanation": "e"},
                "clarity": {"score": SCORES[-i], "explanation": "e"},
            },
        },
        {"claude"},
    ),
    "words": (
        lambda i: {
            "prompt_text": "p",
            "gpt_student_final_answer": f"{i}",
            "gpt_equivalence_judgement": FLAGS[i],
            "gpt_justification": "j",
        },
        {"gpt"},
    ),
}


@pytest.mark.parametrize("kind", ANNOTATIONS)
@pytest.mark.parametrize("labeled", [False, True])
def test_the_annotators_of_helm_are_models(kind, labeled, tmp_path):
    annotation, judges = ANNOTATIONS[kind]
    labels = FLAGS if kind == "words" else SCORES
    extra = [{"human_rating": label} if labeled else {} for label in labels]
    states = [state(i, "bench", annotation(i), **extra[i]) for i in range(N)]
    path = written(tmp_path, {"adapter_spec": {"model": "acme"}, "request_states": states})
    assert recognize_format(path) == "helm"
    if labeled and kind == "jury":
        # Labels of one criterion and a judge of two: which is compared is a question.
        with pytest.raises(EvalkitError, match="--judge"):
            import_judgments("helm", path, Options())
        return
    found = import_judgments("helm", path, Options())
    assert {judgment.judge for judgment in found.judgments} == judges
    assert len(found.cases) == N
    assert found.cases[3].responses[0].text == "It is 3."
    assert found.cases[3].reference == "3"
    assert all(bool(case.labels) == labeled for case in found.cases)


def test_an_empty_answer_has_no_verdict_of_helm(tmp_path):
    skipped = {"prompt_text": None, "empty_output_equivalence_judgement": False}
    annotated, _ = ANNOTATIONS["words"]
    states = [state(i, "omni", annotated(i) if i else skipped) for i in range(N)]
    path = written(tmp_path, {"request_states": states})
    found = import_judgments("helm", path, Options())
    assert len(found.judgments) == N - 1
    assert "answers that no judge assessed, omitted: 1" in found.notes


@pytest.mark.parametrize("key", ["results", "eval_results", "feedback"])
@pytest.mark.parametrize("values", ["flags", "shares", "both", "one"])
@pytest.mark.parametrize("labeled", [False, True])
def test_results_of_openevals_are_those_of_judges(key, values, labeled, tmp_path):
    shares = [score / 10 for score in SCORES]
    names = {"flags": (FLAGS, FLAGS[::-1]), "shares": (shares, shares[::-1])}
    columns = names.get(values, (FLAGS, shares))
    if values == "one":
        columns = (FLAGS,)
    rows = []
    for i in range(N):
        results = [
            {"key": name, "score": column[i], "comment": "c", "metadata": None}
            for name, column in zip(("correctness", "brevity"), columns, strict=False)
        ]
        if labeled:
            person = {"key": "human_correctness", "score": columns[0][-1 - i], "comment": None}
            results.append(person)
        rows.append({"inputs": {"q": f"What is {i}?"}, "outputs": f"It is {i}.", key: results})
        rows[-1]["reference_outputs"] = f"{i}"
    path = written(tmp_path, rows)
    assert recognize_format(path) == "openevals"
    found = import_judgments("openevals", path, Options())
    assert len(found.cases) == len(found.judgments) == N
    assert (found.cases[5].prompt, found.cases[5].reference) == ("What is 5?", "5")
    assert all(bool(case.labels) == labeled for case in found.cases)
    if not labeled and len(columns) > 1:
        expected = {
            name: float(column[2])
            for name, column in zip(("correctness", "brevity"), columns, strict=True)
        }
        assert found.judgments[2].criteria == expected


def test_flags_next_to_scores_beyond_one_are_a_question(tmp_path):
    rows = [
        {"inputs": f"{i}", "outputs": f"{i}"}
        | {
            "results": [
                {"key": "correctness", "score": FLAGS[i], "comment": ""},
                {"key": "depth", "score": SCORES[i], "comment": ""},
            ]
        }
        for i in range(N)
    ]
    with pytest.raises(EvalkitError, match="several criteria"):
        import_judgments("openevals", written(tmp_path, rows), Options())


def listed(i: int, *names: str) -> list[dict[str, Any]]:
    """Return three answers with the ranks of each ranker; two of a rank in every fifth row."""
    orders = {
        name: [1 + (rank + i * step) % 3 for rank in range(3)] for step, name in enumerate(names)
    }
    if i % 5 == 0:
        orders[names[0]][1] = orders[names[0]][0]
    return [
        {"answer": f"answer {k} to {i}", "model": f"m{k}"}
        | {name: float(order[k]) for name, order in orders.items()}
        for k in range(3)
    ]


def expected(i: int, name: str, *names: str) -> dict[str, str]:
    """Return the better answer of each pair by the ranks, as the slow version."""
    answers = listed(i, *names)
    better = {}
    for first, second in combinations(range(3), 2):
        ranks = answers[first][name], answers[second][name]
        texts = answers[first]["answer"], answers[second]["answer"]
        better[f"{i}/{first}/{second}"] = (
            "TIE" if ranks[0] == ranks[1] else texts[ranks[0] > ranks[1]]
        )
    return better


def winners(found: Any) -> dict[str, str]:
    cases = {case.id: case for case in found.cases}
    return {
        judgment.case_id: _winner(cases[judgment.case_id], judgment.value)
        for judgment in found.judgments
    }


def _winner(case: Any, margin: float) -> str:
    if margin == 0:
        return "TIE"
    return str(case.responses[0 if margin > 0 else 1].text)


def test_nectars_ranks_are_pairs_by_gpt_4(tmp_path):
    rows = [
        {"prompt": f"What is {i}?", "answers": listed(i, "rank"), "turns": 1}
        | {"num_responses": 3, "source": ["x"], "good_natured": True}
        for i in range(N)
    ]
    path = written(tmp_path, rows, ".jsonl")
    assert recognize_format(path) == "ranked_answers"
    found = import_judgments("ranked_answers", path, Options())
    assert {judgment.judge for judgment in found.judgments} == {"gpt-4"}
    assert winners(found) == {
        pair: text for i in range(N) for pair, text in expected(i, "rank", "rank").items()
    }
    first = sum(judgment.value > 0 for judgment in found.judgments)
    assert 0.3 < first / len(found.judgments) < 0.7


@pytest.mark.parametrize(
    ("lists", "judge", "person"),
    [
        *product(
            ("responses", "completions"), ("gpt4_rank", "judge_rank"), ("human_rank", "expert_rank")
        )
    ],
)
def test_ranks_are_of_whom_their_names_say(lists, judge, person, tmp_path):
    names = (person, judge)
    rows = [{"question": f"What is {i}?", lists: listed(i, *names)} for i in range(N)]
    path = written(tmp_path, rows)
    assert recognize_format(path) == "ranked_answers"
    found = import_judgments("ranked_answers", path, Options())
    assert {judgment.judge for judgment in found.judgments} == {judge}
    assert winners(found) == {
        pair: text for i in range(N) for pair, text in expected(i, judge, *names).items()
    }
    labels = {
        case.id: "TIE" if label == "TIE" else case.responses["AB".index(label)].text
        for case in found.cases
        for label in case.labels.values()
    }
    assert labels == {
        pair: text for i in range(N) for pair, text in expected(i, person, *names).items()
    }


@pytest.mark.parametrize("count", [30, 33])
def test_answers_that_are_not_compared_are_counted(count, tmp_path):
    answers = [{"text": f"Answer {n}.", "gpt4_rank": n} for n in range(count)]
    path = written(tmp_path, [{"question": "What is it?", "answers": answers}] * 2)
    found = import_judgments("ranked_answers", path, Options())
    notes = [note for note in found.notes if note.startswith("answers after the first 30")]
    assert len(found.cases) == 2 * 30 * 29 // 2
    # Three answers of each of two prompts.
    expected = ["answers after the first 30 of their prompt, omitted: 6"] if count > 30 else []
    assert notes == expected


@pytest.mark.parametrize("names", [("rank",), ("rank", "gpt4_rank"), ("rank", "human_rank")])
def test_a_rank_of_unknown_origin_is_no_judges(names, tmp_path):
    rows = [{"question": f"What is {i}?", "answers": listed(i, *names)} for i in range(N)]
    assert recognize_format(written(tmp_path, rows)) != "ranked_answers"


@pytest.mark.parametrize("judged", [0, 10])
def test_labels_of_pairs_that_nobody_judged_are_counted(judged, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = []
    for i in range(N):
        pair = {"instruction": f"i{i}", "output_1": f"x{i}", "output_2": f"y{i}"}
        people = {**pair, "annotator": "human_1", "preference": 1 + i % 2}
        if i >= judged:
            people["output_1"] = f"z{i}"
        rows += [people, {**pair, "annotator": "gpt4", "preference": 1 + (i + i // 9) % 2}]
    path = written(tmp_path, rows)
    main(["check", str(path)])
    note = f"labeled pairs that no judge judged, omitted: {N - judged}"
    assert note in capsys.readouterr().out
