"""`evalkit audit`: judge and score edited cases together with the cases, or list the probes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from evalkit.cli.hydra_runner import split_study
from evalkit.cli.parser import study_words
from evalkit.cli.run import run_study, study_flags
from evalkit.compose.error_mapping import RECORDED
from evalkit.core.bounded_files import read_yaml
from evalkit.core.regular_files import read_text
from evalkit.core.translation import rendered, translator
from evalkit.core.values import Json

STANDARD = "standard"
AUDIT = "audit"
"""The word after `evalkit plan` that plans an audit."""


def main(arguments: Namespace) -> int:
    """Plant biases, judge, score and write each job as a run; or list the probes.

    Return the exit status.
    """
    if arguments.probes:
        return _list()
    words = [*audit_words(study_words(arguments)), *study_flags(arguments)]
    return run_study(words, output=arguments.output, overwrite=arguments.overwrite)


def audit_words(words: Sequence[str]) -> list[str]:
    """Return a command's words with the standard probes, unless they or the study choose probes."""
    # A user's own choice counts, on the command line or in the study, also through `defaults`.
    chosen = any(
        word.lstrip("+~").startswith(("probe=", "probe.probes")) for word in words
    )
    if chosen:
        return list(words)
    study = _study_values(words)
    defaults = [
        str(key)
        for entry in study.get("defaults") or ()
        if isinstance(entry, dict)
        for key in entry
    ]
    section = study.get("probe")
    settings = section if isinstance(section, dict) else {}
    if settings.get("probes") or any(key.endswith("probe") for key in defaults):
        return list(words)
    # The group's option would replace the whole section, so only the list is added.
    if settings and "defaults" not in study:  # such as a rewriter, which is kept
        return [*words, f"probe=[{STANDARD},{RECORDED}]"]
    return [*words, f"probe={STANDARD}"]


def _study_values(words: Sequence[str]) -> Json:
    """Return what the study of a command's words sets; nothing if it cannot be read,
    which is reported later.
    """
    study, _ = split_study(words)
    if study is None:
        return {}
    try:
        node = read_yaml(read_text(study))
    except (OSError, ValueError):
        return {}
    if isinstance(node, dict):
        return node
    return {}


def _list() -> int:
    from evalkit.audit import all_probes

    english = translator("en")
    rows = sorted(all_probes().values(), key=lambda probe: probe.name)
    width = max(len(probe.name) for probe in rows)
    for probe in rows:
        print(f"{probe.name:<{width}}  {rendered(probe.what, english)}")
    return 0
