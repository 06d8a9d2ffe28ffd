"""`evalkit check` on tables with two judges: processor time, memory and time, of the
whole process with its report.

uv run python benchmarks/check.py [ROWS ...]
uv run python benchmarks/check.py --against FOLDER [ROWS ...]  # another checkout in the same run
uv run python benchmarks/check.py --write FOLDER   # the 600 rows of benchmarks/check.md, also for
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
SIZES = ("600", "5000", "100000")
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
    """Write the labeled rows as judgegate reads them, and all rows as judgekit does."""
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
    for name in (*JUDGES, "human"):
        verdicts = [
            {
                "kind": "binary",
                "item_id": row["id"],
                "judge_id": name,
                "label": row[name] == "pass",
            }
            for row in rows(600, LABELED)
            if row[name]
        ]
        lines = [json.dumps(verdict) for verdict in verdicts]
        (folder / f"verdicts-{name}.jsonl").write_text("\n".join(lines) + "\n")
    judge = 'judge: {model: gpt, prompt: "Judge {output}"}\nlabels: {values: [pass, fail]}\n'
    (folder / "judge.yaml").write_text(judge)


def measure(count: int, checkout: Path | None = None) -> float:
    """Check a table of so many rows in a process of its own, print its cost, and return
    its processor time.

    Args:
        count: the number of rows.
        checkout: another checkout of evalkit, whose code is measured; `None` for this one.
    """
    environment = dict(os.environ)
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout.resolve())
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
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        processor = usage.ru_utime + usage.ru_stime
        taken = time.perf_counter() - started
    name = "this" if checkout is None else checkout.name
    print(
        f"{count:>9,} rows{processor:8.2f} s of processor{taken:8.2f}"
        f" s{usage.ru_maxrss / 1024:9.0f} MiB  {name}",
        flush=True,
    )
    if status:
        raise SystemExit(1)
    return processor


def compare(checkout: Path, counts: list[int]) -> None:
    """Measure another checkout and this one in turn, and print the ratios: one machine
    is busy for both.
    """
    measure(LABELED)  # compiles and reads what all others then find
    measure(LABELED, checkout)
    for count in counts:
        before = measure(count, checkout)
        after = measure(count)
        print(f"{count:>9,} rows: {after / before:.2f} times the processor time")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), 600, LABELED)
        write_for_others(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--against"]:
        compare(Path(sys.argv[2]), [*map(int, sys.argv[3:] or SIZES)])
    else:
        for count in map(int, sys.argv[1:] or SIZES):
            measure(count)
