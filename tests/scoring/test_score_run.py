"""The whole of scoring: pure, total, the same for the same input, in bounded memory, and its rare ways."""

import math
import weakref
from dataclasses import astuple, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalkit
from evalkit.config import GateConfig, LeadRule, ScoringConfig
from evalkit.core.errors import ConfigError, PluginError
from evalkit.core.spool import LazySequence
from evalkit.core.types import Case, Completion, Judgment, Metric, Response
from evalkit.scoring import catalog, run_metrics
from evalkit.scoring.catalog import CATALOG, MetricSpec, catalog_of
from evalkit.scoring.columns import NONE, A, B, all_pairs
from evalkit.scoring.gate_rules import Gate, fits, judge_lead, judge_metrics, lead_text
from evalkit.scoring.metrics import correlation_bounds
from evalkit.scoring.metrics.correlation_bounds import kendall_bounds, pearson_bounds
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import frontier_of, score_run, verdicts_by_judge, verdicts_of
from evalkit.scoring.stats import clusters
from evalkit.scoring.stats.bootstrap import resample
from evalkit.scoring.stats.clusters import Clusters, check_column
from evalkit.scoring.stats.statistic import Statistic, Table, share, totals_of
from evalkit.scoring.verdicts.pairs import coin
from evalkit.scoring.verdicts.verdict_objects import _by_name
from tests.support.counted_text import CountedText, most_texts
from tests.support.thorough import examples


def test_the_metrics_of_each_mode_are_there_whatever_the_data(
    configure, pointwise, make_case, passes, judged
):
    scores = [judged("c", (k,), criteria={"quality": 1 + k}) for k in (0, 1)]
    for config, judgments, named in (
        (
            configure(),
            passes("c", 1, 1),
            {"position/consistency", "jnd/noise", "conflict/zeta", "cost/per_case"},
        ),
        (
            pointwise(),
            scores,
            {"score/mean", "agreement/spearman_within", "length/score_slope", "missing/budget"},
        ),
    ):
        runs = (
            ([], []),
            ([make_case("c")], []),
            ([make_case("c", ("a",))], []),
            ([make_case("c")], judgments),
        )
        names = {frozenset(score_run(config, *run).metrics) for run in runs}
        assert len(names) == 1
        assert named < next(iter(names))


VALUE = st.none() | st.floats(-1, 1)
PASSES = st.lists(
    st.tuples(
        st.integers(2, 4),
        st.sampled_from(["A", "B", "TIE", None]),
        st.lists(VALUE, min_size=24, max_size=24),
    ),
    max_size=5,
)


def judgments_of(rows, make_case, judged):
    cases, judgments = [], []
    for k, (size, label, values) in enumerate(rows):
        cases.append(make_case(str(k), "abcd"[:size], label=label))
        units = [(i, j) for i in range(size) for j in range(i + 1, size)]
        places = [
            (unit, swapped, sample)
            for unit in units
            for swapped in (False, True)
            for sample in (0, 1)
        ]
        for (unit, swapped, sample), value in zip(places, values, strict=False):
            confidence = None if value is None or value > 0.9 else abs(value)
            judgments.append(
                judged(str(k), unit, value, swapped=swapped, sample=sample, confidence=confidence)
            )
    return cases, judgments


