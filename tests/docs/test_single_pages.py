"""What single pages claim: keys of data sets, images, the judge of a plug-in, public names, and the map of the code."""

import json
import re
import runpy
import shlex
import sys
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
import yaml

import evalkit
from evalkit.cli import main
from evalkit.cli.parser import COMMANDS
from evalkit.config import DatasetConfig
from evalkit.core.benchmark_discovery import own_benchmarks
from evalkit.interop.importer_discovery import importers
from tests.docs.test_pages import PAGES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "data.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS)
def test_a_described_data_set_can_be_asked_for(text):
    assert DatasetConfig.model_validate(yaml.safe_load(text)["dataset"]).join


def test_every_key_is_described():
    assert len(BLOCKS) == 4
    elsewhere = {"benchmark", "baseline"}
    assert {
        key
        for key in DatasetConfig.model_fields
        if f"`{key}" not in PAGE and f".{key}`" not in PAGE
    } == elsewhere


@pytest.mark.parametrize(
    ("programs", "fault"),
    [
        ({}, "Chromium is not installed"),
        (
            {"chromium": ""},
            "no font has Chinese characters: apt-get install fontconfig fonts-noto-cjk",
        ),
        ({"chromium": "", "fc-list": ""}, "no font has Chinese characters"),
    ],
)
def test_images_need_chromium_and_a_font_with_chinese(tmp_path, monkeypatch, programs, fault):
    tool = runpy.run_path(str(ROOT / "docs" / "generate_images.py"))
    for name, output in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{output}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=fault):
        tool["write_images"](tmp_path / "images")
    assert not (tmp_path / "images").exists()


def test_the_images_of_the_pages_are_those_that_are_made():
    tool = runpy.run_path(str(ROOT / "docs" / "generate_images.py"))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"images/([\w-]+)\.png", page.read_text("utf-8"))
    }
    assert (
        shown
        == {name for name, *_ in tool["RUNS"]}
        == {path.stem for path in (ROOT / "docs/images").glob("*.png")}
    )


def test_the_judge_of_the_plugin_page_judges(tmp_path, monkeypatch, capsys):
    for _, title, text in PAGES["guides/plugins.md"]:
        if title:
            (tmp_path / title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / title).write_text(text, "utf-8")
    package = tmp_path / "my-judge"
    ((group, points),) = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"][
        "entry-points"
    ].items()
    info = package / "my_judge-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-judge\nVersion: 0.1.0\n", "utf-8"
    )
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}", "utf-8")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delenv("EVALKIT_PLUGINS", raising=False)
    monkeypatch.chdir(tmp_path)
    command = "run judge=longer output=bracket dataset=sample"
    assert command in (Path(__file__).parents[2] / "docs" / "guides" / "plugins.md").read_text(
        "utf-8"
    )
    assert (
        main([*command.split(), "tracking=none", "scoring.bootstrap=50", "hydra.run.dir=out"]) == 0
    ), capsys.readouterr()
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text("utf-8"))["metrics"]
    assert metrics["length/longer_rate"]["value"] == 1.0
    sys.modules.pop("my_judge", None)


PYTHON_PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")


@pytest.mark.parametrize("name", evalkit.PUBLIC_MODULES)
def test_a_public_module_lists_its_names(name):
    module = import_module(name)
    assert all(hasattr(module, one) for one in module.__all__)
    defined = {
        one for one, value in vars(module).items() if getattr(value, "__module__", None) == name
    }
    assert {one for one in defined if not one.startswith("_")} <= {*module.__all__, "T"}


def test_the_page_has_the_public_names_and_no_others():
    assert tuple(re.findall(r"^::: ([\w.]+)$", PYTHON_PAGE, re.MULTILINE)) == (
        "evalkit",
        *evalkit.PUBLIC_MODULES,
    )
    [members] = re.findall(r"members: \[([^]]*)\]", PYTHON_PAGE)
    assert sorted(members.split(", ")) == sorted(evalkit.__all__)


def test_there_are_at_most_200_public_names_outside_scoring():
    modules = [name for name in evalkit.PUBLIC_MODULES if "scoring" not in name]
    names = {
        id(getattr(import_module(name), one)): one
        for name in modules
        for one in import_module(name).__all__
    }
    assert len(names) + len(evalkit.__all__) <= 200


def test_the_example_package_uses_public_modules_only():
    package = ROOT / "tests" / "plugin_package" / "src"
    imports = {
        found
        for path in package.rglob("*.py")
        for found in re.findall(r"from (evalkit[\w.]*) import", path.read_text())
    }
    assert imports - {"evalkit_example"} <= {"evalkit", *evalkit.PUBLIC_MODULES}


