"""Every command that a question prints is quoted for a shell, and leads to a conclusion or a further question."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.core.errors import ConfigError
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.judgment_files import rows_of
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.questions import Answer, OpenTableError, command
from evalkit.interop.tables.rater_levels import UnknownWordError
from evalkit.interop.tables.reading import import_table
from evalkit.interop.tables.table import read_table
from evalkit.interop.tables.tried_answers import with_commands
from tests.interop.test_table_reading import OPEN
from tests.interop.test_table_rules import ASKED, GRADE, IDS, JUDGE, LABEL, ROWS, SCORE
from tests.support.tables import sample
from tests.support.thorough import some_of

DEPTH = 3


def _chosen(choices: Choices, options: Sequence[str]) -> Choices:
    """Return choices with the options of an answer, after a shell has read them."""
    words = shlex.split(command(options))
    assert words == list(options)
    return choices.with_options(words)


def _dead_ends(rows: Any, choices: Choices, depth: int = 0) -> Iterator[str]:
    """Yield the answers after which a table cannot be read."""
    try:
        read_table(rows, "t.csv", choices)
    except OpenTableError as question:
        if depth == DEPTH or not question.answers:
            yield f"asks again: {question.what}"
            return
        for answer in question.answers:
            for end in _dead_ends(rows, _chosen(choices, answer.options), depth + 1):
                yield f"{command(answer.options)}: {end}"
    except ConfigError as error:
        if depth:
            yield str(error)


def _placed(cells: Mapping[str, Sequence[Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"t:{i}", dict(zip(cells, values, strict=True)))
        for i, values in enumerate(zip(*cells.values(), strict=True))
    ]


@pytest.mark.parametrize("name", [*OPEN, *ASKED])
def test_answers_to_questions_lead_on(name):
    if name in OPEN:
        rows = [(f"t:{index}", OPEN[name][0](index)) for index in range(ROWS)]
    else:
        cells = {"id": [f"c{i}" for i in range(ROWS)], **ASKED[name][0]}
        rows = _placed({column: values for column, values in cells.items() if values})
    assert list(_dead_ends(rows, Choices())) == []


def test_a_refusal_offers_columns_that_go_together():
    cells = {"id": IDS, "gpt": [f"see note {i}" for i in range(ROWS)], "human": GRADE}
    cells["priority"] = SCORE
    rows = _placed(cells)
    with pytest.raises(OpenTableError) as asked:
        import_table(rows, "t.csv", Path("t.csv"), Choices())
    options = [answer.options for answer in asked.value.answers]
    assert ("--judge", "priority", "--label", "human") in options


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(("word", "near"), [("bogus", "choose from"), ("pas", "mean 'pass'")])
def test_a_mapped_word_that_no_rater_has_is_one_error(asked, word, near):
    cells = {"id": IDS, "judge": JUDGE, "verdict" if asked else "human": LABEL}
    choices = Choices(words={word: "pass"})
    with pytest.raises(UnknownWordError, match=f"'{word}'") as error:
        import_table(_placed(cells), "t.csv", Path("t.csv"), choices)
    assert near in error.value.remedy


def test_people_who_agree_are_not_offered_as_a_judge_and_a_label():
    rows = _placed({"input": IDS, "output": IDS[::-1], "annotator1": LABEL, "annotator2": JUDGE})
    with pytest.raises(ConfigError) as refused:
        read_table(rows, "t.csv", Choices())
    assert with_commands(refused.value, rows, "t.csv", Choices()) is refused.value


def test_answers_that_lead_nowhere_are_not_offered():
    rows = _placed({"id": IDS, "judge": JUDGE, "human": LABEL})
    answers = [Answer("none", ("--judge", "nobody")), Answer("some", ("--judge", "judge"))]
    question = OpenTableError("which?", "t.csv", answers)
    tried = with_commands(question, rows, "t.csv", Choices())
    assert isinstance(tried, OpenTableError)
    assert [answer.meaning for answer in tried.answers] == ["some"]


@pytest.mark.parametrize("first", some_of(range(0, 800, 80), 10))
def test_answers_to_questions_of_generated_tables_lead_on(first, tmp_path):
    ends = []
    for seed in range(first, first + 80):
        made = sample(seed)
        path = tmp_path / "t.csv"
        path.write_text(made.text, encoding="utf-8")
        ends += [(made.made, end) for end in _dead_ends(list(rows_of(path)), Choices())]
    assert ends == []


@pytest.mark.shared
@pytest.mark.thorough
def test_answers_to_questions_of_shared_tables_lead_on(shared):
    asked = {}
    for path in sorted((shared / "tables").iterdir()):
        if recognize_format(path) is None:
            asked[path.name] = list(_dead_ends(list(rows_of(path)), Choices()))
    assert {name: ends for name, ends in asked.items() if ends} == {}


def _write_open_table() -> None:
    row, _ = OPEN["no_judge"]
    rows = [row(index) for index in range(ROWS)]
    lines = [",".join(rows[0]), *(",".join(map(str, one.values())) for one in rows)]
    Path("t.csv").write_text("\n".join(lines), encoding="utf-8")


CHECK = [sys.executable, "-m", "evalkit", "check", "t.csv", "--output", "run"]


def test_a_question_is_asked_and_answered_at_a_real_terminal(here):
    _write_open_table()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*CHECK, "scoring.bootstrap=100"], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while b"or Enter to stop" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, b"1\n")
        while part := _rest(ours):
            shown += part
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"  1: " in shown
    assert Path("run/metrics.json").exists()


def _rest(terminal: int) -> bytes:
    """Return what a terminal shows next; nothing after its end."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_no_question_waits_for_an_answer_if_the_output_is_a_pipe(here):
    _write_open_table()
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(CHECK, stdin=theirs, capture_output=True, timeout=120, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 1
    assert b"or Enter to stop" not in done.stdout
    assert not Path("run").exists()
