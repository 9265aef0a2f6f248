"""The native backward pass: the bits, the order, the errors and the freeing of the one in Python."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import nacre as nc
from nacre.base.errors import GradientError, StateError
from nacre.codegen.entry.sweep import AT_ONCE
from nacre.interpret.backward import Accumulation, Sweep
from nacre.nn.functional import layer_norm, softmax
from nacre.runtime.buffer import statistics
from nacre.trace.bind import executor
from nacre.trace.hooks import GradientHooks
from tensor_bits import bits

OFTEN = 6  # backward passes after which all rules have native pullbacks


def mixed(x: Any, w: Any) -> Any:
    """Pointwise operations, products, a view, broadcasting, an operand that is used twice, and several readers."""
    y = x
    for _ in range(20):
        y = nc.tanh(y @ w) * x + y.T * 0.5
        y = y * y - x / (nc.exp(y) + 1.0)
    return y


def normal(x: Any, w: Any) -> Any:
    """Fused operations of one and several operands."""
    return softmax(layer_norm(x @ w + w[0], 4) * x, -1)


def complexes(x: Any, w: Any) -> Any:
    """Complex numbers, whose cotangents are conjugated at both ends."""
    z = nc.exp(x * 1j) * w
    return nc.real(z * nc.conj(z) + z)


def gathering(x: Any, w: Any) -> Any:
    """Nodes of several results, and calls whose operands receive several cotangents."""
    first, second = nc.split(x, sections=2)
    return nc.jit(lambda a, b: a * b + a)(first, second) @ w + first * second


@contextmanager
def only_python() -> Iterator[None]:
    """A backward pass looks for hooks, because there is one somewhere, and then runs in Python."""
    hooks = GradientHooks(retains=True)
    yield
    del hooks


def operands(dtype: Any, n: int = 4) -> list[Any]:
    keys = nc.random.key(3), nc.random.key(4)
    return [nc.random.normal((n, n), key=k, dtype=dtype).requires_grad_() for k in keys]


def gradients(f: Callable[..., Any], xs: list[Any]) -> list[Any]:
    for x in xs:
        x.grad = None
    f(*xs).sum().backward()
    return [bits(x.grad) for x in xs]


@pytest.mark.parametrize("dtype", [nc.float32, nc.float64, nc.float16])
@pytest.mark.parametrize("f", [mixed, normal, gathering, complexes])
def test_the_bits_are_those_of_python(f: Callable[..., Any], dtype: Any) -> None:
    if f is complexes and dtype is nc.float16:
        return
    xs = operands(dtype)
    found = [gradients(f, xs) for _ in range(OFTEN)]
    with only_python():
        wanted = gradients(f, xs)
    assert found == [wanted] * OFTEN


def test_sizes_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (2, 3, 4, 5, 6, 7) * 5:
        xs = operands(nc.float32, n)
        found = gradients(mixed, xs)
        with only_python():
            assert gradients(mixed, xs) == found
    monkeypatch.setattr(Sweep, "evaluate", refused)
    assert gradients(mixed, operands(nc.float32, 7))


def refused(*given: Any) -> Any:
    raise AssertionError("Python must not run a pullback")


def test_no_pullback_runs_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    xs = operands(nc.float32)
    for _ in range(OFTEN):
        gradients(mixed, xs)
    monkeypatch.setattr(Sweep, "evaluate", refused)
    monkeypatch.setattr(Sweep, "put", once_for_each(xs))
    gradients(mixed, xs)


def once_for_each(xs: list[Any]) -> Callable[..., None]:
    """`Sweep.put`, which fails if Python calls it for more than the outputs."""
    original, calls = Sweep.put, [0]

    def put(self: Sweep, node: Any, cotangent: Any) -> None:
        calls[0] += 1
        assert calls[0] <= 1
        original(self, node, cotangent)

    return put


def test_numerics_modes_have_their_own_pullbacks() -> None:
    xs = operands(nc.float32)
    found: dict[str, list[Any]] = {}
    for mode in ("exact", "fast") * OFTEN:
        with nc.numerics(mode):
            now = gradients(mixed, xs)
            assert found.setdefault(mode, now) == now
            with only_python():
                assert gradients(mixed, xs) == now


class Observed(nc.autograd.Function):
    """The identity, whose backward pass calls a function."""

    observe: Callable[[], None]

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Observed.observe()
        return g


def test_what_the_tape_holds_is_freed_as_it_is_consumed() -> None:
    x = nc.ones(64).requires_grad_()

    def alive_at_the_observer(retain: bool) -> int:
        y = Observed.apply(x)
        held: list[weakref.ref[Any]] = []
        for _ in range(3 * AT_ONCE):
            y = nc.exp(nc.sin(y))
            held.append(weakref.ref(y.node))
        loss = y.sum()
        del y
        counts: list[int] = []

        def count() -> None:
            counts.append(sum(node() is not None and not node().released for node in held))

        Observed.observe = count
        loss.backward(retain_graph=retain)
        return counts[0]

    for _ in range(OFTEN):
        assert alive_at_the_observer(False) == 0
        assert alive_at_the_observer(True) == 3 * AT_ONCE


def test_memory_shrinks_while_the_pass_runs() -> None:
    x = nc.ones(1 << 16).requires_grad_()
    numbers: list[int] = []
    Observed.observe = lambda: numbers.append(statistics().allocated)
    for _ in range(OFTEN):
        y = Observed.apply(x)
        before = statistics().allocated
        for _ in range(40):
            y = nc.sin(y)
        y = y.sum()
        y.backward()
        assert numbers.pop() < before + 8 * x.nbytes


def test_a_call_ends_after_some_nodes() -> None:
    x = nc.ones(3).requires_grad_()
    y = x
    for last in [False] * OFTEN + [True]:
        y = x
        for _ in range(2 * AT_ONCE + 5):
            y = nc.sin(y)
        if not last:
            y.sum().backward()
    sweep = Accumulation(0, False, False, ())
    sweep.put(y.node, nc.tensor([1.0, 2.0, 3.0]))
    run = executor().sweep()
    given = sweep.pending, sweep.queue, sweep.ends, sweep.put, False, executor().mode()
    with nc.no_grad():
        assert [run(*given), run(*given), run(*given)] == [True, True, None]
    assert not sweep.queue and not sweep.pending and len(sweep.ends) == 1


def chain(x: Any, n: int = 30) -> list[Any]:
    found = [x]
    for _ in range(n):
        found.append(nc.exp(nc.sin(found[-1])))
    return found


@pytest.mark.parametrize("first", [0, 15])
def test_errors_are_those_of_python(first: int) -> None:
    x = nc.ones(5).requires_grad_()
    for _ in range(OFTEN):
        chain(x)[-1].sum().backward()
    x.grad = None
    ys = chain(x)
    ys[-1].sum().backward(retain_graph=True)
    once = bits(x.grad)
    if first:
        ys[first][0] = 0.0
        with pytest.raises(GradientError, match="was changed by"):
            ys[-1].sum().backward()
    else:
        ys[-1].sum().backward()
        once = bits(x.grad)
        with pytest.raises(StateError, match="released by an earlier backward"):
            ys[-1].sum().backward()
    assert bits(x.grad) == once


def test_an_error_of_a_user_leaves_no_gradient() -> None:
    x = nc.ones(5).requires_grad_()

    def fault() -> None:
        raise ZeroDivisionError

    Observed.observe = fault
    for _ in range(OFTEN):
        z = x * 2
        y = chain(Observed.apply(z))[-1]
        with pytest.raises(ZeroDivisionError):
            (y + z * x).sum().backward()
        assert x.grad is None


def test_threads_share_a_graph() -> None:
    x = nc.ones(64).requires_grad_()
    for _ in range(OFTEN):
        chain(x)[-1].sum().backward()
    x.grad = None
    total = chain(x, 400)[-1].sum()
    found: list[Any] = []

    def run() -> None:
        found.extend(bits(nc.autograd.grad(total, x, retain_graph=True)[0]))
        total.backward(retain_graph=True)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(found)) == 1 and x.grad is not None
