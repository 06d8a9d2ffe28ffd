"""One meaning, many spellings: winners, confidences, criteria and punctuation, the same wherever they are written."""

import json
import re
from dataclasses import replace

import pytest

from evalkit.config import (
    Criterion,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    RubricConfig,
    RunConfig,
    SwapConfig,
)
from evalkit.core.types import (
    Case,
    ChecklistItem,
    Completion,
    JudgeRequest,
    Judgment,
    Response,
)
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.json_answers import read_confidence

CASE = Case("c", "Q", (Response("Paris."), Response("Lyon.")))
A, B, TIE, NOTHING = 1.0, -1.0, 0.0, None
WINNERS = {
    **dict.fromkeys(("A", "a", "Ａ", "model_a", "Option A", "Response A", "(A)", "甲", "first"), A),
    **dict.fromkeys(("A is better", "Response A wins", "A>B", "B < A", "答案 A", "A优于B"), A),
    **dict.fromkeys(("B", "model_b", "Assistant B", "second", "乙", "Answer: B", "A不如B"), B),
    **dict.fromkeys(("The second response", "B is better than A", "A<<B", "选项B"), B),
    **dict.fromkeys(("选择 A", "我选A", "A略胜一筹", "甲更佳", "前者"), A),
    **dict.fromkeys(("回答二", "B的回答", "后者更好", "B优"), B),
    **dict.fromkeys(
        ("TIE", "C", "A=B", "tie (both bad)", "平", "a tie", "两者平局", "same", "一样"), TIE
    ),
    **dict.fromkeys(
        (
            "A is worse",
            "not A",
            "!A",
            "A or B",
            "D",
            "A>A",
            "A, but B",
            "AB",
            "maybe",
            "neither",
            "both",
        ),
        NOTHING,
    ),
    **dict.fromkeys(("不选A", "不是B"), NOTHING),
    **dict.fromkeys(("B is better than B", "A is not better", "neither A nor B is bad"), NOTHING),
}


POINT = ModeConfig(name="pointwise")
CLASSES = RubricConfig(classes={"good": "it is", "bad": "it is not"})


def judge(output: OutputConfig, names: tuple[str, ...] = ("overall",), **settings):
    if "rubric" in settings:
        settings["mode"] = POINT
    return make_evaluator(
        RunConfig(
            judge=JudgeConfig(model="a/b"),
            criteria={name: Criterion() for name in names},
            swap=SwapConfig(policy="none"),
            output=output,
            **settings,
        )
    )


JSON = judge(OutputConfig())
BRACKET = judge(OutputConfig(format="bracket"))
LINE = judge(OutputConfig(format="regex", pattern=r"(?m)^Winner: (?P<winner>.+)$"))


def judgment(evaluator, text, **settings):
    request = evaluator.plan(CASE)[0]
    read = evaluator.read(request, Completion(text, **settings))
    if isinstance(read, JudgeRequest):
        read = evaluator.read(read, Completion(text, **settings))
    return read


def value(evaluator, text, **settings):
    return judgment(evaluator, text, **settings).value


def decision(evaluator, text):
    """The winner's margin, the score or the class; `None` if there is none."""
    read = judgment(evaluator, text)
    if read.status not in ("ok", "repaired"):
        return None
    return read.class_name or read.criteria.get("overall", read.value)


def answer(winner="A", confidence=0.8, criteria=("overall",)):
    compared = [{"criterion": name, "reasoning": "r", "winner": winner} for name in criteria]
    result = {"reasoning": "r", "winner": winner, "confidence": confidence}
    return {"comparison": compared, "result": result}


@pytest.mark.parametrize("spelling", WINNERS)
def test_a_winner_is_the_same_in_json_brackets_and_text(spelling):
    expected = WINNERS[spelling]
    assert value(JSON, json.dumps(answer(spelling))) == expected
    assert value(BRACKET, f"So it is.\n[[{spelling}]]") == expected
    assert value(LINE, f"So it is.\nWinner: {spelling}") == expected


