"""What sentences may say, of fixed metrics and of runs, and their translations."""

import gettext as catalogs
import re
import runpy
import string
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po
from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.cli.summary import metric_table
from evalkit.config import GateConfig, JudgeConfig, RunConfig
from evalkit.core.benchmark_discovery import iter_benchmarks
from evalkit.core.translation import (
    Text,
    gettext,
    in_every_language,
    joined,
    ngettext,
    pgettext,
    translator,
)
from evalkit.core.types import Case, Judgment, Metric, Response, Verdict
from evalkit.report.findings import findings
from evalkit.report.findings.finding import Finding, finding
from evalkit.report.findings.sweeps import contest_findings
from evalkit.report.texts import metric_title, metric_words, note_words
from evalkit.scoring.catalog import CATALOG, benchmark_title, full_catalog
from evalkit.scoring.decision import decide
from evalkit.scoring.gate_rules import judge_metrics
from evalkit.scoring.leaderboard import Contender, rank
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.selection import as_highest

CONFIG = {"judge": JudgeConfig(model="m"), "criteria": [{"name": "overall"}]}


def scored(rows, **settings_):
    """Score pairs given as (label, winner shown first, winner shown second), winners by response."""
    config = RunConfig.model_validate({**CONFIG, "scoring": {"bootstrap": 200}, **settings_})
    values = {"A": 1.0, "TIE": 0.0, "B": -1.0}
    cases, judgments = [], []
    for k, (label, *passes) in enumerate(rows):
        cases.append(Case(f"c{k}", "?", (Response("a" * (1 + k % 3)), Response("bb")), label=label))
        for shown, winner in zip(((0, 1), (1, 0)), passes, strict=False):
            read = winner is not None
            status = "ok" if read else "unparseable"
            judgments.append(
                Judgment(
                    f"c{k}",
                    (0, 1),
                    shown,
                    0,
                    "m",
                    status,
                    values.get(winner),
                    error=None if read else "?",
                )
            )
    return score_run(config, cases, judgments).metrics


def said(metrics, mode="pairwise") -> list[Finding]:
    found = findings(metrics, mode)
    assert all(re.search("[一-鿿]", one.text_zh) and one.text_zh.endswith("。") for one in found)
    assert not any(re.search(r"\d %", one.text + one.text_zh) for one in found)
    return found


def text_of(metrics, name, mode="pairwise") -> str:
    return " ".join(one.text for one in said(metrics, mode) if one.metric == name)


def test_a_good_judge_of_labels_of_one_class_is_not_called_chance():
    metrics = scored([("A", "A", "A")] * 46 + [("A", "B", "B")] * 4)
    assert metrics["agreement/kappa"].value is None
    assert metrics["agreement/kappa"].note.startswith("labels are all of one class (A)")
    assert metrics["agreement/kappa_weighted"].value is None
    text = text_of(metrics, "agreement/accuracy")
    assert text.startswith("Agreement with the labels: accuracy 0.92")
    assert "kappa not defined (labels are all of one class (A): it would be 0" in text
    names, values, *_ = [list(column.cells) for column in metric_table(metrics, 0.95).columns]
    assert dict(zip(names, values, strict=True))["agreement/kappa"] == "not defined"


def test_ties_of_disagreeing_orders_come_first_and_accuracy_is_given_without_them():
    metrics = scored([("A", "A", "B")] * 23 + [("B", "B", "B")])
    first, second, *_ = said(metrics)
    assert first.text.startswith("96% [")
    assert first.text.endswith("of pairs are ties because the two orders disagree.")
    assert first.text_zh.endswith("的回答对为平局，因为两种顺序结论不一致。")
    assert "(a tie is wrong unless the label is one)" in second.text
    assert "0.52 [0.50, 0.58] in a single order" in second.text
    assert "1.00 [0.03, 1.00] among 1 decided pair" in second.text
    decided = metrics["agreement/accuracy_decided"]
    assert (decided.value, decided.n, decided.missing) == (1.0, 1, 0)


@pytest.mark.parametrize("winner", ["A", "TIE"])
def test_constant_verdicts_are_named(winner):
    metrics = scored([("A", winner, winner), ("B", winner, winner)] * 20)
    if winner == "A":
        assert text_of(metrics, "win_rate/a") == "All 40 verdicts are A."
    else:
        assert "but most of these verdicts are ties" in text_of(metrics, "position/consistency")


