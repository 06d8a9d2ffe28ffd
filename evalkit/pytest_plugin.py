"""A judge's quality as a test: the fixture `evalkit_run` and the marker `evalkit`, for pytest.

Nothing of evalkit that takes time to import is imported before a test asks for a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evalkit.config import RunConfig
    from evalkit.types import RunResult

MARKER, FIXTURE = "evalkit", "evalkit_run"
UNTRACKED = "tracking.enabled=false"
_TOLD = (
    "evalkit(*words, gate=None): judge as `evalkit run *words` does before the test, which fails if its gate does; "
    "words are overrides, before them maybe a study, and a gate is a mapping as under `gate:` in a config"
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a marker or a call asks for: a study, overrides, and rules."""

    study: str | None = None
    overrides: tuple[str, ...] = ()
    gate: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, *words: str, gate: Mapping[str, Any] | None = None) -> _Asked:
        named = words[:1] if words and "=" not in words[0] and not words[0].startswith("~") else ()
        return cls(named[0] if named else None, words[len(named) :], dict(gate or {}))

    def then(self, more: _Asked) -> _Asked:
        """Return this with more asked for: what comes later counts."""
        return _Asked(more.study or self.study, (*self.overrides, *more.overrides), {**self.gate, **more.gate})


@dataclass
class _Runs:
    """The runs of a session by the hashes of their configs, each judged once."""

    folder: Callable[[], Path]
    done: dict[str, RunResult] = field(default_factory=dict)

    def held(self, asked: _Asked) -> RunResult:
        """Return the run that is asked for; the test fails if its gate does, or if it cannot be had."""
        from evalkit.errors import EvalkitError

        try:
            config = _config(asked)
            found: RunResult | str = self._run(config)
        except EvalkitError as error:
            found = f"evalkit: {error}"
        fault = found if isinstance(found, str) else _fault(config, found)
        if isinstance(found, str) or fault:
            pytest.fail(str(fault), pytrace=False)
        return found

    def _run(self, config: RunConfig) -> RunResult:
        from dataclasses import replace

        from evalkit.api import judge_and_score, track
        from evalkit.gating import apply_gate, check_rules

        key = config.hash()
        if key not in self.done:
            self.done[key] = judge_and_score(config, self.folder())
            self.done[key] = track(config, self.done[key])
            return self.done[key]
        # The rules are no part of the hash: the same run may be held against others.
        result = replace(self.done[key], config=config)
        check_rules(config, result)
        return apply_gate(config, result)[0]


def _fault(config: RunConfig, result: RunResult) -> str | None:
    """Return why a test of this run fails, none if it does not."""
    from evalkit.gating import GATE, gate_lines, shortfall, title_of

    if lacking := shortfall(config, result):
        return f"evalkit: {lacking} ({result.folder})"
    gate = result.manifest.get(GATE)
    if not gate or gate["state"] != "failed":
        return None
    return "\n".join((f"{title_of(result.manifest)} ({result.folder})", *gate_lines(gate)))


def _config(asked: _Asked) -> RunConfig:
    from pydantic import ValidationError

    from evalkit.config import RunConfig
    from evalkit.config.validation import config_error
    from evalkit.hydra_app import DEFAULT, load_config

    tracked = any(word.lstrip("+~").startswith("tracking") for word in asked.overrides)
    config = load_config(asked.study or DEFAULT, [*([] if tracked else [UNTRACKED]), *asked.overrides])
    if not asked.gate:
        return config
    values = config.dump()
    try:
        return RunConfig.model_validate({**values, "gate": {**values["gate"], **asked.gate}})
    except ValidationError as error:
        raise config_error(error, ()) from None


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the marker."""
    config.addinivalue_line("markers", _TOLD)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a marked test have the fixture, whether or not it asks for it."""
    if isinstance(item, pytest.Function) and item.get_closest_marker(MARKER) and FIXTURE not in item.fixturenames:
        item.fixturenames.append(FIXTURE)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Hold the run of a marked test against its gate, before what the test does itself."""
    if item.get_closest_marker(MARKER) and isinstance(item, pytest.Function):
        hold: Any = item.funcargs[FIXTURE]
        hold()


@pytest.fixture(scope="session")
def _evalkit_runs(tmp_path_factory: pytest.TempPathFactory) -> _Runs:
    return _Runs(lambda: tmp_path_factory.mktemp("evalkit"))


@pytest.fixture
def evalkit_run(request: pytest.FixtureRequest, _evalkit_runs: _Runs) -> Callable[..., RunResult]:
    """A function that judges as `evalkit run` does with the same words, and returns the run.

    `evalkit_run("judge=gpt-4o-mini", "dataset.limit=50", gate={"agreement/kappa": {"low": ">= 0.6"}})`: overrides,
    before them maybe a study, and maybe rules. In a test with the marker `evalkit` they come after the marker's. The
    test fails if the gate does. Runs are judged once a session, in a temporary folder, and recorded nowhere unless an
    override of `tracking` says so.
    """
    # The closest comes first: what is said of a function comes after what is said of its class.
    asked = _Asked()
    for marker in reversed([*request.node.iter_markers(MARKER)]):
        asked = asked.then(_Asked.of(*marker.args, **marker.kwargs))

    def run(*words: str, gate: Mapping[str, Any] | None = None) -> RunResult:
        return _evalkit_runs.held(asked.then(_Asked.of(*words, gate=gate)))

    return run
