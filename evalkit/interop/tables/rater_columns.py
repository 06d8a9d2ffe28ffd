"""Which columns may be those of raters, by their names and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from evalkit.core.patterns import lazy_pattern
from evalkit.interop.tables.column_types import (
    LONGEST_WORD,
    MOST_CLASSES,
    MOSTLY,
    TypedColumn,
)
from evalkit.interop.tables.fixed_roles import (
    PATH,
    Choices,
    says_agreement,
    shares_words,
    strength,
)
from evalkit.interop.tables.words import (
    begins,
    fold,
    is_model,
    is_word_for_people,
    matches,
    tokens,
    word_group,
)

_SIDE_WORDS: Final = word_group("side")
_ABOUT_RATERS: Final = word_group("about_raters")
"""Words in the names of columns about raters rather than of their verdicts."""
_UNIT: Final = lazy_pattern(
    r"[(\[]\s*(?:m?s|secs?|seconds?|min|minutes?|tok|tokens?|[$€£¥]|usd|eur|[km]b)\s*[)\]]\s*$",
    re.IGNORECASE,
)
"""A unit in brackets at the end of a name, in which something is measured."""
_EXPLANATION: Final = lazy_pattern(
    r"[(\[](?:[^()\[\]]*?\w[^\w()\[\]]+){2,}\w[^()\[\]]*[)\]]"
)
"""A remark of three words or more in brackets."""
_ABOUT_VERDICTS: Final = word_group("about_verdicts")
"""Last words of names of columns that are about verdicts or texts, unless their values
are those of a rater.
"""
_NO_VERDICTS: Final = word_group("no_verdict")
"""Last words of names that say that someone judged, or in which order, and not the verdict."""
_LABELED_ROWS: Final = word_group("labeled_rows")
_LOOKED_AT: Final = word_group("looked_at")
_LABELED: Final = (("label",), ("labels",), ("annotation",), ("prediction",))
_OF_LABELS: Final = word_group("about_labels")
"""Last words of names of columns about a label."""
_TRUE_CLASSES: Final = word_group("true_class")
_VOTES: Final = word_group("vote")
_PREFERS: Final = word_group("prefers")
_HOW_MANY: Final = "n"
_MEANS: Final = ("mean", "avg", "average", "median", "score", "rating")
_COUNTED: Final = word_group("counted")
_CHOICES: Final = word_group("choice")
_INDEXES: Final = word_group("index")
_LEVELS: Final = word_group("level")
_USERS: Final = word_group("user")
_PARTS_OF_UNITS: Final = word_group("part_of_unit")
_NUMBERED: Final = lazy_pattern(r"([a-z]+)[ _.#-]?\d+", re.IGNORECASE)
"""A person by number, such as `user_7`."""
_FEWEST_PEOPLE: Final = 3
_NUMBER_OF: Final = word_group("number_of")
_MOST_CLASSES: Final = 200
_IDENTITIES: Final = word_group("identity")
_SHOWN_TEXTS: Final = word_group("shown_texts")


def is_rater_name(name: str) -> bool:
    """Return whether a name may be that of a rater: it is not of a measure, a feature
    or a process.
    """
    _, clear = strength(name)
    if matches(name, "system") and _SIDE_WORDS.intersection(tokens(name)):
        return False
    if says_agreement(name):
        return False
    if _UNIT.search(name):
        return False
    # `n_annotators` is a number of raters.
    if len(tokens(name)) > 1 and tokens(name)[0] in _NUMBER_OF:
        return False
    # `metric` names what is judged, and `metric_score` is a verdict.
    is_value = len(tokens(name)) > 1 and matches(tokens(name)[-1], "value")
    of_criterion = matches(name, "criterion") and not begins(name, "criteria")
    if of_criterion and clear < 2 and not is_value:
        return False
    # `judge_model` names a model, and `grader_model_score` is a verdict.
    about_rater = not _ABOUT_RATERS.isdisjoint(tokens(name)) and not is_value
    # `judge_prefers_model` and `judge_better_response_id` are about a response.
    chooses = not (_PREFERS | _VOTES).isdisjoint(tokens(name))
    if matches(name, "rater") and about_rater and not chooses:
        return False
    # The position in a list is no word of a name: `annotator_ids.1`.
    words = [part for part in tokens(name) if not part.isdigit()]
    is_person = matches(name, "human") and not chooses
    if is_person and words and words[-1] in _IDENTITIES:
        return False
    if any(matches(name, group) for group in ("doubt", "demographic")):
        return False
    is_allowed = (
        _is_chosen_index(name) or _is_numbered_run(name) or _is_named_level(name)
    )
    if is_measured(name) and not is_allowed:
        return False
    if not _NO_VERDICTS.isdisjoint(tokens(name)[-1:]):
        return False
    if not _SHOWN_TEXTS.isdisjoint(words[-1:]):
        return False
    if _says_who_judged(name):
        return False
    # `label_quality` is about a label, as `is_label_issue` is.
    if tokens(name)[-2:-1] in _LABELED and not _OF_LABELS.isdisjoint(tokens(name)[-1:]):
        return False
    if matches(name, "process") and clear < 2:
        return False
    parts = tokens(name)
    is_feature = bool(parts) and matches(parts[0], "feature") and len(parts) > 1
    return not is_feature or begins(name, "criteria") or clear >= 1


def _says_who_judged(name: str) -> bool:
    """Return whether a name says that there is a label, as `is_gold` and `has_human_label`, or
    that someone looked, as `reviewed_by_human`.
    """
    first, *rest = tokens(name) or ("",)
    about_label = bool(rest) and all(
        part in _LABELED_ROWS or matches(part, "human") for part in rest
    )
    if matches(first, "feature") and about_label:
        return not _LABELED_ROWS.isdisjoint(rest)
    return any(
        part in _LOOKED_AT and following == "by"
        for part, following in pairwise((first, *rest))
    )


def is_measured(name: str) -> bool:
    """Return whether a name is that of a measure, whatever a remark in brackets explains."""
    return matches(without_explanation(name), "measured")


def without_explanation(name: str) -> str:
    """Return a name without what explains its scale, as `How helpful is it? (1 = not at all)`."""
    question = _EXPLANATION.sub("", name).strip()
    return question if tokens(question) else name


def _is_chosen_index(name: str) -> bool:
    """Return whether a name is of the number of the chosen response, as `human_choice_index`."""
    parts = {*tokens(name)}
    measured = {part for part in parts if matches(part, "measured")}
    chosen = not _CHOICES.isdisjoint(parts) and strength(name)[1] > 2
    return chosen and measured <= _INDEXES


def _is_named_level(name: str) -> bool:
    """Return whether a name is of the levels that a rater gives, as `Nurse triage level`."""
    measured = {part for part in tokens(name) if matches(part, "measured")}
    return measured <= _LEVELS and strength(name)[1] > 2


def _is_numbered_run(name: str) -> bool:
    """Return whether a name is of a judge's verdicts of one run or turn, as `gpt4_seed0`
    and `judge_score_turn_1`.
    """
    parts = tokens(name)
    measured = [part for part in parts if matches(part, "measured")]
    is_run = all(part == "turn" or matches(part, "repeat") for part in measured)
    return is_run and strength(name)[1] > 2 and parts[-1].isdigit()


def candidates(
    typed: Mapping[str, TypedColumn], taken: Iterable[str], choices: Choices
) -> list[str]:
    """Return the columns that may be raters, by type and name."""
    chosen = {*choices.judges, *choices.labels}
    used = set(taken)
    return [
        name
        for name, column in typed.items()
        if name in chosen or (name not in used and _may_rate(name, column, typed))
    ]


def is_names_of_raters(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a column named after raters has their ids, next to another column
    with verdicts.
    """
    last_part = PATH.split(name)[-1]
    column = typed[name]
    if len(tokens(last_part)) == 1 and _has_numbered_people(last_part, column):
        return True
    if column.is_numeric and _counts_people(name):
        return True
    if len(tokens(last_part)) > 1:
        return False
    if not matches(last_part, "rater"):
        return False
    if is_model(name):
        return False
    if shares_words(name, typed):
        return False
    if column.share(column.flags) > MOSTLY:
        return False
    if column.stated:
        return False
    if column.is_numeric and not all(
        value.is_integer() for value in column.distinct_numbers
    ):
        return False
    words = column.kind in ("class", "id") or column.is_numeric
    judging = [
        column
        for column in typed
        if column != name
        and is_rater_name(column)
        and (typed[column].judges or _has_twin_of_words(column, typed))
    ]
    folded = {fold(word) for word in column.words}
    if any(folded & {fold(word) for word in typed[column].words} for column in judging):
        return False
    unnamed = [column for column in judging if strength(column)[1] < 2]
    return words and bool(unnamed if column.is_numeric else judging)


