"""Bounds of int64 expressions, for proofs about kernel text from outside.

An expression whose sums or products may leave int64 on the way has unknown bounds: its value may be any int64.  Sizes
are at most `LIMIT`, and so is the number of elements of a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from nacre.base.dims import LIMIT, Dim, Monomial, Size, Symbol, product
from nacre.base.dtypes import int64
from nacre.base.records import dataclass
from nacre.kernel.affine import Affine, Scope, affine, any_of, pure
from nacre.kernel.ast import Apply, Buffer, Const, Expr, Extent, Index, Load, Local

Bounds = tuple[Size, Size]  # the least and the greatest value
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
ANY: Bounds = (LEAST, GREATEST)
ZERO, ONE = Affine((), 0), Affine((), 1)
EXACT = ("add", "sub", "neg", "mul", "idiv", "rem")  # operations that affine forms look into
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


@dataclass(frozen=True)
class Sizes:
    """The least and greatest values of sizes, where `stored` products of symbols are at most `LIMIT`."""

    stored: frozenset[Monomial]

    @staticmethod
    def of(parameters: Sequence[Buffer]) -> Sizes:
        """Products in a parameter's number of elements are stored: all its elements are in memory."""
        totals = [t for t in (product(b.shape) for b in parameters) if isinstance(t, Dim)]
        whole = [t for t in totals if all(c > 0 and all(isinstance(a, Symbol) for a, _ in m) for m, c in t.terms)]
        return Sizes(frozenset(m for t in whole for m, _ in t.terms))

    def least(self, size: Size) -> int:
        """The least value of a size."""
        return self.limits(size)[0]

    def greatest(self, size: Size) -> int:
        """The greatest value of a size."""
        return self.limits(size)[1]

    def limits(self, size: Size) -> tuple[int, int]:
        """The least and the greatest value of a size."""
        if isinstance(size, int):
            return size, size
        low = high = 0
        for monomial, c in size.terms:
            a, b = self._monomial(monomial)
            low, high = low + min(a * c, b * c), high + max(a * c, b * c)
        return low, high

    def _monomial(self, monomial: Monomial) -> tuple[int, int]:
        found = 1, 1
        for atom, power in monomial:
            if isinstance(atom, Symbol):
                each = atom.low, atom.high
            else:
                low, high = self.limits(atom.dim)
                each = low // atom.divisor, high // atom.divisor
            for _ in range(power):
                found = _times(found, each)
        return (found[0], min(found[1], LIMIT)) if monomial in self.stored else found

    def fits(self, bounds: Bounds) -> bool:
        """Whether all values between bounds are int64."""
        return self.least(bounds[0]) >= LEAST and self.greatest(bounds[1]) <= GREATEST

    def lesser(self, a: Size, b: Size) -> Size:
        """The lesser of two sizes; if that depends on symbols, the least value of both."""
        if self.least(b - a) >= 0:
            return a
        return b if self.least(a - b) >= 0 else min(self.least(a), self.least(b))

    def greater(self, a: Size, b: Size) -> Size:
        """The greater of two sizes; if that depends on symbols, the greatest value of both."""
        if self.least(a - b) >= 0:
            return a
        return b if self.least(b - a) >= 0 else max(self.greatest(a), self.greatest(b))


def _times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


