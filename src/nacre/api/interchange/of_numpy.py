"""NumPy's functions called with tensors: they compute with the numbers, and refuse tensors whose gradient is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from nacre.api.operands import numbers
from nacre.base.errors import GradientError, TraceError
from nacre.base.hints import advice
from nacre.base.state import STATE
from nacre.trace.value import Value, is_concrete
from nacre.trace.variable import Variable

NO_NUMBERS: Final = ("shape", "ndim", "size", "result_type", "shares_memory", "may_share_memory")
NO_GRADIENT: Final = (  # their results have none, or are written for readers and files
    "any", "all", "isnan", "isinf", "isfinite", "isnat", "signbit", "logical_and", "logical_or", "logical_not",
    "logical_xor", "argmax", "argmin", "nanargmax", "nanargmin", "argsort", "argwhere", "nonzero", "flatnonzero",
    "count_nonzero", "searchsorted", "digitize", "bincount", "histogram", "unique", "isin", "array_equal",
    "array_equiv", "allclose", "isclose", "array_repr", "array_str", "array2string", "save", "savez",
    "savez_compressed", "savetxt",
)  # fmt: skip
OPERATORS: Final = {  # NumPy's functions for its operators → the public functions of the same meaning
    "power": "pow", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    **{name: name for name in (
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "matmul", "bitwise_and", "bitwise_or",
        "bitwise_xor", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
    )},
}  # fmt: skip


def of_ufunc(functions: SimpleNamespace, ufunc: Any, method: str, inputs: Sequence[Any], kwargs: Any) -> Any:
    """The result of one of NumPy's elementwise functions of a tensor: a tensor for an operator, else an array.

    NumPy cannot distinguish `array + x` from `numpy.add(array, x)`.
    """
    name: str = ufunc.__name__
    if method == "__call__" and not kwargs and name in OPERATORS:
        return getattr(functions, OPERATORS[name])(*inputs)
    return _computed(functions, getattr(ufunc, method), name, inputs, kwargs)


def of_function(functions: SimpleNamespace, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of another one of NumPy's functions of a tensor."""
    if function.__name__ in NO_NUMBERS:
        return function._implementation(*args, **kwargs)
    return _computed(functions, function, function.__name__, args, kwargs)


def _computed(
    functions: SimpleNamespace, function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    def array(x: Any) -> Any:
        """An argument with arrays in place of tensors."""
        if type(x) in (tuple, list):
            made = [array(item) for item in x]
            return made if type(x) is list else tuple(made)
        x = x.value if isinstance(x, Variable) else x
        return numbers(_known(functions, name, x), "numpy") if isinstance(x, Value) else x

    return function(*map(array, args), **{key: array(x) for key, x in kwargs.items()})


def _known(functions: SimpleNamespace, name: str, x: Value) -> Value:
    """A tensor whose numbers NumPy may read; raises an error for others."""
    told = f"; write nacre.{name}(x)" if hasattr(functions, name) else advice("nacre", name)
    if not is_concrete(x):
        raise TraceError(f"{name}: NumPy's function needs known numbers; got a traced tensor of type {x.type}{told}")
    if x.node is not None and STATE.gradients and name not in NO_GRADIENT:
        raise GradientError(
            f"{name}: NumPy's function records no gradient; got a tensor that requires one{told}, or pass "
            "x.detach().numpy() where no gradient is needed"
        )
    return x
