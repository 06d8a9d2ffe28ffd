"""Cases from files: every row becomes a case, or an error that names its place; nothing is guessed or dropped."""

from evalkit.datasets.examples import with_examples
from evalkit.datasets.load import Dataset, load_cases

__all__ = ["Dataset", "load_cases", "with_examples"]
