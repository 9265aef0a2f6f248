"""Checks an equation's operands and parameters against the signature of its primitive's type rule.

Type rules trust the functions of `ops`, but not text.  So the parser checks an equation against the rule's signature
first: the number of operands, and the names and kinds of parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from nacre.base.dims import Dim
from nacre.base.dtypes import DType
from nacre.base.errors import Error, GraphError
from nacre.base.types import TensorType
from nacre.ir.primitive import Primitive, ProcessParameter

BOUND = 1 << 62  # of integers, so that sums of a few of them fit in 64 bits
Kind = Callable[[Any], bool]


def _integer(x: Any) -> bool:
    return type(x) is int and -BOUND <= x <= BOUND


def _size(x: Any) -> bool:
    return _integer(x) or isinstance(x, Dim)


def _several(kind: Kind, count: int | None = None) -> Kind:
    """A test for tuples of a kind, of any length or of one length."""
    return lambda x: (
        isinstance(x, tuple)
        and count in (None, len(cast("tuple[Any, ...]", x)))
        and all(map(kind, cast("tuple[Any, ...]", x)))
    )


_PAIR = _several(_integer, 2)
KINDS: dict[str, tuple[Kind, str]] = {  # by the annotation in a rule's signature
    "TensorType": (lambda x: isinstance(x, TensorType), "an operand"),
    "int": (_integer, "an integer"),
    "bool": (lambda x: type(x) is bool, "True or False"),
    "float": (lambda x: type(x) in (float, int), "a number"),
    "Number": (lambda x: type(x) is float or type(x) is bool or type(x) is int, "a number"),
    "DType": (lambda x: isinstance(x, DType), "a dtype"),
    "Size": (_size, "a size"),
    "Shape": (_several(_size), "a tuple of sizes"),
    "Sizes": (_several(_size), "a tuple of sizes"),
    "tuple[int, ...]": (_several(_integer), "a tuple of integers"),
    "tuple[str, ...]": (_several(lambda x: isinstance(x, str)), "a tuple of names"),
    "Pair": (_PAIR, "a pair of integers"),
    "Extents": (_several(_size, 2), "a pair of sizes"),
    "Padding": (_several(_PAIR, 2), "two pairs of integers"),
    "Pairs": (_several(_several(_integer), 2), "two tuples of axes"),
    "Graph": (lambda x: hasattr(x, "equations"), "a graph"),
    "HostFunction": (lambda x: isinstance(x, ProcessParameter), "a function of this process, which text cannot hold"),
    "DerivativeRule": (lambda x: isinstance(x, ProcessParameter), "a rule of this process, which text cannot hold"),
}
NAMED = {  # by the name of a parameter without an annotation: those of windows, and of rules that are lambdas
    "size": "Extents", "stride": "Pair", "padding": "Padding", "dilation": "Pair", "groups": "int", "dtype": "DType",
    "x": "TensorType",
}  # fmt: skip


def declared_types(
    primitive: Primitive, types: tuple[TensorType, ...], params: Mapping[str, Any]
) -> tuple[TensorType, ...]:
    """The result types of an equation.

    Raises GraphError for operands or parameters that the type rule does not declare.

    Errors of the rule itself pass through; other exceptions in it become GraphError.
    """
    signature = _signature(primitive)
    try:
        bound = signature.bind(*types, **params)
    except TypeError as fault:
        raise GraphError(f"{primitive.name}: operands and parameters must match {signature}; {fault}") from None
    for name, value in () if primitive.outside else _listed(bound):  # others check their own, of any name
        parameter = signature.parameters.get(name)
        said = None if parameter is None or parameter.annotation is inspect.Parameter.empty else parameter.annotation
        kind = KINDS.get(said or NAMED.get(name, ""))
        if kind is not None and not kind[0](value):
            raise GraphError(f"{primitive.name}: {name} must be {kind[1]}; got {str(value)[:80]}")
    try:
        return primitive.result_types(types, params)
    except Error:
        raise
    except Exception as fault:
        raise GraphError(
            f"{primitive.name}: its type rule must accept the operands and parameters; got "
            f"{', '.join(map(str, types))} and {str(dict(params))[:80]}: {fault}"
        ) from None


@cache
def _signature(primitive: Primitive) -> inspect.Signature:
    return inspect.signature(primitive.type_rule)


def _listed(bound: inspect.BoundArguments) -> list[tuple[str, Any]]:
    """The arguments by name, including those in `**params`."""
    found: list[tuple[str, Any]] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found += value.items()
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            found += [(name, each) for each in value]
        else:
            found.append((name, value))
    return found
