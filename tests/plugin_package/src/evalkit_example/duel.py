"""A way of judging: one question, two texts, and the answer is first, second or neither."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from evalkit.config import RunConfig
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment
from evalkit.evaluators.parsing import drop_thinking
from evalkit.evaluators.prompting import Prompts, neutralize

MARGINS = {"first": 1.0, "neither": 0.0, "second": -1.0}


class Params(BaseModel, extra="forbid", frozen=True):
    """What `mode.params` may hold."""

    question: str = "Which is better?"


class Duel:
    """Ask one question of each pair of neighbours, in both orders."""

    Params = Params

    def __init__(self, config: RunConfig, prompts: Prompts, params: Params) -> None:
        self._prompts, self._params = prompts, params
        self._samples = config.mode.samples
        self._ask(Case("rehearsal", "", ()), ("", ""), (0, 1), 0)

    @property
    def prompt_hashes(self) -> dict[str, str]:
        """The SHA-256 of each template in use."""
        return self._prompts.hashes()

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the asks for each response and the next one."""
        texts = [response.text for response in case.responses]
        return [
            self._ask(case, (texts[shown[0]], texts[shown[1]]), shown, sample)
            for k in range(len(texts) - 1)
            for sample in range(self._samples)
            for shown in ((k, k + 1), (k + 1, k))
        ]

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment:
        """Return the margin of the word that stands last, turned round if the texts were."""
        words = drop_thinking(completion.text).casefold().replace(".", " ").split()
        said = words[-1] if words else ""
        place = (request.case_id, request.unit, request.shown, request.sample, request.judge)
        if said not in MARGINS or completion.refusal:
            return Judgment(
                *place, "unparseable", error=f"'{said[:40]}' is not first, second or neither"
            )
        margin = MARGINS[said] if request.shown == request.unit else -MARGINS[said]
        return Judgment(*place, "ok", value=margin, read_by="last word")

    def _ask(
        self, case: Case, texts: tuple[str, str], shown: tuple[int, int], sample: int
    ) -> JudgeRequest:
        first, second = (neutralize(text) for text in texts)
        messages = self._prompts.render(
            "duel", question=self._params.question, first=first, second=second
        )
        return JudgeRequest(case.id, (min(shown), max(shown)), shown, messages, None, sample)
