"""Run folders, studies and folders of somebody else's that try to run code: on each command, and by each way in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalkit import load_config, run
from evalkit.cli import main
from evalkit.core.errors import ConfigError
from tests.support.command_line import BRIEF, run_once

JUDGED = "id,prompt,response_a,response_b,winner,order,label\n" + "".join(
    f"{n},Name a prime.,7,9,A,{order},A\n" for n in range(3) for order in ("ab", "ba")
)
EVIL = """\
from pathlib import Path
Path({marker!r}).write_text("imported")
class Mode:
    def __init__(self, *given): Path({marker!r}).write_text("made")
    plan = read = record = winner = score = __call__ = lambda self, *given, **named: function()
def function(*given, **named):
    Path({marker!r}).write_text("called")
"""
IN_CONFIG = [
    {"mode": {"name": "evil.Mode"}},
    {"mode": {"_target_": "evil.Mode"}},
    {"output": {"format": "evil:Mode"}},
    {"dataset": {"format": "evil.Mode"}},
    {"dataset": {"format": "runpy.run_path", "path": "{payload}"}},
    {"dataset": {"join": {"more": {"path": "{payload}", "format": "runpy.run_path", "by": "id"}}}},
    {"tracking": {"tracker": "evil.Mode", "enabled": True}},
    {"dataset": {"filter": "().__class__.__mro__[1].__subclasses__()"}},
    {"dataset": {"fields": {"prompt": "{{ prompt.__class__.__init__.__globals__ }}"}}},
]
OF_HYDRA = [
    {"callbacks": {"one": {"_target_": "evil.function"}}},
    {"callbacks": "${mode.params}"},
    {"launcher": {"_target_": "evil.Mode"}},
    {"sweeper": {"_target_": "evil.Mode"}},
    {"sweeper": {"params": {"scoring.seed": {"_target_": "evil.function"}}}},
    {"sweeper": {"params": "${mode.params}"}},
    {"sweeper": {"params": {"scoring.seed": "${oc.decode:'{_target_: evil.function}'}"}}},
    {
        "job_logging": {
            "version": 1,
            "handlers": {"h": {"()": "evil.function"}},
            "root": {"handlers": ["h"]},
        }
    },
    {"job_logging": {"version": 1, "formatters": {"f": {"()": "evil.function"}}}},
    {"hydra_logging": {"version": 1, "handlers": {"h": {"class": "evil.Mode"}}}},
    {"job": {"env_set": {"EVALKIT_ALLOW_CODE": "1"}}},
    {"searchpath": ["pkg://evil"]},
    {"run": {"dir": "{elsewhere}"}},
    {"run": {"dir": "../elsewhere"}},
    {"output_subdir": "../../../../elsewhere"},
    {"mode": "MULTIRUN", "sweep": {"dir": "../elsewhere"}},
    {"mode": "MULTIRUN", "sweep": {"subdir": "../../../../elsewhere"}},
    {"sweep": {"dir": "a/b/c"}, "sweeper": {"params": {"hydra.sweep.dir": "{elsewhere}"}}},
]
OF_WORKERS = [
    {"kind": "slurm", "options": {"cluster": "local", "local_setup": ["touch {marker}"]}},
    {"kind": "slurm", "options": {"cluster": "local", "setup": ["touch {marker}"]}},
    {"kind": "slurm", "options": {"slurm_setup": ["touch {marker}"]}},
    {"kind": "slurm", "options": {"slurm_srun_args": ["--prolog={payload}"]}},
    {"kind": "slurm", "options": {"slurm_additional_parameters": {"wrap": "touch {marker}"}}},
    {"kind": "slurm", "options": {"slurm_partition": "x\ntouch {marker} #"}},
    {"kind": "slurm", "options": {"slurm_partition": "${mode.params.text}"}},
    {"kind": "slurm", "options": {"name": {"x\ntouch {marker}": 1}}},
    {"kind": "ray", "options": {"runtime_env": {"py_executable": "touch {marker}"}}},
    {"kind": "ray", "options": {"address": "127.0.0.1:9"}},
    {"kind": "ray", "options": {"num_cpus": {"runtime_env": {"py_executable": "touch {marker}"}}}},
    {"kind": "slurm", "options": "${mode.params}"},
    "${mode.params.runner}",
]
OF_LAUNCHERS: list[tuple[str, dict[str, Any]]] = [
    ("launcher: submitit_slurm", {"launcher": {"setup": ["touch {marker}"]}}),
    (
        "launcher: submitit_slurm",
        {"launcher": {"additional_parameters": {"wrap": "touch {marker}"}}},
    ),
    ("launcher: submitit_slurm", {"launcher": {"account": "x\ntouch {marker} #"}}),
    ("launcher: submitit_local", {"launcher": {"submitit_folder": "{elsewhere}"}}),
    ("launcher: submitit_local", {"launcher": {"name": "${hydra.job.id}"}}),
    ("launcher: joblib", {"launcher": {"pre_dispatch": "__import__('os').mkdir('{marker}')"}}),
    ("launcher: joblib", {"launcher": {"backend": "ray"}}),
    ("launcher: joblib", {"launcher": {"temp_folder": "{elsewhere}"}}),
    ("launcher: ray", {"launcher": {"address": "127.0.0.1:9"}}),
    (
        "launcher: basic",
        {"launcher": {"_target_": "hydra._internal.core_plugins.basic_launcher.filter_overrides"}},
    ),
    ("sweeper: optuna", {"sweeper": {"storage": "redis://127.0.0.1:9"}}),
    ("sweeper: optuna", {"sweeper": {"storage": {"_target_": "evil.function"}}}),
    ("sweeper: optuna", {"sweeper": {"custom_search_space": "evil.function"}}),
    (
        "sweeper: optuna",
        {"sweeper": {"sampler": {"_target_": "optuna.samplers.intersection_search_space"}}},
    ),
    (
        "sweeper: optuna",
        {"sweeper": {"params": {"++runner.options.local_setup": "choice(['touch {marker}'])"}}},
    ),
    (
        "sweeper: basic",
        {"sweeper": {"params": {"+runner.options.local_setup": "[touch {marker}]"}}},
    ),
    ("sweeper: basic", {"sweeper": {"params": {"hydra.launcher.setup": "[touch {marker}]"}}}),
]


@pytest.fixture
def marker(tmp_path):
    """The file that stands if somebody's code ran."""
    return tmp_path / "attacked"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with judged data, and with the run imported from it."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "judged.csv").write_text(JUDGED, "utf-8")
    run_once(folder, "import", "generic", "judged.csv", *BRIEF, "hydra.run.dir=run")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, marker, finished):
    """A folder with a finished run, and with modules that somebody put beside it."""
    folder = tmp_path / "here"
    shutil.copytree(finished, folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("EVALKIT_ALLOW_CODE", raising=False)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    for name in ("evil.py", "payload.jsonl"):
        (folder / name).write_text(EVIL.format(marker=str(marker)), "utf-8")
    return folder


def change(folder: Path, more: dict[str, Any]) -> None:
    """Change the config of the run in a folder as an attacker would."""
    file = folder / "config.yaml"
    config = yaml.safe_load(file.read_text("utf-8"))
    for section, values in more.items():
        config[section] = (
            {**config.get(section, {}), **values} if isinstance(values, dict) else values
        )
    file.write_text(yaml.safe_dump(config), "utf-8")


def placed(value: Any, **places: str) -> Any:
    if isinstance(value, dict):
        return {key: placed(part, **places) for key, part in value.items()}
    if isinstance(value, list):
        return [placed(part, **places) for part in value]
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(f"{{{name}}}", place)
    return value


COMMANDS = {
    "run": ["run", "run/config.yaml", "hydra.run.dir=new", "judge=openai_compatible", "judge.model=openai/x",
            "judge.api_base=http://127.0.0.1:9", "store.mode=off"],
    "plan": ["plan", "run/config.yaml", "judge.model=openai/x", "store.mode=off"],
    "doctor": ["doctor", "run/config.yaml", "judge.model=openai/x", "judge.api_base=http://127.0.0.1:9",
               "store.mode=off"],
    "score": ["score", "run", "scoring.seed=3"],
    "reproduce": ["reproduce", "run"],
    "compare": ["compare", "run", "other", "folder=compared"],
    "drift": ["drift", "run", "other"],
    "track": ["track", "run"],
    "export": ["export", "run", "--to", "csv"],
    "import": ["import", "generic", "judged.csv", "tracking=none", "hydra.run.dir=run2"],
    "label": ["label", "run", "labels.csv"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_folder_runs_no_code(here, marker, command, capsys, thorough, empty_store):
    shutil.copy(empty_store, "mlflow.db")
    Path("labels.csv").write_text("id,annotator,label\n0,ann,A\n", "utf-8")
    change(
        here / "run", {"tracking": {"enabled": False}}
    )  # so that no MLflow is needed where the attack is another
    shutil.copytree("run", "other")
    # All commands read configs alike: by default, each third config is given to each of them.
    for more in IN_CONFIG if thorough or command == "plan" else IN_CONFIG[::3]:
        shutil.rmtree("run")
        shutil.copytree("other", "run")
        change(here / "run", placed(more, payload=str(here / "payload.jsonl")))
        ((section, keys),) = more.items()
        given = [
            f"{section}.{key}={value}"
            for key, value in keys.items()
            if str(value).startswith("evil")
        ]
        status = main([*COMMANDS[command], *(given if command == "import" else [])])
        out = capsys.readouterr()
        assert not marker.exists(), (more, status, out)
        assert "evil" not in sys.modules, more
        assert "Traceback" not in out.err
        if command in ("run", "plan") and section != "tracking":
            assert (status, len(out.err.splitlines())) == (1, 1), (more, out.err)
            assert out.err.startswith("evalkit: ")


def study(folder: Path, hydra: dict[str, Any], *options: str, **more: Any) -> Path:
    file = folder / "study.yaml"
    chosen = [yaml.safe_load(f"{{override hydra/{option}}}") for option in options]
    body = {
        "defaults": ["config", *chosen, "_self_"],
        "hydra": hydra,
        "tracking": {"enabled": False},
        **more,
    }
    file.write_text(yaml.safe_dump(body), "utf-8")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "plan", "doctor", "ui"])
def test_a_study_asks_hydra_for_no_code(here, marker, command, capsys, thorough):
    elsewhere = here.parent / "elsewhere"
    more = {"mode": {"params": {"one": {"_target_": "evil.function"}}}}
    judge = ["judge=openai_compatible", "judge.model=openai/x", "judge.api_base=http://127.0.0.1:9"]
    for hydra in OF_HYDRA if thorough or command == "run" else OF_HYDRA[::4]:
        if any("elsewhere" in str(value) for value in hydra.values()) and command != "run":
            continue  # nothing else writes there
        mode = "MULTIRUN" if "sweeper" in hydra else "RUN"
        study(here, placed({"mode": mode, **hydra}, elsewhere=str(elsewhere)), **more)
        status = main([command, "study.yaml", *judge])
        out = capsys.readouterr()
        assert not marker.exists(), (hydra, status, out)
        assert not elsewhere.exists()
        assert "evil" not in sys.modules
        assert (status, len(out.err.splitlines())) == (1, 1), (hydra, out.err)
        assert "--allow-code" in out.err


SIMULATED = ["judge=simulated/good", "store.url=a.sqlite"]
STUDIES = {
    "run": ["run"],
    "sweep": ["run", "-m"],
    "audit": ["audit"],
    "plan": ["plan"],
    "plan an audit": ["plan", "audit"],
    "work": ["work", "--shard", "1/1"],
    "write": ["batch", "write"],
    "doctor": ["doctor"],
    "ui": ["ui"],
    "config": ["run", "--cfg", "job"],
}  # fmt: skip


def refused(status: int, out: Any, marker: Path) -> bool:
    """Return whether a command refused a setting in one line, and no code ran."""
    assert not marker.exists(), out
    assert "evil" not in sys.modules
    assert len(out.err.splitlines()) == 1, out
    return status == 1 and "--allow-code" in out.err


@pytest.mark.slow
@pytest.mark.parametrize("door", ["study", "run folder", "group"])
def test_workers_take_no_commands_from_a_file(here, marker, door, capsys, thorough):
    params = {
        "params": {"text": "x", "options": {"setup": [f"touch {marker}"]}, "runner": OF_WORKERS[0]}
    }
    shutil.copytree("run", "other")
    (here / "conf" / "runner").mkdir(parents=True)
    for runner in OF_WORKERS if thorough or door == "study" else OF_WORKERS[::4]:
        runner = placed(runner, marker=str(marker), payload=str(here / "evil.py"))
        words = ["hydra.run.dir=new", *SIMULATED]
        if door == "study":
            words.insert(0, study(here, {}, mode=params, runner=runner).name)
        elif door == "run folder":
            shutil.rmtree("run")
            shutil.copytree("other", "run")
            change(here / "run", {"mode": params, "runner": runner})
            words.insert(0, "run/config.yaml")
        elif isinstance(runner, dict):
            (here / "conf" / "runner" / "mine.yaml").write_text(yaml.safe_dump(runner), "utf-8")
            words += ["runner=mine", "tracking=none", "+mode.params.setup=x", "+mode.params.text=x"]
        else:
            continue
        status = main(["run", *words])
        assert refused(status, capsys.readouterr(), marker), runner


@pytest.mark.slow
@pytest.mark.parametrize("command", STUDIES)
def test_no_command_takes_commands_of_workers_from_a_study(here, marker, command, capsys):
    study(here, {}, runner=placed(OF_WORKERS[0], marker=str(marker)))
    file = ["requests.jsonl"] if command == "write" else []
    assert refused(
        main([*STUDIES[command], "study.yaml", *SIMULATED, *file]), capsys.readouterr(), marker
    )


@pytest.mark.slow
def test_commands_without_workers_take_none_of_their_commands_from_a_run_folder(here, marker):
    change(here / "run", {"runner": placed(OF_WORKERS[0], marker=str(marker))})
    for words in (
        ["score", "run", "scoring.seed=3"],
        ["reproduce", "run"],
        ["drift", "run", "run"],
        ["compare", "run", "run"],
    ):
        main(words)  # these start no workers
        assert not marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("option", "hydra"), OF_LAUNCHERS, ids=str)
