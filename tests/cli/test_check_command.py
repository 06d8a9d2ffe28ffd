"""`evalkit check` on small tables of many layouts, words and languages, on unclear tables and on bad input."""

import csv
import json
import random
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.questions import OpenTableError
from evalkit.interop.tables.table import Table, read_table
from evalkit.interop.verdict_words import POLARITY, WINNERS, word_of
from tests.support.thorough import some_of

ROWS = 60


def _verdicts(words: Sequence[Any], wrong: float, seed: int = 1) -> list[tuple[Any, Any]]:
    """Return labels with a judge's verdicts, of which a share is wrong."""
    chance = random.Random(seed)
    labels = [words[index % len(words)] for index in range(ROWS)]
    return [
        (one, chance.choice([w for w in words if w != one]) if chance.random() < wrong else one)
        for one in labels
    ]


def _wide(label: str, judge: str, words: Sequence[Any], **texts: str) -> list[dict[str, Any]]:
    pairs = _verdicts(words, 0.2)
    base = [{name: f"{text} {index}" for name, text in texts.items()} for index in range(ROWS)]
    return [
        {**row, label: one, judge: other} for row, (one, other) in zip(base, pairs, strict=True)
    ]


def _long(
    raters: tuple[str, str], names: tuple[str, str, str], words: Sequence[Any]
) -> list[dict[str, Any]]:
    case, rater, value = names
    both = enumerate(_verdicts(words, 0.2))
    return [
        {case: i, rater: name, value: word}
        for i, pair in both
        for name, word in zip(raters, pair, strict=True)
    ]


