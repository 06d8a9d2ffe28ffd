"""Installed from the wheel, in an empty folder, far from the checkout."""

import json
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Commands, rows

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]


def uv(*words: str | Path) -> None:
    done = subprocess.run(
        ["uv", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--wheel", "--out-dir", folder)
    [built] = folder.glob("evalkit_judge-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """An interpreter with nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("venv")
    overrides = folder / "overrides.txt"
    overrides.write_text("\n".join(SETTINGS["override-dependencies"]))
    uv("venv", "--quiet", folder / "venv")
    interpreter = folder / "venv" / "bin" / "python"
    newest = ("--exclude-newer", SETTINGS["exclude-newer"])
    uv(
        "pip",
        "install",
        "--quiet",
        "--python",
        interpreter,
        "--override",
        overrides,
        *newest,
        f"{wheel}[local]",
    )
    return interpreter


@pytest.fixture
def installed(python, tmp_path, monkeypatch):
    for name in ("PYTHONPATH", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "empty"
    folder.mkdir()
    return Commands(folder, python=str(python))


def files_under(name: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / name).rglob("*")
        if path.suffix in (".yaml", ".j2", ".jsonl")
    }


def test_the_wheel_holds_what_a_run_reads_and_no_more(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in ("conf", "prompts", "experiments"):
        assert {f"evalkit/{name}" for name in files_under(folder)} <= names
    assert files_under("evalkit/datasets/samples") <= names
    assert {
        "evalkit/py.typed",
        "evalkit/report/assets/report.html.j2",
        "evalkit/report/assets/report.css",
        "evalkit/report/assets/report.js",
        "evalkit/report/assets/switches.js",
    } <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    others = {name for name in names if not name.startswith("evalkit/") and "dist-info" not in name}
    assert others == {"hydra_plugins/evalkit_ray.py"}  # where Hydra looks for launchers
    parts = [name.split("/") for name in names]
    assert not [
        p
        for p in parts
        if p[-1].startswith(("test_", "conftest")) or {"tests", "__pycache__"} & set(p)
    ]


def test_it_is_the_wheel_that_runs(installed):
    where = [installed.python, "-c", "import evalkit; print(evalkit.__file__)"]
    found = subprocess.run(
        where, cwd=installed.folder, env=installed.env(), capture_output=True, text=True, check=True
    )
    assert "site-packages" in found.stdout
    assert Path(found.stdout.strip()).is_relative_to(Path(installed.python).parents[1])


def test_from_an_empty_folder(installed):
    printed = installed("run", "--cfg", "job").out
    assert "model: local/smollm2-135m-instruct" in printed
    assert "path: evalkit:quick.jsonl" in printed
    assert len(rows(installed("plan", "judge_sweep").out)) == 5
    assert installed.files() == set()


def test_a_project(installed):
    made = installed("init", "demo").out
    assert "Next: cd demo && evalkit run experiments/first_look.yaml" in made
    demo = Commands(installed.folder / "demo", python=installed.python)
    assert {"conf/judge/mine.yaml", "experiments/first_look.yaml"} <= demo.files()
    demo("init", ".", "--copy", "en/pairwise")
    assert "prompts/en/pairwise.md.j2" in demo.files()
    for folder, words in (
        (demo.folder, ["dataset=mine"]),
        (demo.folder / "experiments", ["first_look"]),
    ):
        planned = Commands(folder, python=demo.python)("plan", *words, "judge=mine").out
        assert rows(planned) == {"the run": [48, 0, 48]}
    kept = demo.files()
    demo.write("conf/judge/mine.yaml", "model: openai/other")
    assert "0 files created" in installed("init", "demo").out
    assert demo.files() == kept
    assert (demo.folder / "conf/judge/mine.yaml").read_text("utf-8") == "model: openai/other\n"
    # The project's own prompt comes before the shipped one.
    template = demo.folder / "prompts" / "en" / "pairwise.md.j2"
    template.write_text(template.read_text("utf-8") + "\n{{ oops }}\n", "utf-8")
    assert "prompts/en/pairwise.md.j2" in demo("run", "judge=gpt-4o", status=1).line()


@pytest.mark.local
@pytest.mark.thorough
def test_the_embedded_judge_from_the_wheel(installed):
    words = ("run", "dataset.limit=1", "swap=none", "hydra.run.dir=run")
    done = installed(*words, timeout=500)
    assert "report: run/report.html" in done.out
    assert installed.metrics("run")["calls"]["sent"] == 1
    assert (installed.folder / "mlflow.db").is_file()
    assert json.loads((installed.folder / "run" / "manifest.json").read_text("utf-8"))[
        "mlflow_run_id"
    ]
    installed(*words, "tracking=none")
    assert installed.metrics("run")["calls"]["sent"] == 0