def test_launchers_and_sweepers_take_no_commands_from_a_file(here, marker, option, hydra, capsys):
    if "submitit" in option:
        pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    elsewhere = here.parent / "elsewhere"
    hydra = placed(hydra, marker=str(marker), elsewhere=str(elsewhere))
    study(here, {"mode": "MULTIRUN", **hydra}, option, objective="agreement/accuracy")
    # The command line may set the same key: the file's is refused all the same.
    for words in ([], ["+runner.options.local_setup=[]"]):
        status = main(
            [
                *("run", "study.yaml", *SIMULATED, *words, "tie.threshold=0,0.5"),
                "hydra.sweep.dir=a/b/c",
            ]
        )
        assert refused(status, capsys.readouterr(), marker)
    assert not elsewhere.exists()


def test_a_run_in_python_takes_no_commands_of_workers_unless_code_is_allowed(here, marker):
    words = [
        "runner=slurm",
        "runner.options.cluster=local",
        f"runner.options.local_setup=['touch {marker}']",
    ]
    config = load_config(overrides=[*SIMULATED, *words, "dataset.limit=1", "tracking=none"])
    with pytest.raises(ConfigError, match=r"runner\.options\.local_setup: may run code"):
        run(config, here / "new")
    assert not marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["command line", "flag"])
