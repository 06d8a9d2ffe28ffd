"""Write logs with the tools themselves, and next to each what the tool's own reader finds in it.

    uv run --isolated --no-project --with inspect-ai==0.3.285 --with openai \\
        python -m tests.interop.logs.write inspect FOLDER

`VERSIONS` has the packages of each tool. All models are one server on 127.0.0.1, whose answers
depend on the request. `FOLDER/values.json` lists, by log, each answer with its prompt and metadata,
and what each grader said of it:

- `id`, `prompt`, `answer` (null if there is none), `model`, `reference`, `metadata`
- `judges`: value by judge and criterion; null if the judge failed, or its answer could not be read
- `reasons`: the same with the judges' texts
- `labels`: by annotator
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.interop.logs.samples import Values, models, pick, sample
from tests.interop.logs.write_promptfoo import promptfoo
from tests.support.fake_provider import Reply, refused, said

VERSIONS: dict[str, Sequence[str]] = {
    "inspect": ("inspect-ai==0.3.285", "openai"),
    "deepeval": ("deepeval==4.3.1",),
    "pydantic_evals": ("pydantic-evals==2.62.0", "pydantic-ai-slim[openai]==2.62.0"),
    "lm_eval": ("lm-eval[api]==0.4.13",),
    "promptfoo": (),
    "mlflow": (),
}
"""What `uv run --with` installs for each tool. promptfoo 0.123.1 is found on the path; MLflow 3.17
is evalkit's own."""
IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAAB="


def finite(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def inspect(folder: Path) -> Values:
    """Write four logs: two graders with others, a panel as JSON, an agent with tools, and one that stopped."""
    os.environ |= {"INSPECT_DISPLAY": "none"}
    import inspect_ai
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.log import ProvenanceData, edit_score, read_eval_log, write_eval_log
    from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, get_model
    from inspect_ai.scorer import (
        Score,
        ScoreEdit,
        accuracy,
        match,
        model_graded_fact,
        model_graded_qa,
        scorer,
    )
    from inspect_ai.solver import generate, solver, use_tools
    from inspect_ai.tool import tool

    @tool
    def add() -> Any:
        async def execute(x: int, y: int) -> str:
            """Add two numbers.

            Args:
                x: The first.
                y: The second.
            """
            return str(x + y)

        return execute

    @solver
    def gone(word: str) -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if word in state.input_text:
                raise RuntimeError("the sandbox is gone")
            return state

        return solve

    @scorer(metrics=[accuracy()])
    def length() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value=len(state.output.completion))

        return score

    def grade(text: str) -> Reply:
        return said(f"Thinking about it.\nGRADE: {pick(text, 'C', 'I', 'P', 'C', 'unclear')}")

    with models(grade) as base:

        def model(name: str) -> Any:
            return get_model(f"openai-api/local/{name}", base_url=base, api_key="x")

        def questions(count: int) -> list[Any]:
            return [
                Sample(
                    id=f"q{n}",
                    input=f"What is {n} + {n}?",
                    target=str(2 * n),
                    metadata={"topic": pick(str(n), "a", "b"), "n": n},
                )
                for n in range(count)
            ]

        def written(
            name: str, dataset: list[Any], solvers: list[Any], scorers: list[Any], **more: Any
        ) -> Path:
            task = Task(
                dataset=dataset, solver=solvers, scorer=scorers, name=name, **more.pop("task", {})
            )
            (log,) = inspect_ai.eval(
                task, model=model("answerer"), log_dir=str(folder), max_samples=1, **more
            )
            written = Path(log.location.removeprefix("file://"))
            return written.rename(folder / f"{name}{written.suffix}")

        image = ChatMessageUser(
            content=[ContentText(text="What is this?"), ContentImage(image=IMAGE)]
        )
        first = [
            model_graded_qa(model=model("judge-1"), partial_credit=True),
            model_graded_fact(model=model("judge-2")),
        ]
        graders = written(
            "graders",
            [*questions(5), Sample(id=7, input=[image], target="a pixel")],
            [gone("4 + 4"), generate()],
            [*first, match(), length()],
            task={"epochs": 2},
            fail_on_error=False,
        )
        edited = read_eval_log(str(graders))
        ann = ProvenanceData(author="ann", reason="the grader misread it")
        edit_score(edited, "q1", "model_graded_qa", ScoreEdit(value="I", provenance=ann), epoch=1)
        edit_score(edited, "q2", "expert", ScoreEdit(value="C", provenance=ann), epoch=1)
        write_eval_log(edited, str(graders))
        panel = [
            model_graded_qa(model=[model(f"judge-{n}") for n in (1, 2, 3)], partial_credit=True)
        ]
        whole = written("panel", questions(4), [generate()], panel, log_format="json")
        short = read_eval_log(str(whole))
        for one in short.samples or ():
            one.events, one.attachments = [], {}  # 100 kB that nobody reads
        write_eval_log(short, str(whole))
        written("agent", questions(3), [use_tools(add()), generate()], first[:1])
        written("stopped", questions(6), [gone("3 + 3"), generate()], first[:1], fail_on_error=True)

    def verdicts(one: Any) -> Iterator[tuple[str, str, Any, Any]]:
        for name, score in (one.scores or {}).items():
            original = (
                score.history[0] if score.history and score.history[0].provenance is None else score
            )
            votes = ((original.metadata or {}).get("panel") or {}).get("votes")
            if votes:
                yield from (
                    (f"openai-api/local/judge-{n}", name, vote, None)
                    for n, vote in enumerate(votes, 1)
                )
            elif "model_graded" in name:
                judge = "judge-1" if name == "model_graded_qa" else "judge-2"
                yield f"openai-api/local/{judge}", name, original.value, original.explanation

    def read(path: Path) -> list[dict[str, Any]]:
        log = read_eval_log(str(path))
        rows = []
        for one in log.samples or ():
            row = sample(
                one.id,
                one.input if isinstance(one.input, str) else one.input[0].text,
                one.output.completion or None,
                log.eval.model,
            )
            row |= {"reference": one.target, "metadata": one.metadata, "repeat": one.epoch - 1}
            for judge, name, value, reason in verdicts(one):
                number = {"C": 1.0, "P": 0.5, "I": 0.0}.get(value)
                row["judges"].setdefault(judge, {})[name] = number
                row["reasons"].setdefault(judge, {})[name] = reason
            if one.error:
                row["judges"] = dict.fromkeys(
                    ("openai-api/local/judge-1", "openai-api/local/judge-2")
                )
            for name, score in (one.scores or {}).items():
                for edit in score.history:
                    if edit.provenance:
                        row["labels"][f"{edit.provenance.author} ({name})"] = {"C": 1.0, "I": 0.0}[
                            edit.value
                        ]
            rows.append(row)
        return rows

    return {path.name: read(path) for path in sorted(folder.iterdir())}


