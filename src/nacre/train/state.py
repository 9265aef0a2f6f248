"""A training's state as tensors by name and a JSON document, and back, with every bit, tuple and NaN preserved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base.errors import ArgumentError, StateError
from nacre.nn.module import Module
from nacre.optim.group import plain
from nacre.trace.value import Value, stripped
from nacre.trace.variable import Variable

Tensors = dict[str, Any]


def packed(state: Any, name: str, tensors: Tensors) -> Any:
    """A state as a JSON document; its tensors go into `tensors` under names that begin with `name`.

    A state consists of dicts, lists, tuples, tensors, arrays, strings, numbers, bools and None.  Raises ArgumentError
    for anything else.

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
    raise ArgumentError(
        "checkpoint: a state must consist of dicts, lists, tuples, tensors, strings, numbers and None; got "
        f"{type(state).__name__} as {name}; leave it out of state_dict, or convert it"
    )


def unpacked(document: Any, tensors: Mapping[str, Any]) -> Any:
    """The inverse of `packed`.  Raises StateError for a document that `packed` cannot have made.

    >>> unpacked({"tuple": [1, {"float": "nan"}]}, {})
    (1, nan)
    """
    if document is None or isinstance(document, bool | int | float | str):
        return document
    if isinstance(document, list):
        return [unpacked(v, tensors) for v in cast("list[Any]", document)]
    if isinstance(document, dict) and len(cast("dict[str, Any]", document)) == 1:
        ((kind, content),) = cast("dict[str, Any]", document).items()
        if kind == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if kind == "tensor" and content in tensors:
            return tensors[content]
        if kind == "tuple" and isinstance(content, list):
            return tuple(unpacked(v, tensors) for v in cast("list[Any]", content))
        if kind == "dict" and isinstance(content, list):
            return {unpacked(k, tensors): unpacked(v, tensors) for k, v in cast("list[list[Any]]", content)}
    shown = str(cast("Any", document))[:60]
    raise StateError(f"checkpoint: the state does not have the form of this version; got {shown!r}")


# ---- the form of a saved training

COUNT = 1 << 63  # limit of counts


def is_count(value: object) -> bool:
    """Whether a value is a non-negative integer."""
    return type(value) is int and 0 <= value < COUNT


def is_number(value: object) -> bool:
    """Whether a value is a number that converts to float."""
    return type(value) is float or (type(value) is int and -COUNT <= value < COUNT)


def is_named(value: object, *kinds: type) -> bool:
    """Whether a value is a dict with string keys, and with values of the given kinds if there are any."""
    if not isinstance(value, dict):
        return False
    entries = cast("dict[object, object]", value)
    return all(isinstance(k, str) for k in entries) and (
        not kinds or all(isinstance(v, kinds) for v in entries.values())
    )


def _is_plain(value: object) -> bool:
    """Whether a value is a number, a string, a bool, None, or a list of these."""
    if isinstance(value, list):
        return all(map(_is_plain, cast("list[object]", value)))
    return (
        value is None
        or isinstance(value, bool | str)
        or is_number(value)
        or (isinstance(value, Value) and value.type.shape == ())
    )


def _is_row(value: object) -> bool:
    """Whether a value is the row of an epoch."""
    if not is_named(value):
        return False
    row = cast("dict[str, object]", value)
    return is_count(row.get("epoch")) and is_count(row.get("step")) and all(map(_is_plain, row.values()))


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and len(cast("tuple[object, ...]", value)) == 2
        and all(map(is_number, cast("tuple[object, ...]", value)))
    )


def _all(value: object, kind: type, fits: Callable[[object], bool]) -> bool:
    """Whether a value is a list, or a dict with string keys, whose entries all fit."""
    if kind is list:
        return isinstance(value, list) and all(map(fits, cast("list[object]", value)))
    return is_named(value) and all(map(fits, cast("dict[str, object]", value).values()))


def _is_unsaved_state(value: object) -> bool:
    return (
        is_named(value)
        and set(cast("dict[str, object]", value)) == {"variables", "gradients"}
        and all(is_named(v, Value) for v in cast("dict[str, object]", value).values())
    )


