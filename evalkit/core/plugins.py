"""Find code by name, evalkit's own in a table of lazy imports and plug-ins by entry
point, and guard its errors.

The dotted path of a class also works, for code that is not in a package. A config may come from
anyone, so a path is imported only if the user allows code: by `--allow-code`,
`EVALKIT_ALLOW_CODE=1`, or `allow_code=True` in Python.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import isclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from evalkit.core.errors import ConfigError, EvalkitError, PluginError, did_you_mean
from evalkit.core.redaction import redact
from evalkit.core.resources import project, shipped
from evalkit.core.translation import add_translations
from evalkit.core.values import Json, frozen

T = TypeVar("T")


@contextmanager
def third_party_errors(
    kind: Callable[..., EvalkitError], problem: str, **details: str
) -> Iterator[None]:
    """Turn any error in the block that is not evalkit's own into one line without secrets.

    Args:
        kind: The type of the error to raise.
        problem: What fails; the type and text of the error follow.
        **details: Other arguments of the error, such as `where` and `remedy`.

    Raises:
        EvalkitError: An error of type `kind`, or evalkit's own error as it is.
    """
    try:
        yield
    except EvalkitError:
        raise
    except Exception as error:  # third-party code can raise anything
        text = redact(" ".join(f"{type(error).__name__}: {error}".split()))
        raise kind(f"{problem}: {text}", **details) from error


class Guarded:
    """An object with the public methods of another one, each within `third_party_errors`.

    Args:
        inner: The third-party object. Iterators that a method returns are guarded as well.
        kind: The type of the error to raise.
        problem: What fails.
    """

    def __init__(
        self, inner: object, kind: Callable[..., EvalkitError], problem: str
    ) -> None:
        # On the object itself, where `isinstance` finds the methods of a protocol.
        # Private names stay out: they are no part of a protocol.
        for name in dir(inner):
            if not name.startswith("_") and callable(method := getattr(inner, name)):
                setattr(self, name, self._guard(method, kind, problem))

    @staticmethod
    def _guard(method: Any, kind: Callable[..., EvalkitError], problem: str) -> Any:
        """Return a method whose errors, and those of the iterator it returns, are of this kind."""

        # The code of a generator runs when it is read, after the call has returned.
        def iterate(values: Iterator[T]) -> Iterator[T]:
            with third_party_errors(kind, problem):
                yield from values

        def call(*arguments: Any, **named: Any) -> Any:
            with third_party_errors(kind, problem):
                result = method(*arguments, **named)
            if isinstance(result, Iterator):
                return iterate(result)
            return result

        return call


EVALUATORS, OUTPUTS, DATASETS, TRACKERS = (
    "evalkit.evaluators",
    "evalkit.outputs",
    "evalkit.datasets",
    "evalkit.trackers",
)
STORES = "evalkit.stores"
METRICS = "evalkit.metrics"
BENCHMARKS, JUDGES, PROBES = "evalkit.benchmarks", "evalkit.judges", "evalkit.probes"
PROMPTS, CONF, LOCALE = "evalkit.prompts", "evalkit.conf", "evalkit.locale"
GROUPS = MappingProxyType(
    {
        EVALUATORS: "mode",
        OUTPUTS: "output format",
        DATASETS: "dataset format",
        TRACKERS: "tracker",
        STORES: "store",
        BENCHMARKS: "benchmark",
        JUDGES: "judge transport",
        PROBES: "probe",
        METRICS: "metric",
        PROMPTS: "prompts",
        CONF: "configs",
        LOCALE: "translations",
    }
)
"""The entry-point groups for other packages, and the purpose of each."""
FOLDERS = (PROMPTS, CONF, LOCALE)
VARIABLE = "EVALKIT_PLUGINS"
ALLOW, ALLOW_FLAG = "EVALKIT_ALLOW_CODE", "--allow-code"
TRUST = f"if you trust the author of the config, add {ALLOW_FLAG} or set {ALLOW}=1"
_JOB = frozenset(
    ("name", "timeout_min", "time", "mem_gb", "mem", "mem_per_cpu", "mem_per_gpu", "nodes",
     "cpus_per_task", "cpus_per_gpu", "gpus_per_node", "gpus_per_task", "tasks_per_node",
     "ntasks_per_node", "partition", "account", "qos", "gres", "array_parallelism",
     "signal_delay_s", "max_num_timeout", "num_gpus", "stderr_to_stdout")
)  # fmt: skip
OPTIONS = "runner.options"
HARMLESS = MappingProxyType(
    {
        OPTIONS: _JOB
        | {f"slurm_{name}" for name in _JOB}
        | {"cluster", "num_cpus", "memory"},
        "hydra.launcher": _JOB | {"_target_", "n_jobs", "jobs", "verbose"},
        "hydra.sweeper": frozenset(
            (
                "_target_",
                "direction",
                "study_name",
                "n_trials",
                "n_jobs",
                "max_failure_rate",
                "max_batch_size",
            )
        ),
    }
)
"""The settings of workers, launchers and sweepers that any config may set, by section.

