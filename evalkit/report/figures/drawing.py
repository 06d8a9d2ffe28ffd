"""Elements of SVG drawings; every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, inf, isnan, log10

from markupsafe import Markup, escape

from evalkit.core.values import frozen
from evalkit.report.texts import FIGURES, Words


@frozen
class Figure:
    """A drawing with its title and caption; a `wide` one has the width of the page."""

    name: str
    title: Words
    svg: Markup
    caption: Words
    wide: bool = False


@frozen
class Axis:
    """Maps values from `low` to `high` to pixels from `start` to `end`; values outside
    are moved to the nearest end.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the position of a value, or `start` if the axis has no length."""
        span = self.high - self.low
        # Empty, infinite or unknown: everything is at the start.
        if not 0 < span < inf or isnan(value):
            return self.start
        inside = min(max(value, self.low), self.high)
        return self.start + (self.end - self.start) * ((inside - self.low) / span)

    def ticks(self, count: int = 4) -> list[tuple[float, str]]:
        """Return (position, label) of about `count` round values, or none for an axis
        without a finite length.
        """
        step = _round_step((self.high - self.low) / count)
        if step is None:
            return []
        # 1e-9 of a step keeps a tick at the very end of the axis.
        first = self.low / step - 1e-9
        last = self.high / step + 1e-9
        if (
            # Too many ticks, or numbers so large that steps vanish in rounding.
            last - first > 2 * count + 2 or max(abs(first), abs(last)) > _FINEST
        ):  # steps below the precision of floats
            return []
        return [
            (self(k * step), f"{k * step:,.10g}")
            for k in range(ceil(first), floor(last) + 1)
        ]


# Floats have 53 bits, so that integers up to here are exact, with room for a step.
_FINEST = 2.0**50


def _round_step(raw: float) -> float | None:
    """Return the smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is at least
    `raw`, if there is one.
    """
    if not 0 < raw < inf or (power := 10.0 ** floor(log10(raw))) == 0:
        return None
    return next(
        (
            power * factor
            for factor in (1, 2, 2.5, 5, 10)
            # A thousandth of tolerance, so that 0.1 * 3 does not need the next larger step.
            if power * factor >= raw * 0.999
        ),
        None,
    )


def node(tag: str, *children: object, **attributes: object) -> Markup:
    """Return an element.

    `class_` and `text_anchor` become `class` and `text-anchor`; `None` values are omitted.
    """
    written = "".join(
        # A name that is a keyword of Python has a trailing underscore.
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    # Children that are markup stay, and all others are escaped.
    inner = Markup("").join(escape(child) for child in children)
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)


def hint(words: str, *children: object) -> Markup:
    """Return elements as one, with a text that is shown while the pointer is on them."""
    return node("g", node("title", words), *children)


def dot(x: float, y: float, size: float, class_: str = "dot") -> Markup:
    """Return a filled circle."""
    return node("circle", class_=class_, cx=x, cy=y, r=size)


def canvas(width: float, height: float, *children: object, label: Words) -> Markup:
    """Return a drawing of this size in pixels, which shrinks with the page."""
    return node(
        "svg",
        node("title", f"{label[0]} · {label[1]}"),
        *children,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        # The page scales a drawing down, but not up.
        style=f"max-width:{width:.0f}px;--width:{width:.0f}px",
    )


def text(
    x: float, y: float, words: Words | str, class_: str = "", **attributes: object
) -> Markup:
    """Return a text in both languages, of which the page shows one, or once if they are equal."""
    # Equal words, such as numbers, are written once.
    if isinstance(words, str) or words[0] == words[1]:
        content = words if isinstance(words, str) else words[0]
        return node("text", content, x=x, y=y, class_=class_ or None, **attributes)
    both = zip(("en", "zh"), words, strict=True)
    return Markup("").join(
        node(
            "text",
            content,
            x=x,
            y=y,
            class_=f"{class_} {language}".strip(),
            **attributes,
        )
        for language, content in both
    )


def line(
    x1: float, y1: float, x2: float, y2: float, class_: str, **attributes: object
) -> Markup:
    """Return a straight line."""
    return node("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **attributes)


def path(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Return a line through points."""
    coordinates = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    if coordinates:
        return node("path", d=f"M{coordinates}", class_=class_)
    return Markup("")


def levels(x: Axis, y: Axis, label: Callable[[str], str] = str) -> list[Markup]:
    """Return a line across the plot for each tick of the vertical axis, with its label."""
    ticks = [
        (line(x.start, at, x.end, at, "grid"), at, label(words))
        for at, words in y.ticks()
    ]
    return [
        element
        for across, at, words in ticks
        # Four pixels lower, so that the middle of the digits is at the line.
        for element in (across, text(x.start - 6, at + 4, words, "tick end"))
    ]


def grid(x: Axis, y: Axis, labels: tuple[Words, Words]) -> list[Markup]:
    """Return the grid, ticks in percent and labels of a plot's two axes."""
    elements = []
    for position, label in x.ticks():
        elements += [
            line(position, y.start, position, y.end, "grid"),
            text(position, y.start + 16, percent(label), "tick"),
        ]
    elements += levels(x, y, percent)
    elements.append(text((x.start + x.end) / 2, y.start + 34, labels[0], "axis"))
    elements.append(text(x.start, y.end - 10, labels[1], "axis start"))
    return elements


def percent(label: str) -> str:
    """Return the label of a share as a number of percent."""
    return f"{100 * float(label.replace(',', '')):g}"


def legend(x: float, y: float, entries: Sequence[tuple[str, Words]]) -> list[Markup]:
    """Return a legend with one line per entry, each after a sample of its line."""
    elements = []
    for index, (class_, words) in enumerate(entries):
        # Entries are 18 pixels apart.
        at = y + 18 * index
        elements += [
            line(x, at - 4, x + 18, at - 4, class_),
            text(x + 24, at, words, "key"),
        ]
    return elements


def text_width(words: Words | str, size: float = 8.5) -> float:
    """Return the most pixels that a text needs in either language, at `size` for an
    ASCII letter.
    """
    texts = (words,) if isinstance(words, str) else words
    return max(
        # Chinese characters are about 1.65 times as wide as letters.
        sum(size if letter.isascii() else 1.65 * size for letter in word)
        for word in texts
    )


def label_width(names: Iterable[str], extra: float, limit: float) -> float:
    """Return the width of the longest of `names` plus `extra`, in pixels, but at most `limit`."""
    return min(limit, max(map(text_width, names), default=0.0) + extra)


def figure(
    name: str,
    width: float,
    height: float,
    elements: Iterable[Markup],
    *,
    words: str = "",
    wide: bool = False,
) -> Figure:
    """Return a figure of elements, with the title and caption of `words`, by default
    those of its name.
    """
    title, caption = FIGURES[words or name]
    return Figure(
        name, title, canvas(width, height, *elements, label=title), caption, wide
    )
