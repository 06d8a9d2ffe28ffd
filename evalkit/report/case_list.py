"""The cases of a run on its page: rows, letters and filters, and which cases and texts
fit into a limited size.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from evalkit.core.deduplication import by_case
from evalkit.core.display import letter
from evalkit.core.errors import EvalkitError
from evalkit.core.planners import Planners
from evalkit.core.protocols import Evaluator, FollowUpEvaluator
from evalkit.core.turns import cited_turns, unit_of
from evalkit.core.types import (
    Case,
    ChecklistItem,
    ItemVerdict,
    JudgeRequest,
    JudgeSpec,
    Judgment,
    Message,
    Ranking,
    Unit,
    Verdict,
)
from evalkit.core.values import JsonObject, frozen
from evalkit.report.shortened_texts import (
    LEAST,
    LONG,
    OF_JUDGMENT,
    SHORT,
    cut_text,
    encode,
    encoded_size,
    estimate_bytes,
    shorten_texts,
)
from evalkit.scoring.metrics.reversals import cycles_among

CYCLES = 20
"""The most cycles of a case that are shown; conflicts.json can have more."""


def case_row(case: Case, verdicts: Sequence[Verdict]) -> JsonObject:
    """Return a case and its verdicts for the page's script, without `None` values."""
    items = {item.id: item for item in case.checklist}
    return _filled(
        id=case.id,
        # Conversations have parts with headings, in the prompt or in a judged response.
        unit=unit_of(case.prompt) or unit_of(case.responses[0].text)
        if case.responses
        else None,
        prompt=case.prompt,
        context=case.context,
        reference=case.reference,
        cycles=_cycles(verdicts),
        # The case's label is of its first two responses.
        label=winner_letter(case.label, (0, 1)),
        responses=[
            _filled(
                name=letter(i),
                text=response.text,
                model=response.model,
                grade=response.grade,
                # `class` is a reserved word, so it cannot be a keyword argument.
                **{"class": response.class_name},
            )
            for i, response in enumerate(case.responses)
        ],
        verdicts=[_verdict_fields(verdict, items) for verdict in verdicts],
    )


def judgment_row(judgment: Judgment) -> JsonObject:
    """Return a judgment with its raw completion for the page's script."""
    completion = judgment.completion
    return _filled(
        unit="".join(map(letter, judgment.unit)),
        shown=", ".join(map(letter, judgment.shown)),
        sample=judgment.sample or None,
        judge=judgment.judge,
        arbiter=judgment.arbiter,
        status=judgment.status,
        value=judgment.value,
        **{"class": judgment.class_name},
        ranking=_ranking(judgment.ranking),
        confidence=judgment.confidence,
        criteria=dict(judgment.criteria),
        asked_items=", ".join(judgment.items) or None,
        read_by=judgment.read_by,
        error=judgment.error,
        stored=judgment.stored or None,
        text=completion.text if completion else None,
        thinking=completion.reasoning if completion else None,
        cited=_cited(completion.text) if completion else None,
    )


def _cited(text: str) -> list[int] | None:
    """Return the turns or steps that a text names as evidence, `None` if it names none."""
    return sorted(set(cited_turns(text))) or None


def flags(verdicts: Sequence[Verdict], judgments: Sequence[Judgment]) -> list[str]:
    """Return the filters of the page that match a case."""
    tests = {
        "mismatch": any(
            # A winner or a class that differs from its label; scores have grades instead.
            (decision := v.winner or v.class_name)
            and isinstance(v.label, str)
            and decision != v.label
            for v in verdicts
        ),
        "flip": any(
            v.orders is not None and v.orders.consistent is False for v in verdicts
        ),
        "disagreement": _repeats_disagree(judgments),
        "tie": any(v.winner == "TIE" for v in verdicts),
        # Two verdicts cannot be a cycle, and one cycle is enough for the flag.
        "cycle": len(verdicts) > 2 and bool(cycles_among(verdicts, 1)),
        "missing": (
            any(not j.readable for j in judgments)
            or any(v.reason == "missing" for v in verdicts)
        ),
    }
    return [name for name, holds in tests.items() if holds]


