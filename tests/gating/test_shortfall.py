"""What kept a run from its answers, at the border of what is allowed."""

from __future__ import annotations

import pytest

from evalkit.config import RunConfig
from evalkit.gating import shortfall
from evalkit.results import Calls, RunResult


@pytest.mark.parametrize(("failed", "said"), [(2, None), (3, "30.0% of the requests failed, more than")])
def test_as_many_failures_as_are_allowed_are_not_too_many(failed: int, said: str | None) -> None:
    config = RunConfig(judge={"model": "m"}, criteria=[{"name": "q"}], runner={"max_failure_rate": 0.2})
    result = RunResult(None, config, {}, (), (), (), {}, calls=Calls(10, 0, 10, 0, failed))
    found = shortfall(config, result)
    assert found is None if said is None else found is not None and found.startswith(said)
