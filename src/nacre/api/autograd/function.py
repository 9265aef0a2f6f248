"""`Function`: an operation with a custom derivative, as two static methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, Final

from nacre.api.autograd.context import FunctionContext, gradients_of_arguments, listed
from nacre.api.autograd.traced import call_in_graph, ended_in_graph
from nacre.base import tree
from nacre.base.errors import GradientError, KindError, StateError
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.interpret import tape
from nacre.interpret.backward import TapeScope
from nacre.interpret.pullback import Positions, Pull, Rule
from nacre.interpret.stage import Staging
from nacre.ir.graph import Graph
from nacre.ops.control import call_p
from nacre.trace.bind import autocast
from nacre.trace.modes import gradients
from nacre.trace.value import Payload, Value, make, owned
from nacre.trace.variable import Variable, scope

_NOTHING: Final = Graph((), (), (), "function")


class Function:
    """The base class of operations with a custom derivative, with PyTorch's protocol.

    `forward(ctx, *args)` computes the results, with nothing recorded.  `backward(ctx, *gradients)` gets a gradient for
    each result, and returns one for each argument of `forward`: None for arguments that are no tensors, or have no
    gradient.  `Name.apply(*args)` calls it.  Instead of the context, `forward` may take the arguments alone, with a
    static method `setup_context(ctx, inputs, output)`.  If `backward` consists of Nacre's operations, the gradient can
    be differentiated again with `create_graph`, or by `grad` of `grad`.

    The class works in all transformations of reverse mode.  In `nc.grad` and `nc.vjp` of eager code, both methods run
    as they are.  In `jit`, `vmap`, `checkpoint`, branches and loops they are traced: once for each trace, with
    `needs_input_grad` true for each floating-point tensor that may need a gradient.  `forward` may then assign
    variables, `backward` must not.

    Raises GradientError for gradients of another number or type than that of the arguments, and in forward mode
    (`jvp`, `jacfwd`, `hessian`).

    >>> class Clip(nc.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, limit):
    ...         ctx.save_for_backward(x)
    ...         ctx.limit = limit
    ...         return nc.clip(x, -limit, limit)
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         return gradient, None
    >>> x = nc.tensor([0.5, 3.0]).requires_grad_()
    >>> Clip.apply(x, 1.0).sum().backward()
    >>> x.grad.tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        raise KindError(f"{name}: a Function has no instances; write {name}.apply(x)")

    @staticmethod
    def forward(*args: Any) -> Any:
        """Compute the results; a subclass defines it, as `forward(ctx, *args)`."""
        raise StateError("forward: a subclass of autograd.Function must define the static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments; a subclass defines it."""
        raise StateError(
            "backward: a subclass of autograd.Function must define the static method backward(ctx, *gradients)"
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Save for `backward`, if `forward` has no context."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call the operation, and record it for `backward`."""
        inputs = [x.value if isinstance(x, Variable) else x for x in args]

        def compute(ctx: FunctionContext, given: Sequence[Any]) -> Any:
            if cls.setup_context is Function.setup_context:
                return cls.forward(ctx, *given)
            answer = cls.forward(*given)
            cls.setup_context(ctx, tuple(given), answer)
            return answer

        if STATE.gradients and _is_traced(inputs):
            return call_in_graph(cls, compute, inputs)
        levels = sorted({level for x in inputs for level in _levels(x)}) if STATE.gradients else []
        needs = tuple(bool(levels) and isinstance(x, Value) and x.node is not None for x in inputs)
        ctx = FunctionContext(needs)
        with gradients(False):
            answer = compute(ctx, inputs)
        if not levels:
            return answer
        made = _recorded(cls, ctx, inputs, listed(answer), levels)
        return (tuple(made) if isinstance(answer, tuple) else made) if isinstance(answer, tuple | list) else made[0]


def _is_traced(inputs: Sequence[Any]) -> bool:
    """Whether a call is part of a graph, or of a batch: there, `forward` cannot run on numbers."""
    if any(type(each) is not TapeScope for each in STATE.interpreters):
        return True
    return any(isinstance(x, Value) and isinstance(x.content, Payload) for x in inputs)


def _levels(x: Any) -> Iterator[int]:
    """The levels of the tape on which a value has nodes, the highest first."""
    node = x.node if isinstance(x, Value) else None
    while node is not None:
        yield node.level
        node = getattr(node, "outer", None)


def _recorded(
    cls: type[Function], ctx: FunctionContext, inputs: Sequence[Any], outputs: Sequence[Any], levels: Sequence[int]
) -> list[Any]:
    """The results with their parts of the operation's node, of one for each level."""
    tensors = [k for k, y in enumerate(outputs) if isinstance(y, Value)]
    traced = tuple(k for k in tensors if outputs[k].type.dtype.is_differentiable and id(outputs[k]) not in ctx.constant)
    if not traced:
        return list(outputs)
    made, to_save = list(outputs), [x for x in ctx.to_save if x is not None]
    known = {id(y): len(inputs) + k for k, y in enumerate(outputs)} | {id(x): k for k, x in enumerate(inputs)}
    places = [known.get(id(x)) for x in to_save]
    ctx.release()
    for level in levels:
        below = [tape.lowered(x, level + 1) if isinstance(x, Value) else x for x in inputs]
        active = tuple(k for k, x in enumerate(below) if isinstance(x, Value) and level in _levels(x))
        rule = _FunctionRule(cls, ctx, below, outputs, traced, active)
        node = tape.new_node(rule, below, (), level)
        n = len(inputs)
        held = [x if k is None else below[k] if k < n else made[k - n] for k, x in zip(places, to_save, strict=True)]
        node.saved = [owned(x) for x in held]
        rule.saved = tuple(k or 0 for k in places)  # others are like operands
        for k in tensors:
            y = made[k]
            made[k] = make(y.type, y.content, y.layout, tape.Part(node, k, y.node) if k in traced else None)
    return made


class _FunctionRule(Rule):
    """The rule of a call of a `Function`; its pullback calls `backward`."""

    def __init__(
        self,
        cls: type[Function],
        ctx: FunctionContext,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        traced: Positions,
        active: Positions,
    ) -> None:
        n, m = len(inputs), len(outputs)
        super().__init__(call_p, {}, n, m, n + m, traced, active, lambda _: (_NOTHING, ()))
        self.function, self.context, self.autocast = cls, ctx, STATE.autocast
        self.input_types = [x.type if isinstance(x, Value) else None for x in inputs]
        self.output_types = [y.type if isinstance(y, Value) else None for y in outputs]

    def pull(self, present: Positions) -> Pull:
        """A call of `backward` with the cotangents that are present."""
        return _FunctionPull(_NOTHING, present, present, None, None, None, present, self)


@dataclass(frozen=True, eq=False)
class _FunctionPull(tape.CalledPull):
    """A call of `backward`."""

    rule: _FunctionRule

    def called(self, values: Sequence[Value]) -> list[tuple[int, Value]]:
        """The places of parents and their gradients, from the saved tensors and the gradients of results."""
        rule, ctx = self.rule, self.rule.context
        count = len(rule.saved)
        saved, given = iter(values[:count]), dict(zip(self.present, values[count:], strict=True))
        held = [next(saved) if there else None for there in ctx.places]
        block = nullcontext() if rule.autocast is None else autocast(rule.autocast, "autocast")
        with block:  # as in `forward`; the backward pass itself runs without autocast
            found = ctx.backward(rule.function, held, ctx.cotangents(given, rule.output_types))
            every = gradients_of_arguments(rule.function.__name__, rule.input_types, found)
        return [(place, every[k]) for place, k in enumerate(rule.active) if k in every]


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of `backward` whose result cannot be differentiated again: with `create_graph` this raises an error.

    >>> class Double(nc.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @nc.autograd.once_differentiable
    ...     def backward(ctx, gradient):
    ...         return nc.tensor(gradient.numpy() * 2)
    >>> x = nc.tensor(1.0).requires_grad_()
    >>> Double.apply(x).backward()
    >>> x.grad.item()
    2.0
    """

    @wraps(backward)
    def once(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients, behind which the tape ends with an error."""
        plain = [make(g.type, g.content, g.layout) if isinstance(g, Value) else g for g in grad_outputs]
        if STATE.gradients and isinstance(scope(), Staging):
            return ended_in_graph(_ONCE, backward, ctx, plain)
        levels = sorted({level for x in (*grad_outputs, *ctx.saved, ctx.attributes()) for level in _all_levels(x)})
        with gradients(False):
            answer = backward(ctx, *plain)
        if not (STATE.gradients and levels):
            return answer
        end: Any = None
        for level in levels:
            end = tape.TapeEnd(level, _once, end)
        return tuple(make(g.type, g.content, g.layout, end) if isinstance(g, Value) else g for g in listed(answer))

    return once


def _all_levels(held: Any) -> Iterator[int]:
    """The levels of the tape on which a value, or one in a tree, has nodes."""
    for x in tree.flatten(held)[0]:
        yield from _levels(x)


_ONCE: Final = (
    "backward: a gradient that once_differentiable computed must not be differentiated again; write its `backward` "
    "with Nacre's operations, and leave the decorator out"
)


def _once() -> GradientError:
    return GradientError(_ONCE)
