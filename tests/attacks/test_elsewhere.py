"""Configs from elsewhere that name servers, paths and parameters: nothing that the user has leaves this machine."""

import json
import shutil
import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import evalkit
from evalkit.cli import main
from evalkit.config import RunConfig
from evalkit.config.kinds import Kind, fields_of
from evalkit.core.errors import EvalkitError
from evalkit.runs import read_run
from evalkit.serving.folder import _content_hash, write_judge
from tests.support.command_line import run_once
from tests.support.fake_provider import completion
from tests.support.provider_play import ANSWER

SECRET = "Pl4nted"
FETCHED = "fetched.csv"
"""The name of data that is on another server."""
VARIABLES = {
    name: f"{SECRET}{number:02d}-x9Kq2LmZ7Rv4Ty8W"
    for number, name in enumerate(
        ("ANTHROPIC_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_API_KEY",
         "DATABASE_URL", "GITHUB_TOKEN", "HF_TOKEN", "HOSTED_VLLM_API_KEY", "LITELLM_PROXY_API_KEY",
         "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "OLLAMA_API_KEY",
         "OPENAI_API_KEY", "OPENAI_CUSTOM_HEADERS", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID", "PGPASSWORD",
         "VERTEXAI_PROJECT")
    )
}  # fmt: skip
FILES = {
    ".aws/credentials": "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
    ".netrc": "machine 127.0.0.1 login {} password {}\n",
    ".pgpass": "127.0.0.1:*:*:*:{}\n",
    "adc.json": '{{"type": "authorized_user", "refresh_token": "{}"}}\n',
}
JUDGED = "id,trace_id,prompt,response_a,response_b,winner,order,label\n" + "".join(
    f"{n},tr-{n},Name a prime.,7,9,{'AB'[n % 3 > 0]},{order},{'AB'[n % 2]}\n"
    for n in range(40)
    for order in ("ab", "ba")
)
SERVERS = ("judge", "swap.arbiter", "probe.rewriter")


class Listener:
    """A server that keeps each byte it gets, and answers as OpenAI does."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def serve(self) -> None:
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": json.dumps(ANSWER)},
        }
        body = json.dumps(completion([choice])).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(0.5)
                try:
                    self.received.append(connection.recv(2**20))
                    connection.sendall(head % len(body) + body)
                except OSError:
                    continue

    def leaked(self) -> list[bytes]:
        """Return what holds a planted value, or asks for data that only a file from elsewhere names."""
        marks = (SECRET.encode(), FETCHED.encode())
        return [request for request in self.received if any(mark in request for mark in marks)]


@contextmanager
def listening() -> Any:
    listener = Listener()
    thread = threading.Thread(target=listener.serve, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.socket.shutdown(socket.SHUT_RDWR)
        listener.socket.close()
        thread.join()


@pytest.fixture
def listener():
    with listening() as one:
        yield one


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    (folder / "judged.csv").write_text(JUDGED, "utf-8")
    words = ["generic", "judged.csv", "tracking=none", "scoring.bootstrap=20", "hydra.run.dir=run"]
    run_once(folder, "import", *words)
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, finished):
    """The user's folder, with credentials in the environment and at home, and a folder of somebody else's."""
    home = tmp_path / "home"
    for name, text in FILES.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{}", f"{SECRET}-file-8Hn3Kd"), "utf-8")
        file.chmod(0o600)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(home / "adc.json"))
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Own: {SECRET}-header-5Tg")
    monkeypatch.delenv("EVALKIT_STORE")
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "theirs").mkdir()
    shutil.copytree(finished / "run", tmp_path / "theirs" / "run")
    monkeypatch.chdir(folder)
    return folder


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return a config that sets one key."""
    first, _, rest = key.partition(".")
    return {first: nested(rest, value)} if rest else {first: value}


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = merged(found[key], value) if both else value
    return found


