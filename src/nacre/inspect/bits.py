"""Short computations of every kind and the hashes of their results: equal hashes mean equal bits.

`python -m nacre.inspect.bits` prints them as JSON, so that another process (another instruction set, another machine)
can be compared with this one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from nacre.api.namespace import PUBLIC
from nacre.api.settings import get_threads, set_threads
from nacre.api.tensor import Tensor
from nacre.base.arguments import shown
from nacre.base.dtypes import FLOATING
from nacre.base.errors import KindError
from nacre.transform.jit import jit

SIDE = 320  # large enough to divide every probe among threads


def probes() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """The computations, by name; each takes two float32 matrices."""
    f = PUBLIC
    return {
        "elementwise": lambda x, y: f["exp"](x) * f["sin"](y) + f["erf"](x) / (f["abs"](y) + 1.0),
        "sum of rows": lambda x, y: f["sum"](x * y, axis=1),
        "sum of columns": lambda x, y: f["sum"](x * y, axis=0),
        "sum": lambda x, y: f["sum"](f["exp"](x)),
        "matrix product": lambda x, y: f["matmul"](x, y),
        "half product": lambda x, y: f["matmul"](x.astype("bfloat16"), y.astype("bfloat16"), dtype="float32"),
        "softmax": _softmax,
    }


def _softmax(x: Tensor, y: Tensor) -> Tensor:
    e = PUBLIC["exp"](x - PUBLIC["max"](x, axis=-1, keepdims=True))
    return e / PUBLIC["sum"](e, axis=-1, keepdims=True)


def operands() -> tuple[Tensor, Tensor]:
    """The two matrices, equal on every machine."""
    made = np.random.default_rng(20).normal(size=(2, SIDE, SIDE)).astype(np.float32)
    return PUBLIC["asarray"](made[0]), PUBLIC["asarray"](made[1])


def digest(array: np.ndarray) -> str:
    """The SHA-256 of an array's dtype, shape and bytes; all NaNs count as equal.

    >>> from nacre.inspect.bits import digest
    >>> x = nc.random.normal((4, 4))
    >>> digest(nc.jit(nc.exp)(x).numpy()) == digest(nc.exp(x).numpy())
    True
    """
    try:
        contiguous: Any = np.ascontiguousarray(array)
    except (TypeError, ValueError) as fault:
        raise KindError(f"digest: the value must be an array; got {shown(array)}") from fault
    head = f"{contiguous.dtype} {contiguous.shape} "
    if np.iscomplexobj(contiguous):
        contiguous = contiguous.reshape(-1).view(contiguous.real.dtype)
    if FLOATING.holds(contiguous.dtype) and np.isnan(contiguous).any():
        contiguous = np.where(np.isnan(contiguous), np.array(np.nan, contiguous.dtype), contiguous)
    return hashlib.sha256(head.encode() + contiguous.tobytes()).hexdigest()


def measure(threads: int | None = None, compiled: bool = False) -> dict[str, str]:
    """The hash of every probe's result, with a number of threads, eager or jitted.

    >>> from nacre.inspect.bits import measure
    >>> measure(threads=1) == measure(threads=2, compiled=True)
    True
    """
    before = get_threads()
    set_threads(threads or before)
    try:
        x, y = operands()
        return {name: digest((jit(f) if compiled else f)(x, y).numpy()) for name, f in probes().items()}
    finally:
        set_threads(before)


def parse(text: str) -> dict[str, str]:
    """The hashes that another process printed."""
    return {str(k): str(v) for k, v in json.loads(text).items()}


if __name__ == "__main__":
    print(json.dumps(measure()))
