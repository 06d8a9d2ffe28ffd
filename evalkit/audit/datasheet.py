"""The result of an audit on one page, and of a sweep of audits: what judges fall for, and on what that rests.

The page is first a value in JSON, with every sentence in English and Chinese; Markdown and HTML are
made of that value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import isnan
from pathlib import Path
from typing import Final

import numpy as np

from evalkit.audit.metrics import (
    NEUTRAL,
    Outcome,
    audit_metrics,
    length_sentence,
    p_value,
    words_added,
)
from evalkit.audit.plan import SEPARATOR, AuditPlan, check_id, probes_of
from evalkit.audit.probes import PARAPHRASE, REPEAT, RIGHT, SINGLE, Probe
from evalkit.audit.rewriting import (
    NO_REVIEWS,
    Reviews,
    Rewriter,
    is_rejected,
    key_of,
    reviews_of,
    with_reviews,
)
from evalkit.config import RunConfig
from evalkit.core.display import dollars, interval, percent, shorten
from evalkit.core.display import p_value as p_text
from evalkit.core.regular_files import read_file, read_text
from evalkit.core.spool import Spool
from evalkit.core.translation import Message, Text, gettext, in_every_language, ngettext
from evalkit.core.types import Case, Judgment, Metric
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.report.findings import conclusion
from evalkit.report.findings.decisions import USES, label_count, simulated
from evalkit.report.page import filled, language_of, level_of, render, render_markdown
from evalkit.report.texts import PAGE, Words, metric_words, note_words, words
from evalkit.runs import read_cases, read_config
from evalkit.runs.layout import (
    DATASHEET,
    EFFECTS,
    PROBE_CASES,
    PROBE_JUDGMENTS,
    simulated_judges,
)
from evalkit.runs.read import read_edits, read_probes
from evalkit.runs.records import encode_line, metric_values
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import Metrics
from evalkit.scoring.labels import units_for
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import holm, letters

WORST: Final = 3
LARGE: Final = 0.25
"""The share of the largest possible effect that must be excluded for a judge to withstand a
probe."""
_AGREEMENT: Final = (
    "agreement/accuracy",
    "agreement/kappa",
    "agreement/spearman",
    "position/consistency",
    "tie_rate",
)
_MOST = {"prompt": 300, "response": 600}

WORDS = {
    key: PAGE[key]
    for key in ("dark", "light", "language", "cases", "started", "cost", "missing")
} | words("datasheet")


def datasheet(
    result: RunResult, outcomes: Sequence[Outcome], edits: Sequence[Case]
) -> JsonObject:
    """Return the datasheet of an audit as a JSON value.

    Args:
        result: The run, with all metrics.
        outcomes: What each probe found.
        edits: The edited cases.
    """
    manifest = result.manifest
    config = result.config
    data = manifest.get("dataset") or {}
    clusters = manifest.get("clusters") or {}
    texts = _texts(result.cases, edits, outcomes)
    lengths = _lengths(result, outcomes, edits)
    notes = [
        {"text": note.text, "text_zh": note.text_zh}
        for note in simulated(simulated_judges(manifest))
    ]
    if notes:
        advice = []
    else:
        advice = [
            {"text": text.text, "text_zh": text.text_zh} for text in conclusion(result)
        ]
    return {
        "format": 1,
        "judge": manifest.get("judge"),
        "mode": manifest.get("mode"),
        "language": config.prompt.language,
        "dataset": {
            key: data.get(key) for key in ("name", "source", "fingerprint", "rows")
        },
        "clusters": dict(clusters),
        "confidence": config.scoring.confidence,
        "notes": notes,
        "decision": {**result.decision.json(), "sentences": advice},
        "noise": _sentence(_noise(result.metrics)),
        "rewriter": manifest.get("rewriter"),
        "probes": [
            _probe(
                outcome,
                result,
                texts,
                _reviews(outcome, edits),
                lengths.get(outcome.contrast.probe.name),
            )
            for outcome in outcomes
        ],
        "agreement": {
            name: _numbers(result.metrics, name)
            for name in _AGREEMENT
            if name in result.metrics
        },
        "calls": {
            key: getattr(result.calls, key)
            for key in ("planned", "stored", "sent", "failed")
        },
        "cost_usd": result.cost_usd,
        **{
            key: manifest.get(key)
            for key in (
                "started",
                "stopped",
                "config_hash",
                "prompt_hash",
                "evalkit",
                "python",
            )
        },
        "packages": manifest.get("packages"),
        "judges": [
            {key: judge.get(key) for key in ("name", "model")}
            for judge in manifest.get("judges") or ()
        ],
    }


def _numbers(metrics: Metrics, name: str) -> JsonObject:
    metric = metrics.get(name)
    if metric is None:
        return {}
    return metric_values(metric)


def _sentence(text: Message) -> dict[str, str]:
    english, chinese = in_every_language(text)
    return {"text": english, "text_zh": chinese}


def _noise(metrics: Metrics) -> Text:
    noise = metrics.get(f"audit/{REPEAT}/flip_rate")
    if noise is None or noise.value is None:
        return gettext("The judge's own noise is unknown: no case has two answers.")
    text = gettext(
        "Asked the same question again, the judge changes {rate} of {n:,} verdicts: its own noise."
    )
    return text.fill(rate=percent(noise), n=noise.n)


def _reviews(outcome: Outcome, edits: Sequence[Case]) -> dict[str, int]:
    """Return how many edits of a probe annotators reviewed, and how many of these they rejected."""
    if outcome.contrast.probe.name != PARAPHRASE:
        return {"reviewed": 0, "rejected": 0}
    reviewed = [
        edit
        for edit in edits
        if edit.metadata.get("probe") == PARAPHRASE and reviews_of(edit)
    ]
    return {"reviewed": len(reviewed), "rejected": sum(map(is_rejected, reviewed))}


def _lengths(
    result: RunResult, outcomes: Sequence[Outcome], edits: Sequence[Case]
) -> dict[str, Text]:
    """Return what to say about the length that each probe adds, by its name."""
    added = words_added(
        result.config,
        result.cases,
        edits,
        [outcome.contrast.probe for outcome in outcomes],
    )
    neutral = next(
        (outcome for outcome in outcomes if outcome.contrast.probe.name == NEUTRAL),
        None,
    )
    clusters = Clusters.of(result.config, result.cases)
    alpha = 1 - result.config.scoring.confidence
    texts = {
        outcome.contrast.probe.name: length_sentence(
            outcome, neutral, added, result.decision, clusters, alpha
        )
        for outcome in outcomes
    }
    return {name: text for name, text in texts.items() if text is not None}


def _probe(
    outcome: Outcome,
    result: RunResult,
    texts: Mapping[str, Case],
    reviews: Mapping[str, int],
    length: Text | None,
) -> JsonObject:
    probe = outcome.contrast.probe
    prefix = f"audit/{outcome.contrast.probe.name}/"
    metrics = {
        name.removeprefix(prefix): metric
        for name, metric in result.metrics.items()
        if name.startswith(prefix)
    }
    state = _state(outcome, metrics, result.config)
    if state == "open":
        cases_needed = _cases_needed(outcome, metrics, result.config.scoring.confidence)
    else:
        cases_needed = None
    if cases_needed is None:
        needed = []
    else:
        needed = [
            gettext(
                "Cases that would probably decide: {more} more.",
                more=label_count(cases_needed),
            )
        ]
    return {
        "name": probe.name,
        "state": state,
        "cases_needed": cases_needed,
        "found": outcome.found,
        "silenced": outcome.silenced,
        "unstable": state == "unstable",
        "what": _sentence(probe.what),
        "right": _sentence(RIGHT[probe.expects]),
        "assumes": _sentence(probe.assumes),
        "sentences": [
            _sentence(text)
            for text in (
                *_sentences(outcome, metrics, result.metrics),
                *_instability(outcome, state, metrics),
                *needed,
                *([] if length is None else [length]),
                *_edited(outcome, **reviews),
            )
        ],
        "metrics": {name: metric_values(metric) for name, metric in metrics.items()},
        "n": outcome.n,
        "edited": int(outcome.contrast.applies.sum()) + reviews["rejected"],
        **reviews,
        "p": outcome.p,
        "p_adjusted": outcome.adjusted,
        "worst": list(_worst(outcome, result, texts))
        if outcome.found or outcome.silenced
        else [],
    }


def _state(outcome: Outcome, metrics: Metrics, config: RunConfig) -> str:
    """Return what the judge does with a probe: `falls`, is `unstable`, `withstands`, or `open`.

    It is unstable if more verdicts change than between repeats, or if of two equal responses it
    does not call at least a quarter a tie, and neither has a direction.
    """
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
    if _excludes(outcome, metrics):
        return "withstands"
    return "open"


def _excludes(outcome: Outcome, metrics: Metrics) -> bool:
    """Return whether intervals exclude an effect of a quarter of the largest one, and as many changes."""
    changes = metrics.get("instability")
    if changes is not None and changes.high is not None and changes.high > LARGE:
        return False
    passed = metrics.get("passed")
    shift = metrics.get("shift")
    if outcome.contrast.probe.expects in ("loses", "fails"):
        return passed is not None and passed.high is not None and passed.high <= LARGE
    if shift is None or shift.value is None:
        return False
    low, high = (shift.value if end is None else end for end in (shift.low, shift.high))
    return bool(
        outcome.detectable is not None
        and max(-low * outcome.contrast.probe.directed, high)
        <= LARGE * outcome.contrast.span
    )


def _cases_needed(outcome: Outcome, metrics: Metrics, confidence: float) -> int | None:
    """Return about how many more cases decide a probe, if its effect is as estimated; `None` if that is unknown.

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
    if abs(value) < largest:
        limits = [
            largest if value > 0 or not outcome.contrast.probe.directed else -largest
        ]
    else:
        limits = []
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
    return min(counts, default=None)


