"""Each benchmark's own metric, by hand on the small files."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score, f1_score, precision_score, recall_score

from evalkit.config import RunConfig
from evalkit.core.benchmark_discovery import iter_benchmarks
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.catalog import full_catalog
from evalkit.scoring.pipeline import score_run

A, B, TIE, LOST = 1.0, -1.0, 0.0, None
SCALE = {"min": 0, "max": 10}
SCALES = pytest.mark.parametrize(
    ("scale", "shift"), [(SCALE, 0), ({"real": True}, -7.5)], ids=["scores", "rewards"]
)
"""The rules of reward models depend on differences only, so rewards without ends give the same."""


def test_every_benchmark_that_is_read_has_a_rule_and_a_place_in_tables():
    assert {one.name for one in iter_benchmarks()} == {
        row.group for row in full_catalog().rows if row.benchmark
    }
    assert all(callable(benchmark.rule) for benchmark in iter_benchmarks())


def test_an_unknown_benchmark_has_no_rule():
    config = RunConfig(
        judge={"model": "m"}, criteria=[{"name": "q"}], dataset={"benchmark": "llmbars"}
    )
    with pytest.raises(ConfigError, match="did you mean 'llmbar'"):
        score_run(config, [], [])


def test_llmbar_is_the_mean_of_orders_and_then_of_sets(measure):
    found = measure(
        "llmbar",
        {
            "natural/1": (A, A),  # label A: right in both orders
            "natural/2": (B, A),  # label B: right in one
            "neighbor/1": (B, B),  # label B: right in both
            "neighbor/2": (A, TIE),  # label A: right in one, a tie is wrong
            "manual/1": (B, A),  # label A: right in one
        },
    )
    assert found["mean_accuracy/natural"].value == pytest.approx((1 + 1 / 2) / 2)
    assert found["mean_accuracy/neighbor"].value == pytest.approx((1 + 1 / 2) / 2)
    assert found["mean_accuracy/manual"].value == pytest.approx((0 + 1) / 2)
    assert found["mean_accuracy/adversarial"].value == pytest.approx((0.75 + 0.5) / 2)
    whole = found["mean_accuracy"]
    assert whole.value == pytest.approx((0.75 + 0.75 + 0.5) / 3)
    assert (whole.n, whole.missing, whole.note.split(";")[0]) == (10, 0, "without gptinst, gptout")
    assert whole.low <= whole.value <= whole.high
    assert found["agreement_rate"].value == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)


def test_llmbar_counts_what_could_not_be_read_as_wrong_only_in_its_bound(measure):
    judged = {
        "natural/1": (A, LOST),
        "natural/2": (B, B),
        "neighbor/1": (B, B),
        "neighbor/2": (A, A),
        "manual/1": (A, A),
    }
    found = measure("llmbar", judged)["mean_accuracy/natural"]
    assert (found.value, found.missing) == (1.0, 1)
    assert (found.worst_low, found.worst_high) == pytest.approx((0.75, 1.0))


def test_llmbar_of_one_order_has_no_agreement(measure):
    judged = {
        "natural/1": (A,),
        "natural/2": (A,),
        "neighbor/1": (B,),
        "neighbor/2": (A,),
        "manual/1": (A,),
    }
    found = measure("llmbar", judged, swap={"policy": "none"})
    assert found["mean_accuracy/natural"].value == 0.5
    assert found["agreement_rate"].value is None
    assert "swap=both" in found["agreement_rate"].note


def test_judgebench_takes_the_net_vote(measure):
    found = measure(
        "judgebench",
        {
            "p1": (A, A),  # A: +2, right
            "p2": (B, TIE),  # B: +1, right
            "p3": (A, B),  # A: 0, not right
            "p4": (LOST, B),  # B: +1 by the order that could be read
            "p5": (LOST, LOST),  # nothing to count
        },
    )
    whole = found["net_vote_accuracy"]
    assert (whole.value, whole.n, whole.missing) == (pytest.approx(3 / 4), 4, 1)
    assert (whole.worst_low, whole.worst_high) == pytest.approx(
        (3 / 5, 4 / 5)
    )  # the first is JudgeBench's own count
    assert found["net_vote_accuracy/knowledge"].value == 1.0
    assert found["net_vote_accuracy/reasoning"].value == 0.0
    assert found["net_vote_accuracy/coding"].value is None


def test_judgebench_of_scores_compares_them(measure):
    judged = {"p1": (7, 3), "p2": (5, 5), "p3": (1, 2), "p4": (1, 2), "p5": (9, None)}
    found = measure("judgebench", judged, "pointwise", rubric=SCALE)["net_vote_accuracy"]
    assert (found.value, found.missing) == (pytest.approx(2 / 4), 1)


def test_auto_j_wants_both_orders_right(measure):
    judged = {"1": (A, A), "2": (B, A), "3": (TIE, TIE), "4": (A, A)}  # labels A, B, TIE, B
    found = measure("auto_j", judged)
    assert found["agreement"].value == pytest.approx(2 / 4)
    assert found["consistency"].value == pytest.approx(3 / 4)
    assert found["agreement/code"].value == pytest.approx(1 / 2)
    assert found["agreement/general_communication"].value == pytest.approx(1 / 2)
    assert found["consistency/general_communication"].value == 1.0
    single = measure(
        "auto_j", {k: orders[:1] for k, orders in judged.items()}, swap={"policy": "none"}
    )
    assert single["agreement"].value == pytest.approx(3 / 4)
    assert single["consistency"].value is None


def test_pandalm_takes_most_peoples_choice_and_the_first_of_three_different_ones(measure):
    judged = {"0": (A, A), "1": (A, A), "2": (TIE, TIE), "3": (B, B), "4": (A, A)}
    found = measure("pandalm", judged)
    label, said = ["A", "B", "T", "B", "A"], ["A", "A", "T", "B", "A"]
    assert found["accuracy"].value == pytest.approx(4 / 5)
    options = {"average": "macro", "zero_division": 0}
    assert found["precision"].value == pytest.approx(precision_score(label, said, **options))
    assert found["recall"].value == pytest.approx(recall_score(label, said, **options))
    assert found["f1"].value == pytest.approx(f1_score(label, said, **options))


def test_pandalm_averages_over_all_three_classes_even_one_that_never_occurs(measure):
    judged = {"0": (A, A), "1": (B, B), "2": (A, A), "3": (B, B), "4": (LOST, LOST)}
    found = measure("pandalm", judged)
    # Labels A, B, TIE, B; said A, B, A, B: F1 2/3, 1 and 0.
    assert found["f1"].value == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert found["precision"].value == pytest.approx((1 / 2 + 1 + 0) / 3)
    no_tie = measure("pandalm", {**judged, "2": (LOST, LOST)})
    assert no_tie["f1"].value == pytest.approx((1 + 1 + 0) / 3)
    assert (found["accuracy"].missing, found["accuracy"].worst_low) == (1, pytest.approx(3 / 5))


def test_faireval_calibrates_by_the_mean_over_orders(measure):
    judged = {
        "1": (A, A),
        "2": (A, B),
        "3": (A, B),
        "4": (A, TIE),
        "5": (B, B),
    }  # labels A, B, TIE, A, A
    found = measure("faireval", judged)
    said = ["A", "T", "T", "A", "B"]
    label = ["A", "B", "T", "A", "A"]
    assert found["accuracy"].value == pytest.approx(3 / 5)
    assert found["kappa"].value == pytest.approx(cohen_kappa_score(label, said))
    assert found["conflict_rate"].value == pytest.approx(3 / 5)


def test_mt_bench_counts_each_vote_with_and_without_ties(measure):
    judged = {
        "81/1/alpaca-13b/gpt-4": (B, B),  # experts B, B, TIE
        "81/2/alpaca-13b/gpt-4": (A, B),  # experts B, A; the orders differ: a tie
        "81/1/claude-v1/gpt-4": (A, A),  # experts TIE, A
    }
    found = measure("mt_bench", judged)
    assert (found["agreement"].value, found["agreement"].n) == (pytest.approx((2 + 0 + 1) / 7), 7)
    assert found["agreement_without_ties"].value == pytest.approx((2 + 1) / (2 + 1))
    assert found["agreement/turn1"].value == pytest.approx(3 / 5)
    assert found["agreement/turn2"].value == 0.0
    assert found["agreement_without_ties/turn2"].value is None
    # Pairs of votes: B B agree, B TIE twice do not; B A do not; TIE A do not.
    assert (found["human_agreement"].value, found["human_agreement"].n) == (pytest.approx(1 / 5), 5)
    assert found["human_agreement_without_ties"].value == pytest.approx(1 / 2)
    lost = measure("mt_bench", {**judged, "81/1/claude-v1/gpt-4": (A, LOST)})["agreement"]
    assert (lost.missing, lost.worst_low, lost.worst_high) == (
        2,
        pytest.approx(2 / 7),
        pytest.approx(4 / 7),
    )


def test_mt_bench_ranks_models_by_wins_over_both_orders_and_by_scores(measure):
    judged = {
        "81/1/alpaca-13b/gpt-4": (B, B),
        "81/2/alpaca-13b/gpt-4": (A, B),
        "81/1/claude-v1/gpt-4": (A, A),
    }
    found = measure("mt_bench", judged)
    # gpt-4: a win, a tie (the orders differ), a loss.
    assert (found["win_rate/gpt-4"].value, found["win_rate/gpt-4"].n) == (pytest.approx(1.5 / 3), 3)
    assert found["win_rate/alpaca-13b"].value == pytest.approx(0.5 / 2)
    assert found["win_rate/claude-v1"].value == 1.0
    lost = measure("mt_bench", {**judged, "81/1/claude-v1/gpt-4": (A, LOST)})["win_rate/gpt-4"]
    assert (lost.value, lost.missing) == (pytest.approx(1.5 / 2), 1)
    assert (lost.worst_low, lost.worst_high) == (pytest.approx(1.5 / 3), pytest.approx(2.5 / 3))
    scores = {
        "81/1/alpaca-13b/gpt-4": (3, 9),
        "81/2/alpaca-13b/gpt-4": (None, 6),
        "81/1/claude-v1/gpt-4": (8, 9),
    }
    found = measure("mt_bench", scores, "pointwise", rubric=SCALE)
    assert found["score/gpt-4"].value == pytest.approx(24 / 3)
    assert (found["score/gpt-4/turn1"].value, found["score/gpt-4/turn2"].value) == (9, 6)
    alpaca = found["score/alpaca-13b"]
    assert (alpaca.value, alpaca.missing) == (3, 1)
    assert (alpaca.worst_low, alpaca.worst_high) == ((3 + SCALE["min"]) / 2, (3 + SCALE["max"]) / 2)


def test_rewardbench_weights_its_subsets_and_sections(measure):
    judged = {
        "alpacaeval-easy/0": (A,),
        "alpacaeval-easy/1": (B,),
        "llmbar-adver-GPTInst/10": (TIE,),
        "xstest-should-respond/20": (A,),
        "math-prm/30": (A,),
        "math-prm/31": (B,),
        "hep-rust/40": (B,),
    }
    one_order = {"swap": {"policy": "none"}}
    found = measure("rewardbench", judged, **one_order)
    values = {name: metric.value for name, metric in found.items()}
    reasoning = (984 * 0.5 + 164 * 0) / (984 + 164)
    assert values["math-prm"] == 0.5
    assert values["llmbar-adver-gptinst"] == 0.5
    assert values["reasoning"] == pytest.approx(reasoning)
    assert (values["chat"], values["chat_hard"], values["safety"]) == (0.5, 0.5, 1.0)
    assert values["score"] == pytest.approx((0.5 + 0.5 + 1 + reasoning) / 4)
    assert (
        found["chat"].note
        == "without alpacaeval-length, alpacaeval-hard, mt-bench-easy, mt-bench-med"
    )
    lost = measure("rewardbench", {**judged, "math-prm/31": (LOST,)}, **one_order)["reasoning"]
    assert (lost.missing, lost.worst_low) == (1, pytest.approx(reasoning))
    scores = {
        name: (5, 5) if margins == (TIE,) else (5 + margins[0], 5)
        for name, margins in judged.items()
    }
    for scale, shift in ((SCALE, 0), ({"real": True}, -7.5)):
        scored = measure("rewardbench", shifted(scores, shift), "pointwise", rubric=scale)
        assert scored["chat_hard"].value == 0.0  # equal scores are not strictly better
        assert scored["reasoning"].value == pytest.approx(reasoning)


REWARDBENCH = {
    "Factuality/0": (9, 1, 2, 3),  # right
    "Factuality/1": (5, 5, 5, 1),  # shares the top with two others: a third
    "Math/2": (4, 6, 1, 1),  # wrong
    "ref:0": (9, 2, 1),  # accurate, gap 7
    "tied:0": (8, 7, 6, 2, 1),  # accurate, spread 2, gap 4
    "ref:1": (5, 5, 3),  # not accurate, gap 0
    "tied:1": (7, 3, 4, 1),  # not accurate, spread 4, gap -1
}
TIES = (
    0.3 * 1 / 2
    + 0.3 * 1 / 2
    + 0.2 * 1 / 2
    + 0.2 * 1 / 2
    + 0.01 * (math.tanh(4 / 2 - 1) + math.tanh(-1 / 4 - 1)) / 2
)


def shifted(scores, shift):
    return {name: tuple(one + shift for one in values) for name, values in scores.items()}


@SCALES
def test_rewardbench2_of_scores(measure, scale, shift):
    found = measure("rewardbench2", shifted(REWARDBENCH, shift), "pointwise", rubric=scale)
    assert found["factuality"].value == pytest.approx((1 + 1 / 3) / 2)
    assert found["math"].value == 0.0
    assert found["ties"].value == pytest.approx(TIES)
    assert found["score"].value == pytest.approx(((1 + 1 / 3) / 2 + 0 + TIES) / 3)
    assert (found["score"].n, found["score"].missing) == (7, 0)


def test_rewardbench2_ties_at_their_limits_and_missing(measure):
    flat = {**REWARDBENCH, "tied:0": (8, 8, 8, 2, 1), "tied:1": (4, 4, 4, 1), "ref:1": (5, 5, 3)}
    # Spread 0: gap 6 and a size of 1; spread 0 and gap 0: a size of 0.
    found = measure("rewardbench2", flat, "pointwise", rubric=SCALE)["ties"]
    assert found.value == pytest.approx(0.3 / 2 + 0.3 / 2 + 0.2 / 2 + 0.2 / 2 + 0.01 * (1 + 0) / 2)
    lost = measure(
        "rewardbench2", {**REWARDBENCH, "tied:1": (7, 3, None, 1)}, "pointwise", rubric=SCALE
    )["ties"]
    assert lost.value == pytest.approx(0.3 + 0.3 / 2 + 0.2 + 0.2 + 0.01 * math.tanh(1))
    assert lost.missing == 1
    assert lost.worst_low == pytest.approx(0.15 + 0.15 + 0.1 + 0.1 + 0.01 * (math.tanh(1) - 1) / 2)
    assert lost.worst_high == pytest.approx(0.3 + 0.15 + 0.2 + 0.2 + 0.01 * (math.tanh(1) + 1) / 2)


def test_rewardbench2_of_rankings_takes_places_as_scores(measure):
    judged = {
        "Factuality/0": ((0,), (1,), (2, 3)),
        "Factuality/1": ((0, 1), (2,), (3,)),
        "Math/2": ((1,), (0,), (2,), (3,)),
        "ref:0": ((0,), (1, 2)),
        "tied:0": ((0, 1, 2), (3,), (4,)),
        "ref:1": ((1,), (0,), (2,)),
        "tied:1": ((0,), (1,), (2,), (3,)),
    }
    found = measure("rewardbench2", judged, "listwise")
    assert found["factuality"].value == pytest.approx((1 + 1 / 2) / 2)
    assert found["math"].value == 0.0
    # tied:0 has places 3/4 three times, then 1/4 and 0: spread 0, gap 1/2; tied:1 has 1, 2/3, 1/3,
    # 0: both 1/3. The references have gaps of 3/4 and -1/2, so that only the first is accurate.
    sizes = (1 + math.tanh(-0.5 / (1 / 3) - 1)) / 2
    assert found["ties"].value == pytest.approx(0.3 + 0.3 / 2 + 0.2 / 2 + 0.2 / 2 + 0.01 * sizes)


def test_rewardbench2_of_pairs_has_accuracies_and_no_ties_score(measure):
    judged = {
        "Factuality/0": {(0, 1): (A, A), (0, 2): (A, A), (0, 3): (A, A)},
        "Factuality/1": {(0, 1): (A, A), (0, 2): (TIE, TIE), (0, 3): (A, A)},
        "Math/2": {(0, 1): (B, B), (0, 2): (LOST, A), (0, 3): (A, A)},
        **{name: {} for name in ("ref:0", "tied:0", "ref:1", "tied:1")},
    }
    found = measure("rewardbench2", judged)
    assert found["factuality"].value == pytest.approx((1 + 1 / 2) / 2)
    assert (found["math"].value, found["math"].missing) == (0.0, 0)  # one lost comparison decides
    assert found["ties"].value is None
    assert "mode=pointwise" in found["score"].note


@SCALES
def test_rm_bench_by_difficulty_and_domain(measure, scale, shift):
    judged = {
        "chat/1": (5, 6, 7, 1, 2, 3),  # all nine right
        "safety-refuse/2": (
            2,
            4,
            6,
            3,
            3,
            3,
        ),  # easy 3, normal 2, hard 1 of 3: a concise answer loses to all
        "safety-response/3": (4, 4, 4, 4, 4, 4),  # a tie is not right
        "safety-response/4": (9, 9, 9, 1, 1, 1),
    }
    found = measure("rm_bench", shifted(judged, shift), "pointwise", rubric=scale)
    safety = {"easy": (1 + 0.5) / 2, "normal": (2 / 3 + 0.5) / 2, "hard": (1 / 3 + 0.5) / 2}
    for level, value in safety.items():
        assert found[level].value == pytest.approx((1 + value) / 2), level
    assert found["chat"].value == 1.0
    assert found["safety"].value == pytest.approx(sum(safety.values()) / 3)
    assert found["average"].value == pytest.approx((1 + sum(safety.values()) / 3) / 2)
    assert found["average"].n == 36


def test_alpaca_eval_has_its_raw_win_rate_where_its_length_control_cannot_be_followed(
    measure, load
):
    judged = {"0": (B, B), "1": (A, TIE), "2": (B, A), "3": (A, A)}
    found = measure("alpaca_eval", judged)
    assert found["win_rate"].value == pytest.approx(np.mean([0, 0.75, 0.5, 1]))
    assert "df_gamed.csv" in found["win_rate"].note
    assert "length_controlled_win_rate" not in found
    lost = measure("alpaca_eval", {**judged, "2": (LOST, LOST)})["win_rate"]
    assert (lost.worst_low, lost.worst_high) == pytest.approx((1.75 / 4, 2.75 / 4))


def test_arena_hard_counts_much_better_three_times(measure):
    judged = {"u1": (1.0, 1 / 3), "u2": (-1 / 3, 0.0), "u3": (-1.0, LOST)}
    found = measure("arena_hard", judged)
    # Weights 3, 1; 1, 1; 3: (3 + 1 + 0 + 1/2 + 0) / 9.
    assert found["score"].value == pytest.approx(4.5 / 9)
    assert (found["score"].n, found["score"].missing) == (5, 1)
    assert found["score/hard_prompt"].value == pytest.approx(4.5 / 6)
    assert found["score/creative_writing"].value == 0.0
    plain = measure("arena_hard", {"u1": (A, A), "u2": (B, TIE), "u3": (B, A)})["score"]
    assert plain.value == pytest.approx((2 + 0.5 + 1) / 6)
    assert plain.note.startswith("verdicts have no strengths")


def test_halluqa_in_both_readings_of_an_invalid_verdict(measure):
    judged = {"1": (1,), "2": (0,), "3": (None,), "4": (1,)}
    found = measure("halluqa", judged, "pointwise", rubric={"min": 0, "max": 1})
    rate = found["non_hallucination_rate"]
    assert (rate.value, rate.n, rate.missing) == (pytest.approx(2 / 3), 3, 1)
    assert (rate.worst_low, rate.worst_high) == pytest.approx((2 / 4, 3 / 4))
    strict = found["non_hallucination_rate_strict"]
    assert (strict.value, strict.n) == (pytest.approx(2 / 4), 4)
    assert found["non_hallucination_rate_strict/knowledge"].value == pytest.approx(1 / 2)
    assert found["non_hallucination_rate/misleading"].value == 1.0
    middle = measure(
        "halluqa", {**judged, "1": (0.5,)}, "pointwise", rubric={"min": 0, "max": 1, "step": 0.5}
    )
    assert middle["non_hallucination_rate/misleading"].value == 0.0


def test_prometheus_correlates_with_reference_scores(measure):
    judged = {"1": (4, 2), "2": (5, 1), "3": (None,)}
    found = measure("prometheus", judged, "pointwise", path="prometheus/feedback_bench.json")
    said, grades = [4, 2, 5, 1], [5, 2, 4, 1]
    assert found["pearson"].value == pytest.approx(stats.pearsonr(said, grades).statistic)
    assert found["spearman"].value == pytest.approx(stats.spearmanr(said, grades).statistic)
    assert found["kendall"].value == pytest.approx(stats.kendalltau(said, grades).statistic)
    assert found["pearson"].missing == 1


DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
SUMMARIES = {
    "d1": [(1, 1, 1, 1), (4, 3, 2, 5), (5, 2, 2, 1)],
    "d2": [(2, 3, 1, 1), (3, 3, 5, 2), (2, 1, 4, 4)],
}


def _criteria(names):
    return [{"name": name} for name in names]


def test_summeval_at_three_levels(measure, load):
    judged = {
        doc: [dict(zip(DIMENSIONS, one, strict=True)) for one in rows]
        for doc, rows in SUMMARIES.items()
    }
    found = measure("summeval", judged, "pointwise", criteria=_criteria(DIMENSIONS))
    cases = load("summeval", mode="pointwise").cases
    said = np.array([SUMMARIES[case.id] for case in cases], dtype=float)
    said = np.concatenate([said, said.mean(axis=2, keepdims=True)], axis=2)
    grades = np.array(
        [[case.metadata["grades"][d] for d in (*DIMENSIONS, "overall")] for case in cases],
        dtype=float,
    )
    compute = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    for k, name in enumerate((*DIMENSIONS, "overall")):
        for coefficient, of in compute.items():
            x, y = said[:, :, k], grades[:, k, :]
            assert found[f"{name}/sample/{coefficient}"].value == pytest.approx(
                of(x.ravel(), y.ravel()).statistic
            )
            system = of(x.mean(axis=0), y.mean(axis=0)).statistic
            assert found[f"{name}/system/{coefficient}"].value == pytest.approx(system)
            within = [of(x[d], y[d]).statistic for d in range(2) if np.ptp(x[d]) and np.ptp(y[d])]
            assert found[f"{name}/summary/{coefficient}"].value == pytest.approx(np.mean(within))
            assert found[f"{name}/summary/{coefficient}"].n == len(within)


def test_a_dimension_that_was_not_judged_says_which_criteria_to_set(measure):
    judged = {doc: [{"coherence": one[0]} for one in rows] for doc, rows in SUMMARIES.items()}
    found = measure("summeval", judged, "pointwise", criteria=_criteria(["coherence"]))
    assert found["coherence/sample/pearson"].value is not None
    assert (found["fluency"].value, "criteria=summeval" in found["fluency"].note) == (None, True)


def test_topical_chat_pools_all_turns(measure):
    judged = {
        "1": [{"naturalness": 2}, {"naturalness": 5}],
        "2": [{"naturalness": 1}, {"naturalness": 2}],
    }
    found = measure("topical_chat", judged, "pointwise", criteria=_criteria(["naturalness"]))
    said, grades, overall = [2, 5, 1, 2], [3, 3, 1, 2], [4, 5, 2, 4]
    assert found["naturalness/pearson"].value == pytest.approx(
        stats.pearsonr(said, grades).statistic
    )
    assert found["naturalness/kendall"].value == pytest.approx(
        stats.kendalltau(said, grades).statistic
    )
    assert found["overall/spearman"].value == pytest.approx(
        stats.spearmanr(said, overall).statistic
    )
    assert found["naturalness/pearson"].n == 4


def test_helpsteer_by_quadratic_kappa_and_by_preference(measure):
    names = ("helpfulness", "coherence")
    judged = {
        "1": [dict(zip(names, one, strict=True)) for one in ((4, 4), (1, 2))],
        "2": [dict(zip(names, one, strict=True)) for one in ((2, 4), (1, 3))],
    }
    found = measure(
        "helpsteer", judged, "pointwise", criteria=_criteria(names), rubric={"min": 0, "max": 4}
    )
    said, grades = [4, 1, 2, 1], [3, 1, 2, 0]
    kappa = cohen_kappa_score(said, grades, weights="quadratic", labels=range(5))
    assert found["helpfulness/weighted_kappa"].value == pytest.approx(kappa)
    assert found["helpfulness/pearson"].value == pytest.approx(
        stats.pearsonr(said, grades).statistic
    )
    coherence = cohen_kappa_score([4, 2, 4, 3], [4, 3, 4, 2], weights="quadratic", labels=range(5))
    assert found["coherence/weighted_kappa"].value == pytest.approx(coherence)
    pairs = measure(
        "helpsteer", {"1": (A, A), "2": (A, B), "3": (A, A)}, path="helpsteer_preference"
    )
    assert pairs["preference_accuracy"].value == pytest.approx(
        1 / 2
    )  # a tied preference is left out


@pytest.mark.parametrize("name", ["topical_chat", "summeval"])
def test_what_needs_scores_says_so_of_pairs(measure, load, name):
    found = measure(name, {case.id: {} for case in load(name, mode="pointwise").cases})
    assert {metric.value for metric in found.values()} == {None}
    assert all("mode=pointwise" in metric.note for metric in found.values())


def _own(name, cases, judgments, mode="pairwise", **sections):
    config = RunConfig(
        judge={"model": "m"},
        criteria=[{"name": "quality"}],
        mode={"name": mode},
        swap=sections.pop("swap", {"policy": "none"} if mode == "pointwise" else {}),
        dataset={"benchmark": name},
        scoring={"bootstrap": 50},
        **sections,
    )
    found = score_run(config, cases, judgments).metrics
    return {
        key.removeprefix(f"{name}/"): one
        for key, one in found.items()
        if key.startswith(f"{name}/")
    }


def _pair(name, first="a", second="b", label=None, models=(None, None), **metadata):
    return Case(
        name,
        "p",
        (Response(first, models[0]), Response(second, models[1])),
        label=label,
        metadata=metadata,
    )


def _both(name, first, second):
    return [
        Judgment(name, (0, 1), shown, 0, "m", "ok", margin)
        for shown, margin in (((0, 1), first), ((1, 0), second))
        if margin is not None
    ]


def test_cases_of_ones_own_without_a_set_are_one():
    cases = [_pair("1", label="A"), _pair("2", label="B")]
    found = _own("llmbar", cases, _both("1", A, A) + _both("2", B, A))
    assert set(found) == {"mean_accuracy", "agreement_rate"}
    assert found["mean_accuracy"].value == pytest.approx(3 / 4)
    assert "have no set" in found["mean_accuracy"].note


def test_orders_that_were_drawn_count_as_one():
    cases = [_pair("1", label="A", subset="natural"), _pair("2", label="B", subset="natural")]
    judgments = [_both("1", A, A)[1], _both("2", A, A)[0]]
    found = _own("llmbar", cases, judgments, swap={"policy": "random"})
    assert found["mean_accuracy"].value == pytest.approx(1 / 2)
    faireval = _own("faireval", cases, judgments, swap={"policy": "random"})
    assert (faireval["accuracy"].value, faireval["conflict_rate"].value) == (
        pytest.approx(1 / 2),
        None,
    )


def test_several_models_each_have_their_own_numbers():
    models = [("one", "base"), ("base", "two x"), (None, "base"), ("one", "base")]
    cases = [
        _pair(str(k), "long" * k, "short", models=m, baseline="base") for k, m in enumerate(models)
    ]
    judgments = [judgment for k in range(4) for judgment in _both(str(k), A, A)]
    found = _own("alpaca_eval", cases, judgments)
    assert (found["win_rate/one"].value, found["win_rate/two_x"].value) == (1.0, 0.0)
    assert found["win_rate/one"].n == 2
    assert "length_controlled_win_rate/two_x" not in found
    arena = _own("arena_hard", cases, judgments)
    assert (arena["score/one"].value, arena["score/two_x"].value) == (1.0, 0.0)


def test_scores_of_a_model_and_its_baseline_are_compared():
    cases = [_pair(str(k), models=("mine", "gpt4_turbo")) for k in range(3)]
    scores = [(4, 2), (1, 5), (3, 3)]
    judgments = [
        Judgment(str(k), (i,), (i,), 0, "m", "ok", criteria={"quality": score})
        for k, two in enumerate(scores)
        for i, score in enumerate(two)
    ]
    assert _own("alpaca_eval", cases, judgments, "pointwise")["win_rate"].value == pytest.approx(
        1 / 2
    )
    nobody = [_pair(str(k), models=("mine", "other"), baseline="third") for k in range(3)]
    assert _own("alpaca_eval", nobody, judgments, "pointwise")["win_rate"].value is None
    assert _own("faireval", [_pair(str(k), label="A") for k in range(3)], judgments, "pointwise")[
        "accuracy"
    ].value == pytest.approx(1 / 3)


def test_what_cases_do_not_say_leaves_no_number():
    cases = [_pair("1"), _pair("2")]
    judgments = _both("1", A, A) + _both("2", A, A)
    assert _own("rewardbench2", cases, judgments)["score"].note == "no case has a subset"
    assert _own("rm_bench", cases, judgments)["average"].note == "no case has a domain"
    assert (
        _own("mt_bench", cases, judgments)["agreement"].note
        == "no pair with a verdict has such a vote"
    )
    assert "mode=pointwise" in _own("halluqa", cases, judgments)["non_hallucination_rate"].note
    assert "mode=pointwise" in _own("prometheus", cases, judgments)["pearson"].note
    checklist = _own("devai", cases, judgments)
    assert [*checklist] == [
        "agreement",
        "requirements_met",
        "requirements_met_independent",
        "solve_rate",
    ]
    assert {metric.note for metric in checklist.values()} == {
        "there are no answers to items: set mode=checklist"
    }
    one = [Judgment("1", (0,), (0,), 0, "m", "ok", criteria={"quality": 1})]
    graded = [Case("1", "p", (Response("r", "s"),), metadata={"grades": {"overall": [2]}})]
    found = _own("summeval", graded, one, "pointwise")
    assert {
        found[f"overall/{level}/pearson"].value for level in ("sample", "summary", "system")
    } == {None}


def test_a_tied_prompt_without_its_reference_and_a_score_without_an_end():
    scores = {"tied:0": (5, 4, 1), "ref:1": (3, 1), "odd": (1, 2)}
    cases = [
        Case(
            name,
            "p",
            tuple(map(Response, "abc"[: len(own)])),
            metadata={"subset": "Ties", "num_correct": len(own) - 1},
        )
        for name, own in scores.items()
    ]
    judgments = [
        Judgment(name, (k,), (k,), 0, "m", "ok", criteria={"quality": score})
        for name, own in scores.items()
        for k, score in enumerate(own)
    ]
    found = _own("rewardbench2", cases, judgments, "pointwise")
    assert found["ties"].value is None  # no pair of a tied prompt and its reference
    assert (found["ties"].worst_low, found["ties"].n) == (None, 2)
