"""RunConfig: its rules, its notes and its hash."""

from typing import Any

import pytest
from pydantic import ValidationError

from evalkit import load_config
from evalkit.config import Criterion, JudgeConfig, RunConfig, defaults
from evalkit.core.errors import ConfigError

BASE: dict[str, Any] = {
    "judge": {"model": "openai/x"},
    "criteria": [{"name": "a"}, {"name": "b", "weight": 3}],
}
TWO = [{"model": "openai/a"}, {"judges": [{"name": "b", "model": "openai/x"}]}]


def make(**changes: Any) -> RunConfig:
    return RunConfig.model_validate({**BASE, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"criteria": []}, "at least one criterion"),
        ({"criteria": [{"name": "a"}, {"name": "a"}]}, "two criteria are named 'a'"),
        ({"criteria": [{"name": "a", "weight": -1}]}, "greater than or equal to 0"),
        ({"criteria": [{"name": "a", "weight": 0}]}, "every weight is 0"),
        ({"criteria": [{"name": "a", "weight": float("inf")}]}, "finite"),
        ({"criteria": [{"name": " "}]}, "non-empty name"),
        ({"scoring": {"weights": {"c": 1}}}, "no such criterion"),
        ({"tie": {"threshold": 1.5}}, "larger than the largest possible difference"),
        (
            {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}, "tie": {"threshold": 4.5}},
            "(4)",
        ),
        ({"mode": {"name": "pointwise"}}, "needs two responses"),
        ({"rubric": {"min": 5, "max": 1}}, "must be below max"),
        ({"rubric": {"min": 1, "max": 5, "step": 3}}, "does not lead from min"),
        ({"rubric": {"levels": {"6": "too much"}}}, "levels: 6 is not on the scale"),
        (
            {"rubric": {"examples": [{"response": "r", "score": 2.5, "justification": "j"}]}},
            "rubric.examples.0.score: 2.5",
        ),
        ({"output": {"format": "regex"}}, "set a pattern"),
        ({"judge": {"model": None}}, "model is not set"),
        ({"judge": {"judges": []}}, "at least one judge"),
        ({"judge": {"model": "openai/x", "modle": "y"}}, "Extra inputs"),
        (
            {"judge": {"judges": TWO, "weights": {"c": 1}}},
            "weights has 'c', which is not one of its judges: choose from a, b",
        ),
        (
            {"judge": {"judges": TWO, "vote": "weighted", "weights": {"a": 0, "b": 0}}},
            "every judge's weight is 0",
        ),
        ({"scoring": {"slices": ["a", "b", "a"]}}, "slices names 'a' twice"),
        ({"judge": {"judges": TWO, "quorum": 3}}, "quorum is 3, but there are 2 judges"),
        ({"judge": {"judges": TWO, "quorum": 0}}, "greater than 0"),
        ({"swap": {"policy": "sometimes"}}, "'none', 'both' or 'random'"),
    ],
)
def test_a_wrong_description_is_refused(changes, said):
    with pytest.raises(ValidationError) as caught:
        make(**changes)
    assert said in str(caught.value)


def test_threshold_may_reach_the_scale_of_scores():
    config = make(mode={"name": "pointwise"}, swap={"policy": "none"}, tie={"threshold": 3.5})
    assert config.margin_span() == 4
    normalized = make(
        mode={"name": "pointwise"}, swap={"policy": "none"}, scoring={"normalize": "minmax"}
    )
    assert normalized.margin_span() == 1


def test_weights_are_normalised_and_said():
    config = make()
    assert config.weights() == {"a": 0.25, "b": 0.75}
    assert config.notes() == ["criteria weights sum to 4 and were normalized: a 0.25, b 0.75"]
    assert make(criteria=[{"name": "a", "weight": 0.4}, {"name": "b", "weight": 0.6}]).notes() == []


def test_scoring_weights_come_before_the_criteria():
    assert make(scoring={"weights": {"a": 9}}).weights() == {"a": 0.75, "b": 0.25}


def test_the_hash_is_of_what_changes_numbers():
    config = make()
    assert (
        make(runner={"concurrency": 3}, tracking={"experiment": "x"}, store={"mode": "off"}).hash()
        == config.hash()
    )
    assert make(tie={"threshold": 0.5}).hash() != config.hash()


def test_values_are_replaced_by_their_keys_in_a_copy():
    config = make()
    changed = config.with_(
        {"scoring.bootstrap": 0, "scoring.seed": 5, "swap.policy": "none", "store": {"mode": "off"}}
    )
    assert (changed.scoring.bootstrap, changed.scoring.seed, changed.swap.policy) == (0, 5, "none")
    assert changed.store == {"mode": "off"}
    assert changed.scoring.confidence == config.scoring.confidence
    assert config == make()


@pytest.mark.parametrize(
    ("rubric", "said"),
    [
        (
            {"max": 10, "levels": {1: "bad", 5: "good"}},
            ["rubric.levels describe 1 to 5, but the scale is 1 to 10"],
        ),
        ({"max": 10, "levels": {1: "bad", 10: "good"}}, []),
        ({"max": 10}, []),
    ],
)
def test_levels_of_another_scale_are_noted(rubric, said):
    notes = make(rubric=rubric, mode={"name": "pointwise"}, swap={"policy": "none"}).notes()
    assert [note.partition(":")[0] for note in notes if note.startswith("rubric.levels")] == said


