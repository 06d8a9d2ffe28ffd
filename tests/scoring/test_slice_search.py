"""Slices in which a judge is worse, found by `evalkit check` alone: what the decision says about them."""

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main

Row = dict[str, Any]
QUICK = ("scoring.bootstrap=200",)


def table(path: Path, rows: Sequence[Row]) -> str:
    """Write a table and return its name."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def classes(
    count: int,
    columns: Callable[[int, random.Random], Row],
    is_useless: Callable[[Row], bool],
    accuracy: float = 0.96,
    seed: int = 3,
) -> list[Row]:
    """Return verdicts of a judge that is a coin in some rows."""
    chance = random.Random(seed)
    rows = []
    for index in range(count):
        label = chance.choice(["pass", "fail"])
        row = {"id": index, **columns(index, chance)}
        right = chance.random() < (0.5 if is_useless(row) else accuracy)
        other = {"pass": "fail", "fail": "pass"}[label]
        rows.append({**row, "judge": label if right else other, "human": label})
    return rows


def checked(capsys: Any, name: str, *words: str) -> dict[str, Any]:
    """Return what `evalkit check` says about a table."""
    capsys.readouterr()
    status = main(["check", name, "--judge", "judge", "--label", "human", "--json", *QUICK, *words])
    content: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return {**content, "status": status}


def languages(index: int, chance: random.Random) -> Row:
    language = chance.choices(["en", "fr", "de"], [2, 1, 1])[0]
    return {"language": language, "channel": chance.choice(["app", "web"])}


@pytest.fixture
def german(here):
    rows = classes(480, languages, lambda row: row["language"] == "de")
    return table(here / "rows.csv", rows)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "named"), [
    (["scoring.slices=[channel]"], "but not where language is de: kappa"),
    (["prompt.language=zh"], "language 为 de（κ"),
])  # fmt: skip
def test_a_useless_slice_is_named_and_nothing_else_is(german, capsys, words, named):
    result = checked(capsys, german, *words)
    (sentence,) = result["conclusion"]
    assert named in sentence
    (decision,) = result["decisions"].values()
    assert [(one["column"], one["slice"]) for one in decision["where"]] == [("language", "de")]
    assert decision["where"][0]["allows"] == "none"


@pytest.mark.slow
def test_a_search_can_be_restricted_or_left_out(german, capsys):
    for words in (
        ["scoring.search=none"],
        ["scoring.search=listed", "scoring.slices=[channel]"],
    ):
        (sentence,) = checked(capsys, german, *words)["conclusion"]
        assert "not where" not in sentence
    result = checked(capsys, german, "scoring.search=listed", "scoring.slices=[language]")
    assert "not where language is de" in result["conclusion"][0]


@pytest.mark.slow
def test_a_gate_fails_unless_it_is_limited_to_the_rest(german, capsys, here):
    gate = "gate.decision=rates"
    found = checked(capsys, german, gate)
    assert found["status"] == 4
    (rule,) = found["gate"]["rules"]
    assert rule["state"] == "failed"
    setting = rule["why"].partition("To limit the gate to the rest: ")[2]
    assert setting == "gate.where={language: {not: [de]}}"
    limited = checked(capsys, german, gate, setting, "hydra.run.dir=limited")
    assert limited["status"] == 0
    assert limited["gate"]["state"] == "held"
    assert limited["gate"]["where"] == {"language": {"not": ["de"]}}
    assert "where language is not de" in (here / "limited/gate.md").read_text()
    report = (here / "limited/report.html").read_text()
    assert "gate" in report
    assert checked(capsys, german, gate, "gate.where={language: de}")["status"] in (4, 5)
    unknown = checked(capsys, german, gate, "gate.where={language: [es]}")
    assert unknown["gate"]["state"] == "failed"
    assert main(["check", german, "--judge", "judge", "gate.where={language: [en]}"]) == 1
    assert (
        main(["check", german, "--judge", "judge", gate, "gate.where={language: {is: [en]}}"]) == 1
    )


COLUMNS: dict[str, tuple[Callable[[int, random.Random], Row], Callable[[Row], bool], str]] = {
    "numbers": (lambda index, chance: {"age": chance.randint(0, 79)}, lambda row: row["age"] >= 60,
                "age is "),
    "dates": (
     lambda index, chance: {"day": f"2026-{chance.randint(1, 8):02d}-{chance.randint(1, 28):02d}"},
     lambda row: row["day"] >= "2026-07", "day is 2026-0"),
    "long_responses": (lambda index, chance: {"response": "word " * chance.randint(1, 40)},
                       lambda row: len(row["response"]) > 150, "length is "),
    "flags": (lambda index, chance: {"is_code": chance.choice(["true", "false", "false"])},
              lambda row: row["is_code"] == "true", "is_code is "),
    "no_value": (lambda index, chance: {"topic": chance.choice(["billing", "login", ""])},
                 lambda row: row["topic"] == "", "topic has no value"),
    "one_value": (lambda index, chance: {"segment": chance.choice(["vip", "vip", ""])},
                  lambda row: row["segment"] == "", "segment has no value"),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_numbers_dates_lengths_and_flags_are_searched(here, capsys, name):
    columns, is_useless, named = COLUMNS[name]
    rows = classes(480, columns, is_useless)
    (sentence,) = checked(capsys, table(here / "rows.csv", rows))["conclusion"]
    assert f"but not where {named}" in sentence


@pytest.mark.slow
def test_a_small_slice_has_not_enough_labels_and_keeps_its_use(here, capsys):
    def columns(index: int, chance: random.Random) -> Row:
        return {"language": "it" if index < 20 else "en", "user": f"u{index % 400}"}

    rows = classes(800, columns, lambda row: row["language"] == "it")
    result = checked(capsys, table(here / "rows.csv", rows))
    assert "not where" not in result["conclusion"][0]
    findings = " ".join(result["findings"])
    assert "Not enough labels" in findings
    assert "language is it (20 units)" in findings
    assert "too many values: user" in findings
    assert "100 units at " in findings


@pytest.mark.slow
@pytest.mark.parametrize(("language", "named"), [
    pytest.param("en", "it only knows topic", marks=pytest.mark.thorough),
    ("zh", "它只知道 topic"),
])  # fmt: skip
def test_a_judge_that_gives_each_topics_most_frequent_answer_is_not_trusted(
    here, capsys, language, named
):
    chance = random.Random(5)
    rows = []
    for index in range(400):
        topic = chance.choice(["code", "chat"])
        usual = {"code": "pass", "chat": "fail"}[topic]
        other = {"pass": "fail", "fail": "pass"}[usual]
        label = usual if chance.random() < 0.85 else other
        rows.append({"id": index, "topic": topic, "judge": usual, "human": label})
    name = table(here / "rows.csv", rows)
    result = checked(capsys, name, f"prompt.language={language}")
    assert named in result["conclusion"][0]
    (decision,) = result["decisions"].values()
    assert (decision["use"], decision["reason"]) == ("none", "stratum")


@pytest.mark.slow
def test_a_column_that_repeats_the_label_or_the_errors_is_no_stratum(here, capsys):
    rows = classes(600, lambda *_: {}, lambda row: False, accuracy=0.94)
    chance = random.Random(9)
    for row in rows:
        same = chance.random() < 0.98
        row["second_opinion"] = row["human"] if same else row["judge"]
        row["correct"] = row["human"] == row["judge"]
    (sentence,) = checked(capsys, table(here / "rows.csv", rows))["conclusion"]
    assert sentence.startswith("Trust")
    assert "not where" not in sentence


@pytest.mark.slow
def test_scores_and_pairs_are_searched_too(here, capsys):
    chance = random.Random(2)
    rows = []
    for index in range(400):
        language = "de" if chance.random() < 0.25 else "en"
        label = chance.randint(1, 5)
        score = chance.randint(1, 5) if language == "de" else label
        rows.append({"id": index, "language": language, "judge": score, "human": label})
    (sentence,) = checked(capsys, table(here / "scores.csv", rows))["conclusion"]
    assert "but not where language is de: Spearman" in sentence
    rows = []
    for index in range(400):
        language = "de" if chance.random() < 0.3 else "en"
        label = chance.choice("AB")
        winner = chance.choice("AB") if language == "de" else label
        texts = {"prompt": f"q{index}", "response_a": "one", "response_b": "two"}
        rows.append({**texts, "language": language, "judge": winner, "human": label})
    (sentence,) = checked(capsys, table(here / "pairs.csv", rows))["conclusion"]
    assert "but not where language is de: kappa" in sentence


def test_each_judge_of_a_panel_has_its_own_slices(here, capsys):
    rows = classes(600, languages, lambda row: row["language"] == "de")
    for row in rows:
        row["second"] = row["human"]
    name = table(here / "rows.csv", rows)
    result = checked(capsys, name, "--judge", "second")
    where = {
        judge: [one["slice"] for one in decision["where"]]
        for judge, decision in result["decisions"].items()
    }
    assert where == {"judge": ["de"], "second": []}
