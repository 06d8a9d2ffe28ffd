"""Small files in the shapes of other tools' exports, all with the same judge and the same labels."""

import json
from typing import Any

N = 12
JUDGE = ["pass" if number % 3 else "fail" for number in range(N)]
HUMAN = ["pass" if number % 4 else "fail" for number in range(N)]
SCORES = [1 + number % 5 for number in range(N)]
GRADES = [1 + (number * 2) % 5 for number in range(N)]
BOTH = [*zip(range(N), JUDGE, HUMAN, strict=True)]


def choice(value: str, kind: str = "choices") -> dict[str, Any]:
    content = {"choices": [value]} if kind == "choices" else {"rating": value}
    return {"value": content, "id": "r", "from_name": "quality", "to_name": "answer", "type": kind}


def annotation(number: int, person: Any, value: Any, kind: str = "choices") -> dict[str, Any]:
    return {
        "id": 100 + number,
        "completed_by": person,
        "result": [choice(value, kind)],
        "was_cancelled": False,
        "lead_time": 2.5,
    }


def task(number: int, annotations: list[Any], data: dict[str, Any], **parts: Any) -> dict[str, Any]:
    texts = {"prompt": f"What is {number}?", "answer": f"It is {number}."}
    return {"id": number, "data": {**texts, **data}, "annotations": annotations, **parts}


def label_studio() -> dict[str, Any]:
    emails = [{"id": person, "email": f"{person}@example.com"} for person in (1, 2)]
    in_data = [
        task(i, [annotation(i, 1 + i % 2, human)], {"gpt_verdict": judge}, predictions=[])
        for i, judge, human in BOTH
    ]
    predicted = [
        task(
            i,
            [annotation(i, person, human) for person in emails],
            {"source": "web"},
            predictions=[{"model_version": "gpt-x", "result": [choice(judge)], "score": 0.9}],
        )
        for i, judge, human in BOTH
    ]
    cancelled = [
        {
            **one,
            "annotations": [
                *one["annotations"],
                {**annotation(99, 3, "pass"), "was_cancelled": True},
            ],
        }
        for one in in_data
    ]
    old = [
        {key: value for key, value in one.items() if key != "annotations"}
        | {"completions": one["annotations"]}
        for one in in_data
    ]
    rated = [
        task(i, [annotation(i, 1, GRADES[i], "rating")], {"judge_score": SCORES[i]})
        for i in range(N)
    ]
    flat = [
        {
            "id": i,
            "prompt": f"What is {i}?",
            "answer": f"It is {i}.",
            "gpt_verdict": judge,
            "quality": human,
            "annotator": 1 + i % 2,
            "annotation_id": 100 + i,
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
            "lead_time": 1.5 + i,
        }
        for i, judge, human in BOTH
    ]
    id_last = [
        {**{key: one[key] for key in ("prompt", "answer", "gpt_verdict")}, **one} for one in flat
    ]
    with_stars = [
        {
            **{key: one[key] for key in ("prompt", "answer", "gpt_verdict", "id")},
            "verdict": one["quality"],
            "stars": [{"rating": GRADES[one["id"]]}],
            **{key: one[key] for key in ("annotator", "annotation_id", "lead_time")},
        }
        for one in flat
    ]
    return {
        "label_studio min two results": with_stars,
        "label_studio in data": in_data,
        "label_studio predictions": predicted,
        "label_studio cancelled": cancelled,
        "label_studio 0.x": old,
        "label_studio ratings": rated,
        "label_studio min": flat,
        "label_studio min id last": id_last,
    }