_MOST_KNOWN: Final = 1_000
"""The most different cases whose filters are kept."""


class _KnownFlags:
    """The filters of cases of which the same was said before: the same objects."""

    def __init__(self) -> None:
        # {identities: the objects, which keeps these identities theirs, and their filters}.
        self._known: dict[tuple[int, ...], tuple[list[object], list[str]]] = {}

    def of(
        self, verdicts: Sequence[Verdict], judgments: Sequence[Judgment]
    ) -> list[str]:
        """Return the filters of the page that match a case."""
        said: list[object] = [*verdicts, *judgments]
        key = tuple(map(id, said))
        known = self._known.get(key)
        if known is not None:
            return known[1]
        case_flags = flags(verdicts, judgments)
        if len(self._known) < _MOST_KNOWN:
            self._known[key] = (said, case_flags)
        return case_flags


def _repeats_disagree(judgments: Sequence[Judgment]) -> bool:
    """Return whether samples or judges disagree on a unit in the same order."""
    # {(unit, order shown): decisions}: orders are compared by the filter `flip`.
    decisions: dict[tuple[Unit, Unit], set[int | str]] = {}
    for j in judgments:
        # A margin counts by its sign: 1, 0 or -1.
        decision = j.class_name if j.value is None else (j.value > 0) - (j.value < 0)
        if decision is not None:
            decisions.setdefault((j.unit, j.shown), set()).add(decision)
    return any(len(decisions_of_pass) > 1 for decisions_of_pass in decisions.values())


def _cycles(verdicts: Sequence[Verdict]) -> str | None:
    """Return the cycles of wins as `A > B > C > A`, one per line."""
    cycles = cycles_among(verdicts, CYCLES) if len(verdicts) > 2 else []
    return (
        # The first response again at the end closes the cycle.
        "\n".join(" > ".join(letter(k) for k in (*cycle, cycle[0])) for cycle in cycles)
        or None
    )


def _ranking(ranking: Ranking | None) -> str | None:
    if ranking is None:
        return None
    # Groups from best to worst; tied responses are in one group.
    return " > ".join(" = ".join(map(letter, group)) for group in ranking)


def _filled(**values: Any) -> JsonObject:
    return {
        key: value for key, value in values.items() if value is not None and value != {}
    }


def winner_letter(winner: str | None, unit: Unit) -> str | None:
    """Return a pair's winner by the letter that the response has in its case; other
    values as they are.
    """
    if winner in ("A", "B") and len(unit) == 2:
        # A and B are positions in the unit; its values are indices of the case's responses.
        return letter(unit["AB".index(winner)])
    return winner


def _verdict_fields(verdict: Verdict, items: Mapping[str, ChecklistItem]) -> JsonObject:
    """Return a verdict as fields of the page; `None` values are omitted."""
    label = (
        verdict.label
        if isinstance(verdict.label, float | int)
        else winner_letter(verdict.label, verdict.unit)
    )
    # A label in words of a single response is a class, not a winner.
    by_class = len(verdict.unit) == 1 and isinstance(label, str)
    orders = verdict.orders
    return _filled(
        unit="".join(map(letter, verdict.unit)),
        winner=winner_letter(verdict.winner, verdict.unit),
        score=verdict.score,
        **{"class": verdict.class_name},
        reason=verdict.reason,
        margin=verdict.margin,
        confidence=verdict.confidence,
        label=None if by_class else label,
        class_label=label if by_class else None,
        criteria=dict(verdict.criteria),
        votes={
            judge: _vote(vote, verdict.unit) for judge, vote in verdict.votes.items()
        },
        first=winner_letter(orders.first, verdict.unit) if orders else None,
        second=winner_letter(orders.second, verdict.unit) if orders else None,
        third=winner_letter(orders.third, verdict.unit) if orders else None,
        items=[_item(item, items[item.id]) for item in verdict.items] or None,
    )


