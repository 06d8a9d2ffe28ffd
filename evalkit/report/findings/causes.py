"""Findings on answers that cannot be used: their causes with an example each, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from pydantic import TypeAdapter, ValidationError

from evalkit.core.causes import Cause, causes_of
from evalkit.core.display import shorten
from evalkit.core.redaction import redact
from evalkit.core.translation import Text, gettext
from evalkit.core.values import Json, JsonObject
from evalkit.report.findings.finding import Finding, finding
from evalkit.runs.layout import CAUSES
from evalkit.runs.results import RunResult

_SHOWN: Final = 3
_EXAMPLE: Final = 160  # characters of an answer
_KEPT: Final = 20  # causes in the table
_STATUSES: Final = {
    "unparseable": gettext("{count:,} unparseable: {reason}"),
    "refused": gettext("{count:,} refused: {reason}"),
    "failed": gettext("{count:,} failed: {reason}"),
}
_WITHOUT_EXAMPLE: Final = gettext("{what} (for example case {case} by {judge}).")
_WITH_EXAMPLE: Final = gettext("{what}. Example, case {case} by {judge}: {answer}")
REMEDIES: Final = {
    "truncated": gettext("raise judge.max_tokens"),
    "no_answer": gettext(
        "read the example, then set judge.response_format=json_schema or another output"
    ),
    "invalid": gettext(
        "set judge.response_format=json_schema, or ask for fewer criteria at a time"
    ),
    "ambiguous": gettext("set output=json, or output.take for another output"),
    "refusal": gettext("choose another judge for these cases"),
    "content_filter": gettext("choose another judge for these cases"),
    "timeout": gettext("raise runner.timeout, or lower runner.concurrency"),
    "rate_limit": gettext("lower runner.concurrency, or set judge.rpm"),
    "too_long": gettext("set dataset.fit, or choose a judge with a larger context"),
    "connection": gettext("check that the server of judge.api_base runs and stays up"),
    "server": gettext("wait until the server recovers, or lower runner.concurrency"),
    "bad_response": gettext(
        "check that judge.api_base is the address of a model server, not of a web page"
    ),
    "bad_request": gettext("change the setting that the message names (judge.params)"),
    "auth": gettext("check that the key may use this model, and these cases"),
    "not_found": gettext("check judge.model and judge.api_base"),
    "account": gettext("add credit or raise the budget, or check the key"),
    "refused": gettext("choose another judge for these cases"),
}
"""What to do first, by the kind of the most frequent cause."""
_ANY: Final = gettext("read the example, and repair the judge or its settings")
_NEXT: Final = gettext(
    "First: {remedy}. Then run again: store=retry asks again only for answers that cannot be used."
    " `evalkit export RUN --to csv` shows them all (columns status, error, text)."
)
_REPLAYED: Final = gettext(
    "{n:,} of these answers were stored before this run: store=retry asks for them again."
)
_AGAIN: Final = gettext(
    "{n:,} stored answers could not be used and were asked again ({share} of the requests): the"
    " judge is less reliable than these figures, because asking until an answer can be read"
    " selects answers."
)


def cause_table(result: RunResult) -> list[JsonObject]:
    """Return the causes of a run's unusable answers as a table, most frequent first."""
    return [asdict(cause) for cause in causes_of(result.judgments)[:_KEPT]]


def cause_findings(result: RunResult, details: Json) -> Iterator[Finding]:
    """Yield the causes of unusable answers, what to do about them, and what was asked again."""
    again = result.manifest.get("asked_again")
    if again:
        share = f"{100 * again['share']:.1f}%"
        text = _AGAIN.fill(n=again["count"], share=share)
        yield finding("missing/unparseable", "warn", text)
    causes = _read(details.get(CAUSES) or ())
    for cause in causes[:_SHOWN]:
        yield finding(f"missing/{cause.status}", "bad", _text(cause))
    if not causes or result.manifest.get("imported"):
        return
    remedy = REMEDIES.get(causes[0].kind or causes[0].status, _ANY)
    yield finding(f"missing/{causes[0].status}", "info", _NEXT.fill(remedy=remedy))
    stored = sum(cause.stored for cause in causes)
    if stored:
        yield finding("missing/unparseable", "warn", _REPLAYED.fill(n=stored))


def _read(rows: object) -> list[Cause]:
    """Return the causes in a table of a run folder, empty if it is damaged."""
    try:
        return TypeAdapter(list[Cause]).validate_python(rows)
    except ValidationError:
        return []


def _text(cause: Cause) -> Text:
    """Return what happened how often, with a shortened answer."""
    reason = redact(" ".join(cause.reason.split())) or cause.kind
    status = _STATUSES.get(cause.status, _STATUSES["failed"])
    summary = status.fill(count=cause.count, reason=reason.rstrip("."))
    names = {"what": summary, "case": cause.case, "judge": cause.judge}
    answer = shorten(redact(" ".join(cause.example.split())), _EXAMPLE)
    if not answer:
        return _WITHOUT_EXAMPLE.fill(**names)
    return _WITH_EXAMPLE.fill(answer=answer, **names)
