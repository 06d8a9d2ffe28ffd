"""Tables of one's own: columns, spellings and orders by option."""

from __future__ import annotations

import pytest

from evalkit.cli import main

ROWS = [
    {
        "q": "1",
        "ask": "Why?",
        "ours": "because",
        "theirs": "no",
        "better": better,
        "first": first,
        "who": who,
        "gold": gold,
    }
    for better, first, who, gold in [
        ("ours", "ab", "j1", "ours"),
        ("theirs", "ba", "j1", "ours"),
        ("same", "ab", "j2", "ours"),
        ("-1", "ba", "j2", "ours"),
    ]
]
FIELDS = ["id=q", "prompt=ask", "response_a=ours", "response_b=theirs", "winner=better", "order=first", "judge=who"]
FIELDS.append("label=gold")
MAPS = ("--map", "ours=A", "--map", "theirs=B", "--map", "same=TIE")


def test_pairs(bring, write):
    ran = bring("generic", str(write("mine.jsonl", ROWS)), "--fields", *FIELDS, *MAPS)
    assert ran.values == [("1", [0, 1], 1.0), ("1", [1, 0], -1.0), ("1", [0, 1], 0.0), ("1", [1, 0], "unparseable")]
    (case,) = ran.rows("cases.jsonl")
    assert (case["label"], [one["text"] for one in case["responses"]]) == ("A", ["because", "no"])
    assert ran.metrics["judge/j1/position/consistency"]["value"] == 0
    assert ran.metrics["judge/j2/position/consistency"]["missing"] == 1


def test_a_csv_of_scores_by_criterion(bring, write):
    text = "model,answer,style,truth,people\nm1,good,4,5,3.5\nm2,bad,2,,1\n"
    path = write("mine.csv", text)
    words = ("response=answer", "score.style=style", "score.truth=truth", "grade=people")
    ran = bring("generic", str(path), "--judge", "me", "--fields", *words)
    assert [value for _, _, value in ran.values] == [{"style": 4.0, "truth": 5.0}, "unparseable"]
    assert "assumed 1 to 5" in ran.out
    config = (ran.folder / "config.yaml").read_text("utf-8")
    assert "\n  style:\n" in config
    assert "name: me" in config


def test_people_are_kept_apart(bring, write):
    rows = [{"id": n, "winner": "A", "ann": ann, "bob": "model_b"} for n, ann in enumerate(["A", "B", "tie"])]
    ran = bring("generic", str(write("m.jsonl", rows)), "--fields", "label.ann=ann", "label.bob=bob")
    assert [row["labels"] for row in ran.rows("cases.jsonl")] == [
        {"ann": "A", "bob": "B"},
        {"ann": "B", "bob": "B"},
        {"ann": "TIE", "bob": "B"},
    ]
    assert ran.metrics["human/alpha"]["n"] > 0


def test_texts_alone_are_read_where_the_output_is_told(bring, write):
    rows = [{"id": "1", "text": "I prefer [[B]]", "order": order} for order in ("ab", "ba")]
    path = str(write("m.jsonl", rows))
    ran = bring("generic", path, "output=bracket")
    assert ran.values == [("1", [0, 1], -1.0), ("1", [1, 0], 1.0)]
    assert "without a verdict" not in ran.out + ran.err
    assert (
        "the file has texts but no verdicts; name their output format: output=" in bring("generic", path, status=1).err
    )
    rows = [{"question_id": 1, "text": "Why?", "instruction": "Say.", "output": "x", "generator": "m"}]
    wrong = bring("generic", str(write("n.jsonl", rows)), status=1)
    assert wrong.err.rstrip().endswith("and looks like AlpacaEval outputs; use dataset=alpaca_eval in evalkit run")


