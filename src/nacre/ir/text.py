"""Graphs as text: `print_graph` and `parse.parse` are inverses, except for the names of values.

    graph loss(a: f32[B, 784], b: f32[784, 10]) where B in 1..512:
      c: f32[B, 10] = dot[batch=((), ()), contract=((1,), (0,))](a, b)  # model.py:12
      d: f32[] = sum[axes=(0, 1)](c)
      return d

Scalars are written at their use (`1.0:f32`, or their bits, `0x7fc00001:f32`).  Larger constants are written as
`f32[2]"AACAPwAAAEA="` (base64, little-endian).  A parameter that is a graph follows its equation, indented.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np

from nacre.base.conversion import element
from nacre.base.dims import LIMIT, Dim, Symbol
from nacre.base.dtypes import NAMED, DType
from nacre.base.errors import GraphError
from nacre.base.types import TensorType
from nacre.ir.graph import PRINT, Atom, Graph, Literal, Var
from nacre.ir.primitive import ProcessParameter

INDENT: Final = "  "
DTYPES: Final = frozenset(d.short for d in NAMED)
WORDS: Final = frozenset(("True", "False", "None", "inf", "nan", "true", "false", "return", "graph", "where", "in"))
RESERVED: Final = DTYPES | WORDS
NUMPY_LITTLE: Final = sys.byteorder == "little"


def print_graph(graph: Graph, *, sources: bool = True, names: Mapping[Var, str] | None = None) -> str:
    """The text of a graph, with or without the source lines of its equations, and with given names of values."""
    return "\n".join(_graph_lines(graph, "graph", sources, names or {}))


def value_names() -> Iterator[str]:
    """a, b, … z, aa, ab, …, without reserved words."""
    length = 1
    while True:
        for k in range(26**length):
            letters = [chr(ord("a") + k // 26**i % 26) for i in reversed(range(length))]
            if (name := "".join(letters)) not in RESERVED:
                yield name
        length += 1


def _graph_lines(
    graph: Graph, head: str, sources: bool = True, given: Mapping[Var, str] = MappingProxyType({})
) -> Iterator[str]:
    taken = set(given.values())
    fresh = (name for name in value_names() if name not in taken)
    names: dict[Var, str] = {}

    def declare(v: Var) -> str:
        """The variable's name, a fresh one if it has none, with its type."""
        names[v] = _name_text(given[v]) if v in given else next(fresh)
        return f"{names[v]}: {v.type}"

    def use(a: Atom) -> str:
        """The name of a variable, or a literal's text."""
        return names.get(a, "?") if isinstance(a, Var) else literal_text(a)

    inputs = ", ".join(map(declare, graph.inputs))
    yield f"{head} {_name_text(graph.name)}({inputs}){_where(graph)}:"
    for e in graph.equations:
        operands = ", ".join(map(use, e.inputs))
        results = ", ".join(map(declare, e.outputs))
        if len(e.outputs) != 1:
            results = f"({results})"
        plain = {k: p for k, p in sorted(e.params.items()) if not isinstance(p, Graph)}
        params = ", ".join(f"{k}={param_text(p)}" for k, p in plain.items())
        shown = f"[{params}]" if params else ""
        source = _source_text(e.source) if sources else ""
        yield f"{INDENT}{results} = {e.primitive.name}{shown}({operands}){source}"
        for k, p in sorted(e.params.items()):
            if isinstance(p, Graph):
                yield from (INDENT * 2 + line for line in _graph_lines(p, f"{k}: graph", sources))
    yield f"{INDENT}return {', '.join(map(use, graph.outputs))}".rstrip()


def _name_text(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w.]*", name, re.ASCII) and name not in RESERVED else json.dumps(name)


def _source_text(source: str) -> str:
    if not source:
        return ""
    place = source.split(" (")[0].replace("\\", "/").rsplit("/", 1)[-1]
    return "  # " + place.replace("\n", " ").replace("\r", " ")


