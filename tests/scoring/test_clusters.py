"""Clusters of cases as the unit of resampling: copies of a case tell nothing new, in any interval and any test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalkit.config import RunConfig, ScoringConfig
from evalkit.errors import ConfigError
from evalkit.scoring import score_run
from evalkit.scoring.compare import RunEntry, compare_runs
from evalkit.scoring.leaderboard import Contender, rank
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Case, Response
from tests.support.simulations import simulations

COPIES = 3
OF_ROWS = (
    *("conflict/nodes", "conflict/triads", "conflict/reversals", "variance/", "jnd/noise", "human/alpha"),
    *("length/slope", "calibration/slope", "samples/alpha", "decision/labels_needed"),
)
"""Totals, parts of a variance whose unit is the case, and what is corrected for the number of labels or of rows."""


def copied(cases, judgments, times):
    """Return every case so often, on one prompt, with the same answers."""
    several = [replace(case, id=f"{case.id}.{k}") for case in cases for k in range(times)]
    return several, [replace(one, case_id=f"{one.case_id}.{k}") for one in judgments for k in range(times)]


def labelled(cases, generator):
    """Give each case a prompt of its own and three people's choices between its first two responses."""
    names = ("ann", "bob", "eve")
    return [
        replace(
            case,
            prompt=f"question {case.id}",
            metadata={"topic": int(case.id) // 2},
            labels={name: str(generator.choice(["A", "B"])) for name in names},
        )
        for case in cases
    ]


@pytest.fixture(scope="module", params=["pairs", "scores"])
def run(request):
    judge = {one.name: one for one in simulations().judges(200)}[request.param]
    generator = np.random.default_rng(4)
    cases, judgments = judge.make(generator, 40)
    return judge.config, labelled(cases, generator), judgments


@pytest.fixture(scope="module")
def once_and_often(run):
    """Return the scores of a run, and of copies of its cases."""
    config, cases, judgments = run
    return [score_run(config, *copied(cases, judgments, times)) for times in (1, COPIES)]


def test_copies_of_cases_on_one_prompt_change_no_interval(once_and_often):
    once, often = once_and_often
    assert (often.clusters.count, often.clusters.cases, often.clusters.by) == (40, 120, "prompt")
    compared = [name for name in once.metrics if not name.startswith(OF_ROWS)]
    assert len(compared) > 20
    for name in compared:
        one, other = once.metrics[name], often.metrics[name]
        close = 2e-3 if name == "jnd/labels" else 1e-6  # its levels are quantiles
        assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high), abs=close), name
        assert (one.low is None) == (other.low is None), name


def test_each_case_by_itself_is_narrower(run, once_and_often):
    """The same copies, each taken for a case of its own, would claim more than there is."""
    config, cases, judgments = run
    alone = config.model_copy(update={"scoring": config.scoring.model_copy(update={"cluster": "id"})})
    each = score_run(alone, *copied(cases, judgments, COPIES))
    widths = [found.metrics["tie_rate"].high - found.metrics["tie_rate"].low for found in (once_and_often[1], each)]
    assert widths[1] < 0.75 * widths[0]


def test_details_resample_clusters_too(once_and_often):
    """Ratings of systems, people against the judge, and what more labels would buy: in files beside the metrics."""
    once, often = (found.details for found in once_and_often)
    for mine, theirs in zip(once["ranking"]["systems"], often["ranking"]["systems"], strict=True):
        for name in ("rating", "win_rate", "rank"):
            ends = [(one[name]["low"], one[name]["high"]) for one in (mine, theirs)]
            assert ends[0] == pytest.approx(ends[1], abs=1e-6)
    length = [one["ranking"]["at_equal_length"]["effect_of_length"] for one in (once, often)]
    assert length[0] == pytest.approx(length[1], abs=1e-6)
    people = [[row["p"] for row in one["annotators"]] for one in (once, often)]
    assert people[0] == pytest.approx(people[1], abs=1e-9)
    for mine, theirs in zip(once["corrected"]["targets"], often["corrected"]["targets"], strict=True):
        if mine["more_labels"]:
            assert theirs["more_labels"][0]["width"] == pytest.approx(mine["more_labels"][0]["width"], rel=0.01)


def test_a_proportion_of_one_is_exact_over_clusters(make_case, configure, passes):
    cases = [Case(str(k), f"question {k % 8}", (Response("a"), Response("b")), label="A") for k in range(80)]
    judgments = [one for case in cases for one in passes(case.id, 1.0, 1.0)]
    metric = score_run(configure(), cases, judgments).metrics["agreement/accuracy"]
    assert metric.low == pytest.approx(0.025 ** (1 / 8))
    assert metric.note == "all 8 clusters agree: exact binomial interval"