@pytest.mark.parametrize(("stated", "confidence"), [
    *(
        (0.8, 0.8),
        (85, 0.85),
        ("80%", 0.8),
        ("80 percent", 0.8),
        ("8/10", 0.8),
        (1, 1.0),
        (0, 0.0),
        ("0,5", 0.5),
    ),
    *((value, None) for value in ("high", 5, 150, -0.5, None, True, "very", [0.5], "1e3")),
])  # fmt: skip
def test_a_bad_confidence_costs_no_verdict(stated, confidence):
    assert read_confidence(stated) == confidence
    assert value(JSON, json.dumps(answer("B", stated))) == B


@pytest.mark.parametrize(
    "spelling", ["Instruction_Following", "1. instruction following", "**Instruction-following**:"]
)
def test_a_criterion_is_known_by_its_letters(spelling):
    evaluator = judge(OutputConfig(), ("instruction following", "accuracy"))
    text = json.dumps(answer("B", criteria=(spelling, "2) Accuracy")))
    assert value(evaluator, text) == B


def test_a_criterion_that_could_be_two_is_none():
    evaluator = judge(OutputConfig(), ("a b", "a_b"))
    assert value(evaluator, json.dumps(answer("B", criteria=("A B", "a_b")))) is None
    assert value(evaluator, json.dumps(answer("B", criteria=("a b", "a_b")))) == B


def test_full_width_punctuation_is_repaired_outside_strings():
    text = json.dumps(answer("B"), ensure_ascii=False).replace('"r"', '"对：好，是"')
    wide = text.replace('": ', '"：').replace(', "', '，"').replace("{", "｛").replace("}", "｝")
    request = JSON.plan(CASE)[0]
    read = JSON.read(request, Completion(wide))
    assert (read.value, read.status) == (B, "repaired")
    assert read.answer["result"]["reasoning"] == "对：好，是"
    assert value(JSON, wide + wide.replace('"B"', '"A"')) is None


def test_an_answer_in_reasoning_counts_only_if_it_is_the_whole_of_it():
    whole = json.dumps(answer("B"))
    assert value(JSON, "", reasoning=whole) == B
    assert value(JSON, "", reasoning=f"I could say {whole} but") is None
    assert value(BRACKET, "", reasoning="It is clear.\n[[B]]") == B
    assert value(BRACKET, "", reasoning="Perhaps [[A]].\n[[B]]") == B
    assert value(BRACKET, "", reasoning="So it is [[A]].\n[[B]]") is None


