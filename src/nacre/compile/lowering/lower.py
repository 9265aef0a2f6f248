"""Lowering: a cluster of equations becomes one kernel.

The loops of the kernel run over the domain of the cluster: the outer axes outside, the reduced axes inside, once for
each *pass* (see `levels`).  The row values are computed between passes.  Axes that are adjacent in every operand are
merged first, so that dense kernels have one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nacre.base.dims import Size, product
from nacre.base.dtypes import DType, int64
from nacre.base.records import dataclass
from nacre.base.types import TensorType, row_major
from nacre.compile.fusion.graph import Node
from nacre.compile.fusion.materialisation import Fusion, View
from nacre.compile.lowering.axes import adjacent, mentions_index, merged_axes, merged_stride, uses_indices, with_indices
from nacre.compile.lowering.cost import instructions, work
from nacre.compile.lowering.levels import DomainPass, Levels
from nacre.ir.graph import Atom, Equation, Literal, Var
from nacre.ir.primitive import Element, Reduce
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    cast,
    number_of,
    size_expr,
)
from nacre.kernel.complex.parts import has_complex
from nacre.kernel.loop_partition import long_lanes, partition_loops
from nacre.kernel.rewrite import with_names


@dataclass(frozen=True)
class Lowered:
    """A kernel, and the views of stored values that its buffers are."""

    kernel: Kernel
    reads: tuple[View, ...]
    writes: tuple[Var, ...]
    cost: int  # a rough number of instructions for one iteration of the parallel loops; unknown sizes count as 64


class _Lowering:
    def __init__(self, fusion: Fusion, node: Node, name: str, merge: Sequence[tuple[int, ...]] | None) -> None:
        assert node.domain is not None
        self.fusion, self.node, self.name = fusion, node, name
        self.domain = node.domain
        self.axes = node.axes or ()
        self.outer_axes = tuple(k for k in range(len(self.domain)) if k not in self.axes)
        self.merge = merge if merge is not None else [(k,) for k in range(len(self.domain))]
        self.plain = merge is None  # the first lowering only finds how operands are read
        self.identity = tuple(Index(f"d{k}") for k in range(len(self.domain)))
        self.row_identity = tuple(self.identity[k] for k in self.outer_axes)
        self.inputs: dict[tuple[Atom, View], Buffer] = {}
        self.outputs: dict[Var, Buffer] = {}
        self.own_strides: list[tuple[Size, ...]] = []  # of buffers read or written at the own index
        self.uses_index = False
        self.levels = Levels(fusion, node)
        self.names: dict[Var, Expr] = {}
        self.accumulators: dict[Var, Expr] = {}
        self.memo: dict[tuple[Atom, tuple[Expr, ...]], Expr] = {}
        self.block: list[Stmt] = []
        self.scratch: dict[Var, Buffer] = {}
        self.stored_level: dict[Var, int] = {}
        self.current = 0
        self.bound = 0
        self.order: list[View] = []

    # ---- loops over merged axes

    def loop_index(self, group: int) -> Index:
        """The index variable of a merged group of axes."""
        return Index(f"c{group}")

    def extent(self, group: tuple[int, ...]) -> Size:
        """The number of elements along a group of axes."""
        return product([self.domain[k] for k in group])

    def is_reduced(self, group: tuple[int, ...]) -> bool:
        """Whether the group is of reduced axes."""
        return bool(group) and group[0] in self.axes

    # ---- reading values

    def read(self, x: Atom, index: tuple[Expr, ...]) -> Expr:
        """The element of x at an index."""
        if isinstance(x, Literal) and not x.type.shape:
            return number_of(x.array.item(), x.type.dtype)
        if isinstance(x, Var) and x in self.levels.members:
            return self.own(x, index)
        if self.fusion.in_memory(x):
            return self.load(x, self.fusion.views[x], index)
        key = (x, index)
        if key not in self.memo:
            assert isinstance(x, Var)
            self.memo[key] = self.shared(self.element(self.fusion.producer[x], index))
        return self.memo[key]

    def own(self, v: Var, index: tuple[Expr, ...]) -> Expr:
        """The value of a variable of this node at an index: a name, scratch or a store."""
        if v in self.names:
            return self.names[v]
        if v in self.levels.full and self.is_saved(v):
            if v in self.scratch:
                return Load(self.scratch[v].name, (self.innermost(),), v.type.dtype)
            return Load(self.output(v).name, self.place(index), v.type.dtype)
        e = self.fusion.producer[v]
        value = self.shared(self.element(e, index))
        self.names[v] = value
        return value

    def element(self, e: Equation, index: tuple[Expr, ...]) -> Expr:
        """The scalar expression of the equation's result at an index."""
        low = e.primitive.lowering
        if e.outputs[0] in self.fusion.flat:
            return self.read(e.inputs[0], index)
        assert isinstance(low, Element), e.primitive
        operands = tuple(self.operand(x) for x in e.inputs)
        found = low.rule(index, operands, tuple(x.type for x in e.inputs), e.outputs[0].type, **e.params)
        return with_names(found, self.shared) if e.primitive.outside else found

    def operand(self, x: Atom) -> Callable[[tuple[Expr, ...]], Expr]:
        """A function from an index to the operand's element there."""
        return lambda index: self.read(x, tuple(index))

    def shared(self, e: Expr) -> Expr:
        """Bind a compound expression to a name that its readers share."""
        if not isinstance(e, Apply):
            return e
        self.bound += 1
        name = f"v{self.bound}"
        self.block.append(Let(name, e))
        return Local(name, e.dtype)

    def load(self, x: Atom, view: View, index: tuple[Expr, ...]) -> Expr:
        """A load of a stored atom through its view, at an index of the atom's shape."""
        own = index == self.identity
        row = bool(self.axes) and index == self.row_identity and len(index) == len(view.strides)
        strides = view.strides
        if own or row:
            full = strides if own else self.spread(strides)
            if self.plain:
                self.own_strides.append(full)
            buffer = self.input(x, View(view.base, view.offset, full), self.domain if own else None)
            return Load(buffer.name, self.merged_index(row), x.type.dtype)
        self.note_indices(index)
        buffer = self.input(x, view, None, x.type)
        return Load(buffer.name, index, x.type.dtype)

    def spread(self, strides: tuple[Size, ...]) -> tuple[Size, ...]:
        """Row strides as strides over the whole domain."""
        full: list[Size] = [0] * len(self.domain)
        for k, s in zip(self.outer_axes, strides, strict=True):
            full[k] = s
        return tuple(full)

    def merged_index(self, row: bool) -> tuple[Expr, ...]:
        """The loop indices of all groups, or of the outer groups for a row."""
        groups = [g for g in range(len(self.merge)) if not (row and self.is_reduced(self.merge[g]))]
        return tuple(self.loop_index(g) for g in groups)

    def merged(self, strides: tuple[Size, ...], row: bool) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
        """Shape and strides of a buffer over the merged axes."""
        shape: list[Size] = []
        steps: list[Size] = []
        for group in self.merge:
            if row and self.is_reduced(group):
                continue
            shape.append(self.extent(group))
            steps.append(merged_stride(group, self.domain, strides))
        return tuple(shape), tuple(steps)

    def input(self, x: Atom, view: View, own: object, type: TensorType | None = None) -> Buffer:
        """The buffer that a stored atom is read from, made at its first use."""
        kind = type is None
        key = (x if not kind else view.base, View(view.base, view.offset, (*view.strides, -1 if kind else -2)))
        row = kind and own is None
        key = (key[0], View(view.base, view.offset, (*key[1].strides, int(row))))
        if key not in self.inputs:
            name = f"x{len(self.inputs)}"
            if type is None:
                shape, strides = self.merged(view.strides, row)
            else:
                shape, strides = type.shape, view.strides
            self.inputs[key] = Buffer(name, x.type.dtype, shape, strides)
            self.order.append(view)
        return self.inputs[key]

    def output(self, v: Var) -> Buffer:
        """The buffer that a variable is stored to, made at its first use."""
        if v not in self.outputs:
            row = v in self.levels.row
            strides = row_major(self.domain) if v in self.fusion.flat else self.fusion.views[v].strides
            full = self.spread(strides) if row else strides
            if self.plain:
                self.own_strides.append(full)
            shape, strides = self.merged(full, row)
            self.outputs[v] = Buffer(f"y{len(self.outputs)}", v.type.dtype, shape, strides)
        return self.outputs[v]

    def note_indices(self, index: tuple[Expr, ...]) -> None:
        """Record whether the kernel computes with loop indices."""
        if any(mentions_index(i) for i in index):
            self.uses_index = True

    def place(self, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The merged loop indices for a full or a row index."""
        return self.merged_index(index != self.identity)

    # ---- the body

    def build(self) -> Lowered:
        """The kernel of the node, with the buffers it reads and writes."""
        passes = self.levels.passes()
        body: list[Stmt] = []
        total = 0
        self.row_statements(-1, body)
        for k, each in enumerate(passes):
            self.current = k
            if self.axes or k == 0:
                total += self.sweep(each, body)
            self.row_statements(k, body)
        for group in reversed(range(len(self.merge))):
            if not self.is_reduced(self.merge[group]):
                body = [
                    For(
                        self.loop_index(group).name,
                        self.extent(self.merge[group]),
                        tuple(body),
                        parallel=True,
                        vector=group == self.vector_group(),
                    )
                ]
        writes = tuple(self.outputs)
        kernel = Kernel(self.name, tuple(self.inputs.values()), tuple(self.outputs.values()), tuple(body))
        return Lowered(kernel, tuple(self.order), writes, max(1, total))

    def vector_group(self) -> int:
        """The group of axes that vector lanes run along: the last one."""
        return len(self.merge) - 1

    def row_statements(self, finished: int, body: list[Stmt]) -> None:
        """Row values that are known after pass `finished`, and stores of those that are stored values."""
        self.block, self.memo = [], {}  # names of a pass are known only inside its loops
        for e in self.node.equations:
            v = e.outputs[0]
            if self.levels.row.get(v) != finished + 1:
                continue
            value = self.accumulators[v] if v in self.accumulators else self.own(v, self.row_identity)
            self.names[v] = value
            if v in self.fusion.stored:
                self.block.append(Store(self.output(v).name, self.merged_index(True), value))
        body += self.block
        self.block = []

    def sweep(self, each: DomainPass, body: list[Stmt]) -> int:
        """One pass: loops over the reduced axes around its statements.  Returns the cost."""
        rows = {v: n for v, n in self.names.items() if v in self.levels.row}
        self.names, self.memo, self.block = dict(rows), {}, []
        targets: list[tuple[Equation, list[Buffer]]] = []
        self.compute(each)
        for v in each.roots:
            self.block.append(Store(self.output(v).name, self.merged_index(False), self.own(v, self.identity)))
            self.stored_level[v] = self.current
        for v in each.saved:
            value = self.own(v, self.identity)
            if self.can_save():
                self.block.append(Store(self.save(v, body).name, (self.innermost(),), value))
                self.stored_level[v] = self.current
        updates: list[tuple[Equation, tuple[Expr, ...]]] = []
        for e in each.reductions:
            value = self.read(e.inputs[0], self.identity)
            updates.append((e, self.reduced_values(e, value)))
        inner = self.block
        if not self.axes:
            body += inner
            self.names = rows
            return instructions(inner)
        if not updates and not inner:
            return 0
        for e, values in updates:
            number = len(self.accumulators) + len(targets)
            targets.append((e, [Buffer(f"a{number}_{k}", x.dtype, ()) for k, x in enumerate(values)]))
        cost = instructions(inner) + sum(1 + sum(map(work, values)) for _, values in updates)
        body += self.reduction_loops(inner, updates, targets)
        for e, accumulators in targets:
            last = accumulators[-1]
            result = cast(Load(last.name, (), last.dtype), e.outputs[0].type.dtype)
            name = f"r{len(self.accumulators)}"
            body.append(Let(name, result))
            self.accumulators[e.outputs[0]] = Local(name, result.dtype)
        self.names = rows
        size = product([s for k, s in enumerate(self.domain) if k in self.axes])
        return cost * (size if isinstance(size, int) else 64)

    def compute(self, each: DomainPass) -> None:
        """Bind the values that a pass reads to names, operands first, so that long chains need no recursion."""
        wanted = {*each.roots, *each.saved, *(e.inputs[0] for e in each.reductions)}
        needed: list[Equation] = []
        for e in reversed(self.node.equations):
            v = e.outputs[0]
            if v in wanted and v in self.levels.full and v not in self.names:
                needed.append(e)
                if not self.is_saved(v):
                    wanted.update(self.operands_of(e))
        for e in reversed(needed):
            self.own(e.outputs[0], self.identity)

    def operands_of(self, e: Equation) -> Iterator[Atom]:
        """The values that an equation reads, also through values that are computed where they are read."""
        for x in e.inputs:
            yield x
            if x not in self.levels.members and not self.fusion.in_memory(x) and x in self.fusion.producer:
                yield from self.operands_of(self.fusion.producer[x])  # type: ignore[index]

    def is_saved(self, v: Var) -> bool:
        """Whether v is read from the memory that an earlier pass wrote."""
        return v in self.stored_level and self.stored_level[v] < self.current and self.levels.is_expensive(v)

    def can_save(self) -> bool:
        """Whether a row of values can be saved in scratch memory between passes."""
        reduced = [g for g in self.merge if self.is_reduced(g)]
        return bool(self.axes) and len(reduced) == 1 and self.is_reduced(self.merge[-1])

    def innermost(self) -> Index:
        """The index of the innermost group."""
        return self.loop_index(len(self.merge) - 1)

    def save(self, v: Var, body: list[Stmt]) -> Buffer:
        """A scratch buffer for one row of the variable."""
        buffer = Buffer(f"s{len(self.scratch)}", v.type.dtype, (self.extent(self.merge[-1]),))
        self.scratch[v] = buffer
        body.append(Alloc(buffer))
        return buffer

    def reduced_values(self, e: Equation, value: Expr) -> tuple[Expr, ...]:
        """The values that a reduction accumulates: the operand, and its position for argmax and argmin."""
        low = e.primitive.lowering
        assert isinstance(low, Reduce)
        if low.op in ("argmax", "argmin"):
            return value, self.position(e)
        if low.op in ("sum", "prod") and value.dtype.is_widened:
            return (cast(value, value.dtype.arithmetic),)
        if low.op in ("sum", "prod"):
            return (cast(value, e.outputs[0].type.dtype),)
        return (value,)

    def position(self, e: Equation) -> Expr:
        """The index along the one reduced axis."""
        self.uses_index = True
        axes: tuple[int, ...] = e.params["axes"]
        return self.identity[axes[0]]

    def reduction_loops(
        self,
        inner: list[Stmt],
        updates: list[tuple[Equation, tuple[Expr, ...]]],
        targets: list[tuple[Equation, list[Buffer]]],
    ) -> list[Stmt]:
        """Nested loops, one for each run of adjacent reduced axes; the innermost run is reduced first."""
        runs = self.reduced_runs()
        block: list[Stmt] = list(inner)
        for depth in reversed(range(len(runs))):
            innermost = depth == len(runs) - 1
            allocs: list[Stmt] = []
            for (e, values), (_, final) in zip(updates, targets, strict=True):
                low = e.primitive.lowering
                assert isinstance(low, Reduce)
                names = tuple(f"{b.name}_at{depth}" if depth else b.name for b in final)
                allocs += [Alloc(Buffer(n, b.dtype, ())) for n, b in zip(names, final, strict=True)]
                folded = values if innermost else tuple(Load(f"{b.name}_at{depth + 1}", (), b.dtype) for b in final)
                block.append(Accumulate(low.op, names, folded))
            block = [*allocs, self.run_loop(runs[depth], block, innermost)]
        return block

    def reduced_runs(self) -> list[list[int]]:
        """The reduced groups, divided into runs that are adjacent in the domain."""
        runs: list[list[int]] = []
        for g, group in enumerate(self.merge):
            if self.is_reduced(group):
                if runs and runs[-1][-1] == g - 1:
                    runs[-1].append(g)
                else:
                    runs.append([g])
        return runs

    def run_loop(self, run: list[int], block: list[Stmt], innermost: bool) -> Stmt:
        """One loop over a run of adjacent groups around the block."""
        vector = innermost and run[-1] == self.vector_group()
        if len(run) == 1:
            g = run[0]
            return For(self.loop_index(g).name, self.extent(self.merge[g]), tuple(block), vector=vector)
        flat = Index("m" + str(run[0]))
        extents = [self.extent(self.merge[g]) for g in run]
        rest: Expr = flat
        lets: list[Stmt] = []
        renamed: dict[str, Expr] = {}
        for g, n in reversed(list(zip(run, extents, strict=True))):
            name = self.loop_index(g).name
            if g == run[0]:
                value = rest
            else:
                value = Apply("rem", (rest, size_expr(n)), int64)
            lets.append(Let(f"{name}_of", value))
            renamed[name] = Local(f"{name}_of", int64)
            rest = Apply("idiv", (rest, size_expr(n)), int64)
        inner = tuple(with_indices(s, renamed) for s in block)
        return For(flat.name, product(extents), (*lets, *inner))


def lower(fusion: Fusion, node: Node, name: str) -> Lowered:
    """The kernel of a cluster."""
    first = _Lowering(fusion, node, name, None)
    lowered = first.build()
    apart = uses_indices(lowered.kernel, {i.name for i in first.identity}) or first.uses_index
    groups = merged_axes(first.domain, first.axes, first.own_strides, apart)
    second = _Lowering(fusion, node, name, groups)
    if apart:
        second.identity = tuple(Index(f"c{k}") for k in range(len(second.domain)))
        second.row_identity = tuple(second.identity[k] for k in second.outer_axes)
    built = second.build()
    if node.equations[0].outputs[0] in fusion.flat:
        return replace(built, kernel=long_lanes(built.kernel))
    return replace(built, kernel=partition_loops(built.kernel)) if apart else built


def lower_over(fusion: Fusion, node: Node, name: str, groups: Sequence[tuple[int, ...]]) -> Lowered | None:
    """The kernel of a pointwise cluster over given groups of axes; None if its buffers do not allow the groups.

    None also for complex numbers, which only kernels of their own take apart.
    """
    first = _Lowering(fusion, node, name, None)
    lowered = first.build()
    if (
        not lowered.writes
        or has_complex(lowered.kernel)
        or first.uses_index
        or uses_indices(lowered.kernel, {i.name for i in first.identity})
    ):
        return None
    for group in groups:
        for k in range(1, len(group)):
            if not all(adjacent(group[:k], group[k], first.domain, s) for s in first.own_strides):
                return None
    return _Lowering(fusion, node, name, groups).build()


def lower_apart(fusion: Fusion, node: Node, name: str) -> Lowered:
    """The kernel of a pointwise cluster over the axes of its domain, none of which are merged."""
    assert node.domain is not None
    found = _Lowering(fusion, node, name, [(k,) for k in range(len(node.domain))])
    found.identity = tuple(Index(f"c{k}") for k in range(len(node.domain)))
    return found.build()


def copy_kernel(type: TensorType, strides: tuple[Size, ...], dtype: DType, name: str) -> Kernel:
    """A kernel that copies a strided view to dense memory."""
    index = tuple(Index(f"c{k}") for k in range(type.rank))
    source = Buffer("x0", dtype, type.shape, strides)
    target = Buffer("y0", dtype, type.shape, row_major(type.shape))
    body: tuple[Stmt, ...] = (Store("y0", index, Load("x0", index, dtype)),)
    for k in reversed(range(type.rank)):
        body = (For(f"c{k}", type.shape[k], body, parallel=True, vector=k == type.rank - 1),)
    return Kernel(name, (source,), (target,), body)
