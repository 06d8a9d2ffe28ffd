"""The bytes of the pictures that this process knows, by their hash: files, temporary
files, folders of runs, URLs.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from evalkit.core.images import SUFFIXES, URL, Image, ImageError, images_in
from evalkit.core.regular_files import open_file

FOLDER: Final = "images"
"""The folder of pictures in a run folder."""
LARGEST: Final = 20_000_000
"""The most bytes of any picture, whatever the config says."""
LONGEST_URL: Final = 2_000
EMBEDDED: Final = 60_000
"""The most bytes of a picture in a report."""
_ROOM: Final = 1_000_000
"""The most bytes of all of them."""
_PASSING: Final = 1_000_000_000
"""The most bytes of the pictures of a server's last requests."""
_GONE: Final = "restore the file, or read the data set again"


class ImageFiles:
    """Where the pictures are; a picture is read when it is sent, and only if its bytes
    still have their hash.
    """

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}
        self._urls: dict[str, str] = {}
        self._folders: dict[Path, None] = {}
        self._passing: dict[str, int] = {}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock = Lock()

    def add_file(self, image: Image, path: Path) -> None:
        """Add a picture that is in a file, which must stay where it is."""
        self._paths[image.sha] = path

    def add_bytes(self, image: Image, content: bytes, *, passing: bool = False) -> None:
        """Add a picture that was in the data.

        Its bytes are in a temporary file until the process ends.

        Args:
            image: The picture.
            content: Its bytes.
            passing: Whether it is of a request to a server, which keeps the last ones only.
        """
        with self._lock:
            added_path = self._paths.get(image.sha)
            if added_path is None:
                path = self._folder() / image.file_name
                path.write_bytes(content)
                self._paths[image.sha] = path
            # A picture of the data must never be forgotten because a request had it, too.
            if passing and (added_path is None or image.sha in self._passing):
                self._pass(image.sha, len(content))
            elif not passing:
                self._passing.pop(image.sha, None)

    def _pass(self, sha: str, size: int) -> None:
        """Note that a request has a picture, and forget the oldest ones of requests if
        they need too much room.
        """
        self._passing.pop(sha, None)
        self._passing[sha] = size
        # Dictionaries keep their order, so the first entry is the oldest.
        while sum(self._passing.values()) > _PASSING and len(self._passing) > 1:
            oldest = next(iter(self._passing))
            del self._passing[oldest]
            self._paths.pop(oldest).unlink(missing_ok=True)

    def add_url(self, image: Image, url: str) -> None:
        """Add a picture that the provider fetches."""
        self._urls[image.sha] = url

    def add_folder(self, folder: Path) -> None:
        """Add the pictures of a run folder, whose names are their hashes."""
        self._folders[folder.absolute()] = None

    def content(self, image: Image) -> bytes:
        """Return the bytes of a picture, or of its URL.

        Raises:
            ImageError: If they are gone, or are no longer the same.
        """
        if image.kind == URL and image.sha in self._urls:
            return self._urls[image.sha].encode()
        added_path = self._paths.get(image.sha)
        folders = [folder / image.file_name for folder in self._folders]
        for path in [added_path, *folders]:
            if path is None:
                continue
            with suppress(OSError, ImageError):
                content = read_file(path, LARGEST)
                # A file may have changed since the data was read: the judge must see what the key
                # names.
                if hashlib.sha256(content).hexdigest() == image.sha:
                    return content
        where = image.short if added_path is None else str(added_path)
        problem = f"{where}: the picture is gone, or is another one than before"
        raise ImageError(problem, _GONE)

    def chunks(self, image: Image) -> Iterator[bytes]:
        """Yield the bytes of a picture when they are asked for; nothing if they are gone."""
        with suppress(ImageError):
            yield self.content(image)

    def _folder(self) -> Path:
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="evalkit-images-")
            atexit.register(self._temporary.cleanup)
        return Path(self._temporary.name)


IMAGES: Final = ImageFiles()
"""The pictures of this process: they are named by their content, so all users can share them."""


def read_file(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        ImageError: If it has more than `most` bytes.
        OSError: If it cannot be read, or is a folder, a pipe or a device.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
    if max(size, len(content)) > most:
        raise too_large(max(size, len(content)), most)
    return content


def too_large(size: int, most: int) -> ImageError:
    """Return the error for a picture of too many bytes."""
    problem = f"the picture has {size:,} bytes, over {most:,}"
    remedy = "give a smaller copy of it"
    if most < LARGEST:
        remedy += f", or raise dataset.max_image_bytes (up to {LARGEST:,})"
    return ImageError(problem, remedy)


def data_url(image: Image) -> str:
    """Return a picture as a URL with its bytes; one that the provider fetches as its URL.

    Raises:
        ImageError: If its bytes are gone, or are no longer the same.
    """
    from base64 import b64encode

    content = IMAGES.content(image)
    if image.kind == URL:
        return content.decode()
    return f"data:{image.kind};base64,{b64encode(content).decode()}"


def picture_sources(
    texts: Iterable[str],
    *,
    largest: int = EMBEDDED,
    room: int = _ROOM,
    files: bool = True,
) -> dict[str, str]:
    """Return the source of each picture of texts by its hash.

    It is a data URL, or its file in the run folder.

    A picture at a URL has none: a page fetches nothing.

    Args:
        texts: The texts.
        largest: The most bytes of a picture in the page itself.
        room: The most bytes of all of them.
        files: Whether larger pictures can be files below the page.
    """
    sources: dict[str, str] = {}
    for image in images_in(texts):
        if image.kind == URL or image.sha in sources:
            continue
        try:
            size = len(IMAGES.content(image))
            if size <= min(largest, room):
                sources[image.sha] = data_url(image)
                room -= size
            elif files:
                sources[image.sha] = f"{FOLDER}/{image.file_name}"
        except ImageError:
            continue
    return sources


def is_image_file(name: str) -> bool:
    """Return whether a name below a run folder is that of a picture."""
    folder, slash, file = name.partition("/")
    stem, _, suffix = file.partition(".")
    has_known_suffix = suffix in {*SUFFIXES.values(), "url"}
    return folder == FOLDER and bool(slash) and has_known_suffix and stem.isalnum()
