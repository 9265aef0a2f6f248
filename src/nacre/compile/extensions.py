"""Extensions: passes and kernels from outside the package, their versions, and the caches that they invalidate."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from itertools import count
from types import CellType, CodeType, FunctionType
from typing import Any

from nacre.base.records import dataclass
from nacre.ir.graph import Graph
from nacre.ir.primitive import Primitive, registered
from nacre.ops import OWN


@dataclass(frozen=True, eq=False)
class OutsidePass:
    """A graph pass from outside the package.  Programs are stored on disk only under its version."""

    name: str
    contract: str
    run: Callable[[Graph], Graph]
    version: str


_Extension = tuple[str, str | None, Any]  # name, version and code

PASSES: dict[str, OutsidePass] = {}  # by name, in order of registration
_generations = count(1)
_generation = [0]
_caches: list[Callable[[], None]] = []


def generation() -> int:
    """A number that changes whenever a pass or a kernel is registered or removed."""
    return _generation[0]


def forget_on_change(forget: Callable[[], None]) -> None:
    """Call a function whenever a pass or a kernel is registered or removed: it drops earlier compiled code."""
    _caches.append(forget)


def changed() -> None:
    """Clear every cache of compiled code, because code is compiled in another way from now on."""
    _generation[0] = next(_generations)
    for forget in _caches:
        forget()


def versions(graph: Graph) -> list[str] | None:
    """The extensions that a program of a graph uses, with versions and digests; None if one has no version."""
    used = _primitives(graph)
    if PASSES:
        used |= {p for p in registered().values() if p.outside}  # a pass may insert any of these
    found = [*_general(generation()), *(each for p in used.difference(OWN) for each in _kernels(p))]
    for p in used:
        if OWN.get(p) is not p.lowering:
            found.append((f"primitive {p.name}", p.version, getattr(p.lowering, "rule", None)))
    if not all(version for _, version, _ in found):
        return None
    return sorted(f"{what} {version!r} {digest(code)}" for what, version, code in found)


@lru_cache(maxsize=1)
def _general(generation: int) -> list[_Extension]:
    """The extensions that concern every program: the passes, and kernels of the package's own primitives."""
    order = " ".join(PASSES)
    passes = [(f"pass {p.name} of {order}", p.version, p.run) for p in PASSES.values()]
    return [*passes, *(each for p in list(OWN) for each in _kernels(p))]


def _kernels(p: Primitive) -> list[_Extension]:
    outside = [k for k in p.kernels if not k.is_ours]
    return [(f"kernel {p.name} {n} {k.target}", k.version, (k.rule, k.match)) for n, k in enumerate(outside)]


def digest(code: Any) -> str:
    """A hash of functions' bytecode and constants, with the functions and plain values that they refer to.

    It separates definitions of one name and version.  Objects of other kinds are represented by their type.
    """
    found = sha256()
    _describe(code, found.update, set())
    return found.hexdigest()[:16]


def _describe(x: Any, add: Callable[[bytes], object], seen: set[int]) -> None:
    if isinstance(x, tuple | list):
        for part in x:  # pyright: ignore[reportUnknownVariableType]
            _describe(part, add, seen)
    elif isinstance(x, CodeType):
        add(x.co_code + " ".join(x.co_names).encode())
        _describe(x.co_consts, add, seen)
    elif isinstance(x, FunctionType):
        add(x.__qualname__.encode())
        if id(x) in seen or (str(x.__module__).startswith("nacre.") and not x.__closure__):
            return
        seen.add(id(x))
        cells = [c.cell_contents for c in x.__closure__ or () if c != CellType()]
        globals_ = [x.__globals__[n] for n in x.__code__.co_names if n in x.__globals__]
        _describe([x.__code__, list(x.__defaults__ or ()), cells, globals_], add, seen)
    else:
        plain = x is None or isinstance(x, str | bytes | int | float | bool)
        add((repr(x) if plain else type(x).__qualname__).encode() + b";")


def _primitives(graph: Graph) -> set[Primitive]:
    """The primitives of a graph and of the graphs within it."""
    inner = [_primitives(p) for e in graph.equations for p in e.params.values() if isinstance(p, Graph)]
    return {e.primitive for e in graph.equations}.union(*inner)