def judged_by(key: str, model: str, **values: Any) -> dict[str, Any]:
    """Return a config whose judge, arbiter or rewriter has a model and other keys."""
    own = nested(key, {"model": model, **values})
    judge = {} if key == "judge" else {"judge": {"model": "simulated/good"}}
    third = {"swap": {"policy": "both", "resolve": "third_pass"}} if key == "swap.arbiter" else {}
    # Without probes of its own, an audit takes the standard ones, which need no rewriter.
    probes = {"probe": {"probes": {"paraphrase": {}}}} if key == "probe.rewriter" else {}
    return merged(judge, third, probes, own)


def attacks(listener: Listener, home: Path) -> list[dict[str, Any]]:
    """Return configs that use each kind of field to send, read or write what they should not."""
    url = f"http://{listener.address}"
    elsewhere = str(home / "written.sqlite")
    adc = {
        "type": "external_account",
        "audience": "x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{url}/token",
        "credential_source": {"file": str(home / ".aws" / "credentials")},
    }
    params = [
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", {"aws_sts_endpoint": url, "aws_role_name": "r",
         "aws_session_name": "s", "aws_web_identity_token": "oidc/env/OPENAI_API_KEY"}),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", {"aws_bedrock_runtime_endpoint": url}),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", {"aws_region_name": f"{listener.address}/#"}),
        ("vertex_ai/gemini-2.0-flash", {"vertex_credentials": adc, "vertex_project": "p"}),
        ("vertex_ai/gemini-2.0-flash", {"vertex_credentials": str(home / "adc.json")}),
        ("vertex_ai/gemini-2.0-flash", {"vertex_location": f"{listener.address}/#"}),
        ("openai/x", {"fallbacks": [{"model": "openai/y", "api_base": url}]}),
        ("openai/x", {"extra_body": {"fallbacks": [{"model": "openai/y", "api_base": url}]}}),
        ("openai/x", {"extra_body": {"extra_body": {"extra_body": {"api_base": url}}}}),
        ("openai/x", {"API_BASE": url}), ("openai/x", {"base_url": url}), ("openai/x", {"api_Base": url}),
        ("openai/x", {"custom_llm_provider": "ollama"}), ("openai/x", {"model_list": [{"api_base": url}]}),
        ("openai/x", {"user": "os.environ/OPENAI_API_KEY"}), ("openai/x", {"metadata": {"x": url}}),
        ("openai/x", {"stop": [url]}), ("openai/x", {"organization": "os.environ/PGPASSWORD"}),
        ("azure/x", {"azure_ad_token": "oidc/env/OPENAI_API_KEY", "api_version": "v"}),
    ]  # fmt: skip
    found = [judged_by(key, model, params=own) for key in SERVERS for model, own in params]
    for key in SERVERS:
        for model in ("openai/x", "anthropic/x", "ollama/x", "hosted_vllm/x", "litellm_proxy/x", "gemini/x", "azure/x",
                      "bedrock/x", "cohere_chat/x", "mistral/x", "custom_openai/x", "x"):  # fmt: skip
            found.append(judged_by(key, model, api_base=f"{url}/v1"))  # noqa: PERF401
        found += [
            judged_by(key, "openai/x", api_base=f"{url}/v1", transport="direct"),
            judged_by(key, f"huggingface/{url}/x"),
            judged_by(key, f"bedrock/arn:aws:bedrock:{listener.address}/#:1:x/y"),
        ]
    found.append(
        {"judge": {"judges": [{"model": "simulated/good"}, {"model": "cohere/x", "api_base": url}]}}
    )
    simulated = {"judge": {"model": "simulated/good"}}
    found += [
        merged(simulated, {"store": {"url": text}})
        for text in (f"postgresql://me@{listener.address}/x", f"postgresql:///x?host=127.0.0.1&port={listener.port}",
                     f"POSTGRESQL://{listener.address}/x", elsewhere, f"sqlite:///{elsewhere}", "~/written.sqlite",
                     "../home/written.sqlite", f"sqlite:////{elsewhere}")
    ]  # fmt: skip
    found += [
        merged(simulated, {"tracking": {"uri": text, "enabled": True}})
        for text in (url, f"HTTP://{listener.address}", f"postgresql://me@{listener.address}/x",
                     f"sqlite:///{elsewhere}", "databricks", f"file://{elsewhere}", "sqlite:///../home/x.db")
    ]  # fmt: skip
    reads = [
        str(home / ".aws" / "credentials"),
        "~/.netrc",
        "../home/.pgpass",
        str(home / "adc.json"),
    ]
    for text in reads:
        found += [
            merged(judged_by("judge", "openai/x", api_base=f"{url}/v1"), nested(key, value))
            for key, value in (("dataset", {"path": text, "format": "csv"}), ("prompt.template", text),
                               ("rubric.examples_path", text), ("dataset.reading", text),
                               ("dataset.join", {"m": {"path": text, "by": "id"}}))
        ]  # fmt: skip
    remote = [
        f"{scheme}{listener.address}/{FETCHED}"
        for scheme in (
            *("http://", "HTTP://", "s3://", "ftp://", "hdfs://", "webhdfs://", "gs://", "//"),
        )
    ]
    for text in (*remote, f"file://{home}/.aws/credentials", f"hf://datasets/{FETCHED}"):
        found += [
            merged(judged_by("judge", "openai/x", api_base=f"{url}/v1"), nested(key, value))
            for key, value in (("dataset", {"path": text}), ("dataset", {"path": text, "format": "parquet"}),
                               ("prompt.template", text), ("dataset.join", {"m": {"path": text, "by": "id"}}))
        ]  # fmt: skip
    found += [
        merged(judged_by("judge", "openai/x", api_base=f"{url}/v1"), {"criteria": {"one": {"description": text}}})
        for text in ("${oc.env:DATABASE_URL}", "${oc.env:AWS_SESSION_TOKEN}", "${oc.decode:${oc.env:DATABASE_URL}}",
                     "${oc.env:${oc.env:NOTHING,DATABASE_URL}}", "${oc.env:NOTHING,${oc.env:DATABASE_URL}}")
    ]  # fmt: skip
    found.append(merged(simulated, {"tracking": {"params": {"server": url}}}))
    return found


