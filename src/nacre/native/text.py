"""Readable LLVM text: a module, its functions, and typed values written in order.

Values carry their LLVM type, so that `f.fadd(x, y)` needs no type argument and a scalar function and a
vector function are the same Python code.  Loops and branches are context managers::

    m = ModuleText("scale")
    f = m.function("scale", "void", {"x": "ptr", "n": "i64"})
    with f.loop("i", 0, f["n"], step=16) as loop:
        p = f.gep(f["x"], loop.index, "float")
        f.store(f.fmul(f.load(p, "<16 x float>"), f.const("<16 x float>", 2.0)), p)
    f.ret()
    print(m.text())
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from nacre.native.isa import Isa
from nacre.native.llvm_types import bits_of, lanes_of, mangle, scalar_of, vec
from nacre.native.llvm_values import Operand, Val, literal
from nacre.native.loop_text import LoopText


class ModuleText:
    """An LLVM module: globals, declarations and functions, each written once; its text begins with its kind."""

    def __init__(self, name: str, kind: str = "; module") -> None:
        self.name, self.kind = name, kind
        self.globals: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.metadata: dict[str, str] = {}

    def declare(self, name: str, ret: str, args: Sequence[str], attributes: str = "") -> None:
        """Declare an external function or intrinsic; repeated declarations are allowed."""
        self.declarations[name] = f"declare {ret} @{name}({', '.join(args)}) {attributes}".rstrip()

    def constant(self, name: str, ty: str, text: str, align: int = 64) -> Val:
        """A private constant array or struct; returns its address."""
        self.globals[name] = f"@{name} = private unnamed_addr constant {ty} {text}, align {align}"
        return Val(f"@{name}", "ptr")

    def section(self, name: str, nbytes: int, section: str, align: int = 64) -> Val:
        """A constant in a section of its own, zero until the object file is complete; returns its address."""
        self.globals[name] = (
            f"@{name} = internal externally_initialized constant [{nbytes} x i8] zeroinitializer, "
            f'section "{section}", align {align}'
        )
        return Val(f"@{name}", "ptr")

    def variable(
        self, name: str, ty: str, text: str = "zeroinitializer", align: int = 64, linkage: str = "internal"
    ) -> Val:
        """A module variable; returns its address."""
        self.globals[name] = f"@{name} = {linkage} global {ty} {text}, align {align}".replace("  ", " ")
        return Val(f"@{name}", "ptr")

    def function(
        self,
        name: str,
        ret: str,
        params: dict[str, str],
        *,
        linkage: str = "",
        attributes: str = "",
        isa: Isa | None = None,
        noalias: Sequence[str] = (),
    ) -> Function:
        """Begin a function, perhaps for an instruction set; parameters are read back as `f["name"]`."""
        f = Function(self, name, ret, params, linkage, attributes, isa, noalias)
        self.functions[name] = f
        return f

    def include(self, parts: ModuleText) -> None:
        """Include the functions of another module, and the definitions that they use."""
        self.globals.update(parts.globals)
        self.declarations.update(parts.declarations)
        self.functions.update(parts.functions)
        self.metadata.update(parts.metadata)

    def without(self, parts: ModuleText) -> ModuleText:
        """The module without the functions of another one that it `include`s; called ones are declared."""
        rest = ModuleText(self.name, self.kind)
        rest.functions = {k: f for k, f in self.functions.items() if k not in parts.functions}
        named = set(re.findall(r"@([\w.]+)", "\n".join(f.text() for f in rest.functions.values())))
        rest.globals = {k: v for k, v in self.globals.items() if k in named}
        rest.declarations = {k: v for k, v in self.declarations.items() if k in named}
        rest.metadata = self.metadata
        for f in parts.functions.values():
            if f.name in named:
                rest.declare(f.name, f.return_type, [v.ty for v in f.params.values()])
        return rest

    def exported(self) -> str:
        """The module as LLVM assembly, with functions that other modules may call."""
        return self.text().replace("\ndefine internal ", "\ndefine ")

    def text(self) -> str:
        """The module as LLVM assembly."""
        parts = [f"{self.kind} {self.name}", *self.globals.values(), *self.declarations.values()]
        parts += [f.text() for f in self.functions.values()]
        parts += [f"{k} = {v}" for k, v in self.metadata.items()]
        return "\n".join(parts) + "\n"


class Function:
    """One LLVM function, written instruction by instruction."""

    def __init__(
        self,
        module: ModuleText,
        name: str,
        ret: str,
        params: dict[str, str],
        linkage: str,
        attributes: str,
        isa: Isa | None,
        noalias: Sequence[str],
    ) -> None:
        self.module, self.name, self.return_type, self.isa = module, name, ret, isa
        self.params = {k: Val(f"%{k}", ty) for k, ty in params.items()}
        shown = ", ".join(f"{ty}{' noalias' if k in noalias else ''} %{k}" for k, ty in params.items())
        given = " ".join(filter(None, (attributes, isa.attributes if isa is not None else ""))) or "nounwind"
        self.head = f"define {linkage + ' ' if linkage else ''}{ret} @{name}({shown}) {given} {{"
        self.lines: list[str] = []
        self.entry: list[str] = []  # allocas, placed at the top of the entry block
        self.block = "entry"
        self.count: dict[str, int] = {}

    def __getitem__(self, name: str) -> Val:
        return self.params[name]

    def text(self) -> str:
        """The whole function as LLVM text, entry block first."""
        return "\n".join([self.head, "entry:", *self.entry, *self.lines, "}"])

    # ---- names, lines, blocks

    def fresh(self, stem: str) -> str:
        """A name without its sigil, unused so far in this function, that begins with `stem`."""
        n = self.count[stem] = self.count.get(stem, -1) + 1
        return f"{stem}.{n}"

    def emit(self, text: str) -> None:
        """Append one instruction to the current block."""
        self.lines.append("  " + text)

    def comment(self, text: str) -> None:
        """Append a comment line to the current block."""
        self.lines.append("  ; " + text)

    def op(self, text: str, ty: str, stem: str = "v") -> Val:
        """Write `%stem.n = text` and return the value."""
        name = f"%{self.fresh(stem)}"
        self.lines.append(f"  {name} = {text}")
        return Val(name, ty)

    def label(self, name: str) -> None:
        """Begin the basic block `name`."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, label: str) -> None:
        """End the block with an unconditional branch."""
        self.emit(f"br label %{label}")

    def branch(self, cond: Val, yes: str, no: str) -> None:
        """End the block with a branch on an i1."""
        self.emit(f"br i1 {cond.text}, label %{yes}, label %{no}")

    def phi(self, ty: str, arms: Sequence[tuple[Val, str]], stem: str = "phi") -> Val:
        """The value of the arm, (value, block), whose block control came from."""
        return self.op(f"phi {ty} " + ", ".join(f"[ {v.text}, %{b} ]" for v, b in arms), ty, stem)

    def phi_later(self, ty: str, stem: str = "phi") -> Val:
        """A phi whose arms `complete_phi` gives, once all of its blocks are written."""
        return self.op(f"phi {ty} ", ty, stem)

    def complete_phi(self, phi: Val, arms: Sequence[tuple[Val, str]]) -> None:
        """Give the arms of a phi, (value, block)."""
        line = f"  {phi.text} = phi {phi.ty} "
        self.lines[self.lines.index(line)] = line + ", ".join(f"[ {v.text}, %{b} ]" for v, b in arms)

    def define(self, named: Val, value: Val) -> None:
        """Give the value of an integer that has a name already, for instructions that are written before it."""
        self.emit(f"{named.text} = add {value}, 0")

    def ret(self, value: Val | None = None) -> None:
        """Return from the function, with a value if it has one."""
        self.emit(f"ret {value}" if value is not None else "ret void")

    @contextmanager
    def at_entry(self) -> Generator[None]:
        """Write the following instructions once, in the entry block; their operands must be available there."""
        lines, self.lines = self.lines, self.entry
        yield
        self.lines = lines

    # ---- constants

    def const(self, ty: str, value: float | int | bool) -> Val:
        """A constant of a scalar type, or its splat over a vector type."""
        scalar, n = scalar_of(ty), lanes_of(ty)
        text = literal(scalar, value)
        return Val(text if n == 1 else "<" + ", ".join([f"{scalar} {text}"] * n) + ">", ty)

    def vector(self, scalar: str, values: Sequence[float | int | bool]) -> Val:
        """A constant vector of the given lanes."""
        inner = ", ".join(f"{scalar} {literal(scalar, v)}" for v in values)
        return Val(f"<{inner}>", f"<{len(values)} x {scalar}>")

    def zero(self, ty: str) -> Val:
        """The zero of a type, in all lanes of a vector."""
        return self.const(ty, 0)

    def i64(self, value: Operand) -> Val:
        """An operand as an i64: a Python int becomes a constant."""
        return value if isinstance(value, Val) else Val(str(value), "i64")

    def like(self, value: Operand, ty: str) -> Val:
        """An operand as a value: a Python number becomes a constant of type `ty`."""
        return value if isinstance(value, Val) else self.const(ty, value)

    # ---- arithmetic (operands share a type; an int operand becomes a constant of the other's type)

    def binary(self, op: str, a: Operand, b: Operand) -> Val:
        """The LLVM instruction `op` of two operands of one type (i64 if neither is a value)."""
        ty = a.ty if isinstance(a, Val) else b.ty if isinstance(b, Val) else "i64"
        a, b = self.like(a, ty), self.like(b, ty)
        return self.op(f"{op} {ty} {a.text}, {b.text}", ty)

    def add(self, a: Operand, b: Operand) -> Val:
        """a + b of integers, wrapping; adding a Python 0 emits nothing."""
        if isinstance(b, int) and b == 0 and isinstance(a, Val):
            return a
        if isinstance(a, int) and a == 0 and isinstance(b, Val):
            return b
        return self.binary("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Val:
        """a - b of integers, wrapping; subtracting a Python 0 emits nothing."""
        return a if isinstance(b, int) and b == 0 and isinstance(a, Val) else self.binary("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Val:
        """a * b of integers, wrapping; multiplying by a Python 1 emits nothing."""
        if isinstance(b, int) and b == 1 and isinstance(a, Val):
            return a
        if isinstance(a, int) and a == 1 and isinstance(b, Val):
            return b
        return self.binary("mul", a, b)

    def and_(self, a: Operand, b: Operand) -> Val:
        """Bitwise and."""
        return self.binary("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Val:
        """Bitwise or."""
        return self.binary("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Val:
        """Bitwise exclusive or."""
        return self.binary("xor", a, b)

    def shl(self, a: Operand, b: Operand) -> Val:
        """a shifted left by b bits; poison where b is not less than the width."""
        return self.binary("shl", a, b)

    def lshr(self, a: Operand, b: Operand) -> Val:
        """a shifted right by b bits, filled with zeros."""
        return self.binary("lshr", a, b)

    def ashr(self, a: Operand, b: Operand) -> Val:
        """a shifted right by b bits, filled with copies of the sign."""
        return self.binary("ashr", a, b)

    def fadd(self, a: Val, b: Val) -> Val:
        """a + b of floats, rounded once."""
        return self.binary("fadd", a, b)

    def fsub(self, a: Val, b: Val) -> Val:
        """a - b of floats, rounded once."""
        return self.binary("fsub", a, b)

    def fmul(self, a: Val, b: Val) -> Val:
        """a * b of floats, rounded once."""
        return self.binary("fmul", a, b)

    def fdiv(self, a: Val, b: Val) -> Val:
        """a / b of floats, rounded once."""
        return self.binary("fdiv", a, b)

    def fneg(self, a: Val) -> Val:
        """-a of floats: the sign bit changes, also of a NaN."""
        return self.op(f"fneg {a}", a.ty)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        """a·b + c, rounded once."""
        return self.intrinsic("fma", a.ty, [a, b, c])

    def icmp(self, predicate: str, a: Operand, b: Operand) -> Val:
        """Whether a `predicate` b (eq, slt, ult, ...) of integers: i1 per lane."""
        ty = a.ty if isinstance(a, Val) else b.ty if isinstance(b, Val) else "i64"
        a, b = self.like(a, ty), self.like(b, ty)
        return self.op(f"icmp {predicate} {ty} {a.text}, {b.text}", vec("i1", lanes_of(ty)), "c")

    def fcmp(self, predicate: str, a: Val, b: Val) -> Val:
        """Whether a `predicate` b (oeq, olt, uno, ...) of floats: i1 per lane."""
        return self.op(f"fcmp {predicate} {a.ty} {a.text}, {b.text}", vec("i1", lanes_of(a.ty)), "c")

    def select(self, cond: Val, yes: Val, no: Val) -> Val:
        """`yes` where the condition holds, else `no`; per lane for a vector of i1."""
        return self.op(f"select {cond}, {yes}, {no}", yes.ty)

    def cast(self, op: str, a: Val, scalar: str) -> Val:
        """`op` one of trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp, for each lane."""
        ty = vec(scalar, lanes_of(a.ty))
        return a if ty == a.ty else self.op(f"{op} {a} to {ty}", ty)

    def bitcast(self, a: Val, ty: str) -> Val:
        """The bits of a read as a type of the same width."""
        return a if ty == a.ty else self.op(f"bitcast {a} to {ty}", ty)

    def intrinsic(
        self, name: str, ret: str, args: Sequence[Val], *, overload: Sequence[str] | None = None, stem: str = "r"
    ) -> Val:
        """Call `llvm.name`, overloaded on the given types (default: the result type)."""
        full = ".".join(["llvm", name, *map(mangle, [ret] if overload is None else overload)])
        return self.call(full, ret, args, stem=stem)

    def smin(self, a: Operand, b: Operand) -> Val:
        """The lesser of two signed integers."""
        return self.minmax("smin", a, b)

    def smax(self, a: Operand, b: Operand) -> Val:
        """The greater of two signed integers."""
        return self.minmax("smax", a, b)

    def minmax(self, name: str, a: Operand, b: Operand) -> Val:
        """The intrinsic `name` (smin, umax, maximum, ...) of two numbers of one type."""
        ty = a.ty if isinstance(a, Val) else b.ty if isinstance(b, Val) else "i64"
        return self.intrinsic(name, ty, [self.like(a, ty), self.like(b, ty)])

    # ---- vectors

    def splat(self, a: Val, lanes: int) -> Val:
        """A scalar in every one of `lanes` lanes; the scalar itself for one lane."""
        if lanes == 1:
            return a
        ty = vec(a.ty, lanes)
        one = self.op(f"insertelement {ty} poison, {a}, i32 0", ty)
        return self.op(f"shufflevector {one}, {ty} poison, <{lanes} x i32> zeroinitializer", ty)

    def shuffle(self, a: Val, b: Val, lanes: Sequence[int]) -> Val:
        """Lanes of a (0 …) and b (len(a) …) in the given order."""
        mask = ", ".join(f"i32 {i}" for i in lanes)
        return self.op(f"shufflevector {a}, {b}, <{len(lanes)} x i32> <{mask}>", vec(scalar_of(a.ty), len(lanes)))

    def extract(self, a: Val, lane: int) -> Val:
        """The scalar in one lane of a vector."""
        return self.op(f"extractelement {a}, i32 {lane}", scalar_of(a.ty))

    def insert(self, a: Val, value: Val, lane: int) -> Val:
        """The vector with one lane replaced."""
        return self.op(f"insertelement {a}, {value}, i32 {lane}", a.ty)

    def lane_mask(self, count: Val, lanes: int) -> Val:
        """A mask of the first `count` (i64, any value) lanes."""
        clipped = self.smin(self.smax(count, 0), lanes)
        narrow = self.splat(self.cast("trunc", clipped, "i32"), lanes)
        return self.icmp("slt", self.vector("i32", range(lanes)), narrow)

    # ---- memory (alignment defaults to the element's)

    def gep(self, pointer: Val, index: Operand, element: str = "i8", stem: str = "p") -> Val:
        """pointer + index elements of type `element`; an address per lane of a vector index."""
        if isinstance(index, int) and index == 0:
            return pointer
        by = self.i64(index)
        return self.op(f"getelementptr {element}, {pointer}, {by}", vec("ptr", lanes_of(by.ty)), stem)

    def advance(self, pointer: Val, step: Operand) -> Val:
        """pointer + step bytes, for a loop that advances several pointers by the same step.

        LLVM must not see how they are related: it would derive all of them from one pointer, each a step from the one
        before, and every access would wait for the steps.
        """
        return self.op(f"freeze {self.gep(pointer, step)}", "ptr", "p")

    def load(self, pointer: Val, ty: str, align: int | None = None, stem: str = "x") -> Val:
        """The value of type `ty` at a pointer; aligned to its element unless `align` says otherwise."""
        return self.op(f"load {ty}, {pointer}, align {align or max(1, bits_of(ty) // 8)}", ty, stem)

    def store(self, value: Val, pointer: Val, align: int | None = None, nontemporal: bool = False) -> None:
        """Write a value at a pointer; `nontemporal` writes past the caches."""
        hint = ""
        if nontemporal:
            self.module.metadata["!0"] = "!{i32 1}"
            hint = ", !nontemporal !0"
        self.emit(f"store {value}, {pointer}, align {align or max(1, bits_of(value.ty) // 8)}{hint}")

    def masked_load(self, pointer: Val, mask: Val, ty: str, passthrough: Val | None = None) -> Val:
        """A vector whose masked-off lanes are not read but come from `passthrough` (or are 0)."""
        align = Val(str(max(1, bits_of(ty) // 8)), "i32")
        rest = passthrough or self.zero(ty)
        return self.intrinsic("masked.load", ty, [pointer, align, mask, rest], overload=[ty, "ptr"])

    def masked_store(self, value: Val, pointer: Val, mask: Val) -> None:
        """Write the lanes of a vector where the mask holds."""
        align = Val(str(max(1, bits_of(value.ty) // 8)), "i32")
        self.intrinsic("masked.store", "void", [value, pointer, align, mask], overload=[value.ty, "ptr"])

    def prefetch(self, pointer: Val, writes: bool = False, level: int = 2) -> None:
        """Prefetch the cache line at an address that will be read or written soon, into a level of the cache.

        The address need not be valid.
        """
        access, near, data = (Val(str(n), "i32") for n in (int(writes), 4 - level, 1))
        self.intrinsic("prefetch", "void", [pointer, access, near, data], overload=["ptr"])

    def gather(self, pointers: Val, mask: Val, ty: str, passthrough: Val | None = None) -> Val:
        """Per-lane loads where the mask holds; other lanes come from `passthrough` (or are 0)."""
        align = Val(str(max(1, bits_of(ty) // 8)), "i32")
        rest = passthrough or self.zero(ty)
        return self.intrinsic("masked.gather", ty, [pointers, align, mask, rest], overload=[ty, pointers.ty])

    def scatter(self, value: Val, pointers: Val, mask: Val) -> None:
        """Per-lane stores where the mask holds, lane 0 first."""
        align = Val(str(max(1, bits_of(value.ty) // 8)), "i32")
        self.intrinsic("masked.scatter", "void", [value, pointers, align, mask], overload=[value.ty, pointers.ty])

    def alloca(self, ty: str, count: int = 1, align: int = 64) -> Val:
        """Stack memory for the whole call (placed in the entry block)."""
        v = Val("%" + self.fresh("stack"), "ptr")
        self.entry.append(f"  {v.text} = alloca {ty}, i64 {count}, align {align}")
        return v

    # ---- calls

    def call(self, name: str, ret: str, args: Sequence[Val], attributes: str = "", stem: str = "r") -> Val:
        """Call @name; it is declared unless the module defines it."""
        if name not in self.module.functions:
            self.module.declare(name, ret, [a.ty for a in args])
        return self.call_value(Val(f"@{name}", "ptr"), ret, args, attributes, stem)

    def call_value(self, callee: Val, ret: str, args: Sequence[Val], attributes: str = "", stem: str = "r") -> Val:
        """Call through a pointer."""
        text = f"call {ret} {callee.text}({', '.join(map(str, args))}) {attributes}".rstrip()
        if ret == "void":
            self.emit(text)
            return Val("", "void")
        return self.op(text, ret, stem)

    # ---- control

    @contextmanager
    def loop(
        self, name: str, start: Operand, end: Operand, step: Operand = 1, carry: Sequence[Val] = ()
    ) -> Generator[LoopText]:
        """`for name in range(start, end, step)`, carrying values; `loop.results` after it."""
        start, end = self.i64(start), self.i64(end)
        stem = self.fresh(name)
        head, body, done = f"{stem}.head", f"{stem}.body", f"{stem}.done"
        before = self.block
        self.jump(head)
        self.label(head)
        place = len(self.lines)
        index = Val(f"%{stem}", "i64")
        carried = [Val(f"%{stem}.carry{k}", v.ty) for k, v in enumerate(carry)]
        inside = Val(f"%{stem}.in", "i1")
        self.emit(f"{inside.text} = icmp slt {index}, {end.text}")
        self.branch(inside, body, done)
        self.label(body)
        loop = LoopText(index, carried)
        yield loop
        following = loop.following or carried
        assert len(following) == len(carry), f"loop {name} carries {len(carry)} values"
        advanced = self.op(f"add nsw i64 {index.text}, {self.i64(step).text}", "i64", f"{stem}.next")
        latch = self.block
        self.jump(head)
        phis = [f"  {index.text} = phi i64 [ {start.text}, %{before} ], [ {advanced.text}, %{latch} ]"]
        phis += [
            f"  {c.text} = phi {c.ty} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]"
            for c, a, b in zip(carried, carry, following, strict=True)
        ]
        self.lines[place:place] = phis
        self.label(done)
        loop.results = carried

    @contextmanager
    def when(self, cond: Val) -> Generator[None]:
        """Write the following instructions under a condition."""
        stem = self.fresh("when")
        self.branch(cond, f"{stem}.then", f"{stem}.end")
        self.label(f"{stem}.then")
        yield
        self.jump(f"{stem}.end")
        self.label(f"{stem}.end")
