"""Runs that stop once no more cases are needed: what is asked, counted and kept, whatever answers come first."""

import asyncio
import random
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import load_config
from evalkit.config import RunConfig, RunnerConfig
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment
from evalkit.datasets import Dataset
from evalkit.engine.judging import JudgingResult, judge_cases
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stopping import is_settled
from evalkit.serving.watch import look_config
from evalkit.workflows.stopping import StopRule, in_random_order, with_stop
from tests.support.engine_fakes import DONE, Both, Memory, Scripted, Third, Time, cases
from tests.support.thorough import examples


@dataclass
class Until:
    """Needs the first `enough` cases, and keeps the cases it was given."""

    enough: int
    given: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, case: Case, judgments: object) -> bool:
        self.given.append((case.id, len(judgments)))  # type: ignore[arg-type]
        return {f"c{n}" for n in range(self.enough)} <= {name for name, _ in self.given}


def run(
    until: object,
    count: int = 200,
    evaluator: object = None,
    answer: object = None,
    **runner: object,
) -> tuple[JudgingResult, Scripted]:
    made = Scripted(answer or (lambda request, nth: DONE))  # type: ignore[arg-type]
    settings = RunnerConfig(**{"concurrency": 4, "retries": 0, **runner})
    judged = asyncio.run(
        judge_cases(
            cases(count),
            evaluator or Both(),
            [made],
            Memory(),
            settings,
            clock=Time().clock,
            until=until,
        )  # type: ignore[arg-type]
    )
    return judged, made


def test_nothing_more_is_sent_once_enough_cases_are_complete():
    until = Until(10)
    judged, made = run(until)
    assert (
        len(made.asked) < 20 + 2 * 4 + 4
    )  # those in flight are finished, and nothing else is sent
    assert judged.stopped is None
    assert judged.calls.sent == len(made.asked) == len(judged.judgments) == judged.calls.planned
    assert judged.calls.failed == 0
    assert {number for _, number in until.given} == {2}
    assert judged.cost_usd == pytest.approx(0.5 * len(made.asked))


def test_all_follow_up_requests_of_a_case_come_before_it_counts():
    until = Until(3)
    differing = lambda request, nth: Completion(str(request.shown), cost_usd=0.5)  # noqa: E731
    judged, _ = run(until, evaluator=Third(), answer=differing)
    assert {number for _, number in until.given} == {3}
    assert judged.calls.planned == judged.calls.sent == len(judged.judgments)


def test_a_failed_request_counts_as_asked_and_a_budget_says_so():
    fails = lambda request, nth: (  # noqa: E731
        ValueError("no") if "question 3 " in str(request.messages) else DONE
    )
    until = Until(10)
    judged, _ = run(until, answer=fails)
    assert judged.calls.failed == 2
    assert judged.stopped is None
    until = Until(100)
    judged, made = run(until, count=120, budget_calls=30)
    assert len(made.asked) == 30
    assert judged.stopped == "runner.budget_calls=30 is reached"


def config(*words: str, **stop: object) -> RunConfig:
    rule = ",".join(
        f"{key}:{value}" for key, value in {"metric": "win_rate/a", "width": 0.3, **stop}.items()
    )
    usual = ["judge=simulated/good", "swap=both", "scoring.bootstrap=20", "tracking=none"]
    return load_config(overrides=[*usual, f"runner.stop={{{rule}}}", *words])


def prepared(count: int, **stop: object) -> tuple[RunConfig, list[Case]]:
    made = config(**stop)
    ordered = in_random_order(made, cases(count), list)
    return with_stop(made, ordered), [*ordered]


def judged_cases(
    some: list[Case], rate: float = 0.5, failing: float = 0.0
) -> dict[str, list[Judgment]]:
    """Judge each case in both orders; who wins, and what fails, depends on the case only."""
    found = {}
    for case in some:
        own = random.Random(case.id)
        value, failed = (1.0 if own.random() < rate else -1.0), own.random() < failing
        found[case.id] = [
            Judgment(case.id, (0, 1), shown, 0, "good", "failed", error_kind="timeout")
            if failed
            else Judgment(case.id, (0, 1), shown, 0, "good", "ok", value=value)
            for shown in ((0, 1), (1, 0))
        ]
    return found


def outcome(
    made: RunConfig, ordered: list[Case], arrival: list[int], judgments: dict[str, list[Judgment]]
) -> StopRule:
    rule = StopRule(made, ordered, Both())
    for place in arrival:
        if rule(ordered[place], judgments[ordered[place].id]):
            break
    return rule


@examples(2)
@given(st.randoms(use_true_random=False), st.sampled_from([0.1, 0.5]))
def test_the_stop_does_not_depend_on_which_answers_come_first(shuffle, rate):
    made, ordered = prepared(160, width=0.45)
    judgments = judged_cases(ordered, rate, 0.02)
    first = outcome(made, ordered, [*range(160)], judgments)
    arrival = sorted(
        range(160), key=lambda place: place + shuffle.random() * shuffle.choice([2, 40, 400])
    )
    other = outcome(made, ordered, arrival, judgments)
    assert first.settled
    assert [*other.cases] == [*first.cases]
    flat = [judgment for case in ordered for judgment in judgments[case.id]]
    data = Dataset(ordered, "whole", "here", ())
    part, own, facts = first.part(data, flat, Path.cwd())
    assert [*own] == flat[: 2 * len(first.cases)]
    assert part.fingerprint != "whole" == facts["not_needed"]["fingerprint"]
    assert facts["not_needed"]["cases"] == 160 - len(part.cases)
    scores = score_run(made, part.cases, own)
    assert is_settled(made, scores.metrics)
    assert scores.metrics["win_rate/a"].n + scores.metrics["win_rate/a"].missing == len(first.cases)


