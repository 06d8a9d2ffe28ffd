"""Metrics of checklists: scores, rates of met items, and agreement with annotators by item."""

from __future__ import annotations

from typing import Final

from evalkit.scoring.catalog.spec import CHECKLISTS, MetricSpec

LABELS = "labels by item"

CHECKLIST_ROWS: Final = (
    MetricSpec(
        "checklist/met_rate",
        "Items met",
        "Share of the checklist items met or not met that are met, after their prerequisites.",
        headline=True,
        modes=CHECKLISTS,
    ),
    MetricSpec(
        "checklist/met_rate/tag/{tag}",
        "Items met: {tag}",
        "Share of the items with this tag that are met; the 50 most frequent tags.",
        modes=CHECKLISTS,
        needs="tags",
    ),
    MetricSpec(
        "checklist/met_rate/item/{item}",
        "Item met: {item}",
        "Share of the responses for which this item is met; the 50 most frequent items that several cases have.",
        modes=CHECKLISTS,
        needs="items that several cases have",
    ),
    MetricSpec(
        "checklist/required_rate",
        "All required items met",
        "Share of responses that fulfill every required item, or every item if none is required.",
        headline=True,
        modes=CHECKLISTS,
    ),
    MetricSpec(
        "checklist/cannot_assess",
        "Items that the judge cannot assess",
        "Share of the judge's answers that are `cannot_assess`.",
        better="lower",
        headline=True,
        hidden_at_zero=True,
        modes=CHECKLISTS,
    ),
    MetricSpec(
        "checklist/missing",
        "Items without an answer",
        "Share of the items to which the judge gave no readable answer, or samples without a majority.",
        better="lower",
        headline=True,
        hidden_at_zero=True,
        modes=CHECKLISTS,
    ),
    MetricSpec(
        "checklist/accuracy",
        "Agreement with annotators on items",
        "Share of labeled items, both labeled and judged as met or not met, with the same answer.",
        better="higher",
        headline=True,
        modes=CHECKLISTS,
        needs=LABELS,
    ),
    MetricSpec(
        "checklist/kappa",
        "Cohen's kappa on items",
        "Cohen's kappa between the judge's answers to items and the annotators'.",
        "as agreement/kappa, with two classes",
        unit="coefficient",
        low=-1.0,
        better="higher",
        chance=0.0,
        headline=True,
        source="Cohen 1960, Educ. Psychol. Meas. 20, 37-46, eq. 1",
        modes=CHECKLISTS,
        needs=LABELS,
    ),
    MetricSpec(
        "checklist/tpr",
        "Met items found",
        "Share of the items that annotators labeled as met that the judge calls met.",
        better="higher",
        modes=CHECKLISTS,
        needs=LABELS,
    ),
    MetricSpec(
        "checklist/tnr",
        "Unmet items found",
        "Share of the items that annotators labeled as not met that the judge calls not met.",
        better="higher",
        modes=CHECKLISTS,
        needs=LABELS,
    ),
    MetricSpec(
        "checklist/halo",
        "Halo of asking together",
        "How much more often an item's answer equals the majority of the response's other items when all items are "
        "asked in one request than when each is asked alone.",
        "share of items asked together with the answer of most other items asked alone - the same share asked alone",
        unit="difference",
        low=-1.0,
        chance=0.0,
        source="Thorndike 1920, J. Appl. Psychol. 4, 25-29",
        modes=CHECKLISTS,
        scope="comparison",
    ),
)
