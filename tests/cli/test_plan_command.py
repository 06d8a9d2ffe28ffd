"""`evalkit plan`: estimates and how near they are, labels still needed, and the judges that it refuses."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.cli.hydra_runner import Job
from evalkit.cli.progress import EVERY, RECENT, ProgressDisplay, Rate, as_time, seconds_left
from evalkit.compose import load_config
from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.engine.estimates import Length, Part, minutes
from evalkit.engine.plan import Plan
from evalkit.engine.progress import Progress
from evalkit.judges import litellm_transport, pricing
from evalkit.judges.litellm_transport import check_provider, load_litellm
from evalkit.judges.setup import resolve_target
from evalkit.runs import write_run
from evalkit.runs.results import RunResult
from evalkit.scoring.labels import labels_for, labels_for_width
from evalkit.scoring.pipeline import score_run
from tests.scoring.drift_runs import pairs, right_in, truth
from tests.support.command_line import BRIEF, Done, call_main, fake, pair
from tests.support.fake_provider import Provider, Reply, refused, said

Call = Callable[..., Done]
PRICE = "judge.price={input: 1, output: 10}"
DATA = ["dataset=file", "dataset.path=cases.jsonl", "swap=both"]


@pytest.fixture
def provider(provider, tmp_path):
    texts = (json.dumps(pair(number)) for number in range(12))
    (tmp_path / "cases.jsonl").write_text("".join(f"{text}\n" for text in texts))
    provider.rule = answered
    return provider


def answered(body: dict[str, Any]) -> Reply:
    """A verdict that took 30 to 49 tokens, of a prompt that counts a third of its characters."""
    text = "".join(message["content"] for message in body["messages"])
    return said("[[A]]", usage=(len(text) // 3, 30 + len(text) % 20))


def words(provider: Provider, *more: str, model: str = "fake") -> list[str]:
    return [*fake(provider, model), "judge.transport=direct", "output=bracket", *DATA, *more]


def dollars(planned: Done) -> float:
    """The last number of the table's last row."""
    rows = [line for line in planned.out.splitlines() if line.startswith(("the run", "all, "))]
    return float(rows[-1].split()[-1].removeprefix("$"))


def paid(*runs: str) -> float:
    return sum(
        float(json.loads(Path(run, "metrics.json").read_bytes())["cost_usd"]) for run in runs
    )


def test_estimates_are_what_the_run_then_costs(call, provider):
    call("run", *words(provider, PRICE, "dataset.limit=4"), *BRIEF, "hydra.run.dir=some")
    planned = call("plan", *words(provider, PRICE))
    assert "from 8 stored for the same prompts" in planned.out
    call("run", *words(provider, PRICE), *BRIEF, "hydra.run.dir=all")
    assert dollars(planned) == pytest.approx(paid("all"), rel=0.05)
    assert dollars(call("plan", *words(provider, PRICE))) == 0


def test_other_answers_of_the_same_judge_and_format_tell_how_long_answers_are(call, provider):
    other = ["prompt=zh", "criteria=overall"]
    assumed = call("plan", *words(provider, PRICE)).out
    assert re.search(r"length of answers: 150 tokens assumed", assumed)
    call("run", *words(provider, PRICE, *other), *BRIEF, "hydra.run.dir=other")
    planned = call("plan", *words(provider, PRICE))
    assert re.search(
        r"length of answers: (3\d|4\d) tokens from 24 stored of the same judge and format",
        planned.out,
    )
    assert "minutes, about" in planned.out
    structured = call("plan", *words(provider, PRICE, "output=json")).out
    assert re.search(r"length of answers: \d+ tokens assumed", structured)
    assert "tokens assumed" in call("plan", *words(provider, PRICE, model="another")).out
    assert (
        "length of answers: 20 tokens"
        in call("plan", *words(provider, "judge.max_tokens=20", model="another")).out
    )


