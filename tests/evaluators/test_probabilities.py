"""Probabilities of answers, and judgments weighed by them."""

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError, JudgeSetupError
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Response, TokenLogprob
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.logprobs import Spellings, Tokens, margins, scores_of

FIVE, TEN = Scale(1, 5, 1), Scale(1, 10, 1)
DECIMAL, PERCENT = Scale(1, 10, 0.1), Scale(1, 100, 1)
PAIR = margins(tie_allowed=True)


def token(text: str, chance: float = 1.0, **others: float) -> TokenLogprob:
    """One token with its probability and that of others in its place."""
    top = {text: chance, **others}
    return TokenLogprob(
        text, math.log(chance), tuple((one, math.log(p)) for one, p in top.items() if p)
    )


def found(before: str, written: list[TokenLogprob], after: str, values: dict[str, float]):
    pieces = [token(before), *written, token(after)] if after else [token(before), *written]
    text = "".join(one.token for one in pieces)
    start = len(before)
    value = "".join(one.token for one in written)
    core = value.strip(' ":,}')
    start += value.index(core)
    return Tokens(text, pieces).distribution(start, start + len(core), values)


def test_one_token_values_are_weighted_by_their_probability():
    got = found(
        '{"score":', [token("3", 0.5, **{"4": 0.3, "2": 0.1, "x": 0.1})], "}", scores_of(FIVE)
    )
    assert got.weights == pytest.approx({3: 0.5, 4: 0.3, 2: 0.1})
    assert got.mass == pytest.approx(0.9)
    assert got.expectation == pytest.approx((3 * 0.5 + 4 * 0.3 + 2 * 0.1) / 0.9)
    assert got.open == 0


def test_the_first_and_last_token_may_hold_more_than_the_value():
    written = [token(": 3", 0.6, **{": 4": 0.2, ":5": 0.1, ' "': 0.1})]
    got = found('{"score"', written, "}", scores_of(FIVE))
    assert got.weights == pytest.approx({3: 0.6, 4: 0.2, 5: 0.1})
    got = found(
        '{"score":', [token(" 3,", 0.6, **{" 4}": 0.2, "3": 0.1, " 33": 0.1})], "", scores_of(FIVE)
    )
    assert got.weights == pytest.approx({3: 0.7, 4: 0.2})


def test_ten_is_neither_one_nor_nothing():
    written = [token("1", 0.6, **{"9": 0.4}), token("0", 0.7, **{"}": 0.3})]
    got = found('{"score":', written, "}", scores_of(TEN))
    assert got.weights == pytest.approx({10: 0.42, 1: 0.18, 9: 0.4})
    chosen_one = [token("1", 0.6, **{"9": 0.4}), token("}", 0.3, **{"0": 0.7})]
    assert found('{"score":', chosen_one, "", scores_of(TEN)).weights == pytest.approx(got.weights)


def test_an_alternative_known_only_so_far_is_shared_among_the_values_that_begin_so():
    got = found('{"score":', [token("7", 0.5, **{"1": 0.4, "8": 0.1})], "}", scores_of(TEN))
    assert got.weights == pytest.approx({7: 0.5, 1: 0.2, 10: 0.2, 8: 0.1})
    assert got.open == pytest.approx(0.4)


def test_where_tokens_hold_several_digits_no_digit_goes_on():
    got = found('{"score":', [token("7", 0.5, **{"1": 0.3, "10": 0.2})], "}", scores_of(TEN))
    assert got.weights == pytest.approx({7: 0.5, 1: 0.3, 10: 0.2})
    assert got.open == 0
    decimal = found('{"score":', [token("7", 0.6, **{"8": 0.3, "10": 0.1}), token(".", 1.0), token("5", 1.0)], "}",
                    scores_of(DECIMAL))  # fmt: skip
    assert decimal.weights[7.5] == pytest.approx(0.6)
    assert decimal.weights[8.3] == pytest.approx(0.03)


def test_decimals_are_followed_digit_by_digit():
    written = [
        token("7", 0.6, **{"8": 0.4}),
        token(".", 0.9, **{",": 0.1}),
        token("5", 0.5, **{"0": 0.5}),
    ]
    got = found('{"score":', written, "}", scores_of(DECIMAL))
    assert got.weights[7.5] == pytest.approx(0.27)
    assert got.weights[7.0] == pytest.approx(0.27 + 0.06)
    assert sum(got.weights[8 + k / 10] for k in range(10)) == pytest.approx(0.4)
    assert got.open == pytest.approx(0.4)
    assert got.mass == pytest.approx(1.0)


