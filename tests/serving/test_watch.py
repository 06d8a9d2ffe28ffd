"""`evalkit watch`: looks at a judge whose model changes behind its name, and looks that are cut."""

import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest

from evalkit.core.claims import claim_folder
from evalkit.engine.event_loop import interrupt
from evalkit.runs import read_run
from evalkit.serving.folder import write_judge
from evalkit.serving.watch import read_watch
from tests.support.command_line import BRIEF, Done, fake, pair, shown
from tests.support.fake_provider import Provider, Reply, refused, said
from tests.support.thorough import some_of

Call = Callable[..., Done]
CASES = 24
BOTH = 2 * CASES
"""The requests of a look: each pair in both orders."""
FEW = "dataset.limit=4"
"""What is enough where no change is to be found."""


class Model:
    """What answers behind a name: good responses win, except in the cases that are flipped."""

    def __init__(self) -> None:
        self.name, self.fingerprint = "fake-2026-01", "fp_1"
        self.flipped: set[int] = set()

    def __call__(self, body: dict[str, Any]) -> Reply:
        first = shown(body)[0]
        number = int(
            re.findall(r"\d+", body["messages"][-1]["content"].partition("Question ")[2])[0]
        )
        winner = "A" if first.startswith("good") != (number in self.flipped) else "B"
        reply = said(f"[[{winner}]]")
        reply.body |= {"model": self.name, "system_fingerprint": self.fingerprint}
        return reply


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def study(provider, model, tmp_path):
    """The words of a study of 24 labeled pairs."""
    provider.rule = model
    rows = [
        {**pair(number), "id": f"c{number}", "prompt": f"Question {number}?"}
        for number in range(CASES)
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    data = [
        *("dataset=file", "dataset.path=data.jsonl", "output=bracket", "store.url=answers.db"),
        "runner.retries=1",
    ]
    return [*fake(provider), "judge.transport=direct", *data, *BRIEF]


@pytest.fixture
def watched(finished, call, study, provider):
    """The words of the study, of which `seen` has two looks."""
    finished("looks", lambda: [look(call, study) for _ in range(2)])
    provider.requests.clear()
    return study


def look(call: Call, study: list[str], *more: str, status: int = 0) -> dict[str, Any]:
    done = call("watch", *study, "--output", "seen", "--json", *more, status=status)
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_a_model_that_changes_behind_its_name(call, study, model, provider):
    for number, state in ((1, "baseline"), (2, "baseline"), (3, "same")):
        found = look(call, study)
        assert (found["state"], len(found["looks"]), found["changed_at"]) == (state, number, None)
        assert len(provider.requests) == number * BOTH
    model.flipped, model.name, model.fingerprint = set(range(8)), "fake-2026-11", "fp_2"
    found = look(call, study, status=4)
    assert (found["state"], found["changed_at"]) == ("changed", 4)
    assert found["findings"][0].startswith("The judge has changed: look 4 shows")
    assert (
        "another model for fake since look 4: fake-2026-11 instead of fake-2026-01."
        in found["findings"][-2]
    )
    assert (
        "another fingerprint for fake since look 4: fp_2 instead of fp_1." in found["findings"][-1]
    )
    last = found["looks"][-1]
    assert last["facts"]["flips"]["value"] == pytest.approx(8 / CASES)
    assert last["facts"]["excess"]["low"] > 0 == last["facts"]["noise"]["value"]
    assert last["facts"]["change"]["value"] == pytest.approx(-8 / CASES)
    assert (last["models"], last["fingerprints"]) == (
        {"fake": ["fake-2026-11"]},
        {"fake": ["fp_2"]},
    )
    model.flipped = set()
    assert look(call, study, status=4)["changed_at"] == 4, (
        "it stays until the baseline is a new one"
    )
    found = look(call, study, "--reset")
    assert (found["state"], [one["number"] for one in found["looks"]]) == ("baseline", [6])
    assert len(read_watch(Path("seen"))) == 2
    page = Path("seen/watch.html").read_text("utf-8")
    assert (page.count(">earlier baseline<"), page.count(">baseline<")) == (5, 1)
    for text in ("earlier baseline", "较早的基线", "fp_2", 'href="looks/004/report.html"'):
        assert text in page
    assert sorted(path.name for path in Path("seen/looks").iterdir()) == [
        f"00{k}" for k in range(1, 7)
    ]


def test_scores_are_said_to_be_away_and_not_to_differ_in_a_share_of_answers(call, study, provider):
    rows = [
        {"id": f"c{k}", "prompt": f"Question {k}?", "response": f"answer {k}", "label": 3}
        for k in range(CASES)
    ]
    Path("data.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    words = [word for word in study if word != "output=bracket"] + [
        *("mode=pointwise", "output=rating", "criteria=overall"),
    ]
    for rating in (3, 3, 4):
        provider.rule = lambda body, rating=rating: said(f"Rating: [[{rating}]]")
        found = look(call, words, status=4 if rating == 4 else 0)
    assert found["looks"][-1]["facts"]["flips"]["value"] == 0.25, (
        "one of four steps, in every answer"
    )
    assert "scores are 25.0% [" in found["findings"][1]
    assert (
        "(1 minus the distance of scores as a share of the scale): 75.0% [" in found["findings"][2]
    )
    assert not any("of the answers differ" in one for one in found["findings"])


def test_a_new_fingerprint_with_the_same_answers_is_reported_and_no_change(call, watched, model):
    model.fingerprint = "fp_2"
    found = look(call, watched)
    assert found["state"] == "same"
    assert "fp_2 instead of fp_1. Its answers have not changed noticeably." in found["findings"][-1]


def test_answers_that_can_no_longer_be_read_are_a_change(call, watched, provider):
    provider.rule = lambda body: said("I would rather not say.")
    found = look(call, watched, status=4)
    assert found["looks"][-1]["facts"]["agreement"] is None
    assert "(evidence >1,000,000, and 20 suffices)" in found["findings"][0]
    assert "evidence &gt;1,000,000," in Path(found["paths"]["page"]).read_text("utf-8")


def test_looks_leave_the_stored_answers_of_runs(call, study, provider):
    study = [*study, FEW]
    call("run", *study, "hydra.run.dir=first")
    look(call, study)
    call("run", *study, "hydra.run.dir=second")
    assert len(provider.requests) == 2 * 8
    keys = [
        {key for one in read_run(Path(name)).judgments for key in one.keys}
        for name in ("second", "seen/looks/001")
    ]
    assert len(keys[0]) == len(keys[1]) == 8
    assert not keys[0] & keys[1]
    call("reproduce", "seen/looks/001")
    assert len(provider.requests) == 2 * 8


def test_a_budget_is_never_exceeded_and_a_cut_look_is_continued(call, watched, provider):
    study = watched
    found = look(call, study, "runner.budget_calls=30", status=2)
    assert (found["state"], found["changed_at"], len(provider.requests)) == ("incomplete", None, 30)
    assert found["looks"][-1]["facts"] is None
    assert "Look 3 is not complete (runner.budget_calls=30 is reached)" in found["findings"][0]
    assert "（已达到 runner.budget_calls=30）" in found["findings_zh"][0]
    page = Path("seen/watch.html").read_text("utf-8")
    assert page.count("已达到 runner.budget_calls=30") == 2, "in the findings and in the table"
    plan = call("plan", "watch", *study)
    assert re.search(r"the run +48 +0 +48 ", plan.out), "of a watch in its own folder"
    plan = call("plan", "watch", *study, "--output", "seen")
    assert re.search(r"the run +48 +30 +18 ", plan.out), "of this watch"
    plan = call("plan", "watch", *study, "--output", "seen", "--api-base", provider.api_base)
    assert re.search(r"the run +48 +30 +18 ", plan.out), "with the options of the watch"
    found = look(call, study)
    assert (found["state"], len(provider.requests), len(found["looks"])) == ("same", BOTH, 3)
    assert found["looks"][-1]["sent"] == BOTH
    assert (
        call("plan", *study, "--output", "seen", status=1)
        .line()
        .startswith("evalkit plan: --output needs watch")
    )
    line = call("plan", *study, "--api-base", provider.api_base, status=1).line()
    assert line.startswith("evalkit plan: --api-base needs watch")


def files_in(folder: Path) -> dict[str, bytes]:
    """The folders and files but those of the store, which may be opened, with their contents."""
    found = [path for path in folder.rglob("*") if not path.name.startswith("answers.db")]
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}


