"""A judge in Inspect, DeepEval and pydantic-evals: each runs in a process of its own, over our environment.

They are slow because each process imports a framework. `.ci/run` installs them; without them, the
tests are skipped.
"""

import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.conftest import ASKED, BAD, DOWN, GOOD, Judges

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
LAYER = (
    "run",
    "--no-sync",
    "--offline",
    "--quiet",
    "--with-requirements",
    str(HERE / "requirements.txt"),
)


@pytest.fixture(scope="module")
def python():
    """Return the interpreter of our environment with the frameworks over it, if they are in uv's cache."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    # uv removes the layer when its command ends, which waits for the end of its input.
    command = [
        *(uv, *LAYER, "python", "-c"),
        "import sys; print(sys.executable, flush=True); sys.stdin.read()",
    ]
    with subprocess.Popen(
        command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as layer:
        assert layer.stdin
        assert layer.stdout
        if not (path := layer.stdout.readline().strip()):
            pytest.skip(
                "not installed: uv run --with-requirements tests/adapters/requirements.txt true"
            )
        yield path
        layer.stdin.close()


def used(python: str, name: str, judges: Judges, folder: Path) -> Any:
    """Run a script with the folders of the judges; return what it prints last, as JSON."""
    script = HERE / "scripts" / f"use_{name}.py"
    words = [*map(str, judges[:3]), judges.api_base, ASKED, GOOD, BAD, DOWN]
    litellm = find_spec("litellm")
    assert litellm.origin is not None
    tokens = (
        Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
    )  # Inspect would fetch them
    quiet = {
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "DEEPEVAL_DISABLE_DOTENV": "1",
        "TIKTOKEN_CACHE_DIR": str(tokens),
    }
    environment = {**os.environ, **quiet}
    command = [python, str(script), *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_inspect(python, judges, tmp_path):
    log = used(python, "inspect", judges, tmp_path)
    assert log["status"] == "success"
    values = [[score[0] for score in row.values()] for row in log["rows"]]
    assert values == [
        ["0.0", "2.0", "{'good': 0.0, 'bad': 1.0}"],
        ["1.0", "4.0", "{'good': 1.0, 'bad': 0.0}"],
        ["nan"] * 3,
    ]
    assert [score[1:3] for score in log["rows"][2].values()] == [["grader_failed", "down"]] * 3
    assert "is better: good" in log["rows"][1]["judge"][2]
    assert log["rows"][1]["judge"][3]["evalkit.trust"]
    # The mean of the two that have a verdict, and how many are counted and not.
    assert log["metrics"]["judge/mean"] == [0.5, 2, 1]
    assert log["metrics"]["judge1/mean"] == [3, 2, 1]
    assert log["metrics"]["good/mean"] == [0.5, 2, 1]


def test_deepeval(python, judges, tmp_path):
    result = used(python, "deepeval", judges, tmp_path)
    worse, better, missing = result["rows"]
    assert [data[:2] for data in worse.values()][:3] == [[0, False], [0.25, False], [0, False]]
    assert [data[:2] for data in better.values()][:3] == [[1, True], [0.75, True], [1, True]]
    assert [data[0] for data in missing.values()] == [None] * 4
    assert all("down" in data[2] for data in missing.values())
    assert "name the classes that pass" in better["no number"][2]
    assert "is better: good" in better["preferred"][3]
    assert result["measured"] == [1, True]


def test_pydantic_evals(python, judges, tmp_path):
    worse, better, missing = used(python, "pydantic_evals", judges, tmp_path)
    assert (worse["labels"]["preferred"][0], worse["scores"]["grade"][0]) == ("B", 2)
    assert (better["labels"]["preferred"][0], better["scores"]["grade"][0]) == ("A", 4)
    assert "why accuracy" in better["scores"]["grade"][1]
    assert (missing["labels"], missing["scores"]) == ({}, {})
    assert missing["failures"] == dict.fromkeys(("preferred", "grade"), "EvalkitError: down")
