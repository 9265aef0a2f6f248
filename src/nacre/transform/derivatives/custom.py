"""`custom_jvp` and `custom_vjp`: functions with derivatives that their authors write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, cast

from nacre.base import tree
from nacre.base.arguments import shown, whole_numbers
from nacre.base.errors import ArgumentError, KindError, TraceError
from nacre.base.state import STATE
from nacre.interpret.conjugation import conjugated
from nacre.interpret.custom import forward_rule as forward_rule
from nacre.interpret.custom import reverse_rule as reverse_rule
from nacre.interpret.custom import structure as structure  # the rules of the primitives
from nacre.interpret.stage import Trace
from nacre.ir.graph import Graph, Var
from nacre.ir.primitive import Primitive
from nacre.ops.control import custom_jvp_p, custom_vjp_p
from nacre.ops.pointwise import add, zeros_like
from nacre.trace.reads import note_attribute
from nacre.trace.value import Value, fresh, is_concrete
from nacre.transform.arguments import is_pair, name_of, require_function
from nacre.transform.derivatives.call import CustomCall, Function, Given, outer_call, positional
from nacre.transform.reasons import paths

__all__ = ["custom_jvp", "custom_vjp"]


def custom_jvp(f: Function | None = None, *, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A decorator: the function f with a derivative of your own, which serves forward and reverse mode.

    `f.defjvp(rule)` sets the rule: `rule(primals, tangents)` gets two tuples of trees, and returns the result of f at
    the primals and the tangent of that result.  The tangent must be linear in the tangents, because reverse mode
    transposes it; it has the structure, shapes and dtypes of the result, with None for zero.  A derivative of f gives
    the result that the rule returns.

    `f.defjvps(*rules)` sets one rule for each argument, a tensor: `rule(tangent, result, *primals)` gives its part of
    the tangent.  None is an argument whose part is zero.

    Arguments at `nondiff_argnums` need not be tensors; a rule gets them first: `rule(n, primals, tangents)`.
    Arguments given by name, and defaults, reach the rule by position.  Other integers, texts and such have None for a
    tangent.  A derivative by a tensor that f captures is an error; pass it as an argument.  f and the rule must not
    assign variables, or draw random numbers without a key.

    Raises ArgumentError, ShapeError or DTypeError if the rule returns another structure or other types, and
    GradientError if it is not linear in the tangents.

    >>> import nacre as nc
    >>> @nc.custom_jvp
    ... def log1pexp(x):
    ...     return nc.log(1 + nc.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * nc.sigmoid(x)
    >>> nc.grad(log1pexp)(nc.tensor(100.0))
    Tensor(1., f32[])
    """
    if f is None:
        return partial(custom_jvp, nondiff_argnums=nondiff_argnums)
    return CustomJvp(f, nondiff_argnums)


