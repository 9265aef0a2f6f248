"""A training's state as tensors by name and a JSON document, and back: every bit, tuples as tuples, NaN as NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base.errors import ArgumentError, StateError
from nacre.nn.module import Module
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable

Tensors = dict[str, Any]


def packed(state: Any, name: str, tensors: Tensors) -> Any:
    """A state as a JSON document; its tensors go into `tensors` under names that begin with `name`.

    A state is made of dicts, lists, tuples, tensors, arrays, texts, numbers, bools and None.

    >>> tensors = {}
    >>> packed({"count": 3, "rates": (0.5, float("inf"))}, "schedule", tensors), tensors
    ({'dict': [['count', 3], ['rates', {'tuple': [0.5, {'float': 'inf'}]}]]}, {})
    """
    if state is None or isinstance(state, bool | int | str):
        return state
    if isinstance(state, float):
        return float(state) if math.isfinite(state) else {"float": str(float(state))}
    if isinstance(state, Value | Variable | np.ndarray | np.generic):
        tensors[name] = stripped(as_tensor(cast("Any", state)))
        return {"tensor": name}
    if isinstance(state, Mapping):
        entries = cast("Mapping[Any, Any]", state)
        return {"dict": [[packed(k, name, tensors), packed(v, f"{name}.{k}", tensors)] for k, v in entries.items()]}
    if isinstance(state, list | tuple):
        parts = [packed(v, f"{name}.{k}", tensors) for k, v in enumerate(cast("list[Any]", state))]
        return parts if isinstance(state, list) else {"tuple": parts}
    raise ArgumentError(f"checkpoint: a state of dicts, lists, tuples, tensors, texts, numbers and None is required; "
                        f"got {type(state).__name__} as {name}; leave it out of state_dict, or turn it into these")


def unpacked(document: Any, tensors: Mapping[str, Any]) -> Any:
    """What `packed` was given.  Raises StateError for a document that it cannot have made.

    >>> unpacked({"tuple": [1, {"float": "nan"}]}, {})
    (1, nan)
    """
    if document is None or isinstance(document, bool | int | float | str):
        return document
    if isinstance(document, list):
        return [unpacked(v, tensors) for v in cast("list[Any]", document)]
    if isinstance(document, dict) and len(cast("dict[str, Any]", document)) == 1:
        ((kind, held),) = cast("dict[str, Any]", document).items()
        if kind == "float" and held in ("inf", "-inf", "nan"):
            return float(held)
        if kind == "tensor" and held in tensors:
            return tensors[held]
        if kind == "tuple" and isinstance(held, list):
            return tuple(unpacked(v, tensors) for v in cast("list[Any]", held))
        if kind == "dict" and isinstance(held, list):
            return {unpacked(k, tensors): unpacked(v, tensors) for k, v in cast("list[list[Any]]", held)}
    shown = str(cast("Any", document))[:60]
    raise StateError(f"checkpoint: a state as this version writes it is required; got {shown!r}")


# ---- what a model holds beside its state dict


def named_variables(model: Module) -> dict[str, Variable]:
    """All variables of a model, buffers that are not persistent and plain variables included, each once."""
    found: dict[str, Variable] = {}
    seen: set[int] = set()
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Variable) and id(value) not in seen:
                seen.add(id(value))
                found[f"{path}.{name}" if path else name] = value
    return found


def beside(model: Module) -> dict[str, Any]:
    """What a resumed training needs of a model and its state dict lacks: other variables, gradients."""
    listed, variables = model.state_dict(), named_variables(model)
    return {
        "variables": {k: stripped(v.value) for k, v in variables.items() if k not in listed},
        "gradients": {k: stripped(v.gradient) for k, v in variables.items() if v.gradient is not None},
    }


def put_beside(model: Module, saved: Mapping[str, Any]) -> None:
    """Take what `beside` gave."""
    variables = named_variables(model)
    unknown = sorted({*saved["variables"], *saved["gradients"]} - set(variables))
    if unknown:
        raise StateError(f"checkpoint: a model with the variables {unknown} is required; it has none of these names")
    for name, value in saved["variables"].items():
        variables[name].assign(value)
    for name, variable in variables.items():
        variable.gradient = saved["gradients"].get(name)
