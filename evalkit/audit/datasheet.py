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
from evalkit.decision import Metrics
from evalkit.report.findings import conclusion
from evalkit.report.findings.decisions import USES, label_count, simulated
from evalkit.report.page import filled, language_of, level_of, render, render_markdown
from evalkit.report.texts import PAGE, Words, metric_words, note_words, words
from evalkit.results import RunResult
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
from evalkit.scoring.labels import units_for
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import holm, letters
from evalkit.types import Case, Judgment, Metric
from evalkit.values import Json, JsonObject, frozen

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
        {"text": one.text, "text_zh": one.text_zh}
        for one in simulated(simulated_judges(manifest))
    ]
    advice = (
        []
        if notes
        else [{"text": one.text, "text_zh": one.text_zh} for one in conclusion(result)]
    )
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
                one,
                result,
                texts,
                _reviews(one, edits),
                lengths.get(one.contrast.probe.name),
            )
            for one in outcomes
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
            {key: one.get(key) for key in ("name", "model")}
            for one in manifest.get("judges") or ()
        ],
    }


def _numbers(metrics: Metrics, name: str) -> JsonObject:
    found = metrics.get(name)
    return {} if found is None else metric_values(found)


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


def _reviews(one: Outcome, edits: Sequence[Case]) -> dict[str, int]:
    """Return how many edits of a probe annotators reviewed, and how many of these they rejected."""
    if one.contrast.probe.name != PARAPHRASE:
        return {"reviewed": 0, "rejected": 0}
    found = [
        edit
        for edit in edits
        if edit.metadata.get("probe") == PARAPHRASE and reviews_of(edit)
    ]
    return {"reviewed": len(found), "rejected": sum(map(is_rejected, found))}


def _lengths(
    result: RunResult, outcomes: Sequence[Outcome], edits: Sequence[Case]
) -> dict[str, Text]:
    """Return what to say about the length that each probe adds, by its name."""
    added = words_added(
        result.config, result.cases, edits, [one.contrast.probe for one in outcomes]
    )
    neutral = next(
        (one for one in outcomes if one.contrast.probe.name == NEUTRAL), None
    )
    clusters = Clusters.of(result.config, result.cases)
    alpha = 1 - result.config.scoring.confidence
    texts = {
        one.contrast.probe.name: length_sentence(
            one, neutral, added, result.decision, clusters, alpha
        )
        for one in outcomes
    }
    return {name: text for name, text in texts.items() if text is not None}


def _probe(
    one: Outcome,
    result: RunResult,
    texts: Mapping[str, Case],
    reviews: Mapping[str, int],
    length: Text | None,
) -> JsonObject:
    probe = one.contrast.probe
    prefix = f"audit/{one.contrast.probe.name}/"
    metrics = {
        name.removeprefix(prefix): metric
        for name, metric in result.metrics.items()
        if name.startswith(prefix)
    }
    state = _state(one, metrics, result.config)
    more = (
        _cases_needed(one, metrics, result.config.scoring.confidence)
        if state == "open"
        else None
    )
    needed = (
        []
        if more is None
        else [
            gettext(
                "Cases that would probably decide: {more} more.", more=label_count(more)
            )
        ]
    )
    return {
        "name": probe.name,
        "state": state,
        "cases_needed": more,
        "found": one.found,
        "silenced": one.silenced,
        "unstable": state == "unstable",
        "what": _sentence(probe.what),
        "right": _sentence(RIGHT[probe.expects]),
        "assumes": _sentence(probe.assumes),
        "sentences": [
            _sentence(text)
            for text in (
                *_sentences(one, metrics, result.metrics),
                *_instability(one, state, metrics),
                *needed,
                *([] if length is None else [length]),
                *_edited(one, **reviews),
            )
        ],
        "metrics": {name: metric_values(metric) for name, metric in metrics.items()},
        "n": one.n,
        "edited": int(one.contrast.asked.sum()) + reviews["rejected"],
        **reviews,
        "p": one.p,
        "p_adjusted": one.adjusted,
        "worst": list(_worst(one, result, texts)) if one.found or one.silenced else [],
    }


