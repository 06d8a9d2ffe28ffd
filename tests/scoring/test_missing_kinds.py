"""Missing answers by kind."""

from __future__ import annotations

import pytest

from evalkit.scoring import score_run


def rows_of(scores, metric="agreement/accuracy"):
    return {row["kind"]: row for row in scores.details["missing"] if row["metric"] == metric}


def test_each_kind_bounds_accuracy_by_itself(configure, make_case, judged, passes):
    cases = [make_case(str(k), label="A") for k in range(7)]
    judgments = [*passes("0", 1.0, 1.0), *passes("1", -1.0, -1.0)]
    for case, kinds in (("2", ("refused", "ok")), ("3", ("failed", "refused")), ("4", ("failed", "failed"))):
        for swapped, kind in enumerate(kinds):
            value = 1.0 if kind == "ok" else None
            error = "budget" if case == "4" else "timeout"
            judgments.append(
                judged(case, (0, 1), value, swapped=bool(swapped), status=kind, error_kind=None if value else error)
            )
    judgments += passes("5", None, 1.0)
    scores = score_run(configure(scoring={"bootstrap": 0}), cases, judgments)
    rows = rows_of(scores)
    assert {kind: row["missing"] for kind, row in rows.items()} == {
        "unparseable": 1,
        "refused": 2,
        "failed": 0,
        "budget": 1,
        "unasked": 1,
    }
    assert {row["value"] for row in rows.values()} == {0.5}
    assert (rows["refused"]["worst_low"], rows["refused"]["worst_high"]) == (1 / 4, 3 / 4)
    assert (rows["failed"]["worst_low"], rows["failed"]["worst_high"]) == (0.5, 0.5)
    every = scores.metrics["agreement/accuracy"]
    assert every.missing == sum(row["missing"] for row in rows.values())
    assert every.worst_low <= min(row["worst_low"] for row in rows.values())
    assert {row["missing"] for row in rows_of(scores, "agreement/accuracy_both_orders").values()} == {0, 1, 2}
    orders = rows_of(scores, "agreement/accuracy_per_order")
    # In the one order: right, wrong, refused, failed, budget, unparseable, unasked; in the other three are right.
    assert {kind: row["missing"] for kind, row in orders.items()} == {
        "unparseable": 1,
        "refused": 2,
        "failed": 1,
        "budget": 2,
        "unasked": 2,
    }
    assert orders["refused"]["value"] == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert orders["refused"]["worst_low"] == pytest.approx((1 / 3 + 3 / 5) / 2)
    assert orders["refused"]["worst_high"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    per_order = scores.metrics["agreement/accuracy_per_order"]
    assert per_order.missing == sum(row["missing"] for row in orders.values())
    assert per_order.value == pytest.approx(orders["failed"]["value"])


def test_a_missing_score_takes_its_pairs_with_it(pointwise, make_case, judged):
    cases = [make_case("c", "abc", grades=[1, 2, 3])]
    judgments = [judged("c", (0,), 1.0), judged("c", (1,), status="refused"), judged("c", (2,), 3.0)]
    rows = rows_of(score_run(pointwise(), cases, judgments))
    assert (rows["refused"]["n"], rows["refused"]["missing"]) == (1, 2)
    assert (rows["refused"]["worst_low"], rows["refused"]["worst_high"]) == (pytest.approx(1 / 3), 1)


def test_nothing_read_has_bounds_but_no_value(configure, make_case, passes):
    rows = rows_of(score_run(configure(), [make_case("c", label="A")], passes("c", None, None)))
    assert rows["unparseable"] == {
        "metric": "agreement/accuracy",
        "kind": "unparseable",
        "value": None,
        "n": 0,
        "missing": 1,
        "worst_low": 0.0,
        "worst_high": 1.0,
    }
    assert (rows["failed"]["worst_low"], rows["failed"]["worst_high"]) == (None, None)
    assert "missing" not in score_run(configure(), [make_case("c")], []).details
