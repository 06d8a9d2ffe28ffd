"""`python -m tests.golden [NAME ...]`: compare the golden runs with the committed files.

`--update` shows each difference and accepts it after a question, or with `--yes`. `--record` asks
simulated judges anew and replaces the stored answers; it is needed only for new runs or changed
prompts.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from evalkit.store import open_url
from evalkit.store.maintenance import export_to
from tests.golden.harness import ANSWERS, accept, difference, make_store, named, texts_of_run
from tests.golden.record import reply, write_answers
from tests.golden.runs import GOLDEN, PORT
from tests.support.fake_provider import serving


def main() -> int:
    """Run the command; the exit status is 1 if a run differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="golden runs (none: all)")
    parser.add_argument(
        "--update", action="store_true", help="show the differences, then accept them"
    )
    parser.add_argument(
        "--yes", action="store_true", help="with --update: accept without a question"
    )
    parser.add_argument(
        "--record", action="store_true", help="ask simulated judges anew and store their answers"
    )
    arguments = parser.parse_args()
    goldens = named(arguments.names)
    with TemporaryDirectory() as made:
        folder = Path(made).resolve()
        if arguments.record:
            _record(folder)
        store = make_store(folder / "answers.store")
        differing = {}
        for golden in goldens:
            texts = texts_of_run(golden, folder / golden.name, store)
            if shown := difference(golden.name, texts):
                print(shown)
                differing[golden.name] = texts
    print(
        f"{len(goldens)} golden runs, {len(differing)} differ{': ' if differing else ''}{', '.join(differing)}"
    )
    if not differing:
        return 0
    if not arguments.update or not (arguments.yes or _agreed()):
        return 1
    for name, texts in differing.items():
        accept(name, texts)
    print("accepted")
    return 0


def _agreed() -> bool:
    """Ask on a terminal; elsewhere, only `--yes` accepts."""
    return sys.stdin.isatty() and input("Accept these differences? [y/N] ").strip().lower() == "y"


def _record(folder: Path) -> None:
    store, exported = folder / "recorded.store", folder / "recorded.jsonl"
    with serving(PORT) as provider:
        provider.rule = reply
        for golden in GOLDEN.values():
            texts_of_run(golden, folder / "recorded" / golden.name, store, mode="read_write")
    with closing(open_url(str(store), read_only=True)) as answers:
        export_to(answers, exported)
    print(f"{write_answers(exported, ANSWERS)} answers recorded")


if __name__ == "__main__":
    sys.exit(main())