def _state(one: Outcome, metrics: Metrics, config: RunConfig) -> str:
    """Return what the judge does with a probe: `falls`, is `unstable`, `withstands`, or `open`.

    It is unstable if more verdicts change than between repeats, or if of two equal responses it
    does not call at least a quarter a tie, and neither has a direction.
    """
    if one.found or one.silenced:
        return "falls"
    passed = metrics.get("passed")
    picks = (
        one.contrast.probe.expects == "tie"
        and config.tie.allow
        and passed is not None
        and passed.low is not None
        and passed.low > LARGE
    )
    if one.unstable or picks:
        return "unstable"
    return "withstands" if _excludes(one, metrics) else "open"


def _excludes(one: Outcome, metrics: Metrics) -> bool:
    """Return whether intervals exclude an effect of a quarter of the largest one, and as many changes."""
    changes = metrics.get("instability")
    if changes is not None and changes.high is not None and changes.high > LARGE:
        return False
    passed = metrics.get("passed")
    shift = metrics.get("shift")
    if one.contrast.probe.expects in ("loses", "fails"):
        return passed is not None and passed.high is not None and passed.high <= LARGE
    if shift is None or shift.value is None:
        return False
    low, high = (shift.value if end is None else end for end in (shift.low, shift.high))
    return bool(
        one.detectable is not None
        and max(-low * one.contrast.probe.directed, high) <= LARGE * one.contrast.span
    )


def _cases_needed(one: Outcome, metrics: Metrics, confidence: float) -> int | None:
    """Return about how many more cases decide a probe, if its effect is as estimated; `None` if that is unknown.

    The interval of the effect then excludes a large effect, or none.
    """
    metric = metrics.get("shift")
    largest = LARGE * one.contrast.span
    if one.contrast.probe.expects in ("loses", "fails"):
        metric = metrics.get("passed")
        largest = LARGE
    if metric is None or metric.value is None:
        return None
    value = metric.value
    limits = (
        [largest if value > 0 or not one.contrast.probe.directed else -largest]
        if abs(value) < largest
        else []
    )
    limits += (
        [0.0]
        if metric.name.endswith("/shift") and (value > 0 or one.contrast.probe.directed)
        else []
    )
    found = [
        more
        for limit in limits
        if (more := units_for(metric, limit, confidence)) is not None
    ]
    return min(found, default=None)


def _sentences(one: Outcome, metrics: Metrics, every: Metrics) -> Iterator[Text]:
    """Yield what a probe found, in words."""
    probe = one.contrast.probe
    noise = every.get(f"audit/{REPEAT}/flip_rate")
    if one.silenced and (missing := metrics.get("missing")) is not None:
        silent = every.get(f"audit/{REPEAT}/missing")
        text = gettext(
            "After the edit, {rate} of cases have no usable answer; of the unedited repeats,"
            " {noise}."
        )
        yield text.fill(
            rate=percent(missing), noise="?" if silent is None else percent(silent)
        )
    if not one.n:
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
        if not one.found:
            yield gettext("That is not significantly more than its own noise.")
    else:
        yield from _shift(one, metrics, noise)
    if not one.found and one.n:
        if one.detectable is None:
            yield ngettext(
                "{n:,} case is too few for any effect to be significant.",
                "{n:,} cases are too few for any effect to be significant.",
                one.n,
            )
        else:
            size = f"{one.detectable:.2f}"
            yield gettext(
                "These cases would probably have shown an effect of {size} or more.",
                size=size,
            )


def _instability(one: Outcome, state: str, metrics: Metrics) -> Iterator[Text]:
    """Yield that verdicts change in no direction, if they do."""
    if state != "unstable":
        return
    if one.contrast.probe.expects == "tie":
        yield gettext("It picks one of two equal responses, in no direction.")
        return
    changes = metrics["instability"]
    text = gettext(
        "It changes its mind, in no direction: {rate} of verdicts beyond its own noise."
    )
    yield text.fill(rate=percent(changes))


