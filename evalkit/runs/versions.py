"""Report the software of a run: package versions, and the git commit of the working directory."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from evalkit.core.resources import own_version

PACKAGES = ("hydra-core", "omegaconf", "pydantic", "litellm", "mlflow", "numpy", "scipy", "jinja2", "json-repair")


def environment_versions() -> dict[str, Any]:
    """Return the versions of evalkit, Python and `PACKAGES`, and the git commit; `None` for what is missing."""
    return {
        "evalkit": own_version(),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
        "git_commit": _git_commit(),
    }


def version_of(package: str) -> str | None:
    """Return the version of an installed package; `None` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    command = ("git", "rev-parse", "HEAD")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