def deepeval(folder: Path) -> Values:
    """Write a run with metrics of two models and one of code, and one of conversations."""
    os.environ |= {
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
        "DEEPEVAL_RESULTS_FOLDER": str(folder),
        "DEEPEVAL_DISABLE_DOTENV": "1",
    }
    os.environ |= {"CONFIDENT_OPEN_BROWSER": "NO", "DEEPEVAL_RETRY_MAX_ATTEMPTS": "1"}
    os.chdir(folder)
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import ConversationalGEval, ExactMatchMetric, GEval
    from deepeval.models import OpenAIModel
    from deepeval.test_case import (
        ConversationalTestCase,
        LLMTestCase,
        SingleTurnParams,
        ToolCall,
        Turn,
        TurnParams,
    )
    from deepeval.test_run.test_run import TestRun

    def grade(text: str) -> Reply:
        if "What is 3 + 3?" in text and "judge-2" in text:
            return refused(400, "the grader is down")
        return said(
            json.dumps(
                {"score": pick(text, 0, 3, 5, 8, 10), "reason": f"because {pick(text, 'x', 'y')}"}
            )
        )

    with models(grade) as base:

        def judge(name: str) -> Any:
            return OpenAIModel(
                model=name,
                base_url=base,
                api_key="x",
                cost_per_input_token=0,
                cost_per_output_token=0,
            )

        both = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT]
        quiet: dict[str, Any] = {
            "async_config": AsyncConfig(run_async=False),
            "display_config": DisplayConfig(show_indicator=False, print_results=False),
            "cache_config": CacheConfig(write_cache=False),
            "error_config": ErrorConfig(ignore_errors=True),
        }
        metrics = [
            GEval(
                name=name,
                evaluation_params=both,
                evaluation_steps=["Is it right?"],
                model=judge(model),
                async_mode=False,
            )
            for name, model in (("Correctness", "judge-1"), ("Clarity", "judge-2"))
        ]
        cases = [
            LLMTestCase(
                input=f"What is {n} + {n}?",
                actual_output=pick(str(n), f"{2 * n}", "no idea"),
                expected_output=str(2 * n),
                context=["Numbers add up."],
                metadata={"topic": pick(str(n), "a", "b")},
                tools_called=[ToolCall(name="add", input_parameters={"x": n, "y": n})]
                if n == 2
                else None,
            )
            for n in range(5)
        ]
        evaluate(
            cases,
            [*metrics, ExactMatchMetric()],
            hyperparameters={"model": "answerer", "prompt": "v2"},
            **quiet,
        )
        first = {path.name for path in folder.glob("test_run_*.json")}
        turns = [
            [
                Turn(role="user", content=f"Hello {n}"),
                Turn(role="assistant", content=f"How can I help with {n}?"),
            ]
            for n in range(3)
        ]
        polite = ConversationalGEval(
            name="Polite",
            evaluation_params=[TurnParams.CONTENT],
            evaluation_steps=["Is it polite?"],
            model=judge("judge-1"),
            async_mode=False,
        )
        talks = [
            ConversationalTestCase(turns=two, scenario=f"greeting {n}", expected_outcome="help")
            for n, two in enumerate(turns)
        ]
        evaluate(talks, [polite], **quiet)
    names = {True: "run.json", False: "conversations.json"}
    for path in list(folder.glob("test_run_*.json")):
        path.rename(folder / names[path.name in first])
    shutil.rmtree(folder / ".deepeval", ignore_errors=True)
    (folder / ".test_run.lock").unlink(missing_ok=True)

    def read(path: Path) -> list[dict[str, Any]]:
        with path.open() as file:
            run = TestRun.load(file)
        rows = []
        for one in [*run.test_cases, *run.conversational_test_cases]:
            if path.name == "run.json":
                row = sample(
                    one.order,
                    one.input,
                    one.actual_output,
                    run.hyperparameters["model"],
                    reference=one.expected_output,
                )
                row |= {"context": "\n\n".join(one.context)}
            else:
                text = "\n\n".join(f"[{turn.role}]\n{turn.content}" for turn in one.turns)
                row = sample(one.order, one.scenario, text, None, reference=one.expected_outcome)
            row["metadata"] = one.metadata or {}
            for metric in one.metrics_data:
                if metric.evaluation_model:
                    row["judges"].setdefault(metric.evaluation_model, {})[metric.name] = (
                        metric.score
                    )
                    row["reasons"].setdefault(metric.evaluation_model, {})[metric.name] = (
                        metric.reason
                    )
            rows.append(row)
        return rows

    return {path.name: read(path) for path in sorted(folder.glob("*.json"))}


