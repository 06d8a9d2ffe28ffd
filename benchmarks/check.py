"""`evalkit check` on tables with two judges: processor time, memory and time, of the whole process with its report.

uv run python benchmarks/check.py [ROWS ...]
uv run python benchmarks/check.py --write FOLDER   # the 600 rows of docs/start/check.md, also for
other tools
"""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LABELED = 200
JUDGES = {"gpt": (0.97, 0.55), "claude": (0.92, 0.12)}
"""Judges by name: how often they pass a good and a bad answer."""


def rows(count: int, labeled: int) -> list[dict[str, str]]:
    chance = random.Random(4)
    made = []
    for number in range(count):
        good = chance.random() < 0.8
        words = chance.randint(10, 60)
        row = {"id": f"t{number}", "question": f"How do I reset item {number}?"}
        row["answer"] = "Press the button and wait. " * (words // 5)
        row["human"] = ("pass" if good else "fail") if number < labeled else ""
        row |= {
            name: "pass" if chance.random() < rates[not good] else "fail"
            for name, rates in JUDGES.items()
        }
        made.append(row)
    return made


def write(folder: Path, count: int, labeled: int) -> Path:
    path = folder / "results.csv"
    made = rows(count, labeled)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(made[0]))
        table.writeheader()
        table.writerows(made)
    return path


def write_for_others(folder: Path) -> None:
    """Write the labeled rows as judgegate reads them."""
    for judge in JUDGES:
        fields = {
            "id": "id",
            "input": "question",
            "output": "answer",
            "human_label": "human",
            "judge_label": judge,
        }
        lines = [
            json.dumps({name: row[field] for name, field in fields.items()})
            for row in rows(LABELED, LABELED)
        ]
        (folder / f"labels-{judge}.jsonl").write_text("\n".join(lines) + "\n")
    judge = 'judge: {model: gpt, prompt: "Judge {output}"}\nlabels: {values: [pass, fail]}\n'
    (folder / "judge.yaml").write_text(judge)


def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), count, count // 3)
        started = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "evalkit",
            "check",
            str(path),
            "--output",
            "out",
        ]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        processor = usage.ru_utime + usage.ru_stime
        taken = time.perf_counter() - started
    print(
        f"{count:>9,} rows{processor:8.2f} s of processor{taken:8.2f}"
        f" s{usage.ru_maxrss / 1024:9.0f} MiB"
    )
    if status:
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), 600, LABELED)
        write_for_others(Path(sys.argv[2]))
    else:
        for count in map(int, sys.argv[1:] or ("600", "5000", "100000")):
            measure(count)
