"""Texts of the page in every language."""

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
        "flip": gettext("Changes with order"),
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
        "findings": gettext("Findings"),
        "metrics": gettext("All metrics"),
        "metric": gettext("Metric"),
        "value": gettext("Value"),
        "interval": gettext("{level} interval"),
        "count": gettext("n"),
        "missing": gettext("Missing"),
        "worst": gettext("Worst case"),
        "note": gettext("Note"),
        "judges": gettext("Judges of the panel"),
        "judge": gettext("Judge"),
        "decision": gettext("Decision"),
        "undetermined": gettext("Not determined by this run"),
        "cases": gettext("Cases"),
        "filter": gettext("Show"),
        "search": gettext("Search the texts"),
        "short": gettext(
            "To keep this page small, {whole} of {total} cases have their full texts here: first those that match a "
            "filter, then the others in order. For the other {short}, texts are shortened, and answers and prompts of "
            "judges are omitted; cases.jsonl and judgments.jsonl next to this page have everything."
        ),
        "left_out": gettext("{left_out} more cases are not listed; they match no filter except All."),
        "unlike": gettext(
            "{unlike} prompts are not shown, because rendering them again does not give what was sent: a template has "
            "changed, or they contained an answer that the run does not keep."
        ),
        "figures": gettext("Figures"),
        "dark": gettext("Dark"),
        "light": gettext("Light"),
        "script": gettext("This page shows cases with JavaScript, which is off here."),
        "config": gettext("Configuration"),
        "manifest": gettext("Origin"),
        "started": gettext("Started"),
        "cost": gettext("Cost"),
        "calls": gettext("Calls"),
        "calls_text": gettext("{planned:,} planned, {stored:,} from the store, {sent:,} sent, {failed:,} failed"),
        "imported": gettext("Imported"),
        "imported_text": gettext("{judgments:,} judgments from {source} ({format}); no judge was called"),
        "reread_text": gettext("; {texts:,} texts were parsed again, and {differences:,} differ from the file"),
        "tokens": gettext("Tokens"),
        "unknown": gettext("unknown"),
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
        "class": gettext("class {}"),
        "abstained": gettext("abstained"),
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
        "error": gettext("Error"),
        "stored": gettext("from the store"),
        "asked": gettext("Prompt as sent"),
        "first_ask": gettext("The first of {} requests. Later requests depend on answers that the run does not keep."),
        "key": gettext("content key"),
        "arbiter": gettext("third judgment"),
        "cut": gettext("The texts of this case are shortened; cases.jsonl and judgments.jsonl have the full texts."),
        "only_listed": gettext("texts shortened"),
        "read_by": gettext("parsed by"),
        "shown": gettext("{} of {} cases shown"),
        "nothing": gettext("No case matches this filter."),
        "judged": gettext("judged"),
        "threshold": gettext("under the tie threshold"),
        "swap_disagreement": gettext("the orders disagree"),
        "forced": gettext("forced"),
        "split": gettext("split vote"),
        "criteria_cancel": gettext("the criteria cancel out"),
        "equal_scores": gettext("equal scores"),
        "votes": gettext("votes"),
        "met": gettext("met"),
        "not_met": gettext("not met"),
        "cannot_assess": gettext("cannot assess"),
        "points": gettext("{} points"),
        "prerequisite": gettext("because a prerequisite is not met"),
        "undetermined": gettext("because a prerequisite is unknown"),
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
            "does not show that they are equal. ★: useful, and no other useful one is shown to agree as well "
            "(within {margin}) at a lower cost. {level} intervals from resampling cases; those of ranks are "
            "simultaneous. Click a heading to sort, or a name to open the report of the job."
        ),
        "rank": gettext("Rank"),
        "configuration": gettext("Configuration"),
        "letters": gettext("Group"),
        "decision": gettext("Decision"),
        "same": gettext("Shared by all jobs"),
        "metrics": gettext("Metric by metric"),
        "metrics_note": gettext("Best first. {level} intervals from resampling cases. Dashed line: chance."),
        "beyond": gettext(
            "The figures show the first {most} of {total} configurations; leaderboard.csv next to this page has all."
        ),
    }
) | {key: PAGE[key] for key in ("findings", "figures", "dark", "light", "language")}
