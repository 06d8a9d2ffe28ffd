"""Which judges see pictures, and how pictures are sent to them: as content parts of
OpenAI's protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.image_files import data_url
from evalkit.core.images import Image, ImageError, has_images, shown, split_images
from evalkit.core.types import Message
from evalkit.core.values import JsonObject
from evalkit.judges.pricing import entry_of, price_list
from evalkit.judges.setup import FREE, OPENAI_SERVERS
from evalkit.judges.transport_registry import TRANSPORTS

_FETCHING: Final = (*OPENAI_SERVERS, "azure", "anthropic")
"""The providers that fetch a picture at a URL themselves; for others LiteLLM would."""
_IN_SYSTEM: Final = (
    "the prompt's template puts a picture into the system message, where no provider takes it;"
    " put the texts of the case into its block user"
)
_OMIT: Final = "dataset.images=omit, which limits every conclusion"


def sees_images(config: JudgeConfig) -> bool:
    """Return whether one judge of a run sees pictures: by `judge.vision`, or else by
    LiteLLM's list.
    """
    model = config.model or ""
    if model.startswith(FREE) or config.endpoint != "chat":
        return False
    if config.vision is not None:
        return config.vision
    listed = entry_of(price_list(), model).get("supports_vision")
    return config.transport in TRANSPORTS and listed is True


def check_images(config: RunConfig, is_url: bool) -> None:
    """Check, before anything is paid, that every judge of a run sees pictures.

    Args:
        config: The run's config.
        is_url: Whether the picture is at a URL, which the provider must fetch.

    Raises:
        JudgeSetupError: If a judge does not.
    """
    if config.probe.probes:
        raise JudgeSetupError(
            "probes edit texts, and the data have pictures",
            where="probe",
            remedy=f"set {_OMIT}",
        )
    arbiter = config.swap.arbiter
    for member in (*config.judge.members, *([arbiter] if arbiter else [])):
        check_judge(member, is_url)


def check_judge(config: JudgeConfig, is_url: bool) -> None:
    """Check that one judge of a run sees pictures.

    Raises:
        JudgeSetupError: If it does not.
    """
    model = config.model or ""
    if not sees_images(config):
        settable = not model.startswith(FREE) and config.endpoint == "chat"
        alternative = ", judge.vision=true if it sees them" if settable else ""
        raise JudgeSetupError(
            f"the data have pictures, and judge {config.label} is not known to see them",
            where="judge.vision" if settable else "judge.model",
            remedy=f"choose a model with vision{alternative}, or set {_OMIT}",
        )
    if is_url and config.transport == "litellm" and not _fetches(model):
        raise JudgeSetupError(
            f"the data have pictures at URLs, and {model} needs their bytes",
            where="dataset",
            remedy="evalkit fetches nothing: download it and give the file",
        )


def _fetches(model: str) -> bool:
    provider, slash, _ = model.partition("/")
    listed = str(entry_of(price_list(), model).get("litellm_provider"))
    return (provider if slash else listed) in _FETCHING


def wire_messages(messages: Sequence[Message], config: JudgeConfig) -> list[JsonObject]:
    """Return messages as they are sent: those of a user with pictures have content parts.

    For a model that sees none, such as a writer of prompts, each is named in words; `check_images`
    refuses such a judge for the cases of a run.

    Raises:
        CallError: If a picture is gone or has changed.
    """
    if not any(has_images(message["content"]) for message in messages):
        return [dict(message) for message in messages]
    sees = sees_images(config)
    sent: list[JsonObject] = []
    for message in messages:
        content = message["content"]
        if sees and message["role"] == "system" and has_images(content):
            raise CallError("bad_request", _IN_SYSTEM, retryable=False)
        parts = [*split_images(content)] if sees and message["role"] == "user" else []
        if len(parts) < 2 and all(isinstance(part, str) for part in parts):
            sent.append({**message, "content": shown(content)})
        else:
            sent.append({**message, "content": [*_parts(parts)]})
    return sent


def _parts(pieces: Iterable[str | Image]) -> Iterable[JsonObject]:
    for piece in pieces:
        if isinstance(piece, str):
            yield {"type": "text", "text": piece}
            continue
        try:
            url: JsonObject = {"url": data_url(piece)}
        except ImageError as bad:
            raise CallError(
                "bad_request", f"{bad}; {bad.remedy}", retryable=False
            ) from None
        if piece.detail:
            url["detail"] = piece.detail
        yield {"type": "image_url", "image_url": url}
