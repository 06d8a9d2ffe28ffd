from dataclasses import replace

from evalkit.evaluators.json_answers import rationale
from evalkit.tracking.traces import choose, label_of
from evalkit.types import Case, Response, Verdict


def test_every_kind_is_chosen_before_any_twice(make_result, tmp_path):
    result = make_result(tmp_path, cases=40)
    assert [j.case_id for j in choose(result, 8)] == ["c1", "c1", "c2", "c2", "c3", "c3", "c0", "c0"]
    assert choose(result, 8) == choose(result, 8)


def test_no_more_than_there_are_and_none_when_none_is_wanted(make_result, tmp_path):
    result = make_result(tmp_path, cases=4)
    assert len(choose(result, 100)) == 8
    assert choose(result, 0) == []


def test_judgments_without_a_verdict_are_not_lost(make_result, tmp_path):
    result = replace(make_result(tmp_path, cases=4), verdicts=())
    assert len(choose(result, 100)) == 8


def test_rationale_reads_both_answer_shapes():
    pair = {"comparison": [{"criterion": "x", "reasoning": "because"}], "result": {"reasoning": "overall"}}
    assert (rationale(pair, "x"), rationale(pair, "y"), rationale(pair)) == ("because", None, "overall")
    single = {"scores": {"x": {"score": 3, "justification": "fair"}}}
    assert rationale(single, "x") == "fair"
    assert rationale(None) is None
    assert rationale({"scores": "none"}, "x") is None


def test_the_label_of_a_single_response_is_its_grade():
    verdict = Verdict("c", (1,), None, 3.0, "judged")
    case = Case("c", "?", (Response("a"), Response("b", grade=4.5)))
    assert label_of(verdict, case) == 4.5
    assert label_of(replace(verdict, label=2.0), case) == 2.0
    assert label_of(replace(verdict, unit=(0, 1)), case) is None
