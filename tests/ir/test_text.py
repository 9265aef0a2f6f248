"""Graphs print and parse back; other text raises GraphError with its line number, never another error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.base.dims import Dim
from nacre.base.dtypes import ALL, DType, bool_, float32, int64
from nacre.base.errors import GraphError
from nacre.base.types import TensorType
from nacre.ir.graph import Builder, Graph, Literal
from nacre.ir.parse import _Line, _Values, parse
from nacre.ir.primitive import primitive_named
from nacre.ir.text import literal_text, param_text
from nacre.ops import control, dot, pointwise, reduce, view

assert dot and control and pointwise and reduce and view  # they register the primitives

F = TensorType((2, 3), float32)
LOSS = """\
graph loss(a: f32[B, 784], b: f32[784, 10]) where B in 1..512:
  c: f32[B, 10] = dot[batch=((), ()), contract=((1,), (0,))](a, b)  # model.py:12
  d: f32[] = sum[axes=(0, 1)](c)
  return d"""


def test_parses_text_written_by_hand() -> None:
    graph = parse(LOSS)
    assert str(graph) == LOSS
    assert graph.equations[0].source == "model.py:12"
    (symbol,) = graph.inputs[0].type.shape[0].symbols()  # type: ignore[union-attr]
    assert (symbol.low, symbol.high) == (1, 512)


def branches() -> Graph:
    inner = Builder("deep")
    x = inner.input(F)
    deep = inner.finish(inner.add(primitive_named("neg"), [x]))
    b = Builder("a branch")
    x = b.input(F)
    then = b.finish(b.add(primitive_named("call"), [x], {"graph": deep}))
    b = Builder("f32")
    x = b.input(F)
    orelse = b.finish([x])
    b = Builder("whole")
    p, x = b.input(TensorType((), bool_)), b.input(F)
    (y,) = b.add(primitive_named("cond"), [p, x], {"then": then, "orelse": orelse})
    return b.finish([y, x, y])


def test_graphs_in_graphs() -> None:
    graph = branches()
    text = str(graph)
    assert parse(text) == graph
    assert str(parse(text)) == text
    assert '    then: graph "a branch"(a: f32[2, 3]):' in text.splitlines()


def test_no_inputs_no_outputs() -> None:
    graph = Builder("nothing").finish([])
    assert parse(str(graph)) == graph


def test_more_values_than_letters() -> None:
    b = Builder("long")
    x = b.input(F)
    for _ in range(7_000):  # past `inf`, which is a word of the language
        (x,) = b.add(primitive_named("neg"), [x])
    graph = b.finish([x])
    assert parse(str(graph)) == graph


DIMS = ("B", "time", "f32", "inf", "where", "größe")


@st.composite
def dims(draw: st.DrawFn) -> Any:
    size: Any = draw(st.integers(0, 5))
    for name in draw(st.lists(st.sampled_from(DIMS), max_size=3)):
        size = size * draw(st.integers(-3, 3)) + Dim.symbol(name, 1, 99) * draw(st.integers(1, 4))
        if draw(st.booleans()):
            size = size // draw(st.integers(1, 5))
        if draw(st.booleans()):
            size = size * size
    return size


@given(st.lists(dims(), min_size=1, max_size=3))
def test_symbolic_sizes(shape: list[Any]) -> None:
    b = Builder("sized")
    b.input(TensorType(shape, float32))
    b.add(primitive_named("dimension"), [], {"size": shape[0]})
    b.add(primitive_named("fill"), [], {"value": 1.0, "shape": tuple(shape), "dtype": float32})
    graph = b.finish([])
    assert parse(str(graph)) == graph


@st.composite
def literals(draw: st.DrawFn) -> Literal:
    dtype: DType = draw(st.sampled_from(ALL))
    shape = draw(st.sampled_from([(), (), (3,), (2, 2), (0,)]))
    raw = draw(st.binary(min_size=dtype.itemsize * math.prod(shape), max_size=dtype.itemsize * math.prod(shape)))
    if dtype is bool_:
        raw = bytes(x & 1 for x in raw)
    return Literal(np.frombuffer(raw, dtype.numpy).reshape(shape).copy(), TensorType(shape, dtype))


@given(literals())
def test_constants_keep_their_bits(literal: Literal) -> None:
    graph = Builder("constant").finish([literal])
    (found,) = parse(str(graph)).outputs
    assert isinstance(found, Literal) and found.key == literal.key


@pytest.mark.parametrize(
    "value, dtype, text",
    [
        (1.0, "f32", "1.0:f32"),
        (0.1, "f32", "0.1:f32"),
        (-0.0, "f64", "-0.0:f64"),
        (math.inf, "f16", "inf:f16"),
        (7, "u8", "7:u8"),
        (-7, "i64", "-7:i64"),
        (True, "bool", "true:bool"),
        (1e-45, "f32", "1e-45:f32"),
    ],
)
def test_constants_are_readable(value: float, dtype: str, text: str) -> None:
    held = next(d for d in ALL if d.short == dtype)
    assert literal_text(Literal(np.array(value, held.numpy), TensorType((), held))) == text


PARAMETERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(ALL),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)


@given(PARAMETERS)
def test_parameters(value: Any) -> None:
    b = Builder("parameters")
    x = b.input(F)
    (y,) = b.add(primitive_named("neg"), [x])
    text = str(b.finish([y]))
    from_text = _Values({}).param(_Line(param_text(value), 1))
    assert repr(from_text) == repr(value) and parse(text).output_types == (F,)


@pytest.mark.parametrize(
    "change, fault",
    [
        (("dot", "dott"), "line 2: expected the name of a primitive; got dott"),
        (("(a, b)", "(a, z)"), "line 2"),
        (("axes=(0, 1)", "axes=(0, 9)"), "line 3: sum"),
        (("axes=(0, 1)", "axis=0"), "line 3: sum: operands and parameters"),
        (("d: f32[]", "d: f32[2]"), "line 3"),
        (("d: f32[]", "c: f32[]"), "line 3: expected new names"),
        (("f32[B, 784]", "f32[T, 784]"), "line 1: expected a declared size"),
        (("1..512", "9..5"), "line 1"),
        (("1..512", "1..99999999999999999999"), "line 1"),
        (("  return d", ""), "end of the text"),
        (("return d", "return"), None),
        (("graph loss", "graf loss"), "line 1: expected 'graph'"),
        (("return d", "return d\nmore"), "line 5: expected the end of the text"),
        (("axes=(0, 1)", "axes=" + "(" * 5000), "line 3"),
        (("axes=(0, 1)", "axes=(" + "9" * 6000 + ",)"), "line 3"),
        (("axes=(0, 1)", "axes=" + "*".join(["(B+1)"] * 60)), "line 3"),
        (("(c)", "(1.5.5:f32)"), "line 3"),
        (("(c)", '(f32[2]"AAA=")'), "line 3"),
        (("(c)", "(0x1ffffffff:f32)"), "line 3"),
        (("(c)", "(c"), "line 3"),
        (("(c)", "(\x00)"), "line 3"),
    ],
)
def test_faults_name_their_line(change: tuple[str, str], fault: str | None) -> None:
    text = LOSS.replace(*change)
    if fault is None:
        assert parse(text).outputs == ()
        return
    with pytest.raises(GraphError, match=r"line|text") as raised:
        parse(text)
    assert fault in str(raised.value)


@settings(max_examples=300)
@given(st.data())
def test_damaged_text_raises_only_graph_errors(data: st.DataObject) -> None:
    text = str(branches()) if data.draw(st.booleans()) else LOSS
    at = data.draw(st.integers(0, len(text)))
    end = min(len(text), at + data.draw(st.integers(0, 6)))
    damaged = text[:at] + data.draw(st.text('()[]<>=,:.*/+-^ \n#"abcf3210xe', max_size=6)) + text[end:]
    try:
        graph = parse(damaged)
    except GraphError:
        return
    assert parse(str(graph)) == graph


def test_shapes_need_a_dtype_that_exists() -> None:
    with pytest.raises(GraphError, match="a type such as"):
        parse("graph g(a: f33[2]):\n  return a")
    assert parse("graph g(a: i64[2]):\n  return a").input_types == (TensorType((2,), int64),)
