"""Known bounds of a nest's values: an element less the greatest of its row is not above 0.

A softmax's exponentials have such arguments, which saves a comparison for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from nacre.base.dims import Size
from nacre.base.records import dataclass
from nacre.kernel.ast import Accumulate, Alloc, Apply, Expr, For, Kernel, Let, Load, Local, Stmt, Store, statements
from nacre.kernel.dependence import loaded


@dataclass(frozen=True)
class Maximum:
    """The expression whose maximum is in an accumulator, and the extents of the loops around it."""

    value: Expr
    extents: Mapping[str, Size]


class ValueRanges:
    """The known bounds of a kernel's values."""

    def __init__(self, kernel: Kernel) -> None:
        everything = list(statements(kernel.body))
        lets = [s for s in everything if isinstance(s, Let)]
        self.lets = {s.name: s.value for s in lets}
        self.twice = {s.name for s in lets if self.lets[s.name] is not s.value}
        stored = {s.buffer for s in everything if isinstance(s, Store)}
        self.constant = {b.name for b in kernel.inputs} - stored
        accumulated = Counter(a for s in everything if isinstance(s, Accumulate) for a in s.accumulators)
        self.once = {a for a, count in accumulated.items() if count == 1} - stored
        self.greatest: dict[str, Maximum] = {}
        self.compared: dict[tuple[int, int], tuple[Expr, Expr, bool]] = {}  # by identity, for as long as they live
        self._look(kernel.body, {})

    def falls(self, e: Expr, extents: Mapping[str, Size]) -> bool:
        """Whether a value, in loops of these extents, is an element minus the maximum of all: not above 0, or NaN."""
        e = self._meant(e)
        if not isinstance(e, Apply) or e.op != "sub":
            return False
        x, most = map(self._meant, e.args)
        found = self.greatest.get(most.buffer) if isinstance(most, Load) else None
        if found is None or not self._same(x, found.value):
            return False
        return all(extents.get(name, extent) == extent for name, extent in found.extents.items())

    def _look(self, body: Sequence[Stmt], extents: dict[str, Size]) -> None:
        """Record the accumulators of a body that are complete before they are read."""
        for k, s in enumerate(body):
            if isinstance(s, For):
                self._look(s.body, {**extents, s.index: s.extent})
            elif isinstance(s, Alloc) and s.buffer.name in self.once:
                name = s.buffer.name
                for t in body[k + 1 :]:
                    if name in loaded((t,)):
                        break
                    found = _greatest(t, name, extents)
                    if found is not None:
                        self.greatest[name] = found
                        break

    def _meant(self, e: Expr) -> Expr:
        """The expression that a local name is bound to."""
        while isinstance(e, Local) and e.name in self.lets and e.name not in self.twice:
            e = self.lets[e.name]
        return e

    def _same(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions have the same value whenever their indices have."""
        key = id(a), id(b)
        if key not in self.compared:
            self.compared[key] = a, b, self._equal(self._meant(a), self._meant(b))
        return self.compared[key][2]

    def _equal(self, a: Expr, b: Expr) -> bool:
        if isinstance(a, Apply) and isinstance(b, Apply):
            return (
                a.op == b.op
                and a.dtype is b.dtype
                and len(a.args) == len(b.args)
                and all(map(self._same, a.args, b.args))
            )
        if isinstance(a, Load) and isinstance(b, Load):
            return a.buffer == b.buffer and a.buffer in self.constant and all(map(self._same, a.index, b.index))
        return a == b and not isinstance(a, Local)


def _greatest(s: Stmt, name: str, extents: Mapping[str, Size]) -> Maximum | None:
    """The expression whose maximum is in an accumulator after a statement that computes only this."""
    if isinstance(s, Accumulate) and s.op == "max" and s.accumulators == (name,):
        return Maximum(s.values[0], extents)
    if isinstance(s, For):
        inside = {**extents, s.index: s.extent}
        return next((found for t in s.body if (found := _greatest(t, name, inside))), None)
    return None
