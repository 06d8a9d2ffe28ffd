"""What a sweep concludes: one sentence that names a useful job or none, and no other sentence against it."""

import csv
import io
import json
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from evalkit.cli.leaderboard import print_leaderboard
from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.report.findings.decisions import USES
from evalkit.report.findings.finding import Finding
from evalkit.report.findings.sweeps import contest_findings
from evalkit.report.sweep_page import SweepFacts, render_sweep
from evalkit.scoring.leaderboard import Choice, Contender, Leaderboard, rank
from evalkit.scoring.pipeline import score_run
from evalkit.workflows.sweeps import as_csv, as_json
from tests.support.thorough import some_of

SCORING = ScoringConfig(bootstrap=200)
COSTS = {"good": 0.1, "equal": 0.01, "worse": 0.01, "leaning": 0.1, "missing": 0.1}
USEFUL = {"perfect", "good", "equal", "worse", "leaning"}
SCORES = (*COSTS, "perfect", "coin", "constant", "reversed")
PAIRS = (*SCORES, "splitting")
SIZES = (12, 400)
CLASSES = {-1.0: "fail", 1.0: "pass"}
CONCLUSIONS = ("Use ", "Do not choose yet", "Label ")


def answers(
    kind: str, truth: np.ndarray, labels: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return a judge's answers in both orders: each of `labels`, or NaN where its answer is missing."""
    random = np.random.default_rng(len(kind))
    answer, among = truth.astype(float), np.array(labels)
    shares = {"good": 0.04, "equal": 0.04, "worse": 0.3, "leaning": 0.3, "missing": 0.7}
    if kind in shares:
        other = {"leaning": among.max(), "missing": np.nan}.get(kind, random.permutation(truth))
        answer = np.where(random.random(len(truth)) < shares[kind], other, answer)
    elif kind == "coin":
        answer = random.choice(among, len(truth))
    elif kind == "constant":
        answer = np.full(len(truth), among.max())
    elif kind == "reversed":
        answer = among.max() + among.min() - answer
    second = answer if kind != "splitting" else random.choice(among, len(truth))
    return (random.choice(among, len(truth)) if kind == "splitting" else answer), second


@cache
def job(kind: str, mode: str, n: int, labeled: bool) -> Contender:
    """Score a judge of a kind whose answers are constructed."""
    random = np.random.default_rng(n)
    labels = (1.0, 2.0, 3.0, 4.0, 5.0) if mode == "pointwise" else (-1.0, 1.0)
    truth = random.choice(np.array(labels), n)
    both = answers(kind, truth, labels)
    settings = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
    if mode == "pairwise":
        settings = {"swap": {"policy": "both"}}
    elif mode == "classes":
        settings |= {
            "rubric": {"classes": {"pass": "good", "fail": "bad"}, "positive": "pass", "levels": {}}
        }
    config = RunConfig(judge={"model": "m"}, criteria=[{"name": "q"}], scoring=SCORING, **settings)
    cases, judgments = [], []
    for k, label in enumerate(truth):
        if mode == "pairwise":
            responses = (Response("one"), Response("two"))
            cases.append(
                Case(
                    f"c{k}", "?", responses, label=("A" if label > 0 else "B") if labeled else None
                )
            )
            shown = [((0, 1), (0, 1)), ((0, 1), (1, 0))]
        else:
            known = {"class_name": CLASSES[label]} if mode == "classes" else {"grade": float(label)}
            cases.append(Case(f"c{k}", "?", (Response("one", **(known if labeled else {})),)))
            shown = [((0,), (0,))]
        for (unit, order), values in zip(shown, both, strict=False):
            read = not np.isnan(values[k])
            given = {"status": "unparseable", "error": "?"}
            if read:
                named = (
                    {"class_name": CLASSES[values[k]]}
                    if mode == "classes"
                    else {"value": float(values[k])}
                )
                given = {"status": "ok", **named}
            judgments.append(Judgment(f"c{k}", unit, order, 0, "m", **given))
    scores = score_run(config, cases, judgments)
    cost = COSTS.get(kind, 0.001)
    metrics = {**scores.metrics, "cost/per_case": Metric("cost/per_case", cost, cost, cost, n)}
    return Contender(kind, kind, f"{mode} {n}", metrics, scores.verdicts)


def board(
    kinds: tuple[str, ...], mode: str = "pairwise", n: int = 400, *, labeled: bool = True
) -> Leaderboard:
    return rank([job(kind, mode, n, labeled) for kind in kinds], SCORING)


def named(finding: Finding, leaderboard: Leaderboard) -> set[str]:
    return {
        row.job
        for row in leaderboard.rows
        if row.name in finding.text.replace("significantly worse", "")
    }


def check(leaderboard: Leaderboard) -> Choice:
    """Check that the sentences of a sweep of one dataset state one conclusion, and agree with the decisions."""
    names = {row.job: row.name for row in leaderboard.rows}
    [choice] = leaderboard.choices
    first, *others = contest_findings(leaderboard, names, {})
    assert first.text.startswith(CONCLUSIONS)
    assert not any(finding.text.startswith(CONCLUSIONS) for finding in others), (
        "a second conclusion"
    )
    assert not any(
        words in finding.text for finding in others for words in ("better than chance", "is best")
    )
    decisions = {row.job: row.decision for row in leaderboard.rows}
    if choice.job is not None:
        assert decisions[choice.job.job].trusted
        assert choice.job.job in USEFUL
        # Of three or more, a lesser use may be what holds for the highest.
        use = choice.job.use_as_highest or choice.job.decision.use
        assert first.text.startswith(f"Use {choice.job.name} ({USES[use].message}): ")
        assert choice.job.name in first.text_zh
    for start, use in (("Do not trust ", "none"), ("Not decided about ", "unknown")):
        listed = [
            named(finding, leaderboard) for finding in others if finding.text.startswith(start)
        ]
        of_use = {
            row for row, one in decisions.items() if one.use == use and one.reason != "no_labels"
        }
        shown = set.union(set(), *listed)
        assert shown == of_use or (len(of_use) > 4 and shown < of_use)
    return choice


@pytest.mark.slow
@pytest.mark.parametrize("n", some_of(SIZES, 2))
@pytest.mark.parametrize(
    ("mode", "kinds"), [("pairwise", PAIRS), ("pointwise", SCORES), ("classes", SCORES)]
)
def test_a_sweep_names_a_useful_job_or_none_and_contradicts_itself_nowhere(
    mode, kinds, n, thorough
):
    for size in (2, 3) if thorough and n == max(SIZES) else (2,):
        for some in combinations(kinds, size):
            choice = check(board(some, mode, n))
            if n == max(SIZES):
                assert (choice.job is not None) == bool(USEFUL & {*some}), some
    check(board(kinds, mode, n))
    assert check(board(kinds, mode, n, labeled=False)).job is None


@pytest.mark.parametrize(
    ("kinds", "reason", "use"),
    [
        (("good", "coin"), "only", "good"),
        (("good", "worse", "coin"), "best", "good"),
        (("worse", "leaning"), "highest", None),
        (("good", "equal"), "cheaper", "equal"),
        (("coin", "reversed", "splitting"), "none", None),
        (("coin", "missing"), "undecided", None),
    ],
)
def test_each_reason(kinds, reason, use):
    choice = board(kinds).choices[0]
    assert choice.reason == reason
    if use is not None or reason != "highest":
        assert (choice.job.job if choice.job else None) == use


@pytest.mark.parametrize("mode", ["pairwise", "pointwise", "classes"])
def test_a_perfect_judge_is_recommended_in_one_statement(mode):
    leaderboard = board(("perfect", "coin", "reversed"), mode, 300)
    first, *others = [
        one.text
        for one in contest_findings(leaderboard, {row.job: row.job for row in leaderboard.rows}, {})
    ]
    assert first.startswith("Use perfect (single verdicts): the only one shown to be useful; ")
    limits, *others = others
    assert limits.startswith("Limits of perfect: ")  # it equals the labels everywhere
    assert not any("perfect" in text for text in others if "order is swapped" not in text)
    assert others[0].startswith("Do not trust 2 of 3: ")


def test_a_job_of_lower_rank_is_named_for_what_the_first_is_not_good_for():
    first = job("good", "pairwise", 800, True)
    lean = Metric("decision/lean/a", 0.2, 0.15, 0.25, 800)
    leaning = replace(first, metrics={**first.metrics, lean.name: lean})
    found = rank([leaning, job("worse", "pairwise", 800, True)], SCORING)
    text = contest_findings(found, {"good": "good", "worse": "worse"}, {})[0]
    assert text.text.startswith("Use good (rates, corrected by labels): best by accuracy")
    assert text.text.endswith(
        " For single verdicts, use worse: good is not shown to be good for them."
    )
    assert "请使用 worse" in text.text_zh


def test_a_cheaper_job_that_can_be_used_for_less_is_not_recommended():
    leaning = job("leaning", "pairwise", 400, True)
    cheap = Contender(
        "cheap",
        "cheap",
        leaning.dataset,
        {**leaning.metrics, "cost/per_case": Metric("cost/per_case", 0.001)},
        job("good", "pairwise", 400, True).verdicts,
    )
    leaderboard = rank([job("good", "pairwise", 400, True), cheap], SCORING)
    assert leaderboard.rows[1].non_inferior
    assert leaderboard.choices[0].job.job == "good"


def test_without_labels_it_says_what_to_label():
    leaderboard = board(("good", "coin"), labeled=False)
    first = contest_findings(leaderboard, {"good": "x", "coin": "y"}, {})[0]
    assert first.text.startswith(
        "Label about 170 pairs first: without labels, nothing shows which configuration"
    )
    assert leaderboard.choices[0].top.decision.labels_needed is not None


def test_the_terminal_the_page_and_the_files_have_each_decision_and_the_same_sentence(
    capsys, tmp_path
):
    leaderboard = board(("good", "leaning", "coin", "reversed", "missing"))
    names = {row.job: row.name for row in leaderboard.rows}
    [sentence, *others] = [finding.text for finding in contest_findings(leaderboard, names, {})]
    print_leaderboard(leaderboard, [tmp_path / "leaderboard.csv"])
    printed = capsys.readouterr().out
    assert " ".join(printed.split()).endswith(sentence)
    assert others[0].startswith("Do not trust 2 of 5: ")
    assert "coin (no more than chance)" in others[0]
    assert "reversed (less than chance: are the labels reversed?)" in others[0]
    assert others[0] in " ".join(printed.split())
    assert others[1] in " ".join(printed.split())
    assert "missing (missing answers)" in others[1]
    content = json.loads(as_json(leaderboard))
    assert [choice["text"] for choice in content["choices"]] == [sentence]
    assert content["choices"][0]["job"] == "good"
    table = {
        row["job"]: (row["decision"], row["reason"])
        for row in csv.DictReader(io.StringIO(as_csv(leaderboard)))
    }
    assert table == {row.job: (row.decision.use, row.decision.reason) for row in leaderboard.rows}
    page = render_sweep(leaderboard, SweepFacts("study"))
    for use in {row.decision.use for row in leaderboard.rows}:
        assert USES[use].message in page
        assert USES[use].message.split()[0] in printed


def test_each_dataset_has_a_sentence_of_its_own(capsys, tmp_path):
    jobs = [job(kind, "pairwise", n, True) for n in (60, 400) for kind in ("leaning", "coin")]
    print_leaderboard(rank(jobs, SCORING), [tmp_path / "leaderboard.csv"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "pairwise 60: Use leaning" in printed
    assert "pairwise 400: Use leaning" in printed