def _item(verdict: ItemVerdict, item: ChecklistItem) -> JsonObject:
    return _filled(
        criterion=item.criterion,
        # 1 is the default, and would be repeated for each item.
        points=item.points if item.points != 1 else None,
        answer=verdict.answer,
        why=verdict.reason if verdict.reason != "judged" else None,
        explanation=verdict.explanation or None,
        label=verdict.label,
    )


def _vote(vote: float | str | None, unit: Unit) -> str | float | None:
    if isinstance(vote, float | int):
        return vote
    return winner_letter(vote, unit)


Asked: TypeAlias = Callable[
    [Case, Sequence[Judgment]], Mapping[str, tuple[Message, ...]]
]
"""Returns the messages of a case's judgments by content key, as far as they can be rendered
again."""


def render_prompts(
    evaluator: Evaluator, specs: Sequence[JudgeSpec], arbiter: JudgeSpec | None = None
) -> Asked:
    """Return a function that renders the prompts of a case again.

    A content key is a hash of everything that was sent, so a rendered prompt is only shown if its
    key is the key of a judgment; a changed template or case gives another key. Requests that
    contain an answer that the run does not keep cannot be rendered: repeated requests, and
    follow-ups to a judge's own answer.

    Args:
        evaluator: plans the requests.
        specs: the judges.
        arbiter: the judge of third judgments, if it is another one.
    """
    # {name of a judge: its specification}.
    by_name = {spec.name: spec for spec in specs}
    planners = Planners(evaluator, by_name)

    def requests(
        case: Case, judgments: Sequence[Judgment]
    ) -> Iterator[tuple[JudgeSpec, JudgeRequest]]:
        """Yield each request of a case that these judges were sent, with the judge's spec."""
        judges = {judgment.judge for judgment in judgments}
        # Only judges that judged this case: a cascade may have asked some of them.
        planned_by_judge = zip(specs, planners.plan(case), strict=True)
        for spec, planned in planned_by_judge:
            if spec.name in judges:
                for request in planned:
                    yield spec, request
        # Third passes depend on the answers of the first two.
        if any(judgment.arbiter is not None for judgment in judgments) and isinstance(
            evaluator, FollowUpEvaluator
        ):
            for name, passes in _passes(judgments):
                if name in by_name:
                    for request in evaluator.follow(case, passes):
                        yield arbiter or by_name[name], request

    def asked(
        case: Case, judgments: Sequence[Judgment]
    ) -> dict[str, tuple[Message, ...]]:
        """Return the prompts of judgments by key; empty if the case can no longer be planned."""
        keys = {key for judgment in judgments for key in judgment.keys}
        if not keys:
            return {}
        # Only here, because findings and imported judgments do not need the engine.
        from evalkit.engine.requests import call_key

        try:
            keyed = [
                (call_key(spec, request), request.messages)
                for spec, request in requests(case, judgments)
            ]
        # A case that can no longer be planned, as after a change of its template, shows
        # no prompts.
        except EvalkitError:
            return {}
        # Only prompts whose key is that of a judgment: others were never sent.
        return {key: messages for key, messages in keyed if key in keys}

    return asked


def _passes(judgments: Sequence[Judgment]) -> Iterator[tuple[str, list[Judgment]]]:
    """Yield each judge's judgments of each unit, without third judgments."""
    # groupby needs sorted items.
    first = sorted(
        (judgment for judgment in judgments if judgment.arbiter is None),
        key=lambda judgment: (judgment.judge, judgment.unit),
    )
    for (name, _), group in groupby(
        first, key=lambda judgment: (judgment.judge, judgment.unit)
    ):
        yield name, list(group)


BUDGET = 2_400_000
"""Bytes of JSON for the cases of a page, so that the whole page stays under 3 MB."""
CLASSES = ("cycle", "missing", "mismatch", "disagreement", "flip", "tie")
"""The filters in the order in which their cases take turns for full texts; a case belongs to the
first that matches."""


Rank: TypeAlias = tuple[float, int, int]
T = TypeVar("T")
Grouped = TypeVar("Grouped", Judgment, Verdict)


