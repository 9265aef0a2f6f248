"""The signature of a call: the structure of its arguments, their types and plain values, and the ambient state."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from nacre.base import state, tree
from nacre.base.dims import Dim
from nacre.base.errors import TraceError, explain
from nacre.base.exact import Same, exact_key
from nacre.base.types import TensorType
from nacre.interpret.evaluate import from_numpy
from nacre.trace.value import DonatedValue, Value
from nacre.trace.variable import Variable
from nacre.transform.concrete import Static
from nacre.transform.dynamic import dynamic_type
from nacre.transform.sizes import Call


class Signatures:
    """The signatures of the calls of a function; `parameters` are needed for names of arguments."""

    def __init__(
        self, name: str, parameters: inspect.Signature | None, dynamic_shapes: Mapping[str, Mapping[int, Dim]]
    ) -> None:
        self.name, self.parameters, self.dynamic_shapes = name, parameters, dynamic_shapes

    def of(self, args: Any, kwargs: Any) -> Call:
        """A call with its tensors, its signature, and the types of the tensors."""
        leaves, structure = tree.flatten((args, kwargs))
        names = self.leaf_names(args, kwargs) if self.parameters is not None else []
        values: list[Value] = []
        types: list[TensorType] = []
        key: list[Hashable] = []
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, np.ndarray):
                leaf = from_numpy(leaf)
            if isinstance(leaf, Value):
                if isinstance(leaf.content, DonatedValue):
                    leaf.content.process()
                type = leaf.type
                if self.dynamic_shapes:
                    type = dynamic_type(self.name, names[k], type, self.dynamic_shapes.get(names[k]))
                values.append(leaf)
                types.append(type)
                key.append(type)
            else:
                key.append(_static(leaf, self.name))
        return Call(values, (structure, tuple(key), state.signature()), types, args, kwargs)

    def leaf_names(self, args: Any, kwargs: Any) -> list[str]:
        """The parameter of each leaf of the arguments; all further values have that of `*xs` or `**named`."""
        assert self.parameters is not None
        self.parameters.bind(*args, **kwargs)
        listed = self.parameters.parameters.values()
        of = {p.kind: p.name for p in listed if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        placed = [p.name for p in listed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        named = {p.name for p in listed if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        names: list[str] = []
        for k, a in enumerate(args):
            name = placed[k] if k < len(placed) else of[inspect.Parameter.VAR_POSITIONAL]
            names += [name] * len(tree.flatten(a)[0])
        for name, a in kwargs.items():
            name = name if name in named else of[inspect.Parameter.VAR_KEYWORD]
            names += [name] * len(tree.flatten(a)[0])
        return names


def _static(leaf: Any, name: str) -> Hashable:
    if isinstance(leaf, Variable):
        return Static(Same(leaf), f"variable {leaf.name or leaf.number} of {leaf.type}")
    try:
        hash(leaf)
    except TypeError:
        raise TraceError(
            explain(
                f"{name}: arguments must be tensors, arrays or hashable Python values; got {type(leaf).__name__}",
                "step(data_loader)",
                "The arguments are part of a compiled function's signature, so they must have "
                "a type (tensors) or be comparable (numbers, strings, tuples).",
                "for x, y in data_loader:\n    step(x, y)",
            )
        ) from None
    return Static(exact_key(leaf))