def test_a_pairs_margin_is_p_of_a_less_p_of_b():
    got = found(
        '{"winner":"', [token("A", 0.5, **{"B": 0.2, "T": 0.1, "a": 0.1, "Ass": 0.1})], '"}', PAIR
    )
    assert got.weights == pytest.approx({1.0: 0.6, -1.0: 0.2, 0.0: 0.1})
    assert got.expectation == pytest.approx(0.4 / 0.9)
    tie = [
        token('"', 1.0, **{}),
        token("T", 0.7, **{"A": 0.3}),
        token("IE", 0.9, **{"im": 0.1}),
        token('"', 1.0),
    ]
    got = found('{"winner":', tie, "}", PAIR)
    assert got.weights == pytest.approx({0.0: 0.63, 1.0: 0.3})


def test_a_space_inside_the_quotes_is_no_winner_and_one_before_a_number_is_nothing():
    assert found(
        '{"winner":"', [token("A", 0.6, **{" B": 0.4})], '"}', PAIR
    ).weights == pytest.approx({1.0: 0.6})
    assert found(
        '{"score":', [token("3", 0.6, **{" 4": 0.4})], "}", scores_of(FIVE)
    ).mass == pytest.approx(1.0)


def test_where_ties_are_forbidden_they_have_no_weight():
    got = found(
        '{"winner":"', [token("A", 0.5, **{"B": 0.25, "T": 0.25})], '"}', margins(tie_allowed=False)
    )
    assert got.expectation == pytest.approx(0.25 / 0.75)


def test_tokens_are_placed_by_bytes_where_they_split_characters():
    halves = "好".encode()
    text = '{"why":"好","score":3}'
    pieces = [
        token('{"why":"'),
        replace(token("\ufffd"), raw=tuple(halves[:1])),
        replace(token("\ufffd"), raw=tuple(halves[1:])),
        token('","score":'),
        token("3", 0.75, **{"5": 0.25}),
        token("}"),
    ]
    start = text.index("3")
    got = Tokens(text, pieces).distribution(start, start + 1, scores_of(FIVE))
    assert got.weights == pytest.approx({3: 0.75, 5: 0.25})
    garbled = [replace(one, raw=None) for one in pieces]
    assert Tokens(text, garbled).distribution(start, start + 1, scores_of(FIVE)) is None


@pytest.mark.parametrize(("written", "values"), [
    ([token("3.5", 0.5)], scores_of(FIVE)),
    ([token("C", 0.5)], PAIR),
    ([TokenLogprob("3", math.log(0.5))], scores_of(FIVE)),
])  # fmt: skip
def test_what_is_no_value_or_has_no_alternatives_has_no_distribution(written, values):
    assert found('{"x":"', written, '"}', values) is None


def test_tokens_that_are_not_the_text_tell_nothing():
    assert (
        Tokens('{"score":3}', [token("{"), token("4")]).distribution(9, 10, scores_of(FIVE)) is None
    )
    led = Tokens(
        '{"score":3}',
        [token("<s>"), token(' {"score":'), token("3", 0.8, **{"1": 0.2}), token("}</s>")],
    )
    assert led.distribution(9, 10, scores_of(FIVE)).weights == pytest.approx({3: 0.8, 1: 0.2})


@pytest.mark.parametrize("scale", [FIVE, TEN, DECIMAL, PERCENT, Scale(0, 1, 0.25), Scale(-2, 2, 1)])
def test_every_value_is_spelt_by_one_way_or_several_and_none_by_two(scale):
    spelt = scores_of(scale)
    assert set(spelt.values()) == set(scale.values())
    assert all(float(text) == value for text, value in spelt.items())
    assert all(scale.text(value) in spelt for value in scale.values())


@given(st.data())
def test_following_every_token_is_the_obvious_sum_over_whole_texts(data):
    """With all branches known to the end: the distribution is the sum over all paths that spell a value."""
    scale = data.draw(st.sampled_from([FIVE, TEN]))
    values = scores_of(scale)
    digits = [str(k) for k in range(1, 10)] if scale is TEN else [str(k) for k in range(1, 6)]
    chances = data.draw(st.lists(st.integers(1, 9), min_size=len(digits), max_size=len(digits)))
    first = {
        digit: chance / (sum(chances) + 1) for digit, chance in zip(digits, chances, strict=True)
    }
    stop, zero = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    second = {"}": stop / (stop + zero), "0": zero / (stop + zero)}
    obvious: dict[float, float] = {}
    for one, two in itertools.product(first, second):
        text = one + two.rstrip("}")
        if text in values:
            obvious[values[text]] = obvious.get(values[text], 0.0) + first[one] * second[two]
    taken = "1"
    written = [
        token(taken, first[taken], **{k: v for k, v in first.items() if k != taken}),
        token("}", **second),
    ]
    written[1] = TokenLogprob(
        "}", math.log(second["}"]), tuple((k, math.log(v)) for k, v in second.items())
    )
    got = found('{"score":', written, "", values)
    # Digits not taken may be followed by a zero for all that is known: only those of 1 are
    # followed.
    for value, weight in obvious.items():
        if value in (1.0, 10.0):
            assert got.weights[value] == pytest.approx(weight)
    assert got.mass == pytest.approx(
        sum(first.values()) - (0 if scale is TEN else first["1"] * second["0"])
    )