MARKED = {
    "winner": (BRACKET, "[[A]]", "[[B]]"),
    "class": (judge(OutputConfig(format="bracket"), rubric=CLASSES), "[[good]]", "[[bad]]"),
    "score": (judge(OutputConfig(format="rating"), mode=POINT), "[[4]]", "[[3]]"),
}
DENIALS = ["not {}", "It isn't {}.", "I would not say {}", "rather than {}", "B over {}"]
DENIALS += ["I cannot pick {}", "It has not yet been {}.", "~~{}~~", "无法选{}"]
DENIALS += ["我不选{}。", "这不是 {}", "**not** {}", "Verdict: not {}"]
DENIALS += ["hardly {}", "It is far from {}", "anything but {}", "It could be {}", "half {}"]
DENIALS += ["It would be wrong to say {}", "Some may prefer {}", "It doesn't deserve a {}"]
DENIALS += ["Please output {}", "I was asked to answer {}", 'It says "I am the best, {}"']
DENIALS += ["If style matters, then {}", "如果看重风格，则{}", "很难说是{}", "谈不上{}", "不属于{}"]
DENIALS += ["至少{}", "尚未{}", "不应该选{}", "没理由选{}", "难道是{}？", "它说“我是{}”"]
DENIALS += ["Ich würde nicht {}", "Je ne choisis pas {}.", "Не {}.", "{}ではない"]
DENIALS += [
    "No elijo {}.",
    "_No elijo {}._",
    "El ganador no es {}.",
    "Não escolho {}",
    "Я не выбираю {}.",
]
DENIALS += ["Loser: {}", "| Worse response | {}", "Second place: {}", "Preliminary verdict: {}"]
DENIALS += ["较差的回答：{}", "Example: {}", "Anyone but {}", "There is no way it's {}."]
DENIALS += ["❌ {}", "≠{}", "!= {}", "- [ ] {}", "{}?", "{} ❌", "<s>{}</s>", "<!-- {} -->"]
DENIALS += ["ungefähr {}", "au moins {}", "casi {}", "около {}", "約{}", "3–{}", "3 to {}"]
DENIALS += ["Response A says the verdict is {}.", "<scratchpad>{}</scratchpad>"]
DENIALS += ["Maybe {}", "maybe, {}.", "I'm torn, but perhaps {}", "Maybe it's {}", "{} (?)"]
DENIALS += ["Possibly the answer is {}", "也许{}", "可能是{}", "不确定，也许是{}", "大概是 {}"]
DENIALS += ["Vielleicht {}", "Peut-être {}", "Tal vez {}", "Talvez {}", "Может быть, {}"]
DENIALS += ["たぶん{}", "어쩌면 {}", "Forse {}", "Misschien {}", "Belki {}", "ربما {}", "शायद {}"]
DENIALS += ["At first glance {}", "Initially, {}", "I almost said {}", "乍一看{}", "Without {}"]
DENIALS += [
    "Mostly {}",
    "Teilweise {}",
    "En partie {}",
    "Частично {}",
    "Niet {}",
    "Nie {}",
    "ليس {}",
]
DENIALS += ["Expected: {}", "Options: {}", "Output format: {}", "Reference answer: {}"]
LISTS = ["{}, {}", "{} or {}", "{} / {}", "between {} and {}.", "{}-{}", "{}和{}", "{}、{}"]
LISTS += ["{}, followed by {}", "Ranking: 1. {} 2. {}"]
LISTS += ["zwischen {} und {}", "entre {} y {}.", "entre {} et {}", "между {} и {}", "{}と{}"]
LISTS += ["For style {}, for facts {}.", "簡潔さなら{}、正確さなら{}"]
LISTS += ["{} of {}", "{} -> {}", "{} → {}", "{} > {}", "{}比{}"]


NO_DENIALS = ["Is it so or not: {}", "better or not {}", "Not sure, but {}", "It is not: {}"]
NO_DENIALS += ["If I had to choose: {}", "Even if it is short, {}", 'It says "no". {}']
NO_DENIALS += ["If it were long, it would be bad. So {}", "{}<|im_end|>", "{}<|eot_id|>"]
NO_DENIALS += ["🏆 {}", "✅ {}", "{} ✅", "_{}_", "Winner: {}", "First, the facts. {}", "No, {}"]
NO_DENIALS += ["| Better response | {} |", "¿Cuál es mejor? {}", "<answer>{}</answer>"]
NO_DENIALS += ["Maybe it is short. {}", "Perhaps too long, but {}", "很可能是{}", "Option: {}"]
NO_DENIALS += ["B did not help, so {}", "要不要选：{}", "不确定，但 {}"]


@pytest.mark.parametrize("shape", NO_DENIALS)
def test_a_mark_after_words_that_only_have_a_denial_is_a_verdict(shape):
    for evaluator, mark, _ in MARKED.values():
        assert decision(evaluator, shape.format(mark)) == decision(evaluator, mark)


@pytest.mark.parametrize("kind", MARKED)
def test_a_mark_that_is_denied_or_one_of_a_list_is_no_verdict(kind):
    evaluator, mark, other = MARKED[kind]
    decided = decision(evaluator, mark)
    assert decided is not None
    for shape in DENIALS:
        denied = shape.format(mark)
        assert decision(evaluator, denied) is None, denied
        assert decision(evaluator, f"{denied}\n{other}") == decision(evaluator, other), denied
    for shape in LISTS:
        listed = shape.format(other, mark)
        assert decision(evaluator, listed) is None, listed
        assert decision(evaluator, shape.format(mark, mark)) == decided


ITEMS = ("met", "not met", "cannot assess")
LISTED_CASE = replace(
    CASE,
    responses=CASE.responses[:1],
    checklist=tuple(ChecklistItem(f"i{number}", f"Point {number}?") for number in (1, 2, 3)),
)
ONE_ITEM = replace(LISTED_CASE, checklist=LISTED_CASE.checklist[:1])


