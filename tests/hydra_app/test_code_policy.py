"""What a config may ask of Hydra where code is not allowed."""

from typing import Any

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf

from evalkit.compose.code_policy import check, check_place, check_search_path
from evalkit.core.errors import ConfigError
from evalkit.core.plugins import HARMLESS, allowing_code

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
        {
            "sweeper": {
                "_target_": BASIC,
                "sampler": {"_target_": "optuna.samplers.TPESampler", "seed": 1},
            }
        },
        {"sweeper": {"_target_": BASIC, "params": ["${hydra.name}"]}},
    ],
)
def test_settings_that_name_no_code_are_allowed(hydra):
    check(composed(**hydra))


@pytest.mark.parametrize(
    ("hydra", "where", "what"),
    [
        (
            {"callbacks": {"one": {"_target_": "evil"}}},
            "hydra.callbacks",
            "names code that Hydra would run",
        ),
        ({"env": {"x": 1}}, "hydra.env", "names code that Hydra would run"),
        ({"job_logging": {"handlers": {}}}, "hydra.job_logging", "sets up logging"),
        ({"hydra_logging": "${hydra.name}"}, "hydra.hydra_logging", "sets up logging"),
        ({"hydra_logging": {"root": {"level": "INFO"}}}, "hydra.hydra_logging", "sets up logging"),
        (
            {"job": {"env_set": {"PYTHONPATH": "x"}}},
            "hydra.job.env_set",
            "sets environment variables",
        ),
        (
            {"sweeper": {"_target_": "evil.Sweeper"}},
            "hydra.sweeper._target_",
            "names code (evil.Sweeper)",
        ),
        (
            {"sweeper": {"_target_": BASIC, "parts": [{"_target_": "evil.Part"}]}},
            "hydra.sweeper.parts[0]._target_",
            "names code (evil.Part)",
        ),
        (
            {"sweeper": {"_target_": BASIC, "custom_search_space": "evil.f"}},
            "custom_search_space",
            "may run code",
        ),
        (
            {"sweeper": {"_target_": BASIC, "part": "${hydra.none}"}},
            "hydra.sweeper.part",
            "by an interpolation",
        ),
        (
            {"sweeper": {"_target_": BASIC, "part": "${hydra.job}"}},
            "hydra.sweeper.part",
            "by an interpolation",
        ),
    ],
)
def test_settings_that_name_code_are_refused_unless_it_is_allowed(hydra, where, what):
    with pytest.raises(ConfigError) as error, allowing_code(False):
        check(composed(**hydra))
    assert where in str(error.value)
    assert what in str(error.value)
    assert "--allow-code" in str(error.value)


def test_a_search_path_may_not_be_a_package():
    study = OmegaConf.create({"hydra": {"searchpath": ["file://conf", "pkg://evil.conf"]}})
    with (
        pytest.raises(ConfigError, match=r"hydra\.searchpath: names a package, which is imported"),
        allowing_code(False),
    ):
        check_search_path(study)
    with allowing_code(True):
        check_search_path(study)


