"""A Jinja environment for templates that come with models: the sandbox, and bounds on time and size.

Jinja's sandbox keeps a template from reaching the interpreter, not from computing for ever. Here every value that a
template builds (by operators, filters, methods, output) is measured before and after, and every loop and call looks at
the clock, so a hostile template ends with an error after seconds and some megabytes. What slips through ends the
engine's process, not the application.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

SIZE_LIMIT = 16 << 20
"""Characters that a value or the whole output may have."""

ENTRY_LIMIT = 1 << 20
"""Entries that a list or mapping may have, with all that is in it; shared parts count each time."""

_BIT_LIMIT = 100_000
"""Bits that a whole number may have."""

SECONDS = 10.0
"""Time a rendering may take. Real templates take milliseconds."""

_WIDTH_LIMIT = 1_000
"""The largest number that a filter or a string method takes: paddings and indents are small."""

_WIDE_FORMAT = re.compile(r"[%{][^%{}]*?\d{4,}|%[^a-zA-Z%]*\*")


class _Meter:
    """What one rendering has used."""

    def __init__(self) -> None:
        self.deadline = time.monotonic() + SECONDS
        self.output = 0

    def tick(self) -> None:
        if time.monotonic() > self.deadline:
            raise SecurityError(f"the template takes longer than {SECONDS:g} s")

    def write(self, value: Any) -> None:
        self.tick()
        self.output += _measure(value)
        if self.output > SIZE_LIMIT:
            _too_large()


_meter: ContextVar[_Meter] = ContextVar("meter")


def _too_large() -> NoReturn:
    raise SecurityError(f"the template builds a text of over {SIZE_LIMIT} characters, or a list or number as large")


def _measure(value: Any) -> int:
    """Return the number of characters in a value, roughly; shared parts count each time.

    Raises SecurityError for a value over the limits.
    """
    size = entries = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str | bytes):
            size += len(item)
        elif isinstance(item, Mapping):
            entries += 2 * len(item)
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            entries += len(item)
            stack.extend(item)
        elif isinstance(item, int) and item.bit_length() > _BIT_LIMIT:
            _too_large()
        if size > SIZE_LIMIT or entries > ENTRY_LIMIT:
            _too_large()
    return size + entries


def _check_text_operation(name: str, text: Any, args: tuple[Any, ...], numbers: list[Any]) -> None:
    """Refuse filters and string methods whose result would be much larger than what they are given."""
    if name == "translate":
        raise SecurityError("str.translate is not for templates")
    if any(isinstance(n, int) and abs(n) > _WIDTH_LIMIT for n in (*args, *numbers)):
        raise SecurityError(f"{name}: a number over {_WIDTH_LIMIT}")
    if name == "replace" and len(args) >= 2 and all(isinstance(a, str) for a in (text, *args[:2])):
        size = len(text) + text.count(args[0]) * len(args[1])
    elif name == "join" and args and isinstance(text, str):  # the method: the separator comes first
        size = _measure(args[0]) * max(1, len(text))
    elif name == "join" and args and isinstance(args[0], str):
        size = _measure(text) * max(1, len(args[0]))
    elif name == "indent" and isinstance(text, str):
        widths = [len(n) if isinstance(n, str) else n for n in (*args, *numbers) if isinstance(n, int | str)]
        size = len(text) + text.count("\n") * max(widths, default=4)
    else:
        size = 0
    if size > SIZE_LIMIT:
        _too_large()
    if name in ("format", "format_map") and isinstance(text, str) and _WIDE_FORMAT.search(text):
        raise SecurityError("a format with a width of four digits or more")


def _bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter with its input and output measured."""
    leading = 1 if hasattr(function, "jinja_pass_arg") else 0  # context, environment or evaluation context

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        _meter.get().tick()
        _measure([*args[leading:], *kwargs.values()])
        text, *rest = args[leading:]
        _check_text_operation(name, text, tuple(rest), list(kwargs.values()))
        result = function(*args, **kwargs)
        _measure(result)
        return result

    return bounded


@pass_context
def _literal(_: Context, text: str) -> str:
    """Take the context so that the compiler cannot fold the constant: literal text in loops must be counted too."""
    return text


@pass_context
def _timed(_: Context, iterable: Any) -> Any:
    _meter.get().tick()
    return iterable


@pass_context
def _measured(_: Context, value: Any) -> Any:
    _meter.get().tick()
    _measure(value)
    return value


@pass_context
def _concat(_: Context, parts: list[Any]) -> str:
    _measure(parts)
    return "".join(map(str, parts))


class _Instrument(NodeTransformer):
    """Puts the meter into what the sandbox cannot intercept: loops, `~`, displays of lists and dicts, literal text."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the name is jinja2's
        self.generic_visit(node)
        assert isinstance(node.iter, nodes.Expr)
        node.iter = _filter("engine_timed", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter("engine_concat", nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter("engine_measured", node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter("engine_measured", node)

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802
        return _filter("engine_literal", nodes.Const(node.data, lineno=node.lineno))


def _filter(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """`{% generation %}` marks the model's own words for training; here it only groups them."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """What chat templates expect to find, within bounds. Render through `render`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], finalize=_write)
        del self.globals["lipsum"], self.filters["wordwrap"], self.filters["urlize"], self.filters["pprint"]
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
        self.filters["tojson"] = _tojson
        self.filters = {name: _bounded_filter(name, function) for name, function in self.filters.items()}
        self.filters |= {
            "engine_concat": _concat,
            "engine_literal": _literal,
            "engine_measured": _measured,
            "engine_timed": _timed,
        }

    def from_string(self, source: Any, *args: Any, **kwargs: Any) -> Template:
        """Compile a template with the meter in it."""
        tree = _Instrument().visit(self.parse(source))
        return super().from_string(tree, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute `left operator right` unless the result would be huge."""
        _measure([left, right])
        if operator == "*":
            _check_product(left, right)
        elif operator == "%" and isinstance(left, str):
            _check_text_operation("format", left, (), [])
        elif operator == "**" and isinstance(left, int) and left.bit_length() * right > _BIT_LIMIT:
            _too_large()
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as in jinja2
        """Call a function, macro or method of the template's values."""
        _meter.get().tick()
        _measure([*args, *kwargs.values()])
        owner = getattr(getattr(__obj, "__wrapped__", __obj), "__self__", None)  # the sandbox wraps str.format
        if isinstance(owner, str):
            _check_text_operation(__obj.__name__, owner, args, list(kwargs.values()))
        result = super().call(__context, __obj, *args, **kwargs)
        _measure(result)
        return result


def render(template: Template, variables: Mapping[str, Any]) -> str:
    """Return the output of a template made by `BoundedEnvironment`. Raises what templates raise."""
    token = _meter.set(_Meter())
    try:
        return template.render(variables)
    finally:
        _meter.reset(token)


def _check_product(left: Any, right: Any) -> None:
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, str | list | tuple) and isinstance(right, int) and _measure(left) * right > SIZE_LIMIT:
        _too_large()


def _write(value: Any) -> Any:
    """Count what goes to the output; jinja2 calls it for every value, and for constants while compiling."""
    if (meter := _meter.get(None)) is not None:
        meter.write(value)
    return value


def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


def _strftime_now(pattern: str) -> str:
    _check_text_operation("format", pattern, (), [])
    return datetime.now().strftime(pattern)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON without HTML escapes, as templates written for chat expect."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
