"""What a decision needs beyond agreement with labels: agreement of the two orders of a pair, and where a judge leans.

A lean is the difference between a rate by verdicts and the same rate by labels, on the same units. Agreement of orders
is corrected for chance, as a judge that ignores the responses would agree with itself: it chooses the response shown
first, the second or a tie with fixed probabilities (Scott 1955, Public Opin. Q. 19, 321-325).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.decision import FEW, LEAN, ORDER_AGREEMENT
from evalkit.scoring.columns.cases import NONE, TIE, A, B
from evalkit.scoring.columns.classes import ClassColumns
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.checklists import MET, NOT_MET, ItemColumns
from evalkit.scoring.verdicts.checklists import MISSING as NO_ANSWER
from evalkit.types import Case

MOST_SYSTEMS = 30
"""At most this many systems have a lean: those with most labels."""
UNLABELED = "no verdict has a label"


def decision_statistics(config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns) -> Iterator[Statistic]:
    """Yield the agreement of orders and the leans of a judge or a panel that compares or scores."""
    if verdicts.passes is not None:
        yield _order_agreement(verdicts, verdicts.tally)
    yield from _pair_leans(cases, verdicts)
    if verdicts.passes is None and verdicts.scores is not None:
        yield from _score_leans(config, cases, verdicts)


def class_decision_statistics(columns: ClassColumns) -> Iterator[Statistic]:
    """Yield the lean of a judge to each class."""
    read, unread = columns.labeled & columns.decided, columns.labeled & columns.missing
    for code, name in enumerate(columns.names):
        verdict, label = (np.where(codes == code, 1.0, 0.0) for codes in (columns.verdicts, columns.labels))
        yield _lean(f"class/{name}", verdict - label, read, unread, columns.tally)


def item_decision_statistics(columns: ItemColumns) -> Iterator[Statistic]:
    """Yield the lean of a checklist's judge to `met`."""
    labeled = (columns.label == MET) | (columns.label == NOT_MET)
    if not labeled.any():
        return
    read = labeled & ((columns.judged == MET) | (columns.judged == NOT_MET))
    verdict, label = (np.where(codes == MET, 1.0, 0.0) for codes in (columns.judged, columns.label))
    unread = labeled & (columns.judged == NO_ANSWER)
    yield _lean("met", verdict - label, read, unread, Tally(columns.case, columns.cases))


def _order_agreement(verdicts: VerdictColumns, tally: Tally) -> Statistic:
    """Return how much more often both orders name the same winner than for a judge that ignores the responses."""
    passes = verdicts.passes
    assert passes is not None, "only passes have orders"
    complete = passes.complete
    same = complete & (passes.winner[:, 0] == passes.winner[:, 1])
    shown = passes.winner * np.array([1, -1], dtype=np.int8)  # the response shown first is 1
    shares = [np.where(complete, (shown == code).mean(axis=1), 0.0) for code in (A, B, TIE)]
    return Statistic(
        ORDER_AGREEMENT,
        np.stack([tally(same), tally(complete), *(tally(share) for share in shares)], axis=1),
        _beyond_chance,
        n=int(complete.sum()),
        missing=int((~complete).sum()) if passes.both else 0,
        why="all verdicts are ties" if complete.any() else "no pair was read in both orders",
    )


def _beyond_chance(totals: Floats) -> Floats:
    first, second, tie = (divide(totals[:, k], totals[:, 1]) for k in (2, 3, 4))
    expected = 2 * first * second + tie**2
    return divide(divide(totals[:, 0], totals[:, 1]) - expected, np.where(expected < 1 - 1e-12, 1 - expected, 0.0))


