"""`judge=cascade` from the command line: who is asked about what, what is refused, and where its thresholds serve."""

import asyncio
import json
import re
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalkit
from evalkit.cli.watch import Watched
from evalkit.core.errors import ConfigError
from evalkit.serving.service import CaseInput, Service
from evalkit.serving.tools.models import PairwiseCompareInput
from tests.support.command_line import Commands, Done, pair, run_once, shown
from tests.support.fake_provider import Provider, Reply, said, serving

Call = Callable[..., Done]
COUNT = 120
JUDGE = """name: {name}
model: openai/{name}
api_base: {base}
transport: direct
price: {{input: {price}, output: {price}}}
"""
SURE = ("judge.target=0.7",)
"""What the tests of uses add: with `unsure` judges, fewer answers of the cascade are right."""


def number(body: dict[str, Any]) -> int:
    return int(re.search(r"Question (\d+)\?", str(body))[1])  # type: ignore[index]


def judges(body: dict[str, Any]) -> Reply:
    """The small judge follows the order in every third case, and is right in the others; the large one is right."""
    good = shown(body)[0].startswith("good")
    if body["model"] == "small" and number(body) % 3 == 0:
        good = True
    return said(f"[[{'A' if good else 'B'}]]", usage=(100, 10))


def unsure(body: dict[str, Any]) -> Reply:
    """The large judge contradicts itself in every twelfth case, where the small one is not sure either."""
    if body["model"] == "large" and number(body) % 12 == 0:
        return said("[[A]]", usage=(100, 10))
    return judges(body)


@pytest.fixture(scope="module")
def server():
    with serving() as provider:
        yield provider


def write(folder: Path, provider: Provider) -> None:
    """Write the data and the two judges."""
    (folder / "cases.jsonl").write_text(
        "\n".join(json.dumps(pair(n)) for n in range(COUNT)), "utf-8"
    )
    (folder / "conf" / "judge").mkdir(parents=True)
    for name, price in (("small", 0.1), ("large", 10)):
        text = JUDGE.format(name=name, base=provider.api_base, price=price)
        (folder / "conf" / "judge" / f"{name}.yaml").write_text(text, "utf-8")


@pytest.fixture(autouse=True)
def provider(monkeypatch, tmp_path, server):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    write(tmp_path, server)
    server.rule = judges
    server.requests.clear()
    return server


@pytest.fixture(scope="module")
def runs(server, tmp_path_factory):
    """A folder with a finished run and its store, by the rule of its votes or the judges that answered."""
    folders = {}
    for name, rule, more in (
        ("majority", judges, ("judge.vote=majority",)),
        ("cascade", judges, ()),
        ("unsure", unsure, SURE),
    ):
        server.rule = rule
        folders[name] = tmp_path_factory.mktemp(name)
        write(folders[name], server)
        run_once(folders[name], "run", *words(*more))
    return folders


@pytest.fixture
def finished(runs, provider, tmp_path):
    """Copies the run of the unsure judges into the test's folder, and lets them answer."""
    shutil.copytree(runs["unsure"], tmp_path, dirs_exist_ok=True)
    provider.rule = unsure
    return provider


def words(*more: str, names: str = "[small,large]") -> list[str]:
    data = [
        *("dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=50"),
        "tracking=none",
    ]
    return [
        *("judge=cascade", f"judge.judges={names}", "judge.target=0.8", *data),
        *("hydra.run.dir=first", *more),
    ]


def asked(provider: Provider) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {"small": Counter(), "large": Counter()}
    for body in provider.requests:
        found[body["model"]][number(body)] += 1
    return found


def rows(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]


def fields(n: int) -> dict[str, Any]:
    case = pair(n)
    return {key: case[key] for key in ("prompt", "response_a", "response_b")}


def expected(n: int) -> tuple[str, str | None]:
    """Which status and judge a case has: unsure everywhere, decided by the large judge, or by the small one."""
    return ("abstained", None) if n % 12 == 0 else ("judged", "large" if n % 3 == 0 else "small")


