"""Expressions of a kernel as LLVM values: each is computed once, as far out as possible, as a vector only if needed.

Expressions are numbered so that equal ones in equal circumstances share a number; a load's number contains the
version of its buffer, which every store advances.  Values are cached by number in scopes that follow the blocks of
the function, so that a value found there dominates its use.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager

from nacre.base.cached_property import cached_property
from nacre.base.dims import Dim, Size
from nacre.base.dtypes import bool_
from nacre.base.errors import CompileError
from nacre.base.records import dataclass
from nacre.codegen.loops.accumulators import Accumulators
from nacre.codegen.loops.interleaved import every_second, load_both, load_sparse, part_of, store_both
from nacre.codegen.loops.operations import constant, memory, operate
from nacre.codegen.loops.value_range import ValueRanges
from nacre.kernel.affine import Affine, Scope, offset
from nacre.kernel.ast import Apply, Buffer, Const, Expr, Extent, Index, Kernel, Load, Local, Stmt, Store
from nacre.kernel.dependence import written
from nacre.native.isa import Isa
from nacre.native.llvm_types import bits_of, lanes_of, scalar_of, vec
from nacre.native.llvm_values import Val
from nacre.native.text import Function


@dataclass(frozen=True)
class Storage:
    """The place of a buffer; `lanes` > 1 if each lane of a vector loop has its own copy, lanes innermost."""

    buffer: Buffer
    pointer: Val
    lanes: int = 1

    @property
    def element(self) -> str:
        """The LLVM type of the element at one index: a scalar, or a vector of the lanes."""
        return vec(memory(self.buffer.dtype), self.lanes)


@dataclass(frozen=True)
class Place:
    """The place of an access: `one` element, a `row` of lanes, a row `back`wards, or an address for `each` lane.

    `pairs` is a row of every second element, the address that of the first lane.  So is `sparse`, where the elements
    between the lanes are not needed, and that behind the last lane may not exist.
    """

    kind: str
    pointer: Val


class MemoryHints:
    """Cache hints of accesses; none, unless a part of the emitter overrides them."""

    def alignment(self, buffer: str, lanes: int) -> int | None:
        """The alignment of a whole vector that bypasses the caches; None where it does not."""
        return None

    def ahead(self, e: Load, pointer: Val, size: int) -> None:
        """Prefetch memory that later iterations will read, if that pays; this load reads `size` bytes."""


class Values:
    """The expressions of one kernel function, and their dependences: indices, lanes, memory, accumulators."""

    def __init__(self, f: Function, isa: Isa, kernel: Kernel) -> None:
        self.f, self.isa, self.kernel = f, isa, kernel
        self.buffers = {b.name: b for b in kernel.buffers}
        self.accumulators = Accumulators(f, kernel)
        self.hints = MemoryHints()
        self.scratch_size: Size = 0
        self.lanes = 1
        self.vector: str | None = None  # the index that differs by lane
        self.mask: Val | None = None  # the lanes that are active; None: all
        self.guarded = False  # inside a condition that may hold for no lane
        self.sizes: list[Dim] = []
        self.size_values: dict[Dim, Val] = {}
        self.first_size = len(kernel.buffers)  # the slot of the first size
        self.storage: dict[str, Storage] = {}
        self.tiles: dict[tuple[str, tuple[Expr, ...]], tuple[Val, Val, Val]] = {}  # memory, first row and column
        self.tile_row: tuple[Val, str, int] | None = None  # the row to read, the index along it, its length
        self.versions: dict[str, int] = {}
        self.indices: dict[str, tuple[int, Val]] = {}  # open loops, outermost first: serial, value in the first lane
        self.extents: dict[str, Size] = {}
        self.locals: dict[str, int] = {}
        self.lets: dict[str, Expr] = {}
        self.scopes: list[dict[Hashable, Val]] = [{}]
        self._serial = 0
        self._numbers: dict[Hashable, int] = {}
        self._seen: dict[int, tuple[Expr, int]] = {}

    def enter(self) -> None:
        """Load the addresses of the buffers."""
        f = self.f
        for k, b in enumerate(self.kernel.buffers):
            self.storage[b.name] = Storage(b, f.load(f.gep(f["args"], k, "ptr"), "ptr"))

    @cached_property
    def ranges(self) -> ValueRanges:
        """The known bounds of the kernel's values, computed at the first use."""
        return ValueRanges(self.kernel)

    # ---- sizes

    def size(self, size: Size) -> Val:
        """A size as an i64: a constant, or one of the kernel's integer parameters."""
        if isinstance(size, int):
            return self.f.i64(size)
        found = self.size_values.get(size)
        if found is None:
            slot = self.first_size + len(self.sizes)
            with self.f.at_entry():
                place = self.f.gep(self.f["args"], slot, "i64", "size.p")
                found = self.size_values[size] = self.f.load(place, "i64", stem="size")
            self.sizes.append(size)
        return found

    # ---- scopes and numbers

    @contextmanager
    def scope(self) -> Generator[None]:
        """Discard the values that are computed inside at the end."""
        self.scopes.append({})
        before = dict(self.locals), dict(self.lets)
        yield
        self.scopes.pop()
        self.locals, self.lets = before
        self._seen.clear()

    @contextmanager
    def index(self, name: str, value: Val, extent: Size) -> Generator[None]:
        """Inside, a loop's index has the given value (that of the first lane)."""
        self._serial += 1
        if name in self.indices:
            raise CompileError(f"kernel: loop indices must be distinct; got {name} twice")
        self.indices[name] = self._serial, value
        self.extents[name] = extent
        self._seen.clear()
        with self.scope():
            yield
        del self.indices[name], self.extents[name]
        self._seen.clear()

    @contextmanager
    def moved(self, name: str, step: int) -> Generator[None]:
        """Inside, an index is larger by `step`."""
        before = self.indices[name]
        self._serial += 1
        self.indices[name] = self._serial, self.f.add(before[1], step)
        yield
        self.indices[name] = before
        self._seen.clear()

    @contextmanager
    def lanes_are(self, index: str, lanes: int, first: Val, extent: Size, mask: Val | None = None) -> Generator[None]:
        """Inside, lanes count an index from `first`."""
        before = self.lanes, self.vector, self.mask
        self.lanes, self.vector, self.mask = lanes, index, mask
        with self.index(index, first, extent):
            yield
        self.lanes, self.vector, self.mask = before

    def bind(self, name: str, value: Expr) -> None:
        """Bind a name to an expression's value."""
        self.locals[name] = self.number(value)
        self.lets[name] = value
        self._seen.clear()

    def written(self, buffer: str) -> None:
        """Record that a buffer's elements may have changed."""
        self._serial += 1
        self.versions[buffer] = self._serial
        self._seen.clear()

    def forget(self, body: Sequence[Stmt]) -> None:
        """Invalidate the values in memory that a body stores to."""
        for n in written(body):
            if n not in self.accumulators.states:
                self.written(n)

    def forget_numbers(self) -> None:
        """Number the expressions again: a scalar has changed."""
        self._seen.clear()

    def take(self, names: Sequence[str], values: Sequence[Val]) -> None:
        """Set the accumulators' states to the values."""
        self.accumulators.states.update(zip(names, values, strict=True))
        self._seen.clear()

    def number(self, e: Expr) -> int:
        """The value number of an expression; equal numbers mean equal values."""
        seen = self._seen.get(id(e))
        if seen is not None:
            return seen[1]
        match e:
            case Const():
                key: Hashable = "const", e.dtype, repr(e.value)
            case Extent():
                key = "size", e.size
            case Index():
                key = "index", e.name, self.indices[e.name][0]
            case Local():
                return self.locals[e.name]
            case Load() if e.buffer in self.accumulators.states:
                key = "state", *self.accumulators.texts(e.buffer)
            case Load():
                key = "load", e.buffer, self.versions.get(e.buffer), *map(self.number, e.index)
            case Apply():
                key = e.op, e.dtype, *map(self.number, e.args)
        n = self._numbers.setdefault(key, len(self._numbers))
        self._seen[id(e)] = e, n
        return n

    def find(self, key: Hashable) -> Val | None:
        """The value known under a key in the innermost scope that has it."""
        return next((s[key] for s in reversed(self.scopes) if key in s), None)

    # ---- values

    def value(self, e: Expr) -> Val:
        """The value of an expression: a scalar, or a vector if it depends on the vector index."""
        n = self.number(e)
        found = self.find(n)
        if found is None:
            found = self.scopes[-1][n] = self._compute(e)
        return found

    def widened(self, v: Val) -> Val:
        """A value in every lane."""
        if self.lanes == 1 or lanes_of(v.ty) > 1:
            return v
        if not v.text.startswith("%"):
            inner = ", ".join([str(v)] * self.lanes)
            return Val(f"<{inner}>", vec(v.ty, self.lanes))
        key = "splat", v.text, self.lanes
        found = self.find(key)
        if found is None:
            found = self.scopes[-1][key] = self.f.splat(v, self.lanes)
        return found

    def row(self, e: Expr) -> Val:
        """The value of an expression in every lane."""
        return self.widened(self.value(e))

    def _compute(self, e: Expr) -> Val:
        match e:
            case Const():
                return constant(self.f, e.dtype, e.value)
            case Extent():
                return self.size(e.size)
            case Index():
                return self._index(e)
            case Local():
                return self.value(self.lets[e.name])
            case Load():
                return self.accumulators.state(e.buffer) if e.buffer in self.accumulators.states else self._load(e)
            case Apply():
                return self._apply(e)

    def _index(self, e: Index) -> Val:
        first = self.indices[e.name][1]
        if e.name != self.vector or self.lanes == 1:
            return first
        return self.f.add(self.widened(first), self.f.vector("i64", range(self.lanes)))

    def _apply(self, e: Apply) -> Val:
        args = [self.value(a) for a in e.args]
        if any(lanes_of(a.ty) > 1 for a in args):
            args = [self.widened(a) for a in args]
        source = e.args[1 if e.op == "select" else 0].dtype
        divisor = e.args[1] if e.op in ("idiv", "rem") else None
        if isinstance(divisor, Const) and source.is_integer and divisor.value not in (0, -1):
            sign = "s" if source.is_signed else "u"
            return self.f.binary(sign + ("div" if e.op == "idiv" else "rem"), args[0], args[1])
        op = "exp_falling" if e.op == "exp" and self.falls(e.args[0]) else e.op
        return operate(self.f, op, args, source, e.dtype)

    def falls(self, e: Expr) -> bool:
        """Whether an expression is known not to be above 0, unless it is NaN."""
        return self.ranges.falls(e, self.extents)

    # ---- memory

    def known_buffers(self) -> dict[str, Buffer]:
        """The kernel's buffers and the scratch buffers in use, by name."""
        return {**self.buffers, **{n: p.buffer for n, p in self.storage.items()}}

    def room(self, size: Size) -> Val:
        """Scratch memory of a number of bytes, for the whole call of the kernel."""
        pointer = self.f.gep(self.f["scratch"], self.size(self.scratch_size))
        self.scratch_size = self.scratch_size + (size + 63) // 64 * 64
        return pointer

    def known(self) -> Scope:
        """The extents and definitions for the affine analysis here."""
        return Scope(self.extents, self.lets)

    def terms(self, form: Affine) -> list[tuple[Expr, Size]]:
        """The terms of an offset, those of outer loops first, other expressions before the vector index."""
        order = {name: k for k, name in enumerate(self.indices)}
        last = len(order) + 1

        def rank(term: tuple[Expr, Size]) -> int:
            """The depth of the loop whose index the term has; all others come last."""
            atom = term[0]
            return order[atom.name] if isinstance(atom, Index) and atom.name != self.vector else last

        return sorted(form.terms, key=rank)

    def advance(self, pointer: Val, element: str, parts: Sequence[tuple[Expr, Size]]) -> Val:
        """pointer + Σ atom · size elements; shares addresses that are known for a prefix of the parts."""
        for atom, size in parts:
            key = "address", pointer.text, element, self.number(atom), size
            found = self.find(key)
            if found is None:
                step = self.indices[atom.name][1] if isinstance(atom, Index) else self.value(atom)
                found = self.f.gep(pointer, self._times(step, size), element)
                self.scopes[-1][key] = found
            pointer = found
        return pointer

    def _times(self, v: Val, size: Size) -> Val:
        if size == 1:
            return v
        return self.f.mul(v, self.widened_like(self.size(size), v))

    def widened_like(self, v: Val, other: Val) -> Val:
        """v in every lane, if the other value is a vector."""
        return self.widened(v) if lanes_of(other.ty) > 1 else v

    def place(self, storage: Storage, index: Sequence[Expr], pairs: bool = False, sparse: bool = False) -> Place:
        """The place of the elements at an index; `pairs` and `sparse` where the access can take those."""
        f, element = self.f, storage.element
        form = offset(storage.buffer, index, self.known())
        start = storage.pointer
        if form.constant != 0 and not isinstance(form.constant, int):
            start = self.displaced(start, element, form.constant)
        moving = [t for t in self.terms(form) if self._varies(t[0])]
        fixed = [t for t in self.terms(form) if not self._varies(t[0])]
        pointer = self.advance(start, element, fixed)
        steps = [(a, c) for a, c in moving if not isinstance(a, Index)]
        stride = form.coefficient(self.vector) if self.vector and self.lanes > 1 else 0
        if stride != 0:
            pointer = self.advance(pointer, element, [(Index(self.vector or ""), stride)])
        if isinstance(form.constant, int) and form.constant != 0:
            pointer = self.displaced(pointer, element, form.constant)
        if not steps and storage.lanes == 1 and stride in (0, 1, -1):
            if stride == -1:
                return Place("back", f.gep(pointer, 1 - self.lanes, element))
            return Place("one" if stride == 0 else "row", pointer)
        if not moving and storage.lanes > 1:
            return Place("row", pointer)
        if (pairs or sparse) and not steps and storage.lanes == 1 and stride == 2:
            return Place("pairs" if pairs else "sparse", pointer)
        return Place("each", self._each(storage, pointer, steps, stride))

    def displaced(self, pointer: Val, element: str, constant: Size) -> Val:
        """pointer + a number of elements, shared."""
        key = "address", pointer.text, element, constant
        found = self.find(key)
        if found is None:
            found = self.scopes[-1][key] = self.f.gep(pointer, self.size(constant), element)
        return found

    def _varies(self, atom: Expr) -> bool:
        """Whether an atom differs between lanes."""
        if self.lanes == 1:
            return False
        if isinstance(atom, Index):
            return atom.name == self.vector
        return lanes_of(self.value(atom).ty) > 1

    def _each(self, storage: Storage, pointer: Val, steps: Sequence[tuple[Expr, Size]], stride: Size) -> Val:
        """The address of each lane's element."""
        f, ty = self.f, vec("i64", self.lanes)
        iota = f.vector("i64", range(self.lanes))
        total = f.zero(ty)
        for atom, size in steps:
            total = f.add(total, self._times(self.value(atom), size))
        if stride != 0:
            total = f.add(total, f.mul(iota, self.widened(self.size(stride))))
        if storage.lanes > 1:
            total = f.add(f.mul(total, f.const(ty, self.lanes)), iota)
        scalar = scalar_of(storage.element)
        return f.gep(pointer, total, scalar)

    def _load(self, e: Load) -> Val:
        f, storage = self.f, self.storage[e.buffer]
        scalar = memory(e.dtype)
        if (e.buffer, e.index) in self.tiles and self.tile_row is not None:
            return self._from_tile(e, self.tile_row)
        part = part_of(storage.buffer, e.index)
        place = self.place(storage, e.index, pairs=part is not None, sparse=self.mask is None)
        ty = scalar if place.kind == "one" else vec(scalar, self.lanes)
        if place.kind == "pairs" and part is not None:
            v = every_second(f, self._both(e, f.gep(place.pointer, -part, scalar)), part)
        elif place.kind == "sparse":
            v = load_sparse(f, place.pointer, scalar, self.lanes)
        elif place.kind == "one":
            v = f.load(self._harmless(place.pointer, bits_of(scalar)), scalar)
        elif place.kind == "each":
            v = f.gather(place.pointer, self._active(), ty, Val("zeroinitializer", ty))
        elif self.mask is None or storage.lanes > 1:
            v = self._backwards(f.load(place.pointer, ty), place)
            self.hints.ahead(e, place.pointer, bits_of(scalar) // 8 * self.lanes)
        else:
            mask, absent = self._backwards(self.mask, place), Val("zeroinitializer", ty)
            v = self._backwards(f.masked_load(place.pointer, mask, ty, absent), place)
        return f.icmp("ne", v, f.zero(ty)) if e.dtype is bool_ else v

    def _both(self, e: Load, pointer: Val) -> Val:
        """Both parts of the lanes, loaded once for the loads of either part."""
        key = "both", e.buffer, self.versions.get(e.buffer), *map(self.number, e.index[:-1])
        found = self.find(key)
        if found is None:
            found = self.scopes[-1][key] = load_both(self.f, pointer, memory(e.dtype), self.lanes, self.mask)
            self.hints.ahead(e, pointer, bits_of(memory(e.dtype)) // 4 * self.lanes)
        return found

    def _from_tile(self, e: Load, row: tuple[Val, str, int]) -> Val:
        """A load whose elements have been copied into a tile."""
        f = self.f
        room, first_row, first_column = self.tiles[e.buffer, e.index]
        line = f.gep(room, f.mul(f.sub(row[0], first_row), row[2]), memory(e.dtype))
        start = f.gep(line, f.sub(self.indices[row[1]][1], first_column), memory(e.dtype))
        v = f.load(start, vec(memory(e.dtype), self.lanes))
        return f.icmp("ne", v, f.zero(v.ty)) if e.dtype is bool_ else v

    def store(self, buffer: str, index: Sequence[Expr], value: Expr) -> None:
        """buffer[index] = value, in the active lanes."""
        f, storage = self.f, self.storage[buffer]
        v = self.value(value)
        place = self.place(storage, index)
        if place.kind != "one":
            v = self.widened(v)
        elif lanes_of(v.ty) > 1 or self.mask is not None:
            raise CompileError(f"kernel: each lane must have its own element of {buffer}; the lanes share one")
        if value.dtype is bool_:
            v = f.cast("zext", v, "i8")
        if place.kind == "each":
            f.scatter(v, place.pointer, self._active())
        elif self.mask is None or place.kind == "one":
            line = self.hints.alignment(buffer, lanes_of(v.ty)) if place.kind == "row" else None
            f.store(self._backwards(v, place), place.pointer, line, nontemporal=line is not None)
        else:
            f.masked_store(self._backwards(v, place), place.pointer, self._backwards(self.mask, place))
        self.written(buffer)

    def store_both(self, first: Store, second: Store) -> bool:
        """Store both parts of each lane at once; false, with nothing done, where they are not adjacent."""
        storage = self.storage[first.buffer]
        if self.lanes == 1 or part_of(storage.buffer, first.index) is None:
            return False
        values = [self.row(s.value) for s in (first, second)]
        place = self.place(storage, first.index, pairs=True)
        if place.kind != "pairs":
            return False
        store_both(self.f, values[0], values[1], place.pointer, self.mask)
        self.written(first.buffer)
        return True

    def _active(self) -> Val:
        return self.mask if self.mask is not None else self.f.const(vec("i1", self.lanes), True)

    def _backwards(self, v: Val, place: Place) -> Val:
        return self.f.shuffle(v, v, range(self.lanes - 1, -1, -1)) if place.kind == "back" else v

    def _harmless(self, pointer: Val, bits: int) -> Val:
        """The address of one element that all lanes read; where no lane is active, of memory that can be read."""
        if self.mask is None or not self.guarded:
            return pointer
        some = self.f.intrinsic("vector.reduce.or", "i1", [self.mask], overload=[self.mask.ty])
        return self.f.select(some, pointer, self.f.alloca(f"i{bits}"))
