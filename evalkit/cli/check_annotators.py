"""What `evalkit check` prints about a table in which only people judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from evalkit.cli.check_summary import reading_lines
from evalkit.cli.language import Speaker, chosen_language
from evalkit.core.display import number, printable
from evalkit.core.translation import Text, gettext, translator
from evalkit.core.types import Metric

if TYPE_CHECKING:
    from evalkit.interop.tables.annotators_alone import (
        AnnotatorAgreement,
        PairOfAnnotators,
    )


def print_annotators(agreement: AnnotatorAgreement, *, as_json: bool) -> None:
    """Print how far annotators agree, how the table was read, and how to have its responses
    judged.
    """
    say = Speaker(translator(chosen_language() or "en"))
    lines = [say(text) for text in _texts(agreement)]
    if as_json:
        content = {**asdict(agreement), "conclusion": lines}
        print(json.dumps(content, ensure_ascii=False))
        return
    lines += ["", say(gettext("How the table was read:"))]
    lines += reading_lines(agreement.roles)
    lines += [say(gettext("note: {note}", note=note)) for note in agreement.warnings]
    if agreement.judging_command:
        next_step = gettext("Next: {command}", command=agreement.judging_command)
        lines += ["", say(next_step)]
    print(printable("\n".join(lines)).expandtabs())


def _texts(agreement: AnnotatorAgreement) -> Sequence[Text]:
    alpha = gettext(
        "No judge: {annotators} annotators, Krippendorff's alpha {alpha} on {units} units"
        " with labels of at least two.",
        annotators=len(agreement.names),
        alpha=_with_interval(agreement.alpha),
        units=agreement.units,
    )
    return [alpha, *(_of_pair(pair, agreement) for pair in agreement.pairs)]


def _of_pair(pair: PairOfAnnotators, agreement: AnnotatorAgreement) -> Text:
    first, second = pair.names
    return gettext(
        "{first} and {second}: equal in {equal} of {units}, {coefficient} {value}",
        first=first,
        second=second,
        equal=f"{pair.equal / pair.units:.0%}",
        units=pair.units,
        coefficient="Spearman" if agreement.graded else "kappa",
        value=_with_interval(pair.metric),
    )


def _with_interval(metric: Metric) -> str:
    if metric.low is None or metric.high is None:
        return number(metric.value)
    return f"{number(metric.value)} [{number(metric.low)}, {number(metric.high)}]"
