"""What the end of an answer means, by the word that a provider gives for it."""

from __future__ import annotations

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
        *("complete", "completed", "finished", "done", "end_of_sequence"),
        *("tool_calls", "tool_call", "tool_use", "function_call", "function_calls"),
    ),
    "length": ("length", "max_tokens", "max_new_tokens", CONTEXT_FULL),
    "truncated": (
        *("model_length", "max_length", "context_length", "context_length_exceeded"),
        *("model_context_window_exceeded", "context_window_exceeded", "token_limit"),
        *("incomplete", "max_output_tokens", "max_completion_tokens", "error_limit"),
        *("pause_turn", "compaction", "continuation", "partial", "truncated"),
    ),
    "refused": (
        *("content_filter", "content_filtered", "refusal", "refused", "sensitive"),
        *("safety", "recitation", "prohibited_content", "blocklist", "blocked", "spii"),
        *("language", "guardrail", "guardrail_intervened", "error_toxic", "toxicity"),
        *("image_safety", "image_prohibited_content", "image_recitation", "no_image"),
        *("flagged", "moderation", "escalation", "model_armor"),
    ),
    "failed": (
        *("error", "network_error", "server_error", "internal_error", "failed"),
        *("insufficient_system_resource", "insufficient_system_resources"),
        *("abort", "aborted", "cancel", "cancelled", "canceled", "user_cancel"),
        *("timeout", "malformed_function_call", "malformed_response", "image_other"),
        *("malformed_tool_use", "malformed_model_output", "unexpected_tool_call"),
        *("too_many_tool_calls", "missing_thought_signature", "load"),
        *("other", "finish_reason_unspecified", "finish_reason_other"),
    ),
}
_ENDS = MappingProxyType({word: end for end, words in _WORDS.items() for word in words})


def end_of(reason: str | None) -> End:
    """Return what a provider's word for the end of an answer means.

    A word that is not listed is `unknown`, never complete. A provider that gives no word states
    nothing, so its answers are read as they are.
    """
    if not reason or not reason.strip():
        return "complete"
    folded = reason.strip().lower().replace("-", "_").replace(" ", "_")
    return _ENDS.get(folded, "unknown")
