"""The figures: drawn where there is something to draw, at the right places, and deaf to markup in their texts."""

import re
from dataclasses import replace
from importlib.resources import files
from math import hypot, inf, nan
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.core.types import Case, Completion, Judgment, Metric, Orders, Response, Usage, Verdict
from evalkit.report.counts import LengthClass, RunCounts, Spending
from evalkit.report.figures.curves import frontier, lengths, reliability
from evalkit.report.figures.drawing import Axis, Figure, canvas, node, text
from evalkit.report.figures.forest import LEFT, RIGHT, Row, forest_figure, main_figures
from evalkit.report.figures.systems import costs, cycles, ranking
from evalkit.report.page import alone
from evalkit.report.texts import FIGURES, LABELS

ATTACK = "\"><script>alert(1)</script>' onload='alert(2)"


def drawn(figure) -> ElementTree.Element:
    root = ElementTree.fromstring(str(figure.svg))
    assert root.tag == "svg"
    assert not [
        e
        for e in root.iter()
        if e.tag == "script" or any(name.startswith("on") for name in e.attrib)
    ]
    return root


def test_a_pale_row_has_no_frame_and_no_bold_text():
    """A stroke of a group is that of its texts and of the rectangle that answers the pointer, too."""
    rows = [Row(("rate", "比率"), Metric("rate", 0.5, 0.4, 0.6, 9, 0, 0.5, 0.5), faint=True)]
    groups = {
        e.get("class")
        for e in drawn(forest_figure("rates", FIGURES["rates"], rows, 0.0, 1.0)).iter("g")
    }
    assert "faint" in groups
    css = (files("evalkit.report") / "assets" / "report.css").read_text("utf-8")
    for selectors, style in re.findall(r"([^{}]+)\{([^{}]*)\}", css):
        names = {one.split()[-1] for one in selectors.split(",")}
        assert not ({f".{name}" for name in groups} & names and "stroke:" in style), selectors


def dots(figure, class_: str = "dot") -> list[tuple[float, float]]:
    found = [e for e in drawn(figure).iter("circle") if class_ in (e.get("class") or "").split()]
    return [(float(e.attrib["cx"]), float(e.attrib["cy"])) for e in found]


def texts(figure) -> list[str]:
    return [e.text or "" for e in drawn(figure).iter("text")]


def test_a_figure_alone_is_an_svg_document_in_one_language_and_light():
    figure = Figure(
        "costs",
        ("Cost", "成本"),
        canvas(100, 50, text(1, 2, ("a\x01", "甲"), "tick"), label=("C", "成")),
        ("", ""),
    )
    for language, hidden, title in (("en", "zh", "Cost"), ("zh", "en", "成本")):
        document = alone(figure, language)
        root = ElementTree.fromstring(document)
        name = "{http://www.w3.org/2000/svg}"
        assert root.tag == f"{name}svg"
        assert (root.get("width"), root.get("height"), root.get("viewBox")) == (
            "132",
            "122",
            "-16 -56 132 122",
        )
        assert root.findtext(f"{name}text") == title
        style = root.findtext(f"{name}style")
        assert f"svg .{hidden} {{ display: none; }}" in style
        assert "svg .tick { text-anchor: middle; fill: #5d6166;" in style
        assert "var(" not in style
        assert "light-dark" not in style
        assert "a�" in document


def numbers(value, low=None, high=None):
    return {"value": value, "low": low, "high": high, "n": 10}


def test_text_and_attributes_are_escaped():
    element = node("text", ATTACK, node("b", "x"), class_=ATTACK, x=1.25, missing=None)
    parsed = ElementTree.fromstring(str(element))
    assert (parsed.text, parsed.get("class"), parsed.get("x"), "missing" in parsed.attrib) == (
        ATTACK,
        ATTACK,
        "1.2",
        False,
    )


def test_an_axis_has_round_ticks_and_keeps_values_inside():
    axis = Axis(0.0, 1.0, 100.0, 200.0)
    assert (axis(0.5), axis(-1), axis(2)) == (150, 100, 200)
    assert [label for _, label in axis.ticks()] == ["0", "0.25", "0.5", "0.75", "1"]
    assert [label for _, label in Axis(-530, 470, 0, 1).ticks()] == ["-500", "-250", "0", "250"]
    assert [label for _, label in Axis(0, 12_868, 0, 1).ticks(3)] == ["0", "5,000", "10,000"]


