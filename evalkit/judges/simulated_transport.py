"""Simulated judges: no model, but planted faults, to check whether an evaluation finds them.

A simulated judge sees the messages, like a model. It finds the responses between the markers of the
shipped templates, and answers in the requested format. Every answer is a function of the request:
no state, no network and no cost.

- Quality: for a response of the shipped samples, the quality comes from its label, as if the judge
  had been trained on it. For any other text it is a number between 0 and 1 from the text's hash:
  arbitrary, but the same in either position, in every mode and for every judge. So agreement with
  labels is meaningful on the samples only; planted faults appear on any data.
- `accuracy`: the probability that the judge prefers a response of quality 1 to one of quality 0. It
  sees quality with noise that is new in each order (Gumbel noise, so that choices follow the
  Bradley-Terry model). Two simulated judges with the same seed see the same noise, so they differ
  only in their faults.
- `noisy` and the judges with the faults `authority` (a citation), `master_key` (an opening without
  an answer) and `sycophancy` (praise for the question) see the same quality in an edited text, as
  far as it holds the words of the original. For texts that are in no sample, similar texts mostly
  have the same quality, and empty ones the lowest.
- `strength`: the share of pairs or lists in which the judge follows its fault instead, in every
  order: it prefers the first response shown, the longer one, or the one with what it falls for. A
      single response has no position, so a
  position fault appears only in pairs and lists.
- Checklist items: whether an item is met is a function of the response and the criterion, with
  probability 1/2. The judge answers correctly with probability `accuracy`. With several items in
  one request, an answer is that of most items with probability `halo`, and is missing with
  probability `missing`.
- Classes: the class of a response is a function of its quality; the first class of the rubric is
  that of the best responses, and of the last class if the classes are ordered. The judge chooses it
  with the probability `accuracy`, and otherwise one of the other classes. `simulated/class_biased`
  chooses the class `class` (the first one by default) instead with the probability `strength`, and
  `simulated/abstaining` abstains with that probability, if it may.

With several samples (`mode.samples`), each sample has its own seed, and so its own noise and
faults.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from evalkit.config import SIMULATED, JudgeConfig
from evalkit.core.errors import CallError, JudgeSetupError, did_you_mean
from evalkit.core.patterns import lazy_pattern
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.judges import setup
from evalkit.judges.adaptations import Shape
from evalkit.judges.model_judge import InProcess, ProviderReply
from evalkit.judges.responses import Answer

FAULTS = {
    "good": None,
    "position_biased": "position",
    "length_biased": "length",
    "class_biased": "class",
    "abstaining": "abstention",
    "noisy": None,
    **{name: name for name in ("authority", "master_key", "sycophancy")},
}
ACCURACY, STRENGTH = 0.9, 0.6
_FALLS_FOR = {
    "authority": re.compile(r"et al\., \d{4}|《.+》\d|参见"),
    "master_key": re.compile(r"\A.{0,40}\Z", re.DOTALL),
    "sycophancy": re.compile(
        r"\b(?:wonderful|great|excellent) question|问得太好了|好问题", re.IGNORECASE
    ),
}
_BY_CONTENT = (*_FALLS_FOR, "noisy")
_SAMPLES = ("sample.jsonl", "graded.jsonl")
_SAME_TEXT = 0.4
"""The share of a text's content that makes another text a version of it."""
_WHOLE_TEXT = 400
"""The number of different trigrams of a text that is as long as usual."""
_TYPICAL_LENGTH = (
    150  # characters; a single response counts as long or short relative to this
)
_SCALE = lazy_pattern(r"(-?\d+(?:\.\d+)?) (?:to|到) (-?\d+(?:\.\d+)?)")
_STEP = lazy_pattern(r"(?:in steps of|以) (\d+(?:\.\d+)?)")
_CLASS = "class"
_CLASSES = lazy_pattern(
    r"^# (?:Classes|类别)\n\n(?P<ordered>(?:From lowest to highest:|从低到高：)\n)?(?P<list>(?:-"
    r" .*\n)+)",
    re.MULTILINE,
)
_CLASS_NAME = lazy_pattern(r"- (.*?)(?:: .*|：.*)?")
_ABSTAIN = lazy_pattern(
    r"^(?:If you cannot tell, answer |如果无法判断，请回答 )(.+?)(?:\. Do not guess\.|。"
    r"不要猜测。)$",
    re.MULTILINE,
)
_NUMBERED = lazy_pattern(r"^(\d+)\. (.*)$", re.MULTILINE)
_ITEM_WORDS = {"en": ("met", "not met"), "zh": ("满足", "不满足")}
_LABEL = lazy_pattern(r'label="([^"]+)"')
_REASON = "Simulated judge: no model read this."
_UNDECIDED = f"{_REASON} It names no decision."


