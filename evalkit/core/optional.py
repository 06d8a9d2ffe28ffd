"""Import optional libraries when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from evalkit.errors import ConfigError


def optional(module: str, where: str, what: str = "", *, library: str = "", install: str = "") -> Any:
    """Return a module of an optional library.

    Args:
        module: The module, such as `pyarrow.parquet`.
        where: The file, option or config key that needs it.
        what: The feature that needs it, for the message.
        library: The name of the library in the message; by default the module's first part.
        install: The argument of `pip install`; by default the library.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        library = library or module.partition(".")[0]
        needs, remedy = f"{what} needs {library}".strip(), f"install it: pip install {install or library}"
        raise ConfigError(needs, where=where, remedy=remedy) from None
