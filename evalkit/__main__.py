"""`python -m evalkit`, which the current folder has no part in: a file `numpy.py` in it
is not imported.
"""

import sys
from pathlib import Path

if (
    not sys.flags.safe_path
    and Path(sys.path[0]).resolve() != Path(__file__).resolve().parents[1]
):
    del sys.path[0]

from evalkit.cli import entry_point

if __name__ == "__main__":
    entry_point()
