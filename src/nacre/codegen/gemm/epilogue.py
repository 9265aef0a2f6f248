"""The epilogue of a matrix product: sums of blocks are added, and final sums pass through the epilogue function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nacre.base.dtypes import DType
from nacre.base.errors import CompileError
from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Edge, Numbers, edge, load_edge, store_edge
from nacre.native.llvm_types import bits_of, vec
from nacre.native.text import Function, ModuleText, Val

EpilogueFunction = Callable[[Function, Val, list[Val]], list[Val]]
"""Called with the finished sums of `lanes` consecutive columns of a row, and each operand's vector in its
memory type; returns one vector for each output, in the output's memory type."""

LEVELS = ("outer", "inner")  # of the batch
KINDS = {
    "row": LEVELS,  # one value for each column n, contiguous
    "full": (*LEVELS, "m"),  # one value for each element; columns contiguous
    "column": (*LEVELS, "m"),  # one value for each row m
    "scalar": (),  # one value
}


@dataclass(frozen=True)
class EpilogueOperand:
    """An input of an epilogue beside the sums: `kind` is one of "row", "full", "column", "scalar"."""

    kind: str
    dtype: DType


@dataclass(frozen=True)
class GemmEpilogue:
    """The epilogue of a product: its operands, its outputs, and the function from sums to outputs.

    With `over`, an output may share memory with an operand of the same layout.  With `level`, all outputs and full
    operands have the same row stride.
    """

    operands: tuple[EpilogueOperand, ...]
    outputs: tuple[DType, ...]
    function: EpilogueFunction | None
    over: bool = False
    level: bool = False

    def in_place(self, numbers: Numbers) -> bool:
        """Whether the first output can hold partial sums."""
        return self.outputs[0].memory == numbers.wide and not self.over

    def is_plain(self, numbers: Numbers) -> bool:
        """Whether the sums are the result."""
        return self.function is None and self.in_place(numbers)

    @property
    def full(self) -> list[int]:
        """The operands that have an element for each element of the result."""
        return [k for k, o in enumerate(self.operands) if o.kind == "full"]


@dataclass(frozen=True)
class Slots:
    """The names of 8-byte slots in order, and how to read them through a parameter."""

    names: tuple[str, ...]
    parameter: str = "args"

    def load(self, f: Function, name: str) -> Val:
        """Read a slot; names of pointers begin with a capital."""
        ty = "ptr" if name[0].isupper() else "i64"
        return f.load(f.gep(f[self.parameter], self.names.index(name), "i64"), ty)

    def matrix(self, f: Function, name: str, scalar: str) -> Val:
        """Where a buffer's matrix at the parameters `outer` and `inner` begins."""
        steps = [f.mul(f[level], self.load(f, f"{name.lower()}.{level}")) for level in LEVELS]
        return f.gep(self.load(f, name), f.add(*steps), scalar)


OUTPUT = tuple(f"output0.{axis}" for axis in KINDS["full"])  # strides of the output that every epilogue has


def epilogue_slots(epilogue: GemmEpilogue) -> tuple[str, ...]:
    """The slots of operands and of the outputs after the first: pointers, then strides."""
    outputs = [f"Output{k}" for k in range(1, len(epilogue.outputs))]
    operands = [f"Operand{k}" for k in range(len(epilogue.operands))]
    strides = [f"{name.lower()}.{axis}" for name in outputs for axis in KINDS["full"]]
    strides += [f"operand{k}.{axis}" for k, operand in enumerate(epilogue.operands) for axis in KINDS[operand.kind]]
    return (*outputs, *operands, *strides)


SUMS = {
    "args": "ptr", "from": "ptr", "from_row": "i64", "partial": "ptr", "partial_row": "i64", "outer": "i64",
    "inner": "i64", "m": "i64", "n": "i64", "rows": "i64", "columns": "i64", "add": "i64",
}  # fmt: skip


def emit_merge(
    module: ModuleText, numbers: Numbers, panel: int, epilogue: GemmEpilogue, slots: Slots, often: bool
) -> None:
    """@merge(args, from, from_row, partial, partial_row, outer, inner, m, n, rows, columns, add).

    Sends the sums of a tile of rows × columns elements at (outer, inner, m, n) through the epilogue to the outputs.
    With `add`, the partial sums at `partial` are added first.  from_row and partial_row are in bytes.  A panel has
    `panel` vectors; `often` says whether whole panels are frequent.
    """
    f = module.function("merge", "void", SUMS, linkage="internal", isa=numbers.isa)
    Merge(f, numbers, epilogue, slots, panel if often else 0, f.icmp("ne", f["add"], 0)).sweep(runs_epilogue=True)
    f.ret()


