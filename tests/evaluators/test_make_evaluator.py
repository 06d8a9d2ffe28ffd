"""Evaluators are found by name: ours, another package's, or a class beside the user's conf."""

import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from evalkit.config import Criterion, JudgeConfig, ModeConfig, RunConfig, SwapConfig
from evalkit.core import plugins
from evalkit.core.errors import PluginError
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.pointwise import Pointwise

CODE = """
from pydantic import BaseModel

class Params(BaseModel, extra="forbid"):
    strength: int = 1

class Mine:
    Params = Params
    def __init__(self, config, prompts, params):
        self.config, self.prompts, self.params = config, prompts, params
    def plan(self, case): return []
    def read(self, request, completion): raise NotImplementedError

class Bare(Mine):
    Params = None
    def __init__(self, config, prompts): pass

class NotOne: ...
"""


def config(name: str, **params: Any) -> RunConfig:
    return RunConfig(
        judge=JudgeConfig(model="a/b"),
        criteria={"c": Criterion()},
        mode=ModeConfig(name=name, params=params),
        swap=SwapConfig(policy="none"),
    )


@pytest.fixture(autouse=True)
def _code_is_allowed(monkeypatch):
    monkeypatch.setenv("EVALKIT_ALLOW_CODE", "1")


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A module in the current folder, importable from nowhere else."""
    module = f"own_judging_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(CODE, "utf-8")
    (tmp_path / f"{module}_broken.py").write_text("1 / 0", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return module


def test_a_prompt_folder_is_passed_on(tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "pointwise.md.j2").write_text(
        "{{ original_prompt }} {{ response }}{% for c in criteria %}{{ c.name }}{% endfor %}",
        "utf-8",
    )
    evaluator = make_evaluator(config("pointwise"), prompt_folders=[tmp_path])
    assert isinstance(evaluator, Pointwise)
    assert (
        evaluator._prompts.render("pointwise", original_prompt="q", response="r", criteria=[])[0][
            "content"
        ]
        == "q r"
    )


def test_a_class_by_its_path_gets_its_own_settings(code):
    made: Any = make_evaluator(config(f"{code}.Mine", strength="3"))
    assert made.params.strength == 3
    bare: Any = make_evaluator(config(f"{code}:Bare"))
    assert type(bare.inner).__name__ == "Bare"
    with pytest.raises(PluginError, match="ModuleNotFoundError"):
        make_evaluator(config("no.such.Thing"))


def test_a_class_by_entry_point(code, monkeypatch):
    point = EntryPoint("mine", f"{code}:Mine", "evalkit.evaluators")
    monkeypatch.setattr(
        plugins, "_installed", lambda group, _: [point] if group == point.group else []
    )
    mine: Any = make_evaluator(config("mine"))
    assert type(mine.inner).__name__ == "Mine"
    with pytest.raises(PluginError, match="'mien'; did you mean 'mine'"):
        make_evaluator(config("mien"))


def test_two_packages_that_offer_one_name_are_refused(monkeypatch):
    points = [EntryPoint("mine", f"p{i}:Mine", "evalkit.evaluators") for i in range(2)]
    monkeypatch.setattr(
        plugins, "_installed", lambda group, _: points if group == "evalkit.evaluators" else ()
    )
    with pytest.raises(PluginError, match="register 'mine'"):
        make_evaluator(config("mine"))


@pytest.mark.parametrize(("name", "params", "said"), [
    ("pairwize", {}, "mode.name: there is no 'pairwize'; did you mean 'pairwise'"),
    ("no.such.Thing", {}, "'no.such:Thing' cannot be imported: ModuleNotFoundError"),
    ("CODE.Absent", {}, "cannot be imported: AttributeError"),
    ("CODE_broken.Mine", {}, "cannot be imported: ZeroDivisionError"),
    ("CODE.NotOne", {}, "does not implement the protocol of 'mode.name'; choose a class with"),
    ("CODE.CODE", {}, "cannot be imported"),
    ("json.dumps", {}, "does not implement"),
    ("CODE.Mine", {"strenth": 2}, "mode.params.strenth: "),
    ("CODE.Mine", {"strength": "x"}, "mode.params.strength: "),
    ("pairwise", {"x": 1}, "mode.params.x: 'pairwise' has no parameters"),
])  # fmt: skip
def test_what_cannot_be_used_is_said_in_one_line(code, name, params, said):
    with pytest.raises(PluginError) as caught:
        make_evaluator(config(name.replace("CODE", code), **params))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
