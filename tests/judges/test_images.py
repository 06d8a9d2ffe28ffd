"""Pictures through the command line: a judge on loopback answers by the bytes that it receives."""

import base64
import hashlib
import importlib
import json

import pytest

from evalkit import load_config
from evalkit.core.errors import DatasetError
from evalkit.engine.event_loop import run_async
from evalkit.judges.litellm_transport import load_litellm
from evalkit.labels.session import LabelSession
from evalkit.runs import read_run
from evalkit.serving import load_judge
from evalkit.serving.folder import write_judge
from evalkit.workflows.asking import ask_judges
from evalkit.workflows.materials import load_materials
from tests.support.fake_provider import Reply, said
from tests.support.pictures import data_url, flat, label, part, png, prefers_picture, received, text

SETTINGS = ("output=bracket", "tracking=none", "scoring.bootstrap=20", "judge.vision=true")
TRANSPORTS = ("litellm", "direct")


def rows(count=2):
    """Pairs of pictures, the good one first or second; one from a file, one in the data."""
    for number in range(count):
        good, bad = f"pics/good{number}.png", data_url(png(f"bad {number}"))
        answers = [[text("See:"), part(url)] for url in (good, bad)][:: 1 - number % 2 * 2]
        yield {
            "id": f"c{number}",
            "prompt": [{"role": "user", "content": f"Draw {number}."}],
            "response_a": [{"role": "assistant", "content": answers[0]}],
            "response_b": [{"role": "assistant", "content": answers[1]}],
            "label": "AB"[number % 2],
        }