def checklist(**output):
    return make_evaluator(
        RunConfig(
            judge=JudgeConfig(model="a/b"),
            mode=ModeConfig(name="checklist", ask="together"),
            criteria={"overall": Criterion()},
            swap=SwapConfig(policy="none"),
            rubric=RubricConfig(min=0, max=1, step=0.01),
            output=OutputConfig(**output),
        )
    )


def items_of(evaluator, case, text):
    """The answer to each item; nothing if there is none at all."""
    read = evaluator.read(evaluator.plan(case)[0], Completion(text))
    if isinstance(read, JudgeRequest):
        read = evaluator.read(read, Completion(text))
    return dict(read.items)


def spelled(word):
    return word.replace(" ", "_")


@pytest.mark.parametrize("word", ITEMS)
def test_a_denied_answer_to_an_item_is_missing_and_costs_no_other(word):
    evaluator = checklist(format="bracket")
    for shape in DENIALS:
        text = shape.format(f"[[{word}]]")
        assert not any(items_of(evaluator, ONE_ITEM, text).values()), text
        line = shape.format(f"[[2: {word}]]")
        answers = items_of(evaluator, LISTED_CASE, f"So. [[1: met]]\n{line}\n[[3: not met]]")
        assert answers == {"i1": "met", "i2": None, "i3": "not_met"}, line
    for shape in NO_DENIALS:
        text = shape.format(f"[[{word}]]")
        assert items_of(evaluator, ONE_ITEM, text) == {"i1": spelled(word)}, text
    for shape in LISTS:
        for other in set(ITEMS) - {word}:
            text = shape.format(f"[[{word}]]", f"[[{other}]]")
            assert not any(items_of(evaluator, ONE_ITEM, text).values()), text


@pytest.mark.parametrize(
    ("word", "read"),
    [
        *((word, "met") for word in ("met", "Met.", "**met**", "is met", "met!", "已满足")),
        *((word, "not_met") for word in ("not-met", "Unmet", "is not met", "不满足", "没有满足")),
        *((word, "cannot_assess") for word in ("can't assess", "unable to assess", "无法评估")),
        *((word, None) for word in ("!met", "~met", "~~met~~", "-met", "¬met", "met?", "unmet?")),
        *((word, None) for word in ("partially met", "met or not met", "not not met", "yes")),
    ],
)
def test_an_answer_to_an_item_is_spelled_the_same_in_json_and_brackets(word, read):
    shapes = [json.dumps({"reason": "r", "answer": word}), f"So.\n[[{word}]]"]
    for evaluator, text in zip((checklist(), checklist(format="bracket")), shapes, strict=True):
        assert items_of(evaluator, ONE_ITEM, text).get("i1") == read
    entries = [{"item": 1, "reason": "r", "answer": word}, {"item": 2, "answer": "met"}]
    answers = items_of(checklist(), LISTED_CASE, json.dumps({"items": entries}))
    assert answers == {"i1": read, "i2": "met", "i3": None}


@pytest.mark.parametrize("kind", ["bracket", "json"])
def test_a_class_that_is_struck_through_is_none(kind):
    evaluator = judge(OutputConfig(format=kind), rubric=CLASSES)
    shape = "[[{}]]" if kind == "bracket" else '{{"reasoning": "r", "quotes": [], "class": "{}"}}'
    assert decision(evaluator, shape.format("good")) == "good"
    assert decision(evaluator, shape.format("~~good~~")) is None


@pytest.mark.parametrize(
    ("after", "read"),
    [("%", None), (" (out of 10)", None), ("（满分10分）", None), ("/10", None)]
    + [
        (text, 4.0)
        for text in (
            *("", " of 5", " sur 5", " von 5", " из 5", " (out of 5)", "（满分5分）", "/5", "分"),
        )
    ],
)
def test_what_follows_a_score_can_change_its_scale(after, read):
    evaluator, _, _ = MARKED["score"]
    assert decision(evaluator, f"[[4]]{after}") == read
    if after.strip("% "):
        scored = judge(OutputConfig(), mode=POINT)
        entry = {"criterion": "overall", "justification": "j", "score": f"4{after}"}
        assert decision(scored, json.dumps({"scores": [entry]})) == read


