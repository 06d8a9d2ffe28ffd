from __future__ import annotations

import json
from dataclasses import replace

from evalkit.report.cases import case_data, flags, letter
from evalkit.types import Case, Judgment, Response, Verdict


def rows(result, **options):
    return json.loads(case_data(result, **options).json)


def test_flags_are_what_the_filters_ask_for(make_run):
    data = case_data(make_run(8))
    assert data.flags == {"all": 8, "missing": 2, "flip": 2, "tie": 2, "mismatch": 2}
    assert [row["flags"] for row in json.loads(data.json)][:4] == [[], ["missing"], ["flip", "tie"], ["mismatch"]]


def test_repeats_of_one_order_that_differ_are_a_disagreement():
    one = Judgment("c", (0, 1), (0, 1), 0, "m", "ok", value=1.0)
    assert flags((), (one, replace(one, sample=1, value=0.5))) == []
    assert flags((), (one, replace(one, sample=1, value=-0.5))) == ["disagreement"]
    assert flags((), (one, replace(one, shown=(1, 0), value=-1.0))) == []


def test_cycles_are_flagged_and_spelled_out(make_run):
    responses = tuple(Response(text) for text in "pqr")
    units = {(0, 1): "A", (1, 2): "A", (0, 2): "B"}
    circle = tuple(Verdict("c", unit, winner, None, "judged") for unit, winner in units.items())
    result = replace(make_run(0), cases=(Case("c", "?", responses),), verdicts=circle)
    (row,) = rows(result)
    assert row["cycles"] == "A > B > C > A"
    assert row["flags"] == ["cycle"]
    assert flags((*circle[:2], replace(circle[2], winner="TIE")), ()) == ["tie"]
    assert flags((*circle[:2], replace(circle[2], winner=None)), ()) == []


def test_winners_are_named_by_the_letters_of_their_responses(make_run):
    responses = tuple(Response(text) for text in "pqrs")
    verdict = Verdict("c", (1, 3), "B", None, "judged", label="A")
    result = replace(make_run(0), cases=(Case("c", "?", responses),), verdicts=(verdict,))
    (row,) = rows(result)
    assert (row["verdicts"][0]["unit"], row["verdicts"][0]["winner"], row["verdicts"][0]["label"]) == ("BD", "D", "B")
    assert [response["name"] for response in row["responses"]] == ["A", "B", "C", "D"]
    assert letter(26) == "27"


def test_json_cannot_end_its_script_element(make_run, attack):
    data = case_data(make_run(4))
    assert "<" not in data.json
    assert json.loads(data.json)[0]["responses"][0]["text"] == attack


def test_long_texts_are_cut_until_everything_fits_and_it_is_said(make_run):
    result = make_run(100, text="长" * 10_000)
    data = case_data(result, budget=400_000)
    assert len(data.json.encode()) <= 400_000
    assert (data.cut, data.left_out) == (True, 0)
    text = json.loads(data.json)[0]["responses"][0]["text"]
    assert text.startswith("长长")
    assert text.endswith(")")
    assert not case_data(make_run(4)).cut


def test_what_still_does_not_fit_leaves_plain_cases_out_first(make_run):
    data = case_data(make_run(400), budget=250_000)
    kept = json.loads(data.json)
    assert data.left_out == 400 - len(kept) > 0
    assert len(data.json.encode()) <= 250_000
    assert all(row["flags"] for row in kept)
    assert [row["id"] for row in kept] == sorted((row["id"] for row in kept), key=lambda name: int(name[1:]))


def test_votes_are_named_by_letters_too(make_run):
    votes = {"x": "A", "y": "TIE", "z": None}
    verdicts = (
        Verdict("c", (1, 2), "A", None, "judged", votes=votes),
        Verdict("c", (1,), None, 2.0, "judged", votes={"x": 2.0}),
    )
    result = replace(make_run(0), cases=(Case("c", "?", tuple(Response(text) for text in "pqr")),), verdicts=verdicts)
    (row,) = rows(result)
    assert [verdict["votes"] for verdict in row["verdicts"]] == [{"x": "B", "y": "TIE", "z": None}, {"x": 2.0}]
