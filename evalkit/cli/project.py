"""`evalkit init FOLDER` and `evalkit demo`: folders to start from."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Sequence
from contextlib import chdir
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.cli.console import CommandSettings, log, plain_console, text_table
from evalkit.cli.parser import UsageError
from evalkit.config import TrackingConfig
from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.claims import claim_folder
from evalkit.core.display import percent
from evalkit.core.errors import ConfigError, ExitStatus, did_you_mean
from evalkit.core.resources import shipped
from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.scoring.decision import side
from evalkit.tracking import warm_up

if TYPE_CHECKING:
    from rich.console import Console

JUDGE = """\
# A custom judge: `judge=mine`. Keys and their defaults: `evalkit run --cfg job`.
name: mine
model: openai/gpt-4o-mini
# api_base: http://localhost:8000/v1
"""
DATASET = """\
# A custom dataset: `dataset=mine`. `fields` maps evalkit's names to your columns.
path: data/mine.jsonl
# fields: {response_a: answer_1, response_b: answer_2}
# label_map: {1: A, 2: B}
"""
CRITERIA = """\
# Custom criteria: `criteria=mine`, or with others `criteria=[general,mine]`.
# Names can be in any script. From the command line: criteria.accuracy.weight=0.7,
# ~criteria.tone, '+criteria.depth.description="It goes deep."'
accuracy:
  description: The response is correct and not misleading.
  weight: 0.6
tone:
  description: It suits the reader.
  weight: 0.4
"""
README = """\
# Judge evaluation

    evalkit demo                                      simulated judges with known faults
    evalkit run experiments/first_look.yaml           the study in that file
    evalkit run dataset=mine                          your own cases, in data/mine.jsonl
    evalkit run dataset=mine judge=mine               your own judge, in conf/judge/mine.yaml
    evalkit run dataset=mine criteria=mine            your own criteria, in conf/criteria/mine.yaml
    evalkit ui                                        the runs, in MLflow

