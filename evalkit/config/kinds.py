"""What the text of a config field is: a server, a path, code, free parameters, or only text.

Each field that can hold a text has one of these kinds as its type, so that the policy for configs
from elsewhere is about kinds, and no new key is forgotten. Numbers, switches and fixed choices
need none: they can name nothing.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel

from evalkit.core.values import frozen


class Kind(Enum):
    """What a text names."""

    TEXT = "text"
    """Nothing: it is shown, compared or counted."""
    MODEL = "model"
    """A model of a provider, which has a server of its own."""
    SERVER = "server"
    """The address of a server, which gets what is sent and perhaps a credential."""
    READ = "path that is read"
    """A file, a folder, or a source of data."""
    WRITTEN = "path that is written"
    """A file that is written, or the URL of a database or a server that is written to."""
    PROGRAM = "program"
    """Code: a plug-in's name, or the dotted path of a class."""
    FREE = "free parameters"
    """Parameters that another library interprets."""


Text: TypeAlias = Annotated[str, Kind.TEXT]
Model: TypeAlias = Annotated[str, Kind.MODEL]
Server: TypeAlias = Annotated[str, Kind.SERVER]
ReadPath: TypeAlias = Annotated[str, Kind.READ]
WrittenPath: TypeAlias = Annotated[str, Kind.WRITTEN]
Program: TypeAlias = Annotated[str, Kind.PROGRAM]
FreeParameters: TypeAlias = Annotated[dict[str, Any], Kind.FREE]
Settings: TypeAlias = Annotated[dict[str, Any], Kind.TEXT]
"""Settings that only code without input and output reads, such as those of a mode or a probe."""

_HARMLESS = (int, float, bool, type(None))


@frozen
class Field:
    """A field that can hold texts: its key, with `*` for names and numbers, and its kinds."""

    key: str
    kinds: frozenset[Kind]


@frozen
class Value:
    """A value in a config: its key path, its kind, and what it is."""

    path: tuple[str, ...]
    kind: Kind
    value: Any

    @property
    def key(self) -> str:
        """The key, as on the command line."""
        return ".".join(self.path)


@cache
def hints_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the types of a model's fields with their kinds, and of its additional keys as `*`."""
    hints = get_type_hints(model, include_extras=True)
    kinds_of_fields = {name: hints[name] for name in model.model_fields}
    # Its type is a mapping of str to the type of the values.
    extra = hints.get("__pydantic_extra__")
    if model.model_config.get("extra") == "allow" and extra is not None:
        kinds_of_fields["*"] = get_args(extra)[1]
    return kinds_of_fields


def kinds_in(annotation: Any) -> Iterator[Kind | None]:
    """Yield the kind of each text in a type, outside of models.

    `None` for a text without a kind.
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        kinds = [part for part in annotation.__metadata__ if isinstance(part, Kind)]
        if kinds:
            yield kinds[-1]  # the outermost type decides
            return
        yield from kinds_in(annotation.__origin__)
    elif _opens_nothing(annotation, origin):
        return
    elif origin in (dict, Mapping):
        yield from kinds_in(get_args(annotation)[1])  # a name opens nothing
    elif origin in (Union, types.UnionType, list, tuple, frozenset, set):
        for part in get_args(annotation):
            yield from kinds_in(part)
    else:
        yield None


def _opens_nothing(annotation: Any, origin: Any) -> bool:
    """Return whether values of a type name nothing, or are models, whose fields have kinds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return True
    return origin is Literal or annotation in _HARMLESS or annotation is Ellipsis


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a type names, as of a field: `list[Model] | None` has one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def fields_of(
    model: type[BaseModel], prefix: str = "", enclosing: tuple[Any, ...] = ()
) -> Iterator[Field]:
    """Yield each field with texts of a model and of the models in it.

    Raises:
        TypeError: If a text has no kind.
    """
    for name, annotation in hints_of(model).items():
        key = f"{prefix}{name}"
        kinds = frozenset(kinds_in(annotation))
        if None in kinds:
            raise TypeError(
                f"{model.__name__}.{name} can hold a text of no kind: see config.kinds"
            )
        if kinds:
            yield Field(key, frozenset(kind for kind in kinds if kind is not None))
        for inner in models_in(annotation):
            if inner not in enclosing:  # a panel has judges, with the same keys
                yield from fields_of(inner, f"{key}.", (*enclosing, model, inner))


def values_of(config: BaseModel, path: tuple[str, ...] = ()) -> Iterator[Value]:
    """Yield each value with a kind in a config, also in its lists and mappings."""
    hints = hints_of(type(config))
    extra = config.__pydantic_extra__ or {}
    for name, annotation in hints.items():
        # Additional keys of a section have one type for all of them.
        if name == "*":
            for key, part in extra.items():
                yield from _named_values(part, annotation, (*path, str(key)))
            continue
        yield from _named_values(getattr(config, name), annotation, (*path, name))


def _named_values(
    value: Any, annotation: Any, path: tuple[str, ...]
) -> Iterator[Value]:
    """Yield the values in a field that name something, with their kinds and paths."""
    # Numbers and switches name nothing.
    if value is None or isinstance(value, bool | int | float):
        return
    if isinstance(value, BaseModel):
        yield from values_of(value, path)
        return
    kinds = [kind for kind in kinds_in(annotation) if kind is not None]
    models = next(models_in(annotation), None)
    # Free parameters are one value: only the library that reads them knows their parts.
    if isinstance(value, Mapping) and (models is not None or Kind.FREE not in kinds):
        for key, part in value.items():
            yield from _named_values(part, annotation, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _named_values(part, annotation, (*path, str(index)))
    elif kinds:
        yield Value(path, kinds[0], value)
