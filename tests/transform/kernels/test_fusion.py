"""Pointwise operations before and behind a kernel in Python are computed in it, with the bits of single operations."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.compile.pipeline import compile_graph
from nacre.compile.program import launches
from nacre.compile.program.executor import CompilingExecutor
from nacre.kernel.interpret import run
from nacre.kernel.verify import verify
from nacre.native.pool import pool

pytestmark = pytest.mark.usefixtures("divided")


def rand(*shape: int, dtype: Any = nc.float32) -> Any:
    found = np.random.default_rng(sum(shape)).standard_normal(shape) * 4
    return nc.asarray(found).astype(dtype)


def labels(f: Any, *operands: Any) -> list[str]:
    """The labels of a function's launches; the results of two of its programs have the bits of single operations."""
    graph = nc.jit(f).concrete(*operands).graph
    stages = compile_graph(graph).stages
    for stage in stages:
        if stage.kernel is not None:
            verify(stage.kernel)
    wanted = f(*operands)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for found in (CompilingExecutor().execute(graph, list(operands)), with_threads(f, operands)):
        for y, w in zip(found, wanted, strict=True):
            assert y.type == w.type
            assert nc.Tensor.numpy(y).tobytes() == w.numpy().tobytes()
    return [s.label for s in stages]


def with_threads(f: Any, operands: Any) -> Any:
    """The results of `jit` with two threads."""
    before = pool().threads
    pool().set_threads(2)
    try:
        found = nc.jit(f)(*operands)
    finally:
        pool().set_threads(before)
    return found if isinstance(found, tuple) else (found,)


@nc.kernel(out=lambda x: x)
def squares(x, out):
    for i in nc.prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * x[i, j] + x[i, j]


@nc.kernel(out=lambda x: x)
def row_sums(x, out):
    for i in nc.prange(x.shape[0]):
        s = x[i, 0] * 0
        for j in range(x.shape[1]):
            s += x[i, j]
            out[i, j] = s


@nc.kernel(out=lambda x: x)
def backwards(x, out):
    for i in range(x.shape[0] - 1, -1, -1):
        for j in range(x.shape[1]):
            out[i, j] = x[x.shape[0] - 1 - i, j]


@nc.kernel(out=lambda x: x)
def blurred(x, out):
    for i in nc.prange(x.shape[0]):
        for j in range(x.shape[1]):
            if j > 0 and j < x.shape[1] - 1:
                out[i, j] = x[i, j - 1] + x[i, j] + x[i, j + 1]
            else:
                out[i, j] = x[i, j]


@nc.kernel(out=lambda x: [x, (x.shape, nc.int32)])
def parts(x, whole, sign):
    for i in nc.prange(x.shape[0]):
        for j in range(x.shape[1]):
            whole[i, j] = x[i, j] + x[i, j]
            sign[i, j] = 1 if x[i, j] > 0 else -1


@nc.kernel(out=lambda x: x)
def inner_only(x, out):
    for i in nc.prange(1, x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]


@nc.kernel(out=lambda x: x)
def twice(x, out):
    for i in nc.prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]
            out[i, j] = x[i, j] + x[i, j]


