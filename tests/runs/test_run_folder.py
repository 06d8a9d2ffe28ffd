"""The run folder: its files, the config among them, and judgments in Parquet."""

import json
import math
import os
import re
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from evalkit.compose import load_config
from evalkit.config import RunConfig
from evalkit.core import types
from evalkit.core.errors import ConfigError, EvalkitError
from evalkit.core.types import (
    Case,
    Completion,
    Judgment,
    Metric,
    Orders,
    Response,
    TokenLogprob,
    Usage,
    Verdict,
)
from evalkit.runs import claim_unused_run, layout, read_run, write_run
from evalkit.runs.manifest import dump, load
from evalkit.runs.records import decoder
from evalkit.runs.results import Calls, RunResult
from tests.support.command_line import BRIEF, pair

# A high surrogate right before a low one is the one text that JSON itself joins into another.
odd = st.sampled_from('\ud800\udbff\x00\x1b\x7f\x85\u2028\u2029\ufeff\r\n"\\{')
texts = st.text(st.characters() | odd, max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**53)
units = st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=4)
winners = st.sampled_from(get_args(types.Winner))


def config(**sections: Any) -> RunConfig:
    return RunConfig.model_validate({"judge": {"model": "m"}, "criteria": {"q": {}}, **sections})


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


responses = st.builds(Response, text=texts, model=maybe(texts), grade=maybe(finite))
cases = st.builds(
    Case,
    id=texts,
    prompt=texts,
    responses=st.lists(responses, max_size=4).map(tuple),
    context=maybe(texts),
    reference=maybe(texts),
    label=maybe(winners),
    labels=st.dictionaries(
        texts, winners | st.lists(maybe(finite), min_size=1, max_size=3).map(tuple), max_size=2
    ),
    metadata=objects,
)
tokens = st.builds(
    TokenLogprob,
    token=texts,
    logprob=finite,
    top=st.lists(st.tuples(texts, finite), max_size=3).map(tuple),
)
completions = st.builds(
    Completion,
    text=texts,
    model=maybe(texts),
    finish_reason=maybe(texts),
    usage=st.builds(Usage, prompt_tokens=maybe(counts), completion_tokens=maybe(counts)),
    cost_usd=maybe(finite),
    latency=finite,
    attempts=counts,
    rung=st.sampled_from(get_args(types.Rung)),
    reasoning=maybe(texts),
    refusal=maybe(texts),
    logprobs=maybe(st.lists(tokens, max_size=3).map(tuple)),
)
judgments = st.builds(
    Judgment,
    case_id=texts,
    unit=units,
    shown=units,
    sample=counts,
    judge=texts,
    status=st.sampled_from(get_args(types.Status)),
    value=maybe(finite),
    confidence=maybe(finite),
    criteria=st.dictionaries(texts, finite, max_size=3),
    answer=maybe(objects),
    read_by=maybe(texts),
    error=maybe(texts),
    error_kind=maybe(texts),
    keys=st.lists(texts, max_size=2).map(tuple),
    completion=maybe(completions),
    stored=st.booleans(),
)
orders = st.builds(
    Orders, first=maybe(winners), second=maybe(winners), consistent=maybe(st.booleans())
)
verdicts = st.builds(
    Verdict,
    case_id=texts,
    unit=units,
    winner=maybe(winners),
    score=maybe(finite),
    reason=st.sampled_from(get_args(types.Reason)),
    margin=maybe(finite),
    confidence=maybe(finite),
    label=winners | maybe(finite),
    criteria=st.dictionaries(texts, finite, max_size=3),
    orders=maybe(orders),
    judge=texts,
)
metrics = st.dictionaries(
    texts, st.builds(Metric, name=st.just(""), value=maybe(finite), n=counts, note=maybe(texts))
)
NEEDED = {"judge": "j", "dataset": {"name": "pairs"}}
"""What the manifest of every run has."""
results = st.builds(
    RunResult,
    folder=st.none(),
    config=texts.filter(lambda text: not re.search("[\ud800-\udfff]", text)).map(
        lambda text: config(criteria={"q": {"description": text}})
    ),
    manifest=objects.map(lambda facts: facts | NEEDED),
    cases=st.lists(cases, max_size=2).map(tuple),
    judgments=st.lists(judgments, max_size=2).map(tuple),
    verdicts=st.lists(verdicts, max_size=2).map(tuple),
    metrics=metrics.map(
        lambda by_name: {name: replace(m, name=name) for name, m in by_name.items()}
    ),
    calls=st.builds(
        Calls, planned=counts, stored=counts, sent=counts, retried=counts, failed=counts
    ),
    tokens=st.dictionaries(texts, counts, max_size=3),
    cost_usd=maybe(finite),
)


