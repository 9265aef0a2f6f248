"""One call of a function with a derivative of its own: its arguments as operands, and the trees of its results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nacre.base import tree
from nacre.base.errors import ArgumentError
from nacre.base.types import TensorType, unlike
from nacre.interpret.custom.call import TRACES, RuleCall, found_again
from nacre.interpret.forward import zeros
from nacre.interpret.precision.functions import matched
from nacre.interpret.stage import Trace
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from nacre.transform.arguments import as_value, require_results
from nacre.transform.reasons import paths

Function = Callable[..., Any]
NESTED: Final = 64  # calls of one function within the traces of its rules


def positional(f: Function, operation: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments by position, those given by name and defaults included."""
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except ValueError:  # a function without a signature
        if kwargs:
            raise ArgumentError(
                f"{operation}: arguments of {name}, which has no signature, must be positional; got {sorted(kwargs)}"
            ) from None
        return list(args)
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentError(
            f"{operation}: arguments of {name} must not be keyword-only, because its rule gets them by position; got "
            f"{sorted(bound.kwargs)}; leave the star out of its signature"
        )
    return list(bound.args)


class Given:
    """The arguments of a call as one tree; its tensors, arrays and variables are operands.

    `places` are the positions among the operands of those that the rule differentiates.
    """

    def __init__(self, operation: str, args: Sequence[Any], left_out: Sequence[int]) -> None:
        self.args, self.left_out = list(args), left_out
        self.leaves, self.structure = tree.flatten(self.args)
        self.at = [k for k, x in enumerate(self.leaves) if isinstance(x, Value | Variable | np.ndarray | np.generic)]
        self.values = [as_value(self.leaves[k], operation) for k in self.at]
        owners = [n for n, child in enumerate(self.structure.children) for _ in range(child.leaves)]
        self.moving = [
            x.type.dtype.is_differentiable and owners[k] not in left_out
            for k, x in zip(self.at, self.values, strict=True)
        ]
        self.places = tuple(k for k, moves in enumerate(self.moving) if moves)

    @property
    def types(self) -> list[TensorType]:
        """The types of the operands."""
        return [x.type for x in self.values]

    def filled(self, values: Sequence[Value]) -> list[Any]:
        """The arguments with other tensors."""
        leaves = list(self.leaves)
        for k, x in zip(self.at, values, strict=True):
            leaves[k] = x
        return tree.replaced(self.args, iter(leaves), [])

    def tangents(self, given: Sequence[Value]) -> tuple[Any, ...]:
        """The arguments' trees of tangents: 0.0 for Python numbers, None for other leaves without a tangent."""
        rest, at = iter(given), iter(self.moving)
        places = set(self.at)
        leaves: list[Any] = []
        for k, leaf in enumerate(self.leaves):
            if k in places:
                leaves.append(next(rest) if next(at) else None)
            else:
                leaves.append(0.0 if isinstance(leaf, float) else None)
        whole = tree.unflatten(self.structure, leaves)
        return tuple(x for n, x in enumerate(whole) if n not in self.left_out)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """The arguments that the rule does not differentiate, and the others."""
        return [args[n] for n in self.left_out], tuple(x for n, x in enumerate(args) if n not in self.left_out)

    def name(self, f: Function, n: int) -> str:
        """The name of an argument."""
        try:
            known = list(inspect.signature(f).parameters)
        except ValueError:
            known = []
        return known[n] if n < len(known) else f"argument {n}"

    def names(self, f: Function) -> list[str]:
        """The names of all leaves, in order."""
        return [path for n, child in enumerate(self.structure.children) for path in paths(self.name(f, n), child)]

    def like(self, other: Given) -> bool:
        """Whether a call with these arguments has the same graphs as one with others."""
        if self.structure != other.structure or self.at != other.at or self.types != other.types:
            return False
        ours = (x for k, x in enumerate(self.leaves) if k not in self.at)
        theirs = (x for k, x in enumerate(other.leaves) if k not in other.at)
        return all(x is y or (type(x) is type(y) and _same(x, y)) for x, y in zip(ours, theirs, strict=True))


def _same(x: Any, y: Any) -> bool:
    """Whether two constants are equal."""
    return isinstance(x, bool | int | float | str | bytes) and repr(x) == repr(y)


class CustomCall(RuleCall):
    """A call of a function of trees whose derivative is a rule."""

    def __init__(self, operation: str, primitive: Primitive, name: str, f: Function, given: Given) -> None:
        super().__init__(operation, primitive, name, given.values, given.places)
        self.f, self.given = f, given
        self.structure = tree.LEAF
        self.types: tuple[TensorType, ...] = ()

    def flat(self, what: str, found: Any) -> tuple[list[Value], tree.Structure]:
        """The leaves of a result."""
        leaves, structure = tree.flatten(found)
        require_results(self.operation, leaves)
        return [as_value(leaf, f"{self.operation}: {what} of {self.name}") for leaf in leaves], structure

    def require(self, what: str, found: Any) -> list[Value]:
        """The leaves of what a rule returns for the result, which must have its structure and types."""
        values, structure = self.flat(what, found)
        if structure != self.structure:
            raise ArgumentError(
                f"{self.operation}: {what} of {self.name} must have structure {self.structure}; got {structure}"
            )
        return [
            self.leaf(what, path, x, wanted)
            for path, x, wanted in zip(paths("", structure), values, self.types, strict=True)
        ]

    def leaf(self, what: str, path: str, given: Any, type: TensorType) -> Value:
        """A result, tangent or cotangent, which must have a type; None is zero."""
        if given is None:
            return zeros(type)
        named = f"{self.operation}: {what} of {self.name}" + (f", at {path}," if path else "")
        x = matched(as_value(given, named.rstrip(",")), type.dtype)
        if x.type is not type:
            raise unlike(named, type, x.type)
        return x

    def run(self, traces: Callable[[], Sequence[Trace]], arrange: Callable[..., tuple[Graph, ...]]) -> Any:
        """The result of the call, with its derivative; `traces` and `arrange` give the rule (see `settle`)."""

        def primal(values: Sequence[Value]) -> list[Value]:
            found, self.structure = self.flat("the result", self.f(*self.given.filled(values)))
            return found

        traced = self.trace(primal, self.given.types)
        self.types = traced.graph.output_types
        self.settle(traced, traces, arrange)
        return self.result(self.given.values)

    def result(self, values: Sequence[Value]) -> Any:
        """The tree of results for operands."""
        return tree.unflatten(self.structure, self.bind(values))


def outer_call(f: Function, given: Given) -> CustomCall | None:
    """The call of a function, with arguments like these, whose rule is being traced."""
    own = [c for c in TRACES.calls if isinstance(c, CustomCall) and c.f is f]
    found: Any = found_again(own, lambda call: call.given.like(given), NESTED)
    return found
