"""The example package as it is when installed, without installing it: its code and its metadata on the path."""

import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "plugin_package"


@pytest.fixture(autouse=True)
def _code_is_allowed(monkeypatch):
    """Let the tests name the package's classes by their dotted paths."""
    monkeypatch.setenv("EVALKIT_ALLOW_CODE", "1")


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The folder of the example package, which can be imported and has told its entry points."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    info = tmp_path / "site" / f"evalkit_example-{project['version']}.dist-info"
    info.mkdir(parents=True)
    header = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(header, "utf-8")
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    monkeypatch.delenv("EVALKIT_PLUGINS", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield PACKAGE / "src" / "evalkit_example"
    for name in [name for name in sys.modules if name.partition(".")[0] == "evalkit_example"]:
        del sys.modules[name]
