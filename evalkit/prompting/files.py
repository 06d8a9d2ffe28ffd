"""Where templates are read from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from jinja2 import BaseLoader, Environment, TemplateNotFound

from evalkit.errors import PromptError

_SHIPPED = "shipped/"


class TemplateFiles(BaseLoader):
    """Template files by name, each read once and hashed; the last of `folders` is evalkit's own.

    `recorded` holds the text of templates by name; these take precedence over files.
    """

    def __init__(self, folders: Sequence[Path], recorded: Mapping[str, str] | None = None) -> None:
        self.recorded = recorded or {}
        self.hashes: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self._folders = folders
        self._admitted: dict[str, Path] = {}
        self._sources: dict[str, tuple[str, Path]] = {}

    def admit(self, path: Path) -> str:
        """Make a file outside the folders known by its absolute path, and return that as its name."""
        self._admitted[path.as_posix()] = path
        return path.as_posix()

    def find(self, name: str) -> Path | None:
        """Return the file of a name, or none; a recorded template has a path that names no file."""
        if name in self.recorded:
            return Path(name)
        if name in self._admitted:
            return self._admitted[name]
        inside = PurePosixPath(name.removeprefix(_SHIPPED))
        if inside.is_absolute() or ".." in inside.parts:
            return None
        folders = self._folders[-1:] if name.startswith(_SHIPPED) else self._folders
        return next((folder / inside for folder in folders if (folder / inside).is_file()), None)

    def place(self, name: str, line: int | None) -> str:
        """Return where a line stands, for an error message."""
        path = self.find(name) or name
        return f"{path}:{line}" if line else str(path)

    def source(self, name: str) -> str:
        """Return the text of a template."""
        return self._read(name)[0]

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:  # noqa: ARG002
        """Return what Jinja asks of a loader."""
        source, path = self._read(template)
        return source, str(path), lambda: True

    def _read(self, name: str) -> tuple[str, Path]:
        if name not in self._sources:
            path = self.find(name)
            if path is None:
                raise TemplateNotFound(name)
            try:
                text = self.recorded[name] if name in self.recorded else path.read_bytes().decode("utf-8-sig")
            except UnicodeDecodeError as error:
                what = f"the byte at offset {error.start} is not UTF-8"
                raise PromptError(what, where=str(path), remedy="save the file as UTF-8") from None
            except OSError as error:
                raise PromptError(f"cannot be read ({error.strerror})", where=str(path)) from None
            self._sources[name] = text, path
            known = path.name if name in self._admitted else name
            self.hashes[known] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self.texts[known] = text
        return self._sources[name]
