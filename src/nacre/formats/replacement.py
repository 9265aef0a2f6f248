"""The graph of a function that computes a value of another graph in a new way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from nacre.api.operands import is_scalar
from nacre.base import tree
from nacre.base.arguments import shown
from nacre.base.errors import ArgumentError, KindError
from nacre.base.types import TensorType
from nacre.formats.values import fed
from nacre.ir.graph import Var
from nacre.ops.identity import copy_p
from nacre.trace.value import Value, is_concrete
from nacre.transform.arguments import is_tensor, name_of, require_function
from nacre.transform.graphs.placeholder import DEFINITION, DefinedGraph, defined, placeholder


def of_function(
    operation: str, function: Callable[..., Any], values: Mapping[str, Var], type: TensorType
) -> tuple[DefinedGraph, tuple[str, ...], tree.Structure]:
    """The graph of a function of values, its output, and the structure of that.

    The function may leave values unused, and its result may have numbers: a tensor, or numbers for the given type.
    """
    if not callable(function):
        raise KindError(
            f"{operation}: the new computation must be a function or a graph; got {shown(function)}; write "
            f"lambda {', '.join(values)}: …, or nc.Graph.build(inputs, output) for a result of placeholders"
        )
    require_function(function, operation)
    name = name_of(function)
    _require_parameters(operation, name, function, values)
    xs = {n: placeholder(v.type.shape, v.type.dtype, name=n) for n, v in values.items()}
    result = function(*xs.values())
    if not is_tensor(result) and not is_scalar(result) and not isinstance(result, list):
        raise KindError(f"{operation}: the function must return one tensor; {name} returned {shown(result)}")
    found: Value = fed(result, type)
    if is_concrete(found):
        found = DEFINITION.process(copy_p, (found,), {})  # so that it has an equation, and with that a name
    return defined(operation, xs, {"output": found}, name, spare=True), ("output",), tree.LEAF


def _require_parameters(operation: str, name: str, function: Callable[..., Any], values: Mapping[str, Var]) -> None:
    """Raise ArgumentError for a function that does not take as many values as are given."""
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of other libraries have none
        return
    try:
        parameters.bind(*values)
    except TypeError as fault:
        raise ArgumentError(
            f"{operation}: the function must take {len(values)} tensors ({', '.join(values)}); {name} takes "
            f"{', '.join(parameters.parameters) or 'none'}: {fault}; name the values that it takes by inputs="
        ) from None