def test_a_dump_is_read_back_to_the_same_config():
    config = make(rubric={"levels": {1: "bad", 5: "good"}}, dataset={"label_map": {1: "A", 2: "B"}})
    assert RunConfig.model_validate(config.dump()) == config
    assert config.dataset.label_map == {"1": "A", "2": "B"}


def test_every_key_has_a_default_in_one_place():
    sections = defaults()
    assert set(sections) == set(RunConfig.model_fields)
    assert sections["runner"]["concurrency"] == 16
    assert sections["judge"]["model"] is None


def test_a_config_cannot_be_changed():
    with pytest.raises(ConfigError, match=r"judge: cannot be changed in place; write with_"):
        make().judge = None  # type: ignore[misc,assignment]
    with pytest.raises(ConfigError, match=r"weight: .*; write with_\({'weight': 2}\)"):
        Criterion().weight = 2  # type: ignore[misc]
    assert Criterion().with_({"weight": 2}).weight == 2


@pytest.mark.parametrize(
    "changes", [{"seeds": 3}, {"judge": {"model": 3}}, {"tie": {"threshold": "{x}"}}]
)
def test_an_invalid_config_names_no_address_of_pydantic(changes):
    with pytest.raises(ValidationError) as caught:
        make(**changes)
    assert "https://" not in str(caught.value)


@pytest.mark.parametrize("values", [{"modell": "x"}, {"max_tokens": "x"}, {"name": 3}])
def test_an_invalid_section_names_no_address_of_pydantic(values):
    with pytest.raises(ValidationError) as caught:
        JudgeConfig(**values)
    assert "https://" not in str(caught.value)
    assert next(iter(values)) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": {"samples": 3}}, "mode.samples is 3, but judge.temperature is 0"),
        ({"mode": {"samples": 3}, "judge": {"model": "a/m", "temperature": 0.7}}, None),
        ({"mode": {"samples": 3}, "judge": {"model": "a/m", "temperature": None}}, None),
        ({"swap": {"resolve": "third_pass"}}, "the third judgment mostly repeats"),
        ({"swap": {"resolve": "third_pass", "arbiter": {"model": "a/wise"}}}, None),
        ({"swap": {"resolve": "third_pass"}, "judge": {"model": "a/m", "temperature": 1}}, None),
    ],
)
def test_asking_twice_what_is_answered_alike_is_noted(changes, said):
    config = RunConfig(**{"judge": {"model": "a/m"}, "criteria": [{"name": "c"}], **changes})
    notes = config.notes()
    assert (said is None) == (notes == [])
    assert said is None or said in notes[0]


def test_a_label_that_is_mapped_twice_is_refused():
    with pytest.raises(ValueError, match="'same' is mapped to both A and B: keep one"):
        make(dataset={"label_map": "same=A, other=TIE, same=B"})
    assert make(dataset={"label_map": "same=A, same=A"}).dataset.label_map == {"same": "A"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "dataset.split={fractions: {dev: 0.5, test: 0.6}}",
            "dataset.split: fractions needs shares of dev and test",
        ),
        (
            "dataset.split={use: tset}",
            "dataset.split.use: input should be 'dev', 'test' or 'all' (got 'tset')",
        ),
        ("dataset.split={colum: x}", "dataset.split.colum: no such key; did you mean 'column'?"),
        ("dataset.split=3", "dataset.split: input should be a string, or a mapping (got 3)"),
        ("mode.ask=0", "mode.ask: input should be greater than 0 (got 0)"),
        (
            "mode.ask=some",
            "mode.ask: input should be 'each' or 'together', or an integer (got 'some')",
        ),
        ("mode.checklist=polite", "mode.checklist: is not a list (got 'polite'); write [A, B]"),
        ("mode.checklist=[3]", "mode.checklist.0: input should be a mapping, or a string (got 3)"),
    ],
)
def test_a_value_of_several_types_is_reported_by_its_key_alone(override, message):
    with pytest.raises(ConfigError) as found:
        load_config(overrides=["mode=checklist", "judge=simulated/good", override])
    assert str(found.value).startswith(message)


def test_criteria_weights_that_scoring_overrides_are_noted():
    criteria = {
        "a": {"description": "x", "weight": 0.2},
        "b": {"description": "y", "weight": 0.8},
        "c": {},
    }
    start = "scoring.weights overrides criteria.NAME.weight, which has no effect: "
    for weights, names in (
        ({"a": 0.5, "b": 0.1}, "a, b"),
        ({"a": 0.5, "c": 2}, "a"),
        ({"b": 0.8}, None),
        ({}, None),
    ):
        set_ = {"judge": {"model": "m"}, "criteria": criteria, "scoring": {"weights": weights}}
        notes = RunConfig.model_validate(set_).notes()
        assert [note for note in notes if "no effect" in note] == ([start + names] if names else [])


@pytest.mark.parametrize(
    ("mode", "rule", "noted"),
    [("pointwise", "share", 1), ("checklist", "share", 0), ("pointwise", "points", 0)],
)
def test_a_rule_for_checklists_is_noted_in_other_modes(mode, rule, noted):
    config = RunConfig(
        judge={"model": "m"},
        mode={"name": mode},
        swap={"policy": "none"},
        criteria={"a": {}},
        rubric={"min": 0, "max": 1, "step": 0.01},
        scoring={"checklist": rule},
    )
    assert config.notes().count(f"scoring.checklist has no effect with mode={mode}") == noted
