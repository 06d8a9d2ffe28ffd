"""The page to label on: in Chromium with the keyboard, and as a server that others try to misuse."""

import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from evalkit.cli import main
from evalkit.labels.session import LabelSession
from evalkit.runs import read_run
from tests.support.chromium import shoot
from tests.support.command_line import Commands
from tests.support.labeling import OpenPage, label_page

HOSTILE = (
    "<script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "</script><script>document.title='pwned'</script>",
    "{{ 7*7 }} ${7*7} javascript:alert(1)",
    "\u202eright to left\u202c ]]>-->",
)

QUESTION = {"en": "Which response is better?", "zh": "哪个回答更好？"}


def imported(folder: Path, rows: list[dict[str, Any]], *words: str) -> Path:
    """Return the folder of a run imported from rows."""
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    brief = ["tracking=none", "scoring.bootstrap=0", "hydra.run.dir=run"]
    assert main(["import", "generic", "rows.jsonl", *brief, *words]) == 0
    return folder / "run"


def pair(number: int, winners: tuple[str, str], text: str = "") -> list[dict[str, Any]]:
    case = {
        "id": f"gpt-4o against claude {number}",
        "prompt": f"Question {number} {text}",
        "response_a": f"First answer {number} {text}",
        "response_b": f"Second answer {number} {text}",
        **{"model_a": "gpt-4o", "model_b": "claude", "judge": "secret-judge"},
    }
    return [
        {**case, "winner": winner, "order": order}
        for winner, order in zip(winners, ("ab", "ba"), strict=True)
    ]


