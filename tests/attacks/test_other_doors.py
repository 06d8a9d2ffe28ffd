"""Doors other than fields: search paths, cards of data sets, references in rows, netrc, kinds of values."""

import base64
import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest
import yaml

from evalkit.cli import main
from evalkit.cli.audit import audit_words
from evalkit.cli.hydra_runner import study_jobs
from evalkit.config import RunConfig
from evalkit.config.kinds import Kind, fields_of, values_of
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.datasets import sources
from evalkit.guard.known_hosts import trusting
from evalkit.guard.policy import Origin, check
from tests.attacks.test_elsewhere import listening
from tests.support.command_line import ROOT
from tests.support.thorough import some_of

ADDRESS = "http://listener.example:8123/v1"
CRITERIA = {"one": {"description": "is it good?"}}
JUDGE = {
    "model": "openai/x",
    "api_base": "https://api.openai.com/v1",
    "template": "pairwise",
    "params": {"top_p": 1},
}
FULL = {
    "judge": JUDGE,
    "criteria": CRITERIA,
    "prompt": {"template": "pairwise"},
    "rubric": {"examples_path": "examples.jsonl"},
    "swap": {"policy": "both", "resolve": "third_pass", "arbiter": {**JUDGE, "model": "openai/y"}},
    "probe": {"probes": {"paraphrase": {}}, "rewriter": {**JUDGE, "model": "openai/z"}},
    "dataset": {"path": "pairs.jsonl", "join": {"m": {"path": "more.csv", "by": "id"}}},
    "store": {"url": "store.sqlite"},
    "tracking": {"uri": "sqlite:///mlflow.db", "params": {}},
    "gate": {"no_worse_than": {"run": "runs/first"}},
    "runner": {"options": {}},
}
"""A config that sets each field that opens something, to a good value."""
BAD = {
    Kind.SERVER: ADDRESS,
    Kind.MODEL: f"huggingface/{ADDRESS}",
    Kind.READ: "../secret",
    Kind.WRITTEN: f"postgresql://{ADDRESS.partition('//')[2]}",
    Kind.FREE: {"api_base": ADDRESS},
}
PROGRAM_ONLY = {Kind.PROGRAM, Kind.TEXT}
"""Names of plug-ins are checked where they are looked up; a text opens nothing."""


def with_value(values, path, new):
    """Return a copy of nested mappings with another value at a path."""
    first, *rest = path
    inner = values.get(first) or {}
    return {**values, first: with_value(inner, rest, new) if rest else new}


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_each_field_that_opens_something_is_checked(here):
    """No key is forgotten: each field by its kind, with the listener's address, in a config that is good else."""
    (here / "secret").write_text("mine", "utf-8")
    origin = Origin(here / "theirs")
    good = RunConfig.model_validate(FULL)
    check(good, origin)
    opening = {
        item.key: kind for item in fields_of(RunConfig) for kind in item.kinds - PROGRAM_ONLY
    }
    # Judges of a panel have the keys of a judge.
    opening = {key: kind for key, kind in opening.items() if "judges" not in key}
    tried = set()
    for key, kind in opening.items():
        path = key.replace("join.", "join.m.").split(".")
        bad = BAD[kind]
        try:
            config = RunConfig.model_validate(with_value(FULL, path, bad))
        except ValueError:  # refused before it can open anything
            tried.add(key)
            continue
        with pytest.raises(ConfigError) as refused:
            check(config, origin)
        found = str(refused.value).replace(".0.", ".")
        assert found.startswith(".".join(path)), (key, refused.value)
        tried.add(key)
    assert tried == {*opening}


def test_texts_are_the_only_fields_that_pass_with_an_address(here):
    values = [one for one in values_of(RunConfig.model_validate(FULL)) if one.kind == Kind.TEXT]
    assert values
    assert {one.path[-1] for one in values}.isdisjoint(
        {"api_base", "uri", "url", "path", "template", "model", "run", "host", "endpoint", "file"}
    )


@pytest.mark.parametrize("folder", ["/elsewhere/conf", "file:///elsewhere/conf", "../home", "s3://bucket/conf",
                                    "pkg://evil", "~/.config"])  # fmt: skip
