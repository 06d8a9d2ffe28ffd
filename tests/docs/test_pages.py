"""Every command of README.md and the documentation is run, page by page, against a server that answers as OpenAI."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalkit.cli import main
from tests.support.fake_provider import Reply, said, serving

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PAGES = {
    str(path.relative_to(DOCS)): BLOCK.findall(path.read_text("utf-8"))
    for path in sorted(DOCS.rglob("*.md"))
    if path.parts[-2] != "decisions"
}
PAGES["../README.md"] = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
IN_CI = [text for *_, text in PAGES["../README.md"] if "pip install uv" in text]
RUN = {
    text: name
    for name, blocks in reversed(PAGES.items())
    if (text := "".join(text for kind, _, text in blocks if kind in ("bash", "python")))
}
"""The pages that run something; of a page and a translation that run the same, the first."""
STATUS = ' || echo "exit status $?"'
LOCALHOST = "http://localhost:8000/v1"
QUICKLY, UNRECORDED = ("scoring.bootstrap=50",), ("tracking=none",)
SMALL_AUDIT = ("dataset.limit=6",)
RECORDED = "guides/mlflow.md"
"""The page whose runs MLflow records."""
DEMO = "evalkit demo"
"""Several pages have it; tests/cli/test_demo.py runs it, and it leaves nothing that a page reads."""
SHELL = re.compile(r"\|\||&&|[<>|;$`]")
PAIRS = "".join(
    f'{{"id": "{number}", "prompt": "Name a prime.", "response_a": "7", "response_b": "9", "label": "{label}"}}\n'
    for number, label in enumerate("ABA", start=1)
)


LABELS = "id,annotator,label\n1,ann,A\n1,bob,A\n2,ann,B\n"


def instance(schema: dict[str, Any], index: int = 0) -> Any:
    """Return something that a schema allows; the index-th of a list's items takes the index-th value of an enum."""
    if "enum" in schema:
        return schema["enum"][index % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        return {name: instance(part, index) for name, part in schema["properties"].items()}
    if kind == "array":
        return [instance(schema["items"], i) for i in range(schema.get("minItems", 1))]
    if (
        "maximum" in schema
        and kind == "integer"
        and schema["minimum"] <= index + 1 <= schema["maximum"]
    ):
        return index + 1
    return schema.get("minimum", 1) if kind in ("integer", "number") else "It says what is true."


def answer(body: dict[str, Any]) -> Reply:
    asked = body.get("response_format", {}).get("json_schema")
    return said(json.dumps(instance(asked["schema"])) if asked else "An answer of its own.")


@pytest.fixture(scope="module")
def provider():
    with serving() as server:
        server.rule = answer
        yield server


def run_line(line: str, *words: str) -> None:
    """Run one command: evalkit in this process, with more words if it asks judges, and anything else in a shell."""
    if line.startswith("export "):
        name, _, value = line.removeprefix("export ").partition("=")
        os.environ[name] = "a-key-for-tests" if value == "..." else value
    elif line == DEMO:
        return
    elif line.startswith("evalkit ") and not SHELL.search(
        re.sub(r"'[^']*'|\"[^\"]*\"", "", line.removesuffix(STATUS))
    ):
        command = shlex.split(line.removesuffix(STATUS))[1:]
        if command[0] == "audit":
            command += SMALL_AUDIT
        status = main([*command, *words] if command[0] in ("run", "audit") else command)
        assert status == 0 or (status != 1 and line.endswith(STATUS)), line  # 1: a mistake
    else:
        folder = Path(sys.executable).parent
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", line],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path},
        )
        assert done.returncode == 0, line + "\n" + done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:::mlflow")  # its own, at its import and of pandas
@pytest.mark.parametrize("page", RUN.values())
def test_the_commands_of_a_page_run(page, tmp_path, provider, monkeypatch, empty_store):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", provider.api_base)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # MLflow imports LiteLLM too
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # a page may run pytest itself
    Path("pairs.jsonl").write_text(PAIRS)
    Path("labels.csv").write_text(LABELS)
    for _, title, text in PAGES[page]:
        if title:
            Path(title).parent.mkdir(parents=True, exist_ok=True)
            Path(title).write_text(text, "utf-8")
    for kind, title, text in PAGES[page]:
        if kind == "bash" and text not in IN_CI:
            for line in text.replace("\\\n", "").replace(LOCALHOST, provider.api_base).splitlines():
                run_line(line, *QUICKLY, *(() if page == RECORDED else UNRECORDED))
        elif kind == "python" and not title:
            exec(compile(text, page, "exec"), {"__name__": "__main__"})


def test_every_kind_of_block_is_known():
    kinds = {kind for blocks in PAGES.values() for kind, *_ in blocks}
    # `py` and `ts` need another framework or a running server; tests/adapters runs the same.
    assert kinds <= {"bash", "python", "py", "ts", "yaml", "toml", "json", "csv", "text", "console"}
    # A console block is shown and not run: it installs, opens a page, calls a provider, or needs
    # another model or data.
    console = [text for blocks in PAGES.values() for kind, _, text in blocks if kind == "console"]
    marks = r"pip install|evalkit ui|--page|curl https|batch read|parallel |=batch|postgresql://|dataset=mine|--register"
    assert all(re.search(marks, text) for text in console)


def test_the_two_commands_are_the_ones_that_ci_runs():
    assert IN_CI == ["pip install uv && uv run evalkit run\n", "pip install uv && uv run pytest\n"]
    steps = (ROOT / ".ci" / "run").read_text("utf-8")
    for command in IN_CI:
        assert command.strip() in steps.replace("pip install --quiet uv", "pip install uv")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 180


def test_every_page_is_in_the_navigation():
    written = {name for name in PAGES if name != "../README.md"}
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert written <= set(re.findall(r"[\w/-]+\.md", text))
    assert yaml.safe_load(text)["use_directory_urls"] is False


@pytest.mark.slow
def test_the_site_builds_and_the_tutorial_runs(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "start" / "first-judge.html").is_file()
    tutorial = (tmp_path / "site" / "tutorial.html").read_text("utf-8")
    assert tutorial.count("<svg") >= 2
    assert "No difference found" in tutorial
