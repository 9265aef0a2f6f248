"""`register_pass`: a compiler pass from outside, which replaces operations of graphs by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from nacre.api.extending.checks import require_function, require_text, require_version
from nacre.api.extending.parameters import plain_params
from nacre.api.extending.recording import recorded_graph
from nacre.api.extending.running import RUNNING, require_outside, running
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_whole, shown
from nacre.base.errors import ArgumentError, AxisError, GraphError, KindError, StateError
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.compile.extensions import PASSES as OUTSIDE
from nacre.compile.extensions import OutsidePass, changed
from nacre.compile.pipeline import PASSES
from nacre.interpret.stage import StagedValue, Staging, constant
from nacre.ir.graph import Atom, Builder, Equation, Graph, Literal, Var
from nacre.ir.rewrite import inline
from nacre.trace.bind import bind
from nacre.trace.value import Value
from nacre.trace.variable import scope

__all__ = ["Operation", "RegisteredPass", "register_pass"]


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation of a graph, as the rule of a pass gets it.

    `operands` are tensors without numbers, for public functions; `params` are the parameters, by name.
    """

    name: str
    operands: tuple[Tensor, ...]
    params: Mapping[str, Any]
    types: tuple[TensorType, ...]  # of the results
    made: Mapping[Any, Operation]  # value → the operation that computed it, so far

    def definition(self, k: int) -> Operation | None:
        """The operation that computed operand k; None for an argument or a constant."""
        return self.made.get(_atom(self._operand("definition", k)))

    def constant(self, k: int) -> np.ndarray | None:
        """The numbers of operand k; None if they are not known while compiling."""
        atom = _atom(self._operand("constant", k))
        return atom.array if isinstance(atom, Literal) else None

    def _operand(self, asked: str, k: object) -> Tensor:
        """Operand k.  Raises KindError or AxisError for a number that no operand has."""
        if not is_whole(k):
            raise KindError(f"operation.{asked}: the number of an operand must be an integer; got {shown(k)}")
        count, number = len(self.operands), index(cast("int", k))
        if not -count <= number < count:
            raise AxisError(f"operation.{asked}: {self.name} has {count} operands; got {number}")
        return self.operands[number]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(x.type) for x in self.operands)})"


Rule = Callable[[Operation], Any]


@dataclass(frozen=True, eq=False)
class RegisteredPass:
    """A registered pass; `remove()` removes it."""

    name: str
    held: OutsidePass

    def remove(self) -> None:
        """Remove the pass; everything is compiled without it from now on.  A later pass of its name stays."""
        require_outside("remove")
        if OUTSIDE.get(self.name) is self.held:
            del OUTSIDE[self.name]
            changed()

    def __repr__(self) -> str:
        return f"<compiler pass {self.name}>"


def register_pass(name: str, rule: Rule, *, contract: str, version: str = "") -> RegisteredPass:
    """Add a pass to the compiler, which replaces operations by others.

    The pass calls `rule(operation)` for each operation of each graph that is compiled, in order; an operation that
    is computed alone is a graph of one.  The rule returns None to keep it, or a replacement of its result: a tensor
    computed from `operation.operands` by public functions, or a tuple of tensors for an operation with several
    results.  It may not call jitted functions.  Operations are primitives, named as `nacre explain --after
    simplification` prints them; calls are inlined, and bodies of loops and branches are separate graphs.  A rule
    gets operands that are replaced already.

    A pass must preserve every bit of the results; a result of another type is refused.  It runs after the
    simplification and after passes registered before it, and is followed by another simplification.  `contract` is one
    line on the properties of graphs after the pass; `nacre explain --after NAME` prints the graph there.

    Everything that was compiled before is compiled again at its next call.  Programs are stored on disk only if the
    pass has a `version`; give a new one whenever the rule changes.  A pass of the same name is replaced.

    >>> def rule(operation):
    ...     if operation.name == "neg" and (inner := operation.definition(0)) and inner.name == "neg":
    ...         return inner.operands[0]
    >>> double_negation = nc.register_pass("double-negation", rule, contract="no value is negated twice")
    >>> f = nc.jit(lambda x: -(-x) + 1)
    >>> print(f.explain(nc.ones(2)).after("fusion"))
    1  add  over [2]
    >>> double_negation.remove()
    """
    require_outside("register_pass")
    require_version("register_pass", version)
    for word, text in (("name", name), ("contract", contract)):
        require_text("register_pass", word, text, "say what the pass does")
        if not text.strip():
            raise ArgumentError(f"register_pass: {word} must not be empty; got {text!r}; say what the pass does")
    if any(p.name == name for p in PASSES):
        raise ArgumentError(
            f"register_pass: the name must be new; got {name!r}, which is a pass of Nacre; put a prefix before it"
        )
    require_function("register_pass", "rule", rule)
    held = OUTSIDE[name] = OutsidePass(name, contract, lambda graph: _rewritten(name, rule, graph), version)
    changed()
    return RegisteredPass(name, held)