@frozen
class CaseData:
    """Cases as JSON that is safe inside a script element.

    `flags` counts the cases of each filter, `whole` the cases with full texts, `short` those with
    shortened texts, and `left_out` those that are not listed. `unlike` counts judgments whose
    rendered prompt is not the one that was sent.
    """

    json: str
    flags: Mapping[str, int]
    total: int
    whole: int
    short: int
    left_out: int
    unlike: int


class _BoundedHeap(Generic[T]):
    """Keeps the items with the best ranks within `size` bytes, and no item larger than
    a quarter of that.
    """

    def __init__(self, size: int) -> None:
        # A single large case would crowd out all others.
        self._limit = size // 4
        self._left = size
        # Less room than this is none: hardly any later item fits, and each would be looked at.
        self._least = size // 400
        # The worst item is at the top of the heap: (negated rank, size, item).
        self._heap: list[tuple[tuple[float, int, int], int, T]] = []

    def is_closed(self, rank: Rank) -> bool:
        """Return whether no item with this rank would be kept, however small it is."""
        if self._least <= self._left:
            return False
        return not self._is_better(rank)

    def takes(self, rank: Rank, size: int) -> bool:
        """Return whether an item would be kept: it fits, or an item with a worse rank
        would be removed.
        """
        if size > self._limit:
            return False
        # Without room, an item still enters if it is better than the worst one.
        return max(size, self._least) <= self._left or self._is_better(rank)

    def _is_better(self, rank: Rank) -> bool:
        """Return whether a rank is better than the worst one that is kept."""
        # a heap removes its smallest item, so ranks are negated
        worst_first = (-rank[0], -rank[1], -rank[2])
        return bool(self._heap) and worst_first > self._heap[0][0]

    def offer(self, rank: Rank, size: int, item: T) -> None:
        """Add an item if it is taken, and remove items with the worst ranks until all fit."""
        if not self.takes(rank, size):
            return
        worst_first = (-rank[0], -rank[1], -rank[2])
        heapq.heappush(self._heap, (worst_first, size, item))
        self._left -= size
        # A better item may push out several worse ones.
        while self._left < 0:
            self._left += heapq.heappop(self._heap)[1]

    def kept(self) -> list[T]:
        """Return the kept items, best rank first."""
        return [
            item
            for _, _, item in sorted(
                self._heap, key=lambda entry: entry[0], reverse=True
            )
        ]


@frozen
class _Candidate:
    position: int
    case: Case
    verdicts: Sequence[Verdict]
    judgments: Sequence[Judgment]
    flags: Sequence[str]


def select_cases(
    cases: Iterable[Case], verdicts: Iterable[Verdict], judgments: Iterable[Judgment]
) -> Iterator[tuple[Case, list[Verdict], list[Judgment]]]:
    """Yield each case with its verdicts and what is said of it, reading each of the three once.

    Verdicts or judgments that say the same of several cases are one, which names the first case.
    """
    of_verdicts = _Groups(by_case(verdicts))
    of_judgments = _Groups(by_case(judgments))
    for case in cases:
        yield case, of_verdicts.take(case.id), of_judgments.take(case.id)


class _Groups(Generic[Grouped]):
    """Groups items by case; the items are mostly in case order."""

    def __init__(self, items: Iterable[tuple[str, Grouped]]) -> None:
        """Start with items, each with its case."""
        self._groups: Iterator[tuple[str, Iterator[tuple[str, Grouped]]]]
        self._groups = groupby(items, key=itemgetter(0))
        # {case: its items}, for items that came before their case.
        self._ahead: dict[str, list[Grouped]] = {}

    def take(self, case_id: str) -> list[Grouped]:
        if case_id in self._ahead:
            return self._ahead.pop(case_id)
        for name, group in self._groups:
            items = [item for _, item in group]
            if name == case_id:
                return items
            # items of a later case, or of one that is not listed
            self._ahead.setdefault(name, []).extend(items)
        return []


