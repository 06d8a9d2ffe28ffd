"""A file in each layout that `evalkit import` reads, with the field names and oddities of the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parents[1] / "interop" / "logs"
"""Logs that the tools wrote; its README has their versions."""
PYDANTIC_EVALS = json.loads((LOGS / "pydantic_evals.json").read_text("utf-8"))
MLFLOW_TRACES = [
    json.loads(line) for line in (LOGS / "mlflow_traces.jsonl").read_text("utf-8").splitlines()
]
PAIR_PROMPT = (
    "[User Question]\nWhy blue?\n\n[The Start of Assistant A's Answer]\n{a}\n[The End of Assistant A's Answer]"
    "\n\n[The Start of Assistant B's Answer]\n{b}\n[The End of Assistant B's Answer]"
)
SINGLE_PROMPT = (
    "[Question]\nWrite.\n\n[The Start of Assistant's Answer]\n{}\n[The End of Assistant's Answer]"
)
ARENA_PROMPT = (
    "<|User Prompt|>\nSort a list.\n\n<|The Start of Assistant A's Answer|>\n{a}\n<|The End of Assistant A's Answer|>"
    "\n\n<|The Start of Assistant B's Answer|>\n{b}\n<|The End of Assistant B's Answer|>"
)
ALPACA = [
    {
        "instruction": f"Say {n}.",
        "output_1": "one",
        "generator_1": "gpt4_turbo",
        "dataset": "helpful_base",
        "output_2": "two",
        "generator_2": "mine",
        "annotator": "weighted_alpaca_eval_gpt4_turbo",
        "preference": preference,
        "raw_completion": {
            "finish_reason": "length",
            "message": {"content": "M", "role": "assistant"},
        },
    }
    for n, preference in enumerate([1.0, 1.9, 1.5, None, 0.0])
]
MT_SINGLE = [
    {
        "question_id": 81,
        "model": model,
        "judge": ["gpt-4", "single-v1" if turn == 1 else "single-v1-multi-turn"],
        "user_prompt": SINGLE_PROMPT.format(f"by {model}"),
        "judgment": judgment,
        "score": score,
        "turn": turn,
        "tstamp": 1.5,
    }
    for model, turn, score, judgment in [
        ("vicuna", 1, 7, "Fine. Rating: [[7]]"),
        ("vicuna", 2, 5, "Rating: [[6]]"),
        ("alpaca", 1, 3, "Poor. Rating: [[3]]"),
        ("alpaca", 2, -1, "$ERROR$"),
    ]
]
MT_PAIR = [
    {
        "question_id": 82,
        "model_1": "vicuna",
        "model_2": "alpaca",
        "g1_winner": "model_1",
        "g2_winner": g2,
        "judge": ["gpt-4", "pair-v2"],
        "g1_user_prompt": PAIR_PROMPT.format(a="Scattering.", b="Paint."),
        "g1_judgment": "A is right. [[A]]",
        "g2_user_prompt": PAIR_PROMPT.format(a="Paint.", b="Scattering."),
        "g2_judgment": text,
        "turn": 1,
        "tstamp": 1.5,
    }
    for g2, text in [("tie", "[[C]]")]
]
ARENA = [
    {
        "uid": "u1",
        "category": "hard_prompt",
        "judge": "gpt-4.1",
        "model": "mine",
        "baseline": "o3-mini",
        "games": [
            {
                "score": "A>>B",
                "judgment": {"answer": "[[A>>B]]"},
                "prompt": [{"role": "user", "content": prompt}],
            },
            {"score": "A=B", "judgment": {"answer": "My verdict is [[A=B]]"}, "prompt": []},
        ],
    }
    for prompt in [ARENA_PROMPT.format(a="sorted(x)", b="x.sort()")]
] + [
    {
        "question_id": "u2",
        "model": "mine",
        "judge": "gpt-4.1",
        "games": [
            {"user_prompt": "p", "judgment": "\nno verdict", "score": None},
            {"user_prompt": "p", "judgment": "\n[[A>B]]", "score": "A>B"},
        ],
    }
]
JUDGEBENCH = [
    {
        "pair_id": pair,
        "original_id": "7",
        "source": "mmlu-pro-math",
        "question": "2 + 2?",
        "response_model": "gpt-4o",
        "response_A": "4",
        "response_B": "5",
        "label": "A>B",
        "judge_name": "arena_hard",
        "judgments": judgments,
    }
    for pair, judgments in [
        (
            "p1",
            2 * [{"judgment": {"judge_model": "gpt-4o", "response": "[[A>B]]"}, "decision": "A>B"}],
        ),
        (
            "p2",
            [
                {"judgment": {"judge_model": "gpt-4o", "response": "[[B>A]]"}, "decision": "B>A"},
                None,
            ],
        ),
    ]
]
LLMBAR = [
    {
        "input": "Name a colour.",
        "output_1": "Red",
        "output_2": "Dog",
        "label": 1,
        "results": [
            {
                "swap = False": {"completion": [first, "stop"], "winner": one},
                "swap = True": {"completion": [second, "stop"], "winner": two},
            }
        ],
    }
    for first, one, second, two in [
        ("Output (a)", "1", "Output (b)", "1"),
        ("Output (a)", "2", "I cannot tell", None),
    ]
]
QLORA = [
    {
        "review_id": f"r{n}",
        "question_id": 1,
        "answer1_id": ids[0],
        "answer2_id": ids[1],
        "reviewer_id": 1,
        "metadata": {},
        "text": text,
        "score": score,
    }
    for n, (ids, text, score) in enumerate(
        [(("x", "y"), "Good.\n\n1", 1), (("y", "x"), "Both alike.", -1)]
    )
]
UNIEVAL = [
    {
        "source": source,
        "system_id": system,
        "system_output": f"{system} says",
        "context": "a fact",
        "scores": {"overall": human, "coherence": 2.0},
        "predict_scores": {"overall": machine, "coherence": 0.4},
    }
    for source, system, human, machine in [
        ("hi", "one", 4.0, 0.9),
        ("hi", "two", 2.0, 0.3),
        ("yo", "one", 1.0, 0.1),
    ]
]
PROMETHEUS = [
    {
        "idx": 1,
        "response_source": system,
        "category": "generic",
        "instruction": "###Task:\nDo.\n\n###The instruction to evaluate:\nGreet.\n\n###Response to evaluate:\n"
        f"Hello from {system}\n\n###Reference Answer (Score 5):\nGood day.\n\n###Score Rubrics:\n[Polite?]\nScore 1: no"
        "\n\n###Feedback: ",
        "gpt4_score": scores,
        "gpt4_feedback": ["a", "b", "c"],
    }
    for system, scores in [("vicuna", [5, 5, 5]), ("llama", [2, 3, 2])]
]
HALLUQA = [
    {
        "question_id": n,
        "question": "问题",
        "response": "回答",
        "Best_Answer1": "好",
        "is_hallucination": verdict,
    }
    for n, verdict in enumerate([True, False, "Invalid_Judge"])
]
REWARD = {
    "model": "org/reward",
    "model_type": "Seq. Classifier",
    "chat_template": "tokenizer",
    "id": [30, 31, 32],
    "subset": ["hep-cpp", "hep-cpp", "donotanswer"],
    "results": [1, 0, 0.5],
    "text_chosen": ["good", "good", "good"],
    "text_rejected": ["bad", "bad", "bad"],
    "scores_chosen": [1.5, -0.5, 0.25],
    "scores_rejected": [0.5, 0.5, 0.25],
}


def message(content: Any, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"id": "gJTWCV", "content": content, "role": role, **more}


GRADER = message("Same content.\n\nGRADE: C", source="generate", model="gpt-4o-mini-2024-07-18")
IMAGE = {"type": "image", "image": "data:image/png;base64,iVBORw0KGgo", "detail": "auto"}
THOUGHT = {"type": "reasoning", "reasoning": "Let me see."}


def sample(
    number: Any, scores: Any, asked: Any = "How?", said: Any = "Use parameters."
) -> dict[str, Any]:
    made = {
        "id": number,
        "epoch": 1,
        "input": [message(asked, "user", source="input")],
        "target": ["use parameterized queries", "or statements"],
        "messages": [],
        "output": {
            "model": "gpt-4o-mini-2024-07-18",
            "choices": [{"message": message(said, source="generate"), "stop_reason": "stop"}],
            "usage": {"input_tokens": 61, "output_tokens": 17, "total_tokens": 78},
            "time": 0.68,
        },
        "metadata": {},
        "store": {},
        "events": [],
    }
    return made | ({} if scores is None else {"scores": scores})


GRADED = {
    "value": "C",
    "answer": "Use parameters.",
    "explanation": "GRADE: C",
    "metadata": {"grading": [GRADER]},
}
LOG = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_id": "f9WtbTGsrMUNXppXPbR9sq",
        "run_id": "SGXvsm4KEQwf7JZmPLCGZF",
        "created": "2025-05-12T20:28:26-04:00",
        "task": "security_guide",
        "dataset": {
            "name": "security_guide",
            "samples": 16,
            "sample_ids": [1, 2, 10],
            "shuffled": False,
        },
        "model": "openai/gpt-4o-mini",
        "model_roles": {},
        "scorers": [{"name": "model_graded_fact", "options": {}, "metrics": [], "metadata": {}}],
    },
    "plan": {"name": "plan", "steps": [], "config": {}},
    "results": {"total_samples": 3, "completed_samples": 3, "scores": []},
    "stats": {
        "started_at": "2025-05-12T20:28:26-04:00",
        "completed_at": "2025-05-12T20:28:36-04:00",
    },
    "samples": [
        sample(1, {"model_graded_fact": GRADED}),
        sample(
            2,
            {"model_graded_fact": {"value": "I"}},
            [{"type": "text", "text": "What is it?"}, IMAGE],
        ),
        sample(3, None),
        sample(
            10,
            {"model_graded_fact": {"value": "yes"}},
            said=[THOUGHT, {"type": "text", "text": "Yes."}],
        ),
    ],
}


USAGE = {"total": 256, "prompt": 227, "completion": 29, "cached": 0, "numRequests": 0}


def result(test: int, prompt: int, rubric: float | None, **more: Any) -> dict[str, Any]:
    fast = {"pass": False, "score": 0, "reason": "Latency 5794ms is greater than threshold 3000ms",
            "assertion": {"type": "latency", "threshold": 3000}}  # fmt: skip
    kind = {"assertion": {"type": "llm-rubric", "value": "Do not apologize"}, "pass": rubric == 1, "score": rubric,
            "reason": "There is no apology.", "tokensUsed": USAGE}  # fmt: skip
    grading = {
        "pass": False,
        "score": 0.75,
        "reason": fast["reason"],
        "namedScores": {},
        "tokensUsed": USAGE,
        "componentResults": [fast, *([kind] if rubric is not None else [])],
        "assertion": None,
    }
    row = {
        "cost": 0.0005,
        "error": fast["reason"],
        "gradingResult": grading,
        "id": f"b7df157c-{test}-{prompt}",
        "latencyMs": 5794,
        "namedScores": {},
        "prompt": {"raw": f"Solve riddle {test}", "label": "Solve riddle {{n}}"},
        "promptId": "cd59d97e",
        "promptIdx": prompt,
        "provider": {"id": ("openai:gpt-5", "openai:gpt-5-mini")[prompt], "label": ""},
        "response": {"output": "An echo.", "cached": False, "finishReason": "stop", "cost": 0.0005},
        "score": 0.75,
        "success": False,
        "testCase": {"vars": {"n": test}, "assert": [], "options": {}, "metadata": {}},
        "testIdx": test,
        "vars": {"n": test},
        "metadata": {"_promptfooFileMetadata": {}},
        "failureReason": 1,
    }
    return {**row, **more}


FAULT = {
    "failureReason": 2,
    "gradingResult": None,
    "error": "API call error: fetch failed",
    "response": {"error": "x"},
}
BARE = {"gradingResult": {"pass": True, "score": 1, "reason": "No assertions", "tokensUsed": USAGE}}


def export(*rows: dict[str, Any]) -> dict[str, Any]:
    about = {"version": 3, "timestamp": "2025-10-01T20:08:11.168Z", "prompts": [], "stats": {}}
    return {
        "evalId": "eval-WJi",
        "results": {**about, "results": list(rows)},
        "config": {},
        "shareableUrl": None,
    }


METRICS = [
    {"name": "Answer Relevancy", "threshold": 0.5, "success": True, "score": 0.92, "reason": "On topic.",
     "strictMode": False, "evaluationModel": "gpt-5.4", "evaluationCost": 0.0042},
    {"name": "Faithfulness", "threshold": 0.7, "success": False, "score": 0.45, "reason": "Two claims unsupported.",
     "strictMode": False, "evaluationModel": "gpt-5.4", "evaluationCost": 0.0061},
]  # fmt: skip
CASE = {
    "name": "sample_test_case",
    "input": "What is it?",
    "actualOutput": "{...}",
    "success": False,
    "order": 0,
}
TRACE = {"uuid": "abf9", "status": "ERRORED", "metricsData": METRICS, "llmSpans": []}
TEST_RUN = {
    "testCases": [
        {**CASE, "metricsData": METRICS, "trace": TRACE},
        {**CASE, "name": "no metric", "metricsData": []},
    ],
    "conversationalTestCases": [],
    "metricsScores": [
        {"metric": "Answer Relevancy", "scores": [0.92], "passes": 1, "fails": 0, "errors": 0}
    ],
    "testPassed": 0,
    "testFailed": 1,
    "runDuration": 11.42,
    "evaluationCost": 0.0214,
}
BATCH = [
    {
        "id": f"batch_req_{name}",
        "custom_id": name,
        "response": {
            "status_code": 200,
            "request_id": "x",
            "body": {
                "object": "chat.completion",
                "model": "gpt-4o-mini-2024-07-18",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": text},
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"prompt_tokens": 24, "completion_tokens": 8},
            },
        },
        "error": None,
    }
    for name, text in [
        ("q-1-ab", "Verdict: [[A]]"),
        ("q-1-ba", "Verdict: [[A]]"),
        ("q-2-ab", "hmm"),
    ]
] + [
    {
        "id": "b",
        "custom_id": "q-2-ba",
        "response": None,
        "error": {"code": "batch_expired", "message": "expired"},
    }
]
CASES = [
    {"id": f"q-{n}", "prompt": "Why?", "response_a": "because", "response_b": "no", "label": "A"}
    for n in (1, 2)
]
DEVAI = {
    "name": "01_Task",
    "query": "Train it.",
    "requirements": [
        {
            "requirement_id": n,
            "prerequisites": [0] * n,
            "criteria": f"It does {n}.",
            "category": "c",
            "satisfied": done,
        }
        for n, done in ((0, True), (1, False), (2, None))
    ],
    "preferences": [],
}
PAPERBENCH = {
    "id": "r",
    "requirements": "Reproduce it",
    "weight": 1,
    "score": 0.75,
    "sub_tasks": [
        {
            "id": name,
            "requirements": name,
            "weight": weight,
            "score": score,
            "valid_score": True,
            "sub_tasks": [],
        }
        for name, weight, score in (("a", 3, 1.0), ("b", 1, 0.0))
    ],
}
WILDBENCH = [
    {
        "session_id": f"w{n}",
        "score": score,
        "parsed_result": {"score": score},
        "model_test": "m",
        "model_output": "x",
    }
    for n, score in ((1, "7"), (2, "N/A"))
]
REVIEW_FILE = "pairwise/a-vs-b-gpt-4-reviewer-threeclass.jsonl"
DISTRIBUTIONS = [
    {"text_id": name, "criterion": "Q0", **{f"answer{k}_prob": p for k, p in enumerate(chances, 1)}}
    for name, chances in (
        ("a", [0.1, 0.2, 0.3, 0.4]),
        ("b", [0.5, 0.3, 0.1, 0.1]),
        ("c", [0, 0, 0, 0]),
    )
]
ICESCORE = [
    {
        "grade-one": {"ann": 3, "bo": 4},
        "gpt-one": "4",
        "grade-two-step": {"bo": 0},
        "gpt-two-step": "1",
    },
    {
        "grade-one": {"ann": 1, "bo": 1},
        "gpt-one": "none",
        "grade-two-step": {"ann": 2},
        "gpt-two-step": "9",
    },
]
SHAPES: dict[str, tuple[str, Any]] = {
    "alpaca_eval": ("annotations.json", ALPACA),
    "mt_bench": ("gpt-4_single.jsonl", MT_SINGLE),
    "arena_hard": ("mine.jsonl", ARENA),
    "judgebench": (
        "dataset=judgebench,judge_name=arena_hard,judge_model=gpt-4o-mini.jsonl",
        JUDGEBENCH,
    ),
    "llmbar": ("GPT-4/Vanilla/result.json", LLMBAR),
    "qlora": (REVIEW_FILE, QLORA),
    "unieval": ("topical_chat_result.json", UNIEVAL),
    "prometheus": ("vicuna_eval.json", PROMETHEUS),
    "halluqa": ("mine.json", HALLUQA),
    "reward_bench": ("reward.json", REWARD),
    "devai": ("01_Task.json", DEVAI),
    "paperbench": ("paper.json", PAPERBENCH),
    "wildbench": ("model.json", WILDBENCH),
    "icescore": ("rows.json", ICESCORE),
    "llm_rubric": ("gpt_evaluations.jsonl", DISTRIBUTIONS),
    "inspect": ("log.json", LOG),
    "promptfoo": ("results.json", export(result(0, 0, 0.8), result(1, 0, 1, **FAULT))),
    "deepeval": ("test_run.json", TEST_RUN),
    "openai_batch": ("batch_output.jsonl", BATCH),
    "pydantic_evals": ("report.json", PYDANTIC_EVALS),
    "mlflow_traces": ("traces.jsonl", MLFLOW_TRACES),
}
WORDS = {"openai_batch": ("dataset=file", "dataset.path=cases.jsonl", "output=bracket")}