def test_a_panel_is_priced_judge_by_judge(call, provider):
    def panel(*prices: str) -> list[str]:
        judges = ",".join(
            f"{{name: j{k}, model: openai/m{k}, api_base: '{provider.api_base}', transport: direct{price}}}"
            for k, price in enumerate(prices)
        )
        return ["judge=panel", f"judge.judges=[{judges}]", "output=bracket", *DATA]

    one, two = ", price: {input: 1, output: 10}", ", price: {input: 2, output: 20}"
    planned = call("plan", *panel(one, two))
    alone = call("plan", *words(provider, PRICE))
    assert dollars(planned) == pytest.approx(3 * dollars(alone), rel=0.01)
    unknown = call("plan", *panel(one, ""))
    assert "price unknown: j1; set it in $ per million tokens" in unknown.out
    call("run", *panel(one, two), *BRIEF, "hydra.run.dir=panel")
    assert dollars(call("plan", *panel(one, two))) == 0


def test_limits_and_the_jobs_of_a_sweep_tell_the_time(call, provider):
    planned = call("plan", *words(provider, PRICE, "judge.rpm=6", "tie.threshold=0,0.5", "-m"))
    lines = [re.split(r"\s{2,}", line.strip()) for line in planned.out.splitlines()]
    *jobs, columns = [
        dict(zip(lines[0], line, strict=True)) for line in lines[1:] if len(line) == len(lines[0])
    ]
    assert (columns["requests"], columns["to send"], columns["shared"]) == ("48", "24", "24")
    assert (columns["minutes, about"], [job["minutes, about"] for job in jobs]) == (
        "4.0",
        ["4.0", "4.0"],
    )
    assert [job["shared"] for job in jobs] == ["0", "24"]