def _edited(one: Outcome, reviewed: int, rejected: int) -> Iterator[Text]:
    """Yield how many cases could not be edited, and what annotators say of the paraphrases."""
    total = len(one.contrast.asked)
    edited = int(one.contrast.asked.sum()) + rejected
    if edited < total:
        yield gettext(
            "{n:,} of {total:,} cases could not be edited.",
            n=total - edited,
            total=total,
        )
    if one.contrast.probe.name == PARAPHRASE and reviewed:
        text = gettext(
            "Annotators reviewed {n:,} of {total:,} paraphrases; {rejected:,} that differ in"
            " meaning are not counted."
        )
        yield text.fill(n=reviewed, total=edited, rejected=rejected)
    elif one.contrast.probe.name == PARAPHRASE:
        yield gettext(
            "No annotator has reviewed whether the paraphrases mean the same."
        )


def _shift(one: Outcome, metrics: Metrics, noise: Metric | None) -> Iterator[Text]:
    shift = metrics.get("shift")
    flip = metrics.get("flip_rate")
    probe = one.contrast.probe
    if shift is not None and shift.value is not None:
        found = one.found
        toward = (shift.value or 0) > 0
        if probe.expects == "tie":
            text = gettext(
                "Of two equal responses, it prefers neither the first nor the second significantly:"
                " {shift}."
            )
            if found and toward:
                text = gettext(
                    "Of two equal responses, it prefers the one shown first: {shift} (from -1"
                    " to 1)."
                )
            elif found:
                text = gettext(
                    "Of two equal responses, it prefers the one shown second: {shift} (from -1"
                    " to 1)."
                )
        elif not found and not probe.directed:
            text = gettext(
                "Verdicts do not move significantly more than when the same question is asked"
                " again: {shift}."
            )
        elif not found:
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
        known = noise is not None and noise.value is not None
        yield text.fill(
            rate=percent(flip), noise=percent(noise) if known and noise else "?"
        )


def _order(one: Outcome) -> list[int]:
    """Return the indices of the cases with an effect in the direction of the mean, changed verdicts first."""
    if one.silenced and not one.found:
        return [int(place) for place in np.flatnonzero(one.contrast.missing)]
    effect = one.contrast.tested * np.sign(one.mean or 0.0)
    places = np.flatnonzero(np.nan_to_num(effect) > 0)
    same = (
        one.contrast.flip[places] == 0
        if one.contrast.probe.expects == "same"
        else np.zeros(len(places))
    )
    return [int(place) for place in places[np.lexsort((-effect[places], same))]]


def _texts(
    cases: Sequence[Case], edits: Sequence[Case], outcomes: Sequence[Outcome]
) -> dict[str, Case]:
    """Return the cases that the page shows, originals by index and edited ones by id."""
    ids = [case.id for case in cases]
    shown = {
        f"{ids[k]}{SEPARATOR}{one.contrast.probe.name}"
        for one in outcomes
        for k in _order(one)[:WORST]
    }
    return {case.id: case for case in edits if case.id in shown}


def _worst(
    one: Outcome, result: RunResult, texts: Mapping[str, Case]
) -> Iterator[JsonObject]:
    for place in _order(one)[:WORST]:
        case = result.cases[int(place)]
        edited = texts.get(f"{case.id}{SEPARATOR}{one.contrast.probe.name}")
        side = 0 if edited is None else int(edited.metadata.get("side", 0))
        text = "" if edited is None else edited.responses[side].text
        pair = result.config.mode.name not in SINGLE
        yield {
            "case": case.id,
            "prompt": shorten(case.prompt, _MOST["prompt"]),
            "edited": shorten(text, _MOST["response"]),
            "side": "AB"[side] if pair and edited is not None else None,
            "before": _verdict(one.contrast.before[place], pair=pair),
            "after": _verdict(one.contrast.after[place], pair=pair),
        }


def _verdict(value: float, *, pair: bool) -> str | float | None:
    if isnan(value):
        return None
    return {1.0: "A", 0.0: "TIE", -1.0: "B"}[float(value)] if pair else float(value)


