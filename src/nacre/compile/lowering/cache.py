"""Clusters of one form are lowered once: the layers of a model often differ only in the values that they read.

A form is the whole input of the lowering, with values numbered in order of appearance.  The result for the first
cluster of a form is reused for the others, with their own values.  They share one kernel object, so later stages also
process it once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering import lower as lowering
from nacre.compile.lowering.lower import Lowered
from nacre.ir.graph import Atom, Equation, Literal, Var, params_key


def lower(fusion: Fusion, node: Node, name: str) -> Lowered:
    """The kernel of a cluster."""
    form = _Form(fusion, node)
    key = name, form.key
    if key not in fusion.lowered:
        fusion.lowered[key] = lowering.lower(fusion, node, name), form.atoms
    return form.take(*fusion.lowered[key])


def lower_over(fusion: Fusion, node: Node, name: str, groups: Sequence[tuple[int, ...]]) -> Lowered | None:
    """The kernel of a pointwise cluster over given groups of axes, or None if its buffers do not allow the groups."""
    form = _Form(fusion, node)
    key = name, tuple(groups), form.key
    if key not in fusion.lowered:
        fusion.lowered[key] = lowering.lower_over(fusion, node, name, groups), form.atoms
    found, atoms = fusion.lowered[key]
    return None if found is None else form.take(found, atoms)


def lower_apart(fusion: Fusion, node: Node, name: str) -> Lowered:
    """The kernel of a pointwise cluster over the axes of its domain, none of which are merged."""
    form = _Form(fusion, node)
    key = name, "apart", form.key
    if key not in fusion.lowered:
        fusion.lowered[key] = lowering.lower_apart(fusion, node, name), form.atoms
    return form.take(*fusion.lowered[key])


class _Form:
    """The form of a cluster, and its values in the order of their numbers."""

    def __init__(self, fusion: Fusion, node: Node) -> None:
        self.fusion = fusion
        self.members = {v for e in node.equations for v in e.outputs}
        self.numbers: dict[Atom, int] = {}
        self.key: Hashable = (node.domain, node.axes, tuple([self.equation(e) for e in node.equations]))

    @property
    def atoms(self) -> list[Atom]:
        """The values in the order of their numbers."""
        return list(self.numbers)

    def take(self, found: Lowered | None, atoms: Sequence[Atom]) -> Lowered:
        """The kernel that was lowered for a cluster of this form, with the values of this cluster."""
        assert found is not None
        here = dict(zip(atoms, self.numbers, strict=True))
        reads = tuple([View(here[v.base], v.offset, v.strides) for v in found.reads])
        return replace(found, reads=reads, writes=tuple([here[v] for v in found.writes]))  # type: ignore[misc]

    def equation(self, e: Equation) -> Hashable:
        """The form of an equation: its primitive and parameters, its operands, and its results."""
        inputs = tuple([self.atom(x) for x in e.inputs])
        return e.primitive, params_key(e.params), inputs, tuple([self.result(v) for v in e.outputs])

    def result(self, v: Var) -> Hashable:
        """The form of a result: its type, and its strides if it is stored."""
        self.number(v)
        view = self.fusion.views.get(v) if v in self.fusion.stored else None
        return v.type, v in self.fusion.flat, None if view is None else view.strides

    def atom(self, x: Atom) -> Hashable:
        """The form of an operand: a number, and at its first use the way to read it; a constant is its own form."""
        if isinstance(x, Literal) and not x.type.shape:
            return x.key
        known = self.numbers.get(x)
        if known is not None:
            return known
        number = self.number(x)
        if x in self.members:
            return number
        if not self.fusion.in_memory(x):
            assert isinstance(x, Var)
            return number, self.equation(self.fusion.producer[x])
        view = self.fusion.views[x]
        return number, x.type, self.number(view.base), view.base.type, view.offset, view.strides

    def number(self, x: Atom) -> int:
        """The number of a value."""
        return self.numbers.setdefault(x, len(self.numbers))
