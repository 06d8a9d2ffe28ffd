"""A judge in promptfoo: as a Python assertion, as a provider, and as a webhook of a server in any language.

Without the program `promptfoo` (`npm install -g promptfoo`), only its calls are made, as its Python
wrapper makes them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalkit.core.errors import EvalkitError
from evalkit.serving.adapters.promptfoo import call_api, get_assert
from tests.adapters.conftest import ASKED, BAD, DOWN, GOOD, Judges
from tests.support.serving import served

NOTHING, ASSERTION, ERROR = range(3)
"""What promptfoo calls the reason of a failure."""


def options(judges: Judges, folder: Path, **more: Any) -> dict[str, Any]:
    return {"judge": str(folder), "api_base": judges.api_base, "runner": {"retries": 0}, **more}


def test_assertion(judges):
    def asserted(name: str, output: Any, variables: Any = None, **more: Any) -> dict[str, Any]:
        config = options(judges, getattr(judges, name), **more)
        return get_assert(output, {"prompt": ASKED, "vars": variables or {}, "config": config})

    assert asserted("scores", GOOD)["score"] == 0.75
    assert [asserted("scores", GOOD, threshold=end)["pass"] for end in (0.7, 0.75, 0.8)] == [
        *(True, True, False),
    ]
    won, lost = (
        asserted("pairs", GOOD, {"response_b": BAD}),
        asserted("pairs", BAD, {"response_b": GOOD}),
    )
    assert (won["pass"], won["score"], lost["pass"], lost["score"]) == (True, 1, False, 0)
    assert "is better: good" in won["reason"]
    assert asserted("classes", BAD, passing=["bad"])["pass"]
    with pytest.raises(EvalkitError, match="down"):
        asserted("scores", DOWN)


def test_provider(judges):
    config = {"config": options(judges, judges.pairs)}
    answer = call_api(ASKED, config, {"vars": {"response_a": GOOD, "response_b": BAD}})
    assert answer["output"]["value"] == "A"
    assert call_api(ASKED, config, {"vars": {"response_a": DOWN, "response_b": BAD}}) == {
        "error": "down"
    }
    assert "no response" in call_api(ASKED, config, {"vars": {}})["error"]


def test_webhook(judges):
    with served(judges.pairs, "--api-base", judges.api_base) as server:

        def asked(output: Any, path: str = "/webhook", **variables: Any) -> tuple[int, Any]:
            return server.post(
                path, {"output": output, "context": {"prompt": ASKED, "vars": variables}}
            )

        status, answer = asked(GOOD, response_b=BAD)
        assert (status, answer["pass"], answer["score"]) == (200, True, 1)
        assert asked(BAD, response_b=GOOD)[1]["score"] == 0
        assert asked(GOOD, "/webhook?threshold=1", response_b=GOOD)[1]["pass"] is False
        assert asked(GOOD)[0] == 422  # nothing to compare it with
        assert asked(GOOD, "/webhook?passing=good", response_b=BAD)[0] == 422
        assert asked(DOWN, response_b=BAD)[0] == 422  # a bad request: trying again cannot help
    with served(judges.classes, "--api-base", judges.api_base) as server:
        assert asked(GOOD)[0] == 422
        assert asked(GOOD, "/webhook?passing=good")[1]["pass"] is True


@pytest.mark.slow
def test_the_real_promptfoo(judges, tmp_path):
    """A missing verdict is an error of a provider; an assertion has no errors, so it fails with the cause as reason."""
    if (program := os.environ.get("EVALKIT_PROMPTFOO") or shutil.which("promptfoo")) is None:
        pytest.skip("promptfoo is not installed: npm install -g promptfoo")
    (tmp_path / "judge.py").write_text(
        "from evalkit.serving.adapters.promptfoo import call_api, get_assert\n", "utf-8"
    )
    with served(judges.scores, "--api-base", judges.api_base) as server:
        python = {
            "type": "python",
            "value": "file://judge.py",
            "config": options(judges, judges.scores),
        }
        pairs = {"id": "file://judge.py", "config": options(judges, judges.pairs)}
        config: dict[str, Any] = {
            "prompts": ["{{text}}"],
            "providers": ["echo", pairs],
            "defaultTest": {
                "assert": [python, {"type": "webhook", "value": f"{server.url}/webhook"}]
            },
            "tests": [
                {"vars": {"text": text, "response_a": text, "response_b": BAD}}
                for text in (GOOD, BAD, DOWN)
            ],
        }
        (tmp_path / "promptfooconfig.yaml").write_text(yaml.safe_dump(config), "utf-8")
        quiet = (
            *("DISABLE_TELEMETRY", "DISABLE_UPDATE", "DISABLE_REMOTE_GENERATION", "CACHE_ENABLED"),
        )
        environment = {
            **os.environ,
            **{f"PROMPTFOO_{name}": str(name != "CACHE_ENABLED").lower() for name in quiet},
            "PROMPTFOO_CONFIG_DIR": str(tmp_path / "home"),
            "PROMPTFOO_PYTHON": sys.executable,
        }
        command = [
            *(program, "eval", "-c", "promptfooconfig.yaml", "-o", "results.json"),
            *("--no-progress-bar", "-j", "1"),
        ]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert (tmp_path / "results.json").exists(), done.stdout[-2000:] + done.stderr[-2000:]
    results = json.loads((tmp_path / "results.json").read_text("utf-8"))["results"]["results"]
    rows = {(row["vars"]["text"], row["provider"]["id"] == "echo"): row for row in results}
    judged, asked = ([rows[text, echo] for text in (GOOD, BAD, DOWN)] for echo in (True, False))
    assert [row["failureReason"] for row in judged] == [NOTHING, ASSERTION, ASSERTION]
    assert [
        [one["score"] for one in row["gradingResult"]["componentResults"]] for row in judged[:2]
    ] == [
        [0.75, 0.75],
        [0.25, 0.25],
    ]
    assert "down" in judged[2]["error"]
    assert [row["response"]["output"]["value"] for row in asked[:2]] == ["A", "TIE"]
    causes = [one["reason"] for one in judged[2]["gradingResult"]["componentResults"]]
    assert ["down" in causes[0], "503" in causes[1]] == [True, True]
    assert asked[2]["failureReason"] == ERROR
    assert "down" in asked[2]["error"]
