"""Prefetching of an ending's operands while its tile multiplies, so that whole matrices cost no wait."""

from __future__ import annotations

from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.epilogue import GemmEpilogue, Slots, matrix
from nacre.native.text import ModuleText

NEAR = 1 << 20  # bytes of full operands that stay near a processor

PARAMETERS = {
    "args": "ptr", "outer": "i64", "inner": "i64", "m": "i64", "n": "i64", "rows": "i64", "columns": "i64",
    "wanted": "ptr",
}  # fmt: skip


def emit_epilogue_prefetch(module: ModuleText, numbers: Numbers, ending: GemmEpilogue, slots: Slots) -> None:
    """@expect(args, outer, inner, m, n, rows, columns, wanted): put the full operands of a tile at m, n on its list."""
    f = module.function("expect", "void", PARAMETERS, linkage="internal", attributes=numbers.isa.attributes)
    for k in ending.full:
        operand = matrix(f, slots, f"Operand{k}", "full", ending.operands[k].dtype)
        assert operand.step is not None
        size = operand.dtype.itemsize
        f.call(numbers.part("want"), "void", [
            f["wanted"], operand.at(f, f["m"]), f.mul(operand.step, size), f["rows"], f.mul(f["columns"], size),
        ])  # fmt: skip
    f.ret()


def prefetched_bytes(ending: GemmEpilogue) -> int:
    """The bytes of full operands that an ending reads for an element."""
    return sum(ending.operands[k].dtype.itemsize for k in ending.full)
