"""`evalkit align RUN`: find better settings of a judge, and prove them on labels that
did not choose them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from pydantic import ValidationError
from rich.table import Table

from evalkit.alignment.alignment import Alignment, align, check_calls
from evalkit.alignment.criteria import ITEMS_KEY, Result
from evalkit.alignment.examples import EXAMPLES
from evalkit.alignment.gepa_optimizer import ROUNDS
from evalkit.alignment.proof import SIDES, Labels, Outcome, Proof
from evalkit.cli.console import log, plain_console, print_heading, reported, text_table
from evalkit.cli.finished_run import check_named, read_value
from evalkit.config import JudgeConfig
from evalkit.config.align import CALLS, CRITERIA, PROMPT, AlignConfig
from evalkit.config.problems import config_error
from evalkit.core.display import dollars, number, p_value, with_interval
from evalkit.core.errors import ConfigError, ExitStatus, did_you_mean
from evalkit.core.splits import clusters_named
from evalkit.core.translation import Text, Translator, gettext, ngettext
from evalkit.core.values import JsonObject
from evalkit.guard.config_sources import ALIGN, SECTIONS
from evalkit.guard.policy import check, origin_of
from evalkit.report.findings.decisions import USES
from evalkit.report.page import translator_of
from evalkit.runs import claim_finished, read_run
from evalkit.runs.layout import ALIGNMENTS
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import SCORES
from evalkit.tracking import register_prompt

TUNE: Final = "tune"
_GROUP: Final = "align."
_MODEL: Final = "align.model."
_CLOSED: Final = gettext("The judge is unchanged, and the test labels stay closed.")
_OUTCOMES: Final[Mapping[Outcome, Text]] = {
    "reached": gettext(
        "The run's own settings reach the goal on dev. Nothing was changed, and the test labels"
        " stay closed."
    ),
    "none": gettext(
        "No other settings are better on dev: no gain that these labels can show. {closed}",
        closed=_CLOSED,
    ),
    "unpaid": gettext(
        "The budget did not pay for all answers. {closed} The same command with a higher"
        " align.budget_usd resumes.",
        closed=_CLOSED,
    ),
    "proposed": gettext(
        "These criteria agree better with dev labels, which they were not made from. {closed}",
        closed=_CLOSED,
    ),
    "unproved": gettext(
        "No gain that these labels can show: on test labels, the difference may be 0. The judge is"
        " unchanged."
    ),
    "worse": gettext(
        "The settings that are better on dev are worse on test labels. The judge is unchanged."
    ),
    "improved": gettext("Better on test labels that did not choose the settings."),
}
_RESULTS: Final[Mapping[Result, Text]] = {
    "kept": gettext("kept"),
    "duplicate": gettext("duplicate"),
    "useless": gettext("no gain"),
    "unusable": gettext("answers cannot be read"),
    "covered": gettext("adds nothing to those kept"),
}


def main(arguments: Namespace) -> int:
    """Align a run, and print what was found; no gain is a result, too.

    Raises:
        ConfigError: if a setting is wrong, or the run has too few labels.
    """
    check_named(arguments, "a run folder")
    folder = Path(arguments.run_folder)
    settings = read_settings(arguments.overrides)
    # One alignment of a run at a time: each may open its test labels, and counts how often.
    with claim_finished(folder):
        result = read_run(folder)
        check(result.config, origin_of(folder), SECTIONS[ALIGN])
        alignment = align(result, folder, settings, lambda text: log("note", text))
    _print(alignment, folder, translator_of(result))
    if alignment.outcome == "unpaid":
        status = ExitStatus.TOO_MANY_FAILURES
    else:
        status = ExitStatus.DONE
    # Printed before it is registered: a tracker that cannot be reached hides nothing.
    return int(max(status, _register_prompt(result, alignment)))


def _register_prompt(result: RunResult, alignment: Alignment) -> int:
    """Register a better prompt with its metrics in MLflow, and return the exit status."""
    if alignment.preset is None or alignment.test is None or not alignment.prompt:
        return ExitStatus.DONE
    values = {
        "before": alignment.test.before,
        "after": alignment.test.after,
        "difference": alignment.test.gain,
    }
    tags = {
        f"evalkit.align.{name}": with_interval(metric)
        for name, metric in values.items()
    }
    tags["evalkit.align.metric"] = alignment.metric
    statuses: list[int] = [ExitStatus.DONE]
    with reported(statuses):
        version = register_prompt(
            result.config.tracking, alignment.preset.stem, alignment.prompt, tags
        )
        if version:
            print(f"MLflow: prompt {version}")
    return max(statuses)


def read_settings(words: Sequence[str]) -> AlignConfig:
    """Return the settings in overrides: `tune=[…]` and `align.KEY=VALUE`.

    Raises:
        ConfigError: if a word is something else, or a value is invalid.
    """
    values: JsonObject = {}
    model: JsonObject = {}
    keys = [
        TUNE,
        *(f"{_GROUP}{name}" for name in AlignConfig.model_fields if name != TUNE),
    ]
    keys += [f"{_MODEL}{name}" for name in JudgeConfig.model_fields]
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key not in keys:
            raise ConfigError(
                "is not a setting of align", where=key, remedy=did_you_mean(key, keys)
            )
        if key.startswith(_MODEL):
            model[key.removeprefix(_MODEL)] = read_value(key, text)
        else:
            values[key.removeprefix(_GROUP)] = read_value(key, text)
    # `align.model=NAME` and `align.model.KEY=VALUE` can be combined, in any order.
    named = values.get("model") or {}
    if model and isinstance(named, str | Mapping):
        values["model"] = {
            **({"model": named} if isinstance(named, str) else named),
            **model,
        }
    try:
        return AlignConfig.model_validate(values)
    except ValidationError as error:
        problem = config_error(error, [])
        key = problem.where or TUNE
        where = key if key.startswith(TUNE) else f"{_GROUP}{key}"
        raise ConfigError(
            problem.what,
            where=where,
            remedy=problem.remedy or "see evalkit align --help",
        ) from None


def plan(words: Sequence[str]) -> int:
    """Print what an alignment could prove with the labels of a run, and return the exit status.

    Nothing is written, and no label is used twice.

    Args:
        words: The run folder, then the settings of the alignment.

    Raises:
        ConfigError: as `main`.
    """
    if not words or ("=" in words[0] and not Path(words[0]).is_dir()):
        raise ConfigError(
            "needs a run folder",
            where="evalkit plan align",
            remedy="evalkit plan align RUN tune=[…]",
        )
    folder = Path(words[0])
    settings = read_settings(words[1:])
    labels = Labels.of(read_run(folder), folder, settings)
    for line in _plan_lines(labels, settings):
        print(line)
    return 0


def _plan_lines(labels: Labels, settings: AlignConfig) -> Iterator[str]:
    """Yield the lines of a plan: labels, what is tuned and at what cost, and what it can show."""
    skipped = labels.obstacles(settings.tune)
    if settings.budget_usd is not None and settings.tune[0] in CALLS:
        check_calls(labels, settings)
    yield (
        f"labeled {clusters_named(labels.split.by)}:"
        f" {', '.join(f'{name} {labels.clusters(name)}' for name in SIDES)}"
    )
    # A label without a usable answer says nothing about the judge.
    usable = {name: labels.clusters(name, answered=True) for name in SIDES}
    if sum(usable.values()) < labels.clusters(*SIDES):
        yield f"with usable answers: {', '.join(f'{name} {n}' for name, n in usable.items())}"
    tuned = ", ".join(knob for knob in settings.tune if knob not in skipped)
    yield f"to tune: {tuned}; {_cost_of_plan(labels, settings)}"
    yield from (f"note: {knob} cannot be tuned: {why}" for knob, why in skipped.items())
    if CRITERIA in settings.tune and settings.criteria is None:
        yield from _provable_proposals(labels, settings.proposals)
    # The most useful line of a plan: whether paying can show anything at all.
    yield from _provable_gain(labels)


def _cost_of_plan(labels: Labels, settings: AlignConfig) -> str:
    """Return how many cases a judge is called for at most, and what a model writes before."""
    if settings.budget_usd is None or settings.tune[0] not in CALLS:
        return "no calls, $0"
    # In the order of `SIDES`.
    train, dev, test = (len(labels.side(name, labeled=True).cases) for name in SIDES)
    # Each set of examples is tried on dev, and the best one proved on test.
    cases = settings.sets * dev + test
    written = ""
    if PROMPT in settings.tune and settings.model is not None:
        reflected = min((ROUNDS + 1) * settings.cases, train)
        cases = settings.prompts * (reflected + dev) + test
        written = (
            f"{settings.model.label} writes at most {settings.prompts} prompts, and "
        )
    elif settings.criteria is not None:
        # A file of criteria is only proved.
        cases = dev + test
    elif CRITERIA in settings.tune and settings.model is not None:
        cases = (2 * settings.proposals - 1) * dev
        written = f"{settings.model.label} proposes at most {settings.proposals} criteria, and "
    most = dollars(settings.budget_usd)
    return f"{written}the judge is called for at most {cases} cases, for at most {most}"


def _provable_gain(labels: Labels) -> Iterator[str]:
    """Yield the smallest gain that the labels can prove, and what to do if there is none."""
    smallest = labels.provable()
    metric = labels.result.metrics[labels.metric]
    if smallest is None:
        yield (
            f"These labels can prove no gain in {labels.metric}: test has too few;"
            f" {labels.remedy()}."
        )
        return
    if labels.kind is SCORES:
        method = "with the correlation on dev"
    else:
        method = "by a judge that corrects verdicts and breaks none"
    claim = (
        f"smallest gain in {labels.metric} that these labels can prove, with a probability of"
        " 0.8"
    )
    yield f"{claim}: {number(smallest)}, {method}"
    # No judge can have more than 1.
    if metric.value is not None and metric.value + smallest > 1:
        yield (
            f"The judge has {with_interval(metric)} now, so these labels can prove no gain;"
            f" {labels.remedy()}."
        )


def _provable_proposals(labels: Labels, proposals: int) -> Iterator[str]:
    """Yield the smallest gain of one proposal that dev can show, and what to do if none."""
    smallest = labels.provable("dev", proposals)
    if smallest is None:
        yield f"Dev has too few labels to keep one of {proposals} criteria; {labels.remedy()}."
    else:
        claim = (
            f"smallest gain of one criterion of {proposals} that dev can show, with a probability"
            " of 0.8"
        )
        yield f"{claim}: {number(smallest)}"


def _print(alignment: Alignment, folder: Path, words: Translator) -> None:
    """Print what was found; sentences are in the language of the run's report."""
    console = plain_console()
    console.print(print_heading("align", f" ({folder}, {_tried(alignment)})"))
    if not alignment.split.held_out:
        log(
            "note",
            "reports of this run have shown you all labels; dataset.holdout=0.3 keeps those of"
            " test out",
        )
    for knob, why in alignment.obstacles.items():
        log("note", f"{knob} cannot be tuned: {why}")
    for key, value in alignment.settings.items():
        # Long texts; the difference below shows them.
        if key in (CRITERIA, ITEMS_KEY):
            continue
        if key == EXAMPLES:
            value = f"{len(value)} labeled {'pairs' if value[0].winner else 'responses'} of train"
        console.print(f"  {key}: {value}")
    if alignment.proposals:
        console.print()
        console.print(_proposals_table(alignment, words))
    if alignment.diff:
        console.print()
        for line in alignment.diff.splitlines():
            console.print("  " + _printable(line))
    if alignment.dev is not None:
        console.print()
        console.print(_proofs_table(alignment, words))
    console.print()
    for text in _conclusions(alignment):
        console.print(f"  • {text.render(words)}")
    for line in _written(alignment, folder):
        console.print(line)


