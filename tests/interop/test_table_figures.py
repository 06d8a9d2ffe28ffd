"""The figures of the shared tables equal scikit-learn's and SciPy's on the same rows to 1e-9."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, cohen_kappa_score, roc_auc_score

from evalkit.cli import main
from evalkit.interop.layouts.judgment_files import rows_of
from tests.support.thorough import some_of

WORDS = {"pass": "1", "fail": "0", "yes": "1", "no": "0", "true": "1", "false": "0"}


def _word(cell: Any) -> str:
    text = str(cell).strip().casefold()
    return WORDS.get(text, text)


def _number(cell: Any) -> float:
    text = str(cell).strip().replace(",", ".").rstrip("%").partition("/")[0]
    return float(text.split()[0])


def _sign(cell: Any) -> int:
    number = _number(cell)
    return (number > 0) - (number < 0)


def _side(cell: Any) -> str:
    text = str(cell).strip().replace(" ", "")
    return {"A>B": "a", "B>A": "b", "A<B": "b", "A=B": "tie"}.get(text, text.casefold())


READ: Mapping[str, tuple[str, str, Any]] = {
    "langsmith.csv": ("correctness", "human_correctness", _number),
    "criterion_rows.csv": ("judge", "human", _word),
    "dimension_long.csv": ("judge_score", "human_score", _number),
    "pair_num3.csv": ("", "", _sign),
    "pair_AB_eq.csv": ("", "", _side),
    "n11.csv": ("judge", "human", _number),
    "phoenix.csv": ("label", "human_label", _word),
    "german.csv": ("judge", "human", _number),
    "human_stars.csv": ("judge_score", "human_rating", _number),
    "slash.csv": ("", "", _number),
    "c_partial3.csv": ("judge", "human", _word),
    "c_goodokbad.csv": ("judge", "human", _word),
    "ordinal_agree.csv": ("", "", _word),
    "simpleqa_abc.csv": ("", "", _word),
    "first_name_label.csv": ("llm_verdict", "Anna", _word),
    "helpsteer_pref.jsonl": ("judge_preference_strength", "preference_strength", _sign),
    "two_scales.csv": ("", "", _number),
    "flag_and_score.csv": ("is_faithful", "human_ok", _word),
    "percent_vs_frac.csv": ("", "", _number),
    "arena_names.csv": ("judge_winner", "human_winner", None),
    "passfail_vs_15.csv": ("", "", None),
}
"""The judge, the label and the reading of their cells; without names, those that `check` prints."""
KNOWN = {"ok": "1", "not ok": "0"}


def _expected(
    name: str, pairs: list[tuple[Any, Any, Mapping[str, Any]]], read: Any
) -> dict[str, float]:
    if name == "arena_names.csv":
        sides = [
            tuple(
                {row["model_a"]: "a", row["model_b"]: "b"}.get(cell, "tie") for cell in (one, other)
            )
            for one, other, row in pairs
        ]
        judged, labeled = zip(*sides, strict=True)
    elif name == "passfail_vs_15.csv":
        scores = [_number(one) for one, _, _ in pairs]
        labels = [_word(other) == "1" for _, other, _ in pairs]
        return {"agreement/auc": roc_auc_score(labels, scores)}
    else:
        judged, labeled = ([read(pair[side]) for pair in pairs] for side in (0, 1))
    if read is _number and name != "langsmith.csv":
        return {"agreement/spearman": spearmanr(judged, labeled).statistic}
    judged, labeled = ([KNOWN.get(one, one) for one in side] for side in (judged, labeled))
    return {
        "agreement/accuracy": accuracy_score(labeled, judged),
        "agreement/kappa": cohen_kappa_score(labeled, judged),
    }


@pytest.mark.shared
@pytest.mark.parametrize("name", some_of(READ, 5))
def test_figures_equal_those_of_scikit_learn(name, shared, here, capsys):
    path = shared / "tables" / name
    quick = ["scoring.bootstrap=20", "scoring.search=none"]
    assert main(["check", str(path), "--output", "run", "--json", *quick]) == 0
    content = json.loads(capsys.readouterr().out)
    judge, label, read = READ[name]
    roles = {role["role"]: role["column"] for role in content["roles"]}
    # A file of a known format has no roles of columns.
    roles = roles or {"judge": judge, "label": label}
    judge, label = judge or roles["judge"], label or roles["label"]
    # A file of a known format has no roles of columns.
    assert not roles or (roles["judge"], roles["label"]) == (judge, label)
    rows = [row for _, row in rows_of(path)]
    pairs = [
        (row[judge], row[label], row)
        for row in rows
        if row.get(judge) not in (None, "") and row.get(label) not in (None, "")
    ]
    for metric, value in _expected(name, pairs, read).items():
        found = content["metrics"][metric]
        assert found["n"] == len(pairs)
        assert found["value"] == pytest.approx(value, abs=1e-9), metric