def stopped(body: dict[str, Any]) -> Reply:
    interrupt(SIGINT)
    return refused(503, "overloaded")


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Reply], list[str], int, str]] = {
    "a wrong key": (
        lambda body: refused(401, "wrong key", code="invalid_api_key"),
        [],
        1,
        "wrong key",
    ),
    "no access": (lambda body: refused(403, "not yours"), [], 1, "not yours"),
    "no such model": (
        lambda body: refused(404, "no such model", code="model_not_found"),
        [],
        1,
        "no such model",
    ),
    "a bad request": (
        lambda body: refused(400, "unknown parameter"),
        [],
        1,
        "requests failed, for example case c0: unknown parameter",
    ),
    "a broken server": (
        lambda body: refused(500, "oops"),
        ["runner.retries=0"],
        1,
        "no answer came back: ",
    ),
    "not HTTP": (lambda body: Reply(b"<html>"), ["runner.retries=0"], 1, "has no chat completions"),
    "no host": (
        lambda body: said(),
        ["judge.api_base=http://127.0.0.1:9/v1", "runner.retries=0"],
        1,
        "127.0.0.1:9",
    ),
    "a budget too small": (
        lambda body: said(),
        ["runner.budget_calls=0"],
        1,
        "budget_calls=0 is reached; raise the",
    ),
    "Ctrl-C": (stopped, [], 130, "interrupted: 0 of 48"),
}


