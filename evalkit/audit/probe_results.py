"""What one probe of an audit shows about a judge, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Final

import numpy as np

from evalkit.audit.metrics import (
    Outcome,
)
from evalkit.audit.plan import SEPARATOR
from evalkit.audit.probes import PARAPHRASE, REPEAT, RIGHT, SINGLE, Probe
from evalkit.config import RunConfig
from evalkit.core.display import interval, percent, shorten
from evalkit.core.translation import Message, Text, gettext, in_every_language, ngettext
from evalkit.core.types import Case, Metric
from evalkit.core.values import JsonObject
from evalkit.report.findings.decisions import label_count
from evalkit.runs.records import metric_values
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import Metrics
from evalkit.scoring.labels import units_for

WORST: Final = 3
LARGE: Final = 0.25
"""The share of the largest possible effect that must be excluded for a judge to withstand a
probe."""


_MOST = {"prompt": 300, "response": 600}


def in_both_languages(text: Message) -> dict[str, str]:
    """Return a sentence in English and in Chinese, as the page's JSON has them."""
    english, chinese = in_every_language(text)
    return {"text": english, "text_zh": chinese}


def probe_result(
    outcome: Outcome,
    result: RunResult,
    texts: Mapping[str, Case],
    reviews: Mapping[str, int],
    length: Text | None,
) -> JsonObject:
    """Return what one probe shows, as the datasheet's JSON has it: its state, numbers and
    sentences.

    Args:
        outcome: The test of the probe.
        result: The audited run.
        texts: The original and edited cases by id, to show the worst ones.
        reviews: How many edits annotators reviewed and rejected, by key.
        length: The sentence on the words that the edit adds; `None` for none.
    """
    probe = outcome.contrast.probe
    prefix = f"audit/{probe.name}/"
    metrics = {
        name.removeprefix(prefix): metric
        for name, metric in result.metrics.items()
        if name.startswith(prefix)
    }
    state = _probe_state(outcome, metrics, result.config)
    cases_needed = None
    if state == "open":
        confidence = result.config.scoring.confidence
        cases_needed = _cases_needed(outcome, metrics, confidence)
    sentences = [
        *_describe_probe(outcome, metrics, result.metrics),
        *_instability(outcome, state, metrics),
    ]
    if cases_needed is not None:
        sentences.append(
            gettext(
                "Cases that would probably decide: {more} more.",
                more=label_count(cases_needed),
            )
        )
    if length is not None:
        sentences.append(length)
    sentences += _describe_edits(outcome, **reviews)
    worst = []
    if outcome.found or outcome.silenced:
        worst = list(_worst_cases(outcome, result, texts))
    edited = int(outcome.contrast.applies.sum())
    return {
        "name": probe.name,
        "state": state,
        "cases_needed": cases_needed,
        "found": outcome.found,
        "silenced": outcome.silenced,
        "unstable": state == "unstable",
        "what": in_both_languages(probe.what),
        "right": in_both_languages(RIGHT[probe.expects]),
        "assumes": in_both_languages(probe.assumes),
        "sentences": [in_both_languages(sentence) for sentence in sentences],
        "metrics": {name: metric_values(metric) for name, metric in metrics.items()},
        "n": outcome.n,
        "edited": edited + reviews["rejected"],
        **reviews,
        "p": outcome.p,
        "p_adjusted": outcome.adjusted,
        "worst": worst,
    }


def _probe_state(outcome: Outcome, metrics: Metrics, config: RunConfig) -> str:
    """Return what the judge does with a probe: `falls`, is `unstable`, `withstands`, or `open`.

    It is unstable if more verdicts change than between repeats, or if of two equal responses it
    does not call at least a quarter a tie, and neither has a direction.
    """
    # In this order: a significant effect counts more than instability, and "withstands" needs an
    # interval that excludes a large effect.
    if outcome.found or outcome.silenced:
        return "falls"
    passed = metrics.get("passed")
    picks = (
        outcome.contrast.probe.expects == "tie"
        and config.tie.allow
        and passed is not None
        and passed.low is not None
        and passed.low > LARGE
    )
    if outcome.unstable or picks:
        return "unstable"
    if _excludes_effect(outcome, metrics):
        return "withstands"
    return "open"


def _excludes_effect(outcome: Outcome, metrics: Metrics) -> bool:
    """Return whether intervals exclude an effect of a quarter of the largest one, and
    as many changes.
    """
    changes = metrics.get("instability")
    # No direction on average is not enough: many changes in both directions are instability.
    if changes is not None and changes.high is not None and changes.high > LARGE:
        return False
    passed = metrics.get("passed")
    shift = metrics.get("shift")
    if outcome.contrast.probe.expects in ("loses", "fails"):
        return passed is not None and passed.high is not None and passed.high <= LARGE
    if shift is None or shift.value is None:
        return False
    # Without an interval, such as of equal values, the value is both ends.
    low, high = (shift.value if end is None else end for end in (shift.low, shift.high))
    return bool(
        # Too few cases for any significance cannot exclude an effect.
        outcome.detectable is not None
        and max(-low * outcome.contrast.probe.directed, high)
        <= LARGE * outcome.contrast.span
    )