def pydantic_evals(folder: Path) -> Values:
    """Write a report with LLM judges, other evaluators, repeats, a failed task and a judge that failed."""
    from dataclasses import dataclass

    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import EqualsExpected, Evaluator, GEval, LLMJudge
    from pydantic_evals.evaluators.llm_as_a_judge import set_default_judge_model
    from pydantic_evals.reporting import EvaluationReportAdapter

    def grade(text: str) -> Reply:
        if "judge-2" in text and "<Output>\\n6" in text:
            return refused(400, "the judge is down")
        reply = {"reason": f"because {pick(text, 'x', 'y')}"}
        if "judge-3" in text:
            return called({**reply, "score": pick(text, 1, 2, 3, 4, 5)})
        return called(
            {**reply, "pass": pick(text, True, False), "score": pick(text, 0.0, 0.25, 0.5, 1.0)}
        )

    def called(arguments: dict[str, Any]) -> Reply:
        call = {"name": "final_result", "arguments": json.dumps(arguments)}
        return said(
            None,
            finish="tool_calls",
            tool_calls=[{"id": "c1", "type": "function", "function": call}],
        )

    @dataclass
    class Tone(Evaluator[Any, Any, Any]):
        def evaluate(self, ctx: Any) -> str:
            return pick(str(ctx.output), "calm", "tense")

    counted: Counter[str] = Counter()

    def task(inputs: Any) -> str:
        counted[str(inputs)] += 1
        if "4 + 4" in str(inputs):
            raise RuntimeError("the task failed")
        return (
            f"{pick(str(inputs), 2, 6)}, attempt {counted[str(inputs)]}"
            if "3 + 3" not in str(inputs)
            else "6"
        )

    with models(grade) as base:

        def model(name: str) -> Any:
            return OpenAIChatModel(name, provider=OpenAIProvider(base_url=base, api_key="x"))

        set_default_judge_model(model("judge-default"))
        evaluators = [
            LLMJudge("It is correct.", model=model("judge-1"), include_input=True,
                     score={"evaluation_name": "correct_score"},
                     assertion={"evaluation_name": "correct"}),
            LLMJudge("It is brief.", model=model("judge-2"),
                     score={"evaluation_name": "brief", "include_reason": True}, assertion=False),
            EqualsExpected(),
            Tone(),
        ]  # fmt: skip
        cases = [
            Case(
                name=f"case {n}",
                inputs={"question": f"What is {n} + {n}?"},
                expected_output=str(2 * n),
                metadata={"topic": pick(str(n), "a", "b")},
            )
            for n in range(5)
        ]
        reports = {
            "report.json": (Dataset(name="sums", cases=cases, evaluators=evaluators), 2),
            "default.json": (
                Dataset(name="sums", cases=cases[:3], evaluators=[LLMJudge("It is correct.")]),
                1,
            ),
            "levels.json": (
                Dataset(
                    name="sums",
                    cases=cases[:4],
                    evaluators=[GEval("How clear is it?", ["Read it."], model=model("judge-3"))],
                ),
                1,
            ),
        }
        for name, (dataset, repeat) in reports.items():
            report = dataset.evaluate_sync(
                task, name="answerer", max_concurrency=1, progress=False, repeat=repeat
            )
            (folder / name).write_bytes(EvaluationReportAdapter.dump_json(report, indent=1))

    def read(path: Path) -> list[dict[str, Any]]:
        report = EvaluationReportAdapter.validate_json(path.read_bytes())
        rows = []
        judged = {
            "report.json": {"openai:judge-1": "correct_score", "openai:judge-2": "brief"},
            "default.json": {"LLMJudge": "LLMJudge"},
            "levels.json": {"openai:judge-3": "GEval"},
        }[path.name]
        for one in report.cases:
            row = sample(
                one.source_case_name or one.name, one.inputs["question"], one.output, report.name
            )
            row |= {"reference": one.expected_output, "metadata": one.metadata}
            results = {**one.assertions, **one.scores}
            for judge, name in judged.items():
                found = results.get(name)
                row["judges"][judge] = {name: float(found.value) if found else None}
                row["reasons"][judge] = {name: found.reason if found else None}
            rows.append(row)
        for failed in report.failures:
            row = sample(
                failed.source_case_name or failed.name, failed.inputs["question"], None, report.name
            )
            row |= {"reference": failed.expected_output, "metadata": failed.metadata}
            rows.append({**row, "judges": dict.fromkeys(judged)})
        return rows

    return {path.name: read(path) for path in sorted(folder.glob("*.json"))}


