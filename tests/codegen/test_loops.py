"""Generated kernels against the interpreter: every dtype, sizes around vectors and blocks, layouts, chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.run_loops import ISAS, check, compiled, execute, numbers
from kernel.marks import marked
from kernel.sample import Chance
from nacre.base.dims import Dim, evaluate
from nacre.base.dtypes import (
    FLOATS,
    INTEGERS,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
)
from nacre.codegen.loops.kernel import generate
from nacre.kernel import elementary
from nacre.kernel.ast import (
    OPERATIONS,
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    apply,
    cast,
    const,
    index_add,
    index_mul,
    size_expr,
)
from nacre.native.isa import BY_NAME

N, M, S = Dim.symbol("N"), Dim.symbol("M"), Dim.symbol("S")
EDGES = (0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 255, 256, 257, 513, 1000)
sizes = st.sampled_from(EDGES)
small = st.sampled_from((0, 1, 2, 3, 7, 16, 17))
cuts = st.lists(st.integers(0, 5000), max_size=5)
seeds = st.integers(0, 1000)


def idx(*names: str | Expr) -> tuple[Expr, ...]:
    return tuple(Index(n) if isinstance(n, str) else n for n in names)


def at(b: Buffer, *names: str | Expr) -> Load:
    return Load(b.name, idx(*names), b.dtype)


def loop(index: str, extent: object, *body: Stmt) -> For:
    return For(index, extent, body)  # type: ignore[arg-type]


def pointwise(name: str, args: list[DType], result: DType, f: object) -> Kernel:
    ins = tuple(Buffer(f"x{k}", d, (N,)) for k, d in enumerate(args))
    out = Buffer("y", result, (N,))
    value = f(*(at(b, "i") for b in ins))  # type: ignore[operator]
    return marked(Kernel(name, ins, (out,), (loop("i", N, Store("y", idx("i"), value)),)))


OPERATIONS_HERE = (
    "add",
    "div",
    "fma",
    "idiv",
    "rem",
    "minimum",
    "neg",
    "eq",
    "and",
    "shr",
    "round",
    "isnan",
    "not",
    "exp",
)
HERE = (bool_, uint8, int32, int64, bfloat16, float32, float64)
PAIRS = [(op, d) for op in OPERATIONS_HERE for d in HERE if elementary.supports(op, d)]


@pytest.mark.parametrize(("op", "dtype"), PAIRS, ids=str)
def test_operation(op: str, dtype: DType) -> None:
    count, kind = OPERATIONS[op]
    result = bool_ if kind in ("compare", "test") else dtype
    kernel = pointwise(f"{op}_{dtype}", [dtype] * count, result, lambda *xs: Apply(op, xs, result))
    check(kernel, [numbers((37,), dtype, k) for k in range(count)], {"N": 37})


@pytest.mark.parametrize("source", (bool_, *INTEGERS, *FLOATS), ids=str)
def test_cast(source: DType) -> None:
    for target in (bool_, uint8, int64, bfloat16, float32):
        kernel = pointwise(f"cast_{source}_{target}", [source], target, lambda x, t=target: cast(x, t))
        check(kernel, [numbers((75,), source)], {"N": 75})


@given(n=sizes, cut=cuts, seed=seeds, dtype=st.sampled_from((float32, float64, bfloat16, int8, int64, bool_)))
@settings(max_examples=30, deadline=None)
def test_select_and_sizes(n: int, cut: list[int], seed: int, dtype: DType) -> None:
    kernel = pointwise(f"select_{dtype}", [bool_, dtype, dtype], dtype, lambda c, x, y: apply("select", c, x, y))
    check(
        kernel, [numbers((n,), bool_, seed), numbers((n,), dtype, seed), numbers((n,), dtype, seed + 1)], {"N": n}, cut
    )


# ---- views


def copy(shape: tuple[object, ...], strides: tuple[object, ...] | None, dtype: DType = float32) -> Kernel:
    x, y = Buffer("x", dtype, shape, strides), Buffer("y", dtype, shape)  # type: ignore[arg-type]
    names = [f"i{k}" for k in range(len(shape))]
    body: Stmt = Store("y", idx(*names), at(x, *names))
    for name, size in reversed(list(zip(names, shape, strict=True))):
        body = loop(name, size, body)
    return marked(Kernel("copy", (x,), (y,), (body,)))


@given(n=small, m=sizes, cut=cuts, dtype=st.sampled_from((float32, float64, uint8, bool_, bfloat16)))
@settings(max_examples=40, deadline=None)
def test_transposed(n: int, m: int, cut: list[int], dtype: DType) -> None:
    x = numbers((m, n), dtype)
    (y,) = check(copy((N, M), (1, N), dtype), [x.T], {"N": n, "M": m}, cut)
    assert (y.view(np.uint8) == np.ascontiguousarray(x.T).view(np.uint8)).all()


@pytest.mark.parametrize("dtype", (float32, float64, bfloat16, uint8, bool_), ids=str)
@pytest.mark.parametrize(("n", "m"), ((16, 270), (300, 17), (64, 64), (65, 129)))
def test_tiles_of_whole_lines(dtype: DType, n: int, m: int) -> None:
    """Several tiles of both directions, whole and partial, from any work item on."""
    x = numbers((2, m, n), dtype)
    (y,) = check(copy((2, N, M), (N * M, 1, N), dtype), [x.transpose(0, 2, 1)], {"N": n, "M": m}, [1, 3])
    assert (y.view(np.uint8) == np.ascontiguousarray(x.transpose(0, 2, 1)).view(np.uint8)).all()


@pytest.mark.parametrize("isa", ISAS)
def test_a_tile_prefetches_the_next_one(isa: str) -> None:
    text = compiled(copy((N, M), (1, N), uint8), isa)[0].text
    assert "gather" not in text and text.count("llvm.prefetch") > 16


def test_long_chains_are_interleaved() -> None:
    """Cheap steps that depend on each other run several vectors at a time; few or independent ones do not."""

    def kernel(rounds: int) -> Kernel:
        x, y = Buffer("x", uint32, (M,)), Buffer("y", uint32, (M,))
        value = at(x, "j")
        for k in range(rounds):
            value = apply("xor", apply("add", value, Const(k, uint32)), Const(77, uint32))
        return Kernel("rounds", (x,), (y,), (For("j", M, (Store("y", idx("j"), value),), parallel=True, vector=True),))

    assert "<64 x i32>" in generate(kernel(20), BY_NAME["avx512"]).text
    assert "<64 x i32>" not in generate(kernel(3), BY_NAME["avx512"]).text
    for m in (1, 16, 63, 64, 65, 300):
        check(kernel(20), [numbers((m,), uint32)], {"M": m}, [1])


@pytest.mark.parametrize("dtype", (float32, float64, bfloat16), ids=str)
def test_tiles(dtype: DType) -> None:
    """A permuted operand, a plain one and a row, over three axes."""
    x, z = Buffer("x", dtype, (3, N, M), (M * N, 1, N)), Buffer("z", dtype, (3, N, M))
    w, y = Buffer("w", dtype, (M,)), Buffer("y", dtype, (3, N, M))
    value = apply("add", apply("mul", at(x, "a", "i", "j"), at(w, "j")), at(z, "a", "i", "j"))
    kernel = marked(
        Kernel(
            "permuted",
            (x, z, w),
            (y,),
            (loop("a", 3, loop("i", N, loop("j", M, Store("y", idx("a", "i", "j"), value)))),),
        )
    )
    for n, m in ((1, 1), (16, 32), (17, 33), (40, 50)):
        inputs = [numbers((3, m, n), dtype).transpose(0, 2, 1), numbers((3, n, m), dtype, 1), numbers((m,), dtype, 2)]
        check(kernel, inputs, {"N": n, "M": m}, [1, 2, 7])
    assert "j.1.head" in compiled(kernel, ISAS[0])[0].text


@given(n=small, m=sizes, step=st.sampled_from((-2, -1, 0, 1, 2, 3)), cut=cuts)
@settings(max_examples=40, deadline=None)
def test_strided(n: int, m: int, step: int, cut: list[int]) -> None:
    room = numbers((max(n, 1), 3 * m + 4), float32)
    start = 2 * m + 2 if step < 0 else 0
    x = np.lib.stride_tricks.as_strided(room[:, start:], (n, m), (room.strides[0], step * 4))
    kernel = copy((N, M), (3 * M + 4, step))
    check(kernel, [x], {"N": n, "M": m}, cut)


@given(n=small, m=sizes, s=st.sampled_from((-1, 1, 2)), cut=cuts)
@settings(max_examples=30, deadline=None)
def test_symbolic_stride(n: int, m: int, s: int, cut: list[int]) -> None:
    room = numbers((n, 2 * m + 1), float32)
    x = room[:, m:] if s == -1 else room
    x = np.lib.stride_tricks.as_strided(x, (n, m), (room.strides[0], s * 4))
    check(copy((N, M), (2 * M + 1, S)), [x], {"N": n, "M": m, "S": s}, cut)


def test_reshape_indices_are_affine() -> None:
    x, y = Buffer("x", float32, (N, 6, 8)), Buffer("y", float32, (N, 48))
    j = Index("j")
    value = at(x, "i", apply("idiv", j, const(8)), apply("rem", j, const(8)))
    split = marked(Kernel("split", (x,), (y,), (loop("i", N, loop("j", 48, Store("y", idx("i", "j"), value))),)))
    check(split, [numbers((5, 6, 8), float32)], {"N": 5}, [3])
    flat = index_add(index_mul(Index("a"), const(8)), Index("b"))
    back = at(y, "i", flat)
    merge = marked(
        Kernel("merge", (y,), (x,), (loop("i", N, loop("a", 6, loop("b", 8, Store("x", idx("i", "a", "b"), back)))),))
    )
    check(merge, [numbers((5, 48), float32)], {"N": 5}, [3])


# ---- reductions

REDUCED = [(op, d) for op in ("sum", "prod", "max", "min") for d in (float32, float64, bfloat16, float16, int32, uint8)]
REDUCED += [("any", bool_), ("all", bool_), ("sum", int64), ("max", int64)]


def rows(op: str, dtype: DType) -> Kernel:
    x, y = Buffer("x", dtype, (N, M)), Buffer("y", dtype, (N,))
    s = Buffer("s", dtype, ())
    return marked(
        Kernel(
            f"rows_{op}_{dtype}",
            (x,),
            (y,),
            (
                loop(
                    "i",
                    N,
                    Alloc(s),
                    loop("j", M, Accumulate(op, ("s",), (at(x, "i", "j"),))),
                    Store("y", idx("i"), at(s)),
                ),
            ),
        )
    )


def columns(op: str, dtype: DType) -> Kernel:
    x, y = Buffer("x", dtype, (N, M)), Buffer("y", dtype, (M,))
    s = Buffer("s", dtype, ())
    return marked(
        Kernel(
            f"columns_{op}_{dtype}",
            (x,),
            (y,),
            (
                loop(
                    "j",
                    M,
                    Alloc(s),
                    loop("i", N, Accumulate(op, ("s",), (at(x, "i", "j"),))),
                    Store("y", idx("j"), at(s)),
                ),
            ),
        )
    )


@pytest.mark.parametrize(("op", "dtype"), REDUCED, ids=str)
def test_rows(op: str, dtype: DType) -> None:
    kernel = rows(op, dtype)
    assert kernel.body[0].body[1].vector  # type: ignore[union-attr]
    for n, m in ((1, 0), (2, 1), (3, 16), (2, 17), (1, 256), (1, 600), (0, 5)):
        check(kernel, [numbers((n, m), dtype, m, special=m % 2 == 1)], {"N": n, "M": m}, [1])


@pytest.mark.parametrize(("op", "dtype"), REDUCED, ids=str)
def test_columns(op: str, dtype: DType) -> None:
    kernel = columns(op, dtype)
    assert kernel.body[0].vector  # type: ignore[union-attr]
    for n, m in ((0, 1), (1, 2), (16, 3), (17, 17), (255, 1), (64, 70), (23, 130), (5, 0)):
        check(kernel, [numbers((n, m), dtype, m, special=m % 2 == 1)], {"N": n, "M": m}, [1])


@given(op=st.sampled_from(("sum", "max")), n=small, m=sizes, cut=cuts, seed=seeds, columns_=st.booleans())
@settings(max_examples=40, deadline=None)
def test_reduction_sizes(op: str, n: int, m: int, cut: list[int], seed: int, columns_: bool) -> None:
    kernel = columns(op, float32) if columns_ else rows(op, float32)
    shape = (m, n) if columns_ else (n, m)
    check(kernel, [numbers(shape, float32, seed)], {"N": shape[0], "M": shape[1]}, cut)


def chosen(op: str, dtype: DType, by_column: bool) -> Kernel:
    x, y = Buffer("x", dtype, (N, M)), Buffer("y", int64, (M if by_column else N,))
    v = Buffer("v", dtype, (M if by_column else N,))
    s, k = Buffer("s", dtype, ()), Buffer("k", int64, ())
    over, out = ("i", "j") if by_column else ("j", "i")
    fold = Accumulate(op, ("s", "k"), (at(x, "i", "j"), Index(over)))
    extents = {"i": N, "j": M}
    return marked(
        Kernel(
            f"{op}_{dtype}",
            (x,),
            (y, v),
            (
                loop(
                    out,
                    extents[out],
                    Alloc(s),
                    Alloc(k),
                    loop(over, extents[over], fold),
                    Store("y", idx(out), at(k)),
                    Store("v", idx(out), at(s)),
                ),
            ),
        )
    )


@pytest.mark.parametrize("op", ("argmax", "argmin"))
@pytest.mark.parametrize("dtype", (float32, float64, bfloat16, int32, uint8, int64), ids=str)
@pytest.mark.parametrize("by_column", (False, True))
def test_arguments_of_extremes(op: str, dtype: DType, by_column: bool) -> None:
    kernel = chosen(op, dtype, by_column)
    for n, m in ((1, 1), (3, 40), (40, 3), (2, 300), (0, 3), (3, 0)):
        x = numbers((n, m), dtype, n)
        if dtype.is_float:
            x = np.where(np.random.default_rng(1).random((n, m)) < 0.5, x, np.float32(1.0)).astype(dtype.numpy)
        check(kernel, [x], {"N": n, "M": m}, [1])
    x = np.full((3, 40), -np.inf if dtype.is_float else 0).astype(dtype.numpy)
    check(kernel, [x], {"N": 3, "M": 40})


def test_whole_sum_and_several_accumulators() -> None:
    x = Buffer("x", float32, (N,))
    outs = (Buffer("a", float32, ()), Buffer("b", float64, ()), Buffer("c", float32, ()), Buffer("d", int64, ()))
    s = [Buffer(f"s{k}", b.dtype, ()) for k, b in enumerate(outs)]
    v = at(x, "i")
    wide = cast(v, float64)
    folds = (
        Accumulate("sum", ("s0",), (v,)),
        Accumulate("prod", ("s1",), (wide,)),
        Accumulate("max", ("s2",), (v,)),
        Accumulate("sum", ("s3",), (cast(apply("gt", v, const(0.0, float32)), int64),)),
    )
    body = (*map(Alloc, s), loop("i", N, *folds), *(Store(b.name, (), at(t)) for b, t in zip(outs, s, strict=True)))
    kernel = marked(Kernel("several", (x,), outs, body))
    for n in (0, 1, 17, 300, 513):
        check(kernel, [numbers((n,), float32, n, special=False)], {"N": n})


def test_conditional_accumulations() -> None:
    x, c, y = Buffer("x", float32, (N, M)), Buffer("c", bool_, (N, M)), Buffer("y", float32, (N,))
    s, t = Buffer("s", float32, ()), Buffer("t", float32, ())
    folds = (Accumulate("sum", ("s",), (at(x, "i", "j"),)), Accumulate("min", ("t",), (at(x, "i", "j"),)))
    nest = loop(
        "i",
        N,
        Alloc(s),
        Alloc(t),
        loop("j", M, If(at(c, "i", "j"), folds)),
        Store("y", idx("i"), apply("sub", at(s), at(t))),
    )
    for kernel in (marked(Kernel("absent", (x, c), (y,), (nest,))), Kernel("absent", (x, c), (y,), (nest,))):
        for m in (1, 9, 40, 300):
            check(kernel, [numbers((3, m), float32, m), numbers((3, m), bool_)], {"N": 3, "M": m}, [1])


# ---- rows: softmax, layer norm


def softmax(dtype: DType = float32) -> Kernel:
    x, y = Buffer("x", dtype, (N, M)), Buffer("y", dtype, (N, M))
    m, s = Buffer("m", dtype, ()), Buffer("s", dtype, ())
    e = Local("e", dtype)
    return marked(
        Kernel(
            "softmax",
            (x,),
            (y,),
            (
                loop(
                    "i",
                    N,
                    Alloc(m),
                    loop("j", M, Accumulate("max", ("m",), (at(x, "i", "j"),))),
                    Alloc(s),
                    loop(
                        "j",
                        M,
                        Let("e", apply("exp", apply("sub", at(x, "i", "j"), at(m)))),
                        Store("y", idx("i", "j"), e),
                        Accumulate("sum", ("s",), (e,)),
                    ),
                    Let("r", apply("div", const(1.0, dtype), at(s))),
                    loop("j", M, Store("y", idx("i", "j"), apply("mul", at(y, "i", "j"), Local("r", dtype)))),
                ),
            ),
        )
    )


@pytest.mark.parametrize("dtype", (float32, float64, bfloat16), ids=str)
def test_softmax(dtype: DType) -> None:
    for n, m in ((2, 1), (3, 10), (2, 257), (0, 4), (2, 0)):
        check(softmax(dtype), [numbers((n, m), dtype, m)], {"N": n, "M": m}, [1])


def test_scratch_row() -> None:
    x, y = Buffer("x", float32, (N, M)), Buffer("y", float32, (N, M))
    row, s = Buffer("row", float32, (M,)), Buffer("s", float32, ())
    kernel = marked(
        Kernel(
            "centre",
            (x,),
            (y,),
            (
                loop(
                    "i",
                    N,
                    Alloc(row),
                    Alloc(s),
                    loop(
                        "j",
                        M,
                        Store("row", idx("j"), apply("mul", at(x, "i", "j"), at(x, "i", "j"))),
                        Accumulate("sum", ("s",), (at(x, "i", "j"),)),
                    ),
                    loop("j", M, Store("y", idx("i", "j"), apply("sub", at(row, "j"), at(s)))),
                ),
            ),
        )
    )
    for n, m in ((3, 5), (2, 1000), (1, 0)):
        check(kernel, [numbers((n, m), float32)], {"N": n, "M": m}, [1])


@pytest.mark.slow
@given(n=st.integers(0, 700), m=small, cut=cuts, dtype=st.sampled_from((float32, float64, bfloat16)))
@settings(max_examples=25, deadline=None)
def test_several_elementary_functions_in_one_loop(n: int, m: int, cut: list[int], dtype: DType) -> None:
    check(
        pointwise("side", [dtype], dtype, lambda x: apply("add", apply("tanh", x), apply("exp", x))),
        [numbers((n,), dtype)],
        {"N": n},
        cut,
    )
    check(softmax(dtype), [numbers((m, n), dtype, n)], {"N": m, "M": n}, cut)


@pytest.mark.parametrize("bound", (0.0, -0.0, 1.5, -2.0, float("inf"), float("nan")))
@pytest.mark.parametrize("dtype", (float32, float64, bfloat16), ids=str)
def test_extremes_with_a_constant(dtype: DType, bound: float) -> None:
    x = np.array([0.0, -0.0, 1.5, -1.5, 2.0, -3.0, np.inf, -np.inf, np.nan, 1e-40] * 5).astype(dtype.numpy)
    for op in ("maximum", "minimum"):
        for f in (lambda v: apply(op, v, const(bound, dtype)), lambda v: apply(op, const(bound, dtype), v)):  # noqa: B023
            check(pointwise("bound", [dtype], dtype, f), [x], {"N": x.size})


# ---- gathers, scatters, conditions, scans


@given(n=small, m=sizes, cut=cuts, kind=st.sampled_from((int32, int64, uint8)))
@settings(max_examples=30, deadline=None)
def test_gather(n: int, m: int, cut: list[int], kind: DType) -> None:
    table, i, y = Buffer("t", float32, (50, N)), Buffer("i", kind, (M,)), Buffer("y", float32, (M, N))
    rows_ = marked(
        Kernel(
            "take",
            (table, i),
            (y,),
            (loop("a", M, loop("b", N, Store("y", idx("a", "b"), at(table, cast(at(i, "a"), int64), "b")))),),
        )
    )
    picks = np.random.default_rng(m).integers(0, 50, m).astype(kind.numpy)
    (found,) = check(rows_, [numbers((50, n), float32), picks], {"N": n, "M": m}, cut)
    assert found.shape == (m, n)
    flat, z = Buffer("t", float32, (50,)), Buffer("z", float32, (M,))
    each = marked(
        Kernel("take1", (flat, i), (z,), (loop("a", M, Store("z", idx("a"), at(flat, cast(at(i, "a"), int64)))),))
    )
    check(each, [numbers((50,), float32), picks], {"M": m}, cut)


def test_scatter_adds_in_order() -> None:
    y, i, v = Buffer("y", float32, (20, N)), Buffer("i", int64, (M,)), Buffer("v", float32, (M, N))
    place = (cast(at(i, "a"), int64), Index("b"))
    kernel = marked(
        Kernel(
            "scatter",
            (i, v),
            (y,),
            (loop("b", N, loop("a", M, Store("y", place, apply("add", Load("y", place, float32), at(v, "a", "b"))))),),
        )
    )
    for n, m in ((3, 40), (20, 30), (1, 0)):
        picks = np.random.default_rng(m).integers(0, 20, m)
        check(kernel, [picks, numbers((m, n), float32)], {"N": n, "M": m}, [2])


def test_guarded_loads_do_not_fault() -> None:
    x, y = Buffer("x", float32, (M,)), Buffer("y", float32, (N,))
    i = Index("i")
    inside = apply("and", apply("ge", i, const(3)), apply("lt", i, index_add(size_expr(M), const(3))))
    shifted = at(x, apply("sub", i, const(3)))
    kernel = marked(
        Kernel(
            "pad",
            (x,),
            (y,),
            (loop("i", N, If(inside, (Store("y", idx("i"), shifted),), (Store("y", idx("i"), const(7.0, float32)),))),),
        )
    )
    for n, m in ((0, 0), (5, 0), (40, 5), (300, 290)):
        check(kernel, [numbers((m,), float32)], {"N": n, "M": m}, [1])


@given(n=small, m=sizes, cut=cuts)
@settings(max_examples=25, deadline=None)
def test_scan(n: int, m: int, cut: list[int]) -> None:
    x, y = Buffer("x", float32, (N, M)), Buffer("y", float32, (N, M))
    s = Buffer("s", float32, ())
    step = (
        Let("v", apply("add", at(s), at(x, "i", "j"))),
        Store("s", (), Local("v", float32)),
        Store("y", idx("i", "j"), Local("v", float32)),
    )
    by_row = marked(Kernel("cumsum_rows", (x,), (y,), (loop("i", N, Alloc(s), loop("j", M, *step)),)))
    by_column = marked(Kernel("cumsum_columns", (x,), (y,), (loop("j", M, Alloc(s), loop("i", N, *step)),)))
    data = numbers((n, m), float32, special=False)
    (first,) = check(by_row, [data], {"N": n, "M": m}, cut)
    (second,) = check(by_column, [data], {"N": n, "M": m}, cut)
    assert np.array_equal(first, np.cumsum(data, 1, dtype=np.float32))
    assert np.array_equal(second, np.cumsum(data, 0, dtype=np.float32))


def along_rows(dtype: DType) -> Kernel:
    """Running sums of rows: lanes are rows."""
    x, y, z = (Buffer(name, dtype, (N, M)) for name in "xyz")
    w, carry = Buffer("w", dtype, (M,)), Buffer("carry", dtype, ())
    total = apply("add", at(carry), apply("mul", at(x, "i", "j"), at(w, "j")))
    body = loop(
        "j",
        M,
        Let("t", total),
        Store("carry", (), Local("t", dtype)),
        Store("y", idx("i", "j"), at(carry)),
        Store("z", idx("i", "j"), apply("sub", at(carry), at(x, "i", "j"))),
    )
    start = Store("carry", (), const(-0.0, dtype))
    return marked(Kernel("along", (x, w), (y, z), (loop("i", N, Alloc(carry), start, body),)))


@given(n=st.integers(0, 70), m=st.integers(0, 70), cut=cuts, dtype=st.sampled_from((float32, float64, bfloat16, int64)))
@settings(max_examples=30, deadline=None)
def test_running_sums_of_rows(n: int, m: int, cut: list[int], dtype: DType) -> None:
    check(along_rows(dtype), [numbers((n, m), dtype), numbers((m,), dtype)], {"N": n, "M": m}, cut)


def test_while() -> None:
    """Euclid's algorithm: the iterations leave their loops at different times, so that it stays scalar."""
    x, y, z = (Buffer(n, int64, (N,)) for n in "xyz")
    a, b = Buffer("a", int64, ()), Buffer("b", int64, ())
    kernel = marked(
        Kernel(
            "gcd",
            (x, y),
            (z,),
            (
                loop(
                    "i",
                    N,
                    Alloc(a),
                    Alloc(b),
                    Store("a", (), at(x, "i")),
                    Store("b", (), at(y, "i")),
                    While(
                        apply("ne", at(b), const(0)),
                        (
                            Let("r", apply("rem", at(a), at(b))),
                            Store("a", (), at(b)),
                            Store("b", (), Local("r", int64)),
                        ),
                    ),
                    Store("z", idx("i"), at(a)),
                ),
            ),
        )
    )
    rng = np.random.default_rng(0)
    p, q = rng.integers(0, 1000, 50), rng.integers(0, 1000, 50)
    (found,) = check(kernel, [p, q], {"N": 50}, [7])
    assert (found == np.gcd(p, q)).all()