def counts(planned: Done) -> list[list[str]]:
    """The cells of the table's rows."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in planned.out.splitlines()[1:])
    return [row for row in rows if len(row) > 5]


def test_a_plan_counts_equal_requests_once(call, provider, tmp_path):
    same = pair(0) | {"id": "again"}
    alike = pair(1) | {"id": "alike", "response_b": "good 1"}
    with (tmp_path / "cases.jsonl").open("a") as file:
        file.write(f"{json.dumps(same)}\n{json.dumps(alike)}\n")
    assert counts(call("plan", *words(provider, PRICE)))[0][1:4] == ["28", "0", "25"]


def test_a_plan_refuses_a_gate_on_what_the_run_cannot_have(call, provider):
    gate = "gate={agreement/acuracy: '>= 0.5'}"
    refused = call("plan", *words(provider, gate), status=1)
    assert (
        refused.line()
        == "gate.agreement/acuracy: no such metric; did you mean 'agreement/accuracy'?"
    )
    missing = call(
        "plan",
        *words(provider, "gate={no_worse_than: {run: gone, metric: agreement/accuracy}}"),
        status=1,
    )
    assert missing.line().endswith("gone: no such folder; choose a folder that `evalkit run` wrote")
    call("run", *words(provider), *BRIEF, "hydra.run.dir=all")
    held = "{agreement/accuracy: '>= 0.5', no_worse_than: {run: all, metric: agreement/accuracy}}"
    assert call("plan", *words(provider, f"gate={held}")).err == ""
    assert len(provider.requests) == 24


def test_a_pilot_is_paid_once_and_the_run_goes_on_from_it(call, provider):
    planned = call("plan", *words(provider, PRICE), "--pilot", "8")
    assert len(provider.requests) == 8
    assert re.search(
        r"length of answers: \d+ tokens from 8 stored for the same prompts \(± [1-9]\d*\)\.",
        planned.out,
    )
    said = re.search(
        r"pilot: 8 random requests, 8 calls sent, (.*?) prompt and .*\$(.*); stored", planned.out
    )
    assert said
    assert call("plan", *words(provider, PRICE), "--pilot=8").out.endswith(
        "0 calls sent, 0 prompt and 0 answer tokens, $0\n"
    )
    assert len(provider.requests) == 8
    call("run", *words(provider, PRICE), *BRIEF, "hydra.run.dir=all")
    assert len(provider.requests) == 24
    assert dollars(planned) == pytest.approx(paid("all"), rel=0.15)
    assert len({json.dumps(body) for body in provider.requests}) == 24


def test_a_pilot_asks_each_judge_the_same_once_for_all_jobs_that_share_it(call, provider):
    judges = ",".join(
        f"{{name: j{k}, model: openai/m{k}, api_base: '{provider.api_base}', transport: direct}}"
        for k in range(2)
    )
    panel = ["judge=panel", f"judge.judges=[{judges}]", "output=bracket", *DATA]
    planned = call("plan", *panel, "tie.threshold=0,0.5", "--pilot", "3", "-m")
    assert "pilot: 12 random requests, 6 calls sent, " in planned.out
    asked = [
        [body["messages"] for body in provider.requests if body["model"] == f"m{k}"]
        for k in range(2)
    ]
    assert len(asked[0]) == 3
    assert sorted(map(str, asked[0])) == sorted(map(str, asked[1]))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--pilot"], "evalkit plan: --pilot: needs a value; try evalkit plan --help"),
        (
            ["--pilot=0"],
            "evalkit plan: --pilot: '0' is not an integer above 0; try evalkit plan --help",
        ),
        (
            ["--pilot", "swap=none"],
            "evalkit plan: --pilot: 'swap=none' is not an integer above 0; try",
        ),
        (
            ["--pilot", "4", "store.mode=off"],
            "store.mode: with 'off', the run would pay again for the requests of the pilot",
        ),
        (
            ["--pilot", "4", "gate={agreement/acuracy: '> 0'}"],
            "gate.agreement/acuracy: no such metric",
        ),
    ],
)
def test_a_pilot_that_cannot_be_is_one_line(more, said, call, provider):
    assert call("plan", *words(provider, PRICE), *more, status=1).line().startswith(said)
    assert provider.requests == []


def test_a_pilot_without_an_answer_is_told_and_the_plan_guesses(call, provider):
    provider.rule = lambda body: refused(400, "not today")
    planned = call("plan", *words(provider, PRICE, "runner.retries=0"), "--pilot", "2", status=2)
    assert "2 failed" in planned.out
    assert "stored for the run" not in planned.out
    assert "tokens assumed" in planned.out
    assert "not today" in planned.err


def test_a_guess_says_what_would_measure_it(call, provider):
    assert "--pilot 20 measures it for the price" in call("plan", *words(provider, PRICE)).out
    call("run", *words(provider, PRICE, "dataset.limit=2"), *BRIEF, "hydra.run.dir=some")
    assert "would measure" not in call("plan", *words(provider, PRICE)).out


def part(requests: int, seconds: float | None = 6.0, **judge: object) -> Part:
    config = JudgeConfig.model_validate({"model": "fake/model", **judge})
    return Part(
        config, Plan(unique=requests, prompt_tokens=100 * requests), Length(50, seconds, "own", 20)
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([part(80)], 1.0),  # 80 calls of 6 s, eight at once
        ([part(80), part(40)], 1.5),
        ([part(80, concurrency=2)], 4.0),
        ([part(80, concurrency=64)], 1.0),
        ([part(80, concurrency=2), part(40)], 4.0),
        ([part(80, model="local/smollm2")], 4.0),  # two copies answer side by side
        ([part(80, rpm=20)], 4.0),
        ([part(80, tpm=2000)], 6.0),
        ([part(80, None)], None),
        ([part(0)], 0.0),
        ([], 0.0),
    ],
)
def test_the_time_is_the_longest_that_any_limit_makes_it(parts, expected):
    assert minutes(parts, RunnerConfig(concurrency=8)) == expected


def progress(done: int, elapsed: float, total: int | None = 1000) -> Progress:
    return Progress(done, total, 0, done, 0, 0, 0, 0, None, elapsed=elapsed)


def test_the_rate_is_that_of_the_last_seconds():
    rate = Rate()
    assert rate.now() is None
    for second in range(1, 101):  # one answer per second, then ten
        rate.see(progress(second if second <= 50 else 50 + 10 * (second - 50), float(second)))
    assert rate.now() == pytest.approx(10, rel=0.01)
    assert RECENT < 50


def test_the_time_left_is_not_estimated_from_the_first_answers():
    assert seconds_left(progress(1, 5.0), 2.0) is None
    assert seconds_left(progress(50, 25.0), 2.0) == 475.0
    assert seconds_left(progress(1000, 500.0), 2.0) is None
    assert seconds_left(progress(50, 25.0, None), 2.0) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (4.4, "4 s"),
        (89.0, "89 s"),
        (95.0, "2 min"),
        (5000.0, "83 min"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_a_duration_is_in_the_largest_unit_that_fits(seconds, words):
    assert as_time(seconds) == words


def test_each_step_of_a_run_is_shown(capsys):
    with ProgressDisplay(Job(load_config(), Path(), None)) as display:
        for step in (progress(6, 10 * EVERY), progress(7, 1.5 * EVERY), progress(8, 3 * EVERY)):
            display.update(step)
    shown = capsys.readouterr().err
    assert [done for done in (6, 7, 8) if f" {done}/1000 " in shown] == [6, 7, 8]


LABELS = truth(100)


@pytest.fixture
def make_run(here):
    """Write a run folder."""

    def make(labels: Any = LABELS, **sections: Any) -> RunResult:
        run = pairs(
            right_in(LABELS, 0.85, 1), labels, **{"scoring": {"bootstrap": 200}, **sections}
        )
        scored = score_run(run.config, run.cases, run.judgments)
        manifest = {"run_id": "r", "judge": "m", "mode": "pairwise", "dataset": {}}
        result = RunResult(
            None, run.config, manifest, run.cases, run.judgments, scored.verdicts, scored.metrics
        )
        write_run(here / "run", result)
        return result

    return make


def test_labels_for_a_width_and_for_a_gate(make_run, capsys):
    metrics = make_run(gate={"agreement/kappa": ">= 0.6", "tie_rate": "<= 0.5"}).metrics
    files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(["plan", "--labels", "run", "--width", "0.05"]) == 0
    out = capsys.readouterr().out
    accuracy, kappa = metrics["agreement/accuracy"], metrics["agreement/kappa"]
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("agreement/")}
    assert rows["agreement/accuracy"].endswith(
        f"100  about {labels_for_width(accuracy, 0.05, 0.95):,}".split("  ")[1]
    )
    assert f"about {labels_for_width(kappa, 0.05, 0.95):,}" in rows["agreement/kappa"]
    assert (
        f"gate: agreement/kappa >= 0.6: undecided, about {labels_for(kappa, 0.6, 0.95):,} more labels would"
        in out
    )
    assert "gate: tie_rate <= 0.5: held\n" in out
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == files
    assert (
        main(["plan", "gate={agreement/accuracy: '>= 0.9'}", "--labels", "run", "--width", "1"])
        == 0
    )
    out = capsys.readouterr().out
    assert "gate: agreement/accuracy >= 0.9: undecided, about" in out
    assert "agreement/kappa >= 0.6" not in out
    assert rows["agreement/accuracy"][:30] in out
    assert " 0\n" in out


def test_a_run_without_labels_says_how_many_are_needed_first(make_run, capsys):
    make_run([None] * 100)
    assert main(["plan", "--labels", "run"]) == 0
    assert capsys.readouterr().out.startswith("Label about 170 pairs first")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--labels", "nowhere"], "nowhere: no such folder"),
        (["--labels", "run", "--width", "0"], "'0' is not a number above 0"),
        (["--labels", "run", "--width", "nan"], "'nan' is not a number above 0"),
        (["--labels", "run", "--width", "wide"], "'wide' is not a number above 0"),
        (["--labels", "run", "--pilot", "3"], "--labels cannot be used with --pilot"),
        (["--labels", "run", "-m"], "--labels cannot be used with --multirun"),
        (["--labels", "run", "judge=gpt-4o"], "judge: cannot be changed here"),
        (["--labels", "run", "study.yaml"], "study.yaml: is not an override"),
        (["--labels", "run", "gate={agreement/kapa: '>= 0.5'}"], "did you mean 'agreement/kappa'?"),
        (
            ["--labels", "run", "gate={nonsense: '>= 0.5'}"],
            "choose from agreement/ac1, agreement/accuracy, ",
        ),
    ],
)
def test_a_mistake_is_one_line(make_run, capsys, words, complaint):
    make_run()
    assert main(["plan", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
    assert len(line) < 1000


NONE = "{model: nosuch/x}"
KNOWN = "judge=gpt-4o-mini"
DOORS = {
    "judge": ("judge.model=nosuch/x",),
    "panel": (f"judge.judges=[{NONE},{{model: openai/gpt-4o-mini}}]",),
    "cascade": ("judge=cascade", f"judge.judges=[{NONE},{{model: openai/gpt-4o-mini}}]"),
    "third pass": ("swap=third_pass", f"+swap.arbiter={NONE}"),
    "rewriter": (f"+probe.rewriter={NONE}",),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_plan_refuses_it(here, capfd, door):
    (here / "rows.csv").write_text("id,prompt,response_a,response_b\n1,?,x,y\n", "utf-8")
    words = (KNOWN, *DOORS[door], "dataset=file", "dataset.path=rows.csv")
    assert (
        "LiteLLM does not know the provider of 'nosuch/x'"
        in call_main(capfd, "plan", *words, status=1).line()
    )


@pytest.fixture
def litellm():
    return load_litellm()


def test_judges_of_listed_providers_are_known_to_litellm(litellm, monkeypatch):
    known = {getattr(name, "value", name) for name in litellm.provider_list}
    monkeypatch.setitem(sys.modules, "litellm", None)  # importing it fails
    for name in (
        *("anthropic", "azure", "bedrock", "gemini", "hosted_vllm", "mistral", "ollama", "openai"),
        "openrouter",
    ):
        check_provider(JudgeConfig(model=f"{name}/unlisted"))
        assert name in known


def test_a_plan_refuses_no_provider_that_a_call_takes(litellm):
    names = {getattr(name, "value", name) for name in litellm.provider_list} - {
        "github_copilot",
        "chatgpt",
    }
    refused = []
    for name in sorted(names):
        try:
            check_provider(JudgeConfig(model=f"{name}/x"))
        except JudgeSetupError:
            refused.append(name)
    for name in refused:
        with pytest.raises(JudgeSetupError):
            resolve_target(litellm, JudgeConfig(model=f"{name}/x"))
    assert len(refused) < 3


def test_a_provider_that_is_registered_in_the_process_is_known(litellm, monkeypatch):
    with pytest.raises(JudgeSetupError, match="does not know the provider"):
        check_provider(JudgeConfig(model="registered-here/x"))
    handler = {"provider": "registered-here", "custom_handler": litellm.CustomLLM()}
    monkeypatch.setattr(litellm, "custom_provider_map", [*litellm.custom_provider_map, handler])
    check_provider(JudgeConfig(model="registered-here/x"))


def test_without_the_price_list_litellm_decides(litellm, monkeypatch):
    monkeypatch.setattr(pricing, "_FILE", "moved.json")
    pricing.price_list.cache_clear(), litellm_transport._listed_providers.cache_clear()
    try:
        check_provider(JudgeConfig(model="anthropic/unlisted"))
        with pytest.raises(JudgeSetupError):
            check_provider(JudgeConfig(model="nosuch/x"))
    finally:
        pricing.price_list.cache_clear(), litellm_transport._listed_providers.cache_clear()


@pytest.mark.parametrize(
    "judge",
    [
        {"model": "nosuch/x", "api_base": "http://127.0.0.1:1/v1"},
        {"model": "simulated/good"},
        {"model": "local/smollm2"},
        {"model": "gpt-4o-mini"},
        {"model": "openai/unlisted"},
        {"model": "nosuch/x", "transport": "other"},
    ],
)
def test_other_judges_are_left_alone(judge):
    check_provider(JudgeConfig(**judge))


@pytest.mark.parametrize("model", ["nosuch/x", "x"])
def test_a_call_and_a_plan_refuse_alike(litellm, model):
    config = JudgeConfig(model=model)
    with pytest.raises(JudgeSetupError) as called:
        resolve_target(litellm, config)
    with pytest.raises(JudgeSetupError) as planned:
        check_provider(config)
    assert str(planned.value) == str(called.value)
