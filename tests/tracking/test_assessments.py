"""What people said stands beside what the judge said: each person's label, and the one that the judge is held to."""

import pytest

from evalkit.core.types import Case, Judgment, Response, Verdict
from evalkit.tracking.traces import assess

TEXTS = (Response("4"), Response("5", grade=2.5))


def by_people(case: Case | None, verdict: Verdict) -> list[tuple[str, str, str, object]]:
    judgment = Judgment("c", verdict.unit, verdict.unit, 0, "m", "ok", value=1.0)
    return [
        (type(one).__name__, one.name, one.source.source_id, one.value)
        for one in assess(judgment, verdict, case, "m")
        if one.source.source_type == "HUMAN"
    ]


@pytest.mark.parametrize(
    ("case", "verdict", "said"),
    [
        (
            Case("c", "2+2?", TEXTS, label="A", labels={"ann": "A", "bob": "TIE"}),
            Verdict("c", (0, 1), "A", None, "judged", label="A"),
            [
                ("Feedback", "better response", "ann", "A"),
                ("Feedback", "better response", "bob", "TIE"),
                ("Expectation", "label", "label", "A"),
            ],
        ),
        (
            Case("c", "2+2?", TEXTS, label="A"),
            Verdict("c", (0, 1), "A", None, "judged", label="A"),
            [("Feedback", "better response", "label", "A"), ("Expectation", "label", "label", "A")],
        ),
        (
            Case("c", "2+2?", TEXTS, labels={"ann": (4.0, 2.0), "bob": (None, None)}),
            Verdict("c", (1,), None, 3.0, "judged"),
            [("Feedback", "grade", "ann", 2.0), ("Expectation", "label", "label", 2.5)],
        ),
        (
            Case("c", "2+2?", (Response("4"), Response("5"))),
            Verdict("c", (0, 1), "A", None, "judged"),
            [],
        ),
        (None, Verdict("c", (0, 1), "A", None, "judged"), []),
    ],
)
def test_people_are_told_apart(case, verdict, said):
    assert by_people(case, verdict) == said


def test_choices_of_the_first_pair_say_nothing_of_another():
    case = Case("c", "2+2?", (*TEXTS, Response("6")), label="A", labels={"ann": "A"})
    assert by_people(case, Verdict("c", (1, 2), "A", None, "judged")) == []


@pytest.mark.parametrize(
    ("said", "verdict", "shown"),
    [
        ("pass", Verdict("c", (1,), None, None, "judged", label="fail", class_name="pass"), "pass"),
        ("unsure", Verdict("c", (1,), None, None, "abstained", label="fail"), "abstained"),
        ("pass", Verdict("c", (1,), None, None, "split", label="fail"), "none"),
    ],
)
def test_a_class_is_the_judgment_the_verdict_and_the_label(said, verdict, shown):
    texts = (Response("4"), Response("5", class_name="fail"))
    case = Case("c", "2+2?", texts, labels={"ann": ("pass", "fail"), "bob": (None, None)})
    answer = {"reasoning": "It is wrong.", "class": said}
    judgment = Judgment("c", (1,), (1,), 0, "m", "ok", answer=answer, class_name=said)
    found = {one.name: one for one in assess(judgment, verdict, case, "m")}
    assert (found["judgment"].value, found["judgment"].rationale) == (said, "It is wrong.")
    assert (found["verdict"].value, found["verdict"].rationale) == (shown, verdict.reason)
    assert (found["class"].value, found["class"].source.source_id) == ("fail", "ann")
    assert found["label"].value == "fail"