def judgment(i: int = 0, **changes: Any) -> Judgment:
    usage = Usage(310, 95)
    completion = Completion(
        "An answer. " * 60, "m", "stop", usage, 0.1 + i, 1 / 3, logprobs=(TokenLogprob("A", -0.1),)
    )
    made = Judgment(
        f"case-{i}", (0, 1), (1, 0), 0, "j", "ok", 1.0, 0.7, {"a": 1.0}, {"winner": "A"}, "json"
    )
    return replace(made, keys=("0" * 64,), completion=completion, **changes)


@pytest.fixture
def result():
    case = Case(
        "case-0", "问", (Response("x", "m", 2.0), Response("y")), None, "r", "B", {"language": "zh"}
    )
    verdict = Verdict(
        "case-0",
        (0, 1),
        "A",
        None,
        "judged",
        0.5,
        0.7,
        "B",
        {"a": 1.0},
        Orders("A", "TIE", False),
        "j",
    )
    return RunResult(
        folder=None,
        config=config(rubric={"levels": {1.0: "low"}}),
        manifest={"version": "1", "started": "2024-05-01T00:00:00Z", "notes": ["中"], **NEEDED},
        cases=(case,),
        judgments=(judgment(), judgment(1, status="failed", value=None, error="e", answer=None)),
        verdicts=(verdict,),
        metrics={"tie_rate": Metric("tie_rate", 0.25, 0.1, 0.5, 4, 1, 0.2, 0.4, "n")},
        calls=Calls(4, 1, 3, 0, 0),
        tokens={"prompt": 1, "completion": 2},
        cost_usd=0.1,
    )


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(result=results)
def test_any_run_comes_back_as_it_was(tmp_path_factory, result):
    folder = tmp_path_factory.mktemp("run")
    written = write_run(folder, result)
    assert read_run(folder) == written == replace(result, folder=str(folder))
    for name in layout.FILES:
        text = (folder / name).read_text(encoding="utf-8")
        if name.endswith(".jsonl"):
            assert len(text.splitlines()) == len(getattr(result, name.removesuffix(".jsonl")))


def test_figures_stand_in_a_folder_of_their_own_and_those_of_other_scores_go(tmp_path, result):
    write_run(tmp_path, result, {"figures/a.svg": "<svg/>", "figures/b.svg": "<svg/>"})
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {"a.svg", "b.svg"}
    write_run(tmp_path, result, {"figures/b.svg": "<svg>2</svg>", "report.html": ""})
    assert [(p.name, p.read_text()) for p in (tmp_path / "figures").iterdir()] == [
        ("b.svg", "<svg>2</svg>")
    ]
    write_run(tmp_path, result, {"report.html": ""})
    assert not (tmp_path / "figures").exists()


