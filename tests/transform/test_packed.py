"""Weights that a compiled function prepacks and reuses between calls: only while they are unchanged."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import nacre as nc
from nacre import nn, optim
from nacre.nn import functional
from nacre.runtime import buffer
from nacre.trace.value import make

SHAPE, FILTERS = (1, 256, 7, 7), (256, 256, 3, 3)


def random(shape: tuple[int, ...], seed: int) -> nc.Tensor:
    return nc.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def convolution() -> nc.jit:
    return nc.jit(lambda x, w: functional.conv2d(x, w, padding=1))


def allocated() -> int:
    gc.collect()
    return buffer.statistics().allocated


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_the_bits_are_those_of_the_current_weights(mode: str) -> None:
    x, weights = random(SHAPE, 0), [random(FILTERS, k) for k in (1, 2)]
    with nc.numerics(mode):
        wanted = [functional.conv2d(x, w, padding=1).numpy() for w in weights]
        f = convolution()
        for k in (0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0):
            assert np.array_equal(f(x, weights[k]).numpy(), wanted[k])


def test_weights_are_prepacked_from_the_second_call_on_and_freed() -> None:
    f, x, w, other = convolution(), random(SHAPE, 0), random(FILTERS, 1), random(FILTERS, 2)
    packed = f.memory(x, w).packed
    assert packed >= w.nbytes
    f(x, w)
    before = allocated()
    f(x, w)
    assert allocated() - before >= packed
    f(x, other)  # other weights: the old ones' packed copies are freed
    assert allocated() - before < packed
    for _ in range(3):
        f(x, other)
    assert allocated() - before >= packed
    nc.empty_cache()
    assert allocated() - before < packed
    for _ in range(3):
        f(x, w)
    del f
    assert allocated() - before < packed


@pytest.mark.parametrize("dtype", [nc.float32, nc.bfloat16, nc.float64], ids=str)
def test_other_numbers_of_threads_divide_the_work_differently(dtype: nc.DType) -> None:
    """Each thread count packs for its own division of the work, so the packed weights differ."""
    x, w = random((130, 65), 0).astype(dtype), random((700, 65), 1).astype(dtype)
    wanted = (x @ w.T).astype(nc.float32).numpy()
    f = nc.jit(lambda x, w: x @ w.T)
    assert f.memory(x, w).packed
    before = nc.get_threads()
    try:
        for threads in (1, 1, 1, 2, 3, 3, 3, 5, 5, 5, 4, 3, 2, 2, 1, 1):
            nc.set_threads(threads)
            assert np.array_equal(f(x, w).astype(nc.float32).numpy(), wanted), threads
    finally:
        nc.set_threads(before)


def test_weights_that_are_updated_in_place_are_packed_again() -> None:
    conv = nn.Conv2d(256, 256, 3, padding=1)
    x, y = random(SHAPE, 0), random(SHAPE, 1)
    opt = optim.SGD(conv.parameters(), lr=0.1)
    forward = nc.jit(lambda x: conv(x))

    @nc.jit
    def step(x: nc.Tensor, y: nc.Tensor) -> nc.Tensor:
        loss = nc.mean((conv(x) - y) ** 2)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    for _ in range(3):
        step(x, y)
        for _ in range(3):
            assert np.array_equal(forward(x).numpy(), conv(x).numpy())


def test_foreign_memory_is_never_prepacked() -> None:
    numbers = np.random.default_rng(1).standard_normal(FILTERS, dtype=np.float32)
    foreign = make(random(FILTERS, 1).type, buffer.wrap(numbers))
    f, x = convolution(), random(SHAPE, 0)
    for _ in range(3):
        f(x, foreign)
    numbers *= 2
    assert np.array_equal(f(x, foreign).numpy(), functional.conv2d(x, nc.asarray(numbers.copy()), padding=1).numpy())


def test_calls_of_several_threads_with_separate_weights() -> None:
    f, x = convolution(), random(SHAPE, 0)
    weights = [random(FILTERS, k) for k in range(3)]
    wanted = [functional.conv2d(x, w, padding=1).numpy() for w in weights]
    wrong: list[int] = []

    def work(seed: int) -> None:
        order = np.random.default_rng(seed).integers(0, len(weights), 12).repeat(3)
        wrong.extend(int(k) for k in order if not np.array_equal(f(x, weights[k]).numpy(), wanted[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_prepacked_weights_of_one_branch_are_not_ready_after_the_other() -> None:
    x, weights = random(SHAPE, 0), [random(FILTERS, k) for k in (1, 2)]
    wanted = [functional.conv2d(x, w, padding=1).numpy() for w in weights]

    @nc.jit
    def f(first: nc.Tensor, x: nc.Tensor, v: nc.Tensor, w: nc.Tensor) -> nc.Tensor:
        return nc.cond(
            first, lambda x: functional.conv2d(x, v, padding=1), lambda x: functional.conv2d(x, w, padding=1), x
        )

    for k in (0, 0, 0, 1, 1, 0, 1):
        assert np.array_equal(f(nc.asarray(k == 0), x, *weights).numpy(), wanted[k])


def test_a_call_succeeds_without_memory_for_prepacked_weights() -> None:
    f, x, w = convolution(), random(SHAPE, 0), random(FILTERS, 1)
    wanted, packed = f(x, w).numpy(), f.memory(x, w).packed
    gc.collect()  # before the cache is emptied, which takes what other tests left
    nc.empty_cache()
    try:
        nc.set_memory_limit(allocated() + packed // 2)
        for _ in range(3):
            assert np.array_equal(f(x, w).numpy(), wanted)
    finally:
        nc.set_memory_limit(None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_factors_of_products_are_prepacked(dtype: str) -> None:
    """Weights whose rows are outputs, as in `nn.Linear`; with an epilogue, on other threads, after a change."""
    x = random((20, 300), 0).astype(dtype)
    weights = [random((400, 300), k).astype(dtype) for k in (1, 2)]
    f = nc.jit(lambda x, w: nc.tanh(x @ w.T))
    wanted = [nc.tanh(x @ w.T).numpy() for w in weights]
    assert f.memory(x, weights[0]).packed >= weights[0].nbytes
    for k in (0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0):
        assert np.array_equal(f(x, weights[k]).numpy(), wanted[k])
    assert nc.jit(lambda x, w: x @ w).memory(random((20, 300), 0), random((300, 400), 1)).packed == 0