def _lean(name: str, difference: Floats, read: Bools, unread: Bools, tally: Tally, why: str = UNLABELED) -> Statistic:
    """Return the mean difference between verdicts and labels, both from 0 to 1.

    Args:
        name: the rate that it is about.
        difference: (rows,) verdict minus label.
        read: (rows,) which rows count.
        unread: (rows,) which labeled rows have no verdict.
        tally: the case of each row.
        why: why there is no value, if no row counts.
    """
    n, missing, total = int(read.sum()), int(unread.sum()), float(difference[read].sum())
    ends = ((total - missing) / (n + missing), (total + missing) / (n + missing)) if n + missing else (None, None)
    return Statistic(
        f"{LEAN}{name}",
        np.stack([tally(np.where(read, difference, 0.0)), tally(read)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=n,
        missing=missing,
        worst=ends,
        ends=(-1.0, 1.0),
        why=why,
    )


def _pair_leans(cases: Sequence[Case], verdicts: VerdictColumns) -> Iterator[Statistic]:
    """Yield the leans to response A, to the longer response and to each system: differences of win rates."""
    pairs, tally, labeled = verdicts.pairs, verdicts.tally, verdicts.labeled
    read, unread = labeled & verdicts.present, labeled & ~verdicts.present
    verdict, label = ((1.0 + codes) / 2 for codes in (verdicts.winner, pairs.label))

    def toward(name: str, sign: Ints) -> Statistic:
        return _lean(name, sign * (verdict - label), read & (sign != 0), unread & (sign != 0), tally)

    yield toward("a", np.ones(len(pairs), dtype=np.int64))
    yield toward("longer", np.where(pairs.longer == NONE, 0, pairs.longer).astype(np.int64))
    systems = _Systems(cases)
    first, second = (systems.of(pairs.case, index) for index in (pairs.i, pairs.j))
    for name, code in systems.most_frequent(np.concatenate([first[labeled], second[labeled]])):
        yield toward(f"system/{name}", (first == code).astype(np.int64) - (second == code))


def _score_leans(config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns) -> Iterator[Statistic]:
    """Yield the lean of scores, and of each system's scores against those of the others, as shares of the scale."""
    scored, scale = verdicts.scores, Scale.of(config.rubric)
    assert scored is not None, "only scores lean on the scale"
    grade = (scored.grade - scale.min) / scale.span
    graded, known = np.isfinite(grade), np.isfinite(scored.raw)
    on_scale = bool(((grade[graded] >= 0) & (grade[graded] <= 1)).all())
    difference = np.nan_to_num((scored.raw - scale.min) / scale.span - grade)
    tally, read = Tally(scored.case, len(cases)), graded & known & on_scale
    why = UNLABELED if on_scale else "labels are not on the scale of the rubric"
    yield _lean("score", difference, read, graded & ~known & on_scale, tally, why)
    systems = _Systems(cases)
    system = systems.of(scored.case, scored.index)
    for name, code in systems.most_frequent(system[read]):
        mine, others = read & (system == code), read & (system != code)
        parts = [tally(np.where(rows, difference, 0.0)) for rows in (mine, others)] + [tally(mine), tally(others)]
        yield Statistic(
            f"{LEAN}system/{name}",
            np.stack(parts, axis=1),
            lambda totals: divide(totals[:, 0], totals[:, 2]) - divide(totals[:, 1], totals[:, 3]),
            n=int(mine.sum()),
            why="no other system has a label",
        )


class _Systems:
    """The systems of the responses, as codes."""

    def __init__(self, cases: Sequence[Case]) -> None:
        names = [response.model for case in cases for response in case.responses]
        sizes = np.array([len(case.responses) for case in cases], dtype=np.int64)
        self._names = sorted({name for name in names if name})
        codes = {name: code for code, name in enumerate(self._names)}
        self._code = np.array([codes.get(name or "", -1) for name in names], dtype=np.int64)
        self._offset = np.cumsum(sizes) - sizes

    def of(self, case: Ints, index: Ints) -> Ints:
        """Return the code of each response, -1 without a name."""
        return np.asarray(self._code[self._offset[case] + index])

    def most_frequent(self, codes: Ints) -> list[tuple[str, int]]:
        """Return the systems with most labels and their codes, if there are two or more."""
        counts = np.bincount(codes[codes >= 0], minlength=len(self._names))
        order = sorted(np.flatnonzero(counts >= FEW).tolist(), key=lambda code: (-counts[code], code))
        return [(self._names[code], code) for code in order[:MOST_SYSTEMS]] if len(order) > 1 else []
