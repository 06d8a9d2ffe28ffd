"""The page on a sweep: what it says of a leaderboard, and what it draws of it."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric, Orders, Verdict
from evalkit.report.figures.sweep_figures import by_metric
from evalkit.report.findings.sweeps import contest_findings
from evalkit.report.sweep_page import SweepFacts, _short, render_sweep, settings_of
from evalkit.scoring.decision import ONE_ORDER, Decision
from evalkit.scoring.leaderboard import Contender, Contradiction, Leaderboard, rank

ATTACK = (
    "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
)
NAMES = (
    "judge.model=large, swap=both",
    "judge.model=small, swap=both",
    "judge.model=coin, swap=none",
)


def board(
    rates=(0.95, 0.94, 0.5), costs=(0.1, 0.02, 0.001), names=NAMES, datasets=("d", "d", "d"), n=200
) -> Leaderboard:
    """Jobs that are right as often as `rates` say."""
    jobs = []
    for job, (rate, cost, name, data) in enumerate(zip(rates, costs, names, datasets, strict=True)):
        right = [k < round(rate * n) for k in range(n)]
        verdicts = [
            Verdict(
                f"c{k}",
                (0, 1),
                "A" if hit else "B",
                None,
                "judged",
                label="A",
                orders=Orders("A", "A", True),
            )
            for k, hit in enumerate(right)
        ]
        share = sum(right) / n
        metrics = {
            "agreement/accuracy": (share, share - 0.05, min(1.0, share + 0.05)),
            "agreement/accuracy_decided": (share, share - 0.05, min(1.0, share + 0.05)),
            "agreement/kappa": (2 * share - 1, 2 * share - 1.1, 2 * share - 0.9),
            "position/consistency": (rate, rate - 0.1, rate),
            "position/first_rate": (0.6, 0.55, 0.65) if job == 2 else (0.5, 0.4, 0.6),
            "cost/per_case": (cost, cost, cost),
        }
        jobs.append(
            Contender(
                str(job), name, data, {k: Metric(k, *v, n) for k, v in metrics.items()}, verdicts
            )
        )
    return rank(jobs, ScoringConfig(bootstrap=0))


def said(found: Leaderboard, names=("L", "S", "C"), datasets=None) -> list[str]:
    return [
        f.text
        for f in contest_findings(
            found, dict(zip("012", names, strict=True)), datasets or {"d": "data"}
        )
    ]


def test_the_best_its_equals_and_the_cheapest_of_them_come_first():
    texts = said(board())
    assert texts[0] == (
        "Use S (rates, corrected by labels): 20% of the cost of L (accuracy 0.95 [0.89, 1.00] as "
        "the highest of 3), "
        "not worse by more than 0.05: -0.010 [-0.042, 0.015]; $0.02 per case."
    )
    assert texts[1] == "Do not trust 1 of 3: C (no more than chance)."
    assert texts[2].startswith(
        "When the order is swapped, L keeps its verdict in 95% [85, 95] of pairs, C in 50%"
    )
    assert (
        texts[3]
        == "1 of 3 configurations clearly prefers the answer shown first, none the second: C."
    )
    assert said(board(costs=(0.1, 0.1, 0.001)))[0] == (
        "Use L (rates, corrected by labels): highest by accuracy, 0.95 [0.89, 1.00] "
        "as the highest of 3, of those shown to be useful; 1 of 2 others may be better; $0.10 per case."
    )


def test_one_that_is_told_apart_from_all_is_best_and_none_is_where_none_is():
    assert said(board((0.95, 0.8, 0.5)))[0].endswith(
        "best by accuracy, 0.95 [0.89, 1.00] as the highest of 3; every other is significantly "
        "worse or not to be trusted; $0.10 per case."
    )
    assert "the only one shown to be useful; right in 95%" in said(board((0.95, 0.5, 0.5)))[0]
    choices = (board(), board((0.95, 0.8, 0.5)), board((0.95, 0.5, 0.5)))
    assert all(len(said(choice)[0].split()) <= 33 for choice in choices)
    two = said(board((0.95, 0.94), (0.1, 0.1), NAMES[:2], ("d", "d")))[0]
    assert two.endswith("of those shown to be useful; the other may be better; $0.10 per case.")
    alike = said(replace(board((0.8, 0.8, 0.8), (0.1, 0.1, 0.1)), twins=()))[0]
    assert alike.endswith("; 2 of 2 others may be better; $0.10 per case.")


def test_the_highest_of_many_is_good_for_what_luck_does_not_explain():
    luck = contest_findings(
        board((0.652, 0.5, 0.4), n=1000), dict(zip("012", "LSC", strict=True)), {}
    )[0]
    assert luck.text.startswith("Do not choose yet: L seems useful (right in 65%")
    assert luck.text.endswith("but as the highest of 3 it may be so by luck; add labels.")
    (choice,) = board((0.652, 0.5, 0.4), n=1000).choices
    assert (choice.job, choice.reason, choice.top.job) == (None, "luck", "0")
    assert "3 个中最高者" in luck.text_zh
    found = board((0.95, 0.8, 0.5))
    first = replace(found.rows[0], use_as_highest="order")
    weaker = contest_findings(
        replace(found, rows=(first, *found.rows[1:])), dict(zip("012", "LSC", strict=True)), {}
    )[0]
    assert weaker.text.startswith("Use L (order only): best by accuracy")
    assert weaker.text.endswith(
        " By itself it would be good for rates, corrected by labels, but not as the highest of 3."
    )
    assert "3 个中最高者" in weaker.text_zh


def test_each_dataset_is_told_by_itself():
    texts = said(board(datasets=("d", "d", "e")), datasets={"d": "pairs", "e": "others"})
    assert {text.partition(":")[0] for text in texts} == {"pairs", "others"}
    assert "others: Use none of these configurations: no judge is to be trusted." in texts


def test_without_anything_to_rank_by_it_says_so():
    contenders = [Contender(str(k), "n", "d", {}, []) for k in range(2)]
    assert said(rank(contenders, ScoringConfig())) == [
        "Label some pairs first: without labels, nothing shows which configuration to use."
    ]


def test_every_sentence_is_in_both_languages():
    found = contest_findings(board(), dict(zip("012", "LSC", strict=True)), {})
    assert all(re.search("[一-鿿]", f.text_zh) and f.text_zh.endswith("。") for f in found)


@pytest.mark.parametrize(("name", "expected"), [
    ("swap=both, tie.threshold=0.5", {"swap": "both", "tie.threshold": "0.5"}),
    ("judge.judges=[a, b], +x=1", {"judge.judges": "[a, b]", "+x": "1"}),
    ("gpt-4o", {}),
])  # fmt: skip
def test_settings_are_read_from_names(name, expected):
    assert settings_of(name) == expected


def test_weights_of_several_criteria_are_told_apart_by_name():
    name = "criteria.accuracy.weight=0.3, criteria.instruction following.weight=0.1"
    settings = settings_of(name)
    assert settings == {
        "criteria.accuracy.weight": "0.3",
        "criteria.instruction following.weight": "0.1",
    }
    assert [_short(key, list(settings)) for key in settings] == [
        "accuracy.weight",
        "instruction following.weight",
    ]
    assert _short("criteria.accuracy.weight", ["criteria.accuracy.weight"]) == "weight"


def test_the_page_names_jobs_by_what_differs_and_links_to_their_pages():
    names = [f"{name}, tie.threshold=0" for name in NAMES]
    page = render_sweep(
        board(names=names), SweepFacts("study", datasets={"d": "data"}, pages=["0", "1"])
    )
    assert "large · swap=both" in page
    assert "coin · swap=none" in page, "of one key all are written alike"
    assert re.findall(r'href="([^"]*)"', page) == ["0/report.html", "1/report.html"]
    assert "tie.threshold=0</code>" in page
    assert "large · swap=both · " not in page
    assert page.index("not worse by more than") < page.index('id="board"')


def test_text_from_data_makes_no_markup():
    names = [f"judge.model={ATTACK}{k}, {ATTACK}={ATTACK}" for k in range(3)]
    facts = SweepFacts(ATTACK, started=ATTACK, datasets={"d": ATTACK}, pages=["0"], language="en")
    page = render_sweep(board(names=names), facts)
    assert page.count("<script") == 1
    assert "<img" not in page


def drawn(figure) -> ElementTree.Element:
    return ElementTree.fromstring(str(figure.svg))


@pytest.mark.parametrize("seconds", [0.000208, 0.02, 3.0, 1234.5678])
def test_every_value_is_inside_its_drawing(seconds):
    found = board()
    times = Metric("latency/per_case", seconds, seconds * 0.97, seconds * 1.5, 200)
    rows = [replace(row, metrics={**row.metrics, times.name: times}) for row in found.rows]
    drawing = drawn(by_metric(times.name, rows, dict(zip("012", "LSC", strict=True))))
    width = float(drawing.get("viewBox").split()[2])
    values = [one for one in drawing.iter("text") if one.get("class") == "value"]
    assert len(values) == 3
    assert all(float(one.get("x")) + 8 * len(one.text) <= width for one in values)


def test_one_metric_of_all_keeps_the_order_of_the_leaderboard():
    found = board()
    figure = by_metric("cost/per_case", found.rows, dict(zip("012", "LSC", strict=True)))
    names = [e.text for e in drawn(figure).iter("text") if e.get("class") == "name"]
    values = [e.text for e in drawn(figure).iter("text") if e.get("class") == "value"]
    assert (names, values[0]) == (["L", "S", "C"], "0.100 [0.100, 0.100]")
    assert by_metric("tie_rate", found.rows, {}) is None


@pytest.mark.parametrize(("cost", "chosen"), [(0.094, "S"), (0.096, "L")])
def test_a_few_per_cent_cheaper_is_no_reason(cost, chosen):
    assert said(board(costs=(0.1, cost, 0.001)))[0].startswith(f"Use {chosen} (")


def test_cheaper_jobs_that_may_be_worse_are_counted():
    texts = said(board((0.9, 0.86, 0.5)))
    assert texts[0].startswith("Use L (")
    assert (
        "One cheaper configuration is useful, but it is not shown to be within 0.05 of L: more cases could tell."
        in (texts)
    )


def test_useful_jobs_without_the_metric_that_ranks_are_named_but_not_chosen():
    found = board(costs=(0.1, 0.1, 0.1))
    found = replace(
        found, contrasts=(), rows=tuple(replace(row, letters=None) for row in found.rows)
    )
    assert (
        said(found)[0] == "2 configurations are shown to be useful, but no metric ranks them: L; S."
    )


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("missing", "Do not choose yet: fix the missing answers of L first."),
        (
            "picked",
            "Do not choose yet: the labels were picked; first label cases sampled at random.",
        ),
        ("one_class", "Do not choose yet: all labels are of one class; add labels of another."),
        (
            "undecided",
            "Do not choose yet: no configuration is shown to be useful; about 70 more labeled pairs would probably "
            "decide about L.",
        ),
        (
            "no_labels",
            "Label about 70 pairs first: without labels, nothing shows which configuration to use.",
        ),
    ],
)
def test_what_would_decide_is_said(reason, text):
    decision = Decision("unknown", reason, "pair", labels_needed=70)
    found = board()
    assert (
        said(replace(found, rows=tuple(replace(row, decision=decision) for row in found.rows)))[0]
        == text
    )


def lacking(found: Leaderboard, missing: dict[str, int]) -> Leaderboard:
    """The leaderboard with so many answers missing in some jobs."""
    rows = tuple(
        replace(
            row,
            metrics={
                name: replace(m, missing=missing.get(row.job, 0)) for name, m in row.metrics.items()
            },
        )
        for row in found.rows
    )
    return replace(found, rows=rows)


def test_many_missing_answers_are_reported_and_few_are_not():
    few = said(lacking(board(), {"0": 9}))
    assert not any("missing" in text for text in few)
    texts = said(lacking(board(), {"0": 100, "2": 50}))
    assert (
        texts[2]
        == "Many answers are missing in 2 of 3, and no metric counts them: L (33%); C (20%)."
    )
    [one] = [text for text in said(lacking(board(), {"1": 100})) if "missing" in text]
    assert one == "Many answers are missing in 1 of 3, and no metric counts them: S (33%)."


def having(found: Leaderboard, name: str, **values: tuple[float, float, float]) -> Leaderboard:
    """Return a leaderboard whose jobs have values and intervals of a metric."""
    own = {job.removeprefix("job"): Metric(name, *value, 200) for job, value in values.items()}
    rows = (
        replace(row, metrics={**row.metrics, **({name: own[row.job]} if row.job in own else {})})
        for row in found.rows
    )
    return replace(found, rows=tuple(rows))


def test_a_job_that_shows_one_order_only_prefers_no_position():
    found = board()
    note = f"{ONE_ORDER}: position and quality cannot be separated"
    rows = [
        replace(row, metrics={name: replace(one, note=note) for name, one in row.metrics.items()})
        for row in found.rows
    ]
    assert any("clearly prefer" in text for text in said(found))
    assert not any("clearly prefer" in text for text in said(replace(found, rows=(*rows,))))


def test_jobs_that_prefer_the_second_answer_are_counted_too():
    texts = said(having(board(), "position/first_rate", job0=(0.4, 0.35, 0.45)))
    assert (
        "Clear preferences of 3 configurations: 1 for the answer shown first, 1 for the second."
        in texts
    )


def test_jobs_that_prefer_longer_answers_are_named():
    values = {"job0": (0.2, 0.1, 0.3), "job1": (0.0, -0.1, 0.1), "job2": (0.3, 0.2, 0.4)}
    texts = said(having(board(), "length/slope_at_label", **values))
    assert (
        "2 of 3 configurations prefer longer answers beyond what the labels explain: L; C." in texts
    )


def test_of_many_jobs_with_missing_answers_the_worst_are_named():
    names = [f"judge.model={k}" for k in "abcdef"]
    many = replace(board((0.9,) * 6, (0.1,) * 6, names, ("d",) * 6), twins=())
    found = lacking(many, {str(k): 60 + k for k in range(6)})
    texts = [
        f.text
        for f in contest_findings(found, dict(zip("012345", "ABCDEF", strict=True)), {"d": "data"})
    ]
    [one] = [text for text in texts if "Many answers are missing in" in text]
    assert (
        "in 6 of 6, and no metric counts them: F (25%); E (24%); D (24%); C (24%) and 2 more."
        in one
    )


def test_scores_that_contradict_comparisons_are_reported():
    rate = Metric("between/contradiction", 0.25, 0.2, 0.3, 100)
    contradiction = Contradiction("0", "1", {"between/contradiction": rate})
    texts = said(replace(board(), contradictions=(contradiction,)))
    [one] = [text for text in texts if "contradict" in text]
    assert one.startswith(
        "Share of pairs, decided by both, in which scores contradict comparisons: L versus S: 25"
    )
