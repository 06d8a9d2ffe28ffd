"""Features are rooms: without their folders, the core judges, checks and scores as before."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    *("alignment", "audit", "benchmarks", "engine/batch", "engine/workers", "interop/importers"),
    "serving",
)
TABLE = "id,judge,human\n" + "".join(
    f"{row},{('pass', 'fail')[row % 3 == 0]},{('pass', 'fail')[row % 4 == 0]}\n"
    for row in range(24)
)
CORE = """
from evalkit.cli import main
study = ["run", "judge=simulated/good", "tracking=none", "hydra.run.dir=run"]
assert main(study) == 0
assert main(["score", "run", "scoring.confidence=0.9"]) == 0
assert main(["check", "table.csv", "--judge", "judge", "--label", "human"]) == 0
"""
WITH_ROOMS = {
    "alignment": "['align', 'run']",
    "audit": "['audit', *study[1:3], 'hydra.run.dir=audited']",
    "engine/batch": "[*study[:3], 'runner=batch', 'hydra.run.dir=batched']",
    "serving": "['serve', 'judge']",
}
"""A command that needs the room."""


OF_BENCHMARKS = [
    *("datasets/test_turns.py", "interop/test_export.py", "interop/test_missing_keys.py"),
    *("scoring/test_catalog.py", "scoring/test_custom_metrics.py", "scoring/test_note_texts.py"),
    *(f"interop/test_import_{name}.py" for name in ("as_published", "conservation", "generic")),
    *("report/test_page.py", "report/test_sentences.py"),
    "scoring/test_cascade.py::test_no_metric_of_a_benchmark_depends_on_withheld_pairs",
    "scoring/test_intervals.py::test_mt_bench_has_its_questions",
    *(f"golden/test_golden.py::test_a_golden_run_is_as_committed[{run}]"
      for run in ("audit_zh", "benchmark_helpsteer", "import_llmbar", "pairwise")),
]  # fmt: skip
OF_IMPORTERS = (
    *("conversation_logs", "exports", "import_as_published", "more_layouts", "more_logs"),
    "tools",
)
OF_LAYOUTS = (
    "forms_of_one_word_are_one_criterion",
    "labels_are_compared_with_the_grader_that_has_their_words",
    "lists_of_chosen_and_rejected_responses_are_pairs_by_position",
    "scores_by_which_responses_were_chosen_are_no_judge",
    "the_parts_of_a_grader_of_azure_are_one_judge",
    "two_graders_with_the_words_of_the_labels_are_a_question",
)
"""Tests of tables that are written by tools."""
NEED = {
    "audit": ["golden/test_golden.py::test_a_golden_run_is_as_committed[audit_zh]"],
    "benchmarks": OF_BENCHMARKS,
    "interop/importers": [
        *(f"interop/test_{name}.py" for name in OF_IMPORTERS),
        "interop/test_table_kinds.py::test_lists_in_fields_and_responses_are_argillas",
        *(f"interop/test_table_shapes.py::test_{name}" for name in OF_LAYOUTS),
        "scoring/test_note_texts.py",
    ],
    "serving": [
        "core/test_old_paths.py::test_an_old_path_has_the_names_of_the_new_modules"
        "[evalkit.adapters]",
    ],
}
"""Tests that use a room without importing it: by a command, or by the name of a format."""


def without(rooms, folder: Path) -> subprocess.CompletedProcess[str]:
    """Use a copy of the package without some of its folders."""
    for name in ("evalkit", "conf", "prompts", "experiments"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for room in rooms:
        shutil.rmtree(folder / "evalkit" / room)
    work = folder / "work"
    work.mkdir()
    (work / "table.csv").write_text(TABLE)
    refused = [f"assert main({WITH_ROOMS[room]}) == 1\n" for room in rooms if room in WITH_ROOMS]
    return subprocess.run(
        [sys.executable, "-c", CORE + "".join(refused)],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "rooms",
    [
        pytest.param(ROOMS, id="all"),
        *(pytest.param([room], id=room, marks=pytest.mark.thorough) for room in ROOMS),
    ],
)
def test_the_core_works_without_rooms_and_names_a_missing_one(tmp_path, rooms):
    done = without(rooms, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    refusals = [line for line in done.stderr.splitlines() if "this installation has no" in line]
    for room in WITH_ROOMS:
        module = "evalkit." + room.replace("/", ".")
        assert any(module in line for line in refusals) == (room in rooms)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("rooms", [ROOMS, *([room] for room in ROOMS)], ids=" ".join)
def test_the_rest_of_the_quick_tests_pass_without_rooms(tmp_path, rooms):
    """Without all of them, every test that needs none; without one, those that need another one."""
    copy = tmp_path / "evalkit"
    left_out = shutil.ignore_patterns("__pycache__", ".*", "node_modules", "outputs", "multirun")
    shutil.copytree(ROOT, copy, ignore=left_out)
    if (ROOT.parent / "shared").is_dir():
        (tmp_path / "shared").symlink_to(ROOT.parent / "shared")
    left_rooms = set(ROOMS) - set(rooms)
    unneeded = using(packages_of(rooms), copy)
    if left_rooms:
        needed = using(packages_of(left_rooms), copy)
        unneeded += [test for test in (copy / "tests").rglob("test_*.py") if test not in needed]
    for room in rooms:
        shutil.rmtree(copy / "evalkit" / room)
        shutil.rmtree(copy / "tests" / Path(room).name, ignore_errors=True)
    options = ["--quick", "--quiet", "-n", "2", "-p", "no:cacheprovider"]
    # Not removed: others import what is in them.
    options += [f"--ignore={module}" for module in unneeded]
    # It looks for what strings name, also in folders that are removed here.
    names = (
        "core/test_old_paths.py::test_strings_name_modules_that_exist_and_none_of_a_higher_layer"
    )
    options.append(f"--deselect=tests/{names}")
    needing = [f"--deselect=tests/{test}" for room in rooms for test in NEED.get(room, ())]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *needing],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert " passed" in done.stdout


def packages_of(rooms: Iterable[str]) -> set[str]:
    """The packages of rooms, and those of their tests."""
    return {
        package
        for room in rooms
        for package in (f"evalkit.{room.replace('/', '.')}", f"tests.{Path(room).name}")
    }


def using(packages: set[str], root: Path) -> list[Path]:
    """Return the modules of tests that import a package, also by way of others."""
    files = {
        ".".join(file.relative_to(root).with_suffix("").parts): file
        for file in (root / "tests").rglob("*.py")
    }
    imports = {name: imported(file) for name, file in files.items()}
    every_user: set[str] = set()
    targets = packages
    while targets:
        users = {name for name, names in imports.items() if not targets.isdisjoint(names)}
        targets = users - every_user
        every_user |= users
    return [files[name] for name in every_user]


def imported(file: Path) -> set[str]:
    """Return the modules that a file imports, each with the packages that it is in."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    packages = set()
    for name in names:
        parts = name.split(".")
        packages |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return packages