def test_a_judge_that_follows_the_position_contradicts_itself_whatever_the_labels_are():
    for label in ("A", "B"):
        metrics = scored([(label, "A", "B")] * 40)
        assert "100%" in said(metrics)[0].text
        assert decide(metrics, 0.95).reason == "orders_disagree"


def test_missing_answers_come_first_and_with_their_bounds():
    metrics = scored([("A", "A", "A")] * 12 + [("B", "B", "B")] * 8 + [("A", None, None)] * 20)
    first, second, *_ = said(metrics)
    assert first.text.startswith("40 of 80 answers are missing (50.0%)")
    assert "0.50 to 1.00 over all 40 pairs, 20 without a verdict" in second.text


@pytest.mark.parametrize(("more", "expected"), [
    ((), "Agreement with the labels:"),
    (("llmbar/mean_accuracy",), "Agreement with the labels:"),
    (("mt_bench/agreement",), "Agreement with the annotators' labels:"),
    (("human/alpha",), "Agreement with the annotators' labels:"),
    (("human/alpha", "judgebench/net_vote_accuracy"), "Agreement with the labels:"),
])  # fmt: skip
def test_labels_are_people_s_only_where_that_is_known(more, expected):
    metrics = scored([("A", "A", "A"), ("B", "B", "B")] * 20)
    metrics = dict(metrics) | {name: Metric(name, 0.8, 0.7, 0.9, 40) for name in more}
    assert text_of(metrics, "agreement/accuracy").startswith(expected)


def test_equal_scores_are_a_tie_of_scores_and_no_judgment():
    config = RunConfig.model_validate(
        {**CONFIG, "mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
    )
    cases = [Case(f"c{k}", "?", (Response("a"), Response("b")), label="A") for k in range(10)]
    judgments = [
        Judgment(c.id, (i,), (i,), 0, "m", "ok", criteria={"overall": 3.0})
        for c in cases
        for i in (0, 1)
    ]
    scores = score_run(config, cases, judgments)
    assert {v.reason for v in scores.verdicts if len(v.unit) == 2} == {"equal_scores"}
    assert scores.metrics["tie_rate/equal_scores"].value == 1.0
    assert "tie_rate/judged" not in scores.metrics
    assert said(scores.metrics, "pointwise")[0].text.endswith(
        "of pairs are ties because the two scores are equal."
    )
    assert text_of(scores.metrics, "score/distinct", "pointwise").startswith(
        "All 20 scores are equal"
    )


def test_weights_near_the_largest_number_decide_as_their_shares_do():
    weights = {"a": 1e308, "b": 1e308}
    config = RunConfig.model_validate(
        {**CONFIG, "criteria": [{"name": "a"}, {"name": "b"}], "scoring": {"weights": weights}}
    )
    assert config.weights() == {"a": 0.5, "b": 0.5}
    assert config.notes() == [
        "criteria weights are too large to sum and were normalized: a 0.5, b 0.5"
    ]
    case = Case("c", "?", (Response("a"), Response("b")))
    judgments = [
        Judgment("c", (0, 1), shown, 0, "m", "ok", value=1.0, criteria={"a": 1.0, "b": 1.0})
        for shown in ((0, 1), (1, 0))
    ]
    assert [verdict.winner for verdict in score_run(config, [case], judgments).verdicts] == ["A"]


def contender(job, rate, cost, n):
    right = [k < round(rate * n) for k in range(n)]
    verdicts = [
        Verdict(f"c{k}", (0, 1), "A" if hit else "B", None, "judged", label="A")
        for k, hit in enumerate(right)
    ]
    share = sum(right) / n
    half = 1.96 * (max(share * (1 - share), 0.05) / n) ** 0.5
    metrics = {
        name: Metric(name, share, max(0.0, share - half), min(1.0, share + half), n)
        for name in ("agreement/accuracy", "agreement/accuracy_decided")
    } | {"cost/per_case": Metric("cost/per_case", cost)}
    return Contender(job, job, "d", metrics, verdicts)


@given(
    st.lists(st.tuples(st.floats(0.3, 1.0), st.floats(0.001, 1.0)), min_size=2, max_size=5),
    st.integers(5, 400),
)
@example([(0.5, 1.0), (0.625, 1.0), (0.66, 1.0)], 242)  # the best is so by luck, perhaps
def test_no_configuration_at_chance_or_possibly_worse_is_recommended(jobs, n):
    board = rank(
        [contender(f"j{k}", rate, cost, n) for k, (rate, cost) in enumerate(jobs)], SCORING
    )
    first, *others = contest_findings(board, {row.job: row.job for row in board.rows}, {})
    [choice] = board.choices
    if choice.job is not None:
        accuracy = choice.job.metrics["agreement/accuracy_decided"]
        assert accuracy.low > 0.5
        assert choice.job is choice.top or choice.job.behind.low >= -0.05
        use = choice.job.decision.use
        if choice.reason != "cheaper":
            use = choice.job.use_as_highest
        begins = f"Use {choice.job.job} ("
        if use in ("none", "unknown"):
            begins = "Do not choose yet: "
        elif choice.reason != "cheaper":
            # Luck of the choice is no explanation.
            assert as_highest(accuracy, len(board.folded), 0.95).low > 0.5
        assert first.text.startswith(begins)
    assert not any(one.text.startswith("Use ") for one in others)
    for row in board.rows:
        assert row.rank_low <= row.rank <= row.rank_high
        if row.metrics["agreement/accuracy_decided"].low <= 0.5:
            assert row.pareto is False
    texts = " ".join(one.text for one in others)
    assert ("Do not trust" in texts) == any(row.decision.use == "none" for row in board.rows)
    assert ("Not decided" in texts) == any(row.decision.use == "unknown" for row in board.rows)
    assert "cannot be told apart" not in texts


SCORING = RunConfig.model_validate(CONFIG).scoring.model_copy(update={"bootstrap": 100})


def test_consistency_is_no_reason_to_recommend():
    def consistent(job, share, cost):
        name = "position/consistency"
        return Contender(
            job,
            job,
            "d",
            {
                name: Metric(name, share, share, share, 50),
                "cost/per_case": Metric("cost/per_case", cost),
            },
            [],
        )

    board = rank([consistent("x", 0.9, 0.1), consistent("y", 0.9, 0.01)], SCORING)
    texts = [one.text for one in contest_findings(board, {"x": "x", "y": "y"}, {})]
    assert any("a consistent judge can still be wrong" in text for text in texts)
    assert texts[0].startswith("Label some pairs first: without labels")
    assert not any(" costs " in text for text in texts)


ROOT = Path(__file__).parents[2]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "translations.py"))
# It reads all code, so it does so once.
TOOL["template"] = TOOL["updated"].__globals__["template"] = cache(TOOL["template"])


