"""Test a judge's quality with pytest: the fixture `evalkit_run` and the marker `evalkit`.

evalkit's slow imports happen only when a test requests a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalkit.core.values import Json, frozen

if TYPE_CHECKING:
    from evalkit.config import RunConfig
    from evalkit.runs.results import RunResult

MARKER, FIXTURE = "evalkit", "evalkit_run"
UNTRACKED = "tracking.enabled=false"
_DESCRIPTION = (
    "evalkit(*words, gate=None): before the test, judge like `evalkit run *words`; the test fails"
    " if the gate fails. The words are an optional study and overrides; a gate is a mapping as"
    " under `gate:` in a config"
)


@frozen
class _RunSpec:
    """The run that a marker or a call requests: a study, overrides, and rules."""

    study: str | None = None
    overrides: tuple[str, ...] = ()
    gate: Json = field(default_factory=dict)

    @classmethod
    def of(cls, *words: str, gate: Json | None = None) -> _RunSpec:
        # Only the first word can be a study; an override has `=`, or `~` if it deletes.
        if words and "=" not in words[0] and not words[0].startswith("~"):
            named = words[:1]
        else:
            named = ()
        return cls(named[0] if named else None, words[len(named) :], dict(gate or {}))

    def then(self, additions: _RunSpec) -> _RunSpec:
        """Return this with additions, which take precedence."""
        return _RunSpec(
            additions.study or self.study,
            (*self.overrides, *additions.overrides),
            {**self.gate, **additions.gate},
        )


@dataclass
class _Runs:
    """The runs of a session by the hashes of their configs; each is judged once."""

    folder: Callable[[], Path]
    done: dict[str, RunResult] = field(default_factory=dict)

    def check(self, spec: _RunSpec) -> RunResult:
        """Return the requested run; fail the test if its gate fails or it cannot be run."""
        from evalkit.core.errors import EvalkitError

        try:
            config = _config_of(spec)
            result = self._run_once(config)
        except EvalkitError as error:
            message = f"evalkit: {error}"
            # Not by `pytest.fail`, which would print the handled error, too.
            raise pytest.fail.Exception(message, pytrace=False) from None
        fault = _fault(config, result)
        if fault:
            pytest.fail(fault, pytrace=False)
        return result

    def _run_once(self, config: RunConfig) -> RunResult:
        """Return the run of a config with its gate applied; equal configs share one run."""
        from dataclasses import replace

        from evalkit.workflows.finishing import track
        from evalkit.workflows.gating import apply_gate, check_rules
        from evalkit.workflows.run import judge_and_score

        # Tests that ask for the same run share it, so it is paid for once.
        key = config.hash()
        if key not in self.done:
            self.done[key] = judge_and_score(config, self.folder())
            self.done[key] = track(config, self.done[key])
            return self.done[key]
        # The rules are not part of the hash: one run may be checked against several gates.
        result = replace(self.done[key], config=config)
        check_rules(config, result)
        return apply_gate(config, result)[0]


def _fault(config: RunConfig, result: RunResult) -> str | None:
    """Return why a test of this run fails; `None` if it passes."""
    from evalkit.workflows.gating import GATE, gate_lines, shortfall, title_of

    if lacking := shortfall(config, result):
        return f"evalkit: {lacking} ({result.folder})"
    gate = result.manifest.get(GATE)
    if not gate or gate["state"] != "failed":
        return None
    return "\n".join(
        (f"{title_of(result.manifest)} ({result.folder})", *gate_lines(gate))
    )


def _config_of(spec: _RunSpec) -> RunConfig:
    """Return the config of a test: its study, with the test's overrides and rules.

    Raises:
        ConfigError: if it is invalid.
    """
    from pydantic import ValidationError

    from evalkit.compose import DEFAULT, load_config
    from evalkit.config import RunConfig
    from evalkit.config.problems import config_error

    # Tests are not tracked unless they ask for it.
    tracked = any(word.lstrip("+~").startswith("tracking") for word in spec.overrides)
    config = load_config(
        spec.study or DEFAULT, [*([] if tracked else [UNTRACKED]), *spec.overrides]
    )
    if not spec.gate:
        return config
    values = config.dump()
    try:
        return RunConfig.model_validate(
            # A test's rules are added to those of the study, and replace those of the same key.
            {**values, "gate": {**values["gate"], **spec.gate}}
        )
    except ValidationError as error:
        raise config_error(error, ()) from None


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _DESCRIPTION)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the fixture to a marked test that does not request it."""
    if (
        isinstance(item, pytest.Function)
        and item.get_closest_marker(MARKER)
        and FIXTURE not in item.fixturenames
    ):
        item.fixturenames.append(FIXTURE)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Check the run of a marked test against its gate, before the test's own code."""
    if item.get_closest_marker(MARKER) and isinstance(item, pytest.Function):
        check: Any = item.funcargs[FIXTURE]
        check()


@pytest.fixture(scope="session")
def _evalkit_runs(tmp_path_factory: pytest.TempPathFactory) -> _Runs:
    return _Runs(lambda: tmp_path_factory.mktemp("evalkit"))


@pytest.fixture
def evalkit_run(
    request: pytest.FixtureRequest, _evalkit_runs: _Runs
) -> Callable[..., RunResult]:
    """Return a function that judges like `evalkit run` with the same words, and returns the run.

    `evalkit_run("judge=gpt-4o-mini",
    "dataset.limit=50", gate={"agreement/kappa": {"low": ">=
    0.6"}})`: an optional
    study, overrides, and optional rules. In a test with the marker `evalkit` they are added to
    those of the marker. The test fails if the gate fails. Each run is judged once per session, in a
    temporary folder, and is not tracked unless an override of `tracking` enables it.
    """
    # The closest marker comes first; a marker on a function takes precedence over one on its class.
    spec = _RunSpec()
    for marker in reversed([*request.node.iter_markers(MARKER)]):
        # From the farthest to the closest, so that the closest is added last and wins.
        spec = spec.then(_RunSpec.of(*marker.args, **marker.kwargs))

    def run(*words: str, gate: Json | None = None) -> RunResult:
        return _evalkit_runs.check(spec.then(_RunSpec.of(*words, gate=gate)))

    return run
