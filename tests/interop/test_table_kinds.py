"""Tables of one kind in all of its spellings: what a person sees at once is read without a question."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from evalkit.core.errors import DatasetError
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.questions import OpenTableError
from evalkit.interop.tables.words import known_words
from tests.support.table_cells import columns_of_role, read_cells
from tests.support.thorough import some_of

ROWS = 48
SCORES = [1 + (5 * i // 3 + i) % 5 for i in range(ROWS)]
NEAR = [min(5, score + (i % 4 == 0)) for i, score in enumerate(SCORES)]
FLAGS = [i % 3 > 0 for i in range(ROWS)]
OTHER_FLAGS = [flag if i % 5 else not flag for i, flag in enumerate(FLAGS)]
TEXTS = [f"Here is text {i}, with some words of its own." for i in range(ROWS)]
CRITERIA = (
    *(("tone", "style"), ("fluency", "relevance", "safety"), ("Helpfulness", "Correctness")),
    *(("q1", "q2"), ("question 1", "question 2", "question 3"), ("准确性", "流畅性")),
)
JUDGES = ("gpt4", "gpt-4o", "claude-3-5-sonnet", "llm", "judge", "AI")
PEOPLE = ("human", "expert", "annotator", "gold")
FORMS = (
    "{rater}_{criterion}", "{criterion}_{rater}", "{rater} {criterion}", "{criterion} ({rater})",
)  # fmt: skip
TWINS = (
    *(("toxic", "toxicity"), ("faithful", "faithfulness"), ("helpful", "helpfulness")),
    *(("correct", "correctness"), ("relevant", "relevance"), ("safe", "safety")),
    *(("coherent", "coherence"), ("grounded", "groundedness"), ("accurate", "accuracy")),
)
WRITERS = (
    ("gpt4", "claude"), ("GPT-4", "Claude"), ("baseline", "ours"), ("old", "new"),
    ("base", "finetuned"),
)  # fmt: skip
FORMULARS = (
    ("Timestamp", "How helpful is this answer? (1 = not at all, 5 = very)"),
    ("Zeitstempel", "Wie gut ist die Antwort? (1 = sehr schlecht, 5 = sehr gut)"),
    ("Horodateur", "Cette réponse est-elle utile ? [1 = pas du tout, 5 = très]"),
    ("Marca temporal", "¿Qué tan útil es la respuesta?"),
)


def _known_scales() -> list[tuple[str, ...]]:
    """Return the first words of ranks next to each other, three at a time, once each."""
    thirds = []
    for scale in known_words()["verdicts"]["ordered"]:
        words = [synonyms[0] for synonyms in scale]
        thirds += zip(words, words[1:], words[2:], strict=False)
    # Without a plus, two of these are cells without a value.
    return sorted({*thirds} - {("--", "-", "0")})


@pytest.mark.parametrize(
    ("criteria", "judge", "person", "form"),
    some_of([*product(CRITERIA, JUDGES, PEOPLE, FORMS)], 41, rows=True),
)
def test_columns_by_rater_and_criterion(criteria, judge, person, form):
    cells = {"id": [f"c{i}" for i in range(ROWS)]}
    for shift, criterion in enumerate(criteria):
        for rater, scores in ((judge, NEAR), (person, SCORES)):
            cells[form.format(rater=rater, criterion=criterion)] = scores[shift:] + scores[:shift]
    table = read_cells(cells)
    assert len(table.parsed.records) == ROWS * len(criteria)
    assert table.settings["scoring"] == {"slices": ["criterion"], "cluster": "id"}
    assert [len(columns_of_role(table, role)) for role in ("judge", "label")] == [1, 1]


@pytest.mark.parametrize(
    ("twin", "judge", "scored"), some_of([*product(TWINS, JUDGES, (True, False))], 7, rows=True)
)
def test_a_label_named_as_the_judges_criterion(twin, judge, scored):
    label, criterion = twin
    column = f"{judge}_{criterion}"
    verdicts = NEAR if scored else OTHER_FLAGS
    table = read_cells({"text": TEXTS, label: FLAGS, column: verdicts})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == ([column], [label])
    # A column of people is labeled in the same words.
    table = read_cells({"text": TEXTS, f"human_{label}": FLAGS, criterion: verdicts})
    assert columns_of_role(table, "judge") == [criterion]


@pytest.mark.parametrize(
    ("writers", "word", "tie"),
    some_of(
        [*product(WRITERS, ("response", "answer", "output"), ("tie", "same", "draw"))], 4, rows=True
    ),
)
def test_winners_named_as_the_columns_of_responses(writers, word, tie):
    words = [*writers, tie]
    judged = [words[i % 3] for i in range(ROWS)]
    labeled = [words[(i + (i % 7 == 0)) % 3] for i in range(ROWS)]
    cells = {f"{name}_{word}": TEXTS[shift:] + TEXTS[:shift] for shift, name in enumerate(writers)}
    table = read_cells({"prompt": TEXTS, **cells, "human_winner": labeled, "judge_winner": judged})
    assert (columns_of_role(table, "response_a"), columns_of_role(table, "response_b")) == tuple(
        [name] for name in cells
    )
    assert table.unit == "pair"
    sides = table.values["judge_winner"]
    assert [sides[name] for name in words] == ["A", "B", "TIE"]


@pytest.mark.parametrize(("first", "question"), FORMULARS)
def test_the_question_of_a_form_has_labels(first, question):
    cells = {"id": [f"c{i}" for i in range(ROWS)], question: SCORES, "GPT-4 score": NEAR}
    times = [f"2026/03/01 10:{i:02d}:11 AM GMT+1" for i in range(ROWS)]
    table = read_cells({first: times, **cells})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["GPT-4 score"],
        [question],
    )
    # Without the time of a form, the question may be one that a model answered.
    with pytest.raises(OpenTableError, match="whose are they"):
        read_cells(cells)


@pytest.mark.parametrize("names", [("da", "xx"), ("first", "final"), ("alpha", "beta")])
def test_two_scores_of_unknown_names_may_be_those_of_two_raters(names):
    cells = {f"{name}_score": scores for name, scores in zip(names, (SCORES, NEAR), strict=True)}
    with pytest.raises(OpenTableError):
        read_cells({"text": TEXTS, **cells})


def test_thumbs_in_few_rows_correct_no_scores():
    thumbs = [
        ("up" if score > 2 else "down") if i % 3 == 0 else None for i, score in enumerate(SCORES)
    ]
    table = read_cells({"text": TEXTS, "llm_judge_score": NEAR, "user_feedback": thumbs})
    assert columns_of_role(table, "label") == ["user_feedback"]


@pytest.mark.parametrize("true", ["true", "actual", "correct"])
@pytest.mark.parametrize("predicted", ["pred", "predicted"])
def test_true_classes_are_the_labels_of_predicted_ones(true, predicted):
    words = ("billing", "refund", "login", "other")
    given = [words[i * 7 % 4] for i in range(ROWS)]
    said = [word if i % 6 else words[(i + 1) % 4] for i, word in enumerate(given)]
    table = read_cells({"ticket": TEXTS, f"{true}_intent": given, f"{predicted}_intent": said})
    assert columns_of_role(table, "judge") == [f"{predicted}_intent"]
    assert columns_of_role(table, "label") == [f"{true}_intent"]


@pytest.mark.parametrize("scale", _known_scales())
def test_words_of_a_known_scale_are_ordered(scale):
    """Also where each word judges by itself, as bad, ok and good do."""
    human = [scale[score % len(scale)] for score in SCORES]
    judge = [scale[score % len(scale)] for score in NEAR]
    table = read_cells({"answer": TEXTS, "human": human, "judge": judge})
    assert table.settings["rubric"]["ordered"]
    assert [*table.settings["rubric"]["classes"]] == [*scale]


@pytest.mark.parametrize("people", ["human", "expert", "annotator"])
@pytest.mark.parametrize("judge", ["gpt4", "llm", "claude"])
def test_levels_of_agreement_with_a_statement_are_verdicts(people, judge):
    words = ("Disagree", "Neutral", "Agree")
    given = [words[score % 3] for score in SCORES]
    said = [words[score % 3] for score in NEAR]
    table = read_cells({"statement": TEXTS, f"{people}_agree": given, f"{judge}_agree": said})
    assert columns_of_role(table, "judge") == [f"{judge}_agree"]
    assert columns_of_role(table, "label") == [f"{people}_agree"]
    assert table.settings["rubric"]["ordered"]


@pytest.mark.parametrize("raters", [("human", "gpt4"), ("expert", "llm")])
def test_words_in_fields_and_responses_are_no_answers_of_argilla(raters, tmp_path):
    given = dict.fromkeys(raters, "good")
    rows = [{"fields": {"prompt": text}, "responses": given} for text in TEXTS]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert recognize_format(path) is None


def test_lists_in_fields_and_responses_are_argillas(tmp_path):
    answers = {"quality": [{"value": "good", "status": "submitted"}]}
    rows = [{"fields": {"prompt": text}, "responses": answers} for text in TEXTS]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert recognize_format(path) == "argilla"


SPEAKERS = {"user_answer": TEXTS, "bot_answer": TEXTS[::-1], "last_speaker": ["user", "bot"] * 24}
SYSTEMS = {"gpt4_response": TEXTS, "claude_response": TEXTS[::-1], "model": ["gpt4", "claude"] * 24}


@pytest.mark.parametrize("others", [SPEAKERS, SYSTEMS], ids=["speakers", "systems"])
def test_who_wrote_is_not_who_won(others):
    table = read_cells({**others, "human_verdict": FLAGS, "judge_verdict": OTHER_FLAGS})
    assert table.unit == "class"
    assert columns_of_role(table, "judge") == ["judge_verdict"]


@pytest.mark.parametrize("cells", [
    {"correct_answer": list("ABCD") * 12, "predicted_answer": list("ABDC") * 12,
     "judge_correct": FLAGS},
    {"text": TEXTS, "llm_completeness": NEAR, "complete": ["true"] * 44 + ["false"] * 4},
])  # fmt: skip
def test_references_and_states_are_no_labels(cells):
    try:
        labels = columns_of_role(read_cells(cells), "label")
    except OpenTableError:
        labels = []
    assert labels == []


def test_a_list_around_each_list_is_none():
    table = read_cells({"text": TEXTS, "human": [[[str(score)]] for score in SCORES], "llm": NEAR})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["llm"],
        ["human"],
    )


def test_objects_with_too_many_keys_are_one_line():
    cells = [{f"k{i}_{j}": 1 for j in range(300)} for i in range(ROWS)]
    with pytest.raises(DatasetError, match="has more than 10,000 columns"):
        read_cells({"judge": FLAGS, "human": OTHER_FLAGS, "meta": cells})


@pytest.mark.parametrize("decimals", [1, 3])
def test_criteria_of_a_tool_are_those_of_one_judge(decimals):
    names = ("Groundedness", "Answer Relevance", "Context Relevance")
    cells = {
        name: [round((i * step % ROWS) / ROWS, decimals) for i in range(ROWS)]
        for name, step in zip(names, (7, 11, 13), strict=True)
    }
    table = read_cells({"input": TEXTS, "output": TEXTS[::-1], **cells})
    assert columns_of_role(table, "criterion's score") == [*names]
    assert not columns_of_role(table, "label")


def test_ids_of_conversations_are_no_responses():
    texts = {"user_message": TEXTS, "assistant_message": TEXTS[::-1]}
    cells = {"conversation_id": [f"{i:08x}" for i in range(ROWS)], **texts}
    table = read_cells({"id": [*range(ROWS)], **cells, "judge": FLAGS, "human": OTHER_FLAGS})
    assert columns_of_role(table, "prompt") == ["user_message"]
    assert columns_of_role(table, "response") == ["assistant_message"]


def test_classes_predicted_by_the_system_are_no_judge():
    words = [f"SELECT {i % 9} FROM t" for i in range(ROWS)]
    cells = {"question": TEXTS, "pred_sql": words, "llm_judge_equivalent": FLAGS}
    table = read_cells(cells)
    assert columns_of_role(table, "judge") == ["llm_judge_equivalent"]


MORE_FLAGS = [flag if i % 4 else not flag for i, flag in enumerate(FLAGS)]
FLAGS_ABOUT_LABELS = ("is_gold", "has_human_label", "is_labeled", "was_annotated")
REVIEWS = ("reviewed_by_human", "checked by expert", "human_verified", "expert_checked")


@pytest.mark.parametrize("flag", FLAGS_ABOUT_LABELS + REVIEWS)
def test_that_someone_labeled_is_no_label(flag):
    """No conclusion is drawn from such a flag, with or without labels next to it."""
    cells = {"text": TEXTS, "judge": FLAGS, flag: [i % 4 > 1 for i in range(ROWS)]}
    for label in ("gold_label", "label"):
        assert columns_of_role(read_cells({**cells, label: OTHER_FLAGS}), "label") == [label]
    try:
        labels = columns_of_role(read_cells(cells), "label")
    except OpenTableError:
        labels = []
    assert labels == []


def test_verified_is_a_verdict_of_judges_who_verify():
    table = read_cells({"claim": TEXTS, "judge_verified": FLAGS, "human_verified": OTHER_FLAGS})
    assert columns_of_role(table, "label") == ["human_verified"]
    table = read_cells({"answer": TEXTS, "judge_correct": FLAGS, "is_correct_gold": OTHER_FLAGS})
    assert columns_of_role(table, "label") == ["is_correct_gold"]


@pytest.mark.parametrize("versions", [
    ("label_v1", "label_v2"),
    ("old_label", "new_label"),
    ("label", "label_corrected"),
    ("human_before", "human_after"),
    ("label round 1", "label round 2"),
])  # fmt: skip
def test_versions_of_a_label_are_not_two_annotators(versions):
    cells = {"text": TEXTS, "gpt4": FLAGS}
    cells |= dict(zip(versions, (OTHER_FLAGS, MORE_FLAGS), strict=True))
    with pytest.raises(OpenTableError, match="may be versions of one label") as caught:
        read_cells(cells)
    options = [(*answer.options,) for answer in caught.value.answers]
    assert options[:2] == [("--judge", "gpt4", "--label", name) for name in versions]


def test_versions_that_a_judge_judged_too_are_criteria():
    cells = {"human_before": FLAGS, "human_after": MORE_FLAGS}
    cells |= {"gpt_before": OTHER_FLAGS, "gpt_after": [*MORE_FLAGS[:-1], not MORE_FLAGS[-1]]}
    table = read_cells({"id": [*range(ROWS)], **cells})
    assert len(table.parsed.records) == 2 * ROWS


@pytest.mark.parametrize("names", [("label_1", "label_2"), ("annotator 1", "annotator 2")])
def test_numbered_labels_are_of_two_annotators(names):
    cells = dict(zip(names, (OTHER_FLAGS, MORE_FLAGS), strict=True))
    assert columns_of_role(read_cells({"text": TEXTS, "gpt4": FLAGS, **cells}), "label") == [*names]


def test_an_earlier_verdict_may_be_that_of_a_judge():
    cells = {"text": TEXTS, "verdict": FLAGS, "previous_verdict": OTHER_FLAGS}
    with pytest.raises(OpenTableError) as caught:
        read_cells(cells)
    judges = ("--judge", "verdict", "--judge", "previous_verdict", "--label", "NONE")
    assert judges in [(*answer.options,) for answer in caught.value.answers]


@pytest.mark.parametrize("judge", ["gpt_{}", "claude-3-5-sonnet_{}", "llm_{}"])
@pytest.mark.parametrize("what", ["sentiment", "intent"])
def test_true_classes_are_the_labels_of_a_named_judge(judge, what):
    """A sentiment is computed by a program, unless names say who saw which one is true."""
    words = ("positive", "negative", "mixed")
    given = [words[i * 7 % 3] for i in range(ROWS)]
    said = [word if i % 6 else words[(i + 1) % 3] for i, word in enumerate(given)]
    column = judge.format(what)
    table = read_cells({"tweet": TEXTS, column: said, f"true_{what}": given, "likes": SCORES})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        [column],
        [f"true_{what}"],
    )


def test_actual_is_the_label_of_predicted():
    table = read_cells({"text": TEXTS, "predicted": FLAGS, "actual": OTHER_FLAGS})
    assert columns_of_role(table, "label") == ["actual"]


@pytest.mark.parametrize("name", ["toxic_prob", "toxic_pred_probability", "prob", "logit"])
def test_a_judges_probability_does_not_describe_the_case(name):
    numbers = [0.6 + i / 200 if flag else 0.1 + i / 200 for i, flag in enumerate(FLAGS)]
    cells = {"text": TEXTS, "toxic_pred": FLAGS, name: numbers, "toxic_gold": OTHER_FLAGS}
    table = read_cells(cells)
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["toxic_pred"],
        ["toxic_gold"],
    )
    assert name not in str(table.parsed.records[0])


@pytest.mark.parametrize("conversation", ["dialog", "dialogue", "thread", "对话"])
@pytest.mark.parametrize("turn", ["utterance_idx", "turn_no", "message id"])
def test_turns_are_units_of_their_conversation(conversation, turn):
    cells = {
        conversation: [f"d{i // 4}" for i in range(ROWS)],
        turn: [i % 4 for i in range(ROWS)],
    }
    table = read_cells({**cells, "judge": FLAGS, "label": OTHER_FLAGS})
    assert len(table.parsed.records) == ROWS
    assert table.settings["scoring"]["cluster"] == conversation


@pytest.mark.parametrize("role", ["judge", "label"])
@pytest.mark.parametrize(("factor", "mapped"), [(20, True), (25, False)])
def test_scores_of_two_scales_in_one_column_are_a_question(role, factor, mapped):
    """Half of the rows have 1 to 5, and the others 20 to 100 or fewer levels of it."""
    given = [1 + i % 5 for i in range(96)]
    said = [min(5, score + (i % 7 == 0)) for i, score in enumerate(given)]
    scores = {"judge_score": said, "human_score": given}
    name = "judge_score" if role == "judge" else "human_score"
    mixed = [
        score if i // 5 % 2 else min(4 + mapped, score) * factor
        for i, score in enumerate(scores[name])
    ]
    cells = {"text": TEXTS * 2, **scores, name: mixed}
    with pytest.raises(OpenTableError, match=f"'{name}' seems to have scores of two") as caught:
        read_cells(cells)
    options = [(*answer.options,) for answer in caught.value.answers]
    assert options[-1] == ("--judge", "judge_score", "--label", "human_score")
    assert (("--map", f"{name}:40=2") == options[0][2:4]) == mapped
    # Scores that lie apart because the responses do are of one scale.
    apart = [score if score < 3 else score * factor for score in scores[name]]
    assert columns_of_role(read_cells({**cells, name: apart}), "judge") == ["judge_score"]


@pytest.mark.parametrize("key", ["true_answer", "correct_answer"])
@pytest.mark.parametrize("answer", ["gpt_answer", "model_answer", "claude answer"])
def test_an_answer_next_to_its_key_is_no_verdict(answer, key):
    """A judge says whether the answer is that of the key."""
    cells = {"question": TEXTS, key: [*"ABCD"] * 12, answer: [*"ABDC"] * 12}
    table = read_cells({**cells, "judge": FLAGS})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (["judge"], [])


PEOPLE_COLUMNS = (
    *(("judge", ("Rossi", "Tanaka")), ("grader", ("Smith", "Okafor", "Mary-Jane Ng"))),
    *(("rater", ("R1", "R2")), ("annotator", ("w12", "w77")), ("评审", ("张三", "李四"))),
    *(("evaluator", ("Anna", "Jon")), ("reviewer", ("mk", "jt", "ss"))),
)


def _by_people(column: str, people: tuple[str, ...], judge: str, value: str) -> dict[str, list]:
    cells: dict[str, list[Any]] = {"entry": [], column: [], value: [], judge: []}
    for index, (score, judged) in enumerate(zip(SCORES, NEAR, strict=True)):
        for shift, person in enumerate(people):
            row = (f"e{index}", person, max(1, score - (index + shift) % 3 // 2), judged)
            for name, cell in zip(cells, row, strict=True):
                cells[name].append(cell)
    return cells


@pytest.mark.parametrize(
    ("named", "judge", "value"),
    [*product(PEOPLE_COLUMNS, ("llm_score", "gpt-4o", "大模型评分"), ("score", "rating"))],
)
def test_names_of_people_next_to_a_judge_with_a_column(named, judge, value):
    column, people = named
    table = read_cells(_by_people(column, people, judge, value))
    assert columns_of_role(table, "judge") == [judge]
    assert len(columns_of_role(table, "label")) == len(people)
    assert len(table.parsed.records) == ROWS


def test_names_of_unknown_raters_next_to_a_judge_are_asked_about():
    cells = _by_people("evaluator", ("P1", "P2"), "llm_score", "score")
    with pytest.raises(OpenTableError, match="does 'evaluator' name people or judges") as asked:
        read_cells(cells)
    people, judges = asked.value.answers
    table = read_cells(cells, Choices().with_options(people.options))
    assert len(columns_of_role(table, "label")) == 2
    table = read_cells(cells, Choices().with_options(judges.options))
    assert columns_of_role(table, "judge's name") == ["evaluator"]
    # Names of models are those of judges.
    cells = _by_people("evaluator", ("gpt-4o", "claude-3-haiku"), "human_score", "score")
    assert columns_of_role(read_cells(cells), "judge's name") == ["evaluator"]


@pytest.mark.parametrize("names", [("model_1", "model_2"), ("model1", "model2")])
def test_numbered_systems_are_not_two_orders_of_verdicts(names):
    words = ("koala", "vicuna", "alpaca")
    first = [words[i % 3] for i in range(ROWS)]
    second = [words[(i + 1 + i // 3 % 2) % 3] for i in range(ROWS)]
    winners = [(a, b, "tie")[i % 3] for i, (a, b) in enumerate(zip(first, second, strict=True))]
    judged = [b if i % 5 == 0 else winners[i] for i, b in enumerate(second)]
    systems = dict(zip(names, (first, second), strict=True))
    table = read_cells({"id": TEXTS, **systems, "human_choice": winners, "judge_choice": judged})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["judge_choice"],
        ["human_choice"],
    )
    assert table.unit == "pair"


@pytest.mark.parametrize(
    ("form", "consensus"),
    [*product(("ann_{}", "ann{}", "anno{}", "annot {}"), ("consensus", "majority_vote", "final"))],
)
def test_numbered_annotators_and_their_consensus(form, consensus):
    votes = [
        ["pass" if (i + j * (i % 5 == 0)) % 3 else "fail" for i in range(ROWS)] for j in range(3)
    ]
    majority = [max(row, key=row.count) for row in zip(*votes, strict=True)]
    judged = ["pass" if flag else "fail" for flag in OTHER_FLAGS]
    cells = {form.format(j + 1): column for j, column in enumerate(votes)}
    table = read_cells({"text": TEXTS, **cells, consensus: majority, "llm_judge": judged})
    assert columns_of_role(table, "judge") == ["llm_judge"]
    # The consensus replaces the annotators, or is their sum: it is never one more of them.
    assert columns_of_role(table, "label") in ([*cells], [consensus])


@pytest.mark.parametrize("judge", ["llm_{}", "{}_gpt-4o", "judge {}", "ai_{}"])
@pytest.mark.parametrize("topic", ["MOS", "qrel", "band", "nps"])
def test_a_column_with_the_name_and_the_scores_of_a_judge_has_its_labels(judge, topic):
    column = judge.format(topic)
    table = read_cells({"text": TEXTS, topic: SCORES, column: NEAR})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == ([column], [topic])


@pytest.mark.parametrize("topic", ["latency", "length", "rouge", "probability", "difficulty"])
def test_a_measure_with_the_name_of_a_judge_has_no_labels(topic):
    cells = {"text": TEXTS, topic: SCORES, f"llm_{topic}": NEAR, "judge_score": NEAR}
    try:
        table = read_cells(cells)
    except (OpenTableError, DatasetError):
        return
    assert topic not in columns_of_role(table, "label")


@pytest.mark.parametrize("words", [("safe", "unsafe"), ("pass", "fail"), ("toxic", "not toxic")])
@pytest.mark.parametrize("form", ["p_{}", "prob_{}", "{}_probability", "judge_prob_{}", "P({})"])
def test_the_probability_of_a_verdict_is_of_the_judge(words, form):
    judged = [words[flag] for flag in FLAGS]
    labeled = [words[flag] for flag in OTHER_FLAGS]
    shares = [round(0.05 + 0.8 * flag + i / 500, 3) for i, flag in enumerate(FLAGS)]
    name = form.format(words[1])
    table = read_cells({"text": TEXTS, "guard_verdict": judged, name: shares, "human": labeled})
    [why] = [role.why for role in table.roles if role.column == name]
    assert why == "a probability of the judge's"
    # The probability of something else may explain the judge, and stays.
    table = read_cells({"text": TEXTS, "guard_verdict": judged, "p_rain": shares, "human": labeled})
    [why] = [role.why for role in table.roles if role.column == "p_rain"]
    assert why != "a probability of the judge's"


@pytest.mark.parametrize("name", ["geval", "llm_quality", "judge_overall", "quality_gpt-4"])
def test_a_verdict_about_everything_is_compared_with_one(name):
    table = read_cells({"text": TEXTS, name: NEAR, "human_overall": SCORES})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        [name],
        ["human_overall"],
    )


@pytest.mark.parametrize("name", ["x", "ok", "ours", "gpt-4o"])
def test_one_system_in_all_rows_is_no_judge(name):
    words = ("A>>B", "A>B", "A=B", "B>A", "B>>A")
    cells = {"uid": TEXTS, "model": [name] * ROWS}
    cells["score"] = [words[i % 5] for i in range(ROWS)]
    cells["human"] = [words[(i + (i % 6 == 0)) % 5] for i in range(ROWS)]
    table = read_cells(cells)
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        ["score"],
        ["human"],
    )


@pytest.mark.parametrize("name", ["Reviewer notes", "annotator_comment", "rater_explanation"])
def test_the_notes_of_a_reviewer_name_nobody(name):
    notes = ["see chat" if i % 5 == 0 else "" for i in range(ROWS)]
    words = ("reject", "approve")
    judged = [words[flag] for flag in FLAGS]
    labeled = [words[flag] for flag in OTHER_FLAGS]
    cells = {"case": TEXTS, "Human decision": labeled, "AI decision": judged, name: notes}
    assert not columns_of_role(read_cells(cells), "annotator")


@pytest.mark.parametrize("outcome", ["success", "passed", "is_pass", "requirement_met"])
@pytest.mark.parametrize("words", [(False, True), ("no", "yes"), ("FAIL", "PASS")])
@pytest.mark.parametrize("cut", [3, 4])
def test_a_flag_that_follows_from_a_score_is_the_verdict_of_its_judge(outcome, words, cut):
    flags = [words[score >= cut] for score in NEAR]
    labeled = [words[score >= cut] for score in SCORES]
    cells = {"input": TEXTS, "score": NEAR, "threshold": [cut] * ROWS, outcome: flags}
    table = read_cells({**cells, "human_verdict": labeled})
    assert (columns_of_role(table, "judge"), columns_of_role(table, "label")) == (
        [outcome],
        ["human_verdict"],
    )
    # Next to grades the score is compared, and the flag says nothing more.
    table = read_cells({**cells, "human_score": SCORES})
    assert columns_of_role(table, "judge") == ["score"]
    [why] = [role.why for role in table.roles if role.column == outcome]
    assert why == "tells whether 'score' is high enough"
    # A flag that does not follow from the score is no verdict of its judge.
    cells[outcome] = [flags[-1], *flags[1:]]
    cells[outcome][NEAR.index(max(NEAR))] = words[0]
    table = read_cells({**cells, "human_score": SCORES})
    [why] = [role.why for role in table.roles if role.column == outcome]
    assert "high enough" not in why


@pytest.mark.parametrize("name", ["hit", "korrekt", "eq", "一致", "delta_x", "off by"])
@pytest.mark.parametrize("kind", ["class", "flag", "number", "absolute"])
def test_a_column_that_compares_verdicts_is_no_property_of_a_case(name, kind):
    words = ("billing", "shipping", "other")
    if kind == "class":
        judged = [words[i % 3] for i in range(ROWS)]
        labeled = [words[(i + (i % 4 == 0)) % 3] for i in range(ROWS)]
        compared = [int(a == b) for a, b in zip(judged, labeled, strict=True)]
    elif kind == "flag":
        judged, labeled = (
            ["pass" if flag else "fail" for flag in column] for column in (FLAGS, OTHER_FLAGS)
        )
        compared = ["x" if a == b else "y" for a, b in zip(judged, labeled, strict=True)]
    else:
        judged, labeled = NEAR, SCORES
        compared = [a - b for a, b in zip(judged, labeled, strict=True)]
    if kind == "absolute":
        compared = [abs(value) for value in compared]
    cells = {"text": TEXTS, "human_label": labeled, "judge_label": judged, name: compared}
    table = read_cells(cells)
    [why] = [role.why for role in table.roles if role.column == name]
    assert why == "compares verdicts"
    # One other row, and it may be a property of the case.
    cells[name] = [compared[1] if compared[0] != compared[1] else _other(compared), *compared[1:]]
    try:
        table = read_cells(cells)
    except OpenTableError:
        return
    [why] = [role.why for role in table.roles if role.column == name]
    assert why != "compares verdicts"


def _other(values: list[Any]) -> Any:
    return next(value for value in values if value != values[0])


@pytest.mark.parametrize("flag", ["final_answer_correct", "is_correct_answer", "solution_correct"])
@pytest.mark.parametrize("label", ["label", "gold_label", "human_score"])
def test_a_flag_without_a_rater_next_to_numbers_is_no_judge(flag, label):
    flags = [bool(value) for value in FLAGS]
    cells = {"id": TEXTS, "problem": [f"What is {i}?" for i in range(ROWS)], flag: flags}
    with pytest.raises(OpenTableError) as asked:
        read_cells({**cells, label: SCORES})
    assert ["--judge", flag, "--label", label] in asked.value.readings
    # Next to flags it may be the judge of, it is the only verdict.
    table = read_cells({**cells, label: OTHER_FLAGS})
    assert columns_of_role(table, "judge") == [flag]
