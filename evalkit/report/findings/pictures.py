"""Finding on pictures that the judge did not see."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.translation import gettext
from evalkit.report.findings.finding import Finding, finding
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import PICTURES

_NAMED = 5


def picture_findings(result: RunResult) -> Iterator[Finding]:
    """Yield how many cases have pictures that the judge did not see, with the first of them."""
    omitted = result.manifest.get("images_omitted") or {}
    metric = result.metrics.get(PICTURES)
    if metric is None or not omitted:
        return
    named = [str(case)[:60] for case in omitted["cases"][:_NAMED]]
    ellipsis = ", …" if omitted["count"] > len(named) else ""
    text = gettext(
        "The judge did not see the pictures of {count:,} of {n:,} cases"
        " (dataset.images=omit): {cases}.",
        count=omitted["count"],
        cases=", ".join(named) + ellipsis,
    )
    yield finding(metric, "bad", text)
