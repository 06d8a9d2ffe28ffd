"""Pictures in texts: each is a marker with the hash of its bytes, which are kept by that hash.

A text has `[image 12 kB image/png sha256:…]` where a picture was. So prompts, orders, content keys
and run folders need to know nothing about pictures; only what sends a prompt, or shows a case,
looks for markers. A media type is what the first bytes say, never what a name says.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from evalkit.core.types import Case
from evalkit.core.values import frozen

SUFFIXES: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
}
"""The media types of pictures that judges can see, with the suffixes of their files."""
URL: Final = "image/url"
"""The kind of a picture that the provider fetches; any other kind is a media type."""
OMITTED: Final = "[image omitted]"
"""What a text has instead of a picture with `dataset.images=omit`."""
_SEARCHED_TOGETHER: Final = 500
"""How many cases are searched at once."""
MOST_PIXELS: Final = 50_000_000
MOST_PER_SIDE: Final = 20_000
_WEBP_HEADER: Final = 30
"""The bytes of the header of a WebP picture, whatever its layout."""
_START: Final = "[image "
_MARKER: Final = re.compile(
    r"\[image (?:(?P<size>[\d,]+ k?B) (?P<media>image/(?:png|jpeg|gif|webp))|image/url)"
    r"(?: (?P<detail>low|high))? sha256:(?P<sha>[0-9a-f]{64})\]"
)
_IMITATION: Final = re.compile(rf"{_MARKER.pattern}|{re.escape(OMITTED)}")
_ESCAPED: Final = "&#91;"


class ImageError(ValueError):
    """A picture cannot be used; `str()` says why, `remedy` what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(problem)


@frozen
class Image:
    """One picture of a text.

    Attributes:
        sha: The SHA-256, in hex, of the bytes, or of the URL if `kind` is `image/url`.
        kind: The media type, or `image/url`.
        size: The size as shown, such as `12 kB`; empty for a URL.
        detail: How closely the judge looks at it, `low` or `high`; empty if it is not set.
    """

    sha: str
    kind: str
    size: str = ""
    detail: str = ""

    @property
    def marker(self) -> str:
        """The text that has the place of the picture."""
        return f"{self.short[:-1]} sha256:{self.sha}]"

    @property
    def short(self) -> str:
        """The picture in logs and terminals."""
        words = filter(None, (self.size, self.kind, self.detail))
        return f"[image {' '.join(words)}]"

    @property
    def file_name(self) -> str:
        """The name of its file in the folder `images` of a run: `<hash>.png`, or `<hash>.url`."""
        return f"{self.sha}.{SUFFIXES.get(self.kind, 'url')}"


def image_of(content: bytes, detail: str = "") -> Image:
    """Return the picture that bytes are.

    Raises:
        ImageError: If they are no picture of a known type, or one with too many pixels.
    """
    kind, width, height = read_header(content)
    if not (width and height):
        raise ImageError("the picture is empty", "give another file")
    # A small file can decode to gigabytes of pixels.
    if width * height > MOST_PIXELS or max(width, height) > MOST_PER_SIDE:
        problem = f"the picture has {width:,} x {height:,} pixels, over {MOST_PIXELS:,}"
        raise ImageError(problem, "give a smaller copy of it")
    size = len(content)
    size_text = f"{size:,} B" if size < 1000 else f"{round(size / 1000):,} kB"
    return Image(hashlib.sha256(content).hexdigest(), kind, size_text, detail)


def url_image(url: str, detail: str = "") -> Image:
    """Return the picture at a URL, which the provider fetches."""
    sha = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
    return Image(sha, URL, "", detail)


def read_header(content: bytes) -> tuple[str, int, int]:
    """Return the media type, and the width and height in pixels, in the first bytes of a picture;
    nothing is decoded.

    Raises:
        ImageError: If it is not a PNG, JPEG, GIF or WebP, or its beginning is damaged.
    """
    try:
        # By the first bytes, never by the name, which may be wrong.
        if content.startswith(b"\x89PNG\r\n\x1a\n") and content[12:16] == b"IHDR":
            return ("image/png", *struct.unpack(">II", content[16:24]))
        if content.startswith((b"GIF87a", b"GIF89a")):
            return ("image/gif", *struct.unpack("<HH", content[6:10]))
        if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            return ("image/webp", *_webp_size(content))
        if content.startswith(b"\xff\xd8\xff"):
            return ("image/jpeg", *_jpeg_size(content))
    except (struct.error, IndexError):
        raise ImageError(
            "the picture is damaged", "give a whole PNG, JPEG, GIF or WebP"
        ) from None
    start = content[:1000].lstrip().lower()
    if start.startswith((b"<svg", b"<?xml", b"<!doctype svg")):
        raise ImageError("SVG can contain scripts", "convert it to PNG")
    raise ImageError(
        "is not a PNG, JPEG, GIF or WebP by its first bytes", "convert it to one"
    )