def test_files_are_the_documented_ones(tmp_path, result):
    folder = tmp_path / "deep" / "run"
    write_run(folder, result, {"report.html": "<p>中\ud800</p>", "raw.bin": b"\xff"})
    assert {p.name for p in folder.iterdir()} == {*layout.FILES, "report.html", "raw.bin"}
    assert (folder / "report.html").read_text(encoding="utf-8") == "<p>中\\ud800</p>"
    assert (folder / "raw.bin").read_bytes() == b"\xff"
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics) == ["metrics", "decision", "calls", "tokens", "cost_usd"]
    assert metrics["metrics"]["tie_rate"] == {
        "value": 0.25,
        "low": 0.1,
        "high": 0.5,
        "n": 4,
        "missing": 1,
        "worst_low": 0.2,
        "worst_high": 0.4,
        "note": "n",
    }
    assert metrics["calls"] == {"planned": 4, "stored": 1, "sent": 3, "retried": 0, "failed": 0}
    verdict = json.loads((folder / "verdicts.jsonl").read_text(encoding="utf-8"))
    assert list(verdict) == [f.name for f in fields(Verdict)]
    assert verdict["orders"] == {"first": "A", "second": "TIE", "consistent": False, "third": None}
    line = json.loads((folder / "judgments.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert set(line["completion"]) == {f.name for f in fields(Completion)}
    assert "问" in (folder / "cases.jsonl").read_text(encoding="utf-8")


def test_config_file_composes(tmp_path, result):
    write_run(tmp_path, result)
    saved = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    assert next(iter(saved)) == "defaults"
    assert saved.pop("defaults") == ["schema", "runtime", "_self_"]
    assert RunConfig.model_validate(saved) == result.config
    assert saved == result.config.dump()


def test_a_folder_is_replaced_whole(tmp_path, result):
    write_run(tmp_path, result)
    again = replace(result, judgments=(), verdicts=(), cost_usd=None)
    write_run(tmp_path, again)
    assert read_run(tmp_path) == replace(again, folder=str(tmp_path))


def test_what_is_not_finite_in_a_judges_words_does_not_lose_the_run(tmp_path, result):
    completion = Completion("t", logprobs=(TokenLogprob("A", -math.inf, (("B", math.nan),)),))
    wild = judgment(answer={"confidence": math.inf, "s": [math.nan]})
    write_run(tmp_path, replace(result, judgments=(replace(wild, completion=completion),)))
    (read,) = read_run(tmp_path).judgments
    assert read.answer == {"confidence": "Infinity", "s": ["NaN"]}
    (token,) = read.completion.logprobs or ()
    assert token.logprob == -math.inf
    assert math.isnan(token.top[0][1])
    assert "NaN}" not in (tmp_path / "judgments.jsonl").read_text(encoding="utf-8")


def test_values_json_does_not_have_become_plain(tmp_path, result):
    numpy = pytest.importorskip("numpy")
    odd = MappingProxyType({"a": 1})
    case = replace(
        result.cases[0],
        metadata={"n": numpy.int64(3), "where": Path("a"), "tags": {"b", "a"}, "odd": odd},
    )
    write_run(tmp_path, replace(result, cases=(case,)))
    assert read_run(tmp_path).cases[0].metadata == {
        "n": 3,
        "where": "a",
        "tags": ["a", "b"],
        "odd": {"a": 1},
    }


@pytest.mark.parametrize("where", ["verdicts", "metrics", "manifest"])
def test_a_number_of_ours_that_is_not_finite_is_refused(tmp_path, result, where):
    write_run(tmp_path, result)
    bad = {
        "verdicts": {"verdicts": (replace(result.verdicts[0], margin=math.nan),)},
        "metrics": {"metrics": {"tie_rate": Metric("tie_rate", math.inf)}},
        "manifest": {"manifest": {"seconds": math.nan}},
    }[where]
    with pytest.raises(EvalkitError, match=rf"^{where}\.json.*not finite"):
        write_run(tmp_path, replace(result, **bad))
    assert read_run(tmp_path) == replace(result, folder=str(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == set(layout.FILES)


def test_a_field_of_any_type_is_taken_as_it_is():
    assert decoder(Any)({"x": [1]}) == {"x": [1]}


# When it cannot be written

INVALID_FIGURES = ("figures", "figures/..", "figures/a/b.svg", "other/a.svg", "figures/")


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_full_disk_leaves_no_half_file(tmp_path, result, monkeypatch, moment):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_run(tmp_path, result)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[moment], refuse)
    with pytest.raises(ConfigError) as caught:
        write_run(tmp_path, replace(result, judgments=(), cases=()))
    assert str(caught.value).startswith(
        f"{tmp_path}: the run folder cannot be written (No space left on device); "
    )
    assert "hydra.run.dir" in str(caught.value)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_every_file_is_on_the_disk_before_the_first_takes_its_place(tmp_path, result, monkeypatch):
    synced: set[int] = set()
    sync, move = os.fsync, Path.replace

    def note(handle: int) -> None:
        sync(handle)
        synced.add(os.fstat(handle).st_ino)

    def check(written: Path, place: Path) -> Path:
        waiting = {path.name: path.stat().st_ino for path in tmp_path.rglob(".*.tmp")}
        assert set(waiting.values()) <= synced
        return move(written, place)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "replace", check)
    write_run(tmp_path, result, {"report.html": "<p>", "figures/rates.svg": "<svg/>"})
    assert tmp_path.stat().st_ino in synced
    assert len(synced) == 1 + len([path for path in tmp_path.rglob("*") if path.is_file()])


def test_a_folder_that_cannot_be(tmp_path, result):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ConfigError, match="cannot be written") as caught:
            write_run(folder, result)
        assert str(caught.value).startswith(f"{folder}: ")


@pytest.mark.parametrize(
    "name", ["../out.html", "a/b.html", "", "..", "config.yaml", *INVALID_FIGURES]
)
def test_further_files_stay_in_the_folder(tmp_path, result, name):
    with pytest.raises(ValueError, match="not a valid name for an additional file"):
        write_run(tmp_path, result, {name: "x"})


def test_what_a_killed_process_left_is_swept_up(tmp_path, result):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    left, other = (
        tmp_path / f".judgments.jsonl.{done.pid}.tmp",
        tmp_path / f".judgments.jsonl.{os.getppid()}.tmp",
    )
    for path in (left, other, tmp_path / ".hidden"):
        path.write_bytes(b"{")
    write_run(tmp_path, result)
    assert not left.exists()
    assert other.exists()
    assert (tmp_path / ".hidden").exists()


def test_the_manifest_comes_last(tmp_path, result, monkeypatch):
    moved: list[str] = []
    replace_: Any = Path.replace
    monkeypatch.setattr(
        Path, "replace", lambda path, place: moved.append(place.name) or replace_(path, place)
    )
    write_run(tmp_path, result, {"report.html": "x"})
    assert moved[-1] == layout.MANIFEST
    assert sorted(moved) == sorted([*layout.FILES, "report.html"])


# When it cannot be read


def complaint(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_run(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder}")


def test_not_a_run_folder(tmp_path):
    assert (
        complaint(tmp_path / "no") == ": no such folder; choose a folder that `evalkit run` wrote"
    )
    (tmp_path / "config.yaml").write_text("a: 1", encoding="utf-8")
    assert complaint(tmp_path).startswith(": not a run folder: it has none of a run's files; ")


def test_a_folder_of_runs_is_told_from_a_run(tmp_path, result):
    write_run(tmp_path / "sweep" / "0", result)
    said = complaint(tmp_path / "sweep")
    assert said.startswith(
        ": contains several runs and is not a run folder; choose one of them, for example "
    )
    assert said.endswith("0")


@pytest.mark.parametrize("name", layout.FILES)
def test_a_missing_file_is_named(tmp_path, result, name):
    write_run(tmp_path, result)
    (tmp_path / name).unlink()
    assert complaint(tmp_path) == f"/{name}: the file is missing; rerun it, or restore the file"


@pytest.mark.parametrize("name", layout.FILES)
def test_a_file_that_cannot_be_read_is_named(tmp_path, result, monkeypatch, name):
    write_run(tmp_path, result)
    opened: Any = os.open

    def refuse(path: Any, *how: Any, **further: Any) -> Any:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied")
        return opened(path, *how, **further)

    monkeypatch.setattr(os, "open", refuse)
    assert complaint(tmp_path).startswith(f"/{name}: cannot be read (Permission denied); ")


DAMAGE = [
    ("judgments.jsonl", '"status": "ok"', '"status": "okay"', "status: expected one of"),
    ("judgments.jsonl", '"sample": 0', '"sample": 0.5', "sample: expected an integer"),
    ("judgments.jsonl", '"prompt_tokens": 310', '"prompt_tokens": "x"', "completion.usage."),
    ("judgments.jsonl", '"items": {}', '"items": [', "Expecting value"),
    ("judgments.jsonl", '"confidence"', '"confidnce"', "unknown key 'confidnce', did you mean"),
    ("judgments.jsonl", '"unit": [0, 1]', '"unit": "0"', "unit: expected a list, got"),
    ("judgments.jsonl", '"criteria": {"a": 1.0}', '"criteria": [1]', "criteria: expected an obj"),
    ("judgments.jsonl", '"value": 1.0', '"value": "1.0"', "value: expected a number, got"),
    (
        "judgments.jsonl",
        '"keys": ["' + "0" * 64 + '"]',
        '"keys": [null]',
        "keys: expected a string",
    ),
    (
        "verdicts.jsonl",
        '"case_id"',
        '"case_idd"',
        "unknown key 'case_idd', did you mean 'case_id'?)",
    ),
    ("verdicts.jsonl", '"case_id": "case-0", ', "", "key 'case_id' is missing)"),
    ("verdicts.jsonl", '"orders": {"first": "A"', '"orders": {"first": "C"', "orders.first: exp"),
    ("verdicts.jsonl", '"consistent": false', '"consistent": 0', "orders.consistent: expected "),
    ("cases.jsonl", '"responses": [', '"responses": [3, ', "responses: expected an object, got"),
    ("cases.jsonl", '{"id"', '[{"id"', "Expecting"),
    ("metrics.json", '"value": 0.25', '"value": true', "value: expected a number, got true)"),
    ("metrics.json", '"value": 0.25', '"valu": 0.25', "unknown key 'valu', did you mean 'value'?)"),
    ("metrics.json", '"cost_usd": 0.1', '"cost_usd": "0.1"', "expected a number, got"),
    ("metrics.json", '"sent"', '"snt"', "unknown key 'snt', "),
    ("metrics.json", '"calls"', '"call"', "key 'calls' is missing)"),
    ("metrics.json", '"tie_rate": {', '"x": 3, "tie_rate": {', "metrics is not an object of obj"),
    ("metrics.json", "}", "", "Expecting"),
    ("manifest.json", "{", "[", "Expecting"),
    ("manifest.json", '"dataset"', '"datset"', "key 'dataset' is missing)"),
    ("config.yaml", "judge:", "judge: [", "line "),
    ("config.yaml", "judge:", "\x00judge:", ""),
]


@pytest.mark.parametrize(("name", "old", "new", "said"), DAMAGE)
def test_damage_is_named(tmp_path, result, name, old, new, said):
    write_run(tmp_path, result)
    path = tmp_path / name
    content = path.read_text(encoding="utf-8")
    assert old in content
    path.write_text(content.replace(old, new, 1), encoding="utf-8")
    line = ":1" if name.endswith(".jsonl") else ""
    if name == "metrics.json" and "missing" not in said and said != "Expecting":
        key = "metrics" if old.startswith('"tie_rate"') else new.split('"')[1]
        line = f":{next(n for n, text in enumerate(path.read_text('utf-8').splitlines(), 1) if key in text)}"
    assert complaint(tmp_path).startswith(f"/{name}{line}: the file is damaged ({said}")


@pytest.mark.parametrize("name", [n for n in layout.FILES if not n.endswith(".jsonl")])
def test_a_file_of_another_kind_is_named(tmp_path, result, name):
    write_run(tmp_path, result)
    for content in (b"3", b"\xff\xfe\x00"):
        (tmp_path / name).write_bytes(content)
        assert complaint(tmp_path).startswith(f"/{name}: the file is damaged (")


def test_a_folder_of_a_version_with_fewer_fields_is_read(tmp_path, result):
    write_run(tmp_path, result)
    path = tmp_path / "judgments.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        del row["stored"], row["error_kind"]
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows), encoding="utf-8")
    assert read_run(tmp_path).judgments == result.judgments


