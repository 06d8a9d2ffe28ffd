"""Estimate the tokens of texts from their characters, and shorten texts to their
beginning and end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from evalkit.core.display import shorten
from evalkit.core.errors import ConfigError
from evalkit.core.images import apart, images_in, with_texts
from evalkit.core.turns import parse, render, unit_of
from evalkit.core.types import Case, Message

CHARACTERS_PER_TOKEN = 4
_PER_IMAGE = 1_000
_SHOWN = 60
_PER_BYTE = 2
"""ASCII characters with as many tokens as one UTF-8 byte after the first of a non-ASCII
character."""


def characters(text: str) -> int:
    """Return the number of ASCII characters with as many tokens as a text; a Chinese
    character counts as one token.
    """
    if text.isascii():
        return len(text)
    return len(text.encode("ascii", "ignore")) + _PER_BYTE * (
        len(text.encode("utf-8", "surrogatepass")) - len(text)
    )


def message_tokens(messages: Iterable[Message]) -> int:
    """Return the estimated tokens of messages."""
    return -(
        -sum(characters(message["content"]) for message in messages)
        // CHARACTERS_PER_TOKEN
    )


def image_tokens(messages: Iterable[Message], per_image: int = _PER_IMAGE) -> int:
    """Return the estimated tokens of the pictures of messages, at `per_image` tokens
    per picture.
    """
    return per_image * sum(
        1 for _ in images_in(message["content"] for message in messages)
    )


LONG_PROMPT = 1000
"""Estimated tokens of a prompt that can show that a server cuts prompts."""
CUT = 0.5
"""The share of the estimated tokens below which a prompt was cut, whatever the tokenizer."""


def share_seen(messages: Iterable[Message], received: int | None) -> float | None:
    """Return the share of a prompt that a model saw if the server cut it; `None` if
    nothing shows that it did.

    Args:
        messages: The messages that were sent.
        received: The number of tokens of the prompt by the server's count; `None` if unknown.
    """
    if received is None:
        return None
    sent = message_tokens(messages)
    if sent < LONG_PROMPT or received >= CUT * sent:
        return None
    return received / sent


def truncate(text: str, most: int) -> str:
    """Return the first and last characters of a longer text, `most` in total, with the
    number omitted between them.

    Pictures do not count, and are kept: those of a text that is cut are at its end.
    """
    bare, images = apart(text)
    if images:
        cut = truncate(bare, most) if len(bare) > most else ""
        if cut:
            return "\n".join([cut, *images])
        return text
    tail = most // 2
    head = text[: most - tail]
    return f"{head}\n[... {len(text) - most:,} characters omitted ...]\n{text[len(text) - tail :]}"


def fit_ends(case: Case, fits: Callable[[Case], bool]) -> Case:
    """Return a case that fits.

    If it does not, its longest texts are cut to equal lengths, as long as possible.

    In numbered turns of a conversation, the results of tools are cut first. Only if this is not
    enough, all parts are cut, and no heading is lost. A text that is cut says how much is omitted.
    If there is room for less than that, the provider refuses the case.

    Args:
        case: The case.
        fits: Returns whether a case fits; shorter texts fit if longer ones do.

    Raises:
        ConfigError: If the prompt is too long without the case's texts.
    """
    if fits(case):
        return case
    # No cut can help, and the search below would go on down to nothing.
    if not fits(_without_texts(case)):
        problem = (
            "the prompt does not fit judge.context even without the texts of case"
            f" '{shorten(case.id, _SHOWN)}'"
        )
        remedy = (
            "shorten the template, criteria, "
            "rubric or checklist, or set a larger judge.context"
        )
        raise ConfigError(problem, where="dataset.fit=ends", remedy=remedy)
    results = unit_of(case.prompt) is not None or any(
        unit_of(response.text) is not None for response in case.responses
    )
    # results of tools alone may not be long enough to cut
    results = results and fits(_shorten_case(case, 1, results=True))
    texts = [
        case.prompt,
        case.context or "",
        *(response.text for response in case.responses),
    ]
    # bisection: the largest number of characters per text with which the case fits
    least = 1
    most = max(map(len, texts))
    while least < most:
        # Invariant: it fits with `least`; it is not known to fit above, and not with more than
        # `most`.
        middle = (least + most + 1) // 2
        least, most = (
            (middle, most)
            if fits(_shorten_case(case, middle, results=results))
            else (least, middle - 1)
        )
    return _shorten_case(case, least, results=results)


def _without_texts(case: Case) -> Case:
    bare = tuple(replace(response, text="") for response in case.responses)
    return replace(case, prompt="", context=None, reference=None, responses=bare)


def _shorten_case(case: Case, most: int, *, results: bool) -> Case:
    """Return a case with texts and parts of conversations of at most `most` characters.

    With `results`, only results of tools are cut.
    """

    def cut(text: str) -> str:
        """Return a text, or each part of a conversation, with at most `most` characters."""
        if (unit := unit_of(text)) is None:
            if len(text) > most and not results:
                return truncate(text, most)
            return text
        parts = (
            (
                replace(part, text=truncate(part.text, most))
                if len(part.text) > most and (part.kind == "result" or not results)
                else part
            )
            for part in parse(text)
        )
        return render(parts, unit)

    return with_texts(case, cut)
