"""One walk over a config from elsewhere: what each field names is good, repeated by the
user, or refused.

Shipped options and those of installed packages are not from elsewhere; every other file is. A file
of the user's own project may read what the user can read, but it needs trust for servers, for
credentials, and for what is written outside the current folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from glob import has_magic
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel

from evalkit.config.kinds import Kind, Value, values_of
from evalkit.core.errors import ConfigError, pasted
from evalkit.core.plugins import OPTIONS, code_allowed, leaves, risky_settings
from evalkit.core.resources import PROJECT_VARIABLE, project
from evalkit.core.values import frozen
from evalkit.guard.credentials import allow, withhold
from evalkit.guard.hosts import Host, host_of
from evalkit.guard.installed import is_installed
from evalkit.guard.known_hosts import (
    FLAG,
    Entry,
    Trust,
    is_keeping,
    keep,
    read_entries,
    trust,
    trusted_words,
)
from evalkit.guard.rules import risky_params, rules

ENTERED: Final = "EVALKIT_ENTERED_PROJECT"
"""The project of a study in another project, which is not the user's own."""
API_BASE: Final = "--api-base"
"""The option that repeats the address of the server of a judge from a folder."""
DATABASES: Final = {
    "postgresql": ("PGPASSWORD",),
    "postgres": ("PGPASSWORD",),
    "mysql": ("MYSQL_PWD",),
    "mssql": (),
}
"""The variables with the password of a database, by its scheme."""
MLFLOW: Final = (
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
)
_SCHEME = re.compile(r"([A-Za-z][\w+.-]*):(?=//)")
_DATA_SCHEME = re.compile(r"([A-Za-z][\w+-]+):")
_MODEL = re.compile(r"[\w.:@+~/ -]+")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}")
_OF_OPENAI = re.compile(r"(chatgpt|gpt|o\d)[\w.-]*")
_NAME = re.compile(r"[\w-]+")
_MOST_FILES = 10_000
_SYSTEM = ("/etc/", "/proc/", "/run/secrets/", "/sys/", "/var/run/")
_HOLDS = re.compile(r"CERT|CONFIG|CREDENTIAL|IDENTITY|KEY|NETRC|PASS|SECRET|TOKEN")


class UntrustedError(ConfigError):
    """A file names a server that the user has not trusted.

    Args:
        host: The server.
        names: The credentials that it would get.
        problem: The problem, in one clause.
        where: The key.
        remedy: How to trust it.
    """

    def __init__(
        self, host: Host, names: Sequence[str], problem: str, where: str, remedy: str
    ) -> None:
        self.host = host
        self.names = tuple(names)
        super().__init__(problem, where=where, remedy=remedy)


@frozen
class Origin:
    """Where a config is from, and what the user has repeated.

    Attributes:
        folder: The folder of the file, if it is not in the user's own project; what it reads must
            be below.
        repeated: The values of the command line or of the call, by key.
        addresses: The servers that the user repeated, for any judge.
        flag: The option that repeats the address of a server, if the command has one.
        recorded: Whether the texts of the prompts are in the folder, so that no template is read.
    """

    folder: Path | None = None
    repeated: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    addresses: Sequence[str] = ()
    flag: str = ""
    recorded: bool = False

    def has(self, value: Value) -> bool:
        """Return whether the user gave this value for this key, or for the same key of
        another judge.
        """
        if value.value in self.repeated.get(value.key, ()):
            return True
        # A user who writes a list of one rule does not write its position.
        if value.value in self.repeated.get(_bare_key(value), ()):
            return True
        if value.kind == Kind.SERVER:
            # A server that the user named for one judge is trusted for the others too.
            last = value.path[-1]
            alike = [key for key in self.repeated if key.rpartition(".")[2] == last]
            return value.value in self.addresses or any(
                value.value in self.repeated[key] for key in alike
            )
        return False


def origin_of(file: Path | None, words: Sequence[str] = (), **details: Any) -> Origin:
    """Return the origin of a config.

    Args:
        file: Its file, or the folder of a run or a judge; `None` for the project's own options.
        words: Overrides of the form `key=value` that the user gave.
        **details: Other attributes of the origin.
    """
    folder = None
    if file is not None and not is_own(file):
        folder = file if file.is_dir() else file.parent
        if folder.name == "experiments":  # the folder of studies in a project
            folder = folder.parent
    return Origin(folder, given_values(words), **{**_judge_folder.get(), **details})


