"""The functions that every module of native Python may call: casts, addresses, bits, blocks of memory, and atomics.

A place is a field `x.y` or an element `x[k]`.  The order of an atomic is "relaxed", "acquire", "release", "acq_rel" or
"seq_cst", as in C.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from nacre.base.errors import CompileError
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


def leading_zeros(x: int) -> int:
    """The number of zero bits above the highest one bit; the width for 0."""
    raise _native_only("leading_zeros")


def trailing_zeros(x: int) -> int:
    """The number of zero bits below the lowest one bit; the width for 0."""
    raise _native_only("trailing_zeros")


def one_bits(x: int) -> int:
    """The number of one bits."""
    raise _native_only("one_bits")


def copy_bytes(to: ptr[int], source: ptr[int], count: int) -> None:
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
}