def _tried(alignment: Alignment) -> str:
    """Return how many combinations or criteria were tried."""
    count = alignment.tried
    if alignment.proposals:
        noun = "criterion" if count == 1 else "criteria"
    else:
        noun = "combination of settings" if count == 1 else "combinations of settings"
    return f"{count} {noun}"


def _printable(line: str) -> str:
    """Return a line of a diff as it is, except characters that could control the terminal."""
    return "".join(character if character.isprintable() else "�" for character in line)


def _proofs_table(alignment: Alignment, words: Translator) -> Table:
    """Return the table of the metric before and after, on the labels of dev and of test."""
    metric = alignment.metric
    table = text_table(
        ("side", "metric", "before", "after", "difference", "decision"), ("n",)
    )
    for name, proof in (("dev", alignment.dev), ("test", alignment.test)):
        if proof is not None:
            table.add_row(name, *_proof_cells(metric, proof, words))
    if alignment.optimism is not None:
        difference = with_interval(alignment.optimism, signed=True)
        table.add_row("optimism", metric, "", "", difference, "", "")
    return table


def _conclusions(alignment: Alignment) -> Iterator[Text]:
    """Yield what was proved, how often test labels were opened, and what was paid."""
    yield _OUTCOMES[alignment.outcome]
    if alignment.test is not None:
        detectable = alignment.test.difference.detectable
        if alignment.outcome == "unproved" and detectable is not None:
            text = gettext(
                "With these test labels, a difference of {difference} would probably have been"
                " found."
            )
            yield text.fill(difference=number(detectable))
        times = len(alignment.split.opened)
        yield ngettext(
            "Test labels opened once.", "Test labels opened {n} times.", times
        )
    seconds = f"{alignment.seconds:.1f}"
    if not alignment.calls:
        yield gettext("No calls, $0; {seconds} s.", seconds=seconds)
        return
    yield gettext(
        "{calls} calls, {cost}; {seconds} s.",
        calls=f"{alignment.calls:,}",
        cost=dollars(alignment.cost_usd),
        seconds=seconds,
    )


