"""Weights of criteria: they decide verdicts of pairs, are paid for once, and prompts show them only where asked to."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command_line import Done, fake, pair, shown
from tests.support.fake_provider import Reply, said

Call = Callable[..., Done]
CASES = 5
CRITERIA = "criteria={accuracy: {description: It is true.}, style: {description: It reads well., weight: 0.5}}"


def torn(body: Mapping[str, Any]) -> Reply:
    """A judge that finds the good answer more accurate and better overall, and the bad one better written."""
    good, bad = ("A", "B") if shown(body)[0].startswith("good") else ("B", "A")
    compared = [
        {
            "criterion": name,
            "aAssessment": "",
            "bAssessment": "",
            "reasoning": "It is.",
            "winner": winner,
        }
        for name, winner in (("accuracy", good), ("style", bad))
    ]
    sides = {f"response{side}": {"strengths": [], "weaknesses": []} for side in "AB"}
    result = {"winner": good, "confidence": 0.9, "reasoning": "Accuracy counts."}
    return said(json.dumps({"analysis": sides, "comparison": compared, "result": result}))


@pytest.fixture
def run(call, provider, tmp_path):
    """Runs the judge that is torn between two criteria."""
    provider.rule = torn
    (tmp_path / "cases.jsonl").write_text("\n".join(json.dumps(pair(n)) for n in range(CASES)))
    data = [
        "dataset=file",
        "dataset.path=cases.jsonl",
        "scoring.bootstrap=100",
        "judge.transport=direct",
    ]

    def go(*more: str, status: int = 0) -> Done:
        tracking = [] if any(word.startswith("tracking") for word in more) else ["tracking=none"]
        return call("run", *fake(provider), *data, CRITERIA, *tracking, *more, status=status)

    return go


def winners(folder: Path) -> set[str]:
    return {
        json.loads(line)["winner"] for line in (folder / "verdicts.jsonl").read_text().splitlines()
    }


def manifest(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return loaded


def disagreement(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "metrics.json").read_text())["metrics"][
        "criteria/overall_disagreement"
    ]
    return found


@pytest.mark.slow
def test_a_sweep_over_weights_pays_once_and_its_verdicts_differ(run, provider, tmp_path):
    done = run("hydra.sweep.dir=swept", "criteria.accuracy.weight=0.2,0.5,0.8", "-m")
    assert len(provider.requests) == 2 * CASES
    assert "weight" not in json.dumps(provider.requests[0]["messages"])
    # Of equal weights the overall winner counts: by criterion it would be a tie.
    assert [winners(tmp_path / "swept" / str(job)) for job in range(3)] == [{"B"}, {"A"}, {"A"}]
    jobs = [manifest(tmp_path / "swept" / str(job)) for job in range(3)]
    assert [job["sweep"]["overrides"] for job in jobs] == [
        [f"criteria.accuracy.weight={w}"] for w in (0.2, 0.5, 0.8)
    ]
    assert "criteria.accuracy.weight=0.2" in done.out
    shares = [
        note for job in jobs for note in job["notes"] if note.startswith("scoring.aggregate=auto: ")
    ]
    rest = "; where they cancel out, the judge's overall winner"
    assert [note.partition(": ")[2] for note in shares] == [
        "verdicts are the weighted mean of the winners by criterion (accuracy 0.286, style 0.714)"
        + rest,
        "verdicts are the judge's overall winner, since all weights are equal",
        "verdicts are the weighted mean of the winners by criterion (accuracy 0.615, style 0.385)"
        + rest,
    ]
    rates = [disagreement(tmp_path / "swept" / str(job)) for job in range(3)]
    assert [rate["value"] for rate in rates] == [1.0, 1.0, 0.0]
    assert all(rate["n"] == 2 * CASES and rate["low"] is not None for rate in rates)
    said_so = (tmp_path / "swept" / "0" / "findings.md").read_text("utf-8")
    assert "Verdicts follow the weighted criteria; in 100%" in said_so


def test_scoring_weights_come_first_and_a_run_scored_again_says_what_it_did(
    run, call, provider, tmp_path
):
    run("hydra.run.dir=one", "scoring.weights={style: 3}")
    assert winners(tmp_path / "one") == {"B"}
    call("score", "one", "scoring.weights={style: 0.1}")
    assert winners(tmp_path / "one") == {"A"}
    [note] = [
        note
        for note in manifest(tmp_path / "one")["notes"]
        if note.startswith("criteria weights sum to")
    ]
    assert note.endswith("accuracy 0.909, style 0.0909"), note
    call("score", "one", "scoring.aggregate=overall")
    assert [
        note for note in manifest(tmp_path / "one")["notes"] if note.startswith("scoring.aggregate")
    ] == [
        "scoring.aggregate=overall: verdicts are the judge's overall winner; weights have no effect"
    ]
    assert len(provider.requests) == 2 * CASES


def test_a_weight_is_changed_where_a_run_is_scored_again(run, call, provider, tmp_path):
    run("hydra.run.dir=two", "scoring.weights={style: 0.1}")
    call("score", "two", "criteria.style.weight=3")
    assert winners(tmp_path / "two") == {"B"}
    line = call("score", "two", "criteria.stile.weight=3", status=1).line()
    assert line == "criteria.stile.weight: no such criterion; did you mean 'style'?"
    assert "(got -1)" in call("score", "two", "criteria.style.weight=-1", status=1).line()
    assert len(provider.requests) == 2 * CASES
    file = tmp_path / "two" / "config.yaml"
    config = yaml.safe_load(file.read_text("utf-8"))
    config["criteria"] = [
        {"name": name, **one} for name, one in config["criteria"].items()
    ]  # as older runs have it
    file.write_text(yaml.safe_dump(config), "utf-8")
    call("score", "two", "criteria.style.weight=0.1")
    assert winners(tmp_path / "two") == {"A"}
    run("hydra.run.dir=shown", "prompt.show_weights=true")
    line = call("score", "shown", "criteria.style.weight=3", status=1).line()
    assert line.startswith(
        "criteria.style.weight: is part of the prompt (prompt.show_weights); run again, or set "
    )


def test_confidence_is_that_in_the_verdict(run, tmp_path):
    run("hydra.run.dir=one", "criteria.accuracy.weight=0.1")
    verdict = json.loads((tmp_path / "one" / "verdicts.jsonl").read_text().splitlines()[0])
    assert (verdict["winner"], verdict["confidence"]) == ("B", pytest.approx(0.1))
    assert "a confidence c counts as 1 - c" in (tmp_path / "one" / "findings.md").read_text("utf-8")


def test_a_forced_winner_is_not_held_against_the_judges_confidence(run, tmp_path):
    weights = [
        "criteria.accuracy.weight=0.5",
        "criteria.style.weight=0.5",
        "scoring.aggregate=criteria",
    ]
    run("hydra.run.dir=one", "tie=forbid", *weights)
    verdicts = [
        json.loads(line) for line in (tmp_path / "one" / "verdicts.jsonl").read_text().splitlines()
    ]
    assert {verdict["reason"] for verdict in verdicts} == {"forced"}
    metrics = json.loads((tmp_path / "one" / "metrics.json").read_text())["metrics"]
    assert metrics["calibration/brier"]["value"] is None
    assert "Its confidence" not in (tmp_path / "one" / "findings.md").read_text("utf-8")


def test_prompts_show_weights_only_where_asked_to(run, provider):
    run("prompt.show_weights=true", "criteria.accuracy.weight=1.5")
    assert "- **accuracy** (weight 75%): It is true." in json.dumps(
        provider.requests[0]["messages"]
    )
    run("prompt.show_weights=true", "criteria.accuracy.weight=4.5")
    assert len(provider.requests) == 4 * CASES


def test_a_format_without_criteria_takes_the_overall_winner_and_says_so(run, provider, tmp_path):
    provider.rule = lambda body: said("[[A]]" if shown(body)[0].startswith("good") else "[[B]]")
    run("output=bracket", "hydra.run.dir=one")
    assert winners(tmp_path / "one") == {"A"}
    [note] = [
        note
        for note in manifest(tmp_path / "one")["notes"]
        if note.startswith("scoring.aggregate=auto: ")
    ]
    assert note.endswith(
        "the judge's overall winner; weights have no effect: the output names no winners by criterion"
    )
    assert "criteria/overall_disagreement" not in (tmp_path / "one" / "metrics.json").read_text()
    asked = len(provider.requests)
    for name in ("bracket", "mine"):  # one of a plug-in is refused as well
        refused = run(f"output.format={name}", "scoring.aggregate=criteria", status=1)
        assert refused.line() == (
            f"scoring.aggregate: output.format '{name}' has no winners by criterion; set output=json, or "
            "scoring.aggregate=auto"
        )
    assert len(provider.requests) == asked


def test_a_third_judgment_is_asked_for_where_weights_could_need_it(run, provider, tmp_path):
    def fickle(body: Mapping[str, Any]) -> Reply:
        """Finds what stands first better written, whatever it is."""
        answer = json.loads(torn(body).body["choices"][0]["message"]["content"])
        answer["comparison"][1]["winner"] = "A"
        return said(json.dumps(answer))

    provider.rule = fickle
    run("swap=third_pass", "criteria.style.weight=3", "hydra.run.dir=one")
    assert len(provider.requests) == 3 * CASES
    assert None not in winners(tmp_path / "one")


@pytest.mark.usefixtures("mlflow_store")
@pytest.mark.slow
def test_each_weight_is_a_column_in_mlflow(run, tmp_path):
    unread = "runner.max_unusable_rate=1"  # the judge does not know the third criterion
    run(
        f"tracking.uri=sqlite:///{tmp_path}/mlflow.db",
        "+criteria.语气.weight=0.3",
        "dataset.limit=1",
        unread,
    )
    with sqlite3.connect(tmp_path / "mlflow.db") as store:
        params = dict(store.execute("select key, value from params where key like 'criteria.%'"))
    assert params["criteria.accuracy.weight"] == "1.0"
    assert params["criteria.style.weight"] == "0.5"
    assert params["criteria.语气.weight"] == "0.3"