COUNTS = {"n", "all"}
"""Values that a text may have beside those that its English words show."""


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def each(words: str | tuple[str, ...]) -> tuple[str, ...]:
    return words if isinstance(words, tuple) else (words,)


@pytest.mark.parametrize("path", TOOL["FILES"], ids=[path.parts[-3] for path in TOOL["FILES"]])
def test_no_placeholder_of_a_translation_is_broken_and_the_compiled_file_is_the_text_file(path):
    with path.open("rb") as file:
        messages = [one for one in read_po(file, locale=path.parts[-3]) if one.id and one.string]
    for message in messages:
        allowed = COUNTS.union(*map(placeholders, each(message.id)))
        assert set().union(*map(placeholders, each(message.string))) <= allowed, message.id
    with path.with_suffix(".mo").open("rb") as compiled:
        known = [said for key, said in catalogs.GNUTranslations(compiled)._catalog.items() if key]
    expected = [said for message in messages for said in each(message.string)]
    assert sorted(known) == sorted(expected), "run python docs/translations.py"
    without = TOOL["untranslated"](TOOL["updated"](path))
    assert without == [], f"texts without a translation into {path.parts[-3]}"


def test_the_texts_of_the_code_are_collected():
    found = TOOL["template"]()
    # One with a text in a text, a plural, one of two contexts, and a metric's title.
    assert found.get("{benchmark}: {metric}")
    assert found.get(
        "Simulated judge: {names}. No model judged; its behavior is planted."
    ).pluralizable
    assert found.get("Ties", "finding")
    assert found.get("{criterion}: cases with a cycle")


def test_a_text_that_nobody_translated_is_in_english():
    text = gettext("A new finding about {n:,} answers.", n=1200)
    assert in_every_language(text) == ("A new finding about 1,200 answers.",) * 2
    assert finding("tie_rate", "info", text).text_zh == "A new finding about 1,200 answers."
    assert in_every_language("a name") == ("a name", "a name")
    assert translator("tlh").gettext("Ties") == "Ties"


