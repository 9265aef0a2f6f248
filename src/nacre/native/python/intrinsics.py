"""The functions that every module of native Python may call: casts, addresses, bits, blocks of memory, and atomics.

A place is a field `x.y` or an element `x[k]`.  The order of an atomic is "relaxed", "acquire", "release", "acq_rel" or
"seq_cst", as in C.
"""

from __future__ import annotations

from ast import Call, Constant, expr
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from nacre.base.errors import CompileError
from nacre.native.isa import MACHINES, X86_64
from nacre.native.python.body import Item, shown
from nacre.native.python.memory import MemoryAccess
from nacre.native.python.ssa import Computed
from nacre.native.python.types import BOOL, VOID, IntKind, Kind, StructKind, TupleKind, pointer_to, ptr, size_of

T = TypeVar("T")
WORD, NARROW, BYTE = (IntKind(bits, False) for bits in (64, 32, 8))
LOADS, STORES, CHANGES = "relaxed acquire seq_cst", "relaxed release seq_cst", "relaxed acquire release acq_rel seq_cst"
FUNCTIONS: Final = {"leading_zeros": "ctlz", "one_bits": "ctpop"}
CPUID: Final = 'asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"'
XGETBV: Final = 'asm sideeffect ".byte 0x0f, 0x01, 0xd0", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"'
NATURAL: Final = Constant(0)  # the alignment of the type