def prodigy() -> dict[str, Any]:
    hashes = [{"_input_hash": i, "_task_hash": i, "_session_id": "s-ann"} for i in range(N)]
    chosen = [
        {
            "text": f"It is {i}.",
            "options": [{"id": "pass", "text": "pass"}, {"id": "fail", "text": "fail"}],
            "accept": [human],
            "answer": "accept",
            "judge": judge,
            **hashes[i],
        }
        for i, judge, human in BOTH
    ]
    ignored = [{**chosen[0], "answer": "ignore", "_input_hash": 50 + i} for i in range(3)]
    binary = [
        {
            "text": f"It is {i}.",
            "answer": "accept" if human == "pass" else "reject",
            "meta": {"judge": judge},
            **hashes[i],
        }
        for i, judge, human in BOTH
    ]
    # A model proposed a label, which the annotator accepts or rejects.
    proposed = [
        {
            "text": f"It is {i}.",
            "label": judge,
            "answer": "accept" if human == judge else "reject",
            "meta": {"source": "gpt-x"},
            **hashes[i],
        }
        for i, judge, human in BOTH
    ]
    return {
        "prodigy choice": [*chosen, *ignored],
        "prodigy two annotators": [
            {**one, "_annotator_id": person} for person in ("ann", "bob") for one in chosen
        ],
        "prodigy binary": binary,
        "prodigy proposed": proposed,
        "prodigy source of texts": [
            {**one, "label": ("bill", "tech")[i % 2], "meta": {"source": "a.csv", "judge": judge}}
            for (i, judge, _), one in zip(BOTH, binary, strict=True)
        ],
        "prodigy one label": [
            {**one, "label": "CORRECT", "meta": {**one["meta"], "source": "web"}} for one in binary
        ],
    }


def argilla() -> dict[str, Any]:
    fields = [{"prompt": f"What is {i}?", "response": f"It is {i}."} for i in range(N)]
    nested = [
        {
            "id": f"r{i}",
            "fields": fields[i],
            "metadata": {"source": "web"},
            "suggestions": {"quality": {"value": judge, "score": 0.9, "agent": "gpt-x"}},
            "responses": {"quality": [{"value": human, "user_id": "u1"}]},
            "status": "completed",
            "_server_id": f"s{i}",
        }
        for i, judge, human in BOTH
    ]
    flat = [
        {
            "id": f"r{i}",
            "_server_id": f"s{i}",
            **fields[i],
            "quality.responses": [human, "pass"],
            "quality.responses.users": ["u1", "u2"],
            "quality.responses.status": ["submitted", "draft"],
            "quality.suggestion": judge,
            "quality.suggestion.score": 0.9,
            "quality.suggestion.agent": "gpt-x",
        }
        for i, judge, human in BOTH
    ]
    first = [
        {
            "fields": fields[i],
            "external_id": f"r{i}",
            "responses": [
                {"user_id": "u1", "status": "submitted", "values": {"quality": {"value": human}}},
                {"user_id": "u2", "status": "discarded", "values": {"quality": {"value": "fail"}}},
            ],
            "suggestions": [{"question_name": "quality", "value": judge, "agent": "gpt-x"}],
        }
        for i, judge, human in BOTH
    ]
    hub = [
        {
            **fields[i],
            "quality": {"user_id": ["u1"], "value": [human], "status": ["submitted"]},
            "quality-suggestion": judge,
            "quality-suggestion-metadata": {"type": None, "score": None, "agent": "gpt-x"},
            "external_id": f"r{i}",
            "metadata": "{}",
        }
        for i, judge, human in BOTH
    ]
    classified = [
        {
            "id": f"r{i}",
            "text": f"It is {i}.",
            "prediction": [["other", 0.2], [judge, 0.8]],
            "prediction_agent": "gpt-x",
            "annotation": human,
            "annotation_agent": "argilla",
            "multi_label": False,
            "status": "Validated",
        }
        for i, judge, human in BOTH
    ]
    return {
        "argilla 1 text classification": classified,
        "argilla 2": nested,
        "argilla 2 flat": flat,
        "argilla 1": first,
        "argilla 1 hub": hub,
        "argilla rated": [
            {
                **one,
                "suggestions": {"quality": {"value": SCORES[i], "agent": "gpt-x"}},
                "responses": {"quality": [{"value": GRADES[i], "user_id": "u1"}]},
            }
            for i, one in enumerate(nested)
        ],
    }


