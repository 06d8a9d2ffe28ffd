"""How many cases have pictures that the judge did not see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalkit.core.images import lacking_images
from evalkit.core.types import Case, Metric
from evalkit.scoring.decision import PICTURES


def picture_metrics(cases: Sequence[Case]) -> Iterator[Metric]:
    """Yield `pictures/omitted`, the share of cases that lack their pictures, if there are some."""
    count = len(lacking_images(cases))
    if count:
        yield Metric(PICTURES, count / len(cases), n=len(cases))
