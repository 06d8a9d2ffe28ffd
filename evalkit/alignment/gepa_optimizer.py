"""GEPA behind the seam of prompt optimizers: reflective mutation of the instructions on
a Pareto front.

Agrawal et al. 2025, arXiv 2507.19457. It has no dependencies, and its calls are those of the
trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from evalkit.alignment.prompts import Trials, TrialsEndedError
from evalkit.core.resources import optional

_PART: Final = "instruction"
ROUNDS: Final = 3
"""Most rounds for each prompt to write: a round writes none if its cases agree with their
labels."""


class GepaOptimizer:
    """Searches with GEPA.

    Raises:
        ConfigError: if it is not installed.
    """

    def __init__(self) -> None:
        install = "'evalkit-judge[align]'"
        self._gepa = optional(
            "gepa", "tune=[prompt]", "the search for a prompt", install=install
        )

    def optimize(self, trials: Trials) -> None:
        """Have instructions written from cases of train, tried on these, and the better
        ones on all of dev.

        Without cases of train nothing is written. The results are in `trials`.
        """
        rounds = ROUNDS * trials.prompts
        train = trials.cases()
        if not train:
            return
        with suppress(TrialsEndedError):
            self._gepa.optimize(
                seed_candidate={_PART: trials.instruction.text},
                trainset=train,
                valset=[case.id for case in trials.dev.cases],
                adapter=_Adapter(trials, self._gepa.EvaluationBatch),
                reflection_minibatch_size=trials.size,
                stop_callbacks=lambda state: trials.ended or state.i >= rounds,
                logger=_Silence(),
                track_best_outputs=False,
                seed=trials.seed,
            )
        if trials.failure is not None:
            raise trials.failure


class _Silence:
    def log(self, message: str) -> None:
        """Print nothing: the trials report their progress."""


class _Adapter:
    """GEPA's adapter: a candidate is an instruction, and a row is the id of a case."""

    def __init__(self, trials: Trials, batch: Any) -> None:
        self._trials, self._batch = trials, batch

    def evaluate(
        self,
        batch: list[str],
        candidate: Mapping[str, str],
        capture_traces: bool = False,
    ) -> Any:
        """Return the agreement of each case with a candidate's instruction, for GEPA."""
        scores = self._trials.scores(candidate[_PART], batch)
        return self._batch(
            outputs=[None] * len(batch),
            scores=scores,
            trajectories=batch if capture_traces else None,
        )

    def make_reflective_dataset(
        self, _candidate: Mapping[str, str], evaluated: Any, _parts: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        return {_PART: [{"id": id_} for id_ in evaluated.trajectories]}

    def propose_new_texts(
        self,
        candidate: Mapping[str, str],
        rows: Mapping[str, Sequence[Mapping[str, str]]],
        _parts: Sequence[str],
    ) -> dict[str, str]:
        text = self._trials.write(candidate[_PART], [row["id"] for row in rows[_PART]])
        if text is None:
            return {}
        return {_PART: text}