FORM: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys(("epochs", "updates", "batches"), ("a count", is_count)),
    **dict.fromkeys(("passed", "stopped"), ("True or False", lambda v: isinstance(v, bool))),
    **dict.fromkeys(("settings", "notes"), ("plain values by name", lambda v: _all(v, dict, _is_plain))),
    "means": ("pairs of numbers by name", lambda v: _all(v, dict, _is_pair)),
    "rates": ("numbers by name", lambda v: _all(v, dict, is_number)),
    "history": ("rows by name with epoch and step", lambda v: _all(v, list, _is_row)),
    "model": ("variables and gradients by name", _is_unsaved_state),
    "optimizer": ("a state by name", lambda v: isinstance(v, dict)),
    "schedules": ("a list of states by name", lambda v: _all(v, list, is_named)),
    "random": ("a tensor", lambda v: isinstance(v, Value)),
    **dict.fromkeys(("watch", "also", "writers"), ("states by name", is_named)),
    "place": ("a loader's place", lambda _: True),
}  # fmt: skip


def require_form(state: Mapping[str, Any], path: object) -> None:
    """Raise StateError for a state that does not have the form that this version writes."""
    wrong = [
        f"{name} is {state[name]!r:.60}, not {what}" if name in state else f"it has no {name}"
        for name, (what, fits) in FORM.items()
        if name not in state or not fits(state[name])
    ]
    if not wrong and len(state["history"]) != state["epochs"]:
        wrong = [f"it has {len(state['history'])} rows of {state['epochs']} epochs"]
    if wrong:
        raise StateError(
            f"checkpoint: the state in {path} does not have the form of this version: {'; '.join(wrong)}; read it "
            "with the Nacre version that wrote it, or begin anew in another folder"
        )


def chosen(optimizer: Any) -> dict[str, Any]:
    """The settings that an optimiser was made with, by name, and where those of a group differ, by its number."""
    defaults: Mapping[str, Any] = getattr(optimizer, "defaults", {})
    found = {k: plain(v) for k, v in defaults.items()}
    groups: list[Any] = getattr(optimizer, "param_groups", [])
    for at, group in enumerate(groups):
        given = {k: plain(group.get("initial_lr", v) if k == "lr" else v) for k, v in group.items() if k in defaults}
        found |= {f"{k} of group {at}": v for k, v in given.items() if v != found[k]}
    return {k: list(cast("Any", v)) if isinstance(v, tuple) else v for k, v in found.items()}


# ---- a model's state outside its state dict


def named_variables(model: Module) -> dict[str, Variable]:
    """All variables of a model, each once, with buffers that are not persistent and plain variables."""
    found: dict[str, Variable] = {}
    seen: set[int] = set()
    for path, module in model.named_modules():
        for name, value in vars(module).copy().items():
            if isinstance(value, Variable) and id(value) not in seen:
                seen.add(id(value))
                found[f"{path}.{name}" if path else name] = value
    return found


def unsaved_state(model: Module) -> dict[str, Any]:
    """The variables and gradients that a resumed training needs and that the model's state dict lacks."""
    listed, variables = model.state_dict(), named_variables(model)
    return {
        "variables": {k: stripped(v.value) for k, v in variables.items() if k not in listed},
        "gradients": {k: stripped(v.gradient) for k, v in variables.items() if v.gradient is not None},
    }


def restore_unsaved_state(model: Module, saved: Mapping[str, Any]) -> None:
    """Restore the result of `unsaved_state`."""
    variables = named_variables(model)
    unknown = sorted({*saved["variables"], *saved["gradients"]} - set(variables))
    if unknown:
        raise StateError(f"checkpoint: the model has no variables {unknown}; the checkpoint has them")
    wrong = sorted(k for k, v in saved["gradients"].items() if v.type.shape != variables[k].shape)
    if wrong:
        raise StateError(f"checkpoint: gradients must have the shapes of their variables; those of {wrong} differ")
    for name, value in saved["variables"].items():
        variables[name].assign(value)
    for name, variable in variables.items():
        variable.gradient = saved["gradients"].get(name)
