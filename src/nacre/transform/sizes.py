"""Sizes that change between calls: which axes of the arguments become symbolic, from the sizes of earlier calls.

The first call of a kind of arguments has a variant for its own sizes.  Once an axis has had a second size, it has a
symbol; axes that were equal in all calls share one.  Sizes 0 and 1 are part of the kind.  If the function needs the
number of a size while it is traced, that axis keeps its numbers, with a variant for each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nacre.base.dims import LIMIT, NEEDS, Dim, Size
from nacre.base.errors import Error, MissingAttribute
from nacre.base.locks import forkable
from nacre.base.size_binding import linear
from nacre.base.size_pattern import LEAST, SizePattern
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.stage import place_of, user_line
from nacre.trace.value import Value
from nacre.transform.concrete import ConcreteFunction

TRIES = 64  # traces of a function for one call, each with other bounds of symbols, or fewer symbols
MOST = 1024  # sizes with a variant of their own that are known for a kind


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

    `symbols` has the names of those sizes; it is empty after another error.  `bounds` are those of a symbol, if they
    would be enough.
    """

    def __init__(self, why: str, symbols: frozenset[str] = frozenset(), bounds: Bounds | None = None) -> None:
        super().__init__(why)
        self.why, self.symbols, self.bounds = why, symbols, bounds


class SizeUses:
    """The symbols whose numbers a trace needs, each with the first line that does; `sizes` are those of the call."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.lines: dict[str, str] = {}
        self.bounds: Bounds | None = None
        self.errors: list[tuple[Error, str]] = []  # each with the line where it was raised

    def fail(self, fault: Error) -> None:
        """Note an error: with numbers there may be none.  Names do not depend on sizes."""
        if not isinstance(fault, MissingAttribute):
            self.errors.append((fault, user_line()))

    def note(self, size: Dim, sign: str) -> None:
        """Note that the number of a size is needed, or only whether it is "< 0" or "<= 0"."""
        if not self.lines and sign:
            self.bounds = _enough(size, sign, self.sizes)
        else:
            self.bounds = None
        for symbol in size.symbols():
            self.lines.setdefault(symbol.name, user_line())

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
                why = f"{type(fault).__name__} while it was traced with symbolic sizes: {fault}"
                raise SizeNeeded("; ".join(filter(None, (why, place_of(fault))))) from fault
        finally:
            NEEDS.note, NEEDS.symbols, STATE.note_error = before, symbols, noting
        if not self.lines and self.errors:
            fault, line = self.errors[0]
            raise SizeNeeded(f"{type(fault).__name__} was handled while it was traced, at {line}: {fault}")
        if self.lines:
            why = "; ".join(f"{line} needs the number" for line in dict.fromkeys(self.lines.values()))
            raise SizeNeeded(why, frozenset(self.lines), self.bounds)
        return found  # pyright: ignore[reportPossiblyUnboundVariable]


def _enough(size: Dim, sign: str, sizes: Mapping[str, int]) -> Bounds | None:
    """The bounds of a symbol that decide in the same way as for given sizes whether a size is "< 0" or "<= 0"."""
    known = linear(size)
    if known is None or known[0].name not in sizes:
        return None
    symbol, factor, offset = known
    most = -1 if sign == "<" else 0  # of the size, if it is so
    value = factor * sizes[symbol.name] + offset
    low, high = symbol.bounds()
    upper = (value <= most) == (factor > 0)
    limit = (most if value <= most else most + 1) - offset  # of factor · symbol
    if upper:
        high = min(high, limit // factor)
    else:
        low = max(low, -(-limit // factor))
    return {symbol.name: (low, high)} if low <= sizes[symbol.name] <= high else None


def compile_symbolic(concrete: ConcreteFunction) -> None:
    """Compile a variant with symbolic sizes; raises SizeNeeded if that is not possible."""
    try:
        _ = concrete.executable
    except Exception as fault:
        raise SizeNeeded(f"{type(fault).__name__} while it was compiled for symbolic sizes: {fault}") from fault


def require_fixed(concrete: ConcreteFunction) -> None:
    """Raise SizeNeeded if a plain result, or the shape of a variable, depends on symbolic sizes."""
    sizes = [leaf for _, leaf in concrete.statics if isinstance(leaf, Dim)]
    if sizes:
        raise SizeNeeded(f"the result has the number of a size, {sizes[0]}", _names(sizes))
    for r in concrete.trace.variables:
        for held in (r.output, r.gradient_output):
            if held is not None and not held.type.static:
                raise SizeNeeded(
                    f"{r.variable.name or 'a variable'} would have the shape {held.type}", _names(held.type.shape)
                )


def _names(sizes: Iterable[Size]) -> frozenset[str]:
    """The names of the symbols of sizes."""
    return frozenset(s.name for n in sizes if isinstance(n, Dim) for s in n.symbols())


class CallKind:
    """The calls with arguments of one kind: the pattern of their sizes, and the axes that have no symbols."""

    def __init__(self, pattern: SizePattern) -> None:
        self.pattern = pattern
        self.exact: dict[tuple[int, ...], None] = {}  # the sizes with a variant of their own
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
    """The kinds of arguments of a function's calls."""

    def __init__(self, names: Callable[[Any], list[str]]) -> None:
        self.names = names  # of the leaves of a structure of arguments
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
            try:
                made = self.with_symbols(call, axes, bounds, _reasons(pattern, {**kind.numbers, **refused}))
                found = find(made._replace(numbers=numbers))
            except SizeNeeded as fault:
                if fault.bounds is not None:
                    bounds |= fault.bounds
                    continue
                needed = [k for k, name in axes.items() if name in fault.symbols]
                refused |= dict.fromkeys(needed or axes, fault.why)
                continue
            with self.changing:
                kind.pattern = kind.pattern.joined(sizes)
                kind.numbers |= refused
                if bounds and bounds not in kind.regions:
                    kind.regions.append(bounds)
            return found
        found = find(call._replace(note="; ".join(_reasons(pattern, {**kind.numbers, **refused}))))
        with self.changing:
            kind.pattern = kind.pattern.joined(sizes)
            kind.numbers |= refused
            _remember(kind.exact, sizes)
        return found

    def served_exactly(self, call: Call, name: Hashable, sizes: tuple[int, ...], find: Callable[[Call], Any]) -> Any:
        """The variant for the sizes of a call, which are known or the first ones of their kind."""
        found = find(call)
        with self.changing:
            kind = self.kinds.setdefault(name, CallKind(SizePattern.of(sizes)))
            kind.pattern = kind.pattern.joined(sizes)
            _remember(kind.exact, sizes)
        return found

    def with_symbols(self, call: Call, axes: Mapping[int, str], bounds: Bounds, others: Sequence[str]) -> Call:
        """The call with symbols for some axes; `others` are the reasons why others keep their numbers."""
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
            key=(call.key[0], leaf_keys, *call.key[2:]), types=types, note="; ".join([*varied, *others]), symbolic=True
        )


def _reasons(pattern: SizePattern, numbers: Mapping[int, str]) -> list[str]:
    """Why axes that have varied keep their numbers."""
    return [
        f"sizes are numbers: {why}" for why in dict.fromkeys(numbers[k] for k in sorted(numbers) if k in pattern.varied)
    ]


def _remember(exact: dict[tuple[int, ...], None], sizes: tuple[int, ...]) -> None:
    """Add sizes; beyond a limit, the oldest are forgotten."""
    exact[sizes] = None
    if len(exact) > MOST:
        del exact[next(iter(exact))]


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
