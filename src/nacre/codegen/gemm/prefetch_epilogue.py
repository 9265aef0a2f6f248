"""Prefetching of an epilogue's operands while its tile multiplies, which hides their latency."""

from __future__ import annotations

from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.epilogue import GemmEpilogue, Slots, matrix
from nacre.native.text import ModuleText

NEAR = 1 << 20  # bytes of full operands that stay in cache

PARAMETERS = {
    "args": "ptr", "outer": "i64", "inner": "i64", "m": "i64", "n": "i64", "rows": "i64", "columns": "i64",
    "addresses": "ptr",
}  # fmt: skip


def emit_epilogue_prefetch(module: ModuleText, numbers: Numbers, epilogue: GemmEpilogue, slots: Slots) -> None:
    """@prefetch(args, outer, inner, m, n, rows, columns, addresses): append a tile's full operands to its list."""
    f = module.function("prefetch", "void", PARAMETERS, linkage="internal", isa=numbers.isa)
    for k in epilogue.full:
        operand = matrix(f, slots, f"Operand{k}", "full", epilogue.operands[k].dtype)
        assert operand.step is not None
        size = operand.dtype.itemsize
        f.call(numbers.part("append"), "void", [
            f["addresses"], operand.at(f, f["m"]), f.mul(operand.step, size), f["rows"], f.mul(f["columns"], size),
        ])  # fmt: skip
    f.ret()


def prefetched_bytes(epilogue: GemmEpilogue) -> int:
    """The bytes of full operands that an epilogue reads for an element."""
    return sum(epilogue.operands[k].dtype.itemsize for k in epilogue.full)
