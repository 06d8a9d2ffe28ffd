"""What a search pays for: within its budget, nothing twice, and nothing is lost by Ctrl-C or a server that fails."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from evalkit.alignment.proof import Outcome
from tests.alignment.conftest import recorded, sides
from tests.alignment.studies import CLASSES, PRICE, STUDIES, align
from tests.support.command_line import call_main
from tests.support.fake_provider import Reply, refused
from tests.support.thorough import some_of

DONE = {"prompt": "improved", "examples": "improved", "criteria": "proposed"}


@pytest.fixture
def tune(request, run):
    """A setting whose study has been run."""
    study = STUDIES[request.param]
    run(study.rule, study.rows(), *CLASSES)
    return str(request.param)


def tuning(chosen: str) -> pytest.MarkDecorator:
    """Try one study always, and the others with `--thorough`."""
    names = [
        pytest.param(name, marks=() if name == chosen else pytest.mark.thorough) for name in STUDIES
    ]
    return pytest.mark.parametrize("tune", names, indirect=True)


def outcome() -> Outcome:
    found: Outcome = recorded()[-1]["outcome"]
    return found


@pytest.mark.parametrize(
    ("key", "missing"),
    some_of(
        [
            ("judge", "price"),
            ("judge", "max_tokens"),
            ("align.model", "price"),
            ("align.model", "max_tokens"),
        ],
        3,
        rows=True,
    ),
)
def test_calls_of_unknown_cost_are_refused_before_any_is_made(run, provider, capfd, key, missing):
    study = STUDIES["prompt"]
    changed = [f"judge.{missing}=null"] if key == "judge" else []
    run(study.rule, study.rows(), *CLASSES, *changed)
    words = [word for word in align(provider, "prompt") if not word.startswith(f"{key}.{missing}=")]
    for command in (words, ["plan", *words]):
        line = call_main(capfd, *command, status=1).line()
        name = "writer" if key == "align.model" else ""
        assert line.startswith(f"align.budget_usd: the most that a call of {name}"), line
        assert f"is unknown; set {key}.price and {key}.max_tokens" in line
    assert not provider.requests
    assert not Path("run/alignments.json").exists()


@tuning("prompt")
def test_a_budget_is_never_exceeded_and_nothing_is_paid_twice(tune, provider, capfd):
    n, m = sides()["dev"], sides()["test"]
    paid = 0
    for budget in (0.5, n // 2, n + m // 2):
        out = call_main(capfd, *align(provider, tune, budget=budget * PRICE), status=2).out
        assert "The budget did not pay for all answers" in out, (
            "it did not see that no other settings are better"
        )
        assert len(provider.requests) - paid <= budget
        paid = len(provider.requests)
    assert not Path("conf").exists()
    assert not any(one["opened"] for one in recorded())
    call_main(capfd, *align(provider, tune))
    assert outcome() == DONE[tune]
    asked = [repr(body) for body in provider.requests]
    assert len(asked) == len(set(asked)) == sum(one["calls"] for one in recorded())
    assert sum(one["cost_usd"] for one in recorded()) == pytest.approx(len(asked) * PRICE)
    call_main(capfd, *align(provider, tune, budget=0.01))
    assert (len(provider.requests), recorded()[-1]["calls"]) == (len(asked), 0)


@tuning("examples")
def test_nothing_that_was_paid_for_is_lost_by_ctrl_c(tune, provider, capfd):
    rule, limit = provider.rule, sides()["dev"] + 5

    def until(body: dict[str, Any]) -> Reply:
        if len(provider.requests) == limit:
            os.kill(os.getpid(), signal.SIGINT)
        return rule(body)

    provider.rule = until
    done = call_main(capfd, *align(provider, tune), status=130)
    assert "received answers are stored; run it again to resume" in done.err
    assert not Path("run/alignments.json").exists()
    assert not Path("conf").exists()
    assert '"opened": []' in Path("run/split.json").read_text()
    assert len(provider.requests) >= limit
    call_main(capfd, *align(provider, tune))
    assert outcome() == DONE[tune]
    asked = [repr(body) for body in provider.requests]
    assert len(asked) == len(set(asked))


@tuning("criteria")
def test_failed_calls_are_no_result(tune, provider, capfd):
    rule, writes = provider.rule, tune != "examples"
    provider.rule = lambda body: (
        refused(400, "not this") if (body["model"] == "writer") == writes else rule(body)
    )
    line = call_main(capfd, *align(provider, tune), status=2).err.strip().splitlines()[-1]
    failed = 1 if writes else sides()["dev"]
    assert f" of {failed} calls failed, for example: " in line
    assert "run it again to resume" in line
    assert not Path("run/alignments.json").exists()
    provider.rule = rule
    call_main(capfd, *align(provider, tune))
    assert outcome() == DONE[tune]


@pytest.mark.parametrize("tune", some_of(STUDIES, 3))
def test_shuffled_labels_change_nothing(tune, run, provider, capfd):
    run(STUDIES[tune].rule, STUDIES[tune].rows(shuffled=True), *CLASSES)
    out = call_main(capfd, *align(provider, tune)).out
    assert "o gain that these labels can show" in out
    assert "The judge is unchanged" in out
    assert not Path("conf").exists()
    assert not Path("prompts").exists()


def test_an_answer_that_the_budget_does_not_pay_for_keeps_test_closed(run, provider, capfd):
    run(STUDIES["examples"].rule, STUDIES["examples"].rows(150), *CLASSES)
    n, m = sides()["dev"], sides()["test"]
    words = ("align.examples=20", "align.sets=1")
    tries = 0
    while len(provider.requests) <= n and tries < 9:  # each pays for the next answers
        out = call_main(
            capfd, *align(provider, "examples", *words, budget=(n + m // 2) * PRICE), status=2
        ).out
        assert "The budget did not pay for all answers. The judge is unchanged" in out
        tries += 1
    assert n < len(provider.requests) < n + m
    assert '"opened": []' in Path("run/split.json").read_text()
    assert not Path("conf").exists()
    assert "Better on test labels" in call_main(capfd, *align(provider, "examples", *words)).out
    assert len(provider.requests) == n + m


@pytest.mark.parametrize(("words", "message"), [
    (["tune=examples"], "tuning examples makes calls; set align.budget_usd"),
    (["tune=[examples,threshold]", "align.budget_usd=1"],
     "tune examples alone; align again for the other"),
    (["tune=prompt", "align.model=openai/m"], "tuning prompt makes calls; set align.budget_usd"),
    (["tune=prompt", "align.budget_usd=1"],
     "a model writes the candidates for prompt; set align.model"),
    (["tune=[prompt,examples]", "align.budget_usd=1"],
     "tune prompt alone; align again for the other settings"),
    (["tune=criteria", "align.budget_usd=1"],
     "tune: a model writes the candidates for criteria; set align.model"),
    (
        ["tune=criteria", "align.model=openai/x"],
        "tuning criteria makes calls; set align.budget_usd",
    ),
    (["tune=threshold", "align.criteria=x"], "criteria is a file to prove; set tune=criteria"),
    (
        [
            "tune=criteria",
            "align.budget_usd=1",
            "align.model={model: x/y, params: {api_key: sk-abcdefghij}}",
        ],
        "align.model.params.api_key: contains a secret",
    ),
])  # fmt: skip
def test_settings_that_do_not_fit_are_refused(words, message, here, capfd):
    assert message in call_main(capfd, "align", "run", *words, status=1).line()


@pytest.mark.parametrize("tune", STUDIES)
def test_an_imported_run_has_no_judge_to_call(tune, ties, provider, here, capfd):
    manifest = ties() / "manifest.json"
    manifest.write_text(
        json.dumps(json.loads(manifest.read_text()) | {"imported": {"format": "x"}})
    )
    line = call_main(capfd, *align(provider, tune), status=1).err.strip().splitlines()[-1]
    assert line == f"evalkit: tune=[{tune}]: the run was imported, and has no judge to call"
