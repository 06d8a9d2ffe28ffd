"""Secrets in a config: where they are found, and where to put them instead."""

import pytest

from evalkit.core.redaction import remedy_for, secrets_of

KEY = "sk-" + "a1B2" * 10


@pytest.mark.parametrize(
    ("config", "key", "what"),
    [
        ({"judge": {"params": {"api_key": "x"}}}, "judge.params.api_key", "contains a secret"),
        (
            {"judge": {"params": {"headers": [{"Authorization": "x"}]}}},
            "judge.params.headers.0.Authorization",
            "contains",
        ),
        (
            {"dataset": {"fields": {KEY: "prompt"}}},
            "dataset.fields",
            "has a key that contains a secret",
        ),
    ],
)
def test_a_secret_is_found_by_its_key_or_its_text(config, key, what):
    [(where, found)] = secrets_of(config, secrets={"SERVICE_API_KEY": KEY})
    assert where == key
    assert found.startswith(what)


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("tracking.uri", "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        ("store.url", "set PGPASSWORD, or write the password into ~/.pgpass"),
        ("judge.params.api_key", "set the provider's environment variable instead"),
        (
            "dataset.fields",
            "set an environment variable instead: configs are written to the run folder",
        ),
    ],
)
def test_the_remedy_is_that_of_the_key(key, remedy):
    assert remedy_for(key).startswith(remedy)
