"""Tensors as arrays of NumPy, as memory of the buffer protocol, as pickles and as deep copies.

A pickle or a copy keeps the numbers, and of a leaf also that it requires a gradient and the gradient so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from nacre.api.operands import as_tensor, plain_numbers, require_no_gradient
from nacre.base.errors import ArgumentError, DTypeError, ExchangeError, GradientError, OutOfMemory
from nacre.base.state import STATE
from nacre.interpret.tape import another
from nacre.trace.reads import is_capture
from nacre.trace.value import is_concrete, make, owned

WRITABLE: Final = 1  # PyBUF_WRITABLE


def to_array(x: Any, dtype: Any, copy: bool | None) -> np.ndarray:
    """What `numpy.asarray` and `numpy.array` make of a tensor: an array of its memory, or a copy."""
    array = plain_numbers(x, "numpy")
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ArgumentError(
                f"numpy: converting {array.dtype} to {dtype} needs a copy; got copy=False; pass copy=None"
            )
        return array.astype(dtype)
    return array.copy() if copy else array


def to_buffer(x: Any, flags: int) -> memoryview:
    """What `memoryview` makes of a tensor, from CPython 3.12 on: its memory, which must not be written to."""
    if flags & WRITABLE:
        raise ExchangeError(
            "buffer: the memory of a tensor must not be written to; got a request to write; write x.numpy().copy()"
        )
    try:
        return memoryview(cast("Any", plain_numbers(x, "buffer")))
    except ValueError as fault:
        raise ExchangeError(
            f"buffer: elements must be of a dtype that the buffer protocol has; got {x.dtype.name} ({fault}); "
            "write x.numpy(), or x.astype(nacre.float32)"
        ) from None


def reduced(x: Any) -> tuple[Any, ...]:
    """What pickle stores of a tensor; another process cannot have the record of a recorded operation."""
    _require_no_record(x, "pickle")
    leaf = x.node is not None and x.is_leaf
    return unpickled, (whole(x, "pickle", np.array), leaf, x.grad if leaf else None)


def _require_no_record(x: Any, operation: str) -> None:
    if not x.is_leaf and STATE.gradients and is_concrete(x):
        raise GradientError(
            f"{operation}: the tensor must not be the result of a recorded operation, which a copy would forget; got "
            f"one of type {x.type}; write x.detach(), or do it inside `with nacre.no_grad():`"
        )


def unpickled(array: np.ndarray, requires_grad: bool, gradient: Any = None) -> Any:
    """The unpickled tensor."""
    x = as_tensor(array)
    if requires_grad:
        x.requires_grad_().grad = gradient
    return x


def shallow_copy(x: Any) -> Any:
    """Another tensor in the same memory, of which a leaf has a gradient of its own."""
    if x.node is None or not x.is_leaf:
        return another(x)
    return cast("Any", make(x.type, x.content, x.layout)).requires_grad_()


def deep_copy(x: Any) -> Any:
    """Another tensor with the same numbers, in the same memory where no other library writes to it."""
    require_no_gradient(x, "deepcopy")
    _require_no_record(x, "deepcopy")
    held = x if is_capture(x) else owned(x)  # an input of a graph is read when that runs
    copied: Any = make(held.type, held.content, held.layout)
    if x.node is not None and x.is_leaf:
        copied.requires_grad_().grad = x.grad
    return copied


def whole(x: Any, operation: str, make: Callable[[np.ndarray], Any]) -> Any:
    """The result of a function of all numbers; raises OutOfMemory if memory is short."""
    given = plain_numbers(x, operation)
    try:
        return make(given)
    except MemoryError:
        raise OutOfMemory(
            f"{operation}: too little memory for {given.size:,} elements; take parts of it, as x[:1000]"
        ) from None


def real_number(number: Any, operation: str) -> Any:
    """A number that is not complex."""
    if isinstance(number, complex):
        raise DTypeError(f"{operation}: the number must be real; got {number}; write x.real, x.imag or complex(x)")
    return number


def finite(number: Any, operation: str) -> Any:
    """A number that is neither infinite nor NaN."""
    if isinstance(number, float) and not math.isfinite(number):
        raise ArgumentError(f"{operation}: the number must be finite; got {number}; test with nacre.isfinite")
    return number
