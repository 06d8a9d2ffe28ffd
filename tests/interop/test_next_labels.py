"""Which cases to label next: probabilities, expected widths, and what they do to a corrected rate."""

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.next_labels import PAIR, config, estimates, scored, simulated
from evalkit.cli import main
from evalkit.config import RunConfig
from evalkit.core.annotations import INCLUSION, UNKNOWN
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Judgment, Response
from evalkit.labels.next_labels import _allocate_labels, _variance, next_labels, sample_next
from evalkit.labels.sample import recorded
from evalkit.labels.session import LabelSession
from evalkit.runs import read_run
from evalkit.runs.results import RunResult


def run(labels: int, cases: int = 200, **metadata: object) -> RunResult:
    judgments, truth = simulated(np.random.default_rng(1), cases)
    given = [
        Case(f"c{n}", f"q{n}", PAIR, label=truth[n] if n < labels else None, metadata=metadata)
        for n in range(cases)
    ]
    return scored(config(50), given, judgments)


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 3), st.floats(0.01, 1)), min_size=1, max_size=3
    ),
    st.integers(1, 5),
)
def test_the_allocation_has_the_smallest_variance(strata, more):
    sizes = {f"s{n}": size for n, (size, *_) in enumerate(strata)}
    before = {f"s{n}": min(size, start) for n, (size, start, _) in enumerate(strata)}
    spread = {f"s{n}": one for n, (*_, one) in enumerate(strata)}
    total = min(sum(before.values()) + more, sum(sizes.values()))
    if total < len(sizes):
        return
    found = _allocate_labels(sizes, before, spread, total)
    assert sum(found.values()) == total
    assert all(before[name] <= found[name] <= sizes[name] for name in sizes)
    every = product(*(range(before[name], sizes[name] + 1) for name in sizes))
    best = min(
        (
            _variance(sizes, dict(zip(sizes, one, strict=True)), spread)
            for one in every
            if sum(one) == total
        ),
        default=inf,
    )
    assert _variance(sizes, found, spread) == pytest.approx(best)


def test_flips_are_labeled_more_often_and_every_case_can_be():
    result = run(40)
    found = next_labels(result, 20)
    flips = {
        verdict.case_id for verdict in result.verdicts if verdict.reason == "swap_disagreement"
    }
    assert len(found.sample.units) == 20
    assert found.labels == 60 == sum(sampled for _, sampled in found.sample.strata.values())
    assert sum(cases for cases, _ in found.sample.strata.values()) == 200
    assert all(sampled for _, sampled in found.sample.strata.values())
    new = {case for case, _ in found.sample.units}
    assert not any(f"c{n}" in new for n in range(40))
    assert len(new & flips) > 10
    # The labels so far are a part of the sample, with the probability of their stratum.
    assert {f"c{n}" for n in range(40)} <= set(found.sample.probabilities)
    assert found.metric.name == "corrected/win_rate/a"
    assert found.width < found.at_random < found.metric.high - found.metric.low
    assert found.effective > 60
    assert next_labels(result, 20) == found
    whole = next_labels(result, 5_000)
    assert (whole.labels, whole.effective, whole.width) == (
        200,
        pytest.approx(200),
        pytest.approx(whole.at_random),
    )
    assert all(next_labels(result, count).effective <= 200 for count in (100, 140, 159))


def test_without_labels_kinds_of_verdicts_say_what_to_label():
    found = next_labels(run(0), 30)
    assert (found.labels, found.metric, found.width) == (30, None, None)
    shares = {name: sampled / cases for name, (cases, sampled) in found.sample.strata.items()}
    assert max(shares, key=shares.__getitem__).startswith("flip")
    assert next_labels(run(0), 1).sample.strata == {"all": (200, 1)}


