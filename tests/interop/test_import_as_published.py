"""Files with the field names, nesting and value forms of published ones: each was written after a real file.

Those that were read: AlpacaEval's results, FastChat's and JudgeBench's judgments, Arena-Hard's
games, Inspect's test logs, promptfoo's sample export, DeepEval's sample test run, OpenAI batch
output, SummEval's annotations.
"""

import json
from typing import Any
from zipfile import ZipFile

import pytest

from evalkit.config import DatasetConfig
from evalkit.core.errors import DatasetError
from evalkit.datasets import load_cases
from evalkit.interop.importer_discovery import recognize_format
from tests.support.import_layouts import BARE, FAULT, LOG, METRICS, TEST_RUN, export, result, sample

LOGPROBS = {
    "content": [{"token": "m", "bytes": [109], "logprob": -0.01, "top_logprobs": []}],
    "refusal": None,
}
CHOICE = {
    "finish_reason": "length",
    "index": 0,
    "logprobs": LOGPROBS,
    "message": {"content": "m", "role": "assistant", "function_call": None, "tool_calls": None,
                "refusal": None},
    "text": "m",
    "total_tokens": 1000.0,
}  # fmt: skip
CALL = {
    "concise_explanation": "M names more actors.",
    "ordered_models": [{"model": "M", "rank": 1}, {"model": "m", "rank": 2}],
}
RANKS = "[\n    {'model': 'model_1', 'rank': 1},\n    {'model': 'model_2', 'rank': 2}\n]"


def alpaca(number: int, preference: Any, raw: Any) -> dict[str, Any]:
    return {
        "instruction": f"Name actor {number}.",
        "output_1": "Several actors.",
        "generator_1": "gpt4_1106_preview",
        "dataset": "helpful_base",
        "output_2": "One.",
        "generator_2": "small-7b",
        "datasplit": "eval",
        "annotator": "weighted_alpaca_eval_gpt4_turbo",
        "preference": preference,
        "price_per_example": 0.01,
        "time_per_example": 0.18,
        "raw_completion": raw,
    }


def test_alpaca_evals_three_kinds_of_completions(bring, write):
    rows = [
        alpaca(1, 1.9900139974, CHOICE),
        alpaca(2, 1, CALL),
        alpaca(3, 2, RANKS),
        alpaca(4, None, None),
    ]
    ran = bring("alpaca_eval", str(write("annotations.json", rows)))
    values = [value for _, _, value in ran.values]
    assert values[:3] == [pytest.approx(3 - 2 * 1.9900139974), 1.0, -1.0]
    assert values[3] == "unparseable"
    texts = [(row["completion"] or {}).get("text") for row in ran.rows("judgments.jsonl")]
    assert texts == ["m", json.dumps(CALL), RANKS, None]
    # The model is the second output, the baseline the first.
    assert ran.metrics["alpaca_eval/win_rate"]["value"] == pytest.approx((0.9900139974 + 0 + 1) / 3)


CONVERSATION = (
    "<|The Start of Assistant A's Conversation with User|>\n\n### User:\nWrite.\n\n### Assistant A:\nA poem by {0}.\n\n"
    "### User:\nShorter.\n\n### Assistant A:\nNo.\n\n<|The End of Assistant A's Conversation with User|>"
)
BOTH = (
    CONVERSATION
    + "\n\n\n"
    + CONVERSATION.replace("Assistant A", "Assistant B").replace("{0}", "{1}")
)
REFERRED = (
    "[Instruction]\nPlease act as an impartial judge.\n\n[Question]\n2 + 2?\n\n[The Start of Reference Answer]\n4\n"
    "[The End of Reference Answer]\n\n[The Start of Assistant's Answer]\nFive.\n[The End of Assistant's Answer]"
)