def langfuse_score(i: int, source: str, said: str, **parts: Any) -> dict[str, Any]:
    return {
        "id": f"{source}{i}",
        "traceId": f"t{i}",
        "observationId": None,
        "name": "correctness",
        "value": 1 if said == "pass" else 0,
        "stringValue": said,
        "dataType": "CATEGORICAL",
        "source": source,
        "comment": "because",
        "authorUserId": "u1" if source == "ANNOTATION" else None,
        "timestamp": "2026-01-01T00:00:00Z",
        **parts,
    }


def langfuse() -> dict[str, Any]:
    pairs = [
        (langfuse_score(i, "EVAL", judge), langfuse_score(i, "ANNOTATION", human))
        for i, judge, human in BOTH
    ]
    flags = {"pass": "True", "fail": "False"}
    renamed = {
        "traceId": "trace_id",
        "stringValue": "string_value",
        "dataType": "data_type",
        "authorUserId": "author_user_id",
    }
    boolean = [
        {**one, "dataType": "BOOLEAN", "stringValue": flags[one["stringValue"]]}
        for pair in pairs
        for one in pair
    ]
    numeric = [
        langfuse_score(
            i, source, "", name=name, value=values[i], stringValue=None, dataType="NUMERIC"
        )
        for i in range(N)
        for source, values, name in (
            ("EVAL", SCORES, "correctness"),
            ("ANNOTATION", GRADES, "human correctness"),
        )
    ]
    traces = [
        {"id": f"t{i}", "input": f"What is {i}?", "output": f"It is {i}.", "scores": [*pair]}
        for i, pair in enumerate(pairs)
    ]
    third = [
        {**{k: v for k, v in one.items() if k != "stringValue"}, "value": one["stringValue"]}
        for pair in pairs
        for one in pair
    ]
    subjects = [
        {
            **{key: value for key, value in one.items() if key != "traceId"},
            "subject": {"kind": "trace", "id": one["traceId"]},
        }
        for one in third
    ]
    experiment = [
        {
            "item": {"input": f"What is {i}?", "metadata": {"human_label": human}},
            "output": f"It is {i}.",
            "evaluations": [{"name": "correct", "value": judge, "comment": "because"}],
            "trace_id": f"t{i}",
        }
        for i, judge, human in BOTH
    ]
    items = [{"id": f"x{i}", "traceId": one["id"], "trace": one} for i, one in enumerate(traces)]
    return {
        "langfuse v3 subjects": {"data": subjects, "meta": {"limit": 50}},
        "langfuse experiment": {
            "item_results": experiment,
            "run_evaluations": [{"name": "mean", "value": 0.5}],
        },
        "langfuse dataset run": {"name": "r", "datasetRunItems": items},
        "langfuse scores": {"data": [one for pair in pairs for one in pair], "meta": {"page": 1}},
        "langfuse boolean": boolean,
        "langfuse sdk": [
            {renamed.get(name, name): value for name, value in one.items()} for one in boolean
        ],
        "langfuse numeric ratings": numeric,
        "langfuse traces": {"data": traces, "meta": {"page": 1}},
        "langfuse v3": {"data": third, "meta": {"cursor": None}},
    }


