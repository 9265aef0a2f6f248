"""`Function`: an operation with a custom derivative, as two static methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, NoReturn, cast

from nacre.base.errors import GradientError, KindError, StateError, TraceError, explain
from nacre.base.records import dataclass
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret import tape
from nacre.interpret.forward import zeros
from nacre.interpret.pullback import Positions, Pull, Rule
from nacre.interpret.stage import Staging
from nacre.ir.graph import Graph
from nacre.ops.control import call_p
from nacre.trace.modes import gradients
from nacre.trace.value import Payload, Value, make, owned
from nacre.trace.variable import Variable, scope

_NOTHING: Final = Graph((), (), (), "function")


class FunctionContext:
    """What `forward` and `backward` of one call share: saved tensors, and further attributes."""

    needs_input_grad: tuple[bool, ...]

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.to_save: tuple[Value | None, ...] = ()  # until the node has them
        self.places: tuple[bool, ...] = ()  # whether each saved value is a tensor
        self.constant: tuple[int, ...] = ()  # the identities of results without a derivative
        self.materialize = True
        self.saved: tuple[Any, ...] | None = None  # while `backward` runs

    def release(self) -> None:
        """Forget the tensors, which the node of the call has."""
        self.places, self.to_save = tuple(x is not None for x in self.to_save), ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors, or None, for `backward`, where `saved_tensors` has them.

        Raises KindError for anything else, which can be an attribute of the context.
        """
        for x in tensors:
            if x is not None and not isinstance(x, Value | Variable):
                raise KindError(
                    f"save_for_backward: tensors are required; got a {type(x).__name__}; make it an attribute, as in "
                    "`ctx.factor = factor`"
                )
        self.to_save = tuple(x.value if isinstance(x, Variable) else x for x in tensors)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors.  Raises StateError outside of `backward`."""
        if self.saved is None:
            raise StateError("saved_tensors: they can be read while `backward` runs; got a read outside of it")
        return self.saved

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Let results have no derivative; those that are not floating-point have none anyway."""
        self.constant = tuple(map(id, tensors))

    def set_materialize_grads(self, value: bool) -> None:
        """With False, `backward` gets None for a result without a gradient, and not zeros."""
        self.materialize = bool(value)

    def mark_dirty(self, *tensors: Any) -> NoReturn:
        """Raise an error: operations do not change tensors."""
        raise StateError("mark_dirty: operations cannot change their arguments; return the new value from `forward`")


