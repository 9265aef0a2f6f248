"""Plain tensors: those with numbers, dense and without a node, as native code takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre.compile.program.executor import EXECUTOR
from nacre.interpret.evaluate import from_numpy
from nacre.trace.value import Value, is_concrete


def is_plain(x: Any) -> bool:
    """Whether x is a tensor with numbers, dense and without a node."""
    return isinstance(x, Value) and is_concrete(x) and x.node is None and x.layout is None


def dense(x: Any) -> Any:
    """A plain tensor of an array, or of a view without a node; other objects unchanged."""
    if isinstance(x, np.ndarray):
        return from_numpy(x)
    if isinstance(x, Value) and x.layout is not None and x.node is None and is_concrete(x):
        return EXECUTOR.dense(x)
    return x


def bare(x: Value) -> Value:
    """A dense value without a node."""
    found = EXECUTOR.dense(x)
    if found.node is None:
        return found
    copy = type(found).__new__(type(found))
    copy.type, copy.content, copy.layout, copy.node = found.type, found.content, None, None
    return copy