@dataclass(frozen=True)
class ValueBounds:
    """The bounds of values at a position in a kernel, by the names in scope and the forms that are at least zero."""

    sizes: Sizes
    inputs: frozenset[str]
    scope: Scope = field(default_factory=lambda: Scope({}, {}))
    facts: tuple[Affine, ...] = ()
    known: dict[int, tuple[Expr, Bounds]] = field(default_factory=dict[int, tuple[Expr, Bounds]])
    tested: dict[int, tuple[Expr, bool]] = field(default_factory=dict[int, tuple[Expr, bool]])

    def inside(self, index: str, extent: Size) -> ValueBounds:
        """Inside a loop."""
        return self._with(self.scope.inside(index, extent), self.facts)

    def behind(self, name: str, value: Expr) -> ValueBounds:
        """Behind a `let`."""
        return self._with(self.scope.behind(name, value), self.facts)

    def where(self, condition: Expr, holds: bool) -> ValueBounds:
        """Inside a branch."""
        found = self
        for f in self.implied(condition, holds):
            found = found._with(self.scope, (*found.facts, f))
        return found

    def _with(self, scope: Scope, facts: tuple[Affine, ...]) -> ValueBounds:
        return replace(self, scope=scope, facts=facts, known={}, tested={})

    # ---- conditions

    def implied(self, e: Expr, holds: bool) -> list[Affine]:
        """The forms that are at least zero if a condition holds, or if it does not.

        Only forms whose value stays the same give facts: of names, and of elements of inputs.
        """
        if isinstance(e, Local):
            return self.implied(self.scope.lets[e.name], holds)
        if not isinstance(e, Apply):
            return []
        if e.op == "not":
            return self.implied(e.args[0], not holds)
        if (e.op == "and" and holds) or (e.op == "or" and not holds):
            first = self.implied(e.args[0], holds)
            return first + self._with(self.scope, (*self.facts, *first)).implied(e.args[1], holds)
        if e.op not in (*NEGATED, "eq") or e.args[0].dtype is not int64 or not all(map(self.exact, e.args)):
            return []
        a, b = (affine(x, self.scope) for x in e.args)
        if not all(self._fixed(atom) for atom, _ in (*a.terms, *b.terms)):
            return []
        match e.op if holds else NEGATED.get(e.op):
            case "lt":
                return [b.plus(a, -1).plus(ONE, -1)]
            case "le":
                return [b.plus(a, -1)]
            case "gt":
                return [a.plus(b, -1).plus(ONE, -1)]
            case "ge":
                return [a.plus(b, -1)]
            case "eq":
                return [a.plus(b, -1), b.plus(a, -1)]
            case _:
                return []

    def _fixed(self, e: Expr) -> bool:
        return not any_of(e, lambda part: isinstance(part, Load) and part.buffer not in self.inputs)

    # ---- forms

    def from_zero_to(self, e: Expr, greatest: Size) -> bool:
        """Whether an expression is provably from 0 to a size."""
        if not self.exact(e):
            return False
        form = affine(e, self.scope)
        return self._at_least_zero(form) and self._at_least_zero(Affine((), greatest).plus(form, -1))

    def _at_least_zero(self, form: Affine) -> bool:
        """Whether a form is at least zero: by its own bounds, or because it is at least another form that is."""
        extremes = [f for atom, _ in form.terms for f in self._of_extreme(atom)]
        return any(self.sizes.least(self._of_form(form.plus(f, -1))[0]) >= 0 for f in (ZERO, *self.facts, *extremes))

    def _of_extreme(self, e: Expr) -> list[Affine]:
        """The forms that are at least zero because a value is a minimum or maximum."""
        if not isinstance(e, Apply) or e.op not in ("minimum", "maximum"):
            return []
        sign = 1 if e.op == "minimum" else -1
        value = Affine(((e, -sign),), 0)
        return [value.plus(affine(a, self.scope), sign) for a in e.args if self.exact(a)]

    def exact(self, e: Expr) -> bool:
        """Whether no sum or product in the affine form of an expression leaves int64."""
        if id(e) not in self.tested:
            self.tested[id(e)] = e, False  # while it is being found
            self.tested[id(e)] = e, self._exact(e)
        return self.tested[id(e)][1]

    def _exact(self, e: Expr) -> bool:
        match e:
            case Const():
                return LEAST <= int(e.value) <= GREATEST
            case Extent():
                return self.sizes.fits((e.size, e.size))
            case Local() if pure(self.scope.lets[e.name]):
                return self.exact(self.scope.lets[e.name])
            case Apply() if e.op in EXACT:
                return all(map(self.exact, e.args)) and self.sizes.fits(self._of_form(affine(e, self.scope)))
            case _:
                return True

    def bounds(self, e: Expr) -> Bounds:
        """The bounds of an int64 expression."""
        return self._of_form(affine(e, self.scope)) if e.dtype is int64 and self.exact(e) else ANY

    def _of_form(self, form: Affine) -> Bounds:
        low = high = form.constant
        for atom, c in form.terms:
            if id(atom) not in self.known:
                self.known[id(atom)] = atom, ANY  # while they are being found
                self.known[id(atom)] = atom, self._from_facts(atom, self._own(atom))
            a, b = self._scaled(self.known[id(atom)][1], c)
            low, high = low + a, high + b
        return low, high

    def _scaled(self, bounds: Bounds, factor: Size) -> Bounds:
        low, high = (b * factor for b in bounds)
        if self.sizes.least(factor) >= 0:
            return low, high
        return (high, low) if self.sizes.greatest(factor) <= 0 else self._product(bounds, (factor, factor))

    def _from_facts(self, atom: Expr, own: Bounds) -> Bounds:
        """The bounds of an atom; those that are numbers may be closer by facts."""
        low, high = own
        for f in self.facts:
            c = next((c for a, c in f.terms if a == atom), 0)
            if not isinstance(c, int) or c == 0:
                continue
            others = [self._scaled(self._own(a), k) for a, k in f.terms if a != atom]
            rest = sum(self.sizes.greatest(b) for _, b in others) + self.sizes.greatest(f.constant)
            if c > 0 and isinstance(low, int):
                low = max(low, -(rest // c))
            if c < 0 and isinstance(high, int):
                high = min(high, rest // -c)
        return low, high

    def _own(self, e: Expr) -> Bounds:
        match e:
            case Index():
                return 0, self.scope.extents[e.name] - 1
            case Local():
                return self.bounds(self.scope.lets[e.name])
            case Apply():
                return self._of_operation(e)
            case _:
                return ANY

    def _of_operation(self, e: Apply) -> Bounds:
        """The bounds of an operation that has no affine form."""
        *_, first, last = (e, *e.args)  # of one operand, only the last is of use
        a, b = self.bounds(first) if len(e.args) > 1 else ANY, self.bounds(last)
        sizes = self.sizes
        match e.op:
            case "mul":
                return self._product(a, b)
            case "select":
                return sizes.lesser(a[0], b[0]), sizes.greater(a[1], b[1])
            case "minimum":
                return sizes.lesser(a[0], b[0]), min(a[1], b[1], key=sizes.greatest)
            case "maximum":
                return max(a[0], b[0], key=sizes.least), sizes.greater(a[1], b[1])
            case "idiv" if sizes.least(a[0]) >= 0 and isinstance(b[0], int) and b[0] >= 1:
                return sizes.least(a[0]) // max(sizes.greatest(b[1]), 1), a[1] // b[0]
            case "rem" if sizes.least(a[0]) >= 0 and sizes.least(b[0]) >= 1:
                return 0, min(b[1] - 1, a[1], key=sizes.greatest)
            case "and" if isinstance(last, Const) and int(last.value) >= 0:
                return 0, int(last.value)
            case _:
                return ANY

    def _product(self, a: Bounds, b: Bounds) -> Bounds:
        if self.sizes.least(a[0]) >= 0 and self.sizes.least(b[0]) >= 0:
            return a[0] * b[0], a[1] * b[1]
        (a_low, a_high), (b_low, b_high) = [(self.sizes.least(low), self.sizes.greatest(high)) for low, high in (a, b)]
        return _times((a_low, a_high), (b_low, b_high))
