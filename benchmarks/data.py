"""Data: `evalkit plan` of a million rows, and reading them as cases, compared with
reading them by the plain library.

    uv run python benchmarks/data.py [ROWS]

It writes JSONL and Parquet of ROWS rows, and of a tenth of them, to a temporary folder. Each
reading is a process of its own: processor seconds of the reading alone, without imports, and the
process's peak memory. Plain is `json.loads` for each line, and pyarrow's `to_pylist` for each
batch. `evalkit plan` renders every prompt and looks up every content key in a store that holds one
answer of the judge's model.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROWS, SECONDS_A_MILLION, GROWTH = 1_000_000, 90.0, 1.15
WORDS = tuple(f"word{i}" for i in range(3000))


def rows(count: int) -> Iterator[dict[str, object]]:
    """Yield rows of about a kilobyte: a prompt, two responses of two models, a label
    and a topic.
    """
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=60)) for _ in range(1000)]
    for number in range(count):
        yield {
            "id": f"case-{number}",
            "prompt": f"{number} {draw.choice(texts)[:150]}",
            "response_a": draw.choice(texts),
            "response_b": draw.choice(texts),
            "model_a": "one",
            "model_b": "two",
            "label": "AB"[number % 2],
            "topic": "general",
        }


def write(folder: Path, count: int) -> list[Path]:
    import pyarrow
    import pyarrow.parquet

    jsonl = folder / f"{count}.jsonl"
    parquet = folder / f"{count}.parquet"
    with jsonl.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count))
    writer = None
    batch = []
    for row in rows(count):
        batch.append(row)
        if len(batch) == 20_000 or row["id"] == f"case-{count - 1}":
            table = pyarrow.Table.from_pylist(batch)
            writer = writer or pyarrow.parquet.ParquetWriter(parquet, table.schema)
            writer.write_table(table)
            batch = []
    if writer is not None:
        writer.close()
    return [jsonl, parquet]


def plain(path: Path) -> int:
    count = 0
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as file:
            for line in file:
                json.loads(line)
                count += 1
        return count
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches():
            count += len(batch.to_pylist())
    return count


def cases(path: Path) -> int:
    from evalkit.config import DatasetConfig
    from evalkit.datasets import CaseStream

    return sum(1 for _ in CaseStream(DatasetConfig(path=str(path)), mode="pairwise"))


def plan(path: Path) -> int:
    from evalkit.cli import main
    from evalkit.config import StoreConfig
    from evalkit.core.types import Completion
    from evalkit.store import open_store

    url = str(path.with_suffix(".sqlite"))
    store = open_store(StoreConfig(url=url))
    assert store is not None
    store.put_many([("0" * 64, "openai/gpt-4o-mini", Completion("text"))])
    store.close()
    return -main(
        [
            "plan",
            "judge=gpt-4o-mini",
            f"store.url={url}",
            "dataset=file",
            f"dataset.path={path}",
        ]
    )


WAYS = {"plain": plain, "cases": cases, "plan": plan}


def measure(way: str, path: Path) -> tuple[float, float]:
    """Return the processor seconds of one reading, and the peak memory of its process in MiB."""
    done = subprocess.run(
        [sys.executable, __file__, way, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, memory = done.stdout.split("\n")[-2].split()
    return float(seconds), float(memory)


def inside(way: str, path: Path) -> None:
    import numpy  # noqa: F401 - imports, which do not depend on the rows, are not in the time
    import pyarrow.parquet  # noqa: F401

    if way != "plain":
        import evalkit.cli.plan  # noqa: F401
    begun = time.process_time()
    WAYS[way](path)
    seconds = time.process_time() - begun
    print(f"{seconds:.3f} {peak():.1f}")


def peak() -> float:
    """Return this process's peak memory in MiB; what getrusage says is at least that of
    the process that started it.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(
        line
        for line in status.read_text(encoding="utf-8").splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def main(count: int) -> int:
    fine = True
    print("| rows | | seconds | times plain | peak |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        peaks: dict[tuple[str, str], list[float]] = {}
        for size in (count // 10, count):
            for path in write(Path(folder), size):
                read = measure("plain", path)
                tell(size, path, "plain", read, read)
                for way in ("cases", "plan"):
                    ours = measure(way, path)
                    tell(size, path, way, ours, read)
                    peaks.setdefault((path.suffix, way), []).append(ours[1])
                    fine &= (
                        way != "plan"
                        or ours[0] <= SECONDS_A_MILLION * count / 1e6
                        or size < count
                    )
                path.unlink()
    for (suffix, way), found in peaks.items():
        if len(found) > 1:
            grown = found[1] / found[0]
            fine &= grown <= GROWTH
            print(
                f"{way} of {suffix}: peak memory of ten times the rows is {grown:.2f} times as much"
            )
    limits = f"{SECONDS_A_MILLION:g} s for a million rows, or memory grows by more than {GROWTH - 1:.0%}"
    print("fine" if fine else f"NOT within {limits}")
    return 0 if fine else 1


def tell(
    size: int,
    path: Path,
    way: str,
    found: tuple[float, float],
    read: tuple[float, float],
) -> None:
    words = {"cases": "as cases", "plan": "`evalkit plan`"}
    times = "" if way == "plain" else f"{found[0] / read[0]:.2f}"
    print(
        f"| {size:,} {path.suffix} | {words.get(way, way)} | {found[0]:.2f} | {times} |"
        f" {found[1]:.0f} MiB |",
        flush=True,
    )


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] in WAYS:
        inside(words[0], Path(words[1]))
    else:
        sys.exit(main(int(words[0]) if words else ROWS))
