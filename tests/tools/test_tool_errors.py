"""What a user of Python reads when something is wrong: one exception, one line."""

import socket
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

import evalkit
from evalkit.core.errors import ConfigError, JudgeSetupError

_SIMULATED = ["judge=simulated/good"]


@pytest.fixture
def dead() -> list[str]:
    """Return overrides that name a server that does not answer."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    return ["judge=gpt-4o-mini", f"judge.api_base=http://127.0.0.1:{port}/v1", "store=off"]


def _score(overrides: list[str]) -> object:
    return evalkit.direct_score_sync(
        prompt="p", response="r", criteria=["accuracy"], overrides=overrides
    )


def _run(overrides: list[str]) -> object:
    words = [*overrides, "dataset=sample", "dataset.limit=1", "tracking=none"]
    return evalkit.run(evalkit.load_config(overrides=words))


@pytest.mark.parametrize("call", [_score, _run])
def test_a_dead_endpoint_is_one_exception_with_few_lines(
    call: Callable[[list[str]], object], dead: list[str], tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    with pytest.raises(JudgeSetupError) as caught:
        call(dead)
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("Traceback") == 1
    assert len(text.splitlines()) <= 12
    assert text.splitlines()[-1].endswith("start the server, or fix judge.api_base")


def test_hydra_full_error_shows_the_whole_traceback(dead, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(JudgeSetupError) as caught:
        _score(dead)
    assert "check_reachable" in "".join(traceback.format_exception(caught.value))


def test_a_criterion_may_be_its_name() -> None:
    named = evalkit.direct_score_sync(
        prompt="p",
        response="r",
        criteria=["accuracy", {"name": "clarity", "weight": 0.5}],
        overrides=_SIMULATED,
    )
    assert [score.criterion for score in named.scores] == ["accuracy", "clarity"]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "criteria: is missing; give criteria=…"),
        ({"criteria": "accuracy"}, "criteria: is not a list (got 'accuracy'); write [A, B]"),
        ({"criteria": [{"nam": "x"}]}, "criteria.0.nam: no such field; did you mean 'name'?"),
        (
            {"criteria": [3]},
            "criteria.0: is not a criterion (got 3); write the criterion's name, or"
            " {'name': NAME, 'description': TEXT, 'weight': 0.5}",
        ),
        (
            {"criteria": ["x"], "rubrik": {}},
            "rubrik: no such field; did you mean 'rubric'?",
        ),
    ],
)
def test_a_wrong_input_says_what_to_write(fields: dict, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        evalkit.direct_score_sync(prompt="p", response="r", overrides=_SIMULATED, **fields)
    assert str(caught.value) == line


def test_a_comparison_takes_the_names_of_criteria_only() -> None:
    with pytest.raises(
        ConfigError, match=r"criteria\.0: is not a criterion .*; write the .* name$"
    ):
        evalkit.pairwise_compare_sync(
            prompt="p", response_a="a", response_b="b", criteria=[{"name": "x"}]
        )


_WRONG_TYPES: dict[str, tuple[Callable[[], object], str]] = {
    "words as config": (
        lambda: evalkit.run(_SIMULATED),  # type: ignore[arg-type]
        "config: cannot be of type list; write run(load_config(overrides=['judge=…']))",
    ),
    "words as name": (
        lambda: evalkit.load_config(_SIMULATED),  # type: ignore[arg-type]
        "name: cannot be of type list; write load_config(overrides=['judge=…'])",
    ),
    "text as overrides": (
        lambda: evalkit.load_config(overrides="judge=x"),
        "overrides: cannot be of type str; write overrides=['judge=x']",
    ),
    "text as folder": (
        lambda: evalkit.run(evalkit.load_config(overrides=_SIMULATED), "out"),  # type: ignore[arg-type]
        "folder: cannot be of type str; write Path('out')",
    ),
    "number as judge": (
        lambda: evalkit.load_judge(3),  # type: ignore[arg-type]
        "path: cannot be of type int; write load_judge('JUDGE_FOLDER')",
    ),
    "list of folders": (
        lambda: evalkit.leaderboard(["a", "b"]),  # type: ignore[arg-type]
        "folder: cannot be of type list; write leaderboard('SWEEP_FOLDER')",
    ),
    **{
        f"{runs!r} as runs": (
            partial(evalkit.compare, runs),  # type: ignore[arg-type]
            f"{where}: cannot be of type {name}; write compare({{'first': first_result, 'second':"
            " second_result})",
        )
        for runs, where, name in (
            ("a", "runs", "str"),
            (["a", "b"], "runs", "list"),
            ({"a": "a", "b": "b"}, "runs['a']", "str"),
        )
    },
}


@pytest.mark.parametrize("mistake", _WRONG_TYPES)
def test_an_argument_of_another_type_says_what_to_write(mistake: str) -> None:
    call, line = _WRONG_TYPES[mistake]
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value) == line
