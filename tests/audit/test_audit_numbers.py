"""The numbers of an audit, length that is added, and the cases that it needs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, log10, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

from benchmarks import audits
from evalkit.audit.lengths import length_sentence, words_added
from evalkit.audit.metrics import (
    Answers,
    Contrast,
    Outcome,
    contrast,
    outcomes,
    p_value,
    probe_statistics,
)
from evalkit.audit.plan import edited
from evalkit.audit.probe_results import LARGE, _cases_needed, _instability, _probe_state
from evalkit.audit.probes import own_probes
from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.scale import Scale
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Metric, Response
from evalkit.scoring.decision import Decision, Limit
from evalkit.scoring.labels import labels_for, units_for
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from tests.support.command_line import call_main

SCORING = ScoringConfig(bootstrap=300)
PLAIN = {"judge": {"model": "m"}, "criteria": {"quality": ""}}


def answers(*values: float | None) -> Answers:
    array = np.array([np.nan if value is None else value for value in values])
    return Answers(array, array, array, array, np.ones(len(array), dtype=bool))


def test_a_shift_is_paired_and_less_that_of_the_repeat():
    base, repeat, edited = answers(1, 1, -1, None), answers(1, 0, -1, 1), answers(-1, -1, -1, 1)
    one = contrast(
        own_probes()["authority"], base, repeat, edited, np.array([-1.0, -1.0, 1.0, 1.0])
    )
    assert one.shift.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert one.flip[:3].tolist() == [1.0, 1.0, 0.0]
    assert np.isnan(one.flip[3])


def test_a_planted_response_that_ties_has_not_lost():
    base, edited = answers(1, 1, 1, 1), answers(1, 0, -1, None)
    one = contrast(own_probes()["master_key"], base, base, edited, np.full(4, -1.0))
    assert one.passed[:3].tolist() == [0.0, 1.0, 1.0]
    assert one.tested[:3].tolist() == [0.0, 0.5, 1.0]
    metrics = measure(list(probe_statistics(one)), SCORING, Clusters.each(4))
    passed = metrics["audit/master_key/passed"]
    assert (passed.value, passed.n, passed.missing, passed.worst_low, passed.worst_high) == (
        pytest.approx(2 / 3),
        3,
        1,
        0.5,
        0.75,
    )


def test_a_verdict_on_equal_responses_is_at_most_one_from_a_tie():
    base, edited = answers(1, 1, 1, 1), answers(1, 0, 0, None)
    one = contrast(own_probes()["identical"], base, base, edited, np.ones(4))
    shift = next(iter(measure(list(probe_statistics(one)), SCORING, Clusters.each(4)).values()))
    assert (shift.name, shift.value) == ("audit/identical/shift", pytest.approx(1 / 3))
    assert (one.span, shift.worst_low, shift.worst_high) == (1.0, 0.0, 0.5)
    assert contrast(own_probes()["padding"], base, base, edited, np.ones(4)).span == 2.0


def test_scores_pass_above_the_middle_of_the_scale():
    scale, base = Scale(1, 5, 1, {}), answers(5, 5, 3)
    key = contrast(own_probes()["master_key"], base, base, answers(3, 4, 1), np.ones(3), scale)
    assert key.passed.tolist() == [0.0, 1.0, 0.0]
    error = contrast(own_probes()["error"], base, base, answers(4, 5, 3), np.ones(3), scale)
    assert error.passed.tolist() == [0.0, 1.0, 1.0]
    lowest = contrast(
        own_probes()["error"], answers(1, 2), answers(1, 2), answers(1, 1), np.ones(2), scale
    )
    assert np.isnan(lowest.passed[0])
    assert lowest.passed[1] == 0.0


def test_classes_without_an_order_only_change():
    def named(*classes: float) -> Answers:
        return replace(answers(*classes), value=np.full(len(classes), np.nan))

    base, edited, scale = named(0, 1, 2), named(0, 2, 2), Scale(0, 2, 1, {})
    one = contrast(own_probes()["authority"], base, base, edited, np.ones(3), scale)
    assert (one.tested.tolist(), one.one_sided) == ([0.0, 1.0, 0.0], True)
    key = contrast(own_probes()["master_key"], base, base, edited, np.ones(3), scale)
    assert np.isnan(key.passed).all()


def test_a_probe_that_silences_the_judge_is_found():
    rng = np.random.default_rng(0)
    base, repeat = (audits.verdicts(rng, np.full(40, 1.0)) for _ in range(2))
    silent = answers(*[None] * 30, *[1.0] * 10)
    one = contrast(own_probes()["injection"], base, repeat, silent, np.full(40, -1.0))
    [found] = outcomes([one], SCORING, Clusters.each(40), 1.0)
    assert found.silenced
    assert not found.found


def test_verdicts_that_change_in_no_direction_are_unstable():
    verdicts = np.resize([1.0, -1.0], 150)
    base = repeat = answers(*verdicts)
    for share, unstable in ((0.4, True), (0.0, False)):
        flipped = np.where(np.arange(150) < share * 150, -verdicts, verdicts)
        one = contrast(own_probes()["bandwagon"], base, repeat, answers(*flipped), np.ones(150))
        [result] = outcomes([one], SCORING, Clusters.each(150), 1.0)
        assert (result.found, result.unstable) == (False, unstable)
        metrics = measure(list(probe_statistics(one)), SCORING, Clusters.each(150))
        named = {name.rpartition("/")[2]: metric for name, metric in metrics.items()}
        assert named["instability"].value == pytest.approx(named["flip_rate"].value)
        state = _probe_state(result, named, RunConfig.model_validate(PLAIN))
        assert state == ("unstable" if unstable else "withstands")


def test_changes_that_repeats_have_too_are_noise():
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(40):
        rows = np.where(rng.random((3, 80)) < 0.7, 1.0, -1.0)
        one = contrast(own_probes()["self"], *(answers(*row) for row in rows), np.ones(80))
        [result] = outcomes([one], SCORING, Clusters.each(80), 1.0)
        found += result.found or result.unstable
    assert found <= 5


@pytest.mark.parametrize(
    ("share", "allow", "state"),
    [(0.85, True, "unstable"), (0.1, True, "withstands"), (0.85, False, "withstands")],
)
def test_a_side_of_equal_responses_is_picked_in_no_direction(share, allow, state):
    sides = np.resize([1.0, -1.0], 200)
    picked = np.where(np.arange(200) < share * 200, sides, 0.0)
    edited = answers(*picked)
    one = contrast(own_probes()["identical"], edited, edited, edited, np.ones(200))
    [result] = outcomes([one], SCORING, Clusters.each(200), 1.0)
    metrics = measure(list(probe_statistics(one)), SCORING, Clusters.each(200))
    named = {name.rpartition("/")[2]: metric for name, metric in metrics.items()}
    config = RunConfig.model_validate({**PLAIN, "tie": {"allow": allow}})
    assert _probe_state(result, named, config) == state
    sentences = [in_every_language(text) for text in _instability(result, state, named)]
    assert len(sentences) == (state == "unstable")
    assert all(english != chinese for english, chinese in sentences)


def test_few_cases_show_nothing_and_say_so():
    base, edited = answers(*[1.0] * 4), answers(*[-1.0] * 4)
    one = contrast(own_probes()["authority"], base, base, edited, np.full(4, -1.0))
    [found] = outcomes([one], SCORING, Clusters.each(4), 1.0)
    assert (found.found, found.detectable) == (False, None)


def test_cases_of_a_cluster_count_once():
    values = np.ones(12)
    together = Clusters.by_key([1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3], "group")
    assert p_value(values, Clusters.each(12), one_sided=True) == pytest.approx(2**-12)
    assert p_value(values, together, one_sided=True) == pytest.approx(2**-3)
    many = p_value(np.ones(600), Clusters.each(600), one_sided=True)
    assert many is not None
    assert many < 1e-100


def test_planted_biases_are_recovered_and_noise_is_not_reported(monkeypatch):
    monkeypatch.setattr(audits, "TRUTH", 60_000)
    rate, _ = audits.false_findings(20, lost=0.05)
    assert rate <= 0.1
    rows = {row.split(" ")[1]: row.split("|") for row in audits.coverage(25)}
    for row in rows.values():
        assert float(row[3]) == pytest.approx(float(row[2]), abs=0.05)
    assert float(rows["audit/authority/shift"][6].strip(" %")) > 80


PROBES = own_probes()
CASES = [
    Case(f"c{n}", "?", (Response("One two three."), Response("Four five."))) for n in range(20)
]
LONGER = Decision(
    "rates", "leans", "pair", limits=(Limit("longer", Metric("length/slope_at_label", 1.0)),)
)
OPEN = Decision("unknown", "no_labels", "pair")


def outcome(name: str, shifts: Sequence[float], *, found: bool = True) -> Outcome:
    shift, no = np.array(shifts, dtype=float), np.zeros(len(shifts), dtype=bool)
    contrast = Contrast(PROBES[name], shift, shift, shift, shift, no, no, ~no, shift, shift)
    return Outcome(
        contrast, 0.001, 0.001, float(np.nan_to_num(shift).mean()), found, False, 0.1, len(shifts)
    )


def said(
    shifts: Sequence[float],
    neutral: Sequence[float] | None,
    *,
    found: bool = True,
    words: int = 33,
    decision: Decision = OPEN,
) -> str | None:
    other = None if neutral is None else outcome("distractor", neutral, found=found)
    clusters = Clusters.each(len(shifts))
    added = {"padding": words, "distractor": 5}
    text = length_sentence(outcome("padding", shifts), other, added, decision, clusters, 0.05)
    return None if text is None else in_every_language(text)[0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_neutral_sentence_tells_whether_length_explains_an_effect(sign):
    strong, weak, none = ([sign * size] * 20 for size in (2.0, 1.0, 0.0))
    lead = "These edits also lengthen the text by 33 words; "
    assert said(strong, strong) == lead + (
        "a neutral sentence of 5 words moves it as much, as far as these cases show (distractor)."
    )
    assert said(weak, strong) == said(strong, strong)
    assert (
        said(strong, weak) == lead + "a neutral sentence of only 5 words moves it too (distractor)."
    )
    assert str(said(strong, weak, words=5)).endswith("5 words moves it too, but less (distractor).")
    assert said(strong, none, found=False) is None
    assert said(strong, [-shift for shift in weak]) is None
    assert str(said([sign, 0] * 10, [sign, 0] * 9 + [0, 0], found=False)).endswith(
        "the effect does not differ significantly from that of a neutral sentence of 5 words (distractor)."
    )


def test_a_preference_for_length_on_the_unedited_cases_counts_if_it_points_the_same_way():
    for size, words, expected in ((2.0, 33, True), (-2.0, 33, False), (2.0, 5, False)):
        text = said([size] * 20, [0.0] * 20, found=False, words=words, decision=LONGER)
        assert (text is not None) == expected
        assert text is None or text.endswith(
            "on the unedited cases, length moves it in the same direction."
        )


@pytest.mark.parametrize("neutral", [None, [np.nan] * 20])
def test_without_a_neutral_sentence_it_names_the_probe_that_would_tell(neutral):
    assert said([1.0] * 20, neutral, words=1) == (
        "These edits also lengthen the text by 1 word; "
        "the probe distractor would show whether a neutral sentence has the same effect."
    )
    assert said([1.0] * 20, neutral, words=0) is None


@pytest.mark.parametrize("mode", ["pairwise", "pointwise"])
def test_words_are_counted_in_the_response_that_a_probe_edits(mode):
    config = RunConfig(
        judge={"model": "m"}, criteria=[{"name": "q"}], mode={"name": mode}, swap={"policy": "none"}
    )
    names = ["distractor", "authority", "order", "truncated", "identity"]
    probes = [PROBES[name] for name in names if mode in PROBES[name].modes]
    chinese = [Case("zh", "？", (Response("一二三。"), Response("四五六。")))]
    for cases, distractor, identity in ((CASES, 5, 6), (chinese, 7, 10)):
        edits = [
            edit
            for case in cases
            for probe in probes
            if (edit := edited(case, probe, config)) is not None
        ]
        added = words_added(config, cases, edits, probes)
        assert {*added} == {"distractor", "authority", "identity"}
        assert added["distractor"] == distractor
        assert added["identity"] == identity


def test_a_judge_that_only_likes_length_is_told_from_one_that_falls_for_citations(here, capfd):
    named = {"padding", "sentiment", "identity", "authority"}
    rows = [
        {
            "id": f"c{n}",
            "prompt": f"Question {n}?",
            "response": f"The answer to {n} is {'reason ' * (n % 8 + 3)}{7 * n}.",
        }
        for n in range(40)
    ]
    Path("texts.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    probes = "probe=[padding,sentiment,identity,authority,distractor]"
    planted = [
        "judge=simulated/length_biased",
        "judge.params.strength=1",
        "judge.params.accuracy=1",
        "mode=pointwise",
    ]
    data = ["dataset=file", "dataset.path=texts.jsonl", "tracking=none", "scoring.bootstrap=100"]
    call_main(capfd, "audit", *planted, *data, probes, "-q", "--output", "a")
    sheet = json.loads(Path("a/datasheet.json").read_bytes())
    texts = {
        probe["name"]: " ".join(text["text"] for text in probe["sentences"])
        for probe in sheet["probes"]
    }
    assert {
        name for name, text in texts.items() if "These edits also lengthen the text by" in text
    } == named
    assert {name for name, text in texts.items() if "(distractor)." in text} == named
    assert {probe["name"] for probe in sheet["probes"] if probe["state"] == "falls"} >= named
    chinese = [text["text_zh"] for probe in sheet["probes"] for text in probe["sentences"]]
    assert sum("这些改动还" in text for text in chinese) == len(named)
    page = Path("a/datasheet.md").read_text("utf-8")
    assert page.count("These edits also lengthen") == len(named)


def outcome_of(*, directed: bool = True, expects: str = "same") -> Any:
    return SimpleNamespace(
        contrast=SimpleNamespace(
            probe=SimpleNamespace(directed=directed, expects=expects), span=2.0
        )
    )


COUNTS = np.arange(2, 20_000)
LIMITS = np.sqrt(COUNTS / (COUNTS - 1)) * t.ppf(0.975, COUNTS - 1) + norm.ppf(0.8)


def needed(distance: float, sd: float, at_hand: int) -> int:
    """The smallest number with power 0.8, by its definition, rounded up to two digits."""
    reached = distance * np.sqrt(COUNTS) / sd
    n = int(COUNTS[(reached >= LIMITS).argmax()])
    unit = 10 ** max(floor(log10(n)) - 1, 0)
    return max(1, ceil(n / unit) * unit - at_hand)


def interval(name: str, value: float, sd: float, n: int) -> Metric:
    half = sqrt(n / (n - 1)) * t.ppf(0.975, n - 1) * sd / sqrt(n)
    return Metric(f"audit/x/{name}", value, value - half, value + half, n)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("n", [12, 30, 200])
@pytest.mark.parametrize("value", [-0.7, -0.3, 0.0, 0.1, 0.45, 0.7])
def test_the_nearer_of_two_decisions_is_planned(value, n, directed):
    """An effect is decided when its interval excludes none, or a large one; without a direction, only above 0."""
    largest, sd = LARGE * 2.0, 0.9
    distances = [abs(value)] if value > 0 or (value and directed) else []
    if abs(value) < largest:
        distances.append(largest - abs(value) if value > 0 or directed else largest - value)
    expected = (
        min((needed(distance, sd, n) for distance in distances), default=None) if n >= 30 else None
    )
    assert (
        _cases_needed(
            outcome_of(directed=directed), {"shift": interval("shift", value, sd, n)}, 0.95
        )
        == expected
    )


@pytest.mark.parametrize(
    ("value", "known"), [(0.05, True), (0.2, True), (0.25, False), (0.6, False)]
)
@pytest.mark.parametrize("expects", ["loses", "fails"])
def test_a_share_of_planted_responses_is_decided_below_a_quarter(value, known, expects):
    found = _cases_needed(
        outcome_of(expects=expects), {"passed": interval("passed", value, 0.4, 40)}, 0.95
    )
    assert found == (needed(LARGE - value, 0.4, 40) if known else None)


@pytest.mark.parametrize(
    "metric", [None, Metric("audit/x/shift", None), Metric("audit/x/shift", 0.1, None, None, 9)]
)
def test_without_an_interval_there_is_no_number(metric):
    assert _cases_needed(outcome_of(), {} if metric is None else {"shift": metric}, 0.95) is None
    assert (
        _cases_needed(outcome_of(), {"shift": Metric("audit/x/shift", 0.1, 0.1, 0.1, 9)}, 0.95)
        is None
    )


def test_it_is_the_number_for_labels_where_the_metric_is_about_labels():
    metric = Metric("agreement/accuracy", 0.7, 0.6, 0.8, 80)
    assert units_for(metric, 0.65, 0.95) == labels_for(metric, 0.65, 0.95)
    assert labels_for(Metric("audit/x/shift", 0.7, 0.6, 0.8, 80), 0.65, 0.95) is None


def test_so_many_cases_decide_in_four_of_five_audits():
    generator, decided = np.random.default_rng(7), []
    first = interval("shift", 0.1, 0.9, 30)
    total = 30 + (_cases_needed(outcome_of(), {"shift": first}, 0.95) or 0)
    for _ in range(400):
        sample = generator.normal(0.1, 0.9, total)
        low, high = (sample.mean() + z * sample.std(ddof=1) / sqrt(total) for z in (-1.96, 1.96))
        decided.append(low > 0 or max(high, -low) <= LARGE * 2.0)
    assert 0.75 <= np.mean(decided) <= 0.95
