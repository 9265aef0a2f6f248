"""A row of the table of operations, and generators of operands for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nacre.base.dtypes import ALL, FLOATS, INTEGERS, DType, bool_, float32, float64
from nacre.trace.value import Value
from ops import samples
from ops.samples import Array, Arrays

Inputs = Callable[[DType, np.random.Generator], list[Arrays]]
HALF = tuple(d for d in FLOATS if d.bits == 16)
SINGLE = (float32, float64)
NUMBERS = (*INTEGERS, *FLOATS)
ORDERED = (bool_, *NUMBERS)  # all dtypes but the complex ones


@dataclass(frozen=True)
class Row:
    """One operation with its parameters: a primitive, its test operands, and its expected results.

    `apply(*values)` and `reference(*arrays)` agree within `ulps` units in the last place of the result (0: the same
    bits), for every tuple of arrays in `inputs(dtype, rng)` and every dtype in `dtypes`.  `active` lists the operands
    that have a derivative, and `smooth(rng)` gives float64 operands for which finite differences are accurate.
    """

    name: str  # unique: the primitive's name, and the difference to its other rows
    apply: Callable[..., Value]
    reference: Callable[..., Any]
    inputs: Inputs
    dtypes: tuple[DType, ...] = ALL
    ulps: float = 0
    active: tuple[int, ...] = ()
    smooth: Callable[[np.random.Generator], Arrays] | None = None

    @property
    def primitive(self) -> str:
        """The name of the row's primitive."""
        return self.name.split("-")[0]


def shaped(*shapes: Sequence[int], scale: float = 1.0) -> Inputs:
    """Random operands of the given shapes."""

    def make(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [tuple(samples.random(dtype, s, rng, scale) for s in shapes)]

    return make


def normal(*shapes: Sequence[int], shift: float = 0.0, scale: float = 1.0) -> Callable[[np.random.Generator], Arrays]:
    """Smooth operands: normal numbers of the given shapes."""
    return lambda rng: tuple(np.asarray(rng.normal(size=tuple(s)) * scale + shift) for s in shapes)


def uniform(low: float, high: float, *shapes: Sequence[int]) -> Callable[[np.random.Generator], Arrays]:
    """Smooth operands: uniform numbers in a range."""
    return lambda rng: tuple(rng.uniform(low, high, tuple(s)) for s in shapes)


def apart(*shapes: Sequence[int]) -> Callable[[np.random.Generator], Arrays]:
    """Smooth operands whose elements all differ by much more than a finite difference."""

    def make(rng: np.random.Generator) -> Arrays:
        total = sum(int(np.prod(s)) for s in shapes)
        values = rng.permutation(total) * 0.3 - 0.15 * total + 0.1
        found: list[Array] = []
        for s in shapes:
            n = int(np.prod(s))
            found.append(values[:n].reshape(tuple(s)))
            values = values[n:]
        return tuple(found)

    return make


def several(*inputs: Inputs) -> Inputs:
    """The operands of several generators."""
    return lambda dtype, rng: [arrays for make in inputs for arrays in make(dtype, rng)]
