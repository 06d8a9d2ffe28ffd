"""Config files of the user and of plug-ins, as they lie in folders."""

from __future__ import annotations

from pathlib import Path

from evalkit.benchmark_discovery import own_benchmark_names
from evalkit.core.resources import shipped
from evalkit.plugins import CONF, folders, user_folders


def user_files() -> list[Path]:
    """Return every config file in the user's folders and in those of plug-ins."""
    return [
        file
        for folder in (*user_folders(), *folders(CONF))
        for file in sorted(folder.rglob("*.yaml"))
        if file.is_file()  # a pipe would block
    ]


def hidden_files() -> list[Path]:
    """Return the user's config files that are hidden by shipped options of the same name."""
    own = shipped("conf")
    options = {Path("dataset", f"{name}.yaml") for name in own_benchmark_names()}
    files = [
        (f, f.relative_to(folder))
        for folder in user_folders()
        for f in folder.rglob("*.yaml")
    ]
    return [f for f, option in files if option in options or (own / option).is_file()]
