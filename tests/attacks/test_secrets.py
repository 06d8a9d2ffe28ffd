"""Secrets of the environment and credentials in URLs: in no file, no MLflow database, and on no terminal."""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest
import yaml

from evalkit import RunConfig, load_config
from evalkit.cli import main
from evalkit.core.redaction import redact, secret_in
from tests.support.fake_provider import serving

SECRET = "s3cr3t-Value!/+with#signs"
PASSWORD = "hunter2-hunter2"
ENCODED = "s3cr3t-Value%21%2F%2Bwith%23signs"
WITH_PASSWORD = f"http://someone:{PASSWORD}@127.0.0.1:9"
IN_WORDS = [
    *(f"tracking.uri={WITH_PASSWORD}", f"tracking.uri=postgresql://me:{PASSWORD}@db/mlflow"),
    "tracking.uri=http://127.0.0.1:9/${oc.env:A_TEST_TOKEN}",
    f"judge.api_base={WITH_PASSWORD}/v1",
    f"judge.api_base=http://127.0.0.1:9/v1?api_key={PASSWORD}",
    f"store.url=sqlite://me:{PASSWORD}@/x.db",
    f"dataset.path=https://me:{PASSWORD}@host/x.jsonl",
    f"dataset.path=https://host/x.jsonl?X-Amz-Signature={PASSWORD}",
    "+tracking.tags.key=${oc.env:A_TEST_TOKEN}",
    "+tracking.tags.key='prefix ${oc.env:A_TEST_TOKEN}'",
    *("+judge.params.note=${oc.env:A_TEST_TOKEN}", f"+judge.params.api_key={PASSWORD}"),
    f"+judge.params.extra_body={{api_key: {PASSWORD}}}",
    *("tracking.run_name=${oc.env:A_TEST_TOKEN}", "prompt.template=${oc.env:A_TEST_TOKEN}"),
    *("hydra.run.dir=out/${oc.env:ANOTHER_PASSWORD}", f"+tracking.tags.key={PASSWORD}xyz"),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("A_TEST_TOKEN", SECRET)
    monkeypatch.setenv("ANOTHER_PASSWORD", PASSWORD)
    return folder


def written(folder: Path) -> bytes:
    """Return all that stands in a folder: names and contents."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return b"\n".join([str(file).encode() + b"\n" + file.read_bytes() for file in files])


def holds(content: bytes) -> list[str]:
    return [one for one in (SECRET, ENCODED, PASSWORD) if one.encode() in content]


@pytest.mark.slow
@pytest.mark.parametrize("word", IN_WORDS)
def test_a_config_with_a_secret_is_refused_and_shown_nowhere(here, word, capsys, thorough):
    judge = ["judge=openai_compatible", "judge.model=openai/x", "judge.api_base=http://127.0.0.1:9"]
    tracking = [] if "tracking" in word else ["tracking=none"]
    # All commands compose alike: by default, each third word is given to each of them.
    for command in ("run", "plan", "doctor") if thorough or word in IN_WORDS[::3] else ("run",):
        if "hydra.run.dir" in word and command != "run":
            continue
        status = main([command, *judge, *tracking, "dataset.limit=1", word])
        out = capsys.readouterr()
        assert (status, len(out.err.splitlines())) == (1, 1), (command, out)
        assert holds((out.out + out.err).encode()) == []
        assert any(
            way in out.err
            for way in ("environment", "MLFLOW_TRACKING_URI", "hydra.run.dir", "EVALKIT_STORE")
        )
    assert holds(written(here)) == []
    assert main(["run", *judge, "--cfg", "job", "--resolve", word]) in (0, 1)
    out = capsys.readouterr()
    assert holds((out.out + out.err).encode()) == []


@pytest.mark.slow
def test_a_finished_run_that_holds_a_secret_is_refused(here, capsys):
    Path("judged.csv").write_text(
        "id,prompt,response_a,response_b,winner,order\n1,p,a,b,A,ab\n", "utf-8"
    )
    assert main(["import", "generic", "judged.csv", "tracking=none", "hydra.run.dir=run"]) == 0
    file = Path("run/config.yaml")
    config = yaml.safe_load(file.read_text("utf-8"))
    for values in ({"uri": WITH_PASSWORD}, {"tags": {"x": SECRET}}, {"experiment": f"at {SECRET}"}):
        file.write_text(
            yaml.safe_dump(
                {**config, "tracking": {**config["tracking"], "enabled": True, **values}}
            )
        )
        Path("labels.csv").write_text("id,annotator,label\n1,ann,A\n", "utf-8")
        capsys.readouterr()
        commands = (
            ["score", "run"],
            ["reproduce", "run"],
            ["track", "run"],
            ["label", "run", "labels.csv"],
        )
        for words in (
            *commands,
            ["compare", "run", "run"],
            ["drift", "run", "run"],
            ["run", "run/config.yaml"],
            ["plan", "run/config.yaml"],
        ):
            status = main(words)
            out = capsys.readouterr()
            assert (status, len(out.err.splitlines())) == (1, 1), (words, out)
            assert holds((out.out + out.err).encode()) == []
            assert "tracking." in out.err
    assert not Path("mlflow.db").exists()


def test_python_refuses_as_the_command_line_does(here):
    with pytest.raises(ValueError, match="contains a URL with a password"):
        RunConfig.model_validate({**load_config().dump(), "tracking": {"uri": WITH_PASSWORD}})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("postgresql://me@db/mlflow", None),
        ("http://me@host", "contains a URL with a password"),
        ("see http://host/a@b and me@example.com", None),
        ("https://host/?monkey=1&tokens=2", None),
        ("https://host/?x=1&token=abc", "contains a URL with a key"),
        ("a word in a sentence", None),
        ("wordlike", "contains the value of $WORD_PASSWORD"),
        ("/etc/hosts", None),
        ("sqlite:////etc/hosts", None),
    ],
)
def test_what_counts_as_a_secret(monkeypatch, text, found):
    monkeypatch.setenv("WORD_PASSWORD", "wordlike")
    monkeypatch.setenv("A_CREDENTIALS_FILE", "/etc/hosts")
    assert secret_in(text) == found
    assert secret_in("wordlike texts are fine") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MONKEY", "us-international"),
        ("KEYBOARD_LAYOUT", "us-international"),
        ("TOKEN_LIMIT", "10000000"),
        ("TOKENIZER", "0a1b2c3d4e5f6a7b8c9d"),
        ("API_KEY", "test1234"),
        ("OPENAI_API_KEY", "not-needed-at-all"),
        ("DEPLOY_KEY", "production"),
        ("EVAL_TOKEN", "openai/gpt-4o-mini-2024-07-18"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-0a1b2c3d4e5f/agent.1"),
    ],
)
def test_words_numbers_and_names_of_models_are_no_secrets(here, monkeypatch, capsys, name, value):
    monkeypatch.setenv(name, value)
    number = [f"dataset.limit={value}"] if value.isdigit() else []
    assert (
        main(["plan", f"judge.model=openai/{value}", f"tracking.run_name=at-{value}", *number]) == 0
    ), capsys.readouterr().err
    assert "[redacted]" not in redact(f"a {value}") or name.endswith(("KEY", "TOKEN"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY_2", "AbCdEfGhIjKlMnOpQrSt"),
        ("X_KEY", "550e8400-e29b-41d4-a716-446655440000"),
        ("PGPASSWORD", "hunter2-hunter2"),
        ("openaiApiKey", "0123456789abcdef"),
        ("GITHUBTOKEN", "0123456789abcdef"),
        ("DB_PWD", "correct horse 1"),
    ],
)
def test_what_is_named_and_made_like_a_secret_is_one(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert secret_in(value) == secret_in(f"at {value}.") == f"contains the value of ${name}"
    assert value not in redact(f"at {value}.")


def test_urls_and_encoded_secrets_are_redacted(here):
    text = redact(f"at {WITH_PASSWORD}/?token={PASSWORD} and {ENCODED} and {SECRET}")
    assert holds(text.encode()) == []
    assert "127.0.0.1:9" in text


@pytest.mark.slow
def test_a_whole_run_writes_no_secret(here, monkeypatch, capfd, empty_store):
    """A key that is used, a server's URI with a password, an MLflow that is away, and one that is there."""
    shutil.copy(empty_store, here / "mlflow.db")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    with serving() as provider:
        judge = [
            "runner.max_unusable_rate=1",  # the provider says nothing of use
            "judge=openai_compatible",
            "judge.model=openai/x",
            f"judge.api_base={provider.api_base}",
            "output=bracket",
        ]
        words = [*judge, "dataset.limit=2", "scoring.bootstrap=20"]
        direct = ["run", *words, "judge.transport=direct"]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
        assert main(["run", *words, "hydra.run.dir=there"]) == 0
        assert main([*direct, "-m", "hydra.sweep.dir=multirun/a/b", "tie.threshold=0,0.1"]) == 0
        monkeypatch.setenv("MLFLOW_TRACKING_URI", WITH_PASSWORD)
        assert main([*direct, "hydra.run.dir=away"]) == 3
    assert (here / "mlflow.db").is_file()
    assert json.loads((here / "there" / "manifest.json").read_text("utf-8"))["mlflow_run_id"]
    assert holds(written(here)) == []
    assert holds("".join(capfd.readouterr()).encode()) == []


NAMES = ("LITELLM_MASTER_KEY", "EVAL_TOKEN", "MY_SECRET", "DB_PASSWORD", "evalToken")
WORDS = ("sk-litellm-master-2026", "token-abc123-eval-team", "production", "0123456")
PAIRS = [*zip(NAMES, (*WORDS, WORDS[0]), strict=True)]
"""Each name, and each value, once or twice."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *PAIRS,
        *(
            pytest.param(*pair, marks=pytest.mark.thorough)
            for pair in product(NAMES, WORDS)
            if pair not in PAIRS
        ),
    ],
)
def test_a_secret_that_looks_like_words_is_refused_by_its_name(
    here, monkeypatch, capsys, name, value
):
    monkeypatch.setenv(name, value)
    judge = ["judge=simulated/good", "dataset.limit=1", "tracking=none", "store.url=a.sqlite"]
    plain = f"+tracking.tags.key='{value}'"
    reads = [
        f"+tracking.tags.key=${{oc.env:{name}}}",
        f"+tracking.tags.key='at ${{oc.env:{name},none}}'",
        f"+tracking.tags.key='${{oc.decode:${{oc.env:{name}}}}}'",
        f"tracking.run_name=${{oc.env:{name}}}",
        f"hydra.run.dir=out/${{oc.env:{name}}}",
    ]
    for word in [plain, *reads]:
        status = main(["run", *judge, word])
        out = capsys.readouterr()
        assert (status, len(out.err.splitlines())) == (1, 1), (word, out)
        assert f"contains the value of ${name}" in out.err
        assert value not in out.out + out.err
    assert (
        main(["run", "-m", *judge, f"hydra.sweep.subdir=${{oc.env:{name}}}", "scoring.seed=1,2"])
        == 1
    )
    assert value not in "".join(capsys.readouterr())
    # A name that is put together, in a file.
    body = {"mode": {"params": {"n": name}}, "tracking": {"run_name": "${oc.env:${mode.params.n}}"}}
    Path("study.yaml").write_text(
        yaml.safe_dump({"defaults": ["config", "_self_"], **body}), "utf-8"
    )
    assert main(["plan", "study.yaml", *judge[:2]]) == 1
    assert f"tracking.run_name: contains the value of ${name}" in capsys.readouterr().err
    assert value.encode() not in written(here)


@pytest.mark.parametrize(
    "value", ["EMPTY", "not-needed", "not_needed", "Not Needed", "sk-no-key-required"]
)
def test_a_placeholder_is_no_secret(here, monkeypatch, value):
    monkeypatch.setenv("OPENAI_API_KEY", value)
    assert (
        load_config(
            overrides=["judge=simulated/good", f"tracking.run_name='{value}'"]
        ).tracking.run_name
        == value
    )
    assert redact(f"it is {value.lower()}") == f"it is {value.lower()}" or value.startswith("sk-")


def test_other_variables_may_be_read(here, monkeypatch):
    from omegaconf import OmegaConf

    monkeypatch.setenv("MONKEY", "us")
    monkeypatch.setenv("TEAM", "evaluation")
    words = ["tracking.run_name=${oc.env:TEAM}-${oc.env:MONKEY}-${oc.env:NOT_SET,x}"]
    assert load_config(overrides=words).tracking.run_name == "evaluation-us-x"
    # A program's own configs are its own.
    assert OmegaConf.create({"x": "${oc.env:A_TEST_TOKEN}"}).x == SECRET


@pytest.mark.parametrize(
    "text",
    [
        *("use Hydra's basic launcher, or budget_scope=run", "a basic sweeper."),
        *("Basic authentication failed", "bearer tokens are refused"),
        "tracking.tags.Authorization: a secret; set an environment variable",
        "judge.params.extra_headers.Authorization: is not a parameter that a file may set",
        *("Authorization: missing", "api-key: contains a URL with a key"),
    ],
)
def test_words_of_a_message_are_not_redacted(text):
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Basic dXNlcjpwYXNz",
        "Bearer eyJhbGci.eyJzdWIi.c2ln",
        "bearer abcdefabcdefabcdefab",
        "Bearer abcdef1",
    ],
)
def test_credentials_in_a_message_are_redacted(text):
    assert redact(f"at {text}.").startswith(f"at {text.split()[0]} [redacted]")
