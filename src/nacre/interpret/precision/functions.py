"""How public functions of several primitives convert their tensors inside of `autocast`, and then run without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import Any, TypeVar, cast

from nacre.base import tree
from nacre.base.dtypes import FLOATS, PROMOTION, DType, float32
from nacre.base.state import STATE, without_autocast
from nacre.base.types import TensorType
from nacre.interpret.precision.casting import HALVES, ROUNDED
from nacre.interpret.precision.policy import WIDEST_FUNCTIONS, rule_of_function
from nacre.ir.primitive import LOW, SINGLE
from nacre.ops import pointwise
from nacre.trace.value import Value
from nacre.trace.variable import Variable

F = TypeVar("F", bound=Callable[..., Any])


def autocasting(function: F) -> F:
    """A decorator: inside of `autocast`, the tensors are converted by the function's rule, and the rest has float32.

    A dtype that the caller names is the dtype of the computation.
    """
    name = function.__name__

    @wraps(function)
    def converting(*args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        if STATE.autocast is None:
            return function(*args, **kwargs)
        if kwargs.get("dtype") is None:
            leaves, structure = tree.flatten([args, kwargs])
            args, kwargs = tree.unflatten(structure, _converted(name, leaves))
        return without_autocast(lambda: function(*args, **kwargs))

    return cast("F", converting)


def on_converted(name: str, f: Callable[..., Any], xs: Sequence[Any]) -> Any:
    """f of arguments that are converted by the rule of a public function, without autocast."""
    given = _converted(name, xs)
    return without_autocast(lambda: f(*given))


def _converted(name: str, xs: Sequence[Any]) -> list[Any]:
    """The arguments of a public function, its tensors converted by its rule."""
    rule = rule_of_function(name)
    held = [x.value if isinstance(x, Variable) else x for x in xs]
    dtypes = {x.type.dtype for x in held if isinstance(x, Value) and x.type.dtype.is_inexact}
    if rule == LOW and ROUNDED.issuperset(dtypes):
        of, to = ROUNDED, STATE.autocast
    elif rule == SINGLE and ROUNDED.issuperset(dtypes):
        of, to = HALVES, float32
    elif name in WIDEST_FUNCTIONS and len(dtypes) > 1 and dtypes.issubset(FLOATS):
        of, to = frozenset(dtypes), reduce(lambda a, b: PROMOTION[a, b], dtypes)
    else:
        return list(xs)

    def cast_all() -> list[Any]:
        """The arguments, converted without a policy for the conversions themselves."""
        return [
            pointwise.cast(y, to) if isinstance(y, Value) and y.type.dtype in of else x
            for x, y in zip(xs, held, strict=True)
        ]

    return without_autocast(cast_all)


# ---- results of functions that control flow and derivative rules stage


def in_dtypes(f: F, types: Sequence[TensorType], pair: bool = False) -> F:
    """A function whose results are converted to the dtypes of a carry, inside of `autocast`.

    A product makes a float32 carry bfloat16, for example, which the next iteration would refuse.  With `pair`, f
    returns the carry and another tree.
    """
    if STATE.autocast is None:
        return f

    @wraps(f)
    def converting(*args: Any) -> Any:
        """The function's result."""
        found = f(*args)
        if not pair:
            return _like(found, types)
        if not isinstance(found, tuple | list):
            return found
        parts = list(cast("Sequence[Any]", found))
        return (_like(parts[0], types), *parts[1:]) if parts else parts

    return cast("F", converting)


def _like(found: Any, types: Sequence[TensorType]) -> Any:
    """A tree whose tensors of floats have other dtypes; another tree is left to be refused."""
    leaves, structure = tree.flatten(found)
    if len(leaves) != len(types):
        return found
    return tree.unflatten(structure, [matched(x, t.dtype) for x, t in zip(leaves, types, strict=True)])


def matched(x: Any, dtype: DType) -> Any:
    """Inside of `autocast`, a tensor of floats in the dtype that it must have; other values are unchanged."""
    if STATE.autocast is None:
        return x
    held = x.value if isinstance(x, Variable) else x
    if not isinstance(held, Value) or held.type.dtype is dtype or not {held.type.dtype, dtype} <= ROUNDED:
        return x
    return without_autocast(lambda: pointwise.cast(held, dtype))


def widest(lists: Sequence[Sequence[TensorType]]) -> tuple[TensorType, ...] | None:
    """The types of several functions' results in their widest dtypes; None if they differ in more than these."""
    first = lists[0]
    if any(len(types) != len(first) for types in lists):
        return None
    found: list[TensorType] = []
    for together in zip(*lists, strict=True):
        dtypes = {t.dtype for t in together}
        if len(dtypes) > 1 and not dtypes <= ROUNDED:
            return None
        found.append(together[0].with_dtype(reduce(lambda a, b: PROMOTION[a, b], dtypes)))
    return tuple(found)