@pytest.mark.parametrize(("shape", "read"), [
    *(("Out of 10: {}", None), ("On a scale of 1 to 10, I say {}", None), ("~{}", None)),
    *(("{}+", None), ("3.{}", None), ("On a 1-5 scale: {}", 4.0), ("Out of 5: {}", 4.0)),
])  # fmt: skip
def test_what_precedes_a_score_can_change_it(shape, read):
    evaluator, _, _ = MARKED["score"]
    assert decision(evaluator, shape.format("[[4]]")) == read


def wrapped(text):
    """Ways in which models put an answer into something else."""
    yield f'{{"evaluation": {text}}}'
    yield f'{{"name": "answer", "arguments": {text}}}'
    yield f'<tool_call>\n{{"name": "answer", "arguments": {text}}}\n</tool_call>'
    yield f'{{"answers": [{text}]}}'
    yield f"Here it is:\n```json\n[{text}]\n```"


CLASS_ANSWER = '{"reasoning": "r", "quotes": [], "class": "good"}'
OBJECTS = {
    "winner": (JSON, json.dumps(answer("B")), "Winner: {}", ("B", "A")),
    "class": (judge(OutputConfig(), rubric=CLASSES), CLASS_ANSWER, "Class: {}", ("good", "bad")),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_in_another_or_with_names_in_another_case_is_read(kind):
    evaluator, text, _, _ = OBJECTS[kind]
    decided = decision(evaluator, text)
    for put in wrapped(text):
        assert decision(evaluator, put) == decided, put
    names = re.sub(r'"(\w+)":', lambda name: f'"{name[1].title()}":', text)
    assert decision(evaluator, names) == decided
    assert decision(evaluator, names.replace('"Reasoning"', '"REASONING "')) == decided
    two = f'{{"first": {text}, "second": {text}}}'
    assert decision(evaluator, two) is None


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("before", [True, False])
def test_an_object_and_words_that_state_another_decision_are_none(kind, before):
    evaluator, text, label, (own, other) = OBJECTS[kind]
    shapes = [f"**Final {label}**", "[[{}]]", "So my final verdict is {}.", "最终结论：{}"]
    shapes += ["<verdict>{}</verdict>", "\\boxed{{{}}}"]
    shapes += [] if before else [label, f"Wait. The correct {label}", "Correction: label = {}"]
    shapes += [] if before else ["Actually, it is {}.", "Final answer: {}", "最终答案：{}"]
    for name, decided in ((own, decision(evaluator, text)), (other, None)):
        for shape in shapes:
            line = shape.format(name)
            both = f"{line}\n{text}" if before else f"{text}\n\n{line}"
            assert decision(evaluator, both) == decided, both
    for line in (
        f"## overall\n{label.format(other)}",
        "The first one says that.",
        f"It is not [[{other}]].",
        "Verdict: see above",
    ):
        assert decision(evaluator, f"{line}\n{text}") is not None
    assert decision(evaluator, f"{label.format(other)}\n{text}") is None
    for name in ("verdict", "final_answer"):
        extra = {**json.loads(text), name: other}
        assert decision(evaluator, json.dumps(extra)) is None
        assert decision(evaluator, json.dumps({**extra, name: own})) is not None


LAST_WORDS = ["**Summary:** Response {} wins on both criteria.", "Fazit: {} ist besser."]
LAST_WORDS += ["Résultat final : {}", "Вывод: {} лучше.", "結論：{}の方が優れている。"]


@pytest.mark.parametrize("words", [*LAST_WORDS, "Conclusión: gana {}."])
def test_last_words_in_other_languages_state_the_winner(words):
    evaluator, text, _, (own, other) = OBJECTS["winner"]
    assert decision(evaluator, f"{text}\n\n{words.format(own)}") == decision(evaluator, text)
    assert decision(evaluator, f"{text}\n\n{words.format(other)}") is None


AFTER = {
    A: ["Thank you.", "A is better.", "On reflection, A is better.", "A ist besser.", "Yes: A"],
    NOTHING: ["B is better.", "On a second look, B is better.", "I choose B.", "Edit: B"],
}
AFTER[A] += ["A better answer would be short.", "Correction: A", "A is right, while B is wrong."]
AFTER[NOTHING] += ["Gewinner ist B.", "En fait, B est meilleure.", "El ganador es B.", "B лучше."]
AFTER[NOTHING] += [
    "勝者はBです。",
    "B가 더 낫습니다.",
    "再想想，B更好。",
    "- I choose B.",
    "_B wins._",
]
AFTER[NOTHING] += [
    "I cannot decide between A and B.",
    "A or B, depending on taste.",
    "A或B都可以。",
]
AFTER[A] += ["B is worse.", "Response B lacks sources.", "B is clearly wrong about the date."]
AFTER[A] += ["B ist falsch.", "B est moins bonne.", "B es peor.", "B хуже.", "B较差。"]
AFTER[NOTHING] += ["B lacks nothing.", "B is not worse.", "B is wrong, but it is better."]
AFTER[NOTHING] += ["B fails to be wrong, or A does.", "B is worse only in style.", "B没有错误。"]
AFTER[NOTHING] += ["A would win if it were right.", "_A could be better if it were short._"]
AFTER[NOTHING] += ["It is a tie.", "Beide sind gleich gut.", "Égalité.", "引き分けです。", "平局。"]
AFTER[NOTHING] += ["Disregard this verdict.", "Scratch that.", "更正：B。", "(to be revised)"]


@pytest.mark.parametrize("read", AFTER)
def test_last_words_that_are_not_about_the_winner_leave_no_verdict(read):
    for words in AFTER[read]:
        assert value(BRACKET, f"Some reasons.\n[[A]]\n\n{words}") == read, words
        assert value(JSON, f"{json.dumps(answer('A'))}\n\n{words}") == read, words


@pytest.mark.parametrize("kind", ["winner", "class"])
def test_a_mark_and_a_line_that_states_another_decision_are_none(kind):
    evaluator, mark, other = MARKED[kind]
    decided = decision(evaluator, mark)
    for name, read in ((mark, decided), (other, None)):
        for shape in ("Winner: {}", "**Verdict: {}**", "It is long.\nMy final verdict is {}."):
            line = shape.format(name.strip("[]"))
            assert decision(evaluator, f"{line}\n\n{mark}") == read, line
    two = "\n".join(f"### {n}\nVerdict: {x.strip('[]')}" for n, x in (("x", mark), ("y", other)))
    assert decision(evaluator, f"{two}\n\n{mark}") == decided


def test_an_item_and_words_that_state_another_answer_are_none():
    item = ChecklistItem("1", "Is it short?")
    case = Case("c", "Q", (Response("Paris."),), checklist=(item,))
    rubric = RubricConfig(min=0, max=1, step=0.0001)
    config = {"mode": ModeConfig(name="checklist"), "rubric": rubric}
    config["swap"] = SwapConfig(policy="none")
    settings = {"judge": JudgeConfig(model="a/b"), "criteria": {"overall": Criterion()}}
    checklist = make_evaluator(RunConfig(**settings, **config))
    [request] = checklist.plan(case)
    for after, count in (("", 1), ("Final answer: met", 1), ("So the answer is not met.", 0)):
        text = f'{{"reason": "r", "answer": "met"}}\n\n{after}'
        read = checklist.read(request, Completion(text))
        met = isinstance(read, Judgment) and list(read.items.values()) == ["met"]
        assert met == bool(count)


def test_entries_by_criterion_and_bare_percentages_are_read():
    full = answer("B")
    [entry] = full["comparison"]
    by_name = {**full, "comparison": {entry.pop("criterion"): entry}}
    assert value(JSON, json.dumps(by_name)) == B
    read = JSON.read(JSON.plan(CASE)[0], Completion(json.dumps(answer("B")).replace("0.8", "80%")))
    assert (read.value, read.confidence) == (B, 0.8)


def test_two_different_verdicts_are_none():
    assert value(BRACKET, "[[A]]\nOr rather:\n[[B]]") is None
    assert value(BRACKET, "[[A]]\nAs I said:\n[[A]]") == A
    assert value(JSON, json.dumps(answer("A")) + json.dumps(answer("B"))) is None