def test_spellings_know_beginnings():
    spellings = Spellings(scores_of(TEN))
    assert spellings.possible("", "1") == (1, 10)
    assert spellings.possible("1", "0") == (10,)
    assert spellings.possible("1", "}") == (1,)
    assert spellings.possible("", "}") == ()
    assert spellings.possible("", "") == ()
    assert spellings.possible("", "x1") == ()
    assert Spellings(scores_of(TEN), by_digits=False).possible("", "1") == (1,)


CASE = Case("c", "Say hello.", (Response("Hello."), Response("Hi!")))
NAMES = ("accuracy", "tone")


def config(**sections: Any) -> RunConfig:
    sections = {"judge": {"model": "a/m", "logprobs": True}, **sections}
    return RunConfig(criteria=[{"name": name} for name in NAMES], **sections)


def pointwise(**sections: Any) -> RunConfig:
    return config(mode={"name": "pointwise"}, swap={"policy": "none"}, **sections)


def spelt(text: str, *chances: dict[str, float], at: str) -> Completion:
    """A completion of one token for each character, with other chances at the n-th occurrence of `at`."""
    tokens, left = [], list(chances)
    for place, char in enumerate(text):
        top = {char: 1.0}
        if text.startswith(at, place - len(at)) and left:
            top = left.pop(0)
        tokens.append(
            TokenLogprob(
                char, math.log(top[char]), tuple((one, math.log(p)) for one, p in top.items())
            )
        )
    assert not left
    return Completion(text, logprobs=tuple(tokens), finish_reason="stop", rung="json_schema")


def scores(first: int, second: int) -> str:
    parts = [
        {"criterion": name, "justification": f'"score":{9 - score}', "examples": [], "score": score}
        for name, score in zip(NAMES, (first, second), strict=True)
    ]
    return json.dumps({"scores": parts, "summary": {}}, separators=(",", ":"))


def winners(overall: str, *criteria: str) -> str:
    compared = [
        {"criterion": name, "aAssessment": "", "bAssessment": "", "reasoning": "", "winner": winner}
        for name, winner in zip(NAMES, criteria, strict=True)
    ]
    result = {"reasoning": "", "differentiators": [], "winner": overall, "confidence": 0.8}
    return json.dumps(
        {"analysis": {}, "comparison": compared, "result": result}, separators=(",", ":")
    )


def read(settings: RunConfig, completion: Completion, place: int = 0) -> Judgment | JudgeRequest:
    evaluator = make_evaluator(settings)
    request = evaluator.plan(CASE)[place]
    return evaluator.read(JudgeRequest(**{**_fields(request), "judge": "m"}), completion)


def _fields(request: JudgeRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in JudgeRequest.__dataclass_fields__}


def judged(*args: Any) -> Judgment:
    judgment = read(*args)
    assert isinstance(judgment, Judgment)
    return judgment


SCORED = spelt(scores(4, 2), {"4": 0.6, "2": 0.2}, {"2": 0.5, "1": 0.25, "x": 0.25}, at=',"score":')
COMPARED = spelt(
    winners("A", "B", "TIE"),
    {"B": 0.9, "A": 0.1},
    {"T": 0.5, "A": 0.3, "B": 0.2},
    {"A": 0.7, "B": 0.1},
    at='"winner":"',
)


def test_scores_are_expectations_each_by_its_own_place():
    judgment = judged(pointwise(), SCORED)
    assert judgment.status == "ok"
    assert judgment.criteria == {"accuracy": 4, "tone": 2}
    assert judgment.weighted.criteria == pytest.approx({"accuracy": 3.5, "tone": 5 / 3})
    assert judgment.weighted.value is None
    assert judgment.weighted.mass == pytest.approx(0.75)
    assert judgment.weighted.open == 0