def test_uniform_condition_with_state() -> None:
    x, y = Buffer("x", float32, (N, M)), Buffer("y", float32, (N, M))
    s = Buffer("s", float32, ())
    odd = apply("eq", apply("rem", Index("i"), const(2)), const(1))
    kernel = marked(
        Kernel(
            "switch",
            (x,),
            (y,),
            (
                loop(
                    "i",
                    N,
                    loop(
                        "j",
                        M,
                        Alloc(s),
                        Store("s", (), at(x, "i", "j")),
                        If(odd, (Store("s", (), apply("neg", at(s))),)),
                        If(apply("gt", at(s), const(0.0, float32)), (Store("s", (), apply("sqrt", at(s))),)),
                        Store("y", idx("i", "j"), at(s)),
                    ),
                ),
            ),
        )
    )
    check(kernel, [numbers((5, 37), float32)], {"N": 5, "M": 37}, [1, 3])


def test_window() -> None:
    x, y = Buffer("x", float32, (N, 20, 21)), Buffer("y", float32, (N, 9, 10))
    z = Buffer("z", float32, (N, 9, 10))
    m, s, t = (Buffer(n, float32, ()) for n in "mst")
    row = index_add(index_mul(Index("h"), const(2)), Index("a"))
    column = index_add(index_mul(Index("w"), const(2)), Index("b"))
    v = at(x, "n", row, column)
    kernel = marked(
        Kernel(
            "pool",
            (x,),
            (y, z),
            (
                loop(
                    "n",
                    N,
                    loop(
                        "h",
                        9,
                        loop(
                            "w",
                            10,
                            Alloc(m),
                            Alloc(s),
                            loop(
                                "a",
                                3,
                                Alloc(t),
                                loop("b", 3, Accumulate("max", ("m",), (v,)), Accumulate("sum", ("t",), (v,))),
                                Accumulate("sum", ("s",), (at(t),)),
                            ),
                            Store("y", idx("n", "h", "w"), at(m)),
                            Store("z", idx("n", "h", "w"), at(s)),
                        ),
                    ),
                ),
            ),
        )
    )
    check(kernel, [numbers((3, 20, 21), float32)], {"N": 3}, [5, 11])


