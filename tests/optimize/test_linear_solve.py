"""`linear_solve`: solutions, their derivatives of any order, batches, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

import nacre as nc
from optimize.problems import F64, definite, general, numbers
from tensor_bits import bits

METHODS = ("dense", "gmres", "bicgstab", "cg")


def solution(method: str) -> Any:
    """The solution as a function of a matrix and a vector; "cg" gets a symmetric matrix made of it."""

    def f(a: Any, b: Any) -> Any:
        a = a + a.T if method == "cg" else a
        return nc.optimize.linear_solve(lambda x: a @ x, b, method=method, tolerance=1e-13).x

    return f


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 40, 150])
def test_a_system_is_solved(method: str, n: int) -> None:
    a, b = (definite if method == "cg" else general)(n), numbers(1, n)
    if n == 150:
        a = a + 20 * nc.eye(n, dtype=F64)
    found = nc.optimize.linear_solve(a, b, method=method, strict=True)
    assert bool(found.converged) and found.reason.startswith("converged")
    assert float(nc.linalg.vector_norm(a @ found.x - b)) <= 1e-9 * float(nc.linalg.vector_norm(b))


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_both_modes_are_those_of_a_dense_solution(method: str) -> None:
    a, b = general(5), numbers(1, 5)

    def dense(a: Any, b: Any) -> Any:
        return nc.linalg.solve(a + a.T if method == "cg" else a, b)

    for mode in (nc.jacrev, nc.jacfwd):
        for ours, theirs in zip(mode(solution(method), (0, 1))(a, b), mode(dense, (0, 1))(a, b), strict=True):
            assert float(abs(ours - theirs).max()) < 1e-11
    nc.check_grads(solution(method), (a, b), order=2)


def test_a_third_derivative() -> None:
    def f(c: Any) -> Any:
        return nc.optimize.linear_solve(lambda x: c * x, nc.ones(1, F64), method="cg").x[0]

    at = nc.tensor(2.0, dtype=F64)
    for third in (nc.grad(nc.grad(nc.grad(f))), nc.jacfwd(nc.grad(nc.jacfwd(f)))):
        assert float(third(at)) == pytest.approx(-6 / 2.0**4, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_bits_are_equal_eagerly_compiled_and_in_a_batch(method: str) -> None:
    f, a, bs = solution(method), general(6), numbers(2, 4, 6)
    alone = [f(a, b) for b in bs]
    assert bits(nc.jit(f)(a, bs[0])) == bits(alone[0])
    assert bits(list(nc.vmap(f, (None, 0))(a, bs))) == bits(alone)
    assert bits(list(nc.vmap(f, (0, None))(nc.stack([a, 2 * a]), bs[0]))) == bits([f(a, bs[0]), f(2 * a, bs[0])])


def test_gradients_of_a_batch_are_those_of_its_examples() -> None:
    def loss(a: Any, b: Any) -> Any:
        return (solution("gmres")(a, b) ** 2).sum()

    a, bs = general(5), numbers(2, 3, 5)
    each = nc.vmap(nc.grad(loss, (0, 1)), (None, 0))(a, bs)
    alone = [nc.grad(loss, (0, 1))(a, b) for b in bs]
    assert all(float(abs(each[p][k] - alone[k][p]).max()) < 1e-12 for k in range(3) for p in range(2))
    whole = nc.grad(lambda a: nc.vmap(loss, (None, 0))(a, bs).sum())(a)
    assert float(abs(whole - sum(g for g, _ in alone)).max()) < 1e-12


def test_backward_reaches_what_the_operator_reads() -> None:
    a, b = general(4).requires_grad_(), numbers(1, 4).requires_grad_()
    nc.optimize.linear_solve(lambda x: a @ x, b, method="bicgstab", tolerance=1e-13).x.sum().backward()
    wanted = nc.grad(lambda a, b: nc.linalg.solve(a, b).sum(), (0, 1))(a.detach(), b.detach())
    assert float(abs(a.grad - wanted[0]).max()) < 1e-12 and float(abs(b.grad - wanted[1]).max()) < 1e-12


def test_trees_and_parameters() -> None:
    scale = nc.nn.Parameter(nc.tensor([2.0, 4.0]))
    b = {"u": nc.tensor([2.0, 4.0]), "v": (nc.tensor(3.0),)}

    def operator(x: Any) -> Any:
        return {"u": scale * x["u"] + x["v"][0], "v": (3.0 * x["v"][0],)}

    found = nc.optimize.linear_solve(operator, b)
    assert found.x["u"].tolist() == [0.5, 0.75] and found.x["v"][0].tolist() == 1.0
    nc.optimize.linear_solve(operator, b).x["u"].sum().backward()
    assert scale.grad.tolist() == [-0.25, -0.1875]


def test_a_system_in_a_branch_of_a_batch() -> None:
    def f(x: Any) -> Any:
        table = nc.tensor([2.0, 4.0])

        def solved(x: Any) -> Any:
            picked = table[nc.where(x > 0, 1, 5)]  # an index whose check counts where the branch runs
            return nc.optimize.linear_solve(lambda v: picked * v, x[None], method="cg").x[0]

        return nc.cond(x > 0, solved, lambda x: x, x)

    assert nc.vmap(f)(nc.tensor([8.0, -1.0])).tolist() == [2.0, -1.0]
    assert nc.vmap(nc.grad(f))(nc.tensor([8.0, -1.0])).tolist() == [0.25, 1.0]


def test_the_end_of_a_solver_is_told() -> None:
    few = nc.optimize.linear_solve(general(40), numbers(1, 40), method="gmres", max_iterations=3)
    assert not bool(few.converged) and few.status.item() == 1 and few.iterations.item() == 3
    negative = nc.optimize.linear_solve(lambda x: -x, nc.ones(3), method="cg")
    assert negative.status.item() == 4
    singular = nc.optimize.linear_solve(nc.zeros((2, 2)), nc.ones(2))
    assert singular.status.item() == 4 and "singular" in singular.reason
    with pytest.raises(nc.ConvergenceError, match="status 4"):
        nc.jit(lambda b: nc.optimize.linear_solve(lambda x: -x, b, method="cg", strict=True))(nc.ones(3))


def test_a_derivative_whose_system_does_not_converge_is_nan() -> None:
    def f(a: Any) -> Any:
        return nc.optimize.linear_solve(lambda x: a @ x, numbers(1, 40), method="gmres", max_iterations=3).x.sum()

    assert bool(nc.isnan(nc.grad(f)(general(40))).any())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nc.optimize.linear_solve(lambda x: x * x, nc.ones(3)), nc.ArgumentError, "linear; got mul"),
        (lambda: nc.optimize.linear_solve(lambda x: x + 1.0, nc.ones(3)), nc.ArgumentError, "must be linear"),
        (lambda: nc.optimize.linear_solve(lambda x: x[:2], nc.ones(3)), nc.ArgumentError, "tree like its argument"),
        (lambda: nc.optimize.linear_solve(nc.ones((3, 2)), nc.ones(3)), nc.ShapeError, r"matrix \[n, n\]"),
        (lambda: nc.optimize.linear_solve(lambda x: x, nc.tensor([1, 2])), nc.DTypeError, "float32, or all float64"),
        (lambda: nc.optimize.linear_solve(lambda x: x, nc.ones(3), method="lu"), nc.ArgumentError, '"dense"'),
        (lambda: nc.optimize.linear_solve(lambda x: x, nc.ones(3), tolerance=-1), nc.ArgumentError, "at least 0"),
        (lambda: nc.optimize.linear_solve(lambda x: x, nc.ones(3), max_iterations=0), nc.ArgumentError, "at least 1"),
        (lambda: nc.optimize.linear_solve(lambda x: x, "b"), nc.Error, "tree of tensors or numbers"),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