def _pairs(
    label: str, judge: str, words: Sequence[str], *order: str, **more: Any
) -> list[dict[str, Any]]:
    """Return a table of pairs; with names of an `order` column and its values, each pair has a row for each order."""
    rows = []
    for index, (one, other) in enumerate(_verdicts(words, 0.2)[: ROWS // max(1, len(order) - 1)]):
        row = {
            "id": index,
            "prompt": f"q {index}",
            "answer_a": f"Yes, {index}",
            "answer_b": f"No, {index}",
            **more,
        }
        rows += [
            {**row, **shown, label: one, judge: other}
            for shown in [{order[0]: o} for o in order[1:]] or [{}]
        ]
    return rows


def _repeated(label: str, judge: str, case: str, repeat: str) -> list[dict[str, Any]]:
    pairs = _verdicts((1, 2, 3, 4), 0.3)[: ROWS // 3]
    return [
        {case: i, repeat: k, judge: b, label: a} for i, (a, b) in enumerate(pairs) for k in range(3)
    ]


REASONED = (
    "A misses the point. Final verdict: [[B]]",
    "Both are fine, but A is shorter. [[A]]",
    "They are equal: [[C]]",
)
TABLES: dict[str, tuple[list[dict[str, Any]], set[str], set[str]]] = {
    name: (rows, {judge}, {label})
    for name, rows, judge, label in (
        ("pass_fail", _wide("human", "judge", ("pass", "fail"), id="c"), "judge", "human"),
        (
            "yes_no",
            _wide("gold", "model", ("yes", "no"), question="q", answer="a"),
            "model",
            "gold",
        ),
        (
            "true_false",
            _wide("label", "verdict", ("true", "false"), prompt="q", response="a"),
            "verdict",
            "label",
        ),
        (
            "ones",
            _wide("human_label", "llm_judge", (1, 0), case_id="c"),
            "llm_judge",
            "human_label",
        ),
        (
            "good_bad",
            _wide("annotator", "gpt-4o", ("good", "bad"), input="q", output="a"),
            "gpt-4o",
            "annotator",
        ),
        (
            "correct",
            _wide("expert", "claude", ("correct", "incorrect"), uid="c"),
            "claude",
            "expert",
        ),
        ("pairs", _wide("label", "winner", ("A", "B", "tie"), prompt="q"), "winner", "label"),
        ("brackets", _wide("human", "judge", ("[[A]]", "[[B]]"), id="c"), "judge", "human"),
        (
            "chinese",
            _wide("人工标注", "裁判", ("合格", "不合格"), 编号="c", 问题="q", 回答="a"),
            "裁判",
            "人工标注",
        ),
        (
            "chinese_words",
            _wide("专家", "模型判定", ("正确", "错误"), 题目="q"),
            "模型判定",
            "专家",
        ),
        (
            "scores",
            _wide("human_score", "judge_score", (1, 2, 3, 4, 5), id="c"),
            "judge_score",
            "human_score",
        ),
        ("floats", _wide("gold_rating", "score", (0.1, 0.5, 0.9), id="c"), "score", "gold_rating"),
        (
            "camel",
            _wide("humanLabel", "modelVerdict", ("pass", "fail"), itemId="c"),
            "modelVerdict",
            "humanLabel",
        ),
        ("mixed_words", _wide("human", "llm", ("Yes", "No"), id="c"), "llm", "human"),
        (
            "endings",
            _wide("human", "judge", ("Verdict: pass", "Verdict: fail"), id="c"),
            "judge",
            "human",
        ),
        (
            "classes",
            _wide("human", "judge", ("safe", "unsafe", "unclear"), id="c"),
            "judge",
            "human",
        ),
        ("one_named", _wide("human", "acme", ("pass", "fail"), id="c"), "acme", "human"),
        (
            "reasons",
            _wide("truth", "prediction", ("yes", "no"), id="c", reason="because"),
            "prediction",
            "truth",
        ),
        (
            "long",
            _long(("human", "gpt-4o"), ("item", "rater", "value"), ("A", "B", "tie")),
            "gpt-4o",
            "human",
        ),
        (
            "long_scores",
            _long(("expert", "judge"), ("id", "annotator", "rating"), (1, 2, 3)),
            "judge",
            "expert",
        ),
        (
            "long_chinese",
            _long(("人工", "qwen"), ("编号", "评审", "判定"), ("合格", "不合格")),
            "qwen",
            "人工",
        ),
        ("majority", _wide("majority", "auto", ("left", "right"), id="c"), "auto", "majority"),
        ("both_orders", _pairs("human", "gpt", ("A", "B"), "position", "ab", "ba"), "gpt", "human"),
        (
            "chinese_orders",
            _pairs("人工", "裁判", ("甲", "乙", "平局"), "顺序", "ab", "ba"),
            "裁判",
            "人工",
        ),
        (
            "systems",
            _pairs("gold", "judge", ("m1", "m2", "tie"), model_a="m1", model_b="m2"),
            "judge",
            "gold",
        ),
        ("reasoned", _pairs("label", "gpt4_output", REASONED), "gpt4_output", "label"),
        (
            "repeats",
            _repeated("human_score", "llm_score", "item", "trial"),
            "llm_score",
            "human_score",
        ),
        (
            "chinese_repeats",
            _repeated("专家评分", "模型评分", "题号", "轮次"),
            "模型评分",
            "专家评分",
        ),
        (
            "crowd",
            _wide("crowd_label", "llama_label", ("pass", "fail"), key="c"),
            "llama_label",
            "crowd_label",
        ),
    )
} | {
    "two_judges": (
        [{**row, "claude": row["gpt"]} for row in _wide("human", "gpt", ("pass", "fail"), id="c")],
        {"gpt", "claude"},
        {"human"},
    ),
    "people": (
        [
            {**row, "annotator 2": row["annotator 1"]}
            for row in _wide("annotator 1", "判定", ("好", "差"), id="c")
        ],
        {"判定"},
        {"annotator 1", "annotator 2"},
    ),
}
OTHER_ROLES = {
    "both_orders": {
        "order": "position",
        "response_a": "answer_a",
        "response_b": "answer_b",
        "prompt": "prompt",
    },
    "chinese_orders": {"order": "顺序", "response_a": "answer_a", "response_b": "answer_b"},
    "systems": {"model_a": "model_a", "model_b": "model_b"},
    "repeats": {"id": "item", "sample": "trial"},
    "chinese_repeats": {"id": "题号", "sample": "轮次"},
    "chinese": {"id": "编号", "prompt": "问题", "response": "回答"},
    "yes_no": {"prompt": "question", "response": "answer"},
    "reasons": {"text": "reason"},
    "long": {"id": "item", "rater": "rater", "value": "value"},
}


def _table(rows: Sequence[dict[str, Any]], choices: Choices = Choices()) -> Table:  # noqa: B008 - it is frozen
    return read_table(
        [(f"row {index}", row) for index, row in enumerate(rows, 1)], "table", choices
    )


def _commands(output: str) -> list[list[str]]:
    """Return the commands that answer a question."""
    lines = [line.strip() for line in output.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("evalkit check")]


def _raters(table: Table, role: str) -> set[str]:
    return {one.column for one in table.roles if one.role == role}


@pytest.mark.parametrize("name", TABLES)
def test_roles_of_small_tables_need_no_option(name):
    rows, judges, labels = TABLES[name]
    table = _table(rows)
    assert (_raters(table, "judge"), _raters(table, "label")) == (judges, labels)
    assert (
        OTHER_ROLES.get(name, {}).items() <= {one.role: one.column for one in table.roles}.items()
    )
    given = [said for record in table.parsed.records for said in (record.said, *record.others)]
    assert len(given) == ROWS * len(judges)
    assert all(said.read for said in given)


UNCLEAR: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "letters": lambda one, other: {"x": one, "y": other},
    "people": lambda one, other: {"alice": one, "bob": other},
    "numbers": lambda one, other: {
        "first try": 1 + (one == "pass"),
        "second try": 1 + (other == "pass"),
    },
    "three": lambda one, other: {"x": one, "y": other, "z": one},
    "quotes": lambda one, other: {"it's": one, "so $HOME": other},
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_the_commands_of_an_unclear_table_run_as_pasted(name, tmp_path, monkeypatch, capsys):
    rows = [
        {"id": i, **UNCLEAR[name](*pair)} for i, pair in enumerate(_verdicts(("pass", "fail"), 0.2))
    ]
    with pytest.raises(OpenTableError):
        _table(rows)
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "table.csv", rows)
    assert main(["check", "table.csv"]) == 1
    captured = capsys.readouterr()
    *commands, nobody = _commands(captured.out)
    assert len(commands) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv"]
    for index, command in enumerate(commands):
        assert main([*command[1:], "--output", f"out{index}"]) == 0
        assert (tmp_path / f"out{index}" / "report.html").exists()
    capsys.readouterr()
    # The last answer is that nobody but people judged.
    assert main(nobody[1:]) == 0
    assert capsys.readouterr().out.startswith("No judge: ")


def test_one_criterion_is_checked_with_the_options_of_the_note(tmp_path, monkeypatch, capsys):
    pairs = _verdicts((1, 2, 3), 0.2)
    rows = [
        {"id": i, "human_tone": a, "gpt4_tone": b, "human_safety_score": b, "gpt4_safety_score": a}
        for i, (a, b) in enumerate(pairs)
    ]
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "t.csv", rows)
    assert main(["check", "t.csv"]) == 0
    printed = capsys.readouterr().out
    assert "human_safety_score; to check 'tone' alone: --judge gpt4_tone" in printed
    assert "with 120 labels" in printed
    assert main(["check", "t.csv", "--judge", "gpt4_tone", "--label", "human_tone"]) == 0
    assert "with 60 labels" in capsys.readouterr().out


def test_numbered_people_are_annotators(tmp_path):
    pairs = _verdicts((1, 2, 3), 0.2)
    people = [
        {"id": i, "human_1": a, "human_2": b, "gpt": 1 + i // 2 % 3, "claude": 1 + i % 2}
        for i, (a, b) in enumerate(pairs)
    ]
    assert _raters(_table(people), "judge") == {"gpt", "claude"}


# The first line, and a figure of ../shared/data/README.md or of the files themselves.
SHARED: dict[str, tuple[str, str, float]] = {
    "icescore": ("Trust its scores only for averages", "agreement/spearman", 0.692550),
    "unieval_topical_chat": ("Trust its scores only for averages", "agreement/spearman", 0.662583),
    "llm_rubric": ("Label ", "agreement/pearson", 0.177301),
    "devai/MetaGPT": ("Trust this judge for single verdicts", "devai/agreement", 0.9208),
    "devai/GPT-Pilot": ("Trust this judge for single verdicts", "devai/agreement", 0.8661),
    "devai/OpenHands": ("Trust this judge for single verdicts", "devai/agreement", 0.9016),
    "devai": ("Trust this judge for single verdicts", "devai/agreement", (337 + 317 + 330) / 1098),
    "llmbar/Natural": (
        "GPT-4/Vanilla: Trust this judge",
        "judge/ChatGPT_Vanilla_NoRules/agreement/accuracy_both_orders",
        0.63,
    ),
    "llmbar": (
        "GPT-4/Vanilla: Trust this judge",
        "judge/GPT-4_Vanilla/agreement/accuracy_both_orders",
        (93 + 77) / 192,
    ),
    "halluqa": ("Label about 150 responses first", "score/mean", (239 + 312 + 211 + 137) / 1796),
    "prometheus_vicuna": ("Label about 150 responses first", "score/mean", 4.145833),
    "wildbench/v2.0625": ("Label about 150 responses first", "wildbench/score", 6.028040),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", some_of(SHARED, 8))
def test_published_judgments_need_no_option(name, shared, here, capsys):
    assert main(["check", str(shared / "data" / name), "--output", "run", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    begin, metric, value = SHARED[name]
    assert content["conclusion"][0].startswith(begin.partition(" ")[0])
    assert content["metrics"][metric]["value"] == pytest.approx(value, abs=5e-5)


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


BAD: dict[str, tuple[str, bytes]] = {
    "empty": ("t.csv", b""),
    "header": ("t.csv", b"id,human,judge\n"),
    "one_row": ("t.csv", b"id,human,judge\n1,pass,fail\n"),
    "long_cell": ("t.csv", b"id,human,judge\n1,pass,fail\n2,pass," + b"x" * 10_000_000 + b"\n"),
    "broken_utf8": ("t.csv", b"id,human,judge\n1,pass,fail\n2,\xff\x81\x98\xfe,pass\n"),
    "duplicate_columns": (
        "t.csv",
        b"id,answer,answer,human,judge\n1,a,b,pass,fail\n2,c,d,fail,pass\n",
    ),
    "wrong_suffix": ("t.jsonl", b"id,human,judge\n1,pass,fail\n2,pass,fail\n"),
    "nul_in_header": ("t.csv", b"id,hu\0man,judge\n1,pass,fail\n2,fail,fail\n"),
    "damaged_log": ("t.eval", b"PK\x03\x04 and no more"),
    "no_data": ("folder/t.png", b"\x89PNG"),
}
DETAILS = {
    "nul_in_header": "column 2 has a NUL character",
    "damaged_log": "not a complete .eval archive",
}


def test_an_encoding_is_asked_with_commands_that_run(here, capsys):
    rows = "".join(f"{i},{'ja' if i % 2 else 'nein'},für {i}\n" for i in range(8))
    Path("t.csv").write_bytes(f"id,judge,note\n{rows}".encode("cp1252"))
    assert main(["check", "t.csv"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("in which encoding is it?")
    assert "  cp1252, which reads 'für':" in lines
    command = lines[lines.index("  cp1252, which reads 'für':") + 1].split()
    assert main([word.strip("'") for word in command[1:]]) == 0


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name, here, capsys):
    path, content = BAD[name]
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_bytes(content)
    assert main(["check", Path(path).parts[0]]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert len(captured.err) < 500
    assert DETAILS.get(name, "") in captured.err
    assert [one.name for one in here.iterdir()] == [Path(path).parts[0]]


def test_words_are_listed_with_counts_and_the_map_to_write():
    rows = [
        {"id": i, "human": "pass" if i % 2 else "fail", "judge": "fine" if i % 2 else "fail"}
        for i in range(20)
    ]
    with pytest.raises(OpenTableError, match=r"'fine' \(10\)") as question:
        _table(rows)
    assert ["--map", "fine=pass"] in question.value.readings
    assert all(
        one.said.read for one in _table(rows, Choices(words={"fine": "pass"})).parsed.records
    )


def test_warnings_name_copied_labels_conflicts_small_classes_and_empty_columns():
    rows = [{"id": i, "human": "pass", "judge": "pass", "note": ""} for i in range(5)]
    rows += [{"id": 0, "human": "fail", "judge": "fail", "note": ""}]
    warnings = "\n".join(_table(rows).warnings)
    for part in (
        "identical",
        "two different labels in 'human': 1",
        "only 1 labels 'fail'",
        "nearly empty",
    ):
        assert part in warnings


def test_gate_that_is_undecided_exits_with_5_and_json_is_one_object(here, capsys):
    _write(here / "t.csv", TABLES["pass_fail"][0])
    assert (
        main(["check", "t.csv", "--json", "--output", "run", "gate={agreement/accuracy: '>= 0.8'}"])
        == 5
    )
    content = json.loads(capsys.readouterr().out)
    assert content["gate"]["state"] == "undecided"
    assert list(content["decisions"]) == ["judge"]
    assert main(["check", "run", "gate={agreement/accuracy: '>= 0.99'}"]) == 4
    assert main(["check", "run", "gate={agreement/accuracy: '>= 0.1'}"]) == 0


@pytest.mark.parametrize("labeled", [True, False])
def test_the_terminal_is_in_the_language_of_the_report(labeled, here, capsys):
    words = ["fail", "pass"]
    rows = [
        {"id": i, "gpt": words[i % 2], "claude": words[i % 3 > 0]}
        | ({"human": words[i % 5 > 1]} if labeled else {})
        for i in range(40)
    ]
    _write(Path("t.csv"), rows)
    assert main(["check", "t.csv", "--output", "out", "prompt.language=zh"]) == 0
    lines = capsys.readouterr().out.splitlines()
    chinese = re.compile("[\u4e00-\u9fff]")
    told = [line for line in lines if line.startswith(("gpt:", "claude:", "  • ")) or "out" in line]
    assert len(told) > 3
    assert [line for line in told if not chinese.search(line)] == []
    assert ("没有标签" in "".join(lines)) is not labeled


def test_dash_is_standard_input(here, monkeypatch, capsys):
    _write(here / "t.csv", TABLES["pass_fail"][0])
    with (here / "t.csv").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["check", "-", "--output", "run"]) == 0
    assert "labeled responses" in capsys.readouterr().out.splitlines()[0]
    (here / "t.csv").write_bytes(b"id,human,judge\n1,\xff,pass\n")
    with (here / "t.csv").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["check", "-"]) == 1
    assert capsys.readouterr().err.startswith("evalkit: -:2: the byte at offset 17 is not UTF-8")


NO_VERDICT = (
    *("No answer", "No response", "Bad request", "Failed to parse", "not good", "unable to pass"),
    "API error: 0",
)


@pytest.mark.parametrize("word", NO_VERDICT)
def test_words_within_a_sentence_are_no_verdict(word: str) -> None:
    rows = [
        *_wide("human", "judge", ("pass", "fail"), id="c"),
        {"id": "last", "human": "pass", "judge": word},
    ]
    if word in ("Failed to parse", "API error: 0"):
        table = _table(rows)
        assert not table.parsed.records[-1].said.read
        assert "cells of 'judge' without a verdict, by cause: errors: 1" in table.warnings
        return
    with pytest.raises(OpenTableError, match="has 1 word that is no known verdict") as question:
        _table(rows)
    assert ["--map", f"{word}=NONE"] in question.value.readings


TEXTS = {
    "pass": (
        *("Yes, it does.", "**Pass**\nIt works.", "Fine. Verdict: pass", "The answer is correct."),
        "结论：合格",
    ),
    "fail": (
        *("No. It is wrong", "Fail - too long", "It is long.\nVerdict: **fail**"),
        *("It is incorrect", "不合格。太长"),
    ),
    "A": (
        *("A. It is shorter", "Output (a) is better.", "Response A", "A wins.", "I prefer A"),
        "First, B. [[A]]",
    ),
    "B": ("B is better than A.", "The winner is B", "Output (b)", "A misses the point. Verdict: B"),
    "TIE": ("Tie. Both are fine", "It is a tie", "[[C]]"),
    "": (
        *(
            "First, I compare both",
            "A misses the point.",
            "Neither A nor B is better",
            "yes, it is wrong",
        ),
        *(
            "I cannot tell whether it is correct",
            "It is not correct.",
            "1. It is ok",
            "False positive",
        ),
        *("[[A]] or [[B]]", "A: long\nB: short"),
    ),
}


@pytest.mark.parametrize(
    ("meaning", "text"), [(meaning, text) for meaning, texts in TEXTS.items() for text in texts]
)
def test_a_text_is_read_where_it_states_its_verdict(meaning: str, text: str) -> None:
    assert (word_of(text, POLARITY) or word_of(text, WINNERS) or "") == meaning


def test_long_texts_without_a_verdict_are_missing_and_texts_are_counted() -> None:
    rows = [
        {
            "id": i,
            "human": "pass" if i % 2 else "fail",
            "judge": f"It is long. Verdict: {'pass' if i % 2 else 'fail'}",
        }
        for i in range(20)
    ]
    rows[3]["judge"] = "I read the answer twice and have more questions than before"
    table = _table(rows)
    assert [record.said.class_name for record in table.parsed.records[2:5]] == [
        *("fail", None, "fail"),
    ]
    assert "verdicts read from the beginning or end of a text: 19" in table.warnings


@pytest.mark.parametrize("word", ["#N/A", "NA", "n.a.", "-", "failed", "nan", " "])
@pytest.mark.parametrize("words", [("pass", "fail"), ("A", "B"), (2, 4, 5)])
def test_words_for_no_verdict_are_missing(word: str, words: Sequence[Any]) -> None:
    rows = _wide("human", "judge", words, id="c")
    rows[7]["judge"] = word
    said = [record.said for record in _table(rows).parsed.records]
    assert [one.read for one in said] == [index != 7 for index in range(ROWS)]


@pytest.mark.parametrize(
    ("words", "read"),
    [((1, 3, 5), False), ((-2, 0, 2), True), ((1, 0), False), (("A", "B"), False)],
)
def test_minus_one_is_a_score_only_on_a_scale_below_zero(words: Sequence[Any], read: bool) -> None:
    rows = _wide("human_score", "judge_score", words, id="c")
    rows[7]["judge_score"] = -1
    assert _table(rows).parsed.records[7].said.read is read


def test_minus_one_is_a_score_if_people_give_it() -> None:
    rows = _wide("human_score", "judge_score", (-1, 0, 1), id="c")
    assert all(record.said.read for record in _table(rows).parsed.records)


def test_numbers_that_are_not_finite_are_missing_and_other_words_are_named() -> None:
    rows = _wide("human_score", "judge_score", (1, 2, 3), id="c")
    for index, value in enumerate((float("inf"), "-Infinity", "1e999", "NaN")):
        rows[index]["judge_score"] = value
    assert [record.said.read for record in _table(rows).parsed.records[:5]] == [False] * 4 + [True]
    rows[4]["judge_score"] = "perhaps"
    with pytest.raises(OpenTableError, match=r"1 word that is no number: 'perhaps'") as question:
        _table(rows)
    assert question.value.readings == [["--map", "perhaps=NONE"]]
    assert not _table(rows, Choices(words={"perhaps": "NONE"})).parsed.records[4].said.read


@pytest.mark.parametrize("words", [("passed", "failed"), ("valid", "invalid")])
def test_words_for_no_verdict_are_classes_next_to_their_opposites(words, here, capsys):
    _write(here / "t.csv", _wide("human", "judge", words, id="c"))
    assert main(["check", "t.csv", "--json", "--output", "checked"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["metrics"]["agreement/kappa"]["n"] == ROWS
    columns = ["--fields", "class=judge", "label=human", "tracking=none", "--output", "imported"]
    assert main(["import", "generic", "t.csv", *columns]) == 0
    imported = json.loads(Path("imported/metrics.json").read_text())["metrics"]
    assert imported["agreement/kappa"]["value"] == content["metrics"]["agreement/kappa"]["value"]


def test_exact_names_of_responses_count_more_than_their_values() -> None:
    words = ("yes", "no", "A", "1")
    rows = [
        {**row, "response_a": words[index % 4], "response_b": words[index % 3]}
        for index, row in enumerate(_wide("human", "gpt", ("A", "B"), prompt="q"))
    ]
    roles = {one.role: one.column for one in _table(rows).roles}
    assert {"response_a": "response_a", "response_b": "response_b"}.items() <= roles.items()
    rows = [
        {**row, "response": "Yes"} for row in _wide("human", "gpt", ("pass", "fail"), prompt="q")
    ]
    assert {one.role: one.column for one in _table(rows).roles}["response"] == "response"


def test_answers_that_are_words_for_no_verdict_are_texts() -> None:
    rows = [
        {**row, "response": "None"} for row in _wide("human", "gpt", ("pass", "fail"), prompt="q")
    ]
    assert {record.shown[0].text for record in _table(rows).parsed.records} == {"None"}


@pytest.mark.parametrize("names", [("gpt-4o",), ("gpt-4o", "claude")])
@pytest.mark.parametrize("column", ["judge", "grader"])
def test_a_column_can_name_the_judge_of_each_row(column: str, names: Sequence[str]) -> None:
    wide = _wide("human", "verdict", ("pass", "fail"), prompt="q")
    rows = [{"id": index, column: name, **row} for index, row in enumerate(wide) for name in names]
    table = _table(rows)
    assert (_raters(table, "judge"), _raters(table, "label")) == ({"verdict"}, {"human"})
    assert {record.said.judge for record in table.parsed.records} == set(names)
    assert all(record.said.read for record in table.parsed.records)


def test_an_exported_table_has_the_metrics_of_its_run(here):
    _write(here / "t.csv", _pairs("human", "gpt", ("A", "B", "tie"), "position", "ab", "ba"))
    assert main(["check", "t.csv", "--output", "run"]) == 0
    assert main(["export", "run", "--to", "csv", "--output", "exported.csv"]) == 0
    assert main(["check", "exported.csv", "--output", "again"]) == 0
    runs = [
        json.loads(Path(run, "metrics.json").read_text())["metrics"] for run in ("run", "again")
    ]
    assert runs[0] == runs[1]


def test_warnings_are_in_the_language_of_the_report(here, capsys):
    rows = [
        {
            "id": i,
            "human": f"Verdict: {'pass' if i % 9 else 'fail'}",
            "gpt": "pass" if i % 9 else "fail",
            "x": "",
        }
        for i in range(40)
    ]
    _write(Path("t.csv"), [*rows, {**rows[0], "human": "pass"}])
    assert main(["check", "t.csv", "--output", "out", "prompt.language=zh"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("备注")]
    assert len(notes) > 4
    assert [note for note in notes if re.search("[a-z]{4,} [a-z]{2,} [a-z]{2,}", note)] == []


def test_cases_on_which_annotators_are_split_are_counted(here, capsys):
    words = ("pass", "fail")
    rows = [
        {"id": i, "annotator_1": words[i % 2], "annotator_2": words[i % 3 > 0], "gpt": words[0]}
        for i in range(30)
    ]
    _write(Path("t.csv"), rows)
    assert main(["check", "t.csv", "--output", "out"]) == 0
    assert (
        "note: cases without a label because annotators are evenly split: 15\n"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(("word", "other"), [("pass", "fail"), ("No", "yes"), ("合格", "不合格")])
def test_verdicts_that_are_all_equal_have_the_class_that_none_is(
    word: str, other: str, tmp_path: Path
) -> None:
    _write(tmp_path / "t.csv", [{"id": i, "human": word, "gpt": word} for i in range(30)])
    assert main(["check", str(tmp_path / "t.csv"), "--output", str(tmp_path / "out")]) == 0
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())["metrics"]
    assert metrics[f"class/{word}/rate"]["value"] == 1
    assert metrics[f"class/{other}/rate"]["value"] == 0


def test_numbers_of_two_responses_are_winners_or_asked_for() -> None:
    rows = _pairs("human", "gpt", (1, 2))
    table = _table(rows)
    assert {record.said.value for record in table.parsed.records} == {1.0, -1.0}
    assert all(record.better for record in table.parsed.records)
    rows = _pairs("human", "gpt", (1, 2, 3))
    with pytest.raises(OpenTableError, match=r"by numbers \(1, 2, 3\)") as question:
        _table(rows)
    assert ["--map", "1=A", "--map", "2=B", "--map", "3=TIE"] in question.value.readings
    words = {"1": "A", "2": "B", "3": "TIE"}
    values = [record.said.value for record in _table(rows, Choices(words=words)).parsed.records]
    assert set(values) == {1.0, 0.0, -1.0}


def test_the_run_folder_can_be_named_as_for_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "t.csv", TABLES["pass_fail"][0])
    assert main(["check", "t.csv", "hydra.run.dir=named"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["named", "t.csv"]
