from __future__ import annotations

import json
from dataclasses import replace

from evalkit.report.case_list import BUDGET, CaseData, PageBudget, flags, letter, select_cases
from evalkit.types import Case, Judgment, Response, Verdict


def case_data(result, asked=None, budget: int = BUDGET) -> CaseData:
    embedding = PageBudget(asked, budget=budget)
    for each in select_cases(result.cases, result.verdicts, result.judgments):
        embedding.add(*each)
    return embedding.data()


def rows(result, **options):
    return json.loads(case_data(result, **options).json)["cases"]


def test_flags_are_what_the_filters_ask_for(make_run):
    data = case_data(make_run(8))
    assert data.flags == {"all": 8, "missing": 2, "flip": 2, "tie": 2, "mismatch": 2}
    assert [row["flags"] for row in json.loads(data.json)["cases"]][:4] == [
        [],
        ["missing"],
        ["flip", "tie"],
        ["mismatch"],
    ]


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
    assert json.loads(data.json)["cases"][0]["responses"][0]["text"] == attack


def test_every_case_is_listed_and_as_many_as_fit_have_all_their_texts(make_run):
    result = make_run(100, text="长" * 2_000)
    data = case_data(result, budget=300_000)
    found = json.loads(data.json)["cases"]
    assert len(data.json.encode()) <= 300_000
    assert (data.total, data.left_out, data.whole + data.short) == (100, 0, 100)
    assert data.whole == sum("short" not in row for row in found) > 20
    whole = next(row for row in found if "short" not in row)
    assert whole["responses"][0]["text"] == "长" * 2_000
    assert len(whole["judgments"]) == 2
    short = next(row for row in found if "short" in row)
    assert short["responses"][0]["text"] == "长" * 200 + "… (+1,800)"
    assert "judgments" not in short
    assert data.flags["all"] == 100
    assert case_data(make_run(4)).short == 0


def test_filters_take_turns_for_the_places_with_all_texts(make_run):
    data = case_data(make_run(100, text="x" * 5_000), budget=300_000)
    whole = [row["flags"] for row in json.loads(data.json)["cases"] if "short" not in row]
    kinds = [sum(flag in row for row in whole) for flag in ("missing", "flip", "mismatch")]
    assert [] not in whole
    assert max(kinds) - min(kinds) <= 1


def test_one_huge_case_does_not_take_the_others_places(make_run):
    result = make_run(8)
    huge = replace(result.cases[1], responses=tuple(Response("y" * 20_000) for _ in range(40)))
    data = case_data(replace(result, cases=(result.cases[0], huge, *result.cases[2:])), budget=300_000)
    assert [row.get("short", False) for row in json.loads(data.json)["cases"]] == [False, True] + [False] * 6
    long = replace(result, cases=(replace(result.cases[0], prompt="z" * 50_000), *result.cases[1:]))
    assert rows(long)[0]["prompt"] == "z" * 20_000 + "… (+30,000)"


def test_what_still_does_not_fit_leaves_plain_cases_out_first(make_run):
    data = case_data(make_run(400), budget=180_000)
    kept = json.loads(data.json)["cases"]
    assert data.left_out == 400 - len(kept) > 0
    assert len(data.json.encode()) <= 180_000
    assert all(row["flags"] for row in kept)
    assert [row["id"] for row in kept] == sorted((row["id"] for row in kept), key=lambda name: int(name[1:]))


def test_judgments_that_are_not_in_case_order_find_their_cases(make_run):
    result = make_run(8)
    turned = replace(result, judgments=result.judgments[::-1], verdicts=result.verdicts[::-1])
    assert [len(row["judgments"]) for row in rows(turned)] == [2] * 8
    assert [row["flags"] for row in rows(turned)] == [row["flags"] for row in rows(result)]


def test_votes_are_named_by_letters_too(make_run):
    votes = {"x": "A", "y": "TIE", "z": None}
    verdicts = (
        Verdict("c", (1, 2), "A", None, "judged", votes=votes),
        Verdict("c", (1,), None, 2.0, "judged", votes={"x": 2.0}),
    )
    result = replace(make_run(0), cases=(Case("c", "?", tuple(Response(text) for text in "pqr")),), verdicts=verdicts)
    (row,) = rows(result)
    assert [verdict["votes"] for verdict in row["verdicts"]] == [{"x": "B", "y": "TIE", "z": None}, {"x": 2.0}]