def langsmith() -> dict[str, Any]:
    def feedback(i: int, kind: str, key: str, value: str) -> dict[str, Any]:
        return {
            "id": f"{kind}{i}",
            "run_id": f"run{i}",
            "key": key,
            "score": 1 if value == "pass" else 0,
            "value": None,
            "comment": "because",
            "feedback_source": {"type": kind, "metadata": {}},
        }

    listed = [
        feedback(i, kind, key, value)
        for i, judge, human in BOTH
        for kind, key, value in (
            ("model", "correctness", judge),
            ("app", "human_correctness", human),
        )
    ]
    results = [
        {
            "run": {
                "id": f"run{i}",
                "inputs": {"question": f"What is {i}?"},
                "outputs": {"answer": f"It is {i}."},
                "feedback": [feedback(i, "app", "correctness", human)],
            },
            "example": {"id": f"e{i}", "outputs": {"answer": str(i)}},
            "evaluation_results": {
                "results": [
                    {
                        "key": "correctness",
                        "score": 1.0 if judge == "pass" else 0.0,
                        "value": None,
                        "comment": "because",
                        "evaluator_info": {},
                    }
                ]
            },
        }
        for i, judge, human in BOTH
    ]
    runs = [
        {
            "id": f"run{i}",
            "run_type": "chain",
            "inputs": {"question": f"What is {i}?"},
            "outputs": {"answer": f"It is {i}."},
            "feedback_stats": {
                "correctness": {"n": 1, "avg": 1.0 if judge == "pass" else 0.0, "values": {}},
                "human_correctness": {"n": 1, "avg": 1.0 if human == "pass" else 0.0},
            },
        }
        for i, judge, human in BOTH
    ]
    return {
        "langsmith feedback flags": listed,
        "langsmith table flags": [
            {
                **{name: value for name, value in one.items() if name != "feedback_source"},
                "feedback_source.type": one["feedback_source"]["type"],
            }
            for one in listed
        ],
        "langsmith results flags": results,
        "langsmith runs flags": runs,
        "langsmith evaluator flags": [
            {"run_id": f"run{i}", "key": "correctness", "score": judge == "pass", "comment": "c"}
            | {"input": f"Question {i}?", "output": f"It is {i}.", "human_score": human == "pass"}
            for i, judge, human in BOTH
        ],
    }


def phoenix() -> dict[str, Any]:
    def said(i: int, kind: str, value: str) -> dict[str, Any]:
        return {
            "id": f"{kind}{i}",
            "span_id": f"s{i}",
            "name": "correctness",
            "annotator_kind": kind,
            "result": {
                "label": value,
                "score": 1.0 if value == "pass" else 0.0,
                "explanation": "x",
            },
            "metadata": {},
            "identifier": "",
            "source": "API",
            "user_id": "u1" if kind == "HUMAN" else None,
        }

    nested = [
        said(i, kind, value)
        for i, judge, human in BOTH
        # Code of the judge's name is another rater.
        for kind, value in (("LLM", judge), ("CODE", "pass"), ("HUMAN", human))
    ]
    flat = [
        {
            "span_id": one["span_id"],
            "annotation_name": one["name"],
            "annotator_kind": one["annotator_kind"],
            **one["result"],
        }
        for one in nested
    ]
    dotted = [
        {**{k: v for k, v in one.items() if k != "result"}}
        | {f"result.{k}": v for k, v in one["result"].items()}
        for one in nested
    ]
    return {
        "phoenix": {"data": nested, "next_cursor": None},
        "phoenix rows": flat,
        "phoenix frame": dotted,
        "phoenix run": [
            {
                "example_id": f"e{i}",
                "output": f"It is {i}.",
                "annotation_ok_label": judge,
                "annotation_ok_score": None,
                "annotation_ok_annotator_kind": "LLM",
                "human_ok": human,
            }
            for i, judge, human in BOTH
        ],
        "phoenix evaluators": [
            {
                "input": f"Question {i}?",
                "output": f"It is {i}.",
                "human_ok": human,
                "ok_execution_details": "{'status': 'COMPLETED', 'exceptions': []}",
                "ok_score": str({"name": "ok", "score": None, "label": judge, "kind": "llm"}),
                "exact_execution_details": "{'status': 'COMPLETED', 'exceptions': []}",
                "exact_score": str({"name": "exact", "score": 1.0, "kind": "code"}),
            }
            for i, judge, human in BOTH
        ],
    }


