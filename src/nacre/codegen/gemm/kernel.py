"""The packed matrix product: one kernel for all sizes and strides of an element type.

    C[b, m, n] = epilogue(Σₖ A[b, m, k] · B[b, k, n])

Each sum is a chain of fused multiply-adds from +0 over ascending k, restarted every 256 k.  The chains' results are
added in ascending order.  Sizes, strides, blocking, threads, batch and instruction set do not change any bit.

The batch has two levels, b = outer · inner size + inner, so that attention heads need no copy: every buffer has a
stride for each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from nacre.base.dtypes import DType
from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass
from nacre.codegen.gemm.block import emit_block
from nacre.codegen.gemm.element_types import Numbers, grouped, numbers, widened
from nacre.codegen.gemm.epilogue import (
    KINDS,
    EpilogueFunction,
    EpilogueOperand,
    GemmEpilogue,
    Slots,
    emit_merge,
    emit_store_sums,
    epilogue_slots,
)
from nacre.codegen.gemm.gemv import emit_sweep
from nacre.codegen.gemm.gemv_columns import emit_gemv_columns
from nacre.codegen.gemm.gemv_integer import emit_gemv_integer, integer_numbers
from nacre.codegen.gemm.pack import emit_copy, emit_gather, emit_pack, emit_transpose
from nacre.codegen.gemm.packed_dot import emit_packed_dot, emit_wide_tiles
from nacre.codegen.gemm.pipelined_epilogue import emit_pipelined_epilogue, is_slow
from nacre.codegen.gemm.plan import GemmPlan, GemmTiling, make_plan, orient
from nacre.codegen.gemm.prefetch import emit_prefetch
from nacre.codegen.gemm.prefetch_epilogue import emit_epilogue_prefetch
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.codegen.gemm.tile import emit_tile, tile_shape
from nacre.codegen.gemm.work_items import (
    common_slots,
    emit_grouped_kernel,
    emit_items,
    emit_kernel,
    shared_names,
)
from nacre.native.isa import Isa
from nacre.native.text import ModuleText

__all__ = ["EpilogueOperand", "Gemm", "GemmPlan", "gemm", "is_gemv", "shared_parts"]

BLOCKING = ("rows", "columns", "swap")
FEW_ROWS = 2  # rows up to which short numbers are not packed into groups


@dataclass(frozen=True)
class Gemm:
    """The interface of a matrix product kernel for its callers.

    `slots` names the 8-byte argument slots in order.  First come the pointers `A B Packed Output0… Operand0…`.

    `Packed` may be null; GEMV kernels lack it (see `prepack`).  Then come integers: sizes (`batch` of both levels
    together, `inner` of the inner one), strides in elements (`a.m`, `output0.outer`, `operand1.inner` …) and the
    blocking `rows columns swap` of `plan`.  Outputs and "row" and "full" operands have contiguous n.
    With a `level` epilogue, outputs and full operands have one row stride.
    Outputs must not overlap factors or operands.  With an epilogue `over` its full operands, the output may be one of
    those, of the same type and strides.
    """

    name: str
    slots: tuple[str, ...]
    tiling: GemmTiling

    def plan(self, m: int, n: int, k: int, batch: int = 1, threads: int = 1, axes: str = "kn") -> GemmPlan:
        """The number of work items, their grain and blocking, and the scratch bytes of a thread.

        `axes` names the contiguous axis of A ("m", "k", or "-" for none) and of B ("k", "n", "-").  They must be those
        of the strides that the kernel is given.  Raises ArgumentError where a GEMV kernel does not fit.
        """
        return make_plan(self.tiling, m, n, k, batch, threads, axes)


def gemm(
    isa: Isa,
    dtype: DType,
    *,
    outputs: Sequence[DType] = (),
    operands: Sequence[EpilogueOperand] = (),
    epilogue: EpilogueFunction | None = None,
    over: bool = False,
    level: bool = False,
    gemv: bool = False,
    matrix: DType | None = None,
    groups: bool = False,
    name: str = "contract",
) -> tuple[ModuleText, Gemm]:
    """Write the kernel of C = epilogue(A·B) for factors of a dtype.

    `epilogue(f, sums, loads)` gets vectors of `lanes` columns of a row: the sums in the accumulator's type, one of
    `loads` for each operand in its memory type.  It returns one vector for each output, in the output's memory type.
    Without it the sums are rounded once to the one output (default: `dtype`).

    The kernel takes every size.  A `gemv` kernel, the GEMV, takes only those for which `is_gemv` holds, and is faster.
    It may take B as a `matrix` of a narrower type, whose elements the dtype holds exactly; A is then the row.  The
    module `include`s that of `shared_parts`, which kernels that differ only in their epilogues have in common.

    With `groups`, each group of rows has a matrix B of its own: the slot `Starts` is the address of the groups' first
    rows, and of their end.

    Raises DTypeError for bool factors and a matrix of a type that is not held exactly, ArgumentError
    for an unknown operand kind or outputs without an epilogue.
    """
    layout = _layout(isa, dtype, gemv, matrix)
    arithmetic = layout.numbers
    spec = GemmEpilogue(tuple(operands), tuple(outputs) or (dtype,), epilogue, over, level)
    _check(spec)
    slots = Slots((*common_slots(gemv), *(("Starts",) if groups else ()), *epilogue_slots(spec), *BLOCKING))
    module = ModuleText(name)
    module.include(shared_parts(isa, dtype, gemv, matrix)[-1])
    slow = not gemv and is_slow(arithmetic, spec)
    if not spec.is_plain(arithmetic):
        emit_merge(module, arithmetic, layout.shape.vectors, spec, slots, not slow)
    if spec.full and not gemv:
        emit_epilogue_prefetch(module, arithmetic, spec, slots)
    if slow:
        emit_pipelined_epilogue(module, layout, spec, slots)
    (emit_grouped_kernel if groups else emit_kernel)(module, name, layout, spec, slots, gemv)
    return module, Gemm(name, slots.names, layout.tiling(not spec.in_place(arithmetic), gemv))


@cache
def shared_parts(
    isa: Isa, dtype: DType, gemv: bool = False, matrix: DType | None = None
) -> tuple[ModuleText, ModuleText]:
    """The functions that all products of a dtype share: all but the epilogue.

    Of two modules, which may be compiled in parallel, the second includes the first: tiles, and their callers.
    """
    layout = _layout(isa, dtype, gemv, matrix)
    tiles = ModuleText(f"contract.{dtype.short}.tiles")
    (_emit_gemv if gemv else _emit_packed)(tiles, layout)
    module = ModuleText(f"contract.{dtype.short}")
    module.include(tiles)
    if not gemv:
        emit_prefetch(module, layout.numbers)
    items, block, store_sums = shared_names(layout, gemv)
    emit_store_sums(module, layout.numbers, store_sums)
    emit_block(module, layout, gemv, block, store_sums)
    emit_items(module, layout.numbers, gemv, items, block)
    return tiles, module


def _layout(isa: Isa, dtype: DType, gemv: bool, matrix: DType | None) -> ScratchLayout:
    plain = numbers(isa, dtype)
    return ScratchLayout(
        plain if gemv else grouped(plain), tile_shape(isa), widened(isa, dtype, matrix) if matrix else None
    )


def is_gemv(isa: Isa, dtype: DType, m: int, n: int, k: int, axes: str = "kn") -> bool:
    """Whether a product has few rows or columns, so that the GEMV kernel (`gemv`) fits and is faster."""
    plain = numbers(isa, dtype)
    oriented = orient(ScratchLayout(plain, tile_shape(isa)).tiling(False, True), m, n, k, axes)
    slow = grouped(plain).group > 1 and not (
        integer_numbers(plain) and oriented.axis == "k"
    )  # than packed dot instructions
    return oriented.gemv and (oriented.m <= FEW_ROWS or not slow)


def _check(spec: GemmEpilogue) -> None:
    for operand in spec.operands:
        if operand.kind not in KINDS:
            raise ArgumentError(f"contract: the operand kind must be one of {', '.join(KINDS)}; got {operand.kind!r}")
    if spec.function is None and (spec.operands or len(spec.outputs) != 1):
        raise ArgumentError(
            "contract: without an epilogue there must be one output and no operands; got "
            f"{len(spec.outputs)} and {len(spec.operands)}; pass an epilogue"
        )


def _emit_packed(module: ModuleText, layout: ScratchLayout) -> None:
    """Write the functions of a product of any size, callees first."""
    arithmetic, shape = layout.numbers, layout.shape
    for rows in shape.rows:
        for vectors in (shape.vectors, 1):
            emit_tile(module, arithmetic, rows, vectors, "prefetching_")
    if arithmetic.group == 1:
        emit_tile(module, arithmetic, shape.tall, shape.vectors, "packing_")
    if arithmetic.flushes:
        emit_wide_tiles(module, replace(arithmetic, unpacks=True), shape)
    _emit_transposes(module, arithmetic)
    if arithmetic.group > 1:
        emit_packed_dot(module, arithmetic, shape.vectors)
    else:
        emit_copy(module, arithmetic)
        emit_pack(module, arithmetic, shape.vectors)


def _emit_gemv(module: ModuleText, layout: ScratchLayout) -> None:
    """Write the functions of a product with few rows."""
    _emit_transposes(module, layout.numbers)
    if layout.narrow is not None:
        emit_gather(module, layout.narrow, "gather", layout.narrow.stored)
    emit_sweep(module, layout.numbers, layout.matrix)
    emit_gemv_columns(module, layout.numbers, layout.matrix)
    integer = integer_numbers(layout.numbers) if layout.narrow is None else None
    if integer is not None:
        emit_gemv_integer(module, integer)


def _emit_transposes(module: ModuleText, arithmetic: Numbers) -> None:
    """Write transposes of factors, unless they are packed in groups, and of sums, where these are of another type."""
    sources = {"": arithmetic.stored} if arithmetic.group == 1 else {}
    if arithmetic.widens:
        sources["_sums"] = arithmetic.wide
    for suffix, source in sources.items():
        emit_gather(module, arithmetic, f"gather{suffix}", source)
        emit_transpose(module, arithmetic, f"transpose{suffix}", source)
