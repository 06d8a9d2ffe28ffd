"""Branch coverage of `evalkit.scoring` by its own fast tests, measured while all tests run once.

What other tests execute does not count, and takes no longer.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from hypothesis import seed

ROOT = Path(__file__).resolve().parents[2]
MEASURED = "evalkit.scoring"
FOLDERS = ("tests/scoring/", "tests/gating/")


def _counts(item: pytest.Item) -> bool:
    return item.nodeid.startswith(FOLDERS) and item.get_closest_marker("slow") is None


def _import_all() -> None:
    """Import every module of `MEASURED`, of which each has lines that only its import executes."""
    package = importlib.import_module(MEASURED)
    for module in pkgutil.walk_packages(package.__path__, f"{MEASURED}."):
        importlib.import_module(module.name)


def _forget_what_others_computed() -> None:
    """Empty the caches of `MEASURED`: what a test finds there, it does not execute."""
    modules = [module for name, module in sys.modules.items() if name.startswith(MEASURED)]
    for module in modules:
        for value in vars(module).values():
            if callable(clear := getattr(value, "cache_clear", None)):
                clear()
    catalog = sys.modules.get(f"{MEASURED}.catalog")
    if catalog is not None:
        kept = vars(catalog.CATALOG)
        for name in [name for name in kept if name in vars(type(catalog.CATALOG))]:
            del kept[name]


class ScoringCoverage:
    """Measures while `MEASURED` is imported, and while fast tests of `FOLDERS` run; fails below 100%."""

    def __init__(self, config: pytest.Config) -> None:
        folder = ROOT / ".pytest_cache" / "coverage"
        folder.mkdir(parents=True, exist_ok=True)
        self._coverage = Coverage(
            data_file=str(folder / "scoring"),
            data_suffix=True,
            branch=True,
            source=[MEASURED],
            config_file=str(ROOT / "pyproject.toml"),
        )
        # Processes that tests start do not count.
        self._coverage.set_option("run:patch", [])
        # The process that gives tests to others, or one that gets none of these, measures nothing.
        unmeasured = ["module-not-imported", "module-not-measured", "no-data-collected"]
        self._coverage.set_option("run:disable_warnings", unmeasured)
        self._is_worker = hasattr(config, "workerinput")
        self._gives_tests_to_others = not self._is_worker and bool(config.option.tx)
        self._is_measuring = False
        self._report = ""
        if not self._is_worker:
            for left_before in folder.glob("scoring*"):
                left_before.unlink()

    def measure_imports(self) -> None:
        """Import what is measured; while all else is imported and collected, that would take seconds."""
        if self._gives_tests_to_others:
            return
        self.measure(True)
        _import_all()
        self.measure(False)

    def measure(self, wanted: bool) -> None:
        """Measure from here on, or no longer."""
        if wanted and not self._is_measuring:
            _forget_what_others_computed()
            self._coverage.start()
        if not wanted and self._is_measuring:
            self._coverage.stop()
        self._is_measuring = wanted

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Draw the same examples in each run: some branches are only in those of properties."""
        if item.get_closest_marker("hypothesis") and _counts(item):
            seed(0)(item.function)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self.measure(_counts(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        result = yield
        self.measure(False)
        self._coverage.save()
        if not self._is_worker:
            self._require_all(session)
        return result

    def _require_all(self, session: pytest.Session) -> None:
        self._coverage.combine()
        report = io.StringIO()
        percent = self._coverage.report(file=report, show_missing=True, skip_covered=True)
        self._report = report.getvalue()
        if percent < 100:
            session.testsfailed += 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section(f"branches of {MEASURED} that its own tests execute")
        terminalreporter.write(self._report)
