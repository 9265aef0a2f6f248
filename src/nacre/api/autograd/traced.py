"""Calls of an `autograd.Function` that are part of a graph: `custom_vjp` equations, with `backward` as a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, Final

from nacre.api.autograd.context import Compute, FunctionContext, gradients_of_arguments, listed
from nacre.base import tree
from nacre.base.errors import DepthError, TraceError
from nacre.interpret.called import fault_place
from nacre.interpret.conjugation import conjugated
from nacre.interpret.custom import reverse_rule as reverse_rule
from nacre.interpret.custom import structure as structure  # the rules of the primitive
from nacre.interpret.custom.call import TRACES, RuleCall, found_again
from nacre.interpret.forward import zeros
from nacre.interpret.pullback import Positions
from nacre.interpret.stage import Trace
from nacre.ir.graph import Atom, Equation, Graph, Var
from nacre.ir.rewrite import without_dead_code
from nacre.ops.control import DerivativeRule, custom_vjp_p, refused_p
from nacre.ops.identity import detach, detach_p
from nacre.trace.bind import bind
from nacre.trace.modes import gradients
from nacre.trace.value import Payload, Value
from nacre.trace.variable import Variable, scope

NESTED: Final = 8  # calls of one class within the traces of its `backward`
SEVERAL: Final = 4  # results of which some may be without a gradient, if `backward` gets None for these
PLAIN: Final = bool | int | float | complex | str | bytes | None


def call_in_graph(function: Any, compute: Compute, inputs: Sequence[Any]) -> Any:
    """The result of `function.apply`, as an equation with a derivative of its own."""
    call = FunctionCall(function, compute, inputs)
    own = [c for c in TRACES.calls if isinstance(c, FunctionCall) and c.function is function]
    outer: Any = found_again(own, call.like, NESTED)
    return call.run() if outer is None else outer.result(call.values)


class FunctionCall(RuleCall):
    """A call of an `autograd.Function` whose two methods are traced."""

    def __init__(self, function: Any, compute: Compute, inputs: Sequence[Any]) -> None:
        self.function, self.compute, self.inputs = function, compute, list(inputs)
        self.at = [k for k, x in enumerate(inputs) if isinstance(x, Value)]
        self.needs = tuple(map(_may_move, inputs))
        places = tuple(n for n, k in enumerate(self.at) if self.needs[k])
        name = function.__name__
        super().__init__(f"{name}.apply", custom_vjp_p, name, [inputs[k] for k in self.at], places)
        self.certain = any(x.node is not None for x in self.values)  # whether something differentiates the call
        self.types = [x.type if isinstance(x, Value) else None for x in inputs]
        self.places: dict[int, int] = {}  # by position of a result with a derivative: its item of the answer

    def like(self, other: FunctionCall) -> bool:
        """Whether another call has the same graphs."""
        return (self.needs, self.types) == (other.needs, other.types) and all(
            isinstance(x, Value) or x is y or (type(x) is type(y) and isinstance(x, PLAIN) and repr(x) == repr(y))
            for x, y in zip(self.inputs, other.inputs, strict=True)
        )

    def written(self) -> str:
        """The text of the error for a method that assigns variables."""
        return (
            f"{self.operation}: in a function that is compiled, batched or looped over, `backward` must not assign "
            "variables or draw random numbers without a key, and neither method may call `backward()`; draw in "
            "`forward`, and save the numbers"
        )

    # ---- the two methods as functions of flat values

    def went(self, values: Sequence[Value]) -> list[Value]:
        """The tensors of the result, then the tensors that the context has."""
        given = list(self.inputs)
        for k, x in zip(self.at, values, strict=True):
            given[k] = x
        self.context = ctx = FunctionContext(self.needs)
        with gradients(False):
            answer = self.compute(ctx, given)
        self.items = [x.value if isinstance(x, Variable) else x for x in listed(answer)]
        leaves, self.structure = tree.flatten(answer)
        self.leaves = [x.value if isinstance(x, Variable) else x for x in leaves]
        self.tensors = [k for k, x in enumerate(self.leaves) if isinstance(x, Value)]
        results = [self.leaves[k] for k in self.tensors]
        top: dict[int, int] = {}  # by place among the results: the item of the answer that it is
        at = 0
        for n, item in enumerate(self.items):
            if isinstance(item, Value):
                top[self.tensors.index(at)] = n
            at += len(tree.flatten(item)[0])
        self.places = {
            k: n
            for k, n in top.items()
            if results[k].type.dtype.is_differentiable and id(results[k]) not in ctx.constant
        }
        trees = {name: tree.flatten(held) for name, held in ctx.attributes().items()}
        self.attributes = {name: found for name, found in trees.items() if any(_is_of(scope(), x) for x in found[0])}
        saved = [x for x in ctx.to_save if x is not None]
        ctx.release()
        more = [x for leaves, _ in self.attributes.values() for x in leaves if isinstance(x, Value)]
        return [*results, *saved, *more]

    def back(self, present: Positions, values: Sequence[Value]) -> list[Value]:
        """The gradients of the arguments at `places`, from the context's tensors and cotangents of the results."""
        ctx, rest = self.context, iter(values)
        saved = [next(rest) if there else None for there in ctx.places]
        for name, (leaves, shape) in self.attributes.items():
            held = [next(rest) if isinstance(x, Value) else x for x in leaves]
            setattr(ctx, name, tree.unflatten(shape, held))
        cotangents = {k: conjugated(next(rest)) for k in present}
        given = {self.places[k]: c for k, c in cotangents.items() if k in self.places}
        types = [y.type if isinstance(y, Value) else None for y in self.items]
        found = ctx.backward(self.function, saved, ctx.cotangents(given, types))
        every = gradients_of_arguments(self.name, self.types, found)
        wanted = [(self.at[n], self.values[n].type) for n in self.rule.places]
        return [conjugated(every[k]) if k in every else zeros(t) for k, t in wanted]

    def pulled(self, kept: Sequence[Any], present: Positions, outputs: Sequence[Any]) -> Trace:
        """The trace of `backward`; if it fails and may not be needed, one that raises the error where it is."""
        types = [*kept, *(outputs[k] for k in present)]
        try:
            return self.trace(partial(self.back, present), types)
        except Exception as fault:
            if self.certain or isinstance(fault, DepthError):
                raise
            place, _ = fault_place(fault)
            text = f"{self.name}.backward: {type(fault).__name__}: {fault}" + (f"\n\n  at {place}" if place else "")

        def refused(values: Sequence[Value]) -> list[Value]:
            """Gradients that raise the error where something reads them."""
            wanted = [self.values[n].type for n in self.rule.places]
            return [bind(refused_p, values[-1], shape=t.shape, dtype=t.dtype, text=text) for t in wanted]

        return self.trace(refused, types)

    # ---- the call

    def run(self) -> Any:
        """The result of a first call, which traces the methods."""
        forward = self.trace(self.went, [x.type for x in self.values], assigns=True)
        m = len(self.tensors)
        outputs, kept = forward.graph.output_types[:m], forward.graph.output_types[m : forward.results]
        every = tuple(k for k, t in enumerate(outputs) if t.dtype.is_differentiable)
        moving = sorted(self.places)
        if not moving:
            self.rule.places = ()
        if moving and not self.context.materialize:
            self.rule.some = self.parts(moving)
        sets = [every, *self.rule.some] if moving else []

        def traces() -> list[Trace]:
            """The traces of `forward`, and of `backward` for the results that may have gradients."""
            return [forward, *(self.pulled(kept, present, outputs) for present in sets)]

        def arrange(more: int, whole: Graph, *backs: Graph) -> tuple[Graph, ...]:
            """The graphs of the rule, with the values that `forward` assigns behind its results."""
            assigned = [a.type for a in whole.outputs[forward.results :] if a.type.dtype.is_differentiable]
            pulls: list[Graph] = []
            for k, b in enumerate(backs):
                unread = tuple(Var(x.type) for x in self.values)
                others = () if k else tuple(map(Var, assigned))
                cotangents = b.outputs[: len(self.rule.places)]
                pulls.append(Graph((*unread, *b.inputs, *others), b.equations, cotangents, f"{self.name}.backward"))
            first = self.arranged(more, whole, forward.results, pulls)
            return first, *(pulls or [_nothing(first, len(kept), f"{self.name}.backward")])

        self.settle(replace(forward, results=m), traces, arrange)
        return self.result(self.values)

    def arranged(self, more: int, whole: Graph, found: int, pulls: Sequence[Graph]) -> Graph:
        """`forward` as a graph of operands: its results, the values that it assigns, and the tensors of the context.

        The results are those of this call itself, so that derivatives of saved results are those of the class.  Other
        saved tensors are constants, except for arguments.
        """
        m = len(self.tensors)
        inputs = (*whole.inputs[more:], *whole.inputs[:more])
        own = (*whole.outputs[:m], *whole.outputs[found:])
        if whole.calls_host and pulls:
            return self.arranged_once(Graph(inputs, whole.equations, own, whole.name), whole.outputs[m:found], pulls)
        outputs = tuple(Var(a.type) for a in own)
        call = Equation(custom_vjp_p, inputs, {"graph": self.graph, "rule": self.rule}, outputs, "")
        kept = _replaced(whole.outputs[m:found], own, outputs, inputs)
        return without_dead_code(Graph(inputs, (*whole.equations, call), (*outputs, *kept), f"{self.name}.forward"))

    def arranged_once(self, whole: Graph, saved: Sequence[Atom], pulls: Sequence[Graph]) -> Graph:
        """The same for a `forward` that calls the host, which must run once: one call also gives the saved tensors."""
        inputs, own = whole.inputs, whole.outputs
        held = tuple(dict.fromkeys(a for a in saved if isinstance(a, Var) and a not in own and a not in inputs))
        graph = Graph(inputs, whole.equations, (*own, *held), whole.name)
        rule = DerivativeRule(self.name, self.rule.places, some=self.rule.some)
        outputs = tuple(map(Var, graph.output_types))
        call = Equation(custom_vjp_p, inputs, {"graph": graph, "rule": rule}, outputs, "")
        constants = tuple(Var(a.type) for a in held)
        ends = [Equation(detach_p, (a,), {}, (c,), "") for a, c in zip(outputs[len(own) :], constants, strict=True)]
        kept = _replaced(saved, (*own, *held), (*outputs[: len(own)], *constants), inputs)
        first = Graph(inputs, (call, *ends), (*outputs, *kept), f"{self.name}.forward")
        unread = [Var(a.type) for a in held if a.type.dtype.is_differentiable]
        whole_pull = Graph((*pulls[0].inputs, *unread), pulls[0].equations, pulls[0].outputs, pulls[0].name)
        rule.made = first, whole_pull, *pulls[1:]
        return Graph(inputs, first.equations, (*outputs[: len(own)], *kept), first.name)

    def parts(self, moving: Sequence[int]) -> tuple[Positions, ...]:
        """The sets of results that may have gradients without the others."""
        if len(moving) > SEVERAL:
            raise TraceError(
                f"{self.operation}: with set_materialize_grads(False), at most {SEVERAL} floating-point results are "
                f"possible in a function that is compiled, batched or looped over; got {len(moving)}; leave the call "
                "out, and compare with zeros"
            )
        return tuple(part for count in range(1, len(moving)) for part in combinations(moving, count))

    def result(self, values: Sequence[Value]) -> Any:
        """The result for operands; variables have the values that `forward` assigned."""
        found = self.bind(values)
        m = len(self.tensors)
        self.around.put_back([detach(y) for y in found[m:]])
        leaves = list(self.leaves)
        for place, (k, y) in enumerate(zip(self.tensors, found, strict=False)):
            leaves[k] = y if place in self.places else detach(y)
        return tree.unflatten(self.structure, leaves)


