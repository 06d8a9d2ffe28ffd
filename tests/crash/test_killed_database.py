"""A PostgreSQL store whose server is killed in the middle of a run: no answer is lost or paid for twice."""

import json
import shlex
import threading
from contextlib import closing
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.store import open_url
from tests.support.command_line import fake
from tests.support.fake_provider import said, serving
from tests.support.postgres import binaries, postgres_server

CASES = 60


@pytest.mark.slow
@pytest.mark.parametrize("returns", [True, False], ids=["returns", "stays away"])
def test_a_server_that_is_killed_loses_no_answer(returns, tmp_path, monkeypatch, capsys):
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    if not returns:
        monkeypatch.setattr("evalkit.store.postgres.RECONNECT_SECONDS", 1)
    monkeypatch.chdir(tmp_path)
    rows = (
        json.dumps({"id": f"c{n}", "prompt": f"p{n}", "response_a": "x", "response_b": "y"})
        for n in range(CASES)
    )
    Path("data.jsonl").write_text("\n".join(rows), "utf-8")
    with postgres_server(programs) as server, serving() as provider:
        url = server.new_database()
        killed = threading.Event()

        def answer(_):
            if len(provider.requests) >= 20 and not killed.is_set():
                killed.set()
                server.stop()
                if returns:  # answers come while it is away, and wait to be stored
                    threading.Timer(1, server.start).start()
            return said("[[A]]")

        provider.rule = answer
        words = [
            "run", *fake(provider), "dataset=file", "dataset.path=data.jsonl", "swap=none",
            "output=bracket", "tracking=none", "scoring.bootstrap=20", f"store.url={url}",
            "judge.transport=direct",
        ]  # fmt: skip
        assert main([*words, "hydra.run.dir=run"]) == (0 if returns else 1)
        assert killed.is_set()
        asked = len(provider.requests)
        if not returns:
            server.start()
            message = capsys.readouterr().err.strip().splitlines()[-1]
            assert message.count("`") == 2, message
            _, command, _ = message.split("`")
            assert main([*shlex.split(command)[1:], f"store.url={url}"]) == 0
        with closing(open_url(url, read_only=True)) as store:
            assert sum(1 for _ in store.scan()) == asked
        # The folder that has the kept answers may be used again.
        assert main([*words, f"hydra.run.dir={'again' if returns else 'run'}"]) == 0
        assert len(provider.requests) == CASES