def _rewritten(name: str, rule: Rule, graph: Graph) -> Graph:
    """The graph with a rule's replacements of operations; the same graph if the rule keeps them all."""
    replaced: list[Operation] = []

    def follow(*inputs: Value) -> list[Value]:
        """Bind each equation, or compute its replacement."""
        known: dict[Var, Value] = dict(zip(graph.inputs, inputs, strict=True))
        made: dict[Any, Operation] = {}
        recording = cast("Staging", scope())

        def value(a: Atom) -> Value:
            """The value of a variable computed so far, or of a literal."""
            return known[a] if isinstance(a, Var) else constant(a)

        for e in graph.equations:
            recording.source, before = e.source, len(recording.equations)
            operands = tuple(map(value, e.inputs))
            operation = _operation(e, operands, made)
            with running(f"the rule of pass {name}, for {operation}"):
                found = rule(operation)
            if found is None:
                given = bind(e.primitive, *operands, **e.params)
                results = given if e.primitive.multiple else (given,)
            else:
                given = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
                results = _require_results(name, operation, given)
                replaced.append(operation)
            for added in recording.equations[before:]:
                held = _operation(added, tuple(map(recording.value, added.inputs)), made)
                made.update(dict.fromkeys(added.outputs, held))
            known.update(zip(e.outputs, results, strict=True))
        return [value(a) for a in graph.outputs]

    if RUNNING.what:
        raise StateError(
            f"{name}: a rule must not compile; got a call of a compiled function in {RUNNING.what}; call "
            "functions that are not jitted"
        )
    what = f"the rule of pass {name}"
    behind = recorded_graph(what, follow, graph.input_types, graph.name, "use numbers that do not change")
    if not replaced:
        return graph
    builder = Builder(graph.name)
    builder.inputs = list(graph.inputs)  # a body shares them with its loop
    return builder.finish(inline(builder, behind, graph.inputs))


def _operation(e: Equation, operands: tuple[Value, ...], made: Mapping[Any, Operation]) -> Operation:
    types = tuple(v.type for v in e.outputs)
    params = MappingProxyType(plain_params(e.params))
    return Operation(e.primitive.name, cast("tuple[Tensor, ...]", operands), params, types, MappingProxyType(made))


def _require_results(name: str, operation: Operation, found: Sequence[Any]) -> tuple[Value, ...]:
    """The values that a rule returned, if they can replace the results of an operation."""
    types = tuple(x.type if isinstance(x, Value) else None for x in found)
    if types != operation.types:
        wanted = ", ".join(map(str, operation.types))
        raise GraphError(
            f"{name}: the replacement of {operation} must have type {wanted}; got {', '.join(map(shown, found))}; "
            "return None to keep the operation"
        )
    return tuple(found)


def _atom(x: Value) -> Any:
    """The atom of a value in the recorded graph."""
    return x.content.atom if isinstance(x.content, StagedValue) else x