def emit_store_sums(module: ModuleText, numbers: Numbers, name: str) -> None:
    """Write a function like @merge that stores partial or final sums at `partial`, without an epilogue."""
    f = module.function(name, "void", SUMS, linkage="internal", isa=numbers.isa)
    Merge(f, numbers, GemmEpilogue((), (), None), Slots(()), 0, f.icmp("ne", f["add"], 0)).sweep(runs_epilogue=False)
    f.ret()


@dataclass(frozen=True)
class Matrix:
    """An operand or output at one place of the batch: where column n begins, and the stride of rows."""

    start: Val
    step: Val | None
    dtype: DType
    kind: str

    def at(self, f: Function, row: Val) -> Val:
        """The address of a row."""
        return self.start if self.step is None else f.gep(self.start, f.mul(row, self.step), self.dtype.memory)


def matrix(f: Function, slots: Slots, name: str, kind: str, dtype: DType) -> Matrix:
    """An operand or output at the parameters `outer`, `inner` and `n`."""
    start = slots.matrix(f, name, dtype.memory) if kind != "scalar" else slots.load(f, name)
    if kind in ("row", "full"):
        start = f.gep(start, f["n"], dtype.memory)
    step = slots.load(f, f"{name.lower()}.m") if "m" in KINDS[kind] else None
    return Matrix(start, step, dtype, kind)


