import re
import tomllib
from pathlib import Path

from evalkit.benchmark_discovery import own_benchmarks
from evalkit.interop.importer_discovery import importers

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_layers_are_those_that_are_enforced():
    [shown] = re.findall(r"^```\n(cli .*?)^```$", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    written = [layer.strip() for layer in shown.replace("\n", " ").split("→")]
    [enforced] = [c["layers"] for c in PROJECT["tool"]["importlinter"]["contracts"] if c["name"] == "Layers"]
    assert written == enforced[1:]  # the first is __main__


def test_each_dependency_has_its_reason():
    table = CONTRIBUTING.split("## Why each dependency")[1].split("##")[0]
    cells = [re.sub(r"\(.*?\)", "", cell) for cell in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)]
    told = {name.strip() for cell in cells for name in cell.split(",")}
    extras = [each for extra, each in PROJECT["project"]["optional-dependencies"].items() if extra != "dev"]
    named = [re.match(r"[\w-]+", one)[0] for each in [PROJECT["project"]["dependencies"], *extras] for one in each]
    assert not set(named) - told - {"evalkit-judge"}


def test_readme_counts_what_there_is():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"| Published benchmarks | {len(own_benchmarks())}, each" in readme
    assert f"| Existing judgments | {len(importers())} layouts" in readme


def test_each_file_that_a_change_goes_into_exists():
    table = CONTRIBUTING.split("## Where changes go")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)[2:]  # without its head
    assert len(rows) >= 10
    for change, files in rows:
        named = [name for name in re.findall(r"`([\w./]+)`", files) if "/" in name]
        assert named, change
        for name in named:
            pattern = re.sub(r"\b[A-Z]+(?=[._/])|(?<=_)[A-Z]+\b", "*", name)
            assert any(any(root.glob(pattern)) for root in (ROOT / "evalkit", ROOT)), (change, name)
