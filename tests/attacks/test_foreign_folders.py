"""Run folders with damaged or foreign files, through each command that reads one: one line, and nothing changes."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from evalkit.cli import main
from tests.support.command_line import run_once

JUDGED = "id,prompt,response_a,response_b,winner,label\n" + "".join(
    f"{n},Name a prime.,7,9,{'AB'[n % 3 > 0]},{'AB'[n % 2]}\n" for n in range(12)
)
COMMANDS = {
    "score": ["score", "run", "scoring.seed=3"],
    "compare": ["compare", "run", "other"],
    "check": ["check", "run"],
    "export": ["export", "run", "--to", "csv", "--output", "x.csv"],
    "export --to judge": ["export", "run", "--to", "judge", "--output", "judge"],
    "label": ["label", "run", "labels.csv"],
    "align": ["align", "run", "tune=[threshold]"],
    "reproduce": ["reproduce", "run"],
    "track": ["track", "run"],
    "score with a gate": ["score", "run", "gate={agreement/accuracy: {value: '>= 0.1'}}"],
    "drift": ["drift", "run", "other"],
    "plan": ["plan", "run/config.yaml", "judge=simulated/good"],
}
TEXTS = [
    '{"format": 99}', '{"format": "x"}', "[]", "null", "3", '"text"', "", "{", "\x00\x01", "[" * 5000,
    '{"a": ' * 5000, "a: &a [*a]", "!!python/object/apply:os.system [id]", "\ufeff\ufeff{}", "{}",
    '{"prompt_hashes": 3, "imported": 4, "format": 1}',
]  # fmt: skip
FILES = ("manifest.json", "config.yaml", "cases.jsonl", "judgments.jsonl", "metrics.json")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    (folder / "judged.csv").write_text(JUDGED, "utf-8")
    words = ["generic", "judged.csv", "tracking=none", "scoring.bootstrap=20", "hydra.run.dir=run"]
    run_once(folder, "import", *words)
    # Let it claim that evalkit asked its judge, so that there is a judge to export.
    file = folder / "run" / "manifest.json"
    manifest = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**manifest, "imported": None}), "utf-8")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_whole_run_folder_is_read(command, folders, tmp_path, monkeypatch, capsys, empty_store):
    """Else the commands below would fail for another reason than the foreign file."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store, "mlflow.db")
    shutil.copytree(folders / "run", "run")
    shutil.copytree(folders / "run", "other")
    Path("labels.csv").write_text("id,annotator,label\n0,me,A\n", "utf-8")
    assert main(COMMANDS[command]) != 1, capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", FILES)
def test_a_foreign_file_is_one_line_and_changes_nothing(
    command, name, folders, tmp_path, monkeypatch, capsys, thorough
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folders / "run", "run")
    shutil.copytree(folders / "run", "other")
    Path("labels.csv").write_text("id,annotator,label\n0,me,A\n", "utf-8")
    step = 2 if thorough else 6
    for text in TEXTS[(FILES.index(name) + len(command)) % step :: step]:
        Path("run", name).write_text(text, "utf-8")
        before = contents(Path("run"))
        status = main(COMMANDS[command])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, (text[:40], printed.err)
        if status == 1:
            [line] = [row for row in printed.err.splitlines() if row.startswith("evalkit")]
            assert len(line) < 600, line
            assert contents(Path("run")) == before, (text[:40], line)
        for made in ("x.csv", "judge", "again"):
            shutil.rmtree(made, ignore_errors=True)
            Path(made).unlink(missing_ok=True)
        if status != 1:
            shutil.rmtree("run")
            shutil.copytree(folders / "run", "run")