def test_the_next_judge_is_asked_only_about_what_the_first_one_is_not_sure_of(call, provider):
    done = call("run", "-v", *words())
    assert asked(provider) == {
        "small": Counter(dict.fromkeys(range(COUNT), 2)),
        "large": Counter(dict.fromkeys(range(0, COUNT, 3), 2)),
    }
    assert "calls: 320 planned, 0 stored, 320 sent, 0 failed" in done.out
    assert "The judges of the cascade decide in turn: small 67%" in done.out
    cost = "times as much as with the last judge alone ($0.0022)"
    assert f"A case costs $0.00076, 0.34 [0.24, 0.42] {cost}" in re.sub(
        r"\[0\.2\d, 0\.4\d\]", "[0.24, 0.42]", done.out
    )
    lines = [
        json.loads(line) for line in Path("first/judgments.jsonl").read_text("utf-8").splitlines()
    ]
    assert [line["case_id"] for line in lines] == sorted(
        (line["case_id"] for line in lines), key=lambda c: int(c[1:])
    )
    assert [line["judge"] for line in lines[:6]] == [
        *("small", "small", "large", "large", "small", "small"),
    ]
    steps = json.loads(Path("first/cascade.json").read_text("utf-8"))["steps"]
    assert [(step["judge"], step["decided"]) for step in steps] == [("small", 80), ("large", 40)]
    # Everything is stored, and comes out the same.
    again = call("run", *words("--overwrite"))
    assert "calls: 320 planned, 320 stored, 0 sent, 0 failed" in again.out
    assert "all" in call("reproduce", "first").out
    strict = call(
        "score", "-v", "first", "judge.target=0.95", "judge.last=answer", "scoring.bootstrap=20"
    )
    assert "small 0%" in strict.out
    voted = call("score", "-v", "first", "judge.vote=majority", "scoring.bootstrap=20")
    assert "of the cascade" not in voted.out
    files = json.loads(Path("first/manifest.json").read_text("utf-8"))["files"]
    assert [Path("first/cascade.json").exists(), "cascade.json" in files] == [False, False]
    assert [Path("first/panel.json").exists(), "panel.json" in files] == [True, True]
    call("score", "first", "judge.vote=cascade", "scoring.bootstrap=20")
    files = json.loads(Path("first/manifest.json").read_text("utf-8"))["files"]
    assert [Path("first/cascade.json").exists(), "cascade.json" in files] == [True, True]
    assert [Path("first/panel.json").exists(), "panel.json" in files] == [False, False]
    for tune in ("tune=[vote]", "tune=prompt", "tune=examples"):
        line = call("align", "first", tune, "align.model=m", "align.budget_usd=1", status=1).line()
        assert "labels choose the thresholds of a cascade" in line
    assert len(provider.requests) == 320


def test_a_plan_says_that_later_judges_are_asked_less(call, provider):
    done = call("plan", *words())
    assert (
        "requests to large are at most these: for the cases that are not decided before" in done.err
    )
    assert provider.requests == []


@pytest.mark.parametrize("command", ["run", "plan"])
def test_too_few_labels_are_an_error_before_any_call(call, provider, command):
    line = call(command, *words("judge.target=0.97"), status=1).line()
    assert line.startswith("judge.vote=cascade: ")
    assert "of the 120 labels choose thresholds (judge.calibration=0.5)" in line
    assert "judge.target=0.97 with judge.delta=0.1 needs 76" in line
    assert provider.requests == []


@pytest.mark.parametrize("vote", ["majority", "cascade"])
def test_too_few_labels_for_a_finished_run_leave_it_as_it_is(call, runs, vote):
    folder = runs[vote] / "first"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for setting, needed in (
        ("judge.target=0.97", 76),
        ("judge.delta=1e-7", 73),
        ("judge.calibration=0.05", 11),
    ):
        line = call("score", str(folder), "judge.vote=cascade", setting, status=1).line()
        assert line.startswith("judge.vote=cascade: ")
        assert f"needs {needed}; label more cases" in line
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_the_terminal_shows_which_judges_are_enough(call, runs):
    shutil.copytree(runs["majority"] / "first", "first")
    done = call("score", "first", "-v")
    table = json.loads(Path("first/panel.json").read_text("utf-8"))["subsets"]
    assert [row["judges"] for row in table if row["chosen"]] == [["large"]]
    assert "large can replace all 2 judges: at most 5 points less accurate." in re.sub(
        r"\s+", " ", done.out
    )
    start = done.out.splitlines().index(
        next(one for one in done.out.splitlines() if one.startswith("judges that vote"))
    )
    lines = [line.split() for line in done.out.splitlines()[start + 1 : start + 4]]
    assert [(*line[:-4], line[-4], line[-1]) for line in lines] == [
        ("small", "0.667", "$0.000022"),
        ("large", "★", "1.000", "$0.0022"),
        ("small,", "large", "0.667", "$0.0022"),
    ]


def test_nothing_is_asked_of_the_next_judge_once_a_budget_is_reached(call, provider):
    done = call("run", *words("runner.budget_calls=300"), status=2)
    assert "runner.budget_calls=300 is reached" in done.err
    assert len(provider.requests) == 300
    # A higher budget goes on where it stopped.
    done = call("run", *words("--overwrite", "runner.budget_calls=300"))
    assert "calls: 320 planned, 300 stored, 20 sent" in done.out