def harmless(listener: Listener) -> dict[str, Any]:
    """Return a config that may be used: if it is not, a door is shut for every config, and no attack is tried."""
    return judged_by("judge", "openai/x", api_base=f"http://{listener.address}/v1")


QUICK = [
    *("tracking=none", "scoring.bootstrap=20", "dataset.limit=1", "runner.retries=0"),
    "runner.timeout=2",
]
EXPECTED = {"reproduce": (4,), "export": (1,)}
"""What differs is found; and no trace can be assessed, because runs are not recorded."""
SENDING = ("run", "audit", "watch", "doctor")
LIMITS = {"retries": 0, "timeout": 2.0, "budget_calls": 2}


def words_of(command: str, file: Path, config: dict[str, Any]) -> list[str]:
    """Return the words of a command on a file, without repeating what the file sets."""
    chosen = [word for word in QUICK if not (word.startswith("tracking") and "tracking" in config)]
    return [*command.split(), str(file), *chosen]


def reached(command: str, status: int, listener: Listener) -> bool:
    """Return whether a command did with the config that may be used what it does."""
    if command in SENDING:
        # This server answers in one way only, which is no verdict of each mode.
        return bool(listener.received) and status in (0, 2)
    return status in EXPECTED.get(command, (0,))


def written(folder: Path) -> list[str]:
    """Return the files that hold a planted value, and those that were written at home."""
    found = [
        str(file)
        for file in folder.rglob("*")
        if file.is_file() and SECRET.encode() in file.read_bytes()
    ]
    home = folder.parent / "home"
    return found + [str(file) for file in home.rglob("*written*")] + [*map(str, home.glob("*.db"))]


