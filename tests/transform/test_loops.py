"""Loops and branches in programs: the bits of the same loop in Python, by iteration, on any number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nacre as nc
from interrupts import interrupted
from nacre.codegen.entry.points import rebind
from nacre.native.pool import pool
from tensor_bits import bits

RANDOM = np.random.default_rng(7)
W = nc.tensor(RANDOM.standard_normal((48, 48)).astype(np.float32) / 7)
XS = nc.tensor(RANDOM.standard_normal((9, 6, 48)).astype(np.float32))


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest, divided: None) -> Iterator[int]:
    """Programs that divide all divisible work among some threads."""
    before = pool().threads
    pool().set_threads(request.param)
    yield request.param
    pool().set_threads(before)
    rebind()


def unrolled(f: Any, carry: Any, xs: Any, reverse: bool = False) -> Any:
    """The loop of a scan in Python, one compiled iteration after the other."""
    step = nc.jit(lambda *args: f(*args))
    length = len(xs)
    ys: list[Any] = [None] * length
    for k in reversed(range(length)) if reverse else range(length):
        carry, ys[k] = step(carry, xs[k])
    return carry, nc.stack(ys)


def recurrent(h: Any, x: Any) -> Any:
    h = nc.tanh(h @ W + x)
    return h, h * 2.0


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_has_the_bits_of_its_iterations(threads: int, reverse: bool) -> None:
    h = nc.zeros((6, 48))
    wanted = bits(unrolled(recurrent, h, XS, reverse))

    def whole(h: Any, xs: Any) -> Any:
        return nc.scan(recurrent, h, xs, reverse=reverse)

    assert bits(whole(h, XS)) == wanted
    compiled = nc.jit(whole)
    for _ in range(3):
        assert bits(compiled(h, XS)) == wanted


def test_rows_of_views_are_read_in_place(threads: int) -> None:
    turned = nc.tensor(RANDOM.standard_normal((48, 6, 10)).astype(np.float32)).permute(2, 1, 0)[1:]
    wanted = bits(unrolled(recurrent, nc.zeros((6, 48)), nc.tensor(turned.numpy())))
    assert bits(nc.scan(recurrent, nc.zeros((6, 48)), turned)) == wanted
    compiled = nc.jit(lambda x: nc.scan(recurrent, nc.zeros((6, 48)), x.permute(2, 1, 0)[::-1]))
    flipped = nc.tensor(np.ascontiguousarray(turned.numpy()[::-1]))
    assert bits(compiled(nc.tensor(turned.numpy().transpose(2, 1, 0)))) == bits(
        unrolled(recurrent, nc.zeros((6, 48)), flipped)
    )


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_carries_that_are_exchanged(threads: int, length: int) -> None:
    def step(carry: Any, x: Any) -> Any:
        a, b, c = carry
        return (b, a + b * x, c), (a, c)

    xs = nc.tensor(np.arange(1, length + 1, dtype=np.float32))
    start = (nc.ones((3, 100)), nc.full((3, 100), 2.0), nc.full((2,), 5.0))
    (a, b, c), (firsts, seconds) = nc.jit(lambda s, x: nc.scan(step, s, x))(start, xs)
    x, y = np.ones((3, 100), np.float32), np.full((3, 100), 2, np.float32)
    kept: list[np.ndarray] = []
    for k in range(length):
        kept.append(x)
        x, y = y, x + y * np.float32(k + 1)
    assert bits((a, b)) == [x.tobytes(), y.tobytes()] and c.tolist() == [5.0, 5.0]
    assert firsts.shape == (length, 3, 100) and seconds.shape == (length, 2)
    assert firsts.numpy().tobytes() == b"".join(k.tobytes() for k in kept)


def test_loops_in_loops(threads: int) -> None:
    def outer(total: Any, row: Any) -> Any:
        def inner(state: Any, x: Any) -> Any:
            held, n = state
            return (nc.tanh(held @ W + x), n + 1), held.sum()

        def more(s: Any) -> Any:
            return s[1] < 3

        def again(s: Any) -> Any:
            return s[0] * 0.5 + total, s[1] + 1

        (held, n), sums = nc.scan(inner, (total, nc.tensor(0)), row)
        halved, rounds = nc.while_loop(more, again, (held, nc.tensor(0)))
        picked = nc.cond(halved.sum() > 0, lambda a: a - 1.0, lambda a: nc.exp(a) + total, halved)
        return picked, (sums, n + rounds)

    xs = nc.tensor(RANDOM.standard_normal((4, 3, 6, 48)).astype(np.float32))
    start = nc.zeros((6, 48))
    wanted: list[Any] = []
    held = start
    body = nc.jit(lambda t, r: outer(t, r))
    single = bits(nc.scan(outer, start, xs))
    for k in range(4):
        held, (sums, n) = outer(held, xs[k])
        wanted.append((sums, n))
    assert bits(held) == single[:1]
    assert b"".join(bits(s)[0] for s, _ in wanted) == single[1] and [int(n) for _, n in wanted] == [6] * 4
    assert bits(nc.jit(lambda s, x: nc.scan(outer, s, x))(start, xs)) == single
    assert bits(body(start, xs[0])) == bits(outer(start, xs[0]))


def test_branches_have_one_result(threads: int) -> None:
    def step(c: Any, x: Any) -> Any:
        def other(c: Any) -> Any:
            return nc.cond(c.sum() > 0, lambda c: -c, lambda c: c * 2, c)

        c = nc.cond(x[0, 0] > 0, lambda c: c @ W + x, other, c)
        return c, c

    start = nc.ones((6, 48))
    assert bits(nc.jit(lambda c, x: nc.scan(step, c, x))(start, XS)) == bits(unrolled(step, start, XS))


def test_a_loop_does_not_update_its_inputs(threads: int) -> None:
    x = nc.zeros((64, 64))
    f = nc.jit(lambda x: (nc.scan(lambda c, _: (c + 1.0, None), x, length=5)[0], x * 2.0))
    for _ in range(2):
        y, z = f(x)
        assert float(y.sum()) == 5 * 64 * 64 and float(z.sum()) == 0.0 and float(x.sum()) == 0.0
    plan = f.concrete(x).executable.plan
    (loop,) = [n for n in plan.tree if not isinstance(n, int)]
    assert not loop.swaps and plan.donations == ()  # type: ignore[union-attr]


def test_a_weight_is_packed_once() -> None:
    big = nc.zeros((256, 256))
    f = nc.jit(lambda h, w: nc.scan(lambda h, _: (nc.tanh(h @ w), None), h, length=5)[0])
    plan = f.concrete(nc.zeros((64, 256)), big).executable.plan
    (loop,) = [n for n in plan.tree if not isinstance(n, int)]
    inside = {plan.steps[k].label for k in loop.body}  # type: ignore[union-attr]
    assert any(isinstance(n, int) for n in plan.tree) and inside


def test_symbolic_sizes_in_a_loop(threads: int) -> None:
    rows, rounds = nc.Dim("rows", min=1, max=64), nc.Dim("rounds", min=1, max=64)
    f = nc.jit(
        lambda xs: nc.scan(lambda c, x: (c * 0.5 + x, c.sum(axis=1)), xs[0] * 0.0, xs, reverse=True),
        dynamic_shapes={"xs": {0: rounds, 1: rows}},
    )
    for shape in ((5, 6, 48), (1, 1, 48), (8, 64, 48)):
        xs = nc.tensor(RANDOM.standard_normal(shape).astype(np.float32))
        fixed = nc.scan(lambda c, x: (c * 0.5 + x, c.sum(axis=1)), xs[0] * 0.0, xs, reverse=True)
        assert bits(f(xs)) == bits(fixed)
    assert len(f.concrete_functions) == 1


def test_gradients_have_the_same_bits_on_any_threads(threads: int) -> None:
    def loss(w: Any, xs: Any) -> Any:
        h, ys = nc.scan(lambda h, x: ((t := nc.tanh(h @ w + x)), t * t), nc.zeros((6, 48)), xs)
        return ys.sum() + h.sum()

    found = nc.jit(nc.grad(loss, (0, 1)))(W, XS)
    assert bits(found) == bits(nc.grad(loss, (0, 1))(W, XS))
    key = "gradient"
    KNOWN.setdefault(key, bits(found))
    assert KNOWN[key] == bits(found)


KNOWN: dict[str, list[bytes]] = {}


@pytest.mark.parametrize("side", ["left", "right", "turned"])
def test_gradients_of_a_matrix_that_every_iteration_reads(side: str) -> None:
    a, x, c = W[:5, :5], W[5:10, :5], W[10:15, 5:10]

    def step(h: Any, a: Any) -> Any:
        return nc.tanh({"left": a @ h, "right": h @ a, "turned": a.mT @ h.mT}[side])

    def loop(a: Any) -> Any:
        return (nc.fori_loop(0, 3, lambda _, h: step(h, a), x) * c).sum()

    found = nc.grad(loop)(a)
    assert bits(nc.jit(nc.grad(loop))(a)) == bits(found)
    unrolled = nc.grad(lambda a: (step(step(step(x, a), a), a) * c).sum())(a)
    np.testing.assert_allclose(found.numpy(), unrolled.numpy(), rtol=1e-5, atol=1e-7)


def test_a_loop_without_an_end_stops_at_an_interrupt(threads: int) -> None:
    f = nc.jit(lambda x, w: nc.while_loop(lambda c: c.sum() > -1.0, lambda c: nc.abs(c @ w), x))
    x, w = nc.zeros((64, 64)), nc.zeros((64, 64))
    start = time.perf_counter()
    with interrupted():
        f(x, w)
    assert time.perf_counter() - start < 30
    assert float(nc.jit(lambda x: nc.while_loop(lambda c: c < 5, lambda c: c + 1, x))(nc.tensor(0))) == 5


def test_a_small_loop_stops_at_an_interrupt(threads: int) -> None:
    with interrupted():
        nc.while_loop(lambda c: c < 5, lambda c: c * 1, nc.tensor(0))


def test_loops_from_several_python_threads(threads: int) -> None:
    f = nc.jit(lambda h, x: nc.scan(recurrent, h, x))
    wanted = bits(f(nc.zeros((6, 48)), XS))
    found: list[Any] = []

    def work() -> None:
        for _ in range(20):
            found.append(bits(f(nc.zeros((6, 48)), XS)))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert len(found) == 60 and all(b == wanted for b in found)


def test_the_gradient_of_rows_at_the_number_of_a_round() -> None:
    x = XS[:, 0]

    def loss(x: Any) -> Any:
        return nc.fori_loop(2, 5, lambda k, total: total + nc.sum(x[k] ** 2), nc.tensor(0.0))

    gradient = nc.jit(nc.grad(loss))(x)
    assert bits(gradient) == bits(nc.concat([nc.zeros((2, 48)), 2 * x[2:5], nc.zeros((4, 48))]))


def test_the_memory_of_a_loop_is_known_before_it_runs() -> None:
    f = nc.jit(lambda h, x, w: nc.scan(lambda h, x: (nc.tanh(h @ w + x), None), h, x)[0])
    given = nc.zeros((6, 48)), XS, W
    assert f.cost(*given).product_flops == 9 * 2 * 6 * 48 * 48
    assert f.memory(*given).peak > 0


def test_a_cache_is_updated_in_place(threads: int) -> None:
    def decode(x: Any, cache: Any, w: Any) -> Any:
        def token(k: Any, state: Any) -> Any:
            x, cache = state
            x = nc.tanh(x @ w)
            cache = nc.dynamic_update_slice(cache, x[None], (k, 0))
            return x + (cache * x).sum(axis=1).sum(), cache

        return nc.fori_loop(0, 40, token, (x, cache))

    f = nc.jit(decode)
    given = nc.ones(48), nc.zeros((40, 48)), W
    wanted = bits(decode(*given))
    assert bits(f(*given)) == wanted and float(given[1].sum()) == 0.0
    plan = f.concrete(*given).executable.plan
    (loop,) = [n for n in plan.tree if not isinstance(n, int)]
    handed = {plan.values[v].nbytes for pair in loop.swaps for v in pair}  # type: ignore[union-attr]
    assert handed == {8, 4 * 48}, "the counter and the token change places, the cache does not"


SMALL = nc.tensor(RANDOM.standard_normal((16, 16)).astype(np.float32) / 4)


def random_body(seed: int) -> Any:
    """An iteration of random operations with four carries and a row; it returns some values, inputs among them."""

    def body(carry: Any, x: Any) -> Any:
        random = np.random.default_rng(seed)
        known = [*carry, x]

        def some() -> Any:
            return known[random.integers(len(known))]

        for _ in range(random.integers(1, 9)):
            match random.integers(7):
                case 0:
                    known.append(some() + some())
                case 1:
                    known.append(nc.tanh(some()) * 0.5)
                case 2:
                    known.append(nc.tanh(some() @ SMALL))
                case 3:
                    known.append(some().sum(axis=1, keepdims=True) * 0.1 + some())
                case 4:
                    known.append(nc.cond(some()[0, 0] > 0, nc.sin, nc.cos, some()))
                case 5:
                    known.append(nc.fori_loop(0, 2, lambda _, c: nc.tanh(c @ SMALL), some()))
                case _:
                    known.append(some() - some())
        return tuple(some() for _ in carry), (some(), some().sum(axis=0))

    return body


@pytest.mark.parametrize("seed", range(12))
def test_random_iterations(seed: int, divided: None) -> None:
    body = random_body(seed)
    start = tuple(nc.tensor(RANDOM.standard_normal((5, 16)).astype(np.float32)) for _ in range(4))
    xs = nc.tensor(RANDOM.standard_normal((5, 5, 16)).astype(np.float32))
    step = nc.jit(lambda c, x: body(c, x))
    carry, rows, sums = start, [], []
    for k in range(5):
        carry, (row, total) = step(carry, xs[k])
        rows.append(row)
        sums.append(total)
    wanted = [*bits(carry), *bits((nc.stack(rows), nc.stack(sums)))]
    for reverse in (False, True):
        given = nc.tensor(np.ascontiguousarray(xs.numpy()[::-1])) if reverse else xs
        ends, (ys, totals) = nc.jit(lambda c, x, back=reverse: nc.scan(body, c, x, reverse=back))(start, given)
        if reverse:
            ys, totals = nc.tensor(ys.numpy()[::-1].copy()), nc.tensor(totals.numpy()[::-1].copy())
        assert [*bits(ends), *bits((ys, totals))] == wanted
