"""Compose files and overrides into a `RunConfig`; only this package and `cli` use Hydra."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf
from pydantic import ValidationError

from evalkit.compose.code_policy import (
    CheckedLoader,
    check_place,
    check_search_path,
    checked_environment,
    given_by,
)
from evalkit.compose.criteria import (
    as_composed,
    as_written,
    for_hydra,
    name_alone,
    put_in_place,
    with_decoded_keys,
    with_named_judges,
)
from evalkit.compose.discovered_benchmarks import OTHERS, OURS, BenchmarkOptions
from evalkit.compose.error_mapping import RECORDED, hydra_error, unusable
from evalkit.compose.quick_loader import SCHEMA, QuickLoader, choices_if_read
from evalkit.compose.studies import unknown_study_error
from evalkit.compose.sweep_jobs import (
    SweepPlace,
    apply_values,
    hydra_part,
    job_signature,
    sweep_jobs,
    sweep_place,
)
from evalkit.compose.user_files import chosen_first, user_files
from evalkit.config import DatasetConfig, RunConfig, criteria_by_name, defaults
from evalkit.config.problems import config_error
from evalkit.config.shipped_options import SETTLED_OPTIONS
from evalkit.core.errors import ConfigError
from evalkit.core.plain_errors import check_type, raises_plainly
from evalkit.core.plugins import CONF, allowing_code, folders, user_folders
from evalkit.core.regular_files import check_regular, read_file, read_text
from evalkit.core.resources import project, shipped
from evalkit.core.values import Json, JsonObject
from evalkit.datasets import RECORDED as RECORDED_CASES
from evalkit.datasets import is_missing, with_examples
from evalkit.datasets.field_mapping import MESSAGES
from evalkit.guard.config_sources import SECTIONS as OPENED_SECTIONS
from evalkit.guard.config_sources import SETTINGS as OPENED
from evalkit.guard.known_hosts import trusting
from evalkit.guard.policy import check as check_origin
from evalkit.guard.policy import enter_project, origin_of
from evalkit.runs.layout import CASES as RUN_CASES
from evalkit.runs.layout import CONFIG as RUN_CONFIG
from evalkit.runs.manifest import DEFAULTS as RUN_DEFAULTS
from evalkit.runs.manifest import escaped

if TYPE_CHECKING:
    from hydra._internal.hydra import Hydra

__all__ = [
    "SweepPlace",
    "as_composed",
    "as_written",
    "check_place",
    "find_sweep",
    "for_hydra",
    "hydra_error",
    "is_multirun",
    "load_config",
    "load_jobs",
    "load_settings",
    "own_hydra",
    "register",
    "to_run_config",
    "unusable",
]

Adjust: TypeAlias = Callable[[JsonObject], JsonObject]
# Reentrant: checking a config may load another one.
_HYDRA = RLock()  # Hydra composes with a global
DEFAULT = "config"
STUDY = "study_"
SETTINGS = "settings"
SETTLED = [
    "schema",
    "runtime",
    *(
        {group: None}
        for group in (
            "judge",
            "mode",
            "criteria",
            "rubric",
            "prompt",
            "output",
            "dataset",
        )
    ),
    *({group: option} for group, option in SETTLED_OPTIONS.items()),
    "_self_",
]
"""The defaults list of settings that describe judgments made elsewhere."""
GROUPS = (
    "criteria",
    "rubric",
    "swap",
    "tie",
    "prompt",
    "output",
    "dataset",
    "scoring",
    "store",
    "runner",
    "tracking",
    "mode",
    "probe",
    "judge",
)
"""The config groups, in the order of conf/config.yaml."""
FREE_FORM = (
    "judge.headers",
    "judge.params",
    "judge.weights",
    "rubric.levels",
    "rubric.classes",
    "scoring.weights",
    "runner.options",
    "gate",
    "probe.probes",
    # These may also hold a _target_.
    "mode",
    "output",
    "dataset",
    "tracking",
)
"""Sections whose keys Hydra does not check: they are free, or checked when the config is frozen."""
_SCALE = frozenset(("min", "max", "levels", "classes", "real"))


class EvalkitSearchPath(SearchPathPlugin):
    """Append evalkit's benchmarks to the shipped folder, then the folders of plug-ins,
    the user's, other benchmarks.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add them; the first with an option wins."""
        search_path.append("evalkit", OURS)
        for folder in folders(CONF):
            search_path.append("plugin", f"file://{folder}")
        for folder in user_folders():
            search_path.append("user", f"file://{folder}")
        search_path.append("plugin", OTHERS)


