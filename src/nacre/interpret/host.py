"""Host calls: how a Python function is called on the numbers of tensors, at once or by a program.

There is no derivative: an error is raised where one is wanted.  There is no batching either.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from nacre.base import tree
from nacre.base.conversion import element
from nacre.base.dims import evaluate
from nacre.base.errors import ArgumentError, GradientError, KindError, ShapeError, TraceError
from nacre.base.records import dataclass
from nacre.base.state import without_autocast
from nacre.base.types import TensorType, unlike
from nacre.interpret.batch import BATCHED
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.interpret.forward import FORWARD, is_empty
from nacre.interpret.pullback import REVERSE, Positions, Rule
from nacre.ir.primitive import Host, Primitive, register_rule
from nacre.ops.host import HostFunction, host_call_p
from nacre.runtime.buffer import allocate
from nacre.trace.bind import bind
from nacre.trace.value import Value, is_concrete, make
from nacre.trace.variable import Variable

Params = Mapping[str, Any]


# ---- calls


def call_now(
    primitive: Primitive, params: Params, inputs: Sequence[Value], results: Sequence[TensorType]
) -> tuple[Value, ...]:
    """The results of an equation on tensors with numbers, each of its declared type."""
    assert isinstance(primitive.lowering, Host)
    pure = primitive.lowering.function
    if pure is None:
        return _call_user(params["function"], inputs, results)
    found = zip(pure(*map(to_numpy, inputs), **params), results, strict=True)
    return tuple(from_numpy(np.asarray(y, t.dtype.numpy)) for y, t in found)


def _call_user(function: HostFunction, inputs: Sequence[Value], results: Sequence[TensorType]) -> tuple[Value, ...]:
    leaves = list(function.leaves)
    for k, x in zip(function.places, inputs, strict=True):
        leaves[k] = make(x.type, x.content, x.layout)
    return _checked(function, function.function(*tree.unflatten(function.arguments, leaves)), results)


def _checked(function: HostFunction, found: Any, results: Sequence[TensorType]) -> tuple[Value, ...]:
    leaves, structure = tree.flatten(found)
    if structure != function.structure:
        raise ArgumentError(
            f"host_call: {function} must return what `types` declares, of structure {function.structure}; got "
            f"{structure}; return None where it declares nothing"
        )
    return tuple(_result(function, k, leaf, type) for k, (leaf, type) in enumerate(zip(leaves, results, strict=True)))


def _result(function: HostFunction, number: int, given: Any, wanted: TensorType) -> Value:
    """A result as a tensor of the declared type; a Python number takes the declared dtype."""
    what = f"host_call: result {number} of {function}"
    if not wanted.static:
        raise ShapeError(f"{what} must have known sizes; got {wanted}; use sizes of the arguments of the function")
    if isinstance(given, Variable):
        given = given.value
    if isinstance(given, bool | int | float):
        given = element(given, wanted.dtype, what)
    if isinstance(given, np.ndarray | np.generic):
        given = from_numpy(np.asarray(cast("Any", given)))
    if not isinstance(given, Value):
        raise KindError(f"{what} must be a tensor, an array or a number; got {type(given).__name__}; return {wanted}")
    if not is_concrete(given):
        raise TraceError(
            f"{what} must have numbers; got a traced tensor of type {given.type}; compute it from arguments"
        )
    if given.type is not wanted:
        raise unlike(what, wanted, given.type)
    return make(given.type, given.content, given.layout)


@dataclass(frozen=True, eq=False)
class HostLaunch:
    """A host call of a program.  The program calls it with the address of its arguments, see `runtime.host_call`.

    They are the address of this object, those of the operands and of the results, and the values of `symbols`, on which
    sizes depend.
    """

    primitive: Primitive
    params: Params
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    symbols: tuple[str, ...]

    @property
    def label(self) -> str:
        """The primitive, and the function if it is the user's."""
        function: HostFunction | None = self.params.get("function")
        return self.primitive.name if function is None else f"{self.primitive.name} {function.label}"

    def __call__(self, address: int) -> None:
        """Call the function on the operands, and write the results; a user's gets copies, which it may hold."""
        counts = len(self.operands), len(self.results), len(self.symbols)
        words = list((ctypes.c_int64 * (1 + sum(counts))).from_address(address))
        sizes = dict(zip(self.symbols, words[1 + counts[0] + counts[1] :], strict=True))
        given = [(_fixed(t, sizes), at) for t, at in zip(self.operands, words[1:], strict=False)]
        types = [_fixed(t, sizes) for t in self.results]
        lowering = self.primitive.lowering
        if isinstance(lowering, Host) and lowering.function is not None:
            arrays = lowering.function(*[_memory(t, at) for t, at in given], **self.params)
            for y, t, at in zip(arrays, types, words[1 + counts[0] :], strict=False):
                np.copyto(_memory(t, at), y, casting="unsafe")
            return
        operands = [_read(t, at) for t, at in given]
        found = without_autocast(lambda: call_now(self.primitive, self.params, operands, types))
        for y, at in zip(found, words[1 + counts[0] :], strict=False):
            _write(y, at)


