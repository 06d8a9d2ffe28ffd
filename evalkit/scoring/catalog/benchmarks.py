"""The metrics that benchmarks were published with, by their authors' rules; `dataset.benchmark` chooses them."""

from __future__ import annotations

from typing import Final

from evalkit.scoring.catalog.spec import BOTH, NO_INTERVAL, PAIRS, SCORES, Better, MetricSpec

PEARSON, SPEARMAN, KENDALL = "Pearson correlation", "Spearman correlation", "Kendall's tau"


def _share(
    name: str,
    title: str,
    definition: str,
    source: str,
    *,
    headline: bool = False,
    modes: tuple[str, ...] = BOTH,
    better: Better | None = "higher",
) -> MetricSpec:
    """Return a share; `better` is `None` where it measures the models that were judged, or annotators."""
    return MetricSpec(name, title, definition, better=better, headline=headline, source=source, modes=modes)


def _coefficient(
    name: str, title: str, definition: str, source: str, *, headline: bool = False, modes: tuple[str, ...] = SCORES
) -> MetricSpec:
    """Return a coefficient of agreement or correlation."""
    return MetricSpec(
        name,
        title,
        definition,
        unit="coefficient",
        low=-1.0,
        better="higher",
        chance=0.0,
        headline=headline,
        source=source,
        modes=modes,
    )


def _correlations(name: str, title: str, over: str, source: str, *, headline: bool = False) -> list[MetricSpec]:
    """Return the three coefficients of scores and grades by one dimension."""
    names = {
        "pearson": (PEARSON, "Pearson's r"),
        "spearman": (SPEARMAN, "Spearman's rho"),
        "kendall": (KENDALL, "Kendall's tau-b"),
    }
    return [
        _coefficient(
            f"{name}/{end}",
            f"{title}, {words}",
            f"{own} of scores and grades by one dimension, {over}.",
            source,
            headline=headline,
        )
        for end, (words, own) in names.items()
    ]


def _undetermined(name: str, title: str, source: str) -> MetricSpec:
    """Return what stands for the coefficients of a dimension that has none."""
    return MetricSpec(
        name,
        title,
        "Has no value: stands for the coefficients of a dimension that was not judged or not graded.",
        low=None,
        high=None,
        unit="none",
        headline=True,
        source=source,
        interval=NO_INTERVAL,
    )


BENCHMARK_TITLES: Final = {
    "llmbar": "LLMBar",
    "judgebench": "JudgeBench",
    "rewardbench": "RewardBench",
    "rewardbench2": "RewardBench 2",
    "rm_bench": "RM-Bench",
    "mt_bench": "MT-Bench",
    "pandalm": "PandaLM",
    "alpaca_eval": "AlpacaEval",
    "arena_hard": "Arena-Hard",
    "auto_j": "Auto-J",
    "faireval": "FairEval",
    "halluqa": "HalluQA",
    "prometheus": "Prometheus",
    "summeval": "SummEval",
    "topical_chat": "Topical-Chat",
    "helpsteer": "HelpSteer",
}
"""The benchmarks by the first part of their metrics' names; these are the same in every language."""

_POOLED = "over all responses"
_LEVELS = "over all summaries (sample), averaged over documents (summary), or over the systems' means (system)"
_LLMBAR = "Zeng et al. 2024, arXiv 2310.07641, section 4"
_JUDGEBENCH = "Tan et al. 2025, arXiv 2410.12784, section 4.1"
_REWARDBENCH = "Lambert et al. 2024, arXiv 2403.13787, section 4"
_REWARDBENCH2 = "Malik et al. 2025, arXiv 2506.01937, section 4 and appendix"
_RM_BENCH = "Liu et al. 2025, arXiv 2410.16184, section 3.3"
_MT_BENCH = "Zheng et al. 2023, arXiv 2306.05685, section 4.2"
_PANDALM = "Wang et al. 2024, arXiv 2306.05087, section 5"
_ALPACA_EVAL = "Li et al. 2023; Dubois et al. 2024, arXiv 2404.04475, section 2"
_ARENA_HARD = "Li et al. 2024, arXiv 2406.11939, section 4"
_AUTO_J = "Li et al. 2024, arXiv 2310.05470, section 5.1"
_FAIREVAL = "Wang et al. 2024, arXiv 2305.17926, sections 2 to 4"
_HALLUQA = "Cheng et al. 2023, arXiv 2310.03368, section 3"
_PROMETHEUS = "Kim et al. 2024, arXiv 2310.08491, section 5.3"
_SUMMEVAL = "Fabbri et al. 2021, TACL 9, section 5; Zhong et al. 2022, arXiv 2210.07197, section 4.2"
_TOPICAL_CHAT = "Zhong et al. 2022, arXiv 2210.07197, section 4.3"
_HELPSTEER = "Wang et al. 2024, arXiv 2406.08673, section 2"

