"""Benchmarks of responses that were graded: Topical-Chat, SummEval (UniEval's file or its own), Prometheus, HelpSteer.

Grades by criterion stand in the metadata `grades`: a list for each criterion, one grade for each response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from evalkit.datasets.conversations import conversation_text
from evalkit.datasets.formats import Row
from evalkit.datasets.named.benchmark import Benchmark, Source, benchmark_files, checked, choice, listed, shape
from evalkit.datasets.named.files import Placed
from evalkit.errors import DatasetError

ATTRIBUTES: Final = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
_ANNOTATED: Final = shape("id", "model_id", "decoded", "references", "expert_annotations")
_ARTICLE: Final = "text"
_VICUNA: Final = shape("instruction", "gpt4_score")
_FEEDBACK: Final = shape("orig_instruction", "orig_response", "orig_criteria", "orig_score")
_RATED: Final = shape("prompt", "response", *ATTRIBUTES)
_PREFERRED: Final = shape("prompt", "response_1", "response_2", "preference_strength")
_PREFERRED3: Final = shape("context", "response1", "response2", "overall_preference")
_SECTIONS: Final = ("The instruction to evaluate", "Response to evaluate", "Reference Answer", "Score Rubrics")
_HEADING: Final = re.compile(rf"^###({'|'.join(_SECTIONS)}|Feedback)(?: \(Score 5\))?:[ ]*$", re.MULTILINE)
_TURN: Final = "<extra_id_1>"


def _groups(benchmark: Benchmark, source: Source, key: Callable[[Row], Any]) -> Iterator[list[Placed]]:
    """Yield the rows of each key together, in the order of first sight; a file is held in memory for it."""
    for file in benchmark_files(benchmark, source):
        together: dict[Any, list[Placed]] = {}
        for place, row in checked(benchmark, file):
            together.setdefault(key(row), []).append((place, row))
        yield from together.values()


def _grades(rows: Sequence[Row], column: str = "scores") -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row[column])
    return {name: [row[column].get(name) for row in rows] for name in names}


def _systems(rows: Sequence[Row]) -> list[Row]:
    return [
        {"text": row["system_output"], "model": row["system_id"], "label": row["scores"].get("overall")} for row in rows
    ]


def for_the_next_turn(conversation: str) -> str:
    """Return the prompt that a reply in Topical-Chat answers."""
    return f"Write the next turn of this conversation.\n\n{conversation.strip()}"


def for_a_summary(text: str) -> str:
    """Return the prompt that a summary in SummEval answers."""
    return f"Summarize this text.\n\n{text}"


def rubric_as_context(rubric: str) -> str:
    """Return what a case of Prometheus has as context."""
    return "Score rubric\n" + rubric


def _topical_chat(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each dialogue and fact, with the replies of all systems."""
    for number, group in enumerate(_groups(benchmark, source, lambda row: (row["source"], row["context"])), 1):
        rows = [row for _, row in group]
        yield (
            group[0][0],
            {
                "id": str(number),
                "prompt": for_the_next_turn(rows[0]["source"]),
                "context": rows[0]["context"],
                "responses": _systems(rows),
                "grades": _grades(rows),
            },
        )


