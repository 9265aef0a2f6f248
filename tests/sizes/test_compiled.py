"""Sizes that change between calls: the variants that are made, the same bits as for fixed sizes, and limits."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.interpret.evaluate import from_numpy
from nacre.transform.jit import Jitted
from ops.row import Row
from ops.table import ROWS
from same_bits import canonical, dtypes, operands
from sizes.growth import LARGE, grown

F = nn.functional


def rows(n: int, columns: int = 3) -> Any:
    return nc.tensor(np.random.default_rng(n).normal(size=(n, columns)).astype(np.float32))


def bits(results: Any) -> list[bytes]:
    return list(map(canonical, results if isinstance(results, tuple) else (results,)))


def kinds(f: Jitted) -> list[bool]:
    """Of each variant, whether it has symbolic sizes."""
    return [c.symbolic for c in f.concrete_functions]


def same(f: Jitted, *calls: tuple[Any, ...]) -> None:
    for args in calls:
        assert bits(f(*args)) == bits(f.function(*args)), args


# ---- which variants are made


def test_a_second_size_makes_a_variant_for_all() -> None:
    f = nc.jit(lambda x: nc.sum(x * 2, axis=0))
    same(f, *[(rows(n),) for n in (4, 7, 4, 2, 9, 100)])
    assert kinds(f) == [False, True]
    assert f.concrete_functions[1].reason == "axis 0 of argument x varied"


def test_zero_and_one_have_variants_of_their_own() -> None:
    f = nc.jit(lambda x, y: x + y)
    same(f, *[(rows(n), rows(5)) for n in (5, 1)], (rows(0), rows(0)), (rows(0), rows(1)), (rows(6), rows(6)))
    assert kinds(f) == [False, False, False, False, True]


def test_axes_that_were_always_equal_share_a_symbol() -> None:
    f = nc.jit(lambda x, y: x.T @ y)
    same(f, (rows(4, 4), rows(4, 6)), (rows(5, 5), rows(5, 6)), (rows(3, 3), rows(3, 6)))
    assert [str(c.graph.input_types[0]) for c in f.concrete_functions] == ["f32[4, 4]", "f32[n0, n0]"]
    same(f, (rows(5, 2), rows(5, 6)), (rows(8, 3), rows(8, 6)), (rows(6, 6), rows(6, 6)))
    assert [str(c.graph.input_types[0]) for c in f.concrete_functions[2:]] == ["f32[n0, n1]"]


def test_other_dtypes_and_structures_have_other_variants() -> None:
    f = nc.jit(lambda x: x["a"] + 1)
    same(f, ({"a": rows(3)},), ({"a": rows(4)},), ({"a": rows(5).astype(nc.float64)},), ({"a": rows(5)},))
    assert kinds(f) == [False, True, False]


def test_sizes_keep_their_numbers_without_dynamic() -> None:
    f = nc.jit(lambda x: x + 1, dynamic=False)
    same(f, *[(rows(n),) for n in (3, 4, 5)])
    assert kinds(f) == [False] * 3
    assert [c.dynamic for c in (copy.copy(f), nc.jit(dynamic=False)(np.abs))] == [False, False]


def test_named_sizes_are_left_alone() -> None:
    named = nc.Dim("n0", min=2, max=9)
    f = nc.jit(lambda x, y: x[:, :1] * y, dynamic_shapes={"x": {0: named}, "y": {0: named}})
    same(f, (rows(3), rows(3)), (rows(4), rows(4)), (rows(5, 4), rows(5)), (rows(2, 5), rows(2)))
    assert [str(c.graph.input_types[0]) for c in f.concrete_functions] == ["f32[n0, 3]", "f32[n0, n1]"]
    with pytest.raises(nc.ShapeError, match="from 2 to 9"):
        f(rows(10), rows(10))


# ---- where the trace needs a number


NEED: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: x * 2 if x.shape[0] > 4 else x * 3,
    "range": lambda x: sum([x * k for k in range(x.shape[0])], x),
    "int": lambda x: x * int(x.shape[0]),
    "len": lambda x: x * len([None] * x.shape[0]),
    "float": lambda x: x * float(x.shape[0]),
    "index": lambda x: x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0][x.shape[0]],
    "equal": lambda x: x * 2 if x.shape[0] == 5 else x,
    "unequal": lambda x: x * 2 if x.shape[0] != 5 else x,
    "equal float": lambda x: x * 2 if x.shape[0] == 5.0 else x,
    "equal shapes": lambda x: x * 2 if x.shape == (5, 3) else x,
    "member": lambda x: x * 2 if x.shape[0] in (5, 6) else x,
    "key": lambda x: x * {5: 2.0, 6: 3.0}.get(x.shape[0], 1.0),
    "set": lambda x: x * 2 if x.shape[0] in {5, 6} else x,
    "even": lambda x: x * 2 if x.shape[0] % 2 == 0 else x,
    "division": lambda x: x * (x.shape[0] / 2),
    "inverse": lambda x: x * (1 / x.shape[0]),
    "root": lambda x: x * x.shape[0] ** 0.5,
    "inverse power": lambda x: x * x.shape[0] ** -1,
    "square root": lambda x: x * np.sqrt(x.shape[0]),
    "array": lambda x: x * np.arange(3 * x.shape[0], dtype=np.float32).reshape(-1, 3),
    "handled": lambda x: handled(x),
    "text": lambda x: x * {"n5": 2.0}.get(f"n{x.shape[0]}", 1.0),
    "length of text": lambda x: x * len(str(x.shape)),
    "representation": lambda x: x * len(repr(x.shape[0])),
    "kind": lambda x: x * 2 if isinstance(x.shape[0], int) else x,
    "counter": lambda x: x * Counter([*x.shape, 5, 3])[5],
    "handled broadcast": lambda x: attempted(lambda: x + nc.ones((5, 3)), x),
    "handled index": lambda x: attempted(lambda: x[5], x),
    "handled reshape": lambda x: attempted(lambda: nc.reshape(x, (x.shape[0] // 2, 2, 3)), x),
    "fits": lambda x: attempted(lambda: x.astype(nc.int8) * (x.shape[0] * 20), x),
    "negative": lambda x: attempted(lambda: nc.sum(nc.ones((x.shape[0] - 5, 3))), x),
    "large": lambda x: x * x.shape[0] ** 21,
    "dict of tensors": lambda x: x + remembered(x.shape[0])[:, None],
    "largest": lambda x: x * max(x.shape[0], 5),
    "split": lambda x: nc.concat([x[: x.shape[0] // 2], x[x.shape[0] // 2 :] * 2]),
}


def attempted(f: Callable[[], Any], otherwise: Any) -> Any:
    """The result of a call, or something else after an error."""
    try:
        return f()
    except nc.Error:
        return otherwise


REMEMBERED: dict[int, Any] = {}


def remembered(n: int) -> Any:
    """Ones that are made once for each size."""
    if n not in REMEMBERED:
        REMEMBERED[n] = np.ones(n, np.float32)
    return nc.asarray(REMEMBERED[n])


def handled(x: Any) -> Any:
    """Code that goes on after an error about a size."""
    try:
        return x * int(x.shape[0])
    except ValueError:
        return x


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NEED)
def test_code_that_needs_a_number_runs_as_it_does_eagerly(name: str) -> None:
    f = nc.jit(NEED[name])
    same(f, *[(rows(n),) for n in (8, 5, 4, 6, 7, 5)])


def test_the_line_that_needs_a_number_is_listed() -> None:
    def g(x: Any) -> Any:
        y = x + 1
        return y * 2 if x.shape[0] > 4 else y

    f = nc.jit(g)
    same(f, (rows(4),), (rows(5),), (rows(6),))
    assert kinds(f) == [False] * 3
    line = g.__code__.co_firstlineno + 2
    assert f"{__file__}:{line} (g) needs the number" in f.concrete_functions[1].reason


def test_other_axes_stay_symbolic() -> None:
    def g(x: Any) -> Any:
        return nc.concat([x * k for k in range(x.shape[1])], axis=1)

    f = nc.jit(g)
    same(f, (rows(4, 2),), (rows(5, 3),), (rows(6, 3),), (rows(7, 3),), (rows(7, 2),), (rows(8, 2),))
    assert [str(c.graph.input_types[0]) for c in f.concrete_functions] == ["f32[4, 2]", "f32[n0, 3]", "f32[n0, 2]"]


POSITIONS = nc.tensor(np.random.default_rng(1).normal(size=(16, 3)).astype(np.float32))
TRIANGLE = nc.tril(nc.ones((16, 16)))
PARTS: dict[str, Callable[[Any], Any]] = {
    "positions": lambda x: x + POSITIONS[: x.shape[0]],
    "mask": lambda x: (x @ x.T) * TRIANGLE[: x.shape[0], : x.shape[0]],
    "last positions": lambda x: x + POSITIONS[-4:].sum(),
    "behind the first": lambda x: x[2:] - x[:-2],
    "window": lambda x: nn.functional.max_pool2d(x[None, None], 2, stride=1),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_tables_have_one_variant_within_bounds(name: str) -> None:
    f = nc.jit(PARTS[name])
    same(f, *[(rows(n),) for n in (8, 5, 12, 16, 3, 7, 16)])
    assert kinds(f) == [False, True]


def test_sizes_beyond_the_bounds_of_a_variant_have_another() -> None:
    f = nc.jit(lambda x: nc.sum(POSITIONS[: x.shape[0]]) + x)
    same(f, *[(rows(n),) for n in (8, 5, 30, 16, 17, 20, 9)])
    assert [c.reason.rpartition(" varied")[2] for c in f.concrete_functions[1:]] == [" from 2 to 16", " from 17"]
    g = nc.jit(PARTS["positions"])
    same(g, *[(rows(n),) for n in (8, 5)])
    for n in (17, 20):
        with pytest.raises(nc.ShapeError, match="16 and"):
            POSITIONS + rows(n)
        with pytest.raises(nc.ShapeError):
            g(rows(n))
    same(g, (rows(9),))


def test_powers_of_sizes() -> None:
    f = nc.jit(lambda x: nc.reshape(nc.broadcast_to(x[:, :1], (x.shape[0], x.shape[0])), (x.shape[0] ** 2,)))
    same(f, *[(rows(n),) for n in (4, 5, 6)])
    assert kinds(f) == [False, True]


def test_a_size_that_is_a_result() -> None:
    f = nc.jit(lambda x: (x.shape[0], x + 1))
    assert [f(rows(n))[0] for n in (4, 5, 6)] == [4, 5, 6]


def test_a_variable_keeps_its_shape() -> None:
    held = nc.Variable(nc.zeros((4, 3)))
    f = nc.jit(lambda x: held.assign(x * 2))
    for n in (4, 4):
        f(rows(n))
    for n in (5, 6):
        with pytest.raises(nc.Error):
            f(rows(n))
        with pytest.raises(nc.Error):
            held.assign(rows(n))


def test_errors_are_those_of_fixed_sizes() -> None:
    f = nc.jit(lambda x, y: x + y)
    same(f, (rows(4), rows(4)), (rows(5), rows(5)))
    for n in (2, 3, 4):
        with pytest.raises(nc.ShapeError) as found:
            f(rows(n), rows(n + 1))
        assert f"({n}, 3)" in str(found.value)
    same(f, (rows(7), rows(7)))
    assert kinds(f) == [False, True]


# ---- the same bits


@pytest.mark.sampled(6)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_operations(row: Row) -> None:
    for dtype in dtypes(row, False):
        arrays = operands(row, dtype)
        if not arrays or max(a.size for a in arrays) > LARGE:
            continue
        f = nc.jit(row.apply)
        f(*map(from_numpy, arrays))
        for times in (True, False):
            values = [from_numpy(grown(a, times)) for a in arrays]
            try:
                wanted = bits(row.apply(*values))
            except nc.Error:
                continue
            assert bits(f(*values)) == wanted, f"{row.name} of {dtype.name}: {f.concrete_functions}"


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5)), rows),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
        ),
        lambda n: nc.reshape(rows(n, 72), (n, 2, 6, 6)),
    ),
    "attention": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0),
        lambda n: nc.reshape(rows(2 * n, 8), (2, n, 8)),
    ),
    "gated": (lambda: Last(nn.GRU(3, 8)), lambda n: nc.reshape(rows(4 * n, 3), (4, n, 3))),
    "recurrent": (lambda: Last(nn.LSTM(3, 8)), lambda n: nc.reshape(rows(4 * n, 3), (n, 4, 3))),
}


class Last(nn.Module):
    """The results of a recurrent network without its state."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)[0]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("training", [False, True])
