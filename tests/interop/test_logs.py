"""Logs of other tools: archives as current versions write them, and order that does not depend on time."""

import json
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow
import pytest

from evalkit.core.errors import DatasetError, EvalkitError
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.importers import inspect as reader
from evalkit.interop.layouts.records import Options
from tests.support.import_layouts import LOG, export, result


def archive(path: Path, texts: dict[str, str], *, zstd: bool) -> Path:
    """Write an archive; with `zstd`, its members are marked and compressed as Inspect 0.3.285 does (method 93)."""
    with ZipFile(path, "w", ZIP_DEFLATED) as file:
        for name, text in texts.items():
            packed = (
                pyarrow.compress(text.encode(), codec="zstd", asbytes=True)
                if zstd
                else text.encode()
            )
            file.writestr(name, packed, compress_type=0 if zstd else None)
    if zstd:
        content = bytearray(path.read_bytes())
        for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            start = content.find(mark)
            while start >= 0:
                content[start + at : start + at + 2] = (93).to_bytes(2, "little")
                start = content.find(mark, start + 4)
        path.write_bytes(content)
    return path


def members() -> dict[str, str]:
    samples = {
        f"samples/{one['id']}_epoch_{one['epoch']}.json": json.dumps(one) for one in LOG["samples"]
    }
    head = {key: LOG[key] for key in ("version", "status", "eval")}
    return {"header.json": json.dumps(head), **samples}


@pytest.mark.parametrize("zstd", [False, True])
def test_an_archive_has_the_samples_of_the_log(tmp_path, zstd):
    path = archive(tmp_path / "log.eval", members(), zstd=zstd)
    assert recognize_format(path) == "inspect"
    whole = tmp_path / "log.json"
    whole.write_text(json.dumps(LOG))
    found, same = (import_judgments("inspect", file, Options()) for file in (path, whole))
    assert [one.criteria for one in found.judgments] == [one.criteria for one in same.judgments]
    assert found.cases == same.cases


@pytest.mark.parametrize("zstd", [False, True])
def test_an_archive_that_is_too_large_is_one_line(tmp_path, monkeypatch, zstd):
    monkeypatch.setattr(reader, "_LARGEST", 1_000_000)
    path = archive(
        tmp_path / "log.eval", {**members(), "samples/9_epoch_1.json": " " * 30_000_000}, zstd=zstd
    )
    assert path.stat().st_size < 200_000
    with pytest.raises(DatasetError, match=r"samples/9_epoch_1.json is too large: more than"):
        import_judgments("inspect", path, Options())


@pytest.mark.parametrize("zstd", [False, True])
def test_an_archive_damaged_anywhere_is_one_line_or_read(tmp_path, zstd):
    path = archive(tmp_path / "log.eval", members(), zstd=zstd)
    content = path.read_bytes()
    for at in range(0, len(content), max(1, len(content) // 60)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        one_line("inspect", path)
        path.write_bytes(content[:at])
        one_line("inspect", path)


def one_line(name: str, path: Path) -> None:
    fault = ""
    try:
        import_judgments(name, path, Options())
    except EvalkitError as error:
        fault = str(error)
    assert "\n" not in fault


def test_promptfoos_systems_are_in_the_order_of_the_config(tmp_path):
    rows = [result(test, prompt, prompt) for test in (0, 1, 2) for prompt in (0, 1)]
    cases = []
    for number, order in enumerate(
        (rows, rows[::-1], [rows[3], rows[0], rows[5], rows[1], rows[4], rows[2]])
    ):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(export(*order)))
        cases.append(import_judgments("promptfoo", file, Options()).cases)
    assert cases[0] == cases[1] == cases[2]
    assert [one.model for one in cases[0][0].responses] == ["openai:gpt-5", "openai:gpt-5-mini"]