def test_private_arrays_of_lanes() -> None:
    """Sorting three numbers in an array that is private to each lane."""
    x, y = Buffer("x", float32, (N, 3)), Buffer("y", float32, (N, 3))
    b = Buffer("b", float32, (3,))
    swaps: list[Stmt] = []
    for p, q in ((0, 1), (1, 2), (0, 1)):
        lo, hi = at(b, const(p)), at(b, const(q))
        names = f"lo{len(swaps)}", f"hi{len(swaps)}"
        swaps += [
            Let(names[0], apply("minimum", lo, hi)),
            Let(names[1], apply("maximum", lo, hi)),
            Store("b", (const(p),), Local(names[0], float32)),
            Store("b", (const(q),), Local(names[1], float32)),
        ]
    nest = loop(
        "i",
        N,
        Alloc(b),
        loop("j", 3, Store("b", idx("j"), at(x, "i", "j"))),
        *swaps,
        loop("j", 3, Store("y", idx("i", "j"), at(b, "j"))),
    )
    vector = For("i", N, nest.body, parallel=True, vector=True)
    for body in (nest, vector):
        kernel = Kernel("sort3", (x,), (y,), (body,))
        check(kernel, [numbers((70, 3), float32, special=False)], {"N": 70}, [1])


def test_in_place() -> None:
    kernel = pointwise("double", [float32, float32], float32, lambda x, y: apply("add", x, y))
    for isa in ISAS:
        x, y = numbers((1000,), float32, 1), numbers((1000,), float32, 2)
        expected = x + y
        (found,) = execute(kernel, isa, [x, y], {"N": 1000}, [2], outputs=[x])
        assert np.array_equal(found, expected, equal_nan=True)


