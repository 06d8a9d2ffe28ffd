"""Evaluators of someone else's: whatever goes wrong in them is one line that names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter, isclass, signature
from math import isfinite
from typing import Any, Protocol, TypeVar

from evalkit.config import OutputConfig
from evalkit.core.scale import Scale
from evalkit.errors import EvalkitError, PluginError
from evalkit.parsing import UnreadableError, drop_thinking, read_score, read_winner
from evalkit.plugins import OUTPUTS, construct, find, is_offered
from evalkit.protocols import Evaluator, FollowUpEvaluator, ScoreReader, WinnerReader
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Winner

PAID = "mend the plug-in; answers are stored"


def guard_evaluator(inner: Evaluator, name: str) -> Evaluator:
    """Return an evaluator whose errors, but for evalkit's own, are PluginErrors that name it and the case."""
    return _FollowingGuarded(inner, name) if isinstance(inner, FollowUpEvaluator) else _Guarded(inner, name)


def impossible(judgment: Judgment) -> str | None:
    """Return what is wrong with a judgment's numbers, none if they can be.

    Margins lie between -1 and 1, confidences between 0 and 1; scores of single responses are finite.
    """
    values = [*judgment.criteria.values(), *([] if judgment.value is None else [judgment.value])]
    if not all(isfinite(value) and (len(judgment.unit) == 1 or -1 <= value <= 1) for value in values):
        return f"values {values} are not finite, or margins not between -1 and 1"
    if judgment.confidence is not None and not 0 <= judgment.confidence <= 1:
        return f"confidence {judgment.confidence} is not between 0 and 1"
    return None


class _Guarded:
    def __init__(self, inner: Evaluator, name: str) -> None:
        self.inner, self._name = inner, name

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # asked for before it is there, by what copies objects
            raise AttributeError(name)
        return getattr(self.inner, name)

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return what the plug-in asks."""
        with self._blamed("plan", case.id):
            return tuple(self.inner.plan(case))

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return what the plug-in reads."""
        with self._blamed("read", request.case_id):
            read = self.inner.read(request, completion)
        if isinstance(read, Judgment) and (fault := impossible(read)):
            what = f"'{self._name}' reads on case '{request.case_id}' what cannot be: {fault}"
            raise PluginError(what, where="mode.name", remedy=PAID)
        return read

    @contextmanager
    def _blamed(self, method: str, case_id: str) -> Iterator[None]:
        try:
            yield
        except EvalkitError:
            raise
        except Exception as error:  # a plug-in's own code runs here, and may fail in any way
            what = f"'{self._name}' fails in {method} on case '{case_id}': {type(error).__name__}: {error}"
            raise PluginError(what, where="mode.name", remedy=PAID) from error


class _FollowingGuarded(_Guarded):
    def follow(self, case: Case, judgments: Sequence[Judgment]) -> Sequence[JudgeRequest]:
        """Return what the plug-in asks once all judgments of a unit are there."""
        with self._blamed("follow", case.id):
            return tuple(self.inner.follow(case, judgments)) if isinstance(self.inner, FollowUpEvaluator) else ()


R_co = TypeVar("R_co", covariant=True)


class FormatReader(Protocol[R_co]):
    """Reads a text as `read_verdict` and `read_rating` do."""

    def __call__(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> R_co:
        """Return what the text says."""
        ...


def third_party_winner(output: OutputConfig) -> FormatReader[Winner] | None:
    """Return what reads a winner in a text, if the output format is someone else's; none if it is ours.

    Raises:
        PluginError: if it is not there, or does not read winners.
    """
    made = _made(output, WinnerReader, "winner")
    if made is None:
        return None
    said = _reading(made.winner)
    return lambda text, *, cut_off=False, sources=(): read_winner(str(said(text, cut_off=cut_off, sources=sources)))


def third_party_score(output: OutputConfig, scale: Scale) -> FormatReader[float] | None:
    """Return what reads a score on `scale` in a text, if the output format is someone else's; none if it is ours.

    Raises:
        PluginError: if it is not there, or does not read scores.
    """
    made = _made(output, ScoreReader, "score")
    if made is None:
        return None
    said = _reading(made.score)
    return lambda text, *, cut_off=False, sources=(): read_score(said(text, cut_off=cut_off, sources=sources), scale)


def _made(output: OutputConfig, protocol: Any, method: str) -> Any:
    name, where = output.format, "output.format"
    if not is_offered(OUTPUTS, name):
        return None
    found = find(OUTPUTS, name, {}, where=where, methods=("winner", "score"))
    made = construct(found, output, name=name, where=where) if isclass(found) else found
    if not isinstance(made, protocol):
        raise PluginError(f"'{name}' reads no {method}", where=where, remedy=f"give a class with the method {method}")
    return made


def _reading(read: Callable[..., object]) -> FormatReader[object]:
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