def _sentences(outcome: Outcome, metrics: Metrics, every: Metrics) -> Iterator[Text]:
    """Yield what a probe found, in words."""
    probe = outcome.contrast.probe
    noise = every.get(f"audit/{REPEAT}/flip_rate")
    if outcome.silenced and (missing := metrics.get("missing")) is not None:
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
        yield from _shift(outcome, metrics, noise)
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


def _edited(outcome: Outcome, reviewed: int, rejected: int) -> Iterator[Text]:
    """Yield how many cases could not be edited, and what annotators say of the paraphrases."""
    total = len(outcome.contrast.applies)
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


def _shift(outcome: Outcome, metrics: Metrics, noise: Metric | None) -> Iterator[Text]:
    shift = metrics.get("shift")
    flip = metrics.get("flip_rate")
    probe = outcome.contrast.probe
    if shift is not None and shift.value is not None:
        is_found = outcome.found
        toward = (shift.value or 0) > 0
        if probe.expects == "tie":
            text = gettext(
                "Of two equal responses, it prefers neither the first nor the second significantly:"
                " {shift}."
            )
            if is_found and toward:
                text = gettext(
                    "Of two equal responses, it prefers the one shown first: {shift} (from -1"
                    " to 1)."
                )
            elif is_found:
                text = gettext(
                    "Of two equal responses, it prefers the one shown second: {shift} (from -1"
                    " to 1)."
                )
        elif not is_found and not probe.directed:
            text = gettext(
                "Verdicts do not move significantly more than when the same question is asked"
                " again: {shift}."
            )
        elif not is_found:
            text = gettext("No significant shift: {shift} beyond its own noise.")
        elif not probe.directed:
            text = gettext(
                "Verdicts move by {shift} more than when the same question is asked again."
            )
        elif probe.name == "order":
            text = gettext(
                "Verdicts shift toward the response shown second, by {shift} beyond its own noise."
            )
            if toward:
                text = gettext(
                    "Verdicts shift toward the response shown first, by {shift} beyond its own"
                    " noise."
                )
        elif toward:
            text = gettext(
                "Verdicts shift toward the edited response, by {shift} beyond its own noise."
            )
        else:
            text = gettext(
                "Verdicts shift away from the edited response, by {shift} beyond its own noise."
            )
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
    """Return the indices of the cases with an effect in the direction of the mean, changed verdicts first."""
    if outcome.silenced and not outcome.found:
        return [int(index) for index in np.flatnonzero(outcome.contrast.missing)]
    effect = outcome.contrast.tested * np.sign(outcome.mean or 0.0)
    indices = np.flatnonzero(np.nan_to_num(effect) > 0)
    if outcome.contrast.probe.expects == "same":
        same = outcome.contrast.flip[indices] == 0
    else:
        same = np.zeros(len(indices))
    # `lexsort` takes the last key first: changed verdicts, then the largest effects
    return [int(index) for index in indices[np.lexsort((-effect[indices], same))]]


