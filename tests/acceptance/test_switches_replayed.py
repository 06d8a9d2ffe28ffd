"""Every switch that fixed texts can answer, on replayed real judges, held against the stored texts read by hand."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.command_line import Commands, Done
from tests.support.replaying import Replay, replay_data
from tests.support.thorough import some_of

pytestmark = [pytest.mark.shared, pytest.mark.slow]

NAMED = re.compile(r"Output \(([ab])\)")
SIZE = 50
JUDGES = ("GPT-4-Vanilla", "ChatGPT-Vanilla_NoRules", "PaLM2-Vanilla")
Within = Callable[..., Done]
Winners = list[tuple[str | None, str | None]]


def stored(replay: Replay, model: str, size: int = SIZE) -> Winners:
    """The winner, A the first of the case, that each text names in each order; none where it names none."""
    judge, strategy = model.split("-V")
    lines = (
        (replay.manifests / f"Natural__{judge}__V{strategy}.jsonl")
        .read_text("utf-8")
        .splitlines()[:size]
    )
    found: Winners = []
    for case in map(json.loads, lines):
        sides = [NAMED.findall(case[order]) for order in ("ab", "ba")]
        first, second = ({"a": "A", "b": "B"}[side[-1]] if side else None for side in sides)
        found.append((first, {"A": "B", "B": "A", None: None}[second]))
    return found


@pytest.fixture
def judged(within, commands, replay, monkeypatch, tmp_path_factory):
    """Runs the first cases with overrides, and returns the verdicts; what tests ask alike is sent once."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path_factory.getbasetemp() / "replayed.sqlite"))

    def run(*overrides: str, model: str = JUDGES[1]) -> list[dict[str, Any]]:
        chosen = [f"judge.model=openai/{model}"] if model else []
        within(
            "run", *base(replay), *chosen, *overrides, "runner.max_unusable_rate=1", "--overwrite"
        )
        return rows(commands, "verdicts.jsonl")

    return run


def base(replay: Replay) -> list[str]:
    return [
        "dataset=file",
        f"dataset.path={replay_data('Natural')}",
        "dataset.fields={prompt: input, response_a: output_1, response_b: output_2}",
        "dataset.label_map={1: A, 2: B}",
        f"dataset.limit={SIZE}",
        "judge=openai_compatible",
        f"judge.api_base={replay.api_base}",
        "judge.transport=direct",  # test_llmbar.py asks through LiteLLM
        "output=regex",
        f"output.pattern='{NAMED.pattern.replace('([ab])', '(?P<winner>[ab])')}'",
        "tracking=none",
        "scoring.bootstrap=50",
        "hydra.run.dir=run",
    ]


def asked(replay: Replay, model: str) -> str:
    return f"model: openai/{model}, api_base: '{replay.api_base}', transport: direct"


def rows(commands: Commands, name: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (commands.folder / "run" / name).read_text("utf-8").splitlines()
    ]


def winners(verdicts: Sequence[dict[str, Any]]) -> list[str | None]:
    return [verdict["winner"] for verdict in verdicts]


def settled(first: str | None, second: str | None, otherwise: str | None) -> str | None:
    if first is None or second is None:
        return None
    return first if first == second else otherwise


def test_one_order_is_the_judges_word(judged, replay):
    assert winners(judged("swap=none")) == [first for first, _ in stored(replay, JUDGES[1])]


def test_a_random_order_is_one_of_the_two_and_balanced(judged, replay, commands):
    verdicts = judged("swap=random")
    shown = [judgment["shown"] for judgment in rows(commands, "judgments.jsonl")]
    orders = [order == [1, 0] for order in shown]
    assert winners(verdicts) == [
        pair[drawn] for pair, drawn in zip(stored(replay, JUDGES[1]), orders, strict=True)
    ]
    assert SIZE * 0.25 < sum(orders) < SIZE * 0.75


@pytest.mark.parametrize("language", some_of(["en", "zh"], 2))
@pytest.mark.parametrize("resolve", ["tie", "net_vote", "mean"])
def test_a_disagreement_of_two_orders_is_a_tie(judged, replay, resolve, language):
    verdicts = judged("swap=both", f"swap.resolve={resolve}", f"prompt={language}")
    texts = stored(replay, JUDGES[1])
    assert winners(verdicts) == [settled(first, second, "TIE") for first, second in texts]
    reasons = Counter(verdict["reason"] for verdict in verdicts)
    assert reasons["swap_disagreement"] == sum(first != second for first, second in texts) > 5
    assert {v["confidence"] for v in verdicts if v["reason"] == "swap_disagreement"} <= {0.5, None}


def test_what_cannot_be_read_is_missing_and_counts_0_in_a_net_vote(judged, replay):
    texts = stored(replay, JUDGES[2], 100)
    assert any(None in pair for pair in texts)
    by_tie = winners(judged("swap=both", "dataset.limit=100", model=JUDGES[2]))
    by_vote = winners(judged("swap=net_vote", "dataset.limit=100", model=JUDGES[2]))
    assert by_tie == [settled(first, second, "TIE") for first, second in texts]
    assert by_vote == [
        first or second if None in (first, second) else settled(first, second, "TIE")
        for first, second in texts
    ]


