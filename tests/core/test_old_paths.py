"""Import paths of version 0.2 work, with a warning; strings name modules that exist, and none of a
higher layer.
"""

import ast
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from evalkit.core import plugins
from evalkit.old_paths import NEW_PATHS

PROJECT = Path(__file__).parents[2]
SOURCES = sorted((PROJECT / "evalkit").rglob("*.py"))


@pytest.mark.parametrize("old", NEW_PATHS)
def test_an_old_path_has_the_names_of_the_new_modules(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved: import evalkit"):
        old_module = import_module(old)
    for new in NEW_PATHS[old]:
        new_module = import_module(new)
        public = [name for name in vars(new_module) if not name.startswith("_")]
        names = getattr(new_module, "__all__", public)
        assert all(getattr(old_module, name) is getattr(new_module, name) for name in names)
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        old_module.nosuch  # noqa: B018


def test_modules_below_an_old_path_moved_with_it():
    with pytest.warns(DeprecationWarning, match="has moved: import evalkit") as warned:
        old_module = import_module("evalkit.hydra_app.criteria")
    assert "import evalkit.compose.criteria" in str(warned[-1].message)
    assert old_module.__doc__ == import_module("evalkit.compose.criteria").__doc__
    with pytest.raises(ModuleNotFoundError, match=r"evalkit\.nosuch"):
        import_module("evalkit.nosuch")


def test_no_module_uses_an_old_path():
    old = re.compile(rf"\b({'|'.join(map(re.escape, NEW_PATHS))})\b(?! has moved)")
    sources = [path for path in SOURCES if path.name != "old_paths.py"]
    # Names of loggers are no imports.
    texts = {path: path.read_text("utf-8").replace('getLogger("evalkit.', "") for path in sources}
    assert not {str(path) for path, text in texts.items() if old.search(text)}


def test_strings_name_modules_that_exist_and_none_of_a_higher_layer():
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["name"] == "Layers"
    )
    floors = {
        room.strip(): len(layers) - index
        for index, layer in enumerate(layers)
        for room in layer.split("|")
    }
    groups = {value for value in vars(plugins).values() if isinstance(value, str)}
    upward = []
    unknown = []
    for path in SOURCES:
        room = path.relative_to(PROJECT / "evalkit").parts[0].removesuffix(".py")
        if room in ("__init__", "old_paths"):
            continue
        text = path.read_text("utf-8")
        if not re.search(r"""["']evalkit\.""", text) and not any(group in text for group in groups):
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            module = re.fullmatch(r"evalkit\.([a-z_]+)(\.[a-z0-9_.]+)?(:\w+)?", node.value)
            if node.value in groups:  # entry points, whose names are like those of packages
                continue
            named = node.value.partition(":")[0].replace(".", "/")
            # A module, a package, or the name of something in one.
            targets = (f"{named}.py", named, f"{named.rpartition('/')[0]}.py")
            if (
                module
                and module[1] in floors
                and not any((PROJECT / target).exists() for target in targets)
            ):
                unknown.append((str(path), node.value))
            if module and floors.get(module[1], 0) > floors[room]:
                upward.append((str(path), node.value))
    assert not upward
    assert not unknown
