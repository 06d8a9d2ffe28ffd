"""Pipes, devices and links where a file belongs: each door ends in one line, and no link leads out of a folder."""

import os
import re
import shutil
import signal
from contextlib import contextmanager

import pytest

import evalkit
from evalkit.cli import main
from evalkit.core.errors import ConfigError
from evalkit.core.regular_files import open_file, read_text
from evalkit.runs import layout
from tests.support.command_line import ROOT, run_once

PAIR = '{"id": "a", "prompt": "p", "response_a": "x", "response_b": "y", "label": "A"}\n'
JUDGED = "id,prompt,response_a,response_b,winner,label\na,p,x,y,A,A\nb,q,x,y,B,A\n"
QUICK = ("tracking=none", "scoring.bootstrap=20")
JUDGE = ("judge=simulated/good", "dataset.path=pairs.jsonl", *QUICK)
SECONDS = 60
"""Opening a pipe for reading never ends; everything else does, on a busy machine too."""


@contextmanager
def ending():
    """Fail if the block does not end."""

    def blocked(*_):
        raise AssertionError("it blocks")

    before = signal.signal(signal.SIGALRM, blocked)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    (folder / "pairs.jsonl").write_text(PAIR, "utf-8")
    (folder / "judged.csv").write_text(JUDGED, "utf-8")
    run_once(folder, "run", *JUDGE, "hydra.run.dir=run")
    run_once(folder, "watch", *JUDGE, "--output", "watched")
    run_once(folder, "check", "judged.csv", "--output", "checked")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, finished):
    shutil.copytree(finished, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("pipe", "pipe.csv", "pipe.json", "pipe.jsonl", "pipe.parquet", "pipe.yaml"):
        os.mkfifo(name)
    (tmp_path / "here" / "folder").mkdir()
    os.mkfifo("folder/pipe.csv")
    return tmp_path / "here"


DOORS = [
    *(["run", *JUDGE, f"dataset.path={name}"]
      for name in ("pipe.csv", "pipe.json", "pipe.jsonl", "pipe.parquet", "folder", "folder/*", "/dev/zero")),
    ["run", *JUDGE, "+dataset.join.m.path=pipe.csv", "+dataset.join.m.by=id"],
    ["run", *JUDGE, "rubric.examples_path=pipe.jsonl"],
    ["run", *JUDGE, "prompt.template=./pipe"],
    ["run", *JUDGE, "store.url=pipe"],
    ["run", *JUDGE, "gate.no_worse_than.run=pipe"],
    ["run", "pipe.yaml"], ["plan", "pipe.yaml"], ["audit", "pipe.yaml"], ["watch", "pipe.yaml"],
    ["check", "pipe.csv"], ["check", "pipe.json"], ["check", "folder"],
    ["check", "judged.csv", "--reading", "pipe"],
    ["import", "generic", "pipe.csv"], ["import", "mt_bench", "pipe.jsonl"],
    ["import", "inspect", "pipe.json"],
    ["batch", "read", "pipe.jsonl"], ["store", "import", "pipe"], ["store", "stats", "store.url=pipe"],
    ["label", "run", "pipe.csv"], ["drift", "run", "run", "--labels", "pipe.csv"],
    ["align", "run", "tune=criteria", "align.criteria=pipe"],
]  # fmt: skip


@pytest.mark.parametrize("words", DOORS, ids=" ".join)
def test_a_pipe_or_a_device_is_one_line(here, capsys, words):
    with ending():
        assert main(words) == 1
    out = capsys.readouterr()
    assert len(out.err.splitlines()) == 1, out.err
    assert "Traceback" not in out.err


def test_options_that_are_pipes_are_not_read(here, capsys):
    for name in ("conf/judge", "experiments"):
        (here / name).mkdir(parents=True)
        os.mkfifo(here / name / "piped.yaml")
    for words in (["run", "judge=piped"], ["run", "experiments/piped.yaml"], ["run", "piped"]):
        with ending():
            assert main(words) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
    with ending():
        assert main(["plan", *JUDGE]) == 0


@pytest.mark.parametrize("name", [*layout.FILES, layout.PROMPTS, layout.LABEL_SAMPLE, layout.SPLIT])
def test_a_pipe_in_a_run_folder_blocks_no_command(here, capsys, name):
    (here / "run" / name).unlink(missing_ok=True)
    os.mkfifo(here / "run" / name)
    for words in (["score", "run", "scoring.seed=3"], ["check", "run"], ["label", "run", "--next", "1"]):  # fmt: skip
        with ending():
            status = main(words)
        err = capsys.readouterr().err
        assert "Traceback" not in err
        assert name not in layout.FILES or (status, len(err.splitlines())) == (1, 1), err


def test_a_pipe_in_the_folder_of_a_judge_or_a_watch_is_one_line(here, capsys):
    (here / "run" / "config.yaml").rename(here / "kept.yaml")
    os.mkfifo(here / "run" / "config.yaml")
    with ending(), pytest.raises(ConfigError, match=r"config\.yaml: the file is missing"):
        evalkit.load_judge(here / "run")
    (here / "watched" / "watch.json").unlink()
    os.mkfifo(here / "watched" / "watch.json")
    with ending():
        assert main(["watch", *JUDGE, "--output", "watched"]) == 1
    assert "a pipe or a device, not a file" in capsys.readouterr().err


def test_a_folder_is_no_file_and_a_file_is_read_whole(tmp_path):
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)
    (tmp_path / "text").write_bytes("é\r\nb".encode())
    assert read_text(tmp_path / "text") == "é\nb"