def test_main_rates_stand_where_their_numbers_are():
    (rates,) = main_figures({"agreement/accuracy": Metric("agreement/accuracy", 0.5, 0.0, 1.0)})
    ((x, _),) = dots(rates)
    (interval,) = [e for e in drawn(rates).iter("line") if e.get("class") == "ci"]
    assert (
        x == (LEFT + RIGHT) / 2 == (float(interval.attrib["x1"]) + float(interval.attrib["x2"])) / 2
    )
    assert main_figures({"score/mean": Metric("score/mean", 3.0)}) == []
    assert [
        f.name for f in main_figures({"agreement/kappa": Metric("agreement/kappa", 0.1, 0.0, 0.2)})
    ] == ["coefficients"]


def test_agreement_by_chance_stands_where_kappa_is_0():
    """2 of 3 right, a tie among them: by the shares of verdicts and labels chance gives 1/3, not 1/2."""
    known = {"agreement/accuracy": Metric("agreement/accuracy", 2 / 3, 0.1, 0.9)}
    found = {**known, "agreement/kappa": Metric("agreement/kappa", 0.5, -0.2, 0.9)}
    (mark,) = [e for e in drawn(main_figures(found)[0]).iter("line") if e.get("class") == "chance"]
    assert float(mark.attrib["x1"]) == pytest.approx(LEFT + (RIGHT - LEFT) / 3, abs=0.1)
    (half,) = [e for e in drawn(main_figures(known)[0]).iter("line") if e.get("class") == "chance"]
    assert float(half.attrib["x1"]) == (LEFT + RIGHT) / 2


def test_reliability_puts_each_bin_at_its_confidence_and_accuracy():
    one = {
        "from": 0.5,
        "to": 0.6,
        "n": 4,
        "confidence": 0.5,
        "accuracy": 1.0,
        "low": 0.5,
        "high": 1.0,
    }
    two = one | {"confidence": 1.0, "accuracy": 0.0, "low": None, "high": None}
    found = dots(reliability({"stated": [one, two], "isotonic": [one]}))
    assert found[0][0] == pytest.approx((44 + 408) / 2)
    assert (found[1][0], found[0][1] < found[1][1]) == (408, True)
    assert reliability({"stated": []}) is reliability({}) is None


def test_the_frontier_marks_the_threshold_in_use():
    points = [
        {
            "threshold": t,
            "tie_rate": t,
            "accuracy": 0.5,
            "decided_accuracy": None,
            "weak_rate": None,
        }
        for t in (0.0, 0.5, 1.0)
    ]
    figure = frontier(points, 0.5)
    assert dots(figure) == [(226, dots(figure, "small")[0][1])]
    assert len(dots(figure, "small")) == 2
    assert len(dots(figure, "also0")) == 3, "dots have the colour of their line"
    assert frontier(points[:2], 0.0) is None
    assert frontier([one | {"accuracy": None} for one in points], 0.0) is None


def test_cycles_are_arrows_from_winner_to_loser():
    case = {
        "case_id": ATTACK,
        "responses": [0, 1, 2],
        "models": [ATTACK, "b", "c"],
        "cycles": [[0, 1, 2]],
        "reverse": [[2, 0]],
    }
    figure = cycles({"cases": [case] * 9})
    root = drawn(figure)
    graphs = [e for e in root if e.tag == "g"]
    assert len(graphs) == 6
    place = {}
    for knot in graphs[0].iter("g"):
        circle, name = knot.find("circle"), knot.find("text")
        if circle is not None:
            place[name.text] = (float(circle.attrib["cx"]), float(circle.attrib["cy"]))
    arrows = [e for e in graphs[0].iter("g") if (e.get("class") or "").startswith("arrow")]
    tips = {
        e.get("class"): tuple(map(float, e.find("polygon").attrib["points"].split()[0].split(",")))
        for e in arrows
    }
    nearest = min(
        place,
        key=lambda k: hypot(
            place[k][0] - tips["arrow reverse"][0], place[k][1] - tips["arrow reverse"][1]
        ),
    )
    assert (len(arrows), nearest) == (3, "A")
    assert cycles({"cases": []}) is None


