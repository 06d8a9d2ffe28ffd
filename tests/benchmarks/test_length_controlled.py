"""AlpacaEval's length-controlled win rate against a direct version of its authors' procedure, on a made file."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.cli import main
from evalkit.config import DatasetConfig, RunConfig
from evalkit.core.errors import DatasetError
from evalkit.core.types import Judgment, Metric
from evalkit.datasets import load_cases
from evalkit.report.findings.finding import RunFacts
from evalkit.report.findings.labels import benchmark_finding
from evalkit.scoring.pipeline import score_run

SIZE = 120
METRIC = "alpaca_eval/length_controlled_win_rate"
BASELINE = "gpt4_1106_preview"


def written(folder: Path, size: int = SIZE, seed: int = 5) -> np.ndarray[Any, Any]:
    """Write outputs of a model and the baseline with df_gamed.csv, and return the preferences for the model."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(50, 900, size=(size, 2))
    instructions = [
        f"Do {k // 2 * 2 if k < 2 else k}." for k in range(size)
    ]  # the first stands twice
    for name, side in ((BASELINE, 0), ("small-7b", 1)):
        rows = [
            {"dataset": "d", "instruction": one, "output": "x" * int(length), "generator": name}
            for one, length in zip(instructions, lengths[:, side], strict=True)
        ]
        (folder / name).mkdir()
        (folder / name / "model_outputs.json").write_text(json.dumps(rows), "utf-8")
    difficulty = draw.normal(0, 1.5, size)
    lines = ["model,preference,index,std_delta_len,instruction_difficulty,not_gamed_baseline"]
    for model, shift in (("concise", 1.2), ("verbose", -1.2)):
        for k in range(size):
            preference = 1 / (1 + np.exp(0.9 * shift + draw.normal(0, 1)))
            lines.append(
                f"{model},{preference},{k},{shift + draw.normal(0, 0.3)},{difficulty[k]},False"
            )
    (folder / "df_gamed.csv").write_text("\n".join(lines) + "\n", "utf-8")
    delta = lengths[:, 0] - lengths[:, 1]
    logit = (
        -0.8 * np.tanh(delta / delta.std(ddof=1)) + 0.5 * difficulty - 0.4 + draw.normal(0, 1, size)
    )
    return np.round(1 / (1 + np.exp(-logit)), 6)


