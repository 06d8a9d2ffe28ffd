"""The example package, really built and installed, used from the command line."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Commands
from tests.support.fake_provider import Reply, said

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.slow
CASES = "".join(
    f'[[case]]\nid = "c{k}"\nprompt = "Question {k}?"\nresponse_a = "good {k}"\nresponse_b = "bad {k}"\nlabel = "A"\n'
    for k in range(4)
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which the package was installed."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not there")
    # A copy, so that building leaves nothing beside the sources.
    source, site = (tmp_path_factory.mktemp("package") / name for name in ("source", "site"))
    shutil.copytree(TESTS / "plugin_package", source)
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return site


def points(body: dict[str, Any]) -> Reply:
    """A judge that finds the good response, and says so in whichever form it is asked to."""
    text = "\n".join(message["content"] for message in body["messages"])
    first = text.index("good") < text.index("bad")
    if "first, second or neither" in text:
        return said("first" if first else "second")
    return said(f"-> {'A' if first else 'B'}")


def test_one_of_each_kind_from_the_command_line(site, provider, tmp_path):
    provider.rule = points
    (tmp_path / "cases.toml").write_text(CASES, "utf-8")
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    here = {"PYTHONPATH": path, "OPENAI_API_KEY": "any"}
    judge = [
        "judge=openai_compatible",
        "judge.model=openai/fake",
        f"judge.api_base={provider.api_base}",
    ]
    judge.append("judge.transport=direct")
    data = ["dataset=file", "dataset.path=cases.toml", "+preset=quick"]

    duel = ["run", *judge, *data, "mode=duel", "hydra.run.dir=duel"]
    french = ["prompt.language=fr", "output.format=arrow", "hydra.run.dir=french"]
    done = Commands(tmp_path, here).several(["plugins"], duel, ["run", *judge, *data, *french])
    assert [command.status for command in done] == [0, 0, 0], done
    listed, judged, _ = (command.out for command in done)
    assert listed.count("evalkit-example 0.3.0") == 12
    assert str(site) in listed
    assert "ledger: run 1" in judged
    metrics = json.loads((tmp_path / "duel" / "metrics.json").read_text("utf-8"))["metrics"]
    assert metrics["agreement/accuracy"]["value"] == 1.0
    manifest = json.loads((tmp_path / "duel" / "manifest.json").read_text("utf-8"))
    assert list(manifest["prompt_hashes"]) == ["en/duel.md.j2"]
    assert manifest["tracked"] == {"tracker": "ledger", "id": "1"}
    assert any(
        "Which is the kinder of the two?" in m["content"] for m in provider.requests[0]["messages"]
    )

    metrics = json.loads((tmp_path / "french" / "metrics.json").read_text("utf-8"))["metrics"]
    assert (metrics["agreement/accuracy"]["value"], metrics["position/consistency"]["value"]) == (
        1.0,
        1.0,
    )
    assert provider.requests[-1]["messages"][0]["content"].startswith("Tu compares")
    assert len((tmp_path / "quick.txt").read_text("utf-8").splitlines()) == 2
