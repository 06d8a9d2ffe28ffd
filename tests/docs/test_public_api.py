"""The public names: each module that plug-ins import lists its own, the page on the Python API shows them."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import evalkit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")


@pytest.mark.parametrize("name", evalkit.PUBLIC_MODULES)
def test_a_public_module_lists_its_names(name):
    module = import_module(name)
    assert all(hasattr(module, one) for one in module.__all__)
    defined = {one for one, value in vars(module).items() if getattr(value, "__module__", None) == name}
    assert {one for one in defined if not one.startswith("_")} <= {*module.__all__, "T"}


def test_the_page_has_the_public_names_and_no_others():
    assert tuple(re.findall(r"^::: ([\w.]+)$", PAGE, re.MULTILINE)) == ("evalkit", *evalkit.PUBLIC_MODULES)
    [members] = re.findall(r"members: \[([^]]*)\]", PAGE)
    assert sorted(members.split(", ")) == sorted(evalkit.__all__)


def test_there_are_at_most_200_public_names_outside_scoring():
    modules = [name for name in evalkit.PUBLIC_MODULES if "scoring" not in name]
    names = {id(getattr(import_module(name), one)): one for name in modules for one in import_module(name).__all__}
    assert len(names) + len(evalkit.__all__) <= 200


def test_the_example_package_uses_public_modules_only():
    package = ROOT / "tests" / "plugin_package" / "src"
    imports = {
        found
        for path in package.rglob("*.py")
        for found in re.findall(r"from (evalkit[\w.]*) import", path.read_text())
    }
    assert imports - {"evalkit_example"} <= {"evalkit", *evalkit.PUBLIC_MODULES}
