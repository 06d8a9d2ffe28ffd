"""README and the documentation are in plain American English: no private words, short sentences, no misspelling."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "experiments" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES = [path for path in PAGES if path.parts[-2] != "zh"]
UNWANTED = {
    r"\btold\b": "detected, reported",
    r"\bstands?\b(?! for)": "is",
    r"\bbeside\b": "next to",
    r"\bmend(s|ed)?\b": "fix",
    r"\bwhole numbers?\b": "integer",
    r"\bpacked\b": "compressed",
    r"\bof (one's|someone else's|somebody else's) own\b": "custom",
    r"\bsomebody\b": "someone",
    r"\bgoes by\b|\bgo by\b|\bknown by\b": "is named",
    r"\bdrawn\b": "sampled",
    r"\bnone where\b": "None if",
    r"\bworst case beside\b": "with worst-case bounds",
    r"\bwhat could be seen\b": "minimum detectable effect",
    r"\bwrongly described\b": "invalid configuration or data",
    r"\bUS\$": "$",
    r"\b[\d.]+ %": "96%",
    r"\b(licence|normalis|neutralis|colour|behaviour|favour|judgement|catalogue|honour)": "American spelling",
}
FINISHED = (  # packages of evalkit/ whose texts and comments are checked
    *("core", "config", "compose", "scoring", "evaluators", "store", "judges", "datasets", "runs"),
    *(
        "engine",
        "interop",
        "benchmarks",
        "report",
        "audit",
        "labels",
        "tracking",
        "workflows",
        "cli",
    ),
)
UNWANTED_IN_CODE = {
    **UNWANTED,
    r"\bnone (where|if|without|in it|there)\b": "`None` if",
    r"\bSay (whether|what)\b": "Return whether",
    r"\b(of one's own|lets? go of|letting go of)\b": "custom, close",
    r"\bfurther\b": "additional",
    r"\bgoing on (with|without)\b": "continuing",
    r"\bwhich is no\b": "which is not a",
    r"\bat its place\b|\bin place of\b": "instead of",
}
KEYS = {"licence", "judgements"}  # a key of the manifest, and one of other tools
LONGEST = 45  # words in a sentence
MEAN = 20


def prose(path: Path) -> str:
    """Return a page without code, tables' lines, links' targets and headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$|^#.*$|^:::.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)|`[^`]*`", "]", text)


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_no_private_word_comes_back(path):
    text = prose(path)
    found = {
        word: better for word, better in UNWANTED.items() if re.search(word, text, re.IGNORECASE)
    }
    assert not found


@pytest.mark.parametrize("folder", ["conf", "experiments"])
def test_no_private_word_comes_back_in_a_comment(folder):
    for path in (ROOT / folder).rglob("*.yaml"):
        text = " ".join(re.findall(r"^\s*# ?(.*)$", path.read_text("utf-8"), re.MULTILINE))
        assert not [word for word in UNWANTED if re.search(word, text, re.IGNORECASE)], path


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the string literals, docstrings and comments of a module, each with its line."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value not in KEYS
        ):
            yield node.lineno, node.value
    for number, line in enumerate(text.splitlines(), 1):
        # A # is in a comment or in a literal, whose texts are checked anyway.
        yield number, line.partition("#")[2]


ANY_UNWANTED = re.compile("|".join(UNWANTED_IN_CODE), re.IGNORECASE)


@pytest.mark.parametrize("name", FINISHED)
def test_no_private_word_comes_back_in_the_code(name):
    target = ROOT / "evalkit" / name
    for path in sorted(target.rglob("*.py")):
        for line, text in texts_of(path):
            if found := ANY_UNWANTED.search(text):
                better = [
                    UNWANTED_IN_CODE[word]
                    for word in UNWANTED_IN_CODE
                    if re.search(word, text, re.IGNORECASE)
                ]
                pytest.fail(f"{path.relative_to(ROOT)}:{line}: '{found[0]}'; write: {better[0]}")


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_sentences_are_short(path):
    lines = [line for line in prose(path).split("\n\n") if not line.lstrip().startswith("|")]
    sentences = [
        part for line in lines for part in re.split(r"(?<=[.!?:;])\s+|\n[-*:] |\n\d+\. ", line)
    ]
    lengths = [len(re.findall(r"[\w'’-]+", one)) for one in sentences if one.strip()]
    assert max(lengths, default=0) <= LONGEST
    assert sum(lengths) <= MEAN * max(1, len(lengths))


def test_spelling():
    paths = [str(path) for path in PAGES if "decisions" not in path.parts]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--ignore-words-list", "nd,te,unparseable", *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