@dataclass(frozen=True)
class Merge:
    """The loops of a merge: down the rows, a vector of columns at a time, so a column's operands are read once."""

    f: Function
    numbers: Numbers
    epilogue: GemmEpilogue
    slots: Slots
    panel: int  # vectors of a panel that are merged together; 0 where whole panels are rare
    adding: Val

    def sweep(self, runs_epilogue: bool) -> None:
        """Merge all columns: store partial sums, or run the epilogue."""
        f, buffers = self.f, self.buffers() if runs_epilogue else None
        for start, end, vectors, partial in self.spans(runs_epilogue):
            with f.loop("j", start, end, vectors * self.numbers.lanes) as loop:
                self.strips(loop.index, vectors, partial, buffers)

    def buffers(self) -> tuple[list[Matrix], list[Matrix]]:
        """The operands that the epilogue reads, and the outputs that it writes."""
        f, epilogue = self.f, self.epilogue
        inputs = [matrix(f, self.slots, f"Operand{k}", o.kind, o.dtype) for k, o in enumerate(epilogue.operands)]
        outputs = [matrix(f, self.slots, f"Output{k}", "full", d) for k, d in enumerate(epilogue.outputs)]
        if epilogue.level:  # one offset for all
            inputs, outputs = ([replace(x, step=outputs[0].step) if x.kind == "full" else x for x in each]
                               for each in (inputs, outputs))  # fmt: skip
        return inputs, outputs

    def spans(self, runs_epilogue: bool) -> list[tuple[Val, Val, int, bool]]:
        """Column ranges: whole panels or vectors, then the rest alone, as masked stores cost more."""
        f, columns, lanes = self.f, self.f["columns"], self.numbers.lanes
        if not self.numbers.isa.masks:
            whole = f.and_(columns, -lanes)
            return [(f.i64(0), whole, 1, False), (whole, columns, 1, True)]
        if not (runs_epilogue and self.panel):
            return [(f.i64(0), columns, 1, True)]
        whole = f.mul(f.binary("udiv", columns, self.panel * lanes), self.panel * lanes)
        return [(f.i64(0), whole, self.panel, False), (whole, columns, 1, True)]

    def strips(self, j: Val, vectors: int, partial: bool,
               buffers: tuple[list[Matrix], list[Matrix]] | None) -> None:  # fmt: skip
        """Merge the rows of some vectors of columns."""
        f = self.f
        strips = self.strip_list(j, vectors, partial, buffers or ([], []))
        with f.loop("r", 0, f["rows"], carry=[f["from"], f["partial"]]) as loop:
            source, partial_sums = loop.carried
            self.row(strips, loop.index, (source, partial_sums), buffers)
            loop.next(f.gep(source, f["from_row"]), f.gep(partial_sums, f["partial_row"]))

    def strip_list(self, j: Val, vectors: int, partial: bool,
                   buffers: tuple[list[Matrix], list[Matrix]]) -> list[_Strip]:  # fmt: skip
        """Some vectors of columns, with the operands that are constant down the rows."""
        f, numbers = self.f, self.numbers
        inputs, outputs = buffers
        strips: list[_Strip] = []
        for v in range(vectors):
            at = f.add(j, v * numbers.lanes) if v else j
            strip = _Strip(f, numbers, at, self.edges(at, inputs, outputs) if partial else {}, {})
            strip.fixed.update((k, strip.read(x, x.start)) for k, x in enumerate(inputs) if "m" not in KINDS[x.kind])
            strips.append(strip)
        return strips

    def row(self, strips: Sequence[_Strip], r: Val, sums: tuple[Val, Val],
            buffers: tuple[list[Matrix], list[Matrix]] | None) -> None:  # fmt: skip
        """Merge a row of some vectors of columns: a tile's sums and the partial sums at two addresses."""
        f, (source, partial_sums) = self.f, sums
        inputs, outputs = buffers or ([], [])
        row = f.add(f["m"], r)
        starts = [None if "m" not in KINDS[x.kind] else x.at(f, row) for x in inputs]
        targets = [y.at(f, row) for y in outputs]
        for strip in strips:
            value = self.sums(strip, source, partial_sums)
            if buffers is None:
                store_edge(f, value, f.gep(partial_sums, strip.j, self.numbers.wide), strip.lanes(self.numbers.vector))
                continue
            loads = [
                strip.fixed[k] if start is None else strip.read(x, start)
                for k, (x, start) in enumerate(zip(inputs, starts, strict=True))
            ]
            for result, y, target in zip(self.results(value, loads), outputs, targets, strict=True):
                strip.write(result, y, target)

    def sums(self, strip: _Strip, source: Val, partial_sums: Val) -> Val:
        """A tile's sums, plus the partial sums."""
        f, numbers = self.f, self.numbers
        value = f.load(f.gep(source, strip.j, numbers.wide), numbers.vector)
        before = load_edge(f, f.gep(partial_sums, strip.j, numbers.wide), numbers.vector, strip.lanes(numbers.vector))
        return f.select(self.adding, numbers.add(f, before, value), value)

    def edges(self, j: Val, inputs: Sequence[Matrix], outputs: Sequence[Matrix]) -> dict[int, Edge]:
        """The lanes from column j on, for vectors of each element width."""
        f, numbers = self.f, self.numbers
        count = f.sub(f["columns"], j)
        types = [numbers.vector, *(vec(x.dtype.memory, numbers.lanes) for x in (*inputs, *outputs))]
        return {bits: edge(f, numbers.isa, count, ty) for bits, ty in {bits_of(t): t for t in types}.items()}

    def results(self, value: Val, loads: list[Val]) -> list[Val]:
        """The epilogue's results for sums, or the rounded sums."""
        if self.epilogue.function is None:
            return [self.numbers.narrow(self.f, value, d.memory) for d in self.epilogue.outputs]
        return self.epilogue.function(self.f, value, loads)


@dataclass(frozen=True)
class _Strip:
    """A vector of columns from j on: how its rows are read and written."""

    f: Function
    numbers: Numbers
    j: Val
    edges: dict[int, Edge]
    fixed: dict[int, Val]  # operands that are constant down the rows, by number

    def lanes(self, ty: str) -> Edge | None:
        """The lanes of a vector type in use; None for all."""
        return self.edges.get(bits_of(ty))

    def read(self, source: Matrix, row: Val) -> Val:
        """The vector of an operand whose row begins at an address."""
        f, scalar = self.f, source.dtype.memory
        if source.kind not in ("row", "full"):
            return f.splat(f.load(row, scalar), self.numbers.lanes)
        ty = vec(scalar, self.numbers.lanes)
        return load_edge(f, f.gep(row, self.j, scalar), ty, self.lanes(ty))

    def write(self, value: Val, target: Matrix, row: Val) -> None:
        """Store a vector of an output."""
        f, scalar = self.f, target.dtype.memory
        ty = vec(scalar, self.numbers.lanes)
        if value.ty != ty:
            raise CompileError(f"contract epilogue: the value must be a {ty}; got a {value.ty}")
        store_edge(f, value, f.gep(row, self.j, scalar), self.lanes(ty))