Anything else may run a command or open a connection: only the command line sets it, unless code is
allowed.
"""
# A line break in a value would be a new line in Slurm's script. Only the user sets environment
# variables.
_HARMLESS_TEXT = re.compile(r"(?!-)[\w .,:+@%-]*|\$\{oc\.env:\w+(,[\w.]*)?\}")

_allowed = ContextVar("evalkit_allow_code", default=False)


@contextmanager
def allowing_code(allowed: bool = True) -> Iterator[None]:
    """Allow configs to name code by dotted path within the block; `False` keeps the
    current state.
    """
    before = _allowed.set(allowed or _allowed.get())
    try:
        yield
    finally:
        _allowed.reset(before)


def code_allowed() -> bool:
    """Return whether a config may name code by its dotted path."""
    return _allowed.get() or os.environ.get(ALLOW) == "1"


def risky_settings(section: str, settings: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of each setting in a section that may run code."""
    for path, value in leaves(settings):
        if value is not None and not (
            len(path) == 1 and path[0] in HARMLESS[section] and _is_harmless(value)
        ):
            yield path


def leaves(
    value: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value in nested mappings that is not a mapping, with its path."""
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, part in value.items():
        yield from leaves(part, (*path, str(key)))


def _is_harmless(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_harmless, value))
    if isinstance(value, str):
        return bool(_HARMLESS_TEXT.fullmatch(value))
    return isinstance(value, int | float | Enum)


def check_options(options: Json) -> None:
    """Check the settings of workers in a config whose author is unknown.

    Raises:
        ConfigError: If one of them may run code, and code is not allowed.
    """
    for path in () if code_allowed() else risky_settings(OPTIONS, options):
        raise risky_setting((OPTIONS, *path))


def risky_setting(path: Sequence[str]) -> ConfigError:
    """Return the error for a setting that may run code."""
    remedy = f"set it on the command line; or, {TRUST}"
    return ConfigError(
        "may run code, so a config cannot set it to this value",
        where=".".join(path),
        remedy=remedy,
    )


@frozen
class Offer:
    """One plug-in of another package: its group, name, value, package and file, or why
    it cannot be used.
    """

    group: str
    name: str
    value: str
    package: str
    location: str = ""
    problem: str = ""


def find(
    group: str,
    name: str,
    ours: Mapping[str, str],
    *,
    where: str,
    methods: Sequence[str],
) -> Any:
    """Import and return the code with a name.

    Args:
        group: The entry-point group for other packages, such as `evalkit.evaluators`.
        name: One of `ours`, the name of an entry point, or `package.module.Class`.
        ours: Name → `module:attribute`.
        where: The config key of the name, for error messages.
        methods: A class that is named by its path must have at least one of these methods.

    Raises:
        PluginError: If there is no such code, two packages register it, or it cannot be imported.
            For a path, also if code is not allowed, or it is not the path of a class with one of
            these methods.
    """
    # evalkit's own names first, so that an installed package cannot replace a built-in part.
    if name in ours:
        return _load(ours[name], where)
    # Then what packages register; a dotted path, which needs permission, comes last.
    if (plugin := load_only(group, name, where)) is not None:
        return plugin
    if is_path(name):
        return _load_named_class(name, where, methods)
    raise _unknown(group, name, ours, where)


def check_known(group: str, name: str, ours: Mapping[str, str], *, where: str) -> None:
    """Check, without importing anything, that `find` can find a name, or that it is a path.

    Raises:
        PluginError: If the name is unknown.
    """
    if name not in ours and not is_offered(group, name):
        raise _unknown(group, name, ours, where)


def _unknown(group: str, name: str, ours: Mapping[str, str], where: str) -> PluginError:
    names = {*ours, *(point.name for point in entry_points_in(group))}
    remedy = did_you_mean(name, names)
    if remedy.startswith("choose from "):
        remedy += ", or install a package that adds it: `evalkit plugins` lists what is installed"
    return PluginError(f"there is no '{name}'", where=where, remedy=remedy)


def _load_named_class(path: str, where: str, methods: Sequence[str]) -> type:
    """Return the class at a path such as `package.module:Class`.

    Raises:
        PluginError: If code is not allowed, or it is not a class with one of the methods.
    """
    if not code_allowed():
        raise PluginError(
            f"'{path}' is a path to code, which needs permission",
            where=where,
            remedy=TRUST,
        )
    imported = _load(path if ":" in path else ":".join(path.rsplit(".", 1)), where)
    # In the class and its bases, without making an object: its code has not run yet.
    has = isclass(imported) and any(
        method in vars(base) for base in imported.__mro__ for method in methods
    )
    if not has:
        remedy = f"choose a class with the method {' or '.join(methods)}"
        raise PluginError(
            f"'{path}' does not implement the protocol of '{where}'",
            where=where,
            remedy=remedy,
        )
    cls: type = imported
    return cls


def construct(cls: Any, *arguments: Any, name: str, where: str) -> Any:
    """Construct the plug-in with a name.

    Args:
        cls: The class of the plug-in.
        *arguments: Its arguments.
        name: Its name, for error messages.
        where: The config key of the name, for error messages.

    Raises:
        PluginError: If it fails with an error that is not evalkit's own.
    """
    with third_party_errors(
        PluginError,
        f"'{name}' cannot be constructed",
        where=where,
        remedy="fix the plug-in",
    ):
        return cls(*arguments)


def is_path(name: str) -> bool:
    """Return whether a name is the path of a class, as `package.module.Class` or
    `package.module:Class`.
    """
    return "." in name or ":" in name


def is_offered(group: str, name: str) -> bool:
    """Return whether `name` may be third-party: the path of a class, or a registered plug-in."""
    return is_path(name) or any(point.name == name for point in entry_points_in(group))


def entry_points_in(group: str) -> list[EntryPoint]:
    """Return the entry points of a group by name; `EVALKIT_PLUGINS`, if set, restricts
    the packages.

    The variable is a comma-separated list of package names; an empty value disables all plug-ins.
    """
    chosen = os.environ.get(VARIABLE)
    points = sorted(
        _installed(group, tuple(sys.path)), key=lambda point: (point.name, point.value)
    )
    if chosen is None:
        return points
    allowed = {_normalized(name) for name in chosen.split(",") if name.strip()}
    return [point for point in points if _normalized(_package(point)) in allowed]


def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group in all packages on `sys.path`."""
    return tuple(_all_installed(path).select(group=group))


@cache
# The path is an argument only to be a part of the cache's key: a package that is installed or
# removed changes it.
def _all_installed(_path: tuple[str, ...]) -> Any:
    """Return the entry points of all packages on `sys.path`; searching takes 10 ms."""
    return entry_points()


def folders(group: str) -> list[Path]:
    """Return the folders that other packages register in a group, by the entry points'
    values `package[:folder]`.

    Raises:
        PluginError: If a folder is missing.
    """
    return [_folder_of_point(point) for point in entry_points_in(group)]


def user_folders() -> list[Path]:
    """Return the user's own config folders: `$EVALKIT_CONF`, then the project's conf/."""
    named = [Path(p) for p in os.environ.get("EVALKIT_CONF", "").split(os.pathsep) if p]
    candidates = [*named, project() / "conf"]
    return [
        folder.resolve()
        for folder in candidates
        if folder.is_dir() and folder.resolve() != shipped("conf")
    ]


def iter_offers() -> Iterator[Offer]:
    """Yield all plug-ins of other packages, including those that cannot be used."""
    for group in GROUPS:
        for point in entry_points_in(group):
            try:
                location = _place(group, point)
                problem = ""
            except PluginError as error:
                location = ""
                problem = error.what
            version = f" {point.dist.version}" if point.dist else ""
            yield Offer(
                group,
                point.name,
                point.value,
                _package(point) + version,
                location,
                problem,
            )
    yield from _unknown_groups()


def _unknown_groups() -> Iterator[Offer]:
    """Yield what packages register in groups of evalkit's that do not exist: nothing
    would use it.
    """
    names = sorted(
        group
        for group in _groups(tuple(sys.path))
        if group.startswith("evalkit.") and group not in GROUPS
    )
    for group in names:
        problem = f"evalkit has no group '{group}': {did_you_mean(group, GROUPS)}"
        for point in entry_points_in(group):
            yield Offer(group, point.name, point.value, _package(point), "", problem)


def _groups(path: tuple[str, ...]) -> frozenset[str]:
    """Return the groups in which the packages on `sys.path` register anything."""
    return frozenset(_all_installed(path).groups)


def _place(group: str, point: EntryPoint) -> str:
    if group in FOLDERS:
        return str(_folder_of_point(point))
    plugin = _load(point.value, "")
    return str(
        getattr(sys.modules.get(getattr(plugin, "__module__", "")), "__file__", "")
        or ""
    )


def _folder_of_point(point: EntryPoint) -> Path:
    """Return the folder that an entry point names, such as `package:prompts`.

    Raises:
        PluginError: If its package cannot be imported, or has no such folder.
    """
    package, _, inside = point.value.partition(":")
    where = f"{_package(point)} ({point.group} '{point.name}')"
    remedy = f"fix or uninstall it, or exclude it with {VARIABLE}"
    try:
        spec = find_spec(package)
    # This imports the parent packages, whose code may fail in any way.
    except Exception as error:
        raise PluginError(
            f"'{package}' cannot be imported: {error}", where=where, remedy=remedy
        ) from error
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    existing = [Path(root) / inside for root in roots if (Path(root) / inside).is_dir()]
    if not existing:
        raise PluginError(
            f"there is no folder '{point.value}'", where=where, remedy=remedy
        )
    return existing[0].resolve()


def _package(point: EntryPoint) -> str:
    if point.dist:
        return point.dist.name
    return point.value.partition(":")[0]


def _normalized(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package.strip()).lower()


def load_only(group: str, name: str, where: str) -> Any:
    """Import and return what a package registers under a name; `None` if no package does.

    From then on, reports find the translations of plug-ins.

    Raises:
        PluginError: If two packages register it, or it or translations cannot be read.
    """
    points = [point for point in entry_points_in(group) if point.name == name]
    if not points:
        return None
    # Only packages whose code runs anyway may add translations.
    for folder in folders(LOCALE):
        try:
            add_translations(folder)
        except (OSError, ValueError, struct.error) as error:
            problem = f"its translations cannot be read ({error})"
            remedy = "compile them again, as with `msgfmt`"
            raise PluginError(problem, where=str(folder), remedy=remedy) from None
    return _load(_single_point(points, where).value, where)


def _single_point(points: list[EntryPoint], where: str) -> EntryPoint:
    """Return the entry point of a name.

    Raises:
        PluginError: If several packages register different ones.
    """
    if len({point.value for point in points}) > 1:
        packages = ", ".join(
            sorted(point.dist.name if point.dist else point.value for point in points)
        )
        raise PluginError(
            f"several packages ({packages}) register '{points[0].name}'",
            where=where,
            remedy="uninstall one of them",
        )
    return points[0]


def _load(path: str, where: str) -> Any:
    module, _, attribute = path.partition(":")
    remedy = "check that package.module.Class is installed or in the current folder"
    with third_party_errors(
        PluginError, f"'{path}' cannot be imported", where=where, remedy=remedy
    ):
        value: Any = _import_user_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    return value


def _import_user_module(module: str) -> Any:
    """Import a module, of a package or of the current folder."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # For code next to the user's conf/: a console script does not have the current folder in
        # sys.path.
        here = str(Path.cwd())
        # Another missing module is an error inside the plug-in, and its message must stay.
        if error.name != module.partition(".")[0] or here in sys.path:
            raise
        # At the end, so that no file of the current folder shadows an installed package.
        sys.path.append(here)
        return import_module(module)