def failing(call: Call, study: list[str], provider: Provider, fault: str, *words: str) -> None:
    """Fail to take a look, which leaves everything as it was."""
    before = files_in(Path())
    provider.rule, more, status, complaint = FAULTS[fault]
    assert (
        complaint
        in call("watch", *study, *more, "--output", "seen", "-q", *words, status=status).line()
    )
    assert files_in(Path()) == before


@pytest.mark.parametrize("fault", some_of([fault for fault in FAULTS if fault != "no host"], 3))
def test_a_look_without_any_answer_leaves_everything_as_it_was(call, watched, provider, fault):
    failing(call, watched, provider, fault)
    failing(call, watched, provider, fault, "--reset")


@pytest.mark.parametrize(
    "fault",
    [
        "a wrong key",
        "no host",
    ],
)
def test_a_first_look_without_any_answer_leaves_nothing(call, study, provider, model, fault):
    failing(call, study, provider, fault)
    provider.rule = model
    assert len(look(call, study)["looks"]) == 1


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        ("a wrong key", 1),
        ("a broken server", 30),
        ("Ctrl-C", 20),
    ],
)
def test_a_look_that_is_cut_keeps_what_was_paid_and_pays_the_rest_only(
    call, study, provider, model, fault, answers
):
    rule, more, _, _ = FAULTS[fault]
    provider.rule = lambda body: (model if len(provider.requests) <= answers else rule)(body)
    words = (*study, *more, "runner.concurrency=1", "--output", "seen")
    done = call("watch", *words, status=130 if fault == "Ctrl-C" else 2)
    if fault == "Ctrl-C":
        assert f"interrupted: {answers} of 48 answers are stored; run again to continue" in done.err
    assert ("requests failed" in done.out) is (fault == "a broken server")
    assert [one.complete for one in read_watch(Path("seen"))[0].looks] == [False]
    provider.rule, cut = model, len(provider.requests)
    provider.requests.clear()
    found = look(call, study)
    assert [one["complete"] for one in found["looks"]] == [True]
    assert len(provider.requests) == BOTH - answers
    if fault == "Ctrl-C":
        assert found["looks"][0]["sent"] == cut + BOTH - answers, "of both commands"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["batch", "write", "watch"],
            "cannot write the requests of a look; use evalkit watch … runner=batch",
        ),
        (["plan", "watch", "--pilot", "2"], "watch cannot be used with --pilot"),
        (["plan", "watch", "-m"], "watch cannot be used with --multirun"),
    ],
)
def test_what_a_look_would_not_find_again_is_neither_written_nor_sent(
    call, study, provider, words, complaint
):
    before = files_in(Path())
    last = ["w.jsonl"] if words[0] == "batch" else []
    assert complaint in call(*words, *study, *last, status=1).line()
    assert (files_in(Path()), provider.requests) == (before, [])


PRICES = {
    "a server with the name of a listed model": (["judge.model=openai/gpt-4o-mini"], "gpt-4o-mini"),
    "an alias of a listed model": ([], "gpt-4o-mini"),
    "its own price": (["judge.price={input: 1, output: 2}"], "fake"),
    "an unknown model": ([], "fake"),
}