def _slug(*names: str | None) -> str:
    # Resolvers get texts: an unset key arrives as "None".
    name = next((n for n in names if n and n != "None"), "panel")
    return re.sub(r"[^\w.-]+", "_", str(name).rsplit("/", 1)[-1])


def _localized(rubric: str, language: str | None) -> str:
    """Return the option of a rubric with level texts in a language: `NAME_LANGUAGE`
    where there is one.
    """
    conf_folders = (shipped("conf"), *folders(CONF), *user_folders())
    localized = f"{rubric}_{language}"
    if any(
        (folder / "rubric" / f"{localized}.yaml").is_file() for folder in conf_folders
    ):
        return localized
    return rubric


@cache
def _schema() -> DictConfig:
    node = OmegaConf.create(dict(defaults()))
    for key in FREE_FORM:
        if OmegaConf.is_dict(part := OmegaConf.select(node, key)):
            # Elsewhere, an unknown key is an error of Hydra's, with the key in it.
            OmegaConf.set_struct(part, False)
    return node


def register() -> None:
    """Register evalkit's schema, search path and resolver with Hydra; repeated calls
    are harmless.
    """
    OmegaConf.register_new_resolver("evalkit.slug", _slug, replace=True)
    OmegaConf.register_new_resolver("evalkit.alone", name_alone, replace=True)
    OmegaConf.register_new_resolver("evalkit.localized", _localized, replace=True)
    # Storing it takes as long as reading ten files.
    if f"{SCHEMA}.yaml" not in ConfigStore.instance().repo:
        ConfigStore.instance().store(name=SCHEMA, node=_schema(), provider="evalkit")
    Plugins.instance().register(BenchmarkOptions)
    Plugins.instance().register(EvalkitSearchPath)


def find_study(name: str) -> Path | None:
    """Return the study with this name: a file, or a study in ./experiments or among the shipped
    ones; `None` if there is none.
    """
    spellings = [name] if name.endswith((".yaml", ".yml")) else [f"{name}.yaml"]
    study_folders = [
        Path(),
        project() / "experiments",
        shipped("experiments"),
        shipped("experiments").parent,
    ]
    for folder in study_folders:
        for spelling in spellings:
            if (file := folder / spelling).is_file():
                return file.resolve()
    return None


def enter_project_of(study: Path) -> None:
    """Make the project of a study the current one, so that its conf/ and prompts/ are
    found from any folder.
    """
    if study.parent.name == "experiments" and study.parent != shipped("experiments"):
        # In the environment, because a launcher's processes, which compose jobs by themselves,
        # inherit it.
        enter_project(study.parent.parent)


def add_study(path: Path) -> str:
    """Register a study file with Hydra and return its config name.

    Raises:
        ConfigError: if the file does not exist or is not YAML.
    """
    if (fault := unusable(path)) is not None:
        raise fault
    try:
        check_regular(path)
        node = OmegaConf.load(path)
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", where=str(path)
        ) from None
    except Exception as error:
        mark = getattr(error, "problem_mark", None)
        location = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(
            f"is not YAML ({getattr(error, 'problem', error)})", where=location
        ) from None
    if not isinstance(node, DictConfig):
        raise ConfigError(
            "is not a mapping of config groups",
            where=str(path),
            remedy="see `evalkit run --cfg job`",
        )
    # Before the defaults are read, since a list of criteria changes them.
    _with_named_criteria(node)
    name = STUDY + _slug(path.stem)
    if "defaults" not in node:
        node = _with_default_options(node, str(path))
    elif node.defaults == RUN_DEFAULTS:
        node = _with_recorded_options(node, str(path))
    check_search_path(node, path)
    ConfigStore.instance().store(name=name, node=node, provider=str(path))
    return name


def _with_recorded_options(node: DictConfig, provider: str) -> DictConfig:
    """Register each group of a finished run's config as an option; return a config of these.

    So an override can choose another option.
    """
    values = OmegaConf.to_container(node)
    assert isinstance(values, dict)
    chosen: list[Any] = []
    for group in GROUPS:
        # Each section moves from the file into an option of its group.
        if group in values:
            section = OmegaConf.create({group: values.pop(group)})
            ConfigStore.instance().store(
                group=group,
                name=RECORDED,
                node=section,
                package="_global_",
                provider=provider,
            )
            chosen.append({group: RECORDED})
    if not any("probe" in option for option in chosen):  # of an earlier version
        chosen.append({"probe": None})
    overlays = [{"method": None}, {"experiment": None}]
    defaults = ["schema", "runtime", *chosen, *overlays, "_self_"]
    return OmegaConf.create({**values, "defaults": defaults})


