"""A gate on the command line, also on a slice: exit status, files, and what is said of it."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from evalkit.cli import main
from evalkit.cli.hydra_runner import JobError, objective_value
from evalkit.cli.sweep_jobs import Sweep
from evalkit.config import RunConfig
from evalkit.core.claims import claim_folder
from evalkit.runs import read_run, write_run
from evalkit.runs.results import RunResult
from evalkit.scoring.pipeline import score_run
from evalkit.tracking.contents import tags
from evalkit.workflows.gating import check_gate
from tests.scoring.drift_runs import pairs
from tests.support.command_line import Done, fake, pair, shown
from tests.support.fake_provider import Reply, said

Call = Callable[..., Done]
HELD = "gate={agreement/accuracy: '>= 0.3', position/consistency: '>= 0.5'}"
FAILED = "gate={agreement/accuracy: '< 0.5'}"


def half(body: Mapping[str, Any]) -> Reply:
    """A judge that is right of every second case, or of nine in ten or all if it goes by another name."""
    first = shown(body)[0]
    wrong = int(first.split()[1]) % {"half": 2, "most": 10}.get(body["model"], 1) == 1
    return said(f"[[{'A' if first.startswith('bad' if wrong else 'good') else 'B'}]]")


@pytest.fixture
def run(call, provider, tmp_path, monkeypatch):
    """Runs a judge on twenty pairs."""
    provider.rule = half
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    rows = (json.dumps(pair(n, label="B" if n % 4 == 1 else "A")) for n in range(20))
    (tmp_path / "cases.jsonl").write_text("\n".join(rows))
    settings = [
        *("dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=100"),
        "tracking=none",
    ]

    def run(*more: str, model: str = "half", status: int = 0) -> Done:
        return call("run", *fake(provider, model), *settings, *more, status=status)

    return run


@pytest.fixture
def first(run, finished):
    """A finished run without a gate, which is made once."""
    finished("first", lambda: run("hydra.run.dir=first"))


def states(folder: Path) -> list[str]:
    return [rule["state"] for rule in json.loads((folder / "gate.json").read_text())["rules"]]


def test_a_run_is_held_against_its_gate_and_so_is_what_is_scored_again(
    run, call, tmp_path, monkeypatch
):
    step, folder = tmp_path / "step.md", tmp_path / "r"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    done = run("hydra.run.dir=r", HELD)
    assert "gate held: 2 held\n  held  agreement/accuracy " in done.out
    assert "gate" not in done.err
    page = (folder / "report.html").read_text()
    assert "gate: agreement/accuracy &gt;= 0.3: held" in page
    metrics = (folder / "metrics.json").read_text()
    hashed = read_run(folder).manifest["config_hash"]

    done = call(
        "score", "r", "gate={agreement/accuracy: '< 0.5', conflict/ratio: '<= 1'}", status=4
    )
    assert "gate failed: 1 failed, 1 undecided\n" in done.out
    assert done.err.startswith("evalkit: gate failed: agreement/accuracy < 0.5 failed: 0.75 [")
    assert (folder / "metrics.json").read_text() == metrics
    result = read_run(folder)
    assert result.manifest["config_hash"] == hashed
    assert tags(result, {})["evalkit.gate"] == "failed"
    suite = Xml.parse(folder / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    [failure] = suite.iter("failure")
    assert str(failure.get("message")).startswith("failed: 0.75 [")
    summary = (folder / "gate.md").read_text()
    assert "| ❌ failed | agreement/accuracy | &lt; 0.5 | 0.75 \\[" in summary
    assert step.read_text().endswith(summary + "\n")
    assert step.read_text().count("### Gate") == 2

    call("score", "r", "gate={agreement/accuracy: '>= 0.75'}")
    assert states(folder) == ["undecided"]
    call("score", "r", "gate={agreement/accuracy: '>= 0.75', undecided: fail}", status=4)
    before = sorted(path.stat().st_mtime_ns for path in folder.iterdir())
    done = call("score", "r", "gate={agreement/acuracy: '>= 0.5'}", status=1)
    assert (
        done.line()
        == "gate.agreement/acuracy: no such metric in this run; did you mean 'agreement/accuracy'?"
    )
    assert sorted(path.stat().st_mtime_ns for path in folder.iterdir()) == before
    call("score", "r", "gate={}")
    assert not [*folder.glob("gate.*")]
    assert "gate" not in read_run(folder).manifest


def test_a_gate_on_the_decision_reads_that_of_the_run(run, call, tmp_path):
    folder = tmp_path / "r"
    done = run("hydra.run.dir=r", "gate.decision=rates_corrected", "dataset.limit=4")
    decision = json.loads((folder / "metrics.json").read_text())["decision"]
    assert decision == read_run(folder).decision.json()
    assert (decision["use"], decision["possible"]) == ("unknown", "single")
    assert decision["labels_needed"] is None
    assert (
        "gate undecided: 1 undecided\n  undecided  decision  >= rates_corrected  unknown (the intervals"
        in done.out
    )
    assert "Label more pairs before you decide: 4 labels are too few" in done.out
    [rule] = json.loads((folder / "gate.json").read_text())["rules"]
    assert (rule["metric"], rule["state"], rule["labels_needed"]) == ("decision", "undecided", None)
    assert "Label more pairs before you decide" in (folder / "gate.md").read_text()
    assert "Label more pairs before you decide" in (folder / "gate.xml").read_text()
    assert "gate: decision &gt;= rates_corrected: undecided" in (folder / "report.html").read_text()
    call("score", "r", "gate={decision: single, undecided: fail}", status=4)


@pytest.mark.parametrize(
    ("right", "state", "said"),
    [(True, "held", "Trust this judge "), (False, "failed", "none: Do not trust this judge")],
)
@pytest.mark.parametrize("panel", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_enough_labels_hold_or_fail_a_gate_on_the_decision(
    run, tmp_path, right, state, said, panel
):
    order = "response_a", "response_b"
    rows = []
    for n in range(120):
        case = pair(n)
        texts = [case[name] for name in order]
        rows.append(
            case
            | dict(zip(order, texts[:: (-1) ** n], strict=True))
            | {"label": "AB"[n // (1 if right else 2) % 2]}
        )
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    judges = [
        f"{{model: openai/most, name: j{n}, api_base: ${{judge.api_base}}}}" for n in range(3)
    ]
    more = [f"judge.judges=[{', '.join(judges)}]"] if panel else []
    done = run(
        "hydra.run.dir=r",
        "gate.decision=rates_corrected",
        *more,
        model="most",
        status=4 * (not right),
    )
    assert f"gate {state}: 1 {state}\n" in done.out
    [rule] = json.loads((tmp_path / "r" / "gate.json").read_text())["rules"]
    assert said in rule["why"]
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert {*metrics.get("decisions", {})} == ({"j0", "j1", "j2"} if panel else set())
    assert all(
        one["use"] == metrics["decision"]["use"] for one in metrics.get("decisions", {}).values()
    )


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (
            "{agreement/kapa: '>= 0.5'}",
            "gate.agreement/kapa: no such metric; did you mean 'agreement/kappa'?",
        ),
        ("{tierate: '>= 0.5'}", "gate.tierate: no such metric; did you mean 'tie_rate'?"),
        ("{no_worse_than: {run: nowhere}}", "nowhere: "),
        ("{undecide: fail}", "gate: has the unknown key 'undecide'; did you mean 'undecided'?"),
        (
            "{decision: good}",
            "gate.decision: input should be 'order', 'rates_corrected', 'rates' or 'single' (got 'good')",
        ),
        ("{decisions: rates}", "gate: has the unknown key 'decisions'; did you mean 'decision'?"),
        ("{tie_rate: '5'}", "gate.tie_rate.value: is not a bound (got '5'); write '>= 0.9'"),
        (
            "{no_worse_than: {run: r, metric: win_rate/a}}",
            "gate.no_worse_than: it is not known whether more of win_",
        ),
    ],
)
def test_what_a_gate_cannot_name_is_said_before_anything_is_asked(
    run, provider, tmp_path, gate, said
):
    assert said in run("hydra.run.dir=r", f"gate={gate}", status=1).line()
    assert not provider.requests
    assert not (tmp_path / "r").exists()


def test_a_rule_that_cannot_be_read_is_said_with_its_place(run, call, tmp_path):
    (tmp_path / "study.yaml").write_text("defaults: [config, _self_]\ngate:\n  tie_rate: five\n")
    assert (
        call("run", "study.yaml", status=1)
        .line()
        .startswith("study.yaml:3: gate.tie_rate.value: is not a bound")
    )
    said = run("gate.agreement/kappa='>= 0.6'", status=1).line()
    assert said.endswith("write 'gate={METRIC: \"RULE\"}': a metric's name cannot be before the =")


def test_what_others_judged_is_held_against_a_gate_too(call, tmp_path):
    rows = [f"{n},Name a prime.,7,9,ours,{order},A" for n in range(4) for order in ("ab", "ba")]
    (tmp_path / "judged.csv").write_text(
        "\n".join(["id,prompt,response_a,response_b,better,shown_first,label", *rows])
    )
    fields = [
        *("--fields", "winner=better", "order=shown_first", "label=label", "--map", "ours=B"),
        *("--map", "theirs=A"),
    ]
    words = ["import", "generic", "judged.csv", *fields, "tracking=none", "hydra.run.dir=r"]
    done = call(*words, "gate={agreement/accuracy: '>= 0.9'}", status=4)
    assert "evalkit: gate failed: agreement/accuracy >= 0.9 failed: 0 [" in done.err
    assert states(tmp_path / "r") == ["failed"]


def test_help_tells_the_exit_status_of_a_gate(call):
    assert "4 failed gate, failed reproduction" in call("run", "--help").out


def test_every_metric_of_a_run_could_have_been_named(first, tmp_path):
    result = read_run(tmp_path / "first")
    rules = dict.fromkeys(result.metrics, ">= 0")
    check_gate(RunConfig.model_validate({**result.config.dump(), "gate": rules}), result.cases)


@pytest.mark.slow
def test_a_run_is_no_worse_than_another_by_the_cases_that_both_have(run, call, tmp_path):
    """The one prefers the first response of all pairs, the other of half of them; neither ever contradicts itself."""
    run("hydra.run.dir=good", model="good")
    lead = "{no_worse_than: {run: good, metric: position/consistency, margin: 0.02}}"
    run("hydra.run.dir=half", f"gate={lead}")
    assert states(tmp_path / "half") == ["held"]
    for margin, state, status in ((0.02, "failed", 4), (0.5, "undecided", 0), (0.9, "held", 0)):
        lead = f"{{no_worse_than: {{run: good, metric: win_rate/a, better: higher, margin: {margin}}}}}"
        call("score", "half", f"gate={lead}", status=status)
        assert states(tmp_path / "half") == [state]


@pytest.mark.slow
def test_a_sweep_goes_on_past_a_gate_that_failed_and_ends_with_its_status(run, tmp_path):
    done = run("hydra.sweep.dir=sweep", FAILED, "swap=both,none", "-m", status=4)
    assert [states(tmp_path / "sweep" / job) for job in "01"] == [["failed"], ["failed"]]
    assert "Leaderboard of 2 jobs" in done.out
    # Jobs in processes of their own tell by their folders alone.
    folder = tmp_path / "sweep"
    with claim_folder(folder) as claim:
        assert Sweep(folder, None, (), resumed=False, claim=claim).finish() == 4
    # Finished jobs are held against another gate without being run again.
    run("hydra.sweep.dir=sweep", HELD, "swap=both,none", "-m")
    assert states(tmp_path / "sweep" / "0") == ["held", "held"]


def test_the_outcome_of_a_gate_that_does_not_fail_is_printed(first, call):
    passed = call("score", "first", HELD).out
    assert passed.splitlines()[-1] == "gate: all 2 rules passed"
    undecided = call("score", "first", "gate={agreement/accuracy: '>= 0.7'}").out.splitlines()[-1]
    assert undecided.startswith("gate: agreement/accuracy >= 0.7 undecided: ")


def test_a_finished_run_cannot_be_compared_with_a_run_that_is_not_there(first, call, tmp_path):
    before = (tmp_path / "first/metrics.json").stat().st_mtime_ns
    for gate, fault in (
        (
            "{no_worse_than: {run: nowhere, metric: tie_rate, better: lower}}",
            "nowhere: no such folder; ",
        ),
        (
            "{no_worse_than: {run: first, metric: human/gap, better: lower}}",
            "gate.no_worse_than.metric: no such metric ",
        ),
    ):
        assert fault in call("score", "first", f"gate={gate}", status=1).line()
        assert fault in call("plan", "--labels", "first", f"gate={gate}", status=1).line()
    assert (tmp_path / "first/metrics.json").stat().st_mtime_ns == before


def test_a_run_that_an_earlier_gate_names_may_be_gone(first, call, tmp_path):
    shutil.copytree("first", "second")
    call("score", "second", "gate={no_worse_than: {run: first, metric: tie_rate, better: lower}}")
    (tmp_path / "first").rename(tmp_path / "moved")
    assert "undecided: " in call("score", "second", "tie.threshold=0.1").out.splitlines()[-1]


def test_what_others_judged_cannot_be_compared_with_a_run_that_is_not_there(call, tmp_path):
    (tmp_path / "judged.csv").write_text(
        "id,prompt,response_a,response_b,winner\n1,Name a prime.,7,9,A\n"
    )
    gate = "gate={no_worse_than: {run: nowhere, metric: tie_rate, better: lower}}"
    said = call(
        "import", "generic", "judged.csv", "tracking=none", "--output", "r", gate, status=1
    ).line()
    assert "nowhere: no such folder" in said
    assert not (tmp_path / "r").exists()


def test_a_mistyped_key_or_rule_of_a_finished_run_gets_the_right_spelling(first, call):
    assert (
        call("score", "first", "tie.treshold=0.5", status=1)
        .line()
        .endswith("here; did you mean 'tie.threshold'?")
    )
    wrong = call("score", "first", "gate.agreement/accuracy=>= 0.3", status=1).line()
    assert wrong.endswith("""with a special character: 'gate={agreement/accuracy: ">= 0.3"}'""")
    call("score", "first", 'gate={agreement/accuracy: ">= 0.3"}')


@pytest.fixture
def judged(here):
    """Write a run that is right in English and wrong in half of the German and Japanese cases."""
    languages = [("en", "de", "ja/JP")[n % 3] for n in range(120)]
    labels = ["AB"[n // 3 % 2] for n in range(120)]
    wrong = [language != "en" and n // 6 % 2 for n, language in enumerate(languages)]
    verdicts = ["AB"[(label == "A") == bool(off)] for label, off in zip(labels, wrong, strict=True)]
    run = pairs(verdicts, labels, scoring={"bootstrap": 200, "slices": ["language"]})
    cases = [
        replace(one, metadata={"language": name})
        for one, name in zip(run.cases, languages, strict=True)
    ]
    scored = score_run(run.config, cases, run.judgments)
    manifest = {
        "run_id": "r",
        "judge": "m",
        "mode": "pairwise",
        "dataset": {"name": "pairs", "fingerprint": "f", "rows": 120},
    }
    result = RunResult(
        None, run.config, manifest, tuple(cases), run.judgments, scored.verdicts, scored.metrics
    )
    write_run(here / "run", result)
    return here / "run"


def rules(run: Path) -> dict[str, str]:
    gate = json.loads((run / "gate.json").read_text())
    return {rule["metric"]: rule["state"] for rule in gate["rules"]}


def test_a_slice_passes_or_fails_on_its_own(judged, capsys):
    capsys.readouterr()
    rule = "gate={slice/language/en/agreement/kappa: '>= 0.6', slice/language/de/agreement/kappa: '>= 0.6'}"
    assert main(["score", "run", rule]) == 4
    assert rules(judged) == {
        "slice/language/en/agreement/kappa": "held",
        "slice/language/de/agreement/kappa": "failed",
    }
    assert "gate failed: slice/language/de/agreement/kappa" in capsys.readouterr().err
    assert main(["score", "run", "gate={slice/language/en/agreement/kappa: '>= 0.6'}"]) == 0
    assert (
        main(["score", "run", "gate={slice/language/ja_2f_JP/agreement/accuracy: '<= 0.7'}"]) == 0
    )


def test_a_slice_that_the_run_does_not_have_is_one_line(judged, capsys):
    capsys.readouterr()
    assert main(["score", "run", "gate={slice/language/dee/agreement/kappa: '>= 0.6'}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "did you mean 'slice/language/de/agreement/kappa'?" in line
    assert not (judged / "gate.json").exists()


def test_an_objective_that_was_removed_names_its_version(tmp_path, capsys):
    (tmp_path / "metrics.json").write_text('{"metrics": {"tie_rate": {"value": 0.1}}}')
    with pytest.raises(JobError):
        objective_value(tmp_path, ["tie_rate", "variance/case"])
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("'variance/case': removed: evalkit 0.2 was the last version with it")
