"""Each command's help and tab completion, and what `evalkit doctor` says of the store and the tracker."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from evalkit.cli import COMMANDS
from evalkit.cli.parser import parse, subparsers
from evalkit.store.sqlite import SqliteStore
from tests.support.command_line import Done

Call = Callable[..., Done]


@pytest.mark.parametrize("command", [*COMMANDS])
def test_each_command_says_how_it_is_called(command, call):
    done = call(command, "--help")
    assert done.out.startswith(f"usage: evalkit {command} ")
    assert f"\nExample:\n  evalkit {command}" in done.out
    assert "docs/reference/" in done.out
    assert done.err == ""
    assert call("help", command).out == done.out


def test_every_argument_and_option_of_a_command_has_a_meaning():
    for name, command in COMMANDS.items():
        parser = command.parser()
        for one in (parser, *(subparsers(parser) or {}).values()):
            assert all(action.help or action.dest == "action" for action in one._actions), name


def test_run_help_lists_the_config_groups_of_the_project_too(call, tmp_path):
    (tmp_path / "conf" / "judge").mkdir(parents=True)
    (tmp_path / "conf" / "judge" / "mine.yaml").write_text("model: openai/mine\n")
    printed = " ".join(call("run", "--help").out.split())
    assert "swap: both, lower_confidence, mean" in printed
    assert "llama" in printed
    assert " mine, " in printed


def test_a_folder_of_a_run_is_told_from_a_study(call, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "config.yaml").write_text("{}")
    assert (
        call("run", "one", status=1).line()
        == "one: is a run's folder; evalkit run one/config.yaml runs it again"
    )
    assert (
        call("score", "one/config.yaml", status=1)
        .line()
        .partition(": ")[2]
        .startswith("a file, not a run folder")
    )


@pytest.mark.parametrize(
    "words",
    [
        *("run", "plan", "score", "check", "watch", "drift", "serve", "compare", "reproduce"),
        *("align", "audit", "track", "export --to judge", "label --next 3", "batch write"),
        *("batch read", "plan watch", "store import", "import generic"),
    ],
)
def test_a_name_too_long_for_a_file_is_one_line(words, call):
    name = "a" * 5000
    others = [name] if words in ("drift", "compare") else []
    assert "too long" in call(*words.split(), name, *others, status=1).line()


def test_what_an_export_would_pass_over_is_refused(call):
    said = call("export", "run", "--to", "csv", "--n", "5", status=1).line()
    assert said.startswith("--to csv: exports every judgment")
    assert (
        call("export", "run", status=1)
        .line()
        .startswith("evalkit export: needs --to; try evalkit export --help")
    )


def test_labels_that_are_not_there_are_not_called_judgments(call, tmp_path):
    (tmp_path / "empty").mkdir()
    assert (
        call("import", "generic", "empty", status=1)
        .line()
        .startswith("empty: has no readable rows")
    )


def test_ui_says_in_one_line_that_its_port_is_taken(call, tmp_path):
    (tmp_path / "mlflow.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = call("ui", "--port", str(port), status=1).line()
    assert said.startswith(f"port {port}: is in use; choose another: evalkit ui --port ")
    assert (
        call("ui", "--port=abc", status=1).line()
        == "evalkit ui: --port: 'abc' is not a port from 1 to 65535; try evalkit ui --help"
    )


def test_the_doctor_looks_where_runs_are_recorded(call, tmp_path):
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for uri, said in {
        f"http://127.0.0.1:{port}": f"wrong tracking: http://127.0.0.1:{port}: nothing answers",
        "nonsense://x": "wrong tracking: tracking.uri: MLflow knows no 'nonsense:'",
        "./mlruns": "wrong tracking: tracking.uri: file:",
        "sqlite:///file/mlflow.db": f"wrong tracking: sqlite:///{tmp_path}/file/mlflow.db: ",
    }.items():
        assert said in call("doctor", f"tracking.uri={uri}", status=1).out
    assert f"ok    tracking: sqlite:///{tmp_path}/mlflow.db" in call("doctor").out
    assert not (tmp_path / "mlflow.db").exists()


def test_a_tracking_store_of_no_known_kind_is_refused_before_anything_is_asked(call):
    said = call("run", "judge=gpt-4o-mini", "tracking.uri=nonsense://x", status=1).line()
    assert said.startswith("tracking.uri: MLflow knows no 'nonsense:'; use sqlite:///mlflow.db")


@pytest.mark.slow
def test_a_terminal_without_the_letters_gets_others(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "evalkit", "import", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"FORMAT PATH" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("run", "--quite"),
            "evalkit run: no such option --quite; did you mean '--quiet'? try evalkit run --help",
        ),
        (
            ("plan", "--pilo", "3"),
            "evalkit plan: no such option --pilo; did you mean '--pilot'? try evalkit plan --help",
        ),
        (
            ("ui", "--prot", "3"),
            "evalkit ui: no such option --prot; did you mean '--port'? try evalkit ui --help",
        ),
        (
            ("run", "--dry-run"),
            "evalkit run: no such option --dry-run; evalkit plan shows what a run would",
        ),
        (("run", "-x"), "evalkit run: no such option -x; try evalkit run --help"),
    ],
)
def test_a_misspelt_option_is_told_by_the_right_one(call, words, said):
    assert call(*words, status=1).line().startswith(said)


def test_an_error_is_a_json_line_where_logs_are(call):
    line = json.loads(call("run", "--json-logs", "judge=nobody", status=1).err)
    assert (line["event"], "nobody" in line["text"]) == ("error", True)


@pytest.mark.parametrize("sweep", [False, True])
def test_output_names_the_folder_of_a_run_or_sweep(call, tmp_path, sweep):
    words = [
        *("run", "judge=simulated/good", "tracking=none", "store=off", "scoring.bootstrap=0"),
        "dataset.limit=2",
    ]
    call(*words, "--output", "it's here", "-q", *(["tie.threshold=0,0.5", "-m"] if sweep else []))
    assert (tmp_path / "it's here" / ("1/metrics.json" if sweep else "metrics.json")).is_file()


JUDGE = ("doctor", "judge=simulated/good", "dataset=quick")


def test_the_store_is_named_and_opened(call, tmp_path):
    assert (
        "off: every run pays for all its calls"
        in call(*JUDGE, "store.mode=off", "tracking=none").out
    )
    url = f"store.url={tmp_path}/answers.sqlite"
    assert "answers.sqlite (the first run creates it)" in call(*JUDGE, url, "tracking=none").out
    SqliteStore(tmp_path / "answers.sqlite").close()
    assert "(the first run creates it)" not in call(*JUDGE, url, "tracking=none").out
    (tmp_path / "answers.sqlite").write_bytes(b"not a database" * 100)
    assert "answers.sqlite" in call(*JUDGE, url, "tracking=none", status=1).out


def test_another_tracker_is_named(call):
    done = call(*JUDGE, "tracking.tracker=no_such_tracker", status=1)
    assert "no_such_tracker" in done.out + done.err


Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(call, monkeypatch):
    def ask(line: str) -> list[str]:
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        return call("-sc", "query=bash").out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("evalkit run judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit run swap=both judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit doctor judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit run experiments/first_look.yaml judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit run judge=gpt-4o,gpt-4o-", ["judge=gpt-4o,gpt-4o-mini"]),
        ("evalkit run judge=simulated/go", ["judge=simulated/good"]),
        ("evalkit run judge=nothing", []),
        ("evalkit run tie.thr", ["tie.threshold="]),
        ("evalkit run fir", ["first_look"]),
        ("evalkit pl", ["plan", "plugins"]),
        ("evalkit plan au", ["audit"]),
        ("evalkit plan audit judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit plan watch fir", ["first_look"]),
        ("evalkit sco", ["score"]),
        ("evalkit score out", []),
        ("evalkit batch w", ["write"]),
        ("evalkit batch write fir", ["first_look"]),
        ("evalkit batch read --req", ["--requests"]),
        ("evalkit store prune --old", ["--older-than"]),
    ],
)
def test_a_line_goes_on(line, offered, complete):
    assert complete(line) == offered


def test_every_command_is_offered(complete):
    assert {"run", "plan", "score", "track", "ui", "doctor", "init"} <= {*complete("evalkit ")}


def test_what_is_ones_own_is_offered(complete, tmp_path):
    (tmp_path / "conf" / "judge").mkdir(parents=True)
    (tmp_path / "conf" / "judge" / "gpt-mine.yaml").write_text("model: openai/mine\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mystudy.yaml").write_text("defaults: [config, _self_]\n")
    assert complete("evalkit run judge=gpt-m") == ["judge=gpt-mine"]
    assert complete("evalkit run mys") == ["mystudy"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell, call):
    assert "complete" in call("-sc", f"install={shell}").out


def test_names_of_formats_are_apart_from_their_texts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["import", "--help"])
    assert "  pydantic_evals  a pydantic-evals report" in capsys.readouterr().out
