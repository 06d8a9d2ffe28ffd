"""What is described wrongly: one line that says what, where and what to do; exit status 1; nothing left behind."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import BRIEF, Commands, Done, fake, pair
from tests.support.fake_provider import refused, said

STUDY = "defaults: [config, _self_]\n\ntie:\n  treshold: 0.1"
NO_TEMPLATE = "prompt.template: no template 'quux'; choose from "


def files(commands: Commands) -> None:
    """Lay down the files that the commands below are wrong about."""
    commands.write("good.jsonl", pair(1), pair(2))
    commands.write("notjson.jsonl", pair(1), "{oops")
    commands.write("twice.jsonl", pair(1), pair(2), pair(1))
    commands.write("notutf8.jsonl").write_bytes(b'{"id": "\xff"}\n')
    commands.write("study.yaml", STUDY)
    commands.write("prompts/en/mine.md.j2", "Judge this.", "{{ nonsense }}")
    commands.write("prompts/en/open.md.j2", "{% if context %}")
    commands.write(
        "database.sqlite",
        "this is a text, and by no means a database; it goes on for a while so that SQLite reads it",
    )
    commands.write("file", "in the way")
    commands.write("bare.csv", "question,ours,theirs", "p,a,b")


QUIET = "tracking=none"
DATA = ("run", "judge=gpt-4o", "dataset=file", QUIET)
MISTAKES = {
    "unknown judge in a sweep": (
        ("run", "judge=gpt-4o,gpt4", "-m", "swap=none"),
        "judge=gpt4: no such judge; did you mean 'gpt-4o'? (job judge=gpt4 swap=none)",
    ),
    "misspelt key in a study": (
        ("run", "study.yaml"),
        "study.yaml:4: tie.treshold: no such key; did you mean 'threshold'?",
    ),
    "missing dataset": (
        (*DATA, "dataset.path=god.jsonl"),
        "god.jsonl: no such file; did you mean 'good.jsonl'?",
    ),
    "row that is not JSON": (
        (*DATA, "dataset.path=notjson.jsonl"),
        "notjson.jsonl:2: the row is not JSON (column 2",
    ),
    "file that is not UTF-8": ((*DATA, "dataset.path=notutf8.jsonl"), "notutf8.jsonl:1: "),
    "row without the mapped column": (
        (*DATA, "dataset.path=good.jsonl", "dataset.fields.response_b=answer"),
        "good.jsonl:1: no column 'answer' for response_b; the columns are ",
    ),
    "duplicate id": (
        (*DATA, "dataset.path=twice.jsonl"),
        "twice.jsonl:3: id 'c1' is already used in line 1; make ids unique",
    ),
    "no API key": (
        ("run", "judge=gpt-4o", QUIET),
        "openai/gpt-4o: no API key; set the environment variable OPENAI_API_KEY",
    ),
    "no such provider": (
        ("run", "judge.model=nonsense", QUIET),
        "judge.model: LiteLLM does not know the provider of 'nonsense'; write it as provider/model, for example ",
    ),
    "unreachable endpoint": (
        ("run", "judge=openai_compatible", "judge.api_base=http://127.0.0.1:9/v1", QUIET),
        "judge default: no server answers at http://127.0.0.1:9/v1; start the server, or fix judge.api_base",
    ),
    "run folder that cannot be made": (
        ("run", "hydra.run.dir=file/run"),
        "file/run: cannot be written (Not a directory); give another hydra.run.dir",
    ),
    "sweep folder that cannot be made": (
        ("run", "swap=both,none", "-m", "hydra.sweep.dir=file/sweep"),
        "file/sweep: cannot be written (Not a directory); choose another folder with hydra.",
    ),
    "unknown placeholder": (
        ("run", "prompt.template=mine", QUIET),
        "prompts/en/mine.md.j2:2: unknown placeholder 'nonsense'; ",
    ),
    "unfinished template": (("run", "prompt.template=open", QUIET), "prompts/en/open.md.j2:1: "),
    "no such template": (("run", "prompt.template=quux", QUIET), NO_TEMPLATE),
    "a sweep as a command": (
        ("sweep",),
        "sweep: no such command; write evalkit run -m KEY=VALUE,VALUE",
    ),
    "unknown command": (("runn",), "runn: no such command; did you mean 'run'?"),
    "no command near it": (
        ("frobnicate",),
        "frobnicate: no such command; choose from align, audit, batch, check, ",
    ),
    "data file as a study": (
        ("run", "bare.csv"),
        "bare.csv: is a data file, not a study; write dataset=file dataset.path=bare.csv",
    ),
    "data file as a dataset": (
        ("plan", "dataset=bare.csv"),
        "dataset=bare.csv: no such dataset; for a file or folder, write dataset=file dataset.path=bare.csv",
    ),
    "pairs whose columns have other names": (
        ("plan", "dataset=file", "dataset.path=bare.csv", "dataset.fields.prompt=question"),
        "bare.csv:2: no column 'response'; the columns are question, ours, theirs; name one of them in "
        "dataset.fields.response, or two for a pair in dataset.fields.response_a and dataset.fields.response_b",
    ),
    "study after the overrides": (
        ("run", "swap=none", "first_look"),
        "first_look: is not an override; write key=value; a study's file comes first",
    ),
    "unknown flag": (
        ("run", "--frob"),
        "evalkit run: no such option --frob; try evalkit run --help",
    ),
    "flag without its value": (
        ("run", "--cfg"),
        "evalkit run: --cfg: needs a value; try evalkit run --help",
    ),
    "override that is none": (
        ("run", "judge.model={a"),
        "judge.model={a: cannot be read as an override (",
    ),
    "override at another place": (
        ("run", "judge@other=simulated/good"),
        "judge: no such place of a group; write judge=NAME: the group has no other place",
    ),
    "override of a group twice": (
        ("run", "+judge=simulated/good"),
        "judge: is chosen twice; write judge=NAME without +, or in a file: override /judge: NAME",
    ),
    "deletion of a key that is not there": (
        ("run", "~judge.modell"),
        "judge.modell: no such key; did you mean 'model'?",
    ),
    "deletion of an option that is not chosen": (
        ("run", "~judge=foo"),
        "~judge=foo: is not chosen; write judge=NAME for another option",
    ),
    "key of Hydra's that has no keys": (
        ("run", "hydra.callbacks.x=1"),
        "hydra.callbacks.x: no such key; leave it out: hydra.callbacks has no keys",
    ),
    "value of a job where there is none": (
        ("run", "--cfg", "all", "--resolve"),
        "${hydra:job.num} has a value only in a job of a sweep; leave out --resolve",
    ),
    "variable that is not set": (
        ("run", "judge.model=${oc.env:NOT_SET}"),
        "$NOT_SET is not set; export NOT_SET=VALUE, or write ${oc.env:NOT_SET,DEFAULT}",
    ),
    "reference to nothing": (
        ("run", "judge.model=${model.name}"),
        "${model.name} does not exist; write a key from the top of the config, such as ",
    ),
    "mode that Hydra does not have": (
        ("run", "hydra.mode=MULTI"),
        "hydra.mode: Invalid value 'MULTI', expected one of [RUN, MULTIRUN]",
    ),
    "key that Hydra does not have": (
        ("run", "hydra.job.chdirr=true"),
        "hydra.job.chdirr: no such key; did you mean 'chdir'?",
    ),
    "group that Hydra does not have": (
        ("run", "hydra/sweeperr=basic"),
        "hydra/sweeperr: no such group; did you mean 'sweeper'?",
    ),
    "score of another folder": (("score", "prompts"), "prompts: not a run folder"),
    "track of no folder": (
        ("track", "nowhere"),
        "nowhere: no such folder; choose a folder that `evalkit run` wrote",
    ),
    "store that is no database": (
        ("run", "store.url=database.sqlite", QUIET),
        "database.sqlite: not a ",
    ),
    "store that is to be read and is not there": (
        ("run", "store=read_only", QUIET),
        "store.sqlite: cannot be opened; ",
    ),
    "store of another kind": (
        ("run", "store.url=mysql://x", QUIET),
        "store.url: there is no 'mysql'; choose from postgres, postgresql, sqlite",
    ),
    "ui without runs": (
        ("ui",),
        "mlflow.db: no runs are recorded yet; `evalkit run` records the first",
    ),
    "init without a folder": (("init",), "evalkit init: needs FOLDER; try evalkit init --help"),
    "score without a run": (("score",), "evalkit score: needs RUN; try evalkit score --help"),
    "import without a file": (("import", "llmbar"), "evalkit import: needs PATH; try evalkit"),
    "init where a file is": (("init", "file"), "file: cannot be written ("),
}


# Before and after composition as a process of its own; all of them by the function that the process
# calls.
AS_PROCESS = ("row that is not JSON", "unknown flag")


def check(mistake: str, commands: Commands, run: Callable[..., Done]) -> None:
    words, line = MISTAKES[mistake]
    files(commands)
    before = commands.files()
    complaint = run(*words, status=1).line()
    # Files are named as they were given or by their whole path; what counts is that one can find
    # them.
    assert line in complaint
    assert complaint.startswith((line, str(commands.folder.parent), "sqlite:///"))
    # A run that had begun is in MLflow, as failed.
    assert commands.files() - {"mlflow.db"} == before
    assert not (commands.folder / "outputs").exists()
    assert not (commands.folder / "multirun").exists()


@pytest.mark.slow
@pytest.mark.parametrize("mistake", AS_PROCESS)
def test_a_mistake_is_one_line_and_leaves_nothing(mistake, commands):
    check(mistake, commands, commands)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_so_it_is_within_a_process(mistake, commands, within):
    check(mistake, commands, within)


def test_an_empty_response_is_judged_and_said(commands, within, provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    provider.rule = lambda body: said("[[A]]")
    commands.write("empty.jsonl", pair(1), pair(2, response_b=""))
    data = ["dataset=file", "dataset.path=empty.jsonl", "output=bracket", "swap=none"]
    done = within("run", *fake(provider), *data, *BRIEF, "hydra.run.dir=run")
    assert "note: empty responses, judged as they are: 1 (first: empty.jsonl:2)" in done.out
    assert commands.metrics("run")["calls"]["sent"] == 2


def test_a_store_of_another_program_is_left_alone(commands, within):
    path = commands.folder / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE precious (x)")
    other.close()
    before = path.read_bytes()
    line = within("run", "store.url=other.sqlite", QUIET, status=1).line()
    assert (
        line
        == "other.sqlite: an SQLite file, but not an evalkit store; set store.url to another file"
    )
    assert path.read_bytes() == before


def test_a_key_that_is_refused_is_one_line_and_is_not_shown(
    commands, within, provider, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-1234567890")
    provider.rule = lambda body: refused(
        401, "Incorrect API key provided: sk-wrong-1234567890", code="invalid_api_key"
    )
    done = within("run", *fake(provider), *BRIEF, status=1)
    line = done.err.strip().splitlines()[-1]
    assert "access denied" in line
    assert "OPENAI_API_KEY" in line
    assert "sk-wrong-1234567890" not in done.err + done.out
    assert not (commands.folder / "outputs").exists()


def test_a_hidden_config_of_ones_own_is_said(commands, within):
    commands.write("conf/judge/gpt-4o.yaml", "model: openai/other")
    done = within("run", "judge=gpt-4o", "--cfg", "job")
    hidden = Path("conf/judge/gpt-4o.yaml")
    assert f"{hidden} is hidden by evalkit's file of the same name; rename it" in done.err
    assert "model: openai/gpt-4o\n" in done.out


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("conf/judge/mine.yaml", ["plan", "judge=mine"]),
        ("study.yaml", ["plan", "study.yaml"]),
        ("study.yaml", ["run", "study.yaml"]),
        ("experiments/mine.yaml", ["plan", "experiments/mine.yaml"]),
        ("conf/judge/mine.yaml", ["doctor", "judge=mine"]),
    ],
)
def test_a_config_that_is_not_utf8_is_one_line_that_names_it(file, words, within, commands):
    path = commands.folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("# café\nmodel: openai/x\n".encode("latin-1"))
    assert (
        within(*words, status=1).line()
        == f"{file}: the byte at offset 5 is not UTF-8; save the file as UTF-8"
    )


@pytest.mark.parametrize("word", ["tie@here=allow", "+tie=allow", "tie=true"])
def test_no_key_is_suggested_in_place_of_itself(word, within):
    assert "did you mean 'tie'" not in within("plan", word, status=1).line()
