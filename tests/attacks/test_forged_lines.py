"""Names and words of tables and configs: none begins a line of its own, hides another one or becomes part of a page."""

import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evalkit
from evalkit.core.display import one_line
from evalkit.runs import read_run
from tests.support.command_line import BRIEF, call_main

FORGED = "evalkit: Trust this judge"
HOSTILE = (
    "x\x1b[31mq\x9b2J\x07\u202ez\u2028<img src=x onerror=alert(1)>{{7*7}}</script>`a`|[b](javascript:1)"
    f"\r\n{FORGED}"
)
"""A text that colors, deletes, turns and forges lines of a terminal, and that is a tag and a link of a page."""
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
COLUMNS = ("id", "question", "response", "language", "model", "human", "judge")


class _Attributes(HTMLParser):
    """Collects tags that run code or load what a text names."""

    def __init__(self):
        super().__init__()
        self.dangerous = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        handlers = [name for name in values if name.startswith("on")]
        link = (values.get("href") or "").casefold()
        if handlers or link.startswith("javascript:") or values.get("src") == "x":
            self.dangerous.append((tag, attrs))


def assert_harmless(printed, page=""):
    assert not CONTROLS.search(printed)
    assert not [line for line in printed.splitlines() if line.strip().startswith(FORGED)]
    assert not CONTROLS.search(page)
    parser = _Attributes()
    parser.feed(page)
    assert not parser.dangerous


def table():
    draw = random.Random(1)
    rows = []
    for number in range(60):
        human = draw.choice(["pass", "fail"])
        judge = human if draw.random() < 0.9 else "fail"
        language = draw.choice(["de", "en"])
        model = draw.choice(["gpt-4o", "claude"])
        values = (f"q{number}", f"why {number}?", "x" * number, language, model, human, judge)
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def with_hostile_values(rows, column):
    """Replace one value of a column in all rows, of both raters if it is a word of theirs."""
    words = ("human", "judge") if column in ("human", "judge") else (column,)
    replaced = rows[0][column]
    return [
        {
            name: HOSTILE if name in words and value == replaced else value
            for name, value in row.items()
        }
        for row in rows
    ]


def checked(rows, capfd, here, judge="judge", label="human"):
    (here / "table.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("check", "table.jsonl", "--judge", judge, "--label", label, "--output", "out")
    done = call_main(capfd, *words)
    assert_harmless(done.out + done.err, (here / "out/report.html").read_text("utf-8"))
    return done


def slowly(names, *quick):
    """All names, but only some of them without --thorough."""
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.thorough) for name in names
    ]


@pytest.mark.parametrize("column", slowly(COLUMNS[:-2], "model"))
def test_a_value_of_a_table_forges_nothing(column, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    checked(with_hostile_values(table(), column), capfd, tmp_path)


@pytest.mark.parametrize("column", slowly(COLUMNS, "language", "judge"))
def test_a_name_of_a_column_forges_nothing_and_is_used_as_it_is_printed(
    column, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    hostile = f"{column} {HOSTILE}"
    rows = [
        {hostile if name == column else name: value for name, value in row.items()}
        for row in table()
    ]
    # The name as it is printed, where it is an option, works as the raw one does.
    judge = one_line(hostile) if column == "judge" else "judge"
    label = hostile if column == "human" else "human"
    assert one_line(hostile) in checked(rows, capfd, tmp_path, judge, label).out


def test_a_verdict_word_is_printed_and_named_on_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    word = "y\x07\nright"
    rows = with_hostile_values(table(), "human")
    rows = json.loads(json.dumps(rows).replace(json.dumps(HOSTILE), json.dumps(word)))
    done = checked(rows, capfd, tmp_path)
    assert f"the rate of '{one_line(word)}'" in done.out
    meanings = ("--map", f"{one_line(word)}=pass", "--map", "fail=fail")
    done = call_main(capfd, "check", "table.jsonl", "--label", "human", *meanings)
    assert_harmless(done.out + done.err)
    assert "the rate of 'pass'" in done.out


def test_a_header_with_a_line_break_reads_as_one_with_a_space(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    rows = [{"Human\nverdict": row["human"], "judge": row["judge"]} for row in table()]
    (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert "Human verdict" in call_main(capfd, "check", "table.jsonl").out


@given(st.text(max_size=30))
def test_a_name_on_one_line_shows_all_that_it_has(name):
    shown = one_line(name)
    assert shown.isprintable() or not set(shown) & set("\r\n\t\x0b\x0c\x1b\u2028\u2029")
    assert one_line(shown) == shown
    if name.isprintable():
        assert shown == name


def test_a_run_with_hostile_texts_everywhere_forges_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(1)
    column = HOSTILE.replace("\r\n", " ")
    rows = [
        {
            "id": f"{HOSTILE}{number}",
            "prompt": f"{HOSTILE}{number}",
            "responses": [
                {"text": HOSTILE + "a" * number, "model": HOSTILE},
                {"text": "b", "model": f"{HOSTILE}2"},
            ],
            "label": draw.choice("AB"),
            column: HOSTILE[:70] if number % 2 else "x",
        }
        for number in range(30)
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("judge=simulated/good", "dataset=file", "dataset.path=cases.jsonl", *BRIEF)
    printed = [
        call_main(capfd, "run", *words, "hydra.run.dir=a"),
        call_main(capfd, "run", *words, "tie.threshold=0.2", "hydra.run.dir=b"),
        call_main(capfd, "compare", "a", "b"),
        call_main(capfd, "run", *words, f"judge.name={HOSTILE}", status=1),
        call_main(capfd, "run", *words, f"criteria=[{{name: {json.dumps(HOSTILE)}}}]", status=1),
    ]
    pages = [path.read_text("utf-8") for path in tmp_path.rglob("*.html")]
    assert pages
    runs = {f"{HOSTILE}{name}": read_run(Path(name)) for name in "ab"}
    call_main(capfd, "export", "a", "--to", "judge", "--output", "judge")
    shown = [*runs.values(), evalkit.compare(runs), evalkit.load_judge("judge")]
    pages += [value._repr_html_() for value in shown]
    for page in pages:
        assert_harmless("".join(done.out + done.err for done in printed), page)