def test_networks(name: str, training: bool) -> None:
    make, data = NETWORKS[name]
    nc.random.seed(0)
    model = make().train() if training else make().eval()
    f, exact = nc.jit(model), nc.jit(model, dynamic=False)
    for n in (6, 9, 4, 6, 11):
        found = []
        for each in (f, exact):
            model.zero_grad()
            state = {k: v.numpy().copy() for k, v in model.state_dict().items()}
            y = each(data(n))
            nc.sum(y * y).backward()
            found.append([canonical(y), *(canonical(p.grad) for p in model.parameters() if p.grad is not None)])
            model.load_state_dict(state)
        assert found[0] == found[1], n
    assert len(f.concrete_functions) <= 2


def test_sizes_that_are_kept_are_numbers() -> None:
    kept = SimpleNamespace(size=0)

    class Keeping(nn.Module):
        def forward(self, x: Any) -> Any:
            self.size = kept.size = x.shape[0]
            return x + 1

    module = Keeping()
    f = nc.jit(module)
    for n in (4, 5, 6):
        f(rows(n))
        assert type(kept.size) is type(module.size) is int and kept.size == module.size == n


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.AdamW])
def test_a_training_with_a_last_partial_batch(optimizer: Any) -> None:
    def trained(dynamic: bool) -> tuple[list[bytes], Jitted]:
        nc.random.seed(0)
        model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
        opt = optimizer(model.parameters(), lr=1e-2)

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss

        f = nc.jit(step, dynamic=dynamic)
        losses = [f(rows(n), nc.arange(n) % 4) for n in (8, 8, 5, 8, 8, 3, 8, 6)]
        return [canonical(x) for x in (*losses, *model.parameters())], f

    found, f = trained(True)
    wanted, exact = trained(False)
    assert found == wanted
    assert len(exact.concrete_functions) > len(f.concrete_functions)


