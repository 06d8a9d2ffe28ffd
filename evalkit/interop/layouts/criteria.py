"""Compare criteria and words of raters: when two mean the same, and when only the user can know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from shlex import quote
from typing import Any, Final, Literal

from evalkit.core.display import relative
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.values import frozen
from evalkit.interop.layouts.judgment_files import number
from evalkit.interop.layouts.layouts import Unit
from evalkit.interop.layouts.polarity import BAD_WORDS, GOOD_WORDS
from evalkit.interop.layouts.rater_names import is_code, is_persons, words_of
from evalkit.interop.layouts.records import NOTHING, require_heard

Source = Literal["judge", "person", "code"]
JUDGE: Final = "judge"
PERSON: Final = "person"
CODE: Final = "code"
Key = tuple[str, str]
"""A rater and a criterion."""
# Longer texts are reasons and not words.
_LONGEST_WORD: Final = 80
_SHOWN: Final = 6
_NOUN_ENDS: Final = ("ness", "ity")
_SHORTEST_ROOT: Final = 4
_MANY: Final = 20
"""The fewest answers about which one value is no chance."""
# The most words of which a question lists all orders.
_MOST_ORDERED: Final = 3
# Letters and digits, or a run of other scripts.
# Between a small letter and a capital one: `answerQuality` has two words.
RATERS: Final = frozenset(
    {
        *(
            "human",
            "user",
            "annotator",
            "annotation",
            "expert",
            "gold",
            "label",
            "manual",
        ),
        *("llm", "judge", "auto", "ai", "eval", "evaluator", "evaluation", "feedback"),
        *("reaction", "thumb", "thumbs", "vote", "annotators"),
        *("score", "rating", "verdict", "the", "of", "by", "人工", "人类", "标注"),
        *("geval", "grade", "grader", "review", "reviewer", "opinion"),
    }
)
"""Words of a criterion's name that say who rates, and not what."""
GOOD: Final = frozenset(
    {*GOOD_WORDS, "thumbs up", "thumbsup", "up", "accept", "accepted"}
)
BAD: Final = frozenset(
    {
        *BAD_WORDS,
        "wrong",
        "down",
        "thumbs down",
        "thumbsdown",
        "reject",
        "rejected",
        "未通过",
    }
)


@frozen
class Assessment:
    """What a rater said about one criterion of an answer.

    Attributes:
        name: The criterion.
        rater: Who said it: a model, an annotator, or the name of code.
        source: What the rater is.
        score: The number, if it is one.
        word: The word, if it is one.
        reason: The rater's text.
        failure: Why the rater gave no answer.
    """

    name: str
    rater: str
    source: Source
    score: float | None = None
    word: str | None = None
    reason: Any = None
    failure: str = ""

    @property
    def key(self) -> Key:
        """Identify the rater and the criterion."""
        return self.rater, self.name


def rater_of(name: str, source: Source) -> str:
    """Return who gave a score whose file names no rater: a person, or the scorer by its name."""
    if source == PERSON:
        return "annotator"
    return name


def source_by_name(name: str) -> Source:
    """Return who gave a score of this name, where nothing else says it: a person, code, or
    else a judge.
    """
    if is_persons(name):
        return PERSON
    if is_code(name):
        return CODE
    return JUDGE


def assessment(
    name: Any,
    rater: Any,
    source: Source,
    value: Any,
    *,
    word: Any = None,
    reason: Any = None,
    failure: Any = "",
) -> Assessment:
    """Return an assessment of a value of any type.

    One that states nothing has no score and no word.

    Args:
        name: The criterion.
        rater: Who gave it.
        source: What the rater is.
        value: A number, a boolean or a word; a list counts if it has one item.
        word: The word of a rater that gives a number too.
        reason: The rater's text.
        failure: Why there is no value.
    """
    score, entry = _value(value)
    _, named = _value(word)
    return Assessment(
        name=str(name),
        rater=str(rater),
        source=source,
        score=score,
        # The rater's word wins over the word of its value.
        word=named or entry,
        reason=reason if isinstance(reason, str) else None,
        failure=failure if isinstance(failure, str) else str(failure or ""),
    )


