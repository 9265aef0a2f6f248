"""Value numbering: the values of a program by number, and where each of them is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import Fill
from nacre.compile.fusion.materialisation import View
from nacre.compile.lowering.constants_to_operands import literal
from nacre.ir.graph import Atom, Graph, Literal, Var
from nacre.kernel.ast import Const
from nacre.runtime.plan import PlannedValue


@dataclass
class ValueNumbers:
    """The numbers of a graph's values.

    The bodies of loops and branches have their own numbers, but share the storage and the constants.
    """

    storage: list[PlannedValue] = field(default_factory=list[PlannedValue])
    constants: list[np.ndarray] = field(default_factory=list[np.ndarray])
    numbers: dict[Atom, int] = field(default_factory=dict[Atom, int])
    scalars: dict[Const, Literal] = field(default_factory=dict[Const, Literal])
    literals: dict[Literal, int] = field(default_factory=dict[Literal, int])

    def within(self, numbers: Mapping[Var, int]) -> ValueNumbers:
        """The numbers of another graph of the program, whose inputs have the given numbers."""
        return replace(self, numbers=dict[Atom, int](numbers.items()))

    def declare(self, graph: Graph) -> None:
        """Number the inputs of the program, then its outputs."""
        for v in graph.inputs:
            self.numbers[v] = self.new(PlannedValue("input", v.type.nbytes))
        for v in graph.outputs:
            self.numbers[v] = self.new(PlannedValue("output", v.type.nbytes))

    def new(self, storage: PlannedValue) -> int:
        """The number of a new value."""
        self.storage.append(storage)
        return len(self.storage) - 1

    def number(self, atom: Atom) -> int:
        """The number of a value; a value without one becomes a temporary or a constant."""
        if isinstance(atom, Literal):
            found = self.literals.get(atom)
            if found is None:
                self.constants.append(atom.array)
                found = self.literals[atom] = self.new(PlannedValue("constant", atom.type.nbytes))
            return found
        found = self.numbers.get(atom)
        if found is None:
            found = self.numbers[atom] = self.new(PlannedValue("temporary", atom.type.nbytes))
        return found

    def scalar(self, constant: Const) -> int:
        """The number of a kernel's constant in memory; equal constants share one."""
        return self.number(self.scalars.setdefault(constant, literal(constant)))

    def source(self, view: View | None, fill: Fill | None) -> tuple[int, Fill | None]:
        """The constant from which a buffer is filled, and how; -1 and None for other operands."""
        of = -1 if view is None or view.offset != 0 else self.number(view.base)
        return (of, fill) if of >= 0 and self.storage[of].kind == "constant" else (-1, None)