class Function:
    """The base class of operations with a custom derivative, with PyTorch's protocol.

    `forward(ctx, *args)` computes the results, with nothing recorded.  `backward(ctx, *gradients)` gets a gradient for
    each result, and returns one for each argument of `forward`: None for arguments that are no tensors, or have no
    gradient.  `Name.apply(*args)` calls it.  Instead of the context, `forward` may take the arguments alone, with a
    static method `setup_context(ctx, inputs, output)`.  If `backward` consists of Nacre's operations, the gradient can
    be differentiated again with `create_graph`.

    Raises GradientError for gradients of another number or type than that of the arguments, and TraceError inside of
    `jit`, `grad`, `vmap` and other transformations.

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
        _require_plain(cls.__name__, inputs)
        needs = tuple(isinstance(x, Value) and x.node is not None and STATE.gradients for x in inputs)
        ctx = FunctionContext(needs)
        with gradients(False):
            if cls.setup_context is Function.setup_context:
                answer = cls.forward(ctx, *inputs)
            else:
                answer = cls.forward(*inputs)
                cls.setup_context(ctx, tuple(inputs), answer)
        if not any(needs):
            return answer
        outputs = list(cast("Sequence[Any]", answer)) if isinstance(answer, tuple | list) else [answer]
        made = _recorded(cls, ctx, inputs, outputs)
        return (tuple(made) if isinstance(answer, tuple) else made) if isinstance(answer, tuple | list) else made[0]


def _require_plain(name: str, inputs: Sequence[Any]) -> None:
    """Raise TraceError inside of transformations, which would differentiate what `forward` does."""
    staged = isinstance(scope(), Staging)
    if staged and not STATE.gradients:
        return
    for x in inputs:
        traced = isinstance(x, Value) and (isinstance(x.content, Payload) or (x.node is not None and x.node.level))
        staged = staged or bool(traced)
    if staged:
        raise TraceError(
            explain(
                f"{name}.apply: an autograd.Function cannot be called inside jit, grad, vmap and other "
                "transformations; got traced arguments",
                f"@nc.jit\ndef f(x):\n    return {name}.apply(x)",
                "They compute derivatives of the operations in forward, and do not call backward.",
                f"y = {name}.apply(nc.jit(before)(x))     # or keep the whole step eager",
            )
        )


def _recorded(cls: type[Function], ctx: FunctionContext, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The results with their parts of the operation's node."""
    tensors = [k for k, y in enumerate(outputs) if isinstance(y, Value)]
    traced = tuple(k for k in tensors if outputs[k].type.dtype.is_differentiable and id(outputs[k]) not in ctx.constant)
    if not traced:
        return list(outputs)
    rule = _FunctionRule(cls, ctx, inputs, outputs, traced)
    node = tape.new_node(rule, inputs, (), 0)
    known = {id(y): len(inputs) + k for k, y in enumerate(outputs)} | {id(x): k for k, x in enumerate(inputs)}
    node.saved = [owned(x) for x in ctx.to_save if x is not None]
    rule.saved = tuple(known.get(id(x), 0) for x in ctx.to_save if x is not None)  # others are like operands
    made = list(outputs)
    for k in tensors:
        y = outputs[k]
        made[k] = make(y.type, y.content, y.layout, tape.Part(node, k, None) if k in traced else None)
    ctx.release()
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
    ) -> None:
        n, m = len(inputs), len(outputs)
        active = tuple(k for k, needed in enumerate(ctx.needs_input_grad) if needed)
        super().__init__(call_p, {}, n, m, n + m, traced, active, lambda _: (_NOTHING, ()))
        self.function, self.context = cls, ctx
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
        ctx.saved = tuple(next(saved) if there else None for there in ctx.places)
        filled = [
            given.get(k) if k in given or t is None or not ctx.materialize else zeros(t)
            for k, t in enumerate(rule.output_types)
        ]
        try:
            answer = rule.function.backward(ctx, *filled)
        finally:
            ctx.saved = None
        found = list(cast("Sequence[Any]", answer)) if isinstance(answer, tuple | list) else [answer]
        return _checked(rule, found)


def _checked(rule: _FunctionRule, found: list[Any]) -> list[tuple[int, Value]]:
    """The gradients of the arguments that need one, by their place among these."""
    name, types = rule.function.__name__, rule.input_types
    if len(found) < len(types) or any(x is not None for x in found[len(types) :]):
        raise GradientError(
            f"{name}.backward: one gradient for each of the {len(types)} arguments of forward must be returned; got "
            f"{len(found)}; return None for an argument without a gradient"
        )
    pairs: list[tuple[int, Value]] = []
    for k, (x, wanted) in enumerate(zip(found, types, strict=False)):
        if x is None:
            continue
        x = x.value if isinstance(x, Variable) else x
        if not isinstance(x, Value) or x.type is not wanted:
            _refuse(name, k, wanted, x)
        if k in rule.active:
            pairs.append((rule.active.index(k), x))
    return pairs


def _refuse(name: str, position: int, wanted: TensorType | None, found: Any) -> NoReturn:
    given = found.type if isinstance(found, Value) else f"a {type(found).__name__}"
    required = "be None, because the argument is no tensor" if wanted is None else f"have type {wanted}, or be None"
    raise GradientError(f"{name}.backward: the gradient of argument {position} must {required}; got {given}")


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
        recorded = STATE.gradients
        plain = [make(g.type, g.content, g.layout) if isinstance(g, Value) else g for g in grad_outputs]
        with gradients(False):
            answer = backward(ctx, *plain)
        if not recorded:
            return answer
        found = list(cast("Sequence[Any]", answer)) if isinstance(answer, tuple | list) else [answer]
        ends = [make(g.type, g.content, g.layout, tape.TapeEnd(0, _once)) if isinstance(g, Value) else g for g in found]
        return tuple(ends)

    return once


def _once() -> GradientError:
    return GradientError(
        "backward: a gradient that once_differentiable computed must not be differentiated again; write its `backward` "
        "with Nacre's operations, and leave the decorator out"
    )
