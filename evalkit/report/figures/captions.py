"""Words of the figures in every language: title and caption of each, and the names in them."""

from __future__ import annotations

from evalkit.core.translation import Text, gettext, in_every_language, pgettext
from evalkit.report.metric_names import Words

BARS = gettext(
    "Dot: value. Thick line: {level} interval, cases resampled. Thin line: if every missing answer had gone "
    "against or for it. Dashed: chance."
)

_FIGURES: dict[str, tuple[Text, Text]] = {
    "rates": (gettext("Main rates with their intervals"), BARS),
    "coefficients": (gettext("Coefficients of agreement"), gettext("As above; 0 is chance.")),
    "ranking": (
        gettext("Ranking of the systems"),
        gettext(
            "Ratings of Bradley and Terry with ties, in Elo's points, with {level} intervals, cases resampled: 400 "
            "points are ten wins to one loss. By the judge's verdicts, biases included."
        ),
    ),
    "ranking_rates": (
        gettext("Win rates of the systems"),
        gettext(
            "Ties count as half; {level} intervals, cases resampled. Ratings are not determined: some system won, or "
            "lost, every game."
        ),
    ),
    "confusion": (
        gettext("Labels against verdicts"),
        gettext("Shade: the share of its row. On the diagonal both agree."),
    ),
    "passes": (
        gettext("What the two orders said"),
        gettext(
            "Pairs by what was said when A stood first and when B did. A judge that goes by the text stays on the "
            "diagonal; one that goes by place falls into the corners beside it."
        ),
    ),
    "lengths": (
        gettext("Length"),
        gettext(
            "How often the longer response won, of decided pairs, by how much longer it is; numbers of pairs beside, "
            "{level} intervals over cases. Above one half may be quality, too."
        ),
    ),
    "reliability": (
        gettext("Reliability of its confidence"),
        gettext(
            "How often it is right at each stated confidence; larger dots are more pairs, {level} intervals "
            "over cases. On the dashed line confidence is worth what it says."
        ),
    ),
    "frontier": (
        gettext("What a tie threshold buys"),
        gettext(
            "Each dot is a threshold that changes something: more ties against agreement with labels and against ties "
            "that do not carry over. The large dot is the one in use."
        ),
    ),
    "scores": (
        gettext("Scores given"),
        gettext("Share of responses by score; people's grades are on their own scale."),
    ),
    "cycles": (
        gettext("Verdicts that run in circles"),
        gettext(
            "Arrows go from winner to loser. Reversing the dashed ones is the least that would end all circles of the "
            "case. Names of the responses are in the cases below."
        ),
    ),
    "corrected": (
        gettext("Rates, and what labels make of them"),
        gettext(
            "Faint: as judged. Below each: corrected by the labelled part (prediction-powered inference), which holds "
            "if the labelled ones were chosen at random. {level} intervals."
        ),
    ),
    "costs": (
        gettext("What the answers took"),
        gettext(
            "Tokens of prompts (blue) and answers (orange) for a case, money, and the latency of half and of nine "
            "tenths of the answers: of every answer when it was made, those from the store included."
        ),
    ),
    "by_metric": (
        gettext("By metric"),
        gettext("Best first; {level} intervals, cases resampled."),
    ),
    "front": (
        gettext("What agreement costs"),
        gettext(
            "On the line: better than chance, and no other is shown to agree as well for less. Vertical lines: {level} "
            "intervals. Stored answers count with what they cost."
        ),
    ),
    "told_apart": (
        gettext("Which configurations differ"),
        gettext(
            "Filled: the two differ significantly (Holm over all pairs, {level}). Empty: not shown to differ, which "
            "does not show that they are equal."
        ),
    ),
}

_FIGURES["reliability_after"] = (
    _FIGURES["reliability"][0],
    gettext("{caption} Other lines: recalibrated out of fold.", caption=_FIGURES["reliability"][1]),
)
_FIGURES["ranking_points"] = (
    _FIGURES["ranking"][0],
    gettext(
        "Ratings of Bradley and Terry with ties, in Elo's points: 400 points are ten wins to one loss. These cases "
        "determine no intervals: the order may be chance."
    ),
)

FIGURES: dict[str, tuple[Words, Words]] = {
    name: (in_every_language(title), in_every_language(caption)) for name, (title, caption) in _FIGURES.items()
}
"""Title and caption of each figure."""

_LABELS: dict[str, Text] = {
    "confidence": gettext("stated confidence, %"),
    "accuracy": gettext("right, % of labelled pairs"),
    "stated": gettext("as stated"),
    "temperature": gettext("by temperature"),
    "isotonic": gettext("isotonic"),
    "tie_rate": gettext("ties, %"),
    "share": gettext("%"),
    "decided_accuracy": gettext("right, % of decided pairs"),
    "weak_rate": gettext("cases whose ties do not carry over"),
    "longer_wins": gettext("longer response wins, %"),
    "times_longer": gettext("times as long"),
    "score": pgettext("axis", "score"),
    "judge": gettext("judge"),
    "people": gettext("people"),
    "a": gettext("A wins"),
    "b": gettext("B wins"),
    "tie": gettext("tie"),
    "missing": gettext("missing"),
    "label": gettext("label"),
    "verdict": gettext("verdict"),
    "first_order": gettext("A first"),
    "second_order": gettext("B first"),
    "cost": gettext("US$ a case"),
    "tokens_a_case": gettext("tokens for a case"),
}

LABELS: dict[str, Words] = {name: in_every_language(text) for name, text in _LABELS.items()}
