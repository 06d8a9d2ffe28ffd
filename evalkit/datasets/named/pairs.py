"""Benchmarks of one labelled pair a row: LLMBar, JudgeBench, PandaLM and Auto-J."""

from __future__ import annotations

from typing import Final

from evalkit.datasets.formats import Row
from evalkit.datasets.named.benchmark import Benchmark, RowLocation, choice, row_by_row, shape

_SCENARIOS: Final = {
    "summarization": "post_summarization text_summarization note_summarization",
    "exam_questions": "math_reasoning solving_exam_question_with_math solving_exam_question_without_math",
    "code": "code_simplification code_generation explaining_code code_correction_rewriting code_to_code_translation",
    "rewriting": "text_simplification language_polishing instructional_rewriting text_correction paraphrasing",
    "creative_writing": (
        "writing_song_lyrics writing_social_media_post writing_blog_post writing_personal_essay creative_writing"
        " writing_advertisement writing_marketing_materials writing_presentation_script counterfactual"
    ),
    "functional_writing": (
        "writing_product_description writing_job_application writing_news_article writing_biography writing_email"
        " writing_legal_document writing_technical_document writing_scientific_paper functional_writing"
        " writing_cooking_recipe"
    ),
    "general_communication": (
        "asking_how_to_question open_question analyzing_general explaining_general seeking_advice recommendation"
        " value_judgement verifying_fact chitchat roleplay planning brainstorming"
    ),
    "nlp_tasks": (
        "ranking text_to_text_translation data_analysis classification_identification title_generation"
        " question_generation reading_comprehension keywords_extraction information_extraction topic_modeling others"
    ),
}
_GROUP_OF: Final = {scenario: group for group, names in _SCENARIOS.items() for scenario in names.split()}


def _llmbar(row: Row, at: RowLocation) -> Row:
    subset = at.file.resolve().parent.name.lower()
    return {
        "id": f"{subset}/{at.number}",
        "prompt": row["input"],
        "response_a": row["output_1"],
        "response_b": row["output_2"],
        "label": choice(row["label"], {"1": "A", "2": "B"}, at.place),
        "subset": subset,
    }


def _judgebench(row: Row, at: RowLocation) -> Row:
    return {
        "id": row["pair_id"],
        "prompt": row["question"],
        "response_a": row["response_A"],
        "response_b": row["response_B"],
        "label": choice(row["label"], {"A>B": "A", "B>A": "B", "A=B": "TIE"}, at.place),
        "source": row.get("source"),
        "response_model": row.get("response_model"),
    }


def _pandalm(row: Row, at: RowLocation) -> Row:
    names = [
        name for name in ("annotator1", "annotator2", "annotator3", "label_0", "label_1", "label_2") if name in row
    ]
    votes = {name: choice(row[name], {"0": "TIE", "1": "A", "2": "B"}, at.place) for name in names}
    asked = [part for part in (row["instruction"], row.get("input")) if part not in (None, "")]
    made = str(row.get("cmp_key") or "").split("_")
    models = dict(zip(("model_a", "model_b"), made, strict=True)) if len(made) == 2 else {}
    return {
        "id": row.get("idx", row.get("index", at.number)),
        "prompt": "\n\n".join(map(str, asked)),
        "response_a": row["response1"],
        "response_b": row["response2"],
        **models,
        "labels": votes,
        "subset": row.get("motivation_app"),
    }


def _auto_j(row: Row, at: RowLocation) -> Row:
    return {
        "id": str(at.number),
        "prompt": row["prompt"],
        "response_a": row["response 1"],
        "response_b": row["response 2"],
        "label": choice(row["label"], {"0": "A", "1": "B", "2": "TIE"}, at.place),
        "scenario": row["scenario"],
        "subset": _GROUP_OF.get(str(row["scenario"])),
    }


LLMBAR: Final = Benchmark(
    "llmbar",
    "LLMBar",
    kind="LLMBar pairs",
    licence="MIT",
    citation="Zeng et al. 2024, ICLR, arXiv 2310.07641",
    homepage="https://github.com/princeton-nlp/LLMBar",
    expects="a dataset.json of LLMBar, or the folder Dataset/LLMBar with its subsets",
    shapes=(shape("input", "output_1", "output_2", "label"),),
    read=row_by_row(_llmbar),
    files="dataset.json*",
)
JUDGEBENCH: Final = Benchmark(
    "judgebench",
    "JudgeBench",
    kind="JudgeBench pairs",
    licence="MIT",
    citation="Tan et al. 2025, ICLR, arXiv 2410.12784",
    homepage="https://github.com/ScalerLab/JudgeBench",
    expects="a data/dataset=judgebench,response_model=….jsonl of JudgeBench, or its Hugging Face file",
    shapes=(shape("pair_id", "question", "response_A", "response_B", "label"),),
    read=row_by_row(_judgebench),
)
PANDALM: Final = Benchmark(
    "pandalm",
    "PandaLM test set",
    kind="the PandaLM test set",
    licence="Apache-2.0",
    citation="Wang et al. 2024, ICLR, arXiv 2306.05087",
    homepage="https://github.com/WeOpenML/PandaLM",
    expects="PandaLM's data/testset-v1.json",
    shapes=(
        shape("instruction", "response1", "response2", "annotator1", "annotator2", "annotator3"),
        shape("instruction", "response1", "response2", "label_0", "label_1", "label_2"),
    ),
    read=row_by_row(_pandalm),
)
AUTO_J: Final = Benchmark(
    "auto_j",
    "Auto-J pairwise test data",
    kind="Auto-J's pairwise test data",
    licence="none stated: see the authors' page",
    citation="Li et al. 2024, ICLR, arXiv 2310.05470",
    homepage="https://github.com/GAIR-NLP/auto-j",
    expects="Auto-J's data/test/testdata_pairwise.jsonl",
    shapes=(shape("scenario", "label", "prompt", "response 1", "response 2"),),
    read=row_by_row(_auto_j),
)