def write(folder, found):
    (folder / "pics").mkdir(exist_ok=True)
    for number in range(3):
        (folder / f"pics/good{number}.png").write_bytes(png(f"good {number}"))
    path = folder / "data.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in found))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def judge(provider, transport="direct"):
    return (
        "judge=openai_compatible",
        "judge.model=openai/fake",
        f"judge.api_base={provider.api_base}",
        f"judge.transport={transport}",
        *SETTINGS,
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_judge_sees_the_bytes_of_each_response_in_both_orders(here, call, provider, transport):
    provider.rule = prefers_picture()
    write(here, rows())
    call("run", "dataset.path=data.jsonl", "hydra.run.dir=run", *judge(provider, transport))

    verdicts = read(here / "run/verdicts.jsonl")
    assert [verdict["winner"] for verdict in verdicts] == ["A", "B"]
    assert all(verdict["orders"]["consistent"] for verdict in verdicts)
    assert sorted({png(f"{kind} {n}") for kind in ("good", "bad") for n in (0, 1)}) == sorted(
        {content for body in provider.requests for content in received(body)}
    )
    shown = [flat(body, label) for body in provider.requests]
    assert any("See:\n<good 0>" in one for one in shown)
    assert "[image" not in "".join(shown)


def test_a_judge_without_vision_is_refused_before_anything_is_paid(here, call, provider):
    write(here, rows())
    blind = [word for word in judge(provider) if word != "judge.vision=true"]
    for words, where in (
        (blind, "judge.vision"),
        ([*blind, "judge.vision=false"], "judge.vision"),
        ([*blind, "judge.transport=litellm"], "judge.vision"),
        (["judge=smollm2", *SETTINGS], "judge.model"),
        (["judge=simulated/good", *SETTINGS], "judge.model"),
        (["judge=panel", "judge.judges=[{name: a, model: openai/gpt-4o}, {name: b, model: openai/gpt-3.5-turbo}]",
          *SETTINGS[:-1]], "judge.vision"),
        ([*judge(provider), "probe=standard"], "probe"),
    ):  # fmt: skip
        for command in ("run", "plan"):
            line = call(command, "dataset.path=data.jsonl", *words, status=1).line()
            assert where in line, line
            assert "dataset.images=omit" in line
    assert not provider.requests


def test_omitted_pictures_are_counted_and_named(here, call, provider):
    provider.rule = prefers_picture()
    write(here, [*rows(3), {"id": "plain", "prompt": "p", "response_a": "a", "response_b": "b"}])
    blind = [word for word in judge(provider) if word != "judge.vision=true"]
    omit = ("dataset.images=omit", "prompt.language=zh", "dataset.path=data.jsonl")
    call("run", *omit, "hydra.run.dir=run", *blind)

    assert "[image omitted]" in json.dumps(provider.requests)
    assert not [content for body in provider.requests for content in received(body)]
    manifest = json.loads((here / "run/manifest.json").read_text())
    assert manifest["images_omitted"] == {"count": 3, "cases": ["c0", "c1", "c2"]}
    figures = json.loads((here / "run/metrics.json").read_text())
    assert figures["metrics"]["pictures/omitted"]["value"] == 0.75
    assert "pictures" in [limit["kind"] for limit in figures["decision"]["limits"]]
    assert "4 个样本中有 3 个的图片裁判没有看到" in (here / "run/findings.md").read_text()
    assert not (here / "run/images").exists()
    # Scored again, it is still known.
    call("score", "run", "tie.threshold=0.1")
    assert "c0, c1, c2" in (here / "run/findings.md").read_text()


def test_a_run_folder_has_its_pictures_and_logs_have_none(here, call, provider):
    provider.rule = prefers_picture()
    big = png("good " + "x" * 70_000)
    answers = [[{"role": "assistant", "content": [part(data_url(one))]}] for one in (big, png())]
    row = {"prompt": "<img src=x>", "response_a": answers[0], "response_b": answers[1]}
    write(here, [*rows(), {"id": "big", **row}])
    done = call("run", "dataset.path=data.jsonl", "hydra.run.dir=run", *judge(provider), "-v")

    files = {path.suffix for path in (here / "run/images").iterdir()}
    assert files == {".png"}
    assert len([*(here / "run/images").iterdir()]) == 6
    assert "base64" not in (here / "run/cases.jsonl").read_text() + done.out + done.err
    page = (here / "run/report.html").read_text()
    assert "img-src data: file: 'self'" in page
    assert data_url(png("good 0")) in page
    assert data_url(big) not in page
    assert f'"images/{hashlib.sha256(big).hexdigest()}.png"' in page
    # The files of the data may go: the run has what it needs.
    (here / "data.jsonl").unlink()
    for path in (here / "pics").iterdir():
        path.unlink()
    asked = len(provider.requests)
    call("reproduce", "run")
    cases = ("dataset.path=run/cases.jsonl", "dataset.format=cases")
    call("run", *cases, "hydra.run.dir=second", "store.mode=refresh", *judge(provider))
    assert len(provider.requests) == 2 * asked
    assert [*received(provider.requests[-1])]


def answered(path, body):
    """An answer of each provider's protocol that names the pictures of the request."""
    if path.endswith("/chat/completions"):
        return said(f"[[{winner([*received(body)])}]]")
    content = [one for message in body.get("messages", ()) for one in message["content"]]
    if path.endswith("/messages"):
        sources = [one["source"] for one in content if one["type"] == "image"]
        assert all(one["media_type"] == "image/png" for one in sources)
        text = f"[[{winner([base64.b64decode(one['data']) for one in sources])}]]"
        usage = {"input_tokens": 9, "output_tokens": 3}
        return Reply(
            {
                **{"id": "m", "type": "message", "role": "assistant", "model": "claude"},
                **{"stop_reason": "end_turn", "usage": usage},
                "content": [{"type": "text", "text": text}],
            }
        )
    parts = [one for turn in body["contents"] for one in turn["parts"]]
    inline = [one.get("inline_data") or one.get("inlineData") for one in parts]
    found = [base64.b64decode(one["data"]) for one in inline if one]
    content = {"role": "model", "parts": [{"text": f"[[{winner(found)}]]"}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return Reply(
        {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
    )


def winner(pictures):
    """The place of the better picture, which is not larger or smaller than the other."""
    assert len(pictures) == 2
    return "AB"[[b"good" in one for one in pictures].index(True)]


@pytest.mark.parametrize(("model", "key"), [
    ("openai/gpt-4o", "OPENAI_API_KEY"),
    ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
    ("gemini/gemini-2.5-flash", "GEMINI_API_KEY"),
])  # fmt: skip
def test_each_provider_gets_the_bytes_in_its_protocol(
    here, call, provider, monkeypatch, model, key
):
    monkeypatch.setenv(key, "any")
    reply = provider.reply

    def by_path(body, headers, path=""):
        reply(body, headers, path)
        return answered(path.partition(":")[0], body)

    provider.reply = by_path
    write(here, rows())
    base = provider.api_base if model.startswith("openai") else provider.api_base[:-3]
    words = ("judge=openai_compatible", f"judge.model={model}", f"judge.api_base={base}")
    call("run", "dataset.path=data.jsonl", "hydra.run.dir=run", *words, *SETTINGS[:-1])
    assert [one["winner"] for one in read(here / "run/verdicts.jsonl")] == ["A", "B"]


def test_urls_are_the_providers_to_fetch_or_are_refused(here, call, provider):
    provider.rule = lambda body: said("[[A]]")
    url = "https://example.invalid/a.png"
    answer = [{"role": "assistant", "content": [part(url, detail="low")]}]
    write(here, [{"id": "c", "prompt": "p", "response_a": answer, "response_b": "none"}])
    gemini = ("judge=openai_compatible", "judge.model=gemini/gemini-2.5-flash")
    line = call("run", "dataset.path=data.jsonl", *gemini, *SETTINGS, status=1).line()
    assert "download it and give the file" in line
    for transport in TRANSPORTS:
        call("run", "dataset.path=data.jsonl", f"hydra.run.dir={transport}", "store.mode=off",
             *judge(provider, transport))  # fmt: skip
    sent = [
        one["image_url"]
        for body in provider.requests
        for one in body["messages"][-1]["content"]
        if one["type"] == "image_url"
    ]
    assert sent == [{"url": url, "detail": "low"}] * 4
    page = (here / "direct/report.html").read_text()
    assert "example.invalid" not in page
    assert [path.suffix for path in (here / "direct/images").iterdir()] == [".url"]


def test_litellm_fetches_nothing():
    load_litellm()
    handling = importlib.import_module("litellm.litellm_core_utils.prompt_templates.image_handling")
    assert handling.MAX_IMAGE_URL_DOWNLOAD_SIZE_MB == 0


def single(number, *content):
    question = [{"role": "user", "content": [text("Which?"), part(f"pics/good{number}.png")]}]
    return {"id": f"s{number}", "prompt": question, "response": list(content) or "a good one"}


CHECKED = {
    "scores": (("mode=pointwise",), {}),
    "classes": (("mode=pointwise", "rubric=own", "rubric.classes={yes: y, no: n}"), {}),
    "checklist": (("mode=checklist",), {"checklist": ["Is it there?"]}),
    "turns": (("mode=pointwise", "dataset.unit=turn"), {}),
    "log": (("mode=pointwise",), {}),
}


@pytest.mark.parametrize("kind", CHECKED)
def test_every_way_to_judge_sends_pictures(here, call, provider, kind):
    words, more = CHECKED[kind]
    row = {**single(0, text("So:"), part(data_url(png("mine")))), **more}
    path = write(here, [row])
    if kind == "turns":
        answers = [{"role": "assistant", "content": row["response"]}]
        path = write(here, [{"id": "t", "messages": [*row["prompt"], *answers]}])
    if kind == "log":
        path = here / "log.json"
        path.write_text(json.dumps(inspect_log(row)))
    settings = [word for word in judge(provider) if not word.startswith("output")]
    settings += ["runner.max_unusable_rate=1", f"dataset.path={path.name}"]  # what is sent matters
    call("run", *settings, *words, "hydra.run.dir=run")
    assert "base64" not in (here / "run/cases.jsonl").read_text()
    shown = {flat(body, label) for body in provider.requests}
    assert all("<good 0>" in one for one in shown)
    assert any("<mine>" in one for one in shown)


def inspect_log(row, picture="attachment://0123456789abcdef"):
    """A log of Inspect with one sample, whose question and answer have pictures."""
    question = [
        {"role": "user", "content": [text("Which?"), {"type": "image", "image": "pics/good0.png"}]}
    ]
    image = {"type": "image", "image": picture, "detail": "auto"}
    answer = {"role": "assistant", "content": [text("So:"), image]}
    sample = {
        **{"id": 1, "epoch": 1, "input": question, "target": "t", "scores": {}},
        "attachments": {"0123456789abcdef": data_url(png("mine"))},
        "messages": [*question, answer],
        "output": {"model": "m", "choices": [{"message": answer, "stop_reason": "stop"}]},
    }
    plan = {"name": "plan", "steps": []}
    return {
        **{"version": 2, "status": "success", "plan": plan, "samples": [sample]},
        "eval": {"task": "t", "model": "m", "dataset": {}, "config": {}},
    }


def test_a_finished_run_is_labeled_and_its_judge_serves_with_pictures(here, call, provider):
    provider.rule = prefers_picture()
    write(here, rows())
    call("run", "dataset.path=data.jsonl", "hydra.run.dir=run", *judge(provider))
    result = read_run(here / "run")
    view = LabelSession(result, "me", count=2, seed=0, informative=False).view(0)
    assert len(view["images"]) == 2
    assert set(view["images"].values()) <= {
        data_url(png(f"{kind} {number}")) for kind in ("good", "bad") for number in (0, 1)
    }

    write_judge(result, here / "judge")
    loaded = load_judge(here / "judge", trust=["127.0.0.1"])
    good, bad = ([text("New:"), part(data_url(png(one)))] for one in ("good new", "bad new"))
    verdict = loaded.sync(prompt=[text("Draw.")], response_a=bad, response_b=good)
    assert verdict.winner == "B"
    assert png("good new") in [*received(provider.requests[-1])]
    for url in ("pics/good0.png", "https://host/a.png", "file:///etc/passwd", "run/images"):
        with pytest.raises(DatasetError, match="is no data URL"):
            loaded.sync(prompt="p", response_a=[part(url)], response_b="b")
    large = data_url(png() + bytes(5_000_001))
    with pytest.raises(DatasetError, match="over 5,000,000"):
        loaded.sync(prompt="p", response_a=[part(large)], response_b="b")
    with pytest.raises(DatasetError, match="'input_audio' is not supported"):
        loaded.sync(prompt="p", response_a=[part(data_url(png())), {"type": "input_audio"}])


def test_a_batch_has_the_bytes_and_a_changed_picture_is_not_sent(here, call, provider):
    provider.rule = prefers_picture()
    write(here, rows())
    call("batch", "write", "dataset.path=data.jsonl", *judge(provider), "requests.jsonl")
    bodies = [line["body"] for line in read(here / "requests.jsonl")]
    assert {png("good 0"), png("bad 1")} <= {one for body in bodies for one in received(body)}

    # A folder of another run may still have the bytes of a known picture.
    (here / "pics/good0.png").write_bytes(png("good only here"))
    config = load_config(overrides=["dataset.path=data.jsonl", *judge(provider)])
    materials = load_materials(config)
    for path in (here / "pics").iterdir():
        path.write_bytes(png("another"))
    judged = run_async(ask_judges(config, materials.dataset.cases, materials.evaluator))
    refused = [one for one in judged.judgments if one.case_id == "c0"]
    assert {one.error_kind for one in refused} == {"bad_request"}
    assert "is another one than before" in str(refused[0].error)
    assert png("another") not in [one for body in provider.requests for one in received(body)]


def test_the_page_of_two_runs_embeds_small_pictures(here, call, provider):
    provider.rule = prefers_picture()
    write(here, rows())
    common = ("dataset.path=data.jsonl", *judge(provider), "store.mode=off")
    call("run", "hydra.run.dir=run", *common)
    provider.rule = lambda body: said("[[B]]")
    call("run", "hydra.run.dir=other", *common)
    call("compare", "run", "other", "--output", "compared")
    page = (here / "compared/cases.html").read_text()
    assert data_url(png("good 0")) in page
    assert "img-src data:" in page


@pytest.mark.browser
def test_the_page_shows_embedded_pictures_and_those_of_the_folder(here, call, provider, browser):
    provider.rule = prefers_picture()
    big = png("good " + "x" * 70_000)
    answers = [[part(data_url(one)), text("<img src=x>")] for one in (big, png("bad"))]
    write(here, [{"id": "c", "prompt": "p", "response_a": answers[0], "response_b": answers[1]}])
    call("run", "dataset.path=data.jsonl", "hydra.run.dir=run", *judge(provider))
    page = browser.new_context().new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((here / "run/report.html").as_uri())
    page.locator(".case summary").first.click()
    shown = page.locator(".case .side img")
    shown.first.wait_for()
    assert shown.count() == 2
    page.wait_for_function(
        "[...document.querySelectorAll('.side img')].every((one) => one.complete)"
    )
    found = shown.evaluate_all("(all) => all.map((one) => [one.alt, one.naturalWidth, one.src])")
    assert [(alt, width) for alt, width, _ in found] == [
        ("[image 70 kB image/png]", 2),
        ("[image 94 B image/png]", 2),
    ]
    assert found[0][2].startswith("file:")
    assert found[1][2].startswith("data:")
    provider.rule = lambda body: said("[[B]]")
    call(
        "run", "dataset.path=data.jsonl", "hydra.run.dir=other", "store.mode=off", *judge(provider)
    )
    call("compare", "run", "other", "--output", "compared")
    page.goto((here / "compared/cases.html").as_uri())
    page.locator(".case summary").first.click()
    shown = page.locator(".case .side .text img")
    shown.wait_for()
    # The large picture is a file of the run, so this page has a word for it.
    assert shown.evaluate("(one) => one.src.slice(0, 14)") == "data:image/png"
    assert "[image 70 kB image/png]" in page.locator(".case").first.inner_text()
    assert complaints == []
    page.context.close()


def test_an_import_shows_pictures_and_names_those_that_it_cannot_read(here, call):
    write(here, [])
    row = single(0, text("So:"), part(data_url(png("mine"))))
    samples = []
    for number, picture in enumerate(("attachment://0123456789abcdef", "gone.png", "/etc/passwd")):
        log = inspect_log(row, picture)
        samples.append({**log["samples"][0], "id": number})
    scored = {"grader": {"value": 1, "answer": "a", "explanation": "e", "metadata": {}}}
    samples = [{**sample, "scores": scored} for sample in samples]
    (here / "log.json").write_text(json.dumps({**log, "samples": samples}))
    call("import", "inspect", "log.json", "--judge", "grader", "hydra.run.dir=run", "tracking=none")
    shown = [case["responses"][0]["text"] for case in read(here / "run/cases.jsonl")]
    assert [("sha256" in one, "image that is not a text" in one) for one in shown] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert len([*(here / "run/images").iterdir()]) == 2
    assert data_url(png("mine")) in (here / "run/report.html").read_text()
