"""A run's judgments out, and, where a layout can be read, back in."""

from __future__ import annotations

import csv
import io
import json

import pytest

from evalkit.cli import main

PAIRS = [
    {"id": "1", "prompt": "Why?", "response_a": "b,\n\"q\"", "response_b": "no", "model_a": "m1", "model_b": "m2",
     "winner": winner, "order": order, "text": f"[[{text}]]", "label": "A", "judge": "j"}
    for winner, order, text in [("A", "ab", "A"), ("TIE", "ba", "C")]
] + [
    {"id": "2", "prompt": "How?", "response_a": "x", "response_b": "y", "model_a": "m1", "model_b": "m2",
     "winner": winner, "order": order, "text": "…", "label": "B", "judge": "j"}
    for winner, order in [("B", "ab"), ("-1", "ba")]
]  # fmt: skip
SCORES = [
    {
        "id": n,
        "prompt": "p",
        "response": f"r{n}",
        "model": "m",
        "score.style": 4,
        "score.truth": truth,
        "grade": 3,
        "judge": "j",
    }
    for n, truth in enumerate([5, None])
]


@pytest.fixture
def pairs(once):
    return once("pairs", PAIRS)


@pytest.fixture
def scores(once):
    return once("scores", SCORES)


def export(ran, name: str, *words: str) -> bytes:
    file = ran.folder.parent / f"out.{name}"
    assert main(["export", str(ran.folder), "--to", name, "--output", str(file), *words]) == 0
    return file.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pairs", "scores"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_come_back_the_same(request, bring, kind, suffix):
    ran = request.getfixturevalue(kind)
    before, cases = ran.values, ran.rows("cases.jsonl")
    export(ran, suffix)
    again = bring("generic", f"out.{suffix}")
    assert again.values == before
    kept = ("id", "prompt", "responses", "label")
    assert [{key: case[key] for key in kept} for case in again.rows("cases.jsonl")] == [
        {key: case[key] for key in kept} for case in cases
    ]


def test_a_row_has_verdict_and_label(pairs):
    rows = list(csv.DictReader(io.StringIO(export(pairs, "csv").decode())))
    assert [(row["winner"], row["verdict"], row["verdict_reason"], row["label"]) for row in rows] == [
        ("A", "TIE", "swap_disagreement", "A"),
        ("TIE", "TIE", "swap_disagreement", "A"),
        ("B", "", "missing", "B"),
        ("", "", "missing", "B"),
    ]


def test_alpaca_eval_and_back(pairs, bring):
    main(["score", str(pairs.folder), "swap.resolve=mean", "scoring.bootstrap=0"])
    rows = json.loads(export(pairs, "alpaca_eval"))
    assert [(row["generator_1"], row["generator_2"], row["preference"]) for row in rows] == [
        ("m1", "m2", 1.25),
        ("m1", "m2", None),
    ]
    assert bring("alpaca_eval", "out.alpaca_eval", status=1)
    (pairs.folder.parent / "out.alpaca_eval").rename(pairs.folder.parent / "out.json")
    assert bring("alpaca_eval", "out.json").values == [("1", [0, 1], 0.5), ("2", [0, 1], "unparseable")]


def test_the_baseline_is_alpaca_evals_first_output(bring, write):
    rows = [
        {"id": n, "prompt": n, "response_a": "x", "response_b": "y", "model_a": "mine", "model_b": "old", "winner": won}
        for n, won in (("1", "A"), ("2", "A"), ("3", "B"))
    ]
    ran = bring("generic", str(write("m.jsonl", [{**row, "metadata.baseline": "old"} for row in rows])))
    exported = json.loads(export(ran, "alpaca_eval"))
    assert {(row["generator_1"], row["output_1"], row["generator_2"]) for row in exported} == {("old", "y", "mine")}
    assert [row["preference"] for row in exported] == [2.0, 2.0, 1.0]
    again = bring("alpaca_eval", str(write("annotations.json", exported)))
    assert again.metrics["alpaca_eval/win_rate"]["value"] == pytest.approx(2 / 3)


def test_mt_bench_and_back(pairs, bring):
    before = pairs.values
    content = export(pairs, "mt_bench")
    (pairs.folder.parent / "out.jsonl").write_bytes(content)
    again = bring("mt_bench", "out.jsonl")
    assert again.values == before
    assert [one["text"] for one in again.rows("cases.jsonl")[0]["responses"]] == ['b,\n"q"', "no"]


def test_mt_bench_single(scores, bring):
    content = export(scores, "mt_bench")
    (scores.folder.parent / "out.jsonl").write_bytes(content)
    assert [value for _, _, value in bring("mt_bench", "out.jsonl").values] == [{"quality": 4.5}, "unparseable"]


@pytest.mark.parametrize("layout", ["argilla", "label_studio"])
def test_what_people_label_is_blind(pairs, layout):
    text = export(pairs, layout).decode()
    entries = json.loads(text)
    assert len(entries) == 2
    for hidden in ("m1", "m2", "winner", "[[A]]", '"j"', "TIE"):
        assert hidden not in text
    assert export(pairs, layout, "--seed", "0").decode() == text
    assert len(json.loads(export(pairs, layout, "--n", "1"))) == 1


def test_order_is_by_chance_and_seeded(bring, write):
    rows = [{**PAIRS[0], "id": str(n)} for n in range(40)]
    ran = bring("generic", str(write("many.jsonl", rows)))
    first = json.loads(export(ran, "label_studio"))
    other = json.loads(export(ran, "label_studio", "--seed", "7"))
    names = [one["data"]["case_id"] for one in first]
    assert sorted(names) == sorted(str(n) for n in range(40))
    assert names != [one["data"]["case_id"] for one in other] != sorted(names)
    swapped = [one["data"]["shown"] == "1,0" for one in first]
    assert 8 < sum(swapped) < 32
    assert all((one["data"]["response_a"] == "no") == (one["data"]["shown"] == "1,0") for one in first)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "evalkit export: needs --to"),
        (("run",), "evalkit export: needs --to"),
        (("run", "--to", "exel"), "evalkit export: --to: no such choice 'exel'; choose from "),
        (("run", "--to", "csv", "--seed", "x"), "evalkit export: --seed: 'x' is not an integer from 0"),
        (("run", "--tp", "csv"), "evalkit export: no such option --tp; did you mean '--to'?"),
        (("absent", "--to", "csv"), "no such folder"),
        (("run", "--to", "csv", "--output", "/proc/no/file"), "/proc/no/file: cannot be written"),
    ],
)
def test_mistakes_are_one_line(pairs, capsys, words, said):
    capsys.readouterr()
    assert main(["export", *words]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_scores_have_no_preference(scores, capsys):
    assert main(["export", str(scores.folder), "--to", "alpaca_eval"]) == 1
    assert "has no pairs" in capsys.readouterr().err
