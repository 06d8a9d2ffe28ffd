"""Config files of the user and of plug-ins, as they lie in folders."""

from __future__ import annotations

import os
from pathlib import Path

from evalkit.benchmark_discovery import own_benchmark_names
from evalkit.core.resources import project, shipped
from evalkit.plugins import CONF, folders


def user_folders() -> list[Path]:
    """Return the user's own config folders: `$EVALKIT_CONF`, then the project's conf/."""
    named = [Path(p) for p in os.environ.get("EVALKIT_CONF", "").split(os.pathsep) if p]
    own = [*named, project() / "conf"]
    return [p.resolve() for p in own if p.is_dir() and p.resolve() != shipped("conf")]


def user_files() -> list[Path]:
    """Return every config file in the user's folders and in those of plug-ins."""
    return [
        file
        for folder in (*user_folders(), *folders(CONF))
        for file in sorted(folder.rglob("*.yaml"))
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
