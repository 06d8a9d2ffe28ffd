"""What twelve jobs print in English and Chinese: how many lines, the first one and the last one."""

import shutil

import pytest

from tests.support.command_line import call_main, run_once

FAST = ("tracking=none", "scoring.bootstrap=50")
GOOD = ("judge=simulated/good", "dataset=quick")
TABLE = "id,verdict,label\n1,A,A\n2,B,B\n3,A,B\n4,B,B\n5,A,A\n6,A,B\n"
LABELS = "id,annotator,label\naustralia-capital,ann,A\nmountain-boiling,ann,B\n"
HEADING = "pairwise · simulated_good · evalkit:quick (12 "
SWEEP = ("judge=simulated/good,simulated/length_biased", "dataset.limit=6")
PANEL = "judge.judges=[{model: simulated/good},{model: simulated/noisy}]"
GATE = "gate={tie_rate: {value: '<= 1'}}"
TWINS = "tie.threshold=0,0.3"
JOBS = {
    # the words, the most lines on standard output, then the first and the last line by language
    "run": (
        ("run", *FAST, *GOOD, "hydra.run.dir=new"),
        20,
        {"en": (HEADING, "report: new/report.html"), "zh": (HEADING, "报告：new/report.html")},
    ),
    # A panel and a gate take the room of findings, metrics and notes.
    "panel": (
        ("run", *FAST, "dataset=quick", PANEL, GATE, "hydra.run.dir=panel"),
        20,
        {"en": ("pairwise · panel · ", "gate: 1 rule passed")},
    ),
    "sweep": (
        ("run", "-m", *FAST, "dataset=quick", *SWEEP, TWINS, "hydra.sweep.dir=sweep"),
        40,
        {"en": ("job 0  ", ("! ", "✗ ")), "zh": ("作业 0  ", ("! ", "✗ "))},
    ),
    "audit": (
        ("audit", *FAST, *GOOD, "probe=[padding]", "hydra.run.dir=audit"),
        26,
        {"en": (HEADING, "datasheet: audit/"), "zh": (HEADING, "数据表：audit/")},
    ),
    "check a table": (
        ("check", "table.csv", "--output", "checked"),
        20,
        {
            "en": ("Label more responses before you decide", "report: checked/"),
            "zh": ("请先标注更多回答再做决定", "报告：checked/"),
        },
    ),
    "check a run": (
        ("check", "one"),
        20,
        {
            "en": (("Label about", "Trust"), "report: one/"),
            "zh": (("请先标注", "只能信任"), "报告：one/"),
        },
    ),
    "score": (
        ("score", "one", "scoring.bootstrap=60"),
        20,
        {"en": (HEADING, "report: one/report.html"), "zh": (HEADING, "报告：one/report.html")},
    ),
    "label": (
        ("label", "one", "labels.csv"),
        26,
        {"en": (HEADING, "labels: 2 by 1 annotator"), "zh": (HEADING, "标注：1 名标注者的 2 个")},
    ),
    # Not about one run or sweep: in English only.
    "plan": (("plan", *FAST, *GOOD), 5, {"en": ("job ", "--pilot 20 ")}),
    "compare": (
        ("compare", "one", "two"),
        30,
        {"en": ("simulated_good · simulated_position_biased (12 shared cases)", "written: ")},
    ),
    "export": (("export", "one", "--to", "csv"), 1, {"en": ("24 judgments of 12", "24 ")}),
    "reproduce": (("reproduce", "one"), 6, {"en": (HEADING[:-4], "  • Checked from")}),
    "init": (("init", "project"), 12, {"en": ("  project/README.md", "To try evalkit without")}),
}
LANGUAGES = [(job, language) for job, (_, _, ends) in JOBS.items() for language in ends]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with two runs, a table and labels, which each test copies."""
    folder = tmp_path_factory.mktemp("finished")
    run_once(folder, "run", *FAST, *GOOD, "hydra.run.dir=one")
    biased = "judge=simulated/position_biased"
    run_once(folder, "run", *FAST, biased, "dataset=quick", "hydra.run.dir=two")
    (folder / "table.csv").write_text(TABLE)
    (folder / "labels.csv").write_text(LABELS)
    return folder


@pytest.mark.parametrize(("job", "language"), LANGUAGES)
def test_a_job_prints_few_lines_in_the_chosen_language(
    job, language, finished, tmp_path, monkeypatch, capfd
):
    words, most, ends = JOBS[job]
    folder = tmp_path / "work"
    shutil.copytree(finished, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EVALKIT_LANGUAGE", language)
    done = call_main(capfd, *words)
    lines = done.out.strip("\n").splitlines()
    first, last = ends[language]
    assert len(lines) <= most, done.out
    assert lines[0].startswith(first)
    assert lines[-1].startswith(last)
    assert ("were written to" in done.out or "文本已写入" in done.out) == (job == "check a table")
    # On standard error are at most the progress and notes.
    assert len(done.err.splitlines()) <= 8, done.err


@pytest.mark.parametrize(
    ("chosen", "line"),
    [("", "调用：计划 12，"), ("zh", "调用：计划 12，"), ("en", "calls: 12 planned, ")],
)
def test_the_language_is_that_of_the_prompt_unless_the_environment_chooses_one(
    chosen, line, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_LANGUAGE", chosen)
    words = ("prompt=zh", "criteria=general_zh", "swap=none", "hydra.run.dir=new")
    out = call_main(capfd, "run", *FAST, *GOOD, *words).out
    assert any(text.startswith(line) for text in out.splitlines())


def test_a_language_that_the_terminal_does_not_have_is_refused_before_any_call(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_LANGUAGE", "fr")
    done = call_main(capfd, "run", *FAST, *GOOD, "hydra.run.dir=new", status=1)
    remedy = "'fr' is not a language of the terminal; choose from en, zh"
    assert done.line() == f"EVALKIT_LANGUAGE: {remedy}"
    assert not (tmp_path / "new").exists()
