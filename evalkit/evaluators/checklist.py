"""Judge the items of a case's checklist: each alone, several in one request, or all together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from evalkit.config import RunConfig
from evalkit.core.checklists import inherited
from evalkit.core.errors import DatasetError
from evalkit.core.types import (
    AnswerFormat,
    Case,
    ChecklistItem,
    Completion,
    ItemAnswer,
    JudgeRequest,
    Judgment,
    Message,
    Response,
)
from evalkit.core.values import JsonObject
from evalkit.evaluators.base import (
    SHARED,
    Reading,
    TemplateEvaluator,
    check_responses,
    filling,
    read_object,
    shared_variables,
)
from evalkit.evaluators.json_answers import item_format
from evalkit.evaluators.parsing import (
    AnswerTask,
    UnreadableError,
    check_words,
    read_item_answer,
    read_item_entries,
    read_marked_item,
    read_marked_items,
)
from evalkit.evaluators.prompting import Prompts, marked_texts, neutralize

_TEXTS = (*SHARED, "response", "items")
_SINGLE = (ChecklistItem("1", "text"),)
_SEVERAL = (ChecklistItem("1", "text"), ChecklistItem("2", "text"))


class Checklist(TemplateEvaluator):
    """Every response of a case with its checklist, each `mode.samples` times.

    Requests of one response follow each other and differ only at the end, so that a server can
    reuse what it computed for their common beginning.

    Raises:
        ConfigError: If the output format does not support checklists.
        PromptError: If the template cannot be found, parsed or filled.
    """

    _shows_criteria = False

    def __init__(self, config: RunConfig, prompts: Prompts) -> None:
        super().__init__(config, prompts, "checklist", AnswerTask("items"))
        self._prompt = {
            single: prompts.partial(
                self._template, _TEXTS, **self._with_instruction({"single": single})
            )
            for single in (True, False)
        }
        case = Case("rehearsal", "text", (Response("text"),))
        cases = [replace(case, checklist=items) for items in (_SINGLE, _SEVERAL)]
        fills = [filling(prompt, _TEXTS) for prompt in self._prompt.values()]
        self._check_templates(cases, fills, ("original_prompt", "response", "items"))

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the requests for every response, chunk of items and sample.

        Raises:
            DatasetError: If the case has no response or no checklist.
        """
        check_responses(case, 1)
        if not case.checklist:
            remedy = "add a checklist, or set mode.checklist"
            raise DatasetError(
                "the case has no checklist items",
                where=f"case '{case.id}'",
                remedy=remedy,
            )
        texts = _item_texts(case)
        ids = list(texts)
        # How many items one request has.
        size = self._config.mode.ask
        if size == "each":
            size = 1
        elif size == "together":
            size = len(ids)
        chunks = [
            tuple(ids[start : start + size]) for start in range(0, len(ids), size)
        ]
        return [
            request
            for index in range(len(case.responses))
            for chunk in chunks
            for sample in range(self._config.mode.samples)
            for request in self._requests(case, texts, index, sample, [chunk])
        ]

    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return a request for the items that an answer with others lacks, or one for
        each item if it has none.
        """
        return [
            request
            for judgment in judgments
            if judgment.status in ("ok", "repaired", "unparseable")
            for request in self._requests(
                case,
                _item_texts(case),
                judgment.unit[0],
                judgment.sample,
                _missing_chunks(judgment),
            )
        ]

    def _requests(
        self,
        case: Case,
        texts: Mapping[str, str],
        index: int,
        sample: int,
        chunks: Sequence[tuple[str, ...]],
    ) -> Iterator[JudgeRequest]:
        """Yield the requests of a sample for one response: one for each chunk of items.

        `texts` has the questions by the names of items.
        """
        variables = {
            **shared_variables(case),
            "response": neutralize(case.responses[index].text),
        }
        for chunk in chunks:
            questions = [texts[name] for name in chunk]
            messages, answer = self._render_questions(variables, questions)
            yield JudgeRequest(
                case.id, (index,), (index,), messages, answer, sample, items=chunk
            )

    def _render_questions(
        self, variables: Mapping[str, str], questions: Sequence[str]
    ) -> tuple[tuple[Message, ...], AnswerFormat | None]:
        """Return the messages that ask for the answers to items, and the format of the answers;
        `None` for a format in words.
        """
        # A single item is asked for in the same words, whatever mode.ask is.
        single = len(questions) == 1
        if single:
            items = questions[0]
        else:
            items = "\n".join(
                f"{number}. {text}" for number, text in enumerate(questions, 1)
            )
        messages = self._prompt[single].fill(**variables, items=items)
        if self._structured:
            return messages, _format(None if single else len(questions))
        return messages, self._format.answer

    def _read_json(self, request: JudgeRequest, completion: Completion) -> Reading:
        """Return the answers to the items in a JSON answer.

        A request with one item has one answer; with several, each answer has a number.
        """
        answers: Mapping[int, tuple[ItemAnswer | None, str]]
        if len(request.items) == 1:
            answer_fields, rung = read_object(request, completion, ("answer",))
            reason = answer_fields.get("reason")
            answer = read_item_answer(answer_fields.get("answer"))
            sources = partial(marked_texts, request.messages)
            check_words(completion.text, sources, read_item_answer, answer)
            answers = {1: (answer, reason if isinstance(reason, str) else "")}
        else:
            answer_fields, rung = read_object(request, completion, ("items",))
            answers = read_item_entries(
                answer_fields.get("items"),
                len(request.items),
                marked_texts(request.messages),
            )
        return _reading_of_items(request, answers, rung)

    def _read_text(self, request: JudgeRequest, completion: Completion) -> Reading:
        reply = self._reply(request, completion)
        answers: Mapping[int, tuple[ItemAnswer | None, str]]
        if len(request.items) == 1:
            reason = completion.text.rpartition("[[")[0].rstrip("\\ \n")
            answers = {1: (read_marked_item(reply, self._config.output.take), reason)}
        else:
            answers = read_marked_items(reply, len(request.items))
        return _reading_of_items(request, answers, self._config.output.format)


_format = lru_cache(maxsize=256)(item_format)


def _item_texts(case: Case) -> dict[str, str]:
    """Return what the judge reads of each item to answer: its groups' criteria, then
    its own, on one line.
    """
    return {
        item.id: neutralize(" ".join(" > ".join((*groups, item.criterion)).split()))
        for item, groups, _, _ in inherited(case.checklist)
    }


def _reading_of_items(
    request: JudgeRequest,
    answers: Mapping[int, tuple[ItemAnswer | None, str]],
    read_by: str,
) -> Reading:
    """Return the reading of answers by the numbers of items; an item without one has `None`.

    Raises:
        UnreadableError: If no item has an answer.
    """
    entries: list[JsonObject] = []
    items: dict[str, ItemAnswer | None] = {}
    # Items are numbered from 1 in the prompt, in the order of `request.items`.
    for number, name in enumerate(request.items, 1):
        answer, reason = answers.get(number, (None, ""))
        items[name] = answer
        entries.append({"item": name, "reason": reason, "answer": answer})
    if not any(items.values()):
        raise UnreadableError("no_answer", "no item has an answer")
    return Reading(read_by=read_by, items=items, answer={"items": entries})


def _missing_chunks(judgment: Judgment) -> list[tuple[str, ...]]:
    """Return the items to ask for again, so that no request repeats the one that failed."""
    missing = tuple(name for name, answer in judgment.items.items() if answer is None)
    # Some items have an answer: ask for the rest together. None has: ask for each alone, since
    # the same request would fail again.
    if len(missing) < len(judgment.items):
        if missing:
            return [missing]
        return []
    if len(missing) > 1:
        return [(name,) for name in missing]
    return []
