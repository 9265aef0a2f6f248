"""Epilogues of products: elements at the same place; early updates in place, with the bits of single steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.nn import functional

SIZES = (40, 33, 50, 10)
OPTIMISERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: optim.RMSprop(p, centered=True, momentum=0.9),
    "lion": lambda p: optim.Lion(p, lr=0.01),
}


MOVES: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda p: nc.permute_dims(p, (0, 2, 1)),
    "batch as rows": lambda p: nc.permute_dims(p, (1, 0, 2)),
    "turned round": lambda p: nc.permute_dims(p, (2, 0, 1)),
    "batch flipped": lambda p: nc.flip(p, axis=0),
    "rows flipped": lambda p: nc.flip(p, axis=1),
    "columns flipped": lambda p: nc.flip(p, axis=2),
    "all flipped": nc.flip,
    "rolled": lambda p: nc.roll(p, 1, axis=1),
}


@pytest.mark.parametrize("more", ["alone", "added to", "with itself"])
@pytest.mark.parametrize("n", [1, 2, 5, 17, 40])
@pytest.mark.parametrize("move", MOVES)
def test_clusters_of_moved_elements_are_not_epilogues(move: str, n: int, more: str) -> None:
    """The moved result has as many elements as the product; by shape alone, the two are indistinguishable."""
    x = nc.asarray(np.random.default_rng(n).standard_normal((n, n, n)).astype(np.float32))

    def f(x: Any) -> Any:
        made = x @ x
        moved = MOVES[move](made)
        return {"alone": moved, "added to": moved + 1, "with itself": moved * made}[more]

    assert nc.jit(f)(x).numpy().tobytes() == f(x).numpy().tobytes()


RESULTS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "a product": (lambda x, w: nc.reshape(x @ w, (6, 4, 5)), (6, 7), (7, 20)),
    "a convolution": (lambda x, w: functional.conv2d(x, w, padding=1), (1, 3, 6, 5), (4, 3, 3, 3)),
    "a window": (lambda x, w: functional.max_pool2d(x, 2, 1), (1, 3, 6, 5), (1,)),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_that_is_also_copied_in_another_order_is_written(name: str, first: bool) -> None:
    """The copy reads it through a permutation and a reshape, which cannot be a view of the permutation."""
    make, *shapes = RESULTS[name]
    x, w = (nc.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32)) for shape in shapes)

    def f(x: Any, w: Any) -> Any:
        y = make(x, w)
        moved = nc.permute_dims(nc.reshape(y, (-1, *y.shape[-2:])), (1, 0, 2))
        found = nc.reshape(moved, (-1,)), nc.maximum(y, 0.0)
        return found if first else found[::-1]

    for a, b in zip(nc.jit(f)(x, w), f(x, w), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_windows_operand_is_written_if_it_is_also_copied_in_another_order() -> None:
    def f(x: Any) -> Any:
        y = nc.tanh(x * 2.0 + 1.0)
        return nc.reshape(nc.permute_dims(y, (0, 2, 1, 3)), (1, -1)), functional.max_pool2d(y, 2, 1)

    x = nc.asarray(np.random.default_rng(0).standard_normal((1, 3, 6, 5)).astype(np.float32))
    for a, b in zip(nc.jit(f)(x), f(x), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def _training(make: Callable[[Any], optim.Optimizer], clip: bool = False) -> tuple[Any, list[nc.Variable]]:
    """A training step of a network, and the parameters that it changes."""
    nc.random.seed(3)
    layers = [m for k in range(len(SIZES) - 1) for m in (nn.Linear(SIZES[k], SIZES[k + 1]), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    optimiser = make(model.parameters())

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if clip:
            optim.clip_grad_norm_(model.parameters(), 0.1)
        optimiser.step()
        optimiser.zero_grad()
        return loss

    return step, list(model.parameters())


def _batch(rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows)
    return (
        nc.asarray(rng.standard_normal((rows, SIZES[0])).astype(np.float32)),
        nc.asarray(rng.integers(0, SIZES[-1], rows).astype(np.int32)),
    )


def _labels(step: Any, *args: Any) -> list[str]:
    return [launch.label for launch in step.prepare(*args).compiled.executable.plan.steps]


@pytest.mark.parametrize("rows", [37, 300])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_fused_updates_have_the_bits_of_single_steps(name: str, rows: int) -> None:
    batch = _batch(rows)
    found: list[list[bytes]] = []
    for wrap in (nc.jit, lambda f: f):
        step, held = _training(OPTIMISERS[name])
        step = wrap(step)
        losses = [step(*batch).numpy().tobytes() for _ in range(3)]
        found.append(losses + [p.value.numpy().tobytes() for p in held])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_weights_are_updated_in_the_kernels_of_their_gradients(name: str) -> None:
    step, batch = nc.jit(_training(OPTIMISERS[name])[0]), _batch(64)
    for _ in range(2):
        step(*batch)
    labels = _labels(step, *batch)
    products = [label for label in labels if label.startswith("contract")]
    layers = len(SIZES) - 1
    updates = [label for label in products if "fma" in label]
    assert len(products) == 3 * layers - 1 and len(updates) == layers, labels
    concrete = step.concrete(*batch)
    written = {id(v) for v in concrete.variable_outputs if v.shape}
    assert concrete.in_place is not None
    assert written <= {id(v) for v in concrete.in_place.variables}, "weights, biases and moments are changed in place"


def test_a_clipped_gradient_is_complete_before_its_update() -> None:
    batch = _batch(64)
    found: list[list[bytes]] = []
    for wrap in (nc.jit, lambda f: f):
        step, held = _training(OPTIMISERS["adam"], clip=True)
        step = wrap(step)
        step(*batch)
        found.append([p.value.numpy().tobytes() for p in held])
    assert found[0] == found[1]


def test_a_gradient_that_is_read_later_is_stored_with_the_update() -> None:
    batch = _batch(64)
    found: list[list[bytes]] = []
    for wrap in (nc.jit, lambda f: f):
        nc.random.seed(3)
        w = nn.Parameter(nc.random.normal((SIZES[0], 20)))
        optimiser = optim.Adam([w])

        def step(x: Any, w: Any = w, optimiser: Any = optimiser) -> Any:
            loss = nc.sum(nc.tanh(x @ w.value))
            loss.backward()
            optimiser.step()
            return loss

        run = wrap(step)
        run(batch[0])
        found.append([w.value.numpy().tobytes(), w.gradient.numpy().tobytes()])
    assert found[0] == found[1]


def test_updates_are_not_delayed_until_the_end() -> None:
    """For any number of layers, only a few of their factors are alive at once."""

    def arena(layers: int) -> int:
        model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(layers)))
        optimiser = optim.AdamW(model.parameters())

        @nc.jit
        def step(x: Any) -> Any:
            loss = nc.sum(model(x) ** 2)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return loss

        return step.memory(nc.ones((8, 256))).workspace

    weights = 4 * 256 * 256
    assert arena(12) - arena(4) < weights, "eight more layers keep no gradient of a weight"


def test_the_operand_of_a_bias_gradient_is_an_epilogue() -> None:
    """The operand of a bias gradient's sum is a factor of later products: it is the epilogue of its own product."""
    step, batch = nc.jit(_training(OPTIMISERS["adam"])[0]), _batch(64)
    labels = _labels(step, *batch)
    assert labels.count("contract+select") == len(SIZES) - 2
    assert not any(label.startswith("select") for label in labels)
