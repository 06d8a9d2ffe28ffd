"""A budget: never exceeded, spent where answers are short, and shared by the jobs of a sweep."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Done, fake, pair, shown
from tests.support.fake_provider import Provider, Reply, said

Call = Callable[..., Done]
PROMPT, ANSWER = 100, 50
PRICE = {"input": 0.1, "output": 100.0}
COST = (PROMPT * PRICE["input"] + ANSWER * PRICE["output"]) / 1e6


@pytest.fixture
def provider(provider, tmp_path):
    """A provider whose answers have 50 tokens, or as many as it is allowed."""
    lines = [json.dumps(pair(number)) for number in range(40)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), "utf-8")
    provider.rule = answering(lambda _: ANSWER)
    return provider


def answering(tokens: Callable[[dict[str, Any]], int]) -> Callable[[dict[str, Any]], Reply]:
    """A judge whose answers have so many tokens unless they are cut at `max_tokens`."""

    def rule(body: dict[str, Any]) -> Reply:
        wanted, most = tokens(body), body.get("max_tokens", 10**6)
        first = shown(body)[0]
        text = "" if wanted > most else f"[[{'A' if first.startswith('good') else 'B'}]]"
        finish = "length" if wanted > most else "stop"
        return said(text, finish=finish, usage=(PROMPT, min(wanted, most)))

    return rule


def words(provider: Provider, *more: str) -> list[str]:
    data = [
        *("dataset=file", "dataset.path=data.jsonl", "output=bracket", "scoring.bootstrap=20"),
        "tracking=none",
    ]
    judge = [
        "judge.transport=direct",
        "judge.max_tokens=1000",
        "judge.price={input: 0.1, output: 100}",
    ]
    return [*fake(provider), *judge, *data, "runner.max_failure_rate=1", "runner.retries=0", *more]


def metrics(folder: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(Path(folder, "metrics.json").read_text())
    return loaded


def test_a_budget_below_one_call_says_what_a_call_may_cost(call, provider):
    done = call(
        "run", *words(provider, "hydra.run.dir=first", "runner.budget_usd=0.000001"), status=2
    )
    assert provider.requests == []
    assert re.search(
        r"is reached: \$0 spent, and the next call may cost \$0\.\d*[1-9]", done.err
    ), done.err


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_small_budget_is_spent_and_never_exceeded(call, provider, concurrency):
    # A call costs at most $0.1 and takes 0.005: with the most in reserve, 0.02 of 0.12 would be
    # spent.
    budget = 0.12
    given = [f"runner.budget_usd={budget}", f"runner.concurrency={concurrency}"]
    done = call("run", *words(provider, "hydra.run.dir=first", *given), status=2)
    spent = metrics("first")["cost_usd"]
    assert 0.85 * budget < spent <= budget, spent / budget
    assert spent == pytest.approx(len(provider.requests) * COST)
    assert "runner.budget_usd=0.12 is reached" in done.err
    # Answers from the store say, too, how long answers are.
    asked = len(provider.requests)
    call("run", *words(provider, "hydra.run.dir=second", "runner.budget_usd=0.03"), status=2)
    assert len(provider.requests) - asked == 4
    # So do stored answers to other prompts.
    call(
        "run",
        *words(provider, "hydra.run.dir=third", "runner.budget_usd=0.03", "tie=forbid"),
        status=2,
    )
    assert len(provider.requests) - asked == 8
    limits = [body["max_tokens"] for body in provider.requests[asked:]]
    assert limits == [2 * ANSWER] * 8


def test_an_answer_that_is_cut_by_the_budget_is_not_kept(call, provider, tmp_path):
    provider.rule = answering(lambda body: 900 if "Question 0?" in str(body) else ANSWER)
    given = ["runner.budget_usd=0.09", "runner.concurrency=1"]
    call("run", *words(provider, "hydra.run.dir=first", *given), status=2)
    first = metrics("first")
    assert 0.5 * 0.09 < first["cost_usd"] <= 0.09
    judgments = [
        json.loads(line)
        for line in (tmp_path / "first" / "judgments.jsonl").read_text().splitlines()
    ]
    assert {one["error_kind"] for one in judgments if one["case_id"] == "c0"} == {"budget"}
    assert "was cut off at" in next(one["error"] for one in judgments if one["case_id"] == "c0")
    # With money for it, the same request is sent again, without a limit.
    call("run", *words(provider, "hydra.run.dir=first"))
    assert metrics("first")["metrics"]["missing/budget"]["value"] == 0
    longest = [body for body in provider.requests if "Question 0?" in str(body)][-1]
    assert longest["max_tokens"] == 1000


def test_a_judge_that_takes_no_limit_is_not_asked_with_one_again(call, provider):
    from tests.support.fake_provider import refused

    judged = provider.rule
    provider.rule = lambda body: (
        refused(400, "no such limit") if body["max_tokens"] < 1000 else judged(body)
    )
    call(
        "run",
        *words(provider, "runner.budget_usd=0.12", "runner.concurrency=1", "hydra.run.dir=r"),
        status=2,
    )
    assert metrics("r")["cost_usd"] == pytest.approx(4 * COST)
    assert len(provider.requests) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.thorough), 8])
def test_a_budget_may_be_for_a_whole_sweep(call, provider, concurrency):
    given = [
        *words(provider, f"runner.concurrency={concurrency}", "judge.seed=1,2"),
        "-m",
    ]
    done = call(
        "run",
        *given,
        "hydra.sweep.dir=swept",
        "runner.budget_usd=0.5",
        "runner.budget_scope=sweep",
        status=2,
    )
    spent = sum(metrics(f"swept/{job}")["cost_usd"] for job in range(2))
    assert 0.9 * 0.5 < spent <= 0.5
    assert "runner.budget_usd=0.5 is reached by the sweep" in done.err
    asked = len(provider.requests)
    call(
        "run",
        *given,
        "hydra.sweep.dir=each",
        "runner.budget_calls=10",
        "judge.temperature=1",
        status=2,
    )
    assert len(provider.requests) - asked == 2 * 10
    asked = len(provider.requests)
    calls = [
        "runner.budget_calls=10",
        "runner.budget_scope=sweep",
        "judge.temperature=2",
        "hydra.sweep.dir=all",
    ]
    call("run", *given, *calls, status=2)
    assert len(provider.requests) - asked == 10


def test_a_budget_may_be_for_all_workers_on_a_store(call, provider):
    given = [
        *words(provider, "runner.budget_scope=store", "runner.concurrency=4"),
        "store.url=shared.sqlite",
    ]
    done = call("run", *given, "runner.budget_usd=0.12", "hydra.run.dir=one", status=2)
    assert "runner.budget_usd=0.12 is reached by all workers" in done.err
    spent = metrics("one")["cost_usd"]
    assert 0 < spent <= 0.12
    call("run", *given, "runner.budget_usd=0.12", "hydra.run.dir=again", status=2)
    assert spent + metrics("again")["cost_usd"] <= 0.12
    call("run", *given, "runner.budget_usd=10", "hydra.run.dir=more")
    asked = len(provider.requests)
    call(
        "run", *given, "judge.seed=1", "runner.budget_usd=10", "hydra.run.dir=other"
    )  # another study
    assert len(provider.requests) == asked + 80
    wrong = call("run", *given, "runner.budget_calls=10", status=1).line()
    assert "budget_calls does not work with budget_scope=store; set budget_usd" in wrong
    wrong = call("run", *given, "runner.budget_usd=10", "store.mode=off", status=1).err
    assert (
        "runner.budget_scope: workers cannot share a budget without a writable SQLite or PostgreSQL store"
        in wrong
    )