def _texts(
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


def _worst(
    outcome: Outcome, result: RunResult, texts: Mapping[str, Case]
) -> Iterator[JsonObject]:
    for index in _order(outcome)[:WORST]:
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


def effect_lines(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str:
    """Return a JSON line for each probe of each case: what `effects.jsonl` holds."""
    lines = []
    for outcome in outcomes:
        parts = outcome.contrast
        numbers = {
            "effect": parts.tested,
            "shift": parts.shift,
            "flipped": parts.flip,
            "passed": parts.passed,
        }
        for index in map(int, np.flatnonzero(parts.applies)):
            values = {
                name: None if isnan(all_[index]) else float(all_[index])
                for name, all_ in numbers.items()
            }
            row = {
                "case": cases[index].id,
                "probe": parts.probe.name,
                **values,
                "missing": bool(parts.missing[index]),
            }
            lines.append(encode_line(row).decode("utf-8", "surrogatepass"))
    return "".join(lines)


def datasheet_files(sheet: Json, result: RunResult) -> dict[str, str]:
    """Return a datasheet as JSON, Markdown and HTML, by file name."""
    language = language_of(result.config)
    level = level_of(result.config)
    words = {key: filled(text, level=level) for key, text in WORDS.items()}
    title = " · ".join(
        str(part)
        for part in (sheet["mode"], sheet["judge"], sheet["dataset"]["name"])
        if part
    )
    groups = {
        state: [p for p in sheet["probes"] if p["state"] == state]
        for state in ("falls", "unstable", "withstands", "open")
    }
    agreement = [
        (metric_words(name), _outcome(numbers))
        for name, numbers in sheet["agreement"].items()
    ]
    use = in_every_language(USES[sheet["decision"]["use"]])
    variables = {
        "sheet": sheet,
        "groups": groups,
        "agreement": agreement,
        "metric": as_metric,
        "quantity": quantity,
    }
    variables |= {"use": use, "level": level}
    return _written(
        "datasheet", sheet, _frame(sheet, words, title, language) | variables
    )


def _written(name: str, sheet: Json, values: Json) -> dict[str, str]:
    """Return a datasheet's files by name; Markdown is in the language of the run's prompts."""
    chinese = values["start"] == "zh"
    text = {"language": int(chinese), "key": "text_zh" if chinese else "text"}
    return {
        f"{DATASHEET}.json": (
            json.dumps(sheet, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ),
        f"{DATASHEET}.md": render_markdown(f"{name}.md.j2", {**values, **text}),
        f"{DATASHEET}.html": render(f"{name}.html.j2", values, data={}),
    }


def _frame(sheet: Json, words: Json, title: str, language: str) -> JsonObject:
    calls = sheet["calls"]
    cost = sheet["cost_usd"]
    text = gettext("{planned:,}, {stored:,} of them stored, {failed:,} failed", **calls)
    facts = [
        ("judge", (str(sheet["judge"]),) * 2),
        ("data", (str(sheet["dataset"]["name"]),) * 2),
    ]
    facts += (
        [("rewriter", (str(rewriter["model"]),) * 2)]
        if (rewriter := sheet["rewriter"])
        else []
    )
    facts += [
        ("cases", (f"{sheet['dataset']['rows']:,}",) * 2),
        ("requests", in_every_language(text)),
    ]
    facts += [("cost", PAGE["unknown"] if cost is None else (dollars(cost),) * 2)]
    facts += [("started", (str(sheet["started"] or "")[:16].replace("T", " "),) * 2)]
    return {"title": title, "start": language, "facts": facts, "words": words}


def as_metric(numbers: Json) -> Metric:
    """Return a metric from its numbers in JSON."""
    return Metric(
        "", **{key: numbers[key] for key in ("value", "low", "high", "n", "missing")}
    )


def quantity(numbers: Json | None, *, share: bool = False) -> str:
    """Return a metric in a table: its value and interval, or nothing."""
    if not numbers or numbers["value"] is None:
        return ""
    return (percent if share else interval)(as_metric(numbers))


def _outcome(numbers: Json) -> Words:
    """Return the value, interval and n of a metric, or why it has none."""
    if numbers["value"] is None:
        return note_words(numbers["note"] or "")
    return (f"{quantity(numbers)} (n = {numbers['n']:,})",) * 2


def sweep_datasheet(folder: Path, names: Mapping[str, str]) -> dict[str, str]:
    """Return the files of the datasheet of a sweep of audits, by name; empty if fewer than two jobs are audits.

    Args:
        folder: The sweep's folder.
        names: The name of each job, by its folder.
    """
    jobs = [job for job in names if (folder / job / f"{DATASHEET}.json").is_file()]
    if len(jobs) < 2:
        return {}
    sheets = {
        job: json.loads(read_file(folder / job / f"{DATASHEET}.json")) for job in jobs
    }
    compared = _compare(folder, sheets)
    rows = [_row(job, names[job], sheets[job], compared) for job in jobs]
    rows.sort(key=lambda row: (row["worse"] - row["better"], len(row["falls"])))
    probes = list(
        dict.fromkeys(
            probe["name"] for sheet in sheets.values() for probe in sheet["probes"]
        )
    )
    config = read_config(folder / jobs[0])
    sheet = {
        "format": 1,
        "jobs": rows,
        "probes": probes,
        "tests": compared,
        "confidence": config.scoring.confidence,
    }
    return _files(sheet, folder.name, language_of(config))


def _effects(folder: Path, job: str) -> dict[str, dict[str, float]]:
    effects: dict[str, dict[str, float]] = {}
    for line in read_text(folder / job / EFFECTS).splitlines():
        row = json.loads(line)
        # A noisier judge must not look less affected: what is wrong is wrong, without its own noise
        # taken off.
        value = row["shift"] if row["passed"] is None else row["passed"]
        if value is not None:
            effects.setdefault(row["probe"], {})[row["case"]] = value
    return effects


def _compare(folder: Path, sheets: Json) -> list[JsonObject]:
    """Return the test of each pair of jobs in each probe that both have."""
    effects = {job: _effects(folder, job) for job in sheets}
    tests: list[JsonObject] = []
    for first, second in combinations(sheets, 2):
        cases = read_cases(folder / first)
        clusters = Clusters.of(read_config(folder / first), cases)
        for probe in effects[first].keys() & effects[second].keys():
            mine = effects[first][probe]
            theirs = effects[second][probe]
            # shape (cases,); NaN where either job has no value
            differences = np.array(
                [
                    mine.get(case.id, np.nan) - theirs.get(case.id, np.nan)
                    for case in cases
                ]
            )
            p = p_value(differences, clusters, one_sided=False)
            sizes = [
                abs(float(np.mean([*values.values()]))) for values in (mine, theirs)
            ]
            worse = (first, second)[sizes[1] > sizes[0]]
            count = int(np.isfinite(differences).sum())
            tests.append(
                {
                    "probe": probe,
                    "jobs": [first, second],
                    "n": count,
                    "p": p,
                    "worse": worse,
                }
            )
    # `keys() & keys()` has no order
    tests.sort(key=lambda test: (test["probe"], test["jobs"]))
    alpha = 1 - float(next(iter(sheets.values()))["confidence"])
    for test, adjusted in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test |= {
            "p_adjusted": adjusted,
            "differ": adjusted is not None and adjusted <= alpha,
        }
    return tests


def _row(job: str, name: str, sheet: Json, tests: Sequence[Json]) -> JsonObject:
    differing = [test for test in tests if job in test["jobs"] and test["differ"]]
    worse = sum(test["worse"] == job for test in differing)
    return {
        "job": job,
        "name": name,
        "judge": sheet["judge"],
        "decision": (sheet.get("decision") or {}).get("use"),
        "falls": [
            probe["name"] for probe in sheet["probes"] if probe["state"] == "falls"
        ],
        "worse": worse,
        "better": len(differing) - worse,
        "cost_usd": sheet["cost_usd"],
        "metrics": {probe["name"]: probe["metrics"] for probe in sheet["probes"]},
    }


def _findings(sheet: Json) -> list[tuple[str, str]]:
    names = {row["job"]: row["name"] for row in sheet["jobs"]}
    messages: list[Message] = []
    for test in sheet["tests"]:
        if test["differ"]:
            (better,) = (job for job in test["jobs"] if job != test["worse"])
            text = gettext(
                "{probe}: {worse} is affected more than {better} (p {p}, {n:,} cases)."
            )
            values = {
                "worse": names[test["worse"]],
                "better": names[better],
                "p": p_text(test["p_adjusted"], "= "),
                "n": test["n"],
            }
            messages.append(text.fill(probe=test["probe"], **values))
    return [
        in_every_language(text)
        for text in messages
        or [gettext("No two judges differ significantly in any probe.")]
    ]


def _letters(sheet: Json, probe: str) -> dict[str, str]:
    jobs = [row["job"] for row in sheet["jobs"] if probe in row["metrics"]]
    differ = [
        frozenset(test["jobs"])
        for test in sheet["tests"]
        if test["probe"] == probe and test["differ"]
    ]
    if differ:
        return letters(jobs, differ)
    return {}


def _files(sheet: Json, title: str, language: str) -> dict[str, str]:
    level = f"{100 * sheet['confidence']:g}%"
    words = {key: filled(text, level=level) for key, text in WORDS.items()}
    costs = [row["cost_usd"] for row in sheet["jobs"]]
    cost = PAGE["unknown"] if None in costs else (dollars(sum(costs)),) * 2
    values = {
        "title": title,
        "start": language,
        "level": level,
        "words": words,
        "facts": [("jobs", (f"{len(sheet['jobs']):,}",) * 2), ("cost", cost)],
        "sheet": sheet,
        "findings": _findings(sheet),
        "letters": {probe: _letters(sheet, probe) for probe in sheet["probes"]},
        "quantity": quantity,
        "uses": {use: in_every_language(text) for use, text in USES.items()},
    }
    return _written("datasheet_sweep", sheet, values)


def is_audit(config: RunConfig) -> bool:
    """Return whether a run plants biases."""
    return bool(config.probe.probes)


def check_audit(config: RunConfig, cases: Iterable[Case]) -> None:
    """Check before anything is paid that an audit's probes, rewriter and ids can be used.

    Raises:
        ConfigError: If one of them cannot.
    """
    probes_of(config)
    if config.probe.rewriter is not None:
        Rewriter(config)
    for case in cases:
        check_id(case)


@frozen
class Audit:
    """An audit that is judged: its probes, edited cases and their judgments, its metrics and outcomes."""

    probes: tuple[Probe, ...]
    cases: Sequence[Case]
    judgments: Sequence[Judgment]
    metrics: dict[str, Metric]
    outcomes: list[Outcome]

    @classmethod
    def of(
        cls,
        config: RunConfig,
        cases: Sequence[Case],
        judgments: Sequence[Judgment],
        edits: Sequence[Case],
        answers: Sequence[Judgment],
    ) -> Audit:
        """Return the metrics of an audit; paraphrases that annotators reject are not in them.

        Args:
            config: The run's config.
            cases: The original cases.
            judgments: Their judgments.
            edits: The edited cases.
            answers: The judgments of the edited cases.
        """
        probes = probes_of(config)
        rejected = {edit.id for edit in edits if is_rejected(edit)}
        kept = [edit for edit in edits if edit.id not in rejected]
        counted = [answer for answer in answers if answer.case_id not in rejected]
        metrics, outcomes = audit_metrics(
            config, cases, probes, [*cases, *kept], [*judgments, *counted]
        )
        return cls(probes, edits, answers, metrics, outcomes)

    @classmethod
    def read(
        cls, config: RunConfig, result: RunResult, reviews: Reviews = NO_REVIEWS
    ) -> Audit | None:
        """Return the audit of a finished run under other scoring settings; `None` if the run is not an audit.

        Args:
            config: The config with the new settings.
            result: The finished run.
            reviews: Annotators' new reviews of paraphrases.

        Raises:
            ConfigError: If a file of the audit is missing or damaged.
        """
        if not is_audit(config) or result.folder is None:
            return None
        edits, answers = read_probes(Path(result.folder))
        return cls.of(
            config,
            result.cases,
            result.judgments,
            with_reviews(edits, reviews),
            answers,
        )

    def files(self, result: RunResult) -> dict[str, str]:
        """Return the audit's files in the run folder, by name; `result` has all metrics."""
        sheet = datasheet(result, self.outcomes, self.cases)
        return {
            PROBE_CASES: _lines(self.cases),
            PROBE_JUDGMENTS: _lines(self.judgments),
            EFFECTS: effect_lines(result.cases, self.outcomes),
            **datasheet_files(sheet, result),
        }


def _lines(values: Iterable[object]) -> str:
    return "".join(
        encode_line(value).decode("utf-8", "surrogatepass") for value in values
    )


def earlier_reviews(folder: Path) -> Reviews:
    """Return the reviews of paraphrases in the folder of an audit that is run again; empty for another folder.

    Raises:
        ConfigError: If the file with the edited cases is damaged.
    """
    edits = read_edits(folder) if (folder / PROBE_CASES).is_file() else ()
    return {key_of(edit): reviews_of(edit) for edit in edits if reviews_of(edit)}


def split(
    plan: AuditPlan, judgments: Iterable[Judgment], folder: Path
) -> tuple[Sequence[Judgment], Sequence[Judgment]]:
    """Return the judgments of the original cases, and those of the edited cases."""
    original = Spool[Judgment](folder=folder)
    edited = Spool[Judgment](folder=folder)
    for judgment in judgments:
        if SEPARATOR in judgment.case_id:
            edited.append(plan.evaluator.original(judgment))
        else:
            original.append(judgment)
    return original, edited
