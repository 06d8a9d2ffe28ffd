"""Output formats: the instruction for the judge, and the reader for its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, isclass, signature
from types import MappingProxyType
from typing import ClassVar

from evalkit.config import OutputConfig, RunConfig
from evalkit.core.errors import ConfigError, PluginError, did_you_mean
from evalkit.core.plugins import (
    OUTPUTS,
    construct,
    entry_points_in,
    find,
    is_offered,
    third_party_errors,
)
from evalkit.core.protocols import (
    ClassReader,
    InstructionWriter,
    ScoreReader,
    WinnerReader,
)
from evalkit.core.types import AnswerFormat, Winner
from evalkit.core.values import Json
from evalkit.evaluators.parsing import (
    MARGINS,
    AnswerKind,
    AnswerTask,
    Pattern,
    Reply,
    UnreadableError,
    check_statements,
    drop_thinking,
    read_marks,
)
from evalkit.evaluators.prompting import Prompts, neutralize

_WHERE = "output.format"
_PLAIN_WINNERS: Mapping[str, Winner] = MappingProxyType(
    {"Response A": "A", "Response B": "B", "Tie": "TIE"}
)
"""The default lines of `prompts/<language>/pairwise_regex.md.j2`."""


class OutputFormat:
    """Base of all formats: `decisions` are those it can read.

    The instruction is the template `<mode>_<format>` in the prompts' language, unless
    `output.instruction` is set.
    """

    decisions: ClassVar[frozenset[AnswerKind]]
    at_end = False
    """Whether evalkit's own instruction asked for the decision at the end of the answer."""

    def __init__(self, config: OutputConfig, task: AnswerTask) -> None:
        self.config, self.task = config, task

    @property
    def answer(self) -> AnswerFormat | None:
        """The schema sent with each request, if it belongs to the format and not to the mode."""
        return None

    def instruction(self, prompts: Prompts, mode: str, variables: Json) -> str:
        """Return the text that tells the judge how to answer.

        Args:
            prompts: The templates of the language.
            mode: The mode.
            variables: The placeholders of the mode's template that do not depend on the case.

        Raises:
            PromptError: If there is no such template, or it cannot be filled.
        """
        return prompts.instruction(f"{mode}_{self.config.format}", **variables)

    def read(self, reply: Reply) -> float | str:
        """Return the decision: a winner's margin as shown, a score in scale units, a
        class, or the abstention.

        A margin is positive if the response shown first is better.

        Raises:
            UnreadableError: If the text has no decision, or an unknown one.
        """
        raise NotImplementedError

    def _reads_plain_line(self) -> bool:
        """Return whether the plug-in reads evalkit's default line.

        Such as `Response A`, `Score: 4` or `Class: good`, as prompts ask for it.
        """
        task = self.task
        lines: dict[str, float | str]
        if task.scale is not None:
            lines = {
                f"Score: {task.scale.text(value)}": value
                for value in (task.scale.min, task.scale.max)
            }
        elif task.classes is not None:
            lines = {f"Class: {name}": name for name in task.classes.answers}
        else:
            winners = {
                line: winner
                for line, winner in _PLAIN_WINNERS.items()
                if winner != "TIE" or task.tie_allowed
            }
            lines = {line: MARGINS[winner] for line, winner in winners.items()}
        try:
            # Tried and not compared: a pattern that reads the default lines can use the default
            # instruction.
            return all(self.read(Reply(line)) == value for line, value in lines.items())
        except (UnreadableError, PluginError):
            return False


class JsonFormat(OutputFormat):
    """A JSON object with the mode's schema, which the mode reads."""

    decisions = frozenset({"winner", "score", "ranking", "class", "items"})


_WINNER_OF_SIDE: Mapping[float, Winner] = MappingProxyType(
    {margin: winner for winner, margin in MARGINS.items()}
)


