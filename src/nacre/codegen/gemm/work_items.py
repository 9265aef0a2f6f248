"""The work items of a matrix product, and the arguments for functions that all products of a type share.

Only the epilogue belongs to one kernel: its description and its functions are passed down to the blocks.
"""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.epilogue import OUTPUT, GemmEpilogue, Slots
from nacre.codegen.gemm.plan import BLOCK
from nacre.codegen.gemm.prefetch_epilogue import NEAR, prefetched_bytes
from nacre.codegen.gemm.scratch import ScratchLayout
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText

# The argument slots that all products have: factors and the first output, sizes, and strides.
SIZES = ("batch", "inner", "m", "n", "k")
STRIDES = ("a.outer", "a.inner", "a.m", "a.k", "b.outer", "b.inner", "b.k", "b.n")

# A kernel's descriptor: its functions, of which the last two may be null; whether the first output holds partial sums,
# and whether the sums are the result; bytes of full operands for an element; and the blocking of items.
HOW = Slots(("Merge", "Prefetch", "Pipelined", "in_place", "plain", "expected", "rows", "columns", "swap"), "how")
ITEMS = {"args": "ptr", "how": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}


def common_slots(gemv: bool) -> tuple[str, ...]:
    """The names of the first slots of every product; a GEMV has no `Packed`."""
    return ("A", "B", *(() if gemv else ("Packed",)), "Output0", *SIZES, *STRIDES, *OUTPUT)


def shared_names(layout: ScratchLayout, gemv: bool) -> tuple[str, str, str]:
    """The functions that kernels share: of items, of a block, and of sums without an epilogue."""
    items, block, store_sums = (
        layout.matrix.part(f"{'gemv_' if gemv else ''}{name}") for name in ("items", "block", "store_sums")
    )
    return items, block, store_sums


@dataclass(frozen=True)
class End:
    """The epilogue of a product, as the kernel's descriptor says."""

    merge: Val
    store_sums: Val
    prefetch: Val
    pipelined: Val
    in_place: Val
    plain: Val
    prefetches: Val  # whether the epilogue must prefetch its full operands


def end_of(f: Function, store_sums: str, size: Val) -> End:
    """The epilogue of a product of the given number of elements."""
    merge, prefetch, pipelined = (HOW.load(f, name) for name in ("Merge", "Prefetch", "Pipelined"))
    in_place, plain = (f.icmp("ne", HOW.load(f, name), 0) for name in ("in_place", "plain"))
    prefetches = f.icmp("sgt", f.mul(size, HOW.load(f, "expected")), NEAR)
    return End(merge, Val(f"@{store_sums}", "ptr"), prefetch, pipelined, in_place, plain, prefetches)


def emit_kernel(
    module: ModuleText, name: str, layout: ScratchLayout, epilogue: GemmEpilogue, slots: Slots, gemv: bool
) -> None:
    """Write the kernel, which passes its descriptor to the function that all products of its type share."""
    f = module.function(name, "void", {k: ty for k, ty in ITEMS.items() if k != "how"}, isa=layout.numbers.isa)
    how = _descriptor(f, module, layout, epilogue, slots, gemv)
    items, _, _ = shared_names(layout, gemv)
    f.call(items, "void", [f["args"], how, f["lo"], f["hi"], f["scratch"]])
    f.ret()


def _descriptor(
    f: Function, module: ModuleText, layout: ScratchLayout, epilogue: GemmEpilogue, slots: Slots, gemv: bool
) -> Val:
    """Write a kernel's descriptor to its stack; returns the address."""
    numbers = layout.numbers
    _, _, store_sums = shared_names(layout, gemv)
    plain = epilogue.is_plain(numbers)
    functions = (
        (store_sums if plain else "merge"),
        *(n if n in module.functions else "" for n in ("prefetch", "pipelined")),
    )
    descriptor = [Val(f"@{n}", "ptr") if n else f.const("ptr", 0) for n in functions]
    descriptor += [f.i64(x) for x in (int(epilogue.in_place(numbers)), int(plain), prefetched_bytes(epilogue))]
    descriptor += [slots.load(f, n) for n in HOW.names[len(descriptor) :]]
    how = f.alloca("i64", len(descriptor), align=8)
    for k, value in enumerate(descriptor):
        f.store(value, f.gep(how, k, "i64"))
    return how