def opik() -> dict[str, Any]:
    def score(kind: str, value: str) -> dict[str, Any]:
        return {
            "name": "correctness",
            "value": 1.0 if value == "pass" else 0.0,
            "category_name": value,
            "reason": "because",
            "source": kind,
            "created_by": "ann",
        }

    traces = [
        {
            "id": f"t{i}",
            "input": {"question": f"What is {i}?"},
            "output": {"answer": f"It is {i}."},
            "feedback_scores": [score("online_scoring", judge), score("ui", human)],
        }
        for i, judge, human in BOTH
    ]
    by_author = [
        {
            **one,
            "feedback_scores": [
                score("sdk", judge),
                {
                    **score("ui", human),
                    "value_by_author": {
                        "ann": {"value": 1.0 if human == "pass" else 0.0, "category_name": human}
                    },
                },
            ],
        }
        for (_, judge, human), one in zip(BOTH, traces, strict=True)
    ]
    evaluated = [
        {
            "test_case": {
                "trace_id": f"t{i}",
                "task_output": {"output": f"It is {i}."},
                "scoring_inputs": {"human_label": human},
            },
            "score_results": [{"name": "correct", "value": 1.0 if judge == "pass" else 0.0}],
        }
        for i, judge, human in BOTH
    ]
    return {
        "opik traces": traces,
        "opik sdk": {"content": by_author, "page": 1},
        "opik results": {
            "experiment_name": "x",
            "test_results": evaluated,
            "experiment_scores": [],
        },
    }


def braintrust() -> dict[str, Any]:
    def number(value: str) -> float:
        return 1.0 if value == "pass" else 0.0

    rows = [
        {
            "id": f"b{i}",
            "span_id": f"b{i}",
            "root_span_id": f"b{i}",
            "is_root": True,
            "input": f"What is {i}?",
            "output": f"It is {i}.",
            "expected": str(i),
            "scores": {
                "Correctness": number(judge),
                "human_correctness": number(human),
                "Levenshtein": 0.5,
            },
            "metadata": {"model": "gpt-y"},
            "span_attributes": {"name": "eval", "type": "eval"},
        }
        for i, judge, human in BOTH
    ]
    scorers = [
        {
            "id": f"x{i}",
            "span_id": f"x{i}",
            "root_span_id": f"b{i}",
            "is_root": False,
            "span_parents": [f"b{i}"],
            "input": {},
            "output": {"score": 1, "metadata": {"rationale": "because"}},
            "scores": {"Correctness": 1},
            "span_attributes": {"name": "Correctness", "type": "score"},
        }
        for i in range(N)
    ]
    results = [
        {
            "input": f"What is {i}?",
            "output": f"It is {i}.",
            "expected": None,
            "scores": {"Correctness": number(judge)},
            "metadata": {"human_label": human},
            "error": None,
        }
        for i, judge, human in BOTH
    ]
    return {
        "braintrust flags": [*rows, *scorers],
        "braintrust results words": {"results": results, "summary": {"scores": {}}},
    }


def weave() -> dict[str, Any]:
    def call(i: int, judge: str, human: str) -> dict[str, Any]:
        return {
            "id": f"c{i}",
            "op_name": "weave:///team/project/op/Evaluation.predict_and_score:abc",
            "trace_id": f"tr{i}",
            "inputs": {"example": {"question": f"What is {i}?"}, "model": "gpt-y"},
            "output": {
                "output": f"It is {i}.",
                "scores": {"correctness": {"verdict": judge, "reasoning": "because"}},
                "model_latency": 0.4,
            },
            "summary": {
                "weave": {
                    "feedback": [
                        {
                            "feedback_type": "wandb.annotation.correctness",
                            "payload": {"value": human},
                            "creator": "ann",
                        }
                    ]
                }
            },
        }

    evaluated = [call(i, judge, human) for i, judge, human in BOTH]
    in_example = []
    for i, judge, human in BOTH:
        labeled = {**call(i, judge, human), "summary": {}}
        labeled["inputs"] = {"example": {"question": f"What is {i}?", "human_verdict": human}}
        in_example.append(labeled)
    scored = [
        {
            **one,
            "op_name": "weave:///team/project/op/answer:abc",
            "output": "It is so.",
            "summary": {
                "weave": {
                    "feedback": [
                        {
                            "feedback_type": "wandb.reaction.1",
                            "payload": {"emoji": "👍" if human == "pass" else "👎"},
                            "creator": "ann",
                        },
                        {
                            "feedback_type": "wandb.runnable.correct",
                            "payload": {"output": {"passed": judge == "pass"}},
                        },
                    ]
                }
            },
        }
        for (_, judge, human), one in zip(BOTH, evaluated, strict=True)
    ]
    return {
        "weave evaluation": evaluated,
        "weave label in the example": in_example,
        "weave feedback flags": scored,
    }


