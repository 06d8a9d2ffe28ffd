"""The judge that the plug-in page shows, as it is when installed: its code and its entry points on the path."""

import json
import sys
import tomllib
from pathlib import Path

from evalkit.cli import main
from tests.docs.test_pages import PAGES


def test_the_judge_of_the_plugin_page_judges(tmp_path, monkeypatch, capsys):
    for _, title, text in PAGES["guides/plugins.md"]:
        if title:
            (tmp_path / title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / title).write_text(text, "utf-8")
    package = tmp_path / "my-judge"
    ((group, points),) = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"][
        "entry-points"
    ].items()
    info = package / "my_judge-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-judge\nVersion: 0.1.0\n", "utf-8")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}", "utf-8")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delenv("EVALKIT_PLUGINS", raising=False)
    monkeypatch.chdir(tmp_path)
    command = "run judge=longer output=bracket dataset=sample"
    assert command in (Path(__file__).parents[2] / "docs" / "guides" / "plugins.md").read_text("utf-8")
    assert main([*command.split(), "tracking=none", "scoring.bootstrap=50", "hydra.run.dir=out"]) == 0, (
        capsys.readouterr()
    )
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text("utf-8"))["metrics"]
    assert metrics["length/longer_rate"]["value"] == 1.0
    sys.modules.pop("my_judge", None)