def test_a_judge_that_fails_sends_nothing_on_to_the_next(call, provider):
    provider.rule = lambda body: (
        Reply({"error": {"message": "no"}}, 400) if body["model"] == "small" else judges(body)
    )
    call("run", *words("runner.retries=0"), status=2)
    assert not asked(provider)["large"]


@pytest.mark.parametrize(
    ("command", "said_"),
    [
        (["run", *words("swap=none")], "judge.vote: nothing shows how sure small is"),
        (["run", *words(names="[small,other]")], "other"),
        (
            ["batch", "write", *words(), "out.jsonl"],
            "a cascade asks its next judge only where the answers of the one",
        ),
        (
            ["batch", "write", *words("judge.thresholds=[1,1]"), "out.jsonl"],
            "a cascade asks its next judge only where",
        ),
        (["work", "first", "--shard", "1/2"], ""),
    ],
)
def test_what_a_cascade_cannot_do_is_one_line(call, provider, command, said_):
    if command[0] == "work":
        Path("experiments").mkdir()
        Path("experiments/first.yaml").write_text(
            "judge:\n  vote: cascade\n  judges: [{model: openai/a, name: a}, {model: openai/b, name: b}]\n"
            "dataset: {path: cases.jsonl}\n"
        )
        said_ = "labels choose the thresholds of a cascade"
    assert said_ in call(*command, status=1).line()
    assert provider.requests == []


@pytest.mark.thorough
@pytest.mark.slow
def test_an_interrupted_cascade_goes_on_where_it_stopped(provider, tmp_path):
    reached = threading.Event()

    def rule(body: dict[str, Any]) -> Reply:
        if body["model"] == "large" and len(provider.requests) > 250:
            reached.set()
        return judges(body)

    provider.rule = rule
    commands = Commands(tmp_path, {"EVALKIT_STORE": str(tmp_path / "store.sqlite")})
    with commands.started("run", *words("runner.concurrency=1"), log=tmp_path / "log") as started:
        started.wait_for(reached)
        started.send(signal.SIGINT)
        assert started.ended() == 130, started.said()
    assert not (tmp_path / "first").exists()
    before = len(provider.requests)
    assert 250 < before < 320
    done = commands("run", *words())
    assert len(provider.requests) == 320
    assert f"{before:,} stored" in done.out


@pytest.mark.parametrize("source", ["first", "judge"])
def test_a_served_cascade_says_who_decided_or_abstains(call, finished, source):
    assert [(row["reason"], row["decided_by"]) for row in rows("first/verdicts.jsonl")] == [
        expected(n) for n in range(COUNT)
    ]
    call("export", "first", "--to", "judge", "--output", "judge")
    assert (
        json.loads(Path("judge/trust.json").read_text("utf-8"))["cascade"]["steps"][0]["threshold"]
        == 1.0
    )
    assert Watched.of([source, "dataset=sample"]).config.judge.thresholds == (1.0, 1.0)
    judge = evalkit.load_judge(source, store={"mode": "off"}, api_base=finished.api_base)
    assert (
        judge.trust.sentence
        == json.loads(Path("judge/trust.json").read_text("utf-8"))["decision"]["sentence"]
    )
    numbers = range(COUNT, COUNT + 12)  # new cases, each alone, and then together
    alone = [judge.sync(**fields(n)) for n in numbers]
    assert asked(finished) == {
        "small": Counter(dict.fromkeys(numbers, 2)),
        "large": Counter(dict.fromkeys((n for n in numbers if n % 3 == 0), 2)),
    }

    async def together() -> list[Any]:
        async with judge:
            return await judge.batch([fields(n) for n in numbers])

    for found in (alone, asyncio.run(together())):
        assert [(one.reason, one.decided_by) for one in found] == [expected(n) for n in numbers]
        assert {one.status for one in found} == {"ok"}
        assert [one.winner is None for one in found] == [n % 12 == 0 for n in numbers]
        assert all(one.trust.sentence == judge.trust.sentence for one in found)


def test_clients_of_a_server_and_of_tools_see_the_abstention(call, finished):
    service = Service(
        evalkit.load_judge("first", store={"mode": "off"}, api_base=finished.api_base)
    )

    async def ask() -> Any:
        plain = [await service.judge(CaseInput(**fields(n))) for n in (0, 1, 3)]
        tool = service.tools["pairwise_compare"]
        inputs = [PairwiseCompareInput(**fields(n), criteria=["overall"]) for n in (0, 1)]
        found = plain, [await service.use(tool, one) for one in inputs]
        await service.stop()
        return found

    plain, tools = asyncio.run(ask())
    assert [(one["reason"], one["decided_by"], one["winner"] is None) for one in plain] == [
        ("abstained", None, True),
        ("judged", "small", False),
        ("judged", "large", False),
    ]
    assert tools[0].error == "the cascade abstains: no judge is sure enough"
    assert tools[1].error is None