TASK = """
task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n\\n"], temperature: 0.7, do_sample: true}}
repeats: {repeats}
filter_list:
  - name: first
    filter: [{{function: take_first}}]
  - name: number
    filter: [{{function: regex, regex_pattern: "([0-9]+)"}}, {{function: take_first}}]
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
"""


def lm_eval(folder: Path) -> Values:
    """Write the samples of a task with two answers to each document, once with a chat template."""
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(folder / "cache"),
        "OPENAI_API_KEY": "x",
    }
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    tasks = folder / "tasks"
    tasks.mkdir()
    rows = [
        {"question": f"What is {n} + {n}?", "answer": str(2 * n), "topic": pick(str(n), "a", "b")}
        for n in range(4)
    ]
    (tasks / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tasks / "sums.yaml").write_text(TASK.format(name="sums", data=tasks / "data.jsonl", repeats=2))
    found: Values = {}
    with models(lambda _: said("no")) as base:
        results = simple_evaluate(
            model="local-chat-completions",
            model_args={
                "model": "answerer",
                "base_url": f"{base}/chat/completions",
                "num_concurrent": 1,
                "max_retries": 1,
            },
            tasks=["sums"],
            task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
            log_samples=True,
            apply_chat_template=True,
            bootstrap_iters=0,
        )
    tracker = EvaluationTracker(output_path=str(folder))
    samples = results.pop("samples")
    tracker.general_config_tracker.model_name = "answerer"
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples("sums", samples["sums"])
    for path in [*folder.rglob("samples_*.jsonl"), *folder.rglob("results_*.json")]:
        path.rename(folder / path.name)
    (log,) = folder.glob("samples_*.jsonl")
    metrics: dict[str, dict[str, Any]] = {}
    for one in samples["sums"]:
        metrics.setdefault(str(one["doc_id"]), {})[f"exact_match,{one['filter']}"] = one[
            "exact_match"
        ]
    found[log.name] = [
        sample(
            one["doc_id"],
            one["doc"]["question"],
            answer,
            "answerer",
            reference=one["target"],
            metadata={**one["doc"], **metrics[str(one["doc_id"])]},
        )
        for one in samples["sums"]
        if one["filter"] == "first"
        for answer in one["resps"][0]
    ]
    for name in ("tasks", "cache", "None"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return found


def mlflow(folder: Path) -> Values:
    """Write traces of an agent with a child span of its model, judges of two kinds, code, and people's feedback."""
    os.environ |= {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "OPENAI_API_KEY": "x",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    import mlflow as library
    from mlflow.entities import AssessmentSource, Trace
    from mlflow.genai import scorer
    from mlflow.genai.judges import make_judge

    library.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    library.set_experiment(
        experiment_id=library.create_experiment("sums", artifact_location=str(folder / "artifacts"))
    )

    def grade(text: str) -> Reply:
        if "judge-2" in text and "What is 3 + 3?" in text:
            return refused(400, "the judge is down")
        value = pick(text, "yes", "no") if "judge-1" in text else pick(text, 1, 3, 5)
        return said(json.dumps({"result": value, "rationale": f"because {pick(text, 'x', 'y')}"}))

    with models(grade) as base:

        @library.trace
        def agent(messages: list[dict[str, str]]) -> dict[str, Any]:
            with library.start_span("model", span_type="CHAT_MODEL") as span:
                span.set_inputs({"model": "answerer", "messages": messages})
                answer = f"It is {pick(messages[0]['content'], 2, 4, 6)}."
                span.set_outputs(answer)
            return {"choices": [{"message": {"role": "assistant", "content": answer}}]}

        @scorer
        def length(outputs: Any) -> int:
            return len(str(outputs))

        words: dict[str, Any] = {
            "instructions": "Is {{ outputs }} right for {{ inputs }}?",
            "base_url": f"{base}/chat/completions",
        }
        judges = [
            make_judge(name="right", model="openai:/judge-1", feedback_value_type=str, **words),
            make_judge(name="quality", model="openai:/judge-2", feedback_value_type=int, **words),
        ]
        data = [
            {
                "inputs": {"messages": [{"role": "user", "content": f"What is {n} + {n}?"}]},
                "expectations": {"expected_response": str(2 * n)},
            }
            for n in range(5)
        ]
        library.genai.evaluate(data=data, predict_fn=agent, scorers=[*judges, length])
    traces = library.search_traces(return_type="list")
    for n, trace in enumerate(traces[:4]):
        for person in ("ann", "bob")[: 1 + n % 2]:
            source = AssessmentSource("HUMAN", person)
            library.log_feedback(
                trace_id=trace.info.trace_id,
                name="right",
                value=pick(f"{person} {n}", True, False),
                source=source,
            )
    changed = library.get_trace(traces[0].info.trace_id)
    (own,) = [one for one in changed.info.assessments if one.source.source_id == "ann"]
    library.override_feedback(
        trace_id=changed.info.trace_id,
        assessment_id=own.assessment_id,
        value=not own.feedback.value,
        source=own.source,
    )
    traces = sorted(
        library.search_traces(return_type="list"), key=lambda trace: trace.info.timestamp_ms
    )
    (folder / "traces.jsonl").write_text("".join(f"{trace.to_json()}\n" for trace in traces))
    rows = []
    for line in (folder / "traces.jsonl").read_text().splitlines():
        trace = Trace.from_json(line)
        root = trace.data.spans[0]
        row = sample(
            trace.info.trace_id,
            root.inputs["messages"][0]["content"],
            root.outputs["choices"][0]["message"]["content"],
            "answerer",
        )
        for one in trace.info.assessments:
            if one.valid is False:
                continue
            if one.expectation:
                row["reference"] = one.expectation.value
            elif one.source.source_type == "HUMAN":
                row["labels"][one.source.source_id] = "yes" if one.feedback.value else "no"
            elif one.name in ("right", "quality"):
                judge = {"right": "openai:/judge-1", "quality": "openai:/judge-2"}[one.name]
                row["judges"][judge] = {
                    one.name: None if one.feedback.error else one.feedback.value
                }
                row["reasons"][judge] = {one.name: one.rationale}
        rows.append(row)
    library.set_tracking_uri(None)
    (folder / "mlflow.db").unlink()
    shutil.rmtree(folder / "artifacts", ignore_errors=True)
    return {"traces.jsonl": rows}


WRITERS: dict[str, Callable[[Path], Values]] = {
    "inspect": inspect,
    "deepeval": deepeval,
    "pydantic_evals": pydantic_evals,
    "lm_eval": lm_eval,
    "promptfoo": promptfoo,
    "mlflow": mlflow,
}


def main(tool: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    values = WRITERS[tool](folder.resolve())
    (folder.resolve() / "values.json").write_text(
        json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