def test_fastchats_second_turns_and_references(bring, write):
    def single(question: int, turn: int, prompt: str) -> dict[str, Any]:
        kind = "single-math-v1" if turn == 1 else "single-v1-multi-turn"
        return {
            "question_id": question,
            "model": "small-7b",
            "judge": ["gpt-4", kind],
            "user_prompt": prompt,
            "judgment": "Poor. Rating: [[2]]",
            "score": 2,
            "turn": turn,
            "tstamp": 1700367448.5,
        }

    rows = [single(61, 2, CONVERSATION.format("me")), single(111, 1, REFERRED)]
    ran = bring("mt_bench", str(write("gpt-4_single.jsonl", rows)))
    talk, sum_ = ran.rows("cases.jsonl")
    assert talk["prompt"] == "[Turn 1]\nWrite.\n\n[Turn 2]\nShorter."
    assert talk["responses"][0]["text"] == "[Turn 1]\nA poem by me.\n\n[Turn 2]\nNo."
    assert (sum_["prompt"], sum_["reference"], sum_["responses"][0]["text"]) == (
        "2 + 2?",
        "4",
        "Five.",
    )
    assert ran.metrics["mt_bench/score/small-7b/turn2"]["value"] == 2

    pair = {"question_id": 61, "model_1": "one", "model_2": "two", "g1_winner": "model_1", "g2_winner": "error",
            "judge": ["gpt-4", "pair-v2-multi-turn"], "g1_user_prompt": BOTH.format("one", "two"),
            "g1_judgment": "[[A]]", "g2_user_prompt": BOTH.format("two", "one"), "g2_judgment": "$ERROR$", "turn": 2,
            "tstamp": 1.5}  # fmt: skip
    ran = bring("mt_bench", str(write("gpt-4_pair.jsonl", [pair])))
    assert ran.values == [("61 turn 2", [0, 1], 1.0), ("61 turn 2", [1, 0], "unparseable")]
    (case,) = ran.rows("cases.jsonl")
    assert [one["text"][:24] for one in case["responses"]] == [
        "[Turn 1]\nA poem by one.\n",
        "[Turn 1]\nA poem by two.\n",
    ]


def test_arena_hards_first_version_and_its_images(bring, write):
    prompt = "<|User Prompt|>\nWhat is it?\n\n<|The Start of Assistant A's Answer|>\nA cat.\n"
    prompt += (
        "<|The End of Assistant A's Answer|>\n\n<|The Start of Assistant B's Answer|>\nA dog.\n"
    )
    prompt += "<|The End of Assistant B's Answer|>"
    swapped = (
        prompt.replace("A cat.", "A fish.").replace("A dog.", "A cat.").replace("A fish.", "A dog.")
    )
    games = [
        {"user_prompt": [prompt, ["9f8e"]], "judgment": "\n[[A>>B]]", "score": "A>>B"},
        {"user_prompt": swapped, "judgment": "\nno label\nstill none", "score": None},
    ]
    row = {
        "question_id": "96d2",
        "model": "small-7b",
        "judge": "gpt-4-1106-preview",
        "games": games,
    }
    ran = bring("arena_hard", str(write("gpt-4-1106-preview/small-7b.jsonl", [row])))
    assert ran.values == [("96d2", [0, 1], 1.0), ("96d2", [1, 0], "unparseable")]
    (case,) = ran.rows("cases.jsonl")
    assert [(one["model"], one["text"]) for one in case["responses"]] == [
        ("baseline", "A cat."),
        ("small-7b", "A dog."),
    ]
    assert ran.metrics["arena_hard/score"]["value"] == 0.0