def test_margins_and_only(bring, write):
    rows = [{"id": str(n), "m": m, "kind": kind} for n, (m, kind) in enumerate([(0.5, "x"), (-0.25, "y")])]
    path = str(write("m.jsonl", rows))
    ran = bring("generic", path, "--fields", "margin=m", "metadata.kind=kind", "--only", "kind=y")
    assert ran.values == [("1", [0, 1], -0.25)]
    wrong = bring("generic", path, "--fields", "margin=m", "metadata.kind=kind", "--only", "kind=z", status=1)
    assert "--only kind=z: no such case; choose from x, y" in wrong.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fields", "winner=beter"), "did you mean 'better'?"),
        (("--fields", "winner=better"), "'ours' is not a winner; map it: --map ours=A"),
        ((), "has neither a winner nor a score"),
        (("--fields", "winner=better", "order=who", *MAPS), "'j1' is not an order; write ab"),
        (("--complete", "--fields", "winner=nothing"), "no row has the column 'nothing', mapped to winner"),
        (("--only",), "evalkit import: --only: needs a value"),
        (("winner",), "winner: is not an override"),
        (("--fields", "winner=better", *MAPS, "scoring.bootstraps=1"), "scoring.bootstraps"),
        (("--fields", "winner=better", *MAPS, "tie.threshold=2"), "tie.threshold"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(bring, write, words, said):
    path = str(write("mine.jsonl", ROWS))
    ran = bring("generic", path, *words, status=1)
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not ran.folder.exists()


def test_the_same_cases_can_be_judged_again(bring, write):
    """The config of an imported run names its own cases as the dataset."""
    from evalkit.datasets import load_cases
    from evalkit.hydra_app import load_config

    rows = [{"id": "1", "response": "x", "model": "m", "score": 3, "grade": 2, "prompt": "p"}]
    ran = bring("generic", str(write("m.jsonl", rows)))
    config = load_config(str(ran.folder / "config.yaml"))
    (case,) = load_cases(config.dataset, mode="pointwise").cases
    assert (case.id, case.prompt, case.responses[0].text, case.responses[0].grade) == ("1", "p", "x", 2.0)


@pytest.mark.parametrize(
    ("column", "value", "scale"), [("confidence", 85, "0 to 1"), ("margin", 5, "-1 to 1"), ("margin", -1.5, "-1 to 1")]
)
def test_a_number_on_another_scale_is_refused(write, monkeypatch, capsys, column, value, scale):
    rows = [{"id": "1", "response_a": "x", "response_b": "y", "winner": None, "margin": 0.5, "confidence": 0.5}]
    path = write("m.jsonl", [*rows, {**rows[0], "id": "2", column: value}])
    monkeypatch.chdir(path.parent)
    assert main(["import", "generic", str(path), "tracking=none", "hydra.run.dir=run"]) == 1
    said = f"m.jsonl:2: {column} {value:g} is out of range; write it from {scale}"
    assert said in capsys.readouterr().err
    assert not (path.parent / "run").exists()


def test_scores_must_be_on_the_scale_that_they_are_said_to_be_on(bring, write, capsys):
    path = write("m.csv", "id,response,score\n1,x,50\n2,y,3.5\n")
    fields = ("--fields", "score=score")
    assert main(["import", "generic", str(path), *fields, "rubric=likert5", "tracking=none", "hydra.run.dir=run"]) == 1
    assert "case '1': a score of 50 by 'quality' is not on the scale 1 to 5" in capsys.readouterr().err
    assert "assumed 0 to 100" in bring("generic", str(path), *fields).out
    assert "does not say on what scale" not in bring("generic", str(path), *fields, "rubric=percent100").out


def test_a_response_has_the_text_that_a_later_row_gives_it(bring, write):
    rows = [{"id": "1", "model_a": "m", "model_b": "n", "winner": "A", "judge": judge} for judge in ("j", "k")]
    rows[1] |= {"response_a": "said later", "response_b": "also"}
    ran = bring("generic", str(write("m.jsonl", rows)))
    (case,) = ran.rows("cases.jsonl")
    assert [one["text"] for one in case["responses"]] == ["said later", "also"]


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl"])
def test_a_file_that_is_not_utf8_is_named(bring, write, name):
    rows = [{"id": "1", "prompt": "caf\xe9", "response_a": "x", "response_b": "y", "winner": "A", "order": "ab"}]
    content = (
        [",".join(rows[0]), ",".join(rows[0].values())] if name.endswith("csv") else [str(rows[0]).replace("'", '"')]
    )
    path = write(name, "")
    path.write_bytes("\n".join(content).encode("latin-1"))
    err = bring("generic", name, status=1).err
    assert err.startswith(f"evalkit: {name}:")
    assert "is not UTF-8; save the file as UTF-8" in err


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        ([], True),
        (["rubric.step=0.5"], True),
        (["rubric.min=1", "rubric.max=5"], False),
        (["rubric={min: 1, max: 5}"], False),
        (["rubric=likert5"], False),
        (["rubric.max=10"], False),
    ],
)
def test_a_scale_on_the_command_line_is_not_noted_as_assumed(bring, write, words, noted):
    rows = [f"{number},p{number},r,{1 + number % 5}\n" for number in range(5)]
    path = write("scores.csv", "".join(["id,prompt,response,score\n", *rows]))
    assert ("does not state the scale of its scores" in bring("generic", str(path), *words).out) is noted
