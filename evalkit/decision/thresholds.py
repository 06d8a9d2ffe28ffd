"""The numbers that decide about a judge, and where they come from."""

from __future__ import annotations

from typing import Final

FLOOR: Final = 0.2
"""Agreement beyond chance that a useful judge has."""
SUBSTANTIAL: Final = (
    0.6  # Landis and Koch (1977), table 2: from here on agreement is "substantial"
)
"""Agreement beyond chance that is enough for single verdicts."""
MARGIN: Final = 0.1
"""The largest difference between a rate by verdicts and by labels that needs no correction."""
FEW: Final = 10
"""Fewer units show nothing: no sentence takes a side because of them, whatever their interval
is."""
ALWAYS: Final = 0.9
"""A judge takes the longer response nearly always from this share on, by the lower end of its
interval."""
CONSTANT_AFTER: Final = 30
"""So many equal scores show that a judge gives no others."""


MANY_MISSING: Final = 0.5
SOME_MISSING: Final = 0.05
SOME_TIES: Final = 0.2
SOME_ABSTAINED: Final = 0.1
FEW_LABELS: Final = 30