def test_the_user_may_set_any_option_of_workers(here, marker, way, capsys):
    if way == "command line":
        pytest.importorskip("submitit")
    setup = [f"touch {marker}"]
    options = {
        "cluster": "local",
        "timeout_min": 5,
        **({"local_setup": setup} if way == "flag" else {}),
    }
    study(here, {}, runner={"kind": "slurm", "workers": 1, "options": options})
    command, word = (
        ("plan", "--allow-code")
        if way == "flag"
        else ("run", f"runner.options.local_setup={setup}")
    )
    assert main([command, "study.yaml", *SIMULATED, word, "dataset.limit=2"]) == 0, (
        capsys.readouterr().err
    )
    assert marker.exists() == (way == "command line")


def test_a_group_of_somebodys_project_asks_hydra_for_no_code(here, marker, capsys):
    theirs = here / "theirs"
    (theirs / "conf" / "trap").mkdir(parents=True)
    (theirs / "experiments").mkdir()
    body = {"hydra": {"callbacks": {"one": {"_target_": "evil.function"}}}}
    (theirs / "conf" / "trap" / "one.yaml").write_text(
        "# @package _global_\n" + yaml.safe_dump(body), "utf-8"
    )
    (theirs / "experiments" / "s.yaml").write_text(
        "defaults: [config, {trap: one}, _self_]\n", "utf-8"
    )
    try:
        assert main(["run", "theirs/experiments/s.yaml", "tracking=none"]) == 1
    finally:
        os.environ.pop("EVALKIT_PROJECT", None)
    assert "hydra.callbacks: names code" in capsys.readouterr().err
    assert not marker.exists()


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_code_runs_where_the_user_allows_it(here, marker, how, monkeypatch, capsys):
    change(here / "run", {"mode": {"name": "evil.Mode"}})
    if how == "variable":
        monkeypatch.setenv("EVALKIT_ALLOW_CODE", "1")
    main([*COMMANDS["plan"], *(["--allow-code"] if how == "flag" else [])])
    assert marker.read_text("utf-8") == "called", capsys.readouterr().err
    assert os.environ.get("EVALKIT_ALLOW_CODE") == ("1" if how == "variable" else None)


