"""Where a cascade can be used once its thresholds are known: served, exported, audited, by workers, and aligned."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import evalkit
from evalkit.cli.watch import Watched
from evalkit.errors import ConfigError
from evalkit.serving.service import CaseInput, Service
from evalkit.tools.models import PairwiseCompareInput
from tests.cli import test_cascade_command
from tests.cli.test_cascade_command import COUNT, JUDGE, asked, judges, number
from tests.support.command_line import Done, pair
from tests.support.fake_provider import Provider, Reply, said, serving

Call = Callable[..., Done]


def unsure(body: dict[str, Any]) -> Reply:
    """The large judge contradicts itself in every twelfth case, where the small one is not sure either."""
    if body["model"] == "large" and number(body) % 12 == 0:
        return said("[[A]]", usage=(100, 10))
    return judges(body)


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    (tmp_path / "cases.jsonl").write_text("\n".join(json.dumps(pair(n)) for n in range(COUNT)), "utf-8")
    folder = tmp_path / "conf" / "judge"
    folder.mkdir(parents=True)
    with serving() as provider:
        provider.rule = unsure
        for name, price in (("small", 0.1), ("large", 10)):
            (folder / f"{name}.yaml").write_text(JUDGE.format(name=name, base=provider.api_base, price=price), "utf-8")
        yield provider


def words(*more: str) -> list[str]:
    return test_cascade_command.words("judge.target=0.7", *more)


def rows(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]


def fields(n: int) -> dict[str, Any]:
    case = pair(n)
    return {key: case[key] for key in ("prompt", "response_a", "response_b")}


def expected(n: int) -> tuple[str, str | None]:
    """Which status and judge a case has: unsure everywhere, decided by the large judge, or by the small one."""
    return ("abstained", None) if n % 12 == 0 else ("judged", "large" if n % 3 == 0 else "small")


@pytest.mark.parametrize("source", ["first", "judge"])
def test_a_served_cascade_says_who_decided_or_abstains(call: Call, provider: Provider, source: str) -> None:
    call("run", *words())
    assert [(row["reason"], row["decided_by"]) for row in rows("first/verdicts.jsonl")] == [
        expected(n) for n in range(COUNT)
    ]
    call("export", "first", "--to", "judge", "--output", "judge")
    assert json.loads(Path("judge/trust.json").read_text("utf-8"))["cascade"]["steps"][0]["threshold"] == 1.0
    provider.requests.clear()
    judge = evalkit.load_judge(source, store={"mode": "off"}, api_base=provider.api_base)
    assert judge.trust.sentence == json.loads(Path("judge/trust.json").read_text("utf-8"))["decision"]["sentence"]
    numbers = range(COUNT, COUNT + 12)  # new cases, each alone, and then together
    alone = [judge.sync(**fields(n)) for n in numbers]
    assert asked(provider) == {
        "small": Counter(dict.fromkeys(numbers, 2)),
        "large": Counter(dict.fromkeys((n for n in numbers if n % 3 == 0), 2)),
    }

    async def together() -> list[Any]:
        async with judge:
            return await judge.batch([fields(n) for n in numbers])

    for found in (alone, asyncio.run(together())):
        assert [(one.reason, one.decided_by) for one in found] == [expected(n) for n in numbers]
        assert {one.status for one in found} == {"ok"}
        assert [one.winner is None for one in found] == [n % 12 == 0 for n in numbers]
        assert all(one.trust.sentence == judge.trust.sentence for one in found)


def test_clients_of_a_server_and_of_tools_see_the_abstention(call: Call, provider: Provider) -> None:
    call("run", *words())
    service = Service(evalkit.load_judge("first", store={"mode": "off"}, api_base=provider.api_base))

    async def ask() -> Any:
        plain = [await service.judge(CaseInput(**fields(n))) for n in (0, 1, 3)]
        tool = service.tools["pairwise_compare"]
        inputs = [
            PairwiseCompareInput(
                response_a=fields(n)["response_a"],
                response_b=fields(n)["response_b"],
                prompt=fields(n)["prompt"],
                criteria=["overall"],
            )
            for n in (0, 1)
        ]
        found = plain, [await service.use(tool, one) for one in inputs]
        await service.stop()
        return found

    plain, tools = asyncio.run(ask())
    assert [(one["reason"], one["decided_by"], one["winner"] is None) for one in plain] == [
        ("abstained", None, True),
        ("judged", "small", False),
        ("judged", "large", False),
    ]
    assert tools[0].error == "the cascade abstains: no judge is sure enough"
    assert tools[1].error is None


@pytest.mark.parametrize("damage", [None, "{}", '{"steps": [{"judge": "small", "threshold": "x"}]}', "no JSON"])
def test_a_run_without_its_thresholds_is_no_judge(call: Call, provider: Provider, damage: str | None) -> None:
    call("run", *words())
    if damage is None:
        Path("first/cascade.json").unlink()
    else:
        Path("first/cascade.json").write_text(damage, "utf-8")
    line = call("export", "first", "--to", "judge", "--output", "judge", status=1).line()
    assert line.startswith("first/cascade.json") or "/first/cascade.json" in line
    assert not Path("judge").exists()
    with pytest.raises(ConfigError, match=r"cascade\.json"):
        evalkit.load_judge("first", api_base=provider.api_base)


def test_an_audit_edits_cases_and_keeps_the_thresholds(call: Call, provider: Provider) -> None:
    call("run", *words())
    plain = json.loads(Path("first/cascade.json").read_text("utf-8"))
    provider.requests.clear()
    call("audit", *words("hydra.run.dir=audit", "probe=[padding]"))
    assert json.loads(Path("audit/cascade.json").read_text("utf-8")) == plain
    metrics = json.loads(Path("audit/metrics.json").read_text("utf-8"))["metrics"]
    # The judges ignore padding: the cascade answers as before, and abstains where it did.
    flips = metrics["audit/padding/flip_rate"]
    assert (flips["value"], flips["n"], flips["missing"]) == (0.0, COUNT - COUNT // 12, 0)
    assert metrics["audit/padding/missing"]["value"] == 0.0
    # Each judge is asked again about repeats and edited cases, the large one where the small one is unsure.
    assert asked(provider)["small"] == Counter(dict.fromkeys(range(COUNT), 4))
    assert asked(provider)["large"] == Counter(dict.fromkeys(range(0, COUNT, 3), 4))
    assert "all" in call("reproduce", "audit").out


def test_workers_judge_shards_by_given_thresholds(call: Call, provider: Provider) -> None:
    line = call("work", *words(), "--shard", "1/3", status=1).line()
    assert "; set judge.thresholds as in cascade.json of a run with labels, or use evalkit run" in line
    assert provider.requests == []
    given = words("judge.thresholds=[1,1]")
    for shard in ("1/3", "2/3", "3/3"):
        call("work", *given, "--shard", shard)
    assert len(provider.requests) == 2 * (COUNT + COUNT // 3)
    done = call("run", *given)
    assert "320 stored, 0 sent" in done.out
    assert [(row["reason"], row["decided_by"]) for row in rows("first/verdicts.jsonl")] == [
        expected(n) for n in range(COUNT)
    ]
    # No label chose anything: all of them show the agreement.
    metrics = json.loads(Path("first/metrics.json").read_text("utf-8"))["metrics"]
    assert metrics["cascade/accuracy"]["n"] == COUNT - COUNT // 12
    assert metrics["cascade/share/small"]["note"] == "where its certainty is at least 1, by judge.thresholds"


def test_thresholds_need_no_labels(call: Call, provider: Provider) -> None:
    bare = [{key: value for key, value in pair(n).items() if key != "label"} for n in range(30)]
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, bare)), "utf-8")
    assert "0 of the 0 labels" in call("run", *words(), status=1).line()
    call("run", *words("judge.thresholds=[1,null]"))
    assert Counter(row["decided_by"] for row in rows("first/verdicts.jsonl")) == {"small": 20, None: 10}
    call("score", "first", "judge.thresholds=[1,1]", "scoring.bootstrap=20")
    assert Counter(row["decided_by"] for row in rows("first/verdicts.jsonl")) == {"small": 20, "large": 7, None: 3}
    line = call("score", "first", "judge.thresholds=[1]", status=1).line()
    assert "thresholds has 1 values, and there are 2 judges" in line


@pytest.mark.parametrize("source", ["first", "judge"])
def test_a_watched_cascade_keeps_the_thresholds_of_its_run(call: Call, provider: Provider, source: str) -> None:
    call("run", *words())
    call("export", "first", "--to", "judge", "--output", "judge")
    assert Watched.of([source, "dataset=sample"]).config.judge.thresholds == (1.0, 1.0)


def test_align_tunes_what_does_not_need_other_answers(call: Call, provider: Provider) -> None:
    call("run", *words())
    line = call("align", "first", "tune=[threshold]", status=1).line()
    assert "evalkit score first judge.thresholds=" in line
    call("score", "first", "judge.thresholds=[1,1]", "scoring.bootstrap=20")
    assert "other answers than a cascade asks for" in call("align", "first", "tune=[vote]", status=1).line()
    done = call("align", "first", "tune=[threshold]")
    assert re.search(r"[Nn]o gain", done.out)
