"""The numbers that decide about a judge, and where they come from."""

from __future__ import annotations

from typing import Final

FLOOR: Final = 0.2
"""Agreement beyond chance that a useful judge has."""
SUBSTANTIAL: Final = 0.6
"""Agreement beyond chance that is enough for single verdicts: from here on it is "substantial"
(Landis and Koch 1977, table 2)."""
MARGIN: Final = 0.05
"""The largest difference between a rate by verdicts and by labels that needs no correction."""
MARGIN_OF_RATE: Final = 0.25
"""The same as a share of the rate itself, if that is less: a rate of 2% that is off by 5 points is
of no use."""
CLOSE_ENOUGH: Final = 0.8
"""The share of scores within one level, or a tenth of the scale, of the label that single scores
need."""
SLOPES: Final = (0.8, 1.25)
"""The slope of scores on labels, and the ratio of their spreads, of a judge that grades: scores
that grow by less than four fifths, or spread by more than five fourths, are on another scale."""
TOP_HEAVY: Final = 0.2
"""A judge has a ceiling if it gives the highest score so much more often than the labels do."""
FOLLOWS: Final = 0.8
"""Scores follow length from this rank correlation on, by the lower end of its interval."""
SHRINKS: Final = 0.8
"""Differences between systems shrink to less than four fifths of themselves."""
FEW: Final = 10
"""Fewer units show nothing: no sentence takes a side because of them, whatever their interval
is."""
ALWAYS: Final = 0.9
"""A judge takes the longer response nearly always from this share on, by the lower end of its
interval."""
EXACT: Final = 0.95
"""It does so with hardly an exception from this share on. Below it, the exceptions could be what it
knows, so agreement within pairs of the same longer side decides."""
CHOSEN: Final = 0.1
"""Labels are no random sample if a verdict is this much more, or less, frequent among
the units that have one, by the whole interval.
"""
CONSTANT_AFTER: Final = 30
"""So many equal verdicts show that a judge gives no others, and so many verdicts without one
difference from the labels raise the question where these come from."""
SMALL_ORDER_EFFECT: Final = 0.1
"""A judge that was shown pairs in random order hardly prefers a position if the response shown
first wins half of them, give or take this share."""
NEGLIGIBLE_SHIFT: Final = 0.2
"""Missing answers are ignored if they could move the estimate by at most this share of what its
sampling error could."""
MANY_MISSING: Final = 0.5
SOME_MISSING: Final = 0.05
SOME_SPLIT: Final = 0.05
SOME_TIES: Final = 0.2
SOME_ABSTAINED: Final = 0.1
FEW_LABELS: Final = 30