@pytest.mark.slow
def test_ten_thousand_judgments_take_about_a_second(tmp_path, result):
    many = replace(result, judgments=tuple(judgment(i) for i in range(10_000)))
    started = time.process_time()
    write_run(tmp_path, many)
    assert read_run(tmp_path).judgments == many.judgments
    assert time.process_time() - started < 10


def free(folder: Path) -> Path:
    path, claim = claim_unused_run(folder)
    claim.release()
    return path


def test_two_runs_of_one_second_do_not_share_a_folder(tmp_path):
    folder, second = (tmp_path / f"10-00-00-pairwise-x{end}" for end in ("", "-2"))
    assert free(folder) == folder
    folder.mkdir()
    assert free(folder) == folder
    (folder / "manifest.json").write_text("{}")
    second.mkdir()
    assert free(folder) == second
    (second / "manifest.json").write_text("{}")
    assert free(folder) == tmp_path / "10-00-00-pairwise-x-3"


TEXTS = st.text(max_size=12) | st.text("\\${}1e.-:'\" \n#&*!|>%@`yn", max_size=8)


def composed(config: dict[str, Any]) -> Any:
    loaded = OmegaConf.create(dump(config).decode())
    return OmegaConf.to_container(loaded, resolve=True)


@given(
    st.dictionaries(
        st.text("abc", min_size=1), TEXTS | st.lists(TEXTS) | st.floats(allow_nan=False), max_size=3
    )
)
def test_any_config_is_read_back(config):
    assert load(dump(config)) == config