class PageBudget:
    """Receives the cases of a run one by one, and keeps only those that fit on the page.

    Each case is listed with the first `SHORT` characters of prompt and responses. As far as they
    fit, cases that match a filter have full texts with prompts and answers, in turns of `CLASSES`,
    and then the other cases in order.
    """

    def __init__(self, prompts: Asked | None = None, *, budget: int = BUDGET) -> None:
        self._asked, self._budget = prompts, budget
        self._flags = _KnownFlags()
        self._counts: Counter[str] = Counter(all=0)
        # Cases of each filter so far, which gives each class its turns.
        self._turns: Counter[int] = Counter()
        # Short forms of all cases, and full ones of some, each within the budget of the page.
        self._short: _BoundedHeap[tuple[int, str]] = _BoundedHeap(budget)
        self._whole: _BoundedHeap[_Candidate] = _BoundedHeap(budget)

    def add(
        self, case: Case, verdicts: Sequence[Verdict], judgments: Sequence[Judgment]
    ) -> None:
        """Add a case."""
        case_flags = self._flags.of(verdicts, judgments)
        # The position of the case in the run, from 0.
        position = self._counts["all"]
        # Not `update`, which asks each time what it is given.
        for name in ("all", *case_flags):
            self._counts[name] += 1
        # Flagged cases first: False sorts before True.
        rank = (not case_flags, 0, position)
        # Of a long run, most cases have no place any more, and are not looked at.
        if not self._short.is_closed(rank):
            self._offer_short(rank, case, verdicts, case_flags)
        # full texts go to other cases first than short ones: each class has its turns
        # The rank decides before the case is kept, because its texts are large.
        turn = self._rank(case_flags, position)
        if self._whole.takes(turn, OF_JUDGMENT * (1 + len(judgments))):
            candidate = _Candidate(position, case, verdicts, judgments, case_flags)
            self._whole.offer(turn, estimate_bytes(case, judgments), candidate)

    def _offer_short(
        self,
        rank: Rank,
        case: Case,
        verdicts: Sequence[Verdict],
        case_flags: Sequence[str],
    ) -> None:
        """Add the short form of a case, if it may be kept."""
        texts = (case.prompt, *(response.text for response in case.responses))
        # A lower bound of the size in bytes: each text has a key, and names take some more.
        least = LEAST * (2 + len(texts)) + sum(
            [min(len(text), SHORT) for text in texts]
        )
        if not self._short.takes(rank, least):  # it need not be encoded
            return
        short = encode(
            shorten_texts(case_row(case, verdicts), SHORT)
            | {"flags": case_flags, "short": True}
        )
        _, _, position = rank
        self._short.offer(rank, encoded_size(short) + 1, (position, short))

    def _rank(self, case_flags: Sequence[str], position: int) -> Rank:
        # Most cases match no filter.
        if not case_flags:
            return float("inf"), 0, position
        kind = next((k for k, name in enumerate(CLASSES) if name in case_flags), None)
        # Cases without a flag come last, in order.
        if kind is None:
            return float("inf"), 0, position
        # the first case of each class, then the second of each, and so on
        self._turns[kind] += 1
        return self._turns[kind], kind, position

    def data(self) -> CaseData:
        """Return the cases on the page."""
        # {position: short form} of the listed cases.
        rows = dict(self._short.kept())
        shared = _Shared()
        listed = len(rows)
        total = self._counts["all"]
        unlike = 0
        # Bytes that are left after all short forms.
        room = self._budget - sum(encoded_size(text) + 1 for text in rows.values())
        whole = 0
        for candidate in self._whole.kept():
            # not even its short form fits
            if candidate.position not in rows:
                continue
            parts_before = len(shared.parts)
            row, missed = self._page_row(candidate, shared)
            # A full form costs only what it has more than the short one.
            growth = encoded_size(text := encode(row)) - encoded_size(
                rows[candidate.position]
            )
            if growth + shared.size > room:
                # remove the texts that only this case would need
                shared.forget(parts_before)
                continue
            rows[candidate.position] = text
            # Texts in `shared` are counted by its own size, so only the growth is subtracted.
            room = room - growth
            whole = whole + 1
            unlike = unlike + missed
        # In the order of the run, whatever the order of the ranks.
        cases = ",".join(rows[position] for position in sorted(rows))
        text = f'{{"parts":{encode(shared.parts)},"cases":[{cases}]}}'
        return CaseData(
            json=text,
            flags=dict(self._counts),
            total=total,
            whole=whole,
            short=listed - whole,
            left_out=total - listed,
            unlike=unlike,
        )

    def _page_row(
        self, candidate: _Candidate, shared: _Shared
    ) -> tuple[JsonObject, int]:
        """Return a case as the page's data, and how many of its prompts differ from those sent."""
        case = candidate.case
        judgments = candidate.judgments
        prompts = self._asked(case, judgments) if self._asked else {}
        unlike = 0
        judgment_rows = []
        for judgment in judgments:
            # The key of the first request: follow-ups contain answers.
            messages = prompts.get(judgment.keys[0]) if judgment.keys else None
            # Only a prompt that was sent can be unlike; imported judgments have no key.
            unlike += bool(judgment.keys) and messages is None
            row = shorten_texts(judgment_row(judgment), LONG)
            if messages is not None:
                row |= {
                    "asked": shared.messages(case, messages),
                    "key": judgment.keys[0],
                    "asks": len(judgment.keys),
                }
            judgment_rows.append(row)
        row = shorten_texts(case_row(case, candidate.verdicts), LONG)
        return row | {
            "judgments": judgment_rows,
            "flags": list(candidate.flags),
        }, (unlike if self._asked else 0)


