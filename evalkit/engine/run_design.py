"""What a run asks about its cases, and what it makes of the answers besides the metrics of the run.

A run is judged, scored and written by the same stages, whatever it asks. A design attaches to them:
this one asks about the cases only; that of an audit asks about edited cases, too. A design is made
for one run and used once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.protocols import Evaluator, Store
from evalkit.core.types import Case, Judgment, Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.engine.progress import JudgingResult
from evalkit.runs.results import RunResult

Reviews: TypeAlias = Mapping[str, Mapping[str, bool]]
"""What annotators say about edited cases, by the edit's key and the annotator's name."""


class Ask(Protocol):
    """Has the judges of a config asked about cases, as a step of the run."""

    async def __call__(
        self,
        config: RunConfig,
        cases: Sequence[Case],
        evaluator: Evaluator,
        /,
        *,
        chosen_on: Sequence[Case] | None = None,
    ) -> JudgingResult:
        """Return the judgments; thresholds of a cascade are chosen on `chosen_on`, or
        else on the cases.
        """


@frozen
class EarlierStep:
    """What must be answered before the rest of a run can be asked.

    Attributes:
        setting: The setting of its judge.
        config: The config whose judge is asked.
        evaluator: Plans and reads the requests.
    """

    setting: str
    config: RunConfig
    evaluator: Evaluator


class Questions:
    """The cases that a run asks about: those of its data. An audit also asks about edited ones."""

    def evaluator(self, evaluator: Evaluator) -> Evaluator:
        """Return what plans the requests of all cases, from what plans those of the
        data's cases.
        """
        return evaluator

    def expand(self, case: Case) -> Iterator[Case]:
        """Yield what is asked because of a case of the data."""
        yield case

    def parts(self) -> Sequence[tuple[str, Questions]]:
        """Return the parts that a plan lists separately, each with its name."""
        return [("", self)]

    def earlier_step(self) -> EarlierStep | None:
        """Return what must be answered first; `None` if everything can be asked at once."""
        return None

    def after(self, judgments: Iterable[Judgment]) -> Questions:
        """Return the questions once the earlier step is judged."""
        return self

    def expecting(self, cases: Iterable[Case], store: Store | None) -> Questions:
        """Return the questions as they would be after the earlier step, for a plan;
        nothing is sent.
        """
        return self


class Design:
    """A run that asks about its cases only. Others override what they do in another way.

    Args:
        config: The config of the run.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.notes: list[str] = []

    def check(self, cases: Iterable[Case]) -> None:
        """Check before anything is paid what would only fail later.

        Raises:
            ConfigError: If the run cannot ask what its config says.
        """

    def questions(self) -> Questions:
        """Return the cases that are asked about, for a plan.

        Raises:
            ConfigError: If the run cannot ask what its config says.
        """
        return Questions()

    def remember(self, folder: Path) -> None:
        """Read what a run that replaces another one in `folder` must keep of it."""

    async def judge(
        self,
        cases: Sequence[Case],
        evaluator: Evaluator,
        folder: Path,
        ask: Ask,
    ) -> JudgingResult:
        """Return the judgments of all steps; notes for the user are in `notes` afterwards."""
        return await ask(self.config, cases, evaluator)

    def of_cases(
        self, judgments: Sequence[Judgment], folder: Path
    ) -> Sequence[Judgment]:
        """Return the judgments of the run's own cases; the metrics of the run are those
        of these.
        """
        return judgments

    def facts(self) -> JsonObject:
        """Return additional entries of the manifest."""
        return {}

    def score(
        self,
        cases: Sequence[Case],
        judgments: Sequence[Judgment],
    ) -> Mapping[str, Metric]:
        """Return additional metrics, from the run's cases and their judgments."""
        return {}

    def rescore(
        self,
        result: RunResult,
        reviews: Reviews | None = None,
    ) -> Mapping[str, Metric]:
        """Return additional metrics of a finished run under the config's settings.

        Args:
            result: The finished run.
            reviews: Annotators' new reviews, where the design has any.
        """
        return {}

    def files(self, result: RunResult) -> Mapping[str, str]:
        """Return additional files of the run folder by name, after `score` or `rescore`."""
        return {}
