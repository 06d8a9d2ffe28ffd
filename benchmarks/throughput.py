"""Judgments a second against a loopback server of fixed latency: evalkit by both
transports, LiteLLM alone, bare HTTP.

uv run python benchmarks/throughput.py [--runs 5] [--requests 500] [--latency 0.1] [--in-flight 64]

Everything is measured in one run, in turn, so that a busy machine slows all alike; a share is of
the limit N × latency ÷ in flight. `phase` is the judging phase, `whole` the process from start to
end. Each process imports anew. Where the limit is above 3 s only the phases are looked at. The
status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
MODEL = "openai/gpt-4o-mini"
CRITERIA = ("accuracy", "instruction following", "clarity")
ANSWERS = {
    "pointwise": {
        "scores": [
            {"criterion": c, "justification": "It says so.", "examples": [], "score": 4}
            for c in CRITERIA
        ],
        "summary": {"strengths": ["short"], "weaknesses": [], "suggestions": []},
    },
    "pairwise": {
        "comparison": [
            {"criterion": c, "reasoning": "It says so.", "winner": "A"}
            for c in CRITERIA
        ],
        "result": {"reasoning": "It says so.", "winner": "A", "confidence": 0.8},
    },
}
ENVIRONMENT = {
    **os.environ,
    "OPENAI_API_KEY": "none",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
LAYERS = (
    (
        "evaluator, prompts, parsing",
        (
            "/evalkit/evaluators",
            "/evalkit/evaluators/prompting",
            "/evalkit/evaluators/parsing",
            "/jinja2/",
        ),
    ),
    ("judge, ladder, reading", ("/evalkit/judges",)),
    ("engine", ("/evalkit/engine", "/evalkit/core", "/evalkit/core/types")),
    ("store", ("/evalkit/store", "sqlite3")),
    ("LiteLLM and OpenAI's client", ("/litellm/", "/openai/", "/tiktoken/")),
    (
        "HTTP",
        ("/aiohttp/", "/httpx/", "/httpcore/", "/yarl/", "/multidict/", "/anyio/"),
    ),
    ("waiting for the network", ("select.epoll",)),
    (
        "event loop, threads",
        ("/asyncio/", "threading", "/concurrent/", "selectors", "socket", "_thread"),
    ),
)
PLAIN_LITELLM = """
import asyncio, os, sys, time
began = time.perf_counter()
import litellm
imported = time.perf_counter() - began
async def main(base, n, at_once, messages):
    places = asyncio.Semaphore(at_once)
    async def one():
        async with places:
            await litellm.acompletion(
                model="openai/gpt-4o-mini", messages=messages, api_base=base, temperature=0, num_retries=0
            )
    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(n)))
    print(imported, time.perf_counter() - began)
"""
BARE_HTTP = """
import asyncio, sys, time, aiohttp
async def main(base, n, at_once, messages):
    places = asyncio.Semaphore(at_once)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def one():
            async with places, session.post(base + "/chat/completions", json={"messages": messages}) as response:
                await response.json()
        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(n)))
        print(0.0, time.perf_counter() - began)
"""
PLAIN_MLFLOW = """
import json, os, sys, time
uri, folder = sys.argv[1:]
import mlflow
from mlflow.entities import Metric
client = mlflow.MlflowClient(uri)
numbers = json.load(open(os.path.join(folder, "metrics.json")))["metrics"]
run = client.create_run(client.get_experiment_by_name("evalkit").experiment_id).info.run_id
found = [(f"{name}/{part}", one[part]) for name, one in numbers.items() for part in ("value", "low", "high")]
client.log_batch(run, metrics=[Metric(name, value, 0, 0) for name, value in found if value is not None])
client.log_artifacts(run, folder)
client.set_terminated(run)
print(0.0, 0.0)
"""
CALL = """
base, n, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
asyncio.run(main(base, n, at_once, [{"role": "user", "content": "Judge this. " * 150}]))
"""


@contextmanager
def server(
    latency: float, answer: Mapping[str, object] = ANSWERS["pointwise"]
) -> Iterator[str]:
    command = [
        sys.executable,
        str(HERE / "openai_server.py"),
        "--latency",
        str(latency),
        "--text",
        json.dumps(answer),
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.stdin.close()
        process.wait(10)


def dataset(folder: Path, requests: int, mode: str = "pointwise") -> None:
    """Write cases of so many requests: one for each response, or both orders of each pair."""
    with (folder / "cases.jsonl").open("w") as file:
        for i in range(requests if mode == "pointwise" else requests // 2):
            said = f"Answer {i}. " + "It is so. " * 60
            shown = (
                {"response": said}
                if mode == "pointwise"
                else {"responses": [said, said + "Is it?"]}
            )
            file.write(
                json.dumps({"id": f"c{i}", "prompt": f"Question {i}?", **shown}) + "\n"
            )


def words(
    base: str,
    folder: Path,
    at_once: int,
    transport: str,
    tracked: bool,
    runs: str = "mlflow.db",
) -> list[str]:
    mode = (
        "pairwise"
        if "responses" in (folder / "cases.jsonl").read_text()
        else "pointwise"
    )
    return [
        *(
            "run",
            "--overwrite",
            f"mode={mode}",
            "judge=openai_compatible",
            f"judge.model={MODEL}",
            f"judge.api_base={base}",
        ),
        *(
            f"judge.transport={transport}",
            f"dataset.path={folder / 'cases.jsonl'}",
            "dataset=jsonl",
        ),
        *(
            f"runner.concurrency={at_once}",
            f"hydra.run.dir={folder / 'run'}",
            f"store.url={folder / 'store.db'}",
        ),
        *(
            (f"tracking.uri=sqlite:///{folder / runs}",)
            if tracked
            else ("tracking=none",)
        ),
    ]


class Times:
    """Seconds of the judging phase, of the whole process and of processor time in it,
    run by run.
    """

    def __init__(self) -> None:
        self.phase: list[float] = []
        self.whole: list[float] = []
        self.processor: list[float] = []

    def run(self, command: list[str], folder: Path | None = None) -> str:
        """Run a process to its end and return what it printed."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.whole.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.processor.append(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        return done.stdout


