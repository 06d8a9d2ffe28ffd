"""The estimate of the time that a run still takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.cli.hydra_runner import Job
from evalkit.cli.progress import EVERY, RECENT, ProgressDisplay, Rate, as_time, seconds_left
from evalkit.engine.progress import Progress
from evalkit.hydra_app import load_config


def progress(done: int, elapsed: float, total: int | None = 1000) -> Progress:
    return Progress(done, total, 0, done, 0, 0, 0, 0, None, elapsed=elapsed)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.now() is None
    for second in range(1, 101):  # one answer per second, then ten
        rate.see(progress(second if second <= 50 else 50 + 10 * (second - 50), float(second)))
    assert rate.now() == pytest.approx(10, rel=0.01)
    assert RECENT < 50


def test_the_time_left_is_not_estimated_from_the_first_answers() -> None:
    assert seconds_left(progress(1, 5.0), 2.0) is None
    assert seconds_left(progress(50, 25.0), 2.0) == 475.0
    assert seconds_left(progress(1000, 500.0), 2.0) is None
    assert seconds_left(progress(50, 25.0, None), 2.0) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (4.4, "4 s"), (89.0, "89 s"), (95.0, "2 min"), (5000.0, "83 min"), (7500.0, "2 h 5 min")],
)
def test_a_duration_is_in_the_largest_unit_that_fits(seconds: float | None, words: str) -> None:
    assert as_time(seconds) == words


def test_each_step_of_a_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay(Job(load_config(), Path(), None)) as display:
        for step in (progress(6, 10 * EVERY), progress(7, 1.5 * EVERY), progress(8, 3 * EVERY)):
            display.update(step)
    shown = capsys.readouterr().err
    assert [done for done in (6, 7, 8) if f" {done}/1000 " in shown] == [6, 7, 8]
