"""Whether a run has the answers that it asked for: without them, no rule on its metrics says anything."""

from __future__ import annotations

from collections.abc import Mapping

from evalkit.config import RunConfig
from evalkit.scoring.answers import KINDS, READABLE
from evalkit.types import Metric, RunResult


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
    return unusable(config, result.metrics)


def unusable(config: RunConfig, metrics: Mapping[str, Metric]) -> str | None:
    """Return in a line that too many answers of a run are missing, or `None` if enough are usable."""
    shares = {
        kind: metrics[f"missing/{kind}"].value or 0.0 for kind in KINDS[:READABLE] if f"missing/{kind}" in metrics
    }
    highest = config.runner.max_unusable_rate
    if (share := sum(shares.values())) <= highest:
        return None
    parts = ", ".join(f"{value:.1%} {name}" for name, value in shares.items() if value)
    return (
        f"{share:.1%} of the answers are unusable ({parts}), more than runner.max_unusable_rate allows "
        f"({highest:.1%}); the results are written"
    )
