"""Eager operations of many sizes: one program for a kind, with the bits of a program for each size."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn
from nacre.compile.program.cache import programs_made
from nacre.compile.program.executor import OPERATIONS
from nacre.interpret.evaluate import from_numpy
from nacre.ops import view, window
from ops.row import Row
from ops.table import ROWS
from same_bits import canonical, dtypes, operands
from sizes.growth import LARGE, grown

F = nn.functional


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Each test begins without known operations."""
    OPERATIONS.forget()


def array(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def bits(results: Any) -> list[bytes]:
    return list(map(canonical, results if isinstance(results, tuple) else (results,)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_operations(row: Row) -> None:
    for dtype in dtypes(row, False):
        first = operands(row, dtype)
        if not first or max(a.size for a in first) > LARGE:
            continue
        for arrays in (first, *([grown(a, times) for a in first] for times in (True, False))):
            values = list(map(from_numpy, arrays))
            try:
                found = [bits(row.apply(*values)) for _ in range(6)]  # at once, and by an entry of their own
            except nc.Error:
                continue
            wanted = bits(nc.jit(row.apply, dynamic=False)(*values))
            assert found == [wanted] * 6, f"{row.name} of {dtype.name}: {[a.shape for a in arrays]}"


CASES: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "number": lambda x: x * 2.5 - 1,
    "reflected number": lambda x: 2.0 / x,
    "comparison": lambda x: nc.where(x > 0, x, -x),
    "exp": nc.exp,
    "sum": lambda x: nc.sum(x, axis=1),
    "sum of all": nc.sum,
    "mean": lambda x: nc.mean(x, axis=0),
    "maximum": lambda x: nc.max(x, axis=0, keepdims=True),
    "transposed": lambda x: x.T * 2,
    "product": lambda x: x @ x.T,
    "vector": lambda x: x @ x[0],
    "row": lambda x: x + x[0],
    "column": lambda x: x * x[:, :1],
    "slice": lambda x: x[1:, ::2] + 1,
    "flipped": lambda x: nc.flip(x, axis=0) * 2,
    "reshaped": lambda x: nc.reshape(x, (-1,)) + 1,
    "softmax": lambda x: F.softmax(x),
    "norm": lambda x: F.layer_norm(x, (x.shape[1],)),
    "relu": F.relu,
    "gelu": F.gelu,
    "concatenated": lambda x: nc.concat([x, x[:1]]),
    "padded": lambda x: nc.pad(x, ((1, 2), (0, 1))),
    "sorted": lambda x: nc.sort(x, axis=0),
    "accumulated": lambda x: nc.cumulative_sum(x, axis=1),
    "taken": lambda x: nc.take(x, nc.tensor([1, 0]), axis=0),
    "converted": lambda x: x.astype(nc.float64).sum(axis=0),
    "convolution": lambda x: F.conv2d(x[None, None], nc.ones((2, 1, 2, 2)), padding=1),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "variance": lambda x: nc.var(x, axis=1),
    "cross-entropy": lambda x: F.cross_entropy(x, nc.zeros(x.shape[0], dtype=nc.int64)),
    "norms": lambda x: nc.sqrt(nc.sum(x * x, axis=-1)),
}
SHAPES = [
    (4, 6),
    (5, 7),
    (3, 9),
    (9, 3),
    (4, 4),
    (6, 6),
    (1, 5),
    (5, 1),
    (2, 2),
    (31, 17),
    (16, 32),
    (3, 200),
    (70, 65),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_exact_programs(name: str) -> None:
    f = CASES[name]

    def gradient(x: Any) -> Any:
        y = f(x)
        return nc.sum(y * y)

    exact, exact_gradient = nc.jit(f, dynamic=False), nc.jit(nc.value_and_grad(gradient), dynamic=False)
    for shape in SHAPES:
        try:
            wanted = bits(exact(nc.tensor(array(*shape))))
        except nc.Error:  # where an operation has no meaning for a size of 1
            continue
        assert bits(f(nc.tensor(array(*shape)))) == wanted, shape
        x = nc.tensor(array(*shape)).requires_grad_()
        y = gradient(x)
        if not f(x).size:
            continue
        y.backward()
        value, slope = exact_gradient(nc.tensor(array(*shape)))
        assert [canonical(y), canonical(x.grad)] == [canonical(value), canonical(slope)], shape


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_no_program_for_further_sizes(name: str) -> None:
    f = CASES[name]
    shapes = np.random.default_rng(0).integers(2, 40, (60, 2)).tolist()
    known = [*SHAPES[:6], (40, 41), (41, 40), (42, 42)]
    for recorded in (False, True):
        for rows, columns in [*known, *known]:
            f(nc.ones((rows, columns)).requires_grad_() if recorded else nc.ones((rows, columns)))
        before = programs_made()
        for rows, columns in shapes:
            f(nc.ones((rows, columns)).requires_grad_() if recorded else nc.ones((rows, columns)))
        assert programs_made() - before <= ALLOWED.get(name, 0)


ALLOWED = {"slice": 6}  # rows and columns are equal by chance


PLACES: dict[str, Callable[[Any, int], Any]] = {
    "item": lambda x, k: x[k],
    "items": lambda x, k: x[:, k],
    "begin": lambda x, k: x[:k],
    "end": lambda x, k: x[k:, 1:],
    "block": lambda x, k: x[k : k + 7],
    "steps": lambda x, k: x[k::3, ::2],
    "backwards": lambda x, k: x[k::-1],
    "view": lambda x, k: x.T[k : k + 2],
    "padded": lambda x, k: nc.pad(x, ((k, 1), (0, 2 * k))),
    "run-time start": lambda x, k: nc.dynamic_slice(x, (nc.tensor(1), nc.tensor(k)), (k, 5)),
    "update": lambda x, k: nc.dynamic_update_slice(x, nc.ones((k, 2)), (nc.tensor(2), nc.tensor(k))),
}


@pytest.mark.parametrize("name", PLACES)
def test_no_program_for_further_places(name: str) -> None:
    f = PLACES[name]

    def call(rows: int, columns: int, k: int) -> list[bytes]:
        x = nc.tensor(array(rows, columns)).requires_grad_()
        y = f(x, k)
        nc.sum(y * y).backward()
        return [canonical(y), canonical(x.grad)]

    places = [(rows, columns, k) for rows in (40, 41, 42, 43, 45) for columns in (50, 53, 52) for k in range(2, 7)]
    for place in places:
        call(*place)
    before = programs_made()
    later = [(rows + 17, columns + 20, k + 5) for rows, columns, k in places]
    found = [call(*place) for place in later]
    assert programs_made() == before
    for (rows, columns, k), bits_of_call in zip(later[::20], found[::20], strict=True):
        gradient = nc.jit(nc.grad(lambda x, k=k: nc.sum(f(x, k) * f(x, k))), dynamic=False)
        x = nc.tensor(array(rows, columns))
        y = nc.jit(lambda x, k=k: f(x, k), dynamic=False)(x)
        assert bits_of_call == [canonical(y), canonical(gradient(x))]


@pytest.mark.parametrize(
    ("starts", "stops", "steps"), [((1,), (3, 3), (1, 1)), ((2, 0), (5, 3), (1, 1)), ((-1, 0), (3, 3), (1, 1))]
)
def test_wrong_slices_are_refused_for_all_sizes(
    starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    for n in (3, 4, 5):
        assert view.slice_(nc.ones((n, n)), (1, 0), (3, 3), (1, 1)).type.shape == (2, 3)
        with pytest.raises(nc.ShapeError, match="slice: "):
            view.slice_(nc.ones((4, 4)), starts, stops, steps)


def test_wrong_pads_are_refused_for_all_sizes() -> None:
    x = nc.ones((4, 4))
    for n in (3, 4, 5):
        assert view.pad(x, nc.tensor(0.0), (n, 0), (0, 2)).type.shape == (4 + n, 6)
        with pytest.raises(nc.ArgumentError, match="pad: amounts must be at least 0"):
            view.pad(x, nc.tensor(0.0), (n, 0), (0, -1))
        with pytest.raises(nc.ArgumentError, match="pad: amounts must be at least 0"):
            view.pad(x, nc.tensor(0.0), (-1, 0), (0, 2))


def test_errors_name_the_sizes_of_the_call() -> None:
    for n in (3, 4, 5, 6):
        assert (nc.ones(n) + nc.ones(n)).shape == (n,)
        with pytest.raises(nc.ShapeError, match=rf"\({n},\) and \({n + 1},\)"):
            _ = nc.ones(n) + nc.ones(n + 1)


def test_products_without_rows() -> None:
    for columns in (4, 5, 6):
        assert (nc.ones((0, 3)) @ nc.ones((3, columns))).shape == (0, columns)
        assert (nc.ones((columns, 0)) @ nc.ones((0, 2))).tolist() == [[0.0, 0.0]] * columns
        assert nn.Linear(columns, 3)(nc.ones((0, columns))).shape == (0, 3)


def test_second_derivatives_on_the_tape() -> None:
    for n in (3, 4, 5, 6, 7, 4):
        x = nc.tensor(array(n)).requires_grad_()
        nc.sum(nc.tanh(x) * x).backward(create_graph=True)
        first, x.grad = x.grad, None
        nc.sum(first * first).backward()
        wanted = nc.grad(lambda y: nc.sum(nc.grad(lambda z: nc.sum(nc.tanh(z) * z))(y) ** 2))(nc.tensor(array(n)))
        np.testing.assert_allclose(x.grad.numpy(), wanted.numpy(), rtol=1e-5)


def test_other_sizes_while_a_pass_is_registered() -> None:
    for n in (3, 4, 5):
        assert bits(nc.exp(nc.tensor(array(n)))) == bits(nc.jit(nc.exp, dynamic=False)(nc.tensor(array(n))))
    OPERATIONS.forget()
    assert not OPERATIONS.kinds.known and not OPERATIONS.calls
    assert nc.exp(nc.zeros(6)).tolist() == [1.0] * 6


def test_memory_of_many_sizes() -> None:
    def work(first: int) -> None:
        for k in range(1500):
            shape = (2 + (first + k) % 997, 2 + k // 50)
            x = nc.ones(shape)
            _ = (x + x).sum(axis=0), x[:, :1] * x, x.T

    def used() -> int:
        gc.collect()
        return len(gc.get_objects())

    work(0)
    before = used()
    work(400)
    assert used() - before < 20_000


def test_threads_with_other_sizes() -> None:
    def work(first: int) -> None:
        for k in range(80):
            n = 2 + (first * 7 + k) % 50
            x = nc.tensor(array(n, 3)).requires_grad_()
            y = nc.sum(nc.exp(x) * x + x.T[0][:, None])
            y.backward()
            found[n, first] = canonical(y), canonical(x.grad)

    found: dict[tuple[int, int], Any] = {}
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n in {n for n, _ in found}:
        assert len({v for (m, _), v in found.items() if m == n}) == 1


def test_variables_and_modules() -> None:
    nc.random.seed(0)
    layer = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2))
    exact = nc.jit(layer, dynamic=False)
    for n in (4, 5, 6, 7, 300, 7):
        found = []
        for f in (layer, exact):
            layer.zero_grad()
            y = f(nc.tensor(array(n, 3)))
            nc.sum(y * y).backward()
            found.append([canonical(y), *(canonical(p.grad) for p in layer.parameters())])
        assert found[0] == found[1], n


@pytest.mark.parametrize("name", ["softmax", "product", "attention", "convolution"])
def test_other_numerics(name: str) -> None:
    f = CASES[name]
    for shape in [*SHAPES, (300, 64), (500, 32)]:
        exact = bits(f(nc.tensor(array(*shape))))
        with nc.numerics("fast"):
            found = [bits(f(nc.tensor(array(*shape)))) for _ in range(5)]
            assert found == [bits(nc.jit(f, dynamic=False)(nc.tensor(array(*shape))))] * 5, shape
        assert bits(f(nc.tensor(array(*shape)))) == exact, shape


def test_sizes_that_contradict_a_parameter_are_refused_for_all_sizes() -> None:
    for n in (3, 4, 5):
        wrong = nc.ones((2, 3, n + 1, n))
        found = window.window_sum_grad(nc.ones((2, 3, n, n)), (2, 3, 2 * n, 2 * n), (2, 2), (2, 2))
        assert found.type.shape == (2, 3, 2 * n, 2 * n)
        with pytest.raises(nc.ShapeError, match="the cotangent must have shape"):
            window.window_sum_grad(wrong, (2, 3, 2 * n, 2 * n), (2, 2), (2, 2))
