"""The page on a sweep's leaderboard, from what its folder says of the jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from evalkit.report import SweepFacts, render_sweep
from evalkit.report.rendering import language_of
from evalkit.runs import read_config, read_facts
from evalkit.runs.naming import simulated_judges
from evalkit.scoring.leaderboard import Leaderboard

_PAGE: Final = "report.html"


def sweep_page(folder: Path, board: Leaderboard) -> str:
    """Return the HTML page on a leaderboard of the runs in `folder`.

    Raises:
        ConfigError: if a run's file is missing or damaged.
    """
    jobs = [row.job for row in board.rows]
    manifests, costs = zip(*(read_facts(folder / job) for job in jobs), strict=True)
    started = [str(one["started"]) for one in manifests if one.get("started")]
    sweep: dict[str, Any] = next((one["sweep"] for one in manifests if one.get("sweep")), {})
    facts = SweepFacts(
        title=str(sweep.get("name") or folder.name),
        started=min(started, default=None),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        datasets={
            str(data.get("fingerprint") or ""): str(data.get("name") or "data")
            for data in (one.get("dataset") or {} for one in manifests)
        },
        pages=[job for job in jobs if (folder / job / _PAGE).is_file()],
        simulated=tuple(dict.fromkeys(name for one in manifests for name in simulated_judges(one))),
        language=language_of(read_config(folder / jobs[0])),
    )
    return render_sweep(board, facts)
