"""A reader of calls never speaks of a file, its columns or settings of a dataset."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import DatasetConfig
from evalkit.core.errors import DatasetError
from evalkit.core.scale import Classes
from evalkit.datasets.case_reader import CaseReader
from evalkit.datasets.field_mapping import DEEPEST
from evalkit.serving.judge import FIELDS

OF_DATA = re.compile(r"dataset\.|mode=|column|\brow\b")
deep: Any = "x"
for _ in range(DEEPEST + 1):
    deep = [deep]
texts = st.sampled_from(["", "x", "[1", "[]", '["a", "b"]', '{"text": "a"}'])
parts = st.dictionaries(
    st.sampled_from(["text", "model", "label", "grade", "labels", "points"]), texts | st.integers()
)
scalars = texts | st.none() | st.integers() | st.booleans() | st.floats() | parts
values = st.just(deep) | scalars | st.lists(scalars | st.lists(scalars, max_size=2), max_size=3)


@pytest.mark.parametrize(
    "classes", [None, Classes({"good": "", "bad": ""})], ids=["numbers", "classes"]
)
@pytest.mark.parametrize("mode", ["pairwise", "pointwise", "listwise", "checklist"])
@given(fields=st.dictionaries(st.sampled_from(FIELDS), values))
def test_what_is_wrong_is_said_in_the_words_of_a_call(mode, classes, fields):
    reader = CaseReader(DatasetConfig(), mode, classes=classes, call="prompt and response")
    said = ""
    try:
        reader.read(fields, 1, "case")
    except DatasetError as bad:
        said = str(bad)
    assert not OF_DATA.search(said), said


@pytest.mark.parametrize("field", ["prompt", "response_a", "response_b"])
def test_a_field_that_is_needed_is_named(field):
    whole = {"prompt": "?", "response_a": "x", "response_b": "y"}
    reader = CaseReader(DatasetConfig(), "pairwise", call="all three")
    del whole[field]
    with pytest.raises(DatasetError, match=f"case: no field '{field}'; pass all three$"):
        reader.read(whole, 1, "case")
