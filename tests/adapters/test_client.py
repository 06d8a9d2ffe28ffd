"""The documented TypeScript client of `evalkit serve`: its types are generated, and its answers parsed by zod."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.adapters.conftest import ASKED, BAD, GOOD
from tests.support.serving import served

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
"""What `npm install` in tests/adapters installs; .ci/run does it, where there is npm."""


def command(*words: str | Path, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(
    not (MODULES / ".bin" / "tsc").exists() or shutil.which("node") is None,
    reason="not installed: npm install --prefix tests/adapters",
)
@pytest.mark.parametrize(
    "tool", [pytest.param("pairwise_compare", marks=pytest.mark.thorough), "direct_score"]
)
def test_a_generated_client_gets_answers_of_the_schemas(judges, tmp_path, tool):
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    shutil.copy(HERE / "scripts" / f"{tool}.ts", tmp_path / "client.ts")
    judge = judges.pairs if tool == "pairwise_compare" else judges.scores
    with served(judge, "--api-base", judges.api_base) as server:
        command(
            "openapi-typescript", f"{server.url}/openapi.json", "-o", "judge.d.ts", folder=tmp_path
        )
        options = (
            "--strict --skipLibCheck --target es2022 --module es2022 --moduleResolution bundler"
        )
        command("tsc", *options.split(), "client.ts", folder=tmp_path)
        answer = json.loads(
            command("node", "client.js", server.url, ASKED, GOOD, BAD, folder=tmp_path)
        )
    assert answer["success"] is True
    if tool == "pairwise_compare":
        assert (answer["winner"], answer["positionConsistency"]["consistent"]) == ("A", True)
    else:
        assert answer["weightedScore"] == 4
