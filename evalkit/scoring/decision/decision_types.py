"""A decision about a judge: its use, the reason, and what limits trust in it.

Its sentence is written by `report/findings/decisions.py`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from evalkit.core.types import Metric
from evalkit.core.values import JsonObject, frozen

Side: TypeAlias = Literal["above", "below", "unclear", "unknown"]
Use: TypeAlias = Literal[
    "none", "unknown", "order", "rates_corrected", "rates", "single"
]
Unit: TypeAlias = Literal["pair", "response", "item"]
Reason: TypeAlias = Literal[
    "missing",
    "split",
    "orders_disagree",
    "samples_disagree",
    "no_labels",
    "few_labels",
    "one_class",
    "picked",
    "label_source",
    "copied_labels",
    "units",
    "reversed",
    "constant",
    "chance",
    "hardly_better",
    "stratum",
    "stratum_unclear",
    "stratum_followed",
    "undecided",
    "leans",
    "lean_unclear",
    "moderate",
    "one_order",
    "substantial",
]

USES: Final[tuple[Use, ...]] = (
    "none",
    "unknown",
    "order",
    "rates_corrected",
    "rates",
    "single",
)
"""What a judge can be used for, weakest first."""


@frozen
class Limit:
    """Something that limits trust in a judge, with the metric that shows it.

    Attributes:
        kind: the kind of limit, a key of the texts.
        metric: the metric that shows it.
        subject: the class, system or side it is about, if any.
        rate: the rate by labels, if the limit is about one.
    """

    kind: str
    metric: Metric
    subject: str = ""
    rate: Metric | None = None


@frozen
class Where:
    """A slice of the data in which a judge cannot be used for what it can be used for elsewhere.

    Attributes:
        column: the column.
        value: its value, or the name of a bin.
        allows: what the judge can be used for in the slice.
        metric: what shows it: the agreement or a lean in the slice.
        shown_by: the name of that metric over all cases.
        start: where a bin begins; `None` if it is open.
        below: where it ends, which is not part of it; `None` if it is open.
        is_bin: whether it is a bin, of numbers or dates.
        computed: whether the value comes from the responses, not from a column of the data.
    """

    column: str
    value: str
    allows: Use
    metric: Metric
    shown_by: str
    start: float | str | None = None
    below: float | str | None = None
    is_bin: bool = False
    computed: bool = False

    def json(self) -> JsonObject:
        """Return the slice as a JSON value."""
        content: JsonObject = {
            "column": self.column,
            "slice": self.value,
            "allows": self.allows,
        }
        if self.is_bin:
            content |= {"from": self.start, "below": self.below}
        if self.computed:
            content["computed"] = True
        return {**content, **_numbers(self.metric), "metric": self.shown_by}


@frozen
class Decision:
    """What a judge can be used for, and why.

    Attributes:
        use: `single` verdicts, `rates` over many, `rates_corrected` by labels, `order` only,
            `none`, or `unknown`.
        reason: why.
        unit: what a verdict is about.
        metric: the metric that decided; `None` without labels.
        share: the share of correct verdicts, if there is one.
        limits: what limits trust, most important first.
        labels_needed: how many more labels would probably decide, if more labels can.
        labels_range: the least and the most that it could take, likewise.
        unlabeled: how many units of the data have no label, if that is known.
        clusters: the number of clusters of the labels, if they are few and new labels must be of
            others.
        possible: the strongest use that the intervals do not exclude.
        where: the slices in which the judge cannot be used for `use`.
        order: whether its scores put responses in the order of the labels; `None` if unknown. No
            other use implies it, and it implies none.
        right: the share of all labeled units whose verdict is right, if some have no verdict.
        wrong: the share of all labeled units whose verdict is wrong, likewise.
    """

    use: Use
    reason: Reason
    unit: Unit
    metric: Metric | None = None
    share: Metric | None = None
    limits: tuple[Limit, ...] = ()
    labels_needed: int | None = None
    labels_range: tuple[int, int] | None = None
    unlabeled: int | None = None
    clusters: int | None = None
    possible: Use = "single"
    where: tuple[Where, ...] = ()
    order: bool | None = None
    right: Metric | None = None
    wrong: Metric | None = None

    def allows(self, use: Use) -> bool:
        """Return whether the judge can be used for this, or for something that needs more."""
        if use == "order":
            return self.order is True
        return USES.index(self.use) >= USES.index(use)

    @property
    def trusted(self) -> bool:
        """Whether the judge can be used for anything."""
        return USES.index(self.use) > USES.index("unknown")

    def json(self) -> JsonObject:
        """Return the decision as a JSON value."""
        return {
            "use": self.use,
            "reason": self.reason,
            "unit": self.unit,
            "evidence": None if self.metric is None else _numbers(self.metric),
            "limits": [
                {"kind": limit.kind, "subject": limit.subject, **_numbers(limit.metric)}
                for limit in self.limits
            ],
            "labels_needed": self.labels_needed,
            "labels_range": self.labels_range and list(self.labels_range),
            "possible": self.possible,
            "where": [slice_.json() for slice_ in self.where],
            "order": self.order,
        }


def _numbers(metric: Metric) -> JsonObject:
    return {
        "metric": metric.name,
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "n": metric.n,
    }