@pytest.mark.parametrize("name", ["runpy.run_path", "evil.function", "subprocess.Popen"])
def test_a_path_must_lead_to_a_class_of_the_protocol(here, marker, name):
    (here / "evil.py").write_text("def function(path):\n    open('attacked', 'w')\n", "utf-8")
    config = load_config(
        overrides=[
            *(f"dataset.format={name}", f"dataset.path={here / 'payload.jsonl'}", "tracking=none"),
        ]
    )
    with pytest.raises(
        ConfigError,
        match=r"does not implement the protocol of '.*'; choose a class with the method __call__",
    ):
        run(config, here / "new", allow_code=True)
    assert not marker.exists()
    assert not (here / "attacked").exists()


def test_in_python_code_is_allowed_by_a_parameter(here, marker):
    config = load_config(overrides=["mode.name=evil.Mode", "dataset.limit=1", "tracking=none"])
    with pytest.raises(ConfigError, match=r"mode\.name: 'evil\.Mode' is a path to code"):
        run(config, here / "new")
    assert not marker.exists()
    hydra = {"callbacks": {"one": {"_target_": "evil.function"}}}
    study(here, hydra)
    with pytest.raises(ConfigError, match="names code that Hydra would run"):
        load_config("study.yaml")
    assert load_config("study.yaml", allow_code=True).tracking.enabled is False


@pytest.mark.slow
def test_the_current_folder_has_no_modules(here, marker):
    for name in ("numpy", "mlflow", "yaml", "hydra", "omegaconf", "pydantic", "xllamacpp", "rich"):
        (here / f"{name}.py").write_text(EVIL.format(marker=str(marker)), "utf-8")
    (here / "hydra_plugins").mkdir()
    (here / "hydra_plugins" / "evil.py").write_text(EVIL.format(marker=str(marker)), "utf-8")
    told = here / "trap-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: trap\nVersion: 1.0\n", "utf-8")
    (told / "entry_points.txt").write_text("[evalkit.evaluators]\npairwise2 = evil:Mode\n", "utf-8")
    change(here / "run", {"mode": {"name": "pairwise2"}})
    console, module = (
        [str(Path(sys.executable).with_name("evalkit"))],
        [sys.executable, "-m", "evalkit"],
    )
    for words in (
        [*console, "score", "run", "scoring.seed=3"],
        [*module, "plan"],
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        assert not marker.exists(), (words, done.stderr)