def test_judgebenchs_reward_models_say_nothing(bring, write):
    def judged(scores: list[float], decision: str) -> dict[str, Any]:
        words = {"judge_model": "org/reward-7b", "prompt": "", "response": "", "scores": scores}
        return {"judgment": words, "decision": decision}

    row = {"pair_id": "e302b0a0", "original_id": 1420, "source": "mmlu-pro-law", "question": "Is it?",
           "response_model": "gpt-4o-2024-05-13", "response_A": "Yes.", "response_B": "No.", "label": "A>B",
           "judge_name": "reward_model",
           "judgments": [judged([1.9, 1.3], "A>B"), judged([1.3, 1.9], "B>A")]}  # fmt: skip
    file = "dataset=judgebench,response_model=gpt-4o-2024-05-13,judge_name=reward_model,judge_model=org_reward-7b.jsonl"
    ran = bring("judgebench", str(write(file, [row])))
    assert ran.values == [("e302b0a0", [0, 1], 1.0), ("e302b0a0", [1, 0], 1.0)]
    assert {(one["judge"], one["completion"]) for one in ran.rows("judgments.jsonl")} == {
        ("org/reward-7b", None)
    }
    assert ran.metrics["judgebench/net_vote_accuracy/knowledge"]["value"] == 1.0


def test_inspects_other_logs(bring, write, tmp_path):
    named = {
        **LOG,
        "eval": {
            **LOG["eval"],
            "model_roles": {"grader": {"model": "openai/gpt-4.1", "config": {}}},
        },
    }
    path = tmp_path / "log.eval"
    with ZipFile(path, "w") as archive:
        archive.writestr(
            "_journal/start.json",
            json.dumps({key: named[key] for key in ("version", "eval", "plan")}),
        )
        for one in named["samples"][::-1]:
            archive.writestr(f"samples/{one['id']}_epoch_1.json", json.dumps(one))
    ran = bring("inspect", str(path))
    assert [case for case, _, _ in ran.values] == ["1", "2", "10"]
    assert {row["judge"] for row in ran.rows("judgments.jsonl")} == {"openai/gpt-4.1"}

    old = {
        **LOG,
        "version": 1,
        "samples": [{**sample(1, None), "input": "How?", "score": {"value": 0.5}}],
    }
    assert bring("inspect", str(write("old.json", old))).values == [("1", [0], {"score": 0.5})]

    head = write("head.json", {key: value for key, value in LOG.items() if key != "samples"})
    ran = bring("inspect", str(head), status=1)
    assert ran.err.startswith(
        f"evalkit: {head}: the log has no samples; use a log written with samples"
    )


def test_promptfoos_export(bring, write):
    rows = [result(0, 1, 1), result(0, 0, 0.4), result(1, 1, 1, **FAULT), result(1, 0, 1, **BARE)]
    ran = bring("promptfoo", str(write("export.json", export(*rows))))
    assert ran.values == [
        ("0", [0], {"llm-rubric": 0.4}),
        ("0", [1], {"llm-rubric": 1.0}),
        ("1", [0], "failed"),
    ]
    models = [[one["model"] for one in case["responses"]] for case in ran.rows("cases.jsonl")]
    assert models == [["openai:gpt-5", "openai:gpt-5-mini"], ["openai:gpt-5-mini"]]
    assert "cases that no judge scored, omitted: 1 of 4" in ran.json("manifest.json")["notes"]


def test_promptfoos_other_results(bring, write):
    lines = [
        {"testIdx": 0, "promptIdx": 0, "success": True, "score": 1.0, "response": {"output": "Response 1"},
         "gradingResult": {"pass": True, "score": 1.0, "reason": "All assertions passed", "componentResults": [
             {"pass": True, "score": 1.0, "reason": "ok", "assertion": {"type": "contains", "value": "hello"}}]}},
        {"testIdx": 1, "promptIdx": 0, "success": False, "score": 0.0, "response": {"output": "Response 2"},
         "gradingResult": None},
    ]  # fmt: skip
    path = write("results.jsonl", lines)
    assert recognize_format(path) == "promptfoo"
    assert bring("promptfoo", str(path)).values == [
        ("0", [0], {"contains": 1.0}),
        ("1", [0], "failed"),
    ]
    # Rows of another tool under the same keys.
    rows_of_another = [{"id": 1, "judge": "pass"}, {"id": 2, "judge": "fail"}]
    assert recognize_format(write("other.json", {"results": {"results": rows_of_another}})) is None
    # One provider with two prompts, a grader of its own, and no numbers of tests.
    rows = [result(0, k, 1, provider={"id": "p", "label": "mine"}, vars={"n": "x"}) for k in (0, 1)]
    for row in rows:
        del row["testIdx"]
        row["gradingResult"]["componentResults"][1]["assertion"]["provider"] = {
            "id": "openai:gpt-4.1"
        }
    ran = bring("promptfoo", str(write("old.json", export(*rows))))
    (case,) = ran.rows("cases.jsonl")
    assert [one["model"] for one in case["responses"]] == ["mine, prompt 0", "mine, prompt 1"]
    assert {row["judge"] for row in ran.rows("judgments.jsonl")} == {"openai:gpt-4.1"}