def evalkit(
    base: str,
    folder: Path,
    at_once: int,
    transport: str,
    times: Times,
    *,
    tracked: bool,
    kept: bool,
    runs: str = "mlflow.db",
) -> None:
    for name in () if kept else ("store.db", "store.db-wal", "store.db-shm"):
        (folder / name).unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "evalkit",
        *words(base, folder, at_once, transport, tracked, runs),
    ]
    times.run(command, folder)
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    times.phase.append(manifest["timing"]["judging" if kept else "sending"])


def script(source: str, base: str, requests: int, at_once: int, times: Times) -> float:
    command = [sys.executable, "-c", source + CALL, base, str(requests), str(at_once)]
    imported, phase = (float(word) for word in times.run(command).split()[-2:])
    times.phase.append(phase)
    return imported


Named = tuple[str, str, bool, bool]
PHASES: tuple[Named, ...] = (
    ("direct", "direct", False, False),
    ("litellm", "litellm", False, False),
)
WHOLE: tuple[Named, ...] = (
    ("direct, MLflow", "direct", True, False),
    ("litellm, MLflow", "litellm", True, False),
    ("all stored", "litellm", False, True),
    ("all stored, MLflow", "litellm", True, True),
)
LONG = 3.0
# Whole processes of the quickest framework and of bare aiohttp, as the issue has them, measured on
# one machine.
QUICKEST, BARE = 4.2, 1.4


def measure(given: argparse.Namespace, folder: Path) -> int:
    requests = given.requests
    at_once = given.in_flight
    limit = requests * given.latency / at_once
    times: dict[str, Times] = {}
    imports: list[float] = []
    scoring: list[float] = []
    dataset(folder, requests, given.mode)
    with server(given.latency, ANSWERS[given.mode]) as base:
        if limit <= LONG:
            evalkit(
                base, folder, at_once, "direct", Times(), tracked=True, kept=False
            )  # makes MLflow's tables
        for _ in range(given.runs):
            script(
                BARE_HTTP,
                base,
                requests,
                at_once,
                times.setdefault("bare aiohttp", Times()),
            )
            for name, transport, tracked, kept in PHASES + (
                WHOLE if limit <= LONG else ()
            ):
                evalkit(
                    base,
                    folder,
                    at_once,
                    transport,
                    times.setdefault(name, Times()),
                    tracked=tracked,
                    kept=kept,
                )
            if limit <= LONG:
                (folder / "new.db").unlink(missing_ok=True)
                evalkit(
                    base,
                    folder,
                    at_once,
                    "direct",
                    times.setdefault("direct, new MLflow store", Times()),
                    tracked=True,
                    kept=False,
                    runs="new.db",
                )
            plain = times.setdefault("plain litellm.acompletion", Times())
            imports.append(script(PLAIN_LITELLM, base, requests, at_once, plain))
            if limit <= LONG:
                scoring.append(
                    json.loads((folder / "run" / "manifest.json").read_text())[
                        "timing"
                    ]["scoring"]
                )
                command = [
                    sys.executable,
                    "-c",
                    PLAIN_MLFLOW,
                    f"sqlite:///{folder / 'mlflow.db'}",
                    str(folder / "run"),
                ]
                times.setdefault("plain MLflow, the same files", Times()).run(
                    command, folder
                )
    print(
        f"{requests} requests, {given.latency:g} s, {at_once} in flight: limit {limit:.2f} s,"
        f" {requests / limit:.0f}/s"
    )
    print(
        f"median of {given.runs}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
    )
    print(
        "| | phase | a second | of limit | whole | processor | times bare aiohttp |\n| --- | --- |"
        " --- | --- | --- | --- | --- |"
    )
    bare = median(times["bare aiohttp"].whole)
    for name, found in times.items():
        cells = row(found, requests, None if "stored" in name else limit)
        print(f"| {name} | {cells} | {median(found.whole) / bare:.1f} |")
    reached = (
        long_targets(times, limit)
        if limit > LONG
        else targets(times, limit, requests, imports, scoring)
    )
    print("\n| target | here | |\n| --- | --- | --- |")
    for what, here, held in reached:
        print(f"| {what} | {here} | {'reached' if held else 'missed'} |")
    return int(not all(held for _, _, held in reached))