@pytest.fixture(scope="module")
def pairs_once(tmp_path_factory):
    """A run of twelve pairs: the judge says A, B, or changes its mind."""
    winners, folder = [("A", "A"), ("B", "B"), ("A", "B")], tmp_path_factory.mktemp("pairs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return imported(
            folder,
            [row for n in range(12) for row in pair(n, winners[n // 4], HOSTILE[n % len(HOSTILE)])],
        )


@pytest.fixture
def pairs(pairs_once, here):
    """A copy of that run."""
    return Path(shutil.copytree(pairs_once, here / "run"))


@pytest.fixture
def graded(here):
    rows = [
        {"id": str(n), "prompt": f"Question {n}", "response": f"Answer {n}", "judge": "j"}
        for n in range(6)
    ]

    def make(values: list[Any], column: str, *words: str) -> Path:
        return imported(
            here, [{**row, column: value} for row, value in zip(rows, values, strict=True)], *words
        )

    return make


@pytest.fixture
def visit(browser):
    """Opens a page; script errors, errors on the console and requests elsewhere are complaints."""
    contexts, complaints = [], []

    def opened(page: OpenPage, where: str = "", **settings: Any) -> Any:
        contexts.append(browser.new_context(**settings))
        tab = contexts[-1].new_page()
        tab.on(
            "console",
            lambda message: complaints.append(message.text) if is_complaint(message) else None,
        )
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on(
            "request",
            lambda request: (
                None if request.url.startswith(page.url) else complaints.append(request.url)
            ),
        )
        tab.goto(page.url + where)
        tab.locator("#case[aria-busy=false]").wait_for()
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def is_complaint(message: Any) -> bool:
    """A refused answer is shown on the page; Chromium also notes it on the console."""
    return message.type == "error" and "status of 400" not in message.text


def press(tab: Any, *keys: str) -> None:
    """Press keys that ask the server, and wait until the page shows the answer to each."""
    for key in keys:
        tab.evaluate("document.getElementById('case').ariaBusy = 'soon'")
        tab.keyboard.press(key)
        tab.locator("#case[aria-busy=false]").wait_for()


def counted(tab: Any, text: str) -> None:
    tab.locator("#count", has_text=text).wait_for()


def labels_of(run: Path, annotator: str = "human") -> dict[str, Any]:
    cases = [json.loads(line) for line in (run / "cases.jsonl").read_text("utf-8").splitlines()]
    return {case["id"]: case["labels"][annotator] for case in cases if annotator in case["labels"]}


def stored(run: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (run / "labels-human.jsonl").read_text("utf-8").splitlines()
    ]


@contextmanager
def opened(
    run: Path,
    annotator: str = "human",
    *,
    count: int = 50,
    informative: bool = False,
    label: str = "",
    labels: int = 0,
) -> Iterator[LabelSession]:
    """An annotator's session without a page, after so many labels."""
    session = LabelSession(read_run(run), annotator, count=count, seed=0, informative=informative)
    for _ in range(labels):
        session.store(session.next_open(), {"": label}, "")
    yield session
    session.close()


@pytest.mark.browser
def test_pairs_by_keyboard_with_a_reload_in_the_middle(pairs, visit, capsys, tmp_path):
    with label_page(pairs) as page:
        tab = visit(page)
        counted(tab, "0 of 12 labeled")
        texts = []
        for number in range(5):
            texts.append(tab.locator("#case .side .text").first.inner_text())
            press(tab, "1")
            assert len(stored(pairs)) == number + 1  # on disk before the next case appears
            counted(tab, f"{number + 1} of 12 labeled")
        tab.reload()
        counted(tab, "5 of 12 labeled")
        press(tab, "ArrowRight")
        counted(tab, "5 of 12 labeled · 1 skipped")
        press(tab, "ArrowLeft", "0")
        counted(tab, "6 of 12 labeled")
        tab.keyboard.press("/")
        tab.keyboard.type("1 and 2 are close")
        tab.keyboard.press("Escape")
        press(tab, "2")
        press(tab, "ArrowLeft")
        assert tab.locator("#note").input_value() == "1 and 2 are close"
        assert tab.locator(".picked").inner_text() == "2Response 2"
        press(tab, "ArrowRight", "1", "1", "1", "1", "1")
        tab.get_by_text("Finished. The results are in the terminal.").wait_for()
        counted(tab, "12 of 12 labeled")
        assert tab.locator("#bar").evaluate("bar => bar.value === bar.max")
        assert tab.title() == "evalkit label"
        assert page.ended() == 0
    rows = stored(pairs)
    assert [row["label"] for row in rows] == ["A"] * 5 + ["TIE", "B"] + ["A"] * 5
    assert rows[6]["note"] == "1 and 2 are close"
    assert {row["shown"] for row in rows} == {"0,1", "1,0"}
    # The label is of the case's own order, whichever response was shown first.
    assert all(
        ("First" in text) == (row["shown"] == "0,1") for text, row in zip(texts, rows, strict=False)
    )
    swapped = {"A": "B", "B": "A", "TIE": "TIE"}
    meant = {
        row["case_id"]: row["label"] if row["shown"] == "0,1" else swapped[row["label"]]
        for row in rows
    }
    assert labels_of(pairs) == meant
    out = capsys.readouterr().out
    assert "labels: 12 by 1 annotator (human 12)" in out
    assert re.search(r"^changed by the labels +before +after$", out, re.MULTILINE)
    assert re.search(r"^agreement/accuracy +– +0\.\d+", out, re.MULTILINE)


@pytest.mark.browser
def test_hostile_texts_are_shown_as_text(pairs, visit):
    with label_page(pairs) as page:
        tab = visit(page)
        shown = ""
        for _ in range(len(HOSTILE) * 2):
            shown += tab.locator("#case").inner_text()
            press(tab, "ArrowRight")
        assert tab.title() == "evalkit label"
        assert tab.locator("#case img, #case script, #case b").count() == 0
        assert all(text in shown for text in HOSTILE)


@pytest.mark.browser
def test_classes_have_their_first_free_letter(graded, visit):
    classes = "rubric.classes={pass: good, partial: half, 不合格: bad}"
    run = graded(["pass", "partial", "不合格"] * 2, "class", classes)
    with label_page(run, "--annotator", "ann") as page:
        tab = visit(page)
        assert tab.locator("#choices button").all_inner_texts() == ["ppass", "apartial", "1不合格"]
        tab.locator("summary").click()
        assert "half" in tab.locator("details").inner_text()
        shoot(tab, "label-classes")
        press(tab, "p", "a", "1", "P", "p", "p")
        assert page.ended() == 0
    assert sorted(labels_of(run, "ann").values()) == [
        ["partial"],
        ["pass"],
        ["pass"],
        ["pass"],
        ["pass"],
        ["不合格"],
    ]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("top", "keys"), [(10, "405310"), (100, ["57.5", "0", "100", "1", "2", "3"])]
)
def test_scores_have_digits_or_a_field(graded, visit, top, keys):
    low = int(top == 10)
    run = graded(
        [low, top] * 3, "score", f"rubric.min={low}", f"rubric.max={top}", "rubric.levels={}"
    )
    with label_page(run) as page:
        tab = visit(page, viewport={"width": 400, "height": 700})
        shoot(tab, f"label-scores-{top}")
        for key in keys:
            if top == 100:
                tab.keyboard.type(key)
            press(tab, "Enter" if top == 100 else key)
        assert page.ended() == 0
    assert sorted(row["label"] for row in stored(run)) == sorted(
        float(key) or (top == 10) * 10 for key in keys
    )
    assert sorted(labels_of(run).values()) == sorted(
        [float(key) or (top == 10) * 10.0] for key in keys
    )


@pytest.fixture
def checklists(here):
    """A run of two cases, one with a group of items."""
    group = {
        "criterion": "Is polite",
        "parts": [{"id": "hi", "criterion": "Says hello"}, "Says goodbye"],
    }
    lists = [["Is short", group], [{"id": "__proto__", "criterion": "Is <b>true</b>"}]]
    rows = [
        {"id": str(n), "prompt": f"p{n}", "response": f"r{n}", "checklist": items}
        for n, items in enumerate(lists)
    ]
    (here / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    data = ["dataset=file", "dataset.path=items.jsonl", "tracking=none", "scoring.bootstrap=50"]
    assert main(["run", "mode=checklist", "judge=simulated/good", *data, "hydra.run.dir=run"]) == 0
    return here / "run"


@pytest.mark.browser
def test_a_checklist_has_a_tick_for_each_item(checklists, visit):
    with label_page(checklists) as page:
        tab = visit(page)
        while not page.statuses and tab.locator(".items").count():
            items = tab.locator(".items span").all_inner_texts()
            if len(items) == 3:
                assert items == ["Is short", "Is polite\nSays hello", "Is polite\nSays goodbye"]
                tab.keyboard.press("2")
                tab.locator(".items input").nth(2).click()
                tab.keyboard.press("3")
                shoot(tab, "label-items")
            else:
                assert items == ["Is <b>true</b>"]
            press(tab, "Enter")
        assert page.ended() == 0
    cases = [
        json.loads(line) for line in (checklists / "cases.jsonl").read_text("utf-8").splitlines()
    ]
    labels = {
        (case["id"], item["id"]): item["labels"].get("human")
        for case in cases
        for item in case["checklist"]
    }
    assert labels == {
        ("0", "#1"): ["not_met"],
        ("0", "#2"): None,
        ("0", "hi"): ["met"],
        ("0", "#2.2"): ["not_met"],
        ("1", "__proto__"): ["not_met"],
    }


def contrast(tab: Any) -> float:
    """Return how far the text's and the page's brightness are apart, from 0 to 1."""
    shades = (
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    ink, ground = (
        [int(part) for part in re.findall(r"\d+", shade)[:3]] for shade in tab.evaluate(shades)
    )
    return abs(sum(ink) - sum(ground)) / 765


@pytest.mark.browser
def test_the_page_fits_a_narrow_window_in_both_languages(pairs, visit):
    with label_page(pairs) as page:
        for language, question in QUESTION.items():
            tab = visit(page, f"#{language}")
            assert tab.locator("h1").inner_text() == question
            for width, scheme in ((400, "light"), (400, "dark"), (1200, "light"), (1200, "dark")):
                tab.set_viewport_size({"width": width, "height": 800})
                tab.emulate_media(color_scheme=scheme)
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                assert contrast(tab) > 0.7
                for button in tab.locator("#answer button").all():
                    box = button.bounding_box()
                    assert box["x"] >= 0
                    assert box["x"] + box["width"] <= width
                    assert box["y"] + box["height"] <= 800
                shoot(tab, f"label-{language}-{width}-{scheme}")
        tab.get_by_role("button", name="English").click()
        assert tab.locator("#choices button").nth(1).inner_text() == "0Equally good"


@pytest.mark.browser
def test_skipped_cases_come_again_and_a_button_ends_the_page(pairs, visit):
    with label_page(pairs) as page:
        tab = visit(page)
        press(tab, "1", *["ArrowRight"] * 11)
        counted(tab, "1 of 12 labeled · 11 skipped")
        assert "Nothing is left to label." in tab.locator("#case").inner_text()
        tab.get_by_role("button", name="Show the skipped ones").click()
        counted(tab, "1 of 12 labeled")
        tab.locator("#case .side").wait_for()
        press(tab, "2")
        counted(tab, "2 of 12 labeled")
        tab.get_by_role("button", name="Finish").click()
        tab.get_by_text("Finished. The results are in the terminal.").wait_for()
        assert page.ended() == 0
    assert len(labels_of(pairs)) == 2


@pytest.mark.browser
def test_an_answer_that_cannot_be_stored_is_reported_and_the_case_stays(pairs, visit, monkeypatch):
    with label_page(pairs) as page:
        tab = visit(page)
        before = tab.locator("#case").inner_text()

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("evalkit.labels.session.os.fsync", full)
            press(tab, "1")
            tab.locator("#problem", has_text="Not saved").wait_for()
            assert "No space left on device" in tab.locator("#problem").inner_text()
            assert tab.locator("#case").inner_text() == before
        press(tab, "1")
        counted(tab, "1 of 12 labeled")
        assert len(stored(pairs)) == 1


def test_the_page_is_blind_and_asks_in_random_order(pairs):
    with label_page(pairs) as page:
        status, headers, html = page.request(method="GET", headers={"Origin": ""})
        assert status == 200
        assert "default-src 'none'" in html
        assert (
            headers["content-security-policy"]
            == "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        assert (headers["cache-control"], headers["x-content-type-options"]) == (
            "no-store",
            "nosniff",
        )
        shown = [html, *(json.dumps(page.act("next", at=at)) for at in range(12))]
    assert not re.search("gpt|claude|judge|win|flip|verdict", "".join(shown[1:]))
    assert not re.search("gpt|claude|secret-judge|pairwise", html)
    numbers = [int(re.search(r"Question (\d+)", text)[1]) for text in shown[1:-1]]
    assert numbers != sorted(numbers)
    swapped = [json.loads(text)["texts"]["response_a"].startswith("Second") for text in shown[1:-1]]
    assert 0 < sum(swapped) < len(swapped)


OTHERS: list[tuple[str, dict[str, str], str]] = [
    ("GET", {}, "/"),
    ("GET", {}, "/favicon.ico"),
    ("GET", {}, f"/{'x' * 43}/"),
    ("POST", {}, "/"),
    ("POST", {}, "//"),
    ("GET", {"Host": "evil.example"}, ""),
    ("POST", {"Host": "evil.example", "Origin": "http://evil.example"}, ""),
    ("POST", {"Host": "127.0.0.1"}, ""),
    ("POST", {"Origin": "http://evil.example"}, ""),
    ("POST", {"Origin": "null"}, ""),
    ("POST", {"Origin": ""}, ""),
    ("GET", {"Origin": "http://evil.example"}, ""),
    ("PUT", {}, ""),
    ("OPTIONS", {}, ""),
]


def test_requests_of_others_are_refused(pairs):
    body = json.dumps({"do": "label", "at": 0, "note": "", "answer": {"": "A"}}).encode()
    with label_page(pairs) as page:
        for method, headers, path in OTHERS:
            status, replied, text = page.request(body, headers, method, path)
            assert (status, list(json.loads(text))) == (403, ["error"]), (method, headers, path)
            assert replied["content-security-policy"].endswith("frame-ancestors 'none'")
            assert page.act("open")["labeled"] == 0
            assert (pairs / "labels-human.jsonl").read_bytes() == b""


INVALID = [
    b"",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"{" * 100_000,
    b"[" * 100_000,
    b'{"do": "label"}',
    *(
        json.dumps({"do": "label", "at": 0, "note": "", "answer": {"": "A"}} | changed).encode()
        for changed in (
            *({"at": at} for at in (-1, 13, 12, True, 0.0, "0", None, 10**30)),
            *({"note": note} for note in (None, 3, "x" * 10_001, ["x"])),
            *(
                {"answer": {"": answer}}
                for answer in ("C", "a", 1, True, ["A"], {"A": 1}, "A" * 1000)
            ),
            *(
                {"answer": answer}
                for answer in ("A", {}, [""], {"": "A", "#1": "met"}, {"#1": "met"})
            ),
            *({"do": action} for action in ("", "drop", None, ["label"], {})),
        )
    ),
]


def test_invalid_requests_change_nothing(pairs):
    with label_page(pairs) as page:
        for body in INVALID:
            status, _, text = page.request(body)
            assert (status, list(json.loads(text))) == (400, ["error"]), body[:100]
            assert page.act("open")["labeled"] == 0
            assert (pairs / "labels-human.jsonl").read_bytes() == b""


@pytest.mark.parametrize("header", ["Content-Length", "Transfer-Encoding"])
def test_a_body_of_100_mb_is_refused_before_it_is_read(pairs, header):
    with (
        label_page(pairs) as page,
        socket.create_connection(urlsplit(page.url).netloc.split(":")) as client,
    ):
        parts = urlsplit(page.url)
        length = "chunked" if header == "Transfer-Encoding" else str(10**8)
        lines = [
            f"POST {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            f"Origin: http://{parts.netloc}",
        ]
        client.sendall("\r\n".join([*lines, f"{header}: {length}", "", ""]).encode())
        chunk = b" " * 2**20
        sent = 0
        with suppress(OSError):
            while sent < 100:
                client.sendall(b"100000\r\n" + chunk + b"\r\n" if length == "chunked" else chunk)
                sent += 1
        assert sent < 100
        assert page.act("open")["labeled"] == 0


def test_a_slow_head_is_ended(pairs, monkeypatch):
    monkeypatch.setattr("evalkit.core.admission.SILENT_SECONDS", 0.5)
    with (
        label_page(pairs) as page,
        socket.create_connection(urlsplit(page.url).netloc.split(":")) as client,
    ):
        parts = urlsplit(page.url)
        client.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 200"
        client.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        client.settimeout(60)
        while client.recv(2**16):  # until the server ends it
            pass
        assert page.act("open")["labeled"] == 0


def test_any_note_is_kept(pairs):
    notes = ["语言 \u2028 \ud800 \x00", '=HYPERLINK("x")', "a" * 10_000]
    for _ in range(2):
        with label_page(pairs) as page:
            for at, note in enumerate(notes):
                page.act("label", at=at, answer={"": "A"}, note=note)
                assert page.act("back", at=at + 1)["note"] == note


def test_two_annotators_at_once_do_not_see_each_other(pairs, capsys):
    with (
        label_page(pairs, "--annotator", "ann") as ann,
        label_page(pairs, "--annotator", "李 雷") as other,
    ):
        first = ann.act("open")
        for number in range(8):
            ann.act("label", at=number, answer={"": "A"})
        shown = other.act("open")
        assert (shown["labeled"], shown["answer"]) == (0, {})
        assert shown["texts"]["prompt"] == first["texts"]["prompt"]  # the same order of cases
        assert other.label(lambda _: "TIE", 6)["labeled"] == 6
        ann.act("finish", at=8)
        assert ann.ended() == 0
        other.act("finish", at=6)
        assert other.ended() == 0
    assert (len(labels_of(pairs, "ann")), len(labels_of(pairs, "李 雷"))) == (8, 6)
    assert set(labels_of(pairs, "李 雷")) < set(labels_of(pairs, "ann"))
    metrics = json.loads((pairs / "metrics.json").read_text("utf-8"))["metrics"]
    assert metrics["human/ceiling"]["n"] == 12
    with label_page(pairs, "--annotator", "bob") as page:
        assert page.act("open")["labeled"] == 0


def test_one_annotator_has_one_page_at_a_time(pairs, capsys):
    with label_page(pairs):
        capsys.readouterr()
        assert main(["label", str(pairs), "--page"]) == 1
        complaint = capsys.readouterr().err
        assert f"labels-human.jsonl: in use by process {os.getpid()}" in complaint
        assert "or use that page, or --annotator NAME" in complaint


def test_labels_are_resumed_and_the_run_is_scored_when_the_page_ends(pairs, capsys):
    with opened(pairs) as session:  # as after a kill: the run does not have the labels
        session.store(0, {"": "A"}, "sure")
        session.store(1, {"": "B"}, "")
    with (pairs / "labels-human.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"case_id": "gpt-4o')  # the power failed
    assert labels_of(pairs) == {}
    with label_page(pairs) as page:
        shown = page.act("open")
        assert (shown["at"], shown["labeled"]) == (2, 2)
        assert page.act("back", at=1)["answer"] == {"": "A"}
        page.act("label", at=0, answer={"": "B"})  # another answer replaces it
        page.act("finish", at=2)
        assert page.ended() == 0
    assert [row["label"] for row in stored(pairs)] == ["A", "B", "B"]
    assert len(labels_of(pairs)) == 2
    assert "labels: 2 by 1 annotator (human 2)" in capsys.readouterr().out
    before = (pairs / "manifest.json").read_bytes()
    with label_page(pairs) as page:
        assert page.act("open")["labeled"] == 2
        page.act("finish", at=2)
        assert page.ended() == 0
    assert "no new labels; the run is unchanged" in capsys.readouterr().out
    assert (pairs / "manifest.json").read_bytes() == before


def test_the_file_of_labels_can_be_read_into_another_copy_of_the_run(pairs, tmp_path):
    shutil.copytree(pairs, tmp_path / "copy")
    with label_page(pairs) as page:
        page.label(lambda shown: "A" if "First" in shown["texts"]["response_a"] else "B", 12)
        assert page.ended() == 0
    assert main(["label", "copy", "run/labels-human.jsonl"]) == 0
    assert labels_of(tmp_path / "copy") == labels_of(pairs) == dict.fromkeys(labels_of(pairs), "A")


def test_informative_cases_have_known_probabilities(here):
    winners = [("A", "A")] * 60 + [("B", "B")] * 48 + [("A", "B")] * 12
    run = imported(here, [row for n, both in enumerate(winners) for row in pair(n, both)])
    with label_page(run, "--informative", "--n", "24") as page:
        shown = page.label(lambda _: "A", 10)
        assert (shown["labeled"], shown["total"]) == (10, 24)
        page.act("finish", at=10)
        assert page.ended() == 0
    sampled = json.loads((run / "label-sample.json").read_text("utf-8"))["probabilities"]
    assert len(set(sampled.values())) == 3
    assert {
        row["case_id"]: row["inclusion_probability"] for row in stored(run)
    }.items() <= sampled.items()
    metrics = json.loads((run / "metrics.json").read_text("utf-8"))["metrics"]
    assert (metrics["agreement/accuracy"]["n"], metrics["labels/effective"]["value"] < 10) == (
        10,
        True,
    )
    with opened(run, "bob", count=24, informative=True) as session:
        assert len(session.tasks) == 24  # the same sample
    with label_page(run, "--informative", "--n", "24") as page:
        counts = {"total": 24, "labeled": 24, "skipped": 0}
        assert page.label(lambda _: "A", 14) == {"ended": True, **counts}
        assert page.ended() == 0
    with opened(run, count=24, informative=True) as session:
        assert (session.view(0)["labeled"], len(session.tasks)) == (
            24,
            48,
        )  # a sample that is labeled is extended


def test_random_order_offers_so_many_and_then_so_many_more(pairs):
    for labeled, more in ((0, 5), (5, 5), (10, 2)):
        with opened(pairs, count=5) as session:
            assert (session.view(0)["labeled"], len(session.tasks)) == (labeled, labeled + more)
        with opened(pairs, count=5, label="TIE", labels=more) as session:
            assert session.complete
    with label_page(pairs, "--n", "5") as page:
        assert "texts" not in page.act("open")
        assert "texts" not in page.act("again", at=12)
        assert page.act("back", at=12)["answer"] == {"": "TIE"}
    cases = [json.loads(line) for line in (pairs / "cases.jsonl").read_text("utf-8").splitlines()]
    assert not any("inclusion_probability" in case["metadata"] for case in cases)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"label": "C"}, "labels-human.jsonl:2: 'C' is not a winner"),
        ({"case_id": "x"}, "labels-human.jsonl:2: the run has no case 'x'"),
        ({"shown": "0,7"}, "a label of responses [0, 7] does not apply"),
        ({"shown": [1]}, "'[1]' is not an order of responses"),
        ({"texts": "0"}, "has changed; its label is of another run"),
    ],
)
def test_a_file_of_other_labels_is_one_line(pairs, capsys, line, problem):
    with opened(pairs, label="A", labels=1):
        (row,) = stored(pairs)
    text = "".join(f"{json.dumps(one)}\n" for one in (row, row | line))
    (pairs / "labels-human.jsonl").write_text(text, "utf-8")
    capsys.readouterr()
    assert main(["label", str(pairs), "--page"]) == 1
    (error,) = capsys.readouterr().err.strip().splitlines()
    assert problem in error
    assert (pairs / "labels-human.jsonl").read_text("utf-8") == text


def test_a_name_that_cannot_name_a_file_is_one_line(pairs, capsys):
    before = sorted(pairs.iterdir())
    capsys.readouterr()
    for name in ("../x", "a/b", "", " ", ".hidden", "x" * 41, "a\nb", "a.", "C:\\x", "<b>"):
        assert main(["label", str(pairs), "--page", "--annotator", name]) == 1
        (error,) = capsys.readouterr().err.strip().splitlines()
        assert "cannot name a file; use up to 40 letters" in error, name
        assert sorted(pairs.iterdir()) == before, name


def test_a_folder_that_cannot_be_written_and_a_port_in_use_are_one_line(pairs, tmp_path, capsys):
    (tmp_path / "private").write_text("mine", "utf-8")
    (pairs / "labels-link.jsonl").symlink_to(tmp_path / "private")
    (pairs / "labels-folder.jsonl").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        for words, problem in (
            (
                ("--annotator", "link"),
                "labels-link.jsonl: cannot be written (Too many levels of symbolic links)",
            ),
            (("--annotator", "folder"), "labels-folder.jsonl: cannot be written (Is a directory)"),
            (("--port", str(port)), f"port {port}: is in use; choose another, or omit --port"),
        ):
            capsys.readouterr()
            assert main(["label", str(pairs), "--page", *words]) == 1
            (error,) = capsys.readouterr().err.strip().splitlines()
            assert problem in error
    assert (tmp_path / "private").read_text("utf-8") == "mine"
    assert not (pairs / "labels-human.jsonl").exists()


def test_skipped_tasks_come_again_after_all_others(pairs):
    with label_page(pairs) as page:
        assert page.act("next", at=0)["at"] == 1
        for at in range(1, 12):
            shown = page.act("label", at=at, answer={"": "TIE"})
        assert shown == {"at": 12, "total": 12, "labeled": 11, "skipped": 1}
        assert page.act("again", at=12)["at"] == 0
        counts = {"total": 12, "labeled": 12, "skipped": 0}
        assert page.act("label", at=0, answer={"": "TIE"}) == {"ended": True, **counts}
        assert page.ended() == 0


def test_labels_of_another_annotator_in_the_file_are_not_shown(pairs):
    with opened(pairs, "bob", label="A", labels=3):
        shutil.copy(pairs / "labels-bob.jsonl", pairs / "labels-ann.jsonl")
    with opened(pairs, "ann") as session:
        assert session.view(0)["labeled"] == 0


def test_a_table_of_judgments_is_imported_the_first_time(here, capsys):
    (here / "data").mkdir()
    text = "id,prompt,response_a,response_b,winner\n1,p,x,y,A\n2,q,x2,y2,B\n3,r,x3,y3,A\n"
    for name in ("v.csv", "data/v.csv"):
        (here / name).write_text(text, "utf-8")
    for labeled in (0, 2):
        with label_page("v.csv") as page:
            assert page.act("open")["labeled"] == labeled
            shown = page.label(lambda _: "A", 2 - labeled)
            page.act("finish", at=shown["at"])
            assert page.ended() == 0
    assert len(labels_of(here / "v-labels")) == 2
    (here / "bad.csv").write_text("id,prompt\n1,p\n", "utf-8")
    for name, problem in (
        ("data/v.csv", "v-labels: contains another run; move it"),
        ("bad.csv", "bad.csv"),
    ):
        capsys.readouterr()
        assert main(["label", name, "--page"]) == 1
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert problem in line
    assert not (here / "bad-labels").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 0), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough)],
)
def test_ctrl_c_in_the_terminal_scores_the_run(pairs, tmp_path, number, status):
    log = tmp_path / "log.txt"
    with Commands(tmp_path).started("label", "run", "--page", log=log) as command:
        while not (url := re.search(r"http://\S+", command.said())):
            assert command.process.poll() is None, command.said()
            time.sleep(0.05)
        page = OpenPage(SimpleNamespace(url=url[0]), Thread())
        assert page.label(lambda _: "A", 3)["labeled"] == 3
        command.process.send_signal(number)
        assert command.ended() == status, command.said()
    assert "Traceback" not in command.said()
    assert len(labels_of(pairs)) == (3 if status == 0 else 0)
    assert len(stored(pairs)) == 3
    assert ("labels: 3 by 1 annotator (human 3)" in command.said()) == (status == 0)
