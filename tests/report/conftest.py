from dataclasses import replace
from typing import Any

import pytest

from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.types import Case, Completion, Judgment, Metric, Orders, Response, Verdict
from evalkit.runs.results import Calls, RunResult

ATTACK = (
    "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
)

CONFIG = RunConfig(
    judge={"model": "m"}, criteria={"q": {}}, scoring={"confidence": 0.9}
).model_copy(update={"judge": JudgeConfig.model_construct(model=ATTACK)})


def _judgment(case: int, shown: tuple[int, int], value: float | None) -> Judgment:
    read = value is not None
    return Judgment(
        f"c{case}",
        (0, 1),
        shown,
        0,
        "m",
        "ok" if read else "refused",
        value=value,
        confidence=0.8 if read else None,
        error=None if read else "it would not say",
        completion=Completion(text=f"raw {case} {ATTACK}"),
    )


def _verdict(case: int, passes: tuple[float | None, float | None]) -> Verdict:
    said = ["A" if p == 1 else "B" if p == -1 else None for p in passes]
    if None in said:
        return Verdict(
            f"c{case}", (0, 1), None, None, "missing", label="A", orders=Orders(None, None, None)
        )
    flipped = said[0] != said[1]
    winner, reason = ("TIE", "swap_disagreement") if flipped else (said[0], "judged")
    label = "B" if case % 4 == 3 else "A" if winner != "TIE" else "TIE"
    return Verdict(
        f"c{case}",
        (0, 1),
        winner,
        None,
        reason,
        0.0,
        0.8,
        label,
        {},
        Orders(said[0], said[1], not flipped),
    )


def build(cases: int = 8, *, text: str = ATTACK, **changes: Any) -> RunResult:
    """Cases go plain, missing, flipped, mislabelled, and again; `text` is the first response of each."""
    passes = [((1, 1), (None, 1), (1, -1), (1, 1))[i % 4] for i in range(cases)]
    result = RunResult(
        folder=None,
        config=CONFIG,
        manifest={
            "mode": "pairwise",
            "judge": "m",
            "started": "2026-11-20T10:00:00+00:00",
            "notes": [ATTACK],
        },
        cases=tuple(
            Case(
                f"c{i}",
                f"问题 {i} {ATTACK}",
                (Response(text, "x"), Response("plain", ATTACK)),
                context=ATTACK,
                label="A",
            )
            for i in range(cases)
        ),
        judgments=tuple(
            _judgment(i, shown, value)
            for i, both in enumerate(passes)
            for shown, value in zip(((0, 1), (1, 0)), both, strict=True)
        ),
        verdicts=tuple(_verdict(i, both) for i, both in enumerate(passes)),
        metrics={
            "agreement/accuracy": Metric(
                "agreement/accuracy", 0.52, 0.38, 0.66, cases, 2, 0.45, 0.6
            ),
            "agreement/kappa": Metric("agreement/kappa", 0.04, -0.2, 0.3, cases, 2, -0.1, 0.2),
            "conflict/rate": Metric("conflict/rate", None, note=ATTACK),
            "score/distinct": Metric("score/distinct", 3.0, n=cases),
        },
        calls=Calls(planned=2 * cases, sent=2 * cases),
        cost_usd=None,
    )
    return replace(result, **changes)


@pytest.fixture
def make_run():
    return build


@pytest.fixture
def attack():
    return ATTACK