def test_a_third_pass_is_the_arbiters_word(judged, replay, commands):
    commands.write("conf/judge/wise.yaml", f"{{name: wise, {asked(replay, JUDGES[0])}}}")
    verdicts = judged("swap=third_pass", "+judge@swap.arbiter=wise")
    third = {
        judgment["case_id"]: {1.0: "A", -1.0: "B"}[judgment["value"]]
        for judgment in rows(commands, "judgments.jsonl")
        if judgment.get("arbiter")
    }
    texts, wise = stored(replay, JUDGES[1]), stored(replay, JUDGES[0])
    ids = [verdict["case_id"] for verdict in verdicts]
    differ = [id_ for id_, (first, second) in zip(ids, texts, strict=True) if first != second]
    assert sorted(third) == sorted(differ)
    assert all(third[id_] in wise[ids.index(id_)] for id_ in differ)
    assert winners(verdicts) == [
        first if first == second else third[id_]
        for id_, (first, second) in zip(ids, texts, strict=True)
    ]


def test_where_ties_are_forbidden_every_disagreement_is_forced(judged, replay):
    verdicts = judged("swap=both", "tie=forbid")
    texts = stored(replay, JUDGES[1])
    assert [v["winner"] for v in verdicts if v["reason"] != "forced"] == [
        a for a, b in texts if a == b
    ]
    assert {v["winner"] for v in verdicts if v["reason"] == "forced"} == {"A", "B"}


def test_a_threshold_is_free_and_makes_ties_of_small_margins(judged, replay, within):
    before = replay.stat()["requests"]
    alone = "store.url=alone.sqlite"
    judged("swap=both", alone)
    sent = replay.stat()["requests"] - before
    verdicts = judged("swap=mean", "tie.threshold=1", alone)
    assert sent == 2 * SIZE
    assert replay.stat()["requests"] - before == sent
    assert set(winners(verdicts)) <= {"TIE", None}


@pytest.mark.parametrize("vote", some_of(["majority", "mean", "median", "weighted"], 3))
def test_a_panel_votes_on_its_judges_verdicts(judged, replay, vote):
    members = ", ".join(f"{{name: {model}, {asked(replay, model)}}}" for model in JUDGES)
    verdicts = judged(
        "judge=panel",
        f"judge.judges=[{members}]",
        f"judge.vote={vote}",
        "judge.weights={GPT-4-Vanilla: 5}",
        model="",
    )
    value = {"A": 1.0, "B": -1.0, "TIE": 0.0}
    each = [[settled(a, b, "TIE") for a, b in stored(replay, model)] for model in JUDGES]
    for verdict, votes in zip(verdicts, zip(*each, strict=True), strict=True):
        there = [(value[one], 5.0 if judge == 0 else 1.0) for judge, one in enumerate(votes) if one]
        if len(there) < 2:
            assert verdict["winner"] is None
        elif vote == "majority":
            most = Counter(one for one in votes if one).most_common()
            tied = len(most) > 1 and most[0][1] == most[1][1]
            assert verdict["winner"] == ("TIE" if tied else most[0][0])
        else:
            margins = sorted(margin for margin, _ in there)
            middle = (margins[(len(margins) - 1) // 2] + margins[len(margins) // 2]) / 2
            mean = sum(margins) / len(margins)
            weighted = sum(m * w for m, w in there) / sum(w for _, w in there)
            total = {"mean": mean, "median": middle, "weighted": weighted}[vote]
            assert verdict["winner"] == ("TIE" if total == 0 else "A" if total > 0 else "B")


@pytest.mark.parametrize("take", some_of(["first", "last", "only"], 2))
def test_which_match_of_a_pattern_is_taken(judged, replay, take):
    model = "GPT-4-CoT"
    lines = (replay.manifests / "Natural__GPT-4__CoT.jsonl").read_text("utf-8").splitlines()[:SIZE]
    found = [NAMED.findall(json.loads(line)["ab"]) for line in lines]
    at = {"first": 0, "last": -1}
    expected = [
        None if not one or (take == "only" and len(one) > 1) else one[at.get(take, 0)].upper()
        for one in found
    ]
    verdicts = judged(
        "swap=none", f"output.take={take}", "runner.stop_if_useless=false", model=model
    )
    assert winners(verdicts) == expected


@pytest.mark.parametrize("format_", ["json", "bracket"])
def test_another_format_reads_nothing_into_these_texts(judged, commands, format_):
    verdicts = judged(
        f"output={format_}", "output.pattern=null", "dataset.limit=5", model=JUDGES[0]
    )
    assert set(winners(verdicts)) == {None}
    metrics = commands.metrics("run")["metrics"]
    assert metrics["missing/unparseable"]["value"] == 1
    assert metrics["agreement/accuracy"]["value"] is None
