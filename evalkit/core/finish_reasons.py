"""What the end of an answer means, by the word that a provider gives for it."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Literal, TypeAlias

End: TypeAlias = Literal[
    "complete", "length", "truncated", "refused", "failed", "unknown"
]

CONTEXT_FULL = "context_full"
"""evalkit's own word for an answer that the model's context cut off, not the token limit."""
_WORDS: dict[End, tuple[str, ...]] = {
    "complete": (
        *("stop", "end_turn", "stop_sequence", "stop_token", "eos", "eos_token"),
        *("complete", "completed", "finish", "finished", "done", "normal", "succeeded"),
        *(
            "end_of_sequence",
            "end_of_text",
            "end_of_turn",
            "end_of_message",
            "eot",
            "eom",
        ),
        *(
            "eos_found",
            "stop_string_found",
            "stop_sequence_reached",
            "stop_string",
            "word",
        ),
        *("tool_calls", "tool_call", "tool_use", "function_call", "function_calls"),
    ),
    "length": (
        *("length", "max_tokens", "max_new_tokens", "maximum_tokens", "limit"),
        *("max_predicted_tokens_reached", "max_len", CONTEXT_FULL),
    ),
    "truncated": (
        *("model_length", "max_length", "context_length", "context_length_exceeded"),
        *("model_context_window_exceeded", "context_window_exceeded", "token_limit"),
        *("incomplete", "max_output_tokens", "max_completion_tokens", "error_limit"),
        *("pause_turn", "compaction", "continuation", "partial", "truncated"),
        *("context_length_reached", "max_context", "repetition", "repetition_detected"),
    ),
    "refused": (
        *("content_filter", "content_filtered", "refusal", "refused", "sensitive"),
        *("safety", "recitation", "prohibited_content", "blocklist", "blocked", "spii"),
        *(
            "language",
            "guardrail",
            "blacklist",
            "guardrail_intervened",
            "error_toxic",
            "toxicity",
        ),
        *("image_safety", "image_prohibited_content", "image_recitation", "no_image"),
        *("flagged", "moderation", "escalation", "model_armor"),
    ),
    "failed": (
        *("error", "network_error", "server_error", "internal_error", "failed"),
        *("insufficient_system_resource", "insufficient_system_resources"),
        *("not_finished", "in_progress", "queued", "user_stopped", "unspecified"),
        *("malformed_function_call", "malformed_response", "image_other"),
        *("malformed_tool_use", "malformed_model_output", "unexpected_tool_call"),
        *("too_many_tool_calls", "missing_thought_signature", "load"),
        *("other", "unload"),
    ),
}
_ENDS = MappingProxyType({word: end for end, words in _WORDS.items() for word in words})
_FAILING = re.compile(
    r"(?:.*_)?(?:error|exception|failure|fault|time_?out|timed_out|time_limit|deadline|unavailable"
    r"|overload(?:ed)?|rate_limit(?:ed)?|throttl\w+|abort(?:ed)?|cancel(?:l?ed)?"
    r"|disconnect(?:ed)?|interrupt(?:ed)?|crash(?:ed)?|killed|unloaded|preempt\w+|evicted"
    r"|shutdown|out_of_memory|oom)(?:_.*)?"
)
"""A word with a part that names what goes wrong at a server: the same call may succeed later."""
_SAYS_NOTHING = ("null", "none")
_PREFIX = re.compile(r"^(?:finish_?)?reason[._]")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def end_of(reason: str | None) -> End:
    """Return what a provider's word for the end of an answer means.

    A word that is not listed is `unknown`, never complete. A provider that gives no word states
    nothing, so its answers are read as they are.
    """
    if not reason or not reason.strip():
        return "complete"
    snake = _HUMP.sub("_", reason.strip()).lower()
    folded = _PREFIX.sub("", re.sub(r"[-\s]", "_", snake))
    if folded in _SAYS_NOTHING:
        return "complete"
    if folded in _ENDS:
        return _ENDS[folded]
    if _FAILING.fullmatch(folded):
        return "failed"
    return "unknown"
