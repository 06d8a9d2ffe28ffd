"""Output formats: the instruction for the judge, and the reader for its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, isclass, signature
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

from evalkit.config import OutputConfig, RunConfig
from evalkit.core.classes import Classes
from evalkit.core.scale import Scale
from evalkit.core.third_party import third_party_errors
from evalkit.errors import ConfigError, PluginError, did_you_mean
from evalkit.parsing import (
    Pattern,
    UnreadableError,
    drop_thinking,
    read_class,
    read_margin,
    read_marked_class,
    read_rating,
    read_score,
    read_verdict,
    read_winner,
)
from evalkit.plugins import OUTPUTS, construct, entry_points_in, find, is_offered
from evalkit.prompting import Prompts, neutralize
from evalkit.protocols import ClassReader, InstructionWriter, ScoreReader, WinnerReader
from evalkit.types import AnswerFormat, Winner

Decision: TypeAlias = Literal["winner", "score", "ranking", "class", "items"]
_WHERE = "output.format"
_PLAIN_WINNERS: Mapping[str, Winner] = MappingProxyType({"Response A": "A", "Response B": "B", "Tie": "TIE"})
"""The default lines of `prompts/<language>/pairwise_regex.md.j2`."""
_PLAIN_SCORE = "Score: {}"
"""The default line of `prompts/<language>/pointwise_regex.md.j2`."""
_PLAIN_CLASS = "Class: {}"
"""The default line of `prompts/<language>/pointwise_class_regex.md.j2`."""


@dataclass(frozen=True, slots=True)
class AnswerTask:
    """What an answer must decide; `scale` is the scale of a score, `classes` are those to choose from."""

    decision: Decision
    tie_allowed: bool = True
    scale: Scale | None = None
    classes: Classes | None = None


class OutputFormat:
    """Base of all formats: `decisions` are those it can read; `structured` is true for evalkit's own JSON.

    The instruction is the template `<mode>_<format>` in the prompts' language, unless `output.instruction` is set.
    """

    decisions: ClassVar[frozenset[Decision]]
    structured: ClassVar[bool] = False
    at_end = False
    """Whether evalkit's own instruction asked for the decision at the end of the answer."""

    def __init__(self, config: OutputConfig, task: AnswerTask) -> None:
        self.config, self.task = config, task

    @property
    def answer(self) -> AnswerFormat | None:
        """The schema sent with each request, if it belongs to the format and not to the mode."""
        return None

    def instruction(self, prompts: Prompts, mode: str, variables: Mapping[str, Any]) -> str:
        """Return the text that tells the judge how to answer.

        Args:
            prompts: The templates of the language.
            mode: The mode.
            variables: The placeholders of the mode's template that do not depend on the case.

        Raises:
            PromptError: If there is no such template, or it cannot be filled.
        """
        return prompts.instruction(f"{mode}_{self.config.format}", **variables)

    def winner(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> Winner:
        """Return the winner as shown (A is the response shown first); arguments as for `read_verdict`.

        Raises:
            UnreadableError: If the text has no winner.
        """
        raise NotImplementedError

    def size(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:  # noqa: ARG002
        """Return the size of the margin of a readable answer with a winner; at most 1.

        Raises:
            UnreadableError: As for `winner`.
        """
        return 1.0

    def score(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
        """Return the score, in scale units; arguments as for `read_verdict`.

        Raises:
            UnreadableError: If the text has no score, or one off the scale.
        """
        raise NotImplementedError

    def class_name(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> str:
        """Return the class, or the abstention; arguments as for `read_verdict`.

        Raises:
            UnreadableError: If the text has no class, or an unknown one.
        """
        raise NotImplementedError

    @property
    def classes(self) -> Classes:
        """The classes to choose from."""
        assert self.task.classes is not None  # only modes with classes ask for one
        return self.task.classes

    @property
    def scale(self) -> Scale:
        """The scale of the score."""
        assert self.task.scale is not None  # only modes with a scale ask for scores
        return self.task.scale

    def _reads_plain_line(self) -> bool:
        """Return whether it reads evalkit's default line, such as `Response A` or `Score: 4`."""
        try:
            if self.task.decision == "score":
                ends = (self.scale.min, self.scale.max)
                return all(self.score(_PLAIN_SCORE.format(self.scale.text(value))) == value for value in ends)
            if self.task.decision == "class":
                names = self.classes.answers
                return all(self.class_name(_PLAIN_CLASS.format(name)) == name for name in names)
            wanted = {line: one for line, one in _PLAIN_WINNERS.items() if one != "TIE" or self.task.tie_allowed}
            return all(self.winner(line) == winner for line, winner in wanted.items())
        except (UnreadableError, PluginError):
            return False


class JsonFormat(OutputFormat):
    """A JSON object with the mode's schema, which the mode reads."""

    decisions = frozenset({"winner", "score", "ranking", "class", "items"})
    structured = True


class BracketFormat(OutputFormat):
    """`[[A]]`, `[[B]]`, `[[C]]` or a class; with `output.graded`, the margin of `[[A>B]]` is a third of `[[A>>B]]`.

    A checklist's answers are `[[met]]`, or `[[2: met]]` if there are several items.
    """

    decisions = frozenset({"winner", "class", "items"})

    def winner(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> Winner:
        """Return the winner in double brackets."""
        return read_verdict(text, self.config, cut_off=cut_off, sources=sources, at_end=self.at_end)

    def size(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
        """Return the size of the verdict in double brackets."""
        if not self.config.graded:
            return 1.0
        return abs(read_margin(text, self.config, cut_off=cut_off, sources=sources, at_end=self.at_end))

    def class_name(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> str:
        """Return the class in double brackets."""
        return read_marked_class(text, self.config, self.classes, cut_off=cut_off, sources=sources, at_end=self.at_end)


class RatingFormat(OutputFormat):
    """`[[7]]` or `[[7.5]]`."""

    decisions = frozenset({"score"})

    def score(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
        """Return the score in double brackets."""
        return read_rating(text, self.config, self.scale, cut_off=cut_off, sources=sources, at_end=self.at_end)


class RegexFormat(OutputFormat):
    """Text read by the user's regular expression.

    Raises:
        ConfigError: If `output.pattern` is not a regular expression, or has no group for the decision.
    """

    decisions = frozenset({"winner", "score", "class"})

    def __init__(self, config: OutputConfig, task: AnswerTask) -> None:
        super().__init__(config, task)
        self._pattern = Pattern(config, task.decision if task.decision in ("score", "class") else "winner")

    def instruction(self, prompts: Prompts, mode: str, variables: Mapping[str, Any]) -> str:
        """Return the default instruction if the pattern reads its answers, otherwise one that shows the pattern."""
        pattern = "" if self._reads_plain_line() else neutralize(self.config.pattern or "")
        meanings = self.classes.answers if self.task.decision == "class" else tuple(_PLAIN_WINNERS.values())
        known = {text: meaning for text, meaning in self.config.map.items() if meaning in meanings}
        table = known or {meaning: meaning for meaning in meanings}
        spellings = {
            wanted: [neutralize(text) for text, meaning in table.items() if meaning == wanted] for wanted in meanings
        }
        return super().instruction(prompts, mode, {**variables, "pattern": pattern, "spellings": spellings})

    def winner(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> Winner:
        """Return the winner that the pattern captures."""
        return self._pattern.winner(text, cut_off=cut_off, sources=sources)

    def score(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
        """Return the score that the pattern captures."""
        return self._pattern.score(text, self.scale, cut_off=cut_off, sources=sources)

    def class_name(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> str:
        """Return the class that the pattern captures."""
        return self._pattern.class_name(text, self.classes, cut_off=cut_off, sources=sources)


_READERS: Mapping[str, tuple[str, type]] = MappingProxyType(
    {"winner": ("winner", WinnerReader), "score": ("score", ScoreReader), "class": ("class_name", ClassReader)}
)
"""The method of a third-party format for each decision, and its protocol."""


class ThirdPartyFormat(OutputFormat):
    """A third-party format: an object with the method `winner`, `score` or `class_name`, and optionally `instruction`.

    Raises:
        PluginError: If it does not exist or cannot read the decision.
    """

    decisions = frozenset({"winner", "score", "class"})

    def __init__(self, config: OutputConfig, task: AnswerTask) -> None:
        super().__init__(config, task)
        self.name, (method, reader) = config.format, _READERS[task.decision]
        found = find(OUTPUTS, self.name, {}, where=_WHERE, methods=[method for method, _ in _READERS.values()])
        self._made = construct(found, config, name=self.name, where=_WHERE) if isclass(found) else found
        if not isinstance(self._made, reader):
            what, remedy = f"'{self.name}' cannot read a {task.decision}", f"use a class with the method {method}"
            raise PluginError(what, where=_WHERE, remedy=remedy)
        self._read: Callable[..., object] = getattr(self._made, method)

    @property
    def answer(self) -> AnswerFormat | None:
        """The plug-in's attribute `schema`, if it has one."""
        schema = getattr(self._made, "schema", None)
        return None if schema is None else AnswerFormat(self.task.decision, schema)

    def instruction(self, prompts: Prompts, mode: str, variables: Mapping[str, Any]) -> str:
        """Return the plug-in's instruction, or the default one if the plug-in has none and reads the default line.

        Raises:
            PluginError: If it has no instruction and does not read the default line, or if its method fails.
        """
        if not isinstance(self._made, InstructionWriter):
            if not self._reads_plain_line():
                what = f"'{self.name}' has no instruction for the judge"
                raise PluginError(what, where=_WHERE, remedy="set output.instruction, or add a method instruction")
            plain = {"pattern": "", "spellings": {}}
            return prompts.instruction(f"{mode}_regex", **variables, **plain)
        names = None if self.task.classes is None else self.task.classes.answers
        details = {"tie_allowed": self.task.tie_allowed, "scale": self.task.scale, "classes": names}
        what = f"the instruction of '{self.name}' fails"
        with third_party_errors(PluginError, what, where=_WHERE, remedy="fix the plug-in"):
            text = _call(self._made.instruction, self.task.decision, prompts.language, **details)
        if not isinstance(text, str) or not text.strip():
            raise PluginError(
                f"the instruction of '{self.name}' is empty or not a string", where=_WHERE, remedy="fix the plug-in"
            )
        return neutralize(text.strip())

    def winner(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> Winner:
        """Return the winner from the plug-in."""
        return read_winner(str(self._value(text, cut_off, sources)))

    def score(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
        """Return the score from the plug-in."""
        return read_score(self._value(text, cut_off, sources), self.scale)

    def class_name(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> str:
        """Return the class from the plug-in."""
        return read_class(self._value(text, cut_off, sources), self.classes)

    def _value(self, text: str, cut_off: bool, sources: Sequence[str]) -> object:
        what, remedy = "it fails on a judge's answer", "fix the plug-in; the answer is stored"
        with third_party_errors(PluginError, what, where=_WHERE, remedy=remedy):
            try:
                return _call(self._read, drop_thinking(text), cut_off=cut_off, sources=tuple(sources))
            except ValueError as error:
                unreadable = error
        if isinstance(unreadable, UnreadableError):
            raise unreadable
        raise UnreadableError("no_answer", str(unreadable) or "there is no answer") from None


def _call(function: Callable[..., object], *values: object, **details: object) -> object:
    """Call a plug-in's method with the `details` that are among its parameters."""
    taken = signature(function).parameters
    takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in taken.values())
    return function(*values, **{name: value for name, value in details.items() if takes_all or name in taken})


BUILT_IN: Mapping[str, type[OutputFormat]] = MappingProxyType(
    {"json": JsonFormat, "bracket": BracketFormat, "rating": RatingFormat, "regex": RegexFormat}
)
_REMEDIES: Mapping[Decision, str] = MappingProxyType(
    {
        "winner": "a rating is a score; set output=bracket or output=json",
        "score": "it reads a winner and this mode needs a score; set output=rating or output=json",
        "class": "a rating is a score, not a class; set output=bracket or output=json",
        "ranking": "rankings are read only from JSON; set output=json",
        "items": "checklist answers are read from JSON or double brackets; set output=json or output=bracket",
    }
)


def make_format(config: RunConfig, task: AnswerTask) -> OutputFormat:
    """Return the format for `output.format`.

    Raises:
        PluginError: If there is no such format, or it is an unusable plug-in.
        ConfigError: If it cannot read the decisions of the mode.
    """
    name = config.output.format
    if name not in BUILT_IN:
        is_open = task.decision in ThirdPartyFormat.decisions
        if is_open and is_offered(OUTPUTS, name):
            return ThirdPartyFormat(config.output, task)
        known = [*BUILT_IN, *(point.name for point in entry_points_in(OUTPUTS) if is_open)]
        raise PluginError(f"there is no '{name}'", where=_WHERE, remedy=did_you_mean(name, known))
    found = BUILT_IN[name]
    if task.decision not in found.decisions:
        what, remedy = f"mode {config.mode.name} cannot read '{name}'", _REMEDIES[task.decision]
        raise ConfigError(what, where=_WHERE, remedy=remedy)
    return found(config.output, task)
