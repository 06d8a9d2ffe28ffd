"""Gives the tests of a module a server that judges, and the folders of judges that were validated against it."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import evalkit
from evalkit.runs import read_run
from evalkit.serving.folder import write_judge
from tests.serving.conftest import CASES
from tests.support.command_line import fake
from tests.support.fake_provider import Provider, Reply, refused, said, serving
from tests.support.judging import good_first, judging, scoring

DOWN = "the provider is down for this one"
GRADED = [
    {"id": case["id"], "prompt": case["prompt"], "response": case["response_a"], "grade": 4}
    for case in CASES
]
CLASSED = [
    {**{key: row[key] for key in ("id", "prompt", "response")}, "label": "good"} for row in GRADED
]
GOOD, BAD = "good: it strengthens the heart (0)", "bad: you will look better (0)"
ASKED = "Question 0: is sport healthy?"


def rule(body: dict[str, Any]) -> Reply:
    """Judge pairs, scores and classes by the word that a response begins with, and fail on some."""
    text = body["messages"][1]["content"]
    if DOWN in text:
        return refused(400, "down")
    if "<response_a>" in text:
        return judging(good_first)(body)
    good = "<response>\ngood" in text
    if "classification" in json.dumps(body.get("response_format", "")):
        return said(
            json.dumps(
                {"reasoning": "as it begins", "quotes": [], "class": "good" if good else "bad"}
            )
        )
    return scoring(defaultdict(lambda: 4 if good else 2))(body)


class Judges(NamedTuple):
    """The folders of judges of pairs, scores and classes, and the server that they call."""

    pairs: Path
    scores: Path
    classes: Path
    provider: Provider

    @property
    def api_base(self) -> str:
        return self.provider.api_base


MODES = {
    "pairs": ([], CASES),
    "scores": (["mode=pointwise"], GRADED),
    "classes": (
        ["mode=pointwise", "rubric=own", "rubric.classes={good:helps,bad:does not help}"],
        CLASSED,
    ),
}


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judges")
    with pytest.MonkeyPatch.context() as patch, serving() as provider:
        patch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        patch.setenv("EVALKIT_STORE", str(folder / "store.sqlite"))
        patch.chdir(folder)
        provider.rule = rule
        words = [*fake(provider), "judge.transport=direct"]
        for name, (mode, cases) in MODES.items():
            config = evalkit.load_config(
                overrides=[*words, *mode, "tracking=none", "scoring.bootstrap=50"]
            )
            evalkit.run(config, folder / "runs" / name, cases=cases)
            write_judge(read_run(folder / "runs" / name), folder / name)
        yield Judges(*(folder / name for name in MODES), provider)