_judge_folder: ContextVar[Mapping[str, Any]] = ContextVar(
    "evalkit_judge_folder", default=MappingProxyType({})
)


@contextmanager
def from_judge_folder(addresses: Sequence[str]) -> Iterator[None]:
    """Check configs inside the block as those of a judge's folder: templates are in it.

    Args:
        addresses: The servers that the user repeated by `--api-base`.
    """
    details = {"addresses": tuple(addresses), "flag": API_BASE, "recorded": True}
    # Of this context only: a service checks several configs at the same time.
    token = _judge_folder.set(MappingProxyType(details))
    try:
        yield
    finally:
        _judge_folder.reset(token)


def is_own(file: Path) -> bool:
    """Return whether a file is in the user's own project: the current folder, or the
    project that it is in.
    """
    # Not resolved: a link in the project is the user's.
    path = Path(os.path.abspath(file.expanduser()))  # noqa: PTH100
    return any(path.is_relative_to(root) for root in own_roots())


def own_roots() -> list[Path]:
    """Return the folders of the user's own project."""
    here = Path.cwd()
    entered = os.environ.get(ENTERED)
    top = project()
    # A study in another project makes that the current one, which is still not the user's.
    if entered is None or str(top) != entered:
        return [here, top.absolute()]
    # The user's own project is the closest folder above that looks like one.
    above = [
        folder
        for folder in here.parents
        if (folder / "conf").is_dir() and (folder / "experiments").is_dir()
    ]
    return [here, *above[:1]]


def enter_project(folder: Path) -> None:
    """Make a folder the project of this process and those that it starts, unless the
    user chose one.

    Raises:
        ConfigError: If it is not the user's own, and has links to files outside.
    """
    if PROJECT_VARIABLE in os.environ:
        return
    # Before the variables are set, since they change what is the user's own.
    in_project = any(folder.is_relative_to(root) for root in own_roots())
    if not in_project:
        _check_links(folder)
        os.environ[ENTERED] = str(folder)
    os.environ[PROJECT_VARIABLE] = str(folder)


def _check_links(folder: Path) -> None:
    """Refuse a project from elsewhere whose configs or prompts are links to other files."""
    for name in ("conf", "prompts"):
        # A link here could show any file of the user to a judge.
        for inner in _files(folder / name):
            if not _below(inner, folder):
                remedy = (
                    "copy the file; or, if you trust the project, "
                    f"set {PROJECT_VARIABLE}={folder}"
                )
                raise ConfigError(
                    "is a link out of the project", where=str(inner), remedy=remedy
                )


def given_values(words: Sequence[str]) -> dict[str, list[Any]]:
    """Return what overrides of the form `key=value` set, by key.

    As text, and as the value that YAML reads.
    """
    import yaml

    values_by_key: dict[str, list[Any]] = {}
    for word in words:
        key, equals, text = word.lstrip("+").partition("=")
        # An interpolation is not a value that the user wrote out.
        if not equals or "${" in text:
            continue
        # As a text and as YAML reads it: a config has `1` as a number.
        values: list[Any] = [text]
        if len(text) < 10_000 and "&" not in text:  # no aliases
            try:
                values.append(yaml.safe_load(text))
            except (yaml.YAMLError, RecursionError, ValueError):
                values = [text]
        for value in values:
            for path, part in _values_with_paths(value, (key,)):
                values_by_key.setdefault(".".join(path), []).append(part)
    return values_by_key