@pytest.mark.parametrize(
    "text",
    [
        *("${x}", "\\${x}", "\\\\${oc.env:HOME}", "a ${ b", "${", "1e3", "1_0", "-.5e1", "null"),
        *("yes", "~", "2024-05-01", ""),
    ],
)
def test_texts_stay_texts_when_composed(text):
    config = {"pattern": text, "list": [text, {"deep": text}]}
    assert load(dump(config)) == config
    assert {k: v for k, v in composed(config).items() if k != "defaults"} == config


def test_composed_values_keep_their_types():
    config = {
        "a": 1,
        "b": 1.0,
        "c": None,
        "d": True,
        "e": 1e-7,
        "f": {"1.0": "low", "1": "A"},
        "g": [],
        "h": {},
    }
    read = {k: v for k, v in composed(config).items() if k != "defaults"}
    assert read == config
    assert [type(v) for v in read.values()] == [type(v) for v in config.values()]


def test_equal_parts_are_written_out_each_time():
    part = {"x": [1, 2]}
    text = dump({"a": part, "b": part}).decode()
    assert "&" not in text
    assert "*" not in text


def test_infinity_is_kept():
    assert load(dump({"a": math.inf})) == {"a": math.inf}


def test_a_saved_config_composes_to_the_same_config(tmp_path):
    config = load_config(
        "config", ["judge.name='1e3'", "rubric=likert10", "dataset.label_map={1: A, 2: B}"]
    )
    pattern = "x ${now:} \\${y} \\\\${(?P<winner>[ab])}"
    config = config.model_copy(
        update={"output": config.output.model_copy(update={"pattern": pattern})}
    )
    saved = tmp_path / "config.yaml"
    saved.write_bytes(dump(config.dump()))
    assert load_config(str(saved)) == config