SHIPPED = {
    "interop/tables/words.py", "judges/pricing.py", "config/run_config.py", "config/shipped_options.py",
    "report/page.py", "report/texts.py", "cli/parser.py", "cli/project.py", "cli/completion.py", "cli/docs.py",
    "scoring/catalog/__init__.py", "scoring/catalog/removed.py", "guard/rules.py",
    "guard/environment.py", "guard/installed.py", "core/prepared_files.py",
}  # fmt: skip
"""Modules that open files of the package itself."""
OWN = {
    "judges/simulated_transport.py",  # a shipped table
    "judges/batch_api.py",  # a file that the same process wrote
    "engine/workers/slurm_pool.py",  # files of its own workers
    "benchmarks/alpaca_eval.py",  # after is_file()
    "workflows/gating.py",  # GitHub's file of summaries
    "labels/session.py",  # opened for writing, without following links
    "tracking/parent_runs.py",  # the leaderboard that the sweep wrote
    "tracking/new_tables.py",  # MLflow's own migrations, where it is installed
}
_OPENS = re.compile(
    r"\.open\((\"rb\"|\"r\"|encoding|newline)|(?<![\w.])open\(|\.read_text\(|\.read_bytes\("
)


def test_files_of_users_are_opened_in_one_place():
    """Opens elsewhere must be of files that nobody else can have replaced by a pipe."""
    package = ROOT / "evalkit"
    opening = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if _OPENS.search(re.sub(r"def \w+\(", "", file.read_text("utf-8")))
    }
    assert opening - SHIPPED - OWN == {"core/atomic_files.py"}


def test_no_link_leads_out_of_a_folder(here, tmp_path, capsys):
    """The folder of a run or a watch may be from elsewhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.svg").write_text("mine", "utf-8")
    shutil.rmtree(here / "run" / layout.FIGURES, ignore_errors=True)
    (here / "run" / layout.FIGURES).symlink_to(outside)
    main(["score", "run", "scoring.seed=3"])
    shutil.rmtree(here / "watched" / "looks")
    (here / "watched" / "looks").symlink_to(outside)
    capsys.readouterr()
    assert main(["watch", *JUDGE, "--output", "watched"]) == 1
    assert "a link to another folder" in capsys.readouterr().err
    assert [file.name for file in outside.iterdir()] == ["mine.svg"]


@pytest.mark.parametrize("words", [[], ["--overwrite"]], ids=["", "--overwrite"])
def test_a_table_is_not_checked_into_a_folder_with_other_files(here, capsys, words):
    (here / "mine").mkdir()
    (here / "mine" / "notes.txt").write_text("mine", "utf-8")
    for command in (["check", "judged.csv"], ["import", "generic", "judged.csv"]):
        assert main([*command, "--output", "mine", *words]) == 1
        assert "mine: has other files (notes.txt)" in capsys.readouterr().err
    assert [file.name for file in (here / "mine").iterdir()] == ["notes.txt"]
    for _ in range(2):
        assert main(["check", "judged.csv", "--output", "new", *words]) == 0


def test_a_run_replaces_no_report_of_another_tool(here, capsys):
    (here / "mine").mkdir()
    (here / "mine" / "report.html").write_text("mine", "utf-8")
    assert main(["run", *JUDGE, "hydra.run.dir=mine"]) == 1
    assert "contains report.html, which the run would replace" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["1e9", "1000000000", "inf", "nan", "-1", "2.5", "1e400"])
def test_a_number_of_resamples_out_of_bounds_is_one_line(here, capsys, value):
    for words in (["score", "run", f"scoring.bootstrap={value}"],
                  ["compare", "run", "checked", f"bootstrap={value}"],
                  ["check", "judged.csv", f"scoring.bootstrap={value}"]):  # fmt: skip
        assert main(words) == 1, words
        err = capsys.readouterr().err
        assert len(err.splitlines()) == 1, err
