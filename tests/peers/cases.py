"""A function whose derivatives are compared, written once for all libraries, and where its operands are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any
Shape = tuple[int, ...]


def plane(rng: np.random.Generator, shape: Shape) -> Array:
    """Complex numbers of moderate size, apart from both axes, where the branch cuts are."""
    parts = rng.uniform(0.3, 0.9, (2, *shape)) * rng.choice([-1.0, 1.0], (2, *shape))
    return parts[0] + 1j * parts[1]


def line(rng: np.random.Generator, shape: Shape) -> Array:
    """Real numbers of moderate size, apart from zero."""
    return rng.uniform(0.3, 0.9, shape) * rng.choice([-1.0, 1.0], shape)


def normal(rng: np.random.Generator, shape: Shape) -> Array:
    """Real numbers with mean 0 and variance 1."""
    return rng.normal(size=shape)


def interval(rng: np.random.Generator, shape: Shape) -> Array:
    """Real numbers between 0 and 1, apart from both."""
    return rng.uniform(0.2, 0.8, shape)


def probabilities(rng: np.random.Generator, shape: Shape) -> Array:
    """Rows of positive numbers whose sum is 1."""
    drawn = rng.uniform(0.2, 1.0, shape)
    return drawn / drawn.sum(-1, keepdims=True)


def conditioned(draw: Callable[[np.random.Generator, Shape], Array]) -> Callable[[np.random.Generator, Shape], Array]:
    """Matrices whose eigenvalues and singular values are apart from each other, and from zero."""
    return lambda rng, shape: draw(rng, shape) / 2 + 2 * np.eye(*shape[-2:]) * np.arange(1.0, shape[-1] + 1)


@dataclass(frozen=True, eq=False)
class Case:
    """A function, its operands' shapes and where they are drawn from, and why a peer, or a form of one, is left out."""

    name: str
    f: Callable[..., Any]
    shapes: tuple[Shape, ...] = ((3, 2),)
    draw: Callable[[np.random.Generator, Shape], Array] = plane
    apart: Mapping[str, str] = field(default_factory=dict[str, str])

    def operands(self, seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [self.draw(rng, shape) for shape in self.shapes]


def named(*names: str, **fields: Any) -> list[Case]:
    """Functions of one operand that all libraries call alike."""
    return [Case(name, lambda xp, z, name=name: getattr(xp, name)(z), **fields) for name in names]
