"""What evalkit gives to a project that uses it under mypy's strict settings, and what the package is called."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.core.resources import own_version

CONSUMER = """\
from evalkit import RunConfig, RunResult, direct_score_sync, load_config, pairwise_compare, run

config = load_config(overrides=["dataset.limit=2"])
result = run(config)
reveal_type(config)
reveal_type(result)
reveal_type(result.metrics["agreement/accuracy"].low)
reveal_type(direct_score_sync(prompt="p", response="r").weighted_score)
config.no_such_key
run("config")
async def winner() -> str | None:
    return (await pairwise_compare(prompt="p", response_a="a", response_b="b")).winner
"""

# Nothing of these is in evalkit's interface, and mypy would read them for 20 s.
SETTINGS = """\
[mypy]
[mypy-litellm.*,openai.*,mlflow.*]
follow_imports = skip
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_a_strict_consumer_sees_the_types(tmp_path: Path) -> None:
    (tmp_path / "consumer.py").write_text(CONSUMER, "utf-8")
    (tmp_path / "mypy.ini").write_text(SETTINGS, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "consumer.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    lines = done.stdout.splitlines()
    revealed = [line.partition("Revealed type is ")[2].strip('"') for line in lines if "Revealed" in line]
    assert revealed == [
        "evalkit.config.run_config.RunConfig",
        "evalkit.results.RunResult",
        "float | None",
        "float | None",
    ], lines
    errors = [line for line in lines if ": error: " in line]
    assert [line.split(":")[1] for line in errors] == ["9", "10"], lines
    assert '"RunConfig" has no attribute "no_such_key"' in errors[0]


def test_the_distribution_has_a_name_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert any(one.startswith("xllamacpp") for one in requires("evalkit-judge") or ())
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"evalkit {own_version()}\n"
    assert own_version() is not None
