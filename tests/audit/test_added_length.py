"""What a datasheet says of edits that also lengthen the text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evalkit.audit.metrics import Contrast, Outcome, length_sentence, words_added
from evalkit.audit.plan import edited
from evalkit.audit.probes import own_probes
from evalkit.config import RunConfig
from evalkit.core.translation import in_every_language
from evalkit.decision import Decision, Limit
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Case, Metric, Response
from tests.support.command_line import call_main

PROBES = own_probes()
CASES = [Case(f"c{n}", "?", (Response("One two three."), Response("Four five."))) for n in range(20)]
LONGER = Decision("rates", "leans", "pair", limits=(Limit("longer", Metric("length/slope_at_label", 1.0)),))
OPEN = Decision("unknown", "no_labels", "pair")


def outcome(name: str, shifts: Sequence[float], *, found: bool = True) -> Outcome:
    shift, no = np.array(shifts, dtype=float), np.zeros(len(shifts), dtype=bool)
    contrast = Contrast(PROBES[name], shift, shift, shift, shift, no, no, ~no, shift, shift)
    return Outcome(contrast, 0.001, 0.001, float(np.nan_to_num(shift).mean()), found, False, 0.1, len(shifts))


def said(
    shifts: Sequence[float],
    neutral: Sequence[float] | None,
    *,
    found: bool = True,
    words: int = 33,
    decision: Decision = OPEN,
) -> str | None:
    other = None if neutral is None else outcome("distractor", neutral, found=found)
    clusters = Clusters.each(len(shifts))
    added = {"padding": words, "distractor": 5}
    text = length_sentence(outcome("padding", shifts), other, added, decision, clusters, 0.05)
    return None if text is None else in_every_language(text)[0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_neutral_sentence_tells_whether_length_explains_an_effect(sign: int) -> None:
    strong, weak, none = ([sign * size] * 20 for size in (2.0, 1.0, 0.0))
    lead = "These edits also lengthen the text by 33 words; "
    assert said(strong, strong) == lead + (
        "a neutral sentence of 5 words moves it as much, as far as these cases show (distractor)."
    )
    assert said(weak, strong) == said(strong, strong)
    assert said(strong, weak) == lead + "a neutral sentence of only 5 words moves it too (distractor)."
    assert str(said(strong, weak, words=5)).endswith("5 words moves it too, but less (distractor).")
    assert said(strong, none, found=False) is None
    assert said(strong, [-shift for shift in weak]) is None
    assert str(said([sign, 0] * 10, [sign, 0] * 9 + [0, 0], found=False)).endswith(
        "the effect does not differ significantly from that of a neutral sentence of 5 words (distractor)."
    )


def test_a_preference_for_length_on_the_unedited_cases_counts_if_it_points_the_same_way() -> None:
    for size, words, expected in ((2.0, 33, True), (-2.0, 33, False), (2.0, 5, False)):
        text = said([size] * 20, [0.0] * 20, found=False, words=words, decision=LONGER)
        assert (text is not None) == expected
        assert text is None or text.endswith("on the unedited cases, length moves it in the same direction.")


@pytest.mark.parametrize("neutral", [None, [np.nan] * 20])
def test_without_a_neutral_sentence_it_names_the_probe_that_would_tell(neutral: Sequence[float] | None) -> None:
    assert said([1.0] * 20, neutral, words=1) == (
        "These edits also lengthen the text by 1 word; "
        "the probe distractor would show whether a neutral sentence has the same effect."
    )
    assert said([1.0] * 20, neutral, words=0) is None


@pytest.mark.parametrize("mode", ["pairwise", "pointwise"])
def test_words_are_counted_in_the_response_that_a_probe_edits(mode: str) -> None:
    config = RunConfig(judge={"model": "m"}, criteria=[{"name": "q"}], mode={"name": mode}, swap={"policy": "none"})
    names = ["distractor", "authority", "order", "truncated", "identity"]
    probes = [PROBES[name] for name in names if mode in PROBES[name].modes]
    chinese = [Case("zh", "？", (Response("一二三。"), Response("四五六。")))]
    for cases, distractor, identity in ((CASES, 5, 6), (chinese, 7, 10)):
        edits = [edit for case in cases for probe in probes if (edit := edited(case, probe, config)) is not None]
        added = words_added(config, cases, edits, probes)
        assert {*added} == {"distractor", "authority", "identity"}
        assert added["distractor"] == distractor
        assert added["identity"] == identity


@pytest.mark.parametrize(
    ("judge", "named"),
    [("length_biased", {"padding", "sentiment", "identity", "authority"}), ("authority", set())],
)
def test_a_judge_that_only_likes_length_is_told_from_one_that_falls_for_citations(
    judge: str, named: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path / "store.sqlite"))
    rows = [
        {
            "id": f"c{n}",
            "prompt": f"Question {n}?",
            "response": f"The answer to {n} is {'reason ' * (n % 8 + 3)}{7 * n}.",
        }
        for n in range(40)
    ]
    Path("texts.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    probes = "probe=[padding,sentiment,identity,authority,distractor]"
    planted = [f"judge=simulated/{judge}", "judge.params.strength=1", "judge.params.accuracy=1", "mode=pointwise"]
    data = ["dataset=file", "dataset.path=texts.jsonl", "tracking=none", "scoring.bootstrap=100"]
    call_main(capfd, "audit", *planted, *data, probes, "-q", "--output", "a")
    sheet = json.loads(Path("a/datasheet.json").read_bytes())
    texts = {probe["name"]: " ".join(text["text"] for text in probe["sentences"]) for probe in sheet["probes"]}
    assert {name for name, text in texts.items() if "These edits also lengthen the text by" in text} == named
    assert {name for name, text in texts.items() if "(distractor)." in text} == named
    assert {probe["name"] for probe in sheet["probes"] if probe["state"] == "falls"} >= (named or {"authority"})
    chinese = [text["text_zh"] for probe in sheet["probes"] for text in probe["sentences"]]
    assert sum("这些改动还" in text for text in chinese) == len(named)
    page = Path("a/datasheet.md").read_text("utf-8")
    assert page.count("These edits also lengthen") == len(named)
