"""Graphs from the text that `text` prints.

The parser trusts no text: it returns a verified graph or raises GraphError with the line number.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn

import numpy as np

from nacre.base.dims import LIMIT, Dim, Size
from nacre.base.dtypes import DType, dtype_named
from nacre.base.errors import Error, GraphError
from nacre.base.types import TensorType
from nacre.ir.declared import declared_types
from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Params, known_primitive
from nacre.ir.text import DTYPES, NUMPY_LITTLE, RESERVED, from_bits, from_text

DEEPEST, LARGEST_POWER, MOST_TERMS = 64, 16, 4096  # limits of the parser

# ---- tokens

TOKEN: Final = (
    r"\s*(?:(?P<comment>\#.*)|(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<hex>0x[0-9a-f]+)"
    r"|(?P<number>[0-9]+(?:\.(?!\.)[0-9]*)?(?:e[+-]?[0-9]+)?)|(?P<name>[^\W\d][\w.]*)|(?P<sign>\.\.|//|[-+*^()\[\]<>:,=]))"
)


@cache
def _token() -> re.Pattern[str]:
    """The token pattern, compiled when the first text is read."""
    return re.compile(TOKEN)


class _Line:
    """The tokens of a line, taken from left to right."""

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number = text, number
        self.indent = len(text) - len(text.lstrip(" "))
        self.tokens: list[tuple[str, str]] = []
        self.comment = ""
        self.at = 0
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _token().match(text, at)
            if found is None:
                raise GraphError(f"line {number}: expected a word, number or sign; got {text[at : at + 20]!r}")
            kind = found.lastgroup or ""
            if kind == "comment":
                self.comment = found["comment"][1:].strip()
            else:
                self.tokens.append((kind, found[kind]))
            at = found.end()

    def fail(self, wanted: str, got: str = "") -> NoReturn:
        """Raise GraphError that names the expected token and the actual one, by default the current token."""
        if not got:
            got = self.tokens[self.at][1] if self.at < len(self.tokens) else "the end of the line"
        raise GraphError(f"line {self.number}: expected {wanted}; got {got}\n  {self.text.strip()[:200]}")

    def next_is(self, text: str) -> bool:
        """Whether the next token is the sign or name `text`."""
        return self.at < len(self.tokens) and self.tokens[self.at] in (
            ("sign", text),
            ("name", text),
        )

    def take(self, text: str) -> bool:
        """Consume a word or sign if it is next."""
        found = self.next_is(text)
        self.at += found
        return found

    def expect(self, text: str) -> None:
        """Take the token `text`; GraphError if it is not next."""
        if not self.take(text):
            self.fail(repr(text))

    def kind(self) -> str:
        """The kind of the next token; "end" after the last."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "end"

    def word(self, kind: str, wanted: str) -> str:
        """Take a token of a kind; GraphError with the expected token if it is not next."""
        if self.kind() != kind or kind == "end":
            self.fail(wanted)
        self.at += 1
        return self.tokens[self.at - 1][1]

    def end(self) -> None:
        """Raise GraphError unless the line ends here."""
        if self.at != len(self.tokens):
            self.fail("the end of the line")


# ---- parameters, sizes, types