def test_texts_stand_in_texts_and_are_rendered_in_the_language_of_the_reader():
    parts = joined([gettext("Ties"), "B", pgettext("axis", "score")])
    assert in_every_language(gettext("{judge}: {metric}", judge="x", metric=parts)) == (
        "x: Ties, B, score",
        "x：平局率，B，分值",
    )
    one, many = (ngettext("{n} case {a}", "{n} cases {a}", n).fill(a="!") for n in (1, 2))
    assert (in_every_language(one)[0], in_every_language(many)[0]) == ("1 case !", "2 cases !")
    assert in_every_language(Text("{level} interval")) == ("{level} interval", "{level} 区间")


def test_every_title_of_a_metric_is_translated_or_in_english():
    for row in full_catalog().rows:
        name = re.sub(
            r"\{(\w+)\}",
            lambda found: {"turn": "turn1", "level": "hard"}.get(found[1], "sample"),
            row.name,
        )
        english, chinese = in_every_language(metric_title(name))
        assert english
        assert "{" not in english + chinese


@pytest.mark.parametrize("sign", [">=", "<="])
@pytest.mark.parametrize("number", ["value", "low", "high", "worst_low", "worst_high"])
@pytest.mark.parametrize("by", ["interval", "value"])
@pytest.mark.parametrize("ends", [(0.6, 0.9), (None, None)])
@pytest.mark.parametrize("value", [0.8, None])
def test_the_reason_of_a_ruling_is_translated(sign, number, by, ends, value):
    metric = Metric(
        "tie_rate",
        value,
        *(ends if value else (None, None)),
        n=50,
        worst_low=ends[0],
        worst_high=ends[1],
        note="no pair has a verdict",
    )
    rules = {"tie_rate": {number: f"{sign} 0.7"}}
    if number == "value":
        rules["tie_rate"]["by"] = by
    for ruling in judge_metrics(GateConfig.model_validate(rules), {"tie_rate": metric}):
        english, chinese = note_words(ruling.why)
        assert english == ruling.why
        words = re.findall(r"[a-z]{3,}", chinese.replace("`by: value`", ""))
        assert set(words) <= {"value", "low", "high", "worst_low", "worst_high", "worst"}, chinese


@pytest.mark.parametrize(("name", "english"), [
    ("ranking/rating/gpt-4/turbo", "gpt-4/turbo: rating"),
    ("conflict/rate/clarity", "clarity: cases with a cycle"),
    ("conflict/rate", "Cases with a cycle"),
    ("judge/one/ranking/win_rate/x", "one: x: win rate"),
    ("something/else", "something/else"),
    ("llmbar/mean_accuracy/gptinst", "LLMBar: mean accuracy of the orders, GPTInst"),
    ("mt_bench/score/vicuna-13b/turn2", "MT-Bench: score, vicuna-13b, second turn"),
    ("checklist/met_rate/tag/summary", "Items met: summary"),  # a word of SummEval, but not here
    ("judge/one/pandalm/f1", "one: PandaLM: macro F1"),
])  # fmt: skip
def test_metrics_have_names_for_people(name, english):
    assert metric_words(name)[0] == english


def test_every_benchmark_has_a_title_and_a_number_that_it_is_known_by():
    for benchmark in iter_benchmarks():
        assert benchmark_title(benchmark)
        assert CATALOG.is_headline(benchmark.main_metric)  # type: ignore[attr-defined]
        assert benchmark.main_metric.startswith(f"{benchmark.name}/")  # type: ignore[attr-defined]
    assert (
        metric_words("summeval/coherence/system/kendall")[1]
        == "SummEval：连贯性，系统级，Kendall τ 相关"
    )


SENTENCE_END = re.compile(r"[.!?:;] ")


def test_every_sentence_of_the_catalog_has_fewer_than_40_words():
    """A colon ends a sentence here, because numbers fill what comes after it."""
    path = Path(__file__).parents[2] / "evalkit/locale/zh/LC_MESSAGES/evalkit.po"
    with path.open("rb") as file:
        catalog = read_po(file, locale="zh")
    ids = [message.id for message in catalog if message.id]
    texts_ = [text for one in ids for text in ([one] if isinstance(one, str) else one)]
    assert len(texts_) > 1000
    parts = [part for text in texts_ for part in SENTENCE_END.split(text)]
    assert [part for part in parts if len(part.split()) >= 40] == []


def test_agreement_with_many_numbers_is_two_sentences():
    """Ties, both orders and missing answers: no sentence of a finding reaches 40 words."""
    rows = [("A", "A", "A"), ("B", "B", "B")] * 20 + [("A", "A", "B")] * 6 + [("B", None, None)] * 8
    for one in said(scored(rows)):
        for sentence in re.split(r"\. (?=[A-Z])", one.text):
            assert len(sentence.split()) < 40, sentence
