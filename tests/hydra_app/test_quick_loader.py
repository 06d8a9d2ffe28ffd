"""What evalkit's loader composes, with what it keeps from earlier compositions, is what Hydra composes."""

import pickle
from datetime import datetime
from types import SimpleNamespace

import pytest
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from evalkit.compose import find_sweep, own_hydra, register
from evalkit.core.resources import shipped

WORDS = (
    (),
    ("judge=panel", "swap=third_pass", "scoring.bootstrap=3"),
    ("mode=pointwise", "rubric=pass_fail", "+tracking.tags.a=b", "hydra.run.dir=there"),
    ("prompt=zh", "rubric=likert5_zh", "dataset=judgebench"),
)


def composed(words=(), mode=RunMode.RUN):
    loader = GlobalHydra.instance().config_loader()
    return loader.load_configuration("config", list(words), mode)


def write_option(folder, count):
    option = folder / "conf" / "scoring" / "mine.yaml"
    option.parent.mkdir(parents=True, exist_ok=True)
    option.write_text(f"defaults: [default, _self_]\nbootstrap: {count}\n")


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("mode", list(RunMode))
def test_it_is_what_hydra_composes(words, mode):
    register()
    with initialize_config_dir(str(shipped("conf")), job_name="evalkit", version_base="1.3"):
        plain = OmegaConf.to_yaml(composed(words, mode))
    for _ in range(2):
        with own_hydra():
            assert OmegaConf.to_yaml(composed(words, mode)) == plain


def test_the_time_is_that_of_each_composition(monkeypatch):
    folders = set()
    for second in (1, 2):
        now = SimpleNamespace(now=lambda at=second: datetime(2026, 1, 1, 0, 0, at))
        monkeypatch.setattr("hydra.core.utils.datetime", now)
        folders.add(find_sweep("config", ["swap=both,none"]).folder.name)
    assert folders == {"00-00-01", "00-00-02"}


def test_a_config_that_changes_is_read_again(tmp_path, monkeypatch):
    """An option of the project, and one that a program registers in a group of Hydra's."""
    monkeypatch.chdir(tmp_path)
    found = []
    try:
        for count in (11, 12):
            write_option(tmp_path, count)
            ConfigStore.instance().store("mine", {"app_name": f"{count}"}, "hydra/help")
            with own_hydra():
                cfg = composed(["scoring=mine", "hydra/help=mine"])
            found.append((cfg.scoring.bootstrap, cfg.hydra.help.app_name))
    finally:
        del ConfigStore.instance().repo["hydra"]["help"]["mine.yaml"]
    assert found == [(11, "11"), (12, "12")]


def test_a_job_starts_with_the_config_that_was_checked_before_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_option(tmp_path, 11)
    found = []
    with own_hydra():
        sweep = composed(["hydra.mode=MULTIRUN"], RunMode.MULTIRUN)
        loader = GlobalHydra.instance().config_loader()
        for _ in range(3):
            cfg = loader.load_sweep_config(sweep, ["scoring=mine"])
            found.append(cfg.scoring.bootstrap)
            cfg.scoring.bootstrap = 5
            write_option(tmp_path, 12)
        sent = pickle.loads(pickle.dumps(loader))
        write_option(tmp_path, 13)
        found.append(sent.load_sweep_config(sweep, ["scoring=mine"]).scoring.bootstrap)
    # The third is another job; a process that gets the loader composes its own.
    assert found == [11, 11, 12, 13]