def row(found: Times, requests: int, limit: float | None) -> str:
    """Return one line's cells; without a limit nothing is sent, and the phase has no
    share of it.
    """
    phase = median(found.phase) if found.phase else None
    cells = (
        ["", "", ""]
        if phase is None
        else [f"{phase:.2f} s", f"{requests / phase:.0f}", ""]
    )
    if limit is not None and phase is not None:
        cells[2] = f"{limit / phase:.0%}"
    return " | ".join(
        [*cells, f"{median(found.whole):.2f} s", f"{median(found.processor):.2f} s"]
    )


Target = tuple[str, str, bool]


def long_targets(times: dict[str, Times], limit: float) -> list[Target]:
    shares = {name: limit / median(times[name].phase) for name in ("direct", "litellm")}
    return [
        (f"{name}: at least 90 % of the limit", f"{share:.0%}", share >= 0.9)
        for name, share in shares.items()
    ]


def targets(
    times: dict[str, Times],
    limit: float,
    requests: int,
    imports: list[float],
    scoring: list[float],
) -> list[Target]:
    def phase(name: str) -> float:
        return median(times[name].phase)

    def whole(name: str) -> float:
        return median(times[name].whole)

    share = limit / phase("direct")
    rate = requests / phase("litellm")
    times_bare = whole("direct") / whole("bare aiohttp")
    with_mlflow = whole("litellm, MLflow") / (
        median(imports) + phase("litellm, MLflow")
    )
    more = (
        whole("all stored, MLflow")
        - median(scoring)
        - whole("plain MLflow, the same files")
    )
    return [
        ("direct: at least 90 % of the limit", f"{share:.0%}", share >= 0.9),
        (
            (
                f"direct, whole: quicker than the quickest framework, {QUICKEST / BARE:.1f} × bare"
                " aiohttp"
            ),
            f"{times_bare:.1f} ×",
            times_bare < QUICKEST / BARE,
        ),
        ("LiteLLM: at least 400 a second", f"{rate:.0f}", rate >= 400),
        (
            (
                f"LiteLLM with MLflow, whole: at most 1.3 × (import alone, {median(imports):.2f} s,"
                " + phase)"
            ),
            f"{with_mlflow:.2f} ×",
            with_mlflow <= 1.3,
        ),
        (
            "all stored: at most 2 s more than scoring and MLflow alone",
            f"{more:.1f} s",
            more <= 2.0,
        ),
    ]


def profile(given: argparse.Namespace, folder: Path, transport: str) -> None:
    """Print the processor time of one judging phase by layer, under the profiler (which
    makes it slower).
    """
    from evalkit.cli.hydra_runner import split_study
    from evalkit.compose import DEFAULT, load_jobs
    from evalkit.workflows.run import judge_and_score

    os.environ.update(ENVIRONMENT)
    (folder / "store.db").unlink(missing_ok=True)
    with server(given.latency, ANSWERS[given.mode]) as base:
        _, overrides = split_study(
            words(base, folder, given.in_flight, transport, tracked=False)[1:]
        )
        [(_, config)] = load_jobs(
            DEFAULT,
            [w for w in overrides if not w.startswith(("hydra.", "--"))],
            sweep=False,
        )
        watch = cProfile.Profile()
        watch.enable()
        judge_and_score(config, folder / "profiled")
        watch.disable()
    by_layer = dict.fromkeys(
        [name for name, _ in LAYERS] + ["other (built-ins, imports, scoring)"], 0.0
    )
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(
        watch, stream=io.StringIO()
    ).stats.items():  # type: ignore[attr-defined]
        place = f"{file} {name}".replace("\\", "/")
        layer = next(
            (layer for layer, marks in LAYERS if any(mark in place for mark in marks)),
            None,
        )
        by_layer[layer or "other (built-ins, imports, scoring)"] += own
    print(f"\nprofile, {transport}: ms a request by layer")
    for layer, seconds in by_layer.items():
        print(f"  {layer:<38}{1000 * seconds / given.requests:7.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--mode", choices=("pointwise", "pairwise"), default="pointwise"
    )
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--profile", choices=("direct", "litellm"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not given.profile:
            return measure(given, Path(folder))
        dataset(Path(folder), given.requests, given.mode)
        profile(given, Path(folder), given.profile)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
