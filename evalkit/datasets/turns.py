"""Read conversations from messages, and divide them into the turns or steps that
verdicts are about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from evalkit.config import CHECKLIST, SCORED_MODES, DatasetConfig
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.images import protected as without_markers
from evalkit.core.tokens import truncate
from evalkit.core.turns import (
    CONVERSATION,
    POSITION,
    TURN,
    TURNS,
    UNIT_KEYS,
    Part,
    Unit,
    arguments_text,
    protected,
    render,
)
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.field_mapping import MESSAGES, Columns, RowFault, plain_row
from evalkit.datasets.joins import Join
from evalkit.datasets.located_rows import Row
from evalkit.datasets.messages import SPAN, Message, json_value, read_messages
from evalkit.datasets.text import ABSENT, CUT, NoteCounts, as_messages, is_message

_RESPONSES: Final = {
    MESSAGES: "response",
    f"{MESSAGES}_a": "response_a",
    f"{MESSAGES}_b": "response_b",
}
ENDS: Final = {end: name for name, end in _RESPONSES.items()}
"""The name of messages by that of the response that they are."""
# Fields that messages replace, so they cannot be mapped too.
_REPLACED: Final = ("prompt", "response", "response_a", "response_b", "responses")
LARGEST: Final = 1_000_000_000
"""The most characters that the units of one conversation may have with their contexts."""
OUTCOME = "outcome"
ONE_TURN = "conversations without messages, made of the prompt and the response"
WHOLE = "annotators' labels of whole conversations, not used for their {}s"
TAKEN = (
    "labels of whole conversations omitted, because the rows have a column 'outcome': rename it to"
    " keep both"
)
UNPAIRED = "{}s that not every conversation of the case has, omitted"


def _number_messages(
    messages: Sequence[Message], unit: Unit
) -> tuple[list[Message], int]:
    """Return messages whose parts have the number of their turn or step, from 1, and the count of
    turns or steps that an agent has a part in.

    A message of a user or the system begins a turn after an agent's reply. A step also begins with
    each message in which an agent says or calls something.
    """
    number = 1
    replied = False
    numbered = []
    for message in messages:
        if replied and (message.is_input or (unit == "step" and message.acts)):
            # The number belongs to the message that begins the unit.
            number = number + 1
            replied = False
        # A turn ends with the next input after a reply.
        replied = replied or not message.is_input
        numbered.append(
            replace(
                message, parts=[replace(part, turn=number) for part in message.parts]
            )
        )
    # Inputs after the last reply begin a unit in which nothing is judged.
    return numbered, number if replied else number - 1


class _Conversation:
    """One conversation, with each part rendered once; `units` is the number of its turns or steps.

    `labels` and `trace_spans` are those of the last message of a turn or step that has one, by its
    number.
    """

    def __init__(self, messages: Sequence[Message], config: DatasetConfig) -> None:
        self.unit: Unit = "step" if config.unit == "step" else "turn"
        self._messages, self.units = _number_messages(messages, self.unit)
        self._whole = config.unit == "conversation"
        # (number of the unit, message); parts of one message have one number.
        outputs = [
            (message.parts[0].turn, message)
            for message in self._messages
            if not message.is_input
        ]
        # A later message of the same unit replaces the label of an earlier one.
        self.labels = {
            number: message.label
            for number, message in outputs
            if message.label is not None
        }
        self.trace_spans = {
            number: message.span
            for number, message in outputs
            if message.span is not None
        }
        # (part, whether it is input) in order of the conversation.
        inputs = [
            (part, message.is_input)
            for message in self._messages
            for part in message.parts
        ]
        # one text for each part, in order
        self._shown = [render([part], self.unit) for part, _ in inputs]
        # The same parts with the mark of what is judged; the indices are those of `_shown`.
        self._judged = [
            render([replace(part, judged=True)], self.unit) for part, _ in inputs
        ]
        # turn or step -> the range of its outputs, as indices of `_shown`
        self._spans: dict[int, tuple[int, int]] = {}
        for index, (part, is_input) in enumerate(inputs):
            if is_input:
                continue
            # A whole conversation is unit 1.
            number = 1 if self._whole else part.turn
            # The first index stays, and the end moves behind this part.
            start, _ = self._spans.get(number, (index, index))
            self._spans[number] = (start, index + 1)
        # A whole conversation ends with its last input, not with its last reply.
        if self._whole and self._spans:
            start, _ = self._spans[1]
            self._spans[1] = (start, len(inputs))

    def before(self, number: int) -> list[str]:
        """Return the parts before a unit."""
        return self._shown[: self._spans[number][0]]

    def own(self, number: int) -> list[str]:
        """Return the parts of a unit, marked as judged unless the whole conversation is."""
        start, end = self._spans[number]
        return (self._shown if self._whole else self._judged)[start:end]

    def after(self, number: int) -> list[str]:
        """Return the parts after a unit."""
        return self._shown[self._spans[number][1] :]

    def size(self, *, after: bool) -> int:
        """Return the characters of all units with their contexts."""
        lengths = [len(part) for part in self._shown]
        total = 0
        if after:
            # every unit is shown with the whole conversation
            return sum(lengths) * self.units
        # All parts before the unit and the unit itself: the sum of lengths up to its end.
        # every unit is shown with all parts before it
        ends = {end for _, end in self._spans.values()}
        done = 0
        for at, length in enumerate(lengths, 1):
            # Running sum, so that long conversations need one pass.
            done += length
            total += done if at in ends else 0
        return total


class Conversations:
    """Divide rows with messages into rows whose columns are evalkit's fields, one for
    each turn, step or conversation.

    The prompt is the conversation up to what is judged, and the response is what is judged. Of
    several conversations, the prompt is what they have in common before it, and each response
    begins where they part. With `dataset.after`, what follows is at the end of the context, or of
    each response if there are several.

    Args:
        config: The dataset settings.
        mode: The mode of the run; in one that judges single responses, each conversation is divided
            on its own.
        joins: The joins; only those that add columns apply.
        tally: The counter for notes.

    Raises:
        ConfigError: If fields or joins are set that messages replace.
    """

    def __init__(
        self, config: DatasetConfig, mode: str, joins: Sequence[Join], tally: NoteCounts
    ) -> None:
        self._config = config
        self._tally = tally
        self._joins = joins
        # Pairs of conversations are compared turn by turn; scored ones need not be aligned.
        self._apart = mode in SCORED_MODES
        if unused := next((name for name in _REPLACED if name in config.fields), None):
            remedy = (
                f"remove it, or map it to context; {MESSAGES} are both the prompt and"
                " the response"
            )
            raise ConfigError(
                "is not used with messages",
                where=f"dataset.fields.{unused}",
                remedy=remedy,
            )
        if added := next((join.name for join in joins if join.adds != "columns"), None):
            remedy = "set add=columns, or write the labels into the rows"
            raise ConfigError(
                "adds to single responses, not to conversations",
                where=f"dataset.join.{added}",
                remedy=remedy,
            )
        # Messages are read in the fields of responses.
        fields = {
            _RESPONSES.get(name, name): column for name, column in config.fields.items()
        }
        # Without a mapping, the column is `messages`.
        if not _RESPONSES.keys() & config.fields.keys():
            fields["response"] = MESSAGES
        joined = frozenset(config.join)
        # A missing column of messages has its own message in `_read_conversation`.
        checked = frozenset(_RESPONSES.values())
        self.columns = Columns(
            fields, joined, checklists=mode == CHECKLIST, checked=checked
        )

    def rows(self, row: Row, number: int, location: str) -> Iterator[Row]:
        """Yield the rows of a row.

        Raises:
            DatasetError: If it has no conversation, one that cannot be divided, or a column with
                the name of a value that is added.
        """
        try:
            row = plain_row(row)
            layout = self.columns.layout(row)
            values = {name: get(row) for name, get in layout.get.items()}
        except RowFault as fault:
            raise fault.at(location) from None
        for join in self._joins:
            join.count(row, location)
        # A whole conversation has no turn, so its metadata may have any name.
        added = () if self._config.unit == "conversation" else UNIT_KEYS
        # Columns with the text of prompt and responses are replaced by the conversation.
        metadata = {
            column: row[column] for column in layout.metadata if column not in _REPLACED
        }
        if taken := next((name for name in added if name in metadata), None):
            problem = (
                f"has a column '{taken}', which dataset.unit={self._config.unit} adds"
            )
            raise DatasetError(problem, where=location, remedy="rename the column")
        entries, conversations = self._read_responses(
            row, values, [end for end, _ in layout.ends], location
        )
        # `ends` may be fewer than the entries, which then have models of their own.
        for entry, (_, model) in zip(entries, layout.ends, strict=False):
            if values[model] is not ABSENT:
                entry.setdefault("model", values[model])
        kept = {
            name: values[name]
            for name in ("context", "reference", "checklist")
            if values[name] is not ABSENT
        }
        # A text of the data must not look like a heading of a conversation.
        kept |= {
            name: without_markers(text)
            for name, text in kept.items()
            if isinstance(text, str)
        }
        # An id of 0 is an id.
        id_ = values["id"] if values["id"] not in (ABSENT, None, "") else number
        base = {
            **metadata,
            **kept,
            "label": values["label"],
            "labels": values["labels"],
        }
        if self._config.unit == "conversation":
            yield self._add_texts({**base, "id": id_}, conversations, entries, 1)
        # Scored one by one, conversations of a row need not have the same number of turns.
        elif self._apart and len(conversations) > 1:
            for at, pair in enumerate(zip(conversations, entries, strict=True), 1):
                yield from self._unit_rows(
                    base, f"{id_} ({at})", [pair[0]], [pair[1]], location
                )
        else:
            yield from self._unit_rows(base, str(id_), conversations, entries, location)

    def _read_responses(
        self, row: Row, values: Json, ends: Sequence[str], location: str
    ) -> tuple[list[JsonObject], list[_Conversation]]:
        """Return the entries of the responses, without their messages, and their conversations,
        in one order.

        Args:
            row: The row of the data.
            values: The columns of messages, by the field of the response that they are for.
            ends: Those fields, one for each response.
            location: The file and line of the row.

        Raises:
            DatasetError: If messages are missing or cannot be read.
        """
        # Messages may be JSON in a text, as in a CSV file.
        message_lists = [json_value(values[end]) for end in ends]
        if len(message_lists) == 1:
            [messages] = message_lists
            message_lists = _separate(messages, row.get("responses"))
        entries = _entries(row.get("responses"))
        # Entries belong to conversations by position, so both must be equally many.
        if len(entries) != len(message_lists):
            entries = [{} for _ in message_lists]
        texts = [row.get(end) for end in ends]
        if len(texts) != len(message_lists):
            texts = [None] * len(message_lists)
        conversations = []
        for messages, entry, text in zip(message_lists, entries, texts, strict=True):
            answer = entry.get("text", text)
            # A row without messages becomes a conversation of one turn.
            if (
                messages in (None, ABSENT)
                and isinstance(answer, str)
                and isinstance(prompt := row.get("prompt"), str | list)
            ):
                self._tally.add(ONE_TURN, location)
                messages = [
                    *as_messages("user", prompt),
                    *as_messages("assistant", answer),
                ]
            conversations.append(self._read_conversation(messages, row, location))
        return entries, conversations

    def _read_conversation(self, value: Any, row: Row, location: str) -> _Conversation:
        """Return the conversation in a column of a row.

        Args:
            value: The messages; `ABSENT` if the row has no such column.
            row: The row, for the names of its columns.
            location: Its file and line.

        Raises:
            DatasetError: If it is missing, not a conversation, without a reply, or too long.
        """
        if value is ABSENT:
            raise self._missing_messages_error(row, location)
        if not _is_conversation(value):
            mapped = (
                name
                for name, field in _RESPONSES.items()
                if self.columns.is_mapped(field)
            )
            problem = (
                f"{next(mapped, MESSAGES)} is not a list of messages with role and content, or"
                " from and value"
            )
            raise DatasetError(
                problem,
                where=location,
                remedy=f"name their column in dataset.fields.{MESSAGES}",
            )
        read = [
            replace(
                message, parts=[self._cut(part, location) for part in message.parts]
            )
            for message in read_messages(value)
        ]
        conversation = _Conversation(read, self._config)
        if not conversation.units:
            problem = "the conversation has no message of an assistant or a tool"
            raise DatasetError(
                problem,
                where=location,
                remedy="remove it, or fix the roles of its messages",
            )
        # With `after`, every unit is shown with the whole conversation: quadratic in its length.
        after = self._config.after
        if (
            self._config.unit != "conversation"
            and (size := conversation.size(after=after)) > LARGEST
        ):
            problem = (
                f"its {conversation.units:,} {conversation.unit}s with their contexts have"
                f" {size:,} characters, over {LARGEST:,}"
            )
            raise DatasetError(
                problem,
                where=location,
                remedy="set dataset.max_chars, or dataset.unit=conversation",
            )
        return conversation

    def _missing_messages_error(self, row: Row, location: str) -> DatasetError:
        """Return the error for a row without messages; it names the column that could be meant."""
        mapped = (
            name for name, field in _RESPONSES.items() if self.columns.is_mapped(field)
        )
        column = self.columns.column(_RESPONSES[next(mapped, MESSAGES)])
        candidates = (
            name for name, value in row.items() if _is_conversation(json_value(value))
        )
        candidate = next(candidates, "the column of messages")
        return DatasetError(
            f"no column '{column}' for {MESSAGES}",
            where=location,
            remedy=f"set dataset.fields.{MESSAGES} to {candidate}",
        )

    def _cut(self, part: Part, location: str) -> Part:
        most = self._config.max_chars
        if most is None or len(part.text) <= most:
            return part
        self._tally.add(CUT.format("parts of conversations", most), location)
        return replace(part, text=truncate(part.text, most))

    def _unit_rows(
        self,
        base: Row,
        id_: str,
        conversations: Sequence[_Conversation],
        entries: Sequence[Json],
        location: str,
    ) -> Iterator[Row]:
        """Yield a row for each turn or step that all conversations of a row have.

        Args:
            base: The row, without its messages.
            id_: The id of the conversation.
            conversations: One, or two or more that are compared.
            entries: What the row says of each response, such as its model and grade.
            location: The file and line of the row.

        Raises:
            DatasetError: If there are more or fewer labels than units.
        """
        unit = conversations[0].unit
        # Pairs are compared unit by unit, so only those that all conversations have.
        shared = min(conversation.units for conversation in conversations)
        most = max(conversation.units for conversation in conversations)
        # one note for each unit that not every conversation has
        for _ in range(most - shared):
            self._tally.add(UNPAIRED.format(unit), location)
        label = json_value(base["label"])
        # A list of labels must say which unit each one is of.
        if isinstance(label, list) and len(label) != shared:
            problem = (
                f"{len(label)} label{'s' * (len(label) != 1)} for {shared}"
                f" {unit}{'s' * (shared != 1)}"
            )
            raise DatasetError(
                problem,
                where=location,
                remedy=f"write one label for each {unit}, or one that is not a list",
            )
        annotations = self._unit_annotations(base, shared, unit, location)
        outcome = _outcome(label, entries)
        if outcome is not None and OUTCOME in base:
            self._tally.add(TAKEN, location)
        # A grade of a response is about the whole conversation, so only its model is kept.
        plain = [
            {key: entry[key] for key in ("model",) if key in entry} for entry in entries
        ]
        # Numbers from 1; lists of labels from 0.
        for number in range(1, shared + 1):
            unit_label = conversations[0].labels.get(number)
            # A label in the messages themselves wins over the list of the row.
            if unit_label is None:
                unit_label = label[number - 1] if isinstance(label, list) else ABSENT
            row = dict(base)
            # The row's own column wins: the note above says so.
            if outcome is not None:
                row.setdefault(OUTCOME, outcome)
            span = conversations[0].trace_spans.get(number)
            if span is not None:
                row[SPAN] = span
            row |= {
                "id": f"{id_} #{number}",
                CONVERSATION: id_,
                TURN: number,
                TURNS: shared,
                # From 1 / turns to 1, to compare conversations of different lengths.
                POSITION: number / shared,
                "label": unit_label,
                "labels": {
                    annotator: labels[number - 1]
                    for annotator, labels in annotations.items()
                },
            }
            yield self._add_texts(row, conversations, plain, number)

    def _unit_annotations(
        self, base: Row, units: int, unit: Unit, location: str
    ) -> dict[str, list[Any]]:
        """Return the labels of each annotator who has one for each unit; others are noted."""
        annotations = json_value(base["labels"])
        if not isinstance(annotations, dict):
            return {}
        by_unit = {
            annotator: labels
            for annotator, labels in annotations.items()
            if isinstance(labels, list) and len(labels) == units
        }
        if len(by_unit) < len(annotations):
            self._tally.add(WHOLE.format(unit), location)
        return by_unit

    def _add_texts(
        self,
        row: Row,
        conversations: Sequence[_Conversation],
        entries: Sequence[Json],
        number: int,
    ) -> Row:
        """Return a row with the prompt and the responses of a unit, which is a turn, a step or a
        conversation.

        The prompt is what all conversations have in common before the unit. A response is the
        rest before it, the unit, and, if `dataset.after` is set and there are several, what
        follows.

        Args:
            row: The row of the data.
            conversations: The conversation of each response; at least one.
            entries: The other fields of each response.
            number: The number of the unit, from 1.
        """
        # For each conversation, the parts before the unit.
        befores = [conversation.before(number) for conversation in conversations]
        # the number of parts with which all contexts begin
        shared = len(befores[0])
        for texts in befores[1:]:
            pairs = enumerate(zip(befores[0][:shared], texts, strict=False))
            shared = next(
                (at for at, (first, second) in pairs if first != second),
                min(shared, len(texts)),
            )
        responses = []
        for conversation, before, entry in zip(
            conversations, befores, entries, strict=True
        ):
            # Several conversations have different continuations, so each response has its own.
            if self._config.after and len(conversations) > 1:
                after = conversation.after(number)
            else:
                after = []
            responses.append(
                {
                    **entry,
                    # What differs before the unit, the unit, and what follows.
                    "text": "\n\n".join(
                        [*before[shared:], *conversation.own(number), *after]
                    ),
                }
            )
        unit_row = {
            **row,
            "prompt": "\n\n".join(befores[0][:shared]),
            "responses": responses,
        }
        # One conversation: what follows is context, since the response is what is judged.
        if (
            self._config.after
            and len(conversations) == 1
            and (after := conversations[0].after(number))
        ):
            unit_row["context"] = "\n\n".join(
                [*filter(None, [_context(row.get("context"))]), *after]
            )
        return {name: value for name, value in unit_row.items() if value is not ABSENT}


def last_unit(row: Row, config: DatasetConfig, mode: str) -> Row:
    """Return the row of the last turn or step of one case, or of its whole conversation.

    Args:
        row: The fields of a case. Each response is a text or a list of messages, which follow the
            prompt if there is one.
        config: What is judged.
        mode: The mode of the run.

    Raises:
        DatasetError: If a response is neither, or nothing in it can be judged.
    """
    prompt = as_messages("user", row["prompt"]) if row.get("prompt") is not None else []
    several = isinstance(row.get("responses"), list)
    if several:
        # A list of responses needs no names.
        named = {"responses": row["responses"]}
    else:
        named = {name: row[name] for name in ENDS if name in row}
    conversation_row: Row = {
        name: value for name, value in row.items() if name not in _REPLACED
    }
    for name, value in named.items():
        message_lists = [
            [*prompt, *_answer(answer, name)]
            for answer in (value if several else [value])
        ]
        conversation_row[name] = message_lists if several else message_lists[0]
    if several:
        fields = {MESSAGES: "responses"}
    else:
        fields = {ENDS[name]: name for name in named}
    read = config.model_copy(update={"fields": fields})
    # Only the last unit is judged; the earlier ones are its context.
    *_, last = Conversations(read, mode, (), NoteCounts()).rows(
        conversation_row, 1, "case"
    )
    return last


def _answer(value: Any, name: str) -> list[Any]:
    if _is_conversation(value):
        return list(value)
    if isinstance(value, str):
        return as_messages("assistant", value)
    remedy = 'pass a text, or messages such as {"role": "assistant", "content": "…"}'
    raise DatasetError(
        f"{name} is neither a text nor a list of messages", where="case", remedy=remedy
    )


def _context(value: Any) -> str:
    """Return the context of a row as a text in which no line looks like a heading."""
    if value in (None, ABSENT):
        return ""
    text = value if isinstance(value, str) else arguments_text(value)
    return without_markers(protected(text))


def _outcome(label: Any, entries: Sequence[Json]) -> Any:
    """Return the first label of the whole conversation, of the row or of its responses.

    `None` if there is none. A list of labels is about the turns.
    """
    labels = [] if isinstance(label, list) else [label]
    labels += [entry.get(key) for entry in entries for key in ("label", "grade")]
    return next((label for label in labels if label not in (ABSENT, None)), None)


def _is_conversation(value: Any) -> bool:
    """Return whether a value is a list of at least one message, and of messages only."""
    return (
        isinstance(value, list)
        and bool(value)
        # Either role and content, or the parts of OpenTelemetry.
        and all(
            is_message(message)
            or (
                isinstance(message, dict)
                and isinstance(message.get("role"), str)
                and "parts" in message
            )
            for message in value
        )
    )


def _separate(messages: Any, responses: Any) -> list[Any]:
    """Return the messages of a single column by conversation: those of each response."""
    if isinstance(messages, list) and any(isinstance(part, list) for part in messages):
        # A list of lists: several conversations in one column.
        messages_of_each: list[Any] = messages
        return messages_of_each
    if isinstance(responses, list) and responses and messages in (None, ABSENT):
        # Responses without messages: one conversation will be made for each.
        return [messages] * len(responses)
    return [messages]


def _entries(responses: Any) -> list[JsonObject]:
    """Return the responses of a row as objects; nothing if it has no list of them."""
    if not isinstance(responses, list):
        return []
    return [
        dict(response) if isinstance(response, dict) else {"text": response}
        for response in responses
    ]
