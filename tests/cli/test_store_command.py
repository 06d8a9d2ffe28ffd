import pytest

from evalkit.cli import main
from evalkit.core.types import Completion, Usage
from evalkit.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path, monkeypatch):
    place = tmp_path / "answers.sqlite"
    monkeypatch.setenv("EVALKIT_STORE", str(place))
    store = SqliteStore(place)
    store.put_many(
        [("a" * 64, "openai/gpt", Completion("x", usage=Usage(1000, 500), cost_usd=0.5))]
    )
    store.put_many([("b" * 64, "local/small", Completion("y"))])
    store.close()
    return place


def test_stats_say_what_is_stored(path, capsys):
    assert main(["store", "stats"]) == 0
    said = capsys.readouterr().out
    assert f"{path}: 2 answers" in said
    assert [line.split() for line in said.splitlines() if line.startswith("openai")] == [
        ["openai/gpt", "1", "1,500", "$0.5000"]
    ]
    assert [line.split()[-1] for line in said.splitlines() if line.startswith("local")] == ["–"]


def test_export_and_import_carry_answers_to_another_store(path, tmp_path, capsys):
    file, other = tmp_path / "out.jsonl", tmp_path / "other.sqlite"
    assert main(["store", "export", str(file)]) == 0
    assert main(["store", "import", str(file), f"store.url={other}"]) == 0
    assert main(["store", "import", str(file), f"store.url={other}"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"2 answers written to {file}",
        f"2 answers added to {other}; already stored: 0",
        f"0 answers added to {other}; already stored: 2",
    ]


@pytest.mark.parametrize("words", [["--older-than", "1h"], ["--older-than=1h"]])
def test_prune_takes_out_what_is_older(path, words, capsys):
    store = SqliteStore(path)
    store.locked(lambda db: db.execute("UPDATE completions SET created = 0 WHERE key LIKE 'a%'"))
    store.close()
    assert main(["store", "prune", *words]) == 0
    assert capsys.readouterr().out.startswith("1 answer older than 1h")
    reading = SqliteStore(path, read_only=True)
    assert list(reading.get_many(["a" * 64, "b" * 64])) == ["b" * 64]
    reading.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [],
            "evalkit store: needs an action: stats, prune, export, import, copy; try evalkit store --help",
        ),
        (["prunes"], "evalkit store: no such action 'prunes'; did you mean 'prune'?"),
        (
            ["prune"],
            "evalkit store prune: needs --older-than or --damaged; try evalkit store prune --help",
        ),
        (["prune", "--older-than", "30"], "30: is not an age"),
        (["export"], "evalkit store export: needs FILE"),
        (["import", "--all"], "evalkit store import: no such option --all"),
        (["stats", "more"], "evalkit store stats: unexpected argument 'more'"),
        (["stats", "store.path=x"], "store.path"),
        (["stats", "store.url=/nowhere/at/all.sqlite"], "cannot be opened"),
        (["prune", "--older-than", "1d", "store.url=/nowhere/at/all.sqlite"], "no such file"),
        (["import", "/nowhere/at/all.jsonl"], "No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(path, words, said, capsys):
    assert main(["store", *words]) == 1
    captured = capsys.readouterr()
    assert not captured.out
    assert said in captured.err
    assert captured.err.count("\n") == 1