def _value(value: Any) -> tuple[float | None, str | None]:
    """Return the number and the word of a value."""
    if isinstance(value, list) and len(value) == 1:
        return _value(value[0])
    if isinstance(value, bool):
        # Words and not numbers: a class `true` is no score of 1.
        return None, str(value).lower()
    if isinstance(value, int | float):
        return number(value), None
    if not isinstance(value, str) or len(value) > _LONGEST_WORD:
        return None, None
    word = " ".join(value.split())
    if word.casefold() in NOTHING:
        return None, None
    score = number(word)
    return score, None if score is not None else word


class OpenCriterionError(ConfigError):
    """A file of which several criteria could be checked; nothing is concluded.

    `answers` are what each answer means, with the options that say so.
    """

    def __init__(
        self,
        problem: str,
        path: Path,
        answers: Sequence[tuple[str, tuple[str, ...]]],
        *,
        command: str = "evalkit check",
    ) -> None:
        quoted_path = quote(str(relative(path)))
        commands = [
            f"{command} {quoted_path} {' '.join(map(quote, options))}"
            for _, options in answers
        ]
        remedy = f"choose one: {'; '.join(commands) or '--label NAME --judge NAME'}"
        super().__init__(problem, where=str(path), remedy=remedy)
        self.path = path
        self.answers = tuple(answers)

    def for_import(self, name: str) -> OpenCriterionError:
        """Return the question with commands that import the format of this name."""
        command = f"evalkit import {name}"
        return OpenCriterionError(self.what, self.path, self.answers, command=command)


def same_criterion(first: str, second: str) -> bool:
    """Return whether two names differ only in words that say who rates, or in their
    forms, as `correct` and `correctness`.
    """
    if first == second:
        return True
    return _roots(_stem(first)) == _roots(_stem(second))


def _roots(words: Iterable[str]) -> tuple[str, ...]:
    """Return words without the ends of nouns of criteria."""
    roots = []
    for word in words:
        beginning = word
        for end in _NOUN_ENDS:
            if word.endswith(end) and len(word) >= len(end) + _SHORTEST_ROOT:
                beginning = word.removesuffix(end)
                break
        roots.append(beginning)
    return tuple(roots)


def words_alike(
    every: Iterable[Assessment], judges: Iterable[Key], labels: Iterable[Key]
) -> str | None:
    """Return the criterion of the only judges with exactly the words of the labels; `None`
    if there is not one.
    """
    judged = {key: key[1] for key in judges}
    labeled = {*labels}
    words: dict[str, set[str]] = {name: set() for name in judged.values()}
    words_of_labels = set()
    for entry in every:
        if entry.word is None:
            continue
        if entry.key in labeled:
            words_of_labels.add(entry.word.casefold())
        elif entry.key in judged:
            words[judged[entry.key]].add(entry.word.casefold())
    alike = [name for name, said in words.items() if said == words_of_labels]
    return alike[0] if len(alike) == 1 and len(words_of_labels) > 1 else None


def varied(every: Iterable[Assessment], judges: Sequence[Key]) -> list[Key]:
    """Return the judges without those that say one thing about all of many answers."""
    values: dict[Key, list[str | None]] = {key: [] for key in judges}
    for entry in every:
        if entry.key in values:
            values[entry.key].append(spelled(entry))
    kept = []
    for key, said in values.items():
        if len(said) < _MANY or len({*said}) > 1:
            kept.append(key)
    return kept or [*judges]


def is_general(name: str) -> bool:
    """Return whether a name is of no criterion, such as `feedback` or `reaction`."""
    return not _stem(name)


def _stem(name: str) -> tuple[str, ...]:
    # `human_tone` and `gpt score: tone` have one stem.
    return tuple(word for word in words_of(name) if word not in RATERS)