def _with_default_options(study: DictConfig, provider: str) -> DictConfig:
    """Start a study without `defaults` from the default run.

    Each of its sections is registered as an option.

    A judge, criteria and the scale or classes of a rubric replace the default ones; other sections
    change them.

    Raises:
        ConfigError: if a section is neither a mapping nor the name of an option.
    """
    values = OmegaConf.to_container(study)
    assert isinstance(values, dict)
    entries = OmegaConf.load(shipped("conf") / f"{DEFAULT}.yaml").defaults
    plain = [
        OmegaConf.to_container(entry) for entry in entries if OmegaConf.is_dict(entry)
    ]
    default = {
        group: option
        for entry in plain
        if isinstance(entry, dict)
        for group, option in entry.items()
    }
    prompt = values.get("prompt")
    if isinstance(prompt, str):
        language = prompt
    else:
        language = str((prompt or {}).get("language") or default["prompt"])
    chosen: list[Any] = []
    for group in GROUPS:
        if group not in values:
            continue
        section = values.pop(group)
        if isinstance(section, dict):
            # Keys of the default judge, such as its price, must not leak into another judge.
            replaces = group in ("judge", "criteria") or (
                group == "rubric" and not _SCALE.isdisjoint(section)
            )
            if replaces or default[group] is None:
                base = []
            else:
                base = [_plain_name(default[group], language)]
            node = {"defaults": [*base, "_self_"], **section}
            ConfigStore.instance().store(
                group=group, name=RECORDED, node=node, provider=provider
            )
            section = RECORDED
        elif not isinstance(section, str | None):
            remedy = f"write {group}: {{KEY: VALUE}}, or {group}: NAME for an option"
            raise ConfigError(
                "is neither a mapping nor an option",
                where=f"{provider}: {group}",
                remedy=remedy,
            )
        chosen.append({f"override /{group}": section})
    return OmegaConf.create({**values, "defaults": [DEFAULT, *chosen, "_self_"]})


def _plain_name(option: str, language: str) -> str:
    """Return the name of an option; Hydra cannot read one that depends on the language
    in the defaults of an option.
    """
    localized = re.fullmatch(r"\$\{evalkit\.localized:(\w+),.*", option)
    if localized is None:
        return option
    return _localized(localized[1], language)


def _with_named_criteria(study: DictConfig) -> None:
    """Turn a study's list of criteria into a mapping that replaces its group's.

    Its sweep becomes readable for Hydra, too.

    Raises:
        ConfigError: if a criterion is named twice.
    """
    if isinstance(study.get("criteria"), ListConfig):
        try:
            study.criteria = criteria_by_name(OmegaConf.to_container(study.criteria))
        except ValueError as error:
            raise ConfigError(str(error), where="criteria") from None
        if (
            isinstance(entries := study.get("defaults"), ListConfig)
            and "config" in entries
        ):
            # The default criteria are emptied before the study's own keys apply.
            at = entries.index("_self_") if "_self_" in entries else len(entries)
            before = [
                entry
                for entry in entries[:at]
                if entry != "config" and "override /criteria" not in entry
            ]
            study.defaults = [
                "config",
                *before,
                {"override /criteria": []},
                *entries[at:],
            ]
    params = OmegaConf.select(study, "hydra.sweeper.params")
    for key in [key for key in params or () if isinstance(params[key], str)]:
        name, _, value = for_hydra([f"{key}={params[key]}"])[0].partition("=")
        if (name, value) != (key, params[key]):
            del params[key]
            params[name] = value


def to_run_config(
    cfg: DictConfig,
    sources: Sequence[Path] = (),
    adjust: Adjust | None = None,
    *,
    study: Path | None = None,
    words: Sequence[str] = (),
    opened: Sequence[str] = (),
) -> RunConfig:
    """Check a composed config and freeze it.

    Args:
        cfg: the composed config.
        sources: files that may hold an invalid key, for the line in the error.
        adjust: a function from the composed values to the values to check.
        study: the file that the config is from, if it is not only from the project's options.
        words: the overrides of the command line, which may set anything.
        opened: the sections that are used; all by default.

    Raises:
        ConfigError: if the config is invalid; it names file and line or the command line, the key
            and a remedy. Also if it names something that the user has not trusted.
    """
    try:
        with checked_environment(words):
            # The order: decode keys, put criteria and judges in place, then validate, and only
            # then check where values come from.
            values = with_decoded_keys(
                OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
            )
        if isinstance(values, dict):
            _check_experiment(values)
            values["criteria"] = put_in_place(values.get("criteria"))
            values["judge"] = with_named_judges(values.get("judge"))
        values = adjust(values) if adjust else values
        config = RunConfig.model_validate(values)
        if sources and sources[0].name == RUN_CONFIG:
            config = _with_own_cases(config, sources[0])
        origin = replace(origin_of(study), repeated=given_by(words))
        check_origin(config, origin, opened)
        return with_examples(config, base=project())
    except ValidationError as error:
        raise config_error(error, chosen_first(sources, words, study)) from None
    except Exception as error:
        raise hydra_error(error) from None


