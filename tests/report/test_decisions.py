"""The decision in words: could a reader draw a wrong conclusion? In both languages, by score and by metric."""

import re
from dataclasses import replace

import pytest

from benchmarks.decisions import JUDGES, metrics_of_run
from evalkit.cli.summary import print_summary
from evalkit.config import SwapConfig
from evalkit.core.translation import in_every_language
from evalkit.core.types import Metric
from evalkit.report.findings import findings, findings_of
from evalkit.report.findings.decisions import headline, limit_text, sentence
from evalkit.scoring.decision import Decision, Limit, decide
from tests.report.test_sentences import scored
from tests.support.thorough import some_of

ONE_ORDER = {"swap": SwapConfig(policy="none")}
GOOD = [("A", "A", "A"), ("B", "B", "B")]


def advice(metrics):
    """Return the first finding, after checks that hold for each in both languages."""
    finding = headline(metrics)
    assert finding.text.endswith(".")
    assert finding.text_zh.endswith("。")
    assert re.search("[一-鿿]", finding.text_zh)
    assert not re.search(
        "[a-z]{3}",
        re.sub(
            r"spearman|kappa|system-\d|tie|yes|fatal|safe|rude|dataset.label_source|swap.policy=both",
            "",
            finding.text_zh.lower(),
        ),
    )
    assert "{" not in finding.text + finding.text_zh
    assert all(len(one.split()) < 40 for one in re.split(r"\. (?=[A-Z])", finding.text))
    return finding


@pytest.mark.parametrize(("rows", "tone", "expected"), [
    (GOOD * 100 + [("A", "B", "B"), ("B", "A", "A")] * 5, "good",
     "Trust this judge for single verdicts on pairs"),
    (GOOD * 600 + [("A", "B", "B"), ("B", "A", "A")] * 200, "warn",
     "Trust this judge for rates over many pairs, not"),
    (GOOD * 20 + [("B", "A", "A")] * 10, "warn", ". But its verdicts favor A by 20 ["),
    (GOOD * 12, "warn", "Also, only 24 labels show this."),
    (GOOD * 2, "warn", " more pairs before you decide: "),
    ([("A", "A", "B"), ("B", "A", "B")] * 20, "bad",
     "swapping the order changes its verdict in 100% [91, 100] of"),
    ([("A", "TIE", "TIE"), ("B", "TIE", "TIE")] * 40, "bad",
     "all 80 verdicts are TIE, whatever the label"),
    ([("A", "A", "A"), ("B", "A", "A")] * 40, "bad",
     "all 80 verdicts are A, whatever the label"),
    ([*GOOD, ("A", "B", "B"), ("B", "A", "A")] * 200, "bad",
     "it agrees with the labels no more than by chance (right"),
    ([*GOOD, ("A", "B", "B"), ("B", "A", "A")] * 5, "warn",
     "more pairs before you decide: right in 50%"),
    ([("A", "B", "B"), ("B", "A", "A")] * 20, "bad", "check that the labels are not reversed."),
    ([("A", "A", "A")], "warn", "1 label is too few to say anything."),
    (GOOD * 10 + [("A", None, None)] * 20, "bad",
     "Fix the missing answers before you decide: 20 of 40 labeled"),
    ([("A", None, None)] * 20, "bad",
     "Fix the missing answers before you decide: 20 of 20 labeled pairs have no"),
    ([(None, "A", "A"), (None, "B", "B")] * 9, "warn",
     "Label about 170 pairs first: without labels, nothing"),
    ([("TIE", "TIE", "TIE")] * 44 + [("TIE", "A", "B")] * 6, "warn",
     "all 50 labels are the same"),
    ([("A", "A", "A")] * 46 + [("A", "B", "B")] * 4, "warn",
     "Also, all labels are of one class."),
])  # fmt: skip
def test_the_sentence_fits_the_judge(rows, tone, expected):
    finding = advice(scored(rows))
    assert expected in finding.text
    assert finding.tone == tone


@pytest.mark.parametrize("judge", some_of(JUDGES[::3], 4), ids=lambda judge: judge.name)
@pytest.mark.parametrize("n", [2, 300])
def test_no_two_statements_of_a_report_contradict_each_other(judge, n):
    metrics = metrics_of_run(judge, n, 5)
    decision, first = decide(metrics, 0.95), advice(metrics)
    others = findings(metrics, "pairwise")
    trust = first.text.startswith("Trust")
    assert trust == decision.trusted
    for text in (finding.text for finding in others):
        assert not re.search("[Tt]rust this|[Dd]o not trust|than chance", text)
    assert ("Do not trust" in first.text) == (decision.use == "none")
    assert (decision.use == "unknown") == bool(
        re.match("Label |Add labels|Fix the missing", first.text)
    )
    tones = {finding.tone for finding in others if finding.metric.startswith("agreement/")}
    assert "good" not in tones or decision.use == "single"


