"""`minimize`: the minima of well-known functions beside SciPy's, implicit derivatives, batches, and how it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import nacre as nc
from optimize.problems import F64, KNOWN, Known, rosenbrock
from tensor_bits import bits

METHODS = ("l-bfgs", "newton-cg")


def of_scipy(f: Any, start: Any, method: str) -> tuple[Any, int]:
    """SciPy's minimum, and its evaluations, products with the Hessian included."""
    slope, product = nc.jit(nc.grad(f)), nc.jit(lambda x, v: nc.hvp(f, (x,), (v,))[0])
    counts = [0, 0]

    def jac(x: Any) -> Any:
        counts[0] += 1
        return slope(nc.tensor(x)).numpy()

    def hessp(x: Any, v: Any) -> Any:
        counts[1] += 1
        return product(nc.tensor(x), nc.tensor(v)).numpy()

    def value(x: Any) -> float:
        return float(f(nc.tensor(x)))

    if method == "l-bfgs":
        options = {"gtol": 1e-8, "ftol": 0, "maxiter": 5000, "maxfun": 50000, "maxcor": 10}
        return minimize(value, start, jac=jac, method="L-BFGS-B", options=options), counts[0]
    return minimize(value, start, jac=jac, hessp=hessp, method="trust-ncg", options={"gtol": 1e-8}), sum(counts)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("known", KNOWN, ids=lambda k: k.name)
def test_known_minima_are_found_with_as_few_evaluations_as_scipys(known: Known, method: str) -> None:
    found = nc.optimize.minimize(known.f, nc.tensor(known.start, dtype=F64), method=method, strict=True)
    theirs, evaluations = of_scipy(known.f, np.array(known.start), method)
    assert float(abs(found.x - nc.tensor(known.at, dtype=F64)).max()) < known.distance
    assert float(abs(found.x - nc.tensor(theirs.x)).max()) < known.distance and found.value.item() < 1e-10
    assert found.evaluations.item() <= 1.3 * evaluations + 10


@pytest.mark.parametrize("method", METHODS)
def test_logistic_regression_on_digits(method: str) -> None:
    data: Any = load_digits()
    x, y = nc.tensor(data.data[:400] / 16.0), nc.tensor(data.target[:400])

    def loss(w: Any) -> Any:
        return nc.nn.functional.cross_entropy(x @ w["w"] + w["b"], y) + 1e-2 * (w["w"] ** 2).sum()

    start = {"w": nc.zeros((64, 10), dtype=F64), "b": nc.zeros(10, dtype=F64)}

    def flat(v: Any) -> Any:
        return loss({"w": v[:640].reshape(64, 10), "b": v[640:]})

    found = nc.optimize.minimize(loss, start, method=method, tolerance=1e-7, strict=True)
    theirs, evaluations = of_scipy(flat, np.zeros(650), method)
    assert found.value.item() == pytest.approx(theirs.fun, rel=1e-9)
    assert float(abs(found.x["w"] - nc.tensor(theirs.x[:640].reshape(64, 10))).max()) < 1e-3
    assert found.evaluations.item() <= 1.3 * evaluations + 10


def parted(x: Any, a: Any) -> Any:
    """Rosenbrock's function, whose minimum is at (a, a²)."""
    return (a - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2


START = nc.tensor([-1.2, 1.0], dtype=F64)


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_the_minimum(method: str) -> None:
    def at(a: Any) -> Any:
        return nc.optimize.minimize(parted, START, a, method=method, tolerance=1e-12)

    a = nc.tensor(1.5, dtype=F64)
    for mode in (nc.jacrev, nc.jacfwd):
        assert mode(lambda a: at(a).x)(a).tolist() == pytest.approx([1.0, 3.0], rel=1e-8)
    for twice in (nc.jacrev(nc.jacrev(lambda a: at(a).x)), nc.jacfwd(nc.jacrev(lambda a: at(a).x))):
        assert twice(a).tolist() == pytest.approx([0.0, 2.0], abs=1e-8)
    lifted = nc.grad(lambda a: nc.optimize.minimize(lambda x: parted(x, a) + a * a, START, method=method).value)
    assert lifted(a).item() == pytest.approx(3.0, rel=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_bits_are_equal_eagerly_compiled_and_in_a_batch(method: str) -> None:
    def f(a: Any) -> Any:
        return nc.optimize.minimize(parted, START, a, method=method)

    values = nc.tensor([0.5, 1.0, 1.7], dtype=F64)
    batch, alone = nc.vmap(f)(values), [f(a) for a in values]
    assert batch.iterations.tolist() == [one.iterations.item() for one in alone]
    assert len(set(batch.iterations.tolist())) > 1  # they end one by one
    assert bits(list(batch.x)) == bits([one.x for one in alone]) and bits(nc.jit(f)(values[0])) == bits(alone[0])


def test_the_parameters_of_a_model() -> None:
    nc.random.seed(0)
    model = nc.nn.Linear(3, 1)
    x = nc.random.normal((16, 3))
    y = x @ nc.tensor([[1.0], [-2.0], [0.5]]) + 3.0
    found = nc.optimize.minimize(lambda m: ((m(x) - y) ** 2).mean(), model)
    assert bool(found.converged) and found.x.weight.tolist()[0] == pytest.approx([1.0, -2.0, 0.5], abs=1e-3)
    assert found.x(x).shape == (16, 1) and found.x.bias.item() == pytest.approx(3.0, abs=1e-3)


def test_float32_ends_by_a_tolerance_of_its_own() -> None:
    found = nc.optimize.minimize(rosenbrock, nc.tensor([-1.2, 1.0]), strict=True)
    assert found.x.dtype is nc.float32 and found.x.tolist() == pytest.approx([1.0, 1.0], abs=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_the_end_of_a_solver_is_told(method: str) -> None:
    few = nc.optimize.minimize(rosenbrock, START, method=method, max_iterations=3)
    assert few.status.item() == 1 and few.iterations.item() == 3 and not bool(few.converged)
    broken = nc.optimize.minimize(lambda x: nc.log(x).sum(), nc.tensor([-1.0, 1.0]), method=method)
    assert broken.status.item() == 2
    edge = nc.optimize.minimize(lambda x: abs(x - 0.3).sum(), nc.tensor([1.0, 2.0], dtype=F64), method=method)
    assert edge.status.item() in (0, 1, 3)
    with pytest.raises(nc.ConvergenceError, match="minimize"):
        nc.optimize.minimize(rosenbrock, START, method=method, max_iterations=3, strict=True)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nc.optimize.minimize(lambda x: x, nc.ones(3)), nc.ArgumentError, "must return a scalar"),
        (lambda: nc.optimize.minimize(lambda x: x.sum() > 0, nc.ones(3)), nc.DTypeError, "dtype, float32"),
        (lambda: nc.optimize.minimize(rosenbrock, nc.ones(3), method="bfgs"), nc.ArgumentError, '"l-bfgs"'),
        (lambda: nc.optimize.minimize(rosenbrock, nc.ones(3), strict=3), nc.KindError, "True or False"),
        (lambda: nc.optimize.minimize(rosenbrock, []), nc.Error, "tree of tensors or numbers"),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
