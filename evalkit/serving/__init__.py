"""Use a validated judge outside a run: its folder, `Judge`, and servers.

It may import everything below `cli`; only `cli` and `adapters` import it.
"""

from evalkit.serving.judge import Judge, JudgeVerdict, load_judge
from evalkit.serving.trust import Trust

__all__ = ["Judge", "JudgeVerdict", "Trust", "load_judge"]