TALK = {
    "name": "support-chat-1",
    "success": True,
    "scenario": "A user asks for a refund.",
    "expectedOutcome": "A refund.",
    "turns": [
        {"role": "user", "content": "Refund please."},
        {"role": "assistant", "content": "No."},
    ],
    "metricsData": [{**METRICS[0], "name": "Conversation Completeness", "score": 0.3}],
}


def test_deepevals_other_test_runs(bring, write):
    wanted = [("0 sample_test_case", [0], {"Answer Relevancy": 0.92, "Faithfulness": 0.45})]
    for name, content in (
        (".latest_test_run.json", {"testRunData": TEST_RUN}),
        ("cases.json", TEST_RUN["testCases"][:1]),
    ):
        path = write(name, content)
        assert recognize_format(path) == "deepeval"
        assert bring("deepeval", str(path)).values == wanted
    talks = {**TEST_RUN, "testCases": [], "conversationalTestCases": [TALK]}
    ran = bring("deepeval", str(write("talks.json", talks)))
    (case,) = ran.rows("cases.jsonl")
    assert (case["prompt"], case["reference"]) == ("A user asks for a refund.", "A refund.")
    assert case["responses"][0]["text"] == "[user]\nRefund please.\n\n[assistant]\nNo."


def test_an_openai_batch(bring, write):
    def line(name: str, status: int, body: Any, error: Any = None) -> dict[str, Any]:
        response = (
            None if body is None else {"status_code": status, "request_id": "b9deb0", "body": body}
        )
        return {"id": f"batch_req_{name}", "custom_id": name, "response": response, "error": error}

    usage = {"prompt_tokens": 12, "completion_tokens": 70, "total_tokens": 82}
    said = {"role": "assistant", "content": "[[A]]", "refusal": None}
    chat = {"id": "chatcmpl-9GTV", "object": "chat.completion", "created": 1713713704, "model": "gpt-4.1-2025-04-14",
            "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}], "usage": usage,
            "system_fingerprint": "fp_123"}  # fmt: skip
    told = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-4.1-2025-04-14", "output": [
        {"id": "rs_1", "type": "reasoning", "summary": []},
        {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "[[B]]", "annotations": []}]},
    ], "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}}  # fmt: skip
    fault = {
        "error": {"message": "Model not found", "type": "invalid_request_error", "param": None,
                  "code": None},
    }  # fmt: skip
    expired = {"code": "batch_expired", "message": "This request could not be executed in time."}
    lines = [
        line("1-ab", 200, chat),
        line("1-ba", 200, told),
        line("2-ab", 400, fault),
        line("2-ba", 0, None, expired),
    ]
    write(
        "cases.jsonl",
        [{"id": n, "prompt": "Why?", "response_a": "x", "response_b": "y"} for n in (1, 2)],
    )
    words = ("dataset=file", "dataset.path=cases.jsonl", "output=bracket")
    ran = bring("openai_batch", str(write("batch_output.jsonl", lines)), *words)
    assert [value for _, _, value in ran.values] == [1.0, 1.0, "failed", "failed"]
    errors = [row["error"] for row in ran.rows("judgments.jsonl")]
    assert errors[2:] == ["Model not found", "This request could not be executed in time."]


