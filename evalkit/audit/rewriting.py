"""The probe `paraphrase`: the model of `probe.rewriter` writes each text once, and
annotators may review it.

A paraphrase is requested like a judgment. So it is stored under its content key, and limits and
budgets apply to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from evalkit.audit.plan import SEPARATOR, trimmed
from evalkit.audit.probes import PARAPHRASE, find_probe, language_of
from evalkit.config import RunConfig, SwapConfig
from evalkit.core.errors import ConfigError, DatasetError, PromptError
from evalkit.core.hashing import text_digest
from evalkit.core.plugins import PROMPTS, folders
from evalkit.core.resources import project
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment
from evalkit.engine.run_design import Reviews
from evalkit.evaluators.base import Reading, conclude, is_cut_off
from evalkit.evaluators.parsing import UnreadableError, drop_thinking, is_refusal
from evalkit.evaluators.prompting import Prompts, marked_texts, neutralize
from evalkit.interop.layouts.judgment_files import rows_of
from evalkit.runs.records import as_csv

SAME: Final = "same"
NO_REVIEWS: Final[Reviews] = MappingProxyType({})
_MEANING: Final = {"same": True, "different": False, "相同": True, "不同": False}
_COLUMNS: Final = ("id", "key", "original", "paraphrase", "annotator", "label")
_TAGS = re.compile(r"<(response)>\n?(.*?)\n?</\1>", re.DOTALL)


class Rewriter:
    """Plans one request per case, for a paraphrase of the response that the probe
    edits, and reads the answer.

    Raises:
        PromptError: If the template `paraphrase` cannot be used.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        prompt_folders = [project() / "prompts", *folders(PROMPTS)]
        self._prompts = {
            language: Prompts(language, prompt_folders) for language in ("en", "zh")
        }
        # Both languages are checked, as data may be in either.
        for prompts in self._prompts.values():
            prompts.render(PARAPHRASE, response="text")
            if not prompts.uses(PARAPHRASE, "response"):
                where = prompts.place(PARAPHRASE)
                remedy = "add {{ response }} to it"
                raise PromptError(
                    "has no placeholder 'response'", where=where, remedy=remedy
                )

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """The SHA-256 of each template."""
        return {
            name: digest
            for prompts in self._prompts.values()
            for name, digest in prompts.hashes().items()
        }

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the request for the paraphrase; nothing if the response is empty."""
        text = original_of(case, self._config)
        if not text.strip():
            return ()
        messages = self._prompts[language_of(text + case.prompt)].render(
            PARAPHRASE, response=neutralize(text)
        )
        # Shared: one paraphrase for all samples and orders.
        return (JudgeRequest(case.id, (0,), (0,), messages, shared=True),)

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the paraphrase as a judgment's answer, or why there is none: it is cut
        off, a refusal, or the same.
        """
        return conclude(
            request, completion, lambda: _read_paraphrase(request, completion), None
        )


def _read_paraphrase(request: JudgeRequest, completion: Completion) -> Reading:
    """Return the paraphrase in a completion.

    Raises:
        UnreadableError: if there is none, or it is cut off, a refusal, or the response itself.
    """
    text = drop_thinking(completion.text).strip()
    text = match[2].strip() if (match := _TAGS.fullmatch(text)) else text
    original = next(iter(marked_texts(request.messages[-1:])), "").strip()
    if is_cut_off(completion):
        raise UnreadableError("truncated", "set a higher probe.rewriter.max_tokens")
    if not text:
        raise UnreadableError("empty", "the paraphrase is empty")
    # A paraphrase of a refusal is a refusal.
    if is_refusal(text) and not is_refusal(original):
        raise UnreadableError("refusal", f"the rewriter refused: {text[:200]}")
    if text == original:
        raise UnreadableError("no_answer", "the paraphrase equals the response")
    return Reading(read_by="text", answer={PARAPHRASE: text})


def original_of(case: Case, config: RunConfig) -> str:
    """Return the response of a case that the probe paraphrases; empty if the case has none."""
    trimmed_case, side = trimmed(case, find_probe(PARAPHRASE), config)
    if trimmed_case is None:
        return ""
    return trimmed_case.responses[side].text


def rewriting(config: RunConfig) -> RunConfig:
    """Return a config whose judge is the rewriter."""
    assert config.probe.rewriter is not None
    return config.with_(
        {"judge": config.probe.rewriter, "swap": SwapConfig(policy="none")}
    )