def _summeval(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each document, with the summaries of all systems."""
    for group in _groups(benchmark, source, lambda row: row.get("doc_id", row.get("id"))):
        rows = [_annotated(row, place) if row.keys() >= _ANNOTATED else row for place, row in group]
        yield (
            group[0][0],
            {
                "id": str(rows[0]["doc_id"]),
                "prompt": for_a_summary(rows[0]["source"]),
                "reference": rows[0].get("reference"),
                "responses": _systems(rows),
                "grades": _grades(rows),
            },
        )


def _annotated(row: Row, place: str) -> Row:
    """Return a row of SummEval's own annotations as UniEval has it: a grade is the mean of the three experts'."""
    if _ARTICLE not in row:
        remedy = "pair them with the articles: the authors' data_processing/pair_data.py --data_annotations"
        raise DatasetError("the annotations are without their article", where=place, remedy=remedy)
    experts = listed(row["expert_annotations"], "expert_annotations", place)
    scores = {name: sum(one[name] for one in experts) / len(experts) for name in experts[0]}
    return {
        "doc_id": row["id"],
        "system_id": row["model_id"],
        "source": row[_ARTICLE],
        "reference": listed(row["references"], "references", place)[0],
        "system_output": row["decoded"],
        "scores": {**scores, "overall": sum(scores.values()) / len(scores)},
    }


def _prometheus(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each instruction with its rubric, and all responses to it."""
    number = 0
    for file in benchmark_files(benchmark, source):
        together: dict[Any, tuple[str, Row]] = {}
        for place, row in checked(benchmark, file):
            asked, response = _vicuna(row, place) if row.keys() >= _VICUNA else _feedback(row)
            key = (asked["prompt"], asked["context"], asked["reference"])
            if key not in together:
                number += 1
                together[key] = place, {"id": str(number), **asked, "responses": []}
            together[key][1]["responses"].append(response)
        yield from together.values()


def _feedback(row: Row) -> tuple[Row, Row]:
    levels = [(k, row.get(f"orig_score{k}_description")) for k in range(1, 6)]
    rubric = [f"[{row['orig_criteria']}]", *(f"Score {k}: {text}" for k, text in levels if text)]
    asked = {
        "prompt": row["orig_instruction"],
        "context": rubric_as_context("\n".join(rubric)),
        "reference": row.get("orig_reference_answer"),
    }
    return asked, {"text": row["orig_response"], "label": row["orig_score"]}


def _vicuna(row: Row, place: str) -> tuple[Row, Row]:
    found = _HEADING.split(str(row["instruction"]))
    sections = {name: text.strip() for name, text in zip(found[1::2], found[2::2], strict=True)}
    if missing := [name for name in _SECTIONS if name not in sections]:
        raise DatasetError(f"the instruction has no section '{missing[0]}'", where=place, remedy="mend the row")
    prompt, response, reference, rubric = (sections[name] for name in _SECTIONS)
    scores = listed(row["gpt4_score"], "gpt4_score", place)
    asked = {"prompt": prompt, "context": rubric_as_context(rubric), "reference": reference}
    # Three runs of one judge are no three people: their mean is the grade.
    grade = sum(map(float, scores)) / len(scores)
    return asked, {"text": response, "model": row.get("response_source"), "label": grade}


def _helpsteer(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each prompt with its rated responses, which stand one after another, or for each preference."""
    number = 0
    for file in benchmark_files(benchmark, source):
        for prompt, group in groupby(checked(benchmark, file), key=lambda placed: _asked(placed[1])):
            rows = list(group)
            rated = [row for _, row in rows if row.keys() >= _RATED]
            if rated:
                number += 1
                yield rows[0][0], _rated(str(number), prompt, rated)
            for place, row in rows:
                if not row.keys() >= _RATED:
                    number += 1
                    yield place, _preferred(str(number), prompt, row, place)


def _asked(row: Row) -> str:
    if "prompt" in row:
        return str(row["prompt"]).replace(_TURN, "\n\n").strip()
    turns = row["context"]
    return turns if isinstance(turns, str) else conversation_text(turns)


def _rated(id_: str, prompt: str, rows: Sequence[Row]) -> Row:
    return {
        "id": id_,
        "prompt": prompt,
        "responses": [{"text": row["response"], "label": row["helpfulness"]} for row in rows],
        "grades": {name: [row[name] for row in rows] for name in ATTRIBUTES},
    }


def _preferred(id_: str, prompt: str, row: Row, place: str) -> Row:
    strength = row["preference_strength"] if "preference_strength" in row else row["overall_preference"]
    meanings = {"-3": "A", "-2": "A", "-1": "A", "0": "TIE", "1": "B", "2": "B", "3": "B"}
    return {
        "id": id_,
        "prompt": prompt,
        "response_a": row.get("response_1", row.get("response1")),
        "response_b": row.get("response_2", row.get("response2")),
        "label": choice(strength, meanings, place),
        "strength": strength,
        "subset": row.get("domain"),
    }


TOPICAL_CHAT: Final = Benchmark(
    "topical_chat",
    "Topical-Chat (UniEval)",
    kind="Topical-Chat as UniEval has it",
    licence="MIT (UniEval's file); CDLA-Sharing-1.0 (the dialogues)",
    citation="Mehri and Eskenazi 2020, ACL, arXiv 2005.00456; Zhong et al. 2022, EMNLP, arXiv 2210.07197",
    homepage="https://github.com/maszhongming/UniEval",
    expects="UniEval's reproduce/data/dialogue/topical_chat.json",
    shapes=(shape("source", "system_id", "system_output", "context", "scores"),),
    read=_topical_chat,
)
SUMMEVAL: Final = Benchmark(
    "summeval",
    "SummEval",
    kind="SummEval",
    licence="MIT",
    citation="Fabbri et al. 2021, TACL 9, 391-409; Zhong et al. 2022, EMNLP, arXiv 2210.07197",
    homepage="https://github.com/Yale-LILY/SummEval",
    expects="UniEval's data/summarization/summeval.json, or SummEval's model_annotations.aligned.paired.jsonl",
    shapes=(shape("doc_id", "system_id", "source", "system_output", "scores"), _ANNOTATED),
    read=_summeval,
)
PROMETHEUS: Final = Benchmark(
    "prometheus",
    "Prometheus (Feedback Bench, Vicuna Bench)",
    kind="Feedback Bench or a test set of Prometheus",
    licence="Apache-2.0 (Vicuna Bench); none stated for Feedback Bench: see the authors' page",
    citation="Kim et al. 2024, ICLR, arXiv 2310.08491",
    homepage="https://github.com/prometheus-eval/prometheus-eval",
    expects="Feedback Bench, or a file of prometheus-eval's eval/benchmark/data such as vicuna_eval.json",
    shapes=(_FEEDBACK, _VICUNA),
    read=_prometheus,
)
HELPSTEER: Final = Benchmark(
    "helpsteer",
    "HelpSteer",
    kind="HelpSteer",
    licence="CC BY 4.0",
    citation="Wang et al. 2024, NeurIPS, arXiv 2406.08673",
    homepage="https://huggingface.co/datasets/nvidia/HelpSteer2",
    expects="a file of HelpSteer, HelpSteer2 or HelpSteer3, as (gzipped) JSONL or Parquet",
    shapes=(_RATED, _PREFERRED, _PREFERRED3),
    read=_helpsteer,
)
