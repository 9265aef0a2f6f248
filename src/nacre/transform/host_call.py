"""`host_call`: call a Python function on concrete tensors in the middle of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from nacre.base import tree
from nacre.base.arguments import shown
from nacre.base.dims import Dim
from nacre.base.dtypes import DType, as_dtype
from nacre.base.errors import KindError, ShapeError
from nacre.base.types import TensorType
from nacre.interpret.called import user_line
from nacre.ops.host import HostFunction, host_call_p
from nacre.trace.bind import bind
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from nacre.transform.arguments import as_value, name_of, require_function

__all__ = ["host_call"]


def host_call(f: Callable[..., Any], types: Any, *args: Any) -> Any:
    """`f(*args)`, called by Python also in the middle of a compiled program.

    f gets tensors with numbers in the place of all tensors, variables and arrays in `args`; other arguments are
    constants.  `types` declares the result: a type (such as `x.type`), a shape and a dtype, a tuple, list or dict of
    them, or None.  f returns tensors, arrays or numbers of these types and this structure.  Shapes may use symbolic
    sizes of the arguments.

    The call is an effect: it runs exactly once wherever it stands, also if its result is not used.  Calls run in the
    order of the program, in the thread of the caller.  An exception of f ends the program and is raised unchanged;
    variables then have the values from before.

    There is no derivative: a gradient through the result is an error.  Programs with host calls are not stored, saved
    or deployed.

    Raises ArgumentError, KindError, ShapeError or DTypeError for results other than declared.

    >>> import nacre as nc
    >>> @nc.jit
    ... def f(x):
    ...     y = nc.sin(x)
    ...     nc.host_call(lambda y: print("y is", y), None, y)
    ...     return nc.host_call(lambda y: y.numpy().cumsum(), y.type, y) * 2
    >>> f(nc.tensor([0.0, 1.0]))
    y is [0.       0.841471]
    Tensor([0.      , 1.682942], f32[2])
    """
    require_function(f, "host_call")
    if not callable(f):
        raise KindError(f"host_call: f must be a function; got {shown(f)}; pass the function, then the types")
    leaves, arguments = tree.flatten(args)
    places = tuple(k for k, x in enumerate(leaves) if isinstance(x, Value | Variable | np.ndarray | np.generic))
    values = [as_value(leaves[k], "host_call") for k in places]
    constants = tuple(None if k in places else x for k, x in enumerate(leaves))
    tree.flatten(types)  # raises an error for a tree that is nested too deeply
    results: list[TensorType] = []
    structure = _structure(types, results)
    function = HostFunction(f, name_of(f), user_line(), arguments, constants, places, structure, tuple(results))
    return tree.unflatten(structure, bind(host_call_p, *values, function=function))


def _structure(types: Any, found: list[TensorType]) -> tree.Structure:
    """The structure of a result; its types are appended to `found`."""
    declared = _type(types)
    if declared is not None:
        found.append(declared)
        return tree.LEAF
    opened = tree.opened(types)
    if opened is None:
        raise KindError(
            f"host_call: types must be a type, a shape and a dtype, or a tuple, list or dict of these; got "
            f"{shown(types)}; write x.type, or ((2, 3), nc.float32)"
        )
    children, _ = opened
    _, form = tree.flatten(types)
    parts = tuple(_structure(child, found) for child in children)
    return tree.Structure(form.kind, form.data, parts)


def _type(given: Any) -> TensorType | None:
    """A type, given as itself or as a shape and a dtype; None for anything else."""
    if isinstance(given, TensorType):
        return given
    if not isinstance(given, tuple) or len(cast("tuple[Any, ...]", given)) != 2:
        return None
    shape, dtype = cast("tuple[Any, Any]", given)
    if not isinstance(shape, tuple | list) or not isinstance(dtype, DType | type | str | np.dtype):
        return None
    sizes = tuple(cast("tuple[Any, ...]", shape))
    if not all(isinstance(n, Dim | int | np.integer) for n in sizes):
        return None
    if any(not isinstance(n, Dim) and n < 0 for n in sizes):
        raise ShapeError(
            f"host_call: sizes of types must be at least 0; got {list(sizes)}; write the sizes of the result"
        )
    return TensorType(sizes, as_dtype(cast("Any", dtype)))
