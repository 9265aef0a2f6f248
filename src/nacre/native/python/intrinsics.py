"""The functions that every module of native Python may call: casts, addresses, bits, blocks of memory, and atomics.

A place is a field `x.y` or an element `x[k]`.  The order of an atomic is "relaxed", "acquire", "release", "acq_rel" or
"seq_cst", as in C.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from nacre.base.errors import CompileError
from nacre.native.isa import MACHINES, X86_64
from nacre.native.llvm_values import Val
from nacre.native.python.body import Item, Several
from nacre.native.python.memory import MemoryAccess
from nacre.native.python.ssa import Computed
from nacre.native.python.types import (
    BOOL,
    VOID,
    FunctionKind,
    IntKind,
    Kind,
    PointerKind,
    StructKind,
    alignment,
    offset_of,
    ptr,
    size_of,
)
from nacre.native.python.unit import evaluated_kind

T = TypeVar("T")
WORD: Final = IntKind(64, False)
NARROW: Final = IntKind(32, False)
Handler: TypeAlias = Callable[[MemoryAccess, ast.Call, Kind | None], Item]
ORDERS: Final = {"relaxed": "monotonic", **{o: o for o in ("acquire", "release", "acq_rel", "seq_cst")}}
CHANGES: Final = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}


def _native_only(name: str) -> CompileError:
    return CompileError(f"{name}: the function must be called in native code; got a call in Python; compile the caller")


def cast(kind: type[T], value: object) -> T:
    """A pointer as one of another type, or as u64, or a u64 as a pointer."""
    raise _native_only("cast")


def addr(place: T) -> ptr[T]:
    """The address of a field or element."""
    raise _native_only("addr")


def stack(owner: type[T], align: int = 0) -> T:
    """A structure on the stack, not initialised, for as long as the compiled function runs."""
    raise _native_only("stack")


def stack_array(element: type[T], count: int, align: int = 0) -> ptr[T]:
    """Elements on the stack, not initialised, for as long as the compiled function runs."""
    raise _native_only("stack_array")


def leading_zeros(x: int) -> int:
    """The number of zero bits above the highest one bit; the width for 0."""
    raise _native_only("leading_zeros")


def trailing_zeros(x: int) -> int:
    """The number of zero bits below the lowest one bit; the width for 0."""
    raise _native_only("trailing_zeros")


def one_bits(x: int) -> int:
    """The number of one bits."""
    raise _native_only("one_bits")


def copy_bytes(to: ptr[int], source: ptr[int] | bytes, count: int) -> None:
    """Copy bytes between places that do not overlap."""
    raise _native_only("copy_bytes")


def fill_bytes(to: ptr[int], byte: int, count: int) -> None:
    """Set bytes to one value."""
    raise _native_only("fill_bytes")


def atomic_load(place: T, order: str) -> T:
    """The value at a place."""
    raise _native_only("atomic_load")


def atomic_store(place: T, value: T, order: str) -> None:
    """Write a value at a place."""
    raise _native_only("atomic_store")


def atomic_change(operation: str, place: int, value: int, order: str) -> int:
    """Change an integer by add, sub, and, or, xor or exchange; its value before."""
    raise _native_only("atomic_change")


def compare_exchange(place: T, expected: T, new: T, order: str, failure: str) -> tuple[T, bool]:
    """Write a new value if the place has the expected one; the value before, and whether it was written."""
    raise _native_only("compare_exchange")


def fence(order: str) -> None:
    """Keep the order of accesses to memory before and behind this one."""
    raise _native_only("fence")


def multiply_with_overflow(x: int, y: int) -> tuple[int, bool]:
    """The product, which wraps around, and whether it did."""
    raise _native_only("multiply_with_overflow")


def target_is(architecture: str) -> bool:
    """Whether the code is for this architecture, "x86_64" or "aarch64": a constant."""
    raise _native_only("target_is")


def pause() -> None:
    """Tell the processor that the thread waits for another one."""
    raise _native_only("pause")


def float_control() -> int:
    """The control register of floating-point arithmetic: MXCSR or FPCR, as u64."""
    raise _native_only("float_control")


def set_float_control(control: int) -> None:
    """Set the control register of floating-point arithmetic: MXCSR or FPCR, from u64."""
    raise _native_only("set_float_control")


def cpuid(leaf: int, subleaf: int) -> tuple[int, int, int, int]:
    """The registers eax, ebx, ecx and edx of x86-64's instruction, as u32."""
    raise _native_only("cpuid")