def _cases_needed(outcome: Outcome, metrics: Metrics, confidence: float) -> int | None:
    """Return about how many more cases decide a probe, if its effect is as estimated;
    `None` if that is unknown.

    The interval of the effect then excludes a large effect, or none.
    """
    metric = metrics.get("shift")
    largest = LARGE * outcome.contrast.span
    if outcome.contrast.probe.expects in ("loses", "fails"):
        metric = metrics.get("passed")
        largest = LARGE
    if metric is None or metric.value is None:
        return None
    value = metric.value
    # A small effect is decided once its interval lies below the large one.
    if abs(value) < largest:
        limits = [
            largest if value > 0 or not outcome.contrast.probe.directed else -largest
        ]
    else:
        limits = []
    # A true effect is decided once its interval excludes 0.
    limits += (
        [0.0]
        if metric.name.endswith("/shift")
        and (value > 0 or outcome.contrast.probe.directed)
        else []
    )
    counts = [
        needed
        for limit in limits
        if (needed := units_for(metric, limit, confidence)) is not None
    ]
    # Whichever is decided first is enough.
    return min(counts, default=None)


def _describe_probe(
    outcome: Outcome, metrics: Metrics, every: Metrics
) -> Iterator[Text]:
    """Yield what a probe found, in sentences.

    Args:
        outcome: The test of the probe.
        metrics: Its metrics, by the last part of the name.
        every: All metrics of the audit, for those of the unedited repeat.
    """
    probe = outcome.contrast.probe
    noise = every.get(f"audit/{REPEAT}/flip_rate")
    if outcome.silenced and (missing := metrics.get("missing")) is not None:
        # Compared with plain repeats, since a judge may give no answer without any edit.
        silent = every.get(f"audit/{REPEAT}/missing")
        text = gettext(
            "After the edit, {rate} of cases have no usable answer; of the unedited repeats,"
            " {noise}."
        )
        yield text.fill(
            rate=percent(missing), noise="?" if silent is None else percent(silent)
        )
    if not outcome.n:
        yield gettext("No case has all the answers that are needed.")
    elif (
        probe.expects in ("loses", "fails")
        and (passed := metrics.get("passed")) is not None
    ):
        wrong = {
            "loses": gettext(
                "In {rate} of {n:,} cases the edited response does not lose."
            ),
            "fails": gettext(
                "In {rate} of {n:,} cases the planted response does not lose, or passes."
            ),
        }[probe.expects]
        yield wrong.fill(rate=percent(passed), n=passed.n)
        if not outcome.found:
            yield gettext("That is not significantly more than its own noise.")
    else:
        yield from _describe_effect(outcome, metrics, noise)
    if not outcome.found and outcome.n:
        if outcome.detectable is None:
            yield ngettext(
                "{n:,} case is too few for any effect to be significant.",
                "{n:,} cases are too few for any effect to be significant.",
                outcome.n,
            )
        else:
            size = f"{outcome.detectable:.2f}"
            yield gettext(
                "These cases would probably have shown an effect of {size} or more.",
                size=size,
            )


def _instability(outcome: Outcome, state: str, metrics: Metrics) -> Iterator[Text]:
    """Yield that verdicts change in no direction, if they do."""
    if state != "unstable":
        return
    if outcome.contrast.probe.expects == "tie":
        yield gettext("It picks one of two equal responses, in no direction.")
        return
    changes = metrics["instability"]
    text = gettext(
        "It changes its mind, in no direction: {rate} of verdicts beyond its own noise."
    )
    yield text.fill(rate=percent(changes))


def _describe_edits(outcome: Outcome, reviewed: int, rejected: int) -> Iterator[Text]:
    """Yield how many cases could not be edited, and what annotators say of the paraphrases."""
    total = len(outcome.contrast.applies)
    # Rejected paraphrases were edited too, but no longer count as cases.
    edited = int(outcome.contrast.applies.sum()) + rejected
    if edited < total:
        yield gettext(
            "{n:,} of {total:,} cases could not be edited.",
            n=total - edited,
            total=total,
        )
    if outcome.contrast.probe.name == PARAPHRASE and reviewed:
        text = gettext(
            "Annotators reviewed {n:,} of {total:,} paraphrases; {rejected:,} that differ in"
            " meaning are not counted."
        )
        yield text.fill(n=reviewed, total=edited, rejected=rejected)
    elif outcome.contrast.probe.name == PARAPHRASE:
        yield gettext(
            "No annotator has reviewed whether the paraphrases mean the same."
        )