_ORDERS = "mean of the two orders' accuracies, each set counting the same"
_SAME = "share of the pairs of which both orders name the same output, each set counting the same"
_NET = "share of the labeled pairs whose votes over both orders sum to more than 0: +1 for the label, -1 against it"
_SUBSET = "Share of pairs whose chosen response scores higher than the rejected one; a tie said by the judge is a half"
_VOTES = "share of the annotators' votes that equal the judge's verdict"
_PREFERENCE = "Mean preference for the model's output over the baseline's, a tie being a half"
_CONTROLLED = "Mean preference for the model's output at equal length, predicted by AlpacaEval's own regression"
_SCORED = (
    "Mean of the model's verdicts against the baseline over both orders: win 1, tie 1/2, loss 0, those of much "
    "better or worse counting three times"
)
_HALLUCINATION = "Share of answers judged to be without hallucination"
_INVALID = "an answer whose verdict could not be read counting as hallucinated"

BENCHMARK_ROWS: Final = (
    _share(
        "llmbar/mean_accuracy",
        "mean accuracy of the orders",
        f"Over all sets, the {_ORDERS}.",
        _LLMBAR,
        headline=True,
    ),
    _share(
        "llmbar/agreement_rate",
        "same verdict in both orders",
        f"Over all sets, the {_SAME}.",
        _LLMBAR,
        headline=True,
    ),
    _share(
        "llmbar/mean_accuracy/{set}",
        "mean accuracy of the orders, {set}",
        f"Of one set, or of the adversarial ones, the {_ORDERS}.",
        _LLMBAR,
    ),
    _share(
        "llmbar/agreement_rate/{set}",
        "same verdict in both orders, {set}",
        f"Of one set, or of the adversarial ones, the {_SAME}.",
        _LLMBAR,
    ),
    _share(
        "judgebench/net_vote_accuracy",
        "accuracy by net votes",
        f"The {_NET}.",
        _JUDGEBENCH,
        headline=True,
    ),
    _share(
        "judgebench/net_vote_accuracy/{category}",
        "accuracy by net votes, {category}",
        f"Of one category, the {_NET}.",
        _JUDGEBENCH,
    ),
    _share(
        "rewardbench/score",
        "score",
        "Mean of the sections' accuracies, the prior test sets left out.",
        _REWARDBENCH,
        headline=True,
    ),
    _share(
        "rewardbench/{section}",
        "{section}",
        "A section's accuracy: the mean of its subsets, weighted as published.",
        _REWARDBENCH,
        headline=True,
    ),
    _share("rewardbench/{subset}", "{subset}", f"{_SUBSET}.", _REWARDBENCH, headline=True),
    _share(
        "rewardbench2/score",
        "score",
        "Mean of all subsets.",
        _REWARDBENCH2,
        headline=True,
    ),
    MetricSpec(
        "rewardbench2/ties",
        "score on ties",
        "Weighted score of prompts with several correct answers and their reference prompts with one.",
        "0.3 of the accuracy on each kind, 0.2 of how often the gap between correct and wrong answers exceeds "
        "the spread of correct ones, 0.2 of the same with the reference's gap too, 0.01 of mean tanh(their ratio - 1)",
        unit="score",
        low=-0.01,
        high=1.01,
        better="higher",
        headline=True,
        source=_REWARDBENCH2,
        needs="scores",
    ),
    _share(
        "rewardbench2/{subset}",
        "{subset}",
        "Share of prompts whose chosen response scores higher than the rejected ones; where it shares the highest "
        "score with others, it gets one part of as many.",
        _REWARDBENCH2,
        headline=True,
    ),
    _share(
        "rm_bench/average",
        "average accuracy",
        "Mean of the accuracies of the three levels of difficulty.",
        _RM_BENCH,
        headline=True,
    ),
    _share(
        "rm_bench/{level}",
        "{level}",
        "Share of comparisons of a level of difficulty whose chosen response is strictly better, domains counting the "
        "same: hard where the rejected one is of the fancier style, normal where both are of one, else easy.",
        _RM_BENCH,
        headline=True,
    ),
    _share(
        "rm_bench/{domain}",
        "{domain}",
        "Accuracy of one domain over the three levels; safety is the mean of its two parts.",
        _RM_BENCH,
        headline=True,
    ),
    _share("mt_bench/agreement", "agreement with people", f"The {_VOTES}.", _MT_BENCH, headline=True),
    _share(
        "mt_bench/human_agreement",
        "agreement among people",
        "Share of the pairs of annotators' votes on one pair of responses that are equal.",
        _MT_BENCH,
        headline=True,
        better=None,
    ),
    _share(
        "mt_bench/agreement_without_ties",
        "agreement with people, ties aside",
        f"Of votes and verdicts that are no ties, the {_VOTES}.",
        _MT_BENCH,
        headline=True,
    ),
    _share(
        "mt_bench/human_agreement_without_ties",
        "agreement among people, ties aside",
        "Share of the pairs of annotators' votes that are equal, ties left out.",
        _MT_BENCH,
        headline=True,
        better=None,
    ),
    _share(
        "mt_bench/agreement/{turn}",
        "agreement with people, {turn}",
        f"Of one turn, the {_VOTES}.",
        _MT_BENCH,
    ),
    _share(
        "mt_bench/human_agreement/{turn}",
        "agreement among people, {turn}",
        "Of one turn, the share of the pairs of annotators' votes that are equal.",
        _MT_BENCH,
        better=None,
    ),
    _share(
        "mt_bench/agreement_without_ties/{turn}",
        "agreement with people, ties aside, {turn}",
        f"Of one turn's votes and verdicts that are no ties, the {_VOTES}.",
        _MT_BENCH,
    ),
    _share(
        "mt_bench/human_agreement_without_ties/{turn}",
        "agreement among people, ties aside, {turn}",
        "Of one turn, the share of the pairs of annotators' votes that are equal, ties left out.",
        _MT_BENCH,
        better=None,
    ),
    _share(
        "mt_bench/win_rate/{model}",
        "win rate, {model}",
        "A model's share of wins over all pairs it is in, a tie counting half.",
        _MT_BENCH,
        headline=True,
        modes=PAIRS,
        better=None,
    ),
    MetricSpec(
        "mt_bench/score/{model}",
        "score, {model}",
        "A model's mean score over all turns.",
        unit="units of the scale",
        low=None,
        high=None,
        headline=True,
        source=_MT_BENCH,
        modes=SCORES,
    ),
    MetricSpec(
        "mt_bench/score/{model}/{turn}",
        "score, {model}, {turn}",
        "A model's mean score of one turn.",
        unit="units of the scale",
        low=None,
        high=None,
        source=_MT_BENCH,
        modes=SCORES,
    ),
    _share(
        "pandalm/accuracy",
        "accuracy",
        "Share of pairs whose verdict is the majority of the annotators, the first one's choice where all differ.",
        _PANDALM,
        headline=True,
    ),
    _share(
        "pandalm/precision",
        "macro precision",
        "Mean over A, tie and B of the share of verdicts of a class that are right.",
        _PANDALM,
        headline=True,
    ),
    _share(
        "pandalm/recall",
        "macro recall",
        "Mean over A, tie and B of the share of labels of a class that the verdict equals.",
        _PANDALM,
        headline=True,
    ),
    _share(
        "pandalm/f1",
        "macro F1",
        "Mean over A, tie and B of the harmonic mean of precision and recall.",
        _PANDALM,
        headline=True,
    ),
    _share(
        "alpaca_eval/win_rate",
        "win rate",
        f"{_PREFERENCE}.",
        _ALPACA_EVAL,
        headline=True,
        better=None,
    ),
    _share(
        "alpaca_eval/length_controlled_win_rate",
        "length-controlled win rate",
        f"{_CONTROLLED}; needs all its instructions and its df_gamed.csv.",
        "Dubois et al. 2024, arXiv 2404.04475, section 3",
        headline=True,
        better=None,
    ),
    _share(
        "alpaca_eval/win_rate/{model}",
        "win rate, {model}",
        f"{_PREFERENCE}, of one model.",
        _ALPACA_EVAL,
        headline=True,
        better=None,
    ),
    _share(
        "alpaca_eval/length_controlled_win_rate/{model}",
        "length-controlled win rate, {model}",
        f"{_CONTROLLED}, of one model.",
        "Dubois et al. 2024, arXiv 2404.04475, section 3",
        headline=True,
        better=None,
    ),
    _share("arena_hard/score", "score", f"{_SCORED}.", _ARENA_HARD, headline=True, better=None),
    _share(
        "arena_hard/score/{part}",
        "score, {part}",
        f"{_SCORED}; of one model, or of one category where there is one model.",
        _ARENA_HARD,
        headline=True,
        better=None,
    ),
    _share(
        "arena_hard/score/{model}/{category}",
        "score, {model}, {category}",
        f"{_SCORED}; of one model and category.",
        _ARENA_HARD,
        better=None,
    ),
    _share(
        "auto_j/agreement",
        "agreement with people",
        "Share of the labeled pairs whose verdict equals the annotators' label in both orders.",
        _AUTO_J,
        headline=True,
    ),
    _share(
        "auto_j/agreement/{scenario}",
        "agreement with people, {scenario}",
        "Of one group of scenarios, the share of the labeled pairs whose verdict equals the label in both orders.",
        _AUTO_J,
    ),
    _share(
        "auto_j/consistency",
        "consistency",
        "Share of the pairs with one verdict in both orders.",
        _AUTO_J,
        headline=True,
    ),
    _share(
        "auto_j/consistency/{scenario}",
        "consistency, {scenario}",
        "Of one group of scenarios, the share of the pairs with one verdict in both orders.",
        _AUTO_J,
    ),
    _share(
        "faireval/accuracy",
        "accuracy",
        "Share of the labeled pairs whose verdict, the sign of the mean over all samples and both orders, equals the "
        "label.",
        _FAIREVAL,
        headline=True,
    ),
    _coefficient(
        "faireval/kappa",
        "Cohen's kappa",
        "Cohen's kappa of these verdicts and the labels over win, tie and lose.",
        _FAIREVAL,
        headline=True,
        modes=BOTH,
    ),
    MetricSpec(
        "faireval/conflict_rate",
        "orders that conflict",
        "Share of the pairs whose two orders give different verdicts.",
        better="lower",
        headline=True,
        source=_FAIREVAL,
    ),
    _share(
        "halluqa/non_hallucination_rate",
        "answers without hallucination",
        f"{_HALLUCINATION}.",
        _HALLUQA,
        headline=True,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate_strict",
        "answers without hallucination, invalid ones counted",
        f"{_HALLUCINATION}, {_INVALID}.",
        _HALLUQA,
        headline=True,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate/{part}",
        "answers without hallucination, {part}",
        f"{_HALLUCINATION}; of one model, or of one kind of question where there is one model.",
        _HALLUQA,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate_strict/{part}",
        "answers without hallucination, invalid ones counted, {part}",
        f"{_HALLUCINATION}, {_INVALID}; of one model, or of one kind of question where there is one model.",
        _HALLUQA,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate/{model}/{category}",
        "answers without hallucination, {model}, {category}",
        f"{_HALLUCINATION}; of one model and kind of question.",
        _HALLUQA,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate_strict/{model}/{category}",
        "answers without hallucination, invalid ones counted, {model}, {category}",
        f"{_HALLUCINATION}, {_INVALID}; of one model and kind of question.",
        _HALLUQA,
        better=None,
    ),
    _coefficient(
        "prometheus/pearson",
        "Pearson correlation",
        "Pearson's r of scores, samples averaged, and reference scores over all responses.",
        _PROMETHEUS,
        headline=True,
    ),
    _coefficient(
        "prometheus/kendall",
        "Kendall's tau",
        "Kendall's tau-b of scores, samples averaged, and reference scores over all responses.",
        _PROMETHEUS,
        headline=True,
    ),
    _coefficient(
        "prometheus/spearman",
        "Spearman correlation",
        "Spearman's rho of scores, samples averaged, and reference scores over all responses.",
        _PROMETHEUS,
        headline=True,
    ),
    *_correlations("summeval/overall/{grouping}", "overall, {grouping}", _LEVELS, _SUMMEVAL, headline=True),
    *_correlations("summeval/{dimension}/{grouping}", "{dimension}, {grouping}", _LEVELS, _SUMMEVAL),
    _undetermined("summeval/{dimension}", "{dimension}", _SUMMEVAL),
    *_correlations("topical_chat/{dimension}", "{dimension}", _POOLED, _TOPICAL_CHAT),
    _undetermined("topical_chat/{dimension}", "{dimension}", _TOPICAL_CHAT),
    *_correlations("topical_chat/overall", "overall", _POOLED, _TOPICAL_CHAT, headline=True),
    _coefficient(
        "helpsteer/{dimension}/weighted_kappa",
        "{dimension}, quadratic kappa",
        "Cohen's kappa with quadratic weights of scores and grades by one attribute.",
        _HELPSTEER,
    ),
    _coefficient(
        "helpsteer/{dimension}/pearson",
        "{dimension}, Pearson correlation",
        "Pearson's r of scores and grades by one attribute.",
        _HELPSTEER,
    ),
    _undetermined("helpsteer/{dimension}", "{dimension}", _HELPSTEER),
    _share(
        "helpsteer/preference_accuracy",
        "accuracy on preferences",
        "Share of the preferences that are no ties whose verdict is the same; a verdict of tie is wrong.",
        "Wang et al. 2025, arXiv 2410.01257",
        headline=True,
    ),
)
