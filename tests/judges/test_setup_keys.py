"""An invalid judge is reported by its own key and file, wherever it is configured."""

from pathlib import Path

import pytest

from evalkit.config import RunConfig
from evalkit.core.errors import AccessError, JudgeSetupError
from evalkit.judges import describe_rewriter, make_arbiter, make_judges
from evalkit.judges.setup import keys_below
from tests.support.command_line import call_main

WITHOUT_ADDRESS = {"model": "openai/other", "transport": "direct"}


def config(**sections):
    return RunConfig.model_validate(
        {"judge": {"model": "openai/m"}, "criteria": {"overall": {}}, **sections}
    )


def test_the_arbiter_is_named():
    run = config(swap={"policy": "both", "resolve": "third_pass", "arbiter": WITHOUT_ADDRESS})
    with pytest.raises(JudgeSetupError, match=r"^swap\.arbiter\.api_base: ") as caught:
        make_arbiter(run)
    assert " judge." not in str(caught.value).replace("swap.arbiter.", "")


def test_the_rewriter_is_named():
    rewriter = {"model": "openai/other", "api_base": "not an address"}
    run = config(mode={"name": "pairwise"}, probe={"rewriter": rewriter})
    with pytest.raises(JudgeSetupError, match=r"^probe\.rewriter\.api_base: "):
        describe_rewriter(run)


def test_a_judge_keeps_its_key():
    run = config(judge=WITHOUT_ADDRESS)
    with pytest.raises(JudgeSetupError, match=r"^judge\.api_base: "):
        make_judges(run.judge, run.runner)


def test_a_remedy_names_the_key_and_the_kind_of_the_error_stays():
    with pytest.raises(AccessError) as caught, keys_below("align.model"):
        raise AccessError("denied", remedy="check judge.model and judge.api_base")
    assert str(caught.value) == "align.model: denied; check align.model and align.model.api_base"


def test_a_shared_fault_is_reported_in_the_chosen_file(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("conf/judge")
    folder.mkdir(parents=True)
    for name in ("aaa", "zzz"):
        text = "model: simulated/fair\ntemperature: hot\n"
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    line = call_main(capfd, "plan", "judge=zzz", status=1).line()
    assert line.startswith("conf/judge/zzz.yaml:2: judge.temperature")
