"""Facts about values for the primitives' rules, collected while a graph is rewritten from its beginning to its end.

A rule `simplify(e, facts)` returns an atom that equals the equation's result bit for bit, or an equation to compute
instead, which may be e itself.
"""

from __future__ import annotations

from nacre.ir.graph import Atom, Equation, Var

SMALL = 64  # size limit, in bytes, of literals whose elements are checked


class Facts:
    """The equations so far, and the results whose elements are all 1."""

    def __init__(self) -> None:
        self._made: dict[Var, Equation] = {}
        self._ones: set[Var] = set()

    def add(self, e: Equation) -> None:
        """Record an equation."""
        self._made.update(dict.fromkeys(e.outputs, e))
        if e.primitive.is_one is not None and e.primitive.is_one(e, self):
            self._ones.update(e.outputs)

    def made(self, a: Atom) -> Equation | None:
        """The equation of which an atom is a result."""
        return self._made.get(a) if isinstance(a, Var) else None

    def is_one(self, a: Atom) -> bool:
        """Whether every element is known to be 1, so that products with it change no bits.

        A complex 1 has an imaginary part: its product with an infinite number has a NaN part.
        """
        if a.type.dtype.is_complex:
            return False
        return a in self._ones if isinstance(a, Var) else a.array.nbytes <= SMALL and bool((a.array == 1).all())


def same_type(e: Equation, facts: Facts) -> Atom | Equation:
    """The operand, if it has the result's type: a rule for primitives that change nothing in this case."""
    return e.inputs[0] if e.inputs[0].type is e.outputs[0].type else e


def times_one(e: Equation, facts: Facts) -> Atom | Equation:
    """The first operand, if the second one is 1."""
    return e.inputs[0] if facts.is_one(e.inputs[1]) else e
