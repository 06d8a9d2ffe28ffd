"""Every shipped probe: a valid edit in English and Chinese, and the prompt that the judge sees."""

import pytest

from evalkit.audit import expand, probes_of
from evalkit.audit.plan import ProbedEvaluator
from evalkit.audit.probes import own_probes
from evalkit.compose import load_config
from evalkit.config import ModeConfig
from evalkit.core.types import Case, Completion, Response
from evalkit.evaluators.factory import make_evaluator
from evalkit.testing import check_probe

EN = Case(
    "en",
    "When did Apollo 11 land?",
    (Response("It landed in 1969. Two people walked."), Response("In 1999.")),
)
ZH = Case(
    "zh",
    "长江有多长？",
    (Response("长江是中国最长的河流。全长约6300公里。"), Response("大约一千公里。")),
    label="A",
)


def texts(case: Case, name: str, *overrides: str) -> list[str]:
    config = load_config(overrides=[f"probe={name}", *overrides])
    *_, found = expand(case, probes_of(config), config)
    assert found.id == f"{case.id}#probe:{name}"
    return [response.text for response in found.responses]


@pytest.mark.parametrize("name", sorted(own_probes().keys() - {"repeat"}))
def test_a_probe_is_sound(name):
    check_probe(name, cases=(EN, ZH))


def test_every_probe_is_an_option_and_most_are_standard():
    standard = load_config(overrides=["probe=standard"]).probe.probes
    assert own_probes().keys() - standard.keys() == {"names", "paraphrase"}
    names = [*own_probes()]
    assert [*load_config(overrides=[f"probe=[{','.join(names)}]"]).probe.probes] == names


def test_edits_are_in_the_language_of_the_case():
    assert texts(ZH, "error") == [ZH.responses[0].text, "长江是中国最长的河流。全长约12603公里。"]
    assert texts(ZH, "truncated")[1] == ZH.responses[0].text[:10]
    assert "90% 的读者" in texts(ZH, "bandwagon")[1]
    assert "This is an interesting question." in texts(ZH, "wrong_language")[1]
    assert "smollm" in texts(ZH, "self")[1]
    negated = Case("x", "Is it?", (Response("Water is wet."), Response("No.")), label="A")
    assert texts(negated, "error")[1] == "Water is not wet."


def test_a_single_response_is_edited_alone():
    assert texts(ZH, "error", "mode=pointwise", "swap=none") == [
        "长江是中国最长的河流。全长约12603公里。"
    ]
    assert texts(ZH, "authority", "mode=pointwise", "swap=none")[0].startswith("大约一千公里。")


@pytest.mark.parametrize(("prompt", "output"), [("en", "json"), ("zh", "json"), ("en", "bracket")])
def test_other_names_are_shown_and_read_back(prompt, output):
    config = load_config(overrides=["probe=letters", f"prompt={prompt}", f"output={output}"])
    probes = probes_of(config)
    evaluator = ProbedEvaluator(config, make_evaluator(config, prompt_folders=[]), probes)
    *_, case = expand(
        Case("c", "A or B?", (Response("Plan A is better."), Response("B"))), probes, config
    )
    request = evaluator.plan(case)[0]
    shown = "\n".join(message["content"] for message in request.messages)
    assert "Plan A is better." in shown
    assert '"A"' not in shown
    assert "[[A]]" not in shown
    assert "# Response A" not in shown
    words = '{"comparison": [], "result": {"reasoning": "", "winner": "1", "confidence": 1}}'
    if output == "json":
        assert '"enum": ["1", "2", "TIE"]' in str(dict(request.answer.schema)).replace("'", '"')
        names = ", ".join(
            f'{{"criterion": "{name}", "winner": "1", "reasoning": ""}}' for name in config.criteria
        )
        words = words.replace("[]", f"[{names}]")
    judgment = evaluator.read(request, Completion("[[1]]" if output == "bracket" else words))
    assert judgment.value == 1.0


def test_probes_that_make_no_sense_are_left_out():
    def names(*overrides: str) -> set[str]:
        config = load_config(overrides=["probe=standard", *overrides])
        return {probe.name for probe in probes_of(config)}

    assert "identical" not in names("tie=forbid")
    assert names() - names("mode=pointwise", "swap=none") == {"order", "letters", "identical"}
    assert "criteria_order" not in names("~criteria.clarity", "~criteria.accuracy")
    assert ModeConfig().name == "pairwise"
