"""Asking judges about cases: what it opens is closed, however it ends."""

import pytest

from evalkit.compose import load_config
from evalkit.core.errors import PluginError
from evalkit.store import open_store
from evalkit.workflows import asking


async def test_the_store_is_closed_if_a_judge_cannot_be_made(tmp_path, monkeypatch):
    closed = []

    def opened(config):
        store = open_store(config)
        close = store.close
        monkeypatch.setattr(store, "close", lambda: (closed.append(True), close()))
        return store

    monkeypatch.setattr(asking, "open_store", opened)
    url = tmp_path / "answers.sqlite"
    config = load_config(overrides=["judge.transport=no_such_transport", f"store.url={url}"])
    with pytest.raises(PluginError, match="no_such_transport"):
        await asking.ask_judges(config, [], None)
    assert closed == [True]
