"""Matrix products in compiled programs: few rows or columns have a separate kernel, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base import dtypes
from nacre.codegen.gemm.kernel import gemm
from nacre.codegen.gemm.plan import make_plan
from nacre.compile.pipeline import compile_graph
from nacre.native.isa import BY_NAME
from nacre.ops.dot import widened_dot

ROWS = 6  # rows of a product that has the one row among others


def _thin(f: Any, *operands: Any) -> bool:
    """Whether the only product of a jitted function is planned as a GEMV."""
    compiled = compile_graph(nc.jit(f).concrete(*operands).graph)
    cuts: list[Any] = [s.cut for s in compiled.executable.plan.steps if s.label.startswith("contract")]
    (cut,) = cuts
    return cut.args[0].gemv


@pytest.mark.parametrize("k", [0, 1, 17, 256, 530])
@pytest.mark.parametrize("n", [1, 15, 33, 1200])
@pytest.mark.parametrize("transposed", [False, True])
def test_one_row_has_the_bits_of_a_row_of_many(n: int, k: int, transposed: bool) -> None:
    rng = np.random.default_rng(n + k)
    a = nc.asarray(rng.standard_normal((ROWS, k)).astype(np.float32))
    b = nc.asarray(rng.standard_normal((n, k) if transposed else (k, n)).astype(np.float32))
    bias = nc.asarray(rng.standard_normal(n).astype(np.float32))

    def layer(a: Any, b: Any, bias: Any) -> Any:
        return nc.tanh(a @ (b.T if transposed else b) + bias)

    many = nc.jit(layer)(a, b, bias).numpy()
    one = nc.asarray(a.numpy()[2:3])
    assert np.array_equal(nc.jit(layer)(one, b, bias).numpy(), many[2:3])
    assert np.array_equal((one @ (b.T if transposed else b)).numpy(), (a @ (b.T if transposed else b)).numpy()[2:3])


@pytest.mark.parametrize("m", [2, 5, 8, 9])
@pytest.mark.parametrize("transposed", [False, True])
def test_few_rows_or_columns_have_the_bits_of_many(m: int, transposed: bool) -> None:
    rng = np.random.default_rng(m)
    a = nc.asarray(rng.standard_normal((40, 2100)).astype(np.float32))
    b = nc.asarray(rng.standard_normal((1000, 2100) if transposed else (2100, 1000)).astype(np.float32))
    b = b.T if transposed else b
    many = (a @ b).numpy()
    assert np.array_equal((a[:m] @ b).numpy(), many[:m])
    assert np.array_equal((b.T @ a[:m].T).numpy(), many[:m].T)


def test_few_rows_or_columns_are_planned_as_gemv() -> None:
    x, w = nc.ones((1, 300)), nc.ones((300, 200))
    assert _thin(lambda x, w: x @ w, x, w)
    assert _thin(lambda x, w: nc.exp(x @ w), x, w)
    assert _thin(lambda x, w: w @ x.T, nc.ones((1, 200)), w)
    assert not _thin(lambda x, w: x @ w, nc.ones((8, 300)), w)
    large = nc.ones((300, 7000))
    assert _thin(lambda x, w: x @ w, nc.ones((8, 300)), large)
    assert not _thin(lambda x, w: x @ w, nc.ones((9, 300)), large)


NARROW = [nc.int8, nc.uint8, nc.int16, nc.uint16, nc.float16, nc.bfloat16]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("n", [2, 70])
def test_a_row_reads_a_converted_matrix_in_its_own_dtype(dtype: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    x = nc.asarray(rng.standard_normal((1, 300)).astype(np.float32))
    q = nc.asarray(rng.integers(0, 100, (300, n)).astype(np.float32)).astype(dtype)
    scale = nc.asarray(rng.standard_normal(n).astype(np.float32))

    def layer(x: Any, q: Any, scale: Any) -> Any:
        return (x @ q.astype(nc.float32)) * scale

    def transposed(x: Any, q: Any, scale: Any) -> Any:
        return (x @ q.astype(nc.float32).T) * scale

    for f, matrix in ((layer, q), (transposed, nc.asarray(q.numpy().T.copy()))):
        compiled = compile_graph(nc.jit(f).concrete(x, matrix, scale).graph)
        assert [s.label for s in compiled.stages] == ["contract+mul"]
        assert np.array_equal(nc.jit(f)(x, matrix, scale).numpy(), f(x, matrix, scale).numpy())


def test_matrices_that_the_wider_type_does_not_represent_exactly_are_converted() -> None:
    for dtype, rows in ((nc.int32, 1), (nc.int8, 2)):
        x, q = nc.ones((rows, 30)), nc.ones((30, 20), dtype=dtype)
        graph = nc.jit(lambda x, q: x @ q.astype(nc.float32)).concrete(x, q).graph
        assert "widened_dot" not in str(compile_graph(graph).simplified)
    with pytest.raises(nc.DTypeError, match="at most 16 bits"):
        widened_dot(nc.ones((1, 3)), nc.ones((3, 4), dtype=nc.int32), ((1,), (0,)))
    with pytest.raises(nc.ShapeError, match="must have size 1"):
        widened_dot(nc.ones((2, 3)), nc.ones((3, 4), dtype=nc.int8), ((1,), (0,)))
    with pytest.raises(nc.DTypeError, match="float32 and one of at most 16 bits"):
        gemm(BY_NAME["avx2"], dtypes.float64, gemv=True, matrix=dtypes.int8)


@pytest.mark.parametrize(("dtype", "reads"), [(nc.bfloat16, True), (nc.float16, False)], ids=str)
def test_convolutions_read_converted_bfloat16_as_it_is(dtype: Any, reads: bool) -> None:
    rng = np.random.default_rng(0)
    x, w = (nc.asarray(rng.standard_normal(s).astype(np.float32)).astype(dtype) for s in ((2, 6, 7, 5), (9, 6, 3, 3)))

    def sums(x: Any, w: Any) -> Any:
        return nc.nn.functional.conv2d(x.astype(nc.float32), w.astype(nc.float32), padding=1)

    def gradients(x: Any, w: Any) -> Any:
        return nc.grad(lambda x, w: nc.sum(sums(x, w).astype(dtype).astype(nc.float32) ** 2), (0, 1))(x, w)

    for f, count in ((sums, 1), (gradients, 3)):
        compiled = compile_graph(nc.jit(f).concrete(x, w).graph)
        found = {e for s in compiled.stages for e in s.equations if e.primitive.name.startswith("widened_convolve")}
        assert len(found) == (count if reads else 0)
        for got, wanted in zip(nc.tree.leaves(nc.jit(f)(x, w)), nc.tree.leaves(f(x, w)), strict=True):
            assert np.array_equal(got.numpy(), wanted.numpy())


def test_convolutions_of_images_of_any_size_convert_bfloat16() -> None:
    f = nc.jit(
        lambda x, w: nc.nn.functional.conv2d(x.astype(nc.float32), w.astype(nc.float32)),
        dynamic_shapes={"x": {2: nc.Dim("height", min=3, max=20)}},
    )
    rng = np.random.default_rng(0)
    w = nc.asarray(rng.standard_normal((9, 6, 3, 3)).astype(np.float32)).astype(nc.bfloat16)
    for height in (5, 9):
        x = nc.asarray(rng.standard_normal((2, 6, height, 5)).astype(np.float32)).astype(nc.bfloat16)
        alone = nc.nn.functional.conv2d(x.astype(nc.float32), w.astype(nc.float32))
        assert np.array_equal(f(x, w).numpy(), alone.numpy())


def test_widened_products_have_the_derivatives_and_batches_of_plain_ones() -> None:
    rng = np.random.default_rng(0)
    x = nc.asarray(rng.standard_normal((4, 1, 30)).astype(np.float32))
    q = nc.asarray(rng.standard_normal((30, 9)).astype(np.float32)).astype(nc.bfloat16)

    def plain(x: Any, q: Any) -> Any:
        return nc.sum(nc.sin(x @ q.astype(nc.float32)))

    def widened(x: Any, q: Any) -> Any:
        return nc.sum(nc.sin(widened_dot(x, q, ((1,), (0,)))))

    for argnums in (0, 1):
        a, b = (nc.grad(f, argnums)(x[0], q).astype(nc.float32).numpy() for f in (plain, widened))
        assert np.array_equal(a, b)
    a, b = (nc.vmap(f, (0, None))(x, q).numpy() for f in (plain, widened))
    assert np.array_equal(a, b)


def test_cuts_balance_the_work_of_threads() -> None:
    """Two threads that take items in turn finish at nearly the same time."""
    tiling = nc.jit(lambda a, b: a @ b).concrete(nc.ones((64, 64)), nc.ones((64, 64)))
    (step,) = compile_graph(tiling.graph).executable.plan.steps
    cut: Any = step.cut
    for n in (512, 1024, 1536, 2048):
        plan = make_plan(cut.args[0], n, n, n, 1, 2, "kn")
        widths = [min(plan.columns, n - j) for j in range(0, n, plan.columns)]
        heights = [min(plan.rows, n - i) for i in range(0, n, plan.rows)]
        busy = [0, 0]
        for area in (w * h for w in widths for h in heights):
            busy[busy.index(min(busy))] += area
        assert max(busy) < 1.06 * n * n / 2, (n, plan)


@pytest.mark.parametrize("rows", [1, 40])
def test_products_of_a_type_share_all_units_but_their_epilogues(rows: int) -> None:
    x, w, b = nc.ones((rows, 300)), nc.ones((300, 200)), nc.ones((200,))

    def several(x: Any, w: Any, b: Any) -> Any:
        """Epilogues: none, an activation, one that reads the result's own place, and one that divides."""
        y = x @ w
        return y, nc.tanh(x @ w[:, :100] + b[:100]), y + x @ w, 1 / (2 + x @ w[:, 5:])

    executable = compile_graph(nc.jit(several).concrete(x, w, b).graph).executable
    codes = [c for c in executable.codes if len(c.units) > 1]
    assert len(codes) >= 3
    assert len({c.units[:-1] for c in codes}) == 1
    assert len({c.units[-1] for c in codes}) == len(codes)
    assert all(c.units[-1].text.count("\ndefine ") <= 4 for c in codes)
    for unit in codes[0].units[1:]:
        assert all(f"@{name}(" in unit.text for name in unit.names)
