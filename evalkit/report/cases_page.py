"""The page of cases on which runs, or the two orders of a run, disagree: texts,
verdicts, reasons and labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias

from evalkit.core.display import letter, shorten
from evalkit.core.image_files import picture_sources
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Unit, Verdict
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.evaluators.json_answers import rationale
from evalkit.report.case_list import winner_letter
from evalkit.report.page import filled, language_of, render, script_json
from evalkit.report.texts import words
from evalkit.runs.results import RunResult
from evalkit.runs.side_by_side import LARGEST, letters

MOST: Final = 300
"""The most cases that the page lists."""
EACH: Final = 30
"""The cases that each filter has at least, if so many match it."""
LONGEST: Final = 3_000
"""The most characters of a text on the page; the run folder has all."""
WORDS: Final = words("cases_page")
_TINY: Final = 1e-9

Key: TypeAlias = tuple[str, str, Unit]
"""What a verdict is about: the data set, the case and the responses."""
State: TypeAlias = Literal["right", "wrong", "missing", "unlabeled"]


@frozen
class Row:
    """The verdicts of several runs on the same responses.

    Attributes:
        key: What they are about.
        verdicts: The verdict of each run by its position; a run may have none.
        flags: The filters that match: `differ`, `orders`, `wrong`, and `wrong-K`, `missing-K` and
            `orders-K` of the run at position K.
    """

    key: Key
    verdicts: Mapping[int, Verdict]
    flags: tuple[str, ...]


@frozen
class CasesPage:
    """The page, and the number of cases that each filter matches."""

    html: str
    counts: Mapping[str, int]


def cases_page(runs: Mapping[str, RunResult], title: str) -> CasesPage:
    """Return one self-contained HTML page on the cases where runs, or orders, disagree
    or are wrong.

    Texts from data cannot become markup: the template escapes them, and the page's own policy runs
    no script but that which filters.

    Args:
        runs: The runs by name, one or more; their cases, judgments and verdicts are read once.
        title: The title of the page.
    """
    results = [*runs.values()]
    rows = [*_rows(results)]
    counts = Counter(flag for row in rows for flag in row.flags)
    listed = _listed(rows)
    texts = _cases(results, {row.key for row in listed})
    reasons = [_reasons(result, listed) for result in results]
    counts_in_words = {
        "listed": f"{len(listed):,}",
        "total": f"{len(rows):,}",
        "most": f"{LARGEST:,}",
    }
    values: JsonObject = {
        "title": title,
        "start": language_of(results[0].config),
        "facts": (),
        "words": {key: filled(text, **counts_in_words) for key, text in WORDS.items()},
        "counts": counts,
        "partial": len(listed) < sum(bool(row.flags) for row in rows),
        "shortened": any(len(result.verdicts) > LARGEST for result in results),
        "runs": [*enumerate(runs)],
        "rows": [
            _row_values(row, texts[row.key], [*runs], results, reasons)
            for row in listed
        ],
    }
    data = {}
    # The page may be anywhere, so it has no files of a run folder: only small pictures.
    sources = picture_sources(_texts(values["rows"]), files=False)
    if sources:
        values["pictures"] = True
        data["images"] = script_json(sources)
    html = render("cases.html.j2", values, script="cases.js", data=data)
    return CasesPage(html, counts)


def _texts(rows: Iterable[Json]) -> Iterator[str]:
    """Yield the texts on the page that can have pictures."""
    for row in rows:
        yield row["prompt"]
        for _, text in row["responses"]:
            yield text


def _rows(results: Sequence[RunResult]) -> Iterator[Row]:
    """Yield the verdicts about the same responses, in the order of the first run that has them."""
    verdicts_by_key: dict[Key, dict[int, Verdict]] = {}
    for position, result in enumerate(results):
        dataset = (result.manifest.get("dataset") or {}).get("fingerprint")
        for verdict in islice(result.verdicts, LARGEST):
            key = (str(dataset), verdict.case_id, verdict.unit)
            verdicts_by_key.setdefault(key, {})[position] = verdict
    scales = [Scale.of(result.config.rubric) for result in results]
    for key, verdicts in verdicts_by_key.items():
        yield Row(key, verdicts, tuple(_flags_of(verdicts, scales)))


def _flags_of(
    verdicts: Mapping[int, Verdict], scales: Sequence[Scale]
) -> Iterator[str]:
    """Yield the filters that a row is in, in all runs and by the position of a run: `wrong-1`."""
    answers = {answer_of(verdict) for verdict in verdicts.values()}
    if len(answers) > 1:
        yield "differ"
    states = {
        position: state_of(verdict, scales[position])
        for position, verdict in verdicts.items()
    }
    if "wrong" in states.values():
        yield "wrong"
    for position, state in states.items():
        if state in ("wrong", "missing"):
            yield f"{state}-{position}"
    unstable = [
        position
        for position, verdict in verdicts.items()
        if verdict.orders is not None and verdict.orders.consistent is False
    ]
    if unstable:
        yield "orders"
    yield from (f"orders-{position}" for position in unstable)


def state_of(verdict: Verdict, scale: Scale) -> State:
    """Return whether a verdict is right by its label.

    A score is right within one level, or a tenth of the scale, of the grade. A checklist is right
    if every labeled item is.
    """
    labeled_items = [item for item in verdict.items if item.label is not None]
    if verdict.reason == "missing":
        return "missing"
    if labeled_items:
        right = all(item.answer == item.label for item in labeled_items)
    elif verdict.label is None:
        return "unlabeled"
    elif verdict.score is not None and isinstance(verdict.label, int | float):
        tolerance = max(scale.step, scale.span / 10)
        right = abs(verdict.score - verdict.label) <= tolerance + _TINY
    else:
        right = verdict.label in (verdict.winner, verdict.class_name)
    return "right" if right else "wrong"


def answer_of(verdict: Verdict) -> str:
    """Return what a verdict says: the winner, the score, the class, or why there is none."""
    if verdict.winner is not None:
        return str(winner_letter(verdict.winner, verdict.unit))
    if verdict.score is not None:
        return _number(verdict.score)
    return verdict.class_name or verdict.reason


def label_of(verdict: Verdict) -> str | None:
    """Return the label in the same form; `None` if there is none."""
    if isinstance(verdict.label, int | float):
        return _number(verdict.label)
    return winner_letter(verdict.label, verdict.unit)


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _listed(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the page: some of each filter, then those where runs differ,
    then others.
    """
    flags = dict.fromkeys(flag for row in rows for flag in row.flags)
    chosen: dict[Key, Row] = {}
    for flag in flags:
        matching = (row for row in rows if flag in row.flags)
        chosen |= {row.key: row for row in islice(matching, EACH)}
    for flag in ("differ", "wrong", "orders", *flags):
        chosen |= {row.key: row for row in rows if flag in row.flags}
    listed = {*islice(chosen, MOST)}
    return [row for row in rows if row.key in listed]