def _values_with_paths(
    value: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a value and all values within it, each with its path; lists and mappings, too."""
    if isinstance(value, list | tuple):
        yield path, list(value)
        for index, part in enumerate(value):
            yield from _values_with_paths(part, (*path, str(index)))
    elif isinstance(value, Mapping):
        yield path, dict(value)
        for key, part in value.items():
            yield from _values_with_paths(part, (*path, str(key)))
    else:
        yield path, value


def check(config: BaseModel, origin: Origin, sections: Sequence[str] = ()) -> None:
    """Check each field of a config from elsewhere by its kind.

    Args:
        config: The config.
        origin: Where it is from.
        sections: The sections that the command uses; all by default.

    Raises:
        UntrustedError: If it names a server that the user has not trusted.
        ConfigError: If it names a path or a parameter that is neither good nor repeated.
    """
    values = [
        value
        for value in values_of(config)
        if not sections or value.path[0] in sections
    ]
    # All values, so that a check can look at another key of the same section.
    walk = _Walk(origin, {value.path: value for value in values})
    for value in values:
        _CHECKS[value.kind](walk, value)


@frozen
class _Walk:
    origin: Origin
    values: Mapping[tuple[str, ...], Value]

    def sibling(self, value: Value, name: str) -> Any:
        """Return the value of another key of the same section."""
        sibling = self.values.get((*value.path[:-1], name))
        if sibling is None:
            return None
        return sibling.value

    def text(self, value: Value) -> None:
        """Accept a text: it names nothing."""

    def program(self, value: Value) -> None:
        """Accept a name: `plugins.find` asks for permission before it imports a path."""

    def model(self, value: Value) -> None:
        """Check the name of a model, of which some libraries read a server."""
        text = str(value.value)
        # arn:aws:bedrock:REGION:…; a library makes the name of a server from the region.
        region = text.partition("arn:")[2].split(":")[2:3]
        harmless = (
            _MODEL.fullmatch(text) is not None
            and "//" not in text
            and ".." not in text
            and all(_REGION.fullmatch(part) or not part for part in region)
        )
        if not harmless and not self.origin.has(value):
            raise ConfigError(
                f"'{text}' is not only the name of a model",
                where=value.key,
                remedy=_repeat(value),
            )

    def server(self, value: Value) -> None:
        """Check the server of a judge."""
        address = str(value.value)
        # The model decides which key is sent, so which servers are the provider's own.
        model = str(self.sibling(value, "model") or "")
        transport = str(self.sibling(value, "transport") or "litellm")
        if self.origin.has(value) or is_installed(value.path[-1], address):
            allow(address)
            return
        host = host_of(address)
        # An address that two libraries may read differently could pass here and lead elsewhere.
        if host is None or host.scheme not in ("http", "https"):
            raise ConfigError(
                f"'{address}', which would get your key, is not a plain address of a server",
                where=value.key,
                remedy=_repeat(value),
            )
        provider = provider_of(model)
        names = credentials_of(provider)
        if host.is_own(provider) or _is_trusted(host, names):
            allow(address)
            return
        known_rules = rules()
        # A server on this machine needs no trust if it gets no key.
        callable_without_key = (
            provider in known_rules.loopback_providers
            and transport in known_rules.loopback_transports
        )
        if host.is_loopback and callable_without_key:
            withhold(address)
            return
        raise _untrusted_error(
            host, names, value, self.origin, f"the judge is called at {address}"
        )

    def read(self, value: Value) -> None:
        """Check a path that is read."""
        text = str(value.value)
        recorded = self.origin.recorded and value.path[0] == "prompt"
        if recorded or self.origin.has(value):
            return
        if value.path[-1] in ("language", "template") and _NAME.fullmatch(text):
            return  # a name in a folder of prompts
        # Shipped samples and what the tracking server has are no files of the user.
        scheme = _DATA_SCHEME.match(text)
        if text == "-" or (scheme and scheme[1] in rules().schemes["data"]):
            return
        if (
            value.path[-1] == "path"
            and self.sibling(value, "format") == "hf"
            and _on_hub(text)
        ):
            return
        if _SCHEME.match(text):
            raise ConfigError(
                f"a file names '{text}', whose scheme is not a known one",
                where=value.key,
                remedy=_repeat(value),
            )
        # In the user's own project, secrets are refused; from elsewhere, all outside its folder.
        if self.origin.folder is None:
            fault = _why_hidden(text)
        else:
            fault = _why_outside(text, self.origin.folder)
        if fault and not is_installed(value.path[-1], text):
            raise ConfigError(
                f"a file names '{text}', {fault}",
                where=value.key,
                remedy=_repeat(value),
            )

    def written(self, value: Value) -> None:
        """Check a path that is written, or the URL of a database or a server."""
        text = str(value.value)
        section = value.path[0]
        # What the user's own variable names is the user's choice too.
        variable = _OF_THE_USER[section]
        is_the_users = self.origin.has(value) or text == os.environ.get(variable)
        if is_the_users or is_installed(value.path[-1], text):
            return
        scheme = _SCHEME.match(text)
        schemes = rules().schemes
        # A file is not a server: it is checked by its path.
        if scheme is None or scheme[1].lower() in schemes[section]:
            self._check_file(value, text)
            return
        host = host_of(text)
        # Such as postgresql+psycopg: the part behind + is the driver.
        kind, _, _ = scheme[1].lower().partition("+")
        names = DATABASES.get(kind, MLFLOW)
        if kind not in schemes[f"{section}_servers"] or host is None:
            raise ConfigError(
                f"a file names '{text}', which is not a plain address of a known kind",
                where=value.key,
                remedy=_repeat(value),
            )
        if not _is_trusted(host, names):
            raise _untrusted_error(
                host, names, value, self.origin, "a file names this server"
            )

    def _check_file(self, value: Value, text: str) -> None:
        """Check that a file is below the folders of the user.

        Raises:
            ConfigError: If it is elsewhere, or could be read as a server or as options.
        """
        path = text.removeprefix("sqlite:///")
        # What is no plain path may be read as a server or as options by the library that opens
        # it.
        odd = (
            path.startswith("sqlite:")
            or re.match(r"[A-Za-z][\w+.-]+:|databricks|uc\b", path)
            or set(path) & set("?#%")
        )
        if path == ":memory:":
            return
        if odd or not any(
            _below(Path(path).expanduser(), root) for root in own_roots()
        ):
            problem = f"a file would write to '{text}', outside the current folder"
            raise ConfigError(problem, where=value.key, remedy=_repeat(value))

    def free(self, value: Value) -> None:
        """Check parameters that another library interprets."""
        if not isinstance(value.value, Mapping):
            return
        # Settings of a package are judged by another rule than parameters of a provider.
        if value.key == OPTIONS:
            risky: Iterator[tuple[str, ...]] = iter(())
            if not code_allowed():
                risky = risky_settings(OPTIONS, value.value)
        elif value.path[0] == "tracking":
            risky = (path for path, _ in leaves(value.value))
        else:
            risky = risky_params(value.value)
        for path in risky:
            # Down the path to the value that is risky.
            part: Any = value.value
            for name in path:
                part = part[name]
            here = Value((*value.path, *path), Kind.FREE, part)
            if self.origin.has(here) or is_installed(path[-1], part):
                continue
            problem = "is not a parameter that a file may set to this value"
            raise ConfigError(problem, where=here.key, remedy=_repeat(here))


_CHECKS: Final[Mapping[Kind, Callable[[_Walk, Value], None]]] = {
    Kind.TEXT: _Walk.text,
    Kind.PROGRAM: _Walk.program,
    Kind.MODEL: _Walk.model,
    Kind.SERVER: _Walk.server,
    Kind.READ: _Walk.read,
    Kind.WRITTEN: _Walk.written,
    Kind.FREE: _Walk.free,
}
_OF_THE_USER: Final = {"store": "EVALKIT_STORE", "tracking": "MLFLOW_TRACKING_URI"}


def provider_of(model: str) -> str:
    """Return the provider in a model's name; an empty text if LiteLLM finds it by a
    list of models.
    """
    provider, slash, _ = model.partition("/")
    if slash:
        return provider.lower()
    if _OF_OPENAI.fullmatch(model):
        return "openai"
    return ""


def credentials_of(provider: str) -> tuple[str, ...]:
    """Return the names of the variables that a call to a provider may send.

    A server of OpenAI's protocol that is called without LiteLLM gets OpenAI's key, if the provider
    is not a known one.
    """
    if provider:
        # LiteLLM's way to name the variable with a provider's key.
        own_variable = f"{re.sub(r'[^a-z0-9]', '_', provider).upper()}_API_KEY"
    else:
        own_variable = ""
    known_rules = rules()
    if provider in known_rules.hosts or provider in known_rules.loopback_providers:
        return (own_variable,)
    return tuple(name for name in (own_variable, "OPENAI_API_KEY") if name)


def _is_trusted(host: Host, names: Sequence[str]) -> bool:
    """Return whether a host may get credentials, by their names.

    A host that this command trusts is kept, if trust is to be kept.
    """
    # Trust in a host is for certain credentials: a trusted proxy for one key must not get
    # another.
    covering = [entry for entry in trust().hosts if entry.covers(host)]
    if not any(entry.allows(names) for entry in covering):
        return False
    # Only entries of this command are kept; the others are kept already or come from a variable.
    named_entries = [
        entry
        for entry in read_entries(trusted_words(), FLAG).hosts
        if entry.covers(host)
    ]
    if named_entries and is_keeping():
        # The host may get what it needs now, and no other credential later.
        kept_entries = [
            Entry(entry.host, entry.port, entry.names or frozenset(names))
            for entry in named_entries
        ]
        keep(Trust(kept_entries))
    return True


def _untrusted_error(
    host: Host, names: Sequence[str], value: Value, origin: Origin, problem: str
) -> UntrustedError:
    """Return the error for a host that is not trusted: what it would get, and how to trust it."""
    listed = " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    if value.kind == Kind.SERVER:
        gets = f"your key ({listed})"
    else:
        gets = listed or "your data"
    if origin.flag:
        repeat = f"{origin.flag} {value.value}"
    else:
        repeat = pasted(value.key, str(value.value))
    remedy = (
        f"if you trust this server, add {FLAG} {host} (once, it is kept), or {repeat}"
    )
    return UntrustedError(
        host, names, f"{problem}, which would get {gets}", value.key, remedy
    )


def _repeat(value: Value) -> str:
    override = pasted(_bare_key(value), str(value.value))
    return f"if you trust it, repeat it on the command line: {override}"


def _bare_key(value: Value) -> str:
    """Return the key without positions: a rule that is written without a list is the
    only one of its list.
    """
    return ".".join(part for part in value.path if not part.isdigit())


def check_read(key: str, text: str, origin: Origin, remedy: str) -> None:
    """Check a path outside the config's fields that a file names and that is read.

    Raises:
        ConfigError: If the file may not read it.
    """
    fault = _why_outside(text, origin.folder) if origin.folder else _why_hidden(text)
    if fault:
        raise ConfigError(f"a file names '{text}', {fault}", where=key, remedy=remedy)


def _on_hub(text: str) -> bool:
    return (
        re.fullmatch(r"[\w.-]+(/[\w.-]+)?", text) is not None
        and not Path(text).exists()
    )


def _below(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _why_hidden(text: str) -> str:
    """Return why a file of the user's project may not read a path; an empty text if it may."""
    path = Path(text).expanduser()
    named = Path(os.path.abspath(path))  # noqa: PTH100 - a link must not hide the name
    # a link counts by its own name and by that of its target
    for target in (named, path.resolve()):
        # Inside the project everything may be read but its hidden files, such as `.env`.
        if any(target.is_relative_to(root.resolve()) for root in own_roots()):
            if target.name.startswith("."):
                return "a hidden file"
            continue
        if any(part.startswith(".") for part in target.parts):
            return "a hidden file outside the project"
        if str(target).startswith(_SYSTEM):
            return "a file of the system"
        if has_magic(str(target.parent)) or "[" in target.name:
            return "a glob of folders outside the project"
    # Files of credentials can have any name; variables such as GOOGLE_APPLICATION_CREDENTIALS
    # name them.
    holders = [
        name
        for name, value in os.environ.items()
        if value[:1] in ("/", "~") and _HOLDS.search(name)
    ]
    files = {Path(os.environ[name]).expanduser() for name in holders}
    if {named, path.resolve()} & files:
        return "the file of a credential"
    return ""


def _why_outside(text: str, folder: Path) -> str:
    """Return why a file from elsewhere may not read a path.

    An empty text if all that it can read is below its folder.
    """
    path = Path(text).expanduser()
    root = folder.resolve()
    reason = f"which is not below its folder {folder}"
    # In the order in which a relative path is looked up: the first that exists is the one read.
    for base in dict.fromkeys((Path.cwd(), project(), folder)):
        target = base / path
        # All that a glob can match is below the first folder without a wildcard.
        if has_magic(text):
            target = next(
                parent for parent in target.parents if not has_magic(str(parent))
            )
        if os.path.lexists(target):  # what does not exist is reported when it is read
            if all(_below(file, root) for file in _files(target)):
                return ""
            return reason
    return ""


def _files(path: Path) -> Iterator[Path]:
    """Yield a path and all that is in it: a link in a folder may lead anywhere."""
    yield path
    if path.is_dir():
        for number, inner in enumerate(path.rglob("*")):
            # Too many files to check: the root of the disk is below no folder, so the path is
            # refused.
            yield inner if number < _MOST_FILES else Path(path.anchor)