def _webp_size(content: bytes) -> tuple[int, int]:
    """Return the width and height of a WebP picture, of any of its three layouts, which byte 12
    names.

    Raises:
        IndexError: If its header is damaged; `struct.error` if it ends too early.
    """
    kind = content[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(content[24:27], "little") + 1
        height = int.from_bytes(content[27:30], "little") + 1
    elif kind == b"VP8L" and content[20] == 0x2F:
        # Both sizes have 14 bits, each less by one.
        bits = int.from_bytes(content[21:25], "little")
        width = (bits & 0x3FFF) + 1
        height = (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        # The two highest bits of each size are a scale.
        width, height = (size & 0x3FFF for size in struct.unpack("<HH", content[26:30]))
    else:
        raise IndexError
    if len(content) < _WEBP_HEADER:
        raise IndexError
    return width, height


_FRAMES: Final = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""The JPEG markers whose segments begin with the size of the picture."""


def _jpeg_size(content: bytes) -> tuple[int, int]:
    """Return the width and height of a JPEG picture, from its first frame.

    Raises:
        IndexError: If its header is damaged; `struct.error` if it ends too early.
    """
    # Segments begin with FF and a code, followed by their length; the first two bytes are the
    # start of the picture.
    position = 2
    while True:
        if content[position] != 0xFF:
            raise IndexError
        code = content[position + 1]
        if code == 0xFF:  # padding
            position += 1
        elif code == 0x01 or 0xD0 <= code <= 0xD8:  # these have no segment
            position += 2
        elif code in _FRAMES:
            # Marker (2), length (2) and precision (1) come before the size.
            height, width = struct.unpack(">HH", content[position + 5 : position + 9])
            return width, height
        else:
            (length,) = struct.unpack(">H", content[position + 2 : position + 4])
            if length < 2:
                raise IndexError
            # The length counts its own two bytes, but not the marker's.
            position += 2 + length


def texts_of(case: Case) -> tuple[str, ...]:
    """Return the texts of a case, in which its pictures are."""
    responses = (response.text for response in case.responses)
    return case.prompt, case.context or "", case.reference or "", *responses


def with_texts(case: Case, change: Callable[[str], str]) -> Case:
    """Return a case with every text as a function changes it."""
    return replace(
        case,
        prompt=change(case.prompt),
        context=case.context and change(case.context),
        reference=case.reference and change(case.reference),
        responses=tuple(
            replace(response, text=change(response.text)) for response in case.responses
        ),
    )


def lacks_images(case: Case) -> bool:
    """Return whether pictures of a case were omitted (`dataset.images=omit`)."""
    if OMITTED in case.prompt or OMITTED in (case.context or ""):
        return True
    if OMITTED in (case.reference or ""):
        return True
    # One text of all is searched in less time than each.
    return OMITTED in "\n".join([response.text for response in case.responses])


def lacking_images(cases: Sequence[Case]) -> list[Case]:
    """Return the cases of which pictures were omitted."""
    return [*filter(lacks_images, cases_with(OMITTED, cases))]


def cases_with_images(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield the cases that may have pictures."""
    return cases_with(_START, cases)


def cases_with(mark: str, cases: Sequence[Case]) -> Iterator[Case]:
    """Yield the cases of each block in which a text has a mark: no text of most runs has it, so
    that those of many cases are searched at once.
    """
    for start in range(0, len(cases), _SEARCHED_TOGETHER):
        block = cases[start : start + _SEARCHED_TOGETHER]
        texts = [case.prompt for case in block]
        texts += [case.context for case in block if case.context]
        texts += [case.reference for case in block if case.reference]
        texts += [response.text for case in block for response in case.responses]
        if mark in "\n".join(texts):
            yield from block


def without_images(case: Case) -> Case:
    """Return a case without its pictures: in each text, `OMITTED` is where one was."""

    def bare(text: str) -> str:
        if _START in text:
            return _MARKER.sub(OMITTED, text)
        return text

    return with_texts(case, bare)


def has_images(text: str) -> bool:
    """Return whether a text has a picture."""
    return _START in text and _MARKER.search(text) is not None


def images_in(texts: Iterable[str]) -> Iterator[Image]:
    """Yield the pictures of texts, in order."""
    for text in texts:
        if _START in text:
            yield from map(_image, _MARKER.finditer(text))


def _image(match: re.Match[str]) -> Image:
    kind = match["media"] or URL
    return Image(match["sha"], kind, match["size"] or "", match["detail"] or "")


def split_images(text: str) -> list[str | Image]:
    """Return the pieces of a text: texts, none of them empty, and pictures."""
    pieces: list[str | Image] = []
    done = 0
    for match in _MARKER.finditer(text):
        pieces += filter(None, [text[done : match.start()]])
        pieces.append(_image(match))
        done = match.end()
    return [*pieces, *filter(None, [text[done:]])]


def protected(text: str) -> str:
    """Return a text of the data in which nothing can be taken for a picture."""
    if _START not in text:
        return text
    return _IMITATION.sub(lambda match: f"{_ESCAPED}{match[0][1:]}", text)


def shown(text: str) -> str:
    """Return a text for logs and terminals: each picture as `[image 12 kB image/png]`."""
    if _START not in text:
        return text
    return _MARKER.sub(lambda match: _image(match).short, text)


def apart(text: str) -> tuple[str, list[str]]:
    """Return a text without its pictures, and the marker of each."""
    if _START not in text:
        return text, []
    return _MARKER.sub("", text), [image.marker for image in images_in([text])]
