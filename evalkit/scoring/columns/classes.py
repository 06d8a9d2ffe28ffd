"""Class verdicts as columns: the class that a judge, and each annotator, gave to each response."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from evalkit.core.classes import Classes
from evalkit.errors import ConfigError
from evalkit.scoring.stats.arrays import Bools, Floats, Ints
from evalkit.scoring.stats.bootstrap import Tally
from evalkit.types import Judgment

MISSING: Final = -1
"""The code of a missing answer, label or annotation."""
ABSTAINED: Final = -2
"""The code of an answer that declines to choose a class (`rubric.abstain`)."""
SPLIT: Final = -3
"""The code of a vote of samples or judges that no class won: there are answers, and they contradict each other."""


@dataclass(frozen=True, slots=True)
class ClassColumns:
    """The class verdicts of one judge or a panel, one row for each response of each case, in case order.

    Attributes:
        names: the classes, in the order of the config.
        ordered: whether the classes are ordered, lowest first.
        positive: the index of the positive class; `None` if the config has none.
        case: (n,) the index of each row's case.
        index: (n,) the index of its response in the case.
        cases: the number of cases.
        verdicts: (n,) the class of the verdict, or MISSING, ABSTAINED or SPLIT.
        labels: (n,) the class of the label, or MISSING.
        annotators: by name, (n,) the class that the annotator gave, or MISSING.
        probabilities: (n, classes) the probability of each class, summing to 1 in each row; NaN in rows without
            probabilities. `None` if no row has them.
        abstain: the name of the answer that declines to choose; `None` if the judge may not abstain.
    """

    names: tuple[str, ...]
    ordered: bool
    positive: int | None
    case: Ints
    index: Ints
    cases: int
    verdicts: Ints
    labels: Ints
    annotators: Mapping[str, Ints] = field(default_factory=dict)
    probabilities: Floats | None = None
    abstain: str | None = None

    def __len__(self) -> int:
        return len(self.verdicts)

    @property
    def decided(self) -> Bools:
        """Which rows have a class, neither missing nor abstained, (n,)."""
        return np.asarray(self.verdicts >= 0)

    @property
    def missing(self) -> Bools:
        """Which rows have no verdict, (n,)."""
        return np.asarray(self.verdicts == MISSING)

    @property
    def abstained(self) -> Bools:
        """Which rows have an abstention, (n,)."""
        return np.asarray(self.verdicts == ABSTAINED)

    @property
    def split(self) -> Bools:
        """Which rows have answers that contradict each other, (n,)."""
        return np.asarray(self.verdicts == SPLIT)

    @property
    def undecided(self) -> Bools:
        """Which rows have answers, but no class, (n,)."""
        return self.abstained | self.split

    @property
    def labeled(self) -> Bools:
        """Which rows have a label, (n,)."""
        return np.asarray(self.labels >= 0)

    @property
    def tally(self) -> Tally:
        """Sums over the rows of each case."""
        return Tally(self.case, self.cases)


class ClassCodes:
    """Builds the columns `choice` and `chances` of judgments, in the order in which they are added."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._codes: dict[str | None, int] = {name: index for index, name in enumerate(classes.names)}
        self._codes |= {None: MISSING} | ({} if classes.abstain is None else {classes.abstain: ABSTAINED})
        self._choice, self._chances = array("q"), array("d")

    def add(self, judgment: Judgment) -> None:
        """Add a judgment.

        Raises:
            ConfigError: if it has another kind of verdict, or a class that the rubric does not have.
        """
        name, where = judgment.class_name, f"case '{judgment.case_id}'"
        if name not in self._codes:
            known = ", ".join(self._classes.answers)
            raise ConfigError(
                f"it was judged '{name}', which is not among {known}", where=where, remedy="add the class"
            )
        if judgment.status in ("ok", "repaired") and name is None:
            remedy = "set the rubric of the run, for example rubric=likert5"
            raise ConfigError("it was not judged by class, and the rubric has classes", where=where, remedy=remedy)
        self._choice.append(self._codes[name])
        given = judgment.weighted.classes if judgment.weighted is not None else {}
        chances = [given.get(one, 0.0 if given else np.nan) for one in self._classes.names]
        total = sum(chances)
        self._chances.extend(chance / total if total else np.nan for chance in chances)

    def columns(self) -> dict[str, Ints | Floats]:
        """Return both columns."""
        return {
            "choice": np.array(self._choice, dtype=np.int64),
            "chances": np.array(self._chances).reshape(-1, len(self._classes)),
        }
