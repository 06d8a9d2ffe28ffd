"""The search for slices in which a judge is worse, and for judges that only know the stratum."""

from evalkit.scoring.search.cells import (
    BOTH,
    CROSS,
    PLACE,
    cell_of,
    computed_cell,
)
from evalkit.scoring.search.columns import SearchedColumns, searched_columns
from evalkit.scoring.search.items import SearchRows, by_item
from evalkit.scoring.search.search import search_slices
from evalkit.scoring.search.selection import (
    check_choices,
    choices_text,
    limited_to_rest,
    selected,
)

__all__ = [
    "BOTH",
    "CROSS",
    "PLACE",
    "SearchRows",
    "SearchedColumns",
    "by_item",
    "cell_of",
    "check_choices",
    "choices_text",
    "computed_cell",
    "limited_to_rest",
    "search_slices",
    "searched_columns",
    "selected",
]
