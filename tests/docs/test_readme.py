"""Every block of README.md is run, in the order in which it stands, against a server that answers as OpenAI does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_provider import Provider, Reply, said, serving

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
IN_CI = [text for kind, text in BLOCKS if kind == "bash" and "pip install uv" in text]
HERE = [(kind, text) for kind, text in BLOCKS if text not in IN_CI]
LOCALHOST = "http://localhost:8000/v1"


def instance(schema: dict[str, Any], index: int = 0) -> Any:
    """Return something that a schema allows; the index-th of a list's items takes the index-th value of an enum."""
    if "enum" in schema:
        return schema["enum"][index % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        return {name: instance(part, index) for name, part in schema["properties"].items()}
    if kind == "array":
        return [instance(schema["items"], i) for i in range(schema.get("minItems", 1))]
    return schema.get("minimum", 1) if kind in ("integer", "number") else "It says what is true."


def answer(body: dict[str, Any]) -> Reply:
    asked = body.get("response_format", {}).get("json_schema")
    return said(json.dumps(instance(asked["schema"])) if asked else "An answer of its own.")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with serving() as server:
        server.rule = answer
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, with the data files that README speaks of."""
    made = tmp_path_factory.mktemp("reader")
    pair = {"prompt": "Name a prime.", "response_a": "7", "response_b": "9 is a prime.", "label": "A"}
    (made / "pairs.jsonl").write_text("".join(json.dumps({"id": str(i), **pair}) + "\n" for i in range(3)))
    (made / "answers.csv").write_text(
        "question,ours,theirs,better\nName a prime.,7,9,ours\nName another.,4,11,theirs\n"
    )
    known = {"pair_id": "p1", "source": "livebench-math", "question": "2 + 2?", "response_A": "4", "response_B": "5"}
    (made / "judgebench.jsonl").write_text(json.dumps({**known, "label": "A>B"}) + "\n")
    passes = [f"{n},Name a prime.,7,9,ours,{order}" for n in (1, 2) for order in ("ab", "ba")]
    judged = ["id,prompt,response_a,response_b,better,shown_first", *passes]
    (made / "judged.csv").write_text("\n".join(judged) + "\n")
    (made / "labels.csv").write_text("id,annotator,label\n1,ann,A\n1,bob,A\n2,ann,B\n")
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "text"), HERE, ids=[text.split("\n")[0][:60] for _, text in HERE])
def test_a_block_of_the_readme_runs(kind: str, text: str, folder: Path, provider: Provider) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OPENAI_BASE_URL": provider.api_base,
        "OPENAI_API_KEY": "a-key",
        "EVALKIT_STORE": str(folder / "store.sqlite"),
        "PYTHONWARNINGS": "default",
    }
    text = text.replace("OPENAI_API_KEY=...", "OPENAI_API_KEY=a-key").replace(LOCALHOST, provider.api_base)
    command = ["bash", "-euc", text] if kind == "bash" else [sys.executable, "-c", text]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_the_two_commands_are_the_ones_that_ci_runs() -> None:
    assert IN_CI == ["pip install uv && uv run evalkit run\n", "pip install uv && uv run pytest\n"]
    steps = (ROOT / ".ci" / "run").read_text("utf-8")
    for command in IN_CI:
        assert command.strip() in steps.replace("pip install --quiet uv", "pip install uv")


def test_every_kind_of_block_is_known() -> None:
    assert {kind for kind, _ in BLOCKS} == {"bash", "python"}
    assert len(HERE) >= 11
