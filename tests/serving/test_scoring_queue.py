"""Questions that are scored in one pass get the verdicts that each gets alone."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest

import evalkit
from evalkit.core.errors import ConfigError
from evalkit.scoring.pipeline import verdicts_of
from evalkit.serving.scoring_queue import ScoringQueue

PAIR = {"response_a": "a b c", "response_b": "a b c d e f"}
SINGLE = {"response": "a b c"}
TWO = {"responses": ["a b c", "a b c d e f"]}
QUESTIONS = 8
PANEL = [
    "judge=panel",
    "judge.judges=[{model:simulated/good,name:one},{model:simulated/position_biased,name:two}]",
]


def judged(folder, overrides, fields):
    """Return the config of a run, and each of its cases with its judgments, all of one id."""
    words = ["judge=simulated/good", "tracking=none", "scoring.bootstrap=20", *overrides]
    rows = [{"id": str(n), "prompt": f"Write {n}", **fields} for n in range(QUESTIONS)]
    run = evalkit.run(evalkit.load_config(overrides=words), folder / "run", cases=rows)
    questions = []
    for case in run.cases:
        judgments = [
            replace(judgment, case_id="any")
            for judgment in run.judgments
            if judgment.case_id == case.id
        ]
        questions.append((replace(case, id="any"), judgments))
    return run.config, questions


async def scored(config, questions):
    """Return the verdicts on questions that end at once, and the number of cases of each pass."""
    queue = ScoringQueue(config)
    with patch("evalkit.serving.scoring_queue.verdicts_of", wraps=verdicts_of) as passes:
        verdicts = await asyncio.gather(
            *(queue.verdicts([case], judgments) for case, judgments in questions),
            return_exceptions=True,
        )
    return verdicts, [len(call.args[1]) for call in passes.call_args_list]


@pytest.mark.parametrize(
    ("overrides", "fields", "at_once"),
    [
        ([], PAIR, True),
        (["swap=none", "tie.threshold=0.3", "mode.samples=2"], PAIR, True),
        (["mode=pointwise"], SINGLE, True),
        (["mode=pointwise", "scoring.normalize=zscore", "mode.samples=3"], TWO, True),
        (["mode=pointwise", "rubric=pass_fail", "mode.samples=2"], SINGLE, True),
        (["tie.allow=false"], PAIR, False),  # a coin depends on the id
        (["mode=pointwise", "scoring.length_control=true"], TWO, False),
        (["mode=listwise"], TWO, False),
        (PANEL, PAIR, False),
    ],
)
async def test_each_question_gets_the_verdict_that_it_gets_alone(here, overrides, fields, at_once):
    config, questions = judged(here, overrides, fields)
    # Answers of other forms: without criteria, and one that failed.
    case, judgments = questions[0]
    questions[0] = case, [replace(judgment, criteria={}) for judgment in judgments]
    case, (first, *others) = questions[1]
    failed = replace(first, status="failed", value=None, class_name=None, criteria={})
    questions[1] = case, [failed, *others]
    alone = [[*verdicts_of(config, [case], judgments)] for case, judgments in questions]
    verdicts, passes = await scored(config, questions)
    assert [[*each] for each in verdicts] == alone
    assert (max(passes) > QUESTIONS / 2) is at_once, passes


async def test_a_question_that_cannot_be_scored_fails_alone(here):
    config, questions = judged(here, ["mode=pointwise", "rubric=pass_fail"], SINGLE)
    case, judgments = questions[3]
    questions[3] = case, [replace(judgment, class_name="unknown") for judgment in judgments]
    verdicts, _ = await scored(config, questions)
    ends = Counter(type(each) is ConfigError for each in verdicts)
    assert (type(verdicts[3]), ends[True]) == (ConfigError, 1)


async def test_small_questions_are_scored_in_the_event_loop_and_do_not_wait_for_large_ones(here):
    config, questions = judged(here, [], PAIR)
    (case, judgments), *small = questions
    large = replace(case, prompt="Write a line. " * 2000)
    computing, over = threading.Event(), threading.Event()

    def slow(settings, cases, answers):
        if threading.current_thread() is not threading.main_thread():
            computing.set()
            over.wait()
        return verdicts_of(settings, cases, answers)

    queue = ScoringQueue(config)
    with patch("evalkit.serving.scoring_queue.verdicts_of", slow):
        waits = asyncio.create_task(queue.verdicts([large], judgments))
        await asyncio.to_thread(computing.wait)
        done = await asyncio.gather(*(queue.verdicts([case], given) for case, given in small))
        assert (len(done), waits.done()) == (len(small), False)
        over.set()
        await waits


async def test_a_pass_in_the_event_loop_is_short(here):
    config, questions = judged(here, [], PAIR)
    _, passes = await scored(config, questions * 20)
    assert max(passes) == 64
    assert sum(passes) == len(questions) * 20
