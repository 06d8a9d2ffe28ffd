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