def judged_here(run: Path) -> None:
    """Let a run claim that its judge was asked by evalkit, as that of somebody else can."""
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    (run / "manifest.json").write_text(json.dumps({**manifest, "imported": None}), "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "place"),
    [
        *(("run", "here"), ("run", "theirs"), ("plan", "here")),
        *(("doctor", "theirs"), ("audit", "here"), ("watch", "theirs")),
    ],
)
def test_a_study_sends_reads_and_writes_nothing_of_the_user(
    here, listener, command, place, capsys, thorough
):
    folder = here.parent / place
    every = attacks(listener, here.parent / "home")
    most = (command, place) == ("run", "here")
    step = (1 if most else 7) if thorough else (9 if most else 31)
    for number, config in enumerate([harmless(listener), *every[::step]]):
        file = folder / f"study{number}.yaml"
        file.write_text(yaml.safe_dump(config), "utf-8")
        status = main(words_of(command, file, config))
        out = capsys.readouterr()
        file.unlink()
        assert not listener.leaked(), (config, listener.leaked()[0])
        assert SECRET not in out.out + out.err, config
        assert "Traceback" not in out.err, (config, out.err)
        assert written(here) == [], config
        assert status != 0 or command in ("doctor", "plan") or listener.received, (config, out.err)
        assert number > 0 or reached(command, status, listener), out.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["run", "reproduce", "score", "track", "export", "align", "label", "compare", "register"],
)
def test_a_run_folder_sends_reads_and_writes_nothing_of_the_user(
    here, listener, command, capsys, thorough
):
    run = here.parent / "theirs" / "run"
    shutil.copytree(run, here.parent / "theirs" / "other")
    (here / "labels.csv").write_text("id,annotator,label\n0,me,A\n", "utf-8")
    judged_here(run)
    original = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    original["dataset"]["path"] = "cases.jsonl"
    every = attacks(listener, here.parent / "home")
    most = command == "run"
    step = (1 if most else 7) if thorough else (17 if most else 37)
    for number, config in enumerate([harmless(listener), *every[::step]]):
        values = {
            **original,
            **{name: merged(original.get(name) or {}, part) for name, part in config.items()},
        }
        values["judge"] = config["judge"]
        (run / "config.yaml").write_text(yaml.safe_dump(values), "utf-8")
        words = {
            "run": words_of("run", run / "config.yaml", config),
            "reproduce": ["reproduce", str(run)],
            "score": ["score", str(run), "scoring.seed=3"],
            "track": ["track", str(run)],
            "export": ["export", str(run), "--to", "mlflow-assessments"],
            "align": ["align", str(run), "tune=[threshold]"],
            "label": ["label", str(run), "labels.csv"],
            "compare": ["compare", str(run), str(run.parent / "other"), "bootstrap=20"],
            "register": ["export", str(run), "--to", "judge", "--output", "j", "--register", "x"],
        }[command]
        status = main(words)
        out = capsys.readouterr()
        assert not listener.leaked(), (config, listener.leaked()[0])
        assert SECRET not in out.out + out.err, config
        assert "Traceback" not in out.err, (config, out.err)
        assert written(here) == [], config
        assert number > 0 or reached(command, status, listener), (status, out.err)


@pytest.mark.slow
def test_an_experiment_sends_reads_and_writes_nothing_of_the_user(here, listener, capsys, thorough):
    folder = here / "conf" / "experiment"
    folder.mkdir(parents=True)
    every = attacks(listener, here.parent / "home")
    for config in [harmless(listener), *every[:: 5 if thorough else 23]]:
        text = "# @package _global_\n" + yaml.safe_dump(config)
        (folder / "stolen.yaml").write_text(text, "utf-8")
        main(words_of("run", "experiment=stolen", config))
        (folder / "stolen.yaml").unlink()
        out = capsys.readouterr()
        assert listener.received, "the first config may be used"
        assert not listener.leaked(), (config, listener.leaked()[0])
        assert SECRET not in out.out + out.err, config
        assert "Traceback" not in out.err, (config, out.err)
        assert written(here) == [], config


