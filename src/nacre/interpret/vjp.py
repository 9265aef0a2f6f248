"""The functional form of reverse mode: `vjp` records a function on its own level of the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nacre.base.errors import GradientError
from nacre.base.state import STATE
from nacre.interpret.backward import Sweep, TapeScope
from nacre.interpret.conjugation import conjugated
from nacre.interpret.tape import Alias, AnyNode, lowered
from nacre.ops.identity import detach
from nacre.ops.pointwise import zeros_like
from nacre.trace.bind import inside
from nacre.trace.modes import gradients
from nacre.trace.value import Value, make, stripped


def tracked(x: Value, level: int) -> Value:
    """The value as an input of a level's tape."""
    return make(x.type, x.content, x.layout, Alias(level, x.node))


def vjp(
    f: Callable[..., Sequence[Value]], primals: Sequence[Value]
) -> tuple[list[Value], Callable[..., list[Value | None]]]:
    """The result of f, and the function from its cotangents (None is zero) to those of the primals.

    Lower levels record both, unless gradients are disabled with `no_grad`.
    """
    own = TapeScope()
    below = primals if STATE.gradients else list(map(stripped, primals))
    inputs = [tracked(x, own.level) if x.type.dtype.is_differentiable else x for x in below]
    ends = [x.node for x in inputs]  # f may write into its arguments, which then have other nodes

    def recorded() -> list[Value]:
        with gradients(True):
            return list(f(*inputs))

    outputs = inside(own, recorded)
    results = [lowered(y, own.level) for y in outputs]
    if not STATE.gradients:
        results = list(map(detach, results))
    return results, Pullback(ends, outputs, own.level)


class Pullback:
    """From cotangents of a function's results (None is zero) to those of its inputs (None is zero)."""

    def __init__(self, ends: Sequence[AnyNode | None], outputs: Sequence[Value], level: int) -> None:
        self.inputs = [n if isinstance(n, Alias) and n.level == level else None for n in ends]
        self.outputs = [(y.type, y.node if y.node is not None and y.node.level == level else None) for y in outputs]
        self.level = level

    def __call__(self, cotangents: Sequence[Value | None], retain_graph: bool = True) -> list[Value | None]:
        sweep = Sweep(self.level, retain_graph, False, ())  # all ends are inputs
        for (type, node), c in zip(self.outputs, cotangents, strict=True):
            if c is not None and c.type is not type:
                raise GradientError(f"vjp: the cotangent must have type {type}; got {c.type}")
            if c is not None and node is not None:
                sweep.put(node, conjugated(c))
        sweep.run()
        found = [None if n is None else sweep.ends.get(id(n)) for n in self.inputs]
        return [None if f is None else conjugated(f[1]) for f in found]


def with_zeros(found: Sequence[Value | None], like: Sequence[Value]) -> list[Value]:
    """Tangents or cotangents of values, with zeros in the place of missing ones."""
    return [zeros_like(x) if c is None else c for c, x in zip(found, like, strict=True)]