def test_variables_are_updated_in_place_for_all_sizes() -> None:
    held = nc.Variable(nc.zeros((400, 300)))

    def add(x: Any) -> None:
        held.assign(held.value + nc.sum(x))

    f = nc.jit(add)
    place = held.value.content.address
    for n in (4, 5, 6, 7, 6):
        f(rows(n))
        assert held.value.content.address == place
    assert kinds(f) == [False, True]


# ---- with other features


def test_captured_values_are_seen() -> None:
    scale = 2.0

    def g(x: Any) -> Any:
        return x * scale

    f = nc.jit(g)
    for n in (4, 5, 6):
        assert bits(f(rows(n))) == bits(rows(n) * 2.0)
    scale = 3.0
    for n in (4, 5, 6, 7):
        assert bits(f(rows(n))) == bits(rows(n) * 3.0)


def test_derivatives_and_batches_of_a_jitted_function() -> None:
    f = nc.jit(lambda x: nc.sum(nc.tanh(x) ** 2))
    plain = f.function
    for n in (4, 5, 6):
        x = rows(n)
        assert bits(nc.grad(f)(x)) == bits(nc.grad(plain)(x))
        assert bits(nc.vmap(f)(x)) == bits(nc.vmap(plain)(x))
        assert bits(nc.jvp(f, (x,), (x,))) == bits(nc.jvp(plain, (x,), (x,)))
        assert bits(nc.jit(lambda x: f(x) * 2)(x)) == bits(plain(x) * 2)