def custom_vjp(f: Function | None = None, *, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A decorator: the function f with a derivative of your own, for reverse mode only.

    `f.defvjp(forward, backward)` sets the rule.  `forward(*args)` returns the result of f and residuals, any tree of
    tensors.  `backward(residuals, cotangent)` returns a tuple with the cotangent of each argument, which has the
    structure, shapes and dtypes of the argument; None is zero.  For complex numbers, cotangents are as those of
    `nacre.vjp`.  A derivative of f gives the result that `forward` returns.

    Arguments at `nondiff_argnums` need not be tensors; `backward` gets them first, and returns no cotangents for them.
    Arguments given by name, and defaults, reach `forward` by position.  A derivative by a tensor that f captures is an
    error; pass it as an argument.  The functions must not assign variables, or draw random numbers without a key.

    Raises ArgumentError, ShapeError or DTypeError if the rule returns another structure or other types, and
    GradientError in forward mode, for which `custom_jvp` is the decorator.

    >>> import nacre as nc
    >>> @nc.custom_vjp
    ... def clipped(x, limit):
    ...     return x
    >>> def forward(x, limit):
    ...     return x, limit
    >>> def backward(limit, g):
    ...     return nc.clip(g, -limit, limit), None
    >>> clipped.defvjp(forward, backward)
    >>> nc.grad(lambda x: (clipped(x, 1.0) ** 2).sum())(nc.tensor([0.25, 3.0]))
    Tensor([0.5, 1. ], f32[2])
    """
    if f is None:
        return partial(custom_vjp, nondiff_argnums=nondiff_argnums)
    return CustomVjp(f, nondiff_argnums)


class CustomFunction:
    """A function with a derivative of its own."""

    operation = "custom_jvp"
    primitive: Primitive = custom_jvp_p
    setter = "@f.defjvp"

    def __init__(self, f: Function, nondiff_argnums: int | Sequence[int]) -> None:
        if not callable(f):
            raise KindError(f"{self.operation}: f must be a function; got {shown(f)}; write @nacre.{self.operation}")
        require_function(f, self.operation)
        self.f, self.name = f, name_of(f, self.operation)
        self.left_out = whole_numbers(nondiff_argnums, self.operation, "nondiff_argnums")
        self.rules: tuple[Function, ...] = ()
        update_wrapper(self, f)

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{self.operation} {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function; something that differentiates the call uses the rule."""
        if not self.rules:
            raise ArgumentError(
                f"{self.operation}: {self.name} must have a rule before it is called; got none; set one with "
                f"{self.setter}, where f is {self.name}"
            )
        note_attribute(self, "rules", f"the rule of {self.name}")
        every = positional(self.f, self.operation, self.name, args, kwargs)
        given = Given(self.operation, every, self.numbers(every))
        outer = outer_call(self.f, given)
        if outer is not None:
            return outer.result(given.values)
        if not STATE.interpreters and not any(map(_may_be_differentiated, given.values)):
            copies = [fresh(x) for x in given.values]
            found = self.f(*given.filled(copies))
            if any(x.content is not y.content for x, y in zip(copies, given.values, strict=True)):
                raise TraceError(
                    f"{self.operation}: {self.name} must not change its arguments; got x[i] = v on one; write "
                    "x = nacre.copy(x) first"
                )
            if not any(isinstance(y, Value) and y.node is not None for y in tree.flatten(found)[0]):
                return found  # nothing differentiates the call
        return self.differentiable(CustomCall(self.operation, self.primitive, self.name, self.f, given))

    def numbers(self, args: Sequence[Any]) -> list[int]:
        """The positions of the arguments that the rule does not differentiate."""
        count = len(args)
        for n in self.left_out:
            if not -count <= n < count:
                raise ArgumentError(
                    f"{self.operation}: nondiff_argnums must be less than {count}, the number of arguments of "
                    f"{self.name}; got {n}"
                )
        return sorted(n % count for n in self.left_out)

    def differentiable(self, call: CustomCall) -> Any:
        """The result of a call, with its derivative."""
        raise NotImplementedError


def _may_be_differentiated(x: Value) -> bool:
    """Whether something outside of interpreters differentiates an operand, or a graph of placeholders has it."""
    return not is_concrete(x) or (STATE.gradients and x.node is not None)


def _require_callable(operation: str, rule: object) -> None:
    if not callable(rule):
        raise KindError(f"{operation}: the rule must be a function; got {shown(rule)}")


class CustomJvp(CustomFunction):
    """A function with a rule for tangents."""

    def defjvp(self, rule: Function) -> Function:
        """Set the rule `(primals, tangents)` → (result, its tangent); returns it."""
        _require_callable("custom_jvp: defjvp", rule)
        self.rules = (rule,)
        return rule

    def defjvps(self, *rules: Function | None) -> None:
        """Set one rule `(tangent, result, *primals)` → part of the tangent for each argument; None if it is zero."""

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            """The result, and the sum of the rules' tangents."""
            if len(rules) != len(primals):
                raise ArgumentError(
                    f"custom_jvp: {self.name} needs a rule for each of its {len(primals)} arguments; got {len(rules)}; "
                    "write None for an argument whose part is zero"
                )
            result = self(*primals)
            total: Any = None
            for part, t in zip(rules, tangents, strict=True):
                if part is not None and t is not None:
                    term = part(t, result, *primals)
                    total = term if total is None else tree.tree_map(add, total, term)
            return result, tree.tree_map(zeros_like, result) if total is None else total

        if self.left_out:
            raise ArgumentError(
                f"custom_jvp: defjvps takes no functions with nondiff_argnums; {self.name} has some; write defjvp"
            )
        self.rules = (rule,)

    def differentiable(self, call: CustomCall) -> Any:
        """The result of a call, with the rule as a graph."""
        given, (rule,) = call.given, self.rules
        n = len(given.values)

        def pushed(values: Sequence[Value]) -> list[Value]:
            """The rule on operands and tangents."""
            first, primals = given.split(given.filled(values[:n]))
            answer = rule(*first, primals, given.tangents(values[n:]))
            if not is_pair(answer):
                raise ArgumentError(
                    f"custom_jvp: the rule of {self.name} must return (result, tangent); got {type(answer).__name__}"
                )
            results = call.require("the result of the rule", answer[0])
            leaves = tree.leaves_as(call.structure, answer[1], f"custom_jvp: the tangent of {self.name}")
            named = zip(paths("", call.structure), leaves, results, strict=True)
            return results + [
                call.leaf("the tangent", path, t, y.type) for path, t, y in named if y.type.dtype.is_differentiable
            ]

        types = given.types + [given.types[k] for k in given.places]

        def arrange(more: int, whole: Graph) -> tuple[Graph]:
            """The graph (operands, tangents) → (results, tangents)."""
            outside, arguments = whole.inputs[:more], whole.inputs[more:]
            inputs = (*arguments[:n], *outside, *arguments[n:])
            return (Graph(inputs, whole.equations, whole.outputs, f"{self.name}.rule"),)

        return call.run(lambda: [call.trace(pushed, types)], arrange)


class CustomVjp(CustomFunction):
    """A function with a forward and a backward function."""

    operation = "custom_vjp"
    primitive = custom_vjp_p
    setter = "f.defvjp(forward, backward)"

    def defvjp(self, forward: Function, backward: Function) -> None:
        """Set the rule: `forward(*args)` → (result, residuals); `backward(residuals, cotangent)` → cotangents."""
        for rule in (forward, backward):
            _require_callable("custom_vjp: defvjp", rule)
        self.rules = forward, backward

    def differentiable(self, call: CustomCall) -> Any:
        """The result of a call, with the rule as two graphs."""
        given, (forward, backward) = call.given, self.rules
        residuals: list[tuple[list[Any], tree.Structure]] = []

        def went(values: Sequence[Value]) -> list[Value]:
            """The forward function: the result, then the residuals that are tensors."""
            answer = forward(*given.filled(values))
            if not is_pair(answer):
                raise ArgumentError(
                    f"custom_vjp: the forward function of {self.name} must return (result, residuals); got "
                    f"{type(answer).__name__}"
                )
            leaves, structure = tree.flatten(answer[1])
            residuals[:] = [(leaves, structure)]
            return [
                *call.require("the result of the forward function", answer[0]),
                *(x for x in leaves if isinstance(x, Value)),
            ]

        def traces() -> list[Trace]:
            """The forward function, then the backward function on its residuals."""
            first = call.trace(went, given.types)
            m = len(call.types)
            held, outputs = first.graph.output_types[m:], [t for t in call.types if t.dtype.is_differentiable]
            leaves, structure = residuals[0]
            kept = [None if isinstance(x, Value) else x for x in leaves]
            places = [k for k, x in enumerate(leaves) if isinstance(x, Value)]

            def back(values: Sequence[Value]) -> list[Value]:
                """The backward function, on residuals and cotangents."""
                filled = list(kept)
                for k, x in zip(places, values, strict=False):
                    filled[k] = x
                rest = iter(values[len(places) :])
                gs = [conjugated(next(rest)) if t.dtype.is_differentiable else None for t in call.types]
                left, _ = given.split(given.args)
                answer = backward(*left, tree.unflatten(structure, filled), tree.unflatten(call.structure, gs))
                return [conjugated(c) for c in _cotangents(self, call, answer)]

            return [first, call.trace(back, [*held, *outputs])]

        def arrange(more: int, whole: Graph, back: Graph) -> tuple[Graph, Graph]:
            """The graphs operands → (results, residuals) and (operands, residuals, cotangents) → cotangents."""
            inputs = (*whole.inputs[more:], *whole.inputs[:more])
            unread = tuple(Var(t) for t in given.types)
            return (
                Graph(inputs, whole.equations, whole.outputs, f"{self.name}.forward"),
                Graph((*unread, *back.inputs), back.equations, back.outputs, f"{self.name}.backward"),
            )

        return call.run(traces, arrange)


def _cotangents(function: CustomVjp, call: CustomCall, answer: Any) -> list[Value]:
    """The cotangents of the operands that the rule differentiates, from what the backward function returns."""
    given = call.given
    wanted = [k for k in range(len(given.args)) if k not in given.left_out]
    if not isinstance(answer, tuple) or len(cast("tuple[Any, ...]", answer)) != len(wanted):
        got = f"a tuple of {len(cast('tuple[Any, ...]', answer))}" if isinstance(answer, tuple) else shown(answer)
        raise ArgumentError(
            f"custom_vjp: the backward function of {function.name} must return a tuple of {len(wanted)} cotangents, "
            f"one for each argument; got {got}; write None for an argument without one"
        )
    parts = dict(zip(wanted, cast("tuple[Any, ...]", answer), strict=True))
    leaves: list[Any] = []
    for k, child in enumerate(given.structure.children):
        part = parts.get(k)
        if part is None:
            leaves += [None] * child.leaves
        else:
            what = f"custom_vjp: the cotangent of {given.name(function.f, k)} of {function.name}"
            leaves += tree.leaves_as(child, part, what)
    names = given.names(function.f)
    return [
        call.leaf("the cotangent", names[at], leaves[at], x.type)
        for at, x, moves in zip(given.at, given.values, given.moving, strict=True)
        if moves
    ]