@frozen
class _View:
    """A simulated judge's view of the responses: the worth of each, by label or letter,
    and the noise scale.
    """

    worth: Mapping[str, float]
    scale: float

    @property
    def order(self) -> list[str]:
        """The labels, best first."""
        return sorted(self.worth, key=lambda label: -self.worth[label])

    def winner(self, *, tie_allowed: bool) -> str:
        """Return the better of two; for equal worth, a tie, or the first one shown if
        ties are forbidden.
        """
        best, second = self.order
        if tie_allowed and self.worth[best] == self.worth[second]:
            return "TIE"
        return best

    @property
    def confidence(self) -> float:
        """The probability of its first choice, as if the judge had no fault."""
        best, second, *_ = [self.worth[label] for label in self.order]
        return round(_expit((best - second) / max(self.scale, 0.01)), 2)

    def share(self, label: str) -> float:
        """Return the worth of a response, in [0, 1]."""
        return _expit(4 * (self.worth[label] - 0.5))

    def rank(self, label: str) -> int:
        """Return a response's rank; equal responses share a rank."""
        return 1 + sum(worth > self.worth[label] for worth in self.worth.values())


def answer(model: str, call: Json) -> str | None:
    """Return a simulated judge's answer to an OpenAI chat request; `None` if the prompt has no
    response to judge.

    Args:
        model: The model, which names the planted fault.
        call: The request, with the judge's `seed`, `accuracy` and other parameters.
    """
    from evalkit.evaluators.prompting import (
        marked,
    )  # imports Jinja, which describing a judge does not need

    messages = call["messages"]
    schema = _schema_of(call)
    prompt = "\n".join(message["content"] for message in messages)
    tags = [*marked(messages)]
    shown_texts = {_name(tag): text for tag, text in tags if tag.startswith("response")}
    if not shown_texts:
        # Either the judge must write its own answer (mode.commit_first), or a template has no
        # markers.
        if schema is None and "[[" not in prompt:
            return f"{_REASON} It has no answer of its own."
        return None
    first = next(iter(shown_texts.values()))
    items = next((text for tag, text in tags if tag == "requirements"), None)
    if items is not None and len(shown_texts) == 1:
        return _itemized(first, items, prompt, schema, call)
    key = (call.get("seed", 0), *shown_texts.values())
    if _uniform("missing", *key) < call.get("missing", 0.0):
        return _UNDECIDED
    name = model.removeprefix(SIMULATED)
    chosen = _class_of(name, first, prompt, call)
    if schema is None:
        if chosen is None:
            line = _in_words(
                messages[0]["content"], prompt, _viewed(name, shown_texts, call)
            )
        else:
            line = f"[[{chosen}]]" if "[[" in prompt else f"Class: {chosen}"
        return f"{_REASON}\n{line}"
    filled: JsonObject = {"reasoning": _REASON, "quotes": [], "class": chosen}
    return json.dumps(
        _fill(schema, _viewed(name, shown_texts, call), "")
        if chosen is None
        else filled,
        ensure_ascii=False,
    )


def _itemized(
    response: str, items: str, prompt: str, schema: Json | None, call: Json
) -> str:
    """Return the answer to a criterion, or to one numbered criterion on each line.

    The answer is JSON with a schema, and text without one. An item that the judge leaves out is
    missing; of a single item, the answer is then undecided.

    Args:
        response: The response to judge.
        items: The text of the criteria.
        prompt: The user's message, which shows the format of the answer.
        schema: The schema of the answer; `None` for plain text.
        call: The call's parameters: `seed`, and the shares `missing`, `accuracy` and `halo`.
    """
    if schema is not None:
        several = "items" in schema["properties"]
    else:
        several = "[[1:" in prompt
    if several:
        criteria = [text for _, text in _NUMBERED.findall(items)]
    else:
        criteria = [items.strip()]
    # `criteria`, `truths` and the numbers in `answers` are in the order of the prompt; answers
    # count from 1, as the prompt does.
    truths = [_uniform("item", response, criterion) < 0.5 for criterion in criteria]
    answers: dict[int, bool] = {}
    for number, (criterion, truth) in enumerate(zip(criteria, truths, strict=True), 1):
        key = (call.get("seed", 0), response, criterion)
        is_omitted = _uniform("missing", len(criteria), *key) < call.get("missing", 0.0)
        if is_omitted and not several:
            return _UNDECIDED
        if is_omitted:
            continue
        right = truth == (
            _uniform("slip", several, *key) < call.get("accuracy", ACCURACY)
        )
        # led by the halo: each item gets the answer of most
        led = several and _uniform("halo", *key) < call.get("halo", 0.0)
        answers[number] = sum(truths) * 2 > len(criteria) if led else right
    if schema is not None:
        filled = [
            {"item": number, "reason": _REASON, "answer": "met" if met else "not_met"}
            for number, met in answers.items()
        ]
        if filled:
            alone = {name: filled[0][name] for name in ("reason", "answer")}
        else:
            alone = {}
        return json.dumps({"items": filled} if several else alone)
    yes, no = _ITEM_WORDS["zh" if "满足]]" in prompt else "en"]
    if not several:
        return f"{_REASON}\n[[{yes if answers[1] else no}]]"
    return (
        "\n".join(
            f"{_REASON} [[{number}: {yes if met else no}]]"
            for number, met in answers.items()
        )
        or _REASON
    )


