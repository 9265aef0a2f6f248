"""Whether the outputs of a graph are linear in some of its inputs, as far as the definitions of primitives say."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.ir.graph import Atom, Equation, Graph, Literal, Var
from nacre.ir.primitive import Constant, Jvp, Linear, Multilinear, Pointwise, Structural
from nacre.ir.rewrite import without_calls, without_dead_code
from nacre.ops.control import DerivativeRule


def obstacle(graph: Graph, inputs: Sequence[Var]) -> str | None:
    """What makes an output not linear in the inputs: the name of a primitive, or "a constant"; None if nothing does.

    Control flow, and operations from outside the package, are taken to be linear.
    """
    graph = without_dead_code(without_calls(graph, _is_linear))
    linear: set[Atom] = set(inputs)
    zero: set[Atom] = set()
    for e in graph.equations:
        if linear.isdisjoint(e.inputs):
            if _is_zero(e, zero):
                zero.update(e.outputs)
        elif _keeps(e, linear, zero):
            linear.update(e.outputs)
        else:
            return e.primitive.name
    return next(("a constant" for a in graph.outputs if a not in linear and not _zero(a, zero)), None)


def _is_linear(e: Equation) -> bool:
    """Whether an equation's derivative rule says that it is linear, as the solution of a system is, by any solver."""
    rule = e.params.get("rule")
    return isinstance(rule, DerivativeRule) and rule.linear


def _zero(a: Atom, zero: set[Atom]) -> bool:
    return not a.array.any() if isinstance(a, Literal) else a in zero


def _is_zero(e: Equation, zero: set[Atom]) -> bool:
    """Whether the results of an equation without linear operands are known to be zero."""
    if not e.inputs:
        return e.params.get("value", 1) == 0
    match e.primitive.derivative:
        case Linear(transposes):
            known = [_zero(a, zero) for k, a in enumerate(e.inputs) if transposes[k] is not None]
            return bool(known) and all(known)
        case Multilinear(transposes, None):
            return any(_zero(a, zero) for k, a in enumerate(e.inputs) if transposes[k] is not None)
        case _:
            return False


def _keeps(e: Equation, linear: set[Atom], zero: set[Atom]) -> bool:
    """Whether the results of an equation are linear in the linear values that it reads."""
    read = [k for k, a in enumerate(e.inputs) if a in linear]
    match e.primitive.derivative:
        case Constant():
            return False
        case Structural():
            return not _is_linear(e) or set(read) <= set(e.params["rule"].places)
        case Linear(transposes):
            return all(
                (a in linear or _zero(a, zero)) if transposes[k] is not None else a not in linear
                for k, a in enumerate(e.inputs)
            )
        case Multilinear(transposes, None):
            return len(read) == 1 and transposes[read[0]] is not None
        case Pointwise(linear=numbers) if not e.primitive.outside:
            return len(read) == 1 and read[0] in numbers
        case Jvp(transposes=transposes) if transposes:
            return len(read) == 1 and transposes[read[0]] is not None
        case Jvp():
            return e.primitive.outside
        case _:
            return True
