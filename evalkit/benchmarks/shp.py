"""Stanford Human Preferences (Ethayarajh et al. 2022, ICML): two comments on a post, of
which readers prefer one.
"""

from __future__ import annotations

from typing import Final

from evalkit import benchmarks as eb
from evalkit.scoring.columns import sign
from evalkit.scoring.stats.statistic import Measures


def _rule(view: eb.View) -> Measures:
    """Return `shp/accuracy`, overall and by subreddit: the preferred comment wins over
    both orders; a tie is wrong.
    """
    winner = sign(view.mean_margin())
    return [
        *eb.labeled_rates(
            view,
            "shp/accuracy",
            winner == view.pairs.label,
            winner != eb.NONE,
            view.subsets(),
        )
    ]


BENCHMARKS: Final = (
    eb.Benchmark(
        "shp",
        "Stanford Human Preferences",
        short_title="SHP",
        kind="pairs of Stanford Human Preferences",
        license="none stated: see the authors' page",
        citation="Ethayarajh et al. 2022, ICML, arXiv 2110.08420",
        homepage="https://huggingface.co/datasets/stanfordnlp/SHP",
        expects="a file or folder of Stanford Human Preferences, such as askculinary/test.json",
        shapes=(
            eb.shape("post_id", "history", "human_ref_A", "human_ref_B", "labels"),
        ),
        read=eb.row_by_row(
            {
                "id": lambda row: f"{row['c_root_id_A']}/{row['c_root_id_B']}",
                "prompt": "history",
                "response_a": "human_ref_A",
                "response_b": "human_ref_B",
                "label": eb.one_of("labels", {"1": "A", "0": "B"}),
                "post": "post_id",
                "subset": lambda row: str(row["domain"]).partition("_")[0],
                "score_ratio": "score_ratio",
            }
        ),
        rule=_rule,
        cluster="post",
        metrics=tuple(
            eb.MetricSpec(
                f"shp/accuracy{end}",
                f"accuracy{of}",
                f"Share of labeled pairs whose preferred comment wins over both orders{among}; a"
                " tie is wrong.",
                better="higher",
                headline=not end,
                source="Ethayarajh et al. 2022; SteamSHP's model card",
            )
            for end, of, among in (
                ("", "", ""),
                ("/{subset}", ", {subset}", ", in one subreddit"),
            )
        ),
        main_metric="shp/accuracy",
        human_labels=True,
    ),
)
