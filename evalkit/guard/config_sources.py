"""The ways in for a config from elsewhere, and the sections that each uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ALL: Final = ()
"""All sections."""
STUDY: Final = "study"
SETTINGS: Final = "settings"
JUDGE: Final = "judge"
ALIGN: Final = "align"
REPRODUCE: Final = "reproduce"
SCORE: Final = "score"
TRACK: Final = "track"
EXPORT: Final = "export"
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        STUDY: ALL,
        SETTINGS: ("dataset", "gate", "runner", "store", "tracking"),
        JUDGE: ALL,
        # Cases and prompts are in the run folder.
        ALIGN: ("judge", "swap", "probe", "runner", "store", "tracking"),
        REPRODUCE: ("store", "tracking"),
        SCORE: ("gate", "tracking"),
        TRACK: ("tracking",),
        EXPORT: ("tracking",),
    }
)
"""The sections that each way in uses, and so checks."""
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        STUDY: "`run`, `plan`, `audit`, `work`, `batch`, `doctor`, `ui`, `load_config`: a study,"
        " `config.yaml` of a run folder, `./conf`",
        SETTINGS: "`check`, `import`: the settings of data that was judged elsewhere",
        JUDGE: "`serve`, `watch`, `load_judge`, adapters: the folder of a judge or of a run, a"
        " registered judge (`models:/NAME@ALIAS`)",
        ALIGN: "`align`: a run folder",
        REPRODUCE: "`reproduce`: a run folder",
        SCORE: "`score`: a run folder with `gate.no_worse_than`",
        TRACK: "`track`: a run folder",
        EXPORT: "`export --to mlflow-assessments`, `export --register`: a run folder",
    }
)
"""The commands and functions of each way in. Other commands read a run folder and open nothing that
it names."""
