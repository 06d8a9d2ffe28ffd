"""The registry of modes: `module:class` of the evaluator by the value of `mode.name`."""

MODES = {
    "checklist": "evalkit.evaluators.checklist:Checklist",
    "listwise": "evalkit.evaluators.listwise:Listwise",
    "pairwise": "evalkit.evaluators.pairwise:Pairwise",
    "pointwise": "evalkit.evaluators.pointwise:Pointwise",
}
"""The evaluator of each mode; other packages register theirs in the entry-point group
`evalkit.evaluators`."""
MODES_OF_CLASSES = {**MODES, "pointwise": "evalkit.evaluators.pointwise:PointwiseClass"}
MODES_OF_REWARDS = {**MODES, "pointwise": "evalkit.evaluators.pointwise:Rewards"}
DECISIONS_OF_MODES = {
    "checklist": "evalkit.evaluators.decision_models:ItemDecisions",
    "pointwise": "evalkit.evaluators.decision_models:ScoreDecision",
    "pairwise": "evalkit.evaluators.decision_models:PairDecision",
}
DECISIONS_OF_CLASSES = {
    **DECISIONS_OF_MODES,
    "pointwise": "evalkit.evaluators.decision_models:ClassDecision",
}
