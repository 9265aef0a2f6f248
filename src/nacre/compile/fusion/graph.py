"""Nodes of a fused program, and the dependences between them.

A node has a greater depth than all nodes that it depends on.  Depths make most dependence tests fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from heapq import heappop, heappush

from nacre.base.records import dataclass
from nacre.base.types import Shape
from nacre.ir.graph import Equation


@dataclass(eq=False)
class Node:
    """A step of the program: a cluster of equations, or one opaque equation."""

    number: int
    equations: list[Equation]
    domain: Shape | None = None  # None for an opaque node
    axes: tuple[int, ...] | None = None  # reduced axes, once there is a reduction
    before: set[Node] = field(default_factory=set["Node"])
    after: set[Node] = field(default_factory=set["Node"])
    depth: int = 0  # more than that of every node before
    reductions: int = 0
    merged: Node | None = None  # the node that this one became a part of

    @property
    def opaque(self) -> bool:
        """Whether the node is one equation with its own kernel, which is never fused."""
        return self.domain is None

    @property
    def row_shape(self) -> Shape | None:
        """The domain without the reduced axes; None for a node that reduces nothing."""
        if self.axes is None or self.domain is None:
            return None
        return tuple(s for k, s in enumerate(self.domain) if k not in self.axes)

    def follow(self, first: Node) -> None:
        """Record that this node depends on the first, and increase depths."""
        self.before.add(first)
        first.after.add(self)
        todo = [(self, first.depth + 1)]
        while todo:
            node, depth = todo.pop()
            if node.depth < depth:
                node.depth = depth
                todo += [(n, depth + 1) for n in current(node.after)]

    def needs(self, other: Node) -> bool:
        """Whether this node depends on the other, directly or indirectly.

        The search runs from both ends, each first to the nodes nearest to the other's depth, and examines equally many
        edges on both sides.  It ends where the two meet, or where one has no edges left.
        """
        needed: set[Node] = {self}
        needing: set[Node] = {other}
        back: list[tuple[int, int, Node]] = [(self.depth, self.number, self)]
        ahead: list[tuple[int, int, Node]] = [(-other.depth, other.number, other)]
        looked_back = looked_ahead = 0  # examined edges
        while back and ahead:
            first, last = back[0][2], ahead[0][2]
            if looked_back + len(first.before) <= looked_ahead + len(last.after):
                heappop(back)
                first.before = current(first.before)
                looked_back += len(first.before)
                for n in first.before:
                    if n in needing:
                        return True
                    if n.depth > other.depth and n not in needed:
                        needed.add(n)
                        heappush(back, (n.depth, n.number, n))
            else:
                heappop(ahead)
                last.after = current(last.after)
                looked_ahead += len(last.after)
                for n in last.after:
                    if n in needed:
                        return True
                    if n.depth < self.depth and n not in needing:
                        needing.add(n)
                        heappush(ahead, (-n.depth, n.number, n))
        return False

    def adopt(self, other: Node) -> None:
        """Replace a node that became a part of this one."""
        other.merged = self
        before, after = (current(a | b) - {self} for a, b in ((self.before, other.before), (self.after, other.after)))
        self.before, self.after, self.depth = set(), set(), max(self.depth, other.depth)
        for n in before:
            self.follow(n)
        for n in after:
            n.follow(self)


def current(nodes: Iterable[Node]) -> set[Node]:
    """The nodes into which the given nodes have been merged."""
    found: set[Node] = set()
    for n in nodes:
        while n.merged is not None:
            n = n.merged
        found.add(n)
    return found


def ordered(nodes: set[Node]) -> list[Node]:
    """The nodes, each after those that it depends on; otherwise in order of their first equations."""
    done: dict[Node, bool] = {}
    order: list[Node] = []
    for start in sorted(nodes, key=lambda n: n.number):
        todo = [(start, False)]
        while todo:
            n, finished = todo.pop()
            if finished:
                done[n] = True
                order.append(n)
            elif n not in done:
                done[n] = False
                todo.append((n, True))
                todo += [
                    (m, False)
                    for m in sorted(current(n.before), key=lambda m: -m.number)
                    if m not in done and m is not n
                ]
    return order
