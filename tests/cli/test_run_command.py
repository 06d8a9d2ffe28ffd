"""`evalkit run`: its folders, exit status and jobs' names, comments in files; a run done again in another folder."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalkit import load_config, run
from evalkit.core.errors import ConfigError
from evalkit.runs import read_run
from tests.support.command_line import Done, fake, pair, prefers
from tests.support.fake_provider import Provider, said
from tests.support.thorough import some_of

Call = Callable[..., Done]


@pytest.fixture
def provider(provider, tmp_path):
    lines = [json.dumps(pair(number)) for number in range(4)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), "utf-8")
    provider.rule = prefers()
    return provider


def words(provider: Provider, *more: str) -> list[str]:
    data = [
        *("dataset=file", "dataset.path=data.jsonl", "output=bracket", "scoring.bootstrap=20"),
        "tracking=none",
    ]
    return [*fake(provider), *data, *more]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_folder_with_another_run_is_refused(call, provider, tmp_path):
    call("run", *words(provider, "hydra.run.dir=first", "gate={tie_rate: '>= 0'}"))
    call("export", "first", "--to", "csv")
    first, asked = contents(tmp_path / "first"), len(provider.requests)
    another = words(provider, "hydra.run.dir=first", "swap=none", "judge.temperature=0.5")
    line = call("run", *another, status=1).line()
    assert line.endswith(
        "first: contains another run; choose another folder with hydra.run.dir, or add --overwrite to replace it"
    )
    assert contents(tmp_path / "first") == first
    assert len(provider.requests) == asked
    call("run", *another, "--overwrite")
    call("run", *words(provider, "hydra.run.dir=fresh", "swap=none", "judge.temperature=0.5"))
    assert contents(tmp_path / "first").keys() == contents(tmp_path / "fresh").keys()
    assert "gate.json" in first
    assert "judgments.csv" in first
    assert (
        not {"gate.json", "gate.xml", "gate.md", "judgments.csv"}
        & contents(tmp_path / "first").keys()
    )


def test_the_same_command_may_be_repeated(call, provider, tmp_path):
    given = words(provider, "hydra.run.dir=first", "runner.concurrency=1")
    call("run", *given, "runner.budget_calls=3", status=2)
    call("run", *given)
    assert len(provider.requests) == 8
    call("run", *given)
    assert len(provider.requests) == 8
    # Other data make another run, and so do labels, which a repetition would lose.
    lines = [json.dumps(pair(number, label="B")) for number in range(4)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), "utf-8")
    assert "contains a run of this config on other data" in call("run", *given, status=1).line()


def test_labels_are_not_lost(call, provider, tmp_path):
    given = words(provider, "hydra.run.dir=first")
    call("run", *given)
    (tmp_path / "labels.csv").write_text("id,annotator,label\nc0,ann,A\n")
    call("label", "first", "labels.csv")
    assert "first: contains another run" in call("run", *given, status=1).line()


def test_a_users_file_is_not_replaced(call, provider, tmp_path):
    (tmp_path / "cases.jsonl").write_text("mine")
    line = call("run", *words(provider, "hydra.run.dir=."), status=1).line()
    assert "contains cases.jsonl, which the run would replace" in line
    assert (tmp_path / "cases.jsonl").read_text() == "mine"


def test_an_imported_run_is_not_replaced(call, provider, tmp_path):
    rows = [
        {"prompt": "Q?", "response_a": "x", "response_b": "y", "winner": "A", "id": str(n)}
        for n in range(3)
    ]
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = ["tracking=none", "hydra.run.dir=imported", "scoring.bootstrap=20"]
    call("import", "generic", "one.jsonl", *given)
    call("import", "generic", "one.jsonl", *given)
    assert (
        "imported: contains another run"
        in call("import", "generic", "two.jsonl", *given, status=1).line()
    )
    assert (
        "imported: contains another run"
        in call("run", *words(provider, "hydra.run.dir=imported"), status=1).line()
    )
    call("import", "generic", "two.jsonl", *given, "--overwrite")


def test_the_python_interface_refuses_too(call, provider, tmp_path):
    call("run", *words(provider, "hydra.run.dir=first"))
    config = load_config(overrides=words(provider, "swap=none"))
    with pytest.raises(ConfigError, match="contains another run"):
        run(config, tmp_path / "first")
    assert len(run(config, tmp_path / "first", overwrite=True).judgments) == 4


@pytest.mark.thorough
@pytest.mark.slow
def test_a_sweeps_folder_holds_one_sweep(call, provider, tmp_path):
    given = words(provider, "hydra.sweep.dir=swept")
    call("run", *given, "swap=both,none,random", "-m")
    before, asked = contents(tmp_path / "swept"), len(provider.requests)
    line = call("run", *given, "swap=both,none", "tie=forbid", "-m", status=1).line()
    assert (
        "swept: contains another sweep (job 0); choose another folder with hydra.sweep.dir, or add --overw"
        in line
    )
    assert (
        "swept: contains a sweep"
        in call("run", *words(provider, "hydra.run.dir=swept"), status=1).line()
    )
    assert contents(tmp_path / "swept") == before
    assert len(provider.requests) == asked
    call("run", *given, "swap=both,none,random", "-m")  # the same one may be repeated, and extended
    call("run", *given, "swap=both,none,random,mean", "-m")
    call("run", *given, "swap=both,none", "tie=forbid", "-m", "--overwrite")
    assert sorted(path.name for path in (tmp_path / "swept").iterdir() if path.is_dir()) == [
        "0",
        "1",
    ]
    board = json.loads((tmp_path / "swept" / "leaderboard.json").read_text())
    assert len(board["rows"]) == 2


def test_a_run_without_usable_answers_exits_with_2(call, provider, tmp_path):
    provider.rule = lambda _: said("I would rather not say.")
    given = words(provider)
    done = call("run", *given, "hydra.run.dir=first", "--quiet", status=2)
    assert re.fullmatch(
        r"evalkit: 100\.0% of the answers are unusable \(100\.0% unparseable\), more than "
        r"runner\.max_unusable_rate=50\.0% allows; the results were written\n",
        done.err,
    )
    assert (
        json.loads((tmp_path / "first/metrics.json").read_text())["metrics"]["missing/unparseable"][
            "value"
        ]
        == 1
    )
    call("run", *given, "hydra.run.dir=first", "runner.max_unusable_rate=1")
    # A sweep that is repeated does not run its finished jobs again, and says the same of them.
    swept = [*given, "tie.threshold=0,0.1", "hydra.sweep.dir=swept", "-m", "--quiet"]
    assert call("run", *swept, status=2).err == call("run", *swept, status=2).err


def test_half_of_the_answers_are_enough(call, provider):
    judged = prefers()
    provider.rule = lambda body: (
        judged(body) if re.search("Question [01]", str(body)) else said("No.")
    )
    call("run", *words(provider))
    line = call("run", *words(provider, "runner.max_unusable_rate=0.4"), "--quiet", status=2).err
    assert "50.0% of the answers are unusable" in line


def test_a_sweep_without_m_gets_a_remedy(call, provider):
    for command in ("run", "plan"):
        line = call(command, *words(provider, "swap=both,none"), status=1).line()
        assert line == (
            "swap=both,none: has several values; add -m to run a job for each, or write 'swap=\"both,none\"' if it is "
            "one value"
        )
    line = call("run", *words(provider, "criteria.accuracy.weight=0.3,0.7"), status=1).line()
    assert line.startswith("criteria.accuracy.weight=0.3,0.7: has several values; add -m")
    assert "_set_" not in line
    line = call("run", *words(provider, "judge.name=a,b"), status=1).line()
    suggested = shlex.split(line.partition("or write ")[2].partition(" if it is")[0])
    assert load_config(overrides=words(provider, *suggested)).judge.name == "a,b"


def test_several_options_of_a_group_are_not_merged(call, provider):
    for command in ("run", "plan"):
        for word in ("method=[pairwise,direct10]", "swap=[both, none]"):
            line = call(command, *words(provider, word), status=1).line()
            assert line.startswith(
                f"{word}: the last of these would silently replace the others; choose one, or write "
            )
            assert (
                f"write {word.replace(' ', '').translate(str.maketrans('', '', '[]'))} -m to run"
                in line
            )


def test_a_template_that_is_not_utf8_is_named(call, provider, tmp_path):
    (tmp_path / "prompts" / "en").mkdir(parents=True)
    (tmp_path / "prompts" / "en" / "mine.md.j2").write_bytes(b"caf\xe9 {{ response_a }}")
    for command in ("run", "plan"):
        line = call(command, *words(provider, "prompt.template=mine"), status=1).line()
        assert line.endswith(
            "mine.md.j2: the byte at offset 3 is not UTF-8; save the file as UTF-8"
        )
        assert "codec" not in line


@pytest.mark.slow
def test_jobs_are_named_by_what_is_swept(call, provider, tmp_path):
    (tmp_path / "study.yaml").write_text(
        "defaults: [config, _self_]\nhydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n"
        "      swap: both,none\n      tie.threshold: 0.1\n"
    )
    spelled = [
        *("tracking.enabled=False", "runner.retries=1", f"store.url={tmp_path / 'other.sqlite'}"),
    ]
    call("run", "study.yaml", *words(provider, "hydra.sweep.dir=swept"), *spelled)
    manifests = [
        json.loads((tmp_path / "swept" / job / "manifest.json").read_text()) for job in "01"
    ]
    assert [manifest["sweep"]["overrides"] for manifest in manifests] == [
        ["swap=both"],
        ["swap=none"],
    ]
    call(
        "run",
        *words(
            provider, "hydra.sweep.dir=alone", "tie.threshold=0.2", "tracking.enabled=False", "-m"
        ),
    )
    alone = json.loads((tmp_path / "alone" / "0" / "manifest.json").read_text())["sweep"][
        "overrides"
    ]
    assert "tie.threshold=0.2" in alone
    assert not [word for word in alone if word.startswith(("tracking", "runner", "store"))]


@pytest.mark.parametrize("key", ["", "  "])
def test_doctor_refuses_an_empty_key(call, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    out = " ".join(call("doctor", "judge=gpt-4o-mini", "tracking=none", status=1).out.split())
    assert (
        "wrong judge: openai/gpt-4o-mini: the API key in OPENAI_API_KEY is empty; set the environment"
        in out
    )


@pytest.mark.slow
def test_commands_that_read_create_no_database(call, provider, tmp_path):
    call("run", *words(provider, "hydra.run.dir=first"))
    call("run", *words(provider, "hydra.run.dir=second", "swap=none"))
    for file in tmp_path.glob("store.sqlite*"):
        file.unlink()
    mlflow = [word for word in words(provider) if word != "tracking=none"]
    gone = "0123456789abcdef0123456789abcdef"
    commands: list[tuple[int, list[str]]] = [
        (0, ["plan", *mlflow]),
        (0, ["doctor", *mlflow]),
        (0, ["score", "first", "tie.threshold=0.1"]),
        (0, ["compare", "first", "second"]),
        (0, ["reproduce", "first"]),
        (0, ["export", "first", "--to", "csv"]),
        (0, ["plugins"]),
        (1, ["store", "stats"]),
        (1, ["store", "export", "out.jsonl"]),
        (1, ["compare", "first", gone]),
        (1, ["reproduce", gone]),
        (1, ["label", "first", "--from", "mlflow"]),
        (1, ["plan", *mlflow, f"dataset.path=runs:/{gone}/data.jsonl"]),
        (1, ["plan", *mlflow, f"gate={{agreement/accuracy: {{not_below: {gone}, margin: 0.1}}}}"]),
        (1, ["ui"]),
    ]
    for status, command in commands:
        call(*command, status=status)
        made = [
            path.name
            for path in tmp_path.rglob("*")
            if path.suffix in (".db", ".sqlite") or "mlruns" in path.name
        ]
        assert made == [], command


_RARER = ("left is better, clearly", "it's", "${x}", "C:\\")


@pytest.mark.parametrize(
    "label", ["A>B", 'say "x"=y', *(pytest.param(x, marks=pytest.mark.slow) for x in _RARER)]
)
def test_the_suggested_label_map_works(call, provider, tmp_path, label):
    rows = [pair(0, label=label), pair(1, label="same")]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    given = words(provider)
    first = re.search(r"for example (.+), or give a list", call("plan", *given, status=1).line())
    second = re.search(
        r"for example (.+), or give a list",
        call("plan", *given, *shlex.split(first[1]), status=1).line(),
    )
    assert "2 requests" not in second[1]
    config = load_config(overrides=[*given, *shlex.split(second[1])])
    assert dict(config.dataset.label_map) == {label: "A", "same": "A"}
    call("plan", *given, *shlex.split(second[1]))


def test_a_label_map_as_text(call, provider):
    config = load_config(overrides=words(provider, 'dataset.label_map="A>B=A, B>A=B,same=TIE"'))
    assert dict(config.dataset.label_map) == {"A>B": "A", "B>A": "B", "same": "TIE"}
    with pytest.raises(ConfigError, match="is not a list of LABEL=A, LABEL=B or LABEL=TIE"):
        load_config(overrides=words(provider, 'dataset.label_map="A>B=A, B>A"'))
    config = load_config(overrides=words(provider, 'dataset.label_map="good=3, bad=-0.5"'))
    assert dict(config.dataset.label_map) == {"good": 3.0, "bad": -0.5}


SCORED = (
    *("mode=pointwise", "dataset=sample", "dataset.limit=3", "scoring.bootstrap=20"),
    "tracking=none",
)
UNCALIBRATED = "rubric.examples is empty"


@pytest.mark.parametrize(
    ("more", "count"),
    [
        (["judge=simulated/good"], 1),
        (["judge=simulated/good,simulated/noisy", "-m"], 1),
        (["judge=simulated/good", "rubric=own", "rubric.max=3"], 0),
        (["judge=simulated/good", "rubric.levels={1: bad, 5: good}"], 0),
    ],
)
def test_a_note_on_the_config_is_printed_once(call, more, count):
    done = call("run", *SCORED, *more)
    assert (done.err + done.out).count(UNCALIBRATED) == count
    assert done.err.count(UNCALIBRATED) == count  # before the first call


def test_any_script_may_be_typed(call, provider, tmp_path):
    (tmp_path / "data.jsonl").rename(tmp_path / "数据.jsonl")
    given = [
        word for word in words(provider, "judge.name=裁判") if not word.startswith("dataset.path")
    ]
    call("run", *given, "dataset.path=数据.jsonl", "hydra.run.dir=输出")
    assert json.loads((tmp_path / "输出" / "manifest.json").read_text("utf-8"))["judge"] == "裁判"
    printed = call("run", *given, "tracking.tags.组=甲", "--cfg", "job").out
    assert "    组: 甲\n" in printed


KINDS: dict[str, tuple[list[str], list[dict[str, Any]]]] = {
    "pairs": (
        [
            "dataset.limit=2",
            "dataset.sample={n: 2, seed: 1}",
            "dataset.label_map={left: A}",
            "scoring.cluster=topic",
        ],
        [
            {
                "id": "1",
                "prompt": "p",
                "response_a": "x",
                "response_b": "yy",
                "label": "left",
                "topic": "t",
            },
            {
                "id": "2",
                "prompt": "p",
                "response_a": "x",
                "response_b": "yy",
                "labels": {"a": "A", "b": "B"},
            },
            {
                "id": "3",
                "prompt": "p",
                "response_a": "z",
                "response_b": "yy",
                "topic": {"a": [1, None]},
            },
        ],
    ),
    "columns": (
        [
            "dataset.fields={prompt: q, response_a: one, response_b: two}",
            "dataset.filter='n > 1'",
            "dataset.max_chars=9",
        ],
        [
            {"id": str(n), "q": f"p{n}", "one": "x" * 20, "two": "y", "label": "B", "n": n}
            for n in range(4)
        ],
    ),
    "scores": (
        ["mode=pointwise"],
        [
            {"id": "1", "prompt": "p", "response": "x", "label": 3},
            {"id": "2", "prompt": "p", "response": "y"},
        ],
    ),
    "classes": (
        ["mode=pointwise", "rubric=pass_fail"],
        [
            {"id": "1", "prompt": "p", "response": "x", "label": "pass"},
            {"id": "2", "prompt": "p", "response": "y", "labels": {"a": "pass", "b": "fail"}},
        ],
    ),
    "turns": (
        [
            "mode=pointwise",
            "dataset.unit=turn",
            "dataset.after=true",
            "dataset.fields={messages: chat}",
        ],
        [
            {
                "id": name,
                "chat": [
                    {"role": role, "content": f"{role} {n}"}
                    for n in (1, 2)
                    for role in ("user", "assistant")
                ],
                "label": [1, 5],
            }
            for name in ("a", "b")
        ],
    ),
    "checklists": (
        ["mode=checklist"],
        [
            {
                "id": "1",
                "prompt": "p",
                "response": "x",
                "checklist": ["one", {"criterion": "two", "labels": {"a": "met"}}],
            }
        ],
    ),
}


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "data.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")


@pytest.fixture
def elsewhere(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere"


COMMON = (
    *("judge=simulated/good", "tracking=none", "dataset=file", "dataset.path=data.jsonl"),
    "scoring.bootstrap=20",
)


@pytest.mark.parametrize("kind", some_of(KINDS, 2))
def test_it_judges_the_same_cases(call, tmp_path, elsewhere, monkeypatch, kind):
    words, rows = KINDS[kind]
    write(tmp_path, rows)
    call("run", *COMMON, *words, "hydra.run.dir=first")
    monkeypatch.chdir(elsewhere)
    call("run", "../first/config.yaml", "hydra.run.dir=second")
    first, second = read_run(tmp_path / "first"), read_run(elsewhere / "second")
    assert list(second.cases) == list(first.cases)
    assert second.metrics == first.metrics
    assert second.manifest["dataset"]["fingerprint"] == first.manifest["dataset"]["fingerprint"]
    planned = call("plan", "../first/config.yaml").out
    assert planned.splitlines()[1].split()[2:5] == [
        str(len(first.judgments)),
        str(len(first.judgments)),
        "0",
    ]


def test_an_override_applies_to_these_cases(call, tmp_path, elsewhere, monkeypatch):
    words, rows = KINDS["pairs"]
    write(tmp_path, rows)
    call("run", *COMMON, *words, "hydra.run.dir=first")
    monkeypatch.chdir(elsewhere)
    call("run", "../first/config.yaml", "dataset.limit=1", "hydra.run.dir=second")
    assert len(read_run(elsewhere / "second").cases) == 1
    line = call("run", "../first/config.yaml", "dataset.path=none.jsonl", status=1).line()
    assert line == "none.jsonl: no such file; set dataset.path to a data file"
    write(elsewhere, rows[:1])
    # The study is of another folder, so the data of this folder must be named.
    line = call("run", "../first/config.yaml", "dataset.sample=null", status=1).line()
    remedy = line.rpartition(" ")[2]
    assert remedy == "dataset.path=data.jsonl"
    call("run", "../first/config.yaml", "dataset.sample=null", remedy, "hydra.run.dir=third")
    assert len(read_run(elsewhere / "third").cases) == 1


def test_only_the_config_of_a_run_has_cases_beside_it(call, tmp_path, elsewhere, monkeypatch):
    write(tmp_path, KINDS["pairs"][1])
    call("run", *COMMON, "dataset.label_map={left: A}", "hydra.run.dir=first")
    monkeypatch.chdir(elsewhere)
    file = tmp_path / "first" / "config.yaml"
    config = yaml.safe_load(file.read_text("utf-8"))
    file.write_text(yaml.safe_dump({**config, "defaults": ["config", "_self_"]}), "utf-8")
    assert "data.jsonl: no such file" in call("run", "../first/config.yaml", status=1).line()
    file.write_text(yaml.safe_dump(config), "utf-8")
    cases = tmp_path / "first" / "cases.jsonl"
    cases.write_text(cases.read_text("utf-8").replace('"prompt"', '"promt"'), "utf-8")
    line = call("run", "../first/config.yaml", status=1).line()
    assert line.endswith(
        "cases.jsonl:1: unknown key 'promt', did you mean 'prompt'?; restore the file of the run"
    )
    cases.unlink()
    assert "data.jsonl: no such file" in call("run", "../first/config.yaml", status=1).line()
