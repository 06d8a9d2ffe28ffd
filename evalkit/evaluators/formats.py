"""Output formats of someone else's: found by name, checked when the evaluator is made, and read as strictly as ours."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isclass
from typing import Any, TypeVar

from evalkit.config import OutputConfig
from evalkit.errors import PluginError
from evalkit.parsing import UnreadableError, drop_thinking, read_score, read_winner
from evalkit.plugins import OUTPUTS, find, is_offered, make
from evalkit.protocols import ReadsScore, ReadsWinner
from evalkit.scales import Scale
from evalkit.types import Winner

T = TypeVar("T")


def own_winner(output: OutputConfig) -> Callable[[str], Winner] | None:
    """Return what reads a winner in a text, if the output format is someone else's; none if it is ours.

    Raises:
        PluginError: if it is not there, or does not read winners.
    """
    made = _made(output, ReadsWinner, "winner")
    return None if made is None else lambda text: read_winner(str(_read(made.winner, text)))


def own_score(output: OutputConfig, scale: Scale) -> Callable[[str], float] | None:
    """Return what reads a score on `scale` in a text, if the output format is someone else's; none if it is ours.

    Raises:
        PluginError: if it is not there, or does not read scores.
    """
    made = _made(output, ReadsScore, "score")
    return None if made is None else lambda text: read_score(_read(made.score, text), scale)


def _made(output: OutputConfig, protocol: Any, method: str) -> Any:
    name, where = output.format, "output.format"
    if not is_offered(OUTPUTS, name):
        return None
    found = find(OUTPUTS, name, {}, where=where)
    made = make(found, output, name=name, where=where) if isclass(found) else found
    if not isinstance(made, protocol):
        raise PluginError(f"'{name}' reads no {method}", where=where, remedy=f"give a class with the method {method}")
    return made


def _read(read: Callable[[str], T], text: str) -> T:
    try:
        return read(drop_thinking(text))
    except UnreadableError:
        raise
    except ValueError as error:
        raise UnreadableError("no_answer", str(error) or "there is no answer") from None
    except Exception as error:  # a plug-in's own code runs here, and may fail in any way
        what = f"it fails on a judge's answer: {type(error).__name__}: {error}"
        raise PluginError(what, where="output.format", remedy="mend the plug-in; the answer is stored") from error