def test_ranking_falls_back_to_win_rates():
    rated = {
        "systems": [
            {"system": name, "rating": numbers(r, r - 50, r + 50)}
            for name, r in ((ATTACK, 100), ("b", -100))
        ]
    }
    figure = ranking(rated)
    assert "100 [50, 150]" in texts(figure)
    assert dots(figure)[0][0] > dots(figure)[1][0]
    rates = {
        "systems": [{"system": s, "rating": numbers(None), "win_rate": numbers(0.5)} for s in "ab"]
    }
    assert ranking(rates).title == FIGURES["ranking_rates"][0]
    assert ranking({}) is ranking({"systems": rated["systems"][:1]}) is None


def test_tallies_count_lengths_passes_scores_and_what_answers_took():
    tallies = RunCounts()
    case = Case("c", "?", (Response("x" * 30, grade=4.0), Response("x" * 10)))
    verdicts = [
        Verdict("c", (0,), None, 3.0, "judged"),
        Verdict("c", (0, 1), "A", None, "judged", orders=Orders("A", "B", False)),
    ]
    completion = Completion("{}", usage=Usage(100, 10), cost_usd=0.5, latency=2.0)
    judgment = Judgment("c", (0, 1), (0, 1), 0, ATTACK, "ok", completion=completion)
    tallies.add(case, verdicts, [judgment, Judgment("c", (0, 1), (1, 0), 0, ATTACK, "failed")])
    assert tallies.passes == {("A", "B"): 1}
    assert tallies.lengths[3] == LengthClass(1, 1, 1)
    shared = RunCounts(cluster={"c": 0, "d": 0})
    for name in "cde":
        shared.add(replace(case, id=name), verdicts, [])
    assert shared.lengths[3] == LengthClass(3, 3, 2)
    assert (tallies.scores, tallies.grades) == ({3.0: 1}, {4.0: 1})
    spent = tallies.judges[ATTACK]
    assert (spent.answers, spent.cost_usd, spent.latency(0.9)) == (1, 0.5, 2.0)
    said = " ".join(texts(costs(tallies.judges, 1)))
    assert "$0.50 per case · 2 s" in said
    assert costs({"m": Spending()}, 1) is None
    assert dots(lengths(tallies.lengths, 0.95))[0][1] == 30, "the longer one always won"


def test_every_figure_and_label_is_in_both_languages():
    said = [words for pair in FIGURES.values() for words in pair] + list(LABELS.values())
    assert all(english and re.search("[一-鿿%]", chinese) for english, chinese in said)


@pytest.mark.parametrize("name", FIGURES)
def test_a_caption_says_what_it_needs_without_another_figure(name):
    english, chinese = FIGURES[name][1]
    assert not re.search(r"(?i)\b(as|see) (above|below)|figure|chart", english)
    assert not re.search("同上|同下|上图|下图|见图", chinese)


@pytest.mark.parametrize(("winner", "longer"), [("A", 0), ("B", 1)])
def test_the_longer_response_wins_on_its_own_side(winner, longer):
    tallies = RunCounts()
    case = Case("c", "?", (Response("x" * 10), Response("x" * 30)))
    tallies.add(case, [Verdict("c", (0, 1), winner, None, "judged")], [])
    assert (tallies.lengths[3].decided, tallies.lengths[3].longer) == (1, longer)


@given(st.floats(), st.floats(), st.floats(), st.integers(1, 8))
@example(0.0, -868_451.0, 1.0, 3)
@example(0.0, inf, 1.0, 3)
@example(nan, 1.0, 1.0, 3)
@example(-1e308, 1e308, nan, 4)
@example(5.0, 5.0, 5.0, 4)
@example(0.0, 5e-324, 0.0, 4)
@example(1e16, 1e16 + 2, 1e16, 4)
def test_ticks_end_on_any_axis(low, high, value, count):
    axis = Axis(low, high, 100.0, 200.0)
    ticks = axis.ticks(count)
    assert len(ticks) <= 2 * count + 3
    assert all(100.0 <= place <= 200.0 for place, _ in ticks)
    assert 100.0 <= axis(value) <= 200.0
