"""Sizes that change between calls: which axes of the arguments become symbolic, from the sizes of earlier calls.

The first call of a kind of arguments has a variant for its own sizes.  Once an axis has had a second size, it has a
symbol; axes that were equal in all calls share one.  Sizes 0 and 1 are part of the kind.  If the function needs the
number of a size while it is traced, that axis keeps its numbers, with a variant for each, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from nacre.base.dims import LIMIT, NEEDS, OBJECT, POWER, Dim, Size, lower, noted_needs, upper
from nacre.base.errors import Error, MissingAttribute
from nacre.base.locks import forkable
from nacre.base.size_pattern import LEAST, SizePattern
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.called import fault_place, user_line, user_operation
from nacre.ir.graph import Equation
from nacre.trace.value import Value
from nacre.transform.concrete import ConcreteFunction
from nacre.transform.kept_sizes import KeptSizes

TRIES = 64  # traces of a function for one call, each with other bounds of symbols, or fewer symbols
MANY = 8  # variants that differ in numbers alone, before a warning
MOST = 64  # such variants; a further one replaces the one that was found longest ago


Bounds = dict[str, tuple[int, int]]  # the least and the greatest numbers of symbols


class Call(NamedTuple):
    """The arguments of a call, their tensors, and the signature and types of a variant that may serve it."""

    values: list[Value]
    key: tuple[Any, ...]
    types: list[TensorType]
    args: Any
    kwargs: Any
    note: str = ""  # why a variant is made, beyond the differences of signatures
    symbolic: bool = False  # whether some sizes have become symbols because they changed
    numbers: Mapping[str, int] | None = None  # of these symbols

    @property
    def shapes(self) -> tuple[Any, ...]:
        """The shapes of the tensors."""
        return tuple([x.type.shape for x in self.values])

    @property
    def exact_key(self) -> tuple[Any, ...]:
        """The signature with the types of the tensors."""
        types = iter(self.values)
        leaves = [next(types).type if isinstance(k, TensorType) else k for k in self.key[1]]
        return self.key[0], tuple(leaves), *self.key[2:]


class SizeNeeded(Exception):
    """A variant with symbolic sizes is not possible: the trace needs numbers for some of them, or there was an error.

    `symbols` has the names of those sizes, each with the reason; it is empty after another error.  `bounds` are those
    of a symbol, if they would be enough.
    """

    def __init__(self, why: str, symbols: Mapping[str, str] | None = None, bounds: Bounds | None = None) -> None:
        super().__init__(why)
        self.why, self.symbols, self.bounds = why, symbols or {}, bounds


class SizeUses:
    """The symbols whose numbers a trace needs, each with the first line that does; `sizes` are those of the call."""

    def __init__(self, sizes: Mapping[str, int], function: Any, arguments: Any) -> None:
        self.sizes = sizes
        self.kept = KeptSizes(function, arguments, sizes)
        self.lines: dict[str, str] = {}
        self.bounds: Bounds | None = None
        self.errors: list[str] = []

    def fail(self, fault: Error) -> None:
        """Note an error: with numbers there may be none.  Names do not depend on sizes."""
        if not isinstance(fault, MissingAttribute):
            self.errors.append(f"{user_line()} raises {type(fault).__name__}, which is handled")

    def note(self, size: Dim, sign: str) -> None:
        """Note that the number of a size is needed, or only whether it is "< 0" or "<= 0"."""
        self.bounds = None if self.lines or sign not in ("<", "<=") else _enough(size, sign, self.sizes)
        operation = "a power of a size" if sign == POWER else user_operation()
        place = f"{user_line()}: {operation}" if operation else user_line()
        why = "an object keeps it" if sign == OBJECT else f"{place} needs the number"
        for symbol in size.symbols():
            self.lines.setdefault(symbol.name, why)

    def watched(self, work: Callable[[], Any]) -> Any:
        """What a function is traced to; raises SizeNeeded where a variant for numbers may succeed."""
        before, NEEDS.note = NEEDS.note, self.note
        symbols, NEEDS.symbols = NEEDS.symbols, self.sizes.keys()
        noting, STATE.note_error = STATE.note_error, self.fail
        try:
            found = work()
        except SizeNeeded:
            raise
        except Exception as fault:
            if not self.lines:
                raise SizeNeeded(_refusal(fault)) from fault
        finally:
            NEEDS.note, NEEDS.symbols, STATE.note_error = before, symbols, noting
            left = self.kept.take_back()
        if left:
            self.bounds = None
            self.lines = left | {name: why for name, why in self.lines.items() if name not in left}
        if not self.lines and self.errors:
            raise SizeNeeded(self.errors[0])
        if self.lines:
            raise SizeNeeded(next(iter(self.lines.values())), self.lines, self.bounds)
        return found  # pyright: ignore[reportPossiblyUnboundVariable]


def _refusal(fault: Exception) -> str:
    """The line of the user at which a trace with symbolic sizes failed, and the operation that failed."""
    place, operation = fault_place(fault)
    if place is None:
        return f"it raises {type(fault).__name__} with symbolic sizes"
    if isinstance(fault, Error) and operation:
        return f"{place}: {operation} has no form for symbolic sizes"
    return f"{place} raises {type(fault).__name__} with symbolic sizes"


def _enough(size: Dim, sign: str, sizes: Mapping[str, int]) -> Bounds | None:
    """The bounds of a symbol that decide in the same way as for given sizes whether a size is "< 0" or "<= 0".

    The widest bounds from below are taken, and those from above where none are enough.
    """
    symbols = size.symbols()
    if len(symbols) != 1 or any(s.name not in sizes for s in symbols):
        return None
    (symbol,) = symbols
    number = sizes[symbol.name]
    most = -1 if sign == "<" else 0  # of the size, if it is so
    is_so = size.evaluate(sizes) <= most

    def decided(low: int, high: int) -> bool:
        """Whether bounds of the symbol are enough."""
        found = size.substitute({symbol.name: Dim.symbol(symbol.name, low, high)})
        return upper(found) <= most if is_so else lower(found) > most

    if not symbol.low <= number <= symbol.high:
        return None
    if decided(number, symbol.high):
        return {symbol.name: (_first(range(symbol.low, number + 1), lambda k: decided(k, symbol.high)), symbol.high)}
    if decided(symbol.low, number):
        back = range(symbol.high, number - 1, -1)
        return {symbol.name: (symbol.low, _first(back, lambda k: decided(symbol.low, k)))}
    return None


def _first(numbers: Sequence[int], holds: Callable[[int], bool]) -> int:
    """The first number from which on a condition holds, which it does for the last one."""
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(numbers[middle]) else (middle + 1, high)
    return numbers[low]


def compile_symbolic(concrete: ConcreteFunction) -> None:
    """Compile a variant with symbolic sizes; raises SizeNeeded if that is not possible."""
    needs: list[Dim] = []
    try:
        with noted_needs() as needs:
            _ = concrete.executable
    except Exception as fault:
        e = _failed(fault)
        what = "an operation" if e is None else f"{e.source}: {e.primitive.name}"
        why = f"{what} has no form for symbolic sizes"
        raise SizeNeeded(why, dict.fromkeys(_names(needs), why)) from fault


def _failed(fault: Exception) -> Equation | None:
    """The equation that the compiler worked on when it failed: the innermost one that a function has."""
    found, step = None, fault.__traceback__
    while step is not None:
        for x in step.tb_frame.f_locals.values():
            if isinstance(x, Equation) and x.source:
                found = x
        step = step.tb_next
    return found


def require_fixed(concrete: ConcreteFunction) -> None:
    """Raise SizeNeeded if a plain result, or the shape of a variable, depends on symbolic sizes."""
    sizes = [leaf for _, leaf in concrete.statics if isinstance(leaf, Dim)]
    if sizes:
        why = "it is a result of the function"
        raise SizeNeeded(why, dict.fromkeys(_names(sizes), why))
    for r in concrete.trace.variables:
        for held in (r.output, r.gradient_output):
            if held is not None and not held.type.static:
                why = f"it would be part of the shape of {r.variable.name or 'a variable'}"
                raise SizeNeeded(why, dict.fromkeys(_names(held.type.shape), why))


def _names(sizes: Iterable[Size]) -> frozenset[str]:
    """The names of the symbols of sizes."""
    return frozenset(s.name for n in sizes if isinstance(n, Dim) for s in n.symbols())


class CallKind:
    """The calls with arguments of one kind: the pattern of their sizes, and the axes that have no symbols."""

    def __init__(self, pattern: SizePattern) -> None:
        self.pattern = pattern
        self.exact = set[tuple[int, ...]]()  # the sizes with a variant of their own
        # the signatures with numbers that are needed, and their sizes; the one that was found last is at the end
        self.needed: dict[Hashable, tuple[int, ...]] = {}
        self.regions: list[Bounds] = []  # bounds of symbols for which there are variants
        self.numbers: dict[int, str] = {}  # the axes that keep their numbers, and why

    def symbols(self, pattern: SizePattern, types: Sequence[TensorType]) -> dict[int, str]:
        """The axes that become symbols, and names; `types` are those of the arguments, which may have symbols, too."""
        taken = _names(n for t in types for n in t.shape)
        free = [f"n{k}" for k in range(len(pattern.groups) + len(taken)) if f"n{k}" not in taken]
        axes = [k for k in sorted(pattern.varied) if k not in self.numbers]
        return {k: free[pattern.groups[k]] for k in axes}

    def region(self, numbers: Mapping[str, int]) -> Bounds:
        """Known bounds of symbols that hold for numbers."""
        for region in self.regions:
            if all(low <= numbers.get(symbol, low) <= high for symbol, (low, high) in region.items()):
                return region
        return {}


class SizeHistory:
    """The kinds of arguments of a function's calls.

    `names` are the names of the leaves of a structure of arguments.  `drop` forgets the variants of some signatures,
    and lets the next call of each other one be found here.  `warn` gets the reason for the last of many variants.
    """

    def __init__(
        self,
        names: Callable[[Any], Iterable[str]],
        drop: Callable[[Sequence[Hashable]], None],
        warn: Callable[[str], None],
    ) -> None:
        self.names, self.drop, self.warn = names, drop, warn
        self.kinds: dict[Hashable, CallKind] = {}
        self.changing = forkable()

    def clear(self) -> None:
        """Forget all calls."""
        with self.changing:
            self.kinds.clear()

    def serve(self, call: Call, find: Callable[[Call], Any]) -> Any:
        """The variant for a call: `find` finds or makes that of a signature and types, or raises SizeNeeded."""
        name, sizes = _kind(call)
        kind = self.kinds.get(name)
        if kind is None or sizes in kind.exact:
            return self.served_exactly(call, name, sizes, find)
        pattern = kind.pattern.joined(sizes)
        names = kind.symbols(pattern, call.types)
        numbers = {name: sizes[k] for k, name in names.items()}
        bounds = dict(kind.region(numbers))
        refused: dict[int, str] = {}
        for _ in range(TRIES):
            axes = {k: name for k, name in names.items() if k not in refused}
            if not axes:
                break
            why = self.reasons(call, pattern, {**kind.numbers, **refused})
            try:
                made = self.with_symbols(call, axes, bounds, why)
                found = find(made._replace(numbers=numbers))
            except SizeNeeded as fault:
                if fault.bounds is not None:
                    bounds |= fault.bounds
                    continue
                needed = {k: fault.symbols[name] for k, name in axes.items() if name in fault.symbols}
                refused |= needed or dict.fromkeys(axes, fault.why)
                continue
            with self.changing:
                kind.pattern = kind.pattern.joined(sizes)
                kind.numbers |= refused
                if bounds and bounds not in kind.regions:
                    kind.regions.append(bounds)
            if why:
                self.limit(kind, made.key, (), why)
            return found
        why = self.reasons(call, pattern, {**kind.numbers, **refused})
        found = find(call._replace(note=why))
        with self.changing:
            kind.pattern = kind.pattern.joined(sizes)
            kind.numbers |= refused
            kind.exact.add(sizes)
        self.limit(kind, call.key, sizes, why)
        return found

    def served_exactly(self, call: Call, name: Hashable, sizes: tuple[int, ...], find: Callable[[Call], Any]) -> Any:
        """The variant for the sizes of a call, which are known or the first ones of their kind."""
        found = find(call)
        with self.changing:
            kind = self.kinds.setdefault(name, CallKind(SizePattern.of(sizes)))
            kind.pattern = kind.pattern.joined(sizes)
            kind.exact.add(sizes)
            if call.key in kind.needed:
                kind.needed[call.key] = kind.needed.pop(call.key)
        return found

    def limit(self, kind: CallKind, key: Hashable, sizes: tuple[int, ...], why: str) -> None:
        """Note that a signature was found that has numbers because they are needed; of too many, forget one."""
        with self.changing:
            is_new = key not in kind.needed
            kind.needed.pop(key, None)
            kind.needed[key] = sizes
            count = len(kind.needed)
            gone = list(kind.needed)[: max(count - MOST, 0)]
            for oldest in gone:
                kind.exact.discard(kind.needed.pop(oldest))
            if gone or (is_new and count >= MANY):
                self.drop(gone)
        if is_new and count == MANY:
            self.warn(why)

    def reasons(self, call: Call, pattern: SizePattern, numbers: Mapping[int, str]) -> str:
        """Why axes that have varied keep their numbers."""
        places = list(self.places(call))
        varied = [k for k in sorted(numbers) if k in pattern.varied]
        found: list[str] = []
        for why in dict.fromkeys(numbers[k] for k in varied):
            axes = [places[k] for k in varied if numbers[k] == why]
            shown = [_axes_of(leaf, [axis for axis, _ in each]) for leaf, each in groupby(axes, lambda p: p[1])]
            found.append(f"{' and '.join(shown)} {'stays a number' if len(axes) == 1 else 'stay numbers'}: {why}")
        return "; ".join(found)

    def places(self, call: Call) -> Iterator[tuple[int, str]]:
        """The axis and the name of the argument of each size that may become a symbol."""
        for leaf, type in zip(self.names(call.key[0]), call.key[1], strict=True):
            if isinstance(type, TensorType):
                yield from ((axis, leaf) for axis in _axes(type))

    def with_symbols(self, call: Call, axes: Mapping[int, str], bounds: Bounds, others: str) -> Call:
        """The call with symbols for some axes; `others` has the reasons why others keep their numbers."""
        types: list[TensorType] = []
        varied: list[str] = []
        leaves = [
            name for name, k in zip(self.names(call.key[0]), call.key[1], strict=True) if isinstance(k, TensorType)
        ]
        at = 0
        for type, leaf in zip(call.types, leaves, strict=True):
            shape = list(type.shape)
            for axis in _axes(type):
                if at in axes:
                    low, high = bounds.get(axes[at], (LEAST, LIMIT))
                    shape[axis] = Dim.symbol(axes[at], min=low, max=high)
                    within = f" from {low} to {high}" if high < LIMIT else f" from {low}" if low > LEAST else ""
                    varied.append(f"axis {axis} of argument {leaf} varied{within}")
                at += 1
            types.append(type.with_shape(shape))
        given = iter(types)
        leaf_keys = tuple([next(given) if isinstance(k, TensorType) else k for k in call.key[1]])
        return call._replace(
            key=(call.key[0], leaf_keys, *call.key[2:]),
            types=types,
            note="; ".join([*varied, *filter(None, (others,))]),
            symbolic=True,
        )


def _axes_of(leaf: str, axes: Sequence[int]) -> str:
    """Axes of an argument in words."""
    return f"{'axis' if len(axes) == 1 else 'axes'} {' and '.join(map(str, axes))} of argument {leaf}"


def _axes(type: TensorType) -> Iterator[int]:
    """The axes whose sizes may become symbols."""
    return (k for k, n in enumerate(type.shape) if isinstance(n, int) and n >= LEAST)


def _kind(call: Call) -> tuple[Hashable, tuple[int, ...]]:
    """The kind of a call's arguments, and the sizes that may become symbols."""
    sizes: list[int] = []
    leaves: list[Hashable] = []
    for k in call.key[1]:
        if isinstance(k, TensorType):
            axes = set(_axes(k))
            sizes += [k.shape[axis] for axis in sorted(axes)]  # type: ignore[misc]
            leaves.append((k.dtype, tuple([-1 if axis in axes else n for axis, n in enumerate(k.shape)])))
        else:
            leaves.append(k)
    return (call.key[0], tuple(leaves), *call.key[2:]), tuple(sizes)
