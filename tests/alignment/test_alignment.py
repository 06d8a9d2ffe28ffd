"""A better judge, proved on labels that did not choose it, or none."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from evalkit.alignment.alignment import align
from evalkit.alignment.proof import Labels, difference_of
from evalkit.config.align import AlignConfig
from evalkit.core.types import Metric
from evalkit.runs import read_run
from evalkit.workflows.holdout import read_split, split_cases, split_files
from tests.alignment.conftest import pair, passes, write
from tests.alignment.test_search import PANEL, panel_side, right_votes
from tests.support.command_line import call_main
from tests.support.thorough import some_of

pytestmark = pytest.mark.usefixtures("here")


def hold_out(folder: Path) -> None:
    """Hold out the labels of a run in a folder, as `dataset.holdout` does."""
    from evalkit.core.splits import without_labels

    result = read_run(folder)
    split = split_cases(result.config, result.cases, share=0.3, seed=0, held_out=True)
    test = split.ids("test")
    held = [case for case in result.cases if case.id in test]
    cases = [without_labels(case) if case.id in test else case for case in result.cases]
    write(folder, cases, list(result.judgments), dataset={"path": "pairs.jsonl", "holdout": 0.3})
    for name, text in split_files(split, held).items():
        (folder / name).write_text(text)


def test_a_threshold_is_found_and_proved(ties, capfd):
    ties()
    done = call_main(capfd, "align", "run", "tune=[threshold]")
    assert "Better on test labels that did not choose the settings." in done.out
    assert "written: conf/method/aligned.yaml; use it with method=aligned" in done.out
    assert "Test labels opened once." in done.out
    assert "reports of this run have shown you all labels" in done.err
    preset = Path("conf/method/aligned.yaml").read_text()
    assert preset.startswith("# @package _global_\n# From `evalkit align`: agreement/kappa +")
    threshold = yaml.safe_load(preset)["tie"]["threshold"]
    assert threshold == pytest.approx(0.4, abs=0.06)
    [found] = json.loads(Path("run/alignments.json").read_text())["alignments"]
    assert found["outcome"] == "improved"
    assert found["chosen"] == {"tie.threshold": threshold}
    assert found["test"]["after"]["value"] > 0.9 > found["test"]["before"]["value"]
    assert found["test"]["difference"]["n"] == 36
    assert found["test"]["p"] < 0.05
    composed = call_main(capfd, "run", "method=aligned", "--cfg", "job").out
    assert yaml.safe_load(composed)["tie"]["threshold"] == threshold


def test_each_opening_is_counted_and_no_file_is_replaced(ties, capfd):
    ties()
    for times, name in (("once", "aligned"), ("2 times", "aligned-2")):
        out = call_main(capfd, "align", "run", "tune=[threshold]").out
        assert f"Test labels opened {times}." in out
        assert f"written: conf/method/{name}.yaml" in out
        note = f"test labels opened {times} by evalkit align"
        manifest = json.loads(Path("run/manifest.json").read_text())
        assert [one for one in manifest["notes"] if "opened" in one] == [note]
        assert note in Path("run/report.html").read_text()
    assert manifest["test_labels_opened"] == 2
    split = read_split(Path("run"))
    assert len(split.opened) == 2
    assert len(json.loads(Path("run/alignments.json").read_text())["alignments"]) == 2
    call_main(capfd, "score", "run", "tie.threshold=0.1")
    assert "test labels opened 2 times by evalkit align" in Path("run/report.html").read_text()


def test_held_out_labels_prove_the_same_and_stay_out_of_the_report(ties, capfd):
    settings = AlignConfig(tune=("threshold",))
    ties("open")
    ties("held")
    hold_out(Path("held"))
    found = {name: align(read_run(Path(name)), Path(name), settings) for name in ("open", "held")}
    one, two = found["open"], found["held"]
    assert (one.settings, one.dev, one.test) == (two.settings, two.dev, two.test)
    assert two.split.held_out
    run = read_run(Path("held"))
    assert run.metrics["agreement/accuracy"].n == 84
    assert not {case.id for case in run.cases if case.label} & two.split.ids("test")
    assert "reports of this run" not in call_main(capfd, "align", "held", "tune=threshold").err
    Path("held/holdout.jsonl").unlink()
    assert "holdout.jsonl: cannot be read" in call_main(capfd, "align", "held", status=1).line()


def test_labels_of_noise_keep_the_judge(ties, capfd):
    ties(noise=True)
    out = call_main(capfd, "align", "run").out
    assert "no gain that these labels can show" in out.lower()
    assert "The judge is unchanged" in out
    assert not Path("conf").exists()
    outcomes = set()
    for seed in range(2, 4):
        folder = ties(f"noise-{seed}", noise=True, seed=seed)
        outcomes.add(align(read_run(folder), folder, AlignConfig()).outcome)
    assert "unproved" in outcomes <= {"none", "unproved"}
    assert not Path("conf").exists()


def test_no_gain_would_have_been_found_that_the_plan_says_cannot_be_proved(ties):
    found = []
    for seed in range(3):
        folder = ties(f"few-{seed}", noise=True, seed=seed, n=24)
        labels = Labels.of(read_run(folder), folder, AlignConfig())
        proof = align(labels.result, folder, AlignConfig()).test
        if proof is not None and proof.difference.detectable is not None:
            least = labels.provable()
            assert least is not None
            assert proof.difference.detectable >= least > 0.8
            found.append(proof.difference.detectable)
    assert found


def test_test_labels_stay_closed_if_nothing_is_better_on_dev(capfd):
    cases = [pair(k, "AB"[k % 2]) for k in range(40)]
    judgments = [one for k in range(40) for one in passes(k, (1.0, -1.0)[k % 2])]
    write(Path("run"), cases, judgments)
    out = call_main(capfd, "align", "run", "tune=[threshold]").out
    assert "the test labels stay closed" in out
    assert json.loads(Path("run/split.json").read_text())["opened"] == []
    out = call_main(capfd, "align", "run", "tune=[threshold]", "align.goal=rates_corrected").out
    assert "The run's own settings reach the goal on dev." in out
    assert "(run, 1 combination of settings)" in out
    write(Path("zh"), cases, judgments, prompt={"language": "zh"})
    said = call_main(capfd, "align", "zh", "tune=[threshold]", "align.goal=rates_corrected").out
    assert "• 运行自身的设置在 dev 上已达到目标。没有任何改动，测试标签未被打开。" in said
    assert re.search(r"• 没有调用，\$0；\d+\.\d 秒。", said)


def test_a_goal_ends_the_search(ties, capfd):
    cases, judgments = [], []
    for k in range(120):
        sign = 1.0 if k % 2 else -1.0
        cases.append(pair(k, "A" if k % 2 else "B"))
        judgments += passes(k, -sign, accuracy=sign, tone=-sign)
    write(Path("run"), cases, judgments)
    settings = AlignConfig(tune=("threshold", "weights"), goal="rates_corrected")
    found = align(read_run(Path("run")), Path("run"), settings)
    assert (found.outcome, found.tried) == ("improved", 3)
    assert [*found.settings] == ["scoring.weights"]
    assert [one.use for one in found.test.decisions] == ["none", "single"]  # type: ignore[union-attr]
    assert align(read_run(Path("run")), Path("run"), replace_goal(settings)).tried == 4


@pytest.mark.thorough
def test_a_vote_by_a_model_is_fitted_on_each_side_without_its_labels(capfd):
    side = panel_side(2, 400, (0.95, 0.3, 0.3), labeled=300)
    write(Path("run"), side.cases, side.judgments, judge=PANEL)
    result, settings = read_run(Path("run")), AlignConfig(tune=("vote",))
    labels = Labels.of(result, Path("run"), settings)
    found = align(result, Path("run"), settings)
    assert (found.outcome, found.settings) == ("improved", {"judge.vote": "dawid_skene"})
    assert found.dev is not None
    assert found.test is not None
    for name, proof in (("dev", found.dev), ("test", found.test)):
        own = labels.side(name)
        assert len(own.cases) > proof.before.n
        shares = [decision.share.value for decision in proof.decisions]  # type: ignore[union-attr]
        expected = [right_votes(own, how) for how in ("majority", "dawid_skene")]
        assert shares == pytest.approx(expected)
        assert proof.gain.name == "agreement/kappa"
    test = found.split.ids("test")
    reversed_ = [
        replace(one, value=-(one.value or 0.0)) if one.case_id in test else one
        for one in side.judgments
    ]
    write(Path("other"), side.cases, reversed_, judge=PANEL)
    other = align(read_run(Path("other")), Path("other"), settings)
    assert (other.dev, other.settings) == (found.dev, found.settings), (
        "answers of test have no part in the choice"
    )


@pytest.mark.parametrize("seed", some_of(range(6), 3))
def test_fewer_ties_of_a_coin_are_no_improvement(seed):
    generator = np.random.default_rng(seed)
    labels = generator.choice(["A", "B"], 120).tolist()
    cases = [pair(k, label) for k, label in enumerate(labels)]
    margins = np.where(generator.random(120) < 0.5, 0.02, 1.0) * generator.choice([-1, 1], 120)
    judgments = [one for k, margin in enumerate(margins.tolist()) for one in passes(k, margin)]
    write(Path("run"), cases, judgments, tie={"threshold": 0.05})
    found = align(read_run(Path("run")), Path("run"), AlignConfig(tune=("threshold",)))
    assert found.outcome in ("none", "unproved")
    assert found.metric == "agreement/kappa"


def test_test_labels_of_one_class_stay_closed(ties):
    folder = ties()
    result = read_run(folder)
    test = Labels.of(result, folder, AlignConfig()).split.ids("test")
    cases = [replace(case, label="A") if case.id in test else case for case in result.cases]
    write(folder, cases, list(result.judgments))
    labels = Labels.of(read_run(folder), folder, AlignConfig())
    assert labels.provable() is None
    found = align(labels.result, folder, AlignConfig(tune=("threshold",)))
    assert (found.outcome, found.test, found.split.opened) == ("unproved", None, ())


@pytest.mark.thorough
def test_labels_of_noise_keep_the_vote(capfd):
    outcomes = []
    for seed in range(4):
        side = panel_side(seed, 150, (0.95, 0.3, 0.3), labeled=150)
        noise = np.random.default_rng(seed).choice(["A", "B", "TIE"], 150).tolist()
        cases = [replace(case, label=label) for case, label in zip(side.cases, noise, strict=True)]
        write(Path(f"run-{seed}"), cases, side.judgments, judge=PANEL)
        outcomes.append(
            align(
                read_run(Path(f"run-{seed}")), Path(f"run-{seed}"), AlignConfig(tune=("vote",))
            ).outcome
        )
    assert set(outcomes) == {"none", "unproved"}


def replace_goal(settings: AlignConfig) -> AlignConfig:
    return settings.with_({"goal": None})


def test_optimism_is_the_difference_of_two_gains():
    dev, test = Metric("dev", 0.2, 0.1, 0.3, 40), Metric("test", 0.05, -0.1, 0.15, 30)
    found = difference_of(dev, test)
    assert (found.value, found.n) == (pytest.approx(0.15), 30)
    assert found.low == pytest.approx(0.15 - np.hypot(0.1, 0.1))
    assert found.high == pytest.approx(0.15 + np.hypot(0.1, 0.15))
    assert difference_of(dev, replace(test, low=None, high=None)).low is None


def test_a_plan_says_what_the_labels_can_prove(ties, capfd):
    ties()
    ties("small", 12)
    before = sorted(path.name for path in Path("run").iterdir())
    out = call_main(capfd, "plan", "align", "run", "tune=[threshold,vote]").out
    assert "labeled cases: train 42, dev 42, test 36" in out
    assert "to tune: threshold; no calls, $0" in out
    assert "note: vote cannot be tuned: there is one judge" in out
    assert (
        "smallest gain in agreement/kappa that these labels can prove, with a probability of 0.8: 0.295"
        in out
    )
    assert sorted(path.name for path in Path("run").iterdir()) == before
    assert "can prove no gain" in call_main(capfd, "plan", "align", "small", "tune=threshold").out
    ties("few", 24)
    out = call_main(capfd, "plan", "align", "few", "tune=threshold").out
    assert re.search(
        r"The judge has [\d.]+ \[[\d.]+, [\d.]+\] now, so these labels can prove no gain", out
    )


@pytest.mark.parametrize(("words", "message"), [
    (["run", "tune=[vote]"],
     "tune: nothing can be tuned (vote: there is one judge); choose other settings"),
    (["run", "tune=[thresholds]"],
     "tune.0: input should be 'threshold', 'weights', 'combine', 'vote', 'examples', 'prompt' or "),
    (["run", "tune=[]"], "tune: "),
    (["run", "align.goals=rates"],
     "align.goals: is not a setting of align; did you mean 'align.goal'?"),
    (["run", "align.name=../x"], "align.name: "),
    (["run", "tie.threshold=0.1"], "tie.threshold: is not a setting of align"),
    (["nowhere"], "no such folder"),
    (["tune=threshold"], "needs a run folder before the overrides"),
])  # fmt: skip
def test_a_wrong_command_is_one_line(ties, words, message, capfd):
    if "[vote]" in words[-1]:
        ties()
    assert message in call_main(capfd, "align", *words, status=1).line()
    if words[0] == "run":
        assert message in call_main(capfd, "plan", "align", *words, status=1).line()


def test_a_split_whose_sides_do_not_have_each_case_once_is_refused(ties, capfd):
    ties()
    call_main(capfd, "align", "run", "tune=threshold")
    path = Path("run/split.json")
    split = json.loads(path.read_text())
    before = sorted(Path().rglob("*"))
    for side, other in (("test", "dev"), ("train", "dev"), ("dev", "none")):
        damaged = json.dumps(split | {side: split.get(other, ["none"])})
        path.write_text(damaged)
        for command in (["align"], ["plan", "align"]):
            said = call_main(capfd, *command, "run", "tune=threshold", status=1).line()
            assert said == "run/split.json: its sides do not have each case once; restore the file"
        assert path.read_text() == damaged
    assert sorted(Path().rglob("*")) == before


def test_runs_that_cannot_be_aligned_are_refused(ties, capfd):
    write(
        Path("bare"),
        [pair(k, None) for k in range(9)],
        [one for k in range(9) for one in passes(k, 1.0)],
    )
    assert (
        "need a labeled case each, and there are 0"
        in call_main(capfd, "align", "bare", status=1).line()
    )
    ties()
    align(read_run(Path("run")), Path("run"), AlignConfig(tune=("threshold",)))
    ties("other", seed=1, n=100)
    Path("other/split.json").write_text(Path("run/split.json").read_text())
    assert "is the split of other cases" in call_main(capfd, "align", "other", status=1).line()
    assert "needs a run folder" in call_main(capfd, "plan", "align", status=1).line()