def paraphrases(judgments: Iterable[Judgment]) -> dict[str, str]:
    """Return the paraphrases that were written, by the case's id."""
    return {
        judgment.case_id: str(judgment.answer[PARAPHRASE])
        for judgment in judgments
        if judgment.answer is not None
    }


def note_missing(judgments: Sequence[Judgment]) -> list[str]:
    """Return a note on cases without a paraphrase, with an example; nothing if all have one."""
    missing = [judgment for judgment in judgments if judgment.answer is None]
    if not missing:
        return []
    why = "".join(
        filter(
            str.isprintable,
            f"for example case {missing[0].case_id}: {missing[0].error}",
        )
    )
    return [
        f"probe.rewriter wrote no paraphrase of {len(missing):,} of {len(judgments):,} cases, {why}"
    ]


def reviews_of(case: Case) -> Mapping[str, bool]:
    """Return whether each annotator says that an edited case's paraphrase means the
    same, by name.
    """
    reviews = case.metadata.get(SAME)
    if isinstance(reviews, Mapping):
        return reviews
    return {}


def is_rejected(case: Case) -> bool:
    """Return whether at least half of its annotators say that a paraphrase differs in meaning."""
    reviews = reviews_of(case).values()
    # `True` counts as 1: at least half of them say that it differs.
    return bool(reviews) and 2 * sum(reviews) <= len(reviews)


def review_table(
    config: RunConfig, cases: Iterable[Case], edits: Iterable[Case]
) -> str:
    """Return a table of originals and paraphrases as CSV, for annotators to label.

    Args:
        config: The config of an audit.
        cases: Its original cases.
        edits: Its edited cases.

    Raises:
        ConfigError: If there are no paraphrases.
    """
    by_id = {case.id: case for case in cases}
    rows = []
    for edit in edits:
        if edit.metadata.get("probe") == PARAPHRASE:
            original = by_id[str(edit.metadata["case"])]
            texts = {PARAPHRASE: _text(edit), "original": original_of(original, config)}
            row = {"id": original.id, "key": key_of(edit), **texts}
            reviews = [
                {"annotator": annotator, "label": "same" if same else "different"}
                for annotator, same in reviews_of(edit).items()
            ]
            # A row without a label for a paraphrase that nobody has reviewed.
            rows += [{**row, **review} for review in reviews or [{}]]
    if not rows:
        raise ConfigError(
            "the run has no paraphrases",
            where="evalkit export --to paraphrases",
            remedy="name an audit with probe.rewriter",
        )
    return as_csv(_COLUMNS, rows)


def read_reviews(path: Path, omitted: Counter[str]) -> Reviews | None:
    """Return whether each annotator says that a paraphrase means the same, by its key;
    `None` for another table.

    Args:
        path: The file that `review_table` made, with labels.
        omitted: Counts omitted rows by kind.

    Raises:
        DatasetError: If a label is neither `same` nor `different`.
    """
    reviews: dict[str, dict[str, bool]] = {}
    for location, row in rows_of(path):
        if not {"key", PARAPHRASE}.issubset(row):
            return None
        label = str(row.get("label") or "").strip().lower()
        if not label:
            omitted["rows without a label"] += 1
            continue
        if label not in _MEANING:
            raise DatasetError(
                f"'{label[:40]}' is not a label",
                where=location,
                remedy="write same or different",
            )
        reviews.setdefault(str(row["key"]), {})[
            str(row.get("annotator") or "human")
        ] = _MEANING[label]
    return reviews


def with_reviews(edits: Iterable[Case], reviews: Reviews) -> list[Case]:
    """Return edited cases with annotators' reviews of paraphrases added; a newer one
    replaces an older one.
    """

    def reviewed(edit: Case) -> Case:
        if edit.metadata.get("probe") == PARAPHRASE:
            added = reviews.get(key_of(edit))
        else:
            added = None
        if not added:
            return edit
        return replace(
            edit, metadata={**edit.metadata, SAME: {**reviews_of(edit), **added}}
        )

    return [reviewed(edit) for edit in edits]


def _text(edit: Case) -> str:
    return edit.responses[int(edit.metadata["side"])].text


def key_of(edit: Case) -> str:
    """Return the key by which a review finds a paraphrase: a hash of the case's id and the text."""
    digest = text_digest(f"{edit.id.partition(SEPARATOR)[0]}\0{_text(edit)}")
    return f"p{digest[:15]}"  # a spreadsheet would read 12e4 as a number
