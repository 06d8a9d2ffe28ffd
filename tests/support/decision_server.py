"""A server of decision models, as LiteLLM 1.110.1 describes the two protocols in `types/decisions.py`.

It decides by the text: a response that states `P(x)=0.8` gives the choice x that probability.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_provider import Provider, Reply

MODEL = "jev-1.14.0"
_STATED = re.compile(r"P\(([^)]+)\)=([\d.]+)")


def stated(text: str, choices: Sequence[str]) -> dict[str, float]:
    """Return the probabilities that a text states; what is not stated shares what is left."""
    found = {name: float(share) for name, share in _STATED.findall(text) if name in choices}
    open_ = [name for name in choices if name not in found]
    left = 1 - sum(found.values())
    return {name: found.get(name, left / max(1, len(open_))) for name in choices}


@dataclass
class DecisionServer:
    """The two routes; `install` adds them to a provider.

    Attributes:
        change: Replaces entries of every answer to a question.
        drop: The names of questions that get no answer.
    """

    change: Mapping[str, Any] = field(default_factory=dict)
    drop: Sequence[str] = ()
    usage: tuple[int, int] = (100, 0)

    def install(self, provider: Provider) -> Provider:
        provider.routes = {
            "/v1/systemone": self.systemone,
            "/v1/decisions": self.decisions,
        }
        return provider

    def systemone(self, body: dict[str, Any]) -> Reply:
        answers = {
            key: self._systemone_answer(question, body["state"])
            for key, question in body["questions"].items()
            if key not in self.drop
        }
        read, written = self.usage
        usage = {"input_tokens": read, "output_tokens": written}
        return Reply({"model": MODEL, "answers": answers, "usage": usage})

    def _systemone_answer(self, question: dict[str, Any], text: str) -> dict[str, Any]:
        levels = question["criteria"]
        if question["type"] == "choice":
            shares = stated(text, list(levels))
            best = max(shares, key=lambda name: shares[name])
            answer = {"choice": best, "confidence": shares[best], "probabilities": shares}
        else:
            labels = [level.partition(":")[0] for level in levels]
            found = list(stated(text, labels).values())
            shares = {str(index): share for index, share in enumerate(found)}
            score = sum(index * share for index, share in enumerate(found))
            legend = {str(index): level for index, level in enumerate(levels)}
            answer = {
                "score": score,
                "confidence": max(found),
                "legend": legend,
                "probabilities": shares,
            }
        return {"type": question["type"], **answer, **self.change}

    def decisions(self, body: dict[str, Any]) -> Reply:
        answers = [
            self._openai_answer(question, body["input"])
            for question in body["questions"]
            if question["name"] not in self.drop
        ]
        read, written = self.usage
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        return Reply({"model": MODEL, "answers": answers, "usage": usage})

    def _openai_answer(self, question: dict[str, Any], text: str) -> dict[str, Any]:
        asked = {"type": question["type"], "name": question["name"]}
        if question["type"] == "choice":
            shares = stated(text, [choice["value"] for choice in question["choices"]])
            best = max(shares, key=lambda name: shares[name])
            entries = [{"value": name, "probability": share} for name, share in shares.items()]
            answer = {"choice": best, "confidence": shares[best], "probabilities": entries}
        else:
            labels = [level["label"] for level in question["levels"]]
            shares = stated(text, labels)
            entries = [
                {"value": index, "label": label, "probability": shares[label]}
                for index, label in enumerate(labels)
            ]
            score = sum(entry["value"] * entry["probability"] for entry in entries)
            answer = {
                "score": score,
                "confidence": max(shares.values()),
                "probabilities": entries,
            }
        return {**asked, **answer, **self.change}