@pytest.mark.slow
@examples(10)
@given(PASSES, st.sampled_from(["tie", "lower_confidence", "net_vote", "mean"]), st.randoms())
def test_every_number_is_finite_bounded_and_independent_of_order(
    configure, make_case, judged, rows, resolve, random
):
    cases, judgments = judgments_of(rows, make_case, judged)
    config = configure(swap={"resolve": resolve}, tie={"threshold": 0.1}, scoring={"bootstrap": 20})
    scores = score_run(config, cases, judgments)
    assert len(scores.verdicts) == sum(size * (size - 1) // 2 for size, *_ in rows)
    for metric in scores.metrics.values():
        numbers = [value for value in astuple(metric)[1:8] if value is not None]
        assert all(math.isfinite(value) for value in numbers)
        assert (metric.value is not None) or metric.note
        if metric.value is not None and metric.worst_low is not None:
            assert metric.worst_low - 1e-9 <= metric.value <= metric.worst_high + 1e-9
    for verdict in scores.verdicts:
        assert (verdict.winner is None) == (verdict.reason == "missing") == (verdict.margin is None)
        assert verdict.confidence is None or 0 <= verdict.confidence <= 1
    random.shuffle(judgments)
    assert score_run(config, cases, judgments) == scores


def test_pointwise_is_independent_of_order_too(pointwise, make_case, judged):
    cases = [make_case(str(k), "abc", grades=[1, 2, 3]) for k in range(9)]
    judgments = [
        judged(str(k), (r,), criteria={"quality": 1 + (k * r) % 5}, sample=s)
        for k in range(9)
        for r in range(3)
        for s in range(2)
    ]
    scores = score_run(pointwise(), cases, judgments)
    assert score_run(pointwise(), cases, judgments[::-1]) == scores
    assert [verdict.unit for verdict in scores.verdicts[:6]] == [
        (0,),
        (1,),
        (2,),
        (0, 1),
        (0, 2),
        (1, 2),
    ]


@pytest.mark.parametrize(("change", "message"), [
    ({"case_id": "zzz"}, "case 'zzz': this case was judged but is not in the dataset"),
    ({"unit": (0, 2), "shown": (0, 2)},
     r"case 'c': responses \[0, 2\] were judged, but the case has 2"),
    ({"unit": (1, 0)}, r"case 'c': responses \[1, 0\] were judged"),
    ({"unit": (1, 1), "shown": (1, 1)}, r"case 'c': responses \[1, 1\] were judged"),
    ({"shown": (0, 0)}, r"case 'c': unit \[0, 1\] was shown as \[0, 0\]"),
    ({"sample": 0}, r"case 'c': responses \[0, 1\] have two judgments.*sample 0; keep one"),
    ({"unit": (0,), "shown": (0,)}, "judgments of 1 and 2 responses"),
    ({"unit": (0, 1, 2), "shown": (0, 1, 2)},
     r"case 'c': responses \[0, 2\] were judged, but the case has 2"),
    ({"unit": (0, 1, 2), "shown": (0, 1)}, r"case 'c': unit \[0, 1, 2\] was shown as \[0, 1\]"),
    ({"ranking": ((0,), (0,))}, r"case 'c': unit \[0, 1\] was ranked as \[\[0\], \[0\]\]"),
    ({"ranking": ((0,), (2,))}, r"case 'c': unit \[0, 1\] was ranked as \[\[0\], \[2\]\]"),
    ({"unit": (), "shown": ()}, "judgments of 0 and 2 responses"),
])  # fmt: skip
def test_judgments_that_do_not_belong(configure, make_case, judged, passes, change, message):
    extra = replace(judged("c", (0, 1), 1.0, sample=1), **change)
    with pytest.raises(ConfigError, match=message):
        score_run(configure(), [make_case("c")], [*passes("c", 1, 1), extra])


def test_a_response_scored_twice(pointwise, make_case, judged):
    twice = [judged("c", (1,), criteria={"quality": 3})] * 2
    with pytest.raises(ConfigError, match=r"responses \[1\] have two judgments"):
        score_run(pointwise(), [make_case("c")], twice)


def test_a_mode_of_ones_own_is_known_by_its_judgments(configure, make_case, judged):
    config = configure(mode={"name": "mine"}, swap={"policy": "none"})
    assert (
        "position/consistency"
        in score_run(config, [make_case("c")], [judged("c", (0, 1), 1.0)]).metrics
    )
    assert "score/mean" in score_run(config, [make_case("c")], [judged("c", (0,), 1.0)]).metrics


def test_the_frontier(configure, make_case, passes):
    cases = [make_case(str(k), label=label) for k, label in enumerate(["A", "B", "A", None, "TIE"])]
    rows = [(0.2, 0.2), (0.5, 0.5), (1, 1), (0, 0), (None, None)]
    judgments = [j for k, row in enumerate(rows) for j in passes(str(k), *row)]
    points = score_run(configure(tie={"threshold": 0.4}), cases, judgments).frontier
    assert [point.threshold for point in points] == [0, 0.2, 0.5, 1]
    assert [point.tie_rate for point in points] == [0.25, 0.5, 0.75, 1]
    assert [point.accuracy for point in points] == pytest.approx([2 / 3, 1 / 3, 1 / 3, 0])
    assert [point.decided_accuracy for point in points] == [pytest.approx(2 / 3), 0.5, 1, None]
    assert {point.weak_rate for point in points} == {None}
    assert frontier_of(configure(), cases, judgments) == points


def test_the_frontier_shows_weak_violations_and_is_capped(pointwise, make_case, judged):
    judgments = [
        judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([1, 2, 3])
    ]
    points = score_run(pointwise(), [make_case("c", "abc")], judgments).frontier
    assert [(point.threshold, point.weak_rate) for point in points] == [(0, 0), (1, 1), (2, 0)]
    cases = [make_case(str(k)) for k in range(300)]
    spread = [
        judged(str(k), (r,), criteria={"quality": 1 + r * k / 300})
        for k in range(300)
        for r in (0, 1)
    ]
    many = score_run(pointwise(), cases, spread).frontier
    assert len(many) == 101
    assert (many[0].threshold, many[-1].threshold) == (0, pytest.approx(299 / 300))
    assert [point.tie_rate for point in many] == sorted(point.tie_rate for point in many)


def test_nothing_to_score(configure, make_case):
    scores = score_run(configure(), [], [])
    assert (scores.verdicts, scores.frontier) == ((), ())
    assert {
        metric.value for name, metric in scores.metrics.items() if name != "decision/labels_needed"
    } == {None}


def test_a_share_of_nothing_has_no_bounds():
    assert share(0, 0, 0) == (None, None)
    assert share(1, 4, 2) == (1 / 4, 3 / 4)


class Made(LazySequence[Judgment]):
    """Two judgments for each case, made when asked for."""

    def __init__(self, cases: int) -> None:
        self.cases = cases

    def __len__(self) -> int:
        return 2 * self.cases

    def _make(self, place: int) -> Judgment:
        case, order = divmod(place, 2)
        value = float((case * 7 + order) % 3 - 1)
        shown = ((0, 1), (1, 0))[order]
        return Judgment(
            f"c{case}",
            (0, 1),
            shown,
            0,
            "m",
            "ok",
            value,
            0.8,
            {"quality": value},
            completion=Completion(CountedText(place)),
        )


def test_no_completion_is_held(configure):
    cases = [Case(f"c{k}", "q", (Response("a"), Response("bb")), label="A") for k in range(500)]
    config = configure(scoring={"bootstrap": 20})
    with most_texts() as held:
        verdicts = score_run(config, cases, Made(500)).verdicts
    assert len(verdicts) == 500
    assert held[0] < 1000 / 4, f"{held[0]} of 1,000 answers at once"


def test_resamples_are_not_held_side_by_side(monkeypatch):
    cases, resamples = 3_000, 400
    monkeypatch.setattr(clusters, "CHUNK", 2**17)
    statistic = Statistic(
        "x", np.ones((cases, 2)), lambda totals: totals[:, 0] / totals[:, 1], n=cases
    )
    held, peak, drawn = {}, 0, 0
    draw = Clusters.draw

    def noted(self, *settings):
        nonlocal peak, drawn
        for rows, weights in draw(self, *settings):
            held[id(weights)] = weights.nbytes
            weakref.finalize(weights, held.pop, id(weights))
            peak, drawn = max(peak, sum(held.values())), drawn + len(weights)
            yield rows, weights

    class Settings:
        bootstrap, seed = resamples, 0

    monkeypatch.setattr(Clusters, "draw", noted)
    resample([statistic], Settings(), Clusters.each(cases))
    assert drawn == resamples
    assert peak < 8 * cases * resamples / 4, f"{peak} bytes"


def test_whole_small_numbers_are_bytes_and_nothing_is_lost():
    columns = np.array([[0, 255, 256, 0.5, -1, np.nan], [3, 0, 0, 1, 0, 0]])
    table = Table.of(columns)
    assert [column.dtype.itemsize for column in table.columns] == [1, 1, 8, 8, 8, 8]
    assert all(
        np.array_equal(*pair, equal_nan=True) for pair in zip(table.columns, columns.T, strict=True)
    )
    assert Table.of(table) is table


@pytest.mark.parametrize("cases", [7, 300_000])
def test_totals_are_those_of_all_columns_at_once(cases):
    columns = np.random.default_rng(0).integers(0, 9, (cases, 9)).astype(float)
    weights = next(Clusters.each(cases).draw(3, 0))[1]
    assert totals_of(Table.of(columns).columns, weights) == pytest.approx(weights @ columns)


LISTED = {"responses": ["a", "b b", "c c c"]}
PAIR = {"response_a": "a", "response_b": "b b"}
PANEL = "judge={name: p, judges: [{model: simulated/good}, {model: simulated/noisy}, {model: simulated/length_biased}]}"


@pytest.mark.parametrize(("overrides", "row"), [
    (["judge=simulated/noisy"], PAIR),
    ([PANEL, "mode.samples=2"], PAIR),
    (["judge=simulated/noisy", "mode=pointwise"], LISTED),
    (["judge=simulated/noisy", "mode=listwise"], LISTED),
    (["judge=simulated/noisy", "mode=pointwise", "rubric=pass_fail"], LISTED),
    (["judge=simulated/noisy", "mode=checklist", "mode.samples=2"], {"response": "a",
     "checklist": ["It is short."]}),
], ids=["pairs", "panel", "scores", "lists", "classes", "checklists"])  # fmt: skip
def test_they_are_those_of_a_run(here, overrides, row):
    words = [*overrides, "tracking=none", "store.mode=off", "scoring.bootstrap=20"]
    cases = [{"id": str(number), "prompt": f"Write {number}", **row} for number in range(4)]
    run = evalkit.run(evalkit.load_config(overrides=words), here / "run", cases=cases)
    whole = [*score_run(run.config, run.cases, run.judgments).verdicts]
    assert whole
    assert [*verdicts_of(run.config, run.cases, run.judgments)] == whole
    by_judge = verdicts_by_judge(run)
    again = verdicts_by_judge(replace(run, verdicts=whole))
    assert {name: [*own] for name, own in by_judge.items()} == {
        name: [*own] for name, own in again.items()
    }
    assert set(by_judge) <= {one.judge for one in run.judgments}
    assert {len(verdicts) for verdicts in by_judge.values()} <= {len(whole)}


SETTINGS = ScoringConfig(bootstrap=50)
SCALES = {"mine": 5, "main": 10}


def three(labels: dict[str, object], grades: tuple[float | None, ...] = (None, None, None)) -> Case:
    responses = tuple(
        Response(text, grade=grade) for text, grade in zip("xyz", grades, strict=True)
    )
    return Case("c", "question", responses, labels=labels)


def label_of(case: Case, i: int, j: int) -> int:
    pairs = all_pairs([case])
    return int(pairs.label[pairs.place(0, i, j)])


def test_the_annotators_majority_labels_the_other_pairs_of_a_case():
    case = three(
        {
            "ann": {"0,2": "A", "1,2": "B", "5,6": "A"},
            "ben": {"0,2": "A", "1,2": "A"},
            "cid": {"0,2": "B"},
        }
    )
    assert label_of(case, 0, 2) == A
    assert label_of(case, 1, 2) == NONE  # one against one
    assert label_of(three({"ann": {"0,2": "A"}}, (1.0, 2.0, 3.0)), 0, 2) == B  # grades come first
    pairs = all_pairs([case, case])
    assert pairs.find(np.array([0, 1]), np.array([1, 0]), np.array([2, 1])).tolist() == [2, 3]


def test_identical_texts_are_tossed_for_by_their_places():
    case = Case("c", "question", tuple(Response("same") for _ in range(4)))
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    assert {coin(case, i, j) for i, j in pairs} == {1, -1}
    assert [coin(case, i, j) for i, j in pairs] == [coin(case, i, j) for i, j in pairs]


@pytest.fixture
def entry(configure, make_case, passes):
    """Make a run of 40 cases, right on the first `right` of them."""

    def make(name: str, right: int, **sections: object) -> RunEntry:
        cases = tuple(make_case(str(k), label="A") for k in range(40))
        margins = [1.0 if k < right else -1.0 for k in range(40)]
        judgments = tuple(
            one for k, margin in enumerate(margins) for one in passes(str(k), margin, margin)
        )
        return RunEntry(name, configure(**sections), cases, judgments)

    return make


@pytest.mark.parametrize(("rule", "right", "by", "state"), [
    ({"margin": 0.5}, 30, "interval", "held"),
    ({"margin": 0.02}, 10, "interval", "failed"),
    ({"margin": 0.25}, 30, "interval", "undecided"),
    ({"margin": 0.25}, 30, "value", "held"),
    ({"margin": 0.2}, 30, "value", "failed"),
    ({}, 40, "interval", "held"),  # no case differs, so no interval
    ({"metric": "tie_rate", "margin": 0.1, "better": "lower"}, 40, "interval", "held"),
    ({"metric": "agreement/spearman"}, 40, "interval", "undecided"),
])  # fmt: skip
def test_a_run_is_held_against_another_by_the_interval_of_the_difference(
    entry, rule, right, by, state
):
    lead = LeadRule(run="there", **rule)
    ruling = judge_lead(lead, entry("mine", right), entry("main", 39 if rule else 40), SETTINGS, by)
    assert (ruling.metric, ruling.state) == (lead.metric, state), ruling.why
    assert ruling.rule == lead_text(lead, "main")
    assert ruling.rule.endswith(
        f"by more than {lead.margin:g}" if lead.margin else "no worse than main"
    )


def test_runs_on_different_scales_are_not_decided(pointwise, make_case, judged):
    cases = tuple(make_case(str(k)) for k in range(6))
    judgments = tuple(judged(str(k), (0,), criteria={"quality": 1.0 + k % 3}) for k in range(6))
    mine, main = (
        RunEntry(name, pointwise(rubric={"max": most}), cases, judgments)
        for name, most in SCALES.items()
    )
    ruling = judge_lead(
        LeadRule(run="there", metric="score/mean", better="higher"), mine, main, SETTINGS
    )
    assert (ruling.state, ruling.why) == (
        "undecided",
        "the runs' values cannot be compared: their scales differ",
    )


@pytest.mark.parametrize(("states", "strict", "state"), [
    ([], False, "held"),
    (["held", "undecided"], False, "undecided"),
    (["held", "undecided"], True, "failed"),
    (["undecided", "failed"], False, "failed"),
])  # fmt: skip
def test_a_gate_is_as_its_gravest_rule(states, strict, state):
    rules = {"held": ">= 0.1", "undecided": ">= 0.5", "failed": ">= 0.9"}
    metrics = {f"rate/{k}": Metric(f"rate/{k}", 0.5, 0.4, 0.6) for k in range(len(states))}
    config = GateConfig.model_validate({f"rate/{k}": rules[name] for k, name in enumerate(states)})
    gate = Gate(tuple(judge_metrics(config, metrics)), strict=strict)
    assert gate.state == state
    told = gate.json()
    assert (told["state"], told["undecided"]) == (state, "fail" if strict else "pass")
    assert [rule["state"] for rule in told["rules"]] == states


def test_a_third_partys_rows_come_first_and_a_rule_that_fails_is_its_own_error(
    monkeypatch, configure, make_case, passes
):
    def fail(*_: object) -> list[Metric]:
        raise ZeroDivisionError("nothing to divide by")

    def refuse(*_: object) -> list[Metric]:
        raise ConfigError("is refused")

    row = MetricSpec("theirs/score", "Score", "Their score.")
    theirs = SimpleNamespace(title="Theirs", metrics=(row,), cluster=None, statistics=fail)
    for module in (catalog, run_metrics):
        monkeypatch.setattr(module, "find_benchmark", lambda _: theirs)
    monkeypatch.setattr("evalkit.scoring.stats.clusters.find_benchmark", lambda _: theirs)
    found = catalog_of("theirs")
    assert (found.rows[0].name, found.rows[0].benchmark) == ("theirs/score", "Theirs")
    assert found.rows[1:] == CATALOG.rows
    assert catalog_of(None) is CATALOG
    config = configure(dataset={"benchmark": "theirs", "path": "x.jsonl"})
    with pytest.raises(
        PluginError, match="the rule of 'theirs' fails: ZeroDivisionError: nothing to divide by"
    ):
        score_run(config, [make_case("c", label="A")], passes("c", 1.0, 1.0))
    theirs.statistics = refuse
    with pytest.raises(ConfigError, match="is refused"):
        score_run(config, [make_case("c", label="A")], passes("c", 1.0, 1.0))


def test_a_catalog_says_what_its_rows_say():
    assert CATALOG.chance("position/first_rate") == 0.5
    assert CATALOG.chance("nothing") is None
    assert CATALOG.spec("agreement/kappa").is_coefficient  # type: ignore[union-attr]
    assert not CATALOG.spec("tie_rate").is_coefficient  # type: ignore[union-attr]
    assert CATALOG.main(["tie_rate", "agreement/accuracy", "nothing"], 1) == ["tie_rate"]


def test_a_metric_of_a_criterion_needs_that_criterion(configure):
    named = [row.name for row in CATALOG.rows if row.placeholders == ("criterion",)]
    assert named
    for name in named:
        for criterion, expected in (("quality", True), ("absent", False)):
            match = CATALOG.find(name.replace("{criterion}", criterion))
            assert match is not None
            assert fits(match, configure(), lambda: []) is expected


def test_a_column_for_clusters_that_no_case_has():
    cases = [Case("c", "question", (Response("x"),), metadata={"topic": "history"})]
    for column in (None, "id", "prompt", "topic"):
        check_column(column, iter(cases))
    with pytest.raises(ConfigError, match="no case has this column; did you mean 'topic'"):
        check_column("topics", cases)


def test_correlations_without_different_grades_or_with_too_many_rows_have_no_bounds(monkeypatch):
    equal, none = np.ones(3), np.zeros(0)
    assert kendall_bounds(np.arange(3.0), equal, none, float("nan")) == (None, None)
    assert pearson_bounds(np.arange(3.0), equal, none, (0.0, 5.0)) == (None, None)
    monkeypatch.setattr(correlation_bounds, "LARGEST", 2)
    assert pearson_bounds(np.arange(3.0), np.arange(3.0), none, (0.0, 5.0)) == (None, None)


def test_clusters_are_told_only_where_there_are_any():
    assert Clusters.each(3).note() is None
    assert Clusters.by_key([1, 1, 2], "topic").note() is not None


def test_units_without_criteria_have_no_values_by_criterion():
    assert _by_name({}, np.arange(2)) == [{}, {}]