class _Values:
    """Reads parameters, sizes, types and constants; `symbols` are the declared sizes."""

    def __init__(self, symbols: dict[str, Size]) -> None:
        self.symbols = symbols
        self.sizes_only = False  # in types and <…> every word is a size

    def param(self, line: _Line, depth: int = 0) -> Any:
        """term ((+ | -) term)*"""
        if depth > DEEPEST:
            line.fail("a parameter that is nested less deeply")
        left = self._term(line, depth)
        while line.next_is("+") or line.next_is("-"):
            minus = line.take("-") or not line.take("+")
            right = self._size(line, self._term(line, depth))
            left = self._size(line, left) + (-right if minus else right)
        return left

    def _term(self, line: _Line, depth: int) -> Any:
        left = self._power(line, depth)
        while line.next_is("*") or line.next_is("//"):
            times = line.take("*") or not line.take("//")
            right = self._size(line, self._power(line, depth))
            left = self._combine(line, self._size(line, left), right, times)
        return left

    def _combine(self, line: _Line, left: Size, right: Size, times: bool) -> Size:
        if isinstance(left, Dim) and isinstance(right, Dim) and len(left.terms) * len(right.terms) > MOST_TERMS:
            line.fail("a simpler size")
        if times:
            return left * right
        if not isinstance(right, int) or right <= 0:
            line.fail("a positive divisor")
        return left // right

    def _power(self, line: _Line, depth: int) -> Any:
        base = self._primary(line, depth)
        if not line.take("^"):
            return base
        exponent = int(line.word("number", "an exponent")[:4])
        if not 0 < exponent <= LARGEST_POWER:
            line.fail(f"an exponent up to {LARGEST_POWER}")
        result = size = self._size(line, base)
        for _ in range(exponent - 1):
            result = self._combine(line, result, size, True)
        return result

    def _primary(self, line: _Line, depth: int) -> Any:
        if line.take("-"):
            value = self._power(line, depth + 1) if depth <= DEEPEST else line.fail("fewer signs")
            if isinstance(value, bool) or not isinstance(value, int | float | Dim):
                line.fail("a number")
            return -value
        if line.take("("):
            return self._tuple(line, depth + 1)
        if line.take("<"):
            inside = self._sized(line, depth + 1)
            line.expect(">")
            return inside
        if line.kind() == "string":
            return self.string(line)
        if line.kind() == "number":
            return self.number(line)
        return self._word(line)

    def _tuple(self, line: _Line, depth: int) -> Any:
        items: list[Any] = []
        comma = True
        while not line.take(")"):
            if not comma:
                line.fail("',' or ')'")
            items.append(self.param(line, depth))
            comma = line.take(",")
        return items[0] if len(items) == 1 and not comma else tuple(items)

    def _word(self, line: _Line) -> Any:
        name = line.word("name", "a parameter")
        fixed = {"True": True, "False": False, "None": None, "inf": math.inf, "nan": math.nan}
        if not self.sizes_only and name in fixed:
            return fixed[name]
        if not self.sizes_only and name in DTYPES:
            return dtype_named(name)
        if name not in self.symbols:
            line.at -= 1
            line.fail("a declared size, a dtype or a number")
        return self.symbols[name]

    def string(self, line: _Line) -> str:
        """Read a JSON string."""
        try:
            return json.loads(line.word("string", "a string"))
        except ValueError:
            line.at -= 1
            line.fail("a JSON string")

    def number(self, line: _Line) -> int | float:
        """Read an int, or a float if it has a point or an exponent."""
        text = line.word("number", "a number")
        try:
            return float(text) if "." in text or "e" in text else int(text)
        except ValueError:
            line.fail("a shorter number")

    def _size(self, line: _Line, value: Any) -> Size:
        if isinstance(value, bool) or not isinstance(value, int | Dim):
            line.fail("a size")
        return value

    def _sized(self, line: _Line, depth: int) -> Size:
        before, self.sizes_only = self.sizes_only, True
        try:
            return self._size(line, self.param(line, depth))
        finally:
            self.sizes_only = before

    def size(self, line: _Line) -> Size:
        """A size of an axis: not negative."""
        value = self._sized(line, 0)
        if isinstance(value, int) and not 0 <= value <= LIMIT:
            line.fail(f"a size from 0 to {LIMIT}", str(value))
        return value

    def type(self, line: _Line) -> TensorType:
        """dtype[size, …]"""
        name = line.word("name", "a type such as f32[2, 3]")
        if name not in DTYPES:
            line.at -= 1
            line.fail("a type such as f32[2, 3]")
        line.expect("[")
        shape: list[Size] = []
        while not line.take("]"):
            if shape:
                line.expect(",")
            shape.append(self.size(line))
        return TensorType(shape, dtype_named(name))

    # ---- constants

    def literal(self, line: _Line) -> Literal:
        """`1.0:f32`, `0x3f800000:f32`, `true:bool`, `(1.0:f32, 2.0:f32):c64`, `f32[2]"base64"`."""
        return self._pair(line) if line.take("(") else self._number(line)

    def _number(self, line: _Line) -> Literal:
        """A constant that is not a pair."""
        if line.kind() == "name" and not any(map(line.next_is, ("true", "false", "inf", "nan"))):
            return self._array(line)
        minus = line.take("-")
        bits = line.kind() == "hex" and not minus
        text = line.word("hex", "bits") if bits else line.word(line.kind(), "a constant")
        dtype = _dtype(line)
        array = from_bits(text, dtype) if bits else from_text(text, minus, dtype)
        if array is None:
            line.fail(f"a constant of dtype {dtype.short}")
        return Literal(array, TensorType((), dtype))

    def _pair(self, line: _Line) -> Literal:
        """A complex constant behind its bracket, by its parts."""
        re = self._number(line)
        line.expect(",")
        im = self._number(line)
        line.expect(")")
        dtype = _dtype(line)
        part = dtype.component
        if part is None or not all(each.type == TensorType((), part) for each in (re, im)):
            line.fail(f"a real and an imaginary part of dtype {dtype.real.short}")
        array = np.array([re.array, im.array], dtype.real.numpy).view(dtype.numpy).reshape(())
        return Literal(array, TensorType((), dtype))

    def _array(self, line: _Line) -> Literal:
        type = self.type(line)
        text = line.word("string", "the numbers in base64")[1:-1]
        if not type.static:
            line.fail("a constant of fixed shape")
        try:
            raw = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            line.fail("base64")
        if len(raw) != type.nbytes:
            line.fail(f"a constant of {type.size} elements")
        if type.dtype.is_bool and set(raw) - {0, 1}:
            line.fail("bools that are 0 or 1")
        array = np.frombuffer(raw, type.dtype.numpy).reshape(type.shape)  # type: ignore[arg-type]
        return Literal(array.copy() if NUMPY_LITTLE else array.byteswap(), type)


