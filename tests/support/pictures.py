"""Small pictures of each type, and a judge that answers by the bytes it receives."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.support.fake_provider import Reply, said


def png(name: str = "", width: int = 2, height: int = 2) -> bytes:
    """A whole PNG in one color, with a text in it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\x80" * min(width, 9)) * min(height, 9))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"tEXt", b"Comment\0" + name.encode())
        + chunk(b"IDAT", pixels)
        + chunk(b"IEND", b"")
    )


def jpeg(width: int = 2, height: int = 2) -> bytes:
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    return (
        b"\xff\xd8\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0"
        + b"\xff\xc0"
        + struct.pack(">H", len(frame) + 2)
        + frame
        + b"\xff\xd9"
    )


def gif(width: int = 2, height: int = 2) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int = 2, height: int = 2) -> bytes:
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + sizes
    return b"RIFF" + struct.pack("<I", len(body)) + body


def data_url(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def part(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def received(body: Mapping[str, Any]) -> Iterator[bytes]:
    """The bytes of each picture of a request in OpenAI's protocol, in order."""
    for message in body["messages"]:
        for one in message["content"] if isinstance(message["content"], list) else []:
            if one["type"] == "image_url":
                yield base64.b64decode(one["image_url"]["url"].partition(";base64,")[2])


def flat(body: Mapping[str, Any], name: Callable[[bytes], str]) -> str:
    """The texts of a request, with a name for the bytes of each picture."""
    pieces = []
    for message in body["messages"]:
        content = message["content"]
        for one in [text(content)] if isinstance(content, str) else content:
            if one["type"] == "text":
                pieces.append(one["text"])
            else:
                url = one["image_url"]["url"]
                pieces.append(name(base64.b64decode(url.partition(";base64,")[2])))
    return "".join(pieces)


def label(content: bytes) -> str:
    return f"<{re.search(rb'Comment.([a-z0-9 -]*)', content)[1].decode()}>"  # type: ignore[index]


def prefers_picture(good: str = "good") -> Callable[[Mapping[str, Any]], Reply]:
    """A judge of pairs: the response whose picture has `good` in its bytes is better."""

    def rule(body: Mapping[str, Any]) -> Reply:
        shown = flat(body, label)
        sides = re.findall(r"<response_([ab])>\n(.*?)\n</response_\1>", shown, re.S)
        won = [side for side, response in sides if f"<{good}" in response]
        return said(f"[[{won[0].upper()}]]" if len(won) == 1 else "[[C]]")

    return rule