def test_scores_and_classes_have_residuals():
    base = {
        "judge": {"model": "m"},
        "criteria": {"quality": ""},
        "swap": {"policy": "none"},
        "mode": {"name": "pointwise"},
        "scoring": {"bootstrap": 50},
    }
    score = RunConfig.model_validate(base)
    cases = [
        Case(f"c{n}", f"q{n}", (Response("a", grade=float(1 + n % 5) if n < 30 else None),))
        for n in range(90)
    ]
    judgments = [
        Judgment(
            one.id,
            (0,),
            (0,),
            0,
            "m",
            "ok" if n % 9 else "failed",
            None,
            criteria={"quality": float(1 + (n + (n % 5 == 4)) % 5)} if n % 9 else {},
        )
        for n, one in enumerate(cases)
    ]
    found = next_labels(scored(score, cases, judgments), 12)
    assert found.metric.name == "corrected/score_mean"
    by_class = RunConfig.model_validate({**base, "rubric": {"classes": {"pass": "", "fail": ""}}})
    cases = [
        Case(
            f"c{n}",
            f"q{n}",
            (Response("a", class_name=("pass" if n % 3 else "fail") if n < 30 else None),),
        )
        for n in range(90)
    ]
    judgments = [
        Judgment(one.id, (0,), (0,), 0, "m", "ok", class_name="pass" if n % 4 else "fail")
        for n, one in enumerate(cases)
    ]
    found = next_labels(scored(by_class, cases, judgments), 12)
    assert found.metric.name.startswith("corrected/prediction_powered/")
    assert found.width < found.metric.high - found.metric.low


def test_what_cannot_be_sampled_is_one_line():
    with pytest.raises(ConfigError, match="has no unlabeled case with a verdict"):
        next_labels(run(200), 20)
    with pytest.raises(ConfigError, match="picked with unknown probabilities"):
        next_labels(run(20, **{INCLUSION: UNKNOWN}), 20)


@pytest.mark.thorough
@pytest.mark.slow
def test_chosen_labels_are_unbiased_and_narrower_than_random_ones(thorough):
    runs = 30 if thorough else 10
    found = [estimates(seed, 150) for seed in range(runs)]
    error = np.array([chosen.value - truth for truth, chosen, *_ in found])
    plain = np.array([at_random.value - truth for truth, _, at_random, _ in found])
    assert abs(error.mean()) < 3 * error.std() / runs**0.5 + 1e-9
    assert error.std() < plain.std()
    widths = np.array(
        [(chosen.high - chosen.low, plain.high - plain.low) for _, chosen, plain, _ in found]
    )
    assert widths[:, 0].mean() < 0.85 * widths[:, 1].mean()
    assert np.mean([chosen.low <= truth <= chosen.high for truth, chosen, *_ in found]) >= 0.85
    expected = np.mean([one[3] for one in found])
    assert widths[:, 0].mean() == pytest.approx(expected, rel=0.15)


@pytest.fixture
def labeled(call, tmp_path):
    """The folder of a run of 120 pairs, of which 20 have a label."""
    result = run(20, 120)
    data = [
        {
            "id": case.id,
            "prompt": case.prompt,
            "response_a": "a",
            "response_b": "bb",
            **({"label": case.label} if case.label else {}),
        }
        for case in result.cases
    ]
    Path("data.jsonl").write_text("\n".join(map(json.dumps, data)), "utf-8")
    words = [
        *("dataset=file", "dataset.path=data.jsonl", "tracking=none", "scoring.bootstrap=50"),
        "hydra.run.dir=run",
    ]
    call("run", "judge=simulated/noisy", *words)
    return tmp_path / "run"


def test_the_command_samples_and_says_what_to_expect(call, labeled, tmp_path):
    done = call("label", "run", "--next", "10")
    assert "30 labels will be about as precise as" in done.out
    assert "expected width of corrected/win_rate/a: 0." in done.out
    assert "10 to label: evalkit label run --page --next 10" in done.out
    chances = recorded(labeled)
    assert chances is not None
    assert len(chances) == 30
    assert all(0 < chance <= 1 for chance in chances.values())
    # The page asks for these, and not for those of the data set.
    session = LabelSession(
        read_run(labeled), "ann", count=10, seed=0, informative=True, sampler=sample_next
    )
    assert {case for case, _ in session.tasks} == set(chances) - {f"c{n}" for n in range(20)}
    session.close()
    table = tmp_path / "labels.csv"
    table.write_text(
        "id,annotator,label\n" + "".join(f"{case},ann,A\n" for case, _ in session.tasks), "utf-8"
    )
    done = call("label", "run", "labels.csv")
    result = read_run(labeled)
    assert sum(INCLUSION in case.metadata for case in result.cases) == 30
    assert {case.metadata.get(INCLUSION) for case in result.cases} - {None} == set(chances.values())
    done = call("label", "run", "--next", "5000")
    assert "note: the run has 90 cases without a label, not 5,000: all are sampled" in done.out


ONE_OF = "evalkit label: needs one of FILE, --page, --next N, --to mlflow and --from mlflow"