def score_columns() -> dict[str, Any]:
    azure = [
        {
            "inputs.query": f"What is {i}?",
            "inputs.response": f"It is {i}.",
            "inputs.human": human,
            "outputs.relevance.relevance": 4.0 if judge == "pass" else 1.0,
            "outputs.relevance.gpt_relevance": 4.0 if judge == "pass" else 1.0,
            "outputs.relevance.relevance_result": judge,
            "outputs.relevance.relevance_reason": "because",
            "outputs.relevance.relevance_threshold": 3,
        }
        for i, judge, human in BOTH
    ]
    mlflow = {
        "columns": [
            "inputs",
            "outputs",
            "human_rating",
            "quality/v1/score",
            "quality/v1/justification",
        ],
        "data": [
            [f"What is {i}?", f"It is {i}.", GRADES[i], SCORES[i], "because"] for i in range(N)
        ],
    }
    vertex = [
        {
            "prompt": f"What is {i}?",
            "response": f"It is {i}.",
            "human_rating": GRADES[i],
            "coherence/score": SCORES[i],
            "coherence/explanation": "because",
        }
        for i in range(N)
    ]
    trulens = [
        {
            "record_id": f"r{i}",
            "app_id": "app",
            "input": f"What is {i}?",
            "output": f"It is {i}.",
            "Relevance": SCORES[i],
            "Relevance_calls": [{"args": {}, "ret": SCORES[i]}],
            "human_rating": GRADES[i],
            "latency": 1.25,
            "total_tokens": 100 + i,
        }
        for i in range(N)
    ]
    sides = {"pass": "CANDIDATE", "fail": "BASELINE"}
    pairwise = [
        {
            "prompt": f"What is {i}?",
            "baseline_model_response": f"It may be {i}.",
            "response": f"It is {i}.",
            "human_preference": sides[human],
            "pairwise_quality/pairwise_choice": sides[judge],
            "pairwise_quality/explanation": "because",
        }
        for i, judge, human in BOTH
    ]
    spans = [
        {
            "context.span_id": f"s{i}",
            "attributes.input.value": f"What is {i}?",
            "attributes.output.value": f"It is {i}.",
            "eval.Correctness.label": judge,
            "eval.Correctness.score": 1.0 if judge == "pass" else 0.0,
            "eval.Correctness.explanation": "because",
            "human_label": human,
        }
        for i, judge, human in BOTH
    ]
    arize = [
        {name: value for name, value in span.items() if name != "human_label"}
        | {"annotation.Correctness.label": human, "annotation.Correctness.updated_at": 1.7e9 + i}
        for span, (i, _, human) in zip(spans, BOTH, strict=True)
    ]
    return {
        "score_columns phoenix": spans,
        "score_columns arize": arize,
        "score_columns vertex pairs": pairwise,
        "score_columns azure": {"rows": azure, "metrics": {"relevance": 0.5}, "studio_url": None},
        "score_columns azure ratings": [
            {
                "inputs.query": f"What is {i}?",
                "inputs.human_quality": GRADES[i],
                "outputs.quality.quality": SCORES[i],
                "outputs.quality.quality_result": "pass",
                "outputs.f1_score.f1_score": 0.1 + i / 100,
            }
            for i in range(N)
        ],
        "score_columns mlflow ratings": mlflow,
        "score_columns vertex ratings": vertex,
        "score_columns trulens ratings": trulens,
    }


