"""What `evalkit run` reaches by its imports: a feature that it does not need is imported by name."""

import ast
from pathlib import Path

import pytest

from tests.acceptance.test_rooms import ROOMS

ROOT = Path(__file__).parents[2]
START = ("evalkit", "evalkit.cli", "evalkit.cli.run")
ROOMS_BY_NAME = tuple(room.replace("/", ".") for room in ROOMS)
"""Not all of them are there where one has been removed."""
BY_NAME = (
    *("interop", "labels", "testing", "cli.sweep_jobs", "cli.leaderboard", "workflows.sweeps"),
    *("scoring.leaderboard", "scoring.drift", "scoring.looks", "scoring.twins"),
    *("report.notebook", "report.comparison", "report.cases_page", "report.sweep_page"),
    *("judges.litellm_transport", "judges.simulated_transport", "judges.smollm2_transport"),
    *("evaluators.pairwise", "store.postgres", "tracking.mlflow_tracker", "tracking.traces"),
)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in (ROOT / "evalkit").rglob("*.py")}


def imported(name: str) -> set[str]:
    """Return the modules that a module imports, also within functions, with their packages; not
    what is only for types.
    """
    names: set[str] = set()
    parts: list[ast.AST] = [ast.parse(MODULES[name].read_text("utf-8"))]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
            continue
        parts += ast.iter_child_nodes(part)
        if isinstance(part, ast.Import):
            names |= {alias.name for alias in part.names}
        elif isinstance(part, ast.ImportFrom):
            names |= {f"{part.module}.{alias.name}" for alias in part.names}
    packages = set()
    for module in names:
        words = module.split(".")
        packages |= {".".join(words[:end]) for end in range(1, len(words) + 1)}
    return packages & MODULES.keys()


@pytest.fixture(scope="module")
def reached() -> set[str]:
    modules = set(START)
    todo = list(START)
    while todo:
        new = imported(todo.pop()) - modules
        modules |= new
        todo += new
    return modules


def test_features_are_named_as_their_modules():
    assert {f"evalkit.{feature}" for feature in BY_NAME} <= MODULES.keys()


@pytest.mark.parametrize("feature", [*ROOMS_BY_NAME, *BY_NAME])
def test_a_run_reaches_a_feature_only_by_name(reached, feature):
    prefix = f"evalkit.{feature}"
    assert not [module for module in reached if f"{module}.".startswith(f"{prefix}.")]


def test_a_run_reaches_what_it_needs(reached):
    needed = ("workflows.run", "scoring.pipeline", "report.page", "judges.factory", "store")
    assert {f"evalkit.{name}" for name in needed} <= reached
