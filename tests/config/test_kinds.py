"""Every field of a config that can hold a text says what the text names."""

from typing import Annotated, Any

import pytest

from evalkit.config import RunConfig, Section
from evalkit.config.align import AlignConfig
from evalkit.config.kinds import FreeParameters, Kind, Server, Text, fields_of, values_of

OPENING = {
    "judge.api_base": Kind.SERVER,
    "judge.model": Kind.MODEL,
    "judge.params": Kind.FREE,
    "judge.template": Kind.READ,
    "judge.transport": Kind.PROGRAM,
    "dataset.path": Kind.READ,
    "dataset.join.path": Kind.READ,
    "gate.no_worse_than.run": Kind.READ,
    "mode.name": Kind.PROGRAM,
    "prompt.template": Kind.READ,
    "rubric.examples_path": Kind.READ,
    "runner.options": Kind.FREE,
    "store.url": Kind.WRITTEN,
    "swap.arbiter.api_base": Kind.SERVER,
    "probe.rewriter.params": Kind.FREE,
    "tracking.params": Kind.FREE,
    "tracking.uri": Kind.WRITTEN,
}


@pytest.mark.parametrize("model", [RunConfig, AlignConfig])
def test_every_text_in_a_config_has_one_kind(model):
    # It fails for a new field without a kind: choose its type in `evalkit.config.kinds`.
    assert {field.key for field in fields_of(model) if len(field.kinds) > 1} == set()


def test_fields_that_open_something_are_known():
    found = {field.key: field.kinds for field in fields_of(RunConfig)}
    assert {key: {kind} for key, kind in OPENING.items()} == {key: found[key] for key in OPENING}


@pytest.mark.parametrize(
    "annotation",
    [str, str | None, list[str], dict[str, Any], tuple[int | str, ...], Any, Annotated[str, "x"]],
    ids=str,
)
def test_a_field_without_a_kind_fails(annotation):
    class Odd(Section):
        key: annotation = None

    class Outer(Section):
        inner: dict[str, Odd] = {}  # noqa: RUF012

    with pytest.raises(TypeError, match=r"Odd\.key can hold a text of no kind"):
        list(fields_of(Outer))


def test_values_are_found_in_lists_mappings_and_models():
    class Inner(Section):
        address: Server | None = None

    class Outer(Section):
        name: Text = "x"
        inner: dict[str, tuple[Inner, ...]] = {}  # noqa: RUF012
        free: FreeParameters = {}  # noqa: RUF012

    config = Outer(inner={"a.b": (Inner(), Inner(address="http://x"))}, free={"k": [1]})
    assert [(one.key, one.kind, one.value) for one in values_of(config)] == [
        ("name", Kind.TEXT, "x"),
        ("inner.a.b.1.address", Kind.SERVER, "http://x"),
        ("free", Kind.FREE, {"k": [1]}),
    ]
