"""The plug-in for pytest, in test sessions of its own: each a process, as a user's is."""

import json

import pytest

from tests.support.command_line import fake, pair, prefers
from tests.support.fake_provider import serving

pytest_plugins = ["pytester"]

TESTS = """
import os
import pytest

BASE = {base!r}
pytestmark = pytest.mark.evalkit(*BASE)


@pytest.mark.evalkit(gate={{"agreement/accuracy": ">= 0.5"}})
def test_a_gate_that_holds(evalkit_run):
    result = evalkit_run()
    assert result.metrics["agreement/accuracy"].value == 1.0
    assert evalkit_run().judgments is result.judgments
    assert result.config.gate.rules["agreement/accuracy"].value == ">= 0.5"
    assert not os.path.exists("outputs") and not os.path.exists("mlflow.db")


@pytest.mark.evalkit(gate={{"agreement/accuracy": "< 0.5", "position/consistency": ">= 0.5"}})
def test_a_gate_that_fails():
    raise AssertionError("not come to")


@pytest.mark.evalkit(gate={{"agreement/acuracy": "< 0.5"}})
def test_a_name_that_is_none():
    pass


@pytest.mark.evalkit(gate={{"decision": "rates", "undecided": "fail"}})
def test_a_decision_that_needs_labels():
    pass


@pytest.mark.evalkit("judge.model=openai/broken", gate={{"agreement/accuracy": ">= 0.5"}})
def test_a_judge_that_does_not_answer():
    pass


@pytest.mark.evalkit("tie.threshold=0.5", gate={{"agreement/accuracy": ">= 0.9"}})
class TestUndecided:
    def test_passes(self):
        pass

    @pytest.mark.evalkit(gate={{"undecided": "fail"}})
    def test_fails_where_that_is_asked_for(self):
        pass

    def test_and_rules_may_be_given_to_the_call(self, evalkit_run):
        evalkit_run("tie.threshold=0", gate={{"tie_rate": {{"value": "> 0", "by": "value"}}}})
"""

UNUSED = """
import sys

def test_nothing_heavy_is_imported():
    heavy = {"litellm", "mlflow", "hydra", "omegaconf", "pydantic", "numpy", "scipy", "aiohttp", "jinja2", "yaml"}
    assert "evalkit.testing.pytest_plugin" in sys.modules
    assert not heavy & {*sys.modules}
"""


@pytest.fixture
def provider():
    with serving() as provider:
        prefer = prefers()
        provider.rule = lambda body: prefer(body) if body["model"] == "fake" else (404, {}, b"{}")
        yield provider


def outcomes(printed: str) -> dict[str, str]:
    """What became of each test, by its name, in the lines that `-v` prints."""
    lines = [line.split() for line in printed.splitlines() if "::" in line and "%]" in line]
    return {words[0].rsplit("::", 1)[1]: words[1] for words in lines}


@pytest.mark.slow
def test_a_judge_is_good_enough_or_the_test_fails(pytester, provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    pytester.path.joinpath("cases.jsonl").write_text(
        "\n".join(json.dumps(pair(n)) for n in range(10))
    )
    base = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=50"]
    pytester.makepyfile(
        TESTS.format(base=[*fake(provider), "judge.transport=direct", "runner.retries=0", *base])
    )
    done = pytester.runpytest_subprocess("-v", "--strict-markers", "-p", "no:cacheprovider")
    printed = done.stdout.str()
    assert outcomes(printed) == {
        "test_a_gate_that_holds": "PASSED",
        "test_a_gate_that_fails": "FAILED",
        "test_a_name_that_is_none": "FAILED",
        "test_a_decision_that_needs_labels": "FAILED",
        "test_a_judge_that_does_not_answer": "FAILED",
        "test_passes": "PASSED",
        "test_fails_where_that_is_asked_for": "FAILED",
        "test_and_rules_may_be_given_to_the_call": "FAILED",
    }, printed
    done.stdout.fnmatch_lines(
        [
            "pairwise * fake * cases (*)",
            "gate failed: 1 held, 1 failed",
            "  failed  agreement/accuracy    < 0.5   1 [[]0.6915, 1[]]",
            "  held    position/consistency  >= 0.5  1 [[]0.6915, 1[]]",
            "evalkit: gate.agreement/acuracy: no such metric*; did you mean 'agreement/accuracy'?",
            "gate failed: 1 undecided, because gate.undecided is fail",
            "  undecided  decision  >= rates  rates_corrected (the intervals do not exclude single): *",
            "gate failed: 1 failed, 1 undecided",
        ]
    )
    assert "not come to" not in printed
    assert "During handling" not in printed
    # Runs that differ by their rules alone are one, and thresholds ask for nothing that is stored.
    assert sum("fake" in json.dumps(body) for body in provider.requests) == 20


def test_where_it_is_not_used_it_imports_nothing_heavy(pytester, monkeypatch):
    monkeypatch.setenv(
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"
    )  # other packages' plug-ins import what they like
    pytester.makepyfile(UNUSED)
    pytester.runpytest_subprocess(
        "-p", "evalkit.testing.pytest_plugin", "-p", "no:cacheprovider"
    ).assert_outcomes(passed=1)


@pytest.mark.slow
def test_the_marker_is_told(pytester):
    assert (
        "@pytest.mark.evalkit(*words, gate=None)"
        in pytester.runpytest_subprocess("--markers").stdout.str()
    )
