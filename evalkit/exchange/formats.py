"""The layouts that judgments are read from, by name, and which of them a file looks like."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Protocol, cast

from evalkit.datasets import named
from evalkit.errors import ConfigError, did_you_mean
from evalkit.exchange.files import Peek, peek
from evalkit.exchange.records import Found, Options

FORMATS = MappingProxyType(
    {
        "generic": "CSV, JSONL, JSON or Parquet of your own: --fields winner=COLUMN … or score=COLUMN …",
        "alpaca_eval": "AlpacaEval's annotations.json",
        "mt_bench": "FastChat's MT-bench: model_judgment/JUDGE_single.jsonl, JUDGE_pair.jsonl, or gpt4_pair-….parquet",
        "arena_hard": "Arena-Hard: model_judgment/JUDGE/MODEL.jsonl, or the folder",
        "judgebench": "JudgeBench's outputs/….jsonl",
        "llmbar": "LLMBar's result.json, or the folder of its sets: --judge GPT-4/CoT",
        "qlora": "QLoRA's reviews by GPT-4: a file, or the folder pairwise/, oa/ or relative-gpt-3.5/",
        "unieval": "UniEval's scores beside people's, as of Topical-Chat; --dimension NAME",
        "prometheus": "Prometheus: gpt4_score with repeats",
        "halluqa": "HalluQA: systems' answers with is_hallucination, a file or a folder of them",
        "reward_bench": "RewardBench: eval-set-scores/MODEL.json, its rows, or a folder of models",
        "inspect": "an Inspect log, .json or .eval",
        "promptfoo": "promptfoo's results, --output results.json",
        "deepeval": "DeepEval's test run or evaluation result as JSON",
        "openai_batch": "an OpenAI batch's output file, of the cases in dataset.path",
    }
)
"""Each format, and what file it is."""
UNKNOWN = "name another file"
"""What to do with a file of which nothing is known."""


class Importer(Protocol):
    """A module that reads one layout."""

    def sniff(self, start: Peek) -> bool:
        """Say whether a file that begins so may be of this layout."""

    def read(self, path: Path, options: Options) -> Found:
        """Return the records that a file holds."""


def importer(name: str) -> Importer:
    """Return what reads a format.

    Raises:
        ConfigError: if there is no such format.
    """
    if name not in FORMATS:
        raise ConfigError("no such format", where=f"evalkit import {name}", remedy=did_you_mean(name, FORMATS))
    return cast(Importer, import_module(f"evalkit.exchange.importers.{name}"))


def recognise(path: Path) -> str | None:
    """Return the name of the format that a file or folder looks like, none if it is like no one's."""
    return _recognised(peek(path))


def _recognised(start: Peek) -> str | None:
    return next((name for name in FORMATS if name != "generic" and importer(name).sniff(start)), None)


def known(start: Peek) -> str | None:
    """Return what to do with a file of a layout that is known; none if it is of none."""
    if name := _recognised(start):
        return f"it looks like {_command(name, start.path)}"
    if benchmark := named.recognise(start.path):
        return f"it holds no judge's verdicts, and {benchmark.hint} in evalkit run"
    return None


def described(start: Peek) -> str:
    """Return what to do with a file that is not what it was said to be."""
    if told := known(start):
        return told
    if not start.row and not start.top:
        return UNKNOWN
    keys = ", ".join(map(str, list(start.row or start.top)[:8]))
    return f"its columns are {keys}: map them with evalkit import generic … --fields"


def judged(path: Path) -> str | None:
    """Return what to do with a file that was taken for cases and holds judgments; none if it holds none known."""
    name = recognise(path)
    return None if name is None else f"it holds judgments, and looks like {_command(name, path)}"


def _command(name: str, path: Path) -> str:
    return f"{name}: evalkit import {name} {quote(str(path))}"
