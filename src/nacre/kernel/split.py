"""Splitting one long reduction into two kernels: one reduces blocks, one combines their results.

Blocks of a power of two are subtrees of the canonical tree.  The first kernel reduces the whole blocks in parallel.
The second reduces the rest, then the tree of the blocks, whose last leaf is the rest.  The bits are those of one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.base.dims import Size
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Load,
    Stmt,
    Store,
    While,
    apply,
    const,
    index_add,
    index_mul,
    size_expr,
)
from nacre.kernel.dependence import accumulated, written
from nacre.kernel.order import NO_INDEX, empty, identity
from nacre.kernel.rewrite import substitute

BLOCK = 1 << 15  # elements of the reduced axis in a block


def split(kernel: Kernel, block: int = BLOCK) -> tuple[Kernel, Kernel] | None:
    """A kernel for blocks, and one that combines their results; None unless the kernel is one loop that only reduces.

    The first kernel has the inputs of the original.  It writes one buffer for each accumulator, of shape (blocks + 1,
    *outer axes), without its last element.  The second kernel takes these buffers after the inputs.  `block` is a power
    of two.
    """
    chain: list[For] = []
    body: Sequence[Stmt] = kernel.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
        chain.append(body[0])
        body = body[0].body
    loops = [s for s in body if isinstance(s, For)]
    if len(loops) != 1 or any(isinstance(s, If | While) for s in body) or not _only_folds(loops[0]):
        return None
    folds = [s for s in loops[0].body if isinstance(s, Accumulate)]
    names = {a for s in folds for a in s.accumulators}
    before = body[: body.index(loops[0])]
    if any(not isinstance(s, Alloc) for s in before):
        return None
    if {s.buffer.name for s in before if isinstance(s, Alloc)} != names:
        return None
    if isinstance(loops[0].extent, int) and loops[0].extent < 2 * block:
        return None
    return _Split(kernel, chain, loops[0], [s.buffer for s in before if isinstance(s, Alloc)], folds, block).kernels(
        body[body.index(loops[0]) + 1 :]
    )


def _only_folds(s: For) -> bool:
    direct = [a for t in s.body if isinstance(t, Accumulate) for a in t.accumulators]
    return bool(direct) and set(written(s.body)) == set(accumulated(s.body)) == set(direct)


class _Split:
    def __init__(
        self,
        kernel: Kernel,
        chain: Sequence[For],
        loop: For,
        scalars: Sequence[Buffer],
        folds: Sequence[Accumulate],
        block: int,
    ) -> None:
        self.kernel, self.chain, self.loop, self.block = kernel, chain, loop, block
        self.scalars, self.folds = scalars, folds
        self.ops = {a: s.op for s in folds for a in s.accumulators}
        self.positions = {s.accumulators[1] for s in folds if len(s.accumulators) > 1}  # of argmax and argmin
        self.blocks: Size = loop.extent // block
        self.rest: Size = loop.extent - self.blocks * block
        kept = tuple(s.extent for s in chain)
        self.parts = {b.name: Buffer(f"{b.name}_parts", b.dtype, (self.blocks + 1, *kept)) for b in scalars}
        self.number = Index(f"{loop.index}_block")
        self.place: tuple[Expr, ...] = (self.number, *(Index(s.index) for s in chain))

    def kernels(self, after: Sequence[Stmt]) -> tuple[Kernel, Kernel]:
        """The kernel of all blocks' partial results, and the one that combines them."""
        name, outputs = self.kernel.name, tuple(self.parts.values())
        first = self.around(self.of_block(), For(self.number.name, self.blocks, (), parallel=True))
        second = self.around((*self.finish(), *after))
        return (
            Kernel(f"{name}_blocks", self.kernel.inputs, outputs, first),
            Kernel(f"{name}_rest", (*self.kernel.inputs, *outputs), self.kernel.outputs, second),
        )

    def around(self, body: Sequence[Stmt], *outer: For) -> tuple[Stmt, ...]:
        """A body inside the parallel loops."""
        for s in reversed((*outer, *self.chain)):
            body = (replace(s, body=tuple(body)),)
        return tuple(body)

    def folding(self, extent: Size, start: Expr) -> For:
        """The loop over a section of the reduced axis."""
        index = index_add(start, Index(self.loop.index))
        return replace(self.loop, extent=extent, body=substitute(self.loop.body, {self.loop.index: index}))

    def of_block(self) -> tuple[Stmt, ...]:
        """The statements that reduce one block and store its partial results."""
        start = index_mul(self.number, const(self.block))
        stores = (Store(self.parts[b.name].name, self.place, _scalar(b)) for b in self.scalars)
        return (*map(Alloc, self.scalars), self.folding(self.block, start), *stores)

    def finish(self) -> tuple[Stmt, ...]:
        """Reduce the rest, and combine it with the blocks' results."""
        sums = {b.name: replace(b, name=f"{b.name}_sum") for b in self.scalars}
        rests = {b.name: replace(b, name=f"{b.name}_rest") for b in self.scalars}
        rest = self.folding(self.rest, size_expr(self.blocks * self.block))
        renamed = tuple(
            replace(s, accumulators=tuple(rests[a].name for a in s.accumulators)) if isinstance(s, Accumulate) else s
            for s in rest.body
        )
        leaves = {b.name: self.leaf(b, _scalar(rests[b.name])) for b in self.scalars}
        parts = tuple(
            Accumulate(s.op, tuple(sums[a].name for a in s.accumulators), tuple(leaves[a] for a in s.accumulators))
            for s in self.folds
        )
        return (
            *map(Alloc, rests.values()),
            replace(rest, body=renamed),
            *map(Alloc, sums.values()),
            For(self.number.name, self.blocks + 1, parts, vector=self.loop.vector),
            *map(Alloc, self.scalars),
            *(Store(b.name, (), self.result(b, _scalar(sums[b.name]))) for b in self.scalars),
        )

    def leaf(self, b: Buffer, rest: Load) -> Expr:
        """A leaf of the tree of blocks: the result of a block, or for the last leaf that of the rest, maybe empty."""
        absent = Const(NO_INDEX if b.name in self.positions else identity(self.ops[b.name], b.dtype), b.dtype)
        last = apply("select", apply("eq", size_expr(self.rest), const(0)), absent, rest)
        block = Load(self.parts[b.name].name, self.place, b.dtype)
        return apply("select", apply("lt", self.number, size_expr(self.blocks)), block, last)

    def result(self, b: Buffer, tree: Load) -> Expr:
        """The result of the whole reduction; the tree of an absent leaf differs from the empty reduction."""
        nothing = Const(NO_INDEX if b.name in self.positions else empty(self.ops[b.name], b.dtype), b.dtype)
        return apply("select", apply("eq", size_expr(self.loop.extent), const(0)), nothing, tree)


def _scalar(b: Buffer) -> Load:
    return Load(b.name, (), b.dtype)
