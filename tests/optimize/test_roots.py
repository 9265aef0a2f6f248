"""`root` and `root_scalar`: solutions, implicit derivatives of any order, batches, and how they end."""

from __future__ import annotations

import math
from typing import Any

import pytest

import nacre as nc
from optimize.problems import F64, numbers, tridiagonal
from tensor_bits import bits

METHODS = ("newton", "newton-krylov", "broyden")


def kepler(anomaly: Any, eccentricity: Any) -> Any:
    """The eccentric anomaly E with E − e·sin E = M."""
    return nc.optimize.root(lambda e: e - eccentricity * nc.sin(e) - anomaly, anomaly, tolerance=1e-13).x


M, E = nc.tensor(1.0, dtype=F64), nc.tensor(0.5, dtype=F64)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [5, 300])
def test_a_system_of_equations(method: str, n: int) -> None:
    found = nc.optimize.root(tridiagonal, -nc.ones(n, dtype=F64), method=method, strict=True)
    assert float(abs(tridiagonal(found.x)).max()) == float(found.residual) <= 1e-10
    assert found.iterations.item() <= 30


@pytest.mark.parametrize("method", METHODS)
def test_a_tree_of_unknowns(method: str) -> None:
    def equations(x: Any, a: Any) -> Any:
        u, v = x["u"], x["v"]
        return (u**3 + v.sum() - a, nc.stack([u - v[0] ** 2, v[1] * 3 - nc.cos(v[0])]))

    start = {"u": nc.tensor(1.0, dtype=F64), "v": nc.ones(2, dtype=F64)}
    found = nc.optimize.root(equations, start, 3.0, method=method, strict=True)
    assert all(float(abs(r).max()) <= 1e-10 for r in equations(found.x, 3.0))


def test_derivatives_of_any_order_are_those_of_the_solution() -> None:
    e = kepler(M, E).item()
    slope = 1 / (1 - 0.5 * math.cos(e))
    assert nc.grad(kepler)(M, E).item() == pytest.approx(slope, rel=1e-12)
    second = -0.5 * math.sin(e) * slope**3
    pairs = ((nc.jacfwd, nc.grad), (nc.grad, nc.grad), (nc.jacfwd, nc.jacfwd), (nc.grad, nc.jacfwd))
    for twice in (outer(inner(kepler)) for outer, inner in pairs):
        assert twice(M, E).item() == pytest.approx(second, rel=1e-11)
    nc.check_grads(kepler, (M, E), order=3)


def test_derivatives_equal_those_of_unrolled_iterations() -> None:
    def unrolled(m: Any, e: Any) -> Any:
        x = m
        for _ in range(8):
            x = x - (x - e * nc.sin(x) - m) / (1 - e * nc.cos(x))
        return x

    for mode in (nc.grad, nc.jacfwd):
        for k in (0, 1):
            assert mode(kepler, k)(M, E).item() == pytest.approx(mode(unrolled, k)(M, E).item(), rel=1e-11)


def test_bits_are_equal_eagerly_compiled_and_in_a_batch() -> None:
    ms = nc.linspace(0.1, 3.0, 7, dtype=F64)
    for f in (kepler, nc.grad(kepler)):
        alone = [f(m, E) for m in ms]
        assert bits(list(nc.vmap(f, (0, None))(ms, E))) == bits(alone)
        assert bits(nc.jit(f)(ms[0], E)) == bits(alone[0])


def test_examples_of_a_batch_end_one_by_one() -> None:
    def f(m: Any) -> Any:
        return nc.optimize.root(lambda x: x**3 - m, nc.ones((), F64))

    each, ms = nc.vmap(f)(nc.tensor([1.0, 2.0, 1000.0], dtype=F64)), (1.0, 2.0, 1000.0)
    assert each.iterations.tolist() == [f(nc.tensor(m, dtype=F64)).iterations.item() for m in ms]
    assert each.converged.tolist() == [True] * 3 and len(each.reason) == 3


def test_backward_reaches_captured_tensors_and_parameters() -> None:
    a = nc.nn.Parameter(nc.tensor(2.0, dtype=F64))
    b = nc.tensor(3.0, dtype=F64).requires_grad_()
    nc.optimize.root(lambda x: x * x - a * b, nc.ones((), F64), tolerance=1e-14).x.backward()
    assert a.grad.item() == pytest.approx(3 / (2 * math.sqrt(6)))
    assert b.grad.item() == pytest.approx(2 / (2 * math.sqrt(6)))


def test_a_start_has_no_derivative() -> None:
    def f(start: Any) -> Any:
        return nc.optimize.root(lambda x: x * x - 2.0, start).x

    assert nc.grad(f)(M).item() == 0.0


@pytest.mark.parametrize("solver", ["dense", "gmres", "bicgstab"])
def test_the_linear_solver_of_derivatives_is_a_choice(solver: str) -> None:
    def f(a: Any) -> Any:
        return nc.optimize.root(lambda x: tridiagonal(x) + a, -nc.ones(6, dtype=F64), linear_solver=solver).x

    nc.check_grads(f, (0.1 * numbers(0, 6),), order=2)