@nc.kernel(out=lambda x: x)
def recurrence(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + (out[i, j - 1] if j > 0 else x[i, j])


@nc.kernel(out=lambda x, at: ((at.shape[0], x.shape[1]), x.dtype))
def rows_at(x, at, out):
    for i in nc.prange(at.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[at[i], j]


@nc.kernel(out=lambda x, at: x)
def scattered(x, at, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[at[i], j] = x[i, j]


@nc.kernel(out=lambda x, y: ((x.shape[0], y.shape[1]), x.dtype))
def product(x, y, out):
    for i in nc.prange(x.shape[0]):
        for j in range(y.shape[1]):
            s = x[i, 0] * 0
            for k in range(x.shape[1]):
                s += x[i, k] * y[k, j]
            out[i, j] = s


WHOLE: dict[str, Any] = {"squares": squares, "row_sums": row_sums, "backwards": backwards, "blurred": blurred}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dtype", [nc.float32, nc.float64, nc.bfloat16, nc.float16, nc.int32, nc.uint8])
def test_before_and_behind(name: str, dtype: Any) -> None:
    k, x, w = WHOLE[name], rand(5, 37, dtype=dtype), rand(37, dtype=dtype)
    assert len(labels(lambda x, w: k(x * w) + w, x, w)) == 1
    assert len(labels(lambda x, w: k((x - w).T.T) - k(x), x, w)) == 2
    assert len(labels(lambda x: nc.where(k(-x) > 1, x, 2 * x), x)) == 1


@pytest.mark.parametrize("name", WHOLE)
def test_functions_that_cost_more_than_a_pass_through_memory(name: str) -> None:
    k, x = WHOLE[name], rand(5, 37)
    assert len(labels(lambda x: nc.exp(k(x)), x)) == (2 if name == "row_sums" else 1)
    assert len(labels(lambda x: k(nc.exp(x)), x)) == (1 if name in ("squares", "backwards") else 2)


def test_expensive_kernels_take_any_function() -> None:
    @nc.kernel(out=lambda x: x)
    def rounds(x, out):
        for i in nc.prange(x.shape[0]):
            y = x[i]
            n = 0
            while y * y < 100 and n < 50:
                y = y * 1.5 + 0.25
                n += 1
            out[i] = y

    assert len(labels(lambda x: nc.log(rounds(nc.sin(x))), rand(100))) == 1


def test_values_with_other_readers() -> None:
    x = rand(6, 40)
    assert len(labels(lambda x: (y := squares(x), y * 2), x)) == 1
    assert len(labels(lambda x: (y := squares(x), y * 2, y.sum(axis=1)), x)) == 2
    assert len(labels(lambda x: (c := x * 2, squares(c)), x)) == 2
    assert len(labels(lambda x: (squares(c := x * 2), row_sums(c)), x)) == 3
    assert len(labels(lambda x: squares(c := nc.exp(x)) + c, x)) == 1
    assert len(labels(lambda x: (y := squares(x)).sum() + (y * 2), x)) >= 2


def test_chains_of_kernels() -> None:
    x, w = rand(6, 40), rand(6, 40, dtype=nc.float32)
    assert len(labels(lambda x, w: squares(row_sums(x * 2) * w + 1) * w, x, w)) == 2
    assert len(labels(lambda x, w: squares(x) * squares(w), x, w)) == 2
    assert len(labels(lambda x, w: squares(x) * (w.sum(axis=1, keepdims=True) + w), x, w)) == 2


def test_several_outputs() -> None:
    x = rand(6, 40)
    assert len(labels(lambda x: (lambda w, s: w * s.astype(nc.float32))(*parts(x * 2)), x)) == 1
    assert len(labels(lambda x: (lambda w, s: (w * 3, s + 1))(*parts(x)), x)) == 1
    assert len(labels(lambda x: (lambda w, s: (w * 3, s))(*parts(x)), x)) == 1
    assert len(labels(lambda x: (lambda w, s: (w * 3, s, w))(*parts(x)), x)) == 1
    assert len(labels(lambda x: parts(x + 1)[1] * 2, x)) == 1


def test_positions_and_broadcasts_behind() -> None:
    x, w = rand(6, 40), rand(6, 1)
    assert len(labels(lambda x, w: squares(x) * nc.arange(40.0) + w, x, w)) == 1
    assert len(labels(lambda x, w: squares(x * w + nc.arange(40.0)), x, w)) == 1
    assert len(labels(lambda x: squares(x)[::-1] * x, x)) == 2
    assert len(labels(lambda x: squares(x[:, ::-1] * 2) + x.T.T, x)) == 1
    assert len(labels(lambda x: squares((x * 2).T) + 1, x)) == 2
    assert len(labels(lambda x: nc.real(nc.exp(1j * squares(x))) + 1, x)) == 1
    assert len(labels(lambda x: squares(nc.abs(nc.complex(x, x))), x)) == 1


def test_what_is_not_fused() -> None:
    x, at = rand(6, 40), nc.asarray([2, 0, 1, 5, 4, 3])
    for k in (inner_only, twice):
        assert len(labels(lambda x, k=k: k(x) + 1, x)) >= 2
        assert len(labels(lambda x, k=k: k(x * 2), x)) - len(labels(lambda x, k=k: k(x), x)) == 0
    assert len(labels(lambda x, at: rows_at(x * 2, at), x, at)) == 2
    assert len(labels(lambda x, at: rows_at(x, at) * 2, x, at)) == 1
    assert len(labels(lambda x, at: rows_at(x, at + 0) * 2, x, at)) in (1, 2)
    assert len(labels(lambda x, at: scattered(x, at) * 2, x, at)) >= 2
    assert len(labels(lambda x, at: scattered(x * 2, at), x, at)) == len(labels(lambda x, at: scattered(x, at), x, at))
    assert len(labels(lambda x: product(x * 2, x.T), x)) == 2
    assert len(labels(lambda x: product(x, x.T) * 2, x)) == 1


def test_a_kernel_that_reads_its_output_keeps_it() -> None:
    found = labels(lambda x: recurrence(x * 2) + 1, rand(6, 40))
    assert len(found) == 1 + found.count("zeros")


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (1, 300), (300, 1), (33, 257)])
def test_shapes(shape: tuple[int, ...]) -> None:
    for k in WHOLE.values():
        found = labels(lambda x, k=k: k(x * 2) + x, rand(*shape))
        assert len(found) == 1 or 0 in shape


def test_numbers_without_axes() -> None:
    @nc.kernel(out=lambda x: ((), x.dtype))
    def total(x, out):
        out[()] = nc.pairwise_sum(x[i] for i in range(x.shape[0]))

    assert len(labels(lambda x: total(nc.sqrt(nc.abs(x))) * 2, rand(1000))) <= 2


def test_symbolic_sizes() -> None:
    for k in WHOLE.values():
        f = nc.jit(lambda x, k=k: k(x * 2) + 1, dynamic_shapes={"x": {0: nc.Dim("n"), 1: nc.Dim("m", min=1)}})
        for shape in ((0, 1), (1, 1), (3, 70), (70, 3)):
            x = rand(*shape)
            assert f(x).numpy().tobytes() == (k(x * 2) + 1).numpy().tobytes()
        assert len(f.concrete_functions) == 1


def test_llvm_passes_keep_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return nc.exp(blurred(x * 2 + 1) - 0.5), row_sums(x / 3) * x

    x = rand(40, 100)
    found = nc.jit(f)(x)
    generate = launches.generated
    monkeypatch.setattr(
        launches, "generated", lambda k, isa, streams=frozenset(), optimised=False: generate(k, isa, streams)
    )
    fresh = secrets.randbelow(1 << 40)  # a program that no cache has
    other = nc.jit(lambda x: (*f(x), nc.asarray(fresh) + 1))(x)
    for y, w in zip(found, other[:2], strict=True):
        assert y.numpy().tobytes() == w.numpy().tobytes()


def test_the_interpreter_of_kernel_ir_agrees() -> None:
    x, w = rand(4, 33), rand(33)
    e = nc.jit(lambda x, w: nc.exp(squares(x * w)) + w).explain(x, w)
    kernel = e.compiled.stages[0].kernel
    given = {tuple(v.type.shape): v for v in (x, w)}
    inputs = [given[tuple(n for n, s in zip(b.shape, b.strides) if s or n == 1)].numpy() for b in kernel.inputs]
    wide = [np.broadcast_to(a, b.shape) for a, b in zip(inputs, kernel.inputs, strict=True)]
    (found,) = run(kernel, wide, {})
    assert found.tobytes() == (nc.exp(squares(x * w)) + w).numpy().tobytes()


def test_derivatives_and_batches() -> None:
    @nc.kernel(out=lambda x: x)
    def cubes(x, out):
        for i in nc.prange(x.shape[0]):
            out[i] = x[i] * x[i] * x[i]

    cubes.defvjp(lambda x: (cubes(x), x), lambda x, g: (3 * x * x * g,))

    def loss(x: Any) -> Any:
        return nc.sin(cubes(x * 2) + 1).sum()

    x = rand(50)
    labels(nc.grad(loss), x)
    labels(nc.grad(lambda x: nc.grad(loss)(x).sum()), x)
    assert len(labels(nc.vmap(lambda x: cubes(x * 2) + 1), rand(3, 50))) == 1


def test_bodies_of_loops() -> None:
    def f(x: Any) -> Any:
        return nc.fori_loop(0, 4, lambda k, y: squares(y * 0.25) * 0.5 + x, x)

    labels(f, rand(5, 20))


def test_debug_mode_reports() -> None:
    @nc.kernel(out=lambda x, at: x, debug=True)
    def moved(x, at, out):
        for i in nc.prange(x.shape[0]):
            out[i] = x[at[i]]

    f = nc.jit(lambda x, at: moved(x * 2, at) + 1)
    x = rand(4)
    assert f(x, nc.asarray([3, 2, 1, 0])).tolist() == (x[::-1] * 2 + 1).tolist()
    with pytest.raises(nc.AxisError, match=r"an index of axis 0 of x must be in .* got 7"):
        f(x, nc.asarray([3, 2, 7, 0]))


def test_an_intermediate_needs_no_memory() -> None:
    x = rand(1000, 100)
    f = nc.jit(lambda x: squares(x * 2) + 1)
    assert f.memory(x).intermediates == 0


def test_saved_programs(tmp_path: Any) -> None:
    x = rand(5, 6)
    nc.save_program(lambda x: squares(x * 2) + 1, tmp_path / "p.safetensors", x)
    assert nc.load_program(tmp_path / "p.safetensors")(x).tolist() == (squares(x * 2) + 1).tolist()


def test_nests_of_the_package() -> None:
    x = rand(5, 40)
    assert len(labels(lambda x: nc.cumulative_sum(x * 2, axis=1) + 1, x)) == 1
    double = nc.primitive(
        "fused_double",
        result=lambda x: x,
        nest=lambda types, y: (
            f"""
        kernel fused_double(x: {types[0]}) -> (y: {y}):
          parallel for i in {types[0].shape[0]}:
            vector for j in {types[0].shape[1]}:
              y[i, j] = x[i, j] + x[i, j]
        """
        ),
    )
    assert len(labels(lambda x: nc.exp(double(nc.sin(x))), x)) == 1


def random_program(seed: int) -> Any:
    """A function of two tensors of [6, 40]: kernels, elementwise operations, products, reductions and views."""
    steps = [tuple(map(int, row)) for row in np.random.default_rng(seed).integers(0, 1 << 30, (14, 4))]

    def f(x: Any, w: Any) -> Any:
        known = [x, w]
        for what, a, b, c in steps:
            u, v = known[-1 - a % min(4, len(known))], known[b % len(known)]
            found = (
                lambda u=u, v=v: u * 0.5 + v,
                lambda u=u, v=v: nc.maximum(u, v) - 1,
                lambda u=u: nc.exp(nc.minimum(u, 1.0)),
                lambda u=u: squares(u * 0.125),
                lambda u=u: row_sums(u) * 0.0625,
                lambda u=u, v=v: blurred(u) + v,
                lambda u=u: backwards(u),
                lambda u=u: inner_only(u),
                lambda u=u, c=c: parts(u)[c % 2].astype(nc.float32),
                lambda u=u, v=v: u - v.sum(axis=1, keepdims=True) * 0.01,
                lambda u=u, v=v: ((u @ v.T) * 0.01) @ v,
                lambda u=u: u[:, ::-1],
                lambda u=u: nc.cumulative_sum(u, axis=1) * 0.01,
                lambda u=u: recurrence(u) * 0.01,
            )
            known.append(found[what % len(found)]())
        return (*known[-2:], *(known[b % len(known)] for _, _, b, c in steps[:4] if c % 3 == 0))

    return f


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    labels(random_program(seed), rand(6, 40), rand(6, 40) * 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 400, 20))
def test_many_random_programs(first: int) -> None:
    for seed in range(first, first + 20):
        labels(random_program(seed), rand(6, 40), rand(6, 40) * 0.5)
