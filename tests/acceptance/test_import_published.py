"""Every published figure of ../shared/data, from the files as published: `evalkit import`, then metrics.json."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.test_llmbar import TABLE
from tests.support.replaying import FOLDERS
from tests.support.thorough import some_of

pytestmark = [pytest.mark.shared, pytest.mark.slow]

Metrics = dict[str, dict[str, Any]]
FAST = ("tracking=none", "scoring.bootstrap=0")
LLMBAR = [(FOLDERS[subset], *row, *counts) for (subset, *row), counts in TABLE.items()]
LLMBAR.append(("Natural", "GPT-4", "Rating", 92, 92, 87, 90, 0))


@pytest.fixture
def imported(within, commands, shared):
    """Imports a file of the published data with further words and returns the metrics of the run."""

    def run(name: str, path: str, *words: str) -> Metrics:
        within(
            "import",
            name,
            str(shared / "data" / path),
            "hydra.run.dir=run",
            "--overwrite",
            *FAST,
            *words,
        )
        metrics: Metrics = commands.metrics("run")["metrics"]
        return metrics

    return run


def rescored(within: Callable[..., Any], commands: Any, *words: str) -> Metrics:
    within("score", "run", *words)
    metrics: Metrics = commands.metrics("run")["metrics"]
    return metrics


def count(metric: dict[str, Any]) -> tuple[int, int]:
    """A proportion as the count it is, and what it is out of."""
    found = metric["value"] * metric["n"]
    assert found == pytest.approx(round(found), abs=1e-6)
    return round(found), metric["n"]


@pytest.mark.parametrize(
    ("subset", "judge", "strategy", "first", "second", "both", "agree", "lost"), LLMBAR
)
def test_llmbar(imported, commands, subset, judge, strategy, first, second, both, agree, lost):
    found = imported("llmbar", f"llmbar/{subset}/evaluators/{judge}/{strategy}/result.json")
    n = 100 if subset == "Natural" else 92
    orders = [found[f"agreement/accuracy_{which}_order"] for which in ("first", "second")]
    assert [count(order)[0] for order in orders] == [first, second]
    assert [order["worst_low"] for order in orders] == pytest.approx([first / n, second / n])
    mean, together = found["agreement/accuracy_per_order"], found["agreement/accuracy_both_orders"]
    assert mean["worst_low"] == pytest.approx((first + second) / 2 / n)
    assert mean["missing"] == lost
    assert count(found["missing/unparseable"]) == (lost, 2 * n)
    assert count(together)[0] == both
    assert together["worst_low"] == pytest.approx(both / n)
    consistency = found["position/consistency"]
    rule, agreement = found["llmbar/mean_accuracy"], found["llmbar/agreement_rate"]
    assert (rule["worst_low"], rule["missing"]) == (pytest.approx((first + second) / 2 / n), lost)
    assert agreement["worst_low"] - 1e-9 <= agree / n <= agreement["worst_high"] + 1e-9
    if judge == "PaLM2":  # theirs takes two unreadable texts for agreeing ones
        assert (count(consistency), consistency["worst_low"], consistency["worst_high"]) == (
            (78, 98),
            0.78,
            0.80,
        )
    elif lost:
        assert consistency["worst_low"] == pytest.approx(agree / n)
    else:
        assert count(consistency) == (agree, n)
    manifest = json.loads((commands.folder / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["imported"]["texts"] == (0 if strategy == "Rating" else 2 * n)
    assert manifest["imported"]["differences"] == 0


def test_llmbar_ratings_as_scores(imported):
    found = imported("llmbar", "llmbar/Natural/evaluators/GPT-4/Rating/result.json", "--scores")
    # Ten pairs have equal scores, which the published winners give to a side by order.
    assert count(found["tie_rate"]) == (10, 100)
    assert count(found["agreement/accuracy"]) == (87, 100)


@pytest.fixture
def qlora(imported):
    return lambda *words: imported("qlora", "qlora_vicuna/pairwise", *words)


def test_qlora_orders(qlora, commands):
    found = qlora()
    assert count(found["position/consistency"]) == (1367, 2227)
    assert round(found["position/consistency"]["value"], 4) == 0.6138
    assert count(found["position/first_rate"]) == (2512, 2512 + 1355)
    assert found["position/first_rate"]["missing"] == 13
    assert count(found["missing/unparseable"])[0] + count(found["missing/failed"])[0] == 13
    judgments = (commands.folder / "run" / "judgments.jsonl").read_text("utf-8").splitlines()
    assert len(judgments) == 4480
    cases = [
        json.loads(line)
        for line in (commands.folder / "run" / "cases.jsonl").read_text("utf-8").splitlines()
    ]
    assert [len(case["responses"]) for case in cases] == [8] * 80
    assert all(
        case["prompt"] and all(response["text"] for response in case["responses"]) for case in cases
    )


def test_qlora_conflicts(qlora):
    found = qlora(
        "--complete", "scoring.conflict_edges=net"
    )  # scoring/test_published.py has all rules
    assert count(found["conflict/rate"]) == (3, 69)
    assert found["conflict/triads"]["value"] == 4


UNIEVAL = {
    "naturalness": (0.443666, 0.513986, 0.373973),
    "coherence": (0.595143, 0.612942, 0.465915),
    "engagingness": (0.556510, 0.604739, 0.455941),
    "groundedness": (0.536209, 0.574954, 0.451533),
    "understandability": (0.380038, 0.467807, 0.360741),
    "overall": (0.632796, 0.662583, 0.487272),
}


UNIEVAL_FILE = "unieval_topical_chat/topical_chat_result.json"
COEFFICIENTS = ("pearson", "spearman", "kendall")
AGREEMENT = [f"agreement/{kind}" for kind in COEFFICIENTS]
PAPERS = {
    "all-in-one": 0.7139351851851852,
    "pinn": 0.8342145949288806,
    "rice": 0.18568121693121692,
    "semantic-self-consistency": 0.91,
    "stay-on-topic-with-classifier-free-guidance": 0.48152958152958153,
}
COUNTS = {"prometheus": 320, "devai": 366}
"""What the figures of a format are out of."""
PUBLISHED: list[tuple[str, str, dict[str, float]]] = [
    *(
        ("unieval", f"{UNIEVAL_FILE} --dimension {name}", dict(zip(AGREEMENT, values, strict=True)))
        for name, values in UNIEVAL.items()
    ),
    ("prometheus", "prometheus_vicuna/vicuna_eval.json", {"samples/unanimous": 199 / 320}),
    *(
        ("devai", f"devai/{system}", {"devai/agreement": value, "checklist/accuracy": value})
        for system, value in {"MetaGPT": 0.9208, "GPT-Pilot": 0.8661, "OpenHands": 0.9016}.items()
    ),
    *(
        (
            "paperbench",
            f"paperbench/{paper}.json.gz",
            {"paperbench/replication_score": score, "score/mean": score},
        )
        for paper, score in PAPERS.items()
    ),
]
"""The format, the file with further words, and the published figures, as exact as they are
printed."""
EXACT = {"unieval": 5e-7, "devai": 5e-5}


@pytest.mark.parametrize(("layout", "words", "figures"), some_of(PUBLISHED, 3, rows=True))
def test_published_figures(imported, layout, words, figures):
    found = imported(layout, *words.split())
    exact = pytest.approx(figures, abs=EXACT.get(layout, 1e-10), rel=0)
    assert {metric: found[metric]["value"] for metric in figures} == exact
    assert all(found[metric]["n"] == COUNTS.get(layout, found[metric]["n"]) for metric in figures)
    if layout == "unieval":
        assert {found[metric]["n"] for metric in figures} == {360}
        every = {f"topical_chat/{name}/{kind}": value for name, values in UNIEVAL.items()
                 for kind, value in zip(COEFFICIENTS, values, strict=True)}  # fmt: skip
        assert {metric: found[metric]["value"] for metric in every} == pytest.approx(
            every, abs=5e-7
        )


HALLUQA = {
    "gpt-4-0613_output_qa_prompt": (76.00, 57.97, 32.04, 53.11),
    "ernie_bot_output": (70.86, 46.38, 75.73, 69.33),
}


@pytest.mark.parametrize("system", HALLUQA)
def test_halluqa(imported, system):
    found = imported("halluqa", f"halluqa/{system}.json")
    # Theirs counts an Invalid_Judge as a hallucination: the lower end of what the answers allow.
    strict = [
        found[f"halluqa/non_hallucination_rate_strict{kind}"]["value"]
        for kind in ("/misleading", "/misleading_hard", "/knowledge", "")
    ]
    assert tuple(round(100 * value, 2) for value in strict) == HALLUQA[system]
    for mean in (found["score/mean"], found["halluqa/non_hallucination_rate"]):
        assert mean["worst_low"] == pytest.approx(strict[-1])
        assert mean["value"] == pytest.approx(strict[-1] * 450 / mean["n"])
        assert mean["worst_high"] == pytest.approx(strict[-1] + mean["missing"] / 450)
        assert mean["missing"] == 450 - mean["n"] == (4 if system == "ernie_bot_output" else 0)


def test_the_folder_of_an_evaluator_is_its_result(imported):
    folder = "llmbar/Natural/evaluators/GPT-4/Vanilla"
    assert imported("llmbar", folder) == imported("llmbar", f"{folder}/result.json")


@pytest.mark.parametrize("model", ["gemma-2b-it"])
def test_wildbench(imported, shared, model):
    published = json.loads((shared / "data/wildbench/score.json").read_text())[model]
    found = imported("wildbench", f"wildbench/v2.0625/gpt-4o-2024-05-13/{model}.json.gz")
    assert found["wildbench/score"]["value"] == pytest.approx(published["score"], abs=1e-9)
    assert found["wildbench/score"]["n"] == published["total"]
    assert found["wildbench/adjusted_score"]["value"] == pytest.approx(
        published["adjusted_score"], abs=1e-9
    )


def test_llm_rubric(imported, within, commands):
    """The most likely answer and the expected one, against annotators' answers to the question on satisfaction."""
    for metrics, error, correlation in (
        (imported("llm_rubric", "llm_rubric"), 0.918676, 0.177301),
        (rescored(within, commands, "scoring.weighted=false"), 1.201643, 0.140091),
    ):
        rmse, pearson = metrics["agreement/rmse"], metrics["agreement/pearson"]
        assert (rmse["n"], rmse["missing"], pearson["n"]) == (223, 0, 223)
        assert rmse["value"] == pytest.approx(error, abs=5e-7)
        assert pearson["value"] == pytest.approx(correlation, abs=5e-7)


