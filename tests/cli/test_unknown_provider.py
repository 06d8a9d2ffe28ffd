"""No plan accepts a judge whose provider LiteLLM does not know, wherever the judge is named."""

import pytest

from evalkit.config import JudgeConfig
from evalkit.errors import JudgeSetupError
from evalkit.judges.pricing import check_provider, providers
from tests.support.command_line import call_main

NONE = "{model: nosuch/x}"
KNOWN = "judge=gpt-4o-mini"
DOORS = {
    "judge": ("judge.model=nosuch/x",),
    "panel": (f"judge.judges=[{NONE},{{model: openai/gpt-4o-mini}}]",),
    "cascade": ("judge=cascade", f"judge.judges=[{NONE},{{model: openai/gpt-4o-mini}}]"),
    "third pass": ("swap=third_pass", f"+swap.arbiter={NONE}"),
    "rewriter": (f"+probe.rewriter={NONE}",),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_plan_refuses_it(tmp_path, monkeypatch, capfd, door):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("id,prompt,response_a,response_b\n1,?,x,y\n", "utf-8")
    words = (KNOWN, *DOORS[door], "dataset=file", "dataset.path=rows.csv")
    assert "LiteLLM does not know the provider of 'nosuch/x'" in call_main(capfd, "plan", *words, status=1).line()


def test_each_provider_of_litellm_is_known(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    assert {getattr(name, "value", name) for name in litellm.provider_list} <= providers()


@pytest.mark.parametrize(
    "judge",
    [
        {"model": "nosuch/x", "api_base": "http://127.0.0.1:1/v1"},
        {"model": "simulated/good"},
        {"model": "local/smollm2"},
        {"model": "x"},
        {"model": "openai/unlisted"},
        {"model": "nosuch/x", "transport": "other"},
    ],
)
def test_other_judges_are_left_alone(judge):
    check_provider(JudgeConfig(**judge))
    with pytest.raises(JudgeSetupError):
        check_provider(JudgeConfig(model="nosuch/x"))
