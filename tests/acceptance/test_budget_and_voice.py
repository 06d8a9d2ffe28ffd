import json

import pytest

from tests.support.command_line import BRIEF, fake, pair, prefers
from tests.support.fake_provider import refused

SECRET = "sk-very-secret-key-1234"


@pytest.fixture
def words(commands, provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    commands.write("cases.jsonl", *(pair(n) for n in range(6)))
    provider.rule = prefers()
    # One at a time: the script of answers is in the order of requests.
    quick = ["judge.transport=direct", "output=bracket", "runner.concurrency=1", "runner.retries=0"]
    return [
        *("run", *fake(provider), "dataset=file", "dataset.path=cases.jsonl", *quick, *BRIEF),
        "hydra.run.dir=out",
    ]


def test_each_kind_of_failure_has_a_line_with_an_example_and_no_secret(words, within, provider):
    provider.script.extend([*2 * [refused(500, f"oops {SECRET}")], refused(503, "busy")])
    provider.script.append(
        refused(400, "maximum context length is 5 tokens", code="context_length_exceeded")
    )
    done = within(*words, "runner.max_failure_rate=1")
    lines = [line for line in done.err.splitlines() if " failed (" in line]
    assert [line.split(", for example")[0] for line in lines] == [
        "evalkit: 3 failed (server)",
        "evalkit: 1 failed (too_long)",
    ]
    assert "example case c0 by fake: oops [redacted]" in lines[0]
    assert SECRET not in done.err + done.out


def test_quiet_says_only_what_went_wrong(words, within, provider):
    assert within(*words, "--quiet").err == ""
    provider.script.append(refused(500, "oops"))
    done = within("run", "--quiet", *words[1:], "store.mode=off", "hydra.run.dir=again", status=2)
    assert done.out == ""
    assert [line.split(" ")[1:3] for line in done.err.splitlines()] == [
        ["1", "failed"],
        ["8.3%", "of"],
    ]


def test_json_logs_are_json_on_every_line(words, within, provider):
    provider.script.append(refused(500, "oops"))
    done = within(*words, "--json-logs", "runner.max_failure_rate=1")
    assert done.out == ""
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert {"progress", "finished", "failure"} <= {line["event"] for line in lines}
    assert all(line["time"] and line["text"] for line in lines)
    last = [line for line in lines if line["event"] == "progress"][-1]
    assert (last["done"], last["total"], last["failed"], last["throttled"]) == (12, 12, 1, 0)
    [finished] = [line for line in lines if line["event"] == "finished"]
    assert finished["calls"]["sent"] == 12
    assert 0 <= finished["metrics"]["agreement/accuracy"] <= 1
    [wrong] = within("run", "--json-logs", "judge=nobody", status=1).err.splitlines()
    assert json.loads(wrong)["event"] == "error"


def test_what_a_provider_does_not_take_stands_in_the_manifest(words, within, commands, provider):
    accept = provider.rule

    def rule(body):
        return (
            refused(400, "Unsupported parameter: 'temperature'")
            if "temperature" in body
            else accept(body)
        )

    provider.rule = rule
    done = within(*words, "judge.temperature=0.5")
    assert "temperature" in provider.requests[0]
    assert "temperature" not in provider.requests[-1]
    assert done.err.count("continuing without temperature") == 1
    [judge] = json.loads((commands.folder / "out/manifest.json").read_text())["judges"]
    assert judge["dropped"] == ["temperature"]
