"""Products with a dtype equal those of converted operands, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.ir.parse import parse

SHAPES = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((33, 300), (300, 50)), ((2, 3, 4), (4, 5)), ((0, 4), (4, 2)),
    ((6, 1, 3, 5), (2, 5, 5)), ((2, 0), (0, 3)), ((1, 513), (513, 70)),
]  # fmt: skip
INTEGERS = [nc.int8, nc.uint8, nc.int16, nc.uint16]


def _integers(dtype: nc.DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    info = np.iinfo(dtype.numpy)
    return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("wide", [nc.int32, nc.uint32, nc.int64, nc.int16], ids=str)
def test_integers(dtype: nc.DType, wide: nc.DType, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(a) + len(b))
    x, y = _integers(dtype, a, rng), _integers(dtype, b, rng)
    want = np.matmul(x.astype(np.int64), y.astype(np.int64)).astype(wide.numpy)
    s, t = nc.tensor(x), nc.tensor(y)
    for found in (nc.matmul(s, t, dtype=wide), nc.jit(lambda s, t: nc.matmul(s, t, dtype=wide))(s, t)):
        assert found.dtype is wide
        np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_half_types_with_float32(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x, y = (nc.tensor(rng.normal(size=s).astype(np.float32)).astype(name) for s in (a, b))
    want = x.astype(nc.float32) @ y.astype(nc.float32)
    for found in (nc.matmul(x, y, dtype=nc.float32), nc.jit(lambda s, t: nc.matmul(s, t, dtype="float32"))(x, y)):
        assert found.dtype is nc.float32
        assert found.numpy().tobytes() == want.numpy().tobytes()


def test_operands_of_two_dtypes_are_converted() -> None:
    rng = np.random.default_rng(4)
    x, y = _integers(nc.uint8, (5, 70), rng), _integers(nc.int8, (70, 9), rng)
    want = x.astype(np.int32) @ y.astype(np.int32)
    found = nc.matmul(nc.tensor(x), nc.tensor(y), dtype=nc.int32)
    np.testing.assert_array_equal(found.numpy(), want)
    found = nc.matmul(nc.tensor(x), nc.tensor(y.astype(np.float32)), dtype=nc.float32)
    np.testing.assert_array_equal(found.numpy(), want.astype(np.float32))
    np.testing.assert_array_equal(nc.tensordot(nc.tensor(x), nc.tensor(y), axes=1, dtype=nc.int32).numpy(), want)
    np.testing.assert_array_equal(nc.vecdot(nc.tensor(x), nc.tensor(y[:, 0]), dtype=nc.int32).numpy(), want[:, 0])


@pytest.mark.parametrize(
    ("text", "shapes"),
    [("ij,jk->ik", [(3, 40), (40, 5)]), ("ij->i", [(3, 40)]), ("ij,jk,kl->l", [(3, 40), (40, 5), (5, 2)]),
     ("i,i->", [(40,), (40,)]), ("ij,kj->ki", [(3, 40), (4, 40)]), ("i->i", [(4,)]), ("bij,bjk->bik", [(2, 3, 4)] * 2)],
)  # fmt: skip
def test_einsum(text: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(7)
    shapes = [(*s[:-2], s[-1], s[-1]) if text.startswith("bij") else s for s in shapes]
    xs = [_integers(nc.int8, s, rng) for s in shapes]
    found = nc.einsum(text, *map(nc.tensor, xs), dtype=nc.int32)
    assert found.dtype is nc.int32
    np.testing.assert_array_equal(found.numpy(), np.einsum(text, *(x.astype(np.int32) for x in xs)))


def test_greatest_sums_and_wrapping() -> None:
    least = nc.full((1, 1 << 16), -128, dtype=nc.int8)
    assert nc.matmul(least, least.mT, dtype=nc.int32).item() == 1 << 30
    least = nc.full((1, 1 << 18), -128, dtype=nc.int8)
    assert nc.matmul(least, least.mT, dtype=nc.int32).item() == 0  # 2³² wraps
    assert nc.matmul(least, least.mT, dtype=nc.int64).item() == 1 << 32
    assert (least @ least.mT).dtype is nc.int8


def test_narrow_operands_are_read_without_conversion() -> None:
    x, y = nc.ones((40, 30), dtype=nc.int8), nc.ones((30, 20), dtype=nc.int8)
    product = nc.jit(lambda x, y: nc.matmul(x, y, dtype=nc.int32)).trace(x, y)
    assert [e.primitive.name for e in product.equations] == ["widened_dot"]
    assert "dtype=i32" in str(product)
    assert parse(str(product)) == product


def test_dequantisation_is_an_epilogue_of_the_product() -> None:
    rng = np.random.default_rng(5)
    x, y = (nc.tensor(_integers(nc.int8, s, rng)) for s in ((33, 300), (50, 300)))
    scale = nc.tensor(rng.normal(size=50).astype(np.float32))

    def layer(x: nc.Tensor, y: nc.Tensor) -> nc.Tensor:
        return nc.tanh(nc.matmul(x, y.mT, dtype=nc.int32).astype(nc.float32) * scale)

    f = nc.jit(layer)
    assert f(x, y).numpy().tobytes() == layer(x, y).numpy().tobytes()
    assert len(f.concrete(x, y).executable.plan.steps) == 1


def test_batches_and_derivatives() -> None:
    rng = np.random.default_rng(6)
    x, y = _integers(nc.int8, (3, 4, 30), rng), _integers(nc.int8, (30, 7), rng)
    product = lambda x, y: nc.matmul(x, y, dtype=nc.int32)  # noqa: E731
    want = x.astype(np.int32) @ y.astype(np.int32)
    np.testing.assert_array_equal(nc.vmap(product, (0, None))(nc.tensor(x), nc.tensor(y)).numpy(), want)
    both = nc.vmap(product)(nc.tensor(x), nc.tensor(np.stack([y] * 3)))
    np.testing.assert_array_equal(both.numpy(), want)
    turned = nc.vmap(product, (None, 0))(nc.tensor(x[0]), nc.tensor(np.stack([y] * 2)))
    np.testing.assert_array_equal(turned.numpy(), np.stack([want[0]] * 2))

    a, b = (nc.tensor(rng.normal(size=s).astype(np.float32)).astype(nc.bfloat16) for s in ((5, 30), (30, 7)))
    narrow = lambda a, b: nc.sum(nc.sin(nc.matmul(a, b, dtype=nc.float32)))  # noqa: E731
    plain = lambda a, b: nc.sum(nc.sin(a.astype(nc.float32) @ b.astype(nc.float32)))  # noqa: E731
    for k in (0, 1):
        found, wanted = (nc.grad(f, k)(a, b).astype(nc.float32).numpy() for f in (narrow, plain))
        assert found.tobytes() == wanted.tobytes()
    with pytest.raises(nc.Error):
        nc.grad(lambda x, y: nc.sum(product(x, y)))(nc.tensor(x[0]), nc.tensor(y))


DIGITS: dict[str, Callable[..., Any]] = {  # of the numbers 0.1 and 0.2, and one
    "matmul": lambda x, **dtype: nc.matmul(x, [1.0, 1.0], **dtype),
    "vecdot": lambda x, **dtype: nc.vecdot(x, [1.0, 1.0], **dtype),
    "tensordot": lambda x, **dtype: nc.tensordot(x, [1.0, 1.0], axes=1, **dtype),
    "einsum": lambda x, **dtype: nc.einsum("i,i->", x, [1.0, 1.0], **dtype),
    "einsum of one operand": lambda x, **dtype: nc.einsum("...i->", x, **dtype),
    "sum": nc.sum, "prod": nc.prod, "cumulative_sum": nc.cumulative_sum, "cumulative_prod": nc.cumulative_prod,
    "nansum": nc.nansum, "nanprod": nc.nanprod, "nancumsum": nc.nancumsum, "nancumprod": nc.nancumprod,
    "trace": lambda x, **dtype: nc.linalg.trace([x, x], **dtype),
    "astype": lambda x, dtype: nc.astype(x, dtype),
}  # fmt: skip


@pytest.mark.parametrize("name", DIGITS)
def test_lists_of_numbers_are_converted_to_the_dtype_at_once(name: str) -> None:
    for numbers, dtype in (([0.1, 0.2], nc.float64), ([0.1j, 0.2], nc.complex128), ([0.1, 0.2], nc.complex128)):
        found = DIGITS[name](numbers, dtype=dtype)
        wanted = DIGITS[name](nc.tensor(numbers, dtype=dtype), dtype=dtype)
        assert found.dtype is dtype and found.numpy().tobytes() == wanted.numpy().tobytes()


def test_lists_of_numbers_must_fit_an_integer_dtype() -> None:
    for f in (nc.sum, nc.cumulative_prod, lambda x, dtype: nc.matmul(x, [1, 1], dtype=dtype)):
        with pytest.raises(nc.DTypeError, match="must fit int32"):
            f([0.5, 1.0], dtype=nc.int32)
    assert nc.astype([16777217.9, -1.9], nc.int32).tolist() == [16777217, -1]
    assert nc.astype(0.1, nc.float64).item() == 0.1


def test_errors() -> None:
    x, y = nc.ones((3, 4), dtype=nc.int8), nc.ones((5, 3), dtype=nc.int8)
    with pytest.raises(nc.ShapeError, match="inner sizes must match"):
        nc.matmul(x, y, dtype=nc.int32)
    with pytest.raises(nc.DTypeError, match="numeric"):
        nc.matmul(x, y.mT, dtype=nc.bool)
    with pytest.raises(nc.DTypeError, match="must be one of bool"):
        nc.matmul(x, y.mT, dtype="complex256")
    with pytest.raises(nc.ShapeError, match="inner sizes must match"):
        nc.matmul(x, y, dtype="complex64")


def test_real_operands_with_a_complex_dtype() -> None:
    rng = np.random.default_rng(8)
    x, y = (nc.tensor(rng.normal(size=s)) for s in ((5, 30), (30, 7)))
    want = x.astype(nc.complex128) @ y.astype(nc.complex128)
    for f in (nc.matmul, lambda x, y, dtype: nc.tensordot(x, y, axes=1, dtype=dtype)):
        for found in (f(x, y, dtype=nc.complex128), nc.jit(lambda x, y, f=f: f(x, y, dtype="complex128"))(x, y)):
            assert found.dtype is nc.complex128 and found.numpy().tobytes() == want.numpy().tobytes()