def _counts_twins(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a name such as `rating_n` is next to the mean of what is counted."""
    *about, last = tokens(name) or ("",)
    if last != _HOW_MANY or not about:
        return False
    return any(
        tokens(twin)[:-1] == (*about,) and tokens(twin)[-1] in _MEANS for twin in typed
    )


def _counts_people(name: str) -> bool:
    """Return whether a name is the plural of a word for raters, as `annotators`."""
    parts = tokens(name)
    if len(parts) != 1:
        return False
    if not parts[0].endswith("s"):
        return False
    return is_word_for_people(parts[0].removesuffix("s"))


def _has_numbered_people(name: str, column: TypedColumn) -> bool:
    """Return whether a column named after people has a few of them by number, as `user_7`."""
    numbered = [_NUMBERED.fullmatch(word.strip()) for word in column.words]
    people = {match[1].casefold() if match else "" for match in numbered}
    if len(people) != 1:
        return False
    if len(numbered) < _FEWEST_PEOPLE:
        return False
    [who] = people
    initial = tokens(name)[0][:1]
    is_person = matches(name, "human") or matches(name, "rater")
    return is_person and (who in {initial, *tokens(name)} or who in _USERS)


def _has_twin_of_words(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a named rater gives classes that another column has, too, as
    verdicts of two raters are.
    """
    column = typed[name]
    named = strength(name)[1] > 2
    return (
        named
        and column.kind == "class"
        and not column.is_numeric
        and shares_words(name, typed)
    )


def may_be_names(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a column named after a judge has a few words, which may be
    verdicts or names.
    """
    few = 2 <= len(typed[name].words) <= MOST_CLASSES
    return few and strength(name)[0] == "judge" and is_names_of_raters(name, typed)


def _may_rate(name: str, column: TypedColumn, typed: Mapping[str, TypedColumn]) -> bool:
    computed = matches(name, "computed") and not _is_rated(name, typed)
    if _is_answer(name, column, typed):
        return False
    if _is_constant_prompt(name, column):
        return False
    # Numbers of votes are counts, and not the verdict.
    if column.is_numeric and not _COUNTED.isdisjoint(tokens(name)):
        return False
    if column.is_numeric and _counts_twins(name, typed):
        return False
    if computed:
        return False
    if _is_about_verdicts(name, column, typed):
        return False
    # `tone.value` with `tone` in all rows repeats what is judged.
    words = {fold(word) for word in column.words}
    if len(words) == 1 and words <= {*tokens(name)} and not column.is_numeric:
        return False
    named = is_rater_name(name) or has_human_twin(name, typed)
    levels = _has_levels(name, column, typed) or _has_classes(name, column, typed)
    if not named and not levels:
        return False
    if column.kind == "id":
        # all different integers are ids, unless a rater is named and they do not count rows
        is_named = strength(name)[1] > 1 and not matches(name, "id")
        counts = len(tokens(name)) == 1 and _counts_rows(column)
        return column.is_numeric and is_named and not counts
    if _names_parts(name, column) and not shares_words(name, typed):
        return False
    many = column.kind == "text" and _has_many_classes(name, column, typed)
    if not (many or column.may_be_verdict):
        return False
    if is_names_of_raters(name, typed):
        return False
    last_part = PATH.split(name)[-1]
    # `feedback_rating` is a rating, and no comment.
    is_rating = len(tokens(last_part)) > 1 and matches(tokens(last_part)[-1], "value")
    if is_rating and column.share(column.flags) == 1:
        return True
    if matches(last_part, "text") and not column.is_numeric:
        return strength(name)[1] > 2 and not _has_verdicts(name, typed)
    # Numbers in a column named `Note` are grades in German and French.
    is_grade = column.is_numeric and matches(last_part, "value")
    is_comment = matches(last_part, "text") and not is_grade
    return not (is_comment and _has_verdicts(name, typed))


def _counts_rows(column: TypedColumn) -> bool:
    """Return whether each number is one more than the one above it."""
    numbers = [column.numbers.get(text or "", 0.0) for text in column.texts]
    return all(below - above == 1 for above, below in pairwise(numbers))


def _names_parts(name: str, column: TypedColumn) -> bool:
    """Return whether a column such as `doc` has parts of units by number, as `d7`."""
    last_word = tokens(name)[-1:]
    if _PARTS_OF_UNITS.isdisjoint(last_word):
        return False
    if column.is_numeric:
        return False
    return all(_NUMBERED.fullmatch(word.strip()) for word in column.words)


def _is_answer(
    name: str, column: TypedColumn, typed: Mapping[str, TypedColumn]
) -> bool:
    """Return whether a column such as `model_answer` has answers, next to others with
    words that judge.
    """
    parts = tokens(PATH.split(name)[-1])
    if len(parts) < 2:
        return False
    if not matches(parts[-1], "response"):
        return False
    if column.is_numeric:
        return False
    words = {fold(word) for word in column.words}
    # The columns of judges and people whose words judge, or are flags.
    judging = [
        twin
        for twin, values in typed.items()
        if twin != name
        and (values.judges or values.share(values.flags) == 1)
        and strength(twin)[1] > 1
    ]
    roles = {strength(twin)[0] for twin in judging}
    # `true_answer` is the key of `gpt_answer`, and the judge says whether they are equal.
    key_twins = [twin for twin in typed if _names_truth(twin) and twin != name]
    has_key = _names_truth(name) or any(
        tokens(twin)[1:] == (parts[-1],) for twin in key_twins
    )
    is_compared = roles == {"judge", "label"} or (bool(roles) and has_key)
    return is_compared and all(
        words.isdisjoint(fold(word) for word in typed[twin].words) for twin in judging
    )


def _is_constant_prompt(name: str, column: TypedColumn) -> bool:
    """Return whether a column such as `annotations.prompt_text` has one prompt in all rows."""
    last_part = PATH.split(name)[-1]
    if len(column.words) != 1 or column.is_numeric:
        return False
    return matches(last_part, "prompt") and strength(last_part)[1] == 0


def _is_about_verdicts(
    name: str, column: TypedColumn, typed: Mapping[str, TypedColumn]
) -> bool:
    """Return whether a column of words is about verdicts, as `gold_source`, or names
    the model that judged.
    """
    if column.is_numeric:
        return False
    if column.share(column.flags) >= MOSTLY:
        return False
    if any("@" in word for word in column.words) and all(
        "@" in word or is_model(word) for word in column.words
    ):
        return True
    if all(map(is_model, column.words)):
        last_words = tokens(name)[-1:]
        return len(column.words) == 1 or last_words in (("model",), ("models",))
    last = tokens(name)[-1:]
    return not _ABOUT_VERDICTS.isdisjoint(last) and not shares_words(name, typed)


def _has_many_classes(
    name: str, column: TypedColumn, typed: Mapping[str, TypedColumn]
) -> bool:
    """Return whether a named rater has many short words that recur, and nearly all are
    also those of another column.
    """
    if strength(name)[1] < 3:
        return False
    if not 1 < len(column.words) <= _MOST_CLASSES:
        return False
    words = {fold(word) for word in column.words}
    if 2 * len(words) > column.total:
        return False
    if max(map(len, words)) > LONGEST_WORD:
        return False
    return any(
        len(words & {fold(word) for word in other.words}) >= MOSTLY * len(words)
        for twin, other in typed.items()
        if twin != name and 2 * len(other.words) <= other.total
    )


def has_human_twin(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a column of people has the same name and values, as
    `human_success` next to `success`.
    """
    if says_agreement(name):
        return False
    if any(matches(name, group) for group in ("measured", "doubt")):
        return False
    return any(
        matches(twin, "human")
        and tuple(part for part in tokens(twin) if not matches(part, "human"))
        == tokens(name)
        and shares_words(name, {name: typed[name], twin: typed[twin]})
        for twin in typed
        if twin != name
    )


def has_twin(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a column of people or of a judge has the same name and values of the
    same kind, as `llm_mos` next to `mos`.
    """
    if has_human_twin(name, typed):
        return True
    if any(
        matches(name, group) for group in ("measured", "doubt", "computed", "process")
    ):
        return False
    if says_agreement(name) or not typed[name].may_be_verdict:
        return False
    return any(
        strength(twin) in (("judge", 3), ("judge", 4))
        and _is_of_judge(twin, tokens(name))
        and _are_of_one_kind(typed[name], typed[twin])
        for twin in typed
    )


def _is_of_judge(twin: str, words: Sequence[str]) -> bool:
    """Return whether a name is that of a judge before or after words, as `mos_gpt-4o`."""
    parts = tokens(twin)
    size = len(words)
    if parts[:size] == (*words,):
        rest = parts[size:]
    elif parts[-size:] == (*words,):
        rest = parts[:-size]
    else:
        return False
    named = all(matches(part, "judge") for part in rest)
    return bool(rest) and (named or is_model("-".join(rest)))


def is_of_one_judge(name: str, judges: Sequence[str]) -> bool:
    """Return whether the name of the only judge's column is a name and the judge."""
    # Several judges' columns may be criteria, whose columns without a name are asked about.
    if len(judges) != 1:
        return False
    return _is_of_judge(judges[0], tokens(name))


def _are_of_one_kind(column: TypedColumn, twin: TypedColumn) -> bool:
    """Return whether both columns have scores, or words of which most are shared."""
    if column.is_numeric or twin.is_numeric:
        return _is_score(column) and _is_score(twin)
    return shares_words(column.name, {column.name: column, twin.name: twin})


def _is_score(column: TypedColumn) -> bool:
    return column.is_numeric and not column.is_binary


def _is_rated(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether people give what a name says, as `human_sentiment` next to
    `judge_sentiment`.
    """
    about = {_what(name), _what(_last_part(name))}
    for twin, column in typed.items():
        # `outputs.gpt_similarity` next to `inputs.human_similarity` is of another path.
        about_twin = {_what(twin), _what(_last_part(twin))}
        if matches(twin, "human") and column.may_be_verdict and about & about_twin:
            return True
    # `true_sentiment` next to `gpt_sentiment`, of which either is the name.
    twins = [twin for twin, column in typed.items() if column.may_be_verdict]
    if _names_truth(name):
        return any(judges_what(twin, tokens(name)[1:]) for twin in twins)
    return any(
        judges_what(name, tokens(twin)[1:]) for twin in filter(_names_truth, twins)
    )


def _last_part(name: str) -> str:
    return PATH.split(name)[-1]


def _names_truth(name: str) -> bool:
    first, *what = tokens(name) or ("",)
    return first in _TRUE_CLASSES and bool(what)


def judges_what(name: str, what: Sequence[str]) -> bool:
    """Return whether a column is of a judge, and of what is named, as `gpt_sentiment` is of
    `sentiment`.
    """
    role, clear = strength(name)
    # The name of a model may have any words: `claude-3-5-sonnet_sentiment`.
    is_of_judge = role == "judge" and clear > 2
    return is_of_judge and tokens(name)[-len(what) :] == (*what,)


def _what(name: str) -> tuple[str, ...]:
    """Return the words of a name without those that say who judged."""
    return tuple(
        part
        for part in tokens(name)
        if not (matches(part, "human") or matches(part, "judge") or is_model(part))
    )


def _has_levels(
    name: str, column: TypedColumn, typed: Mapping[str, TypedColumn]
) -> bool:
    """Return whether a column that is named as a measure has the words of another
    rater, as `gpt_level` may.
    """
    if says_agreement(name):
        return False
    if column.is_numeric:
        return False
    if strength(name)[1] < 2:
        return False
    return matches(name, "measured") and shares_words(name, typed)


def _has_classes(
    name: str, column: TypedColumn, typed: Mapping[str, TypedColumn]
) -> bool:
    """Return whether a column such as `matched_intent` has classes of another column,
    and no flags of agreement.
    """
    if not says_agreement(name):
        return False
    if column.is_numeric:
        return False
    if column.flags:
        return False
    return len(column.words) > 1 and shares_words(name, typed)


def _has_verdicts(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether the rater of a column of comments has another column, with verdicts."""
    rater = strength(name)
    return any(
        strength(name_of_column) == rater and column.may_be_verdict
        for name_of_column, column in typed.items()
        if name_of_column != name and not matches(name_of_column, "text")
    )
