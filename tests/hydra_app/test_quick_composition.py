"""What tests compose in half the time is what users compose."""

from datetime import datetime
from types import SimpleNamespace

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from evalkit.compose import find_sweep, own_hydra
from tests.support.quick_composition import quick_composition

WORDS = (
    (),
    ("judge=panel", "swap=third_pass", "scoring.bootstrap=3"),
    ("mode=pointwise", "rubric=pass_fail", "+tracking.tags.a=b", "hydra.run.dir=there"),
)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("mode", list(RunMode))
def test_it_is_what_hydra_composes(words, mode):
    def composed() -> str:
        with own_hydra():
            cfg = (
                GlobalHydra.instance()
                .config_loader()
                .load_configuration("config", list(words), mode)
            )
        return OmegaConf.to_yaml(cfg)

    plain = composed()
    with quick_composition():
        assert [composed(), composed()] == [plain, plain]


def test_the_time_is_that_of_each_composition(monkeypatch):
    folders = set()
    with quick_composition():
        for second in (1, 2):
            now = SimpleNamespace(now=lambda at=second: datetime(2026, 1, 1, 0, 0, at))
            monkeypatch.setattr("hydra.core.utils.datetime", now)
            folders.add(find_sweep("config", ["swap=both,none"]).folder.name)
    assert folders == {"00-00-01", "00-00-02"}
