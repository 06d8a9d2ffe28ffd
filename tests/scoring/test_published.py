"""Figures that others published, from the texts and scores they published, also of three judges as a panel."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.interop.import_file import import_judgments
from evalkit.interop.layouts.records import Options
from evalkit.report.findings import findings
from evalkit.scoring.metrics.panels import ERRORS, VOTES
from evalkit.scoring.metrics.subsets import ACCURACY, LEAD
from evalkit.scoring.pipeline import score_run

pytestmark = pytest.mark.shared


@cache
def qlora(folder: Path) -> tuple[list[Case], list[Judgment]]:
    """Return 80 prompts with eight systems' answers and every verdict."""
    imported = import_judgments("qlora", folder / "pairwise", Options())
    return [*imported.cases], [*imported.judgments]


def read_in_full(cases: list[Case], judgments: list[Judgment]) -> tuple[list[Case], list[Judgment]]:
    broken = {judgment.case_id for judgment in judgments if judgment.value is None}
    return [c for c in cases if c.id not in broken], [
        j for j in judgments if j.case_id not in broken
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("swap", "edges", "cycles", "triads"), [
    ({"resolve": "net_vote"}, "verdict", 3, 4),
    ({"resolve": "mean"}, "verdict", 3, 4),
    ({"resolve": "tie"}, "verdict", 1, 1),
    ({"policy": "none"}, "verdict", 26, 67),
    ({"resolve": "tie"}, "net", 3, 4),
    ({"resolve": "net_vote"}, "both", 1, 1),
    ({"resolve": "net_vote"}, "single", 26, 67),
    ({"resolve": "net_vote"}, "ties", 69, None),
])  # fmt: skip
def test_qlora_conflicts(shared, configure, swap, edges, cycles, triads):
    cases, judgments = read_in_full(*qlora(shared / "data" / "qlora_vicuna"))
    scores = score_run(
        configure(swap=swap, scoring={"conflict_edges": edges, "bootstrap": 0}), cases, judgments
    )
    rate = scores.metrics["conflict/rate"]
    assert rate.n == 69
    assert rate.value * 69 == pytest.approx(cycles)
    assert scores.metrics["conflict/ratio"].value == pytest.approx(
        rate.value / scores.metrics["conflict/chance_rate"].value
    )
    if triads is None:
        return
    assert scores.metrics["conflict/triads"].value == triads
    listed = scores.details["conflicts"]["cases"]
    assert len(listed) == cycles
    assert sum(len(cycle) == 3 for entry in listed for cycle in entry["cycles"]) == triads
    assert all(entry["fewest"] and not entry["more_cycles"] for entry in listed)
    assert scores.metrics["conflict/reversals"].value == sum(
        len(entry["reverse"]) for entry in listed
    )


@pytest.mark.slow
def test_qlora_cases_with_a_missing_pass_are_left_out(shared, configure):
    metrics = score_run(
        configure(swap={"resolve": "mean"}, scoring={"bootstrap": 0}),
        *qlora(shared / "data" / "qlora_vicuna"),
    ).metrics
    rate = metrics["conflict/rate"]
    assert (rate.n, rate.missing) == (69, 11)
    assert rate.value == pytest.approx(3 / 69)
    assert (rate.worst_low, rate.worst_high) == pytest.approx((3 / 80, 14 / 80))


JUDGES = ("GPT-4", "ChatGPT", "PaLM2")
PATTERN = re.compile(r"Output \((a|b)\)")


def winner(texts, swapped):
    found = PATTERN.findall(texts[f"swap = {swapped}"]["completion"][0])
    return None if not found else 1.0 if (found[-1] == "a") != swapped else -1.0


@pytest.fixture
def llmbar(shared):
    """The cases and judgments of two of LLMBar's sets, both orders, by judges without metrics or references."""
    cases, judgments = [], []
    for part in ("Natural", "Adversarial/GPTInst"):
        folder = shared / "data" / "llmbar" / part
        for n, row in enumerate(json.loads((folder / "dataset.json").read_text())):
            texts = Response(row["output_1"]), Response(row["output_2"])
            cases.append(Case(f"{part}-{n}", row["input"], texts, label="AB"[row["label"] - 1]))
        for judge in JUDGES:
            for n, row in enumerate(
                json.loads((folder / "evaluators" / judge / "Vanilla" / "result.json").read_text())
            ):
                for shown in ((0, 1), (1, 0)):
                    value = winner(row["results"][-1], shown == (1, 0))
                    status = "unparseable" if value is None else "ok"
                    judgments.append(
                        Judgment(f"{part}-{n}", (0, 1), shown, 0, judge, status, value)
                    )
    return cases, judgments


def config_of(vote="majority", resamples=400):
    judges = [{"name": name, "model": "m"} for name in JUDGES]
    sections = {"criteria": [{"name": "quality"}], "swap": {"policy": "both", "resolve": "tie"}}
    return RunConfig(
        judge={"judges": judges, "vote": vote}, scoring={"bootstrap": resamples}, **sections
    )


@pytest.mark.slow
def test_three_judges_of_llmbar_err_together(llmbar):
    cases, judgments = llmbar
    scores = score_run(config_of(), cases, judgments)
    metrics, labels = scores.metrics, {case.id: case.label for case in cases}
    wrong = np.array(
        [[v.votes[name] != labels[v.case_id] for v in scores.verdicts] for name in JUDGES],
        dtype=float,
    )
    known = np.array([[v.votes[name] is not None for v in scores.verdicts] for name in JUDGES])
    covariances, variances = [], []
    for one, two in ((0, 1), (0, 2), (1, 2)):
        both = known[one] & known[two]
        table = np.cov(wrong[[one, two]][:, both], bias=True)
        covariances.append(table[0, 1])
        variances.append((table[0, 0] + table[1, 1]) / 2)
    expected = np.mean(covariances) / np.mean(variances)
    assert metrics[ERRORS].value == pytest.approx(expected)
    assert metrics[ERRORS].low > 0
    assert metrics[VOTES].value == pytest.approx(3 / (1 + 2 * expected))
    assert 1 < metrics[VOTES].low < metrics[VOTES].high < 2.9
    (text,) = [
        one.text for one in findings(metrics, "pairwise", scores.details) if one.metric == VOTES
    ]
    assert text.startswith("The judges err on the same units")
    # GPT-4 alone is more accurate than the vote of the three, and is the choice.
    (chosen,) = [row for row in scores.details["panel"]["subsets"] if row["chosen"]]
    assert chosen["judges"] == ["GPT-4"]
    assert metrics[LEAD].low > 0
    assert metrics[ACCURACY].value == pytest.approx(
        metrics["judge/GPT-4/agreement/accuracy"].value, abs=0.02
    )


@pytest.mark.slow
def test_the_model_of_errors_is_not_shown_to_help_judges_that_err_together(llmbar):
    majority = score_run(config_of(resamples=100), *llmbar).metrics["agreement/accuracy"]
    fitted = score_run(config_of("dawid_skene", 100), *llmbar).metrics["agreement/accuracy"]
    assert fitted.n == majority.n
    assert fitted.low < majority.value < fitted.high
    # The uncertainty of the fit is part of the interval.
    assert fitted.high - fitted.low > 1.5 * (majority.high - majority.low)
