"""Cascades: thresholds against a slow version of the paper's algorithm, who decides, and what labels are used for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from evalkit.config import JudgeConfig, RunConfig, ScoringConfig
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Completion, Judgment, Metric, Response, WeightedJudgment
from evalkit.report.findings import findings
from evalkit.scoring.compare import compare_runs
from evalkit.scoring.drift import measure_drift
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import Scores, score_run, verdicts_of
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdict_rules import calibrated, escalated
from evalkit.scoring.verdicts.cascade import (
    ABSTAINED,
    START,
    WAITING,
    Cascade,
    Vote,
    binomial_tail,
    check_labels,
    dev_cases,
    labels_required,
    thresholds,
)
from evalkit.scoring.verdicts.panel import UNASKED
from tests.support.thorough import some_of

CLASSES = {"classes": {"pass": "", "fail": ""}}


def config(*names: str, **settings: Any) -> RunConfig:
    own = {
        key: settings.pop(key)
        for key in ("target", "delta", "last", "calibration", "thresholds")
        if key in settings
    }
    members = [{"name": name, "model": "m", **settings.pop(name, {})} for name in names]
    judge = {"name": "cascade", "vote": "cascade", "judges": members, **own}
    scoring = {"bootstrap": 50, **settings.pop("scoring", {})}
    return RunConfig.model_validate(
        {"judge": judge, "criteria": {"quality": ""}, "scoring": scoring, **settings}
    )


def of_classes(*names: str, **settings: Any) -> RunConfig:
    more = {
        "mode": {"name": "pointwise", "samples": 3},
        "swap": {"policy": "none"},
        "rubric": CLASSES,
    }
    return config(*names, **more, **settings)


def both(
    judge: str, case: str, first: float | None, second: float | None, unit=(0, 1)
) -> list[Judgment]:
    """The judgments of both orders: margins, un-swapped; `None` for a failed call."""
    made = [(unit, first), (unit[::-1], second)]
    return [
        Judgment(
            case,
            unit,
            shown,
            0,
            judge,
            "failed" if value is None else "ok",
            value,
            keys=(f"{judge}{case}{shown}",),
        )
        for shown, value in made
    ]


def pairs(n: int, label: str = "A") -> list[Case]:
    return [
        Case(f"c{i}", f"question {i}", (Response("a"), Response("b")), label=label)
        for i in range(n)
    ]


# Thresholds


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.01, 0.99))
def test_the_tail_is_that_of_the_binomial_distribution(errors, more, risk):
    assert binomial_tail(errors, errors + more, risk) == pytest.approx(
        stats.binom.cdf(errors, errors + more, risk)
    )


def slow(
    certainty: Sequence[float], wrong: Sequence[bool], risk: float, level: float
) -> float | None:
    """The lowest threshold so that the upper bound of the risk is at most `risk` there and at all stricter ones."""
    found = None
    for threshold in sorted(set(certainty), reverse=True):
        above = [error for sure, error in zip(certainty, wrong, strict=True) if sure >= threshold]
        if (1 - risk) ** len(above) > level or len(above) < START * len(certainty):
            continue
        n, errors = len(above), sum(above)
        if (1.0 if errors == n else stats.beta.ppf(1 - level, errors + 1, n - errors)) > risk:
            break
        found = threshold
    return found


@given(
    st.integers(0, 2**32),
    st.integers(20, 150),
    st.sampled_from([2, 5, 20]),
    st.sampled_from(["abstain", "answer"]),
)
def test_thresholds_are_those_of_a_slow_version(seed, n, levels, last):
    random = np.random.default_rng(seed)
    judge = config("small", "large", last=last, target=0.8).judge
    votes = {}
    for name in ("small", "large"):
        certainty = random.integers(0, levels, n) / (levels - 1)
        votes[name] = Vote(
            name, random.random(n) < 0.97, random.random(n) < 0.75 + 0.25 * certainty, certainty
        )
    every = np.ones(n, dtype=bool)
    found, waiting, tested = (
        Cascade.of(judge, votes, every, every),
        list(range(n)),
        2 - (last == "answer"),
    )
    level, spent = 0.1 / tested, False
    if n < labels_required(judge.model_copy(update={"delta": level})):
        level, spent = 0.1, True  # all of it for the first judge
    for place, one in enumerate(votes.values()):
        reached = [unit for unit in waiting if one.answered[unit]]
        if place == tested:
            decided = reached
        elif place and spent:
            decided = []
        else:
            threshold = slow(
                [one.certainty[u] for u in reached], [not one.right[u] for u in reached], 0.2, level
            )
            assert found.steps[place].threshold == threshold
            decided = [
                u for u in reached if threshold is not None and one.certainty[u] >= threshold
            ]
        assert np.flatnonzero(found.decider == place).tolist() == decided
        waiting = [unit for unit in waiting if unit not in decided]
    lost = [unit for unit in waiting if votes["large"].answered[unit]]
    assert np.flatnonzero(found.decider == ABSTAINED).tolist() == ([] if last == "answer" else lost)
    assert found.guaranteed.tolist() == [0 <= place < tested for place in found.decider]


def test_many_certainties_are_tested_at_their_quantiles():
    certainty = np.random.default_rng(0).random(1000)
    found = thresholds(np.append(certainty, np.nan))
    assert len(found) == 25
    assert set(found) <= set(certainty)
    assert list(found) == sorted(found, reverse=True)
    assert found[-1] == certainty.min()


def test_22_labels_can_show_an_agreement_of_90_percent():
    judge = config("small", "large").judge
    assert labels_required(judge) == 22
    cases = pairs(300)
    dev = dev_cases(judge, cases, Clusters.each(300))
    assert 100 < dev.sum() < 200
    chosen = [case for case, own in zip(cases, dev, strict=True) if own]
    for count, enough in ((21, False), (22, True)):
        some = chosen[:count]
        if enough:
            check_labels(config("small", "large"), some, Clusters.each(count))
        else:
            with pytest.raises(
                ConfigError, match=r"21 of the 21 labels choose thresholds .*needs 22"
            ):
                check_labels(config("small", "large"), some, Clusters.each(count))


def test_with_few_labels_the_first_judge_has_all_of_delta():
    sure = np.ones(25)
    votes = {name: Vote(name, sure > 0, sure > 0, sure) for name in ("small", "large")}
    found = Cascade.of(config("small", "large").judge, votes, sure > 0, sure > 0)
    assert (found.steps[0].threshold, found.steps[0].labels, found.steps[1].threshold) == (
        1.0,
        25,
        None,
    )


# Verdicts and metrics of pairs


@cache
def run(n: int = 360, **settings: Any) -> tuple[RunConfig, list[Case], list[Judgment]]:
    """A small judge that is sure and right in two cases of three; a large one that is right where it is sure.

    The large one is unsure in every twelfth case, and fails in another.
    """
    made, cases, judgments = (
        config("small", "large", target=0.8, **settings),
        pairs(n),
        list[Judgment](),
    )
    for i, case in enumerate(cases):
        judgments += both("small", case.id, 1.0, 1.0 if i % 3 else -1.0)
    waiting = escalated(made, cases, judgments)
    assert waiting == {(f"c{i}", (0, 1)) for i in range(0, n, 3)}
    for i in range(0, n, 3):
        judgments += both(
            "large",
            f"c{i}",
            *((1.0, -1.0) if i % 12 == 0 else (None, None) if i % 12 == 3 else (1, 1)),
        )
    return made, cases, judgments


@cache
def scores_of_run() -> Scores:
    return score_run(*run())


def test_each_case_is_decided_by_the_first_judge_that_is_sure_enough():
    made, cases, judgments = run()
    verdicts = verdicts_of(made, cases, judgments)
    for i, verdict in enumerate(verdicts):
        expected = ("A", "judged")
        if i % 12 == 0:
            expected = (None, "abstained")
        elif i % 12 == 3:
            expected = (None, "missing")
        assert (verdict.winner, verdict.reason) == expected, i
    assert verdicts[0].judge == "cascade"
    assert verdicts[6].votes == {"small": "TIE", "large": "A"}
    assert set(verdicts.each) == {"small", "large"}
    assert [one.decided_by for one in verdicts[:7]] == [
        None,
        *["small"] * 2,
        None,
        *["small"] * 2,
        "large",
    ]
    assert escalated(made, cases, judgments) == {(f"c{i}", (0, 1)) for i in range(3, 360, 12)}


def test_an_abstention_is_neither_a_score_nor_missing():
    scores, metrics = scores_of_run(), scores_of_run().metrics
    assert metrics["cascade/abstained"].value == pytest.approx(30 / 330)
    assert metrics["cascade/abstained"].missing == 30
    assert metrics["cascade/share/small"].value == pytest.approx(240 / 330)
    assert metrics["cascade/share/large"].value == pytest.approx(60 / 330)
    for name in ("tie_rate", "win_rate/a", "length/longer_rate"):
        assert metrics[name].missing == (0 if name.startswith("length") else 30), name
    assert metrics["win_rate/a"].n == 300
    failed = metrics["agreement/accuracy"].missing
    assert failed > 0
    confusion = scores.details["confusion"]["labels"]["A"]
    assert confusion["abstained"] > 0
    assert confusion["missing"] == failed
    assert metrics["agreement/accuracy_per_order"].missing == 2 * confusion["missing"]


def test_labels_that_chose_thresholds_are_in_no_metric():
    made, cases, judgments = run()
    dev, scores = dev_cases(made.judge, cases, Clusters.each(len(cases))), scores_of_run()
    test = [i for i in range(360) if not dev[i] and i % 12 not in (0, 3)]
    assert (
        scores.metrics["agreement/accuracy"].n == scores.metrics["cascade/accuracy"].n == len(test)
    )
    # Other labels on the test side change the agreement and no threshold.
    turned = [
        case if own else replace(case, label="B") for case, own in zip(cases, dev, strict=True)
    ]
    other = score_run(made, turned, judgments)
    assert other.metrics["cascade/accuracy"].value == 0.0
    assert other.details["cascade"] == scores.details["cascade"]
    # Other labels on the dev side change the thresholds.
    turned = [
        replace(case, label="B") if own else case for case, own in zip(cases, dev, strict=True)
    ]
    steps = score_run(made, turned, judgments).details["cascade"]["steps"]
    assert steps[0]["threshold"] is None
    verdicts = scores.verdicts
    assert [verdict.label for verdict in verdicts] == [None if own else "A" for own in dev]


def test_a_panel_is_scored_as_if_its_judges_had_been_asked_in_turn():
    made, cases, judgments = run()
    # The large judge's answers to what it is not asked are wrong, and cost much.
    more = [one for i in range(360) if i % 3 for one in both("large", f"c{i}", -1.0, -1.0)]
    paid = [replace(one, completion=Completion("", cost_usd=9.0)) for one in more]
    asked, panel = scores_of_run(), score_run(made, cases, [*judgments, *paid])
    assert panel.metrics == asked.metrics
    assert [*panel.verdicts] == [*asked.verdicts]
    assert panel.details == asked.details


def test_the_last_judge_may_answer_without_the_guarantee():
    made, cases, judgments = run(last="answer")
    scores = score_run(made, cases, judgments)
    assert scores.metrics["cascade/abstained"].value == 0.0
    assert scores.metrics["cascade/accuracy"].n < scores.metrics["agreement/accuracy"].n
    assert "the last judge answers the others without it" in str(
        scores.metrics["cascade/accuracy"].note
    )
    assert [step["guaranteed"] for step in scores.details["cascade"]["steps"]] == [True, False]
    assert scores.verdicts[0].reason == "swap_disagreement"
    text = " ".join(finding.text for finding in findings(scores.metrics, "pairwise"))
    assert re.search(r"large answers 27% \[\d+, \d+\] of 330 without the guarantee\.", text)
    assert "Where a judge is sure enough, 100% [" in text
    kept = score_run(made.with_({"judge.last": "abstain"}), cases, judgments)
    assert "without the guarantee" not in " ".join(
        one.text for one in findings(kept.metrics, "pairwise")
    )


def test_a_panel_says_that_a_cascade_did_not_ask_all_its_judges_about_everything():
    made, cases, judgments = run()
    made = made.with_({"judge.vote": "majority"})
    (note,) = (one for one in score_run(made, cases, judgments).notes if UNASKED in one)
    assert note.removeprefix(UNASKED).startswith("large 120 of 360 pairs or responses; ")
    more = [one for i in range(360) if i % 3 for one in both("large", f"c{i}", -1.0, -1.0)]
    for scores in (scores_of_run(), score_run(made, cases, [*judgments, *more])):
        assert not any(UNASKED in one for one in scores.notes)


def test_only_one_label_of_a_cluster_chooses():
    made = config("small", "large", target=0.8, scoring={"cluster": "topic"})
    cases = [replace(case, metadata={"topic": i // 3}) for i, case in enumerate(pairs(240))]
    judgments = [one for case in cases for one in both("small", case.id, 1.0, 1.0)]
    dev = dev_cases(made.judge, cases, Clusters.of(made, cases))
    assert all(len(set(dev[i : i + 3].tolist())) == 1 for i in range(0, 240, 3))
    step = score_run(made, cases, judgments).details["cascade"]["steps"][0]
    assert step["labels"] == dev.sum() / 3


def test_pairs_of_a_case_are_decided_one_by_one():
    made = config("small", "large", target=0.8)
    texts = (Response("a"), Response("b"), Response("c"))
    cases = [
        Case(f"c{i}", f"q {i}", texts, labels={"ann": {"0,1": "A", "0,2": "A", "1,2": "A"}})
        for i in range(200)
    ]
    judgments = list[Judgment]()
    for case in cases:
        for unit in ((0, 1), (0, 2), (1, 2)):
            judgments += both("small", case.id, 1.0, -1.0 if unit == (1, 2) else 1.0, unit)
    assert escalated(made, cases, judgments) == {(case.id, (1, 2)) for case in cases}


def test_a_tie_is_as_sure_as_the_orders_that_call_it_one():
    made = config("small", "large", target=0.8)
    cases = pairs(120, label="TIE")
    judgments = [
        one
        for i, case in enumerate(cases)
        for one in both("small", case.id, 0.0, 0.0 if i % 2 else None)
    ]
    assert escalated(made, cases, judgments) == {(f"c{i}", (0, 1)) for i in range(0, 120, 2)}


def priced(judgments: list[Judgment], price: Mapping[str, float]) -> list[Judgment]:
    return [replace(one, completion=Completion("", cost_usd=price[one.judge])) for one in judgments]


@pytest.mark.slow
@pytest.mark.parametrize("costs", [(0.1, 0.01), (0.0, 0.1)])
@pytest.mark.parametrize("escalated_", [3, 1])
def test_every_cost_ratio_has_an_interval(costs, escalated_):
    """Also where every case costs the same: here the small judge is sure in no case, or in two of three."""
    made, cases, judgments = config("small", "large", target=0.8), pairs(120), list[Judgment]()
    price = dict(zip(("small", "large"), costs, strict=True))
    for i, case in enumerate(cases):
        asked_both = i % escalated_ == 0
        judgments += both("small", case.id, 1.0, -1.0 if asked_both else 1.0)
        judgments += both("large", case.id, 1.0, 1.0) if asked_both else []
    ratio = score_run(made, cases, priced(judgments, price)).metrics["cascade/cost_ratio"]
    assert ratio.value == pytest.approx(costs[0] / costs[1] + 1 / escalated_)
    assert 0 <= ratio.low < ratio.value < ratio.high


# Classes


def classes(n: int) -> list[Case]:
    return [Case(f"c{i}", f"q {i}", (Response("a", class_name="pass"),)) for i in range(n)]


def samples(judge: str, case: str, *names: str | None, **more: Any) -> list[Judgment]:
    return [
        Judgment(
            case, (0,), (0,), k, judge, "failed" if name is None else "ok", class_name=name, **more
        )
        for k, name in enumerate(names)
    ]


def test_classes_are_as_sure_as_the_samples_that_name_them():
    made, cases, judgments = (
        of_classes("small", "large", target=0.8),
        classes(150),
        list[Judgment](),
    )
    for i, case in enumerate(cases):
        judgments += samples("small", case.id, "pass", "pass", "pass" if i % 3 else "fail")
    # A sure answer of two in three is tested too; its errors decide.
    wrong = [
        replace(case, responses=(Response("a", class_name="fail" if i % 3 == 0 else "pass"),))
        for i, case in enumerate(cases)
    ]
    waiting = {(f"c{i}", (0,)) for i in range(0, 150, 3)}
    assert escalated(made, wrong, judgments) == waiting
    for i in range(0, 150, 3):
        judgments += samples("large", f"c{i}", *((None,) * 3 if i % 6 else ("pass", "fail", None)))
    verdicts = verdicts_of(made, wrong, judgments)
    assert {(one.class_name, one.reason) for one in verdicts[1::3]} == {("pass", "judged")}
    assert {(one.class_name, one.reason) for one in verdicts[3::6]} == {(None, "missing")}
    assert {(one.class_name, one.reason) for one in verdicts[0::6]} == {(None, "abstained")}
    metrics = score_run(made, wrong, judgments).metrics
    assert metrics["cascade/share/small"].value == pytest.approx(100 / 125)
    assert metrics["class/abstained"].value == pytest.approx(25 / 125)
    assert "judge/large/agreement/accuracy" not in metrics
    assert "judge/small/agreement/accuracy" in metrics


def test_probabilities_are_certainties():
    made = of_classes(
        "small",
        "large",
        target=0.8,
        small={"logprobs": True},
        large={"logprobs": True},
        last="answer",
    )
    made = made.with_({"mode.samples": 1})
    cases, judgments = classes(120), list[Judgment]()
    for i, case in enumerate(cases):
        chances = {"pass": 0.95, "fail": 0.05} if i % 4 else {"pass": 0.6, "fail": 0.4}
        judgments += samples("small", case.id, "pass", weighted=WeightedJudgment(classes=chances))
    labeled = [
        replace(one, responses=(Response("a", class_name="pass" if i % 4 else "fail"),))
        for i, one in enumerate(cases)
    ]
    assert escalated(made, labeled, judgments) == {(f"c{i}", (0,)) for i in range(0, 120, 4)}
    for i in range(0, 120, 4):
        judgments += samples(
            "large", f"c{i}", "fail", weighted=WeightedJudgment(classes={"pass": 0.1, "fail": 0.9})
        )
    assert verdicts_of(made, labeled, judgments)[0].confidence == pytest.approx(0.9)


# Settings


@pytest.mark.parametrize(("settings", "said"), [
    ({"mode": {"name": "listwise"}}, "a cascade decides pairs or classes"),
    ({"mode": {"name": "pointwise"}, "swap": {"policy": "none"}},
     "a cascade decides pairs or classes"),
    ({"swap": {"policy": "none"}}, "nothing shows how sure small is"),
    ({"swap": {"policy": "none"}, "small": {"logprobs": True}},
     "nothing shows how sure large is"),
    ({"runner": {"kind": "slurm"}}, "workers have a part of the cases"),
    ({"thresholds": (0.9,)}, "thresholds has 1 values, and there are 2 judges"),
    ({"thresholds": (0.9, 1.1)}, "thresholds"),
])  # fmt: skip
def test_settings_of_which_a_cascade_can_make_nothing_are_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        config("small", "large", **settings)


def test_a_cascade_needs_two_judges():
    with pytest.raises(
        ValidationError, match="a cascade needs two judges, but there is only one: add judges"
    ):
        JudgeConfig.model_validate({"vote": "cascade", "judges": [{"model": "n"}]})


def test_the_judges_of_a_cascade_are_single_ones():
    panel = {"judges": [{"model": "m"}]}
    with pytest.raises(ValidationError, match="judges of a cascade include a panel"):
        JudgeConfig.model_validate({"vote": "cascade", "judges": [panel, {"model": "n"}]})


def test_a_judge_that_always_answers_need_not_be_sure():
    config("small", "large", swap={"policy": "none"}, small={"logprobs": True}, last="answer")


def test_nobody_has_decided_before_anybody_is_asked():
    every = np.ones(30, dtype=bool)
    found = Cascade.of(config("small", "large").judge, {}, every, every)
    assert (found.decider == WAITING).all()


# Withheld pairs


TRIPLE = (Response("a", model="m"), Response("bb", model="n"), Response("ccc", model="gpt-4"))
GRID = {
    "orders": {},
    "one order": {"swap": {"policy": "none"}},
    "votes on orders": {"swap": {"resolve": "net_vote"}},
    "net edges": {"scoring": {"conflict_edges": "net"}},
    "no ties": {"tie": {"allow": False}},
    "samples": {"mode": {"name": "pairwise", "samples": 2}},
    "three responses": {"responses": TRIPLE},
    "three responses, net edges": {"responses": TRIPLE, "scoring": {"conflict_edges": "net"}},
    "identical": {"responses": (Response("same"), Response("same"))},
    "systems": {"responses": (Response("aaaa", model="gpt-4"), Response("b", model="claude"))},
}
OF_CALLS = ("cascade/", "missing/", "cost/", "judge/", "latency/", "weighted/")
"""Metrics of requests and of judges: an abstention is one of their results."""


def abstaining(**settings: Any) -> tuple[RunConfig, list[Case], list[Judgment]]:
    """A cascade whose judges are both unsure, and wrong, in every third case; the large one fails in some of them."""
    responses = settings.pop("responses", (Response("a"), Response("bb")))
    settings = {"small": {"logprobs": "fallback"}, "large": {"logprobs": "fallback"}, **settings}
    made = config("small", "large", **{"target": 0.8, **settings})
    units = list(combinations(range(len(responses)), 2))
    labels = {"ann": {f"{i},{j}": "A" for i, j in units}}
    cases = [Case(f"c{i}", f"q {i}", responses, label="A", labels=labels) for i in range(120)]
    judgments, orders = list[Judgment](), 1 if made.swap.policy == "none" else 2
    for i, case in enumerate(cases):
        for judge in ("small", "large") if i % 3 == 0 else ("small",):
            sure = (
                (1.0, 1.0)
                if i % 3
                else (None, None)
                if i % 12 == 3 and judge == "large"
                else (-0.5, 0.3)
            )
            judgments += [
                replace(one, sample=k, confidence=0.9 if i % 2 else 0.8)
                for unit in units
                for k in range(made.mode.samples)
                for one in both(judge, case.id, *sure, unit)[:orders]
            ]
    return made, cases, judgments


def facts(metric: Metric) -> list[Any]:
    values = [metric.value, metric.worst_low, metric.worst_high]
    return [metric.n, metric.missing, *(None if v is None else pytest.approx(v) for v in values)]


def of_verdicts(scores: Scores) -> dict[str, Metric]:
    return {
        name: metric for name, metric in scores.metrics.items() if not name.startswith(OF_CALLS)
    }


def check_removal(
    made: RunConfig, cases: list[Case], judgments: list[Judgment], *allowed: str
) -> set[str]:
    """Remove withheld cases whose labels chose no threshold: no metric of verdicts changes.

    Return their names.
    """
    made = made.with_({"scoring.bootstrap": 0})  # intervals are not compared
    full = score_run(made, cases, judgments)
    withheld = {one.case_id for one in full.verdicts if one.reason == "abstained"}
    dev = dev_cases(made.judge, cases, Clusters.each(len(cases)))
    gone = {
        case.id for case, own in zip(cases, dev, strict=True) if case.id in withheld and not own
    }
    assert 10 < len(gone) < len(withheld)
    some = score_run(
        made,
        [c for c in cases if c.id not in gone],
        [j for j in judgments if j.case_id not in gone],
    )
    before, after = of_verdicts(full), of_verdicts(some)
    assert before.keys() == after.keys()
    changed = {
        name: (one, after[name]) for name, one in before.items() if facts(one) != facts(after[name])
    }
    # The decision and corrected rates count all labeled units, and slices are tested on all cases.
    allowed = (*allowed, "decision/", "slices/", "corrected/")
    assert not [name for name in changed if not name.startswith(allowed)], changed
    return {*before}


@pytest.mark.slow
@pytest.mark.parametrize("settings", some_of(GRID.values(), 3), ids=GRID)
def test_no_metric_depends_on_withheld_pairs(settings):
    names = check_removal(*abstaining(**settings))
    assert {
        "position/consistency",
        "agreement/accuracy_per_order",
        "decision/order_agreement",
    } <= names


METADATA = {"turn": 1, "domain": "math", "category": "x", "num_correct": 1}
RULES = {
    **dict.fromkeys(
        ("alpaca_eval", "arena_hard", "auto_j", "faireval", "helpsteer", "judgebench", "mt_bench"),
        "",
    ),
    **{"llmbar": "natural", "pandalm": "", "rewardbench": "alpacaeval-easy", "rewardbench2": "Math",
       "rm_bench": ""},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(RULES, 3))
def test_no_metric_of_a_benchmark_depends_on_withheld_pairs(name):
    responses = TRIPLE if name in ("rewardbench2", "rm_bench") else TRIPLE[:2]
    made, cases, judgments = abstaining(dataset={"benchmark": name}, responses=responses)
    cases = [replace(case, metadata=METADATA | {"subset": RULES[name]}) for case in cases]
    assert any(
        metric.startswith(f"{name}/")
        for metric in check_removal(made, cases, judgments, "mt_bench/human")
    )


def test_no_metric_depends_on_withheld_classes():
    made, cases, judgments = (
        of_classes("small", "large", target=0.8),
        classes(240),
        list[Judgment](),
    )
    for i, case in enumerate(cases):
        judgments += samples("small", case.id, "pass", "pass", "pass" if i % 3 else "fail")
        if i % 3 == 0:
            judgments += samples(
                "large", case.id, *((None,) * 3 if i % 12 == 3 else ("pass", "fail", None))
            )
    wrong = [
        replace(one, responses=(Response("a", class_name="pass" if i % 3 else "fail"),))
        for i, one in enumerate(cases)
    ]
    check_removal(made, wrong, judgments, "class/abstained", "class/split")


@pytest.mark.parametrize("settings", GRID.values(), ids=GRID)
def test_a_cascade_that_decides_nothing_states_nothing_about_orders(settings):
    made, cases, judgments = abstaining(**settings, target=0.999, delta=0.01)
    given = {judgment.case_id for judgment in judgments if judgment.judge == "large"}
    judgments += [replace(one, judge="large") for one in judgments if one.case_id not in given]
    scores = score_run(made, cases, judgments)
    assert scores.metrics["cascade/abstained"].value == 1.0
    assert {one.orders for one in scores.verdicts if one.reason == "abstained"} == {None}
    for name, metric in of_verdicts(scores).items():
        if name.startswith(
            (
                "position/",
                "decision/order",
                "agreement/",
                "conflict/",
                "length/",
                "samples/",
            )
        ):
            assert metric.value is None, name
            assert metric.n == 0, name
    text = " ".join(finding.text for finding in findings(scores.metrics, "pairwise"))
    assert "Keeps its verdict" not in text
    assert re.search(r"abstains in (\d+) of \1 pairs or responses", text)


def test_a_case_with_a_withheld_pair_is_no_tournament_and_not_missing():
    made = config("small", "large", target=0.9)
    cases = [
        replace(
            case,
            responses=TRIPLE,
            labels={"ann": {"0,1": "A", "0,2": "A", "1,2": "B" if i % 2 else "A"}},
        )
        for i, case in enumerate(pairs(200))
    ]
    judgments = list[Judgment]()
    for i, case in enumerate(cases):
        for unit in ((0, 1), (0, 2), (1, 2)):
            unsure = unit == (1, 2) and i % 2
            for judge in ("small", "large") if unsure else ("small",):
                judgments += both(judge, case.id, 1.0, -1.0 if unsure else 1.0, unit)
    metrics = score_run(made, cases, judgments).metrics
    assert (metrics["conflict/rate"].n, metrics["conflict/rate"].missing) == (100, 0)
    assert (metrics["position/consistency"].n, metrics["position/consistency"].missing) == (500, 0)


# Given thresholds


def test_on_some_of_its_cases_a_run_keeps_its_thresholds_and_the_labels_that_chose_them_are_in_no_metric():
    made, cases, judgments = run()
    single = made.with_({"judge": JudgeConfig(model="m", name="single")})
    some = cases[:20]  # too few labels to choose any threshold
    other = RunEntry(
        "single", single, some, [one for case in some for one in both("single", case.id, 1.0, 1.0)]
    )
    kept = [
        i for i, dev in enumerate(dev_cases(made.judge, cases, Clusters.each(360))[:20]) if not dev
    ]
    for runs in (
        [RunEntry("cascade", made, cases, judgments), other],
        [other, RunEntry("cascade", made, cases, judgments)],
    ):
        comparison = compare_runs(runs, ScoringConfig(bootstrap=20))
        metrics = {(one.run, one.metric.name): one.metric for one in comparison.entries}
        assert metrics["cascade", "win_rate/a"].n == sum(i % 12 not in (0, 3) for i in range(20))
        assert metrics["single", "agreement/accuracy"].n == 20
        (lead,) = (one for one in comparison.differences if one.metric.name == "agreement/accuracy")
        assert (lead.metric.value, lead.metric.n) == (0.0, sum(i % 12 not in (0, 3) for i in kept))
    asked = [*some, *(replace(case, prompt=f"new {case.id}") for case in cases[20:])]
    after = RunEntry("after", made, asked, judgments)
    drift = measure_drift(
        RunEntry("before", made, cases, judgments), after, [{}, {}], made.scoring, 0.05
    )
    assert (drift.cases, drift.metrics["win_rate/a"].n) == (
        20,
        sum(i % 12 not in (0, 3) for i in range(20)),
    )


def of_one_class(**_: Any) -> tuple[RunConfig, list[Case], list[Judgment]]:
    made, cases, judgments = (
        of_classes("small", "large", target=0.8),
        classes(150),
        list[Judgment](),
    )
    for i, case in enumerate(cases):
        judgments += samples("small", case.id, "pass", "pass", "pass" if i % 3 else "fail")
        judgments += (
            samples("large", case.id, "pass", "pass", "fail" if i % 9 == 0 else "pass")
            if i % 3 == 0
            else []
        )
    return (
        made,
        [replace(one, responses=(Response("a", class_name="pass"),)) for one in cases],
        judgments,
    )


@pytest.mark.slow
@pytest.mark.parametrize("made_by", some_of([*GRID.values(), None], 4), ids=[*GRID, "classes"])
def test_given_thresholds_decide_case_by_case_as_labels_did_for_all(made_by):
    """So a server, a worker and an audit can know them: neither other cases nor labels matter any more."""
    made, cases, judgments = of_one_class() if made_by is None else abstaining(**made_by)
    by_case: dict[str, list[Judgment]] = {case.id: [] for case in cases[:24]}
    for judgment in judgments:
        by_case.get(judgment.case_id, []).append(judgment)
    bare = [
        replace(case, label=None, labels={}, responses=TRIPLE[: len(case.responses)])
        for case in cases[:24]
    ]
    of_small = [one for one in judgments if one.judge == "small"]
    for last in ("abstain", "answer"):
        made = made.with_({"judge.last": last})
        fixed = calibrated(made, cases, judgments)
        alone = [one for case in bare for one in verdicts_of(fixed, [case], by_case[case.id])]
        facts_ = [
            [
                (one.case_id, one.unit, one.winner, one.class_name, one.reason, one.decided_by)
                for one in verdicts
            ]
            for verdicts in (verdicts_of(made, cases, judgments)[: len(alone)], alone)
        ]
        if made.tie.allow:
            assert facts_[0] == facts_[1]
        assert escalated(fixed, cases, of_small) == escalated(made, cases, of_small)


def test_with_given_thresholds_every_label_is_for_the_report():
    made, cases, judgments = run()
    fixed, by_labels = calibrated(made, cases, judgments), scores_of_run()
    assert fixed.judge.thresholds == tuple(
        step["threshold"] for step in by_labels.details["cascade"]["steps"]
    )
    assert calibrated(fixed, cases, judgments) is fixed
    check_labels(fixed, [], Clusters.each(0))
    scores = score_run(fixed, cases, judgments)
    assert scores.metrics["cascade/accuracy"].n == 300
    assert scores.details["cascade"]["given"]
    said = "agree with labels; this is too high if these labels chose judge.thresholds."
    assert said in " ".join(finding.text for finding in findings(scores.metrics, "pairwise"))
    chosen = findings(by_labels.metrics, "pairwise")
    assert "agree with labels that chose no threshold." in " ".join(
        finding.text for finding in chosen
    )
    assert (
        scores.metrics["cascade/share/small"].note
        == "where its certainty is at least 1, by judge.thresholds"
    )
    never = fixed.with_({"judge.thresholds": (None, 1.0)})
    share = score_run(never, cases, judgments).metrics["cascade/share/small"]
    assert str(share.note).startswith("never decides, by judge.thresholds")
    RunConfig.model_validate({**fixed.dump(), "runner": {"kind": "slurm"}})