def test_a_search_path_leads_to_no_other_folder(here, folder, capsys, monkeypatch):
    home = here / "home"
    (home / ".config").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    folder = folder.replace("/elsewhere", str(home))
    (home / "conf").mkdir()
    study = here / "theirs" / "study.yaml"
    study.write_text(
        yaml.safe_dump({"defaults": ["config", "_self_"], "hydra": {"searchpath": [folder]}}),
        "utf-8",
    )
    assert main(["plan", str(study)]) == 1
    assert "hydra.searchpath: " in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/elsewhere/x.csv", "../x.csv", "a/../../x.csv", "http://listener.example/x.csv",
                                  "s3://bucket/x", "~/x", "zip://x.csv::http://a.example/x", "C:\\x"])  # fmt: skip
@pytest.mark.parametrize("form", [
    lambda path: {"configs": [{"config_name": "default", "data_files": path}]},
    lambda path: {"configs": [{"data_files": [{"split": "train", "path": [path]}]}]},
    lambda path: {"configs": [{"data_dir": path, "config_name": "x"}]},
])  # fmt: skip
def test_the_card_of_a_data_set_names_only_files_in_its_folder(here, path, form):
    card = here / "theirs" / "README.md"
    good = "data/*.csv"
    for text in (path, good):
        card.write_text(f"---\n{yaml.safe_dump(form(text))}---\n# Data\n", "utf-8")
        if text == good:
            sources._check_card(here / "theirs")
            continue
        with pytest.raises(DatasetError, match="which is not in its folder"):
            sources._check_card(here / "theirs")