@pytest.mark.parametrize(
    ("name", "transport"),
    [
        ("its own price", "direct"),
        ("an unknown model", "direct"),
        ("an alias of a listed model", "litellm"),
        *(
            pytest.param(name, transport, marks=pytest.mark.thorough)
            for name, transport in [
                ("a server with the name of a listed model", "direct"),
                ("an alias of a listed model", "direct"),
            ]
        ),
    ],
)
def test_the_plan_of_a_look_knows_a_price_if_and_only_if_looks_have_a_cost(
    call, study, model, name, transport
):
    words, model.name = PRICES[name]
    words = [*study, *words, FEW, f"judge.transport={transport}"]
    first = call("plan", "watch", *words).out
    for _ in range(2):
        cost = look(call, words)["looks"][-1]["cost_usd"]
    planned = call("plan", "watch", *words, "--output", "seen").out
    assert ("price unknown" in planned) == (cost is None)
    assert ("price unknown" in first) == (cost is None or "alias" in name), (
        "an alias is known from its answers"
    )
    if "alias" in name:
        assert float(re.findall(r"\$([\d.]+)", planned)[0]) == pytest.approx(
            cost, rel=0.3, abs=1e-4
        )


def test_an_error_of_the_provider_cannot_move_the_cursor(call, study, provider):
    provider.rule = lambda body: refused(401, "wrong key \x1b[2J\x9b2J\x07", code="invalid_api_key")
    line = call("watch", *study, status=1).line()
    assert "wrong key \ufffd[2J\ufffd2J\ufffd" in line


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["tie.threshold=0.5"],
            "seen: its looks had other configuration; --reset starts from a new baseline",
        ),
        (["judge.temperature=1"], "its looks had other configuration"),
        (
            ["store.mode=off"],
            "store.mode: with 'off' the answers of a look that is cut would be lost",
        ),
    ],
)
def test_another_configuration_is_refused_before_anything_is_paid(
    call, watched, provider, words, complaint
):
    before = files_in(Path())
    assert complaint in call("watch", *watched, "--output", "seen", *words, status=1).line()
    assert (provider.requests, files_in(Path())) == ([], before)


def test_other_cases_are_refused(call, watched, provider):
    rows = Path("data.jsonl").read_text("utf-8").splitlines()
    Path("data.jsonl").write_text("\n".join(rows[:-1]), "utf-8")
    assert (
        "its looks had other cases" in call("watch", *watched, "--output", "seen", status=1).line()
    )
    assert look(call, watched, "--reset")["cases"] == CASES - 1
    assert len(provider.requests) == BOTH - 2


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("notes.txt", "mine", "seen: has other files; choose another --output"),
        (
            "looks/001/a",
            "",
            "seen: has looks, but no watch.json; restore it, or choose another --output",
        ),
        ("watch.json", "{", "seen/watch.json: the file is damaged"),
        ("watch.json", "[]", "seen/watch.json: the file is damaged"),
        (
            "watch.json",
            '{"baselines": [\n{"judge": 3}]}',
            "seen/watch.json:2: the file is damaged (baselines.judge: exp",
        ),
        ("watch.json", "[" * 100_000, "seen/watch.json: the file is damaged"),
    ],
)
def test_a_folder_with_something_else_is_refused(call, study, provider, name, content, complaint):
    Path("seen", name).parent.mkdir(parents=True)
    Path("seen", name).write_text(content, "utf-8")
    assert complaint in call("watch", *study, "--output", "seen", status=1).line()
    assert provider.requests == []
    assert [
        str(path.relative_to("seen")) for path in Path("seen").rglob("*") if path.is_file()
    ] == [name]


