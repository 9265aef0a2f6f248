"""Vectors of complex numbers from and to memory in which real and imaginary parts alternate."""

from __future__ import annotations

from nacre.kernel.order_fft import Complex
from nacre.native.llvm_types import lanes_of, scalar_of
from nacre.native.llvm_values import Val
from nacre.native.text import Function


def load_pairs(f: Function, place: Val, vector: str) -> Complex[Val]:
    """The real and the imaginary parts of as many pairs as a vector has lanes."""
    lanes = lanes_of(vector)
    x = [f.load(f.gep(place, lanes * k, scalar_of(vector)), vector) for k in range(2)]
    return f.shuffle(x[0], x[1], range(0, 2 * lanes, 2)), f.shuffle(x[0], x[1], range(1, 2 * lanes, 2))


def store_pairs(f: Function, value: Complex[Val], place: Val) -> None:
    """Store vectors of real and imaginary parts as pairs."""
    vector = value[0].ty
    lanes = lanes_of(vector)
    order = [k for lane in range(lanes) for k in (lane, lanes + lane)]
    for k in range(2):
        half = f.shuffle(*value, order[lanes * k : lanes * (k + 1)])
        f.store(half, f.gep(place, lanes * k, scalar_of(vector)))
