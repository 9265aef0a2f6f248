"""Checks that a trace leaves nothing behind: no traced values, no changes to copies of its arguments."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, cast

import numpy as np

from nacre.base import tree
from nacre.base.errors import ArgumentError, GradientError, TraceError, explain
from nacre.interpret.tape import require_no_leaf
from nacre.trace.guards import attribute_changes, reported
from nacre.trace.traced import contents, find_traced, shared
from nacre.trace.value import Value
from nacre.trace.variable import Leaf

Opened = tuple[list[Any], Hashable] | None


def require_plain(name: str, leaf: Any) -> None:
    """Raise TraceError if a result that is not a tensor contains a traced tensor, which has no numbers."""
    found = find_traced(leaf)
    if found is not None:
        raise TraceError(
            explain(
                f"{name}: results must be tensors, or dataclasses, tuples, lists and dicts of them; got a "
                f"{type(leaf).__name__} that holds a traced tensor of type {found.type}",
                "class Output:\n    def __init__(self, y): self.y = y\n@nc.jit\ndef f(x):\n    return Output(x * 2)",
                "Each call creates the results of a compiled function again, from the tensors in them.",
                "@dataclass\nclass Output:\n    y: nc.Tensor\n@nc.jit\ndef f(x):\n    return Output(x * 2)",
            )
        )


def require_no_leaves(name: str, arguments: Sequence[Value], results: Sequence[Value]) -> None:
    """Raise GradientError for an argument that `requires_grad_` has made a leaf, and for a leaf among the results.

    A call would leave the caller's tensor, and its `grad`, as they are.
    """
    for x in arguments:
        if isinstance(x.node, Leaf):
            raise GradientError(
                explain(
                    f"requires_grad_: compiled code ({name}) must not change an argument; got one of type {x.type}",
                    "@nc.jit\ndef f(x):\n    x.requires_grad_()\n    error(x).backward()\n    return x.grad",
                    "A call runs without Python: the tensor of the caller would get neither requires_grad nor a grad.",
                    "@nc.jit\ndef f(x):\n    x = x.detach().requires_grad_()      # a tensor of the function's own\n"
                    "    error(x).backward()\n    return x.grad",
                )
            )
    for y in results:
        if isinstance(y.node, Leaf) and y.node.owner is None:
            raise GradientError(
                explain(
                    f"{name}: results of compiled code must not be leaves made there with requires_grad_; got one of "
                    f"type {y.type}",
                    "@nc.jit\ndef f(x):\n    x = x.detach().requires_grad_()\n    error(x).backward()\n    return x",
                    "A call returns numbers: its result would have neither requires_grad nor the grad.",
                    "    return x.detach(), x.grad",
                )
            )


def require_nothing_kept(name: str, function: Any) -> None:
    """Raise TraceError if a module's attribute, or a variable of the function, holds a value of an ended trace.

    The attribute is restored first.
    """
    left = [k for k in attribute_changes() if find_traced(getattr(k.owner(), k.name, None)) is not None]
    for k in reversed(left):
        setattr(k.owner(), k.name, k.before)
    for k in left:
        attribute = f"{type(k.owner()).__name__}.{k.name}"
        raise TraceError(
            explain(
                f"{name}: attributes must not hold traced tensors when the function ends; got {attribute}, set "
                f"at {k.line}",
                f"def forward(self, x):\n    self.{k.name} = ...\n    return x",
                "A compiled function runs without Python: calls would not set the attribute, and its traced value "
                "has no numbers.",
                f"self.register_buffer({k.name!r}, nc.zeros(...))    # in __init__; assigning keeps its type\n\n"
                f"def forward(self, x):\n    return x, ...    # or return it, or `del self.{k.name}` after "
                "its last use",
            )
        )

    owners = reported()[::-1]  # the inner ones first
    seen = set(map(id, owners))
    for place, value in _places(function, owners):
        found = find_traced(value, ended=True, seen=seen)
        if found is not None:
            raise TraceError(
                explain(
                    f"{name}: variables must not hold traced tensors when the function ends; got {place}, which "
                    f"holds one of type {found.type}",
                    "kept = []\n@nc.jit\ndef f(x):\n    kept.append(x * 2)\n    return x\nf(x); kept[0] + 1",
                    "While a function is traced, its values are placeholders without numbers; they mean nothing "
                    "outside, and later calls add none.",
                    "@nc.jit\ndef f(x):\n    return x, x * 2\nx, doubled = f(x); doubled + 1",
                )
            )


def _places(function: Any, owners: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The places where a traced function could have stored values, with their names."""
    for owner in owners:
        for hook in getattr(owner, "_hooks", ()):
            yield from _around(hook.call)
        yield from _around(getattr(cast("type[Any]", type(owner)), "forward", None))
        yield from _attributes(owner)
    yield from _around(function)


