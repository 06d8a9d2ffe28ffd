"""Orders drawn at random: each sample counts, whichever order it was drawn for."""

from __future__ import annotations

import pytest

from evalkit.scoring import score_run, verdicts_of


def test_no_sample_is_left_out_for_the_order_it_was_shown_in(configure, make_case, judged):
    config = configure(swap={"policy": "random"}, mode={"samples": 2})
    own, swapped = (
        judged("c", (0, 1), 1.0, confidence=0.9),
        judged("c", (0, 1), -1.0, swapped=True, sample=1, confidence=0.5),
    )
    scores = score_run(config, [make_case("c", label="TIE"), make_case("other")], [own, swapped])
    verdict = scores.verdicts[0]
    assert (verdict.winner, verdict.reason, verdict.margin) == ("TIE", "split", 0.0)
    assert verdict.confidence == pytest.approx(0.7)
    assert (verdict.orders.first, verdict.orders.second) == ("A", "B")
    assert (scores.metrics["position/first_rate"].value, scores.metrics["position/first_rate"].n) == (1.0, 2)
    assert "cannot be separated" not in scores.metrics["position/first_rate"].note


@pytest.mark.parametrize("swapped", [True, False])
def test_one_sample_decides_in_the_order_it_was_drawn_for(configure, make_case, judged, swapped):
    config = configure(swap={"policy": "random"})
    (verdict,) = verdicts_of(config, [make_case("c")], [judged("c", (0, 1), -1.0, swapped=swapped)])
    assert (verdict.winner, verdict.margin) == ("B", -1.0)
    (lost,) = verdicts_of(config, [make_case("c")], [judged("c", (0, 1), None, swapped=swapped)])
    assert (lost.winner, lost.reason) == (None, "missing")