def test_second_derivatives_on_the_tape() -> None:
    f = nc.jit(lambda x: nc.sum(nc.tanh(x) ** 3))
    for n in (4, 5, 6, 7):
        found = []
        for each in (f, f.function):
            x = rows(n).requires_grad_()
            each(x).backward(create_graph=True)
            first, x.grad = x.grad, None
            nc.sum(first * first).backward()
            found.append([canonical(first), canonical(x.grad)])
        assert found[0] == found[1], n


def test_a_gradient_whose_size_only_the_operand_has() -> None:
    f = nc.jit(lambda x: nc.sum(x))
    for n in (4, 5, 6):
        x = rows(n).requires_grad_()
        f(x).backward()
        assert x.grad.numpy().tolist() == np.ones((n, 3)).tolist()


def test_indices_are_checked_for_each_size() -> None:
    f = nc.jit(lambda x, i: x[i])
    same(f, *[(rows(n), nc.tensor([0, n - 1])) for n in (4, 5, 6)])
    assert kinds(f) == [False, True]
    for n in (5, 9):
        with pytest.raises(nc.AxisError, match=rf"must be in \[-{n}, {n}\); got {n}"):
            f(rows(n), nc.tensor([0, n]))


def test_host_calls() -> None:
    def g(x: Any) -> Any:
        return nc.host_call(lambda a: a * 2, x.type, x) + 1

    f = nc.jit(g)
    same(f, *[(rows(n),) for n in (4, 5, 6)])