def test_float32() -> None:
    found = nc.optimize.root(lambda x: x * x - 2.0, nc.tensor(1.0))
    assert (
        found.x.dtype is nc.float32
        and bool(found.converged)
        and found.x.item() == pytest.approx(math.sqrt(2), rel=1e-5)
    )


def test_the_end_of_a_solver_is_told() -> None:
    def ends(f: Any, start: float, **settings: Any) -> int:
        return nc.optimize.root(f, nc.tensor(start, dtype=F64), **settings).status.item()

    assert ends(lambda x: x * x - 2, 100.0, max_iterations=2) == 1
    assert ends(lambda x: nc.log(x), -1.0) == 2
    assert ends(lambda x: x * x + 1, 0.5) in (3, 4)
    assert ends(lambda x: x * 0 + 1, 0.5) == 4
    with pytest.raises(nc.ConvergenceError, match="root: the solver must converge"):
        nc.optimize.root(lambda x: x * x + 1, nc.tensor(0.5), strict=True)
    with pytest.raises(nc.ConvergenceError, match="status"):
        nc.vmap(lambda a: nc.optimize.root(lambda x: x * x - a, nc.ones(()), strict=True).x)(nc.tensor([1.0, -1.0]))


def test_a_derivative_where_the_jacobian_is_singular_is_nan() -> None:
    found = nc.grad(lambda a: nc.optimize.root(lambda x: x * x - a, nc.zeros(()), tolerance=1e-3).x)(nc.tensor(0.0))
    assert math.isnan(found.item())


@pytest.mark.parametrize("method", ["chandrupatla", "bisection"])
@pytest.mark.parametrize("dtype", [nc.float32, nc.float64])
def test_a_bracketed_root(method: str, dtype: Any) -> None:
    def f(a: Any) -> Any:
        return nc.optimize.root_scalar(lambda x: x**3 - a, (nc.zeros((), dtype), 5.0), method=method, strict=True)

    a = nc.tensor(2.0, dtype=dtype)
    digits = 2e-7 if dtype is nc.float32 else 4e-16
    assert f(a).x.item() == pytest.approx(2 ** (1 / 3), rel=digits) and f(a).x.dtype is dtype
    assert nc.grad(lambda a: f(a).x)(a).item() == pytest.approx(2 ** (-2 / 3) / 3, rel=10 * digits)
    if method == "chandrupatla":
        assert f(a).evaluations.item() <= 16


def test_bracketed_roots_of_a_batch() -> None:
    def f(a: Any) -> Any:
        return nc.optimize.root_scalar(lambda x: nc.exp(x) - a, (nc.tensor(-5.0, dtype=F64), 5.0)).x

    values = nc.tensor([0.1, 1.0, 20.0], dtype=F64)
    assert bits(list(nc.vmap(f)(values))) == bits([f(v) for v in values])
    assert nc.vmap(nc.grad(f))(values).tolist() == pytest.approx([10.0, 1.0, 0.05], rel=1e-12)


def test_a_bracket_without_a_change_of_sign_is_told() -> None:
    found = nc.optimize.root_scalar(lambda x: x * x + 1, (-1.0, 1.0))
    assert found.status.item() == 5 and "one sign" in found.reason
    assert nc.optimize.root_scalar(lambda x: x, (0.0, 1.0)).x.item() == 0.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nc.optimize.root(lambda x: x[:1], nc.ones(3)), nc.ArgumentError, "got 1 for 3 unknowns"),
        (lambda: nc.optimize.root(lambda x: x > 0, nc.ones(3)), nc.DTypeError, "dtype, float32"),
        (lambda: nc.optimize.root(3, nc.ones(3)), nc.Error, "root"),
        (lambda: nc.optimize.root(lambda x: x, nc.ones(3), method="brent"), nc.ArgumentError, '"newton"'),
        (lambda: nc.optimize.root(lambda x: x, nc.ones(3, nc.float16)), nc.DTypeError, "float32, or all float64"),
        (lambda: nc.optimize.root(lambda x: x, (nc.ones(3), nc.ones(3, F64))), nc.DTypeError, "all float64"),
        (lambda: nc.optimize.root_scalar(lambda x: x, 3.0), nc.ArgumentError, "pair"),
        (lambda: nc.optimize.root_scalar(lambda x: x, (nc.ones(2), 3.0)), nc.ShapeError, "vmap"),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_a_function_that_assigns_a_variable_is_refused() -> None:
    count = nc.Variable(nc.tensor(0.0))

    def f(x: Any) -> Any:
        count.assign(count.value + 1.0)
        return x

    with pytest.raises(nc.TraceError, match="must not assign variables"):
        nc.optimize.root(f, nc.ones(2))