def _check_experiment(values: Json) -> None:
    """Refuse an experiment whose keys Hydra puts below its group.

    Raises:
        ConfigError: naming the line that its file lacks.
    """
    if "experiment" in values:
        raise ConfigError(
            "its keys are not at the top of the config",
            where="experiment",
            remedy="write `# @package _global_` in the first line of its file in conf/experiment",
        )


KEPT = ("benchmark", "baseline", "label_map", "unit", "after", "fit", "max_chars")
"""The settings of a dataset that also apply to its cases after they were read."""


def _with_own_cases(config: RunConfig, file: Path) -> RunConfig:
    """Return the config of a finished run with the cases in its folder.

    Only if its dataset is not found from here.

    What an override sets applies to these cases.
    """
    cases = file.parent / RUN_CASES
    dataset = config.dataset
    # The original data counts if it is there.
    if not cases.is_file() or not is_missing(dataset, project()):
        return config
    recorded = yaml.safe_load(read_text(file))
    before = recorded.get("dataset") or {}
    if recorded.get("defaults") != RUN_DEFAULTS or before.get("path") != dataset.path:
        return config
    values = dataset.model_dump(mode="json")
    # Settings that have been applied to the recorded cases must not be applied twice.
    changed = {
        key: value
        for key, value in values.items()
        if key in KEPT or value != before.get(key, value)
    }
    messages = {
        name: column
        for name, column in dataset.fields.items()
        if name.startswith(MESSAGES)
    }
    settings = {
        "fields": messages,
        **changed,
        "path": str(cases),
        "format": RECORDED_CASES,
    }
    return config.model_copy(update={"dataset": DatasetConfig(**settings)})


@contextmanager
def own_hydra(words: Sequence[str] = ()) -> Iterator[Hydra]:
    """Set Hydra up with evalkit's configs, schema and rules inside the block.

    Args:
        words: the overrides of the command line, which may set what a config may not.
    """
    with _HYDRA:
        # The program that runs evalkit may use Hydra itself.
        before = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        register()
        try:
            with initialize_config_dir(
                str(shipped("conf")), job_name="evalkit", version_base="1.3"
            ):
                hydra = GlobalHydra.instance().hydra
                assert hydra is not None
                loader = QuickLoader(hydra.config_loader.get_search_path())
                hydra.config_loader = CheckedLoader(loader, words)
                with checked_environment(words), choices_if_read():
                    yield hydra
        finally:
            GlobalHydra.instance().hydra = before


def _compose(name: str, overrides: Sequence[str]) -> DictConfig:
    try:
        return compose(name, overrides=list(overrides), return_hydra_config=False)
    except Exception as error:
        raise hydra_error(error) from None


@raises_plainly
def load_config(
    name: str = DEFAULT,
    overrides: Sequence[str] = (),
    *,
    allow_code: bool = False,
    adjust: Adjust | None = None,
    trust: Sequence[str] = (),
) -> RunConfig:
    """Compose a config without a shell.

    Args:
        name: `config`, the name of a study, or a file.
        overrides: Hydra overrides, as on the command line.
        allow_code: whether Hydra's part of the config may name code; `run` has its own `allow_code`
            for the rest.
        adjust: a function from the composed values to the values to check.
        trust: hosts that the config may name, as `--trust HOST`.

    Raises:
        ConfigError: if the config is invalid, or names something that is not trusted.
    """
    check_type("name", name, str, "write load_config(overrides=['judge=…'])")
    # A text is a sequence too, of letters.
    for argument, words in (("overrides", overrides), ("trust", trust)):
        if isinstance(words, str):
            check_type(argument, words, list, f"write {argument}={[words]!r}")
    with allowing_code(allow_code), trusting(trust):
        return load_jobs(name, overrides, sweep=False, adjust=adjust)[0][1]


