"""A generator of tables of verdicts with known truth: types, keys, words, languages and defects."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

ROWS: Final = 40
NAMES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "en": (
        ("human", "judge"),
        ("human_label", "gpt-4o"),
        ("annotator", "claude-3-5-sonnet"),
        ("expert_verdict", "llm_verdict"),
        ("gold", "model_verdict"),
        ("human_rating", "auto_rating"),
        ("reviewer", "grader"),
        ("Anna", "judge"),
        ("humanVerdict", "llmVerdict"),
        ("ground_truth", "prediction"),
        ("human_score", "gemini-2.5-pro"),
        ("user_score", "evaluator"),
        ("correctness_human", "correctness"),
    ),
    "de": (("Mensch", "KI-Urteil"), ("Gutachter", "Richter"), ("Experte", "Modell")),
    "zh": (("人工标注", "裁判"), ("专家", "模型判定"), ("人工评分", "大模型评分")),
    "ja": (("人間の評価", "LLM評価"), ("専門家", "モデル"), ("評価者", "自動評価")),
    "fr": (("humain", "juge"), ("annotateur", "modèle"), ("expert", "IA")),
    "es": (("humano", "juez"), ("anotador", "modelo"), ("experto", "IA")),
}
CASES: Final[Mapping[str, tuple[str, str, str]]] = {
    "en": ("id", "question", "answer"),
    "de": ("Nummer", "Frage", "Antwort"),
    "zh": ("编号", "问题", "回答"),
    "ja": ("番号", "質問", "回答"),
    "fr": ("identifiant", "question", "réponse"),
    "es": ("caso", "pregunta", "respuesta"),
}
FLAGS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "en": (
        ("pass", "fail"),
        ("yes", "no"),
        ("True", "False"),
        ("correct", "incorrect"),
        ("good", "bad"),
        ("1", "0"),
        ("ok", "not ok"),
        ("acceptable", "unacceptable"),
        ("PASSED", "FAILED"),
        ("thumbs_up", "thumbs_down"),
        ("✅", "❌"),
        ("Y", "N"),
        ("safe", "unsafe"),
    ),
    "de": (
        ("bestanden", "nicht bestanden"),
        ("ja", "nein"),
        ("richtig", "falsch"),
        ("gut", "schlecht"),
    ),
    "zh": (("合格", "不合格"), ("正确", "错误"), ("是", "否"), ("通过", "不通过")),
    "ja": (("正解", "不正解"), ("合格", "不合格"), ("はい", "いいえ"), ("○", "×")),
    "fr": (("oui", "non"), ("vrai", "faux"), ("réussi", "échoué")),
    "es": (("sí", "no"), ("correcto", "incorrecto"), ("aprobado", "suspenso")),
}
ORDERED: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "en": (
        ("incorrect", "partially correct", "correct"),
        ("bad", "ok", "good"),
        ("poor", "fair", "good", "excellent"),
        ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
        ("low", "medium", "high"),
        ("Not Relevant", "Somewhat Relevant", "Highly Relevant"),
        ("never", "sometimes", "always"),
    ),
    "de": (("falsch", "teilweise richtig", "richtig"), ("schlecht", "mittel", "gut")),
    "zh": (("错误", "部分正确", "正确"), ("差", "一般", "好")),
    "ja": (("不正解", "部分正解", "正解"), ("悪い", "普通", "良い")),
    "fr": (("incorrect", "partiellement correct", "correct"), ("faible", "moyen", "élevé")),
    "es": (("incorrecto", "parcialmente correcto", "correcto"), ("bajo", "medio", "alto")),
}
CLASSES: Final = (
    ("billing", "refund", "other"),
    ("A", "B", "C"),
    ("toxic", "neutral comment", "supportive"),
    ("bug", "feature", "question", "spam"),
)
PAIRS: Final = (
    ("A", "B", "tie"),
    ("model_a", "model_b", "tie"),
    ("model_a", "model_b", "tie (bothbad)"),
    ("A>B", "B>A", "A=B"),
    ("A", "B", "A=B"),
    ("[[A]]", "[[B]]", "[[C]]"),
    ("first", "second", "draw"),
    ("1", "-1", "0"),
    ("Response A", "Response B", "Tie"),
    ("left", "right", "same"),
    ("a", "b", "both_bad"),
)
MISSING: Final = ("", "N/A", "#DIV/0!", "Error code: 500", "null", "timeout", "nan")
EXTRA: Final[Mapping[str, Any]] = {
    "latency_s": lambda chance, row: round(chance.random() * 3, 3),
    "n_tokens": lambda chance, row: chance.randrange(20, 900),
    "cost_usd": lambda chance, row: round(chance.random() / 100, 5),
    "created_at": lambda chance, row: f"2026-11-{1 + row % 28:02d}T10:00:00Z",
    "is_english": lambda chance, row: chance.choice(("1", "0")),
    "contains_code": lambda chance, row: chance.choice(("yes", "no")),
    "num_turns": lambda chance, row: chance.randrange(1, 4),
    "language": lambda chance, row: chance.choice(("en", "de")),
    "source": lambda chance, row: chance.choice(("web", "app")),
    "status": lambda chance, row: "success",
    "rouge": lambda chance, row: round(chance.random(), 3),
    "year": lambda chance, row: chance.choice((2023, 2024)),
    "model_version": lambda chance, row: "v1",
}
KINDS: Final = (
    "flag",
    "flag_mixed",
    "scores",
    "floats",
    "percent",
    "stars",
    "slash",
    "comma",
    "two_scales",
    "flag_vs_scores",
    "ordered",
    "classes",
    "pairs",
    "names",
    "unlabeled",
    "json",
    "stated",
    "word_and_score",
    "families",
    "annotators",
)
KEYS: Final = ("plain", "criterion", "long", "repeats", "turns")
DEFECTS: Final = (
    "none",
    "none",
    "missing",
    "empty_labels",
    "title",
    "blank_columns",
    "semicolon",
    "shuffled",
)


@dataclass(slots=True)
class Sample:
    """A table with its truth: the pairs of a judge's value and a label, by judge; and how it was made."""

    text: str
    made: str
    judges: dict[str, list[tuple[Any, Any]]]
    labels: int
    rows: list[dict[str, Any]] = field(default_factory=list)


