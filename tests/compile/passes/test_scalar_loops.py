"""Loops over scalars as kernels: the bits of the iterations, any dtype, bounds, lengths, interrupts of the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.compile.passes import scalar_loops
from nacre.inspect.explain import explain

COUNTS = (0, 1, 2, 3, 4, 7, 50)


def bits(tree: Any) -> list[bytes]:
    return [x.numpy().tobytes() for x in nc.tree.leaves(tree)]


@pytest.fixture(autouse=True, params=[1, 3, scalar_loops.ROUNDS])
def rounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Iterations of one launch."""
    monkeypatch.setattr(scalar_loops, "ROUNDS", request.param)
    return request.param


def launched(f: Callable[..., Any], *args: Any) -> bool:
    return "scalar_loop" in str(explain(f, *args).plan)


def test_exchanged_and_constant_carries() -> None:
    def fibonacci(n: Any) -> Any:
        def body(s: Any) -> Any:
            return {"k": s["k"] + 1, "a": s["b"], "b": s["a"] + s["b"], "flag": s["k"] > 2, "last": 7.0, "n": s["n"]}

        start = {"k": 0, "a": 0, "b": 1, "flag": False, "last": 0.0, "n": n}
        return nc.while_loop(lambda s: s["k"] < s["n"], body, start)

    f = nc.jit(fibonacci)
    assert launched(fibonacci, nc.tensor(4))
    a, b = 0, 1
    for n in range(60):
        found = f(nc.tensor(n))
        assert (int(found["a"]), int(found["b"]), int(found["k"])) == (a, b, n)
        assert bool(found["flag"]) == (n > 3) and float(found["last"]) == (7.0 if n else 0.0)
        a, b = b, a + b


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint32", "uint64"])
def test_every_dtype_has_the_bits_of_its_operations(dtype: str) -> None:
    kind = getattr(nc, dtype)

    def step(x: Any, y: Any) -> Any:
        z = x * y + x
        return (nc.where(z > y, z - y, z * x), y) if kind.is_integer else (nc.sin(z) / (y + 1.5) + nc.exp(-x * x), y)

    x, y = nc.tensor(3, dtype=kind), nc.tensor(5, dtype=kind)

    def looped(x: Any, y: Any, n: Any) -> Any:
        return nc.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, *step(*s[1:])), (nc.tensor(0), x, y))[1]

    assert launched(looped, x, y, nc.tensor(3))
    f, wanted, k = nc.jit(looped), x, 0
    for n in COUNTS:
        while k < n:
            wanted, k = step(wanted, y)[0], k + 1
        assert bits(f(x, y, nc.tensor(n))) == bits(looped(x, y, nc.tensor(n))) == bits(wanted)


@pytest.mark.parametrize("n", COUNTS)
def test_bounds_and_lengths(n: int) -> None:
    def bounded(x: Any) -> Any:
        return nc.while_loop(lambda s: s[0] < 1e3, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0), max_iterations=n)

    def counted(x: Any) -> Any:
        return nc.fori_loop(0, n, lambda k, s: nc.cos(s) + k.astype(nc.float64), x)

    def unrolled(x: Any) -> Any:
        for k in range(n):
            x = nc.cos(x) + k
        return x

    x = nc.tensor(1.0, dtype=nc.float64)
    assert int(nc.jit(bounded)(x)[1]) == int(bounded(x)[1]) == min(n, 18)
    assert float(bounded(x)[0]) == 1.5 ** min(n, 18)
    assert bits(nc.jit(counted)(x)) == bits(counted(x)) == bits(unrolled(x))
    assert launched(counted, x) and launched(bounded, x)


def test_loops_of_symbolic_length() -> None:
    def f(xs: Any) -> Any:
        return nc.fori_loop(0, xs.shape[0], lambda k, s: s * 0.5 + k.astype(nc.float64), xs.sum())

    g = nc.jit(f, dynamic_shapes={"xs": {0: nc.Dim("n", min=0, max=99)}})
    for n in (0, 1, 2, 5, 40):
        x = nc.tensor(np.linspace(0.1, 0.4, n))
        assert bits(g(x)) == bits(f(x))
    assert len(g.concrete_functions) == 1


def test_loops_in_loops() -> None:
    def collatz(n: Any) -> Any:
        def halved(s: Any) -> Any:
            return nc.while_loop(lambda s: s[0] % 2 == 0, lambda s: (s[0] // 2, s[1] + 1), s)

        def body(s: Any) -> Any:
            m, k = halved(s)
            return nc.where(m > 1, 3 * m + 1, m), nc.where(m > 1, k + 1, k)

        return nc.while_loop(lambda s: s[0] > 1, body, (n, nc.tensor(0)))[1]

    def plain(n: int) -> int:
        k = 0
        while n > 1:
            n, k = (3 * n + 1 if n % 2 else n // 2), k + 1
        return k

    f = nc.jit(collatz)
    assert [int(f(nc.tensor(n))) for n in range(1, 28)] == [plain(n) for n in range(1, 28)]
    rows = nc.map(collatz, nc.arange(1, 28))
    assert rows.tolist() == [plain(n) for n in range(1, 28)]


def test_loops_that_are_not_of_real_scalars_stay() -> None:
    def vectors(x: Any) -> Any:
        return nc.while_loop(lambda s: s.sum() < 9.0, lambda s: s * 2.0, x)

    def complexes(x: Any) -> Any:
        return nc.while_loop(lambda s: nc.abs(s) < 9.0, lambda s: s * (1 + 1j), x)

    assert not launched(vectors, nc.ones(3)) and vectors(nc.ones(3)).tolist() == [4.0] * 3
    z = nc.tensor(1 + 1j)
    assert not launched(complexes, z) and complex(complexes(z)) == (1 + 1j) ** 7