def test_a_run_without_its_thresholds_is_no_judge(call, finished):
    for damage in ("{}", '{"steps": [{"judge": "small", "threshold": "x"}]}', "no JSON", None):
        if damage is None:
            Path("first/cascade.json").unlink()
        else:
            Path("first/cascade.json").write_text(damage, "utf-8")
        line = call("export", "first", "--to", "judge", "--output", "judge", status=1).line()
        assert line.startswith("first/cascade.json") or "/first/cascade.json" in line
        assert not Path("judge").exists()
        with pytest.raises(ConfigError, match=r"cascade\.json"):
            evalkit.load_judge("first", api_base=finished.api_base)


def test_an_audit_edits_cases_and_keeps_the_thresholds(call, finished):
    plain = json.loads(Path("first/cascade.json").read_text("utf-8"))
    call("audit", *words(*SURE, "hydra.run.dir=audit", "probe=[padding]"))
    assert json.loads(Path("audit/cascade.json").read_text("utf-8")) == plain
    metrics = json.loads(Path("audit/metrics.json").read_text("utf-8"))["metrics"]
    # The judges ignore padding: the cascade answers as before, and abstains where it did.
    flips = metrics["audit/padding/flip_rate"]
    assert (flips["value"], flips["n"], flips["missing"]) == (0.0, COUNT - COUNT // 12, 0)
    assert metrics["audit/padding/missing"]["value"] == 0.0
    # Each judge is asked again about repeats and edited cases, the large one where the small one is
    # unsure.
    assert asked(finished)["small"] == Counter(dict.fromkeys(range(COUNT), 4))
    assert asked(finished)["large"] == Counter(dict.fromkeys(range(0, COUNT, 3), 4))
    assert "all" in call("reproduce", "audit").out


def test_workers_judge_shards_by_given_thresholds(call, provider):
    provider.rule = unsure
    line = call("work", *words(), "--shard", "1/3", status=1).line()
    assert (
        "; set judge.thresholds as in cascade.json of a run with labels, or use evalkit run" in line
    )
    assert provider.requests == []
    given = words(*SURE, "judge.thresholds=[1,1]")
    for shard in ("1/3", "2/3", "3/3"):
        call("work", *given, "--shard", shard)
    assert len(provider.requests) == 2 * (COUNT + COUNT // 3)
    done = call("run", *given)
    assert "320 stored, 0 sent" in done.out
    assert [(row["reason"], row["decided_by"]) for row in rows("first/verdicts.jsonl")] == [
        expected(n) for n in range(COUNT)
    ]
    # No label chose anything: all of them show the agreement.
    metrics = json.loads(Path("first/metrics.json").read_text("utf-8"))["metrics"]
    assert metrics["cascade/accuracy"]["n"] == COUNT - COUNT // 12
    assert (
        metrics["cascade/share/small"]["note"]
        == "where its certainty is at least 1, by judge.thresholds"
    )


def test_thresholds_need_no_labels(call, provider):
    provider.rule = unsure
    bare = [{key: value for key, value in pair(n).items() if key != "label"} for n in range(30)]
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, bare)), "utf-8")
    assert "0 of the 0 labels" in call("run", *words(*SURE), status=1).line()
    call("run", *words(*SURE, "judge.thresholds=[1,null]"))
    assert Counter(row["decided_by"] for row in rows("first/verdicts.jsonl")) == {
        "small": 20,
        None: 10,
    }
    call("score", "first", "judge.thresholds=[1,1]", "scoring.bootstrap=20")
    assert Counter(row["decided_by"] for row in rows("first/verdicts.jsonl")) == {
        "small": 20,
        "large": 7,
        None: 3,
    }
    line = call("score", "first", "judge.thresholds=[1]", status=1).line()
    assert "thresholds has 1 values, and there are 2 judges" in line


def mirrored(n: int) -> dict[str, Any]:
    """A case whose second response is the better one."""
    return pair(n, response_a=f"bad {n}", response_b=f"good {n}", label="B")


def test_align_tunes_what_does_not_need_other_answers(call, provider):
    provider.rule = unsure
    cases = [mirrored(n) if n % 2 else pair(n) for n in range(COUNT)]
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, cases)), "utf-8")
    call("run", *words(*SURE))
    line = call("align", "first", "tune=[threshold]", status=1).line()
    assert "evalkit score first judge.thresholds=" in line
    call("score", "first", "judge.thresholds=[1,1]", "scoring.bootstrap=20")
    assert (
        "other answers than a cascade asks for"
        in call("align", "first", "tune=[vote]", status=1).line()
    )
    done = call("align", "first", "tune=[threshold]")
    assert re.search(r"[Nn]o gain", done.out)
