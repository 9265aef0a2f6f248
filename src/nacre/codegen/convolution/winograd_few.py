"""Winograd products of few tiles: filters are transformed in registers at a row of points, and multiplied at once.

If all sums of a row of points and of a vector of outputs fit the registers, the transformed filters are not stored, and
the products hide the latency of reading the filters.
"""

from __future__ import annotations

from nacre.codegen.convolution.sequence import product, store_sums
from nacre.codegen.convolution.winograd_domain import WinogradKernel
from nacre.codegen.convolution.winograd_filters import KINDS, FilterRow, rows_by_kind
from nacre.kernel.order_winograd import PATCH
from nacre.native.llvm_values import Operand, Val

SPARE = 8  # registers beside those of sums


class FewTiles:
    """The parts of a kernel that multiply blocks of few tiles: its small enough register tiles."""

    def __init__(self, w: WinogradKernel) -> None:
        self.w = w
        self.sizes = [n for n in w.plan.rows if PATCH * n + SPARE <= w.plan.registers]
        for n in self.sizes:
            for kind in KINDS:
                self._write(n, kind)

    def taken(self, tiles: Val) -> Val:
        """Whether a block of the given number of tiles is multiplied here."""
        f = self.w.k.f
        found = f.const("i1", False)
        for n in self.sizes:
            found = f.or_(found, f.icmp("eq", tiles, n))
        return found

    def multiply(
        self,
        row: Val,
        stage: Val,
        following: Val,
        v: Val,
        step: Operand,
        spaces: tuple[Val, Val],
        tiles: Val,
        channels: tuple[Operand, Operand],
    ) -> None:
        """Multiply a block's tiles at a row of points with staged filters, of channels start … end of a chunk.

        `v` is for the first of the channels and points.  The filters staged at `following` are prefetched.
        """
        w, k, f, plan = self.w, self.w.k, self.w.k.f, self.w.plan
        chain = w.chain(spaces, channels)
        depth = f.sub(f.i64(channels[1]), channels[0])
        with f.loop("lane", 0, plan.width, k.lanes) as lane:
            place = f.add(f.mul(row, PATCH * plan.sums_step), lane.index)
            staged, next_filters = f.gep(stage, lane.index, k.scalar), f.add(f.mul(row, plan.width), lane.index)
            arguments = [f.gep(following, next_filters, k.scalar), v, f.i64(step), *chain.at(place), depth]
            rows = rows_by_kind(k, row, staged, plan.width, plan.sides.turned)
            for n in self.sizes:
                for kind, (chosen, source, numbers) in rows.items():
                    with f.when(f.and_(f.icmp("eq", tiles, n), chosen)):
                        f.call(f"few_{kind}_{n}", "void", [source, numbers, *arguments])

    def _write(self, n: int, kind: str) -> None:
        """Write @few_kind_n(stage, numbers, following, v, step, before, sums, first, depth), of a vector of outputs."""
        w, k, plan = self.w, self.w.k, self.w.plan
        f = k.internal(
            f"few_{kind}_{n}",
            {
                "stage": "ptr",
                "numbers": "ptr",
                "following": "ptr",
                "v": "ptr",
                "step": "i64",
                "before": "ptr",
                "sums": "ptr",
                "first": "i1",
                "depth": "i64",
            },
        )
        row = FilterRow(k, f, plan.width, plan.sides.turned, kind)
        at = [p * plan.sums_step + i * plan.width for p in range(PATCH) for i in range(n)]
        sums = [f.load(f.gep(f["before"], place, k.scalar), k.vector) for place in at]
        tiles = [f.gep(f["v"], product(f, f["step"], p), k.scalar) for p in range(PATCH)]
        with f.loop("c", 0, f["depth"], carry=sums) as c:
            place = f.mul(c.index, 9 * plan.width)
            source, next_filters = (f.gep(f[name], place, k.scalar) for name in ("stage", "following"))
            w.prefetch_taps(f, next_filters, PATCH)
            numbers = row.numbers(f["numbers"])  # no registers are left for them beside the sums
            values = row.values(source, numbers)
            carried = iter(c.carried)
            following: list[Val] = []
            for p, tile in enumerate(tiles):
                u, here = row.scaled(values, p, numbers), f.gep(tile, c.index, k.scalar)
                for i in range(n):
                    spread = f.splat(f.load(f.gep(here, i * plan.chunk, k.scalar), k.scalar), k.lanes)
                    following.append(f.fma(spread, u, next(carried)))
            c.next(*following)
        store_sums(f, c.results, [f.gep(f["sums"], place, k.scalar) for place in at], f["first"])
        f.ret()