@pytest.mark.slow
def test_a_reading_sends_reads_and_writes_nothing_of_the_user(here, listener, capsys, thorough):
    (here / "judged.csv").write_text(JUDGED, "utf-8")
    words = ["check", "judged.csv", "--judge", "winner", "--label", "label", "scoring.bootstrap=20"]
    main([*words, "--save", "reading.yaml"])
    capsys.readouterr()
    own = yaml.safe_load((here / "reading.yaml").read_text("utf-8"))
    every = attacks(listener, here.parent / "home")
    assert main(["check", "judged.csv", "--reading", "reading.yaml"]) == 0
    for config in every[:: 5 if thorough else 29]:
        for reading in (config, merged(own, config)):
            theirs = here.parent / "theirs" / "reading.yaml"
            theirs.write_text(yaml.safe_dump(reading), "utf-8")
            main(["check", "judged.csv", "--reading", str(theirs)])
            out = capsys.readouterr()
            assert not listener.leaked(), (config, listener.leaked()[0])
            assert SECRET not in out.out + out.err, config
            assert "Traceback" not in out.err, (config, out.err)
            assert written(here) == [], config


@pytest.mark.slow
def test_an_exported_judge_sends_reads_and_writes_nothing_of_the_user(here, listener, thorough):
    run = here.parent / "theirs" / "run"
    judged_here(run)
    folder = here.parent / "theirs" / "judge"
    write_judge(read_run(run), folder)
    original = yaml.safe_load((folder / "judge.yaml").read_text("utf-8"))
    trust = json.loads((folder / "trust.json").read_text("utf-8"))
    every = attacks(listener, here.parent / "home")
    for config in [harmless(listener), *every[:: 1 if thorough else 4]]:
        values = merged(original, config) | {"judge": config["judge"]}
        (folder / "judge.yaml").write_text(yaml.safe_dump(values), "utf-8")
        files = ("judge.yaml", "prompts.json", "schemas.json")
        contents = {name: (folder / name).read_bytes() for name in files}
        # Who writes a judge can write a hash that fits.
        claimed = {**trust, "content_hash": _content_hash(contents)}
        (folder / "trust.json").write_text(json.dumps(claimed), "utf-8")
        try:
            judge = evalkit.load_judge(folder, runner=LIMITS, store={"mode": "off"})
            judge.sync(prompt="Name a prime.", response_a="7", response_b="9")
        except EvalkitError as error:
            assert SECRET not in str(error)  # noqa: PT017
        assert listener.received, "the first config may be used"
        assert not listener.leaked(), (config, listener.leaked()[0])
        assert written(here) == [], config


@pytest.mark.slow
def test_a_judge_in_a_folder_sends_reads_and_writes_nothing_of_the_user(here, listener, thorough):
    run = here.parent / "theirs" / "run"
    original = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    judged_here(run)
    every = attacks(listener, here.parent / "home")
    for config in [harmless(listener), *every[:: 1 if thorough else 4]]:
        values = {
            **original,
            **{name: merged(original.get(name) or {}, part) for name, part in config.items()},
        }
        values["judge"] = config["judge"]
        (run / "config.yaml").write_text(yaml.safe_dump(values), "utf-8")
        try:
            judge = evalkit.load_judge(run, runner=LIMITS, store={"mode": "off"})
            judge.sync(prompt="Name a prime.", response_a="7", response_b="9")
        except EvalkitError as error:
            assert SECRET not in str(error)  # noqa: PT017
        assert listener.received, "the first config may be used"
        assert not listener.leaked(), (config, listener.leaked()[0])
        assert written(here) == [], config


def test_every_field_that_opens_something_is_attacked(tmp_path):
    listener = Listener()
    listener.socket.close()
    tried = attacks(listener, tmp_path)
    for item in fields_of(RunConfig):
        if item.kinds & {Kind.SERVER, Kind.WRITTEN, Kind.FREE, Kind.MODEL, Kind.READ}:
            assert any(_sets(config, item.key) for config in tried) or item.key in OTHERWISE, (
                item.key
            )


OTHERWISE = {
    "judge.template": "as prompt.template",
    "swap.arbiter.template": "as prompt.template",
    "probe.rewriter.template": "as prompt.template",
    "prompt.language": "as prompt.template",
    "gate.no_worse_than.run": "reads a run folder, of which it shows a metric",
    "runner.options": "tests/attacks/test_config_code.py",
}


def _sets(config: Any, key: str) -> bool:
    name, _, rest = key.partition(".")
    if name == "join":
        return "join" in config
    if not isinstance(config, dict) or name not in config:
        return False
    return _sets(config[name], rest) if rest else True