HALLUQA_CLASSES = (
    *("--fields", "id=question_id", "prompt=question", "response=response"),
    "class=is_hallucination",
    "rubric={classes: {hallucinated: states what is not so, grounded: does not}, positive: hallucinated, levels: {}}",
    *("--map", "true=hallucinated", "--map", "false=grounded"),
)


def test_halluqa_as_classes(imported):
    """Answers with an invalid verdict count as hallucinated in the published rate: the lower bound."""
    file = "ernie_bot_output"
    published = HALLUQA[file][-1]
    found = imported("generic", f"halluqa/{file}.json", *HALLUQA_CLASSES)
    rate = found["class/grounded/rate"]
    assert round(100 * rate["worst_low"], 2) == published
    assert rate["n"] + rate["missing"] == 450
    assert (
        rate["missing"],
        found["class/abstained"]["value"] if "class/abstained" in found else None,
    ) == (4, None)
    abstaining = ("--map", "Invalid_Judge=cannot_tell", "rubric.abstain=cannot_tell")
    found = imported("generic", f"halluqa/{file}.json", *HALLUQA_CLASSES, *abstaining)
    rate, abstained = found["class/grounded/rate"], found["class/abstained"]
    assert (rate["missing"], rate["n"], abstained["n"]) == (0, 446, 450)
    assert round(abstained["value"] * 450) == 4
    assert round(100 * rate["value"] * (1 - abstained["value"]), 2) == published
