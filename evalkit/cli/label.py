"""`evalkit label RUN …`: people's labels into a finished run, and what is worth labelling out to where they label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evalkit.cli.args import pop_options
from evalkit.cli.usage import USAGE
from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.interop.labeling import Label
from evalkit.runs import read_run
from evalkit.types import RunResult

OPTIONS = ("--to", "--from", "--n", "--annotators", "--seed")
MLFLOW = "mlflow"
HUMAN = "human"


def main(words: Sequence[str]) -> int:
    """Read labels from a file or from MLflow and score the run again; or send what is worth labelling to MLflow.

    Raises:
        ConfigError: if the words do not say what to do, or the labels are not of this run.
        TrackingError: if MLflow cannot be reached.
    """
    overrides = [word for word in words if word.startswith("tracking.")]
    values, rest = pop_options("label", [word for word in words if word not in overrides], OPTIONS, USAGE["label"])
    if not rest or len(rest) > 2 or ("--to" in values) + ("--from" in values) + (len(rest) == 2) != 1:
        raise ConfigError(
            "needs a run folder, and where labels come from or go to", where="evalkit label", remedy=USAGE["label"]
        )
    folder = Path(rest[0])
    result = read_run(folder)
    if "--to" in values:
        return _send(result, values, overrides)
    source = rest[1] if len(rest) == 2 else values["--from"]
    _config(result, overrides)  # else what is wrong with it would be found with the labels
    left_out: Counter[str] = Counter()
    found = _from_mlflow(result, overrides) if source == MLFLOW else _from_file(Path(source), left_out)
    labels = list({(label.case_id, label.unit, label.annotator): label for label in found}.values())
    from evalkit.cli.run_folders import print_gate
    from evalkit.cli.summary import print_summary
    from evalkit.import_run import add_labels

    again = add_labels(result, folder, labels, source)
    print_summary(again)
    counts = Counter(label.annotator for label in labels)
    people = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    print(f"labels: {len(labels)} by {len(counts)} annotator{'s' * (len(counts) != 1)} ({people})")
    for what, count in left_out.items():
        print(f"note: {what}, left out: {count}")
    if older := len(found) - len(labels):
        print(f"note: {older} older: of one person's labels of one thing the last counts")
    return print_gate(again)


def _from_file(path: Path, left_out: Counter[str]) -> list[Label]:
    from evalkit.interop.label_files import read_labels

    return read_labels(path, left_out)


def _config(result: RunResult, overrides: Sequence[str]) -> RunConfig:
    from evalkit.cli.run_folders import apply_settings

    return apply_settings(result, overrides, ("tracking",))


def _from_mlflow(result: RunResult, overrides: Sequence[str]) -> list[Label]:
    from evalkit.tracking.labels import fetch_labels

    return fetch_labels(_config(result, overrides).tracking, result, folder=Path.cwd())


def _send(result: RunResult, values: dict[str, str], overrides: Sequence[str]) -> int:
    if values["--to"] != MLFLOW:
        remedy = "use --to mlflow, or `evalkit export RUN --to argilla` or label_studio"
        raise ConfigError("labels are not asked for there", where=f"--to {values['--to']}", remedy=remedy)
    count, seed = _whole(values, "--n", "50"), _whole(values, "--seed", "0")
    names = [name.strip() for name in values.get("--annotators", HUMAN).split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ConfigError("needs different names", where="--annotators", remedy="write --annotators ann,bob")
    from evalkit.interop.label_priority import rank_for_labeling
    from evalkit.tracking.labels import send_tasks

    units = rank_for_labeling(result, count, seed)
    if not units:
        raise ConfigError("the run holds no verdict to label", where="evalkit label", remedy="name another run")
    sent = send_tasks(_config(result, overrides).tracking, result, units, names, seed=seed, folder=Path.cwd())
    print(f"{len(units)} to label for each of {', '.join(names)}, in MLflow's experiment '{sent.experiment}':")
    for name, place in sent.queues.items():
        print(f"  {name}: {place}")
    print("`evalkit ui` opens MLflow; `evalkit label RUN --from mlflow` reads what people said")
    return 0


def _whole(values: dict[str, str], option: str, default: str) -> int:
    text = values.get(option, default)
    if not text.isdigit() or (option == "--n" and int(text) == 0):
        raise ConfigError("is not a whole number", where=f"{option} {text}", remedy=f"write {option} {default}")
    return int(text)