@pytest.mark.parametrize("family", ["agreement/accuracy", "score/mean", "tie_rate"])
def test_tests_of_two_runs_are_of_clusters(family):
    name = "scores" if family == "score/mean" else "pairs"
    judge = {one.name: one for one in simulations().judges(200)}[name]
    runs = [judge.make(np.random.default_rng(seed), 40) for seed in (4, 5)]
    cases = labelled(runs[0][0], np.random.default_rng(0))

    def compared(times):
        entrants = [
            RunEntry(str(k), judge.config, *copied(cases, judgments, times)) for k, (_, judgments) in enumerate(runs)
        ]
        return compare_runs(entrants, ScoringConfig(bootstrap=200), [family])

    once, often = compared(1), compared(COPIES)
    one, other = (next(d for d in found.differences if d.metric.name == family) for found in (once, often))
    assert other.p == pytest.approx(one.p, rel=1e-6)
    assert (other.metric.low, other.metric.high) == pytest.approx((one.metric.low, one.metric.high), abs=1e-9)
    assert other.detectable == pytest.approx(one.detectable, rel=1e-6)
    assert often.clusters == "clusters: 120 cases in 40 clusters by prompt; intervals and tests resample clusters"


@pytest.mark.parametrize("name", ["pairs", "scores"])
def test_a_leaderboard_tests_clusters(name):
    judge = {one.name: one for one in simulations().judges(100)}[name]
    cases = labelled(judge.make(np.random.default_rng(4), 30)[0], np.random.default_rng(0))

    def board(times):
        contenders = []
        for seed in (4, 5):
            several = copied(cases, judge.make(np.random.default_rng(seed), 30)[1], times)
            scored = score_run(judge.config, *several)
            if name == "scores":
                scored.metrics.pop("agreement/accuracy")
            own = scored.clusters.by_id(several[0])
            contenders.append(Contender(str(seed), str(seed), "data", scored.metrics, scored.verdicts, own))
        return rank(contenders, ScoringConfig(bootstrap=200))

    (once,), (often,) = board(1).contrasts, board(COPIES).contrasts
    assert once.p == pytest.approx(often.p, rel=1e-6)


def cases_of(prompts, metadata=()):
    rows = [*metadata, *[{}] * (len(prompts) - len(metadata))]
    return [Case(str(k), text, (), metadata=row) for k, (text, row) in enumerate(zip(prompts, rows, strict=True))]


def clusters(cases, **scoring):
    found = Clusters.of(RunConfig(judge={"model": "m"}, criteria=[{"name": "q"}], **scoring), cases)
    return None if found.number is None else found.number.tolist()


def test_cases_on_one_prompt_are_a_cluster():
    assert clusters(cases_of(["why?", "how?", " why? ", "how?", "who?"])) == [0, 1, 0, 1, 2]


def test_a_prompt_that_says_nothing_makes_no_cluster():
    assert clusters(cases_of(["rate this"] * 4)) is None
    assert clusters(cases_of(["", "", "why?", "why?"])) == [0, 1, 2, 2]
    apart = [replace(case, context=f"text {k}") for k, case in enumerate(cases_of(["sum up", "sum up", "who?"]))]
    assert clusters(apart) is None


def test_a_column_makes_clusters():
    cases = cases_of(["a", "a", "b", "c"], [{"topic": "x"}, {"topic": 1}, {"topic": "x"}])
    assert clusters(cases, scoring={"cluster": "topic"}) == [0, 1, 0, 2]
    assert clusters(cases, scoring={"cluster": "id"}) is None
    with pytest.raises(ConfigError, match="no case has this column") as error:
        clusters(cases, scoring={"cluster": "topics"})
    assert "did you mean 'topic'" in str(error.value)


def test_mt_bench_has_its_questions():
    cases = cases_of(["turn 1", "turn 2", "other"], [{"question_id": 81}, {"question_id": 81}, {"question_id": 82}])
    assert clusters(cases, dataset={"benchmark": "mt_bench"}) == [0, 0, 1]


def test_turns_of_a_conversation_are_one_cluster_unless_another_is_named(configure):
    def turn(name: str, number: int) -> Case:
        metadata = {"conversation": name, "turn": number, "turns": 2, "position": number / 2, "user": number}
        return Case(f"{name} #{number}", f"{name} {number}", (Response("text"),), metadata=metadata)

    cases = [turn(name, number) for name in "abc" for number in (1, 2)]
    found = Clusters.of(configure(), cases)
    assert (found.by, found.count, list(found.number)) == ("conversation", 3, [0, 0, 1, 1, 2, 2])
    assert Clusters.of(configure(scoring={"cluster": "user"}), cases).count == 2
    columns = [replace(case, metadata={"conversation": "a", "turn": 1}) for case in cases]
    assert Clusters.of(configure(), columns).count == 6