def test_only_the_command_line_may_name_a_place_elsewhere(tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    check_place(here / "outputs", here, [])
    check_place(elsewhere, here, ["+hydra.run.dir=../elsewhere"])
    with pytest.raises(ConfigError, match="the config would write outside the current folder"):
        check_place(elsewhere, here, ["judge=x"])


# What the command line may set, and a file may not. Decide about a new key: does it name a command,
# a path, a server or another job? If not, add it to `HARMLESS`.
SUBMITIT = {
    "additional_parameters", "comment", "constraint", "dependency", "exclude", "exclusive", "job_name", "mail_type",
    "mail_user", "nodelist", "setup", "srun_args", "teardown", "use_srun", "wckey",
}  # fmt: skip
RAY = {
    "_actor_generator_backpressure_num_objects", "_labels", "accelerator_type", "allow_out_of_order_execution",
    "concurrency_groups", "enable_task_events", "enable_tensor_transport", "fallback_strategy", "get_if_exists",
    "label_selector", "lifetime", "max_concurrency", "max_pending_calls", "max_restarts", "max_task_retries",
    "namespace", "object_store_memory", "placement_group", "placement_group_bundle_index",
    "placement_group_capture_child_tasks", "resources", "runtime_env", "scheduling_strategy", "address",
}  # fmt: skip
LAUNCHERS = SUBMITIT | {
    "address", "backend", "batch_size", "max_nbytes", "mmap_mode", "pre_dispatch", "prefer", "python", "require",
    "submitit_folder", "temp_folder", "timeout",
}  # fmt: skip
SWEEPERS = {"custom_search_space", "storage"}
LOOKED_INTO = {"params", "search_space", "sampler", "defaults"}
"""Keys of sweepers whose contents are checked."""


@pytest.mark.parametrize(
    ("kind", "refused"), [("launcher", LAUNCHERS), ("sweeper", SWEEPERS | LOOKED_INTO)]
)
def test_every_setting_of_an_installed_launcher_or_sweeper_is_decided(kind, refused):
    if kind == "launcher":
        pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    Plugins.instance()
    nodes = [
        option.node
        for option in ConfigStore.instance().repo["hydra"][kind].values()
        if hasattr(option, "node")
    ]
    assert len(nodes) == {"launcher": 5, "sweeper": 2}[kind], "a new one: decide about its keys"
    keys = {str(key) for node in nodes for key in node}
    assert keys - HARMLESS[f"hydra.{kind}"] - refused == set()
    assert not HARMLESS[f"hydra.{kind}"] & refused


def test_every_option_of_workers_is_decided():
    submitit = pytest.importorskip("submitit")
    assert submitit.core.plugins.get_executors().keys() == {"slurm", "local", "debug"}, (
        "a new one: decide about it"
    )
    general = submitit.AutoExecutor._valid_parameters()
    slurm, local = (
        submitit.core.plugins.get_executors()[name]._valid_parameters()
        for name in ("slurm", "local")
    )
    assert general - HARMLESS["runner.options"] == set()
    for prefix, keys in (("slurm_", general | slurm), ("", slurm), ("local_", local)):
        assert {
            key for key in keys if f"{prefix}{key}" not in HARMLESS["runner.options"]
        } - SUBMITIT == set()
    assert (
        not {f"{prefix}{key}" for key in SUBMITIT for prefix in ("", "slurm_", "local_")}
        & HARMLESS["runner.options"]
    )


def test_every_option_of_an_actor_is_decided():
    options = pytest.importorskip("ray._common.ray_option_utils").actor_options
    assert options.keys() - HARMLESS["runner.options"] - RAY == set()
    assert not RAY & HARMLESS["runner.options"]


@pytest.mark.parametrize(
    ("value", "harmless"),
    [
        ("cpu", True),
        ("a100,h100", True),
        ("gpu:2", True),
        ("1-00:00:00", True),
        ("16G", True),
        ("my job 3", True),
        (4, True),
        (0.5, True),
        (True, True),
        (None, True),
        ("${oc.env:PARTITION}", True),
        ("${oc.env:PARTITION,cpu}", True),
        ("x\nid", False),
        ("x\r", False),
        ("--wrap=id", False),
        ("$(id)", False),
        ("`id`", False),
        ("a;b", False),
        ("${hydra.name}", False),
        ("${oc.env:A,${hydra.name}}", False),
        (["x", "$(id)"], False),
        ({"a": 1}, False),
    ],
)
def test_a_harmless_key_takes_plain_values_only(value, harmless):
    cfg = composed()
    cfg.runner = {"options": {"slurm_partition": value}}
    with allowing_code(False):
        if harmless:
            check(cfg)
            return
        with pytest.raises(ConfigError, match=r"runner\.options\.slurm_partition"):
            check(cfg)
