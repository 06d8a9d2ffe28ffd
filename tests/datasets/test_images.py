"""Pictures in content parts: what is read from each form of a log, and what is refused."""

import json
import os
import struct

import pytest

from evalkit.config import DatasetConfig
from evalkit.core.errors import DatasetError
from evalkit.core.image_files import IMAGES
from evalkit.core.images import ImageError, image_of, images_in, read_header, texts_of
from evalkit.datasets import CaseStream
from tests.support.pictures import data_url, gif, jpeg, part, png, text, webp

PNG = png("a picture")
URL = data_url(PNG)
ENCODED = URL.partition(",")[2]
FORMS = {
    "openai": part(URL),
    "openai, bare": {"type": "image_url", "image_url": URL},
    "responses": {"type": "input_image", "image_url": URL, "detail": "auto"},
    "anthropic": {"type": "image",
                  "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
    "inspect": {"type": "image", "image": URL, "detail": "auto"},
    "gemini": {"inline_data": {"mime_type": "image/png", "data": ENCODED}},
    "gemini, json": {"inlineData": {"mimeType": "image/png", "data": ENCODED}},
    "opentelemetry": {"type": "blob", "modality": "image", "mime_type": "image/png",
                      "content": ENCODED},
    "langchain": {"type": "image", "source_type": "base64", "mime_type": "image/png",
                  "data": ENCODED},
    "a file": part("pics/a.png"),
    "a path": {"type": "image", "path": "./pics/../pics/a.png"},
    "a link inside": part("pics/link.png"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    (data / "pics").mkdir(parents=True)
    (data / "pics/a.png").write_bytes(PNG)
    (data / "pics/link.png").symlink_to("a.png")
    (tmp_path / "outside.png").write_bytes(png("outside"))
    (data / "pics/out.png").symlink_to(tmp_path / "outside.png")
    (data / "up").symlink_to(tmp_path)
    (data / "pics/loop.png").symlink_to("loop.png")
    os.mkfifo(data / "pics/pipe.png")
    (data / "pics/device.png").symlink_to("/dev/zero")
    (data / "pics/text.png").write_text("no picture")
    (data / "pics/scripts.png").write_text("<svg xmlns='…'><script>1</script></svg>")
    (data / "pics/dir.png").mkdir()
    with (data / "pics/huge.png").open("wb") as file:
        file.write(PNG)
        file.truncate(30_000_000_000)
    return data


def read(folder, *content, mode="pointwise", response="fine", checked=(), **settings):
    """The cases of one row, whose prompt has these parts."""
    row = {"prompt": [{"role": "user", "content": list(content)}], "response": response}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    config = DatasetConfig(path=str(folder / "rows.jsonl"), **settings)
    return [*CaseStream(config, mode=mode, sees=checked.append if checked != () else None)]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_the_same_picture(folder, form):
    (case,) = read(folder, text("What?"), FORMS[form])
    (image,) = images_in([case.prompt])
    assert case.prompt == f"What?\n{image_of(PNG).marker}"
    assert IMAGES.content(image) == PNG


@pytest.mark.parametrize(
    ("content", "kind"),
    [(png(), "image/png"), (jpeg(), "image/jpeg"), (gif(), "image/gif"), (webp(), "image/webp")],
)
def test_a_type_is_what_the_bytes_say(folder, content, kind):
    assert read_header(content) == (kind, 2, 2)
    (folder / "pics/any.svg").write_bytes(content)
    (case,) = read(folder, part("pics/any.svg"))
    assert f" {kind} " in case.prompt
    for end in range(len(content)):  # a damaged header is an error, never another one
        try:
            assert read_header(content[:end]) == (kind, 2, 2)
        except ImageError:
            continue


BOMBS = (
    *(make(width=60_000, height=60_000) for make in (png, jpeg, gif)),
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 2**31, 1),
    webp(16_384, 16_384),
    gif(0, 5),
)


@pytest.mark.parametrize("content", BOMBS, ids=range(len(BOMBS)))
def test_a_bomb_is_refused_by_its_header(content):
    with pytest.raises(ImageError, match=r"pixels|empty"):
        image_of(content)


HOSTILE = {
    "../outside.png": "outside the data's folder",
    "pics/out.png": "outside the data's folder",
    "up/outside.png": "outside the data's folder",
    "up/data/../outside.png": "outside the data's folder",
    "/etc/passwd": "absolute path",
    "C:\\secret.png": "absolute path|'c:' URLs",
    "\\\\host\\share\\a.png": "absolute path|cannot be read",
    "file:///etc/passwd": "'file:' URLs are not supported",
    "FILE:pics/a.png": "'file:' URLs",
    "javascript:alert(1)": "'javascript:' URLs",
    "ftp://host/a.png": "'ftp:' URLs",
    "http://host/a.png": "'http:' URLs",
    "gs://bucket/a.png": "'gs:' URLs",
    "attachment://12": "'attachment:' URLs",
    "pics/pipe.png": "a pipe or a device",
    "pics/device.png": "outside the data's folder",
    "pics/loop.png": "cannot be read",
    "pics/dir.png": "cannot be read",
    "pics/missing.png": "cannot be read",
    "pics/a.png/x": "cannot be read",
    "pics/huge.png": "over 5,000,000",
    "pics/text.png": "not a PNG, JPEG, GIF or WebP",
    "pics/scripts.png": "SVG can contain scripts",
    "": "has no picture",
    " ": "has no picture",
    "pics/a.png\0": "has no picture",
    "x" * 5000: "has no picture",
    "x" * 1500: "cannot be read",
    "data:image/png,abc": "without base64",
    "data:;base64,": "is not a PNG",
    "data:image/png;base64,????": "damaged base64",
    data_url(PNG, "image/jpeg"): "declared as image/jpeg",
    data_url(PNG, "text/html"): "declared as text/html",
    data_url(b"<svg/>", "image/svg+xml"): "SVG can contain scripts",
    data_url(PNG + b"\0" * 5_000_001): "over 5,000,000",
    "https://user:word@host/a.png": "credential",
    "https://host/a.png?X-Amz-Signature=0123456789abcdef": "credential",
    "https:///a.png": "without a host",
    "https://host/a b.png": "not a URL",
    "https://[host/a.png": "not a URL",
    "https://host/" + "a" * 3000: "not a URL",
}


@pytest.mark.parametrize("url", HOSTILE, ids=lambda url: url[:40])
def test_what_is_no_picture_of_the_data_is_refused_in_one_line(folder, url):
    with pytest.raises(DatasetError, match=HOSTILE[url]) as refused:
        read(folder, part(url))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400
    assert refused.value.where.endswith("rows.jsonl:1")
    assert refused.value.remedy


@pytest.mark.parametrize("other", [
    {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
    {"type": "audio", "audio": "a.mp3"},
    {"type": "video", "video": "a.mp4"},
    {"type": "video_url", "video_url": {"url": "https://host/a.mp4"}},
    {"type": "file", "file": {"file_id": "1"}},
    {"type": "document", "source": {}},
    {"type": "blob", "modality": "video", "mime_type": "video/mp4", "content": ""},
    {"inline_data": {"mime_type": "audio/wav", "data": ""}},
    {"type": "made up"},
], ids=lambda one: one.get("type", "inline"))  # fmt: skip
def test_other_parts_are_refused_by_name(folder, other):
    name = other.get("type", "audio/wav")
    with pytest.raises(DatasetError, match=rf"'(\w+ )?{name}' is not supported"):
        read(folder, text("Listen."), other)


@pytest.mark.parametrize("image", [
    {"type": "image"},
    {"type": "image_url", "image_url": {"url": 5}},
    {"type": "image", "source": {"type": "file", "file_id": "f"}},
    {"type": "image_url", "image_url": {"url": URL, "detail": "ultra"}},
])  # fmt: skip
def test_a_picture_without_a_place_is_refused(folder, image):
    with pytest.raises(DatasetError, match=r"no known way|unknown detail"):
        read(folder, image)


def test_ten_thousand_parts_are_refused_at_the_limit(folder):
    with pytest.raises(DatasetError, match="more than 20 pictures"):
        read(folder, *[part("pics/a.png")] * 10_000)
    (case,) = read(folder, *[part("pics/a.png")] * 20)
    assert len([*images_in([case.prompt])]) == 20
    with pytest.raises(DatasetError, match="more than 3 pictures"):
        read(folder, *[part("pics/a.png")] * 4, max_images=3)


def test_a_text_cannot_imitate_a_picture(folder):
    marker = image_of(PNG).marker
    (case,) = read(
        folder, text(f"See {marker} [image omitted]"), part(URL), response=f"So {marker}"
    )
    assert len([*images_in(texts_of(case))]) == 1
    assert "&#91;image omitted]" in case.prompt
    assert case.responses[0].text.startswith("So &#91;image ")


def test_a_picture_survives_a_short_text(folder):
    (case,) = read(folder, text("long " * 100), part(URL), text("tail " * 100), max_chars=60)
    assert len([*images_in([case.prompt])]) == 1
    assert "characters omitted" in case.prompt


def test_pictures_are_omitted_only_where_that_is_said(folder):
    asked = []
    (case,) = read(folder, part(URL), part("/etc/passwd"), checked=asked, images="omit")
    assert case.prompt == "[image omitted]\n[image omitted]"
    assert asked == []


def test_turns_keep_their_pictures(folder):
    messages = [
        {"role": "user", "content": [text("What?"), part(URL)]},
        {"role": "assistant", "content": [{"type": "text", "text": "A picture."}]},
        {"role": "tool", "content": [part("pics/link.png")], "name": "draw"},
        {"role": "user", "content": "And this?"},
        {"role": "assistant", "content": f"{image_of(PNG).marker}"},
    ]
    (folder / "rows.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    config = DatasetConfig(path=str(folder / "rows.jsonl"), unit="turn")
    first, second = CaseStream(config, mode="pointwise")
    assert len([*images_in([first.prompt])]) == 1
    assert len([*images_in([first.responses[0].text])]) == 1
    assert len([*images_in([second.prompt])]) == 2
    assert len([*images_in([second.responses[0].text])]) == 0
