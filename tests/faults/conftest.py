"""Makes the helpers that stand here, and the engine's, importable by the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "engine")]
