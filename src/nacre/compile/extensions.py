"""Extensions: passes and kernels from outside the package, their versions, and the caches that they invalidate."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

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
    """The extensions that a program of a graph uses, with their versions; None if one has no version."""
    used = _primitives(graph)
    if PASSES:
        used |= {p for p in registered().values() if p.outside}  # a pass may insert any of these
    found: dict[str, str | None] = {f"pass {p.name}": p.version for p in PASSES.values()}
    found.update({f"primitive {p.name}": p.version for p in used if OWN.get(p) is not p.lowering})
    for p in used.union(OWN):
        outside = [k for k in p.kernels if not k.is_ours]
        found.update({f"kernel {p.name} {number} {k.target}": k.version for number, k in enumerate(outside)})
    return sorted(f"{what} {version!r}" for what, version in found.items()) if all(found.values()) else None


def _primitives(graph: Graph) -> set[Primitive]:
    """The primitives of a graph and of the graphs within it."""
    inner = [_primitives(p) for e in graph.equations for p in e.params.values() if isinstance(p, Graph)]
    return {e.primitive for e in graph.equations}.union(*inner)
