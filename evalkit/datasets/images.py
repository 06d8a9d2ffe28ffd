"""Read the pictures in the content parts of messages, as OpenAI, Anthropic, Gemini,
Inspect and others write them.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from evalkit.core.display import relative
from evalkit.core.errors import DatasetError
from evalkit.core.image_files import IMAGES, LONGEST_URL, read_file, too_large
from evalkit.core.images import (
    OMITTED,
    URL,
    Image,
    ImageError,
    image_of,
    images_in,
    texts_of,
    url_image,
    without_images,
)
from evalkit.core.redaction import secret_in
from evalkit.core.types import Case
from evalkit.core.values import Json

IMAGE_KINDS: Final = frozenset({"image_url", "input_image", "image"})
"""The `type` of a content part that is a picture."""
_WITHOUT_CONTENT: Final = frozenset(
    {
        *("tool_use", "tool_call", "function_call", "server_tool_use"),
        *("tool_result", "tool_call_response", "function_call_output"),
        *("reasoning", "thinking", "redacted_thinking", "refusal"),
    }
)
"""The `type` of other parts that are named in the text."""
_DATA: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w=.-]+)*);base64,", re.I)
_MORE: Final = "raise dataset.max_images (up to 100), or remove pictures"
_DETAILS: Final = ("low", "high")
_AUTO: Final = (None, "", "auto", "original")
Check = Callable[[bool], None]
"""Raises if no judge can see a picture; called with whether it is a URL."""


class Album:
    """Reads the pictures of the rows of one data set.

    Args:
        omit: Whether pictures are omitted (`dataset.images=omit`).
        most: The most pictures of a row.
        largest: The most bytes of a picture.
        files: The files of the data set; a picture's file is below the folder of its row's file.
        check: Raises if no judge can see pictures; called before the first one is read.
        lenient: Whether a picture that cannot be read is only named, as what is imported is not
            judged again.
        passing: Whether the pictures are of a request to a server: data URLs only.
    """

    def __init__(
        self,
        *,
        omit: bool = False,
        most: int,
        largest: int,
        files: Sequence[Path] = (),
        check: Check | None = None,
        lenient: bool = False,
        passing: bool = False,
    ) -> None:
        self.omit, self.lenient = omit, lenient
        self._passing = passing
        self._most, self._largest = most, largest
        self._check = check
        self._checked: set[bool] = set()
        # a file's name, as locations of rows have it -> its folder
        self._folders = {str(relative(file)): _folder(file) for file in files}
        self._folders |= {str(file): _folder(file) for file in files}
        self.place = ""
        self._count = 0
        self.images: list[Image] = []
        """The pictures of the current row."""

    def begin(self, location: str) -> None:
        """Begin a row."""
        self.place = location
        self._count = 0
        self.images = []

    def read(self, part: Json) -> str:
        """Return the marker of the picture in a content part.

        Raises:
            DatasetError: If it cannot be used; the message names the row.
        """
        if self.omit:
            return OMITTED
        try:
            self._count += 1
            if self._count > self._most:
                raise ImageError(f"has more than {self._most} pictures", _MORE)
            image = self._load(*_picture_source(part))
        except (ImageError, OSError) as error:
            if isinstance(error, ImageError):
                bad = error
            else:
                bad = ImageError(
                    f"cannot be kept ({error.strerror})", "free disk space"
                )
            if self.lenient:
                return f"({kind_of(part)} that is not a text)"
            raise DatasetError(
                f"{kind_of(part)}: {bad}", where=self.place, remedy=bad.remedy
            ) from None
        self.images.append(image)
        return image.marker

    def recorded(self, case: Case) -> Case:
        """Return a case of a run folder: its pictures are in the folder, and are
        omitted if the config says so.
        """
        pictures = [*images_in(texts_of(case))]
        if pictures and self.omit:
            return without_images(case)
        for image in pictures:
            self._check_once(image.kind == URL)
        return case

    def check_count(self, case: Case) -> int:
        """Return the number of pictures of a case.

        Raises:
            DatasetError: If it has too many.
        """
        count = sum(1 for _ in images_in(texts_of(case)))
        if count > self._most:
            raise DatasetError(
                f"has more than {self._most} pictures",
                where=self.place,
                remedy=_MORE,
            )
        return count

    def _check_once(self, is_url: bool) -> None:
        # once for files and once for URLs: a judge may see only the former
        if is_url not in self._checked:
            if self._check is not None:
                self._check(is_url)
            self._checked.add(is_url)

    def refuse(self, kind: str) -> None:
        """Refuse a content part that is neither text nor a picture.

        Raises:
            DatasetError: Unless what is read is not judged.
        """
        if self.lenient:
            return
        name = kind[:40] if kind.isprintable() else "?"
        raise DatasetError(
            f"a content part of type '{name}' is not supported",
            where=self.place,
            remedy="judge text and pictures: remove the part, or put its text there",
        )

    def _load(self, location: str, declared: str, detail: str) -> Image:
        """Return the picture at a location: an https URL, a data URL, or a file.

        Args:
            location: Where the picture is.
            declared: The type that the row says it has.
            detail: The resolution that the judge sees it in.

        Raises:
            ImageError: If it cannot be read, or this place may not be read.
        """
        if self._passing and scheme_of(location) != "data":
            raise ImageError(
                "is no data URL", "send the picture as data:image/png;base64,…"
            )
        is_url = scheme_of(location) == "https"
        self._check_once(is_url)
        if is_url:
            image = url_image(_safe_url(location), detail)
            IMAGES.add_url(image, location)
            return image
        if location[:5].lower() == "data:":
            content, declared = _decode_data_url(location, self._largest)
            image = _of_type(content, declared, detail)
            IMAGES.add_bytes(image, content, passing=self._passing)
            return image
        path = self._picture_file(location)
        try:
            content = read_file(path, self._largest)
        except OSError as error:
            raise ImageError(
                f"{shortened(location)} cannot be read ({error.strerror})",
                "fix the path in the data",
            ) from None
        image = _of_type(content, declared, detail)
        IMAGES.add_file(image, path)
        return image

    def _picture_file(self, location: str) -> Path:
        """Return the file of a picture, after symbolic links: it is below the folder of the
        data's file.

        Raises:
            ImageError: If the location is a URL, absolute, outside the folder, or cannot be read;
                or if the rows are from no folder.
        """
        name = shortened(location)
        if not location.strip() or "\0" in location or len(location) > LONGEST_URL:
            raise ImageError("has no picture", "give a file, a data URL or a URL")
        if scheme := scheme_of(location):
            raise ImageError(
                f"'{scheme}:' URLs are not supported",
                "download it and give the file, below the data's folder",
            )
        if PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive:
            raise ImageError(
                f"{name} is an absolute path", "write it relative to the data's folder"
            )
        file = self.place.rpartition(":")[0]
        folder = self._folders.get(file)
        if folder is None:
            # rows that name no file: only one folder can be meant
            folders = {*self._folders.values()}
            folder = folders.pop() if len(folders) == 1 else None
        if folder is None:
            raise ImageError(
                f"{name} is a file, and these rows are from no folder",
                "give a data URL",
            )
        try:
            path = (folder / location).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "a loop of links"
            raise ImageError(
                f"{name} cannot be read ({reason})",
                f"put it below {shortened(str(relative(folder)))}",
            ) from None
        if not path.is_relative_to(folder.resolve()):
            raise ImageError(
                f"{name} is outside the data's folder",
                f"put it below {shortened(str(relative(folder)))}",
            )
        return path


_current: ContextVar[Album | None] = ContextVar("evalkit_album", default=None)


@contextmanager
def reading_images(album: Album | None) -> Iterator[None]:
    """Have pictures read into an album within the block; without one they are only named."""
    token = _current.set(album)
    try:
        yield
    finally:
        _current.reset(token)


def image_text(part: Any) -> str | None:
    """Return the marker of a picture, or `None` for a part that is named instead.

    Raises:
        DatasetError: If the picture cannot be used, or the part is audio, video or unknown.
    """
    album = _current.get()
    if album is None or not isinstance(part, Mapping):
        return None
    if is_image(part):
        return album.read(part)
    if part.get("type") not in [*_WITHOUT_CONTENT]:  # a list has no hash
        album.refuse(kind_of(part))
    return None


def is_reading_images() -> bool:
    """Return whether pictures are read into an album now."""
    return _current.get() is not None


def is_image(part: Any) -> bool:
    """Return whether a content part is a picture, of whatever type."""
    if not isinstance(part, Mapping):
        return False
    if isinstance(part.get("type"), str):
        blob = part["type"] in ("blob", "uri") and part.get("modality") == "image"
        return part["type"] in IMAGE_KINDS or blob
    inline = part.get("inline_data", part.get("inlineData"))
    return isinstance(inline, Mapping) and _mime(inline).startswith("image/")


def are_parts(value: Any) -> bool:
    """Return whether a value is the content of a message: a list of parts, each with its type."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(part, Mapping)
            and (isinstance(part.get("type"), str) or is_image(part))
            for part in value
        )
    )


