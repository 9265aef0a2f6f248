"""The methods of tensors that concern gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Self
from weakref import ref

from nacre.api.operands import TensorLike, as_tensor
from nacre.base.arguments import require_flag, shown
from nacre.base.errors import DTypeError, GradientError, KindError
from nacre.base.state import STATE
from nacre.base.types import unlike
from nacre.interpret import tape
from nacre.interpret.backward import backward
from nacre.interpret.stage import Staging, refuse_question
from nacre.ops.identity import detach, lend
from nacre.ops.pointwise import full_like
from nacre.trace.hooks import HookHandle, added, removed
from nacre.trace.reads import is_read
from nacre.trace.value import Payload, Value, is_concrete, make, owned
from nacre.trace.variable import Leaf, Variable, scope


class Differentiable(Value):
    """A value with the methods of reverse mode."""

    __slots__ = ()

    @property
    def data(self) -> Self:
        """The numbers without the recorded operations; `x.data[i] = v` changes x.

        Assigning a tensor of the same type gives x its numbers, which no gradient sees.  Raises ShapeError or
        DTypeError for another type, KindError for anything but a tensor.

        >>> x = nc.tensor([1.0, 2.0]).requires_grad_()
        >>> x.data = x.data * 0.5
        >>> x.data[0] = 7.0
        >>> x
        Tensor([7., 1.], f32[2], requires_grad=True)
        """
        return lend(self)

    @data.setter
    def data(self, value: Value | Variable) -> None:
        """Replace the numbers; the record stays."""
        held = value.value if isinstance(value, Variable) else value
        if not isinstance(held, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KindError(f"data: the value must be a tensor; got {shown(value)}; write nacre.tensor(value)")
        if held.type is not self.type:
            raise unlike("data: the value", self.type, held.type)
        if isinstance(self.node, Leaf) and self.node.owner is not None:
            self.node.owner.assign(held)
        else:
            tape.renumber(self, held)

    @property
    def requires_grad(self) -> bool:
        """Whether operations on it are recorded for `backward`; setting it is `requires_grad_`.

        Compiled code that reads it of its arguments, or of results computed from them, refuses arguments that require
        a gradient.
        """
        if self.node is None and isinstance(self.content, Payload):
            refuse_question("", self)
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        self.requires_grad_(required)

    @property
    def is_leaf(self) -> bool:
        """Whether `backward` stops here: no recorded operation computed this tensor."""
        return self.node is None or isinstance(self.node, Leaf)

    def requires_grad_(self, required: bool = True) -> Self:
        """Make this tensor a leaf whose `grad` is filled by `backward`, or undo that.  Returns itself."""
        require_flag(required, "requires_grad_")
        if required and not self.type.dtype.is_differentiable:
            raise DTypeError(f"requires_grad_: dtype must be floating-point; got {self.dtype.name}")
        if not self.is_leaf:
            if required:
                return self
            raise GradientError("requires_grad_: the tensor must be a leaf; got a result of an operation; use detach()")
        if not required:
            if isinstance(self.node, Leaf) and (self.node.gradient is not None or self.node.hooks is not None):
                _FROZEN[id(self)] = ref(self, partial(_thawed, id(self))), self.node
            self.node = None
        elif self.node is None:
            held = _own(self)
            self.content, self.layout = held.content, held.layout
            self.node = _frozen(self) or Leaf(self.content.level if isinstance(self.content, Payload) else 0)
            _FROZEN.pop(id(self), None)
        return self

    @property
    def grad(self) -> Self | None:
        """The gradient accumulated by `backward`, or None."""
        node = self.node
        if node is None and _FROZEN:
            node = _frozen(self)
        if isinstance(node, Leaf):
            return node.owner.gradient if node.owner is not None else node.gradient  # type: ignore[return-value]
        return None if node is None else tape.retained(node)  # type: ignore[return-value]

    @grad.setter
    def grad(self, value: Self | None) -> None:
        """Set or clear the gradient of a leaf, or of a result that retains it; its type must be the tensor's own."""
        if value is not None and not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KindError(f"grad: the gradient must be a tensor or None; got a {type(value).__name__}")
        if value is not None and value.type is not self.type:
            raise unlike("grad: the gradient", self.type, value.type)
        node = self.node
        if isinstance(node, Leaf):
            place = node if node.owner is None else node.owner
            place.gradient = value
            return
        hooks = None if node is None else tape.hooks_of(node)
        if hooks is None or not hooks.retains:
            raise GradientError(
                "grad: the gradient of a leaf with requires_grad can be set, and of a result after retain_grad(); got "
                + ("a tensor that requires none" if node is None else "the result of an operation")
                + "; after `x = x - v` in no_grad, x is another tensor: write `x[...] = x - v`"
            )
        hooks.gradient = value

    @property
    def retains_grad(self) -> bool:
        """Whether `backward` stores the gradient of this result, after `retain_grad`."""
        hooks = None if self.node is None else tape.hooks_of(self.node)
        return hooks is not None and hooks.retains

    def retain_grad(self) -> None:
        """Accumulate the gradient of this result in `grad` when `backward` reaches it."""
        if self.node is None:
            raise GradientError(_NONE_REQUIRED.format(operation="retain_grad"))
        if not isinstance(self.node, Leaf):
            tape.retain(self.node)

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Call `hook(gradient)` in each backward pass, when the gradient of this tensor is complete.

        A tensor that the hook returns replaces the gradient; it must have the same type.  Hooks run in the order of
        their registration, with nothing recorded unless `create_graph`.  In a compiled function, a hook runs while the
        function is traced, and its operations are part of the graph.  Returns a handle, whose `remove()` removes the
        hook.  Raises GradientError for a tensor that requires no gradient.

        >>> x = nc.tensor(3.0).requires_grad_()
        >>> y = x * x
        >>> handle = y.register_hook(lambda g: g * 10)
        >>> y.backward()
        >>> x.grad.item()
        60.0
        """
        return self._register("register_hook", hook, after=False)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Call `hook(tensor)` after each time that a backward pass added to the `grad` of this leaf.

        The gradient is complete then, also while the backward pass continues.  Raises GradientError for the result of
        an operation, and for a tensor that requires no gradient.

        >>> x = nc.tensor(3.0).requires_grad_()
        >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
        >>> (x * x).backward()
        6.0
        """
        return self._register("register_post_accumulate_grad_hook", hook, after=True)

    def _register(self, operation: str, hook: Callable[[Any], Any], after: bool) -> HookHandle:
        node = self.node
        if not callable(hook):
            raise KindError(f"{operation}: the hook must be a function; got a {type(hook).__name__}")
        if node is None:
            raise GradientError(_NONE_REQUIRED.format(operation=operation))
        variable = node.owner if isinstance(node, Leaf) else None
        if variable is not None and isinstance(scope(), Staging):
            raise GradientError(
                f"{operation}: a hook of a parameter must be registered outside the function that is compiled; got "
                f"{variable.name or variable.number}; register it before the first call"
            )
        if after and not isinstance(node, Leaf):
            raise GradientError(
                f"{operation}: the tensor must be a leaf; got the result of an operation; use register_hook"
            )
        if isinstance(node, tape.TapeEnd):
            raise node.fault()
        tape.require_heard(operation, node)
        call = partial(hook, self if variable is None else variable) if after else hook
        hooks, number = added(tape.hooks_of(node), call, after)
        tape.set_hooks(node, hooks)
        return HookHandle(lambda: tape.set_hooks(node, removed(tape.hooks_of(node), number)))

    def backward(
        self,
        gradient: TensorLike | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to the `grad` of the leaves that it was computed from.

        `gradient` is the cotangent, with this tensor's type.  It may be omitted for a tensor of one element.  With
        `inputs`, a tensor or several, only their `grad` is added to.  `create_graph` records the backward pass itself;
        `retain_graph`, by default the same, keeps the saved values.  Raises GradientError if no operation was recorded,
        StateError if a backward pass released it.

        >>> x = nc.tensor(3.0).requires_grad_()
        >>> (x * x).backward()
        >>> x.grad
        Tensor(6., f32[])
        """
        seed = seed_of("backward", self, gradient)
        backward(
            [self],
            [seed],
            retain_graph=create_graph if retain_graph is None else retain_graph,
            create_graph=create_graph,
            inputs=None if inputs is None else tracked_values("backward", inputs),
        )

    def detach(self) -> Self:
        """The same numbers without the recorded operations."""
        held = detach(self)
        return make(held.type, held.content, held.layout) if held is self else held  # type: ignore[return-value]


_FROZEN: Final[dict[int, tuple[ref[Value], Leaf]]] = {}  # by identity: leaves with a gradient that require none now


def _frozen(x: Value) -> Leaf | None:
    """The leaf that a tensor had before `requires_grad_(False)`."""
    found = _FROZEN.get(id(x))
    return found[1] if found is not None and found[0]() is x else None


def _own(x: Value) -> Value:
    """A value that a leaf may hold; a constant of a function that is being compiled becomes a value of its graph.

    Raises GradientError for a tensor that this function reads from outside.
    """
    inside = scope()
    if not is_concrete(x) or not isinstance(inside, Staging):
        return owned(x)
    if is_read(x):
        raise GradientError(
            f"requires_grad_: inside a compiled function the tensor must be made there; got one of type {x.type} that "
            f"{inside.name} reads from outside; write `x = x.detach().requires_grad_()`"
        )
    return inside.value(inside.atom(x))


def _thawed(key: int, _: object) -> None:
    """Forget a leaf, whose tensor is gone."""
    _FROZEN.pop(key, None)


_NONE_REQUIRED: Final = (
    "{operation}: the tensor must require a gradient; got one that does not; call requires_grad_() on its inputs"
)

_NONE_RECORDED: Final = (
    "the tensor must be computed from one with requires_grad; got none.  Call requires_grad_() on an input first, "
    "outside nacre.no_grad()",
    "in a compiled, batched or differentiated function the tensor must be computed from a tensor that became a leaf "
    "there, as in `x = x.detach().requires_grad_()`, or in compiled code from a variable (nn.Parameter); got none.  "
    "Other tensors are constants there; use nacre.grad for their gradients, and nothing in nacre.no_grad()",
)


def seed_of(operation: str, output: Value, gradient: TensorLike | None) -> Value:
    """The cotangent of an output of a backward pass."""
    if output.node is None:
        raise GradientError(f"{operation}: {_NONE_RECORDED[bool(STATE.interpreters)]}")
    if gradient is None and output.type.size != 1:
        raise GradientError(
            f"{operation}: without gradient= the tensor must have one element; got shape {output.shape}; "
            "sum it, or pass gradient= of that shape"
        )
    seed = full_like(output, 1.0) if gradient is None else as_tensor(gradient)
    if seed.type is not output.type:
        raise unlike(f"{operation}: `gradient`", output.type, seed.type)
    return seed


def tracked_values(operation: str, given: Any) -> list[Value]:
    """The tensors and variables of an argument: one, or several."""
    several: list[Any] = list(given) if isinstance(given, Sequence | Iterator) else [given]  # pyright: ignore[reportUnknownArgumentType]
    found: list[Any] = [x.value if isinstance(x, Variable) else x for x in several]
    wrong = [x for x in found if not isinstance(x, Value)]
    if wrong or not found:
        got = f"a {type(wrong[0]).__name__}" if wrong else "none"
        raise KindError(f"{operation}: tensors or parameters are required, one or a sequence; got {got}")
    return found
