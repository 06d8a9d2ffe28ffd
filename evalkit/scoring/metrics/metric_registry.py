"""The registry of metrics: lists of the functions that compute them.

The parameters of a function name what it is computed from, such as `verdicts`, `passes` or
`classes` (see `run_metrics.RunValues`); a run that lacks one of them does not have its metrics. It
returns statistics, or statistics and tables. A new metric is a function in a module of this
package, its name in one of these lists if the function is new, and a row in catalog/metrics.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from evalkit.scoring.metrics.agreement import (
    agreement_statistics,
    confusion_statistics,
    pass_statistics,
)
from evalkit.scoring.metrics.biases import (
    identical_statistics,
    length_models,
    length_slopes,
    length_statistics,
    position_statistics,
    self_statistics,
)
from evalkit.scoring.metrics.calibration import (
    calibration_statistics,
    recalibration,
    reward_statistics,
)
from evalkit.scoring.metrics.checklists import checklist_statistics, evidence_statistics
from evalkit.scoring.metrics.claims import claim_statistics, class_claim_statistics
from evalkit.scoring.metrics.class_corrections import class_corrections
from evalkit.scoring.metrics.classes import (
    class_confusion,
    class_statistics,
    split_class_statistics,
)
from evalkit.scoring.metrics.copied_labels import copied_labels_metrics
from evalkit.scoring.metrics.corrections import mean_corrections
from evalkit.scoring.metrics.correlation import (
    correlation_statistics,
    within_statistics,
)
from evalkit.scoring.metrics.decisions import (
    class_decision_statistics,
    decision_statistics,
    item_decision_statistics,
    label_source_metrics,
    score_decision_statistics,
)
from evalkit.scoring.metrics.humans import (
    annotator_statistics,
    class_annotator_statistics,
)
from evalkit.scoring.metrics.noticeable_differences import ranking_results
from evalkit.scoring.metrics.panels import (
    cascade_statistics,
    class_panel_statistics,
    panel_statistics,
)
from evalkit.scoring.metrics.pictures import picture_metrics
from evalkit.scoring.metrics.rates import (
    cost_statistics,
    missing_statistics,
    overall_statistics,
    prompt_statistics,
    rule_statistics,
    score_statistics,
    tie_statistics,
    weight_statistics,
)
from evalkit.scoring.metrics.repeats import class_sample_statistics, sample_statistics
from evalkit.scoring.metrics.scale_agreement import scale_statistics
from evalkit.scoring.metrics.transitivity import conflict_statistics, cycle_results
from evalkit.scoring.metrics.turns import turn_statistics

Functions: TypeAlias = Sequence[Callable[..., Any]]

EACH: Final[Functions] = (
    tie_statistics,
    length_statistics,
    conflict_statistics,
    agreement_statistics,
    class_statistics,
    class_decision_statistics,
    checklist_statistics,
    evidence_statistics,
    item_decision_statistics,
    missing_statistics,
    prompt_statistics,
    decision_statistics,
    turn_statistics,
    position_statistics,
    pass_statistics,
    calibration_statistics,
    claim_statistics,
    class_claim_statistics,
    overall_statistics,
    rule_statistics,
    sample_statistics,
    class_sample_statistics,
    split_class_statistics,
    weight_statistics,
    score_statistics,
    reward_statistics,
    correlation_statistics,
    scale_statistics,
    label_source_metrics,
    copied_labels_metrics,
    score_decision_statistics,
    picture_metrics,
)
"""Of every judge and of a panel, in the order of a judge's table."""
CORRECTIONS: Final[Functions] = (mean_corrections, class_corrections)
"""Of a run as a whole, and of a judge of a panel if some of its answers have labels."""
MODELS: Final[Functions] = (
    length_models,
    confusion_statistics,
    class_confusion,
    self_statistics,
    identical_statistics,
    recalibration,
    within_statistics,
    length_slopes,
    annotator_statistics,
    class_annotator_statistics,
    cycle_results,
    ranking_results,
    *CORRECTIONS,
)
"""Of a run as a whole, where not only rates and means of verdicts are wanted."""
RUN: Final[Functions] = (
    panel_statistics,
    class_panel_statistics,
    cascade_statistics,
    cost_statistics,
)
"""Of a run as a whole."""
