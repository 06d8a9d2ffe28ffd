"""The report of a run: findings in words, and a self-contained HTML page."""

from __future__ import annotations

from typing import Any, Final

from evalkit.core.notebook_tables import Shown
from evalkit.core.optional_features import load_feature

_NOTEBOOK: Final = "evalkit.report.notebook"
"""By name: only notebooks need it, and it loads the pages of sweeps and comparisons."""


def _html_of(shown: Any) -> str:
    html: str = load_feature(_NOTEBOOK, "a notebook").html_of(shown)
    return html


Shown.renderer = _html_of