def test_half_types_round_once() -> None:
    for dtype in (float16, bfloat16):
        kernel = pointwise(f"axpy_{dtype}", [dtype] * 3, dtype, lambda x, y, z: apply("fma", x, y, z))
        check(kernel, [numbers((200,), dtype, k) for k in range(3)], {"N": 200})


def test_equal_expressions_are_computed_once() -> None:
    def twice(x: Expr) -> Expr:
        return apply("mul", apply("sqrt", apply("add", x, x)), apply("sqrt", apply("add", x, x)))

    made, _, _ = compiled(pointwise("twice", [float32], float32, twice), ISAS[0])
    body = made.text.split("i.0.body:")[1].split("br ")[0]
    assert body.count("sqrt") == 1 and body.count("load") == 1


@given(seed=st.integers(0, 100_000), n=small, m=st.sampled_from((0, 1, 5, 16, 19, 40)), cut=cuts)
@settings(max_examples=30, deadline=None)
def test_random_kernels(seed: int, n: int, m: int, cut: list[int]) -> None:
    kernel = marked(Chance(seed).kernel())
    shapes = {"N": n, "M": m}
    inputs = []
    for k, b in enumerate(kernel.inputs):
        shape = tuple(evaluate(s, shapes) for s in b.shape)
        x = numbers(shape, b.dtype, seed + k)
        transposed = b.strides is not None and b.strides[0] == 1
        inputs.append(np.asfortranarray(x) if transposed else x)
    check(kernel, inputs, shapes, cut)