def direct(folder: Path, preference: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
    """Return the length-controlled win rate and its coefficients, by scikit-learn's own cross-validation."""
    import pandas as pd
    from sklearn import config_context
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import GroupKFold

    gamed = pd.read_csv(folder / "df_gamed.csv")
    lengths = {
        name: [
            len(row["output"])
            for row in json.loads((folder / name / "model_outputs.json").read_text("utf-8"))
        ]
        for name in (BASELINE, "small-7b")
    }
    delta = pd.Series(lengths[BASELINE]) - pd.Series(lengths["small-7b"])
    difficulty = gamed.drop_duplicates("index").set_index("index")["instruction_difficulty"]
    own = pd.DataFrame(
        {
            "preference": preference,
            "std_delta_len": delta / delta.std(),
            "instruction_difficulty": difficulty.loc[range(len(delta))].to_numpy(),
            "not_gamed_baseline": True,
        }
    )
    table = pd.concat([gamed[own.columns], own], ignore_index=True)
    x = np.column_stack(
        [
            np.tanh(table["std_delta_len"]),
            table["instruction_difficulty"],
            table["not_gamed_baseline"].astype(float),
        ]
    )
    weight = np.where(table["not_gamed_baseline"].astype(bool), 1.0, 0.1)
    known = table["preference"].notna().to_numpy()
    x, weight, y = x[known], weight[known], table["preference"].to_numpy(dtype=float)[known]

    def loss(truth: Any, predicted: Any, share: Any, weights: Any) -> float:
        p = np.where(truth == 1, share, 1 - share)
        q = np.clip(predicted, 1e-15, 1 - 1e-15)
        return float(-np.mean((p * np.log(q) + (1 - p) * np.log(1 - q)) * weights))

    share, twice = np.concatenate([y, 1 - y]), np.concatenate([weight, weight])
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        scorer = make_scorer(loss, response_method="predict_proba", greater_is_better=False)
        model = LogisticRegressionCV(
            cv=GroupKFold(5),
            scoring=scorer.set_score_request(share=True, weights=True),
            l1_ratios=(1.0,),
            solver="liblinear",
            fit_intercept=False,
            random_state=123,
        ).set_fit_request(sample_weight=True)
        model.fit(
            np.concatenate([x, x]),
            np.repeat([1, 0], len(y)),
            sample_weight=share * twice,
            groups=np.tile(np.arange(len(y)), 2),
            share=share,
            weights=twice,
        )
    b = model.coef_[0]
    predicted = 1 / (1 + np.exp(-(b[1] * own["instruction_difficulty"] + b[2])))
    return float(predicted.mean()), b


def scored(folder: Path, preference: np.ndarray[Any, Any], **dataset: Any) -> dict[str, Metric]:
    settings = {"benchmark": "alpaca_eval", "path": str(folder), **dataset}
    cases = load_cases(DatasetConfig(**settings), mode="pairwise").cases
    config = RunConfig(
        judge={"model": "m"},
        criteria=[{"name": "q"}],
        dataset=settings,
        swap={"policy": "none"},
        scoring={"bootstrap": 400},
    )
    blank = Judgment("", (0, 1), (0, 1), 0, "m", "ok")
    judgments = [
        replace(blank, case_id=case.id, status="unparseable", error="?")
        if np.isnan(value := preference[int(case.id)])
        else replace(blank, case_id=case.id, value=float(2 * value - 1))
        for case in cases
    ]
    return dict(score_run(config, cases, judgments).metrics)


@pytest.mark.parametrize("missing", [0, 7])
def test_it_is_the_authors_number(tmp_path, missing):
    preference = written(tmp_path)
    preference[:missing] = np.nan
    expected, _ = direct(tmp_path, preference)
    found = scored(tmp_path, preference)[METRIC]
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert (found.n, found.missing) == (SIZE - missing, missing)
    assert found.low < found.value < found.high
    raw = scored(tmp_path, preference)["alpaca_eval/win_rate"]
    assert raw.value == pytest.approx(np.nanmean(preference))
    assert abs(raw.value - expected) > 0.005
    assert raw.note is None


def test_rows_without_a_preference_in_the_file_are_left_out_of_the_fit(tmp_path):
    preference = written(tmp_path)
    file = tmp_path / "df_gamed.csv"
    lines = file.read_text("utf-8").splitlines()
    cells = lines[3].split(",")
    lines[3] = ",".join([cells[0], "", *cells[2:]])
    file.write_text("\n".join(lines) + "\n", "utf-8")
    expected, _ = direct(tmp_path, preference)
    assert scored(tmp_path, preference)[METRIC].value == pytest.approx(expected, abs=1e-9)


@pytest.mark.thorough
@pytest.mark.slow
def test_its_interval_is_as_wide_as_that_of_refits(tmp_path):
    from evalkit.benchmarks.alpaca_eval import _fit_by_folds, _regression_rows, _resampled_win_rates

    preference = written(tmp_path)
    cases = load_cases(
        DatasetConfig(benchmark="alpaca_eval", path=str(tmp_path)), mode="pairwise"
    ).cases
    longer = np.array(
        [len(case.responses[1].text) - len(case.responses[0].text) for case in cases], dtype=float
    )
    data = _regression_rows(cases, np.ones(SIZE, dtype=bool), longer, preference)
    assert data is not None
    draw = np.random.default_rng(1)
    drawn = draw.multinomial(SIZE, np.full(SIZE, 1 / SIZE), size=2000).astype(float)
    quick = _resampled_win_rates(data, _fit_by_folds(data), drawn)
    refits = []
    for weights in drawn[:60]:
        again = replace(data, weight=np.concatenate([data.weight[: data.gamed], weights]))
        b = _fit_by_folds(again)
        predicted = 1 / (1 + np.exp(-(b[1] * data.difficulty + b[2])))
        refits.append((weights * predicted).sum() / weights.sum())
    assert quick[:60] == pytest.approx(np.array(refits), abs=0.01)
    assert np.corrcoef(quick[:60], refits)[0, 1] > 0.97
    assert quick.std() == pytest.approx(np.std(refits), rel=0.25)


@pytest.mark.parametrize("without", ["file", "instructions", "rows"])
def test_there_is_none_where_the_procedure_cannot_be_followed(tmp_path, without):
    preference = written(tmp_path)
    file = tmp_path / "df_gamed.csv"
    lines = file.read_text("utf-8").splitlines()
    if without == "file":
        file.unlink()
    elif without == "rows":
        file.write_text(
            "\n".join(line for line in lines if f",{SIZE - 1}," not in line) + "\n", "utf-8"
        )
    limit = {"limit": SIZE - 1} if without == "instructions" else {}
    metrics = scored(tmp_path, preference, **limit)
    assert METRIC not in metrics
    assert "df_gamed.csv" in metrics["alpaca_eval/win_rate"].note
    assert metrics["length/controlled_win_rate"].value is not None
    (finding,) = benchmark_finding(metrics, RunFacts("", None, {}, 0.95))
    assert finding.text.startswith("By AlpacaEval's own rule: win rate")
    assert "is not that of the leaderboard" in finding.text


def test_another_table_by_that_name_is_told(tmp_path):
    written(tmp_path)
    (tmp_path / "df_gamed.csv").write_text("index,preference\n0,1\n", "utf-8")
    with pytest.raises(DatasetError, match="not AlpacaEval's table of gamed baselines"):
        load_cases(DatasetConfig(benchmark="alpaca_eval", path=str(tmp_path)), mode="pairwise")


def test_imported_annotations_have_the_same_number(tmp_path, monkeypatch, capsys):
    preference = written(tmp_path)
    outputs = [
        json.loads((tmp_path / name / "model_outputs.json").read_text("utf-8"))
        for name in (BASELINE, "small-7b")
    ]
    rows = [
        {
            "instruction": one["instruction"],
            "output_1": one["output"],
            "generator_1": BASELINE,
            "output_2": two["output"],
            "generator_2": "small-7b",
            "annotator": "weighted_alpaca_eval_gpt4_turbo",
            "preference": 1 + value,
        }
        for one, two, value in zip(*outputs, preference.tolist(), strict=True)
    ]
    (tmp_path / "annotations.json").write_text(json.dumps(rows), "utf-8")
    monkeypatch.chdir(tmp_path)
    words = ("-v", "tracking=none", "hydra.run.dir=run", "scoring.bootstrap=50")
    assert main(["import", "alpaca_eval", "annotations.json", *words]) == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text("utf-8"))["metrics"]
    assert metrics[METRIC]["value"] == pytest.approx(direct(tmp_path, preference)[0], abs=1e-9)
    assert "By AlpacaEval's own rule: length-controlled win rate" in capsys.readouterr().out
    assert main(["score", "run"]) == 0
    again = json.loads((tmp_path / "run/metrics.json").read_text("utf-8"))["metrics"]
    assert again[METRIC]["value"] == metrics[METRIC]["value"]