class _Shared:
    """Prompts split into pieces: texts of the case refer to its row, and repeated
    template texts are stored once.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        # {text: its index in `parts`}.
        self._places: dict[str, int] = {}
        # Hashes of texts that occurred once.
        self._seen: set[int] = set()
        self.size = 0

    def messages(self, case: Case, messages: Sequence[Message]) -> list[list[Any]]:
        """Return each message as its role and its pieces."""
        texts: list[tuple[list[Any], str]] = [
            (["responses", i], response.text)
            for i, response in enumerate(case.responses)
        ]
        texts += [
            ([name], getattr(case, name) or "")
            for name in ("context", "reference", "prompt")
        ]
        # The longest first, so that a text within another text does not split it.
        texts = sorted(
            # Short texts may occur in a template by chance, and cost little.
            (entry for entry in texts if len(entry[1]) > 20),
            key=lambda entry: -len(entry[1]),
        )
        return [
            [message["role"], *self._split_at_texts(message["content"], texts)]
            for message in messages
        ]

    def _split_at_texts(
        self, content: str, texts: Sequence[tuple[list[Any], str]]
    ) -> list[Any]:
        """Return a message as literals and references to texts of the case.

        Args:
            content: the message, or a part of it.
            texts: references and their texts, the longest text first.
        """
        if not content:
            return []
        # pieces need no texts before `rank`: those are not in the content
        for rank, (reference, text) in enumerate(texts):
            before, separator, after = content.partition(text)
            if separator:
                return [
                    *self._split_at_texts(before, texts[rank:]),
                    reference,
                    *self._split_at_texts(after, texts[rank:]),
                ]
        return [self._literal(content)]

    def _literal(self, text: str) -> str | int:
        """Return a text the first time, and from the second time on its index in `parts`."""
        if text in self._places:
            return self._places[text]
        # a text is stored as a part when it occurs again; hashes need less memory
        # Very short texts gain nothing from an index, and very long ones are cut.
        if not 20 <= len(text) <= LONG or hash(text) not in self._seen:
            self._seen.add(hash(text))
            return cut_text(text, LONG)
        self._places[text] = len(self.parts)
        self.parts.append(text)
        # The bytes of the part as JSON, and of a comma.
        self.size += encoded_size(encode(text)) + 1
        return self._places[text]

    def forget(self, count: int) -> None:
        """Remove all texts but the first `count`, because their case is not on the page."""
        # Parts are added at the end, so those of the last case are the last ones.
        for text in self.parts[count:]:
            del self._places[text]
            self.size -= encoded_size(encode(text)) + 1
        del self.parts[count:]
