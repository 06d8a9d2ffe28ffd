"""What is known about a judge, as `trust.json` states it, and when a case or an answer
is outside of it.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from evalkit.config import JudgeConfig
from evalkit.core.display import counted
from evalkit.core.errors import ConfigError
from evalkit.core.images import apart
from evalkit.core.translation import Message, gettext, in_every_language
from evalkit.core.types import Case, Completion, Judgment, Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.report.findings.decisions import sentence
from evalkit.runs.records import decoder, metric_values
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.decision import USES, Metrics, Use
from evalkit.serving.known_slices import KnownSlices, searched_slices
from evalkit.workflows.gating import GATE

FORMAT: Final = 1
SLACK: Final = 2
"""A text is too short or too long by this factor compared with every validated one."""
_NO_LABELS: Final = "no_labels"
_MODEL: Final = "reported"
_REPORTED: Final = {
    _MODEL: attrgetter("model"),
    "fingerprints": attrgetter("fingerprint"),
}
"""What providers report with an answer, by its key in `trust.json`."""
LETTERS: Final = 2_000
"""The script of a text is that of most of its first letters."""


@frozen
class TrustWarning:
    """A reason why an answer is not covered by the validation; `kind` is stable, `text`
    is in English.
    """

    kind: str
    text: str
    text_zh: str


@frozen
class Trust:
    """What a judge can be used for, and what speaks against using one answer.

    Attributes:
        use: The decision: `single`, `rates`, `rates_corrected`, `none` or `unknown`.
        sentence: The decision in words.
        warnings: Why this answer comes from outside of what was validated.
    """

    use: Use
    sentence: str
    warnings: tuple[TrustWarning, ...] = ()


class Validation:
    """The content of a `trust.json`, checked.

    Args:
        content: The parsed file.
        where: Its name for errors.

    Raises:
        ConfigError: If it is not the description of a judge.
    """

    def __init__(self, content: Any, where: str) -> None:
        """Read the file; a part that is missing or of another type is an error."""
        self.content = content
        # The warning about slices is about the validation, not about a case: once is enough.
        self._reported = False
        try:
            self._read_parts(content)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as bad:
            why = f"{bad} is missing" if isinstance(bad, KeyError) else str(bad)[:120]
            raise ConfigError(
                f"does not describe a judge ({why})",
                where=where,
                remedy="export the judge again",
            ) from None

    def _read_parts(self, content: Any) -> None:
        """Set what answers are compared with.

        Args:
            content: The parsed file; nothing about its form is known.

        Raises:
            ValueError: If it has another format or an unknown use. A wrong part also raises
                KeyError, TypeError, AttributeError or IndexError.
        """
        # First, so that a file of a later version is not reported as damaged.
        if content["format"] != FORMAT:
            raise ValueError(
                f"its format is {content['format']}, and this evalkit reads {FORMAT}"
            )
        self.use: Use = content["decision"]["use"]
        if self.use not in USES:
            raise ValueError(f"unknown use '{self.use}'")
        self.sentence = str(content["decision"]["sentence"])
        self.orders = content["decision"].get("order") is True
        self.labeled = content["decision"]["reason"] != _NO_LABELS
        data = content["dataset"]
        self.title = (
            f"{content['judge']} · {content['mode']} "
            f"· {data['name']} ({counted(int(data['rows']), 'case')})"
        )
        self.scripts = frozenset(map(str, content["validated"]["scripts"]))
        self.lengths = {
            str(part): (int(ends[0]), int(ends[1]))
            for part, ends in content["validated"]["characters"].items()
        }
        self.reported = {
            (str(judge["name"]), part): frozenset(map(str, judge.get(part, ())))
            for judge in content["judges"]
            for part in _REPORTED
        }
        self.slices = KnownSlices(content)
        read = decoder(Metric)
        self.metrics = {
            name: read({"name": name, **values})
            for name, values in content["metrics"].items()
        }

    def allows(self, use: Use) -> bool:
        """Return whether the judge can be used for this, or for something that needs more."""
        if use == "order":
            return self.orders
        # `USES` is ordered: each use includes those before it.
        return USES.index(self.use) >= USES.index(use)

    def trust(
        self,
        case: Case,
        judgments: Sequence[Judgment],
        unseen: Sequence[str] = (),
        changed: Sequence[str] = (),
    ) -> Trust:
        """Return what the validation says about the answers on one case.

        Args:
            case: the case.
            judgments: its judgments.
            unseen: the criteria that were not validated.
            changed: the sections of the config that differ from the validated ones.
        """
        warnings = [
            TrustWarning(kind, *in_every_language(text))
            for kind, text in (
                *self._warn_of_decision(),
                *self._warn_of_case(case),
                *self.slices.warnings(case),
                *self._of_search(),
                *self._warn_of_settings(unseen, changed),
                *self._warn_of_models(judgments),
            )
        ]
        return Trust(self.use, self.sentence, tuple(warnings))

    def _warn_of_decision(self) -> Iterator[tuple[str, Message]]:
        """Yield a warning if the validation did not show that the judge can be trusted."""
        if self.use == "none":
            yield (
                "not_trusted",
                gettext("The validation found that this judge cannot be trusted."),
            )
        elif not self.labeled:
            yield (
                "no_labels",
                gettext(
                    "The validation had no labels, so nothing shows that this judge is right."
                ),
            )
        elif self.use == "unknown":
            yield (
                "not_validated",
                gettext(
                    "The labels of the validation did not decide whether to trust this judge."
                ),
            )

    def _of_search(self) -> Iterator[tuple[str, Message]]:
        text = self.unsearched()
        if text is not None:
            yield "slices_not_searched", text

    def unsearched(self) -> Message | None:
        """Return once that slices were not searched, if that is so; then `None`."""
        # a judge that is not trusted anywhere needs no warning about slices
        trusted = USES.index(self.use) > USES.index("unknown")
        if self.slices.searched or self._reported or not trusted:
            return None
        self._reported = True
        return gettext(
            "The validation searched no slices, so nobody knows whether the judge is worse in some"
            " of them; score the run again and export it."
        )

    def _warn_of_case(self, case: Case) -> Iterator[tuple[str, Message]]:
        """Yield the code and the text of warnings about texts unlike those of the validation, by
        script and by length.

        One warning for the first new script, and one for each part of the case.
        """
        if unseen := sorted(
            {script(text) for text in _texts(case)} - self.scripts - {""}
        ):
            yield (
                "script",
                gettext(
                    "The validation had no text in {script} script.", script=unseen[0]
                ),
            )
        for part, texts in _parts(case).items():
            # The shortest and longest text of the validation.
            low, high = self.lengths.get(part, (0, 0))
            for length in map(len, texts):
                # a little outside is no reason to warn
                if part in self.lengths and not (
                    low <= length * SLACK and length <= high * SLACK
                ):
                    yield (
                        "length",
                        gettext(
                            "A text ({part}) has {length:,} characters; the validation had {low:,}"
                            " to {high:,}.",
                            part=part,
                            length=length,
                            low=low,
                            high=high,
                        ),
                    )
                    break

    def _warn_of_settings(
        self, unseen: Sequence[str], changed: Sequence[str]
    ) -> Iterator[tuple[str, Message]]:
        """Yield a warning about a criterion or settings that the validation did not have."""
        if unseen:
            yield (
                "criterion",
                gettext(
                    "The validation did not use the criterion '{name}'.", name=unseen[0]
                ),
            )
        elif changed:
            yield (
                "settings",
                gettext(
                    "The validation had other settings of {names}.",
                    names=", ".join(changed),
                ),
            )

    def _warn_of_models(
        self, judgments: Sequence[Judgment]
    ) -> Iterator[tuple[str, Message]]:
        """Yield a warning about each model or fingerprint that the validation did not have."""
        for name, part, value in sorted(_reported(judgments)):
            expected_values = self.reported.get((name, part))
            if expected_values and value not in expected_values:
                expected = ", ".join(sorted(expected_values))
                yield (
                    (
                        "model",
                        gettext(
                            "The provider answered with model {model}; the validation had"
                            " {expected}.",
                            model=value,
                            expected=expected,
                        ),
                    )
                    if part == _MODEL
                    else (
                        "fingerprint",
                        gettext(
                            "The provider answered with fingerprint {fingerprint}; the validation"
                            " had {expected}.",
                            fingerprint=value,
                            expected=expected,
                        ),
                    )
                )


def _values_of(metrics: Metrics, is_kept: Callable[[str], bool]) -> JsonObject:
    """Return the values of the metrics whose names are kept."""
    return {
        name: metric_values(metric) for name, metric in metrics.items() if is_kept(name)
    }


def _is_of_audit(name: str) -> bool:
    return name.startswith("audit/")


def _describe_judge(
    member: JudgeConfig, reported: Iterable[tuple[str, str, str]]
) -> JsonObject:
    """Return a judge with the models and fingerprints that its provider reported.

    Args:
        member: the judge.
        reported: the name of a judge, what was reported, and its value.
    """
    described: JsonObject = {"name": member.label, "model": member.model}
    for part in _REPORTED:
        described[part] = sorted(
            value
            for name, reported_part, value in reported
            if name == member.label and reported_part == part
        )
    return described


def describe_trust(result: RunResult) -> JsonObject:
    """Return what a finished run shows about its judge, as a JSON value for `trust.json`."""
    manifest = result.manifest
    config = result.config
    data = manifest.get("dataset") or {}
    decision = result.decision
    english, chinese = in_every_language(sentence(decision, result.metrics))
    scripts, lengths = _ranges(result.cases)
    searched = searched_slices(result)
    reported = _reported(result.judgments)
    return {
        "format": FORMAT,
        "judge": manifest.get("judge"),
        "mode": config.mode.name,
        "decision": {**decision.json(), "sentence": english, "sentence_zh": chinese},
        "metrics": _values_of(result.metrics, CATALOG.is_headline),
        "searched": searched,
        "dataset": {key: data.get(key) for key in ("name", "rows", "fingerprint")},
        "labels": manifest.get("labels"),
        "gate": manifest.get(GATE),
        "audit": _values_of(result.metrics, _is_of_audit) or None,
        "judges": [
            _describe_judge(member, reported) for member in config.judge.members
        ],
        "validated": {
            "scripts": dict(scripts.most_common()),
            "characters": {part: list(ends) for part, ends in lengths.items()},
            "criteria": list(config.criteria),
        },
        "date": manifest.get("ended"),
        **{
            key: manifest.get(key)
            for key in ("evalkit", "python", "packages", "config_hash", "prompt_hashes")
        },
    }


def _reported(judgments: Iterable[Judgment]) -> set[tuple[str, str, str]]:
    """Return each judge's name with what the provider reported in its answers, and the
    key of that.
    """
    return {
        (judgment.arbiter or judgment.judge, part, value)
        for judgment in judgments
        for completion in _completions(judgment)
        for part, read in _REPORTED.items()
        if (value := read(completion))
    }


def _completions(judgment: Judgment) -> Iterator[Completion]:
    yield from judgment.earlier
    if judgment.completion is not None:
        yield judgment.completion


def _texts(case: Case) -> Iterator[str]:
    yield case.prompt
    yield from (response.text for response in case.responses)


def _parts(case: Case) -> dict[str, list[str]]:
    # A picture has no characters.
    return {
        "prompt": [apart(case.prompt)[0]],
        "response": [apart(response.text)[0] for response in case.responses],
    }


def _ranges(cases: Iterable[Case]) -> tuple[Counter[str], dict[str, tuple[int, int]]]:
    """Return the number of texts in each script, and the shortest and longest length of
    each part.
    """
    scripts = Counter[str]()
    lengths = dict[str, tuple[int, int]]()
    for case in cases:
        scripts.update(filter(None, map(script, _texts(case))))
        for part, texts in _parts(case).items():
            for length in map(len, texts):
                low, high = lengths.get(part, (length, length))
                lengths[part] = (min(low, length), max(high, length))
    return scripts, lengths


def script(text: str) -> str:
    """Return the script of most letters of a text, such as Latin or Han; empty without letters."""
    if text.isascii():  # all of its letters are Latin
        return "Latin" if any(map(str.isalpha, text)) else ""
    counts = Counter(map(_script_of, islice(filter(str.isalpha, text), LETTERS)))
    if counts:
        return counts.most_common(1)[0][0]
    return ""


@lru_cache(4096)
def _script_of(letter: str) -> str:
    # A character's name begins with its script: LATIN SMALL LETTER A.
    name = unicodedata.name(letter, "unknown").split()[0].capitalize()
    if name == "Cjk":
        return "Han"
    return name
