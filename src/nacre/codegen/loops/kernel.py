"""Any kernel nest as vector code: pointwise chains, copies of views, reductions, gathers, scans, updates.

`generate` writes one function by the kernel ABI, `void @NAME(ptr %args, i64 %lo, i64 %hi, ptr %scratch)`: it runs
the work items lo … hi of the kernel's parallel extent.  That extent consists of the outer parallel loops, if these are
perfectly nested; if the innermost of them is a vector loop too, its part is counted in blocks of vectors.

The emitter is composed of parts: `Values` (expressions, loads and stores, with `Accumulators`), `LoopInvariants`,
`NonTemporalStores`, `ReductionLoops` and `TransposedScans`, which `Statements` combines, and `Tiles` of transposed
copies.  `operations` has the scalar operations, `reductions` and `transpose` work on registers, and `analysis` and
`value_range` analyse a nest before code is written.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from nacre.base.dims import Size, product
from nacre.base.records import dataclass
from nacre.codegen.loops.expressions import Values
from nacre.codegen.loops.statements import Statements
from nacre.codegen.loops.transposed_copy import Tiles, Tiling
from nacre.codegen.units import separate_units
from nacre.kernel.ast import For, Kernel, Let, Stmt
from nacre.native.isa import Isa
from nacre.native.llvm import NEST, OPTIMISED
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText
from nacre.runtime.executable import Unit

GRAIN = 256  # elements of a vector loop in a work item, or a vector of the loop if that is more


@dataclass(frozen=True)
class Generated:
    """A generated kernel.

    `text` is an LLVM module that defines `name`; `units` are its parts if they are compiled separately.  The kernel's
    arguments are the addresses of its buffers in order, then `sizes`, evaluated by the caller, as int64s.  `extent` is
    the number of work items, `scratch` the bytes of scratch memory of each thread, 64-byte aligned.
    """

    text: str
    name: str
    units: tuple[Unit, ...]
    sizes: tuple[Size, ...]
    extent: Size
    scratch: Size


def generate(kernel: Kernel, isa: Isa, streams: frozenset[str] = frozenset(), optimised: bool = False) -> Generated:
    """Write a kernel for an instruction set; results named in `streams` bypass the caches where they can.

    LLVM's passes run on an `optimised` one.
    """
    name = re.sub(r"\W", "_", kernel.name)
    module = ModuleText(name, NEST)
    params = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
    writer = Writer(module.function(name, "void", params, isa=isa), isa, kernel, streams)
    extent = writer.write()
    text = f"{OPTIMISED}\n{module.text()}" if optimised else module.text()
    units = () if optimised else separate_units(module, name)
    return Generated(text, name, units, writer.sizes, extent, writer.scratch_size)


class Writer:
    """Writes one kernel function: its values, its statements, and the work items around them."""

    def __init__(self, f: Function, isa: Isa, kernel: Kernel, streams: frozenset[str] = frozenset()) -> None:
        self.f, self.kernel = f, kernel
        self.values = Values(f, isa, kernel)
        self.statements = Statements(self.values, streams)
        self.tiles = Tiles(self.values, self.statements)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that the function reads after the addresses of its buffers."""
        return tuple(self.values.sizes)

    @property
    def scratch_size(self) -> Size:
        """The bytes of scratch memory that the function needs."""
        return self.values.scratch_size

    def write(self) -> Size:
        """Write the whole function; returns the number of work items."""
        self.values.enter()
        body = list(self.kernel.body)
        while body and isinstance(body[0], Let):
            self.statements.statement(body.pop(0))
        nest = body[0] if len(body) == 1 and isinstance(body[0], For) and body[0].parallel else None
        if nest is None:
            with self.f.when(self.f.icmp("slt", self.f["lo"], self.f["hi"])), self.values.scope():
                self.statements.block(body)
            extent: Size = 1
        else:
            extent = self.items(nest)
        self.statements.stores.drain()
        self.f.ret()
        return extent

    # ---- work items

    def items(self, nest: For) -> Size:
        """The parallel loops, flattened to the range of work items."""
        loops = [nest]
        body: Sequence[Stmt] = nest.body
        while not loops[-1].vector and len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
            loops.append(body[0])
            body = body[0].body
        last = loops[-1]
        if last.vector and self.statements.lane_obstacle(last) is None:
            return self.vector_items(loops[:-1], last)
        return self.scalar_items(loops)

    def scalar_items(self, loops: Sequence[For]) -> Size:
        """Write work items that are iterations of the innermost parallel loop."""
        f = self.f
        self.statements.invariants.hoist(loops[0])
        counters = self.counters(loops, f["lo"])
        with f.loop("item", f["lo"], f["hi"], carry=counters) as item:
            self.at(loops, item.carried, loops[-1].body)
            item.next(*self.advanced(loops, item.carried))
        return product([s.extent for s in loops])

    def vector_items(self, loops: Sequence[For], last: For) -> Size:
        """Write work items that are blocks of the innermost parallel loop, which is vectorised."""
        tiling = self.tiles.tiling(loops, last)
        if tiling is not None:
            return self.tile_items(loops, last, tiling)
        f = self.f
        block = max(self.statements.widths(last)[0], GRAIN if not any(isinstance(s, For) for s in last.body) else 1)
        blocks = (last.extent + (block - 1)) // block
        extent = self.values.size(last.extent)
        if not loops:
            self.statements.strips(last, f.mul(f["lo"], block), f.smin(f.mul(f["hi"], block), extent))
            return blocks
        self.statements.invariants.hoist(loops[0])
        in_row = self.values.size(blocks)
        row = f.binary("udiv", f["lo"], f.smax(in_row, 1))
        first = f.sub(f["lo"], f.mul(row, in_row))
        step = Val(f"%{f.fresh('share')}", "i64")
        carry = [first, *self.counters(loops, row)]
        with f.loop("item", f["lo"], f["hi"], step, carry=carry) as item:
            here, *counters = item.carried
            count = f.smin(f.sub(in_row, here), f.sub(f["hi"], item.index))
            f.define(step, count)
            start = f.mul(here, block)
            end = f.smin(f.mul(f.add(here, count), block), extent)
            self.at(loops, counters, (), last, start, end)
            item.next(f.i64(0), *self.advanced(loops, counters))
        return product([s.extent for s in loops]) * blocks

    def tile_items(self, loops: Sequence[For], last: For, tiling: Tiling) -> Size:
        """Write work items that are tiles of two parallel loops, one of them the vector loop."""
        f, n = self.f, tiling.side
        outer = [s for s in loops if s is not tiling.along]
        spans = [replace(s, extent=(s.extent + (n - 1)) // n) for s in (tiling.along, last)]
        counted = [*outer, *spans]
        with f.loop("item", f["lo"], f["hi"], carry=self.counters(counted, f["lo"])) as item:
            after = self.advanced(counted, item.carried)
            with self.indices_at(outer, after):
                following = self.tiles.beginnings(tiling, last, f.mul(after[-2], n), f.mul(after[-1], n))
            starts = [f.mul(c, n) for c in item.carried[-2:]]
            ends = [
                f.smin(f.add(c, n), self.values.size(s.extent))
                for c, s in zip(starts, (tiling.along, last), strict=True)
            ]
            with self.indices_at(outer, item.carried):
                self.tiles.tile(tiling, last, (starts[0], ends[0]), (starts[1], ends[1]), following)
            item.next(*after)
        return product([s.extent for s in counted])

    @contextmanager
    def indices_at(self, loops: Sequence[For], counters: Sequence[Val]) -> Generator[None]:
        """Inside, the indices of the loops are the first counters."""
        with ExitStack() as stack:
            for s, c in zip(loops, counters, strict=False):
                stack.enter_context(self.values.index(s.index, c, s.extent))
            yield

    def counters(self, loops: Sequence[For], item: Val) -> list[Val]:
        """The indices of the loops at a work item."""
        f = self.f
        found: list[Val] = []
        for s in reversed(loops[1:]):
            extent = f.smax(self.values.size(s.extent), 1)
            outer = f.binary("udiv", item, extent)
            found.append(f.sub(item, f.mul(outer, extent)))
            item = outer
        return [item, *reversed(found)]

    def advanced(self, loops: Sequence[For], counters: Sequence[Val]) -> list[Val]:
        """The indices at the next work item."""
        f, found = self.f, list(counters)
        step = f.i64(1)
        for k in range(len(loops) - 1, -1, -1):
            found[k] = f.add(counters[k], step)
            if k:
                wraps = f.icmp("sge", found[k], self.values.size(loops[k].extent))
                found[k] = f.select(wraps, f.i64(0), found[k])
                step = f.cast("zext", wraps, "i64")
        return found

    def at(
        self,
        loops: Sequence[For],
        counters: Sequence[Val],
        body: Sequence[Stmt],
        last: For | None = None,
        start: Val | None = None,
        end: Val | None = None,
    ) -> None:
        """Write the body, or a range of the last loop, inside the loops at the given indices."""
        if loops:
            with self.values.index(loops[0].index, counters[0], loops[0].extent):
                self.at(loops[1:], counters[1:], body, last, start, end)
        elif last is not None and start is not None and end is not None:
            self.statements.strips(last, start, end)
        else:
            self.statements.block(body)
