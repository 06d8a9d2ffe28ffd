"""A judge that fails says why; a repaired judge is asked again only for what failed; plan and run agree."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import BRIEF, fake, pair
from tests.support.fake_provider import Provider, Reply, said

CRITERIA = ("criteria=[]", "+criteria.accuracy.description=right", "+criteria.style.description=ok")
Answer = Callable[[dict[str, Any]], Reply]


def verdict(*criteria: str, winner: str = "A") -> str:
    entries = [
        {"criterion": name, "reasoning": "\x1b[31mfine", "winner": winner} for name in criteria
    ]
    result = {"reasoning": "better", "winner": winner, "confidence": 0.9}
    return json.dumps({"comparison": entries, "result": result})


def whole(body: dict[str, Any]) -> Reply:
    return said(verdict("accuracy", "style"))


def forgetful(body: dict[str, Any]) -> Reply:
    """Answer as a server that omits one criterion."""
    return said(verdict("accuracy"))


@pytest.fixture
def words(provider: Provider, here: Path) -> list[str]:
    rows = (json.dumps(pair(number)) + "\n" for number in range(20))
    Path("data.jsonl").write_text("".join(rows), "utf-8")
    data = ("dataset=file", "dataset.path=data.jsonl", "swap=none", "store.url=store.sqlite")
    return [*fake(provider), *data, *CRITERIA, *BRIEF, "judge.transport=direct", *MODEST]


MODEST = ("runner.concurrency=2",)


def calls_of(folder: str) -> dict[str, int]:
    found: dict[str, int] = json.loads((Path(folder) / "metrics.json").read_bytes())["calls"]
    return found


def planned(call: Any, *words: str) -> int:
    """Return what `evalkit plan` wants to send in all."""
    table = call("plan", *words).out
    rows = [line for line in table.splitlines() if line.startswith(("all, ", "the run "))]
    return int(re.split(r"\s{2,}", rows[0])[3].replace(",", ""))


def test_a_server_that_forgets_a_criterion_is_stopped_repaired_and_asked_again(
    words, call, provider
):
    provider.rule = forgetful
    done = call("run", *words, "hydra.run.dir=run", status=2)
    # Answers that have come and are not read yet do not count, so a busy machine sends some more.
    assert 16 <= len(provider.requests) <= 30
    assert "stopped early: the first 16 answers of" in done.err
    assert "all unparseable for the same reason" in done.err
    assert "store=retry" in done.err
    assert re.search(r"\d+ unparseable: .*style", done.out), done.out
    assert re.search(r"Example, case c\d+ by .*: \{\"comparison\"", done.out)
    assert "\x1b" not in done.out
    assert "unusable answers: evalkit export run --to csv" in done.out
    call("export", "run", "--to", "csv")
    assert Path("run/judgments.csv").read_text("utf-8").count("unparseable") >= 8
    for file in ("findings.md", "report.html"):
        assert "store=retry" in Path("run", file).read_text("utf-8")
    unusable = json.loads(Path("run/metrics.json").read_bytes())["metrics"]["missing/unparseable"]
    paid = round(unusable["value"] * unusable["n"])

    provider.rule = whole
    provider.requests.clear()
    again = [*words, "store=retry", "hydra.run.dir=run"]
    assert planned(call, *again) == 20
    done = call("run", *again)
    assert len(provider.requests) == 20
    calls = calls_of("run")
    assert (calls["sent"], calls["planned"], calls["failed"]) == (20, 20 + calls["stored"], 0)
    manifest = json.loads(Path("run/manifest.json").read_bytes())
    assert manifest["asked_again"] == {
        "count": paid,
        "share": round(paid / calls["planned"], 6),
    }
    assert f"{paid} stored answers could not be used and were asked again" in done.out
    assert "unparseable" not in done.out

    provider.requests.clear()
    call("run", *again)
    call("reproduce", "run")
    assert provider.requests == []


@pytest.mark.parametrize(
    "mode",
    [
        *("retry", "refresh"),
        *(
            pytest.param(mode, marks=pytest.mark.thorough)
            for mode in ("read_write", "off", "read_only")
        ),
    ],
)
def test_plan_and_run_agree_in_every_mode(words, call, provider, mode):
    odd = {f"question {number}" for number in (3, 7, 11)}
    rows = [{**pair(number), "prompt": f"question {number}"} for number in range(12)]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def rule(body: dict[str, Any]) -> Reply:
        texts = str(body["messages"])
        bad = any(re.search(rf"{text}\b", texts) for text in odd)
        return forgetful(body) if bad else whole(body)

    provider.rule = rule
    call("run", *words, "dataset.limit=8", "hydra.run.dir=first")
    assert len(provider.requests) == 8 + 2  # an answer that cannot be read is asked for once more
    provider.requests.clear()
    sweep = ["scoring.seed=1,2", f"store.mode={mode}"]
    count = planned(call, *words, "-m", *sweep)
    status = 2 if mode == "read_only" else 0
    call("run", *words, "-m", *sweep, "hydra.sweep.dir=sweep", status=status)
    expected = {"read_write": 4, "retry": 4 + 2, "refresh": 12, "off": 24, "read_only": 0}
    assert count == expected[mode]
    repeated = {"read_write": 1, "retry": 3, "refresh": 3, "off": 6, "read_only": 0}
    assert len(provider.requests) == count + repeated[mode]  # which no plan can know
    if mode == "read_write":
        assert (
            "3 of these answers were stored before this run"
            in call("run", *words, "hydra.run.dir=second").out
        )


def test_overwrite_and_retry_run_finished_jobs_of_a_sweep_again(words, call, provider):
    provider.rule = forgetful
    sweep = ["-m", *words, "dataset.limit=6", "tie.threshold=0.0,0.1", "hydra.sweep.dir=sweep"]
    call("run", *sweep, status=2)
    assert len(provider.requests) == 12
    assert "already finished" in call("run", *sweep, status=2).err
    assert "already finished" not in call("run", *sweep, "--overwrite", status=2).err
    assert len(provider.requests) == 12
    provider.rule = whole
    call("run", *sweep, "store=retry")
    assert len(provider.requests) == 18
    assert "already finished" in call("run", *sweep, "store=retry").err


@pytest.mark.parametrize(
    ("setting", "count"),
    [((), 16), (("runner.stop_if_useless=false",), 40), (("store=read_only",), 0)],
)
def test_when_a_run_is_stopped(words, call, provider, setting, count):
    provider.rule = forgetful
    if "store=read_only" in setting:
        call("run", *words, "dataset.limit=1", "hydra.run.dir=one", status=2)
        provider.requests.clear()
    call("run", *words, *setting, "runner.concurrency=1", "hydra.run.dir=run", status=2)
    assert count <= len(provider.requests) <= count + 2


def test_a_run_with_a_usable_answer_is_finished(words, call, provider):
    provider.rule = forgetful
    provider.script.append(said(verdict("accuracy", "style")))
    call("run", *words, "runner.concurrency=1", "hydra.run.dir=run", status=2)
    assert len(provider.requests) == 39