def _dtype(line: _Line) -> DType:
    line.expect(":")
    return dtype_named(name) if (name := line.word("name", "a dtype")) in DTYPES else line.fail("a dtype")


# ---- graphs


class _Parser:
    """Reads graphs from lines."""

    def __init__(self, text: str) -> None:
        lines = (_Line(t, k) for k, t in enumerate(text.splitlines(), 1) if t.strip())
        self.lines = [line for line in lines if line.tokens]
        self.at = 0

    def line(self, wanted: str) -> _Line:
        """The next line; GraphError at the end of the text."""
        if self.at == len(self.lines):
            last = self.lines[-1].number if self.lines else 0
            raise GraphError(f"line {last}: expected {wanted} after it; got the end of the text")
        self.at += 1
        return self.lines[self.at - 1]

    def graph(self, head: _Line, depth: int) -> Graph:
        """The rest of a graph, after its first line up to the word `graph`."""
        if depth > DEEPEST:
            head.fail("a graph that is nested less deeply")
        values = _Values(_declared(head))
        name = values.string(head) if head.kind() == "string" else head.word("name", "the graph's name")
        known: dict[str, Var] = {}
        inputs = self._declarations(head, values, known)
        if not head.take("where"):
            head.expect(":")
        equations: list[Equation] = []
        while True:
            line = self.line("an equation or return")
            if line.indent <= head.indent:
                line.fail("a line of the graph, indented,")
            if line.take("return"):
                outputs = self._operands(line, values, known, None)
                return Graph(inputs, tuple(equations), outputs, name)
            equations.append(self._equation(line, values, known, depth))

    def _declarations(self, line: _Line, values: _Values, known: dict[str, Var]) -> tuple[Var, ...]:
        """(name: type, …)"""
        line.expect("(")
        found: list[Var] = []
        while not line.take(")"):
            if found:
                line.expect(",")
            found.append(self._declaration(line, values, known))
        return tuple(found)

    def _declaration(self, line: _Line, values: _Values, known: dict[str, Var]) -> Var:
        quoted = line.kind() == "string"
        name = values.string(line) if quoted else line.word("name", "a name")
        if name in known or (name in RESERVED and not quoted):
            line.at -= 1
            line.fail("a new name")
        line.expect(":")
        known[name] = Var(values.type(line))
        return known[name]

    def _equation(self, line: _Line, values: _Values, known: dict[str, Var], depth: int) -> Equation:
        defined: dict[str, Var] = {}
        start = line.at
        if line.next_is("("):
            outputs = self._declarations(line, values, defined)
        else:
            outputs = (self._declaration(line, values, defined),)
        if not defined.keys().isdisjoint(known):
            line.at = start
            line.fail("new names")
        line.expect("=")
        name = line.word("name", "a primitive")
        primitive = known_primitive(name)
        if primitive is None:
            line.at -= 1
            line.fail("the name of a primitive")
        params = self._params(line, values)
        line.expect("(")
        inputs = self._operands(line, values, known, ")")
        self._graph_params(line, params, depth)
        known.update(defined)
        if primitive.arranged is not None:
            params = _arranged(primitive.arranged, params, line)
        equation = Equation(primitive, inputs, params, outputs, line.comment)
        _check(equation, line)
        return equation

    def _params(self, line: _Line, values: _Values) -> dict[str, Any]:
        params: dict[str, Any] = {}
        if line.take("["):
            while not line.take("]"):
                if params:
                    line.expect(",")
                key = line.word("name", "a parameter's name")
                line.expect("=")
                params[key] = values.param(line)
        return params

    def _operands(self, line: _Line, values: _Values, known: dict[str, Var], close: str | None) -> tuple[Atom, ...]:
        found: list[Atom] = []
        while not (line.take(close) if close else line.kind() == "end"):
            if found:
                line.expect(",")
            token = line.tokens[line.at] if line.at < len(line.tokens) else ("", "")
            if token[0] == "string":
                name = values.string(line)
                found.append(known[name] if name in known else line.fail("the name of a value"))
            elif token[0] == "name" and token[1] in known:
                line.at += 1
                found.append(known[token[1]])
            else:
                found.append(values.literal(line))
        line.end()
        return tuple(found)

    def _graph_params(self, line: _Line, params: dict[str, Any], depth: int) -> None:
        while self.at < len(self.lines) and self.lines[self.at].indent > line.indent:
            head = self.line("a graph")
            key = head.word("name", "a parameter's name")
            head.expect(":")
            head.expect("graph")
            params[key] = self.graph(head, depth + 1)