class BracketFormat(OutputFormat):
    """`[[A]]`, `[[B]]`, `[[C]]` or a class; with `output.graded`, the margin of
    `[[A>B]]` is a third of `[[A>>B]]`.

    A checklist's answers are `[[met]]`, or `[[2: met]]` if there are several items.
    """

    decisions: ClassVar[frozenset[AnswerKind]] = frozenset({"winner", "class", "items"})

    def read(self, reply: Reply) -> float | str:
        """Return the decision in double brackets."""
        decision = read_marks(reply, self.config, self.task)
        if self.task.scale is None:
            side = self._side_of(decision)
            winner = None if isinstance(side, str) else _WINNER_OF_SIDE[side]
            check_statements(reply.text, reply.sources, self._side, side, winner=winner)
        return decision

    def _side(self, written: str) -> float | str:
        return self._side_of(self.task.value(written))

    def _side_of(self, decision: float | str) -> float | str:
        """Return a decision without the size of its margin, which words do not state."""
        if isinstance(decision, str):
            return decision
        return float((decision > 0) - (decision < 0))


class RatingFormat(BracketFormat):
    """`[[7]]` or `[[7.5]]`."""

    decisions = frozenset({"score"})


class RegexFormat(OutputFormat):
    """Text read by the user's regular expression.

    Raises:
        ConfigError: If `output.pattern` is not a regular expression, or has no group for the
            decision.
    """

    decisions = frozenset({"winner", "score", "class"})

    def __init__(self, config: OutputConfig, task: AnswerTask) -> None:
        super().__init__(config, task)
        self._pattern = Pattern(config, task)

    def instruction(self, prompts: Prompts, mode: str, variables: Json) -> str:
        """Return the default instruction if the pattern reads its answers, otherwise
        one that shows the pattern.
        """
        if self._reads_plain_line():
            pattern = ""
        else:
            pattern = neutralize(self.config.pattern or "")
        if self.task.classes:
            meanings = self.task.classes.answers
        else:
            meanings = tuple(_PLAIN_WINNERS.values())
        mapped = {
            text: meaning
            for text, meaning in self.config.map.items()
            if meaning in meanings
        }
        # Without a map, the words are their own meaning.
        table = mapped or {meaning: meaning for meaning in meanings}
        spellings = {
            decision: [
                neutralize(text)
                for text, meaning in table.items()
                if meaning == decision
            ]
            for decision in meanings
        }
        return super().instruction(
            prompts, mode, {**variables, "pattern": pattern, "spellings": spellings}
        )

    def read(self, reply: Reply) -> float | str:
        """Return the decision that the pattern captures."""
        return self._pattern.read(reply)


_READERS: Mapping[str, tuple[str, type]] = MappingProxyType(
    {
        "winner": ("winner", WinnerReader),
        "score": ("score", ScoreReader),
        "class": ("class_name", ClassReader),
    }
)
"""The method of a third-party format for each decision, and its protocol."""