@pytest.mark.slow
def test_no_row_of_a_data_set_opens_a_file_or_a_server(here, monkeypatch):
    """An image of a data set can be a path or a URL, which the library would read when it decodes it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    from evalkit.config import DatasetConfig

    with listening() as listener:
        url = f"http://{listener.address}/x.png"
        datasets.disable_progress_bars()
        rows = {"prompt": ["p"], "image": [{"bytes": b"", "path": url}]}
        saved = here / "theirs" / "saved"
        datasets.Dataset.from_dict(rows).save_to_disk(str(saved))
        info = json.loads((saved / "dataset_info.json").read_text("utf-8"))
        info["features"]["image"] = {"_type": "Image"}
        (saved / "dataset_info.json").write_text(json.dumps(info), "utf-8")
        config = DatasetConfig(path=str(here / "theirs" / "saved"), format="hf")
        ((place, row),) = sources.hub_rows(config)
        assert (row["prompt"], listener.received) == ("p", [])
        assert place.endswith(":row 1")


@pytest.mark.parametrize("transport", ["direct", "litellm"])
def test_no_transport_sends_a_password_of_netrc(here, transport, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    (here / ".netrc").write_text("machine 127.0.0.1 login me password Pl4nted-netrc\n", "utf-8")
    (here / ".netrc").chmod(0o600)
    monkeypatch.setenv("OPENAI_API_KEY", "Pl4nted-key-0123456789")
    monkeypatch.delenv("NETRC", raising=False)
    with listening() as listener:
        study = here / "theirs" / "study.yaml"
        judge = {
            "model": "openai/x",
            "api_base": f"http://{listener.address}/v1",
            "transport": transport,
        }
        study.write_text(yaml.safe_dump({"judge": judge}), "utf-8")
        quick = ("tracking=none", "scoring.bootstrap=20", "dataset.limit=1", "runner.retries=0")
        main(["run", str(study), *quick, "runner.timeout=5", "runner.budget_calls=2"])
        assert listener.received
        everything = b"\n".join(listener.received)
    basic = base64.b64encode(b"me:Pl4nted-netrc")
    for secret in (b"Pl4nted", basic, b"authorization: basic"):
        assert secret not in everything.replace(b"Authorization", b"authorization")


@pytest.mark.parametrize("text", [
    "${oc.env:PLANTED}", "${oc.decode:${oc.env:PLANTED}}", "${oc.env:${oc.env:NONE,PLANTED}}",
    "${oc.create:{a: '${oc.env:PLANTED}'}}", "${oc.select:x,${oc.env:PLANTED}}", "${env:PLANTED}",
    "${hydra:env.PLANTED}", "${oc.deprecated:${oc.env:PLANTED}}",
])  # fmt: skip
def test_no_resolver_reads_a_variable_into_a_prompt(here, text, monkeypatch, capsys):
    monkeypatch.setenv("PLANTED", "Pl4nted-value")
    study = here / "theirs" / "study.yaml"
    body = {"judge": {"model": "simulated/good"}, "criteria": {"one": {"description": text}}}
    study.write_text(yaml.safe_dump(body), "utf-8")
    main(["run", "--cfg", "job", "--resolve", str(study)])
    assert "Pl4nted" not in "".join(capsys.readouterr())
    with suppress(SystemExit):
        main(["plan", str(study)])
    assert "Pl4nted" not in "".join(capsys.readouterr())


QUESTION = b"Trust gateway.example:8123, now and later?"
ASKING = """
import os, sys
os.login_tty(int(sys.argv[1]))
from evalkit.cli import main
from evalkit.cli.hydra_runner import study_jobs
from evalkit.cli.audit import audit_words
sys.exit(main(["plan", "study.yaml", "tracking=none", "dataset.limit=1"]))
"""


@pytest.mark.skipif(not hasattr(os, "login_tty"), reason="needs Python 3.11 on POSIX")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "status", "kept"),
    some_of([(b"yes\n", 0, True), (b"\n", 1, False), (b"\x03", 130, False)], 2, rows=True),
)
def test_a_terminal_asks_once_whether_a_server_is_trusted(here, typed, status, kept, monkeypatch):
    config = here / "settings"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    body = {"judge": {"model": "openai/x", "api_base": "https://gateway.example:8123/v1"}}
    (here / "here" / "study.yaml").write_text(yaml.safe_dump(body), "utf-8")
    before = {*(here / "here").iterdir()}
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", ASKING, str(theirs)],
            pass_fds=[theirs],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "any"},
        )
        os.close(theirs)
        said = b""
        while QUESTION not in said:
            said += os.read(ours, 4096)
        os.write(ours, typed)
        with suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 4096):
                said += part
        assert process.wait(60) == status, said
    finally:
        os.close(ours)
    file = config / "evalkit" / "trusted_hosts.json"
    assert file.exists() == kept
    if kept:
        assert json.loads(file.read_text("utf-8"))["hosts"] == {
            "gateway.example:8123": ["OPENAI_API_KEY"]
        }
    assert {*(here / "here").iterdir()} == before


def test_an_audit_keeps_the_rewriter_of_a_study_that_names_no_probes(here):
    """Its server is checked like that of a study with probes."""
    study = here / "theirs" / "study.yaml"
    rewriter = {"model": "openai/x", "api_base": "https://gateway.example/v1"}
    for probe, chosen in (
        ({"rewriter": rewriter}, ["probe=[standard,recorded]"]),
        ({}, ["probe=standard"]),
        ({"rewriter": rewriter, "probes": {"padding": {}}}, []),
    ):
        body = {"judge": {"model": "simulated/good"}, "probe": probe}
        study.write_text(yaml.safe_dump(body), "utf-8")
        assert audit_words([str(study)]) == [str(study), *chosen]
    study.write_text(yaml.safe_dump({**body, "probe": {"rewriter": rewriter}}), "utf-8")
    with pytest.raises(ConfigError, match=r"probe\.rewriter\.api_base: .* --trust gateway"):
        study_jobs(audit_words([str(study)]))
    with trusting(["gateway.example"]):
        [(_, config)] = study_jobs(audit_words([str(study)]))
    assert config.probe.rewriter.api_base == rewriter["api_base"]
    assert len(config.probe.probes) > 10


def test_a_study_without_bounds_is_one_line_for_an_audit(here, capsys):
    study = here / "here" / "study.yaml"
    study.write_text("a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    ), "utf-8")  # fmt: skip
    assert main(["audit", str(study)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
