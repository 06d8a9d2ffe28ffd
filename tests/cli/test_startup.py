"""What is imported when: the heavy packages only by what needs them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import BRIEF, call_main, fake, pair, prefers
from tests.support.fake_provider import serving

pytestmark = pytest.mark.slow
HEAVY = (
    *("litellm", "mlflow", "hydra", "omegaconf", "openai", "aiohttp", "httpx", "numpy", "pandas"),
    *("pydantic", "scipy", "sklearn", "rich", "jinja2", "xllamacpp", "psycopg", "ray", "submitit"),
)
SAY = "; import sys, json; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
MAIN = "from evalkit.cli import main; assert main({words!r}) == 0"


def imported(code: str, folder: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code + SAY],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return {*json.loads(done.stderr.splitlines()[-1])} & {*HEAVY}


def test_importing_evalkit_and_help_are_light(tmp_path):
    helps = "; ".join(f"assert main({words}) == 0" for words in (["--help"], [], ["--version"]))
    assert imported(f"import evalkit; from evalkit.cli import main; {helps}", tmp_path) == set()
    assert imported("import evalkit; evalkit.RunConfig", tmp_path) == {"pydantic"}


def test_a_stored_run_imports_neither_litellm_nor_an_http_client(
    tmp_path, empty_store, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    (tmp_path / "cases.jsonl").write_text(
        "".join(json.dumps(pair(number)) + "\n" for number in range(3))
    )
    with serving() as provider:
        provider.rule = prefers()
        words = [
            *("run", *fake(provider), "dataset=file", "dataset.path=cases.jsonl", "output=bracket"),
            *BRIEF,
        ]
        call_main(capfd, *words)
    assert {"litellm", "openai"} <= {*sys.modules}
    # The server is gone and no key is set: nothing is needed but the store.
    monkeypatch.delenv("OPENAI_API_KEY")
    tracked = [
        *words[:-2],
        "scoring.bootstrap=50",
        "tracking.uri=sqlite:///mlflow.db",
        "hydra.run.dir=run",
    ]
    again = imported(MAIN.format(words=tracked), tmp_path)
    assert again & {"litellm", "openai", "aiohttp", "httpx", "mlflow", "scipy"} == set()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert len(manifest["mlflow_run_id"]) == 32  # recorded all the same, beside
    assert manifest["timing"]["sending"] == 0.0
    assert manifest["timing"]["judging"] > 0.0


def test_planning_and_a_mistake_import_no_client(tmp_path):
    plan = MAIN.format(words=["plan", "judge=gpt-4o", "dataset.limit=2"])
    both = imported(f"{plan}; assert main(['run', 'judge=gpt4']) == 1", tmp_path)
    assert both & {"litellm", "openai", "aiohttp", "httpx", "mlflow"} == set()


def test_checking_a_table_imports_only_what_its_report_uses(tmp_path):
    rows = ["id,question,answer,human,gpt"]
    for number in range(200):
        human = "pass" if number % 3 else "fail"
        judge = human if number % 10 else "fail"
        rows.append(f"t{number},what is {number}?,it is {number},{human},{judge}")
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")
    found = imported(MAIN.format(words=["check", "table.csv", "--output", "out"]), tmp_path)
    assert found <= {"jinja2", "numpy", "pydantic"}