class ThirdPartyFormat(OutputFormat):
    """A third-party format: an object with the method `winner`, `score` or
    `class_name`, and optionally `instruction`.

    Raises:
        PluginError: If it does not exist or cannot read the decision.
    """

    decisions = frozenset({"winner", "score", "class"})

    def __init__(self, config: OutputConfig, task: AnswerTask) -> None:
        super().__init__(config, task)
        self.name = config.format
        method, reader = _READERS[task.decision]
        plugin = find(
            OUTPUTS,
            self.name,
            {},
            where=_WHERE,
            methods=[method for method, _ in _READERS.values()],
        )
        self._made = (
            construct(plugin, config, name=self.name, where=_WHERE)
            if isclass(plugin)
            else plugin
        )
        # Checked when it is made: the first answer is already paid for.
        if not isinstance(self._made, reader):
            problem = f"'{self.name}' cannot read a {task.decision}"
            remedy = f"use a class with the method {method}"
            raise PluginError(problem, where=_WHERE, remedy=remedy)
        self._method: Callable[..., object] = getattr(self._made, method)

    @property
    def answer(self) -> AnswerFormat | None:
        """The plug-in's attribute `schema`, if it has one."""
        schema = getattr(self._made, "schema", None)
        if schema is None:
            return None
        return AnswerFormat(self.task.decision, schema)

    def instruction(self, prompts: Prompts, mode: str, variables: Json) -> str:
        """Return the plug-in's instruction, or the default one if the plug-in has none
        and reads the default line.

        Raises:
            PluginError: If it has no instruction and does not read the default line, or if its
                method fails.
        """
        if not isinstance(self._made, InstructionWriter):
            if not self._reads_plain_line():
                problem = f"'{self.name}' has no instruction for the judge"
                raise PluginError(
                    problem,
                    where=_WHERE,
                    remedy="set output.instruction, or add a method instruction",
                )
            plain = {"pattern": "", "spellings": {}}
            return prompts.instruction(f"{mode}_regex", **variables, **plain)
        names = None if self.task.classes is None else self.task.classes.answers
        details = {
            "tie_allowed": self.task.tie_allowed,
            "scale": self.task.scale,
            "classes": names,
        }
        problem = f"the instruction of '{self.name}' fails"
        with third_party_errors(
            PluginError, problem, where=_WHERE, remedy="fix the plug-in"
        ):
            text = _call(
                self._made.instruction, self.task.decision, prompts.language, **details
            )
        if not isinstance(text, str) or not text.strip():
            raise PluginError(
                f"the instruction of '{self.name}' is empty or not a string",
                where=_WHERE,
                remedy="fix the plug-in",
            )
        return neutralize(text.strip())

    def read(self, reply: Reply) -> float | str:
        """Return the decision from the plug-in."""
        return self.task.value(self._call_plugin(reply))

    def _call_plugin(self, reply: Reply) -> object:
        """Return what the plug-in reads in a judge's answer.

        Raises:
            UnreadableError: If the plug-in finds no answer (a `ValueError`).
            PluginError: If it fails in another way.
        """
        problem = "it fails on a judge's answer"
        remedy = "fix the plug-in; the answer is stored"
        with third_party_errors(PluginError, problem, where=_WHERE, remedy=remedy):
            try:
                text = drop_thinking(reply.text)
                sources = tuple(reply.sources)
                return _call(self._method, text, cut_off=reply.cut_off, sources=sources)
            except ValueError as error:
                unreadable = error
        # A plug-in may raise evalkit's own error, which has a kind; any other `ValueError` means
        # that there is no answer.
        if isinstance(unreadable, UnreadableError):
            raise unreadable
        raise UnreadableError(
            "no_answer", str(unreadable) or "there is no answer"
        ) from None


def _call(
    function: Callable[..., object], *values: object, **details: object
) -> object:
    """Call a plug-in's method with the `details` that are among its parameters."""
    # Plug-ins of earlier versions lack newer parameters.
    taken = signature(function).parameters
    takes_all = any(
        parameter.kind is Parameter.VAR_KEYWORD for parameter in taken.values()
    )
    return function(
        *values,
        **{
            name: value for name, value in details.items() if takes_all or name in taken
        },
    )


BUILT_IN: Mapping[str, type[OutputFormat]] = MappingProxyType(
    {
        "json": JsonFormat,
        "bracket": BracketFormat,
        "rating": RatingFormat,
        "regex": RegexFormat,
    }
)
_REMEDIES: Mapping[AnswerKind, str] = MappingProxyType(
    {
        "winner": "a rating is a score; set output=bracket or output=json",
        "score": "it reads a winner and this mode needs a score; set output=rating or output=json",
        "class": "a rating is a score, not a class; set output=bracket or output=json",
        "ranking": "rankings are read only from JSON; set output=json",
        "items": (
            "checklist answers are read from JSON or double brackets; set output=json or"
            " output=bracket"
        ),
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
        names = [
            *BUILT_IN,
            *(point.name for point in entry_points_in(OUTPUTS) if is_open),
        ]
        raise PluginError(
            f"there is no '{name}'", where=_WHERE, remedy=did_you_mean(name, names)
        )
    format_class = BUILT_IN[name]
    if task.decision not in format_class.decisions:
        problem = f"mode {config.mode.name} cannot read '{name}'"
        remedy = _REMEDIES[task.decision]
        raise ConfigError(problem, where=_WHERE, remedy=remedy)
    return format_class(config.output, task)
