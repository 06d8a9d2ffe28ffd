"""Load cases from any source: every row becomes a case or an error with its file and line."""

from evalkit.datasets.examples import with_examples
from evalkit.datasets.formats import RECORDED
from evalkit.datasets.load import CaseStream, Dataset, load_cases
from evalkit.datasets.sources import Fetch, Source, downloaded, is_missing

__all__ = [
    "RECORDED",
    "CaseStream",
    "Dataset",
    "Fetch",
    "Source",
    "downloaded",
    "is_missing",
    "load_cases",
    "with_examples",
]