def bedrock() -> dict[str, Any]:
    def scored(value: float, key: str) -> dict[str, Any]:
        return {
            "metricName": "Builtin.Correctness",
            key: value,
            "evaluatorDetails": [{"modelIdentifier": "nova", "explanation": "because"}],
        }

    job = [
        {
            "automatedEvaluationResult": {"scores": [scored(SCORES[i], "result")]},
            "inputRecord": {"prompt": f"What is {i}?", "human_rating": GRADES[i]},
            "modelResponses": [{"response": f"It is {i}.", "modelIdentifier": "m"}],
        }
        for i in range(N)
    ]
    turns = [
        {
            "conversationTurns": [
                {
                    "inputRecord": {
                        "prompt": {"content": [{"text": f"What is {i}?"}]},
                        "human_rating": GRADES[i],
                    },
                    "output": {"text": f"It is {i}.", "modelIdentifier": "m"},
                    "results": [scored(SCORES[i], "result")],
                }
            ]
        }
        for i in range(N)
    ]
    by_people = [
        {
            "automatedEvaluationResult": {"scores": [scored(SCORES[i], "result")]},
            "humanEvaluationResult": {
                "humanAnswers": [
                    {
                        "workerId": "w1",
                        "answerContent": {
                            "evaluationResults": {
                                "individualLikertScale": [
                                    {
                                        "metricName": "Correctness",
                                        "modelResponseId": "0",
                                        "result": GRADES[i],
                                    }
                                ]
                            }
                        },
                    }
                ]
            },
            "inputRecord": {"prompt": f"What is {i}?"},
            "modelResponses": [{"response": f"It is {i}.", "modelIdentifier": "m"}],
        }
        for i in range(N)
    ]
    return {
        "bedrock ratings": job,
        "bedrock turns ratings": turns,
        "bedrock people ratings": by_people,
    }


def openai_evals() -> dict[str, Any]:
    items = [
        {
            "object": "eval.run.output_item",
            "id": f"o{i}",
            "datasource_item_id": i,
            "datasource_item": {"question": f"What is {i}?", "human_label": human},
            "results": [
                {
                    "name": "grader-1b4e28ba-2fa1-11d2-883f-0016d3cca427",
                    "type": "label_model",
                    "passed": judge == "pass",
                    "score": 1.0 if judge == "pass" else 0.0,
                    "sample": {"output": []},
                },
                {"name": "exact", "type": "string_check", "passed": True, "score": 1.0},
            ],
            "sample": {"output": [{"role": "assistant", "content": f"It is {i}."}], "model": "m"},
            "status": "pass",
        }
        for i, judge, human in BOTH
    ]
    return {"openai_evals items": items, "openai_evals page": {"object": "list", "data": items}}


WINNERS = {"pass": "model_a", "fail": "model_b"}


def pairs() -> dict[str, Any]:
    def talk(side: str, i: int) -> list[dict[str, str]]:
        return [
            {"role": "user", "content": f"What is {i}?"},
            {"role": "assistant", "content": f"{side} {i}"},
        ]

    arena = [
        {
            "question_id": f"q{i}",
            "model_a": "m1",
            "model_b": f"m{2 + i % 3}",
            "winner": WINNERS[human],
            "judge": f"arena_user_{i}",
            "conversation_a": talk("a", i),
            "conversation_b": talk("b", i),
            "turn": 1,
            "anony": True,
            "language": "English",
            "tstamp": 1.5 + i,
            "gpt4_winner": WINNERS[judge],
        }
        for i, judge, human in BOTH
    ]
    sessions = [
        {
            "id": f"q{i}",
            "model_a": "m1",
            "model_b": "m2",
            "winner": WINNERS[human],
            "evaluation_session_id": f"s{i}",
            "evaluation_order": 1,
            "conversation_a": talk("a", i),
            "conversation_b": talk("b", i),
            "language": "en",
            "is_code": False,
            "llm_verdict": WINNERS[judge],
        }
        for i, judge, human in BOTH
    ]
    signs = {"pass": -2, "fail": 3}
    strengths = [
        {
            "domain": "general",
            "language": "english",
            "context": [{"role": "user", "content": f"What is {i}?"}],
            "response1": f"a {i}",
            "response2": f"b {i}",
            "overall_preference": signs[human],
            "individual_preference": [{"score": signs[human], "reasoning": "because"}],
            "judge_preference": signs[judge],
        }
        for i, judge, human in BOTH
    ]
    return {
        "lmarena 33k": arena,
        "lmarena 140k": sessions,
        "helpsteer3": strengths,
    }