def _attributes(x: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, and the containers among those of its class."""
    cls = cast("type[Any]", type(x))
    value = getattr(x, "__dict__", {}).items()  # `kept` reports tensors themselves; x may also represent another object
    yield from ((f"{cls.__name__}.{k}", v) for k, v in value if not isinstance(v, Value))
    yield from ((f"a container of the class {cls.__name__}", v) for v in shared(cls))


def _around(function: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of a method's object, and the objects that a function and its callees refer to."""
    while isinstance(function, partial):
        yield "the arguments of a partial", (function.args, function.keywords)
        function = function.func
    if isinstance(function, MethodType):
        yield from _attributes(function.__self__)
    elif not isinstance(function, FunctionType):
        yield from _attributes(function)
    for place, value in _named(function):
        yield place, value
        if isinstance(value, FunctionType):
            yield from _named(value)


def _named(function: Any) -> list[tuple[str, Any]]:
    """The closure and global names that a function's code, and its inner functions, use."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return []
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    found = [(name, value) for name, cell in cells for value in contents(cell)]
    known: dict[str, Any] = function.__globals__
    codes = [code]
    for inner in codes:
        found += [(name, known[name]) for name in inner.co_names if name in known]
        codes += [c for c in inner.co_consts if isinstance(c, CodeType)]
    return found


def require_unchanged(name: str, containers: Sequence[Any], before: Sequence[Opened], answer: Any) -> None:
    """Raise TraceError if a list, dict or dataclass among the arguments was changed and is not returned."""
    returned: set[int] | None = None
    for value, was in zip(containers, before, strict=True):
        now = tree.opened(value)
        if (
            now is None
            or was is None
            or (now[1] == was[1] and len(now[0]) == len(was[0]) and all(map(_same, now[0], was[0])))
        ):
            continue
        returned = _containers(answer) if returned is None else returned
        if id(value) not in returned:
            raise TraceError(
                explain(
                    f"{name}: arguments must not be changed, unless they are returned; got a "
                    f"{type(value).__name__} that the function changes",
                    "@nc.jit\ndef f(state, x):\n    state['sum'] = state['sum'] + x\n    return x\nf(state, x)",
                    "Inside, a container of tensors is a copy with placeholders; changes to it are lost.",
                    "@nc.jit\ndef f(state, x):\n    return x, {**state, 'sum': state['sum'] + x}\n"
                    "y, state = f(state, x)",
                )
            )


def require_changeable(name: str, given: Sequence[Any], changed: Sequence[int], through: bool = True) -> None:
    """Raise an error if arguments that `x[i] = v` changes inside a function cannot change as they do without it.

    Each must be given once; where the change goes through to the caller's tensor, it must be one, and no leaf.
    """
    for k in changed:
        x = given[k]
        if through:
            if not isinstance(x, Value):
                raise ArgumentError(
                    f"{name}: an argument that `x[i] = v` changes must be a tensor; got a NumPy array; "
                    "pass nc.asarray(x), or return the result"
                )
            require_no_leaf(x)
        if isinstance(x, Value | np.ndarray) and sum(x is other for other in given) > 1:
            raise ArgumentError(
                f"{name}: an argument that `x[i] = v` changes must be given once; the same tensor "
                "occurs twice; pass x.detach() for the other one"
            )


def _same(a: object, b: object) -> bool:
    return a is b


def _containers(answer: Any) -> set[int]:
    """The identities of the containers in a result."""
    found, queue = {id(answer)}, [answer]
    while queue:
        for child in (tree.opened(queue.pop()) or ((), None))[0]:
            found.add(id(child))
            queue.append(child)
    return found
