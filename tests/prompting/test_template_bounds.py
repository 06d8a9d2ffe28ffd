"""A template from a file can neither loop without end nor make texts without end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evalkit.config import DatasetConfig
from evalkit.datasets import load_cases
from evalkit.errors import DatasetError, PromptError
from evalkit.prompting import Prompts
from tests.support.command_line import Done

DEEP = "(" * 3000 + "1" + ")" * 3000
NESTED = "{% for a in range(9) %}" * 30 + "x" + "{% endfor %}" * 30
DOUBLED = "{%% set ns = namespace(t='x') %%}{%% for a in range(99) %%}{%% set ns.t = %s %%}{%% endfor %%}{{ ns.t }}"
LOOPS = {
    "loops in loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "loops in a macro": "{% macro m() %}{% for a in range(9999) %}x{% endfor %}{% endmacro %}"
    "{% for a in range(9999) %}{{ m() }}{% endfor %}",
    "a loop that calls itself": "{% for a in [1] recursive %}{{ loop(range(9999)) if loop.depth < 9 }}{% endfor %}",
    "a loop that calls itself twice": "{% for a in [1] recursive %}{{ loop([1, 1]) if loop.depth < 40 }}{% endfor %}",
    "macros that call each other": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    "{{ m(40) }}",
    "a product of lists": "{% for a in [1] * 9999 %}{% for b in [1] * 9999 %}{% endfor %}{% endfor %}",
    "a loop over a filter": "{% for a in range(9999)|map('string') %}{% for b in range(999) %}{% endfor %}{% endfor %}",
    "a loop over a text": "{% for a in 'x' * 9999999 %}{% endfor %}",
    "a macro that never ends": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
}
OUTPUTS = {
    "a long text": "{{ 'x' * 999999999 }}",
    "a long text, turned round": "{{ 999999999 * 'x' }}",
    "a long list": "{{ [1] * 999999999 }}",
    "texts in a loop": "{% for a in range(999) %}{{ 'x' * 99999 }}{% endfor %}",
    "literals in a loop": "{% for a in range(99999) %}" + "x" * 999 + "{% endfor %}",
    "texts in a set block": "{% set t %}{% for a in range(99999) %}"
    + "x" * 999
    + "{% endfor %}{% endset %}{{ t|length }}",
    "texts in a macro": "{% macro m() %}{% for a in range(99999) %}" + "x" * 999 + "{% endfor %}{% endmacro %}"
    "{{ m()|length }}",
    "doubling": DOUBLED % "ns.t ~ ns.t",
    "doubling by adding": DOUBLED % "ns.t + ns.t",
    "doubling a list": DOUBLED.replace("'x'", "[1]") % "ns.t + ns.t",
    "doubling by a filter": DOUBLED % "[ns.t, ns.t]|join",
    "a power": "{{ 9999999 ** 99999999 }}",
    "squaring": DOUBLED.replace("'x'", "9") % "ns.t * ns.t",
    "center": "{{ 'x'|center(999999999) }}",
    "ljust": "{{ 'x'.ljust(999999999) }}",
    "zfill": "{{ 'x'.zfill(999999999) }}",
    "expandtabs": "{{ ('\\t' * 9999).expandtabs(99999) }}",
    "indent": "{{ ('x\\n' * 9999)|indent(99999) }}",
    "tojson": "{{ [1, 2]|tojson(indent=999999999) }}",
    "batch": "{{ [1]|batch(999999999, 0)|list }}",
    "slice": "{{ [1]|slice(999999999)|list }}",
    "replace": "{{ ('x' * 99999)|replace('x', 'y' * 99999) }}",
    "the method replace": "{{ ('x' * 99999).replace('x', 'y' * 99999) }}",
    "translate": "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "join": "{{ range(99999)|join('x' * 99999) }}",
    "the method join": "{{ ('x' * 99999).join(['x'] * 99999) }}",
    "joining a long text": "{{ (['x' * 99999] * 99999)|join }}",
    "wordwrap": "{{ ('x' * 99999)|wordwrap(1, wrapstring='y' * 99999) }}",
    "a format": "{{ '%999999999d' % 1 }}",
    "a format with a width": "{{ '%*d' % (999999999, 1) }}",
    "the filter format": "{{ '%999999999d'|format(1) }}",
    "the method format": "{{ '{:999999999}'.format(1) }}",
    "the method format with a width": "{{ '{:{}}'.format(1, 999999999) }}",
    "a format of long texts": "{{ ('%s' * 99999) % (('x' * 99999,) * 99999) }}",
    "bytes": "{{ (5).to_bytes(999999999, 'big') }}",
    "sum": "{{ ([[1] * 99999] * 99999)|sum(start=[])|length }}",
}


@pytest.mark.parametrize("attack", LOOPS | OUTPUTS)
def test_a_template_without_end_is_one_line(tmp_path: Path, attack: str) -> None:
    path = tmp_path / "evil.md.j2"
    path.write_text("Fine.\n" + (LOOPS | OUTPUTS)[attack])
    with pytest.raises(PromptError) as error:
        Prompts("en").render(str(path))
    assert str(error.value).startswith(f"{path}:2: cannot be filled: it")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [f"{{{{ {DEEP} }}}}", NESTED, "{% include 'shipped/en/x.md.j2' %}"])
def test_what_python_cannot_compile_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "evil.md.j2"
    path.write_text(text)
    with pytest.raises(PromptError) as error:
        Prompts("en").render(str(path))
    assert "\n" not in str(error.value)


def test_a_template_that_includes_itself_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en/evil.md.j2").write_text("{% include 'en/evil.md.j2' %}" * 3)
    with pytest.raises(PromptError, match="cannot be filled: it is nested too deeply or calls itself"):
        Prompts("en", [tmp_path]).render("evil")


USEFUL = {
    "{% for a in range(3) %}{{ loop.index }}/{{ loop.length }}{{ ', ' if not loop.last }}{% endfor %}": "1/3, 2/3, 3/3",
    "{% for a in [1, [2, [3]]] recursive %}{{ loop(a) if a is sequence else a }}{% endfor %}": "123",
    "{% for k, v in {'a': 1}.items() %}{{ k ~ v }}{% else %}none{% endfor %}": "a1",
    "{% for a in [3, 1, 2] if a > 1 %}{{ a }}{% endfor %}": "32",
    "{{ [1, 2, 3]|map('string')|join('-') }}": "1-2-3",
    "{{ [{'a': 1}, {'a': 2}]|join(', ', attribute='a') }}": "1, 2",
    "{{ 'x' * 3 ~ 'y' + 'z' }}": "xxxyz",
    "{{ 2 ** 10 * 3 % 7 }}": "6",
    "{{ '%05.1f|%s' % (3.14159, 'a') }}": "003.1|a",
    "{{ '{:>5}|{}'.format('a', '**') }}": "    a|**",
    "{{ ('word ' * 9)|truncate(20000) }}": "word " * 9,
    "{{ missing|default(123456789) if false else 'x'|replace('x', 'yes') }}": "yes",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{% call m(1) %}!{% endcall %}": "12!",
    "{{ [1, 2, 3, 4]|batch(2)|map('join')|join('|') }} {{ [[1], [2]]|sum(start=[]) }}": "12|34 [1, 2]",
    "{{ 'a\nb'|indent(2) }}": "a\n  b",
}


@pytest.mark.parametrize("text", USEFUL)
def test_a_useful_template_is_filled_as_jinja_does(tmp_path: Path, text: str) -> None:
    path = tmp_path / "useful.md.j2"
    path.write_text(text)
    [message] = Prompts("en").render(str(path), missing="x")
    assert message["content"] == USEFUL[text]


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("attack", ["loops in loops", "texts in a loop", "doubling"])
def test_neither_a_plan_nor_a_run_waits_for_it(
    call: Callable[..., Done], tmp_path: Path, command: str, attack: str
) -> None:
    evil = "{{ original_prompt }} {{ response_a }} {{ response_b }}\n" + (LOOPS | OUTPUTS)[attack]
    (tmp_path / "evil.md.j2").write_text(evil)
    words = ["prompt.template=evil.md.j2", "judge=simulated/good", "output=bracket", "tracking=none"]
    line = call(command, *words, "hydra.run.dir=out", status=1).line()
    assert line.startswith(f"{tmp_path}/evil.md.j2:2: cannot be filled: it")


@pytest.mark.parametrize("attack", ["loops in loops", "doubling", "center", "a power", "a macro that never ends"])
def test_a_field_of_a_config_is_bounded_too(tmp_path: Path, attack: str) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("prompt,response_a,response_b\np,a,b\n")
    config = DatasetConfig(path=str(path), fields={"prompt": "{{ prompt }}" + (LOOPS | OUTPUTS)[attack]})
    with pytest.raises(DatasetError, match=r"cases.csv:2: dataset.fields.prompt: "):
        list(load_cases(config, mode="pairwise").cases)
