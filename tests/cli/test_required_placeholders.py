"""A template that does not show what it must is refused by `plan`, `doctor` and `run`, before any call."""

from pathlib import Path

import pytest

RUBRIC = ("mode=pointwise", "output=rating", "criteria=overall")
WRONG = {
    "no response_b": (
        (),
        "{{ original_prompt }} {{ response_a }} {% for c in criteria %}{{ c.name }}{% endfor %}",
        "response_b",
    ),
    "nothing": ((), "Which is better?", "original_prompt"),
    "never shown": (
        ("output=bracket",),
        "{{ original_prompt }}{{ response_a }}{% if 0 %}{{ response_b }}{% endif %}",
        "response_b",
    ),
    "block replaced": (
        (),
        "{% extends 'shipped/en/pairwise.md.j2' %}{% block user %}{{ original_prompt }}{{ response_b }}{% endblock %}",
        "response_a",
    ),
    "no criteria": ((), "{{ original_prompt }}{{ response_a }}{{ response_b }}", "criteria"),
    "no response": (RUBRIC, "{{ original_prompt }}", "response"),
    "no task": (RUBRIC, "{{ response }}", "original_prompt"),
    "no list": (
        ("mode=listwise",),
        "{{ original_prompt }}{% for c in criteria %}{{ c.name }}{% endfor %}",
        "responses",
    ),
}


@pytest.mark.parametrize(
    ("command", "name"),
    [*(("plan", name) for name in WRONG), ("doctor", "nothing"), ("run", "nothing")],
)
def test_a_template_that_lacks_a_placeholder_is_refused(call, tmp_path, command, name):
    overrides, template, lacking = WRONG[name]
    path = Path(tmp_path, "prompts", "en", "mine.md.j2")
    path.parent.mkdir(parents=True)
    path.write_text(template, "utf-8")
    words = [command, *overrides, "prompt.template=mine", "tracking=none", "store=off"]
    done = call(*words, status=1)
    wrong = [line for line in (done.out + done.err).splitlines() if "has no placeholder" in line]
    assert len(wrong) == 1
    assert f"{path}: has no placeholder '{lacking}'" in wrong[0]


@pytest.mark.parametrize(
    ("name", "text", "lacking"),
    [("answer", "Hello.", "original_prompt"), ("own_answer", "Yes.", "own_answer")],
)
def test_so_is_one_for_the_judges_own_answer(call, tmp_path, name, text, lacking):
    path = Path(tmp_path, "prompts", "en", f"{name}.md.j2")
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    line = call("plan", "mode.commit_first=true", "store=off", status=1).err
    assert f"{path}: has no placeholder '{lacking}'" in line


def test_a_template_may_name_the_criteria_itself_and_change_the_texts(call, tmp_path):
    path = Path(tmp_path, "prompts", "en", "mine.md.j2")
    path.parent.mkdir(parents=True)
    path.write_text(
        "{{ original_prompt | upper }}{{ response_a | trim }}{{ response_b }} accuracy, instruction following, clarity",
        "utf-8",
    )
    call("plan", "prompt.template=mine", "store=off")
