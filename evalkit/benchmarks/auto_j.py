"""Auto-J's pairwise test data (Li et al. 2024, ICLR, arXiv 2310.05470): pairs with human labels, by scenario."""

from __future__ import annotations

from typing import Final

from evalkit.benchmarks.benchmark import Benchmark, RowLocation, choice, row_by_row, shape, share_row
from evalkit.benchmarks.scoring_rules import ONE_ORDER, UNREAD, View, nothing, rates
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.scoring.columns import NONE
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


def _read_case(row: Row, at: RowLocation) -> Row:
    return {
        "id": str(at.number),
        "prompt": row["prompt"],
        "response_a": row["response 1"],
        "response_b": row["response 2"],
        "label": choice(row["label"], {"0": "A", "1": "B", "2": "TIE"}, at.place),
        "scenario": row["scenario"],
        "subset": _GROUP_OF.get(str(row["scenario"])),
    }


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `auto_j/agreement` and `auto_j/consistency` for all pairs and each group of scenarios.

    For pairs in both orders, agreement is the share whose verdict equals the human label in both, and consistency the
    share with the same verdict in both. Scores and single orders have only agreement (Li et al. 2024, arXiv 2310.05470,
    section 5.1, and the leaderboard's definition).
    """
    passes, label, subsets = view.passes, view.pairs.label, view.subsets()
    read = (passes != NONE).all(axis=1)
    right = (passes == label[:, None]).all(axis=1)
    wanted = view.labeled
    found = rates("auto_j/agreement", view.tally, right, wanted & read, wanted & ~read, subsets, why=UNREAD)
    if not view.both:
        return [*found, nothing("auto_j/consistency", ONE_ORDER)]
    same = passes[:, 0] == passes[:, 1]
    return [*found, *rates("auto_j/consistency", view.tally, same, read, ~read, subsets, why=UNREAD)]


_SOURCE = "Li et al. 2024, arXiv 2310.05470, section 5.1"
_METRICS: Final = (
    share_row(
        "auto_j/agreement",
        "agreement with annotators",
        "Share of labeled pairs whose verdict equals the annotators' label in both orders.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "auto_j/agreement/{scenario}",
        "agreement with annotators, {scenario}",
        "Share of labeled pairs whose verdict equals the annotators' label in both orders; for one group of scenarios.",
        _SOURCE,
    ),
    share_row(
        "auto_j/consistency",
        "consistency",
        "Share of pairs with the same verdict in both orders.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "auto_j/consistency/{scenario}",
        "consistency, {scenario}",
        "Share of pairs with the same verdict in both orders; for one group of scenarios.",
        _SOURCE,
    ),
)


AUTO_J: Final = Benchmark(
    "auto_j",
    "Auto-J pairwise test data",
    kind="Auto-J's pairwise test data",
    license="none stated: see the authors' page",
    citation="Li et al. 2024, ICLR, arXiv 2310.05470",
    homepage="https://github.com/GAIR-NLP/auto-j",
    expects="Auto-J's data/test/testdata_pairwise.jsonl",
    shapes=(shape("scenario", "label", "prompt", "response 1", "response 2"),),
    read=row_by_row(_read_case),
    rule=_rule,
    metrics=_METRICS,
    words={
        "summarization": gettext("summarization"),
        "exam_questions": gettext("exam questions"),
        "code": gettext("code"),
        "rewriting": gettext("rewriting"),
        "creative_writing": gettext("creative writing"),
        "functional_writing": gettext("functional writing"),
        "general_communication": gettext("general communication"),
        "nlp_tasks": gettext("NLP tasks"),
    },
    short_title="Auto-J",
    main_metric="auto_j/agreement",
    human_labels=True,
)

BENCHMARKS: Final = (AUTO_J,)
