"""Write figures of the page as separate SVG files, with the page's light style inline."""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup, escape

from evalkit.report.figures.drawing import Figure
from evalkit.report.page import asset

_MARGIN, _HEAD = 16, 40
_OPENING = re.compile(r'^<svg viewBox="0 0 (\d+) (\d+)"[^>]*>')
_COLOR = re.compile(r"(--\w+): light-dark\((#\w+), #\w+\)")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FONT = '"Segoe UI", "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", system-ui, sans-serif'


def alone(figure: Figure, language: str) -> str:
    """Return a figure as an SVG document with its title, in `en` or `zh`, on a light background."""
    opening = _OPENING.match(figure.svg)
    assert opening is not None, figure.name
    width, height = int(opening[1]) + 2 * _MARGIN, int(opening[2]) + _HEAD + 2 * _MARGIN
    hidden = "en" if language == "zh" else "zh"
    body = str(figure.svg)[opening.end() :]
    title = escape(figure.title[language == "zh"])
    elements = Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="{-_MARGIN} {-_HEAD - _MARGIN} {width} {height}" role="img" lang="{language}">'
        f"<style>{_style()}\nsvg .{hidden} {{ display: none; }}</style>"
        f'<rect class="ground" x="{-_MARGIN}" y="{-_HEAD - _MARGIN}" width="{width}" height="{height}"/>'
        f'<text class="heading" x="0" y="{-_HEAD + 8}">{title}</text>{body}'
    )
    return _NOT_XML.sub("�", elements)


@cache
def _style() -> str:
    """Return the page's style rules for drawings, with light colors."""
    sheet = asset("report.css")
    colors = dict(_COLOR.findall(sheet))
    rules = [line for line in sheet.splitlines() if line.startswith("svg ") and not line.startswith("svg {")]
    own = [
        f"svg {{ font-family: {_FONT}; }}",
        "svg .ground { fill: var(--page); }",
        "svg text.heading { font-size: 15px; font-weight: 600; }",
    ]
    return re.sub(r"var\((--\w+)\)", lambda name: colors[name[1]], "\n".join([*own, *rules]))