def unit_of(
    path: Path, used: Sequence[Assessment], judges: Iterable[Key], labels: Iterable[Key]
) -> Unit:
    """Return what raters gave: classes if each has words, and otherwise scores.

    Raises:
        DatasetError: If some give numbers and others words.
    """
    people = [*labels]
    # {key: what it gives}, for judges and annotators.
    kinds = {key: _kinds(key, used) for key in (*judges, *people)}
    # A rater without any value decides nothing.
    filled = [kind for kind in kinds.values() if kind]
    if filled and all("word" in kind for kind in filled):
        return "class"
    # 0 and 1 next to words are classes; without labels they may be scores.
    if people and filled and all("word" in kind or "flag" in kind for kind in filled):
        return "class"
    if all("score" in kind for kind in filled):
        return "response"
    if all("word" in kind or "flag" in kind for kind in filled):
        return "class"
    if _is_graded(kinds, used, people):
        return "response"
    mixed = "; ".join(
        f"{rater} ({name}): {'words' if 'word' in kind else 'numbers'}"
        for (rater, name), kind in list(kinds.items())[:6]
        if kind
    )
    raise DatasetError(
        f"has raters that give numbers and raters that give words: {mixed}",
        where=str(path),
        remedy="select raters of one kind with --judge NAME and --label NAME",
    )


def _is_graded(
    kinds: Mapping[Key, set[str]], used: Sequence[Assessment], people: Sequence[Key]
) -> bool:
    """Return whether judges give scores, and people words that all say good or bad."""
    judges_score = all(
        "score" in kind for key, kind in kinds.items() if key not in people
    )
    words = {
        entry.word for entry in used if entry.key in people and entry.word is not None
    }
    return judges_score and bool(words) and is_polar(words)


def grade_of(entry: Assessment) -> float | None:
    """Return a score, or 1 and 0 for a word that says good or bad."""
    if entry.score is not None or entry.word is None:
        return entry.score
    folded = entry.word.casefold()
    if folded in GOOD:
        return 1.0
    if folded in BAD:
        return 0.0
    return None


def differing_scales(
    used: Sequence[Assessment], judges: Iterable[Key], labels: Iterable[Key]
) -> str | None:
    """Return a note if judges and annotators do not use the same usual scale; `None` if they do."""
    ends = {}
    # The lowest and the highest grade of judges, then of labels.
    for name, keys in (("judges", {*judges}), ("labels", {*labels})):
        grades = [grade_of(entry) for entry in used if entry.key in keys]
        numbers = [grade for grade in grades if grade is not None]
        if not numbers:
            return None
        ends[name] = (min(numbers), max(numbers))
    # One usual scale for both, even if neither uses all of it.
    if len({_usual_scale(*pair) for pair in ends.values()}) == 1:
        return None
    listed = ", ".join(
        f"{name} {low:g} to {high:g}" for name, (low, high) in ends.items()
    )
    return (
        f"scores and labels may be on different scales ({listed}): only their order is compared;"
        " if they share one, set rubric.real=false rubric.min and rubric.max"
    )


def one_scale(used: Sequence[Assessment], judges: Iterable[Key]) -> bool:
    """Return whether the scores of all criteria fit one usual scale."""
    by_key = {
        key: [
            entry.score
            for entry in used
            if entry.key == key and entry.score is not None
        ]
        for key in judges
    }
    scales = {
        _usual_scale(min(selected), max(selected))
        for selected in by_key.values()
        if selected
    }
    return len(scales) < 2


def _usual_scale(low: float, high: float) -> tuple[float, float]:
    # Scales in order: the first that holds all values.
    usual = ((0, 1), (1, 5), (1, 10), (0, 10), (0, 100))
    return next(
        (scale for scale in usual if scale[0] <= low and high <= scale[1]), (low, high)
    )


def _kinds(key: Key, used: Sequence[Assessment]) -> set[str]:
    """Return what a rater gives throughout: `word`, `score`, and `flag` for 0 and 1 only."""
    selected = [entry for entry in used if entry.key == key]
    entries = [
        entry for entry in selected if entry.word is not None or entry.score is not None
    ]
    if not entries:
        return set()
    kinds = set()
    if all(entry.word is not None for entry in entries):
        kinds.add("word")
    if all(entry.score is not None for entry in entries):
        kinds.add("score")
        if {entry.score for entry in entries} <= {0.0, 1.0}:
            kinds.add("flag")
    # A rater of words and numbers mixed gives words.
    return kinds or {"word"}