CONTRIBUTING = ROOT / "docs" / "contributing"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_layers_are_those_that_are_enforced():
    structure = (CONTRIBUTING / "structure.md").read_text("utf-8")
    [shown] = re.findall(r"^```\n(cli .*?)^```$", structure, re.MULTILINE | re.DOTALL)
    written = [layer.strip() for layer in shown.replace("\n", " ").split("→")]
    [enforced] = [
        c["layers"] for c in PROJECT["tool"]["importlinter"]["contracts"] if c["name"] == "Layers"
    ]
    assert written == enforced[1:]  # the first is __main__


DEPENDENCIES = {"": PROJECT["project"]["dependencies"]} | PROJECT["project"][
    "optional-dependencies"
]
SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD",
    "MIT License": "MIT",
}
"""What metadata says that is not an identifier of SPDX."""
ACCEPTED = {
    *("Apache-2.0", "BSD", "BSD-3-Clause", "MIT", "LGPL-3.0-only"),
    *("Apache-2.0 AND MIT", "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0"),
}
"""Licenses of what users install."""
FOR_DEVELOPERS = {
    *("BSD-2-Clause", "GPL-2.0-only", "GPL-3.0-or-later", "ISC", "MPL-2.0"),
}


def licenses_listed() -> dict[str, str]:
    table = (CONTRIBUTING / "dependencies.md").read_text("utf-8")
    rows = re.findall(r"^- (.+?): .+ \(([^()]+)\)$", table, re.MULTILINE)
    return {
        name.strip(): license_name
        for cell, license_name in rows
        for name in re.sub(r"\(.*?\)", "", cell).split(",")
    }


def stated_license(package: str) -> str:
    """Return the license that the metadata of an installed package states."""
    about = metadata(package)
    if about.get("License-Expression"):
        return about["License-Expression"]
    # Where the free text is the whole license, a classifier names it.
    named = [
        line.rsplit(" :: ", 1)[-1]
        for line in about.get_all("Classifier", [])
        if line.startswith("License :: ")
    ]
    words = about.get("License") or ""
    stated = SPDX.get(words, words)
    if stated in ACCEPTED | FOR_DEVELOPERS:
        return stated
    [classified] = named
    return SPDX.get(classified, classified)


@pytest.mark.parametrize(
    ("extra", "package"),
    [
        (extra, re.match(r"[\w-]+", needed)[0])
        for extra, packages in DEPENDENCIES.items()
        for needed in packages
    ],
)
def test_each_dependency_has_its_reason_and_an_accepted_license(extra, package):
    listed = licenses_listed()[package]
    assert listed in (ACCEPTED | FOR_DEVELOPERS if extra == "dev" else ACCEPTED)
    try:
        stated = stated_license(package)
    except PackageNotFoundError:
        pytest.skip("not installed")
    assert listed == stated


def test_each_file_names_the_same_version():
    version = PROJECT["project"]["version"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == version
    released = re.findall(r"^## \[([\d.]+)\] - (.+)$", changes, re.MULTILINE)
    assert released[0] == (version, cited["date-released"])


def test_readme_counts_what_there_is():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"| {len(own_benchmarks())} published benchmarks" in readme
    assert f"| {len(importers())} layouts of judgments" in readme


def test_the_commands_of_the_table_in_readme_are_read():
    table = (
        (ROOT / "README.md").read_text("utf-8").split("that others do not")[1].split("Measured")[0]
    )
    commands = re.findall(r"\| `evalkit (.+)` \|$", table, re.MULTILINE)
    assert len(commands) == table.count("\n| ") - 2  # without the head and its line
    for command in commands:
        name, *words = shlex.split(command)
        if words != ["--help"]:
            assert COMMANDS[name].parser().read(words)


def test_each_file_that_a_change_goes_into_exists():
    changes = (CONTRIBUTING / "changes.md").read_text("utf-8")
    table = changes.split("## Files of each change")[1].split("\n## ")[0]
    rows = re.findall(r"^- (.+?): (.+)$", table, re.MULTILINE)
    assert len(rows) >= 10
    for change, files in rows:
        named = [name for name in re.findall(r"`([\w./]+)`", files) if "/" in name]
        assert named, change
        for name in named:
            pattern = re.sub(r"\b[A-Z]+(?=[._/])|(?<=_)[A-Z]+\b", "*", name)
            assert any(any(root.glob(pattern)) for root in (ROOT / "evalkit", ROOT)), (change, name)
