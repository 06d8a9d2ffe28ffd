"""The data sets described in docs/guides/data.md are such as the config allows, and its keys are all that there are."""

import re
from pathlib import Path

import pytest
import yaml

from evalkit.config import DatasetConfig

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "data.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS)
def test_a_described_data_set_can_be_asked_for(text):
    assert DatasetConfig.model_validate(yaml.safe_load(text)["dataset"]).join


def test_every_key_is_described():
    assert len(BLOCKS) == 3
    elsewhere = {"benchmark", "baseline"}
    assert {key for key in DatasetConfig.model_fields if f"`{key}" not in PAGE and f".{key}`" not in PAGE} == elsewhere
