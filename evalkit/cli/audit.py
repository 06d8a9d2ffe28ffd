"""`evalkit audit`: a run with probes, and the list of probes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from evalkit.audit import all_probes
from evalkit.cli.parser import study_words
from evalkit.core.translation import rendered, translator

STANDARD = "probe=standard"
AUDIT = "audit"
"""The word after `evalkit plan` that plans an audit."""


def main(arguments: Namespace) -> int:
    """Plant biases, judge, score and write each job as a run; or list the probes. Return the exit status."""
    if arguments.probes:
        return _list()
    from evalkit.cli.run import run_study, study_flags

    words = [*audit_words(study_words(arguments)), *study_flags(arguments)]
    return run_study(words, output=arguments.output, overwrite=arguments.overwrite)


def audit_words(words: Sequence[str]) -> list[str]:
    """Return a command's words with the standard probes, unless they or the study choose probes."""
    chosen = any(word.lstrip("+~").startswith(("probe=", "probe.probes")) for word in words)
    return list(words) if chosen or _chooses_probes(words) else [*words, STANDARD]


def _chooses_probes(words: Sequence[str]) -> bool:
    from omegaconf import OmegaConf

    from evalkit.cli.hydra_runner import split_study

    study, _ = split_study(words)
    if study is None:
        return False
    node = OmegaConf.to_container(OmegaConf.load(study))
    if not isinstance(node, dict):
        return False
    defaults = [key for one in node.get("defaults") or () if isinstance(one, dict) for key in one]
    return bool((node.get("probe") or {}).get("probes")) or any(str(key).endswith("probe") for key in defaults)


def _list() -> int:
    english = translator("en")
    rows = sorted(all_probes().values(), key=lambda probe: probe.name)
    width = max(len(probe.name) for probe in rows)
    for probe in rows:
        print(f"{probe.name:<{width}}  {rendered(probe.what, english)}")
    return 0
