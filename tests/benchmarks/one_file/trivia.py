"""Trivia duels: two answers to a question, of which an annotator chose one.

A whole benchmark in one file.
"""

from collections.abc import Iterator
from pathlib import Path

from evalkit import benchmarks as eb

PAIR = {"prompt": "question", "response_a": "first", "response_b": "second"}
CASE = {
    **PAIR,
    "id": lambda row: f"{row.file.stem}/{row.number}",
    "label": eb.one_of("best", {"1": "A", "2": "B"}),
    "subset": "topic",
}


def rule(view: eb.View) -> list:
    """Return `trivia/both` and `trivia/consistency`, by topic: both orders name the better answer, or the same one."""
    right = (view.passes == view.pairs.label[:, None]).all(axis=1)
    return [
        *eb.labeled_rates(view, "trivia/both", right, view.read, view.subsets()),
        *eb.orders_agree(view, "trivia/consistency", view.subsets()),
    ]


def games(row: eb.LocatedRow) -> Iterator[dict]:
    """Yield the verdict of each order."""
    case = {name: row[column] for name, column in PAIR.items()}
    case |= {
        "id": row["question"],
        "label": CASE["label"](row),
        "judge": row["judge"],
        "metadata.subset": row["topic"],
    }
    for order, winner in zip(("ab", "ba"), row.need("winners"), strict=True):
        yield {**case, "order": order, **eb.decided("the winner", winner, {"1": 1.0, "2": -1.0})}


def judgments(path: Path, options: eb.Options) -> eb.ParsedFile:
    """Return both verdicts of each row."""
    return eb.ParsedFile(
        eb.records_of(eb.located_rows(path), games, "pair", options), benchmark="trivia"
    )


TRIVIA = eb.Benchmark(
    "trivia",
    "Trivia duels",
    kind="trivia duels",
    license="CC0",
    citation="Sphinx, no date",
    homepage="https://example.org/trivia",
    expects="a file of trivia duels",
    shapes=(eb.shape("question", "first", "second", "best"),),
    read=eb.row_by_row(CASE),
    rule=rule,
    importer=eb.Importer(
        "trivia", "judged trivia duels", eb.with_columns("question", "first", "winners"), judgments
    ),
    metrics=tuple(
        eb.MetricSpec(
            f"trivia/{name}{end}",
            f"{name}{of}",
            "A share of pairs.",
            better="higher",
            headline=not end,
        )
        for name in ("both", "consistency")
        for end, of in (("", ""), ("/{topic}", ", {topic}"))
    ),
    main_metric="trivia/both",
    human_labels=True,
)
