"""`evalkit init FOLDER`: a project to start from, with copies of evalkit's own files."""

from __future__ import annotations

from argparse import Namespace
from importlib.resources import files
from pathlib import Path

from evalkit.core.atomic_files import write_file
from evalkit.core.resources import shipped
from evalkit.errors import ConfigError

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
# Custom criteria: `criteria=mine`, or with others `criteria=[general,mine]`. Names can be in any script.
# From the command line: criteria.accuracy.weight=0.7, ~criteria.tone, '+criteria.depth.description="It goes deep."'
accuracy:
  description: The response is correct and not misleading.
  weight: 0.6
tone:
  description: It suits the reader.
  weight: 0.4
"""
README = """\
# Judge evaluation

    evalkit demo                                      what evalkit finds, on simulated judges with known faults
    evalkit run experiments/first_look.yaml           the study in that file
    evalkit run dataset=mine                          your own cases, in data/mine.jsonl
    evalkit run dataset=mine judge=mine               your own judge, in conf/judge/mine.yaml
    evalkit run dataset=mine criteria=mine            your own criteria, in conf/criteria/mine.yaml
    evalkit ui                                        the runs, in MLflow

Templates in prompts/LANGUAGE/ replace evalkit's own of the same name.
"""


def init(arguments: Namespace) -> int:
    """Create a project folder; existing files are not changed.

    Raises:
        ConfigError: if the folder cannot be written.
    """
    folder: Path = arguments.folder
    made = []
    try:
        for place, text in _contents().items():
            made += [place] if _write(folder / place, text) else []
    except OSError as error:
        raise ConfigError(f"cannot be written ({error.strerror})", where=str(error.filename)) from None
    for place in made:
        print(f"  {folder / place}")
    print(f"{len(made)} files created. Next: cd {folder} && evalkit run experiments/first_look.yaml")
    print("To try evalkit without a model or a key: evalkit demo")
    return 0


def _contents() -> dict[str, str]:
    texts = {
        "README.md": README,
        ".gitignore": "outputs/\nmultirun/\nmlruns/\nmlartifacts/\nmlflow.db*\n",
        "conf/judge/mine.yaml": JUDGE,
        "conf/criteria/mine.yaml": CRITERIA,
        "conf/dataset/mine.yaml": DATASET,
        "data/mine.jsonl": (Path(str(files("evalkit"))) / "datasets" / "samples" / "sample.jsonl").read_text("utf-8"),
    }
    for name in ("experiments", "prompts"):
        root = shipped(name)
        for file in sorted(f for f in root.rglob("*") if f.is_file() and f.suffix in (".yaml", ".j2")):
            texts[f"{name}/{file.relative_to(root)}"] = file.read_text("utf-8")
    return texts


def _write(place: Path, text: str) -> bool:
    if place.exists():
        return False
    write_file(place, [text.encode()])
    return True