def named_only(value: Any) -> Any:
    """Return a value of the metadata without the bytes of pictures, of which only the
    type is left.
    """
    if isinstance(value, list):
        return [named_only(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    if is_image(value):
        return {"type": value.get("type", "image")}
    return {name: named_only(part) for name, part in value.items()}


def kind_of(part: Json) -> str:
    """Return the name of a content part's type."""
    if isinstance(kind := part.get("type"), str):
        modality = part.get("modality")
        if isinstance(modality, str):
            return f"{modality} {kind}"
        return kind
    names = [name for name in part if name in ("inline_data", "inlineData")]
    if names and isinstance(inline := part[names[0]], Mapping):
        return _mime(inline) or names[0]
    return next(iter(map(str, part)), "something")


def _mime(inline: Json) -> str:
    return str(
        inline.get("mime_type", inline.get("mimeType", inline.get("media_type", "")))
    )


def _picture_source(part: Json) -> tuple[str, str, str]:
    """Return where the picture of a part is, its declared media type, which is always empty here,
    and the detail, empty for the default.

    Where it is may be a file, a URL or a data URL. The parts of OpenAI, Anthropic, Gemini,
    LangChain and OpenTelemetry are read.

    Raises:
        ImageError: If the part does not say it in a known way.
    """
    detail = part.get("detail")
    inline = part.get("inline_data", part.get("inlineData"))
    location: Any = None
    if isinstance(inline, Mapping):
        location = _encoded(inline)
    elif isinstance(source := part.get("source"), Mapping):
        location = source.get("url") if source.get("type") == "url" else None
        location = _encoded(source) if source.get("type") == "base64" else location
    elif part.get("type") == "blob":
        location = _encoded({**part, "data": part.get("content")})
    elif part.get("source_type") == "base64" or isinstance(part.get("base64"), str):
        location = _encoded({**part, "data": part.get("data", part.get("base64"))})
    else:
        names = ("image_url", "image", "url", "uri", "path")
        location = next((part[name] for name in names if name in part), None)
        if isinstance(location, Mapping):
            detail = location.get("detail", detail)
            location = location.get("url")
    if not isinstance(location, str):
        raise ImageError(
            "says in no known way where the picture is",
            'write {"type": "image_url", "image_url": {"url": "…"}}',
        )
    if detail not in (*_DETAILS, *_AUTO):
        raise ImageError(
            "has an unknown detail", "write low, high or auto, or remove it"
        )
    return location, "", detail if detail in _DETAILS else ""


def _encoded(inline: Json) -> str | None:
    data = inline.get("data")
    if isinstance(data, str):
        return f"data:{_mime(inline)};base64,{data}"
    return None


def _decode_data_url(url: str, most: int) -> tuple[bytes, str]:
    """Return the bytes and the declared media type of a data URL; the type may be empty.

    Args:
        url: The URL, which may contain line breaks.
        most: The most bytes of a picture.

    Raises:
        ImageError: If it is not valid base64, or too large.
    """
    match = _DATA.match(url[:200])
    if match is None:
        raise ImageError(
            "is a data URL without base64", "write data:image/png;base64,…"
        )
    # Four characters are three bytes, so most of a huge one is not decoded.
    if (size := (len(url) - match.end()) * 3 // 4) > most + 3:
        raise too_large(size, most)
    text = url[match.end() :]
    if any(character in text for character in " \n\r\t"):
        text = "".join(text.split())
    try:
        content = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ImageError("is damaged base64", "encode the file again") from None
    if len(content) > most:
        raise too_large(len(content), most)
    return content, (match[1] or "").lower()


def _of_type(content: bytes, declared: str, detail: str) -> Image:
    image = image_of(content, detail)
    if declared.replace("image/jpg", "image/jpeg") not in ("", image.kind):
        raise ImageError(
            f"is declared as {shortened(declared)}, and its bytes are {image.kind}",
            "fix the type",
        )
    return image


def _safe_url(url: str) -> str:
    """Return a URL that may be in a run folder and a request."""
    remedy = "download it and give the file"
    if len(url) > LONGEST_URL or not url.isprintable() or " " in url:
        raise ImageError("is not a URL of a picture", remedy)
    try:
        parts = urlsplit(url)
        host = parts.hostname
        user = parts.username
    except ValueError:
        raise ImageError("is not a URL", remedy) from None
    if not host:
        raise ImageError("is a URL without a host", remedy)
    if user is not None or secret_in(unquote(url)) or secret_in(url):
        raise ImageError("is a URL with a credential", remedy)
    return url


def scheme_of(location: str) -> str:
    """Return the scheme of a location in lower case; empty for a file's path."""
    match = re.match(r"\s*([a-z][a-z0-9+.-]+):", location[:60], re.IGNORECASE)
    if match:
        return match[1].lower()
    return ""


def shortened(text: str, most: int = 80) -> str:
    """Return a name in the data for a message: printable, on one line, not too long."""
    plain = "".join(c if c.isprintable() else "?" for c in text[: most + 1])
    if len(plain) <= most:
        return plain
    return f"{plain[:most]}…"


def _folder(file: Path) -> Path:
    path = file.absolute()
    if path.is_dir():
        return path
    return path.parent


__all__ = [
    "IMAGE_KINDS",
    "URL",
    "Album",
    "Check",
    "are_parts",
    "image_text",
    "is_image",
    "is_reading_images",
    "kind_of",
    "named_only",
    "reading_images",
]