def test_summevals_own_annotations(write):
    def annotated(model: str, coherence: list[int], **more: Any) -> dict[str, Any]:
        experts = [
            {"coherence": one, "consistency": 5, "fluency": 5, "relevance": 2} for one in coherence
        ]
        return {"id": "dm-test-8764fb95", "decoded": f"by {model}", "expert_annotations": experts,
                "turker_annotations": experts, "references": ["short", "shorter"], "model_id": model,
                "filepath": "cnndm/dailymail/stories/8764fb95.story", **more}  # fmt: skip

    rows = [
        annotated("M1", [2, 2, 3], text="An article."),
        annotated("M2", [4, 4, 4], text="An article."),
    ]
    path = write("model_annotations.aligned.paired.jsonl", rows)
    (case,) = load_cases(
        DatasetConfig(benchmark="summeval", path=str(path)), mode="pointwise"
    ).cases
    assert (case.id, case.reference, [one.model for one in case.responses]) == (
        "dm-test-8764fb95",
        "short",
        ["M1", "M2"],
    )
    assert case.metadata["grades"]["coherence"] == [pytest.approx(7 / 3), 4]
    assert case.responses[1].grade == pytest.approx((4 + 5 + 5 + 2) / 4)
    path = write("model_annotations.aligned.jsonl", [annotated("M1", [2, 2, 3])])
    with pytest.raises(DatasetError, match=r"aligned.jsonl:1: the annotations have no article"):
        load_cases(DatasetConfig(benchmark="summeval", path=str(path)), mode="pointwise")


def judged(text: str, swapped: str, winners: tuple[str, str], label: int) -> dict[str, Any]:
    orders = {
        f"swap = {swap}": {"completion": [f"Output ({said})"], "winner": winner}
        for swap, said, winner in zip((False, True), (text, swapped), winners, strict=True)
    }
    return {
        "input": "Why?",
        "output_1": f"Since {text}.",
        "output_2": "No.",
        "label": label,
        "results": [orders],
    }


def test_llmbars_sets_as_one_evaluator_judged_them(bring, write, tmp_path):
    for folder, rows in {
        "Natural": [judged("a", "b", ("1", "1"), 1), judged("b", "a", ("2", "2"), 2)],
        "Adversarial/Neighbor": [judged("a", "a", ("1", "2"), 1)],
    }.items():
        write(f"LLMBar/{folder}/evaluators/GPT-4/Vanilla/result.json", rows)
        (tmp_path / f"LLMBar/{folder}/dataset.json").write_text(
            json.dumps(
                [
                    {key: row[key] for key in ("input", "output_1", "output_2", "label")}
                    for row in rows
                ]
            ),
            "utf-8",
        )
    ran = bring("llmbar", "LLMBar")
    found = {
        key: value["value"]
        for key, value in ran.metrics.items()
        if key.startswith("llmbar/mean_accuracy")
    }
    assert found == {
        "llmbar/mean_accuracy": 0.75,
        "llmbar/mean_accuracy/adversarial": 0.5,
        "llmbar/mean_accuracy/natural": 1.0,
        "llmbar/mean_accuracy/neighbor": 0.5,
    }
    cases = load_cases(DatasetConfig(benchmark="llmbar", path="LLMBar"), mode="pairwise").cases
    assert sorted(case.id for case in cases) == sorted(row["id"] for row in ran.rows("cases.jsonl"))
    write("LLMBar/Natural/evaluators/PaLM2/CoT/result.json", [judged("a", "b", ("1", "1"), 2)])
    judges = {one["judge"] for one in bring("llmbar", "LLMBar").rows("judgments.jsonl")}
    assert judges == {"GPT-4/Vanilla", "PaLM2/CoT"}
    wrong = bring("llmbar", "LLMBar", "--judge", "GPT-4/CoT", status=1)
    assert "has no evaluator 'GPT-4/CoT'; select one: --judge GPT-4/Vanilla or" in wrong.err
    ran = bring("llmbar", "LLMBar", "--judge", "PaLM2/CoT")
    assert ran.metrics["llmbar/mean_accuracy"]["value"] == 0.0
