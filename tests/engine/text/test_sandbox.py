"""Templates that loop or explode end with one line, soon and in little memory."""

from __future__ import annotations

import pytest

from engine.errors import EngineError
from engine.text import sandbox

from .models import template

HELLO = [{"role": "user", "content": "hello"}]


def grow(step: str, start: str = "'ab'") -> str:
    return f"{{% set ns = namespace(x={start}) %}}{{% for i in range(70) %}}{step}{{% endfor %}}{{{{ ns.x }}}}"


EXPLOSIONS = {
    "operator": grow("{% set ns.x = ns.x + ns.x %}"),
    "concatenation": grow("{% set ns.x = ns.x ~ ns.x %}"),
    "block": grow("{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"),
    "lists": grow("{% set ns.x = [ns.x, ns.x] %}"),
    "mappings": grow("{% set ns.x = {'a': ns.x, 'b': ns.x} %}"),
    "numbers": grow("{% set ns.x = ns.x * ns.x %}", "9"),
    "product": "{{ 'a' * 10 ** 9 }}",
    "product of a list": "{{ 10 ** 9 * ['a'] }}",
    "power": "{{ 7 ** (10 ** 6) }}",
    "replace": "{{ ('a' * 99999).replace('a', 'b' * 99999) }}",
    "replace filter": "{{ ('a' * 99999) | replace('a', 'b' * 99999) }}",
    "join": "{{ ('a' * 99999).join('b' * 99999) }}",
    "join filter": "{{ ('b' * 99999) | join('a' * 99999) }}",
    "indent": "{{ ('x\n' * 99999) | indent(999) }}",
    "indent text": "{{ ('x\n' * 99999) | indent('a' * 999) }}",
    "padding": "{{ 'x'.ljust(10 ** 9) }}",
    "padding filter": "{{ 'x' | center(10 ** 9) }}",
    "padding keyword": "{{ 'x' | center(width=10 ** 9) }}",
    "format": "{{ '%999999999d' % 1 }}",
    "format star": "{{ '%*d' % (999999999, 1) }}",
    "format method": "{{ '{:>999999999}'.format(1) }}",
    "format argument": "{{ '{:>{w}}'.format(1, w=999999999) }}",
    "date": "{{ strftime_now('%999999999Y') }}",
    "translate": "{{ ('a' * 99999).translate({97: 'b' * 99999}) }}",
    "range": "{% for i in range(10 ** 9) %}{% endfor %}",
    "output": "{% for i in range(99999) %}" + "x" * 999 + "{% endfor %}",
    "captured output": "{% set x %}{% for i in range(99999) %}" + "x" * 999 + "{% endfor %}{% endset %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
}


@pytest.mark.parametrize("name", EXPLOSIONS)
def test_explosions_are_refused(name: str) -> None:
    with pytest.raises(EngineError, match="chat template refuses"):
        template(EXPLOSIONS[name]).render_text(HELLO)


ENDLESS = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "calls": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}",
    "filters": "{% for i in range(99999) %}{% set x = ('a' * 9999999) | upper %}{% endfor %}",
    "methods": "{% for i in range(99999) %}{% set x = ('a' * 9999999).upper() %}{% endfor %}",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_work_is_stopped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 0.1)
    with pytest.raises(EngineError, match=r"longer than 0\.1 s"):
        template(ENDLESS[name]).render_text(HELLO)


def test_deep_nesting_is_refused_when_loaded() -> None:
    with pytest.raises(EngineError, match="nested too deeply"):
        template("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}")


def test_a_long_conversation_is_rendered() -> None:
    messages = [{"role": "user", "content": "word " * 2000}] * 1000
    text = template("{% for m in messages %}{{ m.role + ': ' + m.content | trim + '\n' }}{% endfor %}").render_text(
        messages
    )
    assert len(text) == 1000 * (2000 * 5 - 1 + len("user: \n"))