def _symbols(graph: Graph) -> dict[str, Symbol]:
    found: dict[str, Symbol] = {}

    def visit(x: Any) -> None:
        """Collect the symbols in sizes, shapes and parameters."""
        if isinstance(x, Dim):
            for s in x.symbols():
                if found.setdefault(s.name, s) != s:
                    raise GraphError(f"print: each symbolic size must have one range; {s.name} has two")
        elif isinstance(x, tuple):
            for y in cast("tuple[Any, ...]", x):
                visit(y)

    for v in graph.inputs:
        visit(v.type.shape)
    for e in graph.equations:
        for v in e.outputs:
            visit(v.type.shape)
        for p in e.params.values():
            visit(p)
    return found


def _where(graph: Graph) -> str:
    symbols = sorted(_symbols(graph).values(), key=lambda s: s.name)
    if not symbols:
        return ""
    return " where " + ", ".join(f"{s.name} in {s.low}..{'' if s.high == LIMIT else s.high}" for s in symbols)


def param_text(p: Any) -> str:
    """The text of a parameter that is not a graph."""
    if p is None or isinstance(p, bool | int):
        return repr(p)
    if isinstance(p, float):
        return repr(p)
    if isinstance(p, str):
        return json.dumps(p)
    if isinstance(p, DType):
        return p.short
    if isinstance(p, Dim):
        return f"<{p}>" if any(s.name in RESERVED for s in p.symbols()) else str(p)
    if isinstance(p, ProcessParameter):
        return _name_text(p.name)
    if isinstance(p, tuple):
        items = cast("tuple[Any, ...]", p)
        return f"({', '.join(map(param_text, items))}{',' if len(items) == 1 else ''})"
    raise GraphError(
        f"print: parameters must consist of numbers, strings, dtypes, sizes and tuples; got {type(p).__name__}"
    )


def literal_text(literal: Literal) -> str:
    """The text of a constant; parsing it gives the same bits."""
    if literal.type.shape == () and literal.type.dtype.component is not None:
        part = TensorType((), literal.type.dtype.component)
        array: Any = literal.array.reshape(())
        re, im = (literal_text(Literal(np.array(x, part.dtype.numpy), part)) for x in (array.real, array.imag))
        return f"({re}, {im}):{literal.type.dtype.short}"
    if literal.type.shape == ():
        return f"{_scalar_text(literal)}:{literal.type.dtype.short}"
    array = np.ascontiguousarray(literal.array)
    raw = array if NUMPY_LITTLE else array.byteswap()
    return f'{literal.type}"{base64.b64encode(raw.tobytes()).decode()}"'


def _scalar_text(literal: Literal) -> str:
    dtype, array = literal.type.dtype, literal.array.reshape(())
    if dtype.is_bool:
        return "true" if array else "false"
    if dtype.python is int:
        return str(int(array))
    for text in (str(array[()]), repr(float(array))):
        if float_bits(text, dtype) == array.tobytes():
            return text
    return f"0x{int.from_bytes(array.tobytes(), sys.byteorder):0{dtype.bits // 4}x}"


def float_bits(text: str, dtype: DType) -> bytes | None:
    if not re.fullmatch(r"-?(\d+(\.\d*)?(e[+-]?\d+)?|inf|nan)", text):
        return None
    value = float(text)
    return element(value, dtype).tobytes() if dtype.has_zero or not value <= 0 else None


def from_bits(text: str, dtype: DType) -> np.ndarray | None:
    """The number of the bits in a text; None if it has none of the dtype."""
    value = int(text, 16) if len(text) <= 18 else 1 << 64
    if dtype.python is not float or value >> dtype.bits:
        return None
    return np.frombuffer(value.to_bytes(dtype.itemsize, sys.byteorder), dtype.numpy).reshape(()).copy()


def from_text(text: str, minus: bool, dtype: DType) -> np.ndarray | None:
    """The number of a text; None if it has none of the dtype."""
    if dtype.is_bool:
        return np.array(text == "true") if text in ("true", "false") and not minus else None
    signed = "-" * minus + text
    if dtype.python is int:
        if not re.fullmatch(r"-?\d{1,20}", signed) or not _holds(int(signed), dtype):
            return None
        return np.array(int(signed), dtype.numpy)
    raw = float_bits(signed, dtype)
    return None if raw is None else np.frombuffer(raw, dtype.numpy).reshape(()).copy()


def _holds(value: int, dtype: DType) -> bool:
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    return low <= value < low + (1 << dtype.bits)


PRINT[0] = print_graph
