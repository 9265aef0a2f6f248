"""What is known of values as a graph is rewritten from its beginning to its end, for the rules of primitives.

A rule `simplify(e, facts)` gives an atom that is the equation's result to the bit, or an equation to compute instead,
which may be e itself.
"""

from __future__ import annotations

from nacre.ir.graph import Atom, Equation, Var

SMALL = 64  # bytes of a literal whose elements are looked at


class Facts:
    """The equations so far, and which results have no other element than one."""

    def __init__(self) -> None:
        self._made: dict[Var, Equation] = {}
        self._ones: set[Var] = set()

    def add(self, e: Equation) -> None:
        """Note an equation."""
        self._made.update(dict.fromkeys(e.outputs, e))
        if e.primitive.is_one is not None and e.primitive.is_one(e, self):
            self._ones.update(e.outputs)

    def made(self, a: Atom) -> Equation | None:
        """The equation of which an atom is a result."""
        return self._made.get(a) if isinstance(a, Var) else None

    def is_one(self, a: Atom) -> bool:
        """Whether every element is known to be one."""
        return a in self._ones if isinstance(a, Var) else a.array.nbytes <= SMALL and bool((a.array == 1).all())


def same_type(e: Equation, facts: Facts) -> Atom | Equation:
    """The operand where its type is the result's: a rule of primitives that then change nothing."""
    return e.inputs[0] if e.inputs[0].type is e.outputs[0].type else e


def times_one(e: Equation, facts: Facts) -> Atom | Equation:
    """The first operand where the second one is one."""
    return e.inputs[0] if facts.is_one(e.inputs[1]) else e
