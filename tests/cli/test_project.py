"""`evalkit init`, `evalkit docs` and the help: what a newcomer sees first."""

import re

import pytest

from evalkit.cli import COMMANDS
from tests.support.command_line import rows


@pytest.fixture
def run(call, here):
    return call


def test_the_help_fits_on_a_screen_and_names_each_command_once(run):
    lines = run("--help").out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    listed = [line.split()[0] for line in lines if re.match(r"  \w", line)]
    listed += next(line for line in lines if line.startswith("more:")).split()[1:]
    assert sorted(listed) == sorted(COMMANDS)


def test_a_project_is_a_few_files_and_no_copies_of_prompts(run, here, monkeypatch):
    run("init", "project")
    mine = here / "project" / "conf" / "judge" / "mine.yaml"
    mine.write_text("model: openai/other\n", "utf-8")
    assert "0 files created" in run("init", "project").out
    assert mine.read_text("utf-8") == "model: openai/other\n"
    files = {path for path in (here / "project").rglob("*") if path.is_file()}
    assert len(files) <= 12
    assert not [path for path in files if path.suffix == ".j2"]
    monkeypatch.chdir(here / "project")
    planned = run("plan", "dataset=mine", "judge=mine").out
    assert rows(planned) == {"the run": [48, 0, 48]}


@pytest.mark.parametrize("name", ["pairwise", "prompt/pairwise", "prompts/en/pairwise.md.j2"])
def test_one_prompt_is_copied_and_then_used(name, run, here):
    run("init", "project", "--copy", name)
    copies = sorted(path.parent.name for path in (here / "project").rglob("*.j2"))
    assert copies == (["en"] if "en/" in name else ["en", "zh"])
    run("init", "project", "--copy", name)  # keeps what is there


@pytest.mark.parametrize("name", ["pairwize", "fr/pairwise", "../secret", ""])
def test_another_prompt_is_refused_in_one_line(name, run, here):
    line = run("init", "project", "--copy", name, status=1).err
    assert "no such prompt" in line
    assert not (here / "project").exists()


def test_every_page_is_written_and_its_links_lead_somewhere(run, here, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = run("docs", "check", "--output", "pages").out.strip()
    assert opened == [(here / "pages/start/check.html").as_uri()]
    assert path == "pages/start/check.html"
    broken = []
    for page in (here / "pages").rglob("*.html"):
        text = page.read_text("utf-8")
        for link in re.findall(r'(?:href|src)="([^":#]+)["#]', text):
            target = (page.parent / link).resolve()
            if not target.is_file():
                broken.append((page.name, link))
    omitted = ("changelog.html", "python.html", "tutorial.html")
    assert not [link for link in broken if not link[1].endswith(omitted)]


@pytest.mark.browser
def test_the_search_of_the_pages_works_from_files(run, here, browser):
    run("docs", "--no-browser", "--output", "pages")
    page = browser.new_page()
    page.goto((here / "pages" / "index.html").as_uri())
    shown = page.locator("nav a:visible")
    everything = shown.count()
    # A word of the text: neither the title nor a heading has it.
    page.get_by_role("searchbox").fill("CHAMPION alias")
    assert shown.all_inner_texts() == ["MLflow"]
    # Terms with their meaning are lists, as on the site.
    page.goto((here / "pages" / "reference" / "config.html").as_uri())
    assert page.locator("dt code", has_text="judge.model").count()
    page.goto((here / "pages" / "index.html").as_uri())
    page.get_by_role("searchbox").fill("")
    assert shown.count() == everything
    page.close()


def test_an_unknown_page_is_one_line(run):
    assert "did you mean 'serving'?" in run("docs", "servng", status=1).err
