"""What a config from elsewhere may name, and what the user trusts."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.resources import shipped
from evalkit.guard.credentials import is_withheld
from evalkit.guard.environment import may_read
from evalkit.guard.hosts import host_of
from evalkit.guard.known_hosts import keep, kept, read_entries, trust_file, trusting
from evalkit.guard.policy import Origin, UntrustedError, check, origin_of
from evalkit.guard.rules import risky_params

CRITERIA = {"one": "is it good?"}


def config(**sections: Any) -> RunConfig:
    judge = {"model": "simulated/good", **sections.pop("judge", {})}
    return RunConfig.model_validate({"judge": judge, "criteria": CRITERIA, **sections})


@pytest.mark.parametrize(
    "address",
    [
        "http://user@gateway.example/v1", "http://user:word@gateway.example", "http://gateway.example\\@evil.example",
        "http://gateway.example#@evil.example", "http://gateway.example?x=@evil", "http://gateway.example%2eevil.example",
        "http://127.1/v1", "http://0x7f000001", "http://2130706433", "http://0177.0.0.1", "http:///v1", "http:gateway",
        "//gateway.example", "http://gate way.example", "http://gateway.example:99999", "http://[::1", "http://[fe80::1%25lo]",
        "http://gateway.example\n.evil", "\thttp://gateway.example", "http://gateway..example", "http://-a.example",
    ],
)  # fmt: skip
def test_an_address_that_two_libraries_could_read_differently_is_none(address):
    assert host_of(address) is None


@pytest.mark.parametrize(
    ("address", "shown", "loopback"),
    [
        ("http://LocalHost:8000/v1", "localhost:8000", True),
        ("http://localhost.:8000", "localhost:8000", True),
        ("http://127.0.0.2", "127.0.0.2", True),
        ("http://[::1]:9/v1", "[::1]:9", True),
        ("http://[0:0:0:0:0:0:0:1]", "[::1]", True),
        ("http://localhost.evil.example", "localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", "127.0.0.1.evil.example", False),
        ("http://[::ffff:8.8.8.8]", "[::ffff:808:808]", False),
        ("http://0.0.0.0:8000", "0.0.0.0:8000", False),
        ("https://GATEWAY.example.:443/v1", "gateway.example", False),
        ("https://gatewаy.example", "xn--gatewy-7nf.example", False),
    ],
)
def test_a_host_has_one_spelling(address, shown, loopback):
    host = host_of(address)
    assert host.is_loopback == loopback
    if "ffff" not in address:
        assert str(host) == shown


def test_a_server_of_this_machine_gets_no_variable_and_another_is_refused():
    own = config(judge={"model": "openai/x", "api_base": "http://127.0.0.1:8123/v1/"})
    check(own, Origin())
    assert is_withheld("http://127.0.0.1:8123/v1")
    check(own, Origin(repeated={"judge.api_base": ["http://127.0.0.1:8123/v1/"]}))
    assert not is_withheld("http://127.0.0.1:8123/v1")
    for model in ("vertex_ai/x", "bedrock/x", "anthropic/x", "claude-3-haiku"):
        loopback = config(judge={"model": model, "api_base": "http://127.0.0.1:8123/v1/"})
        with pytest.raises(UntrustedError, match=r"--trust 127\.0\.0\.1:8123"):
            check(loopback, Origin())


def test_trust_is_kept_with_the_credentials_that_a_host_may_get(monkeypatch):
    far = config(judge={"model": "openai/x", "api_base": "https://gateway.example/v1"})
    with pytest.raises(
        UntrustedError, match=r"OPENAI_API_KEY.*add --trust gateway\.example \(once"
    ):
        check(far, Origin())
    with trusting(["Gateway.Example."], keeps=True):
        check(far, Origin())
    check(far, Origin())
    content = json.loads(trust_file().read_text("utf-8"))
    assert content["hosts"] == {"gateway.example": ["OPENAI_API_KEY"]}
    assert trust_file().stat().st_mode & 0o77 == 0
    claude = config(judge={"model": "anthropic/x", "api_base": "https://gateway.example/v1"})
    with pytest.raises(UntrustedError, match="ANTHROPIC_API_KEY"):
        check(claude, Origin())
    monkeypatch.setenv("EVALKIT_TRUST", "other.example, gateway.example:443=ANTHROPIC_API_KEY")
    check(claude, Origin())
    tracking = config(tracking={"uri": "https://gateway.example"})
    with pytest.raises(UntrustedError, match="MLFLOW_TRACKING_PASSWORD"):
        check(tracking, Origin())
    with trusting(["gateway.example:8443"]), pytest.raises(UntrustedError):
        check(tracking, Origin())
    with trusting(["gateway.example"]):
        check(tracking, Origin())


def test_a_damaged_file_of_trust_is_reported():
    path = keep(read_entries(["env:DATA"], ""))
    assert may_read("DATA")
    for text in ("{", "[]", '{"version": 9}', '{"version": 1, "hosts": {"a": 1}}', "[" * 9999):
        path.write_text(text, "utf-8")
        with pytest.raises(ConfigError, match="the file is damaged"):
            kept()


def test_what_shipped_options_set_needs_no_trust():
    import yaml

    for file in sorted((shipped("conf") / "judge").rglob("*.yaml")):
        values = yaml.safe_load(file.read_text("utf-8"))
        values = values.get("judge", values)
        assert list(risky_params(values.get("params") or {})) == [], file


@pytest.mark.parametrize(
    "params",
    [
        {"top_p": 0.9, "stop": ["a"]}, {"logit_bias": {"1": -100}}, {"reasoning_effort": "low"},
        {"extra_body": {"top_k": 5, "chat_template_kwargs": {"enable_thinking": False}}},
        {"aws_region_name": "us-east-1"},
        {"vertex_location": "europe-west4"}, {"grammar": 'root ::= "A"'},
    ],
    ids=str,
)  # fmt: skip
def test_sampling_and_output_parameters_are_harmless(params):
    assert list(risky_params(params)) == []


@pytest.mark.parametrize(
    "params",
    [
        {"api_base": "x"}, {"TOP_P": 1}, {"user": "os.environ/KEY"}, {"user": " OIDC/env/KEY"},
        {"stop": [["http://x"]]},
        {"logit_bias": {"http://x": 1}}, {"extra_body": {"base_url": "x"}}, {"extra_body": "x"},
        {"temperature": {"a": 1}},
        {"aws_region_name": "us-east-1.evil.example/"}, {"aws_region_name": 1}, {"metadata": {}}, {"tоp_p": 1},
    ],
    ids=str,
)  # fmt: skip
def test_any_other_parameter_is_refused_and_can_be_repeated(params):
    judged = config(judge={"model": "openai/x", "params": params})
    with pytest.raises(ConfigError, match="is not a parameter that a file may set") as error:
        check(judged, Origin())
    key = error.value.where
    value = judged.judge.params
    for part in key.split(".")[2:]:
        value = value[part]
    check(judged, Origin(repeated={key: [value]}))


def test_a_file_from_elsewhere_reads_below_its_own_folder(tmp_path, monkeypatch):
    here = tmp_path / "here"
    theirs = tmp_path / "theirs"
    for folder in (here, theirs / "data"):
        folder.mkdir(parents=True)
    (tmp_path / "outside.csv").write_text("x", "utf-8")
    (theirs / "own.csv").write_text("x", "utf-8")
    (theirs / "link.csv").symlink_to(tmp_path / "outside.csv")
    (theirs / "data" / "inner.csv").symlink_to("../../outside.csv")
    (here / "mine.csv").write_text("x", "utf-8")
    monkeypatch.chdir(here)
    origin = origin_of(theirs / "study.yaml")
    for good in (
        theirs / "own.csv",
        "../theirs/own.csv",
        theirs / "*.txt",
        "absent.csv",
        "-",
        "evalkit:sample.jsonl",
    ):
        if "*" not in str(good):
            check(config(dataset={"path": str(good)}), origin)
    outside = tmp_path / "outside.csv"
    bad = (outside, "../outside.csv", "mine.csv", theirs / "link.csv", theirs / "data", theirs / "d*" / "*.csv",
           "/", "~", "file:///etc/passwd", "s3://bucket/x", theirs / ".." / "outside.csv")  # fmt: skip
    for path in bad:
        dataset = {"path": str(path)}
        with pytest.raises(ConfigError, match=r"dataset\.path"):
            check(config(dataset=dataset), origin)
        check(config(dataset=dataset), Origin(origin.folder, {"dataset.path": [str(path)]}))
    joined = {"path": "-", "format": "csv", "join": {"m": {"path": str(outside), "by": "id"}}}
    with pytest.raises(ConfigError, match=r"dataset\.join\.m\.path"):
        check(config(dataset=joined), origin)


def test_a_file_of_the_users_project_reads_as_before_but_no_hidden_file(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "outside.csv").write_text("x", "utf-8")
    (here / "link.csv").symlink_to(tmp_path / "outside.csv")
    (here / "innocent.csv").symlink_to(tmp_path / ".aws" / "credentials")
    monkeypatch.chdir(here)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
    origin = origin_of(here / "study.yaml")
    assert origin.folder is None
    for path in (
        "mine.csv",
        "../outside.csv",
        str(tmp_path / "outside.csv"),
        "link.csv",
        str(tmp_path / "*.csv"),
    ):
        check(config(dataset={"path": path}), origin)
    for path in ("~/.netrc", "../.aws/credentials", "innocent.csv", ".env", "/proc/self/environ", "../adc.json",
                 "/etc/passwd", str(tmp_path / "*" / "credentials"), str(tmp_path / "[.]aws")):  # fmt: skip
        with pytest.raises(ConfigError, match=r"dataset\.path: a file names"):
            check(config(dataset={"path": path}), origin)


def test_writes_stay_below_the_current_folder(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (here / "out").symlink_to(tmp_path)
    monkeypatch.chdir(here)
    for path in (
        "a.sqlite",
        "sqlite:///a.sqlite",
        str(here / "b" / "a.sqlite"),
        "sqlite:///:memory:",
    ):
        check(config(store={"url": path}), Origin())
    for path in ("../a.sqlite", "out/a.sqlite", "~/a.sqlite", "sqlite:////tmp/a.sqlite", "sqlite:a", "s3://x/y",
                 "file:/tmp/x", "sqlite:///a.sqlite?mode=rwc"):  # fmt: skip
        with pytest.raises(ConfigError, match=r"store\.url"):
            check(config(store={"url": path}), Origin())
        check(config(store={"url": path}), Origin(repeated={"store.url": [path]}))
    monkeypatch.setenv("EVALKIT_STORE", "../mine.sqlite")
    check(config(store={"url": "../mine.sqlite"}), Origin())


@pytest.mark.parametrize(
    ("name", "may"),
    [("HOME", True), ("SLURM_JOB_ID", True), ("SLURM_JWT", False), ("DATABASE_URL", False), ("home", False),
     ("OPENAI_API_KEY", False), ("DATA", False)],
)  # fmt: skip
def test_a_file_reads_only_harmless_variables(name, may):
    assert may_read(name) == may
    if not name.endswith("KEY"):
        assert may_read(name, [f"tracking.experiment=${{oc.env:{name}}}"])


def test_installed_and_own_values_differ_from_those_of_a_file():
    assert Path(origin_of(Path("/somewhere/experiments/s.yaml")).folder or "") == Path("/somewhere")