@pytest.mark.parametrize(("place", "side"), [(0, 1.0), (1, -1.0)])
def test_margins_are_p_of_a_less_p_of_b_unswapped(place, side):
    judgment = judged(config(), COMPARED, place)
    assert judgment.value == side
    assert judgment.weighted.value == pytest.approx(side * 0.75)
    assert judgment.weighted.criteria == pytest.approx(
        {"accuracy": side * -0.8, "tone": side * 0.1}
    )
    assert judgment.weighted.mass == pytest.approx(0.8)


def test_a_forbidden_tie_has_no_weight():
    text = spelt(
        winners("A", "B", "A"),
        {"B": 0.9, "A": 0.1},
        {"A": 1.0},
        {"A": 0.5, "B": 0.1, "T": 0.4},
        at='"winner":"',
    )
    judgment = judged(config(tie={"allow": False}), text)
    assert judgment.weighted.value == pytest.approx(4 / 6)


def test_without_being_asked_for_nothing_is_weighed():
    judgment = judged(config(judge={"model": "a/m"}), COMPARED)
    assert judgment.weighted is None


@pytest.mark.parametrize("settings", [pointwise(), config()], ids=["pointwise", "pairwise"])
def test_a_provider_that_gives_none_stops_the_run(settings):
    text = scores(4, 2) if settings.mode.name == "pointwise" else winners("A", "B", "TIE")
    with pytest.raises(JudgeSetupError, match=r"judge\.logprobs: judge m returned no"):
        read(settings, Completion(text, rung="tool"))


def test_an_unreadable_answer_without_them_is_asked_for_again_first():
    assert isinstance(read(config(), Completion("hm")), JudgeRequest)


def test_tokens_that_do_not_spell_the_decision_make_it_unreadable_and_no_further_ask_mends_that():
    other = SCORED.logprobs
    assert other is not None
    judgment = judged(pointwise(), Completion(scores(4, 3), logprobs=other))
    assert (judgment.status, judgment.error_kind) == ("unparseable", "logprobs")


@pytest.mark.parametrize("logprobs", [None, (), SCORED.logprobs])
def test_with_fallback_a_judgment_without_them_is_as_stated_and_says_so(logprobs):
    settings = pointwise(judge={"model": "a/m", "logprobs": "fallback"})
    judgment = judged(settings, Completion(scores(4, 3), logprobs=logprobs))
    assert (judgment.status, judgment.weighted, judgment.criteria["tone"]) == ("ok", None, 3)
    assert judged(settings, SCORED).weighted is not None


def test_each_judge_of_a_panel_and_the_arbiter_have_a_setting_of_their_own():
    panel = {"judges": [{"model": "a/m"}, {"model": "a/n", "logprobs": True}]}
    arbiter = {"model": "a/o", "logprobs": "fallback"}
    evaluator = make_evaluator(
        config(judge=panel, swap={"arbiter": arbiter, "resolve": "third_pass"})
    )
    request = _fields(evaluator.plan(CASE)[0])
    weighed = {}
    for judge in ("m", "n", "o"):
        judgment = evaluator.read(JudgeRequest(**{**request, "judge": judge}), COMPARED)
        assert isinstance(judgment, Judgment)
        weighed[judge] = judgment.weighted is not None
    assert weighed == {"m": False, "n": True, "o": True}


def test_a_repaired_answer_has_no_place_to_look_at():
    broken = scores(4, 2).replace('\\"score\\":', "").removesuffix("}")
    tokens = tuple(TokenLogprob(char, 0.0, ((char, 0.0),)) for char in broken)
    assert judged(pointwise(), Completion(broken, logprobs=tokens)).error_kind == "logprobs"


@pytest.mark.parametrize(("settings", "said"), [
    ({"output": {"format": "bracket"}}, r"judge\.logprobs: decisions are located.*'bracket'"),
    (
        {
            "judge": {"model": "a/m"},
            "output": {"format": "bracket"},
            "swap": {"arbiter": {"model": "x", "logprobs": True}},
        },
        r"judge\.logprobs: decisions are located",
    ),
    ({"swap": {"arbiter": {"model": "b/m"}}}, r"swap\.arbiter: 'm' is also the judge's name"),
    ({"swap": {"arbiter": {"judges": [{"model": "b/x"}]}}}, "arbiter is a panel: choose a"),
])  # fmt: skip
def test_what_cannot_be_weighed_or_asked_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        config(**settings)


def test_a_mode_that_cannot_weigh_or_follow_is_refused():
    with pytest.raises(ConfigError, match=r"judge\.logprobs: mode 'listwise' does not support"):
        make_evaluator(config(mode={"name": "listwise"}))
    with pytest.raises(ConfigError, match=r"swap\.resolve: mode 'listwise' does not support"):
        make_evaluator(
            config(judge={"model": "m"}, mode={"name": "listwise"}, swap={"resolve": "third_pass"})
        )