def emit_grouped_kernel(
    module: ModuleText, name: str, layout: ScratchLayout, epilogue: GemmEpilogue, slots: Slots, gemv: bool
) -> None:
    """Write the kernel whose items number blocks of columns fastest, then groups of rows.

    The rows from Starts[g] to Starts[g + 1] are group g, and matrix g of B is their factor.
    """
    f = module.function(name, "void", {k: ty for k, ty in ITEMS.items() if k != "how"}, isa=layout.numbers.isa)
    how = _descriptor(f, module, layout, epilogue, slots, gemv)
    _, block, _ = shared_names(layout, gemv)
    n, rows, columns, starts = (slots.load(f, s) for s in ("n", "rows", "columns", "Starts"))
    down = _blocks(f, n, columns)
    with f.loop("item", f["lo"], f["hi"]) as loop:
        group = _quotient(f, loop.index, down)
        n0 = f.mul(f.sub(loop.index, f.mul(group, down)), columns)
        n1 = f.smin(f.add(n0, columns), n)
        start, stop = (f.load(f.gep(starts, g, "i64"), "i64") for g in (group, f.add(group, 1)))
        with f.loop("row", start, stop, rows) as row:
            m1 = f.smin(f.add(row.index, rows), stop)
            f.call(block, "void", [f["args"], how, f["scratch"], group, f.i64(0), row.index, m1, n0, n1])
    f.ret()


def emit_items(module: ModuleText, numbers: Numbers, gemv: bool, name: str, block: str) -> None:
    """@items(args, how, lo, hi, scratch): items number blocks of rows fastest, then blocks of columns, then the batch.

    Adjacent blocks of rows run as one, so that B is packed once for them.
    """
    f = module.function(name, "void", ITEMS, linkage="internal", isa=numbers.isa)
    slots = Slots(common_slots(gemv))
    swap = f.icmp("ne", HOW.load(f, "swap"), 0)
    sizes = slots.load(f, "m"), slots.load(f, "n")
    m, n = f.select(swap, sizes[1], sizes[0]), f.select(swap, sizes[0], sizes[1])
    rows, columns = HOW.load(f, "rows"), HOW.load(f, "columns")
    inner_size = slots.load(f, "inner")
    # Scratch memory has room for the partial sums of one block of rows.
    spills = f.and_(f.icmp("eq", HOW.load(f, "in_place"), 0), f.icmp("sgt", slots.load(f, "k"), BLOCK))
    across = _blocks(f, m, rows)
    down = _blocks(f, n, columns)
    last = _quotient(f, f.sub(f["hi"], 1), across)
    with f.loop("column", _quotient(f, f["lo"], across), f.add(last, 1)) as loop:
        first = f.mul(loop.index, across)
        start = f.mul(f.smax(f.sub(f["lo"], first), 0), rows)
        stop = f.smin(f.mul(f.sub(f["hi"], first), rows), m)
        batch = _quotient(f, loop.index, down)
        n0 = f.mul(f.sub(loop.index, f.mul(batch, down)), columns)
        n1 = f.smin(f.add(n0, columns), n)
        outer = _quotient(f, batch, inner_size)
        levels = [outer, f.sub(batch, f.mul(outer, inner_size))]
        step = f.select(spills, rows, f.smax(f.sub(stop, start), 1))
        with f.loop("row", start, stop, step) as row:
            m1 = f.smin(f.add(row.index, step), stop)
            f.call(block, "void", [f["args"], f["how"], f["scratch"], *levels, row.index, m1, n0, n1])
    f.ret()


def _blocks(f: Function, size: Val, block: Val) -> Val:
    return f.smax(_quotient(f, f.sub(f.add(size, block), 1), block), 1)


def _quotient(f: Function, a: Val, b: Val) -> Val:
    """a / b of counts, in the 32 bits that hold every count: for 64 the compiler would write both."""
    narrow = f.binary("udiv", f.cast("trunc", a, "i32"), f.cast("trunc", b, "i32"))
    return f.cast("zext", narrow, "i64")
