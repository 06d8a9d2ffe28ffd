"""Third-party templates: filled as their authors' code fills them, and the presets that use them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import load_config
from evalkit.config import RunConfig, SourceConfig
from evalkit.errors import ConfigError, PromptError
from evalkit.evaluators import make_evaluator
from evalkit.prompting import Prompts, foreign_template
from evalkit.types import Case, Completion, JudgeRequest, Response

# Files in the layout of the authors', with invented words: their templates are theirs.
PROMETHEUS = '''
REL_SYSTEM_PROMPT = "Compare fairly."
ABS_SYSTEM_PROMPT = "Rate fairly."
ABSOLUTE_PROMPT = """#Rate {{1-5}}:
{instruction}
#Answer: {response}
#Best: {reference_answer}
{rubric}
#Words: """
ABSOLUTE_PROMPT_WO_REF = """#Rate:\\n{instruction}\\n#Answer: {response}\\n{rubric}\\n#Words: """
RELATIVE_PROMPT = """#Compare:\\n{instruction}\\n{response_A}\\n{response_B}\\n{reference_answer}\\n{rubric}\\n"""
RELATIVE_PROMPT_WO_REF = """#Compare:\\n{instruction}\\nA: {response_A}\\nB: {response_B}\\n{rubric}\\n\\n#Words: """
SCORE_RUBRIC_TEMPLATE = """
[{criteria}]
1: {score1_description}
2: {score2_description}
3: {score3_description}
4: {score4_description}
5: {score5_description}
""".strip()
'''
PANDALM = """
import torch
class Provider:
    def build(self, instruction, input, resp1, resp2):
        resp1 = self.pattern.sub("", resp1.strip()).strip()
        rsp = f"#1:\\n{resp1}\\n\\n#2:\\n{resp2}"
        if input:
            input_sequence = f"With input {{braces}}.\\n#Task:\\n{instruction}\\n#Input:\\n{input}\\n{rsp}\\n#Eval:\\n"
        else:
            input_sequence = f"Without.\\n#Task:\\n{instruction}\\n\\n{rsp}\\n#Eval:\\n"
raise SystemExit("this file must not run")
"""
AUTO_J = '''
PROMPT_INPUT_WO_SYSTEM: str = "[INST] {input} [/INST]"
single = """Rate {prompt} by {response}. End with "Rating: [[5]]"."""
pairwise_tie = """{prompt}\\n***\\n{response}\\n***\\n{response_another}"""
'''
FILES = {"prompts.py": PROMETHEUS, "pandalm_inference.py": PANDALM, "constants_prompt.py": AUTO_J}
CASE = Case("c", "2 + 2?", (Response(" four {x} {{ y }}\n"), Response("five %} “\U0001f600”")))


@pytest.fixture
def authors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], RunConfig]:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    return lambda preset, file: load_config(overrides=[f"judge={preset}", f"prompt.template={file}", "tracking=none"])


def filled(config: RunConfig, case: Case = CASE) -> tuple[list[JudgeRequest], str]:
    requests = list(make_evaluator(config).plan(case))
    assert [message["role"] for message in requests[0].messages] == ["user"]
    return requests, requests[0].messages[0]["content"]


def module(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    exec(text, found)
    return found


def test_prometheus_2(authors):
    one, two = (response.text for response in CASE.responses)
    config, theirs = authors("prometheus2", "prompts.py"), module(PROMETHEUS)
    [criterion] = config.criteria.values()
    asked = {"instruction": CASE.prompt, "response_A": one, "response_B": two, "rubric": f"[{criterion.description}]"}
    requests, text = filled(config)
    assert text == "Compare fairly.\n" + theirs["RELATIVE_PROMPT_WO_REF"].format(**asked)
    assert len(requests) == 2  # both orders
    referenced = Case("r", CASE.prompt, CASE.responses, reference="4")
    expected = theirs["RELATIVE_PROMPT"].format(reference_answer="4", **asked)
    assert filled(config, referenced)[1] == f"Compare fairly.\n{expected}"
    config = authors("prometheus2_scores", "./prompts.py")
    levels = {f"score{n:g}_description": text for n, text in config.rubric.levels.items()}
    rubric = theirs["SCORE_RUBRIC_TEMPLATE"].format(criteria=criterion.description, **levels)
    expected = theirs["ABSOLUTE_PROMPT"].format(
        instruction=CASE.prompt, response=one, reference_answer="4", rubric=rubric
    )
    assert filled(config, referenced)[1] == f"Rate fairly.\n{expected}"


def test_pandalm_and_auto_j(authors):
    one, two = (response.text.strip() for response in CASE.responses)
    config = authors("pandalm", "pandalm_inference.py")
    answers = f"#1:\n{one}\n\n#2:\n{two}"
    assert filled(config)[1] == f"Without.\n#Task:\n2 + 2?\n\n{answers}\n#Eval:\n"
    with_input = Case("i", CASE.prompt, CASE.responses, context="A table")
    expected = f"With input {{braces}}.\n#Task:\n2 + 2?\n#Input:\nA table\n{answers}\n#Eval:\n"
    assert filled(config, with_input)[1] == expected
    one, two = (response.text for response in CASE.responses)
    assert filled(authors("auto_j", "constants_prompt.py"))[1] == f"[INST] 2 + 2?\n***\n{one}\n***\n{two} [/INST]"
    text = filled(authors("auto_j_scores", "constants_prompt.py"))[1]
    assert text == f'[INST] Rate 2 + 2? by {one}. End with "Rating: [[5]]". [/INST]'


A, B, TIE, NONE = 1.0, -1.0, 0.0, None
ANSWERS = {
    "prometheus2": {
        "Response B is vague. [RESULT] A": A,
        "Both. [RESULT] B": B,
        "Feedback: so. [Result] Response B": B,
        "Good.\nResult: A": A,
        "first [RESULT] B then [RESULT] A": B,
        "Response A is better.": NONE,
        "[RESULT] Tie": NONE,
    },
    "prometheus2_scores": {
        "It is good. [RESULT] 4": 4.0,
        "Fine. [RESULT] (3)": 3.0,
        "So the score of 2 out of 5": 2.0,
        "Score: 5/5": 5.0,
        "[RESULT] 7": NONE,
        "no": NONE,
    },
    "pandalm": {"1\n\n### Reason: it": A, "2\n": B, "Tie\n\n### Reason": TIE, "1": A, "Both 1 and 2": NONE, "": NONE},
    "auto_j": {
        "1. It.\nSo, the final decision is Response 1.": A,
        "the final decision is Response 1? No. So, the final decision is Response 2": B,
        "So, the final decision is Tie.": TIE,
        "So, the final decision is unclear": NONE,
    },
    "auto_j_scores": {"... Rating: [[7]]": 7.0, "Rating: [[5]] or Rating: [[6]]": 6.0, "Rating: 5": NONE},
}


@pytest.mark.parametrize("preset", ANSWERS)
def test_answers_are_read_by_the_authors_rules(authors, preset):
    file = next(name for name in FILES if name[:4] in {"prom": "prom", "pand": "pand", "auto": "cons"}[preset[:4]])
    evaluator = make_evaluator(authors(preset, file))
    for answer, expected in ANSWERS[preset].items():
        for request in evaluator.plan(CASE)[:2]:
            read = evaluator.read(request, Completion(answer, finish_reason="stop"))
            value = read.value if len(request.unit) == 2 else next(iter(read.criteria.values()), None)
            swapped = request.shown != request.unit and value
            assert (-value if swapped else value) == expected, answer
            assert (read.status == "unparseable") == (expected is None)


@pytest.mark.shared
def test_the_feedback_that_prometheus_learned_from_is_read(authors):
    path = Path(__file__).resolve().parents[3] / "shared" / "data" / "prometheus_vicuna" / "vicuna_eval.json"
    if not path.is_file():
        pytest.skip("needs ../shared/data/prometheus_vicuna")
    rows = json.loads(path.read_text("utf-8"))
    evaluator = make_evaluator(authors("prometheus2_scores", "prompts.py"))
    request, wrong = evaluator.plan(CASE)[0], []
    stored = [one for row in rows for one in zip(row["gpt4_feedback"], row["gpt4_score"], strict=True)]
    for feedback, score in stored:
        read = evaluator.read(request, Completion(f"Feedback: {feedback} [RESULT] {score}", finish_reason="stop"))
        if [*read.criteria.values()] != [score]:
            wrong.append(feedback)
    # By the authors' rule the first match counts, and one text mentions another score before its own.
    assert (len(wrong), len(stored)) == (1, 960)
    assert "as required by a score of 5" in wrong[0]


def test_faults_are_one_line(authors, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"download it from https://github.com/WeOpenML.*set prompt.template=PATH"):
        load_config(overrides=["judge=pandalm"])
    for name, text, said in [
        ("missing.py", None, "get it from https://github.com/WeOpenML"),
        ("bad.py", "def (", "cannot be read"),
        ("other.py", "TEXT = 'x'", r"has no text named 'input_sequence\[0\]'"),
        (
            "loop.py",
            "rsp = f'{rsp}'\ninput_sequence = f'{rsp}'\ninput_sequence = f'{rsp}'",
            "has no text named",
        ),
        ("braces.py", "input_sequence = '{'\ninput_sequence = '}'", "cannot be read"),
        ("unmapped.py", "input_sequence = f'{x}'\ninput_sequence = f'{x}'", "unknown placeholder 'x'"),
        ("none.py", "input_sequence = ''\ninput_sequence = ''", "has no placeholder 'original_prompt'"),
    ]:
        if text is not None:
            Path(name).write_text(text, "utf-8")
        with pytest.raises(PromptError, match=said) as error:
            make_evaluator(authors("pandalm", name))
        assert "\n" not in str(error.value)


def test_the_text_is_recorded_so_that_the_run_can_be_repeated_without_the_file(authors):
    config = authors("auto_j", "constants_prompt.py")
    evaluator = make_evaluator(config)
    Path("constants_prompt.py").unlink()
    again = make_evaluator(config, recorded=json.loads(json.dumps(evaluator.prompt_texts)))
    assert again.plan(CASE) == evaluator.plan(CASE)


@given(text=st.text(st.characters(codec="utf-8"), max_size=40), value=st.text(st.characters(codec="utf-8"), max_size=9))
def test_any_text_is_filled_as_python_fills_it(tmp_path_factory, text, value):
    text = text.replace("\r", "").replace("{", "{{").replace("}", "}}") + "{x}" + text.replace("{", "").replace("}", "")
    text = text.replace("\r", "")
    path = tmp_path_factory.mktemp("foreign") / "template.txt"
    path.write_bytes(text.encode())
    source = SourceConfig(url="here", fields={"x": "original_prompt"})
    prompts = Prompts("en", recorded={path.name: foreign_template(path, source)})
    [message] = prompts.render(path.name, original_prompt=value)
    assert message["content"] == text.format(x=value)
