"""What goes wrong in another's code is one line that names it, and its readers are told what ours are."""

import pytest

from evalkit.config import OutputConfig, RunConfig
from evalkit.core.errors import PluginError
from evalkit.core.protocols import FollowUpEvaluator
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Response
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.output_formats import ThirdPartyFormat
from evalkit.evaluators.parsing import AnswerTask, Reply, UnreadableError

CASE = Case("c7", "Say hello.", (Response("Hello."), Response("Go away.")))
REQUEST = JudgeRequest("c7", (0, 1), (0, 1), ())


class Failing:
    def __init__(self, config, prompts) -> None:
        self.own = "kept"

    def plan(self, case):
        yield REQUEST
        raise KeyError("text")

    def read(self, request, completion):
        return completion.text["nothing"]


class FailingAfter(Failing):
    def follow(self, case, judgments):
        return 1 / len(judgments)


def named(name: str) -> str:
    return f"{__name__}.{name}"


def made(name: str):
    return make_evaluator(
        RunConfig(
            judge={"model": "m"}, criteria=[{"name": "q"}], mode={"name": f"{__name__}.{name}"}
        )
    )


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            lambda one: one.plan(CASE),
            r"fails in plan on case 'c7': KeyError: 'text'; fix the plug-in",
        ),
        (
            lambda one: one.read(REQUEST, Completion("x")),
            r"fails in read on case 'c7': TypeError: string",
        ),
        (
            lambda one: one.follow(CASE, []),
            r"fails in follow on case 'c7': ZeroDivisionError: division",
        ),
    ],
)
def test_a_fault_names_the_plug_in_the_method_and_the_case(use, said):
    with pytest.raises(
        PluginError, match=rf"^mode\.name: '{named('FailingAfter')}' {said}"
    ) as raised:
        use(made("FailingAfter"))
    assert "\n" not in str(raised.value)


def test_a_plug_in_keeps_what_it_has_of_its_own():
    assert made("Failing").own == "kept"
    assert not isinstance(made("Failing"), FollowUpEvaluator)
    assert isinstance(made("FailingAfter"), FollowUpEvaluator)


class Told:
    """Reads what it is told."""

    def __init__(self, config) -> None:
        pass

    def winner(self, text, *, sources, cut_off):
        if cut_off:
            raise ValueError("cut off")
        return "A" if text not in sources else "B"

    def score(self, text, **more):
        return len(more["sources"]) + more["cut_off"]


def test_readers_are_told_what_ours_are():
    output = OutputConfig(format=f"{__name__}.Told")
    winner = ThirdPartyFormat(output, AnswerTask("winner")).read
    score = ThirdPartyFormat(output, AnswerTask("score", scale=Scale(1, 5, 1))).read
    assert winner(Reply("x", sources=["y"])) == 1
    assert winner(Reply("x", sources=["x"])) == -1
    with pytest.raises(UnreadableError, match="cut off"):
        winner(Reply("x", cut_off=True))
    assert score(Reply("x", sources=["y", "z"], cut_off=True)) == 3


class Plain:
    def __init__(self, config) -> None:
        pass

    def winner(self, text):
        return text


def test_a_reader_that_asks_for_nothing_is_told_nothing():
    plain = ThirdPartyFormat(OutputConfig(format=f"{__name__}.Plain"), AnswerTask("winner"))
    assert plain.read(Reply("tie", cut_off=True, sources=["x"])) == 0


class Boundless(Failing):
    def read(self, request, completion):
        value, confidence = map(float, completion.text.split())
        return Judgment(
            "c7",
            request.unit,
            request.shown,
            0,
            request.judge,
            "ok",
            value=value,
            confidence=confidence,
            read_by="own",
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3 0.5", "values .3.0. are not finite, or margins"),
        ("1 85", "confidence 85.0 is not"),
        ("nan 0.5", "values"),
    ],
)
def test_numbers_that_cannot_be_are_a_fault_too(text, said):
    one = made("Boundless")
    with pytest.raises(
        PluginError,
        match=rf"'{named('Boundless')}' returned an invalid judgment for case 'c7': {said}",
    ):
        one.read(REQUEST, Completion(text))
    assert one.read(REQUEST, Completion("-1 1")).value == -1
