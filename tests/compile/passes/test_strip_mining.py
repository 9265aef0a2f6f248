"""Products that are only reduced are computed a strip of rows at a time: the same bits, in less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nacre as nc
from compile.programs import Program, programs
from compile.test_pipeline import check_fused_is_eager, graph_of
from nacre import nn
from nacre.compile.passes import strip_mining
from nacre.compile.passes.attention import fuse_attention
from nacre.compile.passes.simplify import simplify
from nacre.compile.passes.strip_mining import strip_mine
from nacre.compile.pipeline import compile_graph
from nacre.interpret.stage import stage
from nacre.ir.graph import Graph
from nacre.native.engine import host_target
from nacre.native.pool import pool
from nacre.trace.value import make
from same_bits import canonical

many = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def short() -> Any:
    """Every product is large, and a strip has two rows or three columns."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "LARGE": 1,
            "NEAR": 0,
            "FEWEST": 2,
            "WHOLE": 2,
            "WIDE": 3,
            "SMALL": 1.01,
            "STREAMED": ((1 << 60, 1),),
        }.items():
            patch.setattr(strip_mining, name, value)
        yield


def log_sum_exp(z: Any) -> Any:
    top = nc.max(z, axis=-1, keepdims=True)
    return nc.log(nc.sum(nc.exp(z - top), axis=-1)) + top[..., 0]


def picked(z: Any, t: Any) -> Any:
    return nc.take_along_axis(nn.functional.log_softmax(z), t[:, None], axis=1)


FORMS: dict[str, Callable[..., Any]] = {
    "max": lambda h, w, b, t: nc.max(h @ w, axis=1),
    "min of columns": lambda h, w, b, t: nc.min(h @ w + b, axis=0),
    "sum": lambda h, w, b, t: nc.sum(nc.exp(h @ w * 0.1), axis=1),
    "sum of columns": lambda h, w, b, t: nc.sum(nc.tanh(h @ w), axis=0),
    "nearest": lambda h, w, b, t: nc.argmin(b - 2.0 * (h @ w), axis=1),
    "log-sum-exp": lambda h, w, b, t: log_sum_exp(h @ w + b),
    "cross-entropy": lambda h, w, b, t: nn.functional.cross_entropy(h @ w + b, t % w.shape[1]),
    "of sequences": lambda h, w, b, t: nn.functional.cross_entropy(
        nc.reshape(nc.reshape(h, (2, -1, h.shape[1])) @ w, (-1, w.shape[1])), t % w.shape[1]
    ),
    "kept sequences": lambda h, w, b, t: log_sum_exp(nc.reshape(h, (2, -1, h.shape[1])) @ w + b),
    "looked up": lambda h, w, b, t: nc.max(nc.take(h, t, axis=0) @ w, axis=1),
    "picked": lambda h, w, b, t: picked(h @ w, t % w.shape[1]),
    "two products": lambda h, w, b, t: nc.mean((h @ w) * nc.sqrt(nc.abs(h @ w + b)), axis=1),
    "variance": lambda h, w, b, t: nc.var(h @ w, axis=1),
    "turned": lambda h, w, b, t: nc.max((h @ w).T, axis=0),
    "turned factors": lambda h, w, b, t: nc.sum((h.T * 1.0).T @ (w.T * 1.0).T, axis=1),
    "a mask of columns": lambda h, w, b, t: nc.sum(nc.where(nc.arange(w.shape[1]) > 3, h @ w, 0.0), axis=1),
    "a mask of places": lambda h, w, b, t: nc.sum(nc.tril(h @ w), axis=1),
    "several results": lambda h, w, b, t: (nc.max(h @ w, axis=1), nc.argmax(h @ w, axis=1), nc.sum(h @ w + b, axis=1)),
}


