"""Auto-J's pairwise test data (Li et al. 2024, ICLR, arXiv 2310.05470): pairs with human labels, by scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalkit.benchmarks.benchmark import benchmark, one_of, row_by_row
from evalkit.benchmarks.layouts import Field
from evalkit.benchmarks.scoring_rules import View, labeled_rates, orders_agree
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Metric

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


_CASE: Final[Mapping[str, Field]] = {
    "id": lambda row: str(row.number),
    "prompt": "prompt",
    "response_a": "response 1",
    "response_b": "response 2",
    "label": one_of("label", {"0": "A", "1": "B", "2": "TIE"}),
    "scenario": "scenario",
    "subset": lambda row: _GROUP_OF.get(str(row["scenario"])),
}


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `auto_j/agreement` and `auto_j/consistency` for all pairs and each group of scenarios.

    For pairs in both orders, agreement is the share whose verdict equals the human label in both, and consistency the
    share with the same verdict in both. Scores and single orders have only agreement (Li et al. 2024, arXiv 2310.05470,
    section 5.1, and the leaderboard's definition).
    """
    right, subsets = (view.passes == view.pairs.label[:, None]).all(axis=1), view.subsets()
    return [
        *labeled_rates(view, "auto_j/agreement", right, view.read, subsets),
        *orders_agree(view, "auto_j/consistency", subsets),
    ]


BENCHMARKS: Final = (benchmark("auto_j", read=row_by_row(_CASE), rule=_rule),)
