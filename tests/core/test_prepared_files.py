"""What is parsed from a file is kept next to compiled modules, and never used for another file."""

import sys
import tomllib

import pytest

from evalkit.core import prepared_files
from evalkit.core.prepared_files import read_table
from evalkit.report import page, prepared_templates


@pytest.fixture(autouse=True)
def keeps_modules(monkeypatch):
    """Python keeps compiled modules next to their sources, whatever the environment says."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "words.toml"
    path.write_text('[words]\nyes = ["ja", "oui"]\nends = [0.5, inf]\n', encoding="utf-8")
    return path


@pytest.fixture
def parsed(monkeypatch):
    """Return the texts that were parsed."""
    texts = []

    def loads(text):
        texts.append(text)
        return parse(text)

    parse = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", loads)
    return texts


def test_a_table_is_parsed_once(table, parsed):
    tables = [read_table(table) for _ in range(3)]
    assert tables == 3 * [{"words": {"yes": ["ja", "oui"], "ends": [0.5, float("inf")]}}]
    assert len(parsed) == 1


def test_a_changed_table_is_parsed_again(table, parsed):
    read_table(table)
    table.write_text(table.read_text().replace("oui", "sim"))
    assert read_table(table)["words"]["yes"] == ["ja", "sim"]
    assert len(parsed) == 2


@pytest.mark.parametrize("damage", [lambda kept: kept[:-3], lambda kept: kept[:-1] + b"?"])
def test_a_damaged_file_is_replaced(table, parsed, damage):
    first = read_table(table)
    [kept] = (table.parent / "__pycache__").iterdir()
    kept.write_bytes(damage(kept.read_bytes()))
    assert [read_table(table), read_table(table)] == [first, first]
    assert len(parsed) == 2


def test_nothing_is_written_where_python_may_not_write(table, parsed, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert read_table(table) == read_table(table)
    assert len(parsed) == 2
    assert [path.name for path in table.parent.iterdir()] == ["words.toml"]


def test_a_folder_of_compiled_modules_is_used(table, parsed, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "compiled" / "here"))
    assert read_table(table) == read_table(table)
    assert len(parsed) == 1
    assert not (table.parent / "__pycache__").exists()


def test_a_folder_that_cannot_be_written_is_no_error(table, parsed):
    (table.parent / "__pycache__").write_text("a file where the folder would be")
    assert read_table(table) == read_table(table)
    assert len(parsed) == 2


def test_the_tables_that_evalkit_ships_are_those_that_are_kept(tmp_path):
    package = prepared_files.Path(prepared_files.__file__).parents[1]
    for path in package.rglob("*.toml"):
        copied = tmp_path / path.name
        copied.write_bytes(path.read_bytes())
        expected = tomllib.loads(path.read_text("utf-8"))
        assert [read_table(copied), read_table(copied)] == [expected, expected], path


def test_a_template_is_compiled_again_if_it_or_the_engine_changes(tmp_path, monkeypatch):
    from jinja2 import DictLoader, Environment

    monkeypatch.setattr(prepared_templates, "_FOLDER", tmp_path)
    engine = tmp_path / "engine.py"
    engine.write_text("1")
    compiled = []

    class Engine(Environment):
        def _generate(self, *arguments, **options):
            compiled.append(arguments[1])
            return super()._generate(*arguments, **options)

    def render(text):
        templates = prepared_templates.PreparedTemplates(engine)
        environment = Engine(loader=DictLoader({"a.j2": text}), bytecode_cache=templates)
        return environment.get_template("a.j2").render(name="x")

    assert [render("1 {{ name }}"), render("1 {{ name }}")] == ["1 x", "1 x"]
    assert compiled == ["a.j2"]
    assert render("2 {{ name }}") == "2 x"
    assert len(compiled) == 2
    engine.write_text("22")
    assert render("2 {{ name }}") == "2 x"
    assert len(compiled) == 3


def test_pages_use_the_kept_templates():
    assert isinstance(page._environment().bytecode_cache, prepared_templates.PreparedTemplates)