def _declared(head: _Line) -> dict[str, Size]:
    """The symbolic sizes in the `where` clause of a graph's first line."""
    start, depth = head.at, 0
    while head.at < len(head.tokens) and not (depth == 0 and head.next_is("where")):
        depth += (head.next_is("(") or head.next_is("[")) - (head.next_is(")") or head.next_is("]"))
        head.at += 1
    symbols: dict[str, Size] = {}
    while head.take("where" if not symbols else ","):
        name = head.word("name", "the name of a size")
        head.expect("in")
        low = _bound(head)
        head.expect("..")
        high = _bound(head) if head.kind() == "number" else LIMIT
        if name in symbols or "." in name or not 0 <= low <= high <= LIMIT:
            head.fail(f"a new name with bounds in ascending order for {name}")
        symbols[name] = Dim.symbol(name, low, high)
    if symbols:
        head.expect(":")
        head.end()
    head.at = start
    return symbols


def _bound(head: _Line) -> int:
    text = head.word("number", "a bound")
    if not re.fullmatch(r"\d{1,15}", text):
        head.at -= 1
        head.fail("an integer")
    return int(text)


def _arranged(rule: Callable[[Params], dict[str, Any]], params: Params, line: _Line) -> dict[str, Any]:
    try:
        return rule(params)
    except Error as fault:
        raise GraphError(f"line {line.number}: {fault}") from None


def _check(e: Equation, line: _Line) -> None:
    """Raise GraphError unless the equation satisfies its primitive's type rule."""
    try:
        types = declared_types(e.primitive, tuple(a.type for a in e.inputs), e.params)
    except Error as fault:
        raise GraphError(f"line {line.number}: {fault}") from None
    found = tuple(v.type for v in e.outputs)
    if types != found:
        raise GraphError(
            f"line {line.number}: {e.primitive.name} has results {list(types)}; the text declares {list(found)}"
        )


def parse(text: str) -> Graph:
    """The graph of a text.  Raises GraphError with the line number for malformed text.

    >>> import nacre.ops.pointwise
    >>> print(parse("graph twice(x: f32[]): \\n y: f32[] = add(x, x) \\n return y"))
    graph twice(a: f32[]):
      b: f32[] = add(a, a)
      return b
    """
    parser = _Parser(text)
    head = parser.line("graph")
    head.expect("graph")
    graph = parser.graph(head, 0)
    if parser.at != len(parser.lines):
        parser.lines[parser.at].fail("the end of the text")
    return graph