def _shift_text(probe: Probe, *, is_found: bool, toward: bool) -> Text:
    """Return the sentence on a shift of verdicts, in which `{shift}` is to be filled."""
    if probe.expects == "tie":
        return _shift_of_equals_text(is_found=is_found, toward=toward)
    if not is_found and not probe.directed:
        return gettext(
            "Verdicts do not move significantly more than when the same question is asked"
            " again: {shift}."
        )
    if not is_found:
        return gettext("No significant shift: {shift} beyond its own noise.")
    if not probe.directed:
        return gettext(
            "Verdicts move by {shift} more than when the same question is asked again."
        )
    if probe.name == "order" and toward:
        return gettext(
            "Verdicts shift toward the response shown first, by {shift} beyond its own noise."
        )
    if probe.name == "order":
        return gettext(
            "Verdicts shift toward the response shown second, by {shift} beyond its own noise."
        )
    if toward:
        return gettext(
            "Verdicts shift toward the edited response, by {shift} beyond its own noise."
        )
    return gettext(
        "Verdicts shift away from the edited response, by {shift} beyond its own noise."
    )


def _shift_of_equals_text(*, is_found: bool, toward: bool) -> Text:
    """Return the sentence on which of two equal responses a judge prefers."""
    if not is_found:
        return gettext(
            "Of two equal responses, it prefers neither the first nor the second significantly:"
            " {shift}."
        )
    if toward:
        return gettext(
            "Of two equal responses, it prefers the one shown first: {shift} (from -1 to 1)."
        )
    return gettext(
        "Of two equal responses, it prefers the one shown second: {shift} (from -1 to 1)."
    )


def _describe_effect(
    outcome: Outcome, metrics: Metrics, noise: Metric | None
) -> Iterator[Text]:
    """Yield sentences on how far the verdicts moved, and how many changed.

    Args:
        outcome: the probe and its effect.
        metrics: the metrics of the probe by the last part of their name.
        noise: the share of verdicts that change in unedited repeats, `None` without repeats.
    """
    shift = metrics.get("shift")
    flip = metrics.get("flip_rate")
    probe = outcome.contrast.probe
    if shift is not None and shift.value is not None:
        # The sign of the shift is toward the edited response, or the one shown first.
        text = _shift_text(probe, is_found=outcome.found, toward=shift.value > 0)
        yield text.fill(shift=interval(shift))
    if (
        probe.expects == "tie"
        and (passed := metrics.get("passed")) is not None
        and passed.value is not None
    ):
        yield gettext("It does not call {rate} of them a tie.", rate=percent(passed))
    if flip is not None and flip.value is not None:
        text = gettext("{rate} of verdicts change; of the unedited repeats, {noise}.")
        has_noise = noise is not None and noise.value is not None
        yield text.fill(
            rate=percent(flip), noise=percent(noise) if has_noise and noise else "?"
        )


def _order(outcome: Outcome) -> list[int]:
    """Return the indices of the cases with an effect in the direction of the mean,
    changed verdicts first.
    """
    if outcome.silenced and not outcome.found:
        return [int(index) for index in np.flatnonzero(outcome.contrast.missing)]
    # (cases,) positive if a case moves as the mean does.
    effect = outcome.contrast.tested * np.sign(outcome.mean or 0.0)
    indices = np.flatnonzero(np.nan_to_num(effect) > 0)
    if outcome.contrast.probe.expects == "same":
        same = outcome.contrast.flip[indices] == 0
    else:
        same = np.zeros(len(indices))
    # `lexsort` takes the last key first: changed verdicts, then the largest effects
    return [int(index) for index in indices[np.lexsort((-effect[indices], same))]]


def worst_texts(
    cases: Sequence[Case], edits: Sequence[Case], outcomes: Sequence[Outcome]
) -> dict[str, Case]:
    """Return the cases that the page shows, originals by index and edited ones by id."""
    ids = [case.id for case in cases]
    edit_ids = {
        f"{ids[k]}{SEPARATOR}{outcome.contrast.probe.name}"
        for outcome in outcomes
        for k in _order(outcome)[:WORST]
    }
    return {case.id: case for case in edits if case.id in edit_ids}


def _worst_cases(
    outcome: Outcome, result: RunResult, texts: Mapping[str, Case]
) -> Iterator[JsonObject]:
    """Yield the cases with the largest effects, the largest first: texts and both verdicts."""
    for index in _order(outcome)[:WORST]:
        # Effects are in the order of the run's cases.
        case = result.cases[int(index)]
        edited = texts.get(f"{case.id}{SEPARATOR}{outcome.contrast.probe.name}")
        side = 0 if edited is None else int(edited.metadata.get("side", 0))
        text = "" if edited is None else edited.responses[side].text
        pair = result.config.mode.name not in SINGLE
        yield {
            "case": case.id,
            "prompt": shorten(case.prompt, _MOST["prompt"]),
            "edited": shorten(text, _MOST["response"]),
            "side": "AB"[side] if pair and edited is not None else None,
            "before": _verdict(outcome.contrast.before[index], pair=pair),
            "after": _verdict(outcome.contrast.after[index], pair=pair),
        }


def _verdict(value: float, *, pair: bool) -> str | float | None:
    if isnan(value):
        return None
    if pair:
        return {1.0: "A", 0.0: "TIE", -1.0: "B"}[float(value)]
    return float(value)