class Intrinsic:
    """A function of native code alone."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *_: object) -> None:
        """Refuse a call from Python."""
        raise CompileError(f"{self.__name__}: it is for native code; got a call in Python; compile the caller")


class Use(NamedTuple):
    """A call of a function of this file, and the type that its value may have."""

    name: str
    node: Call
    wanted: Kind | None


class IntrinsicTranslation(MemoryAccess):
    """How the functions are written: the method `write_f` has the parameters of `f`, which are parts of the program."""

    def use(self, use: Use) -> Item:
        """The value of a call of a function of this file."""
        method: Any = getattr(self, f"write_{use.name}")
        most = method.__code__.co_argcount - 2
        self.count(use.node, most - len(method.__defaults__ or ()), most)
        return method(use, *use.node.args)

    # ---- parts of the program

    def _type(self, node: expr) -> Kind:
        return self.unit.kind(self.frame.function, node, shown(node), node)

    def _structure(self, node: expr, use: Use) -> StructKind:
        found = self._type(node).structure
        if found is None:
            self.fail(use.node, f"the argument must be a structure; got {shown(node)}; name its class", use.name)
        return found

    def _word(self, node: expr, allowed: str, about: str = "order") -> str:
        found = node.value if isinstance(node, Constant) else None
        if found not in allowed.split():
            self.fail(node, f"it must be one of {allowed}; got {shown(node)}; write one of them", about)
        return {"relaxed": "monotonic", "exchange": "xchg"}.get(str(found), str(found))  # as LLVM calls it

    def _number(self, node: expr) -> int:
        found = self.item(node)
        if not isinstance(found, int):
            self.fail(node, "an alignment must be a constant; got another value; write a number")
        return found

    def _integer(self, value: Item, use: Use) -> IntKind:
        kind = value.kind if isinstance(value, Computed) else None
        if not isinstance(kind, IntKind):
            self.fail(use.node, f"the operand must be an integer; got {kind}; convert it", use.name)
        return kind

    # ---- types and addresses

    def write_cast(self, use: Use, kind: expr, value: expr) -> Item:
        to, found = self._type(kind), self.any_value(value, WORD)
        if to.llvm == "ptr" == found.kind.llvm:
            return self.ssa.add(to, [found])
        if to.llvm == "ptr" and found.kind.llvm == "i64":
            return self.op(to, "inttoptr {0} to ptr", found)
        if isinstance(to, IntKind) and to.bits == 64 and found.kind.llvm == "ptr":
            return self.convert(found, to, use.node)
        self.fail(use.node, f"one type must be a pointer; got {found.kind} and {to}; use {to}(…) of numbers", use.name)

    def write_addr(self, use: Use, place: expr) -> Item:
        address, kind = self.place(place)
        return self.ssa.add(pointer_to(kind), [address])

    def write_stack(self, use: Use, owner: expr, align: expr = NATURAL) -> Item:
        return self.stack(self._structure(owner, use), 1, self._number(align), use.node)

    def write_stack_array(self, use: Use, element: expr, count: expr, align: expr = NATURAL) -> Item:
        kind, number = self._type(element), self.item(count, WORD)
        if not kind.nbytes:
            self.fail(use.node, f"elements must have a size; got {kind}; name another type", use.name)
        if not isinstance(number, int) or number < 1:
            number = self.typed(number, WORD, count)
        return self.stack(kind, number, self._number(align), use.node)

    def write_size_of(self, use: Use, owner: expr) -> Item:
        kind = self._type(owner)
        return (kind.structure or kind).nbytes

    # ---- integers and bytes

    def write_leading_zeros(self, use: Use, x: expr) -> Item:
        value = self.any_value(x, use.wanted)
        further = [] if use.name == "one_bits" else [self.constant(BOOL, False)]
        return self.intrinsic(value.kind, f"{FUNCTIONS[use.name]}.{self._integer(value, use).llvm}", value, *further)

    write_one_bits = write_leading_zeros

    def write_min(self, use: Use, x: expr, y: expr) -> Item:
        a, b = self.item(x, use.wanted), self.item(y, use.wanted)
        kind = self._integer(a if isinstance(a, Computed) else b, use)
        name = f"{'s' if kind.signed else 'u'}{use.name}.{kind.llvm}"
        return self.intrinsic(kind, name, self.typed(a, kind, use.node), self.typed(b, kind, use.node))

    write_max = write_min

    def _parts(self, whole: Computed, kinds: tuple[Kind, ...]) -> tuple[Computed, ...]:
        """The parts of a value that has several."""
        return tuple(self.op(kind, f"extractvalue {{0}}, {k}", whole) for k, kind in enumerate(kinds))

    def write_copy_bytes(self, use: Use, to: expr, source: expr, count: expr) -> Item:
        places = [self.value(x, pointer_to(BYTE)) for x in (to, source)]
        return self.intrinsic(VOID, "memcpy.p0.p0.i64", *places, self.value(count, WORD), self.constant(BOOL, False))

    def write_fill_bytes(self, use: Use, to: expr, byte: expr, count: expr) -> Item:
        values = [self.value(x, k) for x, k in zip((to, byte, count), (pointer_to(BYTE), BYTE, WORD))]
        return self.intrinsic(VOID, "memset.p0.i64", *values, self.constant(BOOL, False))

    # ---- atomics

    def _atomic_place(self, node: expr) -> tuple[Computed, Kind]:
        address, kind = self.place(node)
        if not isinstance(kind, IntKind) and (kind.llvm != "ptr" or kind.nbytes != WORD.nbytes):
            self.fail(node, f"an atomic place must have an integer or pointer; got {kind}; change it")
        return address, kind

    def write_atomic_load(self, use: Use, place: expr, order: expr) -> Item:
        (address, kind), how = self._atomic_place(place), self._word(order, LOADS)
        return self.op(kind, f"load atomic {kind.llvm}, {{0}} {how}, align {kind.nbytes}", address, stem="x")

    def write_atomic_store(self, use: Use, place: expr, value: expr, order: expr) -> Item:
        (address, kind), how = self._atomic_place(place), self._word(order, STORES)
        return self.op(VOID, f"store atomic {{1}}, {{0}} {how}, align {kind.nbytes}", address, self.value(value, kind))

    def write_atomic_change(self, use: Use, operation: expr, place: expr, value: expr, order: expr) -> Item:
        (address, kind), how = self._atomic_place(place), self._word(order, CHANGES)
        name = self._word(operation, "add sub and or xor exchange", "operation")
        return self.op(kind, f"atomicrmw {name} {{0}}, {{1}} {how}", address, self.value(value, kind), stem="x")

    def write_compare_exchange(self, use: Use, place: expr, old: expr, new: expr, order: expr, failure: expr) -> Item:
        address, kind = self._atomic_place(place)
        text = f"cmpxchg {{0}}, {{1}}, {{2}} {self._word(order, CHANGES)} {self._word(failure, LOADS)}"
        values, kinds = (self.value(old, kind), self.value(new, kind)), (kind, BOOL)
        return self._parts(self.op(TupleKind(kinds), text, address, *values, stem="x"), kinds)

    # ---- the processor

    def _on_x86(self) -> bool:
        return self.unit.architecture is X86_64

    def write_target_is(self, use: Use, architecture: expr) -> Item:
        return self._word(architecture, " ".join(MACHINES), use.name) == self.unit.architecture.name

    def write_pause(self, use: Use) -> Item:
        if self._on_x86():
            return self.intrinsic(VOID, "x86.sse2.pause")
        return self.intrinsic(VOID, "aarch64.hint", self.constant(NARROW, 1))

    def write_set_float_control(self, use: Use, control: expr) -> Item:
        value = self.value(control, WORD)
        if not self._on_x86():
            return self.intrinsic(VOID, "aarch64.set.fpcr", value)
        place = self.stack(NARROW, 1, 4, use.node)
        self.store(place, NARROW, self.convert(value, NARROW, use.node), use.node)
        return self.intrinsic(VOID, "x86.sse.ldmxcsr", place)

    def _assembly(self, use: Use, text: str, results: int) -> tuple[Computed, ...]:
        """An instruction of x86-64 that LLVM has no intrinsic for."""
        if not self._on_x86():
            self.fail(use.node, "the target must be x86_64; got another one; ask target_is before", use.name)
        kinds = (NARROW,) * results
        return self._parts(self.call(TupleKind(kinds), text, *(self.value(a, NARROW) for a in use.node.args)), kinds)

    def write_cpuid(self, use: Use, leaf: expr, subleaf: expr) -> Item:
        return self._assembly(use, CPUID, 4)

    def write_xgetbv(self, use: Use, register: expr) -> Item:
        low, high = (self.convert(x, WORD, use.node) for x in self._assembly(use, XGETBV, 2))
        return self.operate("|", low, self.operate("<<", high, 32, use.node), use.node)


# ---- as programs call them
OF_PYTHON: Final = {f.__name__: f for f in (min, max, size_of)}  # functions that Python may call, too

if TYPE_CHECKING:
    # A pointer as one of another type, or as u64, or a u64 as a pointer.
    def cast(kind: type[T], value: object) -> T: ...
    # The address of a field or element.
    def addr(place: T) -> ptr[T]: ...
    # A structure on the stack, not initialised, for as long as the compiled function runs.
    def stack(owner: type[T], align: int = 0) -> T: ...
    # Elements on the stack, not initialised, for as long as the compiled function runs.
    def stack_array(element: type[T], count: int, align: int = 0) -> ptr[T]: ...
    # The number of zero bits above the highest one bit; the width for 0.
    def leading_zeros(x: int) -> int: ...
    # The number of one bits.
    def one_bits(x: int) -> int: ...
    # Copy bytes between places that do not overlap.
    def copy_bytes(to: ptr[int], source: ptr[int] | bytes, count: int) -> None: ...
    # Set bytes to one value.
    def fill_bytes(to: ptr[int], byte: int, count: int) -> None: ...
    # The value at a place.
    def atomic_load(place: T, order: str) -> T: ...
    # Write a value at a place.
    def atomic_store(place: T, value: T, order: str) -> None: ...
    # Change an integer by add, sub, and, or, xor or exchange; its value before.
    def atomic_change(operation: str, place: int, value: int, order: str) -> int: ...
    # Write a new value if the place has the expected one; the value before, and whether it was written.
    def compare_exchange(place: T, expected: T, new: T, order: str, failure: str) -> tuple[T, bool]: ...
    # Whether the code is for this architecture, "x86_64" or "aarch64": a constant.
    def target_is(architecture: str) -> bool: ...
    # A hint for the processor: the thread waits for another one.
    def pause() -> None: ...
    # Set the control register of floating-point arithmetic: MXCSR or FPCR, from u64.
    def set_float_control(control: int) -> None: ...
    # The registers eax, ebx, ecx and edx of x86-64's instruction, as u32.
    def cpuid(leaf: int, subleaf: int) -> tuple[int, int, int, int]: ...
    # An extended control register of x86-64, as u64.
    def xgetbv(register: int) -> int: ...

else:
    NAMES = [n.removeprefix("write_") for n in vars(IntrinsicTranslation) if n.startswith("write_")]
    globals().update({name: Intrinsic(name) for name in NAMES if name not in OF_PYTHON})
