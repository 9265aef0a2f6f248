"""Proofs that a kernel accesses only elements of its buffers, and that it writes each element of its outputs.

Kernels of the package are correct by construction.  Kernel text from outside runs only with these proofs.  An index is
an affine form whose atoms have lower and upper bounds; the conditions around it are forms that are at least zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nacre.base.dims import Dim, Size
from nacre.base.dtypes import int64
from nacre.base.errors import GraphError
from nacre.base.records import dataclass
from nacre.kernel.affine import Affine, Scope, affine, any_of
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
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
)
from nacre.kernel.text import show_expression

Bounds = tuple[Size | None, Size | None]  # the least and the greatest value, if known
ZERO = Affine((), 0)


def require_inside(kernel: Kernel) -> None:
    """Raise GraphError unless each access is provably inside its buffer."""
    _Walk({b.name: b for b in kernel.buffers}, {}, {}, ()).block(kernel.body)


def with_zeros(kernel: Kernel) -> Kernel:
    """The kernel, with stores of zeros to outputs and scratch that it does not provably write before it reads them."""
    used = {a for s in statements(kernel.body) if isinstance(s, Accumulate) for a in s.accumulators}
    partial = [b for b in kernel.outputs if not _written_first(kernel.body, b)]
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
        if isinstance(s, Alloc) and s.buffer.name not in accumulators and not _written_first(body[k + 1 :], s.buffer):
            yield _zeros(s.buffer)


def _written_first(body: Sequence[Stmt], buffer: Buffer) -> bool:
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
    """A position in a kernel: the declarations in scope, and the forms that are at least zero."""

    buffers: Mapping[str, Buffer]
    extents: Mapping[str, Size]
    lets: Mapping[str, Expr]
    facts: tuple[Affine, ...]

    def block(self, body: Sequence[Stmt]) -> None:
        """Check statements in order; their declarations end with the block."""
        here = self
        for s in body:
            here = here.statement(s)

    def statement(self, s: Stmt) -> _Walk:
        """Check one statement; returns the position after it."""
        for e in expressions(s):
            self.loads(e)
        match s:
            case Let():
                return _Walk(self.buffers, self.extents, {**self.lets, s.name: s.value}, self.facts)
            case Alloc():
                return _Walk({**self.buffers, s.buffer.name: s.buffer}, self.extents, self.lets, self.facts)
            case Store():
                self.access(s.buffer, s.index)
            case For():
                _Walk(self.buffers, {**self.extents, s.index: s.extent}, self.lets, self.facts).block(s.body)
            case If():
                self.where(s.condition, True).block(s.body)
                self.where(s.condition, False).block(s.orelse)
            case While():
                self.where(s.condition, True).block(s.body)
            case Accumulate():
                pass
        return self

    def where(self, condition: Expr, holds: bool) -> _Walk:
        """The position inside a branch."""
        return _Walk(self.buffers, self.extents, self.lets, (*self.facts, *self.implied(condition, holds)))

    def implied(self, e: Expr, holds: bool) -> list[Affine]:
        """The forms that are at least zero if a condition holds, or if it does not."""
        if isinstance(e, Local) and e.name in self.lets:
            return self.implied(self.lets[e.name], holds)
        if not isinstance(e, Apply):
            return []
        if e.op == "not":
            return self.implied(e.args[0], not holds)
        if (e.op == "and" and holds) or (e.op == "or" and not holds):
            return [f for a in e.args for f in self.implied(a, holds)]
        if e.op not in ("lt", "le", "gt", "ge", "eq") or e.args[0].dtype is not int64:
            return []
        a, b = (affine(x, self.scope) for x in e.args)
        op = e.op if holds else {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": ""}[e.op]
        one = Affine((), 1)
        forms = {
            "lt": [b.plus(a, -1).plus(one, -1)],
            "le": [b.plus(a, -1)],
            "gt": [a.plus(b, -1).plus(one, -1)],
            "ge": [a.plus(b, -1)],
            "eq": [a.plus(b, -1), b.plus(a, -1)],
        }
        return forms.get(op, [])

    @property
    def scope(self) -> Scope:
        """The names, for affine forms."""
        return Scope(self.extents, self.lets)

    def loads(self, e: Expr) -> None:
        """Check the loads in an expression."""
        if isinstance(e, Load):
            self.access(e.buffer, e.index)
        for part in children(e):
            self.loads(part)

    def access(self, buffer: str, index: Sequence[Expr]) -> None:
        """Check the indices of an access."""
        for axis, (e, size) in enumerate(zip(index, self.buffers[buffer].shape, strict=True)):
            form = affine(e, self.scope)
            if not self.at_least_zero(form) or not self.at_least_zero(Affine((), size - 1).plus(form, -1)):
                raise GraphError(
                    f"kernel: an index must provably be from 0 to {size - 1}, in axis {axis} of {buffer}; got "
                    f"{show_expression(e)}; write a condition around the access, or minimum and maximum"
                )

    def at_least_zero(self, form: Affine) -> bool:
        """Whether a form is at least zero: by its own bounds, or because it is at least another form that is."""
        return any(_known(self.bounds_of_form(form.plus(f, -1))[0]) for f in (ZERO, *self.facts))

    def bounds_of_form(self, form: Affine) -> Bounds:
        """The bounds of a form."""
        found: Bounds = form.constant, form.constant
        for atom, c in form.terms:
            found = _sum(found, _scaled(self.bounds(atom), c))
        return found

    def bounds(self, e: Expr) -> Bounds:
        """The bounds of an expression."""
        match e:
            case Index() if e.name in self.extents:
                return 0, self.extents[e.name] - 1
            case Local() if e.name in self.lets:
                return self.bounds(self.lets[e.name])
            case Apply(dtype=dtype) if dtype is int64:
                return self.bounds_of_operation(e)
            case _:
                form = affine(e, self.scope)
                return (form.constant, form.constant) if not form.terms else (None, None)

    def bounds_of_operation(self, e: Apply) -> Bounds:
        """The bounds of an operation on indices."""
        if e.op in ("add", "sub", "neg", "mul"):
            form = affine(e, self.scope)
            return (None, None) if form.terms == ((e, 1),) else self.bounds_of_form(form)
        args = [self.bounds_of_form(affine(a, self.scope)) if a.dtype is int64 else (None, None) for a in e.args]
        (low, high), (other_low, other_high) = args[-2] if len(args) > 1 else (None, None), args[-1]
        match e.op:
            case "select":
                return _less(low, other_low, both=True), _greater(high, other_high, both=True)
            case "minimum":
                return _less(low, other_low, both=True), _less(high, other_high, both=False)
            case "maximum":
                return _greater(low, other_low, both=False), _greater(high, other_high, both=True)
            case "idiv" if _known(low) and isinstance(other_low, int) and other_low >= 1:
                least = low // other_high if isinstance(low, int) and isinstance(other_high, int) else 0
                return least, high // other_low if isinstance(high, int) else high
            case "rem" if _known(low) and other_low is not None and _known(other_low - 1):
                return 0, _less(None if other_high is None else other_high - 1, high, both=False)
            case "and" if isinstance(e.args[1], Const) and int(e.args[1].value) >= 0:
                return 0, int(e.args[1].value)
            case _:
                return None, None


def _known(low: Size | None) -> bool:
    """Whether a lower bound is at least zero."""
    return low is not None and (low if isinstance(low, int) else low.bounds()[0]) >= 0


def _sum(a: Bounds, b: Bounds) -> Bounds:
    low, high = (None if x is None or y is None else x + y for x, y in zip(a, b, strict=True))
    return low, high


def _scaled(a: Bounds, factor: Size) -> Bounds:
    least = factor if isinstance(factor, int) else factor.bounds()[0]
    greatest = factor if isinstance(factor, int) else factor.bounds()[1]
    low, high = (None if x is None else x * factor for x in a)
    return (low, high) if least >= 0 else (high, low) if greatest <= 0 else (None, None)


def _less(a: Size | None, b: Size | None, both: bool) -> Size | None:
    """The lesser of two bounds; if one is unknown, the other, unless `both` must be known."""
    if a is None or b is None:
        return None if both else b if a is None else a
    return a if _known(b - a) else b if _known(a - b) else None if both else a


def _greater(a: Size | None, b: Size | None, both: bool) -> Size | None:
    if a is None or b is None:
        return None if both else b if a is None else a
    return a if _known(a - b) else b if _known(b - a) else None if both else a


# ---- complete outputs


def _writes(s: Stmt, output: Buffer, around: tuple[For, ...]) -> bool:
    """Whether a statement stores every element of an output, for all inputs."""
    if isinstance(s, For):
        return any(_writes(t, output, (*around, s)) for t in s.body)
    if not isinstance(s, Store) or s.buffer != output.name:
        return False
    loops = {loop.index: loop.extent for loop in around}
    names = [e.name for e in s.index if isinstance(e, Index)]
    if len(names) < len(s.index) or len(set(names)) < len(names):
        return False
    rest = [extent for name, extent in loops.items() if name not in names]
    return all(loops[n] == size for n, size in zip(names, output.shape, strict=True)) and all(map(_iterates, rest))


def _iterates(extent: Size) -> bool:
    """Whether a loop always has an iteration."""
    return (extent.bounds()[0] if isinstance(extent, Dim) else extent) >= 1


def _zeros(output: Buffer) -> Stmt:
    """The loops that store zero in each element."""
    names = [f"{output.name}_{axis}_zero" for axis in range(len(output.shape))]
    body: Stmt = Store(output.name, tuple(map(Index, names)), Const(False if output.dtype.is_bool else 0, output.dtype))
    for name, size in zip(reversed(names), reversed(output.shape), strict=True):
        body = For(name, size, (body,))
    return body
