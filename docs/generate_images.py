"""Write the screenshots in docs/images: `uv run python docs/generate_images.py [FOLDER]`.

It runs the commands of README.md in a temporary folder, and opens their pages in Chromium. Chinese
texts need a font with Chinese characters, such as Debian's package `fonts-noto-cjk`; without one
they would be boxes, so it stops.

The sweep replays published answers. It needs LLMBar's `Natural/dataset.json` as `LLMBAR_CASES`, and
as `LLMBAR_SERVER` an OpenAI-compatible server that answers with LLMBar's stored texts for models
named MODEL-PROMPT, such as `GPT-4-CoT`. Without them its image is not written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
LLMBAR = Path(__file__).parent.parent / "experiments" / "llmbar_replay.yaml"
SWEEP = (
    *("run", str(LLMBAR), "-m", "hydra.sweep.dir=sweep", "hydra.sweeper.params=null"),
    "judge.name=GPT-4-Vanilla,GPT-4-CoT,PaLM2-Vanilla,PaLM2-CoT,ChatGPT-Vanilla,ChatGPT-CoT",
    "judge.model=openai/${judge.name}",
    "judge.api_base=${oc.env:LLMBAR_SERVER}",
    "dataset.path=${oc.env:LLMBAR_CASES}",
)
"""Three models with two prompts each."""
RUNS = (
    ("sweep", SWEEP, "sweep/report.html", (1120, 1110)),
    ("demo", ("demo",), "evalkit-demo/sweep/report.html", (1120, 985)),
    ("report", ("run", "hydra.run.dir=report"), "report/report.html", (1000, 1000)),
    (
        "datasheet",
        ("audit", "judge=simulated/authority", "dataset=sample", "hydra.run.dir=audit"),
        "audit/datasheet.html",
        (1100, 640),
    ),
)
"""Each image: its name, the command whose page it shows, the page, and its width and height."""


def browser() -> str:
    """Return the path of Chromium.

    Raises:
        SystemExit: if Chromium or a Chinese font is not installed.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    fonts = (
        shutil.which("fc-list")
        and subprocess.run(
            ["fc-list", ":lang=zh", "family"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    if not fonts:
        raise SystemExit(
            "no font has Chinese characters: apt-get install fontconfig fonts-noto-cjk"
        )
    return found


def write_images(folder: Path) -> None:
    """Write every image to a folder."""
    executable = browser()
    folder.mkdir(parents=True, exist_ok=True)
    replayed = "LLMBAR_SERVER" in os.environ and "LLMBAR_CASES" in os.environ
    runs = [run for run in RUNS if replayed or run[0] != "sweep"]
    with TemporaryDirectory() as work, sync_playwright() as playwright:
        environment = {**os.environ, "EVALKIT_STORE": str(Path(work, "store.sqlite"))}
        for _, words, *_ in runs:
            subprocess.run(
                [sys.executable, "-m", "evalkit", *words],
                cwd=work,
                env=environment,
                check=True,
            )
        chromium = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, _, file, (width, height) in runs:
            page = chromium.new_page(viewport={"width": width, "height": height})
            page.goto(Path(work, file).as_uri())
            page.screenshot(path=str(folder / f"{name}.png"))
        chromium.close()


if __name__ == "__main__":
    write_images(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
