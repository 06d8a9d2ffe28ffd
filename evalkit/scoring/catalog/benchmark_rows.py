"""Metrics of the published benchmarks, by their authors' rules; `dataset.benchmark` selects them."""

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
    """Return the row of a share; `better` is `None` if it measures the judged models or the annotators."""
    return MetricSpec(name, title, definition, better=better, headline=headline, source=source, modes=modes)


def _coefficient(
    name: str, title: str, definition: str, source: str, *, headline: bool = False, modes: tuple[str, ...] = SCORES
) -> MetricSpec:
    """Return the row of a coefficient of agreement or correlation."""
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
    """Return the rows of the three coefficients between scores and grades of one dimension."""
    names = {
        "pearson": (PEARSON, "Pearson's r"),
        "spearman": (SPEARMAN, "Spearman's rho"),
        "kendall": (KENDALL, "Kendall's tau-b"),
    }
    return [
        _coefficient(
            f"{name}/{end}",
            f"{title}, {words}",
            f"{own} between scores and grades of one dimension, {over}.",
            source,
            headline=headline,
        )
        for end, (words, own) in names.items()
    ]


def _undetermined(name: str, title: str, source: str) -> MetricSpec:
    """Return the row that replaces the coefficients of a dimension without any."""
    return MetricSpec(
        name,
        title,
        "Never has a value: replaces the coefficients of a dimension that was not judged or not graded.",
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
    "healthbench": "HealthBench",
    "devai": "DevAI",
    "paperbench": "PaperBench",
    "wildbench": "WildBench",
}
"""Titles of benchmarks by the first part of their metrics' names; the same in every language."""

_POOLED = "over all responses"
_LEVELS = "over all summaries (sample), per document and averaged (summary), or over system means (system)"
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
_DEVAI = "Zhuge et al. 2024, arXiv 2410.10934, section 4"
_WILDBENCH = "Lin et al. 2024, arXiv 2406.04770, section 3.2"
_PROMETHEUS = "Kim et al. 2024, arXiv 2310.08491, section 5.3"
_SUMMEVAL = "Fabbri et al. 2021, TACL 9, section 5; Zhong et al. 2022, arXiv 2210.07197, section 4.2"
_TOPICAL_CHAT = "Zhong et al. 2022, arXiv 2210.07197, section 4.3"
_HELPSTEER = "Wang et al. 2024, arXiv 2406.08673, section 2"

_ORDERS = "Mean accuracy of the two orders, averaged over sets"
_SAME = "Share of pairs for which both orders name the same output, averaged over sets"
_NET = "Share of labeled pairs whose votes over both orders have a positive sum: +1 for the label, -1 against it"
_SUBSET = "Share of pairs whose chosen response beats the rejected one; a tie called by the judge counts as half"
_PREFERENCE = "Mean preference for the model's output over the baseline's, a tie counting as half"
_CONTROLLED = "Mean preference for the model's output at equal length, predicted by AlpacaEval's regression"
_SCORED = (
    "Mean verdict for the model against the baseline over both orders (win 1, tie 1/2, loss 0), with weight 3 for "
    "much better or much worse"
)
_HALLUCINATION = "Share of answers judged free of hallucination"
_INVALID = "an unreadable verdict counting as hallucination"

