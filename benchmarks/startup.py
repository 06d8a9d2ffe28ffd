"""Start-up: `import evalkit`, `evalkit --help` and a config error, as ratios to `import
hydra` in the same run.

uv run python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from statistics import median

RUNS = 7
LIMIT = 3.0
COMMANDS = {
    "import hydra": ["-c", "import hydra"],
    "import evalkit": ["-c", "import evalkit"],
    "evalkit --help": ["-m", "evalkit", "--help"],
    "a config error": ["-m", "evalkit", "run", "judge.modle=x"],
}


def seconds(words: list[str], folder: str) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, check=False
    )
    return time.perf_counter() - started


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for run in range(RUNS + 1):
            for name, words in COMMANDS.items():
                taken = seconds(words, folder)
                if run:
                    times[name].append(taken)
    base = median(times["import hydra"])
    for name, taken in times.items():
        print(
            f"{name:<16}{median(taken):7.3f} s{median(taken) / base:7.2f} × import hydra"
        )
    return int(any(median(taken) / base > LIMIT for taken in times.values()))


if __name__ == "__main__":
    raise SystemExit(main())