def test_views_and_arrays_as_arguments() -> None:
    f = nc.jit(lambda x: x * 2)
    whole = rows(12, 6)
    for n in (3, 4, 5, 6):
        assert bits(f(whole[1 : n + 1, ::2])) == bits(whole[1 : n + 1, ::2] * 2)
        assert bits(f(np.ones((n, 3), np.float32))) == bits(nc.ones((n, 3)) * 2)


def test_donated_arguments() -> None:
    f = nc.jit(lambda x: x * 2 + 1, donate=("x",))
    for n in (4, 5, 6, 5):
        x = rows(n)
        wanted = bits(rows(n) * 2 + 1)
        assert bits(f(x)) == wanted
        with pytest.raises(nc.Error):
            _ = x + 1


def test_arguments_that_are_changed() -> None:
    def g(x: Any) -> Any:
        x[0] = 7.0
        return nc.sum(x)

    f = nc.jit(g)
    for n in (4, 5, 6):
        x, y = nc.tensor(rows(n).numpy()), nc.tensor(rows(n).numpy())
        assert bits(f(x)) == bits(g(y)) and bits(x) == bits(y)


def test_inspection_of_other_sizes() -> None:
    f = nc.jit(lambda x: nc.exp(x) * 2)
    for n in (4, 5):
        f(rows(n))
    assert f.memory(rows(9)).inputs == 9 * 3 * 4
    assert f.cost(rows(9)).kernels == f.cost(rows(4)).kernels
    assert f.concrete(rows(9)) is f.concrete_functions[1]
    assert "n0" in str(f.trace(rows(9)))
    assert "exp" in str(f.explain(rows(9)))
    assert len(pickle.loads(pickle.dumps(jitted)).concrete_functions) == 0


@nc.jit
def jitted(x: Any) -> Any:
    return x + 1


def test_many_sizes_take_little_memory() -> None:
    f = nc.jit(lambda x: nc.sum(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(2, 700):
            assert float(f(nc.ones((n,)))) == n
    exact, whole = f.concrete_functions
    assert not exact.symbolic and whole.symbolic
    assert len(whole.forms) < 300 and len(f.fast) < 300 and len(f.known) < 10


def test_threads_with_other_sizes() -> None:
    f = nc.jit(lambda x: nc.cumulative_sum(x * 2, axis=0))
    wanted = {n: bits(f.function(rows(n))) for n in range(2, 40)}
    faults: list[Any] = []

    def work(first: int) -> None:
        for k in range(60):
            n = 2 + (first + 7 * k) % 38
            if bits(f(rows(n))) != wanted[n]:
                faults.append(n)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults and sum(kinds(f)) == 1


W, FILTERS = (nc.random.normal(shape, key=nc.random.key(1)) for shape in ((6, 5), (2, 1, 1, 3)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x @ W) / x.shape[0],
        lambda x: x.shape[0] - x @ W,
        lambda x: nc.tanh(x @ W / x.shape[0]),
        lambda x: nc.grad(lambda x: ((x.mean(0, keepdims=True) @ W) ** 2).sum())(x),
        lambda x: F.conv2d(x[:, None, None], FILTERS) * x.shape[0],
    ],
)
def test_products_beside_sizes(f: Any) -> None:
    """A size is a number of the pointwise code behind a product, which is not inserted into the product's."""
    compiled = nc.jit(f, dynamic_shapes={"x": {0: nc.Dim("n", min=3, max=64)}})
    for n in (4, 3, 7):
        x = nc.random.normal((n, 6), key=nc.random.key(n))
        assert compiled(x).numpy().tobytes() == f(x).numpy().tobytes()
