"""Which settings of a run are worth a parameter in MLflow: those that apply to it and
say something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from evalkit.config import RunConfig
from evalkit.config.run_config import NOT_MEASURED
from evalkit.core.values import Json

_ALWAYS: Final = (
    "judge.name",
    "judge.model",
    "judge.temperature",
    "mode.name",
    "mode.samples",
    "swap.policy",
    "swap.resolve",
    "tie.allow",
    "tie.threshold",
    "rubric.min",
    "rubric.max",
    "prompt.language",
    "output.format",
    "dataset.path",
)
"""The settings by which people tell judges apart; they are logged also where they are the
default."""
_ONE_RESPONSE: Final = ("pointwise", "checklist")
"""The modes without an order and without ties."""
_MEASURED_ANYWAY: Final = ("objective", "gate")
"""The sections that change no number, but describe the purpose of a run."""


def applicable(
    settings: Mapping[str, Any], config: RunConfig, overrides: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the settings to log, those that differ between the jobs of a sweep first.

    A setting that has its default is omitted, unless people tell judges apart by it. So are those
    of the other modes, and where and how fast the run executes. `config.yaml` has all of them.

    Args:
        settings: Every setting by its dotted key.
        config: The config of the run.
        overrides: What differs between the jobs of the run's sweep, such as `judge.temperature=1`.
    """
    swept_keys = [word.lstrip("+~").partition("=")[0] for word in overrides]
    swept = {
        key: value for key, value in settings.items() if _is_below(key, swept_keys)
    }
    defaults = _defaults()
    unused = _unused_sections(config)
    kept = {
        key: value
        for key, value in settings.items()
        if not _is_below(key, unused)
        and (key in _ALWAYS or key not in defaults or defaults[key] != value)
    }
    return swept | kept


def _is_below(key: str, sections: Iterable[str]) -> bool:
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def _unused_sections(config: RunConfig) -> list[str]:
    sections = [name for name in NOT_MEASURED if name not in _MEASURED_ANYWAY]
    if config.mode.name in _ONE_RESPONSE:
        return [*sections, "swap", "tie"]
    if config.mode.name == "pairwise":
        return [*sections, "rubric"]
    return sections


@cache
def _defaults() -> dict[str, Any]:
    """Return the default of every setting that has one, by its dotted key."""
    # A config needs a criterion; no criterion is a default.
    config = RunConfig(judge={"model": "none"}, criteria={"none": {}})
    settings = dict(flat(config.dump(), ""))
    return {
        key: value
        for key, value in settings.items()
        if not _is_below(key, ["criteria"])
    }


def flat(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    """Yield the values of nested mappings by their dotted keys below `path`."""
    if not isinstance(value, Mapping):
        yield path, value
        return
    inner_values: Json = value
    for key, inner in inner_values.items():
        yield from flat(inner, f"{path}.{key}" if path else str(key))
