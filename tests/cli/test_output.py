"""Control characters of data never reach the terminal."""

import io
import logging
import sys
import threading

import pytest
from rich.console import Console
from rich.table import Table

from evalkit.cli.console import log_handler, plain_console
from evalkit.cli.output import printable_output

HOSTILE = "a\x1b[31mred\x07\x9b2J\r\u202eb\tc"
SHOWN = "a\ufffd[31mred\ufffd\ufffd2J\ufffd\ufffdb\tc"


def test_what_a_command_prints_has_no_control_characters(capsys):
    with printable_output():
        print(HOSTILE)
        sys.stdout.write(HOSTILE + "\n")
        plain_console().print(HOSTILE)
    assert not sys.stdout.isatty()
    found = capsys.readouterr().out.splitlines()
    assert len(found) == 3
    assert set(found[:2]) == {SHOWN}
    assert not set("\x1b\x07\x9b\u202e") & set(found[2])


@pytest.mark.parametrize("name", ["rows", "headings"])
def test_tables_have_no_control_characters(capsys, name):
    table = Table(HOSTILE if name == "headings" else "x")
    table.add_row(HOSTILE if name == "rows" else "x")
    plain_console().print(table)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\x9b" not in out


def test_styles_of_evalkit_pass(capsys):
    with printable_output():
        Console(force_terminal=True, color_system="standard").print("[bold]x[/bold]")
    assert "\x1b[1mx" in capsys.readouterr().out


def test_who_does_not_read_standard_error_stops_no_event_loop(monkeypatch):
    """A server's warnings wait, and beyond a limit they are dropped; the loop goes on."""
    stalled, printing, read = io.StringIO(), threading.Event(), threading.Event()

    def write(text: str) -> int:
        printing.set()
        assert read.wait(60)
        return io.StringIO.write(stalled, text)

    monkeypatch.setattr(stalled, "write", write, raising=False)
    monkeypatch.setattr("sys.stderr", stalled)
    with log_handler(threaded=True):
        for number in range(3000):
            logging.getLogger("evalkit.test").warning("warning %d", number)
        assert printing.wait(60)
        read.set()
    lines = stalled.getvalue().splitlines()
    assert lines[0] == "evalkit: note: warning 0"
    assert len(lines) <= 1002
