"""Benchmarks of chosen and rejected responses: RewardBench, RewardBench 2 and RM-Bench.

The chosen responses come first, and `num_correct` says how many they are. No response has a grade: that two were
rejected does not make them equal.
"""

from __future__ import annotations

from typing import Final

from evalkit.datasets.formats import Row
from evalkit.datasets.named.benchmark import Benchmark, RowLocation, listed, row_by_row, shape


def _chosen_first(row: Row, place: str) -> Row:
    chosen, rejected = listed(row["chosen"], "chosen", place), listed(row["rejected"], "rejected", place)
    return {"id": row["id"], "prompt": row["prompt"], "responses": chosen + rejected, "num_correct": len(chosen)}


def _rewardbench(row: Row, at: RowLocation) -> Row:
    return {
        "id": f"{row['subset']}/{row.get('id', at.number)}",
        "prompt": row["prompt"],
        "response_a": row["chosen"],
        "response_b": row["rejected"],
        "model_a": row["chosen_model"],
        "model_b": row["rejected_model"],
        "label": "A",
        "subset": row["subset"],
    }


def _rewardbench2(row: Row, at: RowLocation) -> Row:
    case = _chosen_first(row, at.place)
    # Only the ties name their own; every id of the other subsets is unique within its subset.
    subset = str(row["subset"])
    return {**case, "id": case["id"] if subset == "Ties" else f"{subset}/{case['id']}", "subset": subset}


def _rm_bench(row: Row, at: RowLocation) -> Row:
    case = _chosen_first(row, at.place)
    return {**case, "id": f"{row['domain']}/{case['id']}", "domain": row["domain"]}


REWARDBENCH: Final = Benchmark(
    "rewardbench",
    "RewardBench",
    kind="RewardBench",
    licence="ODC-BY 1.0",
    citation="Lambert et al. 2024, arXiv 2403.13787",
    homepage="https://huggingface.co/datasets/allenai/reward-bench",
    expects="the filtered set of RewardBench, as Parquet or JSONL",
    shapes=(shape("prompt", "chosen", "chosen_model", "rejected", "rejected_model", "subset"),),
    read=row_by_row(_rewardbench),
)
REWARDBENCH2: Final = Benchmark(
    "rewardbench2",
    "RewardBench 2",
    kind="RewardBench 2",
    licence="ODC-BY 1.0",
    citation="Malik et al. 2025, arXiv 2506.01937",
    homepage="https://huggingface.co/datasets/allenai/reward-bench-2",
    expects="the test file of RewardBench 2, as Parquet or JSONL",
    shapes=(shape("id", "prompt", "chosen", "rejected", "num_correct", "subset"),),
    read=row_by_row(_rewardbench2),
)
RM_BENCH: Final = Benchmark(
    "rm_bench",
    "RM-Bench",
    kind="RM-Bench",
    licence="ODC-BY 1.0",
    citation="Liu et al. 2025, ICLR, arXiv 2410.16184",
    homepage="https://github.com/THU-KEG/RM-Bench",
    expects="RM-Bench's total_dataset.json, or one of its domains' files",
    shapes=(shape("id", "prompt", "chosen", "rejected", "domain"),),
    read=row_by_row(_rm_bench),
)
