"""One call of one judge: what its own code raises, and whether its provider was busy."""

from __future__ import annotations

from evalkit.core.errors import CallError, EvalkitError
from evalkit.core.protocols import Judge
from evalkit.core.types import Completion, JudgeRequest
from evalkit.judges.completions import sane
from evalkit.judges.error_mapping import clean_message


async def complete_safely(judge: Judge, request: JudgeRequest) -> Completion:
    """Return a judge's completion; an error in its own code fails one call, never the run."""
    try:
        # Errors of evalkit have their own kinds and must pass. Anything else comes from a plugin:
        # it is made a failed call, or one bad case would end a long run.
        return sane(await judge.complete(request))
    except EvalkitError:
        raise
    except Exception as error:
        message = (
            f"the judge failed on this request ({type(error).__name__}:"
            f" {clean_message(str(error))})"
        )
        raise CallError("bad_response", message, retryable=True) from error


def is_throttled(error: CallError) -> bool:
    """Return whether an error says that the provider is too busy for now."""
    # Some providers answer an overload with a 5xx status instead of 429.
    busy = error.kind == "server" and (
        error.retry_after is not None or "overloaded" in error.message.lower()
    )
    return busy or (error.kind == "rate_limit" and error.retryable)