def _cases(results: Sequence[RunResult], keys: Collection[Key]) -> dict[Key, Case]:
    """Return the case of each key, from the first run that has it."""
    cases: dict[Key, Case] = {}
    for result in results:
        dataset = str((result.manifest.get("dataset") or {}).get("fingerprint"))
        wanted: dict[str, list[Key]] = {}
        for key in keys - cases.keys():
            if key[0] == dataset:
                wanted.setdefault(key[1], []).append(key)
        for case in result.cases:
            cases |= dict.fromkeys(wanted.get(case.id, ()), case)
    return cases


def _reasons(result: RunResult, rows: Iterable[Row]) -> dict[tuple[str, Unit], str]:
    """Return the judge's words on the listed responses, from the first judgment that has any."""
    wanted = {row.key[1:] for row in rows}
    reasons: dict[tuple[str, Unit], str] = {}
    for judgment in result.judgments:
        key = (judgment.case_id, judgment.unit)
        if key not in wanted or key in reasons:
            continue
        text = rationale(judgment.answer)
        if text:
            reasons[key] = shorten(text, LONGEST)
    return reasons


def _row_values(
    row: Row,
    case: Case,
    names: Sequence[str],
    results: Sequence[RunResult],
    reasons: Sequence[Mapping[tuple[str, Unit], str]],
) -> JsonObject:
    """Return a row of the page: the case, its responses and the answer of each run.

    Args:
        row: the verdicts on one unit of a case, by the position of their run.
        case: the case.
        names: the names of the runs.
        results: the runs.
        reasons: the judge's reasons in each run, by case and unit.
    """
    _, case_id, unit = row.key
    verdicts = []
    for position, verdict in row.verdicts.items():
        state = state_of(verdict, Scale.of(results[position].config.rubric))
        values = {
            "run": names[position],
            "answer": answer_of(verdict),
            "state": WORDS[state],
            "tone": state,
            "orders": _orders(verdict),
            "reason": reasons[position].get((case_id, unit), ""),
        }
        verdicts.append(values)
    return {
        "id": case_id,
        "flags": " ".join(row.flags),
        "prompt": shorten(case.prompt, LONGEST),
        "responses": [
            (letter(index), shorten(case.responses[index].text, LONGEST))
            for index in unit
        ],
        # Which responses, where a case has several pairs.
        "unit": letters(unit) if len(case.responses) > len(unit) else "",
        "label": label_of(next(iter(row.verdicts.values()))),
        "outcome": " · ".join(answer_of(verdict) for verdict in row.verdicts.values()),
        "verdicts": verdicts,
    }


def _orders(verdict: Verdict) -> str:
    """Return the winner in each order, if they differ."""
    if verdict.orders is None or verdict.orders.consistent is not False:
        return ""
    winners = (verdict.orders.first, verdict.orders.second)
    return ", ".join(str(winner_letter(winner, verdict.unit)) for winner in winners)