def effect_lines(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str:
    """Return a JSON line for each probe of each case: what `effects.jsonl` holds."""
    lines = []
    for one in outcomes:
        parts = one.contrast
        numbers = {
            "effect": parts.tested,
            "shift": parts.shift,
            "flipped": parts.flip,
            "passed": parts.passed,
        }
        for place in map(int, np.flatnonzero(parts.asked)):
            values = {
                name: None if isnan(all_[place]) else float(all_[place])
                for name, all_ in numbers.items()
            }
            row = {
                "case": cases[place].id,
                "probe": parts.probe.name,
                **values,
                "missing": bool(parts.missing[place]),
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
    shown = {
        "sheet": sheet,
        "groups": groups,
        "agreement": agreement,
        "metric": as_metric,
        "quantity": quantity,
    }
    shown |= {"use": use, "level": level}
    return _written("datasheet", sheet, _frame(sheet, words, title, language) | shown)


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
        [("rewriter", (str(one["model"]),) * 2)] if (one := sheet["rewriter"]) else []
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
            one["name"] for sheet in sheets.values() for one in sheet["probes"]
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
    found: dict[str, dict[str, float]] = {}
    for line in read_text(folder / job / EFFECTS).splitlines():
        row = json.loads(line)
        # A noisier judge must not look less affected: what is wrong is wrong, without its own noise
        # taken off.
        value = row["shift"] if row["passed"] is None else row["passed"]
        if value is not None:
            found.setdefault(row["probe"], {})[row["case"]] = value
    return found


def _compare(folder: Path, sheets: Json) -> list[JsonObject]:
    """Return the test of each pair of jobs in each probe that both have."""
    effects = {job: _effects(folder, job) for job in sheets}
    tests: list[JsonObject] = []
    for one, two in combinations(sheets, 2):
        cases = read_cases(folder / one)
        clusters = Clusters.of(read_config(folder / one), cases)
        for probe in effects[one].keys() & effects[two].keys():
            mine = effects[one][probe]
            theirs = effects[two][probe]
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
            worse = (one, two)[sizes[1] > sizes[0]]
            known = int(np.isfinite(differences).sum())
            tests.append(
                {"probe": probe, "jobs": [one, two], "n": known, "p": p, "worse": worse}
            )
    tests.sort(key=lambda test: (test["probe"], test["jobs"]))
    alpha = 1 - float(next(iter(sheets.values()))["confidence"])
    for test, adjusted in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test |= {
            "p_adjusted": adjusted,
            "differ": adjusted is not None and adjusted <= alpha,
        }
    return tests


def _row(job: str, name: str, sheet: Json, tests: Sequence[Json]) -> JsonObject:
    own = [test for test in tests if job in test["jobs"] and test["differ"]]
    worse = sum(test["worse"] == job for test in own)
    return {
        "job": job,
        "name": name,
        "judge": sheet["judge"],
        "decision": (sheet.get("decision") or {}).get("use"),
        "falls": [one["name"] for one in sheet["probes"] if one["state"] == "falls"],
        "worse": worse,
        "better": len(own) - worse,
        "cost_usd": sheet["cost_usd"],
        "metrics": {one["name"]: one["metrics"] for one in sheet["probes"]},
    }


def _findings(sheet: Json) -> list[tuple[str, str]]:
    names = {row["job"]: row["name"] for row in sheet["jobs"]}
    found: list[Message] = []
    for test in sheet["tests"]:
        if test["differ"]:
            (other,) = (job for job in test["jobs"] if job != test["worse"])
            text = gettext(
                "{probe}: {worse} is affected more than {better} (p {p}, {n:,} cases)."
            )
            values = {
                "worse": names[test["worse"]],
                "better": names[other],
                "p": p_text(test["p_adjusted"], "= "),
                "n": test["n"],
            }
            found.append(text.fill(probe=test["probe"], **values))
    return [
        in_every_language(text)
        for text in found
        or [gettext("No two judges differ significantly in any probe.")]
    ]


def _letters(sheet: Json, probe: str) -> dict[str, str]:
    jobs = [row["job"] for row in sheet["jobs"] if probe in row["metrics"]]
    differ = [
        frozenset(test["jobs"])
        for test in sheet["tests"]
        if test["probe"] == probe and test["differ"]
    ]
    return letters(jobs, differ) if differ else {}


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