def operands(m: int, k: int, n: int, dtype: Any, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    floats = [nc.tensor(rng.normal(size=s).astype(np.float32)).astype(dtype) for s in ((m, k), (k, n), (n,))]
    return [*floats, nc.tensor(rng.integers(0, m, m))]


def assert_same(f: Callable[..., Any], values: list[Any], isa: str | None = None, loops: int = 1) -> None:
    """Compiled with the given number of loops over strips, f has the bits of its equations one by one."""
    trace = stage(lambda *xs: list(results(f(*xs))), [x.type for x in values])
    compiled = compile_graph(trace.graph, None, host_target(isa))
    assert names(compiled.simplified.verify()).count("scan") == loops, compiled.simplified
    wanted = list(map(canonical, results(f(*values))))
    before = pool().threads
    try:
        for threads in (1, 2, 5):
            pool().set_threads(threads)
            buffers = compiled.executable.run([x.content.address for x in (*values, *trace.captures)], {})
            found = [make(t, b) for t, b in zip(compiled.executable.output_types, buffers, strict=True)]
            assert list(map(canonical, found)) == wanted, f"{threads} threads\n{compiled.simplified}"
    finally:
        pool().set_threads(before)


def results(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def names(graph: Graph) -> list[str]:
    return [e.primitive.name for e in graph.equations]


pytestmark = pytest.mark.usefixtures("divided")
ISAS = [host_target().isa, *(["avx2"] if host_target().isa == "avx512" else [])]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, isa: str, short: None) -> None:
    assert_same(FORMS[form], operands(14, 7, 10, nc.float32), isa)


@given(
    form=st.sampled_from(list(FORMS)),
    m=st.integers(3, 9),
    k=st.integers(1, 20),
    n=st.integers(6, 40),
    dtype=st.sampled_from((nc.float32, nc.float64, nc.bfloat16)),
)
@many
def test_sizes(form: str, m: int, k: int, n: int, dtype: Any, short: None) -> None:
    assert_same(FORMS[form], operands(2 * m, k, n, dtype))


@pytest.mark.parametrize(("m", "k", "n"), [(2100, 17, 2311), (2800, 300, 2003)])
@pytest.mark.parametrize("form", ["log-sum-exp", "sum of columns", "nearest", "looked up"])
def test_large_products_are_never_stored_whole(form: str, m: int, k: int, n: int) -> None:
    values = operands(m, k, n, nc.float32)
    assert_same(FORMS[form], values)
    f = nc.jit(lambda *xs: FORMS[form](*xs))
    assert f.memory(*values).workspace < m * n * 4 / 2


def test_a_loop_may_need_the_results_of_another(short: None) -> None:
    def twice(h: Any, w: Any, b: Any, t: Any) -> Any:
        return nc.max((h * nc.max(h @ w, axis=1)[:, None]) @ w + b, axis=1)

    assert_same(twice, operands(15, 7, 10, nc.float32), loops=2)


def test_a_broadcast_value_may_be_read_elsewhere_too(short: None) -> None:
    def beside(h: Any, w: Any, b: Any, t: Any) -> Any:
        spread = nc.broadcast_to(b, (h.shape[0], w.shape[1]))
        return nc.max(h @ w + spread, axis=1), nc.exp(spread)

    assert_same(beside, operands(15, 7, 10, nc.float32))


@given(program=programs())
@many
def test_any_program_has_the_same_bits(program: Program, short: None) -> None:
    strip_mine(fuse_attention(simplify(graph_of(program)))).verify()
    check_fused_is_eager(program)


LOOKED_UP: dict[str, Callable[..., Any]] = {
    "rows": lambda table, w, ids: nc.take(table, ids, axis=0) @ w,
    "many rows of one": lambda table, w, ids: (
        nc.reshape(nc.take(table, nc.reshape(ids, (-1, 2)), axis=0), (-1, 2 * table.shape[1]))
        @ nc.concat([w, w], axis=0)
    ),
    "with an ending": lambda table, w, ids: nc.tanh(nc.take(table, ids, axis=0) @ w),
}


@pytest.mark.parametrize("form", LOOKED_UP)
@pytest.mark.parametrize("count", [49, 50, 64])
def test_rows_of_a_table(form: str, count: int) -> None:
    values = looked_up(2 * count, 40, 3)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"LARGE": 8000, "NEAR": 0, "WHOLE": 10}.items():
            patch.setattr(strip_mining, name, value)
        assert_same(LOOKED_UP[form], values)


def looked_up(count: int, k: int, n: int) -> list[Any]:
    table, w, *_ = operands(300, k, n, nc.float32)
    return [table, w, nc.tensor(np.random.default_rng(1).integers(0, 300, count))]


def test_many_rows_of_a_table_are_never_stored_whole() -> None:
    values = looked_up(40_000, 130, 8)
    assert_same(LOOKED_UP["rows"], values)
    assert nc.jit(LOOKED_UP["rows"]).memory(*values).workspace < 40_000 * 130 * 4 / 2


WHOLE: dict[str, Callable[..., Any]] = {
    "wanted": lambda h, w, b, t: (h @ w, nc.max(h @ w, axis=1)),
    "a factor": lambda h, w, b, t: nc.exp(h @ w) @ w.T,
    "reduced both ways": lambda h, w, b, t: (nc.sum(h @ w, axis=0), nc.sum(h @ w, axis=1)),
    "reduced to one number": lambda h, w, b, t: nc.sum(h @ w),
    "beside the sum of all": lambda h, w, b, t: nc.max((h @ w) / nc.sum(nc.max(h @ w, axis=1)), axis=1),
    "sorted": lambda h, w, b, t: nc.max(nc.sort(h @ w, axis=1), axis=1),
}


@pytest.mark.parametrize("form", WHOLE)
def test_products_that_other_equations_need_whole_stay_whole(form: str, short: None) -> None:
    assert_same(WHOLE[form], operands(14, 7, 10, nc.float32), loops=0)


def test_few_rows_and_small_products_have_no_loop() -> None:
    assert_same(FORMS["max"], operands(500, 3, 64, nc.float32), loops=0)
    assert_same(FORMS["max"], operands(5, 3, 1 << 20, nc.float32), loops=0)


def test_products_of_symbolic_sizes_are_whole(short: None) -> None:
    f = nc.jit(lambda h, w: nc.max(h @ w, axis=1), dynamic_shapes={"h": {0: nc.Dim("n", max=64)}})
    h, w, *_ = operands(14, 7, 10, nc.float32)
    assert canonical(f(h, w)) == canonical(nc.max(h @ w, axis=1))


def test_a_transposed_matrix_that_strips_read_is_not_copied() -> None:
    h, w, *_ = operands(2100, 260, 2311, nc.float32)
    table = w.T * 1.0
    f = nc.jit(lambda h, table: log_sum_exp(h @ table.T))
    assert f.memory(h, table).workspace < 2100 * 2311 * 4 / 2
    assert canonical(f(h, table)) == canonical(log_sum_exp(h @ table.T))


def test_a_slice_that_is_the_whole_does_not_affect_other_slices(short: None) -> None:
    a_number = stage(lambda x: [nc.tanh(nc.dynamic_slice(nc.tanh(x), (), ()))], [nc.tensor(1.0).type])
    compile_graph(a_number.graph)
    assert_same(
        lambda h, w, b, t: nc.max(nc.tanh(nc.dynamic_slice(h @ w, (1, 2), (6, 5))), axis=1),
        operands(9, 4, 8, nc.float32),
        loops=0,
    )