def _name(tag: str) -> str:
    """Return the letter or label of a response from its tag; empty for a single response."""
    label = _LABEL.search(tag)
    if label:
        return label[1]
    return tag.removeprefix("response").removeprefix("_").upper()


def _schema_of(call: Json) -> Json | None:
    for tool in call.get("tools") or ():
        parameters: Json = tool["function"]["parameters"]
        return parameters
    schema: Json | None = (
        (call.get("response_format") or {}).get("json_schema", {}).get("schema")
    )
    return schema


def _class_of(name: str, text: str, prompt: str, call: Json) -> str | None:
    """Return the class that a judge chooses for a response, or its abstention; `None` if no class
    is asked for.

    Args:
        name: The name of the simulated judge.
        text: The response.
        prompt: The user's message, which lists the classes.
        call: The judge's parameters: `seed`, `accuracy`, `strength`, and the class that it prefers.
    """
    if (listed := _CLASSES.search(prompt)) is None:
        return None
    classes = [
        match[1]
        for line in listed["list"].splitlines()
        if (match := _CLASS_NAME.fullmatch(line))
    ]
    # ordered classes are listed from the worst to the best
    best_first = classes[::-1] if listed["ordered"] else classes
    # Quality is cut into equal parts, one for each class; `min` is for a quality of 0.
    true = best_first[min(int((1 - _quality(text)) * len(classes)), len(classes) - 1)]
    seed = call.get("seed", 0)
    fault = FAULTS[name]
    if fault and _uniform(seed, "fault", text) < call.get("strength", STRENGTH):
        if fault == _CLASS:
            biased = call.get(_CLASS, classes[0])
            return biased if biased in classes else classes[0]
        if fault == "abstention" and (abstain := _ABSTAIN.search(prompt)):
            return abstain[1]
    if _uniform(seed, "noise", text) < call.get("accuracy", ACCURACY):
        return true
    # With the rest of the probability: any wrong class, each as likely.
    wrong_classes = [class_name for class_name in classes if class_name != true]
    return wrong_classes[int(_uniform(seed, "other", text) * len(wrong_classes))]


def _viewed(name: str, shown_texts: Mapping[str, str], call: Json) -> _View:
    """Return the worth of each response to the simulated judge, by label, with noise and its
    planted fault.

    Args:
        name: The name of the simulated judge.
        shown_texts: The responses by label, in the order in which they are shown.
        call: The call's parameters: `seed`, `accuracy` and `strength`, the share of cases in
            which the judge falls for its fault.
    """
    accuracy = call.get("accuracy", ACCURACY)
    seed = call.get("seed", 0)
    # the scale of logistic noise with which a difference of 1 is seen with this
    # accuracy
    scale = 0.0 if accuracy == 1 else 1 / max(math.log(accuracy / (1 - accuracy)), 1e-6)
    fault = FAULTS[name]
    # sorted: whether it falls for its fault does not depend on the order
    texts = sorted(shown_texts.values())
    quality = _content_quality if name in _BY_CONTENT else _quality
    worth = {
        # The noise depends on all texts in the order shown: a swapped pair is a new draw.
        label: quality(text) + scale * _noise(seed, text, *shown_texts.values())
        for label, text in shown_texts.items()
    }
    if fault and _uniform(seed, "fault", *texts) < call.get("strength", STRENGTH):
        if fault == "length":
            worth = {
                label: 0.5 + math.log(max(len(text), 1) / _TYPICAL_LENGTH)
                for label, text in shown_texts.items()
            }
        elif (sign := _FALLS_FOR.get(fault)) is not None:
            worth = {
                label: worth[label] + (3.0 if sign.search(text) else 0.0)
                for label, text in shown_texts.items()
            }
        # the fault is position: the first response is the best
        elif len(shown_texts) > 1:
            worth = {
                label: 1.0 - position / (len(shown_texts) - 1)
                for position, label in enumerate(shown_texts)
            }
    return _View(worth, scale)


