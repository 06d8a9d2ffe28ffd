"""A judge in promptfoo, as an assertion and as a provider.

A file with the line `from evalkit.serving.adapters.promptfoo import call_api, get_assert` is both.
Its `config` has the folder of the judge as `judge`, and options of `evalkit.load_judge`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from evalkit.core.scale import PASSES
from evalkit.serving.rating import ANSWERED, WANTED, AdaptedJudge, needed_share


def get_assert(output: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    """Judge an output; it passes from `config.threshold` on.

    The prompt is the test's prompt. Its variables can name a context, a reference, a checklist, and
    the other response.

    Raises:
        EvalkitError: If there is no verdict, which promptfoo shows as an error.
    """
    options = dict(context.get("config") or {})
    variables = context.get("vars") or {}
    threshold = options.pop("threshold", PASSES)
    expected = {name: variables[name] for name in WANTED if name in variables}
    rating = _adapted(options).rate_sync(
        {**variables, "prompt": context.get("prompt")},
        output,
        expected or None,
        variables,
    )
    share = needed_share(rating)
    return {
        "pass": share >= threshold,
        "score": share,
        "reason": rating.rationale,
        "metadata": dict(rating.metadata),
    }


def call_api(
    prompt: str, options: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Judge the case in a test's variables; the output is the verdict, so that tests
    can be about the judge.
    """
    variables = context.get("vars") or {}
    answered, expected = (
        {name: variables[name] for name in names if name in variables}
        for names in (ANSWERED, WANTED)
    )
    adapted = _adapted(
        {name: value for name, value in options["config"].items() if name != "basePath"}
    )
    rating = adapted.rate_sync(
        {"prompt": prompt, **variables},
        answered or None,
        expected or None,
        variables,
    )
    if rating.error is not None:
        return {"error": rating.error}
    return {
        "output": {
            "value": rating.value,
            "reason": rating.rationale,
            "metadata": dict(rating.metadata),
        }
    }


def _adapted(options: Mapping[str, Any]) -> AdaptedJudge:
    return _loaded(json.dumps(options))


@cache
def _loaded(options: str) -> AdaptedJudge:
    return AdaptedJudge(**json.loads(options))
