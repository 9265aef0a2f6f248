"""The context that the methods of an `autograd.Function` share, and the gradients that `backward` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, cast

from nacre.base.errors import GradientError, KindError, StateError
from nacre.base.types import TensorType
from nacre.interpret.forward import zeros
from nacre.interpret.precision.functions import matched
from nacre.trace.value import Value
from nacre.trace.variable import Variable

Compute = Callable[[Any, Sequence[Any]], Any]  # calls `forward` with a context and the arguments


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

    def attributes(self) -> dict[str, Any]:
        """What `forward` has added to the context."""
        return {name: held for name, held in vars(self).items() if name not in _OWN}

    def cotangents(self, given: dict[int, Value], types: Sequence[TensorType | None]) -> list[Value | None]:
        """The gradients that `backward` gets for results of these types, of which some are no tensors."""
        return [
            given.get(k) if k in given or t is None or not self.materialize else zeros(t) for k, t in enumerate(types)
        ]

    def backward(self, function: Any, saved: Sequence[Any], cotangents: Sequence[Value | None]) -> list[Any]:
        """What `backward` returns for saved tensors and gradients of results, as a list."""
        self.saved = tuple(saved)
        try:
            return listed(function.backward(self, *cotangents))
        finally:
            self.saved = None


_OWN: Final = frozenset(vars(FunctionContext(())))


def listed(answer: Any) -> list[Any]:
    """The items of a tuple or list, or the only item."""
    return list(cast("Sequence[Any]", answer)) if isinstance(answer, tuple | list) else [answer]


def gradients_of_arguments(name: str, types: Sequence[TensorType | None], found: Sequence[Any]) -> dict[int, Value]:
    """The gradients that `backward` returned, by the position of the argument; `types` has None for no tensor."""
    if len(found) < len(types) or any(x is not None for x in found[len(types) :]):
        raise GradientError(
            f"{name}.backward: one gradient for each of the {len(types)} arguments of forward must be returned; got "
            f"{len(found)}; return None for an argument without a gradient"
        )
    given: dict[int, Value] = {}
    for k, (x, wanted) in enumerate(zip(found, types, strict=False)):
        if x is None:
            continue
        x = x.value if isinstance(x, Variable) else x
        x = x if wanted is None else matched(x, wanted.dtype)
        if not isinstance(x, Value) or x.type is not wanted:
            _refuse(name, k, wanted, x)
        given[k] = x
    return given


def _refuse(name: str, position: int, wanted: TensorType | None, found: Any) -> NoReturn:
    given = found.type if isinstance(found, Value) else f"a {type(found).__name__}"
    required = "be None, because the argument is no tensor" if wanted is None else f"have type {wanted}, or be None"
    remedy = ""
    if wanted is not None and isinstance(found, Value):
        alike = found.type.shape == wanted.shape
        remedy = f"; return it with astype(nacre.{wanted.dtype.name})" if alike else "; sum or reshape it to that shape"
    raise GradientError(f"{name}.backward: the gradient of argument {position} must {required}; got {given}{remedy}")
