from __future__ import annotations

import pytest

from evalkit.report.wording import metric_words


@pytest.mark.parametrize(
    ("name", "english"),
    [
        ("ranking/rating/gpt-4/turbo", "gpt-4/turbo: rating"),
        ("conflict/rate/clarity", "clarity: cases with a cycle"),
        ("conflict/rate", "Cases with a cycle"),
        ("judge/one/ranking/win_rate/x", "one: x: win rate"),
        ("something/else", "something/else"),
    ],
)
def test_metrics_have_names_for_people(name, english):
    assert metric_words(name)[0] == english
