"""Studies of simulated judges on loopback, each with something to tune that makes it better."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.alignment.criteria import safe_name
from tests.support.fake_provider import Provider, Reply, said

PRICE = 1e-4  # of one call
CLASSES = ("mode=pointwise", "rubric=pass_fail", "output=bracket")
RULE = "- A plain response is bad."

Rows = list[dict[str, Any]]


def answered(text: str) -> Reply:
    return said(text, usage=(100, 0))


def flips(n: int) -> list[bool]:
    generator = random.Random(0)
    return [generator.random() < 0.5 for _ in range(n)]


def labeled(texts: list[str], good: list[bool], labels: tuple[Any, Any], *, shuffled: bool) -> Rows:
    """Return responses, with the second label if they are good."""
    good = random.Random(0).sample(good, len(good)) if shuffled else good
    return [
        {"id": f"c{k}", "prompt": f"question {k}", "response": text, "label": labels[good[k]]}
        for k, text in enumerate(texts)
    ]


def parts(body: dict[str, Any]) -> tuple[str, str, str]:
    """Return the system part of a request, its user part, and the response in it."""
    system, user = (message["content"] for message in body["messages"])
    return system, user, user.partition("<response>")[2].partition("</response>")[0].strip()


def prompt_rows(n: int = 90, *, shuffled: bool = False) -> Rows:
    good = flips(n)
    texts = [f"{'marvelous' if one else 'plain'} {k}" for k, one in enumerate(good)]
    return labeled(texts, good, ("fail", "pass"), shuffled=shuffled)


def instructed(body: dict[str, Any]) -> Reply:
    """Take every response as good, unless the instruction says what is bad."""
    system, _, response = parts(body)
    return answered("[[fail]]" if response.startswith("plain") and RULE in system else "[[pass]]")


def prompt_rule(body: dict[str, Any]) -> Reply:
    """Write what the mistakes have in common: a first guess is wrong, and the next one is right."""
    if body["model"] != "writer":
        return instructed(body)
    system, user, _ = parts(body)
    assert "You improve the instructions" in system
    current, _, cases = user.partition("# Cases")
    assert "Verdict: pass\nLabel: fail" in cases
    current, _, attempts = current.partition("# Earlier attempts")
    guess = RULE if "before, " in attempts else "- Whatever is marvelous is good."
    _, _, kept = current.strip().partition("\n\n")
    return answered(f"```text\n{kept}\n{guess}\n```")


def example_rows(n: int = 100, *, shuffled: bool = False) -> Rows:
    good = flips(n)
    kinds = [f"{'marvelous' if k % 5 == 0 else 'plain'} {k}" for k in range(n)]
    texts = [f"{'good' if one else 'bad'}: {kind}" for one, kind in zip(good, kinds, strict=True)]
    return labeled(texts, good, ("fail", "pass"), shuffled=shuffled)


def example_rule(body: dict[str, Any]) -> Reply:
    """Know good from bad responses if an example of the good ones says how; else see every one as good."""
    system, user, _ = parts(body)
    right = "good: marvelous" in system.partition("# Classified examples")[2]
    return answered(
        "[[fail]]" if right and "bad: " in user.partition("<response>")[2] else "[[pass]]"
    )


MATTERS = {"name": "Cites a source!", "description": "The response cites a source."}
SAME = {"name": "source", "description": "  the RESPONSE cites a source"}
AGREES = {"name": "origin", "description": "It names the origin of each claim."}
USELESS = {"name": "rhymes", "description": "The response has rhymes."}
HOSTILE = {"name": "../{{x}}", "description": "<script>alert(1)</script>"}
PROPOSED = [USELESS, MATTERS, SAME, AGREES, HOSTILE]
LABELS = {"classes": ("fail", "pass"), "scores": (1, 5), "checklist": (0, 1)}
MODES: dict[str, tuple[str, ...]] = {
    "classes": CLASSES,
    "scores": ("mode=pointwise", "rubric=likert5", "output=json"),
    "checklist": ("mode=checklist", "rubric=share", "output=json",
                  "mode.checklist=[{id: polite, criterion: Polite?}]"),
}  # fmt: skip


def criteria_rows(n: int = 100, *, mode: str = "classes", shuffled: bool = False) -> Rows:
    good = flips(n)
    texts = [f"answer {k}{' with a source' if one else ''}" for k, one in enumerate(good)]
    return labeled(texts, good, LABELS[mode], shuffled=shuffled)


def chance(text: str, of: str) -> float:
    return int(hashlib.sha256((of + text).encode()).hexdigest()[:8], 16) / 16**8


def value(description: str, response: str) -> float:
    """How far a response meets a criterion, in [0, 1]."""
    if description in (MATTERS["description"], AGREES["description"]):
        return float("source" in response)
    return round(chance(response, description))


def judged_by_criteria(body: dict[str, Any]) -> Reply:
    _, user, response = parts(body)
    if "Requirement" in user:
        text = (
            user.partition("<requirements>")[2]
            .partition("</requirements>")[0]
            .strip()
            .removeprefix("1. ")
        )
        return answered(
            json.dumps({"reason": "", "answer": "met" if value(text, response) else "not_met"})
        )
    added = [one for one in PROPOSED if one["description"] in user]
    if "[[pass]]" in user:
        failed = [
            one for one in added if one is not USELESS and not value(one["description"], response)
        ]
        return answered("[[fail]]" if failed else "[[pass]]")
    scores = {"overall quality": 1 + 4 * chance(response, "overall")}
    scores |= {
        safe_name(one["name"], 0, ()): 1 + 4 * value(one["description"], response) for one in added
    }
    entries = [
        {"criterion": k, "justification": "", "examples": [], "score": round(v)}
        for k, v in scores.items()
    ]
    return answered(json.dumps({"scores": entries}))


def criteria_rule(body: dict[str, Any]) -> Reply:
    return (
        answered(json.dumps({"criteria": PROPOSED}))
        if body["model"] == "writer"
        else judged_by_criteria(body)
    )


@dataclass(frozen=True)
class Study:
    """A judge that tuning makes better: its cases, its answers and those of the writer, and the words of `align`."""

    rows: Callable[..., Rows]
    rule: Callable[[dict[str, Any]], Reply]
    tune: tuple[str, ...]


STUDIES: Mapping[str, Study] = {
    "prompt": Study(prompt_rows, prompt_rule, ("tune=prompt",)),
    "examples": Study(example_rows, example_rule, ("tune=examples", "align.examples=2")),
    "criteria": Study(criteria_rows, criteria_rule, ("tune=criteria",)),
}


def align(provider: Provider, tune: str, *words: str, budget: float = 1) -> list[str]:
    """Return the words that tune the study of a setting, with a writer where it needs one."""
    keys = {
        "model": "openai/writer",
        "api_base": provider.api_base,
        "transport": "direct",
        "max_tokens": 1000,
    }
    model = [
        f"align.model.{key}={value}"
        for key, value in {**keys, "price": "{input: 1, output: 0}"}.items()
    ]
    writer = [] if tune == "examples" else model
    return ["align", "run", *STUDIES[tune].tune, *writer, f"align.budget_usd={budget}", *words]
