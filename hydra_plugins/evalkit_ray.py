"""`hydra/launcher=ray`: the jobs of a sweep as tasks of Ray.

Hydra's own launcher for Ray needs a Ray of 2022.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

_NODE = {
    "_target_": "hydra_plugins.evalkit_ray.RayLauncher",
    "jobs": None,
    "address": None,
}
ConfigStore.instance().store(
    group="hydra/launcher", name="ray", node=_NODE, provider="evalkit"
)


class RayLauncher(Launcher):
    """Runs `jobs` jobs at a time, one for each processor by default, on the cluster at
    `address` or on this machine.
    """

    def __init__(self, jobs: int | None = None, address: str | None = None) -> None:
        self._jobs = jobs
        self._cluster = {} if address is None else {"address": address}

    def setup(
        self,
        *,
        hydra_context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
    ) -> None:
        """Take what each job needs."""
        self._config = config
        self._needed = (hydra_context, task_function)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run the jobs and return how they ended; one whose process dies is run again."""
        from evalkit.core.errors import ConfigError

        try:
            from evalkit.engine.workers.ray_pool import connect, ray
        except ImportError as error:
            remedy = "run pip install 'evalkit-judge[ray]'"
            raise ConfigError(
                f"is not installed ({error})", where="hydra/launcher=ray", remedy=remedy
            ) from None
        connect(self._jobs or 1, self._cluster, show=True)  # a job's errors too
        Path(self._config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
        surroundings = (
            str(Path.cwd()),
            {
                name: value
                for name, value in os.environ.items()
                if name.startswith("EVALKIT_")
            },
        )
        shared = ray.put(
            (surroundings, self._config, *self._needed, Singleton.get_state())
        )
        run = ray.remote(_run)
        refs = list[Any]()
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            if self._jobs is not None and len(refs) >= self._jobs:
                ray.wait(refs, num_returns=len(refs) - self._jobs + 1)
            refs.append(run.remote(shared, number, list(overrides)))
        returns: list[JobReturn] = ray.get(refs)
        return returns


def _run(shared: tuple[Any, ...], number: int, overrides: list[str]) -> JobReturn:
    surroundings: tuple[str, Mapping[str, str]]
    surroundings, config, context, task, state = shared
    if Path(
        surroundings[0]
    ).is_dir():  # paths are relative to where the sweep was started
        os.chdir(surroundings[0])
    os.environ.update(surroundings[1])
    setup_globals()
    Singleton.set_state(state)
    job = context.config_loader.load_sweep_config(config, overrides)
    with open_dict(job):
        job.hydra.job.id = f"job_{number}"
        job.hydra.job.num = number
    return run_job(
        hydra_context=context,
        task_function=task,
        config=job,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
