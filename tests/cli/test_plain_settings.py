"""The config of judgments made elsewhere is the same with and without Hydra."""

import pytest

from evalkit.cli.plain_settings import load_settings, plain_settings
from evalkit.compose import load_settings as compose_settings
from evalkit.core.errors import ConfigError

POINTWISE = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
SETTINGS = {
    "classes": {
        **POINTWISE,
        "judge": {"name": "gpt", "model": "gpt", "temperature": None},
        "criteria": {"overall": {"weight": 1.0}},
        "rubric": {"classes": {"pass": "a ${word}", "fail": "1e3"}, "positive": "pass"},
        "scoring": {"slices": ["language"], "cluster": "case"},
    },
    "panel": {
        "mode": {"name": "pairwise"},
        "judge": {
            "name": "panel",
            "model": None,
            "judges": [
                {"name": "a b", "model": "a", "temperature": None},
                {"name": "評価", "model": "c", "temperature": None, "logprobs": "fallback"},
            ],
        },
        "criteria": {"日本 x": {"weight": 0.5}, "a": {"weight": 2}},
    },
    "scores": {
        **POINTWISE,
        "judge": {"name": "j", "model": "j"},
        "criteria": [{"name": "x", "description": "y"}],
        "rubric": {"min": 0.0, "max": 1.0, "step": 0.001},
    },
}


@pytest.mark.parametrize("overrides", [[], ["tracking=none"]])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_config_without_hydra_is_the_composed_one(name, overrides):
    config = plain_settings(SETTINGS[name], overrides)
    assert config == compose_settings(SETTINGS[name], overrides)
    assert config.tracking.enabled is not bool(overrides)


@pytest.mark.parametrize("settings", [{}, {"mode": {"nmae": "pairwise"}}])
def test_errors_are_those_of_composing(settings):
    with pytest.raises(ConfigError) as plain:
        load_settings(settings, ["tracking=none"])
    with pytest.raises(ConfigError) as composed:
        compose_settings(settings, ["tracking=none"])
    assert str(plain.value) == str(composed.value)
