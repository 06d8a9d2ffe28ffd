"""What `evalkit check` prints: judges, the reading of the table, findings, and where
the report is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Final

from evalkit.cli.language import speaker
from evalkit.core.display import printable, relative
from evalkit.core.translation import Text, gettext
from evalkit.core.values import JsonObject
from evalkit.scoring.decision import RIGHT, Decision, Metrics, metrics_of

if TYPE_CHECKING:
    from evalkit.interop.tables.questions import Role
    from evalkit.report.findings import Finding
    from evalkit.runs.results import RunResult
    from evalkit.scoring.leaderboard import Leaderboard

MOST_ROLES: Final = 30
MOST_FINDINGS: Final = 5
MOST_SLICE_FINDINGS: Final = 2
PANEL_METRICS: Final = ("agreement/kappa", "agreement/accuracy", "agreement/spearman")


def reading_lines(roles: Sequence[Role]) -> list[str]:
    """Return how a table was read: a line for each used column, and one for all others."""
    from evalkit.interop.tables.rater_roles import NOT_USED

    used = [role for role in roles if role.role != NOT_USED]
    lines = [
        f"  {role.column}: {role.role}"
        + (f", {role.type}" if role.type else "")
        + f" ({role.why})"
        for role in used[:MOST_ROLES]
    ]
    unused = [f"{role.column} ({role.why})" for role in roles if role.role == NOT_USED]
    if unused:
        # A wide table would fill the screen.
        if len(unused) <= MOST_ROLES:
            omitted = ""
        else:
            omitted = f" and {len(unused) - MOST_ROLES} more"
        listed = ", ".join(unused[:MOST_ROLES]) + omitted
        lines.append(
            f"  not used: {listed}; to use one: --judge COLUMN or --label COLUMN"
        )
    return lines


def _leaderboard(result: RunResult) -> Leaderboard | None:
    """Return the leaderboard of a run's judges, best first; `None` without labels or
    with one judge.
    """
    from evalkit.scoring.leaderboard import Contender, rank
    from evalkit.scoring.pipeline import verdicts_by_judge
    from evalkit.scoring.stats.clusters import Clusters
    from evalkit.scoring.verdicts.panel import metric_part

    config = result.config
    decisions = result.decisions
    # One judge has nobody to be ranked against.
    if len(decisions) < 2:
        return None
    # All judges have judged the same cases, so they share one assignment to clusters.
    cluster = Clusters.of(config, result.cases).by_id(result.cases)
    verdicts = verdicts_by_judge(result)
    contenders = [
        Contender(
            job=part,
            name=judge,
            dataset="",
            metrics=metrics_of(result.metrics, part),
            verdicts=judge_verdicts,
            cluster=cluster,
            mode=config.mode.name,
        )
        for judge, judge_verdicts in verdicts.items()
        if (part := metric_part(judge)) in decisions
    ]
    board = rank(contenders, config.scoring)
    if board.rows:
        return board
    return None


def _lines(result: RunResult, board: Leaderboard | None) -> list[str]:
    """Return a line for each judge, best first, and which judge to use, or none."""
    from evalkit.core.translation import rendered
    from evalkit.report.findings.decisions import sentence
    from evalkit.report.findings.sweeps import choice_text

    words = speaker(result.config).translator
    if board is None:
        texts = {
            name: rendered(
                sentence(
                    decision,
                    metrics_of(result.metrics, name if result.decisions else None),
                ),
                words,
            )
            for name, decision in _decisions(result, board)
        }
        return [
            f"{name}: {text}" if len(texts) > 1 else str(text)
            for name, text in texts.items()
        ]
    lines = [
        f"{row.name}:"
        f" {rendered(sentence(row.decision, metrics_of(result.metrics, row.job)), words)}"
        for row in board.rows
    ]
    names = {row.job: row.name for row in board.rows}
    return [*lines, str(rendered(choice_text(board, board.choices[0], names), words))]


def _decisions(
    result: RunResult, board: Leaderboard | None
) -> list[tuple[str, Decision]]:
    """Return each judge with the decision about it, best first."""
    if board is not None:
        return [(row.name, row.decision) for row in board.rows]
    decisions = result.decisions or {str(result.manifest["judge"]): result.decision}
    return [*decisions.items()]


def _unlabeled(result: RunResult) -> list[str]:
    """Return what cannot be known without labels, and the next command."""
    say = speaker(result.config)
    command = join(
        ["evalkit", "label", str(relative(Path(result.folder or ""))), "--page"]
    )
    return [
        say(text)
        for text in (
            gettext(
                "Without labels, nothing shows whether the verdicts are right; "
                "only consistency and position can be checked."
            ),
            gettext("Next: {command}", command=command),
        )
    ]


def print_checked(
    result: RunResult, roles: Sequence[Role], *, as_json: bool, written: bool = True
) -> int:
    """Print what a check concludes: judges, the reading of the table, findings, and
    where the report is.

    `written`: whether the check has written the texts, as it does with a table.
    """
    from evalkit.cli.gate_outcome import gate_status, print_gate
    from evalkit.report.texts import note_text

    say = speaker(result.config)
    board = _leaderboard(result)
    decisions = _decisions(result, board)
    lines = _lines(result, board)
    folder = Path(result.folder or "")
    if any(decision.reason == "no_labels" for _, decision in decisions):
        lines += _unlabeled(result)
    findings = _findings(result, board, folder)
    report = relative(folder / "report.html")
    notes = list(result.manifest.get("notes", ()))
    # Before the lines that only a terminal needs, so that the output is one object.
    if as_json:
        content = _content(result, roles, decisions, lines, findings)
        print(json.dumps(content, ensure_ascii=False))
        return gate_status(result)
    if (panel := _panel_line(result, board)) is not None:
        lines.append(say(panel))
    if roles:
        lines += ["", say(gettext("How the table was read:"))]
        lines += reading_lines(roles)
    lines += [say(gettext("note: {note}", note=note_text(note))) for note in notes]
    lines += ["", *(f"  • {text}" for text in findings[:MOST_FINDINGS]), ""]
    print(printable("\n".join(lines)).expandtabs())
    # After the findings: the last lines show whether it passed and where the report is.
    status = print_gate(result)
    kept = gettext("the texts were written to {folder}; nothing was sent anywhere")
    sent = gettext("the texts were written to {folder} and sent to the tracker")
    if written:
        where = sent if result.config.tracking.enabled else kept
        print(say(where.fill(folder=relative(folder))))
    print(say(gettext("report: {path}", path=report)))
    return status


def _content(
    result: RunResult,
    roles: Sequence[Role],
    decisions: Sequence[tuple[str, Decision]],
    lines: Sequence[str],
    findings: Sequence[str],
) -> JsonObject:
    """Return what `--json` prints: the same as the summary, with all metrics.

    Args:
        result: The scored run.
        roles: What each column of the table is.
        decisions: The decision about each judge.
        lines: The lines of the conclusion.
        findings: The sentences of the report.
    """
    from evalkit.workflows.gating import GATE

    folder = Path(result.folder or "")
    return {
        "decisions": {judge: decision.json() for judge, decision in decisions},
        "conclusion": lines,
        "roles": [asdict(role) for role in roles],
        "metrics": {name: asdict(metric) for name, metric in result.metrics.items()},
        "findings": findings,
        "notes": list(result.manifest.get("notes", ())),
        "gate": result.manifest.get(GATE),
        "paths": {
            "folder": str(folder),
            "report": str(relative(folder / "report.html")),
        },
    }


def _findings(result: RunResult, board: Leaderboard | None, folder: Path) -> list[str]:
    """Return the findings after the conclusion; those on slices are among the first, so
    that none is cut off.
    """
    from evalkit.report.findings import TABLES, corrections, findings_of
    from evalkit.report.findings.slices import slice_findings
    from evalkit.runs import read_details

    details = read_details(folder, TABLES)
    say = speaker(result.config)

    def texts(statements: Iterable[Finding]) -> list[str]:
        return [say.finding(finding) for finding in statements]

    # Index 0 is the decision, which the lines above have.
    every = texts(findings_of(result, details))[1:]
    rows = details.get("slices") or ()
    confidence = result.config.scoring.confidence
    sliced = texts(slice_findings(result.metrics, rows, confidence))
    of_judges: list[str] = []
    if board is not None and len(board.rows) > 1:
        # findings on a panel that nobody asked for are not those of its judges
        every = [text for text in every if text in sliced]
        for row in board.rows:
            judge_texts = texts(corrections(metrics_of(result.metrics, row.job)))
            kept = judge_texts[: len(judge_texts) - (len(judge_texts) == 2)]
            of_judges += [f"{row.name}: {text}" for text in kept]
    other_texts = [text for text in every if text not in sliced]
    first = sliced[:MOST_SLICE_FINDINGS]
    # The caller cuts the list after `MOST_FINDINGS`; slices get their share of those.
    room = MOST_FINDINGS - len(first)
    return [
        *of_judges,
        *other_texts[:room],
        *first,
        *other_texts[room:],
        *sliced[len(first) :],
    ]


def _panel_line(result: RunResult, board: Leaderboard | None) -> Text | None:
    """Return the line on all judges as a panel; `None` unless it agrees with the labels more than
    the best judge does.

    Args:
        result: The run of all judges.
        board: The judges, best first; `None` if they cannot be ranked.
    """
    if board is None or len(board.rows) < 2:
        return None
    of_best = metrics_of(result.metrics, board.rows[0].job)
    if RIGHT in result.metrics or RIGHT in of_best:
        return _share_line(result.metrics, of_best, board.rows[0].name)
    for name in PANEL_METRICS:
        panel = result.metrics.get(name)
        best = of_best.get(name)
        if panel is None or best is None or None in (panel.value, best.value):
            continue
        if not (panel.value or 0.0) > (best.value or 0.0):
            return None
        return gettext(
            "All judges as a panel that votes agree more with the labels than {judge}: {metric}"
            " {value} against {best}.",
            judge=board.rows[0].name,
            metric=name.rpartition("/")[2],
            value=f"{panel.value:.2f}",
            best=f"{best.value:.2f}",
        )
    return None


def _share_right(metrics: Metrics) -> float | None:
    """Return the share of labeled units with a right verdict, missing ones included if known."""
    share = metrics.get(RIGHT) or metrics.get("agreement/accuracy")
    return None if share is None else share.value


def _share_line(panel: Metrics, best: Metrics, judge: str) -> Text | None:
    """Return the line on a panel if it or the best judge has no verdict on some labeled units;
    `None` unless the panel is better.

    Both are compared on all units with a label: a verdict that is missing or split is not right.
    """
    of_panel = _share_right(panel)
    of_judge = _share_right(best)
    if of_panel is None or of_judge is None or of_panel <= of_judge:
        return None
    return gettext(
        "All judges as a panel that votes are right on more of the labeled cases than {judge}:"
        " {value} against {best}.",
        judge=judge,
        value=f"{100 * of_panel:.0f}%",
        best=f"{100 * of_judge:.0f}%",
    )
