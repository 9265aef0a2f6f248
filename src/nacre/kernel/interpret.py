"""The slow reference interpreter: it computes a kernel's results element by element, to the bit.

The iterations of the outer parallel loops run in parallel, as lanes of NumPy arrays.  The statements inside them run in
order, and conditions mask lanes.  Scalar operations are those of `kernel.elementary`, evaluated on arrays; sums follow
`kernel.order`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nacre.base.conversion import element
from nacre.base.dims import evaluate
from nacre.base.dtypes import DType
from nacre.base.errors import ArgumentError, GraphError
from nacre.kernel import elementary
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
    Extent,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    statements,
)
from nacre.kernel.complex.parts import in_parts
from nacre.kernel.dependence import accumulated
from nacre.kernel.elementary.arrays import Arrays
from nacre.kernel.order import NO_INDEX, empty, identity, in_any_order, tree

Array = npt.NDArray[Any]
ARRAYS = Arrays()

COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def operate(op: str, args: Sequence[Array], source: DType, dtype: DType) -> Array:
    """An operation of `kernel.ast.OPERATIONS` on arrays, with the same bits as in compiled code.

    Args:
        args: arrays of one shape; `source` is the dtype of the first (of the second for `select`).
        dtype: the result's dtype.
    """
    lanes = [ARRAYS.operand(a) for a in args]
    if op == "cast":
        result = elementary.convert(ARRAYS, lanes[0], source, dtype)
    elif op == "bitcast":
        result = elementary.bitcast(ARRAYS, lanes[0], source, dtype)
    else:
        result = elementary.apply(ARRAYS, op, lanes, source)
    return np.asarray(result).view(dtype.numpy)


def run(kernel: Kernel, inputs: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
    """The outputs of a kernel for given inputs and values of its symbolic sizes.

    A kernel of complex numbers is run in parts (`kernel.complex`).

    Inputs are arrays of the buffers' shapes in any layout; outputs start as zeros.

    Raises ArgumentError if inputs do not match, GraphError if the kernel reads or writes outside a buffer.
    """
    real = in_parts(kernel)
    if real is not kernel:
        found = run(real, list(map(_parts, inputs)), sizes)
        return [
            y.view(b.dtype.numpy)[..., 0] if b.dtype.is_complex else y
            for b, y in zip(kernel.outputs, found, strict=True)
        ]
    machine = _Machine(sizes)
    for b, x in zip(kernel.inputs, inputs, strict=True):
        shape = machine.shape(b)
        if x.shape != shape or x.dtype != b.dtype.numpy:
            raise ArgumentError(
                f"kernel: {b.name} must have shape {shape} and dtype {b.dtype.name}; got {x.shape} and {x.dtype}"
            )
        machine.memory[b.name] = x
    outputs = [np.zeros(machine.shape(b), b.dtype.numpy) for b in kernel.outputs]
    machine.memory.update((b.name, y) for b, y in zip(kernel.outputs, outputs, strict=True))
    machine.dtypes.update((b.name, b.dtype) for b in kernel.buffers)
    for s in statements(kernel.body):
        if isinstance(s, Accumulate):
            machine.folds.update(dict.fromkeys(s.accumulators, s))
    machine.start(kernel.body)
    return outputs


def _parts(x: Array) -> Array:
    """Complex numbers as real ones along another axis."""
    held: Any = x
    return np.stack((held.real, held.imag), axis=-1) if np.iscomplexobj(x) else x


class _Machine:
    """The state of a run.  Values are arrays with one element for each lane."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.memory: dict[str, Array] = {}
        self.private: dict[str, Array] = {}  # scratch; the first axis is that of the lanes
        self.dtypes: dict[str, DType] = {}
        self.folds: dict[str, Accumulate] = {}
        self.names: dict[str, Array] = {}
        self.indices: dict[str, Array] = {}
        self.active = np.ones(1, np.bool_)

    def shape(self, b: Buffer) -> tuple[int, ...]:
        """The buffer's shape for the sizes given."""
        return tuple(evaluate(s, self.sizes) for s in b.shape)

    def start(self, body: Sequence[Stmt]) -> None:
        """Run a kernel's body, with its outer parallel loops as lanes."""
        body = list(body)
        while body and isinstance(body[0], Let):
            self.statement(body.pop(0))
        loops: list[For] = []
        while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
            loops.append(body[0])
            body = list(body[0].body)
        extents = tuple(evaluate(s.extent, self.sizes) for s in loops)
        lanes = int(np.prod(extents, dtype=np.int64))
        if lanes == 0:
            return
        self.active = np.ones(lanes, np.bool_)
        self.names = {k: np.broadcast_to(v, (lanes,)) for k, v in self.names.items()}
        places = np.unravel_index(np.arange(lanes), extents) if loops else ()
        self.indices = {s.index: i.astype(np.int64) for s, i in zip(loops, places, strict=True)}
        self.block(body)

    # ---- statements

    def block(self, body: Sequence[Stmt]) -> None:
        """Run statements in order."""
        for s in body:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        """Run one statement in all active lanes."""
        match s:
            case Let():
                self.names[s.name] = self.value(s.value)
            case Alloc():
                self.alloc(s.buffer)
            case Store():
                self.store(s)
            case Accumulate():
                self.accumulate(s)
            case For():
                self.loop(s)
            case If():
                holds, before = self.value(s.condition), self.active
                for lanes, body in ((holds, s.body), (~holds, s.orelse)):
                    self.active = before & lanes
                    if self.active.any():
                        self.block(body)
                self.active = before
            case While():
                before = self.active
                while (holds := self.active & self.value(s.condition)).any():
                    self.active = holds
                    self.block(s.body)
                self.active = before
            case _:
                raise GraphError(f"kernel: the statement must be a loop nest; got a call of {s.template}")

    def loop(self, s: For) -> None:
        """Run a loop iteration by iteration; tree sums are computed after the last one."""
        sums = {a: self.folds[a] for a in accumulated(s.body) if self._is_tree(a)}
        values: dict[str, list[Array]] = {a: [] for a in sums}
        for i in range(evaluate(s.extent, self.sizes)):
            for a, fold in sums.items():
                self.private[a][:] = identity(fold.op, self.dtypes[a])
            self.indices[s.index] = np.full(self.active.shape, i, np.int64)
            self.block(s.body)
            for a in sums:
                values[a].append(self.private[a].copy())
        for a, fold in sums.items():
            dtype = self.dtypes[a]
            found = (
                tree(np.stack(values[a]), lambda x, y, d=dtype, op=fold.op: self.combined(op, x, y, d))
                if values[a]
                else np.full(self.active.shape, empty(fold.op, dtype), dtype.numpy)
            )
            self.private[a] = found.copy()

    def _is_tree(self, accumulator: str) -> bool:
        return not in_any_order(self.folds[accumulator].op, self.dtypes[accumulator])

    def alloc(self, b: Buffer) -> None:
        """Allocate a private buffer: zeros, or a reduction's identity."""
        room = np.zeros((*self.active.shape, *self.shape(b)), b.dtype.numpy)
        self.dtypes[b.name] = b.dtype
        fold = self.folds.get(b.name)
        if fold is not None:
            second = fold.accumulators.index(b.name) == 1
            room[:] = NO_INDEX if second else identity(fold.op, b.dtype)
        self.private[b.name] = room

    def store(self, s: Store) -> None:
        """Store the value in the active lanes."""
        v = np.broadcast_to(self.value(s.value), self.active.shape)
        target, place = self.place(s.buffer, s.index)
        if self.active.any():
            target[tuple(p[self.active] for p in place)] = v[self.active]

    def accumulate(self, s: Accumulate) -> None:
        """Combine the values with the accumulators in the active lanes."""
        new = [np.broadcast_to(self.value(v), self.active.shape) for v in s.values]
        old = [self.private[a] for a in s.accumulators]
        dtype = self.dtypes[s.accumulators[0]]
        if len(new) == 2:
            better = self._better(s.op, old, new)
            new = [np.where(better, y, x) for x, y in zip(old, new, strict=True)]
        elif in_any_order(s.op, dtype):
            new = [self.combined(s.op, old[0], new[0], dtype)]
        for a, x, y in zip(s.accumulators, old, new, strict=True):
            self.private[a] = np.where(self.active, y, x)

    def combined(self, op: str, a: Array, b: Array, dtype: DType) -> Array:
        """Two partial results of a reduction combined."""
        return operate(COMBINE[op], [a, b], dtype, dtype)

    def _better(self, op: str, old: Sequence[Array], new: Sequence[Array]) -> Array:
        """The lanes in which the later element is chosen: no element yet, a first NaN, or strictly beyond."""
        a, b = old[0], new[0]
        none = old[1] == NO_INDEX
        beyond = b > a if op == "argmax" else b < a
        nan_a, nan_b = a != a, b != b
        return none | (nan_b & ~nan_a) | (beyond & ~nan_a)

    # ---- expressions

    def value(self, e: Expr) -> Array:
        """The value of an expression in all lanes."""
        return self._value(e, {})

    def _value(self, e: Expr, done: dict[int, Array]) -> Array:
        found = done.get(id(e))
        if found is None:
            found = done[id(e)] = self._compute(e, done)
        return found

    def _compute(self, e: Expr, done: dict[int, Array]) -> Array:
        match e:
            case Const():
                return np.full(self.active.shape, element(e.value, e.dtype), e.dtype.numpy)
            case Extent():
                return np.full(self.active.shape, evaluate(e.size, self.sizes), np.int64)
            case Index():
                return self.indices[e.name]
            case Local():
                return self.names[e.name]
            case Load():
                return self.load(e, done)
            case Apply():
                args = [self._value(a, done) for a in e.args]
                source = e.args[1 if e.op == "select" else 0].dtype
                return operate(e.op, args, source, e.dtype)

    def load(self, e: Load, done: dict[int, Array]) -> Array:
        """The buffer's elements in the active lanes; zeros in the others."""
        source, place = self.place(e.buffer, e.index, done)
        result = np.zeros(self.active.shape, e.dtype.numpy)
        if self.active.any():
            result[self.active] = source[tuple(p[self.active] for p in place)]
        return result

    def place(
        self, buffer: str, index: Sequence[Expr], done: dict[int, Array] | None = None
    ) -> tuple[Array, list[Array]]:
        """An array, and the index of each lane's element in it."""
        places = [np.broadcast_to(self._value(i, {} if done is None else done), self.active.shape) for i in index]
        private = self.private.get(buffer)
        whole = private if private is not None else self.memory[buffer]
        shape = whole.shape[1:] if private is not None else whole.shape
        for p, n in zip(places, shape, strict=True):
            bad = self.active & ((p < 0) | (p >= n))
            if bad.any():
                raise GraphError(f"kernel: an index of {buffer} must be in [0, {n}); got {p[bad][0]}")
        if private is not None:
            return private, [np.arange(len(self.active)), *places]
        return whole[None], [np.zeros_like(self.active, np.int64), *places]
