"""Type rules: refused operands and the messages, and symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nacre.base.dims import Dim
from nacre.base.dtypes import DType, bool_, dtype_named, float32, int32, int64, uint32
from nacre.base.errors import ArgumentError, DTypeError, Error, ShapeError
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy
from nacre.ir.graph import Builder, Graph
from nacre.ir.primitive import primitive_named
from nacre.ops import control, convolution, dot, index, pointwise, random, reduce, search, shape, view, window, winograd
from nacre.trace.value import Value


def of(*sizes: int, dtype: DType = float32) -> Value:
    """Zeros."""
    return from_numpy(np.zeros(sizes, dtype.numpy))


X = (2, 3)
WHOLE = {"dtype": int32}
IMAGE = (2, 4, 5, 6)

REFUSED: list[tuple[Callable[[], Any], type[Error], str]] = [
    (
        lambda: pointwise.add(of(2), of(3)),
        ShapeError,
        r"add: operands must have one type.*f32\[2\], f32\[3\]",
    ),
    (lambda: pointwise.add(of(2), of(2, dtype=int32)), DTypeError, r"add: .*f32\[2\], i32\[2\]"),
    (
        lambda: pointwise.add(of(2, dtype=bool_), of(2, dtype=bool_)),
        DTypeError,
        r"add: .*bool\[2\]",
    ),
    (
        lambda: pointwise.exp(of(2, dtype=int32)),
        DTypeError,
        r"exp: the dtype must be floating-point.*i32\[2\]",
    ),
    (lambda: pointwise.shl(of(2), of(2)), DTypeError, r"shl: .*f32\[2\]"),
    (lambda: pointwise.div(of(2, **WHOLE), of(2, **WHOLE)), DTypeError, r"div: .*i32\[2\]"),
    (lambda: pointwise.select(of(2), of(2), of(2)), DTypeError, r"select: the condition must have dtype bool"),
    (
        lambda: pointwise.select(of(3, dtype=bool_), of(2), of(2)),
        ShapeError,
        r"select: the condition must have shape \[2\]",
    ),
    (lambda: pointwise.bitcast(of(2), int64), DTypeError, "bitcast: .* must have 32 bits; got int64"),
    (lambda: pointwise.fill(300, (2,), dtype_named("int8")), DTypeError, "fill: .*int8.*300"),
    (lambda: pointwise.fill(1.5, (2,), int32), DTypeError, "fill: .*int32.*1.5"),
    (lambda: pointwise.iota((2,), 1, int32), ShapeError, "iota: the axis"),
    (lambda: view.permute(of(*X), (0, 0)), ShapeError, "permute: axes must name each of the 2 axes"),
    (lambda: view.reshape(of(*X), (4,)), ShapeError, r"reshape: .* must have 6 elements; got \[4\] with 4"),
    (lambda: view.broadcast(of(*X), (3, 3), (0, 1)), ShapeError, "broadcast: axis 0 must have size 1 or 3"),
    (lambda: view.broadcast(of(*X), (3, 2), (1, 0)), ShapeError, "broadcast: axes must be increasing"),
    (
        lambda: view.slice_(of(*X), (0, 2), (2, 4)),
        ShapeError,
        r"slice: 0 <= start <= stop <= 3.*2:4:1",
    ),
    (
        lambda: view.slice_(of(*X), (0,), (2,)),
        ShapeError,
        "slice: each axis of .* needs a start, stop and step",
    ),
    (lambda: view.flip(of(*X), (2,)), ShapeError, r"flip: axes must be increasing and in \[0, 2\)"),
    (lambda: view.pad(of(*X), of(), (-1, 0), (0, 0)), ArgumentError, "pad: amounts must be at least 0"),
    (lambda: view.pad(of(*X), of(1), (1, 0), (0, 0)), DTypeError, r"pad: the value for .* must have type f32\[\]"),
    (
        lambda: view.concatenate([of(*X), of(3, 3)], 1),
        ShapeError,
        r"concatenate: .*\[2, 3\] and \[3, 3\]",
    ),
    (
        lambda: view.concatenate([of(*X), of(*X, **WHOLE)], 0),
        DTypeError,
        "concatenate: operands must have one dtype",
    ),
    (lambda: reduce.sum_(of(*X, dtype=bool_), (0,)), DTypeError, "sum: .*bool"),
    (lambda: reduce.max_(of(*X), (2,)), ShapeError, "max: axes must be increasing"),
    (lambda: reduce.any_(of(*X), (0,)), DTypeError, "any: the dtype must be bool"),
    (
        lambda: reduce.argmax(of(2, 0), 1),
        ShapeError,
        "argmax: axis 1 must not be empty",
    ),
    (lambda: reduce.cumsum(of(*X), 2), ShapeError, "cumsum: the axis"),
    (lambda: reduce.cumprod(of(*X), 2), ShapeError, "cumprod: the axis"),
    (lambda: search.search(of(*X), of(3)), ShapeError, "search: x must have 0 axes of rows and one more"),
    (lambda: search.search(of(*X), of(4, 2), 1), ShapeError, "search: the rows of v"),
    (lambda: search.search(of(3), of(3, **WHOLE)), DTypeError, "search: operands must have one type"),
    (lambda: index.take(of(*X), of(2), 0), DTypeError, "take: indices: .*integer"),
    (lambda: index.take(of(0, 3), of(2, **WHOLE), 0), ShapeError, "take: axis 0 must not be empty"),
    (
        lambda: index.gather(of(*X), of(3, 3, **WHOLE), 1),
        ShapeError,
        "gather: indices must have the sizes",
    ),
    (
        lambda: index.scatter_add(of(*X), of(*X, **WHOLE), of(3, 3), 0),
        ShapeError,
        "scatter_add: updates must have shape",
    ),
    (
        lambda: index.take_add(of(*X), of(4, **WHOLE), of(4, 2), 0),
        ShapeError,
        r"take_add: updates must have shape \[4, 3\]",
    ),
    (
        lambda: index.dynamic_slice(of(*X), (of(dtype=int64),), X),
        ShapeError,
        "dynamic_slice: each axis of .* needs a start and a size",
    ),
    (
        lambda: index.dynamic_slice(of(3), (of(dtype=int64),), (4,)),
        ShapeError,
        r"sizes must be within \[3\].*\[4\]",
    ),
    (
        lambda: index.dynamic_update_slice(of(3), of(2), (of(),)),
        DTypeError,
        "starts must have dtype int64",
    ),
    (
        lambda: dot.dot(of(2, 3), of(4, 5), ((1,), (0,))),
        ShapeError,
        r"dot: contracted axes 1 and 0 must have equal sizes",
    ),
    (
        lambda: dot.dot(of(2, 3), of(3, 5, **WHOLE), ((1,), (0,))),
        DTypeError,
        "dot: the second operand must have dtype float32",
    ),
    (lambda: dot.dot(of(2, 3), of(3, 5), ((1, 1), (0, 0))), ShapeError, "dot: each axis"),
    (lambda: convolution.convolve(of(*IMAGE), of(3, 3, 2, 2)), ShapeError, "convolve: input channels must match"),
    (
        lambda: convolution.convolve(of(*IMAGE), of(3, 4, 7, 2)),
        ShapeError,
        "convolve: the window must fit the padded axis",
    ),
    (
        lambda: convolution.convolve(of(*IMAGE), of(3, 4, 2, 2), stride=(0, 1)),
        ArgumentError,
        "convolve: stride and dilation must be positive",
    ),
    (
        lambda: convolution.convolve_input_grad(of(*IMAGE), of(4, 4, 2, 2), shape=IMAGE),
        ShapeError,
        "the cotangent must have shape",
    ),
    (lambda: winograd.winograd(of(*IMAGE), of(3, 4, 3, 2)), ShapeError, r"winograd: filters .*\[O, C/groups, 3, 3\]"),
    (lambda: winograd.winograd(of(*IMAGE, **WHOLE), of(3, 4, 3, 3)), DTypeError, "winograd: .* float32 or float64"),
    (
        lambda: winograd.winograd_input_grad(of(*IMAGE), of(4, 4, 3, 3), shape=IMAGE),
        ShapeError,
        "the cotangent must have shape",
    ),
    (
        lambda: window.window_max(of(3, 4), (2, 2)),
        ShapeError,
        r"window_max: the operand must be \[N, C, H, W\]",
    ),
    (
        lambda: window.window_sum(of(*IMAGE), (9, 2)),
        ShapeError,
        "window_sum: the window must fit the padded axis",
    ),
    (lambda: random.random_bits(of(2), (3,)), DTypeError, "random_bits: the key must have dtype uint32"),
    (
        lambda: random.random_bits(of(3, dtype=uint32), (3,)),
        ShapeError,
        "random_bits: the last axis of the key must have size 2",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_errors_name_the_reason(make: Callable[[], Any], error: type[Error], message: str) -> None:
    with pytest.raises(error, match=message) as found:
        make()
    assert str(found.value).count(";") >= 1, "what must hold; what it got"


# ---- control flow


def identity(*types: TensorType) -> Graph:
    b = Builder("identity")
    return b.finish([b.input(t) for t in types])


def test_control_flow_checks_its_graphs() -> None:
    x, y = of(2), of(3)
    with pytest.raises(ShapeError, match=r"call: operands must have types \(f32\[3\]\)"):
        control.call(identity(y.type), x)
    with pytest.raises(DTypeError, match=r"cond: the condition must have type bool\[\]"):
        control.cond(x, identity(x.type), identity(x.type), x)
    with pytest.raises(DTypeError, match="while: the condition"):
        control.while_loop(identity(x.type), identity(x.type), x)
    with pytest.raises(ShapeError, match="scan: the leading axis must have size 5"):
        control.scan(identity(x.type), [], [of(4, 2)], 5)


# ---- symbolic sizes

B = Dim.symbol("B", min=2, max=64)


def result(name: str, *types: TensorType, **params: Any) -> TensorType:
    return primitive_named(name).result_types(types, params)[0]


def typed(*sizes: Any, dtype: DType = float32) -> TensorType:
    return TensorType(sizes, dtype)


PLAIN = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
HALVED = {"size": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))}
MATRICES = {"contract": ((1,), (0,)), "batch": ((), ())}
INNER = {"starts": (1, 0), "stops": (B, 3), "steps": (1, 1)}
AROUND = {"low": (1,), "high": (2,), "interior": (1,)}
SYMBOLIC: list[tuple[str, tuple[TensorType, ...], dict[str, Any], TensorType]] = [
    ("reshape", (typed(B, 4),), {"shape": (4 * B,)}, typed(4 * B)),
    ("reshape", (typed(B, 2, 3),), {"shape": (2 * B, 3)}, typed(2 * B, 3)),
    ("broadcast", (typed(1, 3),), {"shape": (B, 3), "axes": (0, 1)}, typed(B, 3)),
    ("slice", (typed(B, 3),), INNER, typed(B - 1, 3)),
    ("pad", (typed(B), typed()), AROUND, typed(2 * B + 2)),
    ("concatenate", (typed(B, 2), typed(3, 2)), {"axis": 0}, typed(B + 3, 2)),
    ("sum", (typed(B, 3),), {"axes": (0,)}, typed(3)),
    ("take", (typed(B, 3), typed(5, dtype=int32)), {"axis": 0}, typed(5, 3)),
    ("dot", (typed(B, 7), typed(7, 3)), MATRICES, typed(B, 3)),
    ("window_sum", (typed(B, 1, 4, 4),), HALVED, typed(B, 1, 2, 2)),
    ("convolve", (typed(B, 3, 8, 8), typed(4, 3, 3, 3)), PLAIN, typed(B, 4, 8, 8)),
]


@pytest.mark.parametrize(("name", "types", "params", "wanted"), SYMBOLIC)
def test_sizes_may_be_symbols(
    name: str, types: tuple[TensorType, ...], params: dict[str, Any], wanted: TensorType
) -> None:
    assert result(name, *types, **params) is wanted


def test_reshape_splits_at_common_products() -> None:
    assert shape.factor((2, 3, 4), (6, 1, 2, 2)) == [((0, 1), (0,)), ((2,), (2, 3))]
    assert shape.factor((B, 4, 3), (4 * B, 3)) == [((0, 1), (0,)), ((2,), (1,))]
    assert shape.factor((1, 1), ()) == []


def test_the_error_for_an_undecidable_size_suggests_bounds() -> None:
    free = Dim.symbol("N")
    with pytest.raises(ShapeError, match="bounds"):
        result("slice", typed(free), starts=(1,), stops=(free,), steps=(1,))


@pytest.mark.parametrize("size", [(0, 3), (3, 0), (True, 3), (3,), (3, 3, 3)])
@pytest.mark.parametrize("pool", [window.window_max, window.window_sum])
def test_windows_have_two_positive_sizes(pool: Any, size: Any) -> None:
    with pytest.raises(ArgumentError, match="a window must have two sizes"):
        pool(from_numpy(np.zeros((1, 1, 9, 40), np.float32)), size)
