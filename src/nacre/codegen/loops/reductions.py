"""Reductions in the canonical order of `kernel.order`: combining two values, a vector's lanes, a block, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from nacre.base.dtypes import DType, float32, float64, int64
from nacre.base.records import dataclass
from nacre.codegen.loops.operations import constant, operate
from nacre.codegen.single_instructions import larger
from nacre.kernel.order import NO_INDEX, empty, identity, in_any_order
from nacre.native.llvm_types import bits_of, lanes_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function

ADD = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


@dataclass(frozen=True)
class Reduction:
    """One `Accumulate`: its operation, its accumulators, and their dtypes."""

    op: str
    names: tuple[str, ...]
    dtypes: tuple[DType, ...]

    @property
    def dtype(self) -> DType:
        """The dtype of the first accumulator."""
        return self.dtypes[0]

    @property
    def anonymous(self) -> Reduction:
        """The reduction with other names, for code that kernels share."""
        return Reduction(self.op, tuple(f"sum{k}" for k in range(len(self.names))), self.dtypes)

    @property
    def is_tree(self) -> bool:
        """Whether the order must be that of the canonical tree; other reductions have the same bits in any order."""
        return not in_any_order(self.op, self.dtype)

    @property
    def picks(self) -> bool:
        """Whether it selects an element and its index (argmax, argmin)."""
        return len(self.names) == 2

    @property
    def sticks(self) -> bool:
        """Whether NaN has a register besides the greatest (least) number, which is faster than IEEE's maximum."""
        return self.op in ("max", "min") and self.dtype in (float32, float64)

    @property
    def slots(self) -> tuple[str, ...]:
        """The registers of the state: the accumulators, and a NaN once there was one."""
        return (*self.names, f"{self.names[0]}.nan") if self.sticks else self.names

    def element(self, values: Sequence[Val]) -> list[Val]:
        """The state of one element."""
        return [values[0], values[0]] if self.sticks else list(values)

    def finish(self, f: Function, state: Sequence[Val]) -> Val:
        """The value of the first accumulator."""
        if not self.sticks:
            return state[0]
        return f.select(f.fcmp("uno", state[1], state[1]), state[1], state[0])

    def start(self, f: Function, lanes: int) -> list[Val]:
        """The state of no elements, the identity of the reduction, in every lane."""
        values = [constant(f, self.dtype, identity(self.op, self.dtype), lanes)]
        if self.sticks:
            return [*values, constant(f, self.dtype, 0, lanes)]
        return [*values, f.const(vec("i64", lanes), NO_INDEX)] if self.picks else values

    def nothing(self, f: Function, lanes: int) -> Val:
        """The reduction of no elements."""
        return constant(f, self.dtype, empty(self.op, self.dtype), lanes)

    def combine(self, f: Function, a: Sequence[Val], b: Sequence[Val]) -> list[Val]:
        """The state of a followed by b."""
        if self.sticks:
            number = self._beyond(f, a[0], b[0])
            return [number] if len(a) == 1 else [number, f.select(f.fcmp("uno", b[1], b[1]), b[1], a[1])]
        if not self.picks:
            return [operate(f, ADD[self.op], [a[0], b[0]], self.dtype, self.dtype)]
        better = self._better(f, a, b)
        return [f.select(better, y, x) for x, y in zip(a, b, strict=True)]

    def follow(self, f: Function, a: Sequence[Val], b: Sequence[Val]) -> list[Val]:
        """The state a followed by an element b, whose index is greater than all of a."""
        if not self.picks:
            return self.combine(f, a, b)
        first = f.icmp("eq", a[1], f.const(a[1].ty, NO_INDEX))
        better = f.or_(first, self._passes(f, a[0], b[0]))
        return [f.select(better, y, x) for x, y in zip(a, b, strict=True)]

    def _passes(self, f: Function, a: Val, b: Val) -> Val:
        """Whether b is the first NaN, or greater (less) than a."""
        if self.dtype in (float32, float64):  # one comparison for a greater number or a NaN
            return f.and_(f.fcmp("ugt" if self.op == "argmax" else "ult", b, a), f.fcmp("ord", a, a))
        passed = operate(f, "gt" if self.op == "argmax" else "lt", [b, a], self.dtype, self.dtype)
        if not self.dtype.is_float:
            return passed
        nan_a, nan_b = (operate(f, "isnan", [v], self.dtype, self.dtype) for v in (a, b))
        return f.and_(f.or_(passed, nan_b), f.xor(nan_a, f.const(nan_a.ty, True)))

    def _beyond(self, f: Function, a: Val, b: Val) -> Val:
        """The greater (less) of two numbers, zeros by their sign; any value if one is NaN."""
        at_once = larger(f, a, b, smaller=self.op == "min")
        if at_once is not None:
            return at_once
        past = "ogt" if self.op == "max" else "olt"
        one = f.select(f.fcmp(past, b, a), b, a)
        other = f.select(f.fcmp(past, a, b), a, b)  # differs from the one only for zeros of both signs, and NaN
        bits = vec(f"i{self.dtype.bits}", lanes_of(a.ty))
        x, y = f.bitcast(one, bits), f.bitcast(other, bits)
        return f.bitcast(f.and_(x, y) if self.op == "max" else f.or_(x, y), a.ty)

    def _better(self, f: Function, a: Sequence[Val], b: Sequence[Val]) -> Val:
        """Whether b's element is chosen over a's: the first NaN, else the greatest (least), the first of equal ones."""

        def compare(op: str, x: Val, y: Val, dtype: DType) -> Val:
            """The comparison `op` of two values."""
            return operate(f, op, [x, y], dtype, dtype)

        beyond = "gt" if self.op == "argmax" else "lt"
        better = compare(beyond, b[0], a[0], self.dtype)
        level = compare("eq", b[0], a[0], self.dtype)
        if self.dtype.is_float:
            nan_a = operate(f, "isnan", [a[0]], self.dtype, self.dtype)
            nan_b = operate(f, "isnan", [b[0]], self.dtype, self.dtype)
            better = f.or_(better, f.and_(nan_b, f.xor(nan_a, f.const(nan_a.ty, True))))
            level = f.or_(level, f.and_(nan_a, nan_b))
        return f.or_(better, f.and_(level, compare("lt", b[1], a[1], int64)))

    # ---- lanes

    def lanes(self, f: Function, state: Sequence[Val]) -> list[Val]:
        """The reduction of a vector's lanes; for trees, of consecutive elements."""
        count = lanes_of(state[0].ty)
        if self.is_tree:
            (value,), step = state, 1
            while step < count:  # only lane 0 is used; the others are free
                swapped = f.shuffle(value, value, [k ^ step for k in range(count)])
                (value,) = self.combine(f, [value], [swapped])
                step *= 2
            return [value if count == 1 else f.extract(value, 0)]
        if self.sticks and count > 1:
            return [*self.narrowed(f, state[:1], 1), self._any_nan(f, state[1])]
        return self.narrowed(f, state, 1)

    def _any_nan(self, f: Function, v: Val) -> Val:
        """A NaN if any lane has one, found without a comparison of each lane; else 0."""
        found = f.fcmp("uno", v, v)
        some = f.intrinsic("vector.reduce.or", "i1", [found], overload=[found.ty])
        return f.select(some, constant(f, self.dtype, nan), constant(f, self.dtype, 0))

    def narrowed(self, f: Function, state: Sequence[Val], lanes: int) -> list[Val]:
        """The state reduced to fewer lanes, in any order."""
        while (n := lanes_of(state[0].ty)) > lanes:
            halves = [[_part(f, v, part) for v in state] for part in (range(n // 2), range(n // 2, n))]
            state = self.combine(f, halves[0], halves[1])
        return list(state)


def _part(f: Function, v: Val, lanes: Sequence[int]) -> Val:
    """Some lanes of a vector; one lane is a scalar."""
    return f.extract(v, lanes[0]) if len(lanes) == 1 else f.shuffle(v, v, lanes)


class Stack:
    """The sums of finished blocks, merged like the carries of a binary counter, in stack memory."""

    def __init__(self, f: Function, reduction: Reduction, ty: str, pointer: Val) -> None:
        self.f, self.reduction, self.ty, self.pointer = f, reduction, ty, pointer

    def push(self, value: Val, top: Val, block: Val) -> Val:
        """Add the sum of the block with a number; `top` sums are on the stack.  Returns the new top."""
        f = self.f
        number = f.add(block, 1)
        merges = f.intrinsic("cttz", "i64", [number, f.const("i1", True)], stem="v")
        base = f.sub(top, merges)
        with f.loop("merge", 0, merges, carry=[value]) as loop:
            below = f.gep(self.pointer, f.sub(f.sub(top, loop.index), 1), self.ty)
            loop.next(self._merge(f.load(below, self.ty), loop.carried[0]))
        f.store(loop.results[0], f.gep(self.pointer, base, self.ty))
        return f.add(base, 1)

    def fold(self, top: Val) -> Val:
        """The total of the sums on the stack, at least one, combined from the latest on."""
        f = self.f
        last = f.sub(top, 1)
        value = self._whole(f.load(f.gep(self.pointer, last, self.ty), self.ty))
        return self.fold_with(value, last)

    def fold_with(self, value: Val, top: Val) -> Val:
        """The total of the sums on the stack followed by a last value."""
        f = self.f
        with f.loop("fold", 0, top, carry=[value]) as loop:
            below = f.gep(self.pointer, f.sub(f.sub(top, loop.index), 1), self.ty)
            loop.next(self._combine(self._whole(f.load(below, self.ty)), loop.carried[0]))
        return loop.results[0]

    def result(self, top: Val) -> Val:
        """The whole reduction; that of no elements if the stack is empty."""
        f = self.f
        some = f.icmp("sgt", top, 0)
        value = self.fold(f.smax(top, 1))
        return f.select(some, value, self.reduction.nothing(f, lanes_of(self.ty)))

    def _whole(self, value: Val) -> Val:
        """The sum of an entry of the stack."""
        return value

    def _merge(self, a: Val, b: Val) -> Val:
        """The entry for a followed by b, both of the same number of blocks."""
        return self._combine(a, b)

    def _combine(self, a: Val, b: Val) -> Val:
        return self.reduction.combine(self.f, [a], [b])[0]


class LaneStack(Stack):
    """A stack whose entries are vectors; each lane has the sum of its share of a block's elements.

    The lanes are then summed once for a row, not in every block: that sum is a chain of dependent steps.
    """

    def __init__(self, f: Function, reduction: Reduction, ty: str, pointer: Val) -> None:
        super().__init__(f, reduction, ty, pointer)
        self.tree = Lanes(f, reduction, lanes_of(ty), 1)

    def _whole(self, value: Val) -> Val:
        return self.reduction.lanes(self.f, [value])[0]

    def _merge(self, a: Val, b: Val) -> Val:
        return self.tree.join(0, a, b)


class Leaves:
    """A tree whose values arrive one by one; it stores as few of them as possible."""

    def __init__(self, f: Function, reduction: Reduction) -> None:
        self.f, self.reduction = f, reduction
        self.open: list[tuple[int, Val]] = []  # level and value

    def add(self, v: Val, level: int = 0) -> None:
        """Append a leaf, or a subtree of the given number of levels, joining subtrees of equal height."""
        while self.open and self.open[-1][0] == level:
            v = self.join(level, self.open.pop()[1], v)
            level += 1
        self.open.append((level, v))

    def result(self) -> Val:
        """The root: what remains open is joined from the right."""
        while len(self.open) > 1:
            (_, last), (level, before) = self.open.pop(), self.open.pop()
            self.open.append((level, self.join(level, before, last)))
        return self.open[0][1]

    def join(self, level: int, a: Val, b: Val) -> Val:
        """The state of a followed by b, both of 2^level values."""
        return self.reduction.combine(self.f, [a], [b])[0]


class Lanes(Leaves):
    """The tree over the lanes of a number of consecutive vectors (a power of two of them).

    A step pairs neighbouring lanes of two vectors.  With at least as many vectors as lanes, lanes within 128
    bits are paired first and parts of 128 bits after them, which is cheaper than shuffles of whole registers.  After
    the last of these steps, the sums are in order.
    """

    def __init__(self, f: Function, reduction: Reduction, lanes: int, vectors: int) -> None:
        super().__init__(f, reduction)
        self.count, self.by_parts = lanes, vectors >= lanes

    def add_lanes(self, v: Val) -> None:
        """Append the consecutive vectors of a longer one."""
        for k in range(0, lanes_of(v.ty), self.count):
            self.add(_part(self.f, v, range(k, k + self.count)))

    def lane_sum(self) -> Val:
        """The sum of all lanes of all vectors."""
        return self.reduction.lanes(self.f, [self.result()])[0]

    def join(self, level: int, a: Val, b: Val) -> Val:
        """Combine neighbours of two vectors into one."""
        even, odd = self._halves(level, max(1, min(self.count, 128 // bits_of(a.ty))))
        return self.reduction.combine(self.f, [self.f.shuffle(a, b, even)], [self.f.shuffle(a, b, odd)])[0]

    def _halves(self, level: int, part: int) -> tuple[list[int], list[int]]:
        """The lanes of two vectors that are the first of a pair, and those that are the second."""
        n = self.count
        if not self.by_parts or 1 << level >= n:
            first = list(range(0, 2 * n, 2))
            return first, [k + 1 for k in first]
        if 1 << level < part:
            places = [start + k for start in range(0, n, part) for k in range(0, part, 2)]
            first = [
                v * n + places[s * part // 2 + k] for s in range(n // part) for v in (0, 1) for k in range(part // 2)
            ]
            return first, [k + 1 for k in first]
        first = [start + k for start in range(0, 2 * n, 2 * part) for k in range(part)]
        return first, [k + part for k in first]
