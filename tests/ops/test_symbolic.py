"""Operations compiled once for a symbolic size give the bits of fixed sizes, including 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre.base.dims import Dim, evaluate
from nacre.base.dtypes import float32, int64, uint32
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.ir.graph import Builder
from nacre.ir.primitive import primitive_named
from nacre.trace.bind import bind, executor
from ops import samples

B = Dim.symbol("B", max=64)
ONE = Dim.symbol("B", min=1, max=64)  # where at least one element is needed


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, float32)


def i64(*shape: Any) -> TensorType:
    return TensorType(shape, int64)


Params = dict[str, Any]
PADDING: Params = {"low": (1, 0), "high": (2, 1), "interior": (0, 0)}
WINDOW: Params = {"size": (2, 2), "stride": (2, 1), "padding": ((1, 0), (0, 1))}
SLICES: Params = {"starts": (1, 0), "stops": (ONE, 5), "steps": (1, 2)}
KEY = TensorType((2,), uint32)
CASES: list[tuple[str, tuple[TensorType, ...], Params]] = [
    ("mul", (f32(B, 3), f32(B, 3)), {}),
    ("iota", (), {"shape": (B, 3), "axis": 0, "dtype": int64}),
    ("dimension", (), {"size": 2 * B + 1}),
    ("permute", (f32(B, 3),), {"axes": (1, 0)}),
    ("reshape", (f32(B, 6),), {"shape": (2 * B, 3)}),
    ("broadcast", (f32(3),), {"shape": (3, B), "axes": (0,)}),
    ("slice", (f32(ONE, 5),), SLICES),
    ("flip", (f32(B, 5),), {"axes": (0, 1)}),
    ("pad", (f32(B, 5), f32()), PADDING),
    ("pad", (f32(B, 5), f32()), {"low": (0, 0), "high": (0, 0), "interior": (1, 2)}),
    ("pad", (f32(5, B), f32()), {"low": (0, 1), "high": (1, 2), "interior": (0, 3)}),
    ("concatenate", (f32(B, 5), f32(2, 5), f32(B, 5)), {"axis": 0}),
    ("sum", (f32(B, 5),), {"axes": (0,)}),
    ("sum", (f32(5, B),), {"axes": (1,)}),
    ("max", (f32(B, 5),), {"axes": (0, 1)}),
    ("argmax", (f32(ONE, 5),), {"axes": (0,)}),
    ("argsort", (f32(B, 5),), {"axis": 0, "descending": True}),
    ("argsort", (f32(5, B),), {"axis": 1, "descending": False}),
    ("cumsum", (f32(B, 5),), {"axis": 0, "reverse": True}),
    ("cumsum", (f32(5, B),), {"axis": 1, "reverse": False}),
    ("cumprod", (f32(B, 5),), {"axis": 0}),
    ("search", (f32(B), f32(5, B)), {"rows": 0, "right": True}),
    ("search", (f32(B, 5), f32(B)), {"rows": 1, "right": False}),
    ("take", (f32(ONE, 5), i64(7)), {"axis": 0}),
    ("take", (f32(9, 5), i64(B)), {"axis": 0}),
    ("take_add", (f32(B, 5), i64(7), f32(7, 5)), {"axis": 0}),
    ("take_add", (f32(9, 5), i64(B), f32(B, 5)), {"axis": 0}),
    ("gather", (f32(4, B), i64(3, B)), {"axis": 0}),
    ("scatter_add", (f32(4, B), i64(3, B), f32(3, B)), {"axis": 0}),
    ("scatter", (f32(ONE, 5), f32(7, 5), i64(7)), {"axes": (0,)}),
    ("scatter", (f32(4, 9), f32(B), i64(B), i64(B)), {"axes": (0, 1)}),
    ("dynamic_slice", (f32(ONE, 5), i64(), i64()), {"sizes": (1, 3)}),
    ("dynamic_update_slice", (f32(ONE, 5), f32(1, 3), i64(), i64()), {}),
    ("dot", (f32(ONE, 7), f32(7, 3)), {"contract": ((1,), (0,)), "batch": ((), ())}),
    ("dot", (f32(4, ONE), f32(ONE, 3)), {"contract": ((1,), (0,)), "batch": ((), ())}),
    ("fft", (f32(B, 12, 2),), {"inverse": True}),
    ("rfft", (f32(2, B, 15),), {}),
    ("irfft", (f32(B, 9, 2),), {"n": 16}),
    ("window_sum", (f32(B, 2, 5, 6),), WINDOW),
    ("window_max", (f32(B, 2, 5, 6),), {**WINDOW, "dilation": (1, 1)}),
    ("random_bits", (KEY,), {"shape": (B, 3), "dtype": uint32}),
]


def fixed(x: Any, size: int) -> Any:
    """A parameter or shape with the symbol replaced by a number."""
    if isinstance(x, tuple):
        return tuple(fixed(y, size) for y in x)
    return evaluate(x, {"B": size}) if isinstance(x, Dim) else x


@pytest.mark.parametrize(("name", "types", "params"), CASES)
@pytest.mark.parametrize("size", [0, 1, 33])
def test_one_program_serves_every_size(name: str, types: tuple[TensorType, ...], params: Params, size: int) -> None:
    symbol = ONE if ONE in [n for t in types for n in t.shape] else B
    if size == 0 and symbol is ONE:
        pytest.skip("the operation needs an element")
    rng = samples.generator(size)
    arrays = [samples.random(t.dtype, fixed(t.shape, size), rng) for t in types]
    arrays = [x % 6 if x.dtype == np.int64 else x for x in arrays]
    primitive, builder = primitive_named(name), Builder(name)
    operands = [builder.input(t) for t in types]
    builder.input(f32(symbol))  # so that an input always has the size
    graph = builder.finish(builder.add(primitive, operands, params))
    inputs = [from_numpy(x) for x in arrays]
    (found,) = executor().execute(graph, [*inputs, from_numpy(np.zeros(size, np.float32))])
    wanted = bind(primitive, *inputs, **{k: fixed(v, size) for k, v in params.items()})
    assert found.type is wanted.type
    np.testing.assert_array_equal(to_numpy(found), to_numpy(wanted))
