"""Control characters of data never reach the terminal."""

import sys

import pytest
from rich.console import Console
from rich.table import Table

from evalkit.cli.console import plain_console
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