def load_settings(settings: Json, overrides: Sequence[str] = ()) -> RunConfig:
    """Compose a config from plain values and overrides.

    An override that chooses an option for a whole group (`output=bracket`) replaces the settings of
    that group.

    Raises:
        ConfigError: if the config is invalid.
    """
    chosen = {word.partition("=")[0] for word in overrides}
    # An option for the whole group replaces what the file says.
    values = {group: value for group, value in settings.items() if group not in chosen}
    with own_hydra(overrides):
        node = OmegaConf.create({"defaults": SETTLED, **escaped(values)})
        check_search_path(node)
        ConfigStore.instance().store(name=SETTINGS, node=node, provider="evalkit")
        return to_run_config(
            _compose(SETTINGS, for_hydra(overrides)),
            user_files(),
            words=overrides,
            opened=OPENED_SECTIONS[OPENED],
        )


def load_jobs(
    name: str, overrides: Sequence[str], *, sweep: bool, adjust: Adjust | None = None
) -> list[tuple[tuple[str, ...], RunConfig]]:
    """Compose every job of a sweep, or the only job; return each job's overrides and config.

    Args:
        name: `config`, the name of a study, or a file.
        overrides: Hydra overrides, as on the command line.
        sweep: whether lists of values are a sweep; if not, the only job has no overrides.
        adjust: a function from the composed values to the values to check (without `sweep`).

    Raises:
        ConfigError: if a job's config is invalid; it names the job.
    """
    words = for_hydra(overrides, sweep=sweep)
    with own_hydra(words):
        study = None if name == DEFAULT else find_study(name)
        if name != DEFAULT and study is None:
            raise unknown_study_error(name)
        config_name = add_study(study) if study else DEFAULT
        sources = ([study] if study else []) + user_files()
        if sweep:
            return _load_sweep(config_name, study, sources, words)
        cfg = _compose(config_name, words)
        config = to_run_config(cfg, sources, adjust, study=study, words=words)
        return [((), config)]


def _load_sweep(
    config_name: str, study: Path | None, sources: list[Path], words: Sequence[str]
) -> list[tuple[tuple[str, ...], RunConfig]]:
    """Return each job's overrides and config, inside Hydra; a `ConfigError` names its job."""
    jobs = []
    # The config of the last job by its kind: jobs of one kind follow each other.
    composed = dict[tuple[str, ...], DictConfig]()
    for job in sweep_jobs(config_name, words):
        try:
            # Composing takes long: a job that differs only in plain values is made from the
            # one before it.
            kind = job_signature(job)
            if kind in composed:
                cfg = apply_values(composed[kind], job)
            else:
                cfg = _compose(config_name, job)
            composed = {kind: cfg}
            config = to_run_config(cfg, sources, study=study, words=words)
        except ConfigError as error:
            raise _error_of_job(error, job) from None
        overrides = tuple(map(as_written, job))
        jobs.append((overrides, config))
    return jobs


def _error_of_job(error: ConfigError, job: Sequence[str]) -> ConfigError:
    """Return the error with the job at the end of its line."""
    suffix = f"(job {as_written(' '.join(job))})"
    if error.remedy:
        remedy = f"{error.remedy} {suffix}"
        return ConfigError(error.what, where=error.where, remedy=remedy)
    return ConfigError(f"{error.what} {suffix}", where=error.where, remedy="")


def find_sweep(name: str, overrides: Sequence[str]) -> SweepPlace:
    """Return the folder and the sweeper of a sweep, and the keys with the same value in all jobs.

    Raises:
        ConfigError: if Hydra's part of the config is invalid.
    """
    with own_hydra(overrides):
        study = None if name == DEFAULT else find_study(name)
        return sweep_place(
            add_study(study) if study else DEFAULT, for_hydra(overrides, sweep=True)
        )


def is_multirun(name: str, overrides: Sequence[str]) -> bool:
    """Return whether the composed config sets `hydra.mode` to MULTIRUN.

    A group's file can set it, so the whole config is composed if a file that may be part of it
    names this mode.

    Raises:
        ConfigError: if the config cannot be composed.
    """
    study = None if name == DEFAULT else find_study(name)
    files = [*user_files(), *([study] if study else ())]
    # A quick look first, since composing takes long.
    if not any(b"MULTIRUN" in read_file(file) for file in files):
        return False
    with own_hydra(overrides):
        config_name = add_study(study) if study else DEFAULT
        cfg = hydra_part(config_name, for_hydra(overrides, sweep=True))
        return bool(cfg.hydra.mode == RunMode.MULTIRUN)