@pytest.mark.parametrize(("needed", "expected"), [
    ((250_000.0, None, None), "Label more than 100,000 more pairs before you decide"),
    ((1.0, 1.0, 40.0), "Label a few more pairs before you decide"),
    ((9.0, 1.0, 9.0), "Label a few more pairs before you decide"),
    ((10.0, 1.0, 40.0), "Label about 10 more pairs before you decide"),
])  # fmt: skip
def test_very_many_and_very_few_labels_are_not_counted(needed, expected):
    needed = Metric("decision/labels_needed", *needed)
    kappa = Metric("agreement/kappa", 0.201, 0.19, 0.21, 40_000)
    metrics = {"position/consistency": Metric("x", 0.9), needed.name: needed, kappa.name: kappa}
    metrics["agreement/accuracy"] = Metric("agreement/accuracy", 0.6, 0.59, 0.61, 40_000)
    text = advice(metrics).text
    assert text.startswith(expected)
    assert ("It could take up to 40." in text) == (needed.value == 1.0)
    assert ("It could take 1 to 40." in text) == (needed.value == 10.0)


@pytest.mark.parametrize(("values", "tone", "expected"), [
    ((0.8, 0.7, 0.9, 100), "good",
     "Trust its scores, also of single responses like these: Spearman 0.80 [0.70, 0.90]"),
    ((0.4, 0.25, 0.6, 100), "warn",
     "Trust its scores for averages over many responses, not for single ones"),
    ((0.9, 0.7, 1.0, 10), "warn", "but only 10 labels show this."),
    ((0.2, -0.1, 0.5, 40), "warn",
     "Spearman 0.20 [-0.10, 0.50] with 40 labels does not show whether the judge"),
    ((0.02, -0.1, 0.14, 300), "bad",
     "no more than by chance (Spearman 0.02 [-0.10, 0.14] with 300 labels)."),
    ((0.04, 0.03, 0.05, 20_000), "bad",
     "hardly more than by chance (Spearman 0.04 [0.03, 0.05]"),
    ((-0.5, -0.7, -0.3, 50), "bad", "check that the labels are not reversed."),
])  # fmt: skip
def test_the_sentence_on_scores_follows_their_correlation(values, tone, expected):
    lean = Metric("decision/lean/score", 0.0, -0.01, 0.01)
    metrics = {"agreement/spearman": Metric("agreement/spearman", *values), lean.name: lean}
    metrics |= {name: Metric(name, *ends, values[3]) for name, ends in GRADES.items()}
    finding = advice(metrics)
    assert expected in finding.text
    assert finding.tone == tone


GRADES = {
    "agreement/kappa_quadratic": (0.8, 0.7, 0.9),
    "agreement/close": (0.95, 0.9, 1.0),
    "agreement/slope": (0.9, 0.8, 1.0),
    "agreement/spread": (1.1, 1.0, 1.2),
}


@pytest.mark.parametrize(("name", "ends"), [
    ("agreement/kappa_quadratic", (0.65, 0.59, 0.7)),
    ("agreement/close", (0.85, 0.79, 0.9)),
    ("agreement/slope", (0.45, 0.4, 0.5)),
    ("agreement/spread", (1.5, 1.4, 1.6)),
])  # fmt: skip
def test_scores_that_only_keep_the_order_are_trusted_to_order(name, ends):
    values = {"agreement/spearman": (0.82, 0.78, 0.86), "decision/lean/score": (0.0, -0.01, 0.01)}
    values |= GRADES | {name: ends}
    metrics = {metric: Metric(metric, *numbers, 300) for metric, numbers in values.items()}
    assert decide(metrics, 0.95).order is True
    assert "to order responses and for averages over many, not to grade" in advice(metrics).text


def test_each_limit_has_words():
    metric = Metric("x", -0.3, -0.4, -0.2, 50, 7)
    decision = Decision("rates", "moderate", "item")
    for kind in ("lean_a", "lean_longer", "lean_score", "lean_met", "lean_class", "lean_system"):
        assert "30 [20, 40]" in str(limit_text(Limit(kind, metric, "x"), decision).fill())
    scores = Decision("rates", "moderate", "response")
    assert (
        "30 [20, 40]% of the scale"
        in in_every_language(limit_text(Limit("lean_system", metric, "x"), scores))[0]
    )
    assert "only 50 labels show this" in headline_text(Limit("few_labels", metric))


@pytest.mark.parametrize(("labels", "asked"), [(40, True), (5_000, True), (5_001, False)])
def test_labels_that_nobody_would_give_are_not_asked_for(labels, asked):
    metric = Metric("agreement/kappa", 0.8, 0.7, 0.9, n=100)
    decision = Decision(
        "rates_corrected", "lean_unclear", "pair", metric, labels_needed=labels, unlabeled=0
    )
    text = sentence(decision, {}).render(__import__("gettext").NullTranslations())
    assert ("to decide whether it leans" in text) is asked


def headline_text(limit: Limit) -> str:
    decision = Decision(
        "rates", "moderate", "pair", Metric("agreement/kappa", 0.5), limits=(limit,)
    )
    return sentence(decision, {}).render(__import__("gettext").NullTranslations())


def test_the_sentence_is_first_also_of_simulated_and_embedded_judges(make_run, capsys):
    run = make_run(8)
    first = findings_of(run)[0].text
    assert re.match("Label|Fix|Add", first)
    run = replace(run, manifest={**run.manifest, "dataset": {"rows": 8, "name": "d"}})
    print_summary(run)
    assert first[:30] in " ".join(capsys.readouterr().out.split())
    for model, expected in (
        ("simulated/good", "Simulated judge"),
        ("local/smollm2-135m-instruct", "Agreement with"),
    ):
        other = replace(run, manifest={**run.manifest, "judges": [{"name": "j", "model": model}]})
        found = findings_of(other)
        assert found[0].text == first
        assert found[1].text.startswith(expected)
