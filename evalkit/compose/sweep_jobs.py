"""The jobs of a sweep, as Hydra's own sweeper makes them; Hydra must be set up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from evalkit.compose.error_mapping import hydra_error
from evalkit.core.errors import ConfigError
from evalkit.core.values import frozen

EVERYTHING = "BasicSweeper"
_PLAIN = re.compile(r"(?!hydra\.)(\+\+(?=criteria\.))?\w+(\.\w+)+=[\w.+-]+")


@frozen
class SweepPlace:
    """The folder of a sweep, the sweeper that chooses its jobs, and the keys with the
    same value in all of them.
    """

    folder: Path
    sweeper: str
    constant: frozenset[str]

    @property
    def known(self) -> bool:
        """Whether all jobs are known before the first: Hydra's own sweeper tries every
        combination.
        """
        return self.sweeper == EVERYTHING


def sweep_place(config_name: str, overrides: Sequence[str]) -> SweepPlace:
    """Return the folder and sweeper of a sweep, and its constant keys; Hydra must be set up.

    Raises:
        ConfigError: if Hydra's part of the config cannot be composed.
    """
    cfg = hydra_part(config_name, overrides)
    return SweepPlace(
        Path(str(cfg.hydra.sweep.dir)),
        str(cfg.hydra.sweeper._target_).rsplit(".", 1)[-1],
        _unswept_keys(cfg, overrides),
    )


def sweep_jobs(config_name: str, overrides: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each job's overrides as Hydra's own sweeper does; Hydra must be set up.

    The jobs are all combinations of the values; the last key varies fastest.

    Raises:
        ConfigError: if an override cannot be parsed or matches no option, or another sweeper
            chooses the jobs.
    """
    cfg = hydra_part(config_name, overrides)
    if not str(cfg.hydra.sweeper._target_).endswith(EVERYTHING):
        raise ConfigError(
            "this sweeper chooses its jobs during the sweep, so they cannot be planned",
            where="hydra/sweeper",
            remedy="plan one job without -m, or use Hydra's own sweeper",
        )
    choices: dict[str, list[str]] = {}
    loader = GlobalHydra.instance().config_loader()
    parser = OverridesParser.create(config_loader=loader)
    try:
        parsed = parser.parse_overrides([*_sweeper_params(cfg), *overrides])
    except OverrideParseException as error:
        raise hydra_error(error) from None
    for override in parsed:
        key = override.get_key_element()
        if override.is_sweep_override():
            # As Hydra's sweeper, so that a plan has exactly the jobs of the sweep.
            values = list(override.sweep_string_iterator())
        else:
            values = [override.get_value_element_as_str()]
        if not values:
            options = loader.get_group_options(override.key_or_group)
            raise ConfigError(
                "matches no option",
                where=str(override.input_line),
                remedy=f"choose from {', '.join(options)}",
            )
        # A key that is set again replaces its earlier values.
        choices[key] = [f"{key}={value}" for value in values]
    return list(product(*choices.values()))


def _sweeper_params(cfg: DictConfig) -> list[str]:
    """Return `hydra.sweeper.params` as overrides."""
    params = OmegaConf.to_container(
        cfg.hydra.sweeper.get("params") or OmegaConf.create({})
    )
    if not isinstance(params, dict):
        return []
    return [f"{key!s}={value}" for key, value in params.items()]


def job_signature(job: Sequence[str]) -> tuple[str, ...]:
    """Return the signature of a job: equal for jobs that differ only in plain values of
    the same keys.
    """
    return tuple(
        # Other words may choose options, whose files must be composed.
        word.partition("=")[0] if _PLAIN.fullmatch(word) else word
        for word in job
    )


def apply_values(cfg: DictConfig, job: Sequence[str]) -> DictConfig:
    """Apply the values of a job to the config of another job with the same signature,
    as Hydra would.
    """
    for word in OverridesParser.create().parse_overrides(
        [word for word in job if _PLAIN.fullmatch(word)]
    ):
        OmegaConf.update(
            cfg, word.key_or_group, word.value(), force_add=word.is_force_add()
        )
    return cfg


def hydra_part(config_name: str, overrides: Sequence[str]) -> DictConfig:
    """Compose Hydra's part of the config: with every override but those that are swept.

    A swept group has no single option, and Hydra takes its part from the config without it.
    """
    parser = OverridesParser.create(
        config_loader=GlobalHydra.instance().config_loader()
    )
    try:
        plain = [
            word
            for word, override in zip(
                overrides, parser.parse_overrides(list(overrides)), strict=True
            )
            if not override.is_sweep_override()
        ]
        return compose(config_name, overrides=plain, return_hydra_config=True)
    except Exception as error:
        raise hydra_error(error) from None


def _unswept_keys(cfg: DictConfig, overrides: Sequence[str]) -> frozenset[str]:
    """Return the keys that overrides or the sweeper's parameters set to the same value
    in all jobs.
    """
    swept: dict[str, bool] = {}
    # From the composed sweep, since the sweeper may add keys of its own.
    for word in [*_sweeper_params(cfg), *overrides]:
        with suppress(OverrideParseException):  # reported when the jobs are composed
            [override] = OverridesParser.create().parse_overrides([word])
            key = override.get_key_element().lstrip("+~")
            # The last word with a key counts.
            swept[key] = override.is_sweep_override()
    return frozenset(key for key, is_swept in swept.items() if not is_swept)
