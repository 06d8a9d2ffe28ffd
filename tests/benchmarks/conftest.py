"""The small files of each benchmark, in the shape that its authors publish."""

from pathlib import Path
from typing import Any

import pytest

from evalkit.config import DatasetConfig, RunConfig
from evalkit.core.types import Case, Judgment, Metric
from evalkit.datasets import Dataset, load_cases
from evalkit.scoring.pipeline import score_run

FILES = Path(__file__).parent / "files"


@pytest.fixture(scope="session")
def files():
    return FILES


@pytest.fixture(scope="session")
def load():
    """Load a benchmark from a path under files/, by default its own folder, for a mode of judging."""

    def loaded(
        name: str, path: str | Path | None = None, mode: str = "pairwise", **more: Any
    ) -> Dataset:
        where = FILES / (path or name)
        return load_cases(DatasetConfig(benchmark=name, path=str(where), **more), mode=mode)

    return loaded


def _pairs(case: Case, orders: Any) -> list[Judgment]:
    """Both orders of a case's pairs: margins for (0, 1), or by unit; none for one that could not be read."""
    by_unit = orders if isinstance(orders, dict) else {(0, 1): orders}
    made = []
    for unit, margins in by_unit.items():
        for shown, margin in zip((unit, unit[::-1]), margins, strict=False):
            status = "unparseable" if margin is None else "ok"
            made.append(Judgment(case.id, unit, shown, 0, "m", status, margin))
    return made


def _scores(case: Case, scores: Any) -> list[Judgment]:
    """One judgment for each response: its score, or its scores by criterion; none for one that could not be read."""
    made = []
    for k, score in enumerate(scores):
        criteria = score if isinstance(score, dict) else {} if score is None else {"quality": score}
        made.append(
            Judgment(
                case.id,
                (k,),
                (k,),
                0,
                "m",
                "ok" if criteria else "unparseable",
                None,
                criteria=criteria,
            )
        )
    return made


def _rankings(case: Case, ranking: Any) -> list[Judgment]:
    unit = tuple(range(len(case.responses)))
    return [Judgment(case.id, unit, unit, 0, "m", "ok", ranking=ranking)]


MADE = {"pairwise": _pairs, "pointwise": _scores, "listwise": _rankings}


@pytest.fixture(scope="session")
def measure(load):
    """Score a benchmark's cases as judged (by case id), and return its metrics by the rest of their names."""

    def measured(
        name: str, judged: dict[str, Any], mode: str = "pairwise", path: Any = None, **sections: Any
    ) -> dict[str, Metric]:
        cases = load(name, path, mode).cases
        assert set(judged) == {case.id for case in cases}
        judgments = [judgment for case in cases for judgment in MADE[mode](case, judged[case.id])]
        given = {
            "judge": {"model": "m"},
            "criteria": [{"name": "quality"}],
            "swap": {} if mode == "pairwise" else {"policy": "none"},
            "scoring": {"bootstrap": 200},
            **sections,
        }
        config = RunConfig(mode={"name": mode}, dataset={"benchmark": name}, **given)
        metrics = score_run(config, cases, judgments).metrics
        return {
            key.removeprefix(f"{name}/"): one
            for key, one in metrics.items()
            if key.startswith(f"{name}/")
        }

    return measured