def test_two_looks_at_once_are_refused(call, watched, provider):
    with ThreadPoolExecutor(1) as thread:
        claim = thread.submit(claim_folder, Path("seen")).result()
        line = call("watch", *watched, "--output", "seen", status=1).line()
        thread.submit(claim.release).result()
    assert f"seen: in use by process {os.getpid()} on" in line
    assert provider.requests == []
    assert not (Path("seen") / ".claim").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "evalkit watch: needs a judge or a study"),
        (
            ["nowhere"],
            "nowhere: no such run, judge or study; name the folder of a run or of an exported judge, a study",
        ),
        (["runs/god"], "runs/god: no such run, judge or study; did you mean 'runs/good'?"),
        (["judges/goood"], "did you mean 'judges/good'?"),
        (["demmo"], "did you mean 'demo'?"),
        (["simulated/good"], "did you mean 'judge=simulated/good'?"),
        (["judge=simulated/good,simulated/coin", "-m"], "no such option -m"),
        (
            ["judge=a,b"],
            "judge=a,b: has several values; choose one of them, or write 'judge=\"a,b\"' if it is one",
        ),
        (["."], "not a run folder"),
    ],
)
def test_mistakes_are_one_line(call, words, complaint):
    for path in (Path("runs/good/manifest.json"), Path("judges/good/judge.yaml")):
        path.parent.mkdir(parents=True)
        path.touch()
    assert complaint in call("watch", *words, status=1).line()


def test_a_folder_is_not_named_by_a_secret(call, study, provider):
    secret = "sk-test-0123456789abcdef"
    done = call("watch", *study, "--output", secret, status=1)
    assert "the folder's name" in done.line()
    assert secret not in done.err
    assert provider.requests == []


def test_a_sweep_cannot_be_watched(call):
    Path("sweep.yaml").write_text(
        "hydra: {mode: MULTIRUN, sweeper: {params: {judge: 'simulated/good,simulated/coin'}}}"
    )
    assert "a sweep cannot be watched" in call("watch", "sweep.yaml", status=1).line()


def test_the_judge_of_a_run_keeps_its_templates_and_servers_are_repeated(
    call, study, provider, model
):
    call("run", *study, FEW, "hydra.run.dir=first")
    first = read_run(Path("first"))
    elsewhere = first.config.with_({"judge.api_base": "http://gateway.example/v1"})
    write_judge(replace(first, config=elsewhere), Path("far"))
    write_judge(first, Path("good"))
    anchors = ["dataset=file", "dataset.path=data.jsonl", FEW, "store.url=answers.db"]
    refused = call("watch", "far", *anchors, status=1).line()
    assert "would get your key" in refused
    assert "--trust gateway.example" in refused
    assert "--api-base http://gateway.example/v1" in refused
    trust = ["--api-base", provider.api_base]
    assert "dataset.path" in call("watch", "good", *trust, status=1).line()
    assert len(provider.requests) == 8
    done = call("watch", "good", *anchors, *trust)
    assert "page: watch/good/watch.html" in done.out
    call("watch", "first", *trust)
    hashes = [read_watch(Path("watch", name))[0].prompt_hashes for name in ("good", "first")]
    assert hashes[0] == hashes[1] != {}
    assert len(provider.requests) == 3 * 8
    call("watch", "good", *anchors, f"judge.api_base={provider.api_base}")
    changed = (
        Path("good/judge.yaml").read_text("utf-8").replace("temperature: 0.0", "temperature: 1.0")
    )
    Path("good/judge.yaml").write_text(changed, "utf-8")
    assert (
        "was changed after the export" in call("watch", "good", *anchors, *trust, status=1).line()
    )


def test_a_foreign_study_runs_no_code_without_permission(call, study):
    assert "--allow-code" in call("watch", *study, "judge.transport=os:system", status=1).line()


def test_hostile_names_from_the_provider_are_shown_as_text(call, study, model):
    model.name = (
        "<img src=x onerror=alert(1)>\x1b[31m sk-proj-0123456789abcdefghij0123456789abcdefghij"
        + "x" * 500
    )
    study = [*study, FEW]
    look(call, study)
    model.name = "plain"
    look(call, study)
    done = call("watch", *study, "--output", "seen")
    page = Path("seen/watch.html").read_text("utf-8")
    for text in (done.out, page, Path("seen/watch.json").read_text("utf-8")):
        assert "\x1b" not in text
        assert "sk-proj-0123456789" not in text
        assert "x" * 300 not in text
    assert "<img" not in page
    assert "&lt;img" in page


def test_a_quiet_watch_prints_only_a_change(call, watched, model):
    words = ["watch", *watched, "--output", "seen", "-q"]
    done = call(*words)
    assert (done.out, done.err) == ("", "")
    model.flipped = set(range(CASES))
    assert "The judge has changed" in call(*words, status=4).line()
