"""Functions that compute half types in float32, with all their settings, and round once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate

from nacre.api import statistical
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.operands import TensorLike, as_tensor
from nacre.base.dtypes import FLOATING, NUMERIC
from nacre.base.state import STATE
from nacre.interpret.precision.functions import on_converted


def composite(
    operation: str,
    x: TensorLike,
    f: Callable[Concatenate[Any, ...], Any],
    settings: Mapping[str, Any] | None = None,
    parameters: Sequence[TensorLike] = (),
) -> Any:
    """Apply f, which computes half types in float32, to x and parameters; the result has the dtype of x.

    With `settings`, which are all values that f uses besides its operands, it is one operation for tensors.
    """

    def computed(x: TensorLike, *parameters: Any) -> Any:
        """f on operands of any dtypes."""
        held = as_tensor(x)
        require(operation, held.type.dtype, FLOATING)
        return as_tensor(f(statistical.wide_float(held), *parameters), held.type.dtype)

    if settings is None:
        if STATE.autocast is None:
            return computed(x, *parameters)
        return on_converted(operation, computed, (x, *parameters))
    return of_tensors(operation, computed, (x, *map(as_tensor, parameters)), **settings)


def of_numbers(operation: str, x: TensorLike, f: Callable[[Any], Any], settings: Mapping[str, Any]) -> Any:
    """f of integers, or as a `composite` of floats, which is one operation for tensors."""
    held = as_tensor(x)
    require(operation, held.type.dtype, NUMERIC)
    return composite(operation, held, f, settings) if held.type.dtype.is_float else f(held)
