"""Config groups of the user's own that sweep: `experiment=NAME`, as in Hydra's examples and templates."""

import pytest

FILES = {
    "sweep": """\
# @package _global_
hydra:
  mode: MULTIRUN
  sweeper:
    params:
      judge: simulated/good,simulated/position_biased
      swap: both,none
""",
    "plain": """\
# @package _global_
defaults: [override /judge: simulated/good]
tie: {threshold: 0.25}
""",
    "unplaced": "tie: {threshold: 0.25}\n",
    "code": """\
# @package _global_
hydra: {callbacks: {x: {_target_: os.system}}}
""",
}
JOBS = [
    f"judge=simulated/{judge} swap={swap}"
    for judge in ("good", "position_biased")
    for swap in ("both", "none")
]


@pytest.fixture
def experiments(here):
    folder = here / "conf" / "experiment"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text)
    return here


@pytest.mark.parametrize(
    "word", ["experiment=sweep", pytest.param("+experiment=sweep", marks=pytest.mark.thorough)]
)
def test_a_group_can_sweep(word, experiments, call):
    planned = call("plan", word).out
    assert [job for job in JOBS if job in planned] == JOBS
    brief = ("dataset.limit=2", "tracking=none", "scoring.bootstrap=20")
    # The flag changes nothing for a group that sweeps.
    done = call("run", "-m", word, *brief, "hydra.sweep.dir=sweep")
    assert (experiments / "sweep" / "leaderboard.json").is_file()
    assert (experiments / "sweep" / "3" / "metrics.json").is_file()
    assert "leaderboard: " in done.out


@pytest.mark.parametrize("word", ["experiment=plain", "+experiment=plain"])
def test_an_experiment_overrides_other_groups(word, experiments, call):
    printed = call("run", word, "--cfg", "job").out
    assert "model: simulated/good" in printed
    assert "threshold: 0.25" in printed
    assert "  experiment: null" in printed  # MLflow's
    call("run", word, "dataset.limit=2", "tracking=none", "hydra.run.dir=one")
    assert "\nexperiment:" not in (experiments / "one" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("experiment=unplaced", "@package _global_"),
        ("experiment=code", "hydra.callbacks: names code"),
        ("experiment=nosuch", "no such experiment; choose from code, plain, sweep, unplaced"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(word, error, experiments, call):
    err = call("plan", word, status=1).err
    assert error in err
    assert err.count("\n") == 1


def test_a_pattern_without_a_match_is_an_error(call):
    assert "matches no option" in call("plan", "-m", "judge=glob(zz*)", status=1).err


def test_the_traceback_is_printed_on_request(call, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    err = call("plan", "foo=1", status=1).err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("evalkit: foo: no such key")


@pytest.mark.parametrize("flag", ["-cn", "-cp", "-cd", "--config-name=x", "--config-dir=x"])
def test_flags_of_hydra_that_are_not_needed_name_what_is(flag, call):
    err = call("run", flag, *(() if "=" in flag else ("x",)), status=1).err
    assert ("evalkit run NAME" in err) or ("EVALKIT_CONF=FOLDER" in err)