def test_it_stops_at_the_first_look_whose_interval_is_narrow_enough():
    made, ordered = prepared(260)
    judgments = judged_cases(ordered)
    rule = outcome(made, ordered, [*range(260)], judgments)
    flat = [judgment for case in ordered for judgment in judgments[case.id]]
    count = len(rule.cases)

    def settles(n: int) -> bool:
        return is_settled(made, score_run(made, ordered[:n], flat[: 2 * n]).metrics)

    assert settles(count)
    assert not settles(count - max(1, count // 50) - 1)


def test_what_a_budget_cut_off_ends_the_run_at_the_last_cluster_before_it():
    made, ordered = prepared(260)
    judgments = judged_cases(ordered)
    for case in ordered[30:]:
        judgments[case.id][1] = Judgment(
            case.id, (0, 1), (1, 0), 0, "good", "failed", error_kind="budget"
        )
    rule = outcome(made, ordered, [*range(260)], judgments)
    assert not rule.settled
    assert [*rule.cases] == ordered[:30]
    judgments[ordered[0].id][0] = judgments[ordered[30].id][1]
    rule = outcome(made, ordered, [*range(260)], judgments)
    assert [*rule.cases] == ordered[:1]  # a run has at least one cluster


def test_cases_about_which_nothing_is_asked_do_not_hold_it_up():
    made, ordered = prepared(120)
    judgments = judged_cases(ordered)

    class Some(Both):
        def plan(self, case: Case) -> list[JudgeRequest]:
            return [] if int(case.id[1:]) % 2 else super().plan(case)

    rule = StopRule(made, ordered, Some())
    for case in ordered:
        if int(case.id[1:]) % 2 == 0 and rule(case, judgments[case.id]):
            break
    assert not rule.settled
    assert rule.complete >= 118


def test_clusters_stay_together_in_an_order_that_the_seed_decides():
    grouped = [Case(f"c{n}", f"question {n % 40}", cases(1)[0].responses) for n in range(120)]
    orders = [in_random_order(config(seed=seed), grouped, list) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    for order in orders:
        prompts = [case.prompt for case in order]
        assert (
            len({prompt for k, prompt in enumerate(prompts) if k and prompts[k - 1] == prompt})
            == 40
        )
        assert sum(one != other for one, other in pairwise(prompts)) == 39
        assert sorted(case.id for case in order) == sorted(case.id for case in grouped)
    assert with_stop(config(), orders[0]).runner.stop.largest == 3  # type: ignore[union-attr]
    assert (
        in_random_order(load_config(overrides=["judge=simulated/good"]), grouped, list) is grouped
    )
    made = config()
    seeded = [made.with_({"runner.stop.seed": seed}) for seed in range(400)]
    first = [in_random_order(one, cases(20), list)[0].id for one in seeded]
    counts = np.unique(first, return_counts=True)[1]
    assert len(counts) == 20
    assert ((counts - 20) ** 2 / 20).sum() < 45  # chi-square with 19 degrees of freedom, p = 0.0007


@pytest.mark.parametrize(
    "name", ["agreement/kappa", "cost/per_case", "missing/failed", "nonsense", "score/mean"]
)
def test_a_metric_that_cannot_stop_a_run_is_refused(name):
    with pytest.raises(
        ConfigError,
        match=f"{name}: it cannot stop a run; these can: tie_rate, .*win_rate/a, win_rate/b",
    ):
        with_stop(config(metric=name), cases(3))


def test_a_metric_with_nothing_to_count_is_refused():
    with pytest.raises(
        ConfigError, match="agreement/accuracy: nothing to count in these cases; these can: "
    ):
        with_stop(config(metric="agreement/accuracy"), cases(3))


REFUSED = {
    "batch asks before it has answers": ["runner=batch"],
    "slurm asks before it has answers": ["runner=slurm"],
    "scoring.length_control needs all scores": ["scoring.length_control=true"],
    "scoring.normalize needs all scores": ["scoring.normalize=zscore"],
    "judge.vote=dawid_skene needs all votes": ["judge=panel",
     "judge.judges=[simulated/good,simulated/noisy,simulated/position_biased]",
     "judge.vote=dawid_skene"],
    "a cascade asks one judge about all cases": ["judge=cascade",
                                                 "judge.judges=[simulated/good,simulated/noisy]"],
    "rubric=real has no ends": ["mode=pointwise", "swap=none", "rubric=real"],
    "dataset.holdout holds out labels": ["dataset.holdout=0.3"],
    "an audit compares all its cases": ["probe=standard"],
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_settings_that_do_not_go_with_a_stop_are_refused(what):
    with pytest.raises(ConfigError, match=f"runner.stop: {what}"):
        config(*REFUSED[what])


def test_a_look_of_a_watch_judges_all_cases():
    assert look_config(config(), "key").runner.stop is None


def test_the_stop_is_part_of_what_a_run_measures():
    made = config()
    plain = made.with_({"runner.stop": None})
    assert len({one.hash() for one in (plain, made, config(width=0.2), config(seed=1))}) == 4
    assert with_stop(made, cases(3)).hash() == made.hash()
    assert with_stop(plain, cases(3)) is plain
