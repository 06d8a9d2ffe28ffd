"""`evalkit plan`: what its numbers rest on, and how near they come to what is then paid."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import BRIEF, Done, fake, pair
from fake_provider import Provider, Reply, said, serving

from evalkit.cli import plan as planning
from evalkit.cli import ways

Call = Callable[..., Done]
PRICE = "judge.price={input: 1, output: 10}"
DATA = ["dataset=file", "dataset.path=cases.jsonl", "swap=both"]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path / "store.sqlite"))
    texts = (json.dumps(pair(number)) for number in range(12))
    (tmp_path / "cases.jsonl").write_text("".join(f"{text}\n" for text in texts))
    with serving() as provider:
        provider.rule = answered
        yield provider


def answered(body: dict[str, Any]) -> Reply:
    """A verdict that took 30 to 49 tokens, of a prompt that counts a third of its characters."""
    text = "".join(message["content"] for message in body["messages"])
    return said("[[A]]", usage=(len(text) // 3, 30 + len(text) % 20))


def words(provider: Provider, *more: str, model: str = "fake") -> list[str]:
    return [*fake(provider, model), "judge.transport=direct", "output=bracket", *DATA, *more]


def dollars(planned: Done) -> float:
    """The last number of the table's last row."""
    rows = [line for line in planned.out.splitlines() if line.startswith(("the run", "all, "))]
    return float(rows[-1].split()[-1])


def paid(*runs: str) -> float:
    return sum(float(json.loads(Path(run, "metrics.json").read_bytes())["cost_usd"]) for run in runs)


def test_estimates_are_what_the_run_then_costs(call: Call, provider: Provider) -> None:
    call("run", *words(provider, PRICE, "dataset.limit=4"), *BRIEF, "hydra.run.dir=some")
    planned = call("plan", *words(provider, PRICE))
    assert "from 8 stored for the same prompts" in planned.out
    call("run", *words(provider, PRICE), *BRIEF, "hydra.run.dir=all")
    assert dollars(planned) == pytest.approx(paid("all"), rel=0.05)
    assert dollars(call("plan", *words(provider, PRICE))) == 0


def test_other_answers_of_the_same_judge_and_format_tell_how_long_answers_are(call: Call, provider: Provider) -> None:
    other = ["prompt=zh", "criteria=overall"]
    assumed = call("plan", *words(provider, PRICE)).out
    assert re.search(r"length of answers: 150 tokens assumed", assumed)
    call("run", *words(provider, PRICE, *other), *BRIEF, "hydra.run.dir=other")
    planned = call("plan", *words(provider, PRICE))
    assert re.search(r"length of answers: (3\d|4\d) tokens from 24 stored of the same judge and format", planned.out)
    assert "minutes, about" in planned.out
    structured = call("plan", *words(provider, PRICE, "output=json")).out
    assert re.search(r"length of answers: \d+ tokens assumed", structured)
    assert "tokens assumed" in call("plan", *words(provider, PRICE, model="another")).out
    assert "length of answers: 20 tokens" in call("plan", *words(provider, "judge.max_tokens=20", model="another")).out


def test_a_panel_is_priced_judge_by_judge(call: Call, provider: Provider) -> None:
    def panel(*prices: str) -> list[str]:
        judges = ",".join(
            f"{{name: j{k}, model: openai/m{k}, api_base: '{provider.api_base}', transport: direct{price}}}"
            for k, price in enumerate(prices)
        )
        return ["judge=panel", f"judge.judges=[{judges}]", "output=bracket", *DATA]

    one, two = ", price: {input: 1, output: 10}", ", price: {input: 2, output: 20}"
    planned = call("plan", *panel(one, two))
    alone = call("plan", *words(provider, PRICE))
    assert dollars(planned) == pytest.approx(3 * dollars(alone), rel=0.01)
    unknown = call("plan", *panel(one, ""))
    assert "price unknown: j1; set judge.price" in unknown.out
    call("run", *panel(one, two), *BRIEF, "hydra.run.dir=panel")
    assert dollars(call("plan", *panel(one, two))) == 0


def test_limits_and_the_jobs_of_a_sweep_tell_the_time(call: Call, provider: Provider) -> None:
    planned = call("plan", *words(provider, PRICE, "judge.rpm=6", "tie.threshold=0,0.5", "-m"))
    lines = [re.split(r"\s{2,}", line.strip()) for line in planned.out.splitlines()]
    *jobs, columns = [dict(zip(lines[0], line, strict=True)) for line in lines[1:] if len(line) == len(lines[0])]
    assert (columns["requests"], columns["to send"], columns["shared"]) == ("48", "24", "24")
    assert (columns["minutes, about"], [job["minutes, about"] for job in jobs]) == ("4.0", ["4.0", "4.0"])
    assert [job["shared"] for job in jobs] == ["0", "24"]


def counts(planned: Done) -> list[list[str]]:
    """The cells of the table's rows."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in planned.out.splitlines()[1:])
    return [row for row in rows if len(row) > 5]


def test_prompts_are_filled_only_where_the_store_may_know_them(
    call: Call, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = pair(0) | {"id": "again"}
    alike = pair(1) | {"id": "alike", "response_b": "good 1"}
    with (tmp_path / "cases.jsonl").open("a") as file:
        file.write(f"{json.dumps(same)}\n{json.dumps(alike)}\n")
    sweep = words(provider, PRICE, "swap=both,none", "judge.temperature=0,1", "-m")
    told = call("plan", *sweep)
    filled: list[str] = []
    plan = planning.plan_requests
    monkeypatch.setattr(planning, "plan_requests", lambda *given: filled.append("filled") or plan(*given))
    assert call("plan", *sweep).out == told.out
    assert filled == []
    call("run", *words(provider, PRICE, "dataset.limit=1"), *BRIEF, "hydra.run.dir=one")
    assert len(counts(call("plan", *sweep))) == 5
    assert len(filled) == 4
    monkeypatch.setattr(ways, "FEW_STORED", 0)
    filled.clear()
    assert counts(call("plan", *words(provider, PRICE, model="another")))[0][1:4] == ["28", "0", "25"]
    assert filled == ["filled"]


def test_a_plan_refuses_a_gate_on_what_the_run_cannot_have(call: Call, provider: Provider) -> None:
    gate = "gate={agreement/acuracy: '>= 0.5'}"
    refused = call("plan", *words(provider, gate), status=1)
    assert refused.line() == "gate.agreement/acuracy: no such metric; did you mean 'agreement/accuracy'?"
    missing = call("plan", *words(provider, "gate={no_worse_than: {run: gone, metric: agreement/accuracy}}"), status=1)
    assert missing.line().endswith("gone: no such folder; name a folder that `evalkit run` wrote")
    call("run", *words(provider), *BRIEF, "hydra.run.dir=all")
    held = "{agreement/accuracy: '>= 0.5', no_worse_than: {run: all, metric: agreement/accuracy}}"
    assert call("plan", *words(provider, f"gate={held}")).err == ""
    assert len(provider.requests) == 24
