"""Transposition of linear graphs: from cotangents of the outputs to cotangents of the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nacre.base.errors import GradientError
from nacre.interpret.stage import constant
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.primitive import Jvp, Linear, LinearInput, Multilinear, Pointwise
from nacre.ops.pointwise import add, mul
from nacre.trace.bind import bind
from nacre.trace.value import Value


def transpose(graph: Graph, known: Sequence[Value], cotangents: Sequence[Value | None]) -> list[Value | None]:
    """Cotangents of the inputs behind the known ones; None where zero.

    Raises GradientError if an equation is not linear in these inputs.
    """
    values: dict[Var, Value] = dict(zip(graph.inputs, known, strict=False))
    inputs = graph.inputs[len(known) :]
    linear: set[Atom] = set(inputs)
    equations: list[Equation] = []
    for e in graph.equations:
        if linear.isdisjoint(e.inputs):
            xs = (values[a] if isinstance(a, Var) else constant(a) for a in e.inputs)
            found = bind(e.primitive, *xs, **e.params)
            values.update(zip(e.outputs, found if e.primitive.multiple else (found,), strict=True))
        else:
            linear.update(e.outputs)
            equations.append(e)
    pending = _Sums()
    for a, c in zip(graph.outputs, cotangents, strict=True):
        if a in linear and c is not None:
            pending.put(a, c)
    for e in reversed(equations):
        gs = [pending.values.pop(v, None) for v in e.outputs]
        if any(g is not None for g in gs):
            for i, c in _transposed(e, gs, values, linear):
                pending.put(e.inputs[i], c)
    return [pending.values.get(v) for v in inputs]


class _Sums:
    """The sum of the cotangents of each atom, in order of arrival."""

    def __init__(self) -> None:
        self.values: dict[Atom, Value] = {}

    def put(self, a: Atom, c: Value) -> None:
        """Add a cotangent to what the atom has received."""
        before = self.values.get(a)
        self.values[a] = c if before is None else add(before, c)


def _transposed(
    e: Equation, gs: list[Value | None], values: Mapping[Var, Value], linear: set[Atom]
) -> Iterable[tuple[int, Value]]:
    operands: list[Any] = [
        LinearInput(a.type) if a in linear else values[a] if isinstance(a, Var) else constant(a) for a in e.inputs
    ]
    g: Any = tuple(gs) if e.primitive.multiple else gs[0]
    for i, a in enumerate(e.inputs):
        if a not in linear:
            continue
        match e.primitive.derivative:
            case Linear(transposes) | Multilinear(transposes) if (f := transposes[i]) is not None:
                c = f(g, *operands, **e.params)
            case Jvp(transposes=transposes) if transposes and (f := transposes[i]) is not None:
                c = f(g, *operands, **e.params)
            case Pointwise(partials, linear=numbers) if i in numbers and (partial := partials[i]) is not None:
                c = mul(partial(LinearInput(e.outputs[0].type), *operands, **e.params), g)
            case _:
                raise _not_linear(e, i)
        if c is not None:
            if c.type is not a.type:
                raise GradientError(
                    f"transpose of {e.primitive.name}: the cotangent must have type {a.type} for operand {i}; "
                    f"its rule gave {c.type}"
                )
            yield i, c


def _not_linear(e: Equation, operand: int) -> GradientError:
    return GradientError(
        f"transpose: the equation must be linear in operand {operand}; got {e.primitive.name}; "
        "write the rule of the derivative with linear primitives"
    )
