"""Overrides in any script: Hydra reads them as typed, wherever ASCII could stand, and they are shown as typed."""

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from evalkit.compose import as_composed, as_written, for_hydra, load_config, load_jobs
from evalkit.compose.criteria import in_ascii, with_decoded_keys


def parsed(word: str) -> Any:
    override = OverridesParser.create().parse_override(in_ascii(word))
    if override.is_sweep_override():
        return [
            OverridesParser.create().parse_override(f"k={v}").value()
            for v in override.sweep_string_iterator()
        ]
    return with_decoded_keys(override.value())


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("裁判", "裁判"),
        ("裁判 一号", "裁判 一号"),
        ("数据/a b.jsonl", "数据/a b.jsonl"),
        ("C:\\数\\", "C:\\数\\"),
        ("甲,乙", ["甲", "乙"]),
        ("choice(甲,b)", ["甲", "b"]),
        ("[甲, {a: 乙, 丙: 丁}, 3]", ["甲", {"a": "乙", "丙": "丁"}, 3]),
        ("{赢: A, 输: {a b: B}, 和: [x, 1]}", {"赢": "A", "输": {"a b": "B"}, "和": ["x", 1]}),
        ("裁判(一)", "裁判(一)"),
        ("请答 [[A]] 或 [[B]]。", "请答 [[A]] 或 [[B]]。"),
        ("it's 好", "it's 好"),
        ("好\\,坏", "好,坏"),
        ("'好, 坏'", "好, 坏"),
        ("é=1", "é=1"),
        ("Ω#1", "Ω#1"),
        ("'好'的", "'好'的"),
        ("${judge.name}-好", "${judge.name}-好"),
    ],
)
def test_a_value_is_read_as_typed(typed, value):
    assert parsed(f"k={typed}") == value


@given(
    st.text(st.characters(min_codepoint=0x80, exclude_categories=["C", "Z"]), min_size=1),
    st.booleans(),
)
def test_any_text_beyond_ascii_is_read_as_typed(text, listed):
    assert parsed(f"k=[{text}]" if listed else f"k={text}") == ([text] if listed else text)
    assert as_written(in_ascii(f"k={text}")) == f"k={text}"
    assert as_written(in_ascii(f"k.{text}=1")) == f"k.{text}=1"


@pytest.mark.parametrize(
    "word", ["judge.name=a b", "k='x'", "--multirun", "~tie", "-甲", "数据.jsonl", "k=[a,'b']"]
)
def test_other_words_stay(word):
    assert in_ascii(word) == word


def test_values_and_keys_reach_the_config(here):
    (here / "conf" / "judge").mkdir(parents=True)
    (here / "experiments").mkdir()
    (here / "conf" / "judge" / "团队.yaml").write_text("model: openai/team\n", "utf-8")
    config = load_config(
        overrides=[
            *("judge=团队", "judge.name=裁判", "dataset.path=数据.jsonl"),
            *("dataset.label_map={赢: A, 输: B}", "criteria=general_zh"),
            *("scoring.weights.准确性=0.9", "tracking.tags={项目: 甲}", "+tracking.tags.组=乙"),
        ]
    )
    assert (config.judge.label, config.judge.model, config.dataset.path) == (
        *("裁判", "openai/team", "数据.jsonl"),
    )
    assert config.dataset.label_map == {"赢": "A", "输": "B"}
    assert config.scoring.weights == {"准确性": 0.9}
    assert config.tracking.tags == {"项目": "甲", "组": "乙"}


def test_a_sweep_shows_them_as_typed(tmp_path):
    jobs = load_jobs("config", ["judge.name=甲,乙", "tracking.tags.组=丙"], sweep=True)
    assert [(words, job.judge.name) for words, job in jobs] == [
        (("judge.name=甲", "tracking.tags.组=丙"), "甲"),
        (("judge.name=乙", "tracking.tags.组=丙"), "乙"),
    ]
    study = tmp_path / "study.yaml"
    study.write_text("hydra: {sweeper: {params: {judge.name: '甲,乙'}}}\n", "utf-8")
    assert [words for words, _ in load_jobs(str(study), [], sweep=True)] == [
        ("judge.name=甲",),
        ("judge.name=乙",),
    ]


def test_a_printed_config_has_them_as_typed():
    [word] = for_hydra(["tracking.tags.组=乙"])
    key = word.partition("=")[0].rpartition(".")[2]
    assert as_composed(f"tags:\n  {key}: 乙\n") == "tags:\n  组: 乙\n"
    assert as_composed("- text\n") == "- text\n"