def _uniform(*parts: object) -> float:
    """Return a number in (0, 1) that is a function of `parts` alone."""
    digest = hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).digest()
    # the half keeps it from 0, of which a logarithm is infinite
    return (int.from_bytes(digest[:7], "big") + 0.5) / 2**56


def _expit(value: float) -> float:
    return 0.5 * (1 + math.tanh(value / 2))


def _noise(seed: int, *texts: str) -> float:
    """Return Gumbel noise with mean 0; the difference of two such numbers is logistic."""
    return -math.log(-math.log(_uniform(seed, "noise", *texts))) - 0.5772156649


def _quality(text: str) -> float:
    labeled = _labeled().get(text)
    if labeled is None:
        return _uniform("quality", text)
    return labeled


@cache
def _content_quality(text: str) -> float:
    """Return the quality of a text from 0 to 1, by its content instead of its marks.

    It is that of the sample's text that it has most of, in proportion to how much of it is there. A
    text that has too little of any has a quality by chance, which grows with its length.
    """
    grams = _trigrams(text)
    held = {
        sample: len((parts := _trigrams(sample)) & grams) / len(parts)
        for sample in _labeled()
    }
    best = max(held, key=held.__getitem__)
    if held[best] >= _SAME_TEXT:
        return _labeled()[best] * held[best]
    return (
        min((_uniform("quality", part) for part in grams), default=0.0)
        * len(grams)
        % 1.0
        * min(1.0, len(grams) / _WHOLE_TEXT)
    )


@cache
def _trigrams(text: str) -> frozenset[str]:
    plain = re.sub(r"[\W_]+", "", text).casefold()
    return frozenset(plain[start : start + 3] for start in range(len(plain) - 2))


@cache
def _labeled() -> Mapping[str, float]:
    """Return the quality of each response of the shipped samples, by its text as shown
    in prompts.
    """
    from evalkit.evaluators.prompting import neutralize

    quality: dict[str, float] = {}
    folder = Path(str(files("evalkit"))) / "datasets" / "samples"
    for name in _SAMPLES:
        for line in (folder / name).read_text("utf-8").splitlines():
            row = json.loads(line)
            for response in row.get("responses") or ():
                # Grades from 1 to 5 become qualities from 0 to 1.
                quality[neutralize(response["text"])] = (response["label"] - 1) / 4
            for letter in "AB" if "response_a" in row else "":
                quality[neutralize(row[f"response_{letter.lower()}"])] = float(
                    row["label"] == letter
                )
    return quality


