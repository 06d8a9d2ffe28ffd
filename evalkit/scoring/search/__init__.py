"""The search for slices in which a judge is worse, and for judges that only know the stratum."""

from evalkit.scoring.search.columns import SearchedColumns, searched_columns
from evalkit.scoring.search.search import search_slices

__all__ = ["SearchedColumns", "search_slices", "searched_columns"]