def judge_bench() -> dict[str, Any]:
    instances = [
        {
            "id": i,
            "instance": {"question": f"What is {i}?", "answer": f"It is {i}."},
            "annotations": {
                "quality": {"individual_human_scores": [GRADES[i]], "gpt-x": SCORES[i]}
            },
        }
        for i in range(N)
    ]
    return {"judge_bench ratings": {"dataset": "mine", "instances": instances}}


def inspect_frames() -> dict[str, Any]:
    rows = [
        {
            "sample_id": f"s{i}",
            "eval_id": "e",
            "log": "a.eval",
            "id": i,
            "epoch": 1,
            "input": f"What is {i}?",
            "target": str(i),
            "model": "m",
            "score_model_graded_qa": "C" if judge == "pass" else "I",
            "score_human": "C" if human == "pass" else "I",
            "score_includes": "I",
        }
        for i, judge, human in BOTH
    ]
    return {"inspect_frames flags": rows}


def vertex() -> dict[str, Any]:
    cases = [
        {
            "prompt": {"role": "user", "parts": [{"text": f"What is {i}?"}]},
            "responses": [{"response": {"role": "model", "parts": [{"text": f"It is {i}."}]}}],
            "eval_case_id": f"c{i}",
            "human_rating": GRADES[i],
        }
        for i in range(N)
    ]
    results = [
        {
            "eval_case_index": i,
            "response_candidate_results": [
                {
                    "response_index": 0,
                    "metric_results": {
                        "quality_v1": {"metric_name": "quality_v1", "score": SCORES[i]},
                        "exact_match": {"score": 0.0},
                    },
                }
            ],
        }
        for i in range(N)
    ]
    frame = [
        {"prompt": f"What is {i}?", "response": f"It is {i}.", "human_rating": GRADES[i]}
        for i in range(N)
    ]
    by_column = {name: [row[name] for row in frame] for name in frame[0]}
    return {
        "vertex ratings of cases": {
            "eval_case_results": results,
            "evaluation_dataset": [{"eval_cases": cases, "candidate_name": "gemini"}],
        },
        "vertex ratings of a frame": {
            "eval_case_results": results,
            "evaluation_dataset": [{"eval_dataset_df": by_column}],
            "metadata": {"candidate_names": ["gemini"]},
        },
    }


SHAPES: dict[str, Any] = {
    **vertex(),
    **pairs(),
    **judge_bench(),
    **inspect_frames(),
    **label_studio(),
    **prodigy(),
    **argilla(),
    **langfuse(),
    **langsmith(),
    **phoenix(),
    **opik(),
    **braintrust(),
    **weave(),
    **score_columns(),
    **bedrock(),
    **openai_evals(),
}
"""The content of a file by its tool and variant: rows, or an object."""


def format_of(name: str) -> str:
    return name.partition(" ")[0]


def texts_of(content: Any) -> dict[str, str]:
    """Return the text of a file with this content by suffix: JSON, and JSON lines for rows."""
    texts = {".json": json.dumps(content)}
    if isinstance(content, list):
        texts[".jsonl"] = "".join(f"{json.dumps(row)}\n" for row in content)
    return texts
