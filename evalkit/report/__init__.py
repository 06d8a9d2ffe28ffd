"""The report of a run: findings in words, and a self-contained HTML page."""

from __future__ import annotations

from typing import Any

from evalkit.core.shown import Shown


def _html_of(shown: Any) -> str:
    # Only notebooks need it, and it loads the pages of sweeps and comparisons.
    from evalkit.report.notebook import html_of

    return html_of(shown)


Shown.renderer = _html_of