def class_words(
    used: Sequence[Assessment], judges: Iterable[Key], labels: Iterable[Key]
) -> Mapping[Key, Mapping[str, str]]:
    """Return for each rater the spelling of its words: that of the annotators if all are yes or no.

    Words that differ in case are spelled as in their first occurrence.
    """
    # {key: its words in order of first occurrence}.
    by_rater: dict[Key, dict[str, None]] = {}
    for entry in used:
        word = spelled(entry)
        if word is not None:
            by_rater.setdefault(entry.key, {})[word] = None
    # Labels first: the spelling of annotators is the class.
    ordered = [key for key in (*labels, *judges) if key in by_rater]
    present: dict[str, str] = {}
    for key in ordered:
        for word in by_rater[key]:
            present.setdefault(word.casefold(), word)
    polar = {*present} <= GOOD | BAD
    # Several words for good or for bad, such as pass and yes, are one class each.
    if polar and max(len(present.keys() & GOOD), len(present.keys() & BAD)) > 1:
        good = next((present[word] for word in present if word in GOOD), "pass")
        bad = next((present[word] for word in present if word in BAD), "fail")
        present = {word: good if word in GOOD else bad for word in present}
    return {
        key: {word: present[word.casefold()] for word in by_rater[key]}
        for key in ordered
    }


def with_meanings(
    path: Path, entries: Sequence[Assessment], meanings: Mapping[str, str]
) -> list[Assessment]:
    """Return assessments whose words have the user's meanings: a class, a number, or nothing.

    Raises:
        ConfigError: If no rater says one of the words.
    """
    folded = {word.casefold(): word for word in meanings}
    words = {word for entry in entries if (word := spelled(entry)) is not None}
    # In the user's spelling, which may differ in case.
    require_heard(path, meanings, {folded.get(word.casefold(), word) for word in words})
    by_case = {word.casefold(): meaning for word, meaning in meanings.items()}
    return [_with_meaning(entry, by_case) for entry in entries]


def _with_meaning(entry: Assessment, meanings: Mapping[str, str]) -> Assessment:
    word = spelled(entry)
    if word is None or word.casefold() not in meanings:
        return entry
    score, meaning = _value(meanings[word.casefold()])
    return replace(entry, score=score, word=meaning)


def spelled(entry: Assessment) -> str | None:
    """Return the word of an assessment, or its number as one; `None` without either."""
    if entry.word is not None or entry.score is None:
        return entry.word
    return f"{entry.score:g}"


def require_shared_words(
    path: Path,
    words: Mapping[Key, Mapping[str, str]],
    judges: Iterable[Key],
    labels: Iterable[Key],
) -> None:
    """Raise a question if judges and annotators use no class in common, which would be
    read as disagreement.

    Raises:
        OpenCriterionError: If there are both, and no class is of both.
    """
    judged, labeled = (
        sorted({word for key in keys for word in words.get(key, {}).values()})
        for keys in (judges, labels)
    )
    if not judged or not labeled or {*judged} & {*labeled}:
        return
    listed = [", ".join(classes[:_SHOWN]) for classes in (judged, labeled)]
    problem = f"the judge's words are not the annotators': {listed[0]}; {listed[1]}"
    # As many words on each side: they may correspond in some order.
    if len(judged) == len(labeled) <= _MOST_ORDERED:
        answers = []
        for order in permutations(labeled):
            pairs = [
                f"{word}={meaning}" for word, meaning in zip(judged, order, strict=True)
            ]
            options = tuple(option for pair in pairs for option in ("--map", pair))
            answers.append((", ".join(pairs), options))
        raise OpenCriterionError(problem, path, answers)
    raise DatasetError(
        problem,
        where=str(path),
        remedy="say with --map WORD=CLASS what each word of the judge means",
    )


def is_polar(words: Iterable[Any]) -> bool:
    """Return whether all words say good or bad."""
    return {str(word).casefold() for word in words} <= GOOD | BAD
