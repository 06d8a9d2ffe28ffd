"""Metrics of classes: rates, precision, recall and F1 by class, and rates corrected by labels."""

from __future__ import annotations

from typing import Final

from evalkit.scoring.catalog.spec import CLASSES, MetricSpec

JEFFREYS: Final = "resamples with half a cluster that is right and half that is wrong for each class"
"""Kind of interval."""
POSITIVE: Final = "a positive class"
_PREDICTION_POWERED = (
    "Angelopoulos et al. 2023, arXiv 2301.09633; Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453, section 6"
)

CLASS_ROWS: Final = (
    MetricSpec(
        "class/{class}/rate",
        "Class {class}",
        "Share of the answers that name a class whose class is this one; abstentions are left out.",
        headline=True,
        modes=CLASSES,
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/{class}/precision",
        "{class}: precision",
        "Share of labeled responses that the judge gave this class whose label is this class.",
        better="higher",
        modes=CLASSES,
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/{class}/recall",
        "{class}: recall",
        "Share of responses labeled with this class, and given any class, that the judge gave this class.",
        better="higher",
        modes=CLASSES,
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/{class}/f1",
        "{class}: F1 score",
        "Harmonic mean of precision and recall of this class.",
        "2 · hits / (2 · hits + false alarms + misses)",
        better="higher",
        modes=CLASSES,
        source="van Rijsbergen 1979, Information Retrieval, ch. 7",
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/{class}/youden_j",
        "{class}: Youden's J",
        "How well the judge separates this class from the others: 0 for a judge that ignores the responses.",
        "recall of the class + share of other labels that are not given it - 1",
        unit="coefficient",
        low=-1.0,
        better="higher",
        chance=0.0,
        modes=CLASSES,
        source="Youden 1950, Cancer 3, 32-35",
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/{class}/ece",
        "{class}: calibration error (ECE)",
        "Calibration error of the probability of this class, as a prediction that the label is this class.",
        "as calibration/ece",
        better="lower",
        modes=CLASSES,
        source="Guo et al. 2017, arXiv 1706.04599, eq. 3",
        needs="log-probabilities",
        interval="inverted test, corrected for the bias of small bins",
    ),
    MetricSpec(
        "class/{class}/brier",
        "{class}: Brier score",
        "Mean squared difference between the probability of this class and whether it is the label.",
        better="lower",
        modes=CLASSES,
        source="Brier 1950, Mon. Weather Rev. 78, 1-3",
        needs="log-probabilities",
    ),
    MetricSpec(
        "class/tpr",
        "True positive rate (sensitivity)",
        "Share of responses labeled with the positive class, and given any class, that the judge gave it.",
        better="higher",
        headline=True,
        modes=CLASSES,
        needs=POSITIVE,
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/tnr",
        "True negative rate (specificity)",
        "Share of responses labeled with another class than the positive one, and given any class, that the judge gave "
        "another class.",
        better="higher",
        headline=True,
        modes=CLASSES,
        needs=POSITIVE,
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/balanced_accuracy",
        "Balanced accuracy",
        "Mean recall of all classes; undefined if a class has no labels.",
        better="higher",
        chance="1 / number of classes among the labels",
        headline=True,
        modes=CLASSES,
        source="Brodersen et al. 2010, ICPR, 3121-3124",
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/macro_f1",
        "Macro F1 score",
        "Mean F1 score of the classes that are among the labels or the verdicts on labeled responses.",
        better="higher",
        modes=CLASSES,
        source="Opitz and Burst 2019, arXiv 1911.03347, eq. 1",
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/mcc",
        "Matthews correlation coefficient",
        "Correlation of labels and verdicts as classes, for more than two classes R_K; undefined if either are all of "
        "one class.",
        unit="coefficient",
        low=-1.0,
        better="higher",
        chance=0.0,
        modes=CLASSES,
        source="Matthews 1975, Biochim. Biophys. Acta 405, 442-451; Gorodkin 2004, Comput. Biol. Chem. 28, 367-374",
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/youden_j",
        "Youden's J",
        "How well the judge separates the positive class from the others: 0 for a judge that ignores the responses.",
        "class/tpr + class/tnr - 1",
        unit="coefficient",
        low=-1.0,
        better="higher",
        chance=0.0,
        modes=CLASSES,
        source="Youden 1950, Cancer 3, 32-35",
        needs=POSITIVE,
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/abstained",
        "Abstentions",
        "Share of the answers that decline to choose a class; they are neither missing nor a class, and all other "
        "metrics leave them out.",
        headline=True,
        hidden_at_zero=True,
        modes=CLASSES,
        needs="an abstention",
        interval=JEFFREYS,
    ),
    MetricSpec(
        "class/split",
        "Answers that contradict each other",
        "Share of the responses with answers for which no class has the most votes, because the judge's samples, or "
        "the judges of a panel, contradict each other; they are not missing, and all metrics of classes omit them.",
        better="lower",
        headline=True,
        hidden_at_zero=True,
        modes=CLASSES,
        needs="samples or a panel",
        interval=JEFFREYS,
    ),
)

CORRECTED_CLASS_ROWS: Final = (
    MetricSpec(
        "corrected/rate/{class}",
        "Class {class}, corrected for judge errors",
        "Share of responses whose label would be this class, corrected for the judge's errors on labeled responses; "
        "not identified if these errors do not tell the classes apart.",
        "q·M⁻¹ for the rates q of the verdicts and the matrix M of verdicts by label, moved to the nearest rates that "
        "sum to 1; for two classes (rate + specificity - 1) / Youden's J",
        modes=CLASSES,
        source="Rogan and Gladen 1978, Am. J. Epidemiol. 107, 71-76; Tenenbein 1970, J. Am. Stat. Assoc. 65, 1350-1361",
        needs="labels",
        interval=JEFFREYS,
    ),
    MetricSpec(
        "corrected/prediction_powered/{class}",
        "Class {class}, corrected by labels",
        "Share of responses whose label would be this class, estimated from the labels and from the judge's verdicts "
        "on the unlabeled responses.",
        "as corrected/win_rate/a, with one k for all classes, so that the rates sum to 1",
        modes=CLASSES,
        source=_PREDICTION_POWERED,
        needs="labels",
    ),
)