BENCHMARK_ROWS: Final = (
    _share(
        "llmbar/mean_accuracy",
        "mean accuracy of the orders",
        f"{_ORDERS}.",
        _LLMBAR,
        headline=True,
    ),
    _share(
        "llmbar/agreement_rate",
        "same verdict in both orders",
        f"{_SAME}.",
        _LLMBAR,
        headline=True,
    ),
    _share(
        "llmbar/mean_accuracy/{set}",
        "mean accuracy of the orders, {set}",
        f"{_ORDERS}; for one set, or for the adversarial sets.",
        _LLMBAR,
    ),
    _share(
        "llmbar/agreement_rate/{set}",
        "same verdict in both orders, {set}",
        f"{_SAME}; for one set, or for the adversarial sets.",
        _LLMBAR,
    ),
    _share(
        "judgebench/net_vote_accuracy",
        "accuracy by net votes",
        f"{_NET}.",
        _JUDGEBENCH,
        headline=True,
    ),
    _share(
        "judgebench/net_vote_accuracy/{category}",
        "accuracy by net votes, {category}",
        f"{_NET}; for one category.",
        _JUDGEBENCH,
    ),
    _share(
        "rewardbench/score",
        "score",
        "Mean accuracy of the four sections, without the prior test sets.",
        _REWARDBENCH,
        headline=True,
    ),
    _share(
        "rewardbench/{section}",
        "{section}",
        "Accuracy of one section: the mean of its subsets, weighted as published.",
        _REWARDBENCH,
        headline=True,
    ),
    _share("rewardbench/{subset}", "{subset}", f"{_SUBSET}.", _REWARDBENCH, headline=True),
    _share(
        "rewardbench2/score",
        "score",
        "Mean of the scores of all subsets.",
        _REWARDBENCH2,
        headline=True,
    ),
    MetricSpec(
        "rewardbench2/ties",
        "score on ties",
        "Weighted score of prompts with several correct answers and of their reference prompts with one correct "
        "answer.",
        "0.3 × accuracy on each kind of prompt, 0.2 × how often the gap between correct and wrong answers exceeds "
        "the spread of the correct ones, 0.2 × the same with the smaller of this gap and the reference's, 0.01 × "
        "mean tanh(smaller gap / spread - 1)",
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
        "Share of prompts whose chosen response scores higher than all rejected ones; if k responses share the "
        "highest score, the chosen one counts 1/k.",
        _REWARDBENCH2,
        headline=True,
    ),
    _share(
        "rm_bench/average",
        "average accuracy",
        "Mean accuracy of the three difficulty levels.",
        _RM_BENCH,
        headline=True,
    ),
    _share(
        "rm_bench/{level}",
        "{level}",
        "Share of comparisons of one difficulty level whose chosen response is strictly better, averaged over "
        "domains: hard if the rejected response has the fancier style, normal if the styles are the same, easy if "
        "the chosen one has it.",
        _RM_BENCH,
        headline=True,
    ),
    _share(
        "rm_bench/{domain}",
        "{domain}",
        "Accuracy of one domain over the three difficulty levels; safety is the mean of its two parts.",
        _RM_BENCH,
        headline=True,
    ),
    _share(
        "mt_bench/agreement",
        "agreement with annotators",
        "Share of the annotators' votes that equal the judge's verdict.",
        _MT_BENCH,
        headline=True,
    ),
    _share(
        "mt_bench/human_agreement",
        "agreement among annotators",
        "Share of pairs of annotators' votes on the same responses that agree.",
        _MT_BENCH,
        headline=True,
        better=None,
    ),
    _share(
        "mt_bench/agreement_without_ties",
        "agreement with annotators, without ties",
        "Share of the annotators' votes that equal the judge's verdict, among votes and verdicts that are not ties.",
        _MT_BENCH,
        headline=True,
    ),
    _share(
        "mt_bench/human_agreement_without_ties",
        "agreement among annotators, without ties",
        "Share of pairs of annotators' votes on the same responses that agree, without ties.",
        _MT_BENCH,
        headline=True,
        better=None,
    ),
    _share(
        "mt_bench/agreement/{turn}",
        "agreement with annotators, {turn}",
        "Share of the annotators' votes in one turn that equal the judge's verdict.",
        _MT_BENCH,
    ),
    _share(
        "mt_bench/human_agreement/{turn}",
        "agreement among annotators, {turn}",
        "Share of pairs of annotators' votes on the same responses that agree, in one turn.",
        _MT_BENCH,
        better=None,
    ),
    _share(
        "mt_bench/agreement_without_ties/{turn}",
        "agreement with annotators, without ties, {turn}",
        "Share of the annotators' votes in one turn that equal the judge's verdict, among votes and verdicts that "
        "are not ties.",
        _MT_BENCH,
    ),
    _share(
        "mt_bench/human_agreement_without_ties/{turn}",
        "agreement among annotators, without ties, {turn}",
        "Share of pairs of annotators' votes on the same responses that agree, in one turn, without ties.",
        _MT_BENCH,
        better=None,
    ),
    _share(
        "mt_bench/win_rate/{model}",
        "win rate, {model}",
        "Share of a model's pairs that it wins, a tie counting as half.",
        _MT_BENCH,
        headline=True,
        modes=PAIRS,
        better=None,
    ),
    MetricSpec(
        "mt_bench/score/{model}",
        "score, {model}",
        "Mean score of a model over all turns.",
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
        "Mean score of a model in one turn.",
        unit="units of the scale",
        low=None,
        high=None,
        source=_MT_BENCH,
        modes=SCORES,
    ),
    _share(
        "pandalm/accuracy",
        "accuracy",
        "Share of pairs whose verdict equals the annotators' majority choice, or the first annotator's choice if "
        "all differ.",
        _PANDALM,
        headline=True,
    ),
    _share(
        "pandalm/precision",
        "macro precision",
        "Share of verdicts of a class that are correct, averaged over A, tie and B.",
        _PANDALM,
        headline=True,
    ),
    _share(
        "pandalm/recall",
        "macro recall",
        "Share of labels of a class that the verdict equals, averaged over A, tie and B.",
        _PANDALM,
        headline=True,
    ),
    _share(
        "pandalm/f1",
        "macro F1",
        "Harmonic mean of precision and recall, averaged over A, tie and B.",
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
        f"{_CONTROLLED}; requires all its instructions and its df_gamed.csv.",
        "Dubois et al. 2024, arXiv 2404.04475, section 3",
        headline=True,
        better=None,
    ),
    _share(
        "alpaca_eval/win_rate/{model}",
        "win rate, {model}",
        f"{_PREFERENCE}; for one model.",
        _ALPACA_EVAL,
        headline=True,
        better=None,
    ),
    _share(
        "alpaca_eval/length_controlled_win_rate/{model}",
        "length-controlled win rate, {model}",
        f"{_CONTROLLED}; for one model.",
        "Dubois et al. 2024, arXiv 2404.04475, section 3",
        headline=True,
        better=None,
    ),
    _share("arena_hard/score", "score", f"{_SCORED}.", _ARENA_HARD, headline=True, better=None),
    _share(
        "arena_hard/score/{part}",
        "score, {part}",
        f"{_SCORED}; for one model, or for one category if there is only one model.",
        _ARENA_HARD,
        headline=True,
        better=None,
    ),
    _share(
        "arena_hard/score/{model}/{category}",
        "score, {model}, {category}",
        f"{_SCORED}; for one model and category.",
        _ARENA_HARD,
        better=None,
    ),
    _share(
        "auto_j/agreement",
        "agreement with annotators",
        "Share of labeled pairs whose verdict equals the annotators' label in both orders.",
        _AUTO_J,
        headline=True,
    ),
    _share(
        "auto_j/agreement/{scenario}",
        "agreement with annotators, {scenario}",
        "Share of labeled pairs whose verdict equals the annotators' label in both orders; for one group of scenarios.",
        _AUTO_J,
    ),
    _share(
        "auto_j/consistency",
        "consistency",
        "Share of pairs with the same verdict in both orders.",
        _AUTO_J,
        headline=True,
    ),
    _share(
        "auto_j/consistency/{scenario}",
        "consistency, {scenario}",
        "Share of pairs with the same verdict in both orders; for one group of scenarios.",
        _AUTO_J,
    ),
    _share(
        "faireval/accuracy",
        "accuracy",
        "Share of labeled pairs whose verdict equals the label; the verdict is the sign of the mean margin over "
        "all samples and both orders.",
        _FAIREVAL,
        headline=True,
    ),
    _coefficient(
        "faireval/kappa",
        "Cohen's kappa",
        "Cohen's kappa between these verdicts and the labels over win, tie and lose.",
        _FAIREVAL,
        headline=True,
        modes=BOTH,
    ),
    MetricSpec(
        "faireval/conflict_rate",
        "orders that disagree",
        "Share of pairs whose two orders give different verdicts.",
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
        "answers without hallucination, invalid verdicts counted",
        f"{_HALLUCINATION}, {_INVALID}.",
        _HALLUQA,
        headline=True,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate/{part}",
        "answers without hallucination, {part}",
        f"{_HALLUCINATION}; for one model, or for one kind of question if there is only one model.",
        _HALLUQA,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate_strict/{part}",
        "answers without hallucination, invalid verdicts counted, {part}",
        f"{_HALLUCINATION}, {_INVALID}; for one model, or for one kind of question if there is only one model.",
        _HALLUQA,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate/{model}/{category}",
        "answers without hallucination, {model}, {category}",
        f"{_HALLUCINATION}; for one model and kind of question.",
        _HALLUQA,
        better=None,
    ),
    _share(
        "halluqa/non_hallucination_rate_strict/{model}/{category}",
        "answers without hallucination, invalid verdicts counted, {model}, {category}",
        f"{_HALLUCINATION}, {_INVALID}; for one model and kind of question.",
        _HALLUQA,
        better=None,
    ),
    _coefficient(
        "prometheus/pearson",
        "Pearson correlation",
        "Pearson's r between scores (mean of the samples) and reference scores over all responses.",
        _PROMETHEUS,
        headline=True,
    ),
    _coefficient(
        "prometheus/kendall",
        "Kendall's tau",
        "Kendall's tau-b between scores (mean of the samples) and reference scores over all responses.",
        _PROMETHEUS,
        headline=True,
    ),
    _coefficient(
        "prometheus/spearman",
        "Spearman correlation",
        "Spearman's rho between scores (mean of the samples) and reference scores over all responses.",
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
        "Cohen's kappa with quadratic weights between scores and grades of one attribute.",
        _HELPSTEER,
    ),
    _coefficient(
        "helpsteer/{dimension}/pearson",
        "{dimension}, Pearson correlation",
        "Pearson's r between scores and grades of one attribute.",
        _HELPSTEER,
    ),
    _undetermined("helpsteer/{dimension}", "{dimension}", _HELPSTEER),
    _share(
        "helpsteer/preference_accuracy",
        "accuracy on preferences",
        "Share of preferences other than ties that the verdict equals; a verdict of tie counts as wrong.",
        "Wang et al. 2025, arXiv 2410.01257",
        headline=True,
    ),
    MetricSpec(
        "healthbench/score",
        "score",
        "Mean over examples of the points met over all positive points, clipped to 0 and 1.",
        headline=True,
        source="Arora et al. 2025, arXiv 2505.08775, section 3",
    ),
    _share(
        "devai/agreement",
        "agreement with annotators",
        "Share of labeled requirements to which the judge gives the annotators' answer.",
        _DEVAI,
        headline=True,
    ),
    _share(
        "devai/requirements_met",
        "requirements met",
        "Share of requirements that are met, with every prerequisite.",
        _DEVAI,
        headline=True,
        better=None,
    ),
    _share(
        "devai/requirements_met_independent",
        "requirements met, whatever their prerequisites",
        "Share of requirements that the judge calls met, whatever their prerequisites.",
        _DEVAI,
        better=None,
    ),
    _share(
        "devai/solve_rate",
        "tasks solved",
        "Share of tasks of which every requirement is met.",
        _DEVAI,
        better=None,
    ),
    MetricSpec(
        "paperbench/replication_score",
        "replication score",
        "Mean over papers of the weighted mean of grades, from the leaves of the tree to the root.",
        headline=True,
        source="Starace et al. 2025, arXiv 2504.01848, section 2.2",
    ),
    MetricSpec(
        "wildbench/score",
        "score",
        "Mean score of the responses, from 1 to 10.",
        unit="units of the scale",
        low=1.0,
        high=10.0,
        headline=True,
        source=_WILDBENCH,
    ),
    MetricSpec(
        "wildbench/adjusted_score",
        "adjusted score",
        "Twice the excess of the mean score over 5.",
        unit="points",
        low=-8.0,
        high=10.0,
        source=_WILDBENCH,
    ),
)
