"""A named computation to time, and its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nacre.api import random
from nacre.api.creation import asarray
from nacre.api.tensor import Tensor
from nacre.base.records import dataclass
from nacre.transform.jit import Jitted, jit

Made = tuple[Callable[..., Any], tuple[Any, ...]]  # a function and its arguments


@dataclass(frozen=True)
class Workload:
    """A named computation; `make(tiny)` returns a new function and its arguments.

    `title` describes the known size, `tiny` the one for tests.
    """

    name: str
    title: str
    tiny: str
    make: Callable[[bool], Made]

    def plain(self, tiny: bool = False) -> Made:
        """The function, with weights from the same seed each time, and its arguments."""
        random.seed(0)
        return self.make(tiny)

    def ready(self, tiny: bool = False) -> tuple[Jitted[..., Any], tuple[Any, ...]]:
        """The function compiled, and its arguments."""
        function, arguments = self.plain(tiny)
        return jit(function), arguments


def floats(*shape: int, seed: int = 1) -> Tensor:
    """Normal random numbers."""
    return asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))


def whole(limit: int, *shape: int, seed: int = 2) -> Tensor:
    """Uniform random integers below a limit."""
    return asarray(np.random.default_rng(seed).integers(0, limit, shape).astype(np.int32))