def _fixed(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    return type if type.static else type.with_shape([evaluate(n, sizes) for n in type.shape])


def _bytes(type: TensorType) -> int:
    return evaluate(type.nbytes, {})


def _memory(type: TensorType, address: int) -> Any:
    """Memory as an array."""
    count = _bytes(type)
    if not count:
        return np.empty(type.shape, type.dtype.numpy)  # type: ignore[arg-type]
    return np.frombuffer((ctypes.c_char * count).from_address(address), type.dtype.numpy).reshape(type.shape)  # type: ignore[arg-type]


def _read(type: TensorType, address: int) -> Value:
    """A tensor with a copy of memory."""
    buffer = allocate(_bytes(type))
    if _bytes(type):
        ctypes.memmove(buffer.address, address, _bytes(type))
    return make(type, buffer)


def _write(x: Value, address: int) -> None:
    """Copy a tensor's numbers to memory, in row-major order."""
    if not _bytes(x.type):
        return
    if x.layout is None:
        ctypes.memmove(address, x.content.address, _bytes(x.type))
        return
    dense = np.ascontiguousarray(to_numpy(x))
    ctypes.memmove(address, dense.ctypes.data, dense.nbytes)


# ---- transformations


def _differentiable(results: Sequence[TensorType]) -> Positions:
    return tuple(k for k, t in enumerate(results) if t.dtype.is_differentiable and not is_empty(t))


def _refuse(function: HostFunction) -> NoReturn:
    raise GradientError(
        f"host_call: the derivative does not exist; got a gradient through {function}, a Python function; "
        "stop the gradient with x.detach(), or define the operation with nc.primitive, which takes a rule of its "
        "derivative"
    )


def _forward(
    primitive: Primitive, xs: Sequence[Value], ts: Sequence[Value | None], params: Params
) -> tuple[Sequence[Value], list[Value | None]]:
    function: HostFunction = params["function"]
    if _differentiable(function.results) and any(t is not None for t in ts):
        _refuse(function)
    return bind(primitive, *xs, **params), [None] * len(function.results)


def _reverse(primitive: Primitive, params: Params, types: tuple[TensorType, ...], active: Positions) -> Rule | None:
    function: HostFunction = params["function"]
    traced = _differentiable(function.results)

    def make(present: Positions) -> Any:
        """Refuse a cotangent of a result."""
        _refuse(function)

    n, m = len(types), len(function.results)
    return Rule(primitive, params, n, m, n + m, traced, active, make) if traced else None


def _batched(primitive: Primitive, xs: Sequence[Value], mask: Sequence[bool], params: Params, size: Any) -> NoReturn:
    raise ArgumentError(
        f"vmap: a host call has no batching rule; got {params['function']} on a batched tensor; call it outside of "
        "vmap, on the whole batch"
    )


register_rule(host_call_p, FORWARD, _forward)
register_rule(host_call_p, REVERSE, _reverse)
register_rule(host_call_p, BATCHED, _batched)
