"""Index expressions as affine forms, so that a kernel's loads and stores become the cheapest possible accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nacre.base.dims import Size, lower
from nacre.base.dtypes import int64
from nacre.base.errors import ShapeError
from nacre.base.records import dataclass
from nacre.base.types import row_major
from nacre.kernel.ast import Apply, Buffer, Const, Expr, Extent, Index, Load, Local, children


@dataclass(frozen=True)
class Affine:
    """A constant plus sizes times atoms; an atom is an `Index` or an expression that is not affine."""

    terms: tuple[tuple[Expr, Size], ...]
    constant: Size

    def coefficient(self, index: str) -> Size:
        """The factor of a loop's index; 0 if the index is absent."""
        return next((c for a, c in self.terms if isinstance(a, Index) and a.name == index), 0)

    def plus(self, other: Affine, factor: Size = 1) -> Affine:
        """self + factor · other."""
        total: dict[Expr, Size] = dict(self.terms)
        for atom, c in other.terms:
            more = factor if isinstance(c, int) and c == 1 else c * factor
            total[atom] = total[atom] + more if atom in total else more
        kept = tuple([(a, c) for a, c in total.items() if c != 0])
        if isinstance(other.constant, int) and other.constant == 0:
            return Affine(kept, self.constant)
        return Affine(kept, self.constant + other.constant * factor)


ZERO = Affine((), 0)


@dataclass(frozen=True)
class Scope:
    """The scope of an expression: the extents of the loops around it and the values of the names."""

    extents: Mapping[str, Size]
    lets: Mapping[str, Expr]

    def inside(self, index: str, extent: Size) -> Scope:
        """Inside a loop."""
        return Scope({**self.extents, index: extent}, self.lets)

    def behind(self, name: str, value: Expr) -> Scope:
        """Behind a `let`."""
        return Scope(self.extents, {**self.lets, name: value})


def affine(e: Expr, scope: Scope) -> Affine:
    """The affine form of an int64 expression."""
    if isinstance(e, Index):
        return Affine(((e, 1),), 0)
    return _Forms(scope, {}, {}).of(e)


@dataclass(frozen=True)
class _Forms:
    """The affine forms in a scope: of the names, and of shared expressions by their identity."""

    scope: Scope
    names: dict[str, Affine]
    shared: dict[int, Affine]

    def of(self, e: Expr) -> Affine:
        """The form of an expression."""
        match e:
            case Const():
                return Affine((), int(e.value))
            case Extent():
                return Affine((), e.size)
            case Local() if e.name in self.names:
                return self.names[e.name]
            case Local() if e.name in self.scope.lets and pure(self.scope.lets[e.name]):
                found = self.names[e.name] = self.of(self.scope.lets[e.name])
                return found
            case Apply(dtype=dtype) if dtype is int64:
                if id(e) not in self.shared:
                    self.shared[id(e)] = self._operation(e)
                return self.shared[id(e)]
            case _:
                return Affine(((e, 1),), 0)

    def _operation(self, e: Apply) -> Affine:
        alone = Affine(((e, 1),), 0)
        if e.op in ("add", "sub"):
            a, b = map(self.of, e.args)
            return a.plus(b, 1 if e.op == "add" else -1)
        if e.op == "neg":
            return ZERO.plus(self.of(e.args[0]), -1)
        if e.op == "mul":
            a, b = map(self.of, e.args)
            for x, y in ((a, b), (b, a)):
                if not x.terms:
                    return ZERO.plus(y, x.constant)
        if e.op in ("idiv", "rem"):
            a, b = map(self.of, e.args)
            split = _split(a, b.constant, self.scope) if not b.terms else None
            return alone if split is None else split[0] if e.op == "idiv" else split[1]
        return alone


def _split(a: Affine, divisor: Size, scope: Scope) -> tuple[Affine, Affine] | None:
    """Quotient and remainder of a by a positive divisor, if they are affine too.

    The terms that the divisor divides form the quotient if the sum of the others is always less than the divisor.
    """
    if lower(divisor) < 1 or lower(a.constant) < 0:
        return None
    whole: list[tuple[Expr, Size]] = []
    rest: list[tuple[Expr, Size]] = []
    greatest: Size = 0
    for atom, c in a.terms:
        if not isinstance(atom, Index) or atom.name not in scope.extents or lower(c) < 0:
            return None
        quotient = _exactly(c, divisor)
        if quotient is not None:
            whole.append((atom, quotient))
        else:
            rest.append((atom, c))
            greatest = greatest + c * (scope.extents[atom.name] - 1)
    high = _exactly(a.constant, divisor)
    low = a.constant if high is None else 0
    if high is None and isinstance(a.constant, int) and isinstance(divisor, int):
        high, low = divmod(a.constant, divisor)
    if lower(divisor - 1 - greatest - low) < 0:
        return None
    return Affine(tuple(whole), high or 0), Affine(tuple(rest), low)


def _exactly(c: Size, divisor: Size) -> Size | None:
    """c / divisor, if there is no remainder."""
    try:
        quotient = c // divisor
    except ShapeError:
        return None
    return quotient if quotient * divisor == c else None


def strides_of(buffer: Buffer) -> tuple[Size, ...]:
    """The strides of a buffer in elements."""
    return row_major(buffer.shape) if buffer.strides is None else buffer.strides


def offset(buffer: Buffer, index: Sequence[Expr], scope: Scope) -> Affine:
    """The offset of an element in its buffer, in elements."""
    total = ZERO
    for e, stride in zip(index, strides_of(buffer), strict=True):
        total = total.plus(affine(e, scope), stride)
    return total


def pure(e: Expr) -> bool:
    """Whether an expression reads no memory."""
    return not any_of(e, lambda part: isinstance(part, Load))


def names(e: Expr, found: dict[int, frozenset[str]]) -> frozenset[str]:
    """The loops, locals and buffers that an expression's value depends on (`found` caches them by identity)."""
    known = found.get(id(e))
    if known is None:
        if isinstance(e, Index | Local):
            known = frozenset((e.name,))
        else:
            own = frozenset((e.buffer,)) if isinstance(e, Load) else frozenset[str]()
            known = own.union(*[names(c, found) for c in children(e)])
        found[id(e)] = known
    return known


def any_of(e: Expr, test: Callable[[Expr], bool]) -> bool:
    """Whether a test holds for an expression or one of its subexpressions."""
    todo, seen = [e], {id(e)}
    while todo:
        part = todo.pop()
        if test(part):
            return True
        new = [c for c in children(part) if id(c) not in seen]
        seen.update(map(id, new))
        todo += new
    return False
