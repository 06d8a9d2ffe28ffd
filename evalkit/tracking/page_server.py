"""MLflow's pages from one process: `mlflow ui` starts a second one, which imports MLflow again.

It is run as a file, because a module of the package would import all of `evalkit.tracking` first.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

_UVICORN: Final = ("-m", "uvicorn")
_ONE_WORKER: Final = "--workers 1"


def main(words: Sequence[str]) -> None:
    """Serve as `mlflow ui` does, with its options, until a signal."""
    import mlflow.server
    from mlflow.cli import cli

    # A later MLflow may start its server in another way: then it does so here, too.
    start = getattr(mlflow.server, "_exec_cmd", None)
    if start is not None:
        mlflow.server._exec_cmd = partial(_serve, start)
    cli(["ui", *words])


def _serve(
    start: Callable[..., Any],
    command: Sequence[str],
    *,
    extra_env: Mapping[str, str],
    **options: Any,
) -> Any:
    """Run the server of a command in this process if it is a plain one, or start it as
    MLflow does.
    """
    words = command[1:]
    # MLflow starts its jobs next to the process of its server.
    has_jobs = os.environ.get("MLFLOW_SERVER_ENABLE_JOB_EXECUTION") != "false"
    is_plain = tuple(words[:2]) == _UVICORN and _ONE_WORKER in " ".join(words)
    if has_jobs or not is_plain:
        return start(command, extra_env=extra_env, **options)
    os.environ.update(extra_env)
    # uvicorn raises the signal that has stopped it again.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    sys.argv = [*words[1:]]
    runpy.run_module("uvicorn", run_name="__main__", alter_sys=True)
    return sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
