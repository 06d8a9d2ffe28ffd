"""What is on the screen after a run and a sweep: short, and with what changes what one does."""

import json

SWEEP = (
    *("-m", "judge=simulated/good,simulated/length_biased", "swap=both,none"),
    *("tie.threshold=0,0.3", "dataset=sample", "tracking=none", "scoring.bootstrap=50"),
    "hydra.sweep.dir=sweep",
)


def test_a_run_fits_on_a_screen(call, here):
    run = ("run", "judge=simulated/position_biased", "dataset=sample", "tracking=none")
    lines = call(*run, "hydra.run.dir=one").out.strip().splitlines()
    assert len(lines) <= 20
    assert lines[0].startswith("pairwise · simulated_position_biased")
    assert lines[-1].startswith("report: one/report.html")
    marks = [line.split()[0] for line in lines if line.startswith("  ")]
    assert marks.count("✓") == marks.count("•") == 0
    verbose = call(*run, "hydra.run.dir=two", "-v").out.strip().splitlines()
    assert len(verbose) > len(lines)


def test_a_sweep_has_a_line_for_each_job_and_folds_twins(call, here):
    out = call("run", *SWEEP).out
    lines = out.strip().splitlines()
    assert len(lines) <= 40
    jobs = [line for line in lines if line.startswith("job ")]
    assert [line.split()[1] for line in jobs] == [str(job) for job in range(8)]
    assert all("tie.threshold=" in line and " calls, " in line for line in jobs)
    assert "tie.threshold 0 and 0.3: no difference." in lines
    biased = "With judge=simulated/length_biased, swap both and none: no difference."
    assert biased in lines
    assert not any(line.startswith("swap both and none") for line in lines)
    table = out.partition("Leaderboard of 8 jobs")[2].partition("no difference")[0]
    assert "tie.threshold=" not in table
    board = json.loads((here / "sweep" / "leaderboard.json").read_text("utf-8"))
    assert len(board["rows"]) == 8
    assert all(len(row["twins"]) >= 2 for row in board["rows"])
    sentence = lines[-1]
    assert "of 3 others" in sentence or "others" not in sentence
    page = (here / "sweep" / "report.html").read_text("utf-8")
    assert "tie.threshold 0 and 0.3: no difference." in page
    [choice] = board["choices"]
    assert len(choice["text"].split()) <= 40


def test_a_sweep_of_one_job_says_where_its_report_is(call, here):
    words = ("-m", "judge=simulated/good", "dataset=quick", "tracking=none")
    lines = call("run", *words, "hydra.sweep.dir=sweep").out.strip().splitlines()
    assert [line.split()[0] for line in lines] == ["job", "report:"]
    assert (here / lines[1].partition(" ")[2]).is_file()
