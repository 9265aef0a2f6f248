"""Reductions, products, creation and random numbers against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre as nc
from same_bits import canonical

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
AXES: list[Any] = [None, 0, -1, (0, 2), (0, 1, 2), ()]


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    found = getattr(nc, name)(nc.tensor(X), axis=axis, keepdims=keepdims)
    wanted = getattr(np, name)(X.astype(np.float64), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-6, atol=1e-7)
    np.testing.assert_array_equal(getattr(nc.tensor(X), name)(axis=axis, keepdims=keepdims).numpy(), found.numpy())


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_searches(name: str, axis: Any) -> None:
    whole = np.round(X)
    found = getattr(nc, name)(nc.tensor(whole), axis=axis)
    assert found.dtype is nc.int64
    np.testing.assert_array_equal(found.numpy(), getattr(np, name)(whole, axis=axis))
    kept = getattr(nc, name)(nc.tensor(whole), axis=axis, keepdims=True)
    np.testing.assert_array_equal(kept.numpy(), getattr(np, name)(whole, axis=axis, keepdims=True))


def test_dtypes_of_sums() -> None:
    assert nc.sum(nc.ones(3, nc.int8)).dtype is nc.int64 and nc.prod(nc.ones(3, nc.uint8)).dtype is nc.uint64
    assert nc.sum(nc.tensor([True, True])).item() == 2
    assert nc.sum(nc.ones(3, nc.float16)).dtype is nc.float16
    assert nc.sum(nc.ones(3), dtype=nc.float64).dtype is nc.float64
    with pytest.raises(nc.DTypeError, match="mean"):
        nc.mean(nc.tensor([1, 2]))


def test_half_types_are_averaged_in_float32() -> None:
    x = np.full(4096, 1.001, np.float16)
    assert nc.mean(nc.tensor(x)).numpy() == np.float16(x.astype(np.float64).mean())
    assert nc.var(nc.tensor(x)).item() < 1e-6


def test_edges() -> None:
    assert nc.sum(nc.zeros((2, 0)), axis=1).tolist() == [0.0, 0.0] and nc.prod(nc.zeros(0)).item() == 1.0
    assert np.isnan(nc.max(nc.tensor([1.0, np.nan])).item()) and nc.any(nc.zeros(0)).item() is False
    for name in ("max", "min", "argmax"):
        with pytest.raises(nc.ShapeError, match=name):
            getattr(nc, name)(nc.zeros(0))
    assert nc.var(nc.tensor([1.0, 3.0]), correction=1).item() == 2.0


@pytest.mark.parametrize("axis", [None, 0, 1, ()], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_of_nothing(axis: Any, keepdims: bool) -> None:
    x = nc.zeros((2, 0))
    wanted = np.sum(np.zeros((2, 0)), axis=axis, keepdims=keepdims) - np.inf

    def f(x: Any) -> Any:
        return nc.logsumexp(x, axis=axis, keepdims=keepdims)

    for g in (f, nc.jit(f), nc.jit(f, dynamic_shapes={"x": {1: nc.Dim("n", max=9)}})):
        np.testing.assert_array_equal(g(x).numpy(), wanted)
        assert nc.grad(lambda x, g=g: nc.sum(g(x)))(x).shape == (2, 0)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "logsumexp"])
def test_keepdim_means_keepdims(name: str) -> None:
    x = nc.tensor(X)
    wanted = getattr(nc, name)(x, axis=1, keepdims=True)
    assert canonical(getattr(nc, name)(x, axis=1, keepdim=True)) == canonical(wanted)
    if hasattr(x, name):
        assert canonical(getattr(x, name)(axis=1, keepdim=True)) == canonical(wanted)


def test_what_differs_from_pytorch_is_refused_with_keepdim_too() -> None:
    maximum: Any = nc.max
    for keywords in ({"dim": 1, "keepdim": True}, {"dim": 1}):
        with pytest.raises(nc.KindError, match=r"max: axis must be given by name; got dim=1"):
            maximum(nc.tensor(X), **keywords)
    with pytest.raises(nc.KindError, match=r"got 1 by position; .* write max\(x, axis=1\)"):
        maximum(nc.tensor(X), 1, keepdim=True)


def test_cumulative_sum_and_logsumexp() -> None:
    np.testing.assert_allclose(
        nc.cumulative_sum(nc.tensor(X), axis=1).numpy(), np.cumsum(X, axis=1), rtol=1e-6, atol=1e-6
    )
    big = np.float32([[1000.0, 1000.0], [-np.inf, -np.inf], [0.0, -np.inf]])
    found = nc.logsumexp(nc.tensor(big), axis=1).numpy()
    np.testing.assert_allclose(found, [1000 + np.log(2), -np.inf, 0.0], rtol=1e-6)


# ---- products

SHAPES = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((6, 1, 3, 4), (2, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 4), (4, 2)), ((2, 0), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=a).astype(np.float32), rng.normal(size=b).astype(np.float32)
    np.testing.assert_allclose((nc.tensor(x) @ nc.tensor(y)).numpy(), x @ y, rtol=1e-5, atol=1e-6)
    found = nc.matmul(nc.tensor(x[..., None] if len(a) == 1 else x).mT.mT, nc.tensor(y)) if len(a) > 1 else None
    if found is not None:
        np.testing.assert_allclose(found.numpy(), x @ y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("bij,bjk->bki", [(2, 3, 4), (2, 4, 5)]),
        ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("i,i->", [(3,), (3,)]), ("i,j->ij", [(3,), (4,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("ij,kj->i", [(2, 3), (4, 3)]), ("ab,ab->a", [(2, 3), (2, 3)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
        ("iji->j", [(3, 2, 3)]), ("aaa->a", [(4, 4, 4)]), ("aabb->ab", [(2, 2, 3, 3)]), ("ii->i", [(0, 0)]),
        ("baa,bcc->ac", [(2, 3, 3), (2, 4, 4)]), ("ff,fae,bef->ab", [(2, 2), (2, 3, 4), (5, 4, 2)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]), ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...ij,...jk", [(2, 3, 4), (1, 4, 5)]), ("...ij,...jk->...ik", [(1, 3, 4), (7, 2, 4, 5)]),
        ("...i->...", [(2, 3)]), ("i...->...", [(2, 3, 4)]), ("...j,j", [(2, 3), (3,)]), ("...,...", [(2, 3), (2, 3)]),
        ("ij...->ji...", [(2, 3, 4)]), ("...", [(2, 3)]), ("i...,j...->ij...", [(2, 3), (4, 3)]),
        ("...ii->...i", [(2, 3, 3)]), ("a...b,b...->a...", [(2, 3, 4), (4, 3)]), ("...i,i->...", [(3,), (3,)]),
    ],
)  # fmt: skip
def test_einsum(text: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(2)
    xs = [rng.normal(size=s).astype(np.float32) for s in shapes]
    np.testing.assert_allclose(nc.einsum(text, *map(nc.tensor, xs)).numpy(), np.einsum(text, *xs), rtol=1e-5, atol=1e-5)


def test_einsum_sums_over_the_axes_of_an_ellipsis_that_the_result_lacks() -> None:
    """As PyTorch does; NumPy refuses it."""
    x, y = (np.random.default_rng(k).normal(size=(2, 3, 4, 5)) for k in (1, 2))
    for text, wanted in (("ij...,ij...->ij", "ijkl,ijkl->ij"), ("...j,...j->j", "kilj,kilj->j")):
        np.testing.assert_allclose(nc.einsum(text, nc.tensor(x), nc.tensor(y)).numpy(), np.einsum(wanted, x, y))
    one = nc.einsum("...j,...j->j", nc.tensor(x[0, :1, :1]), nc.tensor(y)).numpy()
    np.testing.assert_allclose(one, np.einsum("j,kilj->j", x[0, 0, 0], y))


@pytest.mark.parametrize("text", ["ii->i", "ii,ij->j", "jii->j"])
def test_einsum_on_diagonals_is_differentiated_and_batched(text: str) -> None:
    parts = text.partition("->")[0].split(",")
    xs = [nc.asarray(np.random.default_rng(5).normal(size=(3, *(3 for _ in part)))) for part in parts]

    def f(*xs: Any) -> Any:
        """A loss of the result."""
        return nc.sum(nc.einsum(text, *xs) ** 3)

    one = [x[0] for x in xs]
    slopes = nc.grad(f)(*one)
    step = nc.asarray(np.random.default_rng(6).normal(size=one[0].shape)) * 1e-6
    wanted = (f(one[0] + step, *one[1:]) - f(one[0] - step, *one[1:])) / 2
    np.testing.assert_allclose(nc.sum(slopes * step).item(), wanted.item(), rtol=1e-5)
    assert nc.jit(nc.grad(f))(*one).tolist() == slopes.tolist()
    assert nc.vmap(nc.grad(f))(*xs)[0].tolist() == slopes.tolist()


def test_einsum_names_the_letter_of_two_sizes() -> None:
    with pytest.raises(nc.ShapeError, match=r"got 2 and 3 for 'i' \(operand 'ii' \(2, 3\)\); change"):
        nc.einsum("ii->i", nc.ones((2, 3)))
    with pytest.raises(
        nc.ShapeError, match=r"got 3 and 2 for 'j' \(operands 'ij' \(2, 3\) and 'jk' \(2, 3\)\); change"
    ):
        nc.einsum("ij,jk->ik", nc.ones((2, 3)), nc.ones((2, 3)))


def test_other_products() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(4, 3, 5)).astype(np.float32)
    a, b = nc.tensor(x), nc.tensor(y)
    np.testing.assert_allclose(nc.tensordot(a, b, axes=1).numpy(), np.tensordot(x, y, 1), rtol=1e-5, atol=1e-6)
    wanted = np.tensordot(x, y, ([2, 1], [0, 1]))
    np.testing.assert_allclose(nc.tensordot(a, b, axes=([2, 1], [0, 1])).numpy(), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(nc.vecdot(a, a, axis=1).numpy(), (x * x).sum(1), rtol=1e-5)
    full = nc.tensordot(a, a, axes=([0, 1, 2], [0, 1, 2]))
    np.testing.assert_allclose(full.numpy(), (x * x).sum(), rtol=1e-5)
    for f in (lambda: a @ a, lambda: nc.vecdot(a, b), lambda: nc.einsum("ij,jk->ik", a, b), lambda: a @ 2.0):
        with pytest.raises(nc.Error):
            f()


# ---- creation


@given(st.integers(-5, 5), st.integers(-5, 9), st.integers(1, 4) | st.integers(-4, -1))
@settings(max_examples=30, deadline=None)
def test_arange(start: int, stop: int, step: int) -> None:
    np.testing.assert_array_equal(nc.arange(start, stop, step).numpy(), np.arange(start, stop, step))


def test_creation() -> None:
    np.testing.assert_allclose(nc.arange(0.0, 1.0, 0.1).numpy(), np.arange(0.0, 1.0, 0.1), rtol=1e-6)
    np.testing.assert_array_equal(nc.eye(3, 4, k=1).numpy(), np.eye(3, 4, k=1))
    np.testing.assert_array_equal(nc.tril(nc.tensor(X), k=1).numpy(), np.tril(X, 1))
    np.testing.assert_array_equal(nc.triu(nc.tensor(X)).numpy(), np.triu(X))
    np.testing.assert_array_equal(nc.full_like(nc.tensor(X), 2).numpy(), np.full_like(X, 2))
    for a, b in zip(nc.meshgrid([1, 2], [3, 4, 5]), np.meshgrid([1, 2], [3, 4, 5]), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    facts = nc.finfo(nc.float32)
    assert (facts.eps, facts.max, facts.smallest_normal) == tuple(
        float(v) for v in (np.finfo(np.float32).eps, np.finfo(np.float32).max, np.finfo(np.float32).tiny)
    )


def test_data_of_all_kinds() -> None:
    assert nc.tensor([1, 2]).dtype is nc.int64 and nc.tensor([1.0]).dtype is nc.float32
    assert nc.tensor([True]).dtype is nc.bool and nc.tensor(np.float64([1])).dtype is nc.float64
    assert nc.tensor([1j, 2]).dtype is nc.complex64 and nc.tensor(np.ones(2, complex)).dtype is nc.complex128
    assert nc.tensor([np.int8(1), np.int8(2)]).dtype is nc.int8
    assert nc.tensor([nc.ones(2), nc.zeros(2)]).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert nc.tensor(np.arange(3).astype(">i4")).tolist() == [0, 1, 2]
    source = np.ones(2, np.float32)
    held = nc.tensor(source)
    source[0] = 5
    assert held.tolist() == [1.0, 1.0]
    for wrong in (object(), ["a"], [[1], [1, 2]], [[1j], [1, 2]], np.ones(2, np.clongdouble)):
        with pytest.raises(nc.Error):
            nc.tensor(wrong)


# ---- random numbers


def test_a_key_has_the_same_numbers_and_seeding_restarts_the_generator() -> None:
    key = nc.random.key(5)
    a, b = nc.random.normal((3,), key=key), nc.random.normal((3,), key=key)
    assert a.tolist() == b.tolist()
    first, second = nc.random.split(key)
    assert first.tolist() != second.tolist() != key.tolist()
    nc.random.seed(1)
    a = nc.random.uniform((4,))
    b = nc.random.uniform((4,))
    assert a.tolist() != b.tolist()
    nc.random.seed(1)
    assert nc.random.uniform((4,)).tolist() == a.tolist()


def test_compiled_functions_advance_the_generator() -> None:
    draw = nc.jit(lambda x: x + nc.random.uniform((2,)))
    nc.random.seed(3)
    found = [draw(nc.zeros(2)).tolist() for _ in range(3)]
    nc.random.seed(3)
    assert found == [nc.random.uniform((2,)).tolist() for _ in range(3)]
    assert found[0] != found[1] != found[2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_distributions(dtype: str) -> None:
    nc.random.seed(11)
    u = nc.random.uniform((20000,), -1, 3, dtype=dtype).numpy().astype(np.float64)
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.05 and abs(u.var() - 16 / 12) < 0.05
    z = nc.random.normal((20000,), 1.0, 2.0, dtype=dtype).numpy().astype(np.float64)
    assert abs(z.mean() - 1) < 0.06 and abs(z.std() - 2) < 0.06 and abs((((z - 1) / 2) ** 4).mean() - 3) < 0.25


def test_other_distributions_and_errors() -> None:
    nc.random.seed(2)
    n = nc.random.randint(-3, 4, (7000,)).numpy()
    assert (np.unique(n) == np.arange(-3, 4)).all() and np.bincount(n + 3).min() > 850
    b = nc.random.bernoulli(0.25, (20000,)).numpy()
    assert abs(b.mean() - 0.25) < 0.02
    for f in (
        lambda: nc.random.randint(3, 3), lambda: nc.random.key(-1), lambda: nc.random.uniform(dtype=nc.int32),
        lambda: nc.random.normal(key=nc.ones(2)), lambda: nc.random.uniform((-1,)),
    ):  # fmt: skip
        with pytest.raises(nc.Error):
            f()


# ---- running sums and products, differences

RUNNING: list[Any] = [
    ((6,), None), ((0,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 0, 3), -1), ((2, 0, 3), 1), ((40, 3), 0)
]  # fmt: skip
ALL_DTYPES = [nc.bool, nc.int8, nc.uint16, nc.int64, nc.float16, nc.float32, nc.float64]


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("initial", [False, True])
def test_running_sums_and_products(name: str, dtype: nc.DType, initial: bool) -> None:
    f, ufunc = getattr(nc, f"cumulative_{name}"), {"sum": np.add, "prod": np.multiply}[name]
    for shape, axis in (
        ((6,), None),
        ((0,), 0),
        ((3, 4), 1),
        ((3, 4), 0),
        ((2, 0, 3), -1),
        ((2, 0, 3), 1),
        ((40, 3), 0),
    ):
        x = np.random.default_rng(1).integers(0, 3, shape).astype(dtype.numpy)
        found = f(nc.tensor(x), axis=axis, include_initial=initial)
        assert found.dtype is getattr(nc, name)(nc.tensor(x)).dtype
        at = 0 if axis is None else axis
        wanted = ufunc.accumulate(x.astype(found.dtype.numpy), at)
        if initial:
            one = np.full_like(
                wanted, ufunc.identity, shape=[1 if k == at % len(shape) else s for k, s in enumerate(shape)]
            )
            wanted = np.concatenate([one, wanted], at)
        np.testing.assert_array_equal(found.numpy(), wanted)
    assert f(nc.ones(2, dtype), dtype=nc.float64).dtype is nc.float64


def test_running_products_of_special_numbers() -> None:
    x = np.float32([-0.0, 3.0, np.inf, 2.0, np.nan, 1.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(nc.cumulative_prod(x).numpy(), np.cumprod(x))
    assert np.signbit(nc.cumulative_prod(x).numpy()[:2]).all()
    assert nc.cumulative_prod(nc.tensor([100, 100], nc.int8), dtype=nc.int8).tolist() == [100, 16]
    with pytest.raises(nc.ShapeError, match="cumulative_prod: axis must be given"):
        nc.cumulative_prod(nc.ones((2, 2)))
    with pytest.raises(nc.DTypeError, match="cumulative_prod: operands must have a numeric dtype"):
        nc.cumulative_prod(nc.ones(2), dtype=nc.bool)


@pytest.mark.parametrize("zeros", [(), (0,), (3,), (1, 4), (6,)])
def test_derivatives_of_running_products(zeros: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).normal(size=7)
    x[list(zeros)] = 0
    lower = np.tril(np.ones((7, 7)))
    wanted = np.array([[np.prod(np.delete(x[: i + 1], k)) if k <= i else 0.0 for k in range(7)] for i in range(7)])
    assert wanted.shape == lower.shape
    for derivative in (nc.jacrev, nc.jacfwd):
        np.testing.assert_allclose(derivative(nc.cumulative_prod)(nc.tensor(x)).numpy(), wanted, atol=1e-12)
    second = nc.hessian(lambda v: nc.cumulative_prod(v)[-1])(nc.tensor(x)).numpy()
    pairs = [[np.prod(np.delete(x, [j, k])) if j != k else 0.0 for k in range(7)] for j in range(7)]
    np.testing.assert_allclose(second, pairs, atol=1e-12)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_differences(dtype: nc.DType, n: int) -> None:
    rng = np.random.default_rng(4)
    for shape, axis in (((6,), -1), ((3, 4), 0), ((3, 4), 1), ((0, 2), 0), ((2, 3, 1), -1)):
        x, more = (rng.integers(0, 9, shape).astype(dtype.numpy) for _ in range(2))
        np.testing.assert_array_equal(nc.diff(nc.tensor(x), axis=axis, n=n).numpy(), np.diff(x, n, axis))
        np.testing.assert_array_equal(nc.diff(nc.tensor(x), n, axis).numpy(), np.diff(x, n, axis))
        found = nc.diff(nc.tensor(x), axis=axis, n=n, prepend=nc.tensor(more), append=more)
        np.testing.assert_array_equal(found.numpy(), np.diff(np.concatenate([more, x, more], axis), n, axis))
        assert found.dtype is dtype


def test_refused_differences() -> None:
    with pytest.raises(nc.ArgumentError, match="diff: n must be at least 0"):
        nc.diff([1, 2], n=-1)
    with pytest.raises(nc.ShapeError, match="concat"):
        nc.diff(nc.ones((2, 2)), prepend=nc.ones((3, 2)))
    x = nc.ones(3)
    assert nc.diff(x, n=0) is not x


def test_running_functions_have_the_same_bits_in_every_mode() -> None:
    def f(x: Any) -> Any:
        return (
            nc.cumulative_prod(x, axis=0, include_initial=True),
            nc.cumulative_sum(x * 3, axis=-1, include_initial=True), nc.diff(x, n=2),
            nc.diff(x, axis=0, prepend=x[:1] * 2), nc.nextafter(x, nc.roll(x, 1)),
        )  # fmt: skip

    f.__name__ = "f"
    for dtype in (nc.float32, nc.float64, nc.float16, nc.bfloat16):
        x = nc.tensor(X).astype(dtype)
        rows = [f(row) for row in x]
        compiled = nc.jit(f)
        assert [[canonical(y) for y in compiled(row)] for row in x] == [[canonical(y) for y in row] for row in rows]
        batched = nc.vmap(f)(x)
        assert [canonical(y) for y in batched] == [canonical(nc.stack(ys)) for ys in zip(*rows, strict=True)]


# ---- neighbours


@pytest.mark.parametrize("dtype", [nc.float16, nc.float32, nc.float64], ids=str)
def test_nextafter(dtype: nc.DType) -> None:
    facts = np.finfo(dtype.numpy)
    values = [0.0, -0.0, 1.0, -1.0, 0.1, np.inf, -np.inf, np.nan, facts.max, -facts.max, facts.smallest_normal,
              -facts.smallest_normal, facts.smallest_subnormal, -facts.smallest_subnormal, 1 + facts.eps]  # fmt: skip
    a = np.array(values, dtype.numpy)
    x, y = a[:, None], a[None]
    with np.errstate(all="ignore"):
        wanted = np.where(x == y, y, np.nextafter(x, y))  # NumPy's float16 keeps the sign of x there
    found = nc.nextafter(nc.tensor(x), nc.tensor(y)).numpy()
    known = ~np.isnan(wanted)
    assert (np.isnan(found) == ~known).all() and (found == wanted)[known].all()
    assert (np.signbit(found) == np.signbit(wanted))[known].all()


def test_nextafter_of_bfloat16_and_its_derivatives() -> None:
    one = nc.ones((), nc.bfloat16)
    assert nc.nextafter(one, 2.0).item() == 1 + 2.0**-7 and nc.nextafter(one, 0.0).item() == 1 - 2.0**-8
    x, y = nc.tensor([0.0, -1.0, 2.0, 5.0]), nc.tensor([1.0, 1.0, -1.0, 5.0])
    by_x, by_y = nc.grad(lambda a, b: nc.sum(nc.nextafter(a, b) * 3.0), argnums=(0, 1))(x, y)
    assert by_x.tolist() == [3.0] * 4 and by_y.tolist() == [0.0] * 4
    with pytest.raises(nc.DTypeError, match="nextafter: operands must have a floating-point dtype"):
        nc.nextafter(1, 2)


@pytest.mark.parametrize("order", [(1.0, 1, True, 1), (1, 1.0, 1, True), (-1, -1.0, -1)])
def test_equal_axes_of_other_kinds_are_refused_in_any_order(order: tuple[Any, ...]) -> None:
    for axis in order:
        if type(axis) is int:
            assert nc.mean(nc.ones((3, 4)), axis=axis).shape == (3,)
        else:
            with pytest.raises(nc.KindError):
                nc.mean(nc.ones((3, 4)), axis=axis)
