"""Output formats of someone else's: found by name, checked when the evaluator is made, and read as strictly as ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, isclass, signature
from typing import Any, Protocol, TypeVar

from evalkit.config import OutputConfig
from evalkit.errors import PluginError
from evalkit.parsing import UnreadableError, drop_thinking, read_score, read_winner
from evalkit.plugins import OUTPUTS, find, is_offered, make
from evalkit.protocols import ReadsScore, ReadsWinner
from evalkit.scales import Scale
from evalkit.types import Winner

R_co = TypeVar("R_co", covariant=True)


class Reads(Protocol[R_co]):
    """Reads a text as `read_verdict` and `read_rating` do."""

    def __call__(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> R_co:
        """Return what the text says."""
        ...


def own_winner(output: OutputConfig) -> Reads[Winner] | None:
    """Return what reads a winner in a text, if the output format is someone else's; none if it is ours.

    Raises:
        PluginError: if it is not there, or does not read winners.
    """
    made = _made(output, ReadsWinner, "winner")
    if made is None:
        return None
    said = _reading(made.winner)
    return lambda text, *, cut_off=False, sources=(): read_winner(str(said(text, cut_off=cut_off, sources=sources)))


def own_score(output: OutputConfig, scale: Scale) -> Reads[float] | None:
    """Return what reads a score on `scale` in a text, if the output format is someone else's; none if it is ours.

    Raises:
        PluginError: if it is not there, or does not read scores.
    """
    made = _made(output, ReadsScore, "score")
    if made is None:
        return None
    said = _reading(made.score)
    return lambda text, *, cut_off=False, sources=(): read_score(said(text, cut_off=cut_off, sources=sources), scale)


def _made(output: OutputConfig, protocol: Any, method: str) -> Any:
    name, where = output.format, "output.format"
    if not is_offered(OUTPUTS, name):
        return None
    found = find(OUTPUTS, name, {}, where=where, methods=("winner", "score"))
    made = make(found, output, name=name, where=where) if isclass(found) else found
    if not isinstance(made, protocol):
        raise PluginError(f"'{name}' reads no {method}", where=where, remedy=f"give a class with the method {method}")
    return made


def _reading(read: Callable[..., object]) -> Reads[object]:
    """Return a plug-in's reading, with `cut_off` and `sources` if it takes them, and its faults said in one line."""
    taken = signature(read).parameters
    whatever = any(one.kind is Parameter.VAR_KEYWORD for one in taken.values())

    def said(text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> object:
        known = {"cut_off": cut_off, "sources": tuple(sources)}
        try:
            return read(drop_thinking(text), **{k: value for k, value in known.items() if whatever or k in taken})
        except UnreadableError:
            raise
        except ValueError as error:
            raise UnreadableError("no_answer", str(error) or "there is no answer") from None
        except Exception as error:  # a plug-in's own code runs here, and may fail in any way
            what = f"it fails on a judge's answer: {type(error).__name__}: {error}"
            raise PluginError(what, where="output.format", remedy="mend the plug-in; the answer is stored") from error

    return said
