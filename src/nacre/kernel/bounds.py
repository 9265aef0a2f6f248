"""Proofs that a kernel accesses only elements of its buffers, and that it writes each element of its outputs.

Kernels of the package are correct by construction.  Kernel text from outside runs only with these proofs.  An index is
an affine form whose atoms have lower and upper bounds; the conditions around it are forms that are at least zero (see
`value_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nacre.base.dims import LIMIT, Size, lower, product
from nacre.base.dtypes import int64
from nacre.base.errors import GraphError
from nacre.base.records import dataclass
from nacre.kernel.affine import Scope, affine, any_of
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
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
    children,
    expressions,
    statements,
    zero_of,
)
from nacre.kernel.text import show_expression
from nacre.kernel.value_bounds import GREATEST, Sizes, ValueBounds

DEEPEST = 100  # nested operations


def require_inside(kernel: Kernel) -> None:
    """Raise GraphError unless each access is provably inside its buffer, and each extent at least 0."""
    sizes = Sizes.of(kernel.buffers)
    walk = _Walk({}, ValueBounds(sizes, frozenset(b.name for b in kernel.inputs)), {})
    for b in kernel.buffers:
        walk = walk.declared(b)
    walk.block(kernel.body)


def with_zeros(kernel: Kernel) -> Kernel:
    """The kernel, with stores of zeros to outputs and scratch that it does not provably write before it reads them."""
    used = {a for s in statements(kernel.body) if isinstance(s, Accumulate) for a in s.accumulators}
    partial = [b for b in kernel.outputs if not written_first(kernel.body, b)]
    body = (*map(_zeros, partial), *_initialised(kernel.body, used))
    return Kernel(kernel.name, kernel.inputs, kernel.outputs, body)


def _initialised(body: Sequence[Stmt], accumulators: set[str]) -> Iterator[Stmt]:
    for k, s in enumerate(body):
        match s:
            case For():
                yield For(s.index, s.extent, tuple(_initialised(s.body, accumulators)), s.parallel, s.vector)
            case If():
                yield If(s.condition, *(tuple(_initialised(b, accumulators)) for b in (s.body, s.orelse)))
            case While():
                yield While(s.condition, tuple(_initialised(s.body, accumulators)))
            case _:
                yield s
        if isinstance(s, Alloc) and s.buffer.name not in accumulators and not written_first(body[k + 1 :], s.buffer):
            yield _zeros(s.buffer)


def written_first(body: Sequence[Stmt], buffer: Buffer) -> bool:
    """Whether a statement writes a whole buffer, and neither it nor an earlier one reads it."""
    for s in body:
        if any(_reads(e, buffer.name) for t in (s, *statements((s,))) for e in expressions(t)):
            return False
        if _writes(s, buffer, ()):
            return True
    return False


def _reads(e: Expr, buffer: str) -> bool:
    return any_of(e, lambda part: isinstance(part, Load) and part.buffer == buffer)


@dataclass(frozen=True)
class _Walk:
    """A position in a kernel: the buffers in scope, the bounds of values, and the depth of each name."""

    buffers: Mapping[str, Buffer]
    values: ValueBounds
    depths: Mapping[str, int]

    def block(self, body: Sequence[Stmt]) -> None:
        """Check statements in order; their declarations end with the block."""
        here = self
        for s in body:
            here = here.statement(s)

    def statement(self, s: Stmt) -> _Walk:
        """Check one statement; returns the position after it."""
        for e in expressions(s):
            self.depth(e)
            self.loads(e)
        match s:
            case Let():
                depths = {**self.depths, s.name: self.depth(s.value)}
                return replace(self, values=self.values.behind(s.name, s.value), depths=depths)
            case Alloc():
                return self.scratch(s.buffer)
            case Store():
                self.access(s.buffer, s.index)
            case For():
                self.extent(s.extent, f"the loop of {s.index}")
                replace(self, values=self.values.inside(s.index, s.extent)).block(s.body)
            case If():
                replace(self, values=self.values.where(s.condition, True)).block(s.body)
                replace(self, values=self.values.where(s.condition, False)).block(s.orelse)
            case While():
                replace(self, values=self.values.where(s.condition, True)).block(s.body)
            case Accumulate():
                pass
        return self

    def declared(self, b: Buffer) -> _Walk:
        """The position after a declaration, whose extents are checked."""
        for size in b.shape:
            self.extent(size, b.name)
        return replace(self, buffers={**self.buffers, b.name: b})

    def scratch(self, b: Buffer) -> _Walk:
        """The position after an allocation, whose size is checked."""
        if self.values.sizes.greatest(product(b.shape)) > LIMIT:
            shape = ", ".join(map(str, b.shape))
            raise GraphError(
                f"kernel: scratch must have at most 2^48 elements for all sizes; got [{shape}] of {b.name}; make it "
                "smaller, or give its Dims a lower max"
            )
        return self.declared(b)

    def extent(self, size: Size, where: str) -> None:
        """Require an extent that is an int64 from 0."""
        low, high = self.values.sizes.limits(size)
        if low < 0 or high > GREATEST:
            bound = "at least 0" if low < 0 else "less than 2^63"
            raise GraphError(
                f"kernel: an extent must be {bound} for all sizes; got {size} of {where}, from {low} to {high}; "
                "change it, or give its Dims closer bounds"
            )

    def depth(self, e: Expr) -> int:
        """The number of nested operations in an expression, through names of int64 too; GraphError if it is large."""
        if isinstance(e, Local):
            return self.depths[e.name] if e.dtype is int64 else 0
        found = 1 + max(map(self.depth, children(e)), default=0)
        if found > DEEPEST:
            raise GraphError(
                f"kernel: operations must be nested at most {DEEPEST} deep, through names of int64 too; got more; "
                "store an inner value in scratch"
            )
        return found

    def loads(self, e: Expr) -> None:
        """Check the loads in an expression."""
        match e:
            case Load():
                self.access(e.buffer, e.index)
            case Extent() if not self.values.sizes.fits((e.size, e.size)):
                raise GraphError(
                    f"kernel: a size must be an int64 for all sizes; got size({e.size}); give its Dims a lower max"
                )
            case _:
                pass
        for part in children(e):
            self.loads(part)

    def access(self, buffer: str, index: Sequence[Expr]) -> None:
        """Check the indices of an access."""
        for axis, (e, size) in enumerate(zip(index, self.buffers[buffer].shape, strict=True)):
            if not self.values.from_zero_to(e, size - 1):
                raise GraphError(
                    f"kernel: an index must provably be from 0 to {size - 1}, in axis {axis} of {buffer}; got "
                    f"{show_expression(e)}; write a condition around the access, or minimum and maximum"
                )


# ---- complete outputs


def _writes(s: Stmt, output: Buffer, around: tuple[For, ...]) -> bool:
    """Whether a statement stores every element of an output, for all inputs."""
    if isinstance(s, For):
        return any(_writes(t, output, (*around, s)) for t in s.body)
    if not isinstance(s, Store) or s.buffer != output.name:
        return False
    loops = {loop.index: loop.extent for loop in around}
    names = [e.name for e in s.index if isinstance(e, Index) and e.name in loops]
    if len(names) < len(s.index) or len(set(names)) < len(names):
        return False
    rest = [extent for name, extent in loops.items() if name not in names]
    return (
        all(loops[n] == size for n, size in zip(names, output.shape, strict=True))
        and min(map(lower, rest), default=1) >= 1
    )


def stored_box(kernel: Kernel, output: Buffer) -> tuple[tuple[Size, Size], ...] | None:
    """For each axis the first index that a kernel stores for all inputs, and the end; None if it stores no such box.

    A kernel that reads the output has none, because it may read elements before it stores them.
    """
    if any(_reads(e, output.name) for s in statements(kernel.body) for e in expressions(s)):
        return None
    return _box(kernel.body, output, Scope({}, {}))


def _box(body: Sequence[Stmt], output: Buffer, scope: Scope) -> tuple[tuple[Size, Size], ...] | None:
    for s in body:
        match s:
            case Let():
                scope = scope.behind(s.name, s.value)
            case For():
                found = _box(s.body, output, scope.inside(s.index, s.extent))
                if found is not None:
                    return found
            case Store() if s.buffer == output.name:
                found = _box_of_store(s, output, scope)
                if found is not None:
                    return found
            case _:
                pass
    return None


def _box_of_store(s: Store, output: Buffer, scope: Scope) -> tuple[tuple[Size, Size], ...] | None:
    forms = [affine(e, scope) for e in s.index]
    loops = [f.terms[0][0].name for f in forms if len(f.terms) == 1 and isinstance(f.terms[0][0], Index)]
    rest = [n for name, n in scope.extents.items() if name not in loops]
    if len(set(loops)) < len(forms) or any(f.terms[0][1] != 1 for f in forms) or min(map(lower, rest), default=1) < 1:
        return None
    found = tuple((f.constant, f.constant + scope.extents[name]) for f, name in zip(forms, loops, strict=True))
    inside = all(lower(a) >= 0 and lower(n - b) >= 0 for (a, b), n in zip(found, output.shape, strict=True))
    return found if inside else None


def _zeros(output: Buffer) -> Stmt:
    """The loops that store zero in each element."""
    names = [f"{output.name}_{axis}_zero" for axis in range(len(output.shape))]
    body: Stmt = Store(output.name, tuple(map(Index, names)), zero_of(output.dtype))
    for name, size in zip(reversed(names), reversed(output.shape), strict=True):
        body = For(name, size, (body,))
    return body
