"""A benchmark: riddles, and the share of them whose solution a judge prefers in both orders."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.benchmarks import NONE, Benchmark, MetricSpec, RowLocation, View, row_by_row, shape


def read_case(row: dict[str, object], at: RowLocation) -> dict[str, object]:
    """Return a row as evalkit has it, the right answer first."""
    return {
        "id": str(at.number),
        "prompt": row["riddle"],
        "response_a": row["solution"],
        "response_b": row["decoy"],
        "label": "A",
    }


def solved(view: View) -> Sequence[object]:
    """Return `riddles/solved`: the share of riddles whose solution wins in every order it was shown in."""
    read = (view.passes != NONE).all(axis=1)
    right = (view.passes == view.pairs.label[:, None]).all(axis=1)
    return [view.tally.rate("riddles/solved", right, read, ~read, why="no riddle could be read")]


RIDDLES = Benchmark(
    "riddles",
    "Riddles",
    kind="riddles",
    license="CC0",
    citation="Sphinx, no date",
    homepage="https://example.org/riddles",
    expects="a file of riddles",
    shapes=(shape("riddle", "solution", "decoy"),),
    read=row_by_row(read_case),
    rule=solved,
    metrics=(
        MetricSpec(
            "riddles/solved",
            "solved",
            "Share of the riddles whose solution wins in both orders.",
            better="higher",
            headline=True,
        ),
    ),
    main_metric="riddles/solved",
    human_labels=True,
)