def sample(seed: int) -> Sample:
    """Return a table of a random kind."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    language = chance.choice(list(NAMES))
    key = chance.choice(KEYS)
    if kind in ("names", "json", "word_and_score", "annotators", "unlabeled", "families", "stated"):
        key = "plain"
    if kind == "pairs" and key in ("long", "turns"):
        key = "plain"
    defect = chance.choice(DEFECTS)
    return _made(chance, kind, language, key, defect, seed)


def _draw(chance: random.Random, values: Sequence[Any], wrong: float) -> tuple[Any, Any]:
    label = chance.choice(values)
    if chance.random() < wrong:
        return label, chance.choice([value for value in values if value != label])
    return label, label


def _made(
    chance: random.Random, kind: str, language: str, key: str, defect: str, seed: int
) -> Sample:
    label, judge = chance.choice(NAMES[language])
    case, prompt, response = CASES[language]
    judges = [judge]
    labels = [label]
    to_label: dict[Any, Any] = {}
    to_judge: dict[Any, Any] = {}
    values: Sequence[Any]
    if kind in ("flag", "unlabeled", "json", "stated", "families", "annotators", "word_and_score"):
        words = chance.choice(FLAGS[language])
        if kind in ("stated", "json"):
            words = ("pass", "fail")
        values = (1, 0)
        to_label = to_judge = {1: words[0], 0: words[1]}
    elif kind == "flag_mixed":
        values = (1, 0)
        first, second = chance.choice(FLAGS["en"]), chance.choice(FLAGS[language])
        to_label, to_judge = {1: first[0], 0: first[1]}, {1: second[0], 0: second[1]}
    elif kind == "flag_vs_scores":
        values = (1, 2, 3, 4, 5)
        words = chance.choice(FLAGS[language])
        to_label = {value: words[0] if value > 3 else words[1] for value in values}
        to_judge = {value: value for value in values}
    elif kind == "ordered":
        words = chance.choice(ORDERED[language])
        values = tuple(range(len(words)))
        to_label = to_judge = dict(enumerate(words))
    elif kind == "classes":
        words = chance.choice(CLASSES)
        values = tuple(range(len(words)))
        to_label = to_judge = dict(enumerate(words))
    elif kind in ("pairs", "names"):
        values = (1, -1, 0)
        words = chance.choice(PAIRS)
        to_label = to_judge = dict(zip(values, words, strict=True))
    elif kind == "two_scales":
        values = (1, 2, 3, 4, 5)
        top = chance.choice((20, 2))
        to_label = {value: value for value in values}
        to_judge = {value: value * top for value in values}
    else:
        values = (1, 2, 3, 4, 5)
        to_label = to_judge = {value: _number(kind, value) for value in values}
        if kind == "percent" and chance.random() < 0.5:
            to_judge = {value: value / 5 for value in values}
        if kind == "stars" and chance.random() < 0.5:
            to_judge = {value: value for value in values}
    if kind == "families":
        judges = chance.sample(
            ["gpt-4o", "claude-3-haiku", "llama-3-70b", "o3-mini", "qwen2.5-72b"], 2
        )
    if kind == "annotators":
        labels = chance.choice(
            (["human_1", "human_2", "human_3"], ["annotator_a1", "annotator_a2", "annotator_a3"])
        )
    wrong = chance.uniform(0.1, 0.4)
    rows: list[dict[str, Any]] = []
    truth: dict[str, list[tuple[Any, Any]]] = {name: [] for name in judges}
    criteria = ("accuracy", "tone") if key == "criterion" else (None,)
    turns = (1, 2) if key == "turns" else (None,)
    repeats = 2 if key == "repeats" else 1
    extras = chance.sample(list(EXTRA), chance.randrange(0, 4))
    systems = ("llama", "mistral", "qwen")
    texts = chance.random() < 0.7
    for number in range(ROWS):
        for criterion in criteria:
            for turn in turns:
                base: dict[str, Any] = {case: f"c{number}" if chance.random() < 2 else number}
                if texts and key != "turns":
                    base[prompt] = f"{prompt} {number}"
                    if kind not in ("pairs", "names"):
                        base[response] = f"{response} {number}"
                if kind in ("pairs", "names"):
                    base |= {"response_a": f"x {number}", "response_b": f"y {number}"}
                if criterion:
                    base["criterion"] = criterion
                if turn:
                    base["turn"] = turn
                first, second = chance.sample(systems, 2)
                if kind == "names":
                    base |= {"model_a": first, "model_b": second}
                latent, verdict = _draw(chance, values, wrong)
                for repeat in range(repeats):
                    if repeat:
                        _, verdict = latent, chance.choice([latent, verdict])
                    row = dict(base)
                    if repeats > 1:
                        row["run"] = repeat
                    for name in labels:
                        shown = latent if len(labels) < 2 or chance.random() < 0.9 else values[0]
                        row[name] = to_label[shown]
                    for position, name in enumerate(judges):
                        given = verdict if position == 0 else _draw(chance, [latent], 0)[1]
                        if position:
                            given = latent if chance.random() < 0.8 else chance.choice(values)
                        row[name] = to_judge[given]
                        truth[name].append((to_judge[given], row[labels[0]]))
                    if kind == "names":
                        names = {1: first, -1: second, 0: "tie"}
                        row[label], row[judge] = names[latent], names[verdict]
                        truth[judge][-1] = (verdict, latent)
                    for name in extras:
                        row[name] = EXTRA[name](chance, number)
                    rows.append(row)
    return _finished(
        chance,
        rows,
        truth,
        labels,
        kind,
        f"{seed} {kind} {language} {key} {defect}",
        key,
        defect,
        case,
    )


def _number(kind: str, value: int) -> Any:
    return {
        "scores": value,
        "floats": value / 5,
        "percent": f"{value * 20}%",
        "stars": f"{value} stars" if value > 1 else "1 star",
        "slash": f"{value}/5",
        "comma": f"{value},5",
    }[kind]


def _finished(
    chance: random.Random,
    rows: list[dict[str, Any]],
    truth: dict[str, list[tuple[Any, Any]]],
    labels: list[str],
    kind: str,
    made: str,
    key: str,
    defect: str,
    case: str,
) -> Sample:
    judge = next(iter(truth))
    label = labels[0]
    if kind == "unlabeled":
        for row in rows:
            del row[label]
        labels = []
    if kind == "json":
        for row in rows:
            row[judge] = f'{{"verdict": "{row[judge]}", "reason": "it is not certain"}}'
    if kind == "stated":
        for row in rows:
            row[judge] = f"I looked at it twice.\nVerdict: {row[judge]}"
    if kind == "word_and_score":
        for row in rows:
            row[f"{judge}_score"] = round(chance.random(), 2)
    if defect == "missing":
        for index in chance.sample(range(len(rows)), 3):
            word = chance.choice(MISSING)
            truth[judge][index] = (None, truth[judge][index][1])
            rows[index][judge] = word
    if defect == "empty_labels" and labels:
        for index in chance.sample(range(len(rows)), 5):
            for name in labels:
                rows[index][name] = ""
            for name in truth:
                truth[name][index] = (truth[name][index][0], None)
    if key == "long" and labels:
        rows = [
            {
                **{name: cell for name, cell in row.items() if name not in (label, *truth)},
                "rater": name,
                "value": row[name],
            }
            for row in rows
            for name in (label, *truth)
        ]
    if defect == "shuffled":
        chance.shuffle(rows)
    return Sample(_csv(rows, defect, kind), made, truth, len(labels), rows)


def _csv(rows: Sequence[Mapping[str, Any]], defect: str, kind: str) -> str:
    out = io.StringIO()
    delimiter = ";" if defect == "semicolon" or kind == "comma" else ","
    names = list(rows[0])
    writer = csv.writer(out, delimiter=delimiter)
    blank = ["", ""] if defect == "blank_columns" else []
    if defect == "title":
        writer.writerow(["Review of judges", *[""] * (len(names) - 1)])
        writer.writerow([""] * len(names))
    writer.writerow([*names, *blank])
    for row in rows:
        writer.writerow([*(row[name] for name in names), *blank])
    return out.getvalue()
