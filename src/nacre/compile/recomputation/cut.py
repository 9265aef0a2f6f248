"""The values to keep across a boundary for a price of memory: a minimum cut.

Each value that is read behind the boundary stays in memory, for the price of its bytes, or its unit runs again, for its
work.  The operands of that unit must then be there, too.  The cheapest choice is a minimum cut between the values that
are read and the work.  An arc from a copy to its unit has the price of the copy, an arc from a unit to the sink its
work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nacre.compile.recomputation.timeline import Timeline

UNBOUNDED: Final = 1 << 80
SCALE: Final = 1 << 10  # of capacities, which are whole numbers


class FlowNetwork:
    """A network of arcs with capacities, and its maximum flow by Dinic's algorithm (Dinitz 1970)."""

    def __init__(self, nodes: int) -> None:
        self.arcs: list[list[int]] = [[] for _ in range(nodes)]  # numbers of the arcs that leave a node
        self.head: list[int] = []
        self.room: list[int] = []

    def add(self, tail: int, head: int, capacity: int) -> None:
        """Add an arc, and the reverse one without capacity; the numbers of the two differ in the last bit."""
        self.arcs[tail].append(len(self.head))
        self.arcs[head].append(len(self.head) + 1)
        self.head += [head, tail]
        self.room += [capacity, 0]

    def levels(self, source: int) -> list[int]:
        """For each node its distance from the source along arcs with room; −1 for those out of reach."""
        found = [-1] * len(self.arcs)
        found[source] = 0
        todo = [source]
        for node in todo:
            for arc in self.arcs[node]:
                head = self.head[arc]
                if self.room[arc] and found[head] < 0:
                    found[head] = found[node] + 1
                    todo.append(head)
        return found

    def reached(self, source: int, sink: int) -> list[bool]:
        """For each node whether it is on the source's side of a minimum cut."""
        while (level := self.levels(source))[sink] >= 0:
            self.fill(source, sink, level)
        return [distance >= 0 for distance in level]

    def fill(self, source: int, sink: int, level: Sequence[int]) -> None:
        """Send flow along all shortest paths."""
        following = [0] * len(self.arcs)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                flow = min(self.room[arc] for arc in path)
                for arc in path:
                    self.room[arc] -= flow
                    self.room[arc ^ 1] += flow
                full = next(k for k, arc in enumerate(path) if not self.room[arc])
                node = self.head[path[full] ^ 1]
                del path[full:]
                continue
            arcs = self.arcs[node]
            while following[node] < len(arcs):
                arc = arcs[following[node]]
                if self.room[arc] and level[self.head[arc]] == level[node] + 1:
                    path.append(arc)
                    node = self.head[arc]
                    break
                following[node] += 1
            else:
                if node == source:
                    return
                back = path.pop()
                node = self.head[back ^ 1]
                following[node] += 1


def kept_at(line: Timeline, boundary: int, price: float) -> frozenset[int]:
    """The copies to keep across a boundary if a byte has the price of some work."""
    made, droppable, program = line.made, line.droppable, line.program
    wanted = [c for c in line.crossing(boundary) if c in droppable]
    copies: dict[int, int] = {}
    units: dict[int, int] = {}
    todo = list(wanted)
    while todo:
        c = todo.pop()
        if c in copies:
            continue
        copies[c] = 2 + len(copies) + len(units)
        if made[c] not in units:
            units[made[c]] = 2 + len(copies) + len(units)
            todo += [x for x in line.runs[made[c]].reads if x in droppable]
    network = FlowNetwork(2 + len(copies) + len(units))
    for c in wanted:
        network.add(0, copies[c], UNBOUNDED)
    for c, node in copies.items():
        network.add(node, units[made[c]], int(program.nbytes[line.values[c]] * price * SCALE) + 1)
    for k, node in units.items():
        network.add(node, 1, program.units[line.runs[k].unit].work * SCALE)
        for x in line.runs[k].reads:
            if x in droppable:
                network.add(node, copies[x], UNBOUNDED)
    reached = network.reached(0, 1)
    return frozenset(c for c, node in copies.items() if reached[node] and not reached[units[made[c]]])


def prices(line: Timeline, boundary: int, most: int) -> list[float]:
    """Prices of a byte in work at which choices at a boundary may change, from the least to the greatest."""
    program = line.program
    ratios = sorted(
        max(1, program.units[line.runs[line.made[c]].unit].work) / program.nbytes[line.values[c]]
        for c in line.crossing(boundary)
        if c in line.droppable
    )
    if not ratios:
        return []
    low, high = ratios[0] / 2, sum(program.units[run.unit].work for run in line.runs) / min(program.little, 1 << 20)
    high = max(4 * ratios[-1], min(high, 64 * ratios[-1]))
    step = (high / low) ** (1 / max(1, most - 1))
    return [low * step**k for k in range(most)]