WORDS = (
    *("dataset=file", "dataset.path=cases.jsonl", "judge=simulated/good", *BRIEF),
    "store.url=a.sqlite",
)


@pytest.fixture
def run(call, tmp_path):
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(pair(n)) + "\n" for n in range(12)))
    call("run", *WORDS, "runner.judgments=parquet", "--output", "columns")
    return tmp_path / "columns"


@pytest.mark.usefixtures("mlflow_store")
def test_every_command_reads_judgments_in_parquet(call, run, tmp_path):
    call("run", *WORDS, "--output", "lines")
    assert (run / "judgments.parquet").is_file()
    assert not (run / "judgments.jsonl").exists()
    assert read_run(tmp_path / "lines").judgments == [
        replace(one, stored=True) for one in read_run(run).judgments
    ]
    before = json.loads((run / "metrics.json").read_text())["metrics"]
    call("score", "columns", "tie.min_confidence=1")
    assert json.loads((run / "metrics.json").read_text())["metrics"] != before
    call("score", "columns", "tie.min_confidence=0")
    call("compare", "columns", "lines")
    call("reproduce", "columns")
    own = (run / "judgments.parquet").read_bytes()
    assert "judgments-table.parquet" in call("export", "columns", "--to", "parquet").out
    said = call(
        "export", "columns", "--to", "parquet", "--output", "columns/judgments.parquet", status=1
    ).line()
    assert said.endswith("holds the run's own judgments; choose another --output")
    call("export", "columns", "--to", "csv")
    (tmp_path / "labels.csv").write_text("id,annotator,label\nc1,ann,B\n")
    call("label", "columns", "labels.csv")
    assert (run / "judgments.parquet").read_bytes() == own
    call("track", "columns", "tracking.uri=sqlite:///mlflow.db")


def test_a_run_that_changes_the_format_leaves_one_file(call, run):
    call("run", *WORDS, "--output", "columns")
    assert [path.name for path in run.glob("judgments.*")] == ["judgments.jsonl"]
    call("run", *WORDS, "runner.judgments=parquet", "--output", "columns")
    assert [path.name for path in run.glob("judgments.*")] == ["judgments.parquet"]


def test_what_columns_cannot_hold_is_kept_and_a_damaged_file_is_one_line(call, run, tmp_path):
    result = read_run(run)
    odd = [
        replace(
            result.judgments[0], case_id="\ud800", error="\udfff", answer={"\ud800": ["\x00", 1]}
        ),
        replace(result.judgments[1], value=None, criteria={"a": 0.5}, ranking=((0,), (1,))),
        *result.judgments[2:],
    ]
    write_run(tmp_path / "odd", replace(result, judgments=odd))
    assert read_run(tmp_path / "odd").judgments == odd
    content = (run / "judgments.parquet").read_bytes()
    (run / "judgments.parquet").write_bytes(content[: len(content) // 2])
    assert (
        "judgments.parquet: row 1: the file is damaged" in call("score", "columns", status=1).line()
    )
    (run / "judgments.parquet").unlink()
    assert "judgments.jsonl: the file is missing" in call("score", "columns", status=1).line()
