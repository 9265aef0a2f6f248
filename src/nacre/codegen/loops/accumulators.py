"""The scalars of a kernel, which are in registers: accumulators of reductions, and scratch of shape ()."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.base.dtypes import DType
from nacre.base.errors import CompileError
from nacre.codegen.loops.analysis import directly, reductions
from nacre.codegen.loops.reductions import Reduction
from nacre.kernel.ast import Alloc, For, Kernel, Stmt, statements
from nacre.kernel.dependence import written
from nacre.native.llvm_values import Val
from nacre.native.text import Function


class Accumulators:
    """The states of the scalars of one kernel function, and the reductions that accumulate them."""

    def __init__(self, f: Function, kernel: Kernel) -> None:
        self.f = f
        self.states: dict[str, Val] = {}
        dtypes: dict[str, DType] = {}
        for s in statements(kernel.body):
            if isinstance(s, Alloc):
                dtypes[s.buffer.name] = s.buffer.dtype
        self.folds = reductions(kernel.body, dtypes)

    def slots_of(self, name: str) -> Sequence[str]:
        """The registers of a scalar; those of accumulators of one reduction belong to the first name."""
        fold = self.folds.get(name)
        if fold is None:
            return (name,)
        return fold.slots if name == fold.names[0] else ()

    def state(self, name: str) -> Val:
        """The value of an accumulator, combined from its reduction's partial results if it has any."""
        fold = self.folds.get(name)
        if fold is None or name != fold.names[0]:
            return self.states[name]
        return fold.finish(self.f, self.current(fold.slots))

    def texts(self, name: str) -> list[str]:
        """The LLVM values on which a scalar's value depends."""
        return [str(self.states[n]) for n in (*self.slots_of(name), name)]

    def current(self, names: Sequence[str]) -> list[Val]:
        """The states of accumulators, in order."""
        return [self.states[n] for n in names]

    def trees(self, s: For) -> list[Reduction]:
        """The reductions of a loop that follow the canonical tree."""
        outer = [n for n in written(s.body) if n in self.states and n in self.folds and self.folds[n].is_tree]
        here = {a for acc in directly(s.body) for a in acc.accumulators}
        if any(n not in here for n in outer):
            raise CompileError(f"kernel: sums must be directly in their loop; got {outer} in an inner loop")
        return [self.folds[n] for n in outer]

    def carried(self, body: Sequence[Stmt], besides: Sequence[Reduction] = ()) -> list[str]:
        """The scalars from outside that a body changes, except the given accumulators."""
        skip = {n for r in besides for n in r.names}
        names = [n for n in written(body) if n in self.states and n not in skip]
        return [slot for n in names for slot in self.slots_of(n)]
