"""cond, while_loop and scan: values, both modes of derivatives, batches, variables, jit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.base.errors import ArgumentError, DTypeError, GradientError, KindError, ShapeError
from nacre.trace.variable import Variable

X = nc.tensor([0.5, -1.0, 2.0], dtype=nc.float64)
W = nc.tensor([[0.5, 0.1, 0.2], [0.3, 0.2, 0.1], [0.1, 0.4, 0.3]], dtype=nc.float64)
XS = nc.tensor(np.linspace(-1, 1, 12).reshape(4, 3))


def bits(x: Any) -> bytes:
    return x.numpy().tobytes()


# ---- cond


def branchy(x: Any) -> Any:
    return nc.cond(x.sum() > 0, lambda a: nc.sin(a) * x, lambda a: nc.exp(a) + a, x).sum()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_takes_one_branch(sign: float) -> None:
    x = X * sign
    plain = (nc.sin(x) * x if sign > 0 else nc.exp(x) + x).sum()
    np.testing.assert_allclose(float(branchy(x)), float(plain))
    wanted = nc.grad(lambda v: (nc.sin(v) * v if sign > 0 else nc.exp(v) + v).sum())(x).numpy()
    for g in (
        nc.grad(branchy),
        nc.jit(nc.grad(branchy)),
        nc.grad(nc.jit(branchy)),
        nc.jacfwd(branchy),
    ):
        np.testing.assert_allclose(g(x).numpy(), wanted, rtol=1e-14)
    np.testing.assert_allclose(nc.hessian(branchy)(x).numpy(), nc.jacrev(nc.grad(branchy))(x).numpy(), rtol=1e-12)


def test_cond_under_vmap_selects() -> None:
    rows = nc.stack([X, -X])
    found = nc.vmap(nc.grad(branchy))(rows)
    for k in range(2):
        np.testing.assert_allclose(found[k].numpy(), nc.grad(branchy)(rows[k]).numpy())
    shared = nc.vmap(lambda x: nc.cond(nc.tensor(True), lambda a: a * 2, lambda a: X * 3, x))(rows)
    np.testing.assert_array_equal(shared.numpy(), rows.numpy() * 2)


def test_cond_with_variables() -> None:
    w, count = Variable(X, requires_grad=True), Variable(nc.tensor(0))

    def then(x: Any) -> Any:
        count.assign(count.value + 1)
        return (w.value * x).sum()

    for positive, wanted in ((True, 1), (False, 1)):
        loss = nc.cond(nc.tensor(positive), then, lambda x: (w.value * w.value).sum(), X)
        assert int(count.value) == wanted
        w.gradient = None
        loss.backward()
        np.testing.assert_allclose(w.gradient.numpy(), (X if positive else X * 2).numpy())


def test_cond_faults() -> None:
    with pytest.raises(DTypeError, match="bool scalar"):
        nc.cond(X, lambda: X, lambda: X)
    with pytest.raises(ArgumentError, match="structure"):
        nc.cond(nc.tensor(True), lambda: X, lambda: (X, X))
    with pytest.raises(ShapeError, match="second branch"):
        nc.cond(nc.tensor(True), lambda: X, lambda: X.sum())
    with pytest.raises(DTypeError, match="second branch"):
        nc.cond(nc.tensor(True), lambda: X, lambda: X.astype(nc.float32))


# ---- while_loop


def doubled(x: Any) -> Any:
    value, rounds = nc.while_loop(lambda c: c[0] < 100, lambda c: (c[0] * 2, c[1] + 1), (x, nc.tensor(0)))
    return value, rounds


def test_while_runs_while_its_condition_holds() -> None:
    value, rounds = doubled(nc.tensor(3.0))
    assert (float(value), int(rounds)) == (192.0, 6)
    value, rounds = nc.jit(doubled)(nc.tensor(200.0))
    assert (float(value), int(rounds)) == (200.0, 0)


def test_while_forward_and_not_backward() -> None:
    _, t = nc.jvp(lambda x: doubled(x)[0], (nc.tensor(3.0),), (nc.tensor(1.0),))
    assert float(t) == 64.0
    with pytest.raises(GradientError, match="scan"):
        nc.grad(lambda x: doubled(x)[0])(nc.tensor(3.0))


def test_while_under_vmap_stops_each_example() -> None:
    value, rounds = nc.vmap(doubled)(nc.tensor([3.0, 50.0, 200.0]))
    assert value.tolist() == [192.0, 100.0, 200.0] and rounds.tolist() == [6, 1, 0]
    steps = nc.vmap(lambda x: nc.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + x, c[1] + 1), (x, nc.tensor(0)))[0])
    assert steps(nc.tensor([1.0, 2.0])).tolist() == [4.0, 8.0]


def test_while_with_variables() -> None:
    total = Variable(nc.tensor(0.0))

    def body(x: Any) -> Any:
        total.assign(total.value + x)
        return x + 1.0

    nc.while_loop(lambda x: x < 4, body, 1.0)
    assert float(total.value) == 6.0


# ---- fori_loop


def test_fori_counts_and_has_derivatives() -> None:
    def power(x: Any, n: Any) -> Any:
        return nc.fori_loop(0, n, lambda k, c: c * x + k.astype(nc.float64), nc.ones(3, dtype=nc.float64)).sum()

    x, wanted = X.numpy(), np.ones(3)
    for k in range(4):
        wanted = wanted * x + k
    for n in (4, nc.tensor(4), nc.tensor(4, dtype=nc.int32)):
        np.testing.assert_allclose(float(power(X, n)), wanted.sum())
        np.testing.assert_allclose(float(nc.jit(power)(X, n)), wanted.sum())
    assert float(power(X, 0)) == float(power(X, -3)) == float(power(X, nc.tensor(-3))) == 3.0
    found = nc.grad(lambda v: power(v, 3))(X).numpy()
    np.testing.assert_allclose(found, 3 * x**2 + 0 * x + 1, rtol=1e-12)
    _, t = nc.jvp(lambda v: power(v, nc.tensor(3)), (X,), (nc.ones(3, dtype=nc.float64),))
    np.testing.assert_allclose(float(t), found.sum())
    with pytest.raises(GradientError, match="scan"):
        nc.grad(lambda v: power(v, nc.tensor(3)))(X)


def test_fori_faults() -> None:
    with pytest.raises(DTypeError, match="integer scalars"):
        nc.fori_loop(0, nc.tensor(2.0), lambda k, c: c, X)
    with pytest.raises(DTypeError, match="carry"):
        nc.fori_loop(0, 2, lambda k, c: c.astype(nc.float32), X)


# ---- scan


def rnn(w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = nc.tanh(h @ w + x)
        return h, {"sum": h.sum(), "first": h[0] * x[1]}

    h, ys = nc.scan(step, nc.zeros(3, dtype=nc.float64), xs)
    return (ys["sum"] * ys["sum"]).sum() + h.sum() + ys["first"].sum()


def rnn_loop(w: Any, xs: Any) -> Any:
    h, total, first = nc.zeros(3, dtype=nc.float64), 0.0, 0.0
    for k in range(4):
        h = nc.tanh(h @ w + xs[k])
        total, first = total + h.sum() * h.sum(), first + h[0] * xs[k][1]
    return total + h.sum() + first


def test_scan_is_a_loop() -> None:
    np.testing.assert_allclose(float(rnn(W, XS)), float(rnn_loop(W, XS)), rtol=1e-14)
    wanted = nc.grad(rnn_loop, (0, 1))(W, XS)
    for g in (
        nc.grad(rnn, (0, 1)),
        nc.jit(nc.grad(rnn, (0, 1))),
        nc.grad(nc.jit(rnn), (0, 1)),
        nc.jacfwd(rnn, (0, 1)),
    ):
        for a, b in zip(g(W, XS), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_scan_eager_and_compiled_have_the_same_bits() -> None:
    assert bits(nc.grad(rnn)(W, XS)) == bits(nc.jit(nc.grad(rnn))(W, XS))


def test_scan_to_second_order() -> None:
    wanted = nc.jacrev(nc.grad(rnn_loop))(W, XS).numpy()
    for g in (nc.jacfwd(nc.grad(rnn)), nc.jacrev(nc.grad(rnn)), nc.jacrev(nc.jacfwd(rnn))):
        np.testing.assert_allclose(g(W, XS).numpy(), wanted, rtol=1e-10, atol=1e-12)


def test_scan_under_vmap() -> None:
    batch = nc.stack([XS, XS * 2, XS * -1])
    found = nc.vmap(nc.grad(rnn), in_axes=(None, 0))(W, batch)
    for k in range(3):
        np.testing.assert_allclose(found[k].numpy(), nc.grad(rnn)(W, batch[k]).numpy(), rtol=1e-12)


def test_scan_backwards_and_by_length() -> None:
    def sums(xs: Any) -> Any:
        return nc.scan(lambda c, x: (c + x, c + x), 0.0, xs, reverse=True)

    total, ys = sums(nc.tensor([1.0, 2.0, 3.0]))
    assert float(total) == 6.0 and ys.tolist() == [6.0, 5.0, 3.0]
    assert nc.grad(lambda x: (sums(x)[1] * nc.tensor([1.0, 10.0, 100.0])).sum())(nc.ones(3)).tolist() == [1, 11, 111]
    carry, ys = nc.scan(lambda c, _: (c * 2, None), 1.0, length=5)
    assert float(carry) == 32.0 and ys is None
    carry, ys = nc.scan(lambda c, x: (c + x, c), 1.0, nc.zeros(0))
    assert float(carry) == 1.0 and ys.shape == (0,)


def test_loop_invariants_are_not_stacked() -> None:
    text = str(nc.jit(nc.grad(rnn)).trace(W, XS))
    assert "f64[4, 3, 3]" not in text and "scan" in text


def test_training_in_a_scan() -> None:
    def train(w: Variable, rounds: int) -> Any:
        def body(_: Any, __: Any) -> Any:
            loss = ((w.value - 1.0) * (w.value - 1.0)).sum()
            loss.backward()
            w.assign(w.value - w.gradient * 0.1)
            w.gradient = None
            return nc.tensor(0.0), loss

        return nc.scan(body, nc.tensor(0.0), length=rounds)[1]

    a, b, c = (Variable(X, requires_grad=True) for _ in range(3))
    losses = train(a, 4)
    compiled = nc.jit(lambda: train(b, 4))()
    singles = [float(train(c, 1)[0]) for _ in range(4)]
    assert losses.tolist() == compiled.tolist() == singles
    assert bits(a.value) == bits(b.value) == bits(c.value) and a.gradient is None


def test_scan_faults() -> None:
    with pytest.raises(ShapeError, match="carry"):
        nc.scan(lambda c, x: (c + x, c), nc.tensor(0.0), XS.astype(nc.float32))
    with pytest.raises(ArgumentError, match="carry, y"):
        nc.scan(lambda c, x: c, nc.tensor(0.0), XS)
    with pytest.raises(ArgumentError, match="length"):
        nc.scan(lambda c, x: (c, c), nc.tensor(0.0))
    with pytest.raises(ShapeError, match="leading"):
        nc.scan(lambda c, x: (c, c), nc.tensor(0.0), (XS, XS[1:]))
    w = Variable(X, requires_grad=True)
    for run in (nc.map, lambda f, xs: nc.scan(lambda c, x: (c, f(x)), nc.tensor(0.0), xs)):
        for xs in (w, (X, w)):
            with pytest.raises(KindError, match=r"xs must have tensors.*p\.value"):
                run(lambda x: x, xs)

    def forgets(c: Any, _: Any) -> Any:
        (w.value * w.value).sum().backward()
        return c, None

    with pytest.raises(GradientError, match="must be a tensor before the call"):
        nc.scan(forgets, nc.tensor(0.0), length=2)


STILL: dict[str, Any] = {  # a condition, and a body that changes none of its inputs
    "the carry itself": (lambda c: c[0] < 100, lambda c: c),
    "one that counts something else": (lambda c: c[0] < 100, lambda c: (c[0], c[1] + 1)),
    "a condition that always holds": (lambda c: nc.tensor(True), lambda c: (c[0] + 1, c[1])),
}


@pytest.mark.parametrize("name", STILL)
def test_a_loop_that_would_never_end_is_refused(name: str) -> None:
    condition, body = STILL[name]

    def loop(x: Any) -> Any:
        return nc.while_loop(condition, body, (x, x))[0]

    for run in (loop, nc.jit(loop), nc.jit(nc.grad(loop))):
        with pytest.raises(nc.ArgumentError, match="the loop never ends"):
            run(nc.tensor(3.0))


def test_a_loop_whose_variable_changes_ends() -> None:
    left = nc.Variable(nc.tensor(3))

    def body(x: Any) -> Any:
        left.assign(left.value - 1)
        return x

    assert nc.while_loop(lambda x: left.value > 0, body, nc.tensor(1.0)).item() == 1.0 and left.value.item() == 0