@pytest.mark.parametrize(("words", "said"), [
    ([], ONE_OF),
    (["labels.csv", "--from", "mlflow"], ONE_OF),
    (["labels.csv", "--page"], ONE_OF),
    (["--to", "mlflow", "--n", "none"], "evalkit label: --n: 'none' is not an integer above 0"),
    (["labels.csv", "--informative"], "evalkit label: --informative needs --page"),
    (["labels.csv", "--annotator", "ann"], "evalkit label: --annotator needs --page"),
    (["--page", "--port", "70000"], "evalkit label: --port: '70000' is not a port"),
    (["--next", "0"], "--next: '0' is not an integer above 0"),
    (["labels.csv", "--next", "5"], "--next is for labels to be given"),
    (["--next", "5", "--from", "mlflow"], "--next is for labels to be given"),
    (["--next", "5", "--page", "--informative"], "--next is for labels to be given"),
    (["--next", "5", "--n", "7"], "--next 5 says how many: omit --n"),
    (["--next", "5", "--n", "50", "--page"], "--next 5 says how many: omit --n"),
    (["--next", "5", "--n", "7", "--to", "mlflow"], "--next 5 says how many: omit --n"),
    (["labels.csv", "--n", "7"], "--n needs --page or --to mlflow"),
    (["--from", "mlflow", "--n", "7"], "--n needs --page or --to mlflow"),
])  # fmt: skip
def test_words_that_do_not_go_with_it(capsys, tmp_path, words, said):
    assert main(["label", str(tmp_path), *words]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_labels_of_an_earlier_sample_stay_in_it():
    result = run(40)
    first = next_labels(result, 20).sample
    cases = [
        replace(
            case,
            label="A" if case.id in first.probabilities else None,
            metadata={INCLUSION: first.probabilities[case.id]}
            if case.id in first.probabilities
            else {},
        )
        for case in result.cases
    ]
    again = next_labels(scored(config(50), cases, list(result.judgments)), 20)
    assert set(first.probabilities) < set(again.sample.probabilities)
    assert again.labels == 80


def graded(models, labeled, texts=1):
    """Score cases of each system, the first `labeled` of each with a grade; with `texts` of 2, systems share cases."""
    config = RunConfig.model_validate(
        {
            "judge": {"model": "m"},
            "criteria": {"quality": ""},
            "swap": {"policy": "none"},
            "mode": {"name": "pointwise"},
            "scoring": {"bootstrap": 50},
        }
    )
    answers = [[(model, n)] for model in models for n in range(60)]
    if texts > 1:
        answers = [[(model, n) for model in models] for n in range(60)]
    cases, judgments = [], []
    for number, each in enumerate(answers):
        responses = tuple(
            Response("a", model=model, grade=float(1 + n % 5) if n < labeled[model] else None)
            for model, n in each
        )
        cases.append(
            Case(f"{number}-{''.join(model for model, _ in each)}", f"q{each[0][1]}", responses)
        )
        for place, (_, n) in enumerate(each):
            score = {"quality": float(1 + (n + place) % 5)}
            judgments.append(
                Judgment(cases[-1].id, (place,), (place,), 0, "m", "ok", None, criteria=score)
            )
    return scored(config, cases, judgments)


@pytest.mark.parametrize("count", [1, 5, 20, 60, 200])
@pytest.mark.parametrize("known", [20, 60])
def test_a_system_without_labels_has_probabilities_of_its_own(known, count):
    """Labels of A are no random sample of A and B: A's have their share of A, and new ones theirs of B."""
    found = next_labels(graded("AB", {"A": known, "B": 0}), count)
    chances = found.sample.probabilities
    sampled = Counter(case[-1] for case in chances)
    for system, cases in (("A", 60), ("B", 60)):
        whole = sum(1 / chance for case, chance in chances.items() if case.endswith(system))
        assert whole == pytest.approx(cases)
    assert sampled["B"] >= 1
    assert sampled.total() == min(known + count, 120)
    if known == 60:
        assert all(chance == 1 for case, chance in chances.items() if case.endswith("A"))


def test_a_system_without_labels_in_cases_of_others_is_one_line():
    with pytest.raises(ConfigError, match="each case has a label of some response, and --next"):
        next_labels(graded("AB", {"A": 60, "B": 0}, texts=2), 10)
    with pytest.raises(ConfigError, match="has no unlabeled case"):
        next_labels(graded("AB", {"A": 60, "B": 60}), 10)