def xgetbv(register: int) -> int:
    """An extended control register of x86-64, as u64."""
    raise _native_only("xgetbv")


# ---- how they are written


def _arguments(body: MemoryAccess, call: ast.Call, least: int, most: int) -> list[ast.expr]:
    if call.keywords or not least <= len(call.args) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        name = ast.unparse(call.func)
        body.fail(call, f"{name}: {count} arguments are needed; got {len(call.args)}; write them in order")
    return call.args


def _kind(body: MemoryAccess, node: ast.expr) -> Kind:
    try:
        return evaluated_kind(body.frame.function, node)
    except Exception as fault:
        body.fail(node, f"{ast.unparse(node)}: a type must stand here; {fault}; write a native type")


def _cast(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    kind, value = _arguments(body, call, 2, 2)
    to = _kind(body, kind)
    found = body.any_value(value, IntKind(64, False))
    pointers = PointerKind | FunctionKind
    if isinstance(to, pointers) and isinstance(found.kind, pointers):
        return body.add(to, (found,), lambda _, v: v[0])
    if isinstance(to, pointers) and isinstance(found.kind, IntKind) and found.kind.bits == 64:
        return body.add(to, (found,), lambda f, v: f.op(f"inttoptr {v[0]} to ptr", "ptr"))
    if isinstance(to, IntKind) and to.bits == 64 and isinstance(found.kind, pointers):
        return body.convert(found, to, call)
    body.fail(call, f"cast: one type must be a pointer; got {found.kind} and {to}; use {to}(…) between numbers")


def _addr(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    (place,) = _arguments(body, call, 1, 1)
    address, kind = body.place(place)
    return body.add(PointerKind(kind), (address,), lambda _, v: v[0])


def _stack(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    owner, *align = _arguments(body, call, 1, 2)
    kind = _kind(body, owner)
    bytes_ = body.item(align[0]) if align else 0
    if not isinstance(kind, PointerKind) or not isinstance(kind.element, StructKind) or not isinstance(bytes_, int):
        body.fail(call, f"stack: the argument must be a structure; got {ast.unparse(call.args[0])}; declare one")
    return body.stack(kind.element, bytes_)


def _stack_array(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    element, count, *align = _arguments(body, call, 2, 3)
    kind, bytes_ = _kind(body, element), body.item(align[0]) if align else 0
    if not isinstance(bytes_, int) or not kind.nbytes:
        body.fail(
            call, "stack_array: it needs a type with a size, a number, and a constant alignment; correct the call"
        )
    number = body.item(count, IntKind(64, False))
    if not isinstance(number, int) or number < 1:
        number = body.typed(number, IntKind(64, False), count)
    return body.stack_array(kind, number, bytes_, call)


def _size(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    (owner,) = _arguments(body, call, 1, 1)
    kind = _kind(body, owner)
    if isinstance(kind, PointerKind) and isinstance(kind.element, StructKind):
        kind = kind.element
    return kind.nbytes


def _offset(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    owner, field = _arguments(body, call, 2, 2)
    kind = _kind(body, owner)
    if not isinstance(kind, PointerKind) or not isinstance(kind.element, StructKind):
        body.fail(call, f"offset_of: the argument must be a structure; got {kind}; name its class")
    name = field.value if isinstance(field, ast.Constant) else None
    if name not in kind.element.fields:
        body.fail(call, f"{kind}.{name}: the field must exist; got none; use one of {', '.join(kind.element.fields)}")
    return kind.element.fields[name].offset


def _bits(name: str) -> Handler:
    def written(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
        """A function of the bits of an integer."""
        (x,) = (body.any_value(a, wanted) for a in _arguments(body, call, 1, 1))
        _require_integer(body, call, x.kind)
        further = [] if name == "ctpop" else [Val("false", "i1")]
        return body.add(x.kind, (x,), lambda f, v: f.intrinsic(name, v[0].ty, [v[0], *further]))

    return written


def _minmax(name: str) -> Handler:
    def written(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
        """The least or greatest of two integers."""
        a, b = (body.item(x, wanted) for x in _arguments(body, call, 2, 2))
        if isinstance(a, int | float) and isinstance(b, int | float):
            return min(a, b) if name == "min" else max(a, b)
        kind = next((x.kind for x in (a, b) if isinstance(x, Computed)), VOID)
        integer = _require_integer(body, call, kind)
        both = [body.typed(x, kind, call) for x in (a, b)]
        full = f"{'s' if integer.signed else 'u'}{name}"
        return body.add(kind, both, lambda f, v: f.minmax(full, v[0], v[1]))

    return written


def _require_integer(body: MemoryAccess, node: ast.Call, kind: Kind) -> IntKind:
    if not isinstance(kind, IntKind):
        body.fail(node, f"{ast.unparse(node.func)}: the operand must be an integer; got {kind}; convert it")
    return kind


def _block(name: str) -> Handler:
    def written(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
        """A copy or fill of bytes."""
        to, second, count = _arguments(body, call, 3, 3)
        octets = PointerKind(IntKind(8, False))
        kinds = (octets, octets if name == "memcpy" else IntKind(8, False), IntKind(64, False))
        values = [body.value(x, k) for x, k in zip((to, second, count), kinds)]
        overload = ["ptr", "ptr", "i64"] if name == "memcpy" else ["ptr", "i64"]
        return body.add(
            VOID, values, lambda f, v: f.intrinsic(name, "void", [*v, Val("false", "i1")], overload=overload)
        )

    return written


# ---- atomics


def _order(body: MemoryAccess, node: ast.expr, allowed: str = "relaxed acquire release acq_rel seq_cst") -> str:
    found = node.value if isinstance(node, ast.Constant) else None
    if found not in allowed.split():
        body.fail(node, f"order: it must be one of {allowed}; got {ast.unparse(node)}; write one of them")
    return ORDERS[str(found)]


def _atomic_place(body: MemoryAccess, node: ast.expr) -> tuple[Computed, Kind, str]:
    """The address of a place, its type, and the alignment as LLVM writes it."""
    address, kind = body.place(node)
    if not isinstance(kind, IntKind | PointerKind | FunctionKind):
        body.fail(node, f"{ast.unparse(node)}: an atomic place must have an integer or pointer; got {kind}; change it")
    return address, kind, f"align {alignment(kind)}"


def _atomic_load(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    where, how = _arguments(body, call, 2, 2)
    address, kind, align = _atomic_place(body, where)
    order = _order(body, how, "relaxed acquire seq_cst")
    return body.add(
        kind, (address,), lambda f, v: f.op(f"load atomic {kind.llvm}, {v[0]} {order}, {align}", kind.llvm, "x")
    )


def _atomic_store(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    where, what, how = _arguments(body, call, 3, 3)
    address, kind, align = _atomic_place(body, where)
    order = _order(body, how, "relaxed release seq_cst")
    value = body.value(what, kind)
    return body.add(VOID, (address, value), lambda f, v: f.emit(f"store atomic {v[1]}, {v[0]} {order}, {align}"))


def _atomic_change(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    operation, where, what, how = _arguments(body, call, 4, 4)
    name = operation.value if isinstance(operation, ast.Constant) else None
    if name not in CHANGES:
        body.fail(call, f"atomic_change: the operation must be one of {', '.join(CHANGES)}; got {name!r}; correct it")
    address, kind, _ = _atomic_place(body, where)
    order, value = _order(body, how), body.value(what, kind)
    change = CHANGES[name]
    return body.add(
        kind, (address, value), lambda f, v: f.op(f"atomicrmw {change} {v[0]}, {v[1]} {order}", kind.llvm, "x")
    )


def _compare_exchange(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    where, expected, new, how, failure = _arguments(body, call, 5, 5)
    address, kind, _ = _atomic_place(body, where)
    orders = f"{_order(body, how)} {_order(body, failure, 'relaxed acquire seq_cst')}"
    old, fresh = body.value(expected, kind), body.value(new, kind)
    both = f"{{ {kind.llvm}, i1 }}"
    made = body.add(
        kind, (address, old, fresh), lambda f, v: f.op(f"cmpxchg {v[0]}, {v[1]}, {v[2]} {orders}", both, "x")
    )
    before = body.add(kind, (made,), lambda f, v: f.op(f"extractvalue {both} {v[0].text}, 0", kind.llvm))
    return Several([before, body.add(BOOL, (made,), lambda f, v: f.op(f"extractvalue {both} {v[0].text}, 1", "i1"))])


def _fence(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    (how,) = _arguments(body, call, 1, 1)
    order = _order(body, how, "acquire release acq_rel seq_cst")
    return body.add(VOID, (), lambda f, _: f.emit(f"fence {order}"))


# ---- the processor


def _multiply(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    a, b = _arguments(body, call, 2, 2)
    x = body.any_value(a, wanted)
    integer = _require_integer(body, call, x.kind)
    name, both = f"{'s' if integer.signed else 'u'}mul.with.overflow", f"{{ {integer.llvm}, i1 }}"
    overload = [integer.llvm]
    made = body.add(VOID, (x, body.value(b, integer)), lambda f, v: f.intrinsic(name, both, v, overload=overload))
    return _parts(body, made, both, integer, BOOL)


def _parts(body: MemoryAccess, made: Computed, whole: str, *kinds: Kind) -> Several:
    """The parts of a value that has several."""
    return Several([
        body.add(kind, (made,), lambda f, v, n=n, ty=kind.llvm: f.op(f"extractvalue {whole} {v[0].text}, {n}", ty))
        for n, kind in enumerate(kinds)
    ])  # fmt: skip


def _target_is(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    (name,) = _arguments(body, call, 1, 1)
    found = name.value if isinstance(name, ast.Constant) else None
    if found not in MACHINES:
        body.fail(call, f"target_is: it must be one of {', '.join(MACHINES)}; got {ast.unparse(name)}; correct it")
    return found == body.unit.architecture.name


def _pause(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    _arguments(body, call, 0, 0)
    if body.unit.architecture is X86_64:
        return body.add(VOID, (), lambda f, _: f.call("llvm.x86.sse2.pause", "void", []))
    return body.add(VOID, (), lambda f, _: f.call("llvm.aarch64.hint", "void", [Val("1", "i32")]))


def _float_control(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    _arguments(body, call, 0, 0)
    if body.unit.architecture is not X86_64:
        return body.add(WORD, (), lambda f, _: f.call("llvm.aarch64.get.fpcr", "i64", []))
    place = body.stack_array(NARROW, 1, 0, call)
    body.add(VOID, (place,), lambda f, v: f.call("llvm.x86.sse.stmxcsr", "void", v))
    return body.convert(body.load(place, NARROW), WORD, call)


def _set_float_control(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    (value,) = (body.value(a, WORD) for a in _arguments(body, call, 1, 1))
    if body.unit.architecture is not X86_64:
        return body.add(VOID, (value,), lambda f, v: f.call("llvm.aarch64.set.fpcr", "void", v))
    place = body.stack_array(NARROW, 1, 0, call)
    body.store(place, NARROW, body.convert(value, NARROW, call), call)
    return body.add(VOID, (place,), lambda f, v: f.call("llvm.x86.sse.ldmxcsr", "void", v))


def _assembly(text: str, constraints: str, parameters: int, results: int) -> Handler:
    def written(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
        """An instruction of x86-64 that LLVM has no intrinsic for."""
        if body.unit.architecture is not X86_64:
            body.fail(
                call, f"{ast.unparse(call.func)}: the target must be x86_64; got another one; ask target_is first"
            )
        values = [body.value(a, NARROW) for a in _arguments(body, call, parameters, parameters)]
        whole, target = f"{{ {', '.join(['i32'] * results)} }}", f'asm sideeffect "{text}", "{constraints}"'
        made = body.add(VOID, values, lambda f, v: f.call_value(Val(target, "ptr"), whole, v))
        return _parts(body, made, whole, *[NARROW] * results)

    return written


def _xgetbv(body: MemoryAccess, call: ast.Call, wanted: Kind | None) -> Item:
    halves = XGETBV(body, call, wanted)
    assert isinstance(halves, Several)
    low, high = (body.convert(x, WORD, call) for x in halves.items)
    return body.operate("|", low, body.operate("<<", high, 32, call), call)


CLOBBERED: Final = "~{dirflag},~{fpsr},~{flags}"
CPUID: Final = _assembly("cpuid", f"={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}},{CLOBBERED}", 2, 4)
XGETBV: Final = _assembly(".byte 0x0f, 0x01, 0xd0", f"={{ax}},={{dx}},{{cx}},{CLOBBERED}", 1, 2)
HANDLERS: Final[dict[Any, Handler]] = {
    cast: _cast,
    addr: _addr,
    stack: _stack,
    size_of: _size,
    offset_of: _offset,
    leading_zeros: _bits("ctlz"),
    trailing_zeros: _bits("cttz"),
    one_bits: _bits("ctpop"),
    min: _minmax("min"),
    max: _minmax("max"),
    copy_bytes: _block("memcpy"),
    fill_bytes: _block("memset"),
    atomic_load: _atomic_load,
    atomic_store: _atomic_store,
    atomic_change: _atomic_change,
    compare_exchange: _compare_exchange,
    fence: _fence,
    stack_array: _stack_array,
    multiply_with_overflow: _multiply,
    target_is: _target_is,
    pause: _pause,
    float_control: _float_control,
    set_float_control: _set_float_control,
    cpuid: CPUID,
    xgetbv: _xgetbv,
}
