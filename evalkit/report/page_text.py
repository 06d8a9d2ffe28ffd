"""Words of the page in every language."""

from __future__ import annotations

from collections.abc import Mapping

from evalkit.core.translation import Text, gettext, in_every_language, pgettext
from evalkit.report.metric_names import Words


def _words(texts: Mapping[str, Text]) -> dict[str, Words]:
    return {name: in_every_language(text) for name, text in texts.items()}


FLAGS: dict[str, Words] = _words(
    {
        "all": gettext("All"),
        "mismatch": gettext("Differs from label"),
        "flip": gettext("Flips with order"),
        "disagreement": gettext("Repeats disagree"),
        "tie": gettext("Tie"),
        "cycle": gettext("Contradicts itself"),
        "missing": gettext("Missing"),
    }
)

TOKENS: dict[str, Text] = {"prompt": gettext("prompt"), "completion": gettext("completion")}

PAGE: dict[str, Words] = _words(
    {
        "report": gettext("Judge report"),
        "findings": gettext("What it found"),
        "metrics": gettext("All metrics"),
        "metric": gettext("Metric"),
        "value": gettext("Value"),
        "interval": gettext("{level} interval"),
        "count": gettext("n"),
        "missing": gettext("Missing"),
        "worst": gettext("Worst case"),
        "note": gettext("Note"),
        "undetermined": gettext("Not determined by this run"),
        "cases": gettext("Cases"),
        "filter": gettext("Show"),
        "search": gettext("Search the texts"),
        "short": gettext(
            "To keep this page small, {whole} of {total} cases stand here with all their texts: those that a filter "
            "names first, in turns, then the others in order. The texts of the other {short} are shortened, and "
            "their judges' answers and prompts left out; cases.jsonl and judgments.jsonl beside this page hold "
            "everything."
        ),
        "left_out": gettext("{left_out} further cases, to which no filter but All applies first, are not listed."),
        "unlike": gettext(
            "{unlike} prompts are not shown: rendered again from config and case they are not what was sent, since a "
            "template has changed or an answer that the run does not keep stood in them."
        ),
        "figures": gettext("Figures"),
        "dark": gettext("Dark"),
        "light": gettext("Light"),
        "script": gettext("Cases are shown by a script, which is off here."),
        "config": gettext("Configuration"),
        "manifest": gettext("Where it came from"),
        "started": gettext("Started"),
        "cost": gettext("Cost"),
        "calls": gettext("Calls"),
        "calls_text": gettext("{planned:,} planned, {stored:,} from the store, {sent:,} sent, {failed:,} failed"),
        "imported": gettext("Imported"),
        "imported_text": gettext("{judgments:,} judgments from {source} ({format}); no judge was called"),
        "reread_text": gettext(
            "; {texts:,} texts were read again, of which {differences:,} say something else than the file"
        ),
        "tokens": gettext("Tokens"),
        "unknown": gettext("not known"),
        "language": pgettext("the other language", "中文"),
    }
)

SCRIPT: dict[str, Words] = _words(
    {
        "prompt": gettext("Prompt"),
        "context": gettext("Context"),
        "reference": gettext("Reference"),
        "cycles": gettext("Contradicts itself"),
        "response": gettext("Response"),
        "grade": gettext("grade"),
        "verdict": gettext("Verdict"),
        "label": gettext("label"),
        "wins": gettext("{} wins"),
        "tie": gettext("tie"),
        "none": gettext("missing"),
        "score": gettext("score {}"),
        "margin": gettext("margin"),
        "confidence": gettext("confidence"),
        "pass": gettext("Shown {}"),
        "sample": gettext("sample"),
        "raw": gettext("Raw completion"),
        "thinking": gettext("Thinking"),
        "error": gettext("Not read"),
        "stored": gettext("from the store"),
        "asked": gettext("Prompt as sent"),
        "first_ask": gettext(
            "The first ask; {} in all. What was asked afterwards hangs on answers that the run does not keep."
        ),
        "key": gettext("content key"),
        "arbiter": gettext("third judgment"),
        "cut": gettext("The texts of this case are shortened here; cases.jsonl and judgments.jsonl hold them whole."),
        "only_listed": gettext("texts shortened"),
        "read_by": gettext("read by"),
        "shown": gettext("{} of {} cases shown"),
        "nothing": gettext("No case fits this filter."),
        "judged": gettext("judged"),
        "threshold": gettext("under the tie threshold"),
        "swap_disagreement": gettext("the orders disagree"),
        "forced": gettext("forced"),
        "split": gettext("split vote"),
        "equal_scores": gettext("equal scores"),
        "votes": gettext("votes"),
        "missing": gettext("no answer"),
        "ok": gettext("ok"),
        "repaired": gettext("repaired"),
        "unparseable": gettext("unparseable"),
        "refused": gettext("refused"),
        "failed": gettext("failed"),
    }
)

SWEEP: dict[str, Words] = _words(
    {
        "report": gettext("Sweep report"),
        "jobs": gettext("Configurations"),
        "by": gettext("Ranked by"),
        "data": gettext("Data"),
        "started": gettext("Started"),
        "spent": gettext("Paid in this sweep"),
        "leaderboard": gettext("Leaderboard"),
        "which": gettext("Which configuration?"),
        "all_columns": gettext("Show all metrics"),
        "leaderboard_note": gettext(
            "Configurations that share a letter do not differ significantly (Holm over all pairs, {level}), which "
            "does not show that they are equal. ★: better than chance, and no other is shown to agree as well "
            "(within {margin}) for less. {level} intervals, with cases resampled; those of ranks are simultaneous. "
            "Click a heading to sort, a name to open the job's own report."
        ),
        "rank": gettext("Rank"),
        "configuration": gettext("Configuration"),
        "letters": gettext("Group"),
        "same": gettext("The same for every job"),
        "metrics": gettext("Metric by metric"),
        "beyond": gettext(
            "The figures show the first {most} of {total} configurations; leaderboard.csv beside this page has all."
        ),
    }
) | {key: PAGE[key] for key in ("findings", "figures", "dark", "light", "language")}