def _written(alignment: Alignment, folder: Path) -> Iterator[str]:
    """Yield the files that were written, and how to use them."""
    if alignment.template is not None:
        yield f"written: {alignment.template}"
    preset = alignment.preset
    if alignment.outcome == "proposed":
        yield f"written: {preset}; edit it, then prove it on test labels:"
        command = (
            f"{quote(str(folder))} tune=criteria {quote(f'align.criteria={preset}')}"
            " align.budget_usd=…"
        )
        yield f"  evalkit align {command}"
    elif preset is not None:
        # Where a preset must be for `method=NAME` or `criteria=NAME` to find it.
        group = CRITERIA if CRITERIA in alignment.settings else "method"
        tuned = {CRITERIA, ITEMS_KEY} & alignment.settings.keys()
        verb = "proved" if tuned else "written"
        moved = f"copy it to conf/{group}, and "
        if preset.parent.name == group:
            moved = ""
        setting = quote(f"{group}={preset.stem}")
        yield f"{verb}: {preset}; {moved}use it with {setting}"
    yield f"written: {folder / ALIGNMENTS}"


def _proposals_table(alignment: Alignment, words: Translator) -> Table:
    """Return the table of proposals with their gains on dev, those that were kept first."""
    table = text_table(("proposal", "text", "gain on dev", "p, adjusted", "result"), ())
    for proposal in sorted(
        alignment.proposals, key=lambda proposal: proposal.result != "kept"
    ):
        if proposal.gain is None:
            gain = ""
        else:
            gain = with_interval(proposal.gain.metric, signed=True)
        if proposal.of:
            result = gettext(
                "{result} of {name}", result=_RESULTS[proposal.result], name=proposal.of
            )
        else:
            result = _RESULTS[proposal.result]
        table.add_row(
            proposal.name,
            proposal.text,
            gain,
            p_value(proposal.p),
            result.render(words),
        )
    return table


def _proof_cells(metric: str, proof: Proof, words: Translator) -> tuple[str, ...]:
    """Return the row of a metric in the table of proofs: before, after, gain, and decision."""
    # `decisions` has two entries, before and after.
    before, after = (USES[decision.use].render(words) for decision in proof.decisions)
    decision = before if before == after else f"{before} → {after}"
    return (
        metric,
        with_interval(proof.before),
        with_interval(proof.after),
        with_interval(proof.gain, signed=True),
        decision,
        str(proof.gain.n),
    )