def _fill(schema: Json, view: _View, name: str, index: int = 0, about: str = "") -> Any:
    """Fill in a schema: the judge's decisions in the fields named for them, and
    placeholder text elsewhere.

    Args:
        schema: The JSON schema of this value.
        view: The judge's view of the responses.
        name: The field's name; empty for the whole answer and for list items.
        index: The item's index in its list, which selects a value of an enum.
        about: The label of the response that the value describes.
    """
    if name == "winner":
        return view.winner(tie_allowed="TIE" in schema["enum"])
    if name == "confidence":
        return view.confidence
    if name == "score":
        return _score(schema, view.share(""))
    if name == "rank":
        return view.rank(about)
    if "enum" in schema:
        return schema["enum"][index % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        filled: JsonObject = {}
        for key, part in schema["properties"].items():
            # A field may describe the response that an earlier field of the object names.
            filled[key] = _fill(
                part, view, key, index, str(filled.get("response", about))
            )
        return filled
    if kind == "array":
        return [
            _fill(schema["items"], view, "", position, about)
            for position in range(schema.get("minItems", 0))
        ]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return _REASON


def _score(schema: Json, share: float) -> float:
    if values := schema.get("enum"):
        # `share` in [0, 1] becomes an index of the list of scores.
        return float(values[round(share * (len(values) - 1))])
    step = schema.get("multipleOf") or (1 if schema["type"] == "integer" else None)
    return _on_scale(schema["minimum"], schema["maximum"], step, share)


def _on_scale(low: float, high: float, step: float | None, share: float) -> float:
    if step is None:
        return round(low + share * (high - low), 3)
    value = round(low + round(share * (high - low) / step) * step, 6)
    if float(value).is_integer():
        return int(value)
    return value


def _in_words(system: str, prompt: str, view: _View) -> str:
    """Return the last line that the shipped templates ask for: a score for one response, a winner
    for two.

    The prompt shows whether brackets and ties are asked for. The scale is in the system message;
    without one it is 1 to 5.
    """
    brackets = "[[" in prompt
    if len(view.worth) == 1:
        bounds = _SCALE.search(system)
        step = _STEP.search(system)
        low, high = (float(bounds[1]), float(bounds[2])) if bounds else (1.0, 5.0)
        score = _on_scale(low, high, float(step[1]) if step else 1, view.share(""))
        if brackets:
            return f"[[{score}]]"
        return f"Score: {score}"
    winner = view.winner(tie_allowed="[[C]]" in prompt or "Tie" in prompt)
    if brackets:
        if winner == "TIE":
            return "[[C]]"
        return f"[[{winner}]]"
    if winner == "TIE":
        return "Tie"
    return f"Response {winner}"


class SimulatedTransport(InProcess):
    """Answers `simulated/…` models."""

    @classmethod
    def check(cls, config: JudgeConfig) -> None:
        """Check a simulated judge's name and parameters.

        Raises:
            JudgeSetupError: If there is no such judge, or a parameter is unknown or out of bounds.
        """
        name = (config.model or "").removeprefix(SIMULATED)
        if name not in FAULTS:
            remedy = did_you_mean(name, FAULTS)
            raise JudgeSetupError(
                f"there is no simulated judge '{name}'",
                where="judge.model",
                remedy=remedy,
            )
        bounds = {"accuracy": (0.5, 1.0), "halo": (0.0, 1.0), "missing": (0.0, 1.0)} | (
            {"strength": (0.0, 1.0)} if FAULTS[name] else {}
        )
        texts = (_CLASS,) if FAULTS[name] == _CLASS else ()
        for param, value in config.params.items():
            where = f"judge.params.{param}"
            if param not in (*bounds, *texts):
                remedy = f"choose from {', '.join((*bounds, *texts))}"
                # Of no simulated judge: `judge.model` keeps the parameters of the default judge.
                if param not in ("strength", _CLASS):
                    remedy += f", or write judge={config.model} instead of judge.model"
                raise JudgeSetupError(
                    f"{config.model} does not have this parameter",
                    where=where,
                    remedy=remedy,
                )
            if param in texts:
                if not isinstance(value, str):
                    raise JudgeSetupError(
                        f"'{value}' is not the name of a class", where=where
                    )
                continue
            low, high = bounds[param]
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not low <= value <= high
            ):
                raise JudgeSetupError(
                    f"'{value}' is not a number from {low:g} to {high:g}", where=where
                )

    async def open(self, judge: str) -> tuple[setup.Target, Shape]:
        """Refuse settings that simulated judges do not support; return the target and
        the shape of the first request.

        Raises:
            JudgeSetupError: If log-probabilities or a rung without a schema are requested.
        """
        rung = self.config.response_format
        if rung in ("json_object", "text"):
            raise JudgeSetupError(
                f"judge {judge}: {self.model} answers only with a JSON schema or a tool call",
                where="judge.response_format",
                remedy="set judge.response_format=auto; for plain text, output=bracket",
            )
        if self.config.logprobs is True:
            raise JudgeSetupError(
                f"judge {judge}: {self.model} does not return log-probabilities",
                where="judge.logprobs",
                remedy="set judge.logprobs=false",
            )
        target = setup.Target(
            self.model, self.model.removeprefix(SIMULATED), "simulated", None
        )
        return target, Shape(
            "tool" if rung == "tool" else "json_schema",
            frozenset({"logprobs", "top_logprobs"}),
        )

    async def send(self, target: setup.Target, call: Json) -> ProviderReply:
        """Answer one call.

        Raises:
            CallError: If the prompt does not mark any response.
        """
        text = answer(target.model, call)
        if text is None:
            message = (
                "this prompt has no response markers; simulated judges need those of the shipped"
                " templates"
            )
            raise CallError("bad_response", message, retryable=False)
        return ProviderReply(Answer(text, model=target.model), 0.0)