def _may_move(x: Any) -> bool:
    """Whether an argument may need a gradient."""
    if not isinstance(x, Value) or not x.type.dtype.is_differentiable:
        return False
    return x.node is not None or isinstance(x.content, Payload)


def _is_of(staging: Any, x: Any) -> bool:
    """Whether something is a value of a graph that is being recorded."""
    return isinstance(x, Value) and isinstance(x.content, Payload) and x.content.interpreter is staging


def _replaced(atoms: Sequence[Atom], own: Sequence[Atom], by: Sequence[Atom], inputs: Sequence[Var]) -> list[Atom]:
    """Atoms, of which those of `own` are replaced; arguments are unchanged."""
    same = {a: y for a, y in zip(own, by, strict=True) if isinstance(a, Var) and a not in inputs}
    return [same.get(a, a) if isinstance(a, Var) else a for a in atoms]


def _nothing(forward: Graph, kept: int, name: str) -> Graph:
    """The second graph of a rule without places; `forward`, the first one, has residuals that are `kept`."""
    m, types = len(forward.outputs) - kept, forward.output_types
    cotangents = [t for t in types[:m] if t.dtype.is_differentiable]
    return Graph(tuple(map(Var, (*forward.input_types, *types[m:], *cotangents))), (), (), name)


def ended_in_graph(text: str, backward: Callable[..., Any], ctx: Any, cotangents: Sequence[Any]) -> list[Any]:
    """The results of a traced `backward`, as values whose derivatives raise an error with the text."""
    at = [k for k, x in enumerate(cotangents) if isinstance(x, Value)]
    call = RuleCall("once_differentiable", custom_vjp_p, "backward", [cotangents[k] for k in at], ())
    call.rule.refusal = text
    answer: list[Any] = []

    def went(values: Sequence[Value]) -> list[Value]:
        """The tensors that it returns."""
        given = list(cotangents)
        for k, x in zip(at, values, strict=True):
            given[k] = x
        answer[:] = [x.value if isinstance(x, Variable) else x for x in listed(backward(ctx, *given))]
        return [x for x in answer if isinstance(x, Value)]

    def arrange(more: int, whole: Graph) -> tuple[Graph, Graph]:
        """The graph itself, and no cotangents."""
        inputs = (*whole.inputs[more:], *whole.inputs[:more])
        forward = Graph(inputs, whole.equations, whole.outputs, whole.name)
        return forward, _nothing(forward, 0, whole.name)

    traced = call.trace(went, [x.type for x in call.values])
    call.settle(traced, lambda: [traced], arrange)
    found = iter(call.bind(call.values))
    return [next(found) if isinstance(x, Value) else x for x in answer]
