"""What a config may ask of Hydra where code is not allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from evalkit.errors import ConfigError
from evalkit.hydra_app.code_policy import check, check_place, check_search_path
from evalkit.plugins import allowing_code

BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


def composed(**hydra: Any) -> Any:
    launcher = {"_target_": "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher"}
    parts = {"job": {}, "sweeper": {"_target_": BASIC}, "launcher": launcher, "name": "x", **hydra}
    return OmegaConf.create({"hydra": parts})


@pytest.mark.parametrize(
    "hydra",
    [
        {},
        {"job_logging": {"version": 1, "disable_existing_loggers": False}},
        {"sweeper": {"_target_": BASIC, "sampler": {"_target_": "optuna.samplers.TPESampler", "seed": 1}}},
        {"sweeper": {"_target_": BASIC, "params": ["${hydra.name}"]}},
    ],
)
def test_settings_that_name_no_code_are_allowed(hydra: dict[str, Any]) -> None:
    check(composed(**hydra))


@pytest.mark.parametrize(
    ("hydra", "where", "what"),
    [
        ({"callbacks": {"one": {"_target_": "evil"}}}, "hydra.callbacks", "names code that Hydra would run"),
        ({"env": {"x": 1}}, "hydra.env", "names code that Hydra would run"),
        ({"job_logging": {"handlers": {}}}, "hydra.job_logging", "sets up logging"),
        ({"hydra_logging": "${hydra.name}"}, "hydra.hydra_logging", "sets up logging"),
        ({"hydra_logging": {"root": {"level": "INFO"}}}, "hydra.hydra_logging", "sets up logging"),
        ({"job": {"env_set": {"PYTHONPATH": "x"}}}, "hydra.job.env_set", "sets environment variables"),
        ({"sweeper": {"_target_": "evil.Sweeper"}}, "hydra.sweeper._target_", "names code (evil.Sweeper)"),
        (
            {"sweeper": {"_target_": BASIC, "parts": [{"_target_": "evil.Part"}]}},
            "hydra.sweeper.parts[0]._target_",
            "names code (evil.Part)",
        ),
        ({"sweeper": {"_target_": BASIC, "custom_search_space": "evil.f"}}, "custom_search_space", "may run code"),
        ({"sweeper": {"_target_": BASIC, "part": "${hydra.none}"}}, "hydra.sweeper.part", "by an interpolation"),
        ({"sweeper": {"_target_": BASIC, "part": "${hydra.job}"}}, "hydra.sweeper.part", "by an interpolation"),
    ],
)
def test_settings_that_name_code_are_refused_unless_it_is_allowed(hydra: dict[str, Any], where: str, what: str) -> None:
    with pytest.raises(ConfigError) as error, allowing_code(False):
        check(composed(**hydra))
    assert where in str(error.value)
    assert what in str(error.value)
    assert "--allow-code" in str(error.value)


def test_a_search_path_may_not_be_a_package() -> None:
    study = OmegaConf.create({"hydra": {"searchpath": ["file://conf", "pkg://evil.conf"]}})
    with (
        pytest.raises(ConfigError, match=r"hydra\.searchpath: names a package, which is imported"),
        allowing_code(False),
    ):
        check_search_path(study)
    with allowing_code(True):
        check_search_path(study)


def test_only_the_command_line_may_name_a_place_elsewhere(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    check_place(here / "outputs", here, [])
    check_place(elsewhere, here, ["+hydra.run.dir=../elsewhere"])
    with pytest.raises(ConfigError, match="the config would write outside the current folder"):
        check_place(elsewhere, here, ["judge=x"])
