"""Panels of judges whose votes are given: their configs, cases and judgments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalkit.config import RunConfig
from evalkit.core.types import Case, Completion, Judgment, Response, Usage

PAIR = (Response("a"), Response("b"))
MARGIN = {"A": 1.0, "TIE": 0.0, "B": -1.0}


def panel_of(
    votes: Sequence[Sequence[Any]],
    labels: Sequence[Any],
    mode: str = "pairwise",
    *,
    metadata: Sequence[dict[str, Any]] | None = None,
    costs: Sequence[float | None] | None = None,
    prompts: Sequence[int] | None = None,
    **settings: Any,
) -> tuple[RunConfig, list[Case], list[Judgment]]:
    """Return a panel's run: votes (judges, cases) for winners, classes or scores, `None` if missing."""
    classes = {"classes": {"A": "", "TIE": "", "B": ""}} if mode == "classes" else {}
    config = RunConfig(
        judge={
            "judges": [{"name": f"j{k}", "model": "m"} for k in range(len(votes))],
            **settings.pop("judge", {}),
        },
        criteria=[{"name": "quality"}],
        swap={"policy": "none"},
        mode={"name": "pairwise" if mode == "pairwise" else "pointwise"},
        rubric={**classes, **settings.pop("rubric", {})},
        scoring={"bootstrap": 300, **settings.pop("scoring", {})},
        **settings,
    )
    unit, cases, judgments = (0, 1) if mode == "pairwise" else (0,), [], []
    for n, label in enumerate(labels):
        alone = (
            Response(
                "a", **{"classes": {"class_name": label}, "scores": {"grade": label}}.get(mode, {})
            ),
        )
        responses, winner = (PAIR, label) if mode == "pairwise" else (alone, None)
        prompt = f"q{n}" if prompts is None else f"q{prompts[n]}"
        cases.append(
            Case(f"c{n}", prompt, responses, label=winner, metadata=metadata[n] if metadata else {})
        )
        for k, row in enumerate(votes):
            answer = (
                {"class_name": row[n]}
                if mode == "classes"
                else {"value": MARGIN.get(row[n], row[n])}
            )
            paid = Completion("", usage=Usage(1, 1), cost_usd=None if costs is None else costs[k])
            status = "failed" if row[n] is None else "ok"
            judgments.append(
                Judgment(f"c{n}", unit, unit, 0, f"j{k}", status, completion=paid, **answer)
            )
    return config, cases, judgments
