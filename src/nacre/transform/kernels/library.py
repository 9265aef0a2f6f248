"""Functions of Nacre, and of `math` and NumPy by their names, in kernels: their graphs become expressions."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial, reduce
from types import FunctionType
from typing import Any, Final

import numpy as np

from nacre.base.dtypes import float64
from nacre.base.errors import Error
from nacre.base.types import TensorType
from nacre.interpret.stage import derived
from nacre.ir.graph import Graph
from nacre.ir.primitive import Element
from nacre.kernel.ast import Let
from nacre.kernel.python.functions import COMPOSED
from nacre.kernel.python.refusal import Refused
from nacre.kernel.python.scalars import WEAK_FLOAT, WEAK_INT, Scalar, ScalarType, common, converted, number
from nacre.ops.control import as_lets
from nacre.trace.value import Value

OF_FLOATS: Final = ("hypot", "logaddexp", "nextafter", "sinc")
Fresh = Callable[[str], str]


def applied(object: Any, args: Sequence[Scalar], fresh: Fresh, node: ast.AST) -> tuple[Sequence[Let], Scalar] | None:
    """The names that a function of numbers is made of, and its value; None for an object that is no such function.

    Raises Refused for numbers of which the function has no value.
    """
    name = str(getattr(object, "__name__", ""))
    if isinstance(object, FunctionType) and str(object.__module__).partition(".")[0] == "nacre":
        return _composed(object, args, fresh, node)
    of_library = getattr(sys.modules["nacre"], name, None)
    if name in COMPOSED["numpy"] and getattr(np, name) is object:
        if name in OF_FLOATS:
            args = [a if a.dtype.is_float else converted(a, ScalarType(float64), node) for a in args]
        return _composed(of_library, args, fresh, node)
    if name in COMPOSED["math"] and getattr(math, name) is object:
        if args and all(a.value is not None for a in args):
            return [], number(object(*(a.value for a in args)))
        found = _composed(of_library, [converted(a, ScalarType(float64), node) for a in args], fresh, node)
        return None if found is None else (found[0], Scalar(found[1].expr, WEAK_FLOAT))
    return None


def _composed(f: Any, args: Sequence[Scalar], fresh: Fresh, node: ast.AST) -> tuple[Sequence[Let], Scalar] | None:
    """A function of tensors without axes; numbers of Python that are known are given as they are."""
    given = _typed(args, node)
    name = f.__name__

    def graph(*xs: Value) -> list[Value]:
        """What the function does to the numbers that are not known."""
        rest = iter(xs)
        found = f(*(a.value if a.value is not None else next(rest) for a in given))
        return [found] if isinstance(found, Value) else []

    unknown = [a for a in given if a.value is None]
    try:
        made = derived(graph, [TensorType((), a.dtype) for a in unknown], name)
    except Error as fault:
        raise Refused(node, f"{name} must have numbers that it is defined for", "convert them", str(fault)) from None
    except TypeError as fault:
        raise Refused(node, f"{name} must have arguments that fit", "pass numbers in order", str(fault)) from None
    if not _is_of_elements(made):
        return None
    lets, (e,) = as_lets(made, [a.expr for a in unknown], lambda k: fresh(f"{name}_part"))
    return lets, Scalar(e, ScalarType(e.dtype))


def _typed(args: Sequence[Scalar], node: ast.AST) -> list[Scalar]:
    """The arguments, where those of Python that are not known have the dtype that they take beside the others."""
    strong = [a.type for a in args if not a.type.weak]
    if not strong and all(a.value is not None for a in args):
        return [Scalar(a.expr, a.type) for a in args]
    found: list[Scalar] = []
    for a in args:
        if a.type.weak and a.value is None:
            kind = reduce(partial(common, node=node), strong, WEAK_INT if a.type == WEAK_INT else WEAK_FLOAT)
            a = converted(a, ScalarType(kind.dtype), node)
        found.append(a)
    return found


def _is_of_elements(graph: Graph) -> bool:
    """Whether a graph has one result, and is made of operations on elements."""
    return len(graph.outputs) == 1 and all(
        isinstance(e.primitive.lowering, Element) and len(e.outputs) == 1 and e.outputs[0].type.rank == 0
        for e in graph.equations
    )
