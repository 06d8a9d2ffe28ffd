"""Whether a run has the answers that it asked for: without them, no rule on its metrics says anything."""

from __future__ import annotations

from evalkit.config import RunConfig
from evalkit.types import RunResult


def shortfall(config: RunConfig, result: RunResult) -> str | None:
    """Return in a line what kept a run from its answers, none where it has enough of them."""
    highest = config.runner.max_failure_rate
    failed = result.calls.failed / result.calls.planned if result.calls.planned else 0.0
    if stopped := result.manifest.get("stopped"):
        again = "under a higher cap " if "budget" in stopped else ""
        return f"{stopped}; what there is was scored and written, and running it again {again}asks for the rest only"
    if failed > highest:
        return (
            f"{failed:.1%} of the requests failed, more than runner.max_failure_rate allows ({highest:.1%}); "
            "the results are written"
        )
    return None
