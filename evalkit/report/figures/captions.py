"""Titles, captions and labels of the figures in every language."""

from __future__ import annotations

from evalkit.core.translation import Text, gettext, in_every_language, pgettext
from evalkit.report.metric_names import Words

BARS = gettext(
    "Dot: value. Thick line: {level} interval from resampling cases. Thin line: worst-case bounds over missing "
    "answers. Dashed line: chance."
)

_FIGURES: dict[str, tuple[Text, Text]] = {
    "rates": (gettext("Main rates with intervals"), BARS),
    "coefficients": (gettext("Agreement coefficients"), gettext("As above. 0 is chance.")),
    "classes": (gettext("By class"), gettext("As above. Precision, recall and F1 are of the labeled responses.")),
    "ranking": (
        gettext("Ranking of the systems"),
        gettext(
            "Bradley-Terry ratings with ties, on the Elo scale: 400 points mean ten wins to one loss. {level} "
            "intervals from resampling cases. The ratings follow the judge's verdicts, including their biases."
        ),
    ),
    "ranking_rates": (
        gettext("Win rates of the systems"),
        gettext(
            "A tie counts as half a win. {level} intervals from resampling cases. Ratings are not determined, because "
            "a system won or lost every comparison."
        ),
    ),
    "confusion": (
        gettext("Labels against verdicts"),
        gettext("Shade: share of the row. On the diagonal, label and verdict agree."),
    ),
    "passes": (
        gettext("Verdicts in the two orders"),
        gettext(
            "Pairs by verdict with A first and with B first. A judge that follows the text stays on the diagonal; a "
            "judge that follows the position falls into the corners off the diagonal."
        ),
    ),
    "lengths": (
        gettext("Response length"),
        gettext(
            "Share of decided pairs that the longer response won, by how much longer it is, with the number of pairs "
            "and {level} intervals from resampling cases. More than one half may also be due to quality."
        ),
    ),
    "reliability": (
        gettext("Confidence calibration"),
        gettext(
            "Accuracy at each stated confidence. Larger dots are more pairs. {level} intervals from resampling cases. "
            "On the dashed line, the confidence is calibrated."
        ),
    ),
    "frontier": (
        gettext("Effect of the tie threshold"),
        gettext(
            "Each dot is a threshold at which a verdict changes: ties against agreement with the labels, and against "
            "ties that are not transitive. The large dot is the threshold in use."
        ),
    ),
    "scores": (
        gettext("Score distribution"),
        gettext("Share of responses by score. The annotators' grades are on their own scale."),
    ),
    "cycles": (
        gettext("Cyclic verdicts"),
        gettext(
            "Arrows point from winner to loser. The dashed arrows are the smallest set whose reversal removes all "
            "cycles of the case. The cases below name the responses."
        ),
    ),
    "corrected": (
        gettext("Rates corrected by labels"),
        gettext(
            "Faint: as judged. Below: corrected by the labeled cases (prediction-powered inference), which is valid "
            "if the labeled cases were chosen at random. {level} intervals."
        ),
    ),
    "costs": (
        gettext("Tokens, cost and latency"),
        gettext(
            "Per case: tokens of prompts (blue) and answers (orange), and cost. Latency: median and 90th percentile "
            "of all answers, including those from the store."
        ),
    ),
    "front": (
        gettext("Agreement against cost"),
        gettext(
            "On the line: useful, and no other useful configuration is shown to agree as well at a lower cost. "
            "Vertical lines: {level} intervals. Stored answers count at their original cost."
        ),
    ),
    "differences": (
        gettext("Which configurations differ"),
        gettext(
            "Filled: the two differ significantly (Holm over all pairs, {level}). Empty: no significant difference, "
            "which does not show that they are equal."
        ),
    ),
}

_FIGURES["reliability_after"] = (
    _FIGURES["reliability"][0],
    gettext("{caption} Other lines: recalibrated, by cross-validation.", caption=_FIGURES["reliability"][1]),
)
_FIGURES["ranking_points"] = (
    _FIGURES["ranking"][0],
    gettext(
        "Bradley-Terry ratings with ties, on the Elo scale: 400 points mean ten wins to one loss. These cases "
        "determine no intervals: the order may be due to chance."
    ),
)

FIGURES: dict[str, tuple[Words, Words]] = {
    name: (in_every_language(title), in_every_language(caption)) for name, (title, caption) in _FIGURES.items()
}
"""Title and caption of each figure."""

_LABELS: dict[str, Text] = {
    "confidence": gettext("stated confidence, %"),
    "accuracy": gettext("correct, % of labeled pairs"),
    "stated": gettext("as stated"),
    "temperature": gettext("temperature scaling"),
    "isotonic": gettext("isotonic"),
    "tie_rate": gettext("ties, %"),
    "share": gettext("%"),
    "decided_accuracy": gettext("correct, % of decided pairs"),
    "weak_rate": gettext("cases with non-transitive ties"),
    "longer_wins": gettext("longer response wins, %"),
    "times_longer": gettext("times as long"),
    "score": pgettext("axis", "score"),
    "judge": gettext("judge"),
    "people": gettext("annotators"),
    "a": gettext("A wins"),
    "b": gettext("B wins"),
    "tie": gettext("tie"),
    "missing": gettext("missing"),
    "label": gettext("label"),
    "verdict": gettext("verdict"),
    "first_order": gettext("A first"),
    "second_order": gettext("B first"),
    "cost": gettext("$ per case"),
    "tokens_a_case": gettext("tokens per case"),
}

LABELS: dict[str, Words] = {name: in_every_language(text) for name, text in _LABELS.items()}
