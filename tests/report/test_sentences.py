"""What sentences may and may not say, in both languages: of fixed metrics, and of runs scored from judgments."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.cli.summary import metric_table
from evalkit.config import JudgeConfig, RunConfig
from evalkit.decision import decide
from evalkit.report.findings import findings
from evalkit.report.findings.finding import Finding
from evalkit.report.findings.sweeps import contest_findings
from evalkit.scoring import score_run
from evalkit.scoring.leaderboard import Contender, rank
from evalkit.types import Case, Judgment, Metric, Response, Verdict

CONFIG = {"judge": JudgeConfig(model="m"), "criteria": [{"name": "overall"}]}


def scored(rows, **settings_):
    """Score pairs given as (label, winner shown first, winner shown second), winners by response."""
    config = RunConfig.model_validate({**CONFIG, "scoring": {"bootstrap": 200}, **settings_})
    values = {"A": 1.0, "TIE": 0.0, "B": -1.0}
    cases, judgments = [], []
    for k, (label, *passes) in enumerate(rows):
        cases.append(Case(f"c{k}", "?", (Response("a" * (1 + k % 3)), Response("bb")), label=label))
        for shown, winner in zip(((0, 1), (1, 0)), passes, strict=False):
            read = winner is not None
            status = "ok" if read else "unparseable"
            judgments.append(
                Judgment(f"c{k}", (0, 1), shown, 0, "m", status, values.get(winner), error=None if read else "?")
            )
    return score_run(config, cases, judgments).metrics


def said(metrics, mode="pairwise") -> list[Finding]:
    found = findings(metrics, mode)
    assert all(re.search("[一-鿿]", one.text_zh) and one.text_zh.endswith("。") for one in found)
    assert not any(re.search(r"\d %", one.text + one.text_zh) for one in found)
    return found


def text_of(metrics, name, mode="pairwise") -> str:
    return " ".join(one.text for one in said(metrics, mode) if one.metric == name)


def test_a_good_judge_of_labels_of_one_class_is_not_called_chance():
    metrics = scored([("A", "A", "A")] * 46 + [("A", "B", "B")] * 4)
    assert metrics["agreement/kappa"].value is None
    assert metrics["agreement/kappa"].note.startswith("labels are all of one class (A)")
    assert metrics["agreement/kappa_weighted"].value is None
    text = text_of(metrics, "agreement/accuracy")
    assert text.startswith("Agreement with the labels: accuracy 0.92")
    assert "kappa not defined (labels are all of one class (A): it would be 0" in text
    names, values, *_ = [list(column.cells) for column in metric_table(metrics, 0.95).columns]
    assert dict(zip(names, values, strict=True))["agreement/kappa"] == "not defined"


def test_ties_of_disagreeing_orders_come_first_and_accuracy_is_given_without_them():
    metrics = scored([("A", "A", "B")] * 23 + [("B", "B", "B")])
    first, second, *_ = said(metrics)
    assert first.text.startswith("96% [")
    assert first.text.endswith("of pairs are ties because the two orders disagree.")
    assert first.text_zh.endswith("的回答对为平局，因为两种顺序结论不一致。")
    assert "(a tie is wrong unless the label is one)" in second.text
    assert "0.52 [0.50, 0.58] in a single order" in second.text
    assert "1.00 [0.03, 1.00] among 1 decided pair" in second.text
    decided = metrics["agreement/accuracy_decided"]
    assert (decided.value, decided.n, decided.missing) == (1.0, 1, 0)


def test_accuracy_among_decided_pairs_is_bounded_over_missing_verdicts():
    metrics = scored([("A", "A", "A"), ("A", "B", "B"), ("A", None, None), ("A", "A", "B"), ("TIE", "A", "A")])
    decided = metrics["agreement/accuracy_decided"]
    assert (decided.value, decided.n, decided.missing) == (0.5, 2, 1)
    assert (decided.worst_low, decided.worst_high) == (pytest.approx(1 / 3), pytest.approx(2 / 3))


@pytest.mark.parametrize("winner", ["A", "TIE"])
def test_constant_verdicts_are_named(winner):
    metrics = scored([("A", winner, winner), ("B", winner, winner)] * 20)
    if winner == "A":
        assert text_of(metrics, "win_rate/a") == "All 40 verdicts are A."
    else:
        assert "but most of these verdicts are ties" in text_of(metrics, "position/consistency")


def test_a_judge_that_follows_the_position_contradicts_itself_whatever_the_labels_are():
    for label in ("A", "B"):
        metrics = scored([(label, "A", "B")] * 40)
        assert "100%" in said(metrics)[0].text
        assert decide(metrics).reason == "orders_disagree"


def test_a_perfectly_consistent_judge_is_not_told_of_half():
    metrics = scored([("A", "A", "A"), ("B", "B", "B")] * 12)
    assert text_of(metrics, "position/first_rate") == ""
    assert text_of(metrics, "position/consistency").startswith("Keeps its verdict in 100% [86, 100] of 24 pairs")


def test_missing_answers_come_first_and_with_their_bounds():
    metrics = scored([("A", "A", "A")] * 12 + [("B", "B", "B")] * 8 + [("A", None, None)] * 20)
    first, second, *_ = said(metrics)
    assert first.text.startswith("40 of 80 answers are missing (50.0%)")
    assert "0.50 to 1.00 over all 40 pairs, 20 without a verdict" in second.text


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), "Agreement with the labels:"),
        (("llmbar/mean_accuracy",), "Agreement with the labels:"),
        (("mt_bench/agreement",), "Agreement with the annotators' labels:"),
        (("human/alpha",), "Agreement with the annotators' labels:"),
        (("human/alpha", "judgebench/net_vote_accuracy"), "Agreement with the labels:"),
    ],
)
def test_labels_are_people_s_only_where_that_is_known(more, expected):
    metrics = scored([("A", "A", "A"), ("B", "B", "B")] * 20)
    metrics = dict(metrics) | {name: Metric(name, 0.8, 0.7, 0.9, 40) for name in more}
    assert text_of(metrics, "agreement/accuracy").startswith(expected)


def test_equal_scores_are_a_tie_of_scores_and_no_judgment():
    config = RunConfig.model_validate({**CONFIG, "mode": {"name": "pointwise"}, "swap": {"policy": "none"}})
    cases = [Case(f"c{k}", "?", (Response("a"), Response("b")), label="A") for k in range(10)]
    judgments = [Judgment(c.id, (i,), (i,), 0, "m", "ok", criteria={"overall": 3.0}) for c in cases for i in (0, 1)]
    scores = score_run(config, cases, judgments)
    assert {v.reason for v in scores.verdicts if len(v.unit) == 2} == {"equal_scores"}
    assert scores.metrics["tie_rate/equal_scores"].value == 1.0
    assert "tie_rate/judged" not in scores.metrics
    assert said(scores.metrics, "pointwise")[0].text.endswith("of pairs are ties because the two scores are equal.")
    assert text_of(scores.metrics, "score/distinct", "pointwise").startswith("All 20 scores are equal")


def test_weights_near_the_largest_number_decide_as_their_shares_do():
    weights = {"a": 1e308, "b": 1e308}
    config = RunConfig.model_validate(
        {**CONFIG, "criteria": [{"name": "a"}, {"name": "b"}], "scoring": {"weights": weights}}
    )
    assert config.weights() == {"a": 0.5, "b": 0.5}
    assert config.notes() == ["criteria weights are too large to sum and were normalized: a 0.5, b 0.5"]
    case = Case("c", "?", (Response("a"), Response("b")))
    judgments = [
        Judgment("c", (0, 1), shown, 0, "m", "ok", value=1.0, criteria={"a": 1.0, "b": 1.0})
        for shown in ((0, 1), (1, 0))
    ]
    assert [verdict.winner for verdict in score_run(config, [case], judgments).verdicts] == ["A"]


WINNERS = st.sampled_from(["A", "B", "TIE", None])
ROWS = st.lists(st.tuples(st.sampled_from(["A", "B", "TIE", None]), WINNERS, WINNERS), min_size=1, max_size=24)


@given(ROWS, st.integers(1, 3))
def test_findings_give_numbers_and_leave_the_conclusion_to_the_decision(rows, times):
    metrics = scored(rows * times)
    found = said(metrics)
    assert not any("better than chance" in one.text for one in found)
    if metrics["agreement/accuracy"].value is not None and metrics["tie_rate"].value >= 0.5:
        assert "tie_rate" in [one.metric for one in found[:2]]
    assert not any(word in one.text for one in found for word in ("place ", "people's choices", "told of"))


def contender(job, rate, cost, n):
    right = [k < round(rate * n) for k in range(n)]
    verdicts = [Verdict(f"c{k}", (0, 1), "A" if hit else "B", None, "judged", label="A") for k, hit in enumerate(right)]
    share = sum(right) / n
    half = 1.96 * (max(share * (1 - share), 0.05) / n) ** 0.5
    metrics = {
        name: Metric(name, share, max(0.0, share - half), min(1.0, share + half), n)
        for name in ("agreement/accuracy", "agreement/accuracy_decided")
    } | {"cost/per_case": Metric("cost/per_case", cost)}
    return Contender(job, job, "d", metrics, verdicts)


@given(st.lists(st.tuples(st.floats(0.3, 1.0), st.floats(0.001, 1.0)), min_size=2, max_size=5), st.integers(5, 400))
def test_no_configuration_at_chance_or_possibly_worse_is_recommended(jobs, n):
    board = rank([contender(f"j{k}", rate, cost, n) for k, (rate, cost) in enumerate(jobs)], SCORING)
    first, *others = contest_findings(board, {row.job: row.job for row in board.rows}, {})
    [choice] = board.choices
    if choice.job is not None:
        assert first.text.startswith(f"Use {choice.job.job} (")
        assert choice.job.metrics["agreement/accuracy_decided"].low > 0.5
        assert choice.job is choice.top or choice.job.behind.low >= -0.05
    assert not any(one.text.startswith("Use ") for one in others)
    for row in board.rows:
        assert row.rank_low <= row.rank <= row.rank_high
        if row.metrics["agreement/accuracy_decided"].low <= 0.5:
            assert row.pareto is False
    texts = " ".join(one.text for one in others)
    assert ("Do not trust" in texts) == any(row.decision.use == "none" for row in board.rows)
    assert ("Not decided" in texts) == any(row.decision.use == "unknown" for row in board.rows)
    assert "cannot be told apart" not in texts


SCORING = RunConfig.model_validate(CONFIG).scoring.model_copy(update={"bootstrap": 100})


def test_consistency_is_no_reason_to_recommend():
    def consistent(job, share, cost):
        name = "position/consistency"
        return Contender(
            job,
            job,
            "d",
            {name: Metric(name, share, share, share, 50), "cost/per_case": Metric("cost/per_case", cost)},
            [],
        )

    board = rank([consistent("x", 0.9, 0.1), consistent("y", 0.9, 0.01)], SCORING)
    texts = [one.text for one in contest_findings(board, {"x": "x", "y": "y"}, {})]
    assert any("a consistent judge can still be wrong" in text for text in texts)
    assert texts[0].startswith("Label some pairs first: without labels")
    assert not any(" costs " in text for text in texts)