Templates in prompts/LANGUAGE/ replace evalkit's own of the same name:
`evalkit init . --copy pairwise` copies one.
Shipped studies run by their names: `evalkit run judge_sweep`; `evalkit docs` opens the guides.
"""


def init(arguments: Namespace) -> int:
    """Create a project folder, or copy a shipped prompt into one; existing files are not changed.

    Raises:
        ConfigError: if there is no such prompt, or the folder cannot be written.
    """
    folder: Path = arguments.folder
    contents = (
        _project_files() if arguments.copy is None else _shipped_prompts(arguments.copy)
    )
    created = []
    # Two commands at once would each find files missing and mix their contents.
    with file_errors("cannot be written"), claim_folder(folder):
        for name, text in contents.items():
            if _write(folder / name, text):
                created.append(name)
    for name in created:
        print(f"  {folder / name}")
    files_created = "1 file" if len(created) == 1 else f"{len(created)} files"
    if arguments.copy is not None:
        print(
            f"{files_created} created. Delete a copy to use the shipped prompt again."
        )
        return 0
    command = f"cd {shlex.quote(str(folder))} && evalkit run {FIRST_STUDY}"
    print(f"{files_created} created. Next: {command}")
    print("To try evalkit without a model or a key: evalkit demo")
    return 0


FIRST_STUDY = "experiments/first_look.yaml"


def _project_files() -> dict[str, str]:
    """Return the texts of a new project by their paths."""
    samples = Path(str(files("evalkit"))) / "datasets" / "samples"
    first_study = shipped("experiments") / Path(FIRST_STUDY).name
    return {
        "README.md": README,
        ".gitignore": "outputs/\nmultirun/\nmlruns/\nmlartifacts/\nmlflow.db*\n",
        "conf/judge/mine.yaml": JUDGE,
        "conf/criteria/mine.yaml": CRITERIA,
        "conf/dataset/mine.yaml": DATASET,
        "data/mine.jsonl": (samples / "sample.jsonl").read_text("utf-8"),
        FIRST_STUDY: first_study.read_text("utf-8"),
    }


def _shipped_prompts(name: str) -> dict[str, str]:
    """Return the shipped prompts of a name, such as `pairwise` or `prompt/pairwise`.

    In each language, or in the one that is named.

    Raises:
        ConfigError: if there is none.
    """
    root = shipped("prompts")
    template = name.removeprefix("prompts/").removeprefix("prompt/")
    template = template.removesuffix(".j2").removesuffix(".md")
    # `en/pairwise` names one language, `pairwise` all of them.
    language, _, stem = template.rpartition("/")
    texts = {
        f"prompts/{file.relative_to(root).as_posix()}": file.read_text("utf-8")
        for file in sorted(root.glob("*/*.md.j2"))
        if file.name == f"{stem}.md.j2" and language in ("", file.parent.name)
    }
    if not texts:
        stems = {file.name.removesuffix(".md.j2") for file in root.glob("*/*.md.j2")}
        remedy = did_you_mean(stem, sorted(stems))
        raise ConfigError("no such prompt", where=f"--copy {name}", remedy=remedy)
    return texts


def _write(path: Path, text: str) -> bool:
    if path.exists():
        return False
    write_file(path, [text.encode()])
    return True


STORE, TRACKING = "answers.sqlite", "sqlite:///mlflow.db"
SWEEP = "sweep"
WRITTEN = (STORE, "mlflow.db", "mlruns", SWEEP)
SETTINGS = (
    f"hydra.sweep.dir={SWEEP}",
    f"store.url={STORE}",
    "store.mode=read_write",
    f"tracking.uri={TRACKING}",
)
RATES = {"position": "position/first_rate", "length": "length/longer_rate"}
"""The metric that shows each fault. Half of the better responses are the longer ones, so an
unbiased judge has 0.5."""
ACCURACY = "agreement/accuracy"
_PLANTED = {
    "good": "no fault",
    "position_biased": "position: picks the first shown in {} of pairs",
    "length_biased": "length: picks the longer in {} of pairs",
}


@frozen
class _Row:
    """A judge with its planted fault (`None` if it has none) and the metrics that show faults."""

    name: str
    planted: str
    fault: str | None
    metrics: dict[str, Metric | None]

    @property
    def found(self) -> list[str]:
        return [
            name
            for name in RATES
            if (rate := self.metrics[name]) is not None and side(rate, 0.5) == "above"
        ]

    @property
    def right(self) -> bool:
        return self.found == ([self.fault] if self.fault else [])


def demo(arguments: Namespace) -> int:
    """Run the demo's study in its own folder; print the planted and the found faults.

    Raises:
        ConfigError: if the folder cannot be used.
    """
    folder: Path = arguments.folder
    if "=" in str(folder):
        raise UsageError("demo", f"unexpected argument '{folder}'")
    _enter(folder)
    log(
        "progress",
        "Three simulated judges (no model, no key, no network) judge the 24 sample pairs in both"
        " orders ...",
    )
    # In the folder, so that all paths of the demo are relative, and the printed commands work
    # there.
    with chdir(folder), CommandSettings("quiet").applied():
        # MLflow takes the longest to import: start that first, in a separate process.
        warm_up(TrackingConfig(uri=TRACKING))
        from evalkit.cli.run import run_study

        status = run_study([str(shipped("experiments") / "demo.yaml"), *SETTINGS])
        if status not in (ExitStatus.DONE, ExitStatus.NOT_TRACKED):
            return status
        rows = _demo_rows(Path(SWEEP))
    _print_demo(rows, folder, recorded=status == ExitStatus.DONE)
    return status


def _enter(folder: Path) -> None:
    """Create the folder, or check that it only has files of an earlier demo.

    Raises:
        ConfigError: if it has other files or cannot be created.
    """
    with file_errors("cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        if not all(path.name.startswith(WRITTEN) for path in folder.iterdir()):
            raise ConfigError(
                "holds files that are not a demo's",
                where=str(folder),
                remedy="name a new folder",
            )


def _demo_rows(sweep: Path) -> list[_Row]:
    """Return the planted bias of each simulated judge, and what its run found, in the order of the
    jobs.
    """
    from evalkit.runs import read_outcome

    rows = []
    # Hydra numbers the jobs of a sweep from 0, in the order of its judges.
    for job in range(len(_PLANTED)):
        outcome = read_outcome(sweep / str(job))
        judge = outcome.config.judge
        name = str(judge.model).rpartition("/")[2]
        planted = _PLANTED[name].format(f"{judge.params.get('strength', 0):.0%}")
        rates = {**RATES, "accuracy": ACCURACY}
        metrics = {key: outcome.metrics.get(rate) for key, rate in rates.items()}
        # Such as `position: …`; a judge without a planted bias has no name of one.
        fault = planted.partition(":")[0] if ":" in planted else None
        rows.append(_Row(name, planted, fault, metrics))
    return rows


def _print_demo(rows: Sequence[_Row], folder: Path, *, recorded: bool) -> None:
    """Print the table of planted and found biases, and what to do next."""
    console = plain_console()
    table = text_table(
        (
            "simulated judge",
            "planted",
            "found",
            "first shown wins",
            "longer wins",
            "accuracy",
        )
    )
    for row in rows:
        metrics = (row.metrics[key] for key in ("position", "length", "accuracy"))
        cells = ("-" if metric is None else percent(metric) for metric in metrics)
        table.add_row(
            row.name,
            row.planted,
            " and ".join(f"{bias} bias" for bias in row.found) or "no bias shown",
            *cells,
        )
    console.print("", table)
    console.print(
        "\n95% intervals in brackets. Without bias both rates are 50%: half of the better responses"
        " are longer."
    )
    right = sum(row.right for row in rows)
    console.print(
        "Found: exactly the planted faults."
        if right == len(rows)
        else f"Found: the planted faults, and no others, of {right} of {len(rows)} judges."
    )
    _print_next_steps(console, folder, recorded=recorded)


def _print_next_steps(console: Console, folder: Path, *, recorded: bool) -> None:
    """Print where the leaderboard is, and what to run next."""
    quoted_folder = shlex.quote(str(folder))
    here = "" if folder.resolve() == Path.cwd() else f"cd {quoted_folder} && "
    tracking = ""
    # The demo is recorded in its own folder, and not where the variable points.
    if os.environ.get("MLFLOW_TRACKING_URI"):
        tracking = f" tracking.uri={TRACKING}"
    console.print(
        f"\nleaderboard: {folder / SWEEP / 'report.html'} (also leaderboard.csv); it links to each"
        " judge's report"
    )
    if recorded:
        console.print(f"MLflow:      {here}evalkit ui{tracking}")
    console.print("next:        evalkit init my-project    (your own judge and data)")
